"""Folds, their rows, the order of their tasks, and ``early_stopping="cv"``."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow import (
    DataError,
    HedgerowRanker,
    HedgerowRegressor,
    InterruptedFitWarning,
    ParameterError,
)
from hedgerow.boosting.automatic.repeats import find_repeats
from hedgerow.boosting.loop.driver import INTERRUPTS, FitOptions
from hedgerow.boosting.loop.sample import Sample
from hedgerow.boosting.validation import cross as cross_module
from hedgerow.boosting.validation.folds import deal_observations, draw_folds
from hedgerow.boosting.validation.stopping import BestRound, Search, StoppingParams
from hedgerow.data import read_any
from hedgerow.io import model_to_bytes
from hedgerow.metrics import make_metrics
from hedgerow.objectives import make_objective
from hedgerow.params import BoostParams
from hedgerow.threads import take_turns
from tests.helpers.examples import examples
from tests.helpers.fitting import fit_sample


@pytest.fixture(autouse=True)
def _folds_abreast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use several threads for small tables too."""
    monkeypatch.setattr(cross_module, "_CELLS_SIDE_BY_SIDE", 1)


# -- folds -------------------------------------------------------------------


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.integers(0, 3), min_size=2, max_size=60),
    st.integers(2, 7),
    st.integers(0, 2**40),
    st.booleans(),
)
def test_each_row_is_tested_once(
    target: list[int], n_folds: int, seed: int, stratify: bool
) -> None:
    y = np.array(target, dtype=np.float64)
    counts = np.unique(y, return_counts=True)[1]
    if stratify and not (counts > 1).any():
        with pytest.raises(DataError, match="only one"):
            draw_folds(y, n_folds, stratify, seed)
        return
    folds = draw_folds(y, n_folds, stratify, seed)
    tested = np.concatenate([fold.test for fold in folds])
    expected = (
        np.flatnonzero(np.isin(y, np.unique(y)[counts > 1])) if stratify else np.arange(len(y))
    )
    assert np.sort(tested).tolist() == expected.tolist()
    sizes = [len(fold.test) for fold in folds]
    assert max(sizes) - min(sizes) <= 1
    for fold in folds:
        assert np.sort(np.concatenate([fold.train, fold.test])).tolist() == list(range(len(y)))
        if stratify:
            assert set(y[fold.train]) == set(y)
            for value, count in zip(*np.unique(y, return_counts=True), strict=True):
                assert abs((y[fold.test] == value).sum() - count / len(folds)) < 1.0 or count == 1


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.integers(0, 9), min_size=2, max_size=60), st.integers(2, 5))
def test_groups_are_never_divided(groups: list[int], n_folds: int) -> None:
    codes = np.array(groups)
    if len(set(groups)) < 2:
        with pytest.raises(DataError, match="only one group"):
            draw_folds(np.zeros(len(codes)), n_folds, False, 0, codes)
        return
    folds = draw_folds(np.zeros(len(codes)), n_folds, False, 0, codes)
    assert sum(len(fold.test) for fold in folds) == len(codes)
    for fold in folds:
        assert len(fold.train) > 0
        assert not set(codes[fold.train]) & set(codes[fold.test])
    sizes = [len(fold.test) for fold in folds]
    assert max(sizes) - min(sizes) <= np.bincount(codes).max()


# -- turns --------------------------------------------------------------------


def test_turns_end_when_settled_and_when_a_step_fails() -> None:
    done: list[int] = []
    tasks = [lambda task=task: bool(done.append(task)) for task in range(3)]
    take_turns(tasks, 1, lambda: len(done) == 5)
    assert done == [0, 1, 2, 0, 1]
    main = threading.get_ident()

    def fail(task: int) -> bool:
        if threading.get_ident() != main or task == 1:
            raise KeyError(task)
        return False

    for n_threads in (1, 3):
        before = threading.active_count()
        with pytest.raises(KeyError):
            take_turns([partial(fail, task) for task in range(3)], n_threads)
        assert threading.active_count() == before


# -- early_stopping="cv" -------------------------------------------------------

