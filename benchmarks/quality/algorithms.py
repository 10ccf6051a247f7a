"""Compare variants of Hedgerow's settings and algorithms with the defaults.

::

    python benchmarks/quality/algorithms.py                        # fold 0 of the first half
    python benchmarks/quality/algorithms.py --half 1 --variants 'rounds x 1.15'
    python benchmarks/quality/algorithms.py --rows 3000 --folds 0 1
    python benchmarks/quality/algorithms.py --tasks regression --variants 'constant leaves'
    python benchmarks/quality/algorithms.py --rows 3000 --variants 'nothing tried'
    python benchmarks/quality/algorithms.py --tables letter r_mv --variants 'small steps'
    python benchmarks/quality/algorithms.py --from-rows 3000 --variants 'two models'

The tables have few rows and few classes, so that one run over all of them takes about a minute
of processor time.  Each line compares a variant with the defaults on the same tables.  It has the
mean and the median of ``log(score / score of the defaults)``, clipped at 1, the standard error of
the mean, the numbers of tables that are better and worse by more than 0.1%, Wilcoxon's p, and
processor seconds.  The line "another seed" shows the effect of chance alone: no smaller effect is
evidence for a variant.
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
from scipy.stats import wilcoxon

from hedgerow.boosting.automatic import defaults

MAX_ROWS = 12_000
TIE = 1e-3
SLOW = frozenset({"m_leaf_id_flavia", "soybean", "letter", "optdigits", "vowel", "poker_60k"})
"""Tables with many classes: a round grows a tree for each class."""


@dataclass(frozen=True)
class Variant:
    """The differences of a variant from the defaults.

    Attributes
    ----------
    parameters : dict
        Parameters of the estimator.
    n_models : int
        Number of models with different seeds whose predictions are averaged.  All of them have
        the number of rounds that cross-validation found for the first one.
    rounds_factor : float
        Ratio of the rounds of the final fit to the rounds that cross-validation found.
    refits : bool
        Recompute the leaf values from all rows, instead of from the sample of each round.
    rate_factor : float
        Ratio of the learning rate of the final fit to the default one.  The number of rounds is
        divided by it.
    last_rounds : float
        Share of the final rounds that is replaced by twice as many rounds in which the learning
        rate falls to 0.
    recipe : dict
        Changes of the recipe's values that are not parameters of an estimator.
    keeps : callable
        Return whether cross-validation tries a candidate.
    tries_rare : bool
        Whether cross-validation tries the candidates that must lead clearly.
    """

    parameters: dict[str, Any] = field(default_factory=dict)
    n_models: int = 1
    rounds_factor: float | None = None
    rate_factor: float = 1.0
    refits: bool = False
    last_rounds: float = 0.0
    recipe: dict[str, Any] = field(default_factory=dict)
    keeps: Callable[[dict[str, Any]], bool] = lambda values: True
    tries_rare: bool = True

    @property
    def same_rounds(self) -> bool:
        """Whether all fits have the rounds and the learning rate of the first one."""
        same_number = self.rounds_factor is None and self.rate_factor == 1.0
        return same_number and self.last_rounds == 0.0

    @property
    def is_plain(self) -> bool:
        """Whether the first fit is the only one."""
        return self.same_rounds and self.n_models == 1 and not self.refits


def _exclude_candidates(**left_out: Any) -> Variant:
    """Return the defaults without the candidates that have these values."""
    names = left_out.items()
    return Variant(keeps=lambda values: any(values.get(name) != value for name, value in names))


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
    "nothing tried": Variant(keeps=lambda values: False),
    "no symmetric trees tried": _exclude_candidates(grow_policy="symmetric"),
    "no random cuts tried": _exclude_candidates(extra_trees=True),
    "no categories one by one": _exclude_candidates(max_cat_to_onehot=254),
    "nothing rare tried": Variant(tries_rare=False),
    "small steps": Variant(recipe={"stride": 1.0}),
    "nothing tried, small steps": Variant(recipe={"stride": 1.0}, keeps=lambda values: False),
    "folds at twice the rate": Variant(recipe={"stride": 2.0}),
    "folds at four times the rate": Variant(recipe={"stride": 4.0}),
    "long ways in small steps": Variant(recipe={"easy_rounds": None}),
    "long ways in larger steps": Variant(recipe={"easy_rounds": 300}),
    "squares in small steps": Variant(
        recipe={
            "learning_rate": 0.02,
            "stride": 6.0,
            "easy_rounds": 1_000,
            "n_estimators": 6_000,
            "patience": 120,
        }
    ),
    "classes in small steps": Variant(
        recipe={
            "learning_rate": 0.05,
            "stride": 6.0,
            "easy_rounds": 1_000,
            "n_estimators": 2_000,
            "patience": 40,
        }
    ),
    "nothing tried, steps x 4": Variant(recipe={"stride": 4.0}, keeps=lambda values: False),
    "two folds of five": Variant(recipe={"folds": (5, 2)}),
    "two folds of ten": Variant(recipe={"folds": (10, 2)}),
    "one kind": Variant({"blend": False}),
    "extra trees": Variant({"extra_trees": True}),
    "path_smooth=3": Variant({"path_smooth": 3.0}),
    "path_smooth=30": Variant({"path_smooth": 30.0}),
    "min_samples_leaf=1": Variant({"min_samples_leaf": 1}),
    "reg_lambda=1": Variant({"reg_lambda": 1.0}),
    "subsample=1": Variant({"subsample": 1.0}),
    "patience of 120": Variant(recipe={"patience": 120}),
    "judged at equal rounds": Variant(recipe={"at_equal_rounds": True}),
    "three models": Variant(n_models=3),
    "half the rate": Variant(rate_factor=0.5),
    "two models of half the rounds": Variant(n_models=2, rate_factor=2.0),
}


def predict(problem: tables.Problem, variant: Variant) -> np.ndarray:
    """Fit the variant and return its predictions for the test rows."""
    params: dict[str, Any] = {"n_jobs": 1, "random_state": 0, **variant.parameters}
    with override_defaults(variant):
        predictor: Any = models.fit_hedgerow(problem, params)
    if variant.is_plain:
        return predictor(problem.X_test)
    model = predictor.__self__
    if variant.refits:
        model.booster_ = model.booster_.refit(problem.X, problem.y, decay=0.0)
        return predictor(problem.X_test)
    fixed = repeat_params(model, variant)
    first = predictor if variant.same_rounds else models.fit_hedgerow(problem, fixed)
    total = first(problem.X_test)
    for seed in range(1, variant.n_models):
        total = total + models.fit_hedgerow(problem, {**fixed, "random_state": seed})(
            problem.X_test
        )
    return total / variant.n_models


def repeat_params(model: Any, variant: Variant) -> dict[str, Any]:
    """Return parameters that repeat a fit with the variant's rounds and learning rate."""
    chosen, fixed = model.chosen_params_, model.repeat_params_
    # n_iter_ is the number of rounds that cross-validation found, times the default factor.
    usual = chosen.get("rounds_factor", 1.0)
    factor = 1.0 if variant.rounds_factor is None else variant.rounds_factor / usual
    n_rounds = max(1, round(model.n_iter_ * factor / variant.rate_factor))
    rate = chosen["learning_rate"] * variant.rate_factor
    if variant.last_rounds:
        rates = falling_rates(rate, n_rounds, variant.last_rounds)
        return {**fixed, "learning_rate": rates, "n_estimators": len(rates)}
    return {**fixed, "learning_rate": rate, "n_estimators": n_rounds}


