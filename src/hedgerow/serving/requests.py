"""Requests and answers: settings and limits, strict JSON in both directions, errors of clients."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple, NoReturn

from hedgerow.errors import HedgerowError, ParameterError, brief
from hedgerow.threads import resolve_threads


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one request, and of all requests together; what is beyond them gets a status."""

    body_bytes: int = 4 * 2**20  # 413; the body is not read to its end
    rows: int = 10_000  # 413
    seconds: float = 10.0  # for a head: closed; until the body has arrived: 408; the answer: 504
    queue: int = 64  # requests that wait for a thread; 503
    connections: int = 1000  # 503
    shutdown_seconds: float = 30.0  # for running requests after the signal to stop

    def __post_init__(self) -> None:
        for item in fields(self):
            value: Any = getattr(self, item.name)
            if not isinstance(value, int | float) or not 0 < value < math.inf:
                raise ParameterError(f"{item.name} must be a number above 0; got {brief(value)}.")


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a server."""

    path: str
    name: str = ""  # in the addresses; default: the name of the file without its suffix
    host: str = "127.0.0.1"
    port: int = 8080  # 0: any free port
    token: str | None = field(default=None, repr=False)  # of ``Authorization: Bearer TOKEN``
    watch_seconds: float = 2.0  # between checks of the file for a new model
    threads: int = field(default_factory=lambda: resolve_threads(None))  # for large requests
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if not 0 <= self.port < 2**16:
            raise ParameterError(f"port must be between 0 and 65535; got {self.port}.")
        if self.token is not None and len(self.token) < 16:
            raise ParameterError("a token must have at least 16 characters: it is a password.")
        if not self.watch_seconds > 0:
            raise ParameterError(f"watch_seconds must be above 0; got {self.watch_seconds}.")
        if not self.name:
            name = os.path.splitext(os.path.basename(self.path))[0] or "model"
            object.__setattr__(self, "name", name)


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
