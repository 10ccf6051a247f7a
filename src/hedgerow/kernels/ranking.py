"""Rows in queries: their order by score, and metrics of a list in this order.

Glossary
--------
query    rows that compete with each other
place    number of a row in its query, in the order of the table
rank     position in the order of the scores, from 0; equal scores keep the order of
         the table, so that rankings are deterministic
gain     value of a label, by default 2**label - 1
DCG      sum over ranks of gain / log2(2 + rank)       discounted cumulative gain
NDCG     DCG divided by the largest possible one       Jaervelin and Kekaelaeinen 2002
AP       mean over the relevant rows of the share of relevant rows up to them
RR       1 / (1 + rank of the first relevant row)
ERR      expected reciprocal rank: a reader goes down the list and is satisfied by a
         row with probability gain / 2**largest label    Chapelle et al. 2009
AUC      share of the pairs of rows with different labels that are in the right order;
         equal scores count half.  With labels 0 and 1: area under the curve of the query

A row is relevant if its label is above 0.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

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

_RUN = 16


class QueryRows(NamedTuple):
    """The rows of each query.

    rows     int64 (n_rows,): the rows of a query are neighbours, and ascend
    starts   int64 (n_queries + 1,): start of each query in ``rows``
    numbers  int64 (n_rows,): numbers of ``rows`` in the complete table, the keys of random
             draws; ``rows`` itself where the table is in memory
    """

    rows: IntArray
    starts: IntArray
    numbers: IntArray


class QuerySpace(NamedTuple):
    """Scratch arrays for one query, one set per thread.

    order, spare   int64 (rows of the largest query,)
    numbers        float64 (:data:`N_NUMBERS`, rows of the largest query)
    """

    order: IntArray
    spare: IntArray
    numbers: FloatArray


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
def dcg(gain: FloatArray, order: IntArray, top: int) -> float:
    """Return the sum of the discounted gains of the first ``top`` places of ``order``."""
    total = 0.0
    for rank in range(top):
        total += gain[order[rank]] / math.log2(2.0 + rank)
    return total


@kernel(inner=True)
def precision(gain: FloatArray, order: IntArray, top: int, n: int, kind: int) -> float:
    """Return average precision, reciprocal rank, precision or recall of the first ``top`` rows."""
    hits, total, first, relevant = 0, 0.0, 0.0, 0
    for rank in range(top):
        if gain[order[rank]] > 0.0:
            hits += 1
            total += hits / (rank + 1.0)
            if hits == 1:
                first = 1.0 / (rank + 1.0)
    if kind == RECIPROCAL_RANK:
        return first
    if kind == PRECISION:
        return hits / float(top)
    for place in range(n):
        relevant += 1 if gain[place] > 0.0 else 0
    if kind == RECALL:
        return hits / float(relevant) if relevant > 0 else 0.0
    return total / min(relevant, top) if relevant > 0 else 1.0


@kernel(inner=True)
def expected_reciprocal_rank(gain: FloatArray, order: IntArray, top: int, largest: float) -> float:
    """Return the ERR of the first ``top`` places; ``largest`` exceeds every gain by 1 or more."""
    total, goes_on = 0.0, 1.0
    for rank in range(top):
        chance = gain[order[rank]] / largest
        total += goes_on * chance / (rank + 1.0)
        goes_on *= 1.0 - chance
    return total


@kernel(inner=True)
def share_of_pairs(gain: FloatArray, score: FloatArray, n: int, space: QuerySpace) -> float:
    """Return the share of pairs with different gains in the right order; -1 if there is none.

    Rows enter a tree of partial sums from the lowest score on, by the rank of their gain.
    """
    rank, tree, order = space.numbers[2], space.numbers[3][:n], space.order
    sort_descending(gain, n, order, space.spare)
    level, last = 0, math.nan
    for place in range(n - 1, -1, -1):
        row = order[place]
        level += 1 if gain[row] != last else 0
        last = gain[row]
        rank[row] = level
    sort_descending(score, n, order, space.spare)
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
def ideal_dcg(
    queries: QueryRows, gain: FloatArray, most: int, space: QuerySpace, out: FloatArray
) -> None:
    """Write the largest possible DCG of the first ``most`` ranks of each query."""
    gains = space.numbers[0]
    for query in range(len(queries.starts) - 1):
        begin, n = queries.starts[query], queries.starts[query + 1] - queries.starts[query]
        for place in range(n):
            gains[place] = gain[queries.rows[begin + place]]
        sort_descending(gains, n, space.order, space.spare)
        out[query] = dcg(gains, space.order, min(n, most))


@kernel
def score_queries(
    kind: int,
    most: int,
    queries: QueryRows,
    gain: FloatArray,
    raw: FloatArray,
    largest: float,
    space: QuerySpace,
    out: FloatArray,
) -> None:
    """Write the metric of the list of each query.

    Parameters
    ----------
    kind : int
        NDCG, AVERAGE_PRECISION, ...
    most : int
        Number of ranks that count.
    queries : QueryRows
    gain, raw : float64 (n_rows,)
        Gain, above 0 for relevant rows, and raw score of each row.
    largest : float
        For the expected reciprocal rank: 2 to the power of the largest label.
    space : QuerySpace
    out : float64 (n_queries,)
        NDCG and average precision of a query without relevant rows are 1.  AUC of a
        query whose rows all have the same label is -1.
    """
    gains, scores = space.numbers[0], space.numbers[1]
    order = space.order
    for query in range(len(queries.starts) - 1):
        begin, n = queries.starts[query], queries.starts[query + 1] - queries.starts[query]
        for place in range(n):
            row = queries.rows[begin + place]
            gains[place] = gain[row]
            scores[place] = raw[row]
        sort_descending(scores, n, order, space.spare)
        top = min(n, most)
        if kind == NDCG:
            found = dcg(gains, order, top)
            sort_descending(gains, n, order, space.spare)
            ideal = dcg(gains, order, top)
            out[query] = found / ideal if ideal > 0.0 else 1.0
        elif kind == AUC:
            out[query] = share_of_pairs(gains, scores, n, space)
        elif kind == EXPECTED_RECIPROCAL_RANK:
            out[query] = expected_reciprocal_rank(gains, order, top, largest)
        else:
            out[query] = precision(gains, order, top, n, kind)
