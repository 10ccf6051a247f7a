"""Training rows in chunks on disk.

::

    with ChunkSink(spec, cache_dir, memory_limit) as sink:
        for ...:                                         batches of any size, in row order
            sink.append(bin_table(batch, spec), target, weight)
        store = sink.finish()                            a RowStore
    with store:
        store.begin(n_outputs=1, keeps_probability=False)
        for chunk in store.chunks(): ...
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from hedgerow.arrays import FloatArray
from hedgerow.data.bins import BinSpec
from hedgerow.data.bundles import Layout
from hedgerow.data.matrix import BinnedMatrix
from hedgerow.data.row_store import EVERYTHING, Chunk, Uses

Compression = Literal["auto", "none", "always"]


class ChunkSink:
    """Takes binned rows in batches of any size and writes chunks of equal size.

    Parameters
    ----------
    spec : BinSpec
        Of all rows; what is appended must have been binned with it.
    cache_dir : path, or sequence of paths
        Existing folders.  A temporary folder is made in each; chunks go to them in turn.
    memory_limit : int
        Bytes that the store may use later on, the chunks in use and their work included.
    n_outputs : int, default=1
        Raw scores of a row in the fits to come: they share the memory with the bins.
    keeps_probability : bool, default=False
        As for :meth:`DiskStore.begin`.
    layout : Layout, optional
        Of bundles, that of every matrix.
    compression : {"auto", "none", "always"}, default="auto"
    chunk_rows : int, optional
        Rows of a chunk; default: from the limit and the width of a row.

    Raises
    ------
    ParameterError
        If the limit is too small; the message says what would do.
    StorageError
        If a folder cannot be written.
    """

    def __init__(
        self,
        spec: BinSpec,
        cache_dir: str | Path | Sequence[str | Path],
        memory_limit: int,
        *,
        n_outputs: int = 1,
        keeps_probability: bool = False,
        layout: Layout | None = None,
        compression: Compression = "auto",
        chunk_rows: int | None = None,
    ) -> None:
        raise NotImplementedError

    def append(
        self,
        matrix: BinnedMatrix,
        target: FloatArray,
        weight: FloatArray | None = None,
        offset: FloatArray | None = None,
    ) -> None:
        """Add the next rows.

        Parameters
        ----------
        matrix : BinnedMatrix
            Both layouts, not paired.  Copied.
        target : float64 (n_rows,)
        weight : float64 (n_rows,), optional
            In every batch or in none.
        offset : float64 (n_outputs, n_rows), optional
            In every batch or in none.
        """
        raise NotImplementedError

    def finish(self, first_row: int = 0) -> DiskStore:
        """Write the last chunk and hand over the files; the sink is of no use afterwards."""
        raise NotImplementedError

    def close(self) -> None:
        """Delete what was written, unless :meth:`finish` has handed it over."""
        raise NotImplementedError


class DiskStore:
    """Chunks on disk: a :class:`hedgerow.data.row_store.RowStore`.

    Made by :meth:`ChunkSink.finish`.  Serves one fit at a time, any number in turn.
    ``first_row`` may be set as long as no pass is going on.
    """

    spec: BinSpec
    chunk_sizes: Sequence[int]
    first_row: int

    def begin(self, n_outputs: int, keeps_probability: bool) -> None:
        """Make room for the work of a fit; contents are undefined."""
        raise NotImplementedError

    def chunks(
        self, numbers: Sequence[int] | None = None, uses: Uses = EVERYTHING
    ) -> Iterator[Chunk]:
        """The chunks with these numbers, ascending (default: all)."""
        raise NotImplementedError

    def close(self) -> None:
        """Delete the files; a second call does nothing."""
        raise NotImplementedError
