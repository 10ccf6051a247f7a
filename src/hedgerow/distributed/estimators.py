"""scikit-learn estimators that train on a Dask cluster."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, Never, Self

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray
from hedgerow.boosting.row_data.queries import require_queries
from hedgerow.boosting.row_data.row_values import given_values
from hedgerow.boosting.row_data.targets import require_target
from hedgerow.distributed.cluster import Parts, Resilience
from hedgerow.distributed.collections import is_collection, persist_tables
from hedgerow.distributed.partition import add_masses, unique_labels
from hedgerow.distributed.prediction import predict_lazily
from hedgerow.distributed.training import check_parallelism, train_on_workers
from hedgerow.distributed.work import TrainWork, check_for_clusters, fit_divided, joined_labels
from hedgerow.errors import ParameterError
from hedgerow.estimators import HedgerowClassifier, HedgerowRanker, HedgerowRegressor
from hedgerow.estimators.base import HedgerowEstimator
from hedgerow.growing.chunks.exchange import GrowMode
from hedgerow.model.model import Model


class OnCluster(HedgerowEstimator):
    """Base class of the estimators for clusters."""

    _local_class: ClassVar[Any]

    def _fit_on(
        self,
        train: Mapping[str, Any],
        validation: Mapping[str, Any],
        client: Any,
        parallelism: GrowMode,
        memory_limit: int | None,
        resilience: Resilience | None,
    ) -> Self:
        """Fit on all workers."""
        self._params(), self._stopping(), self._check_objective()
        check_parallelism(parallelism)
        check_for_clusters(self)
        client = client or _default_client()
        require_target(train["y"], type(self).__name__)
        tables = persist_tables(client, train, validation)

        def trained(work: TrainWork) -> Model:
            return train_on_workers(client, work, tables, parallelism, resilience)

        classes, masses = (partial(find, client, tables.train) for find in (_labels, _masses))
        fit_divided(self, tables.n_targets, classes, masses, trained, memory_limit=memory_limit)
        return self

    def to_local(self) -> Any:
        """Return the fitted estimator for tables in memory, with the same parameters and model."""
        local = self._local_class(**self.get_params(deep=False))
        local.__dict__.update(vars(self))
        return local

    def _predictor(self) -> Any:
        """Return the local estimator for workers, where each task uses one thread."""
        local = self.to_local()
        local.n_jobs = 1
        return local

    def predict(self, X: Any, offset: Any = None, **others: Never) -> Any:
        """Predict each row as the local estimator does: lazily for a Dask collection.

        Returns
        -------
        dask.dataframe.Series or dask.array.Array of classes, values or scores, for several targets,
        labels or quantiles a DataFrame; an array for a table in memory
        """
        if others or not is_collection(X):
            return self._local_class.predict(self, X, offset, **others)
        local, classes = self._predictor(), getattr(self, "classes_", None)
        levels, names = self.booster_.model.training.get("quantile"), self.booster_.target_names
        dtype: Any = np.dtype(np.float64)
        columns = levels if isinstance(levels, list) else names
        if classes is not None:
            dtype = classes.dtype if names is None else np.dtype(np.int64)
        return predict_lazily(local.predict, X, dtype, columns, offset=offset)

    def score(self, X: Any, y: Any, sample_weight: Any = None, **more: Any) -> float:
        """Return the score of the local estimator, from predictions on the workers.

        Parameters
        ----------
        X, y, sample_weight : as for :meth:`fit`
        **more
            For rankings ``qid``.
        """
        if not is_collection(X):
            return float(self._local_class.score(self, X, y, sample_weight, **more))
        import dask

        predicted, y, sample_weight, more = dask.compute(self.predict(X), y, sample_weight, more)
        return float(self._score_of(np.asarray(predicted), y, sample_weight, **more))

    def _to_record(self) -> dict[str, Any]:
        """Save the local estimator."""
        return {**super()._to_record(), "class": self._local_class.__name__}

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Load an estimator that this class or the local class saved."""
        local = cls._local_class.load(path)
        estimator = cls(**local.get_params(deep=False))
        estimator.__dict__.update(vars(local))
        return estimator


