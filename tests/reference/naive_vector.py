"""Naive trees with vector leaves, by trying every cut."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


class Tied(Exception):
    """Raised if two divisions of a level tie, for example if all leaf values are at a bound."""


@dataclass(frozen=True)
class Sets:
    """Limits of the search for sets of categories.

    ``smooth``: rows added to each category where they are sorted; categories of fewer rows are
    one group.  ``penalty``: added to lambda of both sides.  ``least``: rows between two cuts and
    behind the last one.  ``most``: groups on the side that is filled.
    """

    smooth: float
    penalty: float
    least: int
    most: int


@dataclass(frozen=True)
class TreeOptions:
    """Options of the growth of a tree.

    ``smooth``: rows that the value of a parent counts for.  ``factors`` on the gains of columns.
    ``draw``: which of ``n`` cuts a column offers to the node with a key.  ``key_of``: the key of
    the child on one side, or of a level.  ``categories``: columns of which each level is tried
    against all others, or, with ``sets``, one end of the sorted list.  ``signs``: 1 for increasing
    columns, -1 for decreasing ones, whose gains ``penalty`` lowers near the root.  ``columns``:
    which of them a level may use.
    """

    smooth: float = 0.0
    factors: tuple[float, ...] | None = None
    draw: Callable[[int, int, int], int] | None = None
    key_of: Callable[[int, int], int] = lambda key, side: 0
    root_key: int = 0
    categories: tuple[int, ...] = ()
    sets: Sets | None = None
    signs: tuple[int, ...] | None = None
    penalty: float = 0.0
    columns: Callable[[int], list[int]] | None = None

    def factor(self, feature: int, depth: int) -> float:
        """Return the factor on gains of a column at a depth; LightGBM's adds an epsilon."""
        factor = 1.0 if self.factors is None else self.factors[feature]
        if self.signs is None or self.signs[feature] == 0:
            return factor
        if self.penalty >= depth + 1:
            return 0.0
        held = (
            self.penalty / 2.0**depth if self.penalty <= 1.0 else 2.0 ** (self.penalty - 1 - depth)
        )
        return factor * (1.0 - held)


PLAIN = TreeOptions()


def step(g: float, h: float, rules) -> float:
    """Return the leaf value of one output that lowers its loss most."""
    size = max(abs(g) - rules["reg_alpha"], 0.0) / (h + rules["reg_lambda"])
    return -math.copysign(min(size, rules["longest"]), g)


class Node:
    """The rows of a node, and the vector that they would have as a leaf."""

    def __init__(self, g, h, rows, rules, tree_options, above=None, key=0, bounds=None):
        self.rows, self.key, self.bounds = rows, key, bounds
        self.depth = 0 if above is None else above.depth + 1
        self.G, self.H = g[:, rows].sum(axis=1), h[:, rows].sum(axis=1)
        self.value = np.array([step(*sums, rules) for sums in zip(self.G, self.H, strict=True)])
        if tree_options.smooth > 0.0 and above is not None:
            n = len(rows)
            self.value = (n * self.value + tree_options.smooth * above.value) / (
                n + tree_options.smooth
            )
        if bounds is not None:
            self.value = np.clip(self.value, *bounds)
        # Twice the loss that a leaf of this value takes away.
        self.score = -(2 * self.G * self.value + (self.H + rules["reg_lambda"]) * self.value**2)
        self.score = (self.score - 2 * rules["reg_alpha"] * abs(self.value)).sum()


def penalised_score(g, h, side, rules, penalty):
    """Return the score of a side of a set: lambda is larger where its value may be the best one."""
    if penalty == 0.0:
        return side.score
    rows, harder = side.rows, rules | {"reg_lambda": rules["reg_lambda"] + penalty}
    best, free = (Node(g, h, rows, rule_set, PLAIN).score for rule_set in (harder, rules))
    return best - (free - side.score)


def divided(g, h, node, goes_left, rules, tree_options, sign=0, penalty=0.0):
    """Return the gain of a division of a node, and its sides.

    Return None if a side is too small, or if the sides of an output are not in order.
    """
    left, right = node.rows[goes_left], node.rows[~goes_left]
    if min(len(left), len(right)) < rules["min_samples_leaf"]:
        return None
    sides = [
        Node(g, h, rows, rules, tree_options, node, bounds=node.bounds) for rows in (left, right)
    ]
    if min(side.H.mean() for side in sides) < rules["min_child_weight"]:
        return None
    if (sign * (sides[1].value - sides[0].value) < 0).any():
        return None
    scores = [penalised_score(g, h, side, rules, penalty) for side in sides]
    return 0.5 * (scores[0] + scores[1] - node.score)


