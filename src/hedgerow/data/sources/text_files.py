"""CSV and TSV files, optionally gzipped, read by pyarrow in blocks of text.

Text has no types: the type of a column is known only after the last row of the last file.  So
text files that are read in batches are read once more than other files, to find the kind of each
column (:mod:`hedgerow.data.reading.texts`).  A column that is numeric for a million rows and
then holds ``n/a`` is text from its first row on, wherever batches begin.

The encoding, the separator and the decimal mark are found out, unless the user says them::

    first bytes          UTF-8, or UTF-16 and UTF-32 with a byte order mark
    first lines          the separator that divides all of them alike
    columns of numbers   decimal commas, as in 1,5, if the comma is not the separator
"""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from codecs import BOM_UTF16_BE, BOM_UTF16_LE, BOM_UTF32_BE, BOM_UTF32_LE
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import StringIO
from typing import Any

from hedgerow.data.reading.texts import TextKind, convert, joined_kinds, parse
from hedgerow.data.sources.arrow_files import arrow, open_native
from hedgerow.data.sources.base import Batch, check_names
from hedgerow.data.sources.batches import read_columns
from hedgerow.data.sources.paths import DataFile, Dialect, changed, check_unchanged, fingerprint
from hedgerow.errors import DataError, HedgerowError, StorageError

_SMALLEST_BLOCK, _LARGEST_BLOCK = 1 << 20, 1 << 24

_WIDTH = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+)")
_ENCODING = re.compile(r"In CSV column #(\d+): Row #(\d+): CSV conversion error to string")


