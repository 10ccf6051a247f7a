"""Writer of binned rows to disk in chunks; see :mod:`hedgerow.data.external.disk_store`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self

import numpy as np

from hedgerow.arrays import BinArray, FloatArray, aligned_zeros
from hedgerow.data.binning.bins import BinSpec
from hedgerow.data.binning.bundles import Layout
from hedgerow.data.binning.matrix import PAD, BinnedMatrix, tile_shape
from hedgerow.data.external.block_files import GRANULE, LARGE_PAGE, Block, BlockFile
from hedgerow.data.external.column_codec import encode_column, find_lz4
from hedgerow.data.external.disk_store import DiskStore, StoreFiles
from hedgerow.data.external.manifest import ChunkRecord, Manifest, digest_of, write_manifest
from hedgerow.data.external.memory_plan import RowShape, divide_memory, file_cache_bytes
from hedgerow.data.external.row_store import Metadata
from hedgerow.data.external.scratch import ScratchFolder
from hedgerow.errors import DataError, ParameterError, StorageError

Compression = Literal["auto", "none", "always"]
Folders = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


class ChunkSink:
    """Writer that takes binned rows in batches of any size and writes chunks of equal size.

    Parameters
    ----------
    spec : BinSpec
        Bins of all rows; every batch must be binned with them.
    cache_dir : path, or sequence of paths
        Existing folders.  A temporary folder is made in each.  Chunks are distributed over
        them in turn, and each folder has its own thread that fetches its chunks.
    memory_limit : int
        Memory in bytes for the store, including the chunks in use and their working arrays.
    n_outputs : int, default=1
        Raw scores of a row in later fits, which share the memory with the bins.
    keeps_probability, n_vectors : default=False and 1
        As for :meth:`DiskStore.begin`.
    layout : Layout, optional
        Layout of bundles, the same for every matrix.
    compression : {"auto", "none", "always"}, default="auto"
        Chunks to encode: those that the file cache is unlikely to keep, none, or all.
        Models do not depend on it.
    chunk_rows : int, optional
        Rows of a chunk; by default determined by the limit and the size of a row.

    Raises
    ------
    ParameterError
        If the limit is too small (the message names the minimum), or a path is no folder.
    StorageError
        If a folder is not writable.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from hedgerow.data import bin_table, fit_bins, read_table
    >>> table = read_table(np.arange(10.0).reshape(-1, 1))
    >>> spec = fit_bins(table, max_bins=255)
    >>> with tempfile.TemporaryDirectory() as folder, ChunkSink(spec, folder, 2**24) as sink:
    ...     for _ in range(3):
    ...         sink.append(bin_table(table, spec), np.arange(10.0))
    ...     with sink.finish() as store:
    ...         store.begin(n_outputs=1, keeps_probability=False)
    ...         [(chunk.n_rows, float(chunk.target.sum())) for chunk in store.chunks()]
    [(30, 135.0)]
    """

    def __init__(
        self,
        spec: BinSpec,
        cache_dir: Folders,
        memory_limit: int,
        *,
        n_outputs: int = 1,
        keeps_probability: bool = False,
        n_vectors: int = 1,
        layout: Layout | None = None,
        compression: Compression = "auto",
        chunk_rows: int | None = None,
    ) -> None:
        paths = [cache_dir] if isinstance(cache_dir, str | os.PathLike) else list(cache_dir)
        if not paths:
            raise ParameterError("cache_dir: name at least one folder.")
        if compression not in ("auto", "none", "always"):
            raise ParameterError(
                f"compression={compression!r} is unknown: use 'auto', 'none' or 'always'."
            )
        if chunk_rows is not None and not 1 <= chunk_rows < 1 << 30:
            raise ParameterError(f"chunk_rows={chunk_rows}: it must be from 1 to {(1 << 30) - 1}.")
        self._layout = None if layout is None or layout.is_identity else layout
        n_columns = spec.n_features if self._layout is None else self._layout.n_columns
        self._n_columns, self._tile = n_columns, tile_shape(n_columns)
        self._spec, self._limit, self._requested_rows = spec, memory_limit, chunk_rows
        self._for_fit = (n_outputs, keeps_probability)
        self._n_vectors = n_vectors
        self._lz4 = None if compression == "none" else find_lz4()
        uncoded = {"auto": file_cache_bytes(), "none": 1 << 62, "always": 0}
        self._left_unencoded = uncoded[compression]
        self._records: list[ChunkRecord] = []
        self._buffer: _Buffer | None = None
        self._spent = False
        self._plan_rows(len(paths), _Sizes())  # check the limit before making files
        self._folders: list[ScratchFolder] = []
        self._files: list[BlockFile] = []
        try:
            for path in paths:
                self._folders.append(ScratchFolder(path))
                stripe = len(self._files)
                self._files.append(BlockFile(self._folders[-1].path / f"blocks-{stripe}.bin"))
        except BaseException:
            self.close()
            raise

    def append(
        self,
        matrix: BinnedMatrix,
        target: FloatArray,
        weight: FloatArray | None = None,
        offset: FloatArray | None = None,
        numbers: FloatArray | None = None,
    ) -> None:
        """Add the next rows.

        Parameters
        ----------
        matrix : BinnedMatrix
            Matrix with both layouts, not paired (:mod:`hedgerow.data.binning.pairs`).  Copied.
        target : float64 (n_rows,), or (n_rows, n_targets)
            As many in every batch.
        weight : float64 (n_rows,), optional
            In every batch or in none.
        offset : float64 (n_outputs, n_rows), optional
            In every batch or in none.
        numbers : float64 (n_rows, n_features), optional
            Values of the columns, for linear leaves: in every batch or in none.

        Raises
        ------
        DataError
            If the batch does not match the bins or the batches before it.
        StorageError
            If the batch cannot be written.  All files are deleted in this case.
        """
        if self._spent:
            raise StorageError("the sink is finished or closed and takes no more rows.")
        given = Metadata(target, weight, offset, numbers)
        self._check(matrix, given)
        sizes = _Sizes.of(given)
        if self._buffer is None:
            rows = self._plan_rows(len(self._files), sizes)
            self._buffer = _Buffer(rows, self._n_columns, self._tile, sizes)
        buffer = self._buffer
        if buffer.sizes.n_targets != sizes.n_targets:
            raise DataError(
                f"a batch has {sizes.n_targets} targets and an earlier one "
                f"{buffer.sizes.n_targets}: give the same number with every batch."
            )
        if buffer.sizes != sizes:
            raise DataError(
                "some batches come with weights, offsets or numbers and others without: "
                "give them with every batch or with none."
            )
        try:
            start = 0
            while start < matrix.n_rows:
                start += buffer.fill(matrix, given, start)
                if buffer.n_rows == buffer.capacity:
                    self._write()
        except BaseException:
            self.close()
            raise

    def finish(self, first_row: int = 0) -> DiskStore:
        """Write the last chunk and return a store that owns the files; the sink is then closed."""
        if self._spent:
            raise StorageError("the sink is already finished or closed.")
        try:
            if self._buffer is not None and self._buffer.n_rows > 0:
                self._write()
            files = StoreFiles(self._folders, self._files, self._folders[0].path / "manifest.json")
            sizes = _Sizes() if self._buffer is None else self._buffer.sizes
            manifest = Manifest(
                digest_of(self._spec),
                self._n_columns,
                self._tile,
                sizes.n_targets,
                sizes.n_offsets,
                sizes.n_numbers,
                tuple(str(file.path) for file in self._files),
                tuple(self._records),
            )
            write_manifest(files.manifest, manifest)
            store = DiskStore(files, self._spec, self._layout, self._limit, first_row)
        except BaseException:
            self.close()
            raise
        self._spent, self._buffer = True, None
        return store

    def close(self) -> None:
        """Delete the files, unless the store of :meth:`finish` owns them."""
        if not self._spent:
            self._spent, self._buffer = True, None
            for file in self._files:
                file.close()
            for folder in self._folders:
                folder.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _plan_rows(self, n_stripes: int, sizes: _Sizes) -> int:
        """Return the number of rows of a chunk."""
        n_tiles, _, width = self._tile
        shape = RowShape(
            self._n_columns, n_tiles, width, sizes.weighted, sizes.n_offsets, *self._for_fit,
            n_targets=sizes.n_targets, n_numbers=sizes.n_numbers, n_vectors=self._n_vectors,
        )  # fmt: skip
        return divide_memory(self._limit, shape, n_stripes, self._requested_rows).chunk_rows

    def _check(self, matrix: BinnedMatrix, given: Metadata) -> None:
        n_rows, (target, weight, offset, numbers) = matrix.n_rows, given
        if matrix.paired or len(matrix.by_column) != self._n_columns:
            raise DataError("the matrix of a batch must have both layouts, and must not be paired.")
        spec = matrix.spec
        if spec is not self._spec and digest_of(spec) != digest_of(self._spec):
            raise DataError("the bins of a batch differ from the bins of the store.")
        if matrix.layout is not self._layout:
            raise DataError("the bundles of a batch differ from the bundles of the store.")
        for name, array in (("target", target), ("weight", weight)):
            n_axes = 2 if array is target else 1
            if array is not None and (array.shape[:1] != (n_rows,) or array.ndim > n_axes):
                raise DataError(f"{name} has shape {array.shape}; the batch has {n_rows} rows.")
        if offset is not None and (offset.ndim != 2 or offset.shape[1] != n_rows):
            raise DataError(f"offset has shape {offset.shape}; it must be (outputs, {n_rows}).")
        if numbers is not None and numbers.shape != (n_rows, self._spec.n_features):
            shape = (n_rows, self._spec.n_features)
            raise DataError(f"numbers have shape {numbers.shape}; it must be {shape}.")

    def _write(self) -> None:
        """Write the rows in the buffer as a chunk."""
        assert self._buffer is not None
        buffer, stripe = self._buffer, len(self._records) % len(self._files)
        file, n_rows = self._files[stripe], buffer.n_rows
        file.skip_to(GRANULE)
        target = _append(file, buffer.target[:, :n_rows])
        weight = _append(file, buffer.weight[:n_rows]) if buffer.sizes.weighted else None
        offset = _append(file, buffer.offset[:, :n_rows]) if len(buffer.offset) else None
        numbers = _append(file, buffer.numbers[:, :n_rows]) if len(buffer.numbers) else None
        by_row, by_column = buffer.bins()
        size = by_row.nbytes + by_column.nbytes
        rows: Block | None = None
        columns: tuple[Block, ...]
        if size <= self._left_unencoded:
            self._left_unencoded -= size
            file.skip_to(LARGE_PAGE if by_row.nbytes >= LARGE_PAGE else 1)
            rows, columns = _append(file, by_row), (_append(file, by_column),)
        else:
            self._left_unencoded = 0  # only the first chunks are mapped
            columns = tuple(
                file.append(*encode_column(column[:n_rows], self._lz4)) for column in by_column
            )
        self._records.append(
            ChunkRecord(
                n_rows, stripe, buffer.n_lost, target, weight, offset, numbers, rows, columns
            )
        )
        buffer.n_rows = buffer.n_lost = 0


class _Sizes(NamedTuple):
    """What a batch has of each row beside its bins."""

    weighted: bool = False
    n_offsets: int = 0
    n_targets: int = 1
    n_numbers: int = 0

    @classmethod
    def of(cls, given: Metadata) -> _Sizes:
        n_offsets = 0 if given.offset is None else len(given.offset)
        n_numbers = 0 if given.numbers is None else given.numbers.shape[1]
        return cls(given.weight is not None, n_offsets, given.n_targets, n_numbers)


class _Buffer:
    """The rows of the current chunk."""

    def __init__(
        self,
        capacity: int,
        n_columns: int,
        tile: tuple[int, int, int],
        sizes: _Sizes,
    ) -> None:
        self.capacity, self.n_rows, self.n_lost = capacity, 0, 0
        self.sizes = sizes
        self._by_row = aligned_zeros((tile[0], capacity + PAD, tile[2]), np.uint8)
        self._by_column = aligned_zeros((n_columns, capacity + PAD), np.uint8)
        self.target = np.zeros((sizes.n_targets, capacity))
        self.weight = np.zeros(capacity if sizes.weighted else 0)
        self.offset = np.zeros((sizes.n_offsets, capacity))
        self.numbers = np.zeros((sizes.n_numbers, capacity))

    def fill(self, matrix: BinnedMatrix, given: Metadata, start: int) -> int:
        """Copy rows from ``start`` on until the buffer is full; return the number of rows."""
        n_taken = min(self.capacity - self.n_rows, matrix.n_rows - start)
        to, source = slice(self.n_rows, self.n_rows + n_taken), slice(start, start + n_taken)
        self._by_row[:, to] = matrix.by_row[:, source]
        self._by_column[:, to] = matrix.by_column[:, source]
        self.target[:, to] = given.target[source].T
        if given.weight is not None:
            self.weight[to] = given.weight[source]
        if given.offset is not None:
            self.offset[:, to] = given.offset[:, source]
        if given.numbers is not None:
            self.numbers[:, to] = given.numbers[source].T
        self.n_rows += n_taken
        if start == 0:
            self.n_lost += matrix.n_lost  # only the total over all chunks matters
        return n_taken

    def bins(self) -> tuple[BinArray, BinArray]:
        """Return both layouts of the rows in the buffer, followed by zeros."""
        stop = self.n_rows + PAD
        self._by_row[:, self.n_rows : stop] = 0
        self._by_column[:, self.n_rows : stop] = 0
        return self._by_row[:, :stop], self._by_column[:, :stop]


def _append(file: BlockFile, array: Any) -> Block:
    """Write an array at the start of a cache line."""
    file.skip_to(64)
    return file.append(np.ascontiguousarray(array).reshape(-1).view(np.uint8))
