"""Two words in shared memory, by which a process tells another one that its data are complete."""

from __future__ import annotations

from hedgerow.arrays import IntArray
from hedgerow.compile import kernel
from hedgerow.kernels.primitives.intrinsics import atomic_add, atomic_load, atomic_store


@kernel
def publish(words: IntArray, value: int) -> int:
    """Write ``words[0]`` after all that this process wrote before; return 1 if it is awaited."""
    atomic_store(words, 0, value)
    return int(atomic_add(words, 1, 0) == value)  # in one step: no reader waits without being seen


@kernel
def is_published(words: IntArray, value: int, n_looks: int) -> int:
    """Return 1 once ``words[0]`` is ``value``, or 0 after ``n_looks``: then it is awaited."""
    for _ in range(n_looks):
        if atomic_load(words, 0) == value:  # the earlier writes are visible, too
            return 1
    atomic_add(words, 1, value - words[1])
    return int(atomic_load(words, 0) == value)
