"""Files of tables as a prediction reads them: batches of rows whose columns keep their types.

::

    paths --- sources.paths ---> files --- open_file ---> TableFile --- batches --->

        Arrow table                                 Parquet, Arrow files    sources.arrow_files
        Arrow table of texts, null where missing    CSV, TSV                sources.text_files
        dict of arrays of texts, None ...           the same, no pyarrow    csv_rows
        SparseRows                                  LibSVM                  sources.libsvm_files

A training finds out what columns hold and reads them as that; a prediction knows it from
the model (:mod:`hedgerow.data.model_rows`).  What a reader holds in memory is one batch,
and what its format has to have at once: of Parquet a page of each column, of Arrow files
a recorded batch, of text a block of some megabytes.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, TypeAlias

import numpy as np

from hedgerow.data import csv_rows
from hedgerow.data.sources.arrow_files import ArrowPart, partition_values
from hedgerow.data.sources.libsvm_files import LibsvmPart
from hedgerow.data.sources.paths import DataFile, PathLike, find_files
from hedgerow.data.sources.text_files import TextPart
from hedgerow.errors import DataError, ParameterError, StorageError

Paths: TypeAlias = "PathLike | Sequence[PathLike]"

_SPARSE_BYTES = 1 << 26


def has_pyarrow() -> bool:
    """Whether pyarrow is installed (it is not imported to find out)."""
    return find_spec("pyarrow") is not None


@dataclass(frozen=True, slots=True, eq=False)
class SparseRows:
    """Some rows of a LibSVM file; ``entries`` is a ``csr_array`` as wide as they need."""

    entries: Any

    @property
    def n_rows(self) -> int:
        return int(self.entries.shape[0])

    def matrix(self, path: str, n_columns: int, *, zero_based: bool) -> Any:
        """The entries in ``n_columns`` columns, which the file counts from 0 or from 1.

        Raises
        ------
        DataError
            If an index is out of range; ``path`` is named.
        """
        from scipy.sparse import csr_array

        first, index = 0 if zero_based else 1, self.entries.indices
        bad = (index < first) | (index >= n_columns + first)
        if bad.any():
            found, last = int(index[int(np.argmax(bad))]), n_columns + first - 1
            raise DataError(
                f"{path} holds the index {found}; the {n_columns} columns of the model have the "
                f"indices {first} to {last}. Give zero_based={not zero_based} if the file counts "
                f"columns from {1 - first}."
            )
        parts = (self.entries.data, index - np.int32(first), self.entries.indptr)
        return csr_array(parts, shape=(self.n_rows, n_columns))


@dataclass(frozen=True, slots=True)
class TableFile:
    """One file, opened for each pass anew.

    Attributes
    ----------
    path : str
    names : tuple of str, or None
        Columns, also those that folders of its path name (``year=2020``); None for LibSVM.
    holds_texts : bool
        Whether the columns of a batch are texts, as the format has no types.
    """

    path: str
    names: tuple[str, ...] | None
    holds_texts: bool
    _part: ArrowPart | TextPart | LibsvmPart | None

    def batches(self, batch_rows: int, columns: Sequence[str] = ()) -> Iterator[Any]:
        """The rows in order, at most ``batch_rows`` at a time, never none.

        Parameters
        ----------
        batch_rows : int
        columns : sequence of str
            Columns to read, in this order, at least one.  Not for LibSVM.

        Yields
        ------
        pyarrow.Table, dict of object arrays, or SparseRows
            See the head of this file.

        Raises
        ------
        StorageError, DataError
            If the file cannot be read, has changed since it was opened, or does not hold
            what its ending says.
        """
        if isinstance(self._part, ArrowPart):
            yield from self._part.tables(columns, batch_rows)
        elif isinstance(self._part, TextPart):
            yield from self._part.texts(columns, batch_rows)
        elif self._part is None:
            with reading(self.path):
                yield from csv_rows.csv_batches(self.path, batch_rows, columns)
        else:
            for batch in self._part.batches(None, _SPARSE_BYTES):
                for start in range(0, batch.n_rows, batch_rows):
                    yield SparseRows(batch.sparse[start : start + batch_rows])


def open_files(paths: Paths) -> tuple[TableFile, ...]:
    """Find files and look into each for the names of its columns.

    Parameters
    ----------
    paths : path, or sequence of paths
        Files, folders, patterns; see :mod:`hedgerow.data.sources.paths`.

    Raises
    ------
    StorageError, DataError, ParameterError
        As there; also if a name is empty or occurs twice, if LibSVM files and others are
        given, or if pyarrow is needed and not installed.
    """
    files = find_files(paths)
    sparse = [file for file in files if file.format == "libsvm"]
    if sparse and len(sparse) < len(files):
        other = next(file.path for file in files if file.format != "libsvm")
        raise DataError(
            f"{sparse[0].path} holds sparse rows without names, {other} named columns: give "
            "files of one kind."
        )
    values = partition_values(files)
    return tuple(_open(file, named) for file, named in zip(files, values, strict=True))


def _open(file: DataFile, named: dict[str, str | int | None]) -> TableFile:
    if file.format == "libsvm":
        return TableFile(file.path, None, False, LibsvmPart(file))
    if file.format != "csv":
        arrow = ArrowPart(file, named, settled=False)
        return TableFile(file.path, arrow.column_names(), False, arrow)
    if file.partition:
        raise DataError(
            f"{file.path}: columns named by folders are read of Parquet and Arrow files only."
        )
    if has_pyarrow():
        text = TextPart(file)
        return TableFile(file.path, text.column_names(), True, text)
    with reading(file.path):
        names = csv_rows.header(file.path)
    check_names(file.path, names)
    return TableFile(file.path, names, True, None)


def check_names(path: str, names: Sequence[str]) -> None:
    """Refuse a table without columns, and an empty or a repeated name."""
    if not names:
        raise DataError(f"{path} is empty: its first line must name the columns.")
    seen: set[str] = set()
    for position, name in enumerate(names, 1):
        if not name.strip():
            raise DataError(f"{path}: column {position} has no name in the first line.")
        if name in seen:
            raise DataError(f"{path}: two columns are called {name!r}; rename one of them.")
        seen.add(name)


@contextlib.contextmanager
def reading(path: str) -> Iterator[None]:
    """What goes wrong in reading text by Python becomes an error that names the file."""
    try:
        yield
    except (StorageError, DataError, ParameterError):
        raise
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text ({error.reason}): convert it first.") from error
    except (gzip.BadGzipFile, EOFError, zlib.error, csv.Error) as error:
        raise DataError(f"{path} cannot be read as CSV: {error}.") from error
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror or error}.") from error
