"""Bins of features from those of bundles, for rows whose columns are features."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import aligned_zeros
from hedgerow.data.binning.bins import BinSpec
from hedgerow.data.binning.bundles import Layout
from hedgerow.data.binning.matrix import PAD, BinnedMatrix, tile_shape
from hedgerow.kernels.histograms.packed_columns import gather_rows


def spread_bundles(matrix: BinnedMatrix) -> BinnedMatrix:
    """Return a matrix with a column for each feature; values that conflicts hide are defaults."""
    layout, spec = matrix.layout, matrix.spec
    if layout is None:
        return matrix
    n_rows, (n_tiles, per_tile, width) = matrix.n_rows, tile_shape(matrix.n_features)
    by_row = aligned_zeros((n_tiles, n_rows + PAD, width), np.uint8)
    by_column = aligned_zeros((matrix.n_features, n_rows + PAD), np.uint8)
    for feature, column in enumerate(layout.column.tolist()):
        lookup, bins = bins_of_cells(layout, spec, feature), by_column[feature, :n_rows]
        if column < 0:
            bins[:] = lookup[0]
        else:
            np.take(lookup, matrix.by_column[column, :n_rows], out=bins, mode="clip")
    gather_rows(by_column, per_tile, by_row)
    return BinnedMatrix(by_row, by_column, spec, n_lost=matrix.n_lost)


def bins_of_cells(layout: Layout, spec: BinSpec, feature: int) -> npt.NDArray[np.uint8]:
    """Return the bin of a feature that each bin of its column stands for, shape (256,)."""
    n_bins, default = int(spec.bin_counts[feature]), int(layout.default_bin[feature])
    if layout.first[feature] < 0 and layout.column[feature] >= 0:
        codes = np.minimum(np.arange(256), n_bins)  # missing values come after the bins
    else:
        codes = np.full(256, default)
        own = np.arange(layout.count[feature])
        codes[layout.first[feature] + own] = own + (own >= default)
    return np.where(codes < n_bins, codes, spec.missing_bin).astype(np.uint8)
