"""Linear leaves of LightGBM, with and without safeguards, against its constant ones.

::

    python benchmarks/quality/linear_leaves.py

Tables of the suite with a number as target and less than 20,000 rows, their columns of numbers
alone, fold 0; 300 rounds at a rate of 0.05 with 15 leaves, no early stopping.  A line has mean and
median of ``log(score / score of constant leaves)``, cut off at 1, tables better and worse by
more than a thousandth, and the worst table.
"""

from __future__ import annotations

import warnings
from typing import Any

import lightgbm
import numpy as np
import tables

MOST_ROWS = 20_000
SETTINGS: dict[str, Any] = {
    "n_estimators": 300, "learning_rate": 0.05, "num_leaves": 15, "n_jobs": 1, "random_state": 0,
    "verbosity": -1,
}  # fmt: skip
LINEAR = {"linear_tree": True, "linear_lambda": 1.0}
FARTHEST = 5.0
"""Standard deviations at which columns are cut off."""


def standardised(X: np.ndarray, new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Columns with mean 0 and deviation 1 in training, cut off."""
    center, spread = np.nan_to_num(np.nanmean(X, axis=0)), np.nanstd(X, axis=0)
    spread[~(spread > 0.0)] = 1.0
    first, second = (np.clip((rows - center) / spread, -FARTHEST, FARTHEST) for rows in (X, new))
    return first, second


def scores(problem: tables.Problem) -> dict[str, float]:
    """Score of each way of leaves."""
    numbers = problem.X.columns.difference(problem.categories, sort=False)
    X, new = (frame[numbers].to_numpy(float) for frame in (problem.X, problem.X_test))
    center, spread = problem.y.mean(), problem.y.std()
    target, within = (problem.y - center) / spread, (problem.y.min(), problem.y.max())

    def predicted(rows: np.ndarray, test: np.ndarray, **more: Any) -> np.ndarray:
        model = lightgbm.LGBMRegressor(**SETTINGS, **more).fit(rows, target)
        return model.predict(test) * spread + center

    linear = predicted(X, new, **LINEAR)
    guarded = predicted(*standardised(X, new), **LINEAR)
    return {
        "constant": problem.score(predicted(X, new)),
        "linear": problem.score(linear),
        "predictions cut off": problem.score(np.clip(linear, *within)),
        "columns standardised too": problem.score(np.clip(guarded, *within)),
    }


def main() -> None:
    warnings.filterwarnings("ignore")
    names = [
        name for name, row in tables._index().items()
        if row["task"] == "regression" and int(row["rows"]) < MOST_ROWS
        and int(row["features"]) > int(row["n_cat"])
    ]  # fmt: skip
    found = [scores(tables.load(name, 0)) for name in names]
    print(f"{len(names)} tables\n\n| leaves | mean | median | better / worse | worst |")
    print("|---|--:|--:|--:|--:|")
    for way in list(found[0])[1:]:
        gap = np.clip([np.log(one[way] / one["constant"]) for one in found], -1.0, 1.0)
        counts = f"{(gap < -1e-3).sum()} / {(gap > 1e-3).sum()}"
        worst = f"{names[int(gap.argmax())]} {100 * gap.max():+.0f}%"
        middle = f"{100 * gap.mean():+.1f}% | {100 * np.median(gap):+.1f}%"
        print(f"| {way} | {middle} | {counts} | {worst} |")


if __name__ == "__main__":
    main()
