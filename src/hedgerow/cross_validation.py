"""Learning curves by cross-validation of parameters and a Dataset: :func:`cv`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.booster import Booster
from hedgerow.boosting.external.stored_sample import StoredData
from hedgerow.boosting.loop.rounds import resolved
from hedgerow.boosting.loop.sample import Sample
from hedgerow.boosting.row_data.dataset import Dataset
from hedgerow.boosting.row_data.metric_groups import read_groups, refuse_several
from hedgerow.boosting.row_data.offsets import with_offset_columns
from hedgerow.boosting.row_data.positions import check_positions
from hedgerow.boosting.row_data.queries import check_queries, read_qid
from hedgerow.boosting.validation.cross import FoldStopping, GrownFold, grow_folds
from hedgerow.boosting.validation.cross_models import fold_model
from hedgerow.boosting.validation.fold_rows import FoldRows
from hedgerow.boosting.validation.folds import Fold
from hedgerow.boosting.validation.row_sets import ONLY, TRAINING
from hedgerow.boosting.validation.stopping import StoppingParams
from hedgerow.data.frames import FrameLibrary, make_frame
from hedgerow.errors import ParameterError
from hedgerow.estimators.splits import folds_of
from hedgerow.metrics import Metric, make_metrics, task_of
from hedgerow.threads import resolve_threads
from hedgerow.training import asked_fit, check_datasets, check_names, stopping_of

Curves = Mapping[str, Mapping[str, FloatArray]]


@dataclass(frozen=True, slots=True, eq=False)
class CrossValidation:
    """What :func:`cv` returns.

    Attributes
    ----------
    curves : dict of dicts of float64 (n_rounds, n_folds)
        ``curves["validation"]["loss"][i, k]``: score of the test rows of fold k after round
        i + 1; with ``train_scores`` also ``"train"``, of the rows that it is trained on.
    best_round : int
        Round with the best mean of the first metric over the test rows of all folds.
    boosters : tuple of Booster
        The model of each fold, up to the best round if the folds stopped early; empty
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
        """Mean over the folds after each round, by rows and metric."""
        return self._over_folds(np.mean)

    @property
    def std(self) -> dict[str, dict[str, FloatArray]]:
        """Standard deviation over the folds (of the population, as the peers have it)."""
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

    def to_frame(self, backend: FrameLibrary = "pandas") -> Any:
        """One row for each round: mean and standard deviation of each score.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"} or None, default="pandas"
            Library of the frame, which must be installed; None for a dict of lists.

        Returns
        -------
        data frame
            Columns ``round`` and, for rows and metric, ``validation loss mean``,
            ``validation loss std``, ...
        """
        mean, std = self.mean, self.std
        n_rounds = len(next(iter(mean[ONLY].values())))
        columns: dict[str, list[Any]] = {"round": list(range(1, n_rounds + 1))}
        for rows, curves in mean.items():
            for name, curve in curves.items():
                columns[f"{rows} {name} mean"] = curve.tolist()
                columns[f"{rows} {name} std"] = std[rows][name].tolist()
        return make_frame(columns, backend)

    def __repr__(self) -> str:
        best = ", ".join(f"{name} {score:.5g}" for name, score in self.best_scores.items())
        return f"<CrossValidation: {len(self.splits)} folds, best round {self.best_round}: {best}>"


def cv(
    params: Mapping[str, Any] | None,
    dataset: Dataset,
    folds: Any = 5,
    *,
    stratified: bool | None = None,
    groups: Any = None,
    keep_models: bool = False,
) -> CrossValidation:
    """Learning curves of the test rows of folds: of parameters as for :func:`hedgerow.train`.

    The table is read and binned once, and the folds are grown abreast.  For estimators, and
    predictions of each row by a model that is new to it, see :func:`hedgerow.cross_fit`.

    Parameters
    ----------
    params : mapping or None
        As for :func:`hedgerow.train`.  With ``early_stopping=True`` (``"auto"`` is False
        here) the folds end together, once their mean score has not improved for
        ``patience`` rounds.  ``train_scores=True`` adds curves of the rows trained on.
    dataset : Dataset
        With ``y``, in memory.
    folds : int, splitter or iterable of (train, test), default=5
        A number: folds are drawn by a hash of ``random_state`` and row number.  A splitter
        of scikit-learn, or pairs of row numbers or of truth values.
    stratified : bool, optional
        Spread each class evenly over the folds; None: where the target is classes.  For a
        number of folds.
    groups : array-like of shape (n_rows,), optional
        Rows of one group are never divided; default: ``groups`` of the Dataset.  Queries of
        rankings are never divided.
    keep_models : bool, default=False
        Keep the model of each fold.

    Returns
    -------
    CrossValidation

    Raises
    ------
    ParameterError, DataError, DataTypeError
        As :func:`hedgerow.train`; for folds that cannot be used.

    Examples
    --------
    >>> from hedgerow import Dataset, cv
    >>> from hedgerow.datasets import load_pima
    >>> X, y, names, _ = load_pima()
    >>> params = {"objective": "logistic", "n_estimators": 40, "eval_metric": ["auc", "loss"]}
    >>> found = cv(params, Dataset(X, y), folds=3)
    >>> found.curves["validation"]["auc"].shape
    (40, 3)
    >>> sorted(found.best_scores), len(found.to_frame())
    (['auc', 'loss'], 40)
    """
    given = dict(params or {})
    check_names(given)
    check_datasets(dataset, None)
    asked_stopping = stopping_of(given)
    _check(dataset, asked_stopping, stratified)
    asked = asked_fit(given, dataset, None)
    objective, sample = asked.objective, asked.train
    trees = resolved(asked.params, objective, sample.table.schema)
    check_queries(sample, None, objective, trees, asked_stopping)
    check_positions(sample, objective, trees)
    kept = sample.without_zero_weights()
    objective.check_target(kept.target)
    splits = _splits(folds, dataset, sample, stratified, groups, trees.seed, objective)
    inner = _counted(splits, sample)
    metrics = make_metrics(given.get("eval_metric"), objective)
    of_test, of_train = _measures(metrics, kept, asked_stopping.train_scores)
    threads = resolve_threads(given.get("n_jobs"))
    rows = FoldRows(kept, objective, trees, threads)
    grown = grow_folds(
        rows, inner, objective, trees, _limits(asked_stopping), of_test, threads,
        keep_trees=keep_models, of_train=of_train,
    )  # fmt: skip
    models = [
        with_offset_columns(fold_model(rows, fold, one, trees, threads), dataset.offset_names)
        for fold, one in zip(inner, grown.folds, strict=True)
        if keep_models
    ]
    curves = _curves(grown.folds)
    return CrossValidation(
        curves,
        grown.best.round if grown.best is not None else _best(of_test[0], curves),
        tuple(map(Booster, models)),
        tuple((fold.train, fold.test) for fold in splits),
    )


