"""Every call of docs/tasks.md runs, and every page that it names exists."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.model_selection import RandomizedSearchCV, TimeSeriesSplit, cross_validate

import hedgerow

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tasks.md"
ROW = re.compile(r"^\| (?P<task>.+?) \| `(?P<call>.+)` \| \[.+\]\((?P<page>[a-z-]+\.md)\) \|$")
ROWS = [found for line in PAGE.read_text().splitlines() if (found := ROW.match(line))]


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(240, 3)), columns=["x0", "x1", "x2"])
    amount = X["x0"] + rng.normal(size=240)
    y = (amount > 0).to_numpy()
    folder = tmp_path_factory.mktemp("tasks")
    X.assign(bought=y.astype(int)).to_csv(folder / "people.csv", index=False)
    plain = {"linear_leaves": False, "feature_crosses": None}  # as other formats need
    model = hedgerow.HedgerowClassifier(random_state=0, **plain).fit(X, y)
    model.booster_.export(folder / "model.txt", format="lightgbm")  # another call of the page
    people = X.assign(town=rng.choice(["here", "there"], 240))
    people.loc[:9, "x1"] = np.nan
    return {
        **{name: getattr(hedgerow, name) for name in hedgerow.__all__},
        "X": X, "y": y, "X_val": X[:60], "y_val": y[:60], "amount": amount, "people": people,
        "counts": rng.poisson(1.0, 240), "log_exposure": np.zeros(240), "weight": np.ones(240),
        "customer": np.arange(240) // 4, "day": np.arange(240) // 8,
        "two_targets": np.column_stack([amount, -amount]),
        "grade": y.astype(int), "query": np.arange(240) // 12, "folder": folder,
        "sparse_matrix": scipy.sparse.csr_matrix(X), "cross_validate": cross_validate,
        "RandomizedSearchCV": RandomizedSearchCV, "TimeSeriesSplit": TimeSeriesSplit,
        "times": rng.exponential(size=240) * rng.choice([-1.0, 1.0], 240),
        "squared_loss": lambda target, raw: (raw - target, np.ones_like(raw)),
        "model": model,
    }  # fmt: skip


def test_the_page_has_tasks() -> None:
    assert len(ROWS) >= 25
    assert len(ROWS) == sum(line.startswith("| ") for line in PAGE.read_text().splitlines()) - 3


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["task"])
def test_each_call_runs(row: Any, names: dict[str, Any]) -> None:
    if "plot" in row["call"]:
        pytest.importorskip("matplotlib", reason="matplotlib is not installed (hedgerow[plot])")
    if "onnx" in row["call"]:
        pytest.importorskip("onnx", reason="onnx is not installed (hedgerow[export])")
    if "Conformal" in row["call"]:
        mapie = pytest.importorskip("mapie.regression", reason="mapie is not installed")
        names = {**names, "CrossConformalRegressor": mapie.CrossConformalRegressor}
    assert (PAGE.parent / row["page"]).exists()
    eval(row["call"], dict(names))
