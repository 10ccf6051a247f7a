"""Requests and answers: strict JSON in both directions, and errors that clients receive."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

from hedgerow.errors import HedgerowError, brief

FEW_ROWS = 32
"""Number of rows up to which rows are predicted one by one, faster than by a table."""


class RequestError(HedgerowError):
    """A request that cannot be answered, with an HTTP status and what is allowed."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


class Work(NamedTuple):
    """A request that has been read, and the function that answers it."""

    n_rows: int
    explained: bool
    answer: Callable[[], bytes]

    @property
    def is_small(self) -> bool:
        """Whether the answer takes less time than waking a thread."""
        return self.n_rows <= FEW_ROWS and not self.explained


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a JSON number; use null for a missing value")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text[:20]} is beyond the range of float64")
    return number


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        (twice, _), *_ = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"an object has the key {brief(twice)} more than once")
    return members


# Created once: ``json.loads`` and ``json.dumps`` create new objects, which takes as long as a row.
_decoder = json.JSONDecoder(
    parse_constant=_refuse_constant, parse_float=_finite, object_pairs_hook=_once_each
)
_encoder = json.JSONEncoder(allow_nan=False, separators=(",", ":"), ensure_ascii=False)


def decoded(body: bytes) -> dict[str, Any]:
    """Return the JSON object of a body, without NaN, numbers beyond float64 and repeated keys."""
    try:
        found = _decoder.decode(body.decode("utf-8"))
    except RecursionError:
        raise RequestError("the body is nested too deeply.") from None
    except ValueError as error:
        raise RequestError(f"the body is not JSON: {error}.") from None
    if not isinstance(found, dict):
        raise RequestError(f"the body must be a JSON object, not a {type(found).__name__}.")
    return found


def check_keys(given: dict[str, Any], known: tuple[str, ...], where: str) -> None:
    """Raise for keys that would be ignored."""
    for key in given:
        if key not in known:
            taken = ", ".join(map(repr, known))
            raise RequestError(f"{where} does not take {key!r}: it takes {taken}.")


def encoded(answer: dict[str, Any]) -> bytes:
    """Return an answer as bytes; numbers that JSON does not have become null."""
    try:
        text = _encoder.encode(answer)
    except ValueError:
        text = _encoder.encode(_without_infinite(answer))
    return text.encode("utf-8", "replace")


def _without_infinite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_infinite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_infinite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
