"""Rows of files or batches before they are surveyed: their columns, types and targets."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, ClassVar, Self

from hedgerow.arrays import FloatArray
from hedgerow.boosting.external.dataset.file_checks import targets_in_order
from hedgerow.boosting.external.dataset.file_rows import ReadTarget, RowReader, Rows
from hedgerow.boosting.external.dataset.time_columns import (
    Names,
    TimeColumns,
    TimeFacts,
    column_names,
    find_time_columns,
)
from hedgerow.boosting.row_data.dataset import Dataset
from hedgerow.boosting.row_data.survival import SURVIVAL
from hedgerow.boosting.row_data.targets import check_intervals
from hedgerow.comm.base import Alone, Communicator
from hedgerow.data.external.memory import shown_bytes
from hedgerow.data.schema import Schema
from hedgerow.data.sources.base import ReadRequest
from hedgerow.data.sources.opening import Source, find_text_kinds, set_text_kinds
from hedgerow.data.sources.text_files import joined_kinds
from hedgerow.errors import DataError, ParameterError
from hedgerow.objectives import Objective

LEAST_MEMORY = 32 * 10**6
"""The smallest memory limit: with less, batches are too small to be efficient."""

_BATCH_SHARE = 1 / 16


class SourceRows(Dataset):
    """Rows of a source; base class of :class:`FileDataset`, with its parameters.

    Parameters
    ----------
    source : Source
    requested : ReadRequest
    memory_limit : int
        Limit in bytes.
    cache_dir : sequence of str
        Folders for chunks.
    communicator : Communicator
    """

    reads_batches: ClassVar[bool] = True

    def __init__(
        self,
        source: Source,
        requested: ReadRequest,
        *,
        memory_limit: int,
        cache_dir: Sequence[str],
        communicator: Communicator | None = None,
    ) -> None:
        super().__init__(
            None,
            feature_names=requested.feature_names,
            categorical_features=requested.categorical,
            unknown_category=requested.unknown,
        )
        if memory_limit < LEAST_MEMORY:
            raise ParameterError(
                f"memory_limit of {shown_bytes(memory_limit)} is too small: give at least "
                f"{shown_bytes(LEAST_MEMORY)}."
            )
        self.source, self.requested = source, requested
        self.memory_limit, self.cache_dir = memory_limit, tuple(cache_dir)
        self.communicator: Communicator = communicator or Alone()
        self._room = int(_BATCH_SHARE * memory_limit)
        self._reader = RowReader(source, self._room)
        self._times_of: tuple[Names, str, bool] | None = None
        self._has_types = False

    def __repr__(self) -> str:
        return f"<Dataset: {self.source.summary}>"

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns, once they are known; those of files are known at once."""
        return self.requested.feature_names or self._reader.features()

    @property
    def offset_names(self) -> tuple[str, ...]:
        """Columns that hold the offset."""
        return self.source.roles.offset

    def table(
        self,
        schema: Schema | None = None,
        zero_missing: bool = False,
        *,
        more_levels: bool = False,
        reader: str = "Booster",
    ) -> Any:
        """Raise ``DataError``: rows in files are not a table in memory."""
        raise DataError(
            "rows from files or batches are not held in memory, which is necessary here: read them "
            "into a frame and give Dataset(X, y)."
        )

    def scan(self, read_target: ReadTarget) -> Iterator[Rows]:
        """Yield rows with targets and weights only."""
        self._find_types()
        return RowReader(self.source, self._room, read_target).read(features=False)

    def read_targets_by(
        self, read_target: ReadTarget, class_weight: FloatArray | None = None
    ) -> None:
        """Use another function to parse targets from now on.

        ``class_weight`` has a factor on the weights of the rows of each class.
        """
        self._times_of = None
        self._reader = RowReader(self.source, self._room, read_target, class_weight=class_weight)
        self.close()

    def read_times(
        self,
        objective: object,
        names: Sequence[str | None] | None = None,
        intervals: bool = False,
    ) -> None:
        """Read the targets as times of events, if they are; call this before a survey."""
        if len(self.source.roles.targets) < 2:
            return
        if not isinstance(objective, str) or objective not in SURVIVAL:
            if self.times is not None:
                self.read_targets_by(self._reader.read_target)
            return
        known = column_names(self.source.roles.targets, self.target_names or names)
        if self._times_of in ((known, objective, False), (known, objective, intervals)):
            return
        self._find_types()
        facts, read_target = TimeFacts(known), self._reader.read_target
        rows = RowReader(self.source, self._room, read_times=facts).read(features=False)
        found = find_time_columns(known, objective, intervals, rows, facts, self.communicator)
        self._reader = RowReader(self.source, self._room, read_target, found)
        self._times_of = known, objective, intervals
        self.close()

    def close(self) -> None:
        """Release the stored rows."""

    @property
    def times(self) -> TimeColumns | None:
        """The roles of two columns as event and time; None for other targets."""
        times = self._reader.read_times
        return times if isinstance(times, TimeColumns) else None

    def for_one_use(self) -> Self:
        """Return these rows for a fit or an evaluation, which may read the targets in its own way.

        The order of the user's targets and their types stay those of this Dataset.
        """
        self._find_types()  # by one pass for all uses
        self.close()
        return copy(self)

    def match_targets(self, objective: Objective | None, times: TimeColumns | None = None) -> None:
        """Read the targets in the order of those of ``objective``; call this before a survey.

        ``times`` tells how those of the training rows are read.
        """
        name = None if objective is None else objective.name
        intervals = times is not None and times.has_intervals
        self.read_times(name, None if times is None else times.names, intervals)
        if name in SURVIVAL:
            check_intervals(self.times is not None and self.times.has_intervals, intervals)
            return
        roles = targets_in_order(self.source.roles, objective)
        if roles != self.source.roles:
            self.source = replace(self.source, roles=roles)
            self.read_targets_by(self._reader.read_target)

    def _find_types(self) -> None:
        """Infer the types of text columns from all files of all processes."""
        if self._has_types:
            return
        own = json.dumps(find_text_kinds(self.source.parts, self._room)).encode()
        kinds = joined_kinds(map(json.loads, self.communicator.allgather(own)))
        set_text_kinds(self.source.parts, kinds)
        self._has_types = True

    @property
    def has_queries(self) -> bool:
        """Whether the rows have queries, for rankings."""
        return "qid" in self.source.roles.of_rows

    @property
    def n_targets(self) -> int:
        """Number of targets of a row."""
        return max(1, len(self.source.roles.targets))

    @property
    def target_names(self) -> tuple[str, ...] | None:
        """The user's names of several targets."""
        roles = self.source.roles
        return roles.targets if roles.further and roles.named else None
