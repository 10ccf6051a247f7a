"""Curves of single rows (ICE), and accumulated local effects (ALE).

The trees that use the column score the rows again with other values of the column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray, distinct
from hedgerow.data.reading.numbers import floats_of
from hedgerow.errors import DataError, ParameterError, brief
from hedgerow.inspection.background import Background, Kind, check_kind, read_background
from hedgerow.inspection.cells import quantiles_of
from hedgerow.inspection.effects import Effect, PartialDependence
from hedgerow.inspection.grids import grid_of, user_cells
from hedgerow.inspection.partial import (
    N_POINTS,
    Columns,
    check_points,
    effect_of_grid,
    named_outputs,
    positions_of,
)
from hedgerow.inspection.rescoring import Rescorer
from hedgerow.kernels.tables.keys import keys_of_floats
from hedgerow.model.model import Model, check_model

MOST_BYTES = 1 << 31
"""Limit on the bytes of curves."""


@dataclass(frozen=True, eq=False)
class IndividualCurves:
    """The prediction for each row as a function of one column (ICE curves).

    Attributes
    ----------
    effect : Effect
        Mean of the curves.
    values : float64, shape (n_rows, n) or (n_rows, n, n_outputs)
        Predictions at the positions of the effect.
    own : float64 or object, shape (n_rows,)
        Value of the column in each row: NaN or None if missing.
    kind : str
    """

    effect: Effect
    values: FloatArray
    own: AnyArray
    kind: str

    def centred(self, place: int = 0) -> IndividualCurves:
        """Return the curves minus their value at a position (Goldstein et al. 2015)."""
        base = self.values[:, place : place + 1]
        return IndividualCurves(self.effect, self.values - base, self.own, self.kind)


def individual_curves(
    model: Model,
    X: Any,
    column: str | int,
    *,
    kind: Kind = "raw",
    sample_weight: Any = None,
    offset: Any = None,
    n_points: int = N_POINTS,
    n_jobs: int | None = None,
) -> IndividualCurves:
    """Return the prediction for each row as a function of one column.

    Goldstein, Kapelner, Bleich and Pitkin (2015).

    Parameters
    ----------
    X : array, data frame, sparse matrix or list of rows
        One curve for each row; a plot can show a few hundred.
    column : str or int
    n_points : int, default=100
        Maximum number of numbers or categories to evaluate.

    The other parameters are the same as for :func:`hedgerow.inspection.partial_dependence`.

    Returns
    -------
    IndividualCurves

    Raises
    ------
    ParameterError, DataError, DataTypeError
        As for partial dependence, or if the curves would take more than 2 GB.

    Examples
    --------
    >>> from hedgerow import Dataset, train
    >>> from hedgerow.inspection import individual_curves
    >>> params = {"n_estimators": 1, "learning_rate": 1.0, "min_samples_leaf": 1,
    ...           "reg_lambda": 0.0, "early_stopping": False}
    >>> X = [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
    >>> booster = train(params, Dataset(X, [0.0, 0.5, 1.0, 3.0]))
    >>> individual_curves(booster.model, X, "x0").values.round(6).tolist()
    [[0.0, 1.0], [0.5, 3.0], [0.0, 1.0], [0.5, 3.0]]
    """
    check_model(model)
    places = positions_of(column, model.schema)
    if column is None or len(places) != 1:
        raise ParameterError(f"column must name one column; got {brief(column)}.")
    place = places[0]
    kind = check_kind(kind, model)
    check_points(n_points)
    background = read_background(model, X, sample_weight, offset, n_jobs)
    grid = grid_of(background, place, n_points)
    size = 8 * background.n_rows * len(grid.encoded) * model.forest.n_outputs
    if size > MOST_BYTES:
        raise DataError(
            f"curves of {background.n_rows:,} rows at {len(grid.encoded)} values would take "
            f"{size / 1e9:.1f} GB, more than {MOST_BYTES / 1e9:.1f} GB: pass fewer rows."
        )
    scores = Rescorer(background, place).grid_scores(grid.encoded)
    curves = np.stack([background.predicted(raw, kind) for raw in scores], axis=1)
    mean = background.mean(curves)
    values = curves[:, : len(grid.positions)]
    if values.shape[-1] == 1:
        values, mean = values[..., 0], mean[..., 0]
    effect = effect_of_grid(background, place, grid, mean)
    return IndividualCurves(effect, values, own_values(background, place), kind)


def own_values(background: Background, column: int) -> AnyArray:
    """Return the values of a column as in the user's table: numbers or levels."""
    cells = user_cells(background, column)
    values = background.values[:, column]
    if not cells.is_category:
        return floats_of(values[:, None], [cells.column.kind])[:, 0]
    codes = cells.cell_of(values)
    names = np.array([*cells.column.levels, None, None], dtype=object)
    return names[codes]


def accumulated_effects(
    model: Model,
    X: Any,
    columns: Columns = None,
    *,
    kind: Kind = "raw",
    sample_weight: Any = None,
    offset: Any = None,
    n_points: int = 40,
    output_names: Sequence[str] = (),
    n_jobs: int | None = None,
) -> PartialDependence:
    """Compute accumulated local effects of numeric columns (ALE).

    Apley and Zhu (2020): the effect is the sum, from left to right, of the mean changes of the
    prediction between neighbouring quantiles of the column.  Each mean is taken over the rows
    between the two quantiles.  Unlike partial dependence, ALE never evaluates combinations
    that do not occur in the data, so it is reliable for dependent columns.  The mean over the
    rows is 0, where a row counts as the middle of its step.

    Parameters
    ----------
    columns : names or positions, or one of them, optional
        Default: all numeric columns.
    n_points : int, default=40
        Maximum number of quantiles.

    The other parameters are the same as for :func:`hedgerow.inspection.partial_dependence`.

    Returns
    -------
    PartialDependence
        Effects at points; effects of missing values are NaN.

    Raises
    ------
    ParameterError
        As for partial dependence, or if a column holds categories, which have no order.

    Examples
    --------
    >>> from hedgerow import Dataset, train
    >>> from hedgerow.inspection import accumulated_effects
    >>> params = {"n_estimators": 1, "learning_rate": 1.0, "min_samples_leaf": 1,
    ...           "reg_lambda": 0.0, "early_stopping": False}
    >>> X = [[0.0], [1.0], [2.0]]
    >>> booster = train(params, Dataset(X, [0.0, 1.0, 2.0]))
    >>> accumulated_effects(booster.model, X)["x0"].values.round(6).tolist()
    [-0.833333, 0.166667, 1.166667]
    """
    kind = check_kind(kind, model)
    check_model(model)
    check_points(n_points)
    kinds = model.schema.kinds
    if columns is None:
        chosen = [j for j, own in enumerate(kinds) if own != "category"]
    else:
        chosen = positions_of(columns, model.schema)
    for column in chosen:
        if kinds[column] == "category":
            raise ParameterError(
                f"column {model.schema.names[column]!r} holds categories, which have no order: "
                "use partial_dependence."
            )
    background = read_background(model, X, sample_weight, offset, n_jobs)
    effects = [_accumulated(background, column, kind, n_points) for column in chosen]
    n_outputs = effects[0].n_outputs if effects else 1
    return PartialDependence(
        tuple(effects), kind, np.squeeze(np.zeros(n_outputs)),
        named_outputs(output_names, n_outputs), is_accumulated=True,
    )  # fmt: skip


def _accumulated(background: Background, column: int, kind: Kind, n_points: int) -> Effect:
    described = background.schema.columns[column]
    own = background.values[:, column]
    numbers = floats_of(own[:, None], [described.kind])[:, 0]
    quantiles = quantiles_of(own, described)
    positions = np.linspace(0, max(0, len(quantiles) - 1), n_points).round().astype(np.int64)
    edges = distinct(quantiles[positions]) if len(quantiles) else np.zeros(1)
    rows = np.isfinite(numbers)
    weight = np.where(rows, 1.0 if background.weight is None else background.weight, 0.0)
    step = np.clip(np.searchsorted(edges, numbers, side="left"), 1, max(1, len(edges) - 1))
    low, high = edges[step - 1], edges[np.minimum(step, len(edges) - 1)]
    rescorer = Rescorer(background, column)
    upper, lower = (
        background.predicted(rescorer.scores(_as_held(ends, background, described.kind)), kind)
        for ends in (high, low)
    )
    change = np.where(rows[:, None], upper - lower, 0.0)
    n_steps = max(1, len(edges) - 1)
    mass = np.bincount(step - 1, weights=weight, minlength=n_steps)
    sums = np.stack(
        [np.bincount(step - 1, weights=weight * c, minlength=n_steps) for c in change.T], axis=1
    )
    local = np.divide(sums, mass[:, None], out=np.zeros_like(sums), where=mass[:, None] > 0.0)
    curve = np.concatenate((np.zeros((1, local.shape[1])), np.cumsum(local, axis=0)))[: len(edges)]
    middle = (curve[:-1] + curve[1:]) / 2 if len(edges) > 1 else curve
    curve = curve - (mass @ middle) / mass.sum() if mass.sum() > 0.0 else curve
    counted = np.concatenate(([0.0], mass))[: len(edges)]
    values = curve[:, 0] if curve.shape[1] == 1 else curve
    return Effect(
        name=described.name,
        kind=described.kind,
        positions=edges,
        levels=(),
        values=values,
        missing=np.full(values.shape[1:], np.nan),
        unknown=None,
        rows=counted,
        missing_rows=0.0,
        unknown_rows=0.0,
        quantiles=quantiles,
        is_exact=False,
        temporal=described.temporal,
        zero_missing_up_to=background.schema.zero_missing_up_to,
    )


def _as_held(numbers: FloatArray, background: Background, kind: str) -> AnyArray:
    """Return numbers in the form in which the background's table holds the column."""
    if background.values.dtype != np.int64:
        return numbers
    return numbers.astype(np.int64) if kind == "int" else keys_of_floats(numbers)
