"""Gains, under the constraints of a fit, of splits that were found without constraints."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hedgerow.compile import kernel
from hedgerow.kernels.splits.growth import smoothed
from hedgerow.kernels.splits.monotone import (
    HIGH,
    LOW,
    ROUNDING,
    Bounds,
    Constraints,
    bounds_of,
    clamp,
    score_at,
    value_in_node,
)
from hedgerow.kernels.splits.split import NodeSums, SplitRules, Units, leaf_weight, node_score


@kernel(inner=True)
def found_gain(
    constraints: Constraints,
    number: int,
    score: float,
    gain: float,
    left: NodeSums,
    node: NodeSums,
    units: Units,
    rules: SplitRules,
) -> float:
    """Return the gain of the split found in a node, or ``gain`` if scores are not gains.

    The gain of a forced cut is computed from the sums of its left side.
    """
    if constraints.scored == 0:
        return gain
    if score == np.inf:
        bounds = bounds_of(constraints, number, node, units, rules)
        g, h = float(node.g) * units.g, float(node.h) * units.h
        g_left, h_left = float(left.g) * units.g, float(left.h) * units.h
        lost = lost_on_side(constraints, number, g_left, h_left, left.n, bounds, units, rules)
        n_right = node.n - left.n
        lost += lost_on_side(
            constraints, number, g - g_left, h - h_left, n_right, bounds, units, rules
        )
        sides = node_score(g_left, h_left, rules) + node_score(g - g_left, h - h_left, rules)
        own = bounds.score * (units.g * (units.g / units.h))
        return max(0.5 * (sides - lost - own) - rules.gamma, 0.0)
    return score if score > 0.0 else -1.0


@kernel(inner=True)
def lost_on_side(
    constraints: Constraints,
    number: int,
    g: float,
    h: float,
    n: int,
    bounds: Bounds,
    units: Units,
    rules: SplitRules,
) -> float:
    """Return the score that a side of node ``number`` loses if its leaf value is not optimal."""
    free = leaf_weight(g, h, rules)
    weight = free
    if bounds.smooth > 0.0:
        toward = bounds.toward * (units.g / units.h)
        weight = smoothed(weight, float(n), toward, bounds.smooth)
    weight = clamp(weight, constraints.bounds[number, LOW], constraints.bounds[number, HIGH])
    return lost_with(g, h, weight, rules)


@kernel(inline=True, inner=True)
def lost_with(g: float, h: float, weight: float, rules: SplitRules) -> float:
    """Return the score that a leaf loses if its value is ``weight``, not the best one."""
    if weight == leaf_weight(g, h, rules):
        return 0.0
    return node_score(g, h, rules) - score_at(g, h + rules.reg_lambda, rules.reg_alpha, weight)


@kernel(inner=True)
def gain_of_sides(
    constraints: Constraints,
    number: int,
    feature: int,
    left: Any,
    node: NodeSums,
    units: Units,
    rules: SplitRules,
) -> float:
    """Return the score, or the gain under constraints, of a split found without constraints.

    The result is -1 if the gain is not positive.  ``left`` holds the score of the split, and g,
    h and rows of its left side.
    """
    if constraints.scored == 0 or left.score < 0.0:
        return float(left.score)
    at_node = bounds_of(constraints, number, node, units, rules)
    g, h = float(node.g) * units.g, float(node.h) * units.h
    g_left, h_left = float(left.g) * units.g, float(left.h) * units.h
    lost = lost_on_side(constraints, number, g_left, h_left, left.n, at_node, units, rules)
    n_right = node.n - left.n
    lost += lost_on_side(
        constraints, number, g - g_left, h - h_left, n_right, at_node, units, rules
    )
    best = node_score(g, h, rules)
    own = value_in_node(constraints, number, leaf_weight(g, h, rules), node.n)
    of_node = score_at(g, h + rules.reg_lambda, rules.reg_alpha, own)
    if own == leaf_weight(g, h, rules):
        of_node = best
    difference = left.score - lost - of_node
    if not difference > ROUNDING * best:
        return -1.0
    gain = constraints.factor[feature] * (0.5 * difference - rules.gamma)
    return gain if gain > 0.0 and math.isfinite(gain) else -1.0
