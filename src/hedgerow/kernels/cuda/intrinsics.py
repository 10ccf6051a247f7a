"""Operations of a GPU thread other than arithmetic.

thread_number   number of the thread in its block
block_number    number of the block, from 0, in the first or second direction of the launch
block_size      threads of a block
n_blocks        blocks of the launch in the first direction
sync_block      wait until all threads of the block are here
shared_words    int32 array in the memory that the threads of a block share
add_shared      add to a word of shared memory in one step, return its previous value
add_global      add to an int64 of the memory of the GPU in one step
add_count       the same for an int32
read_lane       the number that another thread of the warp holds
"""

from __future__ import annotations

from hedgerow.compile import Intrinsic

WARP = 32
"""Threads of a warp."""


def _declare(name: str) -> Intrinsic:
    return Intrinsic("hedgerow.kernels.cuda.intrinsics_llvm", name)


thread_number = _declare("thread_number")
block_number = _declare("block_number")
block_size = _declare("block_size")
n_blocks = _declare("n_blocks")
sync_block = _declare("sync_block")
shared_words = _declare("shared_words")
add_shared = _declare("add_shared")
add_global = _declare("add_global")
add_count = _declare("add_count")
read_lane = _declare("read_lane")
