"""Shapley values with a background, whose rows are counted once for all explained rows."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray, IntArray
from hedgerow.data.sparse import SparseTable
from hedgerow.errors import ParameterError
from hedgerow.explain.explainer import ROWS_PER_THREAD, Batch, Explainer, dense_parts, runs_of
from hedgerow.explain.game import Plan, make_game, make_plan, scratch
from hedgerow.kernels.shapley.background import (
    MOST_PLAYERS,
    MOST_TABLED,
    BackgroundSpace,
    FillSpace,
    Paths,
    Tables,
    add_background_trees,
    fill_tables,
    plan_paths,
)
from hedgerow.kernels.shapley.row_blocks import fill_block_keys
from hedgerow.kernels.shapley.tree_walk import BLOCK, WORD
from hedgerow.kernels.simd.lanes import N_LANES
from hedgerow.model.predict import Predictor
from hedgerow.once import once
from hedgerow.threads import run_blocks

LEAST_TABLE = 512
"""Number of entries that the table of a leaf may have, for any background."""

ENTRIES_A_ROW = 32
"""Number of entries that a table may have for each row of the background.

Larger tables are replaced by lists of background rows; an explained row then takes a step for
each row of the list.  The choice, and so the bits of the values, depend only on the background.
"""

TABLE_MEMORY = 1 << 22
"""Bytes of tables and lists in use at a time, which fit into the processor's cache."""


@dataclass(frozen=True, slots=True, eq=False)
class _Leaves:
    """Players and tree of each leaf, and the numbers of its table or patterns of its list."""

    paths: Paths
    tree: IntArray
    tabled: IntArray
    listed: IntArray


