"""Automatic parameters: their values, and the quality of their models."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.metrics import log_loss
from sklearn.utils.estimator_checks import parametrize_with_checks

from hedgerow import HedgerowClassifier, HedgerowRanker, HedgerowRegressor, ParameterError
from hedgerow.boosting.automatic.cost import BudgetSchedule, in_a_hurry, within_time
from hedgerow.boosting.automatic.recipe import AUTOMATIC, DataSize, plain_values, recipe
from hedgerow.io import model_to_bytes
from tests.helpers.clocks import keeps_to_budget

RNG = np.random.default_rng(0)
ESTIMATORS = (HedgerowClassifier, HedgerowRegressor)


@pytest.mark.slow
@parametrize_with_checks([kind(n_jobs=1) for kind in ESTIMATORS])
def test_scikit_learn_conventions_hold_without_any_parameter(estimator: Any, check: Any) -> None:
    check(estimator)


def _log_loss(y: Any, p: Any) -> float:
    return float(-np.mean(np.log(np.where(y == 1, p, 1.0 - p))))


def test_defaults_are_automatic_and_reported() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    model = HedgerowClassifier(random_state=1).fit(X, y)
    expected = recipe(DataSize(len(y)))
    chosen = model.chosen_params_
    for name in ("easy_rounds", "least_patience", "max_depth"):  # reported for symmetric trees
        del expected[name]
    expected["multi_strategy"] = "auto"  # of no meaning for two classes
    expected |= {"feature_crosses": None, "extra_trees": False}
    assert chosen.pop("folds") == list(expected.pop("folds"))
    best = min(chosen.pop("tried"), key=lambda entry: entry["score"])
    expected |= {name: best[name] for name in set(best) & set(chosen)}
    blend = chosen.pop("blend")
    assert chosen == expected
    assert model.n_iter_ == sum(kind["n_estimators"] for kind in blend)
    assert model.best_iteration_ == blend[0]["n_estimators"] < chosen["n_estimators"]
    assert model.stopped_by_ == "early_stopping"
    n_rounds = len(model.evals_result_["cv"]["loss"]) * chosen["stride"]
    assert n_rounds * chosen["rounds_factor"] >= model.best_iteration_


@pytest.mark.slow
def test_many_classes_have_rounds_enough() -> None:
    rng = np.random.default_rng(0)
    centers = 1.5 * rng.normal(size=(20, 16))
    y = np.arange(2_600) % 20
    X = centers[y] + rng.normal(size=(2_600, 16))
    model = HedgerowClassifier(random_state=0, n_jobs=1).fit(X[:600], y[:600])
    # Once, the folds ended at a third of 1,000 rounds, while their curve still fell.
    assert model.n_iter_ > 1_000
    capped = HedgerowClassifier(
        **{**model.repeat_params_, "n_estimators": 709, "learning_rate": 0.1128}
    ).fit(X[:600], y[:600])
    losses = [log_loss(y[600:], each.predict_proba(X[600:])) for each in (model, capped)]
    assert losses[0] < 0.95 * losses[1]


@pytest.mark.parametrize("name", sorted(set(AUTOMATIC) - {"early_stopping", "multi_strategy"}))
def test_explicit_values_win(name: str) -> None:
    value = {
        "n_estimators": 7, "learning_rate": 0.3, "max_leaves": 5, "min_samples_leaf": 9,
        "reg_lambda": 0.5, "subsample": 0.9, "colsample_bynode": 0.9, "patience": 3,
        "max_bins": 100, "grow_policy": "depthwise", "linear_leaves": True,
        "min_data_per_group": 20, "cat_smooth": 2.0, "cat_l2": 3.0, "max_cat_to_onehot": 6,
        "feature_crosses": [["x1", "x2", "product"]], "extra_trees": True,
    }[name]  # fmt: skip
    X, y = (rows[:150] for rows in load_diabetes(return_X_y=True))
    model = HedgerowRegressor(random_state=0, **{"patience": 3, name: value}).fit(X, y)
    record = model.booster_.model.training
    assert {**record["parameters"], **record.get("folds", {})}[name] == value
    assert name not in model.chosen_params_


def test_many_categories_keep_their_bins() -> None:
    X, y = load_diabetes(return_X_y=True)
    few = HedgerowRegressor(random_state=0).fit(X, y)
    assert few.chosen_params_["max_bins"] == 63
    assert few.booster_.model.training["parameters"]["max_bins"] == 63
    towns = np.array([f"t{i % 100}" for i in range(len(y))], dtype=object)
    with_towns = np.column_stack([X.astype(object), towns])
    many = HedgerowRegressor(random_state=0, categorical_features=[10]).fit(with_towns, y)
    assert many.chosen_params_["max_bins"] == 255


def test_sets_of_categories_are_not_searched_on_samples_of_many_rows() -> None:
    assert recipe(DataSize(20_000))["subsample"] < 1.0
    assert recipe(DataSize(20_000, most_levels=5))["subsample"] == 1.0
    assert recipe(DataSize(1_000, most_levels=5))["subsample"] < 1.0


def test_small_tables_have_sets_of_few_rows() -> None:
    # With the plain 100 rows a node of less than 200 rows is not split by towns at all.
    town = np.arange(160) % 8
    y = np.where(np.isin(town, [0, 3, 5]), 1.0, -1.0) + 0.1 * RNG.normal(size=160)
    towns = np.array([f"t{code}" for code in town], dtype=object)
    X = np.column_stack([towns, RNG.normal(size=160).astype(object)])
    chosen = HedgerowRegressor(random_state=0, categorical_features=[0]).fit(X, y)
    assert chosen.chosen_params_["min_data_per_group"] < 100
    assert np.mean((chosen.predict(X) - y) ** 2) < 0.1
    plain = HedgerowRegressor(random_state=0, categorical_features=[0], n_estimators=50).fit(X, y)
    assert plain.chosen_params_["min_data_per_group"] == 100
    assert np.mean((plain.predict(X) - y) ** 2) > 0.3


def test_many_classes_share_their_trees() -> None:
    X = RNG.normal(size=(400, 3))
    y = RNG.integers(0, 9, 400)
    model = HedgerowClassifier(random_state=0).fit(X, y)
    assert model.chosen_params_["multi_strategy"] == "multi_output_tree"
    assert model.booster_.num_trees == model.n_iter_
    estimator = HedgerowClassifier(random_state=0, multi_strategy="one_output_per_tree").fit(X, y)
    assert "multi_strategy" not in estimator.chosen_params_
    assert estimator.booster_.num_trees == 9 * estimator.n_iter_
    for params in ({"path_smooth": 1.0}, {"bundle_features": True}):  # which need trees apart
        other = HedgerowClassifier(random_state=0, **params).fit(X, y)
        assert other.chosen_params_["multi_strategy"] == "one_output_per_tree"
    few = HedgerowClassifier(random_state=0).fit(X, y % 7)
    assert few.chosen_params_["multi_strategy"] == "one_output_per_tree"


def _smooth(n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    X = RNG.normal(size=(n_rows, 3))
    return X, np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2]


def test_squared_error_of_many_rows_is_fitted_level_by_level() -> None:
    X, y = _smooth(3_000)
    usual = {"random_state": 0, "patience": 3, "extra_trees": False}
    chosen = HedgerowRegressor(**usual).fit(X, y).chosen_params_
    assert chosen["grow_policy"] == "symmetric"
    best = min(chosen["tried"], key=lambda entry: entry["score"])
    assert chosen["max_depth"] == best.get("max_depth", 7)
    params: dict[str, Any]
    for params in ({"max_leaves": 20}, {"max_depth": 4}, {"monotone_constraints": [1, 0, 0]}):
        other = HedgerowRegressor(**usual, **params).fit(X, y).chosen_params_
        assert other["grow_policy"] == "leafwise"
        assert "max_depth" not in other
        assert "max_leaves" in params or other["max_leaves"] == 31


def test_with_rounds_given_all_is_plain() -> None:
    X, y = load_diabetes(return_X_y=True)
    automatic = HedgerowRegressor(n_estimators=20).fit(X, y)
    values = plain_values() | {"n_estimators": 20}
    explicit = HedgerowRegressor(**values).fit(X, y)
    assert model_to_bytes(automatic.booster_.model) == model_to_bytes(explicit.booster_.model)


@pytest.mark.parametrize("n_rows", [30, 99, 100])
@pytest.mark.parametrize("rounds", [{"n_estimators": 5}, {"early_stopping": False}], ids=str)
@pytest.mark.parametrize("policy", ["leafwise", "depthwise", "symmetric"])
@pytest.mark.parametrize("boosting", ["gbdt", "dart"])
def test_tiny_tables_of_counted_rounds_take_every_kind_of_trees(
    n_rows: int, rounds: dict[str, Any], policy: str, boosting: str
) -> None:
    X, y = load_diabetes(return_X_y=True)
    params = {**rounds, "grow_policy": policy, "boosting": boosting}
    model = HedgerowRegressor(**params, random_state=0).fit(X[:n_rows], y[:n_rows])
    shrinks = n_rows < 100 and boosting == "gbdt"
    assert (model.chosen_params_["reg_lambda"] == 1.0) == (not shrinks)
    leaves = {"symmetric": None}.get(policy, 8 if shrinks else 31)
    assert model.booster_.model.training["parameters"]["max_leaves"] == leaves


def test_chosen_parameters_give_the_same_model_if_passed() -> None:
    X, y = load_diabetes(return_X_y=True)
    chosen = HedgerowRegressor(random_state=0).fit(X, y)
    chosen_params = chosen.chosen_params_
    chosen_params["n_estimators"] = chosen.n_iter_
    for name in ("folds", "rounds_factor", "stride", "tried", "early_stopping", "patience"):
        del chosen_params[name]
    same = HedgerowRegressor(random_state=0, early_stopping=False, **chosen_params).fit(X, y)
    np.testing.assert_array_equal(same.predict(X), chosen.predict(X))


def test_validation_rows_tell_when_to_stop() -> None:
    X, y = load_diabetes(return_X_y=True)
    model = HedgerowRegressor(random_state=0).fit(X[:300], y[:300], X_val=X[300:], y_val=y[300:])
    assert list(model.evals_result_) == ["validation"]
    assert model.chosen_params_["n_estimators"] > 100


@pytest.mark.parametrize(
    "params",
    [
        {"boosting": "rf", "subsample": 0.5},
        {"boosting": "dart"},
        {"tree_method": "exact"},
        {"sampling": "goss"},
        {"subsample": 0.5, "oob_score": True},
    ],
    ids=str,
)
def test_what_a_recipe_would_contradict_is_plain(params: dict[str, Any]) -> None:
    X, y = load_diabetes(return_X_y=True)
    model = HedgerowRegressor(random_state=0, **params).fit(X, y)
    assert model.chosen_params_["n_estimators"] == 100
    assert "folds" not in model.chosen_params_


def test_rankings_of_counted_rounds_are_plain() -> None:
    X, y, qid = RNG.normal(size=(60, 3)), RNG.integers(0, 3, 60), np.repeat(np.arange(6), 10)
    model = HedgerowRanker(n_estimators=50).fit(X, y, qid=qid)
    assert "folds" not in model.chosen_params_
    assert model.chosen_params_["max_leaves"] == 31


@pytest.mark.parametrize("name", AUTOMATIC)
def test_other_words_are_refused(name: str) -> None:
    with pytest.raises(ParameterError, match=name):
        HedgerowRegressor(**{name: "automatic"}).fit([[0.0], [1.0]], [0.0, 1.0])


def test_little_time_is_paced_and_much_time_asks_folds() -> None:
    size = DataSize(200_000, n_features=30)
    values = [within_time(recipe(size), size, t, began=0.0) for t in (0.5, 5.0, 50.0, 5000.0)]
    assert [v["early_stopping"] for v in values] == [False, True, "cv", "cv"]
    assert all(isinstance(v["learning_rate"], BudgetSchedule) for v in values[:2])
    assert values[2:] == [recipe(size)] * 2  # as without a budget
    now = time.monotonic()
    with_rows = within_time(recipe(size), size, 5000.0, now, has_validation=True)
    assert with_rows["learning_rate"](0) == pytest.approx(0.02)
    assert with_rows["early_stopping"] is True


def test_a_hurry_is_spent_on_rounds_that_learn_most() -> None:
    many = 100.0  # rounds
    values, path = in_a_hurry(DataSize(5_000), many)
    assert (values["grow_policy"], values["max_leaves"], values["subsample"]) == ("leafwise", 24, 1)
    of_classes, _ = in_a_hurry(DataSize(5_000, n_outputs=26), many)
    assert (of_classes["multi_strategy"], of_classes["subsample"]) == ("auto", 0.65)
    of_squares, longer = in_a_hurry(DataSize(5_000, squares=True, by_levels=True), many)
    assert (of_squares["grow_policy"], of_squares["max_depth"]) == ("symmetric", 7)
    assert longer > path
    small, _ = in_a_hurry(DataSize(1_000), many)
    assert small["max_leaves"] == recipe(DataSize(1_000))["max_leaves"]
    assert small["subsample"] == 1.0


@pytest.mark.parametrize(
    "size", [DataSize(5_000, n_outputs=3), DataSize(5_000, squares=True, by_levels=True)]
)
def test_very_few_rounds_are_plain(size: DataSize) -> None:
    values, _ = in_a_hurry(size, 20.0)
    plain = plain_values()
    names = ("max_leaves", "min_samples_leaf", "subsample", "grow_policy", "reg_lambda")
    assert {name: values[name] for name in names} == {name: plain[name] for name in names}


def test_a_hurried_fit_has_what_was_given_and_else_the_hurried_values() -> None:
    X = RNG.normal(size=(4_000, 10))
    y = np.sin(3 * X[:, 0]) + X[:, 1]
    size = DataSize(4_000, 10, squares=True, by_levels=True)
    assert within_time(recipe(size), size, 0.1, began=0.0)["early_stopping"] is False
    chosen = HedgerowRegressor(time_budget=0.1, random_state=0).fit(X, y).chosen_params_
    assert (chosen["grow_policy"], chosen["max_depth"]) == ("symmetric", 7)
    given = HedgerowRegressor(time_budget=0.1, max_leaves=5, random_state=0).fit(X, y)
    assert given.chosen_params_["grow_policy"] == "leafwise"
    assert given.booster_.model.training["parameters"]["max_leaves"] == 5


class Clock:
    """A clock that moves on demand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def scheduled(seconds: Iterable[float], path: float, budget: float, expected: float) -> list[float]:
    """Return the learning rates of the rounds that the budget has time for."""
    clock = Clock()
    rate = BudgetSchedule(path, clock.now + budget, expected, clock)
    rates: list[float] = []
    for number, took in enumerate(seconds):
        rates.append(rate(number))
        clock.now += took
        if clock.now >= 100.0 + budget:
            break
    assert [rate(number) for number in range(len(rates))] == rates  # a rate stays
    return rates


