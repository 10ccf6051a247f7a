"""Fit each library with its defaults on the same frame of numbers and text.

The time of a library includes the conversion of the frame (codes, dtypes, pools).  The name of a
model is ``library`` or ``library{"parameter": value}``; the second form serves to choose defaults.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
from argparse import ArgumentTypeError
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from tables import Problem
from threadpoolctl import threadpool_limits

THREADS = 2
Predict = Callable[[pd.DataFrame], np.ndarray]


def category_encoder(
    problem: Problem, max_levels: int | None = None
) -> Callable[[pd.DataFrame], Any]:
    """Return a function that gives frames pandas categories with the levels of the training rows.

    It turns columns of more than ``max_levels`` levels into numbers.
    """
    levels = {name: np.unique(problem.X[name].dropna()) for name in problem.categories}

    def convert(frame: pd.DataFrame) -> pd.DataFrame:
        typed = {name: pd.Categorical(frame[name], categories=levels[name]) for name in levels}
        for name in levels:
            if max_levels is not None and len(levels[name]) > max_levels:
                codes = typed[name].codes.astype(np.float64)
                typed[name] = np.where(codes < 0, np.nan, codes)
        return frame.assign(**typed)

    return convert


def prediction_method(model: Any, task: str) -> Predict:
    return model.predict if task == "regression" else model.predict_proba


def fit_hedgerow(problem: Problem, parameters: dict[str, Any], n_threads: int = THREADS) -> Predict:
    import hedgerow

    regression = problem.task == "regression"
    estimator_class = hedgerow.HedgerowRegressor if regression else hedgerow.HedgerowClassifier
    given = {"categorical_features": problem.categories, "n_jobs": n_threads, "random_state": 0}
    model = estimator_class(**{**given, **parameters}).fit(problem.X, problem.y)
    return prediction_method(model, problem.task)


def fit_lightgbm(problem: Problem, parameters: dict[str, Any], n_threads: int = THREADS) -> Predict:
    import lightgbm

    regression = problem.task == "regression"
    estimator_class = lightgbm.LGBMRegressor if regression else lightgbm.LGBMClassifier
    convert = category_encoder(problem)
    model = estimator_class(n_jobs=n_threads, random_state=0, verbosity=-1, **parameters)
    X = convert(problem.X)
    X.columns = [f"c{i}" for i in range(X.shape[1])]  # LightGBM rejects punctuation
    model.fit(X, problem.y)
    predict = prediction_method(model, problem.task)
    return lambda frame: predict(convert(frame).set_axis(X.columns, axis=1))


def fit_xgboost(problem: Problem, parameters: dict[str, Any], n_threads: int = THREADS) -> Predict:
    import xgboost

    regression = problem.task == "regression"
    estimator_class = xgboost.XGBRegressor if regression else xgboost.XGBClassifier
    convert = category_encoder(problem)
    model = estimator_class(n_jobs=n_threads, random_state=0, enable_categorical=True, **parameters)
    X = convert(problem.X)
    X.columns = [f"c{i}" for i in range(X.shape[1])]
    model.fit(X, problem.y)
    predict = prediction_method(model, problem.task)
    return lambda frame: predict(convert(frame).set_axis(X.columns, axis=1))


def fit_hgb(problem: Problem, parameters: dict[str, Any], n_threads: int = THREADS) -> Predict:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    regression = problem.task == "regression"
    estimator_class = (
        HistGradientBoostingRegressor if regression else HistGradientBoostingClassifier
    )
    convert = category_encoder(problem, max_levels=255)
    model = estimator_class(random_state=0, **parameters)
    with threadpool_limits(n_threads, "openmp"):
        model.fit(convert(problem.X), problem.y)
    predict = prediction_method(model, problem.task)
    return lambda frame: predict(convert(frame))


def fit_catboost(problem: Problem, parameters: dict[str, Any], n_threads: int = THREADS) -> Predict:
    import catboost

    regression = problem.task == "regression"
    estimator_class = catboost.CatBoostRegressor if regression else catboost.CatBoostClassifier
    given = {"thread_count": n_threads, "random_seed": 0, "verbose": False, **parameters}
    model = estimator_class(**given, allow_writing_files=False)

    def convert(frame: pd.DataFrame) -> pd.DataFrame:
        return frame.assign(**{name: frame[name].fillna("missing") for name in problem.categories})

    model.fit(convert(problem.X), problem.y, cat_features=problem.categories)
    predict = prediction_method(model, problem.task)
    return lambda frame: predict(convert(frame))


def fit_chimeraboost(
    problem: Problem, parameters: dict[str, Any], n_threads: int = THREADS
) -> Predict:
    import chimeraboost

    regression = problem.task == "regression"
    estimator_class = (
        chimeraboost.ChimeraBoostRegressor if regression else chimeraboost.ChimeraBoostClassifier
    )
    model = estimator_class(**{"thread_count": n_threads, "random_state": 0, **parameters})
    model.fit(problem.X, problem.y, cat_features=problem.categories)
    return prediction_method(model, problem.task)


def fit_hessboost(
    problem: Problem, parameters: dict[str, Any], n_threads: int = THREADS
) -> Predict:
    import hessboost

    objectives: dict[str, dict[str, Any]] = {
        "regression": {"objective": "reg:squarederror"},
        "binary": {"objective": "binary:logistic"},
        "multiclass": {"objective": "multi:softprob", "num_class": len(np.unique(problem.y))},
    }
    convert = category_encoder(problem)
    given = {**objectives[problem.task], "nthread": n_threads, "seed": 0, **parameters}
    n_rounds = given.pop("n_estimators", 100)  # as the estimators of XGBoost
    data = hessboost.DMatrix(convert(problem.X), problem.y)
    model = hessboost.train(given, data, n_rounds, verbose_eval=False)

    def predict(frame: pd.DataFrame) -> np.ndarray:
        found = np.asarray(model.predict(hessboost.DMatrix(convert(frame))))
        return np.column_stack([1.0 - found, found]) if problem.task == "binary" else found

    return predict


def fit_bonsai(problem: Problem, parameters: dict[str, Any], n_threads: int = THREADS) -> Predict:
    import bonsai

    # It has no categories: texts become means of the target with its own encoder, which knows two
    # classes and numbers; of more classes, codes.
    regression, is_coded = problem.task == "regression", bool(problem.categories)
    convert = category_encoder(problem, max_levels=0)
    X = convert(problem.X).to_numpy(np.float32)
    places = [problem.X.columns.get_loc(name) for name in problem.categories]
    encoder = None
    if is_coded and problem.task != "multiclass":
        encoder = bonsai.OrderedTargetEncoder(places)
        X = encoder.fit_transform(X, problem.y.astype(np.float32))
    estimator_class = bonsai.BonsaiRegressor if regression else bonsai.BonsaiClassifier
    model = estimator_class(**{"n_threads": n_threads, "random_seed": 0, **parameters})
    predict = prediction_method(model.fit(X, problem.y), problem.task)

    def of_frame(frame: pd.DataFrame) -> np.ndarray:
        rows = convert(frame).to_numpy(np.float32)
        return predict(rows if encoder is None else encoder.transform(rows))

    return of_frame


def fit_perpetual(
    problem: Problem, parameters: dict[str, Any], n_threads: int = THREADS
) -> Predict:
    import perpetual

    regression = problem.task == "regression"
    estimator_class = perpetual.PerpetualRegressor if regression else perpetual.PerpetualClassifier
    convert = category_encoder(problem)
    model = estimator_class(**{"num_threads": n_threads, **parameters})
    model.fit(convert(problem.X), problem.y)
    predict = prediction_method(model, problem.task)
    return lambda frame: predict(convert(frame))


LIBRARIES: dict[str, tuple[Callable[..., Predict], str]] = {
    "hedgerow": (fit_hedgerow, "hedgerow"),
    "lightgbm": (fit_lightgbm, "lightgbm"),
    "xgboost": (fit_xgboost, "xgboost-cpu"),
    "hgb": (fit_hgb, "scikit-learn"),
    "catboost": (fit_catboost, "catboost"),
    "chimeraboost": (fit_chimeraboost, "chimeraboost"),
    "hessboost": (fit_hessboost, "hessboost"),
    "bonsai": (fit_bonsai, "bonsai-gbt"),
    "perpetual": (fit_perpetual, "perpetual"),
}
DEFAULT_LIBRARIES = ("hedgerow", "lightgbm", "xgboost", "hgb", "catboost")
"""The libraries that are compared by default."""


def parse(name: str) -> tuple[str, dict[str, Any]]:
    """Return the library and the parameters that a model's name gives."""
    match = re.fullmatch(r"(\w+)(\{.*\})?", name)
    if match is None or match[1] not in LIBRARIES:
        raise ArgumentTypeError(
            f"unknown model {name!r}; a model is one of {', '.join(LIBRARIES)}, "
            "and may have parameters as JSON"
        )
    return match[1], json.loads(match[2]) if match[2] else {}


