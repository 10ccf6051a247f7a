"""The way of reading: at once, or in batches if the tables are larger than memory.

The model has the same bytes either way.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from hedgerow.data.external.memory import memory_bytes, shown_bytes
from hedgerow.data.sources.arrow_files import open_native
from hedgerow.data.sources.paths import find_files

_COPIES = 3
"""Memory of a table, in multiples of its numbers: values read, columns, and bins."""
_TEXT_TO_MEMORY, _PACKED_TO_TEXT = 2, 5


class Way(NamedTuple):
    """Whether the rows are read at once: ``needed`` bytes, about, and the ``limit``."""

    in_memory: bool
    needed: int
    limit: int
    n_files: int

    def __str__(self) -> str:
        files = "1 file" if self.n_files == 1 else f"{self.n_files} files"
        fits = "fits" if self.in_memory else "does not fit"
        how = "read at once" if self.in_memory else "read in batches, binned rows on disk"
        return (
            f"{files}: {how} (about {shown_bytes(self.needed)} in memory, which {fits} into the "
            f"limit of {shown_bytes(self.limit)})"
        )


def choose_way(paths: Sequence[str], memory_limit: str | None) -> Way:
    """Choose the way of reading some files."""
    limit = memory_bytes(memory_limit, "--memory-limit")
    files = find_files(paths)
    needed = sum(_bytes_in_memory(file.path, file.format) for file in files)
    return Way(needed <= limit, needed, limit, len(files))


def _bytes_in_memory(path: str, kind: str) -> int:
    size = os.path.getsize(path)
    if kind == "parquet":
        try:
            import pyarrow.parquet

            with open_native(path) as source, pyarrow.parquet.ParquetFile(source) as file:
                return _COPIES * 8 * file.metadata.num_rows * file.metadata.num_columns
        except (ImportError, OSError, ValueError):
            return _COPIES * _PACKED_TO_TEXT * size  # the reader reports the error
    packed = _PACKED_TO_TEXT if path.lower().endswith(".gz") else 1
    return _COPIES * packed * size * (_TEXT_TO_MEMORY if kind != "arrow" else 1)
