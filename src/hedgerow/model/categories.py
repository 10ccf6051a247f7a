"""Prepare category columns for prediction: bins, and rows that stop at inner nodes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import AnyArray, BinArray, IntArray
from hedgerow.data.binning.cut_sample import codes_of
from hedgerow.kernels.prediction.backoff import find_stops
from hedgerow.kernels.tables.keys import keys_of_floats
from hedgerow.model.forest import MISSING_BIN, UNKNOWN_BIN, Forest
from hedgerow.model.layout import set_tables


class CategoryRows(NamedTuple):
    """Category columns of a batch of rows."""

    # uint8, shape (n_used, n_rows); bins in the category columns that the forest splits
    bins: BinArray
    unknown: IntArray  # int64; rows that stop because of an unknown category, ascending


class CategoryReader:
    """Reader of category columns for one forest."""

    def __init__(self, forest: Forest) -> None:
        assert forest.categories is not None
        self._forest = forest
        self.unknown_stops = not forest.categories.unknown_in_sets  # at a split of such a category
        feature, self.sets = set_tables(forest)
        used, row_of_set = np.unique(feature, return_inverse=True)
        # The category columns that the forest splits, ascending, and the place of each set's.
        self.columns, self.row_of_set = used.tolist(), row_of_set.astype(np.int64)
        self.n_sets = len(row_of_set)
        ends = np.array([UNKNOWN_BIN, MISSING_BIN], dtype=np.uint8)
        # Bins of each code of these columns, of unknown categories, and of missing values.
        bins = (forest.categories.bins_of(j) for j in self.columns)
        self.lookups = [np.concatenate((known, ends)) for known in bins]

    def read(self, values: AnyArray) -> CategoryRows:
        """Return the bins of the rows of a table."""
        bins = np.empty((len(self.columns), len(values)), dtype=np.uint8)
        for k, (j, lookup) in enumerate(zip(self.columns, self.lookups, strict=True)):
            bins[k] = lookup[codes_of(values[:, j], len(lookup) - 2)]
        stopping = (bins == UNKNOWN_BIN) & self.unknown_stops
        return CategoryRows(bins, np.flatnonzero(stopping.any(axis=0)))

    def tables(self, rows: CategoryRows) -> tuple[BinArray, IntArray, npt.NDArray[np.uint64]]:
        """Return arguments of :func:`hedgerow.kernels.prediction.table_keys.fill_set_keys`."""
        return rows.bins.reshape(-1), self.row_of_set * rows.bins.shape[1], self.sets

    def tables_with_unknown(
        self, rows: CategoryRows
    ) -> tuple[BinArray, IntArray, npt.NDArray[np.uint64]]:
        """Like :meth:`tables`, with an additional set of unknown categories for each column."""
        unknown = np.zeros((len(self.columns), 4), dtype=np.uint64)
        unknown[:, UNKNOWN_BIN >> 6] = np.uint64(1 << (UNKNOWN_BIN & 63))
        row_of_set = np.concatenate([self.row_of_set, np.arange(len(self.columns))])
        sets = np.concatenate([self.sets, unknown.reshape(-1)])
        return rows.bins.reshape(-1), row_of_set * rows.bins.shape[1], sets

    def stops(self, values: AnyArray, rows: CategoryRows) -> IntArray:
        """Return the node, counted over all trees, where each of ``rows.unknown`` stops."""
        forest, unknown = self._forest, rows.unknown
        part = values[unknown]
        keys = part if part.dtype == np.int64 else keys_of_floats(part.astype(np.float64))
        bins = np.zeros(keys.shape, dtype=np.uint8)
        bins[:, self.columns] = rows.bins[:, unknown].T
        set_of = np.where(forest.has_sets, 4 * forest.threshold, -1)
        stops = np.empty((len(unknown), forest.n_trees), dtype=np.int64)
        arrays = (
            forest.feature,
            forest.threshold,
            forest.missing_left,
            forest.left,
            forest.right,
            forest.tree_start,
        )
        find_stops(arrays, set_of, self.sets, UNKNOWN_BIN, np.ascontiguousarray(keys), bins, stops)
        return stops
