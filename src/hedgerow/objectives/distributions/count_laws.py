"""Probabilities of Poisson and negative binomial distributions, to nearly full precision.

The usual forms lose digits: a difference of logarithms of gamma functions of 1e12 has an
error of 1e-3.  This module uses the saddle-point expansion instead (Loader 2000)::

    Poisson     exp(-stirling(k) - deviance(k, rate)) / sqrt(2 pi k)

where ``stirling`` is the error of Stirling's formula, and ``deviance`` is computed from the
difference of its arguments.

Half the mean difference of two draws of a negative binomial distribution of mean m and size
r is ``m (1 + m / r) H`` (Wei and Held 2014), with H hypergeometric::

    x = 4 (m / r) (1 + m / r)
    H = 2F1(r + 1, 1/2; 2; -x) = 4 / pi * integral over a from 0 to pi / 2 of
                                 cos(a)**2 (1 + x sin(a)**2)**-(r + 1)

For sizes up to 10, SciPy's hypergeometric function has full precision.  Above, the
trapezoidal rule computes the integral, with negligible error for a periodic function.  A
narrow integrand is computed in the variable v that makes it Gaussian:
``v**2 = (r + 1) log(1 + x sin(a)**2)``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import special

from hedgerow.arrays import BoolArray, FloatArray, IntArray

_SMALL_SIZE = 10.0
_NARROW = 40.0
"""Value of v**2 at the end of the range above which the remaining integral is negligible."""
_ANGLES = 96
_STEPS, _END = 28, 6.6
_SERIES = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)
_LARGEST_SEARCHED = 1e15
_MOST_STEPS = 1100
HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


def stirling(count: FloatArray) -> FloatArray:
    """Return ``log gamma(n + 1) - ((n + 1/2) log n - n + log(2 pi) / 2)``, for n above 0."""
    large = np.maximum(count, 15.0)
    square = 1.0 / (large * large)
    series = np.zeros(np.shape(count))
    for factor in reversed(_SERIES):
        series = series * square + factor
    small = np.clip(count, 1e-300, 15.0)
    direct = special.gammaln(small + 1.0) - (small + 0.5) * np.log(small) + small - HALF_LOG_2PI
    return np.where(count > 15.0, series / large, direct)


def deviance(count: FloatArray, mean: FloatArray, difference: FloatArray) -> FloatArray:
    """Return ``n log(n / m) + m - n``, for n and m above 0; ``difference`` is ``n - m``."""
    v = difference / (count + mean)
    near = np.abs(v) < 0.1
    small = np.where(near, v, 0.0)
    series = np.zeros(np.shape(v))
    for power in range(19, 1, -2):
        series = (series + 1.0 / power) * small * small
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        far = count * np.log(count / mean) - difference
    return np.where(near, difference * small + 2.0 * count * small * series, far)


def poisson_log_probability(count: FloatArray, rate: FloatArray) -> FloatArray:
    """Return the log probability of each ``count``; -inf unless it is a whole number >= 0."""
    k = np.maximum(count, 1.0)
    power = stirling(k) + deviance(k, rate, k - rate)
    found = -power - 0.5 * np.log(2.0 * math.pi * k)
    return _of_counts(count, found, -rate)


def poisson_cdf(count: FloatArray, rate: FloatArray) -> FloatArray:
    """Return the probability of at most ``count``."""
    whole = np.floor(count)
    return np.where(whole < 0.0, 0.0, special.gammaincc(np.maximum(whole, 0.0) + 1.0, rate))


def poisson_quantile(p: FloatArray, rate: FloatArray) -> FloatArray:
    """Return the smallest count with a cumulative probability of at least ``p``."""
    guess = _about(p, rate, rate, 1.0 / np.sqrt(np.maximum(rate, 1e-300)))
    # For larger rates, the error of the guess is less than the distance of adjacent floats.
    sure = rate > _LARGEST_SEARCHED
    found = _smallest(poisson_cdf, p, np.where(sure, 0.0, guess), [np.where(sure, 1.0, rate)])
    return np.where(sure, guess, found)


def poisson_mean_difference(rate: FloatArray) -> FloatArray:
    """Return half the mean difference of two draws."""
    return np.asarray(rate * (special.i0e(2.0 * rate) + special.i1e(2.0 * rate)))


def binomial_log_probability(count: FloatArray, rate: FloatArray, size: FloatArray) -> FloatArray:
    """Return the log probability of a negative binomial distribution."""
    k, total = np.maximum(count, 1.0), size + rate
    gap = (k - rate) * (size / total)  # between k and its expected value for k + size
    power = stirling(k) + stirling(size) - stirling(k + size)
    power = power + deviance(k, (k + size) * (rate / total), gap)
    power = power + deviance(size, (k + size) * (size / total), -gap)
    found = -power - 0.5 * (np.log(2.0 * math.pi * k) + np.log1p(k / size))
    return _of_counts(count, found, -size * np.log1p(rate / size))


def _of_counts(count: FloatArray, above: FloatArray, at_0: FloatArray) -> FloatArray:
    """Return ``at_0`` for 0, ``above`` for other counts, and -inf for other numbers."""
    found = np.where(count == 0.0, at_0, above)
    possible = (count >= 0.0) & (count < np.inf) & (count == np.floor(count))
    return np.where(possible | np.isnan(count), found, -np.inf)


def binomial_cdf(count: FloatArray, rate: FloatArray, size: FloatArray) -> FloatArray:
    """Return the probability of at most ``count`` of a negative binomial distribution."""
    whole = np.floor(count)
    k, total = np.maximum(whole, 0.0) + 1.0, size + rate
    # The smaller of the probabilities of success and failure has full precision.
    found = np.where(
        size < rate,
        special.betainc(size, k, size / total),
        special.betaincc(k, size, rate / total),
    )
    return np.where(whole < 0.0, 0.0, found)


def binomial_quantile(p: FloatArray, rate: FloatArray, size: FloatArray) -> FloatArray:
    """Return the smallest count with a cumulative probability of at least ``p``."""
    variance = rate * (1.0 + rate / size)
    skewness = (1.0 + 2.0 * rate / size) / np.sqrt(variance)
    guess = _about(p, rate, variance, skewness)
    # A negative binomial distribution is a mixture of Poissons with gamma distributed rates.
    mixed = np.ceil(special.gammaincinv(np.minimum(size, 1e3), p) * (rate / size) - 0.5)
    guess = np.where(skewness > 0.5, np.maximum(mixed, 0.0), guess)
    return _smallest(binomial_cdf, p, guess, [rate, size])


def _about(p: FloatArray, mean: FloatArray, variance: FloatArray, skewness: Any) -> FloatArray:
    """Return the Cornish-Fisher expansion of the quantile, at least 0."""
    z = special.ndtri(p)
    far = z + skewness * (z * z - 1.0) / 6.0
    return np.maximum(np.ceil(mean + np.sqrt(variance) * far - 0.5), 0.0)


def _smallest(
    cdf: Callable[..., FloatArray],
    p: FloatArray,
    guess: FloatArray,
    parameters: Sequence[FloatArray],
) -> FloatArray:
    """Search outwards from a guess for the smallest count with ``cdf(count, ...) >= p``."""
    p, guess, *given = np.broadcast_arrays(p, guess, *parameters)
    goal, of_rows = p.ravel(), [column.ravel() for column in given]

    def reaches(count: FloatArray, rows: IntArray) -> BoolArray:
        found = cdf(count, *(column[rows] for column in of_rows))
        return np.asarray(found >= goal[rows])

    high = guess.ravel().copy()
    low, step = high.copy(), np.maximum(1.0, np.spacing(high))
    rows = np.arange(len(high))
    for _ in range(_MOST_STEPS):  # up
        rows = rows[~reaches(high[rows], rows)]
        low[rows], high[rows] = high[rows], high[rows] + step[rows]
        step[rows] *= 2.0
        if len(rows) == 0:
            break
    rows = np.flatnonzero(low == high)
    for _ in range(_MOST_STEPS):  # down
        high[rows], low[rows] = low[rows], np.maximum(low[rows] - step[rows], -1.0)
        step[rows] *= 2.0
        rows = rows[low[rows] >= 0.0]
        rows = rows[reaches(low[rows], rows)]
        if len(rows) == 0:
            break
    rows = np.arange(len(high))
    for _ in range(_MOST_STEPS):  # between
        middle = np.floor(0.5 * low[rows] + 0.5 * high[rows])
        between = (middle > low[rows]) & (middle < high[rows])
        rows, middle = rows[between], middle[between]
        if len(rows) == 0:
            break
        enough = reaches(middle, rows)
        high[rows[enough]], low[rows[~enough]] = middle[enough], middle[~enough]
    return high.reshape(guess.shape)


def binomial_mean_difference(rate: FloatArray, size: FloatArray) -> FloatArray:
    """Return half the mean difference of two draws of a negative binomial distribution."""
    rate, size = np.broadcast_arrays(rate, size)
    odds = rate / size * (1.0 + rate / size)
    found = np.empty(rate.shape)
    small = size <= _SMALL_SIZE
    found[small] = special.hyp2f1(size[small] + 1.0, 0.5, 2.0, -4.0 * odds[small])
    end = (size + 1.0) * np.log1p(4.0 * odds)
    for rows, integral in ((end < _NARROW, _by_angles), (end >= _NARROW, _by_gaussian)):
        chosen = rows & ~small
        found[chosen] = integral(4.0 * odds[chosen], size[chosen] + 1.0)
    return rate * (1.0 + rate / size) * found


def _by_angles(x: FloatArray, power: FloatArray) -> FloatArray:
    total = np.full(x.shape, 0.5)  # at 0; at pi / 2 the integrand is 0
    for angle in np.arange(1, _ANGLES) * (0.5 * math.pi / _ANGLES):
        total += math.cos(angle) ** 2 * np.exp(-power * np.log1p(x * math.sin(angle) ** 2))
    return total * (2.0 / _ANGLES)


def _by_gaussian(x: FloatArray, power: FloatArray) -> FloatArray:
    step = _END / _STEPS
    total = np.full(x.shape, 0.5) * np.sqrt(power)  # at 0, where v / sqrt(...) has this limit
    for v in np.arange(1, _STEPS + 1) * step:
        less = np.expm1(v * v / power)
        share = np.minimum(less / x, 1.0)  # sin(a)**2
        total += np.sqrt(1.0 - share) * (v / np.sqrt(less)) * np.exp(v * v / power - v * v)
    return (4.0 / math.pi) * step * total / (power * np.sqrt(x))
