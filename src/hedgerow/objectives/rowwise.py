"""Base class of losses of single rows; each adds a kernel and its derivatives.

The *slopes* of a loss are its first and second derivative, in NumPy.  Line searches use them:
for the initial score, and for leaf values.  Trees use the kernel
(:mod:`hedgerow.objectives.row_kernels`), whose second derivative may be larger.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.errors import ParameterError, brief
from hedgerow.objectives.base import LossRows, MeanLoss
from hedgerow.objectives.derivatives import SMALLEST_HESSIAN
from hedgerow.objectives.global_sums import AllRows
from hedgerow.objectives.line_search import LeafRule, Slopes, root_rule
from hedgerow.objectives.roots import root_of_mean
from hedgerow.objectives.row_kernels import NO_NUMBERS, row_derivatives
from hedgerow.params import Interval


class RowLoss(MeanLoss):
    """Base class of losses of one row and one output, with the identity as link.

    A subclass defines :meth:`losses` and :meth:`slopes`, may have a :attr:`row_kernel`, and
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
    row_kernel: ClassVar[int | None] = None
    """Number of its kernel in row_kernels; None to use the slopes."""

    def numbers(self, output: int) -> FloatArray:
        """Return the parameters of the loss for the kernel."""
        return NO_NUMBERS

    def slopes(self, target: FloatArray, raw: FloatArray) -> Slopes:
        """Return the first and second derivative of each row, of shape (n_rows,).

        A subclass that defines :meth:`derivatives`, :meth:`start_of` and :meth:`leaf_steps` does
        not need this method.
        """
        raise ParameterError(
            f"objective {type(self).__name__} has no slopes(target, raw), which returns the first "
            "and second derivative of each row: add it, or derivatives, start_of and leaf_steps."
        )

    def derivatives(self, rows: LossRows, output: int, g: FloatArray, h: FloatArray) -> None:
        if self.row_kernel is None:
            g[:], second = self.slopes(rows.target, rows.raw[output])
            np.maximum(second, SMALLEST_HESSIAN, out=h)
        else:
            numbers = self.numbers(output)
            row_derivatives(self.row_kernel, rows.target, rows.raw[output], numbers, g, h)

    def start_of(self, rows: AllRows) -> FloatArray:
        """Return the root of the mean first derivative, between smallest and largest target."""
        return np.array([root_of_mean(rows, self.slopes, rows.center(), rows.extent())])

    def leaf_rule(self, output: int) -> LeafRule:
        """Return the rule: roots of sums of first derivatives, within the range of residuals."""
        return root_rule(self.slopes, output, lambda target, raw: target - raw[output])


def check_number(value: Any, name: str, allowed: Interval) -> None:
    """Raise ``ParameterError`` unless ``value`` is an allowed number."""
    if value not in allowed:
        raise ParameterError(f"{name} must be {allowed}; got {brief(value)}.")
