"""The nodes of a tree that grows over chunks: what does not concern single rows.

Every rank has the same table of nodes and changes it in the same way; the histograms
that it keeps are those of its own block of columns.
"""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import IntArray
from hedgerow.data.binning.bins import BinSpec
from hedgerow.data.binning.matrix import tile_shape
from hedgerow.growing.chunks import nodes as stages
from hedgerow.growing.chunks.exchange import Exchange
from hedgerow.growing.chunks.order import Order, numbered, numbered_bounds
from hedgerow.growing.chunks.setup import columns_of, own_of
from hedgerow.growing.chunks.space import Sizes, Space
from hedgerow.growing.chunks.stages import SUM_G, SUM_H, SUM_PACKED_G, SUM_PACKED_H, Building
from hedgerow.growing.chunks.team import ChunkTeam
from hedgerow.growing.core import batch
from hedgerow.growing.core import state as layout
from hedgerow.growing.core.grower import cuts_of, options_of, thresholds_of
from hedgerow.growing.core.setup import (
    begin_tree,
    draw_columns,
    features_of,
    finished_tree,
    split_rules,
    start_scalars,
    tree_arrays,
)
from hedgerow.growing.core.tree import GrownTree
from hedgerow.growing.sampling.goss import uniform_sampler
from hedgerow.kernels.histograms.histogram import Bins
from hedgerow.params import BoostParams

_SPARE_NODES = 1 << 15
"""Nodes that may be looked at in vain, at most."""

_ROOT: IntArray = np.zeros(1, dtype=np.int64)


