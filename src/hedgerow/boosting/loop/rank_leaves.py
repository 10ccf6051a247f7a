"""Leaf values that are quantiles of the rows of all ranks (absolute error, quantiles, mape, hinge).

Each rank has some rows of each leaf (:class:`hedgerow.objectives.line_search.LeafRows`, in which
leaves may be empty).  The values equal those of ``LeafRows.steps_by`` for the rows of all ranks:
quantiles are found for all leaves at once, four bits of the keys of the steps at a time
(:mod:`hedgerow.kernels.tables.keys`); weights are counted in integer units.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Literal

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray, IntArray, numbers_reaching
from hedgerow.comm.base import Communicator
from hedgerow.errors import AllRowsNeededError
from hedgerow.kernels.primitives.exact_sum import exact_sum
from hedgerow.kernels.tables.keys import floats_of_keys, keys_of_floats
from hedgerow.objectives import Objective
from hedgerow.objectives.base import MeanLoss
from hedgerow.objectives.global_sums import merged
from hedgerow.objectives.line_search import (
    LeafRows,
    QuantileRule,
    around,
    masses_of,
    share_of,
    unit_of,
)
from hedgerow.objectives.targets import SeveralTargets

_SIGN = np.uint64(1 << 63)
_LOWEST = np.iinfo(np.int64).min


def check_rule(objective: Objective, output: int) -> QuantileRule:
    """Return the rule of the leaves of an output; raise unless their values are quantiles."""
    loss: Any = objective
    if isinstance(objective, SeveralTargets):
        loss, output = objective.singles[output], 0
    loss = getattr(loss, "inner", loss)  # an object of the user
    rule = loss.leaf_rule(output) if isinstance(loss, MeanLoss) and loss.rowwise else None
    if not isinstance(rule, QuantileRule):
        raise AllRowsNeededError(
            f"leaf_estimation='line_search' with objective {objective.name!r} needs the rows of a "
            "leaf at once, because its leaf values are not quantiles: on several ranks use "
            "'auto', 'newton' or 'gradient'."
        )
    return rule


def unit_on_ranks(weight: FloatArray | None, n_rows: int, others: Communicator) -> float:
    """Return the unit of the weights of all rows of all ranks."""
    own = exact_sum(np.ones(n_rows) if weight is None else weight)
    return unit_of(merged([own], others)[0])


def steps_on_ranks(
    objective: Objective, output: int, rows: LeafRows, others: Communicator
) -> FloatArray:
    """Return the step of each leaf, the quantile of its rows; some rank has rows of each."""
    rule, starts = check_rule(objective, output), rows.starts
    if isinstance(objective, SeveralTargets):
        rows, output = objective.rows_of_target(rows, output), 0
    weight, unit = rule.weights(rows.target, rows.weight), rows.unit
    if rule.divisor is not None:  # the unit follows the divided weights
        unit = unit_on_ranks(weight, len(weight), others)
    masses = masses_of(weight, unit)

    def of_leaves(masses: IntArray) -> IntArray:
        so_far = np.append(0, np.cumsum(masses))
        return others.allreduce(so_far[starts[1:]] - so_far[starts[:-1]])

    whole = of_leaves(masses)
    level: FloatArray | float | None = rule.level
    if level is None:  # the share of class 1
        level = share_of(of_leaves(np.where(rows.target > 0.0, masses, 0)), whole)
    least, most = around(whole.astype(np.float64), level)
    keys = keys_of_floats(rule.wanted(rows.target, rows.raw[output]))
    order = np.lexsort((keys, np.repeat(np.arange(len(whole)), np.diff(starts))))
    keys, so_far = keys[order], np.append(0, np.cumsum(masses[order]))
    leaves = [(keys[a:b].view(np.uint64) ^ _SIGN, a) for a, b in pairwise(starts.tolist())]

    def ends(limits: AnyArray, side: Literal["left", "right"]) -> IntArray:
        found = zip(leaves, limits, strict=True)
        return np.array([a + np.searchsorted(own, limit, side) for (own, a), limit in found])

    def mass_below(limits: AnyArray) -> IntArray:
        return others.allreduce(so_far[ends(limits, "left")] - so_far[starts[:-1], None])

    numbers = numbers_reaching(mass_below, least)
    found = floats_of_keys((numbers ^ _SIGN).view(np.int64))
    midway = mass_below(numbers[:, None] + np.uint64(1))[:, 0].astype(np.float64) <= most
    if midway.any():  # to the smallest key above, whose complement is the largest
        after = ends(numbers, "right")
        own_next = np.where(after < starts[1:], ~np.append(keys, 0)[after], _LOWEST)
        following = others.allreduce(own_next, "max")
        middle = 0.5 * (found + floats_of_keys(~following))
        found = np.where(midway & (following != _LOWEST), middle, found)
    return found + 0.0
