"""From Python to the compiled symmetric tree, and back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hedgerow.arrays import FloatArray, aligned_zeros
from hedgerow.compile import entry_of
from hedgerow.data.matrix import BinnedMatrix
from hedgerow.growing.core import state as layout
from hedgerow.growing.core.grower import TreeGrower
from hedgerow.growing.core.setup import refuse_layout
from hedgerow.growing.symmetric.grow import work_symmetric
from hedgerow.growing.symmetric.level import (
    ENTRY_FIELDS,
    GROUP_CELLS,
    LEVEL_COUNTS,
    Level,
    Sets,
)
from hedgerow.kernels.category_split import CATEGORY_PLACES, SCRATCH_SIZE
from hedgerow.kernels.lanes import WIDTH
from hedgerow.kernels.symmetric_category import INFO
from hedgerow.objectives.base import Objective


class SymmetricGrower(TreeGrower):
    """Grows symmetric trees of ``params.max_depth`` levels.

    ``params`` ask nothing of single columns, and column ``j`` of the matrix is feature ``j``.
    """

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
        refuse_layout(self._matrix, "a common cut of a level")
        # The number of leaves bounds the space for other trees.
        self._params = replace(self._params, max_leaves=None)
        state = super()._start(target, weight, raw, objective, n_threads, adds_scores, n_copies)
        self._level = _make_level(self._matrix, state, n_threads)
        return state

    def _work(self, thread: int, order: int) -> None:
        if self._compiled is None:
            self._compiled = entry_of(work_symmetric, thread, self._state, self._level, order)
        self._compiled(thread, self._state, self._level, order)


def _make_level(matrix: BinnedMatrix, state: layout.State, n_threads: int) -> Level:
    """Space for the search of a level."""
    most_columns = -(-matrix.n_features // n_threads)
    n_groups = -(-most_columns // WIDTH)
    return Level(
        gains=aligned_zeros((n_threads, n_groups * 2 * matrix.stride * WIDTH), np.float64),
        groups=aligned_zeros((n_threads, n_groups * GROUP_CELLS), np.int64),
        lacks=np.zeros(matrix.n_features, dtype=np.int32),
        entries=aligned_zeros((2, len(state.tree.table), ENTRY_FIELDS), np.int64),
        choice=np.zeros(layout.FOUND_FIELDS, dtype=np.int64),
        counts=np.zeros(LEVEL_COUNTS, dtype=np.int64),
        sets=_make_sets(state.extras.categories),
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
