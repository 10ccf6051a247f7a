"""Background rows, over which a model is averaged, and checks of what is asked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from hedgerow.argument_types import listed
from hedgerow.arrays import AnyArray, FloatArray
from hedgerow.boosting.loop.sample import check_offset, check_weight
from hedgerow.boosting.row_data.class_weights import true_probabilities, weights_of
from hedgerow.boosting.row_data.offsets import offset_of_rows
from hedgerow.data import Schema, read_any
from hedgerow.data.schema import position_of
from hedgerow.data.sparse import SparseTable
from hedgerow.errors import DataError, ParameterError, brief, did_you_mean
from hedgerow.metrics import task_of
from hedgerow.model.cells import Cells
from hedgerow.model.model import Model, check_model
from hedgerow.model.predict import Predictor
from hedgerow.objectives import Objective, objective_of_record
from hedgerow.once import once
from hedgerow.params import Interval
from hedgerow.threads import resolve_threads

Kind: TypeAlias = Literal["raw", "value", "probability"]
"""The averaged quantity: raw scores, predicted values, or probabilities."""

KINDS: tuple[Kind, ...] = ("raw", "value", "probability")

MOST_DENSE = 1 << 31
"""Limit in bytes on a sparse table in dense form."""


_N_POINTS = Interval(2, 1_000_000, integer=True)
_MAX_ROWS = Interval(1, np.inf, integer=True)
_SEED = Interval(0, 2**32 - 1, integer=True)

Columns: TypeAlias = "Sequence[str | int] | str | int | None"
"""Names or positions of columns; None means all."""


@dataclass(frozen=True, eq=False)
class Background:
    """Rows in the form of a model's inputs.

    Attributes
    ----------
    kind : {"raw", "value", "probability"}
    values : float32, float64 or int64, shape (n_rows, n_features)
        The user's columns, as :class:`hedgerow.data.Table` holds them.
    weight : float64 (n_rows,), or None
        Weight of each row; None means 1.
    offset : float64 (n_outputs, n_rows), or None
        Added to the raw scores.
    """

    model: Model
    kind: Kind
    values: AnyArray
    weight: FloatArray | None
    offset: FloatArray | None
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
        return np.concatenate([self.mean(self.curves(raw)) for raw in scores])

    def curves(self, raw: FloatArray) -> FloatArray:
        """Return predictions (n_values, n_rows, n_outputs) for raw scores with some values."""
        predicted = self.predicted(raw)
        return predicted.reshape(-1, self.n_rows, predicted.shape[1])

    def mean(self, curves: FloatArray) -> FloatArray:
        """Return the weighted mean over the rows, the second axis."""
        return np.asarray(np.average(curves, axis=1, weights=self.weight))

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
    check_model(model)
    if columns is None:
        return list(range(model.schema.n_features))
    given = [columns] if isinstance(columns, str | int | np.integer) else listed(columns)
    if given is None:
        raise ParameterError(
            f"columns must be a name or position, a list of these, or None; got {brief(columns)}."
        )
    found = [position_of(column, model.schema, "columns") for column in given]
    if not found:
        raise ParameterError("columns is empty: name at least one, or leave it out for all.")
    return found


def check_points(n_points: object) -> None:
    """Raise ``ParameterError`` unless the number of values of a grid is valid."""
    if n_points not in _N_POINTS:
        raise ParameterError(f"n_points must be {_N_POINTS}; got {brief(n_points)}.")


def check_kind(kind: object, model: Model) -> Kind:
    """Return ``kind`` if the model has it, else raise ``ParameterError``."""
    for known in KINDS:
        if isinstance(kind, str) and kind == known:
            break
    else:
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
