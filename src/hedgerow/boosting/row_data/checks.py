"""Checks of what users give for each row: numbers, labels, weights, offsets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray, IntArray
from hedgerow.cuda.arrays import host_array
from hedgerow.data.reading.objects import MISSING_TYPES, missing_items, read_column
from hedgerow.errors import DataError, DataTypeError, brief

_COMPLEX = (complex, np.complexfloating)

LARGEST = 1e100
"""Largest weight and target: gains contain their squares and products."""


def check_vector(values: Any, n_rows: int, name: str) -> FloatArray:
    """Convert ``values`` to finite float64, one for each row."""
    array = one_axis(numbers_of_rows(values, name), name)
    check_length(len(array), n_rows, name)
    check_finite(array, name)
    return array


def one_axis(array: AnyArray, name: str) -> AnyArray:
    """Return a single column without its second axis; raise ``DataError`` for several columns."""
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise DataError(f"{name} should be a 1d array, got an array of shape {array.shape}.")
    return array


def check_length(length: int, n_rows: int, name: str) -> None:
    """Raise ``DataError`` unless there is one value for each row."""
    if length != n_rows:
        table = "X_val" if name.endswith("_val") else "X"
        place = max(name.find(" of X_val"), name.find(" of valid"))
        if place >= 0:
            table = name[place + 4 :]
        raise DataError(
            f"{name} has {length} values for {n_rows} rows of {table}: inconsistent numbers of "
            "samples. Give one value for each row."
        )


def check_finite(array: FloatArray, name: str) -> None:
    """Raise ``DataError`` with count and first row if a value is NaN or infinite."""
    if np.isfinite(array).all():
        return
    for wrong, what in ((np.isnan(array), "NaN"), (np.isinf(array), "infinity")):
        if wrong.any():
            count, row = int(wrong.sum()), int(np.argmax(wrong))
            raise DataError(
                f"Input {name} contains {what} ({count} of {len(array)} values, the first in row "
                f"{row}): remove these rows or fill in the values."
            )


def check_weight(weight: Any, n_rows: int, name: str = "sample_weight") -> FloatArray | None:
    """Convert ``weight`` to float64: finite, non-negative, not all zero; None stays None."""
    if weight is None:
        return None
    array = numbers_of_rows(weight, name)
    if array.ndim != 1:
        how = f" Pass its column, {name}[:, 0]." if array.shape[1:] == (1,) else ""
        raise DataError(
            f"{name} must be 1D with one weight for each row, got {array.ndim}D: an array of shape "
            f"{array.shape}.{how}"
        )
    array = check_vector(array, n_rows, name)
    if (array < 0.0).any():
        row = int(np.argmax(array < 0.0))
        raise DataError(f"{name} must not be negative, but row {row} has {array[row]:g}.")
    if not array.any():
        raise DataError(
            f"{name} is zero in all {n_rows} rows: at least one weight must be greater than zero."
        )
    strange = (array > 0.0) & ((array < 1.0 / LARGEST) | (array > LARGEST))
    if strange.any():
        row = int(np.argmax(strange))
        raise DataError(
            f"{name} must be 0 or between {1.0 / LARGEST:g} and {LARGEST:g}, but row {row} has "
            f"{array[row]:g}: squares of such numbers are lost. Multiply all weights by a factor."
        )
    return array


def check_offset(
    offset: Any, n_rows: int, n_outputs: int, name: str = "offset"
) -> FloatArray | None:
    """Convert ``offset`` to float64 of shape (n_outputs, n_rows)."""
    if offset is None:
        return None
    array = numbers_of_rows(offset, name)
    table = array[:, None] if array.ndim == 1 else array
    if table.shape != (n_rows, n_outputs):
        raise DataError(
            f"{name} must have shape ({n_rows}, {n_outputs}): one raw score for each row and "
            f"output; got {array.shape}."
        )
    for output in range(n_outputs):
        check_finite(table[:, output], name)
    if (np.abs(table) > LARGEST).any():
        row = int(np.argmax((np.abs(table) > LARGEST).any(axis=1)))
        raise DataError(f"{name} must be within {LARGEST:g} of 0, but row {row} is not.")
    return np.ascontiguousarray(table.T)


def times_of_rows(times: Any, n_rows: int, name: str = "time") -> FloatArray:
    """Convert numbers or dates to finite float64, one for each row: dates to seconds since 1970."""
    array = one_axis(values_of_rows(times, name), name)
    refuse_missing(array, name, "its time")
    column = read_column(array, name)
    if column.is_text:
        raise DataTypeError(
            f"{name} must hold numbers or dates, got {brief(array[0])}: convert text to dates, for "
            "example by pandas.to_datetime."
        )
    numbers = column.plain("")
    return check_vector(numbers if column.temporal is None else numbers / 1e6, n_rows, name)


def values_of_rows(values: Any, name: str) -> AnyArray:
    """Convert ``values`` to an array of any type with an axis for the rows."""
    if not isinstance(values, str | bytes | Mapping):
        try:
            array: AnyArray = host_array(values)
        except ValueError as error:
            raise DataError(
                f"{name} must hold one value for each row, but its entries differ in length "
                f"({error})."
            ) from error
        if array.dtype.kind == "c" or any(issubclass(kind, _COMPLEX) for kind in _types(array)):
            raise DataError(f"Complex data not supported: {name} is {array.dtype}.")
        if array.ndim > 0:
            return array
    hint = ""
    if isinstance(values, str):
        hint = f" To use a column of X, pass its values, such as X[{values[:60]!r}]."
    raise DataTypeError(
        f"{name} must be an array, a column of a frame, or a list with one value for each row; "
        f"got {brief(values)} ({type(values).__name__}).{hint}"
    )


def _types(array: AnyArray) -> set[type]:
    """Return the types of the items of an array of objects; of other arrays none."""
    return set(map(type, array.ravel().tolist())) if array.dtype.kind == "O" else set()


def number_values(given: Any, n_rows: int, name: str, what: str) -> tuple[IntArray, list[Any]]:
    """Return the code of each row's value, and the list of different values."""
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
    missing = missing_items(values.tolist()) if values.dtype.kind == "O" else values != values
    if missing is not None and missing.any():
        row = int(np.argmax(missing))
        raise DataError(
            f"{name} is missing in {int(missing.sum())} of {len(values)} rows, the first is row "
            f"{row}: every row needs {what}; leave these rows out."
        )


def numbers_of_rows(values: Any, name: str) -> FloatArray:
    """Convert ``values`` to float64 of any shape with an axis for the rows; missing is NaN."""
    array = values_of_rows(values, name)
    if array.dtype.kind not in "biufO":
        raise DataTypeError(f"{name} must hold numbers, got {array.dtype}.")
    if not any(issubclass(kind, str | bytes) for kind in _types(array)):
        try:
            return np.ascontiguousarray(array, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            pass  # the loop below finds the item, or only missing values
    items = array.ravel().tolist()
    found = np.empty(len(items))
    width = len(items) // max(len(array), 1)
    for k, item in enumerate(items):
        try:
            if isinstance(item, str | bytes):  # Python would parse it
                raise TypeError
            found[k] = np.nan if type(item).__name__ in MISSING_TYPES else float(item)
        except (TypeError, ValueError, OverflowError):
            raise DataTypeError(
                f"{name} must hold numbers, but row {k // width} has {brief(item)} "
                f"({type(item).__name__}): convert it."
            ) from None
    return found.reshape(array.shape)
