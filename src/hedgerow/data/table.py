"""The one door for tables: whatever the user has, as a 2-D array and a schema.

Nothing behind this door knows that pandas exists.  Arrays and frames of one
float type come through without a copy, and no input is ever written to.

Values are float32 or float64 (NaN is missing), or, where some column compares
as int64, the keys of all columns (:mod:`hedgerow.kernels.keys`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hedgerow.arrays import AnyArray
from hedgerow.data.columns import (
    as_floats,
    numbers_of_objects,
    plain_numbers,
    stack,
    with_missing,
)
from hedgerow.data.schema import Column, ColumnKind, Schema, default_names, unnamed_schema
from hedgerow.errors import DataError, DataTypeError

_FLOAT32 = np.dtype(np.float32)
_FLOAT64 = np.dtype(np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Numbers that compare exactly, and what their columns are.

    Attributes
    ----------
    values : float32, float64 or int64, shape (n_rows, n_features)
        Any strides, aligned, native byte order; perhaps the user's own
        memory, so not to be written to.  int64 values are keys.
    schema : Schema
    """

    values: AnyArray
    schema: Schema

    @property
    def n_rows(self) -> int:
        """Number of rows, at least 1."""
        return int(self.values.shape[0])

    @property
    def n_features(self) -> int:
        """Number of columns, at least 1."""
        return int(self.values.shape[1])

    def take(self, rows: AnyArray) -> Table:
        """Some of the rows, in the given order."""
        return Table(self.values[rows], self.schema)


def read_table(
    X: Any,
    schema: Schema | None = None,
    *,
    reader: str = "Booster",
    zero_missing: bool = False,
) -> Table:
    """Read a table of numbers.

    Parameters
    ----------
    X : array, data frame, or list of rows
        Numbers, booleans or dates.  NaN, null, ``None`` and NaT are missing
        values; infinities are values.
    schema : Schema, optional
        Of the model that is to predict: the columns of a named frame are put
        in its order, and values compare as its columns do.
    reader : str, default="Booster"
        Who reads, for the message about a wrong number of features.
    zero_missing : bool, default=False
        Take the number 0 for a missing value; a given schema says so itself.

    Returns
    -------
    Table

    Raises
    ------
    DataError
        Wrong shape, wrong columns, complex numbers, or integers out of range.
    DataTypeError
        Text, categories, objects, sparse matrices.

    Examples
    --------
    >>> import numpy as np
    >>> from hedgerow.data import read_table
    >>> table = read_table(np.ones((3, 2)))
    >>> table.n_rows, table.schema.names
    (3, ('x0', 'x1'))
    """
    if (
        type(X) is np.ndarray
        and (X.dtype == _FLOAT32 or X.dtype == _FLOAT64)
        and X.ndim == 2
        and X.size > 0
        and X.flags.aligned
    ):
        if schema is None:
            if not zero_missing:
                return Table(X, unnamed_schema(X.shape[1], "float"))
        elif not (schema.has_int or schema.zero_missing) and len(schema.columns) == X.shape[1]:
            return Table(X, schema)
    table = _read_any(X, schema, reader)
    if schema is None and zero_missing:
        table = Table(table.values, replace(table.schema, zero_missing=True))
    if not table.schema.zero_missing:
        return table
    return Table(_without_zeros(table.values, table.schema), table.schema)


def _without_zeros(values: AnyArray, schema: Schema) -> AnyArray:
    """Copy values or keys with every 0 made a missing value; 0 is a level of a category."""
    zero = values == 0
    zero[:, [kind == "category" for kind in schema.kinds]] = False
    return with_missing(values, zero)


def _read_any(X: Any, schema: Schema | None, reader: str) -> Table:
    if hasattr(X, "toarray") and hasattr(X, "nnz"):
        raise DataTypeError(
            "Sparse data was passed, but a dense table is required: use X.toarray(), "
            "or X.toarray(order='F').astype('float32') to halve the memory."
        )
    names: tuple[str, ...] | None = None
    if not isinstance(X, (np.ndarray, list, tuple)):
        from hedgerow.data.frames import as_frame, in_order, read_columns

        frame = as_frame(X)
        if frame is not None:
            check_shape(frame.native.shape)
            if schema is not None:
                frame = in_order(frame, schema)
                check_n_features(len(frame.names), schema, reader)
            names = frame.names if frame.named else None
            return _finish(read_columns(frame), names, schema)
    array = _as_array(X)
    check_shape(array.shape)
    if schema is not None:
        check_n_features(array.shape[1], schema, reader)
    return _finish(_read_array(array, schema), names, schema)


def _as_array(X: Any) -> AnyArray:
    """Make an array of any type and shape; masked arrays stay masked."""
    if isinstance(X, np.ma.MaskedArray):
        return X
    try:
        return np.asarray(X)
    except (ValueError, TypeError) as error:
        raise DataError(
            f"X cannot be read as a table ({error}): give an array, a data frame, or a list "
            "of rows of one length."
        ) from error


def _read_array(array: AnyArray, schema: Schema | None) -> AnyArray | list[AnyArray]:
    names = schema.names if schema is not None else default_names(array.shape[1])
    if array.dtype == object:
        return [numbers_of_objects(array[:, j], name) for j, name in enumerate(names)]
    if isinstance(array, np.ma.MaskedArray):
        values = plain_numbers(np.asarray(array.filled(0)), names)
        return with_missing(values, np.ma.getmaskarray(array))
    return plain_numbers(array, names)


def _finish(
    columns: AnyArray | list[AnyArray], names: Sequence[str] | None, schema: Schema | None
) -> Table:
    """Give plain columns a schema, or the form that a schema asks for."""
    block = columns if isinstance(columns, np.ndarray) else None
    parts: list[AnyArray] = list(columns.T) if isinstance(columns, np.ndarray) else columns
    if schema is None:
        schema = _new_schema([_kind(part) for part in parts], names)
    if block is not None:
        if not schema.has_int:
            return Table(as_floats(block), schema)
        if block.dtype == np.int64 and "float" not in schema.kinds:
            return Table(block, schema)
    return Table(stack(parts, schema.kinds), schema)


def _kind(column: AnyArray) -> ColumnKind:
    return "int" if column.dtype == np.int64 else "float"


def _new_schema(kinds: Sequence[ColumnKind], names: Sequence[str] | None) -> Schema:
    if names is None and len(set(kinds)) == 1:
        return unnamed_schema(len(kinds), kinds[0])
    labels = default_names(len(kinds)) if names is None else names
    columns = tuple(Column(name, kind) for name, kind in zip(labels, kinds, strict=True))
    return Schema(columns, named=names is not None)


def check_shape(shape: tuple[int, ...]) -> None:
    """Refuse what is not a table, in the words of scikit-learn."""
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
    """Refuse another number of columns, in the words of scikit-learn."""
    if n_features != schema.n_features:
        raise DataError(
            f"X has {n_features} features, but {reader} is expecting {schema.n_features} "
            "features as input"
        )
