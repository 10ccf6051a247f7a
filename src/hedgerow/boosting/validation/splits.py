"""Read folds of the user: their number, a scikit-learn splitter, or the splits themselves."""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from typing import Any

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray, IntArray, distinct
from hedgerow.boosting.loop.sample import Sample
from hedgerow.boosting.row_data.dataset import Dataset
from hedgerow.boosting.validation.folds import Fold, draw_folds
from hedgerow.errors import DataError, DataTypeError, ParameterError, brief
from hedgerow.metrics import task_of
from hedgerow.metrics.queries import first_seen
from hedgerow.objectives import Objective


def folds_of(
    cv: Any,
    X: Any,
    y: Any,
    target: FloatArray,
    stratify: bool,
    seed: int,
    groups: IntArray | None,
    given_groups: Any,
    name: str = "cv",
) -> list[Fold]:
    """Return the folds of ``cv``; raise if it has another type, or a split is invalid."""
    n_rows = len(target)
    if isinstance(cv, numbers.Integral) and not isinstance(cv, bool):
        if not 2 <= int(cv) <= n_rows:
            raise ParameterError(
                f"{name} must be at least 2 and at most the number of rows, {n_rows}; got "
                f"{brief(cv)}."
            )
        return draw_folds(target, int(cv), stratify, seed, groups)
    text = isinstance(cv, str | bytes)
    if hasattr(cv, "split") and not text:
        table = X if hasattr(X, "shape") and len(X.shape) == 2 else np.zeros((n_rows, 1))
        pairs: Iterable[Any] = cv.split(table, y, given_groups)
    elif isinstance(cv, Iterable) and not text and getattr(cv, "ndim", 1) > 0:
        pairs = cv
    else:
        raise ParameterError(
            f"{name} must be a number of folds, a splitter with a method split, or an iterable of "
            f"(train, test) row numbers; got {brief(cv)}."
        )
    folds = [_fold(pair, number, n_rows, name) for number, pair in enumerate(pairs)]
    if not folds:
        raise ParameterError(f"{name} has no splits: it needs at least one pair (train, test).")
    if groups is not None:
        for number, fold in enumerate(folds):
            _check_groups(fold, number, groups, name)
    return folds


def given_folds(
    folds: Any, rows: Dataset, sample: Sample, objective: Objective, seed: int
) -> list[Fold]:
    """Return ``folds`` for early stopping; ``sample`` has the rows of ``rows`` as numbers."""
    blocks = sample.query
    if blocks is None and sample.group is not None:
        blocks = first_seen(sample.group)
    shown = rows.groups if sample.query is None else rows.qid
    target = sample.target if sample.target.ndim == 1 else sample.target[:, 0]
    stratify = task_of(objective) in ("two classes", "classes") and sample.target.ndim == 1
    return folds_of(folds, rows.X, rows.y, target, stratify, seed, blocks, shown, name="folds")


def _fold(pair: Any, number: int, n_rows: int, name: str) -> Fold:
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise ParameterError(
            f"{name}: split {number} must be a pair (train, test); got {brief(pair)}."
        )
    train, test = (
        _rows(rows, f"{part} rows of split {number}", n_rows, name)
        for rows, part in zip(pair, ("train", "test"), strict=True)
    )
    both = np.intersect1d(train, test)
    if len(both):
        raise DataError(
            f"{name}: row {both[0]} is among both the train rows and the test rows of split "
            f"{number}: training rows must not be tested. Remove the row from one of the two."
        )
    return Fold(train, test)


def _rows(rows: Any, what: str, n_rows: int, name: str) -> IntArray:
    array: AnyArray = np.asarray(rows)
    if array.dtype == np.bool_ and array.shape == (n_rows,):
        array = np.flatnonzero(array)
    if array.ndim != 1 or (array.dtype.kind not in "iu" and len(array)):
        raise DataTypeError(
            f"{name}: the {what} must be row numbers, or a boolean for each row; got "
            f"{array.dtype} of shape {array.shape}."
        )
    if len(array) == 0:
        raise DataError(f"{name}: there are no {what}.")
    found: IntArray = array.astype(np.int64)
    wrong = (found < 0) | (found >= n_rows)
    if wrong.any():
        raise DataError(
            f"{name}: the {what} contain row {found[wrong][0]}, but rows are 0 to {n_rows - 1}."
        )
    if len(distinct(found)) < len(found):
        raise DataError(
            f"{name}: the {what} contain a row twice: use sample_weight to count a row twice."
        )
    return found


def _check_groups(fold: Fold, number: int, groups: IntArray, name: str) -> None:
    divided = np.intersect1d(groups[fold.train], groups[fold.test])
    if len(divided):
        row = int(np.argmax(groups == divided[0]))
        raise DataError(
            f"{name}: split {number} divides the group or query of row {row} into training and "
            "test rows: use a splitter for groups (GroupKFold), or a number of folds."
        )
