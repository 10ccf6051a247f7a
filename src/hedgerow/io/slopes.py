"""Linear leaves in model files: convert them to arrays, and read and check them.

=================  =========  =====================================================
array              elements
=================  =========  =====================================================
``slope_start``    lines + 1  first term of each line, then the number of terms
``slope_column``   terms      column of the term
``slope``          terms      factor of the term
``slope_center``   terms      number subtracted from the value of the column
``slope_low``      lines      lower bound of the sum of terms; minus infinity for a leaf without
                              bounds, which adds its center instead if a value is NaN
``slope_high``     lines      upper bound of the sum of terms
=================  =========  =====================================================

A node has one line, or one for each output if leaves hold vectors.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hedgerow.arrays import AnyArray
from hedgerow.data.schema import Schema
from hedgerow.errors import ModelFormatError
from hedgerow.kernels.prediction.slopes import TERMS, Slopes
from hedgerow.model.forest import Forest

_I64, _F64, _I32 = (np.dtype(t) for t in (np.int64, np.float64, np.int32))
_NAMES = ("slope_start", "slope_column", "slope", "slope_center", "slope_low", "slope_high")
"""Names of the arrays in the order of the fields of :class:`Slopes`."""

SLOPE_DTYPES: dict[str, np.dtype[np.generic]] = dict(
    zip(_NAMES, (_I64, _I32, _F64, _F64, _F64, _F64), strict=True)
)


def slope_arrays(slopes: Slopes | None) -> dict[str, AnyArray]:
    """Return the arrays by name; empty for None."""
    return {} if slopes is None else dict(zip(_NAMES, slopes, strict=True))


def read_slopes(arrays: Mapping[str, AnyArray]) -> Slopes | None:
    """Build slopes from the arrays without checking them."""
    return Slopes(*(arrays[name] for name in _NAMES)) if "slope" in arrays else None


def check_slopes(forest: Forest) -> None:
    """Raise ``ModelFormatError`` unless predictions can use the slopes of the forest."""
    slopes, n_lines = forest.slopes, forest.lines_of_node * len(forest.feature)
    if slopes is None:
        return
    n_terms, arrays = len(slopes.slope), slope_arrays(slopes)
    lengths = (n_lines + 1, n_terms, n_terms, n_terms, n_lines, n_lines)
    for name, length in zip(_NAMES, lengths, strict=True):
        if arrays[name].dtype != SLOPE_DTYPES[name] or arrays[name].shape != (length,):
            raise ModelFormatError(f"{name} must hold {length} numbers of {SLOPE_DTYPES[name]}.")
    start = slopes.start
    if start[0] != 0 or start[-1] != n_terms or not (start[1:] >= start[:-1]).all():
        raise ModelFormatError("slope_start must rise from 0 to the number of terms.")
    unbounded = np.isneginf(slopes.low)
    if (start[1:] - start[:-1] > np.where(unbounded, forest.n_features, TERMS)).any():
        raise ModelFormatError(f"slope_start gives a leaf more than {TERMS} terms.")
    inner = np.repeat(forest.feature >= 0, forest.lines_of_node)
    if ((start[1:] > start[:-1]) & inner).any():
        raise ModelFormatError("slope_start gives terms to a node that is not a leaf.")
    if not ((slopes.column >= 0) & (slopes.column < forest.n_features)).all():
        raise ModelFormatError("slope_column must be positions of columns.")
    for name in ("slope", "slope_center"):
        if not np.isfinite(arrays[name]).all():
            raise ModelFormatError(f"{name} must be finite.")
    bounded = np.isfinite(slopes.low) & np.isfinite(slopes.high)
    if not (bounded | (unbounded & np.isposinf(slopes.high))).all():
        raise ModelFormatError("slope_low and slope_high must be finite, or both infinite.")
    if not (slopes.low <= slopes.high).all():
        raise ModelFormatError("slope_low must not be above slope_high.")
    if forest.vectors is not None and unbounded.any():
        raise ModelFormatError("slope_low and slope_high must be finite where leaves hold vectors.")


def check_slope_columns(forest: Forest, schema: Schema) -> None:
    """Raise ``ModelFormatError`` if a term multiplies a category."""
    if forest.slopes is None:
        return
    is_set = np.array([kind == "category" for kind in schema.kinds], dtype=np.bool_)
    if is_set[forest.slopes.column].any():
        raise ModelFormatError("slope_column names a column of categories.")
