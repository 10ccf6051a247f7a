"""Batches of rounds give the bytes of fits that grow rounds one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow import HedgerowClassifier, HedgerowRegressor, train
from hedgerow.boosting.loop import rounds_ahead
from hedgerow.boosting.loop.rounds_ahead import RoundsAhead, rounds_at_once
from hedgerow.boosting.loop.scored import ScoredRows
from hedgerow.boosting.validation import cross
from hedgerow.errors import InterruptedFitWarning, LossError
from hedgerow.growing.core.grower import TreeGrower
from hedgerow.metrics import evaluate, evaluate_rounds, make_metrics
from hedgerow.objectives import make_objective
from tests.fuzz.checks import arguments, bytes_of, make
from tests.fuzz.configurations import draw_configuration
from tests.helpers.features import parts_of

RNG = np.random.default_rng(7)
X = RNG.normal(size=(300, 5))
X[RNG.random(X.shape) < 0.05] = np.nan
SIGNAL = np.nan_to_num(X[:, 0] + X[:, 1] * X[:, 2]) + 0.3 * RNG.normal(size=300)
CLASSES = np.digitize(SIGNAL, [-0.7, 0.7])
SEEN, UNSEEN = slice(0, 220), slice(220, 300)


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the number of rounds of each batch of the fits of a test."""
    found: list[int] = []
    grow = TreeGrower.grow_rounds

    def noted(self: TreeGrower, first: int, n_rounds: int, joiner: Any) -> Any:
        found.append(n_rounds)
        return grow(self, first, n_rounds, joiner)

    monkeypatch.setattr(TreeGrower, "grow_rounds", noted)
    return found


