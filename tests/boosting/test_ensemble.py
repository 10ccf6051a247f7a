"""Ways of adding trees up, and of choosing their leaf values."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from sklearn.datasets import load_diabetes, load_iris
from sklearn.ensemble import GradientBoostingRegressor

from hedgerow import CARTClassifier, HedgerowClassifier, HedgerowRegressor, train
from hedgerow.boosting.loop.scores import TrainingData
from hedgerow.boosting.row_data.dataset import Dataset
from hedgerow.errors import DataError, ParameterError
from hedgerow.growing.sampling.draws import ROW_STREAM
from hedgerow.kernels.primitives.hashing import hash64
from hedgerow.objectives import make_objective
from hedgerow.objectives.line_search import LONGEST_STEP, LeafRows
from hedgerow.params import BoostParams
from tests.helpers import engine

SMALL = {"min_samples_leaf": 3, "n_estimators": 12, "max_leaves": 6}
FIRST_ORDER_TREES = {
    "grow_policy": "depthwise",
    "max_depth": 3,
    "max_leaves": None,
    "min_samples_leaf": 1,
    "min_child_weight": 0.0,
    "reg_lambda": 0.0,
    "n_estimators": 30,
    "early_stopping": False,
}


def table(n_rows=300, seed=0, n_classes=2):
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(n_rows, 5)), 1)
    score = X[:, 0] + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=n_rows)
    return X, np.digitize(score, np.quantile(score, np.arange(1, n_classes) / n_classes))


def leaf_rows(seed, n_outputs=1, binary=True):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 40, 6)
    n = int(sizes.sum())
    target = rng.integers(0, max(2, n_outputs), n).astype(float) if binary else rng.normal(size=n)
    starts = np.append(0, np.cumsum(sizes))
    return LeafRows(target, rng.normal(size=(n_outputs, n)), rng.uniform(0.1, 2.0, n), starts)


# -- line search ------------------------------------------------------------------


@pytest.mark.parametrize("name", ["squared_error", "logistic", "exponential", "softmax"])
@pytest.mark.parametrize("seed", range(4))
def test_leaf_step_minimises_the_loss_of_the_leaf(name, seed) -> None:
    n_outputs = 3 if name == "softmax" else 1
    objective = make_objective(name, n_outputs)
    leaves = leaf_rows(seed, n_outputs, binary=name != "squared_error")
    for output in range(n_outputs):
        steps = objective.leaf_steps(leaves, output)
        for leaf, (a, b) in enumerate(zip(leaves.starts, leaves.starts[1:], strict=False)):

            def loss(c, a=a, b=b, output=output):
                raw = leaves.raw[:, a:b].copy()
                raw[output] += c
                return objective.loss(leaves.target[a:b], raw, leaves.weight[a:b])

            best = minimize_scalar(loss, bounds=(-LONGEST_STEP, LONGEST_STEP), method="bounded",
                                   options={"xatol": 1e-9})  # fmt: skip
            assert loss(steps[leaf]) <= best.fun + 1e-9


def test_leaf_of_one_class_stops_at_the_longest_step() -> None:
    leaves = LeafRows(np.ones(3), np.zeros((1, 3)), np.ones(3), np.array([0, 3]))
    for name in ("logistic", "exponential"):
        assert make_objective(name).leaf_steps(leaves, 0) == pytest.approx(LONGEST_STEP, abs=1e-3)


@pytest.mark.parametrize("loss", ["squared_error", "absolute_error", "quantile"])
def test_first_order_boosting_is_that_of_scikit_learn(loss) -> None:
    X, y = load_diabetes(return_X_y=True)
    level = 0.8 if loss == "quantile" else None
    ours = HedgerowRegressor(
        objective=loss, quantile=level, leaf_estimation="line_search", **FIRST_ORDER_TREES
    ).fit(X, y)
    theirs = GradientBoostingRegressor(
        loss=loss, alpha=level or 0.9, n_estimators=30, random_state=0
    ).fit(X, y)
    a, b = ours.predict(X), theirs.predict(X)
    if loss == "squared_error":
        np.testing.assert_allclose(a, b, rtol=1e-6)
    else:  # signs of residuals tie often: other trees, the same quality
        objective = make_objective(loss, level=level)
        at_a, at_b = (objective.loss(y, p[None, :], None) for p in (a, b))
        assert at_a < 1.03 * at_b


def test_gradient_leaves_are_mean_residuals() -> None:
    X, y = load_diabetes(return_X_y=True)
    by_gradient, by_search = (
        HedgerowRegressor(leaf_estimation=way, **FIRST_ORDER_TREES).fit(X, y).predict(X)
        for way in ("gradient", "line_search")
    )
    np.testing.assert_allclose(by_gradient, by_search, rtol=1e-7)


@pytest.mark.parametrize("loss", ["absolute_error", "quantile"])
def test_losses_without_second_derivative_refuse_newton(loss) -> None:
    X, y = table()
    with pytest.raises(ParameterError, match="needs a second derivative"):
        HedgerowRegressor(objective=loss, leaf_estimation="newton").fit(X, y)
    model = HedgerowRegressor(objective=loss, **SMALL).fit(X, y)
    assert model.booster_.model.training["parameters"]["leaf_estimation"] == "line_search"


def test_exponential_loss_is_for_two_classes() -> None:
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ParameterError, match="'exponential' is for two classes, but y has 3"):
        HedgerowClassifier(objective="exponential").fit(X, y)
    with pytest.raises(DataError, match="needs targets 0 or 1; row"):
        train({"objective": "exponential"}, Dataset(X, y))


# -- out of bag ----------------------------------------------------------------------


@pytest.mark.parametrize(("name", "n_classes"), [("logistic", 2), ("softmax", 3)])
def test_oob_improvement_is_that_of_the_rows_left_out(name, n_classes) -> None:
    X, y = table(400, n_classes=n_classes)
    matrix, objective = engine.binned(X), make_objective(name, 1 if n_classes == 2 else n_classes)
    params = BoostParams(subsample=0.6, oob_score=True, **SMALL)
    data = TrainingData(matrix, y.astype(float))
    base = objective.initial_score(y.astype(float), None)
    before = np.repeat(base[:, None], len(y), axis=1)
    limit = int(0.6 * 2.0**63) << 1
    with contextlib.closing(engine.rounds(data, objective, params)) as states:
        for number, state in enumerate(states):
            stream = np.uint64(ROW_STREAM + number)
            hashes = [hash64(np.uint64(0), stream, np.uint64(row)) for row in range(len(y))]
            outside = np.flatnonzero(np.array(hashes) >= np.uint64(limit))
            losses = [
                objective.loss(y[outside].astype(float), raw[:, outside], None)
                for raw in (before, state.train.raw)
            ]
            assert state.improvement == pytest.approx(losses[0] - losses[1], abs=1e-12)
            assert number > 0 or state.improvement > 0
            before = state.train.raw.copy()
    forest = state.freeze()
    in_sample = forest.count[forest.tree_start[:-1]]
    # Trees of a round share their sample.
    assert (
        in_sample.reshape(-1, objective.n_outputs) == in_sample[:: objective.n_outputs, None]
    ).all()
    assert abs(in_sample.mean() - 240) < 20


def test_no_sampling_no_out_of_bag_attributes() -> None:
    X, y = table()
    model = HedgerowClassifier(**SMALL).fit(X, y)
    with pytest.raises(AttributeError, match="subsample below 1"):
        _ = model.oob_improvement_
    with pytest.raises(AttributeError, match="boosting='rf'"):
        _ = model.oob_score_


# -- dart and random forest -------------------------------------------------------------


def boosted(X, y, n_classes=2, n_threads=1, validation=None, **params):
    """Return the last state of a run."""
    objective = (
        make_objective("logistic") if n_classes == 2 else make_objective("softmax", n_classes)
    )
    matrix = engine.binned(X)
    data = TrainingData(matrix, y.astype(float))
    unseen = None if validation is None else TrainingData(matrix, y.astype(float))
    states = engine.rounds(data, objective, BoostParams(**{**SMALL, **params}), unseen, n_threads)
    with contextlib.closing(states):
        *_, last = states
        return last


@pytest.mark.parametrize("setting", [{"drop_rate": 0.0}, {"skip_drop": 1.0}])
def test_dart_that_drops_nothing_is_gradient_boosting(setting) -> None:
    X, y = table()
    a = boosted(X, y, boosting="dart", **setting).freeze()
    b = boosted(X, y).freeze()
    assert a.value.tobytes() == b.value.tobytes()
    assert a.threshold.tobytes() == b.threshold.tobytes()


def test_dart_shares_the_place_of_dropped_trees() -> None:
    X, y = table()
    # One round is always dropped: with rate nu the factors are known by hand.
    state = boosted(
        X, y, boosting="dart", drop_rate=1.0, skip_drop=0.0, n_estimators=2, learning_rate=0.5
    )
    alone = boosted(X, y, n_estimators=1, learning_rate=0.5).freeze()
    forest = state.freeze()
    first = forest.tree(0).value
    np.testing.assert_allclose(first, alone.value * (1 / 1.5))
    # The second tree is grown as if the first were not there, and takes 1 / (1 + nu).
    np.testing.assert_allclose(forest.tree(1).value, alone.value * (1 / 1.5))


def test_dart_that_stops_early_goes_back_to_the_factors_of_then() -> None:
    X, y = table()
    states = []
    objective = make_objective("logistic")
    params = BoostParams(**SMALL, boosting="dart", drop_rate=0.5, skip_drop=0.0)
    run = engine.rounds(TrainingData(engine.binned(X), y.astype(float)), objective, params)
    with contextlib.closing(run):
        for state in run:
            states.append(state.train.raw.copy())
        for n in (1, 5, 11):
            predictor = engine.Predictor(state.freeze(n), ["float"] * 5)
            np.testing.assert_allclose(predictor.raw_scores(X), states[n - 1], rtol=0, atol=1e-12)


def test_forest_is_the_mean_of_trees_grown_from_the_start() -> None:
    X, y = table()
    state = boosted(X, y, boosting="rf", subsample=0.5)
    forest = state.freeze()
    counts = forest.count[forest.tree_start[:-1]]
    assert len(set(counts.tolist())) > 1  # other rows in each
    first = boosted(X, y, subsample=0.5, n_estimators=1, learning_rate=1.0).freeze()
    np.testing.assert_allclose(forest.tree(0).value * forest.n_trees, first.value)


def test_oob_score_is_by_trees_that_did_not_see_the_row() -> None:
    X, y = table(500)
    model = HedgerowClassifier(
        boosting="rf",
        oob_score=True,
        subsample=0.5,
        n_estimators=60,
        min_samples_leaf=2,
        max_leaves=64,
    ).fit(X, y)
    assert 0.75 < model.oob_score_ < model.score(X, y)
    unseen_X, unseen_y = table(500, seed=1)
    assert abs(model.oob_score_ - model.score(unseen_X, unseen_y)) < 0.06


def test_first_rounds_of_rescaled_trees_are_no_model() -> None:
    X, y = table()
    model = HedgerowClassifier(boosting="dart", subsample=0.6, **SMALL).fit(X, y)
    with pytest.raises(ParameterError, match="its first rounds are not a model"):
        next(model.staged_predict(X))
    with pytest.raises(ParameterError, match="its first rounds are not a model"):
        model.booster_.predict(X, n_rounds=3)
    assert model.booster_.predict(X, n_rounds=12).shape == (300,)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"boosting": "rf"}, "differ by sampling: set subsample"),
        ({"boosting": "rf", "subsample": 0.5, "learning_rate": 0.3}, "learning_rate=0.3 has no"),
        ({"oob_score": True}, "oob_score=True has no effect here: it is used with subsample"),
        ({"oob_score": 1, "subsample": 0.5}, "oob_score must be True or False; got 1"),
        ({"drop_rate": 0.2}, "drop_rate=0.2 has no effect here: it is used with boosting='dart'"),
        ({"boosting": "bagging"}, "boosting must be one of 'gbdt', 'dart', 'rf'; got 'bagging'"),
        ({"leaf_estimation": "newtn"}, "Did you mean 'newton'"),
        ({"skip_drop": 1.5, "boosting": "dart"}, "skip_drop must be a number at least 0"),
    ],
)
def test_parameters_that_nothing_reads_are_refused(params, words) -> None:
    X, y = table()
    with pytest.raises(ParameterError, match=words):
        HedgerowClassifier(**params).fit(X, y)


def test_quantile_belongs_to_the_quantile_loss() -> None:
    X, y = table()
    with pytest.raises(ParameterError, match=r"quantile=0.3 has no effect"):
        HedgerowRegressor(quantile=0.3).fit(X, y)
    with pytest.raises(ParameterError, match="greater than 0 and less than 1"):
        HedgerowRegressor(objective="quantile", quantile=1.0).fit(X, y)


# -- what reviews have found ------------------------------------------------------------


@pytest.mark.parametrize("boosting", ["dart", "rf"])
def test_joint_steps_of_classes_are_no_longer_than_one_by_one(boosting) -> None:
    X, y = table(2000)
    settings = {
        "leaf_estimation": "line_search", "n_estimators": 1, "learning_rate": 1.0,
        "min_samples_leaf": 100, "max_leaves": 4, "early_stopping": False,
    }  # fmt: skip
    if boosting == "rf":
        settings |= {"colsample_bynode": 0.99}
    one, two = (
        HedgerowClassifier(objective="softmax", boosting=way, **(settings if way == boosting else {
            name: value for name, value in settings.items() if name != "colsample_bynode"
        })).fit(X, y).decision_function(X)
        for way in (boosting, "gbdt")
    )  # fmt: skip
    np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-12)


def test_empty_samples_leave_the_round_empty() -> None:
    X, y = table(60)
    model = HedgerowRegressor(
        objective="absolute_error", subsample=0.02, min_samples_leaf=1, n_estimators=80
    ).fit(X, y)
    assert np.isfinite(model.predict(X)).all()


def test_rounds_that_leave_no_row_out_tell_nothing() -> None:
    X, y = table(20)
    model = HedgerowRegressor(
        subsample=0.97, min_samples_leaf=1, n_estimators=30, oob_score=True, early_stopping=False
    ).fit(X, y)
    assert len(model.oob_improvement_) == 30
    assert (model.oob_improvement_ == 0.0).any()


def test_scaled_weights_give_the_same_quantiles() -> None:
    _X, _y = table(30)
    target = np.linspace(-1.0, 1.0, 30)
    start = make_objective("quantile", level=0.3).initial_score
    assert start(target, np.full(30, 0.1)) == start(target, None) == start(target, np.full(30, 0.3))


def test_rows_of_weight_zero_add_no_class() -> None:
    X, _y = table(60)
    target, weight = np.append(np.arange(59) % 3, 5), np.append(np.ones(59), 0.0)
    booster = train({"objective": "softmax"}, Dataset(X, target, weight=weight))
    assert booster.model.forest.n_outputs == 3


@pytest.mark.parametrize("kind", [HedgerowClassifier, CARTClassifier])
def test_products_of_weights_are_checked(kind) -> None:
    X, y = table(60)
    for factor, weight in ((1e-300, 1e-99), (1e300, 1e99)):
        with pytest.raises(DataError, match="sample_weight times class_weight"):
            kind(class_weight={0: factor, 1: factor}).fit(X, y, np.full(60, weight))
    with pytest.raises(DataError, match="class_weight must be 0 or between"):
        kind(class_weight={0: 1e300, 1: 1e300}).fit(X, y)


# -- forests of losses with a logarithm as link -----------------------------------------------


def counted(n=6000, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)).round(1)
    exposure = rng.uniform(0.1, 1.0, n)
    mean = np.exp(1.0 + 0.7 * X[:, 0] + 0.4 * X[:, 1] * (X[:, 2] > 0)) * exposure
    return X, rng.poisson(mean).astype(float), np.log(exposure)


@pytest.mark.parametrize("loss", ["poisson", "gamma"])
def test_forests_of_amounts_have_about_the_mean_of_the_targets(loss) -> None:
    """If rates differ, a Newton step from the start score is too long: here 2.5 times."""
    X, y, offset = counted()
    y = y + 0.5 if loss == "gamma" else y
    forest = HedgerowRegressor(
        objective=loss, boosting="rf", subsample=0.6, n_estimators=30, early_stopping=False
    ).fit(X, y, offset=offset)
    found = forest.predict(X, offset=offset).mean() / y.mean()
    assert 0.9 < found < 1.1


def test_leaves_of_a_poisson_forest_are_ratios_of_sums() -> None:
    X, y, offset = counted()
    penalty = 3.0
    forest = HedgerowRegressor(
        objective="poisson", boosting="rf", colsample_bynode=0.6, n_estimators=3, max_leaves=9,
        reg_lambda=penalty, early_stopping=False, n_jobs=1,
    ).fit(X, y, offset=offset)  # fmt: skip
    model = forest.booster_.model.forest
    expected = np.exp(model.base_score[0] + offset)
    leaves = forest.booster_.predict(X, kind="leaf")
    for tree in range(3):
        for leaf in np.unique(leaves[:, tree]):
            rows = leaves[:, tree] == leaf
            value = model.value[model.tree_start[tree] + leaf] * 3
            ratio = (y[rows].sum() + penalty) / (expected[rows].sum() + penalty)
            assert value == pytest.approx(np.log(ratio), abs=1e-6)
