"""Ranking losses: the rows of a query are ordered, the most relevant first.

name           objective                                                source
-------------  -------------------------------------------------------  --------------
lambdarank     NDCG of the first ``truncation_level`` ranks, by pairs   Burges 2010,
               weighted by the change when they swap                    LightGBM
rank_map       mean average precision, by pairs in the same way         XGBoost
rank_pairwise  logistic losses of pairs, all with equal weight          Burges 2005
rank_xendcg    cross-entropy between the softmax of the scores and the  Bruch 2021,
               gains, a bound on NDCG                                   LightGBM

Pairs (``pair_method``)::

    topk   each of the first ``truncation_level`` ranks with all rows behind it
        mean   each row with ``pairs_per_row`` rows of other labels, drawn in each round

Rows with equal scores keep the order of the table.  One thread computes a query,
so the result does not depend on the number of threads.  A query
whose labels are all equal has zero derivatives.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, Self, TypeAlias, get_args

import numpy as np

from hedgerow.argument_types import is_one_of
from hedgerow.arrays import FloatArray, IntArray
from hedgerow.errors import ParameterError, brief
from hedgerow.kernels.primitives.exact_sum import weighted_mean
from hedgerow.kernels.ranking import IDEAL_DCG, QueryRows, QuerySpace, make_space, score_queries
from hedgerow.metrics import queries as q
from hedgerow.metrics.ranking import RankingMetric
from hedgerow.objectives.base import LossRows, OrderLoss
from hedgerow.objectives.line_search import limit_without_penalty
from hedgerow.objectives.ranking import lambdas
from hedgerow.objectives.ranking.complete import CompleteQueries
from hedgerow.params import Interval
from hedgerow.threads import run_blocks

PairMethod = Literal["topk", "mean"]

TRUNCATION_LEVEL = 30
"""Default of ``lambdarank`` and ``rank_map``, as in LightGBM."""

_ALL = 2**62
_COUNT = Interval(1, 2**31 - 1, integer=True)
_POSITIVE = Interval(0.0, 1e6, low_open=True)


_LEAST_WORK = 50_000
"""Fewest pairs per thread: waking a thread takes some microseconds."""

FillQueries: TypeAlias = Callable[[int, int, QuerySpace], None]
"""``fill(first, stop, space)`` computes the rows of some queries."""


@dataclass(frozen=True, slots=True)
class RankingLoss(OrderLoss):
    """Base class of the ranking losses."""

    scored_as: ClassVar[str] = "ranking"

    n_outputs: int = 1
    label_gain: tuple[float, ...] | None = None  # not decreasing; None: ``2**label - 1``
    # None: all rows are one query
    queries: QueryRows | None = field(default=None, repr=False, compare=False)
    seed: int = field(default=0, repr=False, compare=False)
    n_threads: int = field(default=1, repr=False, compare=False)
    facts: lambdas.QueryFacts | None = field(default=None, repr=False, compare=False)
    # the rows of the queries, if those of the fit are divided between ranks
    complete: CompleteQueries | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.label_gain is not None:
            object.__setattr__(self, "label_gain", q.checked_gains(self.label_gain))

    def of_queries(self, queries: QueryRows, seed: int = 0, n_threads: int = 1) -> Self:
        """Return the objective for rows of these queries."""
        return replace(
            self, queries=queries, seed=seed, n_threads=n_threads, facts=None, complete=None
        )

    def on_ranks(self, complete: CompleteQueries, seed: int, n_threads: int) -> Self:
        """Return the objective for the rows of one rank."""
        return replace(self.of_queries(complete.queries, seed, n_threads), complete=complete)

    def bound_to(self, target: FloatArray, weight: FloatArray | None) -> Self:
        """Return the objective with the arrays that it computes once for these targets."""
        queries = self._queries_of(target)
        held = target if self.complete is None else self.complete.target
        facts = self._facts(held, queries) if len(held) > 0 else None
        return replace(self, queries=queries, facts=facts)

    def _queries_of(self, target: FloatArray) -> QueryRows:
        return q.query_rows(None, len(target)) if self.queries is None else self.queries

    def check_target(
        self, target: FloatArray, first_row: int = 0, origin: FloatArray | None = None
    ) -> None:
        n_gains = None if self.label_gain is None else len(self.label_gain)
        q.check_labels(target, f"objective {self.name!r}", n_gains, first_row)

    def predict(self, raw: FloatArray) -> FloatArray:
        """Return the raw scores, which have no unit, only an order."""
        return raw[0]

    def derivatives(self, rows: LossRows, output: int, g: FloatArray, h: FloatArray) -> None:
        complete = self.complete
        if complete is None:
            self._derivatives(rows, g, h)
            return
        raw = complete.scores(rows.raw[0])[None]
        if raw.size > 0:
            of_g, of_h = np.empty((2, raw.size))
            held = LossRows(complete.target, raw, complete.weight, rows.round)
            self._derivatives(held, of_g, of_h)
            g[:], h[:] = of_g[complete.own], of_h[complete.own]

    def _derivatives(self, rows: LossRows, g: FloatArray, h: FloatArray) -> None:
        """Write the derivatives of the rows of complete queries."""
        bound = self.bound_to(rows.target, rows.weight) if self.facts is None else self
        queries, facts = bound.queries, bound.facts
        assert queries is not None
        assert facts is not None
        raw = np.ascontiguousarray(rows.raw[0])
        rules = self._rules._replace(round=rows.round)

        def fill(first: int, stop: int, space: QuerySpace) -> None:
            lambdas.query_gradients(first, stop, queries, facts, rules, raw, g, h, space)

        in_blocks(queries, self._work(queries), fill, self.n_threads)

    @abstractmethod
    def loss(self, target: FloatArray, raw: FloatArray, weight: FloatArray | None) -> float:
        """Return the mean over the queries."""

    def shared_losses(
        self, target: FloatArray, raw: FloatArray, query: IntArray | None
    ) -> FloatArray:
        """Return the loss of each row's query; ``query`` holds the number of each row's query."""
        queries = q.query_rows(query, len(target))
        by_query = self._by_query(target, raw[0], queries)
        return np.asarray(np.repeat(by_query, np.diff(queries.starts))[np.argsort(queries.rows)])

    @abstractmethod
    def _by_query(self, target: FloatArray, score: FloatArray, queries: QueryRows) -> FloatArray:
        """Return the loss of each query."""

    @abstractmethod
    def _facts(self, target: FloatArray, queries: QueryRows) -> lambdas.QueryFacts:
        """Return the arrays that are computed once for these targets."""

    @property
    @abstractmethod
    def _rules(self) -> lambdas.PairRules:
        """What the kernels do with a query."""

    def _work(self, queries: QueryRows) -> IntArray:
        """Return the amount of work of each query."""
        return np.diff(queries.starts)

    def _losses(
        self, facts: lambdas.QueryFacts, score: FloatArray, queries: QueryRows, work: IntArray
    ) -> FloatArray:
        """Return the loss of each query, as the kernels compute it."""
        out, rules = np.empty(len(queries.starts) - 1), self._rules
        score = np.ascontiguousarray(score)

        def fill(first: int, stop: int, space: QuerySpace) -> None:
            lambdas.query_losses(first, stop, queries, facts, rules, score, space, out)

        in_blocks(queries, work, fill, self.n_threads)
        return out


@dataclass(frozen=True, slots=True)
class PairLoss(RankingLoss):
    """Losses that compare rows in pairs."""

    kind: ClassVar[int]
    default_level: ClassVar[int] = TRUNCATION_LEVEL

    # for "topk": ranks whose pairs are used; None means 30, and all ranks for ``rank_pairwise``
    truncation_level: int | None = None
    pair_method: PairMethod | None = None  # None is "topk"
    pairs_per_row: int | None = None  # for "mean"; None is 1
    sigmoid: float | None = None  # steepness of the logistic function; None is 1

    def __post_init__(self) -> None:
        RankingLoss.__post_init__(self)
        for name, allowed in (
            ("truncation_level", _COUNT),
            ("pairs_per_row", _COUNT),
            ("sigmoid", _POSITIVE),
        ):
            value = getattr(self, name)
            if value is not None and value not in allowed:
                raise ParameterError(f"{name} must be {allowed}, or None; got {brief(value)}.")
        if self.pair_method is not None and not is_one_of(self.pair_method, get_args(PairMethod)):
            raise ParameterError(
                f"pair_method must be 'topk', 'mean' or None; got {brief(self.pair_method)}."
            )
        unused = "truncation_level" if self._draws else "pairs_per_row"
        if getattr(self, unused) is not None:
            other = "topk" if self._draws else "mean"
            raise ParameterError(
                f"{unused}={brief(getattr(self, unused))} has no effect here: it is used with "
                f"pair_method={other!r}. Leave it at None."
            )

    def step_limit(self, reg_lambda: float, rate: float) -> float:
        return limit_without_penalty(reg_lambda, rate) / (self.sigmoid or 1.0)

    @property
    def _draws(self) -> bool:
        return self.pair_method == "mean"

    @property
    def most(self) -> int:
        """Number of ranks whose pairs are used."""
        return _ALL if self._draws else self.truncation_level or self.default_level

    @property
    def _rules(self) -> lambdas.PairRules:
        return lambdas.PairRules(
            kind=self.kind,
            most=self.most,
            drawn=(self.pairs_per_row or 1) if self._draws else 0,
            sigmoid=float(self.sigmoid or 1.0),
            normalize=int(getattr(self, "normalize_pairs", False) is not False),
            seed=np.uint64(self.seed),
            round=0,
        )

    def _work(self, queries: QueryRows) -> IntArray:
        n = np.diff(queries.starts)
        behind = (self.pairs_per_row or 1) if self._draws else np.minimum(n, self.most)
        return np.asarray(n * (behind + 4))

    def _facts(self, target: FloatArray, queries: QueryRows) -> lambdas.QueryFacts:
        gain, n = self._gain(target), np.diff(queries.starts)
        longest = int(n.max(initial=1))
        by_label = np.zeros(0, dtype=np.int64)
        inverse = self._inverse(gain, queries)
        if self._draws:
            number = np.repeat(np.arange(len(n)), n)
            order = np.lexsort((-gain[queries.rows], number))
            by_label = order - queries.starts[:-1][number]
            inverse = inverse / (self.pairs_per_row or 1)
        discount = 1.0 / np.log2(2.0 + np.arange(longest))
        return lambdas.QueryFacts(gain, inverse, discount, by_label)

    @abstractmethod
    def _gain(self, target: FloatArray) -> FloatArray:
        """Return the gain of each row; rows with equal gains form no pair."""

    @abstractmethod
    def _inverse(self, gain: FloatArray, queries: QueryRows) -> FloatArray:
        """Return the factor on the weights of the pairs of each query; 0 leaves the query out."""


@dataclass(frozen=True, slots=True)
class LambdaRank(PairLoss):
    """NDCG; the loss is 1 minus the NDCG of the ranks that are used."""

    name: ClassVar[str] = "lambdarank"
    kind: ClassVar[int] = lambdas.OF_NDCG
    # divide the weight of a pair by the distance of its scores (plus 0.01), and scale down queries
    # with large sums, as LightGBM does; None means True
    normalize_pairs: bool | None = None

    def __post_init__(self) -> None:
        PairLoss.__post_init__(self)
        if not isinstance(self.normalize_pairs, bool | None):
            raise ParameterError(
                f"normalize_pairs must be True, False or None; got {brief(self.normalize_pairs)}."
            )

    def loss(self, target: FloatArray, raw: FloatArray, weight: FloatArray | None) -> float:
        return 1.0 - self._metric(target, raw[0], weight)

    @property
    def _metric(self) -> RankingMetric:
        most = None if self.most == _ALL else self.most
        return RankingMetric("ndcg", most, self.label_gain, self.queries)

    def _by_query(self, target: FloatArray, score: FloatArray, queries: QueryRows) -> FloatArray:
        return 1.0 - self._metric.by_query(target, score, queries)

    def _gain(self, target: FloatArray) -> FloatArray:
        return q.gains_of(target, self.label_gain)

    def _inverse(self, gain: FloatArray, queries: QueryRows) -> FloatArray:
        ideal = np.empty(len(queries.starts) - 1)
        space = make_space(queries)
        score_queries(IDEAL_DCG, self.most, queries, gain, gain, 0.0, space, ideal)
        return np.divide(1.0, ideal, out=np.zeros(len(ideal)), where=ideal > 0.0)


@dataclass(frozen=True, slots=True)
class RankMap(LambdaRank):
    """Mean average precision of relevant rows (label above 0); the loss is 1 - MAP."""

    name: ClassVar[str] = "rank_map"
    kind: ClassVar[int] = lambdas.OF_MAP

    @property
    def _metric(self) -> RankingMetric:
        return RankingMetric("map", None, None, self.queries)

    def _gain(self, target: FloatArray) -> FloatArray:
        return (target > 0.0).astype(np.float64)

    def _inverse(self, gain: FloatArray, queries: QueryRows) -> FloatArray:
        relevant = np.add.reduceat(gain[queries.rows], queries.starts[:-1])
        return np.divide(1.0, relevant, out=np.zeros(len(relevant)), where=relevant > 0.0)


@dataclass(frozen=True, slots=True)
class RankPairwise(PairLoss):
    """Mean logistic loss of the pairs of a query, times its number of rows.

    The loss uses all pairs, whichever pairs the trees use, divided by the rows
    of the queries that have pairs.
    """

    name: ClassVar[str] = "rank_pairwise"
    kind: ClassVar[int] = lambdas.PLAIN
    default_level: ClassVar[int] = _ALL

    def loss(self, target: FloatArray, raw: FloatArray, weight: FloatArray | None) -> float:
        queries = self._queries_of(target)
        found = self._by_query(target, raw[0], queries)
        some = row_share(self._gain(target), queries) > 0.0
        if not some.any():
            return 0.0
        n_rows, weights = np.diff(queries.starts), q.query_weights(queries, weight)
        mass = n_rows.astype(np.float64) if weights is None else n_rows * weights
        return weighted_mean(found[some], mass[some])

    def _by_query(self, target: FloatArray, score: FloatArray, queries: QueryRows) -> FloatArray:
        found = lambdas.QueryFacts(
            target, row_share(target, queries), np.zeros(1), np.zeros(0, np.int64)
        )
        n_rows = np.diff(queries.starts)
        return self._losses(found, score, queries, n_rows * n_rows) / n_rows

    def _gain(self, target: FloatArray) -> FloatArray:
        return target

    def _inverse(self, gain: FloatArray, queries: QueryRows) -> FloatArray:
        share = row_share(gain, queries)
        return (share > 0.0).astype(np.float64) if self._draws else share


@dataclass(frozen=True, slots=True)
class RankCrossEntropy(RankingLoss):
    """Cross-entropy between the softmax of the scores and the shares of the gains.

    In training the gain of a row is ``2**label`` minus a random number from 0 to 1, drawn
    in each round; the loss uses the mean 1/2 instead.
    """

    name: ClassVar[str] = "rank_xendcg"

    def loss(self, target: FloatArray, raw: FloatArray, weight: FloatArray | None) -> float:
        queries = self._queries_of(target)
        found = self._by_query(target, raw[0], queries)
        return weighted_mean(found, q.query_weights(queries, weight))

    def _by_query(self, target: FloatArray, score: FloatArray, queries: QueryRows) -> FloatArray:
        return self._losses(self._facts(target, queries), score, queries, np.diff(queries.starts))

    def _facts(self, target: FloatArray, queries: QueryRows) -> lambdas.QueryFacts:
        nothing = np.zeros(0)
        gain = q.gains_of(target, self.label_gain)
        return lambdas.QueryFacts(gain, nothing, nothing, np.zeros(0, dtype=np.int64))

    @property
    def _rules(self) -> lambdas.PairRules:
        return lambdas.PairRules(
            lambdas.CROSS_ENTROPY, 0, 0, 1.0, 0, seed=np.uint64(self.seed), round=0
        )

    def _work(self, queries: QueryRows) -> IntArray:
        return np.asarray(8 * np.diff(queries.starts))


def in_blocks(queries: QueryRows, work: IntArray, fill: FillQueries, n_threads: int) -> None:
    """Call ``fill`` on consecutive queries, divided over threads by their ``work``."""
    so_far = np.cumsum(work)
    n_blocks = int(max(1, min(n_threads, so_far[-1] // _LEAST_WORK)))
    goals = so_far[-1] * np.arange(1, n_blocks) // n_blocks
    edges = np.concatenate([[0], np.searchsorted(so_far, goals), [len(work)]]).tolist()

    def task(start: int, stop: int) -> None:
        for block in range(start, stop):
            fill(edges[block], edges[block + 1], make_space(queries))

    run_blocks(task, n_blocks, n_threads, 1)


def row_share(gain: FloatArray, queries: QueryRows) -> FloatArray:
    """Return the rows of each query divided by its pairs; 0 without pairs."""
    n = np.diff(queries.starts)
    number = np.repeat(np.arange(len(n)), n)
    order = np.lexsort((gain[queries.rows], number))
    ordered, of = gain[queries.rows][order], number[order]
    starts = np.flatnonzero(np.r_[True, (ordered[1:] != ordered[:-1]) | (of[1:] != of[:-1])])
    counts = np.diff(np.r_[starts, len(ordered)])
    equal = np.bincount(of[starts], weights=counts.astype(np.float64) ** 2, minlength=len(n))
    pairs = 0.5 * (n.astype(np.float64) ** 2 - equal)
    return np.divide(n, pairs, out=np.zeros(len(n)), where=pairs > 0.0)
