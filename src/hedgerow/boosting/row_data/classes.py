"""Classes: their labels, and their weights.

Models number classes from 0.  The labels are stored beside the model: in the estimator's
record in the model file, or in the record of a booster that knows its labels.

Training uses class weights, and predicted probabilities are corrected for them.
With weight ``w[k]`` on the rows of class k, a classifier learns the probabilities
``q[k] = w[k] p[k] / sum(w p)`` of a population in which class k is ``w[k]`` times as
frequent.  The true probabilities are ``p[k] = (q[k] / w[k]) / sum(q / w)``
(Elkan 2001; King and Zeng 2001)::

    logistic       log(p1 / p0) = log(q1 / q0) - log(w1 / w0)
    softmax        raw[k] minus log w[k]
    exponential    half the shift of the logistic loss, as its raw scores are half the log-odds
    others         no constant shift exists: probabilities are divided by w and renormalised

So probabilities describe the unweighted data, while the decision stays the weighted one,
argmax of ``w[k] p[k]``, as users of class weights expect.  The training record keeps the
weights and, if raw scores were shifted, the base score used in training: a continued fit
needs its exact bits.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray, IntArray
from hedgerow.boosting.row_data.checks import check_weight, one_axis, values_of_rows
from hedgerow.errors import DataError, DataTypeError, ModelFormatError, brief
from hedgerow.objectives.catalogue import task_of

if TYPE_CHECKING:
    from hedgerow.boosting.loop.sample import Sample
    from hedgerow.model.model import Model
    from hedgerow.objectives import Objective

RECORD = "class_weight"
"""Key of class weights in the training record."""

_SHIFTED = {"logistic": 1.0, "softmax": 1.0, "exponential": 0.5}
"""Losses that a constant corrects, with the raw-score units of one unit of log-odds."""


def corrected(model: Model, weights: FloatArray | None) -> Model:
    """Return the model of a weighted fit, predicting probabilities of the unweighted population."""
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
    """Return the model as it was trained."""
    return rescaled(model, weights_of(model))


def rescaled(model: Model, weights: FloatArray | None) -> Model:
    """Return the model on the raw-score scale of a continued fit with these weights."""
    before, base = weights_of(model), model.forest.base_score
    if before is None and weights is None:
        return model
    if before is not None and weights is not None and np.array_equal(before, weights):
        base = np.array(model.training[RECORD].get("trained_base", base))
    elif weights is not None and model.objective in _SHIFTED and (weights != weights[0]).any():
        base = base + _shift(model.objective, weights)
    training = {name: value for name, value in model.training.items() if name != RECORD}
    return replace(model, forest=replace(model.forest, base_score=base), training=training)


def weights_of(model: Model) -> FloatArray | None:
    """Return the class weights of the model, or None."""
    record = model.training.get(RECORD)
    return None if record is None else np.array(record["weights"], dtype=np.float64)


def with_class_weights(sample: Sample, weights: FloatArray | None) -> Sample:
    """Multiply the row weights of a sample, whose targets are classes, by the class weights."""
    return replace(sample, weight=weights_by_class(sample.weight, sample.target, weights))


def weights_by_class(
    weight: FloatArray | None, codes: FloatArray, by_class: FloatArray | None
) -> FloatArray | None:
    """Multiply row weights by class weights."""
    if by_class is None:
        return weight
    factor = by_class[codes.astype(np.intp)]
    if weight is None:
        return check_weight(factor, len(codes), "class_weight")
    with np.errstate(over="ignore", under="ignore"):
        product = weight * factor
    lost = (product == 0.0) & (weight > 0.0)
    if lost.any() or not np.isfinite(product).all():
        row = int(np.argmax(lost | ~np.isfinite(product)))
        raise DataError(
            f"sample_weight times class_weight is {product[row]:g} in row {row} "
            f"({weight[row]:g} times {factor[row]:g}): bring the weights nearer to 1."
        )
    return check_weight(product, len(codes), "sample_weight times class_weight")


def weighted_raw(model: Model, raw: FloatArray) -> FloatArray:
    """Return the raw scores, shape (n_outputs, n_rows), that decide the predicted class."""
    weights = weights_of(model)
    if weights is None or model.objective not in _SHIFTED:
        return raw
    return raw + _shift(model.objective, weights)[:, None]


def true_probabilities(model: Model, probability: FloatArray) -> FloatArray:
    """Remove the class weights from the loss's probabilities, shape (n_rows, n_classes)."""
    weights = weights_of(model)
    if weights is None or model.objective in _SHIFTED:
        return probability
    share = probability / weights
    # Unlike sums, whose order depends on the number of columns, these add one after another.
    return np.asarray(share / np.cumsum(share, axis=1)[:, -1:])


def _shift(objective: str, weights: FloatArray) -> FloatArray:
    """Return the shift that class weights cause in each raw score."""
    unit, logs = _SHIFTED[objective], np.log(weights)
    return unit * (logs if objective == "softmax" else logs[1:] - logs[:1])


def check_record(training: Mapping[str, Any], objective: str, n_outputs: int) -> None:
    """Raise ``ValueError`` if the training record has a malformed entry for class weights."""
    record = training.get(RECORD)
    if record is None:
        return
    several = objective in ("softmax", "one_vs_all")
    keys = {"weights", "trained_base"} if objective in _SHIFTED else {"weights"}
    if not isinstance(record, Mapping) or set(record) != keys:
        raise ValueError("it has wrong entries")
    weights, base = record["weights"], record.get("trained_base", [0.0] * n_outputs)
    for values, length in ((weights, n_outputs if several else 2), (base, n_outputs)):
        if not isinstance(values, list) or len(values) != length:
            raise ValueError("it must have one number for each class")
        if not all(isinstance(x, float) and math.isfinite(x) for x in values):
            raise ValueError("its numbers must be finite")
    if min(weights) <= 0.0:
        raise ValueError("weights must be greater than 0")


