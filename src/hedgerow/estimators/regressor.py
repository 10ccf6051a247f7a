"""The scikit-learn estimator for regression."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Never

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
from hedgerow.estimators.common import of_one_fit, with_texts_of
from hedgerow.estimators.scores import r2
from hedgerow.objectives import make_objective
from hedgerow.objectives.catalogue import SURVIVAL
from hedgerow.peers import OF_ESTIMATORS_PREDICT, refuse_arguments

if TYPE_CHECKING:
    from hedgerow.boosting.row_data.dataset import Dataset
    from hedgerow.objectives.distributions.predicted import Distribution
    from hedgerow.objectives.survival.aft import Distribution as TimeDistribution


@with_texts_of(HedgerowEstimator)
@dataclass(kw_only=True, eq=False, repr=False)
class HedgerowRegressor(RegressorMixin, HedgerowEstimator):
    """Gradient-boosted decision trees for regression.

    Parameters
    ----------
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
          ``"poisson"``.
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
        *("normal", "log_normal", "cox", "aft"),
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

        Available for ``objective="normal"``, ``"log_normal"`` and ``"poisson"``; see
        docs/uncertainty.md.

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
        return self._score_of(self.predict(X), y, sample_weight)

    def _score_of(self, predicted: FloatArray, y: Any, sample_weight: Any) -> float:
        """Return the score of rows with these predictions."""
        booster, n_rows = self.booster_, len(predicted)
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
            from sklearn.metrics import d2_pinball_score

            target = check_vector(target_column(y), n_rows, "y")
            weight = check_weight(sample_weight, n_rows)
            scores = [
                d2_pinball_score(target, predicted[:, k], sample_weight=weight, alpha=level)
                for k, level in enumerate(levels)
            ]
            return sum(scores) / len(scores)
        return r2(type(self).__name__, y, predicted, sample_weight)

    def staged_predict(self, X: Any, offset: Any = None) -> Iterator[FloatArray]:
        """Yield the result of :meth:`predict` after each round."""
        booster = self._fitted_booster(X)
        return map(booster.link, self._staged_raw(booster, X, offset))
