"""Compare predicted distributions on real data.

::

    python benchmarks/uncertainty.py              # two tables in Markdown, about a minute
    python benchmarks/uncertainty.py --sets california,r_abalone --peers none

The first table has the mean of -log density (NLL) of test rows for ``objective="normal"``: with
natural gradients of each row (Hedgerow's way), with the Fisher information as hessian, and with
full steps for the scale.  It also has point predictions of Hedgerow and LightGBM with one standard
deviation for all rows, that of the validation rows.  The second table has the NLL of positive
targets, by distribution.

A fifth of the rows (at most 5,000) are test rows.  A sixth of the others are validation rows for
early stopping.  Models have at most 400 trees of 15 leaves, and learning rate 0.1.  Targets of the
first table have standard deviation 1.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from hedgerow import Dataset, train
from hedgerow.objectives.distributions.losses import NormalLoss

_ROOT = Path(
    os.environ.get("HEDGEROW_TEST_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data"
)
SETS = (
    *("r_abalone", "r_cpu_act", "r_kin8nm", "r_bank32nh", "r_house8L"),
    *("california", "bike_hour"),
)
TARGETS = {"california": "median_house_value", "diamonds": "price", "bike_hour": "cnt"}
LEFT_OUT = ("casual", "registered", "index", "dteday")
MOST_ROWS = 5000
GIVEN = {"n_estimators": 400, "max_leaves": 15, "n_jobs": 1, "early_stopping": True, "patience": 20}


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Load the numeric columns and the target."""
    if name in TARGETS:
        table = pd.read_parquet(_ROOT / name / "data.parquet")
    else:
        table = pd.read_csv(_ROOT / "suite" / f"{name}.csv.gz")
    target = TARGETS.get(name, "target")
    if target not in table:
        target = table.columns[-1]
    table = table.dropna(subset=[target])
    if len(table) > MOST_ROWS:
        table = table.sample(MOST_ROWS, random_state=0)
    y = table[target].to_numpy(float)
    X = table.drop(columns=[target, *LEFT_OUT], errors="ignore").select_dtypes("number")
    return X.to_numpy(float), y


class Information(NormalLoss):
    """The natural gradient's direction, with the Fisher information as hessian."""

    __slots__ = ()
    constant_hessian = False

    def derivatives(self, rows: Any, output: int, g: Any, h: Any) -> None:
        super().derivatives(rows, output, g, h)
        if output == 0:
            h[:] = np.exp(-2.0 * rows.raw[1])
            g *= h


class FullSteps(NormalLoss):
    """Steps of the scale that are as long as those of the mean."""

    __slots__ = ()

    def derivatives(self, rows: Any, output: int, g: Any, h: Any) -> None:
        super().derivatives(rows, output, g, h)
        if output == 1:
            g *= 2.0


class Split:
    """Training, validation and test rows."""

    def __init__(self, X: np.ndarray, y: np.ndarray) -> None:
        order = np.random.default_rng(0).permutation(len(y))
        new, rest = order[: len(y) // 5], order[len(y) // 5 :]
        stop, fit = rest[: len(rest) // 6], rest[len(rest) // 6 :]
        self.new, self.stop, self.fit = ((X[rows], y[rows]) for rows in (new, stop, fit))

    def booster(self, objective: Any) -> Any:
        given = GIVEN | {"objective": objective, "eval_metric": "loss"}
        return train(given, Dataset(*self.fit), Dataset(*self.stop))

    def nll(self, objective: Any) -> tuple[float, float]:
        """Return the NLL and the root mean squared error of the test rows."""
        booster, (X, y) = self.booster(objective), self.new
        raw = booster.raw_scores(X)
        loss = objective if not isinstance(objective, str) else booster._objective
        return float(loss.losses(y, raw).mean()), _rmse(y, loss.predict(raw))

    def constant(self, predict: Callable[[np.ndarray], np.ndarray]) -> tuple[float, float]:
        """Return both scores of point predictions, with the spread of the validation rows."""
        scale = _rmse(self.stop[1], predict(self.stop[0]))
        points = predict(self.new[0])
        return float(-stats.norm(points, scale).logpdf(self.new[1]).mean()), _rmse(
            self.new[1], points
        )

    def lightgbm(self) -> Callable[[np.ndarray], np.ndarray]:
        import lightgbm

        model = lightgbm.LGBMRegressor(n_estimators=400, num_leaves=15, n_jobs=1, verbose=-1)
        model.fit(*self.fit, eval_set=[self.stop], callbacks=[lightgbm.early_stopping(20, verbose=False)])  # fmt: skip  # noqa: E501
        return model.predict


def _rmse(y: np.ndarray, points: np.ndarray) -> float:
    return float(np.sqrt(np.mean((y - points) ** 2)))


def _show(head: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    head = list(head)
    print("|", " | ".join(head), "|")
    print("|" + "---|" * len(head), flush=True)
    for row in rows:
        print("|", " | ".join(row), "|", flush=True)
    print()


def natural_gradients(names: list[str], peers: bool) -> None:
    """Print NLL and RMSE of normal distributions."""
    head = ["NLL; RMSE", "normal", "information as hessian", "full steps", "one scale"]
    sums = np.zeros(4 + peers)

    def rows() -> Iterable[list[str]]:
        for name in names:
            X, y = load(name)
            split = Split(X, (y - y.mean()) / y.std())
            found = [split.nll(loss) for loss in ("normal", Information(), FullSteps())]
            found.append(split.constant(split.booster("squared_error").predict))
            if peers:
                found.append(split.constant(split.lightgbm()))
            sums[:] += [one for one, _ in found]
            yield [name, *(f"{a:.3f}; {b:.3f}" for a, b in found)]
        yield ["mean NLL", *(f"{a / len(names):.3f}" for a in sums)]

    _show([*head, *(["LightGBM, one scale"] if peers else [])], rows())


def families(names: list[str]) -> None:
    """Print the NLL of positive targets, by family."""
    known = ["normal", "log_normal"]

    def rows() -> Iterable[list[str]]:
        for name in names:
            X, y = load(name)
            if (y > 0.0).all():
                split = Split(X, y)
                yield [name, *(f"{split.nll(loss)[0]:.3f}" for loss in known)]

    _show(["NLL", *known], rows())


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--peers", default="lightgbm", choices=("lightgbm", "none"))
    return parser


def main() -> None:
    given = build_parser().parse_args()
    names = given.sets.split(",")
    natural_gradients(names, given.peers == "lightgbm")
    families(names)


if __name__ == "__main__":
    main()
