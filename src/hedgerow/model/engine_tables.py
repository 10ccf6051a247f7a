"""Tables of a forest for the engines of prediction, and what each engine costs.

A table is made when it is first asked for (:mod:`hedgerow.kernels.predict` has the engines).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hedgerow.arrays import AnyArray
from hedgerow.compile import lanes_of_processor
from hedgerow.kernels.table_keys import Ranks
from hedgerow.model.forest import Forest
from hedgerow.model.layout import (
    MaskTables,
    Splits,
    WalkTables,
    find_splits,
    mask_tables,
    narrow_thresholds,
    rank_thresholds,
    walk_tables,
)
from hedgerow.model.levels import LevelTables, level_tables
from hedgerow.once import once

RANK_GAIN = {8: 0.03, 4: 0.09}
"""Nanoseconds that a comparison of 32 bits takes less than one of 64, by numbers in a register.

60,000 float64 rows of 28 columns, 300 trees of 127 leaves: 2.7 -> 1.9 us a row with AVX-512,
4.9 -> 2.2 with AVX2; 100 trees of 31 leaves 0.30 -> 0.29 and 0.56 -> 0.32 (AMD EPYC).
"""


class EngineTables:
    """What the engines read of a forest; ``32`` and ``64`` are the bits of the keys."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest

    @once
    def splits(self) -> Splits:
        return find_splits(self._forest)

    @once
    def walk_cost(self) -> float:
        """About how many nanoseconds the walk takes for a row."""
        return float(0.6 * self.walk64[5].sum() + 1.0 * self._forest.n_trees)

    @once
    def mask_cost(self) -> float:
        """About how many nanoseconds the mask engine takes for a row."""
        tables = self.mask64
        return float(len(tables[1]) / 60 + 0.4 * self._forest.n_trees + 1.0 * tables[6].sum())

    @once
    def rank_cost(self) -> float:
        """About how many nanoseconds the ranks of a row take."""
        steps = np.log2(np.diff(self.mask_ranks[1].start).astype(np.float64) + 1.0)
        return float((0.7 + 0.3 * steps).sum())

    @once
    def rank_gain(self) -> float:
        """About how many nanoseconds all comparisons of a row gain by ranks."""
        return RANK_GAIN[lanes_of_processor()] * len(self.mask64[1])

    # The kernels take plain tuples: a named one costs a microsecond a call.

    @once
    def walk32(self) -> tuple[AnyArray, ...]:
        return tuple(self._walk(narrow_thresholds(self.splits.threshold)))

    @once
    def walk64(self) -> tuple[AnyArray, ...]:
        return tuple(self._walk(self.splits.threshold))

    @once
    def levels32(self) -> LevelTables | None:
        threshold = narrow_thresholds(self.splits.threshold)
        return level_tables(self._forest, self.splits, threshold)

    @once
    def levels64(self) -> LevelTables | None:
        return level_tables(self._forest, self.splits, self.splits.threshold)

    @once
    def mask32(self) -> tuple[Any, ...]:
        return tuple(self._mask(narrow_thresholds(self.splits.threshold)))

    @once
    def mask64(self) -> tuple[Any, ...]:
        return tuple(self._mask(self.splits.threshold))

    def masks(self, narrow: bool, share: float) -> tuple[tuple[Any, ...], Ranks | None]:
        """Tables of the mask engine for keys of 32 or 64 bits, and a share of the trees."""
        if narrow:
            return self.mask32, None
        return self.mask_ranks if self.rank_cost < share * self.rank_gain else (self.mask64, None)

    @once
    def mask_ranks(self) -> tuple[tuple[Any, ...], Ranks]:
        threshold, ranks = rank_thresholds(self._forest, self.splits)
        return tuple(self._mask(threshold)), ranks

    def _walk(self, threshold: AnyArray) -> WalkTables:
        return walk_tables(self._forest, self.splits, threshold)

    def _mask(self, threshold: AnyArray) -> MaskTables:
        return mask_tables(self._forest, self.splits, threshold)
