"""Columns of categories: by which columns, from values to codes, and from codes to levels.

::

    text, dictionaries        Encoded: distinct values and a number for each row
        |                        |
        |  training: levels_of   |  prediction: codes_of  (the levels are known)
        v                        v
    levels, ascending         codes: position among the levels, missing, unknown

Only the distinct values are sorted or looked up, so that a row costs a step or
two whatever its text.
"""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import AnyArray, IntArray
from hedgerow.data.columns import with_missing
from hedgerow.data.levels import (
    MISSING_CODE,
    UNKNOWN_CODE,
    ArrowText,
    Level,
    Texts,
    is_missing,
    number_levels,
    sort_texts,
    take_levels,
)
from hedgerow.data.schema import Rounding, Schema, UnknownCategory, UnknownPolicy
from hedgerow.errors import DataError, DataTypeError, ParameterError, did_you_mean

CategoricalFeatures: TypeAlias = (
    "Literal['auto'] | Sequence[str | int | bool] | npt.NDArray[Any] | None"
)
"""Which columns hold categories: found by their type, named, or none."""

_FLOAT32_CODES = 2**24
"""Every code up to here is a float32."""


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """A column as its values and, for each row, the place of its value among them.

    Attributes
    ----------
    values : list of str, ArrowText, or plain numbers
        Texts are distinct; numbers may occur twice, or be missing.
    codes : integers, shape (n_rows,)
        -1 where the row has no value.
    """

    values: Texts | AnyArray
    codes: IntArray

    def spread(self, codes_of_values: IntArray) -> IntArray:
        """A code for each row from the codes of the values."""
        padded: IntArray = np.append(codes_of_values, MISSING_CODE)
        return padded[self.codes]  # -1 picks the last


PlainOrEncoded: TypeAlias = AnyArray | Encoded


def encode_texts(items: Sequence[Any], missing: npt.NDArray[np.bool_] | None) -> Encoded:
    """Encode Python texts; those ``missing`` may be anything."""
    places: dict[str, int] = {}
    find = places.setdefault
    if missing is None:
        found = (find(item, len(places)) for item in items)
    else:
        found = (
            MISSING_CODE if gone else find(str(item), len(places))
            for item, gone in zip(items, missing.tolist(), strict=True)
        )
    codes = np.fromiter(found, np.int64, len(items))
    return Encoded([str(text) for text in places], codes)


def encode_arrow(array: Any) -> Encoded:
    """Encode an Arrow array, perhaps chunked, of text."""
    import pyarrow as pa

    if array.type != pa.large_string():
        array = array.cast(pa.large_string())
    array = array.dictionary_encode()
    if isinstance(array, pa.ChunkedArray):
        array = array.unify_dictionaries().combine_chunks()
    return Encoded(ArrowText(array.dictionary), arrow_codes(array))


def arrow_codes(array: Any) -> IntArray:
    """The indices of an Arrow dictionary array, -1 where it is null."""
    import pyarrow as pa

    indices = array.indices
    if indices.type != pa.int32():
        indices = indices.cast(pa.int64())
    codes: IntArray = indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return codes


def encode_dictionary(values: PlainOrEncoded, codes: IntArray) -> Encoded:
    """A column whose values were read as a column of their own."""
    if isinstance(values, Encoded):
        return Encoded(values.values, Encoded([], codes).spread(values.codes))
    return Encoded(values, codes)


def plain_of(column: PlainOrEncoded, message: str) -> AnyArray:
    """The numbers of a column; ``DataTypeError`` with the message if it holds text."""
    if not isinstance(column, Encoded):
        return column
    if isinstance(column.values, np.ndarray):
        found = np.append(column.values, column.values.dtype.type(0))[column.codes]
        return with_missing(found, column.codes < 0)
    if (column.codes >= 0).any():
        raise DataTypeError(message)
    return np.full(len(column.codes), np.nan, dtype=np.float32)


# ---- training -----------------------------------------------------------------


def levels_of(column: PlainOrEncoded, name: str) -> tuple[Sequence[Level], IntArray]:
    """Levels that occur in a column, and the code of each row (-1 where missing).

    Raises
    ------
    DataError
        If a text is not valid Unicode.
    """
    if isinstance(column, Encoded) and not isinstance(column.values, np.ndarray):
        return _text_levels(column.values, column.codes, name)
    values = column.values if isinstance(column, Encoded) else column
    assert isinstance(values, np.ndarray)
    present = ~is_missing(values)
    if isinstance(column, Encoded):
        present &= np.bincount(column.codes[column.codes >= 0], minlength=len(values)) > 0
    found, inverse = np.unique(values[present], return_inverse=True)
    codes = np.full(len(values), MISSING_CODE, dtype=np.int64)
    codes[present] = inverse
    return number_levels(found), column.spread(codes) if isinstance(column, Encoded) else codes


