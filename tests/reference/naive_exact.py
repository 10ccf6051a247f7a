"""Naive twins of exact and approximate growth: one cut at a time, on values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hedgerow.kernels.tables.keys import floats_of_keys
from tests.reference import naive

# -- lists ----------------------------------------------------------------------


def entries_of(column):
    """Return present rows sorted by value, and whether each value differs from the previous."""
    present = [row for row in range(len(column)) if not math.isnan(column[row])]
    present.sort(key=lambda row: (column[row], row))
    runs = [i == 0 or column[r] != column[present[i - 1]] for i, r in enumerate(present)]
    return present, runs


def candidates(values, h, eps):
    """Return weighted quantiles of some values, from the smallest to the largest value.

    The next candidate is the largest value whose rank is less than ``eps`` above
    that of the last one; if there is none, the next value.
    """
    distinct = sorted(set(values))
    if not distinct:
        return []
    total = sum(h)
    rank = {z: sum(w for x, w in zip(values, h, strict=True) if x < z) for z in distinct}
    chosen = [distinct[0]]
    while chosen[-1] != distinct[-1]:
        above = [z for z in distinct if z > chosen[-1]]
        near = [z for z in above if rank[z] - rank[chosen[-1]] < eps * total]
        chosen.append(near[-1] if near else above[0])
    return chosen


# -- cuts ------------------------------------------------------------------------


@dataclass(frozen=True)
class Cut:
    """A cut of a node; ``below`` is the highest present value on the left."""

    value: Fraction
    feature: int
    below: float
    missing_left: int
    left: frozenset


def allowed_between(below, above, bounds):
    """Return whether a candidate lies in ``(below, above]``, or there are no candidates."""
    return bounds is None or any(below < z <= above for z in bounds)


def cuts_of_node(X, rows, g, h, rules, bounds_of):
    """Yield every allowed cut of a node in the order that breaks ties.

    ``g`` and ``h`` are exact numbers by row; ``bounds_of(feature)`` are the
    candidates of a column, or None.
    """
    rules = naive.exact_rules(rules)
    node = set(rows)
    for feature in range(X.shape[1]):
        value = {row: X[row, feature] for row in rows}
        present = sorted((r for r in rows if not math.isnan(value[r])), key=lambda r: value[r])
        missing = node - set(present)
        distinct = sorted({value[r] for r in present})
        bounds = bounds_of(feature)
        for missing_left in (0, 1) if missing else (0,):
            for k, below in enumerate(distinct):
                last = k + 1 == len(distinct)
                if last and (missing_left or not missing):
                    continue
                if not last and not allowed_between(below, distinct[k + 1], bounds):
                    continue
                left = {r for r in present if value[r] <= below}
                left |= missing if missing_left else set()
                sides = [
                    (sum(g[r] for r in side), sum(h[r] for r in side), len(side))
                    for side in (left, node - left)
                ]
                if all(
                    n >= rules.min_samples_leaf
                    and h_side >= rules.min_child_weight
                    and h_side + rules.reg_lambda > 0
                    for _, h_side, n in sides
                ):
                    reduction = sum(naive.loss_reduction(a, b, rules) for a, b, _ in sides)
                    yield Cut(reduction, feature, below, missing_left, frozenset(left))


def best_cut(cuts):
    """Return the first of the best cuts, or None."""
    best = None
    for cut in cuts:
        if best is None or cut.value > best.value:
            best = cut
    return best


# -- trees ------------------------------------------------------------------------


def values_of_thresholds(tree, kinds):
    """Return thresholds as numbers."""
    return [
        int(key) if f >= 0 and kinds[f] == "int" else float(floats_of_keys(key))
        for f, key in zip(tree.feature, tree.threshold, strict=True)
    ]


def rows_of_nodes(tree, X, rows=None, kinds=None):
    """Return rows that reach each node by its threshold."""
    kinds = ["float"] * X.shape[1] if kinds is None else kinds
    thresholds = values_of_thresholds(tree, kinds)
    members = [np.zeros(0, dtype=int)] * len(tree.feature)
    members[0] = np.arange(len(X)) if rows is None else np.asarray(rows)
    for node in range(len(tree.feature)):
        if tree.feature[node] >= 0:
            column = X[members[node], tree.feature[node]].astype(float)
            left = np.where(
                np.isnan(column), tree.missing_left[node] == 1, column <= thresholds[node]
            )
            members[tree.left[node]] = members[node][left]
            members[tree.right[node]] = members[node][~left]
    return members


def rank_bins(X):
    """Return a bin for every distinct value, so that histograms equal exact growth."""
    ranks, n_bins = [], []
    for feature in range(X.shape[1]):
        distinct, rank = np.unique(X[:, feature], return_inverse=True)
        n_values = int((~np.isnan(distinct)).sum())
        ranks.append(np.where(np.isnan(X[:, feature]), -1, rank))
        n_bins.append(max(1, n_values))
    stride = max(n_bins) + 1
    bins = np.array(ranks)
    bins[bins < 0] = stride - 1
    return bins, n_bins, stride


def boost(X, y, params, loss, base, weight=None, n_rounds=1):
    """Boost in float64 with a bin for every value; trees are those of :func:`naive.as_arrays`."""
    bins, n_bins, stride = rank_bins(np.asarray(X, dtype=float))
    return naive.boosted_trees(bins, n_bins, stride, y, params, loss, base, weight, n_rounds)