class TextPart:
    """A CSV or TSV file; see :class:`hedgerow.data.sources.base.Part`."""

    types_known = True

    def __init__(self, file: DataFile) -> None:
        arrow(file.path)
        self.name, self.text = file.path, set[str]()
        self._before = fingerprint(file.path)
        self.kinds: Mapping[str, TextKind] | None = None
        self._encoding, self._separator, self.decimal = dialect_of(file.path, file.dialect)
        block = 1 << 16
        while True:  # the line of names may be long
            try:
                with self._readable(), self._reader(block, (), None) as reader:
                    self._names = tuple(reader.schema.names)
                break
            except (DataError, StorageError):
                if block >= _LARGEST_BLOCK:
                    raise
                block *= 16
        check_names(self.name, self._names)

    def column_names(self) -> tuple[str, ...]:
        """Return the names in the first line."""
        return self._names

    def find_kinds(self, max_bytes: int) -> dict[str, TextKind]:
        """Read all columns to find their kinds."""
        names = [n for n in self._names if n not in self.text]
        return joined_kinds(
            {name: parse(piece.column(name), self.decimal)[0] for name in names}
            for piece in self._pieces(names or self._names[:1], max_bytes)
        )

    def batches(self, columns: Sequence[str] | None, max_bytes: int) -> Iterator[Batch]:
        """Yield all rows of the file; ``kinds`` must be set."""
        import pyarrow as pa

        assert self.kinds is not None
        wanted = [n for n in self._names if columns is None or n in columns] or self._names[:1]
        kinds = {n: "text" if n in self.text else self.kinds.get(n, "nothing") for n in wanted}
        for piece in self._pieces(wanted, max_bytes):
            typed = {n: convert(piece.column(n), kinds[n], self.decimal) for n in wanted}
            if any(column is None for column in typed.values()):
                raise changed(self.name, "its columns have other types")
            try:
                yield read_columns(pa.table(typed))
            except HedgerowError as error:
                raise type(error)(f"{self.name}: {error}") from error

    def tables(self, columns: Sequence[str], rows: int) -> Iterator[Any]:
        """Yield Arrow tables of text, null where missing, with at most ``rows`` rows each."""
        import pyarrow as pa

        for piece in self._pieces(columns, _LARGEST_BLOCK):
            for start in range(0, piece.num_rows, rows):
                yield pa.Table.from_batches([piece.slice(start, rows)])

    def _pieces(self, columns: Sequence[str], max_bytes: int) -> Iterator[Any]:
        """Yield record batches of text."""
        check_unchanged(self.name, self._before)
        block = max(_SMALLEST_BLOCK, min(_LARGEST_BLOCK, max_bytes // 4))
        with self._readable():
            reader = self._reader(block, self._names, columns)
        with reader:
            while True:
                with self._readable():
                    piece = next(reader, None)
                if piece is None:
                    break
                if piece.num_rows:
                    yield piece
        check_unchanged(self.name, self._before)

    def _reader(self, block: int, names: Sequence[str], columns: Sequence[str] | None) -> Any:
        """Return a streaming reader of columns of text."""
        import pyarrow as pa
        import pyarrow.csv as arrow_csv

        packed = "gzip" if self.name.lower().endswith(".gz") else None
        return arrow_csv.open_csv(
            pa.input_stream(open_native(self.name), compression=packed),
            # Without threads, errors tell the row.
            arrow_csv.ReadOptions(
                block_size=block,
                use_threads=False,
                encoding=self._encoding.replace("utf-8", "utf8"),
            ),
            arrow_csv.ParseOptions(delimiter=self._separator, newlines_in_values=True),
            arrow_csv.ConvertOptions(
                null_values=list(MISSING_TEXT),
                strings_can_be_null=True,
                quoted_strings_can_be_null=True,
                column_types=dict.fromkeys(names, pa.string()),
                include_columns=None if columns is None else list(columns),
            ),
        )

    @contextmanager
    def _readable(self) -> Iterator[None]:
        """Turn errors of pyarrow into errors that name the file, the row and what to do."""
        import pyarrow as pa

        try:
            yield
        except (pa.ArrowException, OSError, EOFError, UnicodeError) as error:
            raise self._error(" ".join(str(error).split())) from error

    def _error(self, text: str) -> HedgerowError:
        if found := _WIDTH.search(text):
            row, expected, got = map(int, found.groups())
            return DataError(
                f"{self.name}: row {row - 1} has {got} values, but the first line names {expected} "
                "columns. Mend this row; values that hold a separator need double quotes."
            )
        found = _ENCODING.search(text)
        if found or "codec can't decode" in text:
            where = f"column {int(found[1]) + 1}, row {int(found[2]) - 1}: " if found else ""
            encoding = "UTF-8" if self._encoding == "utf8" else self._encoding
            return DataError(
                f"{self.name}: {where}this is not text in {encoding}. Save the file as UTF-8, or "
                "name its encoding to the command hedgerow (--encoding cp1252)."
            )
        if "Empty CSV" in text:
            return DataError(f"{self.name} is empty: its first line must name the columns.")
        if "straddl" in text:
            return DataError(f"{self.name}: a row is too long. Is a double quote not closed?")
        return StorageError(f"{self.name} cannot be read as CSV: {text}.")


MISSING_TEXT = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?")
"""Texts that mean a missing value."""

_SAMPLE_BYTES = 1 << 20
_SAMPLE_LINES = 50
_SEPARATORS = (",", ";", "\t", "|")
_MARKS = (
    ((BOM_UTF32_LE, BOM_UTF32_BE), "utf-32"),  # one of which begins with a mark of UTF-16
    ((BOM_UTF16_LE, BOM_UTF16_BE), "utf-16"),
)
_WITH_COMMA = re.compile(r"[ \t]*[+-]?(\d+(,\d*)?|,\d+)([eE][+-]?\d+)?[ \t]*")
_OF_THOUSANDS = re.compile(r"[ \t]*[+-]?(\d{1,3}(,\d{3})+|\d+)[ \t]*")


def dialect_of(path: str, given: Dialect) -> tuple[str, str, str]:
    """Return encoding, separator and decimal mark of a file, as far as possible as given."""
    first = _beginning(path)
    encoding = given.encoding
    if encoding is None:
        encoding = next((name for marks, name in _MARKS if first.startswith(marks)), "utf8")
        if encoding == "utf8" and b"\0" in first[:64]:
            raise StorageError(
                f"{path} is not text in UTF-8, but looks like UTF-16 or UTF-32: save it as UTF-8, "
                "or name its encoding to the command hedgerow (--encoding utf-16-le)."
            )
    text = first.decode(encoding, "replace").removeprefix("\ufeff")
    lines = list(StringIO(text, newline=""))
    if len(first) == _SAMPLE_BYTES and len(lines) > 1:
        lines = lines[:-1]  # which may be cut
    own = "\t" if ".tsv" in path.lower()[-7:] else ","
    separator = given.separator or _separator_of(lines, own)
    decimal = "."
    for column in zip(*_rows(lines, separator)[1:], strict=False) if separator != "," else ():
        values = [text for text in column if text not in MISSING_TEXT]
        of_thousands = all(map(_OF_THOUSANDS.fullmatch, values))
        if not of_thousands and all(map(_WITH_COMMA.fullmatch, values)):
            decimal = ","
    return encoding, separator, given.decimal or decimal


def _beginning(path: str) -> bytes:
    """Return the first bytes of a text file; none if it cannot be read, as the reader will say."""
    opener: Any = gzip.open if path.lower().endswith(".gz") else open
    try:
        with opener(path, "rb") as file:
            found: bytes = file.read(_SAMPLE_BYTES)
    except (OSError, EOFError, zlib.error):
        return b""
    return found


def _rows(lines: Sequence[str], separator: str) -> list[list[str]]:
    """Return the values of lines that are not empty; none if they cannot be divided."""
    try:
        return [row for row in csv.reader(lines, delimiter=separator) if row]
    except csv.Error:
        return []


def _separator_of(lines: Sequence[str], own: str) -> str:
    """Return the separator that divides the first lines alike, in doubt the usual one."""
    best, most = own, 1
    for separator in (own, *_SEPARATORS):
        rows = _rows(lines[:_SAMPLE_LINES], separator)
        if len(lines) > _SAMPLE_LINES:
            rows = rows[:-1]  # which may continue
        widths = {len(row) for row in rows}
        if len(rows) > 1 and len(widths) == 1 and max(widths) > most:
            best, most = separator, max(widths)
            if separator == own:
                break
    return best
