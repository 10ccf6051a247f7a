"""What callbacks and the progress bar learn while folds choose the settings of a fit."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hedgerow import Dataset, HedgerowClassifier, HedgerowRegressor, train
from hedgerow.boosting.loop.callbacks import FoldRound, ProgressBar, Round
from hedgerow.boosting.loop.training_loop import INTERRUPTS
from hedgerow.errors import InterruptedFitWarning, ParameterError
from tests.helpers.terminals import Terminal

N = 160
RNG = np.random.default_rng(3)
X = RNG.normal(size=(N, 4))
Y = X[:, 0] * X[:, 1] + X[:, 2] + 0.3 * RNG.normal(size=N)
CLASSES = (Y > 0.0).astype(np.int64)
IN_FILES = {"early_stopping": "cv", "patience": 3, "n_estimators": 12, "learning_rate": 0.4}


class Listener:
    """A callback that keeps all states, of the folds and of the model."""

    def __init__(self, answer: Any = None) -> None:
        self.of_folds: list[FoldRound] = []
        self.of_model: list[Round] = []
        self._answer = answer

    def __call__(self, state: Round) -> None:
        self.of_model.append(state)

    def on_folds(self, state: FoldRound) -> Any:
        self.of_folds.append(state)
        if isinstance(self._answer, BaseException):
            raise self._answer
        return self._answer


def lines_of(terminal: Terminal) -> list[str]:
    return [line.removeprefix("\x1b[2K") for line in terminal.getvalue().split("\r")[1:]]


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_callback_that_asks_sees_the_rounds_of_every_candidate(n_jobs: int) -> None:
    listener, n_rounds = Listener(), list[int]()

    def count(state: Round) -> None:
        n_rounds.append(state.round)

    model = HedgerowClassifier(random_state=1, n_jobs=n_jobs, callbacks=[listener, count])
    model.fit(X, CLASSES)
    assert n_rounds == list(range(1, model.best_iteration_ + 1))  # of the model alone
    assert [state.round for state in listener.of_model] == n_rounds
    states, tried = listener.of_folds, model.chosen_params_["tried"]
    assert sorted({state.candidate for state in states}) == list(range(1, len(tried) + 1))
    assert {state.n_folds for state in states} <= {1, 5}
    for number, entry in enumerate(tried, start=1):
        own = [s for s in states if s.candidate == number and s.n_folds == 5]
        rounds = [state.round for state in own]
        assert rounds == sorted(set(rounds))
        assert entry["rounds"] <= rounds[-1] <= own[-1].n_rounds
        assert own[-1].best_score <= entry["score"] <= own[-1].score
        assert own[-1].metric == "loss"
    assert all(s.candidate <= s.n_candidates for s in states)
    assert [s.elapsed for s in states] == sorted(s.elapsed for s in states)
    assert states[-1].elapsed <= listener.of_model[0].elapsed


def test_watching_the_folds_changes_no_byte() -> None:
    silent = HedgerowRegressor(random_state=1).fit(X, Y).booster_.to_bytes()
    watched = HedgerowRegressor(random_state=1, callbacks=Listener(), progress=True).fit(X, Y)
    assert watched.booster_.to_bytes() == silent


def test_the_bar_shows_stage_folds_candidate_and_best_score(monkeypatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(ProgressBar, "SECONDS_BETWEEN", 0.0)
    monkeypatch.setenv("COLUMNS", "200")
    model = HedgerowClassifier(random_state=1, progress=True).fit(X, CLASSES)
    lines, tried = lines_of(terminal), model.chosen_params_["tried"]
    for number in range(1, len(tried) + 1):
        assert any(f"choosing on 5 folds: candidate {number} of at most " in line for line in lines)
    best = f"best loss of folds {min(entry['score'] for entry in tried):.5g}"
    assert sum(best in line for line in lines) > model.best_iteration_
    assert f"{model.best_iteration_}/{model.best_iteration_}  " in lines[-1]
    assert best in lines[-1]
    assert "choosing" not in lines[-1]


def test_the_last_line_has_the_scores_of_the_best_round(monkeypatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "200")
    model = HedgerowClassifier(
        n_estimators=200, learning_rate=0.9, early_stopping=True, progress=True, patience=5
    ).fit(X, CLASSES)
    losses = model.evals_result_["validation"]["loss"]
    best = model.best_iteration_
    assert best < len(losses)
    last = lines_of(terminal)[-1]
    assert f" {len(losses)}/200  stopped early, best round {best}  " in last
    assert f"validation loss {losses[best - 1]:.5g} " in last


@pytest.mark.parametrize("answer", [True, False, "go on"])
def test_folds_take_no_answer(answer: Any) -> None:
    model = HedgerowClassifier(callbacks=Listener(answer))
    with pytest.raises(ParameterError, match=r"on_folds of callback 'Listener' returned .*None"):
        model.fit(X, CLASSES)
    assert not hasattr(model, "n_iter_")


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_interrupt_from_a_callback_ends_the_folds(n_jobs: int, monkeypatch) -> None:
    monkeypatch.setattr(INTERRUPTS, "last", -1e9)
    model = HedgerowClassifier(n_jobs=n_jobs, callbacks=Listener(KeyboardInterrupt()))
    with pytest.warns(InterruptedFitWarning, match="while folds chose"):
        model.fit(X, CLASSES)
    assert model.stopped_by_ == "interrupt"
    assert len(model.chosen_params_["tried"]) == 1


def test_folds_of_rows_in_batches_report_too() -> None:
    table = pd.DataFrame(X, columns=list("abcd")).assign(y=Y)
    rows = Dataset.from_batches(lambda: iter([table[:90], table[90:]]), target="y")
    listener = Listener()
    model = train({"objective": "squared_error", **IN_FILES}, rows, callbacks=listener)
    assert len(listener.of_model) == model.num_rounds
    states = listener.of_folds
    rounds = [state.round for state in states]
    assert rounds == sorted(set(rounds))
    assert {(s.candidate, s.n_candidates, s.n_folds, s.n_rounds) for s in states} == {(1, 1, 5, 12)}
    assert states[-1].best_score <= min(state.score for state in states)
