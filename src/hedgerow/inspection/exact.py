"""Effects of constant leaves: exact step functions from one pass over a background.

For column j and value v in the box of a leaf, the leaf contributes its value times the number
of rows that meet all conditions except those on j.  So the complete curve of every column is a
sum over leaves, with counts that :mod:`hedgerow.inspection.paths` finds for all columns at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.inspection.background import Background
from hedgerow.inspection.cells import ColumnCells, cells_of_column
from hedgerow.inspection.effects import Effect
from hedgerow.inspection.paths import Paths, count_rows, expected_rows, find_paths, first_sums
from hedgerow.model.cells import Cells
from hedgerow.model.forest import Forest
from hedgerow.model.model import Model
from hedgerow.threads import run_blocks

_ENTRIES_AT_ONCE = 4096


class ExactEffects:
    """Mean raw scores of a model as a function of the inputs of its trees.

    Parameters
    ----------
    model : Model
        A model without linear leaves.
    background : Background, optional
        Default: the training rows, from the counts in the model (:func:`expected_rows`).
    pairs : bool, default=False
        Whether to compute pairs of columns as well.
    """

    def __init__(
        self, model: Model, background: Background | None = None, *, pairs: bool = False
    ) -> None:
        forest, schema = model.forest, model.split_schema
        assert forest.slopes is None, "linear leaves have no steps"
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
        values = _values_of_ends(paths.boxes.node, forest)
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
        """Return the cells of an input of the trees."""
        return cells_of_column(self._cells, column)

    def curve(self, column: int, cells: ColumnCells) -> FloatArray:
        """Return the mean raw score in each cell, shape (n_cells, n_outputs)."""
        entries = self._by_column[column]
        ends = self._end[entries]
        added = self._sums[self._first[ends] + self._place(self._slot[entries]), None]
        added = added * self._values[ends]
        elsewhere = self.mean - self._at_end[ends].sum(axis=0)
        return elsewhere + steps_of_entries(self.paths, cells, entries, added)

    def _place(self, slot: IntArray) -> IntArray:
        """Return the mask of all conditions except those on the column of a slot."""
        return 1 + slot + (slot * (slot - 1) // 2 if self._pairs else 0)

    def joint(self, one: int, two: int) -> FloatArray:
        """Return the mean raw score in each pair of cells, shape (n_cells, n_cells, n_outputs)."""
        cells_one, cells_two = self.cells(one), self.cells(two)
        together = self.together(one, two)
        alone = self.curve(one, cells_one)[:, None] + self.curve(two, cells_two)[None]
        return alone - self.mean + together

    def together(self, one: int, two: int) -> FloatArray:
        """Return the joint contribution of pairs of cells beyond each column alone.

        Returns
        -------
        float64, shape (n_cells, n_cells, n_outputs)
            0 if no path uses both columns.
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
        if cells_one.is_category or cells_two.is_category:
            found = self._sum_of_boxes((cells_one, cells_two), (a, b), own[0])
        else:
            found = self._sum_of_ranges((cells_one, cells_two), (a, b), own[0])
        found -= steps_of_entries(self.paths, cells_one, a, own[1])[:, None]
        found -= steps_of_entries(self.paths, cells_two, b, own[2])[None]
        return found + self._at_end[ends].sum(axis=0)

    def _sum_of_boxes(
        self,
        cells: tuple[ColumnCells, ColumnCells],
        entries: tuple[IntArray, IntArray],
        added: FloatArray,
    ) -> FloatArray:
        """Return the sum over the boxes of pairs of entries, in each pair of cells."""
        found = np.zeros((cells[0].n_cells, cells[1].n_cells, added.shape[1]))
        for k in range(0, len(added), _ENTRIES_AT_ONCE):
            part = slice(k, k + _ENTRIES_AT_ONCE)
            one = cells[0].inside(self.paths, entries[0][part]).T.astype(np.float64)
            two = cells[1].inside(self.paths, entries[1][part]).astype(np.float64)
            for output in range(added.shape[1]):
                found[..., output] += (one * added[part, output]) @ two
        return found

    def _sum_of_ranges(
        self,
        cells: tuple[ColumnCells, ColumnCells],
        entries: tuple[IntArray, IntArray],
        added: FloatArray,
    ) -> FloatArray:
        """Return the sum for two numeric columns, from the four corners of each box."""
        n_one, n_two = (own.n_present for own in cells)
        first, stop = zip(
            *(own.ranges(self.paths, at) for own, at in zip(cells, entries, strict=True)),
            strict=True,
        )
        missing = [self.paths.boxes.missing[at] == 1 for at in entries]
        found = np.zeros((n_one + 1, n_two + 1, added.shape[1]))
        for output in range(added.shape[1]):
            own = added[:, output]
            corners = np.zeros((n_one + 2) * (n_two + 2))
            for up, sign in ((first[0], 1.0), (stop[0], -1.0)):
                for across, other in ((first[1], 1.0), (stop[1], -1.0)):
                    corners += np.bincount(
                        up * (n_two + 2) + across, weights=sign * other * own,
                        minlength=len(corners),
                    )  # fmt: skip
            steps = corners.reshape(n_one + 2, n_two + 2).cumsum(axis=0).cumsum(axis=1)
            found[:n_one, :n_two, output] = steps[:n_one, :n_two]
            found[n_one, n_two, output] = own[missing[0] & missing[1]].sum()
        alone, other = missing
        found[n_one, :n_two] = steps_of_entries(
            self.paths, cells[1], entries[1][alone], added[alone]
        )[:n_two]
        found[:n_one, n_two] = steps_of_entries(
            self.paths, cells[0], entries[0][other], added[other]
        )[:n_one]
        return found

    def _entries_of_both(self, one: int, two: int) -> tuple[IntArray, IntArray]:
        """Return entries of two columns at the ends whose paths use both."""
        a, b = self._by_column[one], self._by_column[two]
        _, in_a, in_b = np.intersect1d(
            self._end[a], self._end[b], assume_unique=True, return_indices=True
        )
        return a[in_a], b[in_b]

    def meet(self, one: int, two: int) -> bool:
        """Return whether a path uses both columns."""
        return len(self._entries_of_both(one, two)[0]) > 0

    def pair_rows(self, one: int, two: int) -> FloatArray:
        """Return the weight of the background rows in each pair of cells."""
        assert self._background is not None
        cells = self.cells(one), self.cells(two)
        cell_of_row = [
            own.cell_of(self._background.inputs[:, column])
            for own, column in zip(cells, (one, two), strict=True)
        ]
        n = cells[1].n_cells
        counted = np.bincount(
            cell_of_row[0] * n + cell_of_row[1],
            weights=self._background.weight,
            minlength=cells[0].n_cells * n,
        )
        return counted.reshape(-1, n).astype(np.float64)

    def effects(self, columns: Sequence[int]) -> list[Effect]:
        """Return the effects of some inputs of the trees."""
        found: list[Effect | None] = [None] * len(columns)

        def task(start: int, stop: int) -> None:
            for place in range(start, stop):
                found[place] = self.effect(columns[place])

        background = self._background
        threads = 1 if background is None or background.n_rows < 4096 else background.n_threads
        run_blocks(task, len(columns), threads, 1)
        return [effect for effect in found if effect is not None]

    def effect(self, column: int) -> Effect:
        """Return the effect of an input of the trees."""
        cells = self.cells(column)
        curve, rows, quantiles = self.curve(column, cells), np.zeros(cells.n_cells), np.zeros(0)
        if curve.shape[1] == 1:
            curve = curve[:, 0]
        if self._background is not None:
            own = self._background.inputs[:, column]
            rows, quantiles = cells.describe(own, self._background.weight)
        levels = tuple(cells.column.levels)
        schema = self._cells.schema
        return Effect.of_curve(
            schema, column, cells.positions, levels, curve, rows, quantiles, is_exact=True
        )


