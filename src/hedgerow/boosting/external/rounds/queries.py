"""Rankings on rows in chunks and on ranks: complete queries, wherever their rows are.

Groups of rows are held out completely, too.

Rows stay on their ranks, and keep their numbers among all rows.  A rank computes
the derivatives of each query of which it has a row.  Once for each tree, it receives the
scores of the other ranks' rows of these queries::

    rank 0   q0 q0 q0 q1 q1 q2        computes q0, q1, q2;  q2 with a row of rank 1
    rank 1   q2 q3 q3 q4 q4 q4        computes q2, q3, q4;  q2 with a row of rank 0

So ranks send little if rows of a query are adjacent, and nothing if no query is
divided.  With positions, whose biases come from the derivatives of all rows, every rank computes
all queries.  The rows of a query are in the order of the complete table, and random draws are
seeded by row numbers of that table: derivatives have the same bits as with all rows in memory,
on every rank.

Glossary
--------
own      rows of this rank
divided  rows of queries that have rows on several ranks
others'  divided rows of other ranks, of queries that have rows on this rank
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import AnyArray, FloatArray, IntArray, distinct
from hedgerow.boosting.external.external_sample import Choose, ExternalSample
from hedgerow.boosting.loop.sample import Positions, Sample
from hedgerow.boosting.row_data.groups import GroupKeys, rows_of_groups_aside
from hedgerow.boosting.row_data.queries import read_qid, rows_of_queries, without_queries
from hedgerow.boosting.row_data.statistics import repeated_queries
from hedgerow.boosting.validation.hold_out import queries_aside
from hedgerow.comm.base import Communicator, count_rows, gather_numbers
from hedgerow.data.external.row_store import TARGETS_ONLY, Chunk
from hedgerow.errors import DataTypeError
from hedgerow.kernels.ranking import QueryRows
from hedgerow.metrics import Metric, metrics_of_queries
from hedgerow.metrics.queries import first_seen, query_rows
from hedgerow.objectives import Objective
from hedgerow.objectives.precomputed import LossRows
from hedgerow.objectives.ranking.losses import RankingLoss


@dataclass(frozen=True, slots=True, eq=False)
class _Known:
    """Rows of a ranking.

    Attributes
    ----------
    number : int64 (n_rows,)
        Number of each row in the complete table.
    query : int64 (n_rows,)
    target, weight : float64 (n_rows,)
    """

    number: IntArray
    query: IntArray
    target: FloatArray
    weight: FloatArray

    def take(self, rows: IntArray) -> _Known:
        """Return some of the rows."""
        return _Known(self.number[rows], self.query[rows], self.target[rows], self.weight[rows])

    def gathered(self, others: Communicator) -> _Known:
        """Return the rows of all ranks."""
        parts = (self.number, self.query, self.target.view(np.int64), self.weight.view(np.int64))
        everyone = gather_numbers(np.stack(parts).T, others).reshape(-1, len(parts))
        number, query, target, weight = np.ascontiguousarray(everyone.T)
        return _Known(number, query, target.view(np.float64), weight.view(np.float64))

    def followed_by(self, more: _Known) -> _Known:
        """Return these rows, then more."""
        return _Known(
            np.concatenate([self.number, more.number]),
            np.concatenate([self.query, more.query]),
            np.concatenate([self.target, more.target]),
            np.concatenate([self.weight, more.weight]),
        )


def _known_of(sample: ExternalSample) -> _Known:
    """Return the rows of this rank; without weights all are 1."""
    assert sample.query is not None
    targets, weights = [np.zeros(0)], [np.zeros(0)]
    for chunk in sample.store.chunks(uses=TARGETS_ONLY):
        targets.append(chunk.target.copy())
        weights.append(np.ones(chunk.n_rows) if chunk.weight is None else chunk.weight.copy())
    number = sample.store.first_row + np.arange(sample.n_rows, dtype=np.int64)
    return _Known(number, sample.query, np.concatenate(targets), np.concatenate(weights))


class CompleteQueries:
    """Derivatives of a ranking loss: :class:`hedgerow.growing.chunks.gradients.CrossRowGradients`.

    Parameters
    ----------
    train : ExternalSample
        Training rows with queries.
    objective : RankingLoss
    others : Communicator
        The ranks with the other rows.
    seed, n_threads : int
    """

    def __init__(
        self,
        train: ExternalSample,
        objective: RankingLoss,
        others: Communicator,
        seed: int,
        n_threads: int,
    ) -> None:
        assert train.query is not None
        self._others, self._first_row = others, train.store.first_row
        self._n_own, self._start = train.n_rows, 0
        # The biases of positions are learned from the derivatives of all rows.
        gather = self._with_divided if objective.positions is None else self._with_all
        rows = gather(_known_of(train))
        self._target = rows.target
        self._weight = None if objective.positions is None else rows.weight
        self._raw = np.zeros((1, len(rows.target)))
        self._derivatives = np.zeros((2, len(rows.target)))
        self._loss: RankingLoss | None = None
        if len(rows.target) > 0:
            queries = _rows_by_query(rows.query, rows.number)
            bound = objective.of_queries(queries, seed, n_threads)
            self._loss = bound.bound_to(rows.target, None)

    def _with_all(self, own: _Known) -> _Known:
        """Return the rows of all ranks in their order."""
        self._sent: IntArray = np.arange(self._n_own)
        self._exchanges = self._others.size > 1
        if not self._exchanges:
            return own
        self._start, self._received = self._first_row, slice(0, None)
        rows = own.gathered(self._others)
        self._taken: IntArray = np.arange(len(rows.target))
        return rows

    def _with_divided(self, own: _Known) -> _Known:
        """Return the rows of this rank, then others' rows of its queries."""
        divided = _divided(distinct(own.query), self._others)
        self._sent = np.flatnonzero(np.isin(own.query, divided))
        self._exchanges = len(divided) > 0
        if not self._exchanges:
            return own
        self._received = slice(self._n_own, None)
        everyone = own.take(self._sent).gathered(self._others)
        number, stop = everyone.number, self._first_row + self._n_own
        is_own = (number >= self._first_row) & (number < stop)
        self._taken = np.flatnonzero(~is_own & np.isin(everyone.query, own.query))
        return own.followed_by(everyone.take(self._taken))

    def collect(self, chunk: Chunk) -> None:
        """Record the raw scores of a chunk."""
        self._raw[0, self._places(chunk)] = chunk.work.raw[0]

    def fill(self, output: int, round_: int) -> None:
        """Compute g and h of all rows at the recorded scores."""
        if self._exchanges:
            own = self._raw[0, self._start + self._sent].view(np.int64)
            everyone = gather_numbers(own, self._others).view(np.float64)
            self._raw[0, self._received] = everyone[self._taken]
        if self._loss is not None:
            rows = LossRows(self._target, self._raw, self._weight, round_)
            self._loss.derivatives(rows, 0, self._derivatives[0], self._derivatives[1])

    def of_chunk(self, chunk: Chunk, output: int) -> FloatArray:
        """Return g and h of the rows of a chunk, float64 (2, n_rows)."""
        return np.ascontiguousarray(self._derivatives[:, self._places(chunk)])

    def _places(self, chunk: Chunk) -> slice:
        start = self._start + chunk.first_row - self._first_row
        return slice(start, start + chunk.n_rows)


