"""Gains of the common cut of a level: of the level, and of each node."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hedgerow.compile import kernel
from hedgerow.growing.core import state as s
from hedgerow.kernels.splits.category_split import penalised, score_within
from hedgerow.kernels.splits.growth import ordered_factor
from hedgerow.kernels.splits.monotone import Constraints, SearchedNode, own_score, searched_node
from hedgerow.kernels.splits.split import NodeSums, Side, SplitRules, Units, value_within


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
def keeps_order(state: s.State, node: SearchedNode, left: NodeSums) -> bool:
    """Return whether the sides of the chosen cut of a node are in the column's order."""
    constraints, choice = state.options.constraints, state.level.choice
    if constraints.scored == 0:
        return True
    feature = choice[s.FOUND_FEATURE]
    if constraints.sign[feature] == 0.0 or choice[s.FOUND_BIN] == constraints.last_bin[feature]:
        return True
    limits, g, h = node.limits, float(left.g), float(left.h)
    below = value_within(Side(g, h + limits.penalty, left.n), limits, node.within)
    rest = Side(limits.g - g, limits.h - h + limits.penalty, limits.n - left.n)
    above = value_within(rest, limits, node.within)
    return constraints.sign[feature] * (above - below) >= 0.0


@kernel(inner=True)
def gain_of_node(state: s.State, number: int, units: Units, penalty: float) -> tuple[bool, float]:
    """Return whether the cut divides node ``number``, from its left sums, and its gain there."""
    row, rules = state.tree.table[number], state.rules
    # ``penalty`` as of :func:`split_penalty`.
    sums = NodeSums(row[s.NODE_G], row[s.NODE_H], row[s.NODE_COUNT])
    left = NodeSums(row[s.NODE_G_LEFT], row[s.NODE_H_LEFT], row[s.NODE_N_LEFT])
    node, of_set = searched_node(state.options.constraints, number, sums, units, rules), rules
    if penalty >= 0.0:
        of_set = penalised(rules, penalty)
    else:
        # As several columns at a time are compared: in units.
        limits, lightest = node.limits, min(float(left.h), float(sums.h - left.h))
        if min(left.n, sums.n - left.n) < limits.fewest or lightest < limits.lightest:
            return False, 0.0
        if not keeps_order(state, node, left):
            return False, 0.0
        of_set = SplitRules(
            rules.min_samples_leaf, 0.0, rules.reg_lambda, rules.reg_alpha, rules.gamma,
            rules.max_delta_step,
        )  # fmt: skip
    score = score_within(left, node, of_set)
    if score == -np.inf:
        return False, 0.0
    return True, 0.5 * (score - own_score(node))
