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
from hedgerow.growing.core.stages.building import bare, make_histogram
from hedgerow.growing.core.stages.frontier import advance, start_tree
from hedgerow.growing.core.stages.gradients import gradient_pass
from hedgerow.growing.core.stages.leaves import finish_tree, finish_vectors
from hedgerow.growing.core.stages.partition import partition_batch
from hedgerow.growing.core.stages.searching import search_node
from hedgerow.growing.core.state import (
    IS_N_COLUMNS,
    IS_N_JOBS,
    IS_N_SEARCHED,
    Level,
    Options,
    Sorted,
    State,
    Vectors,
)
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
from hedgerow.kernels.cuda.commands import GpuCommands
from hedgerow.kernels.histograms.histogram import Bins
from hedgerow.kernels.primitives.barrier import ThreadTeam, await_order, barrier, give_order, share

ORDER_STOP = 0
ORDER_GROW = 1


@kernel(inline=True, inner=True)
def search_member(
    thread: int,
    span: tuple[int, int],
    state: State,
    child: int,
    options: Options,
    vectors: Vectors | None,
) -> None:
    """Find the best split of a node of the batch in columns ``span``."""
    settings, rules, bins, search = state.settings, state.rules, state.bins, state.search
    node, slot, _ = member(state.tree.batch[0], child)
    slot_start = slot * settings.n_columns * bins.stride
    row = state.tree.table[node]
    if vectors is None or vectors.used == 0:
        search_node(
            thread, span, settings, rules, bins, state.columns, (state.histograms, slot_start),
            search, child, (node, row), state.scalars, options,
        )  # fmt: skip
    else:
        search_vector_node(
            thread, span, settings, rules, bins, state.columns.feature,
            (state.tree.table, slot_start, node), search.allowed[child], child,
            search.found[thread, child], vectors, options.constraints,
        )  # fmt: skip


@kernel(inline=True, inner=True)
def search_histograms(
    thread: int,
    span: tuple[int, int],
    state: State,
    options: Options,
    vectors: Vectors | None,
    gpu: GpuCommands | None,
) -> None:
    """Compute histograms and best splits of the batch's children in columns ``span``."""
    job = state.tree.batch[0]
    for child in range(2):
        make_histogram(thread, span, bare(state), job, child, options.lists, vectors, gpu)
        if member(job, child).searched == 1:
            search_member(thread, span, state, child, options, vectors)
    barrier(state.team)


@kernel(inline=True, inner=True)
def sum_gradients(thread: int, state: State, vectors: Vectors | None) -> None:
    """Compute the integer gradients of all rows."""
    team, settings, data = state.team, state.settings, state.loss_data
    rows, threads = state.rows, state.threads
    if vectors is None or vectors.used == 0:
        gradient_pass(thread, team, settings, data, rows, threads, state.scalars)
    else:
        pass_gradients(thread, team, settings, data, rows, threads, vectors.outputs)


@kernel(inline=True, inner=True)
def draw_sample(
    thread: int, state: State, vectors: Vectors | None, gpu: GpuCommands | None
) -> None:
    """Draw the rows of the tree."""
    team, settings, rows, threads = state.team, state.settings, state.rows, state.threads
    if vectors is None or vectors.used == 0:
        draw_rows(thread, team, settings, rows, threads.counts, state.scalars, state.options)
    else:
        draw_vectors(thread, team, settings, rows, threads, vectors.outputs, state.options)
    if gpu is not None and gpu.used == 1:
        if vectors is not None and vectors.used == 1:
            barrier(team)  # all threads have written the words of their rows
        start_rows(thread, state.scalars, settings.n_rows, vectors, gpu)


@kernel(inline=True, inner=True)
def finish(
    thread: int, state: State, options: Options, vectors: Vectors | None, gpu: GpuCommands | None
) -> None:
    """Compute leaf values and new raw scores."""
    team, settings, rules, tree = state.team, state.settings, state.rules, state.tree
    rows, raw, sums = state.rows, state.loss_data.raw, state.threads.leaf_sums
    if vectors is None or vectors.used == 0:
        scalars = state.scalars
        finish_tree(thread, team, settings, rules, rows, raw, sums, tree, scalars, options, gpu)
    else:
        outputs = vectors.outputs
        finish_vectors(thread, team, settings, rules, rows, raw, sums, tree, outputs, options, gpu)


@kernel(inline=True, inner=True)
def open_tree(
    thread: int,
    state: State,
    options: Options,
    sorted_columns: Sorted | None,
    level: Level | None,
) -> None:
    """Empty the tree: the root is the first batch."""
    tree, scalars = state.tree, state.scalars
    if sorted_columns is not None:
        start_lists(thread, state, sorted_columns)
    if thread == 0:
        start_tree(state.settings, state.rules, tree, scalars, options)
        if sorted_columns is not None:
            set_root(tree, state.threads.leaf_sums, scalars)
        if level is not None and level.used == 1:
            start_levels(level, options.constraints)


