"""Columns of Python objects: numbers, text, dates or times, one sort in each column.

A column that mixes sorts is refused, as its values would have no common order
and no meaning that the next table keeps.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import AnyArray
from hedgerow.data.categories import PlainOrEncoded, encode_texts
from hedgerow.data.columns import plain_numbers, with_missing
from hedgerow.errors import DataError, DataTypeError

_MISSING_TYPES = ("NoneType", "NAType", "NaTType")  # None, pandas.NA, pandas.NaT
_TEXT_TYPES = ("Interval", "Period")
"""Types of pandas that are read as the text that they print as."""


def read_objects(column: AnyArray, name: str) -> PlainOrEncoded:
    """Make a plain or an encoded column of an object array.

    Parameters
    ----------
    column : array of objects, shape (n_rows,)
        ``None``, NaN, NaT and ``pandas.NA`` are missing.
    name : str

    Returns
    -------
    float32, float64 or int64 array, or Encoded
        Numbers (``Decimal`` too, rounded to float64), dates, times and durations
        (microseconds); or text.

    Raises
    ------
    DataTypeError
        If something in it is none of that, or the column mixes sorts; text is not
        read as a number.
    """
    items = column.tolist()
    missing = _missing(items)
    sort = _sort(items, missing, name)
    if sort == "text":
        return encode_texts(items, missing)
    present = items if missing is None else _present(items, missing)
    if not present:
        return np.full(len(items), np.nan)
    found = _array(present, sort, name)
    if missing is None:
        return plain_numbers(found[:, None], [name])[:, 0]
    whole = np.zeros((len(items), 1), dtype=found.dtype)
    whole[~missing, 0] = found
    return with_missing(plain_numbers(whole, [name])[:, 0], missing)


def _present(items: Sequence[Any], missing: npt.NDArray[np.bool_]) -> list[Any]:
    return [item for item, gone in zip(items, missing.tolist(), strict=True) if not gone]


def _missing(items: Sequence[Any]) -> npt.NDArray[np.bool_] | None:
    """Which items are missing; None if no type among them can be."""
    types = set(map(type, items))
    always = {kind for kind in types if kind.__name__ in _MISSING_TYPES}
    perhaps = {
        kind
        for kind in types
        if issubclass(kind, (float, np.floating, Decimal, np.datetime64, np.timedelta64))
    }
    if not always and not perhaps:
        return None
    return np.fromiter(
        (type(x) in always or (type(x) in perhaps and _is_nan(x)) for x in items),
        np.bool_,
        len(items),
    )


def _is_nan(item: Any) -> bool:
    return item.is_nan() if isinstance(item, Decimal) else bool(item != item)


def sort_of(kind: type) -> str | None:
    """Text, durations, dates, times or numbers; None for anything else."""
    if issubclass(kind, str) or kind.__name__ in _TEXT_TYPES:
        return "text"
    if issubclass(kind, (dt.timedelta, np.timedelta64)):  # before number: NumPy derives it
        return "durations"
    if issubclass(kind, (dt.date, np.datetime64)):
        return "dates"
    if issubclass(kind, dt.time):
        return "times"
    if issubclass(kind, (bool, int, float, np.number, np.bool_, Decimal)):
        return "numbers"
    return None


def _sort(items: Sequence[Any], missing: npt.NDArray[np.bool_] | None, name: str) -> str:
    """The one sort of all items that are not missing."""
    present = items if missing is None else _present(items, missing)
    sorts = {kind: sort_of(kind) for kind in set(map(type, present))}
    if None not in sorts.values() and len(set(sorts.values())) <= 1:
        return next(iter(sorts.values()), "numbers") or "numbers"
    first: dict[str, tuple[int, Any]] = {}
    for row, item in enumerate(items):
        if missing is not None and missing[row]:
            continue
        sort = sorts[type(item)]
        if sort is None:
            raise DataTypeError(
                f"column {name!r} holds {item!r} (row {row}), a {type(item).__name__}: each "
                "argument must be a number, not a string or another object that could be read "
                f"as a number. {_cure(item)}"
            )
        first.setdefault(sort, (row, item))
    parts = [f"{sort} ({item!r}, row {row})" for sort, (row, item) in first.items()]
    raise DataTypeError(
        f"column {name!r} mixes {' and '.join(parts)}: convert it to one type "
        "(text, numbers or dates)."
    )


def _cure(item: Any) -> str:
    """What to do with a column that holds such an item."""
    if isinstance(item, list | tuple | set | frozenset | Mapping | np.ndarray):
        return "A cell holds one value: give the items columns of their own, or drop the column."
    return "Convert the column to numbers or text, or drop it."


def _array(items: Sequence[Any], sort: str, name: str) -> AnyArray:
    """Items of one sort as an array that is no longer of objects."""
    if sort == "dates":
        return np.array([_utc(item) for item in items], dtype="M8[us]")
    if sort == "durations":
        return np.array(items, dtype="m8[us]")
    if sort == "times":
        return np.array([_microseconds(item) for item in items])
    found: AnyArray = np.array([float(x) if isinstance(x, Decimal) else x for x in items])
    if found.dtype.kind == "O":
        raise DataError(
            f"column {name!r} holds whole numbers of more than 64 bits: convert it to float64."
        )
    return found


def _utc(item: Any) -> Any:
    """A date without its time zone."""
    if isinstance(item, dt.datetime) and item.tzinfo is not None:
        return item.astimezone(dt.UTC).replace(tzinfo=None)
    return item


def _microseconds(time: dt.time) -> int:
    """Microseconds since midnight."""
    seconds = (time.hour * 60 + time.minute) * 60 + time.second
    return seconds * 1_000_000 + time.microsecond
