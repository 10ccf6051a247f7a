"""The estimators: scikit-learn's conventions, labels, frames, bad input and contracts."""

from __future__ import annotations

import pickle
import threading
import warnings

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import hedgerow
from hedgerow import HedgerowClassifier, HedgerowRegressor
from hedgerow.datasets import load_pima
from hedgerow.errors import DataError, DataTypeError, ModelFormatError, ParameterError
from hedgerow.io import load_model, model_to_bytes, save_model

X, Y, NAMES, _ = load_pima()
SMALL = {"n_estimators": 15, "n_jobs": 1}
SHORT = {"n_estimators": 5, "n_jobs": 1}
MANY_X, MANY_Y = np.tile(X, (20, 1)), np.tile(Y, 20)  # enough to pay for a second thread


@parametrize_with_checks(
    [
        HedgerowClassifier(**SMALL),
        HedgerowRegressor(**SMALL),
        HedgerowClassifier(**SMALL, min_samples_leaf=1),
        HedgerowRegressor(**SMALL, min_samples_leaf=1),
    ]
)
def test_scikit_learn_conventions(estimator, check) -> None:
    check(estimator)


@pytest.fixture(scope="module")
def classifier() -> HedgerowClassifier:
    return HedgerowClassifier(**SHORT).fit(X, Y)


@pytest.fixture(scope="module")
def regressor() -> HedgerowRegressor:
    return HedgerowRegressor(**SHORT).fit(X[:, :7], X[:, 7])


# -- labels --------------------------------------------------------------------

LABELS = {
    "text": np.array(["no", "yes"]),
    "objects": np.array(["no", "yes"], dtype=object),
    "bool": np.array([False, True]),
    "int8": np.array([-7, 3], dtype=np.int8),
    "uint64": np.array([0, 2**64 - 1], dtype=np.uint64),
    "float32": np.array([-1.0, 2.0], dtype=np.float32),
    "float64": np.array([0.0, 1.0]),
    "mixed numbers": np.array([False, 2], dtype=object),
}


@pytest.mark.parametrize("name", LABELS)
def test_labels_of_any_type_come_back(name, classifier, tmp_path) -> None:
    labels = LABELS[name]
    if name == "mixed numbers":
        with pytest.raises(ValueError, match="Unknown label type"):
            HedgerowClassifier(**SHORT).fit(X, labels[Y])
        return
    model = HedgerowClassifier(**SHORT).fit(X, labels[Y])
    assert model.classes_.dtype == labels.dtype
    np.testing.assert_array_equal(model.classes_, labels)
    assert model.predict(X).dtype == labels.dtype
    np.testing.assert_array_equal(model.predict(X), labels[classifier.predict(X)])
    np.testing.assert_array_equal(model.predict_proba(X), classifier.predict_proba(X))
    model.save(tmp_path / "m")
    again = HedgerowClassifier.load(tmp_path / "m")
    assert again.classes_.dtype == labels.dtype
    assert again.classes_.tolist() == labels.tolist()
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("dtype", ["text", "category", "int"])
def test_target_column_of_a_frame(library, dtype) -> None:
    module = pytest.importorskip(library)
    values = Y.tolist() if dtype == "int" else ["yes" if y else "no" for y in Y]
    if library == "pandas":
        column = module.Series(values, dtype="category" if dtype == "category" else None)
    elif library == "polars":
        column = module.Series("y", values)
        column = column.cast(module.Categorical) if dtype == "category" else column
    else:
        column = module.chunked_array([values])
        column = column.dictionary_encode() if dtype == "category" else column
    model = HedgerowClassifier(**SHORT).fit(X, column)
    assert model.classes_.tolist() == ([0, 1] if dtype == "int" else ["no", "yes"])
    assert set(model.predict(X)) == set(model.classes_.tolist())


