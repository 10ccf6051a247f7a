"""Recognise and convert text of ISO 8601 dates and times.

A time may end with a zone: ``Z``, ``+09:00``, ``-0330`` or ``+09``.  It is then converted to
UTC, like times with a zone in frames.  Either all times of a column have a zone, or none,
because times with and without a zone cannot be compared.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

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

    Raises
    ------
    ValueError
        If a text is not a date or time, or only some texts have a zone.

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


def is_zoned(text: str) -> bool:
    """Whether a text is a time with a zone."""
    return _ZONED.fullmatch(text) is not None
