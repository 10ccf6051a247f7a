"""Effects of constant leaves: exact steps, from one pass over a background.

A leaf adds its value to the effect of column j at a value v for as many rows as meet all its
conditions but those on j, if v is in its box.  So the whole curve of every column is a sum
over leaves, with counts that :mod:`hedgerow.inspection.paths` finds for all columns at once.
"""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.inspection.background import Background
from hedgerow.inspection.cells import ColumnCells, cells_of_column, quantiles_of
from hedgerow.inspection.effects import Effect
from hedgerow.inspection.paths import (
    count_rows,
    expected_rows,
    find_paths,
    first_sums,
)
from hedgerow.model.cells import Cells
from hedgerow.model.model import Model

_ENTRIES_AT_ONCE = 4096


class ExactEffects:
    """Mean raw scores of a model by the values of what its trees split.

    Parameters
    ----------
    model : Model
        Whose leaves have no slopes.
    background : Background, optional
        By default the training rows as the model remembers them (:func:`expected_rows`).
    pairs : bool, default=False
        Whether pairs of columns are asked for as well.
    """

    def __init__(
        self, model: Model, background: Background | None = None, *, pairs: bool = False
    ) -> None:
        forest, schema = model.forest, model.split_schema
        assert forest.slopes is None, "leaves with slopes have no steps"
        self._background, self._pairs = background, pairs
        self._cells = Cells(forest, schema)
        self.paths = paths = find_paths(forest, backs_off=schema.unknown == "backoff")
        if background is None:
            sums, mass = expected_rows(paths, pairs=pairs), 1.0
        else:
            sums = count_rows(
                paths, background.inputs, background.weight, pairs=pairs,
                n_threads=background.n_threads,
            )  # fmt: skip
            mass = background.mass
        self._sums, self._first = sums / mass, first_sums(paths, pairs)[:-1]
        values = _values_of_ends(paths.boxes.node, model)
        self._end = paths.end_of_entry
        self._values = values
        self._at_end = self._sums[self._first, None] * values
        base = forest.base_score
        if background is not None and background.offset is not None:
            base = base + background.mean(background.offset.T)
        self.mean: FloatArray = base + self._at_end.sum(axis=0)
        slot = np.arange(len(self._end)) - paths.boxes.start[self._end]
        self._slot = slot
        self._by_column = _grouped(paths.boxes.column, forest.n_features)

    def cells(self, column: int) -> ColumnCells:
        """The cells of an input of the trees."""
        return cells_of_column(self._cells, column)

    def curve(self, column: int, cells: ColumnCells) -> FloatArray:
        """Mean raw score in each cell, shape (n_cells, n_outputs)."""
        entries = self._by_column[column]
        ends = self._end[entries]
        added = self._sums[self._first[ends] + self._place(self._slot[entries]), None]
        added = added * self._values[ends]
        rest = self.mean - self._at_end[ends].sum(axis=0)
        return rest + self._steps(cells, entries, added)

    def _place(self, slot: IntArray) -> IntArray:
        """Mask of "all but those on the column of a slot"."""
        return 1 + slot + (slot * (slot - 1) // 2 if self._pairs else 0)

    def _steps(self, cells: ColumnCells, entries: IntArray, added: FloatArray) -> FloatArray:
        """Sum of what is added in the boxes of entries, cell by cell."""
        found = np.zeros((cells.n_cells, added.shape[1]))
        if cells.is_category:
            for k in range(0, len(entries), _ENTRIES_AT_ONCE):
                part = slice(k, k + _ENTRIES_AT_ONCE)
                found += cells.inside(self.paths, entries[part]).T.astype(np.float64) @ added[part]
            return found
        first, stop = cells.ranges(self.paths, entries)
        n = cells.n_present
        for output in range(added.shape[1]):
            own = added[:, output]
            ups = np.bincount(first, weights=own, minlength=n + 2)
            downs = np.bincount(stop, weights=own, minlength=n + 2)
            found[:n, output] = np.cumsum(ups - downs)[:n]
        takes_missing = self.paths.boxes.missing[entries] == 1
        found[n] = added[takes_missing].sum(axis=0)
        return found

    def joint(self, one: int, two: int) -> FloatArray:
        """Mean raw score in each pair of cells, shape (n_cells, n_cells, n_outputs)."""
        cells_one, cells_two = self.cells(one), self.cells(two)
        together = self.together(one, two)
        alone = self.curve(one, cells_one)[:, None] + self.curve(two, cells_two)[None]
        return alone - self.mean + together

    def together(self, one: int, two: int) -> FloatArray:
        """What pairs of cells add to the effects of each column alone.

        Returns
        -------
        float64, shape (n_cells, n_cells, n_outputs)
            0 where no path asks for both columns.
        """
        cells_one, cells_two = self.cells(one), self.cells(two)
        n_outputs = self._values.shape[1]
        shape = (cells_one.n_cells, cells_two.n_cells, n_outputs)
        a, b = self._entries_of_both(one, two)
        ends = self._end[a]
        if len(ends) == 0:
            return np.zeros(shape)
        first, values = self._first[ends], self._values[ends]
        low = np.minimum(self._slot[a], self._slot[b])
        high = np.maximum(self._slot[a], self._slot[b])
        own = [
            self._sums[first + place, None] * values
            for place in (
                self._place(high) + 1 + low,
                self._place(self._slot[a]),
                self._place(self._slot[b]),
            )
        ]
        found = np.zeros(shape)
        for k in range(0, len(a), _ENTRIES_AT_ONCE):
            part = slice(k, k + _ENTRIES_AT_ONCE)
            in_one = cells_one.inside(self.paths, a[part]).T.astype(np.float64)
            in_two = cells_two.inside(self.paths, b[part]).astype(np.float64)
            for output in range(n_outputs):
                found[..., output] += (in_one * own[0][part, output]) @ in_two
        found -= self._steps(cells_one, a, own[1])[:, None]
        found -= self._steps(cells_two, b, own[2])[None]
        return found + self._at_end[ends].sum(axis=0)

    def _entries_of_both(self, one: int, two: int) -> tuple[IntArray, IntArray]:
        """Entries of two columns at the ends whose paths ask for both."""
        a, b = self._by_column[one], self._by_column[two]
        _, in_a, in_b = np.intersect1d(
            self._end[a], self._end[b], assume_unique=True, return_indices=True
        )
        return a[in_a], b[in_b]

    def meet(self, one: int, two: int) -> bool:
        """Whether some path asks for both columns."""
        return len(self._entries_of_both(one, two)[0]) > 0

    def rows(self, column: int, cells: ColumnCells) -> FloatArray:
        """Weight of the background rows in each cell; 0 without a background."""
        if self._background is None:
            return np.zeros(cells.n_cells)
        return cells.rows(self._background.inputs[:, column], self._background.weight)

    def pair_rows(self, one: int, two: int) -> FloatArray:
        """Weight of the background rows in each pair of cells."""
        assert self._background is not None
        cells = self.cells(one), self.cells(two)
        places = [
            own.cell_of(self._background.inputs[:, column])
            for own, column in zip(cells, (one, two), strict=True)
        ]
        n = cells[1].n_cells
        counted = np.bincount(
            places[0] * n + places[1],
            weights=self._background.weight,
            minlength=cells[0].n_cells * n,
        )
        return counted.reshape(-1, n).astype(np.float64)

    def effect(self, column: int) -> Effect:
        """The effect of an input of the trees."""
        cells = self.cells(column)
        curve, rows = self.curve(column, cells), self.rows(column, cells)
        if curve.shape[1] == 1:
            curve = curve[:, 0]
        quantiles = np.zeros(0)
        if self._background is not None:
            quantiles = quantiles_of(self._background.inputs[:, column], cells.column)
        return effect_of_cells(cells, curve, rows, quantiles)


def effect_of_cells(
    cells: ColumnCells, curve: FloatArray, rows: FloatArray, quantiles: FloatArray
) -> Effect:
    """An effect from its values in all cells."""
    n = cells.n_present
    knows_unknown = cells.n_cells > n + 1
    return Effect(
        name=cells.column.name,
        kind=cells.column.kind,
        positions=cells.positions,
        levels=tuple(cells.column.levels),
        values=curve[:n],
        missing=np.asarray(curve[n]),
        unknown=np.asarray(curve[n + 1]) if knows_unknown else None,
        rows=rows[:n],
        missing_rows=float(rows[n]),
        unknown_rows=float(rows[n + 1]) if knows_unknown else 0.0,
        quantiles=quantiles,
        is_exact=True,
    )


def _values_of_ends(node: IntArray, model: Model) -> FloatArray:
    """What each end adds to each output."""
    forest = model.forest
    if forest.vectors is not None:
        return np.asarray(forest.vectors[node])
    tree = np.searchsorted(forest.tree_start, node, side="right") - 1
    values = np.zeros((len(node), forest.n_outputs))
    values[np.arange(len(node)), tree % forest.n_outputs] = forest.value[node]
    return values


def _grouped(columns: IntArray, n_columns: int) -> list[IntArray]:
    """Places of each column, ascending."""
    order = np.argsort(columns, kind="stable")
    edges = np.searchsorted(columns[order], np.arange(n_columns + 1))
    return [order[edges[j] : edges[j + 1]] for j in range(n_columns)]
