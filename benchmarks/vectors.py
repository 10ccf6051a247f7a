"""Compare trees with a value per output in each leaf with one tree per output.

::

    python benchmarks/vectors.py                    # generated tables, some minutes
    python benchmarks/vectors.py --tables vowel letter m_leaf_id_flavia   # of the quality benchmark
    python benchmarks/vectors.py --jobs 2

The figures are processor milliseconds per round, without reading and binning of the rows: the
difference between a fit of many rounds and one of few.  There is no cross-validation and no early
stopping.  To compare two versions of the sources, run it with ``PYTHONPATH`` set to each.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any, Literal

import numpy as np

GENERATED = (
    ("classes", 1_000, 10, 11),
    ("classes", 5_000, 20, 8),
    ("classes", 5_000, 20, 30),
    ("classes", 100_000, 20, 8),
    ("targets", 100_000, 20, 8),
)
Strategy = Literal["one_output_per_tree", "multi_output_tree"]
STRATEGIES: tuple[Strategy, ...] = ("one_output_per_tree", "multi_output_tree")


def generated(kind: str, n_rows: int, n_features: int, n_outputs: int) -> tuple[Any, Any]:
    """Generate normal columns, and outputs that are linear in some of them."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, n_features))
    scores = X @ rng.standard_normal((n_features, n_outputs))
    scores += rng.standard_normal(scores.shape)
    return X, scores.argmax(axis=1) if kind == "classes" else scores


def load_table(name: str) -> tuple[Any, Any]:
    """Load the numeric training rows of fold 0 of a table of the quality benchmark."""
    sys.path.insert(0, str(Path(__file__).parent / "quality"))
    import tables

    problem = tables.load(name, 0)
    return problem.X.drop(columns=problem.categories).to_numpy(dtype=float), problem.y


def seconds(X: Any, y: Any, kind: str, strategy: Strategy, rounds: int, jobs: int) -> float:
    """Return the processor seconds of one fit."""
    from hedgerow import HedgerowClassifier, HedgerowRegressor

    model = HedgerowClassifier if kind == "classes" else HedgerowRegressor
    settings: dict[str, Any] = {"max_leaves": 16, "learning_rate": 0.1, "early_stopping": False}
    start = time.process_time()
    model(n_estimators=rounds, multi_strategy=strategy, n_jobs=jobs, **settings).fit(X, y)
    return time.process_time() - start


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="*", default=[])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    return parser


def main() -> None:
    """Print a line for each table."""
    options = build_parser().parse_args()
    found = [(name, "classes", *load_table(name)) for name in options.tables]
    if not found:
        for given in GENERATED:
            name = f"{given[1]} x {given[2]}, {given[3]} {given[0]}"
            found.append((name, given[0], *generated(*given)))
    print(f"{'ms a round':32} {'tree for each':>14} {'vectors':>9}")
    for name, kind, X, y in found:
        cost = []
        for strategy in STRATEGIES:
            seconds(X, y, kind, strategy, 2, options.jobs)
            runs = [
                seconds(X, y, kind, strategy, options.rounds + 2, options.jobs)
                - seconds(X, y, kind, strategy, 2, options.jobs)
                for _ in range(options.repeats)
            ]
            cost.append(1e3 * min(runs) / options.rounds)
        print(f"{name:32} {cost[0]:14.2f} {cost[1]:9.2f}", flush=True)


if __name__ == "__main__":
    main()
