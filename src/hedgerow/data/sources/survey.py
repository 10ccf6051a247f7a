"""Pass one: collect everything needed from all rows before the first row can be binned.

::

    batches --- add ---> Survey   facts of each column, category levels with their counts,
    batches --- add ---> Survey   few distinct values, the rows from which cuts are chosen
                            |
                          merge      surveys of other processes, in the order of the rows
                            |
                         finish -->  Schema, and a small Table from which
                                     data.fit_bins chooses the cuts of all rows

Only training rows are added.  Rows of weight 0 are ignored, and validation rows do not
affect levels and cuts.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray, IntArray
from hedgerow.data.binning import cut_sample as cs
from hedgerow.data.binning.bins import integer_mass
from hedgerow.data.binning.few_values import FewValues
from hedgerow.data.categories import columns as categories
from hedgerow.data.categories.levels import MISSING_CODE, MOST_LEVELS
from hedgerow.data.external.memory import give_back_memory, shown_bytes
from hedgerow.data.reading import columns as col
from hedgerow.data.reading.table import Table, check_names
from hedgerow.data.schema import Column, Schema, new_schema
from hedgerow.data.sources.base import Batch, ReadRequest
from hedgerow.data.sources.facts import ColumnFacts, LevelCounts
from hedgerow.data.sparse import mark_zeros
from hedgerow.errors import CommunicationError, DataError, ParameterError, brief
from hedgerow.kernels.tables.values import values_of_table

_LEVEL_SHARE = 0.25
"""Fraction of the memory limit for the levels of one column."""
_COPIES = 2.2
"""Copies of the sampled rows in memory: as a table, and as sorted columns."""

_COLUMNS_TO_TRIM = 8
"""Columns after which free memory is returned to the system."""


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """Result of pass one."""

    schema: Schema
    sample: cs.CutSample  # all rows from which cuts are chosen
    n_rows: int  # number of training rows
    types_known: bool


@dataclass(slots=True)
class _Surveyed:
    """What is known of a column."""

    label: str  # name of the column in the schema
    chosen: bool | None  # whether the user says that it is a category; None if its type says that
    levels: LevelCounts
    facts: ColumnFacts = field(default_factory=ColumnFacts)

    def add(
        self, column: col.ReadColumn, mass: FloatArray | None, where: str, is_named: bool
    ) -> tuple[AnyArray, bool]:
        """Add some rows; return their values, and whether these are numbers of levels."""
        n_sorts = len(self.facts.sorts)
        self.facts.add(column, where)
        if len(self.facts.sorts) > n_sorts:
            self.facts.check(self.label, self.chosen)
        if column.is_category if self.chosen is None else self.chosen:
            return self.levels.add(column, mass), True
        return column.plain(col.text_message(self.label, column.dtype, named=is_named)), False

    def numbers_of(self, column: col.ReadColumn, part: AnyArray, is_coded: bool) -> AnyArray | None:
        """Return the part of a column of numbers; None for categories, which are no content."""
        # Parts without values are what the column is, as far as other parts tell.
        if self.chosen:
            return None
        if self.chosen is None and (column.sort is None or is_coded):
            is_category = self.facts.is_category
            if is_category or (is_category is None and is_coded):
                return None
        return np.full(len(part), np.nan) if is_coded else part

    def warn_of_odd_text(self) -> None:
        """Warn of a column of text that would hold numbers without a few of its values."""
        texts = self.levels.values()
        if self.chosen is None and texts and isinstance(texts[0], str):
            found = categories.nearly_numbers(list(map(str, texts)), self.levels.mass)
            if found is not None:
                categories.warn_of_categories(self.label, f"{found}; {brief(found.odd)} is none")


class Survey:
    """Facts, levels and sampled rows of one process."""

    def __init__(
        self,
        requested: ReadRequest,
        *,
        seed: int,
        memory_limit: int,
        largest_weight: float | None = None,
    ) -> None:
        self.requested, self.memory_limit = requested, memory_limit
        self.sample = cs.RowSample()
        self.names: tuple[str, ...] | None = None
        self.named = True
        self.types_known = False
        self.columns: list[_Surveyed] = []
        self.few = FewValues()
        self._seed, self._largest_weight = seed, largest_weight

    # -- reading -------------------------------------------------------------

    def begin(self, names: Sequence[str], named: bool, types_known: bool) -> None:
        """Set the features from the first part; a second call does nothing."""
        if self.names is not None:
            return
        self.named, self.types_known, self.names = named, types_known, tuple(names)
        labels, given = self.names, self.requested.feature_names
        if given is not None:
            check_names(given, len(names))
            labels, self.named = given, True
        chosen = categories.chosen_columns(self.requested.categorical, labels)
        self._factors = cs.factors_of(self._seed, np.arange(len(labels)))
        share = int(_LEVEL_SHARE * self.memory_limit)
        self.columns = [
            _Surveyed(label, None if chosen is None else bool(chosen[j]), LevelCounts(label, share))
            for j, label in enumerate(labels)
        ]

    def add(
        self, batch: Batch, rows: IntArray | None, weight: FloatArray | None, where: str
    ) -> None:
        """Add the training rows of a batch."""
        n_rows = batch.n_rows if rows is None else len(rows)
        if n_rows == 0:
            return
        mass = None
        if weight is not None and self._largest_weight is not None:
            mass = integer_mass(weight, self._largest_weight)
        whole = np.ones(n_rows, np.int64) if mass is None else mass.astype(np.int64)
        parts, coded = [], []
        hashes, absent = np.zeros(n_rows, np.uint64), cs.absent_term(self.requested.zero_missing)
        assert self.names is not None
        is_named, is_int = self.requested.categorical is not None, np.ones(1, dtype=np.uint8)
        for j, (name, surveyed) in enumerate(zip(self.names, self.columns, strict=True)):
            column = batch.columns[name]
            column = column if rows is None else column.take(rows)
            part, is_coded = surveyed.add(column, mass, where, is_named)
            numbers = surveyed.numbers_of(column, part, is_coded)
            if numbers is not None:
                self.few.add_column(j, numbers)
                values = values_of_table(numbers[:, None])
                cs.add_to_hashes(values, self._factors[j : j + 1], is_int, absent, hashes)
            parts.append(part)
            coded.append(is_coded)
        kept = self.sample.choose(cs.mixed(hashes))
        columns = [part[kept] for part in parts]
        width = sum(column.dtype.itemsize for column in columns)
        if int(min(cs.SAMPLE_ROWS, self.sample.n_rows) * width * _COPIES) > self.memory_limit:
            most = int(cs.SAMPLE_ROWS * width * _COPIES)
            raise ParameterError(
                f"memory_limit of {shown_bytes(self.memory_limit)} is too small for "
                f"{len(columns)} columns: cuts are chosen from {cs.SAMPLE_ROWS:,} rows; give "
                f"at least {shown_bytes(most)}, or fewer columns."
            )
        self.sample.add(cs.Block(hashes[kept], whole[kept], columns, tuple(coded)))

    # -- other processes -----------------------------------------------------

    def merge(self, later: Survey) -> None:
        """Add the survey of the rows that follow."""
        if later.names is None:
            return
        self.begin(later.names, later.named, later.types_known)
        assert self.names is not None
        if set(self.names) != set(later.names):
            raise DataError(
                "the processes of this training read different columns: all files must have the "
                "same columns."
            )
        order = [later.names.index(name) for name in self.names]
        new_codes: list[AnyArray] = []
        for own, other in zip(self.columns, (later.columns[place] for place in order), strict=True):
            own.facts.merge(other.facts)
            own.facts.check(own.label, own.chosen)
            codes = own.levels.merge(other.levels.values(), other.levels.mass)
            new_codes.append(np.append(codes, MISSING_CODE))
        self.few.merge(later.few.arrays(), np.argsort(order))
        for block in later.sample.blocks:
            coded = tuple(block.coded[place] for place in order)
            columns = [
                new_codes[j][block.columns[place]] if coded[j] else block.columns[place]
                for j, place in enumerate(order)
            ]
            self.sample.add(replace(block, columns=columns, coded=coded))
        self.sample.n_rows += later.sample.n_rows

    def to_bytes(self, last: int) -> bytes:
        """Serialize for another process, with the rows up to a cell of ``sample.limits``."""
        return pack(
            {
                "names": self.names,
                "named": self.named,
                "types_known": self.types_known,
                "columns": [
                    {
                        "facts": asdict(column.facts),
                        "levels": [column.levels.values(), column.levels.mass],
                    }
                    for column in self.columns
                ],
                "few": self.few.arrays(),
                "n_rows": self.sample.n_rows,
                "blocks": [
                    [block.hashes, block.mass, block.columns, block.coded]
                    for block in self.sample.up_to(last)
                ],
            }
        )

    @classmethod
    def from_bytes(
        cls, message: bytes, requested: ReadRequest, *, seed: int, memory_limit: int
    ) -> Survey:
        """Read the result of :meth:`to_bytes` from a process with the same ``requested``."""
        value = unpack(message)
        survey = cls(requested, seed=seed, memory_limit=memory_limit)
        if value["names"] is None:
            return survey
        survey.begin(value["names"], value["named"], value["types_known"])
        for column, record in zip(survey.columns, value["columns"], strict=True):
            column.facts = ColumnFacts(**record["facts"])
            column.levels.merge(*record["levels"])
        survey.few.merge(value["few"])
        survey.sample.n_rows = value["n_rows"]
        for hashes, mass, columns, coded in value["blocks"]:
            survey.sample.blocks.append(cs.Block(hashes, mass, columns, tuple(coded)))
        return survey

    # -- the end -------------------------------------------------------------

    def finish(self, most_levels: int = MOST_LEVELS) -> Found:
        """Return the schema and the rows from which cuts are chosen."""
        n_rows = self.sample.n_rows
        if self.names is None or n_rows == 0:
            raise DataError("the data have no rows to train on.")
        blocks = self.sample.finish()
        mass = cs.float_masses(np.concatenate([block.mass for block in blocks]))
        found: list[Column] = []
        columns: list[AnyArray] = []
        level_mass: dict[int, FloatArray] = {}
        for j in range(len(self.columns)):
            column, values = self._finish_column(j, blocks, most_levels, level_mass)
            found.append(column)
            columns.append(values)
            if j % _COLUMNS_TO_TRIM == 0:
                give_back_memory()  # the small arrays of blocks leave holes
        schema = new_schema(found, self.named, self.requested.unknown)
        zero_missing = self.requested.zero_missing
        table = mark_zeros(Table(col.stack(columns, schema.kinds), schema), zero_missing)
        every = self.few.finish(table.schema, table.values.dtype)
        few = {j: each for j, each in every.items() if found[j].kind != "category"}
        sample = cs.CutSample(table, None, mass, few, level_mass)
        return Found(table.schema, sample, n_rows, self.types_known)

    def _finish_column(
        self,
        j: int,
        blocks: Sequence[cs.Block],
        most_levels: int,
        level_mass: dict[int, FloatArray],
    ) -> tuple[Column, AnyArray]:
        surveyed, name = self.columns[j], self.columns[j].label
        kind = surveyed.facts.kind(name, surveyed.chosen, self.types_known)
        temporal = surveyed.facts.temporal()
        parts = [(block.columns[j], block.coded[j]) for block in blocks]
        for block in blocks:  # the table holds the column from here on
            block.columns[j] = np.empty(0, block.columns[j].dtype)  # a view would keep it alive
        if kind != "category":
            # Without values, numbers of levels cannot be told from numbers.
            plain = [np.full(len(part), np.nan) if coded else part for part, coded in parts]
            if self.types_known and kind == "float":
                plain = [col.floats_of_column(part, "int") for part in plain]
            if len({part.dtype for part in plain}) > 1:
                plain = [col.stack([part], [kind])[:, 0] for part in plain]
            return Column(name, kind, temporal=temporal), np.concatenate(plain)
        surveyed.warn_of_odd_text()
        levels, codes = surveyed.levels.finish(most_levels, self.requested.unknown == "error")
        numbers = [
            part if coded else np.full(len(part), MISSING_CODE, dtype=np.int64)
            for part, coded in parts
        ]
        kept = codes[:-1] >= 0
        level_mass[j] = np.zeros(len(levels))
        level_mass[j][codes[:-1][kept]] = surveyed.levels.mass[kept]
        found = codes[np.concatenate(numbers)]
        column = Column(name, kind, levels, temporal=temporal)
        return column, categories.code_column(found, len(levels), self.requested.unknown)


def pack(value: Any) -> bytes:
    """Convert JSON-like values, which may hold arrays of numbers, to bytes."""
    # length of the text (8 bytes)  text: JSON, {"array": [type, shape]}  items of each array
    arrays: list[bytes] = []

    def described(array: AnyArray) -> dict[str, Any]:
        arrays.append(array.tobytes())
        return {"array": [array.dtype.str, array.shape]}

    text = json.dumps(value, default=described, separators=(",", ":")).encode("ascii")
    return b"".join((len(text).to_bytes(8, "little"), text, *arrays))


def unpack(message: bytes) -> Any:
    """Return the value of :func:`pack`; raise ``CommunicationError`` if the bytes are malformed."""
    # Not files of NumPy, whose headers are parsed as Python: Python 3.11 does that in one thread
    # at a time only (CPython's issue 106905), and ranks may be threads.
    place = text_end = 8 + int.from_bytes(message[:8], "little")

    def with_array(record: dict[str, Any]) -> Any:
        nonlocal place
        if record.keys() != {"array"}:
            return record
        dtype, shape = np.dtype(record["array"][0]), tuple(record["array"][1])
        if dtype.kind not in "biuf":
            raise ValueError(f"an array has the type {dtype}")
        array = np.frombuffer(message, dtype, math.prod(shape), place).reshape(shape).copy()
        place += array.nbytes
        return array

    try:
        value = json.loads(message[8:text_end], object_hook=with_array)
        if place < len(message):
            raise ValueError("something follows the last array")
    except Exception as error:  # whatever the readers of JSON and of arrays raise
        raise CommunicationError(f"a message of another process is malformed: {error}.") from None
    return value
