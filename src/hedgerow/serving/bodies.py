"""Bodies of requests and answers: strict JSON in both directions."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

from hedgerow.serving.errors import RequestError


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a JSON number; use null for a missing value")


# Created once: ``json.loads`` and ``json.dumps`` create new objects, which takes as long as a row.
_decoder = json.JSONDecoder(parse_constant=_refuse_constant)
_encoder = json.JSONEncoder(allow_nan=False, separators=(",", ":"), ensure_ascii=False)


def decoded(body: bytes) -> dict[str, Any]:
    """Return the JSON object of a body.

    Raise ``RequestError`` for a body that is not a JSON object; NaN and infinities are not
    JSON.
    """
    try:
        found = _decoder.decode(body.decode("utf-8"))
    except RecursionError:
        raise RequestError(400, "the body is nested too deeply.") from None
    except ValueError as error:
        raise RequestError(400, f"the body is not JSON: {error}.") from None
    if not isinstance(found, dict):
        raise RequestError(400, f"the body must be a JSON object, not a {type(found).__name__}.")
    return found


def check_keys(given: dict[str, Any], known: tuple[str, ...], where: str) -> None:
    """Raise for keys that would be ignored."""
    for key in given:
        if key not in known:
            raise RequestError(
                400, f"{where} does not take {key!r}: it takes {', '.join(map(repr, known))}."
            )


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
