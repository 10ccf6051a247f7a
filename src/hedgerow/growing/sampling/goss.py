"""Row samples that follow the gradients: GOSS and minimal-variance sampling.

Glossary
--------
key         what a row is chosen by, an integer from 0 to 2**30
threshold   keys above it are in every sample
weight      1 / (chance of the row to be in the sample): g and h of a sampled row
            are multiplied by it, so that sums over the sample estimate, without
            bias, those over all rows
unit scale  largest weight that a sample may hold: the unit of fixed numbers is
            multiplied by it, the numbers by ``weight / unit scale``, which is
            at most 1, so that they fit the bits that they had

GOSS (gradient-based one-side sampling, Ke et al. 2017) with rates a and b keeps
the ``a n`` rows of the largest ``|g|`` and takes each of the others with chance
``b / (1 - a)``.  Of rows that tie at the threshold the first ones are kept.

MVS (minimal-variance sampling, Ibragimov and Gusev 2019) takes row i with chance

    p_i = min(1, sqrt(g_i^2 + lambda h_i^2) / mu),    mu such that  sum p_i = s n

which of all samples of that size has the gains of least variance.  ``lambda``
stands for the square of a leaf's value and is ``(sum |g| / sum h)^2`` here: the
paper leaves it open, this has the right unit for any loss, and no weight exceeds
``2 / s`` times what its row is to the mean, so that nothing overflows.

::

    keys, tally of their first digit  | each thread its rows
    digit of the threshold            | all threads, from all tallies
    (twice more with the next digit of the rows that share the first)
    choose rows, scale their numbers  | each thread its rows
    sampled rows to the front, packed | each thread its rows

Keys have three digits of ten bits (2**30 one more): three counters of 8 KiB stay
in the first-level cache, and no row is sorted.  All sums are integers and chances
are compared with hashes of the row (the stream of uniform sampling), so a sample
does not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hedgerow import kernel_types as kt
from hedgerow.arrays import FloatArray, IntArray, aligned_empty, aligned_zeros
from hedgerow.compile import kernel
from hedgerow.growing.core import state as s
from hedgerow.growing.core.stages.gradients import QUANTIZED_BITS, narrow_word
from hedgerow.growing.sampling.draws import ROW_STREAM, sample_rows, sampled_before
from hedgerow.kernels.primitives.barrier import barrier, share
from hedgerow.kernels.primitives.hashing import hash64
from hedgerow.kernels.primitives.intrinsics import bits_of_float, float_of_bits
from hedgerow.params import BoostParams

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
    if level == 0 and state.options.sampler.method == s.MVS:
        write_keys_of_mvs(state, n_rows, tally, place)
        barrier(state.team)
        return
    keys, quantized, first, stop = (
        state.rows.scratch, state.rows.quantized, np.uint64(place[0]), np.uint64(place[1])
    )  # fmt: skip
    if level == 0:  # the keys of GOSS are |fixed g|
        two, last = np.uint64(2), np.uint64(2 * DIGIT_BITS)
        for i in range(first, stop):
            key = np.uint64(abs(np.int64(quantized[two * i])))
            keys[i] = key
            tally[0, key >> last] += 1
    else:
        last = np.uint64((LEVELS - 1 - level) * DIGIT_BITS)
        before, mask = last + np.uint64(DIGIT_BITS), np.uint64((1 << DIGIT_BITS) - 1)
        prefix = np.uint64(state.scalars[s.IS_PREFIX])
        for i in range(first, stop):
            key = np.uint64(keys[i])
            if key >> before == prefix:
                tally[0, (key >> last) & mask] += 1
                tally[1, (key >> last) & mask] += np.int64(key)
    barrier(state.team)


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


@kernel
def next_digit(sampler: s.Sampler, level: int, n_rows: int, scalars: kt.Int64_1D) -> None:
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


@kernel(inline=True, inner=True)
def limit_of(chance: float) -> int:
    """Return the limit of hashes to draw, as in :func:`sample_rows`, for probabilities below 1."""
    return np.uint64(chance * 2.0**63) << np.uint64(1)


@kernel(inner=True)
def take_goss(thread: int, state: s.State, place: tuple[int, int]) -> int:
    """Mark the rows in the sample, the first at the threshold for sure; return their number."""
    # The unit being that of the others, which stand for several rows each, it is the numbers of the
    # rows kept for sure that are scaled.  No branch depends on chance, so that rows go side by
    # side.
    sampler, rows, scalars = state.options.sampler, state.rows, state.scalars
    counts, seed = state.threads.counts, state.settings.seed
    marks, quantized, weights = rows.scratch, rows.quantized, sampler.weights
    threshold = np.int64(float_of_bits(scalars[s.IS_THRESHOLD]))
    start, stop = np.uint64(place[0]), np.uint64(place[1])
    two, one, own = np.uint64(2), np.uint64(1), np.int64(0)
    for i in range(start, stop):
        own += np.int64(marks[i] == np.uint32(threshold))
    counts[thread, s.COUNT_TIES] = own
    barrier(state.team)
    ties, behind_ties = scalars[s.IS_TIES], start
    for t in range(thread):
        ties -= counts[t, s.COUNT_TIES]
    while ties > 0 and behind_ties < stop:
        ties -= np.int64(np.int64(marks[behind_ties]) == threshold)
        behind_ties += one
    everyone, limit = sampler.rate >= 1.0, limit_of(sampler.rate)
    stream, before = np.uint64(scalars[s.IS_ROUND] + ROW_STREAM), np.uint64(scalars[s.IS_FIRST_ROW])
    taken = np.int64(0)
    for i in range(start, stop):
        key = np.int64(marks[i])
        top = (key > threshold) | ((key == threshold) & (i < behind_ties))
        factor = sampler.rate if top else 1.0
        quantized[two * i] = np.int32(np.rint(quantized[two * i] * factor))
        quantized[two * i + one] = np.int32(np.rint(quantized[two * i + one] * factor))
        mark = np.int64(top | everyone | (hash64(seed, stream, before + i) < limit))
        if len(weights) > 0:
            weights[i] = 1.0 if top else 1.0 / sampler.rate
        marks[i] = mark
        taken += mark
    return taken


@kernel(inner=True)
def take_mvs(state: s.State, place: tuple[int, int]) -> int:
    """Mark the rows in the sample and scale the numbers of all; return how many are marked."""
    # No branch depends on random values, so that rows are processed in parallel.
    sampler, rows, scalars = state.options.sampler, state.rows, state.scalars
    seed = state.settings.seed
    marks, quantized, weights = rows.scratch, rows.quantized, sampler.weights
    threshold, two, one = float_of_bits(scalars[s.IS_THRESHOLD]), np.uint64(2), np.uint64(1)
    stream, before = np.uint64(scalars[s.IS_ROUND] + ROW_STREAM), np.uint64(scalars[s.IS_FIRST_ROW])
    most = np.float64(LARGEST)
    taken = np.int64(0)
    for i in range(np.uint64(place[0]), np.uint64(place[1])):
        key = np.float64(marks[i])
        weight = max(1.0, threshold / key)
        factor = weight * 0.5 * sampler.rate
        # Keys are rounded, so small ones may be less than their share.
        g = min(max(np.rint(quantized[two * i] * factor), -most), most)
        h = min(np.rint(quantized[two * i + one] * factor), most)
        quantized[two * i] = np.int32(g)
        quantized[two * i + one] = np.int32(h)
        chance = min(1.0, key / threshold)
        drawn = hash64(seed, stream, before + i) < limit_of(chance)
        mark = np.int64((chance >= 1.0) | drawn)
        if len(weights) > 0:
            weights[i] = weight
        marks[i] = mark
        taken += mark
    return taken


@kernel(inner=True)
def pack_sample(state: s.State, first: int, last: int) -> None:
    """Write the packed numbers of the rows at places ``first`` to ``last``."""
    scalars, seed = state.scalars, state.settings.seed
    ids, quantized, packed = state.rows.rows, state.rows.quantized, state.rows.packed
    count_bits, hessian_bits = scalars[s.IS_COUNT_BITS], scalars[s.IS_HESSIAN_BITS]
    dropped, stream = scalars[s.IS_DROPPED_BITS], np.uint64(scalars[s.IS_TREE])
    two, one, n_rows = np.uint64(2), np.uint64(1), np.uint64(len(packed) // 2)
    apart, before = scalars[s.IS_G_APART] == 1, np.uint64(scalars[s.IS_FIRST_ROW])
    for k in range(np.uint64(first), np.uint64(last)):
        i = np.uint64(ids[k])
        g, h = np.int64(quantized[two * i]), np.int64(quantized[two * i + one])
        if apart:
            packed[i] = g
            packed[n_rows + i] = (h << count_bits) + 1
        else:
            noise = np.int64(hash64(seed, stream, before + i) >> one)
            packed[i] = narrow_word(g, h, noise, dropped, hessian_bits, count_bits)


@kernel(inner=True)
def choose_rows(thread: int, state: s.State) -> None:
    """Put the rows of the sample, whose keys are in ``rows.scratch``, to the front of the ids."""
    # Their fixed numbers are multiplied by the weights, and packed.  Marks, 1 in the sample, take
    # the place of the keys.
    team, rows, counts = state.team, state.rows, state.threads.counts
    place = share(state.settings.n_rows, thread, team.n_threads)
    if state.options.sampler.method == s.GOSS:
        counts[thread, s.COUNT_SAMPLED] = take_goss(thread, state, place)
    else:
        counts[thread, s.COUNT_SAMPLED] = take_mvs(state, place)
    barrier(team)
    before, total = sampled_before(thread, counts)
    inside, outside = np.uint64(before), np.uint64(total + place[0] - before)
    ids, marks, one = rows.rows, rows.scratch, np.uint64(1)
    for i in range(np.uint64(place[0]), np.uint64(place[1])):
        # No branch: which way it goes is a matter of chance.
        mark = np.uint64(marks[i])
        ids[outside + mark * (inside - outside)] = i
        inside += mark
        outside += one - mark
    if state.options.sampler.packs == 1:
        pack_sample(state, before, np.int64(inside))
    if thread == 0:
        state.scalars[s.IS_N_ROWS] = total
    barrier(team)


@kernel(inline=True, inner=True)
def draw_rows(thread: int, state: s.State) -> None:
    """Put the tree's rows to the front of the row ids."""
    sampler, n_rows = state.options.sampler, state.settings.n_rows
    if sampler.method == s.UNIFORM:
        sample_rows(thread, state)
        return
    for level in range(LEVELS):
        tally_keys(thread, state, level, n_rows)
        if thread == 0:
            next_digit(sampler, level, n_rows, state.scalars)
        barrier(state.team)
    choose_rows(thread, state)