class ChunkTree:
    """The tree being grown.

    Attributes
    ----------
    table : int64 (nodes, NODE_FIELDS)
        Nodes in the order in which they were found.
    scalars : int64 (N_SCALARS,)
    columns : Columns
        Those that the tree may use.
    order : Order
    found_leaves : int64 (n_leaves,)
        Leaves of the last finished tree, as nodes were found.
    leaves : int64 (n_leaves,)
        The same, as they are numbered in the tree: ascending.
    """

    def __init__(
        self,
        spec: BinSpec,
        params: BoostParams,
        settings: layout.Settings,
        sizes: Sizes,
        exchange: Exchange,
        team: ChunkTeam,
        n_copies: int,
    ) -> None:
        self._spec, self._params, self._settings = spec, params, settings
        self._exchange, self._team = exchange, team
        self._rules = split_rules(params)
        self._space = Space(sizes, team.n_threads)
        n_columns = spec.n_features
        self._n_columns, self._stride = n_columns, spec.stride
        self._max_leaves = int(settings.max_leaves)
        max_nodes = 2 * self._max_leaves + min(6 * self._max_leaves, _SPARE_NODES)
        self._tree = tree_arrays(max_nodes, int(settings.n_slots))
        self.table, self.scalars = self._tree.table, start_scalars(n_columns, n_columns, params)
        self.columns = columns_of(np.arange(n_columns, dtype=np.int32), n_columns)
        self._options = options_of(
            spec, params, team.n_threads, max_nodes, n_copies, uniform_sampler()
        )
        self._own = own_of(self._options, self.scalars, team.n_threads, n_columns)
        nothing = np.zeros((0, 0), dtype=np.uint8)
        n_bins = spec.bin_counts().astype(np.int32)
        per_tile = tile_shape(n_columns)[1]
        # For the search of histograms: there are no rows.
        self._bins = Bins(nothing.reshape(-1), nothing, 0, 0, per_tile, n_bins, spec.stride)
        self._message = np.empty(0, dtype=np.int64)
        self.order = Order(self._tree, 1, depthwise=False)
        self.leaves: IntArray = _ROOT
        self.found_leaves: IntArray = _ROOT

    @property
    def is_rounded(self) -> bool:
        """Whether histograms hold rounded gradients, so that exact sums are others."""
        return bool(self.scalars[layout.IS_DROPPED_BITS] > 0)

    @property
    def packed_words(self) -> int:
        """Numbers that a row has in ``packed``."""
        return 1 + int(self.scalars[layout.IS_G_APART])

    @property
    def n_nodes(self) -> int:
        """Nodes that were found."""
        return int(self.scalars[layout.IS_N_NODES])

    # -- the root -----------------------------------------------------------------------

    def set_rate(self, rate: float) -> None:
        """Set the factor on the values of the trees to come."""
        self._settings = self._settings._replace(learning_rate=rate)

    def begin(self, tree: int, output: int, n_outputs: int) -> None:
        """Note which tree it is, and draw its columns."""
        begin_tree(self.scalars, tree, output, n_outputs)
        if self._params.colsample_bytree < 1.0:
            chosen = draw_columns(self._params, tree, self._options.features, self.scalars)
            self.columns = columns_of(chosen, self._n_columns)
        n_columns, exchange = len(self.columns.feature), self._exchange
        first = n_columns * exchange.rank // exchange.size
        last = n_columns * (exchange.rank + 1) // exchange.size
        self._block = (first, last)
        column = int(self.columns.feature[first]) if last > first else 0
        self._space.before = -column * self._stride if exchange.size > 1 else 0

    def plan_root(self) -> Building:
        """What to build while gradients are computed."""
        # Before the first tree there is no packing to build a histogram with.
        builds = slice(0, 1 if self.scalars[layout.IS_COUNT_BITS] > 0 else 0)
        slot = np.array([self._settings.n_slots - 1])  # the one that start_tree takes
        return self._space.plan(_ROOT[builds], slot[builds], self._built_columns())

    def nothing(self) -> Building:
        """No histogram to build."""
        return self._space.plan(_ROOT[:0], _ROOT[:0], (0, 0))

    def check_units(self, counts: IntArray, n_rows: int) -> bool:
        """Check units and packing; whether they were right."""
        stages.check_packing(counts, self.scalars, self._settings.constant_hessian, n_rows)
        if self.scalars[layout.IS_REDO] == 0:
            return True
        self._space.discard()
        return False

    def open_root(self, n_inside: int, sums: IntArray, building: Building) -> None:
        """Begin with ``n_inside`` rows that have these sums, and look for a split."""
        scalars, root = self.scalars, self.table[0]
        scalars[layout.IS_N_ROWS] = n_inside
        stages.open_root(self._settings, self._rules, self._tree, scalars, self._options)
        root[layout.NODE_G] = sums[SUM_PACKED_G if self.is_rounded else SUM_G]
        root[layout.NODE_H] = sums[SUM_PACKED_H if self.is_rounded else SUM_H]
        self._end_builds(building)
        self._search_root()

    def _search_root(self) -> None:
        """Look for a split of the root."""
        jobs, scalars = self._tree.batch, self.scalars
        if scalars[layout.IS_N_SEARCHED] > 0:
            self._search(jobs)
        else:
            self._commit(jobs, np.zeros((1, 1, 2, layout.FOUND_FIELDS), dtype=np.int64))
        depthwise = self._params.grow_policy == "depthwise"
        self.order = Order(self._tree, self._max_leaves, depthwise)

    # -- splits -------------------------------------------------------------------------

    def next_batch(self) -> tuple[IntArray, IntArray]:
        """Nodes to split in the next pass, and for each whether the tree is full with it."""
        self.order.advance()
        sizes, table = self._space.sizes, self.table
        wanted, full_after_last = self.order.wanted(sizes.n_builds)
        parents: list[int] = []
        if wanted:
            needed = 2 * (self._max_leaves - self.order.n_leaves)
            spare = 1 + max(0, (len(table) - self.n_nodes - needed) // 2)
            self._free_slots(wanted[0], self._needs(wanted[0]))
            n_builds, most = 0, min(sizes.n_builds, int(self.scalars[layout.IS_N_FREE]))
            for node in wanted[:spare]:
                n_builds += self._needs(node)
                if n_builds > most:
                    break
                parents.append(node)
        full = np.zeros(len(parents), dtype=np.int64)
        if full_after_last and len(parents) == len(wanted):
            full[-1] = 1
        return np.array(parents, dtype=np.int64), full

    def open(self, parents: IntArray, full: IntArray) -> tuple[IntArray, Building]:
        """Make the children of ``parents``; what to search, and what to build for it."""
        jobs = np.zeros((len(parents), batch.JOB_FIELDS), dtype=np.int64)
        stages.open_batch(
            self._settings, self._rules, self._tree, self.scalars, parents, full, jobs,
            self._options,
        )  # fmt: skip
        return jobs, self._plan_builds(jobs)

    def _plan_builds(self, jobs: IntArray) -> Building:
        """What to build for some jobs."""
        jobs = jobs[jobs[:, batch.JOB_HISTOGRAMS] != batch.KEPT]
        subtracted = jobs[:, batch.JOB_HISTOGRAMS] == batch.SUBTRACTED
        small = (jobs[:, batch.JOB_SEARCH_SMALL] == 1) | subtracted
        large = (jobs[:, batch.JOB_SEARCH_LARGE] == 1) & ~subtracted
        nodes = [jobs[small, batch.JOB_SMALL], jobs[large, batch.JOB_LARGE]]
        slots = [jobs[small, batch.JOB_SMALL_SLOT], jobs[large, batch.JOB_LARGE_SLOT]]
        columns = self._built_columns()
        return self._space.plan(np.concatenate(nodes), np.concatenate(slots), columns)

    def close(self, jobs: IntArray, building: Building) -> None:
        """Search the children."""
        self._end_builds(building)
        if (jobs[:, [batch.JOB_SEARCH_SMALL, batch.JOB_SEARCH_LARGE]] == 1).any():
            self._search(jobs)

    def _needs(self, node: int) -> int:
        """Histograms to build, and slots to fill, for a split of the node."""
        return 1 if self.table[node, layout.NODE_SLOT] >= 0 else 2

    def _free_slots(self, kept: int, needed: int) -> None:
        """Give up histograms of the nodes that come last, until ``needed`` slots are free."""
        tree, scalars = self._tree, self.scalars
        if scalars[layout.IS_N_FREE] >= needed:
            return
        for node in self.order.last_open(self.n_nodes):
            slot = tree.table[node, layout.NODE_SLOT]
            if slot >= 0 and node != kept:
                tree.free_slots[scalars[layout.IS_N_FREE]] = slot
                scalars[layout.IS_N_FREE] += 1
                tree.table[node, layout.NODE_SLOT] = -1
            if scalars[layout.IS_N_FREE] >= needed:
                return

    # -- histograms ---------------------------------------------------------------------

    def _built_columns(self) -> tuple[int, int]:
        """Columns that this rank builds: all, or with the features divided its own."""
        return (0, len(self.columns.feature)) if self._exchange.adds else self._block

    def _end_builds(self, building: Building) -> None:
        """Sums of all ranks, in the slots of their nodes; those of all parts are in part 0."""
        exchange, columns, stride = self._exchange, self.columns, self._stride
        if len(building.nodes) == 0:
            return
        if not exchange.adds:
            return
        n_fields = 2 if self._settings.constant_hessian == 1 else 3
        cells = len(building.nodes) * n_fields * stride
        ranks = np.arange(exchange.size + 1, dtype=np.int64)
        starts = len(columns.feature) * ranks // exchange.size * cells
        own = int(starts[exchange.rank + 1] - starts[exchange.rank])
        message, out = self._message_of(int(starts[-1]), own)
        self._team.run(
            stages.write_message, columns, stride, building, n_fields, exchange.size, message
        )
        span = np.ascontiguousarray(exchange.histograms(message, starts, out))
        places = self._space.place_of(self.table[building.nodes, layout.NODE_SLOT])
        self._team.run(
            stages.read_message, columns, stride, self._block, n_fields, span, self._space.kept,
            places,
        )  # fmt: skip

    def _message_of(self, length: int, own: int) -> tuple[IntArray, IntArray]:
        """Space for a message and for a part; fresh memory would take longer than to fill it."""
        if length + own > len(self._message):
            self._message = np.empty(2 * (length + own), dtype=np.int64)
        return self._message[:length], self._message[length : length + own]

    def _search(self, jobs: IntArray) -> None:
        """Best splits in the block of columns, then of all ranks."""
        shape = (len(jobs), self._team.n_threads, 2, layout.FOUND_FIELDS)
        found = np.zeros(shape, dtype=np.int64)
        for own in self._own:
            own.scalars[:] = self.scalars
        self._team.run(
            stages.search_jobs,
            self._settings,
            self._rules,
            self._bins,
            self.columns,
            self._block,
            (self._space.kept, self._space.sizes.slot_size, self._space.before),
            (self.table, jobs, found),
            own=self._own,
        )
        best = np.zeros((len(jobs), 1, 2, layout.FOUND_FIELDS), dtype=np.int64)
        stages.best_of_threads(jobs, found, best)
        self._commit(jobs, self._exchange.splits(best))

    def _commit(self, jobs: IntArray, found: IntArray) -> None:
        stages.commit_splits(
            self._settings, self._rules, self._tree, self.scalars, jobs, found, self._options
        )

    # -- the end ------------------------------------------------------------------------

    def end_order(self) -> IntArray:
        """The leaves as they were found, in the order in which the tree numbers them."""
        found, left = self.order.nodes()
        self.leaves = np.flatnonzero(left == 0)
        self.found_leaves = found[self.leaves]
        return self.found_leaves

    def finish(self, leaf_sums: IntArray | None) -> GrownTree:
        """Number the nodes of the tree as growth in memory does, and give them values.

        ``leaf_sums`` are the exact ones, int64 (n_leaves, 2); None: histograms have them.
        """
        self.end_order()
        found, _ = self.order.nodes()
        tree = numbered(self._tree, self.order)
        table, n_nodes = tree.table, len(found)
        options = numbered_bounds(self._options, self.order)
        scalars = self.scalars.copy()
        scalars[layout.IS_N_NODES] = n_nodes
        sums = np.zeros((1, 2, n_nodes), dtype=np.int64)
        if leaf_sums is None:
            sums[0] = table[:, [layout.NODE_G, layout.NODE_H]].T
        else:
            sums[0][:, self.leaves] = leaf_sums.T
        stages.value_nodes(self._settings, self._rules, tree, sums, scalars, options)
        feature = features_of(tree, n_nodes)
        bins = np.where(feature >= 0, table[:, layout.NODE_BIN], 0)
        threshold = thresholds_of(feature, bins, cuts_of(self._spec))
        return finished_tree(tree, n_nodes, threshold, bins.astype(np.uint8))

    def rows_split_unused(self) -> int:
        """Rows of the nodes that were split but are not split in the tree."""
        table, found = self.table[: self.n_nodes], self.order.nodes()[0]
        rows = np.where(table[:, layout.NODE_LEFT] > 0, table[:, layout.NODE_COUNT], 0)
        inner = np.setdiff1d(found, self.found_leaves, assume_unique=True)
        return int(rows.sum() - rows[inner].sum())
