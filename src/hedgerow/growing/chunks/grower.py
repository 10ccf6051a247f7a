"""Growing trees on rows in chunks, on one process or on several: the trees of ``TreeGrower``.

The state and the stages are those of :mod:`hedgerow.growing.core.grow`, whose compiled loop goes
from node to node.  Here Python goes from batch to batch, and a batch is as many nodes as possible,
because each takes a pass over the chunks::

    gradients, row sample                           arrays of all rows
    the root is the first batch
    while there is a batch:
        for each chunk: divide the rows of the parents, build the smaller children's histograms
        sums of all ranks, larger children by subtraction, search, commit
    leaf values from exact sums -> raw scores       arrays of all rows

Which nodes are a batch: :mod:`hedgerow.growing.chunks.order`, and in symmetric trees those of a
level.  A tree takes about as many passes as it has levels,
and one.  Between stages ranks add up what they have found
(:mod:`hedgerow.growing.chunks.exchange`).

All sums are whole numbers and all random draws are keyed by the number of the row or the
place in the tree, so chunks, threads and ranks leave no trace: the trees are, bit for bit,
those of :class:`hedgerow.growing.core.grower.TreeGrower`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray, IntArray, RowArray, aligned_zeros, unused
from hedgerow.comm.base import Alone, Communicator
from hedgerow.data.binning.matrix import PAD, tile_shape
from hedgerow.data.external.disk_store import ROWS_ONLY, Chunk, ChunkStore, Uses
from hedgerow.errors import AllRowsNeededError
from hedgerow.growing.chunks.exchange import OF_SUMS, Exchange, GrowMode
from hedgerow.growing.chunks.order import Order
from hedgerow.growing.chunks.slopes import ChunkSlopes
from hedgerow.growing.chunks.space import Space, Traffic, greet
from hedgerow.growing.chunks.stages import nodes as node_stages
from hedgerow.growing.chunks.stages import passes
from hedgerow.growing.chunks.stages import rows as row_stages
from hedgerow.growing.core import setup
from hedgerow.growing.core import state as s
from hedgerow.growing.core.compiled_grower import CompiledGrower
from hedgerow.growing.core.grower import finish_nodes, thresholds_of
from hedgerow.growing.core.slopes import LineLimits
from hedgerow.growing.core.stages.frontier import start_tree
from hedgerow.growing.core.stages.gradients import QUANTIZED_BITS, choose_packing
from hedgerow.growing.core.tree import GrownTree
from hedgerow.growing.sampling.goss import (
    CELLS,
    DIGIT_BITS,
    LEVELS,
    follows_gradients,
    make_sampler,
    next_digit,
    tally_keys,
)
from hedgerow.growing.vectors.gradients import write_words
from hedgerow.kernels.histograms.histogram import Columns
from hedgerow.kernels.histograms.pairs import Pairs
from hedgerow.objectives.derivatives import PRECOMPUTED
from hedgerow.objectives.precomputed import check_curvature
from hedgerow.params import FIRST_ORDER

_SPARE_NODES = 1 << 15
"""Nodes that may be looked at in vain, at most."""

_CHILD_SHARE = 0.4
"""Guess of a child's gain: histograms of nodes that are split in vain take time to build."""

_ROOT: IntArray = np.zeros(1, dtype=np.int64)
_LEFT_SUMS = [s.NODE_G_LEFT, s.NODE_H_LEFT, s.NODE_N_LEFT]


