"""Walk from the root of a single tree to the leaf of each row.

Values are compared as 64-bit keys (:mod:`hedgerow.kernels.tables.keys`).  At a numeric split a row
goes left if its key is at most the threshold; at a categorical one if its
category is among those that went left in training.  A missing value takes the
side that the node has learned; a category that the node has not seen goes to
the larger child.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import MISSING_KEY, IntArray
from hedgerow.compile import kernel
from hedgerow.kernels.tables.values import Values, key_in_table


class WalkNodes(NamedTuple):
    """Data of each node that the walk reads.

    feature, left, right  -1 in a leaf
    threshold             largest key that goes left
    count                 training rows
    category_start        one more than nodes: categories that a node has seen are
                          ``category[category_start[node] : category_start[node + 1]]``
    category              keys, ascending within a node
    category_left         1 if the category goes left
    """

    feature: npt.NDArray[np.int32]
    left: npt.NDArray[np.int32]
    right: npt.NDArray[np.int32]
    threshold: IntArray
    missing_left: npt.NDArray[np.uint8]
    count: IntArray
    category_start: IntArray
    category: IntArray
    category_left: npt.NDArray[np.uint8]


@kernel(inner=True)
def category_goes_left(nodes: WalkNodes, node: int, key: int) -> bool:
    """Return whether a category goes left at a categorical split."""
    first, last = nodes.category_start[node], nodes.category_start[node + 1]
    end = last
    while first < last:
        middle = (first + last) >> 1
        if nodes.category[middle] < key:
            first = middle + 1
        else:
            last = middle
    if first < end and nodes.category[first] == key:
        return nodes.category_left[first] == 1
    return nodes.count[nodes.left[node]] > nodes.count[nodes.right[node]]


@kernel
def walk_rows(values: Values, nodes: WalkNodes, leaf: IntArray, start: int, stop: int) -> None:
    """Write the leaf of rows ``start .. stop``."""
    for row in range(start, stop):
        node = np.int64(0)
        while nodes.feature[node] >= 0:
            key = key_in_table(values, row, nodes.feature[node])
            if key == MISSING_KEY:
                goes_left = nodes.missing_left[node] == 1
            elif nodes.category_start[node] < nodes.category_start[node + 1]:
                goes_left = category_goes_left(nodes, node, key)
            else:
                goes_left = key <= nodes.threshold[node]
            node = np.int64(nodes.left[node] if goes_left else nodes.right[node])
        leaf[row] = node
