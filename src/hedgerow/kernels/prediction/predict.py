r"""Raw scores of rows: two engines with the same result to the last bit.

Glossary
--------
rows     ``(bits, coding, origin, row_step, column_step)``: the values of a table
         as a flat array of integers of their width; the value of row r, column c
         is ``bits[origin + r * row_step + c * column_step]``
coding   how a key is made from bits (:mod:`hedgerow.kernels.prediction.table_keys`)
slot     one column as keys, with missing values either lowest (they go left at
         every split of the slot) or highest (they go right); a column whose
         splits send missing values both ways has two slots.  Each set of
         categories is a slot, too: its key is 0 for the rows in the set, else 1
rank     number of thresholds of a column below a key: it replaces the key and takes 32
         instead of 64 bits (:func:`hedgerow.kernels.prediction.table_keys.fill_ranks`)
part     at most 32 exits of a tree, numbered from left to right; an exit is a
         leaf or the top of another part; or a whole tree, whose exits are codes
mask     32 bits per row: the exits of a part that the row may still take, or the splits of a coded
         tree that the row is not above
code     a bit for each different split of a tree, set if the row goes right there
tables   :class:`hedgerow.model.mask_tables.MaskTables` or
         :class:`hedgerow.model.layout.WalkTables` as a plain tuple
leaves   ``(is_linear, vectors, value, slopes, records, numbers, are_finite)``, the contents of
         leaves that do not hold one number each (:class:`hedgerow.model.layout.LeafContents`), and
         if there are lines, the numbers of all rows, and 1 if all are finite
scores   float64 (n_outputs, n_rows); if leaves hold vectors, (n_rows, n_outputs), padded like them
block    rows handled side by side, a multiple of 16
space    uint64, scratch space of one call (:func:`mask_space`, :func:`walk_space`)

Bit masks (QuickScorer, with the rows of a block side by side).  The splits of a
part are evaluated in any order, each as ``mask &= clear if key > threshold else ~0``,
where ``clear`` has zeros at the exits below the left child.  The lowest remaining
bit is the row's exit.  There is no branch and no gather, and the compiler vectorises
the loop::

    part      a           exits 2 1 0
             / \          clear 1 1 0 of a: its left child is exit 0
            0   b               1 0 1 of b: its left child is exit 1
               / \
              1   2       right at a, left at b: mask 1 1 0, lowest bit 1, exit 1

A tree of more than 32 leaves has several parts; the exit taken in one part names
the next part (:func:`add_masked_trees`).

A tree of few different splits, as a symmetric one with one split per level, is a single part in
which each split clears a bit of its own.  The cleared bits are the code of the row, and a table has
the leaf of each code::

    split 0   x3 > 0.5   right   mask 0 1 0, code 1 0 1 = 5:  value[start + 5]
    split 1   x0 > 2.0   left
    split 2   x3 > 0.9   right

Walk.  Single rows and trees of very many leaves go from node to node without
branches, eight rows at a time: children are neighbours and a leaf is its own
child, so every row takes as many steps as the tree is deep
(:func:`walk_trees`).  A leaf compares the lowest key of all with its own value.

Where leaves hold vectors, a row ends at a vector with a number for each output
(:func:`add_vectors`); where leaves have slopes, it ends at a line
(:mod:`hedgerow.kernels.prediction.slopes`).

The score of a row is the sum in tree order, in both engines and for any block.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from hedgerow import kernel_types as kt
from hedgerow.arrays import MISSING_KEY, AnyArray, FloatArray, IntArray
from hedgerow.compile import kernel
from hedgerow.kernels.prediction.slopes import Slopes, add_lines, add_records
from hedgerow.kernels.prediction.table_keys import (
    BothWidths,
    CategorySets,
    KeyRows,
    Ranks,
    fill_keys,
    fill_ranks,
)
from hedgerow.kernels.primitives.intrinsics import SPARE_WORDS, line_start, trailing_zeros, words_as
from hedgerow.kernels.simd.lanes import WIDTH, load_floats, store_floats

EXITS = 32
"""Exits of a part: bits of a mask."""

FUSED = 8
"""Splits evaluated while a mask is held in a register; the last ones of a part are padded to this
number, to two less, or to twice two less: the 30 of a tree of 31 leaves are 8, 8, 8 and 6, and 9 to
12 levels are 6 and 6.  Four cost the same, in twice as many loops."""

BLOCK = 256
"""Rows of a block of the mask engine.  Each fused loop starts with checks that its arrays do not
overlap: a row and tree of 31 leaves take 1.76 ns in blocks of 64 rows, 1.12 in these."""

WALK_BLOCK = 64
"""Rows of a block of the walk."""

_ALL = np.uint32(0xFFFFFFFF)
_ONE = np.uint64(1)
_LINK_BITS = np.uint64(32)
_LOW_BITS = np.uint64(0xFFFFFFFF)


GROUP = 8
"""Trees whose vectors are added at once, so that sums are loaded and stored once for all."""

WalkArrays: TypeAlias = tuple[kt.Int64_1D, kt.Int64_1D, kt.Int64_1D, kt.UInt64_1D, kt.UInt64_1D]
"""Tables of the walk."""

Leaves: TypeAlias = tuple[
    kt.UInt8_1D,
    kt.Float64_2D,
    kt.Float64_1D,
    Slopes,
    tuple[kt.UInt64_1D, kt.Float64_1D],
    kt.Float64_2D,
    int,
]
"""Contents of leaves, see the glossary."""


@kernel(inner=True)
def add_vectors(
    vectors: FloatArray,
    chosen: AnyArray,
    step: int,
    n_trees: int,
    n_rows: int,
    scores: FloatArray,
    first_row: int,
) -> None:
    """Add vectors ``chosen[t * step + i]`` of trees t, in order, to row ``first_row + i``."""
    width = np.uint64(vectors.shape[1])
    sums = words_as(scores, 0, scores.size, np.float64)
    parts = words_as(vectors, 0, vectors.size, np.float64)
    for i in range(np.uint64(n_rows)):
        at = (np.uint64(first_row) + i) * width
        for k in range(np.uint64(0), width, np.uint64(WIDTH)):
            total = load_floats(sums, at + k)
            for tree in range(np.uint64(n_trees)):
                part = np.uint64(chosen[tree * np.uint64(step) + i]) * width
                total = total + load_floats(parts, part + k)
            store_floats(sums, at + k, total)


@kernel(inner=True)
def add_lines_of(
    leaves: tuple[Any, ...], chosen: AnyArray, n_rows: int, scores: FloatArray, first_row: int
) -> None:
    """Add line ``chosen[i]`` to row ``first_row + i`` of an output, for ``n_rows`` rows."""
    _, _, value, slopes, records, numbers, are_finite = leaves
    if len(records[0]) > 0:
        add_records(records, numbers, are_finite, chosen, n_rows, scores, first_row)
    else:
        add_lines((value, slopes, numbers), chosen, n_rows, scores, first_row)


@kernel
def add_chosen_vectors(
    vectors: kt.Float64_2D,
    chosen: kt.Float64_1D,
    rows: kt.UInt32_1D,
    start: int,
    stop: int,
    scores: kt.Float64_2D,
) -> None:
    """Add vector ``chosen[r]`` to the scores of each row r."""
    # The rows are ``rows[start:stop]``, or ``start .. stop`` if ``rows`` is empty.
    listed = len(rows) > 0
    for output in range(np.uint64(len(scores))):
        for i in range(np.uint64(start), np.uint64(stop)):
            row = np.uint64(rows[i]) if listed else i
            scores[output, row] += vectors[np.uint64(chosen[row]), output]


@kernel(inline=True, inner=True)
def clear_exits(
    keys: AnyArray,
    masks: AnyArray,
    block: int,
    part: int,
    splits: tuple[Any, ...],
    at: int,
    is_whole: bool,
) -> None:
    """Evaluate the ``FUSED`` splits from ``at`` on, or all but two, for all rows of a block."""
    slot, threshold, clear = splits
    b, c, d, e = at + _ONE, at + np.uint64(2), at + np.uint64(3), at + np.uint64(4)
    f = at + np.uint64(5)
    g, h = (at + np.uint64(6), at + np.uint64(7)) if is_whole else (e, f)
    s0, s1, s2, s3 = slot[at] * block, slot[b] * block, slot[c] * block, slot[d] * block
    s4, s5, s6, s7 = slot[e] * block, slot[f] * block, slot[g] * block, slot[h] * block
    t0, t1, t2, t3 = threshold[at], threshold[b], threshold[c], threshold[d]
    t4, t5, t6, t7 = threshold[e], threshold[f], threshold[g], threshold[h]
    c0, c1, c2, c3 = clear[at], clear[b], clear[c], clear[d]
    c4, c5, c6, c7 = clear[e], clear[f], clear[g], clear[h]
    for i in range(block):
        mask = masks[part + i]
        mask &= c0 if keys[s0 + i] > t0 else _ALL
        mask &= c1 if keys[s1 + i] > t1 else _ALL
        mask &= c2 if keys[s2 + i] > t2 else _ALL
        mask &= c3 if keys[s3 + i] > t3 else _ALL
        mask &= c4 if keys[s4 + i] > t4 else _ALL
        mask &= c5 if keys[s5 + i] > t5 else _ALL
        if is_whole:
            mask &= c6 if keys[s6 + i] > t6 else _ALL
            mask &= c7 if keys[s7 + i] > t7 else _ALL
        masks[part + i] = mask


def mask_space(n_slots: int, most_parts: int, block: int) -> npt.NDArray[np.uint64]:
    """Return scratch space for one call of :func:`add_masked_trees`."""
    return np.empty((2 * n_slots + most_parts + GROUP + 2) * block // 2 + SPARE_WORDS, np.uint64)


def walk_space(n_slots: int, block: int, n_rows: int) -> npt.NDArray[np.uint64]:
    """Return scratch space for one call of :func:`walk_trees`."""
    return np.empty((n_slots + 1 + GROUP) * max(1, min(block, n_rows)), np.uint64)


@kernel
def add_masked_trees(
    widths: BothWidths,
    tables: tuple[Any, ...],
    scores: kt.Float64_2D,
    block: int,
    start: int,
    stop: int,
    first_tree: int,
    stop_tree: int,
    categories: CategorySets,
    space: kt.UInt64_1D,
    leaves: Leaves,
    ranks: Ranks | None,
) -> None:
    """Add trees ``first_tree .. stop_tree`` to the scores of rows ``start .. stop``."""
    # ``widths`` are rows of 32 and of 64 bits, one of them empty.  Thresholds are 64-bit keys if
    # ``ranks`` is None, else int32: ranks of 64-bit keys or, without any ranks, 32-bit keys.
    rows, wide_rows = widths
    slots, slot, threshold, clear, part_start, tree_part, tree_exit, hops, is_coded = tables[:9]
    value, content, onward, most_parts = tables[9:]
    is_linear, vectors = leaves[0], leaves[1]
    splits = (slot, threshold, clear)
    n_outputs, has_vectors = np.uint64(len(scores)), vectors.shape[1] > 0
    block, stop = np.uint64(block), np.uint64(stop)
    n_keys, n_masks = np.uint64(len(slots)) * block, np.uint64(most_parts) * block
    first = line_start(space)
    keys = words_as(space, first, n_keys, threshold.dtype)
    masks = words_as(space, first + n_keys, n_masks, np.uint32)
    n_taken = n_keys + (n_masks >> _ONE)
    wide_keys = words_as(space, first + n_taken, block, np.int64)
    exits = words_as(space, first + n_taken + block, np.uint64(GROUP) * block, np.uint32)
    for row in range(np.uint64(start), stop, block):
        n, own = min(block, stop - row), np.uint64(0)
        if ranks is None:
            fill_keys(wide_rows, slots, categories, row, n, keys, _ONE, block)
        elif len(ranks.start) == 0:
            fill_keys(rows, slots, categories, row, n, keys, _ONE, block)
        else:
            fill_ranks(wide_rows, slots, ranks, categories, row, n, keys, block, wide_keys)
        for tree in range(np.uint64(first_tree), np.uint64(stop_tree)):
            first_part = tree_part[tree]
            for part in range(first_part, tree_part[tree + _ONE]):
                mask_start = (part - first_part) * block
                for i in range(block):
                    masks[mask_start + i] = _ALL
                at, end = part_start[part], part_start[part + _ONE]
                while at < end:
                    n_left = end - at
                    is_whole = n_left >= np.uint64(FUSED) and n_left != np.uint64(2 * FUSED - 4)
                    clear_exits(keys, masks, block, mask_start, splits, at, is_whole)
                    at += np.uint64(FUSED) if is_whole else np.uint64(FUSED - 2)
            if is_coded[tree]:
                for i in range(n):
                    exits[own + i] = ~masks[i]
            else:
                for i in range(n):
                    exits[own + i] = trailing_zeros(masks[i])
            table = tree_exit[tree]
            for _ in range(hops[tree]):
                for i in range(n):
                    part = np.uint64(onward[table + np.uint64(exits[own + i])])
                    mask = masks[part * block + i]
                    exits[own + i] = part * np.uint64(EXITS) + np.uint64(trailing_zeros(mask))
            if has_vectors:
                for i in range(n):
                    exits[own + i] = content[table + np.uint64(exits[own + i])]
                own += block
                if own == np.uint64(GROUP) * block or tree + _ONE == np.uint64(stop_tree):
                    add_vectors(vectors, exits, block, own // block, n, scores, row)
                    own = np.uint64(0)
            elif is_linear[tree]:
                for i in range(n):
                    exits[i] = content[table + np.uint64(exits[i])]
                add_lines_of(leaves, exits, n, scores[tree % n_outputs], row)
            else:
                output = tree % n_outputs
                for i in range(n):
                    scores[output, row + i] += value[table + np.uint64(exits[i])]


@kernel(inline=True, inner=True)
def step(nodes: IntArray, keys: AnyArray, first: int, node: int) -> int:
    """Return the child for the row whose keys start at ``first``; a leaf returns itself."""
    link = np.uint64(nodes[node + node + _ONE])
    above = keys[first + (link & _LOW_BITS)] > nodes[node + node]
    return (link >> _LINK_BITS) + np.uint64(above)


@kernel(inline=True, inner=True)
def walk_tree(
    nodes: IntArray,
    root: int,
    depth: int,
    keys: AnyArray,
    n_slots: int,
    n_rows: int,
    ends: AnyArray,
) -> None:
    """Write the leaf that each row of a block reaches to ``ends``."""
    # Eight rows at a time hide the 12 or so cycles from a node to its child.
    whole = n_rows - n_rows % np.uint64(8)
    for i in range(np.uint64(0), whole, np.uint64(8)):
        r0 = i * n_slots
        r1, r2, r3 = r0 + n_slots, r0 + np.uint64(2) * n_slots, r0 + np.uint64(3) * n_slots
        r4, r5 = r0 + np.uint64(4) * n_slots, r0 + np.uint64(5) * n_slots
        r6, r7 = r0 + np.uint64(6) * n_slots, r0 + np.uint64(7) * n_slots
        a = b = c = d = e = f = g = h = root
        for _ in range(depth):
            a, b = step(nodes, keys, r0, a), step(nodes, keys, r1, b)
            c, d = step(nodes, keys, r2, c), step(nodes, keys, r3, d)
            e, f = step(nodes, keys, r4, e), step(nodes, keys, r5, f)
            g, h = step(nodes, keys, r6, g), step(nodes, keys, r7, h)
        ends[i], ends[i + _ONE] = a, b
        ends[i + np.uint64(2)], ends[i + np.uint64(3)] = c, d
        ends[i + np.uint64(4)], ends[i + np.uint64(5)] = e, f
        ends[i + np.uint64(6)], ends[i + np.uint64(7)] = g, h
    for i in range(whole, n_rows):
        node = root
        for _ in range(depth):
            node = step(nodes, keys, i * n_slots, node)
        ends[i] = node


@kernel
def walk_trees(
    rows: KeyRows,
    tables: WalkArrays,
    scores: kt.Float64_2D,
    block: int,
    start: int,
    stop: int,
    first_tree: int,
    stop_tree: int,
    categories: CategorySets,
    space: kt.UInt64_1D,
    leaves: Leaves,
    found: kt.Int32_2D,
) -> None:
    """Add trees like :func:`add_masked_trees`, by walking; for few rows or large trees."""
    # If ``found``, int32 (n_rows, n_trees), is not empty, it gets the leaves, and no score changes.
    slots, nodes, node, roots, depths = tables
    values = words_as(nodes, 0, nodes.size, np.float64)
    width, n_outputs = np.uint64(len(slots)) + _ONE, np.uint64(len(scores))
    stop, has_vectors = np.uint64(stop), leaves[1].shape[1] > 0
    block = max(_ONE, min(np.uint64(block), stop - np.uint64(start)))
    ends = words_as(space, 0, np.uint64(GROUP) * block, np.uint64)
    keys = words_as(space, np.uint64(GROUP) * block, width * block, rows[0].dtype)
    for row in range(np.uint64(start), stop, block):
        n, held = min(block, stop - row), np.uint64(0)
        fill_keys(rows, slots, categories, row, n, keys, width, _ONE)
        for i in range(n):
            keys[i * width + width - _ONE] = MISSING_KEY
        for tree in range(np.uint64(first_tree), np.uint64(stop_tree)):
            own = ends[held * block : (held + _ONE) * block]
            walk_tree(nodes, roots[tree], depths[tree], keys, width, n, own)
            if len(found) > 0:
                for i in range(n):
                    found[row + i, tree] = node[own[i]] - node[roots[tree]]
            elif has_vectors:
                for i in range(n):
                    own[i] = nodes[own[i] + own[i]]
                held += _ONE
                if held == np.uint64(GROUP) or tree + _ONE == np.uint64(stop_tree):
                    add_vectors(leaves[1], ends, block, held, n, scores, row)
                    held = np.uint64(0)
            elif leaves[0][tree]:
                for i in range(n):
                    own[i] = nodes[own[i] + own[i]]
                add_lines_of(leaves, own, n, scores[tree % n_outputs], row)
            else:
                output = tree % n_outputs
                for i in range(n):
                    scores[output, row + i] += values[own[i] + own[i]]
