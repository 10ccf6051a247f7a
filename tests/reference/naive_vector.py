"""Trees with vectors in their leaves, by trying every cut; written for the eye."""

from __future__ import annotations

import math
from itertools import product

import numpy as np


def step(g: float, h: float, lam: float, alpha: float, longest: float) -> float:
    size = min(max(abs(g) - alpha, 0.0) / (h + lam), longest)
    return -math.copysign(size, g)


def score(G: np.ndarray, H: np.ndarray, lam: float, alpha: float, longest: float) -> float:
    """Twice the loss that a leaf with these sums (one for each output) takes away."""
    total = 0.0
    for g, h in zip(G, H, strict=True):
        size = abs(step(g, h, lam, alpha, longest))
        total += size * (2 * max(abs(g) - alpha, 0.0) - (h + lam) * size)
    return total


def best_split(X, g, h, rows, rules):
    """``(gain, feature, left rows)`` of the best cut of a node, over the summed gains."""
    lam, alpha, longest = rules["reg_lambda"], rules["reg_alpha"], rules["longest"]
    best = (0.0, -1, None)
    parent = score(g[:, rows].sum(axis=1), h[:, rows].sum(axis=1), lam, alpha, longest)
    for feature in range(X.shape[1]):
        x = X[rows, feature]
        missing = np.isnan(x)
        for at, missing_left in product(np.unique(x[~missing]), (False, True)):
            goes_left = np.where(missing, missing_left, x <= at)
            left, right = rows[goes_left], rows[~goes_left]
            if min(len(left), len(right)) < rules["min_samples_leaf"]:
                continue
            sides = [(g[:, r].sum(axis=1), h[:, r].sum(axis=1)) for r in (left, right)]
            if min(side[1].mean() for side in sides) < rules["min_child_weight"]:
                continue
            gain = 0.5 * (sum(score(*side, lam, alpha, longest) for side in sides) - parent)
            gain -= len(g) * rules["gamma"]
            if gain > best[0] * (1 + 1e-9) + 1e-9:
                best = (gain, feature, goes_left)
    return best


def gain_in(g, h, rows, goes_left, rules):
    """Summed gain of a division of a node; None where a side has too little."""
    limits = rules["reg_lambda"], rules["reg_alpha"], rules["longest"]
    left, right = rows[goes_left], rows[~goes_left]
    if min(len(left), len(right)) < rules["min_samples_leaf"]:
        return None
    parts = [(g[:, r].sum(axis=1), h[:, r].sum(axis=1)) for r in (left, right, rows)]
    if min(part[1].mean() for part in parts) < rules["min_child_weight"]:
        return None
    scores = [score(*part, *limits) for part in parts]
    return 0.5 * (scores[0] + scores[1] - scores[2])


def grow_levels(X, g, h, rules, depth):
    """Vector of each row after one symmetric tree, before the learning rate."""
    opened, closed = [np.arange(len(X))], []
    for _ in range(depth):
        closed += [rows for rows in opened if len(rows) < 2 * rules["min_samples_leaf"]]
        opened = [rows for rows in opened if len(rows) >= 2 * rules["min_samples_leaf"]]
        best, ways = len(g) * rules["gamma"], None
        for feature in range(X.shape[1]):
            x = X[:, feature]
            for at, missing_left in product(np.unique(x[~np.isnan(x)]), (False, True)):
                goes_left = np.where(np.isnan(x), missing_left, x <= at)
                gains = [gain_in(g, h, rows, goes_left[rows], rules) for rows in opened]
                total = sum(gain for gain in gains if gain is not None)
                if total > best * (1 + 1e-9) + 1e-9:
                    best, ways = total, (goes_left, gains)
        if ways is None:
            break
        goes_left, gains = ways
        parts = []
        for rows, gain in zip(opened, gains, strict=True):
            sides = rows[goes_left[rows]], rows[~goes_left[rows]]
            parts += [rows] if gain is None else sides
        opened = parts
    return leaf_vectors([*opened, *closed], X, g, h, rules)


def grow(X, g, h, rules, max_leaves):
    """Vector of each row after one tree, leaf-wise, before the learning rate."""
    leaves = [np.arange(len(X))]
    found = [best_split(X, g, h, leaves[0], rules)]
    while len(leaves) < max_leaves:
        chosen = int(np.argmax([gain for gain, *_ in found]))
        gain, _, goes_left = found[chosen]
        if gain <= 0.0:
            break
        rows = leaves.pop(chosen)
        found.pop(chosen)
        for part in (rows[goes_left], rows[~goes_left]):
            leaves.append(part)
            found.append(best_split(X, g, h, part, rules))
    return leaf_vectors(leaves, X, g, h, rules)


def leaf_vectors(leaves, X, g, h, rules):
    """The vector of each row, whose leaf is one of ``leaves``."""
    values = np.zeros((len(X), len(g)))
    for rows in leaves:
        for k in range(len(g)):
            sums = g[k, rows].sum(), h[k, rows].sum()
            values[rows, k] = step(*sums, rules["reg_lambda"], rules["reg_alpha"], rules["longest"])
    return values
