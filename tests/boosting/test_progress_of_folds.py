"""What the progress bar shows while folds choose the settings of a fit."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from hedgerow import HedgerowClassifier, HedgerowRegressor
from hedgerow.boosting.loop.callbacks import ProgressBar
from tests.helpers.terminals import Terminal

N = 160
RNG = np.random.default_rng(3)
X = RNG.normal(size=(N, 4))
Y = X[:, 0] * X[:, 1] + X[:, 2] + 0.3 * RNG.normal(size=N)
CLASSES = (Y > 0.0).astype(np.int64)


def lines_of(terminal: Terminal) -> list[str]:
    return [line.removeprefix("\x1b[2K") for line in terminal.getvalue().split("\r")[1:]]


def test_watching_the_folds_changes_no_byte() -> None:
    silent = HedgerowRegressor(random_state=1).fit(X, Y).booster_.to_bytes()
    watched = HedgerowRegressor(random_state=1, progress=True).fit(X, Y)
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


def test_an_interrupt_ends_the_folds(monkeypatch) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ProgressBar, "show_folds", interrupt)
    model = HedgerowClassifier(progress=True)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, CLASSES)
    assert not hasattr(model, "booster_")


def test_callbacks_are_silent_while_folds_choose() -> None:
    n_rounds = list[int]()
    model = HedgerowClassifier(
        random_state=1, callbacks=lambda state: n_rounds.append(state.round)
    ).fit(X, CLASSES)
    assert n_rounds == list(range(1, model.best_iteration_ + 1))
