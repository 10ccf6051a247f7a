"""Assembly of grown trees into the forest of a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import FloatArray
from hedgerow.data.binning.bins import BinSpec
from hedgerow.growing.core.tree import GrownTree, joined
from hedgerow.kernels.prediction.slopes import joined_slopes
from hedgerow.model.forest import NODE_FIELDS, CategoryTables, Forest


def make_forest(
    trees: list[GrownTree],
    base: FloatArray,
    n_features: int,
    spec: BinSpec | None = None,
    n_parallel: int = 1,
) -> Forest:
    """Concatenate trees to a forest; ``spec`` is needed if columns are categories."""
    if not trees:  # a fit of few rows makes dozens, one for each of its folds
        tables = None
        if spec is not None and spec.is_category.any():
            tables = CategoryTables(_NO_SETS, spec.level_bin, spec.level_start)
        return Forest(
            **_NO_NODES,
            tree_start=np.zeros(1, np.int64),
            base_score=base.copy(),
            n_features=n_features,
            categories=tables,
            n_parallel=n_parallel,
        )
    pieces = joined(trees)
    fields: dict[str, Any] = {
        name: np.concatenate([getattr(piece, name) for piece in pieces]) for name in NODE_FIELDS
    }
    sizes = [len(tree.value) for tree in trees]
    n_lines = [tree.n_lines for tree in trees]
    vectors = [tree.vectors for tree in trees if tree.vectors is not None]
    forest = Forest(
        **fields,
        tree_start=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        base_score=base.copy(),
        n_features=n_features,
        vectors=np.concatenate(vectors) if vectors else None,
        slopes=joined_slopes([tree.slopes for tree in trees], n_lines),
        n_parallel=n_parallel,
    )
    if spec is None or not spec.is_category.any():
        return forest
    left_bins: npt.NDArray[np.uint64] = np.concatenate([piece.left_bins for piece in pieces])
    # The bin sets of category splits, one row of ``left_bins`` for each node.
    chosen = np.append(spec.is_category, False)[forest.feature]
    sets, n_bins = left_bins[chosen], spec.bin_counts
    for j in np.flatnonzero(spec.is_category).tolist():  # a set keeps only bins of levels
        kept = np.zeros(256, dtype=np.uint8)
        kept[: n_bins[j]] = 1
        mask = np.packbits(kept, bitorder="little").view("<u8").astype(np.uint64)
        sets[forest.feature[chosen] == j] &= mask
    threshold = forest.threshold.copy()
    threshold[chosen] = np.arange(len(sets))
    tables = CategoryTables(sets, spec.level_bin, spec.level_start)
    return replace(forest, threshold=threshold, categories=tables)


_NO_NODES: Mapping[str, Any] = {
    "feature": np.zeros(0, np.int32),
    "threshold": np.zeros(0, np.int64),
    "missing_left": np.zeros(0, np.uint8),
    "left": np.zeros(0, np.int32),
    "right": np.zeros(0, np.int32),
    "value": np.zeros(0),
    "gain": np.zeros(0),
    "cover": np.zeros(0),
    "count": np.zeros(0, np.int64),
}
_NO_SETS = np.zeros((0, 4), np.uint64)
