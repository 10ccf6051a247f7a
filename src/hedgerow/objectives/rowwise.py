"""Base class of losses of single rows; each adds a kernel and its derivatives.

The *slopes* of a loss are its first and second derivative, in NumPy.  Line searches use them:
for the initial score, and for leaf values.  Trees use the kernel
(:mod:`hedgerow.objectives.row_kernels`), whose second derivative may be larger.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.errors import ParameterError, brief
from hedgerow.objectives.base import LossRows, MeanLoss
from hedgerow.objectives.derivatives import PRECOMPUTED, SMALLEST_HESSIAN
from hedgerow.objectives.global_sums import AllRows
from hedgerow.objectives.line_search import LeafRule, Slopes, root_rule
from hedgerow.objectives.row_kernels import NO_NUMBERS
from hedgerow.params import Interval

_STEPS = 200
_CLOSE = 1e-15
_FARTHEST_START = 2.0**40


class RowLoss(MeanLoss):
    """Base class of losses of one row and one output, with the identity as link.

    A subclass defines :meth:`losses` and :meth:`slopes`, may have a :attr:`kernel`, and
    overrides what differs.

    Examples
    --------
    >>> import numpy as np
    >>> from hedgerow import HedgerowRegressor
    >>> from hedgerow.objectives import RowLoss
    >>> class Fourth(RowLoss):
    ...     def losses(self, target, raw):
    ...         return (raw[0] - target) ** 4
    ...     def slopes(self, target, raw):
    ...         return 4.0 * (raw - target) ** 3, 12.0 * (raw - target) ** 2
    >>> X = np.arange(100.0).reshape(-1, 1)
    >>> model = HedgerowRegressor(objective=Fourth(), n_estimators=20).fit(X, X[:, 0] / 100.0)
    >>> model.predict(X).shape
    (100,)
    """

    name: ClassVar[str] = "custom"
    kernel_id: ClassVar[int] = PRECOMPUTED
    rowwise: ClassVar[bool] = True
    coupled: ClassVar[bool] = False
    kernel: ClassVar[Callable[..., Any] | None] = None
    """The compiled loop over rows; None to use the slopes."""

    def numbers(self, output: int) -> FloatArray:
        """Return the parameters of the loss for the kernel."""
        return NO_NUMBERS

    def slopes(self, target: FloatArray, raw: FloatArray) -> Slopes:
        """Return the first and second derivative of each row, of shape (n_rows,).

        A subclass that defines :meth:`derivatives` (or a kernel), :meth:`start_of` and
        :meth:`leaf_steps` does not need this method.
        """
        raise ParameterError(
            f"objective {type(self).__name__} has no slopes(target, raw), which returns the first "
            "and second derivative of each row: add it, or derivatives, start_of and leaf_steps."
        )

    def derivatives(self, rows: LossRows, output: int, g: FloatArray, h: FloatArray) -> None:
        kernel = type(self).kernel
        if kernel is None:
            g[:], second = self.slopes(rows.target, rows.raw[output])
            np.maximum(second, SMALLEST_HESSIAN, out=h)
        else:
            kernel(rows.target, rows.raw[output], self.numbers(output), g, h)

    def start_of(self, rows: AllRows) -> FloatArray:
        """Return the root of the mean first derivative, between smallest and largest target."""
        low, high = rows.extent()
        return np.array([root_of_mean(rows, self.slopes, rows.center(), low, high)])

    def leaf_rule(self, output: int) -> LeafRule:
        """Return the rule: roots of sums of first derivatives, within the range of residuals."""
        return root_rule(self.slopes, output, lambda target, raw: target - raw[output])


def root_of_mean(
    rows: AllRows,
    slopes: Callable[[FloatArray, FloatArray], Slopes],
    start: float,
    low: float,
    high: float,
) -> float:
    """Return the constant raw score at which the mean first derivative is zero.

    The search takes Newton steps.  Bisection replaces a step that leaves the interval known to
    contain the root.
    """

    def mean(part: int, at: float) -> float:
        return rows.mean(lambda target: slopes(target, np.full(len(target), at))[part])

    return root_of(mean, start, low, high)


def root_of(mean: Callable[[int, float], float], start: float, low: float, high: float) -> float:
    """Return the root of ``mean(0, at)``, not decreasing, with derivative ``mean(1, at)``."""
    at = min(max(start, low), high)
    for _ in range(_STEPS):
        slope = mean(0, at)
        if slope == 0.0 or not low < high:
            break
        low, high = (low, at) if slope > 0.0 else (at, high)
        curvature = mean(1, at)
        following = at - slope / curvature if curvature > 0.0 else np.inf
        # A step that rounds to nothing ends at the root, which is an end of the interval by now.
        at_root = abs(following - at) <= _CLOSE * abs(at) and low <= following <= high
        if not (low < following < high or at_root):
            following = 0.5 * low + 0.5 * high
        moved, at = abs(following - at), following
        if moved <= _CLOSE * abs(at):
            break
    return float(at) + 0.0


def bracket_of(slope: Callable[[float], float]) -> tuple[float, float]:
    """Return an interval around 0 at whose ends a derivative has different signs.

    Return ``(0, 0)`` if there is no such interval up to 2**40.
    """
    first = slope(0.0)
    if first == 0.0 or math.isnan(first):
        return 0.0, 0.0
    near, far = 0.0, -math.copysign(1.0, first)
    while abs(far) <= _FARTHEST_START:
        at_far = slope(far)
        if not math.isfinite(at_far):
            break
        if at_far * first <= 0.0:
            return min(near, far), max(near, far)
        near, far = far, 2.0 * far
    return 0.0, 0.0


def check_number(value: Any, name: str, allowed: Interval) -> None:
    """Raise ``ParameterError`` unless ``value`` is an allowed number."""
    if value not in allowed:
        raise ParameterError(f"{name} must be {allowed}; got {brief(value)}.")
