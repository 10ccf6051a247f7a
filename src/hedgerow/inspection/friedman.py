"""Friedman's H: how much of the joint effect of two columns is an interaction.

Friedman and Popescu (2008), section 8.1.  With centred partial dependences ``F``::

    H(j, k)^2 = mean (F_jk - F_j - F_k)^2  /  mean F_jk^2        over the rows

The partial dependences are means over some of the rows, at the values of these rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.data.reading.frames import FrameLibrary, make_frame
from hedgerow.inspection.background import Columns, Kind, positions_of, read_background
from hedgerow.inspection.partial import single_output
from hedgerow.inspection.rescoring import Rescorer, inputs_of_column, rounds_with
from hedgerow.model.model import Model

MAX_ROWS = 200
"""Rows over which and at which joint effects are evaluated: the work grows quadratically."""


@dataclass(frozen=True, eq=False)
class Interactions:
    """Interactions of pairs of columns.

    Attributes
    ----------
    names : tuple of str
        The columns.
    h : float64, shape (n, n) or (n, n, n_outputs)
        Friedman's H: the part of the joint effect of two columns that neither has alone, as a
        ratio of standard deviations, from 0 usually to 1.  Symmetric; the diagonal is 0.
    strength : float64, of the same shape
        Standard deviation of the interaction, on the scale of the averaged quantity.
        Pairs of weak columns may have a large H, but have a small strength.
    n_rows : int
        Number of rows used.
    output_names : tuple of str
        Names of several outputs, if they are known.
    """

    names: tuple[str, ...]
    h: FloatArray
    strength: FloatArray
    n_rows: int
    output_names: tuple[str, ...] = ()

    def to_frame(self, backend: FrameLibrary = "pandas") -> Any:
        """Return all pairs as a data frame, the strongest first.

        Returns
        -------
        data frame
            Columns ``first``, ``second``, ``h``, ``strength``; for several outputs, the largest.
        """
        n = len(self.names)
        h, strength = (table.reshape(n, n, -1).max(axis=2) for table in (self.h, self.strength))
        pairs = sorted(combinations(range(n), 2), key=lambda pair: -strength[pair])
        columns: dict[str, list[Any]] = {
            "first": [self.names[j] for j, _ in pairs],
            "second": [self.names[k] for _, k in pairs],
            "h": [float(h[pair]) for pair in pairs],
            "strength": [float(strength[pair]) for pair in pairs],
        }
        return make_frame(columns, backend)


def interactions(
    model: Model,
    X: Any,
    columns: Columns = None,
    *,
    kind: Kind = "raw",
    sample_weight: Any = None,
    offset: Any = None,
    max_rows: int | None = MAX_ROWS,
    random_state: int = 0,
    n_jobs: int | None = None,
) -> Interactions:
    """Return Friedman's H of all pairs of columns.

    Parameters
    ----------
    columns : names or positions, optional
        All by default.
    max_rows : int or None, default=200
        Maximum number of rows, drawn from X if it has more; the work for each pair grows with
        their square.

    The other parameters and errors are the same as for
    :func:`hedgerow.inspection.partial_dependence`.

    Returns
    -------
    Interactions

    Examples
    --------
    >>> from hedgerow import Dataset, train
    >>> from hedgerow.inspection import interactions
    >>> params = {"n_estimators": 1, "learning_rate": 1.0, "min_samples_leaf": 1,
    ...           "reg_lambda": 0.0, "early_stopping": False}
    >>> X = [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
    >>> booster = train(params, Dataset(X, [0.0, 0.0, 0.0, 4.0]))
    >>> found = interactions(booster.model, X)
    >>> float(found.strength[0, 1]), float(found.h[0, 1].round(6))
    (1.0, 0.57735)
    """
    chosen = positions_of(columns, model)
    background = read_background(model, X, kind, sample_weight, offset, n_jobs)
    background = background.sample(max_rows, random_state)
    values, forest = background.values, model.forest
    if values.dtype == np.float32:
        values = values.astype(np.float64)

    def dependence(*places: int) -> FloatArray:
        """Return the partial dependence at the values of each row."""
        scores = Rescorer(background, *places).grid_scores(*(values[:, j] for j in places))
        return background.means(scores)

    alone = [dependence(j) for j in chosen]
    asks = [rounds_with(forest, inputs_of_column(model, j)) for j in chosen]
    n, n_outputs = len(chosen), alone[0].shape[1]
    own, both = np.zeros((n, n, n_outputs)), np.zeros((n, n, n_outputs))
    for a, b in combinations(range(n), 2):
        if background.kind == "raw" and not (asks[a] & asks[b]).any():
            continue  # no tree has both: a sum of the two effects
        joint = dependence(chosen[a], chosen[b])
        own[a, b] = own[b, a] = _variance(joint - alone[a] - alone[b], background.weight)
        both[a, b] = both[b, a] = _variance(joint, background.weight)
    ratio = np.divide(own, both, out=np.zeros_like(own), where=both > 0.0)
    h, strength = single_output(np.sqrt(ratio)), single_output(np.sqrt(own))
    names = tuple(model.schema.names[j] for j in chosen)
    return Interactions(names, h, strength, background.n_rows)


def _variance(values: FloatArray, weight: FloatArray | None) -> FloatArray:
    """Return the weighted variance of each column."""
    mean = np.average(values, axis=0, weights=weight)
    return np.asarray(np.average((values - mean) ** 2, axis=0, weights=weight))
