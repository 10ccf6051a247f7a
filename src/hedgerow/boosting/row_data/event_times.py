"""Reading of targets that are times of events, which may be censored.

=======================================================  ==========  ========================
what users give                                          objectives  what the loss gets
=======================================================  ==========  ========================
numbers, those of censored rows with a minus sign        cox, aft    these
event and time: two columns with such names, or one of   cox, aft    time, or minus it where
truth values and one of numbers                                      there was no event
lower and upper end: two columns with such names, or     aft         these, shape (n_rows, 2)
columns of numbers that cannot be event and time
=======================================================  ==========  ========================

Two columns are a structured array, a frame, a dict, or an array, which has no names.
Names are recognised by their words, in either order.  A column of nothing but 0 and 1
among numbers without telling names may be an event as well as an end: that is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import AnyArray, FloatArray
from hedgerow.boosting.loop.sample import check_length, check_vector
from hedgerow.data.reading.frames import as_frame
from hedgerow.errors import DataError, DataTypeError

_Role: TypeAlias = Literal["event", "time", "censored"] | None

_ENDS = (("lower", "upper"), ("low", "high"), ("left", "right"), ("min", "max"))
_WORDS: dict[_Role, frozenset[str]] = {
    "censored": frozenset({"censored", "censoring"}),
    "time": frozenset(
        {"time", "times", "duration", "durations", "survival", "tenure", "lifetime", "age"}
        | {"days", "weeks", "months", "years", "hours", "minutes", "seconds", "futime", "tte"}
    ),
    "event": frozenset(
        {"event", "events", "status", "died", "dead", "death", "observed", "failure", "failed"}
        | {"relapse", "indicator", "churn", "churned", "cens", "fustat"}
    ),
}
"""Words of a name, and what the column is then; the first that fits counts."""

_SPELLINGS = (
    'Give times as {"event": event, "time": time}, event being True or 1 where it happened and '
    "False or 0 where the row is censored"
)
_BOTH_SPELLINGS = (
    f'{_SPELLINGS}; give intervals as {{"lower": lower, "upper": upper}}. A frame or a structured '
    "array with these names will do as well."
)


class _Column(NamedTuple):
    """One of the two columns of a target; ``name`` is None if the user's have none."""

    name: str | None
    values: AnyArray


def read_times(
    y: Any, n_rows: int, name: str, objective: str, *, intervals: bool = False
) -> FloatArray:
    """Targets of objective ``"cox"`` or ``"aft"``.

    Parameters
    ----------
    y : array-like, frame or dict
        As in the table above.
    n_rows : int
    name : str
        What it is, for messages.
    objective : {"cox", "aft"}
    intervals : bool, default=False
        Whether two columns without telling names are known to be ends of intervals, as
        those of other rows were.

    Returns
    -------
    float64, shape (n_rows,), or (n_rows, 2) for intervals

    Raises
    ------
    DataError, DataTypeError
        If it is none of these, or may be two of them.

    Examples
    --------
    >>> read_times({"time": [2.0, 3.0], "event": [1, 0]}, 2, "y", "aft").tolist()
    [2.0, -3.0]
    >>> read_times({"lower": [1.0, 0.0], "upper": [2.0, 3.0]}, 2, "y", "aft").tolist()
    [[1.0, 2.0], [0.0, 3.0]]
    """
    columns = _two_columns(y, name)
    if columns is None:
        return check_vector(y, n_rows, name)
    for column, what in zip(columns, ("first", "second"), strict=True):
        check_length(len(column.values), n_rows, f"{name} ({column.name or what + ' column'})")
    ends = _named_ends(columns)
    if ends is None:
        found = _event_and_time(columns, name)
        if found is not None:
            return _signed(*found, n_rows, name)
    if objective == "cox":
        raise DataError(
            f"{name} has two columns of numbers, and objective 'cox' takes no intervals: give "
            f"times, those of censored rows with a minus sign. {_SPELLINGS}."
        )
    found_ends = _intervals(*(ends or columns), name)
    if ends is None and not intervals:
        _refuse_doubtful(found_ends, name)
    return found_ends


def _two_columns(y: Any, name: str) -> tuple[_Column, _Column] | None:
    """The columns of a structured array, frame, dict or matrix; None if it has but one."""
    named: list[_Column] | None = None
    if isinstance(y, Mapping):
        named = [_Column(str(key), np.asarray(values)) for key, values in y.items()]
    elif hasattr(y, "columns") or hasattr(y, "column_names"):
        named = _columns_of_frame(y)
    else:
        array = y if isinstance(y, np.ndarray) else np.asarray(y)
        if array.dtype.names is not None:
            named = [_Column(field, array[field]) for field in array.dtype.names]
        elif array.ndim == 2 and array.shape[1] > 1:
            named = [_Column(None, array[:, k]) for k in range(array.shape[1])]
    if named is None or (len(named) == 1 and hasattr(y, "columns")):
        return None
    if len(named) != 2:
        shown = ", ".join(repr(column.name) for column in named if column.name is not None)
        raise DataTypeError(
            f"{name} needs one column, or two fields (event and time, or lower and upper end), but "
            f"has {len(named)}{f': {shown}' if shown else ''}. {_BOTH_SPELLINGS}"
        )
    return named[0], named[1]


