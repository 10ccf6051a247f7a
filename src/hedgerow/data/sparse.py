"""Sparse tables: read sparse matrices and arrays of scipy.

::

    csr, csc, coo, ... of scipy --- read_any ---> SparseTable     row by row
    anything else               --- read_any ---> Table

An entry that is not stored is 0, as in scipy and scikit-learn, so dense and sparse tables
of the same data give the same model.  With ``zero_missing``, 0 means missing, whether it
is stored or not.  A stored NaN is a missing value, as in dense tables.

Entries are stored row by row (CSR), because sampling, binning and prediction go by row.
Steps that go by column (cuts, bundles) sort the entries temporarily.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import MISSING_KEY, AnyArray, BoolArray, IntArray, read_only
from hedgerow.cuda.arrays import on_host
from hedgerow.data.categories.columns import CategoricalFeatures, chosen_columns
from hedgerow.data.external.memory import available_memory, shown_bytes
from hedgerow.data.reading.columns import (
    LARGEST_INT,
    as_floats,
    keys_by_kind,
    out_of_range,
    plain_numbers,
    with_missing,
)
from hedgerow.data.reading.table import (
    Table,
    check_n_features,
    check_names,
    check_shape,
    read_table,
)
from hedgerow.data.schema import (
    Column,
    ColumnKind,
    Schema,
    UnknownCategory,
    default_names,
    unnamed_schema,
)
from hedgerow.errors import DataError
from hedgerow.kernels.tables.keys import is_missing, missing_of
from hedgerow.kernels.tables.sparse import Entries, gather_entries, spread_entries
from hedgerow.kernels.tables.values import values_of_list, views_of

_BLOCK_BYTES = 1 << 20
"""Size of the dense block that a thread works on: half a second-level cache."""


_BYTES_PER_COLUMN = 450
"""Memory of a fit for each column, however few values it has."""
_MANY_COLUMNS = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class SparseTable:
    """The stored entries of a validated sparse table, and its schema."""

    # int64 (n_rows + 1,); entries of row ``r`` are ``row_start[r] : row_start[r + 1]``
    row_start: IntArray
    column: npt.NDArray[np.int32]  # int32 (n_entries,); column of each entry; distinct within a row
    # float32, float64 or int64 (n_entries,); values as in
    # :class:`hedgerow.data.reading.table.Table`.  Do not write to them: they may be the user's own
    # memory.
    value: AnyArray
    schema: Schema  # if it has ``zero_missing``, no value is 0

    @property
    def n_rows(self) -> int:
        return len(self.row_start) - 1

    @property
    def n_features(self) -> int:
        return self.schema.n_features

    @property
    def n_entries(self) -> int:
        return len(self.column)

    @property
    def unseen(self) -> Mapping[str, int]:
        """Rows with unknown categories: none, as sparse tables have no category columns."""
        return {}

    @property
    def default_bin(self) -> Any:
        """Value of entries that are not stored, in the type of ``value``."""
        dtype = self.value.dtype
        return missing_of(dtype) if self.schema.zero_missing else dtype.type(0)

    def entries(self) -> Entries:
        """Return read-only views for kernels, so that they are compiled for only one type."""
        row_start, column = map(np.ascontiguousarray, (self.row_start, self.column))
        value = values_of_list(np.ascontiguousarray(self.value))
        return Entries(read_only(row_start), read_only(column), value)

    def take(self, rows: AnyArray) -> SparseTable:
        """Copy the rows at the positions ``rows``."""
        rows = np.asarray(rows, dtype=np.int64)
        lengths = self.row_start[rows + 1] - self.row_start[rows]
        row_start = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
        if len(rows) > 0 and (rows[1:] > rows[:-1]).all():
            kept = np.zeros(self.n_rows, dtype=np.bool_)
            kept[rows] = True
            chosen: AnyArray = np.repeat(kept, np.diff(self.row_start))
        else:
            chosen = np.arange(row_start[-1]) + np.repeat(
                self.row_start[rows] - row_start[:-1], lengths
            )
        return SparseTable(row_start, self.column[chosen], self.value[chosen], self.schema)

    def dense(
        self, columns: IntArray | None = None, start: int = 0, stop: int | None = None
    ) -> AnyArray:
        """Copy rows ``start .. stop`` of some columns (default: all) to a dense C-order array."""
        stop = self.n_rows if stop is None else stop
        chosen = np.arange(self.n_features) if columns is None else columns
        position = np.full(self.n_features, -1, dtype=np.int32)
        position[chosen] = np.arange(len(chosen))
        table = np.empty((stop - start, len(chosen)), dtype=self.value.dtype)
        absent = views_of(np.full(1, self.default_bin, dtype=self.value.dtype))
        spread_entries(self.entries(), position, absent, views_of(table), start, stop)
        return table


def count_entries(entries: Entries, rows: IntArray, n_features: int) -> IntArray:
    """Return the number of entries of each column in ``rows`` (all rows if empty)."""
    counts, none = np.zeros(n_features, dtype=np.int64), np.zeros(0)
    gather_entries(entries, rows, none, counts, views_of(none), none)
    return counts


AnyTable: TypeAlias = Table | SparseTable
"""A validated table, dense or sparse."""


def numbers_of(table: AnyTable) -> AnyArray | SparseTable:
    """Return a table in the form of :class:`hedgerow.model.predict.Predictor`."""
    return table if isinstance(table, SparseTable) else table.values


def rows_at_once(n_columns: int, itemsize: int) -> int:
    """Return the rows of the dense block of ``n_columns`` that a thread works on."""
    return max(16, _BLOCK_BYTES // (itemsize * max(1, n_columns)))


def is_sparse(X: object) -> bool:
    """Return whether ``X`` is a SciPy sparse matrix or array; import SciPy only if it may be."""
    if not (hasattr(X, "tocsr") and hasattr(X, "nnz")):
        return False
    from scipy.sparse import issparse

    return bool(issparse(X))


def read_any(
    X: Any,
    schema: Schema | None = None,
    *,
    reader: str = "Booster",
    zero_missing: bool = False,
    categorical: CategoricalFeatures = "auto",
    unknown: UnknownCategory = "missing",
    names: Sequence[str] | None = None,
    more_levels: bool = False,
) -> AnyTable:
    """Read and validate a table, sparse or dense."""
    X = on_host(X)
    if type(X) is np.ndarray or not is_sparse(X):
        table = read_table(
            X,
            schema,
            reader=reader,
            categorical=categorical,
            unknown=unknown,
            names=names,
            more_levels=more_levels,
        )
        return mark_zeros(table, zero_missing if schema is None else schema.zero_missing)
    # Columns hold numbers only; duplicate entries are summed, in a copy.
    check_shape(X.shape)
    if schema is not None:
        check_n_features(X.shape[1], schema, reader)
    elif X.shape[1] > _MANY_COLUMNS:
        needed, limit = X.shape[1] * _BYTES_PER_COLUMN, available_memory()
        if needed > limit:
            raise DataError(
                f"X has the column {X.shape[1] - 1:,}, and all columns up to it take about "
                f"{shown_bytes(needed)} in training, more than the free memory of "
                f"{shown_bytes(limit)}: number the columns without gaps."
            )
    check_names(names, X.shape[1])
    if schema is not None:
        labels, chosen = schema.names, [kind == "category" for kind in schema.kinds]
    else:
        labels = default_names(X.shape[1]) if names is None else tuple(names)
        found = chosen_columns(categorical, labels)
        chosen = [] if found is None else found.tolist()
    if any(chosen):
        raise DataError(
            f"column {labels[chosen.index(True)]!r} is a category, which sparse data cannot hold: "
            "give the rows as a data frame."
        )
    row_start, column, data = _canonical(X)
    value = _plain(data, row_start, column, labels)
    if schema is None:
        kind: ColumnKind = "int" if value.dtype == np.int64 else "float"
        schema = unnamed_schema(X.shape[1], kind)
        if names is not None:
            schema = Schema(tuple(Column(name, kind) for name in names), named=True)
        if zero_missing:
            schema = replace(schema, zero_missing=True)
    if not schema.has_int:
        value = as_floats(value)
    elif value.dtype != np.int64 or "float" in schema.kinds:
        value = keys_by_kind(value, np.array([kind == "int" for kind in schema.kinds])[column])
    if schema.zero_missing and not (kept := ~_is_zero(value, schema)).all():
        before = np.concatenate(([0], np.cumsum(kept, dtype=np.int64)))
        row_start, column, value = before[row_start], column[kept], value[kept]
    return SparseTable(row_start, column, value, schema)


def mark_zeros(table: Table, zero_missing: bool) -> Table:
    """With ``zero_missing``, copy a table and replace 0 by missing in columns of numbers."""
    if not zero_missing:
        return table
    schema = replace(table.schema, zero_missing=True)
    zero = _is_zero(table.values, schema)
    zero[:, [kind == "category" for kind in table.schema.kinds]] = False
    return replace(table, values=with_missing(table.values, zero), schema=schema)


def _is_zero(values: AnyArray, schema: Schema) -> BoolArray:
    """Return the mask of the numbers that count as 0."""
    zero: BoolArray = values == 0
    if schema.zero_band > 0.0 and values.dtype.kind == "f":
        zero = np.abs(values) <= schema.zero_band
    return zero


def _canonical(X: Any) -> tuple[IntArray, npt.NDArray[np.int32], AnyArray]:
    """Return row starts, columns and data of ``X`` without duplicates; do not change ``X``."""
    from scipy.sparse import csr_array

    rows = X.tocsr()
    # A new matrix around the same arrays, because scipy caches its findings in the object.
    own = csr_array((rows.data, rows.indices, rows.indptr), shape=rows.shape)
    if not own.has_canonical_format:
        own = own.copy()
        own.sum_duplicates()
    column: npt.NDArray[np.int32] = own.indices.astype(np.int32, copy=False)
    n_entries = int(own.indptr[-1])
    return own.indptr.astype(np.int64), column[:n_entries], own.data[:n_entries]


def _plain(
    data: AnyArray, row_start: IntArray, column: AnyArray, names: tuple[str, ...]
) -> AnyArray:
    """Convert entries to float32, float64 or int64 (:mod:`hedgerow.data.reading.columns`)."""
    if data.dtype.kind in "iu" and data.dtype.itemsize == 8:
        bad = data > np.uint64(LARGEST_INT) if data.dtype.kind == "u" else data == MISSING_KEY
        for at in np.flatnonzero(bad)[:1].tolist():
            row = int(np.searchsorted(row_start, at, side="right")) - 1
            raise out_of_range(names[column[at]], data[at], row)
    return plain_numbers(data[:, None], names)[:, 0]


def with_columns(table: SparseTable, columns: AnyArray, schema: Schema) -> SparseTable:
    """Append columns of values in the type of the table; ``schema`` has all columns."""
    # A sparse table does not store zeros or, with zeros, missing values.
    held = ~is_missing(columns) if schema.zero_missing else columns != 0
    row_start = table.row_start + np.concatenate(([0], np.cumsum(np.count_nonzero(held, axis=1))))
    is_new = np.ones(row_start[-1], dtype=np.bool_)
    moved = np.repeat(row_start[:-1] - table.row_start[:-1], np.diff(table.row_start))
    is_new[np.arange(table.n_entries) + moved] = False
    column = np.empty(len(is_new), dtype=np.int32)
    value = np.empty(len(is_new), dtype=columns.dtype)
    column[~is_new], value[~is_new] = table.column, table.value
    column[is_new], value[is_new] = table.n_features + np.nonzero(held)[1], columns[held]
    return SparseTable(row_start, column, value, schema)


def sparse_of(table: Table) -> SparseTable:
    """Convert a dense table to a sparse one, without a dense copy."""
    # Entries that are 0, and with ``zero_missing`` also missing values, are not stored.
    values, schema = table.values, table.schema
    counts, columns, numbers = [np.zeros(1, np.int64)], [], []
    step = max(1, (1 << 22) // table.n_features)
    for first in range(0, table.n_rows, step):
        block = values[first : first + step]
        held = block != 0
        if schema.zero_missing:
            held &= ~is_missing(block)
        counts.append(np.count_nonzero(held, axis=1))
        columns.append(np.nonzero(held)[1].astype(np.int32))
        numbers.append(block[held])
    row_start = np.cumsum(np.concatenate(counts), dtype=np.int64)
    return SparseTable(row_start, np.concatenate(columns), np.concatenate(numbers), schema)
