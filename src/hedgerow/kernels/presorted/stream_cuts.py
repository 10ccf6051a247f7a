"""Cuts of many nodes in one column: which of them are scored, and the best one of each node.

:mod:`hedgerow.kernels.presorted.exact_stream` passes over the column and calls
:func:`offer_cut` for each cut of a node, in ascending order.  Exact search scores all of
them, with the arithmetic of :mod:`hedgerow.kernels.presorted.exact`.  Approximate search scores
the candidates (:func:`hedgerow.kernels.presorted.exact.thin_runs`)::

    rank of a cut   0.01  0.02  0.04  0.06    eps = 0.03, and the lowest value has rank 0
    candidate             x     x     x       0.02: the last one that is near 0;
                                              0.06: the largest value

Whether a cut is a candidate is known when the next cut comes, so it waits until then.

What is done for each cut of exact search is inlined into the pass: calls, with all these
arrays as arguments, made a tree take 1.8 times as long.

Glossary
--------
slot     index of a node among the searched nodes
run      number of a value in the column: 1 for the lowest value
place    index of an entry in its column
absent   sums of the rows of a node that have no value in the column
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.compile import kernel
from hedgerow.kernels.presorted.cut_scores import cut_score, score_of_output
from hedgerow.kernels.presorted.exact import is_near
from hedgerow.kernels.primitives.intrinsics import bits_of_float
from hedgerow.kernels.splits.monotone import (
    Bounds,
    ConstrainedColumn,
    cut_gain,
    gain_factor,
    gain_of,
)
from hedgerow.kernels.splits.split import Limits, NodeSums
from hedgerow.kernels.splits.vector_split import (
    VectorNode,
    column_of_output,
    limits_of_output,
    units_of_output,
)

_HELD_N = 2  # place of ``Cut.n``
WAITING_FIELDS = 6
"""Fields of a cut that waits: those of :class:`Cut`; the sums of several outputs follow."""

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


class SearchedOutputs(NamedTuple):
    """The arrays of the search for several outputs, by slot.

    All arrays of sums and of cuts have two more fields for each of them, the sums of its g and h,
    behind those of one output.  The latter are the sums of the mean hessian, which ranks need.

    quantized  int32 (n_outputs, 2 * n_rows): g and h of each row
    node       of any slot: ``n_rows``, ``totals`` and ``lanes`` are those of another
    totals     int64 (slots, n_outputs, 2)
    lanes      float64 (slots, size of ``VectorNode.lanes``)
    weight     float64 (slots,): h summed over the outputs, in ``node.largest``
    scored     1: gains are constrained
    """

    quantized: np.ndarray
    node: VectorNode
    totals: IntArray
    lanes: FloatArray
    weight: FloatArray
    scored: np.int64


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


SUM_FIELDS = 3
"""Fields of sums: g, h and number of rows; those of several outputs follow."""


class Scan(NamedTuple):
    """State of the pass over a column, by slot.

    sums    int64 (slots, SUM_FIELDS): g, h and number of the entries so far
    run     int64 (slots,): run of the last entry
    absent  int64 (slots, SUM_FIELDS)
    best    int64 (slots, 2, CUT_FIELDS): best cuts with missing values right and left
    cut     int64 (2 * n_outputs,): sums of several outputs before the cut that is scored
    """

    sums: IntArray
    run: IntArray
    absent: IntArray
    best: IntArray
    cut: IntArray


class Quantiles(NamedTuple):
    """State of the choice of the candidates of each node, by slot.

    step      float64 (slots,): candidates are to be this far apart, in sums of h
    last      int64 (slots,): sum of h before the last candidate
    waiting   int64 (slots, WAITING_FIELDS): :class:`Cut` that is the next candidate, unless a
              later one is near enough, too; ``n`` is 0 if none waits
    places    int64: ``Cut.place`` of the candidates since ``n_places`` was 0, ascending if one
              node is searched; empty if they are not asked for
    n_places  int64 (1,)
    """

    step: FloatArray
    last: IntArray
    waiting: IntArray
    places: IntArray
    n_places: IntArray


class Cut(NamedTuple):
    """A cut of a node in a column: sums over the rows with a value on the left, and where it is.

    below, above  runs on both sides
    place         first place of an entry on the right side
    """

    g: np.int64
    h: np.int64
    n: np.int64
    below: np.int64
    above: np.int64
    place: np.int64


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


@kernel(inline=True, inner=True)
def copy_sums(source: IntArray, first: int, target: IntArray, to: int, n: int) -> None:
    """Copy ``n`` sums of several outputs."""
    for k in range(n):
        target[to + k] = source[first + k]


@kernel(inline=True, inner=True)
def score_outputs(
    scan: Scan,
    slot: int,
    missing_left: int,
    cut: Cut,
    n_left: int,
    limits: Limits,
    outputs: SearchedOutputs,
    column: ConstrainedColumn,
) -> float:
    """Return the score or the gain of the cut ``scan.cut``, summed over the outputs.

    It is negative if the cut is not allowed.
    """
    of_any = outputs.node
    node = VectorNode(
        of_any.start,
        limits.n,
        outputs.totals[slot],
        of_any.units,
        of_any.largest,
        outputs.lanes[slot],
        of_any.size,
        of_any.filled,
        of_any.cuts,
        of_any.number,
        of_any.smooth,
        of_any.ordered,
    )
    score, weight = 0.0, 0.0
    for output in range(len(outputs.quantized)):
        g, h = scan.cut[2 * output], scan.cut[2 * output + 1]
        if missing_left == 1:
            g += scan.absent[slot, SUM_FIELDS + 2 * output]
            h += scan.absent[slot, SUM_FIELDS + 2 * output + 1]
        g_unit, h_unit = units_of_output(node, output)
        g_left, h_left = float(g) * g_unit, float(h) * h_unit
        own = limits_of_output(node, limits, output)
        if outputs.scored == 1:
            bounds = column_of_output(node, column, output)
            score += score_of_output(g_left, h_left, n_left, cut.n, own, bounds)
        else:
            score += score_of_output(g_left, h_left, n_left, cut.n, own, None)
        weight += h_left
    if min(weight, outputs.weight[slot] - weight) < limits.lightest:
        return -1.0
    return gain_of(score, column.factor, column.bounds) if outputs.scored == 1 else score


@kernel(inline=True, inner=True)
def score_side(
    scan: Scan,
    slot: int,
    missing_left: int,
    cut: Cut,
    left: NodeSums,
    feature: int,
    limits: Limits,
    constraints: ConstrainedNodes | None,
) -> float:
    """Return the score or the gain of a cut with these sums on the left, or less than 0."""
    h_left = float(left.h)
    if h_left < limits.lightest or limits.h - h_left < limits.lightest:
        return -1.0
    if constraints is None:
        return cut_score(float(left.g), h_left, limits)
    column = column_in_node(constraints, slot, feature, limits.n - scan.absent[slot, 2])
    return cut_gain(float(left.g), h_left, left.n, cut.n, limits, column)


@kernel(inline=True, inner=True)
def note_side(
    scan: Scan,
    slot: int,
    missing_left: int,
    cut: Cut,
    feature: int,
    searched: SearchedNodes,
    constraints: ConstrainedNodes | None,
    outputs: SearchedOutputs | None,
) -> None:
    """Score the cut with missing values on one side; keep it if it beats the earlier cuts."""
    g, h, n = cut.g, cut.h, cut.n
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
    left, score = NodeSums(g, h, n), -1.0
    if outputs is None:
        score = score_side(scan, slot, missing_left, cut, left, feature, limits, constraints)
    elif constraints is not None:  # always: ``outputs.scored`` tells whether they are used
        column = column_in_node(constraints, slot, feature, limits.n - scan.absent[slot, 2])
        score = score_outputs(scan, slot, missing_left, cut, n, limits, outputs, column)
    best = scan.best[slot, missing_left]
    if score >= 0.0 and bits_of_float(score) > best[CUT_SCORE]:
        best[CUT_SCORE] = bits_of_float(score)
        best[CUT_G] = g
        best[CUT_H] = h
        best[CUT_N] = n
        best[CUT_N_PRESENT] = cut.n
        best[CUT_BELOW] = cut.below
        best[CUT_ABOVE] = cut.above
        best[CUT_PLACE] = cut.place
        if outputs is not None:
            for k in range(len(scan.cut)):
                before = scan.absent[slot, SUM_FIELDS + k] if missing_left == 1 else np.int64(0)
                best[CUT_FIELDS + k] = scan.cut[k] + before


@kernel(inline=True, inner=True)
def note_cut(
    scan: Scan,
    slot: int,
    cut: Cut,
    feature: int,
    searched: SearchedNodes,
    constraints: ConstrainedNodes | None,
    outputs: SearchedOutputs | None,
) -> None:
    """Score the cut with missing values on the right and, if there are any, on the left."""
    note_side(scan, slot, np.int64(0), cut, feature, searched, constraints, outputs)
    if scan.absent[slot, 2] > 0:
        note_side(scan, slot, np.int64(1), cut, feature, searched, constraints, outputs)


@kernel(inner=True)
def take_candidate(
    scan: Scan,
    slot: int,
    cut: Cut,
    feature: int,
    searched: SearchedNodes,
    constraints: ConstrainedNodes | None,
    quantiles: Quantiles,
    outputs: SearchedOutputs | None,
) -> None:
    """Score the cut: it is the next candidate of the node."""
    quantiles.last[slot] = cut.h
    if len(quantiles.places) > 0:
        quantiles.places[quantiles.n_places[0]] = cut.place
        quantiles.n_places[0] += 1
    note_cut(scan, slot, cut, feature, searched, constraints, outputs)


@kernel(inner=True)
def take_waiting(
    scan: Scan,
    slot: int,
    feature: int,
    searched: SearchedNodes,
    constraints: ConstrainedNodes | None,
    quantiles: Quantiles,
    outputs: SearchedOutputs | None,
) -> None:
    """Score the cut that waits, if there is one."""
    held = quantiles.waiting[slot]
    if held[_HELD_N] > 0:
        cut = Cut(held[0], held[1], held[_HELD_N], held[3], held[4], held[5])
        if outputs is not None:
            copy_sums(held, WAITING_FIELDS, scan.cut, 0, len(scan.cut))
        take_candidate(scan, slot, cut, feature, searched, constraints, quantiles, outputs)
        held[_HELD_N] = 0


@kernel(inline=True, inner=True)
def offer_cut(
    scan: Scan,
    slot: int,
    cut: Cut,
    feature: int,
    searched: SearchedNodes,
    constraints: ConstrainedNodes | None,
    quantiles: Quantiles | None,
    outputs: SearchedOutputs | None,
) -> None:
    """Score the cut, if it is one of the cuts to be scored."""
    if quantiles is None:
        if outputs is not None:
            copy_sums(scan.sums[slot], SUM_FIELDS, scan.cut, 0, len(scan.cut))
        note_cut(scan, slot, cut, feature, searched, constraints, outputs)
    else:
        step = quantiles.step[slot]
        if not is_near(cut.h, quantiles.last[slot], step):
            take_waiting(scan, slot, feature, searched, constraints, quantiles, outputs)
        if is_near(cut.h, quantiles.last[slot], step):
            held = quantiles.waiting[slot]
            held[0] = cut.g
            held[1] = cut.h
            held[_HELD_N] = cut.n
            held[3] = cut.below
            held[4] = cut.above
            held[5] = cut.place
            if outputs is not None:
                copy_sums(scan.sums[slot], SUM_FIELDS, held, WAITING_FIELDS, len(scan.cut))
        else:
            if outputs is not None:
                copy_sums(scan.sums[slot], SUM_FIELDS, scan.cut, 0, len(scan.cut))
            take_candidate(scan, slot, cut, feature, searched, constraints, quantiles, outputs)
