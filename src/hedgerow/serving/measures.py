"""Metrics of a server, in Prometheus' format."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily

from hedgerow.serving.slot import ModelSlot
from hedgerow.threads import BoundedPool

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)


class Measures:
    """Metrics of one server."""

    def __init__(self, slot: ModelSlot, workers: BoundedPool) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "hedgerow_requests", "Requests answered.", ["route", "status"], registry=self._registry
        )
        self._seconds = Histogram(
            "hedgerow_request_seconds", "Time from the request to its answer.", ["route"],
            buckets=_SECONDS, registry=self._registry,
        )  # fmt: skip
        self._rows = Counter("hedgerow_rows", "Rows predicted.", registry=self._registry)
        self._known: dict[tuple[str, int], tuple[Any, Any]] = {}
        self._registry.register(_OfModel(slot, workers))

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
        found: bytes = generate_latest(self._registry)
        return found


class _OfModel:
    """Metrics that slot and workers count, collected when they are read."""

    def __init__(self, slot: ModelSlot, workers: BoundedPool) -> None:
        self._slot, self._workers = slot, workers

    def collect(self) -> Iterator[Any]:
        slot, model = self._slot, self._slot.model
        about = {"name": model.name, "version": model.version}
        yield InfoMetricFamily("hedgerow_model", "The model in service.", about)
        reloads = CounterMetricFamily(
            "hedgerow_reloads", "Files that replaced the model, or could not.", None,
            ["outcome"],
        )  # fmt: skip
        reloads.add_metric(["served"], slot.n_reloads)
        reloads.add_metric(["refused"], slot.n_failures)
        yield reloads
        yield GaugeMetricFamily(
            "hedgerow_pending",
            "Requests that threads handle or that wait for a thread.",
            self._workers.n_pending,
        )
        unseen = GaugeMetricFamily(
            "hedgerow_unseen_categories", "Rows with a category that no training row had, for the "
            "model in service.", None, ["column"],
        )  # fmt: skip
        for column, count in model.booster.unseen_categories.items():
            unseen.add_metric([column], count)
        yield unseen
