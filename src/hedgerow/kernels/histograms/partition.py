"""Division of the rows of a node between its children.

::

    rows     [ a  b  c  d  e  f ]        segment of the node, row ids ascending
    scratch  [ a  c  d  f| e  b ]        left from the front, right from the back
    rows     [ a  c  d  f| b  e ]        back again, ascending

A split is a set of bins of 256 bits: a threshold, missing values and a set of
categories all test one bit of four words.

Both appends are stores without a branch: the address advances by 0 or 1.  Bins
are read from the column-major copy, one byte per row, so ascending row ids use
complete cache lines.  With several threads, each divides its own part of the
segment; after a barrier each copies its two pieces to their final positions.
"""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import BinArray, IntArray, RowArray
from hedgerow.compile import kernel


@kernel(inner=True)
def divide(
    column: BinArray,
    words: IntArray,
    first_word: int,
    rows: RowArray,
    scratch: RowArray,
    start: int,
    stop: int,
) -> int:
    """Write left rows to the front of ``scratch[start:stop]``, right ones to the back."""
    # A row goes left if the bit of its bin is set in the four words from ``words[first_word]`` on.
    # The number of left rows is returned.
    base = np.uint64(first_word)
    left = np.uint64(start)
    right = np.uint64(stop - 1)
    for i in range(np.uint64(start), np.uint64(stop)):
        row = rows[i]
        bin_ = np.uint64(column[np.uint64(row)])
        word = np.uint64(words[base + (bin_ >> np.uint64(6))])
        step = (word >> (bin_ & np.uint64(63))) & np.uint64(1)
        scratch[left] = row
        scratch[right] = row
        left += step
        right -= np.uint64(1) - step
    return np.int64(left) - start


@kernel(inner=True)
def copy_forward(rows: RowArray, scratch: RowArray, to: int, start: int, stop: int) -> None:
    """Copy ``scratch[start:stop]`` to ``rows[to:]``."""
    target = np.uint64(to) - np.uint64(start)
    for i in range(np.uint64(start), np.uint64(stop)):
        rows[target + i] = scratch[i]


@kernel(inner=True)
def copy_reversed(rows: RowArray, scratch: RowArray, to: int, start: int, stop: int) -> None:
    """Copy ``scratch[start:stop]`` to ``rows[to:]``, back to front."""
    last = np.uint64(stop - 1)
    target = np.uint64(to)
    for i in range(np.uint64(stop - start)):
        rows[target + i] = scratch[last - i]


@kernel(inner=True)
def divide_alone(
    column: BinArray,
    words: IntArray,
    first_word: int,
    rows: RowArray,
    scratch: RowArray,
    start: int,
    stop: int,
) -> int:
    """Order ``rows[start:stop]``, left ones first, as one thread; return the number of these."""
    n_left = divide(column, words, first_word, rows, scratch, start, stop)
    copy_forward(rows, scratch, start, start, start + n_left)
    copy_reversed(rows, scratch, start + n_left, start + n_left, stop)
    return n_left
