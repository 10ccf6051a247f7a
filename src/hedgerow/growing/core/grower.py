"""From Python to the compiled tree and back: arrays allocated once a fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray, IntArray, aligned_zeros, distinct
from hedgerow.data.binning.bins import Edges
from hedgerow.data.binning.matrix import BinnedMatrix
from hedgerow.errors import ParameterError
from hedgerow.growing.core import setup, slopes
from hedgerow.growing.core import state as s
from hedgerow.growing.core.compiled_grower import CompiledGrower
from hedgerow.growing.core.grow import ORDER_GROW
from hedgerow.growing.core.joining import TreeJoiner, WalkedRows
from hedgerow.growing.core.tree import GrownTree, Nodes
from hedgerow.growing.sampling.goss import make_sampler
from hedgerow.kernels.histograms.histogram import Bins, RowLists
from hedgerow.kernels.histograms.pairs import SPACING
from hedgerow.kernels.histograms.vector_histogram import width_of
from hedgerow.kernels.simd.lanes import WIDTH
from hedgerow.kernels.tables.sparse import list_cells
from hedgerow.params import BoostParams
from hedgerow.threads import run_blocks

_PADDING = 64
CELL_BYTES = 20
"""Bytes of a cell of the wide sums: g and h of 8 bytes each, and a row count of 4."""

_SLOT_BYTES = 1 << 30
"""Histograms are kept for reuse in at most this much memory; nodes beyond it
are built from their rows."""


class TreeGrower(CompiledGrower):
    """Grows the trees of one fit on one binned matrix.

    matrix            BinnedMatrix: with both layouts
    fit, adds_scores  As for :class:`hedgerow.growing.core.compiled_grower.CompiledGrower`
    n_copies          int, default=1: how often each row is there, for ``cat_smooth``; the limits in
                      ``fit.params`` are taken as they are
    numbers           float64 (n_rows, n_features), column by column, optional: values of the rows,
                      where leaves are to have slopes
    sums              SumsPool, optional: where to take the memory of histograms from for each tree,
                      if other growers of the same bins grow their trees in turn with this one.
                      With several threads, or vectors in leaves, it is not used.
    """

    def __init__(
        self,
        matrix: BinnedMatrix,
        fit: setup.Fit,
        adds_scores: bool = True,
        n_copies: int = 1,
        numbers: FloatArray | None = None,
        sums: setup.SumsPool | None = None,
    ) -> None:
        self._matrix, self._n_copies = matrix, n_copies
        # Helpers stay in compiled code, with the arrays that they had at first.
        alone = fit.n_threads == 1 and not setup.holds_vectors(fit.params)
        self._sums = sums if alone else None
        self._filled = has_all_bins(matrix)
        self._finish = partial(finish_nodes, partial(thresholds_of, matrix.spec.edges), n_copies)
        self._adds_lines = adds_scores
        self._slopes: slopes.SlopeFinder | None = None
        if numbers is not None:
            limits = slopes.LineLimits.of(matrix.spec, fit.params, fit.objective)
            self._slopes = slopes.SlopeFinder(numbers, limits, fit.n_threads)
        # Values of leaves that have slopes are added with these.
        super().__init__(fit, adds_scores and numbers is None)

    def _make_state(self, fit: setup.Fit) -> s.State:
        return make_state(self._matrix, fit, self._n_copies, self._sums)

    def _copy_tree(self) -> GrownTree:
        """Copy the last tree, and find the slopes of its leaves."""
        grown = super()._copy_tree()
        if self._slopes is None:
            return grown
        raw = self._state.loss_data.raw[int(self._state.scalars[s.IS_OUTPUT])]
        scores = raw if self._adds_lines else raw[:0]
        return grown.with_slopes(self._slopes.slopes(self._state, scores))

    @property
    def most_nodes(self) -> int:
        """Most nodes of a tree."""
        return len(self._state.tree.table)

    def joiner(
        self, n_rounds: int, train: WalkedRows, unseen: WalkedRows | None
    ) -> TreeJoiner | None:
        """Return what :meth:`grow_rounds` needs; None if it cannot grow the trees of the fit."""
        state = self._state
        ordered = self._slopes is not None and state.options.constraints.sign.any()
        # A joiner adds one value, of rows that are in the memory of one thread.
        if state.team.n_threads > 1 or ordered or state.vectors.used + state.gpu.used > 0:
            return None
        return TreeJoiner(state, self._finish, n_rounds, train, unseen, self._slopes)

    def grow_rounds(self, first: int, n_rounds: int, joiner: TreeJoiner) -> list[GrownTree]:
        """Grow the trees of rounds, join them to the fit, and update all raw scores."""
        n_outputs = len(self._state.loss_data.raw)
        join = joiner.begin(n_rounds)
        with self._histograms():
            for tree in range(first * n_outputs, (first + n_rounds) * n_outputs):
                self._begin(tree, tree % n_outputs)
                self._compiled(0, self._state, ORDER_GROW)
                join()
        return joiner.trees()

    def _run(self) -> None:
        """Grow the tree, in histograms of the pool if there is one."""
        with self._histograms():
            self._compiled(0, self._state, ORDER_GROW)

    @contextmanager
    def _histograms(self) -> Iterator[None]:
        """Have the histograms of the pool, if there is one, while trees grow."""
        if self._sums is None:
            yield
            return
        before = self._state.histograms
        histograms = self._sums.take(len(before.g), self._filled)
        if histograms is not before:
            self._state = self._state._replace(histograms=histograms)
        try:
            yield
        finally:
            self._sums.give_back(histograms, self._filled)

    def _draw_columns(self, tree: int) -> None:
        matrix, state = self._matrix, self._state
        chosen = setup.draw_columns(self._params, tree, state.options.features, state.scalars)
        if matrix.layout is not None:
            held = matrix.layout.column[chosen]
            # Without any there would be no histogram to read the sums of the node from.
            chosen = distinct(held[held >= 0]) if held.max() >= 0 else held[:1] * 0
            state.scalars[s.IS_N_COLUMNS] = len(chosen)
        setup.replace_columns(state.columns, setup.list_columns(matrix, chosen))


def finish_nodes(
    thresholds: Callable[[AnyArray, AnyArray], IntArray], n_copies: int, nodes: Nodes
) -> GrownTree:
    """Return one or several concatenated trees of these nodes; copies of a row count once."""
    # ``thresholds(feature, bin)`` are keys.
    feature, bins, missing_left, column, left, right = nodes.splits
    inner, numbers = left != 0, nodes.numbers
    feature = np.where(inner, feature, np.int32(-1))
    bins = np.where(inner, bins, np.int32(0))
    return GrownTree(
        feature=feature,
        threshold=thresholds(feature, bins),
        bin=bins.astype(np.uint8),
        missing_left=(inner & (missing_left == 1)).astype(np.uint8),
        left=left,
        right=right,
        value=numbers[s.NUMBER_VALUE],
        gain=np.where(inner, numbers[s.NUMBER_GAIN], 0.0),
        cover=numbers[s.NUMBER_COVER],
        count=rows_without_copies(nodes.count, n_copies),
        column=np.where(inner, column, np.int32(-1)),
        left_bins=np.where(inner[:, None], nodes.sets, np.uint64(0)),
    )


def rows_without_copies(count: IntArray, n_copies: int) -> IntArray:
    """Return the number of rows of each node, if the table has ``n_copies`` copies of each row."""
    return count if n_copies == 1 else np.rint(count / n_copies).astype(np.int64)


def make_state(
    matrix: BinnedMatrix, fit: setup.Fit, n_copies: int = 1, sums: setup.SumsPool | None = None
) -> s.State:
    """Allocate everything that the compiled stages use."""
    # Histograms of a pool are lent to no grower until a tree grows.
    params, n_threads, n_outputs = fit.params, fit.n_threads, len(fit.raw)
    several, is_symmetric = setup.holds_vectors(params), params.grow_policy == "symmetric"
    if is_symmetric:  # the number of leaves bounds the space for other trees
        params = replace(params, max_leaves=None)
        fit = fit._replace(params=params)
    n_columns, slot_cells = matrix.n_columns, matrix.n_columns * matrix.stride
    max_leaves = setup.most_leaves(params, matrix.n_rows)
    cell_bytes, width = CELL_BYTES, 0
    if several:
        width = width_of(n_outputs, fit.constant_hessian)
        cell_bytes = 4 * (width + 1)
    n_slots = most_slots(max_leaves, slot_cells, cell_bytes)
    n_cells = (n_slots + 2 + n_threads) * slot_cells
    sampler = make_sampler(params, matrix.n_rows, n_threads, packs=True)
    spec = matrix.spec
    options = setup.make_options(
        params, spec.is_category, n_threads, 2 * max_leaves, sampler, n_copies, spec
    )
    n_sums = 0 if several else n_cells
    if matrix.layout is not None:
        if several:
            raise ParameterError(
                "bundle_features: a tree with vectors in its leaves needs a column for each "
                "feature, but the rows have bundles: use bundle_features=False."
            )
        n_sums += n_threads * WIDTH * matrix.stride
        options = options._replace(
            bundles=_make_bundles(matrix, params, n_threads, scratch_start=n_cells),
            lists=make_row_lists(matrix, n_threads),
        )
    rows = setup.row_arrays(matrix.n_rows, _PADDING)
    state = setup.start_state(fit, options, n_columns, n_slots, _tile_cells(matrix), rows)
    filled = has_all_bins(matrix)
    if sums is None:
        histograms = setup.make_histogram_sums(n_sums, filled)
    else:
        histograms = sums.take(n_sums, filled)
        sums.give_back(histograms, filled)
    state = state._replace(
        bins=_bins(matrix),
        columns=setup.list_columns(matrix, np.arange(n_columns, dtype=np.int32)),
        histograms=histograms,
    )
    if several:
        words = aligned_zeros(matrix.n_rows * width, np.int32)
        cells = setup.make_sums(n_cells, width, fit.constant_hessian)
        state = setup.with_vectors(state, fit, words, cells)
    if not is_symmetric:
        return state
    if several:
        state = state._replace(histograms=setup.counts_alone(state.vectors.outputs.sums.n))
    # A level has at most as many nodes as the tree has leaves.
    most = int(state.settings.max_leaves)
    return state._replace(
        tree=state.tree._replace(batch=setup.make_batch(most)),
        level=setup.make_level(spec, options, n_threads, most, slot_cells),
    )


def has_all_bins(matrix: BinnedMatrix) -> bool:
    """Return whether a histogram writes all its cells, or clears them before."""
    return matrix.layout is not None or bool(matrix.spec.bin_counts.min() >= matrix.stride - 1)


def most_slots(max_leaves: int, slot_cells: int, cell_bytes: int = CELL_BYTES) -> int:
    """Return how many histograms with this number of cells are kept for reuse."""
    return int(min(max_leaves, max(2, _SLOT_BYTES // (cell_bytes * slot_cells))))


def _make_bundles(
    matrix: BinnedMatrix, params: BoostParams, n_threads: int, scratch_start: int
) -> s.Bundles:
    found = matrix.layout
    assert found is not None
    leader = found.members[found.member_start[:-1]]
    usable = np.zeros((n_threads, s.USABLE_SIZE), dtype=np.int64)
    usable[:, : s.USABLE_ONES] = 1
    shares = (params.colsample_bytree, params.colsample_bylevel, params.colsample_bynode)
    return s.Bundles(
        used=1,
        alone=np.where(found.first[leader] < 0, leader, -1).astype(np.int32),
        column=found.column,
        first=found.first,
        count=found.count,
        default_bin=found.default_bin,
        members=found.members,
        member_start=found.member_start,
        n_single=found.n_single,
        usable=usable,
        scratch_start=scratch_start,
        sampled=int(min(shares) < 1.0 or params.interaction_constraints is not None),
    )


def _bins(matrix: BinnedMatrix) -> Bins:
    return Bins(
        by_row=matrix.by_row.reshape(-1),
        by_column=matrix.by_column,
        tile_size=matrix.by_row.shape[1] * matrix.by_row.shape[2],
        tile_width=matrix.by_row.shape[2],
        features_per_tile=matrix.features_per_tile,
        n_bins=matrix.spec.bin_counts.astype(np.int32),
        stride=matrix.stride,
    )


def _tile_cells(matrix: BinnedMatrix) -> int:
    """Return packed sums of a thread."""
    margins = matrix.features_per_tile * matrix.stride if matrix.paired else 0
    return matrix.bytes_per_tile * SPACING + margins


def thresholds_of(edges: Edges, feature: AnyArray, bins: AnyArray) -> IntArray:
    """Return the key of the cut after each split's bin; 0 for leaves."""
    keys, first, last = edges
    place = np.minimum(first[feature] + bins, last[feature])
    return np.where(feature >= 0, keys[place], 0)


