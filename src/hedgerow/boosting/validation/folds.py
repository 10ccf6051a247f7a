"""Assignment of rows to cross-validation folds.

Glossary
--------
fold    a division into training rows and test rows; rows may be in neither
group   rows that are never divided: all are training rows, or all are test rows

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
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import BoolArray, FloatArray, IntArray, distinct
from hedgerow.boosting.automatic.repeats import Repeats
from hedgerow.boosting.loop.sample import Sample
from hedgerow.boosting.validation.stopping import hash_rows
from hedgerow.errors import DataError
from hedgerow.metrics.queries import first_seen

FOLD_STREAM = 3
"""Stream of :mod:`hedgerow.kernels.primitives.hashing` that assigns rows to folds."""

ORDER_STREAM = 4
"""Stream of the same module for the order of test rows."""

NOT_TESTED = -1

_ROW = "row (or one of each class)"


@dataclass(frozen=True, slots=True, eq=False)
class Fold:
    """Training and test rows of a fold.

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


def draw_folds(
    target: FloatArray,
    n_folds: int,
    stratify: bool,
    seed: int,
    groups: IntArray | None = None,
    alike: IntArray | None = None,
) -> list[Fold]:
    """Divide all rows into ``n_folds`` folds of about the same size, or fewer if there are fewer.

    Each class is spread evenly with ``stratify``, unless there are ``groups``; the only row of a
    class is in no test set.  ``groups`` has a number for each group, and ``alike`` numbers from 0
    on, equal for copies of a row, which then are in the same fold, also across classes.
    """
    if groups is not None:
        number = _folds_of_groups(first_seen(groups), n_folds, seed)
    elif alike is not None:
        number = _folds_of_copies(target, n_folds, stratify, seed, alike)
    else:
        number = _dealt(target, n_folds, stratify, hash_rows(seed, FOLD_STREAM, len(target)))
    n_folds = _enough(int(number.max()) + 1, "group" if groups is not None else _ROW)
    return _folds_by(number, n_folds)


def forward_folds(time: FloatArray, n_folds: int, start: float) -> list[Fold]:
    """Return folds that test later rows than they train on; the first trains on this share of rows.

    Rows of one time are not divided, so there may be fewer folds::

        time     0 0 1 1 2 3 3 4 5 5
        fold 0   - - - - - t            - training, t test
        fold 1   - - - - - - t t
        fold 2   - - - - - - - - t t
    """
    order = np.argsort(time, kind="stable")
    last = np.ceil(np.linspace(start, 1.0, n_folds + 1) * len(time)).astype(np.int64) - 1
    ends = distinct(np.searchsorted(time[order], time[order[last]], side="right"))
    if len(ends) < 2:
        raise DataError(
            "folds test later rows than they train on, but the later half of the rows has one "
            "time: leave time out."
        )
    return [Fold(np.sort(order[:a]), np.sort(order[a:b])) for a, b in pairwise(ends)]


def deal_observations(sample: Sample, n_folds: int, stratify: bool, repeats: Repeats) -> list[Fold]:
    """Divide observations into ``n_folds`` folds; a row may stand for several observations."""
    row, hashes = repeats.row, repeats.hashes
    assert row is not None
    assert hashes is not None
    number = _dealt(sample.target[row], n_folds, stratify, hashes)
    n_folds = _enough(int(number.max()) + 1, _ROW)
    if len(row) == sample.n_rows:
        return _folds_by(number, n_folds)
    n_observed = np.bincount(row, minlength=sample.n_rows)
    each = (np.ones(sample.n_rows) if sample.weight is None else sample.weight) / n_observed
    folds = []
    for k in range(n_folds):
        n_tested = np.bincount(row[number == k], minlength=sample.n_rows)
        n_seen = n_observed - n_tested
        train, test = np.flatnonzero(n_seen), np.flatnonzero(n_tested)
        weights = (each * n_seen)[train], (each * n_tested)[test]
        folds.append(Fold(train, test, *weights, n_tested[test]))
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
    """Return the folds with their test rows in hash order.

    Rows with equal scores keep their order.  In a table sorted by relevance, the original
    order would be the right one, and a model without trees would be the best.
    """
    n_rows = 1 + max(int(fold.test.max()) for fold in folds)
    hashes = hash_rows(seed, ORDER_STREAM, n_rows)
    return [replace(fold, test=fold.test[np.argsort(hashes[fold.test])]) for fold in folds]


