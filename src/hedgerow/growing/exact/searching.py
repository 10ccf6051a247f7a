"""Search of the best cuts of nodes in their sorted lists, each thread in its own columns.

Scans are in :mod:`hedgerow.kernels.presorted.exact`, and the lists in
:mod:`hedgerow.growing.exact.stages`.
"""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import IntArray
from hedgerow.compile import kernel
from hedgerow.growing.core import state as s
from hedgerow.growing.core.batch import member, note_split
from hedgerow.growing.core.stages.gradients import units_of
from hedgerow.growing.exact.stages import LOCAL, open_root, reads_entries
from hedgerow.kernels.presorted.exact import (
    NO_CUT,
    CutBuffer,
    ExactSplit,
    search_list,
    thin_runs,
)
from hedgerow.kernels.primitives.barrier import barrier
from hedgerow.kernels.primitives.intrinsics import float_of_bits
from hedgerow.kernels.splits.monotone import (
    ConstrainedColumn,
    Constraints,
    SearchedNode,
    factor_of,
    searched_node,
)
from hedgerow.kernels.splits.split import NodeSums, Units, comparable


@kernel(inner=True)
def note_cut(
    found: IntArray,
    score: float,
    cut: tuple[int, int, int],
    missing_left: int,
    left: NodeSums,
    n_rows: int,
) -> None:
    """Note the best cut of a node of ``n_rows`` rows."""
    # ``cut`` is its column, the rows with a value before it, and all rows with a value.
    column, n_before, n_present = cut
    apart = np.int64(0)
    if score >= 0.0 and missing_left == 0:
        apart = np.int64(n_before == n_present)  # SETS_APART
        # Where no row is missing, a later one goes with the larger part.
        if n_present == n_rows:
            missing_left = np.int64(2 * left.n >= n_rows)
    note_split(found, score, column, apart, n_before, missing_left, left)
    found[s.FOUND_SET] = 1  # side 0 goes left


@kernel(inline=True, inner=True)
def search_columns(
    thread: int,
    span: tuple[int, int],
    state: s.State,
    place: tuple[int, int, int],
    aim: SearchedNode,
    constraints: Constraints,
    sorted_columns: s.Sorted,
) -> ExactSplit:
    """Return the best cut of a node in columns ``span``."""
    # ``place`` is the child (0, 1), the number and the slot.
    child, node, slot = place
    lists, choice = sorted_columns.lists, sorted_columns.choice
    quantized, buffers = state.rows.quantized, lists.cuts
    sums, limits = aim.sums, aim.limits
    source, scratch = lists.work, lists.scratch[thread]
    if reads_entries(node, state.settings, choice):
        source = lists.entries
    cuts = CutBuffer(buffers.g[thread], buffers.h[thread], buffers.n[thread], buffers.score[thread])
    best = NO_CUT
    for k in range(span[0], span[1]):
        column = np.int64(choice.columns[k])
        start, stop = lists.segments[slot, column, 0], lists.segments[slot, column, 1]
        if stop == start or state.search.allowed[child, column] == 0:
            continue
        entries, at = source, (start, stop)
        if choice.sketch == LOCAL:
            thin_runs(source, at, quantized, choice.eps, scratch, np.int64(0))
            entries, at = scratch, (np.int64(0), stop - start)
        if constraints.scored == 0:
            best = search_list(entries, at, quantized, cuts, sums, limits, column, best, None)
        else:
            wanted = ConstrainedColumn(
                constraints.sign[column], factor_of(constraints, column, aim.asked), stop - start,
                aim.within, aim.asked,
            )  # fmt: skip
            best = search_list(entries, at, quantized, cuts, sums, limits, column, best, wanted)
    return best


@kernel(inline=True, inner=True)
def note_best(
    found: IntArray, best: ExactSplit, lists: s.Lists, slot: int, n_rows: int, units: Units
) -> None:
    """Note the best cut of a node of ``n_rows`` rows, with its score in units of comparison."""
    score, n_present = -1.0, np.int64(0)
    if best.score >= 0:
        score = comparable(float_of_bits(best.score), units)
        place = lists.segments[slot, best.feature]
        n_present = place[1] - place[0]
    cut = (best.feature, best.n_present, n_present)
    left = NodeSums(best.g_left, best.h_left, best.n_left)
    note_cut(found, score, cut, best.missing_left, left, n_rows)


@kernel(inner=True)
def search_list_node(
    thread: int,
    span: tuple[int, int],
    state: s.State,
    place: tuple[int, int, int],
    options: s.Options,
    sorted_columns: s.Sorted,
) -> None:
    """Find the best split of a node in columns ``span``; ``place`` as in :func:`search_columns`."""
    child, node, slot = place
    row, constraints = state.tree.table[node], options.constraints
    found, lists = state.search.found[thread, child], sorted_columns.lists
    units = units_of(state.scalars, state.settings.constant_hessian, 0)
    sums = NodeSums(row[s.NODE_G], row[s.NODE_H], row[s.NODE_COUNT])
    aim = searched_node(constraints, node, sums, units, state.rules)
    best = search_columns(thread, span, state, place, aim, constraints, sorted_columns)
    note_best(found, best, lists, slot, row[s.NODE_COUNT], units)


@kernel(inline=True, inner=True)
def search_lists(
    thread: int,
    span: tuple[int, int],
    state: s.State,
    options: s.Options,
    sorted_columns: s.Sorted,
) -> None:
    """Find the best splits of the nodes of the batch."""
    lists = sorted_columns.lists
    for child in range(2):
        node, slot, searched = member(state.tree.batch[0], child)
        if searched == 0:
            continue
        if thread == 0:
            lists.slot_of[node] = slot
        if node == 0:
            choice = sorted_columns.choice
            open_root(thread, span, state.settings, state.rows, lists, choice, slot)
        place = (np.int64(child), node, slot)
        search_list_node(thread, span, state, place, options, sorted_columns)
    barrier(state.team)
