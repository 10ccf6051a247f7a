"""Read Python objects: columns, a dict (one row, or columns), or a list of dicts (rows).

A column must hold values of one sort.  Mixed values would have no common order, and the
next table might read them differently.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from hedgerow.arrays import MISSING_KEY, AnyArray, BoolArray
from hedgerow.cuda.arrays import on_host
from hedgerow.data.categories.columns import encode_texts, text_column
from hedgerow.data.reading import columns as col
from hedgerow.errors import DataError, DataTypeError, brief

MISSING_TYPES = ("NoneType", "NAType", "NaTType")  # None, pandas.NA, pandas.NaT
_TEXT_TYPES = ("Interval", "Period")
"""Types of pandas whose values are read as their text form."""

_MOST_DAYS = 106_751_990
"""Days of a duration that int64 holds in microseconds."""


def read_objects(column: AnyArray, name: str) -> col.ReadColumn:
    """Read an array of objects."""
    items = column.tolist()
    encoded = encode_texts(items)
    if encoded is not None:
        return encoded
    missing = missing_items(items)
    rows = range(len(items)) if missing is None else np.flatnonzero(~missing).tolist()
    present = items if missing is None else [items[row] for row in rows]
    sort = _sort(present, rows, name)
    if sort == "text":
        texts = np.full(len(items), None)
        texts[rows] = as_objects([str(item) for item in present])
        return read_objects(texts, name)
    if not present:
        return col.ReadColumn(np.full(len(items), np.nan), sort=None)
    if sort == "numbers":
        values = _numbers(present, rows, name)
    else:
        values = _moments(present, sort, rows, name)
    if missing is None:
        column = col.plain_numbers(values[:, None], [name])[:, 0]
    else:
        all_rows = np.zeros((len(items), 1), dtype=values.dtype)
        all_rows[rows, 0] = values
        column = col.with_missing(col.plain_numbers(all_rows, [name])[:, 0], missing)
    if sort == "dates" and has_zone(present[0]):
        sort = "zoned dates"
    return col.ReadColumn(column, sort=sort, is_small=values.dtype.kind == "b")


def missing_items(items: Sequence[Any]) -> BoolArray | None:
    """Return the mask of missing items; None if no item has a type that can be missing."""
    types = set(map(type, items))
    always = {kind for kind in types if kind.__name__ in MISSING_TYPES}
    perhaps = {
        kind
        for kind in types
        if issubclass(kind, (float, np.floating, Decimal, np.datetime64, np.timedelta64))
    }
    if not always and not perhaps:
        return None
    return np.fromiter(
        (  # a signalling Decimal has no comparison
            type(x) in always
            or (type(x) in perhaps and (x.is_nan() if isinstance(x, Decimal) else bool(x != x)))
            for x in items
        ),
        np.bool_,
        len(items),
    )


def sort_of(kind: type) -> col.Sort | None:
    """Return "text", "durations", "dates", "times" or "numbers"; None for other types."""
    if issubclass(kind, str) or kind.__name__ in _TEXT_TYPES:
        return "text"
    if issubclass(kind, (dt.timedelta, np.timedelta64)):  # timedelta64 is also an np.number
        return "durations"
    if issubclass(kind, (dt.date, np.datetime64)):
        return "dates"
    if issubclass(kind, dt.time):
        return "times"
    if issubclass(kind, (bool, int, float, np.number, np.bool_, Decimal)):
        return "numbers"
    return None


def _sort(items: Sequence[Any], rows: Sequence[int], name: str) -> col.Sort:
    """Return the common sort of items that are not missing; raise if there is none."""
    sorts = {kind: sort_of(kind) for kind in set(map(type, items))}
    if len(set(sorts.values())) <= 1 and None not in sorts.values():
        return next(filter(None, sorts.values()), "numbers")
    first: dict[str, tuple[int, Any]] = {}
    for row, item in zip(rows, items, strict=True):
        sort = sorts[type(item)]
        if sort is None:
            cure = "Convert the column to numbers or text, or drop it."
            if isinstance(item, list | tuple | set | frozenset | Mapping | np.ndarray):
                cure = (
                    "A cell holds one value: put the items into columns of their own, or drop it."
                )
            raise DataTypeError(
                f"column {name!r} holds {brief(item)} (row {row}), a {type(item).__name__}: each "
                "argument must be a number, not a string or another object that could be read "
                f"as a number. {cure}"
            )
        first.setdefault(sort, (row, item))
    parts = [f"{sort} ({brief(item)}, row {row})" for sort, (row, item) in first.items()]
    raise DataTypeError(
        f"column {name!r} mixes {' and '.join(parts)}: convert it to one type "
        "(text, numbers or dates)."
    )


def _moments(items: Sequence[Any], sort: str, rows: Sequence[int], name: str) -> AnyArray:
    """Convert dates, durations or times to an array; ``rows`` are their row numbers."""
    if sort == "dates":
        zoned = list(map(has_zone, items))
        if any(zoned) and not all(zoned):
            one, other = zoned.index(True), zoned.index(False)
            raise DataTypeError(
                f"column {name!r} mixes dates with a time zone ({brief(items[one])}, row "
                f"{rows[one]}) and without one ({brief(items[other])}, row {rows[other]}): give "
                "all of them a zone, or none."
            )
        near = _in_reach(items, rows, name)
        if any(zoned):
            near = [item.astimezone(dt.UTC).replace(tzinfo=None) for item in near]
        return np.array(near, dtype="M8[us]")
    if sort == "durations":
        return np.array(_in_reach(items, rows, name), dtype="m8[us]")
    return np.array([since_midnight(item) for item in items])


def _in_reach(items: Sequence[Any], rows: Sequence[int], name: str) -> list[Any]:
    """Return dates or durations, those of NumPy in microseconds; raise if int64 cannot hold one."""
    found = list(items)
    for place, (row, item) in enumerate(zip(rows, items, strict=True)):
        if isinstance(item, np.generic):
            ticks = col.in_microseconds(np.array([[item]]), [name], row)[0, 0]
            found[place] = np.array(ticks).view(f"{item.dtype.kind}8[us]")[()]
        elif isinstance(item, dt.timedelta) and abs(item.days) > _MOST_DAYS:
            raise col.too_far(name, item, row)
    return found


def _numbers(items: Sequence[Any], rows: Sequence[int], name: str) -> AnyArray:
    """Convert numbers to an array; ``rows`` holds their row numbers, for error messages."""
    found: AnyArray = np.array([float(x) if isinstance(x, Decimal) else x for x in items])
    if found.dtype.kind in "biu":
        return found
    whole = [isinstance(x, int | np.integer) for x in items]  # bool is an int
    if all(whole):
        for row, item in zip(rows, items, strict=True):
            if not MISSING_KEY < item <= col.LARGEST_INT:
                raise col.out_of_range(name, item, row)
        return np.array(items, dtype=np.int64)
    if found.dtype.kind == "O":  # integers beyond 64 bits
        large: Iterable[int] = range(len(items))
    else:
        large = np.flatnonzero(np.abs(found) >= col.LARGEST_EXACT).tolist()
    for k in large:
        if whole[k] and not col.is_exact(items[k]):
            other = whole.index(False)
            raise DataError(
                f"column {name!r} holds {col.shown(items[k])} (row {rows[k]}), which "
                f"float64 cannot hold, but also {brief(items[other])} (row {rows[other]}), a "
                f"{type(items[other]).__name__}: convert the column to float64, which rounds, or "
                "to text."
            )
    return found.astype(np.float64) if found.dtype.kind == "O" else found


def has_zone(item: Any) -> bool:
    """Return whether an object is a date with a time zone."""
    return isinstance(item, dt.datetime) and item.tzinfo is not None


def since_midnight(time: dt.time) -> int:
    """Return the microseconds since midnight."""
    seconds = (time.hour * 60 + time.minute) * 60 + time.second
    return seconds * 1_000_000 + time.microsecond


_SORTS: dict[str, col.Sort] = {"M": "dates", "m": "durations"}


def is_named(X: object) -> bool:
    """Return whether X is a dict, or a list of dicts."""
    return isinstance(X, Mapping) or (
        isinstance(X, list | tuple) and len(X) > 0 and isinstance(X[0], Mapping)
    )


def named_columns(X: Any) -> dict[str, AnyArray]:
    """Return the columns of a dict or a list of dicts, by name."""
    if not isinstance(X, Mapping):
        return _columns_of_rows(X)
    _check_names(X)
    # The first value tells a row from columns of data frames: a check of all would be slower.
    lists = any(isinstance(values, list | tuple | np.ndarray) for values in X.values())
    if not lists and not _is_series(next(iter(X.values()), None)):
        return _columns_of_rows([X])
    columns: dict[str, AnyArray] = {}
    for name, values in X.items():
        if isinstance(values, list | tuple):
            columns[name] = as_objects(values)
        elif isinstance(values, np.ndarray) or _is_series(values):
            columns[name] = np.asanyarray(on_host(values))
        else:
            raise DataTypeError(
                f"column {name!r} is a {type(values).__name__}, others are lists: give a dict "
                "of scalars (one row), or of lists or arrays (columns)."
            )
        if columns[name].ndim != 1:
            raise DataError(
                f"column {name!r} must have one axis, got shape {columns[name].shape}: give one "
                "value for each row."
            )
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        first = next(iter(lengths))
        other = next(name for name in lengths if lengths[name] != lengths[first])
        raise DataError(
            f"columns must have one length, but {first!r} has {lengths[first]} values and "
            f"{other!r} has {lengths[other]}: make the lists equally long."
        )
    return columns


def _is_series(values: Any) -> bool:
    """Return whether this is a column of a data frame."""
    # Scalars of NumPy convert to arrays, too; its text even has a length.
    if isinstance(values, np.ndarray | np.generic) or not hasattr(values, "__array__"):
        return False
    return hasattr(values, "__len__")


def as_objects(values: Sequence[Any]) -> AnyArray:
    """Return an array of objects."""
    return np.fromiter(values, dtype=object, count=len(values))


def _check_names(row: Mapping[Any, Any]) -> None:
    for name in row:
        if not isinstance(name, str):
            raise DataTypeError(
                f"names of columns must be text, got {brief(name)}: use str({name!r})."
            )


def _columns_of_rows(rows: Sequence[Any]) -> dict[str, AnyArray]:
    names = rows[0]
    _check_names(names)
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise DataTypeError(
                f"row {number} is a {type(row).__name__}, but row 0 is a dict: give a dict for "
                "each row."
            )
        if row.keys() != names.keys():
            different, problem = sorted(names.keys() - row.keys(), key=str), "is missing from"
            if not different:
                different, problem = sorted(row.keys() - names.keys(), key=str), "is new in"
            raise DataError(
                f"column {different[0]!r} {problem} row {number}: all rows must have the columns "
                "of row 0. Give None for a missing value."
            )
    return {name: as_objects([row[name] for row in rows]) for name in names}


def read_column(column: AnyArray, name: str) -> col.ReadColumn:
    """Read a one-dimensional array of any type."""
    dtype = column.dtype
    if dtype.kind in "UTO":
        found = read_objects(column if dtype.kind == "O" else column.astype(object), name)
        if dtype.kind != "O" and not found.is_text:  # text without values
            found = text_column([], np.full(len(column), -1))
        found.dtype = dtype
        return found
    values = col.plain_numbers(np.asarray(column)[:, None], [name])[:, 0]
    if isinstance(column, np.ma.MaskedArray):
        values = col.with_missing(values, np.ma.getmaskarray(column))
    is_small = dtype.kind == "b" or (dtype.kind in "iu" and dtype.itemsize < 8)
    return col.ReadColumn(values, None, _SORTS.get(dtype.kind, "numbers"), is_small, dtype=dtype)
