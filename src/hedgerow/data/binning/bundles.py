"""Exclusive feature bundling: columns of the binned matrix that hold several features.

Glossary
--------
code     bin of a feature; a missing value has the code after the last bin
default  code of the value that sparse tables do not store: 0, or missing
active   a feature is active in a row if its code there is not the default
bundle   features that share a column because they are (almost) never active together
cell     bin of a bundle; 0 if all its features have their default

::

    feature   codes, * default    cells in a bundle
    x3        0*  1               0   1
    x7        0*  1               0       2
    x5        0  1*  2  missing   3   0   4   5

    row with x7 = 1, others default: 2     sum of x5 at its default = node - (3) - (4) - (5)

Each cell of a bundle belongs to one feature.  The histogram of each feature therefore
follows exactly, to the last bit, from the sums of the cells, and splits, models and
predictions refer to features only.  Two features that are active in the same row are in
conflict.  Training sees the feature that comes later in the bundle and treats the other as
its default.  Without conflicts, bundling loses nothing.

Features are bundled in one of the orders of Ke et al. 2017 ("LightGBM"), algorithm 3: by
the number of active rows, or by the degree in the graph whose edges count conflicts.  The
degree of a feature is the sum, over its active rows, of the number of other active
features, so the graph itself is never built.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import IntArray, RowArray
from hedgerow.data.binning.bins import SMALLEST_STRIDE, BinSpec
from hedgerow.data.reading.table import Table
from hedgerow.data.sparse import SparseTable
from hedgerow.kernels.tables.bundles import MOST_CELLS, N_OPEN, put_in_bundles
from hedgerow.kernels.tables.keys import is_missing
from hedgerow.kernels.tables.sparse import Places, list_active
from hedgerow.threads import run_blocks

_DENSEST = 0.75  # features with a larger fraction of active rows are not bundled
_WORTH = 0.75  # a dense table is bundled if at most this fraction of its columns remains
_FEWEST = 8  # fewest features of a dense table that is bundled
_ROWS_TO_SAMPLE = 1024


@dataclass(frozen=True, slots=True)
class BundleRules:
    """Parameters of feature bundling; see the estimators for their meaning."""

    # ``bundle_features``.  With False, column ``j`` of the matrix is feature ``j``.
    when: bool | str = "auto"
    order: str = "count"
    conflicts: str = "sum"
    max_conflict_rate: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Column and cells of each feature in a binned matrix."""

    # int32 (n_features,); column of the matrix; -1 for a feature that is never active
    column: npt.NDArray[np.int32]
    # int32 (n_features,); first cell of the feature in its bundle; -1 if the feature has its own
    # column, which then holds its bins
    first: npt.NDArray[np.int32]
    # int32 (n_features,); number of cells of the feature in its bundle
    count: npt.NDArray[np.int32]
    default_bin: npt.NDArray[np.int32]  # int32 (n_features,); default code of the feature
    members: npt.NDArray[np.int32]  # features of column 0, 1, ..., in the order of their cells
    # int64 (n_columns + 1,); features of column ``c`` are ``members[member_start[c] :
    # member_start[c + 1]]``
    member_start: IntArray
    # int32 (n_columns,); number of indicators: members with a single cell and default bin 0, which
    # come first in the bundle, ascending.  0 for columns of one feature.
    n_single: npt.NDArray[np.int32]
    # int32 (n_columns,); number of cells of a bundle, including cell 0; number of bins of a column
    # of one feature
    n_cells: npt.NDArray[np.int32]
    stride: int  # histogram bins of each column: a power of two greater than every ``n_cells``
    n_conflicts: int = 0  # number of values of training rows that conflicts hide

    @property
    def n_columns(self) -> int:
        return len(self.n_cells)

    @property
    def has_bundles(self) -> bool:
        """Whether a column holds several features."""
        return bool((self.first >= 0).any())

    def places(self, spec: BinSpec, per_tile: int) -> Places:
        """Return the layout in the form of :func:`hedgerow.kernels.tables.sparse.bin_entries`."""
        return Places(
            spec.cut_keys,
            spec.cut_start,
            self.default_bin,
            self.column,
            self.first,
            (self.first + self.count - 1).astype(np.int32),
            np.int64(self.stride - 1),
            np.int64(per_tile),
        )

    def default_row(self, spec: BinSpec) -> npt.NDArray[np.uint8]:
        """Return the bins of a row without entries, one for each column."""
        row = np.zeros(self.n_columns, dtype=np.uint8)
        alone = np.flatnonzero((self.first < 0) & (self.column >= 0))
        default = self.default_bin[alone]
        missing = default == spec.bin_counts[alone]
        row[self.column[alone]] = np.where(missing, self.stride - 1, default)
        return row


