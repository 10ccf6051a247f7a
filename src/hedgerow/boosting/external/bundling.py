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
from dataclasses import replace

import numpy as np

from hedgerow.arrays import BoolArray, IntArray, RowArray
from hedgerow.boosting.external.binned_rows import RowBinning
from hedgerow.boosting.external.encoded import Batches
from hedgerow.boosting.loop.setup.training_matrix import bundle_rules
from hedgerow.comm.base import Communicator, gather_numbers
from hedgerow.data.binning.bundles import (
    ActiveRows,
    cells_needed,
    conflicts_allowed,
    count_rows,
    default_codes,
    list_rows,
    missing_in,
)
from hedgerow.data.binning.matrix import check_bundled
from hedgerow.data.external.memory import shown_bytes
from hedgerow.data.sparse import SparseTable, sparse_of
from hedgerow.errors import AllRowsNeededError
from hedgerow.kernels.tables.bundles import N_OPEN

_ACTIVE_BYTES, _SHARE = 4, 0.75
"""Memory of an active row of a column; share of the memory limit, because no store is in use."""


def with_layout(
    binning: RowBinning,
    batches: Batches,
    first_row: int,
    n_rows: int,
    others: Communicator,
    memory_limit: int,
) -> RowBinning:
    """Return the binning with the bundles that hide values of training rows, if there are some."""
    params, spec = binning.params, binning.spec
    rules = bundle_rules(params)
    check_bundled(spec, rules)
    if conflicts_allowed(rules, n_rows) == 0 or spec.is_category.any():
        return binning
    active = _counted(binning, batches, first_row, n_rows, others)
    features = active.tried()
    if len(features) < 2:
        return binning
    n_active = int(active.count[features].sum())
    size = _ACTIVE_BYTES * n_active + N_OPEN * n_rows // 8
    if size > _SHARE * memory_limit:
        raise AllRowsNeededError(
            f"max_conflict_rate={params.max_conflict_rate!r} chooses bundles from {n_active:,} "
            f"values of {n_rows:,} rows at once, which takes {shown_bytes(size)} and needs a "
            f"memory_limit of {shown_bytes(int(size / _SHARE))}: raise it, or use "
            "max_conflict_rate=0."
        )
    start, rows = _listed(binning, batches, first_row, active, others)
    layout = active.layout(spec, rules, start, rows)
    if layout.n_conflicts == 0:
        return binning
    return replace(binning, layout=layout)


def _entries(
    binning: RowBinning, batches: Batches, first_row: int
) -> Iterator[tuple[SparseTable, int]]:
    """Yield the training rows of each batch as trees see them, and the number of the first."""
    for copy in range(binning.n_copies):
        del copy
        for table, rows, _ in batches():
            if rows.n_rows > 0:
                seen = binning.inputs(table, rows, first_row)
                yield seen if isinstance(seen, SparseTable) else sparse_of(seen), first_row
                first_row += rows.n_rows


def _counted(
    binning: RowBinning, batches: Batches, first_row: int, n_rows: int, others: Communicator
) -> ActiveRows:
    """Count the active rows of each feature on all ranks."""
    spec = binning.spec
    default_bin = default_codes(spec)
    count: IntArray = np.zeros(spec.n_features, dtype=np.int64)
    missing: BoolArray = np.zeros(spec.n_features, dtype=np.bool_)
    for entries, _ in _entries(binning, batches, first_row):
        count += count_rows(entries, spec, default_bin)[0]
        missing |= missing_in(entries)
    count = others.allreduce(count)
    missing = others.allreduce(missing.astype(np.int64), "max") > 0
    return ActiveRows(n_rows, default_bin, count, cells_needed(spec, missing))


def _listed(
    binning: RowBinning,
    batches: Batches,
    first_row: int,
    active: ActiveRows,
    others: Communicator,
) -> tuple[IntArray, RowArray]:
    """Return the active rows of the features tried, of all ranks, one feature after another."""
    spec, features = binning.spec, active.tried()
    held = np.zeros(spec.n_features, dtype=np.int64)
    held[features] = active.count[features]
    start: IntArray = np.concatenate(([0], np.cumsum(held)))
    rows: RowArray = np.empty(start[-1], dtype=np.uint32)
    place = start[:-1].copy()
    for entries, first in _entries(binning, batches, first_row):
        counts = count_rows(entries, spec, active.default_bin)
        own_start, own = list_rows(entries, spec, active.default_bin, counts, features)
        own += np.uint32(first)
        for feature in features.tolist():
            some = own[own_start[feature] : own_start[feature + 1]]
            rows[place[feature] : place[feature] + len(some)] = some
            place[feature] += len(some)
    for feature in features.tolist() if others.size > 1 else ():
        mine = rows[start[feature] : place[feature]].astype(np.int64)
        rows[start[feature] : start[feature + 1]] = gather_numbers(mine, others)
    return start, rows
