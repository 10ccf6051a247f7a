"""What is noted of a fit after each round: scores, early stopping, callbacks, the record.

Glossary
--------
watch     the listener of one fit: it scores the watched rows, tells the callbacks, and
          says when the fit should end
record    what the model file tells of the training
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.boosting.callbacks import (
    Callback,
    History,
    Round,
    call_all,
    read_only,
)
from hedgerow.boosting.checkpoint import Rounds, one_round
from hedgerow.boosting.rounds import BoostState, TrainingData
from hedgerow.boosting.sample import Sample
from hedgerow.boosting.stopping import BestRound, Rising, StoppingParams
from hedgerow.errors import LossError, StorageError
from hedgerow.growing.tree import GrownTree
from hedgerow.metrics import (
    Metric,
    evaluate,
    make_metrics,
    scored_as,
)
from hedgerow.objectives import Objective, loss_record
from hedgerow.params import BoostParams

_OUT_OF_BAG_SCORES = {"regression": "r2", "two classes": "accuracy", "classes": "accuracy"}


class RoundState(Protocol):
    """What a :class:`Watch` needs to know of a fit after a round."""

    n_rounds: int
    oob_improvement: list[float]

    @property
    def base_score(self) -> FloatArray:
        """Raw score before the first tree."""

    def newest(self) -> list[GrownTree]:
        """The trees of the last round as they were added."""


@dataclass(slots=True, eq=False)
class Watch:
    """Scores, early stopping and callbacks of one fit.

    Rounds are counted with the ``n_first`` that a model had which the fit has begun with;
    scores are noted of the others.
    """

    objective: Objective
    metrics: tuple[Metric, ...]
    sample: Sample | None
    rows: str
    best: BestRound | None
    callbacks: tuple[Callback, ...]
    n_rounds: int
    by_out_of_bag: bool = False
    n_first: int = 0
    history: History = field(default_factory=dict)
    out_of_bag: dict[str, float] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)

    def after_round(self, state: RoundState) -> bool:
        """Note the scores, tell the callbacks; True if the fit should end."""
        stop = False
        if self.metrics:
            scores = self._scores(state)
            curves = self.history.setdefault(self.rows, {name: [] for name in scores})
            for name, score in scores.items():
                curves[name].append(score)
            if self.best is not None and not self.by_out_of_bag:
                stop = self.best.observe(state.n_rounds, scores[self.metrics[0].name])
        if state.oob_improvement:
            stop = self._note_out_of_bag(state) or stop
        if self.callbacks:
            elapsed = time.monotonic() - self.started
            seen = Round(state.n_rounds, self.n_rounds, read_only(self.history), elapsed)
            stop = call_all(self.callbacks, seen) or stop
        return stop

    def take_over(self, earlier: Rounds, state: RoundState) -> bool:
        """Note the scores of rounds that were done before; True if the fit ended with them."""
        names = [metric.name for metric in self.metrics]
        if earlier.scores.shape[1] != len(names):
            raise StorageError(
                f"the checkpoint has {earlier.scores.shape[1]} scores of each round, this fit "
                f"{len(names)}: remove the checkpoint."
            )
        if names:
            self.history[self.rows] = dict(zip(names, earlier.scores.T.tolist(), strict=True))
        if state.oob_improvement:
            self.history["out_of_bag"] = {"improvement": list(state.oob_improvement)}
        if self.best is not None:
            for n_rounds in range(1, earlier.n_rounds + 1):
                if self.by_out_of_bag:
                    score = math.fsum(state.oob_improvement[:n_rounds])
                else:
                    score = self.history[self.rows][self.metrics[0].name][n_rounds - 1]
                self.best.observe(self.n_first + n_rounds, score)
        return earlier.ended

    def last_round(self, state: RoundState, ended: bool) -> Rounds:
        """The last round with its scores, to be recorded."""
        scores = [curve[-1] for curve in self.history.get(self.rows, {}).values()]
        improvement = state.oob_improvement[-1] if state.oob_improvement else math.nan
        return one_round(
            state.n_rounds - self.n_first - 1,
            state.newest(),
            state.base_score,
            scores,
            improvement,
            ended,
        )

    def _note_out_of_bag(self, state: RoundState) -> bool:
        """Note how the round changed the loss of the rows that it left out."""
        curves = self.history.setdefault("out_of_bag", {"improvement": []})
        curves["improvement"].append(state.oob_improvement[-1])
        if self.best is None or not self.by_out_of_bag:
            return False
        return self.best.observe(state.n_rounds, math.fsum(state.oob_improvement))

    def note_forest(self, state: BoostState, data: TrainingData) -> None:
        """Score a random forest on the rows by the trees that did not see them."""
        unseen = state.out_of_bag()
        if unseen is None or len(unseen[0]) == 0:
            return
        if self.best is not None and self.best.round != state.n_rounds:
            return  # the model keeps fewer trees: their own score is not known
        rows, raw = unseen
        name = _OUT_OF_BAG_SCORES.get(scored_as(self.objective))
        target = data.target[rows]
        weight = None if data.weight is None else data.weight[rows]
        metrics = make_metrics(["loss"] if name is None else [name, "loss"], self.objective)
        self.out_of_bag = evaluate(metrics, self.objective, target, raw, weight)

    def _scores(self, state: RoundState) -> dict[str, float]:
        assert isinstance(state, BoostState)
        raw = state.train_raw if self.rows == "train" else state.validation_raw
        sample = self.sample
        assert raw is not None
        assert sample is not None
        if raw.shape[1] != sample.n_rows:  # copies of the rows: the first speaks for all
            raw = np.ascontiguousarray(raw[:, : sample.n_rows])
        try:
            return evaluate(self.metrics, self.objective, sample.target, raw, sample.weight)
        except LossError as error:
            raise LossError(f"round {state.n_rounds}: {error}") from error.__cause__


def best_round_of(
    metric: Metric, stopping: StoppingParams, stops: tuple[int, float] | None
) -> BestRound | None:
    """What looks for the best round; None if the fit cannot stop early."""
    if stops is None:
        return None
    return BestRound(Rising() if stopping.by_out_of_bag else metric, *stops)


def record_of(n_rows: int, params: BoostParams, watch: Watch) -> dict[str, Any]:
    """What the model file tells of the training; nothing of threads, time or machine."""
    objective = watch.objective
    best = watch.best.round if watch.best is not None and watch.history else None
    parameters = {name: _plain(value) for name, value in asdict(params).items()}
    if params.max_conflict_rate == 0.0:
        # Whether and how features share columns has then no part in the model.
        for name in ("bundle_features", "bundle_order", "bundle_conflicts"):
            del parameters[name]
    return {
        "parameters": parameters,
        "n_rows": n_rows,
        "history": watch.history,
        "best_round": best,
        **({"init_rounds": watch.n_first} if watch.n_first else {}),
        **({"out_of_bag": watch.out_of_bag} if watch.out_of_bag else {}),
        **loss_record(objective),
    }


def _plain(value: Any) -> Any:
    """A NumPy number as a Python one."""
    item: Callable[[], Any] | None = getattr(value, "item", None)
    return value if item is None else item()
