"""Search of the best cut where leaf values are bounded or ordered, or gains have factors.

A side with leaf value ``w``, which need not be optimal, lowers the loss by half of

    score(G, H, w) = -(2 G w + (H + lambda) w^2 + 2 alpha |w|)

Each side takes its Newton step (:mod:`hedgerow.kernels.splits.split`), clipped to the bounds
of the node::

    bounds of the node       low ------------------------------ high
    column that must rise    low ---- left ---- middle             a cut counts only if
                                       middle ---- right ---- high    left <= right
    other columns            low ------- both ----------------- high

``middle`` lies between the values of the two sides, so all leaves that grow on the
left stay below all leaves that grow on the right (XGBoost; LightGBM's "basic").  A
cut that separates missing values orders nothing: it is allowed, and both children
inherit the bounds of the node.

The gain of a split is

    factor of its column * (1/2 [score(L) + score(R) - score(node)] - gamma)

The factor of an ordered column may be smaller in the first levels.
The search compares gains because columns have different factors.

Other rules of leaf values and cuts::

    smoothing    a node of n rows gets ``(n w + a v) / (n + a)``: ``w`` is its own value, ``v`` the
                 value of its parent and ``a`` the strength (LightGBM's ``path_smooth``)
    drawn cuts   one random cut of each column in each node, between the lowest and the highest
                 value of its rows: extremely randomised trees (Geurts, Ernst and Wehenkel 2006) on
                 bins.  The draw depends only on the seed, the tree, the path from the root and the
                 column.
    weights      of columns, where columns are sampled: without replacement, by the largest
                 ``log(u) / weight`` (Efraimidis and Spirakis 2006)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hedgerow import kernel_types as kt
from hedgerow.compile import kernel
from hedgerow.kernels.primitives.hashing import hash64
from hedgerow.kernels.splits.split import (
    ROUNDING,
    Limits,
    NodeSums,
    Side,
    SplitRules,
    Units,
    Within,
    accepted_gain,
    leaf_weight,
    limits_of,
    node_score,
    smoothed,
    value_within,
)

CUT_STREAM = 15 << 40
"""First random stream of the draws of cuts; each tree has one stream."""

MOST_DRAWN = 1 << 62
"""Upper limit of draws for divisions of categories, whose number is not known in advance."""


class GrowthRules(NamedTuple):
    """Rules for leaf values and cuts, and their state in each node.

    smooth   rows that the value of the parent counts for; 0: no smoothing
    penalty  levels, from the root on, in which splits of ordered columns are penalised
    drawn    1: one random cut per column and node
    key      int64 (nodes,): key of the node's draws
    weight   float64 (n_features,): sampling weight of each column; empty: all equal
    keys     float64 (n_features,): scratch for sampling columns
    """

    smooth: np.float64
    penalty: np.float64
    drawn: np.int64
    key: kt.Int64_1D
    weight: kt.Float64_1D
    keys: kt.Float64_1D


@kernel(inline=True, inner=True)
def ordered_factor(penalty: float, depth: int) -> float:
    """Return the factor on gains of ordered columns in a node of this depth (root: 0)."""
    # The factor is 0 in the first ``floor(penalty)`` levels, as LightGBM's ``monotone_penalty``.
    if penalty >= depth + 1.0:
        return 0.0
    if penalty <= 1.0:
        return 1.0 - penalty / 2.0**depth
    return 1.0 - 2.0 ** (penalty - 1.0 - depth)


@kernel(inline=True, inner=True)
def draw_of(key: int, feature: int, n: int) -> int:
    """Return a random number from 0 to ``n - 1`` for a column in the node with this key."""
    draw = hash64(key, np.uint64(CUT_STREAM), np.uint64(feature))
    return np.int64(draw % np.uint64(n))


class Constraints(NamedTuple):
    """Constraints on columns, and their state in each node.

    scored         1: leaf values are bounded or ordered, gains have factors, or ``growth`` is
                   used; 0: only interactions are constrained, and the search is the plain one
    sign           float64 (n_features,): 1 rises, -1 falls, 0 free
    factor         float64 (n_features,): factor on gains
    last_bin       int64 (n_features,): a cut after this bin separates missing values;
                   empty where trees are not grown on bins
    bounds         float64 (nodes, 4): lowest and highest leaf value and the value of the
                   parent, all before the learning rate; factor on gains of ordered columns
    parent         int64 (nodes,)
    together       largest number of columns on a branch; 0: the groups decide;
                   -1: any number, there are no interaction constraints
    group_start    int64 (groups + 1,): columns of group k are
    group_columns  ``group_columns[group_start[k] : group_start[k + 1]]``
    column_start   the inverse: groups of each column
    column_groups
    met            int64 (groups,): zeros, scratch for counting
    used           int32 (n_features,): scratch for the columns of a branch
    permitted      int32 (n_features,): scratch for marks
    growth         the other rules of leaf values and cuts
    """

    scored: np.int64
    sign: kt.Float64_1D
    factor: kt.Float64_1D
    last_bin: kt.Int64_1D
    bounds: kt.Float64_2D
    parent: kt.Int64_1D
    together: np.int64
    group_start: kt.Int64_1D
    group_columns: kt.Int64_1D
    column_start: kt.Int64_1D
    column_groups: kt.Int64_1D
    met: kt.Int64_1D
    used: kt.Int32_1D
    permitted: kt.Int32_1D
    growth: GrowthRules


# Columns of ``Constraints.bounds``.
LOW, HIGH, TOWARD, ORDERED = range(4)


class Asked(NamedTuple):
    """What a node asks of a split under constraints; scores are in units of its histogram."""

    own: np.float64  # score of the node as a leaf
    rounding: np.float64
    price: np.float64  # gamma
    ordered: np.float64  # factor on gains of ordered columns
    key: np.int64  # of random draws


class SearchedNode(NamedTuple):
    """A node whose best split is searched.

    number  its number in the tree
    limits  its sums and rules in units of its histogram
    within  restrictions of the leaf values below it, in the same units
    leaves  the same restrictions in units of leaf values
    """

    number: np.int64
    sums: NodeSums
    units: Units
    rules: SplitRules
    limits: Limits
    within: Within
    leaves: Within
    asked: Asked


class ConstrainedColumn(NamedTuple):
    """Constraints on one column in one node, for a search that scores cuts one by one."""

    sign: np.float64
    factor: np.float64
    n_present: np.int64  # rows of the node with a value
    within: Within
    asked: Asked


@kernel(inline=True, inner=True)
def clamp(value: float, low: float, high: float) -> float:
    """Return ``value``, or the bound that it crosses."""
    return min(max(value, low), high)


@kernel(inline=True, inner=True)
def score_at(g: float, d: float, alpha: float, weight: float) -> float:
    """Return twice the loss reduction of a leaf with this weight; ``d`` is ``H + lambda``."""
    return -((g + g) * weight + d * weight * weight) - 2.0 * alpha * abs(weight)


@kernel(inline=True, inner=True)
def value_in_node(constraints: Constraints, number: int, weight: float, n: int) -> float:
    """Return the Newton step of node ``number`` with ``n`` rows, smoothed and within bounds."""
    if constraints.growth.smooth > 0.0 and number > 0:  # the root has no parent
        weight = smoothed(
            weight, float(n), constraints.bounds[number, TOWARD], constraints.growth.smooth
        )
    return clamp(weight, constraints.bounds[number, LOW], constraints.bounds[number, HIGH])


@kernel(inner=True)
def searched_node(
    constraints: Constraints, number: int, sums: NodeSums, units: Units, rules: SplitRules
) -> SearchedNode:
    """Return node ``number`` with these sums, ready for the search."""
    g, h = float(sums.g) * units.g, float(sums.h) * units.h
    limits, weight = limits_of(sums, units, rules), leaf_weight(g, h, rules)
    if constraints.scored == 0:
        free, asked = Within(-np.inf, np.inf, weight, 0.0), Asked(0.0, 0.0, 0.0, 1.0, 0)
        return SearchedNode(number, sums, units, rules, limits, free, free, asked)
    low, high = constraints.bounds[number, LOW], constraints.bounds[number, HIGH]
    weight, smooth = value_in_node(constraints, number, weight, sums.n), constraints.growth.smooth
    value_unit = units.h / units.g
    score_unit = units.g * (units.g / units.h)
    asked = Asked(
        score_at(g, h + rules.reg_lambda, rules.reg_alpha, weight) / score_unit,
        ROUNDING * node_score(g, h, rules) / score_unit,
        rules.gamma / score_unit,
        constraints.bounds[number, ORDERED],
        constraints.growth.key[number],
    )
    within = Within(low * value_unit, high * value_unit, weight * value_unit, smooth)
    leaves = Within(low, high, weight, smooth)
    return SearchedNode(number, sums, units, rules, limits, within, leaves, asked)


@kernel(inline=True, inner=True)
def factor_of(constraints: Constraints, feature: int, asked: Asked) -> float:
    """Return the factor on the gains of a column in a node."""
    ordered = asked.ordered if constraints.sign[feature] != 0.0 else 1.0
    return constraints.factor[feature] * ordered


@kernel(inline=True, inner=True)
def cut_gain(
    left: Side, right: Side, n_before: int, limits: Limits, column: ConstrainedColumn
) -> float:
    """Return the gain of a cut with ``n_before`` rows with a value before it, or -1."""
    if left.d <= 0.0 or right.d <= 0.0:
        return -1.0
    low, high = (
        value_within(left, limits, column.within),
        value_within(right, limits, column.within),
    )
    if column.sign * (high - low) < 0.0 and n_before < column.n_present:
        return -1.0
    score = score_at(left.g, left.d, limits.shrink, low)
    score += score_at(right.g, right.d, limits.shrink, high)
    asked = column.asked
    return accepted_gain(score, asked.own, asked.rounding, asked.price, column.factor)


# -- single splits, in units of leaf values ------------------------------------------------


@kernel(inner=True)
def lost_on_side(g: float, h: float, n: int, leaves: Within, rules: SplitRules) -> float:
    """Return the score that a side of ``n`` rows loses if its leaf value is restricted."""
    weight = leaf_weight(g, h, rules)
    if leaves.smooth > 0.0:
        weight = smoothed(weight, float(n), leaves.toward, leaves.smooth)
    weight = clamp(weight, leaves.low, leaves.high)
    if weight == leaf_weight(g, h, rules):
        return 0.0
    return node_score(g, h, rules) - score_at(g, h + rules.reg_lambda, rules.reg_alpha, weight)


@kernel(inner=True)
def own_score(node: SearchedNode) -> float:
    """Return the score of a node as a leaf with the value that its sides are smoothed toward."""
    rules, weight = node.rules, node.leaves.toward
    g, h = float(node.sums.g) * node.units.g, float(node.sums.h) * node.units.h
    if weight == leaf_weight(g, h, rules):
        return node_score(g, h, rules)
    return score_at(g, h + rules.reg_lambda, rules.reg_alpha, weight)
