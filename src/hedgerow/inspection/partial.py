"""Partial dependence: the mean prediction as a function of one column.

Friedman (2001), section 8.2: the mean prediction over the rows of a background, with a column set
to a value.  The trees that use the column score the background again for each value of a grid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.data.categories.levels import Level
from hedgerow.errors import ParameterError, brief
from hedgerow.inspection import background as bg
from hedgerow.inspection.background import Background, Columns, Grid, Kind, Rescorer
from hedgerow.inspection.effects import Effect, PartialDependence
from hedgerow.model.model import Model
from hedgerow.params import Interval

if TYPE_CHECKING:
    from hedgerow.inspection.methods import Inspections

N_POINTS = 100
"""Number of values of a column to evaluate."""

MAX_ROWS = 1000
"""Number of rows over which a prediction is averaged."""

_N_POINTS = Interval(2, 1_000_000, integer=True)


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
    if n_points not in _N_POINTS:
        raise ParameterError(f"n_points must be {_N_POINTS}; got {brief(n_points)}.")
    background = bg.read_background(own.model, X, kind, sample_weight, offset, n_jobs)
    some = background.sample(max_rows, random_state)
    effects = []
    for column in chosen:
        grid = bg.grid_of(background, column, n_points)
        curve = some.means(Rescorer(some, column).grid_scores(grid.encoded))
        effects.append(effect_of_grid(background, column, grid, curve))
    mean, names = np.squeeze(some.means([some.raw])), own.names_of(background.kind)
    return PartialDependence(tuple(effects), background.kind, mean, names)


def effect_of_grid(background: Background, column: int, grid: Grid, curve: FloatArray) -> Effect:
    """Return an effect from its values on a grid, with missing and unknown values last."""
    described, n = grid.column, len(grid.positions)
    place = grid.place_of(background.values[:, column])
    rows = np.bincount(place, weights=background.weight, minlength=n + 2).astype(np.float64)
    knows_unknown = len(grid.encoded) > n + 1
    curve, positions = curve[:, 0] if curve.shape[1] == 1 else curve, grid.positions
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
