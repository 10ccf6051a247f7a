"""Settings of a server: its address, and its limits for clients."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field, fields
from typing import Any

from hedgerow.errors import ParameterError, brief
from hedgerow.threads import resolve_threads


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one request, and of all requests together.

    Attributes
    ----------
    body_bytes : int, default=4 MiB
        Limit on the bytes of a body; larger bodies get 413, and are not read to the end.
    rows : int, default=10,000
        Limit on the rows of a request; more get 413.
    seconds : float, default=10
        Limit from the head of a request to its answer; then 408 if its body has not arrived,
        else 504.  A connection whose head has not arrived in this time is closed.
    queue : int, default=64
        Limit on requests that wait for a thread; more get 503.
    connections : int, default=1000
        Limit on simultaneous connections and requests; more get 503.
    shutdown_seconds : float, default=30
        Time for which requests may continue after the signal to stop.
    """

    body_bytes: int = 4 * 2**20
    rows: int = 10_000
    seconds: float = 10.0
    queue: int = 64
    connections: int = 1000
    shutdown_seconds: float = 30.0

    def __post_init__(self) -> None:
        for item in fields(self):
            value: Any = getattr(self, item.name)
            if not isinstance(value, int | float) or not 0 < value < math.inf:
                raise ParameterError(f"{item.name} must be a number above 0; got {brief(value)}.")


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a server.

    Attributes
    ----------
    path : str
        The model file, of any format that :func:`hedgerow.load` reads.
    name : str
        Name in the addresses of the Open Inference Protocol; default: name of the file
        without its suffix.
    host : str, default="127.0.0.1"
    port : int, default=8080
        0 for any free port.
    token : str, optional
        Token that clients must send as ``Authorization: Bearer TOKEN``.
    watch_seconds : float, default=2
        Interval between checks of the file for a new model.
    threads : int
        Threads for large requests and explanations.
    limits : Limits
    """

    path: str
    name: str = ""
    host: str = "127.0.0.1"
    port: int = 8080
    token: str | None = field(default=None, repr=False)
    watch_seconds: float = 2.0
    threads: int = field(default_factory=lambda: resolve_threads(None))
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
