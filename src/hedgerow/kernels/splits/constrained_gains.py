"""Scores and gains of single splits under the constraints of a fit."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from hedgerow.compile import kernel
from hedgerow.kernels.splits.growth import smoothed
from hedgerow.kernels.splits.monotone import (
    HIGH,
    LOW,
    ROUNDING,
    Constraints,
    clamp,
    score_at,
    value_in_node,
)
from hedgerow.kernels.splits.split import NodeSums, SplitRules, Units, leaf_weight, node_score


class LeafBounds(NamedTuple):
    """Restrictions of the leaf values below a node.

    is_free    1: there are none
    low, high  bounds
    toward     leaf value of the node; the sides are smoothed toward it
    smooth     rows that the leaf value of the node counts for
    """

    is_free: np.int64
    low: np.float64
    high: np.float64
    toward: np.float64
    smooth: np.float64


@kernel(inner=True)
def leaf_bounds(
    constraints: Constraints, number: int, node: NodeSums, units: Units, rules: SplitRules
) -> LeafBounds:
    """Return the restrictions of the leaf values below node ``number`` with these sums."""
    if constraints.scored == 0:
        return LeafBounds(np.int64(1), -np.inf, np.inf, 0.0, 0.0)
    weight = leaf_weight(float(node.g) * units.g, float(node.h) * units.h, rules)
    return LeafBounds(
        np.int64(0),
        constraints.bounds[number, LOW],
        constraints.bounds[number, HIGH],
        value_in_node(constraints, number, weight, node.n),
        constraints.growth.smooth,
    )


@kernel(inner=True)
def lost_score(
    left: NodeSums, node: NodeSums, units: Units, rules: SplitRules, bounds: LeafBounds
) -> float:
    """Return the score that both sides of a split lose if their leaf values are restricted."""
    if bounds.is_free == 1:
        return 0.0
    g, h = float(left.g) * units.g, float(left.h) * units.h
    lost = lost_on_side(g, h, left.n, bounds, rules)
    g, h = float(node.g) * units.g - g, float(node.h) * units.h - h
    return lost + lost_on_side(g, h, node.n - left.n, bounds, rules)


@kernel(inner=True)
def lost_on_side(g: float, h: float, n: int, bounds: LeafBounds, rules: SplitRules) -> float:
    """Return the score that a side of ``n`` rows loses if its leaf value is restricted."""
    weight = leaf_weight(g, h, rules)
    if bounds.smooth > 0.0:
        weight = smoothed(weight, float(n), bounds.toward, bounds.smooth)
    return lost_with(g, h, clamp(weight, bounds.low, bounds.high), rules)


@kernel(inline=True, inner=True)
def lost_with(g: float, h: float, weight: float, rules: SplitRules) -> float:
    """Return the score that a leaf loses if its value is ``weight``, not the best one."""
    if weight == leaf_weight(g, h, rules):
        return 0.0
    return node_score(g, h, rules) - score_at(g, h + rules.reg_lambda, rules.reg_alpha, weight)


@kernel(inner=True)
def restricted_score(node: NodeSums, units: Units, rules: SplitRules, bounds: LeafBounds) -> float:
    """Return the score of a node as a leaf with the value that its sides are smoothed toward."""
    g, h = float(node.g) * units.g, float(node.h) * units.h
    if bounds.is_free == 1 or bounds.toward == leaf_weight(g, h, rules):
        return node_score(g, h, rules)
    return score_at(g, h + rules.reg_lambda, rules.reg_alpha, bounds.toward)


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
    """Return the gain of the split found in a node, or ``gain`` if scores are not gains."""
    if constraints.scored == 0:
        return gain
    # The gain of a forced cut is computed from the sums of its left side.
    if score == np.inf:
        bounds = leaf_bounds(constraints, number, node, units, rules)
        g, h = float(node.g) * units.g, float(node.h) * units.h
        g_left, h_left = float(left.g) * units.g, float(left.h) * units.h
        sides = node_score(g_left, h_left, rules) + node_score(g - g_left, h - h_left, rules)
        sides -= lost_score(left, node, units, rules, bounds)
        own = restricted_score(node, units, rules, bounds)
        return max(0.5 * (sides - own) - rules.gamma, 0.0)
    return score if score > 0.0 else -1.0


@kernel(inner=True)
def gain_of_set(
    constraints: Constraints,
    feature: int,
    score: float,
    node: NodeSums,
    units: Units,
    rules: SplitRules,
    bounds: LeafBounds,
) -> float:
    """Return the gain of a set with this score within the bounds, or -1 if it is not positive."""
    # Without constraints the score remains what it is.
    if bounds.is_free == 1:
        return score
    difference = score - restricted_score(node, units, rules, bounds)
    best = node_score(float(node.g) * units.g, float(node.h) * units.h, rules)
    if not difference > ROUNDING * best:
        return -1.0
    gain = constraints.factor[feature] * (0.5 * difference - rules.gamma)
    return gain if gain > 0.0 and math.isfinite(gain) else -1.0
