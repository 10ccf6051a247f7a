"""Write tables batch by batch, as CSV, Parquet or Arrow files.

Batches of named columns are converted to pieces of a file, which is moved into place
atomically (:mod:`hedgerow.atomic`).  The content of the file depends only on the rows, not
on the batches: rows are regrouped, and the size of a group depends only on the column types.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any, BinaryIO, TypeAlias

import numpy as np

from hedgerow.atomic import check_place, open_atomically
from hedgerow.data.sources.arrow_files import arrow
from hedgerow.errors import DataError, ParameterError

Columns: TypeAlias = Mapping[str, Any]
"""Columns of equal length by name: NumPy arrays or Arrow chunked arrays."""

OUTPUT_SUFFIXES = (".csv", ".tsv", ".parquet", ".pq", ".arrow", ".feather", ".ipc")

_CSV_ROWS = 8192
_GROUP_BYTES = 32 << 20
_GROUP_ROWS = 1 << 20
"""Most bytes (estimated for text) and rows of a group."""
_TEXT_BYTES = 32


def check_output(path: str) -> None:
    """Raise ``ParameterError`` if a table cannot be written to this path."""
    name = path.lower()
    if not name.endswith(OUTPUT_SUFFIXES):
        known = ", ".join(OUTPUT_SUFFIXES)
        raise ParameterError(f"{path}: the output is written as {known}.")
    check_place(path)
    if not name.endswith((".csv", ".tsv")):
        arrow(path)


def write_table(path: str, batches: Iterable[Columns]) -> None:
    """Write a table atomically, batch by batch."""
    name = path.lower()
    with open_atomically(path) as file:
        if name.endswith((".csv", ".tsv")):
            _write_csv(file, batches, "\t" if name.endswith(".tsv") else ",")
        else:
            _write_arrow(file, batches, name.endswith((".parquet", ".pq")))


def _write_csv(file: BinaryIO, batches: Iterable[Columns], delimiter: str) -> None:
    """Write CSV text; floats have the fewest digits that represent them exactly."""
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    try:
        for number, columns in enumerate(batches):
            if number == 0:
                writer.writerow(columns)
            for start in range(0, len(next(iter(columns.values()))), _CSV_ROWS):
                parts = (column[start : start + _CSV_ROWS] for column in columns.values())
                writer.writerows(zip(*map(_items, parts), strict=True))
    finally:
        text.detach()


def _items(column: Any) -> list[Any]:
    return column.tolist() if isinstance(column, np.ndarray) else column.to_pylist()


def _write_arrow(file: BinaryIO, batches: Iterable[Columns], is_parquet: bool) -> None:
    import pyarrow.ipc
    import pyarrow.parquet

    make_writer = pyarrow.parquet.ParquetWriter if is_parquet else pyarrow.ipc.new_file
    writer = None
    with ExitStack() as stack:
        for group in _groups(_tables(batches)):
            if writer is None:
                writer = stack.enter_context(make_writer(file, group.schema))
            writer.write_table(group)


def _tables(batches: Iterable[Columns]) -> Iterator[Any]:
    """Convert batches to tables of the same schema."""
    import pyarrow as pa

    schema = None
    for columns in batches:
        table = pa.table({name: _plain_arrow(column) for name, column in columns.items()})
        if schema is None:
            schema = table.schema
        yield table if table.schema == schema else _cast(table, schema)


def _plain_arrow(column: Any) -> Any:
    """Convert a column to Arrow; decode dictionaries, which differ from file to file."""
    import pyarrow as pa

    if isinstance(column, np.ndarray):
        return pa.array(column)
    if pa.types.is_dictionary(column.type):
        return column.cast(column.type.value_type)
    return column


def _cast(table: Any, schema: Any) -> Any:
    import pyarrow as pa

    for field in schema:
        found = table.schema.field(field.name).type
        try:
            table.column(field.name).cast(field.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise DataError(
                f"column {field.name!r} is {found}, but {field.type} in the first file, and "
                "some value cannot be converted: leave it out, or give the files the same types."
            ) from error
    return table.cast(schema)


def _groups(tables: Iterator[Any]) -> Iterator[Any]:
    """Regroup rows into tables of one group each; the last may be smaller."""
    import pyarrow as pa

    waiting: list[Any] = []
    n_waiting = 0
    for table in tables:
        waiting.append(table)
        n_waiting += table.num_rows
        n_rows = _group_rows(table.schema)
        while n_waiting >= n_rows:
            joined = pa.concat_tables(waiting)
            yield joined.slice(0, n_rows).combine_chunks()
            waiting = [joined.slice(n_rows)]
            n_waiting -= n_rows
    if n_waiting:
        yield pa.concat_tables(waiting).combine_chunks()


def _group_rows(schema: Any) -> int:
    width = sum(_bytes_of(field.type) for field in schema)
    return max(1024, min(_GROUP_ROWS, _GROUP_BYTES // max(1, width)))


def _bytes_of(kind: Any) -> int:
    try:
        return max(1, kind.bit_width // 8)
    except ValueError:  # texts and lists have no fixed width
        return _TEXT_BYTES
