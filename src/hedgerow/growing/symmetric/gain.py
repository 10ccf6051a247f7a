"""Gains of the common cut of a level: of the level, and of each node."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hedgerow.arrays import IntArray
from hedgerow.compile import kernel
from hedgerow.growing.core.state import (
    FOUND_BIN,
    FOUND_FEATURE,
    NODE_COUNT,
    NODE_G,
    NODE_G_LEFT,
    NODE_H,
    NODE_H_LEFT,
    NODE_N_LEFT,
)
from hedgerow.kernels.splits.category_split import score_within
from hedgerow.kernels.splits.constrained_gains import leaf_bounds, restricted_score
from hedgerow.kernels.splits.growth import ordered_factor
from hedgerow.kernels.splits.monotone import Constraints, bounds_of, side_weight
from hedgerow.kernels.splits.split import NodeSums, SplitRules, Units, limits_of


class Price(NamedTuple):
    """The requirements of a level on the gain of a cut."""

    level: np.int64
    gamma: np.float64  # twice, as gains are here
    key: np.int64  # of random draws


@kernel(inline=True, inner=True)
def level_factor(constraints: Constraints, feature: int, level: int) -> float:
    """Return the factor on the gains of a column in a level."""
    ordered = 1.0
    if constraints.sign[feature] != 0.0:
        ordered = ordered_factor(constraints.growth.penalty, level)
    return constraints.factor[feature] * ordered


@kernel(inline=True, inner=True)
def worth_of(constraints: Constraints, feature: int, price: Price, gain: float) -> float:
    """Return the gain of a cut, minus its price if columns have factors."""
    if constraints.scored == 0:
        return gain
    return level_factor(constraints, feature, price.level) * (gain - price.gamma)


@kernel(inner=True)
def keeps_order(
    node: NodeSums,
    left: tuple[int, int, int],
    units: Units,
    rules: SplitRules,
    number: int,
    choice: IntArray,
    constraints: Constraints,
) -> bool:
    """Return whether the sides of a cut of node ``number`` are in the column's order."""
    if constraints.scored == 0:
        return True
    feature = choice[FOUND_FEATURE]
    if constraints.sign[feature] == 0.0 or choice[FOUND_BIN] == constraints.last_bin[feature]:
        return True
    limits, bounds = (
        limits_of(node, units, rules),
        bounds_of(constraints, number, node, units, rules),
    )
    g, h = float(left[0]), float(left[1])
    below = side_weight(g, h + limits.penalty, left[2], limits, bounds)
    right = (limits.g - g, limits.h - h + limits.penalty)
    above = side_weight(right[0], right[1], limits.n - left[2], limits, bounds)
    return constraints.sign[feature] * (above - below) >= 0.0


@kernel(inner=True)
def gain_of_node(
    row: IntArray,
    units: Units,
    rules: SplitRules,
    penalty: float,
    number: int,
    choice: IntArray,
    constraints: Constraints,
) -> tuple[bool, float]:
    """Return whether the cut divides node ``number``, from its left sums, and its gain there."""
    # ``penalty`` as of :func:`split_penalty`.
    node = NodeSums(row[NODE_G], row[NODE_H], row[NODE_COUNT])
    g, h, n = row[NODE_G_LEFT], row[NODE_H_LEFT], row[NODE_N_LEFT]
    least = rules.min_child_weight
    if penalty < 0.0:
        # As several columns at a time are compared: in units.
        limits = limits_of(node, units, rules)
        lightest = min(float(h), float(node.h - h))
        if min(n, node.n - n) < limits.fewest or lightest < limits.lightest:
            return False, 0.0
        if not keeps_order(node, (g, h, n), units, rules, number, choice, constraints):
            return False, 0.0
        penalty, least = 0.0, 0.0
    harder = SplitRules(
        rules.min_samples_leaf,
        least,
        rules.reg_lambda + penalty,
        rules.reg_alpha,
        rules.gamma,
        rules.max_delta_step,
    )
    within = leaf_bounds(constraints, number, node, units, rules)
    score = score_within(NodeSums(g, h, n), node, units, (harder, rules), within)
    if score == -np.inf:
        return False, 0.0
    return True, 0.5 * (score - restricted_score(node, units, rules, within))
