"""Rows of queries: from labels of any kind to arrays for kernels."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from hedgerow.argument_types import listed
from hedgerow.arrays import AnyArray, FloatArray, IntArray
from hedgerow.errors import DataError, ParameterError, brief
from hedgerow.kernels.ranking import QueryRows

MOST_LABEL = 900
"""Limit on labels: gains of larger labels, 2**label times the rows, would not be finite."""


def query_rows(query: IntArray | None, n_rows: int) -> QueryRows:
    """Return the rows of each query, in the order in which the queries first occur."""
    if query is None:
        rows = np.arange(n_rows)
        return QueryRows(rows, np.array([0, n_rows]), rows)
    codes = first_seen(query)
    rows = np.argsort(codes, kind="stable")
    counts = np.bincount(codes)
    return QueryRows(rows, np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), rows)


def first_seen(query: AnyArray) -> IntArray:
    """Number the queries 0, 1, ... in the order in which they first occur."""
    _, first, inverse = np.unique(query, return_index=True, return_inverse=True)
    place = np.empty(len(first), dtype=np.int64)
    place[np.argsort(first, kind="stable")] = np.arange(len(first))
    return np.asarray(place[inverse.reshape(-1)])


def check_labels(target: FloatArray, name: str, n_gains: int | None, first_row: int = 0) -> None:
    """Raise ``DataError`` unless targets are integers >= 0, each with a gain."""
    most = MOST_LABEL if n_gains is None else n_gains - 1
    outside = ~((target >= 0.0) & (target <= most)) | (target != np.floor(target))
    if not outside.any():
        return
    row = int(np.argmax(outside))
    value = float(target[row])
    if n_gains is not None and value > most and value == np.floor(value):
        raise DataError(
            f"{name}: label_gain has gains of the labels 0 to {most}, but row {first_row + row} "
            f"has label {value:g}: give more gains."
        ).at(first_row + row)
    raise DataError(
        f"{name} needs labels 0, 1, 2, ... up to {most}, higher for more relevant rows; row "
        f"{first_row + row} holds {value!r}: number the relevance grades from 0."
    ).at(first_row + row)


def gains_of(target: FloatArray, label_gain: tuple[float, ...] | None) -> FloatArray:
    """Return the gain of each label: ``2**label - 1``, or its entry in ``label_gain``."""
    if label_gain is None:
        return np.asarray(np.exp2(target) - 1.0)
    return np.array(label_gain, dtype=np.float64)[target.astype(np.intp)]


def query_weights(queries: QueryRows, weight: FloatArray | None) -> FloatArray | None:
    """Return the mean weight of the rows of each query."""
    if weight is None:
        return None
    sums = np.add.reduceat(weight[queries.rows], queries.starts[:-1])
    return np.asarray(sums / np.diff(queries.starts))


def checked_gains(given: Any) -> tuple[float, ...]:
    """Return ``label_gain`` as non-decreasing numbers, or raise ``ParameterError``."""
    try:
        items = listed(given) or []
        gains = tuple(float(gain) for gain in items if not isinstance(gain, bool | str | bytes))
        right = len(gains) == len(items) > 0
    except (TypeError, ValueError, OverflowError):
        right, gains = False, ()
    right = right and all(0.0 <= gain < 1e100 for gain in gains)
    if not right or any(a > b for a, b in itertools.pairwise(gains)):
        raise ParameterError(
            "label_gain must be a non-decreasing sequence of numbers >= 0, the gains of the "
            f"labels 0, 1, ...; got {brief(given)}."
        )
    return gains
