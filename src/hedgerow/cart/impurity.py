"""Impurity of the rows of a node, and scores of their divisions.

Glossary
--------
mass      weight of a row, rounded to a common grid so that sums of masses
          are exact in any order
counts    total mass of each class
impurity  Gini index ``1 - sum p_k^2`` or entropy ``-sum p_k log2 p_k``
score     the quantity that the best split maximises, for two sides of the same rows::

              Gini     sum_k l_k^2 / l + sum_k r_k^2 / r
              entropy  sum_k f(l_k) - f(l) + sum_k f(r_k) - f(r),   f(x) = x log x
              squares  (sum y)^2 / l + (sum y)^2 / r
              Poisson  f(sum y) - (sum y) log l + f(sum y) - (sum y) log r

          The score of the entropy is minus the weighted impurity of the sides;
          the others are a constant minus this impurity.

A score depends only on the sums of both sides, not on which side is the left
one: two features that divide the rows in the same way get the same bits, and
the lower feature wins.
"""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.compile import kernel
from hedgerow.kernels.primitives.intrinsics import bits_of_float, float_of_bits

GINI, ENTROPY, SQUARED_ERROR, POISSON = range(4)

_LN2 = 0.6931471805599453
_SQRT2 = 1.4142135623730951
_MANTISSA = np.int64(0xFFFFFFFFFFFFF)
_ONE_BITS = np.int64(0x3FF0000000000000)
_SERIES = tuple(2.0 / (2 * k + 1) for k in range(11))


@kernel(inline=True, inner=True)
def logarithm(x: float) -> float:
    """Return the natural logarithm of a normal number > 0, with the same bits on every machine."""
    # ``x = 2^e m`` with m near 1, and ``log m = 2 artanh((m - 1) / (m + 1))`` by its series; the
    # largest error is about one unit in the last place of ``max(1, |log x|)``.
    bits = bits_of_float(x)
    exponent = np.float64((bits >> 52) - 1023)
    m = float_of_bits((bits & _MANTISSA) | _ONE_BITS)
    if m > _SQRT2:
        m *= 0.5
        exponent += 1.0
    s = (m - 1.0) / (m + 1.0)
    q = s * s
    p = _SERIES[10]
    p = p * q + _SERIES[9]
    p = p * q + _SERIES[8]
    p = p * q + _SERIES[7]
    p = p * q + _SERIES[6]
    p = p * q + _SERIES[5]
    p = p * q + _SERIES[4]
    p = p * q + _SERIES[3]
    p = p * q + _SERIES[2]
    p = p * q + _SERIES[1]
    p = p * q + _SERIES[0]
    return exponent * _LN2 + s * p


@kernel(inline=True, inner=True)
def x_log_x(x: float) -> float:
    """Return ``x log x``, or 0 for x <= 0 and for negligible numbers."""
    return x * logarithm(x) if x > 1e-300 else 0.0


@kernel(inner=True)
def counts_impurity(criterion: int, counts: FloatArray, n_classes: int, total: float) -> float:
    """Return the Gini index or the entropy (in bits) of a node with these class counts."""
    if criterion == GINI:
        squares = 0.0
        for k in range(np.uint64(n_classes)):
            squares += counts[k] * counts[k]
        return 1.0 - squares / (total * total)
    entropy = 0.0
    for k in range(np.uint64(n_classes)):
        entropy -= x_log_x(counts[k] / total)
    return entropy / _LN2


@kernel(inline=True, inner=True)
def shares_score(
    criterion: int, left: float, left_mass: float, right: float, right_mass: float
) -> float:
    """Return the score of two sides by their sums of shares; minus infinity if undefined."""
    if criterion != POISSON:  # the sum of both squares over their masses, with one division
        above = left * left * right_mass + right * right * left_mass
        return above / (left_mass * right_mass)
    if min(left, right) <= 0.0:
        return -np.inf
    return left * logarithm(left / left_mass) + right * logarithm(right / right_mass)


@kernel(inner=True)
def counts_score(
    criterion: int, counts: FloatArray, n_classes: int, left_mass: float, right_mass: float
) -> float:
    """Return the score of a split; ``counts`` holds class counts of the left, then the right."""
    in_left = in_right = 0.0
    classes = np.uint64(n_classes)
    if criterion == GINI:
        for k in range(classes):
            in_left += counts[k] * counts[k]
            in_right += counts[classes + k] * counts[classes + k]
        return in_left / left_mass + in_right / right_mass
    for k in range(classes):
        in_left += x_log_x(counts[k])
        in_right += x_log_x(counts[classes + k])
    return (in_left - x_log_x(left_mass)) + (in_right - x_log_x(right_mass))