def _text_levels(texts: Texts, codes: IntArray, name: str) -> tuple[Sequence[Level], IntArray]:
    if isinstance(texts, list):
        try:
            "".join(texts).encode()
        except UnicodeEncodeError as error:
            raise DataError(
                f"column {name!r} holds text that is not valid Unicode ({error.reason}): it "
                "cannot be written to a model file. Repair or drop it."
            ) from None
    order = sort_texts(texts)
    occurs = np.bincount(codes[codes >= 0], minlength=len(texts)) > 0
    kept = order if occurs.all() else order[occurs[order]]
    rank = np.full(len(texts), MISSING_CODE, dtype=np.int64)
    rank[kept] = np.arange(len(kept))
    return take_levels(texts, kept), Encoded(texts, codes).spread(rank)


# ---- prediction ---------------------------------------------------------------


def codes_of(column: PlainOrEncoded, schema: Schema, j: int) -> IntArray:
    """Code of each row among the levels of column ``j`` (-1 missing, -2 unknown).

    Raises
    ------
    DataTypeError
        If the levels are text and the column holds numbers, or the other way round.
    """
    index, name = schema.level_index(j), schema.columns[j].name
    values = column.values if isinstance(column, Encoded) else column
    holds_text = not isinstance(values, np.ndarray)
    n_rows = len(column.codes if isinstance(column, Encoded) else column)
    if index.is_empty or holds_text != index.is_text:
        gone = column.codes < 0 if isinstance(column, Encoded) else is_missing(column)
        if not (index.is_empty or gone.all()):
            had, has = ("text", "numbers") if index.is_text else ("numbers", "text")
            raise DataTypeError(
                f"column {name!r} holds {has}, but held {had} when the model was trained: "
                f"convert it to {had}."
            )
        return np.where(gone, MISSING_CODE, np.full(n_rows, UNKNOWN_CODE))
    if isinstance(values, np.ndarray):
        codes = index.of_numbers(_rounded(values, schema.columns[j].rounding))
    else:
        codes = index.of_texts(values)
    return column.spread(codes) if isinstance(column, Encoded) else codes


def _rounded(values: AnyArray, rounding: Rounding) -> AnyArray:
    """Numbers of categories as whole numbers."""
    if rounding == "none" or values.dtype.kind != "f":
        return values
    return np.floor(values) if rounding == "down" else np.trunc(values)


def value_at(column: PlainOrEncoded, row: int) -> Any:
    """The value of a row, which has one, for a message."""
    value = column.values[int(column.codes[row])] if isinstance(column, Encoded) else column[row]
    return value.item() if isinstance(value, np.generic) else value


def code_column(codes: IntArray, n_levels: int, unknown: UnknownPolicy) -> AnyArray:
    """Codes as a plain column: NaN where missing, ``n_levels`` for unknown ones that stay."""
    dtype = np.float32 if n_levels <= _FLOAT32_CODES else np.float64
    column = codes.astype(dtype)
    column[codes == MISSING_CODE] = np.nan
    column[codes == UNKNOWN_CODE] = n_levels if unknown in ("backoff", "split") else np.nan
    return column


# ---- which columns --------------------------------------------------------------


def check_unknown(unknown: object) -> UnknownCategory:
    """Return ``unknown`` if it is a policy; ``ParameterError`` if not."""
    known: tuple[UnknownCategory, ...] = get_args(UnknownCategory)
    for policy in known:
        if isinstance(unknown, str) and unknown == policy:
            return policy
    raise ParameterError(
        f"unknown_category must be one of {', '.join(map(repr, known))}; got {unknown!r}."
        f"{did_you_mean(str(unknown), known)}"
    )


def chosen_columns(
    categorical: CategoricalFeatures, names: Sequence[str]
) -> npt.NDArray[np.bool_] | None:
    """Which columns hold categories; None for ``"auto"``.

    Raises
    ------
    ParameterError
        If ``categorical`` is none of the forms allowed, names a column that is not
        there, or one twice.
    """
    if isinstance(categorical, str) and categorical == "auto":
        return None
    if categorical is None:
        return np.zeros(len(names), dtype=np.bool_)
    if isinstance(categorical, str) or not isinstance(categorical, Sequence | np.ndarray):
        raise ParameterError(
            "categorical_features must be 'auto', a list of column names or positions, an array "
            f"of one bool for each column, or None; got {categorical!r}."
        )
    given = [item.item() if isinstance(item, np.generic) else item for item in categorical]
    if given and all(isinstance(item, bool) for item in given):
        if len(given) != len(names):
            raise ParameterError(
                f"categorical_features has {len(given)} bools for {len(names)} columns: give one "
                "for each column, or a list of names or positions."
            )
        return np.array(given, dtype=np.bool_)
    chosen = np.zeros(len(names), dtype=np.bool_)
    places = {name: place for place, name in enumerate(names)}
    for item in given:
        place = _place(item, places)
        if chosen[place]:
            raise ParameterError(f"categorical_features names column {names[place]!r} twice.")
        chosen[place] = True
    return chosen


def _place(item: Any, places: dict[str, int]) -> int:
    if isinstance(item, str) and item in places:
        return places[item]
    if isinstance(item, numbers.Integral) and not isinstance(item, bool):
        if 0 <= int(item) < len(places):
            return int(item)
        raise ParameterError(
            f"categorical_features names column {item}, but X has columns 0 to {len(places) - 1}."
        )
    hint = did_you_mean(str(item), list(places))
    raise ParameterError(
        f"categorical_features names {item!r}, which is no column of X: give names or "
        f"positions of columns.{hint}"
    )
