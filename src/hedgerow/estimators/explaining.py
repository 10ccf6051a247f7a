"""Shapley values of fitted estimators."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.data import Table
from hedgerow.estimators.snapshots import of_one_fit
from hedgerow.threads import resolve_threads

if TYPE_CHECKING:
    from hedgerow.booster import Booster
    from hedgerow.explain.explanation import Explanation
    from hedgerow.explain.outputs import Outputs
    from hedgerow.model.cart_tree import CartTree


class BoostedExplanations(ABC):
    """Mixin of the boosted estimators for Shapley values."""

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
            levels, by name or number.
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


class TreeExplanations(ABC):
    """Mixin of the single trees for Shapley values."""

    tree_: CartTree
    n_jobs: int | None
    n_outputs_: int

    @abstractmethod
    def _read(self, X: Any) -> Table:
        """Read a table with the columns of the training table."""

    def _explained_outputs(self) -> tuple[list[int], tuple[str, ...]]:
        """Return the columns of ``tree_.value`` to explain, and their names if several.

        For a single target with two classes, only the second class is explained.
        """
        classes = getattr(self, "classes_", None)
        if classes is None:
            n_targets = self.tree_.value.shape[1]
            return list(range(n_targets)), _numbered(n_targets) if n_targets > 1 else ()
        if self.n_outputs_ == 1:
            names = tuple(map(str, classes.tolist()))
            return ([len(names) - 1], ()) if len(names) < 3 else (list(range(len(names))), names)
        names = tuple(f"{k}: {label}" for k, own in enumerate(classes) for label in own.tolist())
        return list(range(len(names))), names

    def explain(
        self,
        X: Any,
        *,
        background: Any = None,
        interactions: bool = False,
        outputs: Outputs = None,
        memory_limit: int | float | str | None = None,
    ) -> Explanation:
        """Compute Shapley values: the contribution of each column to each prediction.

        The values explain the prediction of a regressor, the probability of the second of
        two classes, or the probability of each of several classes.  Training rows count with
        their weights.

        Parameters
        ----------
        X : array, data frame, sparse matrix or list of rows, shape (n_rows, n_features)
        background : same as X, optional
            Rows that supply the values of columns left out of a coalition.  By default the
            splits of such columns are weighted by the weights of the training rows.
        interactions : bool, default=False
            Divide each value into the main effect of the column and its interaction with
            each other column; only without a background.
        outputs : int, str, or sequence of these, optional
            Outputs to explain, for a tree with several: classes by label, targets by number,
            and ``"column: label"`` for several columns of classes.
        memory_limit : int, float or str, optional
            Most bytes that the values may take, or text such as ``"2 GB"``; by default half of
            the available memory.

        Returns
        -------
        Explanation
            The values and the base value of a row sum to its prediction or probability.

        Raises
        ------
        ParameterError, DataError, DataTypeError
            As for :meth:`hedgerow.Booster.explain`.

        Examples
        --------
        >>> from hedgerow import CARTRegressor
        >>> model = CARTRegressor().fit([[1.0, 5.0], [2.0, 3.0], [4.0, 3.0]], [0.0, 0.0, 3.0])
        >>> found = model.explain([[4.0, 3.0]])
        >>> found.values.round(9).tolist(), float(found.base_values)
        ([[2.0, 0.0]], 1.0)
        """
        return self._shapley(X, background, interactions, outputs, memory_limit, self.n_jobs)

    def _explained(self, X: Any, n_jobs: int | None) -> Explanation:
        """Return Shapley values of rows, for importances."""
        return self._shapley(X, None, False, None, None, self.n_jobs if n_jobs is None else n_jobs)

    @of_one_fit
    def _shapley(
        self,
        X: Any,
        background: Any,
        interactions: bool,
        outputs: Outputs,
        memory_limit: int | float | str | None,
        n_jobs: int | None,
    ) -> Explanation:
        from hedgerow.explain.cart import CartGame
        from hedgerow.explain.outputs import read_outputs
        from hedgerow.explain.views import Request, explain_rows, named

        table = self._read(X)
        columns, names = self._explained_outputs()
        chosen, single = read_outputs(outputs, names)
        game = CartGame.of(self.tree_, columns if chosen is None else [columns[k] for k in chosen])
        others = None
        if background is not None:
            with named("background"):
                others = game.values(np.asarray(self._read(background).values))
        request = Request(
            data=X,
            feature_names=self.tree_.schema.names,
            output_names=() if single else tuple(names[k] for k in chosen or range(len(names))),
            interactions=bool(interactions),
            n_threads=resolve_threads(n_jobs),
            memory_limit=memory_limit,
        )
        return explain_rows(game.explainer, game.values(np.asarray(table.values)), others, request)


def _numbered(n: int) -> tuple[str, ...]:
    return tuple(map(str, range(n)))
