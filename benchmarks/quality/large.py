"""Compare the defaults of libraries on large tables: scores, processor seconds and rounds.

::

    python benchmarks/quality/large.py                                  # computes what is missing
    python benchmarks/quality/large.py --tables flights_300k --models hedgerow lightgbm
    python benchmarks/quality/large.py --report                         # prints stored results

Hedgerow's defaults have more rounds than those of the other libraries, and start with
cross-validation.  So the table has the seconds of a fit, and the seconds that LightGBM's default
would take for the same number of rounds.  Each fit has its own process.  A line of
``results/large.jsonl`` is one fit.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import models
import numpy as np
import other_tasks
import pandas as pd
import tables
from other_tasks import Rows
from own_process import run_in_process
from sklearn.datasets import make_classification

RESULTS = Path(__file__).with_name("results") / "large.jsonl"
N_ROUNDS = {"lightgbm": 100, "xgboost": 100, "catboost": 1_000}
"""Default rounds of the libraries.  CatBoost does not stop earlier without validation rows."""


def _load_flights(n_rows: int, task: str, is_later: bool) -> tuple[Rows, Rows]:
    """Load delays of flights; the test rows are a random fifth, or the last fifth by date."""
    frame = pd.read_parquet(tables.ROOT / "flights3m" / "data.parquet")
    if n_rows < len(frame):
        frame = frame.sample(n_rows, random_state=0)
    frame = frame.sort_values("date", kind="stable").reset_index(drop=True)
    date = frame["date"].dt
    X = pd.DataFrame({
        "minute": date.hour * 60.0 + date.minute, "weekday": date.dayofweek * 1.0,
        "day": date.dayofyear * 1.0, "distance": frame["distance"] * 1.0,
        "origin": frame["origin"].astype(str), "destination": frame["destination"].astype(str),
    })  # fmt: skip
    delay = frame["delay"].to_numpy(dtype=np.float64)
    y = (delay >= 15).astype(np.int64) if task == "binary" else np.clip(delay, -60, 180)
    later = np.arange(len(y)) >= int(0.8 * len(y))
    return _split(Rows(X, y), later if is_later else tables.assign_folds(len(y)) == 0)


def _load_claims() -> tuple[Rows, Rows]:
    rows = other_tasks.load_claims("poisson", 678_013)
    return _split(rows, tables.assign_folds(len(rows.y)) == 0)


def _load_lists() -> tuple[Rows, Rows]:
    rows = other_tasks.load_svm_lists("mslr_sample", ["train.txt.gz", "test.txt.gz"])
    assert rows.query is not None
    return _split(rows, rows.query >= 18)


def _generate(n_rows: int) -> tuple[Rows, Rows]:
    """Generate classes from 20 columns with smooth effects and interactions; 11 are noise."""
    rng = np.random.default_rng(n_rows)
    X = rng.normal(size=(n_rows + 100_000, 20))
    score = X[:, 0] + np.sin(2 * X[:, 1]) + X[:, 2] * X[:, 3] + np.abs(X[:, 4]) - 0.8
    score += 0.5 * X[:, 5] * (X[:, 6] > 0) + 0.3 * X[:, 7] ** 2 * np.sign(X[:, 8])
    y = (rng.uniform(size=len(X)) < 1 / (1 + np.exp(-score))).astype(np.int64)
    return _split(Rows(other_tasks.make_frame(X), y), np.arange(len(y)) >= n_rows)


def _generate_kind(kind: str) -> tuple[Rows, Rows]:
    """Generate 220,000 training rows of two classes: steps, noisy smooth sums, or clusters."""
    n_rows, n_test, rng = 220_000, 50_000, np.random.default_rng(len(kind))
    n = n_rows + n_test
    if kind == "steps":
        X, score = rng.uniform(size=(n, 12)), np.zeros(n)
        for _ in range(60):
            columns, cuts = rng.choice(12, 3, replace=False), rng.uniform(0.2, 0.8, 3)
            score += rng.normal() * ((X[:, columns] > cuts) == rng.integers(0, 2, 3)).all(axis=1)
    elif kind == "sums":
        X = rng.normal(size=(n, 15))
        score = 0.5 * np.sin(2 * X[:, 0]) + 0.4 * X[:, 1] + 0.3 * X[:, 2] ** 2 - 0.3
        score += 0.3 * np.tanh(2 * X[:, 3])
    else:
        X, y = make_classification(n, 25, n_informative=10, n_redundant=4, n_clusters_per_class=6,
                                   flip_y=0.03, class_sep=0.8, random_state=3)  # fmt: skip
        return _split(Rows(other_tasks.make_frame(X), y), np.arange(n) >= n_rows)
    y = (rng.uniform(size=n) < 1 / (1 + np.exp(-1.5 * score))).astype(np.int64)
    return _split(Rows(other_tasks.make_frame(X), y), np.arange(n) >= n_rows)


def _generate_stores() -> tuple[Rows, Rows]:
    """Generate sales of 1,115 stores on 942 days; each store has its own effects of the day."""
    n_rows, n_test, n_stores, rng = 844_000, 100_000, 1_115, np.random.default_rng(0)
    n = n_rows + n_test
    store, day = rng.integers(0, n_stores, n), rng.integers(0, 942, n)
    weekday, week, of_year = day % 7, day // 7, 2.0 * np.pi * (day % 365) / 365.0
    promotion = (week % 2 == 0) & (weekday < 5)
    kind = rng.choice(list("abcd"), n_stores, p=[0.54, 0.02, 0.13, 0.31])
    distance = np.exp(rng.normal(7.6, 1.2, n_stores)).round(-1)
    season = rng.normal(0.1, 0.05, (n_stores, 2))
    sales = rng.normal(8.6, 0.35, n_stores)[store]
    sales += rng.normal(0.0, 0.1, (n_stores, 7))[store, weekday]
    sales += rng.normal(0.3, 0.08, n_stores)[store] * promotion
    sales += rng.normal(0.0, 0.05, n_stores)[store] * day / 365.0
    sales += season[store, 0] * np.sin(of_year) + season[store, 1] * np.cos(of_year)
    y = np.exp(sales + 0.1 * rng.normal(size=n)).round()
    X = pd.DataFrame({
        "store": store * 1.0, "weekday": weekday * 1.0, "promotion": promotion * 1.0,
        "year": (day // 365) * 1.0, "day": (day % 365) * 1.0, "week": (week % 52) * 1.0,
        "kind": kind[store], "distance": distance[store],
        "other": rng.integers(0, 2, n) * 1.0, "noise": rng.normal(size=n),
    })  # fmt: skip
    return _split(Rows(X, y), np.arange(n) >= n_rows)


def _generate_wide() -> tuple[Rows, Rows]:
    """Generate 200 training rows of two classes and 2,000 columns, of which 20 matter."""
    X, y = make_classification(1_200, 2_000, n_informative=20, random_state=0)
    return _split(Rows(other_tasks.make_frame(X), y), np.arange(len(y)) >= 200)


def _split(rows: Rows, is_test: np.ndarray) -> tuple[Rows, Rows]:
    return rows.take(~is_test), rows.take(is_test)


TABLES: dict[str, tuple[str, Callable[[], tuple[Rows, Rows]]]] = {
    "mslr_sample": ("ranking", _load_lists),
    "flights_300k": ("binary", lambda: _load_flights(300_000, "binary", False)),
    "delays_300k": ("regression", lambda: _load_flights(300_000, "regression", False)),
    "flights_300k_later": ("binary", lambda: _load_flights(300_000, "binary", True)),
    "delays_300k_later": ("regression", lambda: _load_flights(300_000, "regression", True)),
    "claims": ("poisson", _load_claims),
    "generated_300k": ("binary", lambda: _generate(300_000)),
    "generated_1m": ("binary", lambda: _generate(1_000_000)),
    "steps": ("binary", lambda: _generate_kind("steps")),
    "sums": ("binary", lambda: _generate_kind("sums")),
    "clusters": ("binary", lambda: _generate_kind("clusters")),
    "stores_844k": ("regression", _generate_stores),
    "wide_200": ("binary", _generate_wide),
    "flights_3m": ("binary", lambda: _load_flights(3_000_000, "binary", False)),
}


def fit_model(fit: tuple[str, str, int], rows: tuple[Rows, Rows]) -> dict[str, Any]:
    """Fit one model on one table, and return its result."""
    model, task, n_threads = fit
    train, test = rows
    library, parameters = models.parse(model)
    is_other_task = task in ("ranking", "poisson")
    problem = None
    if not is_other_task:
        cats = tables.text_columns(train.X, "")
        kind: Any = task
        problem = tables.Problem(kind, train.X, train.y, test.X, test.y, cats)
    began, cpu_start = time.perf_counter(), time.process_time()
    if problem is None:
        predict: Any = other_tasks.LIBRARIES[library](task, train, parameters)
    else:
        predict = models.fit(model, problem, n_threads)
    seconds, elapsed = time.process_time() - cpu_start, time.perf_counter() - began
    n_rounds = predict.__self__.n_iter_ if library == "hedgerow" else N_ROUNDS[library]
    prediction = np.asarray(predict(test.X), dtype=np.float64)
    found = (
        other_tasks.score(task, test, prediction) if problem is None else problem.score(prediction)
    )
    chosen = predict.__self__.chosen_params_ if library == "hedgerow" else {}
    shown = {key: value for key, value in chosen.items() if key != "tried"}
    return {"score": found, "seconds": seconds, "elapsed": elapsed, "rounds": n_rounds,
            "chosen": json.loads(json.dumps(shown, default=str))}  # fmt: skip


def _run_on_table(fit: tuple[str, str, int], name: str) -> dict[str, Any]:
    return fit_model(fit, TABLES[name][1]())


def load_results(path: Path, names: list[str]) -> dict[tuple[str, str, int], dict[str, Any]]:
    """Return the stored results of the models' current versions, by model, table and threads."""
    versions = {name: models.get_version(name) for name in names}
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    found = [json.loads(line) for line in lines]
    return {
        (line["model"], line["table"], line["threads"]): line
        for line in found
        if versions.get(line["model"]) == line["version"]
    }


