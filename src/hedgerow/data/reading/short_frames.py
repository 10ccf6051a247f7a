"""Fast path for data frames of few rows.

A service that predicts one row at a time often passes it as a frame of pandas, polars or
Arrow.  The general reader (:mod:`hedgerow.data.reading.frames`) wraps every column, which takes ten
times as long as reading one value.  This module reads columns of common types together:

=========================  ====================================================
library                    types
=========================  ====================================================
pandas                     numbers and bools of NumPy, objects, text, categories of text
polars, Arrow              numbers, bools, text, categories of text
=========================  ====================================================

The general reader handles all other types, and all errors.  Both readers return equal
columns (``tests/data/test_table.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from hedgerow.arrays import MISSING_KEY, AnyArray
from hedgerow.data.categories.columns import encode_texts
from hedgerow.data.reading.columns import ReadColumn
from hedgerow.data.reading.objects import read_objects

MOST_ROWS = 64
"""Most rows of the fast path; more rows amortise the cost of the general reader."""

_F4, _F8, _I8 = np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.int64)
_TEXT, _OBJECTS = "text", "objects"
_NUMBERS: dict[str, np.dtype[Any]] = {
    **dict.fromkeys(("bool", "int8", "int16", "uint8", "uint16", "float16", "float32"), _F4),
    **dict.fromkeys(("int32", "uint32", "float64"), _F8),
    **dict.fromkeys(("int64", "uint64"), _I8),
}
"""Types to which NumPy types are converted, by name; see :mod:`hedgerow.data.reading.columns`."""
_OF_PANDAS: dict[np.dtype[Any], np.dtype[Any] | str] = {
    **{np.dtype(name): dtype for name, dtype in _NUMBERS.items()},
    np.dtype(object): _OBJECTS,
}
_ARROW_NAMES = {"float": "float32", "double": "float64"}
_TYPES: dict[str, np.dtype[Any] | str] = {
    **{name: dtype for name, dtype in _NUMBERS.items() if name != "float16"},
    **{name: _NUMBERS[of_numpy] for name, of_numpy in _ARROW_NAMES.items()},
    **dict.fromkeys(("string", "categorical", "enum", "large_string"), _TEXT),
    "boolean": _F4,
}
"""Types to which types of polars and Arrow are converted, by name in lower case."""

_FRAMES = {
    "pandas": ("DataFrame",),
    "polars": ("DataFrame",),
    "pyarrow": ("Table", "RecordBatch"),
}

Columns = list[ReadColumn]


def read_short(X: Any, names: Sequence[str]) -> Columns | None:
    """Return the columns of a short frame in the order of ``names``."""
    labels = labels_of(X)
    if labels is None or not 0 < X.shape[0] <= MOST_ROWS:
        return None
    library = _library_of(X)
    if labels != list(names):
        texts = len(labels) == len(names) and all(type(label) is str for label in labels)
        if not texts or set(labels) != set(names):
            return None
        X = X.select(list(names)) if library == "pyarrow" else X[list(names)]
    if library == "pandas":
        return _of_pandas(X)
    if library == "polars":
        types = [dtype.base_type().__name__.lower() for dtype in X.dtypes]
        return _of_values(types, zip(*X.rows(), strict=True))
    types = [_arrow_type(field.type) for field in X.schema]
    return _of_values(types, (column.to_pylist() for column in X.columns))


def labels_of(X: Any) -> list[Any] | None:
    """Return the column labels of a frame of pandas, polars or Arrow; None for other types."""
    library = _library_of(X)
    if library is None:
        return None
    return list(X.schema.names if library == "pyarrow" else X.columns)


def _library_of(X: Any) -> str | None:
    kind = type(X)
    library = kind.__module__.partition(".")[0]
    return library if kind.__name__ in _FRAMES.get(library, ()) else None


def _arrow_type(dtype: Any) -> str:
    """Return the name of an Arrow type; "string" for a dictionary of text."""
    values = getattr(dtype, "value_type", None)
    is_text = (
        values is not None
        and str(dtype).startswith("dictionary")
        and (str(values) in ("string", "large_string"))
    )
    return "string" if is_text else str(dtype)


def _of_values(types: Sequence[str], columns: Iterable[Sequence[Any]]) -> Columns | None:
    """Convert columns of Python values according to their original types."""
    targets = [_TYPES.get(name) for name in types]
    if any(target is None for target in targets):  # NumPy takes None for float64
        return None
    found: Columns = []
    for target, values in zip(targets, columns, strict=True):
        if isinstance(target, np.dtype):
            column = _numbers(values, target)
            if column is None:
                return None
            found.append(ReadColumn(column))
        else:
            found.append(_texts(values))
    return found


def _numbers(values: Sequence[Any], dtype: np.dtype[Any]) -> AnyArray | None:
    """Convert numbers and None to a plain column; return None if no int64 key can hold one."""
    if dtype != _I8:
        return np.array(values, dtype=dtype)
    if any(value is not None and not MISSING_KEY < value < 2**63 for value in values):
        return None  # the general reader raises the error
    return np.array([MISSING_KEY if value is None else value for value in values], dtype=dtype)


def _texts(values: Sequence[Any]) -> ReadColumn:
    """Encode a text column, in which every other object is a missing value."""
    missing = [not isinstance(value, str) for value in values]
    return encode_texts(values, np.array(missing) if any(missing) else None)


def _of_pandas(X: Any) -> Columns | None:
    """Read a pandas frame: all values as objects first, then by the type of each column."""
    dtypes = X.dtypes.tolist()
    kinds = [_kind_of(dtype) for dtype in dtypes]
    if any(kind is None for kind in kinds):
        return None
    found: Columns = []
    block = X.to_numpy(dtype=object)
    for j, (kind, values) in enumerate(zip(kinds, block.T.tolist(), strict=True)):
        if isinstance(kind, np.dtype):
            column = _numbers([None if x != x else x for x in values], kind)
            if column is None:
                return None
            found.append(ReadColumn(column))
        elif kind == _TEXT:
            found.append(_texts(values))
        else:
            found.append(read_objects(block[:, j], str(X.columns[j])))
    return found


def _kind_of(dtype: Any) -> np.dtype[Any] | str | None:
    """Return how to read a pandas type; None if the general reader must read it."""
    if isinstance(dtype, np.dtype):
        return _OF_PANDAS.get(dtype)
    name = type(dtype).__name__
    if name == "StringDtype":
        return _TEXT
    if name == "CategoricalDtype":
        # Only categories of text; the general reader handles all others.
        inner = dtype.categories.dtype
        texts = type(inner).__name__ == "StringDtype"
        texts = texts or dtype.categories.inferred_type == "string"
        return _TEXT if texts else None
    return None
