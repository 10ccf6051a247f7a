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
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from sklearn.base import clone

from hedgerow.argument_types import is_one_of
from hedgerow.arrays import FloatArray, IntArray
from hedgerow.booster import Booster
from hedgerow.boosting.automatic.blending import asks_for_several
from hedgerow.boosting.loop.driver import FitOptions, FitPlan, found_by_loss, raw_of_rows
from hedgerow.boosting.loop.fit import fit, rows_of_folds
from hedgerow.boosting.loop.sample import with_own_levels
from hedgerow.boosting.loop.setup.job import FitSpec, Job, KnownTargets
from hedgerow.boosting.loop.watch import StoppedBy, record_of
from hedgerow.boosting.row_data.classes import corrected, weights_of
from hedgerow.boosting.row_data.statistics import assembled
from hedgerow.boosting.row_data.targets import has_columns
from hedgerow.boosting.validation.cross import (
    FoldRows,
    FoldStopping,
    GrownFold,
    GrownFolds,
    grow_folds,
)
from hedgerow.boosting.validation.folds import Fold, among_weighted, folds_of
from hedgerow.boosting.validation.stopping import BestRound, StoppingParams, budget_of
from hedgerow.cuda.arrays import on_host
from hedgerow.errors import DataError, ParameterError, brief
from hedgerow.estimators import labels
from hedgerow.estimators.base import HedgerowEstimator
from hedgerow.estimators.classifier import HedgerowClassifier
from hedgerow.estimators.ranker import HedgerowRanker
from hedgerow.model.forest import average_forests, with_inputs_of_all
from hedgerow.model.model import AVERAGED, Model
from hedgerow.model.predict import Predictor
from hedgerow.shown import Viewed
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
    y: Any = None,
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
        Or a Dataset of files, which holds y and all values of rows.
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
    ``early_stopping=False`` no out-of-fold prediction depends in any way on the target of its own
    row.

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
    arguments = {**locals(), "groups": None}  # groups divide the folds
    _check(estimator, stopping, model)
    requested: StoppingParams = estimator._stopping()  # the clock begins
    _check_stopping(requested, stopping)
    estimator._check_objective()
    if isinstance(estimator, HedgerowClassifier) and has_columns(y):
        raise DataError(
            "cross_fit takes one label for each row, but y has several columns: call it for each "
            "column."
        )
    if qid is not None and not isinstance(estimator, HedgerowRanker):
        raise ParameterError("qid has an effect only on a HedgerowRanker: use groups instead.")
    threads = resolve_threads(estimator.n_jobs if n_jobs is None else n_jobs)
    with estimator._job(arguments).opened() as job:
        return _of_folds(job, estimator, cv, groups, requested, stopping, model, threads)


def _of_folds(
    job: Job,
    estimator: Any,
    cv: Any,
    groups: Any,
    requested: StoppingParams,
    stopping: Stopping,
    how: Merge | None,
    n_threads: int,
) -> CrossFit:
    """Read the rows, train on all folds, and predict the rows that they test."""

    def read_targets(job: Job, n_rows: int, weight: FloatArray | None) -> KnownTargets:
        known = estimator._read_targets(job, n_rows, weight)
        return replace(known, by_class=None)  # each fold has weights of its own

    params = estimator._params()
    divided = FitOptions(StoppingParams("cv"), n_jobs=n_threads)  # no rows are held out
    spec = job.read(read_targets, params, divided)
    if spec.train.time is not None:
        raise ParameterError(
            "time has no effect in cross_fit: leave it out of the Dataset, and give cv a splitter "
            "such as TimeSeriesSplit()."
        )
    folds = folds_of(cv, spec, params.seed, "cv", groups)
    rows, plan = rows_of_folds(spec, params, requested, estimator.eval_metric, n_threads)
    inner = among_weighted(folds, spec.train.weight, "cv")
    by_class = getattr(estimator, "class_weight", None)
    if by_class is not None and spec.classes is not None:
        target, weight = rows.sample.target, rows.sample.weight
        inner = [
            replace(fold, by_class=labels.class_weights(
                by_class, spec.classes, target[fold.train],
                None if weight is None else weight[fold.train],
            ))
            for fold in inner
        ]  # fmt: skip
    best, limits = None, None
    if requested.is_on(True) and stopping == "pooled":
        best = BestRound(plan.metrics[0], requested.patience, requested.min_delta)
    elif requested.is_on(True):
        limits = (requested.patience, requested.min_delta)
    ends = FoldStopping(best, limits)
    if (budget := budget_of(requested)) is not None:
        n_refit = rows.sample.n_rows if how == "refit" else 0  # for which time is left
        n_grown = sum(len(fold.train) for fold in inner)
        ends = replace(ends, is_late=budget.deadline(n_grown / (n_grown + n_refit)))
    grown = grow_folds(plan, rows, inner, ends)
    models = [
        spec.finish(corrected(one.model, fold.by_class))
        for fold, one in zip(inner, grown.folds, strict=True)
    ]
    raw, prediction = _out_of_fold(folds, inner, grown, models, rows, spec)
    merged = None
    if how == "average":
        merged = spec.finish(corrected(_average(plan, rows, grown), _mean_weights(inner)))
    elif how == "refit":
        merged = _refit(job, estimator, plan, grown, divided)
    classes = {} if spec.classes is None else {"classes_": spec.classes}
    names = [metric.name for metric in plan.metrics]
    return CrossFit(
        oof_prediction=prediction,
        oof_raw=raw,
        scores={name: np.array([one.scores[name] for one in grown.folds]) for name in names},
        curves=_curves(grown),
        boosters=tuple(Booster(one, spec.classes) for one in models),
        best_rounds=np.array([one.forest.n_rounds for one in grown.folds], dtype=np.int64),
        splits=tuple((fold.train, fold.test) for fold in folds),
        model=None if merged is None else clone(estimator)._adopt(merged, **classes),
    )


