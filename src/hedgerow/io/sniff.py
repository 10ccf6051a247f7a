"""Guess the type of a file that is not a Hedgerow model, for the error message."""

from __future__ import annotations

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
