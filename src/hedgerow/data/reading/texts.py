"""Infer the types of text columns in files, and convert them to numbers.

Glossary
--------
texts   the entries of a column in a file: an object array with None for missing values,
        or an Arrow array of strings with nulls
sort    the first of these that can represent all texts of a column::

            missing    all entries are missing
            whole      integers of 64 bits
            number     numbers
            truth      true and false, read as 1 and 0
            date       dates and times of ISO 8601 without a zone, read as microseconds
            zoned      times with a zone, read as microseconds of UTC
            text       anything else

In a column that compares as integers, every integer is exact, also among decimals and
missing values.  So the value of a row does not depend on the rows that are read with it.

A time may end with a zone: ``Z``, ``+09:00``, ``-0330`` or ``+09``.  It is then converted to
UTC, like times with a zone in frames.  Either all times of a column have a zone, or none,
because times with and without a zone cannot be compared.

Arrow converts most texts.  Python converts the others, and all of them if Arrow is not
installed, to the same numbers.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import MISSING_KEY, AnyArray, BoolArray
from hedgerow.data.schema import ColumnKind

TextSort: TypeAlias = Literal["missing", "whole", "number", "truth", "date", "zoned", "text"]

_TRUE = ("true", "True", "TRUE")
_FALSE = ("false", "False", "FALSE")
_LARGEST_EXACT = 2.0**53
_FEW = 100


@dataclass(frozen=True, slots=True, eq=False)
class ParsedTexts:
    """Sort and values of a text column.

    Attributes
    ----------
    sort : str
        See the glossary of this module.
    values : int64 (whole, date, zoned), float64 (number, truth, missing), or object (text)
        Missing floats are NaN, and missing text is None; missing int64 values are
        undefined.
    missing : bool, shape (n_rows,)
    exact : mapping from row to int
        Integers in a column of sort "number" that float64 may not hold exactly.
    """

    sort: TextSort
    values: AnyArray
    missing: BoolArray
    exact: dict[int, int] = field(default_factory=dict)

    def numbers(self, kind: ColumnKind) -> AnyArray:
        """Return the numbers in a form that compares like a column of ``kind``.

        Returns
        -------
        float64, int64, masked int64, or datetime64[us] array
            Input for :func:`hedgerow.data.read_table`.
        """
        if self.sort in ("date", "zoned"):
            ticks = np.where(self.missing, MISSING_KEY, self.values)
            return in_utc(ticks) if self.sort == "zoned" else ticks.view("M8[us]")
        if kind == "float":  # rounded to nearest, as in training on text columns
            return np.where(self.missing, np.nan, self.values.astype(np.float64))
        if self.values.dtype == np.int64:
            if not self.missing.any():
                return self.values
            return np.ma.MaskedArray(self.values, self.missing)
        if kind != "int" or not self.exact:
            return self.values
        # Round up as in data.columns, so that comparisons with cuts are exact.
        rounded = np.ceil(self.values)
        limit = float(2**63)
        keys = np.where(np.abs(rounded) < limit, rounded, 0.0).astype(np.int64)
        keys[rounded >= limit] = np.iinfo(np.int64).max
        keys[rounded <= -limit] = MISSING_KEY + 1
        for row, number in self.exact.items():
            keys[row] = number
        return np.ma.MaskedArray(keys, np.isnan(self.values))  # the text "nan" is also missing


def parse_texts(texts: Any) -> ParsedTexts:
    """Infer the sort of a text column and convert its values.

    Parameters
    ----------
    texts : object array, pyarrow.Array or pyarrow.ChunkedArray of strings

    Examples
    --------
    >>> import numpy as np
    >>> from hedgerow.data.reading.texts import parse_texts
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
    if all(text.isascii() and "_" not in text for text in present):  # Python alone reads others
        found = _parse_numbers(texts, present, missing)
        if found is not None:
            return found
    if all(text in _TRUE or text in _FALSE for text in present):
        return ParsedTexts("truth", _spread([text in _TRUE for text in present], missing), missing)
    try:
        ticks = np.zeros(len(texts), dtype=np.int64)
        ticks[~missing] = microseconds(present).view(np.int64)
        return ParsedTexts("zoned" if is_zoned(present[0]) else "date", ticks, missing)
    except ValueError:  # also for impossible dates such as the 30th of February
        pass
    return ParsedTexts("text", texts, missing)


def _parse_numbers(texts: AnyArray, present: list[str], missing: BoolArray) -> ParsedTexts | None:
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


def _spread(present: list[Any], missing: BoolArray) -> AnyArray:
    floats = np.full(len(missing), np.nan)
    floats[~missing] = present
    return floats


