"""Scores of predicted classes, from the confusion matrix.

Glossary
--------
table      weight of the rows of true class i predicted as class j; the
           predicted class is the most probable one, the first of equal ones
precision  share of the rows predicted as a class that belong to it
recall     share of the rows of a class that are predicted as this class
F1         harmonic mean of both: 2 hits / (predicted + true)
macro      unweighted mean over the classes        micro     of all rows together
weighted   mean over the classes by their weight

A share of nothing is 0, as in scikit-learn; classes that neither occur nor are predicted
are left out of means.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hedgerow.arrays import FloatArray


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