@given(st.lists(st.floats(0.05, 0.15), min_size=300, max_size=300), st.floats(0.001, 10.0))
def test_the_path_is_gone_when_the_time_is(seconds: list[float], expected: float) -> None:
    rates = scheduled(seconds, path=10.0, budget=10.0, expected=expected)
    assert all(0.0 < rate <= 0.3 for rate in rates)
    assert sum(rates) == pytest.approx(10.0, rel=0.1)


def test_rounds_that_become_slow_take_larger_steps() -> None:
    rates = scheduled([0.05] * 100 + [0.2] * 200, path=10.0, budget=10.0, expected=0.05)
    assert rates[50] == pytest.approx(0.05, rel=0.01)
    assert rates[120] > 3 * rates[50]
    assert sum(rates) == pytest.approx(10.0, rel=0.05)


def test_the_pace_has_bounds() -> None:
    assert set(scheduled([1.0] * 50, path=20.0, budget=10.0, expected=1.0)) == {0.3}
    rates = scheduled([0.01] * 200, path=2.0, budget=10.0, expected=0.01)
    np.testing.assert_allclose(rates, 0.02, rtol=1e-9)


def test_one_slow_round_is_no_pace() -> None:
    compiled = scheduled([3.0] + [0.05] * 300, path=10.0, budget=10.0, expected=0.05)
    assert max(compiled[1:-5]) < 1.1 * min(compiled[1:-5])


