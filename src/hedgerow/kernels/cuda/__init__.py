"""Kernels for GPUs: the same language as the others, and threads in blocks.

A GPU runs a kernel in many blocks of threads.  Threads of a block share fast memory and can wait
for each other; blocks know nothing of each other.  Each thread asks for its numbers
(:mod:`hedgerow.kernels.cuda.intrinsics`) and chooses its part of the work by them.

::

    launch    blocks 0, 1, 2, ...      in any order, side by side
    block     threads 0 to 255         share memory, wait for each other
    warp      threads 0 to 31 of it    take each step together

Kernels call the inner kernels of the processor where these fit: gradients are packed by the
same function on both, so they have the same bits.
"""
