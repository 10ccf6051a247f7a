"""Growing trees on rows in chunks, on one process or on several: the trees of ``TreeGrower``.

The compiled loop of :mod:`hedgerow.growing.grow` goes from node to node and to the rows of
each.  Here a pass goes from chunk to chunk and does in each what is to be done for many
nodes::

    pass 0      gradients, row sample, histogram of the root
                -> units and packing checked; if they have changed, once more
    pass k      divide the rows of the nodes that are split, build the histogram of
                the smaller child of each
                -> sums of all ranks, larger children by subtraction, best splits
    until the tree is known; then leaf values from exact sums

Which nodes are split in a pass: :mod:`hedgerow.growing.chunk_order`.  A tree takes about
as many passes as it has levels.  Its values are added to the scores when chunks are next
visited, for the gradients of the next tree.

All sums are whole numbers and all random draws are keyed by the number of the row or the
place in the tree, so chunks, threads and ranks leave no trace: the trees are, bit for bit,
those of :class:`hedgerow.growing.grower.TreeGrower`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hedgerow.arrays import FloatArray, IntArray, RowArray, aligned_empty, aligned_zeros
from hedgerow.comm.base import Alone, Communicator
from hedgerow.compile import announce_compilation
from hedgerow.data.bins import BinSpec
from hedgerow.data.matrix import BinnedMatrix, tile_shape
from hedgerow.data.row_store import Chunk, RowStore, Uses
from hedgerow.errors import CommunicationError, DataError, ParameterError
from hedgerow.growing import chunk_nodes as stages
from hedgerow.growing import state as layout
from hedgerow.growing.branches import make_constraints
from hedgerow.growing.chunk_exchange import Exchange, GrowMode
from hedgerow.growing.chunk_order import Order
from hedgerow.growing.chunk_scores import Base, Change, Leaves, Walk, apply_change, rows_outside
from hedgerow.growing.chunk_space import Sizes, Space, builds_for, slots_for
from hedgerow.growing.chunk_stages import (
    SUM_G,
    SUM_H,
    SUM_PACKED_G,
    SUM_PACKED_H,
    SUMS,
    Building,
    start_chunk,
    visit_chunk,
)
from hedgerow.growing.chunk_team import ChunkTeam
from hedgerow.growing.goss import follows_gradients
from hedgerow.growing.gradients import BLOCK
from hedgerow.growing.grower import for_copies, make_categories, thresholds_of
from hedgerow.growing.setup import (
    begin_tree,
    drawn_columns,
    features_of,
    finished_tree,
    has_constant_hessian,
    most_leaves,
    settings_of,
    split_rules,
    start_scalars,
    tree_arrays,
)
from hedgerow.growing.tree import GrownTree
from hedgerow.kernels.histogram import Bins, Columns
from hedgerow.kernels.lanes import N_LANES
from hedgerow.objectives.base import Objective
from hedgerow.objectives.derivatives import SOFTMAX, LossData
from hedgerow.params import BoostParams

Visit = Callable[[Chunk], None]

_SPARE_NODES = 1 << 15
"""Nodes that may be looked at in vain, at most."""


@dataclass(slots=True)
class Traffic:
    """What the growth of a tree took.

    Attributes
    ----------
    passes : int
        Over the chunks, that for gradients included.
    redone : int
        Passes for gradients whose units turned out to be wrong.
    splits : int
        Nodes that were split, in vain or not.
    wasted_rows : int
        Rows of those that were split in vain.
    sent : int
        Bytes that this rank has sent to others.
    """

    passes: int = 0
    redone: int = 0
    splits: int = 0
    wasted_rows: int = 0
    sent: int = 0


class _Own(NamedTuple):
    """What each thread has for itself."""

    search: layout.Search
    scalars: IntArray
    extras: layout.Extras | None


class ChunkGrower:
    """Grows the trees of one fit on the chunks of a store.

    Parameters
    ----------
    store : RowStore
        Its :meth:`~hedgerow.data.row_store.RowStore.begin` is called here.
    objective : Objective
    params : BoostParams
        Resolved, as for :class:`hedgerow.growing.grower.TreeGrower`.
    n_threads : int, default=1
        Helpers are started at once; :meth:`close` ends them.
    communicator : Communicator, optional
        The other ranks; default: there are none.
    mode : {"data", "features"}, default="data"
        What is divided between ranks.  ``"data"``: each has its own rows.
        ``"features"``: each has all rows and builds the histograms of some columns.
    adds_scores : bool, default=True
        Add each tree to the raw scores, see :meth:`settle`.  False: the caller does
        (:meth:`add`).
    n_copies : int, default=1
        As for ``TreeGrower``.

    Raises
    ------
    ParameterError
        For what cannot be done in chunks; the message names the parameter.
    CommunicationError
        From any method but :meth:`close`, when another rank is lost; the grower must
        not be used afterwards, other than to close it.

    Notes
    -----
    All ranks call the same methods in the same order; construction, :meth:`grow` and
    :meth:`search_leaves` talk to the others.
    """

    def __init__(
        self,
        store: RowStore,
        objective: Objective,
        params: BoostParams,
        n_threads: int = 1,
        communicator: Communicator | None = None,
        mode: GrowMode = "data",
        adds_scores: bool = True,
        n_copies: int = 1,
    ) -> None:
        announce_compilation()
        _check(params, mode)
        self._store, self._objective, self._params = store, objective, params
        self._adds_scores, self._mode = adds_scores, mode
        store.begin(objective.n_outputs, objective.kernel_id == SOFTMAX)
        self._exchange = Exchange(Alone() if communicator is None else communicator, mode)
        spec = store.spec
        self._n_columns, self._stride = spec.n_features, spec.stride
        self._n_bins = spec.bin_counts().astype(np.int32)
        self.n_rows, self._weighted, n_builds = self._greet(n_threads)
        weight = np.ones(0) if self._weighted else None
        max_leaves = most_leaves(params, self.n_rows)
        self._max_leaves = max_leaves
        sizes = self._sizes(n_threads, n_builds)
        constant = has_constant_hessian(objective, weight, params)
        self._settings = settings_of(
            params, objective, self.n_rows, self._n_columns, max_leaves, constant, sizes.n_slots
        )
        self._rules = split_rules(params)
        self._space = Space(sizes, n_threads)
        max_nodes = 2 * max_leaves + min(6 * max_leaves, _SPARE_NODES)
        self._tree = tree_arrays(max_nodes, sizes.n_slots)
        self._scalars = start_scalars(self._n_columns, self._n_columns, params)
        self._columns = _list_columns(np.arange(self._n_columns, dtype=np.int32), self._n_columns)
        extras = _make_extras(spec, params, n_threads, max_nodes)
        self._extras = extras if extras is None else for_copies(extras, n_copies)
        self._own = [self._make_own(n_threads) for _ in range(n_threads)]
        self._blocks = aligned_empty((n_threads, 2, BLOCK), np.float64)
        self._counts = aligned_zeros((n_threads, layout.COUNTS), np.int64)
        n_scratch = max(store.chunk_sizes, default=0)
        self._scratch = np.empty(n_scratch, dtype=np.uint32)
        n_pieces = n_threads * len(store.chunk_sizes)
        self._segments = np.zeros((64, n_pieces, 2), dtype=np.int32)
        self._sums = np.zeros((max_nodes, 2), dtype=np.int64)
        self._changes: list[Change] = []
        self._found_leaves: IntArray = np.zeros(1, dtype=np.int64)
        self._leaves: IntArray = np.zeros(1, dtype=np.int64)
        self.traffic: list[Traffic] = []
        self._team = ChunkTeam(n_threads)

    def start(self, base: FloatArray) -> None:
        """Set every raw score to ``base[output]``, plus the row's offset if it has one.

        Done when chunks are next visited, as :meth:`add` is.
        """
        self._changes = [Base(np.array(base, dtype=np.float64))]

    def grow(self, tree: int, output: int) -> GrownTree:
        """Grow tree number ``tree`` for ``output`` on the gradients at the raw scores."""
        sent_before = self._exchange.sent
        traffic = Traffic()
        self.traffic.append(traffic)
        begin_tree(self._scalars, tree, output, self._objective.n_outputs)
        if self._params.colsample_bytree < 1.0:
            chosen = drawn_columns(self._params, tree, self._n_columns)
            self._columns = _list_columns(chosen, self._n_columns)
            self._scalars[layout.IS_N_COLUMNS] = self._scalars[layout.IS_N_FEATURES] = len(chosen)
            if self._extras is not None:
                self._extras.features[: len(chosen)] = chosen
        self._place_block()
        self._start_tree(traffic)
        order = Order(self._tree, self._max_leaves, self._params.grow_policy == "depthwise")
        while True:
            order.advance()
            parents, full = self._next_batch(order)
            if not parents:
                break
            self._split(parents, full, traffic)
        grown = self._finish(order, traffic)
        if self._adds_scores:
            self._changes.append(Leaves(grown, output, self._found_leaves))
        traffic.sent = self._exchange.sent - sent_before
        return grown

    def add(self, tree: GrownTree, output: int) -> None:
        """Add the values of a tree, any tree, to the raw scores of all rows.

        Done when chunks are next visited: by :meth:`grow`, in the pass that computes
        gradients, or by :meth:`settle`.
        """
        self._changes.append(Walk(tree, output))

    def settle(self, before: Visit | None = None, after: Visit | None = None) -> None:
        """Bring the raw scores up to date, in one pass over the chunks if one is needed.

        Parameters
        ----------
        before, after : callable, optional
            Called with each chunk of this rank before and after its scores are
            brought up to date; with either the pass is made in any case.
        """
        if not self._changes and before is None and after is None:
            return
        walked = any(self._walks(change) for change in self._changes)
        for chunk in self._store.chunks(uses=Uses(by_row=walked, columns=())):
            if before is not None:
                before(chunk)
            self._apply_changes(chunk)
            if after is not None:
                after(chunk)
        self._changes = []

    def rows_outside(self, chunk: Chunk) -> RowArray:
        """Places in the chunk of the rows that the last tree was not grown on."""
        return rows_outside(chunk, self._segments, self._team.n_threads)

    def leaf_segments(self, chunk: Chunk) -> tuple[RowArray, IntArray, IntArray]:
        """Rows of the chunk by leaf of the last tree: rows, leaves, starts.

        As :func:`hedgerow.growing.setup.segments_of`, but leaves without a row in the
        chunk are there too, with two equal starts.
        """
        first = chunk.number * self._team.n_threads
        segments = self._segments[self._found_leaves, first : first + self._team.n_threads]
        sizes = segments[:, :, 1].sum(axis=1)
        starts = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        ids = chunk.work.rows
        parts = [ids[start : start + count] for start, count in segments.reshape(-1, 2)]
        return np.concatenate(parts), self._leaves, starts

    def close(self) -> None:
        """End the helpers; the grower must not be used afterwards.  The store stays open."""
        self._team.close()

    # -- beginning ----------------------------------------------------------------------

    def _greet(self, n_threads: int) -> tuple[int, bool, int]:
        """Rows of all ranks, whether they have weights, and how many histograms to build."""
        store, params = self._store, self._params
        n_rows = sum(store.chunk_sizes)
        weighted = False
        if n_rows > 0:
            full = next(k for k, size in enumerate(store.chunk_sizes) if size > 0)
            for chunk in store.chunks([full], Uses(by_row=False, columns=())):
                weighted = chunk.weight is not None
        most = params.max_leaves or self._n_columns
        n_builds = builds_for(self._n_columns, self._stride, n_threads, max(2, most))
        by_features = int(self._mode == "features")
        facts = [n_rows, self._n_columns, self._stride, by_features, int(weighted), n_builds]
        everyone = self._exchange.greet(np.array(facts, dtype=np.int64))
        same = everyone[:, 1:4] if not by_features else everyone[:, :4]
        if (same != same[0]).any():
            raise CommunicationError(
                "ranks must have the same columns, bins and way to divide them"
                + (", and with mode='features' the same rows" if by_features else "")
                + f"; rows, columns, stride and mode (1: features) are {everyone[:, :4].tolist()}."
            )
        total = int(everyone[:, 0].sum() if self._exchange.adds else n_rows)
        if total == 0:
            raise DataError("there is no row in any chunk of any rank: nothing to grow trees on.")
        return total, bool(everyone[:, 4].any()), int(everyone[:, 5].min())

    def _sizes(self, n_threads: int, n_builds: int) -> Sizes:
        n_columns, n_ranks = self._n_columns, self._exchange.size
        kept = n_columns
        if n_ranks > 1 and self._params.colsample_bytree >= 1.0:
            kept = -(-n_columns // n_ranks)
        n_tiles = tile_shape(n_columns)[0]
        n_groups = min(n_threads, n_tiles)
        return Sizes(
            n_columns=n_columns,
            stride=self._stride,
            kept_columns=kept,
            n_slots=slots_for(kept, self._stride, self._max_leaves),
            n_builds=n_builds,
            n_groups=n_groups,
            n_parts=n_threads // n_groups,
            apart=self._exchange.adds,
        )

    def _make_own(self, n_threads: int) -> _Own:
        extras = self._extras
        if extras is not None and extras.constraints is not None:
            asked = extras.constraints
            asked = asked._replace(
                met=asked.met.copy(), used=asked.used.copy(), permitted=asked.permitted.copy()
            )
            extras = extras._replace(constraints=asked)
        search = layout.Search(
            lanes=aligned_zeros((n_threads, 2, N_LANES), np.int64),
            found=aligned_zeros((n_threads, 2, layout.FOUND_FIELDS), np.int64),
            allowed=np.ones((3, self._n_columns), dtype=np.int32),
        )
        return _Own(search, self._scalars.copy(), extras)

    def _place_block(self) -> None:
        """Columns that this rank searches, as places in the tree's list of columns."""
        n_columns, exchange = len(self._columns.feature), self._exchange
        first = n_columns * exchange.rank // exchange.size
        last = n_columns * (exchange.rank + 1) // exchange.size
        self._block = (first, last)
        column = int(self._columns.feature[first]) if last > first else 0
        self._space.before = -column * self._stride if exchange.size > 1 else 0

    # -- chunks -------------------------------------------------------------------------

    def _walks(self, change: Change) -> bool:
        """Whether a change of scores reads the bins of rows."""
        sampled = self._settings.subsample < 1.0
        return isinstance(change, Walk) or (isinstance(change, Leaves) and sampled)

    def _apply_changes(self, chunk: Chunk) -> None:
        for change in self._changes:
            apply_change(change, chunk, self._segments, self._team)

    def _bins(self, matrix: BinnedMatrix) -> Bins:
        if matrix.layout is not None:
            raise ParameterError(
                "bundle_features: growth in chunks needs a column for each feature, but the chunks "
                "have bundles: use bundle_features=False."
            )
        return Bins(
            by_row=matrix.by_row.reshape(-1),
            by_column=matrix.by_column,
            tile_size=matrix.by_row.shape[1] * matrix.by_row.shape[2],
            tile_width=matrix.by_row.shape[2],
            features_per_tile=tile_shape(self._n_columns)[1],
            n_bins=self._n_bins,
            stride=self._stride,
        )

    def _rows(self, chunk: Chunk) -> layout.Rows:
        work = chunk.work
        return layout.Rows(work.rows, self._scratch, work.fixed, work.packed)

    def _loss_data(self, chunk: Chunk) -> LossData:
        weight = np.zeros(0)
        if self._weighted:
            weight = np.ones(chunk.n_rows) if chunk.weight is None else chunk.weight
        return LossData(
            target=chunk.target,
            weight=weight,
            raw=chunk.work.raw,
            probability=chunk.work.probability,
            level=np.float64(self._objective.level),
        )

    # -- the root -----------------------------------------------------------------------

    def _start_tree(self, traffic: Traffic) -> None:
        """Gradients of all rows, and the best split of the root."""
        scalars, exchange = self._scalars, self._exchange
        root_slot = np.array([self._settings.n_slots - 1])  # the one that start_tree takes
        while True:
            # Before the first tree there is no packing to build a histogram with.
            builds = slice(0, 1 if scalars[layout.IS_COUNT_BITS] > 0 else 0)
            building = self._space.plan(_ROOT[builds], root_slot[builds], self._built_columns())
            everyone = exchange.measures(self._measure(building, traffic))
            self._counts[:] = 0
            most = everyone[:, :2].max(axis=0)
            sums = everyone[:, 2:].sum(axis=0)
            self._counts[0, layout.COUNT_G_MOST : layout.COUNT_H_MOST + 1] = most
            self._counts[0, layout.COUNT_G_SUM : layout.COUNT_H_SUM + 1] = sums[:2]
            constant = self._settings.constant_hessian
            stages.settle_packing(self._counts, scalars, constant, self.n_rows)
            self._changes = []
            if scalars[layout.IS_REDO] == 0:
                break
            self._space.discard()
            traffic.redone += 1
        scalars[layout.IS_N_ROWS] = sums[2]
        stages.open_root(self._settings, self._rules, self._tree, scalars, self._extras)
        exact = sums[3 : 3 + SUMS]
        narrow = scalars[layout.IS_DROPPED_BITS] > 0
        root = self._tree.table[0]
        root[layout.NODE_G] = exact[SUM_PACKED_G if narrow else SUM_G]
        root[layout.NODE_H] = exact[SUM_PACKED_H if narrow else SUM_H]
        self._sums[0] = exact[[SUM_G, SUM_H]]
        jobs = np.zeros((1, stages.JOB_FIELDS), dtype=np.int64)
        jobs[0, stages.JOB_LARGE] = -1
        jobs[0, stages.JOB_SMALL_SLOT] = root_slot[0]
        jobs[0, stages.JOB_SEARCH_SMALL] = scalars[layout.IS_SEARCH_SMALL]
        self._end_builds(building)
        if jobs[0, stages.JOB_SEARCH_SMALL] == 1:
            self._search(jobs, np.zeros(0, dtype=np.int64))
        else:
            self._settle(jobs, np.zeros((1, 1, 2, layout.FOUND_FIELDS), dtype=np.int64))

    def _measure(self, building: Building, traffic: Traffic) -> IntArray:
        """Gradients at the present units, and the root's histogram; sums over own rows."""
        n_threads, scalars = self._team.n_threads, self._scalars
        sums = np.zeros((n_threads, SUMS), dtype=np.int64)
        nobody = np.zeros((n_threads, 0, SUMS), dtype=np.int64)
        self._counts[:] = 0
        traffic.passes += 1
        for chunk in self._store.chunks(uses=Uses(by_row=True, columns=())):
            self._apply_changes(chunk)
            scalars[layout.IS_FIRST_ROW] = chunk.first_row
            rows, first_piece = self._rows(chunk), chunk.number * n_threads
            self._team.run(
                start_chunk,
                self._settings._replace(n_rows=chunk.n_rows),
                self._loss_data(chunk),
                rows,
                self._blocks,
                self._counts,
                scalars,
                self._segments,
                first_piece,
                sums,
            )
            self._visit(chunk, rows, _NO_NODES, nobody, building)
        counts = self._counts
        n_inside = self._segments[0, :, 1].sum(dtype=np.int64)
        return np.concatenate(
            (
                counts[:, layout.COUNT_G_MOST : layout.COUNT_H_MOST + 1].max(axis=0),
                counts[:, layout.COUNT_G_SUM : layout.COUNT_H_SUM + 1].sum(axis=0),
                [n_inside],
                sums.sum(axis=0),
            )
        ).astype(np.int64)

    def _visit(
        self,
        chunk: Chunk,
        rows: layout.Rows,
        parents: IntArray,
        sums: IntArray,
        building: Building,
    ) -> None:
        self._team.run(
            visit_chunk,
            self._bins(chunk.matrix),
            self._columns,
            rows,
            self._tree.table,
            parents,
            self._segments,
            chunk.number * self._team.n_threads,
            sums,
            self._scalars,
            building,
        )

    # -- nodes --------------------------------------------------------------------------

    def _next_batch(self, order: Order) -> tuple[list[int], list[int]]:
        """Nodes to split in the next pass, and for each whether the tree is full with it."""
        sizes, table = self._space.sizes, self._tree.table
        wanted, full_after_last = order.wanted(sizes.n_builds)
        if not wanted:
            return [], []
        n_nodes = int(self._scalars[layout.IS_N_NODES])
        needed = 2 * (self._max_leaves - order.n_leaves)
        spare = 1 + max(0, (len(table) - n_nodes - needed) // 2)
        n_builds, parents = 0, []
        first_needs = 1 if table[wanted[0], layout.NODE_SLOT] >= 0 else 2
        self._free_slots(order, wanted[0], first_needs)
        n_free = int(self._scalars[layout.IS_N_FREE])
        for node in wanted[:spare]:
            needs = 1 if table[node, layout.NODE_SLOT] >= 0 else 2
            if n_builds + needs > min(sizes.n_builds, n_free):
                break
            n_builds += needs
            parents.append(node)
        full = [0] * len(parents)
        full[-1] = int(full_after_last and len(parents) == len(wanted))
        return parents, full

    def _free_slots(self, order: Order, kept: int, needed: int) -> None:
        """Give up histograms of the nodes that come last, until ``needed`` slots are free."""
        tree, scalars = self._tree, self._scalars
        if scalars[layout.IS_N_FREE] >= needed:
            return
        for node in order.last_open():
            slot = tree.table[node, layout.NODE_SLOT]
            if slot >= 0 and node != kept:
                tree.free_slots[scalars[layout.IS_N_FREE]] = slot
                scalars[layout.IS_N_FREE] += 1
                tree.table[node, layout.NODE_SLOT] = -1
            if scalars[layout.IS_N_FREE] >= needed:
                return

    def _split(self, batch: list[int], full: list[int], traffic: Traffic) -> None:
        """One pass: divide the rows of the nodes, find the best splits of their children."""
        parents = np.array(batch, dtype=np.int64)
        jobs = np.zeros((len(parents), stages.JOB_FIELDS), dtype=np.int64)
        unlimited = self._settings._replace(max_leaves=1 << 40)
        stages.open_batch(
            unlimited, self._rules, self._tree, self._scalars, parents,
            np.array(full, dtype=np.int64), jobs, self._extras,
        )  # fmt: skip
        traffic.splits += len(parents)
        self._make_room()
        subtracted = jobs[:, stages.JOB_SUBTRACT] == 1
        small = (jobs[:, stages.JOB_SEARCH_SMALL] == 1) | subtracted
        large = (jobs[:, stages.JOB_SEARCH_LARGE] == 1) & ~subtracted
        nodes = [jobs[small, stages.JOB_SMALL], jobs[large, stages.JOB_LARGE]]
        slots = [jobs[small, stages.JOB_SMALL_SLOT], jobs[large, stages.JOB_LARGE_SLOT]]
        building = self._space.plan(
            np.concatenate(nodes), np.concatenate(slots), self._built_columns()
        )
        sums = np.zeros((self._team.n_threads, len(parents), SUMS), dtype=np.int64)
        traffic.passes += 1
        for chunk in self._visited(parents, len(building.nodes) > 0):
            self._visit(chunk, self._rows(chunk), parents, sums, building)
        if len(building.nodes) > 0:
            self._end_builds(building)
        of_small = self._search(jobs, sums.sum(axis=0)[:, [SUM_G, SUM_H]])
        table = self._tree.table[parents]
        left, right = table[:, layout.NODE_LEFT], table[:, layout.NODE_RIGHT]
        counts = self._tree.table[:, layout.NODE_COUNT]
        left_small = counts[left] <= counts[right]
        self._sums[np.where(left_small, left, right)] = of_small
        self._sums[np.where(left_small, right, left)] = self._sums[parents] - of_small

    def _visited(self, parents: IntArray, builds: bool) -> Iterator[Chunk]:
        """The chunks that have rows of the nodes."""
        n_threads = self._team.n_threads
        in_piece = self._segments[parents, :, 1].any(axis=0)
        numbers = np.flatnonzero(in_piece.reshape(-1, n_threads).any(axis=1)).tolist()
        columns = np.unique(self._tree.table[parents, layout.NODE_COLUMN]).tolist()
        return self._store.chunks(numbers, Uses(by_row=builds, columns=columns))

    def _make_room(self) -> None:
        """Segments for all nodes that have been made."""
        n_nodes, n_kept = int(self._scalars[layout.IS_N_NODES]), len(self._segments)
        if n_nodes > n_kept:
            larger = np.zeros((max(n_nodes, 2 * n_kept), *self._segments.shape[1:]), np.int32)
            larger[:n_kept] = self._segments
            self._segments = larger

    def _built_columns(self) -> tuple[int, int]:
        """Columns that this rank builds: all, or with the features divided its own."""
        return (0, len(self._columns.feature)) if self._exchange.adds else self._block

    def _end_builds(self, building: Building) -> None:
        """Sums of all parts and ranks, in the slots of their nodes."""
        exchange, columns, stride = self._exchange, self._columns, self._stride
        self._team.run(stages.end_builds, columns, stride, self._scalars, building)
        if not exchange.adds:
            return
        n_fields = 2 if self._settings.constant_hessian == 1 else 3
        cells = len(building.nodes) * n_fields * stride
        ranks = np.arange(exchange.size + 1, dtype=np.int64)
        starts = len(columns.feature) * ranks // exchange.size * cells
        message = np.empty(int(starts[-1]), dtype=np.int64)
        self._team.run(
            stages.write_message, columns, stride, building, n_fields, exchange.size, message
        )
        mine = exchange.histograms(message, starts)
        places = self._space.place_of(self._slots_of(building.nodes))
        self._team.run(
            stages.read_message, columns, stride, self._block, n_fields,
            np.array(mine), self._space.kept, places,
        )  # fmt: skip

    def _slots_of(self, nodes: IntArray) -> IntArray:
        return np.asarray(self._tree.table[nodes, layout.NODE_SLOT])

    def _search(self, jobs: IntArray, sums: IntArray) -> IntArray:
        """Best splits in the block of columns, then of all ranks; the sums of all ranks."""
        n_threads = self._team.n_threads
        found = np.zeros((len(jobs), n_threads, 2, layout.FOUND_FIELDS), dtype=np.int64)
        for own in self._own:
            own.scalars[:] = self._scalars
        self._team.run(
            stages.search_jobs,
            self._settings,
            self._rules,
            self._search_bins(),
            self._columns,
            self._block,
            (self._space.kept, self._space.sizes.slot_size, self._space.before),
            (self._tree.table, jobs, found),
            own=self._own,
        )
        best = np.zeros((len(jobs), 1, 2, layout.FOUND_FIELDS), dtype=np.int64)
        stages.best_of_threads(jobs, found, best)
        found, sums = self._exchange.splits(best, sums)
        self._settle(jobs, found)
        return sums

    def _settle(self, jobs: IntArray, found: IntArray) -> None:
        stages.settle_jobs(
            self._settings, self._rules, self._tree, self._scalars, jobs, found, self._extras
        )

    def _search_bins(self) -> Bins:
        """Of the columns; there are no rows."""
        nothing = np.zeros(0, dtype=np.uint8)
        per_tile = tile_shape(self._n_columns)[1]
        rows = nothing.reshape(0, 0)
        return Bins(nothing, rows, 0, 0, per_tile, self._n_bins, self._stride)

    # -- the end ------------------------------------------------------------------------

    def _finish(self, order: Order, traffic: Traffic) -> GrownTree:
        """Number the nodes of the tree as growth in memory does, and give them values."""
        found, left = order.final_children()
        n_nodes = len(found)
        table = self._tree.table[found]
        _, n_found = table, int(self._scalars[layout.IS_N_NODES])
        table[:, layout.NODE_LEFT] = left
        table[:, layout.NODE_RIGHT] = np.where(left > 0, left + 1, 0)
        tree = layout.Tree(table, self._tree.numbers[found], self._tree.free_slots)
        extras = self._extras
        if extras is not None and extras.constraints is not None:
            asked = extras.constraints._replace(bounds=extras.constraints.bounds[found])
            extras = extras._replace(constraints=asked)
        scalars = self._scalars.copy()
        scalars[layout.IS_N_NODES] = n_nodes
        sums = np.ascontiguousarray(self._sums[found].T)[None]
        stages.value_nodes(self._settings, self._rules, tree, sums, scalars, extras)
        self._leaves = np.flatnonzero(left == 0)
        self._found_leaves = found[self._leaves]
        split = np.flatnonzero(self._tree.table[:n_found, layout.NODE_LEFT] > 0)
        vain = np.setdiff1d(split, found[left > 0], assume_unique=True)
        traffic.wasted_rows = int(self._tree.table[vain, layout.NODE_COUNT].sum())
        feature = features_of(tree, n_nodes)
        bins = np.where(feature >= 0, table[:, layout.NODE_BIN], 0)
        threshold = thresholds_of(feature, bins, self._store.spec)
        return finished_tree(tree, n_nodes, threshold, bins.astype(np.uint8))


_NO_NODES: IntArray = np.zeros(0, dtype=np.int64)
_ROOT: IntArray = np.zeros(1, dtype=np.int64)


def _check(params: BoostParams, mode: str) -> None:
    """Raise ``ParameterError`` for what cannot be done in chunks."""
    if mode not in ("data", "features"):
        raise ParameterError(f"mode must be 'data' or 'features'; got {mode!r}.")
    if follows_gradients(params):
        raise ParameterError(
            f"sampling={params.sampling!r} chooses rows by their gradients, which growth in chunks "
            "does not do: use sampling='uniform', or train in memory."
        )


def _list_columns(chosen: np.ndarray, n_columns: int) -> Columns:
    """Columns by their numbers; chunks have a byte for each."""
    return Columns(chosen, chosen % np.int32(tile_shape(n_columns)[1]), None)


def _make_extras(
    spec: BinSpec, params: BoostParams, n_threads: int, max_nodes: int
) -> layout.Extras | None:
    """What the compiled stages need beyond the usual fit; None if nothing."""
    chosen = spec.is_category
    constraints = make_constraints(params, spec.n_features, spec.bin_counts() - 1, max_nodes)
    if not chosen.any() and constraints is None:
        return None
    return layout.Extras(
        features=np.arange(spec.n_features, dtype=np.int32),
        categories=make_categories(chosen, params, n_threads) if chosen.any() else None,
        bundles=None,
        lists=None,
        constraints=constraints,
        sampler=None,
    )