def default_codes(spec: BinSpec) -> npt.NDArray[np.int32]:
    """Return the default code of each feature: the bin of 0, or the code of missing values."""
    if spec.schema.zero_missing:
        return spec.bin_counts.astype(np.int32)
    # The key of 0 is 0 for integers and floats, so the bin of 0 is the number of cuts below 0.
    below = np.concatenate(([0], np.cumsum(spec.cut_keys < 0)))
    return (below[spec.cut_start[1:]] - below[spec.cut_start[:-1]]).astype(np.int32)


def lay_out(table: SparseTable, spec: BinSpec, rules: BundleRules, n_threads: int = 1) -> Layout:
    """Choose the columns of the binned matrix of a training table."""
    if rules.when is False:
        return one_each(spec)
    default_bin = default_codes(spec)
    counts = count_rows(table, spec, default_bin, n_threads)
    count, cells = counts.sum(axis=0), spec.bin_counts.copy()
    if not spec.schema.zero_missing:  # cells are codes but the default, with missing only if used
        missing = np.zeros(table.n_features, dtype=np.bool_)
        missing[table.column[is_missing(table.value)]] = True
        cells += missing - 1
    bundle, n_conflicts = np.where(count > 0, np.arange(len(count)), -1), 0
    sparse = (count > 0) & (count <= _DENSEST * table.n_rows)
    features = np.flatnonzero(sparse & (cells <= MOST_CELLS))
    if len(features) > 1:
        start, rows = list_rows(table, spec, default_bin, counts, features)
        weight = count[features]
        if rules.order == "degree":
            # Each active row of a feature adds the number of other active features.
            others = np.bincount(rows, minlength=table.n_rows) - 1
            before = np.concatenate(([0], np.cumsum(others[rows])))
            weight = (before[start[1:]] - before[start[:-1]])[features]
        order = features[np.argsort(-weight, kind="stable")]
        found, conflicts = np.zeros((2, len(count)), dtype=np.int64)
        put_in_bundles(
            order,
            start,
            rows,
            cells,
            table.n_rows,
            int(rules.max_conflict_rate * table.n_rows),  # the most of a bundle or a feature in one
            int(rules.conflicts == "sum"),
            np.zeros((N_OPEN, (table.n_rows + 63) // 64), dtype=np.uint64),
            np.empty((5, N_OPEN), dtype=np.int64),
            found,
            conflicts,
        )
        bundle[features], n_conflicts = len(count) + found[features], int(conflicts.sum())
    return _finish(spec, default_bin, cells, bundle, n_conflicts)


def may_pay(table: Table, rules: BundleRules) -> bool:
    """Decide whether to search a dense table for bundles."""
    # ``"auto"`` estimates from a sample of rows. The active rows of a bundle are at most all rows,
    # so the sum of the fractions of active rows bounds the columns that bundles save.
    if rules.when != "auto":
        return bool(rules.when)
    if "category" in table.schema.kinds:
        return False
    if rules.max_conflict_rate > 0.0:
        return True  # conflicts change the model, so dense and sparse tables must agree
    if table.n_features < _FEWEST:
        return False
    sample = table.values[:: max(1, table.n_rows // _ROWS_TO_SAMPLE)]
    inactive = is_missing(sample) if table.schema.zero_missing else sample == 0
    active = 1.0 - inactive.mean(axis=0)
    tried = active <= _DENSEST
    saved = np.count_nonzero(tried) - active[tried].sum()
    return bool(saved >= (1.0 - _WORTH) * table.n_features)


def count_rows(
    table: SparseTable, spec: BinSpec, default_bin: npt.NDArray[np.int32], n_threads: int = 1
) -> IntArray:
    """Count the active rows of each feature, separately for the part of each thread."""
    counts = np.zeros((n_threads, table.n_features), dtype=np.int64)
    _list_parts(table, spec, default_bin, counts, np.zeros(0, dtype=np.uint32))
    return counts


def list_rows(
    table: SparseTable,
    spec: BinSpec,
    default_bin: npt.NDArray[np.int32],
    counts: IntArray,
    features: IntArray,
) -> tuple[IntArray, RowArray]:
    """List the active rows of each of ``features``."""
    left_out = np.ones(table.n_features, dtype=np.bool_)
    left_out[features] = False
    counts = np.where(left_out, 0, counts)
    start = np.concatenate(([0], np.cumsum(counts.sum(axis=0))))
    offset = start[:-1] + np.cumsum(counts, axis=0) - counts
    offset[:, left_out] = -1
    rows = np.empty(start[-1], dtype=np.uint32)
    _list_parts(table, spec, default_bin, offset, rows)
    return start, rows


def _list_parts(
    table: SparseTable,
    spec: BinSpec,
    default_bin: npt.NDArray[np.int32],
    place: IntArray,
    rows: RowArray,
) -> None:
    """Call :func:`list_active` for each part of the rows, with the places of the part."""
    # The smallest and the largest key in the default bin of each feature; they mean nothing if the
    # default is missing.
    limits, cuts = np.iinfo(np.int64), np.append(spec.cut_keys, 0)
    at = spec.cut_start[:-1] + np.minimum(default_bin, spec.bin_counts - 1)
    low = np.where(default_bin > 0, cuts[at - 1] + 1, limits.min + 1)
    high = np.where(at < spec.cut_start[1:], cuts[at], limits.max)
    entries, present, n_parts = table.entries(), int(spec.schema.zero_missing), len(place)
    bounds = np.array([table.n_rows * part // n_parts for part in range(n_parts + 1)])

    def listing(first: int, last: int) -> None:
        for part in range(first, last):
            list_active(entries, low, high, present, place[part], rows, bounds[part : part + 2])

    run_blocks(listing, n_parts, n_parts, 1)


def _finish(
    spec: BinSpec,
    default_bin: npt.NDArray[np.int32],
    cells: IntArray,
    bundle: IntArray,
    n_conflicts: int,
) -> Layout:
    """Number the columns by their first features, and assign cells to every member."""
    n_features = spec.n_features
    if (bundle < 0).all():
        bundle = bundle.copy()
        bundle[0] = 0
    held = np.flatnonzero(bundle >= 0)
    _, leader, group = np.unique(bundle[held], return_index=True, return_inverse=True)
    rank = np.empty(len(leader), dtype=np.int64)
    rank[np.argsort(leader)] = np.arange(len(leader))
    column = np.full(n_features, -1, dtype=np.int32)
    column[held] = rank[group]
    sizes = np.bincount(column[held], minlength=len(leader))
    # Indicators come first in a bundle, so that the split search reads adjacent cells.
    single = (cells == 1) & (default_bin == 0)
    members = held[np.lexsort((held, ~single[held], column[held]))].astype(np.int32)
    member_start = np.concatenate(([0], np.cumsum(sizes)))
    bundled = sizes[column[members]] > 1
    before = np.cumsum(cells[members]) - cells[members]
    first = np.full(n_features, -1, dtype=np.int32)
    first[members] = np.where(bundled, 1 + before - before[member_start[column[members]]], -1)
    count = np.where(first >= 0, cells, 0).astype(np.int32)
    n_single = np.bincount(column[members], weights=bundled & single[members])
    n_bundled = np.bincount(column[members], weights=count[members]).astype(np.int64) + 1
    n_cells = np.where(sizes > 1, n_bundled, spec.bin_counts[members[member_start[:-1]]])
    return Layout(
        column=column,
        first=first,
        count=count,
        default_bin=default_bin,
        members=members,
        member_start=member_start,
        n_single=n_single.astype(np.int32),
        n_cells=n_cells.astype(np.int32),
        stride=max(SMALLEST_STRIDE, 1 << int(n_cells.max()).bit_length()),
        n_conflicts=n_conflicts,
    )


def one_each(spec: BinSpec) -> Layout:
    """Return the layout in which each feature has its own column, in order."""
    cells = np.ones(spec.n_features, dtype=np.int64)
    return _finish(spec, default_codes(spec), cells, np.arange(spec.n_features), 0)