def _columns_of_frame(y: Any) -> list[_Column]:
    frame = as_frame(y)
    if frame is None:
        raise DataTypeError(f"y must be an array, a frame or a dict; got {type(y).__name__}.")
    series = [frame.native[:, k].to_numpy() for k in range(len(frame.names))]
    names = frame.names if frame.named else (None,) * len(series)
    return [_Column(label, values) for label, values in zip(names, series, strict=True)]


def _words(name: str | None) -> frozenset[str]:
    split = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name or "").lower()
    return frozenset(re.split(r"[^a-z]+", split))


def _role(name: str | None) -> _Role:
    """What a column of this name is, if the name says so."""
    words = _words(name)
    return next((role for role, known in _WORDS.items() if words & known), None)


def _named_ends(columns: tuple[_Column, _Column]) -> tuple[_Column, _Column] | None:
    """Lower and upper end, if the names say that the columns are these."""
    first, second = columns
    for low, high in _ENDS:
        for lower, upper in ((first, second), (second, first)):
            if low in _words(lower.name) and high in _words(upper.name):
                return lower, upper
    return None


def _event_and_time(columns: tuple[_Column, _Column], name: str) -> tuple[_Column, _Column] | None:
    """Event and time, if types or names say that the columns are these.

    Raises
    ------
    DataError
        If a column tells which rows are *censored*, or both hold truth values.
    """
    first, second = columns
    truths = [_is_truth(column.values) for column in columns]
    roles = [_role(column.name) for column in columns]
    if all(truths):
        raise DataError(f"both columns of {name} hold truth values: one must hold times.")
    if "censored" in roles:
        label = columns[roles.index("censored")].name
        raise DataError(
            f"column {label!r} of {name} tells which rows are censored, or in some tables which "
            f"are not: {_SPELLINGS}."
        )
    if any(truths):
        return (first, second) if truths[0] else (second, first)
    if roles[0] == roles[1]:
        return None
    return (first, second) if roles[0] == "event" or roles[1] == "time" else (second, first)


def _is_truth(values: AnyArray) -> bool:
    """Whether all values are True or False."""
    if values.dtype.kind != "O":
        return values.dtype.kind == "b"
    return len(values) > 0 and all(isinstance(value, bool | np.bool_) for value in values)


def _signed(event: _Column, time: _Column, n_rows: int, name: str) -> FloatArray:
    """Times, those of rows without an event with a minus sign."""
    label = f"{name} ({time.name or 'time'})"
    duration = check_vector(time.values, n_rows, label)
    if (duration <= 0.0).any():
        row = int(np.argmax(duration <= 0.0))
        raise DataError(f"{label}: times must be positive, but row {row} has {duration[row]:g}.")
    return np.where(_happened(event, n_rows, name), duration, -duration)


def _happened(event: _Column, n_rows: int, name: str) -> npt.NDArray[np.bool_]:
    """The event column as truth values."""
    label = f"{name} ({event.name or 'event'})"
    values = check_vector(event.values, n_rows, label)
    wrong = (values != 0.0) & (values != 1.0)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"{label} must hold True and False, or 1 (the event happened) and 0 (censored), but "
            f"row {row} has {values[row]:g}: write, for example, event == 2 if 2 is the event. If "
            "the columns are ends of intervals, name them 'lower' and 'upper'."
        )
    return values == 1.0


def _intervals(lower: _Column, upper: _Column, name: str) -> FloatArray:
    """Both ends as one array; upper ends may be infinite."""
    for end in (lower, upper):
        if _is_truth(end.values):
            raise DataTypeError(
                f"{name} ({end.name}) is an end of intervals, but holds truth values."
            )
    try:
        ends = np.column_stack([lower.values, upper.values]).astype(np.float64)
    except (TypeError, ValueError) as error:
        raise DataTypeError(f"{name} must hold numbers: {error}.") from error
    if np.isnan(ends).any():
        row = int(np.argmax(np.isnan(ends).any(axis=1)))
        raise DataError(
            f"Input {name} contains NaN (the first in row {row}): give 0 for no lower end and "
            "infinity for no upper end."
        )
    return ends


def _refuse_doubtful(ends: FloatArray, name: str) -> None:
    """Raise ``DataError`` if two columns of numbers may be event and time."""
    if np.isinf(ends).any():  # no time of an event is infinite
        return
    for column, what in enumerate(("first", "second")):
        if ((ends[:, column] == 0.0) | (ends[:, column] == 1.0)).all():
            raise DataError(
                f"{name} has two columns of numbers, and the {what} holds nothing but 0 and 1: "
                "they may be an event and its time, or the ends of an interval. "
                f"{_BOTH_SPELLINGS}"
            )


__all__ = ["read_times"]
