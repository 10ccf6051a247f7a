"""Dialects of text files: encoding, separator and decimal mark.

::

    first bytes          UTF-8, or UTF-16 and UTF-32 with a byte order mark
    first lines          the separator with the same number of values, above one, in all lines
    columns of numbers   decimal commas, as in 1,5, if the comma is not the separator

If a property cannot be detected, an error names the option that sets it.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from hedgerow.cli.usage import UsageError
from hedgerow.data.sources.text_files import MISSING_TEXT, delimiter_of

_SAMPLE_BYTES = 1 << 20
_SAMPLE_LINES = 50
_SEPARATORS = (",", ";", "\t", "|")
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # begins with the mark of UTF-16
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_WITH_COMMA = re.compile(r"[ \t]*[+-]?(\d+(,\d*)?|,\d+)([eE][+-]?\d+)?[ \t]*")
_WITH_THOUSANDS = re.compile(r"[ \t]*[+-]?\d{1,3}(\.\d{3})+(,\d*)?[ \t]*")
_NAMED = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "space": " ", "pipe": "|"}


@dataclass(frozen=True, slots=True)
class Dialect:
    """The dialect of a file.

    Attributes
    ----------
    separator : str
        One character.
    decimal : {".", ","}
    """

    encoding: str = "utf-8"
    separator: str = ","
    decimal: str = "."

    def is_plain(self, path: str) -> bool:
        """Return whether every reader can read the file without conversion."""
        known = self.encoding in ("utf-8", "utf-8-sig")
        return known and self.separator == delimiter_of(path) and self.decimal == "."

    def __str__(self) -> str:
        names = {"\t": "tabs", ",": "commas", ";": "semicolons", "|": "bars", " ": "blanks"}
        found = f"{self.encoding}, separated by {names.get(self.separator, repr(self.separator))}"
        return f"{found}, decimal commas" if self.decimal == "," else found


@dataclass(frozen=True, slots=True)
class DialectOptions:
    """The user's options for text files; None means that the option is detected."""

    encoding: str | None = None
    separator: str | None = None
    decimal: str | None = None


def dialect_options(
    encoding: str | None, separator: str | None, decimal: str | None
) -> DialectOptions:
    """Check the options.

    Raises
    ------
    UsageError
    """
    if encoding is not None:
        try:
            codecs.lookup(encoding)
        except LookupError:
            raise UsageError(
                f"--encoding {encoding}: no such encoding; examples: utf-8, cp1252, latin-1, utf-16"
            ) from None
    if separator is not None:
        separator = _NAMED.get(separator, separator)
        if len(separator) != 1 or separator in '"\r\n':
            raise UsageError(
                f"--separator {separator}: use one character, or tab, comma, semicolon, pipe, space"
            )
    if decimal not in (None, ".", ","):
        raise UsageError(f"--decimal {decimal}: the decimal mark must be . or ,")
    return DialectOptions(encoding, separator, decimal)


def dialect_of(path: str, options: DialectOptions, shown: str | None = None) -> Dialect:
    """Detect the dialect of a CSV or TSV file from its first megabyte.

    Raise ``UsageError`` if the encoding cannot be detected.

    Parameters
    ----------
    shown : str, optional
        Name in messages.
    """
    first = _first_bytes(path)
    encoding = options.encoding or _encoding_of(first, shown or path)
    text = codecs.getincrementaldecoder(encoding)("replace").decode(first)
    lines = text.splitlines(keepends=True)
    if len(first) >= _SAMPLE_BYTES and len(lines) > 1:
        lines = lines[:-1]
    separator = options.separator or _separator_of(lines[:_SAMPLE_LINES], delimiter_of(path))
    decimal = options.decimal
    if decimal is None:
        decimal = "," if separator != "," and _has_commas(lines, separator) else "."
    return Dialect(encoding, separator, decimal)


def _first_bytes(path: str) -> bytes:
    opener: Any = gzip.open if path.lower().endswith(".gz") else open
    try:
        with opener(path, "rb") as file:
            found: bytes = file.read(_SAMPLE_BYTES)
            return found
    except (OSError, EOFError, zlib.error):
        return b""  # the reader reports the error


