"""The model class for AutoGluon fits under its bagging; skipped where that is not installed."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

tabular = pytest.importorskip("autogluon.tabular")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
pytestmark = pytest.mark.skipif(not EXAMPLES.exists(), reason="runs in a checkout only")


@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
def test_bagged_models_learn(task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(EXAMPLES), *sys.path])
    from autogluon_model import HedgerowModel

    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"size": rng.normal(size=300), "city": rng.choice(["Oslo", "Rome"], 300)})
    target = rows["size"] + 3.0 * (rows["city"] == "Rome")
    rows.loc[:20, "size"] = np.nan
    cuts = {"binary": [1.5], "multiclass": [0.0, 2.0]}
    rows["y"] = target if task == "regression" else np.digitize(target, cuts[task])
    predictor = tabular.TabularPredictor("y", problem_type=task, path=tmp_path, verbosity=0)
    predictor.fit(
        rows,
        hyperparameters={HedgerowModel: {"n_estimators": 40}},
        num_bag_folds=2,
        ag_args_ensemble={"fold_fitting_strategy": "sequential_local"},
    )
    scores = predictor.leaderboard(rows, extra_metrics=["r2" if task == "regression" else "acc"])
    assert scores.iloc[0][scores.columns[2]] > 0.8
