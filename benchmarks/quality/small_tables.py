"""What means of several models, and CatBoost's ways, are worth on small tables: 5 x 3 folds.

::

    python benchmarks/quality/small_tables.py                    # what is missing, then a table
    python benchmarks/quality/small_tables.py --half 1           # tables nothing is chosen on
    python benchmarks/quality/small_tables.py --models 'hedgerow x 3' catboost --tables sonar glass

Five folds of all rows, shuffled three times, each class spread evenly.  ``hedgerow x 3`` is the
mean of three models: the first finds trees and rounds, the others repeat it
(``repeat_params_``) with other seeds.  ``catboost, ordered`` has ``boosting_type="Ordered"``; the
default is ``"Plain"``.  Printed are means over the tables of ``log(score / score of hedgerow)``,
cut off at 1, their standard error, and fits better and worse by more than a thousandth.  A line
of ``results/small_tables.jsonl`` is one fit, with one thread.
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

KEPT = Path(__file__).with_name("results") / "small_tables.jsonl"
MOST_ROWS = 3_000
N_FOLDS, N_REPEATS = 5, 3
CATBOOST = {"catboost": {}, "catboost, ordered": {"boosting_type": "Ordered"}}
MODELS = ("hedgerow", "hedgerow, another seed", "hedgerow x 3", "hedgerow x 8", *CATBOOST)


def problems(name: str, repeat: int) -> list[tables.Problem]:
    """The five divisions of one shuffle."""
    index = tables.load_index()[name]
    whole = tables.load(name, 0)
    X = np.concatenate([whole.X.to_numpy(dtype=object), whole.X_test.to_numpy(dtype=object)])
    frame = type(whole.X)(X, columns=whole.X.columns).astype(whole.X.dtypes.to_dict())
    y = np.concatenate([whole.y, whole.y_test])
    regression = index["task"] == "regression"
    kind = KFold if regression else StratifiedKFold
    found = []
    for train, test in kind(N_FOLDS, shuffle=True, random_state=repeat).split(frame, y):
        if not regression:  # a class that no training row has can be predicted by nobody
            test = test[np.isin(y[test], y[train])]
        known = np.unique(y[train]) if not regression else None
        seen, unseen = y[train], y[test]
        if known is not None:
            seen, unseen = np.searchsorted(known, seen), np.searchsorted(known, unseen)
        rows = [frame.iloc[part].reset_index(drop=True) for part in (train, test)]
        found.append(tables.Problem(whole.task, rows[0], seen, rows[1], unseen, whole.categories))
    return found


def prediction(model: str, problem: tables.Problem) -> np.ndarray:
    """Of the test rows."""
    if model in CATBOOST:
        given = {"thread_count": 1, **CATBOOST[model]}
        return np.asarray(models.fit_catboost(problem, given)(problem.X_test))
    alone = {"n_jobs": 1, "random_state": 1 if model == "hedgerow, another seed" else 0}
    predict: Any = models.fit_hedgerow(problem, alone)
    total, estimator = predict(problem.X_test), predict.__self__
    many = re.fullmatch(r"hedgerow x (\d+)", model)
    n_models = int(many[1]) if many else 1
    for seed in range(1, n_models):
        given = {**estimator.repeat_params_, "n_jobs": 1, "random_state": seed}
        total = total + models.fit_hedgerow(problem, given)(problem.X_test)
    return np.asarray(total / n_models)


def _version(model: str) -> str:
    return models.get_version("catboost" if model in CATBOOST else "hedgerow")


def run(path: Path, asked: list[str], names: list[str]) -> None:
    """Do what is not kept yet."""
    versions, there = {model: _version(model) for model in asked}, known(path, asked)
    path.parent.mkdir(exist_ok=True)
    for name in names:
        for repeat in range(N_REPEATS):
            missing = [model for model in asked if (model, name, repeat, 0) not in there]
            divided = problems(name, repeat) if missing else []
            for model in missing:
                lines = []
                for fold, problem in enumerate(divided):
                    began = time.process_time()
                    score = problem.score(prediction(model, problem))
                    lines.append({"model": model, "version": versions[model], "table": name,
                                  "repeat": repeat, "fold": fold, "score": score,
                                  "seconds": time.process_time() - began})  # fmt: skip
                with path.open("a", encoding="utf-8") as file:
                    file.writelines(json.dumps(line) + "\n" for line in lines)


def known(path: Path, asked: list[str]) -> dict[tuple[str, str, int, int], dict[str, Any]]:
    """What is kept of these models as they are now."""
    versions = {model: _version(model) for model in asked}
    texts = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    lines = [json.loads(text) for text in texts]
    return {
        (line["model"], line["table"], line["repeat"], line["fold"]): line
        for line in lines
        if versions.get(line["model"]) == line["version"]
    }


def tell(path: Path, asked: list[str], names: list[str], shows_all: bool) -> None:
    """Each model against the first one, on the tables that both have."""
    found = known(path, asked)
    print("| model | tables, fits | mean, % | error | median | better / worse | p | seconds |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    for model in asked[1:]:
        ratios, seconds = defaultdict(list), 0.0
        for (first, *job), line in found.items():
            other = found.get((model, *job))  # type: ignore[arg-type]
            if first == asked[0] and other is not None and job[0] in names:
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


def small_names(half_of: int) -> list[str]:
    """Every third table below 3,000 rows of one half, those of few values first."""
    index = tables.load_index()
    names = [n for n, row in index.items() if int(row["rows"]) < MOST_ROWS]
    names = [n for n in names if tables.half_of(n) == half_of]

    def cells(name: str) -> int:
        return int(index[name]["rows"]) * int(index[name]["features"])

    return sorted(names, key=cells)[::3]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=MODELS)
    parser.add_argument("--tables", nargs="+")
    parser.add_argument("--half", type=int, default=0)
    parser.add_argument("--kept", type=Path, default=KEPT, help="file of the results")
    parser.add_argument("--report", action="store_true", help="tell what is kept, do nothing")
    parser.add_argument("--all", action="store_true", help="each table as well")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    names = options.tables or small_names(options.half_of)
    if not options.report:
        run(options.kept, options.models, names)
    tell(options.kept, options.models, names, options.all)


if __name__ == "__main__":
    main()
