"""Dates, times and durations: columns of microseconds that a model tells from columns of numbers.

::

    dates, times, durations    Ticks: microseconds, and which of the three they are
        |  training            Column.temporal
        |  prediction          as_trained: an error if the model knows another sort
        v
    int64 microseconds

Text of ISO 8601 stands for dates or times in a column that held them in training, because JSON and
MLflow have no better type.  Columns of frames, dicts and files have types, so that numbers in the
place of dates are an error there.  An array has no column types: its numbers are microseconds.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import numpy as np

from hedgerow.arrays import MISSING_KEY, AnyArray, IntArray, distinct
from hedgerow.data.categories.columns import Encoded, PlainOrEncoded, Ticks
from hedgerow.data.categories.levels import is_missing
from hedgerow.data.reading.objects import since_midnight
from hedgerow.data.reading.texts import microseconds
from hedgerow.data.schema import Column, Temporal
from hedgerow.errors import DataError, brief

_DAY = 24 * 60 * 60 * 1_000_000


def as_trained(part: PlainOrEncoded, column: Column, *, typed: bool) -> PlainOrEncoded:
    """Return a column whose values mean what those of the training column meant.

    Raise ``DataError`` if one of them holds dates (times, durations) and the other does
    not.

    Parameters
    ----------
    part : plain numbers, Ticks or Encoded
        Column of a table.
    column : Column
        The same column of the model.
    typed : bool
        Whether the columns of the table have types, so that numbers are not dates.
    """
    given, expected = temporal_of(part), column.temporal
    if given == expected:
        return part
    if _is_text(part):
        return part if expected is None else _of_texts(part, column)
    if (given is None and not typed) or _is_empty(part):
        return part
    check_temporal(column.name, given, expected)
    return part


def check_temporal(name: str, given: str | None, expected: str | None) -> None:
    """Raise ``DataError`` if a column holds dates (times, durations) and should not, or vice versa.

    Parameters
    ----------
    given, expected : {"dates", "times", "durations"} or None
        What the column holds now, and what it held in training; None means numbers.
    """
    if given == expected:
        return
    has, had = given or "numbers", expected or "numbers"
    cure = f"convert it to {had}"
    if expected == "dates":
        cure += " (pandas.to_datetime, for example), or write them as text of ISO 8601"
    elif expected is None:
        cure += " in the unit of the training data"
    raise DataError(
        f"column {name!r} holds {has}, but held {had} when the model was trained: {cure}."
    )


def temporal_of(part: PlainOrEncoded) -> Temporal | None:
    """Return what the values of a column are, if they are microseconds."""
    return None if isinstance(part, np.ndarray) else part.temporal


def _is_text(part: PlainOrEncoded) -> bool:
    return isinstance(part, Encoded) and not isinstance(part.values, np.ndarray)


def _is_empty(part: PlainOrEncoded) -> bool:
    """Return whether all values are missing."""
    if isinstance(part, Encoded):
        assert isinstance(part.values, np.ndarray)
        used = part.codes[part.codes >= 0]
        return bool(is_missing(part.values[used]).all())
    return bool(is_missing(part.values if isinstance(part, Ticks) else part).all())


def _of_texts(part: PlainOrEncoded, column: Column) -> Encoded:
    """Read text as the dates or times that a column held in training."""
    assert isinstance(part, Encoded)
    assert column.temporal is not None
    texts = list(map(str, part.values))
    used = distinct(part.codes[part.codes >= 0]).tolist()
    ticks = np.full(len(texts), MISSING_KEY, dtype=np.int64)
    try:
        ticks[used] = _ticks([texts[code] for code in used], column.temporal)
    except ValueError:
        row = int(np.argmax(part.codes >= 0))
        example = {"dates": "2026-01-31 or 2026-01-31T09:30:00", "times": "09:30:00"}
        hint = example.get(column.temporal)
        cure = f"convert it to {column.temporal}" + (f", or text such as {hint}" if hint else "")
        raise DataError(
            f"column {column.name!r} holds text ({brief(texts[part.codes[row]])}, row {row}), but "
            f"held {column.temporal} when the model was trained: {cure}."
        ) from None
    return Encoded(ticks, part.codes, column.temporal)


def _ticks(texts: list[str], temporal: Temporal) -> IntArray | list[int]:
    """Return the microseconds of texts; raise ``ValueError`` if one is of another form."""
    if temporal == "dates":
        return microseconds(texts).view(np.int64)
    if temporal == "times":
        return [since_midnight(dt.time.fromisoformat(text)) for text in texts]
    raise ValueError("text has no form for durations")


def array_of_ticks(values: AnyArray, temporal: Temporal) -> AnyArray:
    """Convert microseconds to an array that is read as dates, times or durations again.

    Parameters
    ----------
    values : int64
        ``MISSING_KEY`` is a missing value.
    temporal : {"dates", "times", "durations"}

    Returns
    -------
    datetime64[us], timedelta64[us], or array of datetime.time and None

    Examples
    --------
    >>> import numpy as np
    >>> array_of_ticks(np.array([0, 86_400_000_000]), "dates").tolist()[1].day
    2
    """
    if temporal != "times":
        return values.view("M8[us]" if temporal == "dates" else "m8[us]")
    midnight = dt.datetime(1970, 1, 1)
    items = [
        (midnight + dt.timedelta(microseconds=tick)).time() if 0 <= tick < _DAY else None
        for tick in values.tolist()
    ]
    return np.fromiter(items, dtype=object, count=len(items))


def text_of_ticks(value: int, temporal: Temporal) -> str:
    """Return a number of microseconds as text of the date, time or duration.

    Examples
    --------
    >>> text_of_ticks(1_704_067_200_000_000, "dates"), text_of_ticks(1_500_000, "durations")
    ('2024-01-01', '0:00:01.500000')
    """
    if temporal == "dates":
        text = str(np.datetime64(value, "us"))
        return text.removesuffix(".000000").removesuffix("T00:00:00")
    if temporal == "times" and 0 <= value < _DAY:
        (time,) = array_of_ticks(np.array([value]), "times")
        return str(time.isoformat())
    return str(dt.timedelta(microseconds=value))


def with_temporal(part: PlainOrEncoded, temporal: Temporal | None) -> PlainOrEncoded:
    """Return a column of integers with what they are, and other columns as they are."""
    if temporal is None:
        return part
    if isinstance(part, Encoded):
        return part if _is_text(part) else replace(part, temporal=temporal)
    if isinstance(part, Ticks) or part.dtype != np.int64:
        return part
    return Ticks(part, temporal)