def test_nullable_labels_keep_their_type() -> None:
    pandas = pytest.importorskip("pandas")
    for dtype, kind in (("Int64", "i"), ("boolean", "b"), ("string", "O")):
        labels = pandas.Series(Y).astype(bool if dtype == "boolean" else int)
        labels = labels.astype(str if dtype == "string" else dtype).astype(dtype)
        assert HedgerowClassifier(**SHORT).fit(X, labels).classes_.dtype.kind == kind
        labels[5] = None
        with pytest.raises(DataError, match=r"y has no label in row 5|the first in row 5"):
            HedgerowClassifier(**SHORT).fit(X, labels)


def test_numpy_strings_are_labels() -> None:
    if not hasattr(np.dtypes, "StringDType"):
        pytest.skip("needs NumPy 2")
    labels = np.array(["no", "yes"], dtype=np.dtypes.StringDType())[Y]
    model = HedgerowClassifier(**SHORT).fit(X, labels)
    assert model.classes_.tolist() == ["no", "yes"]


# -- weights -------------------------------------------------------------------


def test_class_of_weight_zero_does_not_exist() -> None:
    three = np.where(X[:, 7] > 60, 2, Y)
    weight = (three != 2).astype(float)
    model = HedgerowClassifier(**SHORT).fit(X, three, sample_weight=weight)
    assert model.classes_.tolist() == [0, 1]


def test_class_weight_is_a_factor_on_sample_weight() -> None:
    factor = HedgerowClassifier(**SHORT, class_weight={1: 3.0}).fit(X, Y)
    rows = HedgerowClassifier(**SHORT).fit(X, Y, sample_weight=np.where(Y == 1, 3.0, 1.0))
    one, other = factor.booster_.model, rows.booster_.model
    np.testing.assert_array_equal(one.forest.value, other.forest.value)
    np.testing.assert_array_equal(factor.predict(X), rows.predict(X))
    shifted = factor.decision_function(X) + np.log(3.0)
    np.testing.assert_allclose(shifted, rows.decision_function(X), atol=1e-12)


def test_balanced_classes_weigh_the_same() -> None:
    model = HedgerowClassifier(n_estimators=1, class_weight="balanced", n_jobs=1).fit(X, Y)
    log_odds = np.log(Y.mean() / (1.0 - Y.mean()))
    assert model.booster_.model.forest.base_score[0] == pytest.approx(log_odds, abs=1e-12)
    weight = np.random.default_rng(0).integers(0, 3, len(Y))
    weighted = clone(model).fit(X, Y, sample_weight=weight)
    repeated = clone(model).fit(X.repeat(weight, axis=0), Y.repeat(weight))
    rate = (weight * Y).sum() / weight.sum()
    for other in (weighted, repeated):
        found = other.booster_.model.forest.base_score[0]
        assert found == pytest.approx(np.log(rate / (1.0 - rate)), abs=1e-12)


@pytest.mark.parametrize(
    ("class_weight", "words"),
    [
        ("balance", "'balanced'"),
        ({2: 1.0}, r"names 2, which is not in y; classes: \[0, 1\]"),
        ({1: 0.0}, "class 1 has 0.0"),
        ({0: -1.0}, "class 0 has -1.0"),
        ({1: np.nan}, "class 1 has nan"),
        ({1: "much"}, "class_weight must be a number greater"),
    ],
)
def test_wrong_class_weight_is_named(class_weight, words) -> None:
    with pytest.raises(ParameterError, match=words):
        HedgerowClassifier(**SHORT, class_weight=class_weight).fit(X, Y)


# -- frames --------------------------------------------------------------------


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_frames_are_read_by_name(library, classifier) -> None:
    module = pytest.importorskip(library)
    build = module.table if library == "pyarrow" else module.DataFrame
    columns = dict(zip(NAMES, X.T, strict=True))
    turned = build({name: columns[name] for name in reversed(NAMES)})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = HedgerowClassifier(**SHORT).fit(build(columns), Y)
        assert model.feature_names_in_.tolist() == list(NAMES)
        np.testing.assert_array_equal(model.predict_proba(turned), classifier.predict_proba(X))
    with pytest.raises(ValueError, match=r"unseen at fit time:\n- Glocose"):
        model.predict(build({name.replace("Glu", "Glo"): columns[name] for name in NAMES}))


