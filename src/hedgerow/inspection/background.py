"""Background rows, over which a model is averaged; values of a column, and scores with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from hedgerow.argument_types import is_one_of, listed
from hedgerow.arrays import MISSING_KEY, AnyArray, BoolArray, FloatArray, IntArray, distinct
from hedgerow.boosting.row_data.checks import check_offset, check_weight
from hedgerow.boosting.row_data.classes import true_probabilities, weights_of
from hedgerow.boosting.row_data.offsets import offset_of_rows
from hedgerow.data import Schema, read_any
from hedgerow.data.binning.cut_sample import codes_of
from hedgerow.data.reading.columns import floats_of_column
from hedgerow.data.schema import Column, position_of
from hedgerow.data.sparse import SparseTable
from hedgerow.errors import DataError, DataTypeError, ParameterError, brief, did_you_mean
from hedgerow.kernels.tables.keys import floats_of_keys, keys_of_floats
from hedgerow.model.cells import Cells
from hedgerow.model.forest import Forest
from hedgerow.model.model import Model
from hedgerow.objectives import Objective, objective_of_record
from hedgerow.objectives.catalogue import task_of
from hedgerow.once import once
from hedgerow.params import Interval
from hedgerow.threads import resolve_threads

Kind: TypeAlias = Literal["raw", "value", "probability"]
"""The averaged quantity: raw scores, predicted values, or probabilities."""

KINDS: tuple[Kind, ...] = ("raw", "value", "probability")

MOST_DENSE = 1 << 31
"""Limit in bytes on a sparse table in dense form."""


N_QUANTILES = 101

_AT_ONCE = 1 << 23
"""Numbers of changed rows in memory at a time."""

_MAX_ROWS = Interval(1, np.inf, integer=True)
_SEED = Interval(0, 2**32 - 1, integer=True)

Columns: TypeAlias = "Sequence[str | int] | str | int | None"
"""Names or positions of columns; None means all."""


@dataclass(frozen=True, slots=True, eq=False)
class Inspected:
    """A model, the labels of its classes by index, and the names of its targets if several."""

    model: Model
    classes: AnyArray | None = None
    targets: Sequence[str] | None = None

    def names_of(self, kind: str) -> tuple[str, ...]:
        """Return the names of the predicted numbers of a row, if there are several."""
        n_outputs = self.model.forest.n_outputs
        classes = () if self.classes is None else tuple(map(str, self.classes.tolist()))
        if n_outputs == 1:
            return classes if is_one_of(kind, ("probability",)) else ()
        for names in (self.targets, classes):
            if names is not None and len(names) == n_outputs:
                return tuple(names)
        return tuple(map(str, range(n_outputs)))


def inspected(model: Any) -> Inspected:
    """Return the model of a booster or of a fitted estimator, or a model itself."""
    if isinstance(model, Model):
        return Inspected(model)
    if not hasattr(model, "_inspected"):
        raise DataTypeError(
            f"model must be a Booster, a fitted estimator or a Model; got {brief(model)}."
        )
    found: Inspected = getattr(model, "_inspected")()  # noqa: B009  (of Inspections)
    return found


@dataclass(frozen=True, eq=False)
class Background:
    """Rows over which a model is averaged, as :class:`hedgerow.data.Table` holds them."""

    model: Model
    kind: Kind
    values: AnyArray  # (n_rows, n_features), the user's columns
    weight: FloatArray | None  # (n_rows,)
    offset: FloatArray | None  # (n_outputs, n_rows), added to the raw scores
    n_threads: int

    @property
    def schema(self) -> Schema:
        """The user's columns."""
        return self.model.schema

    @property
    def n_rows(self) -> int:
        return len(self.values)

    @once
    def inputs(self) -> AnyArray:
        """The inputs of the trees."""
        return self.inputs_of(self.values)

    def inputs_of(self, values: AnyArray) -> AnyArray:
        """Return the inputs of the trees for rows of the user's columns."""
        inputs = self.model.inputs
        return values if inputs is None else inputs.values(values, self.schema, self.n_threads)

    @once
    def cells(self) -> Cells:
        """The cells of the inputs of the trees."""
        return Cells(self.model.forest, self.model.split_schema)

    @once
    def raw(self) -> FloatArray:
        """Raw scores of the rows, shape (n_outputs, n_rows)."""
        from hedgerow.model.predict import Predictor  # estimators inherit from what is here

        predictor = Predictor(self.model.forest, self.model.split_schema.kinds)
        raw = predictor.raw_scores(self.inputs, self.n_threads)
        return raw if self.offset is None else raw + self.offset

    @once
    def objective(self) -> Objective:
        """The objective, which has the link from raw scores to predictions."""
        model = self.model
        return objective_of_record(model.objective, model.forest.n_outputs, model.training)

    def predicted(self, raw: FloatArray) -> FloatArray:
        """Return predictions, shape (n, n_outputs), for raw scores (n_outputs, n)."""
        if self.kind == "raw":
            return np.ascontiguousarray(raw.T)
        values = self.values_of(raw)
        return values[:, None] if values.ndim == 1 else values

    def values_of(self, raw: FloatArray) -> FloatArray:
        """Return values or probabilities, free of class weights, for raw scores."""
        values = self.objective.predict(raw)
        return values if weights_of(self.model) is None else true_probabilities(self.model, values)

    def means(self, scores: Iterable[FloatArray]) -> FloatArray:
        """Return mean predictions (n_values, n_outputs) for raw scores with some of the values."""
        found = []
        for raw in scores:
            predicted = self.predicted(raw)
            curves = predicted.reshape(-1, self.n_rows, predicted.shape[1])
            found.append(np.average(curves, axis=1, weights=self.weight))
        return np.concatenate(found)

    def sample(self, max_rows: int | None, random_state: int) -> Background:
        """Return at most ``max_rows`` of the rows, drawn among those with a weight."""
        if max_rows is not None and max_rows not in _MAX_ROWS:
            raise ParameterError(f"max_rows must be {_MAX_ROWS}, or None; got {brief(max_rows)}.")
        if random_state not in _SEED:
            raise ParameterError(f"random_state must be {_SEED}; got {brief(random_state)}.")
        rows = np.arange(self.n_rows) if self.weight is None else np.flatnonzero(self.weight)
        if max_rows is None or len(rows) <= max_rows:
            return self
        rows = np.sort(np.random.default_rng(random_state).choice(rows, max_rows, replace=False))
        weight = None if self.weight is None else self.weight[rows]
        offset = None if self.offset is None else np.ascontiguousarray(self.offset[:, rows])
        return replace(self, values=self.values[rows], weight=weight, offset=offset)


