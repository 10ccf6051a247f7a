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
                          (:mod:`hedgerow.growing.symmetric.stages`)
``gpu``                   a GPU has the rows: it divides them and builds the histograms
                          (:mod:`hedgerow.growing.cuda.stages`)
========================  ===================================================================

Random numbers (samples, rounding) depend on the tree and the row, never on the output:
outputs that are equal have equal histograms, and the order of outputs has no part in a
tree except for the rounding of sums over them.
"""

from __future__ import annotations

from hedgerow.compile import kernel
from hedgerow.growing.core.batch import member
from hedgerow.growing.core.stages.building import make_histogram
from hedgerow.growing.core.stages.frontier import advance, start_tree
from hedgerow.growing.core.stages.gradients import gradient_pass
from hedgerow.growing.core.stages.leaves import finish_tree, finish_vectors
from hedgerow.growing.core.stages.partition import partition_batch
from hedgerow.growing.core.stages.searching import search_node
from hedgerow.growing.core.state import IS_N_COLUMNS, IS_N_JOBS, IS_N_SEARCHED, State
from hedgerow.growing.cuda.ahead import divide_batch
from hedgerow.growing.cuda.stages import start_rows
from hedgerow.growing.exact.searching import search_lists
from hedgerow.growing.exact.stages import (
    set_root,
    share_entries,
    split_lists,
    start_lists,
)
from hedgerow.growing.sampling.draws import allow_children
from hedgerow.growing.sampling.goss import draw_rows
from hedgerow.growing.symmetric.level import divide_level, open_level, start_levels
from hedgerow.growing.symmetric.stages import search_level
from hedgerow.growing.vectors.gradients import pass_gradients
from hedgerow.growing.vectors.sampling import draw_vectors
from hedgerow.growing.vectors.search import search_vector_node
from hedgerow.kernels.primitives.barrier import await_order, barrier, give_order, share
from hedgerow.kernels.primitives.intrinsics import by_reference

ORDER_STOP = 0
ORDER_GROW = 1


@kernel(inline=True, inner=True)
def search_child(
    thread: int, span: tuple[int, int], state: State, child: int, node: int, start: int
) -> None:
    """Find the best split of a child with a histogram from cell ``start``, in columns ``span``."""
    if state.vectors.used == 0:
        search_node(thread, span, state, child, node, start)
    else:
        search = state.search
        search_vector_node(
            thread, span, state.settings, state.rules, state.bins, state.columns.feature,
            (state.tree.table, start, node), search.allowed[child], child,
            search.found[thread, child], state.vectors, state.options.constraints,
        )  # fmt: skip


@kernel(inline=True, inner=True)
def search_histograms(thread: int, span: tuple[int, int], state: State) -> None:
    """Compute histograms and best splits of the batch's children in columns ``span``."""
    job, slot_size = state.tree.batch[0], state.settings.n_columns * state.bins.stride
    for child in range(2):
        make_histogram(thread, span, state, job, child)
        node, slot, searched = member(job, child)
        if searched == 1:
            search_child(thread, span, state, child, node, slot * slot_size)
    barrier(state.team)


@kernel(inline=True, inner=True)
def sum_gradients(thread: int, state: State) -> None:
    """Compute the integer gradients of all rows."""
    team, settings, data = state.team, state.settings, state.loss_data
    rows, threads = state.rows, state.threads
    if state.vectors.used == 0:
        gradient_pass(thread, team, settings, data, rows, threads, state.scalars)
    else:
        pass_gradients(thread, team, settings, data, rows, threads, state.vectors.outputs)


@kernel(inline=True, inner=True)
def draw_sample(thread: int, state: State) -> None:
    """Draw the rows of the tree."""
    team, settings, rows, threads = state.team, state.settings, state.rows, state.threads
    if state.vectors.used == 0:
        draw_rows(thread, team, settings, rows, threads.counts, state.scalars, state.options)
    else:
        draw_vectors(thread, team, settings, rows, threads, state.vectors.outputs, state.options)
    if state.gpu.used == 1:
        if state.vectors.used == 1:
            barrier(team)  # all threads have written the words of their rows
        start_rows(thread, state.scalars, settings.n_rows, state.vectors, state.gpu)