def test_a_fit_keeps_to_its_budget() -> None:
    X = RNG.normal(size=(20_000, 10))
    y = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2]
    HedgerowRegressor(random_state=0).fit(X[:500], y[:500])  # kernels are loaded

    def fit(callback: Any) -> HedgerowRegressor:
        return HedgerowRegressor(random_state=0, time_budget=1.0, callbacks=callback).fit(X, y)

    model = keeps_to_budget(fit, 1.0)
    assert model.chosen_params_["learning_rate"] != recipe(DataSize(20_000))["learning_rate"]
    assert model.n_iter_ > 1


# -- small data ----------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_thirty_rows_with_a_plain_signal_are_learned(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, X_test = rng.normal(size=(30, 6)), rng.normal(size=(2000, 6))
    y, y_test = (X[:, 0] > 0).astype(int), (X_test[:, 0] > 0).astype(int)
    proba = HedgerowClassifier(random_state=seed).fit(X, y).predict_proba(X_test)[:, 1]
    assert _log_loss(y_test, proba) < 0.4
    target, target_test = 3.0 * X[:, 0], 3.0 * X_test[:, 0]
    predicted = HedgerowRegressor(random_state=seed).fit(X, target).predict(X_test)
    assert np.mean((predicted - target_test) ** 2) < 0.5 * np.var(target_test)


