"""Default against default on large tables: scores, processor seconds, and seconds a round.

::

    python benchmarks/quality/large.py                                  # what is missing, a table
    python benchmarks/quality/large.py --tables flights_300k --models hedgerow lightgbm
    python benchmarks/quality/large.py --report                         # only what is kept

Defaults of Hedgerow have more rounds than those of the rivals, and folds before them.  So the table
has the seconds of a fit, and the seconds that LightGBM's default would take for the same number of
rounds.  A fit has a process of its own.  A line of ``results/large.jsonl`` is one fit.
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

KEPT = Path(__file__).with_name("results") / "large.jsonl"
N_ROUNDS = {"lightgbm": 100, "xgboost": 100, "catboost": 1_000}
"""Of the defaults; CatBoost stops no earlier without validation rows."""


def _flights(n_rows: int, task: str, is_later: bool) -> tuple[Rows, Rows]:
    """Delays of flights: a fifth is tested, any flights or those of the last days."""
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
    return _divided(Rows(X, y), later if is_later else tables.assign_folds(len(y)) == 0)


def _claims() -> tuple[Rows, Rows]:
    rows = other_tasks._claims("poisson", 678_013)
    return _divided(rows, tables.assign_folds(len(rows.y)) == 0)


def _lists() -> tuple[Rows, Rows]:
    rows = other_tasks._svm_lists("mslr_sample", ["train.txt.gz", "test.txt.gz"])
    assert rows.query is not None
    return _divided(rows, rows.query >= 18)


def _generated(n_rows: int) -> tuple[Rows, Rows]:
    """Classes by smooth terms and interactions of 20 numbers, half of which tell nothing."""
    rng = np.random.default_rng(n_rows)
    X = rng.normal(size=(n_rows + 100_000, 20))
    score = X[:, 0] + np.sin(2 * X[:, 1]) + X[:, 2] * X[:, 3] + np.abs(X[:, 4]) - 0.8
    score += 0.5 * X[:, 5] * (X[:, 6] > 0) + 0.3 * X[:, 7] ** 2 * np.sign(X[:, 8])
    y = (rng.uniform(size=len(X)) < 1 / (1 + np.exp(-score))).astype(np.int64)
    return _divided(Rows(other_tasks._frame(X), y), np.arange(len(y)) >= n_rows)


def _kind(kind: str) -> tuple[Rows, Rows]:
    """220,000 training rows of two classes: steps, smooth sums under noise, or clusters."""
    n_rows, n_new, rng = 220_000, 50_000, np.random.default_rng(len(kind))
    n = n_rows + n_new
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
        return _divided(Rows(other_tasks._frame(X), y), np.arange(n) >= n_rows)
    y = (rng.uniform(size=n) < 1 / (1 + np.exp(-1.5 * score))).astype(np.int64)
    return _divided(Rows(other_tasks._frame(X), y), np.arange(n) >= n_rows)


def _divided(rows: Rows, new: np.ndarray) -> tuple[Rows, Rows]:
    return rows.take(~new), rows.take(new)


TABLES: dict[str, tuple[str, Callable[[], tuple[Rows, Rows]]]] = {
    "mslr_sample": ("ranking", _lists),
    "flights_300k": ("binary", lambda: _flights(300_000, "binary", False)),
    "delays_300k": ("regression", lambda: _flights(300_000, "regression", False)),
    "flights_300k_later": ("binary", lambda: _flights(300_000, "binary", True)),
    "delays_300k_later": ("regression", lambda: _flights(300_000, "regression", True)),
    "claims": ("poisson", _claims),
    "generated_300k": ("binary", lambda: _generated(300_000)),
    "generated_1m": ("binary", lambda: _generated(1_000_000)),
    "steps": ("binary", lambda: _kind("steps")),
    "sums": ("binary", lambda: _kind("sums")),
    "clusters": ("binary", lambda: _kind("clusters")),
    "flights_3m": ("binary", lambda: _flights(3_000_000, "binary", False)),
}


def fitted(asked: tuple[str, str, int], rows: tuple[Rows, Rows]) -> dict[str, Any]:
    """One fit."""
    model, task, n_threads = asked
    train, test = rows
    library, parameters = models.parse(model)
    of_rows = task in ("ranking", "poisson")
    problem = None
    if not of_rows:
        cats = tables.text_columns(train.X, "")
        kind: Any = task
        problem = tables.Problem(kind, train.X, train.y, test.X, test.y, cats)
    began, worked = time.perf_counter(), time.process_time()
    if problem is None:
        predict: Any = other_tasks.LIBRARIES[library](task, train, parameters)
    else:
        predict = models.fit(model, problem, n_threads)
    seconds, elapsed = time.process_time() - worked, time.perf_counter() - began
    n_rounds = predict.__self__.n_iter_ if library == "hedgerow" else N_ROUNDS[library]
    prediction = np.asarray(predict(test.X), dtype=np.float64)
    found = (
        other_tasks.score(task, test, prediction) if problem is None else problem.score(prediction)
    )
    told = predict.__self__.chosen_params_ if library == "hedgerow" else {}
    shown = {key: value for key, value in told.items() if key != "tried"}
    return {"score": found, "seconds": seconds, "elapsed": elapsed, "rounds": n_rounds,
            "chosen": json.loads(json.dumps(shown, default=str))}  # fmt: skip


def _of_table(asked: tuple[str, str, int], name: str) -> dict[str, Any]:
    return fitted(asked, TABLES[name][1]())


def known(path: Path, names: list[str]) -> dict[tuple[str, str, int], dict[str, Any]]:
    """What is kept of the models as they are now, by model, table and threads."""
    versions = {name: models.get_version(name) for name in names}
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    found = [json.loads(line) for line in lines]
    return {
        (line["model"], line["table"], line["threads"]): line
        for line in found
        if versions.get(line["model"]) == line["version"]
    }


def run(path: Path, names: list[str], asked: list[str], n_threads: int, limit: float) -> None:
    """Do what is not kept yet."""
    there = known(path, names)
    path.parent.mkdir(exist_ok=True)
    for table in asked:
        for name in names:
            if (name, table, n_threads) in there:
                continue
            task = TABLES[table][0]
            found = run_in_process(_of_table, ((name, task, n_threads), table), limit)
            line = {"model": name, "version": models.get_version(name), "table": table,
                    "threads": n_threads, **found}  # fmt: skip
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            print({key: value for key, value in line.items() if key != "chosen"}, flush=True)


def tell(path: Path, names: list[str], asked: list[str], n_threads: int) -> None:
    """Scores, seconds and rounds, and the seconds of LightGBM for as many rounds."""
    found = known(path, names)
    print("| table | model | score | rounds | seconds | LightGBM's for as many rounds |")
    print("|---|---|--:|--:|--:|--:|")
    for table in asked:
        lines = {name: found.get((name, table, n_threads), {}) for name in names}
        best = min((line["score"] for line in lines.values() if "score" in line), default=0.0)
        light = lines.get("lightgbm", {})
        for name, line in lines.items():
            if "score" not in line:
                continue
            score = f"{line['score']:.5g}"
            alike = light.get("seconds", np.nan) * line["rounds"] / N_ROUNDS["lightgbm"]
            print(f"| {table} | {name} | {f'**{score}**' if line['score'] == best else score} | "
                  f"{line['rounds']} | {line['seconds']:.1f} | {alike:.1f} |")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument(
        "--models", nargs="+", default=["hedgerow", "lightgbm", "xgboost", "catboost"]
    )
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=TABLES)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--limit", type=float, default=900.0, help="seconds a fit")
    parser.add_argument("--kept", type=Path, default=KEPT, help="file of the results")
    parser.add_argument("--report", action="store_true", help="tell what is kept, do nothing")
    options = parser.parse_args()
    if not options.report:
        run(options.kept, options.models, options.tables, options.threads, options.limit)
    tell(options.kept, options.models, options.tables, options.threads)


if __name__ == "__main__":
    main()
