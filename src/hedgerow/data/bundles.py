"""Columns of the binned matrix that hold several features: exclusive feature bundling.

Glossary
--------
active   a feature is active in a row unless it is at rest: unless its code is that of
         what sparse tables do not record, 0 (or missing)
code     a feature's bin, and one past its last bin for a missing value
bundle   features that share a column, as they are (almost) never active in one row
cell     what stands in such a column; 0 where all of its features are at rest

::

    feature   codes, * at rest    cells in a bundle
    x3        0*  1               0   1
    x7        0*  1               0       2
    x5        0  1*  2  missing   3   0   4   5

    row with x7 = 1, others at rest: 2      sum of x5 at rest = node - (3) - (4) - (5)

The cells of a bundle tell the features apart, so sums over the cells give the
histogram of each feature as it is by itself, to the last bit, and splits, models
and predictions speak of features only.  Two features that are active in one row
conflict there; the one that comes later in the bundle is seen in training, the
other is taken for being at rest.  Without conflicts nothing is lost.

The order of the search is that of Ke et al. 2017 ("LightGBM"), algorithm 3: by the
degree in the graph whose edges are weighted with conflicts, or by the number of
active rows.  The degree of a feature is the sum over its active rows of the other
features that are active there, so the graph itself is not needed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import MISSING_KEY, AnyArray, IntArray, RowArray
from hedgerow.data.bins import SMALLEST_STRIDE, BinSpec, cuts_as
from hedgerow.data.sparse import SparseTable
from hedgerow.data.table import Table
from hedgerow.kernels.bundles import MOST_CELLS, N_OPEN, put_in_bundles, sum_degrees
from hedgerow.kernels.sparse import Places, count_active, list_active
from hedgerow.threads import run_blocks

_DENSEST = 0.75  # share of active rows beyond which a feature is not tried in bundles
_WORTH = 0.75  # columns that may be left of a dense table, as a share, for bundles to pay
_FEWEST = 8  # features of a dense table for bundles to pay
_ROWS_TO_ASK = 1024


@dataclass(frozen=True, slots=True)
class BundleRules:
    """How features are bundled; the names are those of the estimators.

    Attributes
    ----------
    when : {True, False, "auto"}
        False: column ``j`` of the matrix is feature ``j``.
    order : {"count", "degree"}
    conflicts : {"sum", "max"}
    max_conflict_rate : float
    """

    when: bool | str = "auto"
    order: str = "count"
    conflicts: str = "sum"
    max_conflict_rate: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Where each feature is found in a binned matrix.

    Attributes
    ----------
    column : int32, shape (n_features,)
        Column of the matrix; -1 for a feature that is at rest in every row.
    first : int32, shape (n_features,)
        First cell of the feature in its bundle; -1 if it has a column to itself,
        which then holds its bins as they are.
    count : int32, shape (n_features,)
        Cells that it has in its bundle.
    rest : int32, shape (n_features,)
        Its code at rest.
    members : int32
        Features of column 0, 1, ..., in the order of their cells.
    member_start : int64, shape (n_columns + 1,)
        Features of column ``c`` are ``members[member_start[c] : member_start[c + 1]]``.
    n_single : int32, shape (n_columns,)
        So many members from the front have one cell and are at rest in bin 0:
        indicators, ascending.  0 for columns of one feature.
    n_cells : int32, shape (n_columns,)
        Cells of a bundle, that of rest among them; bins of a feature by itself.
    stride : int
        Cells that each column has in a histogram: a power of two, above all others.
    n_conflicts : int
        Values of training rows that are not seen.
    """

    column: npt.NDArray[np.int32]
    first: npt.NDArray[np.int32]
    count: npt.NDArray[np.int32]
    rest: npt.NDArray[np.int32]
    members: npt.NDArray[np.int32]
    member_start: IntArray
    n_single: npt.NDArray[np.int32]
    n_cells: npt.NDArray[np.int32]
    stride: int
    n_conflicts: int = 0

    @property
    def n_columns(self) -> int:
        """Columns of the matrix."""
        return len(self.n_cells)

    @property
    def is_identity(self) -> bool:
        """Whether each feature has a column to itself, in order."""
        return self.n_columns == len(self.column)

    @property
    def has_bundles(self) -> bool:
        """Whether some column holds its features in cells."""
        return bool((self.first >= 0).any())

    def places(self, spec: BinSpec, dtype: np.dtype, per_tile: int) -> Places:
        """The same for :func:`hedgerow.kernels.sparse.bin_entries`."""
        return Places(
            cuts_as(spec.cut_keys, dtype),
            spec.cut_start,
            self.rest,
            self.column,
            self.first,
            (self.first + self.count - 1).astype(np.int32),
            np.int64(self.stride - 1),
            np.int64(per_tile),
        )

    def resting_row(self, spec: BinSpec) -> npt.NDArray[np.uint8]:
        """The cells of a row of which nothing is recorded, one for each column."""
        row = np.zeros(self.n_columns, dtype=np.uint8)
        alone = np.flatnonzero((self.first < 0) & (self.column >= 0))
        at_rest = self.rest[alone]
        missing = at_rest == spec.bin_counts()[alone]
        row[self.column[alone]] = np.where(missing, self.stride - 1, at_rest)
        return row


