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

from typing import NamedTuple

import numpy as np

from hedgerow.arrays import FloatArray, IntArray, RowArray, aligned_zeros
from hedgerow.compile import kernel
from hedgerow.growing.core.gradients import FIXED_BITS, narrow_word
from hedgerow.growing.core.state import (
    COUNT_G_SUM,
    COUNT_H_SUM,
    COUNT_SAMPLED,
    GOSS,
    IS_COUNT_BITS,
    IS_DROPPED_BITS,
    IS_G_APART,
    IS_HESSIAN_BITS,
    IS_N_ROWS,
    IS_ROUND,
    IS_TREE,
    MVS,
    UNIFORM,
    Options,
    Rows,
    Sampler,
    Settings,
)
from hedgerow.growing.sampling.draws import ROW_STREAM, sample_rows
from hedgerow.kernels.barrier import ThreadTeam, barrier, share
from hedgerow.kernels.hashing import hash64
from hedgerow.params import BoostParams

LARGEST = 1 << FIXED_BITS
_DIGIT_BITS = 10
_LEVELS = 3
_CELLS = (1 << _DIGIT_BITS) + 8  # the first digit of 2**30 is one more than the others have


class Found(NamedTuple):
    """The first digits of the threshold, and the keys on both ends of them.

    prefix  these digits
    above   number of keys whose first digits are larger
    below   sum of the keys whose first digits are not
    """

    prefix: np.int64
    above: np.int64
    below: np.int64


@kernel(inline=True, inner=True)
def limit_of(chance: float) -> int:
    """Hashes below it are drawn, as in :func:`sample_rows`; for chances from 0 to below 1."""
    return np.uint64(chance * 2.0**63) << np.uint64(1)


@kernel(inner=True)
def keys_of_goss(fixed: np.ndarray, keys: RowArray, tally: IntArray, start: int, stop: int) -> None:
    """Write ``|fixed g|`` of rows ``start`` to ``stop``; count the first digits."""
    counts, two, shift = tally[0], np.uint64(2), np.uint64(2 * _DIGIT_BITS)
    for i in range(np.uint64(start), np.uint64(stop)):
        key = np.uint64(abs(np.int64(fixed[two * i])))
        keys[i] = key
        counts[key >> shift] += 1


@kernel(inner=True)
def keys_of_mvs(
    fixed: np.ndarray,
    factors: tuple[float, float],
    keys: RowArray,
    tally: IntArray,
    start: int,
    stop: int,
) -> None:
    """Write keys proportional to ``sqrt(g^2 + lambda h^2)``; count and add up by first digit.

    Those that exceed every threshold are cut off.  None is 0: such a row would
    never be drawn, and so be missing from the sums for good.
    """
    two, one, shift = np.uint64(2), np.uint64(1), np.uint64(2 * _DIGIT_BITS)
    # Two loops: the first one works on vectors of rows, which counting does not allow.
    for i in range(np.uint64(start), np.uint64(stop)):
        g = np.float64(fixed[two * i]) * factors[0]
        h = np.float64(fixed[two * i + one]) * factors[1]
        size = min(np.sqrt(g * g + h * h), np.float64(LARGEST))
        keys[i] = np.uint32(max(np.rint(size), 1.0))
    for i in range(np.uint64(start), np.uint64(stop)):
        key = np.uint64(keys[i])
        tally[0, key >> shift] += 1
        tally[1, key >> shift] += np.int64(key)


@kernel(inner=True)
def mvs_factors(share_: float, counts: IntArray, n_rows: int) -> tuple[float, float]:
    """What |fixed g| and fixed h count for in keys: equal parts, whatever their means.

    ``mu`` is at most ``2 / share`` of the mean of |g|, which is the largest key.
    """
    g_sum, h_sum = np.int64(0), np.int64(0)
    for t in range(counts.shape[0]):
        g_sum += counts[t, COUNT_G_SUM]
        h_sum += counts[t, COUNT_H_SUM]
    whole = 0.5 * share_ * LARGEST * n_rows
    g_factor = whole / float(g_sum) if g_sum > 0 else 0.0
    return g_factor, whole / float(h_sum) if h_sum > 0 else 0.0


