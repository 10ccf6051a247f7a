"""Rows that are scored after each round, of one process or of all ranks.

Sums over rows are exact, so they depend neither on the order of the rows nor on their division.
A metric that is not a sum (the area under the ROC curve, a user's function) gets all rows on every
rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.boosting.loop.sample import Sample
from hedgerow.comm.base import Alone, Communicator, count_rows, gather_numbers
from hedgerow.errors import ParameterError
from hedgerow.kernels.primitives.exact_sum import ExactSum
from hedgerow.metrics import Metric, evaluate, evaluate_rounds, not_nan
from hedgerow.metrics.scores import Center
from hedgerow.objectives import Objective, SeveralTargets
from hedgerow.objectives.global_sums import AllRows, merged

if TYPE_CHECKING:
    from hedgerow.boosting.loop.scores import TrainingData
    from hedgerow.growing.chunks.exchange import GrowMode

MOST_GATHERED = 20_000_000
"""Largest count of numbers (targets, weights and raw scores) on each rank for metrics that need
all rows at once: 160 MB."""


@dataclass(frozen=True, slots=True, eq=False)
class Ranks:
    """The ranks that train a model together.

    mode       what is divided between ranks: rows, or histograms of rows that all ranks have
    first_row  number of training rows of lower ranks
    """

    communicator: Communicator = field(default_factory=Alone)
    mode: GrowMode = "data"
    first_row: int = 0

    @property
    def others(self) -> Communicator:
        """The ranks that have other rows."""
        return self.communicator if self.mode == "data" else Alone()

    def rows(self, own: Sample | TrainingData) -> AllRows:
        """Return the rows of all ranks; ``own`` are those of this one."""
        return AllRows(own.target, own.weight, own.offset, self.others)


class Tally:
    """Metrics of the rows of all ranks; too many rows for a metric of all at once are an error."""

    def __init__(self, metrics: Sequence[Metric], objective: Objective, rows: AllRows) -> None:
        self._metrics, self._objective, self._rows = metrics, objective, rows
        self.n_rows = count_rows(len(rows.target), rows.communicator)[1]
        self._known: tuple[FloatArray, FloatArray | None] | None = None
        self._summed = [(each, each.sums) for each in metrics if each.sums is not None]
        self._gathered = [metric for metric in metrics if metric.sums is None]
        needed = self.n_rows * (objective.n_outputs + 2)
        if self._gathered and needed > MOST_GATHERED:
            from hedgerow.metrics import METRICS

            summed = [name for name, metric in METRICS.items() if metric.sums is not None]
            raise ParameterError(
                f"eval_metric {self._gathered[0].name!r} needs the scores of all {self.n_rows:,} "
                f"rows at once, which are {needed:,} numbers (at most {MOST_GATHERED:,}): give "
                "fewer validation rows (validation_fraction), or a metric that is a sum over rows: "
                f"'loss', {', '.join(map(repr, summed))}."
            )
        centered = any(sums.uses_center for _, sums in self._summed)
        self._center: Center = 0.0
        if centered and isinstance(objective, SeveralTargets):
            each = range(objective.n_outputs)
            self._center = np.array([rows.of_target(k).center() for k in each])
        elif centered:
            self._center = rows.center()

    def scores(self, raw: FloatArray) -> dict[str, float]:
        """Return the score of each metric; ``raw`` are those of this rank's rows."""
        found, others, parts = dict[str, float](), self._rows.communicator, list[ExactSum]()
        target, weight = self._rows.target, self._rows.weight
        if len(target) > 0:
            from_raw = all(metric.from_raw for metric, _ in self._summed)
            prediction = raw if from_raw else self._objective.predict(raw)
            for metric, sums in self._summed:
                given = raw if metric.from_raw else prediction
                parts += sums.sums(target, given, weight, self._center)
        n_sums = sum(sums.n_sums for _, sums in self._summed)
        totals = iter(merged(parts or [ExactSum()] * n_sums, others) if n_sums > 0 else ())
        for metric, sums in self._summed:
            score = sums.finish(*islice(totals, sums.n_sums))
            found[metric.name] = not_nan(metric.name, score)
        if self._gathered:
            if self._known is None:  # targets and weights do not change
                self._known = self._rows.gathered()
            # The scores of a row are adjacent, so that parts can be joined.
            flat = gather_numbers(np.ascontiguousarray(raw.T).reshape(-1), others)
            everyone = np.ascontiguousarray(flat.reshape(-1, len(raw)).T)
            target, weight = self._known
            found |= evaluate(self._gathered, self._objective, target, everyone, weight)
        return {metric.name: found[metric.name] for metric in self._metrics}


@dataclass(frozen=True, slots=True, eq=False)
class ScoredRows:
    """Rows that are scored together after each round.

    ``tally`` computes the metrics, bound to these rows, if several ranks have some.
    """

    name: str
    rows: Sample
    metrics: tuple[Metric, ...]
    tally: Tally | None = None

    def score(self, objective: Objective, raw: FloatArray) -> dict[str, float]:
        """Return the score of each metric; copies of the rows follow in ``raw``."""
        own = np.ascontiguousarray(raw[:, : self.rows.n_rows])
        if self.tally is not None:
            return self.tally.scores(own)
        with self.rows.naming_rows():
            return evaluate(self.metrics, objective, self.rows.target, own, self.rows.weight)

    def score_rounds(self, raw: FloatArray, targets: FloatArray) -> dict[str, list[float]] | None:
        """Return the scores of several rounds; see :func:`hedgerow.metrics.evaluate_rounds`."""
        with self.rows.naming_rows():
            return evaluate_rounds(self.metrics, targets, raw, self.rows.weight)
