"""Bookkeeping of a fit after each round: scores, early stopping, callbacks, training record."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from hedgerow.boosting.loop.callbacks import Callback, History, Round, call_all, read_only
from hedgerow.boosting.loop.rounds import BoostState
from hedgerow.boosting.loop.sample import ONLY
from hedgerow.boosting.loop.scores import MeanScores
from hedgerow.boosting.resume.checkpoint import Rounds
from hedgerow.boosting.row_data.dataset import TRAINING
from hedgerow.boosting.validation.stopping import BestRound, Budget
from hedgerow.errors import LossError, ParameterError, StorageError
from hedgerow.metrics import Metric, make_metrics
from hedgerow.model.forest import Forest
from hedgerow.model.model import Model
from hedgerow.objectives import Objective, loss_record
from hedgerow.objectives.catalogue import scored_as
from hedgerow.params import BoostParams
from hedgerow.schedules import rate_record

StoppedBy: TypeAlias = Literal["rounds", "early_stopping", "callback", "time_budget", "interrupt"]

_OUT_OF_BAG_SCORES = {"regression": "r2", "two classes": "accuracy", "classes": "accuracy"}


@dataclass(slots=True, eq=False)
class Watch:
    """Scores, early stopping, budget and callbacks of one fit.

    Round numbers include the ``n_first`` rounds of a continued model; scores and seconds
    cover only the new rounds.

    scored        metrics of all scored rows, by name of the rows in the history.  Early stopping
                  uses the first metric of the first rows; the others are recorded only.
    n_rounds      number of rounds that the model is to have
    assemble      makes a model from a forest; set before the first round
    start_scores  scores of the model being continued, on the same rows: it may stay the best
    seconds       time from ``started`` to the end of each round; NaN for rounds of an earlier run
    subject       what the rounds are of, for messages
    stopped_by    reason why the fit ended; see :mod:`hedgerow.boosting.loop.driver`
    """

    objective: Objective
    scored: Mapping[str, tuple[Metric, ...]]
    best: BestRound | None
    callbacks: tuple[Callback, ...]
    n_rounds: int
    started: float = field(default_factory=time.monotonic)
    budget: Budget | None = None
    assemble: Callable[[Forest], Model] | None = None
    n_first: int = 0
    history: History = field(default_factory=dict)
    out_of_bag: dict[str, float] = field(default_factory=dict)
    start_scores: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    stopped_by: StoppedBy = "rounds"
    subject: str = "the model"

    @property
    def rows(self) -> str:
        """Name in the history of the rows that early stopping uses."""
        return next(iter(self.scored))

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Metrics of the rows that early stopping uses; empty if nothing is scored."""
        return next(iter(self.scored.values()), ())

    def __post_init__(self) -> None:
        self._observe_again(0)

    def after_round(self, state: BoostState) -> bool:
        """Record the scores, call the callbacks; return True if the fit should end."""
        try:
            found = state.scores()
        except LossError as error:
            raise LossError(f"round {state.n_rounds}: {error}") from error.__cause__
        self._record({
            rows: {name: [score] for name, score in scores.items()}
            for rows, scores in found.items()
        })  # fmt: skip
        if state.improvement is not None:
            self._record({"out_of_bag": {"improvement": [state.improvement]}})
        elapsed = time.monotonic() - self.started
        stop = self._observe(len(self.seconds))
        self.seconds.append(elapsed)
        if stop:
            self.stopped_by = "early_stopping"
        if self.callbacks:
            seen = Round(
                state.n_rounds,
                self.n_rounds,
                read_only(self.history),
                elapsed,
                stop or state.n_rounds == self.n_rounds,
                lambda: self.model_of(state),
            )
            if call_all(self.callbacks, seen) and not stop:
                self.stopped_by, stop = "callback", True
        goes_on = not stop and state.n_rounds < self.n_rounds
        if goes_on and self.budget is not None and self.budget.is_spent():
            self.stopped_by, stop = "time_budget", True
        return stop

    def note_scores(
        self, found: Mapping[str, Mapping[str, Sequence[float]]], n_rounds: int
    ) -> None:
        """Record the scores of several rounds, none of which may end the fit."""
        self._record(found)
        self.seconds += [time.monotonic() - self.started] * n_rounds

    def _record(self, found: Mapping[str, Mapping[str, Sequence[float]]]) -> None:
        for rows, scores in found.items():
            curves = self.history.setdefault(rows, {name: [] for name in scores})
            for name, of_rounds in scores.items():
                curves[name] += of_rounds

    @property
    def n_kept(self) -> int:
        """Number of completed rounds that the model keeps."""
        return self.n_done if self.best is None else max(self.n_first, self.best.round)

    @property
    def n_done(self) -> int:
        """Number of complete rounds, including those of the continued model."""
        return self.n_first + len(self.seconds)

    def model_of(self, state: BoostState) -> Model:
        """Return the model that the fit would return if it ended now."""
        if self.assemble is None:
            raise ParameterError(
                "the model of a round is available during its callback, but this fit has ended: "
                "take the model of the estimator, or call model() in the callback."
            )
        return self.assemble(state.freeze(self.n_kept))

    def cut(self, n_rounds: int) -> None:
        """Drop scores and times after ``n_rounds`` rounds; ``best`` is not changed."""
        for rows in (*self.scored, "out_of_bag"):  # scores of folds are complete
            for curve in self.history.get(rows, {}).values():
                del curve[n_rounds:]
        del self.seconds[n_rounds:]

    def keep_complete_rounds(self) -> None:
        """Drop what an interrupted round recorded."""
        self.cut(len(self.seconds))
        if self.best is not None:
            self.best = self.best.again()
            self._observe_again(len(self.seconds))
        self.stopped_by = "interrupt"

    def take_over(self, earlier: Rounds, state: BoostState) -> bool:
        """Record the scores of earlier rounds; return True if the fit ended with them."""
        names = [(rows, metric.name) for rows, known in self.scored.items() for metric in known]
        if state.scores_rows_outside:
            names.append(("out_of_bag", "improvement"))
        if earlier.scores.shape[1] != len(names):
            raise StorageError(
                f"the checkpoint has {earlier.scores.shape[1]} scores for each round, but this fit "
                f"has {len(names)}: remove the checkpoint."
            )
        for (rows, name), scores in zip(names, earlier.scores.T.tolist(), strict=True):
            self.history.setdefault(rows, {})[name] = scores
        self.seconds = [math.nan] * earlier.n_rounds
        out_of_patience = self._observe_again(earlier.n_rounds)
        if earlier.ended:
            self.stopped_by = "early_stopping" if out_of_patience else "callback"
        return earlier.ended

    def _observe_again(self, n_rounds: int) -> bool:
        """Find the best round in the history; return True if patience is exhausted."""
        if self.best is not None and self.n_first > 0 and self.start_scores:
            self.best.observe(self.n_first, self.start_scores[self.rows][self.metrics[0].name])
        return any([self._observe(number) for number in range(n_rounds)][-1:])

    def _observe(self, number: int) -> bool:
        """Let early stopping see a new round of the history; return True if patience is over."""
        if self.best is None:
            return False
        score = self.history[self.rows][self.metrics[0].name][number]
        return self.best.observe(self.n_first + number + 1, score)

    def last_round(self, state: BoostState) -> Rounds:
        """Return the last round with its scores, for the checkpoint."""
        own = (self.history.get(rows, {}) for rows in (*self.scored, "out_of_bag"))
        scores = [curve[-1] for curves in own for curve in curves.values()]
        return Rounds(
            first=state.n_rounds - self.n_first - 1,
            trees=tuple(state.mode.newest()),
            base_score=state.base,
            scores=np.array([scores], dtype=np.float64),
            # A fit that ran out of time continues in the next run.
            ended=self.stopped_by in ("early_stopping", "callback"),
        )

    def note_forest(self, state: BoostState) -> None:
        """Score a random forest on each row by the trees that were not grown on it."""
        params = state.params
        if not isinstance(state.train, MeanScores) or not params.oob_score:
            return
        if self.best is not None and self.best.round != state.n_rounds:
            return  # the model keeps fewer trees, whose score is unknown
        name = _OUT_OF_BAG_SCORES.get(scored_as(self.objective))
        metrics = make_metrics(["loss"] if name is None else [name, "loss"], self.objective)
        self.out_of_bag = dict(state.scores_of(metrics, *state.train.out_of_bag()))


