"""What a loss has to offer; one file each loss.

Glossary
--------
raw score   sum of the trees, any real number, shape (n_outputs, n_rows)
link        inverse map from raw score to prediction (identity, sigmoid, softmax)
g, h        first and second derivative of the loss in the raw score, times the
            row's weight
"""

from __future__ import annotations

from typing import ClassVar, Protocol

from hedgerow.arrays import FloatArray


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
    """

    name: ClassVar[str]
    kernel_id: ClassVar[int]
    constant_hessian: ClassVar[bool]

    @property
    def n_outputs(self) -> int:
        """Raw scores per row."""

    def check_target(self, target: FloatArray) -> None:
        """Raise ``DataError`` that names the first row whose target is outside the domain."""

    def initial_score(self, target: FloatArray, weight: FloatArray | None) -> FloatArray:
        """Raw score per output that minimises the weighted loss of a constant."""

    def predict(self, raw: FloatArray) -> FloatArray:
        """Prediction, (n_rows,) or (n_rows, classes), for raw scores (n_outputs, n_rows)."""

    def loss(self, target: FloatArray, raw: FloatArray, weight: FloatArray | None) -> float:
        """Weighted mean loss."""
