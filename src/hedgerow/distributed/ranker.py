"""The ranker that trains on a Dask cluster."""

from __future__ import annotations

from typing import Any, Never, Self

import numpy as np

from hedgerow.boosting.loop.setup.loss_spec import LossSpec
from hedgerow.boosting.row_data.queries import require_queries
from hedgerow.boosting.row_data.row_values import given_values
from hedgerow.distributed.cluster import Resilience
from hedgerow.distributed.collections import is_collection
from hedgerow.distributed.estimators import OnCluster
from hedgerow.distributed.parallelism import Parallelism
from hedgerow.distributed.prediction import predict_lazily
from hedgerow.distributed.training import train_on_workers
from hedgerow.distributed.work import work_of
from hedgerow.estimators import HedgerowRanker


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
        position: Any = None,
        client: Any = None,
        parallelism: Parallelism = "auto",
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
        position : like y, optional
            Position at which each row was shown in its query, for clicks; see docs/ranking.md.
        client : distributed.Client, optional
            By default the last client created.
        parallelism : {"auto", "data", "features"}, default="auto"
            The division of work between workers; see :mod:`hedgerow.distributed.parallelism`.
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
        self._params(), self._stopping()
        self._check_objective()
        client, tables = self._prepare(client, parallelism, rows, valid)

        def fit() -> object:
            loss = LossSpec(self._chosen_objective, self._loss_values(), has_queries=True)
            work = work_of(self, loss, memory_limit=memory_limit)
            return self._adopt(train_on_workers(client, work, tables, parallelism, resilience))

        return self._fit_on(client, tables, fit, resilience)

    def predict(self, X: Any, offset: Any = None, **others: Never) -> Any:
        """Return the score of each row: lazily for a Dask collection.

        Returns
        -------
        dask.dataframe.Series or dask.array.Array of float64; an array for a table in memory
        """
        if others or not is_collection(X):
            return super().predict(X, offset, **others)
        method = self._predictor().predict
        return predict_lazily(method, X, np.dtype(np.float64), offset=offset)

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, qid: Any = None) -> float:
        """Return the mean NDCG of complete lists over the queries, computed on the client."""
        if not is_collection(X):
            return float(super().score(X, y, sample_weight, qid=qid))
        import dask

        scores, y, sample_weight, qid = dask.compute(self.predict(X), y, sample_weight, qid)
        return self._score_of(np.asarray(scores), y, sample_weight, qid)
