"""Queries of rows that arrive in parts and may be divided between ranks."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from hedgerow.arrays import AnyArray, IntArray
from hedgerow.boosting.row_data.queries import read_qid
from hedgerow.comm.base import Communicator
from hedgerow.errors import DataTypeError


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