def read_background(
    model: Model,
    X: Any,
    kind: object = "raw",
    sample_weight: Any = None,
    offset: Any = None,
    n_jobs: int | None = None,
) -> Background:
    """Read rows with the columns of a model; raise errors if they or ``kind`` do not fit it."""
    checked = check_kind(kind, model)
    X, given = offset_of_rows(model, X, offset)
    table = read_any(X, model.schema, reader="Booster")
    if isinstance(table, SparseTable):
        size = table.n_rows * table.n_features * table.value.itemsize
        if size > MOST_DENSE:
            raise DataError(
                f"this sparse table of {table.n_rows:,} rows and {table.n_features:,} columns "
                f"would take {size / 1e9:.1f} GB in dense form, more than "
                f"{MOST_DENSE / 1e9:.1f} GB: pass fewer rows; a few thousand random rows are "
                "enough."
            )
        values = table.dense()
    else:
        values = table.values
    weight = check_weight(sample_weight, len(values))
    added = check_offset(given, len(values), model.forest.n_outputs)
    return Background(model, checked, values, weight, added, resolve_threads(n_jobs))


def positions_of(columns: Columns, model: Model) -> list[int]:
    """Return the positions of columns of a model; raise ``ParameterError`` if one is unknown."""
    if columns is None:
        return list(range(model.schema.n_features))
    given = [columns] if isinstance(columns, str | int | np.integer) else listed(columns)
    if given is None:
        raise ParameterError(
            f"columns must be a name or position, a list of these, or None; got {brief(columns)}."
        )
    found = [position_of(column, model.schema.names, "columns") for column in given]
    if not found:
        raise ParameterError("columns is empty: name at least one, or leave it out for all.")
    return found


def check_kind(kind: object, model: Model) -> Kind:
    """Return ``kind`` if the model has it, else raise ``ParameterError``."""
    known = next((known for known in KINDS if is_one_of(kind, (known,))), None)
    if known is None:
        raise ParameterError(
            f"kind must be one of {', '.join(map(repr, KINDS))}; got {brief(kind)}."
            f"{did_you_mean(kind, KINDS)}"
        )
    if known == "raw":
        return known
    objective = objective_of_record(model.objective, model.forest.n_outputs, model.training)
    is_values = task_of(objective) == "regression"
    if known == "probability" and is_values:
        raise ParameterError(
            f"kind='probability' needs a classifier; the objective is {model.objective!r}: use "
            "'value' or 'raw'."
        )
    if known == "value" and not is_values:
        raise ParameterError(
            "kind='value' averages numbers, but this model predicts classes: "
            "use 'probability' or 'raw'."
        )
    return known


def inputs_of_column(model: Model, column: int) -> IntArray:
    """Return the inputs of the trees that depend on a column of the user's table."""
    if model.inputs is None:
        return np.array([column], dtype=np.int64)
    sources = model.inputs.sources
    return np.array([k for k, made_of in enumerate(sources) if column in made_of], dtype=np.int64)


def is_plain(model: Model, column: int) -> bool:
    """Return whether the trees split the column itself, or do not use it at all."""
    if model.inputs is None:
        return True
    inputs = inputs_of_column(model, column)
    return len(inputs) == 0 or (len(inputs) == 1 and column in model.inputs.kept)


