"""Metrics of survival models: risks and event times that may be censored."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.errors import DataError


@dataclass(frozen=True, slots=True)
class Concordance:
    """Harrell's C: share of the comparable pairs that the prediction orders correctly.

    A pair can be compared if its earlier time is an event.  Equal predictions
    count half, and pairs of events at the same time are left out.

    Attributes
    ----------
    risk_sign : float
        1 if a large prediction means an early event (a hazard), -1 for predicted times.
    """

    risk_sign: float = 1.0

    def __call__(
        self, y_true: FloatArray, prediction: FloatArray, weight: FloatArray | None = None
    ) -> float:
        """Return the score.

        Raise ``DataError`` if no pair can be compared.
        """
        from hedgerow.kernels.concordance import concordant_pairs

        time = y_true[:, 0] if y_true.ndim == 2 else np.abs(y_true)
        event = y_true[:, 0] == y_true[:, 1] if y_true.ndim == 2 else y_true > 0.0
        rank = np.unique(self.risk_sign * prediction, return_inverse=True)[1].reshape(-1) + 1
        rows = np.argsort(time, kind="stable")
        ordered = time[rows]
        starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1], True])
        mass = np.ones(len(time)) if weight is None else np.ascontiguousarray(weight)
        tree = np.zeros(int(rank.max()) + 1)
        right, total = concordant_pairs(rank, event, mass, rows, starts, tree)
        if total <= 0.0:
            raise DataError(
                f"metric 'concordance' needs an event before the time of another row; {len(time)} "
                "rows have none: give other validation rows, or use eval_metric='loss'."
            )
        return float(right / total)
