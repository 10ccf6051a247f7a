"""Scores of the cuts of sorted columns, with the arithmetic of histograms.

See :mod:`hedgerow.kernels.splits.split` and :mod:`hedgerow.kernels.splits.vector_split`.
"""

from __future__ import annotations

import math

from hedgerow.compile import kernel
from hedgerow.kernels.splits.monotone import ConstrainedColumn, bounded_score
from hedgerow.kernels.splits.split import Limits


@kernel(inline=True, inner=True)
def cut_score(g_left: float, h_left: float, limits: Limits) -> float:
    """Return the score of both sides, with the arithmetic of ``kernels.splits.split.pass_bin``."""
    g_right, h_right = limits.g - g_left, limits.h - h_left
    d_left, d_right = h_left + limits.penalty, h_right + limits.penalty
    if limits.plain:
        both = g_left * g_left * d_right + g_right * g_right * d_left
        return both / (d_left * d_right)
    size_left = max(abs(g_left) - limits.shrink, 0.0)
    size_right = max(abs(g_right) - limits.shrink, 0.0)
    left = min(size_left / d_left, limits.longest)
    right = min(size_right / d_right, limits.longest)
    of_left = left * (size_left + size_left - d_left * left)
    return of_left + right * (size_right + size_right - d_right * right)


@kernel(inline=True, inner=True)
def score_of_output(
    g_left: float,
    h_left: float,
    n_left: int,
    n_before: int,
    limits: Limits,
    column: ConstrainedColumn | None,
) -> float:
    """Return the score that one output adds to that of a cut; minus infinity if it forbids it.

    ``limits`` and ``column`` are those of the output; ``n_before`` rows with a value are before
    the cut.
    """
    if column is not None:
        return bounded_score(g_left, h_left, n_left, n_before, limits, column)
    allowed = (h_left + limits.penalty > 0.0) & (limits.h - h_left + limits.penalty > 0.0)
    score = cut_score(g_left, h_left, limits)
    return score if allowed else -math.inf
