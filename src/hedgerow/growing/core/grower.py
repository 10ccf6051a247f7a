"""From Python to the compiled tree and back: arrays allocated once a fit."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import (
    FloatArray,
    IntArray,
    RowArray,
    aligned_empty,
    aligned_zeros,
)
from hedgerow.compile import entry_of
from hedgerow.data.binning.bins import BinSpec
from hedgerow.data.binning.matrix import BinnedMatrix
from hedgerow.growing.core import state as layout
from hedgerow.growing.core.branches import forced_cuts, make_constraints
from hedgerow.growing.core.gradients import BLOCK
from hedgerow.growing.core.grow import ORDER_GROW, ORDER_STOP, work
from hedgerow.growing.core.row_lists import make_row_lists
from hedgerow.growing.core.setup import (
    begin_tree,
    drawn_columns,
    has_constant_hessian,
    list_columns,
    loss_data_of,
    most_leaves,
    replace_columns,
    row_arrays,
    segments_of,
    settings_of,
    split_rules,
    start_scalars,
    tree_arrays,
)
from hedgerow.growing.core.slopes import SlopeFinder
from hedgerow.growing.core.sums_pool import SumsPool, make_histogram_sums
from hedgerow.growing.core.tree import GrownTree, Nodes, TreeOfTable
from hedgerow.growing.sampling.goss import make_sampler, weights_of
from hedgerow.kernels.histograms.histogram import Bins
from hedgerow.kernels.histograms.pairs import SPACING
from hedgerow.kernels.primitives.barrier import SIGNAL_SIZE, ThreadTeam
from hedgerow.kernels.simd.lanes import WIDTH
from hedgerow.kernels.splits.category_split import (
    CATEGORY_SCRATCH,
    SCRATCH_SIZE,
    CategoryRules,
)
from hedgerow.kernels.tables.keys import keys_of_floats
from hedgerow.objectives.base import Objective, longest_line
from hedgerow.objectives.precomputed import Given
from hedgerow.params import FIRST_ORDER, BoostParams
from hedgerow.threads import Team, wait_addresses

_PADDING = 64
CELL_BYTES = 20
"""Of the wide sums: g and h of 8 bytes each, and a row count of 4."""

_SLOT_BYTES = 1 << 30
"""Histograms are kept for reuse in at most this much memory; nodes beyond it
are built from their rows."""


class TreeGrower:
    """Grows the trees of one fit on one binned matrix.

    Parameters
    ----------
    matrix : BinnedMatrix
        With both layouts.
    target, weight : float64 (n_rows,), weight or None
    raw : float64 (n_outputs, n_rows)
        Raw scores; every grown tree is added to them in place.
    objective : Objective
    params : BoostParams
    n_threads : int
        Helpers are started at once; :meth:`close` ends them.
    adds_scores : bool, default=True
        False: leave the raw scores to the caller.
    n_copies : int, default=1
        How often each row is there, for ``cat_smooth``; the limits in ``params`` are
        taken as they are.
    numbers : float64 (n_rows, n_features), column by column, optional
        Values of the rows, where leaves are to have slopes.
    sums : SumsPool, optional
        Where to take the memory of histograms from for each tree, if other growers of the same
        bins grow their trees in turn with this one.
    """

    def __init__(
        self,
        matrix: BinnedMatrix,
        target: FloatArray,
        weight: FloatArray | None,
        raw: FloatArray,
        objective: Objective,
        params: BoostParams,
        n_threads: int,
        adds_scores: bool = True,
        n_copies: int = 1,
        numbers: FloatArray | None = None,
        sums: SumsPool | None = None,
    ) -> None:
        self._matrix = matrix
        self._sums = sums
        self._params = params
        self._finish = partial(finish_nodes, cuts_of(matrix.spec))
        # Values of leaves that have slopes are added with these.
        adds_values = adds_scores and numbers is None
        self._state = self._start(target, weight, raw, objective, n_threads, adds_values, n_copies)
        self._adds_lines, self._slopes = adds_scores, None
        if numbers is not None:
            ordered = np.array(params.monotone_constraints or (0,) * matrix.n_features) != 0
            usable = ~matrix.spec.is_category & ~ordered
            longest = (longest_line(objective), params.max_delta_step or math.inf)
            penalty = params.linear_lambda
            self._slopes = SlopeFinder(numbers, usable, penalty, longest, n_threads)
        newton = params.leaf_estimation not in FIRST_ORDER
        self._given = Given.of(objective, target, weight, n_threads, newton)
        self._compiled: Callable[..., Any] | None = None
        self._team = Team(
            n_threads,
            lambda thread: self._work(thread, ORDER_GROW),
            lambda: self._work(0, ORDER_STOP),
        )

    def _start(
        self,
        target: FloatArray,
        weight: FloatArray | None,
        raw: FloatArray,
        objective: Objective,
        n_threads: int,
        adds_scores: bool,
        n_copies: int,
    ) -> layout.State:
        """Everything that the compiled stages use; for other trees there is more."""
        state = make_state(
            self._matrix, target, weight, raw, objective, self._params, n_threads, sums=self._sums
        )
        state = state._replace(options=for_copies(state.options, n_copies))
        return state._replace(settings=state.settings._replace(adds_scores=int(adds_scores)))

    def _work(self, thread: int, order: int) -> None:
        """The compiled stages of one thread."""
        if self._compiled is None:
            self._compiled = entry_of(work, thread, self._state, order)
        self._compiled(thread, self._state, order)

    def set_rate(self, rate: float) -> None:
        """Set the factor on the values of the trees to come."""
        settings = self._state.settings._replace(learning_rate=rate)
        self._state = self._state._replace(settings=settings)

    def grow(self, tree: int, output: int) -> GrownTree:
        """Grow tree number ``tree`` for ``output``.

        The raw scores of its rows are updated if ``adds_scores``.
        """
        scalars = self._state.scalars
        begin_tree(scalars, tree, output, len(self._state.loss_data.raw))
        if self._params.colsample_bytree < 1.0:
            self._draw_columns(tree)
        number = int(scalars[layout.IS_ROUND]) // self._params.num_parallel_tree
        self._given.prepare(self._state.loss_data, output, number)
        self._grow_in_sums()
        grown = self._copy_tree()
        if self._slopes is None:
            return grown
        scores = self._state.loss_data.raw[output] if self._adds_lines else np.zeros(0)
        return grown.with_slopes(self._slopes.slopes(self._state, scores))

    def _grow_in_sums(self) -> None:
        """Grow the tree, in histograms of the pool if there is one."""
        if self._sums is None:
            self._work(0, ORDER_GROW)
            return
        filled = has_all_bins(self._matrix)
        histograms = self._sums.take(len(self._state.histograms.g), filled)
        self._state = self._state._replace(histograms=histograms)
        try:
            self._work(0, ORDER_GROW)
        finally:
            self._sums.give_back(histograms, filled)

    def rows_outside(self) -> npt.NDArray[np.uint32]:
        """Rows that the last tree was not grown on (empty without row sampling)."""
        n_inside = int(self._state.scalars[layout.IS_N_ROWS])
        return self._state.rows.rows[n_inside : self._matrix.n_rows]

    def row_weights(self, rows: RowArray) -> FloatArray | None:
        """Weights of some rows in the last tree's sample; see :func:`weights_of`."""
        return weights_of(self._state.options, rows)

    def leaf_segments(self) -> tuple[npt.NDArray[np.uint32], IntArray, IntArray]:
        """Rows of the last tree by leaf; see :func:`hedgerow.growing.core.setup.segments_of`."""
        return segments_of(self._state.tree, self._state.scalars, self._state.rows.rows)

    def close(self) -> None:
        """End the helpers; the grower must not be used afterwards."""
        self._team.close()

    def _draw_columns(self, tree: int) -> None:
        matrix, state = self._matrix, self._state
        chosen = drawn_columns(self._params, tree, matrix.n_features)
        state.scalars[layout.IS_N_FEATURES] = len(chosen)
        state.options.features[: len(chosen)] = chosen
        if matrix.layout is not None:
            held = matrix.layout.column[chosen]
            # Without any there would be no histogram to read the sums of the node from.
            chosen = np.unique(held[held >= 0]) if held.max() >= 0 else held[:1] * 0
        replace_columns(state.columns, list_columns(matrix, chosen))
        state.scalars[layout.IS_N_COLUMNS] = len(chosen)

    def _copy_tree(self) -> GrownTree:
        arrays, n_nodes = self._state.tree, int(self._state.scalars[layout.IS_N_NODES])
        table = arrays.table[:n_nodes]
        splits = table[:, layout.NODE_FEATURE : layout.NODE_RIGHT + 1].T
        nodes = Nodes(
            np.ascontiguousarray(splits, dtype=np.int32),
            table[:, layout.NODE_SET :].copy().view(np.uint64),
            table[:, layout.NODE_COUNT].copy(),
            arrays.numbers[:n_nodes].T.copy(),
        )
        return TreeOfTable(nodes, self._finish)


