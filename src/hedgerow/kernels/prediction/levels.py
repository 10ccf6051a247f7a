"""Raw scores of symmetric trees: one split per level, as in CatBoost.

The results of the splits of a tree are the bits of a number, and the number is the index of
the leaf in a table::

    level 0   x3 > 0.5   1        code 1 0 1 = 5:  value[start + 5]
    level 1   x0 > 2.0   0
    level 2   x3 > 0.9   1

Three levels are evaluated at once for all rows of a block, without a branch and with a single
gather per tree.  If a branch ends before the last level, or skips a level, all codes that differ
only there have its value.  Where leaves hold vectors or lines, the table has the node instead.
Sums are in tree order, as in :mod:`hedgerow.kernels.prediction.predict`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow import kernel_types as kt
from hedgerow.compile import kernel
from hedgerow.kernels.prediction.predict import Leaves, add_leaves
from hedgerow.kernels.prediction.table_keys import CategorySets, fill_keys
from hedgerow.kernels.primitives.intrinsics import SPARE_WORDS, line_start, words_as

FUSED = 3
"""Levels evaluated at once; trees are padded to a multiple with splits that are always false."""

_ONE, _TWO = np.uint64(1), np.uint64(2)
_NO, _FIRST, _SECOND, _THIRD = np.uint32(0), np.uint32(4), np.uint32(2), np.uint32(1)
_BITS = np.uint32(FUSED)


def level_space(n_slots: int, block: int) -> npt.NDArray[np.uint64]:
    """Return scratch space for one call of :func:`add_level_trees`."""
    return np.empty((2 * n_slots + 1) * block // 2 + SPARE_WORDS, np.uint64)


@kernel
def add_level_trees(
    rows: tuple[Any, ...],
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
) -> None:
    """Add trees ``first_tree .. stop_tree`` to the scores of rows ``start .. stop``."""
    # ``tables``: :class:`hedgerow.model.engine_tables.LevelTables` as a plain tuple.
    slots, slot, threshold, level_start, value, node, table_start = tables
    n_outputs = np.uint64(len(scores))
    block, stop = np.uint64(block), np.uint64(stop)
    n_keys = np.uint64(len(slots)) * block
    first = line_start(space)
    keys = words_as(space, first, n_keys, threshold.dtype)
    codes = words_as(space, first + n_keys, block, np.uint32)
    for row in range(np.uint64(start), stop, block):
        n = min(block, stop - row)
        fill_keys(rows, slots, categories, row, n, keys, _ONE, block)
        for tree in range(np.uint64(first_tree), np.uint64(stop_tree)):
            for i in range(block):
                codes[i] = _NO
            for at in range(level_start[tree], level_start[tree + _ONE], np.uint64(FUSED)):
                s0, s1, s2 = slot[at] * block, slot[at + _ONE] * block, slot[at + _TWO] * block
                t0, t1, t2 = threshold[at], threshold[at + _ONE], threshold[at + _TWO]
                for i in range(block):
                    code = codes[i] << _BITS
                    code |= _FIRST if keys[s0 + i] > t0 else _NO
                    code |= _SECOND if keys[s1 + i] > t1 else _NO
                    code |= _THIRD if keys[s2 + i] > t2 else _NO
                    codes[i] = code
            output, table = tree % n_outputs, table_start[tree]
            if len(node) == 0:
                for i in range(n):
                    scores[output, row + i] += value[table + np.uint64(codes[i])]
            else:
                for i in range(n):
                    codes[i] = node[table + np.uint64(codes[i])]
                add_leaves(leaves, codes, n, scores, tree, row)
