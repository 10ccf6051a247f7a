"""The best constant on top of an offset: the initial score of a fit with an offset.

::

    raw score of a row  =  offset + constant + trees        sum of w * loss  ->  least

A Poisson model with the logarithm of the exposure as offset starts at the log of all counts
over all exposures, like the intercept of a generalised linear model.  If the offsets are the
scores of a good model, the best constant is about 0.

==========================  ===========================================================
loss                        the constant
==========================  ===========================================================
the residual ``y - raw``    the best constant for the residuals, in closed form
a mean, with a log link     logarithm of the ratio of two sums
classes (softmax)           iterative proportional fitting: predicted shares become the
                            shares of the classes
order only (Cox, ranking)   0: a constant changes nothing
several raw scores          one output after the other, until no constant changes
any other                   root of the mean first derivative, between
                            ``plain - largest offset`` and ``plain - smallest offset``,
                            where ``plain`` is the best constant without the offset
==========================  ===========================================================

All sums are exact, so the bits do not depend on batches, ranks or threads.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.objectives.base import LossRows, Objective
from hedgerow.objectives.global_sums import AllRows
from hedgerow.objectives.line_search import Slopes
from hedgerow.objectives.rowwise import bracket_of, root_of
from hedgerow.objectives.targets import SeveralTargets

_MOST_CYCLES = 100
_CLOSE = 1e-9


def start_of(objective: Objective, rows: AllRows, offset: FloatArray | None) -> FloatArray:
    """Return the initial score; ``offset`` are those of this rank's rows, None: no rank has one."""
    if offset is not None:
        return start_beside(objective, replace(rows, offset=offset))
    if rows.communicator.size > 1:
        return objective.start_of(rows)
    return objective.initial_score(rows.target, rows.weight)


def start_beside(objective: Objective, rows: AllRows) -> FloatArray:
    """Return the constant that minimises the weighted loss when added to the offsets."""
    if isinstance(objective, SeveralTargets):
        parts = [
            start_beside(single, rows.of_target(k)) for k, single in enumerate(objective.singles)
        ]
        return np.concatenate(parts)
    assert rows.offset is not None
    own = getattr(objective, "start_beside", None)
    if own is not None:
        return np.asarray(own(rows))
    if getattr(objective, "of_residuals", False):
        residuals = [replace(rows, target=rows.target - offset) for offset in rows.offset]
        return np.array([objective.start_of(own)[k] for k, own in enumerate(residuals)])
    plain = objective.start_of(replace(rows, offset=None))
    if objective.n_outputs == 1:
        smallest, largest = replace(rows, target=rows.offset[0]).extent()
        low, high = float(plain[0]) - largest, float(plain[0]) - smallest
        return np.array([_root(objective, rows, plain, 0, 0.5 * low + 0.5 * high, (low, high))])
    base = plain.copy()
    for _ in range(_MOST_CYCLES):
        before = base.copy()
        for output in range(len(base)):
            base[output] = _root(objective, rows, base, output, float(base[output]))
        if (np.abs(base - before) <= _CLOSE * (1.0 + np.abs(base))).all():
            break
    return base


def _root(
    objective: Objective,
    rows: AllRows,
    base: FloatArray,
    output: int,
    start: float,
    within: tuple[float, float] | None = None,
) -> float:
    """Find the constant of one output where the mean first derivative is 0, others fixed."""

    def mean(part: int, at: float) -> float:
        moved = base.copy()
        moved[output] = at
        given = LossRows(rows.target, rows.offset + moved[:, None], rows.weight)
        return rows.means([_slopes(objective, given, output)[part]])[0]

    if within is None:
        low, high = bracket_of(lambda step: mean(0, start + step))
        within = (start + low, start + high)
    return root_of(mean, start, *within)


def _slopes(objective: Any, rows: LossRows, output: int) -> Slopes:
    """Return the first and second derivative of each row in the raw score of an output."""
    if hasattr(objective, "slopes_of"):
        found: Slopes = objective.slopes_of(rows.target, rows.raw, output)
        return found
    if hasattr(objective, "slopes") and objective.n_outputs == 1:
        found = objective.slopes(rows.target, rows.raw[0])
        return found
    g, h = np.empty((2, rows.raw.shape[1]))
    objective.derivatives(rows, output, g, h)
    return g, h
