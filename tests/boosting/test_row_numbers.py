"""Errors name a row by the user's own number, and the set that holds it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hedgerow import Dataset, HedgerowRegressor, cross_fit, cv, train
from hedgerow.errors import HedgerowError
from tests.helpers.rank_trainings import cut, train_ranks

N, BAD = 200, 120
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(N, 2))
GOOD = np.abs(RANDOM.normal(size=N)) + 0.1
WRONG = np.where(np.arange(N) == BAD, -1.0, GOOD)
SEED = 0
"""A seed that holds the bad row out."""

WEIGHT = np.ones(N)
WEIGHT[[1, 3, 50]] = 0.0
"""Three rows before the bad one are left out."""


def own_loss(y: Any, raw: Any) -> tuple[Any, Any]:
    return np.where(y < 0, np.nan, raw - y), np.ones_like(raw)


def fit(valid: Any = None, **params: Any) -> Any:
    y = WRONG if valid is None else GOOD
    early = {} if "early_stopping" in params else {"n_estimators": 3}
    return train(early | params, Dataset(X, y, WEIGHT), valid)


def regressor(**params: Any) -> HedgerowRegressor:
    return HedgerowRegressor(objective="poisson", n_estimators=3, **params)


ROWS = Dataset(X, WRONG, WEIGHT)
DEVIANCE = {"objective": "squared_error", "eval_metric": "gamma_deviance"}
OF_B = {"a": Dataset(X, GOOD, WEIGHT), "b": ROWS}
POISSON = {"objective": "poisson"}

CASES: dict[str, tuple[Callable[[], Any], str]] = {
    "training rows": (lambda: fit(**POISSON), "row 120 holds"),
    "folds": (lambda: fit(**POISSON, early_stopping="cv"), "; row 120 holds"),
    "hold-out": (
        lambda: fit(**DEVIANCE, early_stopping=True, validation_fraction=0.5, seed=SEED),
        "row 120 has",
    ),
    "metric of folds": (lambda: fit(**DEVIANCE, early_stopping="cv"), ", but row 120 has"),
    "training scores": (lambda: fit(**DEVIANCE, train_scores=True), "row 120 has"),
    "own loss": (lambda: fit(objective=own_loss), "in row 120;"),
    "own loss of folds": (lambda: fit(objective=own_loss, early_stopping="cv"), "in row 120;"),
    "validation rows": (lambda: fit(ROWS, **POISSON), "validation row 120 holds"),
    "metric of validation": (lambda: fit(ROWS, **DEVIANCE), "validation row 120 has"),
    "sets": (lambda: fit(OF_B, **POISSON), "validation row 120 of 'b' holds"),
    "metric of sets": (lambda: fit(OF_B, **DEVIANCE), "validation row 120 of 'b' has"),
    "infinite target of a set": (
        lambda: fit({"b": Dataset(X, np.where(WRONG < 0, np.inf, GOOD), WEIGHT)}),
        "Input y of valid['b'] contains infinity (1 of 200 values, the first in row 120)",
    ),
    "estimator": (lambda: regressor().fit(X, WRONG, sample_weight=WEIGHT), "; row 120 holds"),
    "X_val": (
        lambda: regressor().fit(X, GOOD, X_val=X, y_val=WRONG, sample_weight_val=WEIGHT),
        "validation row 120 holds",
    ),
    "cv": (lambda: cv({**POISSON, "n_estimators": 3}, ROWS), "row 120 holds"),
    "cross_fit": (lambda: cross_fit(regressor(), X, WRONG, sample_weight=WEIGHT), "row 120 holds"),
    "eval": (lambda: regressor().fit(X, GOOD).booster_.eval(ROWS), "row 120 holds"),
    "refit": (
        lambda: regressor().fit(X, GOOD).booster_.refit(X, WRONG, sample_weight=WEIGHT),
        "row 120 holds",
    ),
    "spread": (
        lambda: train({}, Dataset(X, np.where(WRONG < 0, 1e150, GOOD), WEIGHT)),
        "row 120 holds 1e+150",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_an_error_names_the_row_of_the_user(case: str) -> None:
    call, words = CASES[case]
    with pytest.raises(HedgerowError) as caught:
        call()
    assert words in str(caught.value)
    assert str(caught.value).count("row 1") == 1


def test_rows_of_files_are_counted_as_said(tmp_path: Any) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pandas.DataFrame({"a": X[:, 0], "y": WRONG, "w": WEIGHT})
    frame.to_parquet(tmp_path / "rows.parquet")
    data = Dataset.from_files(tmp_path / "rows.parquet", target="y", weight="w")
    with pytest.raises(HedgerowError, match=r"row 117 of those with a weight above 0 holds -1\.0"):
        train({"objective": "poisson"}, data)


def test_rows_of_ranks_are_counted_as_said(tmp_path: Any) -> None:
    pandas = pytest.importorskip("pandas")
    rows = pandas.DataFrame({"a": X[:, 0]})
    parts = cut([40, 100], rows, pandas.Series(WRONG), weight=pandas.Series(WEIGHT))
    with pytest.raises(HedgerowError, match=r"row 117 of those with a weight above 0 holds -1\.0"):
        train_ranks(2, parts, tmp_path, objective="poisson")