@kernel(inner=True)
def tally_digits(
    level: int, prefix: int, keys: RowArray, tally: IntArray, start: int, stop: int
) -> None:
    """Count and add up, by their next digit, the keys that begin with ``prefix``."""
    last = np.uint64((_LEVELS - 1 - level) * _DIGIT_BITS)
    before, mask = last + np.uint64(_DIGIT_BITS), np.uint64((1 << _DIGIT_BITS) - 1)
    wanted = np.uint64(prefix)
    for i in range(np.uint64(start), np.uint64(stop)):
        key = np.uint64(keys[i])
        if key >> before == wanted:
            tally[0, (key >> last) & mask] += 1
            tally[1, (key >> last) & mask] += np.int64(key)


@kernel(inner=True)
def find_digit(method: int, tallies: IntArray, level: int, found: Found, goal: float) -> Found:
    """Add the next digit: the largest at which the sample reaches ``goal`` rows.

    A threshold at the least key k of a digit gives GOSS the rows with keys from k
    on, and MVS besides an expected ``(sum of the keys below k) / k``.
    """
    shift = (_LEVELS - 1 - level) * _DIGIT_BITS
    above, below = found.above, found.below
    for digit in range(_CELLS - 1, -1, -1):
        count, total = np.int64(0), np.int64(0)
        for t in range(tallies.shape[0]):
            count += tallies[t, level, 0, digit]
            total += tallies[t, level, 1, digit]
        prefix = (found.prefix << _DIGIT_BITS) + digit
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
    """All digits of the threshold: each thread tallies the keys at ``place``."""
    tallies = sampler.tallies
    total = np.int64(0)
    barrier(team)
    for t in range(team.n_threads):
        for digit in range(_CELLS):
            total += tallies[t, 0, 1, digit]
    found = find_digit(sampler.method, tallies, 0, Found(0, 0, total), goal)
    for level in range(1, _LEVELS):
        tally_digits(level, found.prefix, keys, tallies[thread, level], place[0], place[1])
        barrier(team)
        found = find_digit(sampler.method, tallies, level, found, goal)
    return found


@kernel(inner=True)
def take_goss(
    settings: Settings,
    sampler: Sampler,
    rows: Rows,
    stream: int,
    threshold: int,
    ties: int,
    place: tuple[int, int],
) -> int:
    """Mark the rows in the sample, ``ties`` at the threshold for sure; their number.

    The unit being that of the others, which stand for several rows each, it is
    the numbers of the rows kept for sure that are scaled.  No branch depends on
    chance, so that rows go side by side.
    """
    marks, fixed, weights = rows.scratch, rows.fixed, sampler.weights
    start, stop = np.uint64(place[0]), np.uint64(place[1])
    two, one = np.uint64(2), np.uint64(1)
    behind_ties = start
    while ties > 0 and behind_ties < stop:
        ties -= np.int64(np.int64(marks[behind_ties]) == threshold)
        behind_ties += one
    everyone, limit = sampler.rate >= 1.0, limit_of(sampler.rate)
    taken = np.int64(0)
    for i in range(start, stop):
        key = np.int64(marks[i])
        top = (key > threshold) | ((key == threshold) & (i < behind_ties))
        factor = sampler.rate if top else 1.0
        fixed[two * i] = np.int32(np.rint(fixed[two * i] * factor))
        fixed[two * i + one] = np.int32(np.rint(fixed[two * i + one] * factor))
        mark = np.int64(top | everyone | (hash64(settings.seed, stream, i) < limit))
        if len(weights) > 0:
            weights[i] = 1.0 if top else 1.0 / sampler.rate
        marks[i] = mark
        taken += mark
    return taken


