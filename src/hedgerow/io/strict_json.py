"""Canonical JSON with fixed bounds, which is safe to read from any source.

Python's ``json`` accepts more than the standard (NaN, duplicate keys, numbers of any length),
and hostile input makes it recurse or allocate without bound.  In this module

* :func:`encode` writes canonical ASCII: sorted keys, no spaces, shortest floats;
* :func:`decode` first counts values and nesting in one vectorised pass over the bytes, which
  bounds the objects that ``json`` then builds, and rejects duplicate keys, NaN, infinities
  and numbers beyond 64 bits.

A training record may hold non-finite floats (of a loss that diverged).  They are written as
``{"$float": "nan"}``, ``"inf"`` or ``"-inf"``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hedgerow.errors import DataTypeError, ModelFormatError

MAX_DEPTH = 32
MAX_VALUES = 1 << 21
MAX_CONTAINERS = 1 << 18
"""Bounds of one text: nesting, values (counted by commas), and lists and objects.

A value costs Python at most about 60 bytes and a container 80, so decoding
allocates at most about 150 MB whatever the text.
"""

_MAX_NUMBER_LENGTH = 32
_FLOAT_TAG = "$float"
_NON_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def encode(value: Any, name: str) -> str:
    """Convert plain values, NumPy numbers and arrays to canonical JSON."""
    plain = _plain(value, name, 1)
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False)
    try:
        _check_bounds(text.encode("ascii"))
    except ValueError as error:
        raise ModelFormatError(f"{name} cannot be saved: {error}") from None
    return text


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of a text, and whether it may have NaN and infinities."""

    values: int = MAX_VALUES
    containers: int = MAX_CONTAINERS
    depth: int = MAX_DEPTH
    constants: bool = False


OURS = Bounds()


def decode(text: bytes | str, name: str, bounds: Bounds = OURS) -> Any:
    """Read JSON that :func:`encode` could have written; files of others have wider ``bounds``."""
    try:
        data = text.encode("ascii") if isinstance(text, str) else text
        _check_bounds(data, bounds)
        return json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_object,
            parse_int=_integer,
            parse_float=_float,
            parse_constant=float if bounds.constants else _constant,
        )
    except (ValueError, RecursionError) as error:  # UnicodeError is a ValueError
        raise ModelFormatError(f"{name} cannot be read as JSON: {error}") from None


def _plain(value: Any, name: str, depth: int) -> Any:
    """Convert ``value`` to types of JSON; errors name the position in the value."""
    if depth > MAX_DEPTH:
        raise DataTypeError(f"{name} is nested more than {MAX_DEPTH} levels deep.")
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if value is None or isinstance(value, bool | str):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, int):
        if not -(2**63) <= value < 2**64:
            raise DataTypeError(f"{name} is an integer beyond 64 bits; store it as a string.")
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {_FLOAT_TAG: repr(float(value))}
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str) or key == _FLOAT_TAG:
                raise DataTypeError(
                    f"{name} has the key {key!r}; keys must be strings, not '$float'."
                )
        return {str(key): _plain(item, f"{name}.{key}", depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        if depth < MAX_DEPTH and _are_plain_numbers(value):
            return list(value)
        return [_plain(item, f"{name}[{i}]", depth + 1) for i, item in enumerate(value)]
    raise DataTypeError(
        f"{name} is a {type(value).__name__}, which a model file cannot hold; allowed are "
        "None, bool, numbers, strings, and lists, arrays and string-keyed mappings of these."
    )


def _are_plain_numbers(values: Sequence[Any]) -> bool:
    """Return whether all values are Python's finite floats, or all are integers of 64 bits."""
    # Lists with a number for each row are long; to go through them item by item takes seconds.
    kinds = {*map(type, values)}
    if kinds == {float}:
        return all(map(math.isfinite, values))
    return kinds == {int} and min(values) >= -(2**63) and max(values) < 2**64


def _check_bounds(data: bytes, bounds: Bounds = OURS) -> None:
    """Check nesting, containers and values before any object is built."""
    # JSON has no backslashes outside of strings, so escapes can be removed first: pairs of
    # backslashes, then escaped quotes. The remaining quotes alternately open and close strings.
    bare = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    letters = np.frombuffer(bare, dtype=np.uint8)
    inside = np.bitwise_xor.accumulate(letters == ord('"'))
    marks = letters[~inside]
    opening = (marks == ord("[")) | (marks == ord("{"))
    closing = (marks == ord("]")) | (marks == ord("}"))
    step = opening.astype(np.int8) - closing.astype(np.int8)
    depth = np.cumsum(step[step != 0], dtype=np.int32)
    if len(depth) and int(depth.max()) > bounds.depth:
        raise ValueError(f"nested more than {bounds.depth} levels deep")
    commas = int((marks == ord(",")).sum())
    if int(opening.sum()) > bounds.containers or commas >= bounds.values:
        raise ValueError(
            f"more than {bounds.values:,} values or {bounds.containers:,} lists and objects"
        )


def _object(pairs: list[tuple[str, Any]]) -> Any:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a duplicate key")
    if _FLOAT_TAG in members:
        tag = members[_FLOAT_TAG]
        if len(members) != 1 or not isinstance(tag, str) or tag not in _NON_FINITE:
            raise ValueError(f"misused key {_FLOAT_TAG!r}")
        return _NON_FINITE[tag]
    return members


def _integer(text: str) -> int:
    number = int(text) if len(text) <= _MAX_NUMBER_LENGTH else 2**64
    if not -(2**63) <= number < 2**64:
        raise ValueError("an integer beyond 64 bits")
    return number


def _float(text: str) -> float:
    number = float(text) if len(text) <= _MAX_NUMBER_LENGTH else math.inf
    if not math.isfinite(number):
        raise ValueError("a number beyond the range of float64")
    return number


def _constant(text: str) -> float:
    raise ValueError(f"literal {text}")
