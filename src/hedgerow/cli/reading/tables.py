"""Tables of the command line: named columns of NumPy arrays.

Columns of all files are of these kinds::

    float64           numbers, NaN where missing (whole numbers up to 2**53 too)
    int64             whole numbers, some beyond 2**53, none missing
    datetime64[us]    dates, NaT where missing
    timedelta64[us]   durations, NaT where missing
    object            text, times of a day or dates with a zone, None where missing
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hedgerow.arrays import MISSING_KEY, AnyArray
from hedgerow.cli.usage import UsageError
from hedgerow.data.categories.columns import Ticks, untyped
from hedgerow.data.reading.columns import LARGEST_EXACT
from hedgerow.data.reading.files import open_files
from hedgerow.data.reading.rows import read_column
from hedgerow.data.reading.temporal import array_of_ticks
from hedgerow.data.reading.texts import parse
from hedgerow.data.sources.arrow_files import decoded
from hedgerow.data.sources.base import check_names
from hedgerow.data.sources.columns import read_columns
from hedgerow.data.sources.paths import PathLike
from hedgerow.errors import (
    DataError,
    DataTypeError,
    HedgerowError,
    ParameterError,
    StorageError,
    did_you_mean,
)
from hedgerow.io.streaming import BATCH_ROWS

CSV_SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
ARROW_SUFFIXES = (".parquet", ".pq", ".feather", ".arrow", ".ipc", ".arrows")


class Unreadable(NamedTuple):
    """A column of a type that cannot be read: an error only if the column is needed."""

    reason: str


@dataclass(frozen=True)
class NamedColumns:
    """A table: columns by name, in the order of the file.

    ``unreadable`` has the error message of each column whose type cannot be read.
    """

    path: str
    columns: Mapping[str, AnyArray]
    unreadable: Mapping[str, str] = field(default_factory=dict)

    @property
    def n_rows(self) -> int:
        return len(next(iter(self.columns.values())))

    def column(self, name: str) -> AnyArray:
        """Return the column ``name``, dates as numbers of microseconds: no feature, but a role."""
        return as_numbers(self.feature(name))

    def feature(self, name: str) -> AnyArray:
        """Return the column ``name``; an unknown name is an error with a suggestion."""
        if name in self.unreadable:
            raise UsageError(self.unreadable[name])
        if name not in self.columns:
            hint = did_you_mean(name, self.columns)
            raise UsageError(
                f"{self.path}: no column {name!r}.{hint} Columns: {_listed(self.columns)}"
            )
        return self.columns[name]

    def without(self, names: list[str]) -> NamedColumns:
        """Return the table without some of its columns; the others must be readable."""
        for name in names:
            if name not in self.unreadable:
                self.feature(name)
        for name, reason in self.unreadable.items():
            if name not in names:
                raise UsageError(reason)
        kept = {name: column for name, column in self.columns.items() if name not in names}
        return NamedColumns(self.path, kept)


def _listed(names: Mapping[str, Any], most: int = 12) -> str:
    shown = ", ".join(list(names)[:most])
    return shown if len(names) <= most else f"{shown}, ... ({len(names)} in all)"


def read_table(path: PathLike, text: Collection[str] = ()) -> NamedColumns:
    """Read CSV, TSV (both also gzipped), Parquet or Arrow.

    Raise ``UsageError`` if the file does not exist, or its content does not match the
    suffix.
    """
    file = Path(path)
    if file.is_dir():
        raise UsageError(f"{path} is a folder: give one file")
    if not file.exists():
        near = did_you_mean(file.name, _names_in(file.parent))
        raise UsageError(f"{path}: file not found.{near}")
    try:
        found = _read(path, text)
    except (DataError, ParameterError, StorageError) as error:
        raise UsageError(str(error)) from error
    unreadable = {n: each.reason for n, each in found.items() if isinstance(each, Unreadable)}
    columns = {n: each for n, each in found.items() if not isinstance(each, Unreadable)}
    if not columns:
        raise UsageError(next(iter(unreadable.values()), f"{path} has no columns"))
    if len(next(iter(columns.values()))) == 0:
        raise UsageError(f"{path} has a header but no rows")
    return NamedColumns(str(path), columns, unreadable)


def _names_in(folder: Path) -> list[str]:
    try:
        return [item.name for item in folder.iterdir()]
    except OSError:
        return []


def _read(path: PathLike, text: Collection[str]) -> Mapping[str, AnyArray | Unreadable]:
    """Return the columns of a file, in its order."""
    if not os.fspath(path).lower().endswith((*CSV_SUFFIXES, *ARROW_SUFFIXES)):
        known = ", ".join((*CSV_SUFFIXES, *ARROW_SUFFIXES))
        raise UsageError(f"{path}: unknown file type; known suffixes: {known}")
    (file,) = open_files(path)
    names = file.names or ()
    check_names(file.path, names)
    parts = list(file.batches(BATCH_ROWS, names))
    if not parts:
        return {name: np.empty(0) for name in names}
    import pyarrow as pa

    found: dict[str, AnyArray | Unreadable] = {}
    for name in names:
        column = pa.chunked_array([chunk for part in parts for chunk in part[name].chunks])
        if file.holds_texts and name not in text:
            column = parse(column, file.decimal)[1]
        found[name] = _of_arrow(file.path, name, column)
    return found


def _of_arrow(path: str, name: str, column: Any) -> AnyArray | Unreadable:
    """Convert a column as training reads it."""
    import pyarrow as pa

    try:
        found = read_columns(decoded(pa.table({name: column}))).by_name[name]
    except DataTypeError:
        return Unreadable(
            f"{path}: column {name!r} has type {column.type}, which cannot be read; drop or "
            "convert it"
        )
    except HedgerowError as error:
        return Unreadable(f"{path}: {error}")
    values = found.typed()
    if isinstance(values, Ticks):
        return array_of_ticks(values.values, values.temporal)
    plain = found.as_array()
    if plain.dtype == np.int64:
        missing = plain == MISSING_KEY
        return infer_integers(np.where(missing, 0, plain), missing)
    return plain if plain.dtype == object else plain.astype(np.float64)


def check_output(path: str) -> None:
    """Raise, before a long computation, if its result cannot be written."""
    file = Path(path)
    if file.is_dir():
        raise UsageError(f"{path} is a folder: give the name of a file to write")
    if not file.parent.is_dir():
        raise UsageError(f"{path}: the folder {file.parent} does not exist; create it first")
    if not os.access(file.parent, os.W_OK):
        raise UsageError(f"{path}: no permission to write in {file.parent}")


def infer_integers(values: AnyArray, missing: AnyArray | None = None) -> AnyArray:
    """Return an int64 column as float64 if exact or if values are missing, else unchanged."""
    if missing is not None and missing.any():
        floats = values.astype(np.float64)
        floats[missing] = np.nan
        return floats
    if len(values) and max(abs(int(values.min())), abs(int(values.max()))) > LARGEST_EXACT:
        return values
    return values.astype(np.float64)


def holds_text(column: AnyArray) -> bool:
    """Return whether a column holds text, or may hold it because all values are missing."""
    if column.dtype != object:
        return False
    first = next((item for item in column if item is not None), "")
    return not isinstance(first, dt.time | dt.datetime)


def as_numbers(column: AnyArray) -> AnyArray:
    """Return dates, times and durations as numbers of microseconds, and other columns as they are.

    Examples
    --------
    >>> as_numbers(np.array(["1970-01-02", "NaT"], "M8[us]")).tolist()
    [86400000000.0, nan]
    """
    if column.dtype.kind not in "OMm" or holds_text(column):
        return column
    values = untyped(read_column(column, ""))
    assert isinstance(values, np.ndarray)
    missing = values == MISSING_KEY
    return infer_integers(np.where(missing, 0, values), missing)
