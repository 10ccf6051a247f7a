"""Compare LightGBM's linear leaves, with and without safeguards, with its constant leaves.

::

    python benchmarks/quality/linear_leaves.py

The data are fold 0 of the suite's regression tables with fewer than 20,000 rows, and only their
numeric columns.  Each model has 300 rounds with a learning rate of 0.05 and 15 leaves, without
early stopping.  A line has the mean and the median of ``log(score / score of constant leaves)``,
clipped at 1, the numbers of tables that are better and worse by more than 0.1%, and the worst
table.
"""

from __future__ import annotations

import warnings
from typing import Any

import lightgbm
import numpy as np
import tables

MAX_ROWS = 20_000
SETTINGS: dict[str, Any] = {
    "n_estimators": 300, "learning_rate": 0.05, "num_leaves": 15, "n_jobs": 1, "random_state": 0,
    "verbosity": -1,
}  # fmt: skip
LINEAR: dict[str, Any] = {"linear_tree": True, "linear_lambda": 1.0}
CLIP_AT = 5.0
"""Standard deviations at which columns are clipped."""


def standardise(X: np.ndarray, X_test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scale columns to mean 0 and standard deviation 1 in training, and clip them."""
    center, spread = np.nan_to_num(np.nanmean(X, axis=0)), np.nanstd(X, axis=0)
    spread[~(spread > 0.0)] = 1.0
    first, second = (np.clip((rows - center) / spread, -CLIP_AT, CLIP_AT) for rows in (X, X_test))
    return first, second


def scores(problem: tables.Problem) -> dict[str, float]:
    """Return the score of each kind of leaves."""
    numeric = problem.X.columns.difference(problem.categories, sort=False)
    X, X_test = (frame[numeric].to_numpy(float) for frame in (problem.X, problem.X_test))
    center, spread = problem.y.mean(), problem.y.std()
    target, bounds = (problem.y - center) / spread, (problem.y.min(), problem.y.max())

    def fit_predict(rows: np.ndarray, test: np.ndarray, **extra: Any) -> np.ndarray:
        model = lightgbm.LGBMRegressor(**SETTINGS, **extra).fit(rows, target)
        return model.predict(test) * spread + center

    linear = fit_predict(X, X_test, **LINEAR)
    guarded = fit_predict(*standardise(X, X_test), **LINEAR)
    return {
        "constant": problem.score(fit_predict(X, X_test)),
        "linear": problem.score(linear),
        "predictions clipped": problem.score(np.clip(linear, *bounds)),
        "columns standardised too": problem.score(np.clip(guarded, *bounds)),
    }


def main() -> None:
    warnings.filterwarnings("ignore")
    names = [
        name for name, row in tables.load_index().items()
        if row["task"] == "regression" and int(row["rows"]) < MAX_ROWS
        and int(row["features"]) > int(row["n_cat"])
    ]  # fmt: skip
    found = [scores(tables.load(name, 0)) for name in names]
    print(f"{len(names)} tables\n\n| leaves | mean | median | better / worse | worst |")
    print("|---|--:|--:|--:|--:|")
    for kind in list(found[0])[1:]:
        gap = np.clip([np.log(one[kind] / one["constant"]) for one in found], -1.0, 1.0)
        counts = f"{(gap < -1e-3).sum()} / {(gap > 1e-3).sum()}"
        worst = f"{names[int(gap.argmax())]} {100 * gap.max():+.0f}%"
        middle = f"{100 * gap.mean():+.1f}% | {100 * np.median(gap):+.1f}%"
        print(f"| {kind} | {middle} | {counts} | {worst} |")


if __name__ == "__main__":
    main()
