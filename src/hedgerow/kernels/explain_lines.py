"""Shapley values of the lines in leaves (:mod:`hedgerow.kernels.explain`)."""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.compile import kernel
from hedgerow.kernels.explain_tour import GROUPS, LineTerms, Tour, Values
from hedgerow.kernels.slopes import clipped, is_finite


@kernel(inner=True)
def sums_of_groups(lines: LineTerms, node: int, row: int, sums: FloatArray) -> None:
    """What the line adds for each set of its players, to ``sums[set]``."""
    slopes = lines.slopes
    for subset in range(1 << GROUPS):
        total = 0.0
        for k in range(slopes.start[node], slopes.start[node + 1]):
            x = lines.numbers[row, slopes.column[k]]
            if (subset >> lines.group[k]) & 1 == 1 and is_finite(x):
                total += slopes.slope[k] * (x - slopes.center[k])
        sums[subset] = clipped(total, slopes.low[node], slopes.high[node])


@kernel(inner=True)
def add_line(
    lines: LineTerms,
    tour: Tour,
    node: int,
    depth: int,
    points: FloatArray,
    first_output: int,
    values: Values,
    place: tuple[int, int],
    sums: FloatArray,
) -> None:
    """Add the line of a leaf to ``H`` of a row, and what its players add there.

    ``place`` is the first row of the block, and the number of the row in it.

    Players of the line are summed over by hand: ``sums`` are what the line adds for each set
    of them.  With chances ``p_in`` and ``p_out`` of a player, those of the path divided by
    its factor, the mean line is as a value that all others share; a player of the line has
    the difference of the means with and without itself instead.
    """
    first_row, i = place
    row = first_row + i
    sums_of_groups(lines, node, row, sums)
    side = tour.side[depth]
    chances = sums[1 << GROUPS :]
    for q in range(np.uint64(points.shape[1])):
        t, part = points[0, q], points[1, q]
        for g in range(GROUPS):
            at = lines.depth[node, g]
            o, w = 1.0, lines.weight[node, g]
            if at >= 0:
                o = tour.agrees[at, tour.side[at], i]
            f = t * o + (1.0 - t) * w
            per_f = 1.0 / f if f > 0.0 else 0.0
            chances[4 * g] = t * o * per_f
            chances[4 * g + 1] = (1.0 - t) * w * per_f
            chances[4 * g + 2] = o * per_f
            chances[4 * g + 3] = w * per_f
        reached = tour.reached[depth, side, q, i]
        mean = 0.0
        for subset in range(1 << GROUPS):
            product = sums[subset]
            for g in range(GROUPS):
                product *= chances[4 * g + 1 - ((subset >> g) & 1)]
            mean += product
        tour.held[depth, side, 0, q, i] += reached * mean
        for g in range(GROUPS):
            player = lines.player[node, g]
            if player < 0:
                continue
            worth = 0.0
            for subset in range(1 << GROUPS):
                inside = (subset >> g) & 1
                product = sums[subset] * (chances[4 * g + 3 - inside])
                for j in range(GROUPS):
                    if j != g:
                        product *= chances[4 * j + 1 - ((subset >> j) & 1)]
                worth += product if inside == 1 else -product
            # The splits of the player will count the mean as they count any value.
            worth -= (chances[4 * g + 2] - chances[4 * g + 3]) * mean
            into = player * values.n_outputs + first_output
            values.single[into, row] += part * reached * worth
