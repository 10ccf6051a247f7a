"""Search of the best cut among all values of a node, and the division of its lists.

Every node has, for each column, a list of its rows sorted by value: *entries*
(:mod:`hedgerow.data.external.blocks`).  The top bit of an entry is 1 if its value
differs from the entry before::

    entries   7'  2'  9   4'  0       ' starts a run of equal values
    cut           ^       ^           before each run but the first
    left     |7 | | 7 2 9 |           sums of g, h and rows before the cut

A scan gathers the gradients of a list in the order of its values and writes the
running sums before each run to a small buffer; when the buffer is full, its cuts are
scored, several at a time (:func:`best_of_cuts`).  The running sums start at zero
where missing values go right, and at the sums of the missing rows where they go
left.

Lists are divided in place, like the rows themselves: left entries move to the
front, and right entries follow them.  If the entry that starts a run goes to the
other side, the next entry that stays takes over its bit (``pending``)::

    entries   7'  2'  9   4'  0       sides   R  L  R  R  L
    left      2'  0'                  0 starts a run of its own: 4 was dropped
    right     7'  9'  4'

The bits are thus right in every node, and no value has to be looked up.
Approximate search clears some of the bits (:func:`thin_runs`) and is otherwise the same.

The gradients and sides of the rows are scattered in memory, so they are prefetched: with
a million rows an entry takes 1.5 ns to scan and 1.2 ns to divide, against 2.0 and 2.0 ns
without prefetching.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hedgerow import kernel_types as kt
from hedgerow.arrays import BinArray, RowArray
from hedgerow.compile import kernel
from hedgerow.kernels.primitives.intrinsics import bits_of_float, prefetch
from hedgerow.kernels.splits.constraints import ConstrainedColumn, cut_gain
from hedgerow.kernels.splits.split import Limits, NodeSums, Side, sides_score

CUTS = 512
"""The cuts in the buffer are scored once there are more than this."""

CHUNK = 256
"""Entries between two checks of the buffer.  With room for ``CUTS`` and one chunk, the
four columns of the buffer take half of the first-level cache."""

_RUN_BIT = np.uint32(1 << 31)
ROW_BITS = np.uint32((1 << 31) - 1)
_RUN_SHIFT = np.uint32(31)
_CUTS = np.uint64(CUTS)
_CHUNK = np.uint64(CHUNK)
_AHEAD = np.uint64(24)
_ONE, _TWO = np.uint64(1), np.uint64(2)


class CutBuffer(NamedTuple):
    """Sums of the present rows before some cuts, and the scores of the cuts.

    All arrays are int64 (CUTS + CHUNK + 1,).  A score is the bit pattern of a float64, or
    -1 for a cut that is not allowed; under constraints it is a gain.
    """

    g: kt.Int64_2D
    h: kt.Int64_2D
    n: kt.Int64_2D
    score: kt.Int64_2D


class ExactSplit(NamedTuple):
    """The best cut found so far; ``score`` < 0 means none.

    ``score`` is the bit pattern of a float64 in units of the sums; ``n_present``
    counts the entries before the cut, ``n_left`` the rows on its left.
    """

    score: np.int64
    feature: np.int64
    n_present: np.int64
    missing_left: np.int64
    g_left: np.int64
    h_left: np.int64
    n_left: np.int64


NO_CUT = ExactSplit(-1, -1, 0, 0, 0, 0, 0)


class SearchedList(NamedTuple):
    """The list of a column in a node that is searched.

    entries, place  the entries, and where those of the list begin and end
    quantized       int32: fixed g and h of all rows
    cuts            space for cuts
    limits, feature  of the node, and the column
    """

    entries: RowArray
    place: tuple[int, int]
    quantized: np.ndarray
    cuts: CutBuffer
    limits: Limits
    feature: np.int64


@kernel(inner=True)
def better_cut(
    own: SearchedList, n_cuts: int, before: NodeSums, missing_left: int, best: ExactSplit,
    constraints: ConstrainedColumn | None,
) -> ExactSplit:  # fmt: skip
    """Return the better of ``best`` and the first of the best cuts in the buffer."""
    # The cuts are scored with the sums ``before`` added on the left.
    g, h, n, scores = own.cuts.g, own.cuts.h, own.cuts.n, own.cuts.score
    limits, g_before, h_before, n_before = own.limits, before.g, before.h, before.n
    most = np.int64(-1)
    for k in range(np.uint64(n_cuts)):
        g_left, h_left = float(g[k] + g_before), float(h[k] + h_before)
        n_left, h_right = n[k] + n_before, limits.h - h_left
        left = Side(g_left, h_left + limits.penalty, n_left)
        right = Side(limits.g - g_left, h_right + limits.penalty, limits.n - n_left)
        if constraints is None:
            score = sides_score(left, right, limits, False)
        else:
            score = cut_gain(left, right, n[k], limits, constraints)
        rows = (n_left >= limits.fewest) & (right.n >= limits.fewest)
        weight = (h_left >= limits.lightest) & (h_right >= limits.lightest)
        # Bit patterns of floats >= 0 sort like the floats; an integer maximum vectorises.
        bits = bits_of_float(score) if rows & weight & (score >= 0.0) else np.int64(-1)
        scores[k] = bits
        most = max(most, bits)
    if most <= best.score:
        return best
    at = np.uint64(0)
    while scores[at] != most:
        at += _ONE
    return ExactSplit(
        most, own.feature, n[at], missing_left, g[at] + g_before, h[at] + h_before,
        n[at] + n_before,
    )  # fmt: skip


@kernel(inner=True)
def scan_entries(
    own: SearchedList, before: NodeSums, missing_left: int, best: ExactSplit,
    constraints: ConstrainedColumn | None,
) -> tuple[ExactSplit, int, NodeSums]:  # fmt: skip
    """Return the better of ``best`` and the best cut of a list, in one direction."""
    # Also returned: the number of cuts in the buffer (-1 if they did not all fit), and the sums of
    # the list.
    entries, quantized = own.entries, own.quantized
    cut_g, cut_h, cut_n = own.cuts.g, own.cuts.h, own.cuts.n
    start, stop = np.uint64(own.place[0]), np.uint64(own.place[1])
    g, h = np.int64(0), np.int64(0)
    k, overflow, next_one = np.uint64(0), False, start
    if start < stop:
        # No cut before the first entry: it would leave no present row on the left.
        at = _TWO * np.uint64(entries[start] & ROW_BITS)
        g, h = np.int64(quantized[at]), np.int64(quantized[at + _ONE])
        next_one = start + _ONE
    while next_one < stop:
        first, next_one = next_one, min(next_one + _CHUNK, stop)
        for i in range(first, next_one):
            entry = entries[i]
            prefetch(quantized, np.intp(_TWO * np.uint64(entries[i + _AHEAD] & ROW_BITS)))
            at = _TWO * np.uint64(entry & ROW_BITS)
            cut_g[k] = g
            cut_h[k] = h
            cut_n[k] = np.int64(i - start)
            k += np.uint64(entry >> _RUN_SHIFT)
            g += np.int64(quantized[at])
            h += np.int64(quantized[at + _ONE])
        if k > _CUTS:
            best = better_cut(own, np.int64(k), before, missing_left, best, constraints)
            k, overflow = np.uint64(0), True
    # The last cut is after the list: it separates missing rows if they go right.  Otherwise it is
    # not allowed, because it leaves no row on the right.
    sums = NodeSums(g, h, np.int64(stop) - np.int64(start))
    cut_g[k] = g
    cut_h[k] = h
    cut_n[k] = sums.n
    held = np.int64(k) + 1
    best = better_cut(own, held, before, missing_left, best, constraints)
    return best, np.int64(-1) if overflow else held, sums


@kernel(inner=True)
def search_list(
    own: SearchedList, node: NodeSums, best: ExactSplit, constraints: ConstrainedColumn | None
) -> ExactSplit:
    """Return the better of ``best`` and the best cut of one column, in both default directions."""
    # Ties go to missing values on the right, then to the lower cut.
    right, left = np.int64(0), np.int64(1)
    nothing = NodeSums(right, right, right)
    best, held, present = scan_entries(own, nothing, right, best, constraints)
    if present.n == 0 or present.n == node.n:
        return best
    absent = NodeSums(node.g - present.g, node.h - present.h, node.n - present.n)
    if held >= 0:  # the buffer still holds all cuts
        return better_cut(own, held, absent, left, best, constraints)
    best, held, present = scan_entries(own, absent, left, best, constraints)
    return best


@kernel(inner=True)
def divide_entries(
    source: RowArray, place: tuple[int, int], sides: BinArray, target: RowArray, scratch: RowArray
) -> int:
    """Write the entries of a list with side 0, then those with side 1; return how many have 0."""
    # ``target`` may be ``source``; both parts keep their order.
    start, stop = np.uint64(place[0]), np.uint64(place[1])
    left, right = start, np.uint64(0)
    pending_left, pending_right = np.uint32(0), np.uint32(0)
    for i in range(start, stop):
        entry = source[i]
        prefetch(sides, np.intp(source[i + _AHEAD] & ROW_BITS))
        row = entry & ROW_BITS
        run = entry & _RUN_BIT
        side = np.uint32(sides[np.uint64(row)])
        pending_left |= run
        pending_right |= run
        # Writes never pass the entry being read, so no unread entry is lost.
        target[left] = row | pending_left
        scratch[right] = row | pending_right
        goes_right = np.uint32(0) - side
        pending_left &= goes_right
        pending_right &= ~goes_right
        right += np.uint64(side)
        left += _ONE - np.uint64(side)
    for k in range(right):
        target[left + k] = scratch[k]
    return np.int64(left - start)


@kernel(inner=True)
def thin_runs(
    source: RowArray,
    place: tuple[int, int],
    quantized: np.ndarray,
    eps: float,
    target: RowArray,
    to: int,
) -> None:
    """Copy a list to ``target[to:]``, and keep only the run bits of its candidates."""
    # Candidates are weighted quantiles (Chen and Guestrin 2016, eq. 8 and 9), with the rank
    # ``r(z) = sum of h where x < z / sum of h``.  The first candidate is the smallest value.  The
    # next candidate is always the largest value whose rank is less than ``eps`` above the rank of
    # the one before; where a single value weighs more than ``eps``, it is the value after it.  The
    # last candidate is the largest value.
    one = np.uint64(1)
    start, stop, to = np.uint64(place[0]), np.uint64(place[1]), np.uint64(to)
    total = np.int64(0)
    for i in range(start, stop):
        total += np.int64(quantized[_TWO * np.uint64(source[i] & ROW_BITS) + one])
    step = eps * float(total)
    h, last = np.int64(0), np.int64(0)
    waiting, at_waiting, h_waiting = False, to, np.int64(0)
    for i in range(start, stop):
        entry = source[i]
        row = entry & ROW_BITS
        at = to + (i - start)
        bit = np.uint32(0)
        if entry != row and i != start:
            if waiting and not float(h - last) < step:
                target[at_waiting] |= _RUN_BIT
                last = h_waiting
            waiting = float(h - last) < step
            if waiting:
                at_waiting, h_waiting = at, h
            else:
                bit = _RUN_BIT
                last = h
        target[at] = row | bit
        h += np.int64(quantized[_TWO * np.uint64(row) + one])
    if waiting:
        target[at_waiting] |= _RUN_BIT
