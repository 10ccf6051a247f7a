"""The binned matrix: a table with each value replaced by its bin, in two layouts.

Glossary
--------
column  a feature, or a bundle of features (:mod:`hedgerow.data.binning.bundles`)
tile    up to 32 adjacent columns; the bins of a row of a tile fill a power of two of
        bytes, so that no row straddles a cache line
PAD     rows of zeros after the last row, so that prefetching past it stays inside the
        array

::

    by_row      tile 0   row 0 | f0 f1 ... f27  0  0  0  0 |     histograms: all
                         row 1 | f0 f1 ... f27  0  0  0  0 |     features of few
                         ...                                     rows
                tile 1   row 0 | f28 ...                   |
    by_column   f0 | row 0  row 1  ...         PAD zeros |       partition: one
                f1 | row 0  row 1  ...                   |       feature of a row

If all features have few bins, a byte of a row may hold the bins of two.  Only the layout by row
changes (:mod:`hedgerow.kernels.histograms.pairs`).  Columns, histograms and
splits still belong to features, so the model is the same.  Code that sends rows down a
tree by their bytes uses :func:`left_bytes` to learn which bytes go left::

    first of a pair: bin in S     byte in {16 a + b : a in S}
    second                        byte in {16 a + b : b in S}
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import MISSING_KEY, AnyArray, BinArray, IntArray, aligned_empty, aligned_zeros
from hedgerow.data.binning.bins import BinSpec
from hedgerow.data.binning.bundles import BundleRules, Layout, lay_out, may_pay, one_each
from hedgerow.data.binning.cut_sample import codes_of
from hedgerow.data.sparse import AnyTable, SparseTable, sparse_of
from hedgerow.errors import DataError, ParameterError
from hedgerow.kernels.histograms.pairs import PAIR_STRIDE, put_in_pairs
from hedgerow.kernels.tables.binning import bin_rows
from hedgerow.kernels.tables.sparse import bin_entries
from hedgerow.threads import run_blocks

PAD = 64
"""Rows of zeros after the last row."""

WIDEST_TILE = 32
"""Most features in a tile: half a cache line."""

_NARROWEST_TILE = 8
_VALUES_PER_THREAD = 25_000  # 40 us of work; waking a thread takes 64 us


@dataclass(frozen=True, slots=True, eq=False)
class BinnedMatrix:
    """The bins of all rows and features.

    Both arrays start on a cache line.
    """

    # uint8 (n_tiles, n_rows + PAD, tile_width); column ``j`` is in tile ``j // features_per_tile``,
    # at position ``j % features_per_tile``; the other positions hold 0
    by_row: BinArray
    # uint8 (n_columns, n_rows + PAD); the same bins; shape ``(0, n_rows + PAD)`` if this layout was
    # not requested
    by_column: BinArray
    spec: BinSpec
    layout: Layout | None = None  # features of each column; None if column ``j`` is feature ``j``
    # number of values hidden by conflicts in bundles; see
    # :func:`hedgerow.kernels.tables.sparse.bin_entries`
    n_lost: int = 0
    # whether a byte of ``by_row`` holds the bins of two columns
    # (:mod:`hedgerow.data.binning.matrix`)
    paired: bool = False

    @property
    def n_rows(self) -> int:
        """Number of rows without padding."""
        return int(self.by_row.shape[1]) - PAD

    @property
    def n_features(self) -> int:
        return self.spec.n_features

    @property
    def n_columns(self) -> int:
        """Number of columns, which is less than the number of features with bundles."""
        return self.spec.n_features if self.layout is None else self.layout.n_columns

    @property
    def stride(self) -> int:
        """Histogram bins of each column; the last one is for missing values."""
        return self.spec.stride if self.layout is None else self.layout.stride

    @property
    def n_tiles(self) -> int:
        return int(self.by_row.shape[0])

    @property
    def features_per_tile(self) -> int:
        """Columns in each tile; the last may have fewer."""
        return 2 * self.bytes_per_tile if self.paired else self.bytes_per_tile

    @property
    def bytes_per_tile(self) -> int:
        """Bytes used by a row of each tile; the last may use fewer."""
        n_bytes = (self.n_columns + 1) // 2 if self.paired else self.n_columns
        return -(-n_bytes // self.n_tiles)

    @property
    def tile_width(self) -> int:
        """Bytes reserved for a row of a tile: 8, 16 or 32."""
        return int(self.by_row.shape[2])

    def take(self, rows: IntArray, columns: bool = True) -> BinnedMatrix:
        """Select rows by position, with the same cuts."""
        # ``columns`` says whether to copy ``by_column``, which growing needs.
        n_rows = len(rows)
        by_row = aligned_empty((self.n_tiles, n_rows + PAD, self.tile_width), np.uint8)
        n_columns = len(self.by_column) if columns else 0
        by_column = aligned_empty((n_columns, n_rows + PAD), np.uint8)
        # One contiguous block at a time: NumPy then copies without a temporary buffer.
        for source, copy in (
            *zip(self.by_row, by_row, strict=True),
            *zip(self.by_column, by_column, strict=False),
        ):
            np.take(source, rows, axis=0, out=copy[:n_rows], mode="clip")
            copy[n_rows:] = 0
        return replace(self, by_row=by_row, by_column=by_column)


def tile_shape(n_features: int) -> tuple[int, int, int]:
    """Return the number of tiles, the features of each, and the bytes of a row of each."""
    n_tiles = -(-n_features // WIDEST_TILE)
    features_per_tile = -(-n_features // n_tiles)
    width = max(_NARROWEST_TILE, 1 << (features_per_tile - 1).bit_length())
    return n_tiles, features_per_tile, width


def bin_table(
    table: AnyTable,
    spec: BinSpec,
    n_threads: int = 1,
    columns: bool = True,
    layout: Layout | None = None,
) -> BinnedMatrix:
    """Replace every value of a table, read with ``spec.schema``, by its bin."""
    # ``columns`` says whether to build ``by_column``, which growing needs and a validation set does
    # not. ``layout`` has the columns of a sparse table; by default each feature has its own.
    if table.schema is not spec.schema and table.schema.kinds != spec.schema.kinds:
        raise DataError(
            "the table and the bins were made for different columns: "
            "read the table with read_table(X, schema=spec.schema)."
        )
    if isinstance(table, SparseTable):
        return _bin_sparse(table, spec, layout or one_each(spec), n_threads, columns)
    assert layout is None
    n_rows, n_features = table.values.shape
    n_tiles, per_tile, width = tile_shape(n_features)
    by_row = aligned_zeros((n_tiles, n_rows + PAD, width), np.uint8)
    by_column = aligned_zeros((n_features if columns else 0, n_rows + PAD), np.uint8)
    values = np.broadcast_to(table.values, (2, n_rows, n_features))
    dtype = values.dtype
    lookup = spec.lookup(dtype)
    lowest = dtype.type(-np.inf if dtype.kind == "f" else MISSING_KEY + 1)
    missing_bin = np.uint8(spec.missing_bin)
    run_blocks(
        lambda start, stop: bin_rows(
            values, lookup, lowest, missing_bin, by_row, by_column, start, stop
        ),
        n_rows,
        n_threads,
        -(-_VALUES_PER_THREAD // n_features),
    )
    for j in np.flatnonzero(spec.is_category).tolist():  # whose codes were treated as numbers
        ends = np.full(2, spec.missing_bin, dtype=np.uint8)  # unknown values count as missing
        known = np.concatenate((spec.bins_of(j), ends))
        bins = known[codes_of(table.values[:, j], len(known) - 2)]
        by_row[j // per_tile, :n_rows, j % per_tile] = bins
        if columns:
            by_column[j, :n_rows] = bins
    return BinnedMatrix(by_row, by_column, spec)


def _bin_sparse(
    table: SparseTable, spec: BinSpec, layout: Layout, n_threads: int, columns: bool
) -> BinnedMatrix:
    """Fill all rows with the default bins, then write the bins of the entries."""
    n_rows, n_columns = table.n_rows, layout.n_columns
    n_tiles, per_tile, width = tile_shape(n_columns)
    by_row = aligned_zeros((n_tiles, n_rows + PAD, width), np.uint8)
    by_column = aligned_zeros((n_columns if columns else 0, n_rows + PAD), np.uint8)
    default_row = layout.default_row(spec)
    for tile in range(n_tiles if default_row.any() else 0):
        part = default_row[tile * per_tile : (tile + 1) * per_tile]
        by_row[tile, :n_rows, : len(part)] = part
    entries, places = table.entries(), layout.places(spec, per_tile)
    lost: list[int] = []
    run_blocks(
        lambda start, stop: lost.append(
            bin_entries(entries, places, by_row, by_column, start, stop)
        ),
        n_rows,
        n_threads,
        -(-_VALUES_PER_THREAD // max(1, table.n_entries // n_rows)),
    )
    kept = None if n_columns == spec.n_features else layout
    return BinnedMatrix(by_row, by_column, spec, kept, sum(lost))


def bin_bundled(
    table: AnyTable, spec: BinSpec, rules: BundleRules, n_threads: int = 1
) -> BinnedMatrix:
    """Bin the training rows, with exclusive feature bundling."""
    if isinstance(table, SparseTable):
        layout = lay_out(table, spec, rules, n_threads)
        return bin_table(table, spec, n_threads, layout=layout)
    check_bundled(spec, rules)
    if may_pay(table, rules):
        entries = sparse_of(table)
        layout = lay_out(entries, spec, rules, n_threads)
        if layout.has_bundles:
            return bin_table(entries, spec, n_threads, layout=layout)
    return bin_table(table, spec, n_threads)


def check_bundled(spec: BinSpec, rules: BundleRules) -> None:
    """Raise ``ParameterError`` if bundles are requested of columns of which one is a category."""
    if spec.is_category.any() and rules.when is True:
        name = spec.schema.names[int(np.argmax(spec.is_category))]
        raise ParameterError(
            f"bundle_features=True needs columns of numbers, but column {name!r} is a category: "
            "use bundle_features='auto', or encode the column as numbers."
        )


def bin_unseen(
    table: AnyTable, trained: BinnedMatrix, n_threads: int = 1
) -> BinnedMatrix | AnyTable:
    """Bin validation rows like the training rows, in the layout by row only."""
    # The table itself is returned if the bins cannot represent it: if a row has two active features
    # of a bundle, or a missing value in a feature without any in training. Prediction from values
    # is slower but always correct.
    spec, layout = trained.spec, trained.layout
    if layout is None:
        return bin_table(table, spec, n_threads, columns=False)
    entries = table if isinstance(table, SparseTable) else sparse_of(table)
    matrix = bin_table(entries, spec, n_threads, columns=False, layout=layout)
    return matrix if matrix.n_lost == 0 else table


FEWEST_PAIRED_ROWS = 100_000
"""Fewest rows for which pairs save more time than compiling the stages for pairs takes.

