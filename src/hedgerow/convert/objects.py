"""Fitted models of other libraries in memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hedgerow.convert.meaning import Imported
from hedgerow.errors import ParameterError


def read_sklearn(model: Any) -> Imported:
    """Read a fitted model of scikit-learn.

    Raises
    ------
    ParameterError
        If the class cannot be imported, or the model has a feature that Hedgerow does not have.
    NotFittedError
        If the model is not fitted.
    """
    from sklearn.utils.validation import check_is_fitted

    from hedgerow.convert.readers.sklearn_hist import HIST, read_hist
    from hedgerow.convert.readers.sklearn_trees import (
        BOOSTED,
        FORESTS,
        TREES,
        read_boosted,
        read_tree_model,
    )

    name, module = type(model).__name__, type(model).__module__
    readers = {
        **dict.fromkeys(HIST, read_hist),
        **dict.fromkeys(BOOSTED, read_boosted),
        **dict.fromkeys(TREES | FORESTS, read_tree_model),
    }
    if name not in readers or not module.startswith("sklearn."):
        known = ", ".join(sorted(readers))
        raise ParameterError(f"a {module}.{name} cannot be imported; supported are {known}.")
    check_is_fitted(model)
    return readers[name](model)


def read_lightgbm_model(model: Any, n_rounds: int | None = None) -> Imported:
    """Read a ``lightgbm.Booster`` or a fitted estimator of LightGBM.

    ``n_rounds=None`` reads the rounds up to the best round of early stopping, or all rounds.
    """
    from hedgerow.convert.readers.lightgbm import read_lightgbm

    booster = getattr(model, "booster_", model)
    if not hasattr(booster, "model_to_string"):
        raise ParameterError(f"model must be a model of LightGBM; got a {type(model).__name__}.")
    found = read_lightgbm(booster.model_to_string(num_iteration=n_rounds).encode())
    return _with_classes(found, model)


def read_xgboost_model(model: Any, n_rounds: int | None = None) -> Imported:
    """Read an ``xgboost.Booster`` or a fitted estimator of XGBoost.

    For an estimator, ``n_rounds=None`` reads the rounds that its predictions use.
    """
    from hedgerow.convert.readers.xgboost import read_ubjson

    booster = model.get_booster() if hasattr(model, "get_booster") else model
    if not hasattr(booster, "save_raw"):
        raise ParameterError(f"model must be a model of XGBoost; got a {type(model).__name__}.")
    best = booster.attributes().get("best_iteration") if booster is not model else None
    if n_rounds is None and best is not None:
        n_rounds = int(best) + 1
    if n_rounds is not None:
        booster = booster[:n_rounds]
    return _with_classes(read_ubjson(bytes(booster.save_raw("ubj"))), model)


def read_catboost_model(model: Any, pool: Any = None) -> Imported:
    """Read a fitted model of CatBoost; ``pool`` has the categories, if there are any."""
    from hedgerow.convert.readers.json_files import read_json
    from hedgerow.data.external.scratch import scratch_folder

    if not hasattr(model, "save_model") or not hasattr(model, "get_scale_and_bias"):
        raise ParameterError(f"model must be a model of CatBoost; got a {type(model).__name__}.")
    with scratch_folder() as folder:
        path = str(folder / "model.json")
        model.save_model(path, format="json", pool=pool)
        with open(path, "rb") as file:
            data = file.read()
    return _with_classes(read_json(data), model)


def _with_classes(found: Imported, model: Any) -> Imported:
    """Add the labels of an estimator, if the file does not contain them."""
    from hedgerow.boosting.row_data.classes import n_classes_of
    from hedgerow.objectives import objective_of_record

    classes = getattr(model, "classes_", None)
    if classes is None or found.classes is not None:
        return found
    model_here = found.model
    n_outputs = model_here.forest.n_outputs
    expected = n_classes_of(
        objective_of_record(model_here.objective, n_outputs, model_here.training)
    )
    return replace(found, classes=classes) if expected == len(classes) else found