def test_names_on_one_side_only_are_warned_about(classifier) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=NAMES)
    named = HedgerowClassifier(**SHORT).fit(frame, Y)
    with pytest.warns(UserWarning, match="X does not have valid feature names, but Hedgerow"):
        named.predict(X)
    with pytest.warns(UserWarning, match="X has feature names, but HedgerowClassifier was"):
        classifier.predict(frame)
    named.fit(X, Y)
    assert not hasattr(named, "feature_names_in_")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        numbered = pandas.DataFrame(X)
        np.testing.assert_array_equal(named.predict(numbered), classifier.predict(X))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F", "strided", "read-only", "byte-swapped", "list"])
def test_any_memory_layout(classifier, dtype, order) -> None:
    table = X.astype(dtype)
    if order == "strided":
        table = np.repeat(np.repeat(table, 2, axis=0), 3, axis=1)[::2, ::3]
    elif order == "byte-swapped":
        table = table.astype(table.dtype.newbyteorder())
    elif order == "list":
        table = table.tolist()
    else:
        table = np.array(table, order="F" if order == "F" else "C")
        table.flags.writeable = order != "read-only"
    before = np.array(table)
    model = HedgerowClassifier(**SHORT).fit(table, Y)
    np.testing.assert_array_equal(model.predict_proba(table), classifier.predict_proba(X))
    np.testing.assert_array_equal(np.array(table), before)


# -- early stopping and stages -------------------------------------------------


def test_class_weight_counts_in_validation_too() -> None:
    weighted = HedgerowClassifier(**SHORT, class_weight={1: 5.0})
    weighted.fit(X, Y, X_val=X, y_val=Y)
    rows = np.where(Y == 1, 5.0, 1.0)
    by_hand = HedgerowClassifier(**SHORT)
    by_hand.fit(X, Y, rows, X_val=X, y_val=Y, sample_weight_val=rows)
    assert weighted.evals_result_ == by_hand.evals_result_


@pytest.mark.parametrize("n_classes", [2, 3])
def test_stages_end_with_the_whole_model(n_classes) -> None:
    y = Y if n_classes == 2 else np.digitize(X[:, 7], [25.0, 35.0])
    model = HedgerowClassifier(**SHORT).fit(X, y)
    for name in ("predict", "predict_proba", "decision_function"):
        stages = list(getattr(model, f"staged_{name}")(X))
        assert len(stages) == model.n_iter_
        np.testing.assert_array_equal(stages[-1], getattr(model, name)(X))
        shorter = clone(model).set_params(n_estimators=3).fit(X, y)
        np.testing.assert_array_equal(stages[2], getattr(shorter, name)(X))


# -- scikit-learn around it ----------------------------------------------------


def test_validation_rows_are_routed_as_metadata() -> None:
    with config_context(enable_metadata_routing=True):
        model = HedgerowClassifier(**SHORT).set_fit_request(
            sample_weight=True, X_val=True, y_val=True
        )
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        pipeline = make_pipeline(scaler, model, transform_input=["X_val"])
        pipeline.fit(X, Y, sample_weight=np.ones(768), X_val=X, y_val=Y)
    by_hand = clone(model).fit(scaler.transform(X), Y, X_val=scaler.transform(X), y_val=Y)
    assert pipeline[-1].evals_result_ == by_hand.evals_result_


# -- files ---------------------------------------------------------------------