def fit_one_by_one(fit: Callable[[], Any]) -> Any:
    """Return the result of a fit without batches."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rounds_ahead, "_MOST_ROUNDS", 1)
        return fit()


FEATURES = """
plain
sample + columns of trees + columns of nodes
GOSS
lines + sample
lines + symmetric + sample
symmetric
classes + lines + trees apart + sample
two targets + trees apart
stops early + weights
stops early + lines + r2
high + folds
high + statistics + sample
"""
PLAIN = {"n_estimators": 23, "max_leaves": 6, "min_samples_leaf": 3, "n_jobs": 1}


def fit_of(feature: str) -> Callable[[], Any]:
    params, rows = parts_of(feature)
    params |= {"n_estimators": 300 if "stops early" in feature else 23, "n_jobs": 1}
    return lambda: train(params, rows.in_memory())


def continued() -> Any:
    first = HedgerowRegressor(**PLAIN, subsample=0.7).fit(X, SIGNAL)
    more = HedgerowRegressor(**{**PLAIN, "n_estimators": 40}, subsample=0.7)
    return more.fit(X, SIGNAL, init_model=first).booster_


FITS: dict[str, Callable[[], Any]] = {
    **{feature: fit_of(feature) for feature in FEATURES.split("\n")[1:-1]},
    "lines of one column": lambda: (
        HedgerowRegressor(**PLAIN, linear_leaves=True).fit(X[:, :1], SIGNAL).booster_
    ),
    "automatic": lambda: HedgerowRegressor(n_jobs=1).fit(X, SIGNAL).booster_,
    "automatic classes": lambda: HedgerowClassifier(n_jobs=1).fit(X[:90], CLASSES[:90]).booster_,
    "continued": continued,
}


@pytest.mark.parametrize("name", FITS)
def test_models_have_the_bytes_of_rounds_grown_one_by_one(name: str, batches: list[int]) -> None:
    expected = fit_one_by_one(FITS[name]).to_bytes()
    assert batches == []
    assert FITS[name]().to_bytes() == expected
    assert max(batches) > 1


@given(st.integers(0, 10_000))
def test_random_fits_have_the_bytes_of_rounds_grown_one_by_one(number: int) -> None:
    configuration = draw_configuration(5, number, core=True)

    def fit() -> bytes:
        return bytes_of(make(configuration, n_jobs=1).fit(**arguments(configuration)))

    try:
        expected = fit_one_by_one(fit)
    except Exception as error:
        with pytest.raises(type(error)):
            fit()
        return
    assert fit() == expected


def test_batches_grow_with_the_fit(batches: list[int]) -> None:
    HedgerowRegressor(n_estimators=150, n_jobs=1, early_stopping=False).fit(X, SIGNAL)
    assert batches[:3] == [4, 4, 4]
    assert max(batches) == 16
    assert sum(batches) == 150


@pytest.mark.parametrize(
    "params",
    [
        {"objective": "absolute_error"},
        {"objective": "cox"},
        {"boosting": "dart"},
        {"boosting": "rf", "subsample": 0.5},
        {"num_parallel_tree": 2},
        {"oob_score": True, "subsample": 0.5},
        {"learning_rate": [0.3] * 5},
        {"callbacks": lambda seen: None},
        {"progress": True},
        {"time_budget": 100.0},
        {"tree_method": "exact"},
    ],
    ids=lambda params: next(iter(params)),
)
def test_fits_with_something_between_two_rounds_have_no_batches(
    params: dict[str, Any], batches: list[int]
) -> None:
    plain = {"n_estimators": 5, "early_stopping": False, "n_jobs": 1}
    HedgerowRegressor(**{**plain, **params}).fit(X, np.abs(SIGNAL) + 0.1)
    assert batches == []


def test_scores_of_training_rows_are_those_of_their_round(batches: list[int]) -> None:
    params = {"n_estimators": 12, "early_stopping": False, "n_jobs": 1}
    model = HedgerowRegressor(**params, eval_metric="rmse").fit(X, SIGNAL)
    assert batches == []
    errors = [np.sqrt(np.mean((p - SIGNAL) ** 2)) for p in model.staged_predict(X)]
    np.testing.assert_allclose(model.evals_result_["train"]["rmse"], errors)


def test_many_rows_have_no_batches() -> None:
    assert rounds_at_once(n_cells=1_600_001, n_scores=0, n_nodes=8) == 0
    assert rounds_at_once(n_cells=1, n_scores=125_001, n_nodes=8) == 0
    assert rounds_at_once(n_cells=1, n_scores=0, n_nodes=4_097) == 0
    assert rounds_at_once(n_cells=400_000, n_scores=1_000, n_nodes=8) == 4
    assert rounds_at_once(n_cells=1, n_scores=0, n_nodes=1) == 16


def test_an_interrupt_within_a_batch_keeps_the_rounds_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    grow, n_batches = TreeGrower.grow_rounds, []

    def interrupted(self: TreeGrower, first: int, n_rounds: int, joiner: Any) -> Any:
        n_batches.append(first)
        if len(n_batches) == 3:
            raise KeyboardInterrupt
        return grow(self, first, n_rounds, joiner)

    monkeypatch.setattr(TreeGrower, "grow_rounds", interrupted)
    plain = {"max_leaves": 5, "early_stopping": False, "n_jobs": 1}
    with pytest.warns(InterruptedFitWarning, match="8 of 50 rounds"):
        found = HedgerowRegressor(**plain, n_estimators=50).fit(X, SIGNAL)
    monkeypatch.undo()
    expected = HedgerowRegressor(**plain, n_estimators=8).fit(X, SIGNAL)
    np.testing.assert_array_equal(found.predict(X), expected.predict(X))


def test_a_score_that_is_nan_is_an_error_of_its_own_round(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = RoundsAhead.scores

    def spoiled(self: RoundsAhead) -> Any:
        for part in self._scores:
            part["loss"][-1] = np.nan  # the last round of the batch
        return scores(self)

    monkeypatch.setattr(RoundsAhead, "scores", spoiled)
    params = {"n_estimators": 40, "early_stopping": True, "patience": 40, "n_jobs": 1}
    with pytest.raises(LossError, match=r"round 4: .* is NaN"):
        HedgerowRegressor(**params).fit(
            X[SEEN], SIGNAL[SEEN], X_val=X[UNSEEN], y_val=SIGNAL[UNSEEN]
        )


def test_a_score_that_is_nan_is_an_error_of_its_own_round_in_folds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = ScoredRows.score_rounds

    def spoiled(self: ScoredRows, *given: Any) -> Any:
        found = real(self, *given)
        found["loss"][-1] = np.nan  # the last round of the batch
        return found

    monkeypatch.setattr(ScoredRows, "score_rounds", spoiled)
    with pytest.raises(LossError, match=r"fold 0, round 4: .* is NaN"):
        HedgerowRegressor(n_estimators=60, early_stopping="cv", n_jobs=1).fit(X, SIGNAL)


def test_folds_do_all_ready_rounds_in_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    advance, rounds = cross.GrownFold.advance, []

    def noted(self: Any) -> bool:
        ended = advance(self)
        rounds.append(len(self.curve))
        return ended

    monkeypatch.setattr(cross.GrownFold, "advance", noted)
    HedgerowRegressor(n_estimators=60, early_stopping="cv", n_jobs=1).fit(X, SIGNAL)
    assert rounds[0] == 4
    assert max(rounds) > 8


def test_no_batch_passes_the_round_in_which_patience_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    finish, done = cross.GrownFold.finish, []

    def noted(self: Any, pool: Any, *args: Any) -> Any:
        done.append(len(self.curve) - pool.best.round)
        return finish(self, pool, *args)

    monkeypatch.setattr(cross.GrownFold, "finish", noted)
    params = {"n_estimators": 400, "early_stopping": "cv", "patience": 7, "max_leaves": 31}
    model = HedgerowRegressor(**params, learning_rate=0.3, n_jobs=1).fit(X, SIGNAL)
    assert model.n_iter_ < 300
    assert done == [7] * 5


@pytest.mark.parametrize(
    ("objective", "y"),
    [("squared_error", SIGNAL), ("logistic", CLASSES == 1), ("softmax", CLASSES)],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_scores_of_several_rounds_have_the_bits_of_each(
    objective: str, y: Any, weighted: bool
) -> None:
    loss = make_objective(objective, 3 if objective == "softmax" else 1)
    raw = 3.0 * RNG.normal(size=(loss.n_outputs, 7, 300))
    target = np.asarray(y, dtype=np.float64)
    weight = RNG.uniform(size=300) if weighted else None
    metrics = make_metrics(["loss"], loss)
    found = evaluate_rounds(metrics, np.tile(target, 9), raw, weight)
    assert found is not None
    for number in range(7):
        one = evaluate(metrics, loss, target, np.ascontiguousarray(raw[:, number]), weight)
        assert one == {"loss": found["loss"][number]}


def test_metrics_of_predictions_are_computed_round_by_round() -> None:
    metrics = make_metrics(["loss", "mae"], make_objective("squared_error"))
    assert evaluate_rounds(metrics, np.tile(SIGNAL, 2), np.zeros((1, 2, 300)), None) is None
