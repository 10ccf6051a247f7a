"""Exact greedy and approximate growth: from Python to the compiled stages and back.

``tree_method="exact"`` searches every cut between values that differ in a node,
``"approx"`` those at weighted quantiles of a column, proposed once a tree
(``sketch="global"``) or anew at every node (``"local"``); both on columns sorted
once (:mod:`hedgerow.data.external.blocks`).  The stages are in
:mod:`hedgerow.growing.exact.stages`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import AnyArray, FloatArray, IntArray, RowArray, aligned_empty, aligned_zeros
from hedgerow.data.binning.bins import integer_midpoints, midpoints
from hedgerow.data.external.blocks import PADDING, ColumnBlocks
from hedgerow.data.reading.table import Table
from hedgerow.data.schema import ColumnKind
from hedgerow.growing.core import state as layout
from hedgerow.growing.core.branches import make_constraints
from hedgerow.growing.core.gradients import BLOCK
from hedgerow.growing.core.grow import ORDER_GROW, ORDER_STOP, work
from hedgerow.growing.core.grower import make_categories
from hedgerow.growing.core.setup import (
    begin_tree,
    drawn_columns,
    features_of,
    finished_tree,
    has_constant_hessian,
    loss_data_of,
    most_leaves,
    row_arrays,
    segments_of,
    settings_of,
    split_rules,
    start_scalars,
    tree_arrays,
)
from hedgerow.growing.core.tree import GrownTree
from hedgerow.growing.exact import stages
from hedgerow.growing.sampling.goss import make_sampler, weights_of
from hedgerow.kernels.presorted.exact import CHUNK, CUTS, CutBuffer
from hedgerow.kernels.primitives.barrier import SIGNAL_SIZE, ThreadTeam
from hedgerow.kernels.tables.keys import floats_of_keys, keys_of_floats
from hedgerow.objectives.base import Objective
from hedgerow.objectives.precomputed import Given
from hedgerow.params import FIRST_ORDER, BoostParams
from hedgerow.threads import Team, wait_addresses

_HIGHEST = {"float": int(keys_of_floats(np.array(np.inf))), "int": np.iinfo(np.int64).max}
_LINE = 64  # of scratch: threads write to lines of their own


class ExactGrower:
    """Grows the trees of one fit on one table of sorted columns.

    Used as :class:`hedgerow.growing.core.grower.TreeGrower` is; trees have no bins.

    Parameters
    ----------
    blocks : ColumnBlocks
    target, weight : float64 (n_rows,), weight or None
    raw : float64 (n_outputs, n_rows)
        Raw scores; every grown tree is added to them in place.
    objective : Objective
    params : BoostParams
        ``tree_method`` is ``"exact"`` or ``"approx"``.
    n_threads : int
        Helpers are started at once; :meth:`close` ends them.
    adds_scores : bool, default=True
        False: leave the raw scores to the caller.
    """

    def __init__(
        self,
        blocks: ColumnBlocks,
        target: FloatArray,
        weight: FloatArray | None,
        raw: FloatArray,
        objective: Objective,
        params: BoostParams,
        n_threads: int,
        adds_scores: bool = True,
    ) -> None:
        self._blocks = blocks
        self._params = params
        self._columns = _sorted_columns(blocks, params, n_threads)
        state = _make_state(
            blocks, target, weight, raw, objective, params, n_threads, self._columns
        )
        settings = state.settings._replace(adds_scores=int(adds_scores))
        self._state = state._replace(settings=settings)
        newton = params.leaf_estimation not in FIRST_ORDER
        self._given = Given.of(objective, target, weight, n_threads, newton)
        self._team = Team(
            n_threads,
            lambda thread: work(thread, self._state, ORDER_GROW),
            lambda: work(0, self._state, ORDER_STOP),
        )

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
        work(0, self._state, ORDER_GROW)
        return self._copy_tree()

    def rows_outside(self) -> npt.NDArray[np.uint32]:
        """Rows that the last tree was not grown on (empty without row sampling)."""
        n_inside = int(self._state.scalars[layout.IS_N_ROWS])
        return self._state.rows.rows[n_inside : self._blocks.n_rows]

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
        chosen = drawn_columns(self._params, tree, self._blocks.n_features)
        self._columns.choice.columns[: len(chosen)] = chosen
        self._state.scalars[layout.IS_N_COLUMNS] = len(chosen)
        self._state.scalars[layout.IS_N_FEATURES] = len(chosen)

    def _copy_tree(self) -> GrownTree:
        arrays, n_nodes = self._state.tree, int(self._state.scalars[layout.IS_N_NODES])
        edges = self._columns.lists.edges[:n_nodes]
        threshold = thresholds(self._blocks.table, features_of(arrays, n_nodes), edges)
        return finished_tree(arrays, n_nodes, threshold, np.zeros(0, dtype=np.uint8))


def thresholds(table: Table, feature: npt.NDArray[np.int32], edges: RowArray) -> IntArray:
    """Keys of the thresholds of all nodes; 0 for leaves.

    Parameters
    ----------
    table : Table
    feature : int32 (n_nodes,)
        -1 for leaves.
    edges : uint32 (n_nodes, 2)
        Rows with the highest value below the cut and the lowest above it.  The same
        row twice: the cut is behind the last value and sets missing values apart.
    """
    keys = np.zeros(len(feature), dtype=np.int64)
    inner = np.flatnonzero(feature >= 0)
    column = feature[inner]
    below = table.values[edges[inner, 0], column]
    above = table.values[edges[inner, 1], column]
    apart = edges[inner, 0] == edges[inner, 1]
    keys[inner] = thresholds_between(below, above, column, apart, table.schema.kinds)
    return keys


def thresholds_between(
    below: AnyArray,
    above: AnyArray,
    column: npt.NDArray[np.int32],
    apart: npt.NDArray[np.bool_],
    kinds: Sequence[ColumnKind],
) -> IntArray:
    """Keys of the thresholds between values of a table; the highest ones where ``apart``."""
    is_int = np.array([kind == "int" for kind in kinds])[column]
    if below.dtype == np.int64:
        halves = midpoints(floats_of_keys(below), floats_of_keys(above))
        middle = np.where(is_int, integer_midpoints(below, above), keys_of_floats(halves))
    else:
        middle = keys_of_floats(_float_midpoints(below, above))
    top = np.where(is_int, _HIGHEST["int"], _HIGHEST["float"])
    return np.where(apart, top, middle)


def _float_midpoints(below: AnyArray, above: AnyArray) -> FloatArray:
    """``(below + above) / 2`` in the type of the values, as XGBoost has it.

    Between neighbours that is rounded to one of them: it has to be the lower one.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        middle = (below + above) * below.dtype.type(0.5)
    lower, upper = below.astype(np.float64), above.astype(np.float64)
    halves = np.where(middle < above, middle, below).astype(np.float64)
    # Infinite ends, or a sum that is too large for the type.
    return np.where(np.isfinite(middle), halves, midpoints(lower, upper))


