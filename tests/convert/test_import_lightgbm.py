"""LightGBM models predict the same here as in LightGBM: leaf by leaf, and to the last bit."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

import hedgerow
from hedgerow import ModelFormatError
from tests.helpers.foreign_models import adult, california, leaf_numbers, rows_near_cuts

lightgbm = pytest.importorskip("lightgbm")


def trained(X, y, rounds=25, **params):
    given = {"verbosity": -1, "num_leaves": 15, "seed": 1, "num_threads": 1, **params}
    return lightgbm.train(given, lightgbm.Dataset(X, y), rounds)


def brought(model, tmp_path):
    path = tmp_path / "model.txt"
    model.save_model(path)
    return hedgerow.load(path)


def check_leaves_and_scores(model, booster, X, exact=True) -> None:
    leaves = booster.predict(X, kind="leaf") - leaf_numbers(booster)
    theirs = model.predict(X, pred_leaf=True).reshape(len(X), -1)
    np.testing.assert_array_equal(leaves, theirs)
    raw = booster.predict(X, kind="raw")
    reference = model.predict(X, raw_score=True)
    if exact:
        np.testing.assert_array_equal(raw, reference)
    else:
        np.testing.assert_allclose(raw, reference, rtol=1e-12, atol=1e-12)


@pytest.fixture(scope="module")
def numbers(shared_data):
    return california(shared_data("california"))


@pytest.mark.fast(8)
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"boosting": "dart"},
        {"use_missing": False},
        {"zero_as_missing": True},
        {"objective": "regression_l1"},
        {"objective": "quantile", "alpha": 0.9},
        {"objective": "huber"},
        {"objective": "fair"},
        {"objective": "poisson"},
        {"objective": "gamma"},
        {"objective": "tweedie"},
        {"objective": "mape"},
        {"objective": "regression", "reg_sqrt": True},
        {"extra_trees": True, "bagging_fraction": 0.5, "bagging_freq": 1},
        {"num_leaves": 200, "min_data_in_leaf": 1},
        {"min_data_in_leaf": 100000},
    ],
    ids=str,
)
def test_numbers_on_the_cuts(numbers, params, tmp_path) -> None:
    X, y = numbers
    model = trained(X, y, **params)
    booster = brought(model, tmp_path)
    check_leaves_and_scores(model, booster, rows_near_cuts(booster))
    check_leaves_and_scores(model, booster, X)
    np.testing.assert_allclose(booster.predict(X), model.predict(X), rtol=1e-14)


def test_a_forest_is_the_mean_of_its_trees(numbers, tmp_path) -> None:
    X, y = numbers
    model = trained(X, y, boosting="rf", bagging_fraction=0.5, bagging_freq=1)
    booster = brought(model, tmp_path)
    np.testing.assert_allclose(booster.predict(X), model.predict(X), rtol=1e-13)
    first = model.predict(X, num_iteration=3)
    np.testing.assert_allclose(booster.predict(X, n_rounds=3), first, rtol=1e-13)


def test_linear_leaves(numbers, tmp_path) -> None:
    X, y = numbers
    model = trained(X, y, linear_tree=True, num_leaves=7)
    assert "leaf_coeff" in model.model_to_string()
    booster = brought(model, tmp_path)
    finite = np.where(np.isinf(X), 0.0, X)
    check_leaves_and_scores(model, booster, finite, exact=False)
    rows = rows_near_cuts(booster)
    rows[np.isinf(rows)] = 7.0
    rows[np.abs(rows) > 1e200] = -7.0
    check_leaves_and_scores(model, booster, rows, exact=False)
    path = tmp_path / "again.hedgerow"
    booster.save(path)
    np.testing.assert_array_equal(hedgerow.load(path).predict(rows), booster.predict(rows))
    # An infinite value counts in LightGBM's lines; ours leave it out.
    infinite = X[:50].copy()
    infinite[:, 0] = np.inf
    np.testing.assert_allclose(
        booster.predict(infinite), model.predict(infinite), rtol=1e-12, equal_nan=True
    )


def test_trees_without_terms_among_linear_ones(numbers, tmp_path) -> None:
    """The lines for their leaves are blank, in one tree or in several consecutive ones."""
    X, y = numbers
    lines = trained(X, y, linear_tree=True, num_leaves=4).model_to_string().splitlines()
    starts = [k for k, line in enumerate(lines) if line.startswith("Tree=")] + [len(lines)]
    zeros, blanks = lines.copy(), lines.copy()
    for tree in (1, 2, 3, 5):
        for k in range(starts[tree], starts[tree + 1]):
            name, _, values = lines[k].partition("=")
            if name == "num_features":
                blanks[k] = "num_features=0 0 0 0"
            elif name in ("leaf_features", "leaf_coeff"):
                blanks[k] = f"{name}=   "
            if name == "leaf_coeff":
                zeros[k] = "leaf_coeff=" + re.sub(r"[^ ]+", "0", values)
    found = []
    for text in (zeros, blanks):
        path = tmp_path / "model.txt"
        path.write_text("\n".join(text))
        found.append(hedgerow.load(path).predict(np.nan_to_num(X, posinf=9.0, neginf=-9.0)))
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize(
    "objective", ["binary", "multiclass", "multiclassova", "cross_entropy", "cross_entropy_lambda"]
)
def test_classes(numbers, objective, tmp_path) -> None:
    X, y = numbers
    many = objective.startswith("multi")
    labels = pd.qcut(y, 3, labels=False) if many else (y > np.median(y)).astype(int)
    more = {"num_class": 3} if many else {}
    model = trained(X, labels, objective=objective, **more)
    booster = brought(model, tmp_path)
    check_leaves_and_scores(model, booster, rows_near_cuts(booster))
    kind = "value" if objective.startswith("cross") else "probability"
    found, reference = booster.predict(X, kind=kind), model.predict(X)
    if objective == "binary":
        found = found[:, 1]
    np.testing.assert_allclose(found, reference, rtol=1e-12)
    if many:
        np.testing.assert_array_equal(booster.predict(X), reference.argmax(axis=1))


def test_the_sigmoid_scales_raw_scores(numbers, tmp_path) -> None:
    X, y = numbers
    model = trained(X, y > np.median(y), objective="binary", sigmoid=0.7)
    booster = brought(model, tmp_path)
    np.testing.assert_allclose(
        booster.predict(X, kind="probability")[:, 1], model.predict(X), rtol=1e-12
    )


def test_pandas_categories(shared_data, tmp_path) -> None:
    X, y = adult(shared_data("adult"))
    model = trained(X, y, objective="binary", max_cat_to_onehot=1, min_data_per_group=1)
    booster = brought(model, tmp_path)
    assert booster.feature_names == tuple(X.columns)
    check_leaves_and_scores(model, booster, X)
    new = X.copy()
    rng = np.random.default_rng(0)
    for name in new.columns:
        if isinstance(new[name].dtype, pd.CategoricalDtype):
            text = new[name].astype(object)
            text[rng.random(len(text)) < 0.3] = "never seen"
            text[rng.random(len(text)) < 0.1] = None
            new[name] = pd.Categorical(text)
    check_leaves_and_scores(model, booster, new)
    assert booster.unseen_categories


def test_numbers_as_categories(numbers, tmp_path) -> None:
    X, y = numbers
    rng = np.random.default_rng(1)
    X = np.column_stack([X, rng.integers(0, 40, len(X)), rng.integers(5, 900, len(X))])
    y = y + (X[:, -2] % 3) + (X[:, -1] % 7)
    given = {"verbosity": -1, "num_leaves": 31, "min_data_per_group": 1, "cat_smooth": 1.0}
    data = lightgbm.Dataset(X, y, categorical_feature=[X.shape[1] - 2, X.shape[1] - 1])
    model = lightgbm.train(given, data, 20)
    booster = brought(model, tmp_path)
    odd = [0.0, -0.0, 1.0, 3.7, -0.5, -1.0, 39.999, 40.0, 1e6, 1e9, np.nan]
    codes = {
        X.shape[1] - 2: np.r_[np.arange(45.0), odd],
        X.shape[1] - 1: np.r_[np.arange(950.0), odd],
    }
    check_leaves_and_scores(model, booster, rows_near_cuts(booster, codes=codes))
    booster.save(tmp_path / "again.hedgerow")
    again = hedgerow.load(tmp_path / "again.hedgerow")
    rows = rows_near_cuts(booster, codes=codes)
    np.testing.assert_array_equal(again.predict(rows), booster.predict(rows))


def test_more_classes_of_categories_than_bins(tmp_path) -> None:
    """Some split separates each category: the model distinguishes more than 254 of them."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2000, (20000, 2)).astype(float)
    effect = rng.normal(size=2000)
    y = effect[X[:, 0].astype(int)] + 0.1 * effect[X[:, 1].astype(int)]
    given = {
        "verbosity": -1,
        "max_cat_to_onehot": 1,
        "min_data_per_group": 1,
        "cat_smooth": 0.0,
        "cat_l2": 0.0,
        "max_bin": 3000,
        "min_data_in_bin": 1,
        "max_cat_threshold": 300,
        "min_data_in_leaf": 1,
        "num_leaves": 63,
    }
    model = lightgbm.train(given, lightgbm.Dataset(X, y, categorical_feature=[0, 1]), 20)
    booster = brought(model, tmp_path)
    assert booster.model.inputs is not None
    assert len(booster.model.inputs.kept) > 2
    check_leaves_and_scores(model, booster, X)
    booster.save(tmp_path / "again.hedgerow")
    again = hedgerow.load(tmp_path / "again.hedgerow")
    np.testing.assert_array_equal(again.predict(X), booster.predict(X))
    assert booster.feature_importance("split").shape == (2,)


