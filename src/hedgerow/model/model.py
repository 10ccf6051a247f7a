"""A trained model: everything that prediction needs, and a record of the training."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

from hedgerow.argument_types import is_one_of
from hedgerow.arrays import FloatArray
from hedgerow.data.inputs import Inputs
from hedgerow.data.schema import Schema
from hedgerow.errors import DataTypeError, ParameterError, brief, did_you_mean
from hedgerow.model.forest import Forest

AVERAGED = "averaged"
"""Key in the training record of an averaged model: the number of models averaged."""

BLEND = "blend"
"""Key in the training record of a blended model: weight, rounds and differing parameters of each
kind of trees."""

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
    parameters = model.training.get("loss_parameters")
    return (
        schema.unknown == "split"
        or schema.zero_band > 0.0
        or any(column.rounding != "none" for column in schema.columns)
        or len(set(kept)) < len(kept)
        or (slopes is not None and bool(np.isinf(slopes.low).any()))
        or (isinstance(parameters, Mapping) and parameters.get("task") == "classes")
        or (isinstance(parameters, Mapping) and parameters.get("link") in _FOREIGN_LINKS)
    )


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


ImportanceKind: TypeAlias = Literal["gain", "split", "cover"]


def feature_importance(model: Model, kind: ImportanceKind = "gain") -> FloatArray:
    """Return the sum gain, number or cover over the splits of each column."""
    # A split of a target statistic of two columns counts half for each.
    check_model(model)
    forest = model.forest
    inner = forest.feature >= 0
    weights = {"gain": forest.gain[inner], "split": None, "cover": forest.cover[inner]}
    if not is_one_of(kind, weights):
        raise ParameterError(
            f"kind must be one of {', '.join(map(repr, weights))}; got {brief(kind)}."
            f"{did_you_mean(kind, weights)}"
        )
    by_input = np.bincount(
        forest.feature[inner], weights=weights[kind], minlength=forest.n_features
    )
    if model.inputs is None:
        return by_input.astype(np.float64)
    total = np.zeros(model.schema.n_features)
    for amount, columns in zip(by_input, model.inputs.sources, strict=True):
        total[list(columns)] += amount / len(columns)
    return total


def trees_of_rounds(model: Model, first_round: int, n_rounds: int | None) -> tuple[int, int]:
    """Return the range of the trees of some rounds; by default of all from the first on."""
    forest = model.forest
    first = _check_count(first_round, "first_round", forest.n_rounds)
    left = forest.n_rounds - first
    count = left if n_rounds is None else _check_count(n_rounds, "n_rounds", left)
    if count != forest.n_rounds:
        check_stages(model)
    per_round = forest.trees_per_round
    return first * per_round, (first + count) * per_round


def mean_of_trees(model: Model, raw: FloatArray, n_trees: int) -> FloatArray:
    """Rescale raw scores of some trees of a random forest to the mean of these trees."""
    # Leaf values of a random forest are divided by the number of all trees. The raw scores of other
    # models do not change.
    if n_trees in (0, model.forest.n_trees) or _boosting_of(model) != "rf":
        return raw
    base = model.forest.base_score[:, None]
    return np.asarray(base + (raw - base) * (model.forest.n_trees / n_trees))


def check_stages(model: Model) -> None:
    """Raise ``ParameterError`` if the first rounds of the model are not a model."""
    if AVERAGED in model.training:
        raise ParameterError(
            "this model is the mean of several models, whose trees follow one another: its "
            "first rounds are not a model. Use the models of the folds."
        )
    if _boosting_of(model) == "dart":
        raise ParameterError(
            "this model was trained with boosting='dart', whose trees are rescaled when "
            "later ones are added: its first rounds are not a model. Use all rounds."
        )


def _boosting_of(model: Model) -> str:
    """Return the value of the training parameter ``boosting``."""
    return str(model.training.get("parameters", {}).get("boosting", "gbdt"))


def _check_count(value: Any, name: str, most: int) -> int:
    is_integer = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not is_integer or not 0 <= value <= most:
        raise ParameterError(f"{name} must be an integer from 0 to {most}; got {brief(value)}.")
    return int(value)