def rounds_with(forest: Forest, columns: IntArray) -> BoolArray:
    """Return for each round whether one of its trees uses one of the columns."""
    wanted = np.zeros(forest.n_features + 1, dtype=np.bool_)  # the last entry: leaves
    wanted[columns] = True
    asks = wanted[forest.feature]
    if forest.slopes is not None:
        in_term = np.concatenate(([0], np.cumsum(wanted[forest.slopes.column])))
        in_line = np.diff(in_term[forest.slopes.start]) > 0
        asks = asks | in_line.reshape(len(asks), -1).any(axis=1)
    first = forest.tree_start[:: forest.trees_per_round][: forest.n_rounds]
    return np.logical_or.reduceat(asks, first) if forest.n_rounds else np.zeros(0, dtype=np.bool_)


class Rescorer:
    """Scorer of the rows of a background with replaced values of a column."""

    def __init__(self, background: Background, column: int) -> None:
        from hedgerow.model.predict import Predictor

        model, forest = background.model, background.model.forest
        asks = rounds_with(forest, inputs_of_column(model, column))
        self._background, self._column, self.n_rounds = background, column, int(asks.sum())
        trees = np.flatnonzero(np.repeat(asks, forest.trees_per_round))
        asking = forest.some_trees(trees, np.zeros(forest.n_outputs))
        self._asking = Predictor(asking, model.split_schema.kinds)
        own = self._asking.raw_scores(background.inputs, background.n_threads)
        self._rest = background.raw - own

    def scores(self, values: AnyArray) -> FloatArray:
        """Return raw scores, (n_outputs, n_rows); ``values`` replace the column of the table."""
        return self._rest + self._added(np.array(self._background.values, order="F"), values)

    def grid_scores(self, values: AnyArray) -> Iterator[FloatArray]:
        """Yield raw scores (n_outputs, n_some * n_rows): all rows with some of the values."""
        rows = self._background.values
        if rows.dtype == np.float32:  # float32 would round the values
            rows = rows.astype(np.float64)
        step = max(1, _AT_ONCE // max(1, rows.size))
        for first in range(0, len(values), step):
            some = values[first : first + step]
            changed = np.tile(rows.T, len(some)).T
            added = self._added(changed, np.repeat(some, len(rows)))
            yield np.tile(self._rest, len(some)) + added

    def _added(self, changed: AnyArray, values: AnyArray) -> FloatArray:
        """Return what the trees that use the column add, after changing the rows in place."""
        background = self._background
        if self.n_rounds == 0:
            return np.zeros((len(self._rest), len(changed)))
        changed[:, self._column] = values
        return self._asking.raw_scores(background.inputs_of(changed), background.n_threads)


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """Values of one column at which a model is evaluated.

    ``encoded`` holds the positions, a missing value, and an unknown category unless it counts as
    missing, as the table of the background does.
    """

    column: Column
    positions: AnyArray  # numbers, or codes of the evaluated levels
    encoded: AnyArray
    quantiles: FloatArray  # 101 of the finite numbers of the background, or none
    is_exact: bool  # every value has the prediction of a position: the last number of its step

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
        others = [np.nan, n_levels] if model.schema.unknown == "split" else [np.nan]
        encoded = held_as(np.append(most, others), values.dtype, "category")
        return Grid(described, most, encoded, np.zeros(0), len(most) == n_levels)
    inputs = model.inputs
    cuts: AnyArray = np.zeros(0)
    if inputs is None or column in inputs.kept:  # cuts: largest number of each cell but the last
        place = column if inputs is None else inputs.kept.index(column)
        keys = background.cells.ordered(place)[:-1]
        is_int = background.cells.schema.kinds[place] == "int"
        cuts = keys if is_int else floats_of_keys(keys)
    numbers = floats_of_column(values, "int" if described.kind == "int" else "float")
    finite = np.sort(numbers[np.isfinite(numbers)]).astype(np.float64)
    n = N_QUANTILES if len(finite) > 0 else 0
    quantiles = finite[np.linspace(0, len(finite) - 1, n).round().astype(np.int64)]
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
    by_rows = evenly(quantiles, n_points - n_points // 2)
    others = every[~np.isin(every, by_rows)]
    return distinct(np.append(by_rows, evenly(others, n_points - len(by_rows))))


def evenly(numbers: FloatArray, n: int) -> FloatArray:
    """Return at most ``n`` of some numbers, evenly spaced by rank."""
    n = min(n, len(numbers))
    return distinct(numbers[np.linspace(0, len(numbers) - 1, n).round().astype(np.int64)])


def held_as(numbers: AnyArray, dtype: np.dtype, kind: str) -> AnyArray:
    """Return numbers or codes in the form in which a table of a type holds a column."""
    if dtype == np.int64 and kind == "int":
        return numbers.astype(np.int64)
    floats = numbers.astype(np.float64)
    return keys_of_floats(floats) if dtype == np.int64 else floats
