"""The regressor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Self

from sklearn.base import RegressorMixin
from sklearn.utils.validation import column_or_1d

from hedgerow.arrays import FloatArray
from hedgerow.boosting.sample import Sample, check_vector, check_weight
from hedgerow.data import Table, read_table
from hedgerow.errors import DataError
from hedgerow.estimators.base import HedgerowEstimator
from hedgerow.objectives import make_objective


class HedgerowRegressor(RegressorMixin, HedgerowEstimator):
    """Gradient-boosted decision trees for regression.

    Parameters
    ----------
    n_estimators : int, default=100
        Boosting rounds: trees, or with more than two classes groups of one
        tree for each class.
    learning_rate : float > 0, default=0.1
        Factor on the values of every tree.
    max_leaves : int from 2 to 65535, or None, default=31
        Most leaves of a tree; None for no limit.
    max_depth : int from 1 to 62, or None, default=None
        Most splits between root and leaf; None for no limit.  One of
        ``max_leaves`` and ``max_depth`` must be set.
    min_samples_leaf : int >= 1, default=20
        Fewest training rows in a leaf, whatever their weights.
    min_child_weight : float >= 0, default=1e-3
        Smallest sum of hessians in a leaf.
    reg_lambda : float >= 0, default=1.0
        Penalty on the squares of leaf values.
    reg_alpha : float >= 0, default=0.0
        Penalty on the absolute leaf values.
    gamma : float >= 0, default=0.0
        Loss reduction that a split must exceed.
    max_delta_step : float >= 0, default=0.0
        Largest absolute leaf value before the learning rate; 0 for no limit.
    subsample : float in (0, 1], default=1.0
        Share of the rows that each round is grown on.
    colsample_bytree, colsample_bylevel, colsample_bynode : float in (0, 1], default=1.0
        Share of the features that a tree, a level of it, a node may use; each
        is taken of what the one before has left.
    max_bins : int from 2 to 255, default=255
        Most bins of a feature's values; missing values have one more.
    grow_policy : {"leafwise", "depthwise"}, default="leafwise"
        Split the leaf with the largest gain first, or the leaf nearest to the
        root.
    objective : {"auto", "squared_error"}, default="auto"
        The loss.  ``"auto"`` is ``"squared_error"``.
    eval_metric : str, callable, sequence of these, or None, default=None
        ``"loss"``, ``"rmse"``, ``"mae"``, ``"r2"``.  None is ``"loss"``.
        A callable takes ``(y_true, prediction, weight)`` and returns a number;
        lower is better unless it has a true attribute ``higher_is_better``.
        The first metric decides early stopping.
    early_stopping : bool or "auto", default="auto"
        End the fit when the score on validation rows has not improved for
        ``patience`` rounds, and keep the trees up to the best round.
        ``"auto"``: if ``X_val`` is given or there are more than 10,000 rows.
    validation_fraction : float in (0, 1), default=0.1
        Share of the rows that early stopping sets aside where ``X_val`` is not
        given.
    patience : int >= 1, default=10
        Rounds in a row without improvement after which the fit ends.
    min_delta : float >= 0, default=0.0
        An improvement is a change of the score by more than this.
    n_jobs : int or None, default=None
        Threads of fit and predict: None for all available processors (or
        ``OMP_NUM_THREADS``), -1 for all.  The model is the same for any number.
    random_state : int, RandomState or None, default=None
        Seed of row and column sampling, of rounding and of the validation
        rows.  None is 0: the same data and parameters give the same model.
    callbacks : callable or sequence of callables, default=None
        Each is called after every round with a
        :class:`hedgerow.boosting.callbacks.Round` and ends the fit by
        returning True.
    progress : bool, default=False
        Draw a progress bar if standard error is a terminal.

    Attributes
    ----------
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str, shape (n_features_in_,)
        Names of the columns; only if X was a frame with names.
    n_iter_ : int
        Rounds in the model.
    best_iteration_ : int or None
        Round with the best validation score, equal to ``n_iter_``; None
        without early stopping.
    evals_result_ : dict
        ``evals_result_["validation"]["loss"][i]``: score after round i + 1.
        The key is ``"train"`` without validation rows; empty if there were
        neither validation rows nor an ``eval_metric``.
    feature_importances_ : ndarray of shape (n_features_in_,)
        Shares in the loss reduction of all splits.
    booster_ : hedgerow.Booster
        The model itself.

    Examples
    --------
    >>> import numpy as np
    >>> from hedgerow import HedgerowRegressor
    >>> X = np.arange(200.0).reshape(-1, 1)
    >>> model = HedgerowRegressor().fit(X, np.sin(X[:, 0] / 20.0))
    >>> model.score(X, np.sin(X[:, 0] / 20.0)) > 0.9
    True
    """

    _objectives: ClassVar[tuple[str, ...]] = ("squared_error",)

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        X_val: Any = None,
        y_val: Any = None,
        sample_weight_val: Any = None,
    ) -> Self:
        """Train on X and y.

        A fit that fails or is interrupted leaves the estimator as it was.

        Parameters
        ----------
        X : array, data frame or list of rows, shape (n_rows, n_features)
            Numbers; NaN, null and ``None`` are missing values, infinities are
            values.  Frames of pandas, polars, pyarrow and others are read by
            column.
        y : array-like of shape (n_rows,)
            Finite numbers.
        sample_weight : array-like of shape (n_rows,), optional
            Not negative; a row of weight 0 counts as absent.
        X_val, y_val : like X and y, optional
            Rows for learning curves and early stopping.
        sample_weight_val : array-like, optional
            Weights of the validation rows.

        Returns
        -------
        self

        Raises
        ------
        DataError, ParameterError
            (``ValueError``) if data or a parameter cannot be used; the message
            names the column, row or parameter.
        DataTypeError
            (``TypeError``) for text, sparse matrices, objects.
        """
        params, stopping = self._params(), self._stopping()
        self._check_objective()
        table = read_table(X, reader=type(self).__name__)
        train = self._sample(table, y, sample_weight, "y", "sample_weight")
        self._check_validation(X_val, y_val, sample_weight_val)
        validation = None
        if X_val is not None:
            seen = read_table(X_val, table.schema, reader=type(self).__name__)
            validation = self._sample(seen, y_val, sample_weight_val, "y_val", "sample_weight_val")
        name = "squared_error" if self.objective == "auto" else self.objective
        model = self._train(train, validation, make_objective(name), params, stopping)
        return self._adopt(model)

    def _sample(self, table: Table, y: Any, weight: Any, y_name: str, weight_name: str) -> Sample:
        if y is None:
            raise DataError(
                f"This {type(self).__name__} estimator requires {y_name} to be passed, but the "
                f"target {y_name} is None."
            )
        target = check_vector(column_or_1d(y, warn=True), table.n_rows, y_name)
        return Sample(table, target, check_weight(weight, table.n_rows, weight_name))

    def predict(self, X: Any) -> FloatArray:
        """Predict the target of each row.

        Parameters
        ----------
        X : array, data frame or list of rows, shape (n_rows, n_features)

        Returns
        -------
        ndarray of float64, shape (n_rows,)
        """
        booster = self._fitted_booster(X)
        raw = booster.raw_scores(X, n_jobs=self.n_jobs, reader=type(self).__name__)
        return booster.link(raw)

    def staged_predict(self, X: Any) -> Iterator[FloatArray]:
        """Yield :meth:`predict` of the model as it was after each round."""
        return (self.booster_.link(raw) for raw in self._staged_raw(X))
