"""Forests made of others: joined, averaged, with one tree for each output, with other columns.

If averaged forests split target statistics, the inputs of the new forest are the common columns,
the statistics of each forest, and the common crosses::

    forest 0   age | mean of city            inputs   age | mean of city | mean of city
    forest 1   age | mean of city                           (forest 0)     (forest 1)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import FloatArray, IntArray, distinct
from hedgerow.data.inputs import Inputs
from hedgerow.kernels.prediction.slopes import joined_slopes, slopes_at
from hedgerow.model.forest import NODE_FIELDS, Forest


def joined_forests(forests: Sequence[Forest], base_score: FloatArray) -> Forest:
    """Concatenate the trees of forests whose category levels have the bins of the last forest.

    Trees with vectors do not go with trees without; a forest without trees goes with both.
    """
    of_nodes: dict[str, Any] = {
        name: np.concatenate([getattr(forest, name) for forest in forests]) for name in NODE_FIELDS
    }
    before = np.cumsum([0, *(forest.tree_start[-1] for forest in forests)])
    starts = [forest.tree_start[1:] + n for forest, n in zip(forests, before, strict=False)]
    sets = [forest.sets for forest in forests]
    first_set = np.cumsum([0, *map(len, sets)])
    moved = [n * forest.has_sets for forest, n in zip(forests, first_set, strict=False)]
    of_nodes["threshold"] += np.concatenate(moved)
    lines = [forest.slopes for forest in forests]
    n_lines = [forest.lines_of_node * len(forest.feature) for forest in forests]
    vectors = [forest.vectors for forest in forests if forest.n_trees > 0]
    found = [each for each in vectors if each is not None]
    assert len(found) in (0, len(vectors)), "trees with vectors and trees without"
    last, tables = forests[-1], forests[-1].categories
    return replace(
        last,
        **of_nodes,
        tree_start=np.concatenate([[0], *starts]).astype(np.int64),
        base_score=base_score,
        categories=None if tables is None else replace(tables, sets=np.concatenate(sets)),
        vectors=np.concatenate(found) if found else None,
        slopes=joined_slopes(lines, n_lines),
    )


def without_vectors(forest: Forest) -> Forest:
    """Replace vector leaves by one tree for each output; scores stay equal to the last bit."""
    if forest.vectors is None:
        return forest
    n_outputs = forest.n_outputs
    trees = np.repeat(np.arange(forest.n_trees), n_outputs)
    repeated = forest.some_trees(trees, forest.base_score)
    assert repeated.vectors is not None
    sizes = np.diff(repeated.tree_start)
    output = np.repeat(np.tile(np.arange(n_outputs), forest.n_trees), sizes)
    node = np.arange(len(output))
    value, slopes = repeated.vectors[node, output], repeated.slopes
    if slopes is not None:
        slopes = slopes_at(slopes, n_outputs * node + output)
    return replace(repeated, value=value, vectors=None, slopes=slopes)


def used_columns(forest: Forest) -> IntArray:
    """Return the columns used by splits or linear leaves, ascending."""
    splits = forest.feature[forest.feature >= 0]
    terms = splits[:0] if forest.slopes is None else forest.slopes.column
    return distinct(np.concatenate([splits, terms])).astype(np.int64)


def renumbered(forest: Forest, column_map: npt.NDArray[np.int32], n_features: int) -> Forest:
    """Replace column ``j`` of the forest by column ``column_map[j]`` of ``n_features``.

    ``column_map`` has an entry for each column of ``forest``; entries of unused columns do
    not matter.  The caller changes the category tables.
    """
    feature = np.where(forest.feature >= 0, column_map[forest.feature], np.int32(-1))
    slopes = forest.slopes
    if slopes is not None:
        slopes = slopes._replace(column=column_map[slopes.column])
    return replace(forest, feature=feature, slopes=slopes, n_features=n_features)


def average_forests(forests: Sequence[Forest]) -> Forest:
    """Return a forest whose raw score is the mean of the raw scores of ``forests``."""
    n, base_score = len(forests), np.mean([forest.base_score for forest in forests], axis=0)
    joined = joined_forests(forests, base_score)
    vectors, slopes = joined.vectors, joined.slopes
    if slopes is not None:
        slopes = slopes._replace(slope=slopes.slope / n, low=slopes.low / n, high=slopes.high / n)
    return replace(
        joined,
        value=joined.value / n,
        vectors=None if vectors is None else vectors / n,
        slopes=slopes,
    )


def with_inputs_of_all(
    forests: Sequence[Forest], inputs: Sequence[Inputs]
) -> tuple[list[Forest], Inputs]:
    """Join the inputs of several forests, and renumber the columns of each forest."""
    n_kept, crosses = len(inputs[0].kept), inputs[0].crosses
    joined = Inputs(inputs[0].kept, tuple(s for one in inputs for s in one.statistics), crosses)
    moved, first = [], 0
    for forest, one in zip(forests, inputs, strict=True):
        column_map = np.arange(one.n_inputs, dtype=np.int32)
        n_own = one.n_inputs - n_kept - len(crosses)
        column_map[n_kept : n_kept + n_own] += np.int32(first)
        column_map[n_kept + n_own :] += np.int32(joined.n_inputs - one.n_inputs)
        tables = forest.categories
        if tables is not None:  # statistics and crosses have no levels
            end = np.full(joined.n_inputs - n_kept, tables.level_start[n_kept])
            tables = replace(
                tables, level_start=np.concatenate([tables.level_start[: n_kept + 1], end])
            )
        moved.append(replace(renumbered(forest, column_map, joined.n_inputs), categories=tables))
        first += n_own
    return moved, joined
