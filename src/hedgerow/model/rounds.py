"""Some of the rounds of a model: which trees they are, and whether they are a model."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.errors import ParameterError, brief
from hedgerow.model.model import AVERAGED, Model


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
    """Rescale raw scores of some trees of a random forest to the mean of these trees.

    Leaf values of a random forest are divided by the number of all trees.  The raw scores of other
    models do not change.
    """
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
