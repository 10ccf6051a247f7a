"""The libraries, each at its defaults, on the same frame of numbers and text.

What a library does with the frame (codes, dtypes, pools) is part of its time.  A model is
named ``library`` or ``library{"parameter": value}``: the latter serves to choose defaults.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from tables import Problem
from threadpoolctl import threadpool_limits

THREADS = 2
Predict = Callable[[pd.DataFrame], np.ndarray]


def _as_categories(problem: Problem, most: int | None = None) -> Callable[[pd.DataFrame], Any]:
    """Frames with pandas categories whose levels are those of the training rows.

    Columns of more than ``most`` levels become numbers.
    """
    levels = {name: np.unique(problem.X[name].dropna()) for name in problem.categories}

    def convert(frame: pd.DataFrame) -> pd.DataFrame:
        typed = {name: pd.Categorical(frame[name], categories=levels[name]) for name in levels}
        for name in levels:
            if most is not None and len(levels[name]) > most:
                codes = typed[name].codes.astype(np.float64)
                typed[name] = np.where(codes < 0, np.nan, codes)
        return frame.assign(**typed)

    return convert


def _predict(model: Any, task: str) -> Predict:
    return model.predict if task == "regression" else model.predict_proba


def _hedgerow(problem: Problem, parameters: dict[str, Any], n_threads: int = THREADS) -> Predict:
    import hedgerow

    regression = problem.task == "regression"
    kind = hedgerow.HedgerowRegressor if regression else hedgerow.HedgerowClassifier
    given = {"categorical_features": problem.categories, "n_jobs": n_threads, "random_state": 0}
    model = kind(**{**given, **parameters}).fit(problem.X, problem.y)
    return _predict(model, problem.task)


def _lightgbm(problem: Problem, parameters: dict[str, Any], n_threads: int = THREADS) -> Predict:
    import lightgbm

    regression = problem.task == "regression"
    kind = lightgbm.LGBMRegressor if regression else lightgbm.LGBMClassifier
    convert = _as_categories(problem)
    model = kind(n_jobs=n_threads, random_state=0, verbosity=-1, **parameters)
    X = convert(problem.X)
    X.columns = [f"c{i}" for i in range(X.shape[1])]  # it takes no punctuation
    model.fit(X, problem.y)
    predict = _predict(model, problem.task)
    return lambda frame: predict(convert(frame).set_axis(X.columns, axis=1))


def _xgboost(problem: Problem, parameters: dict[str, Any], n_threads: int = THREADS) -> Predict:
    import xgboost

    regression = problem.task == "regression"
    kind = xgboost.XGBRegressor if regression else xgboost.XGBClassifier
    convert = _as_categories(problem)
    model = kind(n_jobs=n_threads, random_state=0, enable_categorical=True, **parameters)
    X = convert(problem.X)
    X.columns = [f"c{i}" for i in range(X.shape[1])]
    model.fit(X, problem.y)
    predict = _predict(model, problem.task)
    return lambda frame: predict(convert(frame).set_axis(X.columns, axis=1))


def _hgb(problem: Problem, parameters: dict[str, Any], n_threads: int = THREADS) -> Predict:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    regression = problem.task == "regression"
    kind = HistGradientBoostingRegressor if regression else HistGradientBoostingClassifier
    convert = _as_categories(problem, most=255)
    model = kind(random_state=0, **parameters)
    with threadpool_limits(n_threads, "openmp"):
        model.fit(convert(problem.X), problem.y)
    predict = _predict(model, problem.task)
    return lambda frame: predict(convert(frame))


def _catboost(problem: Problem, parameters: dict[str, Any], n_threads: int = THREADS) -> Predict:
    import catboost

    regression = problem.task == "regression"
    kind = catboost.CatBoostRegressor if regression else catboost.CatBoostClassifier
    given = {"thread_count": n_threads, "random_seed": 0, "verbose": False, **parameters}
    model = kind(**given, allow_writing_files=False)

    def convert(frame: pd.DataFrame) -> pd.DataFrame:
        return frame.assign(**{name: frame[name].fillna("missing") for name in problem.categories})

    model.fit(convert(problem.X), problem.y, cat_features=problem.categories)
    predict = _predict(model, problem.task)
    return lambda frame: predict(convert(frame))


def _chimeraboost(
    problem: Problem, parameters: dict[str, Any], n_threads: int = THREADS
) -> Predict:
    import chimeraboost

    regression = problem.task == "regression"
    kind = chimeraboost.ChimeraBoostRegressor if regression else chimeraboost.ChimeraBoostClassifier
    model = kind(**{"thread_count": n_threads, "random_state": 0, **parameters})
    model.fit(problem.X, problem.y, cat_features=problem.categories)
    return _predict(model, problem.task)


LIBRARIES: dict[str, tuple[Callable[..., Predict], str]] = {
    "hedgerow": (_hedgerow, "hedgerow"),
    "lightgbm": (_lightgbm, "lightgbm"),
    "xgboost": (_xgboost, "xgboost-cpu"),
    "hgb": (_hgb, "scikit-learn"),
    "catboost": (_catboost, "catboost"),
    "chimeraboost": (_chimeraboost, "chimeraboost"),
}
USUAL = tuple(name for name in LIBRARIES if name != "chimeraboost")
"""Those that are compared unless others are named."""


def parse(name: str) -> tuple[str, dict[str, Any]]:
    """Library and parameters of a model's name."""
    library, given = re.fullmatch(r"(\w+)(\{.*\})?", name).groups()  # type: ignore[union-attr]
    if library not in LIBRARIES:
        raise SystemExit(f"no library {library!r}: {', '.join(LIBRARIES)}")
    return library, json.loads(given) if given else {}


def fit(name: str, problem: Problem, n_threads: int = THREADS) -> Predict:
    """Fit the model called ``name``."""
    library, parameters = parse(name)
    return LIBRARIES[library][0](problem, parameters, n_threads)


def version_of(name: str) -> str:
    """What a result depends on: the library's version; of Hedgerow the code's digest too."""
    library, _ = parse(name)
    if library != "hedgerow":
        return version(LIBRARIES[library][1])
    import hedgerow

    digest = hashlib.sha256()
    folder = Path(hedgerow.__file__).parent
    for path in sorted(folder.rglob("*.py")):
        if path.parent.name not in ("cli", "plot", "report", "io", "distributed"):
            digest.update(_code_of(path).encode())
    return f"{hedgerow.__version__}+{digest.hexdigest()[:10]}"


def _code_of(path: Path) -> str:
    """A source without comments and texts about it, on which no result depends."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            node.body = [statement for statement in node.body if not _is_text(statement)]
    return ast.unparse(tree)


def _is_text(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Constant):
        return False
    return isinstance(statement.value.value, str)
