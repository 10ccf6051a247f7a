"""Stages over rows that are on a GPU.

Thread 0 gives the commands (:mod:`hedgerow.kernels.cuda.commands`); the search of splits, which
histograms decide, is that of all trees::

    gradients, sample      host
    start_rows             gradients to the GPU, packed there
    divide_batch           rows of nodes; nothing waits for it
    take_histogram         histogram of a node, for which the host waits
    finish_leaves          exact sums of the leaves, leaf of each row

A launch takes microseconds, and so does the wait for its end: for small nodes that is most of the
time.  So the GPU is told of several nodes together::

    symmetric     the nodes of the level
    depth-wise    the nodes of the level, unless the leaves that are left are too few for them
    leaf-wise     the node that is split next, and those that have the largest gains behind it

    host   order 4 nodes                wait, search the children of 1, of 2, of 3, of 4 ...
    GPU    divide the rows of 4 nodes, add up 4 histograms, hand them over

A node that the host has not ordered is ordered when it is its turn.  A leaf-wise tree may be full
before a node is split that was ordered.  Its rows then have another order than on the processor,
so nodes are not ordered ahead where the order matters: with linear leaves, and with line search.
"""

from __future__ import annotations

import numpy as np

from hedgerow import kernel_types as kt
from hedgerow.arrays import FloatArray, IntArray
from hedgerow.compile import kernel
from hedgerow.growing.core import state as s
from hedgerow.growing.core.stages.gradients import pack_block
from hedgerow.kernels.cuda import commands
from hedgerow.kernels.cuda.intrinsics import block_number, block_size, n_blocks, thread_number
from hedgerow.kernels.histograms.histogram import HistogramSums, filled_cells
from hedgerow.kernels.histograms.vector_histogram import Sums, place_of_g
from hedgerow.kernels.primitives.barrier import barrier, share
from hedgerow.kernels.simd.lanes import N_LANES

NOT_ORDERED, ORDERED = -2, -1

# Fields of hedgerow.kernels.cuda.commands.Order.
(
    _COLUMN, _START, _COUNT, _N_LEFT, _SET, _, _, _, _BLOCK, _FIRST_ROW, _N_ROWS, _HISTOGRAM_BLOCK,
    _PLACE,
) = range(commands.ORDER_FIELDS)  # fmt: skip

_LEAST_ROWS = 512
_BLOCKS_PER_PROCESSOR = 4
_NO_LEAF = 0xFF


@kernel(inner=True)
def upload_array(gpu: commands.GpuCommands, which: int, n_bytes: int) -> None:
    """Copy the first bytes of an array to the GPU."""
    commands.upload(gpu, which, np.int64(0), np.int64(0), n_bytes)


@kernel(inner=True)
def start_rows(thread: int, state: s.State) -> None:
    """Thread 0: gradients of all rows and the row ids of the sample, on the GPU."""
    gpu, vectors, scalars, n_rows = state.gpu, state.vectors, state.scalars, state.settings.n_rows
    if thread > 0:
        return
    ahead = gpu.ahead  # no node is ordered, and all places are free
    for place in range(len(ahead.free)):
        ahead.free[place] = place
    for node in range(len(ahead.of_parent)):
        ahead.of_parent[node] = NOT_ORDERED
    ahead.counts[commands.N_ORDERS] = 0
    ahead.counts[commands.N_FREE] = len(ahead.free)
    if vectors.used == 0:
        upload_array(gpu, commands.SCALARS, np.int64(8 * s.N_SCALARS))
        upload_array(gpu, commands.QUANTIZED, 8 * n_rows)
        # A separate launch sums g if it is stored apart.
        gpu.n_parts[0] = 1 + scalars[s.IS_G_APART]
        for part in range(2):
            gpu.parts[part, commands.PART_COUNT_BITS] = scalars[s.IS_COUNT_BITS]
            gpu.parts[part, commands.PART_HESSIAN_BITS] = scalars[s.IS_HESSIAN_BITS]
            gpu.parts[part, commands.PART_G_APART] = scalars[s.IS_G_APART]
    else:
        upload_array(gpu, commands.WORDS, 4 * vectors.outputs.sums.width * n_rows)
    n_blocks = min(16 * gpu.n_processors, n_parts(n_rows, commands.THREADS))
    if scalars[s.IS_N_ROWS] < n_rows:
        upload_array(gpu, commands.ROW_IDS, 4 * scalars[s.IS_N_ROWS])
    else:
        commands.launch(gpu, commands.COUNT_ROWS, n_blocks, np.int64(1))
    commands.launch(gpu, commands.PACK_ROWS, n_blocks, np.int64(1))


