"""What a loss has to offer; one file each loss.

Glossary
--------
raw score   sum of the trees, any real number, shape (n_outputs, n_rows)
link        inverse map from raw score to prediction (identity, sigmoid, softmax)
g, h        first and second derivative of the loss in the raw score, times the
            row's weight
"""

from __future__ import annotations

import math
from typing import ClassVar, Protocol

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.objectives.line_search import LeafRows
from hedgerow.objectives.whole import AllRows


class Objective(Protocol):
    """A loss with its link, its start and its derivatives.

    Attributes
    ----------
    name : str
        Name in the public API and in the model file.
    kernel_id : int
        Which derivatives the compiled gradient pass computes
        (:mod:`hedgerow.objectives.derivatives`).
    n_outputs : int
        Raw scores per row.
    constant_hessian : bool
        True if h is the row's weight, whatever the raw score.
    second_order : bool
        True if h is the second derivative.  Otherwise it is zero almost
        everywhere and leaf values come from a line search.
    level : float
        Quantile that is asked for; of no meaning for other losses.
    """

    name: ClassVar[str]
    kernel_id: ClassVar[int]
    constant_hessian: ClassVar[bool]

    @property
    def second_order(self) -> bool:
        """Whether h is the second derivative, or stands for it."""

    @property
    def level(self) -> float:
        """Quantile that is asked for."""

    @property
    def n_outputs(self) -> int:
        """Raw scores per row."""

    def check_target(
        self, target: FloatArray, first_row: int = 0, origin: float | None = None
    ) -> None:
        """Raise ``DataError`` that names the first row whose target is outside the domain.

        Of a table in parts, ``target`` are those of row ``first_row`` and the following, and
        ``origin`` is that of row 0.
        """

    def initial_score(self, target: FloatArray, weight: FloatArray | None) -> FloatArray:
        """Raw score per output that minimises the weighted loss of a constant."""

    def start_of(self, rows: AllRows) -> FloatArray:
        """The same for rows in batches and on ranks; the same bits however they are cut."""

    def predict(self, raw: FloatArray) -> FloatArray:
        """Prediction, (n_rows,) or (n_rows, classes), for raw scores (n_outputs, n_rows)."""

    def loss(self, target: FloatArray, raw: FloatArray, weight: FloatArray | None) -> float:
        """Weighted mean loss, from exact sums."""

    def losses(self, target: FloatArray, raw: FloatArray) -> FloatArray:
        """Loss of each row, unweighted, which depends on nothing but this row."""

    def leaf_steps(self, leaves: LeafRows, output: int) -> FloatArray:
        """The step c of each leaf that minimises the loss of its rows at ``raw + c``."""


def both_classes(positive: FloatArray) -> FloatArray:
    """Probabilities of both classes, shape (n_rows, 2), of those of the second."""
    found = np.empty((len(positive), 2))
    np.subtract(1.0, positive, out=found[:, 0])
    found[:, 1] = positive
    return found


def longest_line(objective: Objective) -> float:
    """The most that the terms of a linear leaf may add to a raw score, before the learning rate.

    Infinite but for losses that say so: those of a logarithm, whose steps go too far.
    """
    single = getattr(objective, "single", objective)
    return float(getattr(single, "longest_line", math.inf))
