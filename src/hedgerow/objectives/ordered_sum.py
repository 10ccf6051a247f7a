"""Sums of float64 whose values come in parts, with the bits of NumPy's sum of all of them.

``np.add.reduceat`` adds the values of a segment in pairs: it adds the first value to the sum of
the others, and divides these into halves, again and again, down to blocks of at most 128 values.
So the sum of a half is the same wherever the rest is. A part of the values gives the sums of the
halves that it holds, and keeps the values of blocks that it holds in part::

    values    0 | 1 ......... 488 | 489 ......... 976        977 values: the first, and two halves
    part one  0 | 1 ............................. 620        the left half; of the right one, blocks
    part two                                621 . 976        more blocks, and the rest of a block

Line searches add up the rows of leaves in this way, for rows in memory by ``np.add.reduceat``
(:mod:`hedgerow.objectives.line_search`), and for rows in chunks and on ranks by
:class:`OrderedSum`.
"""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import FloatArray, IntArray, distinct

_BLOCK = 128
"""Most values that NumPy adds up without dividing them (``PW_BLOCKSIZE``)."""
_UNROLLED = 8
"""NumPy adds eight values of a block side by side, so halves begin at multiples of eight."""
_IN_PART = -1
FIELDS = 3
"""Numbers of an entry of :meth:`OrderedSum.to_array`."""


class OrderedSum:
    """The sum of ``n_values`` float64; parts come in order.

    Parameters
    ----------
    n_values : int
        At least 1.

    Examples
    --------
    >>> values = np.arange(1000.0) / 7.0
    >>> total = OrderedSum(1000)
    >>> total.add(values[:300], 0)
    >>> total.add(values[300:], 300)
    >>> total.total() == np.add.reduceat(values, [0])[0]
    np.True_
    """

    def __init__(self, n_values: int) -> None:
        self._n_values = n_values
        self._sums: dict[tuple[int, int], float] = {}
        self._blocks: dict[int, FloatArray] = {}

    def add(self, values: FloatArray, place: int) -> None:
        """Add values of which the first is number ``place``."""
        if place == 0 and len(values) > 0:
            self._sums[0, 1] = float(values[0])
        if self._n_values > 1:
            self._add(1, self._n_values, values, place)

    def _add(self, first: int, stop: int, values: FloatArray, place: int) -> None:
        """Add those of the values that are numbers ``first`` to ``stop``, a half."""
        start, end = max(first - place, 0), stop - place
        if end <= 0 or start >= len(values):
            return
        if first >= place and end <= len(values):
            self._sums[first, stop] = float(np.add.reduce(values[start:end]))
        elif stop - first <= _BLOCK:
            self._add_to_block(first, stop, values[start:end])
        else:
            middle = _middle(first, stop)
            self._add(first, middle, values, place)
            self._add(middle, stop, values, place)
            self._join(first, middle, stop)

    def _add_to_block(self, first: int, stop: int, values: FloatArray) -> None:
        known = self._blocks.pop(first, values[:0])
        block = np.concatenate([known, values])
        if len(block) == stop - first:
            self._sums[first, stop] = float(np.add.reduce(block))
        else:
            self._blocks[first] = block

    def _join(self, first: int, middle: int, stop: int) -> None:
        """Add up two halves if both are known."""
        if (first, middle) in self._sums and (middle, stop) in self._sums:
            left, right = self._sums.pop((first, middle)), self._sums.pop((middle, stop))
            self._sums[first, stop] = left + right

    def to_array(self) -> IntArray:
        """Return the state, int64 (n_entries, FIELDS), to merge with those of other ranks."""
        keys = list(self._sums)
        keys += [(at, _IN_PART) for at, block in self._blocks.items() for _ in block]
        totals = np.concatenate([np.array(list(self._sums.values())), *self._blocks.values()])
        return np.column_stack([np.array(keys, np.int64).reshape(-1, 2), totals.view(np.int64)])

    def merge(self, entries: IntArray) -> None:
        """Add what :meth:`to_array` returned where the following values were added."""
        totals = entries[:, 2].copy().view(np.float64)
        in_part = entries[:, 1] == _IN_PART
        for (first, stop), total in zip(
            entries[~in_part, :2].tolist(), totals[~in_part].tolist(), strict=True
        ):
            self._sums[first, stop] = total
        for at in distinct(entries[in_part, 0]).tolist():
            more = totals[in_part & (entries[:, 0] == at)]
            self._blocks[at] = np.concatenate([self._blocks.get(at, more[:0]), more])

    def total(self) -> float:
        """Return the sum, once all values are added or merged."""
        first = self._sums[0, 1]
        return first if self._n_values == 1 else first + self._total(1, self._n_values)

    def _total(self, first: int, stop: int) -> float:
        if (first, stop) in self._sums:
            return self._sums[first, stop]
        if stop - first <= _BLOCK:
            return float(np.add.reduce(self._blocks[first]))
        middle = _middle(first, stop)
        return self._total(first, middle) + self._total(middle, stop)


def _middle(first: int, stop: int) -> int:
    """Return where the second half of some values begins."""
    half = (stop - first) // 2
    return first + half - half % _UNROLLED
