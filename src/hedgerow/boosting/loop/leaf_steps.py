"""Leaf values after a line search, and limits of these and of Newton steps without penalties."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.data.schema import Schema
from hedgerow.growing.core.tree import GrownTree
from hedgerow.growing.limits.isotonic import order_leaves, split_signs
from hedgerow.params import BoostParams


def cut_off(tree: GrownTree, longest: float) -> GrownTree:
    """Return the tree without values beyond ``longest``."""
    values = tree.values_of_lines
    if not (np.abs(values) > longest).any():
        return tree
    return tree.with_values_of_lines(np.clip(values, -longest, longest))


def with_searched(tree: GrownTree, search: Callable[[GrownTree, int], GrownTree]) -> GrownTree:
    """Return the tree with vectors from a line search for each output."""
    vectors = tree.vectors
    assert vectors is not None
    columns: list[FloatArray] = [
        search(tree.with_values(np.ascontiguousarray(vectors[:, k])), k).value
        for k in range(vectors.shape[1])
    ]
    return tree.with_vectors(np.column_stack(columns))


def with_steps(
    tree: GrownTree, leaves: IntArray, steps: FloatArray, params: BoostParams, schema: Schema
) -> GrownTree:
    """Return the tree whose ``leaves`` take the given steps, within the limits of ``params``."""
    longest = params.max_delta_step or np.inf
    value = tree.value.copy()
    value[leaves] = params.learning_rate * np.clip(steps, -longest, longest)
    if params.monotone_constraints is not None:
        signs = split_signs(tree, params.monotone_constraints, schema)
        value = order_leaves(tree, value, signs)
    return tree.with_values(_with_means(tree, value))


def _with_means(tree: GrownTree, value: FloatArray) -> FloatArray:
    """Set inner nodes to the mean of their leaves: the value of a row that stops there."""
    means, cover = value.tolist(), tree.cover.tolist()
    left, right = tree.left.tolist(), tree.right.tolist()
    for node in reversed(range(len(means))):  # children come after their parents
        a, b = left[node], right[node]
        if a > 0:
            total = cover[a] + cover[b]
            share = cover[a] / total if total > 0.0 else 0.5
            means[node] = share * means[a] + (1.0 - share) * means[b]
    return np.array(means)
