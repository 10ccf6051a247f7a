"""Order of the categories of a node in which a cut divides them well.

Glossary
--------
group     the rows of a node that have one category; the cells of a group are
          neighbours because they share a rank
order     groups one after another; a cut of the ordered column is a set of
          categories that goes left

With two classes or squared error, the best of all sets is a cut of the order by mean
target (Breiman and others, 1984, theorem 4.5).  With more classes all sets are tried if
there are at most ten categories.  Otherwise the search tries each category against all
others and, for each class, the cuts of the order by the share of the class.
"""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray, IntArray
from hedgerow.cart.impurity import counts_score
from hedgerow.cart.search import Aim, Column, Least, Rows, Scratch, rank_of, row_of, weight_of
from hedgerow.compile import kernel

MOST_TRIED = 10
"""Largest number of categories for which all sets are tried."""


@kernel(inner=True)
def gather_groups(column: Column, rows: Rows, n_classes: int, scratch: Scratch) -> int:
    """Fill the first row of ``groups``, and ``sums``; return the number of groups."""
    starts, sums = scratch.groups[0], scratch.sums
    n_groups = np.int64(0)
    for i in range(column.n_present):
        cell = column.cells[column.start + i]
        row = row_of(cell)
        if i == 0 or rank_of(cell) != rank_of(column.cells[column.start + i - 1]):
            starts[n_groups] = i
            sums[n_groups, :] = 0.0
            n_groups += 1
        mass = weight_of(rows.mass, row)
        sums[n_groups - 1, 0] += mass
        if len(rows.share) > 0:
            sums[n_groups - 1, 1] += rows.share[row]
        if n_classes > 0:
            sums[n_groups - 1, 2 + np.int64(rows.code[row])] += mass
    starts[n_groups] = column.n_present
    return n_groups


@kernel(inner=True)
def sort_groups(keys: FloatArray, order: IntArray, n_groups: int) -> None:
    """Write the numbers of the groups, sorted by (key, number), to ``order``: Shell's sort."""
    for g in range(n_groups):
        order[g] = g
    gap = n_groups // 2
    while gap > 0:
        for i in range(gap, n_groups):
            moved = order[i]
            j = i
            while j >= gap:
                other = order[j - gap]
                ahead = keys[other] > keys[moved]
                if not (ahead or (keys[other] == keys[moved] and other > moved)):
                    break
                order[j] = other
                j -= gap
            order[j] = moved
        gap //= 2


@kernel(inner=True)
def start_right(sums: FloatArray, n_groups: int, n_classes: int, counts: FloatArray) -> float:
    """Write the class counts with all groups on the right; return the mass."""
    counts[: 2 * n_classes] = 0.0
    mass = 0.0
    for g in range(n_groups):
        mass += sums[g, 0]
        for k in range(n_classes):
            counts[n_classes + k] += sums[g, 2 + k]
    return mass


@kernel(inner=True)
def shift_group(group: FloatArray, n_classes: int, counts: FloatArray, sign: float) -> float:
    """Move a group to the left (``sign`` 1) or back (-1); return the change of the left mass."""
    for k in range(n_classes):
        counts[k] += sign * group[2 + k]
        counts[n_classes + k] -= sign * group[2 + k]
    return sign * group[0]


@kernel(inner=True)
def add_missing(column: Column, rows: Rows, n_classes: int, n_groups: int, scratch: Scratch) -> int:
    """Make the missing values, if any, the last group; return the number of groups."""
    if column.n_missing == 0:
        return n_groups
    starts, sums = scratch.groups[0], scratch.sums
    sums[n_groups, :] = 0.0
    for i in range(column.n_present, column.n_present + column.n_missing):
        row = row_of(column.cells[column.start + i])
        mass = weight_of(rows.mass, row)
        sums[n_groups, 0] += mass
        sums[n_groups, 2 + np.int64(rows.code[row])] += mass
    starts[n_groups + 1] = column.n_present + column.n_missing
    return n_groups + 1


