"""Partial dependence: the mean prediction as a function of one or two columns.

Friedman (2001), section 8.2: the mean prediction over the rows of a background, with a
column set to a value.  For raw scores of constant leaves it is exact for every value, from
one pass over the background for all columns at once (:mod:`hedgerow.inspection.exact`).
All other effects (probabilities, linear leaves, target statistics) are evaluated at some
values: the trees that use the column score the background again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from hedgerow.argument_types import listed
from hedgerow.arrays import AnyArray, FloatArray, IntArray
from hedgerow.data.categories.levels import Level
from hedgerow.data.reading.numbers import floats_of
from hedgerow.data.schema import Schema, position_of
from hedgerow.errors import ParameterError, brief
from hedgerow.inspection.background import (
    Background,
    Kind,
    check_kind,
    is_identity,
    read_background,
)
from hedgerow.inspection.cells import quantiles_of
from hedgerow.inspection.effects import Effect, JointEffect, PartialDependence
from hedgerow.inspection.exact import ExactEffects
from hedgerow.inspection.grids import Grid, grid_of
from hedgerow.inspection.lines import LineEffects
from hedgerow.inspection.rescoring import Rescorer, inputs_of_column
from hedgerow.model.model import Model, check_model

Columns: TypeAlias = "Sequence[str | int] | str | int | None"
"""Names or positions of columns; None means all."""

N_POINTS = 100
"""Number of values of a column to evaluate, if its effect is not a step function."""
_MOST_POINTS = 1_000_000


def positions_of(columns: Columns, schema: Schema) -> list[int]:
    """Return positions of columns.

    Raise ``ParameterError`` if a column does not exist, or the list is empty.
    """
    if columns is None:
        return list(range(schema.n_features))
    given = [columns] if isinstance(columns, str | int | np.integer) else listed(columns)
    if given is None:
        raise ParameterError(
            f"columns must be a name or position, a list of these, or None; got {brief(columns)}."
        )
    found = [position_of(column, schema, "columns") for column in given]
    if not found:
        raise ParameterError("columns is empty: name at least one, or leave it out for all.")
    return found


def joint_dependence(
    model: Model,
    X: Any,
    columns: Sequence[str | int],
    *,
    kind: Kind = "raw",
    sample_weight: Any = None,
    offset: Any = None,
    n_points: int = 20,
    n_jobs: int | None = None,
) -> JointEffect:
    """Compute the mean prediction as a function of two columns.

    Parameters
    ----------
    columns : two names or positions
    n_points : int, default=20
        Values of each column to evaluate, if the effect is not a step function.

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
    check_model(model)
    chosen, kind = positions_of(columns, model.schema), check_kind(kind, model)
    check_points(n_points)
    if len(set(chosen)) != 2 or len(chosen) != 2:
        raise ParameterError(f"columns must be two different columns; got {brief(columns)}.")
    background = read_background(model, X, sample_weight, offset, n_jobs)
    one, two = chosen
    if is_exact(model, background, kind) and is_plain(model, one) and is_plain(model, two):
        return _exact_joint(ExactEffects(model, background, pairs=True), model, chosen, kind)
    grids = [grid_of(background, column, n_points) for column in chosen]
    sizes = [len(grid.encoded) for grid in grids]
    first = np.repeat(grids[0].encoded, sizes[1])
    second = np.tile(grids[1].encoded, sizes[0])
    rescorer = Rescorer(background, one, two)
    step = max(1, (1 << 22) // background.n_rows)
    means = [
        background.mean(background.predicted(raw, kind))
        for k in range(0, len(first), step)
        for raw in rescorer.grid_scores(first[k : k + step], second[k : k + step])
    ]
    alone = [
        effect_of_grid(
            background, column, grid, _squeezed(_mean_curve(background, column, grid, kind))
        )
        for column, grid in zip(chosen, grids, strict=True)
    ]
    positions = [
        _place_on_grid(background.values[:, column], grid)
        for column, grid in zip(chosen, grids, strict=True)
    ]
    rows = _pair_rows(positions, sizes, background.weight)
    values = _squeezed(np.array(means).reshape(*sizes, -1))
    return JointEffect(alone[0], alone[1], values, rows, kind)


def _exact_joint(
    exact_effects: ExactEffects, model: Model, chosen: list[int], kind: Kind
) -> JointEffect:
    one, two = (input_of(model, column) for column in chosen)
    return JointEffect(
        exact_effects.effect(one),
        exact_effects.effect(two),
        _squeezed(exact_effects.joint(one, two)),
        exact_effects.pair_rows(one, two),
        kind,
    )


def _squeezed(values: FloatArray) -> FloatArray:
    """Drop the axis of a single output."""
    return values[..., 0] if values.shape[-1] == 1 else values


def _pair_rows(
    positions: Sequence[IntArray], sizes: Sequence[int], weight: FloatArray | None
) -> FloatArray:
    """Return the weight of the rows in each pair of positions; other values are left out."""
    n_first, n_second = sizes[0] + 1, sizes[1] + 1
    counted = np.bincount(
        positions[0] * n_second + positions[1], weights=weight, minlength=n_first * n_second
    )
    return counted.reshape(n_first, n_second)[:-1, :-1].astype(np.float64)


def partial_dependence(
    model: Model,
    X: Any = None,
    columns: Columns = None,
    *,
    kind: Kind = "raw",
    sample_weight: Any = None,
    offset: Any = None,
    n_points: int = N_POINTS,
    output_names: Sequence[str] = (),
    n_jobs: int | None = None,
) -> PartialDependence:
    """Compute the mean prediction as a function of each column.

    Parameters
    ----------
    model : Model
    X : array, data frame, sparse matrix or list of rows, optional
        The background: rows over which the other columns are averaged.  Without X, the
        fractions of training rows that went left and right at each split are used
        (scikit-learn's ``method="recursion"``); only for raw scores of constant leaves.
    columns : names or positions, or one of them, optional
        Default: all.
    kind : {"raw", "value", "probability"}, default="raw"
        The averaged quantity.  Raw scores add up over trees, so their effects are exact and
        computed for all columns together.
    sample_weight : array-like of shape (n_rows,), optional
    offset : array-like, optional
        As for ``predict``.
    n_points : int, default=100
        Maximum number of values to evaluate, if an effect is not a step function.
    output_names : sequence of str
        Names of several outputs.
    n_jobs : int, optional
        Maximum number of threads; default: all available ones.

    Returns
    -------
    PartialDependence

    Raises
    ------
    ParameterError
        If a column or ``kind`` is unknown, or X is required.
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
    check_model(model)
    chosen, kind = positions_of(columns, model.schema), check_kind(kind, model)
    check_points(n_points)
    background = None
    if X is not None:
        background = read_background(model, X, sample_weight, offset, n_jobs)
    elif sample_weight is not None or offset is not None:
        raise ParameterError("sample_weight and offset belong to the rows of X: pass X as well.")
    exact = is_exact(model, background, kind)
    known = [exact and is_plain(model, column) for column in chosen]
    if background is None and not all(known):
        raise ParameterError(
            "without X, only raw scores of constant leaves and columns without target "
            "statistics are possible: pass X, rows to average over (a few thousand training rows "
            "are enough)."
        )
    effects: dict[int, Effect] = {}
    if any(known):
        exact_effects = ExactEffects(model, background)
        plain = [column for column, as_steps in zip(chosen, known, strict=True) if as_steps]
        found = exact_effects.effects([input_of(model, column) for column in plain])
        effects, mean = dict(zip(plain, found, strict=True)), exact_effects.mean
    else:
        assert background is not None
        lines, mean = _line_effects(background, chosen, kind, n_points)
        effects.update(lines)
    for column in chosen:
        if column not in effects:
            assert background is not None
            effects[column] = _looked_at(background, column, kind, n_points)
    return PartialDependence(
        tuple(effects[column] for column in chosen),
        kind,
        np.squeeze(mean),
        named_outputs(output_names, int(mean.size)),
    )


def named_outputs(names: Sequence[str], n_outputs: int) -> tuple[str, ...]:
    """Return the names of the outputs; none if there is one output or no name is given.

    Raise ``ParameterError`` if there are more or fewer names than outputs.
    """
    if n_outputs == 1 or len(names) == 0:
        return ()
    if isinstance(names, str) or len(names) != n_outputs:
        raise ParameterError(
            f"output_names must be a list with a name for each of the {n_outputs} outputs; got "
            f"{brief(names)}."
        )
    return tuple(names)


def check_points(n_points: object) -> None:
    """Raise unless the number of values is valid."""
    is_whole = isinstance(n_points, int | np.integer) and not isinstance(n_points, bool)
    if not is_whole or not 2 <= int(n_points) <= _MOST_POINTS:  # type: ignore[call-overload]
        raise ParameterError(
            f"n_points must be a whole number from 2 to {_MOST_POINTS:,}; got {brief(n_points)}."
        )


def _line_effects(
    background: Background, chosen: Sequence[int], kind: Kind, n_points: int
) -> tuple[dict[int, Effect], FloatArray]:
    """Return effects of linear leaves on raw scores, if requested, and the mean prediction."""
    model = background.model
    is_raw = kind == "raw" or is_identity(background)
    plain = [column for column in chosen if is_plain(model, column)]
    if model.forest.slopes is None or not is_raw or not plain:
        return {}, mean_prediction(background, kind)
    grids = {column: grid_of(background, column, n_points) for column in plain}
    by_input = {input_of(model, column): grid for column, grid in grids.items()}
    lines = LineEffects(model, background, by_input)
    found = {
        column: effect_of_grid(
            background, column, grid, _squeezed(lines.curve(input_of(model, column), grid))
        )
        for column, grid in grids.items()
    }
    return found, lines.mean


def is_exact(model: Model, background: Background | None, kind: Kind) -> bool:
    """Return whether the averaged quantity is a sum over constant leaves."""
    if model.forest.slopes is not None:
        return False
    return kind == "raw" or (background is not None and is_identity(background))


def is_plain(model: Model, column: int) -> bool:
    """Return whether the trees split the column itself, or do not use it at all."""
    if model.inputs is None:
        return True
    inputs = inputs_of_column(model, column)
    return len(inputs) == 1 and column in model.inputs.kept


def input_of(model: Model, column: int) -> int:
    """Return the input of the trees for a plain column."""
    return column if model.inputs is None else model.inputs.kept.index(column)


def mean_prediction(background: Background | None, kind: Kind) -> FloatArray:
    """Return the mean prediction of the rows, shape (n_outputs,)."""
    assert background is not None
    rescorer = Rescorer(background, 0)
    own = background.values[:, 0]
    return background.mean(background.predicted(rescorer.scores(own), kind))


def _looked_at(background: Background, column: int, kind: Kind, n_points: int) -> Effect:
    """Return an effect by scoring the background with each value of a grid."""
    grid = grid_of(background, column, n_points)
    curve = _mean_curve(background, column, grid, kind)
    if curve.shape[1] == 1:
        curve = curve[:, 0]
    return effect_of_grid(background, column, grid, curve)


def _mean_curve(background: Background, column: int, grid: Grid, kind: Kind) -> FloatArray:
    rescorer = Rescorer(background, column)
    step = max(1, (1 << 22) // max(1, background.n_rows))
    means = [
        background.mean(background.predicted(raw, kind))
        for first in range(0, len(grid.encoded), step)
        for raw in rescorer.grid_scores(grid.encoded[first : first + step])
    ]
    return np.array(means)


def effect_of_grid(background: Background, column: int, grid: Grid, curve: FloatArray) -> Effect:
    """Return an effect from its values on a grid, with missing and unknown values last."""
    described = grid.cells.column
    values = background.values[:, column]
    rows, levels, positions = _rows_on_grid(background, values, grid), (), grid.positions
    left_out: tuple[Level, ...] = ()
    if described.kind == "category":
        levels = tuple(described.levels[k] for k in positions)
        kept = set(positions.tolist())
        left_out = tuple(level for k, level in enumerate(described.levels) if k not in kept)
        positions = np.arange(len(positions))
    quantiles = quantiles_of(values, described)
    effect = Effect.of_curve(
        background.schema, column, positions, levels, curve, rows, quantiles, grid.is_exact
    )
    return replace(effect, left_out=left_out)


def _rows_on_grid(background: Background, values: AnyArray, grid: Grid) -> FloatArray:
    """Return the weight of the rows at each position of a grid."""
    place = _place_on_grid(values, grid)
    counted = np.bincount(place, weights=background.weight, minlength=len(grid.encoded))
    return counted[: len(grid.encoded)].astype(np.float64)


def _place_on_grid(values: AnyArray, grid: Grid) -> IntArray:
    """Return the position of each value: for numbers, the first one that is not below it.

    Categories that are not evaluated get the position after all others.
    """
    if grid.is_exact:
        return grid.cells.cell_of(values)
    n = len(grid.positions)
    if grid.cells.is_category:
        cells, place = grid.cells.cell_of(values), np.full(grid.cells.n_cells, len(grid.encoded))
        place[grid.positions] = np.arange(n)
        place[grid.cells.n_present :] = np.arange(n, len(grid.encoded))
        return place[cells]
    numbers = floats_of(values[:, None], [grid.cells.column.kind])[:, 0]
    above = np.minimum(np.searchsorted(grid.positions, numbers, side="left"), n - 1)
    return np.where(np.isnan(numbers), n, above)
