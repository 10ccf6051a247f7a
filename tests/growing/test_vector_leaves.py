"""Trees whose leaves hold a value for each output: growth, prediction, files."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hedgerow import HedgerowClassifier
from hedgerow.data import fit_bins, read_table
from hedgerow.data.binning.matrix import bin_table
from hedgerow.errors import ModelFormatError
from hedgerow.growing.core.grower import TreeGrower
from hedgerow.growing.core.setup import Fit
from hedgerow.io import model_from_bytes, model_to_bytes
from hedgerow.kernels.tables.keys import keys_of_floats
from hedgerow.model.forest import without_vectors
from hedgerow.model.predict import Predictor
from hedgerow.objectives import SeveralTargets, make_objective
from hedgerow.params import BoostParams
from tests.helpers.random_forests import random_model
from tests.io.test_model_file import arrays_of, replace_arrays
from tests.reference.naive_vector import grow

N = 4000


def rows_of(n, n_features=4, seed=0, missing=0.1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features)).round(2)
    X[rng.random(X.shape) < missing] = np.nan
    return X, rng


# ------------------------------------------------------------------ the tree itself


def test_labels_are_grown_on_first_and_second_derivatives() -> None:
    X, rng = rows_of(150, seed=1)
    filled = np.nan_to_num(X)
    Y = (filled[:, [0, 1]] + filled[:, [2, 2]] + 0.3 * rng.normal(size=(150, 2)) > 0.2).astype(int)
    model = HedgerowClassifier(
        n_estimators=1, learning_rate=1.0, max_leaves=5, min_samples_leaf=5
    ).fit(X, Y)
    rate = Y.mean(axis=0)
    g, h = (rate - Y).T, np.tile((rate * (1 - rate))[:, None], (1, len(X)))
    rules = {"reg_lambda": 1.0, "reg_alpha": 0.0, "gamma": 0.0, "min_samples_leaf": 5}
    rules |= {"min_child_weight": 1e-3, "longest": np.inf}
    expected = np.log(rate / (1 - rate)) + grow(X, g, h, rules, 5)
    np.testing.assert_allclose(model.decision_function(X), expected, rtol=1e-5, atol=1e-5)


@pytest.fixture(scope="module")
def binned():
    X, rng = rows_of(N, 5)
    filled = np.nan_to_num(X)
    y = 2 * filled[:, 0] + np.sin(3 * filled[:, 1]) + 0.1 * rng.normal(size=N)
    table = read_table(X)
    return bin_table(table, fit_bins(table, 255, None, 0, 1), 1), y, rng.random(N) + 0.1


@pytest.mark.parametrize("loss", ["squared_error", "logistic", "huber"])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"subsample": 0.7, "colsample_bytree": 0.6, "colsample_bynode": 0.7},
        {"reg_alpha": 0.3, "max_delta_step": 0.2, "grow_policy": "depthwise", "max_depth": 4},
        {"grow_policy": "symmetric", "max_depth": 5},
        {
            "grow_policy": "symmetric",
            "max_depth": 4,
            "subsample": 0.7,
            "min_child_weight": 30.0,
            "colsample_bylevel": 0.7,
            "colsample_bynode": 0.7,
            "reg_alpha": 0.3,
            "gamma": 0.5,
        },
    ],
)
def test_equal_outputs_give_the_tree_of_one(binned, loss, settings) -> None:
    """Structure and values are equal bit for bit, for one output, two, and any number of threads.

    Up to 4096 rows the histograms of one output are as exact as its gradients.
    """
    matrix, y, weight = binned
    target = (y > 0).astype(float) if loss == "logistic" else y
    params, objective = BoostParams(leaf_estimation="newton", **settings), make_objective(loss)
    raws = [np.zeros((1, N)), np.zeros((1, N)), np.zeros((2, N))]
    several = replace_outputs(objective, 2)
    vectors = replace(params, multi_strategy="multi_output_tree")
    both = np.column_stack([target] * 2)
    growers = [
        TreeGrower(matrix, Fit(target, weight, raws[0], objective, params, 1)),
        TreeGrower(matrix, Fit(target, weight, raws[1], objective, vectors, 3)),
        TreeGrower(matrix, Fit(both, weight, raws[2], several, vectors, 2)),
    ]
    for number in range(3):
        one, alone, twice = (grower.grow(number, 0) for grower in growers)
        for tree in (alone, twice):
            for name in ("feature", "threshold", "missing_left", "left", "right", "count", "cover"):
                np.testing.assert_array_equal(getattr(tree, name), getattr(one, name))
            for column in tree.vectors.T:
                np.testing.assert_array_equal(column, one.value)
        np.testing.assert_array_equal(twice.gain, 2 * alone.gain)
        # Their histograms have units of their own: so small here that no split is another.
        np.testing.assert_allclose(alone.gain, one.gain, rtol=1e-3)
        outside = growers[0].rows_outside()
        inside = np.setdiff1d(np.arange(N), outside)
        for raw in (*raws[1], *raws[2]):
            np.testing.assert_array_equal(raw[inside], raws[0][0, inside])
    for grower in growers:
        grower.close()


def replace_outputs(objective, n):
    return SeveralTargets((objective,) * n, tuple(f"y{k}" for k in range(n)))


# ------------------------------------------------------------------ prediction


def vector_model(seed=0, n_outputs=3, n_rounds=4, max_leaves=6):
    """Return a random model whose leaves hold vectors."""
    model = random_model(seed, n_rounds=n_rounds, n_outputs=1, max_leaves=max_leaves)
    rng = np.random.default_rng(seed + 1)
    forest = model.forest
    vectors = rng.normal(size=(len(forest.value), n_outputs))
    forest = replace(
        forest,
        vectors=vectors,
        value=np.zeros(len(forest.value)),
        base_score=rng.normal(size=n_outputs),
    )
    return replace(model, forest=forest, objective="softmax")


@pytest.mark.parametrize("max_leaves", [1, 6, 90])
@pytest.mark.parametrize("n_rows", [1, 5, 300])
def test_one_walk_gives_what_a_tree_for_each_output_gives(max_leaves, n_rows) -> None:
    """Both engines, leaves, stages and ranges of trees."""
    model = vector_model(7, max_leaves=max_leaves)
    rng = np.random.default_rng(5)
    values = keys_of_floats(rng.normal(size=(n_rows, 4)) * 3)
    kinds = model.schema.kinds
    vector, spread = (Predictor(f, kinds) for f in (model.forest, without_vectors(model.forest)))
    for threads in (1, 2):
        np.testing.assert_array_equal(
            vector.raw_scores(values, threads), spread.raw_scores(values, threads)
        )
    np.testing.assert_array_equal(
        vector.raw_scores(values, 1, 1, 3), spread.raw_scores(values, 1, 3, 9)
    )
    np.testing.assert_array_equal(vector.leaves(values), spread.leaves(values)[:, ::3])
    stages = list(zip(vector.staged(values), spread.staged(values), strict=True))
    assert len(stages) == 4
    for one, other in stages:
        np.testing.assert_array_equal(one, other)


# ------------------------------------------------------------------ files

VECTOR_BYTES = model_to_bytes(vector_model(3, n_rounds=2))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda v: v[:-1], "number for each node"),
        (lambda v: np.append(v, 0.0), "number for each node"),
        (lambda v: v[:0], "number for each node"),
        (lambda v: np.where(np.arange(len(v)) == 4, np.nan, v), "vector must be finite"),
        (lambda v: np.where(np.arange(len(v)) == 0, np.inf, v), "vector must be finite"),
    ],
)
def test_hostile_vectors_are_refused(change, match) -> None:
    vector = change(arrays_of(VECTOR_BYTES)["vector"])
    with pytest.raises(ModelFormatError, match=match):
        model_from_bytes(replace_arrays(VECTOR_BYTES, vector=vector))


def test_values_beside_vectors_are_refused() -> None:
    model = vector_model(1)
    twice = replace(model, forest=replace(model.forest, value=model.forest.value + 1.0))
    with pytest.raises(ModelFormatError, match="value must be 0"):
        model_to_bytes(twice)
