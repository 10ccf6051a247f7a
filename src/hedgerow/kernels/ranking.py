"""Rows in queries: their order by score, and metrics of a list in this order.

Glossary
--------
query    rows that compete with each other
place    number of a row in its query, in the order of the table
rank     position in the order of the scores, from 0
ties     rows of equal scores.  Metrics are means over all orders of ties, so that the order of
         the table has no influence; losses take ties in the order of the table
gain     value of a label, by default 2**label - 1
DCG      sum over ranks of gain / log2(2 + rank)       discounted cumulative gain
NDCG     DCG divided by the largest possible one       Jaervelin and Kekaelaeinen 2002
AP       mean over the relevant rows of the share of relevant rows up to them
RR       1 / (1 + rank of the first relevant row)
ERR      expected reciprocal rank: a reader goes down the list and is satisfied by a
         row with probability gain / 2**largest label    Chapelle et al. 2009
AUC      share of the pairs of rows with different labels that are in the right order;
         equal scores count half.  With labels 0 and 1: area under the curve of the query

A row is relevant if its label is above 0, and its gain, too.  NDCG and AP of a query without
relevant rows are 1; AUC of a query whose rows all have the same label is -1.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from hedgerow import kernel_types as kt
from hedgerow.arrays import FloatArray, IntArray
from hedgerow.compile import kernel
from hedgerow.kernels.concordance import add_at, sum_to

NDCG = 0
AVERAGE_PRECISION = 1
RECIPROCAL_RANK = 2
PRECISION = 3
EXPECTED_RECIPROCAL_RANK = 4
RECALL = 5
AUC = 6
IDEAL_DCG = 7
"""The largest possible DCG."""

_RUN = 16
_NEGLIGIBLE = math.log(1e-18)
"""Logarithm of a chance that changes no sum."""


class QueryRows(NamedTuple):
    """The rows of each query.

    rows     int64 (n_rows,): the rows of a query are neighbours, and ascend
    starts   int64 (n_queries + 1,): start of each query in ``rows``
    numbers  int64 (n_rows,): numbers of ``rows`` in the complete table, the keys of random
             draws; ``rows`` itself where the table is in memory
    """

    rows: kt.Int64_1D
    starts: kt.Int64_1D
    numbers: kt.Int64_1D


class QuerySpace(NamedTuple):
    """Scratch arrays for one query, one set per thread.

    order, spare   int64 (rows of the largest query,)
    numbers        float64 (:data:`N_NUMBERS`, rows of the largest query)
    """

    order: kt.Int64_1D
    spare: kt.Int64_1D
    numbers: kt.Float64_2D


N_NUMBERS = 9
"""Rows of ``QuerySpace.numbers``."""


def make_space(queries: QueryRows) -> QuerySpace:
    """Return scratch arrays for the largest query."""
    longest = int(np.diff(queries.starts).max(initial=1))
    order, spare = np.empty((2, longest), dtype=np.int64)
    return QuerySpace(order, spare, np.empty((N_NUMBERS, longest)))


@kernel(inner=True)
def sort_descending(score: FloatArray, n: int, order: IntArray, spare: IntArray) -> None:
    """Write the places of the ``n`` scores, largest score first; equal scores keep their order."""
    for start in range(0, n, _RUN):
        order[start] = start
        for place in range(start + 1, min(start + _RUN, n)):
            value, to = score[place], place
            while to > start and score[order[to - 1]] < value:
                order[to] = order[to - 1]
                to -= 1
            order[to] = place
    width = _RUN
    while width < n:
        for start in range(0, n - width, 2 * width):
            middle, stop = start + width, min(start + 2 * width, n)
            if score[order[middle - 1]] >= score[order[middle]]:
                continue
            for k in range(start, middle):
                spare[k] = order[k]
            left, right, to = start, middle, start
            while left < middle:
                if right < stop and score[order[right]] > score[spare[left]]:
                    order[to] = order[right]
                    right += 1
                else:
                    order[to] = spare[left]
                    left += 1
                to += 1
        width *= 2


@kernel(inner=True)
def list_by(
    key: FloatArray,
    gain: FloatArray,
    score: FloatArray,
    n: int,
    gains: FloatArray,
    scores: FloatArray,
    space: QuerySpace,
) -> None:
    """Write gain and score of ``n`` rows by descending key; equal keys keep their order."""
    sort_descending(key, n, space.order, space.spare)
    for rank in range(n):
        gains[rank] = gain[space.order[rank]]
        scores[rank] = score[space.order[rank]]


@kernel(inner=True)
def end_of_ties(score: FloatArray, first: int, n: int) -> int:
    """Return the rank behind the last of the ``n`` sorted scores that equal that of ``first``."""
    stop = first + 1
    while stop < n and score[stop] == score[first]:
        stop += 1
    return stop


@kernel(inner=True)
def dcg(gain: FloatArray, score: FloatArray, n: int, top: int) -> float:
    """Return the expected discounted gains of the first ``top`` of ``n`` ranks."""
    total, first = 0.0, 0
    while first < top:
        stop, more = end_of_ties(score, first, n), 0.0
        for rank in range(first + 1, stop):
            more += gain[rank] - gain[first]  # the mean of equal gains is exact
        mean = gain[first] + more / (stop - first)
        for rank in range(first, min(stop, top)):
            total += mean / math.log2(2.0 + rank)
        first = stop
    return total


@kernel(inner=True)
def precision(gain: FloatArray, score: FloatArray, n: int, top: int, kind: int) -> float:
    """Return expected average precision, reciprocal rank, precision or recall of ``top`` ranks."""
    before, hits, total, reciprocal, first = 0, 0.0, 0.0, 0.0, 0
    while first < top:
        stop, relevant = end_of_ties(score, first, n), 0
        for rank in range(first, stop):
            relevant += 1 if gain[rank] > 0.0 else 0
        ties, last, none_yet = stop - first, min(stop, top), 1.0 if before == 0 else 0.0
        for rank in range(first, last if relevant > 0 else first):
            # Of the ties before a relevant one, a share of (relevant - 1) / (ties - 1) is relevant.
            others = (rank - first) * (relevant - 1) / max(ties - 1, 1)
            total += relevant / ties * ((before + 1 + others) / (rank + 1.0))
            left = stop - rank
            reciprocal += none_yet * (relevant / left) / (rank + 1.0)
            none_yet *= (left - relevant) / left
        hits += relevant * (last - first) / ties
        before += relevant
        first = stop
    for rank in range(first, n):
        before += 1 if gain[rank] > 0.0 else 0
    if kind == RECIPROCAL_RANK:
        return reciprocal
    if kind == PRECISION:
        return hits / top
    if kind == RECALL:
        return hits / before if before > 0 else 0.0
    return total / min(before, top) if before > 0 else 1.0


@kernel(inner=True)
def expected_reciprocal_rank(
    gain: FloatArray, score: FloatArray, n: int, top: int, largest: float, left: FloatArray
) -> float:
    """Return the ERR of the first ``top`` ranks; ``largest`` exceeds every gain by 1 or more."""
    total, goes_on, first = 0.0, 1.0, 0
    while first < top:
        stop, mean = end_of_ties(score, first, n), 0.0
        if stop == first + 1 or gain[first] <= 0.0:  # the largest gain of the ties
            total += goes_on * (gain[first] / largest) / (first + 1.0)
            goes_on *= 1.0 - gain[first] / largest
            first = stop
            continue
        for rank in range(first, stop):
            mean += (1.0 - gain[rank] / largest) / (stop - first)
        count = min(stop, top) - first
        if mean < 1.0:
            count = min(count, 1 + np.intp(_NEGLIGIBLE / math.log(mean)) if mean > 0.0 else 1)
        # ``left[j]`` becomes the mean over subsets of j + 1 ties of the chance that the reader goes
        # on behind them, an elementary symmetric mean.  It is at most the power of the mean chance
        # (Maclaurin), so that few of them count unless hardly any row is relevant.
        left[:count] = 0.0
        everyone = 1.0
        for number in range(1, stop - first + 1):
            chance = 1.0 - gain[first + number - 1] / largest
            everyone *= chance
            for j in range(min(number, count), 0, -1):
                fewer = left[j - 2] if j > 1 else 1.0
                left[j - 1] = ((number - j) * left[j - 1] + j * chance * fewer) / number
        before = 1.0
        for j in range(count):
            total += goes_on * (before - left[j]) / (first + j + 1.0)
            before = left[j]
        goes_on *= everyone
        first = stop
    return total


@kernel(inner=True)
def share_of_pairs(gain: FloatArray, score: FloatArray, n: int, space: QuerySpace) -> float:
    """Return the share of pairs with different gains in the right order; -1 if there is none."""
    rank, tree, order = space.numbers[2], space.numbers[3][:n], space.order
    sort_descending(gain, n, order, space.spare)
    level, last = 0, math.nan
    for place in range(n - 1, -1, -1):
        row = order[place]
        level += 1 if gain[row] != last else 0
        last = gain[row]
        rank[row] = level
    sort_descending(score, n, order, space.spare)
    # Rows enter a tree of partial sums from the lowest score on, by the rank of their gain.
    tree[:] = 0.0
    right, total, stop = 0.0, 0.0, n
    while stop > 0:
        first = stop - 1
        while first > 0 and score[order[first - 1]] == score[order[stop - 1]]:
            first -= 1
        # The mean of the counts without and with the rows of this score: ties count half.
        for place in range(first, stop):
            right += 0.5 * sum_to(tree, np.intp(rank[order[place]]) - 1)
        for place in range(first, stop):
            add_at(tree, np.intp(rank[order[place]]), 1.0)
        for place in range(first, stop):
            right += 0.5 * sum_to(tree, np.intp(rank[order[place]]) - 1)
        stop = first
    for place in range(n):
        total += sum_to(tree, np.intp(rank[place]) - 1)
    return right / total if total > 0.0 else -1.0


@kernel
def score_queries(
    kind: int,
    most: int,
    queries: QueryRows,
    gain: kt.Float64_1D,
    raw: kt.ReadOnly[kt.Float64_1D],
    largest: float,
    space: QuerySpace,
    out: kt.Float64_1D,
) -> None:
    """Write the metric ``kind`` of the first ``most`` ranks of each query, the mean over ties."""
    # ``largest``, which only ERR reads, is 2 to the power of the largest label.
    gains, scores = space.numbers[0], space.numbers[1]
    best, of_best = space.numbers[2], space.numbers[3]
    for query in range(len(queries.starts) - 1):
        begin, n = queries.starts[query], queries.starts[query + 1] - queries.starts[query]
        for place in range(n):
            row = queries.rows[begin + place]
            gains[place] = gain[row]
            scores[place] = raw[row]
        if kind == AUC:
            out[query] = share_of_pairs(gains, scores, n, space)
            continue
        top = min(n, most)
        if kind not in (NDCG, IDEAL_DCG, EXPECTED_RECIPROCAL_RANK):
            list_by(scores, gains, scores, n, best, of_best, space)
            out[query] = precision(best, of_best, n, top, kind)
            continue
        # By gain first: sums over ties then have the same bits in any order of the table.
        list_by(gains, gains, scores, n, best, of_best, space)
        ideal = dcg(best, best, n, top)
        if kind == IDEAL_DCG:
            out[query] = ideal
            continue
        list_by(of_best, best, of_best, n, gains, scores, space)
        if kind == NDCG:
            out[query] = dcg(gains, scores, n, top) / ideal if ideal > 0.0 else 1.0
        else:
            out[query] = expected_reciprocal_rank(gains, scores, n, top, largest, best)
