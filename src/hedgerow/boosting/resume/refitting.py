"""Base class of boosters: refitting of leaf values."""

from __future__ import annotations

from functools import partial
from typing import Any, Self

from hedgerow.boosting.row_data.classes import column_of, indices_of
from hedgerow.boosting.row_data.dataset import Dataset
from hedgerow.boosting.row_data.offsets import offset_of_rows
from hedgerow.boosting.row_data.queries import queries_without_effect
from hedgerow.boosting.row_data.targets import in_order
from hedgerow.metrics import scored_as
from hedgerow.model.booster_part import BoosterPart


class Refitting(BoosterPart):
    """Base class of boosters whose leaves may be refitted."""

    def refit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        decay: float = 0.9,
        *,
        offset: Any = None,
        qid: Any = None,
        n_jobs: int | None = None,
    ) -> Self:
        """Return a model with the same trees and leaf values moved towards those of new rows.

        Parameters
        ----------
        X : array, data frame or list of rows, shape (n_rows, n_features)
        y : array-like of shape (n_rows,)
            As for :class:`Dataset`; class labels if the booster knows ``classes``,
            else class indices.
        sample_weight : array-like of shape (n_rows,), optional
            Non-negative.
        decay : float in [0, 1], default=0.9
            Weight of the old values: ``decay * old + (1 - decay) * new``; 0 replaces them.
            Same as ``decay_rate`` of LightGBM's ``refit``.
        offset : array-like, optional
            As for :meth:`predict`.
        qid : array-like of shape (n_rows,), optional
            The query of each row, for rankings.
        n_jobs : int, optional

        Returns
        -------
        Booster
            A new booster with the same columns, cuts, gains and covers;
            leaves without new rows keep their values.  See docs/continue.md.

        Raises
        ------
        ParameterError
            For random forests, DART, monotone constraints, and user-defined losses; for ``qid``
            if the model is not for rankings.
        DataError, DataTypeError
            If X or y does not fit the model.

        Examples
        --------
        >>> from hedgerow import Dataset, train
        >>> params = {"n_estimators": 1, "min_samples_leaf": 1, "reg_lambda": 0.0}
        >>> params |= {"learning_rate": 1.0, "early_stopping": False}
        >>> booster = train(params, Dataset([[1.0], [2.0], [4.0]], [0.0, 0.0, 3.0]))
        >>> booster.refit([[1.0], [5.0]], [10.0, 20.0], decay=0.0).predict([[1.0], [5.0]])
        array([10., 20.])
        """
        from hedgerow.boosting.loop.setup.job import called_in_fit
        from hedgerow.boosting.resume.refit import refit

        if self._classes is not None:
            y = indices_of(column_of(y, "y"), self._classes, "y", "the model")
        given = Dataset(X, y, sample_weight, self.offset_columns or offset, qid=qid)
        if self.offset_columns and offset is not None:
            offset_of_rows(self.model, X, offset)  # raises an error that explains why
        table = given.table(self._schema)
        target = in_order(self._objective, given.targets(table.n_rows, self.model.objective))
        called, n_outputs = partial(called_in_fit, rows=None), self._objective.n_outputs
        sample = given.sample(table, target, n_outputs, called)
        if sample.query is not None and scored_as(self._objective) != "ranking":
            raise queries_without_effect(self._objective)
        threads = self._threads(table.n_rows, n_jobs)
        return type(self)(refit(self.model, self._objective, sample, decay, threads), self._classes)
