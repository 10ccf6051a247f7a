"""Custom losses of more than two classes: gradient and hessian of all rows.

``function(y, raw)`` or ``function(y, raw, weight)`` takes the classes 0, 1, ... of all rows
and their raw scores, shape (n_rows, n_classes).  It returns two arrays of that shape, like an
objective of XGBoost's and LightGBM's estimators.  It may have these attributes:

``link``       ``"softmax"`` (default): probabilities are the softmax of the raw scores;
               ``"logit"``: the logistic function of each
``loss``       ``loss(y, raw)``, an array with the loss of each row, for learning curves
``n_classes``  number of classes, for :func:`hedgerow.train`; estimators count them
"""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from typing import Any

import numpy as np

from hedgerow.argument_types import name_of_function
from hedgerow.arrays import FloatArray
from hedgerow.errors import LossError, ParameterError, brief
from hedgerow.objectives.custom.checks import resolve_derivatives
from hedgerow.objectives.custom.losses import TRIED, Linked, OwnFunction, check_signature
from hedgerow.objectives.global_sums import AllRows
from hedgerow.objectives.precomputed import LossRows
from hedgerow.objectives.softmax import Softmax

_MOST_CLASSES = 10_000


@dataclass(frozen=True)
class OwnClassGradient(OwnFunction):
    """A function that returns gradient and hessian of all rows and classes."""

    @property
    def coupled(self) -> bool:
        return True

    def check_target(
        self, target: FloatArray, first_row: int = 0, origin: float | None = None
    ) -> None:
        Softmax(n_outputs=self.n_outputs).check_target(target, first_row, origin)

    def derivatives(self, rows: LossRows, output: int, g: FloatArray, h: FloatArray) -> None:
        gradient, hessian = self.results(rows.target, np.ascontiguousarray(rows.raw.T), rows.weight)
        g[:], h[:] = gradient[:, output], hessian[:, output]
        resolve_derivatives(g, h, self.label)

    def start_of(self, rows: AllRows) -> FloatArray:
        """Return the logarithms of the class shares; 0 if the link is not softmax."""
        if self.link != "softmax":
            return np.zeros(self.n_outputs)
        return Softmax(n_outputs=self.n_outputs).start_of(rows)


def make_own_classes(given: Any, target: FloatArray, n_classes: Any) -> Linked:
    """Return the objective for a function of several classes, tried with the first targets."""
    label = name_of_function(given)
    whole = isinstance(n_classes, numbers.Integral) and not isinstance(n_classes, bool)
    if not whole or not 2 <= n_classes <= _MOST_CLASSES:
        raise ParameterError(
            f"n_classes of objective {label!r} must be an integer from 2 to {_MOST_CLASSES}; got "
            f"{brief(n_classes)}."
        )
    if hasattr(given, "derivatives") or not callable(given):
        raise ParameterError(
            f"objective {label!r}: for more than two classes give a function of (y, raw) that "
            "returns gradient and hessian, an array of shape (n_rows, n_classes) each."
        )
    weighs = check_signature(given, label)
    loss = OwnClassGradient(
        label, getattr(given, "link", "softmax"), "classes", int(n_classes), given, weighs
    )
    some = target[: min(TRIED, len(target))].copy()
    try:
        loss.results(some, np.zeros((len(some), loss.n_outputs)), None)
    except LossError as error:
        raise ParameterError(
            f"for {n_classes} classes objective {label!r} is called with the classes of the rows "
            f"and raw scores of shape (n_rows, {n_classes}), and returns gradient and hessian of "
            f"that shape. {error}"
        ) from error.__cause__
    return loss
