"""Compare three ways to sample rows: speed and test score at equal sample sizes.

::

    python benchmarks/sampling.py                     # all tables, full size: minutes
    python benchmarks/sampling.py --shrink 4          # a quarter of the rows
    python benchmarks/sampling.py flights --rounds 5

uniform  all rows with the same probability (``subsample``)
goss     two thirds of the sample have the largest gradients, a third is random
mvs      probabilities that minimise the variance of the gains

The ways take turns over several rounds, and times are medians.  The time of a tree is measured from
the end of the first boosting round to the end of the last one, so it does not include binning,
which does not depend on the sample.  It is processor time of one thread, which other work on the
machine changes least.  Scores are those of test rows after a quarter, a half and all of the trees,
averaged over the rounds.  Each round has its own seed.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hedgerow import Dataset, train
from names import name_in
from real import MissingDataError, flights, fremtpl2
from synthetic import higgs_like

SHARES = (0.1, 0.2, 0.3, 0.4, 0.5)


@dataclass
class Table:
    """Training and test rows."""

    name: str
    objective: str
    load: Callable[[], tuple[np.ndarray, np.ndarray]]
    rows: int


TABLES = {
    "synthetic": Table("synthetic, 28 columns", "logistic", lambda: higgs_like(1_250_000), 10**6),
    "flights": Table("flights, 4 columns", "squared_error", flights, 1_000_000),
    "fremtpl2": Table("fremtpl2", "squared_error", fremtpl2, 500_000),
}


@dataclass
class Run:
    """The results of all rounds of one way of sampling."""

    milliseconds: list[float] = field(default_factory=list)
    scores: list[tuple[float, ...]] = field(default_factory=list)


def ways() -> dict[tuple[str, float], dict[str, Any]]:
    """Return parameters by name and share of the rows."""
    found: dict[tuple[str, float], dict[str, Any]] = {("all rows", 1.0): {}}
    for share in SHARES:
        goss = {"goss_top_rate": 2 * share / 3, "goss_other_rate": share / 3}
        found["uniform", share] = {"subsample": share}
        found["goss", share] = {"sampling": "goss", **goss}
        found["mvs", share] = {"sampling": "mvs", "subsample": share}
    return found


def loss(objective: str, raw: np.ndarray, target: np.ndarray) -> float:
    """Return the log loss of raw scores, or the root mean squared error."""
    if objective == "logistic":
        return float(np.mean(np.logaddexp(0.0, raw) - target * raw))
    return float(np.sqrt(np.mean((raw - target) ** 2)))


def measure(
    run: Run, params: dict[str, Any], data: Dataset, test: tuple[np.ndarray, np.ndarray], trees: int
) -> None:
    """Fit once, and record the time of a tree and the scores during training."""
    ends: list[float] = []
    model = train(params, data, callbacks=lambda _: ends.append(time.process_time()))
    run.milliseconds.append(1e3 * (ends[-1] - ends[0]) / (len(ends) - 1))
    curve = tuple(
        loss(params["objective"], model.predict(test[0], kind="raw", n_rounds=n), test[1])
        for n in (trees // 4, trees // 2, trees)
    )
    run.scores.append(curve)


def compare(table: Table, rounds: int, trees: int, shrink: int) -> None:
    """Print the table of one data set."""
    X, y = table.load()
    order = np.random.default_rng(0).permutation(len(y))
    n_rows, n_test = table.rows // shrink, max(1, len(y) - table.rows) // shrink
    kept, unseen = order[:n_rows], order[n_rows : n_rows + min(n_test, 200_000)]
    data, test = Dataset(X[kept], y[kept]), (X[unseen], y[unseen])
    base = {
        "objective": table.objective, "n_estimators": trees, "early_stopping": False,
        "n_jobs": 1,
    }  # fmt: skip
    chosen = ways()
    for params in chosen.values():  # compiles before the measurements
        train({**base, **params, "n_estimators": 2}, Dataset(X[:2000], y[:2000]))
    runs = {way: Run() for way in chosen}
    for seed in range(rounds):
        for way, params in chosen.items():
            measure(runs[way], {**base, **params, "seed": seed}, data, test, trees)
    score = "log loss" if table.objective == "logistic" else "RMSE"
    print(f"\n{table.name}: {n_rows:,} rows, {trees} trees, one thread, "
          f"{rounds} rounds\n")  # fmt: skip
    print(
        f"| rows | ms a tree | {score}, {trees // 4} trees | {trees // 2} trees | {trees} trees |"
    )
    print("|---|--:|--:|--:|--:|")
    for (name, share), run in runs.items():
        label = name if share == 1.0 else f"{name} {share:g}"
        curve = " | ".join(f"{statistics.mean(at):.5g}" for at in zip(*run.scores, strict=True))
        print(f"| {label} | {statistics.median(run.milliseconds):.2f} | {curve} |", flush=True)


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "tables", nargs="*", type=name_in(TABLES), help=f"any of {', '.join(TABLES)} (default: all)"
    )
    parser.add_argument("--rounds", type=int, default=3, help="fits of each (default 3)")
    parser.add_argument("--trees", type=int, default=100, help="trees of each (default 100)")
    parser.add_argument(
        "--shrink", type=int, default=1, help="use one row in this many (default 1)"
    )
    return parser


def main() -> None:
    options = build_parser().parse_args()
    for name in options.tables or TABLES:
        try:
            compare(TABLES[name], options.rounds, options.trees, options.shrink)
        except MissingDataError as reason:
            print(f"\n{name}: skipped: {reason}")


if __name__ == "__main__":
    main()
