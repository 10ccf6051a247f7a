"""Factorizing of row labels, such as queries or groups, into integer codes."""

from __future__ import annotations

from typing import Any

import numpy as np

from hedgerow.arrays import AnyArray, IntArray
from hedgerow.boosting.loop.sample import check_length, one_axis, values_of_rows
from hedgerow.data.reading.objects import MISSING_TYPES
from hedgerow.errors import DataError, DataTypeError


def number_values(given: Any, n_rows: int, name: str, what: str) -> tuple[IntArray, list[Any]]:
    """Return the code of each row's value, and the list of different values.

    Raise ``DataError`` or ``DataTypeError`` if the length differs from ``n_rows``, or
    values are missing.
    """
    values = one_axis(values_of_rows(given, name), name)
    if len(values) != n_rows and values.dtype.kind in "iu" and int(values.sum()) == n_rows:
        thing = what.removeprefix("its ")
        raise DataError(
            f"{name} has {len(values)} values for {n_rows} rows of X: these look like sizes of "
            f"groups. {name} names the {thing} of each row: give "
            f"np.repeat(np.arange({len(values)}), sizes)."
        )
    check_length(len(values), n_rows, name)
    refuse_missing(values, name, what)
    if values.dtype.kind != "O":
        found, codes = np.unique(values, return_inverse=True)
        as_texts = found.dtype.kind not in "biufU"
        return codes.reshape(-1), [str(v) for v in found] if as_texts else found.tolist()
    numbers: dict[Any, int] = {}
    try:
        places = [numbers.setdefault(value, len(numbers)) for value in values.tolist()]
    except TypeError as error:
        raise DataTypeError(f"{name} must hold numbers or text: {error}.") from None
    return np.array(places, dtype=np.int64), list(numbers)


def refuse_missing(values: AnyArray, name: str, what: str = "one") -> None:
    """Raise ``DataError`` if one of the values is missing."""
    if values.dtype.kind == "O":
        items = values.tolist()
        missing = np.array([type(v).__name__ in MISSING_TYPES or v != v for v in items], bool)
    elif values.dtype.kind in "fcmM":
        missing = values != values  # NaN and NaT
    else:
        return
    if missing.any():
        row = int(np.argmax(missing))
        raise DataError(
            f"{name} is missing in {int(missing.sum())} of {len(values)} rows, the first is row "
            f"{row}: every row needs {what}; leave these rows out."
        )
