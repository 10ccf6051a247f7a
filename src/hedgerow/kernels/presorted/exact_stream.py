"""Search of the best cuts of many nodes in one pass over a sorted column.

A column that does not fit in memory is read from its lowest value to its highest, in
chunks of entries (:mod:`hedgerow.kernels.presorted.exact`).  Each row knows its node, so one
pass serves all nodes at once, each with running sums of its own (Chen and Guestrin 2016,
section 3.1).  :mod:`hedgerow.kernels.presorted.exact` keeps a separate list for each node
instead, which takes memory::

    entries        7'  2'  9   4'  0   5'
    node of row    a   b   a   a   b   b
    run            1   2   2   3   3   4

    cut of a           .   2   3          where the run differs from the run of the node's
    cut of b           .   .   .   3   4  entry before; sums are taken before the cut

The cuts, their order and the arithmetic of their scores are the same as for lists, so
the splits are the same to the last bit.

Glossary
--------
run      number of distinct values read so far in the column; equal values share a run
slot     index of a node among the searched nodes
place    index of an entry in its column
absent   sums of the rows of a node that have no value in the column
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hedgerow.arrays import FloatArray, IntArray, RowArray
from hedgerow.compile import kernel
from hedgerow.kernels.presorted.exact import cut_score
from hedgerow.kernels.primitives.intrinsics import bits_of_float, prefetch
from hedgerow.kernels.splits.monotone import Bounds, ConstrainedColumn, cut_gain, gain_factor
from hedgerow.kernels.splits.split import Limits

AHEAD = 24
"""Rows of entries are prefetched this far ahead; this many entries must follow the last one."""

_AHEAD = np.uint64(AHEAD)
_ROW_BITS = np.uint32((1 << 31) - 1)
_RUN_SHIFT = np.uint32(31)
_ONE, _TWO = np.uint64(1), np.uint64(2)

# Fields of a cut.
(
    CUT_SCORE,  # bit pattern of a float64 in units of the sums, a gain if constrained; -1: none
    CUT_FEATURE,
    CUT_MISSING_LEFT,
    CUT_G,  # sums of the left side
    CUT_H,
    CUT_N,
    CUT_N_PRESENT,  # rows with a value on the left side
    CUT_BELOW,  # runs on both sides of the cut
    CUT_ABOVE,
    CUT_PLACE,  # first place of an entry on the right side
    CUT_N_LIST,  # rows of the node with a value
    CUT_FIELDS,
) = range(12)


class StreamRows(NamedTuple):
    """Node and quantized gradients of each row.

    node       int32 (n_rows,): number of its node + 1; 0 outside the sample
    quantized  int32 (2 * n_rows,): g and h
    """

    node: np.ndarray
    quantized: np.ndarray


class SearchedNodes(NamedTuple):
    """Nodes that are searched.

    slot_of  int32 (nodes + 1,): slot of a node by its number + 1; -1: not searched
    g, h     float64 (slots,): sums
    n        int64 (slots,)
    limits   other limits on cuts, the same for all nodes
    """

    slot_of: np.ndarray
    g: np.ndarray
    h: np.ndarray
    n: IntArray
    limits: Limits


class ConstrainedNodes(NamedTuple):
    """Constraints on the cuts of the searched nodes.

    sign, factor  float64 (n_features,), as in :class:`hedgerow.kernels.splits.monotone.Constraints`
    bounds        float64 (slots, BOUND_FIELDS): the first fields of
                  :class:`hedgerow.kernels.splits.monotone.Bounds`
    """

    sign: FloatArray
    factor: FloatArray
    bounds: FloatArray


BOUND_FIELDS = 8
"""Fields of the bounds of a node.  Those behind them belong to drawn and to forced cuts."""


class Scan(NamedTuple):
    """State of the pass over a column, by slot.

    sums    int64 (slots, 3): g, h and number of the entries so far
    run     int64 (slots,): run of the last entry
    absent  int64 (slots, 3)
    best    int64 (slots, 2, CUT_FIELDS): best cuts with missing values right and left
    """

    sums: IntArray
    run: IntArray
    absent: IntArray
    best: IntArray


@kernel
def sum_present(
    entries: RowArray, n_entries: int, rows: StreamRows, slot_of: np.ndarray, sums: IntArray
) -> None:
    """Add g, h and the number of the entries to ``sums`` (slots, 3) of their nodes."""
    node, quantized = rows
    for i in range(np.uint64(n_entries)):
        ahead = np.uint64(entries[i + _AHEAD] & _ROW_BITS)
        prefetch(node, np.intp(ahead))
        prefetch(quantized, np.intp(_TWO * ahead))
        row = np.uint64(entries[i] & _ROW_BITS)
        slot = slot_of[node[row]]
        if slot >= 0:
            sums[slot, 0] += np.int64(quantized[_TWO * row])
            sums[slot, 1] += np.int64(quantized[_TWO * row + _ONE])
            sums[slot, 2] += 1


@kernel(inline=True, inner=True)
def column_in_node(
    constraints: ConstrainedNodes, slot: int, feature: int, n_present: int
) -> ConstrainedColumn:
    """Return the constraints on a column in a node with ``n_present`` values in it."""
    row = constraints.bounds[slot]
    bounds = Bounds(row[0], row[1], row[2], row[3], row[4], row[5], row[6], row[7], 0, -1)
    sign = constraints.sign[feature]
    factor = gain_factor(sign, constraints.factor[feature], bounds)
    return ConstrainedColumn(sign, factor, n_present, bounds)


@kernel(inner=True)
def note_cut(
    scan: Scan,
    slot: int,
    missing_left: int,
    above: int,
    place: int,
    feature: int,
    searched: SearchedNodes,
    constraints: ConstrainedNodes | None,
) -> None:
    """Score the cut before entry ``place`` and keep it if it beats the earlier cuts."""
    g, h, n = scan.sums[slot, 0], scan.sums[slot, 1], scan.sums[slot, 2]
    n_present = n
    if missing_left == 1:
        g += scan.absent[slot, 0]
        h += scan.absent[slot, 1]
        n += scan.absent[slot, 2]
    rest = searched.limits
    limits = Limits(
        searched.g[slot],
        searched.h[slot],
        searched.n[slot],
        rest.fewest,
        rest.lightest,
        rest.penalty,
        rest.shrink,
        rest.longest,
        rest.plain,
        False,
    )
    if n < limits.fewest or limits.n - n < limits.fewest:
        return
    h_left = float(h)
    if h_left < limits.lightest or limits.h - h_left < limits.lightest:
        return
    if constraints is None:
        score = cut_score(float(g), h_left, limits)
    else:
        n_list = limits.n - scan.absent[slot, 2]
        column = column_in_node(constraints, slot, feature, n_list)
        score = cut_gain(float(g), h_left, n, n_present, limits, column)
    best = scan.best[slot, missing_left]
    if score >= 0.0 and bits_of_float(score) > best[CUT_SCORE]:
        best[CUT_SCORE] = bits_of_float(score)
        best[CUT_G] = g
        best[CUT_H] = h
        best[CUT_N] = n
        best[CUT_N_PRESENT] = n_present
        best[CUT_BELOW] = scan.run[slot]
        best[CUT_ABOVE] = above
        best[CUT_PLACE] = place


@kernel
def scan_column(
    entries: RowArray,
    n_entries: int,
    first_place: int,
    run: int,
    feature: int,
    rows: StreamRows,
    searched: SearchedNodes,
    scan: Scan,
    constraints: ConstrainedNodes | None,
) -> int:
    """Continue the pass over a column by some entries; return the run of the last entry.

    ``run`` is the run of the entry before them.  :data:`AHEAD` rows follow the entries.
    """
    node, quantized = rows
    run = np.int64(run)
    sums = scan.sums
    for i in range(np.uint64(n_entries)):
        ahead = np.uint64(entries[i + _AHEAD] & _ROW_BITS)
        prefetch(node, np.intp(ahead))
        prefetch(quantized, np.intp(_TWO * ahead))
        entry = entries[i]
        run += np.int64(entry >> _RUN_SHIFT)
        row = np.uint64(entry & _ROW_BITS)
        slot = searched.slot_of[node[row]]
        if slot < 0:
            continue
        if run != scan.run[slot] and sums[slot, 2] > 0:
            place = np.int64(first_place) + np.int64(i)
            note_cut(scan, slot, np.int64(0), run, place, feature, searched, constraints)
            if scan.absent[slot, 2] > 0:
                note_cut(scan, slot, np.int64(1), run, place, feature, searched, constraints)
        sums[slot, 0] += np.int64(quantized[_TWO * row])
        sums[slot, 1] += np.int64(quantized[_TWO * row + _ONE])
        sums[slot, 2] += 1
        scan.run[slot] = run
    return run


@kernel
def begin_column(scan: Scan) -> None:
    """Reset the state before the first entry of a column; ``absent`` stays."""
    for slot in range(len(scan.run)):
        for k in range(3):
            scan.sums[slot, k] = 0
        scan.run[slot] = 0
        scan.best[slot, 0, CUT_SCORE] = -1
        scan.best[slot, 1, CUT_SCORE] = -1


@kernel
def end_column(
    scan: Scan,
    feature: int,
    allowed: np.ndarray,
    length: int,
    searched: SearchedNodes,
    found: IntArray,
    constraints: ConstrainedNodes | None,
) -> None:
    """Score the cuts after the last values, and write cuts that beat ``found`` to it.

    ``found`` is int64 (slots, CUT_FIELDS), ``allowed`` uint8 (slots,), ``length`` the
    number of entries of the column.
    """
    for slot in range(len(scan.run)):
        n_list = scan.sums[slot, 2]
        if n_list == 0 or allowed[slot] == 0:
            continue
        # The cut separates the missing rows; without any it leaves no row on the right.
        last, place = scan.run[slot], np.int64(length)
        note_cut(scan, slot, np.int64(0), last, place, feature, searched, constraints)
        for missing_left in range(2):
            best = scan.best[slot, missing_left]
            best[CUT_FEATURE] = feature
            best[CUT_MISSING_LEFT] = missing_left
            best[CUT_N_LIST] = n_list
            if is_better_cut(best, found[slot]):
                for k in range(len(best)):
                    found[slot, k] = best[k]


@kernel(inner=True)
def is_better_cut(cut: IntArray, held: IntArray) -> bool:
    """Return whether ``cut`` is better: larger score, then lower feature, then found first."""
    if cut[CUT_SCORE] != held[CUT_SCORE]:
        return cut[CUT_SCORE] > held[CUT_SCORE]
    return cut[CUT_SCORE] >= 0 and cut[CUT_FEATURE] < held[CUT_FEATURE]


@kernel
def merge_cuts(cuts: IntArray, found: IntArray) -> None:
    """Write the cuts (slots, CUT_FIELDS) that are better than ``found`` to it."""
    for slot in range(len(cuts)):
        if is_better_cut(cuts[slot], found[slot]):
            for k in range(cuts.shape[1]):
                found[slot, k] = cuts[slot, k]


@kernel
def send_rows(node: np.ndarray, start: int, stop: int, to: np.ndarray) -> None:
    """Send rows ``start:stop`` from node ``k`` to ``to[k]``; both are numbers + 1."""
    for row in range(np.uint64(start), np.uint64(stop)):
        node[row] = to[node[row]]


@kernel
def send_present(
    entries: RowArray,
    n_entries: int,
    first_place: int,
    node: np.ndarray,
    to: np.ndarray,
    places: IntArray,
) -> None:
    """Send rows with a value from node ``k`` to ``to[k]`` if their place is in ``places[k]``.

    ``places`` is int64 (nodes + 1, 2): first place, and the place after the last.
    """
    for i in range(np.uint64(n_entries)):
        prefetch(node, np.intp(entries[i + _AHEAD] & _ROW_BITS))
        row = np.uint64(entries[i] & _ROW_BITS)
        at, place = node[row], np.int64(first_place) + np.int64(i)
        if places[at, 0] <= place and place < places[at, 1]:
            node[row] = to[at]


@kernel
def add_node_values(
    node: np.ndarray, start: int, stop: int, value: np.ndarray, raw: np.ndarray
) -> None:
    """Add ``value[k]`` to the raw scores of the rows ``start:stop`` that are in node ``k - 1``."""
    for row in range(np.uint64(start), np.uint64(stop)):
        at = node[row]
        if at > 0:
            raw[row] += value[at]


@kernel
def gather_rows(node: np.ndarray, leaf_of: np.ndarray, places: IntArray, rows: np.ndarray) -> None:
    """Write the rows in order of leaves; ``places`` is the start of each leaf, and advances."""
    for row in range(np.uint64(len(node))):
        if node[row] > 0:
            leaf = leaf_of[node[row]]
            rows[places[leaf]] = np.uint32(row)
            places[leaf] += 1
