"""Early stopping: its parameters, the rows that it holds out, the best round, the time budget.

Of each class, the share of rows with the smallest hashes of their row numbers is held out; for
rankings, complete queries are held out.  Ranks number the rows of all of them, in their order, so
the choice does not depend on how the rows are divided.

The best round has the best watched score, of the first metric on the validation rows; the model
keeps the trees up to it.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from hedgerow.argument_types import check_bool, is_one_of
from hedgerow.arrays import BoolArray, FloatArray, IntArray, distinct, numbers_reaching
from hedgerow.comm.base import Alone, Communicator, count_rows, gather_numbers
from hedgerow.errors import DataError, ParameterError, brief
from hedgerow.kernels.primitives.hashing import hash_range
from hedgerow.params import BoostParams, Interval

if TYPE_CHECKING:
    from hedgerow.boosting.automatic.blending import Blend, Member
    from hedgerow.boosting.automatic.cost import Allowance
    from hedgerow.boosting.resume.continuing import Start
    from hedgerow.metrics import Metric


VALIDATION_STREAM = 2
"""Stream of :mod:`hedgerow.kernels.primitives.hashing` that chooses validation rows."""

CLOCK_FIELDS = ("time_budget", "began")
"""Parameters that limit the time of a run, but not its computation."""

_ALLOWED = {
    "validation_fraction": Interval(0.0, 1.0, low_open=True, high_open=True),
    "patience": Interval(1, 10_000_000, integer=True),
    "min_delta": Interval(0.0, math.inf, high_open=True),
}
_SECONDS = Interval(0.0, math.inf, low_open=True, high_open=True)


class Candidate(NamedTuple):
    """Other parameters of the trees, which the folds compare with the first ones.

    lead       standard errors by which they must be better; None: any lead is enough
    is_sieved  whether the first fold judges them before the others
    """

    params: BoostParams
    lead: float | None = None
    is_sieved: bool = False


@dataclass(frozen=True, slots=True)
class Search:
    """What ``early_stopping="cv"`` looks for, which is chosen automatically.

    folds              number of folds that the rows are divided into, and of those that are tested
    rounds_factor      rounds of the model on all rows per best round of the folds, at least 1
    stride             learning rate of the folds over that of the model, at least 1: a round of the
                       folds equals ``stride`` rounds of the model
    easy_rounds        a model of more rounds has a larger learning rate; None: it keeps all rounds
    least_patience     patience at the first round, which grows by a fifth of the rounds, up to
                       ``patience``; None: ``patience`` from the start
    candidates         tried one after the other
    tries_crosses      whether crosses of the columns with the largest gains are tried at the end
    at_equal_rounds    candidates are compared with the best parameters after as many rounds, not
                       with their best score: slow learners may win
    allowance          bounds on the estimated cost; None: nothing is bounded
    is_cautious        use fewer rounds if the gain on the test rows may be due to chance
    most_members       largest number of kinds of trees in the model
    """

    folds: tuple[int, int] = (5, 5)
    rounds_factor: float = 1.0
    stride: float = 1.0
    easy_rounds: int | None = None
    least_patience: int | None = None
    candidates: tuple[Candidate, ...] = ()
    tries_crosses: bool = False
    at_equal_rounds: bool = False
    allowance: Allowance | None = None
    is_cautious: bool = False
    most_members: int = 1


@dataclass(frozen=True, slots=True)
class StoppingParams:
    """Parameters of early stopping.

    early_stopping       ``"auto"``: whether the user gives validation rows; ``"cv"``: by folds, and
                         a fit on all rows
    validation_fraction  share of the rows held out if there are no validation rows
    patience             number of successive rounds without improvement that ends the fit
    min_delta            smallest change of the watched score that is an improvement (exclusive)
    time_budget          seconds that the fit may take from ``began``
    blend                whether the model may have several kinds of trees, at most how many, or
                         which (:mod:`hedgerow.boosting.automatic.blending`)
    train_scores         whether training rows are scored, too, which does not affect the fit
    search               for ``"cv"``
    members              kinds of trees of the model, if these are given
    began                start time of the fit, as :func:`time.monotonic`: create this object first
    """

    early_stopping: bool | Literal["auto", "cv"] = "auto"
    validation_fraction: float = 0.1
    patience: int = 10
    min_delta: float = 0.0
    time_budget: float | None = None
    blend: Blend = "auto"
    train_scores: bool = False
    search: Search = Search()
    members: tuple[Member, ...] = ()
    began: float = field(default_factory=time.monotonic, compare=False, repr=False)

    def __post_init__(self) -> None:
        choice = self.early_stopping
        if not isinstance(choice, bool | np.bool_) and not is_one_of(choice, ("auto", "cv")):
            is_count = isinstance(choice, int | np.integer)
            hint = " The number of rounds without improvement is patience." if is_count else ""
            raise ParameterError(
                f"early_stopping must be True, False, 'auto' or 'cv'; got {brief(choice)}.{hint}"
            )
        for name, allowed in _ALLOWED.items():
            value = getattr(self, name)
            if value not in allowed:
                raise ParameterError(f"{name} must be {allowed}; got {brief(value)}.")
        check_bool(self.train_scores, "train_scores")
        if self.time_budget is not None and self.time_budget not in _SECONDS:
            raise ParameterError(
                f"time_budget must be {_SECONDS} (seconds), or None; got {brief(self.time_budget)}."
            )

    @property
    def by_folds(self) -> bool:
        """Whether fits of folds decide."""
        return isinstance(self.early_stopping, str) and self.early_stopping == "cv"

    def is_on(self, has_validation: bool) -> bool:
        """Return whether a fit stops early, with or without validation rows of the user."""
        if isinstance(self.early_stopping, str) and self.early_stopping == "auto":
            return has_validation
        return bool(self.early_stopping)

    @property
    def sets_rows_aside(self) -> bool:
        """Whether a fit without validation rows of the user holds out some of its own."""
        return self.is_on(False) and not self.by_folds


def check_folds(
    stopping: StoppingParams,
    has_validation: bool,
    start: Start | None = None,
    has_folds: bool = False,
) -> None:
    """Raise ``ParameterError`` if ``"cv"`` meets validation rows or a model to continue."""
    if has_folds and not stopping.by_folds and stopping.time_budget is None:
        raise ParameterError(
            "folds have no effect, because early stopping does not use folds here: use "
            "early_stopping='cv' without validation rows, or leave folds out."
        )
    if stopping.by_folds and start is not None:
        raise ParameterError(
            f"early_stopping='cv' trains folds from the first round, but the rounds of "
            f"{start.name} have seen the rows of all folds: use early_stopping=True or False, or "
            "train a new model."
        )
    if stopping.by_folds and has_validation:
        raise ParameterError(
            "early_stopping='cv' uses folds of the training rows, so validation rows have no "
            "effect: leave them out, or use early_stopping=True."
        )


_LAST_ROUNDS = 3
"""Number of latest rounds whose times predict the next one."""

_FOR_ASSEMBLY = 0.05
"""Share of the time that is left for assembling models, and for predictions of folds."""


class Budget:
    """Time that a fit may take, from ``began`` on, in seconds of ``clock``.

    A round begins only if it is expected to take no longer than the last few, and to leave time to
    assemble the model; the first round always begins.  The clock decides the number of rounds, so
    models may differ from run to run; models with the same number of rounds have the same trees.
    """

    def __init__(
        self, seconds: float, began: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._end, self._clock = began + (1.0 - _FOR_ASSEMBLY) * seconds, clock
        self._times: deque[float] = deque(maxlen=_LAST_ROUNDS)
        self.begin_rounds()

    def begin_rounds(self) -> None:
        """Record that a round begins now."""
        self._mark = self._clock()

    def is_spent(self) -> bool:
        """Return whether there is no time for another round; call it after each round."""
        began = self._mark
        self.begin_rounds()
        self._times.append(self._mark - began)
        return self._mark + max(self._times) >= self._end

    def deadline(self, share: float) -> Callable[[], bool]:
        """Return a function that tells whether a share of the remaining time is spent."""
        now = self._clock()
        until = now + share * (self._end - now)
        return lambda: self._clock() >= until


def budget_of(stopping: StoppingParams) -> Budget | None:
    """Return the budget of a fit; None without ``time_budget``."""
    seconds = stopping.time_budget
    return None if seconds is None else Budget(float(seconds), stopping.began)


_PATIENCE_SHARE = 0.2


@dataclass(slots=True)
class BestRound:
    r"""Tracker of the best round so far, and of what ends a fit: patience, or a better rival.

    Patience may grow with the number of rounds, because later rounds improve the score in longer
    intervals.  A curve also stops if its distance to the best curve so far (the rival) is large
    compared with its own recent gain::

        score
          |  \.
          |   \.`-.___
          |     `-.   `------  candidate; its recent gain is that of the later half of the rounds
          |        `-.     ^
          |           `-.  |   distance, far more than the recent gain
          |..............`-v.  rival

    metric               metric of the watched score
    patience, min_delta  as in :class:`StoppingParams`
    least                patience at the first round, which grows by a fifth of the rounds
    rival                best score of the rival up to each round; the last one also holds for later
                         rounds
    judged_from          first round at which the distance to the rival may end the fit
    farthest             largest distance to the rival, as a multiple of the recent gain
    to_beat              the fit ends once its score is better than this one
    bests                best score up to each round
    """

    metric: Metric
    patience: int
    min_delta: float
    least: int | None = None
    rival: Sequence[float] = ()
    judged_from: int = 40
    farthest: float = 1.3
    to_beat: float | None = None
    round: int = 0
    score: float = math.nan
    bests: list[float] = field(default_factory=list, repr=False)
    _reference: float = field(default=math.nan, repr=False)
    _reference_round: int = field(default=0, repr=False)

    def again(self) -> BestRound:
        """Return a tracker with the same parameters, before the first round."""
        return BestRound(self.metric, self.patience, self.min_delta)

    def observe(self, n_rounds: int, score: float) -> bool:
        """Record the score after ``n_rounds`` rounds; return True if the fit should end."""
        if math.isnan(self.score) or self.metric.improves(score, self.score):
            self.round, self.score = n_rounds, score
        if math.isnan(self._reference) or self.metric.improves(
            score, self._reference, self.min_delta
        ):
            self._reference, self._reference_round = score, n_rounds
        self.bests.append(self.score)
        is_ahead = self.to_beat is not None and self.metric.improves(self.score, self.to_beat)
        return n_rounds >= self._end_of_patience() or self._is_hopeless() or is_ahead

    def next_end(self, n_rounds: int) -> int:
        """Return the round in which patience may end, or the first comparison with the rival."""
        # Later comparisons may end the fit before.
        end = self._end_of_patience()
        if self.rival and n_rounds < self.judged_from:
            end = min(end, self.judged_from)
        return max(n_rounds + 1, end)

    def _end_of_patience(self) -> int:
        grown = self.patience
        if self.least is not None:
            grown = min(grown, math.ceil(self.least + _PATIENCE_SHARE * self._reference_round))
        return self._reference_round + grown

    def _is_hopeless(self) -> bool:
        n = len(self.bests)
        if n < self.judged_from or not self.rival:
            return False
        other = self.rival[min(n, len(self.rival)) - 1]
        if not self.metric.improves(other, self.score):
            return False
        lately = abs(self.score - self.bests[n // 2])
        return abs(other - self.score) > self.farthest * lately


def rows_aside(
    target: FloatArray,
    fraction: float,
    stratify: bool,
    seed: int,
    others: Communicator | None = None,
) -> BoolArray:
    """Return which rows of this rank are held out; at least one of a class stays in training."""
    others = others or Alone()
    first_row = count_rows(len(target), others)[0]
    hashes = hash_range(seed, VALIDATION_STREAM, first_row, first_row + len(target))
    label: IntArray = np.zeros(len(target), dtype=np.int64)
    n_classes = 1
    if stratify:
        values = distinct(gather_numbers(distinct(target), others))
        label, n_classes = np.searchsorted(values, target), len(values)
    n_rows = others.allreduce(np.bincount(label, minlength=n_classes).astype(np.int64))
    counts = np.array([min(round(fraction * n), n - 1) for n in n_rows.tolist()], dtype=np.int64)
    if counts.sum() <= 0:
        if n_rows.max(initial=0) < 2:
            raise DataError(
                f"early stopping holds out rows, but there are only {int(n_rows.sum())} "
                "rows: give validation rows (X_val, y_val) or use early_stopping=False."
            )
        counts[np.argmax(n_rows)] = 1
    parts = [np.sort(hashes[label == k]) for k in range(n_classes)]

    def n_below(limits: npt.NDArray[np.uint64]) -> IntArray:
        below = [np.searchsorted(part, limit) for part, limit in zip(parts, limits, strict=True)]
        return others.allreduce(np.array(below, dtype=np.int64))

    return np.asarray((hashes <= numbers_reaching(n_below, counts)[label]) & (counts > 0)[label])


def queries_aside(query: IntArray, fraction: float, seed: int, others: Communicator) -> BoolArray:
    """Return which rows of this rank are held out for early stopping: complete queries."""
    # Numbers ascend in order of first occurrence; queries whose rows have weight 0 are missing.
    there = distinct(gather_numbers(distinct(query), others))
    before, _ = count_rows(len(query), others)
    own, first = np.unique(query, return_index=True)
    found = np.full(len(there), -(2**62), dtype=np.int64)  # minus the first row of each query
    found[np.searchsorted(there, own)] = -(before + first)
    found = others.allreduce(found, "max")
    if len(there) < 2:
        raise DataError(
            "early stopping holds out queries, but there is only one: give validation rows "
            "(X_val, y_val, qid_val) or use early_stopping=False."
        )
    count = min(max(1, round(fraction * len(there))), len(there) - 1)
    order = np.argsort(hash_range(seed, VALIDATION_STREAM, 0, len(there)), kind="stable")
    return np.isin(query, there[np.argsort(-found, kind="stable")[order[:count]]])
