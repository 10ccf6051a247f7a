"""Search and division of one node of a single tree, feature by feature.

Glossary
--------
cell      ``rank << 32 | row``: one value of one row; the rank is the rank of the value
          among the distinct values of its feature, ``MISSING_RANK`` if missing
column    the cells of one feature; the cells of a node are neighbours, sorted
          by (rank, row), missing values last
cut       a division of a column: its first ``n_first`` present cells go left,
          the other ones right, missing values to one of the sides
share     contribution of a row to the sum of its side: ``mass * (y - centre)``
          on a grid, so that sums are exact in any order
mean      of a side: sum of its shares over its mass
flag      1 for the rows that go left

::

    rank      0  0  0 | 1 | 4  4 | 7 | x  x        x: missing
    n_first            3   4      6   7            cuts (7: present | missing)

A node with missing values is scanned twice, with missing values on the right and
then on the left; among equal scores the first one wins.  Scans return the score and ``n_first`` of
a cut that exceeds ``best``, or ``best`` and -1.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hedgerow import kernel_types as kt
from hedgerow.arrays import AnyArray, FloatArray
from hedgerow.cart.impurity import ENTROPY, GINI, counts_score, shares_score, x_log_x
from hedgerow.compile import kernel

MISSING_RANK = 0xFFFFFFFF

_LOW = np.uint64(0xFFFFFFFF)
_HIGH = np.uint64(32)
_ONE = np.uint64(1)


class Column(NamedTuple):
    """The cells of one feature in one node: ``cells[start : start + n_present + n_missing]``."""

    cells: AnyArray
    start: np.int64
    n_present: np.int64
    n_missing: np.int64


class Rows(NamedTuple):
    """Data of each row that the criteria read.

    code   uint32: class; empty in regression
    mass   float64: empty if all masses are 1
    share  float64: ``mass * (y - centre)`` in regression, ``mass * code`` with two classes; empty
           with more
    """

    code: kt.UInt32_1D
    mass: kt.Float64_1D
    share: kt.Float64_1D


class Least(NamedTuple):
    """Least rows and mass of each side of a split."""

    rows: np.int64
    mass: np.float64


class Aim(NamedTuple):
    """What the scans of a node read and look for.

    totals  float64: mass of the node, sum of its shares, class counts
    """

    rows: Rows
    least: Least
    totals: FloatArray
    criterion: np.int64
    n_classes: np.int64


class Scratch(NamedTuple):
    """Scratch arrays of one thread.

    counts          float64 (4 * n_classes,)
    cells, ordered  uint64 (n_rows,): for divisions, and columns of categories in a new order
    groups          int64 (2, most categories + 2): start of the cells of each category, and an
                    order of the categories
    keys            float64 (2, most categories + 2): sort keys of the categories, those under
                    trial and the best ones
    sums            float64 (most categories + 2, n_classes + 2): mass, sum of shares and class
                    counts of each category
    """

    counts: kt.Float64_1D
    cells: kt.UInt64_1D
    ordered: kt.UInt64_1D
    groups: kt.Int64_2D
    keys: kt.Float64_2D
    sums: kt.Float64_2D


@kernel(inline=True, inner=True)
def row_of(cell: int) -> Any:
    """Return the row of a cell."""
    return np.uint64(cell) & _LOW


@kernel(inline=True, inner=True)
def rank_of(cell: int) -> Any:
    """Return the rank of a cell."""
    return np.uint64(cell) >> _HIGH


@kernel(inline=True, inner=True)
def weight_of(weight: FloatArray, row: int) -> float:
    """Return the weight or mass of a row, or 1 without weights."""
    return weight[row] if len(weight) > 0 else 1.0


@kernel(inline=True, inner=True)
def cuts_of(column: Column, missing_left: int) -> tuple[int, int]:
    """Return the number of cells after which a cut may stand, and the rows left of all cells."""
    # The cut after the last value sets missing values apart, if they are on the right.
    if missing_left == 1:
        return column.n_present - 1, column.n_missing
    return column.n_present - np.int64(column.n_missing == 0), np.int64(0)


@kernel(inner=True)
def find_missing(cells: AnyArray, start: int, count: int) -> int:
    """Count the missing values among the cells of a node."""
    stop = start + count
    return stop - first_of_other_rank(cells, start, stop, MISSING_RANK - 1)


@kernel(inner=True)
def first_of_other_rank(cells: AnyArray, start: int, stop: int, rank: int) -> int:
    """Find the first cell of ``start .. stop`` with a rank above ``rank``; no rank is lower."""
    first, last = np.uint64(start), np.uint64(stop)
    while first < last:
        middle = (first + last) >> _ONE
        if rank_of(cells[middle]) > np.uint64(rank):
            last = middle
        else:
            first = middle + _ONE
    return np.int64(first)


@kernel(inner=True)
def sum_shares(cells: AnyArray, rows: Rows, start: int, stop: int) -> tuple[float, float]:
    """Return the sum of shares and the mass of cells ``start .. stop``."""
    share, mass = rows.share, rows.mass
    weighted = len(mass) > 0
    side = side_mass = 0.0
    for i in range(np.uint64(start), np.uint64(stop)):
        row = row_of(cells[i])
        side += share[row]
        side_mass += mass[row] if weighted else 1.0
    return side, side_mass


@kernel(inner=True)
def scan_shares(column: Column, aim: Aim, missing_left: int, best: float) -> tuple[float, int]:
    """Find the best cut by sums of shares: squared error, Poisson, and Gini with two classes."""
    rows, least, criterion = aim.rows, aim.least, aim.criterion
    cells, share, mass = column.cells, rows.share, rows.mass
    weighted = len(mass) > 0
    total = column.n_present + column.n_missing
    start, stop = column.start, column.start + column.n_present
    side, side_mass, chosen = 0.0, 0.0, np.int64(-1)
    n_cuts, before = cuts_of(column, missing_left)
    if missing_left == 1:
        side, side_mass = sum_shares(cells, rows, stop, column.start + total)
    all_mass, all_share = aim.totals[0], aim.totals[1]
    lowest, highest = least.rows - before, total - least.rows - before
    begin = np.int64(0)
    # Where more than half of the cells have the first rank, as in most columns of counts and
    # flags, their sum is the total minus the sum of the other cells.
    if n_cuts > 0 and rank_of(cells[start]) == rank_of(cells[start + column.n_present // 2]):
        end = first_of_other_rank(cells, start, stop, rank_of(cells[start]))
        rest = sum_shares(cells, rows, end - 1, stop if missing_left == 1 else start + total)
        side, side_mass = all_share - rest[0], all_mass - rest[1]
        begin = end - 1 - start
    first = np.uint64(start)
    for i in range(np.uint64(begin), np.uint64(max(n_cuts, begin))):
        cell = cells[first + i]
        row = row_of(cell)
        side += share[row]
        side_mass += mass[row] if weighted else 1.0
        if rank_of(cell) == rank_of(cells[first + i + _ONE]):
            continue
        n_first = np.int64(i) + 1
        other_mass = all_mass - side_mass
        if n_first < lowest or n_first > highest or min(side_mass, other_mass) < least.mass:
            continue
        other = all_share - side
        score = shares_score(criterion, side, side_mass, other, other_mass)
        if score > best:
            best, chosen = score, n_first
    return best, chosen


@kernel(inline=True, inner=True)
def move_row(
    criterion: int, n_classes: int, counts: FloatArray, k: int, mass: float
) -> tuple[float, float]:
    """Move a row of class k to the left; return the changes of both sides' sums of terms."""
    # A term is the square of a class count (Gini) or ``x log x`` of it (entropy).
    left, right = counts[k], counts[n_classes + k]
    counts[k] = left + mass
    counts[n_classes + k] = right - mass
    if criterion == GINI:
        return mass * (left + left + mass), mass * (mass - right - right)
    new_left, new_right = x_log_x(left + mass), x_log_x(right - mass)
    at = n_classes + n_classes + k
    change_left, change_right = new_left - counts[at], new_right - counts[at + n_classes]
    counts[at] = new_left
    counts[at + n_classes] = new_right
    return change_left, change_right


