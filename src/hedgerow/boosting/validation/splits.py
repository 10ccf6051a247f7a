"""Read folds of the user: their number, a scikit-learn splitter, or the splits themselves."""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from typing import Any

import numpy as np

from hedgerow.arrays import AnyArray, IntArray, distinct
from hedgerow.boosting.loop.setup.job import FitSpec
from hedgerow.boosting.row_data.queries import read_qid
from hedgerow.boosting.validation.folds import Fold, draw_folds
from hedgerow.errors import DataError, DataTypeError, ParameterError, brief
from hedgerow.metrics import task_of
from hedgerow.metrics.queries import first_seen


def folds_of(
    folds: Any,
    spec: FitSpec,
    seed: int,
    name: str,
    groups: Any = None,
    stratify: bool | None = None,
) -> list[Fold]:
    """Return the folds that a user gave, as positions among all rows.

    They are a number of folds, a splitter of scikit-learn, or pairs of row numbers; messages call
    them ``name``.  Queries, or else ``groups``, or else the groups of the rows, are not divided.
    ``stratify``: whether drawn folds spread each class evenly; None: if there are classes.
    """
    rows, sample = spec.rows, spec.train
    assert rows is not None
    blocks, shown = sample.query, rows.qid if sample.query is not None else groups
    if blocks is not None and groups is not None:
        raise ParameterError(
            "groups has no effect with qid: queries are the groups that stay together. Leave "
            "groups out."
        )
    if groups is not None:
        blocks = read_qid(groups, sample.n_rows, "groups")
    elif blocks is None and sample.group is not None:
        blocks, shown = first_seen(sample.group), rows.groups
    n_rows, target = sample.n_rows, sample.target
    if isinstance(folds, numbers.Integral) and not isinstance(folds, bool):
        if not 2 <= int(folds) <= n_rows:
            raise ParameterError(
                f"{name} must be at least 2 and at most the number of rows, {n_rows}; got "
                f"{brief(folds)}."
            )
        if stratify is None:
            stratify = task_of(spec.objective) in ("two classes", "classes") and target.ndim == 1
        target = target if target.ndim == 1 else target[:, 0]
        return draw_folds(target, int(folds), stratify, seed, blocks)
    text = isinstance(folds, str | bytes)
    if hasattr(folds, "split") and not text:
        X = rows.X
        table = X if hasattr(X, "shape") and len(X.shape) == 2 else np.zeros((n_rows, 1))
        pairs: Iterable[Any] = folds.split(table, rows.y, shown)
    elif isinstance(folds, Iterable) and not text and getattr(folds, "ndim", 1) > 0:
        pairs = folds
    else:
        raise ParameterError(
            f"{name} must be a number of folds, a splitter with a method split, or an iterable of "
            f"(train, test) row numbers; got {brief(folds)}."
        )
    found = [_fold(pair, number, n_rows, name) for number, pair in enumerate(pairs)]
    if not found:
        raise ParameterError(f"{name} has no splits: it needs at least one pair (train, test).")
    if blocks is not None:
        for number, fold in enumerate(found):
            _check_groups(fold, number, blocks, name)
    return found


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
