"""Read data frames of any library, column by column, through narwhals.

narwhals recognises frames of pandas, polars, pyarrow, modin, cuDF and others without
importing the library.  Nulls, ``NaN`` and ``NaT`` are missing values.

Long text columns are encoded by Arrow if it is installed, others by a Python dict.
Categorical columns are encoded by the values of their dictionary, in any order.

Common types of pandas, polars and Arrow are read without narwhals, whose wrappers take most of the
time of a short frame.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal, TypeAlias

import numpy as np

from hedgerow.argument_types import is_one_of
from hedgerow.arrays import AnyArray, IntArray
from hedgerow.cuda.arrays import is_cudf, on_host
from hedgerow.data.categories.columns import arrow_codes, encode_arrow, text_column
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

_FRAMES = {"pandas": "DataFrame", "polars": "DataFrame", "pyarrow": "Table"}
_FLOATS = {"Float64", "Float32", "double", "float"}
_WHOLE = {f"{kind}{size}" for kind in ("Int", "UInt", "int", "uint") for size in (8, 16, 32, 64)}
_WHOLE |= {"Boolean", "bool"}
_ONE_FLOAT = ({"Float64"}, {"Float32"})
"""Types of polars and Arrow."""

_FEW_ROWS, _MOST_ROWS, _FEW_COLUMNS = 200, 2000, 12
"""Text of more rows is encoded by Arrow, if it has the text already, and if it has to be imported.
Shorter pandas frames are converted to objects, fewer columns of other frames are read singly."""

FrameLibrary: TypeAlias = 'Literal["pandas", "polars", "pyarrow"] | None'
"""A data frame library; None means a dict of lists."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame and its column names.

    ``named`` is False if the columns have only numbers, like the columns of a pandas frame
    made from an array.
    """

    table: Any  # of the library; frames of other libraries are converted to pandas
    library: FrameLibrary
    names: tuple[str, ...]
    named: bool

    @property
    def columns(self) -> Iterable[Any]:
        """The columns in the types of the library."""
        if self.library == "pandas":
            return (series for _, series in self.table.items())
        columns: Iterable[Any] = self.table.columns
        return columns if self.library == "pyarrow" else self.table.iter_columns()

    def select(self, names: Sequence[str]) -> Any:
        """Return a frame of the library with some of the columns."""
        chosen = list(names)
        return self.table[chosen] if self.library == "pandas" else self.table.select(chosen)


def as_frame(X: Any) -> Frame | None:
    """Wrap ``X`` as a frame, or return None if it is not one."""
    if is_cudf(X):
        X = on_host(X)
    library: Any = type(X).__module__.partition(".")[0]
    if library == "pyarrow" and type(X).__name__ == "RecordBatch":
        import pyarrow as pa

        X = pa.Table.from_batches([X])
    if _FRAMES.get(library) != type(X).__name__:
        if hasattr(X, "iloc") and hasattr(X, "columns"):
            _check_distinct(list(X.columns))  # before narwhals rejects duplicates
        import narwhals.stable.v2 as nw

        X = nw.from_native(X, pass_through=True, allow_series=True)
        if isinstance(X, nw.Series):
            raise DataError(
                "Expected a table of two dimensions, got a single column (Series) instead. Reshape "
                "your data: use X.to_frame() for one feature, X.to_frame().T for one row."
            )
        if isinstance(X, nw.LazyFrame):
            raise DataTypeError("X is a lazy frame: call its collect() (or compute()) first.")
        if not isinstance(X, nw.DataFrame):
            return None
        library = X.implementation.value
        library = library if library in _FRAMES else "pandas"
        X = X.to_pandas() if library == "pandas" else X.to_native()
        if library == "pandas":  # columns of a class derived from its frames may be of another
            X = import_module("pandas").DataFrame(X)
    labels = X.column_names if library == "pyarrow" else X.columns
    labels = labels.tolist() if library == "pandas" else labels
    _check_distinct(labels)
    texts = [isinstance(label, str) for label in labels]
    if all(texts):
        return Frame(X, library, tuple(labels), named=True)
    if any(texts):
        odd = labels[texts.index(False)]
        raise DataTypeError(
            f"column names must be all text or all not, got {brief(odd)} among text: "
            "convert them, for example by X.columns = X.columns.astype(str)."
        )
    return Frame(X, library, default_names(len(texts)), named=False)


def _check_distinct(labels: Sequence[Any]) -> None:
    if len(set(labels)) < len(labels):
        twice = sorted({str(label) for label in labels if labels.count(label) > 1})
        raise DataError(
            f"column names must differ, but these occur twice: {', '.join(twice)}. Rename or drop "
            "columns."
        )


def warn_of_labels(frame: Frame) -> None:
    """Warn if labels that are no text suggest an order of the columns, which has no effect."""
    # The labels 0, 1, 2, ... are those of a frame made from an array.
    if frame.named:
        return
    labels = list(frame.table.columns)
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
    return Frame(frame.select(schema.names), frame.library, schema.names, named=True)


def read_columns(frame: Frame) -> AnyArray | list[ReadColumn]:
    """Read all columns; those of one float type are an array."""
    table, names = frame.table, frame.names
    if frame.library == "pandas":
        return _read_pandas_frame(frame)
    if frame.library == "polars" and {str(dtype) for dtype in table.dtypes} in _ONE_FLOAT:
        return plain_numbers(table.to_numpy(), names)
    return [read_series(column, n) for column, n in zip(frame.columns, names, strict=True)]


def _read_pandas_frame(frame: Frame) -> AnyArray | list[ReadColumn]:
    table, names = frame.table, frame.names
    # An array takes less time than series of many columns, if there are few rows even of objects.
    dtypes, found = table.dtypes.tolist(), dict[int, ReadColumn]()
    is_short = len(table) <= _FEW_ROWS and any(dtype != dtypes[0] for dtype in dtypes)
    objects = table.to_numpy(dtype=object) if is_short else None
    groups: dict[Any, list[int]] = {}
    for j, dtype in enumerate(dtypes):
        if isinstance(dtype, np.dtype) and dtype.kind in "biuf":
            groups.setdefault(dtype, []).append(j)
        elif objects is not None:
            values = dtype.categories if hasattr(dtype, "categories") else dtype
            if str(getattr(values, "dtype", values)) in ("object", "str", "string"):
                found[j] = _text_if_nothing(read_objects(objects[:, j], names[j]))
                found[j].is_category |= values is not dtype
    for dtype, places in groups.items():
        whole = len(places) == len(names)
        if objects is not None:
            block = objects[:, places].astype(dtype)
        elif frame.named and not whole and len(places) < _FEW_COLUMNS:
            continue
        else:
            block = (table if whole else table.take(places, axis=1)).to_numpy()
        numbers = plain_numbers(block, [names[j] for j in places])
        if whole and dtype.kind == "f":
            return numbers
        is_small = dtype.kind != "f" and dtype.itemsize < 8
        for j, column in zip(places, numbers.T, strict=True):
            found[j] = ReadColumn(column, is_small=is_small)
    for j, dtype in enumerate(dtypes):
        if j not in found:
            # A label is found in half of the time of a place.
            series = table[names[j]] if frame.named else table.iloc[:, j]
            found[j] = read_series(series, names[j])
        found[j].dtype = dtype
    return [found[j] for j in range(len(names))]


def columns_by_name(X: object, names: Sequence[str]) -> dict[str, AnyArray]:
    """Return the columns of a mapping, frame or array as arrays, without reading their values."""
    if isinstance(X, Mapping):
        return {name: np.asarray(column) for name, column in X.items()}
    frame = as_frame(X)
    if frame is not None:
        import narwhals.stable.v2 as nw

        columns = nw.from_native(frame.table).iter_columns()
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
    """Read a column of a frame, in the type of its library."""
    dtype = series.dtype if hasattr(series, "dtype") else series.type  # of Arrow
    try:
        found = _READERS[type(series).__module__.partition(".")[0]](series, dtype, name)
        if found is None:
            found = _read_other(series, name)
    except (HedgerowError, MemoryError):
        raise
    except Exception as error:  # each library has errors of its own
        raise DataTypeError(
            f"column {name!r} has type {dtype}, which cannot be read: {error} Convert it to "
            "a usual type, for example to int64, float64 or text."
        ) from error
    found.dtype = dtype
    return found


def _read_pandas(series: Any, dtype: Any, name: str) -> ReadColumn | None:
    """Read a series or an index of pandas; return None for the types that narwhals reads."""
    kind = type(dtype).__name__
    if isinstance(dtype, np.dtype):
        return _text_if_nothing(read_column(series.to_numpy(), name))
    if kind == "CategoricalDtype":
        return _coded(read_series(dtype.categories, name), series.array.codes)
    if kind == "StringDtype":
        return _read_texts(series, _FEW_ROWS if dtype.storage == "pyarrow" else _MOST_ROWS)
    if kind == "ArrowDtype":
        import pyarrow as pa

        return read_series(pa.chunked_array([pa.array(series.array)]), name)
    if hasattr(dtype, "numpy_dtype"):  # with a mask
        numbers = series.to_numpy(dtype.numpy_dtype, na_value=0)
        return read_column(np.ma.MaskedArray(numbers, np.asarray(series.isna())), name)
    return None


def _read_polars(series: Any, dtype: Any, name: str) -> ReadColumn | None:
    """Read a series of polars; return None for the types that narwhals reads."""
    kind = type(dtype).__name__
    if kind in _FLOATS:
        return ReadColumn(series.to_numpy())
    if kind in _WHOLE and not series.null_count():
        return read_column(series.to_numpy(), name)
    if kind in ("Categorical", "Enum"):
        # A dictionary may hold values of other columns: read the text instead.
        found = read_series(series.cast(str), name)
        found.sort = "text" if len(found.values) else None
        return found
    if kind == "String":
        return _read_texts(series, _MOST_ROWS)
    return None


def _read_arrow(column: Any, dtype: Any, name: str) -> ReadColumn | None:
    """Read a column of Arrow; return None for the types that narwhals reads."""
    kind = str(dtype)
    if kind in _FLOATS:
        return ReadColumn(column.to_numpy())
    if kind in _WHOLE and not column.null_count:
        return read_column(column.to_numpy(), name)
    if kind.startswith("dictionary"):
        import pyarrow as pa

        array = column.unify_dictionaries().combine_chunks()
        return _coded(read_series(pa.chunked_array([array.dictionary]), name), arrow_codes(array))
    if kind in ("string", "large_string", "string_view"):
        return _read_texts(column, _FEW_ROWS)
    return None


_READERS = {"pandas": _read_pandas, "polars": _read_polars, "pyarrow": _read_arrow}


def _read_texts(series: Any, most: int) -> ReadColumn:
    """Read text, by Arrow if there are more rows than ``most``."""
    if len(series) > most and find_spec("pyarrow") is not None:
        import pyarrow as pa

        if hasattr(series, "to_arrow"):  # of polars
            series = series.to_arrow()
        return encode_arrow(series if hasattr(series, "type") else pa.array(series.array))
    texts = series.to_pylist() if hasattr(series, "to_pylist") else series.to_list()
    return _text_if_nothing(read_objects(as_objects(texts), ""))


def _text_if_nothing(found: ReadColumn) -> ReadColumn:
    """Return a column of objects; of text if there are no values, which do not tell."""
    return text_column([], np.full(len(found), -1)) if found.sort is None else found


def _coded(found: ReadColumn, codes: IntArray) -> ReadColumn:
    """Return a column of categories from their values and the code of each row."""
    if len(found) == 0:
        return ReadColumn([], codes, None, is_category=True)
    if found.codes is not None:  # of texts, each of which is a value once
        codes = ReadColumn([], codes).spread(found.codes)
    return ReadColumn(found.values, codes, found.sort, is_category=True)


def _read_other(series: Any, name: str) -> ReadColumn:
    """Read a column of a type that is less common, by narwhals."""
    import narwhals.stable.v2 as nw

    series = nw.from_native(
        series.to_series() if hasattr(series, "to_series") else series, series_only=True
    )
    dtype = series.dtype
    kind = type(dtype).__name__
    if kind in ("List", "Array", "Struct", "Binary"):
        raise DataTypeError(text_message(name, dtype))
    if kind in ("Decimal", "Time", "Int128", "UInt128"):
        found = read_objects(as_objects(series.to_list()), name)
        found.sort = found.sort or ("times" if kind == "Time" else "numbers")
        return found
    if kind == "Datetime" and dtype.time_zone is not None:
        series = series.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        ticks = read_column(series.to_numpy(), name)
        ticks.sort = "zoned dates"
        return ticks
    if kind == "Boolean" or dtype.is_integer():
        missing = series.is_null().to_numpy()
        filled = series.fill_null(False if kind == "Boolean" else 0).to_numpy()
        return read_column(np.ma.MaskedArray(filled, missing), name)
    return read_column(series.to_numpy(), name)


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