@kernel(inner=True)
def take_mvs(
    settings: Settings,
    sampler: Sampler,
    rows: Rows,
    stream: int,
    threshold: float,
    place: tuple[int, int],
) -> int:
    """Mark the rows in the sample and scale the numbers of all; how many are marked.

    There is no branch on what is a matter of chance, so that rows go side by side.
    """
    marks, fixed, weights = rows.scratch, rows.fixed, sampler.weights
    two, one = np.uint64(2), np.uint64(1)
    most = np.float64(LARGEST)
    taken = np.int64(0)
    for i in range(np.uint64(place[0]), np.uint64(place[1])):
        key = np.float64(marks[i])
        weight = max(1.0, threshold / key)
        factor = weight * 0.5 * sampler.rate
        # Keys are rounded, so small ones may be less than their share.
        g = min(max(np.rint(fixed[two * i] * factor), -most), most)
        h = min(np.rint(fixed[two * i + one] * factor), most)
        fixed[two * i] = np.int32(g)
        fixed[two * i + one] = np.int32(h)
        chance = min(1.0, key / threshold)
        drawn = hash64(settings.seed, stream, i) < limit_of(chance)
        mark = np.int64((chance >= 1.0) | drawn)
        if len(weights) > 0:
            weights[i] = weight
        marks[i] = mark
        taken += mark
    return taken


@kernel(inner=True)
def bring_forward(
    thread: int, team: ThreadTeam, rows: Rows, counts: IntArray, place: tuple[int, int]
) -> tuple[int, int]:
    """Write sampled rows to the front of the row ids, the others behind; where this thread's are.

    As :func:`sample_rows` does, but from marks.
    """
    before, total = np.int64(0), np.int64(0)
    for t in range(team.n_threads):
        if t < thread:
            before += counts[t, COUNT_SAMPLED]
        total += counts[t, COUNT_SAMPLED]
    inside, outside = np.uint64(before), np.uint64(total + place[0] - before)
    ids, marks, one = rows.rows, rows.scratch, np.uint64(1)
    for i in range(np.uint64(place[0]), np.uint64(place[1])):
        # No branch: which way it goes is a matter of chance.
        mark = np.uint64(marks[i])
        ids[outside + mark * (inside - outside)] = i
        inside += mark
        outside += one - mark
    return before, np.int64(inside)


