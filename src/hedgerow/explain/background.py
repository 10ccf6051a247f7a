"""Shapley values with a background, whose rows are counted once for all explained rows."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from hedgerow.arrays import AnyArray, BoolArray, FloatArray, IntArray
from hedgerow.data.sparse import SparseTable
from hedgerow.errors import ParameterError
from hedgerow.explain.explainer import ROWS_PER_THREAD, Batch, Explainer, dense_parts, runs_of
from hedgerow.explain.game import Plan, make_game, make_plan, scratch
from hedgerow.kernels.shapley.background import (
    BackgroundSpace,
    FillSpace,
    add_background_trees,
    fill_groups,
)
from hedgerow.kernels.shapley.leaf_groups import (
    GROUP_FIELDS,
    MOST_PLAYERS,
    MOST_TABLED,
    Groups,
    GroupSpace,
    Paths,
    Tables,
    plan_groups,
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
    """Players, tree, and whether it has a table, of each leaf; ``listed`` counts its patterns."""

    paths: Paths
    tree: IntArray
    tabled: BoolArray
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
        game = make_game(one.forest, one.players, reached, one.unknown_slots, lines=False)
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
        tabled = (n_players == few) & (paths.node < 0)
        tabled &= (few << few) <= max(LEAST_TABLE, ENTRIES_A_ROW * n_rows)
        listed = np.where(tabled, 0, n_rows)
        return _Leaves(paths, plan.game.leaf_tree, tabled, listed)

    @once
    def _groups(self) -> Groups:
        return make_groups(self._plan, self._leaves.paths, self._leaves.tabled)

    @once
    def _group_sizes(self) -> tuple[IntArray, IntArray]:
        """Entries of each group (0 if it has a list), and numbers in its table."""
        groups = self._groups
        entries = np.where(groups.leaf < 0, 1 << np.diff(groups.first_bit), 0)
        return entries, entries * np.diff(groups.first_place)

    @once
    def _sizes(self) -> IntArray:
        """Bytes of the tables and lists of each tree."""
        tables, leaves = self._per_tree(self._group_sizes[1]), self._leaves
        listed = np.bincount(leaves.tree, weights=leaves.listed, minlength=len(tables))
        return 8 * (tables + listed.astype(np.int64))

    def _per_tree(self, numbers: IntArray) -> IntArray:
        """Return sums over the groups of each tree."""
        return np.diff(np.concatenate([[0], np.cumsum(numbers)])[self._groups.first])

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
        """Return the background's tables and lists for the groups of some trees."""
        leaves, plan, groups, n_rows = self._leaves, self._plan, self._groups, len(self._rows)
        entries, sizes = self._group_sizes
        part = slice(*groups.first[list(run)])
        start = np.full(len(sizes), -1, dtype=np.int64)
        start[part] = np.cumsum(sizes[part]) - sizes[part]
        here = (leaves.tree >= run[0]) & (leaves.tree < run[1])
        listed = np.where(here, leaves.listed, 0)
        tables = Tables(
            start,
            np.empty(int(sizes[part].sum())),
            np.cumsum(listed) - listed,
            np.zeros(int(listed.sum()), dtype=np.uint64),
            self._batch.numbers,
            coalition_weights(int(np.diff(leaves.paths.first).max(initial=1))),
        )
        walks, keys = plan.walks, self._background_keys
        most_entries = int(self._per_tree(entries)[slice(*run)].max(initial=0))
        most_numbers = int(sizes[part].max(initial=0))
        room = 4 << int(np.diff(groups.first_bit).max(initial=0))

        def fill(first: int, stop: int) -> None:
            counts, of_leaf, lines = scratch(most_entries, room, most_numbers)
            space = FillSpace(
                walk=plan.space(),
                found=np.empty(WORD, dtype=np.uint64),
                bits=np.empty(room, dtype=np.uint64),
                counts=counts,
                leaf=of_leaf,
                lines=lines,
                pattern=np.empty(room, dtype=np.uint64),
                path=np.zeros(plan.depth + 1, dtype=np.int64),
            )
            trees = (run[0] + first, run[0] + stop)
            fill_groups(walks, leaves.paths, groups, keys, n_rows, trees, tables, space)

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
        keys, total, space = some.view(np.int64), sums.reshape(shape), self._space()
        lines = (self.explainer.slopes, batch.numbers)
        for first in range(start, stop, BLOCK):
            n = min(BLOCK, stop - first)
            fill_block_keys(batch.rows, slots, batch.categories, first, n, keys)
            add_background_trees(
                walks, lines, (paths, self._groups), tables, len(self._rows), keys, first, n, run,
                total, players.columns, found, space,
            )  # fmt: skip

    def _space(self) -> BackgroundSpace:
        """Return the scratch space of one thread."""
        most = int(np.diff(self._leaves.paths.first).max(initial=1))
        room = most + 2 * self._leaves.paths.term.shape[1] + WORD
        walk, n_words = self._plan.space(), BLOCK // WORD
        return BackgroundSpace(
            walk=walk,
            found=np.empty(WORD, dtype=np.uint64),
            bits=np.empty(int(np.diff(self._groups.first_bit).max(initial=1)), dtype=np.uint64),
            taken=np.empty(len(walk.taken) * n_words, dtype=np.uint64),
            added=np.empty(room),
            phi=scratch(len(walk.phi) * n_words)[0],
        )


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
    plain = Paths(first, player, depth, node, term)
    return plain if slopes is None else _with_terms(plain, plan, explainer)


