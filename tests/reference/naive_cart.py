"""Naive twins of the kernels of single trees (CART)."""

from __future__ import annotations

import itertools
import math

import numpy as np


def impurity(criterion, y, w):
    """Return the impurity of rows with targets (or classes) y and weights w."""
    y, w = np.asarray(y, dtype=float), np.asarray(w, dtype=float)
    total = w.sum()
    if criterion in ("gini", "entropy", "log_loss"):
        shares = [w[y == k].sum() / total for k in np.unique(y)]
        if criterion == "gini":
            return sum(p * (1.0 - p) for p in shares)
        return -sum(p * math.log2(p) for p in shares if p > 0.0)
    if criterion == "squared_error":
        mean = (w * y).sum() / total
        return (w * (y - mean) ** 2).sum() / total
    return min((w * np.abs(y - value)).sum() for value in y) / total


def decrease(criterion, y, w, left):
    """Return the decrease of weight times impurity by a division."""
    y, w = np.asarray(y), np.asarray(w)
    whole = w.sum() * impurity(criterion, y, w)
    return whole - sum(
        w[side].sum() * impurity(criterion, y[side], w[side]) for side in (left, ~left)
    )


def divisions(x, categorical):
    """Yield every allowed division by one feature: (rows on the left, missing on the left)."""
    missing = np.isnan(x)
    values = np.unique(x[~missing])
    if categorical:
        sets = [
            chosen for size in range(1, len(values) + 1)
            for chosen in itertools.combinations(values, size)
        ]  # fmt: skip
    else:
        sets = [values[: i + 1] for i in range(len(values))]
    for chosen in sets:
        left = np.isin(x, chosen)
        for side in (False, True):
            yield left | (missing & side), side


def best_decrease(X, y, w, criterion, categorical=(), min_samples_leaf=1, min_weight_leaf=0.0):
    """Return the largest decrease of any allowed division, or None if there is none."""
    best = None
    for j in range(X.shape[1]):
        for left, _ in divisions(X[:, j], j in categorical):
            sides = (left, ~left)
            if min(side.sum() for side in sides) < max(1, min_samples_leaf):
                continue
            if min(w[side].sum() for side in sides) < min_weight_leaf:
                continue
            value = decrease(criterion, y, w, left)
            best = value if best is None or value > best else best
    return best


def walk(tree, x):
    """Return the leaf of one row of numbers."""
    node = 0
    while tree.feature[node] >= 0:
        node = (tree.children_left if goes_left(tree, node, x) else tree.children_right)[node]
    return int(node)


def goes_left(tree, node, x):
    """Return whether a row of numbers goes left at a node."""
    value = float(x[tree.feature[node]])
    if math.isnan(value):
        return bool(tree.missing_left[node])
    if not tree.is_categorical[node]:
        return value <= tree.threshold[node]
    left, right = tree.categories(node)
    if value in left or value in right:
        return value in left
    count = tree.n_node_samples
    return bool(count[tree.children_left[node]] > count[tree.children_right[node]])


def prune(left, right, risk, most):
    """Prune by weakest links, looking at all nodes in every step; return alphas, risks, leaves."""
    leaf = {node for node in range(len(left)) if left[node] < 0}

    def leaves_below(node):
        if node in leaf:
            return [node]
        return leaves_below(left[node]) + leaves_below(right[node])

    def inner_below(node):
        return [] if node in leaf else [node, *inner_below(left[node]), *inner_below(right[node])]

    alphas, risks = [0.0], [sum(risk[i] for i in leaves_below(0))]
    while 0 not in leaf:
        price = {
            node: (risk[node] - sum(risk[i] for i in leaves_below(node)))
            / (len(leaves_below(node)) - 1)
            for node in inner_below(0)
        }
        weakest = min(sorted(price), key=price.__getitem__)
        if price[weakest] > most:
            break
        leaf.add(weakest)
        alphas.append(price[weakest])
        risks.append(sum(risk[i] for i in leaves_below(0)))
    return alphas, risks, leaves_below(0)
