"""Folds that grow side by side, wherever their rows are: the best round of all of them.

Glossary
--------
pooled score    mean of the scores of all folds after the same number of rounds, weighted
                by the mass of the test rows
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from hedgerow.boosting.loop.watch import Watch
from hedgerow.boosting.validation.stopping import BestRound
from hedgerow.metrics import Metric
from hedgerow.threads import take_turns


class FoldInTurn(Protocol):
    """A fit of one fold, one round at a time.

    Attributes
    ----------
    curve : list of float
        Score of the test rows after each round by the first metric.
    mass : float
        Mass of the test rows.
    best_round, next_end : int
        Set by the pool: the best round of all folds so far, and the next round that may end them.
    """

    curve: list[float]
    mass: float
    best_round: int
    next_end: int

    def advance(self) -> bool:
        """Grow a round, or several that are ready; return True after the last one."""


class ScoredFold(Protocol):
    """A fold after its last round."""

    @property
    def mass(self) -> float:
        """Mass of the test rows."""

    @property
    def watch(self) -> Watch:
        """With the scores after each round."""


@dataclass(frozen=True, slots=True)
class FoldStopping:
    """Stopping rule of the folds.

    Attributes
    ----------
    limits : tuple of patience and min_delta, or None
        None: all rounds are done.
    pooled : bool
        Whether all folds keep the same number of rounds, chosen by the pooled score.
    best : BestRound or None
        Tracker of the best round; None: one made from ``limits``.
    by_out_of_bag : bool
        Whether each fold stops by its out-of-bag loss.
    is_late : callable
        Tells, after each round of a fold, whether time is over.  Without early stopping, and
        with a pooled score, all folds then keep the same number of rounds.
    may_end : callable
        Tells, at an interrupt after one round of all folds, whether it ends folds with a
        pooled score in the same way as time.
    after_rounds : callable
        Receives the number of rounds that all folds completed, and their pooled score.
    """

    limits: tuple[int, float] | None = None
    pooled: bool = False
    by_out_of_bag: bool = False
    best: BestRound | None = None
    is_late: Callable[[], bool] = lambda: False
    may_end: Callable[[], bool] = lambda: False
    after_rounds: Callable[[int, float], None] = lambda n_rounds, score: None


def pooled_curves(folds: Sequence[ScoredFold]) -> dict[str, list[float]]:
    """Return the mean of each score over the folds, weighted by mass, after each round."""
    masses = [fold.mass for fold in folds]
    curves = [fold.watch.history.get(fold.watch.rows, {}) for fold in folds]
    return {
        name: [pooled(scores, masses) for scores in zip(*(c[name] for c in curves), strict=False)]
        for name in curves[0]
    }


def pooled(scores: Sequence[float], masses: Sequence[float]) -> float:
    """Return the mean of scores of folds, weighted by mass."""
    if not all(map(math.isfinite, scores)):
        return float(np.mean(scores))
    weighted = math.fsum(score * mass for score, mass in zip(scores, masses, strict=True))
    return weighted / math.fsum(masses)


@dataclass(slots=True, eq=False)
class Pool:
    """Grows folds round by round, and finds the best round of all of them.

    Attributes
    ----------
    fits : sequence of FoldInTurn
    metric : Metric
        Of the pooled score.
    stopping : FoldStopping
    best : BestRound or None
        The best round by the pooled score, if that decides.
    n_rounds : int
        Number of rounds that all folds completed.
    late : bool
        Whether the time limit ended the folds.
    """

    fits: Sequence[FoldInTurn]
    metric: Metric
    stopping: FoldStopping
    best: BestRound | None = field(init=False)
    n_rounds: int = field(init=False, default=0)
    late: bool = field(init=False, default=False)
    _latest: float = field(init=False, default=math.nan)

    def __post_init__(self) -> None:
        requested = self.stopping
        self.best = requested.best
        if self.best is None and requested.pooled and requested.limits is not None:
            self.best = BestRound(self.metric, *requested.limits)

    def grow(self, at_once: int) -> bool:
        """Grow the folds, ``at_once`` in parallel; return whether an interrupt ended them."""
        fits = self.fits
        try:
            take_turns(lambda task: fits[task].advance(), len(fits), at_once, self._after_step)
        except KeyboardInterrupt as error:
            twice = isinstance(error.__context__, KeyboardInterrupt)
            if twice or not self.end_complete_rounds() or not self.stopping.may_end():
                raise
            return True
        return False

    @property
    def n_common(self) -> int | None:
        """Number of rounds that all folds keep; None if each fold stops separately."""
        by_itself = self.best is None and not (self.late and self.stopping.limits is None)
        return None if by_itself else self.n_rounds

    def _after_step(self) -> bool:
        before = self.n_rounds
        ended = self.note_rounds()
        if self.best is not None and self.n_rounds > before:
            self.stopping.after_rounds(self.n_rounds, self._latest)
        return ended

    def note_rounds(self) -> bool:
        """Record the rounds that all folds have completed; return True if all should end."""
        if self.best is None:
            self.n_rounds = min(len(fit.curve) for fit in self.fits)
        elif self._observe(self.best):
            return True
        self.late = self.stopping.is_late() and self.n_rounds > 0
        return self.late

    def _observe(self, best: BestRound) -> bool:
        """Observe newly completed rounds of all folds; return True if patience is exhausted."""
        ended, masses = False, [fit.mass for fit in self.fits]
        while not ended and all(len(fit.curve) > self.n_rounds for fit in self.fits):
            scores = [fit.curve[self.n_rounds] for fit in self.fits]
            self.n_rounds += 1
            self._latest = pooled(scores, masses)
            ended = best.observe(self.n_rounds, self._latest)
        next_end = best.next_end(self.n_rounds)
        for fit in self.fits:
            fit.best_round, fit.next_end = best.round, next_end
        return ended

    def end_complete_rounds(self) -> bool:
        """Observe all rounds that all folds completed again; return False if there are none.

        An interrupt may have come during the first observation.
        """
        if self.best is None:
            return False
        self.best, self.n_rounds = self.best.again(), 0
        self.note_rounds()
        return self.n_rounds > 0
