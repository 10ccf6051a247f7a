"""From a table to sorted columns, and from ranks back to thresholds.

Glossary
--------
different   the different values of a column, ascending, as keys
            (:mod:`hedgerow.kernels.tables.keys`); a rank is a place among them
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hedgerow.arrays import MISSING_KEY, AnyArray, FloatArray, IntArray, distinct
from hedgerow.data.binning.bins import integer_midpoints
from hedgerow.data.reading.table import Table
from hedgerow.data.schema import ColumnKind
from hedgerow.growing.cart.state import Columns
from hedgerow.kernels.cart.search import MISSING_RANK
from hedgerow.kernels.tables.keys import floats_of_keys, keys_of_floats
from hedgerow.threads import run_blocks

ABOVE_ALL = np.iinfo(np.int64).max
"""Threshold of a split that parts present values from missing ones."""


class SortedTable(NamedTuple):
    """Columns for growth, and what their ranks stand for."""

    columns: Columns
    different: list[IntArray]
    kinds: tuple[ColumnKind, ...]


def sort_table(
    table: Table,
    categorical: AnyArray,
    n_threads: int,
    sign: IntArray | None = None,
    *,
    draws: bool = False,
) -> SortedTable:
    """Sort every column of a table once."""
    n_rows, n_features = table.values.shape
    cells = np.empty(n_rows * n_features, dtype=np.uint64)
    different: list[IntArray] = [np.empty(0, dtype=np.int64)] * n_features

    def sort_some(first: int, last: int) -> None:
        for j in range(first, last):
            part = cells[j * n_rows : (j + 1) * n_rows]
            different[j] = sort_column(table.values[:, j], part)

    run_blocks(sort_some, n_features, n_threads, max(1, 50_000 // n_rows))
    signs = np.zeros(n_features, dtype=np.int64) if sign is None else sign
    sizes = [len(keys) for keys in different] if draws else [0] * n_features
    value = np.empty(0)
    if draws:
        kinds = table.schema.kinds
        value = np.concatenate(
            [
                keys.astype(np.float64) if kind == "int" else floats_of_keys(keys)
                for keys, kind in zip(different, kinds, strict=True)
            ]
        )
    start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    columns = Columns(
        cells, np.int64(n_rows), np.int64(n_features), categorical, signs, value, start
    )
    return SortedTable(columns, different, table.schema.kinds)


def sort_column(values: AnyArray, cells: AnyArray) -> IntArray:
    """Write the cells of a column in order; returns the keys of its different values."""
    values = np.ascontiguousarray(values)
    missing = np.isnan(values) if values.dtype.kind == "f" else values == MISSING_KEY
    present = np.flatnonzero(~missing) if missing.any() else None
    if present is not None:
        values = values[present]
    order = np.argsort(values)
    ascending = values[order]
    new = np.empty(len(values), dtype=bool)
    new[:1] = True
    np.not_equal(ascending[1:], ascending[:-1], out=new[1:])
    rows = order if present is None else present[order]
    n = len(values)
    cells[:n] = (np.cumsum(new) - 1).astype(np.uint64) << np.uint64(32) | rows.astype(np.uint64)
    # The sort above may leave equal values in any order; rows are to be ascending.
    cells[:n].sort()
    if present is not None:
        cells[n:] = np.uint64(MISSING_RANK) << np.uint64(32) | np.flatnonzero(missing).astype(
            np.uint64
        )
    chosen = ascending[new]
    return keys_of_floats(chosen) if chosen.dtype.kind == "f" else chosen


def thresholds_between(low: IntArray, high: IntArray, kind: ColumnKind) -> IntArray:
    """Return keys of the middles between neighbouring values ``low < high``, given as keys."""
    # ``low <= middle < high`` as keys, however close the values are.
    if kind == "int":
        return integer_midpoints(low, high)
    below, above = floats_of_keys(low), floats_of_keys(high)
    with np.errstate(invalid="ignore"):
        middle = below / 2.0 + above / 2.0
    middle = np.where((middle >= below) & (middle < above), middle, below)
    return keys_of_floats(middle)


def node_thresholds(
    data: SortedTable,
    feature: AnyArray,
    last_left: IntArray,
    first_right: IntArray,
    drawn: FloatArray,
) -> IntArray:
    """Return thresholds of splits whose ranks are given; 0 where there is no numeric split."""
    thresholds = np.zeros(len(feature), dtype=np.int64)
    for j in distinct(feature[feature >= 0]):
        keys = data.different[j]
        inner = np.flatnonzero((feature == j) & (last_left >= 0))
        thresholds[inner] = ABOVE_ALL
        cut = inner[first_right[inner] >= 0]
        thresholds[cut] = thresholds_between(
            keys[last_left[cut]], keys[first_right[cut]], data.kinds[j]
        )
        # Drawn thresholds are not changed, except in columns of wide integers.
        if data.kinds[j] != "int":
            known = cut[~np.isnan(drawn[cut])]
            thresholds[known] = keys_of_floats(drawn[known])
    return thresholds


def rank_rows(data: SortedTable, feature: int) -> IntArray:
    """Return the rank of each row in a column; ``MISSING_RANK`` where the value is missing."""
    n_rows = int(data.columns.n_rows)
    cells = data.columns.cells[feature * n_rows : (feature + 1) * n_rows]
    ranks = np.empty(n_rows, dtype=np.int64)
    ranks[(cells & np.uint64(0xFFFFFFFF)).astype(np.int64)] = (cells >> np.uint64(32)).astype(
        np.int64
    )
    return ranks
