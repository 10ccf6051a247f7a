"""A fit that can go on where it was stopped: what is kept of it, when, and for which fit.

Glossary
--------
part         some rounds in a row (:class:`Rounds`); every write adds one, and the parts
             of a fit follow each other without a gap
checkpoint   all parts of one fit
store        where parts are kept: a folder, or the memory of another process
fingerprint  what the result of a fit depends on
             (:mod:`hedgerow.boosting.resume.fingerprint`); a store holds one fit only

::

    rounds done ---- note ----> Recorder ---- save (one part) ----> store
                                                                      |
    grown on <---- replay <---- Recorder.earlier <---- latest --------+

Kept is what costs time to make again: the trees as they were grown, and the scores
of each round.  The rest comes from the data in the same way as before.  Raw
scores are not kept: the trees are added anew, each to each row, in the same order and
with the same factors (of DART, too, whose rounds take trees out and put them
back).  These are the same additions of the same floats, so the scores have the same
bits, and with them every later tree, whatever the number of threads.

Rows in memory, in files and on ranks are recorded by one loop
(:mod:`hedgerow.boosting.loop.training_loop`).
"""

from __future__ import annotations

import math
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
"""Writes may take this share of the time: on a slow disk they become rarer."""

_SECONDS_AFTER_FAILURE = 10.0


@dataclass(frozen=True, slots=True, eq=False)
class Rounds:
    """Some rounds of a fit, in a row.

    Attributes
    ----------
    first : int
        Rounds before them.
    trees : tuple of GrownTree
        Round after round, in a round ``num_parallel_tree`` times one for each output; as
        they were grown, before a mode scales them.
    base_score : float64 (n_outputs,)
        Raw score before the first tree.
    scores : float64 (n_rounds, n_metrics)
        Score of each metric after each round; no columns where none is watched.
    improvement : float64 (n_rounds,)
        See :class:`hedgerow.boosting.loop.rounds.BoostState`; NaN where nothing is noted.
    ended : bool, default=False
        Whether the fit ended with the last of them, by early stopping or a callback.
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
        """As many in each; 0 where there is no round."""
        return len(self.trees) // max(1, self.n_rounds)

    @property
    def n_rounds(self) -> int:
        return len(self.scores)

    @property
    def end(self) -> int:
        """Rounds up to the last of them."""
        return self.first + self.n_rounds

    def of_round(self, number: int) -> tuple[GrownTree, ...]:
        """The trees of round ``number``, counted from the first of these."""
        return self.trees[number * self.trees_per_round : (number + 1) * self.trees_per_round]

    def goes_with(self, other: Rounds) -> bool:
        """Whether both may be rounds of one fit."""
        shapes = [(len(r.base_score), r.scores.shape[1], r.trees_per_round) for r in (self, other)]
        return shapes[0] == shapes[1] and self.base_score.tobytes() == other.base_score.tobytes()

    def head(self, n_rounds: int) -> Rounds:
        """The first ``n_rounds`` of them."""
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
        """Raise ``StorageError`` unless they can be rounds of a fit of this shape.

        The checksum finds damage and the fingerprint other fits; this keeps walks down
        the trees within the rows, whoever wrote the parts.

        Parameters
        ----------
        base : float64 (n_outputs,)
        n_features : int
        n_columns : int
            Of the binned matrix; 0 where trees are not grown on bins.
        """
        if self.base_score.tobytes() != base.tobytes():
            raise StorageError(
                f"the checkpoint starts from {self.base_score.tolist()}, this fit from "
                f"{base.tolist()}, though all else is the same: remove the checkpoint."
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
    """One part of several that follow each other."""
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
    """Where the parts of one fit are kept."""

    def open(self) -> None:
        """Claim the store before it is known which fit it is for; a second call does nothing.

        Raises
        ------
        StorageError
            If it cannot be read or written, or another process is using it.
        """

    def latest(self, fit: Fingerprint) -> Rounds | None:
        """Claim the store for this fit; all rounds kept, the first of them number 0, or None.

        Raises
        ------
        ParameterError
            If it holds another fit; the message says what differs.
        StorageError
            If it cannot be read or written, or another process is using it.
        """

    def save(self, part: Rounds) -> None:
        """Keep more rounds, in full or not at all: they follow those kept before.

        Raises
        ------
        StorageError
            If they cannot be kept; the same rounds, and more, may be given again.
        """

    def close(self) -> None:
        """Give the store back; a second call does nothing."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Where and how often a fit is to be recorded.

    Attributes
    ----------
    store : CheckpointStore
    every : float, default=10.0
        Seconds between writes at least; 0: after every round.
    """

    store: CheckpointStore
    every: float = CHECKPOINT_SECONDS


class Recorder:
    """Hands the rounds of a fit to a store.

    A failed write is a warning, and its rounds are written with the next ones: training
    is not to be lost because it cannot be recorded.  Writes are at least ``every``
    seconds apart and take at most about 5% of the time, unless ``every`` is 0.

    Parameters
    ----------
    checkpoint : Checkpoint
    fit : Fingerprint
    clock : callable, optional
        Seconds from any start.

    Attributes
    ----------
    earlier : Rounds or None
        What an earlier run has left.
    """

    def __init__(
        self, checkpoint: Checkpoint, fit: Fingerprint, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._store, self._every, self._clock = checkpoint.store, checkpoint.every, clock
        self._waiting: list[Rounds] = []
        self.earlier = self._store.latest(fit)
        self._due = clock() + self._every

    def note(self, done: Rounds) -> None:
        """Take rounds that are done; write them, and those before, if it is time."""
        self._waiting.append(done)
        if done.ended or self._clock() >= self._due:
            self.write()

    def write(self, last: bool = False) -> None:
        """Write the rounds that are not yet written; ``last`` if none will follow."""
        if not self._waiting:
            return
        began = self._clock()
        pause = self._every
        try:
            # An interrupt after this leaves them waiting: to write them twice does no harm.
            self._store.save(joined(self._waiting))
            self._waiting = []
        except (OSError, MemoryError) as error:
            pause = max(pause, _SECONDS_AFTER_FAILURE)
            lost = sum(part.n_rounds for part in self._waiting)
            after = "." if last else "; training goes on, and they are tried again with the next."
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
    """Claim the store for the length of a long preparation, and of the fit.

    What is wrong with it is found before data are read and binned, not after.
    """
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
    """A recorder for the length of a fit; None without a checkpoint.

    What is not yet written is written at the end, also after an exception or an
    interrupt, and the store is given back.

    Parameters
    ----------
    checkpoint : Checkpoint or None
    describe : callable
        Gives the fingerprint; only called where it is needed.
    """
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


def one_round(
    number: int,
    trees: Sequence[GrownTree],
    base: FloatArray,
    scores: Sequence[float],
    improvement: float = math.nan,
    ended: bool = False,
) -> Rounds:
    """Round ``number`` (0 for the first) as :meth:`Recorder.note` takes it.

    Parameters
    ----------
    number : int
    trees : sequence of GrownTree
        One for each output, as grown.
    base : float64 (n_outputs,)
    scores : sequence of float
        Of each metric, in the order of the metrics.
    improvement : float, default=NaN
        Of the loss of the rows that the round left out.
    ended : bool, default=False
        Whether the fit ends with it before ``n_estimators``.
    """
    table = np.array(scores, dtype=np.float64).reshape(1, -1)
    return Rounds(number, tuple(trees), base, table, np.array([improvement]), ended)
