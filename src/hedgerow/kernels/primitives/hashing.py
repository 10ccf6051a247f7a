"""Random numbers as functions of their purpose and item.

``hash64(seed, stream, index)`` is the number for item ``index`` (a row, say)
of one purpose ``stream`` under ``seed``.  It depends on nothing else: not on
the order in which items are processed, nor on the thread, chunk or machine that
calls it.  It is the generator SplitMix64 (Steele, Lea, Flood, OOPSLA 2014) entered
at step ``index`` of the sequence that seed and stream choose.

Each purpose has a stream of its own, so two purposes never share numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.compile import kernel

_STEP = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio, odd
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_ONE = np.uint64(1)

BIN_SAMPLE_STREAM = 1
"""Stream for the rows from which cuts of computed columns are chosen."""

CONTENT_STREAM = 2
"""Stream for the columns in the hash of what a row holds."""


@kernel(inline=True, inner=True)
def mix64(bits: Any) -> Any:
    """Scramble 64 bits, one to one; each output bit depends on every input bit."""
    bits = (bits ^ (bits >> np.uint64(30))) * _MIX_1
    bits = (bits ^ (bits >> np.uint64(27))) * _MIX_2
    return bits ^ (bits >> np.uint64(31))


mixed_bits = mix64.py_func
"""``mix64`` of each number of an array of uint64."""


@kernel(inline=True, inner=True)
def hash64(seed: int, stream: int, index: int) -> Any:
    """Return 64 random bits (uint64) for an item."""
    # Negative numbers count as their two's complement.
    start = mix64(mix64(np.uint64(seed) + _STEP) + np.uint64(stream) * _STEP)
    return mix64(start + (np.uint64(index) + _ONE) * _STEP)


def hash_range(seed: int, stream: int, start: int, stop: int) -> npt.NDArray[np.uint64]:
    """Return :func:`hash64` of the items ``start`` to ``stop``."""
    return hash_numbers(seed, stream, np.arange(start, stop, dtype=np.uint64))


def hash_numbers(
    seed: int, stream: int, numbers: npt.NDArray[np.int64 | np.uint64]
) -> npt.NDArray[np.uint64]:
    """Return :func:`hash64` of each number."""
    with np.errstate(over="ignore"):
        first = mixed_bits(np.array([seed % 2**64], dtype=np.uint64) + _STEP)
        first = mixed_bits(first + np.uint64(stream) * _STEP)
        return mixed_bits(first + (numbers.astype(np.uint64, copy=False) + _ONE) * _STEP)
