"""A server: its routes, with token, limits and metrics; its socket, signals and log.

======  ==========================================  ===================================
method  path                                        answer
======  ==========================================  ===================================
GET     ``/v2/health/live``, ``/v2/health/ready``   200; without a token
GET     ``/v2``                                     the server
GET     ``/v2/models/NAME[/versions/V]``            the model's tensors
GET     ``/v2/models/NAME[/versions/V]/ready``      200
POST    ``/v2/models/NAME[/versions/V]/infer``      Open Inference Protocol, version 2
POST    ``/predict``                                records in, predictions out
GET     ``/metrics``                                metrics for Prometheus
======  ==========================================  ===================================

The event loop answers a few rows, and threads answer more rows and explanations: predicting one
row takes less time than waking a thread.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, TypeAlias

import uvicorn
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from hedgerow import __version__
from hedgerow.errors import DataError, DataTypeError, ParameterError
from hedgerow.serving.records import read_records
from hedgerow.serving.requests import Limits, RequestError, Settings, Work, encoded
from hedgerow.serving.slot import ModelSlot, ServedModel
from hedgerow.serving.tensors import model_metadata, read_tensors
from hedgerow.threads import BoundedPool

SMALL_BODY = 16_384
"""Largest body in bytes that the event loop reads."""

_LOG = logging.getLogger("hedgerow.serving")
_JSON = "application/json"

Reader: TypeAlias = Callable[[ServedModel, bytes, Limits], Work]


class Answer(NamedTuple):
    """The answer to a request."""

    content: bytes
    n_rows: int = 0
    status: int = 200
    media_type: str = _JSON


class Service:
    """A model, and the state that its requests share."""

    def __init__(self, settings: Settings, slot: ModelSlot) -> None:
        self.settings, self.slot = settings, slot
        self.workers = BoundedPool(settings.threads, settings.limits.queue, "hedgerow-serve")
        self.measures = Measures(slot, self.workers)
        self._token = None if settings.token is None else settings.token.encode()
        self._reloading = asyncio.Event()

    # -- requests ----------------------------------------------------------------------

    def guarded(self, route: str) -> Callable[[Request], Awaitable[Response]]:
        """Return the endpoint of a route: its answers, with token, errors and metrics."""

        async def endpoint(request: Request) -> Response:
            start, headers = time.perf_counter(), None
            try:
                self._check_token(request)
                answer = await self._of_route(route, request)
            except RequestError as error:
                answer = _refusal(error.status, error)
                headers = {401: {"WWW-Authenticate": "Bearer"}, 503: {"Retry-After": "1"}}.get(
                    error.status
                )
            except (DataError, DataTypeError, ParameterError) as error:
                answer = _refusal(400, error)
            except ClientDisconnect:
                answer = _refusal(400, "the client closed the connection.")
            except Exception:
                _LOG.exception("%s failed", route)
                answer = _refusal(500, "the server failed; its log says why.")
            self.measures.note(route, answer.status, time.perf_counter() - start, answer.n_rows)
            return Response(answer.content, answer.status, headers, answer.media_type)

        return endpoint

    def _check_token(self, request: Request) -> None:
        if self._token is None:
            return
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        right = hmac.compare_digest(given.strip().encode("utf-8", "replace"), self._token)
        if not right or scheme.lower() != "bearer":
            raise RequestError("send the token: Authorization: Bearer TOKEN.", 401)

    async def _body(self, request: Request) -> bytes:
        """Return the body, if it is not too large."""
        most = self.settings.limits.body_bytes
        declared = request.headers.get("content-length", "0")
        if declared.isdigit() and int(declared) > most:
            raise RequestError(f"the body has {declared} bytes; at most {most} are allowed.", 413)
        if "inference-header-content-length" in request.headers:
            raise RequestError("binary tensors are not supported: send them as JSON.")
        parts, size = [], 0
        async for part in request.stream():
            size += len(part)
            if size > most:
                raise RequestError(f"the body has more than {most} bytes, the limit.", 413)
            parts.append(part)
        return b"".join(parts)

    async def _answer(self, request: Request, model: ServedModel, read: Reader) -> Answer:
        limits = self.settings.limits
        end = asyncio.get_running_loop().time() + limits.seconds
        try:
            async with asyncio.timeout_at(end):
                body = await self._body(request)
        except TimeoutError:
            raise RequestError(f"the body did not arrive within {limits.seconds} s.", 408) from None
        work = read(model, body, limits) if len(body) <= SMALL_BODY else None
        if work is not None and work.is_small:
            return Answer(work.answer(), work.n_rows)

        def answered() -> Answer:
            found = read(model, body, limits) if work is None else work
            return Answer(found.answer(), found.n_rows)

        future = self.workers.submit(answered)
        if future is None:
            raise RequestError("too many requests are waiting: try again in a second.", 503)
        try:
            async with asyncio.timeout_at(end):
                return await asyncio.wrap_future(future)
        except TimeoutError:
            raise RequestError(f"no answer within {limits.seconds} s.", 504) from None

    def _named(self, request: Request) -> ServedModel:
        """Return the model that the address names."""
        model = self.slot.model
        name, version = request.path_params["name"], request.path_params.get("version")
        if name != model.name:
            raise RequestError(f"there is no model {name!r}; the model is {model.name!r}.", 404)
        if version is not None and version != model.version:
            raise RequestError(f"there is no version {version!r}; it is {model.version!r}.", 404)
        return model

    # -- routes ------------------------------------------------------------------------

    async def _of_route(self, route: str, request: Request) -> Answer:
        """Return the answer to a request of a route."""
        if route == "predict":
            return await self._answer(request, self.slot.model, read_records)
        if route == "server":
            return Answer(encoded({"name": "hedgerow", "version": __version__, "extensions": []}))
        if route == "metrics":
            return Answer(self.measures.text(), media_type=CONTENT_TYPE)
        model = self._named(request)
        if route == "infer":
            return await self._answer(request, model, read_tensors)
        return Answer(encoded(model_metadata(model)) if route == "model" else b"")

    async def healthy(self, request: Request) -> Response:
        """Answer that the server is ready: it has a model from the start."""
        return Response(b"")

    def routes(self) -> list[Route]:
        found = [Route(f"/v2/health/{state}", self.healthy) for state in ("live", "ready")]
        routes = {"/predict": "predict", "/v2": "server", "/metrics": "metrics"}
        for path in ("/v2/models/{name}", "/v2/models/{name}/versions/{version}"):
            routes |= {path: "model", f"{path}/infer": "infer", f"{path}/ready": "ready"}
        for path, route in routes.items():
            methods = ["POST"] if route in ("predict", "infer") else ["GET"]
            found.append(Route(path, self.guarded(route), methods=methods))
        return found

    # -- the model's successors ----------------------------------------------------------

    def reload(self) -> None:
        """Check the file now."""
        self._reloading.set()

    async def follow_file(self) -> None:
        """Load changes of the file as long as the server runs."""
        while True:
            try:
                async with asyncio.timeout(self.settings.watch_seconds):
                    await self._reloading.wait()
            except TimeoutError:
                pass
            requested = self._reloading.is_set()
            self._reloading.clear()
            outcome = await asyncio.to_thread(self.slot.refresh, requested)
            if outcome is not None:
                self.measures.reloads[outcome].inc()
            if outcome == "served":
                _LOG.info("now serving version %s", self.slot.model.version)
            elif outcome == "refused":
                _LOG.error("the model is unchanged: %s", self.slot.failure)


def _refusal(status: int, error: object) -> Answer:
    return Answer(encoded({"error": str(error)}), status=status)


async def _as_json(_: Request, error: Exception) -> Response:
    """Return errors of the router (404, 405) in the common form."""
    assert isinstance(error, HTTPException)
    content = encoded({"error": error.detail})
    return Response(content, error.status_code, error.headers, _JSON)


def make_app(service: Service, started: Callable[[], None] = lambda: None) -> Starlette:
    """Return the application; it calls ``started`` in its loop once it runs."""

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        follower = asyncio.create_task(service.follow_file())
        started()
        try:
            yield
        finally:
            follower.cancel()
            service.workers.close()

    handlers: Any = {HTTPException: _as_json}
    app = Starlette(routes=service.routes(), lifespan=lifespan, exception_handlers=handlers)
    # A redirect would repeat the Host header of the client, and skip the check of the token.
    app.router.redirect_slashes = False
    return app


CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)


class Measures:
    """Metrics of one server."""

    def __init__(self, slot: ModelSlot, workers: BoundedPool) -> None:
        self._slot, self._registry = slot, CollectorRegistry()
        registered = {"registry": self._registry}
        self._requests = Counter(
            "hedgerow_requests", "Requests answered.", ["route", "status"], **registered
        )
        self._seconds = Histogram(
            "hedgerow_request_seconds", "Time from the request to its answer.", ["route"],
            buckets=_SECONDS, **registered,
        )  # fmt: skip
        self._rows = Counter("hedgerow_rows", "Rows predicted.", **registered)
        self._model = Info("hedgerow_model", "The model in service.", **registered)
        about = "Files that replaced the model, or could not."
        reloads = Counter("hedgerow_reloads", about, ["outcome"], **registered)
        self.reloads = {outcome: reloads.labels(outcome) for outcome in ("served", "refused")}
        waiting = "Requests that threads handle or that wait for a thread."
        Gauge("hedgerow_pending", waiting, **registered).set_function(lambda: workers.n_pending)
        about = "Rows with a category that no training row had, for the model in service."
        self._unseen = Gauge("hedgerow_unseen_categories", about, ["column"], **registered)
        self._known: dict[tuple[str, int], tuple[Any, Any]] = {}

    def note(self, route: str, status: int, seconds: float, n_rows: int) -> None:
        """Count one answer."""
        known = self._known.get((route, status))
        if known is None:
            known = self._requests.labels(route, str(status)), self._seconds.labels(route)
            self._known[route, status] = known
        known[0].inc()
        known[1].observe(seconds)
        if n_rows:
            self._rows.inc(n_rows)

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        model = self._slot.model
        self._model.info({"name": model.name, "version": model.version})
        self._unseen.clear()
        for column, count in model.booster.unseen_categories.items():
            self._unseen.labels(column).set(count)
        return generate_latest(self._registry)


_BACKLOG = 1024


def serve(settings: Settings, say: Callable[[str], None] = print) -> None:
    """Serve a model until SIGTERM or SIGINT; on SIGHUP check the model file at once."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
    )
    slot = ModelSlot(settings.path, settings.name)
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    address = (settings.host, settings.port)
    listening = socket.create_server(address, family=family, backlog=_BACKLOG)
    host, port = listening.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    if settings.token is None and not ipaddress.ip_address(host).is_loopback:
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
