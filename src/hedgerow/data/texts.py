"""Columns of files without types: from texts to numbers.

Glossary
--------
texts   a column as it stands in a file: object array with None where missing, or an
        Arrow array of strings with nulls
sort    what all texts of a column can be read as; the first of::

            missing    there is none
            whole      whole numbers of 64 bits
            number     numbers
            truth      true and false, read as 1 and 0
            date       dates and times of ISO 8601 without a zone, read as microseconds
            zoned      times with a zone, read as microseconds of UTC
            text       anything else

Where whole numbers are compared as such, one is exact wherever it stands: among
decimals, and beside missing values.  So what is made of a row does not depend on the
rows that are read with it.  Arrow converts what it can; the rest, and everything where it is not
installed, goes through Python, to the same numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import MISSING_KEY, AnyArray
from hedgerow.data.dates import PLAIN, is_zoned, microseconds
from hedgerow.data.schema import ColumnKind

TextSort: TypeAlias = Literal["missing", "whole", "number", "truth", "date", "zoned", "text"]

_TRUE = ("true", "True", "TRUE")
_FALSE = ("false", "False", "FALSE")
_LARGEST_EXACT = 2.0**53


@dataclass(frozen=True, slots=True, eq=False)
class ParsedTexts:
    """What the texts of a column are.

    Attributes
    ----------
    sort : str
        See the head of this file.
    values : int64 (whole, date, zoned), float64 (number, truth, missing), or object (text)
        int64 values are undefined where missing; floats are NaN there, text is None.
    missing : bool, shape (n_rows,)
    exact : mapping from row to int
        The rows of a column of numbers whose text is a whole number that no
        float64 may hold.
    """

    sort: TextSort
    values: AnyArray
    missing: npt.NDArray[np.bool_]
    exact: dict[int, int] = field(default_factory=dict)

    def numbers(self, kind: ColumnKind) -> AnyArray:
        """The numbers, to be compared as a column of ``kind`` compares.

        Returns
        -------
        float64, int64, or masked int64 array
            As :func:`hedgerow.data.read_table` takes it.
        """
        if kind == "float":  # the nearest ones, as training on texts has them
            return np.where(self.missing, np.nan, self.values.astype(np.float64))
        if self.values.dtype == np.int64:
            if not self.missing.any():
                return self.values
            return np.ma.MaskedArray(self.values, self.missing)
        if kind != "int" or not self.exact:
            return self.values
        # As in data.columns: the next whole number, so that <= is answered exactly.
        rounded = np.ceil(self.values)
        limit = float(2**63)
        keys = np.where(np.abs(rounded) < limit, rounded, 0.0).astype(np.int64)
        keys[rounded >= limit] = np.iinfo(np.int64).max
        keys[rounded <= -limit] = MISSING_KEY + 1
        for row, number in self.exact.items():
            keys[row] = number
        return np.ma.MaskedArray(keys, np.isnan(self.values))  # the text "nan" is missing, too


def parse_texts(texts: Any) -> ParsedTexts:
    """Find out what the texts of a column are, and read them.

    Parameters
    ----------
    texts : object array, pyarrow.Array or pyarrow.ChunkedArray of strings

    Examples
    --------
    >>> import numpy as np
    >>> from hedgerow.data.texts import parse_texts
    >>> parsed = parse_texts(np.array(["3", None, "0.5"], dtype=object))
    >>> parsed.sort, parsed.numbers("float").tolist()
    ('number', [3.0, nan, 0.5])
    """
    if isinstance(texts, np.ndarray):
        return _parse(texts)
    return _parse_arrow(texts)


def _parse(texts: AnyArray) -> ParsedTexts:
    missing = np.fromiter((text is None for text in texts), dtype=np.bool_, count=len(texts))
    present = texts[~missing].tolist()
    if not present:
        return ParsedTexts("missing", np.full(len(texts), np.nan), missing)
    if not any("_" in text for text in present):  # int("1_0") is Python, not CSV
        found = _parse_numbers(texts, present, missing)
        if found is not None:
            return found
    if all(text in _TRUE or text in _FALSE for text in present):
        return ParsedTexts("truth", _spread([text in _TRUE for text in present], missing), missing)
    try:
        ticks = np.zeros(len(texts), dtype=np.int64)
        ticks[~missing] = microseconds(present).view(np.int64)
        return ParsedTexts("zoned" if is_zoned(present[0]) else "date", ticks, missing)
    except ValueError:  # also of the 30th of February
        pass
    return ParsedTexts("text", texts, missing)


def _parse_numbers(
    texts: AnyArray, present: list[str], missing: npt.NDArray[np.bool_]
) -> ParsedTexts | None:
    whole = np.zeros(len(texts), dtype=np.int64)
    try:
        whole[~missing] = [int(text) for text in present]
        return ParsedTexts("whole", whole, missing)
    except (ValueError, OverflowError):
        pass
    try:
        floats = _spread([float(text) for text in present], missing)
    except ValueError:
        return None
    return ParsedTexts("number", floats, missing, _exact(floats, lambda row: texts[row]))


def _spread(present: list[Any], missing: npt.NDArray[np.bool_]) -> AnyArray:
    floats = np.full(len(missing), np.nan)
    floats[~missing] = present
    return floats


def _exact(floats: AnyArray, text_at: Any) -> dict[int, int]:
    """Whole numbers of 64 bits among the texts whose floats are large."""
    found = {}
    for row in np.flatnonzero((np.abs(floats) >= _LARGEST_EXACT) & np.isfinite(floats)).tolist():
        try:
            number = int(text_at(row))
        except ValueError:
            continue
        if MISSING_KEY < number <= np.iinfo(np.int64).max:
            found[row] = number
    return found


def _parse_arrow(texts: Any) -> ParsedTexts:
    import pyarrow as pa
    import pyarrow.compute as pc

    array = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
    missing = array.is_null().to_numpy(zero_copy_only=False)
    if missing.all():
        return ParsedTexts("missing", np.full(len(array), np.nan), missing)
    trimmed = array
    whole = _cast(array, pa.int64())
    floats = None if whole is not None else _cast(array, pa.float64())
    if whole is None and floats is None:
        trimmed = pc.ascii_trim_whitespace(array)
        whole = _cast(trimmed, pa.int64())
        floats = None if whole is not None else _cast(trimmed, pa.float64())
    if whole is not None and not _has_hexadecimals(trimmed):
        return ParsedTexts("whole", whole.fill_null(0).to_numpy(zero_copy_only=False), missing)
    if floats is not None:
        values = floats.fill_null(np.nan).to_numpy(zero_copy_only=False)
        exact = _exact(values, lambda row: trimmed[row].as_py())
        return ParsedTexts("number", values, missing, exact)
    if _all(pc.is_in(array, value_set=pa.array([*_TRUE, *_FALSE])), missing):
        truth = pc.is_in(array, value_set=pa.array(_TRUE)).to_numpy(zero_copy_only=False)
        return ParsedTexts("truth", np.where(missing, np.nan, truth), missing)
    if _all(pc.match_substring_regex(array, f"^{PLAIN}$"), missing):
        times = _cast(array, pa.timestamp("us"))
        if times is not None:
            ticks = times.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
            return ParsedTexts("date", ticks, missing)
    return _parse(np.array(array.to_pylist(), dtype=object))


def _cast(array: Any, kind: Any) -> Any:
    """The array as another type, or None if some text is not of it."""
    import pyarrow as pa

    try:
        return array.cast(kind)
    except pa.ArrowInvalid:
        return None


def _has_hexadecimals(array: Any) -> bool:
    """Whether Arrow took 0x1F for a whole number, which Python does not."""
    import pyarrow.compute as pc

    return any(pc.any(pc.match_substring(array, letter)).as_py() for letter in "xX")


def _all(matches: Any, missing: npt.NDArray[np.bool_]) -> bool:
    found: npt.NDArray[np.bool_] = matches.fill_null(True).to_numpy(zero_copy_only=False)
    return bool((found | missing).all())
