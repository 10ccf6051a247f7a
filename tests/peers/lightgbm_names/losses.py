"""A loss that a user has written for LightGBM."""

from __future__ import annotations

from typing import Any

import numpy as np

from hedgerow.errors import LossError


class CustomLoss:
    """``function(preds, train_data)`` returns gradient and hessian; trees begin at 0."""

    name = "custom"
    link = "identity"
    second_order = True
    rowwise = False
    coupled = True

    def __init__(self, function: Any, data: Any, n_outputs: int) -> None:
        self.function, self.data, self.n_outputs = function, data, n_outputs
        self._slopes: Any = None

    def derivatives(self, rows: Any, output: int, g: Any, h: Any) -> None:
        if self.function is None:
            raise LossError("no objective function: give it to update")
        if output == 0 or self._slopes is None:
            preds = np.ascontiguousarray(rows.raw[0] if self.n_outputs == 1 else rows.raw.T)
            grad, hess = (np.asarray(part) for part in self.function(preds, self.data))
            shape = (len(g), self.n_outputs)
            mass = np.ones(len(g)) if rows.weight is None else rows.weight
            # What the function gives is final there; here it is multiplied by the weights.
            self._slopes = tuple(part.reshape(shape) / mass[:, None] for part in (grad, hess))
        g[:], h[:] = (part[:, output] for part in self._slopes)

    def check_target(self, target: Any, first_row: int = 0, origin: Any = None) -> None:
        """Any target will do."""

    def initial_score(self, target: Any, weight: Any) -> Any:
        return np.zeros(self.n_outputs)

    def start_of(self, rows: Any) -> Any:
        return np.zeros(self.n_outputs)

    def losses(self, target: Any, raw: Any) -> Any:
        raise LossError("a function that gives derivatives has no loss: set a metric")

    def loss(self, target: Any, raw: Any, weight: Any) -> float:
        raise LossError("a function that gives derivatives has no loss: set a metric")

    def leaf_steps(self, leaves: Any, output: int) -> Any:
        raise LossError("a function that gives derivatives allows no line search")


class SquaresFrom(CustomLoss):
    """Squared errors whose trees begin at a given score, not at the mean."""

    def __init__(self, start: float) -> None:
        super().__init__(None, None, 1)
        self.start = start

    def derivatives(self, rows: Any, output: int, g: Any, h: Any) -> None:
        g[:], h[:] = rows.raw[0] - rows.target, 1.0

    def initial_score(self, target: Any, weight: Any) -> Any:
        return np.full(1, self.start)

    def start_of(self, rows: Any) -> Any:
        return np.full(1, self.start)
