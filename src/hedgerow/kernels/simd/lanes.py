"""Numbers side by side: the vectors of the processor as a Numba type.

LLVM vectorises automatically where adjacent elements in memory are independent.  The search of
splits is a running sum over neighbours, so it handles ``WIDTH`` columns at a time
instead, with these types::

    a, b : int64 or float64 in ``WIDTH`` lanes     a + b, a - b, a * b, a / b
    a >= b, a > b, t & u : truths, for ``choose``

One of ``a`` and ``b`` may be a number, which then stands in every lane.  ``choose`` and
``to_float`` also take numbers alone, so that a formula written once serves columns side by side
and single cuts.

spread(x)                       x in every lane
load_turned(array, at, bin)     ``WIDTH`` vectors: lane j of the i-th is array[at[j] + bin + i]
load_lanes(array, at)           lane j is array[at + j], as int64
gather(array, at)               array[at[j]] in lane j
load_floats(array, at)          lane j is array[at + j], of float64 or int32, as float64
store_floats(array, at, a)      array[at + j] = lane j, to float64
to_float(a)                     int64 to float64
short_to_float(a)               the same in a third of the time, for int64 below 2**51
choose(truths, a, b)            a where true, else b
lane_of(a, j)                   one of the numbers
sum_floats(array, at)           sum of eight neighbours, always in the same order
load_rows(array, at, k)         ``WIDTH`` vectors: lane j of the i-th is array[at[k + j] + i]
truths_of(word)                 the lowest ``WIDTH`` bits of a uint64 as truths, for ``choose``
word_of(truths)                 truths as the lowest bits of a uint64

Layouts in memory have groups of eight numbers, ``N_LANES``, on every processor, whatever
``WIDTH`` is.

Lines of sixteen int32 in memory are added and subtracted as they are::

load_line(array, at)         sixteen neighbours of an int32 array
store_line(array, at, a)     and back
keep_line(a, word)           each of them ``&`` the int32 ``word``

All functions compile for any processor, two lanes at a time where its vectors are shorter.
Division by zero follows IEEE 754.
"""

from __future__ import annotations

from hedgerow.compile import Intrinsic, lanes_of_code

N_LANES = 8
"""Numbers that stand side by side in memory."""

LINE = 16
"""Numbers of a line: 64 bytes, as many as a processor fetches at once."""

WIDTH = lanes_of_code()
"""Lanes that are handled at once: eight with AVX-512, else four.  Where a vector of the processor
holds four or two numbers, four lanes keep the state of a search in sixteen registers: with eight,
half of the instructions spilled and reloaded them (AMD EPYC of 2021).  No result depends on it."""


def _declare(name: str) -> Intrinsic:
    return Intrinsic("hedgerow.kernels.simd.lanes_llvm", name, counts_lanes=True)


spread = _declare("spread")
load_turned = _declare("load_turned")
load_lanes = _declare("load_lanes")
gather = _declare("gather")
load_floats = _declare("load_floats")
store_floats = _declare("store_floats")
to_float = _declare("to_float")
short_to_float = _declare("short_to_float")
choose = _declare("choose")
lane_of = _declare("lane_of")
sum_floats = _declare("sum_floats")
load_line = _declare("load_line")
store_line = _declare("store_line")
keep_line = _declare("keep_line")
load_rows = _declare("load_rows")
truths_of = _declare("truths_of")
word_of = _declare("word_of")
