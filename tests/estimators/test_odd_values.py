"""Each parameter with values that it cannot have: one named, short error each."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import hedgerow
from hedgerow import (
    CARTClassifier,
    CARTRegressor,
    Dataset,
    HedgerowClassifier,
    HedgerowRanker,
    HedgerowRegressor,
)
from hedgerow.errors import (
    DataError,
    DataTypeError,
    HedgerowError,
    ParameterError,
    StorageError,
    brief,
    did_you_mean,
)
from hedgerow.objectives import PARAMETERS

X = np.random.default_rng(0).normal(size=(60, 3))
Y = X[:, 0]
CLASSES = (Y > 0).astype(int)
QUERIES = np.repeat(np.arange(6), 10)


class SomeClass:
    """A class where an object is expected."""


ODD: dict[str, Any] = {
    "array": np.arange(60.0),
    "text array": np.array(["gbdt", "cpu", "auto"]),
    "array without axes": np.array(5.5),
    "frame": pd.DataFrame({"a": [1, 2]}),
    "series": pd.Series([1.0, 2.0]),
    "NA": pd.NA,
    "NaT": np.datetime64("NaT"),
    "nan": float("nan"),
    "bytes": b"gbdt",
    "class": SomeClass,
    "empty text": "",
    "huge": 10**5000,
    "long list": list(range(3000)),
    "long text": "x" * 3000,
    "object": object(),
}
"""Values that hardly any parameter takes."""

TAKEN = {
    ("n_jobs", "huge"),
    ("label_gain", "array"),
    ("label_gain", "long list"),
    ("label_gain", "series"),
    ("feature_names", "text array"),
}
MOST_LETTERS = 700
"""Limit on the length of an error; some list all objectives or metrics."""


def faults(
    call: Callable[[str, Any], Any], names: Iterable[str], every: int = 1
) -> dict[tuple[str, str], str]:
    """Call with each parameter and each odd value, or every so many; return what went wrong."""
    found = {}
    for number, name in enumerate(names):
        for label, value in list(ODD.items())[number % every :: every]:
            try:
                call(name, value)
            except HedgerowError as error:
                text = str(error)
                if name not in text:
                    found[name, label] = f"the error does not name it: {text}"
                elif len(text) > MOST_LETTERS:
                    found[name, label] = f"an error of {len(text)} letters"
            except Exception as error:
                found[name, label] = f"{type(error).__name__}: {error}"
            else:
                if (name, label) not in TAKEN:
                    found[name, label] = "no error"
    return found


def parameters_of(kind: type[Any]) -> list[str]:
    return list(kind().get_params(deep=False))


FEW: dict[str, Any] = {"n_estimators": 2}
_SHARED = frozenset(parameters_of(HedgerowRegressor))


@pytest.mark.parametrize(
    ("kind", "rows", "skipped", "every"),
    [
        (HedgerowRegressor, {"y": Y}, frozenset(), 4),
        pytest.param(HedgerowRegressor, {"y": Y}, frozenset(), 1, marks=pytest.mark.slow),
        (HedgerowClassifier, {"y": CLASSES}, _SHARED - {"objective"}, 1),
        (HedgerowRanker, {"y": CLASSES, "qid": QUERIES}, _SHARED, 1),
        (CARTRegressor, {"y": Y}, frozenset(), 2),
        (CARTClassifier, {"y": CLASSES}, frozenset(), 2),
    ],
)
def test_parameters_of_estimators(
    kind: type[Any], rows: dict[str, Any], skipped: frozenset[str], every: int
) -> None:
    def fit(name: str, value: Any) -> None:
        # The constructor stores parameters and checks names only, which takes a millisecond.
        if name not in models:
            models[name] = kind(**({} if kind.__name__.startswith("CART") else FEW))
        setattr(models[name], name, value)
        models[name].fit(X, **rows)

    models: dict[str, Any] = {}
    names = [name for name in parameters_of(kind) if name not in skipped]
    assert len(names) >= 4
    assert faults(fit, names, every) == {}


def test_parameters_of_losses() -> None:
    def fit(name: str, value: Any) -> None:
        loss = PARAMETERS[name][0]
        kind, y = HedgerowRegressor, np.abs(Y) + 0.1
        if loss == "focal":
            kind, y = HedgerowClassifier, CLASSES
        kind(n_estimators=2, objective=loss, **{name: value}).fit(X, y)

    names = [name for name, losses in PARAMETERS.items() if losses[0] != "lambdarank"]
    assert len(names) >= 8
    assert faults(fit, names) == {}


def arguments_of(function: Callable[..., Any]) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name != "self"]


def test_arguments_of_training_functions() -> None:
    data, few = Dataset(X, Y), {"n_estimators": 2}
    model = HedgerowRegressor(n_estimators=2, early_stopping=False)
    calls: list[tuple[Callable[..., Any], dict[str, Any], set[str]]] = [
        (hedgerow.train, {"params": few, "dataset": data}, set()),
        (hedgerow.cv, {"params": few, "dataset": data, "folds": 2}, {"groups"}),
        (hedgerow.Training, {"params": {}, "dataset": data}, set()),
        (
            hedgerow.cross_fit,
            {"estimator": model, "X": X, "y": Y, "cv": 2},
            {"estimator", "X", "y", "sample_weight", "groups", "offset"},
        ),
    ]
    for function, given, others in calls:

        def call(
            name: str, value: Any, function: Any = function, given: dict[str, Any] = given
        ) -> None:
            function(**{**given, name: value})

        names = [name for name in arguments_of(function) if name not in others]
        assert faults(call, names) == {}, function


def test_parameters_of_train_and_of_datasets() -> None:
    def train(name: str, value: Any) -> None:
        hedgerow.train({**FEW, name: value}, Dataset(X, Y))

    assert faults(train, ["objective", "eval_metric", "seed", "early_stopping", "sketch"]) == {}

    def read(name: str, value: Any) -> None:
        hedgerow.train(FEW, Dataset(X, Y, **{name: value}))

    assert faults(read, ["feature_names", "categorical_features", "unknown_category"]) == {}


_METHODS: dict[str, dict[str, Any]] = {
    "partial_dependence": {"columns": [0], "X": X},
    "importance": {},
    "explain": {"X": X},
    "verify_monotone": {"feature": 0, "direction": 1},
    "predict": {"X": X},
    "predict_one": {"row": X[0]},
    "plot_importance": {},
    "plot_partial_dependence": {"columns": [0], "X": X},
    "to_text": {},
    "feature_importance": {},
    "refit": {"X": X, "y": Y},
    "staged_predict": {"X": X},
}
_CHECKED_ELSEWHERE = {
    "X", "y", "row", "sample_weight", "offset", "qid", "background", "reader", "metric",
    "memory_limit", "outputs", "class_names", "targets",
}  # fmt: skip
_NOT_USED = {("importance", "n_jobs"), ("partial_dependence", "n_jobs")}
_LARGE = {("most", "huge"), ("max_depth", "huge"), ("indent", "empty text")}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("method", _METHODS)
def test_arguments_of_methods(method: str) -> None:
    pytest.importorskip("matplotlib")
    booster = _booster()
    function, given = getattr(booster, method), _METHODS[method]

    def call(name: str, value: Any) -> None:
        found = function(**{**given, name: value})
        if inspect.isgenerator(found):
            list(found)

    names = [
        name
        for name in arguments_of(function)
        if name not in _CHECKED_ELSEWHERE and (method, name) not in _NOT_USED
    ]
    found = {
        key: fault
        for key, fault in faults(call, names).items()
        if key not in _LARGE and not fault.startswith("IndexError: tree ")
    }
    assert found == {}


@functools.cache
def _booster() -> Any:
    return hedgerow.train(FEW, Dataset(X, Y))


def test_axes_of_a_tree() -> None:
    pytest.importorskip("matplotlib")
    assert faults(lambda name, value: _booster().plot_tree(**{name: value}), ["ax"]) == {}


def test_scalars_of_numpy_are_parameters() -> None:
    """The default of each parameter as a scalar of NumPy trains the same model."""
    kinds: dict[type[Any], type[Any]] = {
        bool: np.bool_,
        int: np.int32,
        float: np.float64,
        str: np.str_,
    }
    plain = HedgerowRegressor(n_estimators=2)
    expected = plain.fit(X, Y).booster_.to_bytes()
    given = {
        name: kinds[type(value)](value)
        for name, value in plain.get_params(deep=False).items()
        if type(value) in kinds
    }
    assert len(given) >= 50
    model = HedgerowRegressor(**given)
    assert model.fit(X, Y).booster_.to_bytes() == expected


def test_lists_of_columns_may_be_arrays_and_indexes() -> None:
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(b=CLASSES)
    model = HedgerowRegressor(n_estimators=2, categorical_features=["b"]).fit(frame, Y)
    expected = model.booster_.to_bytes()
    mask = frame.columns == "b"
    for columns in (frame.columns[1:2], pd.Series(["b"]), np.array(["b"]), ("b",), mask):
        found = HedgerowRegressor(n_estimators=2, categorical_features=columns).fit(frame, Y)
        assert found.booster_.to_bytes() == expected
    effects = model.partial_dependence(frame, frame.columns[1:2]).effects
    assert [effect.name for effect in effects] == ["b"]
    names = Dataset(X, Y, feature_names=frame.columns).feature_names
    assert names == ("a", "b", "c")
    with pytest.raises(ParameterError, match=r"feature_names must be a list .* got 'abc'"):
        Dataset(X, Y, feature_names="abc")


def test_brief_texts() -> None:
    assert brief("gbdt") == "'gbdt'"
    assert brief(np.float64(0.5)) == repr(np.float64(0.5))
    assert brief([1, None, "a"]) == "[1, None, 'a']"
    assert brief(np.arange(3)) == "array([0, 1, 2])"
    assert brief(np.zeros((500, 2))) == "ndarray of shape (500, 2)"
    assert brief(pd.DataFrame({"a": [1, 2]})) == "DataFrame of shape (2, 1)"
    assert brief(10**5000) == "an integer of 16610 bits"
    assert brief("x" * 1000).startswith("'xxx")
    assert len(brief("x" * 1000)) <= 80
    nested: list[Any] = [["x" * 1000] * 1000] * 1000
    assert len(brief(nested)) < 220
    nested.append(nested)
    assert "..." in brief(nested)


def test_hints_need_no_text() -> None:
    assert did_you_mean("gbtd", ["gbdt", "dart"]) == " Did you mean 'gbdt'?"
    assert did_you_mean(10**5000, ["gbdt"]) == ""
    assert did_you_mean(np.zeros(3), ["gbdt"]) == ""


@pytest.mark.parametrize("number", [True, 7, np.int64(7)])
def test_a_number_is_not_the_path_of_a_file(number: Any, tmp_path: Path) -> None:
    """Python takes a number for an open file, and closes it."""
    booster = _booster()
    for call in (booster.save, hedgerow.load, HedgerowRegressor.load, booster.export):
        with pytest.raises(DataTypeError, match="path must be the path of a file"):
            call(number)
    os.fstat(1)


def test_the_error_of_an_initial_model_says_what_is_allowed(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(StorageError, match=r"init_model names the file .* a Booster or a fit"):
            HedgerowRegressor(n_estimators=2).fit(X, Y, init_model=path)


def test_an_array_without_axes_is_no_table() -> None:
    with pytest.raises(DataError, match="Expected 2D array"):
        _booster().predict(np.array(1.0))


@pytest.mark.parametrize("kind", [HedgerowRegressor, HedgerowClassifier])
def test_a_class_is_not_a_callback(kind: type[Any]) -> None:
    with pytest.raises(ParameterError, match="callbacks must be None, a callable"):
        kind(n_estimators=2, callbacks=SomeClass).fit(X, CLASSES)
    with pytest.raises(ParameterError, match=r"objective must be .*object of the class, SomeClass"):
        kind(n_estimators=2, objective=SomeClass).fit(X, CLASSES)


def test_params_are_mappings() -> None:
    calls: list[Callable[..., Any]] = [
        lambda name, value: hedgerow.estimate_memory(X, params=value),
        *(
            lambda name, value, function=function: function(value)
            for function in (hedgerow.from_lightgbm_params, hedgerow.from_xgboost_params)
        ),
    ]
    for call in calls:
        assert faults(call, ["params"]) == {}


def test_plots_say_what_they_draw() -> None:
    pytest.importorskip("matplotlib")
    from hedgerow import plot

    for wrong in (_booster(), X, None):
        with pytest.raises(DataTypeError, match="explanation must be the result of explain"):
            plot.plot_beeswarm(wrong)
    for draw in (plot.plot_tree, plot.tree_text, plot.plot_history):
        with pytest.raises(
            DataTypeError, match=r"model must be a Booster, a fitted estimator or a"
        ):
            draw(X)


def test_lists_of_metrics() -> None:
    def fit_with_list(name: str, value: Any) -> None:
        HedgerowRegressor(n_estimators=2, **{name: ["mae", value]}).fit(X, Y)

    assert faults(fit_with_list, ["eval_metric"]) == {}


def test_seeds_of_samples() -> None:
    found = HedgerowRegressor(n_estimators=2, objective="normal").fit(X, Y).predict_distribution(X)
    assert faults(lambda name, value: found.sample(2, **{name: value}), ["random_state"]) == {}
    assert found.sample(2, random_state=np.random.default_rng(1)).shape == (60, 2)


def test_a_structured_array_is_given_as_columns() -> None:
    rows = np.array([(1.0, 2)] * 5, dtype=[("a", "f8"), ("b", "i4")])
    with pytest.raises(DataError, match=r"structured array of the fields a, b: .*DataFrame\(X\)"):
        HedgerowRegressor().fit(rows, np.arange(5))
