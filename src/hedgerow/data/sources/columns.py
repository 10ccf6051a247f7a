"""Columns of a batch, read like columns of tables in memory, with facts from their types.

Glossary
--------
sort         numbers, text, dates, durations or times: values of two sorts have no
             common order, so a column has one sort
exact        representation of integers: ``"any"`` (up to 32 bits, exact in float64),
             ``"wide"`` (64 bits, compared as int64), ``"float"``
types_known  reading mode that ignores types, as for text files: integers become floats
             if floats hold them exactly, and only text is categorical

::

    frame, dict or array of a batch
        |  data.frames, data.rows: validation of inputs, column by column
        v
    ReadColumn: plain numbers or encoded values, and their sort
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import AnyArray, BoolArray
from hedgerow.cuda.arrays import on_host
from hedgerow.data.categories.columns import (
    Encoded,
    PlainOrEncoded,
    Ticks,
    nearly_numbers,
    plain_of,
    untyped,
)
from hedgerow.data.categories.levels import is_missing
from hedgerow.data.reading.columns import with_missing
from hedgerow.data.reading.frames import as_frame, read_series, warn_of_labels
from hedgerow.data.reading.objects import sort_of
from hedgerow.data.reading.rows import is_named, named_columns, read_column
from hedgerow.data.reading.temporal import with_temporal
from hedgerow.data.schema import Temporal, default_names
from hedgerow.errors import DataError, DataTypeError, brief

Sort: TypeAlias = Literal["numbers", "text"] | Temporal
Exact: TypeAlias = Literal["any", "wide", "float"]

_OF_DTYPE: dict[str, Sort] = {
    "String": "text",
    "Date": "dates",
    "Datetime": "dates",
    "Duration": "durations",
    "Time": "times",
}
_OF_KIND: dict[str, Sort] = {"U": "text", "T": "text", "M": "dates", "m": "durations"}


@dataclass(frozen=True, slots=True, eq=False)
class ReadColumn:
    """A column of a batch.

    Attributes
    ----------
    values : plain numbers or Encoded
    sort : str or None
        None if the type tells nothing and there are no values.
    exact : {"any", "wide", "float"}
    is_category : bool
        Whether the type is categorical: text, or a dictionary.
    type_name : str
        Name of the type in the file or frame.
    """

    values: AnyArray | Encoded
    sort: Sort | None
    exact: Exact
    is_category: bool
    type_name: str

    def __len__(self) -> int:
        return len(self.values.codes if isinstance(self.values, Encoded) else self.values)

    def typed(self) -> PlainOrEncoded:
        """Return the values with what they are, if they are dates, times or durations."""
        if self.sort is None or self.sort == "numbers" or self.sort == "text":
            return self.values
        return with_temporal(self.values, self.sort)

    def missing(self) -> BoolArray:
        """Return a mask of the missing values."""
        if not isinstance(self.values, Encoded):
            return is_missing(self.values)
        gone: BoolArray = self.values.codes < 0
        if isinstance(self.values.values, np.ndarray) and len(self.values.values):
            gone = gone | is_missing(self.values.values)[self.values.codes]
        return gone

    def plain(self, message: str) -> AnyArray:
        """Return the numbers; raise ``DataTypeError`` with ``message`` for text."""
        return plain_of(self.values, message)

    def as_array(self) -> AnyArray:
        """Return the values: numbers, or Python objects with None for missing values."""
        if not isinstance(self.values, Encoded):
            return self.values
        known = self.values.values
        texts = known if isinstance(known, np.ndarray) else list(known)
        items = np.empty(len(texts) + 1, dtype=object)
        items[:-1] = texts
        return items[self.values.codes]  # -1 picks the last, None

    def take(self, rows: AnyArray) -> ReadColumn:
        """Return the column with some of the rows."""
        if isinstance(self.values, Encoded):
            values: AnyArray | Encoded = replace(self.values, codes=self.values.codes[rows])
        else:
            values = self.values[rows]
        return ReadColumn(values, self.sort, self.exact, self.is_category, self.type_name)


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """All columns of a batch by name; ``named`` is False if the names are generated."""

    by_name: Mapping[str, ReadColumn]
    named: bool
    n_rows: int


def read_columns(X: Any, wanted: Sequence[str] | None = None) -> Columns:
    """Read a batch of any kind that :func:`hedgerow.data.read_table` accepts, except sparse."""
    if is_named(X):
        named = named_columns(X)
        found = {n: _of_array(c, n) for n, c in named.items() if _is_wanted(n, wanted)}
        return Columns(found, True, len(next(iter(named.values()), ())))
    if not isinstance(X, np.ndarray | list | tuple):
        frame = as_frame(X)
        if frame is not None:
            warn_of_labels(frame)
            # Look up by label: pandas labels may be numbers.
            series = zip(frame.native.iter_columns(), frame.names, strict=True)
            read = {name: _of_series(s, name) for s, name in series if _is_wanted(name, wanted)}
            return Columns(read, frame.named, int(frame.native.shape[0]))
    array: AnyArray = X if isinstance(X, np.ma.MaskedArray) else np.asarray(on_host(X))
    if array.ndim != 2:
        raise DataError(f"a batch must have two axes, rows and columns; got shape {array.shape}.")
    names = default_names(array.shape[1])
    read = {n: _of_array(array[:, j], n) for j, n in enumerate(names) if _is_wanted(n, wanted)}
    return Columns(read, False, len(array))


def _is_wanted(name: str, wanted: Sequence[str] | None) -> bool:
    return wanted is None or name in wanted


def _of_series(series: Any, name: str) -> ReadColumn:
    dtype = series.dtype
    kind = type(dtype).__name__
    native_type = getattr(series.to_native(), "dtype", None)
    if isinstance(native_type, np.dtype) and native_type.kind == "O" and kind != "String":
        return _of_array(series.to_numpy(), name)
    found = read_series(series, name)
    values, type_name = untyped(found), str(dtype)
    if kind in ("Categorical", "Enum"):
        return ReadColumn(values, _sort_of_values(values), _exact(values), True, type_name)
    if kind == "Unknown":
        return ReadColumn(values, None, "any", False, type_name)
    sort: Sort = "text" if isinstance(values, Encoded) else _OF_DTYPE.get(kind, "numbers")
    if isinstance(found, Ticks):
        sort = found.temporal
    # Times without values are read as floats.
    small = kind in ("Boolean", "Time") or dtype.is_integer()
    small = small and _exact(values) != "wide"
    exact: Exact = "any" if small else _exact(values)
    return ReadColumn(values, sort, exact, sort == "text", type_name)


def _of_array(column: AnyArray, name: str) -> ReadColumn:
    found = read_column(column, name)
    values, type_name = untyped(found), str(column.dtype)
    if isinstance(values, Encoded):
        return ReadColumn(values, "text", "any", True, type_name)
    kind = column.dtype.kind
    if kind == "O":
        sort, small = _sort_of_objects(column)
        exact: Exact = "any" if small or sort is None else _exact(values)
        if isinstance(found, Ticks):
            sort = found.temporal
        return ReadColumn(values, sort, exact, False, type_name)
    small = kind == "b" or (kind in "iu" and values.dtype != np.int64)
    return ReadColumn(
        values, _OF_KIND.get(kind, "numbers"), "any" if small else _exact(values), False, type_name
    )


def _exact(values: AnyArray | Encoded) -> Exact:
    numbers = values.values if isinstance(values, Encoded) else values
    if not isinstance(numbers, np.ndarray):
        return "any"
    return "wide" if numbers.dtype == np.int64 else "float"


def _sort_of_values(values: AnyArray | Encoded) -> Sort | None:
    """Return the sort of a dictionary's values, which the column type does not tell."""
    if isinstance(values, Encoded):
        if not isinstance(values.values, np.ndarray):
            return "text" if len(values.values) else None
        return (values.temporal or "numbers") if len(values.values) else None
    return "numbers"


