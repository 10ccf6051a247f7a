"""Raw scores of rows that lie on a GPU: a thread for each row.

Each thread copies the values of its row to shared memory once, as keys that compare like the
thresholds, and then walks down the trees.  It alone reads them, so no thread waits for another::

    words    column 0 | threads 0, 1, ...      always in the bank of the thread, whatever column
             column 1 | threads 0, 1, ...      each thread of a warp asks for

Scores are added in the order of the trees, in float64, as on the processor
(:mod:`hedgerow.kernels.prediction.predict`): they have the same bits.

A node takes 16 bytes, two words of 64 bits.  Siblings are neighbours::

    word 0   largest key that goes left; of a split of categories, the place of its set
    word 1   bits 32 and above: left child.  Bits 2 to 31: place of the column.
             Bit 1: categories.  Bit 0: missing values go right.  -1 in a leaf.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hedgerow import kernel_types as kt
from hedgerow.arrays import AnyArray, BinArray, FloatArray, IntArray
from hedgerow.compile import kernel
from hedgerow.kernels.cuda import intrinsics as gpu

MISSING_GOES_RIGHT, IS_CATEGORY = 1, 2
PLACE_SHIFT, CHILD_SHIFT = 2, 32
"""Bits of the second word of a node."""

MISSING_BIN = 255
"""As in :mod:`hedgerow.model.forest`."""

_PLACE = np.int64((1 << (CHILD_SHIFT - PLACE_SHIFT)) - 1)
_LOW = np.int64(0xFFFFFFFF)


class GpuRows(NamedTuple):
    """The layout of the values of rows, in elements of their array.

    origin       place of row 0, column 0
    row_step, column_step
    first, count the rows of this launch
    flip         bits of a negative number that its key has inverted
    top          largest key; keys beyond it are those of missing values
    is_kept      1: threads keep the keys of their row in shared memory
    columns      int64: the columns that numeric splits use
    """

    origin: np.int64
    row_step: np.int64
    column_step: np.int64
    first: np.int64
    count: np.int64
    flip: np.int64
    top: np.int64
    is_kept: np.int64
    columns: kt.Int64_1D


class GpuTrees(NamedTuple):
    """The trees of a forest, and which of them are added.

    nodes        int64, flat: two words for each node
    roots        int64, one per tree
    values       float64, flat: ``width`` for each node
    width        1, or the number of outputs of vector leaves
    first, stop  range of trees
    """

    nodes: kt.Int64_1D
    roots: kt.Int64_1D
    values: kt.Float64_1D
    width: np.int64
    first: np.int64
    stop: np.int64


class GpuCategories(NamedTuple):
    """Bins of the rows of a launch in category columns, and the sets of splits.

    bins  uint8, flat: column after column
    sets  int64, flat: four words for each set
    """

    bins: kt.UInt8_1D
    sets: kt.Int64_1D


class GpuLevels(NamedTuple):
    """Levels of category columns.

    values        float64, flat, ascending within a column
    starts        int64, one per column and one more
    bins          uint8, flat: bin of each level
    columns       int64: column of the table
    """

    values: kt.Float64_1D
    starts: kt.Int64_1D
    bins: kt.UInt8_1D
    columns: kt.Int64_1D


@kernel(inline=True, inner=True)
def key_at(bits: AnyArray, rows: GpuRows, at: int) -> int:
    """Return the key of a number; the lowest one for a missing value."""
    key = np.int64(bits[np.uint64(at)])
    key = key ^ ((key >> 63) & rows.flip)
    key = np.int64(0) if key == -1 else key  # -0.0
    return key if (key <= rows.top) & (key >= -rows.top - 1) else -rows.flip - 1


@kernel(inline=True, inner=True)
def keep_key(words: np.ndarray, place: int, n_words: int, key: int) -> None:
    """Write a key, of one word or two, to the memory of this thread."""
    at = place * n_words * gpu.block_size() + gpu.thread_number()
    words[np.uint64(at)] = np.int32(np.uint32(key & _LOW))
    if n_words == 2:
        words[np.uint64(at + gpu.block_size())] = np.int32(key >> 32)


@kernel(inline=True, inner=True)
def kept_key(words: np.ndarray, place: int, n_words: int) -> int:
    """Read a key of :func:`keep_key`."""
    at = place * n_words * gpu.block_size() + gpu.thread_number()
    low = words[np.uint64(at)]
    if n_words == 1:
        return np.int64(low)
    return np.int64(np.uint32(low)) | (np.int64(words[np.uint64(at + gpu.block_size())]) << 32)


@kernel(inner=True)
def find_leaf(
    bits: AnyArray,
    rows: GpuRows,
    row: int,
    trees: GpuTrees,
    categories: GpuCategories,
    words: np.ndarray,
    n_words: int,
    root: int,
) -> int:
    """Return the node in which a row ends, from the root of a tree on."""
    start, missing = rows.origin + (rows.first + row) * rows.row_step, -rows.flip - 1
    node, step = root, trees.nodes[np.uint64(2 * root + 1)]
    while step >= 0:
        threshold, place = trees.nodes[np.uint64(2 * node)], (step >> PLACE_SHIFT) & _PLACE
        if step & IS_CATEGORY:
            bin_ = np.int64(categories.bins[np.uint64(place * rows.count + row)])
            word = categories.sets[np.uint64(threshold + (bin_ >> 6))]
            right = 1 - ((word >> (bin_ & 63)) & 1)
        else:
            if rows.is_kept == 1:
                key = kept_key(words, place, n_words)
            else:
                column = rows.columns[np.uint64(place)]
                key = key_at(bits, rows, start + column * rows.column_step)
            right = np.int64(key > threshold) | (
                step & MISSING_GOES_RIGHT & np.int64(key == missing)
            )
        node = (step >> CHILD_SHIFT) + right
        step = trees.nodes[np.uint64(2 * node + 1)]
    return node


@kernel(inner=True)
def score_row(
    bits: AnyArray,
    rows: GpuRows,
    trees: GpuTrees,
    categories: GpuCategories,
    base: FloatArray,
    scores: FloatArray,
    n_words: int,
) -> None:
    """Write the scores of the row of this thread; ``n_words`` of 32 bits are a key."""
    row, n_outputs = gpu.block_number(0) * gpu.block_size() + gpu.thread_number(), len(base)
    if row >= rows.count:
        return
    n_columns = len(rows.columns)
    words = gpu.shared_words(rows.is_kept * n_columns * n_words * gpu.block_size())
    start = rows.origin + (rows.first + row) * rows.row_step
    if rows.is_kept == 1:
        for place in range(n_columns):
            at = start + rows.columns[np.uint64(place)] * rows.column_step
            keep_key(words, place, n_words, key_at(bits, rows, at))
    if trees.width > 1:
        for output in range(n_outputs):
            scores[output * rows.count + row] = base[output]
        for tree in range(trees.first, trees.stop):
            root = trees.roots[tree]
            node = find_leaf(bits, rows, row, trees, categories, words, n_words, root)
            for output in range(n_outputs):
                scores[output * rows.count + row] += trees.values[node * trees.width + output]
        return
    for output in range(n_outputs):
        total, first = base[output], trees.first + (output - trees.first) % n_outputs
        for tree in range(first, trees.stop, n_outputs):
            root = trees.roots[np.uint64(tree)]
            node = find_leaf(bits, rows, row, trees, categories, words, n_words, root)
            total += trees.values[np.uint64(node)]
        scores[output * rows.count + row] = total


@kernel
def score_narrow(
    bits: kt.Int32_1D,
    rows: GpuRows,
    trees: GpuTrees,
    categories: GpuCategories,
    base: kt.Float64_1D,
    scores: kt.Float64_1D,
) -> None:
    """Write the scores of rows of float32, output after output, from ``base`` on."""
    score_row(bits, rows, trees, categories, base, scores, np.int64(1))


@kernel
def score_wide(
    bits: kt.Int64_1D,
    rows: GpuRows,
    trees: GpuTrees,
    categories: GpuCategories,
    base: kt.Float64_1D,
    scores: kt.Float64_1D,
) -> None:
    """Like :func:`score_narrow`, for rows of float64."""
    score_row(bits, rows, trees, categories, base, scores, np.int64(2))


@kernel(inner=True)
def bin_row(
    values: AnyArray, rows: GpuRows, levels: GpuLevels, bins: BinArray, unknown: IntArray
) -> None:
    """Write the bins of the row of this thread in all category columns."""
    row = gpu.block_number(0) * gpu.block_size() + gpu.thread_number()
    if row >= rows.count:
        return
    start = rows.origin + (rows.first + row) * rows.row_step
    for k in range(len(levels.columns)):
        value = np.float64(values[start + levels.columns[k] * rows.column_step])
        low, stop = levels.starts[k], levels.starts[k + 1]
        high = stop
        while low < high:
            middle = (low + high) // 2
            if levels.values[middle] < value:
                low = middle + 1
            else:
                high = middle
        found = np.int64(MISSING_BIN)
        if low < stop and levels.values[low] == value:
            found = np.int64(levels.bins[low])
        elif value == value:  # not NaN: no level counts as missing
            gpu.add_global(unknown, np.int64(k), np.int64(1))
        bins[k * rows.count + row] = np.uint8(found)


@kernel
def bin_narrow(
    values: kt.Float32_1D, rows: GpuRows, levels: GpuLevels, bins: kt.UInt8_1D, unknown: kt.Int64_1D
) -> None:
    """Write the bins of category columns of float32, column after column."""
    # ``unknown`` counts the rows of each column whose value is no level.
    bin_row(values, rows, levels, bins, unknown)


@kernel
def bin_wide(
    values: kt.Float64_1D, rows: GpuRows, levels: GpuLevels, bins: kt.UInt8_1D, unknown: kt.Int64_1D
) -> None:
    """Like :func:`bin_narrow`, for columns of float64."""
    bin_row(values, rows, levels, bins, unknown)
