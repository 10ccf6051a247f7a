"""Unknown names: one error lists all of them, and suggests the right ones."""

from __future__ import annotations

import dataclasses
import inspect
import operator
import pickle
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import hedgerow
from hedgerow import CARTClassifier, HedgerowClassifier, HedgerowRanker, HedgerowRegressor, peers
from hedgerow.convert.settings.lightgbm import LIGHTGBM
from hedgerow.convert.settings.names import name_hint
from hedgerow.convert.settings.rules import Library
from hedgerow.convert.settings.xgboost import XGBOOST
from hedgerow.errors import AbsentAttributeError
from hedgerow.objectives import OBJECTIVES
from hedgerow.peers import CATBOOST_OBJECTIVES, LIGHTGBM_OBJECTIVES, XGBOOST_OBJECTIVES

X = np.linspace(0.0, 1.0, 60).reshape(30, 2)
Y = X[:, 0]
DATA = hedgerow.Dataset(X, Y)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: HedgerowRegressor(num_leaves=3, bagging_fraction=0.5),
            ["'num_leaves' is 'max_leaves'", "'bagging_fraction' is 'subsample'"],
        ),
        (
            lambda: HedgerowClassifier(eta=0.1),
            ["XGBoost's 'eta'|LightGBM's 'eta'", "learning_rate"],
        ),
        (lambda: HedgerowRanker(max_leafs=3), ["Did you mean 'max_leaves'"]),
        (lambda: CARTClassifier(min_samples_lea=3), ["Did you mean 'min_samples_leaf'"]),
        (
            lambda: HedgerowRegressor().set_params(num_leaves=3, eta=1),
            ["'num_leaves' is 'max_leaves'", "'eta' is 'learning_rate'"],
        ),
        (
            lambda: HedgerowRegressor().fit(X, Y, eval_set=[(X, Y)], early_stopping_rounds=5),
            ["X_val and y_val", "patience"],
        ),
        (lambda: HedgerowRegressor().fit(X, Y, max_leaves=5), ["parameter of the constructor"]),
        (lambda: HedgerowRanker().fit(X, Y, group=[15, 15]), ["give qid"]),
        (
            lambda: hedgerow.train({"num_leaves": 3, "eta": 1}, DATA),
            ["'num_leaves' is 'max_leaves'", "'eta' is 'learning_rate'"],
        ),
    ],
)
def test_all_wrong_names_in_one_error(call: Callable[[], Any], words: list[str]) -> None:
    with pytest.raises(hedgerow.ParameterError) as found:
        call()
    for word in words:
        assert any(part in str(found.value) for part in word.split("|"))


NAMES_OF_PEERS = {
    "sampling_method": "'sampling'",
    "data_sample_strategy": "'sampling'",
    "top_rate": "'goss_top_rate'",
    "other_rate": "'goss_other_rate'",
    "linear_tree": "'linear_leaves'",
    "feature_contri": "feature_penalties",
    "tweedie_variance_power": "'tweedie_power'",
    "n_iter_no_change": "'patience'",
    "tol": "'min_delta'",
    "max_iter": "'n_estimators'",
    "max_leaf_nodes": "'max_leaves'",
    "l2_regularization": "'reg_lambda'",
    "monotonic_cst": "'monotone_constraints'",
    "verbose": "progress=True",
    "groups": "pass them to fit",
    "group": "qid, the query of each row",
}


@pytest.mark.parametrize("library", [LIGHTGBM, XGBOOST], ids=lambda each: each.name)
@pytest.mark.parametrize("estimator", [HedgerowRegressor, HedgerowClassifier, HedgerowRanker])
def test_every_parameter_of_a_peer_has_its_hint(
    library: Library, estimator: type[HedgerowRegressor]
) -> None:
    known = [each.name for each in dataclasses.fields(estimator) if each.init]
    for name in (*library.rules, *library.aliases):
        if name not in known:
            hint = name_hint(name, known)
            assert "'s '" in hint or "In place of" in hint, (name, hint)


def test_a_number_of_rounds_as_early_stopping_points_to_patience() -> None:
    with pytest.raises(hedgerow.ParameterError, match=r"rounds without improvement is patience"):
        HedgerowRegressor(early_stopping=10).fit(X, Y)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NAMES_OF_PEERS)
def test_errors_name_the_parameter_that_is_meant(name: str) -> None:
    for call in (lambda: HedgerowRegressor(**{name: 1}), lambda: hedgerow.train({name: 1}, DATA)):
        with pytest.raises(hedgerow.ParameterError) as found:
            call()
        assert NAMES_OF_PEERS[name] in str(found.value), str(found.value)


