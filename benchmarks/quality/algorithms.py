"""Algorithms that are off by default, against the defaults, on the tables of the comparison.

::

    python benchmarks/quality/algorithms.py                        # fold 0 of the first half
    python benchmarks/quality/algorithms.py --half 1 --variants 'rounds x 1.15'
    python benchmarks/quality/algorithms.py --rows 3000 --folds 0 1
    python benchmarks/quality/algorithms.py --tasks regression --variants 'constant leaves'
    python benchmarks/quality/algorithms.py --rows 3000 --variants 'nothing tried'
    python benchmarks/quality/algorithms.py --tables letter r_mv --variants 'small steps'
    python benchmarks/quality/algorithms.py --from-rows 3000 --variants 'two kinds'

Tables of few rows and few classes, so that one run over all of them takes about a minute of
processor time.  Each line compares a variant with the defaults on the same tables: mean
and median of ``log(score / score of the defaults)``, cut off at 1, the standard error of the
mean, tables better and worse by more than a thousandth, Wilcoxon's p, and processor seconds.
The line "another seed" is what chance alone does: what is no larger is nothing.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any
from unittest.mock import patch

import models
import numpy as np
import pandas as pd
import tables
from scipy.special import softmax
from scipy.stats import wilcoxon

from hedgerow.boosting.automatic import candidates as candidates_module
from hedgerow.boosting.automatic import defaults
from hedgerow.boosting.automatic.model_selection import Entry, ModelSelection
from hedgerow.boosting.validation import cross_stopping

MOST_ROWS = 12_000
TIE = 1e-3
SLOW = frozenset({"m_leaf_id_flavia", "soybean", "letter", "optdigits", "vowel", "poker_60k"})
"""Of many classes: a tree for each of them a round."""

N_CROSSED = 4
"""Numeric columns that are crossed with each other."""
FEW_LEVELS = 50
"""Most categories of a column that is crossed with another one."""
ALWAYS = -np.inf


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
    rate_factor : float
        Rate of the fit on all rows, for the rate of the defaults; the rounds are divided by it.
    last_rounds : float
        In this share of the final rounds the rate falls to nothing, over twice as many rounds.
    recipe : dict
        Values of the recipe that are not parameters of an estimator.
    kept : callable
        Which of the candidates the folds try.
    tries_rare : bool
        Whether the folds try the candidates that must lead clearly.
    tries_plain : bool
        Whether the folds try plain trees last.
    mixes_kinds : bool
        Mean of the raw scores of the best two kinds of trees.
    crosses_columns : bool
        More columns: product, difference and ratio of each pair of the strongest numeric columns.
    crosses_categories : bool
        One more column: both categories of the strongest two columns of categories.
    lead : float
        Standard errors by which the mixture, or the best kind of trees with more columns, must
        lead on the folds.
    """

    parameters: dict[str, Any] = field(default_factory=dict)
    n_models: int = 1
    rounds_factor: float | None = None
    rate_factor: float = 1.0
    refits: bool = False
    last_rounds: float = 0.0
    recipe: dict[str, Any] = field(default_factory=dict)
    kept: Callable[[dict[str, Any]], bool] = lambda values: True
    tries_rare: bool = True
    tries_plain: bool = True
    mixes_kinds: bool = False
    crosses_columns: bool = False
    crosses_categories: bool = False
    lead: float = ALWAYS

    @property
    def same_rounds(self) -> bool:
        """Whether rounds and rate are those of the first fit."""
        same_number = self.rounds_factor is None and self.rate_factor == 1.0
        return same_number and self.last_rounds == 0.0

    @property
    def is_plain(self) -> bool:
        """Whether the model is the first fit."""
        return self.same_rounds and self.n_models == 1 and not self.refits


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
    "nothing rare tried": Variant(tries_rare=False),
    "small steps": Variant(recipe={"stride": 1.0}),
    "nothing tried, small steps": Variant(recipe={"stride": 1.0}, kept=lambda values: False),
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
        },
    ),
    "classes in small steps": Variant(
        recipe={
            "learning_rate": 0.05,
            "stride": 6.0,
            "easy_rounds": 1_000,
            "n_estimators": 2_000,
            "patience": 40,
        },
    ),
    "nothing tried, steps x 4": Variant(recipe={"stride": 4.0}, kept=lambda values: False),
    "extra trees": Variant({"extra_trees": True}),
    "path_smooth=3": Variant({"path_smooth": 3.0}),
    "min_samples_leaf=1": Variant({"min_samples_leaf": 1}),
    "reg_lambda=1": Variant({"reg_lambda": 1.0}),
    "subsample=1": Variant({"subsample": 1.0}),
    "patience of 120": Variant(recipe={"patience": 120}),
    "judged at equal learning": Variant(recipe={"at_equal_learning": True}),
    "three models": Variant(n_models=3),
    "half the rate": Variant(rate_factor=0.5),
    "two models of half the rounds": Variant(n_models=2, rate_factor=2.0),
    "two kinds": Variant(mixes_kinds=True),
    "two kinds if they lead": Variant(mixes_kinds=True, lead=0.0),
    "two kinds if they lead clearly": Variant(mixes_kinds=True, lead=1.0),
    "columns crossed": Variant(crosses_columns=True),
    "columns crossed if they lead": Variant(crosses_columns=True, lead=1.0),
    "columns crossed if they lead clearly": Variant(crosses_columns=True, lead=2.0),
    "categories crossed": Variant(crosses_categories=True),
    "categories crossed if they lead": Variant(crosses_categories=True, lead=1.0),
}


