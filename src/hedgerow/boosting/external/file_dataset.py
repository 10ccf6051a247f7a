"""Datasets larger than memory: ``Dataset.from_files`` and ``Dataset.from_batches``.

::

    survey      targets, weights and so on of all rows (no other columns of files are read)
    first pass  rows held out; schema, levels and cuts, from the training rows
    tables      second pass: each batch as numbers

After the survey it is a Dataset like others (:mod:`hedgerow.boosting.row_data.dataset`): it has
``y`` and the values of the rows as arrays, and its table is a FileTable.  An option that needs all
rows at once may ask for the table itself (``why``): all rows are then read into memory, with the
same schema, if ``memory_limit`` allows.

Rows of weight 0 are dropped before anything else: they have no row number, and do not affect
categories or bins.

With several processes each one has some of the parts, in order.  Each process merges the
results of the first pass in the same way, so all have the same cuts.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from copy import copy
from dataclasses import replace
from itertools import chain
from typing import Any, ClassVar, Self, cast

import numpy as np

from hedgerow.argument_types import listed
from hedgerow.arrays import AnyArray, FloatArray, IntArray
from hedgerow.boosting.automatic.blending import asks_for_several
from hedgerow.boosting.external.file_rows import LabelNumbers, RowReader, Rows, joined_values
from hedgerow.boosting.external.file_table import FileTable
from hedgerow.boosting.loop.sample import Sample
from hedgerow.boosting.resume.continuing import Start, check_reading
from hedgerow.boosting.row_data.dataset import Dataset
from hedgerow.boosting.row_data.queries import check_values, split_sample
from hedgerow.boosting.row_data.row_values import FURTHER, RowValues
from hedgerow.boosting.row_data.statistics import choose_columns, copies_of
from hedgerow.boosting.validation.stopping import StoppingParams
from hedgerow.comm.base import Alone, Communicator, count_rows
from hedgerow.data import recode
from hedgerow.data.binning.cut_sample import SAMPLE_ROWS, CutSample
from hedgerow.data.categories.columns import CategoricalFeatures, check_unknown
from hedgerow.data.external.block_files import temporary_folder
from hedgerow.data.external.memory import give_back_memory, memory_bytes, shown_bytes
from hedgerow.data.reading.table import Table, check_n_features
from hedgerow.data.reading.texts import joined_kinds
from hedgerow.data.schema import Schema, UnknownCategory, check_same_names, with_more_levels
from hedgerow.data.sources.base import ReadRequest
from hedgerow.data.sources.batches import batch_table
from hedgerow.data.sources.opening import Source
from hedgerow.data.sources.survey import Found, Survey
from hedgerow.data.sparse import AnyTable
from hedgerow.errors import AllRowsNeededError, DataError, ParameterError, StorageError, brief
from hedgerow.growing.limits.constraints import resolve_constraints
from hedgerow.objectives import Objective
from hedgerow.params import BoostParams

LEAST_MEMORY = 32 * 10**6
"""The smallest memory limit: with less, batches are too small to be efficient."""

_BATCH_SHARE, _STORE_SHARE, _ASIDE_SHARE = 1 / 16, 0.6, 0.2
"""Shares of the memory limit for a batch, for the bins of rows, and for those of rows that are held
out; the remainder is for what a fit holds besides."""

_BYTES_OF_A_CELL = 12
"""Bytes of a value of a table in memory: eight for a number, and its bins in two layouts with space
to sort."""


class FileDataset(Dataset):
    """Rows in files or batches; made by ``Dataset.from_files`` and ``Dataset.from_batches``.

    cache_dir     folders for chunks; none for rows that are only scored or read into memory
    n_rows        of positive weight of this rank, after a survey
    is_weighted   whether rows have weights: those of weight 0 are dropped
    reads_labels  whether a single target is a label, which may be text
    why           what needs all rows in memory, for the message if they are too large
    stack         closes what is made of the rows
    cuts          rows of all ranks from which cuts are chosen, until these are known
    """

    reads_batches: ClassVar[bool] = True

    def __init__(
        self,
        source: Source,
        *,
        feature_names: Sequence[str] | None = None,
        categorical_features: CategoricalFeatures = "auto",
        unknown_category: UnknownCategory = "missing",
        cache_dir: Sequence[str] = (),
        memory_limit: Any = None,
        communicator: Communicator | None = None,
    ) -> None:
        super().__init__(
            None,
            feature_names=feature_names,
            categorical_features=categorical_features,
            unknown_category=check_unknown(unknown_category),
        )
        self.memory_limit = memory_bytes(memory_limit)
        if self.memory_limit < LEAST_MEMORY:
            raise ParameterError(
                f"memory_limit of {shown_bytes(self.memory_limit)} is too small: give at least "
                f"{shown_bytes(LEAST_MEMORY)}."
            )
        self.source, self.cache_dir = source, tuple(cache_dir)
        self.communicator: Communicator = communicator or Alone()
        self.is_weighted = False
        roles = source.roles
        self.target_names = roles.targets if len(roles.targets) > 1 and roles.named else None
        self.offset = roles.offset or None
        for value in FURTHER:
            setattr(self, value.name, roles.of_rows.get(value.name))
        self.reads_labels, self.why = False, ""
        self.cuts: CutSample | None = None
        self._room = int(_BATCH_SHARE * self.memory_limit)
        self._reader = RowReader(source, self._room)
        self.n_rows, self._values = 0, RowValues()
        self._survey: Survey | None = None
        self._params = BoostParams()
        self._columns: tuple[str, ...] = ()
        self._types_known = self._has_types = self._is_strict = False
        self.stack = ExitStack()

    def __repr__(self) -> str:
        return f"<Dataset: {self.source.summary}>"

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns, once they are known; those of files are known at once."""
        return self.given_names or self._reader.features()

    @property
    def _requested(self) -> ReadRequest:
        return ReadRequest(
            self.categorical_features,
            self.unknown_category,
            bool(self._params.zero_as_missing),
            self.given_names,
        )

    @property
    def offset_names(self) -> tuple[str, ...]:
        """Columns of the user that hold the offset."""
        roles = self.source.roles
        return roles.offset if roles.named else ()

    @property
    def n_targets(self) -> int:
        """Number of targets of a row."""
        return max(1, len(self.source.roles.targets))

    @property
    def bytes_of_table(self) -> int:
        """Memory of all rows as one table, after a survey."""
        return self.n_rows * len(self.feature_names) * _BYTES_OF_A_CELL

    def for_one_use(self, **changes: Any) -> Self:
        """Return these rows, with changed attributes, for a fit or an evaluation."""
        # The types of the columns are those of this Dataset.
        self._find_types()  # by one pass for all uses
        self.close()
        own = copy(self)
        vars(own).update(changes, stack=ExitStack())
        if own.reads_labels:
            own._reader = RowReader(self.source, self._room, LabelNumbers())  # noqa: SLF001
        return own

    def close(self) -> None:
        """Release the results of the survey, and what was made of the rows."""
        self.y = self._survey = None
        self.stack.close()

    # -- as a Dataset, after the survey --------------------------------------------

    def table(
        self,
        schema: Schema | None = None,
        zero_missing: bool = False,
        *,
        more_levels: bool = False,
        reader: str = "Booster",
    ) -> Any:
        """Return the rows; those of a new model have no columns before :meth:`first_pass`."""
        # With ``why`` they are read into memory, as :meth:`hedgerow.Dataset.table` does.
        if self.y is None:
            raise DataError(
                "rows from files or batches are not held in memory, which is necessary here: read "
                "them into a frame and give Dataset(X, y)."
            )
        if not self.why:
            if schema is not None:
                self.read_like(schema)
            return self._rows(schema or Schema(()))
        size = self.bytes_of_table
        if size > self.memory_limit:
            raise ParameterError(
                f"{self.why} Read into memory, {self.n_rows:,} rows of {len(self.feature_names)} "
                f"columns take about {shown_bytes(size)}, and memory_limit is "
                f"{shown_bytes(self.memory_limit)}: raise it, or leave that parameter out."
            )
        weight = self._values.weight
        if schema is None:
            schema = self._find(weight=weight).schema
        else:
            if more_levels and schema.unknown != "error" and schema.has_categories:
                own = self._find(weight=weight).schema
                schema = with_more_levels(schema, {c.name: c.levels for c in own.columns})
            self.read_like(schema)
        parts = list(self._rows(schema).blocks())
        unseen = sum((Counter(part.unseen) for part in parts), Counter[str]())
        # Training rows are read leniently, even if unknown categories are an error later.
        return Table(np.concatenate([part.values for part in parts]), schema, unseen)

    def _rows(self, schema: Schema) -> FileTable:
        room = int(_STORE_SHARE * self.memory_limit)
        return FileTable(np.empty((self.n_rows, 0)), schema, data=self, room=room)

    def row_weight(self, n_rows: int, called: Callable[[str], str] = str) -> FloatArray | None:
        """Return one weight for each row."""
        return self._values.weight

    def sample(
        self,
        table: AnyTable,
        target: FloatArray,
        n_outputs: int,
        called: Callable[[str], str] = str,
    ) -> Sample:
        """Combine table and target with the values of the rows."""
        n_columns = len(self.source.roles.offset)
        if n_columns not in (0, n_outputs):
            raise DataError(
                f"offset must have shape (rows, {n_outputs}): one raw score for each row and "
                f"output; got {n_columns} column(s)."
            )
        return Sample(table, target, **self._values.present)

    def _find_types(self) -> None:
        """Infer the types of text columns from all files of all processes."""
        if self._has_types:
            return
        texts = self.source.texts
        own = json.dumps(joined_kinds(part.find_kinds(self._room) for part in texts)).encode()
        kinds = joined_kinds(map(json.loads, self.communicator.allgather(own)))
        for part in texts:
            part.kinds = kinds
        self._has_types = True

    # -- survey --------------------------------------------------------------------

    def survey(
        self,
        params: BoostParams | None = None,
        sets_aside: bool = True,
        classes: AnyArray | None = None,
    ) -> None:
        """Read all rows once, without features: ``y`` and the values of rows are known then."""
        # ``sets_aside`` tells whether rows may be held out: if not, and no rows are weighted, this
        # is already the first pass. ``classes`` are labels of other rows: if
        # they are text, labels here are text, too, even if a text file has nothing but numbers.
        self._params = params = params or BoostParams()
        roles, labels = self.source.roles, self._reader.labels
        if labels is not None and classes is not None and isinstance(classes[0], str):
            for part in self.source.texts:
                part.text.update(roles.targets)
        self._find_types()
        self.close()
        alone = self.communicator.size == 1 and roles.weight is None
        survey = None if sets_aside or not alone else self._new_survey()
        targets, values, self.is_weighted = list[FloatArray](), list[Mapping[str, Any]](), False
        for rows in self._reader.read(features=survey is not None, values=True):
            targets.append(rows.target.copy())
            values.append(rows.values)
            if "weight" in rows.values:
                survey, self.is_weighted = None, True
            if survey is not None:
                self._add_to(survey, rows)
        self._survey, self.n_rows = survey, sum(map(len, targets))
        self._values = joined_values(values, self.n_rows, roles, self.communicator)
        if count_rows(self.n_rows, self.communicator)[1] == 0:
            what = "weight is zero in all rows" if self.is_weighted else "the data have no rows"
            raise DataError(f"{self.source.name}: {what}.")
        for value in FURTHER:
            setattr(self, value.name, getattr(self._values, value.field))
        none = np.zeros((0, len(roles.targets)) if len(roles.targets) > 1 else 0)
        target = np.asfortranarray(np.concatenate([none, *targets]))
        self.y = target if labels is None else labels.labels(target)
        if self.target_names is not None:
            others = (~self._reader.are_truths).astype(np.int64)
            others = self.communicator.allreduce(others, "max")
            self.y = {
                name: y if has_others else y.astype(bool)
                for name, y, has_others in zip(self.target_names, target.T, others, strict=True)
            }

    def _new_survey(self, largest_weight: float | None = None) -> Survey:
        return Survey(
            self._requested,
            seed=self._params.seed,
            memory_limit=self.memory_limit,
            largest_weight=largest_weight,
        )

    def _add_to(
        self, survey: Survey, rows: Rows, kept: IntArray | None = None,
        weight: FloatArray | None = None, in_order: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        """Add rows to a survey; ``in_order`` are the names of all columns, or of none."""
        names = self._reader.features()
        names = in_order if set(names) == set(in_order) else names
        survey.begin(names, rows.batch.named, rows.part.types_known)
        survey.add(rows.batch, kept, weight, rows.part.name)

    # -- the first pass ------------------------------------------------------------

    def first_pass(
        self,
        rows: Sample,
        objective: Objective,
        stopping: StoppingParams,
        start: Start | None,
        has_validation: bool,
    ) -> tuple[Sample, list[Sample]]:
        """Return the training rows, with their schema, and the rows that are held out of them."""
        # Rows are held out before the schema is known: the model must not know their categories.
        params, others = self._params, self.communicator
        check_values(
            rows, (), objective, params, stopping, has_validation=has_validation, others=others
        )
        if others.size == 1:  # before rows are held out
            with rows.naming_rows():
                objective.check_target(rows.target)
        parts = [rows]
        if stopping.sets_rows_aside and not has_validation:
            divided = split_sample(rows, objective, stopping, params.seed, others)
            parts = [replace(rows.take(part), origin=None) for part in divided]
        tables = [cast(FileTable, part.table) for part in parts]
        cuts = self._find(tables[0].numbers, parts[0].weight).sample
        self.cuts = cuts if start is None else _sample_in_model(cuts, start, self)
        schema, n_rows = self.cuts.table.schema, count_rows(parts[0].n_rows, others)[1]
        own = resolve_constraints(params, schema, objective)
        groups = [] if start is not None else choose_columns(schema, n_rows, objective, own)
        if groups and (others.size > 1 or copies_of(n_rows, own) > 1):
            names = ", ".join(repr(schema.names[j]) for j in sorted({*chain(*groups)}))
            copies = ", of several copies of these few rows" if others.size == 1 else ""
            raise AllRowsNeededError(
                f"target_statistics={own.target_statistics!r} computes statistics of the columns "
                f"{names}{copies}, which needs all rows in memory: use target_statistics=False, "
                "or train on a table in memory."
            )
        rooms = tables[0].room, int(_ASIDE_SHARE * self.memory_limit)
        train, *unseen = (  # groups and times divide rows only once
            replace(part, table=replace(table, schema=schema, room=room), group=None, time=None)
            for part, table, room in zip(parts, tables, rooms, strict=False)
        )
        return train, unseen

    def _find(self, numbers: IntArray | None = None, weight: FloatArray | None = None) -> Found:
        """Return the schema of the training rows of all ranks, and some of these rows."""
        # ``numbers`` are those of the rows of this rank among all; None: all. ``weight`` is theirs.
        if self._survey is not None and numbers is None and weight is None:
            survey = self._survey
        else:
            largest, start = None, 0
            if weight is not None:  # positive floats have the same order as their bits
                bits = np.array([weight.max(initial=0.0)]).view(np.int64)
                bits = self.communicator.allreduce(bits, "max")
                largest = float(bits.view(np.float64)[0])
            survey = self._new_survey(largest)
            # The first rank that has features; others may have another order.
            features = json.dumps(list(self._reader.features())).encode("ascii")
            known = [json.loads(message) for message in self.communicator.allgather(features)]
            names = tuple(next(filter(None, known), ()))
            for rows in self._reader.read():
                stop, kept = start + rows.n_rows, rows.kept
                own = slice(start, stop)
                if numbers is not None:
                    own = slice(*np.searchsorted(numbers, (start, stop)))
                    if own.stop - own.start < rows.n_rows:
                        places = numbers[own] - start
                        kept = places if kept is None else kept[places]
                some = None if weight is None else weight[own]
                self._add_to(survey, rows, kept, some, names)
                start = stop
            if self.communicator.size > 1:  # in the order of the ranks: the same on each of them
                own_rows = survey
                given = {"seed": self._params.seed, "memory_limit": self.memory_limit}
                for last in own_rows.sample.limits(self.communicator):
                    survey = self._new_survey()
                    for message in self.communicator.allgather(own_rows.to_bytes(last)):
                        survey.merge(Survey.from_bytes(message, self._requested, **given))
                    if sum(block.n_rows for block in survey.sample.finish()) >= SAMPLE_ROWS:
                        break
        give_back_memory()  # release buffers of reading before rows are copied
        found = survey.finish()
        # Ranks may have the columns in a different order from the first rank.
        self._columns, self._types_known = survey.names or (), survey.types_known
        self._survey, self._is_strict = None, False
        give_back_memory()
        return found

    # -- the second pass -----------------------------------------------------------

    def tables(self, schema: Schema) -> Iterator[tuple[Table, IntArray | None]]:
        """Yield all batches as numbers, with the places of the rows of positive weight."""
        # None instead of the places: these are all rows.
        if schema.unknown == "error" and not self._is_strict:
            schema = replace(schema, unknown="missing")  # of validation rows it is no mistake
        for rows in self._reader.read():
            args = (schema, self._columns, self._types_known, rows.part.name)
            yield batch_table(rows.batch, *args), rows.kept

    def read_like(self, schema: Schema) -> None:
        """Prepare to read rows with the schema of a model or of training rows."""
        names = self._reader.features()
        if schema.named and self.given_names is None:
            check_same_names(names, schema.names)
            names = schema.names
        if names:
            check_n_features(len(names), schema, "Booster")
        self._columns, self._is_strict = names, True
        self._types_known = any(part.types_known for part in self.source.parts)
        texts = [c.name for c in schema.columns if c.levels and isinstance(c.levels[0], str)]
        for part in self.source.texts:
            part.text.update(texts)


def cache_folders(cache_dir: Any) -> tuple[str, ...]:
    """Return the folders for chunks, all writable; missing folders are created."""
    if cache_dir is None:
        return (temporary_folder(),)
    given = [cache_dir] if isinstance(cache_dir, str | os.PathLike) else listed(cache_dir)
    if not given or not all(isinstance(item, str | os.PathLike) for item in given):
        raise ParameterError(
            f"cache_dir must be a folder, or a list of them; got {brief(cache_dir)}."
        )
    folders = [str(os.fspath(item)) for item in given]
    for folder in folders:
        try:
            os.makedirs(folder, exist_ok=True)
        except OSError as error:
            raise StorageError(
                f"cache_dir {folder!r} is not a folder and cannot be created: "
                f"{error.strerror or error}. Name another folder."
            ) from error
        if not os.access(folder, os.W_OK | os.X_OK):
            raise StorageError(f"cache_dir {folder!r}: no permission to write in it.")
    return tuple(folders)


def check_parts(data: object, params: BoostParams, stopping: StoppingParams) -> None:
    """Before rows are read, reject options that trees on rows in parts do not support."""
    # Later checks cover options that depend on the rows. ``data`` is None for rows on a cluster,
    # which are never a single chunk.
    rate = params.max_conflict_rate
    obstacles = {
        "device='cuda' needs all rows in memory: give the rows as a table, or use device='cpu', "
        "which gives the same model": params.device == "cuda",
        f"tree_method={params.tree_method!r} sorts complete columns, which no worker of a cluster "
        "has: use tree_method='hist', or train on a table in memory": (
            data is None and params.tree_method != "hist"
        ),
        "folds (hedgerow.cv, early_stopping='cv') need all rows in memory: use "
        "early_stopping=True, which holds rows out, or give validation rows": stopping.by_folds,
        f"max_conflict_rate={rate!r} chooses bundles of columns from all rows, which must be in "
        "memory: use max_conflict_rate=0": rate > 0.0 and params.bundle_features is not False,
        f"blend={brief(stopping.blend)} trains several kinds of trees, which needs all rows in "
        "memory: use blend='auto', or give the rows as a table": asks_for_several(stopping.blend),
    }
    for obstacle, is_there in obstacles.items():
        if is_there:
            raise AllRowsNeededError(f"{obstacle}.")


def _sample_in_model(sample: CutSample, start: Start, data: FileDataset) -> CutSample:
    """Return the sample for cuts, and the masses of levels, in terms of the model."""
    table, known = sample.table, start.model.schema
    found = table.schema
    check_reading(known, data.categorical_features, data.unknown_category, start.name)
    if known.named:
        check_same_names(found.names, known.names)
    if (found.names, found.types) != (known.names, known.types):
        raise AllRowsNeededError(
            f"{start.name} has its columns in another order or of other kinds than these rows, "
            "which are therefore needed in memory."
        )
    assert isinstance(table, Table)
    if known.has_categories:
        more = {c.name: c.levels for c in found.columns if c.kind == "category"}
        schema = known if known.unknown == "error" else with_more_levels(known, more)
        table = recode(table, schema, "missing")
    masses = {}
    for j, mass in sample.level_mass.items():
        if len(mass) > 0:
            codes = table.schema.level_index(j).of_levels(found.columns[j].levels)
            kept, n_levels = codes >= 0, table.schema.n_levels(j)
            masses[j] = np.bincount(codes[kept], mass[kept], n_levels).astype(np.float64)
    return replace(sample, table=table, level_mass=masses)