def _check(estimator: Any, stopping: str, model: str | None) -> None:
    if not isinstance(estimator, HedgerowEstimator) or hasattr(estimator, "to_local"):
        raise ParameterError(
            "cross_fit trains a HedgerowClassifier, HedgerowRegressor or HedgerowRanker; got "
            f"{type(estimator).__name__}."
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


def _check_stopping(requested: StoppingParams, stopping: Stopping) -> None:
    if requested.by_folds:
        raise ParameterError(
            "early_stopping='cv' draws separate folds: with cross_fit use early_stopping=True, "
            "which uses the test rows of each fold."
        )
    if stopping == "fold" and not requested.is_on(True):
        raise ParameterError(
            "stopping='fold' has no effect with early_stopping=False: leave it out."
        )


def _out_of_fold(
    folds: Sequence[Fold],
    inner: Sequence[Fold],
    grown: GrownFolds,
    models: Sequence[Model],
    rows: FoldRows,
    spec: FitSpec,
) -> tuple[FloatArray, FloatArray]:
    """Return the mean raw score and prediction of each row over the folds that test it."""
    sample, n_outputs = spec.train, spec.objective.n_outputs
    counted = np.ones(sample.n_rows, dtype=np.bool_)
    if sample.weight is not None:
        counted = sample.weight > 0.0
    numbers = np.flatnonzero(counted)
    n_tests = np.zeros(sample.n_rows)
    raw = np.zeros((n_outputs, sample.n_rows))
    linked: FloatArray | None = None
    for number, fold in enumerate(folds):
        model = models[number]
        booster, parts = Booster(model), [(numbers[inner[number].test], grown.folds[number].raw)]
        others = fold.test[~counted[fold.test]]  # rows of weight 0 have no binned form
        if weights_of(model) is not None:  # trained with another base score
            parts, others = [], np.sort(fold.test)  # files are read in this order
        if len(others):
            _, (seen,) = with_own_levels(
                sample.without_zero_weights(), [sample.take(others)], lenient=True
            )
            predictor = Predictor(model.forest, model.split_schema.kinds)
            parts.append((others, raw_of_rows(predictor, seen, model.inputs, rows.n_threads)))
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


def _average(plan: FitPlan, rows: FoldRows, grown: GrownFolds) -> Model:
    """Return one model whose raw score is the mean of the raw scores of the fold models."""
    sample, folds = rows.sample, grown.folds
    forests, joined = [fold.forest for fold in folds], None
    if inputs := [fold.inputs for fold in folds if fold.inputs is not None]:
        forests, joined = with_inputs_of_all(forests, inputs)
    forest, watch = average_forests(forests), folds[0].watch
    record = record_of(sample.n_rows, plan.params, watch)
    record |= {"history": {"cv": grown.curves}, "best_round": None, AVERAGED: len(folds)}
    record["stopped_by"] = _stopped_by(folds)
    record.pop("out_of_bag", None)
    record |= found_by_loss(watch.objective, forest, sample, joined, plan.n_threads)
    schema = sample.table.schema
    return assembled(forest, schema, watch.objective, record, joined, folds[0].n_copies)


def _mean_weights(folds: Sequence[Fold]) -> FloatArray | None:
    """Return the geometric mean of the class weights of folds, as raw scores are averaged."""
    known = [fold.by_class for fold in folds if fold.by_class is not None]
    if not known or all(np.array_equal(by_class, known[0]) for by_class in known):
        return known[0] if known else None
    return np.asarray(np.exp(np.mean(np.log(known), axis=0)))


def _refit(
    job: Job, estimator: Any, plan: FitPlan, grown: GrownFolds, divided: FitOptions
) -> Model:
    """Return a model of all rows with the mean number of rounds, or fewer if the time runs out."""
    n_rounds = max(1, round(float(np.mean([fold.forest.n_rounds for fold in grown.folds]))))
    params = replace(estimator._params().with_rounds(n_rounds), oob_score=plan.params.oob_score)
    spec = job.read(estimator._read_targets, params, divided)
    spec = replace(spec, train=replace(spec.train, group=None, time=None))
    clock = plan.stopping
    stopping = StoppingParams(False, time_budget=clock.time_budget, began=clock.began)
    model = fit(spec, params, FitOptions(stopping, n_jobs=plan.n_threads))
    by_budget = model.training["stopped_by"] == "time_budget"
    n_estimators = {"n_estimators": plan.params.n_estimators}
    record = {
        **model.training,
        "parameters": {**model.training["parameters"], **n_estimators},
        "history": {"cv": grown.curves},
        "best_round": model.forest.n_rounds,
        "stopped_by": "time_budget" if by_budget else _stopped_by(grown.folds),
    }
    return replace(model, training=record)


def _stopped_by(folds: Sequence[GrownFold]) -> StoppedBy:
    """Return why the first fold ended, or ``"time_budget"`` if that ended any fold."""
    reasons: list[StoppedBy] = [fold.watch.stopped_by for fold in folds]
    return "time_budget" if "time_budget" in reasons else reasons[0]
