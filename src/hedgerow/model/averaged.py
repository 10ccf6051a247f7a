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

import numpy as np

from hedgerow.data.inputs import Inputs
from hedgerow.model.forest import Forest
from hedgerow.model.other_forests import joined_forests, renumbered


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
