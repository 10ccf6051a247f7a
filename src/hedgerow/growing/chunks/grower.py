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
has levels, and two.  Passes read bins only: targets, scores and gradients of all rows are in memory
(:mod:`hedgerow.growing.chunks.work`), so a stage that needs no bins visits no chunk of the store.

All sums are whole numbers and all random draws are keyed by the number of the row or the
place in the tree, so chunks, threads and ranks leave no trace: the trees are, bit for bit,
those of :class:`hedgerow.growing.core.grower.TreeGrower`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from hedgerow.arrays import FloatArray, IntArray, RowArray, aligned_empty, aligned_zeros, distinct
from hedgerow.comm.base import Alone, Communicator
from hedgerow.data.binning.matrix import tile_shape
from hedgerow.data.external.row_store import ROWS_ONLY, ChunkStore, Uses
from hedgerow.growing.chunks.exchange import (
    OF_SUMS,
    Exchange,
    GrowMode,
    gather_counts,
    sums_of_parts,
)
from hedgerow.growing.chunks.levels import LevelTree
from hedgerow.growing.chunks.sampling import find_choice
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
from hedgerow.growing.chunks.work import ChunkWork, make_work
from hedgerow.growing.core import state as layout
from hedgerow.growing.core.setup import Fit, has_constant_hessian, most_leaves, settings_of
from hedgerow.growing.core.slopes import LineLimits
from hedgerow.growing.core.stages.gradients import BLOCK
from hedgerow.growing.core.tree import GrownTree
from hedgerow.growing.sampling.goss import follows_gradients, make_sampler
from hedgerow.objectives.derivatives import PRECOMPUTED, SOFTMAX, LossData
from hedgerow.objectives.precomputed import check_curvature
from hedgerow.params import FIRST_ORDER


