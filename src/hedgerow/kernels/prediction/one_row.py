"""The raw score of a single row, which walks several trees side by side.

A single row waits at each node for the number of the child (about 12 cycles).  Here the row
walks eight trees of about the same depth together, so the waits overlap: the walk of
one row through 100 trees of 31 leaves takes a third of the time (``benchmarks/one_row.py``).
The leaves are then added in tree order, as everywhere (:mod:`hedgerow.kernels.prediction.predict`).

Glossary
--------
words    int64 (n_features,): bits of float64 values, or int64 values
codings  int64 (n_codings, 7): ``codings[coding_of[c]]`` turns the word of column c into a key
order    the trees by ascending depth, so the depths of eight neighbours differ little
tables   :class:`hedgerow.model.layout.WalkTables` as a plain tuple
"""

from __future__ import annotations

import numpy as np

from hedgerow import kernel_types as kt
from hedgerow.arrays import MISSING_KEY
from hedgerow.compile import kernel
from hedgerow.kernels.prediction.predict import Leaves, WalkArrays, add_lines_of, add_vectors, step
from hedgerow.kernels.prediction.table_keys import CategorySets
from hedgerow.kernels.primitives.intrinsics import words_as

_ONE = np.uint64(1)


@kernel
def add_one_row(
    words: kt.Int64_1D,
    columns: tuple[kt.UInt8_1D, kt.Int64_2D, kt.UInt64_1D],
    tables: WalkArrays,
    categories: CategorySets,
    space: kt.UInt64_1D,
    leaves: Leaves,
    scores: kt.Float64_2D,
) -> None:
    """Add all trees to the scores of one row."""
    # ``space``, uint64 (n_trees + n_slots + 1,), belongs to this call alone.
    coding_of, codings, order = columns
    slots, nodes, _, roots, depths = tables
    values = words_as(nodes, 0, nodes.size, np.float64)
    bins, bins_start, sets = categories
    n_trees, n_outputs, zero = np.uint64(len(roots)), np.uint64(len(scores)), np.uint64(0)
    ends = words_as(space, 0, n_trees, np.uint64)
    keys = words_as(space, n_trees, np.uint64(len(slots)) + _ONE, np.int64)
    keys[np.uint64(len(slots))] = MISSING_KEY  # what leaves compare
    # The key of each slot, as of :func:`hedgerow.kernels.prediction.table_keys.fill_keys`.
    for slot in range(np.uint64(len(slots))):
        number = slots[slot]
        if number < 0:
            set_ = np.uint64(-1 - number)
            bin_ = np.uint64(bins[np.uint64(bins_start[set_])])
            word = sets[np.uint64(4) * set_ + (bin_ >> np.uint64(6))]
            keys[slot] = _ONE - ((word >> (bin_ & np.uint64(63))) & _ONE)
            continue
        column = np.uint64(number >> 1)
        coding = np.uint64(coding_of[column])
        shift, flip, minus_zero = codings[coding, 0], codings[coding, 1], codings[coding, 2]
        key = words[column]
        key = key ^ ((key >> shift) & flip)
        key = key if key != minus_zero else key ^ key
        present = (key >= codings[coding, 3]) & (key <= codings[coding, 4])
        keys[slot] = key if present else codings[coding, np.uint64(5) + np.uint64(number & 1)]
    # The leaf that the row reaches in each tree.
    whole = n_trees - n_trees % np.uint64(8)
    for i in range(zero, whole, np.uint64(8)):
        t0, t1, t2, t3 = order[i], order[i + _ONE], order[i + np.uint64(2)], order[i + np.uint64(3)]
        t4, t5 = order[i + np.uint64(4)], order[i + np.uint64(5)]
        t6, t7 = order[i + np.uint64(6)], order[i + np.uint64(7)]
        a, b, c, d = roots[t0], roots[t1], roots[t2], roots[t3]
        e, f, g, h = roots[t4], roots[t5], roots[t6], roots[t7]
        for _ in range(depths[t7]):
            a, b = step(nodes, keys, zero, a), step(nodes, keys, zero, b)
            c, d = step(nodes, keys, zero, c), step(nodes, keys, zero, d)
            e, f = step(nodes, keys, zero, e), step(nodes, keys, zero, f)
            g, h = step(nodes, keys, zero, g), step(nodes, keys, zero, h)
        ends[t0], ends[t1], ends[t2], ends[t3] = a, b, c, d
        ends[t4], ends[t5], ends[t6], ends[t7] = e, f, g, h
    for i in range(whole, n_trees):
        tree = order[i]
        a = roots[tree]
        for _ in range(depths[tree]):
            a = step(nodes, keys, zero, a)
        ends[tree] = a
    is_linear, vectors = leaves[0], leaves[1]
    if vectors.shape[1] > 0:
        for tree in range(n_trees):
            ends[tree] = nodes[ends[tree] + ends[tree]]
        add_vectors(vectors, ends, _ONE, n_trees, _ONE, scores, zero)
        return
    for output in range(n_outputs):
        total = scores[output, 0]
        for tree in range(output, n_trees, n_outputs):
            if is_linear[tree]:
                ends[tree], scores[output, 0] = nodes[ends[tree] + ends[tree]], total
                add_lines_of(leaves, ends[tree : tree + _ONE], _ONE, scores[output], zero)
                total = scores[output, 0]
            else:
                total += values[ends[tree] + ends[tree]]
        scores[output, 0] = total