def predict(problem: tables.Problem, variant: Variant) -> np.ndarray:
    """Prediction of the test rows."""
    if variant.mixes_kinds:
        return of_two_kinds(problem, variant.lead)
    if variant.crosses_columns or variant.crosses_categories:
        return with_crossed(problem, variant)
    asked: dict[str, Any] = {"n_jobs": 1, "random_state": 0, **variant.parameters}
    with changed_defaults(variant):
        predictor: Any = models.fit_hedgerow(problem, asked)
    if variant.is_plain:
        return predictor(problem.X_test)
    model = predictor.__self__
    if variant.refits:
        model.booster_ = model.booster_.refit(problem.X, problem.y, decay=0.0)
        return predictor(problem.X_test)
    fixed = repeated(model, variant)
    first = predictor if variant.same_rounds else models.fit_hedgerow(problem, fixed)
    total = first(problem.X_test)
    for seed in range(1, variant.n_models):
        total = total + models.fit_hedgerow(problem, {**fixed, "random_state": seed})(
            problem.X_test
        )
    return total / variant.n_models


def repeated(model: Any, variant: Variant) -> dict[str, Any]:
    """Parameters that repeat a fit, with the rounds and the rate of the variant."""
    told, fixed = model.chosen_params_, model.repeat_params_
    # What the folds have found, times the factor of the variant instead of the defaults'.
    usual = told.get("rounds_factor", 1.0)
    factor = 1.0 if variant.rounds_factor is None else variant.rounds_factor / usual
    n_rounds = max(1, round(model.n_iter_ * factor / variant.rate_factor))
    rate = told["learning_rate"] * variant.rate_factor
    if variant.last_rounds:
        rates = falling(rate, n_rounds, variant.last_rounds)
        return {**fixed, "learning_rate": rates, "n_estimators": len(rates)}
    return {**fixed, "learning_rate": rate, "n_estimators": n_rounds}


