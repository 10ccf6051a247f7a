"""The meaning of the raw scores of an imported model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hedgerow.arrays import AnyArray
from hedgerow.boosting.row_data.classes import labels_to_record
from hedgerow.convert.trees import TreeTable, forest_of
from hedgerow.data.inputs import Inputs, Statistic
from hedgerow.data.schema import Schema, default_names
from hedgerow.errors import ModelFormatError, ParameterError
from hedgerow.io.validate import check_model
from hedgerow.model.model import Model
from hedgerow.objectives import CUSTOM, objective_of_record

SOURCE = "source"
"""Key of the training record for the origin of a model."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """An objective, and its entries in the training record."""

    objective: str
    record: Mapping[str, Any] = field(default_factory=dict)


def linked(label: str, link: str = "identity", task: str = "regression") -> Meaning:
    """Return a custom objective with a known link and an unknown loss."""
    parameters = {"name": label, "link": link, "task": task}
    return Meaning(CUSTOM, {"loss_parameters": parameters})


def several(single: Meaning, n_outputs: int) -> Meaning:
    """Return the objective of one target for each of several targets, ``y0``, ``y1``, ..."""
    names = [f"y{k}" for k in range(n_outputs)]
    return Meaning(single.objective, {**single.record, "targets": {"named": False, "names": names}})


@dataclass(frozen=True, slots=True)
class Imported:
    """A model, and the labels of its classes if the source has them."""

    model: Model
    classes: AnyArray | None = None


def finished(
    table: TreeTable,
    schema: Schema,
    base_score: Sequence[float],
    meaning: Meaning,
    source: Mapping[str, Any],
    classes: AnyArray | None = None,
    statistics: tuple[Statistic, ...] = (),
    n_parallel: int = 1,
) -> Imported:
    """Build the model and check it like a model file."""
    split_schema, inputs = schema, None
    if statistics:
        inputs = Inputs(tuple(range(schema.n_features)), statistics)
        split_schema = inputs.schema(schema)
    forest, copies = forest_of(table, split_schema, base_score)
    if copies is not None:
        inputs = Inputs(tuple(j for j in copies if j < schema.n_features), statistics)
    boosting = source.get("boosting", "gbdt")
    training = {**meaning.record, SOURCE: dict(source)}
    if boosting != "gbdt":
        training["parameters"] = {"boosting": boosting}
    forest = replace(forest, n_parallel=n_parallel)
    model = Model(forest, schema, meaning.objective, training, inputs)
    check_model(model)
    try:
        objective_of_record(model.objective, model.forest.n_outputs, training)
    except ParameterError as error:
        raise ModelFormatError(str(error)) from None
    if classes is not None:
        labels_to_record(classes)
    return Imported(model, classes)


def column_names(names: Sequence[str] | None, n_features: int, default: str) -> tuple[Any, bool]:
    """Return the names of the columns, and whether the user gave them."""
    # ``default`` is the library's name for unnamed columns, with ``{}`` for a number.
    if names is None or list(names) == [default.format(j) for j in range(n_features)]:
        return default_names(n_features), False
    if len(names) != n_features:
        raise ModelFormatError(f"there are {len(names)} names for {n_features} columns.")
    return tuple(names), True
