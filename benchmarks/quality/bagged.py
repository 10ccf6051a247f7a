"""Compare libraries under AutoGluon's own bagging: eight folds of each model, no tuning.

::

    pip install autogluon.tabular lightgbm catboost xgboost
    python benchmarks/quality/bagged.py

AutoGluon prepares the tables, divides the folds, fits each model eight times, and averages; its
own models stop early on the rows that are held out.  Tables are every eighth of the suite in order
of names, with fold 0 as test rows.  Prints the test score of each library (log loss or RMSE) and
the seconds of its fits, then the mean rank and the mean distance from the best of a table.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np
import tables
from autogluon.tabular import TabularPredictor

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))
from autogluon_model import HedgerowModel

TARGET = "the target"
MODELS = {"Hedgerow": HedgerowModel, "LightGBM": "GBM", "CatBoost": "CAT", "XGBoost": "XGB"}


def compare(name: str, threads: int) -> tuple[list[float], list[float]]:
    """Return the loss and the seconds of each library on a table."""
    problem = tables.load(name, 0)
    rows = problem.X.assign(**{TARGET: problem.y})
    later = problem.X_test.assign(**{TARGET: problem.y_test})
    losses, seconds = [], []
    for model in MODELS.values():
        with tempfile.TemporaryDirectory() as folder:
            is_number = problem.task == "regression"
            metric = "root_mean_squared_error" if is_number else "log_loss"
            predictor = TabularPredictor(TARGET, problem.task, metric, folder, verbosity=0)
            predictor.fit(
                rows, hyperparameters={model: {}}, num_bag_folds=8, num_cpus=threads,
                fit_weighted_ensemble=False,
                ag_args_ensemble={"fold_fitting_strategy": "sequential_local"},
            )  # fmt: skip
            found = predictor.leaderboard(later).iloc[0]
            losses.append(-float(found["score_test"]))
            seconds.append(float(found["fit_time"]))
    return losses, seconds


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tables", nargs="*", help="names; default: every eighth of the suite")
    parser.add_argument("--threads", type=int, default=2)
    return parser


def main() -> None:
    options = build_parser().parse_args()
    chosen = options.tables or sorted(tables.suite_names())[::8]
    losses, seconds = [], []
    print(f"{'':22}" + "".join(f"{model:>22}" for model in MODELS))
    for name in chosen:
        loss, spent = compare(name, options.threads)
        losses.append(loss)
        seconds.append(spent)
        cells = (f"{a:12.5g} {b:7.1f} s" for a, b in zip(loss, spent, strict=True))
        print(f"{name:22}" + "".join(f"{cell:>22}" for cell in cells), flush=True)
    ranks = 1 + np.argsort(np.argsort(losses, axis=1), axis=1)
    behind = np.array(losses) / np.min(losses, axis=1, keepdims=True) - 1
    for title, figures in (
        ("mean rank", ranks.mean(axis=0)),
        ("from the best, %", 100 * behind.mean(axis=0)),
        ("median, %", 100 * np.median(behind, axis=0)),
        ("seconds", np.sum(seconds, axis=0)),
    ):
        print(f"{title:22}" + "".join(f"{one:22.2f}" for one in figures))


if __name__ == "__main__":
    main()