40 trees of 28 columns: pairs save nothing of 0.09 s with 30,000 rows, 17% of 0.3 s with 100,000,
and 18% of 0.7 s with 300,000; compiling the stages takes many seconds.
"""

_ROWS_PER_THREAD = 10_000


def can_pair(matrix: BinnedMatrix) -> bool:
    """Return whether the bins of two features fit in a byte and no features are bundled."""
    return (
        matrix.stride == PAIR_STRIDE
        and matrix.layout is None
        and not matrix.paired
        and matrix.n_features > 1
    )


def pairs_may_pay(matrix: BinnedMatrix) -> bool:
    """Return whether a fit on the matrix is faster with pairs."""
    return can_pair(matrix) and matrix.n_rows >= FEWEST_PAIRED_ROWS


def pair_columns(matrix: BinnedMatrix, n_threads: int = 1) -> BinnedMatrix:
    """Return the matrix with features 2k and 2k + 1 in the same byte of a row."""
    n_tiles, _, width = tile_shape((matrix.n_features + 1) // 2)
    paired = aligned_zeros((n_tiles, matrix.by_row.shape[1], width), np.uint8)
    run_blocks(
        lambda start, stop: put_in_pairs(matrix.by_row, paired, matrix.n_features, start, stop),
        matrix.n_rows,
        n_threads,
        _ROWS_PER_THREAD,
    )
    return replace(matrix, by_row=paired, paired=True)


def left_bytes(
    column: npt.NDArray[np.int32], left_bins: npt.NDArray[np.uint64]
) -> npt.NDArray[np.uint64]:
    """Convert sets of bins that go left to sets of packed bytes that go left."""
    bins: AnyArray = left_bins[:, :1] & np.uint64(0xFFFF)
    second = bins * np.uint64(0x0001_0001_0001_0001)
    first = np.zeros((len(bins), 4), dtype=np.uint64)
    for b in range(PAIR_STRIDE):
        run = np.uint64(0xFFFF) << np.uint64(PAIR_STRIDE * (b % 4))
        first[:, b // 4] |= ((bins[:, 0] >> np.uint64(b)) & np.uint64(1)) * run
    return np.where((column % 2 == 0)[:, None], first, second)
