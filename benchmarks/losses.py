"""Time fits by loss: Hedgerow and LightGBM at equal settings, custom and built-in losses.

::

    python benchmarks/losses.py                         # all: some minutes
    python benchmarks/losses.py poisson own_poisson --rows 20000 --rounds 1
    python benchmarks/losses.py --list

Models have 100 trees of 31 leaves, learning rate 0.1, 255 bins, no penalty on leaf values, and at
least 20 rows in a leaf.  ``synthetic.py`` generates the rows with 28 columns.  The classes are 7
bands of a nonlinear score, as many classes as covertype has.  The models of a comparison take
turns, in an order that changes each round.  The first fit of each is not counted.  Wall times and
processor seconds are medians.  "times the first" is the wall time divided by that of the first
model.  ``ranking.py`` measures the ranking losses.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from names import name_in
from peers import HedgerowTrain, LightGBM
from settings import Settings
from synthetic import heavy_tailed, many_classes
from timing import _turns

Target = Callable[[int], tuple[np.ndarray, np.ndarray]]


class PeerWithLoss:
    """A peer with additional parameters, which include the loss."""

    def __init__(self, name: str, more: dict[str, Any]) -> None:
        self.name = name
        self._more = more


class HedgerowWithLoss(PeerWithLoss, HedgerowTrain):
    def fit(self, X: np.ndarray, y: np.ndarray, settings: Settings) -> Any:
        import hedgerow

        params = {
            "n_estimators": settings.trees,
            "learning_rate": settings.learning_rate,
            "max_leaves": settings.leaves,
            "min_samples_leaf": settings.min_rows,
            "min_child_weight": settings.min_hessian,
            "reg_lambda": settings.l2,
            "max_bins": settings.bins,
            "early_stopping": False,
            "n_jobs": settings.threads,
            "seed": settings.seed,
        }
        return hedgerow.train(params | self._more, hedgerow.Dataset(X, y))


class LightGBMWithLoss(PeerWithLoss, LightGBM):
    def _params(self, settings: Settings) -> dict[str, Any]:
        return super()._params(settings) | self._more


@dataclass(frozen=True)
class Comparison:
    """Models to fit on the same rows."""

    make: Target
    ways: tuple[PeerWithLoss, ...]
    settings: Settings = field(default_factory=lambda: Settings("regression"))


def _scores(rows: int) -> tuple[np.ndarray, np.ndarray]:
    X, y = heavy_tailed(rows, 28, 0)
    score = (y - np.median(y)) / np.subtract(*np.percentile(y, [75, 25]))
    return X, np.clip(score, -3.0, 3.0)


def _counts(rows: int) -> tuple[np.ndarray, np.ndarray]:
    X, score = _scores(rows)
    return X, np.random.default_rng(1).poisson(np.exp(0.7 * score)).astype(float)


def _amounts(rows: int) -> tuple[np.ndarray, np.ndarray]:
    X, counts = _counts(rows)
    return X, counts * np.random.default_rng(2).gamma(2.0, 1.0, rows)


def numpy_poisson(y: np.ndarray, raw: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    mean = np.exp(raw)
    return mean - y, mean


numpy_poisson.link = "log"  # type: ignore[attr-defined]


def numba_poisson() -> Callable[..., Any]:
    """Return the loss as a loop that the user compiles."""
    import numba

    @numba.njit
    def fill(y, raw):  # type: ignore[no-untyped-def]
        g, h = np.empty(len(y)), np.empty(len(y))
        for row in range(len(y)):
            h[row] = math.exp(raw[row])
            g[row] = h[row] - y[row]
        return g, h

    def gradient_and_hessian(y: np.ndarray, raw: np.ndarray) -> Any:
        return fill(np.ascontiguousarray(y), np.ascontiguousarray(raw))

    gradient_and_hessian.link = "log"  # type: ignore[attr-defined]
    return gradient_and_hessian


def _make_pair(
    objective: str, their_objective: str, our_params: dict[str, Any], their_params: dict[str, Any]
) -> Any:
    return (
        HedgerowWithLoss("Hedgerow", {"objective": objective, **our_params}),
        LightGBMWithLoss("LightGBM", {"objective": their_objective, **their_params}),
    )


def comparisons() -> dict[str, Comparison]:
    """Return all comparisons by name."""
    classes = Settings("multiclass", classes=7)
    own = (
        HedgerowWithLoss("built in", {"objective": "poisson"}),
        HedgerowWithLoss("own (g, h), Numba", {"objective": numba_poisson()}),
        HedgerowWithLoss("own (g, h), NumPy", {"objective": numpy_poisson}),
    )
    power, delta = {"tweedie_power": 1.5}, {"delta": 0.9}
    return {
        "multiclass": Comparison(
            lambda n: many_classes(n, 28, 7), _make_pair("softmax", "multiclass", {}, {}), classes
        ),
        "squared_error": Comparison(_scores, _make_pair("squared_error", "regression", {}, {})),
        "poisson": Comparison(_counts, _make_pair("poisson", "poisson", {}, {})),
        "tweedie": Comparison(
            _amounts, _make_pair("tweedie", "tweedie", power, {"tweedie_variance_power": 1.5})
        ),
        "quantile": Comparison(
            _scores, _make_pair("quantile", "quantile", {"quantile": 0.8}, {"alpha": 0.8})
        ),
        "absolute_error": Comparison(_scores, _make_pair("absolute_error", "l1", {}, {})),
        "huber": Comparison(_scores, _make_pair("huber", "huber", delta, {"alpha": 0.9})),
        "own_poisson": Comparison(_counts, own),
    }


def compare(name: str, comparison: Comparison, rows: int, rounds: int, settings: Settings) -> None:
    """Print the lines of one comparison."""
    X, y = comparison.make(rows)
    ways: list[Any] = list(comparison.ways)
    wall: dict[str, list[float]] = {way.name: [] for way in ways}
    used: dict[str, list[float]] = {way.name: [] for way in ways}
    for way in ways:
        way.fit(X[:5_000], y[:5_000], replace(settings, trees=2))
    for number in range(rounds):
        for way in _turns(ways, number):
            start, before = time.perf_counter(), time.process_time()
            way.fit(X, y, settings)
            wall[way.name].append(time.perf_counter() - start)
            used[way.name].append(time.process_time() - before)
    first = statistics.median(wall[ways[0].name])
    for way in ways:
        seconds = statistics.median(wall[way.name])
        print(f"| {name} | {way.name} | {seconds:.3f} | {statistics.median(used[way.name]):.3f} | "
              f"{seconds / first:.2f} |", flush=True)  # fmt: skip


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "names", nargs="*", type=name_in(comparisons()), help="comparisons (default: all)"
    )
    parser.add_argument("--list", action="store_true", help="list the comparisons")
    parser.add_argument("--rows", type=int, default=116_000, help="rows (default 116,000)")
    parser.add_argument("--rounds", type=int, default=5, help="fits of each model (default 5)")
    parser.add_argument("--threads", type=int, default=2, help="threads (default 2)")
    parser.add_argument("--trees", type=int, default=100, help="trees (default 100)")
    return parser


def main() -> None:
    options = build_parser().parse_args()
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    known = comparisons()
    if options.list:
        print("\n".join(known))
        return
    print(f"{options.rows:,} rows of 28 columns, {options.trees} trees, {options.threads} "
          f"thread(s), medians of {options.rounds}\n")  # fmt: skip
    print("| loss | way | seconds | processor seconds | times the first |")
    print("|---|---|--:|--:|--:|")
    for name in options.names or known:
        settings = replace(known[name].settings, threads=options.threads, trees=options.trees)
        compare(name, known[name], options.rows, options.rounds, settings)


if __name__ == "__main__":
    main()
