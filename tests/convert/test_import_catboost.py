"""CatBoost models: the same leaves; raw scores differ by float64 rounding only."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import hedgerow
from hedgerow import ModelFormatError
from tests.helpers.foreign_models import adult, california, rows_near_cuts, same_partition

catboost = pytest.importorskip("catboost")
QUIET = {"verbose": 0, "allow_writing_files": False, "thread_count": 1, "random_seed": 1}


def trained(kind, pool, rounds=20, **params):
    return getattr(catboost, kind)(**{"iterations": rounds, "depth": 4, **QUIET, **params}).fit(
        pool
    )


def brought(model, tmp_path, pool=None):
    path = tmp_path / "model.json"
    model.save_model(str(path), format="json", pool=pool)
    return hedgerow.load(path)


@pytest.fixture(scope="module")
def numbers(shared_data):
    return california(shared_data("california"))


@pytest.mark.fast(3)
@pytest.mark.parametrize("policy", ["SymmetricTree", "Depthwise", "Lossguide"])
@pytest.mark.parametrize("nan_mode", ["Min", "Max"])
def test_numbers_on_the_cuts(numbers, policy, nan_mode, tmp_path) -> None:
    X, y = numbers
    model = trained("CatBoostRegressor", catboost.Pool(X, y), grow_policy=policy, nan_mode=nan_mode)
    booster = brought(model, tmp_path)
    rows = rows_near_cuts(booster)
    rows[:, -1] = np.nan_to_num(
        rows[:, -1], posinf=1.0, neginf=1.0
    )  # no missing values in training
    raw = booster.predict(rows)
    np.testing.assert_allclose(raw, model.predict(rows), rtol=1e-13, atol=1e-13)
    theirs = model.calc_leaf_indexes(rows)
    assert same_partition(booster.predict(rows, kind="leaf"), theirs)


@pytest.mark.fast(4)
@pytest.mark.parametrize(
    "loss",
    [
        "MAE",
        "Quantile:alpha=0.9",
        "Poisson",
        "Tweedie:variance_power=1.5",
        "Huber:delta=1",
        "Expectile:alpha=0.3",
        "MAPE",
    ],
)
def test_losses(numbers, loss, tmp_path) -> None:
    X, y = numbers
    model = trained("CatBoostRegressor", catboost.Pool(X, y), loss_function=loss)
    booster = brought(model, tmp_path)
    raw = model.predict(X, prediction_type="RawFormulaVal")
    np.testing.assert_allclose(booster.predict(X, kind="raw"), raw, rtol=1e-12)
    np.testing.assert_allclose(booster.predict(X), model.predict(X), rtol=1e-12)


def test_a_quantile_of_logarithms_is_on_the_scale_of_the_target(tmp_path) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 1))
    y = np.exp(X[:, 0] + rng.normal(size=1000))
    pool = catboost.Pool(X, y)
    loss = "LogLinQuantile:alpha=0.8"
    model = trained("CatBoostRegressor", pool, 200, loss_function=loss, learning_rate=0.3)
    booster = brought(model, tmp_path)
    np.testing.assert_allclose(booster.predict(X, kind="raw"), model.predict(X), rtol=1e-12)
    exponent = model.predict(X, prediction_type="Exponent")
    np.testing.assert_allclose(booster.predict(X), exponent, rtol=1e-12)
    assert (y <= booster.predict(X)).mean() == pytest.approx(0.8, abs=0.05)


@pytest.mark.parametrize("loss", ["Logloss", "CrossEntropy", "MultiClass", "MultiClassOneVsAll"])
def test_classes(numbers, loss, tmp_path) -> None:
    X, y = numbers
    many = loss.startswith("Multi")
    labels = pd.qcut(y, 3, labels=["a", "b", "c"]).astype(str) if many else y > np.median(y)
    labels = np.asarray(labels) if many else labels.astype(int)
    model = trained("CatBoostClassifier", catboost.Pool(X, labels), loss_function=loss)
    booster = brought(model, tmp_path)
    probability = model.predict_proba(X)
    if loss == "CrossEntropy":
        np.testing.assert_allclose(booster.predict(X), probability[:, 1], rtol=1e-12)
        return
    np.testing.assert_allclose(booster.predict(X, kind="probability"), probability, rtol=1e-12)
    np.testing.assert_array_equal(booster.predict(X), model.predict(X).reshape(-1))


def test_several_targets(numbers, tmp_path) -> None:
    X, y = numbers
    pool = catboost.Pool(X, np.column_stack([y, -y]))
    model = trained("CatBoostRegressor", pool, loss_function="MultiRMSE")
    booster = brought(model, tmp_path)
    np.testing.assert_allclose(booster.predict(X), model.predict(X), rtol=1e-12)


@pytest.mark.parametrize("loss", ["MultiLogloss", "MultiCrossEntropy"])
def test_several_labels_and_shares(numbers, loss, tmp_path) -> None:
    X, y = numbers
    low, high = np.quantile(y, [0.3, 0.6])
    labels = np.column_stack([y > high, y < low]) * 1.0
    model = trained("CatBoostClassifier", catboost.Pool(X, labels), loss_function=loss)
    booster = brought(model, tmp_path)
    kind = "probability" if loss == "MultiLogloss" else "value"
    chances = model.predict(X, prediction_type="Probability")
    np.testing.assert_allclose(booster.predict(X, kind=kind), chances, rtol=1e-12)


def test_focal_loss(numbers, tmp_path) -> None:
    X, y = numbers
    labels = np.where(y > np.median(y), "high", "low")
    loss = "Focal:focal_alpha=0.3;focal_gamma=1.5"
    model = trained("CatBoostClassifier", catboost.Pool(X, labels), loss_function=loss)
    booster = brought(model, tmp_path)
    chances = model.predict_proba(X)
    np.testing.assert_allclose(booster.predict(X, kind="probability"), chances, rtol=1e-12)
    np.testing.assert_array_equal(booster.predict(X), model.predict(X))


def test_means_with_uncertainty_are_normal_distributions(numbers, tmp_path) -> None:
    X, y = numbers
    model = trained("CatBoostRegressor", catboost.Pool(X, y), loss_function="RMSEWithUncertainty")
    booster = brought(model, tmp_path)
    found = booster.predict_distribution(X)
    expected = model.predict(X)  # mean and variance
    np.testing.assert_allclose(np.column_stack([found.mean, found.variance]), expected, rtol=1e-12)
    np.testing.assert_array_equal(booster.predict(X), found.mean)


def text_table(shared_data):
    X, y = adult(shared_data("adult"))
    names = [name for name in X if isinstance(X[name].dtype, pd.CategoricalDtype)]
    for name in names:
        X[name] = X[name].astype(object).where(X[name].notna(), "none")
    return X, y, names


@pytest.mark.fast(3)
@pytest.mark.parametrize(
    "params",
    [
        {"one_hot_max_size": 100},
        {"one_hot_max_size": 100, "grow_policy": "Depthwise"},
        {"max_ctr_complexity": 1, "one_hot_max_size": 2},
        {"max_ctr_complexity": 1, "one_hot_max_size": 2, "grow_policy": "Lossguide"},
        {
            "max_ctr_complexity": 1,
            "one_hot_max_size": 1,
            "simple_ctr": ["Buckets", "Borders", "BinarizedTargetMeanValue", "Counter"],
        },
    ],
    ids=str,
)
def test_categories(shared_data, params, tmp_path) -> None:
    X, y, names = text_table(shared_data)
    pool = catboost.Pool(X, y, cat_features=names)
    model = trained("CatBoostClassifier", pool, **params)
    booster = brought(model, tmp_path, pool)
    odd = X.copy()
    odd.loc[::3, "occupation"] = "never seen"
    odd.loc[::5, "education"] = "never seen"
    for rows in (X, odd):
        raw = model.predict(rows, prediction_type="RawFormulaVal")
        np.testing.assert_allclose(booster.predict(rows, kind="raw"), raw, rtol=0, atol=1e-13)
    booster.save(tmp_path / "again.hedgerow")
    again = hedgerow.load(tmp_path / "again.hedgerow")
    np.testing.assert_array_equal(again.predict(odd), booster.predict(odd))


def test_trees_without_splits(tmp_path) -> None:
    """CatBoost writes null instead of a list of splits."""
    rng, n_null = np.random.default_rng(0), 0
    for seed in range(6):
        X = pd.DataFrame({"c": [f"k{v}" for v in rng.integers(0, 20, 60)]})
        pool = catboost.Pool(X, rng.normal(size=60), cat_features=[0])
        model = trained(
            "CatBoostRegressor", pool, rounds=15, depth=2, learning_rate=1.0, random_seed=seed,
            max_ctr_complexity=1, one_hot_max_size=2, loss_function="MAPE" if seed % 2 else "RMSE",
        )  # fmt: skip
        booster = brought(model, tmp_path, pool)
        np.testing.assert_allclose(booster.predict(X), model.predict(X), rtol=1e-12, atol=1e-12)
        document = json.loads((tmp_path / "model.json").read_text())
        n_null += sum(tree["splits"] is None for tree in document["oblivious_trees"])
    assert n_null > 0


def test_ctrs_of_two_columns(tmp_path) -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({name: rng.integers(0, 12, 4000) for name in "abc"})
    y = ((X["a"] + 3 * X["b"]) % 5 < 2).astype(float) + rng.normal(size=4000) * 0.1
    pool = catboost.Pool(X, y, cat_features=list("abc"))
    model = trained("CatBoostRegressor", pool, max_ctr_complexity=2, one_hot_max_size=1)
    booster = brought(model, tmp_path, pool)
    assert booster.model.inputs is not None
    assert any(len(s.columns) == 2 for s in booster.model.inputs.statistics)
    odd = X.copy()
    odd.loc[::7, "b"] = 99
    for rows in (X, odd):
        np.testing.assert_allclose(booster.predict(rows), model.predict(rows), rtol=0, atol=1e-12)


def test_without_the_categories_it_is_refused(shared_data, tmp_path) -> None:
    X, y, names = text_table(shared_data)
    pool = catboost.Pool(X, y, cat_features=names)
    model = trained("CatBoostClassifier", pool, one_hot_max_size=100)
    with pytest.raises(ModelFormatError, match="pool"):
        hedgerow.from_catboost(model)
    booster = hedgerow.from_catboost(model, pool)
    np.testing.assert_array_equal(booster.predict(X), model.predict(X))


def test_combinations_with_numbers_are_refused(shared_data, tmp_path) -> None:
    X, y, names = text_table(shared_data)
    pool = catboost.Pool(X, y, cat_features=names)
    model = trained("CatBoostClassifier", pool, rounds=60, max_ctr_complexity=4)
    with pytest.raises(ModelFormatError, match="CTR"):
        brought(model, tmp_path, pool)


def test_scale_and_bias(numbers, tmp_path) -> None:
    X, y = numbers
    model = trained("CatBoostRegressor", catboost.Pool(X, y))
    model.set_scale_and_bias(0.5, 3.0)
    booster = brought(model, tmp_path)
    np.testing.assert_allclose(booster.predict(X), model.predict(X), rtol=1e-13)


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda r: r["oblivious_trees"][0].update(leaf_values=[1.0]), "leaf_values"),
        (lambda r: r["oblivious_trees"][0]["splits"][0].update(split_type="Text"), "Text"),
        (lambda r: r["features_info"].update(text_features=[{}]), "text"),
        (lambda r: r.update(scale_and_bias=[1]), "scale_and_bias"),
        (lambda r: r.pop("features_info"), "features_info"),
        (
            lambda r: r["features_info"]["float_features"][0].update(flat_feature_index=1),
            "same position",
        ),
    ],
)
def test_damage_is_named(numbers, edit, words, tmp_path) -> None:
    X, y = numbers
    model = trained("CatBoostRegressor", catboost.Pool(X, y), rounds=3)
    path = tmp_path / "model.json"
    model.save_model(str(path), format="json")
    record = json.loads(path.read_text())
    edit(record)
    path.write_text(json.dumps(record))
    with pytest.raises(ModelFormatError, match=words):
        hedgerow.load(path)
