"""Dates, times and durations: columns of microseconds that a model tells from columns of numbers.

::

    dates, times, durations    ReadColumn: microseconds, and which of these they are
        |  training            Column.temporal
        |  prediction          as_trained: an error if the model knows another sort
        v
    int64 microseconds

Dates with a time zone are converted to UTC, and are other values than dates without one.
Text of ISO 8601 stands for dates or times in a column that held them in training, because JSON and
MLflow have no better type.  Columns of frames, dicts and files have types, so that numbers in the
place of dates are an error there.  An array has no column types: its numbers are microseconds.
"""

from __future__ import annotations

import datetime as dt

import numpy as np

from hedgerow.arrays import MISSING_KEY, AnyArray, distinct
from hedgerow.data.reading.columns import ReadColumn
from hedgerow.data.reading.objects import since_midnight
from hedgerow.data.reading.texts import microseconds
from hedgerow.data.schema import DATES, Column, Temporal
from hedgerow.errors import DataError, brief

NUMBERS = "numbers, or nothing,"
"""What a column of numbers held in training: a model does not tell it from one without values."""

_DAY = 24 * 60 * 60 * 1_000_000


def as_trained(part: ReadColumn, column: Column, *, typed: bool) -> ReadColumn:
    """Return a column whose values mean what those of the training column meant."""
    given, expected = part.temporal, column.temporal
    if given == expected:
        return part
    if part.is_text:
        return part if expected is None else _of_texts(part, column)
    if (given is None and not typed) or part.missing().all():
        return part
    check_temporal(column.name, given, expected)
    return part


def check_temporal(name: str, given: str | None, expected: str | None) -> None:
    """Raise ``DataError`` if a column holds dates (times, ...) and should not, or vice versa."""
    if given == expected:
        return
    if given in DATES and expected in DATES:
        if expected == "zoned dates":
            has, had = "without", "with"
            cure = "give them the zone to which they belong (in pandas: dt.tz_localize(zone))"
        else:
            has, had = "with", "without"
            cure = (
                "convert them to the zone of the training data and leave it out (in pandas: "
                "dt.tz_convert(zone).dt.tz_localize(None))"
            )
        raise DataError(
            f"column {name!r} holds dates {has} a time zone, but held dates {had} one when the "
            f"model was trained: {cure}."
        )
    has = _shown(given) if given else "numbers"
    had, to = (_shown(expected), _shown(expected)) if expected else (NUMBERS, "numbers")
    cure = f"convert it to {to}"
    if expected in DATES:
        cure += " (pandas.to_datetime, for example), or write them as text of ISO 8601"
    elif expected is None:
        cure += " in the unit of the training data"
    raise DataError(
        f"column {name!r} holds {has}, but held {had} when the model was trained: {cure}."
    )


def _shown(temporal: str) -> str:
    return "dates" if temporal in DATES else temporal


def _of_texts(part: ReadColumn, column: Column) -> ReadColumn:
    """Read text as the dates or times that a column held in training."""
    assert part.codes is not None
    assert column.temporal is not None
    texts = list(map(str, part.values))
    used = distinct(part.codes[part.codes >= 0]).tolist()
    ticks = np.full(len(texts), MISSING_KEY, dtype=np.int64)
    present = [texts[code] for code in used]
    try:
        if column.temporal in DATES:
            ticks[used] = microseconds(present).view(np.int64)
        elif column.temporal == "times":
            ticks[used] = [since_midnight(dt.time.fromisoformat(text)) for text in present]
        else:
            raise ValueError("text has no form for durations")
    except ValueError:
        row = int(np.argmax(part.codes >= 0))
        example = {"times": "09:30:00", "zoned dates": "2026-01-31T09:30:00Z"}
        example["dates"] = "2026-01-31 or 2026-01-31T09:30:00"
        hint, had = example.get(column.temporal), _shown(column.temporal)
        cure = f"convert it to {had}" + (f", or text such as {hint}" if hint else "")
        raise DataError(
            f"column {column.name!r} holds text ({brief(texts[part.codes[row]])}, row {row}), but "
            f"held {had} when the model was trained: {cure}."
        ) from None
    if present and column.temporal in DATES:
        is_zoned = dt.datetime.fromisoformat(present[0]).tzinfo is not None
        check_temporal(column.name, "zoned dates" if is_zoned else "dates", column.temporal)
    return ReadColumn(ticks, part.codes, column.temporal)


def array_of_ticks(values: AnyArray, temporal: Temporal) -> AnyArray:
    """Convert microseconds to an array that is read as dates, times or durations again."""
    if temporal == "zoned dates":
        # NumPy's dates have no zone.
        dates = values.view("M8[us]").tolist()
        return np.array([date and date.replace(tzinfo=dt.UTC) for date in dates], dtype=object)
    if temporal != "times":
        return values.view("M8[us]" if temporal in DATES else "m8[us]")
    midnight = dt.datetime(1970, 1, 1)
    items = [
        (midnight + dt.timedelta(microseconds=tick)).time() if 0 <= tick < _DAY else None
        for tick in values.tolist()
    ]
    return np.fromiter(items, dtype=object, count=len(items))


def text_of_ticks(value: int, temporal: Temporal) -> str:
    """Return a number of microseconds as text of the date, time or duration."""
    if temporal in DATES:
        text = str(np.datetime64(value, "us")).removesuffix(".000000")
        return f"{text}Z" if temporal == "zoned dates" else text.removesuffix("T00:00:00")
    if temporal == "times" and 0 <= value < _DAY:
        (time,) = array_of_ticks(np.array([value]), "times")
        return str(time.isoformat())
    return str(dt.timedelta(microseconds=value))
