"""Kinds of targets of objectives, and kinds of predictions for metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hedgerow.metrics.base import Task
    from hedgerow.objectives.base import Objective


def task_of(objective: Objective) -> Task:
    """Return the kind of target of an objective."""
    known: Task | None = getattr(objective, "task", None)
    if known is not None:
        return known
    if objective.name in ("logistic", "exponential"):
        return "two classes"
    if objective.name == "softmax" and objective.n_outputs == 2:
        return "two classes"
    return "classes" if objective.name == "softmax" else "regression"


def scored_as(objective: Objective) -> Task:
    """Return the kind of predictions for metrics; few metrics take several numbers per row."""
    known: Task = getattr(objective, "scored_as", task_of(objective))
    return known
