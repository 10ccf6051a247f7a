"""Prepare category columns for prediction: bins, and rows that stop at inner nodes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import AnyArray, BinArray, IntArray
from hedgerow.data.binning.cut_sample import codes_of
from hedgerow.kernels.prediction.backoff import find_stops
from hedgerow.kernels.tables.keys import keys_of_floats
from hedgerow.model.forest import MISSING_BIN, UNKNOWN_BIN, Forest
from hedgerow.model.layout import set_tables


@dataclass(frozen=True, slots=True, eq=False)
class CategoryRows:
    """Category columns of a batch of rows.

    Attributes
    ----------
    bins : uint8, shape (n_used, n_rows)
        Bins in the category columns that the forest splits.
    unknown : int64
        Rows that stop because of an unknown category, ascending.
    """

    bins: BinArray
    unknown: IntArray

    @property
    def n_rows(self) -> int:
        return self.bins.shape[1]


class CategoryReader:
    """Reader of category columns for one forest.

    Parameters
    ----------
    forest : Forest
        A forest with ``categories``.
    """

    def __init__(self, forest: Forest) -> None:
        assert forest.categories is not None
        self._forest = forest
        self._unknown_in_sets = forest.categories.unknown_in_sets
        feature, self._sets = set_tables(forest)
        self._used, self._row_of_set = np.unique(feature, return_inverse=True)
        ends = np.array([UNKNOWN_BIN, MISSING_BIN], dtype=np.uint8)
        self._lookups = [
            np.concatenate((forest.categories.bins_of(j), ends)) for j in self._used.tolist()
        ]

    def read(self, values: AnyArray) -> CategoryRows:
        """Return the bins of the rows of a table."""
        bins = np.empty((len(self._used), len(values)), dtype=np.uint8)
        for k, (j, lookup) in enumerate(zip(self._used, self._lookups, strict=True)):
            bins[k] = lookup[codes_of(values[:, j], len(lookup) - 2)]
        stopping = bins == UNKNOWN_BIN
        if self._unknown_in_sets:
            stopping[:] = False
        unknown = np.flatnonzero(stopping.any(axis=0))
        return CategoryRows(bins, unknown)

    def lookups(self) -> list[tuple[int, bytes]]:
        """Return each column that the forest splits with its bin of each code, missing last."""
        found = zip(self._used.tolist(), self._lookups, strict=True)
        return [(j, lookup.tobytes()) for j, lookup in found]

    @property
    def unknown_stops(self) -> bool:
        """Whether a row stops at a split of an unknown category."""
        return not self._unknown_in_sets

    def sets_of_row(self) -> tuple[IntArray, npt.NDArray[np.uint64]]:
        """Like :meth:`tables` for a single row: positions of its bins, and the sets."""
        return self._row_of_set.astype(np.int64), self._sets

    def tables(self, rows: CategoryRows) -> tuple[BinArray, IntArray, npt.NDArray[np.uint64]]:
        """Return arguments of :func:`hedgerow.kernels.prediction.table_keys.fill_set_keys`."""
        return rows.bins.reshape(-1), self._row_of_set * rows.n_rows, self._sets

    @property
    def n_sets(self) -> int:
        """Number of sets of bins."""
        return len(self._row_of_set)

    @property
    def columns(self) -> list[int]:
        """The category columns that the forest splits, ascending."""
        return [int(column) for column in self._used]

    def tables_with_unknown(
        self, rows: CategoryRows
    ) -> tuple[BinArray, IntArray, npt.NDArray[np.uint64]]:
        """Like :meth:`tables`, with an additional set of unknown categories for each column."""
        unknown = np.zeros((len(self._used), 4), dtype=np.uint64)
        unknown[:, UNKNOWN_BIN >> 6] = np.uint64(1 << (UNKNOWN_BIN & 63))
        row_of_set = np.concatenate([self._row_of_set, np.arange(len(self._used))])
        sets = np.concatenate([self._sets, unknown.reshape(-1)])
        return rows.bins.reshape(-1), row_of_set * rows.n_rows, sets

    def stops(self, values: AnyArray, rows: CategoryRows) -> IntArray:
        """Return the node, counted over all trees, where each of ``rows.unknown`` stops."""
        forest, unknown = self._forest, rows.unknown
        part = values[unknown]
        keys = part if part.dtype == np.int64 else keys_of_floats(part.astype(np.float64))
        bins = np.zeros(keys.shape, dtype=np.uint8)
        bins[:, self._used] = rows.bins[:, unknown].T
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
        find_stops(arrays, set_of, self._sets, UNKNOWN_BIN, np.ascontiguousarray(keys), bins, stops)
        return stops