@kernel(inner=True)
def start_counts(criterion: int, n_classes: int, counts: FloatArray, totals: FloatArray) -> float:
    """Put all rows on the right; return the sum of the terms of that side."""
    terms = 0.0
    for k in range(n_classes):
        mass = totals[2 + k]
        term = mass * mass if criterion == GINI else x_log_x(mass)
        counts[k] = 0.0
        counts[n_classes + k] = mass
        counts[2 * n_classes + k] = 0.0
        counts[3 * n_classes + k] = term
        terms += term
    return terms


@kernel(inner=True)
def scan_counts(
    column: Column, aim: Aim, missing_left: int, best: float, counts: FloatArray
) -> tuple[float, int]:
    """Find the best cut by class counts, like :func:`scan_shares`."""
    rows, least, criterion, n_classes = aim.rows, aim.least, aim.criterion, aim.n_classes
    cells, code, mass = column.cells, rows.code, rows.mass
    weighted = len(mass) > 0
    classes = np.uint64(n_classes)
    start, n_present = np.uint64(column.start), np.uint64(column.n_present)
    total = column.n_present + column.n_missing
    side_mass, left_terms = 0.0, 0.0
    right_terms = start_counts(criterion, n_classes, counts, aim.totals)
    n_cuts, before = cuts_of(column, missing_left)
    if missing_left == 1:
        for i in range(start + n_present, start + np.uint64(total)):
            row = row_of(cells[i])
            w = mass[row] if weighted else 1.0
            add_left, add_right = move_row(criterion, classes, counts, np.uint64(code[row]), w)
            left_terms += add_left
            right_terms += add_right
            side_mass += w
    chosen, all_mass = np.int64(-1), aim.totals[0]
    # Running sums of terms take O(1) per row.  They accumulate rounding errors, so a cut that may
    # be the best is scored again from its counts, which are exact.
    slack = 1e-9 * all_mass
    lowest, highest = least.rows - before, total - least.rows - before
    for i in range(np.uint64(max(n_cuts, 0))):
        cell = cells[start + i]
        row = row_of(cell)
        w = mass[row] if weighted else 1.0
        add_left, add_right = move_row(criterion, classes, counts, np.uint64(code[row]), w)
        left_terms += add_left
        right_terms += add_right
        side_mass += w
        if rank_of(cell) == rank_of(cells[start + i + _ONE]):
            continue
        n_first = np.int64(i) + 1
        other_mass = all_mass - side_mass
        if n_first < lowest or n_first > highest or min(side_mass, other_mass) < least.mass:
            continue
        if criterion == ENTROPY:
            rough = left_terms - x_log_x(side_mass) + (right_terms - x_log_x(other_mass))
        else:
            rough = left_terms / side_mass + right_terms / other_mass
        if rough > best - slack:
            score = counts_score(criterion, counts, n_classes, side_mass, other_mass)
            if score > best:
                best, chosen = score, n_first
    return best, chosen


@kernel(inner=True)
def raise_flags(column: Column, n_first: int, missing_left: int, flags: AnyArray) -> None:
    """Write the flag of each row of a node whose ``column`` is cut."""
    start = np.uint64(column.start)
    n_present = np.uint64(column.n_present)
    for i in range(np.uint64(column.n_present + column.n_missing)):
        left = i < np.uint64(n_first) if i < n_present else missing_left == 1
        flags[row_of(column.cells[start + i])] = np.uint8(left)


@kernel(inner=True)
def divide_cells(cells: AnyArray, start: int, stop: int, flags: AnyArray, spare: AnyArray) -> int:
    """Move flagged cells, or plain rows, to the front in the same order; return their number."""
    left = np.uint64(start)
    right = np.uint64(0)
    for i in range(np.uint64(start), np.uint64(stop)):
        cell = cells[i]
        step = np.uint64(flags[row_of(cell)])
        # Both arrays are written, one write counts: there is no branch to mispredict.
        cells[left] = cell
        spare[right] = cell
        left += step
        right += _ONE - step
    for i in range(right):
        cells[left + i] = spare[i]
    return np.int64(left) - start
