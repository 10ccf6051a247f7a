"""Search of columns under the constraints of a fit: all cuts, one random cut, or a forced cut."""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import IntArray
from hedgerow.compile import kernel
from hedgerow.kernels.histograms.histogram import HistogramSums
from hedgerow.kernels.simd.lanes import WIDTH
from hedgerow.kernels.splits.growth import FORCED_BIN, FORCED_FEATURE, drawn_bin
from hedgerow.kernels.splits.monotone import (
    Bounds,
    ConstrainedColumn,
    Constraints,
    cut_gain,
    factor_of,
    search_constrained,
)
from hedgerow.kernels.splits.split import NO_SPLIT, Limits, Split, search_columns


@kernel(inner=True)
def search_cut(
    histograms: HistogramSums,
    start: int,
    feature: int,
    cut: int,
    stride: int,
    limits: Limits,
    bounds: Bounds,
    constraints: Constraints,
    best: Split,
) -> Split:
    """Return the better of ``best`` and the cut after bin ``cut`` of the column at ``start``."""
    g, h, n = np.int64(0), np.int64(0), np.int64(0)
    for b in range(start, start + cut + 1):
        g += histograms.g[b]
        h += histograms.h[b]
        n += np.int64(histograms.n[b])
    absent = start + stride - 1
    n_missing, n_before = np.int64(histograms.n[absent]), n
    column = ConstrainedColumn(
        constraints.sign[feature],
        factor_of(constraints, feature, bounds),
        limits.n - n_missing,
        bounds,
    )
    for side in range(2 if n_missing > 0 else 1):
        if side == 1:
            g += histograms.g[absent]
            h += histograms.h[absent]
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
    histograms: HistogramSums,
    lanes: tuple[IntArray, IntArray],
    n_bins: np.ndarray,
    stride: int,
    limits: Limits,
    bounds: Bounds,
    constraints: Constraints,
    best: Split,
) -> Split:
    """Return the better of ``best`` and a random cut per column, as :func:`search_constrained`."""
    at, features = lanes
    for j in range(WIDTH):
        feature = features[j]
        if j > 0 and feature == features[j - 1]:
            break  # the last column fills the remaining lanes
        bins = np.int64(n_bins[feature])
        cut = drawn_bin(histograms, at[j], bins, stride, bounds.key, feature)
        if cut >= 0:
            best = search_cut(
                histograms, at[j], feature, cut, stride, limits, bounds, constraints, best
            )
    return best


@kernel(inner=True)
def take_forced(
    histograms: HistogramSums,
    lanes: tuple[IntArray, IntArray],
    stride: int,
    limits: Limits,
    bounds: Bounds,
    constraints: Constraints,
    best: Split,
) -> Split:
    """Return the node's forced cut with infinite gain, or ``best`` if no column here has it."""
    at, features = lanes
    feature = constraints.growth.forced[bounds.forced, FORCED_FEATURE]
    cut = constraints.growth.forced[bounds.forced, FORCED_BIN]
    for j in range(WIDTH):
        if features[j] == feature:
            found = search_cut(
                histograms, at[j], feature, cut, stride, limits, bounds, constraints, NO_SPLIT
            )
            if found.score >= 0.0:
                return Split(np.inf, feature, cut, found.missing_left, 0, 0, 0)
    return best


@kernel(inner=True)
def search_with_constraints(
    histograms: HistogramSums,
    lanes: tuple[IntArray, IntArray],
    n_bins: np.ndarray,
    stride: int,
    limits: Limits,
    bounds: Bounds,
    constraints: Constraints,
    best: Split,
) -> Split:
    """Search columns under the constraints of the fit; return the best split."""
    if constraints.scored == 1:
        if bounds.forced >= 0:
            best = take_forced(histograms, lanes, stride, limits, bounds, constraints, best)
        if constraints.growth.drawn == 1:
            return search_drawn(
                histograms, lanes, n_bins, stride, limits, bounds, constraints, best
            )
        return search_constrained(
            histograms, lanes, n_bins, stride, limits, bounds, constraints, best
        )
    return search_columns(histograms, lanes[0], lanes[1], n_bins, stride, limits, best)
