"""Parsing of targets: one column, several columns of targets or labels, or times of events.

Times of events may be censored (objectives ``cox`` and ``aft``)::

    numbers, negative for censored rows
    columns "event" and "time" (one such name tells), or a boolean and a numeric column
    columns "lower" and "upper" (aft), or numeric columns that cannot be event and time

Two columns may be a structured array, a frame, a dict, or an array, which has no names.  Without
names, a numeric column of only 0 and 1 may be an event or an end: that is an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray
from hedgerow.boosting.row_data.checks import (
    check_length,
    check_vector,
    numbers_of_rows,
    one_axis,
    values_of_rows,
)
from hedgerow.comm.base import Alone, Communicator
from hedgerow.cuda.arrays import host_array
from hedgerow.data.reading.frames import as_frame
from hedgerow.data.sparse import is_sparse
from hedgerow.errors import DataError, DataTypeError, brief
from hedgerow.objectives.catalogue import SURVIVAL

if TYPE_CHECKING:
    from hedgerow.objectives import Objective


class Targets(NamedTuple):
    """Parsed targets.

    values  float64 (n_rows,), or (n_rows, n_targets) in Fortran order
    names   the user's names of several targets; None without names or for one target
    """

    values: FloatArray
    names: tuple[str, ...] | None

    @property
    def several(self) -> bool:
        return self.values.ndim == 2


def require_target(y: Any, reader: str, name: str = "y") -> None:
    """Raise ``DataError``, worded as in scikit-learn, if an estimator gets no target."""
    if y is None:
        raise DataError(
            f"This {reader} estimator requires {name} to be passed, but the target {name} is None."
        )


def has_columns(y: Any) -> bool:
    """Return whether y is a table of two or more columns."""
    if isinstance(y, Mapping):
        return len(y) > 1
    shape = getattr(y, "shape", None)
    if shape is None:
        try:
            shape = np.asarray(y).shape
        except ValueError:  # rows of different lengths
            return False
    return isinstance(shape, tuple) and len(shape) == 2 and int(shape[1]) > 1


def one_column(y: Any) -> Any:
    """Return a sparse target or a dict of one column as an array; other targets unchanged."""
    if isinstance(y, Mapping) and len(y) == 1:
        (y,) = y.values()
    return y.toarray().reshape(-1) if is_sparse(y) and y.shape[-1] == 1 else y


def target_column(y: Any, name: str = "y") -> AnyArray:
    """Return one target as an array of one axis, with a warning for a table of one column."""
    from sklearn.utils.validation import column_or_1d

    array = values_of_rows(one_column(y), name)
    one_axis(array, name)
    return column_or_1d(array, warn=True)


def read_targets(y: Any, n_rows: int, name: str = "y") -> Targets:
    """Read one target, or several if y is a table of two or more columns; messages say ``name``."""
    if not has_columns(y):
        return Targets(check_vector(one_column(y), n_rows, name), None)
    names, columns = _columns_of(y, name)
    check_length(len(columns[0]), n_rows, name)
    values = np.empty((n_rows, len(columns)), order="F")
    for k, part in enumerate(columns):
        column = f"{name} (column {k if names is None else names[k]!r})"
        values[:, k] = check_vector(part, n_rows, column)
    return Targets(values, names)


def _columns_of(y: Any, name: str) -> tuple[tuple[str, ...] | None, list[AnyArray]]:
    """Return the names of the columns, if they have some, and the columns."""
    if isinstance(y, Mapping):
        for label in y:
            if not isinstance(label, str):
                raise DataTypeError(
                    f"{name} is a dict, so its keys name targets; got {brief(label)}."
                )
        return tuple(y), [host_array(column) for column in y.values()]
    if is_sparse(y):
        y = y.toarray()
    if _is_structured(y):
        return y.dtype.names, [y[label] for label in y.dtype.names]
    frame = None if isinstance(y, np.ndarray | list | tuple) else as_frame(y)
    if frame is None:
        return None, list(host_array(y).T)
    columns = [column.to_numpy() for column in frame.columns]
    return frame.names if frame.named else None, columns


def _is_structured(y: Any) -> bool:
    return isinstance(y, np.ndarray) and y.dtype.names is not None


# -- times of events -------------------------------------------------------------------------

_EVENTS = (
    'Give times as {"event": event, "time": time}, event being True or 1 where it happened and '
    "False or 0 where the row is censored"
)
_BOTH = (
    f'{_EVENTS}; give intervals as {{"lower": lower, "upper": upper}}. A frame or a structured '
    "array with these names will do as well."
)


def read_event_times(
    y: Any,
    n_rows: int,
    objective: str,
    name: str = "y",
    like: Targets | None = None,
    others: Communicator | None = None,
) -> Targets:
    """Read times of events; ``like`` are the training targets, if these are of validation rows."""
    # ``others`` are ranks that read other rows.
    wanted = like is not None and like.several
    times = read_times(y, n_rows, name, objective, intervals=wanted, others=others)
    if like is not None and (times.ndim == 2) != wanted:
        kinds = "times", "intervals of times"
        raise DataError(
            f"{name} has {kinds[times.ndim - 1]}, but y has {kinds[wanted]}: give the same."
        )
    return Targets(times, None)


def read_times(
    y: Any,
    n_rows: int,
    name: str,
    objective: str,
    *,
    intervals: bool = False,
    others: Communicator | None = None,
) -> FloatArray:
    """Return times, negative for rows without an event, or for ``aft`` intervals (n_rows, 2)."""
    # ``intervals``: whether other rows, whose columns have names, have intervals.
    if not has_columns(y) and not _is_structured(y):
        return check_vector(one_column(y), n_rows, name)
    names, columns = _columns_of(y, name)
    if len(columns) != 2:
        shown = "" if names is None else f": {', '.join(map(repr, names))}"
        raise DataTypeError(
            f"{name} needs one column, or two fields (event and time, or lower and upper end), but "
            f"has {len(columns)}{shown}. {_BOTH}"
        )
    truths = [_is_truth(column) for column in columns]
    words = [label.lower() for label in names or ()]
    ends = ["lower" in word and "upper" in words[1 - k] for k, word in enumerate(words)]
    event = None if any(ends) else _event_of(names, truths, name)
    of_columns = ("lower end", "upper end") if event is None else ("event", "time")
    labels = [f"{name} ({label})" for label in names or of_columns[:: -1 if event else 1]]
    for label, column in zip(labels, columns, strict=True):
        check_length(len(column), n_rows, label)
    if event is not None:
        order = event, 1 - event
        happened, time = (check_vector(columns[k], n_rows, labels[k]) for k in order)
        return _signed(happened, time, [labels[k] for k in order])
    if objective == "cox":
        raise DataError(
            f"{name} has two columns of numbers, but objective 'cox' does not support intervals: "
            f"give times, negative for censored rows. {_EVENTS}."
        )
    if any(truths):
        label = labels[truths.index(True)]
        raise DataTypeError(f"{label} is an end of intervals, but holds booleans: give numbers.")
    found = np.column_stack([*map(numbers_of_rows, columns, labels)])
    if ends == [False, True]:
        found = found[:, ::-1]
    if np.isnan(found).any():
        row = int(np.argmax(np.isnan(found).any(axis=1)))
        raise DataError(
            f"Input {name} contains NaN (the first in row {row}): give 0 for no lower end and "
            "infinity for no upper end."
        )
    if not any(ends) and not intervals:  # neither names nor types tell
        _refuse_doubtful(found, name, others or Alone())
    return found


def _event_of(names: Sequence[str] | None, truths: Sequence[bool], name: str) -> int | None:
    """Return the position of the event if types or names identify it, else None."""
    for label in names or ():
        if "censor" in label.lower():
            raise DataError(
                f"column {label!r} of {name} tells which rows are censored, or in some tables "
                f"which are not: {_EVENTS}."
            )
    if all(truths):
        raise DataError(f"both columns of {name} hold booleans: one must hold times.")
    if any(truths):
        return truths.index(True)
    are_times = ["time" in label.lower() for label in names or ()]
    may_be = ["event" in label.lower() or are_times[1 - k] for k, label in enumerate(names or ())]
    found = [k for k, is_time in enumerate(are_times) if may_be[k] and not is_time]
    return found[0] if len(found) == 1 else None


def _is_truth(values: AnyArray) -> bool:
    """Return whether all values are True or False."""
    if values.dtype.kind != "O":
        return values.dtype.kind == "b"
    return len(values) > 0 and all(isinstance(value, bool | np.bool_) for value in values)


def _signed(event: FloatArray, time: FloatArray, labels: Sequence[str]) -> FloatArray:
    """Return times, negated for rows without an event."""
    if (time <= 0.0).any():
        row = int(np.argmax(time <= 0.0))
        raise DataError(f"{labels[1]}: times must be positive, but row {row} has {time[row]:g}.")
    wrong = (event != 0.0) & (event != 1.0)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"{labels[0]} must hold True and False, or 1 (the event happened) and 0 (censored), "
            f"but row {row} has {event[row]:g}: write, for example, event == 2 if 2 is the event."
        )
    return np.where(event == 1.0, time, -time)


def _refuse_doubtful(columns: FloatArray, name: str, others: Communicator) -> None:
    """Raise ``DataError`` if two numeric columns of all ranks may be event and time."""
    codes = ((columns == 0.0) | (columns == 1.0)).all(axis=0)
    facts = np.array([*~codes, np.isinf(columns).any()], dtype=np.int64)
    *are_times, is_infinite = (others.allreduce(facts, "max") > 0).tolist()
    if not all(are_times) and not is_infinite:  # event times are finite, ends need not be
        raise DataError(
            f"{name} has two columns of numbers, and the {'second' if are_times[0] else 'first'} "
            "holds nothing but 0 and 1: they may be an event and its time, or the ends of an "
            f"interval. {_BOTH}"
        )


# -- in the order of the model ---------------------------------------------------------------


def same_targets(
    seen: Targets, n_targets: int, names: Sequence[str] | None, name: str
) -> FloatArray:
    """Return targets of other rows in the order of the training targets, which have these names."""
    n_columns = seen.values.shape[1] if seen.several else 1
    if n_columns != n_targets:
        raise DataError(f"{name} has {n_columns} column(s), but the model predicts {n_targets}.")
    if seen.names is None or names is None or seen.names == names:
        return seen.values
    missing = [target for target in names if target not in seen.names]
    if missing:
        raise DataError(f"{name} lacks the column {missing[0]!r}, a target of the training rows.")
    order = [seen.names.index(target) for target in names]
    return np.asfortranarray(seen.values[:, order])


def targets_of_rows(objective: Objective, y: Any, n_rows: int) -> FloatArray:
    """Return the targets of rows: numbers, times of events, or several targets."""
    if objective.name in SURVIVAL:
        return read_times(y, n_rows, "y", objective.name)
    return in_order(objective, read_targets(y, n_rows))


def in_order(objective: Objective, found: Targets) -> FloatArray:
    """Return targets in the order of the model, if both have names; otherwise unchanged."""
    if objective.name in SURVIVAL:  # both ends of intervals are one target
        return found.values
    from hedgerow.objectives import SeveralTargets

    if not isinstance(objective, SeveralTargets):
        return same_targets(found, 1, None, "y")
    names = objective.names if objective.named else None
    return same_targets(found, objective.n_outputs, names, "y")
