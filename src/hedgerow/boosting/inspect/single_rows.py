"""Base class of boosters: fast predictions of one row at a time, for services."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Never

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray
from hedgerow.boosting.row_data.offsets import offset_columns
from hedgerow.cuda.arrays import on_host
from hedgerow.data.reading.one_row import RowReader
from hedgerow.errors import DataError, DataTypeError
from hedgerow.model.booster_part import BoosterPart
from hedgerow.model.model import Model
from hedgerow.model.predict import Predictor
from hedgerow.once import once
from hedgerow.params import PredictionKind
from hedgerow.peer_arguments import OF_PREDICT_ONE, refuse_arguments

_FLOATS = "df"
_ROWS = (dict, list, np.ndarray)
"""The common types of a row; the check for other types is slower."""


class SingleRows:
    """Fast computation of raw scores of single rows for one model.

    Parameters
    ----------
    model : Model
    predictor : Predictor
        Predictor of the model's forest.
    """

    def __init__(self, model: Model, predictor: Predictor) -> None:
        self._reader = RowReader(model.schema, model.inputs)
        plain = not offset_columns(model) and not self._reader.is_general
        self._takes_values = plain
        self._takes_floats = plain and model.inputs is None and model.schema.only_floats
        self._scorer = predictor.of_one_row
        self._shape = self._scorer.shape

    def of_table(self, X: AnyArray) -> FloatArray | None:
        """Return raw scores of a table of one row of floats; None if not applicable."""
        if self._takes_floats and X.shape == self._shape and X.dtype.char in _FLOATS:
            return self._scorer.of_floats(X)
        return None

    def of_row(self, row: Any) -> tuple[FloatArray, dict[str, int]] | None:
        """Return raw scores and unseen categories of a row; None if the fast way does not apply."""
        if not self._takes_values:
            return None
        if isinstance(row, np.ndarray):
            if self._takes_floats and row.shape == self._shape[1:] and row.dtype.char in _FLOATS:
                return self._scorer.of_floats(row), {}
            row = row.tolist()
        read = self._reader.read(row)
        if read is None:
            return None
        values, unseen = read
        try:
            raw = self._scorer.of_values(values)
        except struct.error:  # text in a numeric column
            return None
        return None if raw is None else (raw, unseen)


class SingleRowPredictions(BoosterPart):
    """Base class of boosters that predict one row."""

    @once
    def _single(self) -> SingleRows:
        return SingleRows(self.model, self._predictor)

    def predict_one(self, row: Any, kind: PredictionKind = "value", **others: Never) -> Any:
        """Predict one row: the result of ``predict([row], kind)[0]``, bit for bit, but faster.

        All rounds are used: ``predict([row], n_rounds=...)`` uses some.  Threads may share the
        booster.  Rows of plain numbers, text and None are read directly,
        without making a table; other rows (dates, frames) are predicted as a table.

        Parameters
        ----------
        row : dict, list, tuple or array of shape (n_features,)
            Values by name, or in the order of the training columns.  None and NaN are
            missing values.
        kind : {"value", "raw", "probability", "leaf"}, default="value"
            As for :meth:`predict`.

        Returns
        -------
        float, int, label, or ndarray of one axis
            NumPy scalars; an array if :meth:`predict` returns several numbers for a row.

        Raises
        ------
        ParameterError
            If ``kind`` is unknown or not possible for this model.
        DataError, DataTypeError
            If the row does not fit the model.

        Examples
        --------
        >>> from hedgerow import Dataset, train
        >>> data = Dataset({"colour": ["red", "blue"] * 50, "size": [1.0, 2.0] * 50}, [1, 0] * 50)
        >>> booster = train({"objective": "logistic"}, data)
        >>> booster.predict_one({"colour": "red", "size": 1.0})
        np.int64(1)
        >>> booster.predict_one(["blue", 2.0], kind="probability").round(2).tolist()
        [1.0, 0.0]
        """
        if others:
            refuse_arguments(SingleRowPredictions.predict_one, others, OF_PREDICT_ONE)
        self._check_kind(kind)
        row = row if type(row) in _ROWS else on_host(row)
        if type(row) not in _ROWS and not isinstance(row, Mapping | list | tuple | np.ndarray):
            raise DataTypeError(
                f"a row must be a dict, a list, a tuple or an array; got a {type(row).__name__}. "
                "Tables are for predict."
            )
        if isinstance(row, np.ndarray) and row.ndim != 1:
            raise DataError(
                f"a row must have one axis, got shape {row.shape}: several rows are for predict."
            )
        found = None if kind == "leaf" else self._single.of_row(row)
        if found is None:
            table = row[None, :] if isinstance(row, np.ndarray) else [row]
            return self.predict(table, kind)[0]
        raw, unseen = found
        if unseen:
            self._unseen.add(unseen)
        return self._prediction(raw, kind)[0]
