"""Naive twins of category splits: lists of levels, sets, one row at a time."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from hedgerow.data.binning.cut_sample import codes_of
from hedgerow.kernels.tables.keys import MISSING_KEY, keys_of_floats
from tests.reference import naive


def rounded(x):
    """Round x to 17 bits, halves away from zero."""
    mantissa, exponent = math.frexp(abs(x))
    return math.copysign(math.ldexp(math.floor(mantissa * 2**17 + 0.5), exponent - 17), x)


def groups_of(g, h, n, smooth):
    """Return groups of bins: those below ``smooth`` rows are the first, each other is alone."""
    small = [b for b in range(len(n)) if 0 < n[b] < smooth]
    groups = [small] if small else []
    groups += [[b] for b in range(len(n)) if n[b] > 0 and n[b] >= smooth]
    return [(bins, sum(g[b] for b in bins), sum(h[b] for b in bins), sum(n[b] for b in bins))
            for bins in groups]  # fmt: skip


def lost(g, h, rules, bounds):
    """Return the loss reduction that a side loses because its leaf value is within bounds."""
    free = naive.leaf_weight(g, h, rules)
    w = min(max(free, bounds[0]), bounds[1])
    if w == free:
        return 0
    within = -(g * w + (h + rules.reg_lambda) * w * w / 2 + rules.reg_alpha * abs(w))
    return naive.loss_reduction(g, h, rules) - within


def sets_tried(g, h, n, node, rules, category, bounds=None):
    """Return ``(score, bins)`` of every allowed set, in exact arithmetic."""
    exact = leaf_rules = naive.exact_rules(rules)
    alone = groups_of(g, h, n, 0)
    if len(alone) <= category.most_one_hot:
        chosen = alone[:1] if len(alone) == 2 else alone
        tried = [[group] for group in chosen]
    else:
        tried = list(_prefixes(groups_of(g, h, n, category.smooth), node, category))
        penalty = exact.reg_lambda + Fraction(category.penalty)
        exact = naive.Rules(**{**vars(exact), "reg_lambda": penalty})
    for groups in tried:
        sums = [sum(group[k] for group in groups) for k in (1, 2, 3)]
        sides = (sums, [node[k] - sums[k] for k in range(3)])
        if all(
            side[2] >= rules.min_samples_leaf
            and side[1] >= rules.min_child_weight
            and side[1] + exact.reg_lambda > 0
            for side in sides
        ):
            score = 2 * sum(naive.loss_reduction(side[0], side[1], exact) for side in sides)
            if bounds is not None:
                score -= 2 * sum(lost(side[0], side[1], leaf_rules, bounds) for side in sides)
            yield score, frozenset(b for group in groups for b in group[0])


def _prefixes(groups, node, category):
    def key(place):
        below = Fraction(groups[place][2]) + Fraction(category.smooth)
        return (rounded(float(groups[place][1] / below)) if below > 0 else 0.0, place)

    order = sorted(range(len(groups)), key=key)
    most = min(category.most, (len(groups) + 1) // 2, len(groups) - 1)
    for direction in (order, order[::-1]):
        passed, chosen = 0, []
        for place in direction[:most]:
            chosen.append(groups[place])
            passed += groups[place][3]
            if node[2] - sum(group[3] for group in chosen) < category.min_group:
                break
            if passed >= category.min_group:
                passed = 0
                yield list(chosen)


def leaf_of(forest, kinds, tree, row):
    """Return the leaf of a row."""
    start, node = forest.tree_start[tree], 0
    while forest.feature[start + node] >= 0:
        at = start + node
        feature = forest.feature[at]
        if kinds[feature] == "category":
            bins = forest.categories.bins_of(feature)
            code = int(codes_of(row[feature : feature + 1], len(bins))[0])
            left = bool(forest.missing_left[at])
            if code < len(bins):
                words = forest.categories.sets[forest.threshold[at]]
                b = int(bins[code])
                left = bool(int(words[b // 64]) >> (b % 64) & 1)
        else:
            value = row[feature : feature + 1]
            key = (value if value.dtype == np.int64 else keys_of_floats(value.astype(float)))[0]
            left = bool(forest.missing_left[at])
            left = left if key == MISSING_KEY else key <= forest.threshold[at]
        node = forest.left[at] if left else forest.right[at]
    return int(node)


def raw_scores(forest, kinds, values):
    """Return base score plus the values of the leaves of each row."""
    scores = np.repeat(forest.base_score[:, None], len(values), axis=1)
    for i, row in enumerate(values):
        for tree in range(forest.n_trees):
            node = forest.tree_start[tree] + leaf_of(forest, kinds, tree, row)
            scores[tree % forest.n_outputs, i] += forest.value[node]
    return scores
