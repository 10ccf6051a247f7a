"""Category columns: select them, find their levels, and convert values to codes.

::

    text, dictionaries        distinct values and a number for each row
        |                        |
        |  training: levels_of   |  prediction: codes_of  (the levels are known)
        v                        v
    levels, ascending         codes: position among the levels, missing, unknown

Only distinct values are sorted or looked up, so the cost of a row does not depend on its
text.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, cast, get_args

import numpy as np
import numpy.typing as npt

from hedgerow.argument_types import is_one_of, listed
from hedgerow.arrays import AnyArray, BoolArray, IntArray
from hedgerow.data.categories import levels as lv
from hedgerow.data.reading.columns import ReadColumn
from hedgerow.data.schema import Rounding, Schema, UnknownCategory, UnknownPolicy, position_of
from hedgerow.errors import (
    DataError,
    DataTypeError,
    HedgerowWarning,
    ParameterError,
    brief,
    did_you_mean,
    ordinal,
)
from hedgerow.kernels.tables.keys import is_missing

CategoricalFeatures: TypeAlias = (
    "Literal['auto'] | Sequence[str | int | bool] | npt.NDArray[Any] | None"
)
"""Selection of category columns: by type, by name, position or mask, or none."""

_FEW_TEXTS = 64
_FLOAT32_CODES = 2**24
"""Codes up to this number are exact in float32."""


def text_column(texts: list[str], codes: IntArray) -> ReadColumn:
    """Return a column of text."""
    return ReadColumn(texts, codes, "text", is_category=True)


def encode_texts(items: Sequence[Any]) -> ReadColumn | None:
    """Encode texts, None and NaN; return None if there is no text, or anything else."""
    # Only distinct objects are looked at, which takes a third of the time of a loop over the rows
    # (28,000 rows, 16 texts, a third of them missing: 2.7 ms instead of 8.6).
    types = set(map(type, items))
    if str not in types or not types <= {str, float, type(None)}:
        return None
    distinct = dict.fromkeys(items)  # each NaN object is a key of its own
    texts = [item for item in distinct if isinstance(item, str)]
    others = [item for item in distinct if not isinstance(item, str)]
    if any(isinstance(item, float) and item == item for item in others):
        return None
    code_of: dict[Any, int] = dict(zip(texts, range(len(texts)), strict=True))
    code_of |= dict.fromkeys(others, lv.MISSING_CODE)
    codes = np.fromiter(map(code_of.__getitem__, items), np.int64, len(items))
    return text_column(texts, codes)


def encode_arrow(array: Any) -> ReadColumn:
    """Encode an Arrow array or chunked array of text."""
    import pyarrow as pa

    if array.type != pa.large_string():
        array = array.cast(pa.large_string())
    array = array.dictionary_encode()
    if isinstance(array, pa.ChunkedArray):
        array = array.unify_dictionaries().combine_chunks()
    return text_column(array.dictionary.to_pylist(), arrow_codes(array))


def arrow_codes(array: Any) -> IntArray:
    """Return the indices of an Arrow dictionary array, with -1 for nulls."""
    import pyarrow as pa

    indices = array.indices
    if indices.type != pa.int32():
        indices = indices.cast(pa.int64())
    if indices.null_count:
        indices = indices.fill_null(-1)
    return indices.to_numpy(zero_copy_only=False)


# ---- training -----------------------------------------------------------------


def levels_of(column: ReadColumn, name: str) -> tuple[Sequence[lv.Level], IntArray]:
    """Return the levels that occur in a column and the code of each row (-1: missing)."""
    values = column.values
    codes = np.full(len(values), lv.MISSING_CODE, dtype=np.int64)
    if not isinstance(values, np.ndarray):
        check_unicode(values, name)
        used = np.flatnonzero(column.counts()).tolist()
        kept = sorted(used, key=values.__getitem__)  # by code points, which is the order of UTF-8
        codes[kept] = np.arange(len(kept))
        return tuple([values[place] for place in kept]), column.spread(codes)
    present = ~is_missing(values)
    if column.codes is not None:
        present &= column.counts() > 0
    found, codes[present] = np.unique(values[present], return_inverse=True)
    return lv.number_levels(found), column.spread(codes)


def check_unicode(values: Sequence[lv.Level], name: str) -> None:
    """Raise ``DataError`` if the text of a column has no UTF-8 encoding."""
    try:
        "".join(map(str, values)).encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"column {name!r} holds text that is not valid Unicode ({error.reason}): it cannot be "
            "written to a model file. Repair or drop it."
        ) from None


# ---- columns of numbers with a bad cell -----------------------------------------


class NearlyNumbers(NamedTuple):
    """Text of which at least nine of ten values are numbers; ``odd`` is the first that is not."""

    n_numbers: int
    n_values: int
    odd: str
    numbers: list[float]

    def __str__(self) -> str:
        return f"{self.n_numbers:,} of {self.n_values:,} values are numbers"

    @property
    def has_fractions(self) -> bool:
        """Whether one of the numbers is not whole, so that they are no labels of classes."""
        return any(math.isfinite(number) and not number.is_integer() for number in self.numbers)


def may_be_numbers(texts: Sequence[str]) -> bool:
    """Return whether half of some texts are numbers, which is quickly said of most text columns."""
    return 2 * sum(_number(text) is None for text in texts) <= len(texts)


def nearly_numbers(texts: Sequence[str], counts: AnyArray) -> NearlyNumbers | None:
    """Return what a column of these different texts looks like; None if it is not numbers."""
    if not may_be_numbers(texts[:_FEW_TEXTS]):
        return None
    numbers = [_number(text) for text in texts]
    is_odd = np.array([number is None for number in numbers], dtype=np.bool_) & (counts > 0)
    n_odd, n_values = counts[is_odd].sum(), counts.sum()
    known = [number for number in numbers if number is not None]
    if not 0 < 10 * n_odd <= n_values or is_odd.sum() >= len(known):
        return None
    odd = str(texts[int(np.argmax(is_odd))])
    return NearlyNumbers(int(n_values - n_odd), int(n_values), odd, known)


def _number(text: str) -> float | None:
    try:
        return float(text) if text.isascii() and "_" not in text else None
    except ValueError:
        return None


def odd_text_of(column: AnyArray) -> tuple[NearlyNumbers, int] | None:
    """Return :func:`nearly_numbers` of an array of text, and the row of the odd one."""
    if not may_be_numbers(column[:_FEW_TEXTS].tolist()):
        return None
    texts, counts = np.unique(column, return_counts=True)
    found = nearly_numbers(texts.tolist(), counts)
    return None if found is None else (found, int(np.argmax(column == found.odd)))


def warn_of_odd_text(part: ReadColumn, name: str) -> None:
    """Warn of a column of text that would hold numbers without a few of its values."""
    if isinstance(part.values, np.ndarray) or not may_be_numbers(part.values[:_FEW_TEXTS]):
        return
    assert part.codes is not None
    found = nearly_numbers(part.values, part.counts())
    if found is not None:
        code = next(code for code, text in enumerate(part.values) if text == found.odd)
        row = ordinal(int(np.argmax(part.codes == code)) + 1)
        warn_of_categories(name, f"{found}; the {row} row has {brief(found.odd)}")


def warn_of_categories(name: str, why: str) -> None:
    """Warn of a column of categories that looks like numbers."""
    warnings.warn(
        f"column {name!r} is read as categories, not as numbers: {why}. Mend such values or leave "
        "them empty; if categories are meant, name the column in categorical_features.",
        HedgerowWarning,
        stacklevel=2,
    )


# ---- prediction ---------------------------------------------------------------


def codes_of(column: ReadColumn, schema: Schema, j: int) -> IntArray:
    """Return the code of each row among the levels of column ``j``."""
    # A missing value has the code -1, an unknown category -2.
    index, name, values = schema.level_index(j), schema.columns[j].name, column.values
    if index.is_empty or column.is_text != index.is_text:
        gone = column.missing()
        if not (index.is_empty or gone.all()):
            had, has = ("text", "numbers") if index.is_text else ("numbers", "text")
            raise DataTypeError(
                f"column {name!r} holds {has}, but held {had} when the model was trained: "
                f"convert it to {had}."
            )
        return np.where(gone, lv.MISSING_CODE, lv.UNKNOWN_CODE)
    if isinstance(values, np.ndarray):
        values = rounded_categories(values, schema.columns[j].rounding)
        return column.spread(index.of_numbers(values))
    return column.spread(index.of_texts(values))


def rounded_categories(values: AnyArray, rounding: Rounding) -> AnyArray:
    """Round category numbers to integers if the schema says so."""
    if rounding == "none" or values.dtype.kind != "f":
        return values
    return np.floor(values) if rounding == "down" else np.trunc(values)


def code_column(codes: IntArray, n_levels: int, unknown: UnknownPolicy) -> AnyArray:
    """Convert codes to floats: NaN if missing, and if unknown unless splits know such values."""
    dtype = np.float32 if n_levels <= _FLOAT32_CODES else np.float64
    column = codes.astype(dtype)
    column[codes == lv.MISSING_CODE] = np.nan
    column[codes == lv.UNKNOWN_CODE] = n_levels if unknown == "split" else np.nan
    return column


# ---- selection of columns -------------------------------------------------------


def check_unknown(unknown: object) -> UnknownCategory:
    """Return ``unknown``; raise ``ParameterError`` if it is not an allowed value."""
    known: tuple[UnknownCategory, ...] = get_args(UnknownCategory)
    if not is_one_of(unknown, known):
        raise ParameterError(
            f"unknown_category must be one of {', '.join(map(repr, known))}; got {brief(unknown)}."
            f"{did_you_mean(unknown, known)}"
        )
    return cast(UnknownCategory, unknown)


def chosen_columns(categorical: CategoricalFeatures, names: Sequence[str]) -> BoolArray | None:
    """Return the mask of the category columns; None for ``"auto"``."""
    if isinstance(categorical, str) and categorical == "auto":
        return None
    if categorical is None:
        return np.zeros(len(names), dtype=np.bool_)
    given = listed(categorical)
    if given is None:
        raise ParameterError(
            "categorical_features must be 'auto', a list of column names or positions, an array "
            f"of one bool for each column, or None; got {brief(categorical)}."
        )
    items = [item.item() if isinstance(item, np.generic) else item for item in given]
    if items and all(isinstance(item, bool) for item in items):
        if len(items) != len(names):
            raise ParameterError(
                f"categorical_features has {len(items)} bools for {len(names)} columns: give one "
                "for each column, or a list of names or positions."
            )
        return np.array(items, dtype=np.bool_)
    chosen = np.zeros(len(names), dtype=np.bool_)
    for item in items:
        j = position_of(item, names, "categorical_features")
        if chosen[j]:
            raise ParameterError(f"categorical_features names column {names[j]!r} twice.")
        chosen[j] = True
    return chosen
