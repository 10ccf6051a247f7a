"""Linear leaves: settings that conflict with them, and the feature values they need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.data import AnyTable, SparseTable
from hedgerow.data.reading.columns import floats_of
from hedgerow.errors import ParameterError
from hedgerow.params import BoostParams

_OF_SLOPES: Mapping[str, Any] = {
    "tree_method": "hist",
    "path_smooth": 0.0,
}


def obstacle_to_slopes(params: BoostParams) -> str | None:
    """Return the first setting that linear leaves do not support, or None."""
    other = params.first_unlike(_OF_SLOPES)
    if other is not None:
        return other
    if params.leaf_estimation == "line_search":
        return "leaf_estimation='line_search'"
    return None


def check_slopes(params: BoostParams) -> None:
    """Raise ``ParameterError`` for linear leaves with a setting that they do not support."""
    obstacle = obstacle_to_slopes(params) if params.linear_leaves else None
    if obstacle is not None:
        raise ParameterError(
            f"linear_leaves=True does not go with {obstacle}: use linear_leaves=False, or change "
            "that."
        )


def numbers_for(params: BoostParams, table: AnyTable) -> FloatArray | None:
    """Return the values of all rows as floats if leaves are linear, else None.

    Fortran order: the leaves of a tree read few columns, which then stay in the cache.
    """
    if not params.linear_leaves:
        return None
    values = table.dense() if isinstance(table, SparseTable) else table.values
    return np.asfortranarray(floats_of(values, table.schema.kinds))
