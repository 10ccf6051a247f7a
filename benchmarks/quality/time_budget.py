"""A time budget against fixed defaults that take the same time.

::

    python benchmarks/quality/time_budget.py                     # tables of 2,000 rows and more
    python benchmarks/quality/time_budget.py --rows 20000
    python benchmarks/quality/time_budget.py --tables r_fried,cardio,letter
    python benchmarks/quality/time_budget.py --fixed hedgerow --times 0.5   # of its own defaults

For each table a library is trained at its defaults, or Hedgerow with the 100 rounds at a
rate of 0.1 that are about the defaults of the others, and then Hedgerow with
``time_budget=`` the elapsed seconds of that fit, or so many ``--times`` these.  Printed are
the tables on which the budget scores better or worse (by 0.1% and more), the ratio of the
scores, and elapsed seconds over the budget.
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
SMALLEST_DIFFERENCE = 1e-3
SHORTEST = 0.02
"""Seconds; a fit that takes less leaves no time to find out how long a round takes."""


@dataclass(frozen=True)
class Comparison:
    """One table: score with the budget over the fixed one's, time over the budget."""

    score: float
    time: float


def timed(model: str, problem: tables.Problem) -> tuple[float, float]:
    """Score on the test rows, and elapsed seconds of the fit."""
    start = time.perf_counter()
    predict = models.fit(model, problem)
    elapsed = time.perf_counter() - start
    return problem.score(predict(problem.X_test)), elapsed


def compare(fixed: str, problem: tables.Problem, times: float) -> Comparison | None:
    """Both on one table; None if the fixed one is done too soon."""
    score, seconds = min((timed(fixed, problem) for _ in range(2)), key=lambda run: run[1])
    if seconds < SHORTEST:
        return None
    seconds *= times
    with_budget, elapsed = timed(f'hedgerow{{"time_budget": {seconds:.4f}}}', problem)
    floor = 1e-12  # of losses that are all but none
    return Comparison(max(with_budget, floor) / max(score, floor), elapsed / seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rows", type=int, default=2000, help="fewest training rows")
    parser.add_argument("--fixed", nargs="+", default=list(FIXED))
    parser.add_argument("--times", type=float, default=1.0, help="the budget over the fixed time")
    parser.add_argument("--tables", help="names, with commas between them; all others are left out")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    names = [*tables.suite_names(), *tables.LARGER]
    if options.tables is not None:
        names = options.tables.split(",")
    problems = [tables.load(name, 0) for name in names]
    problems = [problem for problem in problems if len(problem.X) >= options.rows]
    one_of_each = {problem.task: problem for problem in problems}.values()
    for model in [*options.fixed, 'hedgerow{"time_budget": 0.2}']:
        for problem in one_of_each:
            timed(model, problem)  # compiled, imported
    print("| fixed | tables | better | worse | median score | median time | longest |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for model in options.fixed:
        compared = (compare(model, problem, options.times) for problem in problems)
        found = [one for one in compared if one is not None]
        ratios, times = [one.score for one in found], [one.time for one in found]
        better = int(np.sum(np.array(ratios) < 1.0 - SMALLEST_DIFFERENCE))
        worse = int(np.sum(np.array(ratios) > 1.0 + SMALLEST_DIFFERENCE))
        print(
            f"| {model} | {len(found)} | {better} | {worse} | {statistics.median(ratios):.4f} "
            f"| {statistics.median(times):.2f} | {max(times):.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
