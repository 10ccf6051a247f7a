"""Algorithms that are off by default, against the defaults, on the tables of the comparison.

::

    python benchmarks/quality/algorithms.py                        # fold 0 of the first half
    python benchmarks/quality/algorithms.py --half 1 --variants 'rounds x 1.15'
    python benchmarks/quality/algorithms.py --rows 3000 --folds 0 1
    python benchmarks/quality/algorithms.py --tasks regression --variants 'constant leaves'
    python benchmarks/quality/algorithms.py --rows 3000 --variants 'nothing tried'
    python benchmarks/quality/algorithms.py --tables letter r_mv --variants 'small steps'

Tables of few rows and few classes, so that one run over all of them takes about a minute of
processor time.  Each line compares a variant with the defaults on the same tables: mean
and median of ``log(score / score of the defaults)``, cut off at 1, the standard error of the
mean, tables better and worse by more than a thousandth, and processor seconds.  The line
"another seed" is what chance alone does: what is no larger is nothing.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import models
import numpy as np
import tables

from hedgerow.boosting.automatic import defaults

MOST_ROWS = 12_000
TIE = 1e-3
SLOW = frozenset({"m_leaf_id_flavia", "soybean", "letter", "optdigits", "vowel", "poker_60k"})
"""Of many classes: a tree for each of them a round."""

_OF_TREES = (
    "learning_rate", "max_leaves", "min_samples_leaf", "reg_lambda", "subsample",
    "colsample_bynode", "max_bins", "grow_policy", "max_depth", "linear_leaves",
    "min_data_per_group", "max_cat_to_onehot",
)  # fmt: skip


@dataclass(frozen=True)
class Variant:
    """What is different from the defaults.

    Attributes
    ----------
    parameters : dict
    n_models : int
        Mean of the predictions of so many models with different seeds, all of as many
        rounds as the first one has found.
    rounds_factor : float
        Rounds of the fit on all rows, for each that the folds have found.
    refits : bool
        Leaves get values anew, of all rows instead of each round's sample.
    last_rounds : float
        In this share of the final rounds the rate falls to nothing, over twice as many rounds.
    recipe : dict
        Values of the recipe that are not parameters of an estimator.
    kept : callable
        Which of the candidates the folds try.
    tries_plain : bool
        Whether the folds try plain trees last.
    """

    parameters: dict[str, Any] = field(default_factory=dict)
    n_models: int = 1
    rounds_factor: float | None = None
    refits: bool = False
    last_rounds: float = 0.0
    recipe: dict[str, Any] = field(default_factory=dict)
    kept: Callable[[dict[str, Any]], bool] = lambda values: True
    tries_plain: bool = True

    @property
    def is_plain(self) -> bool:
        """Whether the model is the first fit."""
        last = self.rounds_factor is None and self.last_rounds == 0.0
        return last and self.n_models == 1 and not self.refits


def _without(**left_out: Any) -> Variant:
    """The defaults without candidates that have these values."""
    names = left_out.items()
    return Variant(kept=lambda values: any(values.get(name) != value for name, value in names))


VARIANTS = {
    "another seed": Variant({"random_state": 1}),
    "subsample=0.4": Variant({"subsample": 0.4}),
    "subsample=0.8": Variant({"subsample": 0.8}),
    "rounds x 1.1": Variant(rounds_factor=1.1),
    "rounds x 1.15": Variant(rounds_factor=1.15),
    "rounds x 1.25": Variant(rounds_factor=1.25),
    "rounds x 1.4": Variant(rounds_factor=1.4),
    "two models": Variant(n_models=2),
    "four models": Variant(n_models=4),
    "leaves refitted": Variant(refits=True),
    "falling rate": Variant(last_rounds=0.5),
    "constant leaves": Variant({"linear_leaves": False}),
    "lines in all leaves": Variant({"linear_leaves": True}),
    "nothing tried": Variant(kept=lambda values: False),
    "no symmetric trees tried": _without(grow_policy="symmetric"),
    "no smaller trees tried": Variant(kept=lambda values: values.get("max_leaves") is None),
    "no categories one by one": _without(max_cat_to_onehot=254),
    "no plain trees": Variant(tries_plain=False),
    "small steps": Variant(recipe={"stride": 1.0}),
    "nothing tried, small steps": Variant(recipe={"stride": 1.0}, kept=lambda values: False),
    "long ways in small steps": Variant(recipe={"easy_rounds": None}),
    "long ways in larger steps": Variant(recipe={"easy_rounds": 300}),
    "nothing tried, steps x 4": Variant(recipe={"stride": 4.0}, kept=lambda values: False),
}


def predict(problem: tables.Problem, variant: Variant) -> np.ndarray:
    """Prediction of the test rows."""
    asked: dict[str, Any] = {"n_jobs": 1, "random_state": 0, **variant.parameters}
    with changed_defaults(variant):
        predictor: Any = models._hedgerow(problem, asked)
    if variant.is_plain:
        return predictor(problem.X_test)
    model = predictor.__self__
    if variant.refits:
        model.booster_ = model.booster_.refit(problem.X, problem.y, decay=0.0)
        return predictor(problem.X_test)
    told = model.chosen_params_
    found = {name: told[name] for name in _OF_TREES if name in told}
    # What the folds have found, times the factor of the variant instead of the defaults'.
    usual = told.get("rounds_factor", 1.0)
    factor = 1.0 if variant.rounds_factor is None else variant.rounds_factor / usual
    n_rounds = max(1, round(model.n_iter_ * factor))
    fixed = {**asked, **found, "early_stopping": False, "n_estimators": n_rounds}
    if variant.last_rounds:
        rates = falling(found["learning_rate"], n_rounds, variant.last_rounds)
        fixed |= {"learning_rate": rates, "n_estimators": len(rates)}
    if variant.n_models == 1:
        return models._hedgerow(problem, fixed)(problem.X_test)
    total = predictor(problem.X_test)
    for seed in range(1, variant.n_models):
        total = total + models._hedgerow(problem, {**fixed, "random_state": seed})(problem.X_test)
    return total / variant.n_models


@contextmanager
def changed_defaults(variant: Variant) -> Iterator[None]:
    """The defaults with the variant's recipe and candidates, for as long as it lasts."""
    recipe, candidates = defaults.recipe, defaults.candidates_for
    plain_trees = defaults.plain_trees

    def kept(size: Any, params: Any) -> list[dict[str, Any]]:
        return [values for values in candidates(size, params) if variant.kept(values)]

    def no_trees(size: Any) -> dict[str, Any]:
        return {}

    with (
        patch.object(defaults, "recipe", lambda size: {**recipe(size), **variant.recipe}),
        patch.object(defaults, "candidates_for", kept),
        patch.object(defaults, "plain_trees", plain_trees if variant.tries_plain else no_trees),
    ):
        yield


