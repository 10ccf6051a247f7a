"""Cross-fitting: :func:`cross_fit` trains the models of all folds in one call.

Glossary
--------
out-of-fold prediction   prediction of a row by the model of the fold that tests it, which
                         was not trained on the row
averaged model           a model whose raw score is the mean of the raw scores of all folds
refitted model           a model of all rows, with the number of rounds that the folds chose
"""

# ruff: noqa: SLF001  (the code here has the role of the estimators' fit methods)

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from sklearn.base import clone

from hedgerow.argument_types import is_one_of
from hedgerow.arrays import FloatArray, IntArray
from hedgerow.booster import Booster
from hedgerow.boosting.automatic.blending import asks_for_several
from hedgerow.boosting.loop.sample import Sample, with_own_levels
from hedgerow.boosting.row_data.classes import corrected, weights_of
from hedgerow.boosting.validation import cross_models
from hedgerow.boosting.validation.budget import budget_of
from hedgerow.boosting.validation.cross import (
    FoldPlan,
    FoldStopping,
    GrownFolds,
    grow_folds,
    in_time,
)
from hedgerow.boosting.validation.fold_rows import FoldRows, rows_of_folds
from hedgerow.boosting.validation.folds import Fold, among_weighted
from hedgerow.boosting.validation.splits import folds_of
from hedgerow.boosting.validation.stopping import StoppingParams
from hedgerow.cuda.arrays import on_host
from hedgerow.data import numbers_of
from hedgerow.errors import ParameterError, brief
from hedgerow.estimators.base import HedgerowEstimator
from hedgerow.estimators.cross_problem import (
    Problem,
    groups_of,
    mean_weights,
    read_problem,
    weights_of_folds,
)
from hedgerow.model.model import Model
from hedgerow.model.predict import Predictor
from hedgerow.notebook import Viewed
from hedgerow.threads import resolve_threads

Merge: TypeAlias = "Literal['average', 'refit']"
Stopping: TypeAlias = "Literal['pooled', 'fold']"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CrossFit(Viewed):
    """Results of :func:`cross_fit`.

    Attributes
    ----------
    oof_prediction : float64 (n_rows,), (n_rows, n_classes) or (n_rows, n_levels)
        Out-of-fold predictions: values, class probabilities of a classifier, or scores of a
        ranker.  The mean if several folds test a row; NaN if none does.
    oof_raw : float64 (n_rows,) or (n_rows, n_outputs)
        Out-of-fold raw scores, including ``offset``.
    scores : dict from str to float64 (n_folds,)
        Scores of each fold's test rows, for each metric of ``eval_metric`` (default: the loss).
    curves : dict from str to float64 (n_rounds, n_folds)
        Scores after each round; NaN after the end of a fold.
    boosters : tuple of Booster
        Model of each fold.
    best_rounds : int64 (n_folds,)
        Number of rounds in each model.
    splits : tuple of (train, test)
        Row numbers of each fold, int64.
    model : estimator or None
        The averaged or refitted model, as a fitted estimator.
    """

    oof_prediction: FloatArray
    oof_raw: FloatArray
    scores: Mapping[str, FloatArray]
    curves: Mapping[str, FloatArray]
    boosters: tuple[Booster, ...]
    best_rounds: IntArray
    splits: tuple[tuple[IntArray, IntArray], ...]
    model: Any = None

    def _facts(self) -> dict[str, object]:
        scores = {
            name: f"{np.mean(values):.5g} ± {np.std(values):.2g}"
            for name, values in self.scores.items()
        }
        low, high = int(self.best_rounds.min()), int(self.best_rounds.max())
        rounds = f"{low}" if low == high else f"{low} to {high}"
        made = "none" if self.model is None else type(self.model).__name__
        folds = f"{len(self.boosters)} of {len(self.oof_prediction)} rows"
        return {"folds": folds, **scores, "rounds": rounds, "model": made}


