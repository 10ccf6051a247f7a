"""Partial dependence: the mean prediction as a function of one or two columns; curves of rows.

Friedman (2001), section 8.2: the mean prediction over the rows of a background, with a column set
to a value.  The trees that use the column score the background again for each value of a grid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray
from hedgerow.data.binning.cut_sample import codes_of
from hedgerow.data.categories.levels import Level
from hedgerow.data.reading.columns import floats_of_column
from hedgerow.errors import DataError, ParameterError, brief
from hedgerow.inspection import background as bg
from hedgerow.inspection.background import Background, Columns, Grid, Kind, Rescorer
from hedgerow.inspection.effects import Effect, IndividualCurves, JointEffect, PartialDependence
from hedgerow.model.model import Model

if TYPE_CHECKING:
    from hedgerow.inspection.importance import Inspections

N_POINTS = 100
"""Number of values of a column to evaluate."""

MAX_ROWS = 1000
"""Number of rows over which a prediction is averaged."""

MOST_BYTES = 1 << 31
"""Limit on the bytes of curves."""


def partial_dependence(
    model: Model | Inspections,
    X: Any,
    columns: Columns = None,
    *,
    kind: Kind = "raw",
    sample_weight: Any = None,
    offset: Any = None,
    n_points: int = N_POINTS,
    max_rows: int | None = MAX_ROWS,
    random_state: int = 0,
    n_jobs: int | None = None,
) -> PartialDependence:
    """Compute the mean prediction as a function of each column.

    Parameters
    ----------
    model : Booster, fitted estimator or Model
        As a method: the object itself.
    X : array, data frame, sparse matrix or list of rows
        The background: rows over which the other columns are averaged.
    columns : names or positions, or one of them, optional
        Default: all.
    kind : {"raw", "value", "probability"}, default="raw"
        The averaged quantity.
    sample_weight : array-like of shape (n_rows,), optional
    offset : array-like, optional
        As for ``predict``.
    n_points : int, default=100
        Maximum number of values to evaluate.  If the constant leaves of a model divide a column
        into at most this many steps, the effect is exact for every value.
    max_rows : int or None, default=1000
        Maximum number of rows to average over.  Of a larger background, as many rows with a
        positive weight are drawn; the mean over 1,000 rows differs from that of all rows by
        about 3% of the standard deviation.  None takes all rows.
    random_state : int, default=0
        Seed of the drawn rows.
    n_jobs : int, optional
        Maximum number of threads; default: all available ones.

    Returns
    -------
    PartialDependence
        The numbers of rows and quantiles in it are those of the whole background.

    Raises
    ------
    ParameterError
        If a column or ``kind`` is unknown, or a number is out of range.
    DataError, DataTypeError
        If X does not fit the model.

    Examples
    --------
    >>> from hedgerow import Dataset, train
    >>> from hedgerow.inspection import partial_dependence
    >>> params = {"n_estimators": 1, "learning_rate": 1.0, "min_samples_leaf": 1,
    ...           "reg_lambda": 0.0, "early_stopping": False}
    >>> X = [[1.0, 0.0], [2.0, 1.0], [4.0, 0.0]]
    >>> booster = train(params, Dataset(X, [0.0, 0.0, 3.0]))
    >>> effect = partial_dependence(booster.model, X)["x0"]
    >>> effect.positions.tolist(), effect.values.round(6).tolist()
    ([3.0, inf], [0.0, 3.0])
    >>> effect.at([0.0, 3.5]).round(6).tolist()
    [0.0, 3.0]
    """
    own = bg.inspected(model)
    chosen = bg.positions_of(columns, own.model)
    bg.check_points(n_points)
    background = bg.read_background(own.model, X, kind, sample_weight, offset, n_jobs)
    some = background.sample(max_rows, random_state)
    mean = some.means([some.raw])[0]
    effects = [_effect_alone(background, some, column, n_points)[1] for column in chosen]
    names = own.names_of(background.kind)
    return PartialDependence(tuple(effects), background.kind, np.squeeze(mean), names)


def joint_dependence(
    model: Model | Inspections,
    X: Any,
    columns: Sequence[str | int],
    *,
    kind: Kind = "raw",
    sample_weight: Any = None,
    offset: Any = None,
    n_points: int = 20,
    max_rows: int | None = MAX_ROWS,
    random_state: int = 0,
    n_jobs: int | None = None,
) -> JointEffect:
    """Compute the mean prediction as a function of two columns.

    Parameters
    ----------
    columns : two names or positions
        The columns whose values are replaced.
    n_points : int, default=20
        Maximum number of values of each column to evaluate.

    The other parameters and errors are the same as for :func:`partial_dependence`.

    Returns
    -------
    JointEffect

    Examples
    --------
    >>> from hedgerow import Dataset, train
    >>> from hedgerow.inspection import joint_dependence
    >>> params = {"n_estimators": 1, "learning_rate": 1.0, "min_samples_leaf": 1,
    ...           "reg_lambda": 0.0, "early_stopping": False}
    >>> X = [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
    >>> booster = train(params, Dataset(X, [0.0, 0.5, 1.0, 3.0]))
    >>> joint_dependence(booster.model, X, ["x0", "x1"]).present.round(6).tolist()
    [[0.0, 0.5], [1.0, 3.0]]
    """
    own = bg.inspected(model)
    chosen = bg.positions_of(columns, own.model)
    bg.check_points(n_points)
    if len(set(chosen)) != 2 or len(chosen) != 2:
        raise ParameterError(f"columns must be two different columns; got {brief(columns)}.")
    background = bg.read_background(own.model, X, kind, sample_weight, offset, n_jobs)
    some = background.sample(max_rows, random_state)
    (one, first), (two, second) = (
        _effect_alone(background, some, column, n_points) for column in chosen
    )
    places = [g.place_of(background.values[:, k]) for k, g in zip(chosen, (one, two), strict=True)]
    shape = len(one.encoded), len(two.encoded)
    pairs = np.repeat(one.encoded, shape[1]), np.tile(two.encoded, shape[0])
    means = some.means(Rescorer(some, *chosen).grid_scores(*pairs))
    rows = np.zeros((shape[0] + 1, shape[1] + 1))  # the last are levels that are not evaluated
    np.add.at(rows, tuple(places), 1.0 if background.weight is None else background.weight)
    values = single_output(means.reshape(*shape, -1))
    first = replace(first, output_names=own.names_of(background.kind))
    return JointEffect(first, second, values, rows[:-1, :-1], background.kind)


def _effect_alone(
    background: Background, some: Background, column: int, n_points: int
) -> tuple[Grid, Effect]:
    """Return the effect of one column over some of the rows, and the grid that it is known on."""
    grid = bg.grid_of(background, column, n_points)
    curve = some.means(Rescorer(some, column).grid_scores(grid.encoded))
    return grid, effect_of_grid(background, column, grid, curve)


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
    own = bg.inspected(model)
    places = bg.positions_of(column, own.model)
    if column is None or len(places) != 1:
        raise ParameterError(f"column must name one column; got {brief(column)}.")
    place = places[0]
    bg.check_points(n_points)
    background = bg.read_background(own.model, X, kind, sample_weight, offset, n_jobs)
    grid = bg.grid_of(background, place, n_points)
    size = 8 * background.n_rows * len(grid.encoded) * own.model.forest.n_outputs
    if size > MOST_BYTES:
        raise DataError(
            f"curves of {background.n_rows:,} rows at {len(grid.encoded)} values would take "
            f"{size / 1e9:.1f} GB, more than {MOST_BYTES / 1e9:.1f} GB: pass fewer rows."
        )
    scores = Rescorer(background, place).grid_scores(grid.encoded)
    curves = np.concatenate([background.curves(raw) for raw in scores])
    effect = effect_of_grid(background, place, grid, background.mean(curves))
    effect = replace(effect, output_names=own.names_of(background.kind))
    values = single_output(curves[: len(grid.positions)].swapaxes(0, 1))
    column_of_rows: AnyArray = background.values[:, place]
    if grid.column.kind == "category":
        levels = np.array([*grid.column.levels, None, None], dtype=object)
        column_of_rows = levels[codes_of(column_of_rows, len(grid.column.levels))]
    else:
        column_of_rows = floats_of_column(column_of_rows, grid.column.kind).astype(np.float64)
    return IndividualCurves(effect, values, column_of_rows, background.kind)


def single_output(values: FloatArray) -> FloatArray:
    """Drop the axis of a single output."""
    return values[..., 0] if values.shape[-1] == 1 else values


def effect_of_grid(background: Background, column: int, grid: Grid, curve: FloatArray) -> Effect:
    """Return an effect from its values on a grid, with missing and unknown values last."""
    described, n = grid.column, len(grid.positions)
    place = grid.place_of(background.values[:, column])
    rows = np.bincount(place, weights=background.weight, minlength=n + 2).astype(np.float64)
    knows_unknown = len(grid.encoded) > n + 1
    curve, positions = single_output(curve), grid.positions
    levels: tuple[Level, ...] = ()
    left_out: tuple[Level, ...] = ()
    if described.kind == "category":
        positions = np.arange(n)
        kept = set(grid.positions.tolist())
        levels = tuple(level for k, level in enumerate(described.levels) if k in kept)
        left_out = tuple(level for k, level in enumerate(described.levels) if k not in kept)
    return Effect(
        described.name, described.kind, positions, levels,
        values=curve[:n], missing=np.asarray(curve[n]),
        unknown=np.asarray(curve[n + 1]) if knows_unknown else None,
        rows=rows[:n], missing_rows=float(rows[n]),
        unknown_rows=float(rows[n + 1]) if knows_unknown else 0.0,
        quantiles=grid.quantiles, is_exact=grid.is_exact, temporal=described.temporal,
        zero_missing_up_to=background.schema.zero_missing_up_to, rounding=described.rounding,
        left_out=left_out,
    )  # fmt: skip