def _sort_of_objects(column: AnyArray) -> tuple[Sort | None, bool]:
    """Return the sort of Python objects, and whether all of them are booleans."""
    kinds = {type(item) for item in column.tolist()}
    sorts: list[Any] = [sort for kind in kinds if (sort := sort_of(kind)) is not None]
    # NaN is a float also among text or dates.
    others = [sort for sort in sorts if sort != "numbers"]
    if others:
        return others[0], False
    held = {kind for kind in kinds if sort_of(kind) == "numbers"}
    if not held or (held == {float} and all(x != x for x in column.tolist() if type(x) is float)):
        return None, False
    return "numbers", held <= {bool, np.bool_}


def floats_of(values: AnyArray) -> AnyArray:
    """Convert plain numbers to the nearest float64, as with ``types_known``."""
    if values.dtype != np.int64:
        return values
    return with_missing(values.astype(np.float64), is_missing(values))


def vector_of(column: ReadColumn, name: str, role: str) -> npt.NDArray[np.float64]:
    """Convert a target, weight or offset to float64.

    Raise ``DataTypeError`` if the column does not hold numbers.
    """
    hint = ""
    if isinstance(column.values, Encoded) and not isinstance(column.values.values, np.ndarray):
        codes = column.values.codes
        counts = np.bincount(codes[codes >= 0], minlength=len(column.values.values))
        found = nearly_numbers(column.values.values, counts)
        hint = "" if found is None else f" {found}, but not {brief(found.odd)}."
    numbers = column.plain(
        f"{role} column {name!r} has type {column.type_name}, but must hold numbers.{hint}"
    )
    if column.sort not in (None, "numbers"):
        raise DataTypeError(f"{role} column {name!r} holds {column.sort}, but must hold numbers.")
    return np.ascontiguousarray(floats_of(numbers), dtype=np.float64)
