"""Leaf values from exact sums, and the raw scores that they change.

Histograms may hold rounded gradients; the value of a leaf never comes from
them.  It is the Newton step of the sums of the fixed gradients of its rows:
integers again, so any division of the rows between threads gives the same.
"""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import IntArray, RowArray
from hedgerow.compile import kernel
from hedgerow.growing.core import state as s
from hedgerow.growing.core.stages.gradients import outputs_of, part_of, units_of
from hedgerow.growing.cuda.stages import add_leaf_values, finish_leaves
from hedgerow.kernels.primitives.barrier import barrier, share
from hedgerow.kernels.primitives.intrinsics import prefetch
from hedgerow.kernels.splits.constraints import value_in_node
from hedgerow.kernels.splits.split import leaf_weight

_AHEAD = 32


@kernel(inline=True, inner=True)
def sum_rows(quantized: np.ndarray, ids: RowArray, start: int, stop: int) -> tuple[int, int]:
    """Return the sums of the fixed g and h of the rows at places ``start`` to ``stop``."""
    two, one, g, h = np.uint64(2), np.uint64(1), np.int64(0), np.int64(0)
    for i in range(np.uint64(start), np.uint64(max(start, stop))):
        prefetch(quantized, np.intp(two * np.uint64(ids[i + np.uint64(_AHEAD)])))
        at = two * np.uint64(ids[i])
        g += np.int64(quantized[at])
        h += np.int64(quantized[at + one])
    return g, h


@kernel(inline=True, inner=True)
def add_to_rows(value: float, ids: RowArray, start: int, stop: int, raw: np.ndarray) -> None:
    """Add a value to the raw scores of the rows at places ``start`` to ``stop``."""
    for i in range(np.uint64(start), np.uint64(max(start, stop))):
        prefetch(raw, np.intp(ids[i + np.uint64(_AHEAD)]))
        raw[np.uint64(ids[i])] += value


@kernel(inner=True)
def sum_leaves(thread: int, state: s.State, output: int, place: tuple[int, int]) -> None:
    """Add up g and h of an output over each leaf's rows at places ``place[0]:place[1]``."""
    table, sums = state.tree.table, state.threads.leaf_sums[thread]
    ids, quantized = state.rows.rows, part_of(state, output).rows.quantized
    for node in range(state.scalars[s.IS_N_NODES]):
        sums[0, node] = 0
        sums[1, node] = 0
        if table[node, s.NODE_LEFT] != 0:
            continue
        first = max(place[0], table[node, s.NODE_START])
        last = min(place[1], table[node, s.NODE_START] + table[node, s.NODE_COUNT])
        sums[0, node], sums[1, node] = sum_rows(quantized, ids, first, last)


@kernel(inline=True, inner=True)
def set_values(state: s.State, output: int, sums: IntArray) -> None:
    """Thread 0: values and covers of all nodes for one output, children before parents."""
    settings, scalars, outputs = (
        state.settings,
        part_of(state, output).scalars,
        state.vectors.outputs,
    )
    table, numbers, constraints = state.tree.table, state.tree.numbers, state.options.constraints
    units = units_of(scalars, settings.constant_hessian, 0)
    for node in range(state.scalars[s.IS_N_NODES] - 1, -1, -1):
        left, right = table[node, s.NODE_LEFT], table[node, s.NODE_RIGHT]
        g, h = np.int64(0), np.int64(0)
        if left != 0:
            g = sums[0, 0, left] + sums[0, 0, right]
            h = sums[0, 1, left] + sums[0, 1, right]
        else:
            for t in range(sums.shape[0]):
                g += sums[t, 0, node]
                h += sums[t, 1, node]
        sums[0, 0, node] = g
        sums[0, 1, node] = h
        cover = float(h) * units.h
        numbers[node, s.NUMBER_COVER] = cover
        step = leaf_weight(float(g) * units.g, cover, state.rules)
        if constraints.scored == 1:
            step = value_in_node(constraints, node, step, table[node, s.NODE_COUNT])
        step = min(max(step, -settings.longest_step), settings.longest_step)
        numbers[node, s.NUMBER_VALUE] = settings.learning_rate * step
    if state.vectors.used == 0:
        return
    n_outputs = outputs.scalars.shape[0]
    for node in range(state.scalars[s.IS_N_NODES]):  # with their mean cover in the end
        before = outputs.cover[node] if output > 0 else 0.0
        outputs.cover[node] = before + numbers[node, s.NUMBER_COVER]
        outputs.vectors[node, output] = numbers[node, s.NUMBER_VALUE]
        if output == n_outputs - 1:
            numbers[node, s.NUMBER_COVER] = outputs.cover[node] / n_outputs


@kernel(inner=True)
def add_to_scores(state: s.State, place: tuple[int, int], raw: np.ndarray) -> None:
    """Add each leaf's value to the raw scores of its rows at places ``place[0]:place[1]``."""
    tree, ids = state.tree, state.rows.rows
    for node in range(state.scalars[s.IS_N_NODES]):
        if tree.table[node, s.NODE_LEFT] != 0:
            continue
        first = max(place[0], tree.table[node, s.NODE_START])
        last = min(place[1], tree.table[node, s.NODE_START] + tree.table[node, s.NODE_COUNT])
        add_to_rows(tree.numbers[node, s.NUMBER_VALUE], ids, first, last, raw)


@kernel(inner=True)
def finish_tree(thread: int, state: s.State) -> None:
    """Compute leaf values, and new raw scores of the rows that the tree was grown on."""
    # Of several outputs one after the other.
    team, gpu, adds_scores = state.team, state.gpu, state.settings.adds_scores
    place = share(state.scalars[s.IS_N_ROWS], thread, team.n_threads)
    for output in range(outputs_of(state)):
        if gpu.used == 0:
            sum_leaves(thread, state, output, place)
        elif thread == 0:
            finish_leaves(state, output)
        barrier(team)
        if thread == 0:
            set_values(state, output, state.threads.leaf_sums)
        barrier(team)
        if adds_scores == 1:
            scores = state.loss_data.raw[part_of(state, output).scalars[s.IS_OUTPUT]]
            if gpu.used == 0:
                add_to_scores(state, place, scores)
            else:
                add_leaf_values(thread, team.n_threads, state.tree.numbers, scores, gpu)
        barrier(team)
