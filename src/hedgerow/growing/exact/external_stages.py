"""Compiled parts of exact growth on columns on disk: the work between passes.

The passes themselves are in :mod:`hedgerow.kernels.presorted.exact_stream`, their order in
:mod:`hedgerow.growing.exact.external`.
"""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.compile import kernel
from hedgerow.growing.core.stages.frontier import keep_best
from hedgerow.growing.core.stages.gradients import gradient_pass, units_of
from hedgerow.growing.core.state import (
    IS_N_FEATURES,
    IS_ROUND,
    NODE_COUNT,
    NODE_G,
    NODE_H,
    UNIFORM,
    Options,
    Rows,
    Sampler,
    Settings,
    Threads,
    Tree,
)
from hedgerow.growing.exact.searching import note_cut
from hedgerow.growing.sampling.draws import ROW_STREAM, allow_columns
from hedgerow.growing.sampling.goss import key_rows, mark_sample
from hedgerow.kernels.presorted.stream_cuts import (
    CUT_FEATURE,
    CUT_G,
    CUT_H,
    CUT_MISSING_LEFT,
    CUT_N,
    CUT_N_LIST,
    CUT_N_PRESENT,
    CUT_SCORE,
)
from hedgerow.kernels.primitives.barrier import ThreadTeam
from hedgerow.kernels.primitives.hashing import hash64
from hedgerow.kernels.primitives.intrinsics import float_of_bits
from hedgerow.kernels.splits.monotone import bounds_of
from hedgerow.kernels.splits.split import Limits, NodeSums, SplitRules, comparable, limits_of
from hedgerow.objectives.derivatives import LossData


@kernel
def compute_gradients(
    team: ThreadTeam,
    settings: Settings,
    loss_data: LossData,
    rows: Rows,
    threads: Threads,
    scalars: IntArray,
) -> None:
    """Compute fixed-point gradients of all rows with one thread."""
    gradient_pass(0, team, settings, loss_data, rows, threads, scalars)


@kernel
def mark_by_gradient(
    team: ThreadTeam,
    settings: Settings,
    sampler: Sampler,
    rows: Rows,
    counts: IntArray,
    scalars: IntArray,
) -> None:
    """Mark the rows of a sample that follows gradients in ``rows.scratch``; by one thread.

    Fixed gradients are multiplied by the weights of the rows.
    """
    place = (np.int64(0), settings.n_rows)
    choice = key_rows(0, team, settings.n_rows, sampler, rows, counts, place)
    mark_sample(0, team, settings, sampler, rows, counts, scalars, choice, place)


@kernel
def place_rows(
    settings: Settings,
    sampler: Sampler,
    scalars: IntArray,
    quantized: np.ndarray,
    node: np.ndarray,
    sums: IntArray,
) -> None:
    """Put the rows of the sample in the root (1), the others outside (0).

    Samples that follow gradients are marked in ``node`` in this way already
    (:func:`mark_by_gradient`), others are those of
    :func:`hedgerow.growing.sampling.draws.sample_rows`.  ``sums`` become g, h and number of the
    sample.
    """
    g, h, n = np.int64(0), np.int64(0), np.int64(0)
    marked, sampled = sampler.method != UNIFORM, settings.subsample < 1.0
    limit = np.uint64(0)
    if sampled:
        limit = np.uint64(settings.subsample * 2.0**63) << np.uint64(1)
    stream = np.uint64(scalars[IS_ROUND] + ROW_STREAM)
    two, one = np.uint64(2), np.uint64(1)
    for row in range(np.uint64(settings.n_rows)):
        if marked:
            inside = node[row] == 1
        else:
            inside = not sampled or hash64(settings.seed, stream, row) < limit
        node[row] = np.int32(inside)
        if inside:
            g += np.int64(quantized[two * row])
            h += np.int64(quantized[two * row + one])
            n += 1
    sums[0] = g
    sums[1] = h
    sums[2] = n


@kernel
def common_limits(settings: Settings, rules: SplitRules, scalars: IntArray) -> Limits:
    """Return the limits on the cuts of all nodes; sums are 0."""
    nothing = np.int64(0)
    units = units_of(scalars, settings.constant_hessian, 0)
    return limits_of(NodeSums(nothing, nothing, nothing), units, rules)


@kernel
def bound_nodes(
    settings: Settings,
    rules: SplitRules,
    nodes: IntArray,
    table: IntArray,
    scalars: IntArray,
    options: Options,
    bounds: FloatArray,
) -> None:
    """Write the bounds of each node: ``bounds`` is float64 (nodes, BOUND_FIELDS)."""
    units = units_of(scalars, settings.constant_hessian, 0)
    for k in range(len(nodes)):
        row = table[nodes[k]]
        sums = NodeSums(row[NODE_G], row[NODE_H], row[NODE_COUNT])
        found = bounds_of(options.constraints, nodes[k], sums, units, rules)
        bounds[k, 0] = found.low
        bounds[k, 1] = found.high
        bounds[k, 2] = found.score
        bounds[k, 3] = found.rounding
        bounds[k, 4] = found.gamma
        bounds[k, 5] = found.toward
        bounds[k, 6] = found.smooth
        bounds[k, 7] = found.ordered


@kernel
def allow_nodes(
    settings: Settings,
    nodes: IntArray,
    table: IntArray,
    scalars: IntArray,
    space: np.ndarray,
    allowed: np.ndarray,
    options: Options,
) -> None:
    """Mark the columns that each node may use: ``allowed`` is uint8 (columns, nodes), zeros.

    ``space`` is int32 (3, columns).
    """
    sampled = settings.columns_by_level < 1.0 or settings.columns_by_node < 1.0
    for k in range(len(nodes)):
        if not sampled and options.constraints.together < 0:
            for j in range(scalars[IS_N_FEATURES]):
                allowed[options.features[j], k] = 1
        else:
            allow_columns(settings, space, 0, nodes[k], table, scalars, options)
            for j in range(space.shape[1]):
                allowed[j, k] = np.uint8(space[0, j])


@kernel
def commit_nodes(
    settings: Settings,
    rules: SplitRules,
    tree: Tree,
    scalars: IntArray,
    nodes: IntArray,
    cuts: IntArray,
    found: IntArray,
    options: Options,
) -> None:
    """Write the best cuts, int64 (nodes, CUT_FIELDS), into the table.

    As :func:`hedgerow.growing.exact.stages.note_cut`; ``found`` is int64 (1, 1,
    FOUND_FIELDS).
    """
    units = units_of(scalars, settings.constant_hessian, 0)
    note = found[0, 0]
    for k in range(len(nodes)):
        cut, n_rows = cuts[k], tree.table[nodes[k], NODE_COUNT]
        score = -1.0
        if cut[CUT_SCORE] >= 0:
            score = comparable(float_of_bits(cut[CUT_SCORE]), units)
        left = NodeSums(cut[CUT_G], cut[CUT_H], cut[CUT_N])
        place = (cut[CUT_FEATURE], cut[CUT_N_PRESENT], cut[CUT_N_LIST])
        note_cut(note, score, place, cut[CUT_MISSING_LEFT], left, n_rows)
        keep_best(settings, rules, tree, scalars, found, nodes[k], 0, options, None)
