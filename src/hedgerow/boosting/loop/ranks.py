"""The ranks of a fit: what each has of the rows, and what is summed over all of them.

Sums over rows are exact, so they depend neither on the order of the rows nor on their division.
A metric that is not a sum (the area under the ROC curve, a user's function) gets all rows on every
rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.comm.base import Alone, Communicator, count_rows, gather_numbers
from hedgerow.errors import ParameterError
from hedgerow.growing.chunks.exchange import GrowMode
from hedgerow.kernels.primitives.exact_sum import ExactSum
from hedgerow.metrics import Metric, evaluate, not_nan
from hedgerow.metrics.scores import Center
from hedgerow.objectives import Objective, SeveralTargets
from hedgerow.objectives.global_sums import AllRows, merged

MOST_GATHERED = 20_000_000
"""Largest count of numbers (targets, weights and raw scores) on each rank for metrics that need
all rows at once: 160 MB."""


@dataclass(frozen=True, slots=True, eq=False)
class Ranks:
    """The ranks that train a model together.

    Attributes
    ----------
    communicator : Communicator
        By default this process trains alone.
    mode : {"data", "features"}
        What is divided between ranks: rows, or histograms of rows that all ranks have.
    first_row : int
        Number of training rows of lower ranks.
    """

    communicator: Communicator = field(default_factory=Alone)
    mode: GrowMode = "data"
    first_row: int = 0

    @property
    def others(self) -> Communicator:
        """The ranks that have other rows."""
        return self.communicator if self.mode == "data" else Alone()

    def rows(self, target: FloatArray, weight: FloatArray | None) -> AllRows:
        """Return the rows of all ranks."""
        # A rank without rows does not know the number of targets.
        own = [(target, weight)] if len(target) > 0 or self.others.size == 1 else []
        return AllRows(lambda: own, self.others)


class Tally:
    """Metrics of the rows of all ranks.

    Raise ``ParameterError`` if a metric needs all rows at once and there are too many.

    Parameters
    ----------
    metrics : sequence of Metric
    objective : Objective
    rows : AllRows
        The scored rows.
    """

    def __init__(self, metrics: Sequence[Metric], objective: Objective, rows: AllRows) -> None:
        self._metrics, self._objective, self._rows = metrics, objective, rows
        self._own = list(rows.batches())
        n_own = sum(len(target) for target, _ in self._own)
        self.n_rows = count_rows(n_own, rows.communicator)[1]
        self._known: tuple[FloatArray, FloatArray | None] | None = None
        gathered = [metric for metric in metrics if metric.sums is None]
        needed = self.n_rows * (objective.n_outputs + 2)
        if gathered and needed > MOST_GATHERED:
            from hedgerow.metrics import METRICS

            summed = [name for name, metric in METRICS.items() if metric.sums is not None]
            raise ParameterError(
                f"eval_metric {gathered[0].name!r} needs the scores of all {self.n_rows:,} rows at "
                f"once, which are {needed:,} numbers (at most {MOST_GATHERED:,}): give fewer "
                "validation rows (validation_fraction), or a metric that is a sum over rows: "
                f"'loss', {', '.join(map(repr, summed))}."
            )
        centered = any(metric.sums is not None and metric.sums.uses_center for metric in metrics)
        self._center = _center_of(rows, objective) if centered else 0.0

    def scores(self, raw: FloatArray) -> dict[str, float]:
        """Return the score of each metric; ``raw`` are those of this rank's rows."""
        summed = [metric for metric in self._metrics if metric.sums is not None]
        gathered = [metric for metric in self._metrics if metric.sums is None]
        found, others = dict[str, float](), self._rows.communicator
        parts: list[ExactSum] = []
        for target, weight in self._own:
            prediction = raw if all(m.from_raw for m in summed) else self._objective.predict(raw)
            for metric in summed:
                assert metric.sums is not None
                given = raw if metric.from_raw else prediction
                parts += metric.sums.sums(target, given, weight, self._center)
        n_sums = sum(metric.sums.n_sums for metric in summed if metric.sums is not None)
        sums = iter(merged(parts or [ExactSum()] * n_sums, others)) if summed else iter(())
        for metric in summed:
            assert metric.sums is not None
            score = metric.sums.finish(*islice(sums, metric.sums.n_sums))
            found[metric.name] = not_nan(metric.name, score)
        if gathered:
            if self._known is None:  # targets and weights do not change
                self._known = self._rows.gathered()
            target, weight = self._known
            everyone = gather_scores(raw, others)
            found |= evaluate(gathered, self._objective, target, everyone, weight)
        return {metric.name: found[metric.name] for metric in self._metrics}


def _center_of(rows: AllRows, objective: Objective) -> Center:
    """Return the mean of all targets, or of each of several targets."""
    if not isinstance(objective, SeveralTargets):
        return rows.center()
    return np.array([rows.of_target(k).center() for k in range(objective.n_outputs)])


def gather_scores(own: FloatArray, others: Communicator) -> FloatArray:
    """Concatenate the raw scores of all ranks, float64 (n_outputs, n_rows)."""
    if others.size == 1:
        return own
    # The scores of a row are adjacent, so parts of ranks can be concatenated.
    flat = gather_numbers(np.ascontiguousarray(own.T).reshape(-1), others)
    return np.ascontiguousarray(flat.reshape(-1, len(own)).T)
