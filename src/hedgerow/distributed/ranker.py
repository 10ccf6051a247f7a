"""The ranker that trains on a Dask cluster."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from hedgerow.boosting.loop.loss_spec import LossSpec
from hedgerow.boosting.row_data.queries import check_given
from hedgerow.distributed.cluster import Resilience
from hedgerow.distributed.collections import is_collection
from hedgerow.distributed.estimators import OnCluster
from hedgerow.distributed.parallelism import Parallelism
from hedgerow.distributed.prediction import predict_lazily
from hedgerow.distributed.training import train_on_workers
from hedgerow.estimators import HedgerowRanker


class DaskHedgerowRanker(OnCluster, HedgerowRanker):
    """Gradient-boosted decision trees for ranking, trained on a Dask cluster.

    Parameters and attributes are those of :class:`hedgerow.HedgerowRanker`; ``n_jobs`` is
    the number of threads of each worker (None: all of them).  The model, and the file that
    :meth:`save` writes, have the same bytes as those of the local estimator trained on the
    same rows in memory, wherever the rows of a query are.

    Notes
    -----
    If the rows of a query are divided between workers, their scores are exchanged
    once per tree.  If rows of a query are neighbours, these are few:
    otherwise sort by query first (``set_index``).

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
            Not negative; rows of weight 0 are ignored.
        qid : like y
            The query of each row: numbers, text or dates, in any order.  It must be given.
        X_val, y_val, sample_weight_val, qid_val : like X, y, sample_weight and qid, optional
            Rows for learning curves and early stopping.
        offset, offset_val : like y, optional
            Initial raw scores.
        position : like y, optional
            Where each row was shown in its query, for clicks; see docs/ranking.md.
        client : distributed.Client, optional
            Default: the last client created.
        parallelism : {"auto", "data", "features"}, default="auto"
            The division of work between workers; see :mod:`hedgerow.distributed.parallelism`.
        memory_limit : int, optional
            Bytes for binned rows on each worker; default: 40% of the worker's limit.
            In addition, labels, queries, scores and derivatives take some 64
            bytes for each row of the worker, and for each row of other workers in divided queries.
        resilience : Resilience, optional
            How long to wait for workers and how often to restart.

        Returns
        -------
        self

        Raises
        ------
        CommunicationError
            If workers are lost or stall too often.
        DataError, DataTypeError, ParameterError
            For unusable data; the message names partition and column.
        """
        check_given(qid)
        self._params(), self._stopping()
        self._check_objective()
        name = "lambdarank" if self.objective == "auto" else self.objective
        client, tables = self._prepare(
            client,
            parallelism,
            {
                "X": X,
                "y": y,
                "weight": sample_weight,
                "query": qid,
                "offset": offset,
                "position": position,
            },
            {
                "X": X_val,
                "y": y_val,
                "weight": sample_weight_val,
                "query": qid_val,
                "offset": offset_val,
            },
        )

        def fit() -> object:
            loss = LossSpec(name, self._loss_values(), has_queries=True)
            work = self._work(loss, memory_limit)
            return self._adopt(train_on_workers(client, work, tables, parallelism, resilience))

        return self._fit_on(client, tables, fit, resilience)

    def predict(self, X: Any, offset: Any = None) -> Any:
        """Return the score of each row: lazily for a Dask collection.

        Returns
        -------
        dask.dataframe.Series or dask.array.Array of float64; an array for a table in memory
        """
        if not is_collection(X):
            return super().predict(X, offset)
        method = self._predictor().predict
        return predict_lazily(method, X, np.dtype(np.float64), offset=offset)

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, qid: Any = None) -> float:
        """Return the mean NDCG over the queries, over whole lists; scores are gathered here."""
        if not is_collection(X):
            return float(super().score(X, y, sample_weight, qid=qid))
        import dask

        scores, y, sample_weight, qid = dask.compute(self.predict(X), y, sample_weight, qid)
        return self._score_of(np.asarray(scores), y, sample_weight, qid)
