"""Grids: values of a column at which a model is evaluated if its effect is not a step function."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hedgerow.arrays import MISSING_KEY, AnyArray, FloatArray, distinct
from hedgerow.inspection.background import Background
from hedgerow.inspection.cells import ColumnCells, cells_of_column, quantiles_of
from hedgerow.inspection.rescoring import inputs_of_column
from hedgerow.kernels.tables.keys import keys_of_floats
from hedgerow.model.cells import Cells


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """Values of one column.

    Attributes
    ----------
    cells : ColumnCells
        Cells of the user's column, if trees split it directly.
    positions : float64 or int64 (n,)
        Numbers; for categories, the codes of the evaluated levels.
    encoded : float64 or int64
        The positions, a missing value, and an unknown value if unknown values have a cell, in
        the form of the background's table.
    is_exact : bool
        Whether the positions contain a number of each cell.
    """

    cells: ColumnCells
    positions: AnyArray
    encoded: AnyArray
    is_exact: bool


def grid_of(background: Background, column: int, n_points: int) -> Grid:
    """Return the values at which a column is evaluated.

    Parameters
    ----------
    column : int
        Position in the user's table.
    n_points : int
        Maximum number of numbers or categories; categories with the most rows are kept.
    """
    cells = user_cells(background, column)
    if cells.is_category:
        places = np.arange(cells.n_present)
        if len(places) > n_points:
            rows = cells.rows(background.values[:, column], background.weight)
            most = np.argsort(-rows[: cells.n_present], kind="stable")[:n_points]
            places = np.sort(most)
        exact = len(places) == cells.n_present
        return Grid(cells, places, _encoded(background, cells, places), exact)
    steps = background.model.forest.slopes is None and _splits_alone(background, column)
    if steps and cells.n_present <= n_points:
        cuts = cells.positions
        return Grid(cells, cuts, _encoded(background, cells, cuts), True)
    quantiles = quantiles_of(background.values[:, column], cells.column)
    numbers = np.concatenate((quantiles, _some_cuts(cells, quantiles)))
    missing_up_to = background.schema.zero_missing_up_to
    if missing_up_to is not None:
        numbers = numbers[np.abs(numbers) > missing_up_to]
    if len(numbers) == 0:
        numbers = np.ones(1)
    positions: AnyArray = _thinned(distinct(numbers), quantiles, n_points)
    if cells.column.kind == "int":
        positions = distinct(positions.astype(np.int64))
    return Grid(cells, positions, _encoded(background, cells, positions), False)


def _some_cuts(cells: ColumnCells, quantiles: FloatArray) -> FloatArray:
    """Return cuts within the range of the background; frequent values give few quantiles."""
    cuts = cells.positions[:-1].astype(np.float64)
    if len(quantiles) > 0:
        cuts = cuts[(cuts > quantiles[0]) & (cuts < quantiles[-1])]
    return cuts


def _thinned(positions: FloatArray, quantiles: FloatArray, n_points: int) -> FloatArray:
    """Return at most ``n_points`` of the positions: half of them by rows, half by cuts."""
    if len(positions) <= n_points:
        return positions

    def some(numbers: FloatArray, n: int) -> FloatArray:
        return numbers[np.linspace(0, len(numbers) - 1, n).round().astype(np.int64)]

    half = n_points // 2
    by_rows = distinct(some(quantiles, n_points - half)) if len(quantiles) else quantiles
    others = positions[~np.isin(positions, by_rows)]
    return distinct(np.append(by_rows, some(others, min(len(others), n_points - len(by_rows)))))


def _splits_alone(background: Background, column: int) -> bool:
    inputs = background.model.inputs
    return inputs is None or len(inputs_of_column(background.model, column)) <= 1


def user_cells(background: Background, column: int) -> ColumnCells:
    """Return the cells of a column of the user's table."""
    model = background.model
    schema, described = model.schema, model.schema.columns[column]
    if model.inputs is None:
        return cells_of_column(Cells(model.forest, schema), column)
    backs_off = schema.unknown == "backoff"
    no_cuts, no_bins = np.zeros(0, dtype=np.int64), np.zeros(0, np.uint8)
    if described.kind == "category":
        # For a statistic, every level is a separate cell.
        bins = np.zeros(len(described.levels), dtype=np.uint8)
        return ColumnCells(described, no_cuts, bins, backs_off)
    if column not in model.inputs.kept:
        return ColumnCells(described, no_cuts, no_bins, False)
    own = model.inputs.kept.index(column)
    return cells_of_column(Cells(model.forest, model.split_schema), own)


def _encoded(background: Background, cells: ColumnCells, positions: AnyArray) -> AnyArray:
    """Return numbers or codes in the form of the background's table; see :class:`Grid`."""
    others: list[float] = [np.nan]
    if cells.n_cells > cells.n_present + 1:
        others.append(float(cells.n_present))
    if cells.column.kind == "int":
        return np.append(positions, np.int64(MISSING_KEY))
    floats: FloatArray = np.concatenate((positions.astype(np.float64), others))
    return keys_of_floats(floats) if background.values.dtype == np.int64 else floats
