"""Friedman's H: how much of the joint effect of two columns is an interaction.

Friedman and Popescu (2008), section 8.1.  With centred partial dependences ``F``::

    H(j, k)^2 = mean (F_jk - F_j - F_k)^2  /  mean F_jk^2        over the rows

With constant leaves, one pass over the background gives H over all rows, and H is 0 for pairs
of columns that share no path.  Otherwise partial dependences are evaluated at some of the
rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.data.reading.frames import FrameLibrary, make_frame
from hedgerow.inspection.background import Background, Kind, check_kind, read_background
from hedgerow.inspection.exact import ExactEffects
from hedgerow.inspection.partial import Columns, input_of, is_exact, is_plain, positions_of
from hedgerow.inspection.rescoring import Rescorer
from hedgerow.model.model import Model, check_model

ROWS_LOOKED_AT = 200
"""Rows at which joint effects are evaluated if they are not exact; work grows quadratically."""


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
    n_jobs: int | None = None,
) -> Interactions:
    """Return Friedman's H of all pairs of columns.

    Parameters
    ----------
    columns : names or positions, optional
        All by default.

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
    check_model(model)
    chosen, kind = positions_of(columns, model.schema), check_kind(kind, model)
    background = read_background(model, X, sample_weight, offset, n_jobs)
    if is_exact(model, background, kind) and all(is_plain(model, j) for j in chosen):
        parts = _exact_parts(model, background, chosen)
        n_rows = background.n_rows
    else:
        background = _some_rows(background)
        parts = _looked_at_parts(background, chosen, kind)
        n_rows = background.n_rows
    names = tuple(model.schema.names[j] for j in chosen)
    own, joint = parts
    ratio = np.divide(own, joint, out=np.zeros_like(own), where=joint > 0.0)
    h, strength = np.sqrt(ratio), np.sqrt(own)
    if h.shape[-1] == 1:
        h, strength = h[..., 0], strength[..., 0]
    return Interactions(names, h, strength, n_rows)


def _exact_parts(
    model: Model, background: Background, chosen: list[int]
) -> tuple[FloatArray, FloatArray]:
    """Return mean squares of the interactions of pairs, and of their joint effects."""
    exact_effects = ExactEffects(model, background, pairs=True)
    inputs = [input_of(model, j) for j in chosen]
    n, n_outputs = len(chosen), len(exact_effects.mean)
    own, both = np.zeros((n, n, n_outputs)), np.zeros((n, n, n_outputs))
    cells = [exact_effects.cells(j) for j in inputs]
    curves = [exact_effects.curve(j, c) for j, c in zip(inputs, cells, strict=True)]
    cell_of_row = [
        c.cell_of(background.inputs[:, j]).astype(np.int64)
        for j, c in zip(inputs, cells, strict=True)
    ]
    for a, b in combinations(range(n), 2):
        if not exact_effects.meet(inputs[a], inputs[b]):
            continue
        size = cells[b].n_cells
        pair = cell_of_row[a] * size + cell_of_row[b]
        rows = np.bincount(pair, weights=background.weight, minlength=cells[a].n_cells * size)
        found = np.flatnonzero(rows)
        weight = rows[found] / background.mass
        together = exact_effects.together(inputs[a], inputs[b]).reshape(-1, n_outputs)[found]
        alone = curves[a][found // size] + curves[b][found % size]
        own[a, b] = own[b, a] = _variance(together, weight)
        both[a, b] = both[b, a] = _variance(together + alone, weight)
    return own, both


def _variance(values: FloatArray, weight: FloatArray) -> FloatArray:
    weight = weight[:, None]
    centred = values - (weight * values).sum(axis=0)
    return np.asarray((weight * centred**2).sum(axis=0))


def _some_rows(background: Background) -> Background:
    """Return ``ROWS_LOOKED_AT`` of the rows, drawn with a fixed seed."""
    if background.n_rows <= ROWS_LOOKED_AT:
        return background
    drawn: IntArray = np.random.default_rng(0).choice(
        background.n_rows, ROWS_LOOKED_AT, replace=False
    )
    return background.take(np.sort(drawn))


def _looked_at_parts(
    background: Background, chosen: list[int], kind: Kind
) -> tuple[FloatArray, FloatArray]:
    """Return the mean squares from partial dependences at the values of the rows."""
    values = background.values
    if values.dtype == np.float32:
        values = values.astype(np.float64)
    weight = np.ones(background.n_rows) if background.weight is None else background.weight
    weight = weight / weight.sum()

    def dependence(*columns: int) -> FloatArray:
        rescorer = Rescorer(background, *columns)
        scores = rescorer.grid_scores(*(values[:, j] for j in columns))
        return np.array([background.mean(background.predicted(raw, kind)) for raw in scores])

    alone = [dependence(j) for j in chosen]
    n, n_outputs = len(chosen), alone[0].shape[1]
    own, both = np.zeros((n, n, n_outputs)), np.zeros((n, n, n_outputs))
    for a, b in combinations(range(n), 2):
        together = dependence(chosen[a], chosen[b])
        own[a, b] = own[b, a] = _variance(together - alone[a] - alone[b], weight)
        both[a, b] = both[b, a] = _variance(together, weight)
    return own, both