def run(path: Path, names: list[str], selected: list[str], n_threads: int, limit: float) -> None:
    """Compute and store the results that are missing."""
    stored = load_results(path, names)
    path.parent.mkdir(exist_ok=True)
    for table in selected:
        for name in names:
            if (name, table, n_threads) in stored:
                continue
            task = TABLES[table][0]
            found = run_in_process(_run_on_table, ((name, task, n_threads), table), limit)
            line = {"model": name, "version": models.get_version(name), "table": table,
                    "threads": n_threads, **found}  # fmt: skip
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            print({key: value for key, value in line.items() if key != "chosen"}, flush=True)


def print_report(path: Path, names: list[str], selected: list[str], n_threads: int) -> None:
    """Print scores, seconds and rounds, and LightGBM's seconds for the same rounds."""
    found = load_results(path, names)
    print("| table | model | score | rounds | seconds | LightGBM's for the same rounds |")
    print("|---|---|--:|--:|--:|--:|")
    for table in selected:
        lines = {name: found.get((name, table, n_threads), {}) for name in names}
        best = min((line["score"] for line in lines.values() if "score" in line), default=0.0)
        light = lines.get("lightgbm", {})
        for name, line in lines.items():
            if "score" not in line:
                continue
            score = f"{line['score']:.5g}"
            light_seconds = light.get("seconds", np.nan) * line["rounds"] / N_ROUNDS["lightgbm"]
            print(f"| {table} | {name} | {f'**{score}**' if line['score'] == best else score} | "
                  f"{line['rounds']} | {line['seconds']:.1f} | {light_seconds:.1f} |")  # fmt: skip


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument(
        "--models",
        nargs="+",
        type=models.check_name,
        default=["hedgerow", "lightgbm", "xgboost", "catboost"],
    )
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=TABLES)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--limit", type=float, default=900.0, help="seconds per fit")
    parser.add_argument("--results", type=Path, default=RESULTS, help="file of the results")
    parser.add_argument(
        "--report", action="store_true", help="print stored results, compute nothing"
    )
    return parser


def main() -> None:
    options = build_parser().parse_args()
    if not options.report:
        run(options.results, options.models, options.tables, options.threads, options.limit)
    print_report(options.results, options.models, options.tables, options.threads)


if __name__ == "__main__":
    main()
