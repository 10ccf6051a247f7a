"""Parquet and Arrow files, read in batches of rows.

Only the columns needed are read.  At most one batch of a file is in memory: larger row
groups and record batches are split.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from hedgerow.data.sources.base import Batch, check_names
from hedgerow.data.sources.batches import read_columns
from hedgerow.data.sources.paths import DataFile, Fingerprint, changed, check_unchanged, fingerprint
from hedgerow.errors import DataError, HedgerowError, ParameterError, StorageError

_MOST_ROWS = 1 << 16
_FEWEST_ROWS = 256
_WIDTH_OF_TEXT = 32
_LEAST_BUFFER, _MOST_BUFFER = 1 << 14, 1 << 20
_INTEGER = re.compile(r"-?[0-9]+")
_OVERHEAD = 4
"""Copies of a batch that may exist at once: decoded, numeric, by kind, sampled rows."""


def arrow(what: str) -> Any:
    """Return the module ``pyarrow``."""
    try:
        import pyarrow as pa
    except ImportError as error:
        raise ParameterError(
            f"{what}: this needs pyarrow, which is not installed: pip install 'hedgerow[files]'."
        ) from error
    return pa


def open_native(path: str) -> Any:
    """Open a file for pyarrow, which itself opens only files whose names are UTF-8."""
    import pyarrow as pa

    return pa.OSFile(path if os.name == "nt" else os.fsencode(path))


@contextmanager
def storage_errors(path: str, kind: str) -> Iterator[None]:
    """Turn errors of pyarrow and of the system into errors that name the file."""
    import pyarrow as pa

    try:
        yield
    except HedgerowError:
        raise
    except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError) as error:
        text = " ".join(str(error).split())
        raise StorageError(f"{path} cannot be read as {kind}: {text}.") from error


def decoded(table: Any) -> Any:
    """Return an Arrow table whose dictionary columns are replaced by their values."""
    import pyarrow as pa

    columns = [
        column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        for column in table.columns
    ]
    return pa.table(columns, names=table.column_names)


def with_categories(table: Any) -> Any:
    """Return an Arrow table with the Categorical columns of the original pandas frame."""
    import pyarrow as pa

    try:
        noted = (table.schema.pandas_metadata or {}).get("columns", [])
        names = {each["field_name"] for each in noted if each["pandas_type"] == "categorical"}
    except (ValueError, LookupError, TypeError, AttributeError):  # not written by pandas
        return table
    columns = [
        column.dictionary_encode()
        if name in names and not pa.types.is_dictionary(column.type)
        else column
        for name, column in zip(table.column_names, table.columns, strict=True)
    ]
    return pa.table(columns, names=table.column_names)


class ArrowPart:
    """A Parquet or Arrow file; ``partition`` has the columns that its path names."""

    def __init__(
        self, file: DataFile, partition: Mapping[str, str | int | None], types_known: bool
    ) -> None:
        self.name, self.types_known = file.path, types_known
        self._partition, self._format = dict(partition), file.format
        self._before: Fingerprint = fingerprint(file.path)
        self._kind = "Parquet" if file.format == "parquet" else "an Arrow file"
        self._names, self._width = tuple[str, ...](), 0.0
        is_of = arrow(self.name).types
        with storage_errors(self.name, self._kind), ExitStack() as stack:
            schema = self._open(stack)[0]
        for name in self._partition:
            if name in schema.names:
                raise DataError(f"{self.name}: column {name!r} is in the file and in its path.")
        check_names(self.name, schema.names)
        self._names = (*schema.names, *self._partition)
        self._width = 8.0 * len(self._partition)
        for kind in schema.types:
            is_number = is_of.is_primitive(kind) or is_of.is_boolean(kind) or is_of.is_decimal(kind)
            self._width += 8.0 if is_number else _WIDTH_OF_TEXT

    def column_names(self) -> tuple[str, ...]:
        """Return all columns; columns named by the path come last."""
        return self._names

    def batches(self, columns: Sequence[str] | None, max_bytes: int) -> Iterator[Batch]:
        """Yield all rows of the file in batches."""
        wanted = self._names if columns is None else columns
        rows = int(max_bytes / (_OVERHEAD * max(1.0, self._width)))
        for table in self._pieces(wanted, max(_FEWEST_ROWS, min(_MOST_ROWS, rows))):
            try:
                yield read_columns(decoded(table) if self.types_known else with_categories(table))
            except HedgerowError as error:
                raise type(error)(f"{self.name}: {error}") from error

    def tables(self, columns: Sequence[str], rows: int) -> Iterator[Any]:
        """Yield Arrow tables of these columns with at most ``rows`` rows each."""
        for table in self._pieces(columns, rows):
            yield table.select(list(columns))

    def _pieces(self, wanted: Sequence[str], rows: int) -> Iterator[Any]:
        """Yield Arrow tables of the wanted columns that the file or its path has."""
        import pyarrow as pa

        check_unchanged(self.name, self._before)
        inside = [n for n in wanted if n not in self._partition and n in self._names]
        by_path = [name for name in wanted if name in self._partition]
        with ExitStack() as stack:
            with storage_errors(self.name, self._kind):
                _, read, n_rows = self._open(stack, inside, rows)
                pieces = iter(read())
            found = 0
            while True:
                with storage_errors(self.name, self._kind):
                    piece = next(pieces, None)
                if piece is None:
                    break
                found += piece.num_rows
                for start in range(0, piece.num_rows, rows):
                    table = pa.Table.from_batches([piece.slice(start, rows)])
                    for name in by_path:
                        table = table.append_column(name, self._column(name, table.num_rows))
                    yield table
        check_unchanged(self.name, self._before)
        if n_rows is not None and found != n_rows:
            raise changed(self.name, f"it announced {n_rows:,} rows and gave {found:,}")

    def _column(self, name: str, n_rows: int) -> Any:
        """Return a column named by the path as an Arrow dictionary."""
        import pyarrow as pa

        value = self._partition[name]
        kind = pa.int32() if isinstance(value, int) else pa.string()
        codes = pa.array([None if value is None else 0] * n_rows, pa.int32())
        return pa.DictionaryArray.from_arrays(codes, pa.array([value], kind))

    def _open(
        self, stack: ExitStack, columns: Sequence[str] | None = None, rows: int = _MOST_ROWS
    ) -> tuple[Any, Callable[[], Iterator[Any]], int | None]:
        """Return the schema, a reader of record batches, and the number of rows if known."""
        if self._format == "parquet":
            import pyarrow.parquet

            # Do not prefetch row groups: they may exceed the memory limit.
            # Each column has its own buffer, so all buffers together are as large as a batch.
            width = max(1, len(self._names if columns is None else columns))
            buffer = min(_MOST_BUFFER, max(_LEAST_BUFFER, int(rows * self._width / width)))
            source = stack.enter_context(open_native(self.name))
            file = stack.enter_context(
                pyarrow.parquet.ParquetFile(source, pre_buffer=False, buffer_size=buffer)
            )
            if columns is not None and not columns:  # batches of nulls
                n_rows = file.metadata.num_rows
                sizes = (min(rows, n_rows - start) for start in range(0, n_rows, rows))
                batches = (pyarrow.record_batch({"": pyarrow.nulls(size)}) for size in sizes)
                return file.schema_arrow, lambda: batches, None
            return (
                file.schema_arrow,
                lambda: file.iter_batches(rows, columns=columns, use_threads=False),
                file.metadata.num_rows,
            )
        return self._open_ipc(stack, columns)

    def _open_ipc(
        self, stack: ExitStack, columns: Sequence[str] | None
    ) -> tuple[Any, Callable[[], Iterator[Any]], int | None]:
        import pyarrow as pa

        source = stack.enter_context(open_native(self.name))
        first = source.read(6)
        source.seek(0)
        if first.startswith(b"FEA1"):  # the first version of Feather
            import pyarrow.feather

            table = pyarrow.feather.read_table(source, columns or None)
            return table.schema, lambda: iter(table.to_batches()), table.num_rows
        if first != b"ARROW1":
            stream = stack.enter_context(pa.ipc.open_stream(source))
            wanted = list(stream.schema.names if columns is None else columns)
            return stream.schema, lambda: (b.select(wanted) for b in stream), None
        schema = stack.enter_context(pa.ipc.open_file(source)).schema
        source.seek(0)
        fields = None if columns is None else [schema.get_field_index(name) for name in columns]
        options = pa.ipc.IpcReadOptions(included_fields=fields)
        file = stack.enter_context(pa.ipc.open_file(source, options=options))
        return schema, lambda: map(file.get_batch, range(file.num_record_batches)), None


def partition_values(files: Sequence[DataFile]) -> list[dict[str, str | int | None]]:
    """Return the columns named by the paths; integers if all values of a column are."""
    given = [dict(file.partition) for file in files]
    whole = {name for values in given for name in values}
    for values in given:
        whole -= {n for n, text in values.items() if not (text is None or _is_small(text))}
    return [
        {n: text if text is None or n not in whole else int(text) for n, text in values.items()}
        for values in given
    ]


def _is_small(text: str) -> bool:
    """Return whether a text is an integer of 32 bits."""
    return bool(_INTEGER.fullmatch(text)) and -(2**31) <= int(text) < 2**31
