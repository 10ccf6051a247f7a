"""Continued training: the bytes of all rounds at once, other rows and categories."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hedgerow import Booster, Dataset, HedgerowClassifier, HedgerowRegressor, train
from hedgerow.errors import (
    DataError,
    DataTypeError,
    InterruptedFitWarning,
    ParameterError,
    StorageError,
)
from hedgerow.io import model_from_bytes
from hedgerow.model.forest import NODE_FIELDS
from tests.helpers.features import parts_of

RNG = np.random.default_rng(0)
N = 1200
LETTERS = list("abcdefghijkl")
X = {
    "size": RNG.normal(size=N),
    "town": RNG.choice(LETTERS, N),
    "age": np.where(RNG.random(N) < 0.1, np.nan, RNG.normal(size=N)),
}
SIGNAL = X["size"] + (X["town"] < "e") + RNG.normal(size=N)
NUMBERS = np.column_stack([X["size"], X["age"]])
TARGETS = {
    "squared_error": SIGNAL,
    "absolute_error": SIGNAL,
    "huber": SIGNAL,
    "logistic": (SIGNAL > 0.0).astype(float),
    "softmax": np.digitize(SIGNAL, [0.0, 1.0]).astype(float),
    "poisson": np.floor(np.exp(SIGNAL / 2.0)),
}
BASE = {"max_leaves": 8, "early_stopping": False}


def assert_same_forest(one, other) -> None:
    a, b = one.model.forest, other.model.forest
    for name in (*NODE_FIELDS, "tree_start", "base_score"):
        assert getattr(a, name).tobytes() == getattr(b, name).tobytes(), name
    assert (a.vectors is None) == (b.vectors is None)
    if a.vectors is not None:
        assert a.vectors.tobytes() == b.vectors.tobytes()
    if a.slopes is not None:
        assert all(x.tobytes() == y.tobytes() for x, y in zip(a.slopes, b.slopes, strict=True))
    if a.categories is not None:
        for name in ("sets", "level_bin", "level_start"):
            assert getattr(a.categories, name).tobytes() == getattr(b.categories, name).tobytes()
    assert one.model.schema == other.model.schema


@pytest.mark.parametrize(
    "params", [{"multi_strategy": "one_output_per_tree"}, {"bundle_features": True}], ids=str
)
def test_trees_of_one_output_may_follow_vectors(params) -> None:
    data = Dataset(NUMBERS, TWO, feature_names=["0", "1"])
    some = train({**BASE, "n_estimators": 3}, data)
    more = train({**BASE, **params, "n_estimators": 2}, data, init_model=some)
    assert more.num_rounds == 5
    assert more.num_trees == 10
    np.testing.assert_array_equal(more.predict(NUMBERS, n_rounds=3), some.predict(NUMBERS))
    loss = [float(np.mean((each.predict(NUMBERS) - TWO) ** 2)) for each in (some, more)]
    assert loss[1] < loss[0]


def test_vectors_do_not_follow_trees_of_one_output() -> None:
    data = Dataset(NUMBERS, TWO)
    alone = {**BASE, "multi_strategy": "one_output_per_tree"}
    some = train({**alone, "n_estimators": 3}, data)
    with pytest.raises(ParameterError, match="vector leaves cannot follow"):
        train({**BASE, "multi_strategy": "multi_output_tree"}, data, init_model=some)
    more = train({**BASE, "n_estimators": 2}, data, init_model=some)
    assert_same_forest(train({**alone, "n_estimators": 5}, data), more)


WHOLE = """
plain
median + sample
mape + depth-wise
huber + small steps
high + sample + columns of nodes
classes + few bins
amounts + weights
categories + GOSS
boosted forests
boosted forests + vectors + classes
exact + sample + weights
approx + MVS
lines + symmetric
ranking
labels
two targets + median + sample
two targets + lines
two targets + sparse columns
vectors + classes + categories
vectors + symmetric + classes
"""


@pytest.mark.parametrize("feature", WHOLE.split("\n")[1:-1])
def test_some_rounds_and_then_more_are_all_at_once(feature: str) -> None:
    params, rows = parts_of(feature)
    data = rows.in_memory()
    whole = train({**params, "n_estimators": 7}, data)
    some = Booster(model_from_bytes(train({**params, "n_estimators": 3}, data).to_bytes())[0])
    more = train({**params, "n_estimators": 4, "multi_strategy": "auto"}, data, init_model=some)
    assert_same_forest(whole, more)
    assert (more.model.training["init_rounds"], some.num_rounds, more.num_rounds) == (3, 3, 7)
    stages = list(more.staged_raw_scores(data.X))
    np.testing.assert_array_equal(stages[2], some.raw_scores(data.X))
    np.testing.assert_array_equal(stages[-1], whole.raw_scores(data.X))
    np.testing.assert_array_equal(more.predict(data.X), whole.predict(data.X))


TWO = np.column_stack([SIGNAL, SIGNAL**2])


def test_fifty_and_fifty(tmp_path) -> None:
    model = HedgerowRegressor(n_estimators=50, max_leaves=6, subsample=0.5).fit(X, SIGNAL)
    path = tmp_path / "first.hedgerow"
    model.save(path)
    whole = HedgerowRegressor(n_estimators=100, max_leaves=6, subsample=0.5).fit(X, SIGNAL)
    for given in (model, model.booster_, path, str(path)):
        more = HedgerowRegressor(n_estimators=50, max_leaves=6, subsample=0.5)
        more.fit(X, SIGNAL, init_model=given)
        assert_same_forest(whole.booster_, more.booster_)
        assert more.n_iter_ == 100
    warm = HedgerowRegressor(n_estimators=50, max_leaves=6, subsample=0.5, warm_start=True)
    warm.fit(X, SIGNAL).set_params(n_estimators=100).fit(X, SIGNAL)
    assert_same_forest(whole.booster_, warm.booster_)


# -- other rows ------------------------------------------------------------------------


def test_new_levels_join_and_old_trees_send_them_where_missing_values_go() -> None:
    known = np.isin(X["town"], list("bdfhk"))
    rows = {name: column[known] for name, column in X.items()}
    params = {**BASE, "n_estimators": 6, "min_data_per_group": 10, "max_cat_to_onehot": 1}
    some = train(params, Dataset(rows, SIGNAL[known]))
    more = train(params, Dataset(X, SIGNAL), init_model=some)
    assert more.model.schema.columns[1].levels == tuple(LETTERS)
    # Known levels and new ones: the first rounds are the old model, to the bit.
    np.testing.assert_array_equal(more.predict(X, n_rounds=6), some.predict(X))
    assert some.unseen_categories["town"] > 0
    assert "town" not in more.unseen_categories
    assert np.mean((more.predict(X) - SIGNAL) ** 2) < np.mean((some.predict(X) - SIGNAL) ** 2)


def test_columns_of_more_levels_than_bins_keep_those_of_the_model() -> None:
    rng = np.random.default_rng(1)
    town = rng.choice([f"t{i:03}" for i in range(40)], 3000, p=rng.dirichlet(np.ones(40)))
    effect = {t: rng.normal() for t in np.unique(town)}
    y = np.array([effect[t] for t in town]) + 0.3 * rng.normal(size=3000)
    params = {**BASE, "n_estimators": 4, "max_bins": 12, "max_cat_to_onehot": 1}
    params |= {"min_data_per_group": 5, "target_statistics": False}
    some = train(params, Dataset({"town": town[:1500]}, y[:1500]))
    others = np.where(rng.random(1500) < 0.2, "x" + town[1500:].astype(object), town[1500:])
    more = train(params, Dataset({"town": others}, y[1500:]), init_model=some)
    before, after = (b.model.forest.categories for b in (some, more))
    old, new = some.model.schema.columns[0].levels, more.model.schema.columns[0].levels
    assert set(old) < set(new)
    bins = dict(zip(new, after.level_bin.tolist(), strict=True))
    pairs = {(b, bins[t]) for t, b in zip(old, before.level_bin.tolist(), strict=True)}
    assert len({new for _, new in pairs}) == len(pairs)  # no bin joins two of the model
    np.testing.assert_array_equal(
        more.predict({"town": town}, n_rounds=4), some.predict({"town": town})
    )
    assert more.num_rounds == 8
    raw = more.predict({"town": others})
    assert np.mean((raw - y[1500:]) ** 2) < np.var(y[1500:])


def test_levels_that_are_numbers() -> None:
    code = RNG.integers(0, 6, N)
    y = SIGNAL + (code % 2)
    kind = {"categorical_features": ["code"]}
    some = train({**BASE, "n_estimators": 3}, Dataset({"code": code[:600]}, y[:600], **kind))
    half = np.where(code[600:] == 5, 2.5, code[600:])
    more = train({**BASE, "n_estimators": 3}, Dataset({"code": half}, y[600:]), init_model=some)
    assert more.model.schema.columns[0].levels == (0.0, 1.0, 2.0, 2.5, 3.0, 4.0, 5.0)
    np.testing.assert_array_equal(
        more.predict({"code": code}, n_rounds=3), some.predict({"code": code})
    )


def test_unknown_levels_are_refused_by_name_if_the_model_says_so() -> None:
    known = X["town"] != "c"
    rows = {name: column[known] for name, column in X.items()}
    some = train(
        {**BASE, "n_estimators": 2}, Dataset(rows, SIGNAL[known], unknown_category="error")
    )
    with pytest.raises(DataError, match=r"column 'town' holds 'c' .*none of the 11 categories"):
        train({**BASE, "n_estimators": 2}, Dataset(X, SIGNAL), init_model=some)


def test_levels_of_rows_without_weight_are_not_seen() -> None:
    weight = (X["town"] != "c").astype(float)
    known = weight > 0
    rows = {name: column[known] for name, column in X.items()}
    some = train({**BASE, "n_estimators": 2}, Dataset(rows, SIGNAL[known]))
    more = train({**BASE, "n_estimators": 2}, Dataset(X, SIGNAL, weight), init_model=some)
    assert more.model.schema == some.model.schema


def test_validation_rows_and_early_stopping() -> None:
    valid = Dataset({name: column[::3] for name, column in X.items()}, SIGNAL[::3])
    some = train({**BASE, "n_estimators": 5}, Dataset(X, SIGNAL), valid)
    params = {"max_leaves": 8, "n_estimators": 5, "patience": 50}
    more = train(params, Dataset(X, SIGNAL), valid, init_model=some)
    whole = train(params | {"n_estimators": 10}, Dataset(X, SIGNAL), valid)
    curve = whole.evals_result["validation"]["loss"]
    assert more.evals_result["validation"]["loss"] == curve[5:]
    assert more.best_iteration == whole.best_iteration
    seen = []
    train(params, Dataset(X, SIGNAL), valid, init_model=some, callbacks=seen.append)
    assert [r.round for r in seen] == [6, 7, 8, 9, 10]


STOPS = {"max_leaves": 8, "learning_rate": 0.4, "early_stopping": True, "patience": 4}
SOME, OTHERS = np.arange(N) % 3 > 0, np.arange(N) % 3 == 0


def watched_loss(model) -> float:
    return float(((model.predict(NUMBERS[OTHERS]) - SIGNAL[OTHERS]) ** 2).mean())


def test_the_model_gone_on_from_may_be_the_best() -> None:
    data, valid = Dataset(NUMBERS[SOME], SIGNAL[SOME]), Dataset(NUMBERS[OTHERS], SIGNAL[OTHERS])
    some = train({**STOPS, "n_estimators": 100}, data, valid)
    assert some.best_iteration == some.num_rounds
    more = train({**STOPS, "n_estimators": 100}, data, valid, init_model=some)
    whole = some.evals_result["validation"]["loss"]
    curve, first = more.evals_result["validation"]["loss"], some.num_rounds
    assert curve[:4] == whole[first:]  # the rounds that the first fit had tried in vain
    assert len(curve) == 4  # patience counts from the model on
    assert more.num_rounds == more.best_iteration == first
    assert more.model.training["init_scores"] == {"validation": {"loss": whole[first - 1]}}
    assert_same_forest(some, more)


@pytest.mark.parametrize("metric", [None, "r2", ["mae", "loss"]])
def test_repeated_warm_starts_do_not_get_worse(metric) -> None:
    model = HedgerowRegressor(n_estimators=60, warm_start=True, eval_metric=metric, **STOPS)
    rows = {"X_val": NUMBERS[OTHERS], "y_val": SIGNAL[OTHERS]}
    losses = [watched_loss(model.fit(NUMBERS[SOME], SIGNAL[SOME], **rows)) for _ in range(4)]
    assert losses == losses[:1] * 4
    assert model.best_iteration_ == model.n_iter_ < 60


@pytest.mark.parametrize("stop_at", [1, 3])
def test_a_resumed_fit_knows_the_score_of_the_model_it_began_with(stop_at, tmp_path) -> None:
    data, valid = Dataset(NUMBERS[SOME], SIGNAL[SOME]), Dataset(NUMBERS[OTHERS], SIGNAL[OTHERS])
    some = train({**STOPS, "n_estimators": 100}, data, valid)
    keep = {"checkpoint": tmp_path / "kept", "checkpoint_every": 0.0, "init_model": some}

    def stop(seen) -> bool:
        if seen.round == some.num_rounds + stop_at:
            raise RuntimeError("power cut")
        return False

    with pytest.raises(RuntimeError, match="power cut"):
        train({**STOPS, "n_estimators": 9}, data, valid, callbacks=stop, **keep)
    resumed = train({**STOPS, "n_estimators": 9}, data, valid, **keep)
    assert resumed.best_iteration == some.num_rounds
    assert_same_forest(some, resumed)


def test_an_interrupted_fit_knows_the_score_of_the_model_it_began_with() -> None:
    data, valid = Dataset(NUMBERS[SOME], SIGNAL[SOME]), Dataset(NUMBERS[OTHERS], SIGNAL[OTHERS])
    some = train({**STOPS, "n_estimators": 100}, data, valid)

    def interrupt(seen) -> None:
        if seen.round == some.num_rounds + 2:
            raise KeyboardInterrupt

    with pytest.warns(InterruptedFitWarning, match=f"keeps the first {some.num_rounds}"):
        more = train(STOPS, data, valid, init_model=some, callbacks=interrupt)
    assert_same_forest(some, more)


def test_the_best_round_of_the_model_gone_on_from_is_shown() -> None:
    data, valid = Dataset(NUMBERS[SOME], SIGNAL[SOME]), Dataset(NUMBERS[OTHERS], SIGNAL[OTHERS])
    some = train({**STOPS, "n_estimators": 100}, data, valid)
    more = train({**STOPS, "n_estimators": 100}, data, valid, init_model=some)
    best, score = some.num_rounds, some.evals_result["validation"]["loss"][some.num_rounds - 1]
    labels = more.plot_history().get_legend_handles_labels()[1]
    assert f"best: round {best}, {score:.5g}" in labels


def test_a_checkpoint_belongs_to_one_model(tmp_path) -> None:
    data = Dataset(X, SIGNAL)
    params = {**BASE, "n_estimators": 4, "subsample": 0.5}
    some = train(params, data)
    whole = train({**params, "n_estimators": 8}, data)
    keep = {"checkpoint": tmp_path / "kept", "checkpoint_every": 0.0}

    def stop(seen) -> bool:
        if seen.round == 6:
            raise RuntimeError("power cut")
        return False

    with pytest.raises(RuntimeError, match="power cut"):
        train(params, data, init_model=some, callbacks=stop, **keep)
    assert_same_forest(whole, train(params, data, init_model=some, **keep))
    with pytest.raises(ParameterError, match="init_model has changed"):
        train(params, data, init_model=train({**params, "random_state": 5}, data), **keep)
    with pytest.raises(ParameterError, match="init_model is gone"):
        train(params, data, **keep)


# -- classes ---------------------------------------------------------------------------


def test_classes_are_those_of_the_model(tmp_path) -> None:
    y = np.array(["low", "mid", "top"])[TARGETS["softmax"].astype(int)]
    some = HedgerowClassifier(n_estimators=4).fit(NUMBERS, y)
    some.save(tmp_path / "m")
    two = y != "mid"
    for given in (some, tmp_path / "m"):
        more = HedgerowClassifier(n_estimators=4).fit(NUMBERS[two], y[two], init_model=given)
        assert more.classes_.tolist() == ["low", "mid", "top"]
        assert more.n_iter_ == 8
    with pytest.raises(DataError, match="y has labels that the model to continue lacks: 'new'"):
        HedgerowClassifier().fit(NUMBERS, np.where(two, y, "new"), init_model=some)
    with pytest.raises(DataError, match="y has labels that the model to continue lacks"):
        HedgerowClassifier().fit(NUMBERS, y == "top", init_model=some.booster_)
    nameless = Booster(some.booster_.model)
    with pytest.raises(ParameterError, match=r"init_model was trained with objective 'softmax'"):
        HedgerowClassifier().fit(NUMBERS, y == "top", init_model=nameless)


@pytest.mark.parametrize("weights", ["balanced", {0: 1.0, 1: 7.0}])
def test_class_weights_go_on_to_the_bit(weights) -> None:
    y = (SIGNAL > 1.5).astype(int)
    settings = {"max_leaves": 8, "class_weight": weights}
    whole = HedgerowClassifier(n_estimators=8, **settings).fit(X, y)
    warm = HedgerowClassifier(n_estimators=3, warm_start=True, **settings).fit(X, y)
    warm.set_params(n_estimators=8).fit(X, y)
    assert_same_forest(whole.booster_, warm.booster_)
    np.testing.assert_array_equal(whole.predict(X), warm.predict(X))
    plain = HedgerowClassifier(n_estimators=5).fit(X, y, init_model=whole)
    assert plain.predict_proba(X)[:, 1].mean() == pytest.approx(y.mean(), abs=0.02)


# -- warm_start ------------------------------------------------------------------------


def test_warm_start_is_that_of_scikit_learn() -> None:
    model = HedgerowRegressor(n_estimators=4, warm_start=True).fit(NUMBERS, SIGNAL)
    before = model.booster_
    model.fit(NUMBERS, SIGNAL)  # nothing to add
    assert_same_forest(before, model.booster_)
    model.set_params(n_estimators=6).fit(NUMBERS[:900], SIGNAL[:900] + 1.0)  # other rows
    assert model.n_iter_ == 6
    np.testing.assert_array_equal(
        model.booster_.predict(NUMBERS, n_rounds=4), before.predict(NUMBERS)
    )
    with pytest.raises(ParameterError, match=r"n_estimators=3 is less than the 6 rounds"):
        model.set_params(n_estimators=3).fit(NUMBERS, SIGNAL)
    assert model.n_iter_ == 6  # a failed fit changes nothing
    model.set_params(n_estimators=7)
    with pytest.raises(DataError, match="X has 1 features"):
        model.fit(NUMBERS[:, :1], SIGNAL)
    with pytest.raises(ParameterError, match="init_model and warm_start=True both"):
        model.fit(NUMBERS, SIGNAL, init_model=before)
    model.set_params(warm_start=False, n_estimators=2).fit(NUMBERS, SIGNAL)
    assert model.n_iter_ == 2
    with pytest.raises(ParameterError, match="warm_start must be True or False; got 'yes'"):
        HedgerowRegressor(warm_start="yes").fit(NUMBERS, SIGNAL)


def test_warm_start_of_a_loaded_model(tmp_path) -> None:
    HedgerowRegressor(n_estimators=3, warm_start=True).fit(X, SIGNAL).save(tmp_path / "m")
    model = HedgerowRegressor.load(tmp_path / "m").set_params(n_estimators=5).fit(X, SIGNAL)
    assert_same_forest(HedgerowRegressor(n_estimators=5).fit(X, SIGNAL).booster_, model.booster_)


def test_out_of_bag_improvements_are_those_of_the_new_rounds() -> None:
    settings = {"subsample": 0.5, "oob_score": True, "early_stopping": False}
    whole = HedgerowRegressor(n_estimators=6, **settings).fit(NUMBERS, SIGNAL)
    some = HedgerowRegressor(n_estimators=2, **settings).fit(NUMBERS, SIGNAL)
    more = HedgerowRegressor(n_estimators=4, **settings).fit(NUMBERS, SIGNAL, init_model=some)
    np.testing.assert_array_equal(more.oob_improvement_, whole.oob_improvement_[2:])


# -- what does not go ------------------------------------------------------------------


def test_refusals_name_what_is_wrong(tmp_path) -> None:
    data = Dataset(X, SIGNAL)
    some = train({**BASE, "n_estimators": 2}, data)
    for change, words in [
        ({"boosting": "dart"}, "init_model: boosting='dart' of this fit"),
        ({"boosting": "rf", "subsample": 0.5, "learning_rate": 1.0}, "boosting='rf' of this fit"),
        ({"objective": "huber"}, "init_model was trained with objective 'squared_error'"),
        ({"target_statistics": True}, "target_statistics"),
        ({"num_parallel_tree": 2}, "num_parallel_tree=2: give the same"),
        ({"zero_as_missing": True}, "zero_as_missing=False: give the same"),
    ]:
        with pytest.raises(ParameterError, match=words):
            train({**BASE, "n_estimators": 2, **change}, data, init_model=some)
    for mode in ({"boosting": "dart"}, {"boosting": "rf", "subsample": 0.5}):
        other = train({**BASE, "n_estimators": 2, **mode}, data)
        with pytest.raises(ParameterError, match=r"of the model rescales"):
            train({**BASE, "n_estimators": 2}, data, init_model=other)
    means = train({**BASE, "n_estimators": 2, "target_statistics": True}, data)
    with pytest.raises(ParameterError, match="target statistics of categories"):
        train({**BASE, "n_estimators": 2}, data, init_model=means)
    with pytest.raises(ParameterError, match=r"init_model must be a Booster.*not fitted"):
        train(BASE, data, init_model=HedgerowRegressor())
    with pytest.raises(ParameterError, match=r"init_model must be a Booster.*got 7"):
        train(BASE, data, init_model=7)
    path = tmp_path / ("long" * 40) / "nothing"  # long values are shortened, paths are not
    with pytest.raises(StorageError, match=rf"init_model names the file '{path}'.* a Booster or"):
        train(BASE, data, init_model=path)
    with pytest.raises(ParameterError, match="warm_start is for estimators"):
        train({"warm_start": True}, data)


def test_columns_must_be_those_of_the_model() -> None:
    some = train({**BASE, "n_estimators": 2}, Dataset(X, SIGNAL))
    other = {("height" if name == "size" else name): column for name, column in X.items()}
    with pytest.raises(DataError, match=r"(?s)unseen at fit time:\n- height.*missing:\n- size"):
        train(BASE, Dataset(other, SIGNAL), init_model=some)
    turned = dict(reversed(X.items()))
    assert_same_forest(
        train({**BASE, "n_estimators": 2}, Dataset(X, SIGNAL), init_model=some),
        train({**BASE, "n_estimators": 2}, Dataset(turned, SIGNAL), init_model=some),
    )
    with pytest.raises(DataTypeError, match="column 'size' holds text"):
        train(BASE, Dataset({**X, "size": X["town"]}, SIGNAL), init_model=some)
    with pytest.raises(ParameterError, match="column 'town' held categories"):
        train(BASE, Dataset(X, SIGNAL, categorical_features=None), init_model=some)
    with pytest.raises(ParameterError, match="unknown_category='error', but init_model"):
        train(BASE, Dataset(X, SIGNAL, unknown_category="error"), init_model=some)
    bare = train({**BASE, "n_estimators": 2}, Dataset(NUMBERS, SIGNAL, feature_names=["a", "b"]))
    with pytest.raises(DataError, match="- c"):
        train(BASE, Dataset(NUMBERS, SIGNAL, feature_names=["a", "c"]), init_model=bare)


# -- beside schedules, callbacks and budgets ----------------------------------------


def test_a_schedule_goes_on_and_a_list_is_of_the_new_rounds() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = X[:, 0] + rng.normal(size=300)
    rates = [0.4 / (1 + number) for number in range(12)]

    def fit(n_rounds: int, rate: Any, **more: Any) -> Any:
        settings = {"max_leaves": 5, "subsample": 0.7, "early_stopping": False}
        model = HedgerowRegressor(n_estimators=n_rounds, learning_rate=rate, **settings)
        return model.fit(X, y, **more)

    whole, first = fit(12, rates.__getitem__), fit(5, rates.__getitem__)
    for rate in (rates.__getitem__, rates[5:]):
        later = fit(7, rate, init_model=first)
        assert later.predict(X).tobytes() == whole.predict(X).tobytes()
        assert later.booster_.model.training["parameters"]["learning_rate"] == rates
    warm = fit(5, rates[:5]).set_params(warm_start=True, n_estimators=12, learning_rate=rates)
    assert warm.fit(X, y).predict(X).tobytes() == whole.predict(X).tobytes()
    expected = whole.booster_.refit(X, 2.0 * y).predict(X)
    assert later.booster_.refit(X, 2.0 * y).predict(X).tobytes() == expected.tobytes()
    record = later.booster_.model.training
    record = {**record, "parameters": {**record["parameters"], "learning_rate": rates[5:]}}
    with pytest.raises(ParameterError, match="12 rounds, but its record has learning rates of 7"):
        Booster(replace(later.booster_.model, training=record)).refit(X, y)


def test_the_record_has_the_learning_rates_of_all_rounds() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = X[:, 0] + rng.normal(size=200)

    def fit(n_rounds: int, rate: Any, **more: Any) -> Any:
        settings = {"max_leaves": 5, "early_stopping": False}
        model = HedgerowRegressor(n_estimators=n_rounds, learning_rate=rate, **settings)
        return model.fit(X, y, **more)

    def recorded(model: Any) -> Any:
        return model.booster_.model.training["parameters"]["learning_rate"]

    whole = fit(6, [0.5] * 2 + [0.2] * 3 + [0.1])
    parts = fit(1, 0.1, init_model=fit(3, 0.2, init_model=fit(2, 0.5)))
    assert recorded(parts) == recorded(whole)
    assert parts.booster_.predict(X).tobytes() == whole.booster_.predict(X).tobytes()
    refitted = [model.booster_.refit(X, y + 3.0, decay=0.2) for model in (parts, whole)]
    assert refitted[0].predict(X).tobytes() == refitted[1].predict(X).tobytes()
    assert recorded(fit(3, 0.5, init_model=fit(2, 0.5))) == 0.5
    warm = fit(2, 0.5).set_params(warm_start=True, n_estimators=4, learning_rate=0.25)
    assert recorded(warm.fit(X, y)) == [0.5, 0.5, 0.25, 0.25]
