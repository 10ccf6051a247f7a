"""Raw scores of rows with replaced values of a column, from the trees that use it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hedgerow.arrays import AnyArray, BoolArray, FloatArray, IntArray
from hedgerow.inspection.background import Background
from hedgerow.model.forest import Forest
from hedgerow.model.model import Model
from hedgerow.model.predict import Predictor


def inputs_of_column(model: Model, column: int) -> IntArray:
    """Return the inputs of the trees that depend on a column of the user's table."""
    if model.inputs is None:
        return np.array([column], dtype=np.int64)
    sources = model.inputs.sources
    return np.array([k for k, made_of in enumerate(sources) if column in made_of], dtype=np.int64)


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
    """Scorer of rows with replaced values of some columns, from the trees that use them.

    Parameters
    ----------
    background : Background
        The rows.
    columns : int
        Positions in the user's table.
    raw : float64 (n_outputs, n_rows), optional
        Raw scores of the unchanged rows, if known.
    """

    def __init__(
        self, background: Background, *columns: int, raw: FloatArray | None = None
    ) -> None:
        model = background.model
        forest, kinds = model.forest, model.split_schema.kinds
        no_input = np.zeros(0, dtype=np.int64)
        inputs = np.concatenate([no_input, *(inputs_of_column(model, j) for j in columns)])
        asks = rounds_with(forest, inputs)
        self._background, self._columns = background, columns
        self.n_rounds = int(asks.sum())
        self._asking = Predictor(some_rounds(forest, asks, np.zeros(forest.n_outputs)), kinds)
        if raw is not None:
            own = self._asking.raw_scores(background.inputs, background.n_threads)
            self._rest = raw - own
            return
        unaffected = Predictor(some_rounds(forest, ~asks, forest.base_score), kinds)
        self._rest = unaffected.raw_scores(background.inputs, background.n_threads)
        if background.offset is not None:
            self._rest = self._rest + background.offset

    def scores(self, *values: AnyArray) -> FloatArray:
        """Return raw scores, shape (n_outputs, n_rows), with other values of each column.

        Parameters
        ----------
        values : in the form of the table, shape (n_rows,)
        """
        if self.n_rounds == 0:
            return self._rest
        return self._rest + self._added(self._background.values, values)

    def grid_scores(self, *values: AnyArray, rows_at_once: int = 1 << 18) -> FloatArray:
        """Return raw scores of every row with each of some values, or pairs of values.

        Parameters
        ----------
        values : float64, or int64 if the table holds keys, shape (n_values,)
            For each column.
        rows_at_once : int
            Approximate number of rows in memory at a time.

        Returns
        -------
        float64, shape (n_values, n_outputs, n_rows)
        """
        n_values, n_rows = len(values[0]), self._background.n_rows
        found = np.repeat(self._rest[None], n_values, axis=0)
        if self.n_rounds == 0:
            return found
        rows = self._background.values
        if rows.dtype == np.float32:  # float32 would round the values
            rows = rows.astype(np.float64)
        step = max(1, rows_at_once // n_rows)
        for first in range(0, n_values, step):
            some = [column[first : first + step] for column in values]
            n_some = len(some[0])
            repeated = [np.repeat(column, n_rows) for column in some]
            added = self._added(np.tile(rows, (n_some, 1)), repeated)
            shaped = added.reshape(len(added), n_some, n_rows)
            found[first : first + step] += np.moveaxis(shaped, 0, 1)
        return found

    def _added(self, table: AnyArray, values: Sequence[AnyArray]) -> FloatArray:
        """Return the contribution of the trees that use the columns, for changed rows."""
        changed = np.array(table, order="F")
        for column, own in zip(self._columns, values, strict=True):
            changed[:, column] = own
        background = self._background
        return self._asking.raw_scores(background.inputs_of(changed), background.n_threads)