def falling(rate: float, n_rounds: int, share: float) -> list[float]:
    """Rates whose sum is that of ``n_rounds`` equal ones, the last of them falling to nothing."""
    last = max(1, round(share * n_rounds))
    falls = [rate * (1.0 - (k + 0.5) / (2 * last)) for k in range(2 * last)]
    return [rate] * (n_rounds - last) + falls


def measure(jobs: list[tuple[str, int]], variant: Variant) -> tuple[np.ndarray, np.ndarray]:
    """Score and processor seconds of each table and fold."""
    found = []
    for name, fold in jobs:
        problem = tables.load(name, fold)
        start = time.process_time()
        prediction = predict(problem, variant)
        found.append((problem.score(prediction), time.process_time() - start))
    scores, seconds = np.array(found).T
    return scores, seconds


def line(name: str, scores: np.ndarray, plain: np.ndarray, seconds: float) -> str:
    """A row of the table."""
    gap = np.clip(np.log(np.maximum(scores, 1e-12) / np.maximum(plain, 1e-12)), -1.0, 1.0)
    error = gap.std() / np.sqrt(len(gap))
    better, worse = (gap < -TIE).sum(), (gap > TIE).sum()
    return (
        f"| {name} | {100 * gap.mean():+.2f}% ({100 * error:.2f}) | {100 * np.median(gap):+.2f}% | "
        f"{better} / {worse} | {seconds:.1f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--variants", nargs="+", choices=list(VARIANTS), default=list(VARIANTS))
    parser.add_argument("--folds", nargs="+", type=int, default=[0])
    parser.add_argument("--half", nargs="+", type=int, choices=(0, 1), default=[0])
    parser.add_argument("--rows", type=int, default=MOST_ROWS, help="tables of fewer rows")
    parser.add_argument("--from-rows", type=int, default=0, help="and of at least so many")
    parser.add_argument("--tasks", nargs="+", choices=("regression", "binary", "multiclass"))
    parser.add_argument("--tables", nargs="+", help="these, whatever their size and task")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    index = tables._index()
    names = options.tables or [
        name for name in index
        if tables.half(name) in options.half
        and options.from_rows <= int(index[name]["rows"]) < options.rows
        and name not in SLOW and (not options.tasks or index[name]["task"] in options.tasks)
    ]  # fmt: skip
    jobs = tables.jobs(names, options.folds)
    models._hedgerow(tables.load("r_abalone", 0), {"n_jobs": 1, "n_estimators": 2})  # compiles
    plain, seconds = measure(jobs, Variant())
    print(f"{len(jobs)} tables and folds; the defaults took {seconds.sum():.1f} s\n")
    print("| variant | mean (standard error) | median | better / worse | seconds |")
    print("|---|--:|--:|--:|--:|")
    for name in options.variants:
        scores, taken = measure(jobs, VARIANTS[name])
        print(line(name, scores, plain, taken.sum()), flush=True)


if __name__ == "__main__":
    main()
