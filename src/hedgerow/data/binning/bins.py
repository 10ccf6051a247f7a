"""Choose the cuts between the bins of each feature.

Glossary
--------
cut     threshold between two neighbouring bins, stored as a key
        (:mod:`hedgerow.kernels.tables.keys`); ``value <= cut[b]`` if and only if the bin of
        the value is ``<= b``
stride  number of histogram bins reserved for each feature: a power of two greater
        than the number of value bins of any feature; the last one is the bin of
        missing values
mass    sum of weights; with unit weights the number of rows

::

    value      -inf ....... cut[0] ....... cut[1] ....... inf      missing
    bin             0                1               2             stride - 1

:func:`fit_bins` sorts each column and passes once over its distinct values
(:func:`hedgerow.kernels.tables.binning.choose_cuts`).  Each value gets its own bin if there
are few of them.  Otherwise bins have about equal mass, and a value that is heavy
enough gets its own bin.  Tables of more than 200,000 rows are sampled by what the
rows hold (:mod:`hedgerow.data.binning.cut_sample`).

Each level of a category column has its own bin.  If there are more levels than bins,
the heaviest levels have their own bins, and all other levels share the last bin.

A sparse table has the cuts of the equal dense table: the zeros of a column are treated as a single
entry with the mass of all of them::

    dense    -2  -1   0  0  0  0  0  0  3   3       mass before   0 1 2 3 ... 9 10
    sparse   -2  -1   0                 3   3                     0 1 2       8 9 10

Masses are integers and their sums are exact, so
:func:`hedgerow.kernels.tables.binning.choose_cuts` gets the same numbers in both cases.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hedgerow.arrays import MISSING_KEY, AnyArray, BinArray, BoolArray, FloatArray, IntArray
from hedgerow.data.binning import cut_sample as cs
from hedgerow.data.reading.table import Table
from hedgerow.data.schema import Schema
from hedgerow.data.sparse import AnyTable, SparseTable, count_entries
from hedgerow.errors import DataError, ParameterError, brief
from hedgerow.kernels.primitives.hashing import BIN_SAMPLE_STREAM, hash_range
from hedgerow.kernels.primitives.intrinsics import FAN_OUT
from hedgerow.kernels.tables.binning import LOOKUP_WIDTH, choose_cuts, gather_columns
from hedgerow.kernels.tables.keys import (
    float32_threshold_keys,
    floats_of_keys,
    keys_of_floats,
    missing_of,
)
from hedgerow.kernels.tables.sparse import gather_entries
from hedgerow.kernels.tables.values import values_of_table, views_of
from hedgerow.once import once
from hedgerow.threads import run_blocks

_COLUMNS_PER_THREAD = 200

_NO_ROWS: IntArray = np.zeros(0, dtype=np.int64)
_NO_MASS: FloatArray = np.zeros(0)


def find_sparse_cuts(
    table: SparseTable, rows: IntArray, mass: FloatArray | None, most_bins: IntArray, n_threads: int
) -> list[tuple[AnyArray, AnyArray]]:
    """Find the values just below and just above each cut of each column."""
    entries, n_features = table.entries(), table.n_features
    listed = _NO_ROWS if len(rows) == table.n_rows else rows
    counts = count_entries(entries, listed, n_features)
    start = np.concatenate(([0], np.cumsum(counts)))
    values = np.empty(start[-1], dtype=table.value.dtype)
    masses = np.empty(0 if mass is None else start[-1])
    gather_entries(
        entries, listed, _NO_MASS if mass is None else mass, start[:-1].copy(),
        views_of(values), masses,
    )  # fmt: skip
    unrecorded: FloatArray = float(len(rows)) - counts.astype(np.float64)
    if mass is not None:
        before = np.concatenate(([0.0], np.cumsum(masses)))  # sums of integers, which are exact
        unrecorded = mass.sum() - (before[start[1:]] - before[start[:-1]])
    if table.schema.zero_missing:
        unrecorded = np.zeros(n_features)
    found, rest = _cuts_of_constants(values, start, unrecorded)

    def find(first: int, last: int) -> None:
        runs = np.empty(counts.max(initial=0) + 2, dtype=np.int64)
        space = runs, np.empty(most_bins.max(), dtype=np.int64)
        for j in rest[first:last].tolist():
            part = slice(start[j], start[j + 1])
            part_masses = None if mass is None else masses[part]
            counted = np.arange(part.stop - part.start + 1, dtype=np.float64)
            ordered, before = sort_column(values[part], part_masses, counted)
            low, high = (int(np.searchsorted(ordered, 0, side=side)) for side in ("left", "right"))
            if unrecorded[j] != 0 or low != high:  # one zero stands for all
                zero = np.zeros(1, values.dtype)
                ordered = np.concatenate([ordered[:low], zero, ordered[high:]])
                before = np.concatenate([before[: low + 1], before[high:] + unrecorded[j]])
            found[j] = cuts_of_column(ordered, before, int(most_bins[j]), space)

    run_blocks(find, len(rest), n_threads, _COLUMNS_PER_THREAD)
    return found


def _cuts_of_constants(
    values: AnyArray, start: IntArray, unrecorded: FloatArray
) -> tuple[list[tuple[AnyArray, AnyArray]], IntArray]:
    """Return the cuts of columns with at most one stored value, and the other columns."""
    # Such columns, typically indicators, need no sorting: their only cut is between 0 and the
    # value, if both occur.
    n_features = len(start) - 1
    none = values[:0]
    found = [(none, none)] * n_features
    held = np.flatnonzero(start[1:] > start[:-1])
    if len(held) == 0:
        return found, held
    low = np.minimum.reduceat(values, start[held])
    high = np.maximum.reduceat(values, start[held])
    constant = low == high  # NaN is not
    if values.dtype == np.int64:
        constant &= low != MISSING_KEY
    cut = constant & (unrecorded[held] > 0) & (low != 0)
    zero = np.zeros(1, values.dtype)
    for j, k in zip(held[cut], np.flatnonzero(cut), strict=True):
        value = low[k : k + 1]
        found[j] = (zero, value) if value[0] > 0 else (value, zero)
    return found, held[~constant]


MOST_BINS = 255
"""Largest ``max_bins``: with the bin of missing values, eight bits are full."""

MOST_SAMPLED = cs.SAMPLE_ROWS + cs.SAMPLE_ROWS // 20 - 1
"""Most rows of :func:`sampled_rows`, whose number varies by 0.2% around ``SAMPLE_ROWS``."""

_HASHES = 1 << 16
"""Rows that are hashed at once."""

SMALLEST_STRIDE = 16
_VALUES_PER_THREAD = 25_000  # below, waking a thread (64 us) costs more than it saves
_WEIGHT_BITS = 34  # 200,000 weights below 2**34 sum exactly in a float64
_LARGEST_FLOAT = np.finfo(np.float64).max


class Edges(NamedTuple):
    """Keys behind the bins of all columns.

    Behind the last bin of a column is the highest key: it sends all values left, and sets missing
    ones apart.  Of a category column, which is split by a set, there is only a 0.

    keys         int64: column after column
    first, last  int64 (n_features,): where the first and the last of each column are
    """

    keys: IntArray
    first: IntArray
    last: IntArray


@dataclass(frozen=True, eq=False)
class BinSpec:
    """The cuts of all features."""

    cut_keys: IntArray  # int64; ascending keys of the cuts of feature 0, then of feature 1, ...
    # int64 (n_features + 1,); cuts of feature ``j`` are ``cut_keys[cut_start[j] : cut_start[j +
    # 1]]``
    cut_start: IntArray
    schema: Schema
    # power of two from 16 to 256.  The missing bin is ``stride - 1`` for every feature; value bins
    # are smaller.
    stride: int
    level_bin: BinArray  # uint8; bin of each level of the category columns, column after column
    # int64 (n_features + 1,); levels of feature ``j`` are ``level_start[j] : level_start[j + 1]``
    level_start: IntArray

    @property
    def n_features(self) -> int:
        return len(self.cut_start) - 1

    @property
    def missing_bin(self) -> int:
        """Bin of missing values, the same for every feature."""
        return self.stride - 1

    def n_bins(self, feature: int) -> int:
        """Return the number of value bins of ``feature``; for numbers, one more than its cuts."""
        return int(self.bin_counts[feature])

    @once
    def bin_counts(self) -> IntArray:
        """Number of value bins of every feature."""
        counts = np.diff(self.cut_start) + 1
        counts[self.is_category] = 1
        with_levels = np.flatnonzero(np.diff(self.level_start))
        if len(with_levels) > 0:
            first = self.level_start[with_levels]
            counts[with_levels] = 1 + np.maximum.reduceat(self.level_bin, first).astype(np.int64)
        return counts

    @once
    def is_category(self) -> BoolArray:
        return np.array([kind == "category" for kind in self.schema.kinds], dtype=np.bool_)

    @once
    def edges(self) -> Edges:
        """Keys behind the bins of all columns."""
        highest = {"float": int(keys_of_floats(np.array(np.inf))), "int": np.iinfo(np.int64).max}
        tops = [highest.get(kind, 0) for kind in self.schema.kinds]
        place = np.arange(len(tops))
        return Edges(
            np.insert(self.cut_keys, self.cut_start[1:], tops),
            self.cut_start[:-1] + place,
            self.cut_start[1:] + place,
        )

    def bins_of(self, feature: int) -> BinArray:
        """Return the bin of each level of a category column."""
        return self.level_bin[self.level_start[feature] : self.level_start[feature + 1]]

    def lookup(self, dtype: np.dtype) -> AnyArray:
        """Lay out the cuts for :func:`hedgerow.kernels.tables.binning.bin_rows`."""
        above_all = np.inf if dtype.kind == "f" else np.iinfo(np.int64).max
        blocks = np.full((self.n_features, LOOKUP_WIDTH - FAN_OUT), above_all, dtype)
        counts = np.diff(self.cut_start)
        feature = np.repeat(np.arange(self.n_features), counts)
        position = np.arange(len(self.cut_keys)) - np.repeat(self.cut_start[:-1], counts)
        cuts: AnyArray = self.cut_keys
        if dtype == np.float64:
            cuts = floats_of_keys(cuts)
        elif dtype == np.float32:
            bits = float32_threshold_keys(cuts)
            cuts = (bits ^ ((bits >> np.int32(31)) & np.int32(0x7FFFFFFF))).view(np.float32)
        blocks[feature, position] = cuts
        return np.hstack([blocks[:, FAN_OUT - 1 :: FAN_OUT], blocks]).reshape(-1)


def fit_bins(
    table: AnyTable,
    max_bins: int | Sequence[int],
    weight: FloatArray | None = None,
    seed: int = 0,
    n_threads: int = 1,
    columns: Sequence[int] | None = None,
) -> BinSpec:
    """Choose the cuts of every feature, the same for dense and sparse tables of equal numbers."""
    # A row of weight k counts as k equal rows, and a common factor of the weights changes no cut.
    # ``columns``: the numbers of the first columns in the user's table, if computed ones follow.
    most_bins = _most_bins(max_bins, table.n_features)
    if weight is not None and np.shape(weight) != (table.n_rows,):
        raise DataError(
            f"weight must have one number for each of the {table.n_rows} rows, "
            f"got shape {np.shape(weight)}."
        )
    mass = None if weight is None else integer_mass(weight)
    sample = cs.sample_of(table, mass, seed, n_threads, most_bins, columns)
    return fit_sample(sample, max_bins, n_threads)


def fit_sample(sample: cs.CutSample, max_bins: int | Sequence[int], n_threads: int = 1) -> BinSpec:
    """Choose the cuts of every feature from a sample; see :func:`fit_bins`."""
    table, mass = sample.table, sample.mass
    most_bins = _most_bins(max_bins, table.n_features)
    rows = np.arange(table.n_rows) if sample.rows is None else sample.rows
    found: list[tuple[AnyArray, AnyArray]]
    level_bins: list[BinArray] = [np.zeros(0, np.uint8)] * table.n_features
    if isinstance(table, SparseTable):
        found = find_sparse_cuts(table, rows, mass, most_bins, n_threads)
    else:
        columns = _columns_of(table.values, rows, n_threads)
        columns[[kind == "category" for kind in table.schema.kinds]] = missing_of(columns.dtype)
        found = _find_cuts(columns, mass, most_bins, n_threads)
        level_bins = _bin_levels(table, rows, mass, most_bins, sample.level_mass)
    for j, values in sample.few.items():
        if len(values) <= most_bins[j]:
            found[j] = values[:-1], values[1:]
    # The keys halfway between the values below and above each cut.
    counts = [len(below) for below, _ in found]
    below, above = (np.concatenate(values) for values in zip(*found, strict=True))
    if below.dtype.kind == "f":  # some columns of a table of keys may be all floats
        keys = keys_of_floats(midpoints(below.astype(np.float64), above.astype(np.float64)))
    else:
        is_int = np.repeat([kind == "int" for kind in table.schema.kinds], counts)
        halves = midpoints(floats_of_keys(below), floats_of_keys(above))
        keys = np.where(is_int, integer_midpoints(below, above), keys_of_floats(halves))
    n_levels = [len(bins) for bins in level_bins]
    most = 1 + max(*counts, *(int(bins.max(initial=0)) for bins in level_bins))
    return BinSpec(
        cut_keys=keys,
        cut_start=np.concatenate(([0], np.cumsum(counts, dtype=np.int64))),
        schema=table.schema,
        stride=max(SMALLEST_STRIDE, 1 << most.bit_length()),
        level_bin=np.concatenate(level_bins),
        level_start=np.concatenate(([0], np.cumsum(n_levels, dtype=np.int64))),
    )


def _most_bins(max_bins: int | Sequence[int], n_features: int) -> IntArray:
    """Return the largest number of value bins of each feature."""
    each = max_bins if isinstance(max_bins, Sequence) else [max_bins] * n_features
    if len(each) != n_features:
        raise ParameterError(
            f"max_bins has {len(each)} numbers for {n_features} features: give one integer, or "
            "one for each feature."
        )
    for most in set(each):
        if isinstance(most, bool) or not 2 <= most <= MOST_BINS or int(most) != most:
            raise ParameterError(
                f"max_bins must be an integer from 2 to {MOST_BINS}, got {brief(most)}."
            )
    return np.array(each, dtype=np.int64)


def _bin_levels(
    table: Table,
    rows: IntArray,
    mass: FloatArray | None,
    most_bins: IntArray,
    level_mass: Mapping[int, FloatArray],
) -> list[BinArray]:
    """Assign the levels of each category column to bins; other columns get an empty array."""
    # If a column has more levels than bins, its heaviest levels have their own bins (ties go to the
    # lower code), and all other levels share the last bin.
    found = []
    for j, column in enumerate(table.schema.columns):
        n_levels = len(column.levels)
        bins: BinArray = np.minimum(np.arange(n_levels), cs.MOST_CATEGORY_BINS).astype(np.uint8)
        most = min(int(most_bins[j]), cs.MOST_CATEGORY_BINS)
        if n_levels > most:
            heavy = level_mass.get(j)
            if heavy is None:
                heavy = cs.masses_of_levels(table.values[rows, j], n_levels, mass)
            own = np.sort(np.argsort(-heavy, kind="stable")[: most - 1])
            bins = np.full(n_levels, most - 1, dtype=np.uint8)
            bins[own] = np.arange(most - 1)
        found.append(bins)
    return found


def joined_bins(first: BinSpec, second: BinSpec, schema: Schema, at: int) -> BinSpec:
    """Insert the bins of other columns before column ``at``; ``schema`` has all columns."""

    def together(of: Callable[[BinSpec], tuple[AnyArray, IntArray]]) -> tuple[AnyArray, IntArray]:
        values, start = of(first)
        more, more_start = of(second)
        middle = start[at] + more_start
        joined = np.concatenate([values[: start[at]], more, values[start[at] :]])
        return joined, np.concatenate([start[:at], middle, start[at + 1 :] + len(more)])

    cut_keys, cut_start = together(lambda spec: (spec.cut_keys, spec.cut_start))
    level_bin, level_start = together(lambda spec: (spec.level_bin, spec.level_start))
    stride = max(first.stride, second.stride)
    return BinSpec(cut_keys, cut_start, schema, stride, level_bin, level_start)


def sampled_rows(n_rows: int, seed: int) -> IntArray:
    """Select all rows, or about ``SAMPLE_ROWS`` of more by a hash of seed and row number."""
    # This is for columns whose values depend on the order of the rows.
    if n_rows <= cs.SAMPLE_ROWS:
        return np.arange(n_rows, dtype=np.int64)
    limit = np.uint64((cs.SAMPLE_ROWS << 64) // n_rows)
    parts = []
    for start in range(0, n_rows, _HASHES):
        hashes = hash_range(seed, BIN_SAMPLE_STREAM, start, min(start + _HASHES, n_rows))
        parts.append(start + np.flatnonzero(hashes < limit))
    return np.concatenate(parts)[:MOST_SAMPLED]


def _columns_of(values: AnyArray, rows: IntArray, n_threads: int) -> AnyArray:
    """Copy the selected rows into contiguous columns, shape (n_features, n_selected)."""
    n_features = values.shape[1]
    if len(rows) == len(values) and values.flags.f_contiguous:
        return np.array(values.T, order="C")  # the columns are contiguous already
    columns = np.empty((n_features, len(rows)), dtype=values.dtype)
    table, views = values_of_table(values), views_of(columns)
    run_blocks(
        lambda start, stop: gather_columns(table, rows, views, n_features, start, stop),
        len(rows),
        n_threads,
        -(-_VALUES_PER_THREAD // n_features),
    )
    return columns


def integer_mass(weight: FloatArray, largest: float | None = None) -> FloatArray:
    """Scale weights by a power of two and round them to integers, whose sums are exact."""
    # ``largest`` is that of all rows, if these are not all.
    _, exponent = math.frexp(weight.max() if largest is None else largest)
    return np.rint(np.ldexp(weight, _WEIGHT_BITS - exponent))


def _find_cuts(
    columns: AnyArray, mass: FloatArray | None, most_bins: IntArray, n_threads: int
) -> list[tuple[AnyArray, AnyArray]]:
    """Find the values just below and just above each cut of the columns, which are sorted."""
    n_features, n_rows = columns.shape
    found: list[tuple[AnyArray, AnyArray]] = [None] * n_features  # type: ignore[list-item]
    counts = np.arange(n_rows + 1, dtype=np.float64)
    if mass is not None and (mass == mass[0]).all():
        # Equal weights need no argsort: sorting the values alone takes a third of the time.
        counts, mass = counts * mass[0], None

    def find(start: int, stop: int) -> None:
        space = np.empty(n_rows + 1, dtype=np.int64), np.empty(MOST_BINS, dtype=np.int64)
        for j in range(start, stop):
            sorted_column = sort_column(columns[j], mass, counts)
            found[j] = cuts_of_column(*sorted_column, int(most_bins[j]), space)

    run_blocks(find, n_features, n_threads, -(-_VALUES_PER_THREAD // n_rows))
    return found


def sort_column(
    column: AnyArray, mass: FloatArray | None, counts: FloatArray
) -> tuple[AnyArray, FloatArray]:
    """Return the non-missing values of a column, ascending, and the mass before each and of all."""
    # ``mass`` is that of the rows; None: ``counts`` has the mass before each row.
    if mass is None:
        column.sort()
    else:
        order = np.argsort(column)
        column, counts = column[order], np.concatenate(([0.0], np.cumsum(mass[order])))
    if column.dtype.kind == "f":  # NaN is sorted last
        first, last = 0, int(np.searchsorted(column, np.nan))
    else:
        first, last = int(np.searchsorted(column, MISSING_KEY, side="right")), len(column)
    return column[first:last], counts[first : last + 1]


def cuts_of_column(
    ordered: AnyArray, mass_before: FloatArray, max_bins: int, space: tuple[IntArray, IntArray]
) -> tuple[AnyArray, AnyArray]:
    """Return the values just below and just above each cut of a column of :func:`sort_column`."""
    runs, cuts = space  # scratch space: runs of equal values, and cuts
    rises = ordered[1:] > ordered[:-1]
    above = cuts[: choose_cuts(rises, mass_before, max_bins, runs, cuts)]
    return ordered[above - 1], ordered[above]


def midpoints(below: FloatArray, above: FloatArray) -> FloatArray:
    """Return float64 numbers ``t`` near the middle with ``below <= t < above``."""
    # An infinity counts as the largest finite number, so a cut is finite wherever a finite number
    # lies between its neighbours.
    low = np.maximum(below, -_LARGEST_FLOAT)
    high = np.minimum(above, _LARGEST_FLOAT)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        gap = high - low
        middle = np.where(np.isfinite(gap), low + gap / 2, low / 2 + high / 2)
    # Between adjacent floats the middle rounds to one of the two.
    return np.where((middle >= below) & (middle < above), middle, below)


def integer_midpoints(below: IntArray, above: IntArray) -> IntArray:
    """Compute ``floor((below + above) / 2)`` without overflow."""
    return (below & above) + ((below ^ above) >> 1)