_FILLED = 1 / 8
"""Share of cells away from rest below which a tile gets lists.  A cell of a list costs
three to four times as much as one of a whole row."""


def make_row_lists(matrix: BinnedMatrix, n_threads: int = 1) -> RowLists:
    """Return lists for the tiles where they pay off, of a matrix with a layout."""
    # Where most of a row's cells are the ones at rest, as in text, it is faster to add up the
    # others alone (:func:`hedgerow.kernels.histograms.histogram.add_listed`).
    n_tiles, n_rows, per_tile = matrix.n_tiles, matrix.n_rows, matrix.features_per_tile
    assert matrix.layout is not None
    default_bin = matrix.layout.default_row(matrix.spec)
    listed = np.zeros(n_tiles, dtype=np.uint8)
    base = np.zeros(n_tiles + 1, dtype=np.int64)
    counts: IntArray = np.zeros(n_tiles, dtype=np.int64)
    resting = np.zeros((n_tiles, per_tile), dtype=np.uint8)
    resting.reshape(-1)[: len(default_bin)] = default_bin
    row_start = np.zeros((n_tiles, n_rows + 1), dtype=np.uint32)

    cells = np.empty(0, dtype=np.uint16)

    def visit(tile: int, cells: AnyArray) -> int:
        return list_cells(matrix.by_row, tile, resting[tile], SPACING, row_start[tile], cells)

    def count(first: int, last: int) -> None:
        for tile in range(first, last):
            counts[tile] = visit(tile, cells)

    run_blocks(count, n_tiles, n_threads, 1)
    most = np.iinfo(row_start.dtype).max
    listed[:] = (counts < _FILLED * n_rows * per_tile) & (counts <= most)
    base[1:] = np.cumsum(np.where(listed == 1, counts, 0))
    cells = np.empty(base[-1], dtype=np.uint16)

    def write(first: int, last: int) -> None:
        for tile in range(first, last):
            if listed[tile] == 1:
                part = cells[base[tile] : base[tile + 1]]
                visit(tile, part)

    run_blocks(write, n_tiles, n_threads, 1)
    return RowLists(1, listed, base, row_start, cells, default_bin.astype(np.int64))
