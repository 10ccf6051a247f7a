"""Split search of a single tree by absolute deviations from medians; see ``search``.

Rows have a place in the order of their heights.  ``heights`` are those of the places, and ``share``
of a row is its mass times its height.  A Fenwick tree of masses and shares (``heap``, float64 of
2 * n_rows + 2 zeros at first) finds the median in O(log n) per row.
"""

from __future__ import annotations

import numpy as np

from hedgerow import kernel_types as kt
from hedgerow.arrays import FloatArray
from hedgerow.cart.search import Aim, Column, Rows, Scratch, rank_of, row_of, weight_of
from hedgerow.compile import kernel

_ONE = np.uint64(1)


@kernel(inner=True)
def add_to_heap(heap: FloatArray, n_places: int, place: int, mass: float, share: float) -> None:
    """Add a row to a Fenwick tree of (mass, share) sums over positions in the order of y."""
    i = np.uint64(place) + _ONE
    while i <= np.uint64(n_places):
        heap[i + i] += mass
        heap[i + i + _ONE] += share
        i += i & (~i + _ONE)


@kernel(inner=True)
def deviation(
    heap: FloatArray, n_places: int, heights: FloatArray, mass: float, share: float
) -> float:
    """Return the sum of ``mass * |height - median|`` over the rows in the tree."""
    places = np.uint64(n_places)
    step = _ONE
    while step + step <= places:
        step += step
    at, below_mass, below_share = np.uint64(0), 0.0, 0.0
    half = 0.5 * mass
    while step > np.uint64(0):
        to = at + step
        if to <= places and below_mass + heap[to + to] <= half:
            at = to
            below_mass += heap[to + to]
            below_share += heap[to + to + _ONE]
        step >>= _ONE
    median = heights[min(at, places - _ONE)]
    above = (share - below_share) - median * (mass - below_mass)
    return above + (median * below_mass - below_share)


@kernel(inner=True)
def left_deviations(
    column: Column, rows: Rows, missing_left: int, heights: FloatArray, scratch: Scratch
) -> None:
    """Write the deviation of the left side that ends at present cell i to ``scratch.errors[i]``."""
    cells, heap = column.cells, scratch.heap
    n = column.n_present + column.n_missing
    heap[: 2 * n + 2] = 0.0
    mass = share = 0.0
    n_before = column.n_missing if missing_left == 1 else 0
    for j in range(n_before + column.n_present):
        i = j - n_before
        cell = cells[column.start + (column.n_present + j if i < 0 else i)]
        row = row_of(cell)
        w = weight_of(rows.mass, row)
        add_to_heap(heap, n, rows.place[row], w, rows.share[row])
        mass += w
        share += rows.share[row]
        last = i + 1 == n
        if i >= 0 and (last or rank_of(cell) != rank_of(cells[column.start + i + 1])):
            scratch.errors[i] = deviation(heap, n, heights, mass, share)


@kernel(inner=True)
def scan_deviations(
    column: Column, aim: Aim, missing_left: int, best: float, heights: FloatArray, scratch: Scratch
) -> tuple[float, int]:
    """Find the best cut by absolute deviations from the medians, like :func:`scan_shares`."""
    rows, least = aim.rows, aim.least
    # One pass forward handles the left sides and one pass backward the right sides.
    left_deviations(column, rows, missing_left, heights, scratch)
    cells, heap = column.cells, scratch.heap
    n = column.n_present + column.n_missing
    heap[: 2 * n + 2] = 0.0
    mass = share = 0.0
    chosen = np.int64(-1)
    before = column.n_missing if missing_left == 1 else np.int64(0)
    n_walked = n - before
    for j in range(n_walked):
        i = n_walked - 1 - j
        cell = cells[column.start + i]
        cut = i < column.n_present and j > 0
        if cut and rank_of(cell) != rank_of(cells[column.start + i + 1]):
            n_first = i + 1
            n_left, left_mass = n_first + before, aim.totals[0] - mass
            enough = min(n_left, n - n_left) >= least.rows
            if enough and min(left_mass, mass) >= least.mass:
                score = -(scratch.errors[i] + deviation(heap, n, heights, mass, share))
                if score >= best:  # backward pass: the first of equal cuts wins
                    if score > best or chosen >= 0:
                        chosen = n_first
                    best = score
        row = row_of(cell)
        w = weight_of(rows.mass, row)
        add_to_heap(heap, n, rows.place[row], w, rows.share[row])
        mass += w
        share += rows.share[row]
    return best, chosen


@kernel
def prefix_deviations(
    place: kt.Int64_1D,
    mass: kt.Float64_1D,
    share: kt.Float64_1D,
    heights: kt.Float64_1D,
    heap: kt.Float64_1D,
    errors: kt.Float64_1D,
) -> None:
    """Write to ``errors[i]`` the deviation of the first i + 1 rows from their median."""
    n = len(place)
    total_mass = total_share = 0.0
    for i in range(n):
        add_to_heap(heap, n, place[i], mass[i], share[i])
        total_mass += mass[i]
        total_share += share[i]
        errors[i] = deviation(heap, n, heights, total_mass, total_share)
