"""Compare rankers of Hedgerow, LightGBM and XGBoost: NDCG@10 and fit time.

::

    python benchmarks/ranking.py                  # all tables: a few minutes
    python benchmarks/ranking.py generated --rounds 2 --threads 1

Settings are equal: 100 trees of 31 leaves, learning rate 0.1, 255 bins, no penalty on leaf values.
The objectives are those with the most in common (LambdaRank of the first 30 ranks).  Real tables
have five folds of whole queries; the generated table depends on a seed.  The same function scores
the test queries of all libraries.  The libraries take turns.  Times are medians of the fits,
without the first one.
"""

from __future__ import annotations

import argparse
import gzip
import os
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow import HedgerowRanker
from hedgerow.metrics.queries import query_rows
from hedgerow.metrics.ranking import ranking_metric
from names import name_in

Rows = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Features, labels and queries; the rows of a query are adjacent."""

FOLDS = 5


@dataclass(frozen=True)
class Settings:
    """The settings of every library."""

    threads: int
    trees: int = 100
    leaves: int = 31
    learning_rate: float = 0.1
    truncation: int = 30


def generated(seed: int, n_queries: int = 2_500, rows: int = 60, n_features: int = 30) -> Rows:
    """Generate labels 0 to 4 by the rank of a noisy nonlinear score with a level per query."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_queries * rows, n_features)).astype(np.float32)
    qid = np.repeat(np.arange(n_queries), rows)
    X[:, 20:] += rng.normal(size=(n_queries, n_features - 20)).astype(np.float32)[qid]
    score = X[:, 0] + X[:, 1] * X[:, 2] + np.sin(2 * X[:, 3]) + 0.5 * (X[:, 4] > X[:, 20])
    score += 0.4 * X[:, 5] * (X[:, 6] > 0) + 1.2 * rng.normal(size=len(X))
    place = np.argsort(np.argsort(score.reshape(n_queries, rows), axis=1), axis=1).ravel()
    y = np.searchsorted([0.5, 0.75, 0.9, 0.97], place / rows, side="right").astype(float)
    return X, y, qid


def read_libsvm(path: Path, sizes: Path | None = None) -> Rows:
    """Read a file with ``qid:``, or with a second file that has the sizes of the queries."""
    labels, queries, cells = [], [], []
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        for line in file:
            label, *parts = line.split()
            labels.append(float(label))
            if parts and parts[0].startswith("qid:"):
                queries.append(parts.pop(0))
            cells.append([part.split(":") for part in parts])
    n_features = 1 + max(int(column) for row in cells for column, _ in row)
    X = np.zeros((len(cells), n_features))
    for number, row in enumerate(cells):
        for column, value in row:
            X[number, int(column)] = float(value)
    if sizes is not None:
        counts = np.loadtxt(sizes, dtype=np.int64)
        return X, np.array(labels), np.repeat(np.arange(len(counts)), counts)
    return X, np.array(labels), np.unique(queries, return_inverse=True)[1]


def joined(parts: list[Rows]) -> Rows:
    """Concatenate the rows of several files and keep their queries distinct."""
    width = max(X.shape[1] for X, _, _ in parts)
    X = np.concatenate([np.pad(X, ((0, 0), (0, width - X.shape[1]))) for X, _, _ in parts])
    above = np.cumsum([0, *(int(qid.max()) + 1 for _, _, qid in parts)])
    qid = np.concatenate([qid + first for (_, _, qid), first in zip(parts, above, strict=False)])
    return X, np.concatenate([y for _, y, _ in parts]), qid


def data_folder() -> Path:
    chosen = os.environ.get("HEDGEROW_TEST_DATA")
    return Path(chosen) if chosen else Path(__file__).resolve().parents[2] / "shared" / "data"


def mslr() -> Rows:
    folder = data_folder() / "mslr_sample"
    return joined([read_libsvm(folder / name) for name in ("train.txt.gz", "test.txt.gz")])


def lightgbm_example() -> Rows:
    folder = data_folder() / "lightgbm_examples" / "lambdarank"
    names = ("rank.train", "rank.test")
    return joined([read_libsvm(folder / name, folder / f"{name}.query") for name in names])


def folds(rows: Rows) -> Iterator[tuple[Rows, Rows]]:
    """Yield the training and test rows of five folds."""
    X, y, qid = rows
    fold = np.random.default_rng(0).permutation(int(qid.max()) + 1)[qid] % FOLDS
    order = np.argsort(qid, kind="stable")
    X, y, qid, fold = X[order], y[order], qid[order], fold[order]
    for number in range(FOLDS):
        kept, unseen = fold != number, fold == number
        yield (X[kept], y[kept], qid[kept]), (X[unseen], y[unseen], qid[unseen])