_LABEL_TYPE = re.compile(r"<U[0-9]{1,5}|<[iu][248]|<f[248]|\|[biu]1", re.ASCII)
"""Allowed label types in a model file, as NumPy type strings."""

_LONGEST_LABEL = 1 << 14
"""Largest number of characters of a label."""

MOST_LABEL_BYTES = 1 << 28
"""Largest size in bytes of all labels of a model as one array."""


@dataclass(frozen=True, slots=True, eq=False)
class CodedLabels:
    """Labels of rows of files: different ones, ascending, and the place of each row's among them.

    values    text, int64 if all are integers, else float64
    has_more  whether ``values`` lacks some of very many, whose rows have the place -1
    """

    values: AnyArray
    places: IntArray
    has_more: bool = False

    @property
    def are_text(self) -> bool:
        """Whether the labels are text."""
        return self.values.dtype.kind == "U"

    def masses(self, weight: FloatArray | None) -> AnyArray:
        """Return the sum of the weights of the rows of each label, or the number of rows."""
        known = self.places >= 0
        return np.bincount(
            self.places[known], None if weight is None else weight[known], len(self.values)
        )


def indices_of(
    labels: AnyArray | CodedLabels, classes: AnyArray, name: str, owner: str = "y"
) -> FloatArray:
    """Return the index of each label in ``classes``."""
    values = labels.values if isinstance(labels, CodedLabels) else labels
    are_numbers = values.dtype == classes.dtype and values.dtype.kind in "biuf"
    if are_numbers and len(classes) and (classes[:-1] < classes[1:]).all():
        found = np.searchsorted(classes, values).clip(max=len(classes) - 1)
        codes = np.where(classes[found] == values, found, -1).astype(np.float64)
    else:
        place = {label: index for index, label in enumerate(classes.tolist())}
        codes = np.array([place.get(label, -1) for label in values.tolist()], dtype=np.float64)
    if isinstance(labels, CodedLabels):
        codes, values = codes[labels.places], values[labels.places]
    if (codes < 0).any():
        row = int(np.argmax(codes < 0))
        unknown = sorted({repr(label) for label in values[codes < 0].tolist()})
        raise DataError(
            f"{name} has labels that {owner} lacks: {', '.join(unknown[:5])} (the first in "
            f"row {row})."
        )
    return codes


def column_of(labels: Any, name: str) -> AnyArray:
    """Return labels as a 1-d array."""
    return one_axis(values_of_rows(labels, name), name)


def n_classes_of(objective: Objective) -> int | None:
    """Return the number of mutually exclusive classes, or None for other objectives."""
    from hedgerow.objectives import SeveralTargets

    if isinstance(objective, SeveralTargets):
        return None
    task = task_of(objective)
    if task == "classes":
        return objective.n_outputs
    return 2 if task == "two classes" else None


def classes_of_record(objective: Objective, record: Mapping[str, Any] | None) -> AnyArray | None:
    """Return the class labels of a model's record, or None if the record has none."""
    n_classes = n_classes_of(objective)
    if n_classes is None or record is None or "classes" not in record:
        return None
    return labels_from_record(record["classes"], n_classes)


def labels_to_record(classes: AnyArray) -> dict[str, Any]:
    """Convert class labels to JSON-like values, with their dtype."""
    values = classes.tolist()
    if classes.dtype.kind not in "biufUO" or classes.dtype == np.longdouble:
        raise DataTypeError(f"labels of type {classes.dtype} cannot be saved: use text or numbers.")
    for value in values:
        if not isinstance(value, str | bool | int | float):
            raise DataTypeError(
                f"the label {brief(value)} ({type(value).__name__}) cannot be saved: "
                "use text, numbers or booleans."
            )
    longest = classes.dtype.itemsize // 4 if classes.dtype.kind == "U" else 0
    if longest > _LONGEST_LABEL or longest * len(classes) > MOST_LABEL_BYTES // 4:
        raise DataTypeError(
            f"{len(classes)} labels of up to {longest} letters are too long for a model file: "
            "give classes shorter names."
        )
    name = "O" if classes.dtype.kind == "O" else classes.dtype.newbyteorder("<").str
    return {"dtype": name, "values": values}


def labels_from_record(record: Any, n_classes: int) -> AnyArray:
    """Return labels from a record of any source: the inverse of :func:`labels_to_record`."""
    try:
        name, values = record["dtype"], record["values"]
        if not isinstance(values, list) or len(values) != n_classes:
            raise ValueError("wrong number of labels")
        dtype = _dtype(name, n_classes)
        if not all(isinstance(value, str | bool | int | float) for value in values):
            raise ValueError("a label is neither text nor number")
        classes = np.array(values, dtype=dtype)
        if classes.shape != (n_classes,) or classes.tolist() != values:
            raise ValueError("labels do not fit their type")
        if len(set(values)) != n_classes or sorted(values) != values:
            raise ValueError("labels are not sorted")
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ModelFormatError(f"the classes in the model file are malformed: {error}.") from None
    return classes


def _dtype(name: Any, n_labels: int) -> np.dtype[Any]:
    """Return the dtype of a name without calling NumPy's parser, which wraps large lengths."""
    if name == "O":
        return np.dtype(object)
    if not isinstance(name, str) or not _LABEL_TYPE.fullmatch(name):
        raise ValueError(f"unknown type {str(name)[:40]!r}")
    if name.startswith("<U"):
        letters = int(name[2:])
        if letters > _LONGEST_LABEL or 4 * letters * n_labels > MOST_LABEL_BYTES:
            raise ValueError("labels are too long")
    return np.dtype(name).newbyteorder("=")