def test_early_stopping_and_estimators(numbers, tmp_path) -> None:
    X, y = (values[:800] for values in numbers)
    labels = np.where(y > np.median(y), "rich", "poor")
    estimator = lightgbm.LGBMClassifier(n_estimators=300, learning_rate=0.3, verbosity=-1)
    held_out = np.arange(len(X)) % 4 == 0
    estimator.fit(
        X[~held_out],
        labels[~held_out],
        eval_set=[(X[held_out], labels[held_out])],
        callbacks=[lightgbm.early_stopping(5, verbose=False)],
    )
    booster = hedgerow.from_lightgbm(estimator)
    assert booster.num_rounds == estimator.best_iteration_ < 300
    np.testing.assert_array_equal(booster.predict(X), estimator.predict(X))
    assert hedgerow.from_lightgbm(estimator.booster_, n_rounds=3).num_rounds == 3
    for wrong in (0, -1, 301, 2.0, True):
        with pytest.raises(hedgerow.ParameterError, match="n_rounds must be an integer from 1 to"):
            hedgerow.from_lightgbm(estimator, n_rounds=wrong)


def test_ranking(tmp_path) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 4))
    y = rng.integers(0, 4, 1000)
    for objective in ("lambdarank", "rank_xendcg"):
        data = lightgbm.Dataset(X, y, group=[50] * 20)
        model = lightgbm.train({"objective": objective, "verbosity": -1, "seed": 0}, data, 5)
        booster = brought(model, tmp_path)
        assert booster.objective == objective
        np.testing.assert_array_equal(booster.predict(X), model.predict(X))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("version=v4", "version=v9", "version"),
        ("\nTree=1\n", "\nTree=7\n", "truncated"),
        ("num_leaves=15", "num_leaves=14", "must have"),
        ("split_feature=", "split_feature=99 ", "must have"),
        ("end of trees", "", "truncated"),
        ("decision_type=", "decision_type=77 ", "decision_type"),
        ("max_feature_idx=7", "max_feature_idx=70", "names|entries"),
    ],
)
def test_damage_is_named(numbers, old, new, words, tmp_path) -> None:
    X, y = numbers
    text = trained(X[:, :8], y, rounds=3).model_to_string()
    assert old in text
    path = tmp_path / "model.txt"
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(ModelFormatError, match=words):
        hedgerow.load(path)


def test_columns_that_take_zeros_differently(numbers, tmp_path) -> None:
    """An error names the column if no cut can express it; otherwise the model is the same."""
    X, y = numbers
    text = trained(X, y, rounds=3, zero_as_missing=True).model_to_string()
    path = tmp_path / "model.txt"
    path.write_text(text.replace("decision_type=6", "decision_type=10"))
    with pytest.raises(ModelFormatError, match="zero_as_missing"):
        hedgerow.load(path)
    one = trained(np.abs(X[:, :1]) + 1.0, y, rounds=3, num_leaves=4).model_to_string()
    sizes = next(line for line in one.splitlines() if line.startswith("tree_sizes="))
    one = one.replace(sizes + "\n", "")  # they would be wrong
    path.write_text(one.replace("decision_type=10", "decision_type=6"))
    model = lightgbm.Booster(model_file=path)
    booster = hedgerow.load(path)
    check_leaves_and_scores(model, booster, rows_near_cuts(booster))
