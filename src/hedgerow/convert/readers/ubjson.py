"""UBJSON, draft 12, in the subset of XGBoost's ``.ubj`` files, with limits.

Typed arrays become NumPy arrays.  The reader allocates memory only for bytes that
exist; depth and number of values are limited.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from hedgerow.errors import ModelFormatError

MAX_DEPTH = 64
MAX_VALUES = 1 << 24

_SCALARS: dict[bytes, str] = dict(
    zip((b"i", b"U", b"I", b"u", b"l", b"m", b"L", b"M", b"d", b"D"), "bBhHiIqQfd", strict=True)
)
"""Code of the struct module for each marker of a number; all are big-endian."""

_CONSTANTS: dict[bytes, Any] = {b"Z": None, b"T": True, b"F": False}
_LENGTHS = frozenset({b"i", b"U", b"I", b"l", b"L"})


def decode(data: bytes) -> Any:
    """Decode a document."""
    reader = _Reader(data)
    value = reader.value(reader.take(1), 0)
    if reader.at != len(data):
        raise ModelFormatError("bytes follow the end of the UBJSON document.")
    return value


class _Reader:
    """Position in the bytes, and number of values read."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at, self.count = data, 0, 0

    def take(self, size: int) -> bytes:
        if size < 0 or size > len(self.data) - self.at:
            raise ModelFormatError("the UBJSON document is truncated.")
        self.at += size
        return self.data[self.at - size : self.at]

    def value(self, marker: bytes, depth: int) -> Any:
        self.count += 1
        if self.count > MAX_VALUES or depth > MAX_DEPTH:
            raise ModelFormatError("the UBJSON document has too many values or levels.")
        if marker in _CONSTANTS:
            return _CONSTANTS[marker]
        if marker in _SCALARS:
            return self.number(marker)
        if marker == b"S":
            return self.text()
        if marker == b"C":
            return self.take(1).decode("latin-1")
        if marker == b"[":
            return self.array(depth)
        if marker == b"{":
            return self.object(depth)
        raise ModelFormatError(f"unknown marker {marker!r} in the UBJSON document.")

    def number(self, marker: bytes) -> Any:
        code = ">" + _SCALARS[marker]
        return struct.unpack(code, self.take(struct.calcsize(code)))[0]

    def length(self) -> int:
        marker = self.take(1)
        if marker not in _LENGTHS:
            raise ModelFormatError("a length in the UBJSON document is malformed.")
        found = int(self.number(marker))
        if found < 0:
            raise ModelFormatError("a length in the UBJSON document is negative.")
        return found

    def text(self) -> str:
        try:
            return self.take(self.length()).decode("utf-8")
        except UnicodeDecodeError as error:
            raise ModelFormatError(f"a text is not UTF-8: {error.reason}.") from None

    def array(self, depth: int) -> Any:
        marker = self.take(1)
        if marker == b"$":
            kind = self.take(1)
            if kind not in _SCALARS or self.take(1) != b"#":
                raise ModelFormatError("a typed array of the UBJSON document is malformed.")
            dtype = np.dtype(">" + _SCALARS[kind])
            raw = self.take(self.length() * dtype.itemsize)
            return np.frombuffer(raw, dtype=dtype).astype(dtype.newbyteorder("="))
        if marker == b"#":
            return [self.value(self.take(1), depth + 1) for _ in range(self._bounded())]
        found = []
        while marker != b"]":
            found.append(self.value(marker, depth + 1))
            marker = self.take(1)
        return found

    def object(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        marker = self.take(1)
        if marker == b"#":
            for _ in range(self._bounded()):
                self._entry(found, depth)
            return found
        while marker != b"}":
            self.at -= 1
            self._entry(found, depth)
            marker = self.take(1)
        return found

    def _bounded(self) -> int:
        """Read a number of values, checked against the remaining bytes."""
        count = self.length()
        if count > len(self.data) - self.at:
            raise ModelFormatError("the UBJSON document is truncated.")
        return count

    def _entry(self, found: dict[str, Any], depth: int) -> None:
        name = self.text()
        if name in found:
            raise ModelFormatError("an object of the UBJSON document has a name twice.")
        found[name] = self.value(self.take(1), depth + 1)