def _with_terms(paths: Paths, plan: Plan, explainer: Explainer) -> Paths:
    """Return the paths of linear leaves, with the players of their terms."""
    slopes, game = explainer.forest.slopes, plan.game
    assert slopes is not None
    leaf_tree = game.leaf_tree
    players, depths, counts = [], [], np.diff(paths.first)
    for leaf in range(len(paths.node)):
        part = slice(paths.first[leaf], paths.first[leaf + 1])
        known, depth = paths.player[part].tolist(), paths.depth[part].tolist()
        if paths.node[leaf] >= 0:
            terms = slice(slopes.start[paths.node[leaf]], slopes.start[paths.node[leaf] + 1])
            own = slice(*game.first_player[leaf_tree[leaf] : leaf_tree[leaf] + 2])
            requested = explainer.players.of_input[slopes.column[terms]]
            for place, local in enumerate(np.searchsorted(game.player[own], requested).tolist()):
                if local not in known:
                    known.append(local)
                    depth.append(0)
                paths.term[leaf, place] = known.index(local)
        players += known
        depths += depth
        counts[leaf] = len(known)
    first = np.concatenate([[0], np.cumsum(counts)])
    return paths._replace(
        first=first,
        player=np.array(players, dtype=np.int64),
        depth=np.array(depths, dtype=np.int64),
    )


def make_groups(plan: Plan, paths: Paths, tabled: BoolArray) -> Groups:
    """Return the groups of leaves that share a table."""
    walks = plan.walks
    n_leaves, n_trees, n_sums = len(tabled), len(plan.game.roots), walks.leaf.shape[1]
    numbers = np.diff(paths.first) * n_sums
    groups = Groups(
        first=np.zeros(n_trees + 1, dtype=np.int64),
        edges=np.zeros((n_leaves, GROUP_FIELDS), dtype=np.int64),
        leaf=np.zeros(n_leaves, dtype=np.int64),
        first_bit=np.zeros(n_leaves + 1, dtype=np.int64),
        bit=np.zeros(int(paths.first[-1]), dtype=np.int64),
        first_place=np.zeros(n_leaves + 1, dtype=np.int64),
        place=np.zeros(int((-(-numbers // N_LANES) * N_LANES).sum()), dtype=np.int64),
        n_places=np.zeros(n_leaves, dtype=np.int64),
    )
    most_edges = int(np.diff(walks.first_edge).max(initial=0)) + 2
    most_bits = MOST_PLAYERS + MOST_TABLED + 1
    lengths = (
        *(most_edges,) * 4,
        plan.depth + 1,
        plan.sizes[1],
        plan.sizes[0],
        most_bits,
        most_bits,
    )
    space = GroupSpace(*(np.zeros(length, dtype=np.int64) for length in lengths))
    plan_groups(walks, tabled.astype(np.int64), groups, space)
    n_groups = int(groups.first[-1])
    return groups._replace(
        edges=groups.edges[:n_groups],
        leaf=groups.leaf[:n_groups],
        first_bit=groups.first_bit[: n_groups + 1],
        first_place=groups.first_place[: n_groups + 1],
        n_places=groups.n_places[:n_groups],
    )


def coalition_weights(most: int) -> FloatArray:
    """Return ``s! (n - 1 - s)! / n!`` at ``n (n - 1) / 2 + s``, for n up to ``most``."""
    weights = [1.0]
    for n in range(2, most + 1):
        weight = 1.0 / n
        for s in range(n):
            weights.append(weight)
            weight *= (s + 1) / max(1, n - 1 - s)
    return np.array(weights)