def _make_state(
    blocks: ColumnBlocks,
    target: FloatArray,
    weight: FloatArray | None,
    raw: FloatArray,
    objective: Objective,
    params: BoostParams,
    n_threads: int,
    sorted_columns: layout.Sorted,
) -> layout.State:
    """Allocate everything that the compiled stages use."""
    n_rows, n_features = blocks.n_rows, blocks.n_features
    max_leaves = most_leaves(params, n_rows)
    constant = has_constant_hessian(objective, weight, params)
    pause, sleep = wait_addresses()
    columns = sorted_columns.choice.columns
    no_bins: Any = None  # the stages that read bins and histograms are not compiled
    return layout.State(
        team=ThreadTeam(n_threads, aligned_zeros(SIGNAL_SIZE, np.int64), pause, sleep),
        settings=settings_of(
            params, objective, n_rows, n_features, max_leaves, constant, max_leaves
        ),
        rules=split_rules(params),
        loss_data=loss_data_of(target, weight, raw, objective),
        rows=row_arrays(n_rows, PADDING),
        threads=layout.Threads(
            cells=aligned_zeros((n_threads, 1), np.int64),
            blocks=aligned_empty((n_threads, 2, BLOCK), np.float64),
            counts=aligned_zeros((n_threads, layout.COUNTS), np.int64),
            leaf_sums=aligned_zeros((n_threads, 2, 2 * max_leaves), np.int64),
        ),
        tree=tree_arrays(2 * max_leaves, max_leaves),
        scalars=start_scalars(n_features, n_features, params),
        search=layout.Search(
            lanes=no_bins,
            found=aligned_zeros((n_threads, 2, layout.FOUND_FIELDS), np.int64),
            allowed=np.ones((3, n_features), dtype=np.int32),
        ),
        bins=no_bins,
        columns=no_bins,
        histograms=no_bins,
        options=make_options(params, n_rows, columns, n_threads, 2 * max_leaves),
        vectors=None,
        sorted_columns=sorted_columns,
        level=None,
    )


def make_options(
    params: BoostParams,
    n_rows: int,
    columns: npt.NDArray[np.int32],
    n_threads: int,
    max_nodes: int,
) -> layout.Options:
    """What the compiled stages need beyond the usual fit."""
    no_bins, no_categories = np.zeros(0, dtype=np.int64), np.zeros(len(columns), dtype=np.bool_)
    return layout.Options(
        features=columns,
        categories=make_categories(no_categories, params, n_threads),
        bundles=None,
        lists=None,
        constraints=make_constraints(params, len(columns), no_bins, max_nodes),
        sampler=make_sampler(params, n_rows, n_threads, packs=False),
    )


def _sorted_columns(blocks: ColumnBlocks, params: BoostParams, n_threads: int) -> layout.Sorted:
    return layout.Sorted(
        lists=_make_lists(blocks, most_leaves(params, blocks.n_rows), n_threads),
        choice=layout.Choice(
            columns=np.arange(blocks.n_features, dtype=np.int32),
            sketch=np.int64(_sketch(params)),
            eps=float(params.sketch_eps),
        ),
    )


def _sketch(params: BoostParams) -> int:
    if params.tree_method != "approx":
        return stages.EVERY_VALUE
    return stages.GLOBAL if params.sketch == "global" else stages.LOCAL


def _make_lists(blocks: ColumnBlocks, max_leaves: int, n_threads: int) -> layout.Lists:
    longest = int(np.diff(blocks.starts).max())
    width = -(-(longest + PADDING) // _LINE) * _LINE
    work = aligned_empty(len(blocks.entries), np.uint32)
    work[-PADDING:] = 0  # read ahead of the last list, as rows
    scratch = aligned_zeros((n_threads, width), np.uint32)
    cuts = [aligned_empty((n_threads, CUTS + CHUNK + _LINE), np.int64) for _ in CutBuffer._fields]
    return layout.Lists(
        entries=blocks.entries,
        work=work,
        starts=blocks.starts,
        segments=np.empty((max_leaves, blocks.n_features, 2), dtype=np.int64),
        slot_of=np.zeros(2 * max_leaves, dtype=np.int64),
        edges=np.zeros((2 * max_leaves, 2), dtype=np.uint32),
        sides=np.zeros(blocks.n_rows, dtype=np.uint8),
        scratch=scratch,
        cuts=CutBuffer(*cuts),
    )
