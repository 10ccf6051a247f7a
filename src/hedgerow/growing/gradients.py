"""Gradients as integers: what makes every later sum exact and its order irrelevant.

For each tree, in blocks of rows that fit in the first-level cache::

    raw score, target --> g, h (float64)                  objectives.derivatives
                      --> fixed g, h   |.| <= 2**30       rounded to nearest
                      --> packed (g, h, 1)                the upper bits of fixed

The unit of ``fixed`` is the smallest power of two with which the largest
gradient of the tree fits, so it depends on the data alone: a pass that starts
with the unit of the tree before is done again when the unit changes (a few
times in a fit).

How many bits go into ``packed`` (:func:`choose_packing`):

constant hessian  all of g; the row count serves as hessian
narrow            the upper 12 bits of g and h, rounded up or down at random in
                  proportion to what is cut off, so that sums stay unbiased
                  (Shi et al. 2022); the noise of a sum of n rows is below
                  2**-13 sqrt(n) of the largest gradient
wide              all bits, in two limbs: for small data, where a second pass
                  costs nothing, and for gradients of which most are tiny beside
                  the largest (heavy tails), where 12 bits would not do
"""

from __future__ import annotations

import math

import numpy as np

from hedgerow.compile import kernel
from hedgerow.growing.state import (
    IS_COUNT_BITS,
    IS_DROPPED_BITS,
    IS_G_EXPONENT,
    IS_H_EXPONENT,
    IS_HESSIAN_BITS,
    IS_LIMB_BITS,
    IS_N_LIMBS,
    IS_OUTPUT,
    IS_REDO,
    IS_TREE,
    State,
)
from hedgerow.kernels.barrier import barrier, share
from hedgerow.kernels.hashing import hash64
from hedgerow.kernels.intrinsics import float_of_bits
from hedgerow.objectives.derivatives import SOFTMAX, class_probabilities, derivatives

BLOCK = 1024
FIXED_BITS = 30
SMALL_FIT = 4096
"""Up to this many rows gradients are always wide."""
_DROPPED = 18  # 30 - 12 bits
_LEAST_MEAN = 4 << _DROPPED
"""Narrow packing needs mean |g| and mean h of at least 4 units: then rounding
adds at most 1% to the variance of a gradient."""
ROUNDING_STREAM = 1


@kernel(inline=True)
def power_of_two(exponent: int) -> float:
    """``2.0 ** exponent`` for exponents of normal numbers."""
    return float_of_bits((np.int64(exponent) + 1023) << 52)


@kernel
def exponent_above(x: float) -> int:
    """Smallest e with ``x <= 2**e`` (0 for x = 0), within the normal numbers."""
    if not x > 0.0:
        return 0
    mantissa, e = math.frexp(x)
    if mantissa == 0.5:
        e -= 1
    return min(max(e, -900), 900)


