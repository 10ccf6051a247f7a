"""Ticks of an axis whose numbers are microseconds of dates, times or durations."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.data.reading.temporal import text_of_ticks
from hedgerow.data.schema import Temporal
from hedgerow.plot.style import SMALL

if TYPE_CHECKING:
    from matplotlib.axis import Axis

_MOST_TICKS = 5
_UNITS = (86_400_000_000, 3_600_000_000, 60_000_000, 1_000_000, 1_000, 1)
"""Days, hours, minutes, seconds, milliseconds and microseconds."""


def show_temporal_ticks(axis: Axis, temporal: Temporal, low: float, high: float) -> None:
    """Put ticks at full days, hours or other units from ``low`` to ``high``, with their text."""
    first, last = _as_datetime(low), _as_datetime(high)
    if temporal == "durations" or first is None or last is None:
        places = _in_units(low, high)
    else:
        places = _of_calendar(first, last)
    shown = [place for place in places if low <= place <= high]
    from matplotlib.axis import XAxis

    slanted: dict[str, Any] = {"rotation": 35, "ha": "right"} if isinstance(axis, XAxis) else {}
    texts = [text_of_ticks(place, temporal) for place in shown]
    axis.set_ticks(shown, texts, fontsize=SMALL, **slanted)


def _of_calendar(first: dt.datetime, last: dt.datetime) -> list[int]:
    from matplotlib.dates import AutoDateLocator

    days = AutoDateLocator(minticks=2, maxticks=_MOST_TICKS).tick_values(first, last)
    return [1000 * round(day * 86_400_000) for day in days]  # days are not exact in float64


def _in_units(low: float, high: float) -> list[int]:
    from matplotlib.ticker import MaxNLocator

    unit = next((unit for unit in _UNITS if 2 * unit <= high - low), 1)
    return [
        round(at * unit) for at in MaxNLocator(_MOST_TICKS).tick_values(low / unit, high / unit)
    ]


def _as_datetime(value: float) -> dt.datetime | None:
    """Return the date of a number of microseconds; None outside the years 1 to 9999."""
    found = np.datetime64(round(value), "us").astype(object)
    return found if isinstance(found, dt.datetime) else None
