"""The common start and end of all growers.

The parameters and arrays that histogram growth and exact growth share, and the
reading of the finished table of nodes.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import AnyArray, FloatArray, IntArray, aligned_empty, aligned_zeros
from hedgerow.data.binning.matrix import BinnedMatrix
from hedgerow.growing.core import state as s
from hedgerow.growing.core.stages.gradients import BLOCK
from hedgerow.growing.core.tree import GrownTree
from hedgerow.growing.sampling.goss import follows_gradients, row_share, unit_scale
from hedgerow.kernels.cuda.commands import no_gpu
from hedgerow.kernels.histograms.histogram import Columns, HistogramSums
from hedgerow.kernels.histograms.pairs import Pairs, no_pairs
from hedgerow.kernels.primitives.barrier import SIGNAL_SIZE, ThreadTeam
from hedgerow.kernels.primitives.hashing import hash_range
from hedgerow.kernels.simd.lanes import WIDTH
from hedgerow.kernels.splits.split import SplitRules
from hedgerow.objectives.base import Objective
from hedgerow.objectives.derivatives import LossData
from hedgerow.objectives.precomputed import RowDerivatives, first_column, prepared_shape
from hedgerow.params import FIRST_ORDER, BoostParams
from hedgerow.schedules import is_number
from hedgerow.threads import wait_addresses

_COLUMN_STREAM = 4 << 40

Allocate = Callable[..., AnyArray]
"""``allocate(shape, dtype)``: an array whose values are not set."""


class Fit(NamedTuple):
    """The inputs of all growers of trees, for any layout of the columns.

    target     float64 (n_rows,), or (n_rows, n_targets) for several targets
    weight     float64 (n_rows,), or None
    raw        float64 (n_outputs, n_rows): raw scores
    objective
    params
    n_threads
    """

    target: FloatArray
    weight: FloatArray | None
    raw: FloatArray
    objective: Objective
    params: BoostParams
    n_threads: int

    @property
    def constant_hessian(self) -> bool:
        """See :func:`has_constant_hessian`."""
        return has_constant_hessian(self.objective, self.weight, self.params)

    def derivatives(self) -> RowDerivatives:
        """Return gradients and hessians that are computed before each tree."""
        newton = self.params.leaf_estimation not in FIRST_ORDER
        bound = self.objective.bound_to(self.target, self.weight)
        return RowDerivatives(bound, self.target, self.weight, self.n_threads, newton)


def start_state(
    fit: Fit,
    options: s.Options,
    n_columns: int,
    n_slots: int,
    tile_cells: int,
    rows: s.Rows,
    allocate: Allocate = aligned_empty,
) -> s.State:
    """Allocate what all trees need; ``allocate`` makes further arrays of all rows."""
    # Bins, columns, histograms and arrays of special trees are empty: the caller adds those that
    # its trees use.
    params, objective, n_threads = fit.params, fit.objective, fit.n_threads
    n_rows, n_features = fit.raw.shape[1], len(options.features)
    max_leaves = most_leaves(params, n_rows)
    max_nodes = 2 * max_leaves
    settings = s.Settings(
        loss=objective.kernel_id,
        n_rows=n_rows,
        n_columns=n_columns,
        max_leaves=max_leaves,
        max_depth=params.max_depth if params.max_depth is not None else 1 << 30,
        depthwise=int(params.grow_policy == "depthwise"),
        # With a schedule the rate of each round is set before its trees are grown.
        learning_rate=float(params.learning_rate) if is_number(params.learning_rate) else math.nan,
        longest_step=limit_in_grower(params, objective),
        seed=np.uint64(params.seed),
        subsample=row_share(params),
        columns_by_level=float(params.colsample_bylevel),
        columns_by_node=float(params.colsample_bynode),
        constant_hessian=int(fit.constant_hessian),
        first_order=int(params.leaf_estimation in FIRST_ORDER),
        adds_scores=1,
        packs_all=int(not follows_gradients(params)),
        n_slots=n_slots,
    )
    weight = np.zeros(0) if fit.weight is None else np.ascontiguousarray(fit.weight, np.float64)
    loss_data = LossData(
        target=first_column(fit.target),
        weight=weight,
        raw=fit.raw,
        probability=allocate(prepared_shape(objective, n_rows), np.float64),
        level=float(objective.level),
    )
    threads = s.Threads(
        cells=aligned_zeros((n_threads, tile_cells), np.int64),
        blocks=aligned_empty((n_threads, 2, BLOCK), np.float64),
        counts=aligned_zeros((n_threads, s.COUNTS), np.int64),
        leaf_sums=aligned_zeros((n_threads, 2, max_nodes), np.int64),
    )
    scalars = np.zeros(s.N_SCALARS, dtype=np.int64)
    scalars[s.IS_N_COLUMNS] = n_columns
    scalars[s.IS_N_FEATURES] = n_features
    scalars[s.IS_UNIT_SCALE] = np.float64(unit_scale(params)).view(np.int64)
    return s.State(
        team=ThreadTeam(n_threads, aligned_zeros(SIGNAL_SIZE, np.int64), *wait_addresses()),
        settings=settings,
        rules=split_rules(params),
        bins=s.no_bins(),
        loss_data=loss_data,
        columns=Columns(np.zeros(0, np.int32), np.zeros(0, np.int32), no_pairs()),
        rows=rows,
        threads=threads,
        search=s.Search(
            lanes=aligned_zeros((n_threads, 2, WIDTH), np.int64),
            found=aligned_zeros((n_threads, 2, s.FOUND_FIELDS), np.int64),
            allowed=np.ones((3, n_features), dtype=np.int32),
        ),
        histograms=make_histogram_sums(0),
        tree=tree_arrays(max_nodes, n_slots),
        scalars=scalars,
        options=options,
        vectors=s.no_vectors(),
        sorted_columns=s.no_sorted(),
        level=s.no_level(),
        gpu=no_gpu(),
    )


def holds_vectors(params: BoostParams) -> bool:
    """Return whether a tree is for all outputs, with vectors in its leaves."""
    return params.multi_strategy == "multi_output_tree"


def newton_limit(params: BoostParams, objective: Objective, rate: float) -> float:
    """Return the limit on the Newton steps of leaves; infinite without one."""
    # It is for losses whose hessians may be nearly 0; ``max_delta_step`` replaces it.
    if params.max_delta_step > 0.0:
        return math.inf
    return objective.longest_step(params.reg_lambda, 0.0 if params.boosting == "rf" else rate)


def limit_in_grower(params: BoostParams, objective: Objective) -> float:
    """Return the limit on steps that growers apply; infinite if the training loop does."""
    # The loop does where a step is not final: leaves have lines, a line search follows, or the rate
    # of the next round is not known.
    if params.linear_leaves or params.leaf_estimation == "line_search":
        return math.inf
    if params.num_parallel_tree > 1 or not is_number(params.learning_rate):
        return math.inf
    return newton_limit(params, objective, params.learning_rate)


def most_leaves(params: BoostParams, n_rows: int) -> int:
    """Return the upper bound for the leaves of a tree, from every limit that is set."""
    bound = max(1, n_rows // params.min_samples_leaf)
    if params.max_leaves is not None:
        bound = min(bound, params.max_leaves)
    if params.max_depth is not None and params.max_depth < 31:
        bound = min(bound, 1 << params.max_depth)
    return bound


def split_rules(params: BoostParams) -> SplitRules:
    """Return the rules that a split has to satisfy."""
    return SplitRules(
        min_samples_leaf=params.min_samples_leaf,
        min_child_weight=float(params.min_child_weight),
        reg_lambda=float(params.reg_lambda),
        reg_alpha=float(params.reg_alpha),
        gamma=float(params.gamma),
        max_delta_step=float(params.max_delta_step) or math.inf,
    )


def tree_arrays(max_nodes: int, n_slots: int) -> s.Tree:
    """Return space for the nodes of a tree, and for batches of one job."""
    return s.Tree(
        table=np.zeros((max_nodes, s.NODE_FIELDS), dtype=np.int64),
        numbers=np.zeros((max_nodes, s.NUMBERS)),
        free_slots=np.zeros(n_slots, dtype=np.int64),
        batch=make_batch(1),
    )


def make_batch(n_jobs: int) -> IntArray:
    """Return space for the jobs of a batch."""
    return np.zeros((n_jobs, s.JOB_FIELDS), dtype=np.int64)


def row_arrays(n_rows: int, padding: int, allocate: Allocate = aligned_empty) -> s.Rows:
    """Return arrays with an entry per row; ``padding`` zeros follow the row ids."""
    rows = allocate(n_rows + padding, np.uint32)
    rows[n_rows:] = 0
    return s.Rows(
        rows=rows,
        scratch=allocate(n_rows, np.uint32),
        quantized=allocate(2 * n_rows, np.int32),
        packed=allocate(2 * n_rows, np.int64),
    )


def has_constant_hessian(
    objective: Objective, weight: FloatArray | None, params: BoostParams
) -> bool:
    """Return whether every row's hessian is 1 (or the same for all rows of any sample)."""
    first_order = params.leaf_estimation in FIRST_ORDER
    constant = (objective.constant_hessian or first_order) and weight is None
    return constant and not follows_gradients(params)


