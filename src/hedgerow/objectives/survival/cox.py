"""Cox's proportional hazards (1972), ties by Efron's method (1977).

The hazard of a row is ``h0(t) exp(raw)``; trees learn ``raw`` only from the order of the
events::

    at each time with events      R   rows at risk: time not earlier, weights times exp(raw)
                                  D   rows with an event at this time, d of them
    loss      -sum over D of w raw + mean w of D * sum over l < d of log phi_l
    phi_l     sum over R - (l / d) * sum over D

Efron's method averages over the order of tied events.  With weights it follows
the survival package of R (a weight of 2 differs slightly from two rows).

g and h of a row need sums over the event times up to the time of the row.  So rows are sorted
by time once.  Each evaluation passes once from the last time to the first for the sums over
R, and once back for g and h.  h is the diagonal of the matrix of second derivatives.

Targets are times; censored rows have a minus sign, as in XGBoost.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from hedgerow import kernel_types as kt
from hedgerow.arrays import FloatArray, IntArray
from hedgerow.compile import kernel
from hedgerow.errors import DataError
from hedgerow.objectives.base import LossRows, OrderLoss
from hedgerow.objectives.derivatives import SMALLEST_HESSIAN
from hedgerow.objectives.domain import LARGEST, refuse_first
from hedgerow.objectives.line_search import LONGEST_STEP, limit_without_penalty

LEAST_RISK = 1e-140
_FARTHEST = 300.0  # largest score whose exp is in the record, times 1 / LEAST_RISK
"""Least sum over the rows at risk, relative to the largest risk of all rows.

