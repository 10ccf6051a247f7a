"""Refitted leaf values: the meaning of LightGBM, and the same leaves for the same rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hedgerow import Dataset, HedgerowClassifier, load, train
from hedgerow.errors import DataError, ParameterError

RNG = np.random.default_rng(0)
N = 1500
X = RNG.normal(size=(N, 4))
SIGNAL = X[:, 0] + np.sin(2.0 * X[:, 1]) + 0.4 * RNG.normal(size=N)
WEIGHT = RNG.integers(0, 3, N).astype(float)
TARGETS = {
    "squared_error": SIGNAL,
    "absolute_error": SIGNAL,
    "huber": SIGNAL,
    "logistic": (SIGNAL > 0.0).astype(float),
    "softmax": np.digitize(SIGNAL, [-1.0, 1.0]).astype(float),
    "one_vs_all": np.digitize(SIGNAL, [-1.0, 1.0]).astype(float),
    "poisson": np.floor(np.exp(SIGNAL / 2.0)),
    "normal": SIGNAL,
}
BASE = {"n_estimators": 8, "max_leaves": 8, "early_stopping": False}


def naive_refit(leaves, old, derivatives, start, *, decay, rate, reg_lambda):
    """Refit tree after tree: new = decay * old - (1 - decay) * rate * sum g / (sum h + lambda)."""
    raw = np.full(len(leaves), start)
    found = []
    for tree, values in enumerate(old):
        g, h = derivatives(raw)
        new = dict(values)
        for leaf in values:
            rows = leaves[:, tree] == leaf
            if rows.any():
                step = -g[rows].sum() / (h[rows].sum() + reg_lambda)
                new[leaf] = decay * values[leaf] + (1.0 - decay) * rate * step
        raw = raw + np.array([new[leaf] for leaf in leaves[:, tree]])
        found.append(new)
    return found, raw


def leaf_values(forest):
    """Return the value of each leaf of each tree."""
    parts = [slice(a, b) for a, b in zip(forest.tree_start, forest.tree_start[1:], strict=False)]
    return [
        {
            node: value
            for node, value in enumerate(forest.value[part])
            if forest.feature[part][node] < 0
        }
        for part in parts
    ]


def squares(y):
    return lambda raw: (raw - y, np.ones(len(y)))


def log_losses(y):
    def derivatives(raw):
        p = 1.0 / (1.0 + np.exp(-raw))
        return p - y, p * (1.0 - p)

    return derivatives


@pytest.mark.parametrize("objective", list(TARGETS))
@pytest.mark.parametrize("weighted", [False, True])
def test_training_rows_give_the_leaves_again(objective, weighted) -> None:
    data = Dataset(X, TARGETS[objective], WEIGHT if weighted else None)
    booster = train({**BASE, "objective": objective}, data)
    again = booster.refit(X, data.y, data.weight, decay=0.0)
    forest, new = booster.model.forest, again.model.forest
    # Sums of the fit are of integers with 30 bits.
    np.testing.assert_allclose(new.value, forest.value, rtol=0, atol=1e-7)
    np.testing.assert_allclose(new.base_score, forest.base_score, atol=1e-12)
    assert new.threshold is forest.threshold
    unchanged = booster.refit(X[:50] + 1.0, data.y[:50], decay=1.0)
    assert unchanged.model.forest.value.tobytes() == forest.value.tobytes()


@pytest.mark.parametrize("objective", ["softmax", "normal"])
@pytest.mark.parametrize(
    "params", [{"leaf_estimation": "line_search"}, {"leaf_estimation": "gradient"}]
)
def test_several_outputs_are_searched_at_the_scores_of_the_fit(objective, params) -> None:
    params = {**BASE, **params, "objective": objective}
    booster = train(params, Dataset(X, TARGETS[objective]))
    again = booster.refit(X, TARGETS[objective], decay=0.0)
    leaves = booster.model.forest.feature < 0
    found, expected = again.model.forest.value[leaves], booster.model.forest.value[leaves]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("objective", "derivatives"), [("squared_error", squares), ("logistic", log_losses)]
)
@pytest.mark.parametrize("decay", [0.0, 0.3, 0.9])
def test_the_naive_way(objective, derivatives, decay) -> None:
    y = TARGETS[objective]
    offset = np.full(N, 0.3)
    params = {**BASE, "objective": objective, "reg_lambda": 2.0, "learning_rate": 0.3}
    booster = train(params, Dataset(X[:700], y[:700], offset=offset[:700]))
    rest = slice(700, None)
    new = booster.refit(X[rest], y[rest], decay=decay, offset=offset[rest])
    means = np.array([y[:700].mean(), y[rest].mean()])
    best = np.log(means / (1.0 - means)) if objective == "logistic" else means
    start = decay * best[0] + (1.0 - decay) * best[1]  # beside the offset 0.3 less
    leaves = booster.predict(X[rest], kind="leaf")
    values, raw = naive_refit(
        leaves, leaf_values(booster.model.forest), derivatives(y[rest]), start,
        decay=decay, rate=0.3, reg_lambda=2.0,
    )  # fmt: skip
    for found, expected in zip(leaf_values(new.model.forest), values, strict=True):
        np.testing.assert_allclose(list(found.values()), list(expected.values()), atol=1e-12)
    np.testing.assert_allclose(new.predict(X[rest], "raw", offset=offset[rest]), raw, atol=1e-12)


def test_leaves_without_rows_keep_their_values() -> None:
    booster = train(BASE, Dataset(X, SIGNAL))
    rows = X[:, 0] > 1.0
    new = booster.refit(X[rows], SIGNAL[rows], decay=0.0)
    for tree, (old, found) in enumerate(
        zip(leaf_values(booster.model.forest), leaf_values(new.model.forest), strict=True)
    ):
        reached = set(booster.predict(X[rows], kind="leaf")[:, tree].tolist())
        assert reached < set(old)
        assert all(old[leaf] == found[leaf] for leaf in set(old) - reached)


def test_class_weights_stay() -> None:
    y = (SIGNAL > 1.5).astype(int)
    model = HedgerowClassifier(n_estimators=8, class_weight="balanced").fit(X, y)
    again = model.booster_.refit(X, y, decay=0.0)
    np.testing.assert_allclose(again.predict(X, "probability"), model.predict_proba(X), atol=1e-6)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_times_and_rankings() -> None:
    times = np.exp(SIGNAL) * np.where(RNG.random(N) < 0.3, -1.0, 1.0)
    booster = train({**BASE, "objective": "cox"}, Dataset(X, times))
    again = booster.refit(X, times, decay=0.0)
    np.testing.assert_allclose(again.predict(X, "raw"), booster.predict(X, "raw"), atol=1e-5)
    np.testing.assert_allclose(
        again.predict_survival_function(X[:5]), booster.predict_survival_function(X[:5]), atol=1e-5
    )
    qid, y = np.repeat(np.arange(N // 10), 10), TARGETS["softmax"]
    ranker = train({**BASE, "objective": "lambdarank"}, Dataset(X, y, qid=qid))
    again = ranker.refit(X, y, decay=0.0, qid=qid)
    np.testing.assert_allclose(again.predict(X), ranker.predict(X), atol=1e-4)
    with pytest.raises(DataError, match="needs the query of each row: give qid"):
        ranker.refit(X, y)


def test_refusals() -> None:
    booster = train(BASE, Dataset(X, SIGNAL))
    for decay in (-0.1, 1.5, "much", None):
        with pytest.raises(ParameterError, match="decay must be a number at least 0 and at most 1"):
            booster.refit(X, SIGNAL, decay=decay)
    with pytest.raises(DataError, match="y contains NaN"):
        booster.refit(X, np.where(SIGNAL > 2, np.nan, SIGNAL))
    with pytest.raises(DataError, match="X has 3 features"):
        booster.refit(X[:, :3], SIGNAL)
    with pytest.raises(DataError, match="training needs a target"):
        booster.refit(X, None)
    with pytest.raises(ParameterError, match="qid has no effect with objective 'squared_error'"):
        booster.refit(X, SIGNAL, qid=np.arange(len(X)) // 2)
    for change, words in [
        ({"boosting": "dart"}, "boosting='dart', whose trees are rescaled"),
        ({"boosting": "rf", "subsample": 0.5}, "boosting='rf'"),
        ({"monotone_constraints": {0: 1}}, "monotone_constraints"),
        ({"linear_leaves": True}, "linear leaves"),
        ({"objective": lambda y, raw: (raw - y, np.ones_like(y))}, "a custom loss"),
    ]:
        with pytest.raises(ParameterError, match=words):
            train({**BASE, "n_estimators": 2, **change}, Dataset(X, SIGNAL)).refit(X, SIGNAL)
    with pytest.raises(DataError, match=r"needs targets 0 or 1; row 0 holds -0\.67"):
        train({**BASE, "objective": "logistic"}, Dataset(X, SIGNAL > 0)).refit(X, SIGNAL)


VECTORS = {**BASE, "multi_strategy": "multi_output_tree"}
BOTH = np.column_stack([SIGNAL, X[:, 2] - SIGNAL])


@pytest.mark.parametrize(
    ("more", "y"),
    [
        ({"objective": "softmax"}, TARGETS["softmax"]),
        ({"objective": "softmax", "leaf_estimation": "line_search"}, TARGETS["softmax"]),
        ({"objective": "softmax", "num_parallel_tree": 2}, TARGETS["softmax"]),
        ({}, BOTH),
        ({"objective": "huber", "leaf_estimation": "line_search"}, BOTH),
        ({"max_delta_step": 0.3}, BOTH),
        ({"grow_policy": "symmetric", "max_depth": 3, "max_leaves": 31}, BOTH),
    ],
)
def test_training_rows_give_vector_leaves_again(more, y) -> None:
    booster = train({**VECTORS, **more}, Dataset(X, y, WEIGHT))
    again = booster.refit(X, y, WEIGHT, decay=0.0)
    forest, new = booster.model.forest, again.model.forest
    leaves = forest.feature < 0
    assert forest.vectors is not None
    assert new.vectors is not None
    np.testing.assert_allclose(new.vectors[leaves], forest.vectors[leaves], rtol=0, atol=1e-5)
    unchanged = booster.refit(X[:50] + 1.0, y[:50], decay=1.0)
    assert unchanged.model.forest.vectors.tobytes() == forest.vectors.tobytes()


@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_vector_leaves_are_refitted_like_leaves_of_each_target(decay, tmp_path) -> None:
    params = {**VECTORS, "reg_lambda": 2.0, "learning_rate": 0.3}
    booster = train(params, Dataset(X[:700], BOTH[:700]))
    rest, forest = slice(700, None), booster.model.forest
    new = booster.refit(X[rest], BOTH[rest], decay=decay)
    leaves = booster.predict(X[rest], kind="leaf")
    for k, y in enumerate(BOTH.T):
        start = decay * y[:700].mean() + (1.0 - decay) * y[rest].mean()
        values, raw = naive_refit(
            leaves, leaf_values(replace(forest, value=forest.vectors[:, k])), squares(y[rest]),
            start, decay=decay, rate=0.3, reg_lambda=2.0,
        )  # fmt: skip
        found = leaf_values(replace(forest, value=new.model.forest.vectors[:, k]))
        for one, other in zip(found, values, strict=True):
            np.testing.assert_allclose(list(one.values()), list(other.values()), atol=1e-12)
        np.testing.assert_allclose(new.predict(X[rest])[:, k], raw, atol=1e-12)
    new.save(tmp_path / "m")
    np.testing.assert_array_equal(load(tmp_path / "m").predict(X), new.predict(X))


def test_a_target_far_above_the_mean_has_its_leaves_again() -> None:
    target = TARGETS["poisson"].copy()
    target[7] = 1e9  # steps of leaves have a limit
    data = Dataset(X, target)
    model = train(BASE | {"objective": "poisson", "n_estimators": 20}, data)
    again = model.refit(X, target, decay=0.0)
    expected = model.predict(X, kind="raw")
    np.testing.assert_allclose(again.predict(X, kind="raw"), expected, rtol=0, atol=1e-4)
