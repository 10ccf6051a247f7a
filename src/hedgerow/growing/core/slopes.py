"""Finds the slopes of the leaves of a grown tree (:mod:`hedgerow.kernels.prediction.slopes`)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import AnyArray, FloatArray, IntArray
from hedgerow.compile import kernel
from hedgerow.growing.core import state as layout
from hedgerow.growing.core.gradients import QUANTIZED_BITS
from hedgerow.growing.core.state import (
    NODE_COUNT,
    NODE_FEATURE,
    NODE_LEFT,
    NODE_RIGHT,
    NODE_START,
)
from hedgerow.kernels.prediction.slopes import (
    ROWS_A_TERM,
    TERMS,
    LeafRows,
    LeafTerms,
    Slopes,
    empty_terms,
    fit_terms,
    slopes_of,
    system_space,
)
from hedgerow.kernels.splits.monotone import HIGH, LOW
from hedgerow.threads import run_blocks

_ROWS_PER_THREAD = 20_000
"""Some 200 us of work; to wake a thread takes 60, and the helpers of the trees still look out for
work: with 5,000, two threads took longer than one for 32,000 rows."""


_ROUNDING = 16 * np.finfo(np.float64).eps


@kernel
def choose_columns(
    table: IntArray,
    n_nodes: int,
    usable: AnyArray,
    parent: AnyArray,
    start: IntArray,
    terms: LeafTerms,
) -> None:
    """Write the columns of each leaf: those that were split last on the way, each once.

    Parameters
    ----------
    table : int64 (at least n_nodes, NODE_FIELDS)
    n_nodes : int
    usable : uint8, one per feature
        Whether it is one of numbers.
    parent : uint64 (n_nodes,)
        Scratch space of zeros.
    start : int64 (2, n_nodes)
        Written: where the rows of each leaf begin, and how many there are; 0 of other nodes.
    terms : LeafTerms
        ``count`` and ``column`` are written.
    """
    one = np.uint64(1)
    for node in range(np.uint64(n_nodes)):
        left, right = table[node, NODE_LEFT], table[node, NODE_RIGHT]
        if left != 0:
            parent[np.uint64(left)] = parent[np.uint64(right)] = node
            continue
        n_rows = table[node, NODE_COUNT]
        start[0, node], start[1, node] = table[node, NODE_START], n_rows
        most = min(np.int64(TERMS), n_rows // ROWS_A_TERM - 1)
        above, count = node, 0
        while above != 0 and count < most:
            above = parent[above]
            column = np.int32(table[above, NODE_FEATURE])
            known = usable[np.uint64(column)] == 0
            for t in range(np.uint64(count)):
                known = known or terms.column[node, t] == column
            if not known:
                terms.column[node, np.uint64(count)] = column
                count += one
        terms.count[node] = count


class SlopeFinder:
    """Finds the slopes of one tree after the other.

    Parameters
    ----------
    numbers : float64 (n_rows, n_features), column by column
        Values of the rows that trees are grown on; read only.
    usable : bool, one per feature
        Whether leaves may have a slope in it: a column of numbers, which no monotone constraint
        orders.
    penalty : float
        ``linear_lambda``.
    longest : two floats
        See :func:`hedgerow.kernels.prediction.slopes.fit_terms`.
    n_threads : int
    """

    def __init__(
        self,
        numbers: FloatArray,
        usable: npt.NDArray[np.bool_],
        penalty: float,
        longest: tuple[float, float],
        n_threads: int,
    ) -> None:
        self._numbers = numbers
        self._space = np.empty((2 + TERMS, len(numbers)))
        self._usable = usable.astype(np.uint8)
        self._penalty, self._longest = float(penalty), longest
        self._n_threads = n_threads

    def slopes(self, state: layout.State, scores: FloatArray) -> Slopes:
        """The slopes of the last tree that was grown with ``state``.

        Parameters
        ----------
        state : State
        scores : float64 (n_rows,)
            Values and terms are added to those of the rows that the tree was grown on;
            empty: they are left to the caller.
        """
        n_nodes = int(state.scalars[layout.IS_N_NODES])
        terms, start = empty_terms(n_nodes), np.zeros((2, n_nodes), dtype=np.int64)
        parent = np.zeros(n_nodes, dtype=np.uint64)
        choose_columns(state.tree.table, n_nodes, self._usable, parent, start, terms)
        rows, (first_row, count) = state.rows, start
        g_unit, h_unit = _units_of(state)
        data = LeafRows(
            rows.rows, first_row, count, rows.quantized, g_unit, h_unit, self._numbers, self._space
        )
        values = state.tree.numbers[:n_nodes, layout.NUMBER_VALUE].copy()
        room = _room_of(state, values)
        rate, n_rows = float(state.settings.learning_rate), int(state.scalars[layout.IS_N_ROWS])

        def fit(first: int, stop: int) -> None:
            system = system_space()
            fit_terms(
                data, terms, self._penalty, rate, self._longest, first, stop, values, room, system,
                scores,
            )  # fmt: skip

        fewest = 1 + n_nodes * _ROWS_PER_THREAD // max(1, n_rows)
        run_blocks(fit, n_nodes, self._n_threads, fewest)
        return slopes_of(terms)


def _room_of(state: layout.State, values: FloatArray) -> FloatArray:
    """Return what the terms of each node may add, so that nodes keep to their bounds.

    Bounds keep the leaves on one side of a monotone split below those on the other.
    """
    constraints = state.options.constraints
    if constraints is None or not constraints.sign.any():
        return np.zeros((2, 0))
    rate = float(state.settings.learning_rate)
    ends = rate * constraints.bounds[: len(values), LOW : HIGH + 1].T
    # The sum of value and terms must not be rounded beyond a bound, not even if DART scales both.
    rounding = _ROUNDING * (np.abs(values) + np.where(np.isfinite(ends), np.abs(ends), 0.0))
    return np.stack(
        [
            np.minimum(ends[0] - values + rounding[0], 0.0),
            np.maximum(ends[1] - values - rounding[1], 0.0),
        ]
    )


def _units_of(state: layout.State) -> tuple[float, float]:
    """What one counts for in the fixed g and h of the last tree."""
    scalars = state.scalars
    scale = float(scalars[layout.IS_UNIT_SCALE : layout.IS_UNIT_SCALE + 1].view(np.float64)[0])
    g_unit = 2.0 ** float(scalars[layout.IS_G_EXPONENT] - QUANTIZED_BITS)
    h_unit = 2.0 ** float(scalars[layout.IS_H_EXPONENT] - QUANTIZED_BITS)
    return scale * g_unit, scale * (1.0 if state.settings.constant_hessian == 1 else h_unit)