@dataclass(frozen=True, slots=True, eq=False)
class DividedQueries:
    """The queries of all rows of this rank, and those that are held out for early stopping.

    Attributes
    ----------
    query : int64 (n_rows,)
        Query of each row of this rank with positive weight.
    set_aside : callable or None
        Chooses held-out rows; None if there are none.
    aside : bool (n_rows,), or None
        Whether each row is held out.
    position : Positions or None
        Position at which each row was shown.
    """

    query: IntArray
    set_aside: Choose | None = None
    aside: npt.NDArray[np.bool_] | None = None
    position: Positions | None = None

    @staticmethod
    def of(
        query: IntArray,
        fraction: float | None,
        seed: int,
        others: Communicator,
        position: Positions | None = None,
    ) -> DividedQueries:
        """Hold out a fraction of the queries for early stopping; none if it is None."""
        if fraction is None:
            return DividedQueries(query, position=position)
        aside = queries_aside(query, fraction, seed, others)
        chosen, before = aside, count_rows(len(query), others)[0]

        def choose(first_row: int, target: FloatArray) -> npt.NDArray[np.bool_]:
            return chosen[first_row - before : first_row - before + len(target)]

        return DividedQueries(query, choose, aside, position)

    def added_to(
        self, train: ExternalSample, validation: ExternalSample | None
    ) -> tuple[ExternalSample, ExternalSample | None]:
        """Return training and held-out rows with their queries."""
        n_copies, (query, position, aside) = train.n_copies, self._parts()
        if validation is not None and aside is not None:
            validation = replace(validation, query=aside)
        train = replace(train, query=repeated_queries(query, n_copies))
        return replace(train, position=position and position.repeated(n_copies)), validation

    def added_to_samples(
        self, train: Sample, validation: Sample | None
    ) -> tuple[Sample, Sample | None]:
        """Return training and held-out rows that are not in chunks with their queries."""
        query, position, aside = self._parts()
        if validation is not None and aside is not None:
            validation = replace(validation, query=aside)
        return replace(train, query=query, position=position), validation

    def _parts(self) -> tuple[IntArray, Positions | None, IntArray | None]:
        """Return query and position of the training rows, and the query of held-out rows."""
        if self.aside is None:
            return self.query, self.position, None
        kept = np.flatnonzero(~self.aside)
        position = self.position and self.position.take(kept)
        return self.query[kept], position, self.query[self.aside]


