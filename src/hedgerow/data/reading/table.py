"""Input validation: read any table that a user passes as a 2-D array and a schema.

Every table enters the library through :func:`read_table`, so no other module needs to
know that pandas exists.  Arrays and frames of a single float type are not copied, and
inputs are never modified.

Values are float32 or float64, and NaN means missing.  If at least one column must
compare as int64, the values are the int64 keys of all columns
(:mod:`hedgerow.kernels.tables.keys`).  A category is stored as its code, as a float
(:mod:`hedgerow.data.categories.columns`).
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from hedgerow.arrays import AnyArray
from hedgerow.cuda.arrays import on_host
from hedgerow.data.categories import columns as categories
from hedgerow.data.categories.levels import UNKNOWN_CODE
from hedgerow.data.reading import columns as col
from hedgerow.data.reading.frames import as_frame, in_order, read_columns, warn_of_labels
from hedgerow.data.reading.objects import is_named, named_columns, read_column
from hedgerow.data.reading.temporal import NUMBERS, as_trained
from hedgerow.data.schema import (
    Column,
    ColumnKind,
    Schema,
    UnknownCategory,
    check_same_names,
    default_names,
    new_schema,
    unnamed_schema,
    with_more_levels,
)
from hedgerow.errors import DataError, DataTypeError, brief

_FLOAT32 = np.dtype(np.float32)
_FLOAT64 = np.dtype(np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Validated values and their schema."""

    # float32, float64 or int64 (n_rows, n_features); any strides, aligned, native byte order.  Do
    # not write to them: they may be the user's own memory.  int64 values are keys.
    values: AnyArray
    schema: Schema  # names, kinds and category levels of the columns
    # number of rows with an unknown category, for each column that has such rows
    unseen: Mapping[str, int] = field(default_factory=dict)

    @property
    def n_rows(self) -> int:
        return int(self.values.shape[0])

    @property
    def n_features(self) -> int:
        return int(self.values.shape[1])

    def take(self, rows: AnyArray) -> Table:
        """Select rows by position, in the order of ``rows``."""
        return Table(self.values[rows], self.schema)


def read_table(
    X: Any,
    schema: Schema | None = None,
    *,
    reader: str = "Booster",
    categorical: categories.CategoricalFeatures = "auto",
    unknown: UnknownCategory = "missing",
    names: Sequence[str] | None = None,
    more_levels: bool = False,
) -> Table:
    """Read and validate a table: an array, data frame, list of rows, dict or list of dicts."""
    # With the ``schema`` of a model, columns of a named frame are put in its order and values
    # converted to its kinds; ``more_levels`` adds categories, unless its unknown ones are errors.
    if (
        type(X) is np.ndarray
        and (X.dtype == _FLOAT32 or X.dtype == _FLOAT64)
        and X.ndim == 2
        and X.size > 0
        and X.flags.aligned
    ):
        # Nothing has to be read: this saves 5% of a fit of 1,000 rows and 30 rounds.
        if schema is None:
            simple = isinstance(categorical, str) and categorical == "auto" and names is None
            if simple and isinstance(unknown, str) and unknown == "missing":
                return Table(X, unnamed_schema(X.shape[1], "float"))
        elif schema.only_floats and len(schema.columns) == X.shape[1]:
            return Table(X, schema)
    if schema is not None:
        columns, _, typed = _read_any(X, schema, None, reader)
        if more_levels and schema.has_categories and schema.unknown != "error":
            columns = _as_trained(columns, schema, typed=typed)
            found = {
                column.name: categories.levels_of(part, column.name)[0]
                for part, column in zip(columns, schema.columns, strict=True)
                if column.kind == "category"
            }
            schema = with_more_levels(schema, found)
        return with_schema(columns, schema, typed=typed)
    policy = categories.check_unknown(unknown)
    columns, own, _ = _read_any(X, None, names, reader)
    return _new_table(columns, own if names is None else names, categorical, policy)


_Columns: TypeAlias = AnyArray | list[col.ReadColumn]