class OnClusterByRows(OnCluster):
    """Base class of those whose rows have no queries."""

    def fit(  # type: ignore[override]
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        X_val: Any = None,
        y_val: Any = None,
        sample_weight_val: Any = None,
        offset: Any = None,
        offset_val: Any = None,
        groups: Any = None,
        time: Any = None,
        client: Any = None,
        parallelism: GrowMode = "data",
        memory_limit: int | None = None,
        resilience: Resilience | None = None,
    ) -> Self:
        """Train on X and y.

        If a fit fails or is interrupted, the estimator is unchanged.

        Parameters
        ----------
        X : dask.dataframe.DataFrame or dask.array.Array, shape (n_rows, n_features)
        y : dask.dataframe.Series or dask.array.Array, shape (n_rows,)
            Labels (text, integers, booleans, or integral floats) or finite numbers, one per row of
            X in the same order; or several columns, of 0 and 1 or of numbers.
        sample_weight : like y, optional
        X_val, y_val, sample_weight_val : like X, y and sample_weight, optional
            Rows for learning curves and early stopping.
        offset, offset_val : like y, or with a column for each output, optional
            Initial raw scores; see docs/training-control.md.
        groups : like y, optional
            Rows of one group stay together in folds and in held-out rows.
        time : like y, optional
            The latest rows are held out.
        client : distributed.Client, optional
            By default the last client created.
        parallelism, memory_limit, resilience
            See :func:`hedgerow.distributed.train`.

        Returns
        -------
        self

        Raises
        ------
        CommunicationError, DataError, DataTypeError, ParameterError
            See :func:`hedgerow.distributed.train`.
        """
        rows = {"X": X, "y": y, **given_values(locals())}
        valid = {"X": X_val, "y": y_val, **given_values(locals(), "_val")}
        return self._fit_on(rows, valid, client, parallelism, memory_limit, resilience)


class DaskHedgerowClassifier(OnClusterByRows, HedgerowClassifier):
    """Gradient-boosted decision trees for classification, trained on a Dask cluster.

    Parameters and attributes are those of :class:`hedgerow.HedgerowClassifier`; ``n_jobs``
    is the number of threads of each worker (None: all of them).  The model, and the file that
    :meth:`save` writes, have the same bytes as those of the local estimator trained on the
    same rows in memory.  ``"auto"`` of ``n_estimators`` and ``early_stopping`` means the plain
    values of :func:`hedgerow.train`.

    Examples
    --------
    >>> import dask.dataframe as dd
    >>> from distributed import Client
    >>> from hedgerow import DaskHedgerowClassifier
    >>> client = Client("tcp://scheduler:8786")                           # doctest: +SKIP
    >>> table = dd.read_parquet("s3://bucket/rows/")                      # doctest: +SKIP
    >>> X, y = table.drop(columns="clicked"), table["clicked"]            # doctest: +SKIP
    >>> model = DaskHedgerowClassifier(n_estimators=300).fit(X, y)        # doctest: +SKIP
    >>> probabilities = model.predict_proba(X).rename(columns=str)        # doctest: +SKIP
    >>> probabilities.to_parquet("s3://bucket/predictions/")              # doctest: +SKIP
    """

    _local_class = HedgerowClassifier

    def predict_proba(self, X: Any, offset: Any = None, **others: Never) -> Any:
        """Return the probability of each class in the order of ``classes_``: lazily for Dask.

        Returns
        -------
        dask.dataframe.DataFrame, whose columns are the classes, or dask.array.Array; an
        array for a table in memory
        """
        if others or not is_collection(X):
            return super().predict_proba(X, offset, **others)
        local, dtype = self._predictor(), np.dtype(np.float64)
        columns = local.classes_.tolist()
        return predict_lazily(local.predict_proba, X, dtype, columns, offset=offset)


class DaskHedgerowRegressor(OnClusterByRows, HedgerowRegressor):
    """Gradient-boosted decision trees for regression, trained on a Dask cluster.

    Parameters and attributes are those of :class:`hedgerow.HedgerowRegressor`; ``n_jobs``
    is the number of threads of each worker (None: all of them).  The model, and the file that
    :meth:`save` writes, have the same bytes as those of the local estimator trained on the
    same rows in memory.  ``"auto"`` of ``n_estimators`` and ``early_stopping`` means the plain
    values of :func:`hedgerow.train`.

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from hedgerow import DaskHedgerowRegressor
    >>> client = Client("tcp://scheduler:8786")                   # doctest: +SKIP
    >>> X = da.random.normal(size=(10**8, 20), chunks=(10**6, 20))
    >>> y = X[:, 0] + X[:, 1] * X[:, 2]
    >>> model = DaskHedgerowRegressor().fit(X, y)                 # doctest: +SKIP
    """

    _local_class = HedgerowRegressor


