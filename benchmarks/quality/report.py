"""Print ranks, distances and paired tests of the results that ``run.py`` has stored.

::

    python benchmarks/quality/report.py                          # all folds that every model has
    python benchmarks/quality/report.py --models hedgerow lightgbm catboost --by-size
    python benchmarks/quality/report.py --all --plot quality.png

Glossary
--------
score      log loss, or root mean squared error: mean over the folds of a table
distance   score / best score of the models on this table - 1, at most 1, so that a table
           whose best score is nearly zero counts like any other
rank       1 is the best model on a table; equal scores share the mean of their ranks
tie        scores that differ by less than a thousandth
mean       mean change of the score: that of the first model over the other's - 1, at most 1
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path
from types import ModuleType

import models
import numpy as np
import panels
import tables
import unseen
from scipy.stats import rankdata, wilcoxon

import run

MAX_DISTANCE = 1.0
TIE = 1e-3


def gather(
    names: list[str],
    selected_folds: list[int],
    time_field: str = "fit_cpu_s",
    source: ModuleType | None = None,
) -> tuple[list[str], np.ndarray, np.ndarray, list[str]]:
    """Return tables, scores and seconds (tables x models), and the failures.

    ``source`` is the module with the names of the tables; None means the suite.
    """
    found = {name: run.load_results(name, models.get_version(name)) for name in names}
    jobs = sorted(set.intersection(*(set(results) for results in found.values())))
    jobs = [job for job in jobs if not selected_folds or job[1] in selected_folds]
    jobs = [job for job in jobs if _source_of(job[0]) is source]
    failed = [
        f"{name} on {table}, fold {fold}: {found[name][table, fold]['failed']}"
        for table, fold in jobs for name in names if "failed" in found[name][table, fold]
    ]  # fmt: skip
    folds = defaultdict(list)
    for table, fold in jobs:
        folds[table].append(fold)
    table_names = list(folds)
    scores = np.array([
        [np.mean([found[n][t, f].get("score", np.inf) for f in folds[t]]) for n in names]
        for t in table_names
    ])  # fmt: skip
    seconds = np.array([
        [sum(found[n][t, f].get(time_field, 0.0) for f in folds[t]) for n in names]
        for t in table_names
    ])  # fmt: skip
    return table_names, scores, seconds, failed


def _source_of(name: str) -> ModuleType | None:
    """Return the module with this table; None for a table of the suite."""
    return next((each for each in (unseen, panels) if name in each.NAMES), None)


def distances(scores: np.ndarray) -> np.ndarray:
    """Return the distance of each model to the best one on each table."""
    best = np.maximum(scores.min(axis=1, keepdims=True), 1e-12)
    return np.minimum(scores / best - 1.0, MAX_DISTANCE)


def summary(names: list[str], scores: np.ndarray, seconds: np.ndarray) -> list[str]:
    """Return one line per model: rank, distance, wins against the first model, seconds."""
    ranks = np.mean([rankdata(np.round(np.log(np.maximum(row, 1e-12)), 9)) for row in scores], 0)
    distance = distances(scores)
    lines = [
        "| model | mean rank | mean distance | median distance | seconds in all |",
        "|---|--:|--:|--:|--:|",
    ]
    lines += [
        f"| {name} | {ranks[k]:.2f} | {100 * distance[:, k].mean():.1f}% | "
        f"{100 * np.median(distance[:, k]):.2f}% | {seconds[:, k].sum():.1f} |"
        for k, name in enumerate(names)
    ]
    lines += [
        "",
        f"| {names[0]} against | win / tie / loss | mean (standard error) | p (Wilcoxon) |",
        "|---|--:|--:|--:|",
    ]
    for k in range(1, len(names)):
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.log(np.maximum(scores[:, 0], 1e-12) / np.maximum(scores[:, k], 1e-12))
        ratio = np.nan_to_num(ratio, posinf=np.inf, neginf=-np.inf)
        change = 100 * np.clip(np.expm1(ratio), -MAX_DISTANCE, MAX_DISTANCE)
        ratio = np.clip(ratio, -MAX_DISTANCE, MAX_DISTANCE)
        is_tie = np.abs(ratio) < TIE
        counts = ((ratio < 0) & ~is_tie).sum(), is_tie.sum(), ((ratio > 0) & ~is_tie).sum()
        p = wilcoxon(ratio).pvalue if np.any(ratio) else 1.0
        error = change.std(ddof=1) / np.sqrt(len(change)) if len(change) > 1 else np.nan
        lines.append(
            f"| {names[k]} | {counts[0]} / {counts[1]} / {counts[2]} | "
            f"{change.mean():+.1f}% ({error:.1f}) | {p:.2g} |"
        )
    return lines


def by_table(names: list[str], table_names: list[str], scores: np.ndarray) -> list[str]:
    """Return a line per table with every score; the best score is bold."""
    lines = ["| table | " + " | ".join(names) + " |", "|---|" + "--:|" * len(names)]
    for table, row in zip(table_names, scores, strict=True):
        cells = [f"**{s:.4g}**" if s == row.min() else f"{s:.4g}" for s in row]
        lines.append(f"| {table} | " + " | ".join(cells) + " |")
    return lines


def plot(names: list[str], scores: np.ndarray, seconds: np.ndarray, path: Path) -> None:
    """Plot the sorted distances of each model, and its mean distance against its time."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    distance = distances(scores)
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    share = np.arange(1, len(distance) + 1) / len(distance)
    for k, name in enumerate(names):
        left.plot(100 * np.sort(distance[:, k]), 100 * share, label=name)
        right.scatter(seconds[:, k].sum(), 100 * distance[:, k].mean(), s=40)
        right.annotate(name, (seconds[:, k].sum(), 100 * distance[:, k].mean()),
                       xytext=(5, 5), textcoords="offset points")  # fmt: skip
    left.set(xlabel="distance to the best, at most, %", ylabel="% of the tables", xlim=(0, 30))
    left.legend(frameon=False)
    right.set(xlabel="seconds of all fits", ylabel="mean distance to the best, %", xscale="log")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _sizes(table_names: list[str]) -> np.ndarray:
    index = tables.load_index()
    return np.array([int(index[name]["rows"]) if name in index else 10**6 for name in table_names])


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument(
        "--models", nargs="+", type=models.check_name, default=list(models.DEFAULT_LIBRARIES)
    )
    parser.add_argument(
        "--folds", nargs="+", type=int, default=[], help="default: all stored folds"
    )
    parser.add_argument("--wall", action="store_true", help="report elapsed seconds")
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--unseen", action="store_true", help="use the tables of unseen.py")
    chosen.add_argument("--panels", action="store_true", help="use the tables of panels.py")
    parser.add_argument(
        "--halves", action="store_true", help="also report both halves of the tables"
    )
    parser.add_argument("--by-size", action="store_true", help="also report by number of rows")
    parser.add_argument("--all", action="store_true", help="also print every score")
    parser.add_argument("--plot", type=Path, help="write the plots to this PNG file")
    return parser