@contextmanager
def override_defaults(variant: Variant) -> Iterator[None]:
    """Replace the default recipe and candidates by the variant's while the context is open."""
    recipe, candidates = defaults.recipe, defaults.candidates_for

    def filtered_candidates(size: Any, params: Any) -> list[dict[str, Any]]:
        return [
            values
            for values in candidates(size, params)
            if (variant.tries_rare if "lead" in values else variant.keeps(values))
        ]

    with (
        patch.object(defaults, "recipe", lambda size: {**recipe(size), **variant.recipe}),
        patch.object(defaults, "candidates_for", filtered_candidates),
    ):
        yield


def falling_rates(rate: float, n_rounds: int, share: float) -> list[float]:
    """Return learning rates that fall to 0 and have the same sum as ``n_rounds`` equal rates."""
    last = max(1, round(share * n_rounds))
    falls = [rate * (1.0 - (k + 0.5) / (2 * last)) for k in range(2 * last)]
    return [rate] * (n_rounds - last) + falls


def measure(jobs: list[tuple[str, int]], variant: Variant) -> tuple[np.ndarray, np.ndarray]:
    """Return the score and the processor seconds of each table and fold."""
    found = []
    for name, fold in jobs:
        problem = tables.load(name, fold)
        start = time.process_time()
        prediction = predict(problem, variant)
        found.append((problem.score(prediction), time.process_time() - start))
    scores, seconds = np.array(found).T
    return scores, seconds


def format_line(name: str, scores: np.ndarray, plain: np.ndarray, seconds: float) -> str:
    """Format a row of the table."""
    log_ratio = np.clip(np.log(np.maximum(scores, 1e-12) / np.maximum(plain, 1e-12)), -1.0, 1.0)
    error = log_ratio.std() / np.sqrt(len(log_ratio))
    better, worse = (log_ratio < -TIE).sum(), (log_ratio > TIE).sum()
    p = wilcoxon(log_ratio).pvalue if log_ratio.any() else 1.0
    return (
        f"| {name} | {100 * log_ratio.mean():+.2f}% ({100 * error:.2f}) | "
        f"{100 * np.median(log_ratio):+.2f}% | {better} / {worse} | {p:.2g} | {seconds:.1f} |"
    )


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--variants", nargs="+", choices=list(VARIANTS), default=list(VARIANTS))
    parser.add_argument("--folds", nargs="+", type=int, default=[0])
    parser.add_argument("--half", nargs="+", type=int, choices=(0, 1), default=[0])
    parser.add_argument("--rows", type=int, default=MAX_ROWS, help="use tables with fewer rows")
    parser.add_argument(
        "--from-rows", type=int, default=0, help="use tables with at least this many rows"
    )
    parser.add_argument("--tasks", nargs="+", choices=("regression", "binary", "multiclass"))
    parser.add_argument("--tables", nargs="+", help="use these tables; ignore the other filters")
    return parser


def main() -> None:
    options = build_parser().parse_args()
    warnings.filterwarnings("ignore")
    index = tables.load_index()
    names = options.tables or [
        name for name in index
        if tables.half_of(name) in options.half
        and options.from_rows <= int(index[name]["rows"]) < options.rows
        and name not in SLOW and (not options.tasks or index[name]["task"] in options.tasks)
    ]  # fmt: skip
    jobs = tables.jobs(names, options.folds)
    models.fit_hedgerow(tables.load("r_abalone", 0), {"n_jobs": 1, "n_estimators": 2})  # compiles
    plain, seconds = measure(jobs, Variant())
    print(f"{len(jobs)} tables and folds; the defaults took {seconds.sum():.1f} s\n")
    print("| variant | mean (standard error) | median | better / worse | p | seconds |")
    print("|---|--:|--:|--:|--:|--:|")
    for name in options.variants:
        scores, variant_seconds = measure(jobs, VARIANTS[name])
        print(format_line(name, scores, plain, variant_seconds.sum()), flush=True)


if __name__ == "__main__":
    main()
