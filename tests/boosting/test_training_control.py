"""Control of a fit: time budgets, learning rate schedules, interrupts and memory."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from hedgerow import (
    Dataset,
    HedgerowClassifier,
    HedgerowRegressor,
    InterruptedFitWarning,
    estimate_memory,
    load,
    train,
)
from hedgerow.boosting.loop import driver
from hedgerow.boosting.loop.callbacks import Round
from hedgerow.boosting.loop.driver import INTERRUPTS
from hedgerow.boosting.validation.stopping import Budget, StoppingParams
from hedgerow.cli.main import main
from hedgerow.distributed.training import _with_time_left
from hedgerow.errors import DataError, DataTypeError, ParameterError
from hedgerow.io import model_to_bytes
from tests.helpers.clocks import keeps_to_budget

N = 240
RNG = np.random.default_rng(11)
X = RNG.normal(size=(N, 4))
Y = X[:, 0] + np.sin(2.0 * X[:, 1]) + 0.1 * RNG.normal(size=N)
CLASS = (Y > 0.0).astype(int) + (Y > 1.0)
SMALL = {"max_leaves": 5, "n_estimators": 8, "early_stopping": False}


def fitted(**settings) -> HedgerowRegressor:
    return HedgerowRegressor(**{**SMALL, **settings}).fit(X, Y)


def same_forest(one, other) -> bool:
    a, b = one.model.forest, other.model.forest
    names = ("feature", "threshold", "left", "right", "value", "tree_start")
    return all(getattr(a, name).tobytes() == getattr(b, name).tobytes() for name in names)


def batches(size: int = 70):
    def give():
        for start in range(0, N, size):
            yield X[start : start + size], Y[start : start + size]

    return Dataset.from_batches(give)


# -- time budget ---------------------------------------------------------------


def simulated(seconds: float, rounds: list[float], before: float = 0.0) -> tuple[int, float]:
    """Run a fit with a simulated clock; return its rounds and its seconds."""
    now = [100.0]
    budget = Budget(seconds, now[0], lambda: now[0])
    now[0] += before
    budget.begin_rounds()
    done = 0
    while True:
        now[0] += rounds[done]
        done += 1
        if budget.is_spent():
            return done, now[0] - 100.0


@given(st.floats(0.001, 0.2), st.floats(0.0, 0.5))
def test_a_budget_is_held_by_rounds_of_one_length(duration: float, before: float) -> None:
    done, took = simulated(2.0, [duration] * 5000, before)
    assert done >= 1
    assert 1.9 - 1.01 * duration < took <= 1.9 + 1e-9  # the model takes the rest


def test_a_slow_round_is_expected_again() -> None:
    done, _ = simulated(1.0, [0.1, 0.1, 0.5, 0.1, 0.1, 0.1])
    assert done == 3


def test_the_first_round_is_done_whatever_the_budget() -> None:
    assert simulated(1e-9, [5.0] * 3)[0] == 1
    model = fitted(time_budget=1e-9)
    assert model.n_iter_ == 1
    assert model.stopped_by_ == "time_budget"


@pytest.mark.parametrize("data", ["memory", "batches"])
def test_a_fit_ends_in_time_with_the_trees_that_it_would_have(data) -> None:
    rows = Dataset(X, Y) if data == "memory" else batches()
    params = {**SMALL, "n_estimators": 1_000_000}
    train({**SMALL, "n_estimators": 1}, rows)  # kernels are loaded
    began = time.monotonic()
    booster = train({**params, "time_budget": 0.5}, rows)
    assert time.monotonic() - began < 120.0  # the machine may be busy
    assert booster.stopped_by == "time_budget"
    assert booster.num_rounds >= 1
    again = train({**params, "n_estimators": booster.num_rounds}, Dataset(X, Y))
    assert again.stopped_by == "rounds"
    assert same_forest(booster, again)


@pytest.mark.slow
@pytest.mark.parametrize("n_rows", [2_000, 300_000])
def test_a_budget_is_held_within_a_tenth(n_rows) -> None:
    table = RNG.normal(size=(n_rows, 20))
    target = table[:, 0] + table[:, 1] ** 2

    def fit(callback):
        settings = {"n_estimators": 10**6, "early_stopping": False, "callbacks": callback}
        return HedgerowRegressor(**settings, time_budget=4.0).fit(table, target)

    keeps_to_budget(fit, 4.0)


@pytest.mark.parametrize("value", [0, -1.0, math.inf, math.nan, "60", True])
def test_budgets_that_are_none(value) -> None:
    with pytest.raises(ParameterError, match="time_budget must be a number greater than 0"):
        fitted(time_budget=value)
    with pytest.raises(ParameterError, match="time_budget"):
        train({**SMALL, "time_budget": value}, Dataset(X, Y))


def test_each_run_of_a_checkpoint_has_the_budget_anew(tmp_path) -> None:
    done = []
    for _ in range(5):
        model = HedgerowRegressor(**SMALL, time_budget=1e-9)
        model.fit(X, Y, checkpoint=tmp_path, checkpoint_every=0)
        done.append(model.n_iter_)
    assert done == [1, 2, 3, 4, 5]
    whole = HedgerowRegressor(**SMALL).fit(X, Y, checkpoint=tmp_path)
    assert model_to_bytes(whole.booster_.model) == model_to_bytes(fitted().booster_.model)


def test_a_resumed_fit_says_what_ended_it(tmp_path) -> None:
    settings = {**SMALL, "early_stopping": True, "patience": 2, "n_estimators": 300}
    params = {**settings, "learning_rate": 1.0}
    whole = train(params, Dataset(X, Y))
    assert whole.stopped_by == "early_stopping"
    for _ in range(2):
        again = train(params, Dataset(X, Y), checkpoint=tmp_path / "a", checkpoint_every=0)
        assert model_to_bytes(again.model) == model_to_bytes(whole.model)
    for _ in range(2):  # the second time nothing is left to do
        ended = train(SMALL, Dataset(X, Y), callbacks=lambda state: state.round == 3,
                      checkpoint=tmp_path / "b")  # fmt: skip
        assert ended.stopped_by == "callback"
        assert ended.num_rounds == 3


def test_budget_of_the_command_line(tmp_path, capsys) -> None:
    file = tmp_path / "t.csv"
    np.savetxt(file, np.column_stack([X, Y]), delimiter=",", header="a,b,c,d,y", comments="")
    path = tmp_path / "m"
    command = ["train", str(file), "--target", "y", "--model", str(path), "--set"]
    assert main([*command, "time_budget=1e-9"]) == 0
    assert "the time budget ended the training with 1 rounds" in capsys.readouterr().out
    assert HedgerowRegressor.load(path).stopped_by_ == "time_budget"
    assert HedgerowRegressor.load(path).time_budget == 1e-9
    assert main([*command, "time_budget=0"]) == 2


def test_workers_get_what_is_left_of_a_budget() -> None:
    made = time.monotonic()
    stopping = StoppingParams(time_budget=10.0, began=made - 4.0)
    left = _with_time_left(stopping).time_budget
    assert left is not None
    assert left <= 6.0
    assert left > 6.0 - (time.monotonic() - made) - 1e-6
    late = StoppingParams(time_budget=1.0, began=time.monotonic() - 4.0)
    assert (_with_time_left(late).time_budget or 0.0) > 0.0
    assert _with_time_left(StoppingParams()).time_budget is None


# -- learning rates ------------------------------------------------------------


def halving(number: int) -> float:
    return 0.5 * 0.5**number


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"subsample": 0.5},
        {"objective": "absolute_error"},
        {"boosting": "dart", "drop_rate": 0.7, "skip_drop": 0.0},
        {"boosting": "dart", "drop_rate": 0.7, "objective": "absolute_error"},
        {"tree_method": "exact"},
    ],
)
def test_one_rate_in_every_form_gives_the_same_trees(settings) -> None:
    plain = fitted(**settings, learning_rate=0.3)
    for rate in ([0.3] * 8, np.full(8, 0.3), lambda number: 0.3):
        assert same_forest(fitted(**settings, learning_rate=rate).booster_, plain.booster_)
    assert not same_forest(fitted(**settings, learning_rate=halving).booster_, plain.booster_)


def test_rates_are_those_of_single_rounds() -> None:
    """The twin trains each round by itself on the scores of the previous rounds."""
    rates = [0.8, 0.1, 0.5, 0.05]
    # Leaves without a penalty leave residuals of mean 0, so that no round has a start to add.
    params = {**SMALL, "n_estimators": 4, "learning_rate": rates, "reg_lambda": 0.0}
    booster = train(params, Dataset(X, Y))
    raw = np.full(N, booster.model.forest.base_score[0])
    for rate in rates:
        one = {**params, "n_estimators": 1, "learning_rate": rate}
        raw = raw + train(one, Dataset(X, Y, offset=raw)).predict(X, kind="raw")
    np.testing.assert_allclose(booster.predict(X), raw, rtol=0, atol=1e-6)


def test_the_record_has_the_rates_of_the_rounds() -> None:
    model = fitted(learning_rate=halving, callbacks=lambda state: state.round == 3)
    record = model.booster_.model.training
    assert record["parameters"]["learning_rate"] == [0.5, 0.25, 0.125]
    assert record["stopped_by"] == model.stopped_by_ == "callback"
    assert fitted().booster_.model.training["parameters"]["learning_rate"] == 0.1


@pytest.mark.parametrize("bad", [0.0, -0.1, math.nan, math.inf, "0.1", True, None])
def test_each_rate_is_judged_in_its_round(bad) -> None:
    model = fitted()
    before = dict(vars(model))
    model.set_params(learning_rate=lambda number: bad if number == 4 else 0.1)
    with pytest.raises(ParameterError, match="learning_rate of round 5 must be a finite number"):
        model.fit(X, Y)
    assert model.booster_ is before["booster_"]
    with pytest.raises(ParameterError, match="learning_rate of round 2"):
        fitted(learning_rate=[0.1, bad, *[0.1] * 6])


def test_rates_that_cannot_be() -> None:
    with pytest.raises(ParameterError, match="3 numbers, but there are n_estimators=8"):
        fitted(learning_rate=[0.1, 0.2, 0.3])
    with pytest.raises(ParameterError, match="learning_rate must be a number or 'auto'"):
        fitted(learning_rate="cosine")
    with pytest.raises(ParameterError, match=r"learning_rate=.* has no effect here"):
        fitted(learning_rate=halving, boosting="rf", subsample=0.5)


def test_schedules_in_files_of_estimators(tmp_path) -> None:
    path = tmp_path / "m"
    rates = [0.1 * k for k in range(1, 9)]
    model = fitted(learning_rate=rates)
    model.save(path)
    again = HedgerowRegressor.load(path)
    assert again.learning_rate == rates
    assert same_forest(again.fit(X, Y).booster_, model.booster_)
    model = fitted(learning_rate=halving)
    with pytest.raises(DataTypeError, match=r"learning_rate=.*set_params\(learning_rate=0.1\)"):
        model.save(path)
    model.booster_.save(path)
    assert load(path).model.training["parameters"]["learning_rate"][1] == 0.25


# -- interrupts ----------------------------------------------------------------


@pytest.fixture(autouse=True)
def no_interrupt_before(monkeypatch) -> None:
    monkeypatch.setattr(INTERRUPTS, "last", -math.inf)


def interrupting(number: int):
    def callback(state) -> None:
        if state.round == number:
            raise KeyboardInterrupt

    return callback


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"boosting": "dart", "drop_rate": 0.6, "skip_drop": 0.0},
        {"boosting": "rf", "learning_rate": 1.0, "subsample": 0.6, "oob_score": True},
        {"learning_rate": halving, "eval_metric": "mae"},
        {"subsample": 0.6, "oob_score": True},
    ],
)
def test_an_interrupt_keeps_the_rounds_that_are_done(settings) -> None:
    with pytest.warns(InterruptedFitWarning, match="the model has 5 of 8 rounds"):
        model = fitted(**settings, callbacks=interrupting(5))
    assert model.stopped_by_ == "interrupt"
    ended = fitted(**settings, callbacks=lambda state: state.round == 5)
    assert same_forest(model.booster_, ended.booster_)
    assert model.evals_result_ == ended.evals_result_


def test_an_interrupt_keeps_the_best_round() -> None:
    settings = {"early_stopping": True, "learning_rate": 1.0, "patience": 50}
    whole = fitted(**settings, n_estimators=40)
    best = whole.best_iteration_
    assert best is not None
    assert best < 30
    with pytest.warns(InterruptedFitWarning, match=f"30 of 40 rounds, .* the first {best}, up to"):
        model = fitted(**settings, n_estimators=40, callbacks=interrupting(30))
    assert model.best_iteration_ == model.n_iter_ == best
    assert same_forest(model.booster_, whole.booster_)
    assert len(model.evals_result_["validation"]["loss"]) == 30


def test_interrupts_at_any_score_leave_whole_rounds() -> None:
    calls = 0

    def first(y, prediction, weight) -> float:
        return metric(y, prediction)

    def second(y, prediction, weight) -> float:
        return metric(y, prediction)

    def metric(y, prediction) -> float:
        nonlocal calls
        calls += 1
        if calls == at:
            raise KeyboardInterrupt
        return float(np.abs(y - prediction).mean())

    for at in range(1, 8):
        calls, INTERRUPTS.last = 0, -math.inf
        settings = {"early_stopping": True, "eval_metric": [first, second], "n_estimators": 6}
        model = HedgerowRegressor(**{**SMALL, **settings})
        if at <= 2:  # the first round is not whole
            with pytest.raises(KeyboardInterrupt):
                model.fit(X, Y)
            assert not hasattr(model, "booster_")
            continue
        with pytest.warns(InterruptedFitWarning):
            model.fit(X, Y)
        curves = model.evals_result_["validation"]
        assert {len(scores) for scores in curves.values()} == {(at - 1) // 2}
        assert model.best_iteration_ == 1 + int(np.argmin(curves["first"]))
        assert model.n_iter_ == model.best_iteration_


def test_interrupts_inside_a_round_leave_those_before(monkeypatch) -> None:
    from hedgerow.growing.core.grower import TreeGrower

    real, grown = TreeGrower._begin, []

    def begin(self, tree, output):
        grown.append(tree)
        if len(grown) == 14:  # the second of the three trees of round 5
            raise KeyboardInterrupt
        return real(self, tree, output)

    whole = HedgerowClassifier(**{**SMALL, "n_estimators": 4}).fit(X, CLASS)
    monkeypatch.setattr(TreeGrower, "_begin", begin)
    with pytest.warns(InterruptedFitWarning, match="4 of 8"):
        model = HedgerowClassifier(**SMALL).fit(X, CLASS)
    assert same_forest(model.booster_, whole.booster_)


def test_an_interrupt_of_rows_in_batches() -> None:
    with pytest.warns(InterruptedFitWarning, match="4 of 8"):
        booster = train(SMALL, batches(), callbacks=interrupting(4))
    assert same_forest(booster, train({**SMALL, "n_estimators": 4}, Dataset(X, Y)))


def test_an_interrupt_before_the_first_round_leaves_the_estimator(monkeypatch) -> None:
    def interrupt(*_):
        raise KeyboardInterrupt

    model = fitted()
    before = dict(vars(model))
    monkeypatch.setattr("hedgerow.boosting.loop.driver.prepare", interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X[:, :3], Y)
    assert vars(model) == before


def test_a_second_interrupt_comes_through(monkeypatch) -> None:
    model = HedgerowRegressor(**SMALL, callbacks=interrupting(5))
    with pytest.warns(InterruptedFitWarning):
        model.fit(X, Y)
    before = dict(vars(model))
    with pytest.raises(KeyboardInterrupt):  # as of a search, which goes on with the next fit
        model.fit(X[:, :3], Y)
    assert vars(model) == before
    monkeypatch.setattr(driver, "TWICE", 0.0)
    with pytest.warns(InterruptedFitWarning):
        model.fit(X[:, :3], Y)


def test_a_warning_that_is_an_error_leaves_the_estimator() -> None:
    model = HedgerowRegressor(**SMALL, callbacks=interrupting(5))
    with warnings.catch_warnings():
        warnings.simplefilter("error", InterruptedFitWarning)
        with pytest.raises(InterruptedFitWarning):
            model.fit(X, Y)
    assert not hasattr(model, "booster_")


_CHILD = """
import signal, sys, numpy as np, hedgerow
signal.signal(signal.SIGINT, signal.default_int_handler)  # of a job in the background: ignored
X = np.random.default_rng(0).normal(size=(3000, 5))
def tell(state):
    if state.round == 3:
        print("begun", flush=True)
