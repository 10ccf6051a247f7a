"""Parsing of targets: one column, or several columns of targets or labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray
from hedgerow.boosting.row_data.checks import (
    check_finite,
    check_length,
    check_vector,
    values_of_rows,
)
from hedgerow.boosting.row_data.event_times import read_times
from hedgerow.comm.base import Communicator
from hedgerow.cuda.arrays import host_array
from hedgerow.data.reading.frames import as_frame
from hedgerow.data.sparse import is_sparse
from hedgerow.errors import DataError, DataTypeError, brief
from hedgerow.objectives import Objective, SeveralTargets
from hedgerow.objectives.catalogue import SURVIVAL


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


def read_event_times(
    y: Any,
    n_rows: int,
    objective: str,
    name: str = "y",
    like: Targets | None = None,
    others: Communicator | None = None,
) -> Targets:
    """Read times of events; ``like`` are the training targets, if these are of validation rows.

    ``others`` are ranks that read other rows.
    """
    wanted = like is not None and like.several
    times = read_times(y, n_rows, name, objective, intervals=wanted, others=others)
    if like is not None and (times.ndim == 2) != wanted:
        kinds = "times", "intervals of times"
        raise DataError(
            f"{name} has {kinds[times.ndim - 1]}, but y has {kinds[wanted]}: give the same."
        )
    return Targets(times, None)


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
    if array.ndim > 2 or (array.ndim == 2 and array.shape[1] != 1):
        raise DataError(f"{name} should be a 1d array, got an array of shape {array.shape}.")
    found: AnyArray = column_or_1d(array, warn=True)
    return found


def read_targets(y: Any, n_rows: int, name: str = "y") -> Targets:
    """Read one target, or several if y is a table of two or more columns; messages say ``name``."""
    if not has_columns(y):
        return Targets(check_vector(one_column(y), n_rows, name), None)
    names, columns = _columns_of(y, n_rows, name)
    values = np.empty((n_rows, len(columns)), order="F")
    for k, part in enumerate(columns):
        column = f"{name} (column {k if names is None else names[k]!r})"
        values[:, k] = check_vector(part, n_rows, column)
        check_finite(values[:, k], column)
    return Targets(values, names)


def _columns_of(y: Any, n_rows: int, name: str) -> tuple[tuple[str, ...] | None, list[Any]]:
    """Return the names of the columns, if they have some, and the columns."""
    if isinstance(y, Mapping):
        for label in y:
            if not isinstance(label, str):
                raise DataTypeError(
                    f"{name} is a dict, so its keys name targets; got {brief(label)}."
                )
        return tuple(y), list(y.values())
    if is_sparse(y):
        y = y.toarray()
    frame = None if isinstance(y, np.ndarray | list | tuple) else as_frame(y)
    if frame is None:
        table = host_array(y)
        check_length(len(table), n_rows, name)
        return None, list(table.T)
    check_length(len(y), n_rows, name)
    columns = [frame.native[:, k].to_numpy() for k in range(len(frame.names))]
    return frame.names if frame.named else None, columns


def same_targets(seen: Targets, trained: Targets, name: str) -> FloatArray:
    """Return targets of other rows in the order of the training targets."""
    if seen.values.shape[1:] != trained.values.shape[1:]:
        counts = [t.values.shape[1] if t.several else 1 for t in (seen, trained)]
        own, others = ("1 column" if n == 1 else f"{n} columns" for n in counts)
        raise DataError(f"{name} has {own}, but y has {others}: give the same number.")
    if seen.names is None or trained.names is None or seen.names == trained.names:
        return seen.values
    missing = [target for target in trained.names if target not in seen.names]
    if missing:
        raise DataError(f"{name} lacks the column {missing[0]!r}, a target of the training rows.")
    order = [seen.names.index(target) for target in trained.names]
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
    n_targets = objective.n_outputs if isinstance(objective, SeveralTargets) else 1
    n_columns = found.values.shape[1] if found.several else 1
    if n_columns != n_targets:
        raise DataError(f"y has {n_columns} column(s), but the model predicts {n_targets}.")
    if not isinstance(objective, SeveralTargets):
        return found.values
    names = objective.names if objective.named else None
    return same_targets(found, Targets(np.empty((0, n_targets)), names), "y")
