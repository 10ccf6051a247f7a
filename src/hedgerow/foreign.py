"""Conversion of models of other libraries in memory: ``from_lightgbm``, ``from_xgboost``, ..."""

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
    """Convert a fitted scikit-learn model to a booster.

    Parameters
    ----------
    model : fitted estimator
        Decision tree, ExtraTree, RandomForest, ExtraTrees, GradientBoosting or
        HistGradientBoosting, for regression or classification.

    Returns
    -------
    Booster
        Each row reaches the same leaf in each tree, and classes keep their labels.

    Raises
    ------
    ParameterError
        If the model has another class, or a property that Hedgerow models lack.
    NotFittedError
        If the model is not fitted.

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
    """Convert a LightGBM model to a booster.

    Parameters
    ----------
    model : lightgbm.Booster or fitted estimator of LightGBM
    n_rounds : int, optional
        Number of rounds to convert; default: the best round of early stopping, or all.

    Returns
    -------
    Booster

    Raises
    ------
    ParameterError
        If ``model`` is something else.
    ModelFormatError
        If the model has a property that Hedgerow models lack; the message names it.
    """
    return _booster(read_lightgbm_model(model, n_rounds))


def from_xgboost(model: Any, n_rounds: int | None = None) -> Booster:
    """Convert an XGBoost model to a booster.

    Parameters
    ----------
    model : xgboost.Booster or fitted estimator of XGBoost
    n_rounds : int, optional
        Number of rounds to convert; default: the rounds that the estimator predicts with; for
        a booster all rounds.

    Returns
    -------
    Booster

    Raises
    ------
    ParameterError
        If ``model`` is something else.
    ModelFormatError
        If the model has a property that Hedgerow models lack; the message names it.
    """
    return _booster(read_xgboost_model(model, n_rounds))


def from_catboost(model: Any, pool: Any = None) -> Booster:
    """Convert a CatBoost model to a booster.

    Parameters
    ----------
    model : fitted model of CatBoost
    pool : catboost.Pool, optional
        Training rows, because the model stores only hashes of categories.

    Returns
    -------
    Booster

    Raises
    ------
    ParameterError
        If ``model`` is something else.
    ModelFormatError
        If the model has a property that Hedgerow models lack; the message names it.
    """
    return _booster(read_catboost_model(model, pool))


def _booster(found: Imported) -> Booster:
    classes = found.classes
    return Booster(found.model, None if classes is None else np.asarray(classes))


__all__ = ["from_catboost", "from_lightgbm", "from_sklearn", "from_xgboost"]