@kernel(inner=True)
def pack_sample(scalars: IntArray, seed: int, rows: Rows, first: int, last: int) -> None:
    """Write the packed numbers of the rows at places ``first`` to ``last``."""
    ids, fixed, packed = rows.rows, rows.fixed, rows.packed
    count_bits, hessian_bits = scalars[IS_COUNT_BITS], scalars[IS_HESSIAN_BITS]
    dropped, stream = scalars[IS_DROPPED_BITS], np.uint64(scalars[IS_TREE])
    two, one, n_rows = np.uint64(2), np.uint64(1), np.uint64(len(packed) // 2)
    apart = scalars[IS_G_APART] == 1
    for k in range(np.uint64(first), np.uint64(last)):
        i = np.uint64(ids[k])
        g, h = np.int64(fixed[two * i]), np.int64(fixed[two * i + one])
        if apart:
            packed[i] = g
            packed[n_rows + i] = (h << count_bits) + 1
        else:
            noise = np.int64(hash64(seed, stream, i) >> one)
            packed[i] = narrow_word(g, h, noise, dropped, hessian_bits, count_bits)


@kernel(inner=True)
def sample_by_gradient(
    thread: int,
    team: ThreadTeam,
    settings: Settings,
    sampler: Sampler,
    rows: Rows,
    counts: IntArray,
    scalars: IntArray,
) -> None:
    """Choose the tree's rows by their fixed numbers and multiply these by the weights."""
    n_rows, keys = settings.n_rows, rows.scratch
    place = share(n_rows, thread, team.n_threads)
    tally = sampler.tallies[thread]
    for level in range(_LEVELS):
        for digit in range(_CELLS):
            tally[level, 0, digit] = 0
            tally[level, 1, digit] = 0
    stream = np.uint64(scalars[IS_ROUND] + ROW_STREAM)
    if sampler.method == GOSS:
        keys_of_goss(rows.fixed, keys, tally[0], place[0], place[1])
        goal = np.rint(sampler.top_rate * n_rows)
        found = find_threshold(thread, team, sampler, keys, goal, place)
        ties = np.int64(goal) - found.above
        for t in range(thread):
            ties -= sampler.tallies[t, _LEVELS - 1, 0, found.prefix & ((1 << _DIGIT_BITS) - 1)]
        taken = take_goss(settings, sampler, rows, stream, found.prefix, ties, place)
    else:
        factors = mvs_factors(sampler.rate, counts, n_rows)
        keys_of_mvs(rows.fixed, factors, keys, tally[0], place[0], place[1])
        goal = sampler.rate * n_rows
        found = find_threshold(thread, team, sampler, keys, goal, place)
        threshold = float(found.below) / (goal - float(found.above))
        taken = take_mvs(settings, sampler, rows, stream, threshold, place)
    counts[thread, COUNT_SAMPLED] = taken
    barrier(team)
    mine = bring_forward(thread, team, rows, counts, place)
    if sampler.packs == 1:
        pack_sample(scalars, settings.seed, rows, mine[0], mine[1])
    if thread == 0:
        total = np.int64(0)
        for t in range(team.n_threads):
            total += counts[t, COUNT_SAMPLED]
        scalars[IS_N_ROWS] = total
    barrier(team)


@kernel(inline=True, inner=True)
def draw_rows(
    thread: int,
    team: ThreadTeam,
    settings: Settings,
    rows: Rows,
    counts: IntArray,
    scalars: IntArray,
    options: Options,
) -> None:
    """Put the tree's rows to the front of the row ids."""
    if options.sampler.method != UNIFORM:
        sample_by_gradient(thread, team, settings, options.sampler, rows, counts, scalars)
    else:
        sample_rows(thread, team, settings, rows.rows, counts, scalars)


def follows_gradients(params: BoostParams) -> bool:
    """Whether the sample depends on the gradients.

    GOSS that keeps no row for sure draws evenly: rows and trees are then, by the
    same code, those of uniform sampling, but for the unit of g and h.
    """
    return params.sampling == "mvs" or (params.sampling == "goss" and params.goss_top_rate > 0.0)


def row_share(params: BoostParams) -> float:
    """Expected share of the rows in a tree's sample."""
    if params.sampling != "goss":
        return float(params.subsample)
    return min(1.0, float(params.goss_top_rate) + float(params.goss_other_rate))


def _other_chance(params: BoostParams) -> float:
    """Chance of a row that GOSS does not keep for sure."""
    top, other = float(params.goss_top_rate), float(params.goss_other_rate)
    return 1.0 if top + other >= 1.0 else other / (1.0 - top)


def unit_scale(params: BoostParams) -> float:
    """What the units of fixed numbers are multiplied by, once the rows are sampled."""
    if params.sampling == "goss":
        return 1.0 / _other_chance(params)
    return 2.0 / float(params.subsample) if params.sampling == "mvs" else 1.0


def uniform_sampler() -> Sampler:
    """The sampler of fits whose samples do not follow gradients."""
    nothing = np.zeros((0, 0, 0, 0), dtype=np.int64)
    zero = np.float64(0.0)
    return Sampler(np.int64(UNIFORM), zero, zero, np.int64(0), nothing, np.zeros(0))


def make_sampler(params: BoostParams, n_rows: int, n_threads: int, packs: bool) -> Sampler:
    """The sampler of a fit.

    Weights are kept where leaves are searched by the loss of their rows.
    """
    if not follows_gradients(params):
        return uniform_sampler()
    goss = params.sampling == "goss"
    n_weights = n_rows if params.leaf_estimation == "line_search" else 0
    return Sampler(
        method=np.int64(GOSS if goss else MVS),
        top_rate=np.float64(params.goss_top_rate),
        rate=np.float64(_other_chance(params) if goss else params.subsample),
        packs=np.int64(packs),
        tallies=aligned_zeros((n_threads, _LEVELS, 2, _CELLS), np.int64),
        weights=np.ones(n_weights),
    )


def weights_of(options: Options, rows: RowArray) -> FloatArray | None:
    """What each of some sampled rows stands for; None where it is the same for all.

    Parameters
    ----------
    extras : Extras
    rows : uint32

    Returns
    -------
    float64 (len(rows),) or None
        Known with ``leaf_estimation="line_search"`` only.
    """
    if len(options.sampler.weights) == 0:
        return None
    return np.asarray(options.sampler.weights[rows])