def test_unknown_categories_are_a_matter_of_datasets_and_estimators() -> None:
    with pytest.raises(hedgerow.ParameterError, match="is 'unknown_category' here"):
        HedgerowRegressor(handle_unknown="error")  # type: ignore[call-arg]
    with pytest.raises(hedgerow.ParameterError, match="unknown_category of Dataset"):
        hedgerow.train({"handle_unknown": "error"}, DATA)


ESTIMATORS = (HedgerowRegressor, HedgerowClassifier, HedgerowRanker)
KNOWN = {name for estimator in ESTIMATORS for name in estimator._objectives}


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        (name, ours)
        for table in (LIGHTGBM_OBJECTIVES, XGBOOST_OBJECTIVES, CATBOOST_OBJECTIVES)
        for name, ours in table.items()
        if name not in KNOWN
    ],
)
def test_objectives_of_peers_are_named(name: str, ours: str) -> None:
    assert ours in OBJECTIVES
    for estimator in ESTIMATORS:
        with pytest.raises(hedgerow.ParameterError, match="must be one of") as found:
            estimator(objective=name).fit(X, Y)
        if ours in estimator._objectives:
            assert f"{name!r} is {ours!r} here" in str(found.value)
    with pytest.raises(hedgerow.ParameterError):
        hedgerow.train({"objective": name}, DATA)


def test_subclasses_with_names_of_their_own() -> None:
    class Ours(HedgerowRegressor):
        def __init__(self, *, extra: int = 1, n_estimators: int = 5) -> None:
            super().__init__(n_estimators=n_estimators)
            self.extra = extra

    class AnyKeywords(HedgerowRegressor):
        def __init__(self, **params: Any) -> None:
            super().__init__(**params)

    assert clone(Ours(extra=3)).extra == 3
    assert AnyKeywords(max_leaves=3).max_leaves == 3
    with pytest.raises(TypeError, match="Ours has no parameter 'max_leaves'"):
        Ours(max_leaves=3)  # type: ignore[call-arg]


def test_subclasses_have_the_signature_of_their_constructor() -> None:
    """Old versions of ``inspect`` prefer an inherited ``__new__``."""

    class Plain(HedgerowRegressor):
        pass

    class Own(HedgerowRegressor):
        def __init__(self, depth: int = 3) -> None:
            super().__init__(max_depth=depth)

    assert inspect.signature(Plain) == inspect.signature(HedgerowRegressor)
    assert list(inspect.signature(Own).parameters) == ["depth"]


