"""Files that fit into memory, read at once: named columns of NumPy arrays, or sparse rows.

Columns of all files are of these kinds, whatever their number::

    float64           numbers, NaN where missing (whole numbers up to 2**53 too)
    int64             whole numbers, some beyond 2**53, none missing
    datetime64[us]    dates, NaT where missing
    timedelta64[us]   durations, NaT where missing
    object            text, times of a day or dates with a zone, None where missing
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hedgerow.argument_types import BATCH_ROWS
from hedgerow.arrays import AnyArray
from hedgerow.cli.usage import UsageError
from hedgerow.data.reading.columns import ReadColumn, floats_of_column, stack_one
from hedgerow.data.reading.rows import read_column
from hedgerow.data.reading.temporal import array_of_ticks
from hedgerow.data.reading.texts import TextKind, convert, join_kinds, parse
from hedgerow.data.sources.base import Part, no_column
from hedgerow.data.sources.columns import read_columns
from hedgerow.data.sources.facts import ColumnFacts
from hedgerow.data.sources.opening import open_parts
from hedgerow.data.sources.paths import PathLike
from hedgerow.data.sources.row_sample import stack_sparse
from hedgerow.data.sources.text_files import TextPart
from hedgerow.errors import HedgerowError

_BATCH_BYTES = 1 << 26


@dataclass(frozen=True)
class NamedColumns:
    """A table: columns by name, in the order of the file."""

    path: str
    columns: Mapping[str, AnyArray]

    @property
    def n_rows(self) -> int:
        return len(next(iter(self.columns.values())))

    def features(self, names: Sequence[str]) -> dict[str, AnyArray]:
        """Return some columns in this order, in the form of an estimator."""
        return {name: self.columns[name] for name in names}

    def role(self, name: str) -> AnyArray:
        """Return a column that is no feature: dates become numbers of microseconds."""
        column = self.columns[name]
        if column.dtype.kind not in "OMm" or holds_text(column):
            return column
        return floats_of_column(read_column(column, name).plain(""), "int")

    def weights(self, name: str) -> AnyArray:
        """Return the column of row weights; the fit checks the values."""
        column = self.role(name)
        if column.dtype == object:
            raise UsageError(f"{self.path}: weight {name!r} holds text; weights are numbers")
        return column.astype(np.float64)


def holds_text(column: AnyArray) -> bool:
    """Return whether a column holds text, or may hold it because all values are missing."""
    if column.dtype != object:
        return False
    first = next((item for item in column if item is not None), "")
    return not isinstance(first, dt.time | dt.datetime)


def read_table(
    paths: PathLike | Sequence[PathLike],
    wanted: Sequence[str] | None = None,
    text: Collection[str] = (),
) -> NamedColumns:
    """Read all columns of files, or those wanted; ``text`` names columns that stay text."""
    return read_parts(open_parts(paths, types_known=True), wanted, text)


def names_of(parts: Sequence[Part]) -> tuple[str, ...]:
    """Return the names of the columns of files, which LibSVM files do not have."""
    names = parts[0].column_names()
    if names is None:
        raise UsageError(f"{parts[0].name}: LibSVM files have no names of columns; give a table")
    return names


def read_parts(
    parts: Sequence[Part], wanted: Sequence[str] | None = None, text: Collection[str] = ()
) -> NamedColumns:
    """Read opened files as :func:`read_table` does."""
    names = names_of(parts)
    chosen = names if wanted is None else [name for name in names if name in set(wanted)]
    for part in parts:
        for name in wanted or chosen:
            if name not in (known := part.column_names() or ()):
                raise no_column(part.name, name, "needed", known)
    raw = [_raw_columns(part, chosen) for part in parts]
    columns = {
        name: _joined(name, parts, [of_part.pop(name) for of_part in raw], name in text)
        for name in chosen
    }
    path = parts[0].name if len(parts) == 1 else f"{parts[0].name} and {len(parts) - 1} more"
    table = NamedColumns(path, columns)
    if table.n_rows == 0:
        raise UsageError(f"{path} has a header but no rows")
    return table


def _raw_columns(part: Part, names: Sequence[str]) -> dict[str, Any]:
    """Return each column of a file: an Arrow column of text, or what its batches hold."""
    if not isinstance(part, TextPart):
        batches = [batch.columns for batch in part.batches(names, _BATCH_BYTES)]
        return {name: [columns[name] for columns in batches] for name in names}
    import pyarrow as pa

    pieces = list(part.tables(names, BATCH_ROWS))
    return {
        name: pa.chunked_array((c for piece in pieces for c in piece[name].chunks), pa.string())
        for name in names
    }


def _joined(name: str, parts: Sequence[Part], raw: Sequence[Any], stays_text: bool) -> AnyArray:
    """Return a column of all files in the type that suits all of its values."""
    facts, values = ColumnFacts(), []
    for part, columns in zip(parts, _typed(name, parts, raw, stays_text), strict=True):
        for column in columns:
            facts.add(column, part.name)
            values.append(column)
    kind = facts.kind(name, None, types_known=True)
    if not values:
        return np.empty(0)
    if kind == "category":
        return np.concatenate([_texts(part) for part in values])
    plain = [np.full(len(part), np.nan) if part.is_text else part.plain("") for part in values]
    if kind == "int":
        temporal = facts.temporal()
        ticks = stack_one(plain, kind)
        return ticks if temporal is None else array_of_ticks(ticks, temporal)
    return np.concatenate([floats_of_column(part, "int").astype(np.float64) for part in plain])


def _typed(
    name: str, parts: Sequence[Part], raw: Sequence[Any], stays_text: bool
) -> Iterator[list[ReadColumn]]:
    """Yield the batches of a column of each file; text gets the kind of all text files."""
    import pyarrow as pa

    parsed: list[Any] = [
        parse(column, part.decimal) if isinstance(part, TextPart) and not stays_text else None
        for part, column in zip(parts, raw, strict=True)
    ]
    kind: TextKind = "nothing"
    for found in filter(None, parsed):
        kind = join_kinds(kind, found[0])
    for part, column, found in zip(parts, raw, parsed, strict=True):
        if not isinstance(part, TextPart):
            yield column
            continue
        values = column
        if found is not None:
            values = found[1] if found[0] == kind else convert(column, kind, part.decimal)
        try:
            yield [read_columns(pa.table({name: values})).columns[name]]
        except HedgerowError as error:
            raise type(error)(f"{part.name}: {error}") from error


def _texts(part: ReadColumn) -> AnyArray:
    """Return text, with None for missing values."""
    return part.as_array() if part.is_text else np.full(len(part), None, dtype=object)


def read_sparse(parts: Sequence[Part]) -> tuple[Any, AnyArray]:
    """Read the entries and the targets of LibSVM files."""
    batches = [batch for part in parts for batch in part.batches(None, _BATCH_BYTES)]
    if not batches:
        raise UsageError(f"{parts[0].name} has no rows")
    targets = [batch.target.plain("") for batch in batches if batch.target is not None]
    return stack_sparse([batch.sparse for batch in batches]), np.concatenate(targets)
