"""Serialization of plain values and arrays to bytes, for other processes: JSON, then the arrays.

Each part is in NumPy's file format.  Reading executes no code.
"""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any

import numpy as np
from numpy.lib.format import read_array

from hedgerow.arrays import AnyArray
from hedgerow.errors import CommunicationError


def pack(value: Any) -> bytes:
    """Convert JSON-like values, which may hold arrays of numbers, to bytes."""
    arrays: list[AnyArray] = []

    def described(array: AnyArray) -> dict[str, Any]:
        arrays.append(array)
        return {"array": None}

    text = json.dumps(value, default=described, separators=(",", ":")).encode("ascii")
    file = BytesIO()
    for part in (np.frombuffer(text, np.uint8), *arrays):
        np.save(file, part, allow_pickle=False)
    return file.getvalue()


def unpack(message: bytes) -> Any:
    """Return the value of :func:`pack`; raise ``CommunicationError`` if the bytes are malformed."""
    file = BytesIO(message)
    try:
        text = read_array(file, allow_pickle=False).tobytes()
        value = json.loads(
            text,
            object_hook=lambda record: (
                read_array(file, allow_pickle=False) if record == {"array": None} else record
            ),
        )
        if file.read(1):
            raise ValueError("something follows the last array")
    except Exception as error:  # whatever the readers of JSON and of arrays raise
        raise CommunicationError(f"a message of another process is malformed: {error}.") from None
    return value