Squares of its inverse are finite.
"""


class EventOrder(NamedTuple):
    """Rows by time.

    rows     int64 (n_rows,): ascending in time
    starts   int64 (n_times + 1,): first position of each time in ``rows``
    """

    rows: IntArray
    starts: IntArray


@kernel
def event_sums(
    target: kt.ReadOnly[kt.Float64_1D],
    raw: kt.Float64_1D,
    weight: kt.ReadOnly[kt.Float64_1D],
    rows: kt.Int64_1D,
    starts: kt.Int64_1D,
    top: float,
    sums: kt.Float64_2D,
) -> float:
    """Compute the contribution of each time to the hazard, and the loss of all rows."""
    # Scores are relative to ``top``, their maximum.  Row k of ``sums`` (4, n_times):
    #     0   mean w * sum of 1 / phi_l           2   mean w * sum of 1 / phi_l**2
    #     1   mean w * sum of (l / d) / phi_l     3   ... of (1 - (1 - l / d)**2) / phi_l**2
    at_risk, loss = 0.0, 0.0
    for time in range(len(starts) - 2, -1, -1):
        n_events, mass, of_events, reward = 0, 0.0, 0.0, 0.0
        for place in range(starts[time], starts[time + 1]):
            i = rows[place]
            part = weight[i] * np.exp(raw[i] - top)
            at_risk += part
            if target[i] > 0.0:
                n_events += 1
                mass += weight[i]
                of_events += part
                reward += weight[i] * (raw[i] - top)
        for k in range(4):
            sums[k, time] = 0.0
        loss -= reward
        for l in range(n_events):  # noqa: E741  (the name it has in the literature)
            share = l / n_events
            phi = max(at_risk - share * of_events, LEAST_RISK)
            mean = mass / n_events
            loss += mean * np.log(phi)
            sums[0, time] += mean / phi
            sums[1, time] += mean * share / phi
            sums[2, time] += mean / phi / phi
            sums[3, time] += mean * (1.0 - (1.0 - share) * (1.0 - share)) / phi / phi
    return loss


@kernel
def cox_derivatives(
    target: kt.ReadOnly[kt.Float64_1D],
    raw: kt.Float64_1D,
    weight: kt.ReadOnly[kt.Float64_1D],
    rows: kt.Int64_1D,
    starts: kt.Int64_1D,
    top: float,
    sums: kt.Float64_2D,
    g: kt.Float64_1D,
    h: kt.Float64_1D,
) -> None:
    """Compute g and h of each row, without its weight, from the sums of :func:`event_sums`."""
    first, second = 0.0, 0.0
    for time in range(len(starts) - 1):
        first += sums[0, time]
        second += sums[2, time]
        for place in range(starts[time], starts[time + 1]):
            i = rows[place]
            risk = np.exp(raw[i] - top)
            event = target[i] > 0.0
            a = first - sums[1, time] if event else first
            b = second - sums[3, time] if event else second
            g[i] = risk * a - (1.0 if event else 0.0)
            h[i] = max(risk * a - weight[i] * risk * risk * b, SMALLEST_HESSIAN)


@dataclass(frozen=True, slots=True)
class Cox(OrderLoss):
    """Negative log partial likelihood, divided by the weight of the events."""

    name: ClassVar[str] = "cox"
    scored_as: ClassVar[str] = "survival"
    longest_line: ClassVar[float] = LONGEST_STEP
    n_outputs: int = 1
    order: EventOrder | None = field(default=None, repr=False, compare=False)

    def bound_to(self, target: FloatArray, weight: FloatArray | None) -> Cox:
        """Return the objective for rows with these targets, which are sorted once."""
        return replace(self, order=_order_of(target))

    def check_target(
        self, target: FloatArray, first_row: int = 0, origin: FloatArray | None = None
    ) -> None:
        time = np.abs(target)
        outside = (time < 1.0 / LARGEST) | (time > LARGEST)
        refuse_first(
            outside, target, first_row,
            "objective 'cox' needs times (minus the time for censored rows) with |y| in "
            f"[{1.0 / LARGEST:g}, {LARGEST:g}]; row {{row}} holds {{value}}: give an event at time "
            "0 a small time, or leave it out.",
        )  # fmt: skip
        is_part = origin is not None  # of a table, which may have its events elsewhere
        if not is_part and not (target > 0.0).any():
            raise DataError(
                f"objective 'cox' needs events, but all {len(target)} rows are censored: only "
                "censored times have a minus sign."
            )

    def step_limit(self, reg_lambda: float, rate: float) -> float:
        """Return the limit on steps without penalties; ``reg_lambda`` from 1 on bounds them too."""
        # A leaf whose events have nearly no risk may have a Newton step of 1e16.  A step of 16
        # raises a risk by e**16, which is more than any leaf needs.
        limit = limit_without_penalty(reg_lambda, rate)
        return min(limit, LONGEST_STEP) if reg_lambda < 1.0 else limit

    def predict(self, raw: FloatArray) -> FloatArray:
        """Return the hazard relative to the baseline."""
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(raw[0]))

    def derivatives(self, rows: LossRows, output: int, g: FloatArray, h: FloatArray) -> None:
        found = _Sums.of(rows.target, rows.raw[0], rows.weight, self.order)
        cox_derivatives(*found.arguments, found.top, found.sums, g, h)

    def loss(self, target: FloatArray, raw: FloatArray, weight: FloatArray | None) -> float:
        """Return the mean over the events; 0 for rows without events."""
        found = _Sums.of(target, raw[0], weight, None)
        mass = float(found.arguments[2][target > 0.0].sum())
        return found.loss / mass if mass > 0.0 else 0.0

    def shared_losses(
        self, target: FloatArray, raw: FloatArray, query: IntArray | None = None
    ) -> FloatArray:
        """Return the loss of each event among all rows, and 0 for censored rows."""
        # The losses add up to the total loss; tied events follow the order of the rows.
        order, top = _order_of(target), float(raw[0].max())
        event = target[order.rows] > 0.0
        risk = np.exp(raw[0][order.rows] - top)
        at_risk = np.cumsum(risk[::-1])[::-1]
        n_rows, starts = np.diff(order.starts), order.starts[:-1]
        before: IntArray = np.cumsum(event) - event
        turn: IntArray = before - np.repeat(before[starts], n_rows)
        n_events = np.add.reduceat(event, starts, dtype=np.int64)
        of_events = np.add.reduceat(np.where(event, risk, 0.0), starts)
        left = turn / np.repeat(np.maximum(n_events, 1), n_rows) * np.repeat(of_events, n_rows)
        phi = np.maximum(np.repeat(at_risk[starts], n_rows) - left, LEAST_RISK)
        losses = np.zeros(len(target))
        losses[order.rows] = np.where(event, np.log(phi) + top - raw[0][order.rows], 0.0)
        return losses

    def fit_record(
        self, target: FloatArray, raw: FloatArray, weight: FloatArray | None
    ) -> dict[str, Any]:
        """Return the baseline hazard, for the training record of the model."""
        # The cumulative baseline hazard by Efron's method is that of a row with raw score 0, or
        # with ``reference`` if all scores are too far from 0 for float64.
        order = _order_of(target)
        found = _Sums.of(target, raw[0], weight, order)
        times = np.abs(target)[order.rows[order.starts[:-1]]]
        reference = found.top if abs(found.top) > _FARTHEST else 0.0
        steps = found.sums[0] * np.exp(reference - found.top)
        events = steps > 0.0
        baseline: dict[str, Any] = {
            "times": times[events].tolist(),
            "hazard": np.cumsum(steps[events]).tolist(),
        }
        if reference != 0.0:
            baseline["reference"] = reference
        return {"baseline": baseline}


class _Sums(NamedTuple):
    """Sums over the rows at risk at each time."""

    arguments: tuple[FloatArray, FloatArray, FloatArray, IntArray, IntArray]
    top: float
    sums: FloatArray
    loss: float

    @staticmethod
    def of(
        target: FloatArray, raw: FloatArray, weight: FloatArray | None, order: EventOrder | None
    ) -> _Sums:
        order = _order_of(target) if order is None else order
        mass = np.ones(len(target)) if weight is None else np.ascontiguousarray(weight)
        arguments = np.ascontiguousarray(target), np.ascontiguousarray(raw), mass, *order
        top = float(raw.max())
        sums = np.empty((4, len(order.starts) - 1))
        return _Sums(arguments, top, sums, event_sums(*arguments, top, sums))


def _order_of(target: FloatArray) -> EventOrder:
    time = np.abs(target)
    rows = np.argsort(time, kind="stable")
    ordered = time[rows]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1], True])
    return EventOrder(rows, starts)


def survival_of_baseline(
    baseline: dict[str, Any], raw: FloatArray, times: FloatArray
) -> FloatArray:
    """Return the probability of no event up to each of ``times``, shape (n_rows, n_times)."""
    known = np.array(baseline["times"], dtype=np.float64)
    hazard = np.concatenate([[0.0], np.array(baseline["hazard"], dtype=np.float64)])
    at = hazard[np.searchsorted(known, times, side="right")]
    with np.errstate(over="ignore", invalid="ignore"):
        product = np.exp(raw - baseline.get("reference", 0.0))[:, None] * at
    return np.exp(-np.where(at == 0.0, 0.0, product))
