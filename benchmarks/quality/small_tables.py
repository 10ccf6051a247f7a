"""Compare means of several models, and CatBoost's boosting types, on small tables.

::

    python benchmarks/quality/small_tables.py                    # computes what is missing
    python benchmarks/quality/small_tables.py --half 1           # tables not used for defaults
    python benchmarks/quality/small_tables.py --models 'hedgerow x 3' catboost --tables sonar glass

The rows of a table are divided into five stratified folds, three times with different shuffles.
``hedgerow x 3`` is the mean of three models: the first chooses the kind of trees and the rounds,
the others repeat it (``repeat_params_``) with other seeds.  ``catboost, ordered`` has
``boosting_type="Ordered"``; the default is ``"Plain"``.  The report has the mean over the tables of
``log(score / score of hedgerow)``, clipped at 1, its standard error, and the numbers of fits that
are better and worse by more than 0.1%.  A line of ``results/small_tables.jsonl`` is one fit, with
one thread.
"""

from __future__ import annotations

import argparse
import json
import re
import time
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

import models
import numpy as np
import tables
from scipy.stats import wilcoxon
from sklearn.model_selection import KFold, StratifiedKFold

import report

RESULTS = Path(__file__).with_name("results") / "small_tables.jsonl"
MAX_ROWS = 3_000
N_FOLDS, N_REPEATS = 5, 3
CATBOOST = {"catboost": {}, "catboost, ordered": {"boosting_type": "Ordered"}}
MODELS = ("hedgerow", "hedgerow, another seed", "hedgerow x 3", "hedgerow x 8", *CATBOOST)


def problems(name: str, repeat: int) -> list[tables.Problem]:
    """Return the five folds of one shuffle."""
    index = tables.load_index()[name]
    table = tables.load(name, 0)
    X = np.concatenate([table.X.to_numpy(dtype=object), table.X_test.to_numpy(dtype=object)])
    frame = type(table.X)(X, columns=table.X.columns).astype(table.X.dtypes.to_dict())
    y = np.concatenate([table.y, table.y_test])
    regression = index["task"] == "regression"
    splitter = KFold if regression else StratifiedKFold
    found = []
    for train, test in splitter(N_FOLDS, shuffle=True, random_state=repeat).split(frame, y):
        if not regression:  # no model can predict a class that no training row has
            test = test[np.isin(y[test], y[train])]
        classes = np.unique(y[train]) if not regression else None
        y_train, y_test = y[train], y[test]
        if classes is not None:
            y_train, y_test = np.searchsorted(classes, y_train), np.searchsorted(classes, y_test)
        rows = [frame.iloc[part].reset_index(drop=True) for part in (train, test)]
        found.append(
            tables.Problem(table.task, rows[0], y_train, rows[1], y_test, table.categories)
        )
    return found


def fit_predict(model: str, problem: tables.Problem) -> np.ndarray:
    """Fit a model and return its predictions for the test rows."""
    if model in CATBOOST:
        params = {"thread_count": 1, **CATBOOST[model]}
        return np.asarray(models.fit_catboost(problem, params)(problem.X_test))
    params = {"n_jobs": 1, "random_state": 1 if model == "hedgerow, another seed" else 0}
    predict: Any = models.fit_hedgerow(problem, params)
    total, estimator = predict(problem.X_test), predict.__self__
    match = re.fullmatch(r"hedgerow x (\d+)", model)
    n_models = int(match[1]) if match else 1
    for seed in range(1, n_models):
        params = {**estimator.repeat_params_, "n_jobs": 1, "random_state": seed}
        total = total + models.fit_hedgerow(problem, params)(problem.X_test)
    return np.asarray(total / n_models)


def _version(model: str) -> str:
    return models.get_version("catboost" if model in CATBOOST else "hedgerow")


