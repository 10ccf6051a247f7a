"""Limits on Newton steps of losses whose hessian may be nearly 0 where the gradient is not.

The hessian of logistic losses and of losses of log means changes by at most a factor of
``exp(c)`` if all raw scores of a leaf change by c (``|L'''| <= L''``).  So with sums G and H of
gradients and hessians, and a change c against the gradient::

    loss(c) - loss(0)  <=  -|G| c + H (exp(c) - 1 - c)

A change of ``c = rate * |G| / H`` surely lowers the loss as long as
``exp(c) < 1 + c + c**2 / rate``: up to c = 1.79 at a rate of 1, and up to 5.86 at 0.1.  Longer
changes may raise it.  Hessians then fall towards 0, and steps grow from round to round, up to 1e16.
Penalties bound these steps: by the sum of the gradients of a leaf, if ``reg_lambda`` is 1.  For
probabilities this is enough, as their gradients are at most 1, but log means need low rates, too.
The sum is at most the total weight, so for large weights a penalty of 1 is next to none.
"""

from __future__ import annotations

import math
from functools import lru_cache

SAFE_RATE = 0.3 + 1e-9  # the rate of parallel trees is divided by their number and multiplied again
"""Learning rate up to which penalties alone bound the steps of log means."""

PENALIZED_WEIGHT = 100_000.0
"""Total weight of the rows up to which a penalty of 1 bounds the steps.

The total, and not the largest weight, because a row of weight k must act like k rows.
"""


@lru_cache(maxsize=64)
def descending_step(rate: float) -> float:
    """Return the longest step, before the learning rate, that surely lowers the loss of a leaf."""
    # Rates above 1 are too large for any such step: the change is then that of a rate of 1.  A
    # rate of 0 means that steps do not add up, as in a random forest; then there is no limit.
    if rate == 0.0:
        return math.inf
    share = min(rate, 1.0)
    low, high = 0.0, 1.0
    while math.exp(high) < 1.0 + high + high * high / share:
        low, high = high, 2.0 * high
    for _ in range(60):
        middle = 0.5 * (low + high)
        if math.exp(middle) < 1.0 + middle + middle * middle / share:
            low = middle
        else:
            high = middle
    return low / rate


def limit_without_penalty(reg_lambda: float, rate: float) -> float:
    """Return the limit on steps of logits; ``reg_lambda`` from 1 on bounds them, too."""
    return math.inf if reg_lambda >= 1.0 else descending_step(rate)


def limit_of_log_means(reg_lambda: float, rate: float) -> float:
    """Return the limit on steps of log means; low rates and ``reg_lambda`` bound them together."""
    return math.inf if reg_lambda >= 1.0 and rate <= SAFE_RATE else descending_step(rate)