def codes_at_rest(spec: BinSpec) -> npt.NDArray[np.int32]:
    """Code of what is not recorded: the bin of 0, or the one behind all bins for missing."""
    if spec.schema.zero_missing:
        return spec.bin_counts().astype(np.int32)
    # The key of 0 is 0 for integers and floats: the cuts below it are counted.
    below = np.concatenate(([0], np.cumsum(spec.cut_keys < 0)))
    return (below[spec.cut_start[1:]] - below[spec.cut_start[:-1]]).astype(np.int32)


def lay_out(table: SparseTable, spec: BinSpec, rules: BundleRules, n_threads: int = 1) -> Layout:
    """Choose the columns of the binned matrix of a training table.

    Parameters
    ----------
    table : SparseTable
        All training rows.
    spec : BinSpec
    rules : BundleRules
        ``when`` may be ``"auto"``: what saves columns of a sparse table always pays.
    n_threads : int

    Returns
    -------
    Layout
        Features that are at rest in every row have no column; where that is all
        of them, the first has one.  If ``when`` is False, every feature has a column
        to itself, at rest or not: trees that know no layouts (symmetric trees, vectors
        in leaves) read the histogram of feature ``j`` in column ``j``.
    """
    if rules.when is False:
        return one_each(spec)
    rest = codes_at_rest(spec)
    counts = count_rows(table, spec, rest, n_threads)
    active = counts.sum(axis=0)
    cells = _cells_needed(table, spec)
    bundle = np.where(active > 0, np.arange(table.n_features), -1)
    tried = (active > 0) & (active <= _DENSEST * table.n_rows) & (cells <= MOST_CELLS)
    n_conflicts = 0
    if np.count_nonzero(tried) > 1:
        features = np.flatnonzero(tried)
        found, n_conflicts = _search(table, spec, rules, rest, counts, cells, features)
        bundle[features] = table.n_features + found
    return _finish(spec, rest, cells, bundle, n_conflicts)


