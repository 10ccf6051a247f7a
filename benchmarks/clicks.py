"""Compare rankings learned from clicks, with and without correction of the position bias.

::

    python benchmarks/clicks.py                     # a few minutes
    python benchmarks/clicks.py --queries 500 --seeds 1 --trees 30

Each query has 20 rows with a true relevance from 0 to 4.  A weak ranking (a noisy version of one
feature) gives their order.  A user examines a row with probability ``1 / position**strength``, and
clicks an examined row with a probability that increases with relevance (Joachims, Swaminathan and
Schnabel 2017).  Models are trained on the clicks.  Their score is NDCG@10 of new queries with the
true relevance.

``bias`` is the error of the learned examination probabilities, relative to the first position:
the mean of ``|log(learned / true)|`` over the positions.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hedgerow import HedgerowRanker
from hedgerow.metrics.queries import query_rows
from hedgerow.metrics.ranking import ranking_metric

ROWS = 20


@dataclass(frozen=True)
class Clicks:
    """Rows shown to users.  The rows of a query are adjacent, in the order shown."""

    X: np.ndarray
    relevance: np.ndarray
    qid: np.ndarray
    position: np.ndarray
    clicked: np.ndarray
    looked: np.ndarray


@dataclass(frozen=True)
class Found:
    """A model, and the examination probabilities that it has learned, if any."""

    predict: Callable[[np.ndarray], np.ndarray]
    looked: np.ndarray | None = None


def simulate(n_queries: int, seed: int, strength: float = 1.0) -> Clicks:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_queries, ROWS, 10))
    worth = X[..., 0] + X[..., 1] * X[..., 2] + 0.5 * np.sin(3 * X[..., 3])
    worth = worth + 0.5 * rng.normal(size=worth.shape)
    place = worth.argsort(axis=1).argsort(axis=1) / ROWS
    relevance = np.searchsorted([0.5, 0.75, 0.85, 0.95], place, side="right").astype(float)
    shown = np.argsort(-(X[..., 4] + 0.3 * worth + rng.normal(size=worth.shape)), axis=1)
    X = np.take_along_axis(X, shown[..., None], axis=1)
    relevance = np.take_along_axis(relevance, shown, axis=1)
    looked = 1.0 / np.arange(1, ROWS + 1) ** strength
    chance = 0.1 + 0.9 * (2.0**relevance - 1.0) / 15.0
    clicked = (rng.random(relevance.shape) < looked * chance).astype(float)
    qid = np.repeat(np.arange(n_queries), ROWS)
    position = np.tile(np.arange(ROWS), n_queries)
    return Clicks(X.reshape(-1, 10), relevance.ravel(), qid, position, clicked.ravel(), looked)


def hedgerow(data: Clicks, trees: int, label: str, positions: bool, objective: Any) -> Found:
    model = HedgerowRanker(
        objective=objective, n_estimators=trees, reg_lambda=0.0, early_stopping=False, n_jobs=1
    )
    position = data.position if positions else None
    model.fit(data.X, getattr(data, label), qid=data.qid, position=position)
    bias = np.array(list(model.position_bias_.values())) if positions else None
    return Found(model.predict, None if bias is None else np.exp(bias - bias[0]))


def lightgbm(data: Clicks, trees: int, positions: bool) -> Found:
    import lightgbm

    sizes = np.unique(data.qid, return_counts=True)[1]
    position = data.position if positions else None
    rows = lightgbm.Dataset(data.X, data.clicked, group=sizes, position=position)
    params = {"objective": "lambdarank", "verbosity": -1, "num_threads": 1}
    return Found(lightgbm.train(params, rows, trees).predict)


def xgboost(data: Clicks, trees: int, positions: bool) -> Found:
    """Train unbiased LambdaMART (Hu et al. 2019); the order of the rows gives the position."""
    import xgboost

    model = xgboost.XGBRanker(
        objective="rank:ndcg", n_estimators=trees, max_leaves=31, max_depth=0, n_jobs=1,
        grow_policy="lossguide", learning_rate=0.1, reg_lambda=0.0, min_child_weight=1e-3,
        lambdarank_num_pair_per_sample=ROWS, lambdarank_unbiased=positions,
    )  # fmt: skip
    model.fit(data.X, data.clicked, qid=data.qid)
    if not positions:
        return Found(model.predict)
    text = json.loads(model.get_booster().save_config())
    found = np.array(text["learner"]["objective"]["ti+"], dtype=float)
    return Found(model.predict, found[:ROWS] / found[0])


WAYS: dict[str, Callable[[Clicks, int], Found]] = {
    "true relevance": lambda d, n: hedgerow(d, n, "relevance", False, "lambdarank"),
    "Hedgerow": lambda d, n: hedgerow(d, n, "clicked", False, "lambdarank"),
    "Hedgerow, position": lambda d, n: hedgerow(d, n, "clicked", True, "lambdarank"),
    "Hedgerow rank_pairwise": lambda d, n: hedgerow(d, n, "clicked", False, "rank_pairwise"),
    "Hedgerow rank_pairwise, position": lambda d, n: hedgerow(
        d, n, "clicked", True, "rank_pairwise"
    ),
    "Hedgerow rank_xendcg": lambda d, n: hedgerow(d, n, "clicked", False, "rank_xendcg"),
    "Hedgerow rank_xendcg, position": lambda d, n: hedgerow(d, n, "clicked", True, "rank_xendcg"),
    "LightGBM": lambda d, n: lightgbm(d, n, False),
    "LightGBM, position": lambda d, n: lightgbm(d, n, True),
    "XGBoost": lambda d, n: xgboost(d, n, False),
    "XGBoost, unbiased": lambda d, n: xgboost(d, n, True),
}


def compare(n_queries: int, seeds: int, trees: int, strength: float) -> None:
    """Print the table of all ways."""
    metric = ranking_metric("ndcg@10")
    assert metric is not None
    scores: dict[str, list[float]] = {way: [] for way in WAYS}
    biases: dict[str, list[float]] = {way: [] for way in WAYS}
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    for seed in range(seeds):
        data = simulate(n_queries, seed, strength)
        test = simulate(500, 1_000 + seed, strength)
        on_test = metric.of_queries(query_rows(test.qid, len(test.qid)))
        for way, fit in WAYS.items():
            start = time.process_time()
            found = fit(data, trees)
            seconds[way].append(time.process_time() - start)
            scores[way].append(on_test(test.relevance, found.predict(test.X)))
            if found.looked is not None:
                biases[way].append(mean_distance(found.looked, data.looked))
    print(f"\n{n_queries:,} queries of {ROWS} rows, {seeds} seeds, {trees} trees, "
          f"strength {strength:g}\n")  # fmt: skip
    print("| | NDCG@10 | bias | processor seconds |")
    print("|---|--:|--:|--:|")
    for way in WAYS:
        bias = f"{statistics.mean(biases[way]):.3f}" if biases[way] else ""
        mean, time_ = statistics.mean(scores[way]), statistics.median(seconds[way])
        print(f"| {way} | {mean:.4f} | {bias} | {time_:.2f} |", flush=True)


def mean_distance(learned: Any, true: np.ndarray) -> float:
    """Return the mean of ``|log(learned / true)|``; values below 1e-6 count as 1e-6."""
    return float(np.abs(np.log(np.maximum(learned, 1e-6) / (true / true[0]))).mean())


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--queries", type=int, default=2_000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--strength", type=float, default=1.0)
    return parser


def main() -> None:
    options = build_parser().parse_args()
    compare(options.queries, options.seeds, options.trees, options.strength)


if __name__ == "__main__":
    main()
