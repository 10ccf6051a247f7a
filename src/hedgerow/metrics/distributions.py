"""Scores of distributions and of intervals.

=============  ======================================================  ======  ==========
name           what                                                    better  as a metric
=============  ======================================================  ======  ==========
``nll``        mean of -log density of the target (log score)          lower   yes
``crps``       mean continuous ranked probability score                lower   yes
``coverage``   share of the targets in their interval, ends included   level   no
``winkler``    width plus 2 / (1 - level) times the miss               lower   no
=============  ======================================================  ======  ==========

The first two are ``eval_metric`` of objectives with a distribution
(:mod:`hedgerow.objectives.distributions.losses`, and ``poisson``).  Both are proper: the true
distribution has the best expected score (Gneiting and Raftery 2007).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.errors import DataError
from hedgerow.kernels.primitives.exact_sum import weighted_mean
from hedgerow.objectives.distributions.predicted import Distribution, check_level


def nll(y_true: Any, distribution: Distribution, weight: Any = None) -> float:
    """Return the weighted mean of ``-log density`` of the targets.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,)
    distribution : Distribution
        As ``predict_distribution`` returns it.
    weight : array-like of shape (n_rows,), optional
    """
    return _mean(-distribution.log_pdf(y_true), weight)


def crps(y_true: Any, distribution: Distribution, weight: Any = None) -> float:
    """Return the weighted mean of the continuous ranked probability score.

    The parameters are the same as for :func:`nll`.
    """
    return _mean(distribution.crps(y_true), weight)


def coverage(y_true: Any, interval: Any, weight: Any = None) -> float:
    """Return the share of the targets inside their interval, ends included.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,)
    interval : array-like of shape (n_rows, 2)
        Lower and upper ends, as ``predict_interval`` returns them.
    weight : array-like of shape (n_rows,), optional

    Examples
    --------
    >>> from hedgerow.metrics.distributions import coverage
    >>> coverage([1.0, 5.0], [[0.0, 2.0], [0.0, 2.0]])
    0.5
    """
    y, low, high = _ends(y_true, interval)
    return _mean(((low <= y) & (y <= high)).astype(np.float64), weight)


def winkler(y_true: Any, interval: Any, level: float = 0.9, weight: Any = None) -> float:
    """Return the mean interval score (Winkler 1972), which penalises width and misses.

    Parameters
    ----------
    y_true : array-like of shape (n_rows,)
    interval : array-like of shape (n_rows, 2)
        Lower and upper ends, as ``predict_interval`` returns them.
    level : float, default=0.9
        Share of the targets that the intervals are meant to hold.
    weight : array-like of shape (n_rows,), optional
    """
    check_level(level)
    y, low, high = _ends(y_true, interval)
    missing = np.maximum(low - y, 0.0) + np.maximum(y - high, 0.0)
    return _mean(high - low + 2.0 / (1.0 - level) * missing, weight)


def _ends(y_true: Any, interval: Any) -> tuple[FloatArray, FloatArray, FloatArray]:
    y, ends = np.asarray(y_true, dtype=np.float64), np.asarray(interval, dtype=np.float64)
    if y.ndim != 1 or ends.shape != (len(y), 2):
        raise DataError(
            f"interval must have a lower and an upper end for each row of y_true, whose "
            f"shape is {y.shape}; it has shape {ends.shape}."
        )
    return y, ends[:, 0], ends[:, 1]


def _mean(values: FloatArray, weight: Any) -> float:
    """Return the weighted mean; values of rows with weight 0 are ignored, even infinite ones."""
    if weight is None:
        return weighted_mean(values)
    mass = np.ascontiguousarray(weight, dtype=np.float64)
    if mass.shape != values.shape:
        raise DataError(f"weight has shape {mass.shape} for {len(values)} rows of y_true.")
    if not mass.any():
        raise DataError(
            f"the weights of all {len(mass)} rows are 0: give one row a positive weight."
        )
    counts = mass != 0.0
    return weighted_mean(values[counts], mass[counts])
