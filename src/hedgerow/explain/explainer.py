"""Shapley values of the rows of a table, in blocks, on all threads.

Rows are divided into blocks, and trees into runs whose factors
(:mod:`hedgerow.kernels.shapley.tree_walk`) take bounded memory.  The values do not depend on
the division.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray, IntArray, distinct
from hedgerow.data.reading.columns import floats_of
from hedgerow.data.schema import ColumnKind
from hedgerow.data.sparse import SparseTable, rows_at_once
from hedgerow.explain.game import Plan, find_players, make_game, make_plan, scratch
from hedgerow.kernels.prediction.slopes import Slopes, no_slopes, writable_slopes
from hedgerow.kernels.shapley.row_blocks import add_trees, fill_block_keys
from hedgerow.kernels.shapley.tree_walk import BLOCK, FACTORS, fill_factors
from hedgerow.model.forest import Forest, renumbered, used_columns
from hedgerow.model.layout import CategoryReader
from hedgerow.model.predict import NO_CATEGORIES, CategoryArguments, codings_of, kernel_rows
from hedgerow.once import once
from hedgerow.threads import run_blocks

FACTOR_MEMORY = 1 << 24
"""Bytes of factors in use at a time."""

KEPT_MEMORY = 1 << 26
"""Limit in bytes up to which all factors of a forest stay in memory."""

ROWS_PER_THREAD = 64


class Batch(NamedTuple):
    """Rows of a table; see :mod:`hedgerow.kernels.prediction.predict`.

    ``numbers`` holds their values as float64 if leaves are linear.
    """

    rows: tuple[Any, ...]
    categories: CategoryArguments
    numbers: FloatArray


class Explainer:
    """Explainer of the raw scores of a forest.

    Parameters
    ----------
    forest : Forest
    kinds : sequence of {"float", "int", "category"}
        Kinds of the inputs of the trees.
    sources : sequence of tuple of int, or None
        The user's columns behind each input; None: the inputs are the columns.
    n_columns : int
        Number of columns of the user's table.
    """

    def __init__(
        self,
        forest: Forest,
        kinds: Sequence[ColumnKind],
        sources: Sequence[tuple[int, ...]] | None,
        n_columns: int,
    ) -> None:
        self.forest, self.kinds = forest, kinds
        self._sources = sources
        self.players = find_players(used_columns(forest), sources, n_columns)
        self._codings = codings_of(kinds)
        self.slopes: Slopes = (
            no_slopes(0) if forest.slopes is None else writable_slopes(forest.slopes)
        )

    @property
    def n_outputs(self) -> int:
        """Number of raw scores."""
        return self.forest.n_outputs

    @once
    def _reader(self) -> CategoryReader | None:
        return None if self.forest.categories is None else CategoryReader(self.forest)

    @once
    def _plan(self) -> Plan:
        game = make_game(self.forest, self.players, None)
        return make_plan(self.forest, game)

    @once
    def base_values(self) -> FloatArray:
        """Expected raw score when no column is known, shape (n_outputs,)."""
        plan = self._plan
        walks, weight, game, slopes = plan.walks, plan.leaf_weight, plan.game, self.forest.slopes
        leaf = walks.leaf
        if slopes is not None:
            at_center = np.clip(0.0, slopes.low, slopes.high)[game.leaf_node]
            leaf = leaf + np.where(game.leaf_terms >= 0, at_center, 0.0)[:, None]
        base = np.array(self.forest.base_score, dtype=np.float64)
        for k in range(leaf.shape[1]):
            output = walks.output[game.leaf_tree] + k
            base += np.bincount(output, weights=weight * leaf[:, k], minlength=self.n_outputs)
        return base

    @once
    def _runs(self) -> list[tuple[int, int]]:
        """Runs of trees whose factors are in memory together."""
        walks = self._plan.walks
        return runs_of(np.diff(walks.first_edge) * walks.n_points * FACTORS * 8, FACTOR_MEMORY)

    def _factors(self, run: tuple[int, int]) -> FloatArray:
        walks = self._plan.walks
        n_points = walks.n_points[slice(*run)]
        length = int((np.diff(walks.first_edge)[slice(*run)] * n_points).sum()) * FACTORS
        factors = scratch(length)[0]
        fill_factors(walks, *run, factors)
        return factors

    @once
    def _kept_factors(self) -> list[FloatArray] | None:
        walks = self._plan.walks
        size = int((np.diff(walks.first_edge) * walks.n_points).sum()) * FACTORS * 8
        return [self._factors(run) for run in self._runs] if size <= KEPT_MEMORY else None

    def values(
        self, values: AnyArray | SparseTable, n_threads: int = 1, *, pairs: bool = False
    ) -> FloatArray:
        """Return Shapley values of columns or pairs (n_rows, n_columns[, n_columns], n_outputs)."""
        n_rows = values.n_rows if isinstance(values, SparseTable) else len(values)
        columns = (self.players.n_columns,) * (2 if pairs else 1)
        found = np.zeros((n_rows, *columns, self.n_outputs))
        used, one = self.compact if isinstance(values, SparseTable) else (None, self)
        for part, rows in dense_parts(values, used):
            one.add(rows, found[part], n_threads, pairs)
        return found

    def batch(self, values: AnyArray) -> Batch:
        """Return the rows of a table in the form of the kernels, which have keys of 64 bits."""
        if values.dtype == np.float32:
            values = values.astype(np.float64)
        rows = kernel_rows(values, self._codings, self.forest.n_features)
        categories, numbers = NO_CATEGORIES, _NO_NUMBERS
        if self._reader is not None:
            categories = self._reader.read(values)
        if self.forest.slopes is not None:
            numbers = floats_of(values, self.kinds)
        return Batch(rows, categories, numbers)

    def add(self, values: AnyArray, found: FloatArray, n_threads: int, pairs: bool) -> None:
        """Write the values of rows to ``found``, which is all 0."""
        if self.players.number == 0:
            return
        batch, kept = self.batch(values), self._kept_factors
        found = found.reshape(len(found), -1, self.n_outputs)
        for place, run in enumerate(self._runs):
            factors = self._factors(run) if kept is None else kept[place]
            task = functools.partial(self._explain_rows, batch, factors, run, pairs, found)
            run_blocks(task, len(values), n_threads, ROWS_PER_THREAD)

    def _explain_rows(
        self,
        batch: Batch,
        factors: FloatArray,
        run: tuple[int, int],
        pairs: bool,
        found: FloatArray,
        start: int,
        stop: int,
    ) -> None:
        """Add a run of trees to the values, of columns or of pairs, of rows ``start .. stop``."""
        plan, players = self._plan, self.players
        walks, slots = plan.walks, plan.game.slots
        shape = (self.n_outputs, players.number, BLOCK)
        some, sums = scratch(len(slots) * BLOCK, math.prod(shape))
        keys, total, space = some.view(np.int64), sums.reshape(shape), plan.space(pairs)
        for first in range(start, stop, BLOCK):
            rows = (first, min(BLOCK, stop - first))
            fill_block_keys(batch.rows, slots, batch.categories, *rows, keys)
            add_trees(
                walks, (self.slopes, batch.numbers), factors, keys, rows, run, total,
                players.columns, players.n_columns, found, space,
            )  # fmt: skip

    @once
    def compact(self) -> tuple[IntArray, Explainer]:
        """Inputs that the forest uses, and an explainer of only these."""
        columns = distinct(np.append(used_columns(self.forest), 0))
        place = np.zeros(self.forest.n_features, dtype=np.int32)
        place[columns] = np.arange(len(columns))
        forest = renumbered(self.forest, place, len(columns))
        kinds = [self.kinds[int(column)] for column in columns]
        every = self._sources
        sources = [(j,) if every is None else every[j] for j in columns.tolist()]
        return columns, Explainer(forest, kinds, sources, self.players.n_columns)


_NO_NUMBERS = np.zeros((0, 0))


def dense_parts(
    values: AnyArray | SparseTable, columns: IntArray | None
) -> Iterator[tuple[slice, AnyArray]]:
    """Yield rows; those of a sparse table become dense, some at a time, with some columns."""
    if not isinstance(values, SparseTable):
        yield slice(None), values
        return
    assert columns is not None
    step = rows_at_once(len(columns), values.value.itemsize)
    for first in range(0, values.n_rows, step):
        stop = min(first + step, values.n_rows)
        yield slice(first, stop), values.dense(columns, first, stop)


def runs_of(sizes: IntArray, room: int) -> list[tuple[int, int]]:
    """Divide trees into runs whose ``sizes`` fit into ``room``; a run has at least one tree."""
    edges, used = [0], 0
    for tree, size in enumerate(sizes.tolist()):
        if used + size > room and tree > edges[-1]:
            edges.append(tree)
            used = 0
        used += size
    edges.append(len(sizes))
    return list(itertools.pairwise(edges))
