"""The container of model files: a valid safetensors file with its own checksum.

::

    offset  0        8                                     8 + n
            | n: u64 | {"__metadata__":{"checksum":"…", …  | arrays … |
                       ^ offset 8 in every version         ^ multiple of 8

* ``n`` is the length of the JSON header, which is padded with spaces so that the arrays
  start at a multiple of 8.  Arrays of 8-byte numbers come first, so each array is aligned
  in the file.
* The header always begins with the checksum, 64 hexadecimal digits at a fixed offset: the
  BLAKE2b-256 hash of all other bytes of the file.  It detects damage.  It is not a
  signature, so everything is validated as if an attacker had written the file.
* The metadata is a map from string to string, as safetensors requires.

Reading is a chain of checks, each of which bounds the next one: length of the header, JSON
within bounds, arrays that tile the remainder of the file exactly, checksum.  No memory is
allocated on the basis of the header alone.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import stat
import struct
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hedgerow.arrays import AnyArray, aligned_empty
from hedgerow.errors import ModelFormatError
from hedgerow.io import strict_json

SNIFF_BYTES = 4096
"""Bytes from the start of a file that :func:`looks_like` needs."""

_ZLIB_LEVELS = (b"\x01", b"\x5e", b"\x9c", b"\xda")
_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"PK\x03\x04", "a zip archive (.npz, .skops, PyTorch, XLSX ...)"),
    (b"\x93NUMPY", "a NumPy .npy array"),
    (b"\x1f\x8b", "a gzip-compressed file (decompress it first)"),
    *((b"\x78" + level, "a zlib-compressed file (of joblib?)") for level in _ZLIB_LEVELS),
    (b"\x28\xb5\x2f\xfd", "a zstd-compressed file (decompress it first)"),
    (
        b"CBM1",
        "a CatBoost model (.cbm; save_model(path, format='json', pool=pool) writes a readable one)",
    ),
    (b"{L\x00", "an XGBoost model in UBJSON"),
    (b"PAR1", "a Parquet table"),
    (b"ARROW1", "an Arrow/Feather table"),
    (b"\x89HDF", "an HDF5 file"),
    (b"version https://git-lfs", "a Git LFS pointer, not the file itself (run 'git lfs pull')"),
    (b"tree\n", "a LightGBM text model"),
    (b"tree\r\n", "a LightGBM text model"),
)
_JSON_STARTS = (b"{", b"[")
_PICKLE_PROTOCOLS = (2, 3, 4, 5)


def looks_like(start: bytes) -> str | None:
    """Name the likely type of a file that begins with ``start``; None if unknown."""
    if not start:
        return "an empty file"
    for magic, name in _MAGIC:
        if start.startswith(magic):
            return name
    if start[0] == 0x80 and len(start) > 1 and start[1] in _PICKLE_PROTOCOLS:
        return "a Python pickle (open it with pickle or joblib; it could run any code)"
    if start[8:9] == b"{" and start[6:8] == b"\0\0":
        return "a safetensors file that Hedgerow did not write"
    text = start.lstrip(b"\xef\xbb\xbf \t\r\n")
    if text.startswith(_JSON_STARTS):
        return "an XGBoost JSON model" if b'"learner"' in start else "a JSON text"
    if text[:9].lower() == b"<!doctype" or text[:5].lower() in (b"<html", b"<?xml"):
        return "an HTML or XML page (a failed download?)"
    return None


MAX_HEADER = 16 << 20
"""Longest header in bytes; about 500,000 column names of 20 letters."""

DTYPES: dict[str, np.dtype[np.generic]] = {
    "F64": np.dtype("<f8"),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "U8": np.dtype("<u1"),
}
"""The element types that a file may hold, by their safetensors names."""

_NAMES = {dtype: name for name, dtype in DTYPES.items()}
_LENGTH = struct.Struct("<Q")
LENGTH_BYTES = _LENGTH.size
_ALIGNMENT = 8
_START = b'{"__metadata__":{"checksum":"'
_DIGITS = 64
_CHECKSUM = slice(LENGTH_BYTES + len(_START), LENGTH_BYTES + len(_START) + _DIGITS)


@dataclass(frozen=True, slots=True)
class Entry:
    """One array of a file: element type, shape (one axis), and its bytes after the header."""

    dtype: np.dtype[np.generic]
    shape: tuple[int, ...]
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Header:
    """Decoded header: metadata (without the checksum), and the position of each array."""

    metadata: dict[str, str]
    entries: dict[str, Entry]
    payload_start: int


def pack(metadata: Mapping[str, str], arrays: Mapping[str, AnyArray]) -> list[bytes | memoryview]:
    """Lay out a file, whose content is the concatenation of the parts returned."""
    tensors: dict[str, object] = {}
    payload: list[memoryview] = []
    end = 0
    for name, array in arrays.items():
        plain = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        begin, end = end, end + plain.nbytes
        tensors[name] = {
            "data_offsets": [begin, end],
            "dtype": _NAMES[plain.dtype],
            "shape": list(plain.shape),
        }
        payload.append(plain.reshape(-1).view(np.uint8).data)
    head = {"__metadata__": {"checksum": "0" * _DIGITS, **metadata}, **tensors}
    text = json.dumps(head, sort_keys=True, separators=(",", ":")).encode("ascii")
    text += b" " * (-(LENGTH_BYTES + len(text)) % _ALIGNMENT)
    if len(text) > MAX_HEADER:
        raise ModelFormatError(
            f"the model's header (column names, training record) takes {len(text):,} bytes; "
            f"at most {MAX_HEADER:,} can be saved. Shorten the training record or the names."
        )
    start = _LENGTH.pack(len(text)) + text
    if not start.startswith(_START, LENGTH_BYTES):
        raise ValueError("a metadata key sorts before 'checksum'")
    digest = _digest(start, payload)
    return [start[: _CHECKSUM.start] + digest + start[_CHECKSUM.stop :], *payload]


def read_file(path: str) -> bytes:
    """Return the content of a file that begins as ours do; anything else is not read."""
    # A pipe or a device could block when opened, or never end.
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise ModelFormatError("this is not a regular file.")
    with open(path, "rb") as file:
        header_length(file.read(SNIFF_BYTES), os.fstat(file.fileno()).st_size)
        file.seek(0)
        return file.read()


def unpack(data: bytes | bytearray | memoryview) -> tuple[Header, memoryview]:
    """Return the header and the arrays of a file after verifying all of its bytes."""
    view = memoryview(data).cast("B")
    length = header_length(bytes(view[:SNIFF_BYTES]), len(view))
    start, payload = bytes(view[: LENGTH_BYTES + length]), view[LENGTH_BYTES + length :]
    header = parse_header(start[LENGTH_BYTES:])
    check_tiling(header, len(view))
    if start[_CHECKSUM] != _digest(start, [payload]):
        raise ModelFormatError("the checksum does not match: the file was damaged or altered.")
    return header, payload


def header_length(prefix: bytes, file_size: int) -> int:
    """Return the length of the header; raise with a guess if this is not a Hedgerow file."""
    begin = prefix[LENGTH_BYTES : _CHECKSUM.start]
    if not begin or not _START.startswith(begin):
        guess = looks_like(prefix)
        hint = f": it looks like {guess}." if guess else "."
        raise ModelFormatError(f"this is not a Hedgerow model file{hint}")
    length = int(_LENGTH.unpack_from(prefix)[0])
    if length > MAX_HEADER:
        raise ModelFormatError(f"the header is longer than {MAX_HEADER:,} bytes.")
    if length > file_size - LENGTH_BYTES:
        raise ModelFormatError(
            f"the file ends within its header, after {file_size:,} bytes: it was cut short."
        )
    return length


def parse_header(text: bytes) -> Header:
    """Decode the header and check the types of shapes and offsets, not yet their values."""
    head = strict_json.decode(text, "the header")
    metadata = head.pop("__metadata__") if isinstance(head, dict) else None
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise ModelFormatError("the header's metadata is not a map from string to string.")
    metadata.pop("checksum", None)
    entries = {name: _entry(name, value) for name, value in head.items()}
    return Header(metadata, entries, LENGTH_BYTES + len(text))


def check_header(
    header: Header, dtypes: Mapping[str, np.dtype[np.generic]], needed: set[str]
) -> None:
    """Check that the header has exactly these arrays, and all metadata that are needed."""
    missing = needed - header.metadata.keys()
    if missing:
        raise ModelFormatError(f"the metadata lack {', '.join(sorted(missing))}.")
    if header.entries.keys() != dtypes.keys():
        different = ", ".join(sorted(header.entries.keys() ^ dtypes.keys()))
        raise ModelFormatError(f"arrays are missing or unknown: {different[:200]}.")
    for name, entry in header.entries.items():
        if entry.dtype != dtypes[name].newbyteorder("<"):
            raise ModelFormatError(f"array {name!r} must have dtype {dtypes[name]}.")


def check_tiling(header: Header, file_size: int) -> None:
    """Check that the arrays tile the remainder of the file without gaps or overlaps."""
    position = 0
    in_order = sorted(header.entries.items(), key=lambda item: (item[1].begin, item[1].end))
    for name, entry in in_order:
        if entry.begin != position:
            raise ModelFormatError(f"array {name!r} does not follow the one before it.")
        position = entry.end
    expected = header.payload_start + position
    if expected != file_size:
        what = "it was cut short" if expected > file_size else "something was appended"
        raise ModelFormatError(
            f"the header announces a file of {expected:,} bytes, it has {file_size:,}: {what}."
        )


def array_at(header: Header, name: str, payload: memoryview) -> AnyArray:
    """Return a read-only copy of an array, in native byte order, aligned to a cache line."""
    entry = header.entries[name]
    raw = np.frombuffer(payload[entry.begin : entry.end], dtype=entry.dtype)
    array = aligned_empty(entry.shape, entry.dtype.newbyteorder("="))
    array[...] = raw.reshape(entry.shape)
    array.flags.writeable = False
    return array


def _digest(start: bytes, payload: list[memoryview]) -> bytes:
    digest = hashlib.blake2b(start[: _CHECKSUM.start], digest_size=_DIGITS // 2)
    digest.update(start[_CHECKSUM.stop :])
    for part in payload:
        digest.update(part)
    return digest.hexdigest().encode("ascii")


def _entry(name: str, value: object) -> Entry:
    """Check the description of an array; sizes are Python integers, which cannot overflow."""
    if not isinstance(value, dict) or value.keys() != {"dtype", "shape", "data_offsets"}:
        raise ModelFormatError(f"array {name!r} needs dtype, shape and data_offsets, no more.")
    dtype = DTYPES.get(value["dtype"]) if isinstance(value["dtype"], str) else None
    if dtype is None:
        raise ModelFormatError(f"array {name!r} has a dtype other than {', '.join(DTYPES)}.")
    shape, offsets = value["shape"], value["data_offsets"]
    if not (_is_sizes(shape) and _is_sizes(offsets) and len(shape) == 1 and len(offsets) == 2):
        raise ModelFormatError(f"array {name!r} has a malformed shape or data_offsets.")
    begin, end = offsets
    if end - begin != math.prod(shape) * dtype.itemsize:
        raise ModelFormatError(f"array {name!r} has a shape that does not fit its bytes.")
    return Entry(dtype, tuple(shape), begin, end)


def _is_sizes(value: object) -> bool:
    """Return whether ``value`` is a list of integers from 0 to 2**63 - 1."""
    return isinstance(value, list) and all(type(v) is int and 0 <= v < 2**63 for v in value)
