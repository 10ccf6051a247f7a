"""Queries and groups of rows that arrive in parts and may be divided between ranks.

Queries, and groups of rows, are held out completely.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import AnyArray, FloatArray, IntArray
from hedgerow.boosting.external.external_sample import Choose, ExternalSample
from hedgerow.boosting.loop.sample import Positions, Sample
from hedgerow.boosting.row_data.groups import GroupKeys, rows_of_groups_aside
from hedgerow.boosting.row_data.queries import read_qid
from hedgerow.boosting.row_data.statistics import repeated_queries
from hedgerow.boosting.validation.hold_out import queries_aside
from hedgerow.comm.base import Communicator, count_rows
from hedgerow.errors import DataTypeError


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
