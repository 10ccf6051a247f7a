"""The split table: all candidate cuts of a node with their scores.

Glossary
--------
prefix impurity   entry i: impurity of the first i + 1 rows of a list, times the weight of
                  these rows; the reversed list gives the impurities of the remaining rows
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from hedgerow.arrays import MISSING_KEY, AnyArray, FloatArray, IntArray, distinct
from hedgerow.cart.impurity import GINI, POISSON
from hedgerow.cart.training import CRITERIA, CartSample, thresholds_between
from hedgerow.cart.tree import CartTree
from hedgerow.data.schema import ColumnKind
from hedgerow.errors import DataError
from hedgerow.kernels.tables.keys import float_of_key, keys_of_floats
from hedgerow.model.forest import HIGHEST_KEY

Prefixes: TypeAlias = Callable[[IntArray], FloatArray]
"""A function that returns the prefix impurities of a list of rows."""

_COLUMNS = ("feature", "kind", "cut", "missing_left", "n_left", "n_right", "score", "decrease")


def split_table(
    tree: CartTree,
    node: int,
    sample: CartSample,
    reached: IntArray,
    criterion: str,
    n_classes: int,
    categorical: AnyArray,
    outer: bool,
) -> dict[str, list[Any]]:
    """Return the columns of :meth:`hedgerow.cart.base.CartEstimator.split_table`."""
    below = np.arange(tree.node_count) == node
    for at in np.flatnonzero(tree.feature >= 0):  # parents come first
        below[[tree.children_left[at], tree.children_right[at]]] |= below[at]
    here = below[reached]
    if sample.weight is not None:
        here &= sample.weight > 0.0
    rows = np.flatnonzero(here)
    if len(rows) == 0:
        raise DataError(f"no row of positive weight reaches node {node}.")
    weight = np.ones(len(reached)) if sample.weight is None else sample.weight
    prefixes = _prefixes(CRITERIA[criterion], n_classes, sample.target, weight)
    total = float(weight[rows].sum())
    impurity = float(prefixes(rows)[-1]) / total
    result: dict[str, list[Any]] = {name: [] for name in _COLUMNS}

    def add(*cut: Any) -> None:
        *named, n_left, score = cut
        values = (*named, n_left, len(rows) - n_left, score, impurity - score)
        for name, value in zip(_COLUMNS, values, strict=True):
            result[name].append(value)

    for j, column in enumerate(sample.table.schema.columns):
        values = sample.table.values[rows, j]
        keys = values if values.dtype.kind == "i" else keys_of_floats(values)
        as_number: Callable[[int], float] = int if column.kind == "int" else float_of_key
        if categorical[j]:
            for key in distinct(keys[keys != MISSING_KEY]):
                left, right = rows[keys == key], rows[keys != key]
                if len(right) > 0:
                    score = (prefixes(left)[-1] + prefixes(right)[-1]) / total
                    add(column.name, "==", as_number(key), 0, len(left), float(score))
            continue
        for key, missing_left, n_left, score in _cuts(keys, rows, prefixes, column.kind, outer):
            cut = (
                np.inf if key == HIGHEST_KEY else -np.inf if key == MISSING_KEY else as_number(key)
            )
            add(column.name, "<=", cut, missing_left, n_left, score / total)
    return result


def _cuts(
    keys: IntArray, rows: IntArray, prefixes: Prefixes, kind: ColumnKind, outer: bool
) -> list[tuple[int, int, int, float]]:
    """Return threshold key, side of missing values, rows on the left and score of each cut."""
    order = np.argsort(keys, kind="stable")
    n_missing = int((keys == MISSING_KEY).sum())
    present, missing = order[n_missing:], order[:n_missing]
    ascending, n = keys[present], len(rows)
    ends = np.flatnonzero(ascending[1:] != ascending[:-1])
    thresholds = thresholds_between(ascending[ends], ascending[ends + 1], kind)
    found: list[tuple[int, int, int, float]] = []
    for side in range(2 if n_missing > 0 and len(present) > 0 else 1):
        listed = rows[np.concatenate((missing, present) if side else (present, missing))]
        # Weighted impurity of the first 0, 1, ... rows plus that of all others.
        scores = np.append(0.0, prefixes(listed)) + np.append(prefixes(listed[::-1])[::-1], 0.0)
        n_before = n_missing if side else 0
        last = n_before + len(present)
        cuts = list(zip(thresholds.tolist(), (n_before + ends + 1).tolist(), strict=True))
        if outer:
            cuts.insert(0, (MISSING_KEY, n_before))
        if outer or (side == 0 and 0 < last < n):
            cuts.append((HIGHEST_KEY, last))
        found += [(key, side, n_left, float(scores[n_left])) for key, n_left in cuts]
    return found


def _prefixes(criterion: int, n_classes: int, target: FloatArray, weight: FloatArray) -> Prefixes:
    def of_classes(rows: IntArray) -> FloatArray:
        counts = np.zeros((len(rows), n_classes))
        counts[np.arange(len(rows)), target[rows].astype(np.intp)] = weight[rows]
        counts = np.cumsum(counts, axis=0)
        mass = counts.sum(axis=1)
        shares = counts / mass[:, None]
        if criterion == GINI:
            return mass * (1.0 - (shares * shares).sum(axis=1))
        return -mass * (shares * np.log2(np.where(shares > 0.0, shares, 1.0))).sum(axis=1)

    def of_squares(rows: IntArray) -> FloatArray:
        w = weight[rows]
        y = target[rows] - np.average(target[rows], weights=w)
        moment = np.cumsum(w * y)
        return np.maximum(np.cumsum(w * y * y) - moment * moment / np.cumsum(w), 0.0)

    def of_deviances(rows: IntArray) -> FloatArray:
        y, w = target[rows], weight[rows]
        total, mass = np.cumsum(w * y), np.cumsum(w)
        mean = np.where(total > 0.0, total / mass, 1.0)
        own = np.cumsum(w * y * np.log(np.where(y > 0.0, y, 1.0)))
        return np.maximum(own - total * np.log(mean), 0.0)

    if n_classes > 0:
        return of_classes
    return of_deviances if criterion == POISSON else of_squares