@kernel(inline=True, inner=True)
def finish(thread: int, state: State) -> None:
    """Compute leaf values and new raw scores."""
    team, settings, rules, tree = state.team, state.settings, state.rules, state.tree
    rows, raw, sums, gpu = state.rows, state.loss_data.raw, state.threads.leaf_sums, state.gpu
    scalars, options = state.scalars, state.options
    if state.vectors.used == 0:
        finish_tree(thread, team, settings, rules, rows, raw, sums, tree, scalars, options, gpu)
    else:
        outputs = state.vectors.outputs
        finish_vectors(thread, team, settings, rules, rows, raw, sums, tree, outputs, options, gpu)


@kernel(inline=True, inner=True)
def open_tree(thread: int, state: State) -> tuple[int, int]:
    """Make the root the first batch; return the first and last column that the thread searches."""
    tree, scalars, options = state.tree, state.scalars, state.options
    is_sorted = state.sorted_columns.used == 1
    if is_sorted:
        start_lists(thread, state, state.sorted_columns)
    if thread == 0:
        start_tree(state.settings, state.rules, tree, scalars, options)
        if is_sorted:
            set_root(tree, state.threads.leaf_sums, scalars)
        if state.level.used == 1:
            start_levels(state.level, options.constraints)
    if is_sorted:
        return share_entries(thread, state.team, state.sorted_columns, scalars[IS_N_COLUMNS])
    return share(scalars[IS_N_COLUMNS], thread, state.team.n_threads)


@kernel(inline=True, inner=True)
def allow_batch(state: State) -> None:
    """Thread 0: the columns in which the batch is searched."""
    settings, tree, scalars, options = state.settings, state.tree, state.scalars, state.options
    allowed = state.search.allowed
    if state.level.used == 0:
        allow_children(settings, allowed, tree.table, tree.batch[0], scalars, options)
    else:
        open_level(settings, allowed, state.level, tree, scalars, options.constraints)


@kernel(inline=True, inner=True)
def split_rows(thread: int, span: tuple[int, int], state: State, n_jobs: int) -> None:
    """Divide the rows of the parents of the batch between their children."""
    tree = state.tree
    if state.gpu.used == 1:
        least_rows = state.rules.min_samples_leaf
        divide_batch(thread, state.settings, least_rows, tree, state.scalars, n_jobs, state.gpu)
        barrier(state.team)
    elif state.sorted_columns.used == 1:
        split_lists(thread, span, state, tree.batch[0], state.sorted_columns)
    else:
        partition_batch(
            thread, state.team, state.rows, state.bins.by_column, tree.table, tree.batch, n_jobs,
            state.threads.counts,
        )  # fmt: skip


@kernel(inline=True, inner=True)
def search_batch(thread: int, span: tuple[int, int], state: State, n_jobs: int) -> None:
    """Find the best splits in columns ``span``: one per node, or one per level."""
    if state.sorted_columns.used == 1:
        search_lists(thread, span, state, state.options, state.sorted_columns)
    elif state.level.used == 1:
        search_level(thread, span, state, n_jobs)
    else:
        search_histograms(thread, span, state)


@kernel(inline=True, inner=True)
def next_batch(state: State) -> None:
    """Thread 0: commit the splits that were found, and open the children of the next batch."""
    settings, rules, tree, scalars = state.settings, state.rules, state.tree, state.scalars
    options, vectors = state.options, state.vectors
    if state.level.used == 0:
        advance(settings, rules, tree, scalars, state.search.found, options, vectors)
    else:
        divide_level(settings, rules, tree, scalars, state.level, options, vectors)


@kernel(inline=True, inner=True)
def grow_tree(thread: int, state: State) -> None:
    """Grow one tree, all threads together."""
    team, scalars = state.team, state.scalars
    sum_gradients(thread, state)
    draw_sample(thread, state)
    span = open_tree(thread, state)
    while True:
        if thread == 0:
            allow_batch(state)
        barrier(team)
        # Read before the partition: behind its last barrier thread 0 may run ahead.
        n_jobs, is_searched = scalars[IS_N_JOBS], scalars[IS_N_SEARCHED] > 0
        if n_jobs == 0:
            break
        split_rows(thread, span, state, n_jobs)
        if is_searched:
            search_batch(thread, span, state, n_jobs)
        else:
            barrier(team)  # thread 0 must not make the next batch before all have read this one
        if thread == 0:
            next_batch(state)
    finish(thread, state)


@kernel
def work(thread: int, state: State, order: int) -> None:
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
