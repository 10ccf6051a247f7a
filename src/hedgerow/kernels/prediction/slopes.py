"""Linear leaves: a few columns add linear terms to the value of a leaf.

Glossary
--------
line    value and terms of a leaf
term    one column of a line, with a slope and a center
number  the value of a column as float64; missing and infinite ones add nothing
bounds  lowest and highest sum of terms over the rows that the leaf was grown on; the sum
        of any other row is clipped to them

A leaf of value ``v`` predicts, for a row with the numbers ``x``::

    v + clip(sum of slope[k] * (x[column[k]] - center[k]), low, high)

Leaves of LightGBM have other rules.  A line without bounds (``low`` and ``high`` are
infinite) predicts ``v + sum of slope[k] * x[column[k]]``, infinite numbers included.  If
one of its numbers is NaN, it predicts ``v + center[k]``, the same for all its terms.

The slopes are the Newton step in the columns (Shi, Li and Li 2019; de Vito 2017): with
``d = x - center``, where the center is the mean of the leaf's rows weighted by h, they solve

    (S + penalty / H * diag S) slope = - sum of g d        S = sum of h d d'
                                                           H = sum of h

The mean of ``d`` is 0, so the step of the constant does not depend on the slopes: it is
the same as in a leaf without slopes.  The penalty is in units of rows, whatever the scale
of the columns: a single column gets ``H / (H + penalty)`` of the least-squares slope.

The columns are the columns of the last splits on the path to the leaf.

One thread handles a leaf and passes over its rows in order, so the bits do not depend on the
number of threads (:mod:`hedgerow.kernels.prediction.slope_fit`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from hedgerow import kernel_types as kt
from hedgerow.arrays import AnyArray, FloatArray, IntArray
from hedgerow.compile import kernel

TERMS = 3
"""Largest number of terms of a leaf.

In a prototype on 23 tables, the loss changed against constant leaves by -3.0% with 3 terms, -3.0%
with 5 terms and -2.7% with all columns of a path; a model with 3 terms has half as many numbers.
"""

RECORD = 4 + 2 * TERMS
"""Words of a record::

    columns   value   low   high   slope 0   center 0   slope 1   center 1   slope 2   center 2