def _read_any(
    X: Any, schema: Schema | None, names: Sequence[str] | None, reader: str
) -> tuple[_Columns, Sequence[str] | None, bool]:
    """Return the columns in the order of the schema, own names if any, and if they have types."""
    X = on_host(X)
    if hasattr(X, "toarray") and hasattr(X, "nnz"):
        raise DataTypeError(
            "Sparse data was passed, but a dense table is required: use X.toarray(), "
            "or X.toarray(order='F').astype('float32') to halve the memory."
        )
    if is_named(X):
        given = named_columns(X)
        order: Sequence[str] = tuple(given)
        check_shape((len(next(iter(given.values()), ())), len(given)))
        if schema is not None:
            if schema.named:
                check_same_names(order, schema.names)
                order = schema.names
            check_n_features(len(order), schema, reader)
        check_names(names, len(order), order)
        return [read_column(given[name], name) for name in order], order, True
    if isinstance(X, str | bytes | os.PathLike):
        raise DataTypeError(
            f"X must be a table, got the text {str(X)[:60]!r}. If it is the path of a file, "
            "Dataset.from_files, Booster.predict_files and the command hedgerow read its rows."
        )
    if not isinstance(X, (np.ndarray, list, tuple)):
        frame = as_frame(X)
        if frame is not None:
            check_shape(frame.table.shape)
            warn_of_labels(frame)
            if schema is not None:
                frame = in_order(frame, schema)
                check_n_features(len(frame.names), schema, reader)
            check_names(names, len(frame.names), frame.names if frame.named else None)
            return read_columns(frame), frame.names if frame.named else None, True
    array = _as_array(X)
    if array.dtype.names is not None and array.ndim == 1:
        raise DataError(
            f"X is a structured array of the fields {', '.join(array.dtype.names[:10])}: give a "
            "frame, pandas.DataFrame(X), or a dict, {name: X[name] for name in X.dtype.names}."
        )
    check_shape(array.shape)
    if schema is not None:
        check_n_features(array.shape[1], schema, reader)
        names = schema.names
    check_names(names, array.shape[1])
    names = names or default_names(array.shape[1])
    if array.dtype.kind in "OUTMm":
        return [read_column(array[:, j], name) for j, name in enumerate(names)], None, False
    if not isinstance(array, np.ma.MaskedArray):
        return col.plain_numbers(array, names), None, False
    values = col.plain_numbers(np.asarray(array.filled(0)), names)
    return col.with_missing(values, np.ma.getmaskarray(array)), None, False


def check_names(
    names: Sequence[str] | None, n_columns: int, own: Sequence[str] | None = None
) -> None:
    """Raise unless there is one distinct string for each column, as in a table with names."""
    if names is None:
        return
    if len(names) != n_columns:
        raise DataError(
            f"feature_names has {len(names)} names for {n_columns} columns: give one name for "
            "each column."
        )
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise DataError("feature_names must be distinct strings, one for each column.")
    if own is not None and tuple(names) != tuple(own):
        k = next(k for k in range(n_columns) if names[k] != own[k])
        raise DataError(
            f"feature_names names column {k} {brief(names[k])}, but the table itself names it "
            f"{brief(own[k])}: leave feature_names out, or rename the columns of the table."
        )


def _as_array(X: Any) -> AnyArray:
    """Convert X to an array of any type and shape; masked arrays stay masked."""
    if isinstance(X, np.ma.MaskedArray):
        return X
    try:
        array: AnyArray = np.asarray(X)
        if array.dtype.kind == "U" and not isinstance(X, np.ndarray):
            # NumPy converts numbers beside text to text: keep their types.
            return np.asarray(X, dtype=object)
        if isinstance(X, list | tuple) and array.dtype == _FLOAT64 and array.ndim == 2:
            # Perhaps NumPy has rounded an integer, because of floats in other cells.
            large = np.argwhere(np.abs(array) >= col.LARGEST_EXACT).tolist()
            cells = (X[row][column] for row, column in large)
            if any(isinstance(cell, int | np.integer) and not col.is_exact(cell) for cell in cells):
                return np.asarray(X, dtype=object)
        return array
    except (ValueError, TypeError) as error:
        _refuse_nested(X)
        raise DataError(
            f"X cannot be read as a table ({error}): give an array, a data frame, or a list "
            "of rows of one length."
        ) from error


def _refuse_nested(X: Any) -> None:
    """Raise if a cell in a list of rows of equal length holds several values."""
    rows = list(X)
    if len({len(row) if isinstance(row, list | tuple) else -1 for row in rows}) != 1:
        return
    for number, row in enumerate(rows):
        for column, item in enumerate(row):
            if isinstance(item, list | tuple | np.ndarray):
                raise DataError(
                    f"row {number} of X holds {str(item)[:60]} in column {column}, a "
                    f"{type(item).__name__}: a cell holds one value. Put the items into columns "
                    "of their own."
                )


def _new_table(
    columns: _Columns,
    names: Sequence[str] | None,
    categorical: categories.CategoricalFeatures,
    unknown: UnknownCategory,
) -> Table:
    """Infer a schema for new columns."""
    n_columns = columns.shape[1] if isinstance(columns, np.ndarray) else len(columns)
    labels = default_names(n_columns) if names is None else names
    chosen = categories.chosen_columns(categorical, labels)
    found: list[Column] = []
    plain: list[AnyArray] = []
    for j, (part, name) in enumerate(zip(_parts_of(columns), labels, strict=True)):
        if chosen is None:
            categories.warn_of_odd_text(part, name)
        if part.is_category if chosen is None else chosen[j]:
            levels, codes = categories.levels_of(part, name)
            found.append(Column(name, "category", levels, temporal=part.temporal))
            plain.append(categories.code_column(codes, len(levels), unknown))
        else:
            values = part.plain(col.text_message(name, "text", named=categorical is not None))
            kind: ColumnKind = "int" if values.dtype == np.int64 else "float"
            found.append(Column(name, kind, temporal=part.temporal))
            plain.append(values)
    schema = new_schema(found, names is not None, unknown)
    if isinstance(columns, np.ndarray) and not schema.has_categories:
        return Table(columns, schema)
    return Table(col.stack(plain, schema.kinds), schema)


