"""Grids: the values of a column at which a model is evaluated."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hedgerow.arrays import MISSING_KEY, AnyArray, FloatArray, IntArray, distinct
from hedgerow.data.binning.cut_sample import codes_of
from hedgerow.data.reading.numbers import floats_of_column
from hedgerow.data.schema import Column
from hedgerow.inspection.background import Background
from hedgerow.inspection.rescoring import is_plain
from hedgerow.kernels.tables.keys import floats_of_keys, keys_of_floats

N_QUANTILES = 101


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """Values of one column.

    Attributes
    ----------
    column : Column
    positions : float64 or int64 (n,)
        Numbers; for categories, the codes of the evaluated levels.
    encoded : float64 or int64
        The positions, a missing value, and an unknown category unless it counts as missing, in
        the form of the background's table.
    quantiles : float64 (101,)
        Of the finite numbers of the background; empty for categories and without such numbers.
    is_exact : bool
        Whether every value has the prediction of a position: the last number of its step.
    """

    column: Column
    positions: AnyArray
    encoded: AnyArray
    quantiles: FloatArray
    is_exact: bool

    def place_of(self, values: AnyArray) -> IntArray:
        """Return where in ``encoded`` the values of a table belong; levels left out: at its end."""
        n = len(self.positions)
        if self.column.kind == "category":
            n_levels = len(self.column.levels)
            place = np.full(n_levels + 2, len(self.encoded))
            place[self.positions] = np.arange(n)
            place[n_levels:] = len(self.encoded) - 1, n  # unknown, missing
            return place[codes_of(values, n_levels)]
        if values.dtype == np.int64 and self.column.kind == "int":
            numbers, missing = values, values == MISSING_KEY
        else:
            numbers = floats_of_column(values, self.column.kind)
            missing = np.isnan(numbers)
        return np.where(missing, n, np.searchsorted(self.positions[:-1], numbers, side="left"))


def grid_of(background: Background, column: int, n_points: int) -> Grid:
    """Return at most ``n_points`` values of a column of the user's table."""
    model, values = background.model, background.values[:, column]
    described = model.schema.columns[column]
    if described.kind == "category":
        n_levels = len(described.levels)
        codes = codes_of(values, n_levels)
        rows = np.bincount(codes, weights=background.weight, minlength=n_levels)[:n_levels]
        most = np.sort(np.argsort(-rows, kind="stable")[:n_points])
        others = [np.nan, n_levels] if model.schema.unknown in ("backoff", "split") else [np.nan]
        encoded = held_as(np.append(most, others), values.dtype, "category")
        return Grid(described, most, encoded, np.zeros(0), len(most) == n_levels)
    cuts = _cuts_of(background, column)
    quantiles = quantiles_of(values, described.kind)
    exact = len(cuts) < n_points and model.forest.slopes is None and is_plain(model, column)
    if exact:
        last = np.iinfo(np.int64).max if described.kind == "int" else np.inf
        positions = np.append(cuts, last)
    else:
        positions = _points(cuts.astype(np.float64), quantiles, background, n_points)
        if described.kind == "int":
            positions = distinct(positions.astype(np.int64))
    held = held_as(positions, values.dtype, described.kind)
    missing = MISSING_KEY if values.dtype == np.int64 else np.nan
    return Grid(described, positions, np.append(held, missing), quantiles, exact)


def _cuts_of(background: Background, column: int) -> AnyArray:
    """Return the largest number of each cell of a column except the last."""
    inputs, cells = background.model.inputs, background.cells
    if inputs is not None and column not in inputs.kept:
        return np.zeros(0)
    place = column if inputs is None else inputs.kept.index(column)
    keys = cells.ordered(place)[:-1]
    return keys if cells.schema.kinds[place] == "int" else floats_of_keys(keys)


def _points(
    cuts: FloatArray, quantiles: FloatArray, background: Background, n_points: int
) -> FloatArray:
    """Return points for a curve without steps: half of them by rows, half by cuts."""
    if len(quantiles) > 0:
        cuts = cuts[(cuts > quantiles[0]) & (cuts < quantiles[-1])]
    missing_up_to = background.schema.zero_missing_up_to
    if missing_up_to is not None:
        quantiles = quantiles[np.abs(quantiles) > missing_up_to]
        cuts = cuts[np.abs(cuts) > missing_up_to]
    every = distinct(np.concatenate((quantiles, cuts)))
    if len(every) <= n_points:
        return every if len(every) > 0 else np.ones(1)
    by_rows = _some(quantiles, n_points - n_points // 2)
    others = every[~np.isin(every, by_rows)]
    return distinct(np.append(by_rows, _some(others, n_points - len(by_rows))))


def _some(numbers: FloatArray, n: int) -> FloatArray:
    """Return at most ``n`` of some numbers, evenly spaced by rank."""
    n = min(n, len(numbers))
    return distinct(numbers[np.linspace(0, len(numbers) - 1, n).round().astype(np.int64)])


def quantiles_of(values: AnyArray, kind: str) -> FloatArray:
    """Return 101 quantiles of the finite numbers of a column, or none."""
    numbers = floats_of_column(values, "int" if kind == "int" else "float")
    finite = np.sort(numbers[np.isfinite(numbers)]).astype(np.float64)
    n = N_QUANTILES if len(finite) > 0 else 0
    return finite[np.linspace(0, len(finite) - 1, n).round().astype(np.int64)]


def held_as(numbers: AnyArray, dtype: np.dtype, kind: str) -> AnyArray:
    """Return numbers or codes in the form in which a table of a type holds a column."""
    if dtype == np.int64 and kind == "int":
        return numbers.astype(np.int64)
    floats = numbers.astype(np.float64)
    return keys_of_floats(floats) if dtype == np.int64 else floats
