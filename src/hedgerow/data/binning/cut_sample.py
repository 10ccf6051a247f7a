"""Rows from which cuts are chosen, and what is known of the columns from all rows.

Cuts depend on what a table holds, not on how: rows repeated k times give the cuts of rows of weight
k, and rows in another order the same cuts.  Up to 200,000 rows are all used.  Of more rows, the
*contents* count, the distinct rows of numbers: each has the mass of all rows like it, and those
with the lowest hashes are used::

    rows      a  b  a  c  d  b  a          hash   b < d < a < c
    contents  a 3, b 2, c 1, d 1           three contents: b 2, d 1, a 3

Such a sample of a part of the rows can be joined with that of another part, so files, batches and
processes give the same sample as memory.  (A merged quantile sketch, which other libraries use
here, gives different cuts for a different division of the rows.)

A sample misses rare values.  So the distinct values of a column are collected from all rows as
long as they are few: each of them gets a bin.  Categories are counted in all rows.

Batches are sampled before the number of rows is known (:class:`RowSample`).  A content whose hash
is above the highest that are kept so far can be dropped; all others are kept, once each::

    contents seen    hash 0 |xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx| up to 200,000: all are kept
    ... 2 x 200,000         |xxxxxxxxxxxxxxxx|----------------| the upper half is dropped
    ... 4 x 200,000         |xxxxxxxx|------------------------|

So the sample depends only on the seed and on what the rows hold, not on files, batches or
processes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import AnyArray, FloatArray, IntArray
from hedgerow.comm.base import Communicator
from hedgerow.data.binning.few_values import few_of_columns, few_of_entries
from hedgerow.data.reading.columns import floats_of_column
from hedgerow.data.reading.table import Table
from hedgerow.data.sparse import AnyTable, SparseTable
from hedgerow.kernels.primitives.hashing import CONTENT_STREAM, hash_range, mixed_bits
from hedgerow.kernels.tables.contents import hash_entries, hash_values
from hedgerow.kernels.tables.sparse import Entries
from hedgerow.kernels.tables.values import KEYS, Values, values_of_table
from hedgerow.threads import run_blocks

Hashes = npt.NDArray[np.uint64]

SAMPLE_ROWS = 200_000
"""Largest number of rows, or of contents of more rows, from which cuts are chosen."""

MOST_CATEGORY_BINS = 254
"""Most bins of a category column: prediction adds two, for unknown and missing values."""

_ABSENT = np.uint64(0x9E3779B97F4A7C15)
_ROWS_PER_THREAD = 20_000
_MASS_BITS = 52  # sums of masses are exact in a float64
_NO_ROWS: IntArray = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class CutSample:
    """Rows from which cuts are chosen, and what is known of the columns from all rows."""

    table: AnyTable
    rows: IntArray | None = None  # those of its rows that are used; None: all
    mass: FloatArray | None = None  # integer masses of the used rows; None if all are 1
    # the ascending values of columns that have few in all rows, in the type of the table
    few: Mapping[int, AnyArray] = field(default_factory=dict)
    # masses of the levels of category columns in all rows; columns that are not among them are
    # counted in the used rows
    level_mass: Mapping[int, FloatArray] = field(default_factory=dict)

    def of_columns(self, columns: Sequence[int]) -> CutSample:
        """Return the sample of some columns of a dense table, or of all of a sparse one."""
        if list(columns) == list(range(self.table.n_features)):
            return self
        assert isinstance(self.table, Table)
        schema = self.table.schema
        own = replace(schema, columns=tuple(schema.columns[j] for j in columns))
        table = Table(self.table.values[:, list(columns)], own)
        place = {j: number for number, j in enumerate(columns)}
        few = {place[j]: values for j, values in self.few.items() if j in place}
        masses = {place[j]: mass for j, mass in self.level_mass.items() if j in place}
        return replace(self, table=table, few=few, level_mass=masses)


def sample_of(
    table: AnyTable,
    mass: FloatArray | None,
    seed: int,
    n_threads: int,
    most_values: IntArray,
    columns: Sequence[int] | None = None,
    most: int | None = None,
) -> CutSample:
    """Return the rows of a table from which cuts are chosen."""
    most = SAMPLE_ROWS if most is None else most
    if table.n_rows <= most:
        return CutSample(table, None, mass)
    hashes = np.zeros(table.n_rows, dtype=np.uint64)
    absent = absent_term(table.schema.zero_missing)
    kinds = table.schema.kinds
    numbers = np.arange(table.n_features) if columns is None else np.asarray(columns, np.int64)
    factors = np.zeros(table.n_features, dtype=np.uint64)
    factors[: len(numbers)] = factors_of(seed, numbers)
    factors[[kind == "category" for kind in kinds]] = 0
    is_int = np.array([kind == "int" for kind in kinds], dtype=np.uint8)
    if isinstance(table, SparseTable):
        add_to_hashes(table.entries(), factors, is_int, absent, hashes, n_threads)
        few, level_mass = few_of_entries(table), {}
    else:
        add_to_hashes(values_of_table(table.values), factors, is_int, absent, hashes, n_threads)
        few = few_of_columns(table.values, np.where(factors > 0, most_values, -1), n_threads)
        n_levels = [len(column.levels) for column in table.schema.columns]
        level_mass = {
            j: masses_of_levels(table.values[:, j], n, mass)
            for j, n in enumerate(n_levels)
            if n > min(int(most_values[j]), MOST_CATEGORY_BINS)
        }
    rows, mass_of_rows = _lowest(mixed(hashes, n_threads), mass, most)
    return CutSample(table, rows, mass_of_rows, few, level_mass)


def factors_of(seed: int, columns: IntArray) -> Hashes:
    """Return the factors of columns in the hashes of rows, by the number of the column."""
    every = hash_range(seed, CONTENT_STREAM, 0, int(columns.max(initial=0)) + 1)
    return every[columns] | np.uint64(1)


def absent_term(zero_missing: bool) -> np.uint64:
    """Return what stands for a missing value; it is 0 where 0 is a missing value."""
    return np.uint64(0) if zero_missing else _ABSENT


def add_to_hashes(
    rows: Values | Entries,
    factors: Hashes,
    is_int: AnyArray,
    absent: np.uint64,
    hashes: Hashes,
    n_threads: int = 1,
) -> None:
    """Add columns of a dense table, or the entries of sparse rows, to the hashes of the rows."""
    values = rows.value if isinstance(rows, Entries) else rows
    kinds = is_int if values.kind == KEYS else np.zeros_like(is_int)
    hash_rows = hash_entries if isinstance(rows, Entries) else hash_values

    def add(start: int, stop: int) -> None:
        hash_rows(rows, factors, kinds, absent, hashes, start, stop)

    run_blocks(add, len(hashes), n_threads, _ROWS_PER_THREAD)


def mixed(hashes: Hashes, n_threads: int = 1) -> Hashes:
    """Scramble the hashes of rows to which all columns have been added, in place."""

    def mix(start: int, stop: int) -> None:
        hashes[start:stop] = mixed_bits(hashes[start:stop])

    run_blocks(mix, len(hashes), n_threads, _ROWS_PER_THREAD)
    return hashes


def lowest_contents(
    hashes: Hashes, mass: IntArray, most: int
) -> tuple[IntArray, IntArray, np.uint64 | None]:
    """Find the contents with the lowest hashes: a row of each, and the mass of all rows like it."""
    # Also return the hash from which on contents are left out; None if there are no more than
    # ``most``.
    if len(hashes) == 0:
        return _NO_ROWS, _NO_ROWS, None
    order = np.argsort(hashes)
    ordered = hashes[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    sums = np.add.reduceat(mass[order], starts)
    limit = ordered[starts[most]] if len(starts) > most else None
    return order[starts[:most]], sums[:most], limit


def float_masses(mass: IntArray) -> FloatArray:
    """Convert masses to floats whose sums are exact; huge ones lose their low bits."""
    total = sum(int(part.sum()) for part in np.array_split(mass, 1 + (len(mass) >> 20)))
    return (mass >> max(0, total.bit_length() - _MASS_BITS)).astype(np.float64)


def _lowest(
    hashes: Hashes, mass: FloatArray | None, most: int
) -> tuple[IntArray, FloatArray | None]:
    """Return the first row of each content that is used, ascending, and their masses."""
    share = 1.05 * most / len(hashes)
    while True:
        whole = share >= 1.0
        chosen = np.flatnonzero(hashes <= np.uint64(min(share, 1.0) * (2**64 - 2**11)))
        if whole:
            chosen = np.arange(len(hashes))
        each = np.ones(len(chosen), np.int64) if mass is None else mass[chosen].astype(np.int64)
        places, sums, limit = lowest_contents(hashes[chosen], each, most)
        if limit is not None or whole:
            break
        share *= 4.0  # some of these rows are alike
    ascending = np.argsort(places)
    return chosen[places[ascending]], float_masses(sums[ascending])


# ---- categories -------------------------------------------------------------------------


def masses_of_levels(values: AnyArray, n_levels: int, mass: FloatArray | None) -> FloatArray:
    """Return the masses of the levels of a category column."""
    codes = codes_of(values, n_levels)
    present = codes < n_levels
    weights = None if mass is None else mass[present]
    return np.bincount(codes[present], weights, minlength=n_levels).astype(np.float64)


def codes_of(values: AnyArray, n_levels: int) -> IntArray:
    """Return the level codes of a category column of a table."""
    # An unknown category has the code ``n_levels``, a missing value ``n_levels + 1``.
    floats = floats_of_column(values, "category")
    missing = np.isnan(floats)
    return np.where(missing, n_levels + 1, floats).astype(np.int64)


_CELLS, _CELL_SHIFT = 1 << 12, np.uint64(52)  # of hashes, by their first bits
_MOST_BLOCKS = 1000
_SLACK = 1.25
"""Rows held before some are dropped, as a multiple of the size of the sample."""


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Some of the kept rows."""

    hashes: Hashes  # uint64 (n_rows,)
    mass: IntArray  # int64 (n_rows,)
    columns: list[AnyArray]  # for each feature, plain numbers, or numbers of levels where ``coded``
    coded: tuple[bool, ...]

    @property
    def n_rows(self) -> int:
        return len(self.hashes)

    def take(self, rows: AnyArray, mass: IntArray) -> Block:
        """Return a block with some of the rows, which have these masses."""
        columns = [column[rows] for column in self.columns]
        return Block(self.hashes[rows], mass, columns, self.coded)


