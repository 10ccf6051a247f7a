"""Columns of the sampled rows, placed side by side as they arrive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hedgerow.arrays import AnyArray
from hedgerow.data.reading.columns import stack
from hedgerow.data.schema import ColumnKind


class Stacked:
    """Columns placed side by side as they arrive, so that no column is in memory twice.

    The result equals :func:`hedgerow.data.reading.columns.stack`, which is used if types differ.
    """

    def __init__(self, n_columns: int) -> None:
        self._n_columns = n_columns
        self._values: AnyArray | None = None
        self._apart: list[AnyArray] = []
        self._n_done = 0

    def add(self, column: AnyArray, kind: ColumnKind) -> None:
        if self._values is None and not self._apart and kind != "int":
            shape = (len(column), self._n_columns)
            self._values = np.empty(shape, column.dtype, order="F")
        values = self._values
        if values is not None and (kind == "int" or column.dtype != values.dtype):
            self._apart = [values[:, j] for j in range(self._n_done)]
            values = self._values = None
        if values is None:
            self._apart.append(column)
        else:
            values[:, self._n_done] = column
        self._n_done += 1

    def finish(self, kinds: Sequence[ColumnKind]) -> AnyArray:
        return stack(self._apart, kinds) if self._values is None else self._values


def stack_one(parts: Sequence[AnyArray], kind: Any) -> AnyArray:
    """Concatenate plain parts of one column in the type in which its values compare."""
    if len({part.dtype for part in parts}) == 1:
        return np.concatenate(parts)
    return np.concatenate([stack([part], [kind])[:, 0] for part in parts])
