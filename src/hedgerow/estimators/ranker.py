"""The scikit-learn estimator for ranking."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Never, Self, TypeAlias

from sklearn.utils.validation import check_is_fitted

from hedgerow.arrays import FloatArray
from hedgerow.boosting.row_data.checks import check_vector, check_weight
from hedgerow.boosting.row_data.queries import read_qid, require_queries, weight_of_rows
from hedgerow.boosting.row_data.targets import Targets, require_target, target_column
from hedgerow.estimators.base import HedgerowEstimator
from hedgerow.estimators.common import with_texts_of
from hedgerow.metrics.queries import query_rows
from hedgerow.metrics.ranking import RankingMetric
from hedgerow.objectives import RANKING
from hedgerow.objectives.ranking.losses import PairMethod
from hedgerow.params import CHECKPOINT_SECONDS
from hedgerow.peers import OF_ESTIMATORS_PREDICT, refuse_arguments

if TYPE_CHECKING:
    from hedgerow.boosting.row_data.dataset import Dataset

RankingObjective: TypeAlias = (
    "Literal['auto', 'lambdarank', 'rank_map', 'rank_pairwise', 'rank_xendcg']"
)


@with_texts_of(HedgerowEstimator)
@dataclass(kw_only=True, eq=False, repr=False)
class HedgerowRanker(HedgerowEstimator):
    """Gradient-boosted decision trees for ranking the rows of each query.

    Parameters
    ----------
    Loss:
    objective : str, default="auto"
        The loss to minimise.  ``"lambdarank"``, which is ``"auto"``: LambdaMART for NDCG (Burges
        2010); ``"rank_map"``: for mean average precision.  ``"rank_pairwise"``: logistic losses of
        pairs.  ``"rank_xendcg"``: cross-entropy with the gains of the rows (Bruch 2021).
    truncation_level : int >= 1, or None, default=None
        With ``"topk"``, first positions whose rows are paired with all rows after them; None means
        30, or all positions for ``"rank_pairwise"``.
    pair_method : {"topk", "mean"} or None, default=None
        Pairs of the first positions (None means ``"topk"``), or of each row with random others.
    pairs_per_row : int >= 1, or None, default=None
        Number of pairs of each row with ``pair_method="mean"``; None means 1.
    normalize_pairs : bool or None, default=None
        Whether ``"lambdarank"`` and ``"rank_map"`` reduce the weight of pairs whose scores are far
        apart and of queries with large total gradients, as in LightGBM; None means True.
    sigmoid : float > 0, or None, default=None
        Steepness of the logistic function of pairs; None means 1.
    label_gain : sequence of float, or None, default=None
        Gains of the labels 0, 1, ... in NDCG and its losses; None means ``2**label - 1``.
    eval_metric : str, callable, sequence of these, or None, default=None
        Metrics to record after each round, such as ``"ndcg"``, ``"ndcg@10"``, ``"map"``, ``"mrr"``,
        ``"err"`` and ``"precision@10"``; None means ``"loss"``.  A callable takes ``(y_true,
        prediction, weight)``, without queries.  Early stopping uses the first (docs/metrics.md).

    Notes
    -----
    Folds and the rows that early stopping holds out consist of complete queries.
    ``subsample`` samples rows, not queries: a tree is grown on some rows of each query, but
    their gradients are computed from all rows of the query.

    Examples
    --------
    >>> import numpy as np
    >>> from hedgerow import HedgerowRanker
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.normal(size=(600, 3)), np.repeat(np.arange(60), 10)
    >>> y = np.clip(np.round(X[:, 0] + 1.5), 0, 4)
    >>> model = HedgerowRanker(n_estimators=20).fit(X, y, qid=qid)
    >>> model.score(X, y, qid=qid) > 0.9
    True
    """

    _default_objective: ClassVar[str] = "lambdarank"
    _objectives: ClassVar[tuple[str, ...]] = RANKING
    _ranks: ClassVar[bool] = True
    _loss_parameters: ClassVar[tuple[str, ...]] = (
        *("truncation_level", "pair_method", "pairs_per_row"),
        *("normalize_pairs", "sigmoid", "label_gain"),
    )
    # With metadata routing, scikit-learn passes qid to fit and score by default.
    __metadata_request__fit: ClassVar[dict[str, bool]] = {"qid": True}
    __metadata_request__score: ClassVar[dict[str, bool]] = {"qid": True}

    objective: RankingObjective = "auto"
    truncation_level: int | None = None
    pair_method: PairMethod | None = None
    pairs_per_row: int | None = None
    normalize_pairs: bool | None = None
    sigmoid: float | None = None
    label_gain: Sequence[float] | None = None

    def fit(
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
        init_model: Any = None,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: float = CHECKPOINT_SECONDS,
        **others: Never,
    ) -> Self:
        """Train on the rows of queries.

        A fit that fails, or that an interrupt ends in its first round, leaves the estimator
        unchanged.  A later interrupt ends training and keeps the completed rounds.

        Parameters
        ----------
        X : array, data frame, sparse matrix or list of rows, shape (n_rows, n_features)
            Numbers, dates, text or categories; NaN, null and ``None`` are missing (docs/data.md).
            A Dataset of files holds y and all other values of rows (docs/out-of-core.md).
        y : array-like of shape (n_rows,)
            Relevance labels 0, 1, 2, ..., higher for more relevant rows.
        sample_weight : array-like of shape (n_rows,) or (n_queries,), optional
            Weights >= 0; a row of weight 0 is ignored.  Weights of queries, in the order of their
            first row, apply to all their rows.
        qid : array-like of shape (n_rows,)
            Query of each row: numbers, text or categories; rows of a query may lie apart.
        X_val, y_val : like X and y, optional
            Validation rows for learning curves and early stopping; a dict without ``y_val``, as
            in ``{"new": Dataset(X, y, qid=qid)}``, holds named sets; the first stops.
        sample_weight_val, qid_val, offset_val : array-like, optional
            Weights, queries and offset of the validation rows.
        offset : str, list of str, or array-like (n_rows,), optional
            Initial raw score of each row: an array, which ``predict`` then needs as well, or
            names of columns of X, which are then not features.
        init_model : Booster, fitted estimator, or path of a model file, optional
            Model to whose trees ``n_estimators`` rounds are added (docs/continue.md).
        checkpoint : str or path-like, optional
            Folder for completed rounds, from which the same call resumes (docs/checkpoint.md).
        checkpoint_every : float >= 0, default=10.0
            Seconds between two writes of the checkpoint; 0 writes after every round.

        Returns
        -------
        self

        Raises
        ------
        DataError, DataTypeError, ParameterError
            For invalid data or parameters; the message names the column, row or parameter.
        StorageError
            If the checkpoint folder or the file of ``init_model`` cannot be used.

        Warns
        -----
        InterruptedFitWarning
            If an interrupt (Ctrl-C) ended the fit after its first round.
        """
        return self._fit_rows(locals())

    def _targets_of(
        self, rows: Dataset, n_rows: int, name: str, like: Targets | None = None
    ) -> Targets:
        require_target(rows.y, type(self).__name__, name)
        require_queries(rows.qid, name.replace("y", "qid", 1))
        return Targets(check_vector(target_column(rows.y, name), n_rows, name), None)

    def predict(self, X: Any, offset: Any = None, **others: Never) -> FloatArray:
        """Score each row; within a query, rows with higher scores come first.

        Parameters
        ----------
        X : array, data frame, sparse matrix or list of rows, shape (n_rows, n_features)
        offset : array-like, optional
            Required if :meth:`fit` was called with an array of offsets.

        Returns
        -------
        ndarray of float64, shape (n_rows,)
            Scores have no unit and cannot be compared between queries.
        """
        if others:
            refuse_arguments(HedgerowRanker.predict, others, OF_ESTIMATORS_PREDICT)
        booster = self._fitted_booster(X)
        return booster.link(self._raw(booster, X, offset))

    def staged_predict(self, X: Any, offset: Any = None) -> Iterator[FloatArray]:
        """Yield the result of :meth:`predict` after each round."""
        booster = self._fitted_booster(X)
        return map(booster.link, self._staged_raw(booster, X, offset))

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, qid: Any = None) -> float:
        """Return the mean NDCG over the queries, without truncation.

        Parameters
        ----------
        X : array, data frame, sparse matrix or list of rows, shape (n_rows, n_features)
        y : array-like of shape (n_rows,)
            Labels 0, 1, 2, ...
        sample_weight : array-like of shape (n_rows,) or (n_queries,), optional
            As for :meth:`fit`.  The weight of a query is the mean weight of its rows; rows
            of weight 0 are ignored.
        qid : array-like of shape (n_rows,)
            Query of each row, as for :meth:`fit`.

        Returns
        -------
        float
            1 is perfect; see :mod:`hedgerow.metrics.ranking`.
        """
        check_is_fitted(self)
        return self._score_of(self.predict(X), y, sample_weight, qid)

    def _score_of(self, prediction: FloatArray, y: Any, sample_weight: Any, qid: Any) -> float:
        """Return the mean NDCG of rows with these scores."""
        n_rows = len(prediction)
        target = check_vector(target_column(y), n_rows, "y")
        weight = check_weight(weight_of_rows(sample_weight, qid, n_rows), n_rows)
        require_queries(qid, "qid", "score")
        query = read_qid(qid, n_rows, "qid")
        if weight is not None and not weight.all():
            present = weight > 0.0
            target, prediction = target[present], prediction[present]
            weight, query = weight[present], query[present]
        gains = None if self.label_gain is None else tuple(self.label_gain)
        metric = RankingMetric("ndcg", None, gains, query_rows(query, len(target)))
        return metric(target, prediction, weight)
