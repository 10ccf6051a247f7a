"""Line search of leaf values, for leaves that hold vectors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.growing.core.tree import GrownTree


def with_searched(tree: GrownTree, search: Callable[[GrownTree, int], GrownTree]) -> GrownTree:
    """Return the tree with vectors from a line search for each output.

    Parameters
    ----------
    tree : GrownTree
    search : callable
        Takes a tree with the values of one output, and the output; returns it with new values.
    """
    vectors = tree.vectors
    assert vectors is not None
    columns: list[FloatArray] = [
        search(tree.with_values(np.ascontiguousarray(vectors[:, k])), k).value
        for k in range(vectors.shape[1])
    ]
    return tree.with_vectors(np.column_stack(columns))
