"""Orders: what kernels for GPUs do with the rows of nodes, several nodes in one launch.

An order divides the rows of a node between its children, adds up the histogram of some rows, or
both.  The orders of a batch lie side by side in a list.  A block finds its order by its number::

    order      0            1    2         3
    rows       10,000       900  9,000     0       of the node, 4,096 for each block
    blocks     0  1  2      3    4  5  6   -

A launch for one order has that order among its arguments, and reads no list: copying it to the
GPU would take as long as the work on a small node.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hedgerow.arrays import IntArray
from hedgerow.compile import kernel

ORDER_BLOCK, ORDER_HISTOGRAM_BLOCK, ORDER_FIELDS = 8, 11, 13
"""Fields of :class:`Order` by which blocks find theirs, and how many fields there are."""

_FIELDS = np.int64(ORDER_FIELDS)


class Order(NamedTuple):
    """An order.

    column, start, count  how rows are divided: by which column, and the rows of the node
    n_left                how many of them go left
    set_0 .. set_3        bit b of the four words tells whether bin b goes left
    block                 first block of the division
    first_row, n_rows     rows of a histogram
    histogram_block       first block of the histogram
    place                 where its sums lie, counted in histograms
    """

    column: np.int64
    start: np.int64
    count: np.int64
    n_left: np.int64
    set_0: np.int64
    set_1: np.int64
    set_2: np.int64
    set_3: np.int64
    block: np.int64
    first_row: np.int64
    n_rows: np.int64
    histogram_block: np.int64
    place: np.int64


class Orders(NamedTuple):
    """The orders of a launch.

    only       the order, if it is the only one
    n          how many there are
    first      number of the first in the list
    per_block  rows of a block
    listed     int64, flat: (orders, ORDER_FIELDS)
    """

    only: Order
    n: np.int64
    first: np.int64
    per_block: np.int64
    listed: IntArray


@kernel(inner=True)
def nth_order(orders: Orders, number: int) -> Order:
    """Return the order with this number in the batch."""
    if orders.n == 1:
        return orders.only
    at, listed = (orders.first + number) * _FIELDS, orders.listed
    return Order(
        listed[at], listed[at + 1], listed[at + 2], listed[at + 3], listed[at + 4],
        listed[at + 5], listed[at + 6], listed[at + 7], listed[at + 8], listed[at + 9],
        listed[at + 10], listed[at + 11], listed[at + 12],
    )  # fmt: skip


@kernel(inner=True)
def order_of(orders: Orders, field: int, block: int) -> Order:
    """Return the order of a block: the last one whose first block, in ``field``, is not later."""
    low, high = np.int64(0), orders.n
    while high - low > 1:
        middle = (low + high) // 2
        if orders.listed[(orders.first + middle) * _FIELDS + field] <= block:
            low = middle
        else:
            high = middle
    return nth_order(orders, low)
