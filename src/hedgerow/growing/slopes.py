"""Gives the leaves of grown trees their slopes (:mod:`hedgerow.kernels.slopes`)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import AnyArray, FloatArray, IntArray
from hedgerow.growing import state as layout
from hedgerow.growing.gradients import FIXED_BITS
from hedgerow.growing.setup import segments_of
from hedgerow.growing.tree import GrownTree
from hedgerow.kernels.slopes import (
    TERMS,
    LeafRows,
    LeafTerms,
    Slopes,
    add_leaf_lines,
    choose_columns,
    empty_terms,
    fit_terms,
)
from hedgerow.threads import run_blocks

_CELLS_PER_THREAD = 20_000
"""Rows of leaves, times terms, that pay for a thread."""


class SlopeFinder:
    """Finds the slopes of one tree after the other.

    Parameters
    ----------
    numbers : float64 (n_rows, n_features)
        Values of the rows that trees are grown on; read only.
    usable : bool, one per feature
        Whether it is one of numbers.
    penalty : float
        ``linear_lambda``.
    n_threads : int
    """

    def __init__(
        self,
        numbers: FloatArray,
        usable: npt.NDArray[np.bool_],
        penalty: float,
        n_threads: int,
    ) -> None:
        self._numbers = numbers
        self._usable = usable.astype(np.uint8)
        self._penalty = penalty
        self._n_threads = n_threads

    def with_slopes(self, tree: GrownTree, state: layout.State, scores: FloatArray) -> GrownTree:
        """The tree with slopes, whose values are added to ``scores`` of the rows it was grown on.

        Parameters
        ----------
        tree : GrownTree
            The last one that was grown with ``state``.
        state : State
        scores : float64 (n_rows,)
            Changed in place; empty: they are left to the caller.
        """
        rows, leaves, start = segments_of(state.tree, state.scalars, state.rows.rows)
        g_unit, h_unit = _units_of(state)
        data = LeafRows(rows, start, state.rows.fixed, g_unit, h_unit, self._numbers)
        terms = empty_terms(len(leaves))
        choose_columns(tree.feature, tree.left, tree.right, self._usable, leaves, start, terms)
        rate, cells = float(state.settings.learning_rate), len(rows) * TERMS
        fewest = 1 + len(leaves) * _CELLS_PER_THREAD // max(1, cells)

        def fit(first: int, stop: int) -> None:
            fit_terms(data, terms, self._penalty, rate, first, stop)

        run_blocks(fit, len(leaves), self._n_threads, fewest)
        slopes = _by_node(terms, leaves, len(tree.value))
        if len(scores) > 0:

            def add(first: int, stop: int) -> None:
                add_leaf_lines(tree.value, slopes, leaves, data, first, stop, scores)

            run_blocks(add, len(leaves), self._n_threads, fewest)
        return replace(tree, slopes=slopes)


def _units_of(state: layout.State) -> tuple[float, float]:
    """What one counts for in the fixed g and h of the last tree."""
    scalars = state.scalars
    scale = float(scalars[layout.IS_UNIT_SCALE : layout.IS_UNIT_SCALE + 1].view(np.float64)[0])
    g_unit = 2.0 ** float(scalars[layout.IS_G_EXPONENT] - FIXED_BITS)
    h_unit = 2.0 ** float(scalars[layout.IS_H_EXPONENT] - FIXED_BITS)
    return scale * g_unit, scale * (1.0 if state.settings.constant_hessian == 1 else h_unit)


def _by_node(terms: LeafTerms, leaves: IntArray, n_nodes: int) -> Slopes:
    """The terms in the order of the nodes, without those whose slope is 0."""
    order = np.argsort(leaves)
    kept = terms.slope[order] != 0.0
    count, bounds = np.zeros(n_nodes + 1, dtype=np.int64), np.zeros((2, n_nodes))
    count[leaves[order] + 1] = kept.sum(axis=1)
    bounds[:, leaves] = terms.bounds.T

    def chosen(values: AnyArray) -> AnyArray:
        return values[order][kept]

    return Slopes(
        start=np.cumsum(count),
        column=chosen(terms.column),
        slope=chosen(terms.slope),
        center=chosen(terms.center),
        low=bounds[0],
        high=bounds[1],
    )
