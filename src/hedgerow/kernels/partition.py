"""Dividing the rows of a node between its children.

::

    rows     [ a  b  c  d  e  f ]        segment of the node, row ids ascending
    scratch  [ a  c  d  f| e  b ]        left from the front, right from the back
    rows     [ a  c  d  f| b  e ]        back again, ascending

Both appends are stores without a branch: the address moves on by 0 or 1.  The
bins are read from the column-major copy, a byte a row, so that ascending row
ids use whole cache lines.  With several threads each divides its own part of
the segment; after a barrier each copies its two pieces to their places.
"""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import BinArray, RowArray
from hedgerow.compile import kernel


@kernel(inner=True)
def divide(
    column: BinArray,
    threshold: int,
    missing_bin: int,
    missing_left: int,
    rows: RowArray,
    scratch: RowArray,
    start: int,
    stop: int,
) -> int:
    """Write left rows to the front and right rows to the back of ``scratch[start:stop]``.

    A row goes left if its bin is <= ``threshold``, or if it is the missing bin
    and ``missing_left`` is 1.  Returns the number of left rows.
    """
    # With missing_left the missing bin is turned round to 0, all others move up by one.
    turn = np.uint8(missing_left)
    mask = np.uint8(missing_bin)  # stride - 1, all ones
    limit = np.uint8(threshold + missing_left)
    left = np.uint64(start)
    right = np.uint64(stop - 1)
    for i in range(np.uint64(start), np.uint64(stop)):
        row = rows[i]
        goes_left = np.uint8((column[np.uint64(row)] + turn) & mask) <= limit
        step = np.uint64(goes_left)
        scratch[left] = row
        scratch[right] = row
        left += step
        right -= np.uint64(1) - step
    return np.int64(left) - start


@kernel(inner=True)
def copy_forward(rows: RowArray, scratch: RowArray, to: int, start: int, stop: int) -> None:
    """``rows[to:] = scratch[start:stop]``."""
    target = np.uint64(to) - np.uint64(start)
    for i in range(np.uint64(start), np.uint64(stop)):
        rows[target + i] = scratch[i]


@kernel(inner=True)
def copy_reversed(rows: RowArray, scratch: RowArray, to: int, start: int, stop: int) -> None:
    """``rows[to:] = scratch[start:stop]`` back to front."""
    last = np.uint64(stop - 1)
    target = np.uint64(to)
    for i in range(np.uint64(stop - start)):
        rows[target + i] = scratch[last - i]
