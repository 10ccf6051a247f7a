"""Early stopping, validation rows, callbacks and progress of a fit."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hedgerow.boosting.loop.callbacks import ProgressBar, Round
from hedgerow.boosting.loop.driver import FitOptions
from hedgerow.boosting.loop.sample import Sample
from hedgerow.boosting.row_data.checks import check_offset, check_vector, check_weight
from hedgerow.boosting.validation.stopping import BestRound, StoppingParams, rows_aside
from hedgerow.data import read_table
from hedgerow.errors import DataError, DataTypeError, LossError, ParameterError
from hedgerow.io import model_to_bytes
from hedgerow.metrics import METRICS
from hedgerow.model.predict import Predictor
from hedgerow.objectives import make_objective
from hedgerow.params import BoostParams
from tests.helpers.fitting import fit_sample
from tests.helpers.terminals import Terminal

PARAMS = BoostParams(n_estimators=8, min_samples_leaf=5, max_leaves=6)
OBJECTIVE = make_objective("squared_error")


def sample(n_rows: int = 200, seed: int = 0, weight=None, signal: float = 1.0) -> Sample:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 4))
    return Sample(read_table(X), signal * X[:, 0] + rng.normal(size=n_rows), weight=weight)


def raw_scores(model, values):
    return Predictor(model.forest, model.schema.kinds).raw_scores(values)


# -- early stopping ------------------------------------------------------------


def test_model_ends_at_the_best_round() -> None:
    params = BoostParams(n_estimators=200, learning_rate=0.5, min_samples_leaf=2, max_leaves=20)
    train, validation = sample(), sample(seed=1, signal=0.0)
    model = fit_sample(train, OBJECTIVE, params, validation=[validation])
    curve = model.training["history"]["validation"]["loss"]
    best = model.training["best_round"]
    assert best == 1 + int(np.argmin(curve)) == model.forest.n_rounds
    assert len(curve) == best + 10 < 200
    raw = raw_scores(model, validation.table.values)
    assert OBJECTIVE.loss(validation.target, raw, None) == pytest.approx(min(curve), rel=1e-12)


def test_without_early_stopping_all_rounds_are_kept() -> None:
    model = fit_sample(
        sample(),
        OBJECTIVE,
        PARAMS,
        FitOptions(StoppingParams(early_stopping=False)),
        validation=[sample(seed=1, signal=-3.0)],
    )
    assert model.forest.n_rounds == PARAMS.n_estimators
    assert model.training["best_round"] is None
    assert len(model.training["history"]["validation"]["loss"]) == PARAMS.n_estimators


def test_first_metric_decides() -> None:
    params = BoostParams(n_estimators=40, learning_rate=0.5, min_samples_leaf=2)
    model = fit_sample(
        sample(),
        OBJECTIVE,
        params,
        FitOptions(eval_metric=["r2", "rmse"]),
        validation=[sample(seed=1)],
    )
    curves = model.training["history"]["validation"]
    assert list(curves) == ["r2", "rmse"]
    assert model.training["best_round"] == 1 + int(np.argmax(curves["r2"]))


@pytest.mark.parametrize(
    ("choice", "given", "expected"),
    [("auto", False, False), ("auto", True, True), (True, False, True), (False, True, False)],
)
def test_when_early_stopping_is_on(choice, given, expected) -> None:
    assert StoppingParams(early_stopping=choice).is_on(given) is expected


def test_patience_counts_rounds_without_improvement() -> None:
    best = BestRound(METRICS["rmse"], patience=3, min_delta=0.0)
    answers = [best.observe(i + 1, s) for i, s in enumerate([5.0, 4.0, 4.0, 4.5, 3.9, 4, 4, 4])]
    assert answers == [False] * 7 + [True]
    assert (best.round, best.score) == (5, 3.9)


def test_min_delta_ends_a_slow_improvement_at_its_best_round() -> None:
    best = BestRound(METRICS["rmse"], patience=4, min_delta=0.1)
    answers = [best.observe(i + 1, 1.0 - 0.01 * i) for i in range(5)]
    assert answers == [False] * 4 + [True]
    assert best.round == 5


def test_nan_scores_run_out_of_patience() -> None:
    best = BestRound(METRICS["rmse"], patience=2, min_delta=0.0)
    answers = [best.observe(i + 1, s) for i, s in enumerate([1.0, math.nan, math.nan])]
    assert answers == [False, False, True]
    assert best.round == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"early_stopping": "yes"},
        {"early_stopping": 1},
        {"validation_fraction": 1.0},
        {"validation_fraction": 0},
        {"patience": 0},
        {"patience": 2.5},
        {"min_delta": -1.0},
        {"min_delta": math.nan},
    ],
)
def test_wrong_settings_are_named(wrong) -> None:
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        StoppingParams(**wrong)


# -- validation rows -----------------------------------------------------------


def test_split_is_stratified() -> None:
    target = np.repeat([0.0, 1.0, 2.0, 3.0], [600, 300, 10, 1])
    aside = rows_aside(target, 0.1, stratify=True, seed=3)
    assert np.bincount(target[aside].astype(int), minlength=4).tolist() == [60, 30, 1, 0]
    assert (rows_aside(target, 0.1, stratify=True, seed=3) == aside).all()
    assert (rows_aside(target, 0.1, stratify=True, seed=4) != aside).any()


def test_rows_are_set_aside_by_seed() -> None:
    params = BoostParams(n_estimators=3, min_samples_leaf=5, seed=5)
    stopping = StoppingParams(early_stopping=True, validation_fraction=0.25)
    train = sample()
    model = fit_sample(train, OBJECTIVE, params, FitOptions(stopping))
    chosen = rows_aside(train.target, 0.25, stratify=False, seed=5)
    kept, aside = np.flatnonzero(~chosen), np.flatnonzero(chosen)
    assert model.training["n_rows"] == len(kept) == 150
    by_hand = fit_sample(train.take(kept), OBJECTIVE, params, validation=[train.take(aside)])
    assert model_to_bytes(model) == model_to_bytes(by_hand)


def test_few_rows_give_the_base_value_only() -> None:
    few = sample(n_rows=9)
    model = fit_sample(few, OBJECTIVE, PARAMS)
    assert model.forest.n_trees == 0
    base = OBJECTIVE.initial_score(few.target, None)
    np.testing.assert_array_equal(raw_scores(model, few.table.values)[0], base.repeat(9))


# -- history and callbacks -----------------------------------------------------


def test_training_rows_are_evaluated_where_there_are_no_others() -> None:
    model = fit_sample(sample(), OBJECTIVE, PARAMS, FitOptions(eval_metric="rmse"))
    curve = model.training["history"]["train"]["rmse"]
    assert len(curve) == PARAMS.n_estimators
    assert curve == sorted(curve, reverse=True)
    raw = raw_scores(model, sample().table.values)
    assert METRICS["rmse"].function(sample().target, raw[0], None) == pytest.approx(curve[-1])


def test_callback_sees_each_round_and_can_stop() -> None:
    seen: list[Round] = []

    def stop_after_three(state: Round) -> bool:
        seen.append(state)
        return state.round == 3

    model = fit_sample(
        sample(), OBJECTIVE, PARAMS, FitOptions(eval_metric="loss", callbacks=stop_after_three)
    )
    assert model.forest.n_rounds == 3
    assert [state.round for state in seen] == [1, 2, 3]
    assert {state.n_rounds for state in seen} == {PARAMS.n_estimators}
    assert [len(state.history["train"]["loss"]) for state in seen] == [1, 2, 3]
    assert seen[0].elapsed <= seen[1].elapsed <= seen[2].elapsed


def test_callback_cannot_change_what_it_sees() -> None:
    def meddle(state: Round) -> None:
        with pytest.raises(AttributeError):
            state.round = 1
        with pytest.raises(TypeError):
            state.history["train"]["loss"][0] = 0.0
        with pytest.raises(TypeError):
            state.history["other"] = {}

    fit_sample(sample(), OBJECTIVE, PARAMS, FitOptions(eval_metric="loss", callbacks=[meddle]))


def test_who_watches_has_no_part_in_the_model() -> None:
    plain = fit_sample(sample(), OBJECTIVE, PARAMS)
    watched = fit_sample(
        sample(), OBJECTIVE, PARAMS, FitOptions(callbacks=lambda state: None, progress=True)
    )
    assert model_to_bytes(plain) == model_to_bytes(watched)


@pytest.mark.parametrize("wrong", [3, "print", [print, 3]])
def test_callbacks_must_be_callable(wrong) -> None:
    with pytest.raises(ParameterError, match="callbacks must be"):
        fit_sample(sample(), OBJECTIVE, PARAMS, FitOptions(callbacks=wrong))


def test_callback_must_answer_true_or_none() -> None:
    def noisy(state: Round) -> str:
        return "go"

    with pytest.raises(ParameterError, match="'noisy' returned 'go'"):
        fit_sample(sample(), OBJECTIVE, PARAMS, FitOptions(callbacks=noisy))


def test_metric_error_names_the_round() -> None:
    def fails_later(y, prediction, weight):
        fails_later.calls += 1
        return math.nan if fails_later.calls == 3 else 1.0

    fails_later.calls = 0
    with pytest.raises(LossError, match=r"round 3: eval_metric 'fails_later' returned nan"):
        fit_sample(sample(), OBJECTIVE, PARAMS, FitOptions(eval_metric=fails_later))


def state(done: int) -> Round:
    return Round(done, 10, {"validation": {"loss": (0.5,) * done}}, 1.25)


def test_progress_bar_on_a_terminal() -> None:
    stream = Terminal()
    bar = ProgressBar(stream)
    for done in range(1, 11):
        bar(state(done))
    bar.close()
    text = stream.getvalue()
    assert text.endswith("] 10/10  validation loss 0.5  1.2 s\n")
    assert text.count("\r") <= 3


@pytest.mark.parametrize("how", ["early_stopping", "callback", "time_budget", "rounds"])
def test_progress_bar_says_why_a_fit_ended(how, monkeypatch) -> None:
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    stopping = StoppingParams(True, patience=2, time_budget=1e-9 if how == "time_budget" else None)
    n_rounds = 3 if how == "rounds" else 500
    stop = (lambda state: state.round == 4) if how == "callback" else None
    params = BoostParams(n_estimators=n_rounds, learning_rate=0.5)
    model = fit_sample(
        sample(), OBJECTIVE, params, FitOptions(stopping, progress=True, callbacks=stop)
    )
    assert model.training["stopped_by"] == how
    last = stream.getvalue().rpartition("\r")[2]
    best, done = model.training["best_round"], len(model.training["history"]["validation"]["loss"])
    assert f" {done}/{n_rounds}  " in last
    words = {"early_stopping": "stopped early", "callback": "stopped by a callback",
             "time_budget": "stopped by the time budget", "rounds": None}[how]  # fmt: skip
    assert ("stopped" in last) == (words is not None)
    assert words is None or words in last
    assert (f"best round {best}" in last) == (best < done)


def test_progress_bar_is_quiet_in_a_pipe(capsys) -> None:
    fit_sample(sample(), OBJECTIVE, PARAMS, FitOptions(progress=True))
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""


# -- offsets and checks --------------------------------------------------------


@pytest.mark.parametrize(
    ("weight", "words"),
    [
        ([1, 2], "2 values for 3 rows"),
        ([1.0, -2.0, 1.0], "row 1 has -2"),
        ([1.0, np.nan, np.nan], r"NaN \(2 of 3 values, the first in row 1\)"),
        ([1.0, 1.0, np.inf], "infinity"),
        ([0, 0, 0], "zero in all 3 rows"),
        ([[1.0], [1.0], [1.0]], "1D"),
    ],
)
def test_bad_weights_are_named(weight, words) -> None:
    with pytest.raises(DataError, match=words) as error:
        check_weight(weight, 3)
    assert "sample_weight" in str(error.value)


def test_numbers_are_read_from_any_list() -> None:
    np.testing.assert_array_equal(check_vector([1, 2.5, True], 3, "y"), [1.0, 2.5, 1.0])
    np.testing.assert_array_equal(check_vector([[1], [2]], 2, "y"), [1.0, 2.0])
    np.testing.assert_array_equal(check_offset([1, 2], 2, 1), [[1.0, 2.0]])
    assert check_weight(None, 5) is None
    with pytest.raises(DataTypeError, match="y must hold numbers"):
        check_vector(["a", "b"], 2, "y")
    with pytest.raises(DataError, match="Complex"):
        check_vector([1j, 2], 2, "y")
    with pytest.raises(DataError, match="1d array"):
        check_vector(np.ones((2, 2)), 2, "y")
    with pytest.raises(DataError, match=r"offset must have shape \(2, 3\)"):
        check_offset(np.ones(2), 2, 3)


@pytest.mark.parametrize("factor", [1e-101, 1e101])
def test_weights_whose_squares_would_be_lost_are_refused(factor) -> None:
    with pytest.raises(DataError, match=r"row 0 has 1e.101: .* Multiply all weights"):
        check_weight(np.full(3, factor), 3)
    assert check_weight(np.array([0.0, 1e-100, 1e100]), 3) is not None
