"""The nodes of a symmetric tree that grows over chunks.

A level is the batch of one pass over the chunks (of several, where not all histograms can be
built in one).  Every rank adds up the gains of the cuts of its columns over the nodes of the
level; the best cut of all ranks is taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from hedgerow.arrays import FloatArray, IntArray, aligned_zeros
from hedgerow.data.binning.bins import BinSpec
from hedgerow.errors import AllRowsNeededError
from hedgerow.growing.chunks.exchange import Exchange
from hedgerow.growing.chunks.space import Sizes, Space
from hedgerow.growing.chunks.stages import levels as level_stages
from hedgerow.growing.chunks.stages import nodes as stages
from hedgerow.growing.chunks.stages.rows import Building
from hedgerow.growing.chunks.stages.team import ChunkTeam
from hedgerow.growing.chunks.tree import ChunkTree
from hedgerow.growing.core import batch
from hedgerow.growing.core import state as layout
from hedgerow.growing.core.setup import make_batch
from hedgerow.growing.symmetric.grower import make_level
from hedgerow.growing.symmetric.level import N_NODES, choose_cut
from hedgerow.kernels.simd.lanes import WIDTH
from hedgerow.params import BoostParams

_BOTH: IntArray = np.ones((1, batch.JOB_FIELDS), dtype=np.int64)
"""A job of two searches: the best cut, and the forced cut."""

_LEFT_SUMS = [layout.NODE_G_LEFT, layout.NODE_H_LEFT, layout.NODE_N_LEFT]


class LevelTree(ChunkTree):
    """A :class:`ChunkTree` in which one cut divides all nodes of a level.

    Raises
    ------
    AllRowsNeededError
        If the histograms of a level are too large to be kept.
    """

    def __init__(
        self,
        spec: BinSpec,
        params: BoostParams,
        settings: layout.Settings,
        space: Space,
        exchange: Exchange,
        team: ChunkTeam,
        n_copies: int = 1,
        n_vectors: int = 1,
    ) -> None:
        check_slots(params, settings, space.sizes)
        super().__init__(spec, params, settings, space, exchange, team, n_copies, n_vectors)
        n_threads, n_features = team.n_threads, spec.n_features
        nodes, max_leaves = self.nodes, int(settings.max_leaves)
        nodes.arrays = nodes.arrays._replace(batch=make_batch(max_leaves))
        self._search_space = layout.Search(
            lanes=aligned_zeros((n_threads, 2, WIDTH), np.int64),
            found=aligned_zeros((n_threads, 2, layout.FOUND_FIELDS), np.int64),
            allowed=np.ones((3, n_features), dtype=np.int32),
        )
        self._level = make_level(spec, nodes.options, n_threads, max_leaves, space.sizes.slot_size)
        self._n_divided = 0  # jobs of the batch whose rows are divided

    def begin(self, tree: int, output: int, n_outputs: int) -> int:
        number = super().begin(tree, output, n_outputs)
        nodes = self.nodes
        nothing: Any = None  # stages that read rows are not compiled
        self._level = self._level._replace(before=self._space.before)
        self._state = layout.State(
            team=nothing,
            settings=nodes.settings,
            rules=nodes.rules,
            bins=self._bins,
            loss_data=nothing,
            columns=self.columns,
            rows=nothing,
            threads=nothing,
            search=self._search_space,
            histograms=self._space.kept,
            tree=nodes.arrays,
            scalars=nodes.scalars,
            options=nodes.options,
            vectors=None,
            sorted_columns=None,
            level=self._level,
            gpu=None,
        )
        return number

    # -- levels -------------------------------------------------------------------------

    def batches(self) -> Iterator[tuple[IntArray, bool]]:
        """Yield nodes whose rows are divided in the next pass; the tree has all of them."""
        while len(parents := self._parents()) > 0:
            yield parents, False

    def _parents(self) -> IntArray:
        """Return the nodes whose rows are divided next."""
        parents = self._part()[:, batch.JOB_PARENT]
        return parents[parents >= 0]

    def open(self, parents: IntArray, is_full: bool) -> tuple[IntArray, Building]:
        """Create the children of ``parents``; return their jobs and the histograms to build."""
        jobs = self._part()
        return jobs, self._plan_builds(jobs)

    def close(self, jobs: IntArray, building: Building) -> None:
        """Search the level once all of its histograms are there."""
        self._end_builds(building)
        self._n_divided += len(jobs)
        if self._n_divided == self.nodes.scalars[layout.IS_N_JOBS]:
            self._search_levels()

    def _part(self) -> IntArray:
        """Return the next jobs of the batch, as many as one pass can build."""
        n_jobs = self.nodes.scalars[layout.IS_N_JOBS]
        stop = min(self._n_divided + self._space.sizes.n_builds, n_jobs)
        return self.nodes.arrays.batch[self._n_divided : stop]

    def _search_root(self, is_searched: bool) -> None:
        level_stages.begin_levels(self._state)
        self._n_divided = int(self.nodes.scalars[layout.IS_N_JOBS])
        self._search_levels()

    def _search_levels(self) -> None:
        """Search levels until one divides nodes, whose rows are divided next."""
        nodes = self.nodes
        while nodes.scalars[layout.IS_N_SEARCHED] > 0:
            self._choose()
            if self._level.choice[layout.FOUND_FEATURE] >= 0:
                self._measure()
            level_stages.divide_nodes(self._state, self.vectors)
            self._n_divided = 0
            if len(self._parents()) > 0:
                break
        # All nodes were made in the order of their numbers.
        nodes.found = np.arange(nodes.n_nodes, dtype=np.int64)
        nodes.left = nodes.table[: nodes.n_nodes, layout.NODE_LEFT].copy()

    def _choose(self) -> None:
        """Find the best cut in the block of columns, then of all ranks."""
        self._team.run(level_stages.search_chunk_level, self._state, self._block, self.vectors)
        found, vectors = self._search_space.found[None], self.vectors
        splits = np.zeros((1, 1, *found.shape[2:]), dtype=np.int64)
        stages.best_of_threads(_BOTH, found, splits)
        best = np.concatenate((splits, np.zeros_like(splits[..., :1])), axis=-1)
        if vectors is not None:
            # Threads and ranks without columns do not know the score of the level.
            best[..., -1] = vectors.trial.parent[:, 0].view(np.int64).max()
        best = self._exchange.splits(best)[0]
        if vectors is not None:
            vectors.trial.parent[:, 0] = best[..., -1].view(np.float64).max()
        choose_cut(self._state, np.ascontiguousarray(best[..., :-1]), vectors)

    def _measure(self) -> None:
        """Share the left sums of the cut in each node, measured by the rank that has its column."""
        level, n_columns, size = self._level, len(self.columns.feature), self._exchange.size
        place = int(np.searchsorted(self.columns.feature, level.choice[layout.FOUND_FEATURE]))
        last = n_columns * (np.arange(size) + 1) // size
        owner = int(np.searchsorted(last, place, side="right"))
        if owner == self._exchange.rank:
            level_stages.measure_kept(self._state, self.vectors)
        nodes = level.nodes[: level.counts[N_NODES]]
        table = self.nodes.table
        left = table[nodes[:, None], _LEFT_SUMS]
        values = self._measured_values(nodes)
        parts = (level.choice, level.penalty, left, values)
        message = np.concatenate([part.view(np.int64).reshape(-1) for part in parts])
        message = self._exchange.measured(message, owner)
        ends = np.cumsum([part.size for part in parts])
        level.choice[:], penalty, left, values = np.split(message, ends[:-1])
        level.penalty.view(np.int64)[:] = penalty
        table[nodes[:, None], _LEFT_SUMS] = left.reshape(-1, 3)
        self._keep_values(nodes, values.view(np.float64).reshape(len(nodes), -1))

    def _measured_values(self, nodes: IntArray) -> FloatArray:
        """Return the gain of the cut in each node, and the nodes' values, for several outputs."""
        if self.vectors is None:
            return np.zeros((len(nodes), 0))
        gain = self.nodes.arrays.numbers[nodes, layout.NUMBER_GAIN]
        return np.column_stack((gain, self.vectors.outputs.vectors[nodes]))

    def _keep_values(self, nodes: IntArray, values: FloatArray) -> None:
        if self.vectors is not None:
            self.nodes.arrays.numbers[nodes, layout.NUMBER_GAIN] = values[:, 0]
            self.vectors.outputs.vectors[nodes] = values[:, 1:]


def check_slots(params: BoostParams, settings: layout.Settings, sizes: Sizes) -> None:
    """Raise ``AllRowsNeededError`` if the histograms of a level cannot all be kept."""
    levels = max(int(settings.max_depth), 1)
    needed = min(int(settings.max_leaves), 1 << min(levels - 1, 40))
    if needed > sizes.n_slots:
        raise AllRowsNeededError(
            f"grow_policy='symmetric' with max_depth={params.max_depth} keeps up to {needed:,} "
            f"histograms, and for {sizes.n_columns:,} columns {sizes.n_slots:,} can be kept while "
            "rows are read in parts: use a lower max_depth, fewer columns or fewer bins (max_bins)."
        )