def main() -> None:
    options = build_parser().parse_args()
    time_field = "fit_s" if options.wall else "fit_cpu_s"
    table_names, scores, seconds, failed = gather(
        options.models,
        options.folds,
        time_field,
        unseen if options.unseen else panels if options.panels else None,
    )
    if not table_names:
        raise SystemExit("the current versions of these models have no stored results in common")
    print(f"{len(table_names)} tables\n")
    print("\n".join(summary(options.models, scores, seconds)))
    if options.halves:
        halves = np.array([tables.half_of(name) for name in table_names])
        for number, description in enumerate(("chosen on", "only checked on")):
            print(f"\n{(halves == number).sum()} tables that defaults were {description}\n")
            print(
                "\n".join(
                    summary(options.models, *(a[halves == number] for a in (scores, seconds)))
                )
            )
    if options.by_size:
        sizes = _sizes(table_names)
        for low, high in ((0, 500), (500, 2000), (2000, 10_000), (10_000, 10**9)):
            selected = (sizes >= low) & (sizes < high)
            if selected.any():
                print(f"\n{selected.sum()} tables of {low:,} to {high:,} rows\n")
                print("\n".join(summary(options.models, scores[selected], seconds[selected])))
    if options.unseen:
        for kind in ("generated", "sklearn", "R"):
            selected = np.array([unseen.table_source(name) == kind for name in table_names])
            if selected.any():
                print(f"\n{selected.sum()} tables: {kind}\n")
                print("\n".join(summary(options.models, scores[selected], seconds[selected])))
    if options.all:
        print("\n" + "\n".join(by_table(options.models, table_names, scores)))
    print("".join(f"\nfailed: {line}" for line in failed))
    if options.plot:
        plot(options.models, scores, seconds, options.plot)


if __name__ == "__main__":
    main()