class RowSample:
    """The rows kept so far."""

    def __init__(self, most: int = SAMPLE_ROWS) -> None:
        self._most = most
        self._limit: np.uint64 | None = None
        self.n_rows = self._n_thin = 0
        self.blocks: list[Block] = []

    def choose(self, hashes: Hashes) -> IntArray:
        """Return which of the next rows to keep."""
        self.n_rows += len(hashes)
        if self._limit is None and len(hashes) > _SLACK * self._most:
            self._limit = lowest_contents(hashes, np.ones(len(hashes), np.int64), self._most)[2]
        every = np.arange(len(hashes))
        return every if self._limit is None else every[hashes < self._limit]

    def add(self, block: Block) -> None:
        """Add rows selected by :meth:`choose`."""
        if block.n_rows:
            self.blocks.append(block)
        if sum(b.n_rows for b in self.blocks) > _SLACK * self._most:
            self._thin()

    def _thin(self) -> None:
        """Keep one row of each content, with the mass of all, and drop the highest hashes."""
        if sum(block.n_rows for block in self.blocks) == self._n_thin:
            return  # none were added since the last time
        hashes = np.concatenate([block.hashes for block in self.blocks])
        mass = np.concatenate([block.mass for block in self.blocks])
        rows, sums, limit = lowest_contents(hashes, mass, self._most)
        self._limit = limit if limit is not None else self._limit
        order = np.argsort(rows)
        rows, sums = rows[order], sums[order]
        first = 0
        for index, block in enumerate(self.blocks):  # one by one, to free each old block at once
            low, high = np.searchsorted(rows, [first, first + block.n_rows])
            first += block.n_rows
            self.blocks[index] = block.take(rows[low:high] - (first - block.n_rows), sums[low:high])
        self.blocks = [block for block in self.blocks if block.n_rows]
        if len(self.blocks) > _MOST_BLOCKS:
            self.blocks = join(self.blocks)
        self._n_thin = len(rows)

    def limits(self, others: Communicator) -> Iterator[int]:
        """Yield cells of hashes up to which ranks have enough rows, if few are alike; then all."""
        hashes = np.concatenate([np.zeros(0, np.uint64), *(block.hashes for block in self.blocks)])
        counts = np.bincount((hashes >> _CELL_SHIFT).astype(np.int64), minlength=_CELLS)
        ends, wanted = np.cumsum(others.allreduce(counts)), self._most
        while wanted < ends[-1]:
            yield int(np.searchsorted(ends, wanted))
            wanted *= 2
        yield _CELLS - 1

    def up_to(self, last: int) -> list[Block]:
        """Return the rows with hashes up to a cell."""
        kept = [np.flatnonzero(b.hashes >> _CELL_SHIFT <= np.uint64(last)) for b in self.blocks]
        return join([b.take(rows, b.mass[rows]) for b, rows in zip(self.blocks, kept, strict=True)])

    def finish(self) -> list[Block]:
        """Return the sample."""
        self._thin()
        return self.blocks


def join(blocks: Sequence[Block]) -> list[Block]:
    """Return the same rows in fewer blocks."""
    groups = itertools.groupby(blocks, lambda b: ([c.dtype for c in b.columns], b.coded))
    return [_joined([*group]) for _, group in groups]


def _joined(group: Sequence[Block]) -> Block:
    first = group[0]
    if len(group) == 1:
        return first
    columns = zip(*(block.columns for block in group), strict=True)
    return Block(
        np.concatenate([block.hashes for block in group]),
        np.concatenate([block.mass for block in group]),
        [np.concatenate(parts) for parts in columns],
        first.coded,
    )
