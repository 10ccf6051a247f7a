"""CSV and TSV files, optionally gzipped, read in batches of rows.

Text has no types: the type of a column is known only after the last row of the last file.
So text files are read once more than other files, to find for each column the first of
these types that matches all values::

    integers -> booleans -> numbers -> dates -> times with a zone (ISO 8601) -> text

The command line infers the same types when it reads a file at once.  A column that is
numeric for a million rows and then holds ``n/a`` is text from its first row on, wherever
batches begin.
"""

from __future__ import annotations

import csv
import gzip
import zlib
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import StringIO
from typing import Any

from hedgerow.data.reading.texts import (
    PLAIN,
    ZONED,
    cast_or_none,
    has_hexadecimals,
    microseconds,
)
from hedgerow.data.sources.arrow_files import arrow, open_native, storage_errors
from hedgerow.data.sources.base import Batch, check_names
from hedgerow.data.sources.columns import read_columns
from hedgerow.data.sources.paths import DataFile, check_unchanged, fingerprint
from hedgerow.errors import HedgerowError, StorageError

MISSING_TEXT = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?")
"""Texts that mean a missing value."""

_DATES = {"date": PLAIN, "zoned": ZONED}
"""Regular expressions of dates, and of times with a zone."""
_TRUE, _FALSE = ("true", "True", "TRUE"), ("false", "False", "FALSE")
_KINDS = ("int", "bool", "float", *_DATES)
_MOST_NAMES = 1 << 16
"""Bytes of the first line in which the separator is looked for."""

_SMALLEST_BLOCK, _LARGEST_BLOCK = 1 << 20, 1 << 24
_TEXT_BYTES = 1 << 24


@dataclass(slots=True)
class TextTypes:
    """The types that match all values of each column.

    Attributes
    ----------
    possible : dict
        For each column, the kinds that match all values so far.
    filled : set of str
        Columns with a value.
    """

    possible: dict[str, set[str]] = field(default_factory=dict)
    filled: set[str] = field(default_factory=set)

    def add(self, name: str, column: Any) -> None:
        """Add an Arrow column of text, null where missing."""
        import pyarrow as pa
        import pyarrow.compute as pc

        possible = self.possible.setdefault(name, set(_KINDS))
        present = pc.drop_null(column)
        if len(present) == 0:
            return
        self.filled.add(name)
        trimmed = pc.utf8_trim(present, " \t")
        for kind, target in (("int", pa.int64()), ("float", pa.float64())):
            if kind in possible and cast_or_none(trimmed, target) is None:
                possible.discard(kind)
        if "int" in possible and has_hexadecimals(trimmed):
            possible.discard("int")
        if "bool" in possible:
            known = pc.is_in(present, value_set=pa.array([*_TRUE, *_FALSE]))
            if not pc.all(known).as_py():
                possible.discard("bool")
        for kind in _DATES:
            if kind in possible and not _are_dates(present, kind):
                possible.discard(kind)

    def merge(self, later: TextTypes) -> None:
        """Add the types of other rows."""
        for name, kinds in later.possible.items():
            self.possible[name] = self.possible.get(name, set(_KINDS)) & kinds
        self.filled |= later.filled

    def kind(self, name: str) -> str:
        """Return the kind of a column: one of the list above, ``"text"``, or ``"nothing"``."""
        if name not in self.filled:
            return "nothing"
        return next((kind for kind in _KINDS if kind in self.possible[name]), "text")

    def to_json(self) -> dict[str, Any]:
        """Convert to JSON-like values."""
        return {
            "possible": {name: sorted(kinds) for name, kinds in self.possible.items()},
            "filled": sorted(self.filled),
        }

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> TextTypes:
        """Create the types from the result of :meth:`to_json`."""
        possible = {str(n): set(kinds) for n, kinds in record["possible"].items()}
        return cls(possible, set(record["filled"]))