def metrics_of_all(
    metrics: Sequence[Metric],
    objective: Objective,
    watched: ExternalSample,
    others: Communicator,
    scored: bool,
    by_rows: bool,
) -> tuple[Metric, ...]:
    """Bind metrics of a ranking to the queries of all ranks' rows; leave others unchanged.

    ``by_rows``: whether out-of-bag rows are to be scored.
    """
    if not isinstance(objective, RankingLoss):
        return tuple(metrics)
    if by_rows:
        raise rows_of_queries()
    if not scored:
        return tuple(metrics)
    if watched.query is None:
        raise without_queries(objective, "qid of the validation rows")
    query = gather_numbers(watched.query[: watched.n_rows // watched.n_copies], others)
    return metrics_of_queries(metrics, objective, query_rows(query, len(query)))


def groups_aside(
    groups: GroupKeys,
    target: FloatArray,
    fraction: float,
    stratify: bool,
    seed: int,
    others: Communicator,
) -> Choose:
    """Return a function that chooses rows of complete groups."""
    before, _ = count_rows(len(groups), others)
    aside = rows_of_groups_aside(groups, target, fraction, stratify, seed, others)
    return lambda first_row, some: aside[first_row - before : first_row - before + len(some)]


def positions_of_all(sample: ExternalSample, others: Communicator) -> Positions | None:
    """Return the positions of the training rows of all ranks; None without positions."""
    own = sample.position
    return None if own is None else Positions(gather_numbers(own.codes, others), own.labels)


class QueryNumbers:
    """Numbers the queries of rows that arrive in parts: 0 for the first, 1 for the next new one.

    Queries are equal if their values are, in any part and on any rank: numbers, text or dates.
    """

    def __init__(self) -> None:
        self.known: dict[str, int] = {}
        self._parts: list[IntArray] = []

    def add(self, part: Any, name: str) -> None:
        """Add the next rows; ``name`` is their name in messages."""
        values: AnyArray = np.asarray(part)
        codes = read_qid(values, len(values), f"{name}: qid")
        assert codes is not None
        first = np.unique(codes, return_index=True)[1]
        numbers = [
            self.known.setdefault(_name_of(value, name), len(self.known))
            for value in values.reshape(-1)[first]
        ]
        self._parts.append(np.array(numbers, dtype=np.int64)[codes])

    def of_rows(self, others: Communicator) -> IntArray:
        """Return the number of the query of each row, the same on all ranks.

        Examples
        --------
        >>> from hedgerow.comm.base import Alone
        >>> queries = QueryNumbers()
        >>> queries.add(["b", "a", "b"], "one")
        >>> queries.add(["c", "a"], "two")
        >>> queries.of_rows(Alone()).tolist()
        [0, 1, 0, 2, 1]
        """
        own = np.concatenate([*self._parts, np.zeros(0, dtype=np.int64)])
        everyone: dict[str, int] = {}
        for message in others.allgather(json.dumps(list(self.known)).encode()):
            for text in json.loads(message):
                everyone.setdefault(text, len(everyone))
        numbers = np.array([everyone[text] for text in self.known], dtype=np.int64)
        return numbers[own]


def _name_of(value: Any, where: str) -> str:
    """Return a text that is the same for equal values only."""
    if isinstance(value, str):
        return f"s{value}"
    if isinstance(value, bytes):
        return f"b{value.hex()}"
    if hasattr(value, "to_datetime64"):  # of pandas
        value = value.to_datetime64()
    if isinstance(value, np.datetime64):
        return f"t{value.astype('datetime64[ns]').astype(np.int64)}"
    try:
        number = float(value)
        return f"n{int(value)}" if number.is_integer() else f"n{number.hex()}"
    except (TypeError, ValueError, OverflowError):
        raise DataTypeError(
            f"{where}: qid must hold numbers, text or dates; found {type(value).__name__}."
        ) from None


def _divided(own: IntArray, others: Communicator) -> IntArray:
    """Return the queries that have rows on several ranks."""
    found, counts = np.unique(gather_numbers(own, others), return_counts=True)
    return np.asarray(found[counts > 1])


def _rows_by_query(query: IntArray, numbers: IntArray) -> QueryRows:
    """Return the rows of each query in the order of the complete table."""
    rows = np.lexsort((numbers, query)).astype(np.int64)
    counts = np.bincount(first_seen(query[rows]))
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return QueryRows(rows, starts, numbers[rows])
