"""Machine instructions that Numba does not provide.

prefetch        request a cache line before it is needed
atomic_add      add to a cell shared by threads, return its previous value
atomic_load     read a cell after everything its writer wrote before it
atomic_store    write a cell after everything that this thread wrote before it
fused_multiply_add  ``a * b + c`` rounded once, on every machine
call_address    call a C function at an address (yield, sleep)
call_function   the same with any number of whole numbers
float_of_bits   read an int64 as the float64 with the same bits, and back
array_at        the array at an address, for arrays listed in a table of addresses
line_start      the first word of an array that begins a cache line
words_as        some words of an array as an array of another type, for scratch space
trailing_zeros  index of the lowest bit that is set; the number must not be 0
count_ones      how many bits of a number are set
count_below     how many of ``FAN_OUT`` neighbours are smaller than a value
by_reference    a named tuple by its address: one word for the functions that it is handed to
"""

from __future__ import annotations

from hedgerow.arrays import CACHE_LINE
from hedgerow.compile import Intrinsic

FAN_OUT = 16
"""Neighbours that :data:`count_below` compares at once."""

SPARE_WORDS = CACHE_LINE // 8 - 1
"""Extra words of scratch space, for its alignment; see :data:`line_start`."""


def _declare(name: str) -> Intrinsic:
    return Intrinsic("hedgerow.kernels.primitives.intrinsics_llvm", name)


prefetch = _declare("prefetch")
atomic_add = _declare("atomic_add")
atomic_load = _declare("atomic_load")
atomic_store = _declare("atomic_store")
fused_multiply_add = _declare("fused_multiply_add")
call_address = _declare("call_address")
call_function = _declare("call_function")
float_of_bits = _declare("float_of_bits")
bits_of_float = _declare("bits_of_float")
array_at = _declare("array_at")
line_start = _declare("line_start")
words_as = _declare("words_as")
by_reference = _declare("by_reference")
trailing_zeros = _declare("trailing_zeros")
count_ones = _declare("count_ones")
count_below = _declare("count_below")