def cross_fit(
    estimator: Any,
    X: Any,
    y: Any,
    cv: Any = 5,
    *,
    sample_weight: Any = None,
    groups: Any = None,
    qid: Any = None,
    offset: Any = None,
    stopping: Stopping = "pooled",
    model: Merge | None = "average",
    n_jobs: int | None = None,
) -> CrossFit:
    """Train a model for each fold, and predict each row with a model not trained on it.

    The table is read and binned once.  The folds are trained side by side, small ones with
    one thread each.  Bins and category levels come from the values (not the targets) of all
    rows; apart from these, each fold equals a fit of its training rows alone.

    Parameters
    ----------
    estimator : HedgerowClassifier, HedgerowRegressor or HedgerowRanker
        Estimator with the parameters to use; it is not changed.
    X : array, data frame, sparse matrix or list of rows, shape (n_rows, n_features)
    y : array-like of shape (n_rows,)
        As for ``fit`` of the estimator.
    cv : int, splitter or iterable of (train, test), default=5
        Number of folds, which are drawn by a hash of ``random_state`` and row number and
        stratified by class; or a scikit-learn splitter (``KFold``, ``RepeatedKFold``,
        ``TimeSeriesSplit``, ...); or pairs of row numbers or boolean masks.
    sample_weight : array-like of shape (n_rows,), optional
        Rows of weight 0 are predicted, but neither trained on nor scored.
    groups : array-like of shape (n_rows,), optional
        Rows of a group stay in the same fold.
    qid : array-like of shape (n_rows,), optional
        Queries, for a ranker; rows of a query stay in the same fold.
    offset : str, list of str, or array-like of shape (n_rows,) or (n_rows, n_outputs), optional
        Initial raw score of each row, to which the trees are added.  Names select columns of
        X, which are then not features; the models remember the names.  An array must be
        passed again to ``predict``.
    stopping : {"pooled", "fold"}, default="pooled"
        Number of rounds with early stopping (``early_stopping`` True or ``"auto"``).
        ``"pooled"``: the same in all folds, with the best mean score of the test rows.
        ``"fold"``: the best for the test rows of each fold.  ``"pooled"`` is more stable.
        ``early_stopping="oob"`` requires ``"fold"``.
    model : {"average", "refit"} or None, default="average"
        Attribute ``model`` of the result: a forest with the mean raw score of all folds, or
        a fit of all rows with the pooled best, or else the mean, number of rounds.
    n_jobs : int, optional
        Total number of threads; default: ``n_jobs`` of the estimator.  The result does not
        depend on it.

    Returns
    -------
    CrossFit

    Raises
    ------
    ParameterError, DataError, DataTypeError, LossError
        For invalid parameters, data or splits; the message names the split.

    Notes
    -----
    The ``time_budget`` of the estimator applies to the complete call.  Without early stopping,
    all folds have the number of rounds that fit the time; with it, the best of these.  A refit
    gets its share of the time.

    With early stopping, the test rows determine the number of rounds.  With
    ``early_stopping=False`` or ``"oob"`` no out-of-fold prediction depends in any way on the
    target of its own row.

    Examples
    --------
    >>> from hedgerow import HedgerowClassifier, cross_fit
    >>> from hedgerow.datasets import load_pima
    >>> X, y, *_ = load_pima()
    >>> result = cross_fit(HedgerowClassifier(n_estimators=200), X, y)
    >>> result.oof_prediction.shape, len(result.boosters)
    ((768, 2), 5)
    >>> result.model.predict_proba(X[:2]).shape
    (2, 2)
    """
    X, y, groups, qid = map(on_host, (X, y, groups, qid))
    arguments = dict(locals())
    _check(estimator, stopping, model)
    requested: StoppingParams = estimator._stopping()  # the clock begins
    threads = resolve_threads(estimator.n_jobs if n_jobs is None else n_jobs)
    problem = read_problem(estimator, arguments)
    limits = _limits(requested, stopping)
    folds = folds_of(
        cv, X, y, problem.sample.target, problem.classes is not None, problem.params.seed,
        groups_of(groups, problem), qid if groups is None else groups,
    )  # fmt: skip
    rows, metrics = rows_of_folds(
        problem.sample, problem.objective, problem.params, requested, estimator.eval_metric, threads
    )
    inner = among_weighted(folds, problem.sample.weight, "cv")
    weights = weights_of_folds(problem, rows, inner)
    with budget_of(requested) as budget:
        n_refit = rows.sample.n_rows if model == "refit" else 0
        limits = limits if budget is None else in_time(limits, budget, inner, n_refit, threads)
        plan = FoldPlan(
            rows, problem.objective, rows.params, limits, metrics, threads, problem.weigh
        )
        grown = grow_folds(plan, inner)
    models = [
        problem.spec.finish(corrected(cross_models.fold_model(plan, fold, one), by_class))
        for fold, one, by_class in zip(inner, grown.folds, weights, strict=True)
    ]
    raw, prediction = _out_of_fold(folds, inner, grown, models, rows, problem, threads)
    return CrossFit(
        oof_prediction=prediction,
        oof_raw=raw,
        scores={m.name: np.array([one.scores[m.name] for one in grown.folds]) for m in metrics},
        curves=_curves(grown),
        boosters=tuple(Booster(one, problem.classes) for one in models),
        best_rounds=np.array(cross_models.rounds_of(grown.folds), dtype=np.int64),
        splits=tuple((fold.train, fold.test) for fold in folds),
        model=_merged(estimator, model, plan, grown, problem, weights, requested),
    )


