"""Tables of a forest for the prediction engines, and the estimated cost of each engine.

Tables are built on first use; :mod:`hedgerow.kernels.prediction.predict` describes the engines.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hedgerow.arrays import AnyArray, IntArray
from hedgerow.compile import lanes_of_code
from hedgerow.kernels.prediction.table_keys import NO_RANKS, Ranks
from hedgerow.model import layout
from hedgerow.model.forest import Forest
from hedgerow.model.mask_tables import MaskTables, mask_tables, with_thresholds
from hedgerow.once import once

RANK_GAIN = {8: 0.03, 4: 0.09}
"""Nanoseconds saved by a 32-bit instead of a 64-bit comparison, by SIMD lanes of 64 bits.

60,000 float64 rows of 28 columns, 300 trees of 127 leaves: 2.7 -> 1.9 us a row with AVX-512,
4.9 -> 2.2 with AVX2; 100 trees of 31 leaves 0.30 -> 0.29 and 0.56 -> 0.32 (AMD EPYC).
"""

SPLIT_COST = {8: 1 / 60, 4: 1 / 30}
"""Nanoseconds per row and split of the mask engine, by SIMD lanes of 64 bits.

With AVX2, 60 trees and 1,000 rows of 20 columns, a row takes 0.47 us in the walk and 0.21 us in the
mask engine with 31 leaves, 0.70 and 0.73 with 127, 0.95 and 1.28 with 255, 2.4 and 10.7 with 1,023.
"""

TABLE_COST = 40.0
"""Nanoseconds per node to build the tables of the mask engine, more than those of the walk.

In default models of 13 tables the first call takes as long with either engine at 20 to 50."""


class EngineTables:
    """Tables of a forest for the engines; ``32`` and ``64`` are the widths of the keys."""

    def __init__(self, forest: Forest) -> None:
        self._forest = forest
        self._walked = 0.0  # nanoseconds; threads may miss what others add

    def pay(self, n_rows: float) -> bool:
        """Return whether the tables of the mask engine pay for the rows of all calls so far."""
        # Rows are walked until then, so this takes at most twice as long as the better choice.
        self._walked += n_rows * self.walk_cost
        return self._walked >= TABLE_COST * len(self._forest.feature)

    @once
    def splits(self) -> layout.Splits:
        return layout.find_splits(self._forest)

    @once
    def contents(self) -> layout.LeafContents:
        return layout.leaf_contents(self._forest)

    @once
    def walk_cost(self) -> float:
        """Estimated nanoseconds per row of the walk."""
        return float(0.6 * self.splits.depth.sum() + 1.0 * self._forest.n_trees)

    @once
    def mask_cost(self) -> float:
        """Estimated nanoseconds per row of the mask engine."""
        tables, _ = self._mask_tables
        splits = SPLIT_COST[lanes_of_code()] * len(tables.slot)
        return float(splits + 0.4 * self._forest.n_trees + 1.0 * tables.hops.sum())

    @once
    def rank_costs(self) -> tuple[float, float]:
        """Estimated nanoseconds per row to compute ranks, and saved in comparisons."""
        steps = np.log2(np.diff(self.mask_ranks[1].start).astype(np.float64) + 1.0)
        gain = RANK_GAIN[lanes_of_code()] * len(self._mask_tables[0].slot)
        return float((0.7 + 0.3 * steps).sum()), gain

    # Kernels take plain tuples: a named tuple costs a microsecond per call.

    @once
    def walk32(self) -> tuple[AnyArray, ...]:
        narrow = layout.narrow_thresholds(self.splits.threshold)
        return tuple(layout.walk_tables(self._forest, self.splits, self.contents, narrow))

    @once
    def walk64(self) -> tuple[AnyArray, ...]:
        threshold = self.splits.threshold
        return tuple(layout.walk_tables(self._forest, self.splits, self.contents, threshold))

    @once
    def _mask_tables(self) -> tuple[MaskTables, IntArray]:
        return mask_tables(self._forest, self.splits, self.contents)

    def masks(self, narrow: bool, share: float) -> tuple[tuple[Any, ...], Ranks | None]:
        """Return the tables of the mask engine, with ranks if they pay for this many trees."""
        if narrow:
            return self.mask32
        cost, gain = self.rank_costs
        return self.mask_ranks if cost < share * gain else (tuple(self._mask_tables[0]), None)

    @once
    def mask32(self) -> tuple[tuple[Any, ...], Ranks]:
        narrow = layout.narrow_thresholds(self.splits.threshold)
        return tuple(with_thresholds(*self._mask_tables, narrow)), NO_RANKS

    @once
    def mask_ranks(self) -> tuple[tuple[Any, ...], Ranks]:
        threshold, ranks = layout.rank_thresholds(self._forest, self.splits)
        return tuple(with_thresholds(*self._mask_tables, threshold)), ranks