def finish_nodes(cuts: tuple[IntArray, IntArray, IntArray], nodes: Nodes) -> GrownTree:
    """The tree, or several one behind the other, of these nodes."""
    feature, bins, missing_left, column, left, right = nodes.splits
    inner, numbers = left != 0, nodes.numbers
    feature = np.where(inner, feature, np.int32(-1))
    bins = np.where(inner, bins, np.int32(0))
    return GrownTree(
        feature=feature,
        threshold=thresholds_of(feature, bins, cuts),
        bin=bins.astype(np.uint8),
        missing_left=(inner & (missing_left == 1)).astype(np.uint8),
        left=left,
        right=right,
        value=numbers[layout.NUMBER_VALUE],
        gain=np.where(inner, numbers[layout.NUMBER_GAIN], 0.0),
        cover=numbers[layout.NUMBER_COVER],
        count=nodes.count,
        column=np.where(inner, column, np.int32(-1)),
        left_bins=np.where(inner[:, None], nodes.sets, np.uint64(0)),
    )


def make_state(
    matrix: BinnedMatrix,
    target: FloatArray,
    weight: FloatArray | None,
    raw: FloatArray,
    objective: Objective,
    params: BoostParams,
    n_threads: int,
    cell_bytes: int | None = None,
    sums: SumsPool | None = None,
) -> layout.State:
    """Allocate everything that the compiled stages use.

    With ``cell_bytes``, those of a bin's sums, the caller makes the sums; else they are wide.
    With a pool they are its, and lent to no grower until a tree grows.
    """
    n_rows, n_features = matrix.n_rows, matrix.n_features
    n_columns, slot_cells = matrix.n_columns, matrix.n_columns * matrix.stride
    max_leaves = most_leaves(params, n_rows)
    n_slots = most_slots(max_leaves, slot_cells, cell_bytes or CELL_BYTES)
    constant = has_constant_hessian(objective, weight, params)
    pause, sleep = wait_addresses()
    n_cells = (n_slots + 2 + n_threads) * slot_cells
    options = _make_options(matrix, params, n_threads, 2 * max_leaves, n_cells)
    scratch_cells = 0 if options.bundles is None else n_threads * WIDTH * matrix.stride
    n_histogram_sums, filled = (
        0 if cell_bytes is not None else n_cells + scratch_cells,
        has_all_bins(matrix),
    )
    if sums is None:
        histograms = make_histogram_sums(n_histogram_sums, filled)
    else:
        histograms = sums.take(n_histogram_sums, filled)
        sums.give_back(histograms, filled)
    return layout.State(
        team=ThreadTeam(n_threads, aligned_zeros(SIGNAL_SIZE, np.int64), pause, sleep),
        settings=settings_of(params, objective, n_rows, n_columns, max_leaves, constant, n_slots),
        rules=split_rules(params),
        bins=_bins(matrix),
        loss_data=loss_data_of(target, weight, raw, objective),
        columns=list_columns(matrix, np.arange(n_columns, dtype=np.int32)),
        rows=row_arrays(n_rows, _PADDING),
        threads=_make_threads(matrix, n_threads, 2 * max_leaves),
        search=_make_search(n_threads, n_features),
        histograms=histograms,
        tree=tree_arrays(2 * max_leaves, n_slots),
        scalars=start_scalars(n_columns, n_features, params),
        options=options,
        vectors=None,
        sorted_columns=None,
        level=None,
    )


