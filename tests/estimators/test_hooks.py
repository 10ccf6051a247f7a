"""Callbacks of scikit-learn in the fits of the estimators."""

from __future__ import annotations

import collections
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import r2_score

from hedgerow import Dataset, HedgerowClassifier, HedgerowRegressor, train
from hedgerow.boosting.loop.callbacks import Round
from hedgerow.distributed import DaskHedgerowRegressor
from hedgerow.errors import DataTypeError, ParameterError
from hedgerow.estimators import hooks as hooks_module
from hedgerow.io import model_to_bytes

N = 240
RNG = np.random.default_rng(5)
X = RNG.normal(size=(N, 4))
Y = X[:, 0] + np.sin(2.0 * X[:, 1]) + 0.1 * RNG.normal(size=N)
SMALL = {"max_leaves": 5, "n_estimators": 6, "early_stopping": False}


class Recorder:
    """A callback with the signatures of scikit-learn 1.9."""

    def __init__(self, stop_at: int = -1) -> None:
        self.calls: list[tuple[str, str, int]] = []
        self.estimators: list[object] = []
        self.given: dict[str, object] = {}
        self.stop_at = stop_at

    def _note(self, hook: str, context) -> None:
        self.calls.append((hook, context.task_name, context.task_id))

    def setup(self, estimator, context) -> None:
        assert context.max_subtasks == estimator.n_estimators
        assert context.parent is None
        self._note("setup", context)

    def on_fit_task_begin(self, estimator, context) -> None:
        self._note("begin", context)

    def on_fit_task_end(
        self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None
    ) -> bool:
        self._note("end", context)
        self.given = {"X": X, "y": y, "metadata": metadata}
        self.estimators.append(fitted_estimator)
        return context.task_name == "round" and context.task_id + 1 == self.stop_at

    def teardown(self, estimator, context) -> None:
        self._note("teardown", context)


class Light(Recorder):
    """A callback that requests nothing, so no model is assembled."""

    def on_fit_task_end(self, estimator, context) -> bool:  # type: ignore[override]
        self._note("end", context)
        return False


if not hooks_module._scikit_learn_has_callbacks():  # a stand-in cannot take the place of contexts
    pytest.skip("scikit-learn 1.9 has callbacks", allow_module_level=True)


def regressor(**settings) -> HedgerowRegressor:
    return HedgerowRegressor(**{**SMALL, **settings})


@pytest.mark.parametrize("way", ["set_callbacks", "callbacks", "among others"])
def test_hooks_are_called_in_order(way) -> None:
    recorder, rounds = Recorder(), []
    model = regressor()
    if way == "set_callbacks":
        model.set_callbacks(recorder)
    elif way == "callbacks":
        model.set_params(callbacks=recorder)
    else:
        model.set_params(callbacks=[lambda state: rounds.append(state.round), recorder])
    weight = np.full(N, 2.0)
    assert model.fit(X, Y, weight) is model
    expected = [("setup", "fit", 0), ("begin", "fit", 0)]
    for number in range(6):
        expected += [("begin", "round", number), ("end", "round", number)]
    assert recorder.calls == [*expected, ("end", "fit", 0), ("teardown", "fit", 0)]
    assert rounds == ([1, 2, 3, 4, 5, 6] if way == "among others" else [])
    assert recorder.given["X"] is X
    assert recorder.given["y"] is Y
    assert recorder.given["metadata"]["sample_weight"] is weight  # type: ignore[index]
    left = {"_round_hooks", "_callback_fit_ctx", "_skl_callbacks_to_teardown"}
    assert not left & set(vars(model))
    assert ("_skl_callbacks" in vars(model)) == (way == "set_callbacks")
    plain = regressor().fit(X, Y, weight)
    assert model_to_bytes(model.booster_.model) == model_to_bytes(plain.booster_.model)


def test_hooks_do_not_change_the_seed_that_a_random_state_gives() -> None:
    alone, seen = np.random.RandomState(3), np.random.RandomState(3)
    settings = {"subsample": 0.5}
    plain = regressor(**settings, random_state=alone).fit(X, Y)
    model = regressor(**settings, random_state=seen, callbacks=Recorder()).fit(X, Y)
    assert model_to_bytes(model.booster_.model) == model_to_bytes(plain.booster_.model)
    assert alone.randint(1000) == seen.randint(1000)


def test_each_round_has_an_estimator_that_is_ready() -> None:
    recorder = Recorder()
    y = np.where(Y > 0, "yes", "no")
    model = HedgerowClassifier(**SMALL).set_callbacks(recorder).fit(X, y)
    *rounds, last = recorder.estimators
    staged = list(model.staged_predict_proba(X))
    assert len(rounds) == len(staged) == 6
    for number, (then, probability) in enumerate(zip(rounds, staged, strict=True)):
        assert isinstance(then, HedgerowClassifier)
        np.testing.assert_array_equal(then.predict_proba(X), probability)
        assert then.classes_.tolist() == ["no", "yes"]
        assert then.n_iter_ == number + 1
    np.testing.assert_array_equal(last.predict(X), model.predict(X))  # type: ignore[attr-defined]


def test_a_model_is_made_only_if_a_hook_asks_for_it(monkeypatch) -> None:
    from hedgerow.boosting.loop.watch import Watch

    monkeypatch.setattr(Watch, "model_of", lambda *_: pytest.fail("made"))
    light = Light()
    regressor().set_callbacks(light).fit(X, Y)
    assert len(light.calls) == 16


def test_a_hook_ends_the_fit() -> None:
    recorder = Recorder(stop_at=3)
    model = regressor(callbacks=recorder).fit(X, Y)
    assert model.n_iter_ == 3
    assert model.stopped_by_ == "callback"
    assert [call for call in recorder.calls if call[1] == "round"][-1] == ("end", "round", 2)