def run(path: Path, selected: list[str], names: list[str]) -> None:
    """Compute and store the results that are missing."""
    versions, stored = {model: _version(model) for model in selected}, load_results(path, selected)
    path.parent.mkdir(exist_ok=True)
    for name in names:
        for repeat in range(N_REPEATS):
            missing = [model for model in selected if (model, name, repeat, 0) not in stored]
            problems_of_folds = problems(name, repeat) if missing else []
            for model in missing:
                lines = []
                for fold, problem in enumerate(problems_of_folds):
                    began = time.process_time()
                    score = problem.score(fit_predict(model, problem))
                    lines.append({"model": model, "version": versions[model], "table": name,
                                  "repeat": repeat, "fold": fold, "score": score,
                                  "seconds": time.process_time() - began})  # fmt: skip
                with path.open("a", encoding="utf-8") as file:
                    file.writelines(json.dumps(line) + "\n" for line in lines)


def load_results(
    path: Path, selected: list[str]
) -> dict[tuple[str, str, int, int], dict[str, Any]]:
    """Return the stored results of the models' current versions, by model, table and fold."""
    versions = {model: _version(model) for model in selected}
    texts = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    lines = [json.loads(text) for text in texts]
    return {
        (line["model"], line["table"], line["repeat"], line["fold"]): line
        for line in lines
        if versions.get(line["model"]) == line["version"]
    }


def print_report(path: Path, selected: list[str], names: list[str], shows_all: bool) -> None:
    """Print how each model compares with the first one on the tables that both have."""
    found = load_results(path, selected)
    print("| model | tables, fits | mean, % | error | median | better / worse | p | seconds |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    for model in selected[1:]:
        ratios, seconds = defaultdict(list), 0.0
        for (first, *job), line in found.items():
            other = found.get((model, *job))  # type: ignore[arg-type]
            if first == selected[0] and other is not None and job[0] in names:
                floor = 1e-9
                ratio = np.log(max(other["score"], floor) / max(line["score"], floor))
                ratios[job[0]].append(float(np.clip(ratio, -1.0, 1.0)))
                seconds += other["seconds"]
        if len(ratios) < 2:
            continue
        means = np.array([np.mean(values) for values in ratios.values()])
        each = np.concatenate(list(ratios.values()))
        error = means.std(ddof=1) / np.sqrt(len(means))
        counts = (each < -report.TIE).sum(), (each > report.TIE).sum()
        p = wilcoxon(means).pvalue if np.any(means) else 1.0
        print(f"| {model} | {len(means)}, {len(each)} | {100 * means.mean():+.1f} | "
              f"{100 * error:.1f} | {100 * np.median(means):+.1f} | "
              f"{counts[0]} / {counts[1]} | {p:.2g} | {seconds:.1f} |")  # fmt: skip
        if shows_all:
            print("  " + ", ".join(f"{t} {100 * np.mean(v):+.1f}" for t, v in ratios.items()))


def small_names(half: int) -> list[str]:
    """Return every third table of a half below 3,000 rows, ordered by number of values."""
    index = tables.load_index()
    names = [n for n, row in index.items() if int(row["rows"]) < MAX_ROWS]
    names = [n for n in names if tables.half_of(n) == half]

    def n_values(name: str) -> int:
        return int(index[name]["rows"]) * int(index[name]["features"])

    return sorted(names, key=n_values)[::3]


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=MODELS)
    parser.add_argument("--tables", nargs="+")
    parser.add_argument("--half", type=int, default=0)
    parser.add_argument("--results", type=Path, default=RESULTS, help="file of the results")
    parser.add_argument(
        "--report", action="store_true", help="print stored results, compute nothing"
    )
    parser.add_argument("--all", action="store_true", help="also print each table")
    return parser


def main() -> None:
    options = build_parser().parse_args()
    warnings.filterwarnings("ignore")
    names = options.tables or small_names(options.half)
    if not options.report:
        run(options.results, options.models, names)
    print_report(options.results, options.models, names, options.all)


if __name__ == "__main__":
    main()
