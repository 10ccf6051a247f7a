"""Background rows, over which a model is averaged."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray, IntArray
from hedgerow.boosting.loop.sample import check_offset, check_weight
from hedgerow.boosting.row_data.class_weights import true_probabilities, weights_of
from hedgerow.boosting.row_data.offsets import offset_of_rows
from hedgerow.data import Schema, read_any
from hedgerow.data.sparse import SparseTable
from hedgerow.errors import DataError, ParameterError, brief, did_you_mean
from hedgerow.metrics import task_of
from hedgerow.model.model import Model
from hedgerow.objectives import Objective, objective_of_record
from hedgerow.once import once
from hedgerow.threads import resolve_threads

Kind: TypeAlias = Literal["raw", "value", "probability"]
"""The averaged quantity: raw scores, predicted values, or probabilities."""

KINDS: tuple[Kind, ...] = ("raw", "value", "probability")

MOST_DENSE = 1 << 31
"""Limit in bytes on a sparse table in dense form."""


@dataclass(frozen=True, eq=False)
class Background:
    """Rows in the form of a model's inputs.

    Attributes
    ----------
    values : float32, float64 or int64, shape (n_rows, n_features)
        The user's columns, as :class:`hedgerow.data.Table` holds them.
    weight : float64 (n_rows,), or None
        Weight of each row; None means 1.
    offset : float64 (n_outputs, n_rows), or None
        Added to the raw scores.
    """

    model: Model
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

    @property
    def mass(self) -> float:
        """Total weight of the rows."""
        return float(self.n_rows if self.weight is None else self.weight.sum())

    @once
    def inputs(self) -> AnyArray:
        """The inputs of the trees."""
        return self.inputs_of(self.values)

    def inputs_of(self, values: AnyArray) -> AnyArray:
        """Return the inputs of the trees for rows of the user's columns."""
        inputs = self.model.inputs
        return values if inputs is None else inputs.values(values, self.schema, self.n_threads)

    @once
    def objective(self) -> Objective:
        """The objective, which has the link from raw scores to predictions."""
        model = self.model
        return objective_of_record(model.objective, model.forest.n_outputs, model.training)

    def predicted(self, raw: FloatArray, kind: Kind) -> FloatArray:
        """Return predictions, shape (n_rows, n_outputs), for raw scores (n_outputs, n_rows)."""
        if kind == "raw":
            return np.ascontiguousarray(raw.T)
        values = self.objective.predict(raw)
        if weights_of(self.model) is not None:
            values = true_probabilities(self.model, values)
        return values[:, None] if values.ndim == 1 else values

    def mean(self, rows: FloatArray) -> FloatArray:
        """Return the weighted mean over the rows, the first axis."""
        return np.asarray(np.average(rows, axis=0, weights=self.weight))

    def take(self, rows: IntArray) -> Background:
        """Return some of the rows."""
        weight = None if self.weight is None else self.weight[rows]
        offset = None if self.offset is None else np.ascontiguousarray(self.offset[:, rows])
        return replace(self, values=self.values[rows], weight=weight, offset=offset)


def read_background(
    model: Model,
    X: Any,
    sample_weight: Any = None,
    offset: Any = None,
    n_jobs: int | None = None,
) -> Background:
    """Read rows with the columns of a model.

    Raise ``DataError`` or ``DataTypeError`` if X does not fit the model, or is a sparse
    table that is too large in dense form.
    """
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
    return Background(model, values, weight, added, resolve_threads(n_jobs))


def check_kind(kind: object, model: Model) -> Kind:
    """Return ``kind`` if the model has it.

    Raises
    ------
    ParameterError
    """
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


def is_identity(background: Background) -> bool:
    """Return whether the prediction equals the raw score."""
    n_outputs = background.model.forest.n_outputs
    probe = np.tile([-7.5, -1.0, 0.0, 0.25, 3.0], (n_outputs, 1))
    try:
        values = background.objective.predict(probe)
    except ValueError:  # the raw scores are invalid for the objective
        return False
    return np.array_equal(values if values.ndim == 1 else values.T, np.squeeze(probe))
