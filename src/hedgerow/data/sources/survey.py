"""Pass one: collect everything needed from all rows before the first row can be binned.

::

    batches --- add ---> Survey   facts of each column, category levels with their
    batches --- add ---> Survey   counts, the rows from which cuts are chosen
                            |
                          merge      surveys of other processes, in the order of the rows
                            |
                         finish -->  Schema, and a small Table from which
                                     data.fit_bins chooses the cuts of all rows

Only training rows are added.  Rows of weight 0 are ignored, and validation rows do not
affect levels and cuts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray, IntArray
from hedgerow.data.binning.bins import MOST_SAMPLED, integer_mass_at
from hedgerow.data.categories.columns import (
    Encoded,
    chosen_columns,
    code_column,
    nearly_numbers,
    plain_of,
    warn_of_categories,
)
from hedgerow.data.categories.levels import MISSING_CODE, MOST_LEVELS
from hedgerow.data.external.memory import give_back_memory, shown_bytes
from hedgerow.data.reading.columns import stack, text_message
from hedgerow.data.reading.table import Table, check_names
from hedgerow.data.schema import Column, ColumnKind, Schema, unnamed_schema
from hedgerow.data.sources.base import Batch, ReadRequest
from hedgerow.data.sources.columns import ReadColumn, floats_of
from hedgerow.data.sources.facts import ColumnFacts
from hedgerow.data.sources.level_counts import LevelCounts
from hedgerow.data.sources.packing import pack, unpack
from hedgerow.data.sources.row_sample import Block, RowSample, join, stack_sparse
from hedgerow.data.sparse import AnyTable, check_width, mark_zeros, read_any
from hedgerow.errors import DataError, DataTypeError, ParameterError, brief

_LEVEL_SHARE = 0.25
"""Fraction of the memory limit for the levels of one column."""
_COPIES = 2.2
"""Copies of the sampled rows in memory: as a table, and as sorted columns."""

_COLUMNS_TO_TRIM = 8
"""Columns after which free memory is returned to the system."""


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """Result of pass one.

    Attributes
    ----------
    table : Table or SparseTable
        All rows from which cuts are chosen.
    weight : float64, or None
        Weights of these rows.
    n_rows : int
        Number of training rows.
    """

    schema: Schema
    table: AnyTable
    weight: FloatArray | None
    n_rows: int
    types_known: bool


class Survey:
    """Facts, levels and sampled rows of one process.

    Parameters
    ----------
    requested : ReadRequest
    seed : int
        Seed of the fit.
    memory_limit : int
    first_row : int, default=0
        Number of the first row of this process among the training rows of all processes.
    n_total : int, optional
        Number of training rows of all processes; required if ``first_row`` is not 0.
    largest_weight : float, optional
        Largest weight of all training rows; None if all weights are 1.
    """

    def __init__(
        self,
        requested: ReadRequest,
        *,
        seed: int,
        memory_limit: int,
        first_row: int = 0,
        n_total: int | None = None,
        largest_weight: float | None = None,
    ) -> None:
        self.requested, self.memory_limit = requested, memory_limit
        self.sample = RowSample(seed, first_row, n_total)
        self.names: tuple[str, ...] | None = None
        self.named = True
        self.types_known = False
        self.is_sparse = False
        self.facts: list[ColumnFacts] = []
        self.levels: list[LevelCounts] = []
        self._chosen: AnyArray | None = None
        self._n_total, self._largest_weight = n_total, largest_weight

    # -- reading -------------------------------------------------------------

    def begin(
        self, names: Sequence[str], named: bool, types_known: bool, sparse: bool = False
    ) -> None:
        """Set the features from the first part; a second call does nothing."""
        if self.names is not None:
            if sparse != self.is_sparse:
                raise DataTypeError("some batches are sparse and others are not: give one kind.")
            return
        self.named, self.types_known, self.is_sparse = named, types_known, sparse
        if sparse:
            self.names, self.facts = (), [ColumnFacts()]
            return
        given = self.requested.feature_names
        if given is not None:
            check_names(given, len(names))
            self.named = True
        self.names = tuple(names)
        self._chosen = chosen_columns(self.requested.categorical, self._labels())
        self.facts = [ColumnFacts() for _ in names]
        share = int(_LEVEL_SHARE * self.memory_limit)
        self.levels = [LevelCounts(name, share) for name in self._labels()]

    def _labels(self) -> tuple[str, ...]:
        assert self.names is not None
        return self.requested.feature_names or self.names

    def _check_memory(self, block: Block) -> None:
        """Raise if the rows for the cuts exceed the memory limit."""
        n_rows = min(MOST_SAMPLED, self._n_total or self.sample.n_rows)
        width = sum(column.dtype.itemsize for column in block.columns)
        needed = int(n_rows * width * _COPIES)
        if needed > self.memory_limit:
            most = int(min(MOST_SAMPLED, self._n_total or MOST_SAMPLED) * width * _COPIES)
            raise ParameterError(
                f"memory_limit of {shown_bytes(self.memory_limit)} is too small for "
                f"{len(block.columns)} columns: cuts are chosen from {MOST_SAMPLED:,} rows; give "
                f"at least {shown_bytes(most)}, or fewer columns."
            )

    def _is_chosen(self, j: int) -> bool | None:
        return None if self._chosen is None else bool(self._chosen[j])

    def add(
        self, batch: Batch, rows: IntArray | None, weight: FloatArray | None, where: str
    ) -> None:
        """Add the training rows of a batch.

        Parameters
        ----------
        batch : Batch
            Batch with all features.
        rows : int64, optional
            Positions of the training rows in the batch; None means all.
        weight : float64, optional
            Weights of these rows.
        where : str
            Name of the part.
        """
        n_rows = batch.n_rows if rows is None else len(rows)
        if n_rows == 0:
            return
        kept, hashes = self.sample.choose(n_rows)
        weight_kept = None if weight is None else weight[kept]
        if batch.sparse is not None:
            self._add_sparse(batch.sparse, rows, kept, hashes, weight_kept, where)
            return
        mass = None
        if weight is not None and self._largest_weight is not None:
            mass = integer_mass_at(weight, self._largest_weight)
        columns, coded = [], []
        assert self.names is not None
        for j, name in enumerate(self.names):
            column = batch.columns[name]
            column = column if rows is None else column.take(rows)
            part, is_coded = self._add_column(j, column, kept, mass, where)
            columns.append(part)
            coded.append(is_coded)
        block = Block(hashes, weight_kept, columns, tuple(coded))
        self._check_memory(block)
        self.sample.add(block)

    def _add_column(
        self, j: int, column: ReadColumn, kept: IntArray, mass: FloatArray | None, where: str
    ) -> tuple[AnyArray, bool]:
        """Add one column; return its kept values, and whether they are numbers of levels."""
        facts, chosen, label = self.facts[j], self._is_chosen(j), self._labels()[j]
        n_sorts = len(facts.sorts)
        facts.add(column, where)
        if len(facts.sorts) > n_sorts:
            facts.check(label, chosen)
        by_value = isinstance(column.values, Encoded) if chosen is None else chosen
        if by_value:
            return self.levels[j].add(column.values, mass)[kept], True
        plain = plain_of(
            column.values,
            text_message(label, column.type_name, named=self.requested.categorical is not None),
        )
        return plain[kept], False

    def _add_sparse(
        self,
        table: Any,
        rows: IntArray | None,
        kept: IntArray,
        hashes: AnyArray,
        weight: FloatArray | None,
        where: str,
    ) -> None:
        table = table if rows is None else table[rows]
        small = table.data.dtype.kind in "iub" and table.data.dtype.itemsize < 8
        exact = "any" if small else "wide" if table.data.dtype.kind in "iu" else "float"
        if len(table.data):
            values = table.data.astype(np.int64) if exact == "wide" else table.data
            name = str(table.data.dtype)
            self.facts[0].add(ReadColumn(values, "numbers", exact, False, name), where)  # type: ignore[arg-type]
        check_width(table.shape[1], self.memory_limit, where)
        # Later batches may have fewer columns.
        self.names = tuple(f"x{j}" for j in range(max(table.shape[1], len(self.names or ()))))
        self.sample.add(Block(hashes, weight, [], (), table[kept]))

    # -- other processes -----------------------------------------------------

    def merge(self, later: Survey) -> None:
        """Add the survey of the rows that follow."""
        if later.names is None:
            return
        if self.names is None:
            self.begin(later.names, later.named, later.types_known, later.is_sparse)
        assert self.names is not None
        if self.is_sparse != later.is_sparse or not (
            self.is_sparse or set(self.names) == set(later.names)
        ):
            raise DataError(
                "the processes of this training read different columns: all files must have the "
                "same columns."
            )
        order = range(len(self.facts))
        if self.is_sparse:
            self.names = max(self.names, later.names, key=len)
        else:
            order = [later.names.index(name) for name in self.names]  # type: ignore[assignment]
        new_codes: list[AnyArray] = []
        for j, place in enumerate(order):
            self.facts[j].merge(later.facts[place])
            if self.is_sparse:
                continue
            self.facts[j].check(self._labels()[j], self._is_chosen(j))
            other = later.levels[place]
            codes = self.levels[j].merge(other.values(), other.mass())
            new_codes.append(np.append(codes, MISSING_CODE))
        for block in later.sample.blocks:
            columns = [block.columns[place] for place in order] if not self.is_sparse else []
            coded = tuple(block.coded[place] for place in order) if not self.is_sparse else ()
            recoded = [
                new_codes[j][column] if is_code else column
                for j, (column, is_code) in enumerate(zip(columns, coded, strict=True))
            ]
            self.sample.add(replace(block, columns=recoded, coded=coded))
        self.sample.n_rows += later.sample.n_rows

    def to_bytes(self) -> bytes:
        """Serialize for another process; :meth:`from_bytes` is the inverse."""
        self.sample.blocks = join(self.sample.blocks)
        arrays: list[AnyArray] = [levels.mass() for levels in self.levels]
        blocks = []
        for block in self.sample.blocks:
            blocks.append({"coded": block.coded, "weighted": block.weight is not None})
            arrays += [block.hashes, *([] if block.weight is None else [block.weight])]
            arrays += list(block.columns)
            if block.entries is not None:
                table: Any = block.entries
                blocks[-1]["width"] = table.shape[1]
                arrays += [table.data, table.indices, table.indptr]
        value = {
            "names": self.names,
            "named": self.named,
            "types_known": self.types_known,
            "sparse": self.is_sparse,
            "facts": [facts.to_json() for facts in self.facts],
            "levels": [levels.values() for levels in self.levels],
            "n_rows": self.sample.n_rows,
            "blocks": blocks,
        }
        return pack(value, arrays)

    @classmethod
    def from_bytes(
        cls, message: bytes, requested: ReadRequest, *, seed: int, memory_limit: int
    ) -> Survey:
        """Read the result of :meth:`to_bytes` from a process with the same ``requested``."""
        value, arrays = unpack(message)
        survey = cls(requested, seed=seed, memory_limit=memory_limit)
        if value["names"] is None:
            return survey
        survey.begin(value["names"], value["named"], value["types_known"], value["sparse"])
        survey.names = tuple(value["names"])
        survey.facts = [ColumnFacts.from_json(record) for record in value["facts"]]
        queue = iter(arrays)
        for levels, values in zip(survey.levels, value["levels"], strict=True):
            levels.merge(values, next(queue))
        for record in value["blocks"]:
            hashes = next(queue)
            weight = next(queue) if record["weighted"] else None
            columns = [next(queue) for _ in record["coded"]]
            entries = None
            if "width" in record:
                from scipy.sparse import csr_array

                parts = tuple(next(queue) for _ in range(3))
                entries = csr_array(parts, shape=(len(hashes), record["width"]))
            survey.sample.blocks.append(
                Block(hashes, weight, columns, tuple(record["coded"]), entries)
            )
        survey.sample.n_rows = int(value["n_rows"])
        return survey

    # -- the end -------------------------------------------------------------

    def finish(self, most_levels: int = MOST_LEVELS) -> Found:
        """Return the schema and the rows from which cuts are chosen.

        Raise ``DataError`` or ``DataTypeError`` if there are no rows, or the types of a column
        have no common type.
        """
        n_rows = self.sample.n_rows
        if self.names is None or n_rows == 0:
            raise DataError("the data have no rows to train on.")
        blocks = self.sample.finish(n_rows)
        weights = [block.weight for block in blocks if block.weight is not None]
        weight = np.concatenate(weights) if weights else None
        if self.is_sparse:
            return self._finish_sparse(blocks, weight, n_rows)
        found, stacked = [], _Stacked(len(self._labels()))
        for j, name in enumerate(self._labels()):
            column, values = self._finish_column(j, name, blocks, most_levels)
            found.append(column)
            stacked.add(values, column.kind)
            del values
            if j % _COLUMNS_TO_TRIM == 0:
                give_back_memory()  # the small arrays of blocks leave holes
        schema = self._schema(found)
        table = mark_zeros(Table(stacked.finish(schema.kinds), schema), self.requested.zero_missing)
        return Found(table.schema, table, weight, n_rows, self.types_known)

    def _schema(self, found: Sequence[Column]) -> Schema:
        """Return the schema that :func:`hedgerow.data.read_table` would make."""
        kinds = [column.kind for column in found]
        if "category" in kinds:
            return Schema(tuple(found), self.named, self.requested.unknown)
        schema = Schema(tuple(found), named=self.named)
        if not self.named and len(set(kinds)) == 1 and not schema.has_temporal:
            return unnamed_schema(len(found), kinds[0])
        return schema

    def _finish_column(
        self, j: int, name: str, blocks: Sequence[Block], most_levels: int
    ) -> tuple[Column, AnyArray]:
        kind = self.facts[j].kind(name, self._is_chosen(j), self.types_known)
        temporal = self.facts[j].temporal()
        parts = [(block.columns[j], block.coded[j]) for block in blocks]
        for block in blocks:  # the table holds the column from here on
            block.columns[j] = np.empty(0, block.columns[j].dtype)  # a view would keep it alive
        if kind != "category":
            # Without values, numbers of levels cannot be told from numbers.
            plain = [np.full(len(part), np.nan) if coded else part for part, coded in parts]
            if self.types_known and kind == "float":
                plain = [floats_of(part) for part in plain]
            return Column(name, kind, temporal=temporal), stack_one(plain, kind)
        if self._is_chosen(j) is None:
            self._warn_of_odd_text(j, name)
        levels, codes = self.levels[j].finish(most_levels, self.requested.unknown == "error")
        numbers = [
            part if coded else np.full(len(part), MISSING_CODE, dtype=np.int64)
            for part, coded in parts
        ]
        found = codes[np.concatenate(numbers)]
        column = Column(name, kind, levels, temporal=temporal)
        return column, code_column(found, len(levels), self.requested.unknown)

    def _warn_of_odd_text(self, j: int, name: str) -> None:
        texts, mass = self.levels[j].values(), self.levels[j].mass()
        if texts and isinstance(texts[0], str):
            found = nearly_numbers(list(map(str, texts)), mass)
            if found is not None:
                warn_of_categories(name, f"{found}; {brief(found.odd)} is none")

    def _finish_sparse(
        self, blocks: Sequence[Block], weight: FloatArray | None, n_rows: int
    ) -> Found:
        assert self.names is not None
        width = len(self.names)
        entries: Any = stack_sparse([block.entries for block in blocks])
        entries.resize((entries.shape[0], width))
        if self.facts[0].kind("X", None, self.types_known) == "float":
            entries = entries.astype(np.result_type(entries.dtype, np.float32))
        table = read_any(
            entries,
            zero_missing=self.requested.zero_missing,
            categorical=self.requested.categorical,
            names=self.requested.feature_names,
        )
        return Found(table.schema, table, weight, n_rows, self.types_known)


class _Stacked:
    """Columns placed side by side as they arrive, so that no column is in memory twice.

    The result equals :func:`hedgerow.data.reading.columns.stack`, which is used if types differ.
    """

    def __init__(self, n_columns: int) -> None:
        self._n_columns = n_columns
        self._values: AnyArray | None = None
        self._apart: list[AnyArray] = []
        self._n_done = 0

    def add(self, column: AnyArray, kind: ColumnKind) -> None:
        if self._values is None and not self._apart and kind != "int":
            shape = (len(column), self._n_columns)
            self._values = np.empty(shape, column.dtype, order="F")
        values = self._values
        if values is not None and (kind == "int" or column.dtype != values.dtype):
            self._apart = [values[:, j] for j in range(self._n_done)]
            values = self._values = None
        if values is None:
            self._apart.append(column)
        else:
            values[:, self._n_done] = column
        self._n_done += 1

    def finish(self, kinds: Sequence[ColumnKind]) -> AnyArray:
        return stack(self._apart, kinds) if self._values is None else self._values


def stack_one(parts: Sequence[AnyArray], kind: Any) -> AnyArray:
    """Concatenate plain parts of one column in the type in which its values compare."""
    if len({part.dtype for part in parts}) == 1:
        return np.concatenate(parts)
    return np.concatenate([stack([part], [kind])[:, 0] for part in parts])
