"""Questions about arguments: which are lists, functions, or numbers in a range."""

from __future__ import annotations

import functools
import inspect
import math
import numbers
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hedgerow.errors import DataTypeError, ParameterError, brief


@dataclass(frozen=True, slots=True)
class Interval:
    """Range of allowed numbers, from ``low`` to ``high``; ends are included unless open."""

    low: float
    high: float
    low_open: bool = False
    high_open: bool = False
    integer: bool = False

    def __contains__(self, value: object) -> bool:
        if isinstance(value, bool):
            return False
        if isinstance(value, (int, float)):  # the check against ``numbers`` below is slow
            if self.integer and not isinstance(value, int):
                return False
        elif not isinstance(value, numbers.Real) or (
            self.integer and not isinstance(value, numbers.Integral)
        ):
            return False
        try:
            number = float(value)
        except OverflowError:  # an integer of hundreds of digits
            return False
        above = number > self.low if self.low_open else number >= self.low
        below = number < self.high if self.high_open else number <= self.high
        return above and below

    def __str__(self) -> str:
        kind = "an integer" if self.integer else "a number"
        left = "greater than" if self.low_open else "at least"
        right = "less than" if self.high_open else "at most"
        text = f"{kind} {left} {self.low:g}"
        return text if math.isinf(self.high) else f"{text} and {right} {self.high:g}"


def listed(values: object) -> list[Any] | None:
    """Return the items of a list, of an array of one axis, or of an index or column of a frame.

    Text, dicts, and arrays with more axes or none are not lists: the result is None.

    >>> import numpy as np
    >>> listed(("age", 3)), listed(np.array([True, False])), listed("age")
    (['age', 3], [True, False], None)
    """
    if isinstance(values, Sequence) and not isinstance(values, str | bytes | bytearray):
        return list(values)
    if isinstance(values, type) or not hasattr(values, "__array__"):
        return None
    array = np.asarray(values)
    return list(array.tolist()) if array.ndim == 1 else None


def parameters_of(function: Callable[..., Any]) -> list[inspect.Parameter] | None:
    """Return the parameters of a function; None if it does not tell, as some built-in ones."""
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return None


def is_function(value: object) -> bool:
    """Return whether a value can be called, and is not a class, which makes objects."""
    return callable(value) and not isinstance(value, type)


def name_of_function(function: object) -> str:
    """Return the name of a function, or of the type of an object that can be called."""
    own = getattr(function, "__name__", None)
    if isinstance(own, str):
        return own
    if isinstance(function, functools.partial):
        return name_of_function(function.func)
    return type(function).__name__


def is_one_of(value: object, known: Collection[str]) -> bool:
    """Return whether a value is one of some texts; arrays and tables are none of them."""
    return isinstance(value, str) and value in known


def check_bool(value: object, name: str) -> bool:
    """Return a boolean parameter; raise ``ParameterError`` if it is not a boolean."""
    if not isinstance(value, bool | np.bool_):
        raise ParameterError(f"{name} must be True or False; got {brief(value)}.")
    return bool(value)


def path_text(path: object) -> str:
    """Return a path as text."""
    if not isinstance(path, str | bytes | os.PathLike):
        raise DataTypeError(
            f"path must be the path of a file, as text or a path object; got {brief(path)}."
        )
    return os.fsdecode(path)


def check_mapping(params: object) -> None:
    """Raise ``ParameterError`` unless ``params`` is None or a mapping of parameters."""
    if params is not None and not isinstance(params, Mapping):
        raise ParameterError(
            f"params must be a dict of parameters by name, or None; got {brief(params)}."
        )


BATCH_ROWS = 65_536
"""Default rows of a batch of predictions: enough to make the cost of a call negligible."""


def check_batch_rows(batch_rows: object) -> None:
    """Raise unless ``batch_rows`` is a positive integer."""
    if batch_rows not in (allowed := Interval(1, math.inf, integer=True)):
        raise ParameterError(f"batch_rows must be {allowed}; got {brief(batch_rows)}.")
