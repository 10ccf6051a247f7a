"""A tree that grows over chunks: what does not concern single rows.

Every rank has the same nodes and changes them in the same way; the histograms that it keeps
are those of its own block of columns.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hedgerow.arrays import IntArray
from hedgerow.data.binning.bins import BinSpec
from hedgerow.data.binning.matrix import tile_shape
from hedgerow.growing.chunks.exchange import Exchange
from hedgerow.growing.chunks.setup import columns_of, own_of
from hedgerow.growing.chunks.space import Space
from hedgerow.growing.chunks.stages import nodes as stages
from hedgerow.growing.chunks.stages.rows import SUM_G, SUM_H, SUM_PACKED_G, SUM_PACKED_H, Building
from hedgerow.growing.chunks.stages.team import ChunkTeam
from hedgerow.growing.chunks.vectors import OF_TREE, fields_found, finish_vectors, make_vectors
from hedgerow.growing.core import batch
from hedgerow.growing.core import state as layout
from hedgerow.growing.core.grower import finish_nodes, options_of
from hedgerow.growing.core.kept_nodes import copy_nodes, empty_block
from hedgerow.growing.core.slopes import LineOutput, bounds_of, unit_sizes
from hedgerow.growing.core.stages.gradients import choose_packing
from hedgerow.growing.core.tree import GrownTree
from hedgerow.growing.sampling.goss import uniform_sampler
from hedgerow.growing.speculative.tree import SpeculativeTree
from hedgerow.growing.vectors.gradients import choose_dropped
from hedgerow.growing.vectors.grower import line_outputs
from hedgerow.kernels.histograms.histogram import Bins
from hedgerow.params import BoostParams

_SPARE_NODES = 1 << 15
"""Nodes that may be looked at in vain, at most."""

_CHILD_SHARE = 0.4
"""Guess of a child's gain: histograms of nodes that are split in vain take time to build."""

_ROOT: IntArray = np.zeros(1, dtype=np.int64)


