"""All messages between the ranks of a fit while a tree grows.

::

    gather      once      rows, columns, weights: does everyone mean the same fit?
    measures    a tree    largest gradients, sums of gradients, size of the sample
    histograms  a pass    sums of all builds; each rank gets its block of columns
    splits      a pass    best splits in the blocks
    measured    a level   what the split of a symmetric tree sends left
    sums        a tree    exact sums of the leaves
    turns       a tree    sums of linear leaves, which go from rank to rank

With the features divided, every rank has all rows: there is nothing to add up, and only
``gather``, ``splits`` and ``measured`` are called.  Two ranks whose rows are divided exchange
narrow histograms whole: both find the same splits, so a pass takes one exchange instead of two.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.comm.base import Communicator
from hedgerow.errors import CommunicationError
from hedgerow.growing.core import state as s

GrowMode = Literal["data", "features"]

OF_MOST = slice(s.COUNT_G_MOST, s.COUNT_H_MOST + 1)
OF_SUMS = slice(s.COUNT_G_SUM, s.COUNT_H_SUM + 1)

_WHOLE_BYTES = 1 << 18  # the most of a histogram that two ranks exchange whole


class Exchange:
    """The others.

    rank, size  int
    mode        {"data", "features"}: what is divided between ranks
    adds        bool: whether sums over rows are to be added up: rows are divided between several
                ranks
    share       (int, int): number of this rank's block of the columns, and number of blocks
    sent        int: bytes that this rank has sent to others: of a reduce-scatter what belongs to
                them, of an allgather its message times their number
    """

    def __init__(self, communicator: Communicator, mode: GrowMode) -> None:
        self._communicator = communicator
        self.rank, self.size, self.mode = communicator.rank, communicator.size, mode
        self.adds = mode == "data" and self.size > 1
        self.share = (self.rank, self.size)
        self.sent = 0

    def divide_columns(self, n_bytes: int) -> None:
        """Choose the blocks of columns of ranks; a histogram has ``n_bytes``."""
        if self.adds and self.size == 2 and n_bytes <= _WHOLE_BYTES:
            self.share = (0, 1)

    def measures(self, local: IntArray) -> IntArray:
        """Return each rank's measures: int64 (size, measures); one row if they are not summed."""
        return self.gather(local, "measures of gradients") if self.adds else local[None]

    def counts(self, counts: IntArray) -> None:
        """Put the counts of all threads and ranks in the place of thread 0: (any, threads, any)."""
        own = np.stack((counts[:, :, OF_MOST].max(axis=1), counts[:, :, OF_SUMS].sum(axis=1)))
        most, sums = self.measures(own.reshape(-1)).reshape(-1, *own.shape).swapaxes(0, 1)
        counts[:] = 0
        counts[:, 0, OF_MOST], counts[:, 0, OF_SUMS] = most.max(axis=0), sums.sum(axis=0)

    def histograms(self, message: IntArray, starts: IntArray, out: IntArray) -> IntArray:
        """Return this rank's part of the sum of all messages, in new memory or in that given."""
        part, n_parts = self.share
        if n_parts == 1:
            self.sent += message.nbytes * (self.size - 1)
            return self._communicator.allreduce(message, keep=False)
        self.sent += 8 * (len(message) - int(starts[part + 1] - starts[part]))
        return self._communicator.reduce_scatter(message, starts.tolist(), out)

    def splits(self, found: IntArray) -> IntArray:
        """Return the best splits in all blocks, int64 (jobs, blocks, 2, fields)."""
        if self.share[1] == 1:
            return found[:, None]
        parts = self.gather(found.reshape(-1), "splits").reshape(self.size, *found.shape)
        return np.array(parts.swapaxes(0, 1), order="C")

    def measured(self, local: IntArray, owner: int) -> IntArray:
        """Return the measures of the rank with the block ``owner``."""
        if self.share[1] == 1:
            return local
        return self.gather(local, "the split of a level")[owner]

    def sums(self, local: IntArray) -> IntArray:
        """Return the sum of the arrays of all ranks."""
        if not self.adds:
            return local
        return np.asarray(self.gather(local.reshape(-1), "sums").sum(axis=0).reshape(local.shape))

    def take_turns(
        self, groups: Sequence[IntArray], sums: FloatArray, visit: Callable[[int], None]
    ) -> None:
        """Let the ranks add their rows to the sums of each group, in the order of the ranks."""
        rank, last = (self.rank, self.size - 1) if self.adds else (0, 0)
        for step in range(len(groups) + last):
            own = step - rank
            if 0 <= own < len(groups):
                visit(own)
            if not self.adds:
                continue
            # Every rank sends a group, some of them one of no account: all have the same length.
            most = max(map(len, groups))
            message = np.zeros((most, sums.shape[1]))
            if 0 <= own < len(groups):
                message[: len(groups[own])] = sums[groups[own]]
            parts = self.gather(message.view(np.int64).reshape(-1), "sums of linear leaves")
            found = parts.view(np.float64).reshape(self.size, *message.shape)
            for sender in {rank - 1, last}:
                number = step - sender
                if sender >= 0 and 0 <= number < len(groups):
                    sums[groups[number]] = found[sender, : len(groups[number])]

    def gather(self, local: IntArray, what: str) -> IntArray:
        """Return the arrays of all ranks, which have the same length: int64 (size, length)."""
        if self.size == 1:
            return local[None]
        self.sent += local.nbytes * (self.size - 1)
        parts = self._communicator.allgather(local.tobytes())
        for rank, part in enumerate(parts):
            if len(part) != local.nbytes:
                raise CommunicationError(
                    f"rank {rank} sent {len(part)} bytes as {what}, rank {self.rank} "
                    f"{local.nbytes}: do all ranks train with the same parameters?"
                )
        return np.frombuffer(b"".join(parts), dtype=np.int64).reshape(self.size, -1)