class Compared:
    """The selection of one fit, as its folds ended: all entries, and losses of tested rows."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.divided: Any = None
        self.selection: Any = None

    @property
    def best(self) -> Entry:
        """What was chosen."""
        return self.selection.best

    def losses(self, entry: Entry, other: Entry | None = None) -> np.ndarray:
        """Losses of the rows that the folds test, by one entry or the mean scores of two."""
        grown = entry.grown.folds
        if other is not None:
            pairs = zip(grown, other.grown.folds, strict=True)
            grown = [replace(one, raw=(one.raw + two.raw) / 2) for one, two in pairs]
        return self.selection._tested.losses(grown)

    def leads(self, worse: np.ndarray, better: np.ndarray, lead: float) -> bool:
        """Whether losses are lower by more than ``lead`` standard errors."""
        return lead == ALWAYS or self.selection._tested.difference(worse, better).exceeds(lead)


@contextmanager
def compared(other: Compared | None = None) -> Iterator[Compared]:
    """Record the selection of a fit; it has the folds and the best kind of trees of another."""
    found, divide = Compared(), cross_stopping._divided

    class Recorded(ModelSelection):
        def hold(self, params: Any) -> None:
            found.selection = self
            if other is not None:
                self._request = replace(self._request, candidates=(), rare=(), plain=None)
                params = other.best.params
            super().hold(params)

        def _try(self, params: Any, folds: Any = None, *args: Any, **named: Any) -> Entry:
            entry = super()._try(params, folds, *args, **named)
            if folds is None:
                found.entries.append(entry)
            return entry

    def folds_of(*args: Any) -> Any:
        found.divided = divide(*args) if other is None else other.divided
        return found.divided

    with (
        patch.object(cross_stopping, "ModelSelection", Recorded),
        patch.object(cross_stopping, "_divided", folds_of),
    ):
        yield found


@contextmanager
def selecting(entry: Entry) -> Iterator[None]:
    """A fit in which the folds have found this entry, without being grown again."""

    class Given(ModelSelection):
        def hold(self, *args: Any) -> None:
            self.best = entry

    with patch.object(cross_stopping, "ModelSelection", Given):
        yield


def of_two_kinds(problem: tables.Problem, lead: float) -> np.ndarray:
    """Prediction by the mean raw scores of the two kinds of trees that are best on the folds."""
    asked = {"n_jobs": 1, "random_state": 0}
    with compared() as seen:
        predictor: Any = models.fit_hedgerow(problem, asked)
    others = [entry for entry in seen.entries if entry is not seen.best and entry.score > 0.0]
    if not others:
        return predictor(problem.X_test)
    other = min(others, key=lambda entry: entry.score)
    if not seen.leads(seen.losses(seen.best), seen.losses(seen.best, other), lead):
        return predictor(problem.X_test)
    with selecting(other):
        second: Any = models.fit_hedgerow(problem, asked)
    fitted = predictor.__self__, second.__self__
    if problem.task == "regression":
        return np.mean([model.predict(problem.X_test) for model in fitted], axis=0)
    scores = np.mean([model.decision_function(problem.X_test) for model in fitted], axis=0)
    if scores.ndim == 1:
        scores = np.column_stack([np.zeros_like(scores), scores])
    return softmax(scores, axis=1)


def with_crossed(problem: tables.Problem, variant: Variant) -> np.ndarray:
    """Prediction by a fit with more columns, of pairs of the strongest columns of a first fit.

    The folds compare both, with the kind of trees that is best without these columns.
    """
    asked = {"n_jobs": 1, "random_state": 0, "feature_crosses": None}
    with compared() as seen:
        predictor: Any = models.fit_hedgerow(problem, asked)
    gain = predictor.__self__.feature_importances_
    strongest = [problem.X.columns[k] for k in np.argsort(-gain, kind="stable") if gain[k] > 0.0]
    wider = crossed(problem, strongest, variant)
    if wider.X.shape[1] == problem.X.shape[1] or seen.selection is None:
        return predictor(problem.X_test)
    with compared(seen) as again:
        second: Any = models.fit_hedgerow(wider, asked)
    if not seen.leads(seen.losses(seen.best), again.losses(again.best), variant.lead):
        return predictor(problem.X_test)
    return second(wider.X_test)


def crossed(problem: tables.Problem, strongest: list[str], variant: Variant) -> tables.Problem:
    """The problem with more columns."""
    is_text = problem.X[problem.categories].nunique() <= FEW_LEVELS
    numeric = [name for name in strongest if name not in problem.categories]
    numeric = numeric[: N_CROSSED if variant.crosses_columns else 0]
    texts = [name for name in strongest if is_text.get(name, False)]
    pairs = list(combinations(texts[: 2 if variant.crosses_categories else 0], 2))

    def widen(frame: pd.DataFrame) -> pd.DataFrame:
        more = {}
        for one, other in combinations(numeric, 2):
            left, right = (frame[name].to_numpy(float) for name in (one, other))
            more[f"{one} * {other}"] = left * right
            more[f"{one} - {other}"] = left - right
            more[f"{one} / {other}"] = left / np.where(right == 0.0, np.nan, right)
        for one, other in pairs:
            both = frame[one].astype(str) + "|" + frame[other].astype(str)
            more[f"{one} and {other}"] = both.astype(object)
        return frame.assign(**more)

    names = [*problem.categories, *(f"{one} and {other}" for one, other in pairs)]
    return replace(problem, X=widen(problem.X), X_test=widen(problem.X_test), categories=names)


@contextmanager
def changed_defaults(variant: Variant) -> Iterator[None]:
    """The defaults with the variant's recipe and candidates, for as long as it lasts."""
    recipe, candidates = defaults.recipe, defaults.candidates_for
    rare_candidates, plain_trees = defaults.rare_candidates, candidates_module.plain_trees

    def kept(size: Any, params: Any) -> list[dict[str, Any]]:
        return [values for values in candidates(size, params) if variant.kept(values)]

    def rare(size: Any) -> list[dict[str, Any]]:
        return rare_candidates(size) if variant.tries_rare else []

    def no_trees(size: Any) -> dict[str, Any]:
        return {}

    with (
        patch.object(defaults, "recipe", lambda size: {**recipe(size), **variant.recipe}),
        patch.object(defaults, "candidates_for", kept),
        patch.object(defaults, "rare_candidates", rare),
        patch.object(
            candidates_module, "plain_trees", plain_trees if variant.tries_plain else no_trees
        ),
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
    p = wilcoxon(gap).pvalue if gap.any() else 1.0
    return (
        f"| {name} | {100 * gap.mean():+.2f}% ({100 * error:.2f}) | {100 * np.median(gap):+.2f}% | "
        f"{better} / {worse} | {p:.2g} | {seconds:.1f} |"
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
    index = tables.load_index()
    names = options.tables or [
        name for name in index
        if tables.half_of(name) in options.half_of
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
        scores, taken = measure(jobs, VARIANTS[name])
        print(line(name, scores, plain, taken.sum()), flush=True)


if __name__ == "__main__":
    main()