def with_schema(columns: _Columns, schema: Schema, *, typed: bool = True) -> Table:
    """Convert columns to the kinds and levels of a schema."""
    # ``typed`` says whether each column has a type, so that numbers are not dates.
    is_same = not (typed and schema.has_temporal) and not schema.has_categories
    if isinstance(columns, np.ndarray) and is_same:
        if not schema.has_int:
            return Table(col.as_floats(columns), schema)
        if columns.dtype == np.int64 and "float" not in schema.kinds:
            return Table(columns, schema)
    parts = _as_trained(columns, schema, typed=typed)
    plain: list[AnyArray] = []
    unseen: dict[str, int] = {}
    for j, (part, column) in enumerate(zip(parts, schema.columns, strict=True)):
        if column.kind != "category":
            message = (
                f"column {column.name!r} holds text, but held {NUMBERS} when the model was "
                "trained: convert it to numbers."
            )
            plain.append(part.plain(message))
            continue
        codes = categories.codes_of(part, schema, j)
        n_unseen = int(np.count_nonzero(codes == UNKNOWN_CODE))
        if n_unseen:
            if schema.unknown == "error":
                row = int(np.argmax(codes == UNKNOWN_CODE))
                value = part.values[row if part.codes is None else int(part.codes[row])]
                raise unknown_category(column, row, np.asarray(value).item())
            unseen[column.name] = n_unseen
        plain.append(categories.code_column(codes, len(column.levels), schema.unknown))
    values = col.stack(plain, schema.kinds)
    return Table(values, schema, unseen) if unseen else Table(values, schema)


def _parts_of(columns: _Columns) -> list[col.ReadColumn]:
    if isinstance(columns, np.ndarray):
        return [col.ReadColumn(column) for column in columns.T]
    return columns


def _as_trained(columns: _Columns, schema: Schema, *, typed: bool) -> list[col.ReadColumn]:
    """Return the columns; raise if one holds dates and should not, or vice versa."""
    return [
        as_trained(part, column, typed=typed)
        for part, column in zip(_parts_of(columns), schema.columns, strict=True)
    ]


def unknown_category(column: Column, row: int, value: object) -> DataError:
    """Return the error for a value that is not among the levels."""
    return DataError(
        f"column {column.name!r} holds {brief(value)} (row {row}), which is none of the "
        f"{len(column.levels)} categories known from training. A model trained with "
        "unknown_category='missing' can predict such rows."
    )


def check_shape(shape: tuple[int, ...]) -> None:
    """Raise unless the shape is a valid table shape, with the message of scikit-learn."""
    if len(shape) < 2:
        what = "1D array" if len(shape) == 1 else "scalar array"
        raise DataError(
            f"Expected 2D array, got {what} instead. Reshape your data either using "
            "array.reshape(-1, 1) if your data has a single feature or array.reshape(1, -1) "
            "if it contains a single sample."
        )
    if len(shape) > 2:
        raise DataError(f"Found array with dim {len(shape)}, while dim <= 2 is required.")
    for count, what in zip(shape, ("sample(s)", "feature(s)"), strict=True):
        if count == 0:
            raise DataError(
                f"Found array with 0 {what} (shape={tuple(shape)}) while a minimum of 1 is "
                "required."
            )


def check_n_features(n_features: int, schema: Schema, reader: str) -> None:
    """Raise for a wrong number of columns, with the message of scikit-learn."""
    if n_features != schema.n_features:
        raise DataError(
            f"X has {n_features} features, but {reader} is expecting {schema.n_features} "
            "features as input"
        )


class UnseenCounts:
    """Thread-safe counts of rows with an unknown category, by column."""

    def __init__(self) -> None:
        self._counts = Counter[str]()
        self._lock = threading.Lock()

    def add(self, unseen: Mapping[str, int]) -> None:
        """Add the counts of one table."""
        if unseen:
            with self._lock:
                self._counts.update(unseen)

    def totals(self) -> dict[str, int]:
        """Return a copy of the counts."""
        with self._lock:
            return dict(self._counts)

    def reset(self) -> None:
        """Set all counts to 0."""
        with self._lock:
            self._counts.clear()
