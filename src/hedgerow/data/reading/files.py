"""Read table files for prediction, in batches of rows whose columns keep their types.

::

    paths --- sources.paths ---> files --- open_file ---> TableFile --- batches --->

        Arrow table                                 Parquet, Arrow files    sources.arrow_files
        Arrow table of texts, null where missing    CSV, TSV                sources.text_files
        SparseRows                                  LibSVM                  sources.libsvm_files

Training infers the types of columns; prediction gets them from the model
(:mod:`hedgerow.data.reading.model_rows`).  A reader holds one batch, and the smallest unit
of its format: for Parquet a page of each column, for Arrow files a record batch, for text a
block of some megabytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from hedgerow.data.sources.arrow_files import ArrowPart, partition_values
from hedgerow.data.sources.libsvm_files import LibsvmPart
from hedgerow.data.sources.paths import DataFile, PathLike, check_formats, find_files
from hedgerow.data.sources.text_files import TextPart
from hedgerow.errors import DataError

Paths: TypeAlias = "PathLike | Sequence[PathLike]"

_SPARSE_BYTES = 1 << 26


@dataclass(frozen=True, slots=True, eq=False)
class SparseRows:
    """Rows of a LibSVM file; ``entries`` is a ``csr_array`` wide enough for them."""

    entries: Any

    @property
    def n_rows(self) -> int:
        return int(self.entries.shape[0])

    def matrix(self, path: str, n_columns: int, *, zero_based: bool) -> Any:
        """Return the entries with ``n_columns`` columns, numbered from 0 or 1 in the file."""
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
    """A table file, which is opened again for each pass.

    Attributes
    ----------
    names : tuple of str, or None
        Columns, including those in folder names (``year=2020``); None for LibSVM.
    holds_texts : bool
        Whether all columns are text, because the format has no types.
    """

    path: str
    names: tuple[str, ...] | None
    _part: ArrowPart | TextPart | LibsvmPart

    @property
    def holds_texts(self) -> bool:
        return isinstance(self._part, TextPart)

    @property
    def decimal(self) -> str:
        """The decimal mark of text."""
        return self._part.decimal if isinstance(self._part, TextPart) else "."

    def batches(self, batch_rows: int, columns: Sequence[str] = ()) -> Iterator[Any]:
        """Yield the rows in order, in non-empty batches of at most ``batch_rows``."""
        if isinstance(self._part, ArrowPart):
            yield from self._part.tables(columns, batch_rows)
        elif isinstance(self._part, TextPart):
            yield from self._part.texts(columns, batch_rows)
        else:
            for batch in self._part.batches(None, _SPARSE_BYTES):
                for start in range(0, batch.n_rows, batch_rows):
                    yield SparseRows(batch.sparse[start : start + batch_rows])


def open_files(paths: Paths) -> tuple[TableFile, ...]:
    """Find files and read the column names of each."""
    files = find_files(paths)
    check_formats(files)
    values = partition_values(files)
    return tuple(_open(file, named) for file, named in zip(files, values, strict=True))


def _open(file: DataFile, named: dict[str, str | int | None]) -> TableFile:
    if file.format == "libsvm":
        return TableFile(file.path, None, LibsvmPart(file))
    if file.format == "csv":
        text = TextPart(file)
        return TableFile(file.path, text.column_names(), text)
    arrow = ArrowPart(file, named, types_known=False)
    return TableFile(file.path, arrow.column_names(), arrow)
