"""Scores of probabilities and of margins.

Glossary
--------
calibration   a share p of the rows with predicted probability p should belong to the class
margin        raw score of the true class minus the largest of the others; for one raw
              score, that score with the sign of the class
"""

from __future__ import annotations

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


def _check_shares(y_true: FloatArray) -> None:
    outside = ~((y_true >= 0.0) & (y_true <= 1.0))
    if outside.any():
        row = int(np.argmax(outside))
        raise DataError(
            f"metric 'cross_entropy' needs targets from 0 to 1, but row {row} has "
            f"{float(y_true[row])!r}: use another eval_metric."
        ).at(row)


def cross_entropies(y_true: FloatArray, prediction: FloatArray) -> FloatArray:
    """Return ``-y log m - (1 - y) log(1 - m)`` of each row, for shares y."""
    _check_shares(y_true)
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
    """Return the mean distance of probability and share, over bins of equal width.

    Guo et al. 2017; for two classes the probability of the second, for more that of the most
    probable class, and the share of rows that belong to it.  A bin contains its lower edge.
    """
    if prediction.shape[1] == 2:
        said, seen = prediction[:, 1], y_true
    else:
        said = prediction.max(axis=1)
        seen = (prediction.argmax(axis=1) == y_true).astype(np.float64)
    mass, n_bins = np.ones(len(said)) if weight is None else weight, int(bins)
    place = np.minimum((said * n_bins).astype(np.intp), n_bins - 1)
    gaps = np.bincount(place, mass * (seen - said), n_bins)
    return float(np.abs(gaps).sum() / mass.sum())
