"""Partial dependence of linear leaves, by the tours of the module ``paths``.

The line of a leaf differs from row to row, so the kernels add up lines instead of counting
rows.  Where the column itself is a term of the leaf, the line is evaluated at every grid
point in the box of the leaf.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.compile import kernel
from hedgerow.kernels.dependence.paths import (
    TILE,
    WORDS,
    Questions,
    Visits,
    ask,
    go_down,
    whole_rows,
)
from hedgerow.kernels.prediction.slopes import Slopes, clipped, is_finite, sum_of_terms
from hedgerow.kernels.primitives.intrinsics import trailing_zeros

_ZERO = np.uint64(0)
_ONE = np.uint64(1)


class LineRows(NamedTuple):
    """Rows of a background.

    Attributes
    ----------
    keys : int64 (n_columns, n_tiles * TILE)
        As for :func:`hedgerow.kernels.dependence.paths.count_paths`.
    numbers : float64 (n_rows, n_features)
    weight : float64 (n_rows,)
    """

    keys: IntArray
    numbers: FloatArray
    weight: FloatArray


class LineEnds(NamedTuple):
    """Ends of paths, and the points of grids that lie in their boxes.

    Attributes
    ----------
    node : int64, one per end
    entry_start : int64, one per end and one more
        Entries of end k are ``entry_start[k] : entry_start[k + 1]``, one for each slot.
    column : int64, one per entry
    first, stop : int64, one per entry
        Points of the column's grid in the box.
    missing : uint8, one per entry
        Whether missing values are in the box.
    grid_start : int64, one per column and one more
        Points of column j are ``grid_start[j] : grid_start[j + 1]``; the last point is a
        missing value.  A column that is not requested has no points.
    points : float64
    """

    node: IntArray
    entry_start: IntArray
    column: IntArray
    first: IntArray
    stop: IntArray
    missing: npt.NDArray[np.uint8]
    grid_start: IntArray
    points: FloatArray


@kernel(inner=True)
def add_line_sums(
    mask: tuple[npt.NDArray[np.uint64], int],
    rows: LineRows,
    row: int,
    lines: tuple[FloatArray, Slopes],
    node: int,
) -> float:
    """Return the sum of the line of a node over the rows of a mask, from ``row`` on."""
    words, first = mask
    values, slopes = lines
    total = 0.0
    for word in range(np.uint64(WORDS)):
        left = words[first + word]
        while left != _ZERO:
            own = row + np.uint64(64) * word + np.uint64(trailing_zeros(left))
            line = values[node] + sum_of_terms(slopes, node, rows.numbers, own)
            total += rows.weight[own] * line
            left &= left - _ONE
    return total


@kernel(inner=True)
def follow_line(
    lines: tuple[FloatArray, Slopes],
    node: int,
    term: int,
    rows: LineRows,
    own: int,
    grid: tuple[FloatArray, int, int, int, bool],
    curve: FloatArray,
) -> None:
    """Add the line of a node for one row at each point of a grid of the column of ``term``."""
    values, slopes = lines
    points, begin, end, missing_place, takes_missing = grid
    rest = 0.0
    for k in range(np.uint64(slopes.start[node]), np.uint64(slopes.start[node + _ONE])):
        x = rows.numbers[own, np.uint64(slopes.column[k])]
        if (k != term) & is_finite(x):
            rest += slopes.slope[k] * (x - slopes.center[k])
    weight, value = rows.weight[own], values[node]
    low, high = slopes.low[node], slopes.high[node]
    slope, center = slopes.slope[term], slopes.center[term]
    for p in range(begin, end):
        curve[p] += weight * (value + clipped(rest + slope * (points[p] - center), low, high))
    if takes_missing:
        curve[missing_place] += weight * (value + clipped(rest, low, high))


@kernel(inner=True)
def follow_terms(
    masks: tuple[npt.NDArray[np.uint64], int],
    rows: LineRows,
    row: int,
    lines: tuple[FloatArray, Slopes],
    ends: LineEnds,
    end: int,
    curve: FloatArray,
) -> None:
    """Add the lines of an end at the points of the grids of its terms."""
    words, first = masks
    slopes, node = lines[1], np.uint64(ends.node[end])
    for term in range(np.uint64(slopes.start[node]), np.uint64(slopes.start[node + _ONE])):
        column = np.uint64(slopes.column[term])
        start = np.uint64(ends.grid_start[column])
        stop = np.uint64(ends.grid_start[column + _ONE])
        if start == stop:
            continue
        mask, last = first, stop - _ONE
        begin, finish, takes_missing = start, last, True
        for entry in range(np.uint64(ends.entry_start[end]), np.uint64(ends.entry_start[end + 1])):
            if np.uint64(ends.column[entry]) == column:
                slot = entry - np.uint64(ends.entry_start[end])
                mask = first + (_ONE + slot) * np.uint64(WORDS)
                begin = start + np.uint64(ends.first[entry])
                finish = start + np.uint64(ends.stop[entry])
                takes_missing = ends.missing[entry] == 1
        grid = (ends.points, begin, finish, last, takes_missing)
        for word in range(np.uint64(WORDS)):
            left = words[mask + word]
            while left != _ZERO:
                own = row + np.uint64(64) * word + np.uint64(trailing_zeros(left))
                follow_line(lines, node, term, rows, own, grid, curve)
                left &= left - _ONE


@kernel
def sum_lines(
    rows: LineRows,
    questions: Questions,
    chosen: IntArray,
    visits: Visits,
    start: int,
    stop: int,
    most_masks: int,
    lines: tuple[FloatArray, Slopes],
    ends: LineEnds,
    space: npt.NDArray[np.uint64],
    sums: FloatArray,
    curves: FloatArray,
) -> None:
    """Add up lines over the rows that meet all conditions of a path, and all but those on a column.

    Parameters
    ----------
    rows : LineRows
    questions, chosen, visits, start, stop, most_masks, space
        As for :func:`hedgerow.kernels.dependence.paths.count_paths`; ``visits.out`` counts ends.
    lines : tuple
        Values and slopes of all nodes.
    ends : LineEnds
    sums : float64
        Sums of end k are added from ``entry_start[k] + k`` on: over the rows that meet all
        conditions, then over the rows that meet all but the conditions on the column of each slot.
    curves : float64 (n_trees, n_points)
        Lines of leaves with the column among their terms are added at each point of its grid.
        Row 0 belongs to the first of these trees.
    """
    words, n_rows = np.uint64(WORDS), len(rows.numbers)
    states = np.uint64(len(chosen)) * words
    stride = np.uint64(most_masks) * words
    for row in range(_ZERO, np.uint64(n_rows), np.uint64(TILE)):
        for k in range(np.uint64(len(chosen))):
            ask(rows.keys, questions, np.uint64(chosen[k]), row, space, k * words)
        tree = -1
        for i in range(np.uint64(start), np.uint64(stop)):
            depth = np.uint64(visits.depth[i])
            here = states + depth * stride
            if depth == _ZERO:
                tree += 1
                whole_rows(space, here, row, n_rows)
            else:
                slots = np.uint64(visits.slot[i]), np.uint64(visits.n_before[i])
                answers = space, np.uint64(visits.question[i]) * words, visits.flip[i]
                go_down(space, here - stride, here, slots, answers, False)
            end = visits.out[i]
            if end < 0:
                continue
            node = np.uint64(ends.node[end])
            out = np.uint64(ends.entry_start[end] + end)
            for mask in range(_ONE + np.uint64(visits.n_slots[i])):
                own = (space, here + mask * words)
                sums[out + mask] += add_line_sums(own, rows, row, lines, node)
            follow_terms((space, here), rows, row, lines, ends, end, curves[tree])
