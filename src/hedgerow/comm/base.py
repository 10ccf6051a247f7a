"""Protocol for communication between the ranks of a training.

Glossary
--------
rank        one of the ``size`` processes (or threads) that train a model together,
            each with a part of the rows or of the features; all run the same code
collective  a call that every rank makes; it succeeds for all ranks or for none

All sums are integer sums, so the model does not depend on their order or on the number of
ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

import numpy as np

from hedgerow.arrays import AnyArray, IntArray

Combine = Literal["sum", "max"]


class Communicator(Protocol):
    """Communication of one rank with the other ranks.

    Every method raises :class:`hedgerow.errors.CommunicationError` if a rank is lost,
    does not answer in time, or sends something unexpected.  After an error the communicator
    cannot be used.
    """

    rank: int  # from 0 to size - 1
    size: int

    def allreduce(self, array: IntArray, combine: Combine = "sum", keep: bool = True) -> IntArray:
        """Return the element-wise sum or maximum of an int64 array over all ranks."""
        # Unless told to keep the array, the result may be in its place.

    def reduce_scatter(
        self, array: IntArray, starts: Sequence[int], out: IntArray | None = None
    ) -> IntArray:
        """Return part ``starts[rank] : starts[rank + 1]`` of the sum, in ``out`` if given."""
        # Allocating a new array takes longer than the sum.

    def allgather(self, message: bytes) -> list[bytes]:
        """Return the message of each rank, in the order of the ranks."""

    def barrier(self) -> None:
        """Return when all ranks have called this method."""


class Alone:
    """The communicator of a training in one process."""

    rank = 0
    size = 1

    def allreduce(self, array: IntArray, combine: Combine = "sum", keep: bool = True) -> IntArray:
        """Return the array."""
        return array

    def reduce_scatter(
        self, array: IntArray, starts: Sequence[int], out: IntArray | None = None
    ) -> IntArray:
        """Return the array; ``out`` is unchanged."""
        return array

    def allgather(self, message: bytes) -> list[bytes]:
        """Return the message in a list."""
        return [message]

    def barrier(self) -> None:
        """Return at once."""


def gather_numbers(own: AnyArray, ranks: Communicator) -> AnyArray:
    """Concatenate the numbers of all ranks; all ranks pass arrays of one type."""
    if ranks.size == 1:
        return own
    sent = own.dtype.newbyteorder("<")
    message = np.ascontiguousarray(own).astype(sent, copy=False).tobytes()
    return np.frombuffer(b"".join(ranks.allgather(message)), dtype=sent).astype(own.dtype)


def count_rows(n_rows: int, ranks: Communicator) -> tuple[int, int]:
    """Return the number of rows of lower ranks, and of all ranks; this rank has ``n_rows``."""
    counts = gather_numbers(np.array([n_rows], dtype=np.int64), ranks)
    return int(counts[: ranks.rank].sum()), int(counts.sum())
