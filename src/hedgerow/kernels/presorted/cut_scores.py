"""Scores of the cuts of sorted columns: of one output, or summed over several.

The arithmetic is that of histograms (:mod:`hedgerow.kernels.splits.split`,
:mod:`hedgerow.kernels.splits.vector_split`).  Cuts of several outputs wait in a buffer, like those
of one output, and each output adds its scores to theirs::

                 cut 0  1  2 ...
    g, h              .  .  .          of output 0: sums before each cut
    g, h              .  .  .          of output 1
    scores            .  .  .          sums over the outputs
    weights           .  .  .          of h, which min_child_weight is compared with
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.compile import kernel
from hedgerow.kernels.primitives.intrinsics import bits_of_float
from hedgerow.kernels.splits.monotone import ConstrainedColumn, bounded_score, gain_of
from hedgerow.kernels.splits.split import Limits
from hedgerow.kernels.splits.vector_split import (
    VectorNode,
    column_of_output,
    limits_of_output,
    units_of_output,
)

LIST, BEFORE, LEFT, OUTPUT_SUMS = range(4)
"""Places in ``OutputCuts.sums``."""


class OutputCuts(NamedTuple):
    """The arrays of one thread's search of a node's lists, for several outputs.

    quantized  int32 (n_outputs, 2 * n_rows): g and h of each row
    g, h       int64 (n_outputs, size of the buffer): sums of the present rows before the cuts
    sums       int64 (OUTPUT_SUMS, n_outputs, 2): of the entries so far (``LIST``), on the left of
               all cuts (``BEFORE``), on the left of the best cut of the node (``LEFT``)
    scores     float64 (size of the buffer,): scratch, summed over the outputs
    weights    float64 (size of the buffer,): scratch, h on the left, summed over the outputs
    node       with its sums
    limits     of :func:`hedgerow.kernels.splits.vector_split.start_search`
    """

    quantized: np.ndarray
    g: IntArray
    h: IntArray
    sums: IntArray
    scores: FloatArray
    weights: FloatArray
    node: VectorNode
    limits: Limits


@kernel(inline=True, inner=True)
def cut_score(g_left: float, h_left: float, limits: Limits) -> float:
    """Return the score of both sides, with the arithmetic of ``kernels.splits.split.pass_bin``."""
    g_right, h_right = limits.g - g_left, limits.h - h_left
    d_left, d_right = h_left + limits.penalty, h_right + limits.penalty
    if limits.plain:
        both = g_left * g_left * d_right + g_right * g_right * d_left
        return both / (d_left * d_right)
    size_left = max(abs(g_left) - limits.shrink, 0.0)
    size_right = max(abs(g_right) - limits.shrink, 0.0)
    left = min(size_left / d_left, limits.longest)
    right = min(size_right / d_right, limits.longest)
    of_left = left * (size_left + size_left - d_left * left)
    return of_left + right * (size_right + size_right - d_right * right)


@kernel(inline=True, inner=True)
def score_of_output(
    g_left: float,
    h_left: float,
    n_left: int,
    n_before: int,
    limits: Limits,
    column: ConstrainedColumn | None,
) -> float:
    """Return the score that one output adds to that of a cut; minus infinity if it forbids it.

    ``limits`` and ``column`` are those of the output; ``n_before`` rows with a value are before
    the cut.
    """
    if column is not None:
        return bounded_score(g_left, h_left, n_left, n_before, limits, column)
    allowed = (h_left + limits.penalty > 0.0) & (limits.h - h_left + limits.penalty > 0.0)
    score = cut_score(g_left, h_left, limits)
    return score if allowed else -math.inf


@kernel(inline=True, inner=True)
def add_output(
    output: int, n: IntArray, n_cuts: int, n_before: int, cuts: OutputCuts,
    column: ConstrainedColumn | None,
) -> None:  # fmt: skip
    """Add the scores of the cuts of one output, and their weights, to those of the others.

    ``n_before`` rows are on the left of all cuts.
    """
    g, h, scores, weights = cuts.g[output], cuts.h[output], cuts.scores, cuts.weights
    limits = limits_of_output(cuts.node, cuts.limits, output)
    g_unit, h_unit = units_of_output(cuts.node, output)
    g_before, h_before = cuts.sums[BEFORE, output, 0], cuts.sums[BEFORE, output, 1]
    for k in range(np.uint64(n_cuts)):
        g_left, h_left = float(g[k] + g_before) * g_unit, float(h[k] + h_before) * h_unit
        if column is None:
            score = score_of_output(g_left, h_left, n[k] + n_before, n[k], limits, None)
        else:
            own = column_of_output(cuts.node, column, output)
            score = score_of_output(g_left, h_left, n[k] + n_before, n[k], limits, own)
        scores[k] += score
        weights[k] += h_left


@kernel(inner=True)
def best_of_outputs(
    n: IntArray,
    bits: IntArray,
    n_cuts: int,
    n_before: int,
    cuts: OutputCuts,
    column: ConstrainedColumn | None,
) -> int:
    """Write the scores of the cuts to ``bits``; return the largest.

    ``n`` and ``bits`` are the arrays of the buffer of cuts; under constraints scores are gains.
    """
    limits, scores, weights = cuts.limits, cuts.scores, cuts.weights
    for k in range(np.uint64(n_cuts)):
        scores[k] = 0.0
        weights[k] = 0.0
    for output in range(len(cuts.g)):
        add_output(output, n, n_cuts, n_before, cuts, column)
    most = np.int64(-1)
    for k in range(np.uint64(n_cuts)):
        n_left, score = n[k] + n_before, scores[k]
        if column is not None:
            score = gain_of(score, column.factor, column.bounds)
        rows = (n_left >= limits.fewest) & (limits.n - n_left >= limits.fewest)
        weight = min(weights[k], limits.h - weights[k]) >= limits.lightest
        found = bits_of_float(score) if rows & weight & (score >= 0.0) else np.int64(-1)
        bits[k] = found
        most = max(most, found)
    return most


@kernel(inner=True)
def keep_left(k: int, cuts: OutputCuts) -> None:
    """Keep the sums on the left of cut ``k``: it is the best one so far."""
    for output in range(len(cuts.g)):
        cuts.sums[LEFT, output, 0] = cuts.g[output, k] + cuts.sums[BEFORE, output, 0]
        cuts.sums[LEFT, output, 1] = cuts.h[output, k] + cuts.sums[BEFORE, output, 1]


@kernel(inner=True)
def put_before(missing_left: int, cuts: OutputCuts) -> None:
    """Put the rows without a value on the left of all cuts, after a scan of the list, or none."""
    for output in range(len(cuts.g)):
        for part in range(2):
            absent = cuts.node.totals[output, part] - cuts.sums[LIST, output, part]
            cuts.sums[BEFORE, output, part] = absent if missing_left == 1 else np.int64(0)
