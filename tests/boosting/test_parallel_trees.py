"""Rounds with several trees per output (``num_parallel_tree``): boosted random forests."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hedgerow import Booster, Dataset, load, train
from hedgerow.errors import ModelFormatError, ParameterError
from hedgerow.growing.sampling.draws import ROW_STREAM
from hedgerow.io import model_from_bytes, model_to_bytes
from hedgerow.kernels.primitives.hashing import hash_range
from hedgerow.params import BoostParams
from tests.helpers import engine
from tests.io.test_model_file import with_metadata
from tests.reference import naive

RNG = np.random.default_rng(0)
N = 700
X = RNG.integers(0, 40, size=(N, 4)).astype(float)
Y = X[:, 0] * X[:, 1] / 100 + np.sin(X[:, 2]) + 0.1 * RNG.normal(size=N)
CLASSES = np.digitize(Y, np.quantile(Y, [0.3, 0.6]))
SMALL = {"n_estimators": 6, "max_leaves": 6, "min_samples_leaf": 5, "early_stopping": False}
SAMPLED = {"subsample": 0.6, "colsample_bynode": 0.5}
P = 3


def fitted(params: dict[str, Any], y: Any = Y, **more: Any) -> Booster:
    return train({**SMALL, **params}, Dataset(X, y), **more)


# -- what a round is ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("loss", "n_outputs"), [("squared_error", 1), ("logistic", 1), ("softmax", 3)]
)
@pytest.mark.parametrize("subsample", [1.0, 0.6])
def test_rounds_follow_the_naive_ones(loss, n_outputs, subsample) -> None:
    y = {"squared_error": Y, "logistic": CLASSES > 0, "softmax": CLASSES}[loss].astype(float)
    params = BoostParams(
        n_estimators=5, min_samples_leaf=10, max_leaves=6, num_parallel_tree=P, subsample=subsample
    )
    found = engine.boost(X, y, params, loss, n_outputs)
    matrix = engine.binned(X)
    bins, stride = engine.columns_of(matrix), matrix.spec.stride
    raw = np.repeat(found.forest.base_score[:, None], N, axis=1)
    limit = np.uint64(int(min(subsample, 0.999) * 2.0**63) << 1)
    for number in range(5):
        at = raw.copy()
        for copy in range(P):
            draws = hash_range(params.seed, ROW_STREAM + number * P + copy, 0, N)
            inside = np.flatnonzero(draws < limit) if subsample < 1.0 else np.arange(N)
            g, h = naive.gradients(loss, y, at)
            for output in range(n_outputs):
                nodes = naive.grow_tree(
                    bins, matrix.spec.bin_counts.tolist(), stride,
                    naive.on_grid(g[output]), naive.on_grid(h[output]),
                    naive.Rules(10, 1e-3, 1.0), max_leaves=6, learning_rate=0.1 / P, rows=inside,
                )  # fmt: skip
                tree = naive.as_arrays(nodes, bins, stride)
                leaf = naive.leaf_of_rows(tree, bins, stride - 1)
                raw[output] += np.asarray(tree["value"])[leaf]
    np.testing.assert_allclose(found.train_raw, raw, rtol=0, atol=1e-6)
    np.testing.assert_array_equal(found.predict_raw(X), found.train_raw)
    assert (found.forest.n_rounds, found.forest.n_trees) == (5, 5 * P * n_outputs)


ALIKE: list[tuple[dict[str, Any], Any]] = [
    ({}, Y),
    ({"objective": "absolute_error"}, Y),
    ({"objective": "softmax", "leaf_estimation": "line_search"}, CLASSES),
    ({"objective": "softmax", "multi_strategy": "multi_output_tree"}, CLASSES),
    ({"objective": "absolute_error"}, np.stack([Y, -Y * Y], axis=1)),
    ({"objective": "cox"}, np.exp(Y)),
    ({"boosting": "dart", "drop_rate": 0.5, "objective": "softmax"}, CLASSES),
    ({"boosting": "dart", "objective": "quantile", "quantile": 0.8}, Y),
    ({"linear_leaves": True}, Y),
    ({"grow_policy": "symmetric", "max_leaves": None, "max_depth": 3}, Y),
    ({"tree_method": "exact"}, Y),
    ({"learning_rate": [0.5, 0.4, 0.3, 0.2, 0.1, 0.05]}, Y),
    ({"monotone_constraints": [1, 0, 0, -1], "objective": "absolute_error"}, Y),
]


@pytest.mark.parametrize(("params", "y"), ALIKE, ids=[str(params) for params, _ in ALIKE])
def test_equal_trees_are_one(params, y) -> None:
    """Without sampling, the trees of a round are equal; their sum is the tree of a plain round."""
    one, several = (fitted({**params, **more}, y) for more in ({}, {"num_parallel_tree": P}))
    assert several.num_rounds == one.num_rounds == 6
    assert several.num_trees == P * one.num_trees
    np.testing.assert_allclose(
        several.predict(X, kind="raw"), one.predict(X, kind="raw"), rtol=1e-9, atol=1e-9
    )
    forest, k = several.model.forest, one.model.forest.trees_per_round
    first, second = forest.tree(0), forest.tree(k)
    assert first.value.tobytes() == second.value.tobytes()
    assert first.threshold.tobytes() == second.threshold.tobytes()


@pytest.mark.parametrize(
    "params",
    [
        {"subsample": 0.6},
        {"colsample_bytree": 0.5},
        {"colsample_bylevel": 0.5},
        {"colsample_bynode": 0.5},
        {"sampling": "goss"},
        {"sampling": "mvs", "subsample": 0.5},
        {"extra_trees": True},
    ],
    ids=str,
)
def test_each_tree_has_its_own_sample(params) -> None:
    forest = fitted({**params, "num_parallel_tree": P, "n_estimators": 2}).model.forest
    trees = [forest.tree(t).value.tobytes() for t in range(forest.n_trees)]
    assert len(set(trees)) == 2 * P


def test_forests_of_a_round_are_better_than_a_tree() -> None:
    """One round at learning rate 1 is a random forest: it predicts better than its single trees."""
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(3000, 6))
    y = rows[:, 0] * rows[:, 1] + np.sin(3 * rows[:, 2]) + rng.normal(size=3000)
    params = {
        "n_estimators": 1, "learning_rate": 1.0, "max_leaves": 255, "min_samples_leaf": 2,
        "reg_lambda": 0.0, "subsample": 0.7, "colsample_bynode": 0.6, "early_stopping": False,
    }  # fmt: skip

    def loss(n_parallel: int) -> float:
        model = train({**params, "num_parallel_tree": n_parallel}, Dataset(rows[:2000], y[:2000]))
        return float(np.mean((model.predict(rows[2000:]) - y[2000:]) ** 2))

    assert loss(50) < 0.75 * loss(1)
    as_mean = {**params, "n_estimators": 50, "boosting": "rf"}
    forest = train(as_mean, Dataset(rows[:2000], y[:2000]))
    by_rf = float(np.mean((forest.predict(rows[2000:]) - y[2000:]) ** 2))
    assert loss(50) == pytest.approx(by_rf, rel=1e-9)  # the same samples, trees and mean


# -- beside XGBoost -----------------------------------------------------------------


@pytest.mark.parametrize("objective", ["reg:squarederror", "multi:softprob"])
@pytest.mark.parametrize("suffix", ["json", "ubj"])
def test_models_of_xgboost_keep_their_rounds(objective, suffix, tmp_path: Path) -> None:
    xgboost = pytest.importorskip("xgboost")
    given = {"objective": objective, "num_parallel_tree": P, "subsample": 0.6, "max_depth": 3}
    if objective == "multi:softprob":
        given["num_class"] = 3
    y = CLASSES if "num_class" in given else Y
    table = xgboost.DMatrix(X, y)
    theirs = xgboost.train(given, table, 5)
    theirs.save_model(tmp_path / f"model.{suffix}")
    ours = load(tmp_path / f"model.{suffix}")
    assert ours.num_rounds == 5
    for n_rounds in (1, 4):
        expected = theirs.predict(table, output_margin=True, iteration_range=(0, n_rounds))
        np.testing.assert_allclose(
            ours.predict(X, kind="raw", n_rounds=n_rounds), expected, atol=2e-5
        )
    ours.save(tmp_path / "model.hedgerow")
    assert load(tmp_path / "model.hedgerow").num_rounds == 5


def test_wrong_numbers_in_models_of_xgboost_are_refused(tmp_path: Path) -> None:
    xgboost = pytest.importorskip("xgboost")
    theirs = xgboost.train({"num_parallel_tree": P}, xgboost.DMatrix(X, Y), 2)
    theirs.save_model(tmp_path / "model.json")
    record = json.loads((tmp_path / "model.json").read_text())
    shape = record["learner"]["gradient_booster"]["model"]["gbtree_model_param"]
    for wrong in ("4", "0", "-1", "x", str(10**12), "7"):
        shape["num_parallel_tree"] = wrong
        (tmp_path / "wrong.json").write_text(json.dumps(record))
        with pytest.raises(ModelFormatError):
            load(tmp_path / "wrong.json")


# -- wherever rounds are counted ------------------------------------------------------


KINDS: dict[str, tuple[dict[str, Any], Any]] = {
    "numbers": (SAMPLED, Y),
    "classes": ({**SAMPLED, "objective": "softmax"}, CLASSES),
    "vectors": (
        {**SAMPLED, "objective": "softmax", "multi_strategy": "multi_output_tree"},
        CLASSES,
    ),
    "lines": ({**SAMPLED, "linear_leaves": True}, Y),
}


@pytest.mark.parametrize("kind", KINDS)
def test_stages_and_prefixes(kind) -> None:
    params, y = KINDS[kind]
    model = fitted({**params, "num_parallel_tree": P}, y)
    assert model.num_rounds == 6
    stages = list(model.staged_raw_scores(X))
    assert len(stages) == 6
    for n_rounds in (1, 2, 6):
        shorter = fitted({**params, "num_parallel_tree": P, "n_estimators": n_rounds}, y)
        expected = shorter.predict(X, kind="raw")
        np.testing.assert_array_equal(model.predict(X, kind="raw", n_rounds=n_rounds), expected)
        np.testing.assert_array_equal(np.squeeze(stages[n_rounds - 1].T), np.squeeze(expected))
        assert shorter.num_trees == n_rounds * model.model.forest.trees_per_round
    after = model.predict(X, kind="raw", first_round=2)
    before = model.predict(X, kind="raw", n_rounds=2)
    base = model.model.forest.base_score
    np.testing.assert_allclose(after + before - np.squeeze(base), model.predict(X, kind="raw"))


def test_forged_numbers_of_trees() -> None:
    content = fitted({"num_parallel_tree": P, **SAMPLED}).to_bytes()
    for wrong in ("0", "-3", "4", "3.0", " 3", "", "9" * 30, "7", None):
        with pytest.raises(ModelFormatError, match=r"num_parallel_tree|evenly|schema_version"):
            model_from_bytes(with_metadata(content, num_parallel_tree=wrong))
    model, _ = model_from_bytes(content)
    for wrong_number in (0, -3, 4):
        forest = replace(model.forest, n_parallel=wrong_number)
        with pytest.raises(ModelFormatError, match="evenly"):
            model_to_bytes(replace(model, forest=forest))


def test_early_stopping_keeps_whole_rounds() -> None:
    rng = np.random.default_rng(5)
    noisy = Y + rng.normal(size=N) * 2
    params = {
        **SAMPLED, "num_parallel_tree": P, "n_estimators": 60, "learning_rate": 0.5,
        "early_stopping": True, "patience": 4,
    }  # fmt: skip
    valid = Dataset(X[500:], noisy[500:])
    model = train({**SMALL, **params}, Dataset(X[:500], noisy[:500]), valid)
    (history,) = model.model.training["history"]["validation"].values()
    best = int(np.argmin(history)) + 1
    assert model.model.training["best_round"] == best == model.num_rounds < 60
    assert model.num_trees == P * best
    plain = {**params, "n_estimators": best, "early_stopping": False}
    del plain["patience"]
    again = train({**SMALL, **plain}, Dataset(X[:500], noisy[:500]))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


@pytest.mark.parametrize(
    ("params", "y"),
    [
        ({"objective": "softmax", "leaf_estimation": "line_search"}, CLASSES),
        ({"learning_rate": [0.5, 0.4, 0.3, 0.2, 0.1, 0.05]}, Y),
    ],
    ids=str,
)
def test_refit_on_the_same_rows_changes_nothing(params, y) -> None:
    model = fitted({**params, "num_parallel_tree": P}, y)
    again = model.refit(X, y, decay=0.0)
    assert again.num_rounds == 6
    np.testing.assert_allclose(
        again.predict(X, kind="raw"), model.predict(X, kind="raw"), rtol=1e-6, atol=1e-6
    )


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"num_parallel_tree": 0}, "num_parallel_tree must be an integer at least 1"),
        ({"num_parallel_tree": 2.5}, "num_parallel_tree must be an integer"),
        ({"num_parallel_tree": True}, "num_parallel_tree must be an integer"),
        ({"num_parallel_tree": None}, "num_parallel_tree must be an integer"),
        (
            {"num_parallel_tree": 2, "boosting": "rf", "subsample": 0.5},
            "a random forest has n_estimators trees",
        ),
        (
            {"num_parallel_tree": 2, "oob_score": True, "subsample": 0.5},
            "oob_score=True has no effect here.*num_parallel_tree=1",
        ),
    ],
    ids=str,
)
def test_what_cannot_be(params, words) -> None:
    with pytest.raises(ParameterError, match=words):
        fitted(params)