@kernel(inner=True)
def finish_leaves(state: s.State, output: int) -> None:
    """Thread 0: exact sums of an output in the leaves, (2, nodes), and the leaf of each row."""
    table, scalars, gpu = state.tree.table, state.scalars, state.gpu
    sums = state.threads.leaf_sums[0]
    n_inside, n_rows = scalars[s.IS_N_ROWS], np.int64(len(gpu.leaf_of))
    place, n_leaves = np.int64(0), np.int64(0)
    while place < n_inside:  # first places and nodes of the leaves that have rows
        node = np.int64(0)
        while table[node, s.NODE_LEFT] != 0:
            right = table[node, s.NODE_RIGHT]
            node = right if place >= table[right, s.NODE_START] else table[node, s.NODE_LEFT]
        gpu.leaves[0, n_leaves] = place
        gpu.leaves[1, n_leaves] = node
        n_leaves += 1
        place = table[node, s.NODE_START] + table[node, s.NODE_COUNT]
    if state.vectors.used == 1:  # the gradients of the output, of which its values are computed
        n_bytes = 8 * n_rows
        commands.upload(gpu, commands.QUANTIZED, output * n_bytes, np.int64(0), n_bytes)
    upload_array(gpu, commands.LEAF_STARTS, 8 * n_leaves)
    upload_array(gpu, commands.LEAF_NODES, 8 * n_leaves)
    commands.fill(gpu, commands.LEAF_SUMS, np.int64(0), 16 * n_leaves)
    if n_inside < n_rows:
        commands.fill(gpu, commands.LEAF_OF, np.int64(_NO_LEAF), 4 * n_rows)
    gpu.values[commands.FINISH, commands.FINISH_N_LEAVES] = n_leaves
    gpu.values[commands.FINISH, commands.FINISH_N_ROWS] = n_inside
    commands.launch(gpu, commands.FINISH, n_parts(n_inside, commands.ROWS_PER_BLOCK), np.int64(1))
    commands.download(gpu, commands.LEAF_SUMS, 16 * n_leaves)
    if state.settings.adds_scores == 1:
        commands.download(gpu, commands.LEAF_OF, 4 * n_rows)
    commands.wait(gpu)
    for node in range(scalars[s.IS_N_NODES]):
        sums[0, node] = 0
        sums[1, node] = 0
    for leaf in range(n_leaves):
        sums[0, gpu.leaves[1, leaf]] = gpu.sums[leaf, 0]
        sums[1, gpu.leaves[1, leaf]] = gpu.sums[leaf, 1]


@kernel(inner=True)
def add_leaf_values(
    thread: int, n_threads: int, numbers: FloatArray, raw: np.ndarray, gpu: commands.GpuCommands
) -> None:
    """Add the value of its leaf to the raw score of each row that has one."""
    if gpu.status[0] != 0:
        return
    first, last = share(len(raw), thread, n_threads)
    leaf_of = gpu.leaf_of
    for row in range(np.uint64(first), np.uint64(last)):
        leaf = np.int64(leaf_of[row])
        if leaf >= 0:
            raw[row] += numbers[leaf, s.NUMBER_VALUE]


# -- orders, and histograms -----------------------------------------------------------------


@kernel(inline=True, inner=True)
def n_parts(count: int, size: int) -> int:
    """Return the number of parts of ``size`` that ``count`` needs."""
    return (count + size - 1) // size


@kernel(inner=True)
def next_order(ahead: commands.Ahead) -> int:
    """Append a row to the list, in which nothing is asked for; return its number."""
    number = ahead.counts[commands.N_ORDERS]
    ahead.counts[commands.N_ORDERS] = number + 1
    for field in range(commands.ORDER_FIELDS):
        ahead.listed[number, field] = 0
    return number


@kernel(inner=True)
def order_histogram(order: IntArray, first_row: int, n_rows: int, place: int) -> None:
    """Ask for the histogram of some rows."""
    order[_FIRST_ROW] = first_row
    order[_N_ROWS] = n_rows
    order[_PLACE] = place