def _exact(floats: AnyArray, text_at: Any) -> dict[int, int]:
    """Return the 64-bit integers whose float64 values may be inexact, by row."""
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
    whole = cast_or_none(array, pa.int64())
    floats = None if whole is not None else cast_or_none(array, pa.float64())
    if whole is None and floats is None:
        trimmed = pc.ascii_trim_whitespace(array)
        whole = cast_or_none(trimmed, pa.int64())
        floats = None if whole is not None else cast_or_none(trimmed, pa.float64())
    if whole is not None and not has_hexadecimals(trimmed):
        return ParsedTexts("whole", whole.fill_null(0).to_numpy(zero_copy_only=False), missing)
    if floats is not None:
        values = floats.fill_null(np.nan).to_numpy(zero_copy_only=False)
        exact = _exact(values, lambda row: trimmed[row].as_py())
        return ParsedTexts("number", values, missing, exact)
    if _all(pc.is_in(array, value_set=pa.array([*_TRUE, *_FALSE])), missing):
        truth = pc.is_in(array, value_set=pa.array(_TRUE)).to_numpy(zero_copy_only=False)
        return ParsedTexts("truth", np.where(missing, np.nan, truth), missing)
    if _all(pc.match_substring_regex(array, f"^{PLAIN}$"), missing):
        times = cast_or_none(array, pa.timestamp("us"))
        if times is not None:
            ticks = times.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
            return ParsedTexts("date", ticks, missing)
    return _parse(np.array(array.to_pylist(), dtype=object))


def cast_or_none(array: Any, kind: Any) -> Any:
    """Convert an Arrow array to another type; None if a text does not represent a value of it.

    The first values are tried before all, because Arrow makes an error for every text that it
    cannot convert.
    """
    import pyarrow as pa

    try:
        array.slice(0, _FEW).cast(kind)
        return array.cast(kind)
    except pa.ArrowInvalid:
        return None


def has_hexadecimals(array: Any) -> bool:
    """Return whether a text is hexadecimal, such as 0x1F, which Arrow but not Python accepts."""
    import pyarrow.compute as pc

    return any(pc.any(pc.match_substring(array, letter)).as_py() for letter in "xX")


def _all(matches: Any, missing: BoolArray) -> bool:
    found: BoolArray = matches.fill_null(True).to_numpy(zero_copy_only=False)
    return bool((found | missing).all())


_TIME = r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?"
_ZONE = r"(?:Z|[+-](?:[01]\d|2[0-3])(?::?[0-5]\d)?)"

PLAIN = rf"(?:\d{{4}}-\d\d-\d\d|{_TIME})"
"""Pattern of dates, and of times without a zone."""

ZONED = _TIME + _ZONE
"""Pattern of times with a zone."""

_PLAIN = re.compile(PLAIN, re.ASCII)
_ZONED = re.compile(f"({_TIME})({_ZONE})", re.ASCII)


def microseconds(texts: Sequence[str | None]) -> npt.NDArray[np.datetime64]:
    """Convert texts to ``M8[us]`` times, in UTC or without a zone; None becomes NaT.

    Raise ``ValueError`` if a text is not a date or time, or only some texts have a zone.

    Examples
    --------
    >>> microseconds(["2026-01-01T09:00:00+09:00", "2026-01-01 00:00Z"]).tolist()[0].hour
    0
    """
    present = [text for text in texts if text is not None]
    if all(map(_PLAIN.fullmatch, present)):
        return np.array(["NaT" if text is None else text for text in texts], dtype="M8[us]")
    plain, shifts = ["NaT"] * len(texts), np.zeros(len(texts), dtype="m8[m]")
    for row, text in enumerate(texts):
        if text is None:
            continue
        found = _ZONED.fullmatch(text)
        if found is None:
            raise ValueError(f"{text!r} has no zone, or is not a time")
        plain[row], shifts[row] = found[1], _minutes(found[2])
    return np.asarray(np.array(plain, dtype="M8[us]") - shifts)


def _minutes(zone: str) -> int:
    """Return the minutes by which a zone is ahead of UTC."""
    if zone == "Z":
        return 0
    digits = zone[1:].replace(":", "")
    minutes = 60 * int(digits[:2]) + int(digits[2:] or 0)
    return -minutes if zone[0] == "-" else minutes


def in_utc(ticks: AnyArray) -> AnyArray:
    """Return microseconds of UTC as objects with this zone, which NumPy's dates do not have."""
    found = [item and item.replace(tzinfo=dt.UTC) for item in ticks.view("M8[us]").tolist()]
    return np.array(found, dtype=object)


def is_zoned(text: str) -> bool:
    """Return whether a text is a time with a zone."""
    return _ZONED.fullmatch(text) is not None
