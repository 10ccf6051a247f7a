"""Parsing of survival targets: event times that may be censored.

=======================================================  ==========  ========================
input of the user                                        objectives  input of the loss
=======================================================  ==========  ========================
numbers, negative for censored rows                      cox, aft    the same numbers
event and time: two columns with such names, or a        cox, aft    time, negative for rows
boolean and a numeric column                                         without an event
lower and upper end: two columns with such names, or     aft         both ends, shape (n_rows, 2)
numeric columns that cannot be event and time
=======================================================  ==========  ========================

Two columns may be a structured array, a frame, a dict, or an array, which has no names.
Names are recognised by their words, in either order.  Without such names, a numeric column
of only 0 and 1 may be an event or an end: that is an error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray
from hedgerow.boosting.row_data.checks import check_length, check_vector, numbers_of_rows
from hedgerow.comm.base import Alone, Communicator
from hedgerow.cuda.arrays import host_array
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
"""Words in a column name and the role they imply; the first match wins."""

_SPELLINGS = (
    'Give times as {"event": event, "time": time}, event being True or 1 where it happened and '
    "False or 0 where the row is censored"
)
_BOTH_SPELLINGS = (
    f'{_SPELLINGS}; give intervals as {{"lower": lower, "upper": upper}}. A frame or a structured '
    "array with these names will do as well."
)


class _Column(NamedTuple):
    """One of the two columns of a target; ``name`` is None for columns without names."""

    name: str | None
    values: AnyArray


def read_times(
    y: Any,
    n_rows: int,
    name: str,
    objective: str,
    *,
    intervals: bool = False,
    others: Communicator | None = None,
) -> FloatArray:
    """Parse targets of objective ``"cox"`` or ``"aft"``; ``others`` are ranks with other rows.

    ``intervals``: whether the training rows, if these are others, have intervals.
    """
    columns = _two_columns(y, name)
    if columns is None:
        return check_vector(y, n_rows, name)
    for column, what in zip(columns, ("first", "second"), strict=True):
        check_length(len(column.values), n_rows, f"{name} ({column.name or what + ' column'})")
    names = columns[0].name, columns[1].name
    truths = _is_truth(columns[0].values), _is_truth(columns[1].values)
    lower = first_end(names)
    event = None if lower is not None else _event_of(names, truths, name)
    if event is not None:
        return _signed(columns[event], columns[1 - event], n_rows, name)
    if objective == "cox":
        raise DataError(
            f"{name} has two columns of numbers, but objective 'cox' does not support intervals: "
            f"give times, negative for censored rows. {_SPELLINGS}."
        )
    for label, is_truth in zip(names, truths, strict=True):
        if is_truth:
            raise DataTypeError(
                f"{name} ({label}) is an end of intervals, but holds booleans: give numbers."
            )
    one, other = columns if lower != 1 else columns[::-1]
    found = _intervals(one, other, n_rows, name)
    if lower is None and not intervals:  # neither names nor types tell
        _refuse_doubtful(found, name, others or Alone())
    return found


def _two_columns(y: Any, name: str) -> tuple[_Column, _Column] | None:
    """Return the two columns of a structured array, frame, dict or matrix; None for one column."""
    named: list[_Column] | None = None
    if isinstance(y, Mapping):
        named = [_Column(str(key), host_array(values)) for key, values in y.items()]
    elif hasattr(y, "columns") or hasattr(y, "column_names"):
        frame = as_frame(y)
        if frame is None:
            raise DataTypeError(f"y must be an array, a frame or a dict; got {type(y).__name__}.")
        names = frame.names if frame.named else (None,) * len(frame.names)
        series = (frame.native[:, k].to_numpy() for k in range(len(names)))
        named = [_Column(label, values) for label, values in zip(names, series, strict=True)]
    else:
        array = y if isinstance(y, np.ndarray) else host_array(y)
        if array.dtype.names is not None:
            named = [_Column(field, host_array(array[field])) for field in array.dtype.names]
        elif array.ndim == 2 and array.shape[1] > 1:
            named = [_Column(None, host_array(array[:, k])) for k in range(array.shape[1])]
    if named is None or (len(named) == 1 and hasattr(y, "columns")):
        return None
    if len(named) != 2:
        shown = ", ".join(repr(column.name) for column in named if column.name is not None)
        raise DataTypeError(
            f"{name} needs one column, or two fields (event and time, or lower and upper end), but "
            f"has {len(named)}{f': {shown}' if shown else ''}. {_BOTH_SPELLINGS}"
        )
    return named[0], named[1]


def _words(name: str | None) -> frozenset[str]:
    split = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name or "").lower()
    return frozenset(re.split(r"[^a-z]+", split))


def first_end(names: tuple[str | None, str | None]) -> int | None:
    """Return the position of the lower end if the column names identify both, else None."""
    for low, high in _ENDS:
        for lower in (0, 1):
            if low in _words(names[lower]) and high in _words(names[1 - lower]):
                return lower
    return None


def _event_of(
    names: tuple[str | None, str | None], truths: tuple[bool, bool], name: str
) -> int | None:
    """Return the position of the event if types or names identify event and time, else None."""
    roles: list[_Role] = [
        next((role for role, known in _WORDS.items() if _words(label) & known), None)
        for label in names
    ]
    if all(truths):
        raise DataError(f"both columns of {name} hold booleans: one must hold times.")
    if "censored" in roles:
        label = names[roles.index("censored")]
        raise DataError(
            f"column {label!r} of {name} tells which rows are censored, or in some tables which "
            f"are not: {_SPELLINGS}."
        )
    if any(truths):
        return truths.index(True)
    if roles[0] == roles[1]:
        return None
    return 0 if roles[0] == "event" or roles[1] == "time" else 1


def _is_truth(values: AnyArray) -> bool:
    """Return whether all values are True or False."""
    if values.dtype.kind != "O":
        return values.dtype.kind == "b"
    return len(values) > 0 and all(isinstance(value, bool | np.bool_) for value in values)


def _signed(event: _Column, time: _Column, n_rows: int, name: str) -> FloatArray:
    """Return times, negated for rows without an event."""
    label = f"{name} ({time.name or 'time'})"
    duration = check_vector(time.values, n_rows, label)
    if (duration <= 0.0).any():
        row = int(np.argmax(duration <= 0.0))
        raise DataError(f"{label}: times must be positive, but row {row} has {duration[row]:g}.")
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
    return np.where(values == 1.0, duration, -duration)


def _intervals(lower: _Column, upper: _Column, n_rows: int, name: str) -> FloatArray:
    """Return both ends as one array; upper ends may be infinite."""
    ends = np.column_stack(
        [
            numbers_of_rows(end.values, f"{name} ({end.name or what + ' end'})")
            for end, what in ((lower, "lower"), (upper, "upper"))
        ]
    )
    if np.isnan(ends).any():
        row = int(np.argmax(np.isnan(ends).any(axis=1)))
        raise DataError(
            f"Input {name} contains NaN (the first in row {row}): give 0 for no lower end and "
            "infinity for no upper end."
        )
    return ends


def _refuse_doubtful(columns: FloatArray, name: str, others: Communicator) -> None:
    """Raise ``DataError`` if two numeric columns of all ranks may be event and time."""
    codes = ((columns == 0.0) | (columns == 1.0)).all(axis=0)
    facts = np.array([*~codes, np.isinf(columns).any()], dtype=np.int64)
    *are_times, is_infinite = (others.allreduce(facts, "max") > 0).tolist()
    if is_infinite:  # event times are finite, so these are ends
        return
    for is_time, what in zip(are_times, ("first", "second"), strict=True):
        if not is_time:
            raise DataError(
                f"{name} has two columns of numbers, and the {what} holds nothing but 0 and 1: "
                "they may be an event and its time, or the ends of an interval. "
                f"{_BOTH_SPELLINGS}"
            )
