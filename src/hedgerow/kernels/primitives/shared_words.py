"""A word in shared memory, by which a process tells another one that its data are complete."""

from __future__ import annotations

from hedgerow.arrays import IntArray
from hedgerow.compile import kernel
from hedgerow.kernels.primitives.intrinsics import atomic_load, atomic_store


@kernel
def publish(words: IntArray, value: int) -> None:
    """Write ``words[0]`` after everything that this process wrote before it."""
    atomic_store(words, 0, value)


@kernel
def is_published(words: IntArray, value: int, n_looks: int) -> int:
    """Read ``words[0]`` up to ``n_looks`` times; return 1 once it is ``value``, else 0."""
    # The earlier writes of the publishing process are then visible, too.
    for _ in range(n_looks):
        if atomic_load(words, 0) == value:
            return 1
    return 0