@kernel(inner=True)
def order_split(row: IntArray, parent: int, builds: bool, ahead: commands.Ahead) -> None:
    """Ask for the division of the rows of a node; if ``builds``, for a histogram, too."""
    order, counts = ahead.listed[next_order(ahead)], ahead.counts
    order[_COLUMN] = row[s.NODE_COLUMN]
    order[_START] = row[s.NODE_START]
    order[_COUNT] = row[s.NODE_COUNT]
    order[_N_LEFT] = row[s.NODE_N_LEFT]
    for w in range(s.SET_WORDS):
        order[_SET + w] = row[s.NODE_SET + w]
    ahead.of_parent[parent] = ORDERED
    # The histogram is the smaller child's, if a place is free.
    if builds and counts[commands.N_FREE] > 0:
        counts[commands.N_FREE] -= 1
        place = ahead.free[counts[commands.N_FREE]]
        ahead.of_parent[parent] = place
        n_left, n_right = row[s.NODE_N_LEFT], row[s.NODE_COUNT] - row[s.NODE_N_LEFT]
        if n_left <= n_right:
            order_histogram(order, row[s.NODE_START], n_left, place)
        else:
            order_histogram(order, row[s.NODE_START] + n_left, n_right, place)


@kernel(inner=True)
def builds_child(state: s.State, row: IntArray) -> bool:
    """Return whether the histogram of the smaller child of a node will be needed."""
    n_larger = max(row[s.NODE_N_LEFT], row[s.NODE_COUNT] - row[s.NODE_N_LEFT])
    enough = n_larger >= 2 * state.rules.min_samples_leaf
    return enough and row[s.NODE_DEPTH] + 1 < state.settings.max_depth


@kernel(inner=True)
def order_level(state: s.State, depth: int) -> None:
    """Ask for the other nodes of a level of a depth-wise tree, if all of them will be split."""
    ahead, table, scalars, n_open = state.gpu.ahead, state.tree.table, state.scalars, np.int64(0)
    for node in range(scalars[s.IS_N_NODES]):
        n_open += np.int64(table[node, s.NODE_OPEN] > 0 and table[node, s.NODE_DEPTH] == depth)
    if scalars[s.IS_N_LEAVES] + n_open > state.settings.max_leaves:
        return
    for node in range(scalars[s.IS_N_NODES]):
        row = table[node]
        is_new = ahead.of_parent[node] == NOT_ORDERED
        if row[s.NODE_OPEN] == 0 or row[s.NODE_DEPTH] != depth or not is_new:
            continue
        builds = builds_child(state, row)
        if builds and ahead.counts[commands.N_FREE] == 0:
            return
        order_split(row, node, builds, ahead)


@kernel(inner=True)
def order_likely(state: s.State) -> None:
    """Ask for the nodes of a leaf-wise tree that will probably be split soon."""
    tree, scalars, most = state.tree, state.scalars, state.settings.max_leaves
    ahead = state.gpu.ahead
    table, n_nodes, n_waiting = tree.table, scalars[s.IS_N_NODES], np.int64(0)
    for node in range(n_nodes):
        is_ordered = ahead.of_parent[node] != NOT_ORDERED
        n_waiting += np.int64(table[node, s.NODE_OPEN] > 0 and is_ordered)
    for _ in range(ahead.n_likely):
        if scalars[s.IS_N_LEAVES] + n_waiting >= most or ahead.counts[commands.N_FREE] == 0:
            return
        best = np.int64(-1)
        for node in range(n_nodes):
            if table[node, s.NODE_OPEN] > 0 and ahead.of_parent[node] == NOT_ORDERED:
                gain = tree.numbers[node, s.NUMBER_GAIN]
                best = node if best < 0 or gain > tree.numbers[best, s.NUMBER_GAIN] else best
        if best < 0:
            return
        row = table[best]
        order_split(row, best, builds_child(state, row), ahead)
        n_waiting += 1


@kernel(inner=True)
def launch_orders(
    gpu: commands.GpuCommands, which: int, place: tuple[int, int], per_block: int, n_blocks: int,
    n_tiles: int,
) -> None:  # fmt: skip
    """Launch a kernel for the orders of the list from ``place[0]`` on, ``place[1]`` of them."""
    words, listed = gpu.values[which], gpu.ahead.listed
    for field in range(commands.ORDER_FIELDS):
        words[field] = listed[place[0], field]
    words[commands.WORD_N_ORDERS] = place[1]
    words[commands.WORD_FIRST_ORDER] = place[0]
    words[commands.WORD_PER_BLOCK] = per_block
    commands.launch(gpu, which, n_blocks, n_tiles)


