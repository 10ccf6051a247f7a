"""Bodies of requests and answers: strict JSON both ways."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

from hedgerow.serving.errors import RequestError

_encoder = json.JSONEncoder(allow_nan=False, separators=(",", ":"), ensure_ascii=False)


def decoded(body: bytes) -> dict[str, Any]:
    """The JSON object that a body holds.

    Raises
    ------
    RequestError
        If it is anything else; NaN and infinities are no JSON.
    """
    try:
        found = json.loads(body, parse_constant=_refuse_constant)
    except RecursionError:
        raise RequestError(400, "the body is nested too deeply.") from None
    except ValueError as error:
        raise RequestError(400, f"the body is no JSON: {error}.") from None
    if not isinstance(found, dict):
        raise RequestError(400, f"the body must be a JSON object, not a {type(found).__name__}.")
    return found


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON number; give null for a missing value")


def check_keys(given: dict[str, Any], known: tuple[str, ...], where: str) -> None:
    """Refuse keys that would be ignored."""
    for key in given:
        if key not in known:
            raise RequestError(
                400, f"{where} has no use for {key!r}: it takes {', '.join(map(repr, known))}."
            )


def encoded(answer: dict[str, Any]) -> bytes:
    """An answer as bytes; numbers that JSON does not have become null."""
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
