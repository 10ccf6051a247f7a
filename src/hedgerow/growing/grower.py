"""From Python to the compiled tree and back: arrays allocated once a fit."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import MISSING_KEY, FloatArray, IntArray, aligned_empty, aligned_zeros
from hedgerow.compile import announce_compilation
from hedgerow.data.bins import BinSpec
from hedgerow.data.matrix import BinnedMatrix
from hedgerow.growing import state as layout
from hedgerow.growing.gradients import BLOCK
from hedgerow.growing.grow import ORDER_GROW, ORDER_STOP, work
from hedgerow.growing.tree import GrownTree
from hedgerow.kernels.barrier import SIGNAL_SIZE, Crew
from hedgerow.kernels.hashing import hash64
from hedgerow.kernels.histogram import Bins, Columns, Wide
from hedgerow.kernels.keys import keys_of_floats
from hedgerow.kernels.lanes import N_LANES
from hedgerow.kernels.split import SplitRules
from hedgerow.objectives.base import Objective
from hedgerow.objectives.derivatives import SOFTMAX, LossData
from hedgerow.params import FIRST_ORDER, BoostParams
from hedgerow.threads import Team, wait_addresses

_PADDING = 64
_COLUMN_STREAM = 4 << 40
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
    ) -> None:
        announce_compilation()
        self._matrix = matrix
        self._params = params
        state = _make_state(matrix, target, weight, raw, objective, params, n_threads)
        settings = state.settings._replace(adds_scores=int(adds_scores))
        self._state = state._replace(settings=settings)
        self._team = Team(
            n_threads,
            lambda thread: work(thread, self._state, ORDER_GROW),
            lambda: work(0, self._state, ORDER_STOP),
        )

    def grow(self, tree: int, output: int) -> GrownTree:
        """Grow tree number ``tree`` for ``output``.

        The raw scores of its rows are updated if ``adds_scores``.
        """
        scalars = self._state.scalars
        scalars[layout.IS_TREE] = tree
        scalars[layout.IS_ROUND] = tree // len(self._state.loss_data.raw)
        scalars[layout.IS_OUTPUT] = output
        if self._params.colsample_bytree < 1.0:
            self._draw_columns(tree)
        work(0, self._state, ORDER_GROW)
        return self._copy_tree()

    def rows_outside(self) -> npt.NDArray[np.uint32]:
        """Rows that the last tree was not grown on (empty without row sampling)."""
        n_inside = int(self._state.scalars[layout.IS_N_ROWS])
        return self._state.rows.rows[n_inside : self._matrix.n_rows]

    def leaf_segments(self) -> tuple[npt.NDArray[np.uint32], IntArray, IntArray]:
        """Rows of the last tree by leaf.

        Returns
        -------
        rows : uint32
            The sample, the rows of a leaf side by side.
        leaves : int64, shape (n_leaves,)
            Nodes, in the order of their rows.
        starts : int64, shape (n_leaves + 1,)
            First row of each leaf in ``rows``, and their number.
        """
        n_nodes = int(self._state.scalars[layout.IS_N_NODES])
        n_rows = int(self._state.scalars[layout.IS_N_ROWS])
        table = self._state.tree.table[:n_nodes]
        leaves = np.flatnonzero(table[:, layout.NODE_LEFT] == 0)
        leaves = leaves[np.argsort(table[leaves, layout.NODE_START])]
        starts = np.append(table[leaves, layout.NODE_START], n_rows)
        return self._state.rows.rows[:n_rows], leaves, starts

    def close(self) -> None:
        """End the helpers; the grower must not be used afterwards."""
        self._team.close()

    def _draw_columns(self, tree: int) -> None:
        n_features = self._matrix.n_features
        n_taken = max(1, round(self._params.colsample_bytree * n_features))
        seed, stream = np.uint64(self._params.seed), np.uint64(_COLUMN_STREAM + tree)
        order = np.array([hash64(seed, stream, np.uint64(j)) for j in range(n_features)])
        chosen = np.sort(np.argsort(order, kind="stable")[:n_taken]).astype(np.int32)
        self._state.columns.feature[:n_taken] = chosen
        self._state.columns.position[:n_taken] = chosen % self._matrix.features_per_tile
        self._state.scalars[layout.IS_N_COLUMNS] = n_taken

    def _copy_tree(self) -> GrownTree:
        tree = self._state.tree
        n = int(self._state.scalars[layout.IS_N_NODES])
        table, numbers = tree.table[:n], tree.numbers[:n]
        left = table[:, layout.NODE_LEFT].astype(np.int32)
        inner = left != 0
        feature = np.where(inner, table[:, layout.NODE_FEATURE], -1).astype(np.int32)
        bins = np.where(inner, table[:, layout.NODE_BIN], 0)
        return GrownTree(
            feature=feature,
            threshold=_thresholds(feature, bins, self._matrix.spec),
            bin=bins.astype(np.uint8),
            missing_left=(inner & (table[:, layout.NODE_MISSING_LEFT] == 1)).astype(np.uint8),
            left=left,
            right=table[:, layout.NODE_RIGHT].astype(np.int32),
            value=numbers[:, layout.NUMBER_VALUE].copy(),
            gain=np.where(inner, numbers[:, layout.NUMBER_GAIN], 0.0),
            cover=numbers[:, layout.NUMBER_COVER].copy(),
            count=table[:, layout.NODE_COUNT].copy(),
        )


def _make_state(
    matrix: BinnedMatrix,
    target: FloatArray,
    weight: FloatArray | None,
    raw: FloatArray,
    objective: Objective,
    params: BoostParams,
    n_threads: int,
) -> layout.State:
    """Allocate everything that the compiled stages use."""
    n_rows, n_features = matrix.n_rows, matrix.n_features
    slot_cells = n_features * matrix.spec.stride
    max_leaves = _most_leaves(params, n_rows)
    n_slots = int(min(max_leaves, max(2, _SLOT_BYTES // (20 * slot_cells))))
    first_order = params.leaf_estimation in FIRST_ORDER
    constant = (objective.constant_hessian or first_order) and weight is None
    pause, sleep = wait_addresses()
    all_columns = np.arange(n_features, dtype=np.int32)
    scalars = np.zeros(layout.N_SCALARS, dtype=np.int64)
    scalars[layout.IS_N_COLUMNS] = n_features
    return layout.State(
        crew=Crew(n_threads, aligned_zeros(SIGNAL_SIZE, np.int64), pause, sleep),
        settings=_settings(params, objective, n_rows, n_features, max_leaves, constant, n_slots),
        rules=_split_rules(params),
        bins=_bins(matrix),
        loss_data=LossData(
            target=np.ascontiguousarray(target, dtype=np.float64),
            weight=np.zeros(0) if weight is None else np.ascontiguousarray(weight, np.float64),
            raw=raw,
            probability=np.empty(raw.shape if objective.kernel_id == SOFTMAX else (0, 0)),
            level=float(objective.level),
        ),
        columns=Columns(all_columns, all_columns % np.int32(matrix.features_per_tile)),
        rows=layout.Rows(
            rows=np.zeros(n_rows + _PADDING, dtype=np.uint32),
            scratch=np.empty(n_rows, dtype=np.uint32),
            fixed=aligned_empty(2 * n_rows, np.int32),
            packed=aligned_empty(2 * n_rows, np.int64),
        ),
        threads=_make_threads(matrix, n_threads, 2 * max_leaves),
        search=_make_search(n_threads, n_features),
        wide=_make_wide((n_slots + 2 + n_threads) * slot_cells),
        tree=_make_tree(2 * max_leaves, n_slots),
        scalars=scalars,
    )


def _settings(
    params: BoostParams,
    objective: Objective,
    n_rows: int,
    n_features: int,
    max_leaves: int,
    constant_hessian: bool,
    n_slots: int,
) -> layout.Settings:
    return layout.Settings(
        loss=objective.kernel_id,
        n_rows=n_rows,
        n_features=n_features,
        max_leaves=max_leaves,
        max_depth=params.max_depth if params.max_depth is not None else 1 << 30,
        depthwise=int(params.grow_policy == "depthwise"),
        learning_rate=float(params.learning_rate),
        seed=np.uint64(params.seed),
        subsample=float(params.subsample),
        columns_by_level=float(params.colsample_bylevel),
        columns_by_node=float(params.colsample_bynode),
        constant_hessian=int(constant_hessian),
        first_order=int(params.leaf_estimation in FIRST_ORDER),
        adds_scores=1,
        n_slots=n_slots,
    )


def _bins(matrix: BinnedMatrix) -> Bins:
    return Bins(
        by_row=matrix.by_row.reshape(-1),
        by_column=matrix.by_column,
        tile_size=matrix.by_row.shape[1] * matrix.by_row.shape[2],
        tile_width=matrix.by_row.shape[2],
        features_per_tile=matrix.features_per_tile,
        n_bins=matrix.spec.bin_counts().astype(np.int32),
        stride=matrix.spec.stride,
    )


def _most_leaves(params: BoostParams, n_rows: int) -> int:
    """Upper bound for the leaves of a tree, from every limit that is set."""
    bound = max(1, n_rows // params.min_samples_leaf)
    if params.max_leaves is not None:
        bound = min(bound, params.max_leaves)
    if params.max_depth is not None and params.max_depth < 31:
        bound = min(bound, 1 << params.max_depth)
    return bound


def _split_rules(params: BoostParams) -> SplitRules:
    return SplitRules(
        min_samples_leaf=params.min_samples_leaf,
        min_child_weight=float(params.min_child_weight),
        reg_lambda=float(params.reg_lambda),
        reg_alpha=float(params.reg_alpha),
        gamma=float(params.gamma),
        max_delta_step=float(params.max_delta_step) or math.inf,
    )


def _make_threads(matrix: BinnedMatrix, n_threads: int, max_nodes: int) -> layout.Threads:
    tile_cells = matrix.features_per_tile * matrix.spec.stride
    return layout.Threads(
        cells=aligned_zeros((n_threads, tile_cells), np.int64),
        blocks=aligned_empty((n_threads, 2, BLOCK), np.float64),
        counts=aligned_zeros((n_threads, layout.COUNTS), np.int64),
        leaf_sums=aligned_zeros((n_threads, 2, max_nodes), np.int64),
    )


def _make_search(n_threads: int, n_features: int) -> layout.Search:
    return layout.Search(
        lanes=aligned_zeros((n_threads, 2, N_LANES), np.int64),
        found=aligned_zeros((n_threads, 2, layout.FOUND_FIELDS), np.int64),
        allowed=np.zeros((3, n_features), dtype=np.int32),
    )


def _make_wide(n_cells: int) -> Wide:
    return Wide(
        g=aligned_empty(n_cells, np.int64),
        h=aligned_empty(n_cells, np.int64),
        n=aligned_empty(n_cells, np.int32),
    )


def _make_tree(max_nodes: int, n_slots: int) -> layout.Tree:
    return layout.Tree(
        table=np.zeros((max_nodes, layout.NODE_FIELDS), dtype=np.int64),
        numbers=np.zeros((max_nodes, layout.NUMBERS)),
        free_slots=np.zeros(n_slots, dtype=np.int64),
    )


def _thresholds(feature: np.ndarray, bins: np.ndarray, spec: BinSpec) -> IntArray:
    """Key of the cut behind each split's bin; the highest key behind the last bin.

    A cut behind the last bin sends all values left: it sets missing values apart.
    """
    highest = {"float": int(keys_of_floats(np.array(np.inf))), "int": np.iinfo(np.int64).max}
    top = np.array([highest[kind] for kind in spec.schema.kinds], dtype=np.int64)
    cuts = np.append(spec.cut_keys, MISSING_KEY)  # so that a place past the end exists
    inner = feature >= 0
    column = np.where(inner, feature, 0)
    last = bins >= np.diff(spec.cut_start)[column]
    place = np.where(last | ~inner, len(spec.cut_keys), spec.cut_start[column] + bins)
    threshold = np.where(last, top[column], cuts[place])
    return np.where(inner, threshold, 0)
