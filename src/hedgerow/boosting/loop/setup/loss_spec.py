"""Specification of a loss before the data that complete it are known.

The number of classes is the largest target plus one, and a user-defined loss is tried on
the first targets.  In memory both are available at once; for files and on clusters
they are known after a pass over all targets.

Most losses have derivatives that depend on one row alone
(:attr:`hedgerow.objectives.base.Objective.rowwise`), so chunks of rows are enough.
:func:`needs_all_rows` tells the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.boosting.loop.setup.resolved import asks_for_vectors
from hedgerow.boosting.row_data.queries import queries_without_effect, without_queries
from hedgerow.boosting.row_data.survival import SURVIVAL
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
from hedgerow.objectives.custom.losses import TRIED, OwnObject, OwnRowLoss
from hedgerow.objectives.derivatives import PRECOMPUTED
from hedgerow.objectives.targets import several_targets
from hedgerow.params import BoostParams

_CLASSES = ("softmax", "one_vs_all")


@dataclass(frozen=True, slots=True, eq=False)
class LossSpec:
    """A loss for rows that are not all in memory.

    objective     as for :func:`hedgerow.objectives.objective_for`
    parameters    parameters of the loss by name; None for the default
    task          {"regression", "two classes"}: task of a user-defined loss
    n_classes     number of classes, if known from labels
    has_queries   whether the query of each row is known, so that rankings can be trained
    target_names  the user's names of several targets, or of two columns of times
    labelled      name of the estimator that accepts labels other than 0, 1, ..., for messages
    """

    objective: Any = "squared_error"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    task: Task = "regression"
    n_classes: int | None = None
    has_queries: bool = False
    n_targets: int = 1
    target_names: tuple[str, ...] | None = None
    labelled: str = "HedgerowClassifier"

    def __post_init__(self) -> None:
        if isinstance(self.objective, str):
            named = self._named(2 if self.n_classes is None else self.n_classes)
            ranks = named.name in RANKING
            if ranks and not self.has_queries:
                raise without_queries(named, "qid")
            if self.has_queries and not ranks:
                raise queries_without_effect(named)

    def for_targets(self, rows: Any) -> LossSpec:
        """Return the loss of all targets of these rows, of files or of a cluster."""
        return replace(self, n_targets=rows.n_targets, target_names=rows.target_names)

    @property
    def has_several(self) -> bool:
        """Whether outputs learn targets of their own, which times in two columns are not."""
        is_survival = isinstance(self.objective, str) and self.objective in SURVIVAL
        return self.n_targets > 1 and not is_survival

    @property
    def counts_classes(self) -> bool:
        """Whether the number of classes follows from the largest target."""
        return (
            isinstance(self.objective, str)
            and self.objective in _CLASSES
            and self.n_classes is None
        )

    def outputs_of_tree(self, params: BoostParams) -> int:
        """Return the number of outputs of a leaf, if it is known before rows are read."""
        if self.counts_classes or not asks_for_vectors(params, self.has_several):
            return 1
        if self.has_several:
            return self.n_targets
        if isinstance(self.objective, str):
            return self._named(self.n_classes or 1).n_outputs
        return int(getattr(self.objective, "n_outputs", 1))

    def make(self, first: FloatArray, largest: float = -np.inf, n_rows: int = 0) -> Objective:
        """Return the objective."""
        if self.has_several:
            if self.counts_classes:
                raise not_for_several(str(self.objective))
            single = replace(self, n_targets=1)
            given = first if first.ndim == 2 else np.zeros((0, self.n_targets))
            return several_targets(single.make, given, self.target_names)
        if isinstance(self.objective, str):
            classes = self.n_classes
            if classes is None:
                classes = 1
                if self.counts_classes:
                    classes = count_classes(self.objective, largest, n_rows, self.labelled)
            return self._named(classes)
        return objective_for(
            self.objective, first[:TRIED], parameters=self.parameters, task=self.task
        )

    def _named(self, n_classes: int) -> Objective:
        several = self.objective in _CLASSES
        return make_objective(
            self.objective, n_classes if several else 1, parameters=self.parameters
        )


def not_for_several(name: str) -> ParameterError:
    """Return the error for several targets of a loss for classes."""
    return ParameterError(
        f"objective {name!r} has one target, but y has several columns: for labels use "
        "'logistic', or train a model for each column."
    )


def count_classes(
    name: str, largest: float, n_rows: int, labelled: str = "HedgerowClassifier"
) -> int:
    """Return the number of classes 0, 1, ..., at least 2."""
    n_classes = max(2, int(max(largest, 0.0)) + 1)
    if n_classes > n_rows:
        raise DataError(
            f"objective {name!r} needs class indices 0, 1, ...; the largest is {largest:g}, "
            f"which makes more classes than there are rows ({n_rows}): renumber the classes, "
            f"or use {labelled}, which takes any labels."
        )
    return n_classes


def needs_all_rows(objective: Objective) -> bool:
    """Return whether the loss must see all rows at once.

    True for losses that compare rows, for user-defined functions that return the derivatives of
    all rows, and for user-defined objects whose start value or loss is not a sum over rows.
    Rankings need the rows of a query only (:mod:`hedgerow.objectives.ranking.complete`).
    """
    if isinstance(objective, SeveralTargets):
        objective = objective.single
    alone = objective.kernel_id != PRECOMPUTED or isinstance(objective, OwnRowLoss)
    if alone or objective.name in RANKING:
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
