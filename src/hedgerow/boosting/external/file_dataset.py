"""Datasets larger than memory: ``Dataset.from_files`` and ``Dataset.from_batches``.

::

    survey     targets, weights and so on of all rows (no other columns of files are read)
    pass one   schema, levels and cuts, from the training rows
    tables     pass two: each batch as numbers

Rows of weight 0 are dropped before anything else: they have no row number, and do not affect
categories or bins.

With several processes each one has some of the parts, in order.  Each process merges the
results of pass one in the same way, so all have the same cuts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from copy import copy
from dataclasses import replace
from typing import Any, ClassVar, Self, cast

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray, IntArray
from hedgerow.boosting.external.file_rows import ReadTarget, RowFacts, RowReader, Rows, class_reader
from hedgerow.boosting.external.file_table import FileTable
from hedgerow.boosting.loop.sample import Sample
from hedgerow.boosting.row_data.dataset import Dataset
from hedgerow.boosting.row_data.event_times import (
    form_of,
    may_be_events,
    not_two,
    refuse_doubtful,
    times_of,
)
from hedgerow.boosting.row_data.survival import SURVIVAL
from hedgerow.boosting.row_data.targets import (
    check_intervals,
    check_n_targets,
    check_same_targets,
)
from hedgerow.comm.base import Alone, Communicator
from hedgerow.data.binning.cut_sample import CutSample
from hedgerow.data.categories.columns import CategoricalFeatures, check_unknown
from hedgerow.data.external.memory import give_back_memory, memory_bytes, shown_bytes
from hedgerow.data.external.scratch import temporary_folder
from hedgerow.data.reading.table import check_n_features
from hedgerow.data.schema import Schema, UnknownCategory, check_same_names, read_names
from hedgerow.data.sources.base import ReadRequest
from hedgerow.data.sources.batches import BatchReader
from hedgerow.data.sources.opening import (
    Source,
    find_text_kinds,
    keep_as_text,
    keep_text,
    set_text_kinds,
)
from hedgerow.data.sources.survey import Found, Survey
from hedgerow.data.sources.text_files import joined_kinds
from hedgerow.data.sparse import AnyTable
from hedgerow.errors import DataError, ParameterError, StorageError, brief
from hedgerow.objectives import Objective, SeveralTargets
from hedgerow.params import BoostParams

LEAST_MEMORY = 32 * 10**6
"""The smallest memory limit: with less, batches are too small to be efficient."""

_BATCH_SHARE, _STORE_SHARE = 1 / 16, 0.6
"""Shares of the memory limit; the remainder is for what a fit holds besides its chunks."""


class FileDataset(Dataset):
    """Rows in files or batches; made by ``Dataset.from_files`` and ``Dataset.from_batches``.

    memory_limit   in bytes
    cache_dir      folders for chunks
    communicator   of the ranks that have other rows
    has_intervals  whether the targets are ends of intervals of times; known after a survey
    cuts           rows of all ranks from which cuts are chosen, until these are known
    summary        what an estimator has found out about the targets
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
        self.has_intervals = False
        self.cuts: CutSample | None = None
        self.summary: Any = None
        self._room = int(_BATCH_SHARE * memory_limit)
        self._reader = RowReader(source, self._room)
        self._times: tuple[str, tuple[str | None, str | None], bool | None] | None = None
        self._facts: RowFacts | None = None
        self._survey: Survey | None = None
        self._names: tuple[str, ...] = ()
        self._types_known = self._has_types = self._is_strict = False
        self._stack = ExitStack()

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

    def for_one_use(self) -> Self:
        """Return these rows for a fit or an evaluation, which may read the targets in its own way.

        The order of the user's targets and their types stay those of this Dataset.
        """
        self._find_types()  # by one pass for all uses
        self.close()
        own = copy(self)
        own._stack = ExitStack()  # noqa: SLF001
        return own

    def close(self) -> None:
        """Release the results of the survey, and what was made of the rows."""
        self._facts = self._survey = None
        self._stack.close()

    # -- targets -------------------------------------------------------------------

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
        self._times = None
        self._reader = RowReader(self.source, self._room, read_target, class_weight=class_weight)
        self.close()

    def read_classes(
        self, classes: AnyArray, is_strict: bool, by_class: FloatArray | None = None
    ) -> None:
        """Read the target as class indices, by :func:`class_reader`, from now on.

        Labels that are text are so too in a text file in which they all look like numbers.
        ``by_class`` are factors on the weights of rows.
        """
        self.read_targets_by(class_reader(classes, is_strict), by_class)
        if isinstance(classes[0], str):
            keep_text(self.source.parts, self.source.roles.targets)

    def read_times(
        self,
        objective: object,
        names: Sequence[str | None] | None = None,
        trained: bool | None = None,
        *,
        as_given: bool = False,
    ) -> None:
        """Read two targets as times of events if ``objective`` does; call this before a survey.

        ``trained``: whether those of the training rows are intervals, if these are others.
        ``as_given``: both columns are kept as they are.
        """
        targets = self.source.roles.targets
        if len(targets) < 2:
            return
        if not isinstance(objective, str) or objective not in SURVIVAL:
            if self._times is not None:
                self.read_targets_by(self._reader.read_target)
            return
        known = self.target_names or names or (None,) * len(targets)
        if len(targets) != 2:
            raise not_two(known, "y")
        asked = objective, (known[0], known[1]), trained
        if self._times != asked or as_given:
            self._times = None if as_given else asked
            self._reader = RowReader(
                self.source, self._room, self._reader.read_target, are_times=True
            )
            self.close()

    def match_targets(
        self,
        objective: Objective,
        names: tuple[str, ...] | None = None,
        intervals: bool = False,
    ) -> None:
        """Read the targets in the order of those of ``objective``; call this before a survey.

        ``names`` and ``intervals`` are those of the training rows, for times of events.
        """
        self.read_times(objective.name, names, intervals)
        if objective.name in SURVIVAL:
            if self._times is None:
                check_intervals(False, intervals)
            return
        roles = self.source.roles
        check_n_targets(self.n_targets, objective)
        if not (isinstance(objective, SeveralTargets) and objective.named and self.target_names):
            return
        check_same_targets(roles.targets, objective.names, "target")
        first, *others = objective.names
        if roles.targets != objective.names:
            roles = replace(roles, target=first, further=tuple(others))
            self.source = replace(self.source, roles=roles)
            self.read_targets_by(self._reader.read_target)

    def check_offset(self, objective: Objective) -> None:
        """Raise ``DataError`` unless each raw score has an offset column, or none has."""
        n_columns, n_outputs = len(self.offset_names), objective.n_outputs
        if n_columns not in (0, n_outputs):
            raise DataError(
                f"offset must have shape (rows, {n_outputs}): one raw score for each row and "
                f"output; got {n_columns} column(s)."
            )

    @property
    def given_targets(self) -> Any:
        """The targets as users give them to a Dataset in memory, after the survey."""
        target, names = self.rows.target, self.target_names
        if names is None:
            return target
        reader = self._reader
        are_truths = ~reader.no_truths if reader.are_times else np.zeros(len(names), np.bool_)
        return {
            name: y.astype(bool) if is_truth else y
            for name, y, is_truth in zip(names, target.T, are_truths, strict=True)
        }

    def _event_times(self, target: FloatArray) -> FloatArray:
        """Return times from two columns, whose names and types tell what they are."""
        assert self._times is not None
        (objective, names, trained), others = self._times, self.communicator
        truths = others.allreduce(self._reader.no_truths.astype(np.int64), "max") == 0
        form = form_of(names, (bool(truths[0]), bool(truths[1])), "y", objective)
        columns = target.reshape(-1, 2)
        found = times_of(form, names, (columns[:, 0], columns[:, 1]), len(columns), "y")
        if form.is_doubtful and not trained:
            codes, is_finite = may_be_events(columns)
            own = np.array([*~codes, not is_finite], dtype=np.int64)
            first, second, infinite = (others.allreduce(own, "max") > 0).tolist()
            refuse_doubtful(np.array([not first, not second]), not infinite, "y")
        self.has_intervals = not form.has_events
        if trained is not None:
            check_intervals(self.has_intervals, trained)
        return np.asfortranarray(found)

    def _find_types(self) -> None:
        """Infer the types of text columns from all files of all processes."""
        if self._has_types:
            return
        own = json.dumps(find_text_kinds(self.source.parts, self._room)).encode()
        kinds = joined_kinds(map(json.loads, self.communicator.allgather(own)))
        set_text_kinds(self.source.parts, kinds)
        self._has_types = True

    # -- survey --------------------------------------------------------------------

    def survey(self, params: BoostParams | None = None, sets_aside: bool = True) -> None:
        """Read all rows once, without features; see :attr:`rows`.

        ``sets_aside`` tells whether rows may be held out: if not, and no rows are weighted, this
        is already pass one, with the same ``params``.
        """
        params = params or BoostParams()
        self.requested = replace(self.requested, zero_missing=bool(params.zero_as_missing))
        self._find_types()
        self.close()
        alone = self.communicator.size == 1 and self.source.roles.weight is None
        alone = alone and self._reader.class_weight is None
        survey = None if sets_aside or not alone else self._new_survey(params)
        facts, weighted = RowFacts(self.source.roles), False
        for rows in self._reader.read(features=survey is not None):
            facts.add(rows)
            if rows.weight is not None:
                survey, weighted = None, True
            if survey is not None:
                self._begin(survey, rows)
                survey.add(rows.batch, None, None, rows.part.name)
        if facts.finish(self.communicator) == 0:
            what = "weight is zero in all rows" if weighted else "the data have no rows"
            raise DataError(f"{self.source.name}: {what}.")
        if self._times is not None:
            facts.target = self._event_times(facts.target)
        self._facts, self._survey = facts, survey

    @property
    def rows(self) -> Sample:
        """All rows of positive weight, after the survey, without features."""
        assert self._facts is not None
        target = self._facts.target
        table = FileTable(
            np.empty((len(target), 0)), Schema(()), data=self, stack=self._stack,
            room=int(_STORE_SHARE * self.memory_limit),
        )  # fmt: skip
        return Sample.of(table, target, self._facts.values)

    @property
    def is_weighted(self) -> bool:
        """Whether rows of weight 0 may have been dropped."""
        return self.source.roles.weight is not None

    def _new_survey(self, params: BoostParams, largest_weight: float | None = None) -> Survey:
        return Survey(
            self.requested,
            seed=params.seed,
            memory_limit=self.memory_limit,
            largest_weight=largest_weight,
        )

    # -- pass one ------------------------------------------------------------------

    def pass_one(self, params: BoostParams, train: Sample | None = None) -> Found:
        """Return the schema of the training rows of all ranks, and some of them; default: all."""
        rows = train or self.rows
        numbers = cast(FileTable, rows.table).numbers
        if self._survey is not None and numbers is None:
            survey = self._survey
        else:
            largest, start = None, 0
            if rows.weight is not None:  # positive floats have the same order as their bits
                bits = np.array([rows.weight.max(initial=0.0)]).view(np.int64)
                bits = self.communicator.allreduce(bits, "max")
                largest = float(bits.view(np.float64)[0])
            survey = self._new_survey(params, largest)
            # The first rank that has features; others may have another order.
            features = json.dumps(list(self._reader.features())).encode("ascii")
            known = [json.loads(message) for message in self.communicator.allgather(features)]
            names = tuple(next(filter(None, known), ()))
            for part in self._reader.read():
                stop = start + part.n_rows
                self._begin(survey, part, names)
                if numbers is not None:
                    wanted = np.zeros(part.n_rows, dtype=np.bool_)
                    own = slice(*np.searchsorted(numbers, (start, stop)))
                    wanted[numbers[own] - start] = True
                    part = part.where(wanted)
                weight = None if rows.weight is None else part.weight
                survey.add(part.batch, part.kept, weight, part.part.name)
                start = stop
            if self.communicator.size > 1:
                survey = self._merged(survey, params)
        give_back_memory()  # release buffers of reading before rows are copied
        found = survey.finish()
        # Ranks may have the columns in a different order from the first rank.
        self._names, self._types_known = survey.names or (), survey.types_known
        self._survey, self._is_strict = None, False
        give_back_memory()
        return found

    def _merged(self, own: Survey, params: BoostParams) -> Survey:
        """Return the merged survey of all ranks, in their order; it is the same on each rank."""
        merged = self._new_survey(params)
        given = {"seed": params.seed, "memory_limit": self.memory_limit}
        for message in self.communicator.allgather(own.to_bytes()):
            merged.merge(Survey.from_bytes(message, self.requested, **given))
        return merged

    def _begin(self, survey: Survey, rows: Rows, in_order: tuple[str, ...] = ()) -> None:
        sparse = rows.batch.sparse is not None
        names = () if sparse else self._reader.features()
        if set(names) == set(in_order):
            names = in_order
        survey.begin(names, not sparse and rows.batch.named, rows.part.types_known, sparse=sparse)

    # -- pass two ------------------------------------------------------------------

    def tables(self, schema: Schema) -> Iterator[tuple[AnyTable, IntArray | None]]:
        """Yield all batches as numbers, with the places of the rows of positive weight.

        None instead of the places: these are all rows.
        """
        reader = BatchReader(schema, self._names, self._types_known, self._is_strict)
        for rows in self._reader.read():
            yield reader.table(rows.batch, rows.part.name), rows.kept

    def read_like(self, schema: Schema) -> None:
        """Prepare to read rows with the schema of a model or of training rows."""
        names = self._reader.features()
        if schema.named and self.requested.feature_names is None:
            check_same_names(names, schema.names)
            names = schema.names
        if names:
            check_n_features(len(names), schema, "Booster")
        self._names, self._is_strict = names, True
        self._types_known = any(part.types_known for part in self.source.parts)
        keep_as_text(self.source.parts, schema)

    def rows_like(self, schema: Schema) -> Sample:
        """Return all rows, to be read with the schema of a model, after the survey."""
        self.read_like(schema)
        rows = self.rows
        return replace(rows, table=replace(rows.table, schema=schema))


