"""Targets of rows that a trained model scores, in the form of its training targets.

Several targets of a frame are found by name, as the columns of X are.  Times of events may be
given in every form of :mod:`hedgerow.boosting.row_data.event_times`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.boosting.row_data.event_times import read_times
from hedgerow.boosting.row_data.survival import SURVIVAL
from hedgerow.boosting.row_data.targets import Targets, read_targets, same_targets
from hedgerow.errors import DataError
from hedgerow.objectives import Objective, SeveralTargets


def targets_of_rows(objective: Objective, y: Any, n_rows: int) -> FloatArray:
    """Return the targets of rows: numbers, times of events, or several targets.

    Raise ``DataError`` or ``DataTypeError`` if the targets do not fit the model.
    """
    if objective.name in SURVIVAL:
        return read_times(y, n_rows, "y", objective.name)
    return in_order(objective, read_targets(y, n_rows))


def in_order(objective: Objective, found: Targets) -> FloatArray:
    """Return targets in the order of the model, if both have names; otherwise unchanged.

    Raise ``DataError`` if the number of targets is not that of the model, or a name is
    missing.
    """
    if objective.name in SURVIVAL:  # both ends of intervals are one target
        return found.values
    n_targets = objective.n_outputs if isinstance(objective, SeveralTargets) else 1
    n_columns = found.values.shape[1] if found.several else 1
    if n_columns != n_targets:
        raise DataError(f"y has {n_columns} column(s), but the model predicts {n_targets}.")
    if not isinstance(objective, SeveralTargets):
        return found.values
    names = objective.names if objective.named else None
    return same_targets(found, Targets(np.empty((0, n_targets)), names), "y")
