"""First and second derivatives of the losses, compiled.

The gradient pass calls :func:`derivatives` for one block of rows that fits in the first-level
cache.  The function writes g and h of each row.  A softmax needs the scores of all classes:
:func:`class_probabilities` turns them into probabilities once per round, before the first tree
of the round changes a score.

Only the losses in this module are compiled into every fit.  All others are ``PRECOMPUTED``:
the gradient pass reads g and h that were computed before it
(:mod:`hedgerow.objectives.precomputed`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hedgerow import kernel_types as kt
from hedgerow.arrays import FloatArray
from hedgerow.compile import kernel
from hedgerow.kernels.primitives.exponential import exponential

SQUARED_ERROR = 0
LOGISTIC = 1
SOFTMAX = 2
EXPONENTIAL = 3
QUANTILE = 4
PRECOMPUTED = 5

FARTHEST_MARGIN = 200.0
"""Margins of the exponential loss are clipped here: e**200 is 7e86."""

SMALLEST_HESSIAN = 1e-16
"""Least hessian: the hessian of a saturated probability stays above zero."""


class LossData(NamedTuple):
    """The inputs of the loss of each row.

    target       float64 (n_rows,); a class index for classification
    weight       float64 (n_rows,), or empty: every weight is 1
    raw          float64 (n_outputs, n_rows)
    probability  float64 (n_outputs, n_rows) for softmax.  For a loss with precomputed
                 derivatives (2, n_rows): g and h of the output whose tree is grown; or
                 (2 * n_outputs, n_rows): g and h of all outputs.  Otherwise empty
    level        quantile level
    """

    target: kt.ReadOnly[kt.Float64_1D]
    weight: kt.ReadOnly[kt.Float64_1D]
    raw: kt.Float64_2D
    probability: kt.Float64_2D
    level: np.float64


@kernel(inner=True)
def class_probabilities(data: LossData, start: int, stop: int, block: FloatArray) -> None:
    """Write the softmax of the raw scores of rows ``start`` to ``stop``."""
    top, total = block[0], block[1]
    n = np.uint64(stop - start)
    first = np.uint64(start)
    n_outputs = data.raw.shape[0]
    for i in range(n):
        top[i] = data.raw[0, first + i]
        total[i] = 0.0
    # Classes are the outer loop, so that the inner loop runs over consecutive rows.
    for k in range(1, n_outputs):
        raw = data.raw[k]
        for i in range(n):
            top[i] = max(top[i], raw[first + i])
    for k in range(n_outputs):
        raw = data.raw[k]
        probability = data.probability[k]
        for i in range(n):
            e = exponential(raw[first + i] - top[i])
            probability[first + i] = e
            total[i] += e
    for k in range(n_outputs):
        probability = data.probability[k]
        for i in range(n):
            probability[first + i] /= total[i]


@kernel(inner=True)
def derivatives(
    loss: int, data: LossData, output: int, start: int, stop: int, block: FloatArray
) -> None:
    """Write g and h of rows ``start`` to ``stop`` for one output into block[0], block[1]."""
    g, h = block[0], block[1]
    n = np.uint64(stop - start)
    first = np.uint64(start)
    target = data.target
    if loss == SQUARED_ERROR:
        raw = data.raw[output]
        for i in range(n):
            g[i] = raw[first + i] - target[first + i]
            h[i] = 1.0
    elif loss == LOGISTIC:
        raw = data.raw[output]
        for i in range(n):
            p = 1.0 / (1.0 + exponential(-raw[first + i]))
            g[i] = p - target[first + i]
            h[i] = max(p * (1.0 - p), SMALLEST_HESSIAN)
    elif loss == EXPONENTIAL:
        raw = data.raw[output]
        for i in range(n):
            sign = 2.0 * target[first + i] - 1.0
            # Beyond the limit, squares of sums would not be finite.
            e = exponential(min(-sign * raw[first + i], FARTHEST_MARGIN))
            g[i] = -sign * e
            h[i] = e
    elif loss == QUANTILE:
        raw = data.raw[output]
        for i in range(n):
            r = raw[first + i] - target[first + i]
            g[i] = 1.0 - data.level if r > 0.0 else (-data.level if r < 0.0 else 0.0)
            h[i] = 1.0
    elif loss == PRECOMPUTED:
        at = 2 * output if data.probability.shape[0] > 2 else 0
        precomputed_g, precomputed_h = data.probability[at], data.probability[at + 1]
        for i in range(n):
            g[i] = precomputed_g[first + i]
            h[i] = precomputed_h[first + i]
    else:
        probability = data.probability[output]
        n_classes = float(data.raw.shape[0])
        factor = n_classes / (n_classes - 1.0)
        for i in range(n):
            p = probability[first + i]
            g[i] = p - (1.0 if target[first + i] == output else 0.0)
            h[i] = max(factor * p * (1.0 - p), SMALLEST_HESSIAN)
    if len(data.weight) > 0:
        weight = data.weight
        for i in range(n):
            g[i] *= weight[first + i]
            h[i] *= weight[first + i]


@kernel
def fill_derivatives(loss: int, data: LossData, output: int, block: kt.Float64_2D) -> None:
    """Write g and h of all rows into ``block`` (2, n_rows)."""
    n_rows = len(data.target)
    if loss == SOFTMAX:
        class_probabilities(data, 0, n_rows, block)
    derivatives(loss, data, output, 0, n_rows, block)