def cache_folders(cache_dir: Any) -> tuple[str, ...]:
    """Return the folders for chunks, all writable; missing folders are created."""
    if cache_dir is None:
        return (temporary_folder(),)
    single = isinstance(cache_dir, (str, os.PathLike))
    if not single and not (isinstance(cache_dir, Sequence) and len(cache_dir) > 0):
        raise ParameterError(
            f"cache_dir must be a folder, or a list of them; got {brief(cache_dir)}."
        )
    folders = []
    for item in [cache_dir] if single else cache_dir:
        if not isinstance(item, (str, os.PathLike)):
            raise ParameterError(f"cache_dir must name folders; got {brief(item)}.")
        folder = str(os.fspath(item))
        try:
            os.makedirs(folder, exist_ok=True)
        except OSError as error:
            raise StorageError(
                f"cache_dir {folder!r} is not a folder and cannot be created: "
                f"{error.strerror or error}. Name another folder."
            ) from error
        if not os.access(folder, os.W_OK | os.X_OK):
            raise StorageError(f"cache_dir {folder!r}: no permission to write in it.")
        folders.append(folder)
    return tuple(folders)


def dataset_of(
    source: Source,
    *,
    feature_names: Sequence[str] | None = None,
    categorical_features: CategoricalFeatures = "auto",
    unknown_category: UnknownCategory = "missing",
    cache_dir: Any = None,
    memory_limit: Any = None,
) -> FileDataset:
    """Return the rows of a source; arguments as for :meth:`hedgerow.Dataset.from_batches`."""
    unknown, names = check_unknown(unknown_category), read_names(feature_names)
    return FileDataset(
        source,
        ReadRequest(source.roles, categorical_features, unknown, feature_names=names),
        memory_limit=memory_bytes(memory_limit),
        cache_dir=cache_folders(cache_dir),
    )
