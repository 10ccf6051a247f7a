"""Batches of rows that pyarrow reads: Parquet, Arrow files, streams, and CSV as texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from hedgerow.data.csv_rows import delimiter_of, header
from hedgerow.data.files import need_pyarrow
from hedgerow.data.texts import MISSING_TEXTS
from hedgerow.errors import DataError

_PAGE_BUFFER = 1 << 20
"""Bytes of each column of a Parquet file that are read ahead; else it is a whole row group."""

_CSV_BLOCK = 4 << 20
"""Bytes of CSV that are parsed at once; no row may be longer."""


def parquet_names(path: str) -> tuple[str, ...]:
    """Names of the columns."""
    need_pyarrow(path)
    import pyarrow.parquet

    # A ParquetFile is this one file; read_table would add columns from folder
    # names such as year=2020.
    with pyarrow.parquet.ParquetFile(path) as file:
        return tuple(file.schema_arrow.names)


def parquet_batches(path: str, batch_rows: int, columns: Sequence[str] | None) -> Iterator[Any]:
    """Tables of at most ``batch_rows`` rows."""
    pa = need_pyarrow(path)
    import pyarrow.parquet

    with pyarrow.parquet.ParquetFile(path, buffer_size=_PAGE_BUFFER, pre_buffer=False) as file:
        names = None if columns is None else list(columns)
        for batch in file.iter_batches(batch_size=batch_rows, columns=names):
            if batch.num_rows:
                table = pa.Table.from_batches([batch])
                yield table if names is None else table.select(names)


def ipc_names(path: str) -> tuple[str, ...]:
    """Names of the columns."""
    with _mapped(path) as file:
        return tuple(_ipc_reader(path, file).schema.names)


def ipc_batches(path: str, batch_rows: int, columns: Sequence[str] | None) -> Iterator[Any]:
    """Tables of at most ``batch_rows`` rows."""
    need_pyarrow(path)
    with _mapped(path) as file:
        reader = _ipc_reader(path, file)
        if hasattr(reader, "num_record_batches"):
            recorded = (reader.get_batch(n) for n in range(reader.num_record_batches))
        else:
            recorded = iter(reader)
        for table in sliced(recorded, batch_rows):
            yield table if columns is None else table.select(list(columns))


def _mapped(path: str) -> Any:
    need_pyarrow(path)
    import pyarrow as pa

    return pa.memory_map(path)


def _ipc_reader(path: str, file: Any) -> Any:
    """Reader of the Arrow file format (with an index of its batches) or of a stored stream."""
    import pyarrow.ipc

    magic = file.read(6)
    file.seek(0)
    if magic[:4] == b"FEA1":
        raise DataError(
            f"{path} is a Feather file of version 1, which is read as a whole only: write it "
            "anew, by pyarrow.feather.write_feather for example."
        )
    if magic == b"ARROW1":
        return pyarrow.ipc.open_file(file)
    return pyarrow.ipc.open_stream(file)


def csv_batches(path: str, batch_rows: int, columns: Sequence[str] | None) -> Iterator[Any]:
    """Tables of texts, null where missing."""
    pa = need_pyarrow(path)
    import pyarrow.csv as arrow_csv

    names = list(header(path) if columns is None else columns)
    reader = arrow_csv.open_csv(
        path,
        read_options=arrow_csv.ReadOptions(block_size=_CSV_BLOCK),
        parse_options=arrow_csv.ParseOptions(delimiter=delimiter_of(path), newlines_in_values=True),
        convert_options=arrow_csv.ConvertOptions(
            null_values=list(MISSING_TEXTS),
            strings_can_be_null=True,
            quoted_strings_can_be_null=True,
            include_columns=names,
            column_types=dict.fromkeys(names, pa.string()),
        ),
    )
    with reader:
        yield from sliced(reader, batch_rows)


def stream_batches(source: Any, batch_rows: int) -> Iterator[Any]:
    """Tables of at most ``batch_rows`` rows from what has ``__arrow_c_stream__``."""
    pa = need_pyarrow("an Arrow stream")
    with pa.RecordBatchReader.from_stream(source) as reader:
        yield from sliced(reader, batch_rows)


def sliced(recorded: Iterable[Any], batch_rows: int) -> Iterator[Any]:
    """Record batches as tables of at most ``batch_rows`` rows, empty ones left out."""
    import pyarrow as pa

    for batch in recorded:
        for start in range(0, batch.num_rows, batch_rows):
            yield pa.Table.from_batches([batch.slice(start, batch_rows)])
