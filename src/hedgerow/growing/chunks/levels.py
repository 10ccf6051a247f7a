"""Symmetric trees on rows in chunks.

A level is the batch of one pass over the chunks (of several, where not all histograms can be
built in one).  Every rank adds up the gains of the cuts of its columns over the nodes of the
level; the best cut of all ranks is taken.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hedgerow.arrays import IntArray
from hedgerow.errors import AllRowsNeededError
from hedgerow.growing.chunks.grower import ChunkGrower
from hedgerow.growing.chunks.space import Sizes
from hedgerow.growing.chunks.stages import nodes as stages
from hedgerow.growing.core import state as s
from hedgerow.growing.core.setup import Fit, make_batch, make_level
from hedgerow.params import BoostParams

_LEFT_SUMS = [s.NODE_G_LEFT, s.NODE_H_LEFT, s.NODE_N_LEFT]


class SymmetricChunkGrower(ChunkGrower):
    """A :class:`ChunkGrower` of symmetric trees.

    Raises
    ------
    AllRowsNeededError
        If the histograms of a level are too large to be kept.
    """

    def _make_state(self, fit: Fit) -> s.State:
        state = super()._make_state(fit)
        most, size = int(state.settings.max_leaves), int(state.level.slot_size)
        self._n_divided = 0  # jobs of the batch whose rows are divided
        return state._replace(
            tree=state.tree._replace(batch=make_batch(most)),
            level=make_level(self._store.spec, state.options, fit.n_threads, most, size),
        )

    def _check_slots(self, params: BoostParams, max_leaves: int, sizes: Sizes) -> None:
        depth = 41 if params.max_depth is None else params.max_depth
        needed = min(max_leaves, 1 << min(max(depth, 1) - 1, 40))
        if needed > sizes.n_slots:
            raise AllRowsNeededError(
                f"grow_policy='symmetric' with max_depth={params.max_depth} keeps up to "
                f"{needed:,} histograms, and for {sizes.n_columns:,} columns {sizes.n_slots:,} can "
                "be kept while rows are read in parts: use a lower max_depth, fewer columns or "
                "fewer bins (max_bins)."
            )

    def _batches(self) -> Iterator[tuple[IntArray, bool]]:
        while len(parents := self._parents()) > 0:
            yield parents, False
        # All nodes were made in the order of their numbers.
        n_nodes = int(self._state.scalars[s.IS_N_NODES])
        self._found = np.arange(n_nodes, dtype=np.int64)
        self._left = self._state.tree.table[:n_nodes, s.NODE_LEFT].copy()

    def _parents(self) -> IntArray:
        """Return the nodes whose rows are divided next."""
        parents = self._part()[:, s.JOB_PARENT]
        return parents[parents >= 0]

    def _part(self) -> IntArray:
        """Return the next jobs of the batch, as many as one pass can build."""
        n_jobs = self._state.scalars[s.IS_N_JOBS]
        stop = min(self._n_divided + self._space.sizes.n_builds, n_jobs)
        return self._state.tree.batch[self._n_divided : stop]

    def _open(self, parents: IntArray, is_full: bool) -> IntArray:
        return self._part()

    def _close(self, jobs: IntArray) -> None:
        """Search the level once all of its histograms are there."""
        self._n_divided += len(jobs)
        scalars = self._state.scalars
        if self._n_divided < scalars[s.IS_N_JOBS]:
            return
        # Search levels until one divides nodes, whose rows are divided next.
        while scalars[s.IS_N_SEARCHED] > 0:
            self._choose()
            if self._state.level.choice[s.FOUND_FEATURE] >= 0:
                self._measure()
            stages.next_level(self._state, 0)
            self._n_divided = 0
            if len(self._parents()) > 0:
                return

    def _close_root(self) -> None:
        stages.next_level(self._state, 1)
        self._n_divided = 0
        self._close(self._state.tree.batch[:1])

    def _choose(self) -> None:
        """Find the best cut in the block of columns, then of all ranks."""
        state, found = self._state, np.zeros((1, 1, s.FOUND_FIELDS), dtype=np.int64)
        self._team.run(stages.search_chunk_level, state, self._block, found[0, 0])
        stages.choose_level(state, self._block, self._exchange.splits(found)[0])

    def _measure(self) -> None:
        """Share the left sums of the cut in each node, from the rank that has its column."""
        state, level, n_parts = self._state, self._state.level, self._exchange.share[1]
        columns = state.columns.feature[: self._n_columns]
        place = int(np.searchsorted(columns, level.choice[s.FOUND_FEATURE]))
        last = self._n_columns * (np.arange(n_parts) + 1) // n_parts
        owner = int(np.searchsorted(last, place, side="right"))
        nodes, table = level.nodes[: level.counts[s.N_NODES]], state.tree.table
        left = table[nodes[:, None], _LEFT_SUMS]
        gains = state.tree.numbers[nodes, s.NUMBER_GAIN]  # of the cut, with several outputs
        parts = (level.choice, level.penalty, left, gains)
        message = np.concatenate([part.view(np.int64).reshape(-1) for part in parts])
        message = self._exchange.measured(message, owner)
        ends = np.cumsum([part.size for part in parts])
        level.choice[:], penalty, left, gains = np.split(message, ends[:-1])
        level.penalty.view(np.int64)[:] = penalty
        table[nodes[:, None], _LEFT_SUMS] = left.reshape(-1, 3)
        state.tree.numbers[nodes, s.NUMBER_GAIN] = gains.view(np.float64)