REGRESSOR = HedgerowRegressor(n_estimators=2).fit(X, Y)
CLASSIFIER = HedgerowClassifier(n_estimators=2).fit(X, Y > 0.5)
FUNCTIONS: dict[str, tuple[Callable[..., Any], dict[str, str]]] = {
    "train": (lambda **more: hedgerow.train({}, DATA, **more), peers.OF_TRAIN),
    "cv": (lambda **more: hedgerow.cv({}, DATA, **more), peers.OF_CV),
    "Dataset": (lambda **more: hedgerow.Dataset(X, Y, **more), peers.OF_DATASET),
    "Booster.predict": (lambda **more: REGRESSOR.booster_.predict(X, **more), peers.OF_PREDICT),
    "HedgerowRegressor.predict": (
        lambda **more: REGRESSOR.predict(X, **more),
        peers.OF_ESTIMATORS_PREDICT,
    ),
    "HedgerowClassifier.predict_proba": (
        lambda **more: CLASSIFIER.predict_proba(X, **more),
        peers.OF_ESTIMATORS_PREDICT,
    ),
    "HedgerowRanker.predict": (
        lambda **more: HedgerowRanker().predict(X, **more),
        peers.OF_ESTIMATORS_PREDICT,
    ),
    "feature_importance": (
        lambda **more: REGRESSOR.booster_.feature_importance(**more),
        peers.OF_IMPORTANCE,
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_arguments_of_peers_get_advice(name: str) -> None:
    call, replacements = FUNCTIONS[name]
    for argument, what in replacements.items():
        with pytest.raises(hedgerow.UnknownNameError) as found:
            call(**{argument: 1})
        assert f"has no argument {argument!r}. {peers.advice(argument, what)}" in str(found.value)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: hedgerow.train({}, DATA, init_modl=1), "Did you mean 'init_model'"),
        (lambda: hedgerow.train({}, DATA, max_leaves=3), "belong in params"),
        (lambda: hedgerow.cv({}, DATA, nfold=3, seed=1), "'nfold', give folds. In place of 'seed'"),
        (lambda: hedgerow.Dataset(X, ofset=Y), "Did you mean 'offset'"),
        (lambda: REGRESSOR.booster_.predict(X, knd="raw"), "Did you mean 'kind'"),
        (lambda: CLASSIFIER.predict(X, ofset=Y), "Did you mean 'offset'"),
    ],
)
def test_advice_for_other_arguments(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(TypeError, match=words):
        call()


@pytest.mark.parametrize(
    ("model", "names"),
    [
        (REGRESSOR.booster_, peers.OF_BOOSTER),
        (REGRESSOR, peers.OF_ESTIMATORS),
        (CLASSIFIER, peers.OF_ESTIMATORS),
    ],
)
def test_attributes_of_peers_get_advice(model: Any, names: dict[str, str]) -> None:
    """What is advised exists, and what exists here needs no advice."""
    for name, ours in names.items():
        assert not hasattr(model, name)
        with pytest.raises(AbsentAttributeError) as found:
            getattr(model, name)
        assert peers.advice(name, ours) in str(found.value)
        for path in re.findall(r"(?:call|read|or) ([a-z][\w.]*\w)", ours):
            owner = hedgerow if path.startswith("hedgerow.") else model
            operator.attrgetter(path.removeprefix("hedgerow."))(owner)
    assert pickle.loads(pickle.dumps(model)).predict(X).shape == (30,)
    with pytest.raises(AttributeError, match=r"has no attribute 'nothing'$"):
        _ = model.nothing


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("device", "gpu", "In place of 'gpu', give 'cuda'"),
        ("boosting", "gbtree", "give 'gbdt'"),
        ("grow_policy", "SymmetricTree", "give 'symmetric'"),
        ("tree_method", "gpu_hist", "give 'hist'"),
        ("device", "cda", "Did you mean 'cuda'"),
    ],
)
def test_values_of_peers_get_advice(name: str, value: str, words: str) -> None:
    for call in (
        lambda: HedgerowRegressor(**{name: value}).fit(X, Y),
        lambda: hedgerow.train({name: value}, DATA),
    ):
        with pytest.raises(hedgerow.ParameterError, match=words):
            call()


def test_a_dict_of_another_library_is_sent_to_its_translation() -> None:
    lightgbm = {"num_leaves": 3, "bagging_fraction": 0.5, "lambda_l2": 1.0}
    xgboost = {"eta": 0.1, "colsample_bytree": 0.5, "min_split_loss": 1.0}
    for call in (
        lambda params: hedgerow.train(params, DATA),
        lambda params: HedgerowRegressor(**params),
        lambda params: HedgerowRegressor().set_params(**params),
    ):
        for params, name in ((lightgbm, "from_lightgbm_params"), (xgboost, "from_xgboost_params")):
            with pytest.raises(hedgerow.ParameterError, match=f"{name}.* translates"):
                call(params)
    with pytest.raises(hedgerow.ParameterError) as found:
        HedgerowRegressor(num_leaves=3)
    assert "from_lightgbm_params" not in str(found.value)


def test_what_is_advised_exists() -> None:
    assert hasattr(REGRESSOR.booster_, "evals_result")
    for function, names in {
        hedgerow.train: ("valid", "init_model", "dataset", "progress"),
        hedgerow.cv: ("folds", "keep_models", "dataset"),
        hedgerow.Dataset: ("X", "y", "weight", "qid", "offset", "feature_names"),
    }.items():
        assert set(names) <= set(inspect.signature(function).parameters)


@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
@pytest.mark.parametrize("listed", [False, True])
def test_callbacks_of_peers_are_named(library: str, listed: bool) -> None:
    module = pytest.importorskip(f"{library}.callback")
    peer = module.early_stopping(3) if library == "lightgbm" else module.EarlyStopping(rounds=3)
    callbacks = [peer] if listed else peer
    words = f"of {library}.*patience"
    with pytest.raises(hedgerow.ParameterError, match=words):
        HedgerowRegressor(n_estimators=2, callbacks=callbacks).fit(X, Y)
    with pytest.raises(hedgerow.ParameterError, match=words):
        hedgerow.train({"n_estimators": 2}, DATA, callbacks=callbacks)
