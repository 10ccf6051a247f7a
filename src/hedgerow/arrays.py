"""Names and dtypes of the arrays that the parts of Hedgerow exchange.

All dtypes have a fixed width: a model trained on one platform has the same bytes on
any other.

Glossary
--------
bin      small integer that represents a value in training (``uint8``)
key      64-bit integer that represents a value in comparisons: its order
         is the order of the values, also for adjacent floats, infinities and
         64-bit integers (see :mod:`hedgerow.kernels.tables.keys`)
cut      threshold between two bins: a value goes left if ``key <= cut``
missing  NaN, null, NaT: the largest bin of a feature's stride, or ``MISSING_KEY``
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar, get_type_hints

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]
BinArray: TypeAlias = npt.NDArray[np.uint8]
RowArray: TypeAlias = npt.NDArray[np.uint32]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
AnyArray: TypeAlias = npt.NDArray[Any]
Fields = TypeVar("Fields")


MISSING_KEY = np.iinfo(np.int64).min
MISSING_KEY_32 = np.iinfo(np.int32).min

CACHE_LINE = 64
"""Size of a cache line in bytes; hot arrays start at a multiple of it."""


def aligned_empty(shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> AnyArray:
    """Return an uninitialised C-ordered array whose first byte is at the start of a cache line."""
    return _aligned(np.empty, shape, np.dtype(dtype))


def aligned_zeros(shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> AnyArray:
    """Return an array as :func:`aligned_empty`, filled with zeros."""
    # The operating system clears the pages of a large one when they are first used, by all threads
    # at the same time; filling it here would take one thread.
    return _aligned(np.zeros, shape, np.dtype(dtype))


def _aligned(
    make: Callable[..., AnyArray], shape: int | tuple[int, ...], dtype: np.dtype[Any]
) -> AnyArray:
    n_items = math.prod(shape) if isinstance(shape, tuple) else shape
    n_bytes = int(n_items) * dtype.itemsize
    block = make(n_bytes + CACHE_LINE, dtype=np.uint8)
    start = -block.__array_interface__["data"][0] % CACHE_LINE
    return block[start : start + n_bytes].view(dtype).reshape(shape)


@functools.cache
def unused(kind: type[Fields]) -> Fields:
    """Return a named tuple of which nothing is used: its arrays are empty, its numbers are 0.

    Examples
    --------
    >>> from hedgerow.growing.core.state import Search
    >>> unused(Search).found.shape
    (0, 0, 0)
    """
    values: list[Any] = []
    for hint in get_type_hints(kind, include_extras=True).values():
        if array := getattr(hint, "__metadata__", None):
            dtype, axes = array[0].rstrip("]").split("[")
            values.append(np.zeros((0,) * len(axes.split(",")), dtype))
        else:
            values.append(unused(hint) if hasattr(hint, "_fields") else hint(0))
    return kind(*values)


def distinct(values: npt.ArrayLike) -> AnyArray:
    """Return the different values in ascending order; NaN and NaT come last, once."""
    # ``np.unique`` takes 40 times as long on a million integers since NumPy 2.3, and takes the lock
    # of the interpreter in C++ code that no exception may leave: Python before 3.14 ends background
    # threads there by an unwinding, which aborts a process that is ending.
    ordered: AnyArray = np.sort(np.asarray(values), axis=None)
    is_first = np.ones(len(ordered), dtype=np.bool_)
    is_first[1:] = ordered[1:] != ordered[:-1]
    if ordered.dtype.kind in "fmM":
        n_missing = int(np.count_nonzero(np.isnan(ordered)))
        is_first[len(ordered) - max(n_missing - 1, 0) :] = False
    return ordered[is_first]


def numbers_reaching(below: Callable[[AnyArray], AnyArray], goals: AnyArray) -> AnyArray:
    """Return the largest uint64 number of each goal where ``below``, which rises, is below it."""
    # ``below`` is asked for 15 numbers of each goal at a time, (n, 15): on ranks a call of it is an
    # exchange, and four bits at once need 16 of them instead of 64.
    found = np.zeros((len(goals), 1), dtype=np.uint64)
    for place in np.arange(60, -4, -4).astype(np.uint64):
        tried = found | (np.arange(1, 16, dtype=np.uint64) << place)
        digit = (below(tried) < goals[:, None]).sum(axis=1, keepdims=True)
        found |= digit.astype(np.uint64) << place
    return found[:, 0]


def real_numbers(values: Any) -> FloatArray | None:
    """Return ``values`` as float64 of any shape; None if they are not all real numbers."""
    try:
        array: AnyArray = np.asarray(values)
        if array.dtype.kind not in "biufO":
            return None
        if array.dtype.kind == "O" and any(isinstance(x, str | bytes) for x in array.flat):
            return None  # NumPy would parse the text
        return array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        return None


def read_only(array: AnyArray) -> AnyArray:
    """Return a read-only view of an array, which its owner may still write to."""
    view = array.view()
    view.flags.writeable = False
    return view
