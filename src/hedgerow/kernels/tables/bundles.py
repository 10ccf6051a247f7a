"""Greedy bundling of exclusive features into shared columns.

Glossary
--------
active    a row is active in a feature if its value is not the default, which most
          rows have: 0, or missing
conflict  a row that is active in a feature and in another feature of its bundle
bundle    features that share a column of the binned matrix
budget    largest number of conflicts of a bundle (``by_sum`` 1), or of each of its features
rows      uint32: the active rows of feature j are ``rows[row_start[j] : row_start[j + 1]]``
cells     int64 (n_features,): cells that each feature needs
order     int64: features in the order in which they are put into bundles
taken     uint64 (N_OPEN, words for n_rows bits), zeros at first: active rows of open bundles
lists     int64 (5, N_OPEN), scratch: state of the open bundles, in the order of their creation

Each feature goes to the first bundle that has the cells and the budget for it, or
starts a new bundle (Ke et al. 2017, algorithm 3)::

    rows of the bundle   1 . . 1 . 1 . .      one bit per row
    rows of a feature      3     7            no conflict: it joins
    another              0 1 2                row 0: one conflict

Only the ``N_OPEN`` open bundles are tried for a feature; when one more bundle is
needed, the fullest one is closed.
"""

from __future__ import annotations

import numpy as np

from hedgerow import kernel_types as kt
from hedgerow.arrays import AnyArray, IntArray
from hedgerow.compile import kernel

N_OPEN = 128
"""Bundles that are open at once; LightGBM tries 100."""

MOST_CELLS = 254
"""Cells of all features of a bundle; the first of 255 cells stands for the defaults."""

_WORD = np.uint64(6)
_BIT = np.uint64(63)
_ONE = np.uint64(1)


@kernel
def put_in_bundles(
    order: kt.Int64_1D,
    row_start: kt.Int64_1D,
    rows: kt.UInt32_1D,
    cells: kt.Int64_1D,
    n_rows: int,
    budget: int,
    by_sum: int,
    taken: kt.UInt64_2D,
    lists: kt.Int64_2D,
    bundle: kt.Int64_1D,
    conflicts: kt.Int64_1D,
) -> int:
    """Write the bundle of each feature, and its conflicts there; return the number of bundles."""
    n_open, n_bundles = 0, np.int64(0)
    number, place = lists[0], lists[1]  # numbers of the bundles; their rows in ``taken``
    room, spent, active = lists[2], lists[3], lists[4]
    for k in range(N_OPEN):
        number[k] = room[k] = spent[k] = active[k] = 0
        place[k] = k
    for feature in order:
        start, stop = row_start[feature], row_start[feature + 1]
        chosen, met = -1, np.int64(0)
        for k in range(n_open):
            most = budget - spent[k]
            # More active rows than rows cannot be free of conflicts.
            if room[k] < cells[feature] or active[k] + stop - start - n_rows > most:
                continue
            met, own = np.int64(0), taken[place[k]]
            for i in range(np.uint64(start), np.uint64(stop)):
                row = np.uint64(rows[i])
                met += np.int64((own[row >> _WORD] >> (row & _BIT)) & _ONE)
                if met > most:
                    break
            if met <= most:
                chosen = k
                break
        if chosen < 0:
            met = np.int64(0)
            if n_open == N_OPEN:
                n_open -= 1
                close_fullest(number, place, room, spent, active, taken)
            chosen = n_open
            n_open += 1
            number[chosen], room[chosen] = n_bundles, MOST_CELLS
            spent[chosen] = active[chosen] = 0
            n_bundles += 1
        own = taken[place[chosen]]
        for i in range(np.uint64(start), np.uint64(stop)):
            row = np.uint64(rows[i])
            own[row >> _WORD] |= _ONE << (row & _BIT)
        bundle[feature], conflicts[feature] = number[chosen], met
        room[chosen] -= cells[feature]
        active[chosen] += stop - start - met
        spent[chosen] += met * by_sum
    return n_bundles


@kernel(inner=True)
def close_fullest(
    number: IntArray,
    place: IntArray,
    room: IntArray,
    spent: IntArray,
    active: IntArray,
    taken: AnyArray,
) -> None:
    """Remove the open bundle with the most active rows (the first of equals) from the list."""
    last = len(number) - 1
    full = 0
    for k in range(last + 1):
        if active[k] > active[full]:
            full = k
    freed = place[full]
    for word in range(taken.shape[1]):
        taken[freed, word] = np.uint64(0)
    for k in range(full, last):
        number[k], place[k], room[k] = number[k + 1], place[k + 1], room[k + 1]
        spent[k], active[k] = spent[k + 1], active[k + 1]
    place[last] = freed