def folds_to_test(folds: list[Fold], target: FloatArray, n_tested: int) -> list[Fold]:
    """Return ``n_tested`` of the folds: the first ones, if their tested targets differ.

    Otherwise return those that test most rows with other targets, which may be the few rows of a
    rare class.
    """
    first = folds[:n_tested]
    if len(first) == len(folds) or can_judge(first, target):
        return first
    same = target[first[0].test[0]]
    n_others = [np.count_nonzero(_rows_unlike(target[fold.test], same)) for fold in folds]
    order = np.argsort([-n for n in n_others], kind="stable")
    return [folds[k] for k in order[:n_tested].tolist()]


def can_judge(folds: Sequence[Fold], target: FloatArray) -> bool:
    """Return whether tested targets differ, or all targets are the same.

    If a fold trains on several targets but all tested targets are the same, every round that
    predicts this target more surely is better, so the best number of rounds is not found.  Folds
    that train on one target only, because a group has all others, learn nothing and do not count.
    """
    if not _differ(target):
        return True
    learning = [fold for fold in folds if _differ(target[fold.train])]
    return bool(learning) and _differ(target[np.concatenate([fold.test for fold in learning])])


def _differ(target: FloatArray) -> bool:
    """Return whether some targets differ."""
    return bool(_rows_unlike(target, target[0]).any())


def _rows_unlike(target: FloatArray, same: FloatArray) -> BoolArray:
    """Return the rows whose target, or one of whose targets, is another than ``same``."""
    unlike: BoolArray = target != same
    return unlike if unlike.ndim == 1 else np.asarray(unlike.any(axis=1))


def _folds_by(number: IntArray, n_folds: int) -> list[Fold]:
    """Return folds that test the rows of their number, and train on all others."""
    return [Fold(np.flatnonzero(number != k), np.flatnonzero(number == k)) for k in range(n_folds)]


def _enough(n_folds: int, what: str) -> int:
    if n_folds < 2:
        raise DataError(
            f"folds test some rows and train on others, but there is only one {what}: give more, "
            "or use early_stopping=False."
        )
    return n_folds


def _dealt(
    target: FloatArray, n_folds: int, stratify: bool, hashes: npt.NDArray[np.uint64]
) -> IntArray:
    """Deal rows out to folds in turn, in hash order, one class after another."""
    order = np.lexsort((hashes, target)) if stratify else np.argsort(hashes, kind="stable")
    if stratify:
        _, label, n_rows = np.unique(target, return_inverse=True, return_counts=True)
        order = order[n_rows[label[order]] > 1]
    number = np.full(len(hashes), NOT_TESTED, dtype=np.int64)
    number[order] = np.arange(len(order)) % n_folds
    return number


def _folds_of_copies(
    target: FloatArray, n_folds: int, stratify: bool, seed: int, row: IntArray
) -> IntArray:
    """Deal rows out as :func:`_dealt`; copies count as one row, of their lowest class.

    A class with one row, or copies of one row, is in no test set.
    """
    hashes = hash_rows(seed, FOLD_STREAM, int(row.max()) + 1)
    if not stratify:
        return _dealt(target, n_folds, False, hashes)[row]
    classes, label = np.unique(target, return_inverse=True)
    cells = distinct(row * len(classes) + label)
    spread = (np.bincount(cells % len(classes), minlength=len(classes)) > 1)[label]
    first = np.full(len(hashes), len(classes))
    np.minimum.at(first, row[spread], label[spread])
    order = np.lexsort((hashes, first))[: np.count_nonzero(first < len(classes))]
    number = np.full(len(hashes), NOT_TESTED, dtype=np.int64)
    number[order] = np.arange(len(order)) % n_folds
    return np.where(spread, number[row], NOT_TESTED)


def _folds_of_groups(codes: IntArray, n_folds: int, seed: int) -> IntArray:
    """Assign groups, largest first, each to the fold with the fewest rows."""
    sizes = np.bincount(codes)
    hashes = hash_rows(seed, FOLD_STREAM, len(sizes))
    fewest = [(0, k) for k in range(min(n_folds, len(sizes)))]
    number = np.empty(len(sizes), dtype=np.int64)
    for group in np.lexsort((hashes, -sizes)).tolist():
        n_rows, fold = fewest[0]
        number[group] = fold
        heapq.heapreplace(fewest, (n_rows + int(sizes[group]), fold))
    return number[codes]
