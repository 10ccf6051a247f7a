"""The search of columns that the constraints of a fit ask for: of all cuts, one, or a given one."""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import IntArray
from hedgerow.compile import kernel
from hedgerow.kernels.growth import GIVEN_BIN, GIVEN_FEATURE, drawn_bin
from hedgerow.kernels.histogram import Wide
from hedgerow.kernels.lanes import WIDTH
from hedgerow.kernels.monotone import (
    AskedColumn,
    Bounds,
    Constraints,
    cut_gain,
    factor_of,
    search_constrained,
)
from hedgerow.kernels.split import NO_SPLIT, Limits, Split, search_columns


@kernel(inner=True)
def search_cut(
    wide: Wide,
    start: int,
    feature: int,
    cut: int,
    stride: int,
    limits: Limits,
    bounds: Bounds,
    asked: Constraints,
    best: Split,
) -> Split:
    """The better of ``best`` and one cut, behind bin ``cut`` of the column at ``start``."""
    g, h, n = np.int64(0), np.int64(0), np.int64(0)
    for b in range(start, start + cut + 1):
        g += wide.g[b]
        h += wide.h[b]
        n += np.int64(wide.n[b])
    absent = start + stride - 1
    n_missing, n_before = np.int64(wide.n[absent]), n
    column = AskedColumn(
        asked.sign[feature], factor_of(asked, feature, bounds), limits.n - n_missing, bounds
    )
    for side in range(2 if n_missing > 0 else 1):
        if side == 1:
            g += wide.g[absent]
            h += wide.h[absent]
            n += n_missing
        h_left, n_right = float(h), limits.n - n
        enough = n >= limits.fewest and n_right >= limits.fewest
        if not enough or h_left < limits.lightest or limits.h - h_left < limits.lightest:
            continue
        gain = cut_gain(float(g), h_left, n, n_before, limits, column)
        if gain > best.score:
            best = Split(gain, feature, cut, side, 0, 0, 0)
    return best


@kernel(inner=True)
def search_drawn(
    wide: Wide,
    lanes: tuple[IntArray, IntArray],
    n_bins: np.ndarray,
    stride: int,
    limits: Limits,
    bounds: Bounds,
    asked: Constraints,
    best: Split,
) -> Split:
    """The better of ``best`` and one random cut of each column, as :func:`search_constrained`."""
    at, features = lanes
    for j in range(WIDTH):
        feature = features[j]
        if j > 0 and feature == features[j - 1]:
            break  # the last column fills the lanes that are left
        bins = np.int64(n_bins[feature])
        cut = drawn_bin(wide, at[j], bins, stride, bounds.key, feature)
        if cut >= 0:
            best = search_cut(wide, at[j], feature, cut, stride, limits, bounds, asked, best)
    return best


@kernel(inner=True)
def take_given(
    wide: Wide,
    lanes: tuple[IntArray, IntArray],
    stride: int,
    limits: Limits,
    bounds: Bounds,
    asked: Constraints,
    best: Split,
) -> Split:
    """The cut that the node is to take, with an infinite gain, if it is one of these columns."""
    at, features = lanes
    feature = asked.growth.given[bounds.given, GIVEN_FEATURE]
    cut = asked.growth.given[bounds.given, GIVEN_BIN]
    for j in range(WIDTH):
        if features[j] == feature:
            found = search_cut(wide, at[j], feature, cut, stride, limits, bounds, asked, NO_SPLIT)
            if found.score >= 0.0:
                return Split(np.inf, feature, cut, found.missing_left, 0, 0, 0)
    return best


@kernel(inner=True)
def search_asked(
    wide: Wide,
    lanes: tuple[IntArray, IntArray],
    n_bins: np.ndarray,
    stride: int,
    limits: Limits,
    bounds: Bounds,
    asked: Constraints,
    best: Split,
) -> Split:
    """Search columns as the constraints of the fit ask for."""
    if asked.scored == 1:
        if bounds.given >= 0:
            best = take_given(wide, lanes, stride, limits, bounds, asked, best)
        if asked.growth.drawn == 1:
            return search_drawn(wide, lanes, n_bins, stride, limits, bounds, asked, best)
        return search_constrained(wide, lanes, n_bins, stride, limits, bounds, asked, best)
    return search_columns(wide, lanes[0], lanes[1], n_bins, stride, limits, best)
