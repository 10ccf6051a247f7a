"""The user's rows for :func:`hedgerow.train`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hedgerow.arrays import FloatArray
from hedgerow.boosting.sample import Sample, check_offset, check_vector, check_weight
from hedgerow.data import AnyTable, Column, Schema, read_any
from hedgerow.errors import DataError


class Dataset:
    """A table with what is known of its rows.

    Nothing is copied or checked until it is used.

    Parameters
    ----------
    X : array, data frame, sparse matrix or list of rows, shape (n_rows, n_features)
        Numbers; NaN, null and ``None`` are missing values, infinities are values.
    y : array-like of shape (n_rows,), optional
        Target: numbers for regression, class indices 0, 1, ... for
        classification.  Needed for training.
    weight : array-like of shape (n_rows,), optional
        Not negative; a row of weight 0 counts as absent.
    offset : array-like of shape (n_rows,) or (n_rows, n_outputs), optional
        Raw score known beforehand: trees learn what it lacks.  It is no part
        of the model, so add it to raw predictions of new rows yourself.
    feature_names : sequence of str, optional
        For tables that have none.

    Examples
    --------
    >>> import numpy as np
    >>> from hedgerow import Dataset
    >>> X = np.arange(6.0).reshape(3, 2)
    >>> Dataset(X, y=[0.0, 1.0, 2.0], feature_names=["height", "width"]).feature_names
    ('height', 'width')
    """

    def __init__(
        self,
        X: Any,
        y: Any = None,
        weight: Any = None,
        offset: Any = None,
        *,
        feature_names: Sequence[str] | None = None,
    ) -> None:
        self.X = X
        self.y = y
        self.weight = weight
        self.offset = offset
        self._names = None if feature_names is None else tuple(feature_names)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns; ``x0``, ``x1``, ... where there are none."""
        return self.table().schema.names

    def table(self, schema: Schema | None = None, zero_missing: bool = False) -> AnyTable:
        """Read X, with the schema of a training table if this is not one."""
        table = read_any(self.X, schema, reader="Booster", zero_missing=zero_missing)
        if self._names is None or schema is not None:
            return table
        names, columns = self._names, table.schema.columns
        if len(names) != len(columns):
            raise DataError(f"feature_names has {len(names)} names for {len(columns)} columns.")
        if len(set(names)) < len(names) or not all(isinstance(name, str) for name in names):
            raise DataError("feature_names must be strings that differ from each other.")
        renamed = (Column(name, c.kind) for name, c in zip(names, columns, strict=True))
        return replace(table, schema=replace(table.schema, columns=tuple(renamed), named=True))

    def target(self, n_rows: int) -> FloatArray:
        """Read y."""
        if self.y is None:
            raise DataError("training needs a target: give y to the Dataset.")
        return check_vector(self.y, n_rows, "y")

    def sample(self, table: AnyTable, target: FloatArray, n_outputs: int) -> Sample:
        """Put table and target together with weight and offset."""
        return Sample(
            table,
            target,
            check_weight(self.weight, table.n_rows, "weight"),
            check_offset(self.offset, table.n_rows, n_outputs),
        )