@kernel
def round_block(thread: int, state: State, start: int, stop: int) -> None:
    """Turn the block's g and h into fixed and packed numbers."""
    scalars = state.scalars
    g_block, h_block = state.threads.g_block[thread], state.threads.h_block[thread]
    fixed, packed = state.rows.fixed, state.rows.packed
    limb_size = np.uint64(len(packed) // 2)
    constant = state.settings.constant_hessian == 1
    g_scale = power_of_two(FIXED_BITS - scalars[IS_G_EXPONENT])
    h_scale = 1.0 if constant else power_of_two(FIXED_BITS - scalars[IS_H_EXPONENT])
    n = np.uint64(stop - start)
    first = np.uint64(start)
    for i in range(n):
        fixed[np.uint64(2) * (first + i)] = np.int32(np.rint(g_block[i] * g_scale))
        fixed[np.uint64(2) * (first + i) + np.uint64(1)] = np.int32(np.rint(h_block[i] * h_scale))
    count_bits = scalars[IS_COUNT_BITS]
    hessian_bits = scalars[IS_HESSIAN_BITS]
    dropped = scalars[IS_DROPPED_BITS]
    if constant:
        for i in range(n):
            g = np.int64(fixed[np.uint64(2) * (first + i)])
            packed[first + i] = (g << count_bits) + 1
    elif scalars[IS_N_LIMBS] == 2:
        limb_bits = scalars[IS_LIMB_BITS]
        low = (np.int64(1) << limb_bits) - 1
        for i in range(n):
            g = np.int64(fixed[np.uint64(2) * (first + i)])
            h = np.int64(fixed[np.uint64(2) * (first + i) + np.uint64(1)])
            upper = ((g >> limb_bits) << hessian_bits) + (h >> limb_bits)
            lower = ((g & low) << hessian_bits) + (h & low)
            packed[first + i] = (upper << count_bits) + 1
            packed[limb_size + first + i] = lower << count_bits
    else:
        mask = (np.int64(1) << dropped) - 1
        stream = np.uint64(scalars[IS_TREE])
        seed = state.settings.seed
        for i in range(n):
            noise = np.int64(hash64(seed, stream, first + i) >> np.uint64(1))
            g = (np.int64(fixed[np.uint64(2) * (first + i)]) + (noise & mask)) >> dropped
            h = np.int64(fixed[np.uint64(2) * (first + i) + np.uint64(1)])
            h = (h + ((noise >> np.int64(31)) & mask)) >> dropped
            packed[first + i] = (((g << hessian_bits) + h) << count_bits) + 1


@kernel
def measure_block(thread: int, state: State, start: int, stop: int) -> None:
    """Keep the largest |g| and h, and add up |fixed g| and fixed h."""
    g_block, h_block = state.threads.g_block[thread], state.threads.h_block[thread]
    fixed = state.rows.fixed
    n = np.uint64(stop - start)
    first = np.uint64(start)
    g_most, h_most = np.int64(0), np.int64(0)
    g_sum, h_sum = np.int64(0), np.int64(0)
    for i in range(n):
        # Bit patterns of floats >= 0 sort like the floats; an integer maximum vectorises.
        g_most = max(g_most, np.float64(abs(g_block[i])).view(np.int64))
        h_most = max(h_most, np.float64(abs(h_block[i])).view(np.int64))
        g_sum += abs(np.int64(fixed[np.uint64(2) * (first + i)]))
        h_sum += abs(np.int64(fixed[np.uint64(2) * (first + i) + np.uint64(1)]))
    largest = state.threads.largest
    largest[thread, 0] = max(largest[thread, 0], float_of_bits(g_most))
    largest[thread, 1] = max(largest[thread, 1], float_of_bits(h_most))
    state.threads.counts[thread, 0] += g_sum
    state.threads.counts[thread, 1] += h_sum


@kernel
def choose_packing(state: State) -> None:
    """Thread 0: check the units and the packing against what the pass has measured."""
    scalars = state.scalars
    n_rows = state.settings.n_rows
    n_threads = state.crew.n_threads
    g_most, h_most = 0.0, 0.0
    g_sum, h_sum = np.int64(0), np.int64(0)
    for t in range(n_threads):
        g_most = max(g_most, state.threads.largest[t, 0])
        h_most = max(h_most, state.threads.largest[t, 1])
        g_sum += state.threads.counts[t, 0]
        h_sum += state.threads.counts[t, 1]
    redo = 0
    g_exponent = exponent_above(g_most)
    h_exponent = exponent_above(h_most)
    if g_exponent != scalars[IS_G_EXPONENT] or h_exponent != scalars[IS_H_EXPONENT]:
        scalars[IS_G_EXPONENT] = g_exponent
        scalars[IS_H_EXPONENT] = h_exponent
        scalars[IS_N_LIMBS] = 0  # not yet known: the sums were in other units
        redo = 1
    if state.settings.constant_hessian == 1:
        count_bits, hessian_bits, limb_bits, n_limbs, dropped = 16, 0, 0, 1, 0
    elif n_rows > SMALL_FIT and min(g_sum, h_sum) // n_rows >= _LEAST_MEAN:
        count_bits, hessian_bits, limb_bits, n_limbs, dropped = 13, 25, 0, 1, _DROPPED
    else:
        count_bits, hessian_bits, limb_bits, n_limbs, dropped = 11, 26, 15, 2, 0
    if n_limbs != scalars[IS_N_LIMBS] or dropped != scalars[IS_DROPPED_BITS]:
        redo = 1
    scalars[IS_COUNT_BITS] = count_bits
    scalars[IS_HESSIAN_BITS] = hessian_bits
    scalars[IS_LIMB_BITS] = limb_bits
    scalars[IS_N_LIMBS] = n_limbs
    scalars[IS_DROPPED_BITS] = dropped
    scalars[IS_REDO] = redo


@kernel
def gradient_pass(thread: int, state: State) -> None:
    """Compute fixed and packed gradients of all rows for the tree about to be grown."""
    settings = state.settings
    start, stop = share(settings.n_rows, thread, state.crew.n_threads)
    output = state.scalars[IS_OUTPUT]
    g_block, h_block = state.threads.g_block[thread], state.threads.h_block[thread]
    if settings.loss == SOFTMAX and output == 0:
        for block in range(start, stop, BLOCK):
            end = min(block + BLOCK, stop)
            class_probabilities(state.loss_data, block, end, g_block, h_block)
    while True:
        state.threads.counts[thread, :2] = 0
        state.threads.largest[thread, :2] = 0.0
        for block in range(start, stop, BLOCK):
            end = min(block + BLOCK, stop)
            derivatives(settings.loss, state.loss_data, output, block, end, g_block, h_block)
            round_block(thread, state, block, end)
            measure_block(thread, state, block, end)
        barrier(state.crew)
        if thread == 0:
            choose_packing(state)
        barrier(state.crew)
        if state.scalars[IS_REDO] == 0:
            return
