"""Specification of a loss before the data that complete it are known.

The number of classes is the largest target plus one, of all ranks of a cluster if there are some.

Most losses have derivatives of one row alone (:attr:`hedgerow.objectives.base.Objective.rowwise`),
so chunks of rows are enough; :func:`needs_all_rows` tells the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.boosting.loop.sample import counted
from hedgerow.boosting.loop.setup.job import Job, KnownTargets
from hedgerow.boosting.row_data.dataset import Dataset
from hedgerow.boosting.row_data.queries import queries_without_effect, without_queries
from hedgerow.boosting.row_data.targets import Targets, same_targets
from hedgerow.comm.base import count_rows
from hedgerow.errors import DataError, ParameterError
from hedgerow.objectives import (
    RANKING,
    Objective,
    RowLoss,
    SeveralTargets,
    make_objective,
    objective_for,
)
from hedgerow.objectives.catalogue import Task
from hedgerow.objectives.derivatives import PRECOMPUTED
from hedgerow.objectives.global_sums import largest_of_ranks
from hedgerow.objectives.own import OwnObject

_CLASSES = ("softmax", "one_vs_all")

TargetsOf: TypeAlias = Callable[[Dataset, int, str, Targets | None], Targets]
"""``targets_of(rows, n_rows, name, like)`` reads the targets of rows, which messages call ``name``;
``like`` are those of the training rows, if these are validation rows."""


@dataclass(frozen=True, slots=True, eq=False)
class LossSpec:
    """The loss of a fit, by name or of the user.

    objective     as for :func:`hedgerow.objectives.objective_for`
    parameters    parameters of the loss by name; None for the default
    task          {"regression", "two classes", "classes"}: task of a user-defined loss
    n_classes     number of classes, if known from labels
    has_queries   whether the query of each row is known; None: the rows will tell
    labelled      name of the estimator that accepts labels other than 0, 1, ..., for messages
    """

    objective: Any = "squared_error"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    task: Task = "regression"
    n_classes: int | None = None
    has_queries: bool | None = None
    labelled: str = "HedgerowClassifier"

    def __post_init__(self) -> None:
        if isinstance(self.objective, str) and self.has_queries is not None:
            n_classes = (self.n_classes or 2) if self.objective in _CLASSES else 1
            named = make_objective(self.objective, n_classes, parameters=self.parameters)
            ranks = named.name in RANKING
            if ranks and not self.has_queries:
                raise without_queries(named, "qid")
            if self.has_queries and not ranks:
                raise queries_without_effect(named)

    def read(
        self, job: Job, n_rows: int, weight: FloatArray | None, targets_of: TargetsOf | None = None
    ) -> KnownTargets:
        """Read the training targets of a job, and make the loss for them."""
        # ``targets_of`` reads the targets of rows; by default they are numbers, or times of events.
        name, others = self.objective, job.rows.communicator
        if targets_of is None:

            def targets_of(rows: Dataset, n_rows: int, y: str, like: Targets | None) -> Targets:
                return rows.targets(n_rows, name, like, y)

        targets = targets_of(job.rows, n_rows, "y", None)
        target = counted(targets.values, weight)
        n_outputs = self.n_classes or 1
        if isinstance(name, str) and name in _CLASSES and self.n_classes is None:
            if targets.several:
                raise ParameterError(
                    f"objective {name!r} has one target, but y has several columns: for labels use "
                    "'logistic', or train a model for each column."
                )
            most = largest_of_ranks(np.array([target.max(initial=-np.inf)]), others)
            largest, n_all = float(most[0]), count_rows(len(target), others)[1]
            n_outputs = max(2, int(max(largest, 0.0)) + 1)
            if n_outputs > n_all:
                raise DataError(
                    f"objective {name!r} needs class indices 0, 1, ...; the largest is "
                    f"{largest:g}, which makes more classes than there are rows ({n_all}): "
                    f"renumber the classes, or use {self.labelled}, which takes any labels."
                )
        columns = targets.values.shape[1] if targets.several else 1  # a rank without rows: 1
        n_targets = int(others.allreduce(np.array([columns], dtype=np.int64), "max")[0])
        objective = objective_for(
            name, n_outputs, self.parameters, self.task, n_targets, targets.names
        )

        def read(rows: Dataset, n_rows: int, y: str) -> FloatArray:
            return same_targets(targets_of(rows, n_rows, y, targets), targets, y)

        return KnownTargets(targets.values, objective, read)


def needs_all_rows(objective: Objective) -> bool:
    """Return whether the loss must see all rows at once."""
    # True for losses that compare rows, for user-defined functions that return the derivatives of
    # all rows, and for user-defined objects whose start value or loss is not a sum over rows.
    # Rankings need the rows of a query only (:mod:`hedgerow.objectives.ranking.complete`).
    if isinstance(objective, SeveralTargets):
        objective = objective.single
    if objective.kernel_id != PRECOMPUTED or objective.name in RANKING:
        return False
    if not objective.rowwise:
        return True
    if not isinstance(objective, OwnObject):
        return False
    kind = type(objective.inner)
    if objective.coupled or not issubclass(kind, RowLoss) or kind.loss is not RowLoss.loss:
        return True
    starts = kind.initial_score is not RowLoss.initial_score
    return starts and kind.start_of is RowLoss.start_of
