"""Curves of single rows (ICE), and accumulated local effects (ALE).

The trees that use the column score the rows again with other values of the column.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray
from hedgerow.data.binning.cut_sample import codes_of
from hedgerow.data.reading.columns import floats_of_column
from hedgerow.errors import DataError, ParameterError, brief
from hedgerow.inspection import background as bg
from hedgerow.inspection.background import Background, Columns, Grid, Kind, Rescorer
from hedgerow.inspection.effects import Effect, PartialDependence
from hedgerow.inspection.partial import N_POINTS, effect_of_grid, single_output
from hedgerow.model.model import Model
from hedgerow.notebook import Viewed

if TYPE_CHECKING:
    from hedgerow.inspection.views import Inspections

MOST_BYTES = 1 << 31
"""Limit on the bytes of curves."""


@dataclass(frozen=True, eq=False, repr=False)
class IndividualCurves(Viewed):
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

    def _facts(self) -> dict[str, object]:
        rows, n = self.values.shape[:2]
        return {"column": self.effect.name, "kind": self.kind, "rows": f"{rows:,}", "values": n}

    def centred(self, place: int = 0) -> IndividualCurves:
        """Return the curves minus their value at a position (Goldstein et al. 2015)."""
        return replace(self, values=self.values - self.values[:, place : place + 1])


def individual_curves(
    model: Model | Inspections,
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
        The column whose values are replaced, by name or position.
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
    inspected = bg.inspected(model)
    places = bg.positions_of(column, inspected.model)
    if column is None or len(places) != 1:
        raise ParameterError(f"column must name one column; got {brief(column)}.")
    place = places[0]
    bg.check_points(n_points)
    background = bg.read_background(inspected.model, X, kind, sample_weight, offset, n_jobs)
    grid = bg.grid_of(background, place, n_points)
    size = 8 * background.n_rows * len(grid.encoded) * inspected.model.forest.n_outputs
    if size > MOST_BYTES:
        raise DataError(
            f"curves of {background.n_rows:,} rows at {len(grid.encoded)} values would take "
            f"{size / 1e9:.1f} GB, more than {MOST_BYTES / 1e9:.1f} GB: pass fewer rows."
        )
    scores = Rescorer(background, place).grid_scores(grid.encoded)
    curves = np.concatenate([background.curves(raw) for raw in scores])
    effect = effect_of_grid(background, place, grid, background.mean(curves))
    effect = replace(effect, output_names=inspected.names_of(background.kind))
    values = single_output(curves[: len(grid.positions)].swapaxes(0, 1))
    own = background.values[:, place]
    if grid.column.kind == "category":
        levels = np.array([*grid.column.levels, None, None], dtype=object)
        own = levels[codes_of(own, len(grid.column.levels))]
    else:
        own = floats_of_column(own, grid.column.kind).astype(np.float64)
    return IndividualCurves(effect, values, own, background.kind)


def accumulated_effects(
    model: Model | Inspections,
    X: Any,
    columns: Columns = None,
    *,
    kind: Kind = "raw",
    sample_weight: Any = None,
    offset: Any = None,
    n_points: int = 40,
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
    own = bg.inspected(model)
    schema, chosen = own.model.schema, bg.positions_of(columns, own.model)
    bg.check_points(n_points)
    kinds = schema.kinds
    if columns is None:
        chosen = [column for column in chosen if kinds[column] != "category"]
    for column in chosen:
        if kinds[column] == "category":
            raise ParameterError(
                f"column {schema.names[column]!r} holds categories, which have no order: "
                "use partial_dependence."
            )
    background = bg.read_background(own.model, X, kind, sample_weight, offset, n_jobs)
    effects = [_accumulated(background, column, n_points) for column in chosen]
    names = own.names_of(background.kind)
    mean = np.squeeze(np.zeros(effects[0].n_outputs if effects else 1))
    return PartialDependence(tuple(effects), background.kind, mean, names, is_accumulated=True)


def _accumulated(background: Background, column: int, n_points: int) -> Effect:
    """Return the accumulated effect of one column of numbers."""
    described, own = background.schema.columns[column], background.values[:, column]
    numbers, quantiles = floats_of_column(own, described.kind), bg.quantiles_of(own, described.kind)
    edges = bg.evenly(quantiles, n_points) if len(quantiles) else np.zeros(1)
    n_steps = max(1, len(edges) - 1)
    step = np.clip(np.searchsorted(edges, numbers, side="left"), 1, n_steps)
    rescorer = Rescorer(background, column)
    lower, upper = (
        background.predicted(rescorer.scores(bg.held_as(ends, own.dtype, described.kind)))
        for ends in (edges[step - 1], edges[np.minimum(step, len(edges) - 1)])
    )
    present = np.isfinite(numbers)
    weight = np.where(present, 1.0 if background.weight is None else background.weight, 0.0)
    mass = np.bincount(step - 1, weights=weight, minlength=n_steps)
    change = np.where(present[:, None], upper - lower, 0.0)
    sums = np.stack(
        [np.bincount(step - 1, weights=weight * c, minlength=n_steps) for c in change.T], axis=1
    )
    local = np.divide(sums, mass[:, None], out=np.zeros_like(sums), where=mass[:, None] > 0.0)
    curve = np.concatenate((np.zeros((1, local.shape[1])), np.cumsum(local, axis=0)))[: len(edges)]
    if mass.any():
        middle = (curve[:-1] + curve[1:]) / 2 if len(edges) > 1 else curve
        curve = curve - (mass @ middle) / mass.sum()
    grid = Grid(described, edges, np.append(edges, np.nan), quantiles, False)
    effect = effect_of_grid(background, column, grid, np.append(curve, np.nan * curve[:1], axis=0))
    rows = np.append(0.0, mass)[: len(edges)]
    return replace(effect, rows=rows, missing_rows=0.0)