class ChunkGrower:
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
    n_copies : int, default=1
        As for ``TreeGrower``.
    n_vectors : int, default=1
        Outputs of a tree: 1, or all of them for trees with vectors in their leaves.
    communicator : Communicator, optional
        The other ranks; default: there are none.
    mode : {"data", "features"}, default="data"
        What is divided between ranks.  ``"data"``: each has its own rows.
        ``"features"``: each has all rows and builds the histograms of some columns.
    first_row : int, default=0
        Number of rows of lower ranks.
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
        store: ChunkStore,
        fit: Fit,
        adds_scores: bool = True,
        n_copies: int = 1,
        n_vectors: int = 1,
        communicator: Communicator | None = None,
        mode: GrowMode = "data",
        first_row: int = 0,
        spaces: Spaces | None = None,
    ) -> None:
        objective, params, n_threads = fit.objective, fit.params, fit.n_threads
        self._store, self._fit, self._first_row = store, fit, first_row
        self._adds_scores = adds_scores
        assert not (adds_scores and params.linear_leaves)
        self._n_parts, self._by_gradient = n_vectors, follows_gradients(params)
        self._weighs_sample = weighs_rows(params, n_vectors)
        self._exchange = Exchange(Alone() if communicator is None else communicator, mode)
        spec, weighted = store.spec, fit.weight is not None
        self._stride, self._per_tile = spec.stride, tile_shape(spec.n_features)[1]
        self._n_bins = spec.bin_counts.astype(np.int32)
        facts = greet(self._exchange, store, params, n_threads, n_vectors, weighted)
        self.n_rows = facts.n_rows
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
        self._work = make_work(store, objective, params, n_vectors)
        self._scratch = np.empty(max(store.chunk_sizes, default=0), dtype=np.uint32)
        self._sums = aligned_zeros((n_threads, SUMS), np.int64)
        self._addresses = ChunkAddresses(n_threads)
        # Rows of this rank without weights have weight 1 if others have weights.
        self._weight = np.zeros(0)
        if facts.weighted:
            self._weight = np.ones(store.n_rows) if fit.weight is None else fit.weight
        # RowDerivatives checks hessians of its own rows; here those of all ranks are checked.
        self._derivatives = replace(fit.derivatives(), newton=False)
        n_prepared = 0
        if objective.kernel_id == PRECOMPUTED:
            holds_all = n_vectors > 1 or objective.coupled
            n_prepared = 2 * objective.n_outputs if holds_all else 2
        self._prepared = LossData(
            target=np.zeros(0),
            weight=self._weight,
            raw=fit.raw,
            probability=store.row_array((n_prepared, store.n_rows), np.float64),
            level=float(objective.level),
        )
        self._segments = np.zeros((64, n_threads * len(store.chunk_sizes), 2), dtype=np.int32)
        self._sampler = make_sampler(params, 0, n_threads, packs=n_vectors == 1)
        self._slopes: ChunkSlopes | None = None
        if params.linear_leaves:
            limits = LineLimits.of(spec, params, objective)
            of_leaves = self._rows_in_order, self._chunks_of_leaves
            self._slopes = ChunkSlopes(
                store, self._work, limits, self._exchange, n_threads, *of_leaves
            )
        self._n_passes = 0
        self.traffic: list[Traffic] = []

    @property
    def raw(self) -> FloatArray:
        """Raw scores of the rows, (n_outputs, n_rows)."""
        return self._fit.raw

    def set_rate(self, rate: float) -> None:
        """Set the factor on the values of the trees to come."""
        self._nodes.set_rate(rate)

    def grow(self, tree: int, output: int) -> GrownTree:
        """Grow tree number ``tree`` for ``output``, or with vectors for all outputs."""
        # The raw scores of its rows are updated if ``adds_scores``.
        passes_before, sent_before, traffic = self._n_passes, self._exchange.sent, Traffic()
        self.traffic.append(traffic)
        n_in_turn = self._fit.objective.n_outputs // self._n_parts
        number = self._tree.begin(tree, output, n_in_turn)
        self._prepare(output, number // self._fit.params.num_parallel_tree)
        traffic.redone = self._start_tree(output)
        for parents, is_full in self._tree.batches():
            self._split(parents, is_full)
            traffic.splits += len(parents)
        grown = self._tree.finish(self._leaf_sums() if self._tree.is_rounded else None)
        grown = self._with_slopes(grown)
        if self._adds_scores:
            self._add_values(grown, output)
        traffic.passes = self._n_passes - passes_before
        traffic.wasted_rows = self._nodes.n_rows_split_unused()
        traffic.sent = self._exchange.sent - sent_before
        return grown

    def rows_outside(self) -> RowArray:
        """Return the rows of this rank that the last tree was not grown on, ascending."""
        return rows_outside(self._work, self._segments, self._team.n_threads)

    def row_weights(self, rows: RowArray) -> FloatArray | None:
        """Return the weights of some sampled rows in the last tree, or None if all are equal."""
        if not self._weighs_sample:
            return None
        weights = np.concatenate([np.zeros(0), *(work.weights for work in self._work)])
        return np.asarray(weights[rows])

    def leaf_segments(self) -> tuple[RowArray, IntArray, IntArray]:
        """Return the rows of this rank by leaf of the last tree: rows, leaves, starts."""
        # As :func:`hedgerow.growing.core.setup.segments_of`, but the leaves are in the order of
        # their nodes, and of several ranks some may have leaves without rows.
        leaves = self._nodes.leaves
        parts, counts = [np.zeros(0, dtype=np.uint32)], [np.zeros(len(leaves), dtype=np.int64)]
        for work in self._work:
            rows, starts = self._rows_in_order(work, leaves)
            parts.append(rows + np.uint32(work.place.start))
            counts.append(np.diff(starts))
        leaf = np.concatenate([np.repeat(np.arange(len(leaves)), count) for count in counts])
        rows = np.concatenate(parts)[np.argsort(leaf, kind="stable")]
        return rows, leaves, np.concatenate(([0], np.cumsum(np.sum(counts, axis=0))))

    def close(self) -> None:
        """End the helpers; the grower must not be used afterwards.  The store stays open."""
        self._team.close()

    # -- what a tree takes from its rows ------------------------------------------------

    def _prepare(self, output: int, round_: int) -> None:
        """Compute derivatives of all rows, if the loss computes them before the tree."""
        loss = self._derivatives.objective
        if loss.kernel_id != PRECOMPUTED:
            return
        if self._n_parts > 1:
            self._derivatives.fill_all(self._prepared, round_)
        else:
            self._derivatives.fill(self._prepared, output, round_)
        # Only a user's loss may have no positive h in any row.
        newton = self._fit.params.leaf_estimation not in FIRST_ORDER
        if newton and hasattr(loss, "label"):
            largest = self._prepared.probability[1::2].max(axis=1, initial=0.0)
            # Bit patterns of floats >= 0 sort like the floats.
            bits = self._exchange.measures(largest.view(np.int64)).max(axis=0)
            check_curvature(loss, float(bits.view(np.float64).min()))

    def _loss_data(self, work: ChunkWork, output: int) -> LossData:
        """Return the inputs of the loss of a chunk's rows, for the gradients of an output."""
        rows, objective = work.place, self._fit.objective
        target, raw, probability = self._fit.target, self._fit.raw, work.probability
        target = target[rows] if target.ndim == 1 else target[rows, output]
        if objective.kernel_id == PRECOMPUTED:
            first = 2 * output if len(self._prepared.probability) > 2 else 0
            probability = np.ascontiguousarray(self._prepared.probability[first : first + 2, rows])
        elif len(raw) > 1 and not (objective.kernel_id == SOFTMAX and output > 0):
            # Softmax reads the scores for its first output only.
            raw = np.ascontiguousarray(raw[:, rows])
        return self._prepared._replace(
            target=target,
            weight=self._weight[rows],
            raw=raw[:, rows] if len(raw) == 1 else raw,
            probability=probability,
        )

    def _add_values(self, tree: GrownTree, output: int) -> None:
        """Add the values of the last tree to the raw scores of its rows, which stand by leaf."""
        leaves, outputs = tree.left == 0, [(output, tree.value)]
        if tree.vectors is not None:
            outputs = list(enumerate(tree.vectors.T))
        where = self._team.where
        where[passes.OUTPUT] = 0
        for number, values in outputs:

            def name_scores(work: ChunkWork, lead: Lead, number: int = number) -> None:
                raw = self._fit.raw[number : number + 1, work.place]
                self._addresses.write_scores(raw, where)

            plan = self._plan()._replace(
                leaves=self._nodes.found_leaves, values=np.ascontiguousarray(values[leaves])[None]
            )
            self._pass(plan, None, (passes.ADD_VALUES,), name_scores)

    # -- linear leaves ------------------------------------------------------------------

    def _with_slopes(self, tree: GrownTree) -> GrownTree:
        """Return the last tree, with linear leaves if requested."""
        if self._slopes is None:
            return tree
        rate = float(self._nodes.settings.learning_rate)
        outputs = self._tree.line_outputs(tree)
        return tree.with_slopes(self._slopes.slopes(self._tree.table, rate, outputs))

    def _rows_in_order(self, work: ChunkWork, leaves: IntArray) -> tuple[RowArray, IntArray]:
        """Return sorted rows of some leaves of the last tree in a chunk, and leaf starts."""
        found = self._nodes.found[leaves]
        rows, starts = rows_of_nodes(work, self._segments, found, self._team.n_threads)
        # A split in vain has put the rows of a leaf in another order.
        for k in np.flatnonzero(self._nodes.table[found, layout.NODE_LEFT]):
            rows[starts[k] : starts[k + 1]].sort()
        return rows, starts

    def _chunks_of_leaves(self, leaves: IntArray) -> list[int]:
        """Return numbers of the chunks that have rows of some leaves of the last tree."""
        return chunks_with(self._segments, self._nodes.found[leaves], self._team.n_threads)

    # -- passes -------------------------------------------------------------------------

    def _pass(
        self,
        plan: passes.Plan,
        uses: Uses | None,
        orders: Sequence[int] = (),
        prepare: Callable[[ChunkWork, Lead], None] | None = None,
        numbers: Sequence[int] | None = None,
    ) -> None:
        """Visit chunks (default: all), prepare and give the orders; put histograms together."""
        # ``uses`` is what the pass reads of the store; None: only arrays of all rows.
        self._n_passes += uses is not None

        def do(work: ChunkWork, lead: Lead) -> None:
            self._addresses.write_work(work, self._team.where)
            self._nodes.scalars[layout.IS_FIRST_ROW] = self._first_row + work.place.start
            if prepare is not None:
                prepare(work, lead)
            for order in orders:
                lead(order)

        def visit(lead: Lead) -> None:
            if uses is None:
                for work in self._work:
                    do(work, lead)
                return
            for chunk in self._store.chunks(numbers, uses):
                self._addresses.write_bins(chunk.matrix, self._team.where)
                do(self._work[chunk.number], lead)
            if len(plan.building.nodes) > 0:
                lead(passes.END_BUILDS)

        self._team.run_pass(plan, self._tree.building_vectors, visit)

    def _start_tree(self, output: int) -> int:
        """Compute gradients and the root; return how many passes were done again."""
        n_redone = 0
        while True:
            building = self._tree.nothing() if self._by_gradient else self._tree.plan_root()
            of_sample = self._measure(building, output)
            if self._tree.check_units(self._counts[: self._n_parts], self.n_rows):
                break
            n_redone += len(building.nodes)  # else it has read no bins
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
            self._pass(self._plan()._replace(known=(level, prefix)), None, (passes.TALLY,))

        if self._n_parts > 1:
            self._join_outputs()
        find_choice(self._sampler, self.n_rows, self._exchange, tally, self._nodes.scalars)
        self._sums[:] = 0
        if self._n_parts > 1:
            self._counts[: self._n_parts] = 0
            self._pass(self._plan(), None, (passes.SAMPLE,))
            of_sample = self._gather_measures()
            self._check_words()
            return self._write_words(), of_sample
        building = self._tree.plan_root()
        self._pass(self._plan(building=building), ROWS_ONLY, (passes.SAMPLE, passes.VISIT))
        return building, self._exchange.measures(self._of_sample()).sum(axis=0)

    def _join_outputs(self) -> None:
        """Sum the sizes of all outputs' gradients, which scale the keys."""
        self._counts[passes.OF_SIZES] = 0
        if self._sampler.method == layout.GOSS:  # keys are the sizes
            return
        self._sums[:] = 0
        self._pass(self._plan(), None, (passes.JOIN,))
        sums = self._exchange.measures(self._sums.sum(axis=0)).sum(axis=0)
        self._counts[passes.OF_SIZES, 0, OF_SUMS] = sums[[SUM_G, SUM_H]]

    def _write_words(self) -> Building:
        """Write the words of the rows of several outputs; the root's histogram."""
        building = self._tree.plan_root()
        self._pass(self._plan(building=building), ROWS_ONLY, (passes.WRITE_WORDS, passes.VISIT))
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
        columns = distinct(table[parents, layout.NODE_COLUMN]).tolist()
        numbers = chunks_with(self._segments, parents, self._team.n_threads)
        plan = self._plan(parents, building)
        self._pass(plan, Uses(len(building.nodes) > 0, columns), (passes.VISIT,), numbers=numbers)
        self._tree.close(jobs, building)

    def _leaf_sums(self) -> IntArray:
        """Return exact sums of the rows of each leaf, of each part: int64 (parts, n_leaves, 2)."""
        leaves = self._nodes.found_leaves
        shape = (self._n_parts, self._team.n_threads, len(leaves), 2)
        sums = np.zeros(shape, dtype=np.int64)
        plan = self._plan()._replace(leaves=leaves, leaf_sums=sums)
        self._pass(plan, None, (passes.SUM_LEAVES,))
        return self._exchange.sums(sums.sum(axis=1))

    def _measure(self, building: Building, output: int) -> IntArray:
        """Compute gradients with the current units, and the root's histogram, size and sums."""
        # What all ranks have measured is in the counts then.

        def prepare(work: ChunkWork, lead: Lead) -> None:
            where = self._team.where
            for part in range(self._n_parts):
                self._addresses.write_loss(self._loss_data(work, output + part), where)
                where[passes.PART] = part
                lead(passes.START)

        self._counts[:], self._sums[:] = 0, 0
        orders = () if self._by_gradient else _OF_VECTORS if self._n_parts > 1 else _OF_ONE
        uses = ROWS_ONLY if len(building.nodes) > 0 else None
        if uses is None:
            orders = tuple(order for order in orders if order != passes.VISIT)
        self._pass(self._plan(building=building), uses, orders, prepare)
        return self._gather_measures()

    def _plan(
        self, parents: IntArray | None = None, building: Building | None = None
    ) -> passes.Plan:
        """Return the plan of a pass; by default it splits no node and builds no histogram."""
        return passes.Plan(
            settings=self._nodes.settings,
            sampler=self._sampler,
            known=(0, 0),
            level=np.float64(self._fit.objective.level),
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
            leaves=_NO_NODES,
            values=np.zeros((0, 0)),
            leaf_sums=np.zeros((0, 0, 0, 0), dtype=np.int64),
        )


_OF_ONE = (passes.DRAW, passes.VISIT)
_OF_VECTORS = (passes.DRAW, passes.WRITE_WORDS, passes.VISIT)
_NO_NODES: IntArray = np.zeros(0, dtype=np.int64)
