"""Shapley values of the rows of a table, for one model."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray
from hedgerow.data.numbers import floats_of
from hedgerow.data.schema import ColumnKind
from hedgerow.data.sparse import SparseTable, rows_at_once
from hedgerow.errors import DataError, ParameterError
from hedgerow.explain.paths import Paths, find_paths, players_of
from hedgerow.kernels.explain import explain_rows
from hedgerow.kernels.explain_background import (
    MOST_PLAYERS,
    Sample,
    Weights,
    branch_space,
    explain_against,
    fill_sample,
)
from hedgerow.kernels.explain_tour import BLOCK, GROUPS, Space, Values, tour_space
from hedgerow.model.categories import CategoryReader
from hedgerow.model.model import Model
from hedgerow.model.predict import NO_CATEGORIES, CategoryArguments, Predictor, Rows
from hedgerow.once import once
from hedgerow.threads import run_blocks

MOST_BYTES = 8 << 30
"""Largest result."""

_ROWS_AT_ONCE = 4096
"""Rows whose sets of players are there at a time: 32 kB for each level of a tree."""


class Explainer:
    """Explains the raw scores of a model.

    Built when it is first used and not changed afterwards, so many threads may use it.

    Parameters
    ----------
    model : Model
    predictor : Predictor
        Of the same forest.
    """

    def __init__(self, model: Model, predictor: Predictor) -> None:
        self._forest, self._predictor = model.forest, predictor
        self._kinds: Sequence[ColumnKind] = model.split_schema.kinds
        self._players = players_of(model)

    @once
    def _paths(self) -> Paths:
        return find_paths(self._forest, self._players)

    @once
    def _reader(self) -> CategoryReader | None:
        return None if self._forest.categories is None else CategoryReader(self._forest)

    @property
    def base(self) -> FloatArray:
        """Raw score of each output without knowledge of any column."""
        return self._paths.base

    def values(
        self, values: AnyArray | SparseTable, interactions: bool = False, n_threads: int = 1
    ) -> FloatArray:
        """Shapley values.

        Parameters
        ----------
        values : float32, float64 or int64, shape (n_rows, n_features), or SparseTable
            What the trees split, as for :meth:`hedgerow.model.predict.Predictor.raw_scores`.
        interactions : bool, default=False
            Divide each value into what a column adds by itself and with each other one.
        n_threads : int, default=1

        Returns
        -------
        float64, shape (n_rows, n_columns, n_outputs)
            With ``interactions`` (n_rows, n_columns, n_columns, n_outputs).

        Raises
        ------
        DataError
            If the result would be larger than ``MOST_BYTES``.
        ParameterError
            For interactions of a model whose leaves hold lines.
        """
        n_rows = values.n_rows if isinstance(values, SparseTable) else len(values)
        self._check(n_rows, interactions)
        if isinstance(values, SparseTable):
            columns = np.arange(values.n_features)
            step = rows_at_once(len(columns), values.value.itemsize)
            starts = range(0, max(1, n_rows), step)
            dense = (values.dense(columns, k, min(k + step, n_rows)) for k in starts)
            return np.concatenate(
                [self._of_dense(block, interactions, n_threads) for block in dense]
            )
        return self._of_dense(values, interactions, n_threads)

    def values_against(
        self, values: AnyArray, background: AnyArray, n_threads: int = 1
    ) -> FloatArray:
        """Shapley values where a column that is not known takes its values from other rows.

        Parameters
        ----------
        values, background : float32, float64 or int64, shape (n_rows, n_features)
            What the trees split.
        n_threads : int, default=1

        Returns
        -------
        float64, shape (n_rows, n_columns, n_outputs)

        Raises
        ------
        DataError
            As for :meth:`values`.
        ParameterError
            If leaves hold lines, or a path has more than ``MOST_PLAYERS`` players.
        """
        self._check(len(values), False)
        if self._forest.slopes is not None:
            raise ParameterError(
                "background is not possible for a model with linear leaves, whose values differ "
                "between all pairs of rows: explain it without one."
            )
        paths = self._paths
        if int(paths.bits.max(initial=0)) >= MOST_PLAYERS:
            raise ParameterError(
                f"background is possible up to {MOST_PLAYERS} different columns on the path to a "
                "leaf, and this model has more: explain it without one."
            )
        weights = _shapley_weights(int(paths.bits.max(initial=0)) + 1)
        others = self._sample(background)
        n_players, n_outputs = self._players.n_players, self._forest.n_outputs
        phi = np.zeros((n_players * n_outputs, len(values)))

        def task(start: int, stop: int) -> None:
            for first in range(start, stop, _ROWS_AT_ONCE):
                sample = self._sample(values[first : min(first + _ROWS_AT_ONCE, stop)])
                branch = branch_space(paths.depth, int(sample.n_rows), int(others.n_rows))
                explain_against(
                    paths.trees, paths.bits, weights, sample, others, branch, phi, n_outputs, first
                )

        run_blocks(task, len(values), n_threads, BLOCK)
        return self._columns(phi.reshape(n_players, n_outputs, -1))

    def _sample(self, values: AnyArray) -> Sample:
        """What splits ask of some rows."""
        bits, categories, unknown = self._read(values)
        slots, n_rows = self._paths.slots, len(values)
        n_keys = len(slots) * n_rows
        sample = Sample(
            np.empty(n_keys, dtype=np.int64),
            np.zeros(n_keys if unknown else 0, dtype=np.uint8),
            np.int64(n_rows),
        )
        fill_sample(bits, slots, categories, 0, sample)
        return sample

    def _read(self, values: AnyArray) -> tuple[Rows, CategoryArguments, bool]:
        """A table with 64-bit keys, its categories, and whether one is unknown."""
        if values.dtype == np.float32:
            values = values.astype(np.float64)
        bits = self._predictor.rows_of(values)
        if self._reader is None:
            return bits, NO_CATEGORIES, False
        read = self._reader.read(values)
        return bits, self._reader.tables(read), len(read.unknown) > 0

    def _check(self, n_rows: int, interactions: bool) -> None:
        n_players, n_outputs = self._players.n_players, self._forest.n_outputs
        per_row = 8 * n_players * n_outputs * (n_players if interactions else 1)
        size = n_rows * per_row
        if size > MOST_BYTES:
            raise DataError(
                f"the explanation of {n_rows} rows takes {size / 1e9:.1f} GB, more than "
                f"{MOST_BYTES / 1e9:.1f} GB: explain at most {MOST_BYTES // per_row} rows at once."
            )
        if interactions and self._forest.slopes is not None:
            raise ParameterError(
                "interactions=True is not possible for a model with linear leaves: explain it "
                "without interactions, or train with linear_leaves=False."
            )

    def _of_dense(self, values: AnyArray, interactions: bool, n_threads: int) -> FloatArray:
        bits, categories, unknown = self._read(values)
        lines = self._paths.lines
        if self._forest.slopes is not None:
            lines = lines._replace(numbers=floats_of(values, self._kinds))
        n_players, n_outputs = self._players.n_players, self._forest.n_outputs
        phi = np.zeros((n_players * n_outputs, len(values)))
        n_pairs = n_players * n_players * n_outputs if interactions else 0
        pairs = np.zeros((n_pairs, len(values) if interactions else 0))
        paths = self._paths
        n_values = paths.trees.value.shape[1]

        def task(start: int, stop: int) -> None:
            tour = tour_space(paths.depth, paths.n_points, n_values, stop - start)
            n_keys = len(paths.slots) * len(tour.added)
            explain_rows(
                bits,
                paths.slots,
                categories,
                paths.trees,
                lines,
                Space(
                    tour,
                    np.empty(n_keys, dtype=np.int64),
                    np.zeros(n_keys if unknown else 0, dtype=np.uint8),
                    np.empty((1 << GROUPS) + 4 * GROUPS),
                ),
                Values(phi, pairs, np.int64(n_outputs)),
                start,
                stop,
            )

        run_blocks(task, len(values), n_threads, BLOCK)
        single = phi.reshape(n_players, n_outputs, -1)
        if interactions:
            return self._matrices(single, pairs)
        return self._columns(single)

    def _columns(self, single: FloatArray) -> FloatArray:
        """Values of players, (players, outputs, rows), as those of columns."""
        if not self._players.are_columns:
            single = np.einsum("pkr,pc->ckr", single, self._players.share)
        return np.ascontiguousarray(single.transpose(2, 0, 1))

    def _matrices(self, single: FloatArray, pairs: FloatArray) -> FloatArray:
        """Values of pairs of players, those with a < b given, as those of pairs of columns."""
        n_players, n_outputs, n_rows = single.shape
        upper = pairs.reshape(n_players, n_players, n_outputs, n_rows)
        both = np.ascontiguousarray((upper + upper.transpose(1, 0, 2, 3)).transpose(3, 0, 1, 2))
        own = np.arange(n_players)
        both[:, own, own] = single.transpose(2, 0, 1) - both.sum(axis=2)
        if self._players.are_columns:
            return both
        share = self._players.share
        return np.einsum("rpqk,pc,qd->rcdk", both, share, share, optimize=True)


def _shapley_weights(most: int) -> Weights:
    """``gain[x, y] = (x - 1)! y! / (x + y)!`` and ``loss[x, y] = x! (y - 1)! / (x + y)!``."""
    gain, loss = np.zeros((most + 1, most + 1)), np.zeros((most + 1, most + 1))
    for x in range(most + 1):
        for y in range(most + 1 - x):
            choices = math.comb(x + y, x)
            gain[x, y] = 1.0 / (x * choices) if x > 0 else 0.0
            loss[x, y] = 1.0 / (y * choices) if y > 0 else 0.0
    return Weights(gain, loss)