model = hedgerow.HedgerowRegressor(n_estimators=10**6, early_stopping=False, callbacks=tell)
model.fit(X, X[:, 0])
print(model.stopped_by_, model.n_iter_ >= 3, model.n_iter_ < 10**6)
"""


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_a_signal_ends_a_fit() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _CHILD], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "begun\n"
        child.send_signal(signal.SIGINT)
        try:
            out, err = child.communicate(timeout=300)
        finally:
            child.kill()
    assert out == "interrupt True True\n"
    assert "InterruptedFitWarning: the fit was interrupted" in err
    assert child.returncode == 0


def test_the_command_line_writes_the_model_of_an_interrupted_fit(
    tmp_path, capsys, monkeypatch
) -> None:
    file = tmp_path / "t.csv"
    np.savetxt(file, np.column_stack([X, Y]), delimiter=",", header="a,b,c,d,y", comments="")
    real = driver.Watch.after_round

    def after_round(self, state):
        if state.n_rounds == 5:
            raise KeyboardInterrupt
        return real(self, state)

    monkeypatch.setattr(driver.Watch, "after_round", after_round)
    path = tmp_path / "m"
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # none is shown: one line says it all
        params = ["--target", "y", "--model", str(path), "--set", "n_estimators=20"]
        code = main(["train", str(file), *params])
    said = f"interrupted: the model of the first 4 rounds is written to {path}"
    assert code == 130
    assert capsys.readouterr().err == f"hedgerow: {said}\n"
    assert HedgerowRegressor.load(path).n_iter_ == 4


# -- memory --------------------------------------------------------------------

_MEASURE = """
import sys
import numpy as np
from hedgerow import Dataset, estimate_memory, train
n_rows, n_features, kind = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
params = {"n_estimators": 3, "early_stopping": False, "n_jobs": 2} | eval(sys.argv[4])
n_outputs = 8 if params.get("objective") == "softmax" else 1
rng = np.random.default_rng(0)
def data(n_rows):
    X = rng.normal(size=(n_rows, n_features))
    y = X[:, 0] if n_outputs == 1 else np.arange(n_rows) % n_outputs
    return Dataset(X.astype(kind), y)
