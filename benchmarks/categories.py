"""Compare quality and time on tables with categories: Hedgerow, LightGBM and CatBoost.

::

    python benchmarks/categories.py                       # all tables, a table in Markdown
    python benchmarks/categories.py --sets amazon --peers "hedgerow,hedgerow 1 copies"
    python benchmarks/categories.py --processor --peers "hedgerow,hedgerow sets,lightgbm"

All libraries get the same frame of text and numbers.  The time includes what each does with it
(codes, ``Dataset``, ``Pool``).  Models have 100 trees at learning rate 0.1, no early stopping, and
the library's defaults otherwise.  ``catboost default`` is CatBoost without any settings: 1,000
trees, and a learning rate that depends on the data.  Every peer runs in its own process, once
untimed, then ``--rounds`` times or until ``--seconds`` are over.  Scores are log loss or root mean
squared error on test rows.  The target is the log of the price for diamonds, and has standard
deviation 1 in the suite.

``--processor`` gives processor seconds on one thread, and the smallest of the rounds: other work of
the machine changes this figure least.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from machine import describe
from names import names_in

_ROOT = Path(
    os.environ.get("HEDGEROW_TEST_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data"
)
TREES, RATE, WARM_ROWS = 100, 0.1, 1000
FEWEST_ROWS = 2000


class Problem:
    """Training rows, test rows, and the categorical columns."""

    def __init__(self, X: pd.DataFrame, y: np.ndarray, new: np.ndarray, cats: list[str]) -> None:
        X = X.assign(**{c: _text(X[c]) for c in cats}).reset_index(drop=True)
        self.cats = cats
        self.X, self.y = X[~new].reset_index(drop=True), y[~new]
        self.X_new, self.y_new = X[new].reset_index(drop=True), y[new]
        self.binary = set(np.unique(y)) <= {0, 1}

    def score(self, prediction: np.ndarray) -> float:
        y = self.y_new
        if not self.binary:
            return float(np.sqrt(np.mean((y - prediction) ** 2)))
        p = np.clip(prediction, 1e-15, 1 - 1e-15)
        return float(-np.mean(np.where(y == 1, np.log(p), np.log(1 - p))))


def _text(column: pd.Series) -> pd.Series:
    return column.astype(object).map(lambda v: str(v) if pd.notna(v) else None)


def _fifth(n_rows: int) -> np.ndarray:
    """Return the rows whose hashed number falls into the first fifth."""
    return (np.arange(n_rows) * 2654435761 % 2**32 * 5 >> 32) == 0


def _parts(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    train, test = (pd.read_parquet(_ROOT / name / f"{part}.parquet") for part in ("train", "test"))
    new = np.arange(len(train) + len(test)) >= len(train)
    return pd.concat([train.astype(object), test.astype(object)]), new


def amazon() -> Problem:
    table, new = _parts("amazon")
    X = table.drop(columns="ACTION")
    return Problem(X, table["ACTION"].to_numpy(dtype=int), new, list(X))


def adult() -> Problem:
    table, new = _parts("adult")
    cats = list(pd.read_parquet(_ROOT / "adult" / "test.parquet").select_dtypes("category"))
    cats.remove("income")
    X = table.drop(columns="income")
    X = X.assign(**{c: X[c].astype(float) for c in X if c not in cats})
    return Problem(X, (table["income"] == ">50K").to_numpy(dtype=int), new, cats)


def weather_aus() -> Problem:
    """Load the weather of Australia; the test rows are the last fifth of the days."""
    table = pd.read_parquet(_ROOT / "weather_aus" / "data.parquet")
    day = table["Date"].astype(str)
    table = table.assign(month=day.str[5:7].astype(float)).iloc[np.argsort(day, kind="stable")]
    y = (table["RainTomorrow"].astype(str) == "Yes").to_numpy(dtype=int)
    cats = ["Location", "WindGustDir", "WindDir9am", "WindDir3pm", "RainToday"]
    new = np.arange(len(y)) >= int(0.8 * len(y))
    return Problem(table.drop(columns=["Date", "RainTomorrow"]), y, new, cats)


def diamonds() -> Problem:
    table = pd.read_parquet(_ROOT / "diamonds" / "data.parquet")
    y = np.log(table["price"].to_numpy(dtype=float))
    return Problem(table.drop(columns="price"), y, _fifth(len(y)), ["cut", "color", "clarity"])


def _load_suite(name: str, cats: list[str], task: str) -> Callable[[], Problem]:
    def load() -> Problem:
        table = pd.read_csv(_ROOT / "suite" / f"{name}.csv.gz")
        y = table["target"]
        if task == "binary":
            target = (y == sorted(y.unique())[-1]).to_numpy(dtype=int)
        else:
            target = ((y - y.mean()) / y.std()).to_numpy()
        return Problem(table.drop(columns="target"), target, _fifth(len(y)), cats)

    return load


def problems() -> dict[str, Callable[[], Problem]]:
    """Return the loader of each available table by name."""
    found: dict[str, Callable[[], Problem]] = {
        load.__name__: load
        for load in (amazon, adult, weather_aus, diamonds)
        if (_ROOT / load.__name__).is_dir()
    }
    index = _ROOT / "suite" / "index.csv"
    if index.exists():
        with index.open() as file:
            for row in csv.DictReader(file):
                wanted = int(row["n_cat"]) > 0 and int(row["rows"]) >= FEWEST_ROWS
                if wanted and row["task"] != "multiclass":
                    cats = row["cat_columns"].split("|")
                    found[row["name"]] = _load_suite(row["name"], cats, row["task"])
    return found


# -- peers: fit rows, and return a function that predicts ---------------------------

Predict = Callable[[pd.DataFrame], np.ndarray]


def _hedgerow(X: pd.DataFrame, y: np.ndarray, problem: Problem, **more: Any) -> Predict:
    from hedgerow import HedgerowClassifier, HedgerowRegressor

    kind = HedgerowClassifier if problem.binary else HedgerowRegressor
    model = kind(n_estimators=TREES, learning_rate=RATE, early_stopping=False, **more).fit(X, y)
    if problem.binary:
        return lambda new: model.predict_proba(new)[:, 1]
    return model.predict


def _sets(X: pd.DataFrame, y: np.ndarray, problem: Problem) -> Predict:
    return _hedgerow(X, y, problem, target_statistics=False)


def _statistics(X: pd.DataFrame, y: np.ndarray, problem: Problem) -> Predict:
    return _hedgerow(X, y, problem, target_statistics=True)


def _singles(X: pd.DataFrame, y: np.ndarray, problem: Problem) -> Predict:
    return _hedgerow(X, y, problem, advanced={"statistics_order": 1})


def _copies(most: int) -> Callable[[pd.DataFrame, np.ndarray, Problem], Predict]:
    def fit(X: pd.DataFrame, y: np.ndarray, problem: Problem) -> Predict:
        from hedgerow.boosting.row_data import statistics as ordered

        ordered.MOST_COPIES = most
        return _hedgerow(X, y, problem)

    return fit


def _lightgbm(X: pd.DataFrame, y: np.ndarray, problem: Problem) -> Predict:
    import lightgbm

    levels = {c: sorted(X[c].dropna().unique()) for c in problem.cats}

    def coded(table: pd.DataFrame) -> pd.DataFrame:
        known = {c: table[c].where(table[c].isin(levels[c])) for c in problem.cats}
        as_codes = {c: pd.Categorical(known[c], categories=levels[c]) for c in problem.cats}
        return table.assign(**as_codes)

    objective = "binary" if problem.binary else "regression"
    params = {"objective": objective, "learning_rate": RATE, "verbose": -1}
    return _make_predict(lightgbm.train(params, lightgbm.Dataset(coded(X), y), TREES), coded)


def _make_predict(model: Any, coded: Callable[[pd.DataFrame], pd.DataFrame]) -> Predict:
    return lambda new: model.predict(coded(new))


def _catboost(X: pd.DataFrame, y: np.ndarray, problem: Problem, **more: Any) -> Predict:
    import catboost

    def pool(table: pd.DataFrame, target: np.ndarray | None = None) -> Any:
        filled = table.assign(**{c: table[c].fillna("missing") for c in problem.cats})
        return catboost.Pool(filled, target, cat_features=problem.cats)

    kind = catboost.CatBoostClassifier if problem.binary else catboost.CatBoostRegressor
    model = kind(verbose=False, allow_writing_files=False, **more).fit(pool(X, y))
    if problem.binary:
        return lambda new: model.predict_proba(pool(new))[:, 1]
    return lambda new: model.predict(pool(new))


def _catboost_100(X: pd.DataFrame, y: np.ndarray, problem: Problem) -> Predict:
    return _catboost(X, y, problem, iterations=TREES, learning_rate=RATE)


PEERS: dict[str, Callable[[pd.DataFrame, np.ndarray, Problem], Predict]] = {
    "hedgerow": _hedgerow,
    "hedgerow sets": _sets,
    "hedgerow statistics": _statistics,
    "lightgbm": _lightgbm,
    "catboost": _catboost_100,
    "catboost default": _catboost,
}
VARIANTS = {
    "hedgerow singles": _singles,
    **{f"hedgerow {most} copies": _copies(most) for most in (1, 2, 6)},
}
"""Peers that run only if ``--peers`` names them."""


def child(
    peer: str, name: str, rounds: int, seconds: float, clock: Callable[[], float]
) -> dict[str, Any]:
    """Return the score and the times of one peer on one table."""
    problem, fit = problems()[name](), (PEERS | VARIANTS)[peer]
    if peer != "catboost default":
        step = max(1, len(problem.y) // WARM_ROWS)
        fit(problem.X[::step], problem.y[::step], problem)
        if peer.startswith("hedgerow"):
            fit(problem.X, problem.y, problem)  # compiles kernels that a thousand rows do not use
    times: list[float] = []
    while len(times) < rounds and sum(times) < seconds:
        start = clock()
        predict = fit(problem.X, problem.y, problem)
        times.append(clock() - start)
    return {"score": problem.score(predict(problem.X_new)), "seconds": times}


def run(peer: str, name: str, options: argparse.Namespace) -> dict[str, Any] | None:
    """Call :func:`child` in its own process; return None if it takes too long."""
    arguments = ["--child", peer, name, "--rounds", str(options.rounds)]
    threads = {"OMP_NUM_THREADS": "1"} if options.processor else {}
    arguments += ["--processor"] if options.processor else []
    try:
        done = subprocess.run(
            [sys.executable, __file__, *arguments, "--seconds", str(options.seconds)],
            stdout=subprocess.PIPE, text=True, check=True, timeout=60 * options.seconds,
            env=os.environ | threads,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return None
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def table(
    results: dict[str, dict[str, dict[str, Any] | None]], middle: Callable[[list[float]], float]
) -> Iterator[str]:
    """Return lines of Markdown: score and ``middle`` seconds of each peer, best score in bold."""
    peers = list(next(iter(results.values())))
    yield "| table | " + " | ".join(peers) + " |"
    yield "|---|" + "---|" * len(peers)
    for name, by_peer in results.items():
        scores = [answer["score"] for answer in by_peer.values() if answer]
        cells = []
        for answer in by_peer.values():
            if answer is None:
                cells.append("too long")
                continue
            score = f"{answer['score']:.4f}"
            best = answer["score"] == min(scores)
            seconds = middle(answer["seconds"])
            cells.append(f"{f'**{score}**' if best else score} in {seconds:.2f} s")
        yield f"| {name} | " + " | ".join(cells) + " |"
    if "lightgbm" in peers:
        for peer in peers:
            answers = [(by[peer], by["lightgbm"]) for by in results.values()]
            both = [(own, other) for own, other in answers if own and other]
            ratios = [own["score"] / other["score"] for own, other in both]
            ahead = sum(ratio < 1.0 for ratio in ratios)
            pairs = [(middle(own["seconds"]), middle(other["seconds"])) for own, other in both]
            faster = statistics.median(other / own for own, other in pairs)
            in_sum = sum(other for _, other in pairs) / sum(own for own, _ in pairs)
            yield (
                f"\n{peer}: {statistics.median(ratios):.4f} times LightGBM's score (median of "
                f"{len(ratios)}), better on {ahead}; {faster:.2f} times as fast (median), "
                f"{in_sum:.2f} times in sum"
            )


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--sets", help="names separated by commas; default: all available")
    parser.add_argument(
        "--peers",
        type=names_in(PEERS | VARIANTS),
        default=list(PEERS),
        help=f"any of {', '.join(PEERS | VARIANTS)}; default: the first six",
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--seconds", type=float, default=10.0, help="start no round after this many seconds"
    )
    parser.add_argument(
        "--processor", action="store_true", help="measure processor time on one thread"
    )
    parser.add_argument("--child", nargs=2, metavar=("PEER", "SET"), help=argparse.SUPPRESS)
    return parser


def main() -> None:
    options = build_parser().parse_args()
    if options.child:
        peer, name = options.child
        clock = time.process_time if options.processor else time.perf_counter
        print(json.dumps(child(peer, name, options.rounds, options.seconds, clock)))
        return
    available = list(problems())
    names = options.sets.split(",") if options.sets else available
    if not set(names) <= set(available):
        raise SystemExit(f"--sets={options.sets}: available are {', '.join(available)}")
    print(describe(), flush=True)
    results: dict[str, dict[str, dict[str, Any] | None]] = {}
    for name in names:
        results[name] = {}
        for peer in options.peers:
            results[name][peer] = answer = run(peer, name, options)
            print(f"  {name:24s} {peer:20s} {answer}", file=sys.stderr, flush=True)
    print("\n".join(table(results, min if options.processor else statistics.median)))


if __name__ == "__main__":
    main()
