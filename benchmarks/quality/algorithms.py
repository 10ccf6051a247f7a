"""Compare variants of Hedgerow's settings and algorithms with the defaults.

::

    python benchmarks/quality/algorithms.py                        # fold 0 of the first half
    python benchmarks/quality/algorithms.py --half 1 --variants 'rounds x 1.15'
    python benchmarks/quality/algorithms.py --rows 3000 --folds 0 1
    python benchmarks/quality/algorithms.py --tasks regression --variants 'constant leaves'
    python benchmarks/quality/algorithms.py --rows 3000 --variants 'nothing tried'
    python benchmarks/quality/algorithms.py --tables letter r_mv --variants 'small steps'
    python benchmarks/quality/algorithms.py --from-rows 3000 --variants 'two kinds'

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
from copy import copy
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

MAX_ROWS = 12_000
TIE = 1e-3
SLOW = frozenset({"m_leaf_id_flavia", "soybean", "letter", "optdigits", "vowel", "poker_60k"})
"""Tables with many classes: a round grows a tree for each class."""

N_CROSSED = 4
"""Number of numeric columns that are crossed with each other."""
FEW_LEVELS = 50
"""Largest number of categories of a column that is crossed with another one."""
ALWAYS = -np.inf


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
    tries_plain : bool
        Whether cross-validation tries plain trees last.
    mixes_kinds : bool
        Average the raw scores of the best two candidates.
    crosses_columns : bool
        Add the product, difference and ratio of each pair of the strongest numeric columns.
    crosses_categories : bool
        Add a column that combines the two strongest categorical columns.
    lead : float
        Number of standard errors by which the mixture, or the best candidate with more columns,
        must lead in cross-validation.
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
    tries_plain: bool = True
    mixes_kinds: bool = False
    crosses_columns: bool = False
    crosses_categories: bool = False
    lead: float = ALWAYS

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
    "no smaller trees tried": Variant(keeps=lambda values: values.get("max_leaves") is None),
    "no categories one by one": _exclude_candidates(max_cat_to_onehot=254),
    "no plain trees": Variant(tries_plain=False),
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
    "nothing tried, steps x 4": Variant(recipe={"stride": 4.0}, keeps=lambda values: False),
    "extra trees": Variant({"extra_trees": True}),
    "path_smooth=3": Variant({"path_smooth": 3.0}),
    "path_smooth=30": Variant({"path_smooth": 30.0}),
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
    """Fit the variant and return its predictions for the test rows."""
    if variant.mixes_kinds:
        return predict_with_mixture(problem, variant.lead)
    if variant.crosses_columns or variant.crosses_categories:
        return predict_with_crosses(problem, variant)
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


class RecordedSelection:
    """The model selection of one fit: its entries, and the losses on held-out rows."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.divided: Any = None
        self.selection: Any = None

    @property
    def best(self) -> Entry:
        """The entry that was selected."""
        return self.selection.best

    def losses(self, entry: Entry, other: Entry | None = None) -> np.ndarray:
        """Return losses on held-out rows, of one entry or of the mean raw scores of two."""
        grown = entry.grown.folds
        if other is not None:
            grown = [copy(fold) for fold in grown]
            for one, two in zip(grown, other.grown.folds, strict=True):
                one.raw = (one.raw + two.raw) / 2
        return self.selection.tested.losses(grown)

    def leads(self, worse: np.ndarray, better: np.ndarray, lead: float) -> bool:
        """Return whether losses are lower by more than ``lead`` standard errors."""
        return lead == ALWAYS or self.selection.tested.difference(worse, better).exceeds(lead)


@contextmanager
def record_selection(other: RecordedSelection | None = None) -> Iterator[RecordedSelection]:
    """Record the model selection of a fit.

    If ``other`` is given, the fit takes over its folds and its best candidate.
    """
    recorded, divide = RecordedSelection(), cross_stopping.divided

    class Recorded(ModelSelection):
        def hold(self, params: Any) -> None:
            recorded.selection = self
            if other is not None:
                self._request = replace(self._request, candidates=(), rare=(), plain=None)
                params = other.best.params
            super().hold(params)

        def _try(self, params: Any, folds: Any = None, *args: Any, **named: Any) -> Entry | None:
            entry = super()._try(params, folds, *args, **named)
            if folds is None and entry is not None:
                recorded.entries.append(entry)
            return entry

    def divide_rows(*args: Any) -> Any:
        recorded.divided = divide(*args) if other is None else other.divided
        return recorded.divided

    with (
        patch.object(cross_stopping, "ModelSelection", Recorded),
        patch.object(cross_stopping, "divided", divide_rows),
    ):
        yield recorded


