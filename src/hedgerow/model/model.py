"""A trained model: everything that prediction needs, and a record of the training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hedgerow.data.inputs import Inputs
from hedgerow.data.schema import Schema
from hedgerow.errors import DataTypeError, brief
from hedgerow.model.forest import Forest

AVERAGED = "averaged"
"""Key in the training record of an averaged model: the number of models averaged."""


_FOREIGN_LINKS = ("softplus", "signed_square")


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """Forest, schema of the user's tables, objective, and training record."""

    forest: Forest
    schema: Schema
    # name in :data:`hedgerow.objectives.OBJECTIVES`, which determines the link from raw scores to
    # predictions
    objective: str
    # JSON-like record: parameters, seed, evaluation history, best round. Predictions do
    # not need it
    training: Mapping[str, Any] = field(default_factory=dict)
    # inputs of the trees, if these are not the columns of the schema
    inputs: Inputs | None = None
    # time from the start of the fit to the end of each round; NaN if unknown.  Empty for a model
    # read from a file, because files do not hold times
    seconds: tuple[float, ...] = ()

    @property
    def split_schema(self) -> Schema:
        """Names and kinds of the inputs of the trees."""
        return self.schema if self.inputs is None else self.inputs.schema(self.schema)


def has_foreign_rules(model: Model) -> bool:
    """Return whether prediction needs a rule that only imported models have."""
    schema, slopes = model.schema, model.forest.slopes
    kept = () if model.inputs is None else model.inputs.kept
    return (
        schema.unknown == "split"
        or schema.zero_band > 0.0
        or any(column.rounding != "none" for column in schema.columns)
        or len(set(kept)) < len(kept)
        or (slopes is not None and bool(np.isinf(slopes.low).any()))
        or _has_foreign_link(model.training.get("loss_parameters"))
    )


def _has_foreign_link(parameters: Any) -> bool:
    if not isinstance(parameters, Mapping):
        return False
    return parameters.get("task") == "classes" or parameters.get("link") in _FOREIGN_LINKS


def check_model(model: object) -> None:
    """Raise ``DataTypeError`` unless ``model`` is a Model; say what to pass instead."""
    if isinstance(model, Model):
        return
    has_booster, is_booster = hasattr(model, "booster_"), hasattr(model, "model")
    own = "booster_.model" if has_booster else "model" if is_booster else ""
    hint = f" Pass its {own}, or call its method of the same purpose." if own else ""
    raise DataTypeError(
        f"model must be the Model of a booster, such as booster.model; got {brief(model)}.{hint}"
    )