@pytest.mark.parametrize("way", ["set_callbacks", "callbacks"])
def test_threads_fit_one_estimator(way) -> None:
    class Counter(Light):
        def setup(self, estimator, context) -> None:
            self._note("setup", context)

    counter, model = Counter(), regressor()
    model.set_callbacks(counter) if way == "set_callbacks" else model.set_params(callbacks=counter)
    with ThreadPoolExecutor(4) as pool:
        fitted = list(pool.map(lambda _: model.fit(X, Y), range(12)))
    assert all(found is model for found in fitted)
    counts = collections.Counter(call[:2] for call in counter.calls)
    once = dict.fromkeys(
        [("setup", "fit"), ("begin", "fit"), ("end", "fit"), ("teardown", "fit")], 12
    )
    assert counts == once | {("begin", "round"): 72, ("end", "round"): 72}
    left = {"_round_hooks", "_callback_fit_ctx", "_skl_callbacks_to_teardown"}
    assert not left & set(vars(model))
    assert ("_skl_callbacks" in vars(model)) == (way == "set_callbacks")
    plain = regressor().fit(X, Y)
    assert model_to_bytes(model.booster_.model) == model_to_bytes(plain.booster_.model)


def test_early_stopping_begins_no_other_round() -> None:
    recorder = Recorder()
    settings = {"early_stopping": True, "patience": 1, "learning_rate": 1.0, "n_estimators": 90}
    model = regressor(**settings).set_callbacks(recorder).fit(X, Y)
    assert model.stopped_by_ == "early_stopping"
    rounds = [call[0] for call in recorder.calls if call[1] == "round"]
    assert rounds == ["begin", "end"] * (len(rounds) // 2)
    *_, before, _ = recorder.estimators
    assert before.n_iter_ == model.best_iteration_  # as if the fit had stopped there


def test_hooks_are_torn_down_when_a_fit_fails() -> None:
    class Failing(Recorder):
        def on_fit_task_end(self, estimator, context):  # type: ignore[override]
            raise RuntimeError("no")

    recorder = Failing()
    model = regressor().fit(X, Y).set_callbacks(recorder)
    before = dict(vars(model))
    with pytest.raises(RuntimeError, match="no"):
        model.fit(X[:, :2], Y)
    assert recorder.calls[-1][0] == "teardown"
    assert vars(model) == before
    with pytest.raises(ParameterError, match="n_estimators"):
        model.set_params(n_estimators="many").fit(X, Y)
    assert model.booster_ is before["booster_"]


def test_clones_share_what_is_set() -> None:
    recorder = Recorder()
    model = clone(regressor().set_callbacks(recorder))
    model.fit(X, Y)
    assert recorder.calls
    assert "_skl_callbacks" not in vars(clone(model.set_callbacks()))


def test_the_progress_bar_of_scikit_learn(capsys) -> None:
    pytest.importorskip("rich")
    from sklearn.callback import ProgressBar as Bar

    for model in (regressor(callbacks=[Bar()]), regressor().set_callbacks(Bar())):
        model.fit(X, Y)
        out = capsys.readouterr().out
        assert "HedgerowRegressor - fit" in out
        assert "100%" in out


def test_the_scoring_monitor_of_scikit_learn() -> None:
    from sklearn.callback import ScoringMonitor

    monitor = ScoringMonitor(scoring="r2")
    model = regressor().set_callbacks(monitor).fit(X, Y)
    scores = [row["r2"] for row in monitor.get_logs().data if row["task_name"] == "round"]
    expected = [r2_score(Y, prediction) for prediction in model.staged_predict(X)]
    np.testing.assert_allclose(scores, expected, rtol=1e-12)


def test_callbacks_that_cannot_be(tmp_path, monkeypatch) -> None:
    class Half:
        def on_fit_task_end(self, estimator, context) -> None: ...

    with pytest.raises(ParameterError, match="not setup, on_fit_task_begin, teardown: add these"):
        regressor(callbacks=Half()).fit(X, Y)
    with pytest.raises(ParameterError, match="callbacks must be None, a callable"):
        regressor(callbacks=[Recorder(), 3]).fit(X, Y)
    with pytest.raises(ParameterError, match="Callbacks of scikit-learn are for estimators"):
        train(SMALL, Dataset(X, Y), callbacks=Recorder())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="FitCallback protocol"):
        regressor().set_callbacks(Half())
    with pytest.raises(ParameterError, match="would be called in the process that trains"):
        DaskHedgerowRegressor().set_callbacks(Recorder()).fit(X, Y)
    with pytest.raises(DataTypeError, match=r"set_params\(callbacks=None\)"):
        regressor(callbacks=Recorder()).fit(X, Y).save(tmp_path / "m")
    monkeypatch.setattr(hooks_module, "_scikit_learn_has_callbacks", lambda *_: False)
    with pytest.raises(ParameterError, match=r"needs scikit-learn 1\.9 or later"):
        regressor(callbacks=Recorder()).fit(X, Y)


def test_a_round_has_the_model_of_its_time() -> None:
    models = []
    booster = train(SMALL, Dataset(X, Y), callbacks=lambda state: models.append(state.model()))
    assert [model.forest.n_rounds for model in models] == [1, 2, 3, 4, 5, 6]
    assert model_to_bytes(models[-1]) == model_to_bytes(booster.model)
    ended = train(SMALL, Dataset(X, Y), callbacks=lambda state: state.round == 4).model
    assert models[3].forest.value.tobytes() == ended.forest.value.tobytes()
    with pytest.raises(RuntimeError, match="made by hand"):
        Round(1, 2, {}, 0.0).model()
