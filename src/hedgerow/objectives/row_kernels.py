"""Derivatives of losses of one row: a compiled loop for each.

All loops have the same arguments: targets, raw scores of one output, the parameters of the
loss, and the outputs g and h.  Python calls them by their numbers (:func:`row_derivatives`).

Where the second derivative does not suit a Newton step, another value replaces it:

huber         1, the value near the target, because it is 0 far away
pseudo_huber  g / (raw - y), the weight of iteratively reweighted least squares, which
    fair          is an upper bound: a Newton step then lowers the loss and never
    log_cosh      overshoots the target; the second derivative is nearly 0 far away
focal         second derivative of the logistic loss times the focal factor, if larger:
                  misclassified rows have a negative second derivative
hinge, mape   1, because it is 0 wherever it exists; leaves use a line search
    quantile
"""

from __future__ import annotations

import math

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.compile import kernel
from hedgerow.kernels.primitives.exponential import exponential
from hedgerow.objectives.derivatives import SMALLEST_HESSIAN

FARTHEST_LOG = 240.0
"""Logarithms of means are clipped here: above those of the largest targets, e**230 or 1e100.

A row whose mean is clipped below its target would be raised in each round, without end.
"""

MOST = 1e140
"""Largest derivative, so that squares of sums of derivatives are finite."""

NO_NUMBERS = np.zeros(0)
"""Parameters of losses that have none."""

# Numbers of the loops.
(
    HUBER,
    PSEUDO_HUBER,
    FAIR,
    LOG_COSH,
    EXPECTILE,
    QUANTILE,
    MAPE,
    SQUARED_LOG_ERROR,
    POISSON,
    GAMMA,
    TWEEDIE,
    ONE_CLASS,
    FOCAL,
    HINGE,
) = range(14)


@kernel(inner=True)
def huber(
    target: FloatArray, raw: FloatArray, numbers: FloatArray, g: FloatArray, h: FloatArray
) -> None:
    """Write g and h of ``r**2 / 2`` up to |r| = delta, then linear; r = raw - y."""
    delta = numbers[0]
    for i in range(len(g)):
        g[i] = min(max(raw[i] - target[i], -delta), delta)
        h[i] = 1.0


@kernel(inner=True)
def pseudo_huber(
    target: FloatArray, raw: FloatArray, numbers: FloatArray, g: FloatArray, h: FloatArray
) -> None:
    """Write g and h of ``delta**2 (sqrt(1 + (r / delta)**2) - 1)``."""
    delta = numbers[0]
    for i in range(len(g)):
        r = raw[i] - target[i]
        slope = 1.0 / math.sqrt(1.0 + (r / delta) * (r / delta))
        g[i] = r * slope
        h[i] = max(slope, SMALLEST_HESSIAN)


@kernel(inner=True)
def fair(
    target: FloatArray, raw: FloatArray, numbers: FloatArray, g: FloatArray, h: FloatArray
) -> None:
    """Write g and h of ``delta**2 (|r| / delta - log(1 + |r| / delta))``."""
    delta = numbers[0]
    for i in range(len(g)):
        r = raw[i] - target[i]
        slope = delta / (abs(r) + delta)
        g[i] = r * slope
        h[i] = max(slope, SMALLEST_HESSIAN)


@kernel(inner=True)
def log_cosh(
    target: FloatArray, raw: FloatArray, numbers: FloatArray, g: FloatArray, h: FloatArray
) -> None:
    """Write g and h of ``log cosh r``; g = tanh r."""
    for i in range(len(g)):
        r = raw[i] - target[i]
        size = abs(r)
        # Near 0 use the series, because 1 - exp(-2 size) loses digits there.
        e = exponential(-2.0 * size)
        tanh = (1.0 - e) / (1.0 + e) if size > 1e-3 else size - size * size * size / 3.0
        g[i] = tanh if r > 0.0 else -tanh
        h[i] = max(tanh / size if size > 0.0 else 1.0, SMALLEST_HESSIAN)


@kernel(inner=True)
def expectile(
    target: FloatArray, raw: FloatArray, numbers: FloatArray, g: FloatArray, h: FloatArray
) -> None:
    """Write g and h of ``level r**2`` below the target, ``(1 - level) r**2`` above."""
    level = numbers[0]
    for i in range(len(g)):
        r = raw[i] - target[i]
        factor = 2.0 * (1.0 - level) if r > 0.0 else 2.0 * level
        g[i] = factor * r
        h[i] = factor


@kernel(inner=True)
def quantile(
    target: FloatArray, raw: FloatArray, numbers: FloatArray, g: FloatArray, h: FloatArray
) -> None:
    """Write g and h of the pinball loss."""
    level = numbers[0]
    for i in range(len(g)):
        r = raw[i] - target[i]
        g[i] = 1.0 - level if r > 0.0 else (-level if r < 0.0 else 0.0)
        h[i] = 1.0


@kernel(inner=True)
def mape(
    target: FloatArray, raw: FloatArray, numbers: FloatArray, g: FloatArray, h: FloatArray
) -> None:
    """Write g and h of ``|r| / |y|``."""
    for i in range(len(g)):
        size = 1.0 / abs(target[i])
        r = raw[i] - target[i]
        g[i] = size if r > 0.0 else (-size if r < 0.0 else 0.0)
        h[i] = 1.0


