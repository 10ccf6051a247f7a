"""Cuts that a user asks for, and the choice of the others between them.

::

    sorted column    . . . . . | . . . . . . . . | . .      two forced cuts
    segments            0      |       1         |  2
    bins                2      |       4         |  1       of max_bins = 7

Every segment has a bin.  The bins that are left go to the segments in proportion
to their mass, but none gets more than it has different values; within a segment
they are chosen as in a whole column.  (LightGBM's ``forcedbins_filename`` does the
same, with shares that are rounded one by one.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray, IntArray
from hedgerow.data.schema import Schema
from hedgerow.kernels.binning import choose_cuts, find_runs
from hedgerow.kernels.keys import keys_of_floats

_PLAY = 1e-9  # scaling all weights rounds shares anew: it must not tip a whole number

ForcedCuts = Mapping[str, Sequence[float]]
"""Ascending finite cuts by name of the column; integers for columns of kind ``"int"``."""


def keys_of_forced(forced: ForcedCuts | None, schema: Schema) -> dict[int, IntArray]:
    """Keys of the forced cuts by position of the column."""
    keys = {}
    for name, cuts in (forced or {}).items():
        at = schema.names.index(name)
        if schema.columns[at].kind == "int":
            keys[at] = np.array(cuts, dtype=np.int64)
        else:
            keys[at] = keys_of_floats(np.array(cuts, dtype=np.float64))
    return keys


def choose_between(
    ordered: AnyArray, mass_before: FloatArray, edges: IntArray, max_bins: int
) -> IntArray:
    """Cuts of a sorted column that stand within the segments between ``edges``.

    Parameters
    ----------
    ordered : any number type, shape (n,)
        Ascending, nothing missing.
    mass_before : float64, shape (n + 1,)
        Mass of all rows before each one.
    edges : int64
        Ascending numbers of rows below each forced cut, 0 to n.
    max_bins : int
        More than ``len(edges)``.

    Returns
    -------
    int64
        Ascending positions: a cut at ``c`` stands between rows ``c - 1`` and ``c``.
    """
    bounds = np.concatenate(([0], edges, [len(ordered)]))
    segments = list(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True))
    runs = np.empty(len(ordered) + 1, dtype=np.int64)
    n_runs = [find_runs(ordered[a:b], runs) if a < b else 0 for a, b in segments]
    mass = np.diff(mass_before[bounds])
    n_bins = share_bins(mass, np.array(n_runs, dtype=np.int64), max_bins)
    chosen = []
    cuts = np.empty(max_bins, dtype=np.int64)
    for (a, b), bins in zip(segments, n_bins.tolist(), strict=True):
        if bins > 1:
            found = find_runs(ordered[a:b], runs)
            n_cuts = choose_cuts(runs, found, mass_before[a : b + 1], bins, cuts)
            chosen.append(a + cuts[:n_cuts])
    return np.concatenate(chosen) if chosen else np.zeros(0, dtype=np.int64)


def share_bins(mass: FloatArray, n_values: IntArray, max_bins: int) -> IntArray:
    """Bins of each segment: at least 1, at most its values, in proportion to its mass."""
    n_bins = np.ones(len(mass), dtype=np.int64)
    room = np.maximum(n_values - 1, 0)
    left = max_bins - len(mass)
    while left > 0 and (room > 0).any():
        heavy = np.where(room > 0, mass, 0.0)
        share = left * (heavy / heavy.sum())
        given = np.minimum(np.floor(share + _PLAY).astype(np.int64), room)
        if not given.any():  # less than one each: to the largest, first of equals first
            order = np.argsort(-np.round(share, 9), kind="stable")
            given[order[: min(left, int((room > 0).sum()))]] = 1
        n_bins += given
        room -= given
        left -= int(given.sum())
    return n_bins
