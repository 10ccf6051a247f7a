"""Accuracy and R2, for targets and weights that are checked like those of a fit."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import is_classifier

from hedgerow.arrays import AnyArray
from hedgerow.boosting.row_data.checks import check_weight
from hedgerow.boosting.row_data.targets import read_targets, require_target
from hedgerow.cuda.arrays import on_host
from hedgerow.errors import DataError, DataTypeError, brief
from hedgerow.estimators.labels import plain_labels, read_labels


class CheckedScores:
    """Mixin before those of scikit-learn, whose scores take arrays on the host only."""

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy of a classifier, or R2 of a regressor.

        Parameters
        ----------
        X, y, sample_weight : as for ``fit``

        Returns
        -------
        float
            1 is perfect.
        """
        of_rows = accuracy if is_classifier(self) else r2
        predicted = self.predict(X)  # type: ignore[attr-defined]
        return of_rows(type(self).__name__, y, predicted, sample_weight)


def accuracy(reader: str, y: Any, predicted: AnyArray, sample_weight: Any) -> float:
    """Return the weighted share of rows whose label, or all of whose labels, are predicted."""
    n_rows = len(predicted)
    require_target(y, reader)
    labels = plain_labels(on_host(y))
    if predicted.ndim == 2:
        labels = _of_shape(np.asarray(labels), predicted)
        right = (labels == predicted).all(axis=1)
    else:
        if getattr(labels, "shape", ())[1:] == (1,):
            labels = labels[:, 0]
        labels = read_labels(labels, n_rows, "y", reader)
        given, known = (each.tolist()[0] if n_rows > 0 else "" for each in (labels, predicted))
        if isinstance(given, str) != isinstance(known, str):
            raise DataTypeError(
                f"y holds labels such as {brief(given)}, but the model predicts classes such as "
                f"{brief(known)}: give labels of the type that it was trained on."
            )
        right = labels == predicted
    return float(np.average(right, weights=check_weight(sample_weight, n_rows)))


def r2(reader: str, y: Any, predicted: AnyArray, sample_weight: Any) -> float:
    """Return R2, for several targets the mean of theirs."""
    from sklearn.metrics import r2_score

    require_target(y, reader)
    target = _of_shape(read_targets(on_host(y), len(predicted)).values, predicted)
    weight = check_weight(sample_weight, len(predicted))
    return float(r2_score(target, predicted, sample_weight=weight))


def _of_shape(target: AnyArray, predicted: AnyArray) -> AnyArray:
    """Return the targets; raise ``DataError`` unless they have the shape of the predictions."""
    if target.shape != predicted.shape:
        expected, given = (
            f"{len(array)} rows of {array.shape[1:] or 'one value'}"
            for array in (predicted, target)
        )
        raise DataError(f"y must hold {expected}, as the model predicts; got {given}.")
    return target
