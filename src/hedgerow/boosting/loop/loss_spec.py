"""A loss as a user asks for it, before the rows are known that say what it is.

The number of classes is one more than the largest target, and a loss that the user
wrote is tried with the first targets.  In memory both are at hand at once; in files and
on clusters they are known after a look at all targets.

Which losses can be trained on rows in chunks: those whose derivatives depend on one row
alone (:attr:`hedgerow.objectives.precomputed.PrecomputedLoss.rowwise`), wherever the others are.
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
        Of the loss, by name; None for the default.
    task : {"regression", "two classes"}
        Of a loss that the user wrote.
    n_classes : int or None
        Where they are known from labels.
    has_queries : bool
        Whether the query of each row is given, so that rankings can be trained.

    Raises
    ------
    ParameterError
        At once, for an unknown name, a value out of range, or a loss that needs all rows
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
        """Whether the largest target has a part in it."""
        return isinstance(self.given, str) and self.given in _CLASSES and self.n_classes is None

    @property
    def stratifies(self) -> bool:
        """Whether rows are set aside by class; as :func:`hedgerow.metrics.task_of` says."""
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
        """The objective.

        Parameters
        ----------
        first : float64
            Targets of the first ``TRIED`` rows that count, or of all if they are fewer.
        largest : float
            Largest target.
        n_rows : int
        labelled : str
            What to use for other labels than 0, 1, ...

        Raises
        ------
        DataError
            If there are more classes than rows.
        ParameterError
            For a loss of the user's that needs all rows in memory.
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
    """How many classes 0, 1, ... there are, at least 2.

    Raises
    ------
    DataError
        If they are more than rows.
    """
    n_classes = max(2, int(max(largest, 0.0)) + 1)
    if n_classes > n_rows:
        raise DataError(
            f"objective {name!r} needs class indices 0, 1, ...; the largest is {largest:g}, "
            f"which makes more classes than there are rows ({n_rows}): number the classes "
            f"anew, or use {labelled}, which takes any labels."
        )
    return n_classes


def check_rows_alone(objective: Objective, has_queries: bool = False) -> None:
    """Raise ``ParameterError`` for a loss that rows in chunks cannot be trained with.

    ``has_queries``: the query of each row is known.
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
            f"objective {shown!r} returns gradient and hessian of all rows at once, which files, "
            "batches and clusters do not have in one place: write it as the loss of one row, a "
            "number, or train on a table in memory."
        )
    if not getattr(objective, "rowwise", False):
        why, known = "computes the derivatives of a row from other rows, too", ""
        if objective.name == "cox":
            why = "compares each row with all rows of later times"
            known = ", of times of events with 'aft'"
        elif objective.name in RANKING:
            why = "compares the rows of a query"
            known = ", on clusters also with rankings if qid is given"
        raise AllRowsNeededError(
            f"objective {shown!r} {why}: it needs all rows in memory. Rows in files, batches and "
            f"on clusters can be trained with losses of single rows{known}."
        )
    if isinstance(objective, OwnObject):
        _check_object(objective, shown)


def _check_object(objective: OwnObject, shown: str) -> None:
    """What an object of the user's must be for the same bytes as in memory."""
    if objective.coupled:
        raise AllRowsNeededError(
            f"objective {shown!r} is coupled: derivatives of an output depend on scores before "
            "the trees of others, which rows in chunks do not keep. Train on a table in memory."
        )
    kind = type(objective.inner)
    if not issubclass(kind, RowLoss) or kind.loss is not RowLoss.loss:
        raise AllRowsNeededError(
            f"objective {shown!r}: with rows in files, batches and on clusters its loss must be "
            "the exact mean of losses(target, raw): derive it from hedgerow.objectives.RowLoss "
            "and leave the method loss as it is."
        )
    starts = kind.initial_score is not RowLoss.initial_score
    if starts and kind.start_of is RowLoss.start_of:
        raise AllRowsNeededError(
            f"objective {shown!r} has an initial_score of its own, which needs all targets in "
            "memory: write start_of(rows) in its place (hedgerow.objectives.global_sums.AllRows)."
        )


__all__ = ["LossSpec", "check_rows_alone", "count_classes"]
