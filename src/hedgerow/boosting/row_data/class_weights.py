"""Weights of classes: trees are grown with them, probabilities are freed of them.

With weight ``w[k]`` on the rows of class k a classifier learns the probabilities
``q[k] = w[k] p[k] / sum(w p)`` of a population in which the classes are that many times
as frequent.  The true ones are ``p[k] = (q[k] / w[k]) / sum(q / w)``
(Elkan 2001; King and Zeng 2001)::

    logistic       log(p1 / p0) = log(q1 / q0) - log(w1 / w0)
    softmax        raw[k] less log w[k]
    exponential    half of what the logistic loss has, as its raw scores are half the log-odds
    others         no constant will do: probabilities are divided by w and added up to 1 again

So probabilities are those of the data as they are, and the decision remains the weighted
one, argmax of ``w[k] p[k]``, as users of class weights expect.  The record of the model keeps
the weights and, where raw scores were shifted, the base score with which the trees were
grown: a fit that goes on needs its exact bits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.boosting.loop.sample import Sample
from hedgerow.model.model import Model

RECORD = "class_weight"
"""Key of the training record."""

_SHIFTED = {"logistic": 1.0, "softmax": 1.0, "exponential": 0.5}
"""Losses whose raw scores a constant corrects, and raw scores of a unit of log-odds."""


def corrected(model: Model, weights: FloatArray | None) -> Model:
    """The model of a weighted fit, with the probabilities of the unweighted population.

    Parameters
    ----------
    model : Model
        As trained.
    weights : float64 (n_classes,), or None
    """
    if weights is None or (weights == weights[0]).all():
        return model
    record: dict[str, Any] = {"weights": weights.tolist()}
    forest = model.forest
    if model.objective in _SHIFTED:
        record["trained_base"] = forest.base_score.tolist()
        shifted = forest.base_score - _shift(model.objective, weights)
        forest = replace(forest, base_score=shifted)
    return replace(model, forest=forest, training={**model.training, RECORD: record})


def uncorrected(model: Model) -> Model:
    """The model as it was trained."""
    record = model.training.get(RECORD)
    if record is None:
        return model
    training = {name: value for name, value in model.training.items() if name != RECORD}
    base = record.get("trained_base")
    forest = model.forest
    if base is not None:
        forest = replace(forest, base_score=np.array(base, dtype=np.float64))
    return replace(model, forest=forest, training=training)


def rescaled(model: Model, weights: FloatArray | None) -> Model:
    """The model on the scale on which a fit with these weights goes on from it."""
    before = weights_of(model)
    if before is not None and weights is not None and np.array_equal(before, weights):
        return uncorrected(model)
    training = {name: value for name, value in model.training.items() if name != RECORD}
    forest = model.forest
    if weights is not None and model.objective in _SHIFTED and (weights != weights[0]).any():
        base = forest.base_score + _shift(model.objective, weights)
        forest = replace(forest, base_score=base)
    return replace(model, forest=forest, training=training)


def weights_of(model: Model) -> FloatArray | None:
    """Weights of the classes, None without."""
    record = model.training.get(RECORD)
    return None if record is None else np.array(record["weights"], dtype=np.float64)


def with_class_weights(sample: Sample, weights: FloatArray | None) -> Sample:
    """Rows, whose targets are classes, with the weights of these."""
    if weights is None:
        return sample
    factor = weights[sample.target.astype(np.intp)]
    return replace(sample, weight=factor if sample.weight is None else factor * sample.weight)


def weighted_raw(model: Model, raw: FloatArray) -> FloatArray:
    """Raw scores, shape (n_outputs, n_rows), of which the largest (or positive) one decides."""
    weights = weights_of(model)
    if weights is None or model.objective not in _SHIFTED:
        return raw
    shifted: FloatArray = raw + _shift(model.objective, weights)[:, None]
    return shifted


def true_probabilities(model: Model, probability: FloatArray) -> FloatArray:
    """Probabilities, shape (n_rows, n_classes), that the loss gives, without the weights."""
    weights = weights_of(model)
    if weights is None or model.objective in _SHIFTED:
        return probability
    share = probability / weights
    total = share[:, 0].copy()
    for column in share.T[1:]:  # NumPy's own order depends on the number of columns
        total += column
    return np.asarray(share / total[:, None])


def _shift(objective: str, weights: FloatArray) -> FloatArray:
    """What class weights add to each raw score."""
    unit, logs = _SHIFTED[objective], np.log(weights)
    return unit * (logs if objective == "softmax" else logs[1:] - logs[:1])


def check_record(training: Mapping[str, Any], objective: str, n_outputs: int) -> None:
    """Raise ``ValueError`` unless the record of class weights, if there is one, is whole."""
    record = training.get(RECORD)
    if record is None:
        return
    several = objective in ("softmax", "one_vs_all")
    keys = {"weights", "trained_base"} if objective in _SHIFTED else {"weights"}
    if not isinstance(record, Mapping) or set(record) != keys:
        raise ValueError("it needs other entries")
    weights, base = record["weights"], record.get("trained_base", [0.0] * n_outputs)
    for values, length in ((weights, n_outputs if several else 2), (base, n_outputs)):
        if not isinstance(values, list) or len(values) != length:
            raise ValueError("it has not one number for each class")
        if not all(isinstance(x, float) and math.isfinite(x) for x in values):
            raise ValueError("it holds what is no finite number")
    if min(weights) <= 0.0:
        raise ValueError("weights must be greater than 0")