The first word holds the columns of all terms, 21 bits each.
"""

Records: TypeAlias = tuple[npt.NDArray[np.uint64], FloatArray]
"""The records of all lines, as words and as numbers: two views of the same memory."""

_COLUMN_BITS = 64 // TERMS
_ONE_COLUMN = np.uint64((1 << _COLUMN_BITS) - 1)
_LARGEST = np.finfo(np.float64).max
_ONE = np.uint64(1)


class Slopes(NamedTuple):
    """The terms of all lines, one per node or leaf.

    start          int64, one per line and one more: terms of line n are
                   ``start[n] : start[n + 1]``; those of inner nodes have none
    column         int32, one per term
    slope, center  float64, one per term
    low, high      float64, one per line: bounds; 0 where there is no term
    """

    start: kt.Int64_1D
    column: kt.Int32_1D
    slope: kt.Float64_1D
    center: kt.Float64_1D
    low: kt.Float64_1D
    high: kt.Float64_1D


def part_of_slopes(slopes: Slopes | None, first: int, stop: int) -> Slopes | None:
    """Return the slopes of lines ``first .. stop``."""
    if slopes is None:
        return None
    begin, end = slopes.start[first], slopes.start[stop]
    return Slopes(
        start=slopes.start[first : stop + 1] - begin,
        column=slopes.column[begin:end],
        slope=slopes.slope[begin:end],
        center=slopes.center[begin:end],
        low=slopes.low[first:stop],
        high=slopes.high[first:stop],
    )


def slopes_at(slopes: Slopes, lines: IntArray) -> Slopes:
    """Return the slopes of some lines, in this order."""
    counts = np.diff(slopes.start)[lines]
    start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    terms = np.arange(start[-1]) + np.repeat(slopes.start[:-1][lines] - start[:-1], counts)
    return Slopes(
        start,
        slopes.column[terms],
        slopes.slope[terms],
        slopes.center[terms],
        slopes.low[lines],
        slopes.high[lines],
    )


def scaled_slopes(slopes: Slopes, factor: float) -> Slopes:
    """Return slopes whose terms add ``factor`` times as much."""
    ends = (factor * slopes.low, factor * slopes.high)
    low, high = ends if factor >= 0.0 else ends[::-1]
    return slopes._replace(slope=factor * slopes.slope, low=low, high=high)


def writable_slopes(slopes: Slopes) -> Slopes:
    """Return writable copies: kernels are compiled for writable arrays."""
    return Slopes(*(np.array(part, order="C") for part in slopes))


def records_of(values: FloatArray, slopes: Slopes) -> Records:
    """Return a record for each line; none if a line has no bounds, or more terms than fit."""
    # A record is in two cache lines, the same numbers in separate arrays are in seven or more.
    # Predictions of default models of five tables take 0.73 to 0.78 of the time with records.
    counts = np.diff(slopes.start)
    bounded = bool(np.isfinite(slopes.low).all() and np.isfinite(slopes.high).all())
    fits = counts.max(initial=0) <= TERMS and slopes.column.max(initial=0) < 1 << _COLUMN_BITS
    n_lines = len(values) if bounded and fits else 0
    record = np.zeros((n_lines, RECORD))
    words = record.reshape(-1).view(np.uint64)
    if n_lines:
        record[:, 1], record[:, 2], record[:, 3] = values, slopes.low, slopes.high
        for k in range(TERMS):
            line = np.flatnonzero(counts > k)
            term = slopes.start[line] + k
            record[line, 4 + 2 * k] = slopes.slope[term]
            record[line, 5 + 2 * k] = slopes.center[term]
            columns = slopes.column[term].astype(np.uint64) << np.uint64(_COLUMN_BITS * k)
            words[RECORD * line] |= columns
    return words, record.reshape(-1)


def joined_slopes(parts: Sequence[Slopes | None], sizes: Sequence[int]) -> Slopes | None:
    """Concatenate the slopes of several trees or forests with ``sizes`` lines."""
    if all(part is None for part in parts):
        return None
    whole = [no_slopes(n) if part is None else part for part, n in zip(parts, sizes, strict=True)]
    before = np.cumsum([0, *(len(part.slope) for part in whole)])
    starts = [part.start[1:] + n for part, n in zip(whole, before, strict=False)]
    return Slopes(
        np.concatenate([[0], *starts]).astype(np.int64),
        *(np.concatenate([part[k] for part in whole]) for k in range(1, len(Slopes._fields))),
    )


def no_slopes(n_lines: int) -> Slopes:
    """Return the slopes of lines without any."""
    start, none = np.zeros(n_lines + 1, dtype=np.int64), np.zeros(0)
    column = np.zeros(0, dtype=np.int32)
    return Slopes(start, column, none, none, np.zeros(n_lines), np.zeros(n_lines))


def empty_slopes(n_starts: int, n_terms: int, n_lines: int) -> Slopes:
    """Return space for lines and their terms."""
    return Slopes(
        np.empty(n_starts, dtype=np.int64),
        np.empty(n_terms, dtype=np.int32),
        np.empty(n_terms),
        np.empty(n_terms),
        np.empty(n_lines),
        np.empty(n_lines),
    )


@kernel(inner=True)
def is_finite(x: float) -> bool:
    """Return whether ``x`` is neither NaN nor infinite."""
    return abs(x) <= _LARGEST


@kernel(inner=True)
def clipped(x: float, low: float, high: float) -> float:
    """Return ``x`` clipped to the bounds; 0 for NaN, which infinite terms may add up to."""
    if not abs(x) >= 0.0:
        return 0.0
    return min(max(x, low), high)


@kernel(inner=True)
def sum_of_terms(slopes: Slopes, line: int, numbers: FloatArray, row: int) -> float:
    """Return the sum of the terms of a line for a row."""
    total = 0.0
    unbounded = not is_finite(slopes.low[line])
    for k in range(np.uint64(slopes.start[line]), np.uint64(slopes.start[line + _ONE])):
        x = numbers[row, np.uint64(slopes.column[k])]
        if unbounded:
            if np.isnan(x):
                return slopes.center[k]
            total += slopes.slope[k] * x
        elif is_finite(x):
            total += slopes.slope[k] * (x - slopes.center[k])
    if unbounded:
        return total
    return clipped(total, slopes.low[line], slopes.high[line])


@kernel(inner=True)
def add_lines(
    lines: tuple[FloatArray, Slopes, FloatArray],
    ends: AnyArray,
    n_rows: int,
    scores: FloatArray,
    first_row: int,
) -> None:
    """Add line ``ends[i]``, its value and its terms, to row ``first_row + i`` of an output."""
    values, slopes, numbers = lines
    for i in range(n_rows):
        line, row = np.uint64(ends[i]), np.uint64(first_row + i)
        scores[row] += values[line] + sum_of_terms(slopes, line, numbers, row)


@kernel(inner=True)
def add_records(
    records: Records,
    numbers: FloatArray,
    are_finite: int,
    ends: AnyArray,
    n_rows: int,
    scores: FloatArray,
    first_row: int,
) -> None:
    """Add the same as :func:`add_lines`, from :func:`records_of` the lines."""
    # A term that a line does not have has the slope 0, and adds 0.  ``are_finite``: 1 if all
    # numbers are known to be finite.
    words, record = records
    for i in range(n_rows):
        row, at = np.uint64(first_row + i), np.uint64(ends[i]) * np.uint64(RECORD)
        columns, total = words[at], 0.0
        for k in range(TERMS):
            x = numbers[row, columns & _ONE_COLUMN]
            columns >>= np.uint64(_COLUMN_BITS)
            term = at + np.uint64(4 + 2 * k)
            if are_finite or is_finite(x):
                total += record[term] * (x - record[term + _ONE])
        low, high = record[at + np.uint64(2)], record[at + np.uint64(3)]
        scores[row] += record[at + _ONE] + clipped(total, low, high)


@kernel(inner=True)
def term_at(slopes: Slopes, line: int, k: int, x: float) -> float:
    """Return the value of term ``k`` of a line for the number ``x``."""
    # In a line without bounds NaN gives NaN, which :func:`sum_within` handles.
    if not is_finite(slopes.low[line]):
        return slopes.slope[k] * x
    return slopes.slope[k] * (x - slopes.center[k]) if is_finite(x) else 0.0


@kernel(inner=True)
def sum_within(slopes: Slopes, line: int, total: float) -> float:
    """Return what a line adds to its value if its terms sum up to ``total``."""
    if is_finite(slopes.low[line]):
        return clipped(total, slopes.low[line], slopes.high[line])
    return slopes.center[np.uint64(slopes.start[line])] if np.isnan(total) else total


@kernel(inner=True)
def add_chosen_lines(
    values: kt.Float64_1D,
    slopes: Slopes,
    numbers: kt.Strided[kt.Float64_2D],
    chosen: kt.Float64_1D,
    rows: kt.UInt32_1D,
    start: int,
    stop: int,
    scores: kt.Float64_1D,
) -> None:
    """Add line ``chosen[r]`` to the score of each row r."""
    # The rows are ``rows[start:stop]``, or ``start .. stop`` if ``rows`` is empty.
    listed = len(rows) > 0
    for i in range(np.uint64(start), np.uint64(stop)):
        row = np.uint64(rows[i]) if listed else i
        line = np.uint64(chosen[row])
        scores[row] += values[line] + sum_of_terms(slopes, line, numbers, row)
