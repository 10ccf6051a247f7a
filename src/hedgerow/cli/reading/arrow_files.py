"""Files read by pyarrow: Parquet, Feather, and CSV (faster than the fallback)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from hedgerow.arrays import AnyArray
from hedgerow.cli.reading.tables import Unreadable, infer_integers, infer_numbers
from hedgerow.cli.usage import UsageError, one_line
from hedgerow.data.categories.columns import Ticks
from hedgerow.data.reading.temporal import array_of_ticks
from hedgerow.data.reading.texts import has_hexadecimals
from hedgerow.data.sources.arrow_files import open_native
from hedgerow.data.sources.base import check_names
from hedgerow.data.sources.columns import read_columns
from hedgerow.data.sources.text_files import check_encoding, csv_options, open_text
from hedgerow.errors import HedgerowError

_BLOCK = 1 << 20


def _pyarrow(path: str) -> Any:
    try:
        import pyarrow as pa
    except ImportError as error:
        raise UsageError(
            f"{path}: this kind of file needs pyarrow: pip install 'hedgerow[files]'"
        ) from error
    return pa


def read_arrow(path: str) -> dict[str, AnyArray | Unreadable]:
    """Read a Parquet file, or an Arrow file or stream."""
    pa = _pyarrow(path)
    try:
        if path.lower().endswith((".parquet", ".pq")):
            import pyarrow.parquet

            # A ParquetFile is this one file; read_table would add columns from
            # folder names such as year=2020.
            with open_native(path) as source, pyarrow.parquet.ParquetFile(source) as file:
                table = file.read()
        else:
            table = _read_ipc(path)
    except (pa.ArrowException, OSError) as error:
        kind = "Parquet" if path.lower().endswith((".parquet", ".pq")) else "Feather"
        raise UsageError(f"{path} is not a {kind} file: {one_line(error)}") from error
    check_names(path, table.column_names)
    found: dict[str, AnyArray | Unreadable] = {}
    for name in table.column_names:
        try:
            found[name] = _column(path, name, table.column(name).combine_chunks())
        except UsageError as error:
            found[name] = Unreadable(str(error))
    return found


def _read_ipc(path: str) -> Any:
    """Read a file of Arrow's format or the older one of Feather, or a stream."""
    import pyarrow as pa
    import pyarrow.feather

    with open_native(path) as source:
        is_stream = not source.read(6).startswith((b"ARROW1", b"FEA1"))
        source.seek(0)
        if is_stream and path.lower().endswith((".arrow", ".arrows")):
            with pa.ipc.open_stream(source) as stream:
                return stream.read_all()
        return pyarrow.feather.read_table(source)


def read_csv_with_arrow(path: str, text: Collection[str] = ()) -> dict[str, AnyArray]:
    """Read a CSV or TSV file, gzipped or not, with column names in the first line.

    ``text`` holds the columns whose values stay text.
    """
    pa = _pyarrow(path)
    import pyarrow.csv as arrow_csv

    def read(types: dict[str, Any]) -> Any:
        return arrow_csv.read_csv(open_text(path), **csv_options(path, types))

    check_encoding(path)
    try:
        as_text = dict.fromkeys(text, pa.string())
        table = read(as_text)
        whole = [field.name for field in table.schema if pa.types.is_integer(field.type)]
        if whole and _may_have_hexadecimals(path):
            texts = read(as_text | dict.fromkeys(whole, pa.string()))
            odd = [name for name in whole if has_hexadecimals(texts.column(name))]
            as_text |= dict.fromkeys(odd, pa.string())
            table = read(as_text)
        # Dates are read as in the reader without pyarrow.
        dates = {f.name: pa.string() for f in table.schema if pa.types.is_temporal(f.type)}
        table = read(as_text | dates) if dates else table
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:  # in names
        raise UsageError(f"{path} cannot be read as CSV: {one_line(error)}") from error
    return {
        name: infer_numbers(column) if column.dtype == object and name not in text else column
        for name, column in _columns(path, table).items()
    }


def _columns(path: str, table: Any) -> dict[str, AnyArray]:
    check_names(path, table.column_names)
    return {
        name: _column(path, name, table.column(name).combine_chunks())
        for name in table.column_names
    }


def _may_have_hexadecimals(path: str) -> bool:
    """Whether ``0x`` occurs in a text file: Arrow alone takes 0x1F for a number."""
    with open_text(path) as source:
        last = b""
        while block := source.read(_BLOCK):
            if b"0x" in (found := (last + block).lower()):
                return True
            last = found[-1:]
    return False


def _column(path: str, name: str, column: Any) -> AnyArray:
    import pyarrow as pa
    import pyarrow.compute

    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.dictionary_decode()
        kind = column.type
    missing = column.is_null().to_numpy(zero_copy_only=False)
    if pa.types.is_integer(kind):
        values = column.fill_null(0)
        if pa.types.is_uint64(kind) and len(values) and pa.compute.max(values).as_py() > 2**63 - 1:
            raise UsageError(f"{path}: column {name!r} holds whole numbers beyond 2**63")
        return infer_integers(values.to_numpy(zero_copy_only=False).astype(np.int64), missing)
    if pa.types.is_null(kind):
        return np.full(len(column), np.nan)
    if pa.types.is_decimal(kind):  # round once, as training does; Arrow rounds twice
        items = column.to_pylist()
        return np.array([np.nan if item is None else float(item) for item in items])
    if pa.types.is_boolean(kind) or pa.types.is_floating(kind):
        floats = column.cast(pa.float64()) if not pa.types.is_boolean(kind) else column
        values = floats.to_numpy(zero_copy_only=False).astype(np.float64)
        values[missing] = np.nan
        return values
    texts = pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view
    if any(is_text(kind) for is_text in texts):
        return np.array(column.to_pylist(), dtype=object)
    if pa.types.is_temporal(kind):
        return _moments(path, name, column)
    raise UsageError(
        f"{path}: column {name!r} has type {kind}, which cannot be read; drop or convert it"
    )


def _moments(path: str, name: str, column: Any) -> AnyArray:
    """Convert dates, times or durations to arrays of NumPy, as training reads them."""
    import pyarrow as pa

    try:
        found = read_columns(pa.table({name: column})).by_name[name]
    except HedgerowError as error:
        raise UsageError(f"{path}: {error}") from error
    values = found.typed()
    if not isinstance(values, Ticks):  # no value is known
        return np.full(len(found), np.nan)
    return array_of_ticks(values.values, values.temporal)
