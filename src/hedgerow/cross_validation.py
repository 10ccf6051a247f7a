"""Learning curves by cross-validation of parameters and a Dataset: :func:`cv`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hedgerow.argument_types import check_bool
from hedgerow.arrays import FloatArray, IntArray, distinct
from hedgerow.booster import Booster
from hedgerow.boosting.loop.driver import FitOptions
from hedgerow.boosting.loop.fit import rows_of_folds
from hedgerow.boosting.loop.sample import ONLY
from hedgerow.boosting.loop.setup.job import FitSpec, Job
from hedgerow.boosting.row_data.dataset import TRAINING, Dataset
from hedgerow.boosting.validation.cross import FoldStopping, grow_folds
from hedgerow.boosting.validation.folds import Fold, among_weighted, folds_of, forward_folds
from hedgerow.boosting.validation.stopping import BestRound, StoppingParams
from hedgerow.errors import ParameterError, brief
from hedgerow.objectives.catalogue import task_of
from hedgerow.peers import OF_CV, advised
from hedgerow.shown import Viewed
from hedgerow.threads import resolve_threads
from hedgerow.training import check_datasets, loss_of, read_settings, stopping_of, trees_of

_MOST_STRATA = 1000

Curves = Mapping[str, Mapping[str, FloatArray]]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CrossValidation(Viewed):
    """Results of :func:`cv`.

    Attributes
    ----------
    curves : dict of dicts of float64 (n_rounds, n_folds)
        ``curves["validation"]["loss"][i, k]`` is the score of the test rows of fold k after
        round i + 1.  ``train_scores`` adds ``"train"``, the scores of the training rows.
    best_round : int
        Round with the best mean of the first metric over the folds' test rows.
    boosters : tuple of Booster
        Model of each fold, up to the best round if the folds stopped early; empty
        without ``keep_models``.
    splits : tuple of (train, test)
        Row numbers of each fold, int64.
    """

    curves: Curves
    best_round: int
    boosters: tuple[Booster, ...]
    splits: tuple[tuple[IntArray, IntArray], ...]

    @property
    def mean(self) -> dict[str, dict[str, FloatArray]]:
        """Mean over the folds after each round, by kind of rows and metric."""
        return self._over_folds(np.mean)

    @property
    def std(self) -> dict[str, dict[str, FloatArray]]:
        """Population standard deviation over the folds, as in LightGBM and XGBoost."""
        return self._over_folds(np.std)

    @property
    def best_scores(self) -> dict[str, float]:
        """Mean score of the test rows at the best round, by metric."""
        return {name: float(c[self.best_round - 1]) for name, c in self.mean[ONLY].items()}

    def _over_folds(self, take: Any) -> dict[str, dict[str, FloatArray]]:
        return {
            rows: {name: take(curve, axis=1) for name, curve in curves.items()}
            for rows, curves in self.curves.items()
        }

    def _facts(self) -> dict[str, object]:
        best = {name: f"{score:.5g}" for name, score in self.best_scores.items()}
        return {"folds": len(self.splits), "best round": self.best_round, **best}


@advised(OF_CV, "Parameters of the training belong in params.")
def cv(
    params: Mapping[str, Any] | None,
    dataset: Dataset,
    folds: Any = 5,
    *,
    stratified: bool | None = None,
    groups: Any = None,
    keep_models: bool = False,
) -> CrossValidation:
    """Compute learning curves by cross-validation.

    The table is read and binned once, and all folds are trained side by side.  For
    estimators, and for out-of-fold predictions, see :func:`hedgerow.cross_fit`.

    Parameters
    ----------
    params : mapping or None
        Parameters of :func:`hedgerow.train`.  With ``early_stopping=True`` all folds stop
        together when their mean score has not improved for ``patience`` rounds;
        ``"auto"`` means False here.  ``train_scores=True`` adds curves of the training rows.
    dataset : Dataset
        Rows with ``y``; those of files have the folds, and the models, of rows in memory.
    folds : int, splitter or iterable of (train, test), default=5
        Number of folds, which are drawn by a hash of ``random_state`` and row number; or a
        scikit-learn splitter; or pairs of row numbers or boolean masks.
    stratified : bool, optional
        Distribute each class evenly over the folds.  None does so for classification.
        Only for a number of folds, and without groups.
    groups : array-like of shape (n_rows,), optional
        Rows of a group stay in the same fold; by default ``groups`` of the Dataset.
        Queries of rankings are never divided.
    keep_models : bool, default=False
        Whether to return the model of each fold.

    Returns
    -------
    CrossValidation

    Raises
    ------
    ParameterError, DataError, DataTypeError
        As for :func:`hedgerow.train`, and for invalid folds.

    Examples
    --------
    >>> from hedgerow import Dataset, cv
    >>> from hedgerow.datasets import load_pima
    >>> X, y, names, _ = load_pima()
    >>> params = {"objective": "logistic", "n_estimators": 40, "eval_metric": ["auc", "loss"]}
    >>> found = cv(params, Dataset(X, y), folds=3)
    >>> found.curves["validation"]["auc"].shape
    (40, 3)
    >>> sorted(found.best_scores), len(found.mean["validation"]["loss"])
    (['auc', 'loss'], 40)
    """
    settings = read_settings(params)
    check_bool(keep_models, "keep_models")
    check_datasets(dataset, None)
    stopping = stopping_of(settings)
    if stopping.by_folds:
        raise ParameterError(
            f"early_stopping={stopping.early_stopping!r} does not use the test rows of the folds: "
            "use True or False."
        )
    if stopping.time_budget is not None:
        raise ParameterError("time_budget has no effect on cv: set n_estimators.")
    if stratified is not None and not isinstance(stratified, bool | np.bool_):
        raise ParameterError(f"stratified must be True, False or None; got {brief(stratified)}.")
    with Job(dataset, {}).opened() as own:
        return _of_folds(own, settings, folds, stratified, groups, keep_models)


def _of_folds(
    job: Job,
    settings: Mapping[str, Any],
    folds: Any,
    stratified: bool | None,
    groups: Any,
    keep_models: bool,
) -> CrossValidation:
    """Read the rows and train on all folds."""
    stopping, best = stopping_of(settings), None
    trees, threads = trees_of(settings), resolve_threads(settings.get("n_jobs"))
    divided = FitOptions(StoppingParams("cv"), n_jobs=threads)  # no rows are held out
    spec = job.read(loss_of(settings).read, trees, divided)
    splits = _splits(folds, spec, stratified, groups, trees.seed)
    inner = among_weighted(splits, spec.train.weight, "folds")
    rows, plan = rows_of_folds(spec, trees, stopping, settings.get("eval_metric"), threads)
    if stopping.early_stopping and not isinstance(stopping.early_stopping, str):
        best = BestRound(plan.metrics[0], stopping.patience, stopping.min_delta)
    grown = grow_folds(plan, rows, inner, FoldStopping(best, keep_trees=keep_models))
    models = [spec.finish(fold.model) for fold in grown.folds if keep_models]
    histories = [fold.watch.history for fold in grown.folds]
    curves = {
        name_of_rows: {
            name: np.column_stack([history[name_of_rows][name] for history in histories])
            for name in histories[0][name_of_rows]
        }
        for name_of_rows in (ONLY, TRAINING)
        if name_of_rows in histories[0]
    }
    if best is not None:
        best_round = best.round
    else:
        mean, metric = np.mean(curves[ONLY][plan.metrics[0].name], axis=1), plan.metrics[0]
        best_round = 1 + int(np.argmax(mean) if metric.higher_is_better else np.argmin(mean))
    return CrossValidation(
        curves,
        best_round,
        tuple(map(Booster, models)),
        tuple((fold.train, fold.test) for fold in splits),
    )


def _splits(
    folds: Any, spec: FitSpec, stratified: bool | None, groups: Any, seed: int
) -> list[Fold]:
    """Return the folds as positions among all rows."""
    sample, is_number = spec.train, isinstance(folds, int) and not isinstance(folds, bool)
    if stratified is not None and not is_number:
        raise ParameterError(
            "stratified has no effect with a splitter or an iterable of splits: pass a number of "
            "folds, or leave stratified out."
        )
    stays_together = not (groups is None and sample.query is None and sample.group is None)
    if stratified and stays_together:
        raise ParameterError(
            "stratified=True has no effect on groups or queries, which stay together: leave it out."
        )
    target = sample.target if sample.target.ndim == 1 else sample.target[:, 0]
    of_classes = task_of(spec.objective) in ("two classes", "classes") and sample.target.ndim == 1
    if stratified and not of_classes:
        n_values = len(distinct(target))
        if n_values > min(_MOST_STRATA, len(target) // 2):
            raise ParameterError(
                "stratified=True distributes the rows of each value of the target evenly, but the "
                f"{len(target)} rows have {n_values} different values: leave it out."
            )
    if sample.time is not None:
        if stratified or stays_together or not is_number:
            raise ParameterError(
                "time has no effect with a splitter, and none with stratified, groups and qid: "
                "pass a number of folds alone, which then test later rows, or leave time out."
            )
        return forward_folds(sample.time, folds, 1.0 / (folds + 1))
    return folds_of(folds, spec, seed, "folds", groups, stratified)
