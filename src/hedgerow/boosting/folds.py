"""Which rows are tested by which fold.

Glossary
--------
fold    a division of the rows into those that trees are grown on and those that are
        tested: rows of neither kind are allowed
group   rows that are never divided: all are grown on, or all are tested

Folds of Hedgerow's own are drawn by a hash of seed and row number (of groups: of the
number of the group), as the rows that early stopping sets aside.  The rows of each
class, in the order of their hashes, go to the folds in turn::

    class       a a a a a a a b b b c
    fold        0 1 2 0 1 2 0 1 2 0 -     three folds; one row of a class is not tested
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.boosting.stopping import hash_rows
from hedgerow.errors import DataError
from hedgerow.metrics.queries import first_seen

FOLD_STREAM = 3
"""Stream of :mod:`hedgerow.kernels.hashing` for the choice of folds."""

NOT_TESTED = -1


@dataclass(frozen=True, slots=True, eq=False)
class Fold:
    """Rows to grow trees on, and rows to test them on.

    Attributes
    ----------
    train, test : int64
        Row numbers; none is in both.
    """

    train: IntArray
    test: IntArray


def draw_folds(
    target: FloatArray,
    n_folds: int,
    stratify: bool,
    seed: int,
    groups: IntArray | None = None,
    keys: npt.NDArray[np.uint64] | None = None,
) -> list[Fold]:
    """Divide all rows into ``n_folds`` folds of about the same size.

    Parameters
    ----------
    target : array of shape (n_rows,)
    n_folds : int
        At least 2; no more are made than there are rows, or groups.
    stratify : bool
        Spread each class evenly.  The only row of a class is in no test set.
        Of no meaning with ``groups``.
    seed : int
    groups : int64 (n_rows,), optional
        A number for each group.
    keys : uint64 (n_rows,), optional
        The same for copies of a row (:func:`hedgerow.boosting.row_keys.row_keys`), which
        are then in the same fold; the order of the rows is of no meaning.

    Returns
    -------
    list of Fold
        Row numbers ascend.

    Raises
    ------
    DataError
        If there is one row, or one group, only.

    Examples
    --------
    >>> folds = draw_folds(np.zeros(5), 2, stratify=False, seed=0)
    >>> [(fold.train.tolist(), fold.test.tolist()) for fold in folds]
    [([2, 4], [0, 1, 3]), ([0, 1, 3], [2, 4])]
    """
    if groups is not None:
        number = _folds_of_groups(first_seen(groups), n_folds, seed)
    else:
        number = _folds_of_rows(target, n_folds, stratify, seed, keys)
    n_folds = int(number.max()) + 1
    if n_folds < 2:
        what = "group" if groups is not None else "row (or one of each class)"
        raise DataError(
            f"folds test some rows and train on others, but there is only one {what}: give more, "
            "or use early_stopping=False."
        )
    return [Fold(np.flatnonzero(number != k), np.flatnonzero(number == k)) for k in range(n_folds)]


def _folds_of_rows(
    target: FloatArray,
    n_folds: int,
    stratify: bool,
    seed: int,
    keys: npt.NDArray[np.uint64] | None,
) -> IntArray:
    """Rows in the order of their hashes, of one class after the other, dealt out in turn."""
    n_rows = len(target)
    hashes = hash_rows(seed, FOLD_STREAM, n_rows) if keys is None else keys
    order = np.lexsort((hashes, target)) if stratify else np.argsort(hashes, kind="stable")
    sorted_hashes, label = hashes[order], target[order] if stratify else np.zeros(n_rows)
    is_copy = np.zeros(n_rows, dtype=bool)
    is_copy[1:] = (sorted_hashes[1:] == sorted_hashes[:-1]) & (label[1:] == label[:-1])
    if stratify:
        _, inverse = np.unique(label, return_inverse=True)
        n_different = np.bincount(inverse, weights=~is_copy)
        spread = n_different[inverse] > 1
        order, is_copy = order[spread], is_copy[spread]
    number = np.full(n_rows, NOT_TESTED, dtype=np.int64)
    number[order] = (np.cumsum(~is_copy) - 1) % n_folds
    return number


def _folds_of_groups(codes: IntArray, n_folds: int, seed: int) -> IntArray:
    """The largest groups first, each to the fold with the fewest rows."""
    sizes = np.bincount(codes)
    hashes = hash_rows(seed, FOLD_STREAM, len(sizes))
    fewest = [(0, k) for k in range(min(n_folds, len(sizes)))]
    number = np.empty(len(sizes), dtype=np.int64)
    for group in np.lexsort((hashes, -sizes)).tolist():
        n_rows, fold = fewest[0]
        number[group] = fold
        heapq.heapreplace(fewest, (n_rows + int(sizes[group]), fold))
    return number[codes]
