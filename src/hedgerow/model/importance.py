"""Feature importances of a model."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

from hedgerow.argument_types import is_one_of
from hedgerow.arrays import FloatArray
from hedgerow.errors import ParameterError, brief, did_you_mean
from hedgerow.model.model import Model, check_model

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
