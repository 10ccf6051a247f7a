"""Conversion of models of other libraries in memory: ``from_lightgbm``, ``from_xgboost``, ..."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np

from hedgerow.booster import Booster, objective_of
from hedgerow.convert.meaning import Imported
from hedgerow.errors import ParameterError, brief
from hedgerow.params import Interval


def from_lightgbm(model: Any, n_rounds: int | None = None) -> Booster:
    """Convert a LightGBM model to a booster.

    Parameters
    ----------
    model : lightgbm.Booster or fitted estimator of LightGBM
    n_rounds : int, optional
        Number of rounds to convert, at least 1; default: the best round of early stopping, or
        all.

    Returns
    -------
    Booster

    Raises
    ------
    ParameterError
        If ``model`` is something else, or has fewer than ``n_rounds`` rounds.
    ModelFormatError
        If the model has a property that Hedgerow models lack; the message names it.
    """
    from hedgerow.convert.readers.lightgbm import read_lightgbm
    from hedgerow.convert.reading import warn_of_classes

    booster = getattr(model, "booster_", model)
    if not hasattr(booster, "model_to_string"):
        raise ParameterError(f"model must be a model of LightGBM; got a {type(model).__name__}.")
    if n_rounds is not None:  # LightGBM takes 0 and negative numbers for all rounds
        n_rounds = _checked_rounds(n_rounds, booster.current_iteration())
    found = read_lightgbm(booster.model_to_string(num_iteration=n_rounds).encode())
    converted = _booster(found, model)
    if booster is model:
        warn_of_classes(found.model)
    return converted


def from_xgboost(model: Any, n_rounds: int | None = None) -> Booster:
    """Convert an XGBoost model to a :class:`hedgerow.Booster`.

    Parameters
    ----------
    model : xgboost.Booster or fitted estimator of XGBoost
    n_rounds : int, optional
        Number of rounds to convert, at least 1; default: the rounds that the estimator predicts
        with; for a booster all rounds.

    Raises
    ------
    ParameterError, ModelFormatError
        As for :func:`from_lightgbm`.
    """
    from hedgerow.convert.readers import ubjson, xgboost
    from hedgerow.convert.reading import warn_of_classes

    booster = model.get_booster() if hasattr(model, "get_booster") else model
    if not hasattr(booster, "save_raw"):
        raise ParameterError(f"model must be a model of XGBoost; got a {type(model).__name__}.")
    best = booster.attributes().get("best_iteration") if booster is not model else None
    if n_rounds is None and best is not None:
        n_rounds = int(best) + 1
    found = xgboost.read_record(ubjson.decode(bytes(booster.save_raw("ubj"))))
    if n_rounds is not None:  # a slice of XGBoost's booster would lose the categories
        forest = found.model.forest
        forest = forest.first_rounds(_checked_rounds(n_rounds, forest.n_rounds))
        found = replace(found, model=replace(found.model, forest=forest))
    converted = _booster(found, model)
    if booster is model:
        warn_of_classes(found.model)
    return converted


def from_catboost(model: Any, pool: Any = None) -> Booster:
    """Convert a CatBoost model to a :class:`hedgerow.Booster`.

    Parameters
    ----------
    model : fitted model of CatBoost
    pool : catboost.Pool, optional
        Training rows, because the model stores only hashes of categories.

    Raises
    ------
    ParameterError, ModelFormatError
        As for :func:`from_lightgbm`.
    """
    import tempfile

    from hedgerow.convert.reading import read_json

    if not hasattr(model, "save_model") or not hasattr(model, "get_scale_and_bias"):
        raise ParameterError(f"model must be a model of CatBoost; got a {type(model).__name__}.")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.json")
        model.save_model(path, format="json", pool=pool)
        with open(path, "rb") as file:
            data = file.read()
    return _booster(read_json(data), model)


def _checked_rounds(n_rounds: Any, most: int) -> int:
    """Return the number of rounds to convert, or raise ``ParameterError``."""
    if n_rounds not in Interval(1, most, integer=True):
        raise ParameterError(
            f"n_rounds must be an integer from 1 to {most}, the rounds of the model; "
            f"got {brief(n_rounds)}."
        )
    return int(n_rounds)


def _booster(found: Imported, model: Any) -> Booster:
    """Return the booster, with the labels of the estimator if the file does not contain them."""
    from hedgerow.boosting.row_data.classes import n_classes_of

    classes = getattr(model, "classes_", None)
    if classes is None or found.classes is not None:
        classes = found.classes
    elif n_classes_of(objective_of(found.model)) != len(classes):
        classes = None
    return Booster(found.model, None if classes is None else np.asarray(classes))
