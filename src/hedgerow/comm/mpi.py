"""Ranks as processes of an MPI job, with the native collectives of MPI.

Start a script with ``mpiexec -n 4 python script.py``::

    from hedgerow.comm.mpi import run_rank

    run_rank(train_my_part)        # every process calls the function with its communicator

A failure ends the job, because MPI cannot continue without a rank.  A process in which an
error occurs prints it and aborts all other processes (``MPI_Abort``, exit code 1).  If a process
is killed, ``mpiexec`` kills the others.  This module does not check that ranks call the same
collectives, and does not limit the time that a rank waits for a stalled rank: let the
scheduler of the job limit its time, and resume from a checkpoint.
"""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from hedgerow.arrays import IntArray
from hedgerow.comm.base import Combine
from hedgerow.errors import CommunicationError

Result = TypeVar("Result")

_SECONDS_OF_TEXT = 0.2
"""Time for ``mpiexec`` to forward the traceback; on a busy machine the abort may end it before."""


class MpiRanks:
    """A :class:`hedgerow.comm.base.Communicator` of the processes of an MPI job.

    Parameters
    ----------
    group : mpi4py.MPI.Comm, optional
        By default a duplicate of ``COMM_WORLD``, which keeps these messages apart from other
        messages of the script.
    """

    def __init__(self, group: Any = None) -> None:
        self._mpi = _mpi()
        self._group = self._mpi.COMM_WORLD.Dup() if group is None else group
        self.rank: int = self._group.Get_rank()
        self.size: int = self._group.Get_size()

    def allreduce(self, array: IntArray, combine: Combine = "sum", keep: bool = True) -> IntArray:
        """Return the element-wise sum or maximum of an int64 array over all ranks."""
        total = np.empty(array.shape, dtype=np.int64)
        operation = self._mpi.SUM if combine == "sum" else self._mpi.MAX
        self._call(self._group.Allreduce, np.ascontiguousarray(array), total, operation)
        return total

    def reduce_scatter(
        self, array: IntArray, starts: Sequence[int], out: IntArray | None = None
    ) -> IntArray:
        """Return part ``starts[rank] : starts[rank + 1]`` of the sum of an int64 array."""
        counts = np.diff(np.asarray(starts))
        part = np.empty(counts[self.rank], dtype=np.int64) if out is None else out
        self._call(self._group.Reduce_scatter, np.ascontiguousarray(array), part, counts.tolist())
        return part

    def allgather(self, message: bytes) -> list[bytes]:
        """Return the message of each rank, in the order of the ranks."""
        lengths = np.empty(self.size, dtype=np.int64)
        self._call(self._group.Allgather, np.array([len(message)]), lengths)
        ends = np.cumsum(lengths)
        gathered = np.empty(ends[-1], dtype=np.uint8)
        self._call(
            self._group.Allgatherv, np.frombuffer(message, np.uint8), [gathered, lengths.tolist()]
        )
        return [part.tobytes() for part in np.split(gathered, ends[:-1])]

    def barrier(self) -> None:
        """Return when all ranks have called this method."""
        self._call(self._group.Barrier)

    def _call(self, function: Callable[..., Any], *arguments: Any) -> None:
        try:
            function(*arguments)
        except self._mpi.Exception as error:
            raise CommunicationError(f"rank {self.rank}, {function.__name__}: {error}") from error


def run_rank(function: Callable[[MpiRanks], Result]) -> Result:
    """Call a function with the communicator of this process; an error aborts the job.

    Examples
    --------
    >>> import numpy as np
    >>> from hedgerow.comm.mpi import run_rank
    >>> run_rank(lambda ranks: ranks.allreduce(np.array([ranks.rank])))  # doctest: +SKIP
    array([6])
    """
    ranks = MpiRanks()
    try:
        return function(ranks)
    except BaseException as error:
        if ranks.size == 1 or (isinstance(error, SystemExit) and not error.code):
            raise
        traceback.print_exc()
        sys.stderr.flush()
        time.sleep(_SECONDS_OF_TEXT)
        _mpi().COMM_WORLD.Abort(1)
        raise


def _mpi() -> Any:
    try:
        from mpi4py import MPI
    except ImportError as error:  # also without an MPI library
        raise ImportError(
            "training over MPI needs mpi4py and an MPI library: pip install 'hedgerow[mpi]' "
            f"and, unless the machine has one, mpich ({error})"
        ) from error
    return MPI
