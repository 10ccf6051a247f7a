"""Models of other libraries in memory: ``from_lightgbm``, ``from_xgboost``, and so on."""

from __future__ import annotations

from typing import Any

import numpy as np

from hedgerow.booster import Booster
from hedgerow.convert.meaning import Imported
from hedgerow.convert.objects import (
    read_catboost_model,
    read_lightgbm_model,
    read_sklearn,
    read_xgboost_model,
)


def from_sklearn(model: Any) -> Booster:
    """Make a booster of a fitted model of scikit-learn.

    Parameters
    ----------
    model : fitted estimator
        Decision tree, ExtraTree, RandomForest, ExtraTrees, GradientBoosting or
        HistGradientBoosting, for regression or classification.

    Returns
    -------
    Booster
        Each row reaches the same leaf of each tree, and classes have their labels.

    Raises
    ------
    ParameterError
        If it is of another class, or has what no model here can express.
    NotFittedError
        If it is not fitted.

    Examples
    --------
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> forest = RandomForestRegressor(5, random_state=0).fit([[0.0], [1.0], [2.0]], [0, 1, 4])
    >>> booster = from_sklearn(forest)
    >>> booster.num_trees, bool(booster.predict([[2.0]]) == forest.predict([[2.0]]))
    (5, True)
    """
    return _booster(read_sklearn(model))


def from_lightgbm(model: Any, n_rounds: int | None = None) -> Booster:
    """Make a booster of a model of LightGBM.

    Parameters
    ----------
    model : lightgbm.Booster or fitted estimator of LightGBM
    n_rounds : int, optional
        Rounds to take; by default the best of an early stopping, or all.

    Returns
    -------
    Booster

    Raises
    ------
    ParameterError
        If it is something else.
    ModelFormatError
        If it has what no model here can express; the message names it.
    """
    return _booster(read_lightgbm_model(model, n_rounds))


def from_xgboost(model: Any, n_rounds: int | None = None) -> Booster:
    """Make a booster of a model of XGBoost.

    Parameters
    ----------
    model : xgboost.Booster or fitted estimator of XGBoost
    n_rounds : int, optional
        Rounds to take; by default those that the estimator predicts with, of a booster all.

    Returns
    -------
    Booster

    Raises
    ------
    ParameterError
        If it is something else.
    ModelFormatError
        If it has what no model here can express; the message names it.
    """
    return _booster(read_xgboost_model(model, n_rounds))


def from_catboost(model: Any, pool: Any = None) -> Booster:
    """Make a booster of a model of CatBoost.

    Parameters
    ----------
    model : fitted model of CatBoost
    pool : catboost.Pool, optional
        Training rows: the model knows categories by their hashes alone.

    Returns
    -------
    Booster

    Raises
    ------
    ParameterError
        If it is something else.
    ModelFormatError
        If it has what no model here can express; the message names it.
    """
    return _booster(read_catboost_model(model, pool))


def _booster(found: Imported) -> Booster:
    classes = found.classes
    return Booster(found.model, None if classes is None else np.asarray(classes))


__all__ = ["from_catboost", "from_lightgbm", "from_sklearn", "from_xgboost"]