def test_save_and_load_give_the_same_estimator_back(tmp_path) -> None:
    params = {
        "n_estimators": 7,
        "learning_rate": np.float64(0.2),
        "max_leaves": None,
        "max_depth": 3,
        "eval_metric": ["auc", "logloss"],
        "class_weight": {"no": 1.0, "yes": 2},
        "early_stopping": False,
        "random_state": np.int64(3),
    }
    y = np.array(["no", "yes"])[Y]
    model = HedgerowClassifier(**params).fit(X, y, X_val=X, y_val=y)
    model.save(tmp_path / "m.safetensors")
    again = HedgerowClassifier.load(tmp_path / "m.safetensors")
    assert again.get_params() == model.get_params()
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert again.evals_result_ == model.evals_result_
    assert {n for n in vars(again) if n.endswith("_")} == {
        n for n in vars(model) if n.endswith("_")
    }
    again.save(tmp_path / "again.safetensors")
    files = [(tmp_path / name).read_bytes() for name in ("m.safetensors", "again.safetensors")]
    assert files[0] == files[1]
    assert clone(again).fit(X, y).booster_.num_trees == 7
    np.testing.assert_array_equal(
        hedgerow.load(tmp_path / "m.safetensors").predict(X, "raw"), model.decision_function(X)
    )


def test_what_cannot_be_saved_is_named(tmp_path) -> None:
    model = HedgerowRegressor(**SHORT, callbacks=print_nothing).fit(X, Y)
    with pytest.raises(DataTypeError, match=r"set_params\(callbacks=None\)"):
        model.save(tmp_path / "m")
    assert not list(tmp_path.iterdir())


def print_nothing(state) -> None:
    return None


KINDS_OF_LABELS = {
    "text": np.array(["no", "yes"]),
    "integers": np.array([7, 3]),
    "bools": np.array([False, True]),
    "floats": np.array([2.0, 1.0]),
    "objects": np.array(["b", "aa"], dtype=object),
}


def saved_booster(model, path):
    model.booster_.save(path)
    return hedgerow.load(path)


def saved_estimator(model, path):
    model.save(path)
    return hedgerow.load(path)


def pickled(model, path):
    return pickle.loads(pickle.dumps(model.booster_))


@pytest.mark.parametrize("keep", [saved_booster, saved_estimator, pickled])
@pytest.mark.parametrize("labels", list(KINDS_OF_LABELS))
def test_a_loaded_booster_predicts_what_the_estimator_predicted(labels, keep, tmp_path) -> None:
    y = KINDS_OF_LABELS[labels][Y.astype(int)]
    model = HedgerowClassifier(**SHORT, class_weight="balanced").fit(X, y)
    expected, loaded = model.predict(X), keep(model, tmp_path / "m")
    for booster in (model.booster_, loaded, saved_booster(model, tmp_path / "again")):
        found = booster.predict(X)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(booster.classes, model.classes_)
        *_, last = booster.staged_predict(X)
        np.testing.assert_array_equal(last, expected)
        parts = list(booster.predict_batches([X[:9], X[:0], X[9:]]))
        assert parts[1].dtype == expected.dtype
        np.testing.assert_array_equal(np.concatenate(parts), expected)
        np.testing.assert_array_equal(booster.predict(X, "probability"), model.predict_proba(X))
    refitted = loaded.refit(X[:300], y[:300], decay=0.5)
    assert set(refitted.predict(X).tolist()) == set(y.tolist())
    with pytest.raises(DataError, match="y has labels that the model lacks: 'other'"):
        loaded.refit(X[:2], ["other", "other"])
    more = HedgerowClassifier(**SHORT).fit(X, y, init_model=loaded)
    np.testing.assert_array_equal(more.classes_, model.classes_)


def keys_in(value):
    """Yield every key of every mapping in the state of an object, like serialization tools do."""
    if isinstance(value, dict):
        yield from value
        for item in value.values():
            yield from keys_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from keys_in(item)
    elif hasattr(value, "__dict__") or type(value).__module__.startswith("hedgerow"):
        yield from keys_in(value.__getstate__())


