"""Finds the slopes of the leaves of a grown tree (:mod:`hedgerow.kernels.prediction.slope_fit`)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hedgerow import kernel_types as kt
from hedgerow.arrays import FloatArray
from hedgerow.compile import kernel
from hedgerow.data.binning.bins import BinSpec
from hedgerow.growing.core import state as s
from hedgerow.growing.core.stages.gradients import QUANTIZED_BITS
from hedgerow.kernels.prediction.slope_fit import (
    ROWS_A_TERM,
    LeafRows,
    LeafTerms,
    SlopeRules,
    empty_terms,
    fit_space,
    fit_terms,
)
from hedgerow.kernels.prediction.slopes import TERMS, Slopes, empty_slopes
from hedgerow.kernels.splits.constraints import HIGH, LOW
from hedgerow.objectives.base import Objective
from hedgerow.params import BoostParams
from hedgerow.threads import run_blocks

_ROWS_PER_THREAD = 20_000
"""Some 200 us of work; to wake a thread takes 60, and the helpers of the trees still look out for
work: with 5,000, two threads took longer than one for 32,000 rows."""

_FEW_NODES = 32
"""Room at first; it grows with the trees."""

_ROUNDING = 16 * np.finfo(np.float64).eps


class LeafSpace(NamedTuple):
    """Scratch space with an entry for each node.

    parent  uint64
    start   int64: where the rows of a leaf begin
    count   int64: how many there are; 0 of other nodes
    """

    parent: kt.UInt64_1D
    start: kt.Int64_1D
    count: kt.Int64_1D


@kernel
def choose_columns(
    table: kt.Int64_2D, n_nodes: int, usable: kt.UInt8_1D, space: LeafSpace, terms: LeafTerms
) -> int:
    """Write the columns of each leaf: those that were split last on the way, each once."""
    one, n_terms = np.uint64(1), np.int64(0)
    for node in range(np.uint64(n_nodes)):
        left, right = table[node, s.NODE_LEFT], table[node, s.NODE_RIGHT]
        space.start[node], space.count[node], terms.count[node] = 0, 0, 0
        for t in range(np.uint64(TERMS)):
            terms.slope[node, t], terms.center[node, t] = 0.0, 0.0
        terms.bounds[0, node], terms.bounds[1, node] = 0.0, 0.0
        if left != 0:
            space.parent[np.uint64(left)] = space.parent[np.uint64(right)] = node
            continue
        n_rows = table[node, s.NODE_COUNT]
        space.start[node], space.count[node] = table[node, s.NODE_START], n_rows
        most = min(np.int64(TERMS), n_rows // ROWS_A_TERM - 1)
        above, count = node, 0
        while above != 0 and count < most:
            above = space.parent[above]
            column = np.int32(table[above, s.NODE_FEATURE])
            known = usable[np.uint64(column)] == 0
            for t in range(np.uint64(count)):
                known = known or terms.column[node, t] == column
            if not known:
                terms.column[node, np.uint64(count)] = column
                count += one
        terms.count[node] = count
        n_terms += np.int64(count)
    return n_terms


@kernel
def pack_terms(terms: LeafTerms, n_nodes: int, slopes: Slopes) -> int:
    """Write the terms of lines one after the other, without slopes of 0; return their number."""
    n, one = np.uint64(0), np.uint64(1)
    slopes.start[0] = 0
    for node in range(np.uint64(n_nodes)):
        for t in range(np.uint64(terms.count[node])):
            if terms.slope[node, t] != 0.0:
                slopes.column[n] = terms.column[node, t]
                slopes.slope[n] = terms.slope[node, t]
                slopes.center[n] = terms.center[node, t]
                n += one
        slopes.start[node + one] = n
        slopes.low[node], slopes.high[node] = terms.bounds[0, node], terms.bounds[1, node]
    return n


def slopes_of(terms: LeafTerms, n_nodes: int, most_terms: int) -> Slopes:
    """Return the lines of the first ``n_nodes`` nodes."""
    slopes = empty_slopes(n_nodes + 1, most_terms, n_nodes)
    n_terms = pack_terms(terms, n_nodes, slopes)
    start, column, slope, center, low, high = slopes
    return Slopes(start, column[:n_terms], slope[:n_terms], center[:n_terms], low, high)


class LineLimits(NamedTuple):
    """The limits on linear leaves of a fit.

    usable   uint8, one per feature: whether leaves may have a slope in it: a column of numbers,
             which no monotone constraint orders
    penalty  float: ``linear_lambda``
    longest  two floats: see :class:`hedgerow.kernels.prediction.slope_fit.SlopeRules`
    """

    usable: npt.NDArray[np.uint8]
    penalty: float
    longest: tuple[float, float]

    @classmethod
    def of(cls, spec: BinSpec, params: BoostParams, objective: Objective) -> LineLimits:
        """Return the limits of resolved parameters."""
        ordered = np.array(params.monotone_constraints or (0,) * spec.n_features) != 0
        return cls(
            (~spec.is_category & ~ordered).astype(np.uint8),
            float(params.linear_lambda),
            (
                objective.line_limit(params.reg_lambda, params.highest_rate),
                float(params.max_delta_step) or math.inf,
            ),
        )


class SlopeFinder:
    """Finds the slopes of one tree after the other.

    numbers    float64 (n_rows, n_features), column by column: values of the rows that trees are
               grown on; read only
    limits     LineLimits
    n_threads  int

    Attributes
    ----------
    limits  LineLimits
    """

    def __init__(self, numbers: FloatArray, limits: LineLimits, n_threads: int) -> None:
        self._numbers, self.limits, self._n_threads = numbers, limits, n_threads
        self._space = np.empty((2 + TERMS, len(numbers)))
        self._make_room(_FEW_NODES)

    def _make_room(self, n_nodes: int) -> None:
        """Allocate scratch space for a tree of up to ``n_nodes`` nodes."""
        self._most_nodes = n_nodes
        self._terms, self._leaves = empty_terms(n_nodes), leaf_space(n_nodes)

    def slopes(self, state: s.State, scores: FloatArray) -> Slopes:
        """Return the slopes of the last tree that was grown with ``state``; update its scores."""
        n_nodes = int(state.scalars[s.IS_N_NODES])
        if n_nodes > self._most_nodes:
            self._make_room(max(n_nodes, 2 * self._most_nodes))
        terms, leaves, n_rows = self._terms, self._leaves, int(state.scalars[s.IS_N_ROWS])
        units, rules = line_rules(state, self.limits, n_nodes)
        most_terms = choose_columns(state.tree.table, n_nodes, self.limits.usable, leaves, terms)
        data = LeafRows(
            state.rows.rows, leaves.start, leaves.count, state.rows.quantized, *units,
            self._numbers, self._space,
        )  # fmt: skip

        def fit(first: int, stop: int) -> None:
            fit_terms(data, terms, rules, first, stop, *fit_space(), scores)

        run_blocks(fit, n_nodes, self._n_threads, fewest_nodes(n_nodes, n_rows))
        return slopes_of(terms, n_nodes, most_terms)


def leaf_space(n_nodes: int) -> LeafSpace:
    """Return scratch space for a tree of up to ``n_nodes`` nodes."""
    start, count = np.empty((2, n_nodes), dtype=np.int64)
    return LeafSpace(np.zeros(n_nodes, dtype=np.uint64), start, count)


def fewest_nodes(n_nodes: int, n_rows: int) -> int:
    """Return the number of nodes with enough rows for a thread."""
    return 1 + n_nodes * _ROWS_PER_THREAD // max(1, n_rows)


def line_rules(
    state: s.State, limits: LineLimits, n_nodes: int
) -> tuple[tuple[float, float], SlopeRules]:
    """Return the units of fixed g and h in the last tree, and the rules of its lines."""
    scalars, constraints, rate = (
        state.scalars, state.options.constraints, float(state.settings.learning_rate)
    )  # fmt: skip
    scale = float(scalars[s.IS_UNIT_SCALE : s.IS_UNIT_SCALE + 1].view(np.float64)[0])
    g_unit = scale * 2.0 ** float(scalars[s.IS_G_EXPONENT] - QUANTIZED_BITS)
    h_unit = scale * 2.0 ** float(scalars[s.IS_H_EXPONENT] - QUANTIZED_BITS)
    units = g_unit, scale if state.settings.constant_hessian == 1 else h_unit
    values, room = state.tree.numbers[:n_nodes, s.NUMBER_VALUE].copy(), np.zeros((2, 0))
    if constraints.sign.any():
        # What the terms of each node may add, so that nodes keep to their bounds: these keep the
        # leaves on one side of a monotone split below those on the other.
        ends = rate * constraints.bounds[:n_nodes, LOW : HIGH + 1].T
        # The sum of value and terms must not be rounded beyond a bound, not even if DART scales
        # both.
        finite = np.where(np.isfinite(ends), np.abs(ends), 0.0)
        rounding = _ROUNDING * (np.abs(values) + finite)
        room = np.stack(
            [
                np.minimum(ends[0] - values + rounding[0], 0.0),
                np.maximum(ends[1] - values - rounding[1], 0.0),
            ]
        )
    return units, SlopeRules(limits.penalty, rate, limits.longest, values, room)
