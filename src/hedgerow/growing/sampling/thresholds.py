"""The threshold of a sample that follows gradients: keys of rows, counted digit by digit.

:mod:`hedgerow.growing.sampling.goss` has the glossary.  Tallies are sums of integers over
rows: those of threads, of chunks and of ranks are added up alike.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hedgerow.arrays import IntArray, RowArray
from hedgerow.compile import kernel
from hedgerow.growing.core.stages.gradients import QUANTIZED_BITS
from hedgerow.growing.core.state import COUNT_G_SUM, COUNT_H_SUM, GOSS, MVS, Rows, Sampler
from hedgerow.kernels.primitives.barrier import ThreadTeam, barrier

LARGEST = 1 << QUANTIZED_BITS
DIGIT_BITS = 10
LEVELS = 3
CELLS = (1 << DIGIT_BITS) + 8  # the first digit of 2**30 is one more than the others have


class Found(NamedTuple):
    """The first digits of the threshold, and the keys on both ends of them.

    prefix  these digits
    above   number of keys whose first digits are larger
    below   sum of the keys whose first digits are not
    """

    prefix: np.int64
    above: np.int64
    below: np.int64


class Choice(NamedTuple):
    """The rules that decide which rows are sampled.

    threshold  GOSS: the smallest key that may be kept for sure; MVS: mu
    ties       GOSS: rows with this key that are kept for sure, the first ones
    """

    threshold: np.float64
    ties: np.int64


@kernel(inner=True)
def keys_of_goss(
    quantized: np.ndarray, keys: RowArray, tally: IntArray, start: int, stop: int
) -> None:
    """Write ``|fixed g|`` of rows ``start`` to ``stop``; count the first digits."""
    counts, two, shift = tally[0], np.uint64(2), np.uint64(2 * DIGIT_BITS)
    for i in range(np.uint64(start), np.uint64(stop)):
        key = np.uint64(abs(np.int64(quantized[two * i])))
        keys[i] = key
        counts[key >> shift] += 1


@kernel(inner=True)
def keys_of_mvs(
    quantized: np.ndarray,
    factors: tuple[float, float],
    keys: RowArray,
    tally: IntArray,
    start: int,
    stop: int,
) -> None:
    """Write keys proportional to ``sqrt(g^2 + lambda h^2)``; count and add up by first digit."""
    two, one, shift = np.uint64(2), np.uint64(1), np.uint64(2 * DIGIT_BITS)
    # Two loops: the first one works on vectors of rows, which counting does not allow.
    for i in range(np.uint64(start), np.uint64(stop)):
        g = np.float64(quantized[two * i]) * factors[0]
        h = np.float64(quantized[two * i + one]) * factors[1]
        size = min(np.sqrt(g * g + h * h), np.float64(LARGEST))
        # Those that exceed every threshold are cut off.  None is 0: such a row would never be
        # drawn, and so be missing from the sums for good.
        keys[i] = np.uint32(max(np.rint(size), 1.0))
    for i in range(np.uint64(start), np.uint64(stop)):
        key = np.uint64(keys[i])
        tally[0, key >> shift] += 1
        tally[1, key >> shift] += np.int64(key)


@kernel(inner=True)
def mvs_factors(share_: float, counts: IntArray, n_rows: int) -> tuple[float, float]:
    """Return the factors of |fixed g| and fixed h in keys: equal parts for any means."""
    # ``mu`` is at most ``2 / share`` of the mean of |g|, which is the largest key.
    g_sum, h_sum = np.int64(0), np.int64(0)
    for t in range(counts.shape[0]):
        g_sum += counts[t, COUNT_G_SUM]
        h_sum += counts[t, COUNT_H_SUM]
    whole = 0.5 * share_ * LARGEST * n_rows
    g_factor = whole / float(g_sum) if g_sum > 0 else 0.0
    return g_factor, whole / float(h_sum) if h_sum > 0 else 0.0


@kernel(inner=True)
def clear_tally(tally: IntArray) -> None:
    """Set all counts of a thread to 0."""
    for level in range(LEVELS):
        for digit in range(CELLS):
            tally[level, 0, digit] = 0
            tally[level, 1, digit] = 0


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


@kernel(inner=True)
def find_digit(method: int, tallies: IntArray, level: int, found: Found, goal: float) -> Found:
    """Add the next digit: the largest at which the sample reaches ``goal`` rows."""
    # A threshold at the least key k of a digit gives GOSS the rows with keys from k on, and MVS
    # besides an expected ``(sum of the keys below k) / k``.
    shift = (LEVELS - 1 - level) * DIGIT_BITS
    above, below = found.above, found.below
    for digit in range(CELLS - 1, -1, -1):
        count, total = np.int64(0), np.int64(0)
        for t in range(tallies.shape[0]):
            count += tallies[t, level, 0, digit]
            total += tallies[t, level, 1, digit]
        prefix = (found.prefix << DIGIT_BITS) + digit
        reached = float(above + count)
        if method == MVS and prefix > 0:
            reached += float(below - total) / float(prefix << shift)
        if reached >= goal or digit == 0:
            return Found(prefix, above, below)
        above += count
        below -= total
    return found


@kernel(inner=True)
def find_threshold(
    thread: int,
    team: ThreadTeam,
    sampler: Sampler,
    keys: RowArray,
    goal: float,
    place: tuple[int, int],
) -> Found:
    """Return all digits of the threshold: each thread tallies the keys at ``place``."""
    tallies = sampler.tallies
    total = np.int64(0)
    barrier(team)
    for t in range(team.n_threads):
        for digit in range(CELLS):
            total += tallies[t, 0, 1, digit]
    found = find_digit(sampler.method, tallies, 0, Found(0, 0, total), goal)
    for level in range(1, LEVELS):
        tally_digits(level, found.prefix, keys, tallies[thread, level], place[0], place[1])
        barrier(team)
        found = find_digit(sampler.method, tallies, level, found, goal)
    return found


@kernel(inner=True)
def write_keys(
    sampler: Sampler, n_rows: int, rows: Rows, counts: IntArray, tally: IntArray,
    place: tuple[int, int],
) -> None:  # fmt: skip
    """Write the keys of the rows at ``place``, and tally their first digit."""
    if sampler.method == GOSS:
        keys_of_goss(rows.quantized, rows.scratch, tally, place[0], place[1])
    else:
        factors = mvs_factors(sampler.rate, counts, n_rows)
        keys_of_mvs(rows.quantized, factors, rows.scratch, tally, place[0], place[1])


@kernel(inline=True, inner=True)
def goal_of(sampler: Sampler, n_rows: int) -> float:
    """Return the number of rows that the threshold must reach: GOSS the kept rows, MVS all."""
    return np.rint(sampler.top_rate * n_rows) if sampler.method == GOSS else sampler.rate * n_rows


@kernel(inner=True)
def choice_of(method: int, found: Found, goal: float) -> Choice:
    """Return the choice that all digits of the threshold determine."""
    if method == GOSS:
        return Choice(np.float64(found.prefix), np.int64(goal) - found.above)
    return Choice(float(found.below) / (goal - float(found.above)), np.int64(0))
