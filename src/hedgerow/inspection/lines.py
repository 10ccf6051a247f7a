"""Effects of linear leaves: at the points of grids, from one pass over a background.

Between two points the effect is unknown, because the bounds of a leaf's line are at different
values for each row.  At the points it is exact, as if every row had been predicted.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hedgerow.arrays import FloatArray, IntArray, distinct
from hedgerow.data.reading.numbers import floats_of
from hedgerow.inspection.background import Background
from hedgerow.inspection.cells import cells_of_column
from hedgerow.inspection.exact import outputs_of_ends, steps_of_entries
from hedgerow.inspection.grids import Grid
from hedgerow.inspection.paths import ROWS_AT_ONCE, find_paths, keys_of_rows, questions_of_trees
from hedgerow.kernels.dependence.path_lines import LineEnds, LineRows, sum_lines
from hedgerow.kernels.dependence.paths import WORDS, n_masks, state_words
from hedgerow.kernels.prediction.slopes import Slopes, writable_slopes
from hedgerow.model.cells import Cells
from hedgerow.model.model import Model
from hedgerow.model.other_forests import without_vectors
from hedgerow.threads import run_blocks

_CURVE_BYTES = 1 << 27
"""Limit on the curves of single trees in memory."""


class LineEffects:
    """Mean raw scores of a model with linear leaves, as functions of its inputs.

    Parameters
    ----------
    model : Model
    background : Background
    grids : mapping from int to Grid
        For each input, the values at which its effect is evaluated.
    """

    def __init__(self, model: Model, background: Background, grids: Mapping[int, Grid]) -> None:
        forest, schema = without_vectors(model.forest), model.split_schema
        assert forest.slopes is not None
        self._cells = Cells(forest, schema)
        self.paths = paths = find_paths(forest, backs_off=schema.unknown == "backoff")
        self._grids = {j: grid for j, grid in grids.items() if schema.kinds[j] != "category"}
        self._slopes = writable_slopes(forest.slopes)
        self._values = np.array(forest.value)
        self._ends = self._find_ends(forest.n_features)
        mass = background.mass
        sums, curves = self._sum(background)
        self._first = paths.boxes.start[:-1] + np.arange(paths.n_ends)
        self._sums, self._curves = sums / mass, curves / mass
        self._outputs = outputs_of_ends(paths.boxes.node, forest)
        self._at_end = self._sums[self._first, None] * self._outputs
        base = forest.base_score
        if background.offset is not None:
            base = base + background.mean(background.offset.T)
        self.mean: FloatArray = base + self._at_end.sum(axis=0)

    def _find_ends(self, n_features: int) -> LineEnds:
        """Return the points of the grids that lie in each box."""
        boxes = self.paths.boxes
        first = np.zeros(len(boxes.column), dtype=np.int64)
        stop = np.zeros(len(boxes.column), dtype=np.int64)
        sizes, points = np.zeros(n_features + 1, dtype=np.int64), []
        for column in range(n_features):
            grid = self._grids.get(column)
            if grid is None:
                continue
            numbers = np.append(grid.positions.astype(np.float64), np.nan)
            sizes[column + 1] = len(numbers)
            points.append(numbers)
            entries = np.flatnonzero(boxes.column == column)
            cells = cells_of_column(self._cells, column)
            of_points = cells.cell_of(grid.encoded[: len(grid.positions)])
            begin, end = cells.ranges(self.paths, entries)
            first[entries] = np.searchsorted(of_points, begin, side="left")
            stop[entries] = np.searchsorted(of_points, end, side="left")
        return LineEnds(
            node=boxes.node,
            entry_start=boxes.start,
            column=boxes.column,
            first=first,
            stop=np.maximum(first, stop),
            missing=boxes.missing,
            grid_start=np.cumsum(sizes),
            points=np.concatenate([*points, np.zeros(0)]),
        )

    def _sum(self, background: Background) -> tuple[FloatArray, FloatArray]:
        """Return sums of lines at all ends, and at all points, shape (n_points, n_outputs)."""
        paths, forest = self.paths, self.paths.forest
        n_points, n_outputs = len(self._ends.points), forest.n_outputs
        sums = np.zeros(len(paths.boxes.column) + paths.n_ends)
        curves = np.zeros((n_points, n_outputs))
        n_trees = forest.n_trees
        at_once = max(1, _CURVE_BYTES // (8 * max(1, n_points)))
        for start in range(0, len(background.values), ROWS_AT_ONCE):
            rows = self._rows(background, slice(start, start + ROWS_AT_ONCE))
            for tree in range(0, n_trees, at_once):
                trees = range(tree, min(tree + at_once, n_trees))
                own = np.zeros((len(trees), n_points))
                self._sum_trees(rows, trees, background.n_threads, sums, own)
                for output in range(n_outputs):
                    curves[:, output] += own[(output - tree) % n_outputs :: n_outputs].sum(axis=0)
        return sums, curves

    def _rows(self, background: Background, part: slice) -> LineRows:
        forest, values = self.paths.forest, background.inputs[part]
        used = distinct(self.paths.questions.column)
        weight = background.weight
        return LineRows(
            keys=keys_of_rows(forest, values, used, background.n_threads),
            numbers=floats_of(values, background.model.split_schema.kinds),
            weight=np.ones(len(values)) if weight is None else np.array(weight[part]),
        )

    def _sum_trees(
        self, rows: LineRows, trees: range, n_threads: int, sums: FloatArray, curves: FloatArray
    ) -> None:
        paths, visits = self.paths, self.paths.visits
        most_slots = int(visits.n_slots.max(initial=0))
        most_masks = int(n_masks(most_slots, False))
        state = state_words(most_slots, int(visits.depth.max(initial=0)), False)
        place = np.unique(paths.questions.column, return_inverse=True)[1].reshape(-1)
        questions = paths.questions._replace(column=place.astype(np.int64))
        lines: tuple[FloatArray, Slopes] = (self._values, self._slopes)

        def task(start: int, stop: int) -> None:
            span = trees.start + start, trees.start + stop
            requested, own, begin, end = questions_of_trees(paths, visits, *span)
            space = np.empty(len(requested) * WORDS + state, dtype=np.uint64)
            sum_lines(
                rows, questions, requested, own, begin, end, most_masks, lines, self._ends, space,
                sums, curves[start:stop],
            )  # fmt: skip

        run_blocks(task, len(trees), n_threads, 1 + 20_000 // max(1, len(rows.numbers)))

    def curve(self, column: int, grid: Grid) -> FloatArray:
        """Return the mean raw score at each value of a grid, shape (n_values, n_outputs)."""
        paths = self.paths
        cells = cells_of_column(self._cells, column)
        entries = np.flatnonzero(paths.boxes.column == column)
        ends = paths.end_of_entry[entries]
        with_term = self._ends_with_term(column)
        all_ends = distinct(np.append(ends, with_term))
        elsewhere = self.mean - self._at_end[all_ends].sum(axis=0)
        kept = ~np.isin(ends, with_term)
        entries, ends = entries[kept], ends[kept]
        slot = entries - paths.boxes.start[ends]
        added = self._sums[self._first[ends] + 1 + slot, None] * self._outputs[ends]
        steps = steps_of_entries(paths, cells, entries, added)
        values = elsewhere + steps[cells.cell_of(grid.encoded)]
        if column in self._grids:
            start, stop = self._ends.grid_start[column : column + 2]
            values = values + self._curves[start:stop]
        return values

    def _ends_with_term(self, column: int) -> IntArray:
        """Return the ends whose linear leaf has the column among its terms."""
        has = np.concatenate(([0], np.cumsum(self._slopes.column == column)))
        start = self._slopes.start
        counts = has[start[1:]] - has[start[:-1]]
        return np.flatnonzero(counts[self.paths.boxes.node] > 0)
