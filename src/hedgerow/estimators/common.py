"""Conventions of scikit-learn that boosted estimators and single trees share."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from hedgerow.cuda.arrays import gpu_array, is_cudf
from hedgerow.data import Schema
from hedgerow.data.reading.frames import labels_of
from hedgerow.data.reading.objects import is_named
from hedgerow.data.sparse import is_sparse
from hedgerow.errors import HedgerowWarning, ParameterError, brief
from hedgerow.params import Interval

_SEED = Interval(0, 2**63 - 1, integer=True)


def seed_of(random_state: int | np.random.RandomState | None) -> int:
    """Convert ``random_state`` to an integer seed; None is 0."""
    if random_state is None:
        return 0
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    if random_state not in _SEED:
        raise ParameterError(
            f"random_state must be {_SEED}, a numpy.random.RandomState, or None; "
            f"got {brief(random_state)}."
        )
    return int(random_state)


def warn_about_names(X: Any, schema: Schema, name: str, stacklevel: int) -> None:
    """Warn, like scikit-learn, if only one of the training table and X has column names."""
    named = _has_names(X)
    if named and not schema.named:
        text = f"X has feature names, but {name} was fitted without feature names"
    elif schema.named and not named:
        text = f"X does not have valid feature names, but {name} was fitted with feature names"
    else:
        return
    warnings.warn(text, HedgerowWarning, stacklevel=stacklevel + 1)


def _has_names(X: Any) -> bool:
    """Return whether X is a frame whose column names are text."""
    if is_sparse(X):  # the DOK format is a dict, too
        return False
    if is_named(X):
        return True
    if isinstance(X, np.ndarray | list | tuple) or gpu_array(X) is not None:
        return False
    X = X.head(1) if is_cudf(X) and hasattr(X, "head") else X
    labels = labels_of(X)
    if labels is not None and len(texts := {isinstance(label, str) for label in labels}) == 1:
        return texts == {True}
    from hedgerow.data.reading.frames import as_frame

    frame = as_frame(X)
    return frame is not None and frame.named