@kernel(inner=True)
def give_orders(first: int, gpu: commands.GpuCommands) -> None:
    """Give the GPU the orders of the list from ``first`` on."""
    ahead, values, one = gpu.ahead, gpu.values, np.int64(1)
    n = ahead.counts[commands.N_ORDERS] - first
    orders, place, to_divide = ahead.listed[first : first + n], (first, n), commands.ROWS_PER_BLOCK
    n_rows = np.int64(0)
    for k in range(n):
        n_rows += orders[k, _N_ROWS]
    # No sum of a block may exceed its bits; else, enough blocks for the whole GPU.
    per_block = (np.int64(1) << gpu.parts[gpu.n_parts[0] - 1, commands.PART_COUNT_BITS]) - 1
    wanted = max(1, _BLOCKS_PER_PROCESSOR * gpu.n_processors // gpu.n_tiles)
    per_block = min(per_block, max(_LEAST_ROWS, n_parts(n_rows, wanted)))
    # Blocks that divide, those that add up, and the most that divide a node.
    n_blocks, n_adding, most = np.int64(0), np.int64(0), np.int64(0)
    for k in range(n):
        own = n_parts(orders[k, _COUNT], to_divide)
        orders[k, _BLOCK] = n_blocks
        orders[k, _HISTOGRAM_BLOCK] = n_adding
        n_blocks += own
        n_adding += n_parts(orders[k, _N_ROWS], per_block)
        most = max(most, own)
    if n > 1:
        n_bytes = np.int64(8 * commands.ORDER_FIELDS)
        commands.upload(gpu, commands.ORDERS, first * n_bytes, first * n_bytes, n * n_bytes)
    if most > 1:
        launch_orders(gpu, commands.COUNT_LEFT, place, to_divide, n_blocks, one)
    launch_orders(gpu, commands.DIVIDE, place, to_divide, n_blocks, one)
    if most > 1:
        launch_orders(gpu, commands.COPY_BACK, place, to_divide, n_blocks, one)
    for part in range(gpu.n_parts[0]):
        for field in range(commands.PART_FIELDS):
            values[commands.ADD, commands.ADD_PART + field] = gpu.parts[part, field]
        launch_orders(gpu, commands.ADD, place, per_block, n_adding, gpu.n_tiles)
    if n_adding > 0:
        n_blocks = n_parts(ahead.n_cells, commands.THREADS)
        launch_orders(gpu, commands.HAND_OVER, place, per_block, n_blocks, n)
    ahead.counts[commands.IS_PENDING] = 1


@kernel(inner=True)
def divide_batch(thread: int, state: s.State, n_jobs: int) -> None:
    """Thread 0: divide the rows of all parents of a batch, unless that has been ordered."""
    ahead, table, batch = state.gpu.ahead, state.tree.table, state.tree.batch
    first, depth = ahead.counts[commands.N_ORDERS], np.int64(0)
    for j in range(n_jobs if thread == 0 else 0):
        parent = batch[j, s.JOB_PARENT]
        if parent >= 0 and ahead.of_parent[parent] == NOT_ORDERED:
            order_split(table[parent], parent, batch[j, s.JOB_SMALL] >= 0, ahead)
            depth = table[parent, s.NODE_DEPTH]
    if thread == 0 and ahead.counts[commands.N_ORDERS] > first:
        if state.settings.depthwise == 1:
            order_level(state, depth)
        else:
            order_likely(state)
        give_orders(first, state.gpu)
    barrier(state.team)


@kernel(inner=True)
def fetch_histogram(thread: int, state: s.State, parent: int, node: int) -> None:
    """Thread 0: wait for the histogram of a node."""
    # The smaller child of ``parent`` may have been ordered; -1: it has not.  Spare places take
    # turns: other threads may still read the one before.
    gpu, ahead, counts = state.gpu, state.gpu.ahead, state.gpu.ahead.counts
    if thread == 0:
        place = ahead.of_parent[parent] if parent >= 0 else np.int64(ORDERED)
        if place >= 0:
            ahead.of_parent[parent] = ORDERED
            ahead.free[counts[commands.N_FREE]] = place
            counts[commands.N_FREE] += 1
        else:
            first, place = counts[commands.N_ORDERS], len(ahead.free) + counts[commands.SPARE]
            counts[commands.SPARE] = 1 - counts[commands.SPARE]
            row, order = state.tree.table[node], ahead.listed[next_order(ahead)]
            order_histogram(order, row[s.NODE_START], row[s.NODE_COUNT], place)
            give_orders(first, gpu)
        ahead.of_node[node] = place
        if counts[commands.IS_PENDING] == 1:
            commands.wait(gpu)
            counts[commands.IS_PENDING] = 0
            counts[commands.N_ORDERS] = 0
    barrier(state.team)


@kernel(inner=True)
def take_histogram(span: tuple[int, int], state: s.State, node: int, to: int) -> None:
    """Copy the columns ``span`` of a histogram that was fetched to cell ``to`` and those behind."""
    ahead, bins = state.gpu.ahead, state.bins
    first, stride = ahead.of_node[node] * ahead.n_cells, bins.stride
    for k in range(span[0], span[1]):
        feature = np.int64(state.columns.feature[k])
        at = feature * stride
        if state.vectors.used == 1:
            take_vectors(state.vectors.outputs.sums, first + at, to + at, stride, state.gpu)
            continue
        filled = filled_cells(bins, feature, False)
        take_cells(state.histograms, first + at, to + at, filled, state.gpu)
        at += stride - 1
        take_cells(state.histograms, first + at, to + at, np.int64(1), state.gpu)


@kernel(inner=True)
def take_cells(
    histograms: HistogramSums, first: int, to: int, n_cells: int, gpu: commands.GpuCommands
) -> None:
    """Copy cells from ``first`` on to ``to`` and those behind."""
    kept, works = gpu.ahead.kept, gpu.status[0] == 0  # no split is found in zeros
    for k in range(np.uint64(n_cells)):
        own, cell = np.uint64(first) + k, np.uint64(to) + k
        histograms.g[cell] = kept.g[own] if works else 0
        histograms.h[cell] = kept.h[own] if works else 0
        histograms.n[cell] = kept.n[own] if works else 0


@kernel(inner=True)
def take_vectors(sums: Sums, first: int, to: int, n_cells: int, gpu: commands.GpuCommands) -> None:
    """Copy cells of several outputs from ``first`` on to ``to`` and those behind."""
    # The GPU adds up the words of one output after the other, as if each were the only one, and
    # the number of rows; the sums of a cell are whole numbers of 32 bits in both::
    #
    #     GPU     a place    output 0: g, h of all bins | output 1 | ... | rows of all bins
    #     host    a slot     cell: g and h of all outputs | next cell | ...
    #
    # All bins of a column are counted, as on the processor: a search looks at those without rows,
    # too.  After an error all are empty, and no split is found.
    kept, last_part, cells = gpu.ahead.kept, gpu.n_parts[0] - 1, sums.cells
    for k in range(n_cells):
        count = kept.n[first + k + gpu.parts[last_part, commands.PART_TO]]
        sums.n[to + k] = count if gpu.status[0] == 0 else np.int32(0)
        if sums.n[to + k] == 0:
            continue
        start = (to + k) * sums.width
        for word in range(start, start + sums.width):
            cells[word] = 0  # of outputs that fill up a line, too
        for output in range(last_part + sums.constant):
            own = first + k + gpu.parts[output, commands.PART_TO]
            word = start + place_of_g(sums.constant, output)
            cells[word] = np.int32(kept.g[own])
            if sums.constant == 0:
                cells[word + N_LANES] = np.int32(kept.h[own])


# -- kernels that pack gradients on the GPU ----------------------------------------------------

# One output: as on the processor, by the function that packs them there.  Several: of each output
# ``g << 32 | h``, because the words of all rows together fit 31 bits
# (:mod:`hedgerow.growing.vectors.gradients`), so no sum of h reaches g; then 1 for each row, which
# counts them.  With a constant hessian, h is this 1.
H_BITS = 32


@kernel
def pack_rows(
    constant: int,
    seed: np.uint64,
    scalars: kt.Int64_1D,
    ids: kt.UInt32_1D,
    quantized: kt.Int32_1D,
    packed: kt.Int64_1D,
) -> None:
    """Write the packed numbers of all rows, in the sample or not."""
    step, n_rows = n_blocks() * block_size(), len(quantized) // 2
    rows = s.Rows(ids, ids, quantized, packed)
    for row in range(block_number(0) * block_size() + thread_number(), n_rows, step):
        pack_block(scalars, constant, seed, rows, row, row + 1)


@kernel
def pack_vectors(
    n_outputs: int, n_rows: int, width: int, constant: int, words: kt.Int32_1D, packed: kt.Int64_1D
) -> None:
    """Write the packed numbers of all rows, output after output, from their ``width`` words."""
    step = n_blocks() * block_size()
    for row in range(block_number(0) * block_size() + thread_number(), n_rows, step):
        for output in range(n_outputs):
            at = row * width + place_of_g(constant, output)
            h = np.int64(1) if constant == 1 else np.int64(words[at + N_LANES])
            packed[output * n_rows + row] = (np.int64(words[at]) << H_BITS) + h
        if constant == 0:
            packed[n_outputs * n_rows + row] = 1
