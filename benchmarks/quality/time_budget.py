"""Compare a time budget with fixed defaults that take the same time.

::

    python benchmarks/quality/time_budget.py                     # tables of 2,000 rows and more
    python benchmarks/quality/time_budget.py --rows 20000
    python benchmarks/quality/time_budget.py --tables r_fried,cardio,letter
    python benchmarks/quality/time_budget.py --fixed hedgerow --times 0.5   # of its own defaults

For each table, the program first fits a fixed model: a library with its defaults, or Hedgerow
with 100 rounds at a learning rate of 0.1, which is about the default of other libraries.  It then
fits Hedgerow with ``time_budget=`` the elapsed seconds of that fit times ``--times``.  It prints
the number of tables on which the budget scores better or worse (by 0.1% or more), the ratio of
the scores, and the ratio of elapsed seconds to the budget.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from dataclasses import dataclass

import models
import numpy as np
import tables

FIXED = ('hedgerow{"n_estimators": 100}', "lightgbm", "xgboost")
MIN_DIFFERENCE = 1e-3
MIN_SECONDS = 0.02
"""Seconds; a shorter fit leaves no time to measure how long a round takes."""


@dataclass(frozen=True)
class Comparison:
    """Ratios for one table: score with the budget to the fixed score, time to the budget."""

    score: float
    time: float


def measure(model: str, problem: tables.Problem) -> tuple[float, float]:
    """Fit a model; return the score on the test rows and the elapsed seconds of the fit."""
    start = time.perf_counter()
    predict = models.fit(model, problem)
    elapsed = time.perf_counter() - start
    return problem.score(predict(problem.X_test)), elapsed


def compare(fixed: str, problem: tables.Problem, times: float) -> Comparison | None:
    """Compare both models on one table; return None if the fixed fit is too short."""
    score, seconds = min((measure(fixed, problem) for _ in range(2)), key=lambda run: run[1])
    if seconds < MIN_SECONDS:
        return None
    seconds *= times
    with_budget, elapsed = measure(f'hedgerow{{"time_budget": {seconds:.4f}}}', problem)
    floor = 1e-12  # avoids a division by zero where a loss is almost 0
    return Comparison(max(with_budget, floor) / max(score, floor), elapsed / seconds)


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rows", type=int, default=2000, help="fewest training rows")
    parser.add_argument("--fixed", nargs="+", type=models.check_name, default=list(FIXED))
    parser.add_argument(
        "--times", type=float, default=1.0, help="ratio of the budget to the fixed time"
    )
    parser.add_argument("--tables", help="names separated by commas; default: all tables")
    return parser


def main() -> None:
    options = build_parser().parse_args()
    warnings.filterwarnings("ignore")
    names = [*tables.suite_names(), *tables.LARGER]
    if options.tables is not None:
        names = options.tables.split(",")
    problems = [tables.load(name, 0) for name in names]
    problems = [problem for problem in problems if len(problem.X) >= options.rows]
    one_per_task = {problem.task: problem for problem in problems}.values()
    for model in [*options.fixed, 'hedgerow{"time_budget": 0.2}']:
        for problem in one_per_task:
            measure(model, problem)  # warms up: imports and compiles
    print("| fixed | tables | better | worse | median score | median time | longest |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for model in options.fixed:
        candidates = (compare(model, problem, options.times) for problem in problems)
        comparisons = [comparison for comparison in candidates if comparison is not None]
        ratios = [comparison.score for comparison in comparisons]
        times = [comparison.time for comparison in comparisons]
        better = int(np.sum(np.array(ratios) < 1.0 - MIN_DIFFERENCE))
        worse = int(np.sum(np.array(ratios) > 1.0 + MIN_DIFFERENCE))
        print(
            f"| {model} | {len(comparisons)} | {better} | {worse} | {statistics.median(ratios):.4f}"
            f" | {statistics.median(times):.2f} | {max(times):.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
