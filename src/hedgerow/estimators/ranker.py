"""The scikit-learn estimator for ranking."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Never, Self, TypeAlias, cast

from sklearn.utils.validation import check_is_fitted

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.boosting.loop.sample import Sample, check_vector, check_weight
from hedgerow.boosting.row_data.offsets import Offsets
from hedgerow.boosting.row_data.positions import read_position
from hedgerow.boosting.row_data.queries import read_qid, require_queries, weight_of_rows
from hedgerow.boosting.row_data.targets import require_target, target_column
from hedgerow.boosting.validation.row_sets import ValidationRows, stacked, validation_sets
from hedgerow.data import AnyTable
from hedgerow.errors import AbsentAttributeError
from hedgerow.estimators.base import HedgerowEstimator
from hedgerow.estimators.docs import shared_texts
from hedgerow.estimators.hooks import with_hooks
from hedgerow.metrics.queries import query_rows
from hedgerow.metrics.ranking import RankingMetric
from hedgerow.objectives import RANKING, Objective, make_objective
from hedgerow.objectives.ranking.losses import PairMethod
from hedgerow.params import CHECKPOINT_SECONDS
from hedgerow.peer_arguments import OF_ESTIMATORS_PREDICT, refuse_arguments

RankingObjective: TypeAlias = (
    "Literal['auto', 'lambdarank', 'rank_map', 'rank_pairwise', 'rank_xendcg']"
)


@shared_texts
@dataclass(kw_only=True, eq=False, repr=False)
class HedgerowRanker(HedgerowEstimator):
    """Gradient-boosted decision trees for ranking the rows of each query.

    Parameters
    ----------
    <trees>
    objective : str, default="auto"
        The loss to minimise.  ``"lambdarank"``, which is ``"auto"``: LambdaMART for NDCG
        (Burges 2010).  ``"rank_map"``: LambdaMART for mean average precision.
        ``"rank_pairwise"``: logistic losses of pairs of rows.  ``"rank_xendcg"``:
        cross-entropy with the gains of the rows (Bruch 2021).
    eval_metric : str, callable, sequence of these, or None, default=None
        Metrics to record after each round: ``"ndcg"``, ``"map"``, ``"mrr"``, ``"err"``, each
        also for the first k rows (``"ndcg@10"``), ``"precision@10"``, ``"recall@10"``, or
        ``"loss"``.  None means ``"loss"``, which is 1 - NDCG for ``"lambdarank"`` and 1 - MAP
        for ``"rank_map"``.  A callable takes ``(y_true, prediction, weight)``, without the
        queries.  Early stopping uses the first metric.
    truncation_level : int >= 1, or None, default=None
        With ``pair_method="topk"``, for all objectives except ``"rank_xendcg"``: the rows
        on the first positions of each list that are paired with all rows after them.  None
        means 30, as in LightGBM, or all rows for ``"rank_pairwise"``.
    pair_method : {"topk", "mean"} or None, default=None
        Method that selects pairs of rows.  ``"topk"`` (None): see ``truncation_level``.
        ``"mean"``: each row with random rows of other labels, drawn again in each round.
    pairs_per_row : int >= 1, or None, default=None
        Number of pairs of each row with ``pair_method="mean"``; None means 1.
    normalize_pairs : bool or None, default=None
        Whether ``"lambdarank"`` and ``"rank_map"`` reduce the weight of pairs whose scores
        are far apart and of queries with large total gradients, as in LightGBM.  None
        means True.
    sigmoid : float > 0, or None, default=None
        Steepness of the logistic function of pairs; None means 1.
    label_gain : sequence of float, or None, default=None
        Gains of the labels 0, 1, ..., for ``"lambdarank"``, ``"rank_xendcg"`` and NDCG.
        None means ``2**label - 1``.
    position_bias_regularization : float >= 0, or None, default=None
        L2 penalty on the position biases, per row, if ``position`` is passed to ``fit``.
        Larger values keep biases closer to 0, which helps if a position has few rows.  None
        means 0, as in LightGBM.
    <training>

    Attributes
    ----------
    <attributes>

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
    _loss_parameters: ClassVar[tuple[str, ...]] = (
        *("truncation_level", "pair_method", "pairs_per_row"),
        *("normalize_pairs", "sigmoid", "label_gain", "position_bias_regularization"),
    )
    # With metadata routing, scikit-learn passes qid to fit and score by default.
    __metadata_request__fit: ClassVar[dict[str, bool]] = {"qid": True, "position": True}
    __metadata_request__score: ClassVar[dict[str, bool]] = {"qid": True}

    objective: RankingObjective = "auto"
    truncation_level: int | None = None
    pair_method: PairMethod | None = None
    pairs_per_row: int | None = None
    normalize_pairs: bool | None = None
    sigmoid: float | None = None
    label_gain: Sequence[float] | None = None
    position_bias_regularization: float | None = None

    @with_hooks
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        qid: Any = None,
        position: Any = None,
        X_val: Any = None,
        y_val: Any = None,
        sample_weight_val: Any = None,
        qid_val: Any = None,
        offset: Any = None,
        offset_val: Any = None,
        init_model: Any = None,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: float = CHECKPOINT_SECONDS,
    ) -> Self:
        """Train on the rows of queries.

        A fit that fails, or that is interrupted during its first round, leaves the
        estimator unchanged.  An interrupt in a later round ends training and keeps the
        completed rounds.

        Parameters
        ----------
        <table>
        y : array-like of shape (n_rows,)
            Relevance labels 0, 1, 2, ..., higher for more relevant rows.
        sample_weight : array-like of shape (n_rows,) or (n_queries,), or mapping, optional
            Weights >= 0; a row of weight 0 is ignored.  Weights of queries, in the order of
            their first row, or as a mapping from query to weight, apply to all rows of the
            query; a query of weight 2 counts as two equal queries.
        qid : array-like of shape (n_rows,)
            Query of each row: numbers, text or categories.  Rows of a query need not be
            adjacent.  Required; pass a constant if all rows belong to one list.
        position : array-like of shape (n_rows,), optional
            Position at which each row was displayed when its label (a click, for example) was
            collected: integers or text.  The model then learns the bias of each position
            and leaves it out of predictions, which need no positions (docs/ranking.md).
        X_val, y_val : like X and y, optional
            Validation rows for learning curves and early stopping.  A dict without
            ``y_val``, as in ``X_val={"new": Dataset(X, y, qid=qid), ...}``, holds several
            named sets; early stopping uses the first.
        sample_weight_val, qid_val : array-like, optional
            Weights and queries of the validation rows.
        offset : str, list of str, or array-like of shape (n_rows,), optional
            <offset>
        <continuing>
        """
        params, stopping = self._params(), self._stopping()
        from hedgerow.io.checkpoint_folder import checkpoint_at

        kept = checkpoint_at(checkpoint, checkpoint_every)
        self._check_objective()
        objective = self._make_objective()
        start, _ = self._start(init_model)
        sets = validation_sets(X_val, y_val, sample_weight_val, offset_val, qid_val)
        offsets = Offsets.of(X, offset)
        table = self._read(offsets.X, params, start)
        train = offsets.on(
            self._sample(table, ValidationRows("", X, y, sample_weight, None, qid)), 1
        )
        train = replace(train, position=read_position(position, table.n_rows))

        def validation_sample(rows: ValidationRows) -> Sample:
            own = offsets.of_rows(rows.X, rows.offset)
            own_table = rows.read(own.X, table.schema, type(self).__name__)
            return own.on(self._sample(own_table, rows), 1, rows.called("offset"))

        validation = stacked({rows.name: validation_sample(rows) for rows in sets})
        model = self._train(
            train, validation, objective, params, stopping, kept, start, offsets.noted
        )
        return self._adopt(model)

    def _make_objective(self) -> Objective:
        return make_objective(self._chosen_objective, parameters=self._loss_values())

    def _sample(self, table: AnyTable, rows: ValidationRows) -> Sample:
        """Build a sample; training rows have an empty name."""

        def called(argument: str) -> str:
            return rows.called(argument) if rows.name else argument

        require_target(rows.y, type(self).__name__, called("y"))
        n_rows, weight = table.n_rows, called("sample_weight")
        return Sample(
            table,
            check_vector(target_column(rows.y, called("y")), n_rows, called("y")),
            check_weight(weight_of_rows(rows.weight, rows.qid, n_rows, weight), n_rows, weight),
            query=_queries(rows.qid, n_rows, called("qid"), "fit"),
        )

    @property
    def position_bias_(self) -> dict[int | str, float]:
        """Bias of each position on the scale of raw scores; the largest is 0.

        Available if ``position`` was passed to :meth:`fit`.  For rare labels, such as clicks,
        ``exp(sigmoid * bias)`` is about the probability that a row is examined, relative to
        the best position.
        """
        check_is_fitted(self)
        found = self.booster_.model.training.get("position_bias")
        if found is None:
            raise AbsentAttributeError("position_bias_ needs positions: fit(..., position=...).")
        return dict(zip(found["positions"], found["bias"], strict=True))

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
        sample_weight : array-like of shape (n_rows,) or (n_queries,), or mapping, optional
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
        query = _queries(qid, n_rows, "qid", "score")
        if weight is not None and not weight.all():
            present = weight > 0.0
            target, prediction = target[present], prediction[present]
            weight, query = weight[present], query[present]
        gains = None if self.label_gain is None else tuple(self.label_gain)
        metric = RankingMetric("ndcg", None, gains, query_rows(query, len(target)))
        return metric(target, prediction, weight)


def _queries(qid: Any, n_rows: int, name: str, method: str) -> IntArray:
    """Read the query of each row."""
    require_queries(qid, name, method)
    return cast(IntArray, read_qid(qid, n_rows, name))
