"""The arrays of symmetric trees."""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import aligned_zeros
from hedgerow.data.binning.bins import BinSpec
from hedgerow.growing.core import state as s
from hedgerow.kernels.simd.lanes import WIDTH
from hedgerow.kernels.splits.category_split import CATEGORY_SCRATCH, SCRATCH_SIZE
from hedgerow.kernels.splits.symmetric_split import INFO


def make_level(
    spec: BinSpec, options: s.Options, n_threads: int, max_leaves: int, slot_size: int
) -> s.Level:
    """Return space for the search of a level of up to ``max_leaves`` nodes."""
    n_features, n_bins = spec.n_features, spec.bin_counts
    # Without bundles threads have as many features each; a bundle may hold nearly all.
    bundled = options.bundles.used == 1
    most_features = n_features if bundled else -(-n_features // n_threads)
    n_groups = -(-most_features // WIDTH)
    n_gains = n_groups * 2 * spec.stride * WIDTH
    if bundled:
        # Most have few bins: at worst each stands in a group with such as have fewer.
        rounded = -(-n_bins // WIDTH) * WIDTH
        n_gains = min(n_gains, int(2 * WIDTH * rounded.sum()))
    return s.Level(
        used=1,
        gains=aligned_zeros((n_threads, n_gains), np.float64),
        groups=aligned_zeros((n_threads, n_groups * s.GROUP_CELLS), np.int64),
        lacks=np.zeros(n_features, dtype=np.int32),
        nodes=np.zeros(max_leaves, dtype=np.int64),
        choice=np.zeros(s.FOUND_FIELDS, dtype=np.int64),
        counts=np.zeros(s.LEVEL_COUNTS, dtype=np.int64),
        penalty=np.zeros(1),
        sets=_make_sets(options.categories),
        slot_size=slot_size,
        before=0,
    )


def _make_sets(categories: s.Categories) -> s.Sets:
    """Return space for the orders of the category columns."""
    chosen = categories.chosen == 1
    n_columns = int(chosen.sum())
    return s.Sets(
        number=np.where(chosen, np.cumsum(chosen) - 1, -1).astype(np.int32),
        places=aligned_zeros((n_columns, CATEGORY_SCRATCH, SCRATCH_SIZE), np.int64),
        info=aligned_zeros((n_columns, INFO), np.int64),
        gains=aligned_zeros((n_columns, SCRATCH_SIZE), np.float64),
    )
