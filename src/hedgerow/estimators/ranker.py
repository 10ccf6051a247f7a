"""The scikit-learn estimator for ranking."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Never, Self, TypeAlias, cast

from sklearn.utils.validation import check_is_fitted

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.boosting.row_data.checks import check_vector, check_weight
from hedgerow.boosting.row_data.queries import read_qid, require_queries, weight_of_rows
from hedgerow.boosting.row_data.targets import Targets, require_target, target_column
from hedgerow.estimators.base import HedgerowEstimator
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


@dataclass(kw_only=True, eq=False, repr=False)
class HedgerowRanker(HedgerowEstimator):
    """Gradient-boosted decision trees for ranking the rows of each query.

    Parameters
    ----------
    Rounds:
    n_estimators : int >= 1 or "auto", default="auto"
        Number of rounds; a round grows one tree, or one for each class or target.  ``"auto"``:
        validation rows or cross-validation choose it, and the data every other ``"auto"``
        (docs/defaults.md), which otherwise has its plain value (docs/parameters.md).
    learning_rate : float > 0, sequence of n_estimators such, callable or "auto", default="auto"
        Factor on leaf values; a callable takes the number of completed rounds
        (:mod:`hedgerow.schedules`).  ``"auto"`` with n given rounds: 10 / n, from 0.02 to 0.1.
    boosting : {"gbdt", "dart", "rf"}, default="gbdt"
        A tree corrects the sum of those before (``"gbdt"``), or the sum without some randomly
        dropped rounds (``"dart"``), or is part of a random forest, their mean (``"rf"``).
    drop_rate : float in [0, 1], default=0.1
        Probability that ``"dart"`` drops an earlier round.
    skip_drop : float in [0, 1], default=0.5
        Probability that a round of ``"dart"`` drops none.
    max_drop : int >= 1, default=50
        Most rounds that ``"dart"`` drops at once.
    num_parallel_tree : int >= 1, default=1
        Trees of each output in a round, on different samples; the round adds their mean.

    Trees:
    max_leaves : int from 2 to 65535, None or "auto", default="auto"
        Most leaves of a tree; None: no limit, and ``max_depth`` must be set.
    max_depth : int from 1 to 62, or None, default=None
        Most splits between the root and a leaf; None: no limit, or 6 for symmetric trees.
    grow_policy : {"leafwise", "depthwise", "symmetric"} or "auto", default="auto"
        Split the leaf of the largest gain first, the one closest to the root, or all nodes of a
        level alike (docs/symmetric.md).  ``"auto"``: leafwise or symmetric, as the data favour.
    tree_method : {"hist", "approx", "exact"}, default="hist"
        Candidate cuts: borders of bins, quantiles weighted by hessians, or all distinct values.
    max_bins : int from 2 to 255 or "auto", default="auto"
        Most bins of a feature with ``"hist"``.  ``"auto"``: 255, or 63 for few rows.
    leaf_estimation : {"auto", "newton", "gradient", "line_search"}, default="auto"
        Splits and values by second derivatives, by means of negative gradients, or by these and
        the values of least loss.  ``"auto"``: Newton, or line search without second derivatives.
    multi_strategy : {"auto", "one_output_per_tree", "multi_output_tree"}, default="auto"
        Whether each class, target or label has its own trees, or leaves hold a value for each.
        ``"auto"``: shared trees for targets and labels where possible (docs/several-targets.md).
    linear_leaves : bool or "auto", default="auto"
        Add linear functions to leaves.  ``"auto"``: if the data favour it (docs/linear-leaves.md).
    linear_lambda : float >= 0, default=1.0
        Penalty on slopes: one slope of n rows is ``n / (n + linear_lambda)`` of least squares.

    Leaves:
    min_samples_leaf : int >= 1 or "auto", default="auto"
        Fewest training rows in a leaf, whatever their weights.
    min_child_weight : float >= 0, default=0.001
        Smallest sum of hessians in a leaf.
    reg_lambda : float >= 0 or "auto", default="auto"
        L2 penalty on leaf values.
    reg_alpha : float >= 0, default=0.0
        L1 penalty on leaf values.
    gamma : float >= 0, default=0.0
        Loss reduction that a split must exceed.
    max_delta_step : float >= 0, default=0.0
        Largest absolute leaf value before the rate; 0: in most cases no limit (docs/parameters.md).

    Sampling:
    subsample : float in (0, 1] or "auto", default="auto"
        Fraction of the rows that a round uses; with ``sampling="mvs"`` the expected fraction.
    sampling : {"uniform", "goss", "mvs"}, default="uniform"
        Rows of a round: with equal probability; all with large gradients and some others; or with a
        probability that grows with gradient and hessian (docs/sampling.md).
    goss_top_rate : float in [0, 1), default=0.2
        Fraction of the rows, with the largest gradients, that ``"goss"`` keeps.
    goss_other_rate : float in (0, 1], default=0.1
        Fraction of all rows that ``"goss"`` draws from the others, and weights to represent them.
    colsample_bytree, colsample_bylevel : float in (0, 1], default=1.0
        Fraction of the features that a tree may use, and of these that each of its levels may use.
    colsample_bynode : float in (0, 1] or "auto", default="auto"
        Fraction of the features of a level that a node may use.
    feature_weights : dict or sequence of weights of the columns, or None, default=None
        Weights >= 0 in column sampling; 0: never drawn; a column that a dict leaves out has 1.
    oob_score : bool, default=False
        Score each round, or a random forest, on the rows that ``subsample`` left out.

    Columns:
    zero_as_missing : bool, default=False
        Treat the number 0 as missing, and so the zeros that a sparse table does not store.
    bundle_features : bool or "auto", default="auto"
        Let features that are rarely nonzero in the same row share a histogram column.  ``"auto"``:
        if this saves a quarter of the columns (docs/sparse.md).
    max_bins_by_feature : dict or sequence of numbers of the columns, or None, default=None
        Most bins of each column, from 2 to 255, instead of ``max_bins``.
    forced_bins : dict of column to ascending numbers, or None, default=None
        Cuts that a column has whatever the data; its other cuts are chosen between these.
    feature_crosses : list of (column, column, operation), None or "auto", default="auto"
        Pairs of numeric columns to add as ``"product"``, ``"difference"`` or ``"ratio"``.
        ``"auto"``: those that cross-validation favours, if any (docs/defaults.md).

    Categories:
    categorical_features : "auto", list of names or positions, bool mask, or None, default="auto"
        Columns of categories.  ``"auto"``: text and categorical types (docs/categories.md).
    unknown_category : {"missing", "backoff", "error"}, default="missing"
        Treat a category that no training row has as missing, as a separate one, or as an error.
    max_cat_to_onehot : int from 1 to 254 or "auto", default="auto"
        Most levels in a node for splits of one level against the others; more are split by sets.
        ``"auto"``: 4, or 254 if cross-validation favours it.
    max_cat_threshold : int from 1 to 254, default=32
        Most levels in the smaller set of a split.
    cat_smooth : float >= 0 or "auto", default="auto"
        Levels of fewer rows in a node are merged.  ``"auto"``: 10, or 1 for few rows.
    cat_l2 : float >= 0 or "auto", default="auto"
        Added to ``reg_lambda`` where sets are compared.  ``"auto"``: 10, or 1 for few rows.
    min_data_per_group : int >= 1 or "auto", default="auto"
        Fewest rows between candidate sets.  ``"auto"``: 100, or 1 for few rows.
    target_statistics : bool or "auto", default="auto"
        Replace categories by their mean target over earlier rows: with True in columns of more
        than two levels, with ``"auto"`` of more than 254 (docs/categories.md).

    Constraints:
    monotone_constraints : dict or sequence of directions of the columns, or None, default=None
        As a column grows, predictions never fall (1, ``"increasing"``), never rise (-1,
        ``"decreasing"``), or do either (0) (docs/constraints.md).
    interaction_constraints : list of lists, "pairwise", "no_interactions" or None, default=None
        Lists of columns that may split a branch together; columns in no list form another.
        ``"pairwise"`` allows any two columns in a branch, ``"no_interactions"`` only one.
    monotone_penalty : float >= 0, default=0.0
        Reduce gains of monotone columns near the root; 2: no such splits in the first two levels.
    feature_penalties : dict or sequence of factors of the columns, or None, default=None
        Factors >= 0 on the gains of splits; a column with factor 0 is never used.
    extra_trees : bool, default=False
        Evaluate only one random cut of each column in each node.
    path_smooth : float >= 0, default=0.0
        Number of rows for which the value of the parent counts in the value of a node.

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

    Stopping:
    early_stopping : bool, "auto" or "cv", default="auto"
        Stop after ``patience`` rounds without improvement and keep the best.  True: on ``X_val``,
        or else on rows held out; ``"cv"``: folds find the number of rounds.  ``"auto"``: on
        ``X_val``, or else by folds if ``n_estimators`` is ``"auto"``, or else not at all
        (docs/training-control.md).
    folds : int, splitter or iterable of (train, test), default=None
        Folds of early stopping: their number, a splitter of scikit-learn such as
        ``TimeSeriesSplit()``, or row numbers.  None: drawn at random (docs/training-control.md).
    blend : bool, int, "auto" or list of dict, default="auto"
        Kinds of trees in one model, each with a weight.  If folds compare kinds: True, at most
        three of them; a number, at most so many; ``"auto"``, as True below 3,000 rows; rankings
        have one.  A list has the parameters and the ``weight`` of each kind (docs/defaults.md).
    validation_fraction : float in (0, 1), default=0.1
        Fraction of the rows that early stopping holds out; for classification, by class.
    patience : int >= 1 or "auto", default="auto"
        Rounds in a row without improvement that end training.  ``"auto"``: 10 for plain trees.
    min_delta : float >= 0, default=0.0
        Smallest change of the score that counts as an improvement (exclusive).
    time_budget : float > 0 or None, default=None
        Seconds that the fit may take; the first round always runs (docs/training-control.md).
    warm_start : bool, default=False
        Continue the fitted model in the next ``fit``, up to a total of ``n_estimators`` rounds.

    Running:
    train_scores : bool, default=False
        Also score the training rows after each round, as ``evals_result_["train"]``.
    callbacks : callable, sequence of callables, or None, default=None
        Called after each :class:`hedgerow.boosting.loop.callbacks.Round`; True stops training.
    progress : bool, default=False
        Show a progress bar in a notebook, or if standard error is a terminal.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        Where trees are grown; the model does not depend on it.  ``"auto"``: see docs/gpu.md.
    n_jobs : int or None, default=None
        Number of threads; the model does not depend on it.  None: all available, -1: all.
    random_state : int, RandomState or None, default=None
        Seed of sampling, rounding and validation rows; None means 0.
    advanced : dict or None, default=None
        Parameters for experiments (docs/parameters.md): ``"sketch"`` (``"global"`` or ``"local"``),
        ``"sketch_eps"`` (0.03; in (0, 1)), ``"bundle_order"`` (``"count"`` or ``"degree"``),
        ``"bundle_conflicts"`` (``"sum"`` or ``"max"``), ``"max_conflict_rate"`` (0; in [0, 1)) and
        ``"statistics_order"`` (2 or 1), with the defaults first.

    Attributes
    ----------
    n_features_in_, n_iter_ : int
        Number of features, and of rounds in the model.
    feature_names_in_ : ndarray of str, shape (n_features,)
        Names of the columns, if X was a frame with column names.
    best_iteration_ : int or None
        Round of the best score, or number that folds chose; None without early stopping.
    stopped_by_ : str
        ``"rounds"``, ``"early_stopping"``, ``"callback"``, ``"time_budget"`` or ``"interrupt"``.
    evals_result_ : dict
        Learning curves: ``evals_result_["validation"]["loss"][i]`` is the score after round i + 1;
        also ``"train"``, ``"out_of_bag"``, ``"cv"`` and the names of validation sets.
    booster_ : hedgerow.Booster
        The trained model.

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
        query = cast(IntArray, read_qid(qid, n_rows, "qid"))
        if weight is not None and not weight.all():
            present = weight > 0.0
            target, prediction = target[present], prediction[present]
            weight, query = weight[present], query[present]
        gains = None if self.label_gain is None else tuple(self.label_gain)
        metric = RankingMetric("ndcg", None, gains, query_rows(query, len(target)))
        return metric(target, prediction, weight)
