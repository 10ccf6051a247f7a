"""Partial dependence: the mean prediction as a function of one or two columns; interactions.

Friedman (2001), section 8.2: the mean prediction over the rows of a background, with a column set
to a value.  The trees that use the column score the background again for each value of a grid.

Friedman and Popescu (2008), section 8.1: with centred partial dependences ``F`` of columns ``j``
and ``k``, at the values of some rows and as means over these rows::

    H(j, k)^2 = mean (F_jk - F_j - F_k)^2  /  mean F_jk^2
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.data.categories.levels import Level
from hedgerow.errors import ParameterError, brief
from hedgerow.inspection import background as bg
from hedgerow.inspection.background import Background, Columns, Grid, Inspected, Kind, Rescorer
from hedgerow.inspection.effects import Effect, Interactions, JointEffect, PartialDependence
from hedgerow.model.forest import UNKNOWN_BIN, Forest
from hedgerow.model.model import Model

if TYPE_CHECKING:
    from hedgerow.inspection.views import Inspections

N_POINTS = 100
"""Number of values of a column to evaluate."""

MAX_ROWS = 1000
"""Number of rows over which a prediction is averaged."""

MAX_PAIR_ROWS = 200
"""Rows over which and at which joint effects are evaluated: the work grows quadratically."""

_TREES_AT_ONCE = 64


def partial_dependence(
    model: Model | Inspections,
    X: Any = None,
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
    X : array, data frame, sparse matrix or list of rows, optional
        The background: rows over which the other columns are averaged.  Without X, the
        fractions of training rows that went left and right at each split are used
        (scikit-learn's ``method="recursion"``); only for raw scores of constant leaves.
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
        If a column or ``kind`` is unknown, a number is out of range, or X is required.
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
    if X is None:
        if sample_weight is not None or offset is not None:
            raise ParameterError("sample_weight and offset belong to rows of X: pass X as well.")
        return _expected_dependence(own, chosen, kind, n_points)
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


def interactions(
    model: Model | Inspections,
    X: Any,
    columns: Columns = None,
    *,
    kind: Kind = "raw",
    sample_weight: Any = None,
    offset: Any = None,
    max_rows: int | None = MAX_PAIR_ROWS,
    random_state: int = 0,
    n_jobs: int | None = None,
) -> Interactions:
    """Return Friedman's H of all pairs of columns.

    Parameters
    ----------
    columns : names or positions, optional
        All by default.
    max_rows : int or None, default=200
        Maximum number of rows, drawn from X if it has more; the work for each pair grows with
        their square.

    The other parameters and errors are the same as for
    :func:`hedgerow.inspection.partial_dependence`.

    Returns
    -------
    Interactions

    Examples
    --------
    >>> from hedgerow import Dataset, train
    >>> from hedgerow.inspection import interactions
    >>> params = {"n_estimators": 1, "learning_rate": 1.0, "min_samples_leaf": 1,
    ...           "reg_lambda": 0.0, "early_stopping": False}
    >>> X = [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
    >>> booster = train(params, Dataset(X, [0.0, 0.0, 0.0, 4.0]))
    >>> found = interactions(booster.model, X)
    >>> float(found.strength[0, 1]), float(found.h[0, 1].round(6))
    (1.0, 0.57735)
    """
    own = bg.inspected(model)
    model, chosen = own.model, bg.positions_of(columns, own.model)
    background = bg.read_background(model, X, kind, sample_weight, offset, n_jobs)
    background = background.sample(max_rows, random_state)
    values, forest = background.values, model.forest
    if values.dtype == np.float32:
        values = values.astype(np.float64)

    def dependence(*places: int) -> FloatArray:
        """Return the partial dependence at the values of each row."""
        scores = Rescorer(background, *places).grid_scores(*(values[:, j] for j in places))
        return background.means(scores)

    alone = [dependence(j) for j in chosen]
    asks = [bg.rounds_with(forest, bg.inputs_of_column(model, j)) for j in chosen]
    n, n_outputs = len(chosen), alone[0].shape[1]
    apart, both = np.zeros((n, n, n_outputs)), np.zeros((n, n, n_outputs))
    for a, b in combinations(range(n), 2):
        if background.kind == "raw" and not (asks[a] & asks[b]).any():
            continue  # no tree has both: a sum of the two effects
        joint = dependence(chosen[a], chosen[b])
        apart[a, b] = apart[b, a] = _variance(joint - alone[a] - alone[b], background.weight)
        both[a, b] = both[b, a] = _variance(joint, background.weight)
    ratio = np.divide(apart, both, out=np.zeros_like(apart), where=both > 0.0)
    h, strength = single_output(np.sqrt(ratio)), single_output(np.sqrt(apart))
    names = tuple(model.schema.names[j] for j in chosen)
    return Interactions(names, h, strength, background.n_rows, own.names_of(background.kind))


def _variance(values: FloatArray, weight: FloatArray | None) -> FloatArray:
    """Return the weighted variance of each column."""
    mean = np.average(values, axis=0, weights=weight)
    return np.asarray(np.average((values - mean) ** 2, axis=0, weights=weight))


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


def _expected_dependence(
    own: Inspected, chosen: Sequence[int], kind: object, n_points: int
) -> PartialDependence:
    """Return effects with the shares of training rows in place of a background."""
    model = own.model
    forest, checked = model.forest, bg.check_kind(kind, model)
    plain = all(bg.is_plain(model, column) for column in chosen)
    counted = forest.count.any() or forest.cover.any() or not (forest.feature >= 0).any()
    if checked != "raw" or forest.slopes is not None or not plain or not counted:
        raise ParameterError(
            "without X, only raw scores of constant leaves that store numbers of training rows, "
            "and columns without target statistics, are possible: pass X, rows to average over "
            "(a few thousand training rows are enough)."
        )
    no_rows = np.zeros((0, model.schema.n_features), dtype=np.int64)
    background = Background(model, checked, no_rows, None, None, 1)
    effects = []
    for column in chosen:
        grid = bg.grid_of(background, column, n_points)
        inputs = bg.inputs_of_column(model, column)
        curve = _expected_curve(model, int(inputs[0]) if len(inputs) > 0 else -1, grid)
        effects.append(effect_of_grid(background, column, grid, curve))
    nowhere = bg.grid_of(background, chosen[0], 2)
    mean = _expected_curve(model, -1, nowhere)[0]
    return PartialDependence(tuple(effects), checked, np.squeeze(mean), own.names_of(checked))


def _expected_curve(model: Model, place: int, grid: Grid) -> FloatArray:
    """Return the expected raw score at each value of an input, shape (n_values, n_outputs)."""
    forest, n_values = model.forest, len(grid.encoded)
    sizes = np.diff(forest.tree_start)
    base = np.repeat(forest.tree_start[:-1], sizes)
    left, right = base + forest.left, base + forest.right
    known = forest.count if forest.count.any() else forest.cover
    below, rows = known[left].astype(np.float64), known[left] + known[right].astype(np.float64)
    share = np.divide(below, rows, out=np.full(len(rows), 0.5), where=rows > 0.0)
    values = np.zeros((len(base), forest.n_outputs))
    if forest.vectors is None:
        tree = np.repeat(np.arange(len(sizes)), sizes)
        values[np.arange(len(base)), tree % forest.n_outputs] = forest.value
    else:
        values[:] = forest.vectors
    stops = model.schema.unknown == "backoff" and n_values > len(grid.positions) + 1
    total = np.tile(forest.base_score, (n_values, 1))
    for first in range(0, len(sizes), _TREES_AT_ONCE):
        level = forest.tree_start[first : min(first + _TREES_AT_ONCE, len(sizes))]
        reach = np.ones((len(level), n_values))
        while len(level) > 0:
            inner = forest.feature[level] >= 0
            total += reach[~inner].T @ values[level[~inner]]
            level, reach = level[inner], reach[inner]
            own = forest.feature[level] == place
            goes = np.repeat(share[level, None], n_values, axis=1)
            if own.any():
                goes[own] = _goes_left(forest, place, grid, level[own])
            if stops:  # a walk ends at a split on an unknown category
                total[-1] += reach[own, -1] @ values[level[own]]
                reach[own, -1] = 0.0
            level = np.concatenate((left[level], right[level]))
            reach = np.concatenate((reach * goes, reach * (1.0 - goes)))
    return total


def _goes_left(forest: Forest, place: int, grid: Grid, nodes: IntArray) -> FloatArray:
    """Return 1 where a value of a grid goes left at splits on its column, else 0."""
    missing = forest.missing_left[nodes, None] == 1
    if grid.column.kind != "category":
        present = grid.encoded[:-1] <= forest.threshold[nodes, None]
        return np.append(present, missing, axis=1).astype(np.float64)
    assert forest.categories is not None
    unknown = np.full(len(grid.encoded) - len(grid.positions) - 1, UNKNOWN_BIN)
    bins = np.append(forest.categories.bins_of(place)[grid.positions], unknown)
    sets = [forest.categories.bins_left(int(k))[bins] for k in forest.threshold[nodes]]
    left = np.array(sets, dtype=np.bool_).reshape(len(nodes), len(bins))
    return np.insert(left, len(grid.positions), missing[:, 0], axis=1).astype(np.float64)
