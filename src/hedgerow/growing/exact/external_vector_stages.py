"""Compiled parts of exact growth of vectors on columns on disk: the work between passes.

As :mod:`hedgerow.growing.exact.external_stages`, for all outputs at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.compile import kernel
from hedgerow.growing.core.stages.frontier import keep_best
from hedgerow.growing.core.state import (
    IS_UNIT_SCALE,
    NODE_COUNT,
    UNIFORM,
    Options,
    Outputs,
    Rows,
    Sampler,
    Settings,
    Threads,
    Tree,
    Vectors,
)
from hedgerow.growing.exact.searching import keep_middles, note_cut
from hedgerow.growing.sampling.goss import key_rows, mark_sample
from hedgerow.growing.vectors.gradients import pass_gradients
from hedgerow.growing.vectors.sampling import join_hessians, join_outputs, weigh_rows
from hedgerow.growing.vectors.search import keep_own, node_of, prepare_sums
from hedgerow.kernels.presorted.stream_cuts import (
    BOUND_FIELDS,
    CUT_FEATURE,
    CUT_FIELDS,
    CUT_G,
    CUT_H,
    CUT_MISSING_LEFT,
    CUT_N,
    CUT_N_LIST,
    CUT_N_PRESENT,
    CUT_SCORE,
)
from hedgerow.kernels.primitives.barrier import ThreadTeam
from hedgerow.kernels.primitives.intrinsics import float_of_bits
from hedgerow.kernels.splits.monotone import Constraints
from hedgerow.kernels.splits.split import Limits, NodeSums, SplitRules, Units, comparable
from hedgerow.kernels.splits.vector_gains import bounds_of_vectors
from hedgerow.kernels.splits.vector_split import VectorNode
from hedgerow.objectives.derivatives import LossData


class SlotOutputs(NamedTuple):
    """The arrays of the search for several outputs of the searched nodes, by slot.

    totals  int64 (slots, n_outputs, 2): sums of g and h
    lanes   float64 (slots, size of ``VectorNode.lanes``)
    parent  float64 (slots,): score of the node as a leaf
    own     float64 (slots, as ``Outputs.vectors``): the data of the node
    weight  float64 (slots,): h summed over the outputs
    bounds  float64 (slots, BOUND_FIELDS)
    """

    totals: IntArray
    lanes: FloatArray
    parent: FloatArray
    own: FloatArray
    weight: FloatArray
    bounds: FloatArray


@kernel
def compute_outputs(
    team: ThreadTeam,
    settings: Settings,
    loss_data: LossData,
    rows: Rows,
    threads: Threads,
    outputs: Outputs,
    sampler: Sampler,
) -> None:
    """Compute fixed-point gradients of all outputs and, in ``rows``, mean hessians; one thread.

    Rows of a sample that follows gradients are marked in ``rows.scratch``, and their numbers are
    multiplied by their weights.
    """
    n_rows, quantized, counts = settings.n_rows, rows.quantized, threads.counts
    place, scalars = (np.int64(0), n_rows), outputs.scalars[0]
    pass_gradients(0, team, settings, loss_data, rows, threads, outputs)
    if sampler.method != UNIFORM:
        join_outputs(sampler, n_rows, outputs, place, threads.blocks[0], quantized, counts[0])
        choice = key_rows(0, team, n_rows, sampler, rows, counts, place)
        mark_sample(0, team, settings, sampler, rows, counts, scalars, choice, place)
        scale = float_of_bits(scalars[IS_UNIT_SCALE])
        for output in range(len(outputs.scalars)):
            weigh_rows(outputs.quantized[output], sampler.weights, scale, rows.scratch, place)
    join_hessians(outputs, place, quantized)


@kernel(inline=True, inner=True)
def node_of_slot(
    slot: int,
    settings: Settings,
    place: tuple[int, int, int],
    vectors: Vectors,
    constraints: Constraints,
    space: SlotOutputs,
) -> VectorNode:
    """Return a searched node, with the arrays of its slot; ``place`` as in :func:`node_of`."""
    node = node_of(0, settings, place, vectors, constraints)
    return VectorNode(
        node.start,
        node.n_rows,
        space.totals[slot],
        node.units,
        node.largest,
        space.lanes[slot],
        node.size,
        node.filled,
        node.cuts,
        node.number,
        node.smooth,
        node.ordered,
    )


@kernel
def prepare_nodes(
    settings: Settings,
    rules: SplitRules,
    nodes: IntArray,
    table: IntArray,
    vectors: Vectors,
    constraints: Constraints,
    space: SlotOutputs,
) -> tuple[Limits, Units]:
    """Fill the arrays of the searched nodes; return the rules and the largest units of all."""
    for k in range(len(nodes)):
        place = (table[nodes[k], NODE_COUNT], np.int64(0), nodes[k])
        node = node_of_slot(k, settings, place, vectors, constraints, space)
        limits, parent = prepare_sums(settings, rules, node, vectors.outputs, constraints, table)
        space.parent[k] = parent
        space.weight[k] = limits.h
        if node.smooth > 0.0:
            keep_own(node, space.own[k])
        found = bounds_of_vectors(constraints, node, rules, parent)
        row = space.bounds[k]
        row[0] = found.low
        row[1] = found.high
        row[2] = found.score
        row[3] = found.rounding
        row[4] = found.gamma
        row[5] = found.toward
        row[6] = found.smooth
        row[BOUND_FIELDS - 1] = found.ordered
    return limits, node.largest


@kernel
def commit_outputs(
    settings: Settings,
    rules: SplitRules,
    tree: Tree,
    nodes: IntArray,
    cuts: IntArray,
    found: IntArray,
    options: Options,
    vectors: Vectors,
    space: SlotOutputs,
) -> None:
    """Write the best cuts, int64 (nodes, CUT_FIELDS and two for each output), into the table.

    ``found`` is int64 (1, 1, FOUND_FIELDS).
    """
    outputs, trial, constraints = vectors.outputs, vectors.trial, options.constraints
    scalars, note, sums = outputs.scalars[0], found[0, 0], outputs.measured[0]
    for k in range(len(nodes)):
        cut, n_rows = cuts[k], tree.table[nodes[k], NODE_COUNT]
        place = (n_rows, np.int64(0), nodes[k])
        node = node_of_slot(k, settings, place, vectors, constraints, space)
        left, score = NodeSums(cut[CUT_G], cut[CUT_H], cut[CUT_N]), -1.0
        if cut[CUT_SCORE] >= 0:
            score = comparable(float_of_bits(cut[CUT_SCORE]), node.largest)
            if node.ordered == 1:
                for output in range(len(sums)):
                    sums[output, 0] = cut[CUT_FIELDS + 2 * output]
                    sums[output, 1] = cut[CUT_FIELDS + 2 * output + 1]
                column = cut[CUT_FEATURE]
                keep_middles(constraints, column, left.n, sums, node, rules, space.own[k])
        at = (cut[CUT_FEATURE], cut[CUT_N_PRESENT], cut[CUT_N_LIST])
        note_cut(note, score, at, cut[CUT_MISSING_LEFT], left, n_rows)
        trial.parent[0, 0] = space.parent[k]
        for j in range(space.own.shape[1]):
            trial.own[0, 0, j] = space.own[k, j]
        keep_best(settings, rules, tree, scalars, found, nodes[k], 0, options, vectors)
