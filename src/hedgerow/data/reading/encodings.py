"""Detect text files that are not in UTF-8 by their first bytes."""

from __future__ import annotations

import gzip
import zlib
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from typing import Any

from hedgerow.errors import StorageError


def check_encoding(path: str) -> None:
    """Raise if a text file looks like UTF-16 or UTF-32.

    Raises
    ------
    StorageError
        If its first bytes are a UTF-16 byte order mark or contain zeros.
    """
    opener: Any = gzip.open if path.lower().endswith(".gz") else open
    try:
        with opener(path, "rb") as file:
            first = file.read(64)
    except (OSError, EOFError, zlib.error):
        return  # the reader raises the error
    if first.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) or b"\0" in first:
        raise StorageError(
            f"{path} is not text in UTF-8, but looks like UTF-16 or UTF-32: save it as UTF-8."
        )
