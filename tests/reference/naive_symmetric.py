"""Naive symmetric trees: every cut is tried in every node of a level."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from tests.reference import naive


@dataclass
class Cut:
    """A cut of all nodes of a level."""

    gain: float
    feature: int
    bin: int
    missing_left: int


class Tied(Exception):
    """Raised if two divisions tie up to rounding, for example if leaf values are at a bound."""


def sides_of(column, cut_bin, missing_left, missing_bin, rows):
    """Return whether each row goes left."""
    at = column[rows]
    return np.where(at == missing_bin, missing_left == 1, at <= cut_bin)


def value_of(g, h, rows, rules, bounds):
    """Return the leaf value of some rows within bounds."""
    return min(max(naive.leaf_weight(g[rows].sum(), h[rows].sum(), rules), bounds[0]), bounds[1])


def reduction(g, h, rows, rules, value):
    """Return the reduction of the loss by a leaf of this value."""
    penalty = rules.reg_alpha * abs(value) + (h[rows].sum() + rules.reg_lambda) * value**2 / 2
    return -g[rows].sum() * value - penalty


def gain_in(g, h, rows, goes_left, rules, bounds=None, sign=0):
    """Return the gain of a division, or None if a side is too small or out of order."""
    sides = rows[goes_left], rows[~goes_left]
    if min(len(side) for side in sides) < max(1, rules.min_samples_leaf):
        return None
    masses = [h[side].sum() for side in sides]
    if min(masses) < rules.min_child_weight or min(masses) + rules.reg_lambda <= 0:
        return None
    if bounds is not None:
        values = [value_of(g, h, side, rules, bounds) for side in (*sides, rows)]
        if sign * (values[1] - values[0]) < 0:
            return None
        gains = [
            reduction(g, h, part, rules, value)
            for part, value in zip((*sides, rows), values, strict=True)
        ]
        return gains[0] + gains[1] - gains[2]
    after = sum(naive.loss_reduction(g[side].sum(), h[side].sum(), rules) for side in sides)
    return after - naive.loss_reduction(g[rows].sum(), h[rows].sum(), rules)


def best_cut(
    bins, n_bins, stride, g, h, nodes, rules, features=None, constraints=None, offered=None
):
    """Return the first of the cuts with the largest gain over all nodes, or None if none gains.

    ``constraints`` are signs and factors of all columns, and the bounds of each node.
    ``offered`` are the bins of each column after which a cut is allowed.
    """
    best, worth_of_best, division, tied = None, 0.0, None, False
    signs, factors, bounds = constraints or (
        [0] * len(bins),
        [1.0] * len(bins),
        [None] * len(nodes),
    )
    for feature in range(len(n_bins)) if features is None else sorted(features):
        column = bins[feature]
        n_missing = sum(int((column[rows] == stride - 1).sum()) for rows in nodes)
        for missing_left in (0, 1) if n_missing else (0,):
            for b in range(n_bins[feature]) if offered is None else offered[feature]:
                sign = signs[feature] if b < n_bins[feature] - 1 else 0
                gains = [
                    gain_in(
                        g,
                        h,
                        rows,
                        sides_of(column, b, missing_left, stride - 1, rows),
                        rules,
                        within,
                        sign,
                    )
                    for rows, within in zip(nodes, bounds, strict=True)
                ]
                total = sum(gain for gain in gains if gain is not None)
                worth = factors[feature] * (total - rules.gamma) if constraints else total
                if worth <= 0:
                    continue
                cut = Cut(total, feature, b, missing_left)
                goes_left = np.concatenate(
                    [
                        sides_of(column, b, missing_left, stride - 1, rows) & (gain is not None)
                        for rows, gain in zip(nodes, gains, strict=True)
                    ]
                )
                if best is None or worth > worth_of_best * (1 + 1e-12):
                    best, worth_of_best, division, tied = cut, worth, goes_left, False
                elif worth > worth_of_best * (1 - 1e-12):
                    tied |= bool((goes_left != division).any())
    if tied and constraints is not None:
        raise Tied
    return best


def drawn_cuts(column, missing_bin, draw):
    """Return a random cut among those that divide the rows of the tree, or None."""
    present = column[column != missing_bin].astype(int)
    if len(present) == 0:
        return []
    n_cuts = int(present.max() - present.min()) + int(len(present) < len(column))
    return [int(present.min()) + draw(n_cuts)] if n_cuts else []


def completed(cut, bins, n_bins, stride, nodes):
    """Return the cut with the sides of values that no row has."""
    rows = np.concatenate(nodes)
    column = bins[cut.feature][rows]
    missing = column == stride - 1
    n_left = int(sides_of(bins[cut.feature], cut.bin, cut.missing_left, stride - 1, rows).sum())
    all_left = bool((column[~missing] <= cut.bin).all())
    return Cut(
        cut.gain,
        cut.feature,
        n_bins[cut.feature] - 1 if all_left else cut.bin,
        cut.missing_left if missing.any() else int(2 * n_left >= len(rows)),
    )


def grow_tree(
    bins, n_bins, stride, g, h, rules, max_depth, learning_rate=0.1, draw=None, signs=None,
    factors=None, draw_cut=None, given=(),
):  # fmt: skip
    """Grow one tree in float64; nodes are numbered in the order in which they are made.

    ``draw(level)`` returns the columns that a level may use.  ``draw_cut(level, column, n)``
    returns which of ``n`` cuts a column offers.  ``given`` has the columns and bins of the first
    levels.
    """
    nodes, bounds = [], []
    is_bounded = signs is not None or factors is not None or draw_cut is not None
    is_bounded = is_bounded or bool(given)
    n_columns = len(bins)
    signs, factors = signs or [0] * len(bins), factors or [1.0] * len(bins)

    def add(rows, depth, within=(-np.inf, np.inf)):
        node = naive.Node(rows, depth)
        node.value = learning_rate * value_of(g, h, rows, rules, within)
        bounds.append(within)
        node.cover = h[rows].sum()
        nodes.append(node)
        return len(nodes) - 1

    add(np.arange(len(g)), 0)
    level = [0]
    for depth in range(max_depth):
        opened = [k for k in level if len(nodes[k].rows) >= 2 * rules.min_samples_leaf]
        members = [nodes[k].rows for k in opened]
        features = None if draw is None else draw(depth)
        constraints = (signs, factors, [bounds[k] for k in opened]) if is_bounded else None
        leaf_scores = sum(
            naive.loss_reduction(g[rows].sum(), h[rows].sum(), rules) for rows in members
        )
        least = max(rules.gamma, 1e-10 * leaf_scores)
        cut = None
        if opened and depth < len(given):
            column, bin_ = given[depth]
            may = [column] if features is None or column in features else []
            offered = {column: [bin_]}
            cut = best_cut(bins, n_bins, stride, g, h, members, rules, may, constraints, offered)
            if cut is None or cut.gain <= least:
                cut, given = None, ()
        if opened and cut is None:
            offered = None
            if draw_cut is not None:
                offered = [
                    drawn_cuts(bins[j], stride - 1, partial(draw_cut, depth, j))
                    for j in range(n_columns)
                ]
            cut = best_cut(
                bins, n_bins, stride, g, h, members, rules, features, constraints, offered
            )
        if cut is None or cut.gain <= least:
            break
        cut = completed(cut, bins, n_bins, stride, members)
        level = []
        for k in opened:
            node = nodes[k]
            left = sides_of(bins[cut.feature], cut.bin, cut.missing_left, stride - 1, node.rows)
            within = bounds[k] if is_bounded else None
            sign = signs[cut.feature] if cut.bin < n_bins[cut.feature] - 1 else 0
            gain = gain_in(g, h, node.rows, left, rules, within, sign)
            if gain is None:
                level.append(k)
                continue
            node.cut = naive.Cut(0.0, cut.feature, cut.bin, cut.missing_left, 0.0, 0.0, 0)
            node.gain = gain * factors[cut.feature]
            low, high = bounds[k]
            ends = [(low, high), (low, high)]
            if sign != 0:
                sides = node.rows[left], node.rows[~left]
                middle = sum(value_of(g, h, side, rules, bounds[k]) for side in sides) / 2
                below, above = (low, min(high, middle)), (max(low, middle), high)
                ends = [below, above] if sign > 0 else [above, below]
            node.left = add(node.rows[left], node.depth + 1, ends[0])
            node.right = add(node.rows[~left], node.depth + 1, ends[1])
            level += [node.left, node.right]
    return nodes


def boost(bins, n_bins, stride, target, base, rules, n_rounds, loss, weight=None, **tree_options):
    """Boost some rounds; return trees in the form of ``hedgerow.growing.core.grower.GrownTree``."""
    raw = np.repeat(np.asarray(base, dtype=np.float64)[:, None], len(target), axis=1)
    trees = []
    draw_cut = tree_options.pop("draw_cut", None)
    for _ in range(n_rounds):
        g, h = naive.gradients(loss, target, raw, weight)
        for output in range(len(raw)):
            if draw_cut is not None:  # by the number of the tree
                tree_options["draw_cut"] = partial(draw_cut, len(trees))
            grid = naive.on_grid(g[output]), naive.on_grid(h[output])
            nodes = grow_tree(bins, n_bins, stride, *grid, rules, **tree_options)
            for node in nodes:
                if not node.left:
                    raw[output, node.rows] += node.value
            trees.append(naive.as_arrays(nodes, bins, stride))
    return trees
