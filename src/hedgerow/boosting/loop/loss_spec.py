"""Specification of a loss before the data that complete it are known.

The number of classes is the largest target plus one, and a user-defined loss is tried on
the first targets.  In memory both are available at once; for files and on clusters
they are known after a pass over all targets.

Losses that can be trained on rows in chunks have derivatives that depend on one row
alone (:attr:`hedgerow.objectives.precomputed.PrecomputedLoss.rowwise`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.errors import AllRowsNeededError, DataError, ParameterError
from hedgerow.objectives import (
    OBJECTIVES,
    RANKING,
    Objective,
    RowLoss,
    make_objective,
    objective_for,
)
from hedgerow.objectives.custom.class_losses import OwnClassGradient
from hedgerow.objectives.custom.losses import TRIED, OwnGradient, OwnObject, OwnRowLoss, Task
from hedgerow.objectives.derivatives import PRECOMPUTED

_CLASSES = ("softmax", "one_vs_all")
_STRATIFIED = ("logistic", "exponential", "softmax")


@dataclass(frozen=True, slots=True, eq=False)
class LossSpec:
    """A loss for rows that are not all in memory.

    Attributes
    ----------
    given : str, callable or object
        As for :func:`hedgerow.objectives.objective_for`.
    parameters : mapping
        Parameters of the loss by name; None for the default.
    task : {"regression", "two classes"}
        Task of a user-defined loss.
    n_classes : int or None
        Number of classes, if known from labels.
    has_queries : bool
        Whether the query of each row is known, so that rankings can be trained.

    Raises
    ------
    ParameterError
        For an unknown name, a value out of range, or a loss that needs all rows
        in memory.
    """

    given: Any = "squared_error"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    task: Task = "regression"
    n_classes: int | None = None
    has_queries: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.given, str):
            named = self._named(2 if self.n_classes is None else self.n_classes)
            check_rows_alone(named, self.has_queries)

    @property
    def counts_classes(self) -> bool:
        """Whether the number of classes follows from the largest target."""
        return isinstance(self.given, str) and self.given in _CLASSES and self.n_classes is None

    @property
    def stratifies(self) -> bool:
        """Whether held-out rows are stratified by class, as :func:`hedgerow.metrics.task_of`."""
        if not isinstance(self.given, str):
            return getattr(self.given, "task", self.task) != "regression"
        task = getattr(OBJECTIVES[self.given], "task", "regression")
        return self.given in _STRATIFIED or task != "regression"

    def make(
        self,
        first: FloatArray,
        largest: float = -np.inf,
        n_rows: int = 0,
        labelled: str = "HedgerowClassifier",
    ) -> Objective:
        """Return the objective.

        Parameters
        ----------
        first : float64
            Targets of the first ``TRIED`` rows of positive weight, or of all if there are fewer.
        largest : float
            Largest target.
        n_rows : int
        labelled : str
            Name of the estimator that accepts labels other than 0, 1, ..., for messages.

        Raises
        ------
        DataError
            If there are more classes than rows.
        ParameterError
            For a user-defined loss that needs all rows in memory.
        """
        if isinstance(self.given, str):
            classes = self.n_classes
            if classes is None:
                classes = 1
                if self.counts_classes:
                    classes = count_classes(self.given, largest, n_rows, labelled)
            return self._named(classes)
        objective = objective_for(
            self.given, first[:TRIED], parameters=self.parameters, task=self.task
        )
        check_rows_alone(objective)
        return objective

    def _named(self, n_classes: int) -> Objective:
        several = self.given in _CLASSES
        return make_objective(self.given, n_classes if several else 1, parameters=self.parameters)


def count_classes(
    name: str, largest: float, n_rows: int, labelled: str = "HedgerowClassifier"
) -> int:
    """Return the number of classes 0, 1, ..., at least 2.

    Raises
    ------
    DataError
        If there are more classes than rows.
    """
    n_classes = max(2, int(max(largest, 0.0)) + 1)
    if n_classes > n_rows:
        raise DataError(
            f"objective {name!r} needs class indices 0, 1, ...; the largest is {largest:g}, "
            f"which makes more classes than there are rows ({n_rows}): renumber the classes, "
            f"or use {labelled}, which takes any labels."
        )
    return n_classes


def check_rows_alone(objective: Objective, has_queries: bool = False) -> None:
    """Raise ``ParameterError`` for a loss that cannot be trained on rows in chunks.

    ``has_queries``: whether the query of each row is known.
    """
    if has_queries:
        if objective.name not in RANKING:
            raise ParameterError(
                f"qid has no effect with objective {objective.name!r}: use 'lambdarank' or another "
                "objective of rankings, or leave it out."
            )
        return
    if objective.kernel_id != PRECOMPUTED or isinstance(objective, OwnRowLoss):
        return
    shown = getattr(objective, "label", objective.name)
    if isinstance(objective, OwnGradient | OwnClassGradient):
        raise AllRowsNeededError(
            f"objective {shown!r} returns gradient and hessian of all rows at once, but rows in "
            "files, in batches and on clusters are never all in memory: write it as a function "
            "that returns the loss of one row, or train on a table in memory."
        )
    if not getattr(objective, "rowwise", False):
        why, known = "computes the derivatives of a row from other rows, too", ""
        if objective.name == "cox":
            why = "compares each row with all rows of later times"
            known = ", for event times with 'aft'"
        elif objective.name in RANKING:
            why = "compares the rows of a query"
            known = ", and on clusters for rankings if qid is given"
        raise AllRowsNeededError(
            f"objective {shown!r} {why}: it needs all rows in memory. Rows in files, batches and "
            f"on clusters support losses of single rows{known}."
        )
    if isinstance(objective, OwnObject):
        _check_object(objective, shown)


def _check_object(objective: OwnObject, shown: str) -> None:
    """Raise an error unless a user-defined object gives the same bytes as in memory."""
    if objective.coupled:
        raise AllRowsNeededError(
            f"objective {shown!r} is coupled: derivatives of an output depend on scores before "
            "the trees of other outputs, which are not stored for rows in chunks. Train on a "
            "table in memory."
        )
    kind = type(objective.inner)
    if not issubclass(kind, RowLoss) or kind.loss is not RowLoss.loss:
        raise AllRowsNeededError(
            f"objective {shown!r}: for rows in files, in batches and on clusters its loss must be "
            "the exact mean of losses(target, raw): derive it from hedgerow.objectives.RowLoss, "
            "and do not override the method loss."
        )
    starts = kind.initial_score is not RowLoss.initial_score
    if starts and kind.start_of is RowLoss.start_of:
        raise AllRowsNeededError(
            f"objective {shown!r} has an initial_score method, which needs all targets in "
            "memory: write start_of(rows) instead (hedgerow.objectives.global_sums.AllRows)."
        )


__all__ = ["LossSpec", "check_rows_alone", "count_classes"]