def may_pay(table: Table, rules: BundleRules) -> bool:
    """Whether to look for bundles in a dense table.

    With ``"auto"`` at some rows: a bundle has less active rows than there are, so
    the sum of the shares of active rows bounds the columns that can be saved.
    """
    if rules.when != "auto":
        return bool(rules.when)
    if "category" in table.schema.kinds:
        return False
    if rules.max_conflict_rate > 0.0:
        return True  # the model depends on the bundles: they must be those of a sparse table
    if table.n_features < _FEWEST:
        return False
    some = table.values[:: max(1, table.n_rows // _ROWS_TO_ASK)]
    rest = some == 0
    if table.schema.zero_missing:
        rest = np.isnan(some) if some.dtype.kind == "f" else some == MISSING_KEY
    active = 1.0 - rest.mean(axis=0)
    tried = active <= _DENSEST
    saved = np.count_nonzero(tried) - active[tried].sum()
    return bool(saved >= (1.0 - _WORTH) * table.n_features)


def count_rows(
    table: SparseTable, spec: BinSpec, rest: npt.NDArray[np.int32], n_threads: int = 1
) -> IntArray:
    """Count the rows in which each feature is active, in as many parts as threads.

    Returns
    -------
    int64, shape (n_threads, n_features)
    """
    entries, (low, high) = table.entries(), _resting_values(spec, rest, table.value.dtype)
    counts = np.zeros((n_threads, table.n_features), dtype=np.int64)
    present = int(spec.schema.zero_missing)

    def count(start: int, stop: int) -> None:
        for part in range(start, stop):
            rows = _part(table.n_rows, part, n_threads)
            count_active(entries, low, high, present, counts[part], rows)

    run_blocks(count, n_threads, n_threads, 1)
    return counts


def list_rows(
    table: SparseTable,
    spec: BinSpec,
    rest: npt.NDArray[np.int32],
    counts: IntArray,
    features: IntArray,
) -> tuple[IntArray, RowArray]:
    """List the rows in which each of ``features`` is active.

    Parameters
    ----------
    counts : int64, shape (n_threads, n_features)
        From :func:`count_rows`.

    Returns
    -------
    start : int64, shape (n_features + 1,)
    rows : uint32
        Rows of feature ``j`` are ``rows[start[j] : start[j + 1]]``, ascending; there
        are none of features that are not listed.
    """
    entries, (low, high) = table.entries(), _resting_values(spec, rest, table.value.dtype)
    present, n_parts = int(spec.schema.zero_missing), len(counts)
    left_out = np.ones(table.n_features, dtype=np.bool_)
    left_out[features] = False
    counts = np.where(left_out, 0, counts)
    start = np.concatenate(([0], np.cumsum(counts.sum(axis=0))))
    place = start[:-1] + np.cumsum(counts, axis=0) - counts
    place[:, left_out] = -1
    rows = np.empty(start[-1], dtype=np.uint32)

    def listing(first: int, last: int) -> None:
        for part in range(first, last):
            some = _part(table.n_rows, part, n_parts)
            list_active(entries, low, high, present, place[part], rows, some)

    run_blocks(listing, n_parts, n_parts, 1)
    return start, rows


def _part(n_rows: int, part: int, n_parts: int) -> IntArray:
    return np.array([n_rows * part // n_parts, n_rows * (part + 1) // n_parts])


def _resting_values(
    spec: BinSpec, rest: npt.NDArray[np.int32], dtype: np.dtype
) -> tuple[AnyArray, AnyArray]:
    """Smallest and largest value in the bin of what is not recorded, for each feature.

    Of no meaning where that is the code of missing values.
    """
    floats = dtype.kind == "f"
    lowest: float | int = -np.inf if floats else np.iinfo(np.int64).min + 1
    highest: float | int = np.inf if floats else np.iinfo(np.int64).max
    cuts = np.append(cuts_as(spec.cut_keys, dtype), np.zeros(1, dtype))
    above = np.nextafter(cuts, dtype.type(np.inf)) if floats else cuts + (cuts < highest)
    at = spec.cut_start[:-1] + np.minimum(rest, spec.bin_counts() - 1)
    low = np.where(rest > 0, above[at - 1], dtype.type(lowest))
    high = np.where(at < spec.cut_start[1:], cuts[at], dtype.type(highest))
    return low, high


def _cells_needed(table: SparseTable, spec: BinSpec) -> IntArray:
    """Codes of each feature other than that of rest; that of missing only if a row has it."""
    if spec.schema.zero_missing:
        return spec.bin_counts()
    missing = np.zeros(table.n_features, dtype=np.bool_)
    value = table.value
    gone = np.isnan(value) if value.dtype.kind == "f" else value == MISSING_KEY
    missing[table.column[gone]] = True
    return spec.bin_counts() - 1 + missing


def _search(
    table: SparseTable,
    spec: BinSpec,
    rules: BundleRules,
    rest: npt.NDArray[np.int32],
    counts: IntArray,
    cells: IntArray,
    features: IntArray,
) -> tuple[IntArray, int]:
    """Bundle of each of ``features``, and the conflicts of all bundles."""
    start, rows = list_rows(table, spec, rest, counts, features)
    if rules.order == "degree":
        weight = degrees(start, rows, table.n_rows)[features]
    else:
        weight = counts.sum(axis=0)[features]
    order = features[np.argsort(-weight, kind="stable")]
    bundle = np.zeros(table.n_features, dtype=np.int64)
    conflicts = np.zeros(table.n_features, dtype=np.int64)
    put_in_bundles(
        order,
        start,
        rows,
        cells,
        table.n_rows,
        int(rules.max_conflict_rate * table.n_rows),
        int(rules.conflicts == "sum"),
        np.zeros((N_OPEN, (table.n_rows + 63) // 64), dtype=np.uint64),
        np.empty((5, N_OPEN), dtype=np.int64),
        bundle,
        conflicts,
    )
    return bundle[features], int(conflicts.sum())


def degrees(start: IntArray, rows: RowArray, n_rows: int) -> IntArray:
    """Weighted degree of each feature in the graph of conflicts.

    The weight of an edge is the number of rows in which both features are active, so
    a row counts for as many as are active beside this one.
    """
    total = np.zeros(len(start) - 1, dtype=np.int64)
    sum_degrees(start, rows, np.zeros(n_rows, dtype=np.int32), total)
    return total


def _finish(
    spec: BinSpec,
    rest: npt.NDArray[np.int32],
    cells: IntArray,
    bundle: IntArray,
    n_conflicts: int,
) -> Layout:
    """Number the columns by their first features, and give every member its cells."""
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
    # Indicators come first in a bundle, so that they are searched side by side.
    single = (cells == 1) & (rest == 0)
    members = held[np.lexsort((held, ~single[held], column[held]))].astype(np.int32)
    member_start = np.concatenate(([0], np.cumsum(sizes)))
    bundled = sizes[column[members]] > 1
    before = np.cumsum(cells[members]) - cells[members]
    first = np.full(n_features, -1, dtype=np.int32)
    first[members] = np.where(bundled, 1 + before - before[member_start[column[members]]], -1)
    count = np.where(first >= 0, cells, 0).astype(np.int32)
    n_single = np.bincount(column[members], weights=bundled & single[members])
    n_bundled = np.bincount(column[members], weights=count[members]).astype(np.int64) + 1
    n_cells = np.where(sizes > 1, n_bundled, spec.bin_counts()[members[member_start[:-1]]])
    return Layout(
        column=column,
        first=first,
        count=count,
        rest=rest,
        members=members,
        member_start=member_start,
        n_single=n_single.astype(np.int32),
        n_cells=n_cells.astype(np.int32),
        stride=max(SMALLEST_STRIDE, 1 << int(n_cells.max()).bit_length()),
        n_conflicts=n_conflicts,
    )


def one_each(spec: BinSpec) -> Layout:
    """The layout in which each feature has a column to itself, in order."""
    cells = np.ones(spec.n_features, dtype=np.int64)
    return _finish(spec, codes_at_rest(spec), cells, np.arange(spec.n_features), 0)