@pytest.mark.parametrize("n_rows", [60, 200, 1000, 4000])
def test_noise_is_predicted_by_its_base_rate(n_rows: int) -> None:
    excess = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X, X_test = rng.normal(size=(n_rows, 6)), rng.normal(size=(4000, 6))
        y, y_test = rng.integers(0, 2, n_rows), rng.integers(0, 2, 4000)
        model = HedgerowClassifier(random_state=seed).fit(X, y)
        base = _log_loss(y_test, np.full(len(y_test), y.mean()))
        excess.append(_log_loss(y_test, model.predict_proba(X_test)[:, 1]) / base - 1.0)
    assert np.mean(excess) < 0.01


def test_all_rows_alike() -> None:
    model = HedgerowRegressor().fit(np.ones((40, 2)), np.arange(40.0))
    np.testing.assert_allclose(model.predict(np.ones((1, 2))), 19.5)


@pytest.mark.parametrize("n_rows", [1, 2, 5, 9, 10, 11, 15])
def test_hardly_any_rows(n_rows: int) -> None:
    X = np.arange(float(n_rows))[:, None]
    assert HedgerowRegressor(patience=3).fit(X, X[:, 0]).predict(X).shape == (n_rows,)
    if n_rows > 1:
        proba = HedgerowClassifier(patience=3).fit(X, X[:, 0] > 0).predict_proba(X)
        assert proba.shape == (n_rows, 2)