def _are_dates(column: Any, kind: str) -> bool:
    import pyarrow.compute as pc

    if not pc.all(pc.match_substring_regex(column, f"^{_DATES[kind]}$")).as_py():
        return False
    try:
        microseconds(column.to_pylist())
    except ValueError:  # the 30th of February
        return False
    return True


class TextPart:
    """A CSV or TSV file; see :class:`hedgerow.data.sources.base.Part`.

    Parameters
    ----------
    file : DataFile

    Attributes
    ----------
    text : set of str
        Columns to keep as text.
    """

    types_known = True

    def __init__(self, file: DataFile) -> None:
        self.name, self.text = file.path, set[str]()
        self._before = fingerprint(file.path)
        self.types: TextTypes | None = None
        self._names = self._look()

    def _look(self) -> tuple[str, ...]:
        arrow(self.name)
        check_encoding(self.name)
        check_separator(self.name)
        with (
            storage_errors(self.name, "CSV"),
            _reader(self.name, 1 << 16, {}, None, grows=True) as reader,
        ):
            names = tuple(reader.schema.names)
        check_names(self.name, names)
        return names

    def column_names(self) -> tuple[str, ...]:
        """Return the names in the first line."""
        return self._names

    def find_types(self, max_bytes: int) -> TextTypes:
        """Read the file as text, to find the types of its columns."""
        import pyarrow as pa

        types = TextTypes()
        for piece in self._pieces(dict.fromkeys(self._names, pa.string()), None, max_bytes):
            for name in self._names:
                if name not in self.text:
                    types.add(name, piece.column(name))
        return types

    def batches(self, columns: Sequence[str] | None, max_bytes: int) -> Iterator[Batch]:
        """Yield all rows of the file; ``types`` must be set."""
        wanted = [n for n in self._names if columns is None or n in columns] or self._names[:1]
        kinds = {name: self._kind_of(name) for name in wanted}
        for piece in self._pieces(_arrow_types(kinds), wanted, max_bytes):
            table = _with_dates(piece, kinds)
            try:
                yield Batch(piece.num_rows, read_columns(table).by_name)
            except HedgerowError as error:
                raise type(error)(f"{self.name}: {error}") from error

    def texts(self, columns: Sequence[str], rows: int) -> Iterator[Any]:
        """Yield Arrow tables of text, null where missing, with at most ``rows`` rows each."""
        import pyarrow as pa

        types = dict.fromkeys(self._names, pa.string())
        for piece in self._pieces(types, columns, _TEXT_BYTES):
            for start in range(0, piece.num_rows, rows):
                yield pa.Table.from_batches([piece.slice(start, rows)])

    def _kind_of(self, name: str) -> str:
        assert self.types is not None
        return "text" if name in self.text else self.types.kind(name)

    def _pieces(
        self, types: Mapping[str, Any], columns: Sequence[str] | None, max_bytes: int
    ) -> Iterator[Any]:
        check_unchanged(self.name, self._before)
        block = max(_SMALLEST_BLOCK, min(_LARGEST_BLOCK, max_bytes // 4))
        with storage_errors(self.name, "CSV"):
            reader = _reader(self.name, block, types, columns)
        with reader:
            while True:
                with storage_errors(self.name, "CSV"):
                    piece = _next(reader)
                if piece is None:
                    break
                if piece.num_rows:
                    yield piece
        check_unchanged(self.name, self._before)


def _next(reader: Any) -> Any:
    try:
        return reader.read_next_batch()
    except StopIteration:
        return None


def _beginning(path: str, n_bytes: int) -> bytes:
    """Return the first bytes of a text file; none if it cannot be read, as the reader will say."""
    opener: Any = gzip.open if path.lower().endswith(".gz") else open
    try:
        with opener(path, "rb") as file:
            found: bytes = file.read(n_bytes)
    except (OSError, EOFError, zlib.error):
        return b""
    return found


def check_separator(path: str) -> None:
    """Raise ``StorageError`` if only another separator divides the first two lines alike."""
    ours = delimiter_of(path)
    text = _beginning(path, _MOST_NAMES).decode("utf-8", "replace")
    widths = {each: _widths(text, each) for each in ",;\t"}
    others = [each for each, (names, values) in widths.items() if names == values > 1]
    if others and widths[ours] == (1, 1):
        shown = {"\t": "tabs"}.get(others[0], repr(others[0]))
        raise StorageError(
            f"{path}: the names in the first line are separated by {shown}. Files named .csv are "
            "read with commas, and .tsv with tabs: convert the file, or use the command hedgerow, "
            "which finds separators."
        )


def _widths(text: str, separator: str) -> tuple[int, int]:
    """Return the numbers of fields of the names and of the first row; 0 without such a line."""
    lines = csv.reader(StringIO(text, newline=""), delimiter=separator)
    try:
        names, values = next(lines, []), next(lines, [])
    except csv.Error:  # csv.field_size_limit is for the whole process, and may be small
        return 0, 0
    return len(names), len(values)


def check_encoding(path: str) -> None:
    """Raise if a text file looks like UTF-16 or UTF-32.

    Raise ``StorageError`` if its first bytes are a UTF-16 byte order mark or contain zeros.
    """
    first = _beginning(path, 64)
    if first.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) or b"\0" in first:
        raise StorageError(
            f"{path} is not text in UTF-8, but looks like UTF-16 or UTF-32: save it as UTF-8."
        )


def delimiter_of(path: str) -> str:
    """Return a tab for .tsv and .tsv.gz, else a comma."""
    return "\t" if ".tsv" in path.lower()[-7:] else ","


def _csv_options(
    path: str, types: Mapping[str, Any], columns: Sequence[str] | None = None
) -> dict[str, Any]:
    """Return how pyarrow parses and converts a text file; columns not in ``types`` are inferred."""
    import pyarrow.csv as arrow_csv

    return {
        "parse_options": arrow_csv.ParseOptions(
            delimiter=delimiter_of(path), newlines_in_values=True
        ),
        "convert_options": arrow_csv.ConvertOptions(
            null_values=list(MISSING_TEXT),
            strings_can_be_null=True,
            quoted_strings_can_be_null=True,
            true_values=list(_TRUE),
            false_values=list(_FALSE),
            column_types=dict(types),
            include_columns=None if columns is None else list(columns),
        ),
    }


def _open_text(path: str) -> Any:
    """Open a CSV file for pyarrow, which reads it decompressed."""
    import pyarrow as pa

    packed = path.lower().endswith(".gz")
    return pa.input_stream(open_native(path), compression="gzip" if packed else None)


def _reader(
    path: str,
    block_size: int,
    types: Mapping[str, Any],
    columns: Sequence[str] | None,
    grows: bool = False,
) -> Any:
    """Return a streaming reader; with ``grows``, retry with larger blocks for long lines."""
    import pyarrow as pa
    import pyarrow.csv as arrow_csv

    while True:
        try:
            return arrow_csv.open_csv(
                _open_text(path),
                read_options=arrow_csv.ReadOptions(block_size=block_size, use_threads=False),
                **_csv_options(path, types, columns),
            )
        except pa.ArrowInvalid:
            if not grows or block_size >= _LARGEST_BLOCK:
                raise
            block_size *= 16


def _arrow_types(kinds: Mapping[str, str]) -> dict[str, Any]:
    import pyarrow as pa

    types = {"int": pa.int64(), "bool": pa.bool_(), "float": pa.float64(), "nothing": pa.string()}
    return {name: types.get(kind, pa.string()) for name, kind in kinds.items()}


def _with_dates(piece: Any, kinds: Mapping[str, str]) -> Any:
    """Convert the record batch to a table, with text of dates as times."""
    import pyarrow as pa

    columns = {}
    for name, kind in kinds.items():
        column = piece.column(name)
        if kind in _DATES:
            zone = "UTC" if kind == "zoned" else None
            column = pa.array(microseconds(column.to_pylist()), pa.timestamp("us", zone))
        elif kind == "nothing":
            column = pa.nulls(piece.num_rows, pa.float64())
        columns[name] = column
    return pa.table(columns)