@kernel(inner=True)
def squared_log_error(
    target: FloatArray, raw: FloatArray, numbers: FloatArray, g: FloatArray, h: FloatArray
) -> None:
    """Write g and h of ``(raw - log(1 + y))**2 / 2``."""
    for i in range(len(g)):
        g[i] = raw[i] - math.log1p(target[i])
        h[i] = 1.0


@kernel(inner=True)
def poisson(
    target: FloatArray, raw: FloatArray, numbers: FloatArray, g: FloatArray, h: FloatArray
) -> None:
    """Write g and h of ``exp(raw) - y raw``."""
    for i in range(len(g)):
        mean = exponential(min(raw[i], FARTHEST_LOG))
        g[i] = mean - target[i]
        h[i] = max(mean, SMALLEST_HESSIAN)


@kernel(inner=True)
def gamma(
    target: FloatArray, raw: FloatArray, numbers: FloatArray, g: FloatArray, h: FloatArray
) -> None:
    """Write g and h of ``y exp(-raw) + raw``."""
    for i in range(len(g)):
        ratio = min(target[i] * exponential(-raw[i]), MOST)
        g[i] = 1.0 - ratio
        h[i] = max(ratio, SMALLEST_HESSIAN)


@kernel(inner=True)
def tweedie(
    target: FloatArray, raw: FloatArray, numbers: FloatArray, g: FloatArray, h: FloatArray
) -> None:
    """Write g and h of ``-y exp((1 - p) raw) / (1 - p) + exp((2 - p) raw) / (2 - p)``."""
    a, b = 1.0 - numbers[0], 2.0 - numbers[0]
    for i in range(len(g)):
        up = exponential(min(b * raw[i], FARTHEST_LOG))
        down = min(target[i] * exponential(a * raw[i]), MOST)
        g[i] = up - down
        h[i] = max(b * up - a * down, SMALLEST_HESSIAN)


@kernel(inner=True)
def one_class(
    target: FloatArray, raw: FloatArray, numbers: FloatArray, g: FloatArray, h: FloatArray
) -> None:
    """Write g and h of the logistic loss of one class against all others."""
    label = numbers[0]
    for i in range(len(g)):
        p = 1.0 / (1.0 + exponential(-raw[i]))
        g[i] = p - (1.0 if target[i] == label else 0.0)
        h[i] = max(p * (1.0 - p), SMALLEST_HESSIAN)


@kernel(inner=True)
def focal(
    target: FloatArray, raw: FloatArray, numbers: FloatArray, g: FloatArray, h: FloatArray
) -> None:
    """Write g and h of ``-a (1 - p)**gamma log p``; true class: probability p, weight a."""
    power, of_one, of_zero = numbers[0], numbers[1], numbers[2]
    for i in range(len(g)):
        sign = 2.0 * target[i] - 1.0
        factor = of_one if sign > 0.0 else of_zero
        m = sign * raw[i]
        # log p = -log(1 + exp(-m)) without overflow, and q = 1 - p without cancellation.
        e = exponential(-abs(m))
        log_p = min(m, 0.0) - math.log1p(e)
        p = 1.0 / (1.0 + e) if m > 0.0 else e / (1.0 + e)
        q = e / (1.0 + e) if m > 0.0 else 1.0 / (1.0 + e)
        share = factor * q**power
        g[i] = sign * share * (power * p * log_p - q)
        curvature = q * (1.0 + 2.0 * power) + power * log_p * (q - power * p)
        h[i] = max(share * p * max(curvature, q), SMALLEST_HESSIAN)


@kernel(inner=True)
def hinge(
    target: FloatArray, raw: FloatArray, numbers: FloatArray, g: FloatArray, h: FloatArray
) -> None:
    """Write g and h of ``max(0, 1 - s raw)``, s = -1 or 1."""
    for i in range(len(g)):
        sign = 2.0 * target[i] - 1.0
        g[i] = -sign if sign * raw[i] < 1.0 else 0.0
        h[i] = 1.0


@kernel
def row_derivatives(
    loss: int,
    target: FloatArray,
    raw: FloatArray,
    numbers: FloatArray,
    g: FloatArray,
    h: FloatArray,
) -> None:
    """Write g and h of the loss of this number."""
    if loss == HUBER:
        huber(target, raw, numbers, g, h)
    elif loss == PSEUDO_HUBER:
        pseudo_huber(target, raw, numbers, g, h)
    elif loss == FAIR:
        fair(target, raw, numbers, g, h)
    elif loss == LOG_COSH:
        log_cosh(target, raw, numbers, g, h)
    elif loss == EXPECTILE:
        expectile(target, raw, numbers, g, h)
    elif loss == QUANTILE:
        quantile(target, raw, numbers, g, h)
    elif loss == MAPE:
        mape(target, raw, numbers, g, h)
    elif loss == SQUARED_LOG_ERROR:
        squared_log_error(target, raw, numbers, g, h)
    elif loss == POISSON:
        poisson(target, raw, numbers, g, h)
    elif loss == GAMMA:
        gamma(target, raw, numbers, g, h)
    elif loss == TWEEDIE:
        tweedie(target, raw, numbers, g, h)
    elif loss == ONE_CLASS:
        one_class(target, raw, numbers, g, h)
    elif loss == FOCAL:
        focal(target, raw, numbers, g, h)
    else:
        hinge(target, raw, numbers, g, h)
