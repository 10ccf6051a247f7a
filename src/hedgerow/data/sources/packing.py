"""Serialization of plain values and arrays to bytes, for other processes.

::

    length of the text: u64 | JSON, {"array": [dtype, shape]} for each array | arrays, in order

Reading executes no code.  A malformed message raises ``CommunicationError``.
"""

from __future__ import annotations

import json
import math
import struct
from typing import Any

import numpy as np

from hedgerow.arrays import AnyArray
from hedgerow.errors import CommunicationError

_LENGTH = struct.Struct("<Q")
_TYPES = ("<f4", "<f8", "<i4", "<i8", "<u8", "|b1")


def pack(value: Any) -> bytes:
    """Convert JSON-like values, which may hold arrays of numbers, to bytes."""
    arrays: list[AnyArray] = []

    def described(array: AnyArray) -> dict[str, Any]:
        arrays.append(np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")))
        return {"array": [arrays[-1].dtype.str, array.shape]}

    text = json.dumps(value, default=described, separators=(",", ":")).encode("ascii")
    return b"".join([_LENGTH.pack(len(text)), text, *(array.tobytes() for array in arrays)])


def unpack(message: bytes) -> Any:
    """Return the value of :func:`pack`; raise ``CommunicationError`` if the bytes are malformed."""
    begin = _LENGTH.size

    def read(record: dict[str, Any]) -> Any:
        """Return the next array if a record describes one, else the record."""
        nonlocal begin
        if record.keys() != {"array"}:
            return record
        name, shape = record["array"]
        if name not in _TYPES or not all(type(n) is int and n >= 0 for n in shape):
            raise ValueError(f"an array of type {name!r} and shape {shape!r}")
        dtype = np.dtype(name)
        stop = begin + math.prod(shape) * dtype.itemsize
        if stop > len(message):
            raise ValueError("it ends within an array")
        array = np.frombuffer(message[begin:stop], dtype).reshape(shape)
        begin = stop
        return array.astype(dtype.newbyteorder("="))

    try:
        (length,) = _LENGTH.unpack_from(message)
        text = message[begin : begin + length]
        begin += length
        value = json.loads(text, object_hook=read)
        if begin != len(message):
            raise ValueError("something follows the last array")
    except (ValueError, KeyError, TypeError, struct.error, RecursionError) as error:
        raise CommunicationError(f"a message of another process is malformed: {error}.") from None
    return value