def test_states_hold_mappings_from_text_alone(classifier) -> None:
    assert {type(key) for key in keys_in(classifier)} == {str}
    again = pickle.loads(pickle.dumps(classifier))
    np.testing.assert_array_equal(again.predict(X), classifier.predict(X))


def test_models_without_labels_predict_indices(tmp_path, classifier) -> None:
    """Boosters of train, and files of earlier versions, have no labels."""
    save_model(classifier.booster_.model, tmp_path / "old")
    booster = hedgerow.load(tmp_path / "old")
    assert booster.classes is None
    index = classifier.classes_.tolist().index
    expected = [index(label) for label in classifier.predict(X).tolist()]
    assert booster.predict(X).tolist() == expected
    assert (
        hedgerow.train({"objective": "logistic", **SHORT}, hedgerow.Dataset(X, Y)).classes is None
    )
    several = HedgerowClassifier(**SHORT).fit(X, np.column_stack([Y, 1 - Y]))
    loaded = saved_estimator(several, tmp_path / "several")
    assert loaded.classes is None
    np.testing.assert_array_equal(loaded.predict(X), several.predict(X))


def test_forged_labels_of_a_booster_are_a_format_error(tmp_path, classifier) -> None:
    for classes in (None, {"dtype": "<U-73741825", "values": ["a", "b"]}, {"values": [0]}):
        save_model(classifier.booster_.model, tmp_path / "m", estimator={"classes": classes})
        with pytest.raises(ModelFormatError, match="classes in the model file are malformed"):
            hedgerow.load(tmp_path / "m")


def test_file_of_another_kind_is_a_format_error(tmp_path, classifier, regressor) -> None:
    classifier.save(tmp_path / "c")
    with pytest.raises(ModelFormatError, match="HedgerowClassifier, not of HedgerowRegressor"):
        HedgerowRegressor.load(tmp_path / "c")
    regressor.booster_.save(tmp_path / "plain")
    with pytest.raises(ModelFormatError, match=r"hedgerow\.load"):
        HedgerowRegressor.load(tmp_path / "plain")


@pytest.mark.parametrize(
    "change",
    [
        {"class": "Other"},
        {"params": []},
        {"params": {"no_such_parameter": 1}},
        {"params": {"class_weight": {"pairs": [[[1], 2]]}}},
        {"params": {"learning_rate": {"schedule": ["CosineDecay", "a", 0.1, 3]}}},
        {"params": {"n_jobs": "all"}},
        {"classes": None},
        {"classes": {"dtype": "<i8", "values": [0]}},
        {"classes": {"dtype": "<i8", "values": [1, 0]}},
        {"classes": {"dtype": "<U-73741825", "values": ["a", "b"]}},
        {"classes": {"dtype": "<U16385", "values": ["a", "b"]}},
        {"classes": {"dtype": "<U99999999999", "values": ["a", "b"]}},
        {"classes": {"dtype": "<i8,<i8", "values": ["a", "b"]}},
        {"classes": {"dtype": "<i8", "values": [0, 0]}},
        {"classes": {"dtype": "<i8", "values": [0, 2**63]}},
        {"classes": {"dtype": "<i8", "values": [0, [1]]}},
        {"classes": {"dtype": "<U1", "values": ["a", "abc"]}},
        {"classes": {"dtype": "O", "values": [1, "b"]}},
    ],
)
def test_forged_record_is_a_format_error(tmp_path, classifier, change) -> None:
    path = tmp_path / "m"
    classifier.save(path)
    model, record = load_model(path)
    assert record is not None
    save_model(model, path, estimator=record | change)
    with pytest.raises(ModelFormatError):
        HedgerowClassifier.load(path)


# -- bad input -----------------------------------------------------------------

