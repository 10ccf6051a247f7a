"""The threshold of a sample by gradients, of rows on ranks.

In memory all threads tally their keys and read each other's tallies
(:func:`hedgerow.growing.sampling.thresholds.find_threshold`).  Here ranks take the place of
threads: each tallies a digit, and the digit of the threshold follows from the tallies of all ranks.

Rows may tie at the threshold.  GOSS keeps the first of them, in the order of ranks.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hedgerow.arrays import IntArray
from hedgerow.compile import kernel
from hedgerow.growing.chunks.exchange import Exchange
from hedgerow.growing.core.state import IS_THRESHOLD, IS_TIES, Sampler
from hedgerow.growing.sampling.thresholds import (
    CELLS,
    DIGIT_BITS,
    LEVELS,
    Found,
    choice_of,
    find_digit,
    goal_of,
)
from hedgerow.kernels.primitives.intrinsics import bits_of_float

Tally = Callable[[int, int], None]
"""Tally the digit of a level, of the keys that begin with the given digits."""


@kernel
def narrow_to_digit(
    sampler: Sampler, tallies: IntArray, level: int, n_rows: int, found: IntArray, scalars: IntArray
) -> None:
    """Add a digit to those in ``found``; with the last one the choice is known."""
    # ``tallies`` are those of all ranks, int64 (ranks, levels, 2, cells), and ``n_rows`` all rows.
    goal = goal_of(sampler, n_rows)
    below = found[2]
    if level == 0:
        below = np.int64(0)
        for rank in range(tallies.shape[0]):
            for digit in range(CELLS):
                below += tallies[rank, 0, 1, digit]
    known = Found(found[0], found[1], below)
    known = find_digit(sampler.method, tallies, level, known, goal)
    found[0] = known.prefix
    found[1] = known.above
    found[2] = known.below
    if level == LEVELS - 1:
        choice = choice_of(sampler.method, known, goal)
        scalars[IS_THRESHOLD] = bits_of_float(choice.threshold)
        scalars[IS_TIES] = choice.ties


def find_choice(
    sampler: Sampler, n_rows: int, exchange: Exchange, tally: Tally, scalars: IntArray
) -> None:
    """Write threshold and ties of this rank's rows to ``scalars``."""
    found = np.zeros(3, dtype=np.int64)
    tallies = np.zeros((0, LEVELS, 2, CELLS), dtype=np.int64)
    for level in range(LEVELS):
        sampler.tallies[:] = 0
        tally(level, int(found[0]))
        own = sampler.tallies[:, level].sum(axis=0)
        everyone = exchange.measures(own.reshape(-1)).reshape(-1, 2, CELLS)
        tallies = np.zeros((len(everyone), LEVELS, 2, CELLS), dtype=np.int64)
        tallies[:, level] = everyone
        narrow_to_digit(sampler, tallies, level, n_rows, found, scalars)
    before = exchange.rank if exchange.adds else 0
    last = found[0] & ((1 << DIGIT_BITS) - 1)
    scalars[IS_TIES] -= tallies[:before, LEVELS - 1, 0, last].sum()
