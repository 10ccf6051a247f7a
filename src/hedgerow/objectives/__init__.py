"""Losses by name; see :mod:`hedgerow.objectives.base` for what a loss is."""

from __future__ import annotations

from hedgerow.errors import ParameterError, did_you_mean
from hedgerow.objectives.base import Objective
from hedgerow.objectives.logistic import Logistic
from hedgerow.objectives.softmax import Softmax
from hedgerow.objectives.squared_error import SquaredError

OBJECTIVES: dict[str, type[SquaredError] | type[Logistic] | type[Softmax]] = {
    loss.name: loss for loss in (SquaredError, Logistic, Softmax)
}


def make_objective(name: str, n_outputs: int = 1) -> Objective:
    """The objective called ``name``, for ``n_outputs`` raw scores per row."""
    if name not in OBJECTIVES:
        known = ", ".join(map(repr, OBJECTIVES))
        raise ParameterError(
            f"unknown objective {name!r}; known: {known}.{did_you_mean(str(name), OBJECTIVES)}"
        )
    return OBJECTIVES[name](n_outputs=n_outputs)


__all__ = ["OBJECTIVES", "Objective", "make_objective"]
