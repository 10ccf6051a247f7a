"""Search of the best set of categories in the histogram of a category column.

Among all divisions of k categories into two parts, a best one is among the k - 1
cuts of the list of categories sorted by leaf weight, ``G / H`` (Fisher 1958;
Breiman et al. 1984 for least squares).  One-hot columns are therefore not needed::

    category       Rome  Oslo  Bonn  Kiev  (missing)
    G / H           -3     2     5    -1      4
    sorted         Rome  Kiev  Oslo  missing  Bonn
                        |     |     |       |             cuts to try

Sums of few rows are noise, and a sorted list of noise always has a good cut.
The search has the guards of LightGBM (Ke et al. 2017):

* categories of few rows form one group;
* the list is sorted by ``G / (H + smooth)``;
* the children pay an additional L2 penalty;
* a cut is tried only if at least ``min_group`` rows follow the last cut tried;
* the side that is filled, from either end of the list, has at most ``most`` categories.

With few categories each one is tried against all others instead, without these guards.

Missing values are one more category.  Bins without rows in the node (and
missing values, if the node has none) go with the larger part.

A pair of ``rules`` is those of the set, with its penalty, and those of leaf values.  If ``draw``
is not negative, only the divisions that this random number selects are tried.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hedgerow.arrays import IntArray
from hedgerow.compile import kernel
from hedgerow.kernels.histograms.histogram import HistogramSums
from hedgerow.kernels.primitives.intrinsics import bits_of_float
from hedgerow.kernels.splits.constrained_gains import LeafBounds, lost_score
from hedgerow.kernels.splits.split import NodeSums, SplitRules, Units, node_score


class CategoryRules(NamedTuple):
    """Guards against overfitting; see the docstring of the module."""

    most_one_hot: np.int64  # with at most this many categories, each one is tried alone
    most: np.int64
    smooth: np.float64
    penalty: np.float64
    min_group: np.int64
    n_copies: int = 1  # copies of each row in the data; ``smooth`` counts distinct rows


class CategorySplit(NamedTuple):
    """The best set found.  ``words`` are the bins that go left."""

    missing_left: np.int64
    g: np.int64
    h: np.int64
    n: np.int64
    words: Any


# Rows of ``scratch``: sums of each group, group of each bin (-1: no rows), sort keys, order.
GROUP_G, GROUP_H, GROUP_N, GROUP_OF_BIN, KEY, ORDER, CATEGORY_SCRATCH = range(7)
SCRATCH_SIZE = 256

DROPPED_BITS = 36
"""Low bits that :func:`key_of` drops: 17 of the 53 significant bits of a float64 stay."""

_GROUP_BITS = 511
_ALL_BUT_SIGN = (1 << 63) - 1

_POOLED = 0  # the group of the small categories


@kernel(inner=True)
def count_bins(histograms: HistogramSums, at: int, filled: int, stride: int) -> int:
    """Count the bins with rows; only the first ``filled`` bins and the last one can have any."""
    n = histograms.n
    found = np.int64(0)
    for b in range(np.uint64(at), np.uint64(at + filled)):
        found += np.int64(n[b] != 0)
    if filled < stride:
        found += np.int64(n[at + stride - 1] != 0)
    return found


@kernel(inner=True)
def gather_bins(
    histograms: HistogramSums, at: int, filled: int, stride: int, smooth: float, scratch: IntArray
) -> int:
    """Put each bin with rows into a group; return the number of groups."""
    # All bins of fewer than ``smooth`` rows share group 0, which may be empty.  Every other bin is
    # a group of its own.
    group_of_bin = scratch[GROUP_OF_BIN]
    for k in range(GROUP_N + 1):
        scratch[k, _POOLED] = 0
    n_groups = np.int64(1)
    b = np.int64(0)
    while b < stride:
        n = np.int64(histograms.n[at + b])
        group_of_bin[b] = -1
        if n != 0:
            group = np.int64(_POOLED)
            if float(n) >= smooth:
                group = n_groups
                n_groups += 1
                for k in range(GROUP_N + 1):
                    scratch[k, group] = 0
            group_of_bin[b] = group
            scratch[GROUP_G, group] += histograms.g[at + b]
            scratch[GROUP_H, group] += histograms.h[at + b]
            scratch[GROUP_N, group] += n
        b = stride - 1 if b == filled - 1 and filled < stride else b + 1
    return n_groups


@kernel(inline=True, inner=True)
def key_of(number: float, group: int) -> int:
    """Return an integer key: ``number`` rounded to 17 bits (half away from 0), then ``group``."""
    # Category levels with equal mean gradients should tie, but the rounding of gradients
    # makes them differ.  Without its low bits the key ties again.  A split between levels
    # that agree in 17 bits is worthless: it gains the square of their difference, 1e-10 of
    # the score of the node (see :func:`hedgerow.kernels.splits.split.split_gain`).
    half = np.int64(1) << (DROPPED_BITS - 1)
    bits = bits_of_float(number + 0.0) + half  # no -0.0
    ascending = bits ^ ((bits >> 63) & _ALL_BUT_SIGN)
    return ((ascending >> DROPPED_BITS) << DROPPED_BITS) | group


@kernel(inner=True)
def sort_groups(scratch: IntArray, n_groups: int, smooth: float) -> int:
    """Sort the groups that have rows by ``G / (H + smooth)``; return their number."""
    order, key = scratch[ORDER], scratch[KEY]
    n = np.int64(0)
    for group in range(n_groups):
        if scratch[GROUP_N, group] > 0:
            below = float(scratch[GROUP_H, group]) + smooth
            exact = float(scratch[GROUP_G, group]) / below if below > 0.0 else 0.0
            key[n] = key_of(exact, np.int64(group))
            n += 1
    # The position of a group is the number of smaller keys; all keys differ.  Counting needs no
    # branch and handles eight keys at a time.
    for i in range(np.uint64(n)):
        own, smaller = key[i], np.int64(0)
        for j in range(np.uint64(n)):
            smaller += np.int64(key[j] < own)
        order[np.uint64(smaller)] = own & _GROUP_BITS
    return n


@kernel(inline=True, inner=True)
def penalised(rules: SplitRules, penalty: float) -> SplitRules:
    """Return the rules with an additional L2 penalty of the children."""
    return SplitRules(
        rules.min_samples_leaf,
        rules.min_child_weight,
        rules.reg_lambda + penalty,
        rules.reg_alpha,
        rules.gamma,
        rules.max_delta_step,
    )


@kernel(inner=True)
def score_within(
    side: NodeSums,
    node: NodeSums,
    units: Units,
    rules: tuple[SplitRules, SplitRules],
    bounds: LeafBounds,
) -> float:
    """Return the score of a split with restricted leaf values, or -inf if a side is too small."""
    score = score_sides(side.g, side.h, side.n, node, units, rules[0])
    if score < 0.0:
        return -np.inf
    return score - lost_score(side, node, units, rules[1], bounds)


@kernel(inner=True)
def score_sides(g: int, h: int, n: int, node: NodeSums, units: Units, rules: SplitRules) -> float:
    """Return the score of a split with these sums on one side; -1 if a side is too small."""
    g_rest, h_rest, n_rest = node.g - g, node.h - h, node.n - n
    if n < rules.min_samples_leaf or n_rest < rules.min_samples_leaf:
        return -1.0
    mass, mass_rest = float(h) * units.h, float(h_rest) * units.h
    if mass < rules.min_child_weight or mass_rest < rules.min_child_weight:
        return -1.0
    if mass + rules.reg_lambda <= 0.0 or mass_rest + rules.reg_lambda <= 0.0:
        return -1.0
    side = node_score(float(g) * units.g, mass, rules)
    return side + node_score(float(g_rest) * units.g, mass_rest, rules)


@kernel(inner=True)
def complete_set(
    filled: int, stride: int, node: NodeSums, scratch: IntArray, cut: tuple[int, int]
) -> CategorySplit:
    """Return the split that sends the groups at ``cut[0]:cut[1]`` of the order to the left."""
    order, group_of_bin = scratch[ORDER], scratch[GROUP_OF_BIN]
    g, h, n = np.int64(0), np.int64(0), np.int64(0)
    for i in range(cut[0], cut[1]):
        group = order[i]
        g += scratch[GROUP_G, group]
        h += scratch[GROUP_H, group]
        n += scratch[GROUP_N, group]
        scratch[GROUP_N, group] = -1  # marks it as chosen
    absent = np.int64(2 * n >= node.n)
    w0, w1, w2, w3 = np.uint64(0), np.uint64(0), np.uint64(0), np.uint64(0)
    goes_left = np.int64(0)
    for b in range(stride):
        group = group_of_bin[b] if b < filled or b == stride - 1 else np.int64(-1)
        goes_left = absent if group < 0 else np.int64(scratch[GROUP_N, group] < 0)
        bit = np.uint64(goes_left) << np.uint64(b & 63)
        if b < 64:
            w0 |= bit
        elif b < 128:
            w1 |= bit
        elif b < 192:
            w2 |= bit
        else:
            w3 |= bit
    words = (np.int64(w0), np.int64(w1), np.int64(w2), np.int64(w3))
    # The last bin holds the missing values.
    return CategorySplit(goes_left, g, h, n, words)


@kernel(inner=True)
def scan_order(
    n_groups: int,
    backward: int,
    node: NodeSums,
    units: Units,
    rules: tuple[SplitRules, SplitRules],
    category: CategoryRules,
    scratch: IntArray,
    draw: int,
    bounds: LeafBounds,
) -> tuple[float, int]:
    """Find the best cut from one end of the order: its score and the number of groups before it."""
    order = scratch[ORDER]
    most = np.int64(min(category.most, (n_groups + 1) // 2, n_groups - 1))
    only = draw % most if draw >= 0 and most > 0 else np.int64(-1)
    best, taken = -np.inf, np.int64(0)
    g, h, n, passed = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    for i in range(most):
        group = order[n_groups - 1 - i] if backward == 1 else order[i]
        g += scratch[GROUP_G, group]
        h += scratch[GROUP_H, group]
        n += scratch[GROUP_N, group]
        passed += scratch[GROUP_N, group]
        if node.n - n < category.min_group:
            break
        if passed < category.min_group or (only >= 0 and i != only):
            continue
        passed = np.int64(0)
        score = score_within(NodeSums(g, h, n), node, units, rules, bounds)
        if score > best:
            best, taken = score, np.int64(i + 1)
    return best, taken


@kernel(inner=True)
def find_set(
    histograms: HistogramSums,
    at: int,
    filled: int,
    stride: int,
    node: NodeSums,
    units: Units,
    rules: SplitRules,
    category: CategoryRules,
    scratch: IntArray,
    draw: int,
    bounds: LeafBounds,
) -> tuple[float, int, int]:
    """Find the best set of the bins at ``histograms[at:at + stride]``: score, start and stop."""
    # Start and stop are a range of the sorted groups, which is empty if there is no set.  Only the
    # first ``filled`` bins and the last one can have rows.  :func:`complete_set` makes the split
    # from ``scratch`` (``CATEGORY_SCRATCH``, ``SCRATCH_SIZE``).
    best, first, last = -np.inf, np.int64(0), np.int64(0)
    n_found = count_bins(histograms, at, filled, stride)
    if n_found < 2:
        return best, first, last
    if n_found <= category.most_one_hot:
        # Group 0 is empty here.  Two groups make one division, not two.
        n_groups = gather_bins(histograms, at, filled, stride, 0.0, scratch)
        stop = n_groups if n_groups > 3 else np.int64(2)
        only = 1 + draw % (stop - 1) if draw >= 0 else np.int64(-1)
        for i in range(1, stop):
            if only >= 0 and i != only:
                continue
            scratch[ORDER, i] = i
            side = NodeSums(scratch[GROUP_G, i], scratch[GROUP_H, i], scratch[GROUP_N, i])
            score = score_within(side, node, units, (rules, rules), bounds)
            if score > best:
                best, first, last = score, np.int64(i), np.int64(i + 1)
        return best, first, last
    least = category.smooth * category.n_copies
    n_groups = gather_bins(histograms, at, filled, stride, least, scratch)
    n_groups = sort_groups(scratch, n_groups, category.smooth / units.h)
    both = penalised(rules, category.penalty), rules
    for backward in range(2):
        score, taken = scan_order(
            n_groups, backward, node, units, both, category, scratch, draw, bounds
        )
        if score > best:
            best = score
            first = n_groups - taken if backward == 1 else np.int64(0)
            last = first + taken
    return best, first, last
