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

Approximate search scores the cuts of candidates alone
(:mod:`hedgerow.kernels.presorted.stream_cuts`).  Candidates of a whole tree are those of its
root: their places are kept for the other nodes (:class:`Candidates`).

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

from hedgerow.arrays import IntArray, RowArray
from hedgerow.compile import kernel
from hedgerow.kernels.presorted.stream_cuts import (
    CUT_FEATURE,
    CUT_MISSING_LEFT,
    CUT_N_LIST,
    CUT_SCORE,
    SUM_FIELDS,
    ConstrainedNodes,
    Cut,
    Quantiles,
    Scan,
    SearchedNodes,
    SearchedOutputs,
    copy_sums,
    note_side,
    offer_cut,
    take_waiting,
)
from hedgerow.kernels.primitives.intrinsics import prefetch

AHEAD = 24
"""Rows of entries are prefetched this far ahead; this many entries must follow the last one."""

_AHEAD = np.uint64(AHEAD)
_ROW_BITS = np.uint32((1 << 31) - 1)
_RUN_SHIFT = np.uint32(31)
_ONE, _TWO = np.uint64(1), np.uint64(2)


class StreamRows(NamedTuple):
    """Node and quantized gradients of each row.

    node       int32 (n_rows,): number of its node + 1; 0 outside the sample
    quantized  int32 (2 * n_rows,): g and h
    """

    node: np.ndarray
    quantized: np.ndarray


class Candidates(NamedTuple):
    """Candidates of a column that all nodes of a tree share.

    places  int64 (candidates + 1,): places of the entries before which they cut, ascending, and
            a number that no place reaches
    passed  int64 (slots,): candidates up to the last entry of each node
    """

    places: IntArray
    passed: IntArray


@kernel(inline=True, inner=True)
def add_row(row: int, slot: int, outputs: SearchedOutputs, sums: IntArray) -> None:
    """Add g and h of each output of a row to the sums of its node."""
    for output in range(len(outputs.quantized)):
        sums[slot, SUM_FIELDS + 2 * output] += np.int64(outputs.quantized[output, _TWO * row])
        h = np.int64(outputs.quantized[output, _TWO * row + _ONE])
        sums[slot, SUM_FIELDS + 2 * output + 1] += h


@kernel(inline=True, inner=True)
def prefetch_outputs(row: int, outputs: SearchedOutputs) -> None:
    """Prefetch g and h of each output of a row."""
    for output in range(len(outputs.quantized)):
        prefetch(outputs.quantized[output], np.intp(_TWO * row))


@kernel
def sum_present(
    entries: RowArray,
    n_entries: int,
    rows: StreamRows,
    slot_of: np.ndarray,
    sums: IntArray,
    outputs: SearchedOutputs | None,
) -> None:
    """Add g, h and the number of the entries to ``sums`` (slots, SUM_FIELDS) of their nodes."""
    node, quantized = rows
    for i in range(np.uint64(n_entries)):
        ahead = np.uint64(entries[i + _AHEAD] & _ROW_BITS)
        prefetch(node, np.intp(ahead))
        prefetch(quantized, np.intp(_TWO * ahead))
        if outputs is not None:
            prefetch_outputs(ahead, outputs)
        row = np.uint64(entries[i] & _ROW_BITS)
        slot = slot_of[node[row]]
        if slot >= 0:
            sums[slot, 0] += np.int64(quantized[_TWO * row])
            sums[slot, 1] += np.int64(quantized[_TWO * row + _ONE])
            sums[slot, 2] += 1
            if outputs is not None:
                add_row(row, slot, outputs, sums)


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
    candidates: Candidates | None,
    quantiles: Quantiles | None,
    outputs: SearchedOutputs | None,
) -> int:
    """Continue the pass over a column by some entries; return the run of the last entry.

    ``run`` is the run of the entry before them.  :data:`AHEAD` rows follow the entries.
    ``candidates`` and ``quantiles`` are None in exact search, and one of them in approximate.
    Exact search for several outputs has ``quantiles`` whose step makes every cut a candidate.
    """
    node, quantized = rows
    run = np.int64(run)
    sums, marks = scan.sums, scan.run
    passed = np.int64(0)
    if candidates is not None:
        marks = candidates.passed
        while candidates.places[passed] < first_place:
            passed += 1
    for i in range(np.uint64(n_entries)):
        ahead = np.uint64(entries[i + _AHEAD] & _ROW_BITS)
        prefetch(node, np.intp(ahead))
        prefetch(quantized, np.intp(_TWO * ahead))
        if outputs is not None:
            prefetch_outputs(ahead, outputs)
        entry = entries[i]
        run += np.int64(entry >> _RUN_SHIFT)
        mark = run
        if candidates is not None:
            passed += np.int64(candidates.places[passed] == np.int64(first_place) + np.int64(i))
            mark = passed
        row = np.uint64(entry & _ROW_BITS)
        slot = searched.slot_of[node[row]]
        if slot < 0:
            continue
        if mark != marks[slot] and sums[slot, 2] > 0:
            place = np.int64(first_place) + np.int64(i)
            cut = Cut(sums[slot, 0], sums[slot, 1], sums[slot, 2], scan.run[slot], run, place)
            offer_cut(scan, slot, cut, feature, searched, constraints, quantiles, outputs)
        sums[slot, 0] += np.int64(quantized[_TWO * row])
        sums[slot, 1] += np.int64(quantized[_TWO * row + _ONE])
        sums[slot, 2] += 1
        if outputs is not None:
            add_row(row, slot, outputs, sums)
        scan.run[slot] = run
        if candidates is not None:
            candidates.passed[slot] = passed
    return run


@kernel
def begin_column(scan: Scan) -> None:
    """Reset the state before the first entry of a column; ``absent`` stays."""
    for slot in range(len(scan.run)):
        for k in range(scan.sums.shape[1]):
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
    quantiles: Quantiles | None,
    outputs: SearchedOutputs | None,
) -> None:
    """Score the cuts after the last values, and write cuts that beat ``found`` to it.

    ``found`` is int64 (slots, CUT_FIELDS), ``allowed`` uint8 (slots,), ``length`` the
    number of entries of the column.
    """
    for slot in range(len(scan.run)):
        if quantiles is not None:
            take_waiting(scan, slot, feature, searched, constraints, quantiles, outputs)
        sums, last = scan.sums[slot], scan.run[slot]
        if sums[2] == 0 or allowed[slot] == 0:
            continue
        # The cut separates the missing rows; without any it leaves no row on the right.
        cut = Cut(sums[0], sums[1], sums[2], last, last, np.int64(length))
        if outputs is not None:
            copy_sums(sums, SUM_FIELDS, scan.cut, 0, len(scan.cut))
        note_side(scan, slot, np.int64(0), cut, feature, searched, constraints, outputs)
        for missing_left in range(2):
            best = scan.best[slot, missing_left]
            best[CUT_FEATURE] = feature
            best[CUT_MISSING_LEFT] = missing_left
            best[CUT_N_LIST] = sums[2]
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
