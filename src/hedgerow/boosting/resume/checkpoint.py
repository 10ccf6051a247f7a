"""Checkpoints: a stopped fit continues from its recorded rounds.

Glossary
--------
part         successive rounds (:class:`Rounds`); every write adds one, and the parts
             of a fit have no gaps
checkpoint   all parts of one fit
store        location of parts: a folder, or the memory of another process
fingerprint  everything that the result of a fit depends on
             (:mod:`hedgerow.boosting.resume.fingerprint`); a store holds only one fit

::

    rounds done ---- note ----> Recorder ---- save (one part) ----> store
                                                                      |
    grown on <---- replay <---- Recorder.earlier <---- latest --------+

Parts contain what is expensive to recompute: the trees as they were grown, and the scores
of each round.  Everything else is derived from the data as before.  Raw
scores are not stored: the trees are added again, each to each row, in the same order and
with the same factors (also for DART, whose rounds subtract trees and add them
back).  These are the same additions of the same floats, so the scores have the same
bits, and so do all later trees, for any number of threads.

Rows in memory, in files and on ranks share one loop
(:mod:`hedgerow.boosting.loop.training_loop`).
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.boosting.resume.fingerprint import Fingerprint
from hedgerow.errors import HedgerowWarning, StorageError
from hedgerow.growing.core.tree import GrownTree
from hedgerow.params import CHECKPOINT_SECONDS

_MOST_SHARE = 0.05
"""Largest share of the time for writes: on a slow disk they become rarer."""

_SECONDS_AFTER_FAILURE = 10.0


@dataclass(frozen=True, slots=True, eq=False)
class Rounds:
    """Successive rounds of a fit.

    first        number of rounds before these
    trees        round by round, each with ``num_parallel_tree`` trees for each output, as they were
                 grown, before a mode scales them
    base_score   float64 (n_outputs,): raw score before the first tree
    scores       float64 (n_rounds, n_metrics): score of each metric after each round; no columns
                 without metrics
    improvement  float64 (n_rounds,): see :class:`hedgerow.boosting.loop.rounds.BoostState`; NaN if
                 not recorded
    ended        whether the fit ended with the last of these rounds, by early stopping or a
                 callback
    """

    first: int
    trees: tuple[GrownTree, ...]
    base_score: FloatArray
    scores: FloatArray
    improvement: FloatArray
    ended: bool = False

    @property
    def n_outputs(self) -> int:
        return len(self.base_score)

    @property
    def trees_per_round(self) -> int:
        """Number of trees in each round; 0 without rounds."""
        return len(self.trees) // max(1, self.n_rounds)

    @property
    def n_rounds(self) -> int:
        return len(self.scores)

    @property
    def end(self) -> int:
        """Number of rounds up to the last of these."""
        return self.first + self.n_rounds

    def of_round(self, number: int) -> tuple[GrownTree, ...]:
        """Return the trees of round ``number``, counted from the first of these rounds."""
        return self.trees[number * self.trees_per_round : (number + 1) * self.trees_per_round]

    def goes_with(self, other: Rounds) -> bool:
        """Return whether both may be rounds of one fit."""
        shapes = [(len(r.base_score), r.scores.shape[1], r.trees_per_round) for r in (self, other)]
        return shapes[0] == shapes[1] and self.base_score.tobytes() == other.base_score.tobytes()

    def head(self, n_rounds: int) -> Rounds:
        """Return the first ``n_rounds`` of these rounds."""
        if n_rounds >= self.n_rounds:
            return self
        return replace(
            self,
            trees=self.trees[: n_rounds * self.trees_per_round],
            scores=self.scores[:n_rounds],
            improvement=self.improvement[:n_rounds],
            ended=False,
        )

    def check(self, base: FloatArray, n_features: int, n_columns: int) -> None:
        """Raise ``StorageError`` unless a fit of this shape can have these rounds."""
        # The checksum detects damage, and the fingerprint detects other fits; this check keeps tree
        # traversal within the columns, for any source of the parts.
        if self.base_score.tobytes() != base.tobytes():
            raise StorageError(
                f"the checkpoint starts from {self.base_score.tolist()}, but this fit from "
                f"{base.tolist()}, with the same data and parameters: remove the checkpoint."
            )
        for tree in self.trees:
            on_bins = len(tree.column) > 0
            if (
                int(tree.feature.max()) >= n_features
                or on_bins != (n_columns > 0)
                or (on_bins and int(tree.column.max()) >= n_columns)
            ):
                raise StorageError(
                    "the checkpoint has trees that split columns which the table does not have: "
                    "remove the checkpoint."
                )


def joined(parts: Sequence[Rounds]) -> Rounds:
    """Join successive parts to one."""
    if len(parts) == 1:
        return parts[0]
    return Rounds(
        first=parts[0].first,
        trees=tuple(tree for part in parts for tree in part.trees),
        base_score=parts[0].base_score,
        scores=np.concatenate([part.scores for part in parts]),
        improvement=np.concatenate([part.improvement for part in parts]),
        ended=parts[-1].ended,
    )


class CheckpointStore(Protocol):
    """Protocol of locations that keep the parts of one fit."""

    def open(self) -> None:
        """Claim the store before its fit is known; a second call does nothing."""

    def latest(self, fit: Fingerprint) -> Rounds | None:
        """Claim the store for this fit; return all its rounds, from number 0, or None.

        Raise ``ParameterError`` if it holds another fit; the message lists the differences.
        Raise ``StorageError`` if it cannot be read or written, or if another process uses it.
        """

    def save(self, part: Rounds) -> None:
        """Store more rounds, all or none; they follow the rounds stored before.

        Raise ``StorageError`` if they cannot be stored; a later call may pass the same rounds
        with more.
        """

    def close(self) -> None:
        """Release the store; a second call does nothing."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Store and interval for recording a fit.

    every  least number of seconds between writes; 0: write after every round
    """

    store: CheckpointStore
    every: float = CHECKPOINT_SECONDS


class Recorder:
    """Passes the rounds of a fit to a store.

    A failed write causes a warning, and its rounds are written with the next ones: training
    must not fail because it cannot be recorded.  Writes are at least ``every``
    seconds apart and take at most about 5% of the time, unless ``every`` is 0.

    clock    returns seconds from any starting point
    earlier  rounds of an earlier run
    """

    def __init__(
        self, checkpoint: Checkpoint, fit: Fingerprint, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._store, self._every, self._clock = checkpoint.store, checkpoint.every, clock
        self._waiting: list[Rounds] = []
        self.earlier = self._store.latest(fit)
        self._due = clock() + self._every

    def note(self, done: Rounds) -> None:
        """Take completed rounds; write them, with earlier unwritten ones, if a write is due."""
        self._waiting.append(done)
        if done.ended or self._clock() >= self._due:
            self.write()

    def write(self, last: bool = False) -> None:
        """Write the unwritten rounds; ``last`` if none will follow."""
        if not self._waiting:
            return
        began = self._clock()
        pause = self._every
        try:
            # After an interrupt here they stay in the queue: writing them twice does no harm.
            self._store.save(joined(self._waiting))
            self._waiting = []
        except (OSError, MemoryError) as error:
            pause = max(pause, _SECONDS_AFTER_FAILURE)
            lost = sum(part.n_rounds for part in self._waiting)
            after = "." if last else "; training continues, and the next write includes them."
            warnings.warn(
                f"the last {lost} rounds could not be added to the checkpoint: {error}{after}",
                HedgerowWarning,
                stacklevel=2,
            )
        now = self._clock()
        if self._every > 0.0:
            pause = max(pause, (now - began) / _MOST_SHARE)
        self._due = now + pause


@contextmanager
def claiming(checkpoint: Checkpoint | None) -> Iterator[None]:
    """Claim the store during preparation and fit."""
    # Problems of the store show before data are read and binned, not after.
    if checkpoint is None:
        yield
        return
    try:
        checkpoint.store.open()
        yield
    finally:
        checkpoint.store.close()


@contextmanager
def recording(
    checkpoint: Checkpoint | None, describe: Callable[[], Fingerprint]
) -> Iterator[Recorder | None]:
    """Yield a recorder during a fit; None without a checkpoint."""
    if checkpoint is None:
        yield None
        return
    try:
        recorder = Recorder(checkpoint, describe())
        try:
            yield recorder
        finally:
            recorder.write(last=True)
    finally:
        checkpoint.store.close()
