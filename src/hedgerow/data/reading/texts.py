"""Infer the types of text columns in files, and convert them.

Every reader of text files gets Arrow arrays of text, null where a value is missing, and this is
the only place where such a column gets a type.  Its kind is the first of these that matches all
values::

    nothing    no values
    int        integers of 64 bits
    float      numbers
    bool       true and false
    date       dates and times of ISO 8601 without a zone
    zoned      times with a zone, which become times of UTC
    text       anything else

Batches are inferred apart and joined: integers and floats are floats, and other kinds have
nothing in common but text.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

TextKind: TypeAlias = Literal["nothing", "int", "float", "bool", "date", "zoned", "text"]

_KINDS: tuple[TextKind, ...] = ("int", "float", "bool", "date", "zoned")
_TRUE, _FALSE = ("true", "True", "TRUE"), ("false", "False", "FALSE")
_FEW = 100


def parse(texts: Any, decimal: str = ".") -> tuple[TextKind, Any]:
    """Return the kind of an Arrow column of text and the column in the type of that kind."""
    if texts.null_count == len(texts):
        return "nothing", convert(texts, "nothing")
    for kind in _KINDS:
        # Arrow makes an error for a text that it cannot convert: try the first values first.
        if convert(texts.slice(0, _FEW), kind, decimal) is not None:
            column = convert(texts, kind, decimal)
            if column is not None:
                return kind, column
    return "text", texts


def joined_kinds(parts: Iterable[Mapping[str, TextKind]]) -> dict[str, TextKind]:
    """Return the kind of each column, by name, from those of parts of the rows."""
    found: dict[str, TextKind] = {}
    for kinds in parts:
        for name, kind in kinds.items():
            before = found.get(name, "nothing")
            if "nothing" in (before, kind):
                found[name] = kind if before == "nothing" else before
            elif before != kind:
                found[name] = "float" if {before, kind} == {"int", "float"} else "text"
    return found


def convert(texts: Any, kind: TextKind, decimal: str = ".") -> Any:
    """Convert a column of text to the type of a kind; None if a text is not of this kind."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if kind == "text":
        return texts
    if kind == "nothing":
        return pa.nulls(len(texts), pa.float64())
    if kind == "bool":
        is_true = pc.is_in(texts, value_set=pa.array(_TRUE))
        known = pc.or_(is_true, pc.is_in(texts, value_set=pa.array(_FALSE)))
        if pc.sum(known).as_py() != len(texts) - texts.null_count:
            return None
        return pc.if_else(pc.is_valid(texts), is_true, None)
    if kind == "date":
        return _cast(texts, pa.timestamp("us"))
    if kind == "zoned":
        return _cast(texts, pa.timestamp("us", "UTC"))
    target = pa.int64() if kind == "int" else pa.float64()
    if kind == "float" and decimal == ",":
        texts = pc.replace_substring(texts, ",", ".")
    column = _cast(texts, target)
    if column is None:
        texts = pc.utf8_trim(texts, " \t")
        column = _cast(texts, target)
    # Arrow takes hexadecimals such as 0x1F, which are no numbers elsewhere.
    if column is not None and kind == "int":
        has_letter = pc.any(pc.match_substring(texts, "x", ignore_case=True)).as_py()
        return None if has_letter else column
    return column


def _cast(texts: Any, target: Any) -> Any:
    import pyarrow as pa

    try:
        return texts.cast(target)
    except pa.ArrowInvalid:
        return None


def microseconds(texts: Sequence[str | None]) -> npt.NDArray[np.datetime64]:
    """Convert texts to ``M8[us]`` times, in UTC or without a zone; None becomes NaT."""
    found = [None if text is None else dt.datetime.fromisoformat(text) for text in texts]
    zoned = {time.tzinfo is not None for time in found if time is not None}
    if len(zoned) > 1:
        raise ValueError("some times have a zone, and others have none")
    if True in zoned:
        found = [time and time.astimezone(dt.UTC).replace(tzinfo=None) for time in found]
    return np.array(found, dtype="M8[us]")
