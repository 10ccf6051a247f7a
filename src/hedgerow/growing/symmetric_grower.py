"""From Python to the compiled symmetric tree, and back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hedgerow.arrays import FloatArray, aligned_zeros
from hedgerow.compile import announce_compilation
from hedgerow.data.matrix import BinnedMatrix
from hedgerow.growing import state as layout
from hedgerow.growing.grow import ORDER_GROW, ORDER_STOP
from hedgerow.growing.grower import TreeGrower, cuts_of, for_copies, make_state
from hedgerow.growing.setup import begin_tree
from hedgerow.growing.symmetric_grow import work_symmetric
from hedgerow.growing.symmetric_level import (
    ENTRY_FIELDS,
    GROUP_CELLS,
    LEVEL_COUNTS,
    Level,
    Sets,
)
from hedgerow.growing.tree import GrownTree
from hedgerow.kernels.category_split import CATEGORY_PLACES, SCRATCH_SIZE
from hedgerow.kernels.lanes import N_LANES
from hedgerow.kernels.symmetric_category import INFO
from hedgerow.objectives.base import Objective
from hedgerow.objectives.given import Given
from hedgerow.params import FIRST_ORDER, BoostParams
from hedgerow.threads import Team


class SymmetricGrower(TreeGrower):
    """Grows symmetric trees of ``params.max_depth`` levels.

    Parameters
    ----------
    matrix : BinnedMatrix
        With both layouts, without bundles.
    target, weight : float64 (n_rows,), weight or None
    raw : float64 (n_outputs, n_rows)
        Raw scores; every grown tree is added to them in place.
    objective : Objective
    params : BoostParams
        Without what is asked of single columns.
    n_threads : int
        Helpers are started at once; :meth:`close` ends them.
    adds_scores : bool, default=True
        False: leave the raw scores to the caller.
    n_copies : int, default=1
        How often each row is there, for ``cat_smooth``.
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
    ) -> None:
        announce_compilation()
        params = replace(params, max_leaves=None)  # it bounds the space for other trees
        self._matrix = matrix
        self._params = params
        self._cuts = cuts_of(matrix.spec)
        state = make_state(matrix, target, weight, raw, objective, params, n_threads)
        if state.extras is not None:
            state = state._replace(extras=for_copies(state.extras, n_copies))
        settings = state.settings._replace(adds_scores=int(adds_scores))
        self._state = state._replace(settings=settings)
        self._level = _make_level(matrix, self._state, n_threads)
        newton = params.leaf_estimation not in FIRST_ORDER
        self._given = Given.of(objective, target, weight, n_threads, newton)
        self._team = Team(
            n_threads,
            lambda thread: work_symmetric(thread, self._state, self._level, ORDER_GROW),
            lambda: work_symmetric(0, self._state, self._level, ORDER_STOP),
        )

    def grow(self, tree: int, output: int) -> GrownTree:
        """Grow tree number ``tree`` for ``output``; see :meth:`TreeGrower.grow`."""
        scalars = self._state.scalars
        begin_tree(scalars, tree, output, len(self._state.loss_data.raw))
        if self._params.colsample_bytree < 1.0:
            self._draw_columns(tree)
        self._given.prepare(self._state.loss_data, output, int(scalars[layout.IS_ROUND]))
        work_symmetric(0, self._state, self._level, ORDER_GROW)
        return self._copy_tree()


def _make_level(matrix: BinnedMatrix, state: layout.State, n_threads: int) -> Level:
    """Space for the search of a level."""
    most_columns = -(-matrix.n_features // n_threads)
    n_groups = -(-most_columns // N_LANES)
    categories = None if state.extras is None else state.extras.categories
    return Level(
        gains=aligned_zeros((n_threads, n_groups * 2 * matrix.stride * N_LANES), np.float64),
        groups=aligned_zeros((n_threads, n_groups * GROUP_CELLS), np.int64),
        lacks=np.zeros(matrix.n_features, dtype=np.int32),
        entries=aligned_zeros((2, len(state.tree.table), ENTRY_FIELDS), np.int64),
        choice=np.zeros(layout.FOUND_FIELDS, dtype=np.int64),
        counts=np.zeros(LEVEL_COUNTS, dtype=np.int64),
        sets=None if categories is None else _make_sets(categories),
    )


def _make_sets(categories: layout.Categories) -> Sets:
    """Space for the orders of the category columns."""
    chosen = categories.chosen == 1
    n_columns = int(chosen.sum())
    return Sets(
        categories=categories,
        number=np.where(chosen, np.cumsum(chosen) - 1, -1).astype(np.int32),
        places=aligned_zeros((n_columns, CATEGORY_PLACES, SCRATCH_SIZE), np.int64),
        info=aligned_zeros((n_columns, INFO), np.int64),
        gains=aligned_zeros((n_columns, SCRATCH_SIZE), np.float64),
    )
