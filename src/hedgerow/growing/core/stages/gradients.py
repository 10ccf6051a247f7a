"""Gradients as integers: what makes every later sum exact and its order irrelevant.

For each tree, in blocks of rows that fit in the first-level cache::

    raw score, target --> g, h (float64)                  objectives.derivatives
                      --> fixed g, h   |.| <= 2**30       rounded to nearest
                      --> packed (g, h, 1)                the upper bits of fixed

The unit of ``quantized`` is the smallest power of two with which the largest
gradient of the tree fits, so it depends on the data alone: a pass that starts
with the unit of the tree before is done again when the unit changes (a few
times in a fit).  A gradient below ``2**-31`` of the largest is zero to it: weights
that far apart cannot be held side by side.

How many bits go into ``packed`` (:func:`choose_packing`):

constant hessian  all of g; the row count serves as hessian
narrow            the upper 12 bits of g and h, rounded up or down at random in
                  proportion to the dropped bits, so that sums stay unbiased
                  (Shi et al. 2022); the noise of a sum of n rows is below
                  2**-13 sqrt(n) of the largest gradient
apart             all bits, g in a word of its own: for small data, where a second
                  pass costs little, and for gradients of which most are tiny beside
                  the largest (heavy tails), where 12 bits would not do

Where rows are then sampled by their gradients (:mod:`hedgerow.growing.sampling.goss`), only
the rows of the sample are packed, with their weights in: nothing is packed here.
Their mean is about what that of all rows was, so the same packing suits them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from hedgerow import kernel_types as kt
from hedgerow.arrays import IntArray
from hedgerow.compile import kernel
from hedgerow.growing.core import state as s
from hedgerow.kernels.primitives.barrier import barrier, share
from hedgerow.kernels.primitives.hashing import hash64
from hedgerow.kernels.primitives.intrinsics import bits_of_float, float_of_bits
from hedgerow.kernels.splits.split import Units
from hedgerow.objectives.derivatives import SOFTMAX, LossData, class_probabilities, derivatives

BLOCK = 1024
QUANTIZED_BITS = 30
SMALL_FIT = 4096
"""Up to this many rows g is always apart from h."""
_DROPPED = 18  # 30 - 12 bits
_LEAST_MEAN = 4 << _DROPPED
"""Narrow packing needs mean |g| and mean h of at least 4 units: then rounding
adds at most 1% to the variance of a gradient."""


@kernel(inline=True, inner=True)
def power_of_two(exponent: int) -> float:
    """``2.0 ** exponent`` for exponents of normal numbers."""
    return float_of_bits((np.int64(exponent) + 1023) << 52)


@kernel(inner=True)
def exponent_above(x: float) -> int:
    """Return the smallest e with ``x <= 2**e`` (0 for x = 0), within the normal numbers."""
    if not x > 0.0:
        return 0
    mantissa, e = math.frexp(x)
    if mantissa == 0.5:
        e -= 1
    return min(max(e, -900), 900)


@kernel(inner=True)
def units_of(scalars: IntArray, constant_hessian: int, dropped: int) -> Units:
    """Return the unit of sampled rows' fixed-point numbers, shifted right by ``dropped`` bits."""
    scale = float_of_bits(scalars[s.IS_UNIT_SCALE])
    g_unit = power_of_two(scalars[s.IS_G_EXPONENT] - QUANTIZED_BITS + dropped)
    h_unit = power_of_two(scalars[s.IS_H_EXPONENT] - QUANTIZED_BITS + dropped)
    h_unit = 1.0 if constant_hessian == 1 else h_unit
    return Units(scale * g_unit, scale * h_unit, scale)


@kernel(inner=True)
def tree_units(state: s.State) -> Units:
    """Return the unit of the sums in histograms and in the table of nodes."""
    scalars = state.scalars
    return units_of(scalars, state.settings.constant_hessian, scalars[s.IS_DROPPED_BITS])


@kernel(inner=True)
def fix_block(
    block: np.ndarray,
    scalars: IntArray,
    constant: int,
    quantized: np.ndarray,
    start: int,
    stop: int,
) -> None:
    """Round the block's g and h to integers."""
    g_scale = power_of_two(QUANTIZED_BITS - scalars[s.IS_G_EXPONENT])
    h_scale = 1.0 if constant == 1 else power_of_two(QUANTIZED_BITS - scalars[s.IS_H_EXPONENT])
    g_block, h_block = block[0], block[1]
    first, two = np.uint64(start), np.uint64(2)
    for i in range(np.uint64(stop - start)):
        quantized[two * (first + i)] = np.int32(np.rint(g_block[i] * g_scale))
        quantized[two * (first + i) + np.uint64(1)] = np.int32(np.rint(h_block[i] * h_scale))


