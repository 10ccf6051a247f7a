"""Words in shared memory, by which a process tells another one that its data are complete."""

from __future__ import annotations

from hedgerow.arrays import IntArray
from hedgerow.compile import kernel
from hedgerow.kernels.primitives.intrinsics import atomic_add, atomic_load, atomic_store

_PUBLISHED, _AWAITED = 0, 1


@kernel
def publish(words: IntArray, value: int) -> int:
    """Write ``words[0]`` after all that this process wrote before; return 1 if that is awaited."""
    # Both processes change the second word in one step, and one of them comes first: either this
    # one sees that the other waits, or the other one sees what is published here.
    atomic_store(words, _PUBLISHED, value)
    return int(atomic_add(words, _AWAITED, 0) == value)


@kernel
def is_published(words: IntArray, value: int, n_looks: int) -> int:
    """Return 1 once ``words[0]`` is ``value``; or, after ``n_looks``, note that it is awaited."""
    # The earlier writes of the publishing process are then visible, too.
    for _ in range(n_looks):
        if atomic_load(words, _PUBLISHED) == value:
            return 1
    atomic_add(words, _AWAITED, value - words[_AWAITED])
    return int(atomic_load(words, _PUBLISHED) == value)
