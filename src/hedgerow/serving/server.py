"""Start and end of a server: socket, signals, log."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any

import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from hedgerow.serving.app import Service, make_app
from hedgerow.serving.settings import Settings
from hedgerow.serving.slot import ModelSlot

_BACKLOG = 1024


def serve(settings: Settings, say: Callable[[str], None] = print) -> None:
    """Serve a model until the process receives SIGTERM or SIGINT.

    On SIGHUP, the server checks the model file at once.
    """
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
    )
    slot = ModelSlot(settings.path, settings.name)
    listening = _listen(settings)
    host, port = listening.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    if settings.token is None and not is_loopback(host):
        say(f"warning: {host} is reachable from other machines, and no token is required")

    def started() -> None:
        loop = asyncio.get_running_loop()
        if hasattr(signal, "SIGHUP"):
            loop.add_signal_handler(signal.SIGHUP, service.reload)
        say(f"serving {slot.model.name} {slot.model.version} on http://{shown}:{port}")

    service = Service(settings, slot)
    limits = settings.limits
    config = uvicorn.Config(
        make_app(service, started),
        http=_protocol(limits.seconds),
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        ws="none",
        lifespan="on",
        limit_concurrency=limits.connections,
        timeout_keep_alive=max(1, int(limits.seconds)),
        timeout_graceful_shutdown=max(1, int(limits.shutdown_seconds)),
    )
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    # Uvicorn raises the signal again after the shutdown; it then ends the server normally.
    signal.signal(signal.SIGTERM, lambda *_: None)
    uvicorn.Server(config).run(sockets=[listening])


def _protocol(seconds: float) -> type[asyncio.Protocol]:
    """Return uvicorn's protocol, which has no limit of time for the head of a request, with one."""

    class TimedProtocol(AutoHTTPProtocol):  # type: ignore[misc]
        """HTTP that closes connections whose next head is not complete in time."""

        _end_of_head: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._time_head()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._time_head()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_clock()
            super().connection_lost(exc)

        def _time_head(self) -> None:
            """Start the clock, unless it runs, when a head is awaited; stop it at its end."""
            if self.cycle is not None and not self.cycle.response_complete:
                self._stop_clock()
            elif self._end_of_head is None:
                self._end_of_head = self.loop.call_later(seconds, self.transport.close)

        def _stop_clock(self) -> None:
            if self._end_of_head is not None:
                self._end_of_head.cancel()
                self._end_of_head = None

    return TimedProtocol


def _listen(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    address = (settings.host, settings.port)
    return socket.create_server(address, family=family, backlog=_BACKLOG)


def is_loopback(host: str) -> bool:
    """Return whether an address is reachable only from this machine."""
    return ipaddress.ip_address(host).is_loopback
