"""Index of the files of a store: a small JSON file, fully validated when read.

::

    {"format": "hedgerow chunks", "version": 3, "spec": "<sha-256 of the bins>",
     "n_columns": 28, "tile": [1, 28, 32], "n_targets": 1, "n_offsets": 0, "n_numbers": 0,
     "files": ["/.../blocks-0.bin"],
     "chunks": [{"rows": 65536, "file": 0, "lost": 0, "given": [[0, 524288, 0, 2774...]],
                 "by_row": [...] or null, "columns": [[...], ...]}, ...]}

A block is ``[offset, size, codec, checksum]``.  ``given`` lists targets, weight (or null), offset
(or null) and numbers (or null); the block of targets holds all rows of the first target, then of
the next, and that of numbers all rows of the first column, then of the next.  A chunk has one block
for each of the two layouts of bins, as in memory; or ``by_row`` is null and each column has its own
encoded block.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Never

import numpy as np

from hedgerow.data.binning.bins import BinSpec
from hedgerow.data.binning.matrix import PAD
from hedgerow.data.external.block_files import Block, BlockFile
from hedgerow.data.external.column_codec import CODECS, PACKED, RAW, packed_size
from hedgerow.data.external.scratch import explained
from hedgerow.errors import StorageError

FORMAT, VERSION = "hedgerow chunks", 3


@dataclass(frozen=True, slots=True)
class ChunkRecord:
    """Blocks of a chunk.

    Attributes
    ----------
    n_rows : int
    file : int
        Index of the file with the blocks.
    n_lost : int
        As in :class:`hedgerow.data.binning.matrix.BinnedMatrix`.
    target : Block
    weight, offset, numbers : Block or None
    by_row : Block or None
        The layout by row; None if it is made from the columns.
    columns : tuple of Block
        One block for the layout by column if ``by_row`` is set, else one block per column.
    """

    n_rows: int
    file: int
    n_lost: int
    target: Block
    weight: Block | None
    offset: Block | None
    numbers: Block | None
    by_row: Block | None
    columns: tuple[Block, ...]

    @property
    def given(self) -> list[Block | None]:
        """Blocks of target, weight, offset and numbers."""
        return [self.target, self.weight, self.offset, self.numbers]

    @property
    def metadata(self) -> list[Block]:
        """Blocks of target, weight and offset that are present."""
        some = [self.target, self.weight, self.offset]
        return [block for block in some if block is not None]

    @property
    def blocks(self) -> list[Block]:
        """All blocks."""
        some = [block for block in (self.numbers, self.by_row) if block is not None]
        return [*self.metadata, *some, *self.columns]


@dataclass(frozen=True, slots=True)
class Manifest:
    """Index of all chunks of a store.

    Attributes
    ----------
    spec : str
        :func:`digest_of` the bins.
    n_columns : int
    tile : tuple of int
        As returned by :func:`hedgerow.data.binning.matrix.tile_shape`.
    n_targets, n_offsets, n_numbers : int
        Numbers of a row.
    files : tuple of str
    chunks : tuple of ChunkRecord
    """

    spec: str
    n_columns: int
    tile: tuple[int, int, int]
    n_targets: int
    n_offsets: int
    n_numbers: int
    files: tuple[str, ...]
    chunks: tuple[ChunkRecord, ...]


def digest_of(spec: BinSpec) -> str:
    """Return the SHA-256 of everything that determines the bins of values."""
    digest = hashlib.sha256()
    schema = spec.schema
    about = [spec.stride, schema.unknown, schema.zero_missing, schema.names, schema.kinds]
    digest.update(json.dumps(about).encode())
    for array in (spec.cut_keys, spec.cut_start, spec.level_bin, spec.level_start):
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def write_manifest(path: Path, manifest: Manifest) -> None:
    """Write a manifest to a file."""
    chunks = [
        {
            "rows": chunk.n_rows,
            "file": chunk.file,
            "lost": chunk.n_lost,
            "given": [_listed(b) for b in chunk.given],
            "by_row": _listed(chunk.by_row),
            "columns": [_listed(block) for block in chunk.columns],
        }
        for chunk in manifest.chunks
    ]
    content = {
        "format": FORMAT,
        "version": VERSION,
        "spec": manifest.spec,
        "n_columns": manifest.n_columns,
        "tile": manifest.tile,
        "n_targets": manifest.n_targets,
        "n_offsets": manifest.n_offsets,
        "n_numbers": manifest.n_numbers,
        "files": manifest.files,
        "chunks": chunks,
    }
    file = BlockFile(path)
    try:
        file.append(np.frombuffer(json.dumps(content).encode("ascii"), np.uint8))
    finally:
        file.close()


def read_manifest(path: Path) -> Manifest:
    """Read a manifest and check every number in it.

    Raises
    ------
    StorageError
        If the file cannot be read, has another version, or is inconsistent.
    """
    with explained("read", path):
        text = path.read_bytes()
    reader = _Reader(path)
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        reader.refuse("it is not JSON")
    keys = {"format", "version", "spec", "n_columns", "tile", "files", "chunks"}
    keys |= {"n_targets", "n_offsets", "n_numbers"}
    reader.check(isinstance(content, dict) and set(content) == keys, "its fields are others")
    reader.check(content["format"] == FORMAT, "it describes something else")
    reader.check(content["version"] == VERSION, f"version {content['version']!r} is not {VERSION}")
    reader.check(isinstance(content["spec"], str), "spec is not text")
    reader.check(_is_list(content["files"], str), "files is not a list of names")
    tile = content["tile"]
    reader.check(_is_list(tile, int) and len(tile) == 3, "tile is not three numbers")
    n_columns = content["n_columns"]
    given = content["n_targets"], content["n_offsets"], content["n_numbers"]
    reader.check(all(_is_count(n) for n in (n_columns, *given, *tile)), "a size is not a count")
    reader.check(given[0] > 0, "rows have no target")
    n_tiles, per_tile, width = tile
    fits = n_columns > 0 and n_tiles * per_tile >= n_columns and per_tile <= width
    reader.check(fits, "tiles do not hold the columns")
    reader.check(_is_list(content["chunks"], dict), "chunks is not a list of chunks")
    return Manifest(
        content["spec"],
        n_columns,
        (n_tiles, per_tile, width),
        *given,
        tuple(content["files"]),
        tuple(
            reader.chunk(chunk, n_columns, (n_tiles, width), given, len(content["files"]))
            for chunk in content["chunks"]
        ),
    )


class _Reader:
    """Validator of the parts of a manifest."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def refuse(self, why: str) -> Never:
        raise StorageError(
            f"{self._path} does not describe chunks of this version of Hedgerow: {why}. "
            "Another program has changed it: start again, with a separate cache_dir."
        )

    def check(self, right: bool, otherwise: str) -> None:
        if not right:
            self.refuse(otherwise)

    def chunk(
        self, chunk: dict[str, Any], n_columns: int, tile: tuple[int, int],
        n_given: tuple[int, int, int], n_files: int,
    ) -> ChunkRecord:  # fmt: skip
        n_targets, n_offsets, n_numbers = n_given
        keys = {"rows", "file", "lost", "given", "by_row", "columns"}
        self.check(set(chunk) == keys, "the fields of a chunk are others")
        n_rows, file, lost = chunk["rows"], chunk["file"], chunk["lost"]
        self.check(all(_is_count(n) for n in (n_rows, file, lost)), "a size is not a count")
        self.check(n_rows > 0 and file < n_files, "a chunk has no rows or no file")
        given, columns = chunk["given"], chunk["columns"]
        self.check(_is_list(given, object) and len(given) == 4, "given is not four blocks")
        self.check(_is_list(columns, list), "columns is not a list of blocks")
        target = self.block(given[0], 8 * n_rows * n_targets)
        sizes = (1, n_offsets, n_numbers)
        weight, offset, numbers = (
            None if numbered is None else self.block(numbered, 8 * n_rows * size)
            for numbered, size in zip(given[1:], sizes, strict=True)
        )
        self.check((offset is None) == (n_offsets == 0), "offsets are missing")
        self.check((numbers is None) == (n_numbers == 0), "numbers are missing")
        known = (n_rows, file, lost, target, weight, offset, numbers)
        if chunk["by_row"] is None:
            self.check(len(columns) == n_columns, "a column is missing")
            blocks = tuple(self.column(column, n_rows) for column in columns)
            return ChunkRecord(*known, None, blocks)
        self.check(len(columns) == 1, "columns are in pieces")
        by_row = self.block(chunk["by_row"], (n_rows + PAD) * tile[0] * tile[1])
        by_column = self.block(columns[0], (n_rows + PAD) * n_columns)
        return ChunkRecord(*known, by_row, (by_column,))

    def block(self, numbers: Any, size: int) -> Block:
        block = self._any_block(numbers)
        self.check(block.codec == RAW and block.size == size, "a block has another size")
        return block

    def column(self, numbers: Any, n_rows: int) -> Block:
        block = self._any_block(numbers)
        self.check(block.codec in CODECS, f"codec {block.codec} is unknown")
        if block.codec == RAW:
            right = block.size == n_rows
        elif block.codec in PACKED:
            right = block.size == packed_size(n_rows, block.codec)
        else:
            right = 0 < block.size <= n_rows
        self.check(right, "a column has another size")
        return block

    def _any_block(self, numbers: Any) -> Block:
        self.check(_is_list(numbers, int) and len(numbers) == 4, "a block is not four numbers")
        self.check(all(_is_count(n) for n in numbers), "a block has a number that is not a count")
        return Block(*numbers)


def _listed(block: Block | None) -> list[int] | None:
    return None if block is None else [block.offset, block.size, block.codec, block.checksum]


def _is_list(value: Any, kind: type) -> bool:
    return isinstance(value, list) and all(isinstance(item, kind) for item in value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62
