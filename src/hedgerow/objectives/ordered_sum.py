"""Sums of float64 that are divided between ranks, with the bits of NumPy's sum of all of them.

``np.add.reduceat`` adds the values of a segment in pairs: it adds the first value to the sum of
the others, and divides these into halves, again and again, down to blocks of at most 128 values.
So the sum of a half is the same wherever the rest is. A part of the values gives the sums of the
halves that it holds, and keeps the values of blocks that it holds in part::

    values    0 | 1 ......... 488 | 489 ......... 976        977 values: the first, and two halves
    part one  0 | 1 ............................. 620        the left half; of the right one, blocks
    part two                                621 . 976        more blocks, and the rest of a block

Line searches add up the rows of leaves in this way, for rows in memory by ``np.add.reduceat``
(:mod:`hedgerow.objectives.line_search`), and for rows on ranks by :func:`part_of_sum`.
"""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import FloatArray, IntArray

_BLOCK = 128
"""Most values that NumPy adds up without dividing them (``PW_BLOCKSIZE``)."""
_UNROLLED = 8
"""NumPy adds eight values of a block side by side, so halves begin at multiples of eight."""
_IN_PART = -1
FIELDS = 3
"""Numbers of an entry: the first value and the end of a half, or the first value of a block and
``_IN_PART``; the bits of the sum of the half, or of a value of the block."""


def part_of_sum(values: FloatArray, place: int, n_values: int) -> IntArray:
    """Return the entries, (n_entries, FIELDS), of values of which the first is number ``place``.

    >>> values = np.arange(1000.0) / 7.0
    >>> parts = part_of_sum(values[:300], 0, 1000), part_of_sum(values[300:], 300, 1000)
    >>> sum_of_parts(np.concatenate(parts), 1000) == np.add.reduceat(values, [0])[0]
    np.True_
    """
    keys: list[tuple[int, int]] = []
    numbers: list[float] = []

    def add(first: int, stop: int) -> None:
        """Add those of the values that are numbers ``first`` to ``stop``, a half."""
        start, end = max(first - place, 0), stop - place
        if end <= 0 or start >= len(values):
            return
        if first >= place and end <= len(values):
            keys.append((first, stop))
            numbers.append(float(np.add.reduce(values[start:end])))
        elif stop - first <= _BLOCK:
            own = values[start:end].tolist()
            keys.extend([(first, _IN_PART)] * len(own))
            numbers.extend(own)
        else:
            middle = _middle(first, stop)
            add(first, middle)
            add(middle, stop)

    add(0, 1)
    add(1, n_values)
    bits = np.array(numbers, dtype=np.float64).view(np.int64)
    return np.column_stack([np.array(keys, np.int64).reshape(-1, 2), bits])


def sum_of_parts(entries: IntArray, n_values: int) -> float:
    """Return the sum of all values from the entries of their parts, in the order of the parts."""
    halves: dict[tuple[int, int], float] = {}
    blocks: dict[int, list[float]] = {}
    numbers = entries[:, 2].copy().view(np.float64).tolist()
    for (first, stop), number in zip(entries[:, :2].tolist(), numbers, strict=True):
        if stop == _IN_PART:
            blocks.setdefault(first, []).append(number)
        else:
            halves[first, stop] = number

    def total(first: int, stop: int) -> float:
        if (first, stop) in halves:
            return halves[first, stop]
        if stop - first <= _BLOCK:
            return float(np.add.reduce(np.array(blocks[first])))
        middle = _middle(first, stop)
        return total(first, middle) + total(middle, stop)

    return total(0, 1) if n_values == 1 else total(0, 1) + total(1, n_values)


def _middle(first: int, stop: int) -> int:
    """Return where the second half of some values begins."""
    half = (stop - first) // 2
    return first + half - half % _UNROLLED