def drawn_columns(params: BoostParams, tree: int, n_features: int) -> npt.NDArray[np.int32]:
    """Return the columns that a tree may use, ascending."""
    n_taken = max(1, round(params.colsample_bytree * n_features))
    order = hash_range(params.seed, _COLUMN_STREAM + tree, 0, n_features)
    if params.feature_weights is not None and n_taken < n_features:
        weight = np.array(params.feature_weights)
        uniform = ((order >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
        with np.errstate(divide="ignore"):  # columns of weight 0 come last
            keys = np.log(uniform) / weight
        n_taken = min(n_taken, np.count_nonzero(weight))
        return np.sort(np.argsort(-keys, kind="stable")[:n_taken]).astype(np.int32)
    return np.sort(np.argsort(order, kind="stable")[:n_taken]).astype(np.int32)


def draw_columns(
    params: BoostParams, tree: int, features: npt.NDArray[np.int32], scalars: IntArray
) -> npt.NDArray[np.int32]:
    """Draw the columns of a tree; list them at the front of ``features``, and note how many."""
    chosen = drawn_columns(params, tree, len(features))
    features[: len(chosen)] = chosen
    scalars[s.IS_N_COLUMNS] = scalars[s.IS_N_FEATURES] = len(chosen)
    return chosen


def list_columns(matrix: BinnedMatrix, chosen: npt.NDArray[np.int32]) -> Columns:
    """Return the sorted columns ``chosen``, and the bytes of a row that hold them."""
    position = chosen % np.int32(matrix.features_per_tile)
    if not matrix.paired:
        return Columns(chosen, position, no_pairs())
    pairs, held_in = np.unique(chosen // 2, return_inverse=True)
    byte = (pairs % matrix.bytes_per_tile).astype(np.int32)
    return Columns(chosen, position, Pairs(1, byte, held_in.astype(np.int32)))


def replace_columns(columns: Columns, drawn: Columns) -> None:
    """Write the list ``drawn`` over a longer one, where it stands."""
    columns.feature[: len(drawn.feature)] = drawn.feature
    columns.position[: len(drawn.feature)] = drawn.position
    if drawn.pairs.used == 1:
        columns.pairs.byte[: len(drawn.pairs.byte)] = drawn.pairs.byte
        columns.pairs.held_in[: len(drawn.feature)] = drawn.pairs.held_in


def tree_without_bins(arrays: s.Tree, n_nodes: int, threshold: IntArray) -> GrownTree:
    """Return the tree in the table of nodes, for growth without bins."""
    table, numbers = arrays.table[:n_nodes], arrays.numbers[:n_nodes]
    left = table[:, s.NODE_LEFT].astype(np.int32)
    inner = left != 0
    return GrownTree(
        feature=features_of(arrays, n_nodes),
        threshold=threshold,
        bin=np.zeros(0, dtype=np.uint8),
        missing_left=(inner & (table[:, s.NODE_MISSING_LEFT] == 1)).astype(np.uint8),
        left=left,
        right=table[:, s.NODE_RIGHT].astype(np.int32),
        value=numbers[:, s.NUMBER_VALUE].copy(),
        gain=np.where(inner, numbers[:, s.NUMBER_GAIN], 0.0),
        cover=numbers[:, s.NUMBER_COVER].copy(),
        count=table[:, s.NODE_COUNT].copy(),
        column=np.zeros(0, dtype=np.int32),
        left_bins=np.zeros((0, s.SET_WORDS), dtype=np.uint64),
    )


def features_of(arrays: s.Tree, n_nodes: int) -> npt.NDArray[np.int32]:
    """Return the split column of each node, -1 for leaves."""
    table = arrays.table[:n_nodes]
    inner = table[:, s.NODE_LEFT] != 0
    return np.where(inner, table[:, s.NODE_FEATURE], -1).astype(np.int32)


class SumsPool:
    """Sums of histograms, lent for the time that one tree grows.

    Folds grow trees in turn, and between two trees their histograms mean nothing.  With a pool
    as many are there as trees that grow at the same time: the ten growers of a default fit of
    1,000 rows of 10 columns held 4.3 MB of them, and one holds 0.4 MB, which stay in the cache.

    All growers of a pool have the same bins.  So a cell that no row can be in is 0 in all trees.
    """

    def __init__(self) -> None:
        self._free: defaultdict[tuple[int, bool], list[HistogramSums]] = defaultdict(list)

    def take(self, n_cells: int, filled: bool) -> HistogramSums:
        """Lend sums to one caller until it gives them back; see :func:`make_histogram_sums`."""
        try:
            # One instruction of the interpreter: threads need no lock.
            return self._free[n_cells, filled].pop()
        except IndexError:
            return make_histogram_sums(n_cells, filled)

    def give_back(self, histograms: HistogramSums, filled: bool) -> None:
        """Give back the sums after the tree has grown."""
        self._free[len(histograms.g), filled].append(histograms)


def make_histogram_sums(n_cells: int, filled: bool = True) -> HistogramSums:
    """Return sums of all slots, 0 unless ``filled``: cells without rows are never written."""
    make = aligned_empty if filled else aligned_zeros
    return HistogramSums(make(n_cells, np.int64), make(n_cells, np.int64), make(n_cells, np.int32))
