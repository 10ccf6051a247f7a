"""Times of events in two columns of files: what the columns are, and their rows.

Names and types of columns tell whether they are an event and its time, or the ends of an interval
(:mod:`hedgerow.boosting.row_data.event_times`).  A type may differ between files, and numbers
without telling names must not leave doubt, so one pass over the two columns of all rows, on all
ranks, comes first.  It is not needed if the names say that they are ends of intervals.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from hedgerow.arrays import BoolArray, FloatArray
from hedgerow.boosting.row_data.event_times import (
    Form,
    first_end,
    form_of,
    may_be_events,
    not_two,
    refuse_doubtful,
    times_of,
)
from hedgerow.comm.base import Communicator
from hedgerow.data.reading.columns import ReadColumn
from hedgerow.data.sources.batches import vector_of

Names = tuple[str | None, str | None]
"""The user's names of the two columns; None for columns without names."""


@dataclass(frozen=True, slots=True)
class TimeColumns:
    """Reads the times of rows from two columns.

    Attributes
    ----------
    form : Form
    names : tuple of str or None
    """

    form: Form
    names: Names

    @property
    def has_intervals(self) -> bool:
        """Whether the columns are ends of intervals, not event and time."""
        return not self.form.has_events

    def __call__(self, columns: Sequence[ReadColumn]) -> FloatArray:
        """Return the times of the rows of a batch: (n_rows,), or (n_rows, 2) for intervals."""
        if not self.form.has_events:
            form_of(self.names, _truths_of(columns), "y", "aft")  # no end may hold booleans
        first, second = _numbers_of(columns, self.names)
        found = times_of(self.form, self.names, (first, second), len(first), "y")
        return found if found.ndim == 1 else np.asfortranarray(found)


@dataclass(slots=True)
class TimeFacts:
    """Facts about the values of two columns, gathered batch by batch.

    Attributes
    ----------
    names : tuple of str or None
    no_truths, no_codes : bool (2,)
        Whether a column has values other than True and False; other than 0 and 1.
    is_infinite : bool
        Whether a value is infinite.
    """

    names: Names = (None, None)
    no_truths: BoolArray = field(default_factory=lambda: np.zeros(2, dtype=np.bool_))
    no_codes: BoolArray = field(default_factory=lambda: np.zeros(2, dtype=np.bool_))
    is_infinite: bool = False

    def __call__(self, columns: Sequence[ReadColumn]) -> FloatArray:
        """Note the rows of a batch; return zeros in place of their times."""
        self.no_truths |= ~np.array(_truths_of(columns))
        values = np.column_stack(_numbers_of(columns, self.names))
        codes, is_finite = may_be_events(values)
        self.no_codes |= ~codes
        self.is_infinite |= not is_finite
        return np.zeros(len(values))

    def merged(self, others: Communicator) -> TimeFacts:
        """Return the facts of the rows of all ranks."""
        own = np.array([*self.no_truths, *self.no_codes, self.is_infinite], dtype=np.int64)
        all_ranks = others.allreduce(own, "max") > 0
        return TimeFacts(self.names, all_ranks[:2], all_ranks[2:4], bool(all_ranks[4]))


def column_names(columns: Sequence[str], names: Sequence[str | None] | None) -> Names:
    """Return the user's names of two columns of a source."""
    if len(columns) != 2:
        raise not_two(names or [None] * len(columns), "y")
    return (None, None) if names is None else (names[0], names[1])


def find_time_columns(
    names: Names,
    objective: str,
    intervals: bool,
    read: Iterable[object],
    facts: TimeFacts,
    others: Communicator,
) -> TimeColumns:
    """Return what the two columns of the targets of all rows are."""
    if first_end(names) is not None:
        return TimeColumns(form_of(names, (False, False), "y", objective), names)
    for _ in read:
        pass
    found = facts.merged(others)
    is_truth = bool(~found.no_truths[0]), bool(~found.no_truths[1])
    form = form_of(names, is_truth, "y", objective)
    if form.is_doubtful and not intervals:
        refuse_doubtful(~found.no_codes, not found.is_infinite, "y")
    return TimeColumns(form, names)


def _numbers_of(columns: Sequence[ReadColumn], names: Names) -> tuple[FloatArray, FloatArray]:
    """Return the values of both columns; raise ``DataTypeError`` if one does not hold numbers."""
    first, second = (
        vector_of(column, name or f"target {place}", "target")
        for place, (column, name) in enumerate(zip(columns, names, strict=True))
    )
    return first, second


def _truths_of(columns: Sequence[ReadColumn]) -> tuple[bool, bool]:
    """Return whether all values of each column of a batch are True or False."""
    first, second = (_is_truth(column) for column in columns)
    return first, second


def _is_truth(column: ReadColumn) -> bool:
    if str(column.dtype) in ("Boolean", "bool"):
        return True
    # Objects are small numbers if all are True or False.
    return str(column.dtype) == "object" and column.is_small
