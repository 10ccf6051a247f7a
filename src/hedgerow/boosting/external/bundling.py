"""Bundles of features of rows in batches: which values conflicts hide.

Chunks hold a column for each feature.  Without conflicts, the model is the same as with bundles
(:mod:`hedgerow.data.binning.bundles`).  With ``max_conflict_rate``, training does not see the
values that conflicts hide, so bundles are chosen as in memory, from the active rows of all
columns, and each batch of training rows then gets the default in place of a hidden value::

    one pass    active rows and missing values of each column are counted
    one pass    active rows of the columns that may share one   -> memory, 4 bytes each
    pass two    each batch: bins of bundles -> a bin for each feature

Every rank of a cluster has the active rows of all ranks.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hedgerow.arrays import BoolArray, IntArray, RowArray
from hedgerow.boosting.external.file_table import FileTable
from hedgerow.boosting.loop.setup.training_matrix import bundle_rules
from hedgerow.comm.base import count_rows, gather_numbers
from hedgerow.data.binning.bins import BinSpec
from hedgerow.data.binning.bundles import (
    ActiveRows,
    Layout,
    cells_needed,
    conflicts_allowed,
    default_codes,
    list_rows,
    missing_in,
)
from hedgerow.data.binning.bundles import (
    count_rows as count_active,
)
from hedgerow.data.binning.matrix import check_bundled
from hedgerow.data.external.memory import shown_bytes
from hedgerow.data.sparse import SparseTable, sparse_of
from hedgerow.errors import AllRowsNeededError
from hedgerow.kernels.tables.bundles import N_OPEN
from hedgerow.params import BoostParams

_ACTIVE_BYTES, _SHARE = 4, 0.75
"""Memory of an active row of a column; share of the memory limit, because no store is in use."""


def hiding_layout(table: FileTable, spec: BinSpec, params: BoostParams) -> Layout | None:
    """Return the bundles that hide values of training rows; None if there are none."""
    rules = bundle_rules(params)
    check_bundled(spec, rules)
    first_row, n_rows = count_rows(table.n_rows, table.others)
    if conflicts_allowed(rules, n_rows) == 0 or spec.is_category.any():
        return None
    active = _counted(table, spec, n_rows)
    features = active.tried()
    if len(features) < 2:
        return None
    n_active = int(active.count[features].sum())
    size = _ACTIVE_BYTES * n_active + N_OPEN * n_rows // 8
    if size > _SHARE * table.memory_limit:
        raise AllRowsNeededError(
            f"max_conflict_rate={params.max_conflict_rate!r} chooses bundles from {n_active:,} "
            f"values of {n_rows:,} rows at once, which takes {shown_bytes(size)} and needs a "
            f"memory_limit of {shown_bytes(int(size / _SHARE))}: raise it, or use "
            "max_conflict_rate=0."
        )
    start, rows = _listed(table, spec, active, first_row)
    layout = active.layout(spec, rules, start, rows)
    return None if layout.n_conflicts == 0 else layout


def _entries(table: FileTable) -> Iterator[SparseTable]:
    for block in table.blocks():
        yield block if isinstance(block, SparseTable) else sparse_of(block)


def _counted(table: FileTable, spec: BinSpec, n_rows: int) -> ActiveRows:
    """Count the active rows of each feature on all ranks."""
    default_bin = default_codes(spec)
    count: IntArray = np.zeros(spec.n_features, dtype=np.int64)
    missing: BoolArray = np.zeros(spec.n_features, dtype=np.bool_)
    for entries in _entries(table):
        count += count_active(entries, spec, default_bin)[0]
        missing |= missing_in(entries)
    count = table.others.allreduce(count)
    missing = table.others.allreduce(missing.astype(np.int64), "max") > 0
    return ActiveRows(n_rows, default_bin, count, cells_needed(spec, missing))


def _listed(
    table: FileTable, spec: BinSpec, active: ActiveRows, first_row: int
) -> tuple[IntArray, RowArray]:
    """Return the active rows of the features tried, of all ranks, one feature after another."""
    features, others = active.tried().tolist(), table.others
    held = np.zeros(spec.n_features, dtype=np.int64)
    held[features] = active.count[features]
    start: IntArray = np.concatenate(([0], np.cumsum(held)))
    rows: RowArray = np.empty(start[-1], dtype=np.uint32)
    place = start[:-1].copy()
    for entries in _entries(table):
        counts = count_active(entries, spec, active.default_bin)
        own_start, own = list_rows(entries, spec, active.default_bin, counts, active.tried())
        own += np.uint32(first_row)
        first_row += entries.n_rows
        for feature in features:
            some = own[own_start[feature] : own_start[feature + 1]]
            rows[place[feature] : place[feature] + len(some)] = some
            place[feature] += len(some)
    for feature in features if others.size > 1 else ():
        mine = rows[start[feature] : place[feature]].astype(np.int64)
        rows[start[feature] : start[feature + 1]] = gather_numbers(mine, others)
    return start, rows