def steps_of_entries(
    paths: Paths, cells: ColumnCells, entries: IntArray, added: FloatArray
) -> FloatArray:
    """Return the sum over the boxes of some entries, per cell: (n_cells, n_outputs)."""
    found = np.zeros((cells.n_cells, added.shape[1]))
    if cells.is_category:
        for k in range(0, len(entries), _ENTRIES_AT_ONCE):
            part = slice(k, k + _ENTRIES_AT_ONCE)
            found += cells.inside(paths, entries[part]).T.astype(np.float64) @ added[part]
        return found
    first, stop = cells.ranges(paths, entries)
    n = cells.n_present
    for output in range(added.shape[1]):
        own = added[:, output]
        ups = np.bincount(first, weights=own, minlength=n + 2)
        downs = np.bincount(stop, weights=own, minlength=n + 2)
        found[:n, output] = np.cumsum(ups - downs)[:n]
    takes_missing = paths.boxes.missing[entries] == 1
    found[n] = added[takes_missing].sum(axis=0)
    return found


def outputs_of_ends(node: IntArray, forest: Forest) -> FloatArray:
    """Return 1 for the output of each end and 0 for the others: (n_ends, n_outputs)."""
    tree = np.searchsorted(forest.tree_start, node, side="right") - 1
    found = np.zeros((len(node), forest.n_outputs))
    found[np.arange(len(node)), tree % forest.n_outputs] = 1.0
    return found


def _values_of_ends(node: IntArray, forest: Forest) -> FloatArray:
    """Return the contribution of each end to each output."""
    if forest.vectors is not None:
        return np.asarray(forest.vectors[node])
    return outputs_of_ends(node, forest) * forest.value[node, None]


def _grouped(columns: IntArray, n_columns: int) -> list[IntArray]:
    """Return the positions of each column, ascending."""
    order = np.argsort(columns, kind="stable")
    edges = np.searchsorted(columns[order], np.arange(n_columns + 1))
    return [order[edges[j] : edges[j + 1]] for j in range(n_columns)]
