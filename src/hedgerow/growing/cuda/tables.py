"""Rows of the tables of commands (:class:`hedgerow.kernels.cuda.commands.GpuCommands`)."""

from __future__ import annotations

COUNT_ROWS, PACK_ROWS, COUNT_LEFT, DIVIDE, COPY_BACK, ADD, HAND_OVER, FINISH, KERNELS = range(9)
"""Kernels."""

(
    SCALARS, QUANTIZED, WORDS, ROW_IDS, LEAF_STARTS, LEAF_NODES, LEAF_SUMS, LEAF_OF, ORDERS, COPIES,
) = range(10)  # fmt: skip
"""Arrays that are copied."""

# Words of the arguments that change.  Orders come first: the only one, their number, the first
# in the list, rows of a block, and two words for the list itself.
WORD_N_ORDERS, WORD_FIRST_ORDER, WORD_PER_BLOCK = range(13, 16)
ADD_PART = 18
FINISH_N_LEAVES, FINISH_N_ROWS = range(2)

THREADS = 512
"""Threads of a block.  The kernels' registers allow two such blocks on a multiprocessor."""
