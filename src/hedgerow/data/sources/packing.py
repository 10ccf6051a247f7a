"""Serialization of plain values and arrays to bytes, for other processes.

::

    length of the text: u64 | JSON: {"value": ..., "arrays": [[dtype, shape], ...]} | arrays

Reading executes no code.  A malformed message raises ``CommunicationError``.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from hedgerow.arrays import AnyArray
from hedgerow.errors import CommunicationError

_LENGTH = struct.Struct("<Q")
_TYPES = ("<f4", "<f8", "<i4", "<i8", "<u8", "|b1")


def pack(value: Any, arrays: Sequence[AnyArray]) -> bytes:
    """Convert JSON-like values and arrays of numbers to bytes."""
    plain = [np.ascontiguousarray(a, dtype=a.dtype.newbyteorder("<")) for a in arrays]
    shapes = [[array.dtype.str, list(array.shape)] for array in plain]
    text = json.dumps({"value": value, "arrays": shapes}, separators=(",", ":")).encode("ascii")
    return b"".join([_LENGTH.pack(len(text)), text, *(array.tobytes() for array in plain)])


def unpack(message: bytes) -> tuple[Any, list[AnyArray]]:
    """Return the value and arrays from the result of :func:`pack`.

    Raise ``CommunicationError`` if the bytes are malformed.
    """
    try:
        (length,) = _LENGTH.unpack_from(message)
        head = json.loads(message[_LENGTH.size : _LENGTH.size + length])
        arrays, begin = [], _LENGTH.size + length
        for name, shape in head["arrays"]:
            if name not in _TYPES or not all(type(n) is int and n >= 0 for n in shape):
                raise ValueError(f"an array of type {name!r} and shape {shape!r}")
            dtype = np.dtype(name)
            stop = begin + math.prod(shape) * dtype.itemsize
            if stop > len(message):
                raise ValueError("it ends within an array")
            array = np.frombuffer(message[begin:stop], dtype).reshape(shape)
            arrays.append(array.astype(dtype.newbyteorder("=")))
            begin = stop
        if begin != len(message):
            raise ValueError("something follows the last array")
        return head["value"], arrays
    except (ValueError, KeyError, TypeError, struct.error, RecursionError) as error:
        raise CommunicationError(f"a message of another process is malformed: {error}.") from None
