"""Assignment of rows to cross-validation folds.

Hedgerow draws folds by a hash of seed and row number (for groups and copies: of their number, in
the order in which they first occur), like the rows held out for early stopping.  The rows of
each class, in hash order, go to the folds in turn::

    class       a a a a a a a b b b c
    fold        0 1 2 0 1 2 0 1 2 0 -     three folds; one row of a class is not tested

A row may stand for several observations (:mod:`hedgerow.boosting.automatic.repeats`).  These go
to the folds one by one, so a fold tests a part of the row's weight and trains on the remainder.
"""

from __future__ import annotations

import heapq
import numbers
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import AnyArray, FloatArray, IntArray, distinct
from hedgerow.boosting.automatic.repeats import find_repeats
from hedgerow.boosting.loop.sample import Sample
from hedgerow.boosting.loop.setup.job import FitSpec
from hedgerow.boosting.row_data.queries import read_qid
from hedgerow.errors import DataError, DataTypeError, ParameterError, brief
from hedgerow.kernels.primitives.hashing import hash_range
from hedgerow.metrics.queries import first_seen
from hedgerow.objectives.catalogue import task_of

FOLD_STREAM = 3
"""Stream of :mod:`hedgerow.kernels.primitives.hashing` that assigns rows to folds."""

ORDER_STREAM = 4
"""Stream of the same module for the order of test rows."""

NOT_TESTED = -1


@dataclass(frozen=True, slots=True, eq=False)
class Fold:
    """Training and test rows of a fold; rows may be in neither.

    train, test                int64: row numbers; a row is in both only if its weight is divided
    train_weight, test_weight  float64: weights of these rows; None: the weights of the sample
    n_tested                   int64 (n_test,): observations of each test row; None: one each
    by_class                   float64 (n_classes,): factors on the weights of rows of each class
    """

    train: IntArray
    test: IntArray
    train_weight: FloatArray | None = None
    test_weight: FloatArray | None = None
    n_tested: IntArray | None = None
    by_class: FloatArray | None = None


def divided(
    sample: Sample, n_folds: int, stratify: bool, seed: int, given: Sequence[Fold] = ()
) -> tuple[list[Fold], IntArray | None]:
    """Return folds, and numbers that rows of one observation share; None: each row is one."""
    target, blocks = sample.target, sample.query
    if blocks is None and sample.group is not None:
        blocks = first_seen(sample.group)
    if given or blocks is not None:
        folds = list(given) or draw_folds(target, n_folds, stratify, seed, blocks)
        return folds if sample.query is None else lists_in_any_order(folds, seed), blocks
    repeats = find_repeats(sample, seed, stratify)
    if repeats is None:
        return draw_folds(target, n_folds, stratify, seed), None
    if repeats.observed is not None:
        return deal_observations(sample, n_folds, stratify, *repeats.observed), None
    alike = repeats.number  # copies of a row stay in one fold, also across classes
    hashes = hash_range(seed, FOLD_STREAM, 0, int(alike.max()) + 1)
    return _folds_by(_dealt(target, n_folds, stratify, hashes, alike)), alike


def draw_folds(
    target: FloatArray, n_folds: int, stratify: bool, seed: int, groups: IntArray | None = None
) -> list[Fold]:
    """Divide all rows into ``n_folds`` folds of about the same size; fewer if there are fewer."""
    if groups is not None:
        return _folds_by(_folds_of_groups(first_seen(groups), n_folds, seed), "group")
    hashes = hash_range(seed, FOLD_STREAM, 0, len(target))
    return _folds_by(_dealt(target, n_folds, stratify, hashes))


def forward_folds(time: FloatArray, n_folds: int, start: float) -> list[Fold]:
    """Return folds that test later rows than they train on, the first on the share ``start``."""
    # Rows of one time are not divided, so there may be fewer folds (- training, t test):
    #     time     0 0 1 1 2 3 3 4 5 5
    #     fold 0   - - - - - t
    #     fold 1   - - - - - - t t
    #     fold 2   - - - - - - - - t t
    order = np.argsort(time, kind="stable")
    last = np.ceil(np.linspace(start, 1.0, n_folds + 1) * len(time)).astype(np.int64) - 1
    ends = distinct(np.searchsorted(time[order], time[order[last]], side="right"))
    if len(ends) < 2:
        raise DataError(
            "folds test later rows than they train on, but the later half of the rows has one "
            "time: leave time out."
        )
    return [Fold(np.sort(order[:a]), np.sort(order[a:b])) for a, b in pairwise(ends)]


def deal_observations(
    sample: Sample, n_folds: int, stratify: bool, row: IntArray, hashes: npt.NDArray[np.uint64]
) -> list[Fold]:
    """Divide observations into ``n_folds`` folds; a row may stand for several observations."""
    number = _dealt(sample.target[row], n_folds, stratify, hashes)
    folds = _folds_by(number)
    if len(row) == sample.n_rows:
        return folds
    n_observed = np.bincount(row, minlength=sample.n_rows)
    each = (np.ones(sample.n_rows) if sample.weight is None else sample.weight) / n_observed
    for k in range(len(folds)):
        n_tested = np.bincount(row[number == k], minlength=sample.n_rows)
        n_seen = n_observed - n_tested
        train, test = np.flatnonzero(n_seen), np.flatnonzero(n_tested)
        weights = (each * n_seen)[train], (each * n_tested)[test]
        folds[k] = Fold(train, test, *weights, n_tested[test])
    return folds


