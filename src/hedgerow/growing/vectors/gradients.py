"""Gradients of several outputs as words of the same row, side by side.

The gradient pass of one output (:mod:`hedgerow.growing.core.stages.gradients`) is run for each,
down to the fixed numbers, of which the values of leaves come.  What histograms add up is::

    fixed g, h  (31 bits)  -->  words: int32, the lower bits of fixed dropped

As many bits are dropped as it takes for the sum of ``|g|`` over all rows, or over those of a
sample that follows gradients, to fit an int32, and so for h: known after the pass.  The unit
follows the mean, not the largest gradient, so heavy tails cost no digits: of n rows the unit is
``n 2**-31`` of the mean.
What is cut off is rounded up or down at random in proportion, so that sums stay
unbiased; the noise of a row is the same for all outputs, and depends on the tree and
the row only.

Where the row sample follows the gradients, a row is drawn as if it had one output
(:mod:`hedgerow.growing.sampling.goss`), whose g and h are the sizes of those of all outputs:

GOSS  the sum over the outputs of ``|g|``.  LightGBM sums over the classes, too (``|g h|``).
MVS   ``sqrt(sum over k of (g_k / G_k)^2)`` with ``G_k`` the sum of ``|g_k|`` over all rows, and
      the same of h: of all samples of that size, the one of the least variance of the sum of the
      gains (Ibragimov and Gusev 2019), each output in a unit of its own.  Without it, rows that
      matter to an output of small numbers alone would have weights without a bound.

The weight of a row then multiplies the g and h of all its outputs.  With K outputs, a weighted
number is at most ``2 K / s`` times the mean of its output: the unit scale.
"""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.compile import kernel
from hedgerow.growing.core import state as s
from hedgerow.growing.core.stages.gradients import BLOCK, power_of_two
from hedgerow.growing.sampling.goss import LARGEST, draw_rows
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


@kernel(inner=True)
def factors_of(state: s.State, output: int, n_rows: int) -> tuple[float, float]:
    """Return the factors of an output's fixed-point g and h in the sizes of rows."""
    sampler, outputs = state.options.sampler, state.vectors.outputs
    n_outputs = len(outputs.scalars)
    if sampler.method == s.GOSS:
        most = outputs.scalars[0, s.IS_G_EXPONENT]
        for k in range(1, n_outputs):
            most = max(most, outputs.scalars[k, s.IS_G_EXPONENT])
        return power_of_two(outputs.scalars[output, s.IS_G_EXPONENT] - most) / n_outputs, 0.0
    g_sum, h_sum = np.int64(0), np.int64(0)
    for t in range(len(outputs.measured)):
        g_sum += outputs.measured[t, output, 0]
        h_sum += outputs.measured[t, output, 1]
    whole = 0.5 * sampler.rate * LARGEST * n_rows / n_outputs
    return whole / float(g_sum) if g_sum > 0 else 0.0, whole / float(h_sum) if h_sum > 0 else 0.0


@kernel(inner=True)
def write_sizes(
    sizes: FloatArray,
    squares: bool,
    place: tuple[int, int],
    quantized: np.ndarray,
    counts: IntArray,
) -> None:
    """Write the sizes of rows ``place`` as the fixed g and h of one output; add them up."""
    # Sizes that are cut off exceed every threshold, whether they are cut off or not.
    first, two, one = np.uint64(place[0]), np.uint64(2), np.uint64(1)
    most = np.float64(LARGEST)
    g_sizes, h_sizes = sizes[0], sizes[1]
    for i in range(np.uint64(place[1] - place[0])):
        g, h = g_sizes[i], h_sizes[i]
        if squares:
            g, h = np.sqrt(g), np.sqrt(h)
        quantized[two * (first + i)] = np.int32(min(np.rint(g), most))
        quantized[two * (first + i) + one] = np.int32(min(np.rint(h), most))
        counts[s.COUNT_G_SUM] += np.int64(np.rint(g))
        counts[s.COUNT_H_SUM] += np.int64(np.rint(h))


@kernel
def join_outputs(thread: int, state: s.State, n_rows: int) -> None:
    """Write the sizes of the gradients of a thread's rows, over all outputs."""
    # ``n_rows`` are those of all ranks.
    outputs, counts = state.vectors.outputs, state.threads.counts[thread]
    sizes, squares = state.threads.blocks[thread], state.options.sampler.method == s.MVS
    start, stop = share(state.settings.n_rows, thread, state.team.n_threads)
    two, one = np.uint64(2), np.uint64(1)
    counts[s.COUNT_G_SUM], counts[s.COUNT_H_SUM] = 0, 0
    for first in range(start, stop, BLOCK):
        last, before = min(first + BLOCK, stop), np.uint64(first)
        for i in range(BLOCK):
            sizes[0, i], sizes[1, i] = 0.0, 0.0
        for output in range(len(outputs.scalars)):
            factors, quantized = factors_of(state, output, n_rows), outputs.quantized[output]
            g_sizes, h_sizes = sizes[0], sizes[1]
            for i in range(np.uint64(last - first)):
                g = abs(np.float64(quantized[two * (before + i)])) * factors[0]
                h = np.float64(quantized[two * (before + i) + one]) * factors[1]
                g_sizes[i] += g * g if squares else g
                h_sizes[i] += h * h if squares else h
        write_sizes(sizes, squares, (first, last), state.rows.quantized, counts)
    barrier(state.team)


@kernel(inner=True)
def weigh_outputs(thread: int, state: s.State) -> None:
    """Multiply the numbers of a thread's rows, of all outputs, by their weights; sum the sample."""
    outputs, weights = state.vectors.outputs, state.options.sampler.weights
    marks = state.rows.scratch
    start, stop = share(state.settings.n_rows, thread, state.team.n_threads)
    scale = float_of_bits(outputs.scalars[0, s.IS_UNIT_SCALE])
    two, one, most = np.uint64(2), np.uint64(1), np.float64(LARGEST)
    for output in range(len(outputs.scalars)):
        quantized, sums = outputs.quantized[output], outputs.measured[thread, output]
        g_sum, h_sum = np.int64(0), np.int64(0)
        for i in range(np.uint64(start), np.uint64(stop)):
            factor, mark = weights[i] / scale, np.int64(marks[i])
            # Rows outside the sample may have any weight.
            g = np.int64(min(max(np.rint(quantized[two * i] * factor), -most), most))
            h = np.int64(min(np.rint(quantized[two * i + one] * factor), most))
            quantized[two * i] = np.int32(g)
            quantized[two * i + one] = np.int32(h)
            g_sum += mark * abs(g)
            h_sum += mark * h
        sums[0], sums[1] = g_sum, h_sum
    barrier(state.team)


@kernel(inline=True, inner=True)
def draw_vectors(thread: int, state: s.State) -> None:
    """Put the tree's rows to the front of the row ids, and write the words of the rows."""
    by_gradient = state.options.sampler.method != s.UNIFORM
    if by_gradient:
        join_outputs(thread, state, state.settings.n_rows)
    draw_rows(thread, state)
    if by_gradient:
        weigh_outputs(thread, state)
    write_words(thread, state, state.settings.n_rows)