@contextmanager
def force_selection(entry: Entry) -> Iterator[None]:
    """Make fits select this entry without growing the models of the folds again."""

    class ForcedSelection(ModelSelection):
        def hold(self, *args: Any) -> None:
            self.best = entry

    with patch.object(cross_stopping, "ModelSelection", ForcedSelection):
        yield


def predict_with_mixture(problem: tables.Problem, lead: float) -> np.ndarray:
    """Predict with the mean raw scores of the two candidates that cross-validation ranks best."""
    params = {"n_jobs": 1, "random_state": 0}
    with record_selection() as selection:
        predictor: Any = models.fit_hedgerow(problem, params)
    others = [
        entry for entry in selection.entries if entry is not selection.best and entry.score > 0.0
    ]
    if not others:
        return predictor(problem.X_test)
    other = min(others, key=lambda entry: entry.score)
    if not selection.leads(
        selection.losses(selection.best), selection.losses(selection.best, other), lead
    ):
        return predictor(problem.X_test)
    with force_selection(other):
        second: Any = models.fit_hedgerow(problem, params)
    fitted = predictor.__self__, second.__self__
    if problem.task == "regression":
        return np.mean([model.predict(problem.X_test) for model in fitted], axis=0)
    scores = np.mean([model.decision_function(problem.X_test) for model in fitted], axis=0)
    if scores.ndim == 1:
        scores = np.column_stack([np.zeros_like(scores), scores])
    return softmax(scores, axis=1)


def predict_with_crosses(problem: tables.Problem, variant: Variant) -> np.ndarray:
    """Predict with a fit that has more columns, made of pairs of a first fit's strongest columns.

    Cross-validation compares both fits, with the candidate that is best without these columns.
    """
    params = {"n_jobs": 1, "random_state": 0, "feature_crosses": None}
    with record_selection() as selection:
        predictor: Any = models.fit_hedgerow(problem, params)
    gain = predictor.__self__.feature_importances_
    strongest = [problem.X.columns[k] for k in np.argsort(-gain, kind="stable") if gain[k] > 0.0]
    wider = add_crosses(problem, strongest, variant)
    if wider.X.shape[1] == problem.X.shape[1] or selection.selection is None:
        return predictor(problem.X_test)
    with record_selection(selection) as second_selection:
        second: Any = models.fit_hedgerow(wider, params)
    if not selection.leads(
        selection.losses(selection.best),
        second_selection.losses(second_selection.best),
        variant.lead,
    ):
        return predictor(problem.X_test)
    return second(wider.X_test)


def add_crosses(problem: tables.Problem, strongest: list[str], variant: Variant) -> tables.Problem:
    """Return the problem with the columns that the variant adds."""
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
def override_defaults(variant: Variant) -> Iterator[None]:
    """Replace the default recipe and candidates by the variant's while the context is open."""
    recipe, candidates = defaults.recipe, defaults.candidates_for
    rare_candidates, plain_trees = defaults.rare_candidates, candidates_module.plain_trees

    def filtered_candidates(size: Any, params: Any) -> list[dict[str, Any]]:
        return [values for values in candidates(size, params) if variant.keeps(values)]

    def rare(size: Any) -> list[dict[str, Any]]:
        return rare_candidates(size) if variant.tries_rare else []

    def no_plain_trees(size: Any) -> dict[str, Any]:
        return {}

    with (
        patch.object(defaults, "recipe", lambda size: {**recipe(size), **variant.recipe}),
        patch.object(defaults, "candidates_for", filtered_candidates),
        patch.object(defaults, "rare_candidates", rare),
        patch.object(
            candidates_module, "plain_trees", plain_trees if variant.tries_plain else no_plain_trees
        ),
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
