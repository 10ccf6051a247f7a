"""Growing trees on rows in chunks, on one process or on several: the trees of ``TreeGrower``.

The compiled loop of :mod:`hedgerow.growing.core.grow` goes from node to node and to the rows of
each.  Here a pass goes from chunk to chunk and does the work of many nodes in each::

    pass 0      gradients, row sample, histogram of the root
                -> units and packing checked; if they have changed, once more
    pass k      divide the rows of the nodes that are split, build the histogram of
                the smaller child of each
                -> sums of all ranks, larger children by subtraction, best splits
    until the tree is known
    last pass   exact sums of the leaves for their values, where histograms are rounded

Which nodes are split in a pass: :mod:`hedgerow.growing.speculative.tree`, and in symmetric trees
those of a level (:mod:`hedgerow.growing.chunks.levels`).  A tree takes about as many passes as it
has levels, and two.  Its values are added to the scores when chunks are next visited, for the
gradients of the next tree.

All sums are whole numbers and all random draws are keyed by the number of the row or the
place in the tree, so chunks, threads and ranks leave no trace: the trees are, bit for bit,
those of :class:`hedgerow.growing.core.grower.TreeGrower`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from hedgerow.arrays import FloatArray, IntArray, RowArray, aligned_empty, aligned_zeros, distinct
from hedgerow.comm.base import Alone, Communicator
from hedgerow.data.binning.matrix import tile_shape
from hedgerow.data.external.row_store import Chunk, RowStore, Uses
from hedgerow.growing.chunks.exchange import (
    OF_SUMS,
    Exchange,
    GrowMode,
    gather_counts,
    sums_of_parts,
)
from hedgerow.growing.chunks.gradients import ChunkGradients, CrossRowGradients
from hedgerow.growing.chunks.levels import LevelTree
from hedgerow.growing.chunks.sampling import find_choice
from hedgerow.growing.chunks.scores import PendingChanges
from hedgerow.growing.chunks.segments import chunks_with, rows_of_nodes, rows_outside, with_room
from hedgerow.growing.chunks.setup import Traffic, greet, sizes_for
from hedgerow.growing.chunks.slopes import ChunkSlopes
from hedgerow.growing.chunks.space import Spaces
from hedgerow.growing.chunks.stages import passes
from hedgerow.growing.chunks.stages.addresses import ChunkAddresses
from hedgerow.growing.chunks.stages.rows import SUM_G, SUM_H, SUMS, Building
from hedgerow.growing.chunks.stages.team import ChunkTeam, Lead
from hedgerow.growing.chunks.tree import ChunkTree
from hedgerow.growing.chunks.vectors import weighs_rows
from hedgerow.growing.core import state as layout
from hedgerow.growing.core.setup import has_constant_hessian, most_leaves, settings_of
from hedgerow.growing.core.slopes import LineLimits
from hedgerow.growing.core.stages.gradients import BLOCK
from hedgerow.growing.core.tree import GrownTree
from hedgerow.growing.sampling.goss import follows_gradients, make_sampler
from hedgerow.objectives.base import Objective
from hedgerow.objectives.derivatives import SOFTMAX
from hedgerow.params import FIRST_ORDER, BoostParams

Visit = Callable[[Chunk], None]


class ChunkGrower:
    """Grows the trees of one fit on the chunks of a store.

    Parameters
    ----------
    store : RowStore
        It has begun a fit with :func:`~hedgerow.growing.chunks.setup.work_of`.
    objective : Objective
    params : BoostParams
        Resolved, as for :class:`hedgerow.growing.core.grower.TreeGrower`.
    n_threads : int, default=1
        Helpers are started at once; :meth:`close` ends them.
    communicator : Communicator, optional
        The other ranks; default: there are none.
    mode : {"data", "features"}, default="data"
        What is divided between ranks.  ``"data"``: each has its own rows.
        ``"features"``: each has all rows and builds the histograms of some columns.
    adds_scores : bool, default=True
        Add each tree to the raw scores, see :meth:`update_scores`.  False: the caller does
        (:meth:`add`).
    n_copies : int, default=1
        As for ``TreeGrower``.
    cross_row : CrossRowGradients, optional
        Computes the gradients of a loss that compares rows.
    n_vectors : int, default=1
        Outputs of a tree: 1, or all of them for trees with vectors in their leaves.
    spaces : Spaces, optional
        Memory for histograms that other growers use in turn.

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
        cross_row: CrossRowGradients | None = None,
        n_vectors: int = 1,
        spaces: Spaces | None = None,
    ) -> None:
        self._store, self._objective, self._adds_scores = store, objective, adds_scores
        self._n_parts, self._by_gradient = n_vectors, follows_gradients(params)
        self._weighs_sample = weighs_rows(params, n_vectors)
        self._exchange = Exchange(Alone() if communicator is None else communicator, mode)
        spec = store.spec
        self._stride, self._per_tile = spec.stride, tile_shape(spec.n_features)[1]
        self._n_bins = spec.bin_counts.astype(np.int32)
        self._n_parallel = params.num_parallel_tree
        facts = greet(self._exchange, store, params, n_threads, n_vectors)
        self.n_rows, self._weighted = facts.n_rows, facts.weighted
        most = most_leaves(params, self.n_rows)
        constant = has_constant_hessian(objective, np.ones(0) if facts.weighted else None, params)
        sizes = sizes_for(facts, self._exchange, spec, params, n_threads, most, n_vectors, constant)
        settings = settings_of(
            params, objective, self.n_rows, spec.n_features, most, constant, sizes.n_slots
        )
        settings = settings._replace(packs_all=settings.packs_all if n_vectors == 1 else 0)
        self._team = team = ChunkTeam(n_threads)
        space = (spaces or Spaces()).of(sizes, n_threads)
        grown = LevelTree if params.grow_policy == "symmetric" else ChunkTree
        self._tree = grown(spec, params, settings, space, self._exchange, team, n_copies, n_vectors)
        self._nodes = self._tree.nodes
        self._blocks = aligned_empty((n_threads, 2, BLOCK), np.float64)
        n_counts = 1 if n_vectors == 1 else n_vectors + 2
        self._counts = aligned_zeros((n_counts, n_threads, layout.COUNTS), np.int64)
        most_rows = max(store.chunk_sizes, default=0)
        self._scratch = np.empty(most_rows, dtype=np.uint32)
        self._sums = aligned_zeros((n_threads, SUMS), np.int64)
        self._addresses = ChunkAddresses(n_threads)
        newton = params.leaf_estimation not in FIRST_ORDER
        self._gradients = ChunkGradients(objective, newton, most_rows, n_threads, cross_row)
        self._segments = np.zeros((64, n_threads * len(store.chunk_sizes), 2), dtype=np.int32)
        self._sampler = make_sampler(params, 0, n_threads, packs=n_vectors == 1)
        is_sampled = self._nodes.settings.subsample < 1.0
        self._pending = PendingChanges(team.n_threads, is_sampled)
        self._slopes: ChunkSlopes | None = None
        if params.linear_leaves:
            limits = LineLimits.of(spec, params, objective)
            of_leaves = self._rows_in_order, self._chunks_of_leaves
            self._slopes = ChunkSlopes(store, limits, self._exchange, n_threads, *of_leaves)
        self._n_passes = 0
        self.traffic: list[Traffic] = []

    def start(self, base: FloatArray) -> None:
        """Set every raw score to ``base[output]``, plus the row's offset if it has one.

        Done when chunks are next visited, as :meth:`add` is.
        """
        self._pending.restart(base)

    def set_rate(self, rate: float) -> None:
        """Set the factor on the values of the trees to come."""
        self._nodes.set_rate(rate)

    def grow(self, tree: int, output: int) -> GrownTree:
        """Grow tree number ``tree`` on the gradients at the raw scores.

        It is for ``output``, or with vectors for all outputs.
        """
        passes_before, sent_before, traffic = self._n_passes, self._exchange.sent, Traffic()
        self.traffic.append(traffic)
        n_in_turn = self._objective.n_outputs // self._n_parts
        round_ = self._tree.begin(tree, output, n_in_turn) // self._n_parallel
        cross_row = self._gradients.cross_row
        if cross_row is not None:
            self.update_scores(after=cross_row.collect)
            cross_row.fill(output, round_)
        traffic.redone = self._start_tree(output, round_)
        for parents, is_full in self._tree.batches():
            self._split(parents, is_full)
            traffic.splits += len(parents)
        grown = self._tree.finish(self._leaf_sums() if self._tree.is_rounded else None)
        grown = self._with_slopes(grown)
        if self._adds_scores:
            self._pending.add_last(grown, output, self._nodes.found_leaves)
        traffic.passes = self._n_passes - passes_before
        traffic.wasted_rows = self._nodes.n_rows_split_unused()
        traffic.sent = self._exchange.sent - sent_before
        return grown

    def add(self, tree: GrownTree, output: int) -> None:
        """Add the values of a tree, any tree, to the raw scores of all rows.

        Done when chunks are next visited: by :meth:`grow`, in the pass that computes
        gradients, or by :meth:`update_scores`.
        """
        self._pending.add(tree, output)

    def update_scores(self, before: Visit | None = None, after: Visit | None = None) -> None:
        """Bring the raw scores up to date, in one pass over the chunks if one is needed."""
        if not self._pending.changes and before is None and after is None:
            return

        def update(chunk: Chunk, lead: Lead) -> None:
            if before is not None:
                before(chunk)
            self._apply_pending(chunk, lead)
            if after is not None:
                after(chunk)

        self._pass(self._plan(), self._pending.uses(), prepare=update)
        self._pending.clear()

    def rows_outside(self, chunk: Chunk) -> RowArray:
        """Return places in the chunk of the rows that the last tree was not grown on."""
        return rows_outside(chunk, self._segments, self._team.n_threads)

    def row_weights(self, chunk: Chunk, rows: RowArray) -> FloatArray | None:
        """Return the weights of some sampled rows of a chunk in the last tree, or None if equal."""
        return chunk.work.weights[rows] if self._weighs_sample else None

    def leaf_segments(self, chunk: Chunk) -> tuple[RowArray, IntArray, IntArray]:
        """Return the chunk's rows by leaf of the last tree: rows, leaves, starts.

        As :func:`hedgerow.growing.core.setup.segments_of`, but leaves without a row in the
        chunk are there too, with two equal starts.  The rows of a leaf are ascending.
        """
        leaves = self._nodes.leaves
        rows, starts = self._rows_in_order(chunk, leaves)
        return rows, leaves, starts

    def close(self) -> None:
        """End the helpers; the grower must not be used afterwards.  The store stays open."""
        self._team.close()

    # -- linear leaves ------------------------------------------------------------------

    def _with_slopes(self, tree: GrownTree) -> GrownTree:
        """Return the last tree, with linear leaves if requested."""
        if self._slopes is None:
            return tree
        rate = float(self._nodes.settings.learning_rate)
        outputs = self._tree.line_outputs(tree)
        return tree.with_slopes(self._slopes.slopes(self._tree.table, rate, outputs))

    def _rows_in_order(self, chunk: Chunk, leaves: IntArray) -> tuple[RowArray, IntArray]:
        """Return sorted rows of some leaves of the last tree in a chunk, and leaf starts."""
        found = self._nodes.found[leaves]
        rows, starts = rows_of_nodes(chunk, self._segments, found, self._team.n_threads)
        # A split in vain has put the rows of a leaf in another order.
        for k in np.flatnonzero(self._nodes.table[found, layout.NODE_LEFT]):
            rows[starts[k] : starts[k + 1]].sort()
        return rows, starts

    def _apply_pending(self, chunk: Chunk, lead: Lead) -> None:
        self._pending.apply(chunk, self._segments, self._team.where, lead)

    # -- passes -------------------------------------------------------------------------

    def _pass(
        self,
        plan: passes.Plan,
        uses: Uses,
        orders: Sequence[int] = (),
        prepare: Callable[[Chunk, Lead], None] | None = None,
        numbers: Sequence[int] | None = None,
    ) -> None:
        """Visit chunks (default: all): prepare each and give the orders for it.

        The histograms of the plan are put together at the end.
        """
        self._n_passes += 1

        def visit(lead: Lead) -> None:
            for chunk in self._store.chunks(numbers, uses):
                self._addresses.write(chunk, self._team.where)
                self._nodes.scalars[layout.IS_FIRST_ROW] = chunk.first_row
                if prepare is not None:
                    prepare(chunk, lead)
                for order in orders:
                    lead(order)
            if len(plan.building.nodes) > 0:
                lead(passes.END_BUILDS)

        self._team.run_pass(plan, self._tree.building_vectors, visit)

    def _start_tree(self, output: int, round_: int) -> int:
        """Compute gradients and the root; return how often gradients were computed again."""
        n_redone = 0
        while True:
            building = self._tree.nothing() if self._by_gradient else self._tree.plan_root()
            of_sample = self._measure(building, output, round_)
            self._pending.clear()
            if self._tree.check_units(self._counts[: self._n_parts], self.n_rows):
                break
            n_redone += 1
        known = self._check_words()
        if self._by_gradient:
            building, of_sample = self._sample()
        elif not known:
            building = self._write_words()
        self._tree.open_root(int(of_sample[0]), of_sample[1:], building)
        return n_redone

    def _sample(self) -> tuple[Building, IntArray]:
        """Choose rows by their gradients: the root's histogram, rows and sums, of all ranks."""

        def tally(level: int, prefix: int) -> None:
            self._pass(self._plan()._replace(known=(level, prefix)), _TALLY, (passes.TALLY,))

        if self._n_parts > 1:
            self._join_outputs()
        find_choice(self._sampler, self.n_rows, self._exchange, tally, self._nodes.scalars)
        self._sums[:] = 0
        if self._n_parts > 1:
            self._counts[: self._n_parts] = 0
            self._pass(self._plan(), _CHOSEN, (passes.SAMPLE,))
            of_sample = self._gather_measures()
            self._check_words()
            return self._write_words(), of_sample
        building = self._tree.plan_root()
        writes = ("quantized", "packed", "rows", "weights")
        uses = Uses(True, (), ("quantized",), writes, self._tree.packed_words)
        self._pass(self._plan(building=building), uses, (passes.SAMPLE, passes.VISIT))
        return building, self._exchange.measures(self._of_sample()).sum(axis=0)

    def _join_outputs(self) -> None:
        """Sum the sizes of all outputs' gradients, which scale the keys."""
        self._counts[passes.OF_SIZES] = 0
        if self._sampler.method == layout.GOSS:  # keys are the sizes
            return
        self._sums[:] = 0
        self._pass(self._plan(), _TALLY, (passes.JOIN,))
        sums = self._exchange.measures(self._sums.sum(axis=0)).sum(axis=0)
        self._counts[passes.OF_SIZES, 0, OF_SUMS] = sums[[SUM_G, SUM_H]]

    def _write_words(self) -> Building:
        """Write the words of the rows of several outputs; the root's histogram."""
        building, reads = self._tree.plan_root(), ("quantized", "rows")
        uses = Uses(True, (), reads, ("packed",), self._tree.packed_words)
        self._pass(self._plan(building=building), uses, (passes.WRITE_WORDS, passes.VISIT))
        return building

    def _gather_measures(self) -> IntArray:
        """Sum the measures of all ranks into the counts; return the root's number and sums."""
        return gather_counts(self._exchange, self._counts[: self._n_parts], self._of_sample())

    def _check_words(self) -> bool:
        sums = sums_of_parts(self._counts[: self._n_parts])
        return self._tree.check_words(sums, self.n_rows)

    def _of_sample(self) -> IntArray:
        """Return the number and sums of the rows of the root on this rank."""
        n_inside = self._segments[0, :, 1].sum(dtype=np.int64)
        return np.concatenate(([n_inside], self._sums.sum(axis=0))).astype(np.int64)

    def _split(self, parents: IntArray, is_full: bool) -> None:
        """Divide the rows of the nodes, find the best splits of their children."""
        jobs, building = self._tree.open(parents, is_full)
        table = self._nodes.table
        children = table[parents][:, [layout.NODE_LEFT, layout.NODE_RIGHT]]
        self._segments = with_room(self._segments, self._nodes.n_nodes, children.reshape(-1))
        builds = len(building.nodes) > 0
        columns = distinct(table[parents, layout.NODE_COLUMN]).tolist()
        reads = ("rows", "packed") if builds else ("rows",)
        uses = Uses(builds, columns, reads, ("rows",), self._tree.packed_words)
        numbers = chunks_with(self._segments, parents, self._team.n_threads)
        plan = self._plan(parents, building)
        self._pass(plan, uses, (passes.VISIT,), numbers=numbers)
        self._tree.close(jobs, building)

    def _leaf_sums(self) -> IntArray:
        """Return exact sums of the rows of each leaf, of each part: int64 (parts, n_leaves, 2)."""
        leaves = self._nodes.found_leaves
        shape = (self._n_parts, self._team.n_threads, len(leaves), 2)
        sums = np.zeros(shape, dtype=np.int64)
        plan = self._plan()._replace(leaves=leaves, leaf_sums=sums)
        self._pass(plan, _LEAF_SUMS, (passes.SUM_LEAVES,))
        return self._exchange.sums(sums.sum(axis=1))

    def _measure(self, building: Building, output: int, round_: int) -> IntArray:
        """Compute gradients with the current units, and the root's histogram, size and sums.

        What all ranks have measured is in the counts then.
        """
        outputs = range(output, output + self._n_parts)

        def prepare(chunk: Chunk, lead: Lead) -> None:
            self._apply_pending(chunk, lead)
            where = self._team.where
            for part, of_part in enumerate(outputs):
                precomputed = self._gradients.probability(chunk, of_part, round_)
                target = chunk.target_of(of_part)
                self._addresses.write_loss(chunk, target, precomputed, self._weighted, where)
                where[passes.PART] = part
                lead(passes.START)

        self._counts[:], self._sums[:] = 0, 0
        self._gradients.begin(outputs)
        orders = () if self._by_gradient else _OF_VECTORS if self._n_parts > 1 else _OF_ONE
        self._pass(self._plan(building=building), self._uses_of_start(), orders, prepare)
        self._gradients.finish(self._exchange)
        return self._gather_measures()

    def _uses_of_start(self) -> Uses:
        """Return the arrays that the gradient pass reads and writes."""
        probability = ""
        if self._nodes.settings.loss == SOFTMAX and self._n_parts == 1:
            probability = "read" if self._nodes.scalars[layout.IS_OUTPUT] > 0 else "written"
        words = self._tree.packed_words
        return self._pending.uses_of_gradients(not self._by_gradient, words, probability)

    def _plan(
        self, parents: IntArray | None = None, building: Building | None = None
    ) -> passes.Plan:
        """Return the plan of a pass; by default it splits no node and builds no histogram."""
        added = self._pending.leaves
        leaves, values = _NO_NODES, np.zeros((0, 0))
        if added is not None:
            leaves, values = added.found, added.values()
        return passes.Plan(
            settings=self._nodes.settings,
            sampler=self._sampler,
            known=(0, 0),
            level=np.float64(self._objective.level),
            scratch=self._scratch,
            n_bins=self._n_bins,
            shape=(self._stride, self._per_tile),
            blocks=self._blocks,
            counts=self._counts,
            scalars=self._tree.scalars,
            segments=self._segments,
            sums=self._sums,
            columns=self._tree.columns,
            table=self._nodes.table,
            parents=_NO_NODES if parents is None else parents,
            building=self._tree.nothing() if building is None else building,
            leaves=leaves,
            values=values,
            leaf_sums=np.zeros((0, 0, 0, 0), dtype=np.int64),
        )

    def _chunks_of_leaves(self, leaves: IntArray) -> list[int]:
        """Return numbers of the chunks that have rows of some leaves of the last tree."""
        return chunks_with(self._segments, self._nodes.found[leaves], self._team.n_threads)


_LEAF_SUMS = Uses(by_row=False, columns=(), reads=("quantized", "rows"), writes=())
_TALLY = Uses(by_row=False, columns=(), reads=("quantized",), writes=())
_CHOSEN = Uses(False, (), ("quantized",), ("quantized", "rows", "weights"))
_OF_ONE = (passes.DRAW, passes.VISIT)
_OF_VECTORS = (passes.DRAW, passes.WRITE_WORDS, passes.VISIT)
_NO_NODES: IntArray = np.zeros(0, dtype=np.int64)
