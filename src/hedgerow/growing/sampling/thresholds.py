"""The threshold of a sample that follows gradients: keys of rows, counted digit by digit.

:mod:`hedgerow.growing.sampling.goss` has the glossary.  Tallies are sums of integers over
rows: those of threads, of chunks and of ranks are added up alike.
"""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import IntArray, RowArray
from hedgerow.compile import kernel
from hedgerow.growing.core import state as s
from hedgerow.growing.core.stages.gradients import QUANTIZED_BITS
from hedgerow.kernels.primitives.barrier import barrier, share
from hedgerow.kernels.primitives.intrinsics import bits_of_float

LARGEST = 1 << QUANTIZED_BITS
DIGIT_BITS = 10
LEVELS = 3
CELLS = (1 << DIGIT_BITS) + 8  # the first digit of 2**30 is one more than the others have


@kernel
def tally_keys(thread: int, state: s.State, level: int, n_rows: int) -> None:
    """Tally the next digit of a thread's keys that begin as the threshold; first write the keys."""
    # ``n_rows`` are those of all ranks.
    place = share(state.settings.n_rows, thread, state.team.n_threads)
    tally = state.options.sampler.tallies[thread, level]
    for digit in range(CELLS):
        tally[0, digit], tally[1, digit] = 0, 0
    if level > 0:
        tally_digits(level, state.scalars[s.IS_PREFIX], state.rows.scratch, tally, *place)
    elif state.options.sampler.method == s.GOSS:
        write_keys_of_goss(state.rows, tally, place)
    else:
        write_keys_of_mvs(state, n_rows, tally, place)
    barrier(state.team)


@kernel(inner=True)
def write_keys_of_goss(rows: s.Rows, tally: IntArray, place: tuple[int, int]) -> None:
    """Write ``|fixed g|`` of the rows at ``place``; count the first digits."""
    keys, quantized, counts = rows.scratch, rows.quantized, tally[0]
    two, shift = np.uint64(2), np.uint64(2 * DIGIT_BITS)
    for i in range(np.uint64(place[0]), np.uint64(place[1])):
        key = np.uint64(abs(np.int64(quantized[two * i])))
        keys[i] = key
        counts[key >> shift] += 1


@kernel(inner=True)
def write_keys_of_mvs(state: s.State, n_rows: int, tally: IntArray, place: tuple[int, int]) -> None:
    """Write keys proportional to ``sqrt(g^2 + lambda h^2)``; count and add up by first digit."""
    # |fixed g| and fixed h have equal parts in keys for any means.  ``mu`` is at most ``2 / share``
    # of the mean of |g|, which is the largest key.
    counts, keys, quantized = state.threads.counts, state.rows.scratch, state.rows.quantized
    g_sum, h_sum = np.int64(0), np.int64(0)
    for t in range(counts.shape[0]):
        g_sum += counts[t, s.COUNT_G_SUM]
        h_sum += counts[t, s.COUNT_H_SUM]
    whole = 0.5 * state.options.sampler.rate * LARGEST * n_rows
    g_factor = whole / float(g_sum) if g_sum > 0 else 0.0
    h_factor = whole / float(h_sum) if h_sum > 0 else 0.0
    two, one, shift = np.uint64(2), np.uint64(1), np.uint64(2 * DIGIT_BITS)
    # Two loops: the first one works on vectors of rows, which counting does not allow.
    for i in range(np.uint64(place[0]), np.uint64(place[1])):
        g = np.float64(quantized[two * i]) * g_factor
        h = np.float64(quantized[two * i + one]) * h_factor
        size = min(np.sqrt(g * g + h * h), np.float64(LARGEST))
        # Those that exceed every threshold are cut off.  None is 0: such a row would never be
        # drawn, and so be missing from the sums for good.
        keys[i] = np.uint32(max(np.rint(size), 1.0))
    for i in range(np.uint64(place[0]), np.uint64(place[1])):
        key = np.uint64(keys[i])
        tally[0, key >> shift] += 1
        tally[1, key >> shift] += np.int64(key)


@kernel(inner=True)
def tally_digits(
    level: int, prefix: int, keys: RowArray, tally: IntArray, start: int, stop: int
) -> None:
    """Count and add up, by their next digit, the keys that begin with ``prefix``."""
    last = np.uint64((LEVELS - 1 - level) * DIGIT_BITS)
    before, mask = last + np.uint64(DIGIT_BITS), np.uint64((1 << DIGIT_BITS) - 1)
    wanted = np.uint64(prefix)
    for i in range(np.uint64(start), np.uint64(stop)):
        key = np.uint64(keys[i])
        if key >> before == wanted:
            tally[0, (key >> last) & mask] += 1
            tally[1, (key >> last) & mask] += np.int64(key)


@kernel
def next_digit(sampler: s.Sampler, level: int, n_rows: int, scalars: IntArray) -> None:
    """Thread 0: add the next digit of the threshold from all tallies; the last one completes it."""
    # It is the largest digit at which the sample reaches its goal: GOSS the rows that are kept for
    # sure, MVS all.  A threshold at the least key k of a digit gives GOSS the rows with keys from k
    # on, and MVS besides an expected ``(sum of the keys below k) / k``.
    tallies, is_goss = sampler.tallies, sampler.method == s.GOSS
    goal = np.rint(sampler.top_rate * n_rows) if is_goss else sampler.rate * n_rows
    shift, above, below = (LEVELS - 1 - level) * DIGIT_BITS, np.int64(0), np.int64(0)
    if level == 0:
        scalars[s.IS_PREFIX] = 0
        for t in range(tallies.shape[0]):
            for digit in range(CELLS):
                below += tallies[t, 0, 1, digit]
    else:
        above, below = scalars[s.IS_ABOVE], scalars[s.IS_BELOW]
    first = scalars[s.IS_PREFIX] << DIGIT_BITS
    for digit in range(CELLS - 1, -1, -1):
        count, total = np.int64(0), np.int64(0)
        for t in range(tallies.shape[0]):
            count += tallies[t, level, 0, digit]
            total += tallies[t, level, 1, digit]
        prefix, reached = first + digit, float(above + count)
        if not is_goss and prefix > 0:
            reached += float(below - total) / float(prefix << shift)
        if reached >= goal or digit == 0:
            scalars[s.IS_PREFIX] = prefix
            break
        above += count
        below -= total
    scalars[s.IS_ABOVE], scalars[s.IS_BELOW] = above, below
    if level == LEVELS - 1:
        threshold = float(scalars[s.IS_PREFIX])
        if not is_goss:
            threshold = float(below) / (goal - float(above))
        scalars[s.IS_THRESHOLD] = bits_of_float(threshold)
        scalars[s.IS_TIES] = np.int64(goal) - above if is_goss else 0
