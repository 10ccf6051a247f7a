"""Tables in files, read a batch of rows at a time, whatever their size.

Glossary
--------
batch   some neighbouring rows of one file, at most as many as asked for
texts   columns of a format without types: what stands in the file, None where missing
        (:mod:`hedgerow.data.texts` makes numbers of them)

::

    a path, paths, a folder --- find_files ---> paths, in order
        path --- open_file ---> TableFile --- batches ---> Arrow table       (.parquet, .arrow)
                                                           Arrow table of texts, or a dict
                                                           of arrays of texts     (.csv, .tsv)
                                                           LibSvmRows              (.libsvm)

What a reader holds in memory is one batch, and what its format has to have at
once: of Parquet a page of each column, of Arrow files a recorded batch (which
is mapped, not read, where it is not compressed), of CSV a block of some
megabytes.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, TypeAlias

from hedgerow.errors import DataError, ParameterError, StorageError, did_you_mean

FileFormat: TypeAlias = Literal["parquet", "arrow", "csv", "libsvm"]

SUFFIXES: dict[FileFormat, tuple[str, ...]] = {
    "parquet": (".parquet", ".pq"),
    "arrow": (".arrow", ".feather", ".ipc"),
    "csv": (".csv", ".tsv", ".csv.gz", ".tsv.gz"),
    "libsvm": (".libsvm", ".svm", ".svmlight", ".libsvm.gz", ".svm.gz", ".svmlight.gz"),
}
BATCH_ROWS = 65_536
"""Rows of a batch by default: enough that a call costs nothing beside its rows."""

Paths: TypeAlias = "str | os.PathLike[str] | Sequence[str | os.PathLike[str]]"


def format_of(path: str) -> FileFormat | None:
    """The format that the ending of a path names, or None."""
    name = path.lower()
    return next((key for key, ends in SUFFIXES.items() if name.endswith(ends)), None)


def find_files(paths: Paths) -> tuple[str, ...]:
    """The files that are meant, in the order of their rows.

    Parameters
    ----------
    paths : path, or sequence of paths
        Files, or folders: of a folder all files of a known format in it and in
        the folders below, sorted by their path; names that begin with ``.`` or
        ``_`` are left out, as Arrow, Spark and Dask do.

    Returns
    -------
    tuple of str
        At least one.

    Raises
    ------
    ParameterError
        If no path is given, or one twice.
    StorageError
        If there is no such file or folder.
    DataError
        If a format is not known, a folder has none, or the files have several.
    """
    listed = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if not listed:
        raise ParameterError("no file is given: name at least one file or folder.")
    found: list[str] = []
    for item in listed:
        path = os.fspath(item)
        found += _files_in(path) if os.path.isdir(path) else [_checked(path)]
    for number, path in enumerate(found):
        if path in found[:number]:
            raise ParameterError(f"{path} is given twice: name each file once.")
    formats = {format_of(path): path for path in found}
    if len(formats) > 1:
        first, second = list(formats.values())[:2]
        raise DataError(
            f"{first} and {second} are files of different kinds: give files of one kind."
        )
    return tuple(found)


def _files_in(folder: str) -> list[str]:
    found = []
    for where, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith((".", "_"))]
        found += [
            os.path.join(where, name)
            for name in names
            if not name.startswith((".", "_")) and format_of(name) is not None
        ]
    if not found:
        raise DataError(f"the folder {folder} holds no table; {_known()}")
    return sorted(found)


def _checked(path: str) -> str:
    if not os.path.exists(path):
        names: list[str] = []
        with contextlib.suppress(OSError):
            names = [item.name for item in Path(path).parent.iterdir()]
        near = did_you_mean(Path(path).name, names)
        raise StorageError(f"{path}: there is no such file.{near}")
    if format_of(path) is None:
        raise DataError(f"{path}: unknown kind of file; {_known()}")
    return path


def _known() -> str:
    return "known endings: " + ", ".join(end for ends in SUFFIXES.values() for end in ends)


def has_pyarrow() -> bool:
    """Whether pyarrow is installed (it is not imported to find out)."""
    return find_spec("pyarrow") is not None


def need_pyarrow(what: str) -> Any:
    """Pyarrow, or ``ParameterError`` that says how to install it."""
    try:
        import pyarrow as pa
    except ImportError as error:
        raise ParameterError(f"{what} needs pyarrow: pip install 'hedgerow[files]'.") from error
    return pa


@dataclass(frozen=True, slots=True)
class TableFile:
    """One file, opened for each pass anew.

    Attributes
    ----------
    path : str
    format : {"parquet", "arrow", "csv", "libsvm"}
    names : tuple of str, or None
        Columns in the order of the file; None for LibSVM, which has no names.
    """

    path: str
    format: FileFormat
    names: tuple[str, ...] | None

    @property
    def holds_texts(self) -> bool:
        """Whether the columns of a batch are texts, as the format has no types."""
        return self.format == "csv"

    def batches(
        self, batch_rows: int = BATCH_ROWS, columns: Sequence[str] | None = None
    ) -> Iterator[Any]:
        """The rows in order, at most ``batch_rows`` at a time, never none.

        Parameters
        ----------
        batch_rows : int, default=65_536
        columns : sequence of str, optional
            Columns to read, in this order; all by default.  Not for LibSVM.

        Yields
        ------
        pyarrow.Table, dict of object arrays, or LibSvmRows
            See the head of this file.  The dict is what CSV is read to where
            pyarrow is not installed.

        Raises
        ------
        StorageError
            If the system cannot read the file.
        DataError
            If it does not hold what its ending says.
        """
        with reading(self.path):
            yield from _readers(self.format).batches(self.path, batch_rows, columns)


@dataclass(frozen=True, slots=True)
class _Reader:
    names: Callable[[str], tuple[str, ...] | None]
    batches: Callable[[str, int, Sequence[str] | None], Iterator[Any]]


def open_file(path: str) -> TableFile:
    """Look into a file for the names of its columns.

    Raises
    ------
    StorageError, DataError
        As for :meth:`TableFile.batches`; also if a name is empty or occurs twice.
    ParameterError
        If pyarrow is needed and not installed.
    """
    kind = format_of(_checked(path))
    assert kind is not None
    with reading(path):
        names = _readers(kind).names(path)
    if names is not None:
        check_names(path, names)
    return TableFile(path, kind, names)


def _readers(kind: FileFormat) -> _Reader:
    if kind == "libsvm":
        from hedgerow.data.libsvm import libsvm_batches

        return _Reader(lambda path: None, lambda path, rows, columns: libsvm_batches(path, rows))
    from hedgerow.data import csv_rows

    if kind == "csv" and not has_pyarrow():
        return _Reader(csv_rows.header, csv_rows.csv_batches)
    from hedgerow.data import arrow_batches

    if kind == "csv":
        return _Reader(csv_rows.header, arrow_batches.csv_batches)
    if kind == "parquet":
        return _Reader(arrow_batches.parquet_names, arrow_batches.parquet_batches)
    return _Reader(arrow_batches.ipc_names, arrow_batches.ipc_batches)


def check_names(path: str, names: Sequence[str]) -> None:
    """Refuse a table without columns, and an empty or a repeated name."""
    if not names:
        raise DataError(f"{path} is empty: there must be columns, and in CSV a line of names.")
    seen: set[str] = set()
    for position, name in enumerate(names, 1):
        if not name.strip():
            raise DataError(f"{path}: column {position} has no name in the first line.")
        if name in seen:
            raise DataError(f"{path}: two columns are called {name!r}; rename one of them.")
        seen.add(name)


@contextlib.contextmanager
def reading(path: str) -> Iterator[None]:
    """Whatever goes wrong in reading becomes an error that names the file."""
    try:
        yield
    except (StorageError, DataError, ParameterError):
        raise
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text ({error.reason}): convert it first.") from error
    except (gzip.BadGzipFile, EOFError, zlib.error, csv.Error) as error:
        raise DataError(_unfit(path, error)) from error
    except OSError as error:
        # Arrow raises OSError for what it cannot make sense of, too: without a number.
        if error.errno is None:
            raise DataError(_unfit(path, error)) from error
        raise StorageError(f"{path} cannot be read: {error.strerror or error}.") from error
    except Exception as error:
        if type(error).__module__.partition(".")[0] != "pyarrow":
            raise
        raise DataError(_unfit(path, error)) from error


_SPOKEN = {"parquet": "Parquet", "arrow": "an Arrow file", "csv": "CSV", "libsvm": "LibSVM"}


def _unfit(path: str, error: BaseException) -> str:
    kind = format_of(path)
    reason = " ".join(str(error).split()).rstrip(".")
    return f"{path} cannot be read as {_SPOKEN[kind] if kind else 'a table'}: {reason}."
