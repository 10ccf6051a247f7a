"""From values to bins, and from sorted values to cuts.

Glossary
--------
cut          threshold between two bins; the bin of a value is the number of
             cuts below it, so ``value <= cut[b]`` exactly if ``bin <= b``
lookup row   the cuts of one feature, laid out for the search (272 numbers)
run          equal neighbours in a sorted column
heavy value  a value whose mass alone fills a bin
values       the table (:mod:`hedgerow.kernels.tables.values`); in :func:`bin_rows` its array,
             so that the comparisons are those of its type
lookup       the lookup rows of all features, of the type of the values
lowest       the smallest value that is not missing (NaN is not ``>= -inf``)
by_row       uint8 (n_tiles, n_rows + PAD, tile_width)
by_column    uint8 (n_features or 0, n_rows + PAD): not written if it has no features
rises        bool (n - 1,): whether a number of a sorted column is above the one before
starts       int64: start of each run of a sorted column, and its end
mass_before  float64 (n + 1,): mass of all rows before each one; differences must be exact

Search
------
A search tree of two levels with sixteen children each.  A feature has at most
255 cuts, padded to 256 with numbers that nothing exceeds::

    lookup row   last of block 0, of block 1, ... of block 15     16 fences
                 cut 0 ... cut 15                                 block 0
                 ...
                 cut 240 ... cut 255                              block 15

``f`` fences and ``c`` cuts of block ``f`` lie below the value: its bin is
``16 f + c``.  One vector instruction makes sixteen comparisons and another one
counts the bits of their mask; nothing branches.  1M x 28 on one Zen 5 core, with
both layouts written: 1.5 ns per value (float32) and 2.7 ns (float64), against 32 ns
for a loop of binary search, 4.0 for eight unrolled steps without branches and 2.5
for a grid of 2,048 cells with a short scan.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hedgerow import kernel_types as kt
from hedgerow.arrays import AnyArray, FloatArray, IntArray
from hedgerow.compile import kernel
from hedgerow.kernels.primitives.intrinsics import FAN_OUT, count_below
from hedgerow.kernels.tables.values import FLOAT32, Values

LOOKUP_WIDTH = FAN_OUT + FAN_OUT * FAN_OUT

_FAN = np.uint64(FAN_OUT)
_WIDTH = np.uint64(LOOKUP_WIDTH)
_ZERO = np.uint64(0)
_ONE = np.uint64(1)

# Rows that are binned for one feature before the next feature.  Nanoseconds per
# value for 128 / 512 / 2,048 rows, float32: 1.49 / 1.52 / 1.47 for 28 columns in C
# order, 1.61 / 1.36 / 1.28 in Fortran order, 2.9 / 3.1 / 5.4 for 1,024 columns in C
# order (rows 4 KiB apart share a cache set).  One row after the other: 1.84 and 2.4.
_ROWS = np.uint64(512)

# Relative tolerance of comparisons of masses: scaling all weights rounds sums
# anew, which must not break a tie.
_PLAY = 1e-9

_HEAVY_PASSES = 8


@kernel
def bin_rows(
    values: AnyArray,
    lookup: AnyArray,
    lowest: Any,
    missing_bin: np.uint8,
    by_row: kt.UInt8_3D,
    by_column: kt.UInt8_2D,
    start: int,
    stop: int,
) -> None:
    """Write the bins of rows ``start`` to ``stop``."""
    n_features = np.uint64(values.shape[2])
    n_tiles = np.uint64(by_row.shape[0])
    per_tile = (n_features + n_tiles - _ONE) // n_tiles
    columns = by_column.shape[0] > 0
    first, end = np.uint64(start), np.uint64(stop)
    while first < end:
        last = min(first + _ROWS, end)
        for j in range(n_features):
            tile, place = j // per_tile, j % per_tile
            fences = j * _WIDTH
            blocks = fences + _FAN
            for i in range(first, last):
                value = values[_ZERO, i, j]
                above = _FAN * count_below(lookup, fences, value)
                found = np.uint8(above + count_below(lookup, blocks + above, value))
                found = found if value >= lowest else missing_bin
                by_row[tile, i, place] = found
                if columns:
                    by_column[j, i] = found
        first = last


@kernel
def gather_columns(
    values: Values,
    rows: kt.Int64_1D,
    columns: tuple[kt.Float32_2D, kt.Int64_2D],
    n_features: int,
    start: int,
    stop: int,
) -> None:
    """Write value j of row ``rows[i]`` to ``columns[j, i]`` for ``start <= i < stop``."""
    narrow, wide = columns
    first, end = np.uint64(start), np.uint64(stop)
    while first < end:
        last = min(first + _ROWS, end)
        for j in range(np.uint64(n_features)):
            for i in range(first, last):
                row = np.uint64(rows[i])
                if values.kind == FLOAT32:
                    narrow[j, i] = values.narrow[_ZERO, row, j]
                else:
                    wide[j, i] = values.wide[_ZERO, row, j]
        first = last


@kernel(inner=True)
def _light_target(
    starts: IntArray, n_runs: np.uint64, mass_before: FloatArray, max_bins: int
) -> tuple[float, np.int64]:
    """Return the mass above which a value is heavy, and the number of bins for other values."""
    total = mass_before[starts[n_runs]] - mass_before[starts[0]]
    target, bins_left = total / max_bins, np.int64(max_bins)
    # Remove heavy values, each with a bin of its own, until no other value exceeds the mean.
    for _ in range(_HEAVY_PASSES):
        heavy, heavy_mass = 0, 0.0
        for run in range(n_runs):
            mass = mass_before[starts[run + _ONE]] - mass_before[starts[run]]
            if mass >= target * (1.0 - _PLAY):
                heavy += 1
                heavy_mass += mass
        if max_bins - heavy == bins_left or heavy >= max_bins:
            break
        bins_left = np.int64(max_bins - heavy)
        target = (total - heavy_mass) / bins_left
    return target, bins_left


@kernel
def choose_cuts(
    rises: kt.Bool_1D,
    mass_before: kt.Float64_1D,
    max_bins: int,
    starts: kt.Int64_1D,
    cuts: kt.Int64_1D,
) -> int:
    """Write where a sorted column is cut into bins of similar mass; return the number of cuts."""
    # A cut at ``c`` stands between rows ``c - 1`` and ``c`` of the sorted column.
    runs, starts[0] = _ONE, 0
    for i in range(_ONE, np.uint64(len(rises)) + _ONE):
        starts[runs] = np.int64(i)
        runs += np.uint64(rises[i - _ONE])
    starts[runs] = len(rises) + 1
    if runs <= np.uint64(max_bins):
        for run in range(_ONE, runs):
            cuts[run - _ONE] = starts[run]
        return np.int64(runs) - 1
    # A bin ends where its mass is nearest to the mean mass of the remaining bins.  A heavy value
    # has a bin of its own, or shares it with lighter values before it that weigh less than half a
    # bin.
    heavy_mass, bins_left = _light_target(starts, runs, mass_before, max_bins)
    mass_left = heavy_mass * bins_left
    target, held, n_cuts, last = heavy_mass, 0.0, 0, max_bins - 1
    for run in range(runs):
        mass = mass_before[starts[run + _ONE]] - mass_before[starts[run]]
        heavy = mass >= heavy_mass * (1.0 - _PLAY)
        goal = 0.5 * target if heavy else target - 0.5 * mass
        closes_before = held > 0.0 and held > goal * (1.0 + _PLAY) and bins_left > 0
        closes_after = heavy and run + _ONE < runs
        if closes_before and n_cuts < last:
            cuts[n_cuts] = starts[run]
            n_cuts += 1
            bins_left -= 1
            mass_left, held = mass_left - held, 0.0
            target = mass_left / bins_left if bins_left > 0 else np.inf
        if not heavy:
            held += mass
        elif closes_after and n_cuts < last:
            cuts[n_cuts] = starts[run + _ONE]
            n_cuts += 1
            mass_left, held = mass_left - held, 0.0
            target = mass_left / bins_left if bins_left > 0 else np.inf
    return n_cuts
