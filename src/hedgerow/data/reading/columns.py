"""Convert columns of any numeric type to one of three types that compare exactly.

The types are float32 and float64, where NaN means missing (kind ``"float"``), and int64,
where ``MISSING_KEY`` means missing (kind ``"int"``)::

    bool, int8/16, uint8/16, float16   -> float32     exact
    int32, uint32, longdouble          -> float64     exact, except longdouble
    int64, uint64                      -> int64       exact, or an error
    datetime64, timedelta64            -> int64       microseconds, rounded down
    Decimal                            -> float64     rounded once
    datetime.time                      -> int64       microseconds since midnight
    object                             -> by its values (:mod:`hedgerow.data.reading.objects`)
    text, dictionaries                 -> different values, and the place of each row among them

Every column of every table (frame, dict, array, batch of a file) becomes a :class:`ReadColumn`.

In prediction the *model* determines the kind of a column.  A value of another type is
rounded up, an integer to the next float64 and a float to the next integer, so that
``value <= cut`` has the same result as in exact arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from hedgerow.arrays import MISSING_KEY, AnyArray, BoolArray, FloatArray, IntArray
from hedgerow.data.categories.levels import MISSING_CODE
from hedgerow.data.schema import ColumnKind, Temporal
from hedgerow.errors import DataError, DataTypeError
from hedgerow.kernels.tables.keys import floats_of_keys, is_missing, keys_of_floats, missing_of

_FEW_ROWS = 500
"""Up to this many rows, :func:`stack` converts columns of the same type together."""
LARGEST_INT = int(np.iinfo(np.int64).max)
"""Largest integer that an int64 key holds; the smallest is ``MISSING_KEY + 1``."""

_COARSE_UNITS = ("Y", "M", "W", "D", "h", "m", "s", "ms")
"""Units of NumPy that are longer than a microsecond."""

LARGEST_EXACT = 2**53
"""Largest magnitude up to which float64 represents every integer exactly."""

Sort: TypeAlias = Literal["numbers", "text"] | Temporal
"""What a column holds; values of two sorts have no common order."""


@dataclass(slots=True, eq=False)
class ReadColumn:
    """A column of a table: a number for each row, or different values and places among them."""

    # plain numbers (float32, float64 or int64), or texts; with ``codes``, the different values:
    # texts are distinct, numbers may repeat or be missing
    values: AnyArray | list[str]
    # integers (n_rows,), or None; place of the value of each row; -1 for a missing value
    codes: IntArray | None = None
    # Dates, times and durations are microseconds.  None if there are no values and the type does
    # not tell.
    sort: Sort | None = "numbers"
    # whether the type has only numbers that compare alike as floats and as integers: booleans and
    # integers of up to 32 bits
    is_small: bool = False
    is_category: bool = False  # whether the type is one of categories: text, or a dictionary
    dtype: object = ""  # type in the table, for messages

    def __len__(self) -> int:
        return len(self.values if self.codes is None else self.codes)

    @property
    def is_text(self) -> bool:
        return not isinstance(self.values, np.ndarray)

    @property
    def temporal(self) -> Temporal | None:
        """What the values are, if they are microseconds."""
        sort = self.sort
        return None if sort == "numbers" or sort == "text" else sort

    def spread(self, codes: IntArray) -> IntArray:
        """Return the code of each row from the codes of the values."""
        if self.codes is None:
            return codes
        padded: IntArray = np.append(codes, MISSING_CODE)
        return padded[self.codes]  # -1 is the index of the last entry

    def missing(self) -> BoolArray:
        """Return the mask of the missing values."""
        values = self.values
        gone = is_missing(values) if isinstance(values, np.ndarray) else np.zeros(len(values), bool)
        return gone if self.codes is None else np.append(gone, True)[self.codes]

    def counts(self) -> IntArray:
        """Return the number of rows of each of the different values."""
        assert self.codes is not None
        return np.bincount(self.codes[self.codes >= 0], minlength=len(self.values))

    def plain(self, message: str) -> AnyArray:
        """Return the numbers; raise ``DataTypeError(message)`` if there is text."""
        values, codes = self.values, self.codes
        if isinstance(values, np.ndarray):
            if codes is None:
                return values
            return with_missing(np.append(values, values.dtype.type(0))[codes], codes < 0)
        if not self.missing().all():
            raise DataTypeError(message)
        return np.full(len(self), np.nan, dtype=np.float32)

    def as_array(self) -> AnyArray:
        """Return the values: numbers, or Python objects with None for missing values."""
        if self.codes is None:
            assert isinstance(self.values, np.ndarray)
            return self.values
        items = np.empty(len(self.values) + 1, dtype=object)
        items[:-1] = list(self.values)
        return items[self.codes]  # -1 picks the last, None

    def take(self, rows: AnyArray) -> ReadColumn:
        """Return the column with some of the rows."""
        if self.codes is not None:
            return replace(self, codes=self.codes[rows])
        assert isinstance(self.values, np.ndarray)
        return replace(self, values=self.values[rows])


def plain_numbers(values: AnyArray, names: Sequence[str]) -> AnyArray:
    """Convert ``values`` to float32, float64 or int64, without a copy if possible."""
    kind, size = values.dtype.kind, values.dtype.itemsize
    if kind in "Mm":
        return in_microseconds(values, names)
    if kind in "iu" and size == 8:
        # The minimum takes half of the time of ==: 6 ms for 28M values.
        if kind == "u" or values.min(initial=0) == MISSING_KEY:
            bad = values > np.uint64(LARGEST_INT) if kind == "u" else values == MISSING_KEY
            for row, column in np.argwhere(bad)[:1].tolist():
                raise out_of_range(names[column], values[row, column], row)
        return np.require(values, dtype=np.int64, requirements="A")
    if kind == "c":
        raise DataError(f"Complex data not supported: column {names[0]!r} is {values.dtype}.")
    if kind == "b" or (kind in "iu" and size <= 2) or (kind == "f" and size == 2):
        return values.astype(np.float32)
    if kind not in "iuf":
        raise DataTypeError(text_message(names[0], values.dtype))
    native = np.dtype(np.float32 if kind == "f" and size == 4 else np.float64)
    return np.require(values, dtype=native, requirements="A")


def in_microseconds(values: AnyArray, names: Sequence[str], first_row: int = 0) -> IntArray:
    """Convert dates or durations, shape (n_rows, n_columns), to microseconds, rounded down."""
    # NumPy wraps around a value that int64 cannot hold.
    found = values.astype(f"{values.dtype.kind}8[us]")
    if np.datetime_data(values.dtype)[0] in _COARSE_UNITS:
        far = (found.astype(values.dtype) != values) & ~np.isnat(values)
        if far.any():
            row, column = (int(index) for index in np.argwhere(far)[0])
            raise too_far(names[column], values[row, column], first_row + row)
    return found.view(np.int64)


def too_far(name: str, value: object, row: int) -> DataError:
    """Return the error for a date or duration that int64 cannot hold in microseconds."""
    return DataError(
        f"column {name!r} holds {value} (row {row}), but dates and durations are read in "
        "microseconds, which reach 292,000 years in both directions: replace the value by a "
        "nearer one, or convert the column to numbers."
    )


def text_message(name: str, type_name: object, *, named: bool = False) -> str:
    """Return the error text for a column of text, lists or other objects."""
    if named:
        return (
            f"column {name!r} has type {type_name}, but is not among categorical_features: name "
            "it there, use categorical_features='auto', or drop it."
        )
    return (
        f"column {name!r} has type {type_name}, but columns must hold numbers, booleans or "
        "dates: encode it (sklearn.preprocessing.OrdinalEncoder, for example) or drop it."
    )


def is_exact(number: int | np.integer[Any]) -> bool:
    """Return whether float64 holds an integer exactly."""
    try:
        return int(float(number)) == int(number)
    except OverflowError:
        return False


def shown(number: int | np.integer[Any]) -> str:
    """Return an integer for an error message; Python writes only 4300 digits."""
    if isinstance(number, int) and number.bit_length() > 200:
        return f"an integer of {number.bit_length()} bits"
    return str(number)


def out_of_range(name: str, value: int | np.integer[Any], row: int) -> DataError:
    """Return the error for an integer that no int64 key can hold."""
    return DataError(
        f"column {name!r} holds {shown(value)} (row {row}); integers must lie from "
        f"{MISSING_KEY + 1} to {LARGEST_INT}. If they are ids, convert the column to text, whose "
        "values are categories; convert amounts to float64, which rounds them."
    )


def with_missing(column: AnyArray, missing: AnyArray) -> AnyArray:
    """Copy a plain column or table and set the entries in the mask to missing."""
    column = column.copy()
    column[missing] = missing_of(column.dtype)
    return column


def stack(columns: Sequence[AnyArray], kinds: Sequence[ColumnKind]) -> AnyArray:
    """Stack plain columns into one array in which all of them compare by ``kinds``."""
    if "int" in kinds:
        dtype: type = np.int64
    else:
        narrow = all(column.dtype == np.float32 for column in columns)
        dtype = np.float32 if narrow else np.float64
    values: AnyArray = np.empty((len(columns[0]), len(columns)), dtype=dtype, order="F")
    # Short columns of one type are converted together.
    few = len(columns[0]) <= _FEW_ROWS
    groups: dict[object, list[int]] = {}
    for j, (column, kind) in enumerate(zip(columns, kinds, strict=True)):
        groups.setdefault((column.dtype.char, kind == "int") if few else j, []).append(j)
    for group in groups.values():
        block = np.array([columns[j] for j in group]) if few else columns[group[0]][None]
        if dtype is not np.int64:
            block = as_floats(block)
        else:
            block = _as_ints(block) if kinds[group[0]] == "int" else float_keys(block)
        for j, column in zip(group, block, strict=True):
            values[:, j] = column
    return values


def keys_by_kind(values: AnyArray, is_int: AnyArray) -> IntArray:
    """Convert plain values to int64 keys, of integers where ``is_int``, else of floats."""
    return np.where(is_int, _as_ints(values), float_keys(values))


def as_floats(values: AnyArray) -> AnyArray:
    """Convert plain values for comparison with float64 cuts; integers are rounded up."""
    # For an integer ``x`` and a float64 ``t``, ``x <= t`` holds if and only if it holds for the
    # smallest float64 that is not below ``x``.
    if values.dtype != np.int64:
        return values
    floats = values.astype(np.float64)
    inside = floats < 2.0**63  # the largest integers have been rounded up to 2**63
    below = np.where(inside, floats, 0.0).astype(np.int64) < values
    floats = np.where(inside & below, np.nextafter(floats, np.inf), floats)
    floats[values == MISSING_KEY] = np.nan
    return floats


def _as_ints(column: AnyArray) -> IntArray:
    """Convert a plain column for comparison with int64 cuts; floats are rounded up."""
    if column.dtype == np.int64:
        return column
    whole = np.ceil(column.astype(np.float64))
    inside = (whole < 2.0**63) & (whole > -(2.0**63))
    keys = np.where(inside, whole, 0.0).astype(np.int64)
    keys[whole >= 2.0**63] = LARGEST_INT
    keys[whole <= -(2.0**63)] = MISSING_KEY + 1
    keys[np.isnan(whole)] = MISSING_KEY
    return keys


def float_keys(column: AnyArray) -> IntArray:
    """Convert a plain column to the keys of floats; integers are rounded up."""
    floats: FloatArray = as_floats(column)
    return keys_of_floats(floats)


def floats_of(values: AnyArray, kinds: Sequence[ColumnKind]) -> FloatArray:
    """Convert values of a :class:`hedgerow.data.Table` to float64, with NaN for missing."""
    if values.dtype != np.int64:
        floats = np.ascontiguousarray(values, dtype=np.float64)
        return floats if floats.flags.writeable else floats.copy()
    floats = np.empty(values.shape)
    for column, kind in enumerate(kinds):
        floats[:, column] = floats_of_column(values[:, column], kind)
    return floats


def floats_of_column(column: AnyArray, kind: ColumnKind) -> FloatArray:
    """Convert a column as :func:`floats_of` does; float32 and float64 values stay as they are."""
    if column.dtype != np.int64:
        return column
    if kind == "int":
        return np.where(column == MISSING_KEY, np.nan, column.astype(np.float64))
    return floats_of_keys(column)
