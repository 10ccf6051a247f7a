"""Split search of a single tree for several targets, and random cuts.

Shares of several targets follow one another: ``share[t * n_rows + row]``.  All have the same
unit, so the squares of their sums can be added.
"""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray
from hedgerow.compile import kernel
from hedgerow.kernels.cart.impurity import ENTROPY, counts_score, shares_score
from hedgerow.kernels.cart.limits import Limits, keeps_limits
from hedgerow.kernels.cart.search import Column, Least, Rows, Scratch, rank_of, row_of, sum_shares


@kernel(inner=True)
def add_targets(cells: AnyArray, rows: Rows, start: int, stop: int, sums: FloatArray) -> float:
    """Add the shares of some cells to the sums of all targets; return the mass of the cells."""
    n_rows, n_targets = len(rows.share) // len(sums), len(sums)
    total = 0.0
    for i in range(start, stop):
        row = np.int64(row_of(cells[i]))
        total += rows.mass[row] if len(rows.mass) > 0 else 1.0
        for t in range(n_targets):
            sums[t] += rows.share[t * n_rows + row]
    return total


@kernel(inner=True)
def targets_score(sums: FloatArray, totals: FloatArray, mass: float, other_mass: float) -> float:
    """Return the score of squared error, summed over the targets; ``sums`` are the left side's."""
    left = right = 0.0
    for t in range(len(sums)):
        other = totals[1 + t] - sums[t]
        left += sums[t] * sums[t]
        right += other * other
    return left / mass + right / other_mass


@kernel(inner=True)
def scan_targets(
    column: Column,
    rows: Rows,
    least: Least,
    missing_left: int,
    totals: FloatArray,
    best: float,
    sums: FloatArray,
) -> tuple[float, int]:
    """Find the best cut by the squared error of several targets, like :func:`scan_shares`."""
    cells, start = column.cells, column.start
    total = column.n_present + column.n_missing
    sums[:] = 0.0
    side_mass, before = 0.0, np.int64(0)
    n_cuts = column.n_present
    if missing_left == 1:
        side_mass = add_targets(cells, rows, start + n_cuts, start + total, sums)
        before = column.n_missing
    if missing_left == 1 or column.n_missing == 0:
        n_cuts -= 1
    chosen = np.int64(-1)
    for i in range(n_cuts):
        side_mass += add_targets(cells, rows, start + i, start + i + 1, sums)
        if rank_of(cells[start + i]) == rank_of(cells[start + i + 1]):
            continue
        n_left, other_mass = before + i + 1, totals[0] - side_mass
        if min(n_left, total - n_left) < least.rows or min(side_mass, other_mass) < least.mass:
            continue
        score = targets_score(sums, totals, side_mass, other_mass)
        if score > best:
            best, chosen = score, np.int64(i + 1)
    return best, chosen


@kernel(inner=True)
def first_above(
    cells: AnyArray, start: int, stop: int, values: FloatArray, threshold: float
) -> int:
    """Find the first of the present cells ``start .. stop`` with a value above the threshold."""
    first, last = np.int64(start), np.int64(stop)
    while first < last:
        middle = (first + last) >> 1
        if values[np.int64(rank_of(cells[middle]))] > threshold:
            last = middle
        else:
            first = middle + 1
    return first


@kernel(inner=True)
def drawn_threshold(low: float, high: float, share: float) -> float:
    """Return the number at ``share`` of the way from ``low`` to ``high``, which is excluded."""
    if np.isfinite(low) and np.isfinite(high):
        drawn = low * (1.0 - share) + high * share
        if low <= drawn < high:
            return drawn
    return low  # also where one of them is infinite


@kernel(inner=True)
def left_counts(
    column: Column, rows: Rows, first: int, last: int, totals: FloatArray, n_classes: int,
    counts: FloatArray,
) -> float:  # fmt: skip
    """Add the classes of some cells to the left side; return the mass of the cells."""
    total = 0.0
    for i in range(first, last):
        row = row_of(column.cells[i])
        mass = rows.mass[row] if len(rows.mass) > 0 else 1.0
        counts[np.int64(rows.code[row])] += mass
        total += mass
    for k in range(n_classes):
        counts[n_classes + k] = totals[2 + k] - counts[k]
    return total


@kernel(inner=True)
def score_cut(
    column: Column, rows: Rows, least: Least, n_first: int, missing_left: int,
    totals: FloatArray, criterion: int, n_classes: int, n_targets: int, limits: Limits,
    scratch: Scratch,
) -> float:  # fmt: skip
    """Return the score of one cut; minus infinity if it is not allowed."""
    cells, start = column.cells, column.start
    middle, end = start + column.n_present, start + column.n_present + column.n_missing
    n_left = n_first + (column.n_missing if missing_left == 1 else 0)
    if min(n_left, end - start - n_left) < max(least.rows, 1):
        return -np.inf
    by_counts = n_classes > 2 or criterion == ENTROPY
    mass = side = 0.0
    if n_targets > 1 or by_counts:
        scratch.counts[:] = 0.0
    for part in range(1 + missing_left):
        first = start if part == 0 else middle
        last = start + n_first if part == 0 else end
        if n_targets > 1:
            mass += add_targets(cells, rows, first, last, scratch.counts)
        elif by_counts:
            mass += left_counts(column, rows, first, last, totals, n_classes, scratch.counts)
        else:
            some = sum_shares(cells, rows, first, last)
            side, mass = side + some[0], mass + some[1]
    other_mass = totals[0] - mass
    if min(mass, other_mass) < least.mass or min(mass, other_mass) <= 0.0:
        return -np.inf
    if n_targets > 1:
        return targets_score(scratch.counts, totals, mass, other_mass)
    if by_counts:
        return counts_score(criterion, scratch.counts, n_classes, mass, other_mass)
    other = totals[1] - side
    if limits.checked == 1 and not keeps_limits(limits, side / mass, other / other_mass):
        return -np.inf
    return shares_score(criterion, side, mass, other, other_mass)