class BackgroundExplainer:
    """Explainer of the raw scores of a forest against the rows of a background; see Explainer."""

    def __init__(
        self, explainer: Explainer, background: AnyArray | SparseTable, sparse: bool
    ) -> None:
        rows = background.dense() if isinstance(background, SparseTable) else background
        self._columns: IntArray | None = None
        if sparse:
            self._columns, explainer = explainer.compact
            rows = np.ascontiguousarray(rows[:, self._columns])
        self.explainer, self._rows = explainer, rows
        self._batch = explainer.batch(rows)

    @once
    def base_values(self) -> FloatArray:
        """Mean raw score of the background, shape (n_outputs,)."""
        explainer = self.explainer
        predictor = Predictor(explainer.forest, explainer.kinds)
        return predictor.raw_scores(self._rows).mean(axis=1)

    @once
    def _plan(self) -> Plan:
        one = self.explainer
        # Shares are not used, so any number of rows works.
        reached = np.ones(len(one.forest.feature))
        game = make_game(one.forest, one.players, reached, lines=False)
        return make_plan(one.forest, game)

    @once
    def _leaves(self) -> _Leaves:
        plan, n_rows = self._plan, len(self._rows)
        paths = make_paths(plan, self.explainer)
        n_players = np.diff(paths.first)
        if n_players.max(initial=0) > MOST_PLAYERS:
            raise ParameterError(
                f"a leaf of the model depends on {int(n_players.max())} columns; with a "
                f"background at most {MOST_PLAYERS} are possible: leave the background out."
            )
        few = np.minimum(n_players, MOST_TABLED)
        has_table = (n_players == few) & (paths.node < 0)
        has_table &= (few << few) <= max(LEAST_TABLE, ENTRIES_A_ROW * n_rows)
        line = -(-few // N_LANES) * N_LANES
        tabled, listed = np.where(has_table, line << few, 0), np.where(has_table, 0, n_rows)
        return _Leaves(paths, plan.game.leaf_tree, tabled, listed)

    @once
    def _sizes(self) -> IntArray:
        """Bytes of the tables and lists of each tree."""
        leaves = self._leaves
        numbers = np.bincount(
            leaves.tree, weights=leaves.tabled + leaves.listed, minlength=len(self._plan.game.roots)
        )
        return 8 * numbers.astype(np.int64)

    @once
    def _background_keys(self) -> IntArray:
        """Yield the keys of the background, block by block."""
        slots, n_rows = self._plan.game.slots, len(self._rows)
        keys = np.zeros((-(-n_rows // BLOCK), len(slots) * BLOCK), dtype=np.int64)
        for number, block in enumerate(keys):
            first = number * BLOCK
            n = min(BLOCK, n_rows - first)
            fill_block_keys(self._batch.rows, slots, self._batch.categories, first, n, block)
        return keys

    def values(self, values: AnyArray | SparseTable, n_threads: int = 1) -> FloatArray:
        """Return Shapley values, as :meth:`hedgerow.explain.explainer.Explainer.values` does."""
        one = self.explainer
        n_rows = values.n_rows if isinstance(values, SparseTable) else len(values)
        found = np.zeros((n_rows, one.players.n_columns, one.n_outputs))
        if one.players.number == 0:
            return found
        for run in runs_of(self._sizes, TABLE_MEMORY):
            tables = self._tables(run, n_threads)
            for part, rows in dense_parts(values, self._columns):
                task = functools.partial(
                    self._explain_rows, tables, run, one.batch(rows), found[part]
                )
                run_blocks(task, len(rows), n_threads, ROWS_PER_THREAD)
        return found

    def _tables(self, run: tuple[int, int], n_threads: int) -> Tables:
        """Return the background's tables and lists for the leaves of some trees."""
        leaves, plan, n_rows = self._leaves, self._plan, len(self._rows)
        here = (leaves.tree >= run[0]) & (leaves.tree < run[1])
        tabled, listed = np.where(here, leaves.tabled, 0), np.where(here, leaves.listed, 0)
        weights = [1.0]  # s! (n - 1 - s)! / n! at n (n - 1) / 2 + s
        for n in range(2, int(np.diff(leaves.paths.first).max(initial=1)) + 1):
            weight = 1.0 / n
            for s in range(n):
                weights.append(weight)
                weight *= (s + 1) / max(1, n - 1 - s)
        tables = Tables(
            np.where(tabled > 0, np.cumsum(tabled) - tabled, -1),
            np.zeros(int(tabled.sum())),
            np.cumsum(listed) - listed,
            np.zeros(int(listed.sum()), dtype=np.uint64),
            self._batch.numbers,
            np.array(weights),
        )
        walks, keys, room = plan.walks, self._background_keys, 4 << MOST_TABLED

        def fill(first: int, stop: int) -> None:
            space = FillSpace(plan.space(), np.empty(WORD, dtype=np.uint64), scratch(room)[0])
            trees = (run[0] + first, run[0] + stop)
            fill_tables(walks, leaves.paths, keys, n_rows, trees, tables, space)

        run_blocks(fill, run[1] - run[0], n_threads, 1)
        return tables

    def _explain_rows(
        self,
        tables: Tables,
        run: tuple[int, int],
        batch: Batch,
        found: FloatArray,
        start: int,
        stop: int,
    ) -> None:
        """Add a run of trees to the values of rows ``start .. stop``."""
        plan, players, paths = self._plan, self.explainer.players, self._leaves.paths
        walks, slots = plan.walks, plan.game.slots
        shape = (self.explainer.n_outputs, players.number, BLOCK)
        some, sums = scratch(len(slots) * BLOCK, math.prod(shape))
        keys, total = some.view(np.int64), sums.reshape(shape)
        room = int(np.diff(paths.first).max(initial=1)) + 2 * paths.term.shape[1] + WORD
        space = BackgroundSpace(plan.space(), np.empty(WORD, dtype=np.uint64), np.empty(room))
        lines = (self.explainer.slopes, batch.numbers)
        for first in range(start, stop, BLOCK):
            n = min(BLOCK, stop - first)
            fill_block_keys(batch.rows, slots, batch.categories, first, n, keys)
            add_background_trees(
                walks, lines, paths, tables, len(self._rows), keys, first, n, run,
                total, players.columns, found, space,
            )  # fmt: skip


def make_paths(plan: Plan, explainer: Explainer) -> Paths:
    """Return the players of all leaves; players of terms without an edge come last."""
    walks, game, slopes = plan.walks, plan.game, explainer.forest.slopes
    n_leaves, none = len(game.leaf_node), np.zeros(0, dtype=np.int64)
    counts = np.zeros(n_leaves + 1, dtype=np.int64)
    above = np.zeros(plan.depth + 1, dtype=np.int64)
    plan_paths(walks, counts, none, none, above)
    first = np.cumsum(counts)
    player, depth = np.zeros(first[-1], dtype=np.int64), np.zeros(first[-1], dtype=np.int64)
    if first[-1] > 0:
        plan_paths(walks, first, player, depth, above)
    node = np.full(n_leaves, -1, dtype=np.int64)
    n_terms = 0
    if slopes is not None:
        n_terms = int(np.diff(slopes.start).max(initial=0))
        node = np.where(np.diff(slopes.start)[game.leaf_node] > 0, game.leaf_node, -1)
    term = np.zeros((n_leaves, max(1, n_terms)), dtype=np.int64)
    paths = Paths(first, player, depth, node, term)
    if slopes is None:
        return paths
    players: list[int] = []
    depths: list[int] = []
    counts = np.diff(paths.first)
    for leaf in range(len(paths.node)):
        part = slice(paths.first[leaf], paths.first[leaf + 1])
        known, at = paths.player[part].tolist(), paths.depth[part].tolist()
        if paths.node[leaf] >= 0:
            terms = slice(slopes.start[paths.node[leaf]], slopes.start[paths.node[leaf] + 1])
            own = slice(*game.first_player[game.leaf_tree[leaf] :][:2])
            requested = explainer.players.of_input[slopes.column[terms]]
            for place, local in enumerate(np.searchsorted(game.player[own], requested).tolist()):
                if local not in known:
                    known.append(local)
                    at.append(0)
                paths.term[leaf, place] = known.index(local)
        players += known
        depths += at
        counts[leaf] = len(known)
    first = np.concatenate([[0], np.cumsum(counts)])
    return paths._replace(
        first=first,
        player=np.array(players, dtype=np.int64),
        depth=np.array(depths, dtype=np.int64),
    )
