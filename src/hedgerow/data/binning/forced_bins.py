"""The cuts of a sorted column: forced cuts, and the choice of the other cuts between them.

::

    sorted column    . . . . . | . . . . . . . . | . .      two forced cuts
    segments            0      |       1         |  2
    bins                2      |       4         |  1       of max_bins = 7

Every segment between forced cuts gets one bin.  The remaining bins are divided among the
segments in proportion to their mass, but a segment gets at most as many bins as it has
distinct values.  Within a segment, cuts are chosen as in a complete column.  (LightGBM's
``forcedbins_filename`` does the same, but rounds the bins of each segment separately.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from hedgerow.arrays import MISSING_KEY, AnyArray, FloatArray, IntArray
from hedgerow.data.schema import Schema
from hedgerow.kernels.tables.binning import choose_cuts
from hedgerow.kernels.tables.keys import keys_of_floats

_TOLERANCE = 1e-9  # scaling all weights changes the rounding, but must not change the bins

ForcedCuts = Mapping[str, Sequence[float]]
"""Ascending finite cuts by column name; integers for columns of kind ``"int"``."""


def keys_of_forced(forced: ForcedCuts | None, schema: Schema) -> dict[int, IntArray]:
    """Return the keys of the forced cuts by position of the column."""
    keys = {}
    for name, cuts in (forced or {}).items():
        at = schema.names.index(name)
        if schema.columns[at].kind == "int":
            keys[at] = np.array(cuts, dtype=np.int64)
        else:
            keys[at] = keys_of_floats(np.array(cuts, dtype=np.float64))
    return keys


def sort_column(
    column: AnyArray, mass: FloatArray | None, counts: FloatArray
) -> tuple[AnyArray, FloatArray]:
    """Return the non-missing values of a column, ascending, and the mass before each and of all.

    ``column`` is sorted in place.  ``mass`` is that of the rows; None: ``counts`` has the mass
    before each row.
    """
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
    ordered: AnyArray,
    mass_before: FloatArray,
    forced: AnyArray | None,
    max_bins: int,
    space: tuple[IntArray, IntArray],
) -> tuple[AnyArray, AnyArray]:
    """Return the values just below and just above each cut that is not forced.

    The values and masses are those of :func:`sort_column`; ``forced`` ascends.  ``space`` is
    scratch space, for runs of equal values and for cuts.
    """
    if forced is not None:
        edges = np.searchsorted(ordered, forced, side="right")
        above = choose_between(ordered, mass_before, edges, max_bins)
    else:
        runs, cuts = space
        rises = ordered[1:] > ordered[:-1]
        above = cuts[: choose_cuts(rises, mass_before, max_bins, runs, cuts)]
    return ordered[above - 1], ordered[above]


def cuts_of_few(
    values: AnyArray, forced: AnyArray | None, max_bins: int
) -> tuple[AnyArray, AnyArray] | None:
    """Return the values below and above each cut of a column in which each value has a bin.

    ``values`` ascend; where a forced cut lies, there is no other.  None if there are more bins
    than ``max_bins``.
    """
    below, above = values[:-1], values[1:]
    if forced is not None:
        inside = np.searchsorted(forced, above) > np.searchsorted(forced, below)
        below, above = below[~inside], above[~inside]
        max_bins -= len(forced)
    return (below, above) if len(below) < max_bins else None


def choose_between(
    ordered: AnyArray, mass_before: FloatArray, edges: IntArray, max_bins: int
) -> IntArray:
    """Choose the cuts of a sorted column within the segments between ``edges``."""
    bounds = np.concatenate(([0], edges, [len(ordered)]))
    segments = list(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True))
    runs = np.empty(len(ordered) + 1, dtype=np.int64)
    rises = ordered[1:] > ordered[:-1]
    n_values = [1 + np.count_nonzero(rises[a : b - 1]) if a < b else 0 for a, b in segments]
    mass = np.diff(mass_before[bounds])
    n_bins = share_bins(mass, np.array(n_values, dtype=np.int64), max_bins)
    chosen = []
    cuts = np.empty(max_bins, dtype=np.int64)
    for (a, b), bins in zip(segments, n_bins.tolist(), strict=True):
        if bins > 1:
            inside = rises[a : b - 1]
            n_cuts = choose_cuts(inside, mass_before[a : b + 1], bins, runs, cuts)
            chosen.append(a + cuts[:n_cuts])
    return np.concatenate(chosen) if chosen else np.zeros(0, dtype=np.int64)


def share_bins(mass: FloatArray, n_values: IntArray, max_bins: int) -> IntArray:
    """Divide the bins among segments: at least 1, at most the distinct values, by mass."""
    n_bins = np.ones(len(mass), dtype=np.int64)
    room = np.maximum(n_values - 1, 0)
    left = max_bins - len(mass)
    while left > 0 and (room > 0).any():
        heavy = np.where(room > 0, mass, 0.0)
        share = left * (heavy / heavy.sum())
        added = np.minimum(np.floor(share + _TOLERANCE).astype(np.int64), room)
        if not added.any():  # no share reaches one bin: largest shares first, ties by position
            order = np.argsort(-np.round(share, 9), kind="stable")
            added[order[: min(left, int((room > 0).sum()))]] = 1
        n_bins += added
        room -= added
        left -= int(added.sum())
    return n_bins
