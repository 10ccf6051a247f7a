"""Cells of one column: groups of values that no split of a forest separates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hedgerow.arrays import MISSING_KEY, AnyArray, BoolArray, FloatArray, IntArray
from hedgerow.data.binning.cut_sample import codes_of
from hedgerow.data.reading.numbers import floats_of
from hedgerow.data.schema import Column
from hedgerow.inspection.paths import Paths
from hedgerow.kernels.tables.keys import floats_of_keys, highest_key, keys_of_floats
from hedgerow.model.cells import Cells
from hedgerow.model.forest import MISSING_BIN, UNKNOWN_BIN

N_QUANTILES = 101


@dataclass(frozen=True, slots=True, eq=False)
class ColumnCells:
    """Cells of a column: for present values, missing values and unknown categories.

    Attributes
    ----------
    cuts : int64
        Keys of the largest number of each cell except the last; empty for categories.
    bins : uint8
        Bin of each level of a category; empty for numbers.
    backs_off : bool
        Whether unknown categories have a cell.
    """

    column: Column
    cuts: IntArray
    bins: AnyArray
    backs_off: bool

    @property
    def is_category(self) -> bool:
        return self.column.kind == "category"

    @property
    def n_present(self) -> int:
        """Number of cells of present values: for categories, one for each level."""
        return len(self.bins) if self.is_category else len(self.cuts) + 1

    @property
    def n_cells(self) -> int:
        """Number of all cells: for present, missing and perhaps unknown values."""
        return self.n_present + 1 + int(self.is_category and self.backs_off)

    @property
    def positions(self) -> AnyArray:
        """See :class:`hedgerow.inspection.effects.Effect`."""
        if self.is_category:
            return np.arange(len(self.bins))
        if self.column.kind == "int":
            return np.append(self.cuts, np.iinfo(np.int64).max)
        return np.append(floats_of_keys(self.cuts), np.inf)

    def ranges(self, paths: Paths, entries: IntArray) -> tuple[IntArray, IntArray]:
        """Return the first cell of each box of numbers, and the position after the last cell."""
        low, high = paths.boxes.low[entries], paths.boxes.high[entries]
        if self.column.kind == "float":  # -1 is the key of -0.0, which does not occur
            low, high = np.where(low == -1, -2, low), np.where(high == -1, -2, high)
        first = np.searchsorted(self.cuts, low, side="right")
        first[low >= highest_key(self.column.kind)] = len(self.cuts) + 1
        last = np.searchsorted(self.cuts, high, side="left") + 1
        last[high == MISSING_KEY] = 0  # only missing values go left
        return first, np.maximum(first, last)

    def inside(self, paths: Paths, entries: IntArray) -> BoolArray:
        """Return the cells of some boxes, shape (n_entries, n_cells)."""
        found = np.zeros((len(entries), self.n_cells), dtype=np.bool_)
        if not self.is_category:
            first, stop = self.ranges(paths, entries)
            cells = np.arange(self.n_present)
            found[:, :-1] = (cells >= first[:, None]) & (cells < stop[:, None])
            found[:, -1] = paths.boxes.missing[entries] == 1
            return found
        sets = paths.boxes.bins[entries]
        ends = [MISSING_BIN, UNKNOWN_BIN] if self.backs_off else [MISSING_BIN]
        wanted = np.concatenate((self.bins.astype(np.int64), ends))
        words, bits = wanted >> 6, (wanted & 63).astype(np.uint64)
        found[:] = (sets[:, words] >> bits) & np.uint64(1) == 1
        return found

    def cell_of(self, values: AnyArray) -> IntArray:
        """Return the cell of each value of the column in a table."""
        if self.is_category:
            codes = codes_of(values, len(self.bins))
            n = len(self.bins)  # codes: n is unknown, n + 1 is missing
            other = n + 1 if self.backs_off else n
            return np.where(codes == n, other, np.where(codes > n, n, codes))
        keys = values if values.dtype == np.int64 else keys_of_floats(values)
        cells = np.searchsorted(self.cuts, keys, side="left")
        return np.where(keys == MISSING_KEY, self.n_present, cells)

    def rows(self, values: AnyArray, weight: FloatArray | None) -> FloatArray:
        """Return the weight of the rows in each cell."""
        if self.is_category or weight is not None or self.column.kind == "int":
            cells = self.cell_of(values)
            return np.bincount(cells, weights=weight, minlength=self.n_cells).astype(np.float64)
        return self._rows_of_sorted(sorted_numbers(values, self.column))

    def describe(
        self, values: AnyArray, weight: FloatArray | None
    ) -> tuple[FloatArray, FloatArray]:
        """Return the weight of the rows in each cell, and quantiles of the numbers."""
        if self.is_category or weight is not None or self.column.kind == "int":
            return self.rows(values, weight), quantiles_of(values, self.column)
        numbers = sorted_numbers(values, self.column)
        return self._rows_of_sorted(numbers), _quantiles_of_sorted(numbers)

    def _rows_of_sorted(self, numbers: AnyArray) -> FloatArray:
        """Count the rows in each cell, from sorted floats with missing values last."""
        n_present = int(np.searchsorted(numbers, np.nan, side="left"))
        below = np.searchsorted(numbers, floats_of_keys(self.cuts), side="right")
        edges = np.concatenate(([0], below, np.array([n_present, len(numbers)], dtype=np.int64)))
        return np.diff(edges).astype(np.float64)


def cells_of_column(cells: Cells, column: int) -> ColumnCells:
    """Return the cells of a column in the forest of ``cells``."""
    described = cells.schema.columns[column]
    if described.kind != "category":
        return ColumnCells(described, cells.ordered(column)[:-1], np.zeros(0, np.uint8), False)
    tables = cells.forest.categories
    n_levels = len(described.levels)
    bins = np.zeros(n_levels, np.uint8) if tables is None else tables.bins_of(column)
    return ColumnCells(described, np.zeros(0, dtype=np.int64), bins, cells.stays)


def sorted_numbers(values: AnyArray, column: Column) -> AnyArray:
    """Return the numbers of a column as floats, ascending, missing values last."""
    if values.dtype == np.int64:
        values = floats_of(values[:, None], [column.kind])[:, 0]
    return np.sort(values)


def quantiles_of(values: AnyArray, column: Column) -> FloatArray:
    """Return ``N_QUANTILES`` quantiles of a column's finite numbers; none for categories."""
    if column.kind == "category":
        return np.zeros(0)
    return _quantiles_of_sorted(sorted_numbers(values, column))


def _quantiles_of_sorted(numbers: AnyArray) -> FloatArray:
    first = np.searchsorted(numbers, -np.inf, side="right")
    stop = np.searchsorted(numbers, np.inf, side="left")
    if first == stop:
        return np.zeros(0)
    positions = np.linspace(first, stop - 1, N_QUANTILES).round().astype(np.int64)
    return numbers[positions].astype(np.float64)
