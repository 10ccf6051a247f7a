"""Derivatives g and h of losses of one row, compiled: a branch of a kernel for each loss.

They are functions of the target ``y``, the raw score of one output, and the parameters of the loss.

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
    if loss == HUBER:  # r**2 / 2 up to |r| = a, then linear; r = raw - y
        for i in range(n):
            g[i], h[i] = min(max(raw[i] - target[i], -a), a), 1.0
    elif loss == PSEUDO_HUBER:  # a**2 (sqrt(1 + (r / a)**2) - 1)
        for i in range(n):
            r = raw[i] - target[i]
            slope = 1.0 / math.sqrt(1.0 + (r / a) * (r / a))
            g[i], h[i] = r * slope, max(slope, SMALLEST_HESSIAN)
    elif loss == FAIR:  # a**2 (|r| / a - log(1 + |r| / a))
        for i in range(n):
            r = raw[i] - target[i]
            slope = a / (abs(r) + a)
            g[i], h[i] = r * slope, max(slope, SMALLEST_HESSIAN)
    elif loss == LOG_COSH:  # log cosh r; g = tanh r
        for i in range(n):
            r = raw[i] - target[i]
            size = abs(r)
            # Near 0 use the series, because 1 - exp(-2 size) loses digits there.
            e = exponential(-2.0 * size)
            tanh = (1.0 - e) / (1.0 + e) if size > 1e-3 else size - size * size * size / 3.0
            g[i] = tanh if r > 0.0 else -tanh
            h[i] = max(tanh / size if size > 0.0 else 1.0, SMALLEST_HESSIAN)
    elif loss == EXPECTILE:  # a r**2 below the target, (1 - a) r**2 above
        for i in range(n):
            r = raw[i] - target[i]
            factor = 2.0 * (1.0 - a) if r > 0.0 else 2.0 * a
            g[i], h[i] = factor * r, factor
    elif loss == QUANTILE:  # pinball loss
        for i in range(n):
            r = raw[i] - target[i]
            g[i], h[i] = 1.0 - a if r > 0.0 else (-a if r < 0.0 else 0.0), 1.0
    elif loss == MAPE:  # |r| / |y|
        for i in range(n):
            size, r = 1.0 / abs(target[i]), raw[i] - target[i]
            g[i], h[i] = size if r > 0.0 else (-size if r < 0.0 else 0.0), 1.0
    elif loss == SQUARED_LOG_ERROR:  # (raw - log(1 + y))**2 / 2
        for i in range(n):
            g[i], h[i] = raw[i] - math.log1p(target[i]), 1.0
    elif loss == POISSON:  # exp(raw) - y raw
        for i in range(n):
            mean = exponential(min(raw[i], FARTHEST_LOG))
            g[i], h[i] = mean - target[i], max(mean, SMALLEST_HESSIAN)
    elif loss == GAMMA:  # y exp(-raw) + raw
        for i in range(n):
            ratio = min(target[i] * exponential(-raw[i]), MOST)
            g[i], h[i] = 1.0 - ratio, max(ratio, SMALLEST_HESSIAN)
    elif loss == TWEEDIE:  # -y exp((1 - a) raw) / (1 - a) + exp((2 - a) raw) / (2 - a)
        low, high = 1.0 - a, 2.0 - a
        for i in range(n):
            up = exponential(min(high * raw[i], FARTHEST_LOG))
            down = min(target[i] * exponential(low * raw[i]), MOST)
            g[i], h[i] = up - down, max(high * up - low * down, SMALLEST_HESSIAN)
    elif loss == ONE_CLASS:  # logistic loss of class a against all others
        for i in range(n):
            p = 1.0 / (1.0 + exponential(-raw[i]))
            g[i] = p - (1.0 if target[i] == a else 0.0)
            h[i] = max(p * (1.0 - p), SMALLEST_HESSIAN)
    elif loss == FOCAL:  # -f (1 - p)**a log p; p: of the true class; f: b for class 1, c for 0
        for i in range(n):
            sign = 2.0 * target[i] - 1.0
            factor = b if sign > 0.0 else c
            m = sign * raw[i]
            # log p = -log(1 + exp(-m)) without overflow, and q = 1 - p without cancellation.
            e = exponential(-abs(m))
            log_p = min(m, 0.0) - math.log1p(e)
            p = 1.0 / (1.0 + e) if m > 0.0 else e / (1.0 + e)
            q = e / (1.0 + e) if m > 0.0 else 1.0 / (1.0 + e)
            share = factor * q**a
            curvature = q * (1.0 + 2.0 * a) + a * log_p * (q - a * p)
            g[i] = sign * share * (a * p * log_p - q)
            h[i] = max(share * p * max(curvature, q), SMALLEST_HESSIAN)
    else:  # hinge: max(0, 1 - s raw), s = -1 or 1
        for i in range(n):
            sign = 2.0 * target[i] - 1.0
            g[i], h[i] = -sign if sign * raw[i] < 1.0 else 0.0, 1.0
