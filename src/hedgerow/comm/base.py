"""What a training needs of the others that take part in it.

Glossary
--------
rank        one of the ``size`` processes (or threads) that train a model together,
            each with a part of the rows or of the features; all run the same code
            and call the same collectives in the same order
collective  a call that every rank makes and that ends for all of them or for none

All sums are sums of integers, so that their order, and with it the number of ranks,
leaves no trace in the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

import numpy as np

from hedgerow.arrays import AnyArray, IntArray

Combine = Literal["sum", "max"]


class Communicator(Protocol):
    """The others, as one rank sees them.

    Attributes
    ----------
    rank : int
        Number of this rank, 0 to ``size - 1``.
    size : int

    Every method raises :class:`hedgerow.errors.CommunicationError` if a rank is lost,
    does not answer in time, or sends what is not expected; the communicator is of no
    use after that.
    """

    rank: int
    size: int

    def allreduce(self, array: IntArray, combine: Combine = "sum") -> IntArray:
        """Element-wise sum or maximum of an int64 array over all ranks."""

    def reduce_scatter(
        self, array: IntArray, starts: Sequence[int], out: IntArray | None = None
    ) -> IntArray:
        """Part ``starts[rank] : starts[rank + 1]`` of the sum of an int64 array.

        ``starts`` has ``size + 1`` ascending places, the last is the length.  ``out`` is where
        to write the part; a new array takes longer than the sum.
        """

    def allgather(self, message: bytes) -> list[bytes]:
        """What each rank sent, in the order of the ranks."""

    def barrier(self) -> None:
        """Return when all ranks have come here."""


class Alone:
    """The communicator of a training in one process."""

    rank = 0
    size = 1

    def allreduce(self, array: IntArray, combine: Combine = "sum") -> IntArray:
        """The array itself."""
        return array

    def reduce_scatter(
        self, array: IntArray, starts: Sequence[int], out: IntArray | None = None
    ) -> IntArray:
        """The array itself; ``out`` is left as it is."""
        return array

    def allgather(self, message: bytes) -> list[bytes]:
        """The one message."""
        return [message]

    def barrier(self) -> None:
        """Nobody to wait for."""


def gather_numbers(own: AnyArray, ranks: Communicator) -> AnyArray:
    """Numbers of all ranks, one rank behind the other; all give arrays of one type.

    Examples
    --------
    >>> gather_numbers(np.array([3, 5]), Alone()).tolist()
    [3, 5]
    """
    if ranks.size == 1:
        return own
    sent = own.dtype.newbyteorder("<")
    message = np.ascontiguousarray(own).astype(sent, copy=False).tobytes()
    return np.frombuffer(b"".join(ranks.allgather(message)), dtype=sent).astype(own.dtype)


def count_rows(n_rows: int, ranks: Communicator) -> tuple[int, int]:
    """Rows of the ranks before this one, and of all; ``n_rows`` are those of this one.

    Examples
    --------
    >>> count_rows(7, Alone())
    (0, 7)
    """
    counts = gather_numbers(np.array([n_rows], dtype=np.int64), ranks)
    return int(counts[: ranks.rank].sum()), int(counts.sum())