@kernel(inline=True, inner=True)
def narrow_word(
    g: int, h: int, noise: int, dropped: int, hessian_bits: int, count_bits: int
) -> int:
    """Return packed upper bits of fixed g and h; ``noise`` rounds the lower bits at random."""
    mask = (np.int64(1) << dropped) - 1
    upper_g = (g + (noise & mask)) >> dropped
    upper_h = (h + ((noise >> 31) & mask)) >> dropped
    return (((upper_g << hessian_bits) + upper_h) << count_bits) + 1


@kernel(inner=True)
def pack_block(
    scalars: IntArray, constant: int, seed: int, rows: s.Rows, start: int, stop: int
) -> None:
    """Write the packed numbers of rows ``start`` to ``stop``."""
    quantized, packed = rows.quantized, rows.packed
    count_bits, hessian_bits = scalars[s.IS_COUNT_BITS], scalars[s.IS_HESSIAN_BITS]
    dropped = scalars[s.IS_DROPPED_BITS]
    first, last, two, one = np.uint64(start), np.uint64(stop), np.uint64(2), np.uint64(1)
    if constant == 1:
        for i in range(first, last):
            packed[i] = (np.int64(quantized[two * i]) << count_bits) + 1
    elif scalars[s.IS_G_APART] == 1:
        n_rows = np.uint64(len(packed) // 2)
        for i in range(first, last):
            packed[i] = np.int64(quantized[two * i])
            packed[n_rows + i] = (np.int64(quantized[two * i + one]) << count_bits) + 1
    else:
        stream, before = np.uint64(scalars[s.IS_TREE]), np.uint64(scalars[s.IS_FIRST_ROW])
        for i in range(first, last):
            noise = np.int64(hash64(seed, stream, before + i) >> one)
            g, h = np.int64(quantized[two * i]), np.int64(quantized[two * i + one])
            packed[i] = narrow_word(g, h, noise, dropped, hessian_bits, count_bits)


@kernel(inner=True)
def measure_block(
    block: np.ndarray, quantized: np.ndarray, counts: IntArray, start: int, stop: int
) -> None:
    """Keep the largest |g| and h, and add up |fixed g| and fixed h."""
    g_block, h_block = block[0], block[1]
    first, two = np.uint64(start), np.uint64(2)
    g_most, h_most = np.int64(0), np.int64(0)
    g_sum, h_sum = np.int64(0), np.int64(0)
    for i in range(np.uint64(stop - start)):
        # Bit patterns of floats >= 0 sort like the floats; an integer maximum vectorises.
        g_most = max(g_most, bits_of_float(abs(g_block[i])))
        h_most = max(h_most, bits_of_float(abs(h_block[i])))
        g_sum += abs(np.int64(quantized[two * (first + i)]))
        h_sum += abs(np.int64(quantized[two * (first + i) + np.uint64(1)]))
    counts[s.COUNT_G_MOST] = max(counts[s.COUNT_G_MOST], g_most)
    counts[s.COUNT_H_MOST] = max(counts[s.COUNT_H_MOST], h_most)
    counts[s.COUNT_G_SUM] += g_sum
    counts[s.COUNT_H_SUM] += h_sum


@kernel
def choose_packing(counts: kt.Int64_2D, scalars: kt.Int64_1D, constant: int, n_rows: int) -> None:
    """Thread 0: check the units and the packing against what the pass has measured."""
    g_most, h_most, g_sum, h_sum = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    for t in range(counts.shape[0]):
        g_most = max(g_most, counts[t, s.COUNT_G_MOST])
        h_most = max(h_most, counts[t, s.COUNT_H_MOST])
        g_sum += counts[t, s.COUNT_G_SUM]
        h_sum += counts[t, s.COUNT_H_SUM]
    redo = 0
    g_exponent = exponent_above(float_of_bits(g_most))
    h_exponent = exponent_above(float_of_bits(h_most))
    if g_exponent != scalars[s.IS_G_EXPONENT] or h_exponent != scalars[s.IS_H_EXPONENT]:
        scalars[s.IS_G_EXPONENT] = g_exponent
        scalars[s.IS_H_EXPONENT] = h_exponent
        redo = 1
    if constant == 1:
        count_bits, hessian_bits, g_apart, dropped = 16, 0, 0, 0
    elif n_rows > SMALL_FIT and min(g_sum, h_sum) // n_rows >= _LEAST_MEAN:
        count_bits, hessian_bits, g_apart, dropped = 13, 25, 0, _DROPPED
    else:
        count_bits, hessian_bits, g_apart, dropped = 15, 46, 1, 0
    if count_bits != scalars[s.IS_COUNT_BITS]:
        redo = 1
    scalars[s.IS_COUNT_BITS] = count_bits
    scalars[s.IS_HESSIAN_BITS] = hessian_bits
    scalars[s.IS_G_APART] = g_apart
    scalars[s.IS_DROPPED_BITS] = dropped
    scalars[s.IS_REDO] = redo


@kernel(inline=True, inner=True)
def outputs_of(state: s.State) -> int:
    """Return the number of outputs that the tree grows for."""
    return np.int64(1) if state.vectors.used == 0 else len(state.vectors.outputs.scalars)


class PartOfOutput(NamedTuple):
    """What a tree has of one of its outputs: scalars and arrays of rows."""

    scalars: IntArray
    rows: s.Rows


@kernel(inline=True, inner=True)
def part_of(state: s.State, output: int) -> PartOfOutput:
    """Return what the tree has of an output."""
    rows, outputs = state.rows, state.vectors.outputs
    if state.vectors.used == 0:
        return PartOfOutput(state.scalars, rows)
    own = s.Rows(rows.rows, rows.scratch, outputs.quantized[output], rows.packed)
    return PartOfOutput(outputs.scalars[output], own)


@kernel(inner=True)
def fix_rows(thread: int, state: s.State, output: int, counts: IntArray) -> None:
    """Compute fixed and packed gradients of a thread's rows, and measure them."""
    data, settings, constant = state.loss_data, state.settings, state.settings.constant_hessian
    if state.vectors.used == 1:
        targets = state.vectors.outputs.target
        target = targets[min(output, len(targets) - 1)]
        data = LossData(target, data.weight, data.raw, data.probability, data.level)
    scalars, rows = part_of(state, output)
    start, stop = share(settings.n_rows, thread, state.team.n_threads)
    block, number = state.threads.blocks[thread], scalars[s.IS_OUTPUT]
    if settings.loss == SOFTMAX and number == 0:  # before the first tree of a round
        for first in range(start, stop, BLOCK):
            class_probabilities(data, first, min(first + BLOCK, stop), block)
    for k in range(s.COUNT_H_SUM + 1):
        counts[k] = 0
    for first in range(start, stop, BLOCK):
        last = min(first + BLOCK, stop)
        derivatives(settings.loss, data, number, first, last, block)
        if settings.first_order == 1:
            # With weights as hessians the tree is the least-squares fit to -g / weight.
            for i in range(np.uint64(last - first)):
                block[1, i] = data.weight[np.uint64(first) + i] if len(data.weight) > 0 else 1.0
        fix_block(block, scalars, constant, rows.quantized, first, last)
        measure_block(block, rows.quantized, counts, first, last)
        if settings.packs_all == 1:
            pack_block(scalars, constant, settings.seed, rows, first, last)


@kernel(inner=True)
def gradient_pass(thread: int, state: s.State) -> None:
    """Compute fixed and packed gradients of all rows for the tree about to be grown."""
    counts, settings, vectors = state.threads.counts, state.settings, state.vectors
    for output in range(outputs_of(state)):
        scalars = part_of(state, output).scalars
        while True:
            fix_rows(thread, state, output, counts[thread])
            barrier(state.team)
            if thread == 0:
                choose_packing(counts, scalars, settings.constant_hessian, settings.n_rows)
            barrier(state.team)
            if scalars[s.IS_REDO] == 0:
                break
        if vectors.used == 1:
            vectors.outputs.measured[thread, output, 0] = counts[thread, s.COUNT_G_SUM]
            vectors.outputs.measured[thread, output, 1] = counts[thread, s.COUNT_H_SUM]
    if vectors.used == 1:
        barrier(state.team)