class ChunkGrower(CompiledGrower):
    """Grows the trees of one fit on the chunks of a store.

    Parameters
    ----------
    store : ChunkStore
    fit : Fit
        Arrays of the rows of this rank.  ``fit.n_threads - 1`` helpers are started at once;
        :meth:`close` ends them.
    adds_scores : bool, default=True
        As for :class:`hedgerow.growing.core.compiled_grower.CompiledGrower`; the caller adds values
        of linear leaves.
    communicator : Communicator, optional
        The other ranks; default: there are none.
    mode : {"data", "features"}, default="data"
        What is divided between ranks.  ``"data"``: each has its own rows.
        ``"features"``: each has all rows and builds the histograms of some columns.
    first_row : int, default=0
        Number of rows of lower ranks.

    Raises
    ------
    AllRowsNeededError
        For what cannot be done in chunks; the message names the parameter.
    CommunicationError
        From any method but :meth:`close`, when another rank is lost; the grower must
        not be used afterwards, other than to close it.

    Notes
    -----
    All ranks call the same methods in the same order; construction and :meth:`grow` talk to the
    others.
    """

    _team: passes.ChunkTeam

    def __init__(
        self,
        store: ChunkStore,
        fit: setup.Fit,
        adds_scores: bool = True,
        communicator: Communicator | None = None,
        mode: GrowMode = "data",
        first_row: int = 0,
    ) -> None:
        self._store = store
        self._n_vectors = len(fit.raw) if setup.holds_vectors(fit.params) else 1
        self._exchange = Exchange(Alone() if communicator is None else communicator, mode)
        self._first_row = first_row
        self._by_gradient = follows_gradients(fit.params)
        super().__init__(fit, adds_scores)
        # RowDerivatives checks hessians of its own rows; here those of all ranks are checked.
        self._derivatives = replace(self._derivatives, newton=False)
        self._finish = partial(finish_nodes, partial(thresholds_of, store.spec.edges), 1)
        self._message = np.empty(0, dtype=np.int64)
        n_pieces = fit.n_threads * len(store.chunk_sizes)
        self._segments = np.zeros((64, n_pieces, 2), dtype=np.int32)
        self._slopes: ChunkSlopes | None = None
        if fit.params.linear_leaves:
            limits = LineLimits.of(store.spec, fit.params, fit.objective)
            self._slopes = ChunkSlopes(
                store, limits, self._exchange, fit.n_threads, self._rows_in_order,
                lambda leaves: self._chunks_with(self._found[leaves]),
            )  # fmt: skip
        self._n_passes = 0
        self.traffic: list[Traffic] = []

    # -- arrays -------------------------------------------------------------------------

    def _make_state(self, fit: setup.Fit) -> s.State:
        store, spec, n_threads, params = self._store, self._store.spec, fit.n_threads, fit.params
        weighted, n_vectors = fit.weight is not None, self._n_vectors
        facts = greet(self._exchange, store, params, n_threads, n_vectors, weighted)
        self.n_rows = facts.n_rows
        if facts.weighted and fit.weight is None:  # others have weights
            fit = fit._replace(weight=np.ones(store.n_rows))
        most, allocate = setup.most_leaves(params, self.n_rows), store.row_array
        self._space = space = Space(
            self._exchange, spec, params, n_threads, facts.n_builds, most, n_vectors,
            fit.constant_hessian,
        )  # fmt: skip
        max_nodes = 2 * most + min(6 * most, _SPARE_NODES)
        sampler = make_sampler(params, store.n_rows, n_threads, packs=True, allocate=allocate)
        options = setup.make_options(
            params, spec.is_category, n_threads, max_nodes, sampler, spec=spec
        )
        n_rows = store.n_rows
        if space.width == 0:
            rows = setup.row_arrays(n_rows, PAD, allocate)
        else:
            ids, words = allocate(n_rows + PAD, np.uint32), allocate(n_rows * space.width, np.int32)
            ids[n_rows:] = 0
            rows = s.Rows(ids, allocate(n_rows, np.uint32), words[:0], words.view(np.int64))
        state = setup.start_state(fit, options, spec.n_features, space.n_slots, 0, rows, allocate)
        state.scalars[s.IS_FIRST_ROW] = self._first_row
        n_bins, per_tile = spec.bin_counts.astype(np.int32), tile_shape(spec.n_features)[1]
        state = state._replace(
            settings=state.settings._replace(max_leaves=most),
            # The bins of rows are those of a chunk.
            bins=state.bins._replace(n_bins=n_bins, stride=spec.stride, features_per_tile=per_tile),
            columns=_columns_of(np.arange(spec.n_features, dtype=np.int32), per_tile),
            histograms=space.kept,
            tree=setup.tree_arrays(max_nodes, space.n_slots),
            level=state.level._replace(slot_size=space.slot_size),
        )
        if n_vectors > 1:
            words = state.rows.packed.view(np.int32)
            state = setup.with_vectors(state, fit, words, space.kept_vectors, allocate)
        self._counts = aligned_zeros((n_vectors, n_threads, s.COUNTS), np.int64)
        return state._replace(threads=state.threads._replace(counts=self._counts[-1]))

    def _start_team(self, n_threads: int) -> passes.ChunkTeam:
        return passes.ChunkTeam(self._state.team)

    def _draw_columns(self, tree: int) -> None:
        state = self._state
        chosen = setup.draw_columns(self._params, tree, state.options.features, state.scalars)
        drawn = _columns_of(chosen, int(state.bins.features_per_tile))
        setup.replace_columns(state.columns, drawn)

    @property
    def raw(self) -> FloatArray:
        """Raw scores of the rows, (n_outputs, n_rows)."""
        return self._state.loss_data.raw

    # -- a tree -------------------------------------------------------------------------

    def grow(self, tree: int, output: int = 0) -> GrownTree:
        """Grow tree number ``tree`` for ``output``, or with vectors for all outputs."""
        passes_before, sent_before = self._n_passes, self._exchange.sent
        grown = super().grow(tree, output)
        if self._slopes is not None:
            grown = grown.with_slopes(self._slopes.slopes(self._state))
        traffic = self.traffic[-1]
        traffic.passes = self._n_passes - passes_before
        traffic.sent = self._exchange.sent - sent_before
        return grown

    def _run(self) -> None:
        self.traffic.append(traffic := Traffic())
        # The columns that this rank searches, a block of those of the tree.
        state, (part, n_parts) = self._state, self._exchange.share
        self._n_columns = n_columns = int(state.scalars[s.IS_N_COLUMNS])
        self._block = first, last = n_columns * part // n_parts, n_columns * (part + 1) // n_parts
        column = int(state.columns.feature[first]) if last > first and n_parts > 1 else 0
        level = state.level._replace(before=-column * int(state.bins.stride))
        self._state = state._replace(level=level)
        self._open_root(self._draw_rows())
        for parents, is_full in self._batches():
            self._split(parents, is_full)
            traffic.splits += len(parents)
        traffic.wasted_rows = self._number_nodes()
        self._set_values()

    # -- rows ---------------------------------------------------------------------------

    def _draw_rows(self) -> IntArray:
        """Compute gradients, draw the rows; return the number and sums of those of all ranks."""
        state, exchange = self._state, self._exchange
        outputs, scalars = state.vectors.outputs, state.scalars
        several, of_parts = self._n_vectors > 1, self._counts
        of_outputs = outputs.scalars if several else scalars[None]
        loss = self._derivatives.objective
        newton = self._params.leaf_estimation not in FIRST_ORDER
        if newton and loss.kernel_id == PRECOMPUTED and hasattr(loss, "label"):
            # A user's loss must have some positive h.  Bit patterns of floats >= 0 sort like these.
            largest = state.loss_data.probability[1::2].max(axis=1, initial=0.0)
            bits = exchange.measures(largest.view(np.int64)).max(axis=0)
            check_curvature(loss, float(bits.view(np.float64).min()))
        while True:
            self._team.run(row_stages.measure_gradients, state, of_parts)
            exchange.counts(of_parts)
            for counts, own in zip(of_parts, of_outputs, strict=True):
                choose_packing(counts, own, state.settings.constant_hessian, self.n_rows)
            if not of_outputs[:, s.IS_REDO].any():
                break
        outputs.measured[:1] = of_parts[:, 0, OF_SUMS] if several else 0
        if self._by_gradient:
            # As in memory, but the tallies of all ranks are put in the place of those of thread 0.
            sampler, everyone = state.options.sampler, np.zeros((0, 2, CELLS), dtype=np.int64)
            for level in range(LEVELS):
                self._team.run(tally_keys, state, level, self.n_rows)
                own = sampler.tallies[:, level].sum(axis=0)
                everyone = exchange.measures(own.reshape(-1)).reshape(-1, 2, CELLS)
                sampler.tallies[:, level], sampler.tallies[0, level] = 0, everyone.sum(axis=0)
                next_digit(sampler, level, self.n_rows, scalars)
            # GOSS keeps the first rows of those that tie, in the order of ranks.
            before = exchange.rank if exchange.adds else 0
            last = scalars[s.IS_PREFIX] & ((1 << DIGIT_BITS) - 1)
            scalars[s.IS_TIES] -= everyone[:before, 0, last].sum()
        sums = np.zeros((state.team.n_threads, row_stages.SUMS), dtype=np.int64)
        self._team.run(row_stages.draw_sample, state, sums)
        if several:
            self._team.run(write_words, state, self.n_rows)
        n_inside = scalars[s.IS_N_ROWS]
        return exchange.sums(np.concatenate(([n_inside], sums.sum(axis=0))).astype(np.int64))

    def _rows_in_order(self, chunk: Chunk | None, leaves: IntArray) -> tuple[RowArray, IntArray]:
        """Return sorted rows of some leaves of the last tree, of a chunk or of all; leaf starts."""
        own, rows = self._segments[self._found[leaves]], self._state.rows.rows
        if chunk is not None:
            n_threads = int(self._state.team.n_threads)
            own = own[:, n_threads * chunk.number : n_threads * (chunk.number + 1)]
        starts = np.concatenate(([0], np.cumsum(own[:, :, 1].sum(axis=1)))).astype(np.int64)
        parts = [rows[start : start + count] for start, count in own.reshape(-1, 2)]
        found = np.concatenate([rows[:0], *parts])
        # A split in vain has put the rows of a leaf in another order.
        for k in np.flatnonzero(self._split_in_vain[leaves]):
            found[starts[k] : starts[k + 1]].sort()
        return found, starts

    def _chunks_with(self, nodes: IntArray) -> list[int]:
        """Return numbers of the chunks that have rows of the nodes, by their found numbers."""
        in_piece = self._segments[nodes, :, 1].any(axis=0)
        in_chunk = in_piece.reshape(-1, int(self._state.team.n_threads)).any(axis=1)
        numbers: list[int] = np.flatnonzero(in_chunk).tolist()
        return numbers

    def rows_outside(self) -> RowArray:
        """Return the rows of this rank that the last tree was not grown on, ascending."""
        return super().rows_outside().copy()  # scores may be added after the next tree

    def leaf_segments(self) -> tuple[RowArray, IntArray, IntArray]:
        """Return the rows of this rank by leaf of the last tree: rows, leaves, starts."""
        # As for rows in memory, but the leaves are in the order of their nodes, and some may have
        # no rows of this rank.
        leaves = np.flatnonzero(self._left == 0)
        rows, starts = self._rows_in_order(None, leaves)
        return rows, leaves, starts

    # -- batches ------------------------------------------------------------------------

    def _open_root(self, of_sample: IntArray) -> None:
        """Begin with the rows of all ranks, which have these sums, and look for a split."""
        state, scalars = self._state, self._state.scalars
        self._n_inside = int(scalars[s.IS_N_ROWS])
        # The sample, whose rows are ascending, in pieces of the chunks.
        store, n_threads = self._store, int(state.team.n_threads)
        starts = np.cumsum([0, *store.chunk_sizes]).astype(np.uint32)
        edges = np.searchsorted(state.rows.rows[: self._n_inside], starts)
        parts = np.diff(edges)[:, None] * np.arange(n_threads + 1) // n_threads
        self._segments[0, :, 0] = (edges[:-1, None] + parts[:, :-1]).reshape(-1)
        self._segments[0, :, 1] = np.diff(parts).reshape(-1)
        scalars[s.IS_N_ROWS] = of_sample[0]
        start_tree(state)
        scalars[s.IS_N_ROWS] = self._n_inside
        # Of several outputs the sums are in the histograms alone, and these are 0.
        state.tree.table[0, [s.NODE_G, s.NODE_H]] = of_sample[1:]
        if scalars[s.IS_N_SEARCHED] > 0:
            building = self._building_of(_ROOT, state.tree.table[_ROOT, s.NODE_SLOT])
            self._pass(_ROOT[:0], building, ROWS_ONLY, None)
        self._close_root()

    def _close_root(self) -> None:
        """Look for a split of the root."""
        self._close(self._state.tree.batch)

    def _batches(self) -> Iterator[tuple[IntArray, bool]]:
        """Yield nodes to split in the next pass, and whether the tree is full with the last."""
        state, n_builds = self._state, self._space.n_builds
        table, max_leaves = state.tree.table, int(state.settings.max_leaves)
        order = Order(state.tree, max_leaves, bool(state.settings.depthwise), _CHILD_SHARE)
        while True:
            n_nodes = int(state.scalars[s.IS_N_NODES])
            order.advance(n_nodes)
            # Room for the splits that will be taken is kept free of those that may be.  The
            # first node is taken for sure.
            spare = max(0, (len(table) - n_nodes) // 2 - (max_leaves - order.n_leaves))
            nodes, is_full = order.wanted(min(n_builds, 1 + spare))
            if not nodes:
                self._found, self._left = order.nodes()
                return
            # Histograms to build, and slots to fill, for the split of each node.
            wanted = np.array(nodes, dtype=np.int64)
            self._free_slots(nodes[0], 1 if table[nodes[0], s.NODE_SLOT] >= 0 else 2)
            needed = np.where(table[wanted, s.NODE_SLOT] >= 0, 1, 2)
            most = min(n_builds, int(state.scalars[s.IS_N_FREE]))
            n_taken = int(np.searchsorted(np.cumsum(needed), most, side="right"))
            yield wanted[:n_taken], is_full and n_taken == len(wanted)

    def _free_slots(self, kept: int, needed: int) -> None:
        """Give up histograms of the nodes that come last, until ``needed`` slots are free."""
        arrays, scalars = self._state.tree, self._state.scalars
        if scalars[s.IS_N_FREE] >= needed:
            return
        # Nodes with a known split that is not applied, the last in the order of growth first.
        table = arrays.table[: scalars[s.IS_N_NODES]]
        nodes = np.flatnonzero(table[:, s.NODE_OPEN])
        gain = arrays.numbers[nodes, s.NUMBER_GAIN]
        level = self._state.settings.depthwise * table[nodes, s.NODE_DEPTH]
        order = np.lexsort((nodes, -gain, level))[::-1]
        for node in nodes[order]:
            slot = table[node, s.NODE_SLOT]
            if slot >= 0 and node != kept:
                arrays.free_slots[scalars[s.IS_N_FREE]] = slot
                scalars[s.IS_N_FREE] += 1
                table[node, s.NODE_SLOT] = -1
            if scalars[s.IS_N_FREE] >= needed:
                return

    def _open(self, parents: IntArray, is_full: bool) -> IntArray:
        """Make the children of ``parents``; return the jobs: int64 (parents, JOB_FIELDS)."""
        jobs = np.zeros((len(parents), s.JOB_FIELDS), dtype=np.int64)
        node_stages.open_batch(self._state, parents, int(is_full), jobs)
        return jobs

    def _split(self, parents: IntArray, is_full: bool) -> None:
        """Divide the rows of the nodes, find the best splits of their children."""
        jobs, table = self._open(parents, is_full), self._state.tree.table
        children = table[parents][:, [s.NODE_LEFT, s.NODE_RIGHT]].reshape(-1)
        n_kept, n_nodes = len(self._segments), int(self._state.scalars[s.IS_N_NODES])
        if n_nodes > n_kept:
            shape = (max(n_nodes, 2 * n_kept), *self._segments.shape[1:])
            larger = np.zeros(shape, np.int32)
            larger[:n_kept] = self._segments
            self._segments = larger
        self._segments[children] = 0  # chunks without rows of the parents are skipped
        built = jobs[jobs[:, s.JOB_HISTOGRAMS] != s.KEPT]
        subtracted = built[:, s.JOB_HISTOGRAMS] == s.SUBTRACTED
        small = (built[:, s.JOB_SEARCH_SMALL] == 1) | subtracted
        large = (built[:, s.JOB_SEARCH_LARGE] == 1) & ~subtracted
        nodes = [built[small, s.JOB_SMALL], built[large, s.JOB_LARGE]]
        slots = [built[small, s.JOB_SMALL_SLOT], built[large, s.JOB_LARGE_SLOT]]
        building = self._building_of(np.concatenate(nodes), np.concatenate(slots))
        columns = sorted({*table[parents, s.NODE_COLUMN].tolist()})
        uses = Uses(len(building.nodes) > 0, columns)
        self._pass(parents, building, uses, self._chunks_with(parents))
        self._close(jobs)

    def _pass(
        self, parents: IntArray, building: passes.Building, uses: Uses, numbers: list[int] | None
    ) -> None:
        """Visit chunks (default: all): rows of the parents, histograms of the builds."""
        self._n_passes += 1
        state, where = self._state, np.zeros(passes.WHERE_FIELDS, dtype=np.int64)
        plan = (state, parents, self._segments, building, where)
        for chunk in self._store.chunks(numbers, uses):
            passes.write_bins(chunk, int(state.team.n_threads), where)
            self._team.run(passes.visit_chunk, *plan)
        if len(building.nodes) == 0:
            return
        self._team.run(passes.end_builds, state, building)
        if self._exchange.adds:
            self._add_ranks(building)

    # -- histograms ---------------------------------------------------------------------

    def _building_of(self, nodes: IntArray, slots: IntArray) -> passes.Building:
        """Return the plan to build the histograms of some nodes."""
        columns = (0, self._n_columns) if self._exchange.adds else self._block
        return self._space.plan(nodes, slots, columns, int(self._state.level.before))

    def _add_ranks(self, building: passes.Building) -> None:
        """Write the sums of all ranks to the slots of the nodes that were built."""
        exchange, state, stride = self._exchange, self._state, int(self._state.bins.stride)
        # Beside the number of rows, in its lowest bits, a word has room for most sums of g.
        n_bits = self.n_rows.bit_length()
        if QUANTIZED_BITS - int(state.scalars[s.IS_DROPPED_BITS]) + 2 * n_bits > 62:
            n_bits = 0
        n_fields = 1 + int(n_bits == 0) + int(state.settings.constant_hessian == 0)
        if state.vectors.used == 1:
            n_fields = 1 + self._space.width // 2
        cells = len(building.nodes) * n_fields * stride
        part, n_parts = exchange.share
        starts = self._n_columns * np.arange(n_parts + 1, dtype=np.int64) // n_parts * cells
        length, own = int(starts[-1]), int(starts[part + 1] - starts[part])
        if length + own > len(self._message):  # reuse is faster than new memory
            self._message = np.empty(2 * (length + own), dtype=np.int64)
        message, out = self._message[:length], self._message[length : length + own]
        form = (n_fields, n_bits)
        self._team.run(node_stages.write_message, state, building, form, n_parts, message)
        span = np.ascontiguousarray(exchange.histograms(message, starts, out))
        slots = state.tree.table[building.nodes, s.NODE_SLOT]
        self._team.run(node_stages.read_message, state, self._block, form, span, slots)

    def _close(self, jobs: IntArray) -> None:
        """Find the best splits of the children in the block of columns, then of all ranks."""
        state = self._state
        searched = jobs[:, [s.JOB_SEARCH_SMALL, s.JOB_SEARCH_LARGE]] == 1
        found = np.zeros((len(jobs), 2, s.FOUND_FIELDS), dtype=np.int64)
        if searched.any():
            self._team.run(node_stages.search_jobs, state, self._block, jobs, found)
            found = self._exchange.splits(found)
        else:
            found = found[:, None]
        node_stages.commit_splits(state, jobs, found)

    # -- the end ------------------------------------------------------------------------

    def _number_nodes(self) -> int:
        """Put the nodes that the tree takes where growth in memory does; rows split in vain."""
        state, found, left = self._state, self._found, self._left
        table, n_nodes = state.tree.table, len(found)
        counts = table[: state.scalars[s.IS_N_NODES], s.NODE_COUNT]
        split = table[: len(counts), s.NODE_LEFT] > 0
        wasted = int(counts[split].sum() - counts[found[left > 0]].sum())
        self._split_in_vain = split[found] & (left == 0)
        constraints, inner = state.options.constraints, np.flatnonzero(left)
        for array in (table, state.tree.numbers, constraints.bounds):
            array[:n_nodes] = array[found]
        table[:n_nodes, s.NODE_LEFT] = left
        table[:n_nodes, s.NODE_RIGHT] = np.where(left > 0, left + 1, 0)
        for side in range(2):
            constraints.parent[left[inner] + side] = inner
        state.scalars[s.IS_N_NODES] = n_nodes
        return wasted

    def _set_values(self) -> None:
        """Compute values and covers of the nodes, and add those of the leaves to the scores."""
        state, n_parts = self._state, self._n_vectors
        n_nodes = int(state.scalars[s.IS_N_NODES])
        leaves = np.flatnonzero(self._left == 0)
        found = self._found[leaves]
        sums = np.zeros((n_parts, 1, 2, n_nodes), dtype=np.int64)
        if n_parts > 1 or state.scalars[s.IS_DROPPED_BITS] > 0:
            own = np.zeros((n_parts, state.team.n_threads, len(leaves), 2), dtype=np.int64)
            self._team.run(row_stages.sum_leaves, state, self._segments, found, own)
            of_leaves = self._exchange.sums(own.sum(axis=1))
            sums[:, 0, :, leaves] = of_leaves.transpose(1, 0, 2)
        else:  # histograms hold exact sums
            sums[0, 0] = state.tree.table[:n_nodes, [s.NODE_G, s.NODE_H]].T
        self._team.run(row_stages.add_values, state, self._segments, found, leaves, sums)


class SymmetricChunkGrower(ChunkGrower):
    """A :class:`ChunkGrower` of symmetric trees.

    A level is the batch of one pass over the chunks (of several, where not all histograms can be
    built in one).  Every rank adds up the gains of the cuts of its columns over the nodes of the
    level; the best cut of all ranks is taken.

    Raises
    ------
    AllRowsNeededError
        If the histograms of a level are too large to be kept.
    """

    def _make_state(self, fit: setup.Fit) -> s.State:
        state = super()._make_state(fit)
        most, size = int(state.settings.max_leaves), int(state.level.slot_size)
        depth = 41 if fit.params.max_depth is None else fit.params.max_depth
        needed = min(most, 1 << min(max(depth, 1) - 1, 40))
        if needed > self._space.n_slots:
            raise AllRowsNeededError(
                f"grow_policy='symmetric' with max_depth={fit.params.max_depth} keeps up to "
                f"{needed:,} histograms, and for {self._store.spec.n_features:,} columns "
                f"{self._space.n_slots:,} can "
                "be kept while rows are read in parts: use a lower max_depth, fewer columns or "
                "fewer bins (max_bins)."
            )
        self._n_divided = 0  # jobs of the batch whose rows are divided
        return state._replace(
            tree=state.tree._replace(batch=setup.make_batch(most)),
            level=setup.make_level(self._store.spec, state.options, fit.n_threads, most, size),
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
        stop = min(self._n_divided + self._space.n_builds, n_jobs)
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
            # The best cut in the block of columns, then of all ranks.
            state, found = self._state, np.zeros((1, 1, s.FOUND_FIELDS), dtype=np.int64)
            self._team.run(node_stages.search_chunk_level, state, self._block, found[0, 0])
            node_stages.choose_level(state, self._block, self._exchange.splits(found)[0])
            if self._state.level.choice[s.FOUND_FEATURE] >= 0:
                self._measure()
            node_stages.next_level(self._state, 0)
            self._n_divided = 0
            if len(self._parents()) > 0:
                return

    def _close_root(self) -> None:
        node_stages.next_level(self._state, 1)
        self._n_divided = 0
        self._close(self._state.tree.batch[:1])

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


def _columns_of(chosen: AnyArray, per_tile: int) -> Columns:
    """Return the numbers of the columns; chunks have a byte for each."""
    return Columns(chosen, chosen % np.int32(per_tile), unused(Pairs))