SETTINGS: dict[str, Any] = {
    "early_stopping": "cv",
    "n_estimators": 60,
    "learning_rate": 0.3,
    "max_leaves": 8,
}


def _data(n_rows: int = 300) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n_rows, 4))
    X[rng.random(X.shape) < 0.05] = np.nan
    return X, np.nan_to_num(X[:, 0]) + np.nan_to_num(X[:, 1]) ** 2 + rng.normal(size=n_rows)


def test_rounds_are_those_that_folds_by_hand_say() -> None:
    X, y = _data()
    X = np.clip(np.round(2.0 * X), -2, 2)  # few values: every fold has the cuts of all rows
    model = HedgerowRegressor(**SETTINGS).fit(X, y)
    sample = Sample(read_any(X), y)
    repeats = find_repeats(sample, 0, is_classes=False)
    assert repeats is not None
    assert repeats.observed is not None
    folds = deal_observations(sample, 5, False, *repeats.observed)
    squares = np.zeros(60)
    by_hand = {**SETTINGS, "early_stopping": False}
    for fold in folds:
        fitted = HedgerowRegressor(**by_hand).fit(X[fold.train], y[fold.train])
        for number, predicted in enumerate(fitted.staged_predict(X[fold.test])):
            squares[number] += 0.5 * ((predicted - y[fold.test]) ** 2).sum()
    curve = squares / len(y)
    best = BestRound(make_metrics(None, make_objective("squared_error"))[0], 10, 0.0)
    for number, score in enumerate(curve):
        if best.observe(number + 1, score):
            break
    found = model.evals_result_["cv"]["loss"]
    assert np.allclose(found, curve[: len(found)], rtol=1e-12)
    assert len(found) == number + 1
    assert model.n_iter_ == model.best_iteration_ == best.round < 60
    alone = HedgerowRegressor(**{**by_hand, "n_estimators": best.round}).fit(X, y)
    assert np.array_equal(alone.predict(X), model.predict(X))


def test_the_fit_on_all_rows_may_take_more_rounds() -> None:
    X, y = _data()
    sample = Sample(read_any(X), y)
    params = BoostParams(n_estimators=60, learning_rate=0.2, max_leaves=8)

    def fitted(factor: float) -> Any:
        settings = StoppingParams("cv", search=Search(rounds_factor=factor))
        return fit_sample(
            sample, make_objective("squared_error"), params, FitOptions(stopping=settings)
        )

    plain, more = fitted(1.0), fitted(1.5)
    n_rounds = plain.forest.n_rounds
    assert 2 <= n_rounds <= 40
    assert more.forest.n_rounds == more.training["best_round"] == round(1.5 * n_rounds)
    n_nodes = plain.forest.tree_start[-1]
    assert np.array_equal(more.forest.value[:n_nodes], plain.forest.value)
    assert more.training["history"] == plain.training["history"]
    assert more.training["folds"]["rounds_factor"] == 1.5
    assert fitted(1e6).forest.n_rounds == 60  # at most the requested rounds


def test_what_cannot_be_done_is_refused() -> None:
    X, y = _data()
    with pytest.raises(ParameterError, match="validation rows have no effect"):
        HedgerowRegressor(**SETTINGS).fit(X, y, X_val=X, y_val=y)
    with pytest.raises(DataError, match="only one group"):
        HedgerowRanker(**SETTINGS).fit(X, np.clip(np.round(y), 0, 3), qid=np.zeros(len(y)))
    with pytest.raises(ParameterError, match="'auto' or 'cv'"):
        HedgerowRegressor(early_stopping="folds").fit(X, y)  # type: ignore[arg-type]


def test_folds_too_small_to_split_say_nothing() -> None:
    X, y = _data(45)
    model = HedgerowRegressor(early_stopping="cv", n_estimators=12, min_samples_leaf=20)
    assert model.fit(X, y).n_iter_ == 12
    assert model.fit(X[:20], y[:20]).n_iter_ == 0


# -- beside groups and models that go on -------------------------------------------