ONES = np.ones(768)
BAD_FITS = {
    "no rows": (X[:0], Y[:0], {}, DataError, r"0 sample\(s\)"),
    "no columns": (X[:, :0], Y, {}, DataError, r"0 feature\(s\)"),
    "one class": (X, np.full(768, "a"), {}, DataError, "only one class, 'a'"),
    "one class by weight": (
        X,
        Y,
        {"sample_weight": Y},
        DataError,
        "one class, 1 among rows of pos",
    ),
    "labels missing": (X, np.where(Y, Y, np.nan), {}, DataError, "NaN .* the first in row 1"),
    "labels None": (X, np.where(Y, "a", None), {}, DataError, "no label in row 1"),
    "continuous labels": (X, X[:, 6], {}, ValueError, "Unknown label type: continuous"),
    "no y": (X, None, {}, DataError, "requires y to be passed, but the target y is None"),
    "short y": (X, Y[:7], {}, DataError, "y has 7 values for 768 rows"),
    "columns of classes": (X, 3 * np.ones((768, 2)), {}, DataError, "column 0 holds 3 in row 0"),
    "negative weight": (X, Y, {"sample_weight": -ONES}, DataError, "row 0 has -1"),
    "zero weights": (X, Y, {"sample_weight": 0 * ONES}, DataError, "zero in all 768 rows"),
    "short weight": (X, Y, {"sample_weight": ONES[:3]}, DataError, "3 values for 768 rows"),
    "table of weights": (
        X,
        Y,
        {"sample_weight": ONES[:, None]},
        DataError,
        r"1D .* got 2D: an array of shape \(768, 1\). Pass its column, sample_weight\[:, 0\]",
    ),
    "short y_val": (
        X,
        Y,
        {"X_val": X, "y_val": Y[:7]},
        DataError,
        "7 values for 768 rows of X_val",
    ),
    "short named y_val": (
        X,
        Y,
        {"X_val": {"new": (X, Y[:7])}},
        DataError,
        r"y of X_val\['new'\] has 7 values for 768 rows of X_val\['new'\]",
    ),
    "text weight": (X, Y, {"sample_weight": ["a"] * 768}, DataTypeError, "sample_weight must hold"),
    "one row of X": (X[0], Y, {}, DataError, "Reshape your data"),
    "cube": (X[None], Y, {}, DataError, "dim 3"),
    "bytes in X": (np.full((768, 2), b"a"), Y, {}, DataTypeError, "column 'x0'"),
    "X_val alone": (X, Y, {"X_val": X}, DataError, "X_val is given without y_val"),
    "y_val alone": (X, Y, {"y_val": Y}, DataError, "y_val is given without X_val"),
    "weight_val alone": (X, Y, {"sample_weight_val": ONES}, DataError, "without X_val and y_val"),
    "narrow X_val": (X, Y, {"X_val": X[:, :3], "y_val": Y}, DataError, "X has 3 features, but"),
    "strange y_val": (X, Y, {"X_val": X, "y_val": Y + 1}, DataError, "labels that y lacks: 2"),
}


@pytest.mark.parametrize("case", BAD_FITS)
def test_bad_data_is_named_and_the_estimator_stays(case) -> None:
    table, y, more, error, words = BAD_FITS[case]
    model = HedgerowClassifier(**SHORT).fit(X, Y)
    before = dict(vars(model))
    with pytest.raises(error, match=words):
        model.fit(table, y, **more)
    assert vars(model) == before
    with pytest.raises(NotFittedError):
        clone(model).predict(X)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"learning_rate": np.nan}, "learning_rate must be a number greater than 0; got nan"),
        ({"n_estimators": True}, "n_estimators must be an integer at least 1"),
        ({"n_estimators": 2.0}, "n_estimators must be an integer at least 1"),
        ({"max_leaves": 1}, "max_leaves must be"),
        ({"max_leaves": None}, "max_leaves and max_depth are both None"),
        ({"reg_lambda": -1}, "reg_lambda must be"),
        ({"subsample": 0.0}, "subsample must be"),
        ({"grow_policy": "leafwise "}, "Did you mean 'leafwise'"),
        ({"objective": "squared_error"}, "one of 'auto', 'logistic', 'exponential', 'softmax'"),
        ({"eval_metric": "logloss "}, "Did you mean 'logloss'"),
        ({"eval_metric": "rmse"}, "this model is for two classes"),
        ({"early_stopping": "Auto"}, "early_stopping must be True, False, 'auto' or 'cv'"),
        ({"patience": 0}, "patience must be"),
        ({"n_jobs": 0}, "n_jobs must be"),
        ({"n_jobs": "two"}, "n_jobs"),
        ({"random_state": -1}, "random_state must be"),
        ({"random_state": 2**63}, "random_state must be"),
        ({"random_state": True}, "random_state must be"),
        ({"random_state": "one"}, "random_state must be"),
        ({"callbacks": 3}, "callbacks must be"),
        ({"progress": "yes"}, "progress must be"),
    ],
)
def test_wrong_parameter_is_named_at_fit(params, words) -> None:
    model = HedgerowClassifier(**{**SHORT, **params})  # nothing is checked here
    with pytest.raises(ParameterError, match=words):
        model.fit(X, Y)


