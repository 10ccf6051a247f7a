"""Objectives by name; :mod:`hedgerow.objectives.base` defines the interface."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hedgerow.once import imported_once

if TYPE_CHECKING:
    from hedgerow.objectives.base import Objective, RowLoss
    from hedgerow.objectives.catalogue import CUSTOM, OBJECTIVES, RANKING, SURVIVAL, Task
    from hedgerow.objectives.named import (
        PARAMETERS,
        loss_record,
        make_objective,
        objective_for,
        objective_of_record,
        parameters_of,
    )
    from hedgerow.objectives.targets import SeveralTargets

__all__ = [
    "CUSTOM",
    "OBJECTIVES",
    "PARAMETERS",
    "RANKING",
    "SURVIVAL",
    "Objective",
    "RowLoss",
    "SeveralTargets",
    "Task",
    "loss_record",
    "make_objective",
    "objective_for",
    "objective_of_record",
    "parameters_of",
]

# Whoever imports an estimator to look at it computes no loss.
__getattr__ = imported_once(
    __name__,
    {
        "base": ("Objective", "RowLoss"),
        "catalogue": ("CUSTOM", "OBJECTIVES", "RANKING", "SURVIVAL", "Task"),
        "named": (
            "PARAMETERS",
            "loss_record",
            "make_objective",
            "objective_for",
            "objective_of_record",
            "parameters_of",
        ),
        "targets": ("SeveralTargets",),
    },
)