def _encoding_of(first: bytes, shown: str) -> str:
    for mark, name in _MARKS:
        if first.startswith(mark):
            return name
    if b"\0" in first[:64]:
        raise UsageError(
            f"{shown} is not text in UTF-8, but looks like UTF-16 or UTF-32 without a byte order "
            "mark: give --encoding utf-16-le, or another encoding"
        )
    try:
        codecs.getincrementaldecoder("utf-8")().decode(first, final=len(first) < _SAMPLE_BYTES)
    except UnicodeDecodeError as error:
        line = first[: error.start].count(b"\n") + 1
        read = first[error.start : error.start + 1].decode("cp1252", "replace")
        raise UsageError(
            f"{shown} is not text in UTF-8 (byte 0x{first[error.start]:02X} in line {line}, in "
            f"Windows-1252 {read!r}): give --encoding cp1252, or the right encoding"
        ) from None
    return "utf-8"


def _separator_of(lines: Sequence[str], own: str) -> str:
    """Return the separator with equally many values per line; the usual one in case of ties."""
    widths = {one: _width(lines, one) for one in (own, *_SEPARATORS)}
    if widths[own] > 1:
        return own
    best = max(widths, key=lambda one: widths[one])
    return best if widths[best] > 1 else own


def _width(lines: Sequence[str], separator: str) -> int:
    """Return the number of values in every line; 0 if lines differ."""
    try:
        counts = {len(row) for row in csv.reader(lines, delimiter=separator) if row}
    except csv.Error:
        return 0
    return counts.pop() if len(counts) == 1 else 0


def _has_commas(lines: Sequence[str], separator: str) -> bool:
    """Return whether a column holds numbers with decimal commas."""
    rows = [row for row in csv.reader(lines, delimiter=separator) if row]
    return any(decimal_columns(rows[1:], len(rows[0]))) if rows else False


def decimal_columns(rows: Iterator[list[str]] | list[list[str]], width: int) -> list[bool]:
    """Return for each column whether all values are numbers, some with a decimal comma."""
    possible, some = [True] * width, [False] * width
    missing = frozenset(MISSING_TEXT)
    for row in rows:
        for place, text in enumerate(row[:width]):
            if not possible[place] or text in missing:
                continue
            if _WITH_COMMA.fullmatch(text) or _WITH_THOUSANDS.fullmatch(text):
                some[place] = some[place] or "," in text
            else:
                possible[place] = False
    return [a and b for a, b in zip(possible, some, strict=True)]


def write_plain(path: str, dialect: Dialect, copy: str) -> None:
    """Write a copy of a file in UTF-8, with the suffix's separator and decimal points.

    Raise ``UsageError`` if the file is not text in the encoding of the dialect.
    """
    try:
        chosen: list[bool] = []
        with _open(path, dialect) as file:
            rows = csv.reader(file, delimiter=dialect.separator)
            header = next(rows, [])
            if dialect.decimal == ",":
                chosen = decimal_columns(rows, len(header))
        opener: Any = gzip.open if copy.lower().endswith(".gz") else open
        with _open(path, dialect) as file, opener(copy, "wt", encoding="utf-8", newline="") as out:
            rows = csv.reader(file, delimiter=dialect.separator)
            writer = csv.writer(out, delimiter=delimiter_of(copy), lineterminator="\n")
            writer.writerow(next(rows, []))
            for row in rows:
                writer.writerow(_with_points(row, chosen) if chosen else row)
    except (UnicodeError, csv.Error) as error:
        raise UsageError(f"{path} cannot be read as {dialect}: {error}") from None


def _open(path: str, dialect: Dialect) -> TextIO:
    opener: Any = gzip.open if path.lower().endswith(".gz") else open
    found: TextIO = opener(path, "rt", encoding=dialect.encoding, newline="")
    return found


def _with_points(row: list[str], chosen: Sequence[bool]) -> list[str]:
    return [
        text.replace(".", "").replace(",", ".") if place < len(chosen) and chosen[place] else text
        for place, text in enumerate(row)
    ]
