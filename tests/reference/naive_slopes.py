"""Naive linear leaves: one leaf after the other, by a solver of linear equations."""

from __future__ import annotations

import numpy as np

TERMS = 3
LARGEST = np.finfo(np.float64).max


def paths(feature, left, right):
    """Return the columns that were split on the way to each leaf, the last one first."""
    found = {}

    def walk(node, above):
        if feature[node] < 0:
            found[node] = list(dict.fromkeys(reversed(above)))
            return
        walk(left[node], [*above, feature[node]])
        walk(right[node], [*above, feature[node]])

    walk(0, [])
    return found


def usable(x):
    return np.abs(x) <= LARGEST


def fit_leaf(X, g, h, columns, penalty):
    """Return centers and slopes of a leaf's columns, for its rows."""
    columns = columns[: min(TERMS, len(g) // 2 - 1)] if len(g) >= 2 else []
    if not columns:
        return [], np.zeros(0), np.zeros(0)
    part = X[:, columns]
    there = usable(part)
    zeroed = np.where(there, part, 0.0)
    mass = (h[:, None] * there).sum(axis=0)
    center = (h[:, None] * zeroed).sum(axis=0) / np.where(mass > 0.0, mass, 1.0)
    lowest = np.where(there, part, np.inf).min(axis=0)
    center = np.where(lowest == np.where(there, part, -np.inf).max(axis=0), lowest, center)
    d = np.where(there, part - center, 0.0)
    S = (h[:, None] * d).T @ d
    S += np.diag(np.diag(S) == 0.0)  # a column with one value, or none, in the leaf: slope 0
    A = S + penalty / h.sum() * np.diag(np.diag(S))
    return columns, center, np.linalg.solve(A, -(g[:, None] * d).sum(axis=0))


def terms_of(X, columns, slope, center):
    """Return the sum of terms of each row."""
    part = X[:, columns]
    return np.where(usable(part), slope * (part - center), 0.0).sum(axis=1)


def line(slopes, own, row, low, high):
    """Return the terms of one line for one row, within their bounds."""
    total = 0.0
    for k in range(own.start, own.stop):
        x = row[slopes.column[k]]
        if usable(x):
            total += slopes.slope[k] * (x - slopes.center[k])
    return 0.0 if np.isnan(total) else min(max(total, low), high)
