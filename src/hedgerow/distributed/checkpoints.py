"""Checkpoints of a training, stored on the scheduler while the workers continue.

Parts (:class:`hedgerow.boosting.resume.checkpoint.Rounds` as bytes) are variables of the
scheduler, ``hedgerow-RUN-EPOCH-NUMBER``.  Rank 0 writes them.  When an attempt has failed,
the client collects the parts of all attempts and passes them to all ranks of the next
attempt.  A part that a rank of an older attempt writes later is never read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hedgerow.boosting.resume.checkpoint import Rounds, joined
from hedgerow.boosting.resume.fingerprint import Fingerprint
from hedgerow.errors import StorageError
from hedgerow.io.checkpoint_parts import rounds_from_bytes, rounds_to_bytes

_WAIT = "200 ms"
"""Time in which the scheduler finds that a part does not exist."""


class ClusterStore:
    """A :class:`hedgerow.boosting.resume.checkpoint.CheckpointStore` of one rank.

    ``parts`` are those of earlier attempts, in order; ``save`` stores one more.
    """

    def __init__(self, parts: Sequence[bytes], save: Callable[[bytes], None]) -> None:
        self._parts, self._save = parts, save
        self._fit = ""

    def open(self) -> None:
        """Do nothing, because the store is not shared."""

    def latest(self, fit: Fingerprint) -> Rounds | None:
        """Return all rounds of earlier attempts."""
        self._fit = fit.digest
        rounds = [rounds_from_bytes(part, self._fit) for part in self._parts]
        n_rounds = 0
        for part in rounds:
            if part.first != n_rounds or not part.goes_with(rounds[0]):
                raise StorageError("the parts of the checkpoint are not consecutive.")
            n_rounds += part.n_rounds
        return joined(rounds) if rounds else None

    def save(self, part: Rounds) -> None:
        """Store more rounds."""
        self._save(b"".join(rounds_to_bytes(part, self._fit)))

    def close(self) -> None:
        """Do nothing, because the store holds no resources."""


def store(content: bytes, run: bytes, epoch: int, number: int) -> None:
    """Store a part of an attempt on the scheduler, from a task."""
    from distributed import Variable, get_client

    Variable(_name(run, epoch, number), client=get_client()).set(content)


def collect(client: Any, run: bytes, epoch: int) -> list[bytes]:
    """Return the parts of an attempt, in order."""
    from distributed import Variable

    parts: list[bytes] = []
    while True:
        try:
            part = Variable(_name(run, epoch, len(parts)), client=client).get(timeout=_WAIT)
        except TimeoutError:
            return parts
        parts.append(bytes(part))


def forget(client: Any, run: bytes, epoch: int, n_parts: int) -> None:
    """Remove the parts of an attempt."""
    from distributed import Variable

    for number in range(n_parts):
        Variable(_name(run, epoch, number), client=client).delete()


def _name(run: bytes, epoch: int, number: int) -> str:
    return f"hedgerow-{run.hex()}-{epoch}-{number}"
