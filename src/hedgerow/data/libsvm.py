"""LibSVM files, a batch of rows at a time: ``label [qid:Q] column:value column:value ...``."""

from __future__ import annotations

import gzip
import io
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.errors import DataError


@dataclass(frozen=True, slots=True, eq=False)
class LibSvmRows:
    """Some rows of a file.

    Attributes
    ----------
    row_start : int64, shape (n_rows + 1,)
        Entries of row ``r`` are ``row_start[r] : row_start[r + 1]``.
    index : int32, shape (n_entries,)
        As it stands in the file: whether columns are counted from 0 or from 1
        is for the caller to say (:meth:`matrix`).
    value : float64, shape (n_entries,)
    label : float64, shape (n_rows,)
    query : int64, shape (n_rows,)
        0 where there is no ``qid``.
    """

    row_start: IntArray
    index: npt.NDArray[np.int32]
    value: FloatArray
    label: FloatArray
    query: IntArray

    @property
    def n_rows(self) -> int:
        return len(self.label)

    def matrix(self, path: str, n_columns: int, *, zero_based: bool) -> Any:
        """The entries as a ``csr_array`` of ``n_columns`` columns.

        Raises
        ------
        DataError
            If an index is out of range; ``path`` is named.
        """
        from scipy.sparse import csr_array

        first = 0 if zero_based else 1
        bad = (self.index < first) | (self.index >= n_columns + first)
        if bad.any():
            at = int(self.index[int(np.argmax(bad))])
            hint = " Give zero_based=True if it counts columns from 0." if at == 0 else ""
            raise DataError(
                f"{path} holds the index {at}; the {n_columns} columns have the indices {first} "
                f"to {n_columns + first - 1}.{hint}"
            )
        parts = (self.value, self.index - np.int32(first), self.row_start)
        return csr_array(parts, shape=(self.n_rows, n_columns))


def libsvm_batches(path: str, batch_rows: int) -> Iterator[LibSvmRows]:
    """The rows of a file, gzipped or not, at most ``batch_rows`` at a time."""
    opener: Any = gzip.open if path.lower().endswith(".gz") else open
    line = 1
    with opener(path, "rb") as file:
        while lines := list(itertools.islice(file, batch_rows)):
            rows = _parse(path, lines, line)
            if rows.n_rows:
                yield rows
            line += len(lines)


def _parse(path: str, lines: list[bytes], first_line: int) -> LibSvmRows:
    from sklearn.datasets import load_svmlight_file

    try:
        X, label, query = load_svmlight_file(
            io.BytesIO(b"".join(lines)), zero_based=True, query_id=True
        )
    except (ValueError, OverflowError) as error:
        last = first_line + len(lines) - 1
        raise DataError(
            f"{path} is not a LibSVM file (lines {first_line} to {last}: {error})."
        ) from error
    if len(query) not in (0, len(label)):
        last = first_line + len(lines) - 1
        raise DataError(
            f"{path}: some of the lines {first_line} to {last} lack a qid: give all one."
        )
    queries = query if len(query) else np.zeros(len(label), dtype=np.int64)
    return LibSvmRows(
        X.indptr.astype(np.int64),
        X.indices.astype(np.int32),
        X.data,
        label,
        queries.astype(np.int64),
    )