def check_name(name: str) -> str:
    """Return the name of a model if :func:`parse` accepts it (a ``type`` for ``argparse``)."""
    parse(name)
    return name


def fit(name: str, problem: Problem, n_threads: int = THREADS) -> Predict:
    """Fit the model called ``name``."""
    library, parameters = parse(name)
    return LIBRARIES[library][0](problem, parameters, n_threads)


def get_version(name: str) -> str:
    """Return the library's version; for Hedgerow, also a digest of the code."""
    library, _ = parse(name)
    if library != "hedgerow":
        return version(LIBRARIES[library][1])
    return _hedgerow_version()


@cache
def _hedgerow_version() -> str:
    import hedgerow

    digest = hashlib.sha256()
    folder = Path(hedgerow.__file__).parent
    for path in sorted(folder.rglob("*.py")):
        if path.parent.name not in ("cli", "plot", "report", "io", "distributed"):
            digest.update(_strip_docstrings(path).encode())
    return f"{hedgerow.__version__}+{digest.hexdigest()[:10]}"


def _strip_docstrings(path: Path) -> str:
    """Return a source without comments and docstrings: no result depends on these."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            node.body = [statement for statement in node.body if not _is_docstring(statement)]
    return ast.unparse(tree)


def _is_docstring(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Constant):
        return False
    return isinstance(statement.value.value, str)
