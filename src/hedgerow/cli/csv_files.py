"""CSV with nothing but the standard library and NumPy.

Used where pyarrow is not installed; :mod:`hedgerow.cli.arrow_files` reads the
same files to the same columns, several times faster.
"""

from __future__ import annotations

import csv
import gzip
import itertools
from collections.abc import Collection, Iterator, Mapping
from typing import Any, TextIO

import numpy as np

from hedgerow.arrays import AnyArray
from hedgerow.cli.tables import MISSING_TEXT, dates_or_text, settle_integers
from hedgerow.cli.usage import UsageError

_ROWS_AT_ONCE = 8192
_MISSING = frozenset(MISSING_TEXT)
_TRUTH = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}


def read_csv(path: str, text: Collection[str] = ()) -> dict[str, AnyArray]:
    """Read a CSV or TSV file, gzipped or not, whose first line names the columns.

    ``text`` : columns whose values stay text.
    """
    delimiter = "\t" if ".tsv" in path.lower()[-7:] else ","
    opener: Any = gzip.open if path.lower().endswith(".gz") else open
    try:
        with opener(path, "rt", encoding="utf-8-sig", newline="") as file:
            return _read(path, file, delimiter, text)
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text ({error.reason}): convert it first") from error
    except (csv.Error, EOFError, gzip.BadGzipFile) as error:
        raise UsageError(f"{path} cannot be read as CSV: {error}") from error


def _read(path: str, file: TextIO, delimiter: str, text: Collection[str]) -> dict[str, AnyArray]:
    rows = csv.reader(file, delimiter=delimiter)
    names = next(rows, [])
    check_names(path, names)
    parts: list[list[AnyArray]] = [[] for _ in names]
    for chunk in _chunks(path, rows, len(names)):
        for part, texts in zip(parts, zip(*chunk, strict=True), strict=True):
            part.append(np.array(texts, dtype=object))
    return {
        name: _convert(np.concatenate(part), name in text) if part else np.empty(0)
        for name, part in zip(names, parts, strict=True)
    }


def check_names(path: str, names: list[str]) -> None:
    """Refuse a header with an empty or a repeated name."""
    if not names:
        raise UsageError(f"{path} is empty: its first line must name the columns")
    for position, name in enumerate(names, 1):
        if not name.strip():
            raise UsageError(f"{path}: column {position} has no name in the first line")
        if names.index(name) != position - 1:
            raise UsageError(f"{path}: two columns are called {name!r}; rename one of them")


def _chunks(path: str, rows: Iterator[list[str]], width: int) -> Iterator[list[list[str]]]:
    line = 1
    while chunk := list(itertools.islice(rows, _ROWS_AT_ONCE)):
        for row in chunk:
            line += 1
            if len(row) != width and row:
                raise UsageError(
                    f"{path}: row {line} has {len(row)} values, but the first line names {width} "
                    "columns"
                )
        # An empty line is a row only where there is one column: a missing value.
        filled = [row or [""] for row in chunk] if width == 1 else [row for row in chunk if row]
        if filled:
            yield filled


def _convert(texts: AnyArray, is_text: bool) -> AnyArray:
    """The first of whole numbers, numbers, truth values, dates and text that holds a column."""
    missing = np.fromiter((text in _MISSING for text in texts), dtype=bool, count=len(texts))
    present = texts[~missing]
    if is_text or any("_" in text for text in present):  # int("1_0") is Python, not CSV
        return _as_text(texts, missing)
    try:
        values = np.zeros(len(texts), dtype=np.int64)
        values[~missing] = [int(text) for text in present]
        return settle_integers(values, missing)
    except (ValueError, OverflowError):
        pass
    floats = np.full(len(texts), np.nan)
    try:
        floats[~missing] = [float(text) for text in present]
        return floats
    except ValueError:
        pass
    if all(text in _TRUTH for text in present):
        floats[~missing] = [_TRUTH[text] for text in present]
        return floats
    return dates_or_text(_as_text(texts, missing))


def _as_text(texts: AnyArray, missing: AnyArray) -> AnyArray:
    column = texts.copy()
    column[missing] = None
    return column


def write_csv(path: str, columns: Mapping[str, AnyArray], delimiter: str) -> None:
    """Write columns with a header line; floats in the fewest digits that keep them exact."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
        writer.writerow(columns)
        for start in range(0, len(next(iter(columns.values()))), _ROWS_AT_ONCE):
            parts = [column[start : start + _ROWS_AT_ONCE].tolist() for column in columns.values()]
            writer.writerows(zip(*parts, strict=True))
