"""Derivatives of ranking losses, query by query, compiled.

A pair is two rows of a query with different labels; *high* has the larger one::

    p = 1 / (1 + exp(sigmoid * (raw of high - raw of low)))
    g of high  -= sigmoid * p * weight          h of both += sigmoid**2 * p (1 - p) * weight
    g of low   += sigmoid * p * weight

The weight of a pair is the change in the score of the list when its rows swap (Burges
2010, "From RankNet to LambdaRank to LambdaMART")::

    ndcg   |difference of gains| * |difference of discounts| / ideal DCG
    map    change of the average precision
    plain  1 for all pairs: the loss is a sum of logistic losses

Pairs consist of each of the first ``most`` ranks and all rows behind it, or of each row and
some random rows with other labels.  The random numbers are a hash of
seed, round and row.

The inner loop is split in two: the first has no sum, so it is vectorised; the second
adds up in the order of the ranks, so the order of the sum never changes.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from hedgerow import kernel_types as kt
from hedgerow.arrays import FloatArray
from hedgerow.compile import kernel
from hedgerow.kernels.primitives.exponential import exponential
from hedgerow.kernels.primitives.hashing import hash64
from hedgerow.kernels.ranking import QueryRows, QuerySpace, sort_descending

OF_NDCG = 0
OF_MAP = 1
PLAIN = 2
CROSS_ENTROPY = 3

PAIR_STREAM = 20 << 40
"""Stream for the partners of rows; the round is added."""
GAIN_STREAM = 21 << 40
"""Stream for the random gains of the cross-entropy; the round is added."""

SMALLEST = 1e-16
"""Least hessian: hessians stay above zero, as for other losses."""

_CLOSE = 0.01
_SCORE, _GAIN, _G, _H, _WEIGHT, _PUSH, _CURVE, _PART, _START = range(9)


class PairRules(NamedTuple):
    """Rules for choosing and weighting pairs.

    kind        OF_NDCG, OF_MAP or PLAIN; CROSS_ENTROPY compares no pairs
    most        ranks whose pairs are used
    drawn       partners drawn for each row; 0: all pairs of the first ranks
    sigmoid     steepness
    normalize   1: pairs with distant scores have less weight, and so do queries with large sums
    seed, round
    """

    kind: int
    most: int
    drawn: int
    sigmoid: float
    normalize: int
    seed: np.uint64
    round: int


class QueryFacts(NamedTuple):
    """Arrays of the queries that do not change between rounds.

    gain       float64 (n_rows,): gain of the label, 1 or 0 for relevance, or the label
    inverse    float64 (n_queries,): factor on the weights of pairs of a query
    discount   float64 (rows of the largest query,): 1 / log2(2 + rank)
    by_label   int64 (n_rows,): positions in the query by descending label
    """

    gain: kt.ReadOnly[kt.Float64_1D]
    inverse: kt.Float64_1D
    discount: kt.Float64_1D
    by_label: kt.Int64_1D


@kernel(inner=True)
def prepare_precision(n: int, numbers: FloatArray) -> None:
    """Write two parts of the change in the sum of precisions when ranks i < j swap."""
    # ``start[i]``: the precision of a relevant row at rank i, less the sum of 1 / (1 + rank) over
    # the relevant rows up to it; ``part[j]``: this sum up to j - 1, less the precision at rank j.
    gain, part, start = numbers[_GAIN], numbers[_PART], numbers[_START]
    count, total = 0.0, 0.0
    for rank in range(n):
        count += gain[rank]
        part[rank] = total - count / (rank + 1.0)
        total += gain[rank] / (rank + 1.0)
        start[rank] = (count + 1.0 - gain[rank]) / (rank + 1.0) - total


@kernel(inner=True)
def top_pairs(
    n: int, query: int, rules: PairRules, facts: QueryFacts, numbers: FloatArray
) -> float:
    """Add up the pairs of the first ranks; return the sum of the contributions."""
    g, h, push, curve = numbers[_G], numbers[_H], numbers[_PUSH], numbers[_CURVE]
    score, gain, weight, part = numbers[_SCORE], numbers[_GAIN], numbers[_WEIGHT], numbers[_PART]
    inverse, sigmoid, discount = facts.inverse[query], rules.sigmoid, facts.discount
    spread = rules.normalize * (score[0] - score[n - 1])
    square, total = sigmoid * sigmoid, 0.0
    for i in range(min(n - 1, rules.most)):
        own_score, own_gain = score[i], gain[i]
        first, last = np.uint64(i + 1), np.uint64(n)
        # The weights of the pairs of rank ``i`` with later ranks; 0 for equal labels.
        if rules.kind == OF_NDCG:
            own_discount = discount[i]
            for j in range(first, last):
                weight[j] = abs(own_gain - gain[j]) * (own_discount - discount[j]) * inverse
        elif rules.kind == OF_MAP:
            start = numbers[_START, i]
            for j in range(first, last):
                weight[j] = abs(own_gain - gain[j]) * (start + part[j]) * inverse
        else:
            for j in range(first, last):
                weight[j] = inverse if own_gain != gain[j] else 0.0
        for j in range(first, last):
            sign = (1.0 if own_gain > gain[j] else 0.0) - (1.0 if own_gain < gain[j] else 0.0)
            gap = own_score - score[j]
            odds = exponential(sigmoid * sign * gap)  # in the right order: (1 - p) / p
            above = 1.0 + odds
            apart = _CLOSE + gap if spread > 0.0 else 1.0
            mass = weight[j] / (above * above * apart)  # a single division
            push[j] = sign * sigmoid * mass * above
            curve[j] = square * mass * odds
        own_g, own_h = 0.0, 0.0
        for j in range(first, last):
            g[j] += push[j]
            h[j] += curve[j]
            own_g += push[j]
            own_h += curve[j]
            total += abs(push[j])
        g[i] -= own_g
        h[i] += own_h
    return 2.0 * total


@kernel(inner=True)
def drawn_pairs(
    n: int, query: int, rules: PairRules, queries: QueryRows, facts: QueryFacts, space: QuerySpace
) -> float:
    """Add up pairs of each row with randomly drawn rows of another gain."""
    numbers, begin, rank = space.numbers, queries.starts[query], space.spare
    score, gain, g, h = numbers[_SCORE], numbers[_GAIN], numbers[_G], numbers[_H]
    for place in range(n):
        rank[space.order[place]] = place
    spread = rules.normalize * (score[0] - score[n - 1])
    inverse, stream = facts.inverse[query], PAIR_STREAM + rules.round
    total, first = 0.0, 0
    while first < n:
        own, last = gain[rank[facts.by_label[begin + first]]], first + 1
        while last < n and gain[rank[facts.by_label[begin + last]]] == own:
            last += 1
        others = n - (last - first)
        for place in range(first, last if others > 0 else first):
            a = rank[facts.by_label[begin + place]]
            row = queries.numbers[begin + facts.by_label[begin + place]]
            for k in range(rules.drawn):
                drawn = hash64(rules.seed, stream, row * rules.drawn + k)
                other = np.int64(drawn % np.uint64(others))
                b = rank[facts.by_label[begin + (other if other < first else other + last - first)]]
                i, j = min(a, b), max(a, b)
                sign, gap = (1.0 if gain[i] > gain[j] else -1.0), score[i] - score[j]
                mass, change = inverse, abs(gain[i] - gain[j])
                if rules.kind == OF_NDCG:
                    mass = change * (facts.discount[i] - facts.discount[j]) * inverse
                elif rules.kind == OF_MAP:
                    mass = change * (numbers[_START, i] + numbers[_PART, j]) * inverse
                if spread > 0.0:
                    mass /= _CLOSE + gap
                p = 1.0 / (1.0 + exponential(rules.sigmoid * sign * gap))
                push, curve = rules.sigmoid * p * mass, rules.sigmoid**2 * p * (1.0 - p) * mass
                g[i] -= sign * push
                g[j] += sign * push
                h[i] += curve
                h[j] += curve
                total += push
        first = last
    return 2.0 * total


@kernel(inner=True)
def target_shares(
    n: int,
    begin: int,
    queries: QueryRows,
    gain: FloatArray,
    seed: int,
    stream: int,
    share: FloatArray,
) -> bool:
    """Write the gains plus random numbers from 0 to 1, over their sum; False if all are equal."""
    total, lowest, highest = 0.0, math.inf, -math.inf
    for place in range(n):
        row = queries.rows[begin + place]
        # The mean of the random numbers, without a stream.
        noise = 0.5
        if stream > 0:
            number = queries.numbers[begin + place]
            noise = float(hash64(seed, stream, number) >> np.uint64(11)) * 2.0**-53
        share[place] = gain[row] + 1.0 - noise
        total += share[place]
        lowest, highest = min(lowest, gain[row]), max(highest, gain[row])
    for place in range(n):
        share[place] /= total
    return highest > lowest


@kernel(inner=True)
def score_shares(
    n: int, begin: int, queries: QueryRows, raw: FloatArray, share: FloatArray
) -> float:
    """Write the softmax of the scores of a query; return the logarithm of the sum of exp."""
    top, total = -math.inf, 0.0
    for place in range(n):
        share[place] = raw[queries.rows[begin + place]]
        top = max(top, share[place])
    for place in range(n):
        share[place] = exponential(share[place] - top)
        total += share[place]
    for place in range(n):
        share[place] /= total
    return top + math.log(total)


@kernel(inner=True)
def cross_entropy_gradients(
    first: int,
    stop: int,
    queries: QueryRows,
    gain: FloatArray,
    rules: PairRules,
    raw: FloatArray,
    g: FloatArray,
    h: FloatArray,
    space: QuerySpace,
) -> None:
    """Write g and h of XE-NDCG (Bruch 2021, as in LightGBM)."""
    # g is the first derivative plus two terms of the product of the gradient with the inverse of
    # the full matrix of second derivatives; h is the diagonal of this matrix.
    share, wanted, part = space.numbers[0], space.numbers[1], space.numbers[2]
    for query in range(first, stop):
        begin, n = queries.starts[query], queries.starts[query + 1] - queries.starts[query]
        stream = GAIN_STREAM + rules.round
        differ = target_shares(n, begin, queries, gain, rules.seed, stream, wanted)
        if not differ:
            for place in range(n):
                g[queries.rows[begin + place]] = 0.0
                h[queries.rows[begin + place]] = SMALLEST
            continue
        score_shares(n, begin, queries, raw, share)
        total = 0.0
        for place in range(n):
            row = queries.rows[begin + place]
            g[row] = share[place] - wanted[place]
            h[row] = max(share[place] * (1.0 - share[place]), SMALLEST)
            part[place] = g[row] / max(1.0 - share[place], 1e-12)
            total += part[place]
        following = 0.0
        for place in range(n):
            term = share[place] * (total - part[place])
            g[queries.rows[begin + place]] += term
            part[place] = term / max(1.0 - share[place], 1e-12)
            following += part[place]
        for place in range(n):
            g[queries.rows[begin + place]] += share[place] * (following - part[place])


@kernel
def query_gradients(
    first: int, stop: int, queries: QueryRows, facts: QueryFacts, rules: PairRules,
    raw: kt.Float64_1D, g: kt.Float64_1D, h: kt.Float64_1D, space: QuerySpace,
) -> None:  # fmt: skip
    """Write g and h of the rows of queries ``first`` to ``stop``."""
    numbers, order = space.numbers, space.order
    score, gain = numbers[_SCORE], numbers[_GAIN]
    if rules.kind == CROSS_ENTROPY:
        cross_entropy_gradients(first, stop, queries, facts.gain, rules, raw, g, h, space)
        return
    for query in range(first, stop):
        begin, n = queries.starts[query], queries.starts[query + 1] - queries.starts[query]
        factor = 0.0
        if n > 1 and facts.inverse[query] > 0.0:
            for place in range(n):
                numbers[_PART, place] = raw[queries.rows[begin + place]]
            sort_descending(numbers[_PART], n, order, space.spare)
            for rank in range(n):
                score[rank] = numbers[_PART, order[rank]]
                gain[rank] = facts.gain[queries.rows[begin + order[rank]]]
                numbers[_G, rank] = 0.0
                numbers[_H, rank] = 0.0
            if rules.kind == OF_MAP:
                prepare_precision(n, numbers)
            if rules.drawn > 0:
                total = drawn_pairs(n, query, rules, queries, facts, space)
            else:
                total = top_pairs(n, query, rules, facts, numbers)
            factor = 1.0
            if rules.normalize == 1 and total > 0.0:
                factor = math.log2(1.0 + total) / total
        for rank in range(n):
            row = queries.rows[begin + rank] if factor == 0.0 else queries.rows[begin + order[rank]]
            g[row] = factor * numbers[_G, rank] if factor > 0.0 else 0.0
            h[row] = max(factor * numbers[_H, rank], SMALLEST) if factor > 0.0 else SMALLEST


@kernel
def query_losses(
    first: int, stop: int, queries: QueryRows, facts: QueryFacts, rules: PairRules,
    raw: kt.Float64_1D, space: QuerySpace, out: kt.Float64_1D,
) -> None:  # fmt: skip
    """Write the losses of queries ``first`` to ``stop``, of pairs or of shares."""
    # Of pairs: the sum of their logistic losses, times the factor of the query.  Of shares: the
    # cross-entropy with the mean gains; 0 if all labels are equal.
    score, gain = space.numbers[_SCORE], space.numbers[_GAIN]
    for query in range(first, stop):
        begin, n = queries.starts[query], queries.starts[query + 1] - queries.starts[query]
        total = 0.0
        if rules.kind == CROSS_ENTROPY:
            if target_shares(n, begin, queries, facts.gain, 0, 0, gain):
                log_sum = score_shares(n, begin, queries, raw, score)
                for place in range(n):
                    total += gain[place] * (log_sum - raw[queries.rows[begin + place]])
            out[query] = total
            continue
        for place in range(n):
            score[place] = raw[queries.rows[begin + place]]
            gain[place] = facts.gain[queries.rows[begin + place]]
        for i in range(n):
            for j in range(i + 1, n):
                if gain[i] != gain[j]:
                    margin = rules.sigmoid * (score[i] - score[j])
                    margin = margin if gain[i] > gain[j] else -margin
                    total += max(-margin, 0.0) + math.log1p(exponential(-abs(margin)))
        out[query] = total * facts.inverse[query]