class ChunkTree:
    """The tree being grown: its nodes, and the histograms in which their splits are searched.

    Attributes
    ----------
    nodes : SpeculativeTree
    columns : Columns
        Those that the tree may use.
    table : int64 (n_nodes, NODE_FIELDS)
        Nodes of the last finished tree.
    vectors : Vectors or None
        Of trees with vectors in their leaves, with the sums in which splits are searched.
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
        self._spec, self._exchange, self._team = spec, exchange, team
        self._space = space
        n_columns, max_leaves = spec.n_features, int(settings.max_leaves)
        self._n_columns, self._stride = n_columns, spec.stride
        self._n_copies = n_copies
        max_nodes = 2 * max_leaves + min(6 * max_leaves, _SPARE_NODES)
        sampler = uniform_sampler()
        options = options_of(spec, params, team.n_threads, max_nodes, n_copies, sampler)
        self.nodes = SpeculativeTree(params, settings, options, max_nodes, _CHILD_SHARE)
        self.columns = columns_of(self.nodes.features, n_columns)
        self.vectors: layout.Vectors | None = None
        if n_vectors > 1:
            most = max(team.n_threads, exchange.size)
            sums = self._space.kept_vectors
            self.vectors = make_vectors(self.nodes, params, sums, n_vectors, most)
        self._own = own_of(options, self.nodes.scalars, team.n_threads, n_columns)
        nothing = np.zeros((0, 0), dtype=np.uint8)
        n_bins = spec.bin_counts.astype(np.int32)
        per_tile = tile_shape(n_columns)[1]
        # For the search of histograms: there are no rows.
        self._bins = Bins(nothing.reshape(-1), nothing, 0, 0, per_tile, n_bins, spec.stride)
        self._message = np.empty(0, dtype=np.int64)
        self.table: IntArray = np.zeros((0, layout.NODE_FIELDS), dtype=np.int64)

    @property
    def scalars(self) -> IntArray:
        """The scalars of each part: int64 (parts, N_SCALARS)."""
        return self.nodes.scalars[None] if self.vectors is None else self.vectors.outputs.scalars

    @property
    def building_vectors(self) -> layout.Vectors | None:
        """The same as ``vectors``, with the sums in which histograms are built."""
        if self.vectors is None:
            return None
        outputs = self.vectors.outputs._replace(sums=self._space.built_vectors)
        return self.vectors._replace(outputs=outputs)

    @property
    def is_rounded(self) -> bool:
        """Whether histograms hold rounded gradients, so that exact sums are others."""
        rounded = self.nodes.scalars[layout.IS_DROPPED_BITS] > 0
        return self.vectors is not None or bool(rounded)

    # -- the root -----------------------------------------------------------------------

    def begin(self, tree: int, output: int, n_outputs: int) -> int:
        """Begin a tree with its columns; return its number among the trees of its output."""
        number = self.nodes.begin(tree, output, n_outputs)
        self.scalars[1:, OF_TREE] = self.nodes.scalars[OF_TREE]
        self.columns = columns_of(self.nodes.features.copy(), self._n_columns)
        n_columns, exchange = len(self.columns.feature), self._exchange
        first = n_columns * exchange.rank // exchange.size
        last = n_columns * (exchange.rank + 1) // exchange.size
        self._block = (first, last)
        column = int(self.columns.feature[first]) if last > first else 0
        self._space.before = -column * self._stride if exchange.size > 1 else 0
        return number

    def plan_root(self) -> Building:
        """Return the histograms to build while gradients are computed."""
        nodes = self.nodes
        # Before the first tree there is no packing to build a histogram with.
        builds = slice(0, 1 if nodes.scalars[layout.IS_COUNT_BITS] > 0 else 0)
        slot = np.array([nodes.settings.n_slots - 1])  # the one that start_tree takes
        return self._space.plan(_ROOT[builds], slot[builds], self._built_columns())

    def nothing(self) -> Building:
        """Return a plan without histograms."""
        return self._space.plan(_ROOT[:0], _ROOT[:0], (0, 0))

    def check_units(self, counts: IntArray, n_rows: int) -> bool:
        """Check units and packing of each part; whether they were right."""
        constant = self.nodes.settings.constant_hessian
        for of_part, scalars in zip(counts, self.scalars, strict=True):
            choose_packing(of_part, scalars, constant, n_rows)
        if not self.scalars[:, layout.IS_REDO].any():
            return True
        self._space.discard()
        return False

    def check_words(self, sums: IntArray, n_rows: int) -> bool:
        """Check the words of several outputs; return whether they were right."""
        # ``sums`` are those of ``|g|`` and h of each output: int64 (n_outputs, 2).
        if self.vectors is None:
            return True
        outputs = self.vectors.outputs
        outputs.measured[0], before = sums, outputs.dropped.copy()
        choose_dropped(outputs.measured, n_rows, outputs.dropped)
        return bool((outputs.dropped == before).all())

    def open_root(self, n_inside: int, sums: IntArray, building: Building) -> None:
        """Begin with ``n_inside`` rows that have these sums, and look for a split."""
        # Of several outputs the sums are in the histograms alone, and these are 0.
        g, h = (SUM_PACKED_G, SUM_PACKED_H) if self.is_rounded else (SUM_G, SUM_H)
        is_searched = self.nodes.open_root(n_inside, sums[g], sums[h])
        self._end_builds(building)
        self._search_root(is_searched)

    def _search_root(self, is_searched: bool) -> None:
        """Look for a split of the root."""
        jobs = self.nodes.arrays.batch
        if is_searched:
            self._search(jobs)
        else:
            self._commit(jobs, np.zeros((1, 1, 2, self._n_fields), dtype=np.int64))

    # -- splits -------------------------------------------------------------------------

    def batches(self) -> Iterator[tuple[IntArray, bool]]:
        """Yield nodes to split in the next pass, and whether the tree is full with the last."""
        nodes, n_builds = self.nodes, self._space.sizes.n_builds
        for wanted, is_full in nodes.batches(n_builds):
            self._free_slots(wanted[0], self._needed(wanted[:1])[0])
            needed = self._needed(wanted)
            most = min(n_builds, int(nodes.scalars[layout.IS_N_FREE]))
            n_taken = int(np.searchsorted(np.cumsum(needed), most, side="right"))
            yield wanted[:n_taken], is_full and n_taken == len(wanted)

    def open(self, parents: IntArray, is_full: bool) -> tuple[IntArray, Building]:
        """Make the children of ``parents``; what to search, and what to build for it."""
        jobs = self.nodes.open_children(parents, is_full)
        return jobs, self._plan_builds(jobs)

    def _plan_builds(self, jobs: IntArray) -> Building:
        """Return the histograms to build for some jobs."""
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

    def _needed(self, parents: IntArray) -> IntArray:
        """Return histograms to build, and slots to fill, for the split of each node."""
        return np.where(self.nodes.table[parents, layout.NODE_SLOT] >= 0, 1, 2)

    def _free_slots(self, kept: int, needed: int) -> None:
        """Give up histograms of the nodes that come last, until ``needed`` slots are free."""
        arrays, scalars = self.nodes.arrays, self.nodes.scalars
        if scalars[layout.IS_N_FREE] >= needed:
            return
        for node in self.nodes.last_open():
            slot = arrays.table[node, layout.NODE_SLOT]
            if slot >= 0 and node != kept:
                arrays.free_slots[scalars[layout.IS_N_FREE]] = slot
                scalars[layout.IS_N_FREE] += 1
                arrays.table[node, layout.NODE_SLOT] = -1
            if scalars[layout.IS_N_FREE] >= needed:
                return

    # -- histograms ---------------------------------------------------------------------

    def _built_columns(self) -> tuple[int, int]:
        """Return the columns that this rank builds: all, or its share of the features."""
        return (0, len(self.columns.feature)) if self._exchange.adds else self._block

    def _end_builds(self, building: Building) -> None:
        """Write the sums of all ranks to their nodes' slots; part 0 has those of all parts."""
        exchange, columns, stride = self._exchange, self.columns, self._stride
        if len(building.nodes) == 0 or not exchange.adds:
            return
        n_fields = self._fields_of_message()
        cells = len(building.nodes) * n_fields * stride
        ranks = np.arange(exchange.size + 1, dtype=np.int64)
        starts = len(columns.feature) * ranks // exchange.size * cells
        own = int(starts[exchange.rank + 1] - starts[exchange.rank])
        message, out = self._message_of(int(starts[-1]), own)
        self._team.run(
            stages.write_message, columns, stride, building, n_fields, exchange.size, message,
            self.building_vectors,
        )  # fmt: skip
        span = np.ascontiguousarray(exchange.histograms(message, starts, out))
        places = self._space.place_of(self.nodes.table[building.nodes, layout.NODE_SLOT])
        self._team.run(
            stages.read_message, columns, stride, self._block, n_fields, span, self._space.kept,
            places, self.vectors,
        )  # fmt: skip

    def _fields_of_message(self) -> int:
        """Return the number of fields of a cell that are sent."""
        if self.vectors is not None:
            return 1 + self._space.sizes.width // 2
        return 2 if self.nodes.settings.constant_hessian == 1 else 3

    @property
    def _n_fields(self) -> int:
        """The number of fields of a node's best split."""
        return fields_found(self.nodes, self.vectors)

    def _message_of(self, length: int, own: int) -> tuple[IntArray, IntArray]:
        """Return space for a message and a part; reuse is faster than new memory."""
        if length + own > len(self._message):
            self._message = np.empty(2 * (length + own), dtype=np.int64)
        return self._message[:length], self._message[length : length + own]

    def _search(self, jobs: IntArray) -> None:
        """Find the best splits in the block of columns, then of all ranks."""
        shape = (len(jobs), self._team.n_threads, 2, self._n_fields)
        found, nodes = np.zeros(shape, dtype=np.int64), self.nodes
        for own in self._own:
            own.scalars[:] = nodes.scalars
        self._team.run(
            stages.search_jobs,
            nodes.settings,
            nodes.rules,
            self._bins,
            self.columns,
            self._block,
            (self._space.kept, self._space.sizes.slot_size, self._space.before),
            (nodes.table, jobs, found),
            self.vectors,
            own=[(own,) for own in self._own],
        )
        best = np.zeros((len(jobs), 1, 2, self._n_fields), dtype=np.int64)
        stages.best_of_threads(jobs, found, best)
        self._commit(jobs, self._exchange.splits(best))

    def _commit(self, jobs: IntArray, found: IntArray) -> None:
        nodes = self.nodes
        stages.commit_splits(
            nodes.settings, nodes.rules, nodes.arrays, nodes.scalars, jobs, found, nodes.options,
            self.vectors,
        )  # fmt: skip

    # -- the end ------------------------------------------------------------------------

    def finish(self, leaf_sums: IntArray | None) -> GrownTree:
        """Return the finished tree."""
        # ``leaf_sums`` are the exact ones of each part, int64 (parts, n_leaves, 2); None:
        # histograms have them.
        if self.vectors is None:
            return self._finished(self.nodes.finish(None if leaf_sums is None else leaf_sums[0]))
        assert leaf_sums is not None
        tree, vectors = finish_vectors(self.nodes, self.vectors.outputs, leaf_sums)
        return self._finished(tree).with_vectors(vectors)

    def line_outputs(self, tree: GrownTree) -> list[LineOutput]:
        """Return the gradients that the lines of the finished tree are fitted to."""
        nodes, table, vectors = self.nodes, self.table, self.vectors
        constant = int(nodes.settings.constant_hessian)
        constraints = nodes.constraints_of(nodes.found)
        if vectors is None:
            bounds = bounds_of(constraints, len(table))
            return [LineOutput(unit_sizes(nodes.scalars, constant), tree.value, bounds)]
        assert tree.vectors is not None
        middles = vectors.outputs.vectors[nodes.found, len(self.scalars) :]
        kept = np.column_stack((tree.vectors, middles))
        return line_outputs(table, kept, self.scalars, constraints, constant)

    def _finished(self, tree: layout.Tree) -> GrownTree:
        self.table = tree.table
        nodes = empty_block(len(tree.table))
        copy_nodes(tree.table, tree.numbers, len(tree.table), nodes, 0)
        return finish_nodes(self._spec.edges, self._n_copies, nodes)