def bytes_of(name):
    for line in open("/proc/self/status"):
        if line.startswith(name):
            return 1024 * int(line.split()[1])
train(params, data(20_000))
rows = data(n_rows)
open("/proc/self/clear_refs", "w").write("5")  # the peak begins anew
before = bytes_of("VmRSS")
train(params, rows)
print(bytes_of("VmHWM") - before, estimate_memory(rows.X, params, n_outputs=n_outputs).peak)
"""


@pytest.mark.slow
@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="Linux only")
@pytest.mark.parametrize(
    "params",
    [
        (500_000, 20, "float64", {}),
        (60_000, 200, "float64", {"early_stopping": True}),
        (400_000, 20, "float64", {"early_stopping": "cv"}),
        (400_000, 20, "float64", {"tree_method": "exact"}),
        (400_000, 20, "float32", {"tree_method": "approx"}),
        (200_000, 20, "float64", {"tree_method": "exact", "early_stopping": "cv"}),
        (200_000, 20, "float64", {"multi_strategy": "multi_output_tree", "objective": "softmax"}),
    ],
)
def test_an_estimate_is_near_the_growth_of_the_process(params) -> None:
    command = [sys.executable, "-c", _MEASURE, *map(str, params)]
    measured, estimate = map(int, subprocess.check_output(command, text=True).split())
    assert abs(estimate - measured) < 0.3 * measured


def test_estimates_grow_with_the_parameters() -> None:
    shape = (100_000, 30)
    off = {"early_stopping": False}
    plain = estimate_memory(shape, off)
    assert plain.table == 0
    assert plain.peak == max(plain.cuts, plain.total - plain.cuts)
    assert estimate_memory(shape) == plain
    aside = estimate_memory(shape, {"early_stopping": True})
    assert aside.table == 100_000 * 30 * 8  # rows are set aside
    assert (
        estimate_memory(shape, {**off, "objective": "softmax"}, n_outputs=5).scores > plain.scores
    )
    assert estimate_memory(shape, {**off, "max_bins": 15}).histograms < plain.histograms
    assert (
        estimate_memory(shape, {**off, "objective": lambda y, raw: y - raw}).scores > plain.scores
    )
    narrow = np.broadcast_to(np.float32(0.0), shape)
    assert estimate_memory(narrow, off).cuts < plain.cuts
    assert estimate_memory(narrow.astype(np.int32), off).table == 100_000 * 30 * 8  # read as keys
    text = str(plain).splitlines()
    assert text[0] == "fit of 100,000 rows, 30 features"
    assert [line.split()[0] for line in text[1:]] == [
        *("table", "cuts", "matrix", "gradients", "scores", "histograms", "trees"),
        "peak",
    ]


def test_estimates_take_a_table_or_its_shape(tmp_path) -> None:
    shape = (100, 3)
    for rows in (np.zeros(shape), Dataset(np.zeros(shape))):
        assert estimate_memory(rows) == estimate_memory(shape)
    assert estimate_memory(pd.DataFrame(np.zeros(shape))).table == 100 * 3 * 8
    (tmp_path / "rows.csv").write_text("a,y\n1,2\n")
    files = Dataset.from_files(tmp_path / "rows.csv", "y")
    for rows in (files, scipy.sparse.random(10, 3, format="csr")):
        with pytest.raises(DataError, match=r"files takes at most the memory_limit.*sparse"):
            estimate_memory(rows)
    for wrong in ((0, 3), (3,), [1, 2], "x", (2.5, 1), (True, 2)):
        with pytest.raises(DataError, match=r"pair \(n_rows, n_features\)"):
            estimate_memory(wrong)
    with pytest.raises(ParameterError, match="Did you mean 'max_leaves'"):
        estimate_memory((10, 2), {"max_leave": 3})
    with pytest.raises(ParameterError, match="n_outputs"):
        estimate_memory((10, 2), n_outputs=0)


def test_a_round_has_the_model_of_its_time() -> None:
    models = []
    booster = train(SMALL, Dataset(X, Y), callbacks=lambda state: models.append(state.model()))
    assert [model.forest.n_rounds for model in models] == list(range(1, 9))
    assert model_to_bytes(models[-1]) == model_to_bytes(booster.model)
    ended = train(SMALL, Dataset(X, Y), callbacks=lambda state: state.round == 4).model
    assert models[3].forest.value.tobytes() == ended.forest.value.tobytes()
    with pytest.raises(RuntimeError, match="made by hand"):
        Round(1, 2, {}, 0.0).model()
