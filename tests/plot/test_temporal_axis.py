"""Plots of effects show dates, times and durations with their units."""

from __future__ import annotations

import datetime as dt
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("Agg")
import matplotlib.pyplot as plt

from hedgerow import HedgerowRegressor
from hedgerow.plot import plot_partial_dependence
from hedgerow.plot.style import show_temporal_ticks

N = 300
DAY = 86_400_000_000


@pytest.fixture(autouse=True)
def close_figures() -> Any:
    yield
    plt.close("all")


def labels(axis: Any) -> list[str]:
    return [text.get_text() for text in axis.get_ticklabels()]


def rows(missing: bool) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    days = np.datetime64("2024-01-01") + rng.integers(0, 500, N).astype("m8[D]")
    seconds = rng.integers(0, 40 * 3600, N)
    if missing:
        days[::9] = np.datetime64("NaT")
    times = np.array([dt.time(second // 3600 % 24, second // 60 % 60) for second in seconds])
    return {
        "day": days.astype("M8[us]"),
        "wait": seconds.astype("m8[s]").astype("m8[us]"),
        "time": times,
        "size": rng.normal(size=N),
    }


def fitted(X: dict[str, Any]) -> HedgerowRegressor:
    day = (X["day"] - np.datetime64("2024-01-01")) / np.timedelta64(1, "D")
    hours = X["wait"] / np.timedelta64(1, "h")
    y = np.nan_to_num(day, nan=90.0) / 100 + hours / 10 + X["size"]
    y += np.array([time.hour for time in X["time"]]) / 5
    return HedgerowRegressor(n_estimators=20, early_stopping=False).fit(X, y)


@pytest.mark.parametrize("missing", [False, True])
def test_effects_have_ticks_at_full_units(missing: bool) -> None:
    X = rows(missing)
    panels = plot_partial_dependence(fitted(X).partial_dependence(X), most=4)
    found = {axes.get_xlabel(): labels(axes.xaxis) for axes in panels}
    assert found["day"] == ["2024-05-01", "2024-09-01", "2025-01-01", "2025-05-01"]
    assert found["wait"] == ["8:00:00", "16:00:00", "1 day, 0:00:00", "1 day, 8:00:00"]
    assert found["time"] == ["06:00:00", "12:00:00", "18:00:00"]
    assert {"-1", "0", "1"} <= {label.replace("\N{MINUS SIGN}", "-") for label in found["size"]}


@pytest.mark.parametrize(
    ("temporal", "low", "high"),
    [
        ("dates", 0.0, 9e18),  # beyond the year 9999
        ("dates", 0.0, 3e6),
        ("dates", -800 * 365 * DAY, 0.0),
        ("times", 0.0, DAY),
        ("durations", 0.0, 5.0),
        ("durations", -3e6, 9e6),
    ],
)
def test_every_tick_is_where_its_text_says(temporal: Any, low: float, high: float) -> None:
    from hedgerow.data.reading.temporal import text_of_ticks

    axes = plt.figure().add_subplot()
    axes.set_xlim(low, high)
    show_temporal_ticks(axes.xaxis, temporal, low, high)
    places = axes.get_xticks()
    assert 2 <= len(places) <= 10
    assert ((places >= low) & (places <= high)).all()
    assert labels(axes.xaxis) == [text_of_ticks(round(place), temporal) for place in places]
