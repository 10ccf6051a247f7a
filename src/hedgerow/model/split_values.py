"""Thresholds at which a model splits a column."""

from __future__ import annotations

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.data.schema import position_of
from hedgerow.errors import ParameterError
from hedgerow.kernels.tables.keys import floats_of_keys
from hedgerow.model.booster_part import BoosterPart

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

        Examples
        --------
        >>> import numpy as np
        >>> from hedgerow import Dataset, train
        >>> X = [[float(i)] for i in range(100)]
        >>> booster = train({"n_estimators": 3}, Dataset(X, [i > 49 for i in range(100)]))
        >>> thresholds = booster.split_values("x0")
        >>> counts, edges = np.histogram(thresholds[np.isfinite(thresholds)], bins=5)
        >>> int(counts.sum()) == len(thresholds)
        True
        """
        model = self.model
        position = position_of(column, model.schema.names, "column")
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
