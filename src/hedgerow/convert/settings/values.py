"""Values of other libraries' parameters, which may be text.

A converter raises a ``ValueError`` that says what it takes; the caller adds the name of the
parameter and the value.
"""

from __future__ import annotations

import json
import math
import numbers
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from hedgerow.errors import ParameterError, brief, did_you_mean

_WORDS = {**dict.fromkeys(("true", "+", "1"), True), **dict.fromkeys(("false", "-", "0"), False)}
MOST_BINS = 255
MOST_LEVELS = 254


def number(value: Any) -> Any:
    """Return a number, also from text; values of other types are unchanged."""
    if not isinstance(value, str):
        return value
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    raise ValueError("it must be a number")


def whole(value: Any) -> int:
    """Return a whole number, also from text or a float."""
    found = number(value)
    if isinstance(found, bool) or not isinstance(found, numbers.Real) or found % 1 != 0:
        raise ValueError("it must be a whole number")
    return int(found)  # type: ignore[call-overload]


def flag(value: Any) -> bool:
    """Return a truth value from a boolean, 0, 1 or text."""
    key = str(value).strip().lower()
    if key not in _WORDS:
        raise ValueError("it must be true or false")
    return _WORDS[key]


def unchanged(value: Any) -> Any:
    """Return a value that Hedgerow itself checks."""
    return value


def between(low: int, high: int) -> Callable[[Any], int]:
    """Return a converter for whole numbers from ``low`` to ``high``; others become the nearest."""
    return lambda value: max(low, min(high, whole(value)))


def above(limit: int) -> Callable[[Any], bool]:
    """Return a function that tells whether a number exceeds ``limit``."""
    return lambda value: bool(number(value) > limit)


def half(value: Any) -> float:
    """Return half a number: other libraries' gains are twice the reduction of the loss."""
    return float(number(value)) / 2.0


def limit(value: Any) -> Any:
    """Return a limit; numbers below 1 mean no limit."""
    found = number(value)
    return None if found <= 0 else found


def choice(name: str, known: Mapping[str, Any]) -> Callable[[Any], Any]:
    """Return a converter for named values; an unknown name is an error."""

    def convert(value: Any) -> Any:
        key = str(value).lower()
        if key not in known:
            hint = did_you_mean(key, known)
            listed = ", ".join(map(repr, known))
            use = f" Use one of {listed}." if len(known) <= 6 else ""
            raise ParameterError(f"{name}={brief(value)} is not supported.{hint}{use}")
        return known[key]

    return convert


def device(value: Any) -> str:
    """Translate a device: everything but the processor is the first GPU."""
    kind, _, position = str(value).lower().partition(":")
    if position not in ("", "0"):
        raise ParameterError(
            f"device {brief(value)} is not the first GPU: set CUDA_VISIBLE_DEVICES={position} in "
            "the environment, and use device='cuda'."
        )
    return "cpu" if kind == "cpu" else "cuda"


def _parts(text: str) -> list[str]:
    inside = text.strip().strip("()[]")
    return [part.strip() for part in inside.split(",") if part.strip()]


def as_list(value: Any, kind: Callable[[str], Any] = int, what: str = "whole numbers") -> Any:
    """Return a list of numbers from text with commas, with or without brackets."""
    if not isinstance(value, str):
        return value
    try:
        return [kind(part) for part in _parts(value)]
    except ValueError:
        raise ValueError(f"it must be a list of {what}") from None


def as_numbers(value: Any) -> Any:
    """Return a list of numbers, which need not be whole."""
    return as_list(value, float, "numbers")


def levels(value: Any) -> Any:
    """Return one number, or several as a list, from text with commas."""
    found = as_numbers(value)
    return found[0] if isinstance(value, str) and len(found) == 1 else found


def directions(value: Any) -> Any:
    """Return monotone directions, from text for all columns or for some."""
    if not isinstance(value, str):
        return value
    if ":" not in value:
        return as_list(value) or None
    pairs = (part.rpartition(":") for part in _parts(value))
    try:
        return {int(name) if name.isdecimal() else name: int(sign) for name, _, sign in pairs}
    except ValueError:
        raise ValueError("its directions must be -1, 0 or 1") from None


def columns(value: Any) -> Any:
    """Return columns, from text with positions, or with names after ``name:``."""
    if not isinstance(value, str) or value == "auto":
        return value
    if value.startswith("name:"):
        return _parts(value.removeprefix("name:"))
    try:
        return as_list(value) or None
    except ValueError:
        raise ValueError("it must be a list of columns, '0,1' or 'name:a,b'") from None


def as_lists(value: Any) -> Any:
    """Return lists of columns, also from text: ``"[[0, 1], [2]]"`` or ``"[0, 1], [2]"``."""
    if not isinstance(value, str):
        return value
    text = value.strip()
    if not text:
        return None
    try:
        return json.loads(text if text.startswith("[[") or text == "[]" else f"[{text}]")
    except json.JSONDecodeError:
        raise ValueError(
            "it must be a list of lists of columns, such as '[[0, 1], [2, 3]]'"
        ) from None


def class_weights(value: Any) -> Any:
    """Return weights of classes; a list or text has those of the classes 0, 1, ..."""
    if isinstance(value, Mapping) or (isinstance(value, str) and value == "balanced"):
        return value
    return dict(enumerate(as_numbers(value)))


def patience(value: Any) -> dict[str, Any]:
    """Translate the number of rounds without improvement; 0 means no early stopping."""
    rounds = whole(value)
    if rounds <= 0:
        return {"early_stopping": False}
    return {"early_stopping": True, "patience": rounds}


def is_nan(value: Any) -> bool:
    """Return whether a value is NaN, also as text."""
    try:
        return math.isnan(float(value))
    except (TypeError, ValueError):
        return False


def listed_names(parameter: str, value: Any) -> Sequence[Any]:
    """Return one name or several as a list."""
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list | tuple | set):
        raise ParameterError(f"{parameter} must be a name, or names; got {brief(value)}.")
    return list(names)


def one_or_all(found: Collection[Any]) -> Any:
    """Return the only metric, several different ones, or None."""
    different = list(dict.fromkeys(found))
    return None if not different else different[0] if len(different) == 1 else different
