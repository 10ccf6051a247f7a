"""New slopes for the leaves of a model, beside :mod:`hedgerow.boosting.resume.refit`."""

from __future__ import annotations

import math

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.kernels.prediction.slopes import (
    ROWS_A_TERM,
    TERMS,
    LeafRows,
    LeafTerms,
    Slopes,
    empty_terms,
    fit_terms,
    lines_at,
    part_of_slopes,
    system_space,
    writable_slopes,
)
from hedgerow.params import BoostParams


class RefittedSlopes:
    """The slopes of a model, of which one tree after the other gets new ones.

    The columns of a leaf stay; slopes, centers and bounds become
    ``decay * old + (1 - decay) * new``, as values do.  A leaf of fewer rows than two for
    each term, and two more, keeps the old ones.

    Parameters
    ----------
    slopes : Slopes
    numbers : float64 (n_rows, n_features), column by column
        Values of the new rows.
    decay : float
    longest : float
        The most that the terms of a leaf add before the learning rate.

    Attributes
    ----------
    slopes : Slopes
        As far as they have been refitted.
    """

    def __init__(self, slopes: Slopes, numbers: FloatArray, decay: float, longest: float) -> None:
        self.slopes = writable_slopes(slopes)
        self._numbers, self._decay, self._longest = numbers, decay, (longest, math.inf)
        self._space = np.empty((2 + TERMS, len(numbers)))

    def of_tree(
        self, nodes: slice, leaf: IntArray, g: FloatArray, h: FloatArray, params: BoostParams
    ) -> FloatArray:
        """Refit the tree of some ``nodes``; what its terms then add for each row.

        ``leaf`` is that of each row, with the gradients ``g`` and ``h``.
        """
        part = part_of_slopes(self.slopes, nodes.start, nodes.stop)
        assert part is not None
        order = np.argsort(leaf, kind="stable")
        count = np.bincount(leaf, minlength=len(part.low))
        start = np.cumsum(count) - count
        fixed = np.column_stack((g, h)).reshape(-1)
        data = LeafRows(
            order.astype(np.uint32), start, count, fixed, 1.0, 1.0, self._numbers, self._space
        )
        terms, none = _terms_of(part, count), np.zeros(0)
        rate, penalty = float(params.learning_rate), float(params.linear_lambda)
        system = system_space()
        fit_terms(data, terms, penalty, rate, self._longest, 0, len(count), none, system, none)
        self._mix(part, terms)
        return lines_at((np.zeros(len(count)), part, self._numbers), leaf)

    def _mix(self, part: Slopes, terms: LeafTerms) -> None:
        """Write the new terms into those of the tree, which are a view of all."""
        fitted = np.flatnonzero(terms.count > 0)
        places = np.arange(TERMS) < terms.count[fitted, None]
        at = (part.start[fitted, None] + np.arange(TERMS))[places]
        old, new = self._decay, 1.0 - self._decay
        for mixed, found in ((part.slope, terms.slope), (part.center, terms.center)):
            mixed[at] = old * mixed[at] + new * found[fitted][places]
        for mixed, bound in ((part.low, terms.bounds[0]), (part.high, terms.bounds[1])):
            mixed[fitted] = old * mixed[fitted] + new * bound[fitted]


def _terms_of(slopes: Slopes, n_rows: IntArray) -> LeafTerms:
    """The columns of all nodes, none where there are too few rows."""
    count = np.diff(slopes.start)
    terms = empty_terms(len(count))
    terms.column[np.arange(TERMS) < count[:, None]] = slopes.column
    terms.count[:] = np.where(n_rows >= ROWS_A_TERM * (count + 1), count, 0)
    return terms
