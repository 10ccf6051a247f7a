"""Where the cuts between bins lie.

Glossary
--------
cut     threshold between two neighbouring bins, held as a key
        (:mod:`hedgerow.kernels.keys`); ``value <= cut[b]`` exactly if the bin of
        the value is ``<= b``
stride  cells that each feature has in a histogram: a power of two larger than
        any number of value bins; the last cell is the bin of missing values
mass    sum of weights, the number of rows where all weights are 1

::

    value      -inf ....... cut[0] ....... cut[1] ....... inf      missing
    bin             0                1               2             stride - 1

:func:`fit_bins` sorts each column and walks once over its different values
(:func:`hedgerow.kernels.binning.choose_cuts`): a bin for each value if there
are few, bins of like mass otherwise, heavy values in bins of their own.  Beyond
200,000 rows it looks at about as many, chosen by a hash of seed and row number,
so that neither threads nor chunks change the choice.

Of a category column each level has a bin; where there are more levels than bins,
the heaviest have one each, and all others share one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import MISSING_KEY, AnyArray, BinArray, FloatArray, IntArray
from hedgerow.data.forced_bins import ForcedCuts, choose_between, keys_of_forced
from hedgerow.data.schema import Schema
from hedgerow.data.sparse import AnyTable, SparseTable
from hedgerow.data.sparse_cuts import find_sparse_cuts, present
from hedgerow.data.table import Table
from hedgerow.errors import DataError, ParameterError
from hedgerow.kernels.binning import (
    LOOKUP_WIDTH,
    choose_cuts,
    find_runs,
    gather_columns,
    sample_rows,
)
from hedgerow.kernels.hashing import BIN_SAMPLE_STREAM
from hedgerow.kernels.intrinsics import FAN_OUT
from hedgerow.kernels.keys import float32_threshold_keys, floats_of_keys, keys_of_floats
from hedgerow.threads import run_blocks

MOST_BINS = 255
"""Largest ``max_bins``: with the bin of missing values, what eight bits can hold."""

SAMPLE_ROWS = 200_000
"""Rows from which cuts are chosen, where there are more."""

MOST_SAMPLED = SAMPLE_ROWS + SAMPLE_ROWS // 20 - 1
"""The most rows that a hash may choose: their number spreads by 0.2% around the last one."""

MOST_CATEGORY_BINS = 254
"""Bins of a category column at most: prediction has two more, for unknown and missing."""

SMALLEST_STRIDE = 16
_VALUES_PER_THREAD = 25_000  # below, waking a thread (64 us) costs more than it saves
_WEIGHT_BITS = 34  # 200,000 weights below 2**34 sum exactly in a float64
_LARGEST_FLOAT = np.finfo(np.float64).max


@dataclass(frozen=True, slots=True, eq=False)
class BinSpec:
    """The cuts of all features.

    Attributes
    ----------
    cut_keys : int64
        Ascending keys of the cuts of feature 0, then those of feature 1, ...
    cut_start : int64, shape (n_features + 1,)
        Cuts of feature ``j`` are ``cut_keys[cut_start[j] : cut_start[j + 1]]``.
    schema : Schema
    stride : int
        Power of two from 16 to 256; the missing bin is ``stride - 1`` for
        every feature, and no bin of values is as high.
    level_bin : uint8
        Bin of each level of the category columns, column after column.
    level_start : int64, shape (n_features + 1,)
        Levels of feature ``j`` are ``level_start[j] : level_start[j + 1]``.
    """

    cut_keys: IntArray
    cut_start: IntArray
    schema: Schema
    stride: int
    level_bin: BinArray
    level_start: IntArray

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return len(self.cut_start) - 1

    @property
    def missing_bin(self) -> int:
        """Bin of missing values, the same for every feature."""
        return self.stride - 1

    def n_bins(self, feature: int) -> int:
        """Bins for values of ``feature``: one more than cuts."""
        return int(self.bin_counts()[feature])

    def bin_counts(self) -> IntArray:
        """``n_bins`` of every feature."""
        counts = np.diff(self.cut_start) + 1
        counts[self.is_category] = 1
        with_levels = np.flatnonzero(np.diff(self.level_start))
        if len(with_levels) > 0:
            first = self.level_start[with_levels]
            counts[with_levels] = 1 + np.maximum.reduceat(self.level_bin, first).astype(np.int64)
        return counts

    @property
    def is_category(self) -> npt.NDArray[np.bool_]:
        """Which features are categories."""
        return np.array([kind == "category" for kind in self.schema.kinds], dtype=np.bool_)

    def bins_of(self, feature: int) -> BinArray:
        """Bin of each level of a category column."""
        return self.level_bin[self.level_start[feature] : self.level_start[feature + 1]]

    def lookup(self, dtype: np.dtype) -> AnyArray:
        """Cuts laid out for :func:`hedgerow.kernels.binning.bin_rows`.

        Parameters
        ----------
        dtype : float32, float64 or int64
            Of the values that are to be compared.  For float32 the cuts are
            rounded down, which decides every float32 as the cut itself does.

        Returns
        -------
        array of ``dtype``, shape (n_features * LOOKUP_WIDTH,)
        """
        blocks = np.full((self.n_features, LOOKUP_WIDTH - FAN_OUT), _above_all(dtype), dtype)
        counts = np.diff(self.cut_start)
        feature = np.repeat(np.arange(self.n_features), counts)
        place = np.arange(len(self.cut_keys)) - np.repeat(self.cut_start[:-1], counts)
        blocks[feature, place] = cuts_as(self.cut_keys, dtype)
        return np.hstack([blocks[:, FAN_OUT - 1 :: FAN_OUT], blocks]).reshape(-1)


def _above_all(dtype: np.dtype) -> float | int:
    return np.inf if dtype.kind == "f" else int(np.iinfo(np.int64).max)


def cuts_as(keys: IntArray, dtype: np.dtype) -> AnyArray:
    """Cuts as numbers of ``dtype`` that divide its values as the keys do."""
    if dtype == np.int64:
        return keys
    if dtype == np.float64:
        return floats_of_keys(keys)
    bits: AnyArray = float32_threshold_keys(keys)
    floats: AnyArray = (bits ^ ((bits >> np.int32(31)) & np.int32(0x7FFFFFFF))).view(np.float32)
    return floats


def fit_bins(
    table: AnyTable,
    max_bins: int | Sequence[int],
    weight: FloatArray | None = None,
    seed: int = 0,
    n_threads: int = 1,
    forced: ForcedCuts | None = None,
    rows: IntArray | None = None,
) -> BinSpec:
    """Choose the cuts of every feature.

    Missing values are left out; a column with one value or none has no cut.
    Dense and sparse tables of the same numbers get the same cuts.

    Parameters
    ----------
    table : Table or SparseTable
    max_bins : int or sequence of int
        Most bins for the values of a feature, 2 to 255; or of each feature.
    weight : array of shape (n_rows,), optional
        Positive and finite.  A row of weight k counts as k equal rows, and a
        common factor changes nothing: exactly for integers up to 2**34 and
        for powers of two.
    seed : int
        Chooses the rows that are looked at, where there are over 200,000.
    n_threads : int
    forced : mapping of name to ascending numbers, optional
        Cuts that these columns have whatever the data, fewer than their bins.
    rows : int64, optional
        Rows to look at, in the place of those that the seed chooses.

    Returns
    -------
    BinSpec

    Raises
    ------
    ParameterError
        If ``max_bins`` is out of range.
    DataError
        If ``weight`` has another length than the table.

    Examples
    --------
    >>> import numpy as np
    >>> from hedgerow.data import fit_bins, read_table
    >>> spec = fit_bins(read_table(np.array([[1.0], [2.0], [2.0], [np.nan]])), max_bins=255)
    >>> spec.n_bins(0), spec.stride
    (2, 16)
    """
    most_bins = _most_bins(max_bins, table.n_features)
    if weight is not None and np.shape(weight) != (table.n_rows,):
        raise DataError(
            f"weight must have one number for each of the {table.n_rows} rows, "
            f"got shape {np.shape(weight)}."
        )
    rows = rows_to_look_at(table.n_rows, seed) if rows is None else rows
    mass = None if weight is None else integer_mass(np.asarray(weight)[rows])
    fixed = keys_of_forced(forced, table.schema)
    found: list[tuple[AnyArray, AnyArray]]
    level_bins: list[BinArray] = [np.zeros(0, np.uint8)] * table.n_features
    if isinstance(table, SparseTable):
        forced_cuts = _as_values(fixed, table.value.dtype)
        found = find_sparse_cuts(table, rows, mass, most_bins, forced_cuts, n_threads)
    else:
        columns = _columns_of(table.values, rows, n_threads)
        columns[[kind == "category" for kind in table.schema.kinds]] = _no_value(columns)
        found = _find_cuts(columns, mass, most_bins, _as_values(fixed, columns.dtype), n_threads)
        level_bins = _bin_levels(table, rows, mass, most_bins)
    counts = [len(below) for below, _ in found]
    n_levels = [len(bins) for bins in level_bins]
    cut_keys = _cuts_between(found, table.schema)
    if fixed:
        cut_keys, counts = _insert(fixed, cut_keys, counts)
    most = 1 + max(*counts, *(int(bins.max(initial=0)) for bins in level_bins))
    return BinSpec(
        cut_keys=cut_keys,
        cut_start=np.concatenate(([0], np.cumsum(counts, dtype=np.int64))),
        schema=table.schema,
        stride=max(SMALLEST_STRIDE, 1 << most.bit_length()),
        level_bin=np.concatenate(level_bins),
        level_start=np.concatenate(([0], np.cumsum(n_levels, dtype=np.int64))),
    )


def _most_bins(max_bins: int | Sequence[int], n_features: int) -> IntArray:
    """Most bins of each feature."""
    single = not isinstance(max_bins, Sequence)
    each = list(max_bins) if isinstance(max_bins, Sequence) else [max_bins]
    if not single and len(each) != n_features:
        raise ParameterError(f"max_bins has {len(each)} numbers for {n_features} features.")
    for most in each:
        if isinstance(most, bool) or not 2 <= most <= MOST_BINS or int(most) != most:
            raise ParameterError(
                f"max_bins must be an integer from 2 to {MOST_BINS}, got {most!r}."
            )
    return np.array(each * n_features if single else each, dtype=np.int64)


def _as_values(keys: dict[int, IntArray], dtype: np.dtype) -> dict[int, AnyArray]:
    """Forced cuts as they compare with the values of a table."""
    if dtype == np.int64:
        return dict(keys)
    return {column: floats_of_keys(cuts) for column, cuts in keys.items()}


def _insert(
    forced: dict[int, IntArray], cut_keys: IntArray, counts: list[int]
) -> tuple[IntArray, list[int]]:
    """All cuts and their counts, the forced ones among them."""
    parts = np.split(cut_keys, np.cumsum(counts)[:-1])
    for column, keys in forced.items():
        parts[column] = np.sort(np.concatenate([parts[column], keys]))
    return np.concatenate(parts), [len(part) for part in parts]


def _bin_levels(
    table: Table, rows: IntArray, mass: FloatArray | None, most_bins: IntArray
) -> list[BinArray]:
    """For each category column the bin of each level, by its mass in ``rows``; else nothing.

    Where there are more levels than bins, the heaviest have one each (of equal
    ones the lower), and all others share the last.
    """
    found = []
    for j, column in enumerate(table.schema.columns):
        n_levels = len(column.levels)
        bins: BinArray = np.minimum(np.arange(n_levels), MOST_CATEGORY_BINS).astype(np.uint8)
        most = min(int(most_bins[j]), MOST_CATEGORY_BINS)
        if n_levels > most:
            codes = codes_of(table.values[rows, j], n_levels)
            present = codes < n_levels
            heavy = np.bincount(
                codes[present], None if mass is None else mass[present], minlength=n_levels
            )
            own = np.sort(np.argsort(-heavy, kind="stable")[: most - 1])
            bins = np.full(n_levels, most - 1, dtype=np.uint8)
            bins[own] = np.arange(most - 1)
        found.append(bins)
    return found


def codes_of(values: AnyArray, n_levels: int) -> IntArray:
    """Positions of levels in a category column of a table.

    ``n_levels`` stands for a value that is no level, ``n_levels + 1`` for a
    missing one.
    """
    floats = floats_of_keys(values) if values.dtype == np.int64 else values
    missing = np.isnan(floats)
    codes: IntArray = np.where(missing, n_levels + 1, floats).astype(np.int64)
    return codes


def rows_to_look_at(n_rows: int, seed: int) -> IntArray:
    """All rows, or about ``SAMPLE_ROWS`` of more, by a hash of seed and row number."""
    if n_rows <= SAMPLE_ROWS:
        return np.arange(n_rows, dtype=np.int64)
    rows = np.empty(MOST_SAMPLED + 1, dtype=np.int64)
    limit = sample_limit(n_rows)
    return rows[: sample_rows(_as_int64(seed), BIN_SAMPLE_STREAM, limit, n_rows, rows)]


def sample_limit(n_rows: int) -> np.uint64:
    """Hash below which a row is looked at, of more than ``SAMPLE_ROWS``."""
    return np.uint64((SAMPLE_ROWS << 64) // n_rows)


def _as_int64(seed: int) -> int:
    """Keep the low 64 bits of any integer: every seed is of one type for kernels."""
    return (int(seed) + 2**63) % 2**64 - 2**63


def _columns_of(values: AnyArray, rows: IntArray, n_threads: int) -> AnyArray:
    """Copy the chosen rows into contiguous columns, shape (n_features, n_chosen)."""
    n_features = values.shape[1]
    if len(rows) == len(values) and values.flags.f_contiguous:
        return np.array(values.T, order="C")  # all rows, column after column already
    columns = np.empty((n_features, len(rows)), dtype=values.dtype)
    any_strides = np.broadcast_to(values, (2, *values.shape))
    run_blocks(
        lambda start, stop: gather_columns(any_strides, rows, columns, start, stop),
        len(rows),
        n_threads,
        -(-_VALUES_PER_THREAD // n_features),
    )
    return columns


def integer_mass(weight: FloatArray) -> FloatArray:
    """Scale weights by a power of two and round them: sums of integers are exact."""
    weight = np.asarray(weight, dtype=np.float64)
    return integer_mass_at(weight, float(weight.max()))


def integer_mass_at(weight: FloatArray, largest: float) -> FloatArray:
    """Scale weights as if the largest of them were ``largest``, and round them."""
    _, exponent = math.frexp(largest)
    return np.rint(np.ldexp(weight, _WEIGHT_BITS - exponent))


def _find_cuts(
    columns: AnyArray,
    mass: FloatArray | None,
    most_bins: IntArray,
    forced: dict[int, AnyArray],
    n_threads: int,
) -> list[tuple[AnyArray, AnyArray]]:
    """Find, for each column, the values just below and just above its cuts but the forced.

    Sorts ``columns`` in place.
    """
    n_features, n_rows = columns.shape
    found: list[tuple[AnyArray, AnyArray]] = [None] * n_features  # type: ignore[list-item]
    counts = np.arange(n_rows + 1, dtype=np.float64)
    if mass is not None and (mass == mass[0]).all():
        # No row needs to be known by its weight: to sort values takes a third of the time.
        counts, mass = counts * mass[0], None

    def find(start: int, stop: int) -> None:
        runs = np.empty(n_rows + 1, dtype=np.int64)
        cuts = np.empty(MOST_BINS, dtype=np.int64)
        for j in range(start, stop):
            column, mass_before = columns[j], counts
            if mass is None:
                column.sort()
            else:
                order = np.argsort(column)
                column = column[order]
                mass_before = np.concatenate(([0.0], np.cumsum(mass[order])))
            first, last = present(column)
            ordered, mass_before = column[first:last], mass_before[first : last + 1]
            if j in forced:
                edges = np.searchsorted(ordered, forced[j], side="right")
                above = choose_between(ordered, mass_before, edges, int(most_bins[j]))
            else:
                n_runs = find_runs(ordered, runs) if len(ordered) else 1
                n_cuts = choose_cuts(runs, n_runs, mass_before, int(most_bins[j]), cuts)
                above = cuts[:n_cuts]
            found[j] = ordered[above - 1], ordered[above]

    run_blocks(find, n_features, n_threads, -(-_VALUES_PER_THREAD // n_rows))
    return found


def _no_value(columns: AnyArray) -> float | int:
    return np.nan if columns.dtype.kind == "f" else MISSING_KEY


def _cuts_between(found: list[tuple[AnyArray, AnyArray]], schema: Schema) -> IntArray:
    """Compute keys halfway between the values below and above each cut."""
    below = np.concatenate([pair[0] for pair in found])
    above = np.concatenate([pair[1] for pair in found])
    if not schema.has_int:
        return keys_of_floats(midpoints(below.astype(np.float64), above.astype(np.float64)))
    is_int = np.repeat([kind == "int" for kind in schema.kinds], [len(pair[0]) for pair in found])
    halves = midpoints(floats_of_keys(below), floats_of_keys(above))
    return np.where(is_int, integer_midpoints(below, above), keys_of_floats(halves))


def midpoints(below: FloatArray, above: FloatArray) -> FloatArray:
    """Compute float64 numbers ``t`` near the middle with ``below <= t < above``.

    An infinity counts as the largest finite number, so that cuts are finite
    wherever a finite number lies between.
    """
    low = np.maximum(below, -_LARGEST_FLOAT)
    high = np.minimum(above, _LARGEST_FLOAT)
    with np.errstate(over="ignore", invalid="ignore"):
        gap = high - low
        middle = np.where(np.isfinite(gap), low + gap / 2, low / 2 + high / 2)
    # Between neighbours the middle is rounded to one of them.
    return np.where((middle >= below) & (middle < above), middle, below)


def integer_midpoints(below: IntArray, above: IntArray) -> IntArray:
    """Compute ``floor((below + above) / 2)`` without overflow."""
    return (below & above) + ((below ^ above) >> 1)