def _check(dataset: Any, stopping: StoppingParams, stratified: object) -> None:
    if isinstance(dataset, StoredData):
        raise ParameterError(
            "cv divides rows in memory into folds, and these are read batch by batch: give a table."
        )
    if stopping.by_folds or stopping.by_out_of_bag:
        raise ParameterError(
            f"early_stopping={stopping.early_stopping!r} judges by other rows than those that the "
            "folds test: use True or False."
        )
    if stopping.time_budget is not None:
        raise ParameterError("time_budget has no effect on cv: set n_estimators.")
    if stratified is not None and not isinstance(stratified, bool | np.bool_):
        raise ParameterError(f"stratified must be True, False or None; got {stratified!r}.")


def _splits(
    folds: Any,
    dataset: Dataset,
    sample: Sample,
    stratified: bool | None,
    groups: Any,
    seed: int,
    objective: Any,
) -> list[Fold]:
    """The folds, in the numbers of all rows."""
    is_number = isinstance(folds, int) and not isinstance(folds, bool)
    if stratified is not None and not is_number:
        raise ParameterError(
            "stratified is for a number of folds: a splitter, or splits, say themselves what they "
            "hold."
        )
    given = dataset.groups if groups is None else groups
    held = sample.query
    if held is None:
        held = read_qid(given, sample.n_rows, "groups")
    elif groups is not None:
        raise ParameterError("groups beside qid: queries are the groups; leave groups out.")
    of_classes = task_of(objective) in ("two classes", "classes") and sample.target.ndim == 1
    stratify = of_classes if stratified is None else bool(stratified)
    target = sample.target if sample.target.ndim == 1 else sample.target[:, 0]
    if stratify and sample.target.ndim == 1 and not of_classes and len(np.unique(target)) > 1000:
        raise ParameterError(
            "stratified=True spreads each value of the target evenly, and there are more than "
            "1,000 of them: leave it out."
        )
    shown = given if held is not sample.query else dataset.qid
    return folds_of(folds, dataset.X, dataset.y, target, stratify, seed, held, shown)


def _counted(folds: Sequence[Fold], sample: Sample) -> list[Fold]:
    """The folds in the numbers of the rows that count."""
    if sample.weight is None or (sample.weight > 0.0).all():
        return list(folds)
    counts = sample.weight > 0.0
    place = np.cumsum(counts) - 1
    found = []
    for number, fold in enumerate(folds):
        train, test = (place[rows[counts[rows]]] for rows in (fold.train, fold.test))
        if len(train) == 0 or len(test) == 0:
            raise ParameterError(f"folds: all rows of one side of split {number} have weight 0.")
        found.append(Fold(train, test))
    return found


def _measures(
    metrics: Sequence[Metric], kept: Sample, with_train: bool
) -> tuple[tuple[Metric, ...], tuple[Metric, ...]]:
    """Metrics for the test rows, and for those to train on if these are scored."""
    read = read_groups(metrics, kept)
    refuse_several(read)
    return read, read if with_train else ()


def _limits(stopping: StoppingParams) -> FoldStopping:
    if isinstance(stopping.early_stopping, str) or not stopping.early_stopping:
        return FoldStopping()
    return FoldStopping((stopping.patience, stopping.min_delta), pooled=True)


def _curves(folds: Sequence[GrownFold]) -> dict[str, dict[str, FloatArray]]:
    """Scores of all rounds, a column for each fold."""
    histories = [fold.watch.history for fold in folds]
    return {
        rows: {
            name: np.column_stack([history[rows][name] for history in histories])
            for name in histories[0][rows]
        }
        for rows in (ONLY, TRAINING)
        if rows in histories[0]
    }


def _best(metric: Metric, curves: Curves) -> int:
    mean = np.mean(curves[ONLY][metric.name], axis=1)
    return int(np.argmax(mean) if metric.higher_is_better else np.argmin(mean)) + 1


__all__ = ["CrossValidation", "cv"]
