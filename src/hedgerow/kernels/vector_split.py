"""Search of the best cut of a node for several outputs at once.

The score of a cut is the sum over the outputs of what :mod:`hedgerow.kernels.split`
computes for one of them, from the histograms of all outputs::

    score(cut) = sum over k of  score(G_k left, H_k left) + score(G_k right, H_k right)

so that one tree serves all outputs (the ``multi_output_tree`` of XGBoost; sums over
classes in Friedman 2001 are of the same kind).  Columns are searched one after the
other: for each output the running sums of its bins, then what each cut adds to the
score; the largest score is looked for once the outputs are through.

A side needs ``min_samples_leaf`` rows, and ``min_child_weight`` of hessian in the
mean over the outputs: with equal outputs both mean what they mean for one.

Ties are as in :mod:`hedgerow.kernels.split`, and so are all operations, so that for
one output, or for equal ones, the same cut wins.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.compile import kernel
from hedgerow.kernels.histogram import Wide
from hedgerow.kernels.split import NodeSums, Split, SplitRules, Units, limits_of, node_score

_MOST_BINS = 256
# Parts of the scratch space, each with a place for every cut of a column.
_G_LEFT = np.uint64(0)
_H_LEFT = np.uint64(_MOST_BINS)
_SCORE = np.uint64(2 * _MOST_BINS)
_LEFT = np.uint64(3 * _MOST_BINS)  # sum over the outputs of the hessian on the left
_RIGHT = np.uint64(4 * _MOST_BINS)
_SPARE = np.uint64(5 * _MOST_BINS)  # least H of any output and side, less what it needs
CUT_CELLS = 6 * _MOST_BINS
"""Size of the scratch space of a thread."""


class Sums(NamedTuple):
    """Wide sums of all outputs, each (n_outputs, cells); see ``kernels.histogram.Wide``."""

    g: np.ndarray
    h: np.ndarray
    n: np.ndarray


class VectorNode(NamedTuple):
    """The node that is searched.

    start   first cell of its histograms in the sums of each output
    n_rows  its rows
    totals  int64 (n_outputs, 2): sums of g and h over its rows
    units   float64 (n_outputs, 2): what one counts for in them
    """

    start: np.int64
    n_rows: np.int64
    totals: IntArray
    units: FloatArray


@kernel(inline=True, inner=True)
def wide_of(sums: Sums, output: int) -> Wide:
    """The wide sums of one output."""
    return Wide(sums.g[output], sums.h[output], sums.n[output])


@kernel(inner=True)
def sum_totals(sums: Sums, at: int, stride: int, totals: IntArray) -> None:
    """Read the node's sums of each output off the histogram of the column at ``at``."""
    for output in range(totals.shape[0]):
        wide = wide_of(sums, output)
        g, h = np.int64(0), np.int64(0)
        for b in range(np.uint64(at), np.uint64(at + stride)):
            g += wide.g[b]
            h += wide.h[b]
        totals[output, 0] = g
        totals[output, 1] = h


@kernel(inner=True)
def score_totals(node: VectorNode, rules: SplitRules) -> float:
    """Twice the loss that the node takes away as a leaf, over all outputs."""
    score = 0.0
    for output in range(node.totals.shape[0]):
        g = float(node.totals[output, 0]) * node.units[output, 0]
        h = float(node.totals[output, 1]) * node.units[output, 1]
        score += node_score(g, h, rules)
    return score


@kernel(inline=True, inner=True)
def side_score(g: float, d: float, shrink: float, longest: float) -> float:
    """As ``kernels.split.node_score`` for a side with ``d = H + lambda``, in units."""
    size = max(abs(g) - shrink, 0.0)
    step = min(size / d, longest)
    return step * (size + size - d * step)


@kernel(inner=True)
def run_sums(wide: Wide, at: int, n_bins: int, missing: int, cuts: FloatArray) -> None:
    """Sums of g and h to the left of each cut; bin ``missing`` is left too, if not negative."""
    g, h = np.int64(0), np.int64(0)
    if missing >= 0:
        g, h = wide.g[at + missing], wide.h[at + missing]
    first = np.uint64(at)
    for b in range(np.uint64(n_bins)):
        g += wide.g[first + b]
        h += wide.h[first + b]
        cuts[_G_LEFT + b] = float(g)
        cuts[_H_LEFT + b] = float(h)


