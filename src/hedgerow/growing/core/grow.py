"""Growing one tree: the stages, in the order in which all threads run them.

::

    gradient pass, row sample
    the root is the first batch
    while thread 0 has a batch:
        partition the rows of the parents
        build the smaller children's histograms, get the larger ones' by subtraction
        search: the best split of each child, or of a whole level
        thread 0: commit the found splits, open the children of the nodes that are split next
    leaf values from exact sums -> raw scores

The control flow is that of XGBoost's ``UpdateTree``.  Leaf-wise and depth-wise growth differ in
the choice of the node only (:mod:`hedgerow.growing.core.stages.frontier`).  What differs more is an
option, whose ``used`` is 0 for other trees (:class:`hedgerow.growing.core.state.State`).

========================  ===================================================================
``vectors``               leaves hold a value for each output: gradients, histograms and leaf
                          values of each, and one search over summed scores
                          (:mod:`hedgerow.growing.vectors.search`)
``sorted_columns``        exact and approximate trees: nodes have sorted lists of rows in place
                          of histograms (:mod:`hedgerow.growing.exact.stages`)
``level``                 symmetric trees: a batch is a level, and has one split
                          (:mod:`hedgerow.growing.symmetric.search`)
``gpu``                   a GPU has the rows: it divides them and builds the histograms
                          (:mod:`hedgerow.growing.cuda.stages`)
========================  ===================================================================

Random numbers (samples, rounding) depend on the tree and the row, never on the output:
outputs that are equal have equal histograms, and the order of outputs has no part in a
tree except for the rounding of sums over them.
"""

from __future__ import annotations

from hedgerow.compile import kernel
from hedgerow.growing.core import state as s
from hedgerow.growing.core.batch import member
from hedgerow.growing.core.stages.building import make_histogram, partition_batch
from hedgerow.growing.core.stages.frontier import advance, start_tree
from hedgerow.growing.core.stages.gradients import gradient_pass
from hedgerow.growing.core.stages.leaves import finish_tree
from hedgerow.growing.core.stages.searching import search_node
from hedgerow.growing.cuda.stages import divide_batch, start_rows
from hedgerow.growing.exact.stages import search_lists, share_entries, split_lists, start_lists
from hedgerow.growing.sampling.draws import allow_children, sample_rows
from hedgerow.growing.sampling.goss import draw_rows
from hedgerow.growing.symmetric.level import divide_level, open_level
from hedgerow.growing.symmetric.search import search_level
from hedgerow.growing.vectors.gradients import write_words
from hedgerow.growing.vectors.search import search_vector_node
from hedgerow.kernels.primitives.barrier import await_order, barrier, give_order, share
from hedgerow.kernels.primitives.intrinsics import by_reference

ORDER_STOP = 0
ORDER_GROW = 1


@kernel(inline=True, inner=True)
def search_child(
    thread: int, span: tuple[int, int], state: s.State, child: int, node: int, start: int
) -> None:
    """Find the best split of a child with a histogram from cell ``start``, in columns ``span``."""
    if state.vectors.used == 0:
        search_node(thread, span, state, child, node, start)
    else:
        search_vector_node(thread, span, state, child, node, start)


@kernel(inline=True, inner=True)
def search_histograms(thread: int, span: tuple[int, int], state: s.State) -> None:
    """Compute histograms and best splits of the batch's children in columns ``span``."""
    job, slot_size = state.tree.batch[0], state.settings.n_columns * state.bins.stride
    for child in range(2):
        make_histogram(thread, span, state, job, child)
        node, slot, searched = member(job, child)
        if searched == 1:
            search_child(thread, span, state, child, node, slot * slot_size)
    barrier(state.team)


@kernel(inline=True, inner=True)
def open_tree(thread: int, state: s.State) -> tuple[int, int]:
    """Draw the rows, and make the root the first batch; return the columns of the thread."""
    several, is_sorted = state.vectors.used == 1, state.sorted_columns.used == 1
    if several:
        sample_rows(thread, state)
        write_words(thread, state, state.settings.n_rows)
    else:
        draw_rows(thread, state)
    if state.gpu.used == 1:
        start_rows(thread, state)
    if is_sorted:
        start_lists(thread, state)
    if thread == 0:
        start_tree(state)
        if is_sorted:  # the root's sums, in fixed numbers: no bits are dropped as in histograms
            state.scalars[s.IS_DROPPED_BITS] = 0
            sums, root = state.threads.leaf_sums, state.tree.table[0]
            for t in range(sums.shape[0]):
                root[s.NODE_G] += sums[t, 0, 0]
                root[s.NODE_H] += sums[t, 1, 0]
        if state.level.used == 1:
            state.level.counts[s.LEVEL] = 0
    if is_sorted:
        return share_entries(thread, state)
    return share(state.scalars[s.IS_N_COLUMNS], thread, state.team.n_threads)


@kernel(inline=True, inner=True)
def grow_tree(thread: int, state: s.State) -> None:
    """Grow one tree, all threads together."""
    team, scalars, is_sorted = state.team, state.scalars, state.sorted_columns.used == 1
    is_level = state.level.used == 1
    gradient_pass(thread, state)
    span = open_tree(thread, state)
    while True:
        if thread == 0:  # the columns in which the batch is searched
            if is_level:
                open_level(state)
            else:
                allow_children(state, state.tree.batch[0])
        barrier(team)
        # Read before the partition: behind its last barrier thread 0 may run ahead.
        n_jobs, is_searched = scalars[s.IS_N_JOBS], scalars[s.IS_N_SEARCHED] > 0
        if n_jobs == 0:
            break
        if state.gpu.used == 1:
            divide_batch(thread, state, n_jobs)
        elif is_sorted:
            split_lists(thread, span, state)
        else:
            partition_batch(thread, state, n_jobs)
        if not is_searched:
            barrier(team)  # thread 0 must not make the next batch before all have read this one
        elif is_sorted:
            search_lists(thread, span, state)
        elif is_level:
            search_level(thread, span, state, n_jobs)
        else:
            search_histograms(thread, span, state)
        if thread == 0:  # commit the splits that were found, open the children of the next batch
            if is_level:
                divide_level(state)
            else:
                advance(state)
    finish_tree(thread, state)


@kernel
def work(thread: int, state: s.State, order: int) -> None:
    """Thread 0: grow one tree with the helpers.  Helpers: grow trees until dismissed."""
    team, shared, number = state.team, by_reference(state), 0
    while True:
        if thread == 0:
            give_order(team, order)
        else:
            order = await_order(team, number)
            number += 1
        if order == ORDER_STOP:
            return
        grow_tree(thread, shared)
        if thread == 0:
            return
