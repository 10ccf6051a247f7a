"""Thresholds at which a model splits a column."""

from __future__ import annotations

from typing import Any

import numpy as np

from hedgerow.arrays import FloatArray, IntArray, distinct
from hedgerow.errors import ParameterError, brief, did_you_mean
from hedgerow.kernels.tables.keys import floats_of_keys
from hedgerow.model.booster_part import BoosterPart
from hedgerow.model.model import Model

HIGHEST_KEY = int(np.iinfo(np.int64).max)
"""Threshold of a split of whole numbers that separates the missing values from all others."""


class SplitValues(BoosterPart):
    """Mixin of the booster for the thresholds of its splits."""

    def split_values(self, column: str | int) -> FloatArray:
        """Return the threshold of each split of a column, in the order of the trees.

        Parameters
        ----------
        column : str or int
            Name or position of a column of numbers.

        Returns
        -------
        float64, shape (n_splits,)
            Rows up to a threshold go left; it is infinite where a split separates the missing
            values from all others.  Dates and times are in microseconds.

        Raises
        ------
        ParameterError
            If there is no such column, or it holds categories, which are split by sets.
        """
        model = self.model
        position = _position_of(column, model)
        if model.schema.kinds[position] == "category":
            raise ParameterError(
                f"column {model.schema.names[position]!r} holds categories, whose splits are sets "
                "without a threshold: see to_frame()."
            )
        inputs = [position]
        if model.inputs is not None:
            sources = model.inputs.sources
            inputs = [j for j, columns in enumerate(sources) if tuple(columns) == (position,)]
        forest = model.forest
        keys = forest.threshold[np.isin(forest.feature, inputs) & (forest.feature >= 0)]
        if model.schema.kinds[position] == "int":
            return np.where(keys == HIGHEST_KEY, np.inf, keys.astype(np.float64))
        return floats_of_keys(np.ascontiguousarray(keys))

    def split_value_histogram(
        self, column: str | int, bins: int | str | None = None
    ) -> tuple[IntArray, FloatArray]:
        """Return a histogram of the finite thresholds of a column.

        Parameters
        ----------
        column : str or int
            Name or position of a column of numbers.
        bins : int, str, or None, default=None
            As for :func:`numpy.histogram`; None means the number of distinct thresholds.

        Returns
        -------
        counts : int64, shape (n_bins,)
        edges : float64, shape (n_bins + 1,)

        Raises
        ------
        ParameterError
            As for :meth:`split_values`, and for invalid ``bins``.

        Examples
        --------
        >>> from hedgerow import Dataset, train
        >>> X = [[float(i)] for i in range(100)]
        >>> booster = train({"n_estimators": 3}, Dataset(X, [i > 49 for i in range(100)]))
        >>> counts, edges = booster.split_value_histogram("x0", bins=5)
        >>> int(counts.sum()) == len(booster.split_values("x0"))
        True
        """
        values = self.split_values(column)
        values = values[np.isfinite(values)]
        n_bins: Any = max(len(distinct(values)), 1) if bins is None else bins
        try:
            counts, edges = np.histogram(values, bins=n_bins)
        except (ValueError, TypeError) as error:
            raise ParameterError(
                f"bins={brief(bins)}: {error}; give a number, a rule of numpy.histogram or None."
            ) from None
        return counts.astype(np.int64), edges


def _position_of(column: str | int, model: Model) -> int:
    names = model.schema.names
    if isinstance(column, str) and column in names:
        return names.index(column)
    if isinstance(column, int | np.integer) and not isinstance(column, bool):
        if 0 <= column < len(names):
            return int(column)
        raise ParameterError(f"column must be from 0 to {len(names) - 1}; got {brief(column)}.")
    raise ParameterError(
        f"the model has no column {brief(column)}; its columns are {', '.join(names[:20])}."
        f"{did_you_mean(column, names)}"
    )
