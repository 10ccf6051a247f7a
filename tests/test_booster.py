"""Dataset, train, Booster, load."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import hedgerow
from hedgerow import Booster, Dataset, train
from hedgerow.datasets import load_pima
from hedgerow.errors import DataError, DataTypeError, ModelFormatError, ParameterError
from hedgerow.io import model_to_bytes

X, Y, NAMES, _ = load_pima()
LEVELS = np.digitize(X[:, 7], [25.0, 35.0])
SHORT = {"n_estimators": 6, "n_jobs": 1}


@pytest.fixture(scope="module")
def booster() -> Booster:
    data = Dataset(X[:600], Y[:600], feature_names=NAMES)
    return train({"objective": "logistic", **SHORT}, data)


@pytest.fixture(scope="module")
def three() -> Booster:
    return train({"objective": "softmax", **SHORT}, Dataset(X, LEVELS))


def test_kinds_of_prediction_agree(booster) -> None:
    raw = booster.predict(X, "raw")
    probability = booster.predict(X, "probability")
    value = booster.predict(X)
    assert raw.shape == value.shape == (768,)
    assert value.dtype == np.int64
    np.testing.assert_allclose(probability[:, 1], 1 / (1 + np.exp(-raw)), rtol=1e-12)
    np.testing.assert_array_equal(value, probability.argmax(axis=1))
    np.testing.assert_allclose(probability.sum(axis=1), 1.0, rtol=1e-14)


def test_kinds_of_prediction_agree_for_three_classes(three) -> None:
    raw = three.predict(X, "raw")
    assert raw.shape == three.predict(X, "probability").shape == (768, 3)
    np.testing.assert_array_equal(three.predict(X), raw.argmax(axis=1))
    some = three.predict_proba(X, first_round=1, n_rounds=2, n_jobs=1)
    np.testing.assert_array_equal(some, three.predict(X, "probability", first_round=1, n_rounds=2))
    assert np.mean(three.predict(X) == LEVELS) > 0.8
    assert three.predict(X, "leaf").shape == (768, 18) == (768, three.num_trees)


def test_leaves_hold_what_is_added_up(booster) -> None:
    forest = booster.model.forest
    leaves = booster.predict(X, "leaf")
    nodes = forest.tree_start[:-1] + leaves
    assert (forest.feature[nodes] == -1).all()
    total = forest.base_score[0] + forest.value[nodes].sum(axis=1)
    np.testing.assert_allclose(booster.predict(X, "raw"), total, rtol=1e-12)


@pytest.mark.parametrize("name", ["booster", "three"])
def test_stages_are_models_of_fewer_rounds(name, request) -> None:
    model = request.getfixturevalue(name)
    for kind in ("value", "raw", "probability"):
        stages = list(model.staged_predict(X, kind))
        assert len(stages) == model.num_rounds
        for done, stage in enumerate(stages, start=1):
            np.testing.assert_array_equal(stage, model.predict(X, kind, n_rounds=done))
        np.testing.assert_array_equal(stages[-1], model.predict(X, kind))
    per_round = model.model.forest.n_outputs
    np.testing.assert_array_equal(
        model.predict(X, "leaf", n_rounds=2), model.predict(X, "leaf")[:, : 2 * per_round]
    )


def test_regression_is_the_default() -> None:
    model = train(SHORT, Dataset(X[:, :7], X[:, 7]))
    assert model.objective == "squared_error"
    np.testing.assert_array_equal(model.predict(X[:, :7]), model.predict(X[:, :7], "raw"))
    with pytest.raises(ParameterError, match="kind='probability' needs a classifier"):
        model.predict(X[:, :7], "probability")


def test_describes_itself(booster) -> None:
    assert booster.feature_names == NAMES
    assert booster.num_features == 8
    assert booster.num_trees == booster.num_rounds == 6
    assert booster.best_iteration is None
    assert booster.evals_result == {}
    assert "6 trees, 8 features, objective 'logistic'" in repr(booster)


def test_validation_rows_make_learning_curves() -> None:
    params = {"objective": "logistic", "n_estimators": 50, "eval_metric": ["auc", "logloss"]}
    valid = Dataset(X[600:], Y[600:])
    seen = []
    model = train(params, Dataset(X[:600], Y[:600]), valid, callbacks=seen.append)
    curves = model.evals_result["validation"]
    assert len(curves["auc"]) == len(curves["logloss"]) == len(seen)
    assert model.best_iteration == model.num_rounds == 1 + int(np.argmax(curves["auc"]))


def test_importance_sums_over_splits(booster) -> None:
    forest = booster.model.forest
    inner = forest.feature >= 0
    assert booster.feature_importance("split").sum() == inner.sum()
    assert booster.feature_importance().sum() == pytest.approx(forest.gain[inner].sum())
    assert booster.feature_importance("cover").sum() == pytest.approx(forest.cover[inner].sum())
    assert NAMES[int(booster.feature_importance().argmax())] == "Glucose"
    with pytest.raises(ParameterError, match="Did you mean 'gain'"):
        booster.feature_importance("gains")


@pytest.mark.parametrize("way", ["file", "pickle", "copy"])
def test_comes_back_as_it_was(booster, tmp_path, way) -> None:
    if way == "file":
        booster.save(tmp_path / "m.safetensors")
        again = hedgerow.load(tmp_path / "m.safetensors")
    else:
        again = pickle.loads(pickle.dumps(booster)) if way == "pickle" else copy.deepcopy(booster)
    np.testing.assert_array_equal(again.predict(X, "raw"), booster.predict(X, "raw"))
    assert again.feature_names == booster.feature_names
    assert again.evals_result == booster.evals_result
    assert model_to_bytes(again.model) == model_to_bytes(booster.model)


def test_pickle_holds_the_model_file_only(booster) -> None:
    booster.predict(X)  # arranges the forest for prediction
    assert len(pickle.dumps(booster)) < len(model_to_bytes(booster.model)) + 200


def test_load_of_something_else_is_a_format_error(tmp_path) -> None:
    (tmp_path / "m").write_bytes(pickle.dumps(3))
    with pytest.raises(ModelFormatError, match="m"):
        Booster.load(tmp_path / "m")
    with pytest.raises(FileNotFoundError):
        Booster.load(tmp_path / "absent")


def test_trees_as_text_frame_and_picture(booster) -> None:
    assert "Glucose" in booster.to_text()
    pandas = pytest.importorskip("pandas")
    frame = booster.to_frame()
    assert isinstance(frame, pandas.DataFrame)
    assert len(frame) == len(booster.model.forest.feature)
    pytest.importorskip("matplotlib")
    assert booster.plot_tree(1) is not None
    with pytest.raises(ParameterError, match="backend"):
        booster.to_frame("excel")


@pytest.mark.parametrize("backend", ["polars", "pyarrow"])
def test_frame_of_another_library(booster, backend) -> None:
    pytest.importorskip(backend)
    assert booster.to_frame(backend).shape[0] == len(booster.model.forest.feature)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_columns_are_found_by_name(booster, library) -> None:
    module = pytest.importorskip(library)
    columns = dict(zip(NAMES, X.T, strict=True))
    turned = {name: columns[name] for name in reversed(NAMES)}
    build = module.table if library == "pyarrow" else module.DataFrame
    expected = booster.predict(X, "raw")
    np.testing.assert_array_equal(booster.predict(build(columns), "raw"), expected)
    np.testing.assert_array_equal(booster.predict(build(turned), "raw"), expected)
    del turned["BMI"]
    with pytest.raises(DataError, match="now missing:\n- BMI"):
        booster.predict(build(turned))
    del columns["BMI"]
    columns["Bmi"] = X[:, 0]
    with pytest.raises(DataError, match="unseen at fit time:\n- Bmi"):
        booster.predict(build(columns))


def test_seed_and_random_state_are_one() -> None:
    data = Dataset(X, Y)
    params = {"objective": "logistic", "subsample": 0.5, **SHORT}
    first, second, third = (
        train({**params, **seed}, data) for seed in ({"seed": 3}, {"random_state": 3}, {"seed": 4})
    )
    np.testing.assert_array_equal(first.predict(X, "raw"), second.predict(X, "raw"))
    assert (first.predict(X, "raw") != third.predict(X, "raw")).any()
    with pytest.raises(ParameterError, match="two names of one"):
        train({"seed": 1, "random_state": 1}, data)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"num_leafs": 3}, "no parameter 'num_leafs'"),
        ({"learning_rat": 3}, "Did you mean 'learning_rate'"),
        ({"learning_rate": 0}, "learning_rate must be a number greater than 0; got 0"),
        ({"objective": "logistics"}, "Did you mean 'logistic'"),
        ({"eval_metric": "logloss"}, "this model is for regression"),
        ({"n_jobs": 0}, "n_jobs"),
        ({"max_bins": 1000}, "max_bins must be"),
        ({"grow_policy": "leaf_wise"}, "Did you mean 'leafwise'"),
    ],
)
def test_wrong_parameter_is_named(params, words) -> None:
    with pytest.raises(ParameterError, match=words):
        train(params, Dataset(X, Y))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (Dataset(X), "give y"),
        (Dataset(X, Y[:5]), "y has 5 values for 768 rows"),
        (Dataset(X, Y, weight=-np.ones(768)), "weight must not be negative"),
        (Dataset(X, Y, feature_names=["a"]), "1 names for 8 columns"),
        (Dataset(X, Y, feature_names=["a"] * 8), "distinct"),
        (Dataset(X, Y, offset=np.ones((768, 2))), "offset must have shape"),
    ],
)
def test_wrong_data_is_named(data, words) -> None:
    with pytest.raises(DataError, match=words):
        train(SHORT, data)


def test_wrong_targets_of_classes_are_named() -> None:
    with pytest.raises(DataError, match="row 1"):
        train({"objective": "logistic"}, Dataset(X, np.arange(768) + 1))
    with pytest.raises(DataError, match="number the classes"):
        train({"objective": "softmax"}, Dataset(X, 1e9 * Y))
    with pytest.raises(DataTypeError, match="y must hold numbers"):
        train({"objective": "softmax"}, Dataset(X, np.array(["a"] * 768)))


def test_wrong_prediction_is_named(booster) -> None:
    with pytest.raises(ParameterError, match="Did you mean 'probability'"):
        booster.predict(X, "probabilities")
    with pytest.raises(ParameterError, match="n_rounds must be an integer from 0 to 6"):
        booster.predict(X, n_rounds=7)
    with pytest.raises(DataError, match="X has 3 features, but Booster is expecting 8"):
        booster.predict(X[:, :3])
    with pytest.raises(ParameterError, match="leaf"):
        booster.staged_predict(X, "leaf")


@pytest.mark.parametrize("given", [(X, Y), [X, Y], pd.DataFrame({"a": [1.0]}), None, "rows.csv"])
def test_rows_that_are_no_dataset_are_an_error_that_says_how(given) -> None:
    settings = {"n_estimators": 1, "early_stopping": False}
    with pytest.raises(DataTypeError, match=r"dataset must be a Dataset, .* make one, Dataset\("):
        hedgerow.train(settings, given)
    if given is not None:
        with pytest.raises(DataTypeError, match=r"valid must be a Dataset, .* Dataset\("):
            hedgerow.train(settings, Dataset(X, Y), given)


def test_trees_are_drawn_by_estimators_too() -> None:
    pytest.importorskip("matplotlib")
    model = hedgerow.HedgerowRegressor(n_estimators=2, early_stopping=False).fit(X, Y)
    assert model.plot_tree(1, max_depth=2).get_title(loc="left") == "tree 1 of 2"
    with pytest.raises(NotFittedError):
        hedgerow.HedgerowRegressor().plot_tree()