def record_of(n_rows: int, params: BoostParams, watch: Watch) -> dict[str, Any]:
    """Return the training record for the model file; it has no threads, times or machine."""
    plain = asdict(replace(params, learning_rate=1.0))
    del plain["device"]  # it does not affect the model
    plain["learning_rate"] = rate_record(params.learning_rate, watch.n_kept, watch.n_first)
    # NumPy numbers become Python numbers.
    parameters = {
        n: value.item() if hasattr(value, "item") else value for n, value in plain.items()
    }
    if params.feature_crosses is not None:
        parameters["feature_crosses"] = [list(cross) for cross in params.feature_crosses]
    if params.max_conflict_rate == 0.0:
        # Without conflicts, bundling does not affect the model.
        for name in ("bundle_features", "bundle_order", "bundle_conflicts"):
            del parameters[name]
    named = [name for name in watch.scored if name != TRAINING]
    if_any = {
        "watched": watch.metrics[0].name if watch.metrics else None,  # also if stopping is off
        "init_rounds": watch.n_first,
        "init_scores": dict(watch.start_scores),
        "validation_sets": [] if named == [ONLY] else named,
        "out_of_bag": watch.out_of_bag,
    }
    return {
        "parameters": parameters,
        "n_rows": n_rows,
        "history": {
            rows: {name: list(scores) for name, scores in curves.items()}
            for rows, curves in watch.history.items()
        },
        "best_round": None if watch.best is None else watch.best.round,
        "stopped_by": watch.stopped_by,
        **{name: value for name, value in if_any.items() if value},
        **loss_record(watch.objective),
    }
