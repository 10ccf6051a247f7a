"""The user's rows for :func:`hedgerow.train`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hedgerow.arrays import FloatArray
from hedgerow.boosting.sample import Sample, check_offset, check_vector, check_weight
from hedgerow.boosting.survival import SURVIVAL, read_times
from hedgerow.data import AnyTable, Schema, UnknownCategory, read_any
from hedgerow.data.categories import CategoricalFeatures
from hedgerow.errors import DataError


class Dataset:
    """A table with what is known of its rows.

    Nothing is copied or checked until it is used.

    Parameters
    ----------
    X : array, data frame, sparse matrix or list of rows, shape (n_rows, n_features)
        Numbers, dates, text or categories; NaN, null and ``None`` are missing
        values, infinities are values.  One row may be a dict.
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
    categorical_features : "auto", list of names or positions, bool mask, or None, default="auto"
        Columns of categories, whose values have no order.  ``"auto"``: text and
        the categorical types of the frame library.  Numbers become categories
        if they are named.  Of a validation table that of the training table
        counts.
    unknown_category : {"missing", "backoff", "error"}, default="missing"
        What is made of a category that no training row has: a missing value, a
        category of its own, or an error.

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
        categorical_features: CategoricalFeatures = "auto",
        unknown_category: UnknownCategory = "missing",
    ) -> None:
        self.X = X
        self.y = y
        self.weight = weight
        self.offset = offset
        self.categorical_features = categorical_features
        self.unknown_category = unknown_category
        self._names = None if feature_names is None else tuple(feature_names)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns; ``x0``, ``x1``, ... where there are none."""
        return self.table().schema.names

    def table(self, schema: Schema | None = None, zero_missing: bool = False) -> AnyTable:
        """Read X, with the schema of a training table if this is not one."""
        if schema is not None:
            return read_any(self.X, schema, reader="Booster")
        return read_any(
            self.X,
            zero_missing=zero_missing,
            categorical=self.categorical_features,
            unknown=self.unknown_category,
            names=self._names,
        )

    def target(self, n_rows: int, objective: object = None) -> FloatArray:
        """Read y; times of events for an objective that learns them."""
        if self.y is None:
            raise DataError("training needs a target: give y to the Dataset.")
        if isinstance(objective, str) and objective in SURVIVAL:
            return read_times(self.y, n_rows, "y", objective)
        return check_vector(self.y, n_rows, "y")

    def sample(self, table: AnyTable, target: FloatArray, n_outputs: int) -> Sample:
        """Put table and target together with weight and offset."""
        return Sample(
            table,
            target,
            check_weight(self.weight, table.n_rows, "weight"),
            check_offset(self.offset, table.n_rows, n_outputs),
        )
