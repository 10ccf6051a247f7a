"""Gradients of several outputs as words of the same row, side by side.

The gradient pass of one output (:mod:`hedgerow.growing.core.stages.gradients`) is run for each,
down to the fixed numbers, of which the values of leaves come.  What histograms add up is::

    fixed g, h  (31 bits)  -->  words: int32, the lower bits of fixed dropped

As many bits are dropped as it takes for the sum of ``|g|`` over all rows to fit an int32, and so
for h: known after the pass.  The unit follows the mean, not the largest gradient, so heavy tails
cost no digits: of n rows the unit is ``n 2**-31`` of the mean.
What is cut off is rounded up or down at random in proportion, so that sums stay
unbiased; the noise of a row is the same for all outputs, and depends on the tree and
the row only.
"""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.compile import kernel
from hedgerow.growing.core import state as s
from hedgerow.growing.core.stages.gradients import power_of_two
from hedgerow.kernels.histograms.vector_histogram import place_of_g
from hedgerow.kernels.primitives.barrier import barrier, share
from hedgerow.kernels.primitives.hashing import hash64
from hedgerow.kernels.primitives.intrinsics import bits_of_float, float_of_bits
from hedgerow.kernels.simd.lanes import N_LANES
from hedgerow.kernels.splits.split import Units

MOST_ROWS = 2**31 - 1
"""Largest sum of words that may be 1."""

_ROWS_AT_ONCE = 64
"""Their words, of a few dozen outputs, stay in the first-level cache."""


@kernel(inline=True, inner=True)
def write_part(
    quantized: np.ndarray, part: int, dropped: int, noise: FloatArray, shift: int,
    words: np.ndarray, to: int, width: int, place: tuple[int, int],
) -> None:  # fmt: skip
    """Write one word of each row of ``place``: g (part 0) or h (1) without its lower bits."""
    first, two, at = np.uint64(place[0]), np.uint64(2), np.uint64(to)
    lower, second = (np.int64(1) << dropped) - 1, np.uint64(part)
    for i in range(first, np.uint64(place[1])):
        chance = (bits_of_float(noise[i - first]) >> shift) & lower
        words[i * width + at] = np.int32(
            (np.int64(quantized[two * i + second]) + chance) >> dropped
        )


@kernel
def write_words(thread: int, state: s.State, n_rows: int) -> None:
    """Write the words of a thread's rows, output after output for some rows at a time."""
    # ``n_rows`` are those of all ranks, whose sums are in ``measured``.
    # Row after row, each with the places and bits of all outputs, they took an eighth of the time
    # of trees of 26 classes.
    settings, outputs = state.settings, state.vectors.outputs
    for output in range(len(outputs.dropped) if thread == 0 else 0):
        for part in range(2):
            total, bits = np.int64(0), np.int64(0)
            for t in range(len(outputs.measured)):
                total += outputs.measured[t, output, part]
            while (total >> bits) + n_rows > MOST_ROWS:  # each row may be rounded up
                bits += 1
            outputs.dropped[output, part] = bits
    barrier(state.team)
    place = share(settings.n_rows, thread, state.team.n_threads)
    noise = state.threads.blocks[thread, 0]  # scratch for the random bits of some rows
    words, quantized, dropped = outputs.words, outputs.quantized, outputs.dropped
    width, seed = np.uint64(outputs.sums.width), settings.seed
    scalars = outputs.scalars[0]
    tree, before = np.uint64(scalars[s.IS_TREE]), np.uint64(scalars[s.IS_FIRST_ROW])
    for first in range(place[0], place[1], _ROWS_AT_ONCE):
        some = (first, min(first + _ROWS_AT_ONCE, place[1]))
        for i in range(some[0], some[1]):
            bits = hash64(seed, tree, before + np.uint64(i)) >> np.uint64(1)
            noise[i - first] = float_of_bits(np.int64(bits))
        for output in range(len(dropped)):
            to, span = place_of_g(outputs.sums.constant, output), quantized[output]
            write_part(span, 0, dropped[output, 0], noise, 0, words, to, width, some)
            if settings.constant_hessian == 0:
                to += N_LANES
                write_part(span, 1, dropped[output, 1], noise, 31, words, to, width, some)
    barrier(state.team)


@kernel(inner=True)
def largest_units(constant: int, outputs: s.Outputs) -> Units:
    """Return powers of two that are at least the units of any output times the common scale."""
    g, h = outputs.scalars[0, s.IS_G_EXPONENT], outputs.scalars[0, s.IS_H_EXPONENT]
    for output in range(1, len(outputs.scalars)):
        g = max(g, outputs.scalars[output, s.IS_G_EXPONENT])
        h = max(h, outputs.scalars[output, s.IS_H_EXPONENT])
    scale = float_of_bits(outputs.scalars[0, s.IS_UNIT_SCALE])
    h_unit = 1.0 if constant == 1 else power_of_two(h)
    return Units(scale * power_of_two(g), scale * h_unit, scale)
