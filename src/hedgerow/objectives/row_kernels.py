"""Derivatives of losses of one row: a kernel for each, which returns g and h.

The arguments are the target ``y``, the raw score of one output, and the parameters of the loss.
Python calls the kernels by their numbers (:func:`row_derivatives`).

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

from hedgerow import kernel_types as kt
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

# Numbers of the losses.
HUBER, PSEUDO_HUBER, FAIR, LOG_COSH, EXPECTILE, QUANTILE, MAPE = range(7)
SQUARED_LOG_ERROR, POISSON, GAMMA, TWEEDIE, ONE_CLASS, FOCAL, HINGE = range(7, 14)


@kernel(inline=True, inner=True)
def huber(y: float, raw: float, delta: float) -> tuple[float, float]:
    """``r**2 / 2`` up to |r| = delta, then linear; r = raw - y."""
    return min(max(raw - y, -delta), delta), 1.0


@kernel(inline=True, inner=True)
def pseudo_huber(y: float, raw: float, delta: float) -> tuple[float, float]:
    """``delta**2 (sqrt(1 + (r / delta)**2) - 1)``."""
    r = raw - y
    slope = 1.0 / math.sqrt(1.0 + (r / delta) * (r / delta))
    return r * slope, max(slope, SMALLEST_HESSIAN)


@kernel(inline=True, inner=True)
def fair(y: float, raw: float, delta: float) -> tuple[float, float]:
    """``delta**2 (|r| / delta - log(1 + |r| / delta))``."""
    r = raw - y
    slope = delta / (abs(r) + delta)
    return r * slope, max(slope, SMALLEST_HESSIAN)


@kernel(inline=True, inner=True)
def log_cosh(y: float, raw: float) -> tuple[float, float]:
    """``log cosh r``; g = tanh r."""
    r = raw - y
    size = abs(r)
    # Near 0 use the series, because 1 - exp(-2 size) loses digits there.
    e = exponential(-2.0 * size)
    tanh = (1.0 - e) / (1.0 + e) if size > 1e-3 else size - size * size * size / 3.0
    h = max(tanh / size if size > 0.0 else 1.0, SMALLEST_HESSIAN)
    return tanh if r > 0.0 else -tanh, h


@kernel(inline=True, inner=True)
def expectile(y: float, raw: float, level: float) -> tuple[float, float]:
    """``level r**2`` below the target, ``(1 - level) r**2`` above."""
    r = raw - y
    factor = 2.0 * (1.0 - level) if r > 0.0 else 2.0 * level
    return factor * r, factor


@kernel(inline=True, inner=True)
def quantile(y: float, raw: float, level: float) -> tuple[float, float]:
    """Pinball loss."""
    r = raw - y
    return 1.0 - level if r > 0.0 else (-level if r < 0.0 else 0.0), 1.0


@kernel(inline=True, inner=True)
def mape(y: float, raw: float) -> tuple[float, float]:
    """``|r| / |y|``."""
    size, r = 1.0 / abs(y), raw - y
    return size if r > 0.0 else (-size if r < 0.0 else 0.0), 1.0


@kernel(inline=True, inner=True)
def squared_log_error(y: float, raw: float) -> tuple[float, float]:
    """``(raw - log(1 + y))**2 / 2``."""
    return raw - math.log1p(y), 1.0


@kernel(inline=True, inner=True)
def poisson(y: float, raw: float) -> tuple[float, float]:
    """``exp(raw) - y raw``."""
    mean = exponential(min(raw, FARTHEST_LOG))
    return mean - y, max(mean, SMALLEST_HESSIAN)


@kernel(inline=True, inner=True)
def gamma(y: float, raw: float) -> tuple[float, float]:
    """``y exp(-raw) + raw``."""
    ratio = min(y * exponential(-raw), MOST)
    return 1.0 - ratio, max(ratio, SMALLEST_HESSIAN)


@kernel(inline=True, inner=True)
def tweedie(y: float, raw: float, power: float) -> tuple[float, float]:
    """``-y exp((1 - p) raw) / (1 - p) + exp((2 - p) raw) / (2 - p)``."""
    a, b = 1.0 - power, 2.0 - power
    up = exponential(min(b * raw, FARTHEST_LOG))
    down = min(y * exponential(a * raw), MOST)
    return up - down, max(b * up - a * down, SMALLEST_HESSIAN)


@kernel(inline=True, inner=True)
def one_class(y: float, raw: float, label: float) -> tuple[float, float]:
    """Logistic loss of one class against all others."""
    p = 1.0 / (1.0 + exponential(-raw))
    return p - (1.0 if y == label else 0.0), max(p * (1.0 - p), SMALLEST_HESSIAN)


@kernel(inline=True, inner=True)
def focal(y: float, raw: float, power: float, of_one: float, of_zero: float) -> tuple[float, float]:
    """``-a (1 - p)**gamma log p``; true class: probability p, weight a."""
    sign = 2.0 * y - 1.0
    factor = of_one if sign > 0.0 else of_zero
    m = sign * raw
    # log p = -log(1 + exp(-m)) without overflow, and q = 1 - p without cancellation.
    e = exponential(-abs(m))
    log_p = min(m, 0.0) - math.log1p(e)
    p = 1.0 / (1.0 + e) if m > 0.0 else e / (1.0 + e)
    q = e / (1.0 + e) if m > 0.0 else 1.0 / (1.0 + e)
    share = factor * q**power
    curvature = q * (1.0 + 2.0 * power) + power * log_p * (q - power * p)
    h = max(share * p * max(curvature, q), SMALLEST_HESSIAN)
    return sign * share * (power * p * log_p - q), h


@kernel(inline=True, inner=True)
def hinge(y: float, raw: float) -> tuple[float, float]:
    """``max(0, 1 - s raw)``, s = -1 or 1."""
    sign = 2.0 * y - 1.0
    return -sign if sign * raw < 1.0 else 0.0, 1.0


@kernel
def row_derivatives(
    loss: int,
    target: kt.ReadOnly[kt.Float64_1D],
    raw: kt.ReadOnly[kt.Float64_1D],
    numbers: kt.ReadOnly[kt.Float64_1D],
    g: kt.Float64_1D,
    h: kt.Float64_1D,
) -> None:
    """Write g and h of the loss of this number."""
    n, a = len(g), numbers[0] if len(numbers) > 0 else 0.0
    b, c = (numbers[1], numbers[2]) if len(numbers) > 2 else (0.0, 0.0)
    if loss == HUBER:
        for i in range(n):
            g[i], h[i] = huber(target[i], raw[i], a)
    elif loss == PSEUDO_HUBER:
        for i in range(n):
            g[i], h[i] = pseudo_huber(target[i], raw[i], a)
    elif loss == FAIR:
        for i in range(n):
            g[i], h[i] = fair(target[i], raw[i], a)
    elif loss == LOG_COSH:
        for i in range(n):
            g[i], h[i] = log_cosh(target[i], raw[i])
    elif loss == EXPECTILE:
        for i in range(n):
            g[i], h[i] = expectile(target[i], raw[i], a)
    elif loss == QUANTILE:
        for i in range(n):
            g[i], h[i] = quantile(target[i], raw[i], a)
    elif loss == MAPE:
        for i in range(n):
            g[i], h[i] = mape(target[i], raw[i])
    elif loss == SQUARED_LOG_ERROR:
        for i in range(n):
            g[i], h[i] = squared_log_error(target[i], raw[i])
    elif loss == POISSON:
        for i in range(n):
            g[i], h[i] = poisson(target[i], raw[i])
    elif loss == GAMMA:
        for i in range(n):
            g[i], h[i] = gamma(target[i], raw[i])
    elif loss == TWEEDIE:
        for i in range(n):
            g[i], h[i] = tweedie(target[i], raw[i], a)
    elif loss == ONE_CLASS:
        for i in range(n):
            g[i], h[i] = one_class(target[i], raw[i], a)
    elif loss == FOCAL:
        for i in range(n):
            g[i], h[i] = focal(target[i], raw[i], a, b, c)
    else:
        for i in range(n):
            g[i], h[i] = hinge(target[i], raw[i])
