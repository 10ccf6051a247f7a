"""Groups of the categories of a node, their order, and the scores of sets of them.

See :mod:`hedgerow.kernels.splits.category_search`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hedgerow.arrays import IntArray
from hedgerow.compile import kernel
from hedgerow.kernels.histograms.histogram import HistogramSums
from hedgerow.kernels.primitives.intrinsics import bits_of_float
from hedgerow.kernels.splits.constraints import SearchedNode, lost_on_side
from hedgerow.kernels.splits.split import NodeSums, SplitRules, node_score


class CategoryRules(NamedTuple):
    """Guards against overfitting; see :mod:`hedgerow.kernels.splits.category_search`."""

    most_one_hot: np.int64  # with at most this many categories, each one is tried alone
    most: np.int64
    smooth: np.float64
    penalty: np.float64
    min_group: np.int64
    n_copies: int = 1  # copies of each row in the data; ``smooth`` counts distinct rows


class SetColumn(NamedTuple):
    """Bins of a category column: only the first ``filled`` ones and the last one can have rows."""

    at: np.int64  # first cell in the histogram
    filled: np.int64
    stride: np.int64


# Rows of ``scratch``: sums of each group, group of each bin (-1: no rows), sort keys, order.
GROUP_G, GROUP_H, GROUP_N, GROUP_OF_BIN, KEY, ORDER, CATEGORY_SCRATCH = range(7)
SCRATCH_SIZE = 256

DROPPED_BITS = 36
"""Low bits that :func:`key_of` drops: 17 of the 53 significant bits of a float64 stay."""

_GROUP_BITS = 511
_ALL_BUT_SIGN = (1 << 63) - 1


@kernel(inline=True, inner=True)
def following_bin(column: SetColumn, b: int) -> int:
    """Return the next bin that can have rows."""
    return column.stride - 1 if b == column.filled - 1 and column.filled < column.stride else b + 1


@kernel(inline=True, inner=True)
def clear_group(scratch: IntArray, group: int) -> None:
    """Set the sums of a group to 0."""
    for k in range(GROUP_N + 1):
        scratch[k, group] = 0


@kernel(inline=True, inner=True)
def add_bin(histograms: HistogramSums, at: int, scratch: IntArray, group: int) -> None:
    """Add the bin at ``at`` to a group."""
    scratch[GROUP_G, group] += histograms.g[at]
    scratch[GROUP_H, group] += histograms.h[at]
    scratch[GROUP_N, group] += np.int64(histograms.n[at])


@kernel(inline=True, inner=True)
def key_of(number: float, group: int) -> int:
    """Return an integer key: ``number`` rounded to 17 bits (half away from 0), then ``group``."""
    # Category levels with equal mean gradients should tie, but the rounding of gradients
    # makes them differ.  Without its low bits the key ties again.  A split between levels
    # that agree in 17 bits is worthless: it gains the square of their difference, 1e-10 of
    # the score of the node (see :func:`hedgerow.kernels.splits.split.accepted_gain`).
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
def score_within(side: NodeSums, node: SearchedNode, rules: SplitRules) -> float:
    """Return the score of a split with these sums on one side, or -inf if a side is too small."""
    # ``rules`` are those of the set, with its penalty; ``node`` has those of leaf values.
    sums, units = node.sums, node.units
    n_rest, h_rest = sums.n - side.n, sums.h - side.h
    mass, mass_rest = float(side.h) * units.h, float(h_rest) * units.h
    if min(side.n, n_rest) < rules.min_samples_leaf:
        return -np.inf
    if mass < rules.min_child_weight or mass_rest < rules.min_child_weight:
        return -np.inf
    if mass + rules.reg_lambda <= 0.0 or mass_rest + rules.reg_lambda <= 0.0:
        return -np.inf
    score = node_score(float(side.g) * units.g, mass, rules)
    score += node_score(float(sums.g - side.g) * units.g, mass_rest, rules)
    leaves = node.leaves
    if leaves.smooth != 0.0 or leaves.low != -np.inf or leaves.high != np.inf:
        # What both sides lose if their leaf values are restricted.
        g, h = float(side.g) * units.g, float(side.h) * units.h
        lost = lost_on_side(g, h, side.n, leaves, node.rules)
        g, h = float(sums.g) * units.g - g, float(sums.h) * units.h - h
        score -= lost + lost_on_side(g, h, n_rest, leaves, node.rules)
    return score


@kernel(inner=True)
def complete_set(
    column: SetColumn, n_rows: int, scratch: IntArray, cut: tuple[int, int], words: IntArray,
    first_word: int,
) -> tuple[NodeSums, int]:  # fmt: skip
    """Write the bins of groups ``cut[0]:cut[1]`` of the order; return sums, and missing values."""
    # They go left; bins without rows go with the larger part.  Bit b of the four words from
    # ``first_word`` on is bin b.  Returned are the sums of the left side, and 1 if missing values,
    # which the last bin holds, are there.
    order, group_of_bin, stride = scratch[ORDER], scratch[GROUP_OF_BIN], column.stride
    g, h, n = np.int64(0), np.int64(0), np.int64(0)
    for i in range(cut[0], cut[1]):
        group = order[i]
        g += scratch[GROUP_G, group]
        h += scratch[GROUP_H, group]
        n += scratch[GROUP_N, group]
        scratch[GROUP_N, group] = -1  # marks it as chosen
    absent, goes_left = np.int64(2 * n >= n_rows), np.int64(0)
    for w in range(4):
        words[first_word + w] = 0
    for b in range(stride):
        group = group_of_bin[b] if b < column.filled or b == stride - 1 else np.int64(-1)
        goes_left = absent if group < 0 else np.int64(scratch[GROUP_N, group] < 0)
        words[first_word + (b >> 6)] |= np.int64(np.uint64(goes_left) << np.uint64(b & 63))
    return NodeSums(g, h, n), goes_left