def _check(estimator: Any, stopping: str, model: str | None) -> None:
    if not isinstance(estimator, HedgerowEstimator) or hasattr(estimator, "to_local"):
        raise ParameterError(
            "cross_fit trains a HedgerowClassifier, HedgerowRegressor or HedgerowRanker on a table "
            f"in memory; got {type(estimator).__name__}."
        )
    if model is not None and not is_one_of(model, ("average", "refit")):
        raise ParameterError(f"model must be 'average', 'refit' or None; got {brief(model)}.")
    if not is_one_of(stopping, ("pooled", "fold")):
        raise ParameterError(f"stopping must be 'pooled' or 'fold'; got {brief(stopping)}.")
    for name in ("callbacks", "progress", "train_scores"):
        if getattr(estimator, name):
            raise ParameterError(
                f"{name}={brief(getattr(estimator, name))} reports on a single fit, but cross_fit "
                f"trains all folds at once: leave {name} out."
            )
    if estimator.warm_start:
        raise ParameterError(
            "warm_start=True continues a fitted model, which has already seen the test rows of the "
            "folds: use warm_start=False."
        )
    if estimator.folds is not None:
        raise ParameterError(
            "folds of the estimator have no effect in cross_fit, whose own folds stop training: "
            "give them as cv."
        )
    if asks_for_several(estimator.blend):
        raise ParameterError(
            f"blend={brief(estimator.blend)} has no effect in cross_fit, which trains one kind of "
            "trees in all folds: use blend='auto', or fit the estimator with folds=."
        )


def _limits(requested: StoppingParams, stopping: str) -> FoldStopping:
    if requested.by_folds:
        raise ParameterError(
            "early_stopping='cv' draws separate folds: with cross_fit use early_stopping=True, "
            "which uses the test rows of each fold."
        )
    if requested.by_out_of_bag and stopping != "fold":
        raise ParameterError(
            "early_stopping='oob' scores each fold on its own out-of-bag rows: use stopping='fold'."
        )
    if not requested.is_on(True):
        if stopping == "fold":
            raise ParameterError(
                "stopping='fold' has no effect with early_stopping=False: leave it out."
            )
        return FoldStopping()
    limits = (requested.patience, requested.min_delta)
    return FoldStopping(limits, stopping == "pooled", requested.by_out_of_bag)


def _out_of_fold(
    folds: Sequence[Fold],
    inner: Sequence[Fold],
    grown: GrownFolds,
    models: Sequence[Model],
    rows: FoldRows,
    problem: Problem,
    n_threads: int,
) -> tuple[FloatArray, FloatArray]:
    """Return the mean raw score and prediction of each row over the folds that test it."""
    sample, objective = problem.sample, problem.objective
    counted = np.ones(sample.n_rows, dtype=np.bool_)
    if sample.weight is not None:
        counted = sample.weight > 0.0
    numbers = np.flatnonzero(counted)
    n_tests = np.zeros(sample.n_rows)
    raw = np.zeros((objective.n_outputs, sample.n_rows))
    linked: FloatArray | None = None
    for number, fold in enumerate(folds):
        tested = numbers[inner[number].test]
        booster = Booster(models[number])
        parts, others = [(tested, grown.folds[number].raw)], fold.test[~counted[fold.test]]
        if weights_of(booster.model) is not None:  # trained with another base score
            parts, others = [], fold.test
        if len(others):
            parts.append((others, _raw_of(models[number], rows, sample.take(others), n_threads)))
        for place, scores in parts:
            values = booster.link(scores)
            if linked is None:
                linked = np.zeros((sample.n_rows, *values.shape[1:]))
            raw[:, place] += scores
            linked[place] += values
            n_tests[place] += 1.0
    assert linked is not None
    n_tests[n_tests == 0.0] = np.nan
    raw /= n_tests
    linked /= n_tests.reshape(-1, *[1] * (linked.ndim - 1))
    return raw[0] if len(raw) == 1 else np.ascontiguousarray(raw.T), linked


def _raw_of(model: Model, rows: FoldRows, sample: Sample, n_threads: int) -> FloatArray:
    """Return raw scores from values, for rows of weight 0, which have no binned form."""
    _, (seen,) = with_own_levels(rows.original, [sample], lenient=True)
    values = numbers_of(seen.table)
    if model.inputs is not None:
        values = model.inputs.values(values, model.schema, n_threads)
    raw = Predictor(model.forest, model.split_schema.kinds).raw_scores(values, n_threads)
    return raw if sample.offset is None else raw + sample.offset


def _curves(grown: GrownFolds) -> dict[str, FloatArray]:
    histories = [one.watch.history[one.watch.rows] for one in grown.folds]
    found = {}
    for name in histories[0]:
        longest = max(len(history[name]) for history in histories)
        curves = np.full((longest, len(histories)), np.nan)
        for number, history in enumerate(histories):
            curves[: len(history[name]), number] = history[name]
        found[name] = curves
    return found


def _merged(
    estimator: Any,
    how: str | None,
    plan: FoldPlan,
    grown: GrownFolds,
    problem: Problem,
    weights: Sequence[FloatArray | None],
    clock: StoppingParams,
) -> Any:
    """Return the averaged or refitted model as a fitted estimator."""
    if how is None:
        return None
    if how == "average":
        found = cross_models.average_model(plan, grown)
        by_class = mean_weights(weights)
    else:
        rounds = np.mean(cross_models.rounds_of(grown.folds))
        n_rounds = max(1, round(float(rounds)))
        found = cross_models.refit_model(plan, grown, n_rounds, clock)
        by_class = None if problem.weigh is None else problem.weigh.of(plan.rows.sample)
    found = problem.spec.finish(corrected(found, by_class))
    more = {} if problem.classes is None else {"classes_": problem.classes}
    return clone(estimator)._adopt(found, **more)