def test_logistic_is_for_two_classes() -> None:
    with pytest.raises(ParameterError, match="y has 3: use 'softmax'"):
        HedgerowClassifier(**SHORT, objective="logistic").fit(X, np.arange(768) % 3)


@pytest.mark.parametrize("name", ["learning_rate", "reg_lambda", "linear_lambda"])
def test_integers_beyond_64_bits_are_parameters_where_floats_are(name) -> None:
    settings = {**SHORT, "n_estimators": 1, "linear_leaves": name == "linear_lambda"}
    wide = HedgerowRegressor(**settings, **{name: 10**19}).fit(X, Y).predict(X)
    np.testing.assert_array_equal(
        wide, HedgerowRegressor(**settings, **{name: 1e19}).fit(X, Y).predict(X)
    )


def test_constant_target_is_predicted_exactly() -> None:
    for value in (0.1, 1e300, -1e-300, 0.0):
        model = HedgerowRegressor(**SHORT).fit(X, np.full(768, value))
        np.testing.assert_array_equal(model.predict(X), np.full(768, value))


# -- promises 8 and 9 ----------------------------------------------------------


class Stop(BaseException):
    pass


def failing(error):
    def callback(state):
        if state.round == 2:
            raise error

    return callback


@pytest.mark.parametrize("error", [Stop(), RuntimeError("no")])
def test_interrupted_fit_leaves_the_estimator_as_it_was(error) -> None:
    model = HedgerowClassifier(**SHORT).fit(X, Y)
    model.set_params(callbacks=failing(error), n_jobs=2)
    before, expected = dict(vars(model)), model.predict_proba(X)
    with pytest.raises(type(error)):
        model.fit(MANY_X[:, :6], MANY_Y)
    assert vars(model) == before
    np.testing.assert_array_equal(model.predict_proba(X), expected)
    assert not [t for t in threading.enumerate() if t.name.startswith("hedgerow-")]  # helpers
    fresh = HedgerowClassifier(**SHORT, callbacks=failing(error))
    with pytest.raises(type(error)):
        fresh.fit(X, Y)
    with pytest.raises(NotFittedError):
        fresh.predict(X)


def test_refit_forgets_the_fit_before() -> None:
    model = HedgerowClassifier(**SHORT).fit(X, Y, X_val=X, y_val=Y)
    fresh = HedgerowClassifier(**SHORT).fit(X[:, :5], Y)
    model.fit(X[:, :5], Y)
    assert model_to_bytes(model.booster_.model) == model_to_bytes(fresh.booster_.model)
    assert model.evals_result_ == {}
    assert model.n_features_in_ == 5


def test_formats_that_are_dicts_have_no_column_names() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    model = HedgerowRegressor(n_estimators=2).fit(np.eye(40), np.arange(40.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(sparse.dok_matrix(np.eye(40)))
