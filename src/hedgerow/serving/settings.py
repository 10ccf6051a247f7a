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
