"""Targets and weights that cannot be used: errors name the argument and what was given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hedgerow import (
    CARTClassifier,
    CARTRegressor,
    Dataset,
    HedgerowClassifier,
    HedgerowRanker,
    HedgerowRegressor,
    cross_fit,
    train,
)
from hedgerow.errors import DataError, DataTypeError, HedgerowError, ParameterError

N = 30
X = np.random.default_rng(0).normal(size=(N, 3))
LABELS = np.where(X[:, 0] > 0, "hi", "lo")
FEW: dict[str, Any] = {"n_estimators": 2, "learning_rate": 0.3, "early_stopping": False}

REGRESSORS: dict[str, Any] = {
    "regressor": lambda y: HedgerowRegressor(**FEW).fit(X, y),
    "ranker": lambda y: HedgerowRanker(**FEW).fit(X, y, qid=[0] * N),
    "tree": lambda y: CARTRegressor().fit(X, y),
    "train": lambda y: train(FEW, Dataset(X, y)),
}
CLASSIFIERS: dict[str, Any] = {
    "classifier": lambda y: HedgerowClassifier(**FEW).fit(X, y),
    "tree of classes": lambda y: CARTClassifier().fit(X, y),
}

NO_TARGETS: dict[str, tuple[Any, str]] = {
    "name": ("target", r"^y must be an array.*got 'target' \(str\).*X\['target'\]"),
    "bytes": (b"ab", r"^y must be an array.*got b'ab' \(bytes\)"),
    "dict": ({"a": 1}, r"^y must be an array.*got (1 \(int\)|{'a': 1} \(dict\))"),
    "set": ({1}, r"^y must be an array.*got \{1\} \(set\)"),
    "number": (3, r"^y must be an array.*got 3 \(int\)"),
    "function": (len, r"^y must be an array.*got <built-in function len>"),
    "complex": (np.ones(N) * 1j, "^Complex data not supported: y is complex128"),
    "complex objects": (np.array([1j] * N, dtype=object), "^Complex data not supported: y"),
    "ragged": ([[1], [1, 2]] * (N // 2), "^y must hold one value for each row.*length"),
    "cube": (np.zeros((N, 2, 2)), r"^y should be a 1d array, got an array of shape \(30, 2, 2\)"),
    "infinite": ([np.inf] * N, "^Input y contains infinity"),
    "no rows": ([], "^y has 0 values for 30 rows"),
}


@pytest.mark.parametrize("kind", NO_TARGETS)
def test_what_is_no_target_is_named(kind) -> None:
    y, words = NO_TARGETS[kind]
    for fit in (REGRESSORS | CLASSIFIERS).values():
        with pytest.raises((DataError, DataTypeError), match=words):
            fit(y)


@pytest.mark.parametrize("fit", REGRESSORS.values(), ids=REGRESSORS.keys())
def test_text_is_never_read_as_a_number(fit) -> None:
    numbers: list[Any] = [0.0, 1.0] * (N // 2)
    for y in (
        [*numbers[:-1], "1"],
        np.array([*numbers[:-1], "1"], dtype=object),
        pd.Series([*numbers[:-1], b"1"]),
        np.array(["1"] * N),
    ):
        with pytest.raises(DataTypeError, match=r"^y must hold numbers, "):
            fit(y)
    with pytest.raises(DataTypeError, match=r"row 29 has '1' \(str\)"):
        fit(np.array([*numbers[:-1], "1"], dtype=object))
    with pytest.raises(DataError, match=r"^Input y contains NaN .1 of 30 values, the first in row"):
        fit(pd.Series([*numbers[:-1], pd.NA], dtype=object))


@pytest.mark.parametrize("fit", CLASSIFIERS.values(), ids=CLASSIFIERS.keys())
def test_labels_that_are_no_classes_are_named(fit) -> None:
    continuous = np.array([1.0, 0.0] * (N // 2))
    continuous[7] = 0.25
    words = r"^Unknown label type: continuous\. y of a \w+ must .* row 7 has 0\.25\. Use a \w+Regr"
    with pytest.raises(DataError, match=words):
        fit(continuous)
    for y, words in (
        ([{"a": 1}] * N, "^Unknown label type: .*{'a': 1}.*type dict"),
        ([b"a", b"b"] * (N // 2), "^Unknown label type: bytes.*b'a'"),
        ([None] * N, r"^y has no label in row 0 \(None\)"),
    ):
        with pytest.raises(DataError, match=words):
            fit(y)


@pytest.mark.parametrize("kind", ["datetime64[us]", "timedelta64[s]"])
@pytest.mark.parametrize("fit", CLASSIFIERS.values(), ids=CLASSIFIERS.keys())
def test_a_missing_time_is_no_label(kind, fit) -> None:
    times = (np.arange(N) % 2).astype(kind)
    assert HedgerowClassifier(**FEW).fit(X, times).classes_.tolist() == np.unique(times).tolist()
    times[[4, 9]] = "NaT"
    for y in (times, pd.Series(times)):
        with pytest.raises(DataError, match=r"^y has no label in row 4 .*NaT"):
            fit(y)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("fit", CLASSIFIERS.values(), ids=CLASSIFIERS.keys())
def test_floats_beyond_64_bits_are_no_labels(fit) -> None:
    labels = np.arange(N) % 2 * 2.0**63
    with pytest.raises(DataError, match=r"integers below 2\*\*63; row 1 has 9\.22337e\+18"):
        fit(labels)


@pytest.mark.parametrize(
    ("weight", "words"),
    [
        (["1"] * N, "sample_weight must hold numbers, got <U1"),
        (np.array([1.0] * (N - 1) + ["2"], dtype=object), r"row 29 has '2' \(str\)"),
        (pd.Series(["1"] * N), "sample_weight must hold numbers"),
        ("weight", r"sample_weight must be an array.*X\['weight'\]"),
        (np.array([pd.Timestamp("2020")] * N, dtype=object), "row 0 has Timestamp"),
        ({"a": 1.0}, "sample_weight must be an array"),
    ],
)
def test_weights_that_are_no_numbers(weight, words) -> None:
    for fit in (HedgerowClassifier(**FEW).fit, CARTClassifier().fit):
        with pytest.raises(DataTypeError, match=words):
            fit(X, LABELS, weight)


GRADES = np.arange(N) % 3
GIVEN_BY_NAME: dict[str, Any] = {
    "groups": lambda name: HedgerowRegressor(**FEW | {"early_stopping": True}).fit(
        X, X[:, 0], groups=name
    ),
    "qid": lambda name: HedgerowRanker(**FEW).fit(X, GRADES, qid=name),
    "sample_weight": lambda name: HedgerowRegressor(**FEW).fit(X, X[:, 0], sample_weight=name),
    "weight": lambda name: train(FEW, Dataset(X, X[:, 0], weight=name)),
    "groups of cross_fit": lambda name: cross_fit(
        HedgerowRegressor(**FEW), X, X[:, 0], 3, groups=name
    ),
}


@pytest.mark.parametrize("argument", GIVEN_BY_NAME)
def test_a_name_in_place_of_the_values_of_rows(argument) -> None:
    with pytest.raises(DataTypeError, match=r"one value for each row; got 'store'.*X\['store'\]"):
        GIVEN_BY_NAME[argument]("store")
    with pytest.raises(DataTypeError, match=r"one value for each row; got 7 \(int\)"):
        GIVEN_BY_NAME[argument](7)


@pytest.mark.parametrize("path", ["rows.csv", Path("rows.csv"), b"rows.csv"])
def test_a_path_in_place_of_a_table(path) -> None:
    model = HedgerowRegressor(**FEW).fit(X, X[:, 0])
    for call in (
        lambda: HedgerowRegressor(**FEW).fit(path, X[:, 0]),
        lambda: train(FEW, Dataset(path, X[:, 0])),
        lambda: model.predict(path),
        lambda: model.explain(path),
        lambda: model.partial_dependence(path),
    ):
        with pytest.raises(DataTypeError, match=r"rows\.csv.*Dataset\.from_files"):
            call()


@pytest.mark.parametrize("value", ["2", b"2", True, None, np.nan, np.inf, 0, -1.0, 1j])
def test_class_weights_are_numbers(value) -> None:
    for kind in (HedgerowClassifier, CARTClassifier):
        with pytest.raises(ParameterError, match=r"class_weight .* 'lo' has .*leave its rows out"):
            kind(class_weight={"lo": value}).fit(X, LABELS)
    weighted = HedgerowClassifier(**FEW, class_weight={"lo": np.float32(2)}).fit(X, LABELS)
    plain = HedgerowClassifier(**FEW, class_weight={"lo": 2}).fit(X, LABELS)
    np.testing.assert_array_equal(weighted.predict_proba(X), plain.predict_proba(X))


def test_other_arguments_of_text_are_no_numbers() -> None:
    text = np.array(["1"] * N, dtype=object)
    relevance = (X[:, 0] > 0).astype(int)
    times = {"lower": text, "upper": np.full(N, 2.0)}
    calls: list[Any] = [
        lambda: HedgerowRegressor(**FEW).fit(X, relevance, offset=text),
        lambda: HedgerowRanker(**FEW, label_gain=["0", "1"]).fit(X, relevance, qid=[0] * N),
        lambda: HedgerowRanker(**FEW).fit(X, relevance, ["one"], qid=[0] * N),
        lambda: HedgerowRegressor(**FEW, objective="aft").fit(X, times),
    ]
    for call in calls:
        with pytest.raises(HedgerowError, match="number"):
            call()


def _masked(values: np.ndarray) -> np.ma.MaskedArray:
    """Return the values with the first and the eighth masked."""
    return np.ma.MaskedArray(values, mask=np.isin(np.arange(len(values)), (0, 7)))


_NUMBERS = np.linspace(0.5, 2.0, N)
_CODES = np.arange(N) % 2
_FITS = {
    "target": lambda v: HedgerowRegressor(n_estimators=1).fit(X, v(_NUMBERS)),
    "integers": lambda v: HedgerowRegressor(n_estimators=1).fit(X, v(np.arange(N))),
    "several targets": lambda v: HedgerowRegressor(n_estimators=1).fit(
        X, np.ma.column_stack([v(_NUMBERS), _NUMBERS])
    ),
    "classes": lambda v: HedgerowClassifier(n_estimators=1).fit(X, v(_CODES)),
    "text": lambda v: HedgerowClassifier(n_estimators=1).fit(X, v(_CODES.astype(str))),
    "labels": lambda v: HedgerowClassifier(n_estimators=1).fit(
        X, np.ma.column_stack([v(_CODES), 1 - _CODES, _CODES])
    ),
    "weights": lambda v: HedgerowRegressor(n_estimators=1).fit(X, _NUMBERS, v(_NUMBERS)),
    "offset": lambda v: HedgerowRegressor(n_estimators=1).fit(X, _NUMBERS, offset=v(_NUMBERS)),
    "groups": lambda v: HedgerowRegressor(n_estimators=1, early_stopping=True).fit(
        X, _NUMBERS, groups=v(_CODES)
    ),
    "queries": lambda v: HedgerowRanker(n_estimators=1).fit(X, _CODES, qid=v(_CODES)),
    "event": lambda v: HedgerowRegressor(objective="cox", n_estimators=1).fit(
        X, {"event": v(_CODES), "time": _NUMBERS}
    ),
    "time": lambda v: HedgerowRegressor(objective="aft", n_estimators=1).fit(
        X, {"event": _CODES, "time": v(_NUMBERS)}
    ),
    "Dataset": lambda v: train({"n_estimators": 1}, Dataset(X, v(_NUMBERS))),
    "single tree": lambda v: CARTRegressor().fit(X, v(_NUMBERS)),
    "tree of classes": lambda v: CARTClassifier().fit(X, v(_CODES)),
}


@pytest.mark.parametrize("fit", _FITS.values(), ids=_FITS)
def test_masked_values_are_missing(fit) -> None:
    with pytest.raises(DataError, match=r"(NaN|missing|no label).* (first )?(is |in )*row 0\b"):
        fit(_masked)
    fit(np.ma.MaskedArray)  # no value is masked


@pytest.mark.parametrize("kind", [int, float, bool, np.bool_])
@pytest.mark.parametrize("wrap", [np.asarray, pd.Series])
@pytest.mark.parametrize("classifier", [HedgerowClassifier(n_estimators=2), CARTClassifier()])
def test_objects_of_one_type_are_labels(kind, wrap, classifier) -> None:
    y = wrap(np.array([kind(code) for code in _CODES], dtype=object))
    model = classifier.fit(X, y)
    plain = np.array([kind(code) for code in _CODES])
    assert model.classes_.dtype == plain.dtype
    np.testing.assert_array_equal(model.classes_, np.unique(plain))
    assert model.score(X, y) == model.score(X, plain)


def test_integers_beyond_64_bits_and_mixtures_are_no_labels() -> None:
    large = np.array([2**70 + int(code) for code in _CODES], dtype=object)
    for y in (large, pd.Series(large)):
        with pytest.raises(DataError, match=r"integers of at most 64 bits.*row 0 has 11805916207"):
            HedgerowClassifier().fit(X, y)
    mixed = np.array([1, *["a"] * (N - 1)], dtype=object)
    for y in (mixed, pd.Series(mixed)):
        with pytest.raises(DataTypeError, match=r"y mixes .*row 1 has 'a' and row 0 has 1\. Make"):
            HedgerowClassifier().fit(X, y)


VALIDATED = {
    "numbers": lambda **rows: HedgerowRegressor(**FEW).fit(X, X[:, 0], **rows),
    "classes": lambda **rows: HedgerowClassifier(**FEW).fit(X, LABELS, **rows),
    "labels": lambda **rows: HedgerowClassifier(**FEW).fit(X, np.eye(3)[np.arange(N) % 3], **rows),
    "ranking": lambda **rows: HedgerowRanker(**FEW).fit(X, _CODES, qid=[0] * N, **rows),
}


@pytest.mark.parametrize("fit", VALIDATED.values(), ids=VALIDATED)
@pytest.mark.parametrize("table", [X[:, :2], X[:0], X.astype(str), pd.DataFrame({"a": [1j] * N})])
def test_errors_of_validation_tables_name_them(fit, table) -> None:
    with pytest.raises((DataError, DataTypeError), match=r"^X_val: \w+"):
        fit(X_val=table, y_val=LABELS)
    with pytest.raises((DataError, DataTypeError), match=r"^X of X_val\['new'\]: \w+"):
        fit(X_val={"new": (table, LABELS)})
