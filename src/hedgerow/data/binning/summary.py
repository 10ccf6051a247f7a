"""The four arrays of a quantile summary: construction and validation.

:class:`hedgerow.data.binning.sketch.QuantileSketch` uses these functions and defines the arrays::

    rows  --read_column, present-->  keys, weights  --summarize-->  arrays  --check-->
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import MISSING_KEY, AnyArray, FloatArray, IntArray
from hedgerow.errors import DataError, DataTypeError, ParameterError, brief
from hedgerow.kernels.tables.keys import keys_of_floats
from hedgerow.kernels.tables.sketch import add_down, fit_weights, prefix_bounds

Summary: TypeAlias = tuple[IntArray, FloatArray, FloatArray, FloatArray]
"""``value``, ``rank_low``, ``rank_high``, ``weight``."""

MOST_WEIGHT: Final = 1e280
"""Largest weight of a value: the sum over all rows that fit in memory is finite."""

_MOST_TOTAL: Final = 1e300
_LARGEST_SIZE: Final = 2**24


def checked_size(size: int) -> int:
    """Return the size of a pruned sketch; raise ``ParameterError`` if it is invalid."""
    whole = isinstance(size, int | np.integer) and not isinstance(size, bool)
    if not whole or not 1 <= size <= _LARGEST_SIZE:
        raise ParameterError(
            f"size must be an integer from 1 to {_LARGEST_SIZE}, got {brief(size)}; "
            "about 10 / eps is enough for an error of eps."
        )
    return int(size)


def read_column(
    values: npt.ArrayLike, weights: npt.ArrayLike | None
) -> tuple[AnyArray, FloatArray | None]:
    """Validate all values and weights of a chunk, and return them as arrays."""
    column = np.asarray(values)
    if column.dtype not in (np.float32, np.float64, np.int64):
        raise DataTypeError(
            f"values must be float32, float64 or int64 keys, got {column.dtype}: convert them."
        )
    if column.ndim != 1:
        raise DataError(f"values must be one column, got shape {column.shape}.")
    if weights is None:
        return column, None
    given = np.asarray(weights)
    if given.dtype.kind not in "biuf":
        raise DataTypeError(f"weights must be numbers, got {given.dtype}.")
    if given.shape != column.shape:
        raise DataError(
            f"weights must have one number for each of the {len(column)} values, "
            f"got shape {given.shape}."
        )
    masses: FloatArray = given.astype(np.float64, copy=False)
    fine = (masses >= 0) & (masses <= MOST_WEIGHT)
    if not fine.all():
        row = int(np.argmin(fine))
        raise DataError(
            f"weights must be from 0 to {MOST_WEIGHT}, got {float(masses[row])} in row {row}."
        )
    return column, masses


def present(values: AnyArray, weights: FloatArray | None) -> tuple[IntArray, FloatArray]:
    """Return the keys and weights of the present values with positive weight."""
    keys: IntArray = values if values.dtype == np.int64 else keys_of_floats(values)
    weights = np.ones(len(keys)) if weights is None else weights
    there = (keys != MISSING_KEY) & (weights > 0)
    return keys[there], weights[there]


def summarize(keys: IntArray, weights: FloatArray) -> Summary:
    """Make a summary that keeps all keys, from keys in any order with positive weights."""
    if not len(keys):
        return keys, weights, weights, weights
    order = np.argsort(keys, kind="stable")  # also fixes the order in which equal keys are added
    keys, weights = keys[order], weights[order]
    start = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
    stop = np.append(start[1:], len(keys))
    low, high = prefix_bounds(weights)
    together = np.maximum(add_down(low[stop], -high[start]), 0.0)
    weight = np.where(stop - start == 1, weights[start], together)
    low, high = low[start], high[stop]
    return keys[start], low, high, fit_weights(low, high, weight)


def check(summary: Summary) -> None:
    """Raise ``DataError`` unless the arrays are a valid summary."""
    value, low, high, weight = summary
    if any(array.shape != (value.size,) for array in summary):
        raise DataError("the arrays of a sketch must be flat and of one length.")
    if not len(value):
        return
    # Comparisons with NaN are false.  Sums are compared as real numbers: the float64 `weight`
    # is at most a difference if and only if it is at most the difference rounded down.
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        rules = {
            "value must ascend, without MISSING_KEY": (value[1:] > value[:-1]).all()
            and value[0] != MISSING_KEY,
            "rank_low must begin with 0": low[0] == 0,
            f"ranks and weights must lie from 0 to {_MOST_TOTAL}": all(
                ((array >= 0) & (array <= _MOST_TOTAL)).all() for array in (low, high, weight)
            ),
            "the total must be positive": low[-1] + weight[-1] > 0,
            "rank_low + weight must not exceed the next rank_low": (
                weight[:-1] <= add_down(low[1:], -low[:-1])
            ).all(),
            "rank_high plus the next weight must not exceed the next rank_high": (
                weight <= add_down(high, -np.append(0.0, high[:-1]))
            ).all(),
            "rank_low + weight must not exceed rank_high": (weight <= add_down(high, -low)).all(),
        }
    broken = [rule for rule, holds in rules.items() if not holds]
    if broken:
        raise DataError(f"not a summary of a column: {broken[0]}.")