def seeds() -> Iterator[tuple[Rows, Rows]]:
    """Yield generated rows of 2,000 training and 500 test queries for five seeds."""
    for seed in range(FOLDS):
        X, y, qid = generated(seed)
        kept = qid < 2_000
        yield (X[kept], y[kept], qid[kept]), (X[~kept], y[~kept], qid[~kept])


TABLES: dict[str, Callable[[], Iterator[tuple[Rows, Rows]]]] = {
    "mslr": lambda: folds(mslr()),
    "lightgbm": lambda: folds(lightgbm_example()),
    "generated": seeds,
}


def fit_hedgerow(objective: Any, rows: Rows, s: Settings) -> Callable[[np.ndarray], np.ndarray]:
    model = HedgerowRanker(
        objective=objective, n_estimators=s.trees, max_leaves=s.leaves, reg_lambda=0.0,
        learning_rate=s.learning_rate, early_stopping=False, n_jobs=s.threads,
    )  # fmt: skip
    return model.fit(rows[0], rows[1], qid=rows[2]).predict


def fit_lightgbm(objective: str, rows: Rows, s: Settings) -> Callable[[np.ndarray], np.ndarray]:
    import lightgbm

    model = lightgbm.LGBMRanker(
        objective=objective, n_estimators=s.trees, num_leaves=s.leaves, verbosity=-1,
        learning_rate=s.learning_rate, n_jobs=s.threads, max_bin=255,
    )  # fmt: skip
    counts = np.unique(rows[2], return_counts=True)[1]
    return model.fit(rows[0], rows[1], group=counts).predict


def fit_xgboost(objective: str, rows: Rows, s: Settings) -> Callable[[np.ndarray], np.ndarray]:
    import xgboost

    model = xgboost.XGBRanker(
        objective=objective, n_estimators=s.trees, max_leaves=s.leaves, max_depth=0,
        grow_policy="lossguide", learning_rate=s.learning_rate, tree_method="hist", max_bin=255,
        reg_lambda=0.0, min_child_weight=1e-3, n_jobs=s.threads,
        lambdarank_num_pair_per_sample=s.truncation,
    )  # fmt: skip
    return model.fit(rows[0], rows[1], qid=rows[2]).predict


PEERS: dict[str, Callable[[Rows, Settings], Any]] = {
    "Hedgerow lambdarank": lambda rows, s: fit_hedgerow("lambdarank", rows, s),
    "LightGBM lambdarank": lambda rows, s: fit_lightgbm("lambdarank", rows, s),
    "XGBoost rank:ndcg": lambda rows, s: fit_xgboost("rank:ndcg", rows, s),
    "Hedgerow rank_xendcg": lambda rows, s: fit_hedgerow("rank_xendcg", rows, s),
    "LightGBM rank_xendcg": lambda rows, s: fit_lightgbm("rank_xendcg", rows, s),
    "Hedgerow rank_map": lambda rows, s: fit_hedgerow("rank_map", rows, s),
    "Hedgerow rank_pairwise": lambda rows, s: fit_hedgerow("rank_pairwise", rows, s),
}


def compare(name: str, rounds: int, settings: Settings) -> None:
    """Print the table of one data set."""
    metric = ranking_metric("ndcg@10")
    assert metric is not None
    scores: dict[str, list[float]] = {peer: [] for peer in PEERS}
    seconds: dict[str, list[float]] = {peer: [] for peer in PEERS}
    shape = ""
    for number, (train, test) in enumerate(TABLES[name]()):
        queries = query_rows(test[2], len(test[2]))
        shape = f"{len(train[1]):,} rows of {len(np.unique(train[2])):,} queries"
        for turn in range(rounds + 1 if number == 0 else rounds):
            for peer, fit in PEERS.items():
                start = time.perf_counter()
                predict = fit(train, settings)
                if number > 0 or turn > 0:
                    seconds[peer].append(time.perf_counter() - start)
                if turn == 0:
                    scores[peer].append(metric.of_queries(queries)(test[1], predict(test[0])))
    print(f"\n{name}: {shape}, {FOLDS} folds or seeds, {settings.threads} thread(s)\n")
    print("| | NDCG@10 | standard error | fit, seconds |")
    print("|---|--:|--:|--:|")
    for peer, found in scores.items():
        error = statistics.stdev(found) / len(found) ** 0.5
        print(f"| {peer} | {statistics.mean(found):.4f} | {error:.4f} | "
              f"{statistics.median(seconds[peer]):.3f} |", flush=True)  # fmt: skip


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "tables", nargs="*", type=name_in(TABLES), help=f"any of {', '.join(TABLES)} (default: all)"
    )
    parser.add_argument("--rounds", type=int, default=1, help="fits of each fold (default 1)")
    parser.add_argument("--threads", type=int, default=2, help="threads (default 2)")
    return parser


def main() -> None:
    options = build_parser().parse_args()
    for name in options.tables or TABLES:
        compare(name, options.rounds, Settings(options.threads))


if __name__ == "__main__":
    main()
