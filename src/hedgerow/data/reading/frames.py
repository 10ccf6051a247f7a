"""Read data frames of any library, column by column, through narwhals.

narwhals recognises frames of pandas, polars, pyarrow, modin, cuDF and others without
importing the library.  Nulls, ``NaN`` and ``NaT`` are missing values.

Long text columns are encoded by Arrow if it is installed, others by a Python dict.
Categorical columns are encoded by the values of their dictionary, in any order.

Frames of few rows have a fast path (:func:`read_short`).  A service that predicts one row at a time
often passes it as a frame of pandas, polars or Arrow, and wrapping every column takes ten times as
long as reading one value.  So columns of common types are read together:

=========================  ====================================================
library                    types
=========================  ====================================================
pandas                     numbers and bools of NumPy, objects, text, categories of text
polars, Arrow              numbers, bools, text, categories of text
=========================  ====================================================

The general reader handles all other types, and all errors.  Both readers return equal
columns (``tests/data/test_short_frames.py``).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Literal, TypeAlias

import numpy as np

from hedgerow.argument_types import is_one_of
from hedgerow.arrays import MISSING_KEY, AnyArray
from hedgerow.cuda.arrays import is_cudf, on_host
from hedgerow.data.categories.columns import arrow_codes, encode_arrow, encode_texts, text_column
from hedgerow.data.reading.columns import ReadColumn, plain_numbers, text_message
from hedgerow.data.reading.objects import as_objects, read_column, read_objects
from hedgerow.data.schema import Schema, check_same_names, default_names
from hedgerow.errors import (
    DataError,
    DataTypeError,
    HedgerowError,
    HedgerowWarning,
    ParameterError,
    brief,
    did_you_mean,
)

MOST_ROWS = 64
"""Most rows of the fast path; more rows amortise the cost of the general reader."""

_F4, _F8, _I8 = np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.int64)
_TEXT, _OBJECTS = "text", "objects"
_NUMBERS: dict[str, np.dtype[Any]] = {
    **dict.fromkeys(("bool", "int8", "int16", "uint8", "uint16", "float16", "float32"), _F4),
    **dict.fromkeys(("int32", "uint32", "float64"), _F8),
    **dict.fromkeys(("int64", "uint64"), _I8),
}
_TYPES: dict[Any, np.dtype[Any] | str] = {
    **_NUMBERS,
    **{np.dtype(name): dtype for name, dtype in _NUMBERS.items()},
    "boolean": _F4,
    "float": _F4,
    "double": _F8,
    np.dtype(object): _OBJECTS,
    **dict.fromkeys(("string", "categorical", "enum", "large_string"), _TEXT),
}
"""How to read types of NumPy, polars and Arrow; see :mod:`hedgerow.data.reading.columns`."""

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
        types = [_pandas_type(dtype) for dtype in X.dtypes.tolist()]
    elif library == "polars":
        types = [dtype.base_type().__name__.lower() for dtype in X.dtypes]
    else:
        types = [_arrow_type(field.type) for field in X.schema]
    targets = [_TYPES.get(name) for name in types]
    if any(target is None for target in targets):  # NumPy takes None for float64
        return None
    columns: Iterable[Sequence[Any]]
    if library == "pandas":
        columns = X.to_numpy(dtype=object).T.tolist()
    elif library == "polars":
        columns = zip(*X.rows(), strict=True)
    else:
        columns = (column.to_pylist() for column in X.columns)
    found: Columns = []
    for target, values, name in zip(targets, columns, names, strict=True):
        if target is _OBJECTS:
            found.append(read_objects(as_objects(values), name))
        elif target is _TEXT:
            found.append(_texts(values))
        elif (numbers := _numbers(values, target)) is not None:
            found.append(ReadColumn(numbers))
        else:
            return None
    return found


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


def _numbers(values: Sequence[Any], dtype: Any) -> AnyArray | None:
    """Convert numbers and missing values; return None if no int64 key can hold one."""
    known = [None if value != value else value for value in values]  # NaN
    if dtype != _I8:
        return np.array(known, dtype=dtype)
    if any(value is not None and not MISSING_KEY < value < 2**63 for value in known):
        return None  # the general reader raises the error
    return np.array([MISSING_KEY if value is None else value for value in known], dtype=dtype)


def _texts(values: Sequence[Any]) -> ReadColumn:
    """Encode a text column, in which every other object is a missing value."""
    missing = [not isinstance(value, str) for value in values]
    return encode_texts(values, np.array(missing) if any(missing) else None)


def _pandas_type(dtype: Any) -> Any:
    """Return a type of NumPy, or "string" for text and categories of text."""
    if isinstance(dtype, np.dtype):
        return dtype
    kind = type(dtype).__name__
    if kind == "CategoricalDtype":
        categories = dtype.categories
        is_text = type(categories.dtype).__name__ == "StringDtype"
        is_text = is_text or categories.inferred_type == "string"
        return "string" if is_text else ""
    return "string" if kind == "StringDtype" else ""


_ROWS_FOR_ARROW = 2000
"""Shorter text columns are encoded by a dict, which is faster than importing Arrow."""

FrameLibrary: TypeAlias = 'Literal["pandas", "polars", "pyarrow"] | None'
"""A data frame library; None means a dict of lists."""


@dataclass(frozen=True, slots=True)
class Frame:
    """An eager narwhals frame and its column names.

    ``named`` is False if the columns have only numbers, like the columns of a pandas frame
    made from an array.
    """

    native: Any
    names: tuple[str, ...]
    named: bool


def as_frame(X: object) -> Frame | None:
    """Wrap ``X`` as a frame, or return None if it is not one."""
    import narwhals.stable.v2 as nw

    if is_cudf(X):
        X = on_host(X)
    if _library_of(X) == "pyarrow" and type(X).__name__ == "RecordBatch":
        import pyarrow as pa

        X = pa.Table.from_batches([X])
    labels = None  # of a pandas or Arrow frame, before narwhals rejects duplicates
    if hasattr(X, "column_names"):
        labels = list(X.column_names)
    elif hasattr(X, "iloc") and hasattr(X, "columns"):
        labels = list(X.columns)
    if labels is not None and len(set(labels)) < len(labels):
        twice = sorted({str(label) for label in labels if labels.count(label) > 1})
        raise DataError(
            f"column names must differ, but these occur twice: {', '.join(twice)}. Rename or drop "
            "columns."
        )
    frame = nw.from_native(X, pass_through=True, allow_series=True)
    if isinstance(frame, nw.Series):
        raise DataError(
            "Expected a table of two dimensions, got a single column (Series) instead. "
            "Reshape your data: use X.to_frame() for one feature, X.to_frame().T for one row."
        )
    if isinstance(frame, nw.LazyFrame):
        raise DataTypeError("X is a lazy frame: call its collect() (or compute()) first.")
    if not isinstance(frame, nw.DataFrame):
        return None
    texts = [isinstance(label, str) for label in frame.columns]
    if all(texts):
        return Frame(frame, tuple(frame.columns), named=True)
    if any(texts):
        odd = frame.columns[texts.index(False)]
        raise DataTypeError(
            f"column names must be all text or all not, got {brief(odd)} among text: "
            "convert them, for example by X.columns = X.columns.astype(str)."
        )
    return Frame(frame, default_names(len(texts)), named=False)


def warn_of_labels(frame: Frame) -> None:
    """Warn if labels that are no text suggest an order of the columns, which has no effect."""
    # The labels 0, 1, 2, ... are those of a frame made from an array.
    if frame.named:
        return
    labels = list(frame.native.columns)
    if labels == list(range(len(labels))):
        return
    shown = ", ".join(map(repr, labels[:3])) + ", ..." * (len(labels) > 3)
    warnings.warn(
        f"the labels of the columns of X are no text ({shown}): columns are matched by position, "
        "whatever their labels. To match them by name, make the labels text: "
        "X.columns = list(map(str, X.columns)).",
        HedgerowWarning,
        stacklevel=2,
    )


def in_order(frame: Frame, schema: Schema) -> Frame:
    """Reorder the columns of ``frame`` by name to match ``schema``."""
    if not (frame.named and schema.named) or frame.names == schema.names:
        return frame
    check_same_names(frame.names, schema.names)
    return Frame(frame.native.select(list(schema.names)), schema.names, named=True)


def read_columns(frame: Frame) -> AnyArray | list[ReadColumn]:
    """Read all columns; those of one float type are an array."""
    # Numbers of one type are read together: a series of each column takes ten times as long.
    native, names, found = frame.native.to_native(), frame.names, {}
    is_pandas = frame.native.implementation.is_pandas()
    groups: dict[Any, list[int]] = {}
    dtypes = native.dtypes.tolist() if is_pandas else frame.native.schema.dtypes()
    for j, dtype in enumerate(dtypes):
        of_numpy = isinstance(dtype, np.dtype) and dtype.kind in "biuf"
        if of_numpy or (not is_pandas and dtype.is_float()):
            groups.setdefault(dtype, []).append(j)
    for dtype, places in groups.items():
        whole = len(places) == len(names)
        if is_pandas:
            block = (native if whole else native.iloc[:, places]).to_numpy()
        else:
            block = frame.native.select([frame.native.columns[j] for j in places]).to_numpy()
        if block.dtype.kind not in "biuf":
            continue
        numbers, kind = plain_numbers(block, [names[j] for j in places]), block.dtype.kind
        if whole and kind == "f":
            return numbers
        is_small = kind != "f" and block.dtype.itemsize < 8
        for j, column in zip(places, numbers.T, strict=True):
            found[j] = ReadColumn(column, is_small=is_small, dtype=dtype)
    rest = [j for j in range(len(names)) if j not in found]
    found |= {j: read_series(frame.native[:, j], names[j]) for j in rest}
    return [found[j] for j in range(len(names))]


def columns_by_name(X: object, names: Sequence[str]) -> dict[str, AnyArray]:
    """Return the columns of a mapping, frame or array as arrays, without reading their values."""
    if isinstance(X, Mapping):
        return {name: np.asarray(column) for name, column in X.items()}
    frame = as_frame(X)
    if frame is not None:
        columns = map(frame.native.get_column, frame.native.columns)
        return {
            # NumPy has no time zones.
            name: np.array(column.to_list(), dtype=object)
            if getattr(column.dtype, "time_zone", None)
            else np.asarray(column.to_numpy())
            for name, column in zip(frame.names, columns, strict=True)
        }
    array = np.asarray(X)
    if array.ndim != 2 or array.shape[1] != len(names):
        raise DataError(
            f"X must be a data frame, a mapping of columns, or an array of {len(names)} columns; "
            f"got {type(X).__name__} of shape {array.shape}."
        )
    return dict(zip(names, array.T, strict=True))


def read_series(series: Any, name: str) -> ReadColumn:
    """Read one column of an eager frame."""
    dtype = series.dtype
    kind = type(dtype).__name__
    try:
        native_type = getattr(series.to_native(), "dtype", None)
        if isinstance(native_type, np.dtype) and native_type.kind == "O" and kind != "String":
            return read_column(series.to_numpy(), name)
        found = _read_series(series, name)
    except (HedgerowError, MemoryError):
        raise
    except Exception as error:  # each library has errors of its own
        raise DataTypeError(
            f"column {name!r} has type {dtype}, which cannot be read: {error} Convert it to "
            "a usual type, for example to int64, float64 or text."
        ) from error
    found.dtype = dtype
    if kind in ("Categorical", "Enum"):
        found.is_category = True
        found.sort = found.sort if len(found.values) else None
        return found
    if found.sort is None and kind != "Unknown":  # the type tells, without values
        found.sort = "times" if kind == "Time" else "numbers"
    found.is_small = kind in ("Boolean", "Time") or dtype.is_integer()
    return found


def _read_series(series: Any, name: str) -> ReadColumn:
    dtype = series.dtype
    kind = type(dtype).__name__
    if kind in ("List", "Array", "Struct", "Binary"):
        raise DataTypeError(text_message(name, dtype))
    if kind in ("Categorical", "Enum"):
        return _read_categories(series, name)
    native = series.to_native()
    native_dtype = getattr(native, "dtype", None)
    # In a NumPy column only NaN is missing.
    if isinstance(native_dtype, np.dtype) and native_dtype.kind in "biuf":
        return read_column(np.asarray(native), name)
    if kind == "String":
        return _read_text(series, name)
    if kind in ("Decimal", "Time", "Int128", "UInt128"):
        return read_objects(as_objects(series.to_list()), name)
    if kind == "Datetime" and dtype.time_zone is not None:
        series = series.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        ticks = read_column(series.to_numpy(), name)
        ticks.sort = "zoned dates"
        return ticks
    if kind == "Boolean" or dtype.is_integer():
        missing = series.is_null().to_numpy()
        if missing.any():
            filled = series.fill_null(False if kind == "Boolean" else 0).to_numpy()
            return read_column(np.ma.MaskedArray(filled, missing), name)
    return read_column(series.to_numpy(), name)


def _read_text(series: Any, name: str) -> ReadColumn:
    native = series.to_native()
    dtype = getattr(native, "dtype", None)
    of_arrow = getattr(dtype, "storage", None) == "pyarrow"
    long_enough = of_arrow or len(series) >= _ROWS_FOR_ARROW
    is_object = isinstance(dtype, np.dtype)
    if is_object or not long_enough or find_spec("pyarrow") is None:
        column = read_objects(
            series.to_numpy() if is_object else as_objects(series.to_list()), name
        )
        # read_objects cannot know that a column of nulls is text.
        return column if column.is_text else text_column([], np.full(len(column), -1))
    return encode_arrow(native if series.implementation.is_pyarrow() else series.to_arrow())


def _read_categories(series: Any, name: str) -> ReadColumn:
    """Read the values of the dictionary as a column, and the code of each row."""
    import narwhals.stable.v2 as nw

    if series.implementation.is_polars():
        # A polars dictionary may hold values of other columns: read the text instead.
        return _read_text(series.cast(nw.String), name)
    native = series.to_native()
    if hasattr(getattr(native, "dtype", None), "categories"):
        values, codes = native.cat.categories.to_series(), native.cat.codes.to_numpy()
    else:
        import pyarrow as pa

        array = native if isinstance(native, pa.ChunkedArray) else series.to_arrow()
        if isinstance(array, pa.ChunkedArray):
            array = array.unify_dictionaries().combine_chunks()
        values, codes = pa.chunked_array([array.dictionary]), arrow_codes(array)
    if len(values) == 0:
        return text_column([], codes)
    found = read_series(nw.from_native(values, series_only=True), name)
    if found.codes is not None:  # of texts, each of which is a value once
        codes = ReadColumn([], codes).spread(found.codes)
    return ReadColumn(found.values, codes, found.sort)


def make_frame(columns: dict[str, list[Any]], backend: FrameLibrary) -> Any:
    """Build a data frame of the library ``backend``; None returns the dict itself."""
    # For polars and pyarrow, columns with lists of text and lists of numbers become text.
    known = ("pandas", "polars", "pyarrow")
    if backend is None:
        return columns
    if not is_one_of(backend, known):
        raise ParameterError(
            f"backend must be 'pandas', 'polars', 'pyarrow' or None; got {brief(backend)}."
            f"{did_you_mean(backend, known)}"
        )
    import narwhals as nw

    if backend != "pandas":
        columns = {name: _lists_of_one_type(column) for name, column in columns.items()}
    return nw.from_dict(columns, backend=backend).to_native()


def _lists_of_one_type(column: list[Any]) -> list[Any]:
    """Convert the values of all lists in a column to one type; mixed ones to float or text."""
    if not any(isinstance(entry, list) for entry in column):
        return column
    types = {type(value) for entry in column if entry is not None for value in entry}
    if len(types) < 2:
        return column
    convert = float if types <= {int, float} else str
    return [None if entry is None else [convert(value) for value in entry] for entry in column]
