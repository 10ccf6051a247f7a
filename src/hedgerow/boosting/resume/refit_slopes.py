"""New slopes for linear leaves, for :mod:`hedgerow.boosting.resume.refit`."""

from __future__ import annotations

import math

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.kernels.prediction.slope_fit import (
    ROWS_A_TERM,
    LeafRows,
    LeafTerms,
    SlopeRules,
    empty_terms,
    fit_space,
    fit_terms,
)
from hedgerow.kernels.prediction.slopes import (
    TERMS,
    Slopes,
    lines_at,
    part_of_slopes,
    writable_slopes,
)
from hedgerow.params import BoostParams


class RefittedSlopes:
    """Slopes of a model that are refitted tree by tree.

    The columns of a leaf do not change; slopes, centers and bounds become
    ``decay * old + (1 - decay) * new``, as values do.  A leaf with fewer than two rows for
    each term plus two more keeps the old ones.

    Parameters
    ----------
    slopes : Slopes
    numbers : float64 (n_rows, n_features), Fortran order
        Values of the new rows.
    decay : float
    longest : float
        Largest contribution of the terms of a leaf, before the learning rate.

    Attributes
    ----------
    slopes : Slopes
        The slopes, refitted for the trees processed so far.
    """

    def __init__(self, slopes: Slopes, numbers: FloatArray, decay: float, longest: float) -> None:
        self.slopes = writable_slopes(slopes)
        self._numbers, self._decay, self._longest = numbers, decay, (longest, math.inf)
        self._space = np.empty((2 + TERMS, len(numbers)))

    def of_tree(
        self, nodes: slice, leaf: IntArray, g: FloatArray, h: FloatArray, params: BoostParams
    ) -> FloatArray:
        """Refit the tree of ``nodes``; return the contribution of its terms to each row."""
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
        free = np.zeros((2, 0))  # leaves of models with monotone constraints are not refitted
        rate, penalty = float(params.learning_rate), float(params.linear_lambda)
        rules = SlopeRules(penalty, rate, self._longest, none, free)
        fit_terms(data, terms, rules, 0, len(count), *fit_space(), none)
        self._mix(part, terms)
        return lines_at((np.zeros(len(count)), part, self._numbers), leaf)

    def _mix(self, part: Slopes, terms: LeafTerms) -> None:
        """Mix the new terms into the slopes of the tree, a view of all slopes."""
        fitted = np.flatnonzero(terms.count > 0)
        places = np.arange(TERMS) < terms.count[fitted, None]
        at = (part.start[fitted, None] + np.arange(TERMS))[places]
        old, new = self._decay, 1.0 - self._decay
        for mixed, found in ((part.slope, terms.slope), (part.center, terms.center)):
            mixed[at] = old * mixed[at] + new * found[fitted][places]
        for mixed, bound in ((part.low, terms.bounds[0]), (part.high, terms.bounds[1])):
            mixed[fitted] = old * mixed[fitted] + new * bound[fitted]


def _terms_of(slopes: Slopes, n_rows: IntArray) -> LeafTerms:
    """Return the columns of all nodes, none for nodes with too few rows."""
    count = np.diff(slopes.start)
    terms = empty_terms(len(count))
    terms.column[np.arange(TERMS) < count[:, None]] = slopes.column
    terms.count[:] = np.where(n_rows >= ROWS_A_TERM * (count + 1), count, 0)
    return terms
