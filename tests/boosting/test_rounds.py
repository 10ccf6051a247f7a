"""The boosting loop: scores, forest and validation agree after every round."""

from __future__ import annotations

import contextlib
import threading

import numpy as np
import pytest

from hedgerow.boosting.loop.scores import TrainingData
from hedgerow.boosting.loop.setup import resolved as resolved_module
from hedgerow.objectives import make_objective
from hedgerow.params import BoostParams
from tests.helpers import engine
from tests.reference import naive

LOSSES = [("squared_error", 1), ("logistic", 1), ("softmax", 3)]


@pytest.fixture(autouse=True)
def _threads_at_once(monkeypatch):
    monkeypatch.setattr(resolved_module, "_CELLS_PER_THREAD", 1)


def data(loss, n_rows, n_features=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features))
    y = X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=n_rows)
    X[rng.random(X.shape) < 0.1] = np.nan
    if loss == "logistic":
        y = (y > 0).astype(float)
    elif loss == "softmax":
        y = np.digitize(y, [-0.5, 0.5]).astype(float)
    return X, y


@pytest.mark.parametrize(("loss", "n_outputs"), LOSSES)
@pytest.mark.parametrize("weighted", [False, True])
def test_fit_follows_the_naive_one(loss, n_outputs, weighted) -> None:
    X, y = data(loss, 500)
    weight = np.random.default_rng(3).uniform(0.5, 2, 500) if weighted else None
    params = BoostParams(n_estimators=8, min_samples_leaf=10, max_leaves=7)
    fitted = engine.boost(X, y, params, loss, n_outputs, weight)
    matrix = engine.binned(X, weight=weight)
    base = make_objective(loss, n_outputs).initial_score(y, weight)
    raw, _, _ = naive.boost(
        engine.columns_of(matrix), matrix.spec.bin_counts.tolist(), matrix.spec.stride, y, base,
        naive.Rules(10, 1e-3, 1.0), 8, loss, weight, grid=True, max_leaves=7,
    )  # fmt: skip
    np.testing.assert_allclose(fitted.train_raw, raw, rtol=0, atol=1e-6)


def loss_curve(loss, n_outputs, params, n_rows=5000):
    X, y = data(loss, n_rows)
    objective = make_objective(loss, n_outputs)
    training = TrainingData(engine.binned(X), y)
    with contextlib.closing(engine.rounds(training, objective, params)) as states:
        return [objective.loss(y, state.train.raw, None) for state in states]


@pytest.mark.parametrize(("loss", "n_outputs"), LOSSES)
def test_training_loss_never_rises_with_small_steps(loss, n_outputs) -> None:
    params = BoostParams(n_estimators=30, learning_rate=0.05)
    assert (np.diff(loss_curve(loss, n_outputs, params)) < 0).all()


@pytest.mark.parametrize("n_threads", [1, 4])
def test_rounds_closed_early_leave_no_thread(n_threads) -> None:
    X, y = data("logistic", 2000)
    training = TrainingData(engine.binned(X), y)
    before = set(threading.enumerate())
    states = engine.rounds(training, make_objective("logistic"), BoostParams(), n_threads=n_threads)
    next(states)
    # One helper less than threads: the caller is one of them.
    assert len(set(threading.enumerate()) - before) == n_threads - 1
    next(states)
    states.close()
    assert set(threading.enumerate()) - before == set()


def test_an_error_of_the_reader_leaves_no_thread() -> None:
    X, y = data("logistic", 2000)
    training = TrainingData(engine.binned(X), y)
    before = set(threading.enumerate())

    def read():
        loss = make_objective("logistic")
        with contextlib.closing(
            engine.rounds(training, loss, BoostParams(), n_threads=3)
        ) as states:
            for state in states:
                if state.n_rounds == 2:
                    raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        read()
    assert set(threading.enumerate()) - before == set()


def test_helpers_sleep_between_rounds_and_wake_up() -> None:
    X, y = data("squared_error", 2000)
    training = TrainingData(engine.binned(X), y)
    params = BoostParams(n_estimators=3)
    pause = threading.Event()
    with contextlib.closing(
        engine.rounds(training, make_objective("squared_error"), params, n_threads=3)
    ) as states:
        for state in states:
            pause.wait(0.05)
            last = state.train.raw
    np.testing.assert_array_equal(last, engine.boost(X, y, params).train_raw)


@pytest.mark.parametrize(
    "params",
    [{}, {"grow_policy": "symmetric"}, {"boosting": "rf", "subsample": 0.5}, {"max_leaves": 5}],
)
@pytest.mark.parametrize("loss", ["squared_error", "softmax"])
def test_resolved_parameters_are_kept_as_they_are(params: dict, loss: str) -> None:
    schema, objective = engine.binned(np.zeros((5, 2))).spec.schema, make_objective(loss)
    found = resolved_module.resolved(BoostParams(**params), objective, schema)
    assert found.leaf_estimation == "newton"
    assert resolved_module.resolved(found, objective, schema) == found
