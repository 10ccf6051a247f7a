"""Convert the values of a table, which may be keys, to floats."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hedgerow.arrays import MISSING_KEY, AnyArray, FloatArray
from hedgerow.data.schema import ColumnKind
from hedgerow.kernels.tables.keys import floats_of_keys


def floats_of(values: AnyArray, kinds: Sequence[ColumnKind]) -> FloatArray:
    """Convert values of a :class:`hedgerow.data.Table` to float64, with NaN for missing."""
    if values.dtype != np.int64:
        floats = np.ascontiguousarray(values, dtype=np.float64)
        return floats if floats.flags.writeable else floats.copy()
    floats = np.empty(values.shape)
    for column, kind in enumerate(kinds):
        floats[:, column] = floats_of_column(values[:, column], kind)
    return floats


def floats_of_column(column: AnyArray, kind: ColumnKind) -> FloatArray:
    """Convert a column as :func:`floats_of` does; float32 and float64 values stay as they are."""
    if column.dtype != np.int64:
        return column
    if kind == "int":
        return np.where(column == MISSING_KEY, np.nan, column.astype(np.float64))
    return floats_of_keys(column)