def follows_gradients(params: BoostParams) -> bool:
    """Return whether the sample depends on the gradients."""
    # GOSS that keeps no row for sure draws evenly: rows and trees are then, by the same code, those
    # of uniform sampling, except for the unit of g and h.
    return params.sampling == "mvs" or (params.sampling == "goss" and params.goss_top_rate > 0.0)


def weighs_sample(params: BoostParams) -> bool:
    """Return whether the weights of sampled rows are stored, for line searches of leaf values."""
    return follows_gradients(params) and params.leaf_estimation == "line_search"


def row_share(params: BoostParams) -> float:
    """Return the expected share of the rows in a tree's sample."""
    if params.sampling != "goss":
        return float(params.subsample)
    return min(1.0, float(params.goss_top_rate) + float(params.goss_other_rate))


def _other_chance(params: BoostParams) -> float:
    """Chance of a row that GOSS does not keep for sure."""
    top, other = float(params.goss_top_rate), float(params.goss_other_rate)
    return 1.0 if top + other >= 1.0 else other / (1.0 - top)


def unit_scale(params: BoostParams) -> float:
    """Return the factor on the units of fixed-point numbers after the rows are sampled."""
    if params.sampling == "goss":
        return 1.0 / _other_chance(params)
    return 2.0 / float(params.subsample) if params.sampling == "mvs" else 1.0


def make_sampler(
    params: BoostParams,
    n_rows: int,
    n_threads: int,
    packs: bool,
    allocate: Callable[..., FloatArray] = aligned_empty,
) -> s.Sampler:
    """Return the sampler of a fit."""
    if not follows_gradients(params):
        nothing, zero = np.zeros((0, 0, 0, 0), dtype=np.int64), np.float64(0.0)
        return s.Sampler(np.int64(s.UNIFORM), zero, zero, np.int64(0), nothing, np.zeros(0))
    goss = params.sampling == "goss"
    weights = allocate(n_rows if weighs_sample(params) else 0, np.float64)
    weights[:] = 1.0
    return s.Sampler(
        method=np.int64(s.GOSS if goss else s.MVS),
        top_rate=np.float64(params.goss_top_rate),
        rate=np.float64(_other_chance(params) if goss else params.subsample),
        packs=np.int64(packs),
        tallies=aligned_zeros((n_threads, LEVELS, 2, CELLS), np.int64),
        weights=weights,
    )