class DaskHedgerowRanker(OnCluster, HedgerowRanker):
    """Gradient-boosted decision trees for ranking, trained on a Dask cluster.

    Parameters and attributes are those of :class:`hedgerow.HedgerowRanker`; ``n_jobs`` is
    the number of threads of each worker (None: all of them).  The model, and the file that
    :meth:`save` writes, have the same bytes as those of the local estimator trained on the
    same rows in memory, wherever the rows of a query are.

    Notes
    -----
    Workers exchange the scores of queries whose rows are on several workers, once per tree.
    There are few such queries if the rows of each query are adjacent.  Otherwise sort the rows
    by query first (``set_index``).

    Examples
    --------
    >>> import dask.dataframe as dd
    >>> from distributed import Client
    >>> from hedgerow import DaskHedgerowRanker
    >>> client = Client("tcp://scheduler:8786")                   # doctest: +SKIP
    >>> table = dd.read_parquet("s3://bucket/clicks/")            # doctest: +SKIP
    >>> X, y, qid = table[["a", "b"]], table["grade"], table["search"]  # doctest: +SKIP
    >>> model = DaskHedgerowRanker().fit(X, y, qid=qid)           # doctest: +SKIP
    """

    _local_class = HedgerowRanker

    def fit(  # type: ignore[override]  # checkpoints are kept by the scheduler
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        qid: Any = None,
        X_val: Any = None,
        y_val: Any = None,
        sample_weight_val: Any = None,
        qid_val: Any = None,
        offset: Any = None,
        offset_val: Any = None,
        client: Any = None,
        parallelism: GrowMode = "data",
        memory_limit: int | None = None,
        resilience: Resilience | None = None,
    ) -> Self:
        """Train on the rows of queries, on the workers of a cluster.

        Parameters
        ----------
        X : dask.dataframe.DataFrame or dask.array.Array, shape (n_rows, n_features)
        y : dask.dataframe.Series or dask.array.Array, shape (n_rows,)
            Labels 0, 1, 2, ..., higher for more relevant rows; one for each row of X.
        sample_weight : like y, optional
            Nonnegative weights; rows of weight 0 are ignored.
        qid : like y
            Query of each row: numbers, text or dates, in any order.  Required.
        X_val, y_val, sample_weight_val, qid_val : like X, y, sample_weight and qid, optional
            Rows for learning curves and early stopping.
        offset, offset_val : like y, optional
            Initial raw scores.
        client : distributed.Client, optional
            By default the last client created.
        parallelism : {"data", "features"}, default="data"
            The division of work between workers; see :func:`hedgerow.distributed.train`.
        memory_limit : int, optional
            Memory for binned rows on each worker in bytes; by default 40% of the worker's
            limit.  Of this, labels, queries, scores and derivatives take about 64 bytes per row
            of the worker; rows of other workers in its divided queries come on top.
        resilience : Resilience, optional
            Timeouts and limit of restarts.

        Returns
        -------
        self

        Raises
        ------
        CommunicationError
            If workers are lost or stall too often.
        DataError, DataTypeError, ParameterError
            If data or parameters are invalid; the message names partition and column.
        """
        rows = {"X": X, "y": y, **given_values(locals())}
        valid = {"X": X_val, "y": y_val, **given_values(locals(), "_val")}
        require_queries(qid)
        return self._fit_on(rows, valid, client, parallelism, memory_limit, resilience)


def _labels(client: Any, parts: Parts) -> AnyArray:
    tasks = [
        client.submit(unique_labels, future, number, pure=False)
        for number, future in enumerate(parts.futures)
    ]
    return joined_labels(client.gather(tasks))


def _masses(client: Any, parts: Parts, classes: AnyArray) -> FloatArray:
    masses: Any = np.zeros(len(classes))
    for future in parts.futures:  # in order, so that sums equal the sums of one table
        masses = client.submit(add_masses, masses, future, classes, pure=False)
    found: FloatArray = masses.result()
    return found


def _default_client() -> Any:
    from distributed import default_client

    try:
        return default_client()
    except ValueError as error:
        raise ParameterError(
            "there is no Dask client: create one (distributed.Client(...)) or pass client=."
        ) from error