@kernel(inner=True)
def try_sets(criterion: int, n_classes: int, n_groups: int, least: Least, scratch: Scratch) -> None:
    """Try all sets of groups without the last; write key 0 for the best set, 1 for the others."""
    sums, counts, starts = scratch.sums, scratch.counts, scratch.groups[0]
    trial, keys = scratch.keys[0], scratch.keys[1]
    mass = start_right(sums, n_groups, n_classes, counts)
    trial[:n_groups] = 1.0
    left_mass, n_left, best = 0.0, np.int64(0), -np.inf
    for code in range(1, 1 << (n_groups - 1)):
        g = 0
        while (code >> g) & 1 == 0:
            g += 1
        # The sets follow a Gray code: each differs from the one before in one group.
        sign = 1.0 if trial[g] == 1.0 else -1.0
        left_mass += shift_group(sums[g], n_classes, counts, sign)
        n_left += np.int64(sign) * (starts[g + 1] - starts[g])
        trial[g] -= sign
        if min(n_left, starts[n_groups] - n_left) < least.rows:
            continue
        if min(left_mass, mass - left_mass) < least.mass:
            continue
        score = counts_score(criterion, counts, n_classes, left_mass, mass - left_mass)
        if score > best:
            best = score
            for k in range(n_groups):
                keys[k] = trial[k]


@kernel(inner=True)
def try_each(criterion: int, n_classes: int, n_groups: int, scratch: Scratch) -> float:
    """Try each group against the others: key 0 for the best, 1 for the others; return its score."""
    sums, counts, keys = scratch.sums, scratch.counts, scratch.keys[1]
    mass = start_right(sums, n_groups, n_classes, counts)
    best = -np.inf
    for g in range(n_groups):
        left_mass = shift_group(sums[g], n_classes, counts, 1.0)
        score = counts_score(criterion, counts, n_classes, left_mass, mass - left_mass)
        shift_group(sums[g], n_classes, counts, -1.0)
        if score > best:
            best = score
            keys[:n_groups] = 1.0
            keys[g] = 0.0
    return best


@kernel(inner=True)
def try_orders(
    criterion: int, n_classes: int, n_groups: int, best: float, scratch: Scratch
) -> None:
    """Try the order of the groups by the share of each class; write the keys of the best order."""
    sums, counts, order = scratch.sums, scratch.counts, scratch.groups[1]
    trial, keys = scratch.keys[0], scratch.keys[1]
    for k in range(n_classes):
        for g in range(n_groups):
            trial[g] = sums[g, 2 + k] / sums[g, 0]
        sort_groups(trial, order, n_groups)
        mass = start_right(sums, n_groups, n_classes, counts)
        left_mass = 0.0
        for i in range(n_groups - 1):
            left_mass += shift_group(sums[order[i]], n_classes, counts, 1.0)
            score = counts_score(criterion, counts, n_classes, left_mass, mass - left_mass)
            if score > best:
                best = score
                for j in range(n_groups):
                    keys[j] = trial[j]


@kernel(inner=True)
def order_column(column: Column, aim: Aim, scratch: Scratch) -> Column:
    """Write the column with its categories in a good order to ``scratch.ordered``; return it."""
    # The ranks of present cells are the positions of their groups in that order.
    rows, criterion, n_classes = aim.rows, aim.criterion, aim.n_classes
    n_groups = gather_groups(column, rows, n_classes, scratch)
    sums, keys = scratch.sums, scratch.keys[1]
    if n_classes <= 2:
        for g in range(n_groups):
            keys[g] = sums[g, 1] / sums[g, 0]
    elif n_groups <= MOST_TRIED:
        # With missing values, the best set is the side without them.
        keys[:n_groups] = 0.0
        n_all = add_missing(column, rows, n_classes, n_groups, scratch)
        try_sets(criterion, n_classes, n_all, aim.least, scratch)
    else:
        best = try_each(criterion, n_classes, n_groups, scratch)
        try_orders(criterion, n_classes, n_groups, best, scratch)
    starts, order, ordered = scratch.groups[0], scratch.groups[1], scratch.ordered
    sort_groups(keys, order, n_groups)
    at = np.int64(0)
    for place in range(n_groups):
        for i in range(starts[order[place]], starts[order[place] + 1]):
            ordered[at] = np.uint64(place) << np.uint64(32) | row_of(column.cells[column.start + i])
            at += 1
    for i in range(column.n_missing):
        ordered[at + i] = column.cells[column.start + at + i]
    return Column(ordered, np.int64(0), column.n_present, column.n_missing)


def scratch_groups(n_categories: int, n_classes: int) -> tuple[AnyArray, FloatArray, FloatArray]:
    """Make ``groups``, ``keys`` and ``sums`` of :class:`hedgerow.cart.search.Scratch`."""
    most = n_categories + 2
    return np.empty((2, most), np.int64), np.empty((2, most)), np.empty((most, n_classes + 2))