@kernel(inline=True, inner=True)
def own_columns(
    thread: int, team: ThreadTeam, n_columns: int, sorted_columns: Sorted | None
) -> tuple[int, int]:
    """Return the first and last column of those that the thread searches."""
    span = share(n_columns, thread, team.n_threads)
    if sorted_columns is not None:
        span = share_entries(thread, team, sorted_columns, n_columns)
    return span


@kernel(inline=True, inner=True)
def allow_batch(state: State, options: Options, level: Level | None) -> None:
    """Thread 0: the columns in which the batch is searched."""
    settings, tree, scalars = state.settings, state.tree, state.scalars
    allowed, table = state.search.allowed, state.tree.table
    if level is None or level.used == 0:
        allow_children(settings, allowed, table, tree.batch[0], scalars, options)
    else:
        open_level(settings, allowed, level, tree, scalars, options.constraints)


@kernel(inline=True, inner=True)
def split_rows(
    thread: int,
    span: tuple[int, int],
    state: State,
    n_jobs: int,
    bins: Bins | None,
    sorted_columns: Sorted | None,
    gpu: GpuCommands | None,
) -> None:
    """Divide the rows of the parents of the batch between their children."""
    tree = state.tree
    if gpu is not None and gpu.used == 1:
        divide_batch(
            thread, state.settings, state.rules.min_samples_leaf, tree, state.scalars, n_jobs, gpu
        )  # fmt: skip
        barrier(state.team)
    elif bins is not None:
        partition_batch(
            thread, state.team, state.rows, bins.by_column, tree.table, tree.batch, n_jobs,
            state.threads.counts,
        )  # fmt: skip
    if sorted_columns is not None:
        split_lists(thread, span, state, tree.batch[0], sorted_columns)


@kernel(inline=True, inner=True)
def search_bins(
    thread: int,
    span: tuple[int, int],
    state: State,
    n_jobs: int,
    options: Options,
    vectors: Vectors | None,
    level: Level | None,
    gpu: GpuCommands | None,
) -> None:
    """Find the best splits in histograms: one per node, or one per level."""
    if level is None or level.used == 0:
        search_histograms(thread, span, state, options, vectors, gpu)
    else:
        search_level(thread, span, bare(state), level, n_jobs, options.constraints, vectors, gpu)


@kernel(inline=True, inner=True)
def search_batch(
    thread: int,
    span: tuple[int, int],
    state: State,
    n_jobs: int,
    options: Options,
    vectors: Vectors | None,
    bins: Bins | None,
    sorted_columns: Sorted | None,
    level: Level | None,
    gpu: GpuCommands | None,
) -> None:
    """Find the best splits of the nodes of the batch in columns ``span``."""
    if bins is not None:
        search_bins(thread, span, state, n_jobs, options, vectors, level, gpu)
    if sorted_columns is not None:
        search_lists(thread, span, state, options, sorted_columns)


@kernel(inline=True, inner=True)
def next_batch(
    state: State, options: Options, vectors: Vectors | None, level: Level | None
) -> None:
    """Thread 0: commit the splits that were found, and open the children of the next batch."""
    settings, rules, tree, scalars = state.settings, state.rules, state.tree, state.scalars
    if level is None or level.used == 0:
        advance(settings, rules, tree, scalars, state.search.found, options, vectors)
    else:
        divide_level(settings, rules, tree, scalars, level, options, vectors)


@kernel(inline=True, inner=True)
def grow_tree(
    thread: int,
    state: State,
    vectors: Vectors | None,
    bins: Bins | None,
    sorted_columns: Sorted | None,
    level: Level | None,
    gpu: GpuCommands | None,
) -> None:
    """Grow one tree, all threads together."""
    team, scalars = state.team, state.scalars
    sum_gradients(thread, state, vectors)
    draw_sample(thread, state, vectors, gpu)
    open_tree(thread, state, state.options, sorted_columns, level)
    span = own_columns(thread, team, scalars[IS_N_COLUMNS], sorted_columns)
    while True:
        if thread == 0:
            allow_batch(state, state.options, level)
        barrier(team)
        # Read before the partition: behind its last barrier thread 0 may run ahead.
        n_jobs, is_searched = scalars[IS_N_JOBS], scalars[IS_N_SEARCHED] > 0
        if n_jobs == 0:
            break
        split_rows(thread, span, state, n_jobs, bins, sorted_columns, gpu)
        if is_searched:
            search_batch(
                thread, span, state, n_jobs, state.options, vectors, bins, sorted_columns, level,
                gpu,
            )  # fmt: skip
        else:
            barrier(team)  # thread 0 must not make the next batch before all have read this one
        if thread == 0:
            next_batch(state, state.options, vectors, level)
    finish(thread, state, state.options, vectors, gpu)


@kernel
def work(thread: int, state: State, order: int) -> None:
    """Thread 0: grow one tree with the helpers.  Helpers: grow trees until dismissed."""
    number = 0
    while True:
        if thread == 0:
            give_order(state.team, order)
        else:
            order = await_order(state.team, number)
            number += 1
        if order == ORDER_STOP:
            return
        grow_tree(
            thread, state, state.vectors, state.bins, state.sorted_columns, state.level, state.gpu
        )
        if thread == 0:
            return