def cuts_of(X, rows, feature, key, tree_options):
    """Return the cuts of a column: the largest value, or the only level, on the left."""
    values = X[rows, feature]
    missing, present = np.isnan(values).any(), values[~np.isnan(values)]
    if feature in tree_options.categories:
        levels = [*np.unique(present), *([np.nan] if missing else [])]
        return levels[:1] if len(levels) == 2 else levels
    if tree_options.draw is None:
        return list(np.unique(present))
    if len(present) == 0:
        return []
    # Bins are the values of the whole column; those without rows are drawn, too.
    bins = np.unique(X[:, feature])
    bins = bins[(bins >= present.min()) & (bins <= present.max())]
    cuts = bins if missing else bins[:-1]
    return [cuts[tree_options.draw(key, feature, len(cuts))]] if len(cuts) else []


def ways_of(X, rows, feature, at, tree_options):
    """Return which rows go left, with missing values on the right and on the left."""
    values = X[rows, feature]
    missing = np.isnan(values)
    if feature in tree_options.categories:
        return [missing if np.isnan(at) else values == at]
    return [np.where(missing, side, values <= at) for side in (False, True)]


def best_split(X, g, h, node, rules, tree_options):
    """Return ``(gain, left rows, sign)`` of the best cut."""
    price, others = len(g) * rules["gamma"], []
    best = (0.0, None, 0)
    for feature in range(X.shape[1]):
        factor = tree_options.factor(feature, node.depth)
        for at in cuts_of(X, node.rows, feature, node.key, tree_options):
            for goes_left in ways_of(X, node.rows, feature, at, tree_options):
                sign = 0 if tree_options.signs is None else tree_options.signs[feature]
                if np.isnan(X[node.rows[~goes_left], feature]).all():
                    sign = 0  # the cut after the last value orders nothing
                gain = divided(g, h, node, goes_left, rules, tree_options, sign)
                gain = 0.0 if gain is None else factor * (gain - price)
                others.append((gain, goes_left))
                if gain > best[0] * (1 + 1e-9) + 1e-9:
                    best = (gain, goes_left, sign)
    if tree_options.signs is not None and best[1] is not None:
        raise_if_tied(best[0], best[1], others)
    return best


def raise_if_tied(best, division, others):
    """Raise if another division has about the same gain as the best one."""
    for gain, other in others:
        same = (other == division).all() or (other == ~division).all()
        if gain > best * (1 - 1e-7) - 1e-7 and not same:
            raise Tied


def grow(X, g, h, rules, max_leaves, tree_options=PLAIN, rows=None):
    """Grow a tree leaf-wise; return the vector of each row before the learning rate."""
    rows = np.arange(len(X)) if rows is None else rows
    leaves = [Node(g, h, rows, rules, tree_options, None, tree_options.root_key)]
    found = [best_split(X, g, h, leaves[0], rules, tree_options)]
    while len(leaves) < max_leaves:
        chosen = max(range(len(leaves)), key=lambda i: (found[i][0], -i))
        gain, goes_left, sign = found.pop(chosen)
        if gain <= 0.0:
            break
        node = leaves.pop(chosen)
        for side, leaf in enumerate(children_of(g, h, node, goes_left, rules, tree_options, sign)):
            leaf.key = tree_options.key_of(node.key, side + 1)
            leaves.append(leaf)
            found.append(best_split(X, g, h, leaf, rules, tree_options))
    return leaf_vectors(leaves, X, g)


def sorted_groups(values, g, h, smooth):
    """Return groups of categories along the first principal component of their leaf weights."""
    levels = [*np.unique(values[~np.isnan(values)]), *([np.nan] if np.isnan(values).any() else [])]
    sizes = [int(is_level(values, [level]).sum()) for level in levels]
    small = [level for level, size in zip(levels, sizes, strict=True) if size < smooth]
    groups = [small] if small else []
    groups += [[level] for level, size in zip(levels, sizes, strict=True) if size >= smooth]
    chosen = [is_level(values, group) for group in groups]
    n = np.array([rows.sum() for rows in chosen])
    weight = np.array(
        [g[:, rows].sum(axis=1) / (h[:, rows].sum(axis=1) + smooth) for rows in chosen]
    )
    away = weight - (n @ weight) / n.sum()
    direction = away[np.argmax(n * (away**2).sum(axis=1))]
    for _ in range(8):
        direction = normal(away.T @ (n * (away @ normal(direction))))
    order = np.argsort(weight @ normal(direction), kind="stable")
    return [groups[k] for k in order], n[order]


def normal(direction):
    """Return the direction with length 1 and its largest component positive."""
    largest = direction[np.argmax(abs(direction))]
    return direction * np.sign(largest) / (np.linalg.norm(direction) or 1.0)


def is_level(values, levels):
    """Return whether the value of each row is one of the levels, which may include nan."""
    return np.isin(values, levels) | (np.isnan(values) & np.isnan(levels).any())