def has_all_bins(matrix: BinnedMatrix) -> bool:
    """Whether a histogram writes all its cells, or clears them before."""
    return matrix.layout is not None or min(matrix.spec.bin_counts()) >= matrix.stride - 1


def most_slots(max_leaves: int, slot_cells: int, cell_bytes: int = CELL_BYTES) -> int:
    """Histograms of so many cells that are kept for reuse."""
    return int(min(max_leaves, max(2, _SLOT_BYTES // (cell_bytes * slot_cells))))


def _make_options(
    matrix: BinnedMatrix,
    params: BoostParams,
    n_threads: int,
    max_nodes: int,
    scratch_start: int,
) -> layout.Options:
    """What the compiled stages need beyond the usual fit."""
    bundled = matrix.layout is not None
    return layout.Options(
        features=np.arange(matrix.n_features, dtype=np.int32),
        categories=make_categories(matrix.spec.is_category, params, n_threads),
        bundles=_make_bundles(matrix, params, n_threads, scratch_start) if bundled else None,
        lists=make_row_lists(matrix, n_threads) if bundled else None,
        constraints=make_constraints(
            params,
            matrix.n_features,
            matrix.spec.bin_counts() - 1,
            max_nodes,
            forced_cuts(params.forced_splits, matrix.spec),
        ),
        sampler=make_sampler(params, matrix.n_rows, n_threads, packs=True),
    )


def make_categories(
    chosen: npt.NDArray[np.bool_], params: BoostParams, n_threads: int
) -> layout.Categories:
    """What the search of category columns needs."""
    return layout.Categories(
        chosen=chosen.astype(np.uint8),
        rules=CategoryRules(
            most_one_hot=params.max_cat_to_onehot,
            most=params.max_cat_threshold,
            smooth=float(params.cat_smooth),
            penalty=float(params.cat_l2),
            min_group=params.min_data_per_group,
        ),
        places=aligned_zeros(
            (n_threads, CATEGORY_SCRATCH, SCRATCH_SIZE if chosen.any() else 0), np.int64
        ),
    )


def _make_bundles(
    matrix: BinnedMatrix, params: BoostParams, n_threads: int, scratch_start: int
) -> layout.Bundles:
    found = matrix.layout
    assert found is not None
    leader = found.members[found.member_start[:-1]]
    usable = np.zeros((n_threads, layout.USABLE_SIZE), dtype=np.int64)
    usable[:, : layout.USABLE_ONES] = 1
    shares = (params.colsample_bytree, params.colsample_bylevel, params.colsample_bynode)
    return layout.Bundles(
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


def for_copies(options: layout.Options, n_copies: int) -> layout.Options:
    """The same for rows that are there several times."""
    rules = options.categories.rules._replace(n_copies=n_copies)
    return options._replace(categories=options.categories._replace(rules=rules))


def _bins(matrix: BinnedMatrix) -> Bins:
    return Bins(
        by_row=matrix.by_row.reshape(-1),
        by_column=matrix.by_column,
        tile_size=matrix.by_row.shape[1] * matrix.by_row.shape[2],
        tile_width=matrix.by_row.shape[2],
        features_per_tile=matrix.features_per_tile,
        n_bins=matrix.spec.bin_counts().astype(np.int32),
        stride=matrix.stride,
    )


def _make_threads(matrix: BinnedMatrix, n_threads: int, max_nodes: int) -> layout.Threads:
    tile_cells = matrix.bytes_per_tile * SPACING
    if matrix.paired:
        tile_cells += matrix.features_per_tile * matrix.stride  # margins of the pairs
    return layout.Threads(
        cells=aligned_zeros((n_threads, tile_cells), np.int64),
        blocks=aligned_empty((n_threads, 2, BLOCK), np.float64),
        counts=aligned_zeros((n_threads, layout.COUNTS), np.int64),
        leaf_sums=aligned_zeros((n_threads, 2, max_nodes), np.int64),
    )


def _make_search(n_threads: int, n_features: int) -> layout.Search:
    return layout.Search(
        lanes=aligned_zeros((n_threads, 2, WIDTH), np.int64),
        found=aligned_zeros((n_threads, 2, layout.FOUND_FIELDS), np.int64),
        allowed=np.ones((3, n_features), dtype=np.int32),
    )


def cuts_of(spec: BinSpec) -> tuple[IntArray, IntArray, IntArray]:
    """Keys behind the bins of all columns, and where the first and the last of each are.

    Behind the last bin of a column is the highest key: it sends all values left, and sets
    missing ones apart.  Of a category column, which is split by a set, there is only a 0.
    """
    highest = {"float": int(keys_of_floats(np.array(np.inf))), "int": np.iinfo(np.int64).max}
    tops = [highest.get(kind, 0) for kind in spec.schema.kinds]
    keys = np.insert(spec.cut_keys, spec.cut_start[1:], tops)
    place = np.arange(len(tops))
    return keys, spec.cut_start[:-1] + place, spec.cut_start[1:] + place


def thresholds_of(
    feature: np.ndarray, bins: np.ndarray, cuts: tuple[IntArray, IntArray, IntArray]
) -> IntArray:
    """Key of the cut behind each split's bin, of :func:`cuts_of`; 0 in leaves."""
    keys, first, last = cuts
    place = np.minimum(first[feature] + bins, last[feature])
    return np.where(feature >= 0, keys[place], 0)
