"""The scikit-learn estimator for regression."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Never, Self

from sklearn.base import RegressorMixin

from hedgerow.arrays import FloatArray
from hedgerow.boosting.row_data.checks import check_vector, check_weight
from hedgerow.boosting.row_data.targets import (
    Targets,
    has_columns,
    read_times,
    require_target,
    target_column,
)
from hedgerow.estimators.base import HedgerowEstimator
from hedgerow.estimators.common import of_one_fit
from hedgerow.estimators.scores import r2
from hedgerow.objectives import make_objective
from hedgerow.objectives.catalogue import SURVIVAL
from hedgerow.params import CHECKPOINT_SECONDS
from hedgerow.peers import OF_ESTIMATORS_PREDICT, refuse_arguments

if TYPE_CHECKING:
    from hedgerow.boosting.row_data.dataset import Dataset
    from hedgerow.objectives.distributions.predicted import Distribution
    from hedgerow.objectives.survival.aft import Distribution as TimeDistribution


@dataclass(kw_only=True, eq=False, repr=False)
class HedgerowRegressor(RegressorMixin, HedgerowEstimator):
    """Gradient-boosted decision trees for regression.

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
    objective : str, callable or object, default="auto"
        The loss to minimise; docs/objectives.md has a table.

        - Means: ``"squared_error"``, which is ``"auto"``.  Proportions: ``"cross_entropy"``.
        - Medians and outliers: ``"absolute_error"``, ``"huber"``, ``"pseudo_huber"``, ``"fair"``,
          ``"log_cosh"``.  Quantiles and expectiles: ``"quantile"``, ``"expectile"``.
        - Relative errors: ``"mape"``, ``"squared_log_error"``.
        - Counts and amounts: ``"poisson"``, ``"gamma"``, ``"tweedie"``.
        - Times of events, which may be censored: ``"cox"``, ``"aft"``.
        - A distribution for each row (``predict_distribution``): ``"normal"``, ``"log_normal"``,
          ``"gamma_dist"``, ``"negative_binomial"``, ``"poisson"``.
        - A function of all rows, which returns gradient and hessian:
          :mod:`hedgerow.objectives.own`.
    quantile : float in (0, 1), ascending sequence of such, or None, default=None
        Quantile for ``"quantile"``; None means 0.5.  A sequence gives columns, which never cross.
    delta : float > 0, or None, default=None
        Distance where ``"huber"``, ``"pseudo_huber"`` and ``"fair"`` turn linear; None means 1.
    expectile : float in (0, 1), or None, default=None
        Expectile for ``"expectile"``; None means 0.5, the mean.
    tweedie_power : float in (1, 2), or None, default=None
        Variance is proportional to this power of the mean with ``"tweedie"``; None means 1.5.
    aft_distribution : {"normal", "logistic", "extreme"} or None, default=None
        Distribution of the log of the time with ``"aft"``; None: ``"normal"``.
    aft_scale : float > 0, or None, default=None
        Scale of ``aft_distribution``; None means 1.
    eval_metric : str, callable, sequence of these, or None, default=None
        Metrics to record after each round, such as ``"rmse"``, ``"mae"``, ``"r2"`` and ``"crps"``;
        None means ``"loss"``.  A callable is a scorer of scikit-learn, or a function of ``(y_true,
        prediction, weight)``.  Early stopping uses the first (docs/metrics.md).

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

    Examples
    --------
    >>> import numpy as np
    >>> from hedgerow import HedgerowRegressor
    >>> X = np.arange(200.0).reshape(-1, 1)
    >>> model = HedgerowRegressor().fit(X, np.sin(X[:, 0] / 20.0))
    >>> model.score(X, np.sin(X[:, 0] / 20.0)) > 0.9
    True
    """

    _default_objective: ClassVar[str] = "squared_error"
    _objectives: ClassVar[tuple[str, ...]] = (
        *("squared_error", "absolute_error", "quantile"),
        *("huber", "pseudo_huber", "fair", "log_cosh", "expectile", "mape"),
        *("poisson", "gamma", "tweedie", "squared_log_error", "cross_entropy"),
        *("normal", "log_normal", "gamma_dist", "negative_binomial"),
        *("cox", "aft"),
    )
    _loss_parameters: ClassVar[tuple[str, ...]] = (
        *("quantile", "delta", "expectile", "tweedie_power"),
        *("aft_distribution", "aft_scale"),
    )

    quantile: float | Sequence[float] | None = None
    delta: float | None = None
    expectile: float | None = None
    tweedie_power: float | None = None
    aft_distribution: TimeDistribution | None = None
    aft_scale: float | None = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(
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
        init_model: Any = None,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: float = CHECKPOINT_SECONDS,
        **others: Never,
    ) -> Self:
        """Train on X and y.

        A fit that fails, or that an interrupt ends in its first round, leaves the estimator
        unchanged.  A later interrupt ends training and keeps the completed rounds.

        Parameters
        ----------
        X : array, data frame, sparse matrix or list of rows, shape (n_rows, n_features)
            Numbers, dates, text or categories; NaN, null and ``None`` are missing (docs/data.md).
            A Dataset of files holds y and all other values of rows (docs/out-of-core.md).
        y : array-like of shape (n_rows,) or (n_rows, n_targets)
            Finite numbers.  Two or more columns are several targets (docs/several-targets.md).
            ``"cox"`` and ``"aft"`` take times: numbers, negative for censored rows, or a frame,
            structured array or dict with ``event`` (1 or True if it happened) and ``time``, or for
            ``"aft"`` ``lower`` and ``upper``, the ends of an interval (docs/objectives.md).
        sample_weight : array-like of shape (n_rows,), optional
            Weights >= 0; a row of weight 0 is ignored.
        X_val, y_val : like X and y, optional
            Validation rows for learning curves and early stopping; a dict without ``y_val``, as
            in ``{"new": (X, y), "old": Dataset(X, y)}``, holds named sets; the first stops.
        sample_weight_val, offset_val : array-like, optional
            Weights and offset of the validation rows.
        offset : str, list of str, or array-like (n_rows,) or (n_rows, n_outputs), optional
            Initial raw score of each row: an array, which ``predict`` then needs as well, or
            names of columns of X, which are then not features.
        groups : array-like of shape (n_rows,), optional
            Group labels; early stopping holds out complete groups only.
        time : array-like of shape (n_rows,), optional
            Number or date of each row, for models of later rows: early stopping holds out the
            latest rows, and folds test later rows beside random ones (docs/cross-fitting.md).
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
        if self.objective in SURVIVAL or has_columns(rows.y):
            return rows.targets(n_rows, self.objective, like, name)
        return Targets(check_vector(target_column(rows.y, name), n_rows, name), None)

    def predict(self, X: Any, offset: Any = None, **others: Never) -> FloatArray:
        """Predict the target of each row.

        Parameters
        ----------
        X : array, data frame, sparse matrix or list of rows, shape (n_rows, n_features)
        offset : array-like, optional
            Required if :meth:`fit` was called with an array of offsets.

        Returns
        -------
        ndarray of float64, shape (n_rows,) or (n_rows, n_columns)
            Two-dimensional for several targets, in the order of y, and for several
            quantiles, which ascend in each row.
        """
        if others:
            refuse_arguments(HedgerowRegressor.predict, others, OF_ESTIMATORS_PREDICT)
        booster = self._fitted_booster(X)
        return booster.link(self._raw(booster, X, offset))

    def predict_distribution(self, X: Any) -> Distribution:
        """Predict the distribution of the target of each row.

        Available for ``objective="normal"``, ``"log_normal"``, ``"gamma_dist"``,
        ``"poisson"`` and ``"negative_binomial"``; see docs/uncertainty.md.

        Parameters
        ----------
        X : array, data frame, sparse matrix or list of rows, shape (n_rows, n_features)

        Returns
        -------
        hedgerow.objectives.distributions.predicted.Distribution
            With ``mean``, ``std``, ``quantile(p)``, ``interval(level)``, ``cdf(y)``,
            ``log_pdf(y)``, ``crps(y)``, ``sample(n, random_state)``.
        """
        return self._fitted_booster(X).predict_distribution(X, n_jobs=self.n_jobs)

    def predict_interval(self, X: Any, level: float = 0.9) -> FloatArray:
        """Predict the ends of the central interval of :meth:`predict_distribution`.

        Parameters
        ----------
        X : array, data frame, sparse matrix or list of rows, shape (n_rows, n_features)
        level : float in (0, 1), default=0.9
            Probability of the interval under the predicted distribution.

        Returns
        -------
        ndarray of float64, shape (n_rows, 2)
        """
        return self._fitted_booster(X).predict_interval(X, level, n_jobs=self.n_jobs)

    def predict_survival_function(
        self, X: Any, times: Any = None, offset: Any = None
    ) -> FloatArray:
        """Predict the probability that no event happens up to each time.

        Available for ``objective="cox"`` and ``"aft"``.

        Parameters
        ----------
        X : array, data frame, sparse matrix or list of rows, shape (n_rows, n_features)
        times : array-like of positive numbers, optional
            May be omitted for ``"cox"``, where the default is ``booster_.event_times``.
        offset : array-like, optional
            Required if :meth:`fit` was called with an array of offsets.

        Returns
        -------
        ndarray of float64, shape (n_rows, n_times)
        """
        booster = self._fitted_booster(X)
        return booster.predict_survival_function(X, times, n_jobs=self.n_jobs, offset=offset)

    @of_one_fit
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return R2 of :meth:`predict`, or Harrell's concordance for times of events.

        For several targets the score is the mean of their R2, as in scikit-learn.  For several
        quantiles it is the mean of their D2: 1 minus the pinball loss over that of the best
        constant.

        Parameters
        ----------
        X, y, sample_weight : as for :meth:`fit`

        Returns
        -------
        float
            1 is perfect.
        """
        booster, predicted = self._fitted_booster(X), self.predict(X)
        n_rows = len(predicted)
        if self.objective in SURVIVAL:
            from hedgerow.metrics import make_metrics

            assert isinstance(self.objective, str)
            target = read_times(y, n_rows, "y", self.objective)
            (metric,) = make_metrics("concordance", make_objective(self.objective))
            return metric.function(target, predicted, check_weight(sample_weight, n_rows))
        levels = booster.model.training.get("quantile")
        if booster.target_names is not None:
            y = self._known_targets(booster, y, n_rows)
        elif isinstance(levels, list):
            from hedgerow.metrics.regression import skill_of_pinball

            target = check_vector(target_column(y), n_rows, "y")
            weight = check_weight(sample_weight, n_rows)
            skills = [
                skill_of_pinball(level)(target, predicted[:, k], weight)
                for k, level in enumerate(levels)
            ]
            return sum(skills) / len(skills)
        return r2(type(self).__name__, y, predicted, sample_weight)

    def staged_predict(self, X: Any, offset: Any = None) -> Iterator[FloatArray]:
        """Yield the result of :meth:`predict` after each round."""
        booster = self._fitted_booster(X)
        return map(booster.link, self._staged_raw(booster, X, offset))
