"""Average several forests into one forest, whose raw score is their mean.

The new forest holds the trees of all forests one after the other, with values divided by
the number of forests.  Gains, covers and counts do not change.

If the forests split target statistics, the inputs of the new forest are the common columns,
the statistics of each forest, and the common crosses::

    forest 0   age | mean of city            inputs   age | mean of city | mean of city
    forest 1   age | mean of city                           (forest 0)     (forest 1)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hedgerow.arrays import IntArray
from hedgerow.data.inputs import Inputs
from hedgerow.kernels.prediction.slopes import Slopes, joined_slopes
from hedgerow.model.forest import NODE_FIELDS, CategoryTables, Forest, renumbered


def average_forests(forests: Sequence[Forest]) -> Forest:
    """Return a forest whose raw score is the mean of the raw scores of ``forests``.

    Parameters
    ----------
    forests : sequence of Forest
        Forests with the same features, outputs, and bins of category levels.

    Returns
    -------
    Forest
        Its first rounds are those of the first forest.
    """
    fields: dict[str, Any] = {
        name: np.concatenate([getattr(forest, name) for forest in forests]) for name in NODE_FIELDS
    }
    fields["value"] /= len(forests)
    vectors = [forest.vectors for forest in forests if forest.vectors is not None]
    before = np.cumsum([0, *(forest.tree_start[-1] for forest in forests)])
    starts = [forest.tree_start[1:] + n for forest, n in zip(forests, before, strict=False)]
    merged = replace(
        forests[0],
        **fields,
        tree_start=np.concatenate([[0], *starts]).astype(np.int64),
        base_score=np.mean([forest.base_score for forest in forests], axis=0),
        categories=None,
        vectors=np.concatenate(vectors) / len(forests) if vectors else None,
        slopes=_mean_slopes(forests),
    )
    tables = [forest.categories for forest in forests]
    if tables[0] is None:
        return merged
    return _with_sets(merged, [table for table in tables if table is not None], before)


def _mean_slopes(forests: Sequence[Forest]) -> Slopes | None:
    """Concatenate the linear terms of all forests, divided by the number of forests."""
    joined = joined_slopes([f.slopes for f in forests], [len(f.feature) for f in forests])
    if joined is None:
        return None
    n = len(forests)
    return joined._replace(slope=joined.slope / n, low=joined.low / n, high=joined.high / n)


def _with_sets(forest: Forest, tables: list[CategoryTables], before: IntArray) -> Forest:
    """Concatenate the category sets of all forests, and renumber them in the nodes."""
    first = np.cumsum([0, *(len(table.sets) for table in tables)])
    every = replace(tables[0], sets=np.concatenate([table.sets for table in tables]))
    forest = replace(forest, categories=every)
    threshold = forest.threshold + np.repeat(first[:-1], np.diff(before)) * forest.has_sets
    return replace(forest, threshold=threshold)


def with_inputs_of_all(
    forests: Sequence[Forest], inputs: Sequence[Inputs]
) -> tuple[list[Forest], Inputs]:
    """Join the inputs of several forests, and renumber the columns of each forest.

    Parameters
    ----------
    forests : sequence of Forest
    inputs : sequence of Inputs
        Inputs of each forest, with the same kept columns and crosses.
    """
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
