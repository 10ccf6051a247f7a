"""Raw scores of rows with replaced values of some columns, from the trees that use them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from hedgerow.arrays import AnyArray, BoolArray, FloatArray, IntArray
from hedgerow.inspection.background import Background
from hedgerow.model.forest import Forest
from hedgerow.model.model import Model
from hedgerow.model.predict import Predictor

_AT_ONCE = 1 << 23
"""Numbers of changed rows in memory at a time."""


def inputs_of_column(model: Model, column: int) -> IntArray:
    """Return the inputs of the trees that depend on a column of the user's table."""
    if model.inputs is None:
        return np.array([column], dtype=np.int64)
    sources = model.inputs.sources
    return np.array([k for k, made_of in enumerate(sources) if column in made_of], dtype=np.int64)


def is_plain(model: Model, column: int) -> bool:
    """Return whether the trees split the column itself, or do not use it at all."""
    if model.inputs is None:
        return True
    inputs = inputs_of_column(model, column)
    return len(inputs) == 0 or (len(inputs) == 1 and column in model.inputs.kept)


def rounds_with(forest: Forest, columns: IntArray) -> BoolArray:
    """Return for each round whether one of its trees uses one of the columns."""
    wanted = np.zeros(forest.n_features + 1, dtype=np.bool_)  # the last entry: leaves
    wanted[columns] = True
    asks = wanted[forest.feature]
    if forest.slopes is not None:
        in_term = np.concatenate(([0], np.cumsum(wanted[forest.slopes.column])))
        in_line = np.diff(in_term[forest.slopes.start]) > 0
        asks = asks | in_line.reshape(len(asks), -1).any(axis=1)
    first = forest.tree_start[:: forest.trees_per_round][: forest.n_rounds]
    return np.logical_or.reduceat(asks, first) if forest.n_rounds else np.zeros(0, dtype=np.bool_)


def some_rounds(forest: Forest, chosen: BoolArray, base: FloatArray) -> Forest:
    """Return the forest of some of the rounds, with another base score."""
    trees = np.flatnonzero(np.repeat(chosen, forest.trees_per_round))
    return forest.some_trees(trees, base)


class Rescorer:
    """Scorer of the rows of a background with replaced values of some columns."""

    def __init__(self, background: Background, *columns: int) -> None:
        model, forest = background.model, background.model.forest
        inputs = np.concatenate([inputs_of_column(model, j) for j in columns])
        asks = rounds_with(forest, inputs)
        self._background, self._columns, self.n_rounds = background, columns, int(asks.sum())
        asking = some_rounds(forest, asks, np.zeros(forest.n_outputs))
        self._asking = Predictor(asking, model.split_schema.kinds)
        own = self._asking.raw_scores(background.inputs, background.n_threads)
        self._rest = background.raw - own

    def scores(self, *values: AnyArray) -> FloatArray:
        """Return raw scores, (n_outputs, n_rows); ``values`` replace each column of the table."""
        return self._rest + self._added(np.array(self._background.values, order="F"), values)

    def grid_scores(self, *values: AnyArray) -> Iterator[FloatArray]:
        """Yield raw scores of all rows with some of the values, or pairs of values, at a time.

        The values are float64, or int64 if the table holds keys; the scores have the shape
        (n_outputs, n_some * n_rows), with all rows for the first value first.
        """
        rows = self._background.values
        if rows.dtype == np.float32:  # float32 would round the values
            rows = rows.astype(np.float64)
        n_rows = len(rows)
        step = max(1, _AT_ONCE // max(1, rows.size))
        for first in range(0, len(values[0]), step):
            some = [own[first : first + step] for own in values]
            repeated = [np.repeat(own, n_rows) for own in some]
            n_some = len(some[0])
            added = self._added(np.tile(rows.T, n_some).T, repeated)
            yield np.tile(self._rest, n_some) + added

    def _added(self, changed: AnyArray, values: Sequence[AnyArray]) -> FloatArray:
        """Return what the trees that use the columns add, after changing the rows in place."""
        background = self._background
        if self.n_rounds == 0:
            return np.zeros((len(self._rest), len(changed)))
        for column, own in zip(self._columns, values, strict=True):
            changed[:, column] = own
        return self._asking.raw_scores(background.inputs_of(changed), background.n_threads)
