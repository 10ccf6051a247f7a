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
    numbers : Block or None
        Float64, one column after the other.
    by_row : Block or None
        The layout by row; None if it is made from the columns.
    columns : tuple of Block
        One block for the layout by column if ``by_row`` is set, else one encoded block per column.
    """

    n_rows: int
    file: int
    numbers: Block | None
    by_row: Block | None
    columns: tuple[Block, ...]

    @property
    def blocks(self) -> list[Block]:
        """All blocks, in the order of the file."""
        some = [block for block in (self.numbers, self.by_row) if block is not None]
        return [*some, *self.columns]


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
