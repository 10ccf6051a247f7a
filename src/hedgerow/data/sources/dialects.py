"""Dialects of text files: encoding, separator and decimal mark.

::

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
from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Any

from hedgerow.errors import StorageError

MISSING_TEXT = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?")
"""Texts that mean a missing value."""

_SAMPLE_BYTES = 1 << 20
_SAMPLE_LINES = 50
_SEPARATORS = (",", ";", "\t", "|")
_MARKS = (
    (BOM_UTF32_LE, "utf-32"),  # begins with the mark of UTF-16
    (BOM_UTF32_BE, "utf-32"),
    (BOM_UTF16_LE, "utf-16"),
    (BOM_UTF16_BE, "utf-16"),
)
_WITH_COMMA = re.compile(r"[ \t]*[+-]?(\d+(,\d*)?|,\d+)([eE][+-]?\d+)?[ \t]*")
_OF_THOUSANDS = re.compile(r"[ \t]*[+-]?(\d{1,3}(,\d{3})+|\d+)[ \t]*")


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a text file is written; None means that it is found out."""

    encoding: str | None = None
    separator: str | None = None
    decimal: str | None = None


FOUND_OUT = Dialect()


def dialect_of(path: str, given: Dialect) -> tuple[str, str, str]:
    """Return encoding, separator and decimal mark of a file, as far as possible as given."""
    first = _beginning(path)
    encoding = given.encoding
    if encoding is None:
        encoding = next((name for mark, name in _MARKS if first.startswith(mark)), "utf8")
        if encoding == "utf8":
            check_encoding(path, first)
    text = first.decode(encoding, "replace").removeprefix("\ufeff")
    lines = list(StringIO(text, newline=""))
    if len(first) == _SAMPLE_BYTES and len(lines) > 1:
        lines = lines[:-1]  # which may be cut
    own = "\t" if ".tsv" in path.lower()[-7:] else ","
    separator = given.separator or _separator_of(lines, own)
    has_commas = separator != "," and _has_commas(_rows(lines, separator))
    return encoding, separator, given.decimal or ("," if has_commas else ".")


def _beginning(path: str) -> bytes:
    """Return the first bytes of a text file; none if it cannot be read, as the reader will say."""
    opener: Any = gzip.open if path.lower().endswith(".gz") else open
    try:
        with opener(path, "rb") as file:
            found: bytes = file.read(_SAMPLE_BYTES)
    except (OSError, EOFError, zlib.error):
        return b""
    return found


def check_encoding(path: str, first: bytes | None = None) -> None:
    """Raise ``StorageError`` if the first bytes of a file are those of UTF-16 or UTF-32."""
    first = (_beginning(path) if first is None else first)[:64]
    if first.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) or b"\0" in first:
        raise StorageError(
            f"{path} is not text in UTF-8, but looks like UTF-16 or UTF-32: save it as UTF-8, or "
            "name its encoding to the command hedgerow (--encoding utf-16-le)."
        )


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


def _has_commas(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether a column holds decimal commas, and not only those of thousands."""
    for column in zip(*rows[1:], strict=False):
        values = [text for text in column if text not in MISSING_TEXT]
        if all(map(_WITH_COMMA.fullmatch, values)) and not all(
            map(_OF_THOUSANDS.fullmatch, values)
        ):
            return True
    return False