def among_weighted(folds: Sequence[Fold], weight: FloatArray | None, name: str) -> list[Fold]:
    """Return folds of all rows as positions among the rows of positive weight."""
    if weight is None or (weight > 0.0).all():
        return list(folds)
    counts = weight > 0.0
    place = np.cumsum(counts) - 1
    found = []
    for number, fold in enumerate(folds):
        train, test = (rows[counts[rows]] for rows in (fold.train, fold.test))
        for rows, part in ((train, "train"), (test, "test")):
            if len(rows) == 0:
                raise DataError(f"{name}: all {part} rows of split {number} have weight 0.")
        found.append(Fold(place[train], place[test]))
    return found


def lists_in_any_order(folds: list[Fold], seed: int) -> list[Fold]:
    """Return the folds with their test rows in hash order."""
    # Rows with equal scores keep their order: in a table sorted by relevance, a model without trees
    # would be the best.
    n_rows = 1 + max(int(fold.test.max()) for fold in folds)
    hashes = hash_range(seed, ORDER_STREAM, 0, n_rows)
    return [replace(fold, test=fold.test[np.argsort(hashes[fold.test])]) for fold in folds]


def folds_to_test(folds: list[Fold], target: FloatArray, n_tested: int) -> list[Fold]:
    """Return ``n_tested`` of the folds: the first ones, if their tested targets differ."""
    first = folds[:n_tested]
    if len(first) == len(folds) or can_judge(first, target):
        return first
    # Otherwise those that test most rows with other targets, as of a rare class.
    unlike = (target != target[first[0].test[0]]).reshape(len(target), -1).any(axis=1)
    n_others = [np.count_nonzero(unlike[fold.test]) for fold in folds]
    order = np.argsort([-n for n in n_others], kind="stable")
    return [folds[k] for k in order[:n_tested].tolist()]


def can_judge(folds: Sequence[Fold], target: FloatArray) -> bool:
    """Return whether tested targets differ, or all targets are the same."""

    def differs(target: FloatArray) -> bool:
        return bool((target != target[0]).any())

    if not differs(target):
        return True
    # Folds that train on one target, because a group has all others, learn nothing.
    learning = [fold for fold in folds if differs(target[fold.train])]
    # If all tested targets are the same, each round that predicts it more surely is better.
    return bool(learning) and differs(target[np.concatenate([fold.test for fold in learning])])


def _folds_by(number: IntArray, what: str = "row (or one of each class)") -> list[Fold]:
    """Return folds that test the rows of their number, and train on all others."""
    n_folds = int(number.max()) + 1
    if n_folds < 2:
        raise DataError(
            f"folds test some rows and train on others, but there is only one {what}: give more, "
            "or use early_stopping=False."
        )
    return [Fold(np.flatnonzero(number != k), np.flatnonzero(number == k)) for k in range(n_folds)]


def _dealt(
    target: FloatArray, n_folds: int, stratify: bool, hashes: npt.NDArray[np.uint64],
    row: IntArray | None = None,
) -> IntArray:  # fmt: skip
    """Deal rows out to folds in turn, in hash order, one class after another."""
    # Copies, which have the same number in ``row``, count as one row, of their lowest class.
    unit: IntArray = np.arange(len(target)) if row is None else row
    of_class = target if stratify else np.zeros(len(target))
    classes, label, n_rows = np.unique(of_class, return_inverse=True, return_counts=True)
    if row is not None:
        n_rows = np.bincount(distinct(row * len(classes) + label) % len(classes))
    tested = (n_rows > 1)[label]  # no class with one row, or copies of one row
    first = np.full(len(hashes), len(classes))
    np.minimum.at(first, unit[tested], label[tested])
    order = np.lexsort((hashes, first))[: np.count_nonzero(first < len(classes))]
    number = np.full(len(hashes), NOT_TESTED, dtype=np.int64)
    number[order] = np.arange(len(order)) % n_folds
    return np.where(tested, number[unit], NOT_TESTED)


def _folds_of_groups(codes: IntArray, n_folds: int, seed: int) -> IntArray:
    """Assign groups, largest first, each to the fold with the fewest rows."""
    sizes = np.bincount(codes)
    hashes = hash_range(seed, FOLD_STREAM, 0, len(sizes))
    fewest = [(0, k) for k in range(min(n_folds, len(sizes)))]
    number = np.empty(len(sizes), dtype=np.int64)
    for group in np.lexsort((hashes, -sizes)).tolist():
        n_rows, fold = fewest[0]
        number[group] = fold
        heapq.heapreplace(fewest, (n_rows + int(sizes[group]), fold))
    return number[codes]


def folds_of(
    folds: Any,
    spec: FitSpec,
    seed: int,
    name: str,
    groups: Any = None,
    stratify: bool | None = None,
) -> list[Fold]:
    """Return the folds that a user gave, as positions among all rows."""
    # Folds are a number, a splitter of scikit-learn, or pairs of row numbers.  ``stratify``:
    # whether drawn ones spread each class evenly; None: if there are classes.
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
            parted = np.intersect1d(blocks[fold.train], blocks[fold.test])
            if len(parted):
                row = int(np.argmax(blocks == parted[0]))
                raise DataError(
                    f"{name}: split {number} divides the group or query of row {row} into training "
                    "and test rows: use a splitter for groups (GroupKFold), or a number of folds."
                )
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
