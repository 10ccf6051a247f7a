"""Stages over rows that are on a GPU.

Thread 0 gives the commands (:mod:`hedgerow.kernels.cuda.commands`); the search of splits, which
histograms decide, is that of all trees::

    gradients, sample      host
    start_rows             gradients to the GPU, packed there
    divide_batch           rows of nodes; nothing waits for it (:mod:`hedgerow.growing.cuda.ahead`)
    take_histogram         histogram of a node, for which the host waits
    finish_leaves          exact sums of the leaves, leaf of each row
"""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.compile import kernel
from hedgerow.growing.core import state as s
from hedgerow.growing.cuda.ahead import n_parts, start_orders
from hedgerow.kernels.cuda import commands
from hedgerow.kernels.primitives.barrier import share

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
    start_orders(gpu.ahead)
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
def upload_output(output: int, gpu: commands.GpuCommands) -> None:
    """Thread 0: the gradients of one output, of which its leaf values are computed."""
    n_bytes = np.int64(8 * len(gpu.leaf_of))
    commands.upload(gpu, commands.QUANTIZED, output * n_bytes, np.int64(0), n_bytes)


@kernel(inner=True)
def list_leaves(table: IntArray, n_rows: int, leaves: IntArray) -> int:
    """List first places and nodes of the leaves that have rows; return how many there are."""
    place, n_leaves = np.int64(0), np.int64(0)
    while place < n_rows:
        node = np.int64(0)
        while table[node, s.NODE_LEFT] != 0:
            right = table[node, s.NODE_RIGHT]
            node = right if place >= table[right, s.NODE_START] else table[node, s.NODE_LEFT]
        leaves[0, n_leaves] = place
        leaves[1, n_leaves] = node
        n_leaves += 1
        place = table[node, s.NODE_START] + table[node, s.NODE_COUNT]
    return n_leaves


@kernel(inner=True)
def finish_leaves(state: s.State) -> None:
    """Thread 0: exact sums of the leaves, int64 (2, nodes), and the leaf of each row."""
    table, scalars, gpu = state.tree.table, state.scalars, state.gpu
    sums = state.threads.leaf_sums[0]
    n_inside, n_rows = scalars[s.IS_N_ROWS], np.int64(len(gpu.leaf_of))
    n_leaves = list_leaves(table, n_inside, gpu.leaves)
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
