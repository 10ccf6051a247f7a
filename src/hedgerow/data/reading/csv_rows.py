"""Read CSV files in batches, with the standard library only.

This module is used if pyarrow is not installed.  :mod:`hedgerow.data.sources.text_files`
reads the same texts several times faster.
"""

from __future__ import annotations

import csv
import gzip
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

import numpy as np

from hedgerow.arrays import AnyArray
from hedgerow.data.sources.text_files import MISSING_TEXT, delimiter_of
from hedgerow.errors import DataError

_ROWS_AT_ONCE = 8192
_MISSING = frozenset(MISSING_TEXT)


def open_text(path: str) -> TextIO:
    """Open a text file, gzipped or not."""
    opener: Any = gzip.open if path.lower().endswith(".gz") else open
    return opener(path, "rt", encoding="utf-8-sig", newline="")


def header(path: str) -> tuple[str, ...]:
    """Return the names in the first line."""
    with open_text(path) as file:
        return tuple(next(csv.reader(file, delimiter=delimiter_of(path)), ()))


def csv_batches(
    path: str, batch_rows: int, columns: Sequence[str] | None = None
) -> Iterator[dict[str, AnyArray]]:
    """Yield columns of text by name, with None for missing values."""
    with open_text(path) as file:
        rows = csv.reader(file, delimiter=delimiter_of(path))
        names = next(rows, [])
        chosen = [(name, names.index(name)) for name in (names if columns is None else columns)]
        for chunk in row_chunks(path, rows, len(names), min(batch_rows, _ROWS_AT_ONCE)):
            parts = list(zip(*chunk, strict=True))
            yield {name: _texts(parts[position]) for name, position in chosen}


def row_chunks(
    path: str, rows: Iterator[list[str]], width: int, most: int = _ROWS_AT_ONCE
) -> Iterator[list[list[str]]]:
    """Yield blocks of rows; raise for a row that does not have ``width`` texts."""
    line = 1
    while chunk := list(itertools.islice(rows, most)):
        for row in chunk:
            line += 1
            if len(row) != width and row:
                raise DataError(
                    f"{path}: row {line} has {len(row)} values, but the first line names {width} "
                    "columns."
                )
        # An empty line is a row only if there is one column: then it is a missing value.
        filled = [row or [""] for row in chunk] if width == 1 else [row for row in chunk if row]
        if filled:
            yield filled


def _texts(items: Sequence[str]) -> AnyArray:
    return np.array([None if item in _MISSING else item for item in items], dtype=object)
