"""Resolution of paths to data files, their formats, and detection of changed files.

::

    "a.parquet"            one file
    "folder"               all files in it and below, ordered by name
    "folder/part-*.csv"    matching files, ordered by name
    ["b.csv", "a.csv"]     first the rows of b.csv, then the rows of a.csv

Names of subfolders may give the value of a column: ``year=2020/month=7``.
Names that begin with ``.`` or ``_`` are ignored (``_SUCCESS``, ``.crc``).
"""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias
from urllib.parse import unquote

from hedgerow.errors import DataError, ParameterError, StorageError, brief, did_you_mean, path_repr

Format = Literal["parquet", "arrow", "csv"]
PathLike: TypeAlias = "str | os.PathLike[str]"
Paths: TypeAlias = "PathLike | Sequence[PathLike]"

SUFFIXES: dict[str, Format] = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".arrows": "arrow",
    ".csv": "csv",
    ".tsv": "csv",
    ".csv.gz": "csv",
    ".tsv.gz": "csv",
}
NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a text file is written; None means that it is found out."""

    encoding: str | None = None
    separator: str | None = None
    decimal: str | None = None


FOUND_OUT = Dialect()


@dataclass(frozen=True, slots=True)
class DataFile:
    """A data file."""

    path: str
    format: Format
    # columns named by folders of the path; None means missing
    partition: tuple[tuple[str, str | None], ...] = ()
    dialect: Dialect = FOUND_OUT  # what the user says about a text file

    def __fspath__(self) -> str:
        return self.path

    def __str__(self) -> str:
        return self.path


Fingerprint: TypeAlias = tuple[int, int]
"""Size and modification time of a file, to detect changes."""


def fingerprint(path: str) -> Fingerprint:
    """Return the size and modification time of a file."""
    try:
        found = os.stat(path)
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror or error}.") from error
    return found.st_size, found.st_mtime_ns


def check_unchanged(path: str, before: Fingerprint) -> None:
    """Raise ``StorageError`` if a file has changed."""
    now = fingerprint(path)
    if now != before:
        sizes = f"it had {before[0]:,} bytes, now it has {now[0]:,}"
        raise changed(path, sizes if now[0] != before[0] else "it was written to")


def changed(path: str, what: str) -> StorageError:
    """Return the error for a file that has changed since the first pass."""
    return StorageError(
        f"{path} has changed since this training began to read it ({what}): the data are read "
        "more than once and must stay as they are. Train again."
    )


def find_files(paths: Paths) -> list[DataFile]:
    """Find all files of the paths, in the order of the rows."""
    if not isinstance(paths, str | os.PathLike | Sequence):
        raise ParameterError(
            f"paths must be a path, a pattern or a list of these; got {type(paths).__name__}."
        )
    listed = [paths] if isinstance(paths, str | os.PathLike) else paths
    if not listed:
        raise DataError("no files are given: paths is empty.")
    files = [file for path in listed for file in _files_of(path)]
    seen: set[str] = set()
    for file in files:
        real = os.path.realpath(file.path)
        if real in seen:
            raise DataError(
                f"{file.path} is given twice: its rows would count twice. Name each file once."
            )
        seen.add(real)
        if file.format == "csv" and file.partition:
            raise DataError(
                f"{file.path}: columns named by folders are read of Parquet and Arrow files only."
            )
    return files


def _files_of(path: object) -> list[DataFile]:
    if isinstance(path, DataFile):
        return [path]
    if not isinstance(path, (str, os.PathLike)):
        raise ParameterError(f"a path must be text or a path object; got {brief(path)}.")
    text = os.fspath(path)
    if not isinstance(text, str) or not text:
        raise ParameterError(f"a path must be text, and not empty; got {brief(text)}.")
    if os.path.isdir(text):
        return _files_in(text)
    if os.path.exists(text):
        return [DataFile(text, _format_of(text))]
    if glob.has_magic(text):
        found = sorted(glob.glob(text, recursive=True))
        files = [file for match in found for file in _files_of(match)]
        if not files:
            raise DataError(f"no file matches {path_repr(text)}.")
        return files
    folder, name = os.path.split(text)
    near = ""
    with suppress(OSError):
        near = did_you_mean(name, os.listdir(folder or "."))
    raise StorageError(f"{text}: there is no such file or folder.{near}")


def _files_in(folder: str) -> list[DataFile]:
    found = []
    for where, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith((".", "_"))]
        found += [os.path.join(where, name) for name in names if not name.startswith((".", "_"))]
    found.sort(key=lambda path: Path(path).parts)
    files = []
    for path in found:
        parts = [part.partition("=") for part in Path(path).relative_to(folder).parts[:-1]]
        partition = [
            (unquote(name), None if value == NULL_PARTITION else unquote(value))
            for name, equals, value in parts
            if equals and name
        ]
        files.append(DataFile(path, _format_of(path), tuple(partition)))
    if not files:
        raise DataError(
            f"{folder} holds no files (names that begin with '.' or '_' are not looked at)."
        )
    keys = [name for name, _ in files[0].partition]
    for file in files:
        if [name for name, _ in file.partition] != keys:
            raise DataError(
                f"{files[0].path} and {file.path} lie in folders that name different columns "
                f"({', '.join(keys) or 'none'}; "
                f"{', '.join(name for name, _ in file.partition) or 'none'}): give them apart."
            )
    return files


def _format_of(path: str) -> Format:
    name = os.path.basename(path).lower()
    for suffix, kind in SUFFIXES.items():
        if name.endswith(suffix):
            return kind
    raise ParameterError(
        f"{path}: unknown kind of file; known endings: {', '.join(SUFFIXES)}. "
        "In a folder with other files, select files by a pattern (folder/*.parquet)."
    )
