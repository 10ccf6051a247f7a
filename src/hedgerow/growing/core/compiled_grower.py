"""A grower whose trees the compiled loop grows, on rows in memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import FloatArray, IntArray, RowArray
from hedgerow.compile import entry_of
from hedgerow.growing.core import state as s
from hedgerow.growing.core.grow import ORDER_GROW, ORDER_STOP, work
from hedgerow.growing.core.setup import Fit
from hedgerow.growing.core.tree import GrownTree, Nodes, NodeStore, TreeOfTable
from hedgerow.threads import Team


class CompiledGrower(ABC):
    """Grows the trees of one fit.

    A subclass makes the arrays that :mod:`hedgerow.growing.core.grow` works on, once a fit, and
    reads the finished tree.

    fit          Fit: ``fit.n_threads - 1`` helpers are started at once; :meth:`close` ends them
    adds_scores  bool, default=True: whether the values of every grown tree are added to ``fit.raw``
                 in place; False: the caller does
    """

    _finish: Callable[[Nodes], GrownTree]
    _compiled: Callable[..., Any]  # the stages of one thread

    def __init__(self, fit: Fit, adds_scores: bool = True) -> None:
        self._params, self._kept = fit.params, NodeStore()
        state = self._make_state(fit)
        settings = state.settings._replace(adds_scores=int(adds_scores))
        self._state = state._replace(settings=settings)
        self._derivatives = fit.derivatives()
        self._team = self._start_team(fit.n_threads)

    def _start_team(self, n_threads: int) -> Team:
        """Start the helpers."""
        self._compiled = entry_of(work, 0, self._state, ORDER_GROW)
        grow, stop = (
            lambda thread: self._compiled(thread, self._state, ORDER_GROW),
            lambda: self._compiled(0, self._state, ORDER_STOP),
        )
        return Team(n_threads, grow, stop)

    @abstractmethod
    def _make_state(self, fit: Fit) -> s.State:
        """Allocate everything that the compiled stages use."""

    @abstractmethod
    def _draw_columns(self, tree: int) -> None:
        """Draw the columns that a tree may use."""

    def _copy_tree(self) -> GrownTree:
        """Copy the last tree out of the arrays of the next one."""
        arrays, n_nodes = self._state.tree, int(self._state.scalars[s.IS_N_NODES])
        block, first = self._kept.keep(arrays.table, arrays.numbers, n_nodes)
        return TreeOfTable(block, first, first + n_nodes, self._finish)

    def _run(self) -> None:
        """Grow the tree that the scalars name."""
        self._compiled(0, self._state, ORDER_GROW)

    def set_rate(self, rate: float) -> None:
        """Set the factor on the values of the trees to come."""
        settings = self._state.settings._replace(learning_rate=rate)
        self._state = self._state._replace(settings=settings)

    def grow(self, tree: int, output: int = 0) -> GrownTree:
        """Grow tree number ``tree`` for ``output``; update the raw scores if ``adds_scores``."""
        vectors = self._state.vectors
        if vectors.used == 0:
            self._begin(tree, output)
            self._run()
            return self._copy_tree()
        scalars = vectors.outputs.scalars
        scalars[:, s.IS_TREE] = scalars[:, s.IS_ROUND] = tree
        if self._params.colsample_bytree < 1.0:
            self._draw_columns(tree)
            scalars[:, s.IS_N_COLUMNS] = scalars[0, s.IS_N_COLUMNS]
        self._derivatives.fill_all(self._state.loss_data, tree // self._params.num_parallel_tree)
        self._run()
        grown = self._copy_tree()
        return grown.with_vectors(vectors.outputs.vectors[: len(grown.value)].copy())

    def _begin(self, tree: int, output: int) -> None:
        """Note which tree is next; draw its columns, and precompute derivatives."""
        data, scalars = self._state.loss_data, self._state.scalars
        round_ = tree // len(data.raw)  # its number among the trees of its output
        scalars[s.IS_TREE], scalars[s.IS_ROUND], scalars[s.IS_OUTPUT] = tree, round_, output
        if self._params.colsample_bytree < 1.0:
            self._draw_columns(tree)
        self._derivatives.fill(data, output, round_ // self._params.num_parallel_tree)

    def rows_outside(self) -> npt.NDArray[np.uint32]:
        """Return rows that the last tree was not grown on (empty without row sampling)."""
        n_inside = int(self._state.scalars[s.IS_N_ROWS])
        return self._state.rows.rows[n_inside : self._state.settings.n_rows]

    def row_weights(self, rows: RowArray) -> FloatArray | None:
        """Return the weights of some sampled rows of the last tree, or None if all are equal."""
        weights = self._state.options.sampler.weights
        return None if len(weights) == 0 else np.asarray(weights[rows])

    def leaf_segments(self) -> tuple[npt.NDArray[np.uint32], IntArray, IntArray]:
        """Return the last tree's rows by leaf: rows, leaves, starts."""
        state, n_rows = self._state, int(self._state.scalars[s.IS_N_ROWS])
        table = state.tree.table[: int(state.scalars[s.IS_N_NODES])]
        leaves = np.flatnonzero(table[:, s.NODE_LEFT] == 0)
        leaves = leaves[np.argsort(table[leaves, s.NODE_START])]
        return state.rows.rows[:n_rows], leaves, np.append(table[leaves, s.NODE_START], n_rows)

    def close(self) -> None:
        """End the helpers; the grower must not be used afterwards."""
        self._team.close()
