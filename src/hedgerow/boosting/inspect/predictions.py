"""Base classes of boosters: predictions that only some models support, and of one row."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray
from hedgerow.boosting.row_data.offsets import offset_columns
from hedgerow.boosting.row_data.survival import SurvivalPredictions
from hedgerow.cuda.arrays import on_host
from hedgerow.data.reading.one_row import RowReader
from hedgerow.errors import DataError, DataTypeError, ParameterError
from hedgerow.model.model import Model
from hedgerow.model.predict import Predictor
from hedgerow.objectives.catalogue import DISTRIBUTIONAL
from hedgerow.once import once
from hedgerow.params import PredictionKind

if TYPE_CHECKING:
    from hedgerow.objectives.distributions.predicted import Distribution

_FLOATS = "df"
_ROWS = (dict, list, np.ndarray)
"""The common types of a row; the check for other types is slower."""


class SingleRows:
    """Fast computation of raw scores of single rows for one model."""

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
            return self._scorer.of_values(values), unseen
        except struct.error:  # text in a numeric column
            return None


class PredictionForms(SurvivalPredictions):
    """Predictions of one row, of probabilities, of distributions, and of few trees."""

    @once
    def _single(self) -> SingleRows:
        return SingleRows(self.model, self._predictor)

    def predict_one(self, row: Any, kind: PredictionKind = "value") -> Any:
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

    def predict_proba(
        self,
        X: Any,
        *,
        first_round: int = 0,
        n_rounds: int | None = None,
        n_jobs: int | None = None,
        offset: Any = None,
    ) -> FloatArray:
        """Predict the probability of each class: ``predict(X, kind="probability")``.

        The ``predict`` of LightGBM's and XGBoost's boosters gives probabilities, and
        :meth:`predict` gives classes.

        Parameters
        ----------
        X, first_round, n_rounds, n_jobs, offset
            As for :meth:`predict`.

        Returns
        -------
        float64, shape (n_rows, n_classes) or (n_rows, n_labels)
            One column for each class, in the order of ``classes``; LightGBM and XGBoost give
            only the second of two.

        Raises
        ------
        ParameterError
            If the model is not a classifier.
        DataError, DataTypeError
            If X does not have the columns of the model.

        Examples
        --------
        >>> from hedgerow import Dataset, train
        >>> booster = train({"objective": "logistic"}, Dataset([[0.0], [1.0]] * 50, [0, 1] * 50))
        >>> booster.predict([[1.0]]), booster.predict_proba([[1.0]]).argmax(axis=1)
        (array([1]), array([1]))
        """
        return self.predict(
            X, "probability", first_round=first_round, n_rounds=n_rounds, n_jobs=n_jobs,
            offset=offset,
        )  # fmt: skip

    def predict_distribution(self, X: Any, *, n_jobs: int | None = None) -> Distribution:
        """Return the predicted distribution of the target of each row.

        Parameters
        ----------
        X : array, data frame or list of rows, shape (n_rows, n_features)
        n_jobs : int, optional

        Returns
        -------
        hedgerow.objectives.distributions.predicted.Distribution
            With ``mean``, ``variance``, ``std``, ``median`` of shape (n_rows,), and
            ``quantile(p)``, ``interval(level)``, ``cdf(y)``, ``log_pdf(y)``, ``crps(y)``,
            ``sample(n, random_state)``.

        Raises
        ------
        ParameterError
            If the objective does not learn a distribution.

        Examples
        --------
        >>> from hedgerow import Dataset, train
        >>> data = Dataset([[1.0], [2.0], [3.0], [4.0]], [1.0, 2.0, 3.0, 6.0])
        >>> booster = train({"objective": "normal", "n_estimators": 1}, data)
        >>> found = booster.predict_distribution([[1.0]])
        >>> found.mean.tolist(), found.interval(0.5).round(2).tolist()
        ([3.0], [[1.74, 4.26]])
        """
        make: Callable[[FloatArray], Distribution] | None
        make = getattr(self._objective, "distribution", None)
        if make is None:
            known = ", ".join(map(repr, DISTRIBUTIONAL))
            raise ParameterError(
                f"a model of objective {self._objective.name!r} predicts no distribution: train "
                f"with one of {known}, or calibrate intervals of this one with MAPIE."
            )
        return make(self.raw_scores(X, n_jobs=n_jobs))

    def predict_interval(
        self, X: Any, level: float = 0.9, *, n_jobs: int | None = None
    ) -> FloatArray:
        """Return the central interval of the distribution of each row.

        It contains the target with probability ``level`` if the distribution is correct;
        MAPIE calibrates intervals for exchangeable rows.

        Parameters
        ----------
        X : array, data frame or list of rows, shape (n_rows, n_features)
        level : float in (0, 1), default=0.9
            Probability of the interval.
        n_jobs : int, optional

        Returns
        -------
        ndarray of float64, shape (n_rows, 2)
            Lower and upper ends.
        """
        from hedgerow.objectives.distributions.predicted import check_level

        check_level(level)
        return self.predict_distribution(X, n_jobs=n_jobs).interval(level)