@kernel(inner=True)
def add_scores(
    node: VectorNode, output: int, n_bins: int, rules: SplitRules, cuts: FloatArray
) -> None:
    """Add what one output says of each cut, whose left sums stand in ``cuts``."""
    units = Units(node.units[output, 0], node.units[output, 1])
    sums = NodeSums(node.totals[output, 0], node.totals[output, 1], node.n_rows)
    limits = limits_of(sums, units, rules)
    g, h, penalty = limits.g, limits.h, limits.penalty
    scale, weight = units.g * (units.g / units.h), units.h
    least = 0.0 if penalty > 0.0 else 1.0  # a side needs H + lambda > 0, and H is whole
    for b in range(np.uint64(n_bins)):
        g_left, h_left = cuts[_G_LEFT + b], cuts[_H_LEFT + b]
        g_right, h_right = g - g_left, h - h_left
        d_left, d_right = h_left + penalty, h_right + penalty
        if limits.plain:
            both = g_left * g_left * d_right + g_right * g_right * d_left
            score = both / (d_left * d_right)
        else:
            score = side_score(g_left, d_left, limits.shrink, limits.longest)
            score += side_score(g_right, d_right, limits.shrink, limits.longest)
        cuts[_SCORE + b] += score * scale
        cuts[_LEFT + b] += h_left * weight
        cuts[_RIGHT + b] += h_right * weight
        spare = min(h_left, h_right) - least
        cuts[_SPARE + b] = min(cuts[_SPARE + b], spare)


@kernel(inner=True)
def score_cuts(
    sums: Sums, at: int, n_bins: int, missing: int, node: VectorNode, rules: SplitRules,
    cuts: FloatArray,
) -> None:  # fmt: skip
    """Scores of all cuts of the column at ``at``, over all outputs."""
    for b in range(np.uint64(n_bins)):
        cuts[_SCORE + b] = 0.0
        cuts[_LEFT + b] = 0.0
        cuts[_RIGHT + b] = 0.0
        cuts[_SPARE + b] = math.inf
    for output in range(node.totals.shape[0]):
        run_sums(wide_of(sums, output), at, n_bins, missing, cuts)
        add_scores(node, output, n_bins, rules, cuts)


@kernel(inner=True)
def best_cut(
    n: np.ndarray, at: int, n_bins: int, missing: int, node: VectorNode, rules: SplitRules,
    cuts: FloatArray, feature: int, best: Split,
) -> Split:  # fmt: skip
    """The better of ``best`` and the best cut whose score stands in ``cuts``."""
    lightest = rules.min_child_weight * node.totals.shape[0]
    n_left = np.int64(n[at + missing]) if missing >= 0 else np.int64(0)
    for b in range(np.uint64(n_bins)):
        n_left += np.int64(n[np.uint64(at) + b])
        if min(n_left, node.n_rows - n_left) < rules.min_samples_leaf:
            continue
        if cuts[_SPARE + b] < 0.0 or min(cuts[_LEFT + b], cuts[_RIGHT + b]) < lightest:
            continue
        if cuts[_SCORE + b] > best.score:
            side = np.int64(1) if missing >= 0 else np.int64(0)
            zero = np.int64(0)
            best = Split(cuts[_SCORE + b], feature, np.int64(b), side, zero, zero, zero)
    return best


@kernel(inner=True)
def search_column(
    sums: Sums, feature: int, n_bins: int, stride: int, node: VectorNode, rules: SplitRules,
    cuts: FloatArray, best: Split,
) -> Split:  # fmt: skip
    """The better of ``best`` and the best cut of one column, missing values on either side."""
    at, absent, n = node.start + feature * stride, stride - 1, sums.n[0]
    nowhere = np.int64(-1)
    score_cuts(sums, at, n_bins, nowhere, node, rules, cuts)
    best = best_cut(n, at, n_bins, nowhere, node, rules, cuts, feature, best)
    if n[at + absent] > 0:
        score_cuts(sums, at, n_bins, absent, node, rules, cuts)
        best = best_cut(n, at, n_bins, absent, node, rules, cuts, feature, best)
    return best


@kernel(inner=True)
def vector_gain(score: float, parent: float, n_outputs: int, rules: SplitRules) -> float:
    """Loss reduction of a split, summed over the outputs, or -1 where it is not worth its price.

    ``gamma`` is paid for each output.  As in :func:`hedgerow.kernels.split.split_gain` a
    gain that is no more than rounding is none.
    """
    if score < 0.0:
        return -1.0
    difference = score - parent
    if difference <= 1e-10 * parent:
        return -1.0
    gain = 0.5 * difference - n_outputs * rules.gamma
    return gain if gain > 0.0 and math.isfinite(gain) else -1.0
