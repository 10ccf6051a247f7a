"""What a metric is.

Glossary
--------
score       one number for a set of rows
prediction  what the objective makes of raw scores: shape (n_rows,), or
            (n_rows, n_classes) with the probabilities of the classes
raw         raw scores, shape (n_outputs, n_rows)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from hedgerow.arrays import FloatArray
from hedgerow.metrics.scores import RowSums

MetricFunction: TypeAlias = Callable[[FloatArray, FloatArray, FloatArray | None], float]
"""``function(y_true, prediction, weight) -> float``; class indices for classes."""

Task: TypeAlias = Literal[
    "regression", "two classes", "classes", "labels", "quantiles", "survival", "ranking"
]


@dataclass(frozen=True, slots=True)
class Metric:
    """A named score.

    Attributes
    ----------
    name : str
        Key in the history of a fit.
    function : callable
        ``function(y_true, prediction, weight) -> float``.  ``y_true`` holds
        numbers, or class indices 0, 1, ...; ``weight`` is None where all rows
        count alike.
    higher_is_better : bool, default=False
    tasks : tuple of {"regression", "two classes", "classes", "quantiles", "survival", "ranking"}
        Where it can be used; empty for everywhere.
    from_raw : bool, default=False
        Whether ``function`` is given raw scores in place of predictions.
    sums : RowSums, optional
        How the same score, to the last bit, is made of parts of the rows; None if it
        needs all of them at once.
    what : str
        In a few words, for the table of all metrics.
    built_in : bool, default=False
        Whether the function is Hedgerow's own: it gets no protected arrays, and what it
        returns is a number.
    """

    name: str
    function: MetricFunction
    higher_is_better: bool = False
    tasks: tuple[Task, ...] = ()
    from_raw: bool = False
    sums: RowSums | None = None
    what: str = ""
    built_in: bool = False

    def improves(self, score: float, best: float, min_delta: float = 0.0) -> bool:
        """Whether ``score`` is better than ``best`` by more than ``min_delta``."""
        gain = score - best if self.higher_is_better else best - score
        return gain > min_delta
