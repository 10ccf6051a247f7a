"""Calls of custom functions, and checks of their results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.errors import LossError, ParameterError, brief
from hedgerow.objectives.derivatives import SMALLEST_HESSIAN

_MOST = 1e140
"""Largest derivative, so that squares of sums of derivatives are finite."""


def check_form(given: Any) -> None:
    """Raise ``ParameterError`` unless an objective is a name, a function, or an object."""
    is_class = isinstance(given, type)
    if is_class or not (isinstance(given, str) or callable(given) or hasattr(given, "derivatives")):
        hint = f" Give an object of the class, {given.__name__}(...)." if is_class else ""
        raise ParameterError(
            "objective must be a name, a function of (y, raw), or an object with a method "
            f"derivatives; got {brief(given)}.{hint}"
        )


def is_pair(found: Any) -> bool:
    """Return whether a result is a pair, which may be gradient and hessian."""
    if isinstance(found, tuple | list):
        return len(found) == 2
    return isinstance(found, np.ndarray) and found.ndim == 2 and len(found) == 2


def called(label: str, function: Callable[..., Any], *given: Any) -> Any:
    """Return the result of a custom function; ``LossError`` if it raises."""
    try:
        with np.errstate(all="ignore"):
            return function(*given)
    except Exception as fault:
        raise LossError(f"objective {label!r} raised {fault!r}.") from fault


def resolve_derivatives(g: FloatArray, h: FloatArray, label: str) -> None:
    """Raise if a derivative is not finite; replace hessians below the least value by it."""
    for array, what in ((g, "gradient"), (h, "hessian")):
        if not np.abs(array).max(initial=0.0) <= _MOST:
            raise not_finite(label, what, array)
    np.maximum(h, SMALLEST_HESSIAN, out=h)


def not_finite(label: str, what: str, array: FloatArray) -> LossError:
    """Return the error about the first number that is not finite."""
    row = int(np.argmin(np.abs(array) <= _MOST))
    return LossError(
        f"objective {label!r} has a {what} of {float(array[row])!r} in row {row}; it must be "
        f"finite, within {_MOST:g} of 0."
    ).at(row)
