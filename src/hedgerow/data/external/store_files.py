"""Files of a store, and where its chunks lie in them.

A sink writes the files and lists the chunks; the store reads these chunks.  Neither the files nor
the list outlive the process.
"""

from __future__ import annotations

from dataclasses import dataclass

from hedgerow.data.external.block_files import Block, BlockFile
from hedgerow.data.external.scratch import ScratchFolder


@dataclass(frozen=True, slots=True)
class ChunkRecord:
    """Blocks of a chunk.

    Attributes
    ----------
    file : int
        Index of the file with the blocks.
    target, weight, offset, numbers : Block or None
        Float64; targets, offsets and numbers of all rows one column after the other.
    by_row : Block or None
        The layout by row; None if it is made from the columns.
    columns : tuple of Block
        One block for the layout by column if ``by_row`` is set, else one encoded block per column.
    """

    n_rows: int
    file: int
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
class StoreFiles:
    """Files that a sink passes to a store.

    Attributes
    ----------
    folders : list of ScratchFolder
        Folder of each stripe.
    blocks : list of BlockFile
        File of each stripe.
    """

    folders: list[ScratchFolder]
    blocks: list[BlockFile]
    chunks: list[ChunkRecord]

    def close(self) -> None:
        """Delete all files."""
        for file in self.blocks:
            file.close()
        for folder in self.folders:
            folder.close()
