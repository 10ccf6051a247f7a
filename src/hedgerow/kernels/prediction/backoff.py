"""Stops of rows with a category that the model has not seen.

With ``unknown_category="backoff"`` such a row goes down a tree until a split tests
the unknown category.  The row stops at this node and gets the node's own value, the
mean over the training rows that reached it.

These rows are few, so the walk is a plain loop.

Glossary
--------
forest   ``(feature, threshold, missing_left, left, right, tree_start)``
set_of   int64: first word of each node's set of bins; -1 at a split of numbers and in a leaf
sets     uint64: the words of all sets
keys     int64 (n_rows, n_features): keys of columns of numbers
bins     uint8 (n_rows, n_features): bins of category columns
stops    int64 (n_rows, n_trees): nodes, counted over all trees
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hedgerow.arrays import MISSING_KEY, BinArray, IntArray
from hedgerow.compile import kernel


@kernel
def find_stops(
    forest: tuple[Any, ...],
    set_of: IntArray,
    sets: np.ndarray,
    unknown_bin: int,
    keys: IntArray,
    bins: BinArray,
    stops: IntArray,
) -> None:
    """Write the node at which each row stops in each tree."""
    feature, threshold, missing_left, left, right, tree_start = forest
    for row in range(keys.shape[0]):
        for tree in range(stops.shape[1]):
            root = tree_start[tree]
            node = root
            while feature[node] >= 0:
                column = feature[node]
                if set_of[node] >= 0:
                    bin_ = np.int64(bins[row, column])
                    if bin_ == unknown_bin:
                        break
                    word = sets[set_of[node] + (bin_ >> 6)]
                    goes_left = (word >> np.uint64(bin_ & 63)) & np.uint64(1) == 1
                elif keys[row, column] == MISSING_KEY:
                    goes_left = missing_left[node] == 1
                else:
                    goes_left = keys[row, column] <= threshold[node]
                node = root + (left[node] if goes_left else right[node])
            stops[row, tree] = node