def sets_of(values, g, h, sets):
    """Return the sets that a category column offers to all levels of a tree."""
    groups, sizes = sorted_groups(values, g, h, sets.smooth)
    most, allowed = min(sets.most, (len(groups) + 1) // 2, len(groups) - 1), set()
    for of_end in (range(most), range(len(groups) - 1, len(groups) - 1 - most, -1)):
        n = passed = 0
        for i in of_end:
            n, passed = n + sizes[i], passed + sizes[i]
            if sum(sizes) - n < sets.least:
                break
            if passed >= sets.least:
                passed = 0
                allowed.add(i if of_end.step > 0 else i - 1)
    return [[level for group in groups[: i + 1] for level in group] for i in sorted(allowed)]


def level_gains(X, g, h, opened, feature, at, rules, tree_options):
    """Yield, for both sides of missing values, the left rows and the gain in each node."""
    is_set, sign = isinstance(at, list), 0
    penalty = tree_options.sets.penalty if is_set else 0.0
    if tree_options.signs is not None and not is_set and at != np.nanmax(X[:, feature]):
        sign = tree_options.signs[feature]  # the cut after the last value orders nothing
    if is_set:
        ways = [is_level(X[:, feature], at)]
    else:
        ways = ways_of(X, np.arange(len(X)), feature, at, tree_options)
    for way in ways:
        gains = [
            divided(g, h, node, way[node.rows], rules, tree_options, sign, penalty)
            for node in opened
        ]
        yield way, gains, sign


def children_of(g, h, node, goes_left, rules, tree_options, sign):
    """Return both sides of a node; the midpoint of their values bounds an ordered column."""
    parts = node.rows[goes_left], node.rows[~goes_left]
    low, high = (np.full(len(g), -np.inf), np.full(len(g), np.inf))
    if node.bounds is not None:
        low, high = node.bounds
    bounds = [(low, high), (low, high)]
    if sign != 0:
        sides = [Node(g, h, rows, rules, tree_options, node, bounds=node.bounds) for rows in parts]
        middle = 0.5 * (sides[0].value + sides[1].value)
        bounds = [(low, np.minimum(high, middle)), (np.maximum(low, middle), high)]
        bounds = bounds if sign > 0 else bounds[::-1]
    return [
        Node(g, h, rows, rules, tree_options, node, bounds=within)
        for rows, within in zip(parts, bounds, strict=True)
    ]


def best_of_level(X, g, h, opened, cuts, rules, tree_options, level):
    """Return the left rows, the gain of each node, and the sign of the best cut."""
    price = len(g) * rules["gamma"]
    best, ways, others = 0.0, None, []
    for feature, at in cuts:
        for goes_left, gains, sign in level_gains(
            X, g, h, opened, feature, at, rules, tree_options
        ):
            factor = tree_options.factor(feature, level)
            worth = factor * (sum(gain for gain in gains if gain is not None) - price)
            if worth <= 0.0:
                continue
            parts = [goes_left[node.rows] & (gain is not None)
                     for node, gain in zip(opened, gains, strict=True)]  # fmt: skip
            others.append((worth, np.concatenate(parts)))
            if worth > best * (1 + 1e-9) + 1e-9:
                best, ways, division = worth, (goes_left, gains, sign), others[-1][1]
    if tree_options.signs is not None and ways is not None:
        raise_if_tied(best, division, others)
    return ways


def grow_levels(X, g, h, rules, depth, tree_options=PLAIN):
    """Grow a symmetric tree; return the vector of each row before the learning rate."""
    opened, closed = [Node(g, h, np.arange(len(X)), rules, tree_options)], []
    offered = {}
    if tree_options.sets is not None:
        offered = {j: sets_of(X[:, j], g, h, tree_options.sets) for j in tree_options.categories}
    for level in range(depth):
        closed += [node for node in opened if len(node.rows) < 2 * rules["min_samples_leaf"]]
        opened = [node for node in opened if len(node.rows) >= 2 * rules["min_samples_leaf"]]
        key = tree_options.key_of(-1, level)
        cuts = [(feature, at) for feature, found in offered.items() for at in found]
        may = tree_options.columns and tree_options.columns(level)
        cuts += [
            (feature, at)
            for feature in may or range(X.shape[1])
            if feature not in offered
            for at in cuts_of(X, np.arange(len(X)), feature, key, tree_options)
        ]
        cuts.sort(key=lambda cut: cut[0])  # ties go to the lower column
        ways = best_of_level(X, g, h, opened, cuts, rules, tree_options, level)
        if ways is None:
            break
        goes_left, gains, sign = ways
        parts = []
        for node, gain in zip(opened, gains, strict=True):
            way = goes_left[node.rows]
            divides = gain is not None
            parts += children_of(g, h, node, way, rules, tree_options, sign) if divides else [node]
        opened = parts
    return leaf_vectors([*opened, *closed], X, g)


def leaf_vectors(leaves, X, g):
    """Return the vector of each row from its leaf in ``leaves``."""
    values = np.zeros((len(X), len(g)))
    for leaf in leaves:
        values[leaf.rows] = leaf.value
    return values


# -- row samples that follow gradients ---------------------------------------------------
