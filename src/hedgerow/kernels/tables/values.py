"""The numbers of a table, float32, float64 or int64 keys, which kernels read as keys.

A table may be the user's own memory and is not converted.  A kernel of its own for each type
would be compiled three times: the kernels here ask for the type instead, which is the same for
all numbers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hedgerow import kernel_types as kt
from hedgerow.arrays import MISSING_KEY, AnyArray, IntArray, read_only
from hedgerow.compile import kernel
from hedgerow.kernels.primitives.intrinsics import bits_of_float, float_of_bits

FLOAT32, FLOAT64, KEYS = range(3)

DTYPES = (np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.int64))
"""The types of numbers of these kinds."""

_LOW_63 = np.int64(0x7FFFFFFFFFFFFFFF)
_ZERO = np.uint64(0)


class Values(NamedTuple):
    """The numbers of a table, (2, n_rows, n_features).

    kind    FLOAT32, FLOAT64 or KEYS
    narrow  float32 numbers; empty for the other kinds
    wide    int64 words: bits of float64 numbers, or keys; empty for float32 numbers
    """

    kind: int
    narrow: kt.ReadOnly[kt.Strided[kt.Float32_3D]]
    wide: kt.ReadOnly[kt.Strided[kt.Int64_3D]]


class ValueList(NamedTuple):
    """Numbers of shape (n,), in the form of :class:`Values`."""

    kind: int
    narrow: kt.ReadOnly[kt.Float32_1D]
    wide: kt.ReadOnly[kt.Int64_1D]


def views_of(values: AnyArray) -> tuple[npt.NDArray[np.float32], IntArray]:
    """Return numbers as float32 and as int64 words; the view that does not apply is empty."""
    none = (0,) * values.ndim
    if values.dtype == np.float32:
        return values, np.zeros(none, dtype=np.int64)
    return np.zeros(none, dtype=np.float32), values.view(np.int64)


def values_of_table(values: AnyArray) -> Values:
    """Return a table for kernels, broadcast so that they are compiled once for all strides."""
    views = (np.broadcast_to(view, (2, *view.shape)) for view in views_of(values))
    return Values(DTYPES.index(values.dtype), *views)


def values_of_list(values: AnyArray) -> ValueList:
    """Return numbers of shape (n,), which must be contiguous, for kernels."""
    return ValueList(DTYPES.index(values.dtype), *map(read_only, views_of(values)))


@kernel(inline=True, inner=True)
def key_of_float(number: float) -> int:
    """Return the key of a float."""
    if number != number:
        return np.int64(MISSING_KEY)
    bits = bits_of_float(number + 0.0)  # no -0.0
    return bits ^ ((bits >> 63) & _LOW_63)


@kernel(inline=True, inner=True)
def key_in_table(values: Values, row: int, column: int) -> int:
    """Return the key of a number of a table."""
    if values.kind == FLOAT32:
        return key_of_float(np.float64(values.narrow[_ZERO, row, column]))
    word = values.wide[_ZERO, row, column]
    return key_of_float(float_of_bits(word)) if values.kind == FLOAT64 else word


@kernel(inline=True, inner=True)
def key_in_list(values: ValueList, i: int) -> int:
    """Return the key of a number of a list."""
    if values.kind == FLOAT32:
        return key_of_float(np.float64(values.narrow[i]))
    word = values.wide[i]
    return key_of_float(float_of_bits(word)) if values.kind == FLOAT64 else word
