"""Assignment of consecutive partitions to ranks, with about the same number of rows each."""

from __future__ import annotations

import itertools
from collections.abc import Sequence


def contiguous(lengths: Sequence[int], n_ranks: int) -> list[range]:
    """Divide partitions among ranks in order, with about the same number of rows each.

    A partition goes to the rank whose share of all rows contains the middle row of the
    partition, so no rank has more than its share plus one partition.

    Parameters
    ----------
    lengths : sequence of int
        Rows of each partition; zeros are allowed.
    n_ranks : int

    Returns
    -------
    list of range
        Numbers of the partitions of each rank; may be empty.

    Examples
    --------
    >>> contiguous([10, 10, 10, 10], 2)
    [range(0, 2), range(2, 4)]
    >>> contiguous([100, 1, 1], 3)
    [range(0, 0), range(0, 1), range(1, 3)]
    """
    total = sum(lengths)
    if total == 0:
        lengths, total = [1] * len(lengths), max(1, len(lengths))
    starts = [0]
    before = 0
    for number, length in enumerate(lengths):
        rank = min(n_ranks - 1, (2 * before + length) * n_ranks // (2 * total))
        starts += [number] * (rank + 1 - len(starts))
        before += length
    starts += [len(lengths)] * (n_ranks + 1 - len(starts))
    return [range(first, last) for first, last in itertools.pairwise(starts)]
