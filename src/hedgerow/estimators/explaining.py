"""Shapley values of fitted estimators."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hedgerow.booster import Booster
    from hedgerow.explain.explanation import Explanation
    from hedgerow.explain.views import Outputs


class Explanations(ABC):
    """Mixin of the estimators for Shapley values."""

    n_jobs: int | None

    @abstractmethod
    def _fitted_booster(self, X: Any) -> Booster:
        """Return the booster, after those checks of scikit-learn that the booster lacks."""

    def explain(
        self,
        X: Any,
        *,
        background: Any = None,
        interactions: bool = False,
        outputs: Outputs = None,
        offset: Any = None,
        memory_limit: int | float | str | None = None,
    ) -> Explanation:
        """Compute Shapley values: the contribution of each column to each raw score.

        The raw scores of a single tree (CART) are its predictions, the probability of the second
        of two classes, or the probability of each class; training rows count with their weights.

        Parameters
        ----------
        X : array, data frame, sparse matrix or list of rows, shape (n_rows, n_features)
        background : same as X, optional
            Rows that supply the values of columns left out of a coalition.  By default the
            splits of such columns are weighted by the numbers of training rows.
        interactions : bool, default=False
            Divide each value into the main effect of the column and its interaction with
            each other column; only without a background.
        outputs : int, str, or sequence of these, optional
            Raw scores to explain, for a model with several: classes, targets or quantile
            levels, by name or number; ``"column: label"`` for a tree with several columns of
            classes.
        offset : array-like of shape (n_rows,) or (n_rows, n_outputs), optional
            Added to the base value of each row.
        memory_limit : int, float or str, optional
            Most bytes that the values may take, or text such as ``"2 GB"``; by default half of
            the available memory.

        Returns
        -------
        Explanation
            See :meth:`hedgerow.Booster.explain`, also for errors.

        Examples
        --------
        >>> import numpy as np
        >>> from hedgerow import HedgerowRegressor
        >>> X = np.arange(200.0).reshape(-1, 2) % 7
        >>> model = HedgerowRegressor(n_estimators=20).fit(X, 3 * X[:, 0])
        >>> found = model.explain(X)
        >>> total = found.values.sum(axis=1) + found.base_values
        >>> bool(np.allclose(total, model.predict(X)))
        True
        """
        return self._fitted_booster(X).explain(
            X,
            background=background,
            interactions=interactions,
            outputs=outputs,
            n_jobs=self.n_jobs,
            offset=offset,
            memory_limit=memory_limit,
            reader=type(self).__name__,
        )

    def _explained(self, X: Any, n_jobs: int | None) -> Explanation:
        """Return Shapley values of rows, for importances."""
        threads = self.n_jobs if n_jobs is None else n_jobs
        return self._fitted_booster(X).explain(X, n_jobs=threads, reader=type(self).__name__)
