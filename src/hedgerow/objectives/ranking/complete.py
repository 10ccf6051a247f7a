"""Complete queries of rows that are divided between ranks.

A rank computes the derivatives of each query of which it has a row.  Once for each tree, it
receives the scores of the other ranks' rows of these queries::

    rank 0   q0 q0 q0 q1 q1 q2        computes q0, q1, q2;  q2 with a row of rank 1
    rank 1   q2 q3 q3 q4 q4 q4        computes q2, q3, q4;  q2 with a row of rank 0

So ranks send little if rows of a query are adjacent, and nothing if no query is
divided.  The rows of a query are in the order of the complete table, and random draws are
seeded by row numbers of that table: derivatives have the same bits as with all rows in memory,
on every rank.

Glossary
--------
own      rows of this rank
divided  rows of queries that have rows on several ranks
others'  divided rows of other ranks, of queries that have rows on this rank
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hedgerow.arrays import FloatArray, IntArray, distinct
from hedgerow.comm.base import Communicator, gather_numbers
from hedgerow.kernels.ranking import QueryRows
from hedgerow.metrics.queries import first_seen


class _Known(NamedTuple):
    """Rows of a ranking.

    number           int64 (n_rows,): number of each row in the complete table
    query            int64 (n_rows,)
    target, weight   float64 (n_rows,)
    """

    number: IntArray
    query: IntArray
    target: FloatArray
    weight: FloatArray

    def take(self, rows: IntArray) -> _Known:
        """Return some of the rows."""
        return _Known._make(part[rows] for part in self)

    def gathered(self, others: Communicator) -> _Known:
        """Return the rows of all ranks."""
        parts = (self.number, self.query, self.target.view(np.int64), self.weight.view(np.int64))
        everyone = gather_numbers(np.stack(parts).T, others).reshape(-1, len(parts))
        number, query, target, weight = np.ascontiguousarray(everyone.T)
        return _Known(number, query, target.view(np.float64), weight.view(np.float64))


class CompleteQueries:
    """The rows of all queries of which this rank has rows.

    All ranks make one at the same time.  ``query`` has the numbers of queries that all ranks share,
    and ``first_row`` is the number of rows of lower ranks.  ``target`` and ``weight`` are those of
    the rows held; ``own`` is the place of the own rows among them.
    """

    def __init__(
        self,
        query: IntArray,
        target: FloatArray,
        weight: FloatArray | None,
        first_row: int,
        others: Communicator,
    ) -> None:
        self._others, n_own = others, len(target)
        number = first_row + np.arange(n_own, dtype=np.int64)
        own = _Known(number, query, target, np.ones(n_own) if weight is None else weight)
        self.own = slice(0, n_own)
        held = self._with_divided(own, first_row)
        self.target, self.weight = held.target, held.weight
        rows = np.lexsort((held.number, held.query)).astype(np.int64)  # as in the complete table
        counts = np.bincount(first_seen(held.query[rows]))
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        self.queries = QueryRows(rows, starts, held.number[rows])

    def _with_divided(self, own: _Known, first_row: int) -> _Known:
        """Return the rows of this rank, then others' rows of its queries."""
        found, counts = np.unique(
            gather_numbers(distinct(own.query), self._others), return_counts=True
        )
        divided, n_own = found[counts > 1], len(own.target)
        self._sent = np.flatnonzero(np.isin(own.query, divided))
        self._exchanges = len(divided) > 0
        if not self._exchanges:
            return own
        everyone = own.take(self._sent).gathered(self._others)
        is_own = (everyone.number >= first_row) & (everyone.number < first_row + n_own)
        self._taken = np.flatnonzero(~is_own & np.isin(everyone.query, own.query))
        more = everyone.take(self._taken)
        return _Known._make(map(np.concatenate, zip(own, more, strict=True)))

    def scores(self, own: FloatArray) -> FloatArray:
        """Return the scores of the rows held; ``own`` are those of this rank."""
        held = np.empty(len(self.target))
        held[self.own] = own
        if self._exchanges:
            sent = np.ascontiguousarray(own[self._sent]).view(np.int64)
            everyone = gather_numbers(sent, self._others).view(np.float64)
            held[len(own) :] = everyone[self._taken]
        return held
