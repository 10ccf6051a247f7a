"""Losses by name; see :mod:`hedgerow.objectives.base` for what a loss is."""

from __future__ import annotations

from collections.abc import Callable

from hedgerow.errors import ParameterError, did_you_mean
from hedgerow.objectives.base import Objective
from hedgerow.objectives.exponential import Exponential
from hedgerow.objectives.logistic import Logistic
from hedgerow.objectives.quantile import AbsoluteError, Quantile
from hedgerow.objectives.softmax import Softmax
from hedgerow.objectives.squared_error import SquaredError

OBJECTIVES: dict[str, Callable[..., Objective]] = {
    loss.name: loss
    for loss in (SquaredError, AbsoluteError, Quantile, Logistic, Exponential, Softmax)
}


def make_objective(name: str, n_outputs: int = 1, level: float | None = None) -> Objective:
    """The objective called ``name``, for ``n_outputs`` raw scores per row.

    ``level`` is for ``"quantile"`` alone: the quantile that is asked for.
    """
    if not isinstance(name, str) or name not in OBJECTIVES:
        known = ", ".join(map(repr, OBJECTIVES))
        raise ParameterError(
            f"unknown objective {name!r}; known: {known}.{did_you_mean(str(name), OBJECTIVES)}"
        )
    if level is not None and name != "quantile":
        raise ParameterError(
            f"quantile={level!r} has no effect with objective {name!r}: use objective='quantile', "
            "or leave quantile at None."
        )
    if name == "quantile":
        return Quantile(n_outputs, 0.5 if level is None else level)
    return OBJECTIVES[name](n_outputs=n_outputs)


__all__ = ["OBJECTIVES", "Objective", "make_objective"]
