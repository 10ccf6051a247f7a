"""Table of all category sets by which a node could have been split, with their gains.

The sets are those of :mod:`hedgerow.kernels.splits.category_split`, from rows, in float64::

    few levels    each one against all others
    many          sort by G / (H + cat_smooth), with rare levels as one group;
                  take 1, 2, ... groups from either end of the order, at most
                  max_cat_threshold and half of them; cat_l2 is added for both sides

With vector leaves the order is that of the leaf values along their first principal component
(:mod:`hedgerow.kernels.splits.vector_category`).

Glossary
--------
group    levels that go the same way: the levels of one bin, or of all bins with fewer
         than ``cat_smooth`` rows; missing values are a separate bin
cut k    the first k groups of the order on one side, the others on the other side
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

import numpy as np

from hedgerow.arrays import BinArray, FloatArray, IntArray
from hedgerow.kernels.splits.category_split import DROPPED_BITS
from hedgerow.params import BoostParams

_POWER_STEPS = 8
"""Steps of the power iteration, as in the search."""


@dataclass(frozen=True, slots=True, eq=False)
class LevelSums:
    """Sums over the levels of a category column, for the rows of a node.

    Attributes
    ----------
    levels : sequence of str, int or float
        All levels of the column.
    level_bin : uint8, one per level
    g, h : float64, shape (n_outputs, n_bins)
        Sums by bin for each output of a leaf; the last bin is for missing values.
    n : int64, shape (n_bins,)
        Number of rows by bin.
    """

    levels: Sequence[Any]
    level_bin: BinArray
    g: FloatArray
    h: FloatArray
    n: IntArray


@dataclass(frozen=True, slots=True)
class _Tried:
    """A candidate set: bins on the left, extra penalty of both sides, and whether it is allowed."""

    bins: IntArray
    penalty: float
    allowed: bool


def sum_levels(
    levels: Sequence[Any], level_bin: BinArray, codes: IntArray, g: FloatArray, h: FloatArray
) -> LevelSums:
    """Sum by bin; codes beyond the levels (unknown and missing) count as missing.

    ``g`` and ``h`` have the shape (n_outputs, n_rows).
    """
    n_bins = 2 + int(level_bin.max(initial=0))
    bins = np.append(level_bin, np.full(2, n_bins - 1, dtype=np.uint8))[codes]
    g_sums, h_sums = (
        np.array([np.bincount(bins, one, minlength=n_bins) for one in values], dtype=np.float64)
        for values in (g, h)
    )
    n_sums = np.bincount(bins, minlength=n_bins).astype(np.int64)
    return LevelSums(levels, level_bin, g_sums, h_sums, n_sums)


def category_splits(node: LevelSums, params: BoostParams) -> dict[str, list[Any]]:
    """Return candidates as columns of :func:`hedgerow.boosting.inspect.split_table.split_table`."""
    n_outputs, n = len(node.g), int(node.n.sum())
    parent = _score(node.g, node.h, params)
    names = ("threshold", "left_levels", "missing", "n_left", "n_right", "g_left", "g_right",
             "h_left", "h_right", "gain", "allowed")  # fmt: skip
    table: dict[str, list[Any]] = {name: [] for name in names}
    for tried in _sets_tried(node, params):
        left = np.zeros(len(node.n), dtype=np.bool_)
        left[tried.bins] = True
        sides = [(node.g[:, s], node.h[:, s], int(node.n[s].sum())) for s in (left, ~left)]
        n_left, n_right = sides[0][2], sides[1][2]
        penalty = tried.penalty
        score = sum(_score(side[0], side[1], params, penalty) for side in sides)
        enough = all(
            side[2] >= params.min_samples_leaf
            and side[1].sum(axis=1).mean() >= params.min_child_weight
            and side[1].sum(axis=1).min() + params.reg_lambda + penalty > 0.0
            for side in sides
        )
        (g_left, h_left), (g_right, h_right) = (
            (shown(side[0].sum(axis=1)), shown(side[1].sum(axis=1))) for side in sides
        )
        if 2 * n_left >= n:  # levels without rows go with the larger side
            left |= node.n == 0
        missing = None if node.n[-1] == 0 else "left" if left[-1] else "right"
        values = (
            None, list(compress(node.levels, left[node.level_bin].tolist())), missing,
            n_left, n_right, g_left, g_right, h_left, h_right,
            0.5 * (score - parent) - n_outputs * params.gamma, enough and tried.allowed,
        )  # fmt: skip
        for name, value in zip(names, values, strict=True):
            table[name].append(value)
    return table


def shown(sums: FloatArray) -> float | list[float]:
    """Return the sum of the only output, or a list of those of all."""
    listed: list[float] = sums.tolist()
    return listed[0] if len(listed) == 1 else listed


def _score(g: FloatArray, h: FloatArray, params: BoostParams, penalty: float = 0.0) -> float:
    """Return the score of a side, summed over the outputs, from sums by output and bin."""
    scores = [side_score(a.sum(), b.sum(), params, penalty) for a, b in zip(g, h, strict=True)]
    return float(sum(scores))


def _sets_tried(node: LevelSums, params: BoostParams) -> Iterator[_Tried]:
    """Yield the candidate sets of bins, in the order of the search."""
    present = np.flatnonzero(node.n > 0)
    if len(present) < 2:
        return
    if len(present) <= params.max_cat_to_onehot:
        # Two groups give one split, not two.
        for bin_ in present[:1] if len(present) == 2 else present:
            yield _Tried(np.array([bin_]), 0.0, True)
        return
    small = present[node.n[present] < params.cat_smooth]
    groups = [small] if len(small) else []
    groups += [np.array([bin_]) for bin_ in present if node.n[bin_] >= params.cat_smooth]
    order = _sorted_groups(groups, node, params.cat_smooth)
    most = min(params.max_cat_threshold, (len(order) + 1) // 2)
    rows = [int(node.n[group].sum()) for group in order]
    from_front = _passed(rows, params.min_data_per_group)
    from_back = _passed(rows[::-1], params.min_data_per_group)
    for cut in range(1, len(order)):
        front, back = cut <= most, len(order) - cut <= most
        if not front and not back:
            continue
        # Both ends give the same split: show as left side the one that the search would take.
        forward = front and (from_front[cut] or not (back and from_back[len(order) - cut]))
        allowed = from_front[cut] if forward else from_back[len(order) - cut]
        side = order[:cut] if forward else order[cut:]
        yield _Tried(np.concatenate(side), params.cat_l2, allowed)


def _sorted_groups(groups: list[IntArray], node: LevelSums, smooth: float) -> list[IntArray]:
    g = np.array([[one[group].sum() for group in groups] for one in node.g])
    below = np.array([[one[group].sum() for group in groups] for one in node.h]) + smooth
    weight = np.divide(g, below, out=np.zeros(g.shape), where=below > 0.0)
    n = np.array([node.n[group].sum() for group in groups])
    key = weight[0] if len(weight) == 1 else _direction(weight, n) @ weight
    # As in the kernel: among keys that agree in their upper bits, the lower bin comes first.
    half = 1 << (DROPPED_BITS - 1)
    bits = (key.view(np.int64) + half) >> DROPPED_BITS << DROPPED_BITS
    order = np.argsort(bits.view(np.float64), kind="stable")
    return [groups[place] for place in order]


def _direction(weight: FloatArray, n: IntArray) -> FloatArray:
    """Return the first principal component of the leaf weights of groups of ``n`` rows.

    By the power iteration of :func:`hedgerow.kernels.splits.vector_category.find_direction`.
    """
    away = weight - ((weight @ n) / n.sum())[:, None]
    direction = _normalised(away[:, int(np.argmax((away**2).sum(axis=0) * n))])
    for _ in range(_POWER_STEPS):
        direction = _normalised(away @ ((direction @ away) * n))
    return direction


def _normalised(direction: FloatArray) -> FloatArray:
    """Scale to length 1, with a positive largest component."""
    length = float(np.sqrt((direction**2).sum()))
    largest = direction[int(np.argmax(np.abs(direction)))]
    return direction / (np.copysign(length, largest) if length > 0.0 else 1.0)


def _passed(rows: list[int], fewest: int) -> list[bool]:
    """Return, for each number of groups from one end, whether the search scores a cut there.

    It does if at least ``fewest`` rows were passed since the last scored cut, and remain.
    """
    stops, passed, remaining = [False], 0, sum(rows)
    for n in rows:
        passed += n
        remaining -= n
        stops.append(passed >= fewest and remaining >= fewest)
        if passed >= fewest:
            passed = 0
    return stops


def side_score(g: Any, h: Any, params: BoostParams, penalty: float = 0.0) -> FloatArray:
    """Return twice the loss decrease by a leaf; see :mod:`hedgerow.kernels.splits.split`.

    ``penalty`` is added to ``reg_lambda``.
    """
    size = np.maximum(np.abs(g) - params.reg_alpha, 0.0)
    d = h + (params.reg_lambda + penalty)
    with np.errstate(all="ignore"):
        step = np.where(d > 0.0, size / d, 0.0)
    step = np.minimum(step, params.max_delta_step or np.inf)
    return np.asarray(step * (2.0 * size - d * step))