# -- copies of rows --------------------------------------------------------------


def test_a_row_repeated_or_weighted_gives_the_same_folds_and_model() -> None:
    X = RNG.normal(size=(40, 3))
    y = X[:, 0] + 0.1 * RNG.normal(size=40)
    times = RNG.integers(1, 4, size=40)
    weighted = HedgerowRegressor(random_state=0).fit(X, y, sample_weight=times)
    repeated = HedgerowRegressor(random_state=0).fit(X.repeat(times, axis=0), y.repeat(times))
    assert weighted.n_iter_ == repeated.n_iter_
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-7)


@pytest.mark.parametrize("n_rows", [300, 3_100])
def test_several_targets_share_their_trees(n_rows: int) -> None:
    X = np.random.default_rng(0).normal(size=(n_rows, 3))
    model = HedgerowRegressor(n_jobs=1).fit(X, X[:, :2])
    assert model.booster_.model.forest.vectors is not None
    assert not model.booster_.model.training["parameters"]["linear_leaves"]


@pytest.mark.parametrize(
    ("n_rows", "params", "lines"),
    [
        (99, {}, False),
        (100, {}, True),
        (3_100, {}, True),
        (200, {"n_estimators": 5}, False),
        (200, {"monotone_constraints": [1, 0]}, False),
        (200, {"max_delta_step": 1.0}, True),
        (200, {"linear_leaves": False}, False),
    ],
)
def test_lines_of_squares(n_rows: int, params: dict[str, Any], lines: bool) -> None:
    X = np.random.default_rng(0).normal(size=(n_rows, 2))
    y = np.abs(X[:, 0])
    params = {"patience": 3, **params}
    model = HedgerowRegressor(n_jobs=1, **params).fit(X, y)
    assert (model.booster_.model.forest.slopes is not None) == lines


def test_categories_alone_have_no_lines() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"city": rng.choice(["Ulm", "Bonn", "Kiel"], 300)})
    model = HedgerowRegressor(n_jobs=1).fit(frame, rng.normal(size=300))
    assert model.booster_.model.forest.slopes is None
