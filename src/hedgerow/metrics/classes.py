"""Scores of classes: of their probabilities, of margins, and of the confusion matrix.

Glossary
--------
calibration   a share p of the rows with predicted probability p should belong to the class
margin        raw score of the true class minus the largest of the others; for one raw
              score, that score with the sign of the class
table         weight of the rows of true class i predicted as class j; the
              predicted class is the most probable one, the first of equal ones
precision     share of the rows predicted as a class that belong to it
recall        share of the rows of a class that are predicted as this class
F1            harmonic mean of both: 2 hits / (predicted + true)
macro         unweighted mean over the classes        micro     of all rows together
weighted      mean over the classes by their weight

A share of nothing is 0, as in scikit-learn; classes that neither occur nor are predicted
are left out of means.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import xlog1py, xlogy

from hedgerow.arrays import FloatArray
from hedgerow.errors import DataError

_LEAST = 1e-12
"""Distance of predicted shares from 0 and 1, at least, as in LightGBM."""


def brier_scores(y_true: FloatArray, prediction: FloatArray) -> FloatArray:
    """Return squared errors of each row's probabilities; for two classes, of the second class."""
    if prediction.shape[1] == 2:
        return np.asarray((prediction[:, 1] - y_true) ** 2)
    chosen = prediction[np.arange(len(y_true)), y_true.astype(np.intp)]
    return np.asarray((prediction**2).sum(axis=1) - 2.0 * chosen + 1.0)


def misses_at(threshold: float, y_true: FloatArray, prediction: FloatArray) -> FloatArray:
    """Return 1 for each row on the wrong side of a threshold on the probability of class 1."""
    return np.asarray(((prediction[:, 1] > threshold) != y_true).astype(np.float64))


def top_misses(k: float, y_true: FloatArray, prediction: FloatArray) -> FloatArray:
    """Return 1 for each row whose class is not among the ``k`` most probable classes."""
    # Classes with the same probability as the true one rank before it, as in LightGBM.
    chosen = prediction[np.arange(len(y_true)), y_true.astype(np.intp)]
    rank = (prediction >= chosen[:, None]).sum(axis=1)
    return np.asarray((rank > k).astype(np.float64))


def top_hits(k: float, y_true: FloatArray, prediction: FloatArray) -> FloatArray:
    """Return 1 minus :func:`top_misses`."""
    return 1.0 - top_misses(k, y_true, prediction)


def cross_entropies(y_true: FloatArray, prediction: FloatArray) -> FloatArray:
    """Return ``-y log m - (1 - y) log(1 - m)`` of each row, for shares y."""
    outside = ~((y_true >= 0.0) & (y_true <= 1.0))
    if outside.any():
        row = int(np.argmax(outside))
        raise DataError(
            f"metric 'cross_entropy' needs targets from 0 to 1, but row {row} has "
            f"{float(y_true[row])!r}: use another eval_metric."
        ).at(row)
    inside = np.clip(prediction, _LEAST, 1.0 - _LEAST)
    return np.asarray(-y_true * np.log(inside) - (1.0 - y_true) * np.log1p(-inside))


def divergences(y_true: FloatArray, prediction: FloatArray) -> FloatArray:
    """Return each row's Kullback-Leibler divergence: excess cross-entropy over the optimum."""
    own = xlogy(y_true, y_true) + xlog1py(1.0 - y_true, -y_true)
    return np.asarray(cross_entropies(y_true, prediction) + own)


def hinge_losses(y_true: FloatArray, raw: FloatArray) -> FloatArray:
    """Return ``max(0, 1 - margin)`` of each row, for raw scores of shape (n_outputs, n_rows)."""
    if len(raw) == 1:
        return np.asarray(np.maximum(0.0, 1.0 - (2.0 * y_true - 1.0) * raw[0]))
    if len(raw) == 2:
        return hinge_losses(y_true, raw[1:] - raw[:1])
    rows, chosen = np.arange(len(y_true)), y_true.astype(np.intp)
    others = raw.T.copy()
    others[rows, chosen] = -np.inf
    return np.asarray(np.maximum(0.0, 1.0 - (raw.T[rows, chosen] - others.max(axis=1))))


def calibration_error(
    bins: float, y_true: FloatArray, prediction: FloatArray, weight: FloatArray | None = None
) -> float:
    """Return the mean distance of probability and share, over bins of equal width."""
    # Guo et al. 2017; of more than two classes, the most probable.  Bins contain their lower edge.
    if prediction.shape[1] == 2:
        said, seen = prediction[:, 1], y_true
    else:
        said = prediction.max(axis=1)
        seen = (prediction.argmax(axis=1) == y_true).astype(np.float64)
    mass, n_bins = np.ones(len(said)) if weight is None else weight, int(bins)
    place = np.minimum((said * n_bins).astype(np.intp), n_bins - 1)
    gaps = np.bincount(place, mass * (seen - said), n_bins)
    return float(np.abs(gaps).sum() / mass.sum())


def of_table(
    summary: Callable[[FloatArray], float],
    y_true: FloatArray,
    prediction: FloatArray,
    weight: FloatArray | None = None,
) -> float:
    """Return the summary of the table."""
    n_classes = prediction.shape[1]
    cell = y_true.astype(np.intp) * n_classes + prediction.argmax(axis=1)
    counts = np.bincount(cell, weight, n_classes * n_classes)
    return summary(counts.reshape(n_classes, n_classes).astype(np.float64))


def class_score(kind: str, averaging: str, table: FloatArray) -> float:
    """Return precision, recall or F1 of class 1 (``"second"``), or averaged over the classes."""
    hits, true, predicted = table.diagonal(), table.sum(axis=1), table.sum(axis=0)
    if averaging == "micro":
        hits, true, predicted = hits.sum(), true.sum(), predicted.sum()
    below = {"precision": predicted, "recall": true, "f1": 0.5 * (true + predicted)}[kind]
    below = np.atleast_1d(below)
    scores = np.divide(np.atleast_1d(hits), below, out=np.zeros(len(below)), where=below > 0.0)
    if averaging == "second":
        return float(scores[1])
    if averaging == "micro":
        return float(scores[0])
    if averaging == "weighted":
        return float((scores * true).sum() / true.sum())
    return float(scores[(true > 0.0) | (predicted > 0.0)].mean())


def balanced_accuracy(table: FloatArray) -> float:
    """Return the mean recall of the classes that occur."""
    true = table.sum(axis=1)
    return float((table.diagonal()[true > 0.0] / true[true > 0.0]).mean())


def matthews(table: FloatArray) -> float:
    """Return the correlation of true and predicted class (Matthews 1975, Gorodkin 2004)."""
    total, true, predicted = table.sum(), table.sum(axis=1), table.sum(axis=0)
    together = table.diagonal().sum() * total - (true * predicted).sum()
    spread = (total**2 - (true**2).sum()) * (total**2 - (predicted**2).sum())
    return float(together / np.sqrt(spread)) if spread > 0.0 else 0.0


def kappa(table: FloatArray) -> float:
    """Return the agreement beyond chance (Cohen 1960)."""
    total = table.sum()
    chance = (table.sum(axis=1) * table.sum(axis=0)).sum() / total
    seen = table.diagonal().sum()
    return float((seen - chance) / (total - chance)) if total > chance else 0.0