def test_a_model_that_goes_on_has_plain_defaults_and_no_folds() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 2))
    y = X[:, 0]
    first = HedgerowRegressor(n_estimators=5).fit(X, y)
    more = HedgerowRegressor().fit(X, y, init_model=first)
    assert more.n_iter_ == 105
    assert more.chosen_params_["learning_rate"] == 0.1
    assert HedgerowRegressor(warm_start=True).fit(X, y).n_iter_ == 100
    with pytest.raises(ParameterError, match=r"early_stopping='cv'.*init_model"):
        HedgerowRegressor(early_stopping="cv").fit(X, y, init_model=first)


# -- interrupts ---------------------------------------------------------------


@pytest.fixture(scope="module")
def rows() -> tuple[Any, Any]:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, 4))
    return X, X[:, 0] + np.sin(3.0 * X[:, 1]) + 0.3 * rng.normal(size=300)


class Interrupts:
    """Interrupts at the given calls of a method, before or after its work."""

    def __init__(self, patch: pytest.MonkeyPatch, owner: Any, name: str, *at: int, after: bool):
        real, self.calls, main = getattr(owner, name), 0, threading.current_thread()

        def method(*args: Any, **named: Any) -> Any:
            if threading.current_thread() is not main:
                return real(*args, **named)  # interrupts come to the main thread
            self.calls += 1
            found = real(*args, **named) if after else None
            if self.calls in at:
                raise KeyboardInterrupt
            return found if after else real(*args, **named)

        patch.setattr(owner, name, method)


def make_regressor(**settings: Any) -> HedgerowRegressor:
    return HedgerowRegressor(
        **{"n_estimators": 60, "max_leaves": 6, "learning_rate": 0.2, "patience": 30}
        | {"early_stopping": "cv", "n_jobs": 1}
        | settings
    )


@pytest.fixture(scope="module")
def whole(rows: tuple[Any, Any]) -> HedgerowRegressor:
    """Return a fit without interrupts."""
    return make_regressor().fit(*rows)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_interrupt_of_the_folds_leaves_the_estimator(
    n_jobs: int, rows: Any, whole: Any, monkeypatch: Any
) -> None:
    model = make_regressor(n_jobs=n_jobs)
    for at in (1, 8):
        with monkeypatch.context() as patch:
            Interrupts(patch, cross_module.GrownFold, "advance", at, after=False)
            with pytest.raises(KeyboardInterrupt):
                model.fit(*rows)
        assert not hasattr(model, "booster_")
    again = make_regressor().fit(*rows)  # nothing is left behind
    assert model_to_bytes(again.booster_.model) == model_to_bytes(whole.booster_.model)


def test_an_interrupt_of_the_last_fit_keeps_the_curves_of_the_folds(
    rows: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(INTERRUPTS, "last", -math.inf)
    X, y = rows
    whole = make_regressor().fit(X, y)

    def ctrl_c(state: Any) -> None:
        if state.round == 3:
            raise KeyboardInterrupt

    with pytest.warns(InterruptedFitWarning, match="the model has 3 of"):
        model = make_regressor(callbacks=ctrl_c).fit(X, y)
    assert model.evals_result_ == whole.evals_result_
    assert model.n_iter_ == model.best_iteration_ == 3


@pytest.fixture
def heard() -> Iterator[None]:
    """Let an interrupt raise KeyboardInterrupt, also if this process runs in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heard")
def test_helpers_end_before_an_interrupt_comes_through() -> None:
    """Also if a second one comes while they are waited for."""
    main, doing = threading.current_thread(), []
    started, interrupted = threading.Event(), threading.Event()

    def advance(task: int) -> bool:
        if threading.current_thread() is main:
            assert started.wait(60.0)
            try:
                signal.raise_signal(signal.SIGINT)
            finally:
                interrupted.set()
        doing.append("begun")
        started.set()
        assert interrupted.wait(60.0)
        time.sleep(0.2)
        signal.pthread_kill(main.ident, signal.SIGINT)  # type: ignore[arg-type]
        time.sleep(0.2)
        doing.append("done")
        return True

    with pytest.raises(KeyboardInterrupt) as caught:
        take_turns([partial(advance, task) for task in range(2)], 2)
    assert doing == ["begun", "done"]
    assert isinstance(caught.value.__context__, KeyboardInterrupt)
