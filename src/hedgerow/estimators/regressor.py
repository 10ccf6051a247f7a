"""The scikit-learn estimator for regression."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Never, Self

from sklearn.base import RegressorMixin

from hedgerow.arrays import FloatArray
from hedgerow.boosting.loop.sample import Sample, check_vector, check_weight, counted
from hedgerow.boosting.resume.continuing import targets_as_continued
from hedgerow.boosting.row_data.event_times import read_times
from hedgerow.boosting.row_data.groups import read_groups
from hedgerow.boosting.row_data.offsets import Offsets
from hedgerow.boosting.row_data.survival import SURVIVAL
from hedgerow.boosting.row_data.targets import (
    Targets,
    has_columns,
    read_targets,
    require_target,
    same_targets,
    target_column,
)
from hedgerow.boosting.validation.row_sets import ValidationRows, stacked, validation_sets
from hedgerow.data import Schema
from hedgerow.estimators.base import HedgerowEstimator
from hedgerow.estimators.docs import shared_texts
from hedgerow.estimators.hooks import with_hooks
from hedgerow.estimators.scores import r2
from hedgerow.estimators.snapshots import of_one_fit
from hedgerow.objectives import Objective, make_objective, objective_for
from hedgerow.params import CHECKPOINT_SECONDS
from hedgerow.peer_arguments import OF_ESTIMATORS_PREDICT, refuse_arguments

if TYPE_CHECKING:
    from hedgerow.objectives.distributions.predicted import Distribution
    from hedgerow.objectives.survival.aft import Distribution as TimeDistribution


def _skill_of_quantiles(
    levels: Sequence[float], prediction: FloatArray, y: Any, sample_weight: Any
) -> float:
    """Return the mean D2 of the columns of a prediction, one for each quantile."""
    from hedgerow.metrics.regression import skill_of_pinball

    target = check_vector(target_column(y), len(prediction), "y")
    weight = check_weight(sample_weight, len(prediction))
    scores = [
        skill_of_pinball(level)(target, prediction[:, k], weight) for k, level in enumerate(levels)
    ]
    return sum(scores) / len(scores)


@shared_texts
@dataclass(kw_only=True, eq=False, repr=False)
class HedgerowRegressor(RegressorMixin, HedgerowEstimator):
    """Gradient-boosted decision trees for regression.

    Parameters
    ----------
    <trees>
    objective : str, callable or object, default="auto"
        The loss to minimise; docs/objectives.md has a table.

        - Means: ``"squared_error"``, which is ``"auto"``.
        - Medians and outliers: ``"absolute_error"``, ``"huber"``, ``"pseudo_huber"``,
          ``"fair"``, ``"log_cosh"``.
        - Quantiles and expectiles: ``"quantile"``, ``"expectile"``.
        - Relative errors: ``"mape"``, ``"squared_log_error"``.
        - Counts and amounts: ``"poisson"``, ``"gamma"``, ``"tweedie"``.
        - Proportions in [0, 1]: ``"cross_entropy"``.
        - Times of events, which may be censored: ``"cox"``, ``"aft"``.
        - A distribution for each row (``predict_distribution``): ``"normal"``,
          ``"log_normal"``, ``"gamma_dist"``, ``"negative_binomial"``, ``"poisson"``.
        - A custom loss: a function ``loss(y, raw)`` of one row, or a function of all
          rows that returns gradient and hessian; see :mod:`hedgerow.objectives.custom.losses`.
    quantile : float in (0, 1), ascending sequence of such, or None, default=None
        Quantile to predict with ``objective="quantile"``; None means 0.5.  With a
        sequence, predictions have one column for each quantile, and the predicted
        quantiles of a row never cross.
    delta : float > 0, or None, default=None
        Distance from the target, in its units, where ``"huber"``, ``"pseudo_huber"`` and
        ``"fair"`` turn from a quadratic to a linear loss; None means 1.
    expectile : float in (0, 1), or None, default=None
        Expectile to predict with ``objective="expectile"``; None means 0.5, the mean.
    tweedie_power : float in (1, 2), or None, default=None
        With ``objective="tweedie"``, variance is proportional to this power of the mean.
        None means 1.5.
    aft_distribution : {"normal", "logistic", "extreme"} or None, default=None
        Distribution of the log of the time with ``objective="aft"``; None: ``"normal"``.
    aft_scale : float > 0, or None, default=None
        Scale of ``aft_distribution``; None means 1.
    eval_metric : str, callable, GroupedMetric, sequence of these, or None, default=None
        Metrics to record after each round: ``"loss"``, ``"rmse"``, ``"mae"``, ``"r2"``,
        ``"poisson_deviance"``, ``"pinball@0.9"`` and others (docs/metrics.md);
        ``"concordance"`` for times of events; ``"nll"`` and ``"crps"`` for distributions.
        The names of LightGBM, XGBoost and scikit-learn are accepted.  None means
        ``"loss"``.  A callable is a scikit-learn scorer, or a function of ``(y_true,
        prediction, weight)`` that returns a number; lower is better unless the function
        has a true attribute ``higher_is_better``.  Early stopping uses the first metric.
    <training>

    Attributes
    ----------
    <attributes>

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

    @with_hooks
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
        init_model: Any = None,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: float = CHECKPOINT_SECONDS,
    ) -> Self:
        """Train on X and y.

        A fit that fails, or that is interrupted during its first round, leaves the
        estimator unchanged.  An interrupt in a later round ends training and keeps the
        completed rounds.

        Parameters
        ----------
        <table>
        y : array-like of shape (n_rows,) or (n_rows, n_targets)
            Finite numbers.  Two or more columns are several targets
            (docs/several-targets.md).  ``"cox"`` and ``"aft"`` take times: either numbers,
            negative for censored rows, or a frame, structured array or dict with
            columns ``event`` (1 or True if the event happened) and ``time``.  ``"aft"``
            also takes columns ``lower`` and ``upper``, the ends of an interval that
            contains the time: 0 and infinity mean no limit.  See docs/objectives.md.
        <weights>
        <continuing>
        """
        params, stopping = self._params(), self._stopping()
        from hedgerow.io.checkpoint_folder import checkpoint_at

        kept = checkpoint_at(checkpoint, checkpoint_every)
        self._check_objective()
        start, _ = self._start(init_model)
        sets = validation_sets(X_val, y_val, sample_weight_val, offset_val)
        offsets = Offsets.of(X, offset)
        table = self._read(offsets.X, params, start)
        targets = self._targets(y, table.n_rows, "y")
        targets = targets_as_continued(targets, start, offset is not None)
        train = Sample(table, targets.values, check_weight(sample_weight, table.n_rows))
        objective = self._make_objective(targets, train.weight)
        train = offsets.on(train, objective.n_outputs)
        train = replace(train, group=read_groups(groups, train.n_rows))
        validation = stacked(
            {
                rows.name: self._validation_sample(
                    rows, offsets.of_rows(rows.X, rows.offset), table.schema, targets, objective
                )
                for rows in sets
            }
        )
        model = self._train(
            train, validation, objective, params, stopping, kept, start, offsets.noted
        )
        return self._adopt(model)

    def _make_objective(self, targets: Targets, weight: FloatArray | None) -> Objective:
        values, target = self._loss_values(), counted(targets.values, weight)
        return objective_for(self._chosen_objective, target, parameters=values, names=targets.names)

    def _validation_sample(
        self,
        rows: ValidationRows,
        offsets: Offsets,
        schema: Schema,
        targets: Targets,
        objective: Objective,
    ) -> Sample:
        """Read a validation set; ``offsets`` holds its table and its offset."""
        table = rows.read(offsets.X, schema, type(self).__name__)
        own_targets = self._targets(rows.y, table.n_rows, rows.called("y"), targets)
        target = same_targets(own_targets, targets, rows.called("y"))
        weight = check_weight(rows.weight, table.n_rows, rows.called("sample_weight"))
        sample = Sample(table, target, weight)
        return offsets.on(sample, objective.n_outputs, rows.called("offset"))

    def _targets(self, y: Any, n_rows: int, name: str, like: Targets | None = None) -> Targets:
        """Read targets; ``like`` holds the training targets."""
        require_target(y, type(self).__name__, name)
        if self.objective in SURVIVAL:
            intervals = like is not None and like.several
            times = read_times(y, n_rows, name, self.objective, intervals=intervals)
            return Targets(times, None)
        if has_columns(y):
            return read_targets(y, n_rows, name)
        return Targets(check_vector(target_column(y, name), n_rows, name), None)

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
        if self.objective in SURVIVAL:
            return self._concordance(self.predict(X), y, sample_weight)
        booster, predicted = self._fitted_booster(X), self.predict(X)
        levels = booster.model.training.get("quantile")
        if booster.target_names is not None:
            y = self._known_targets(booster, y, len(predicted))
        elif isinstance(levels, list):
            return _skill_of_quantiles(levels, predicted, y, sample_weight)
        return r2(type(self).__name__, y, predicted, sample_weight)

    def _concordance(self, prediction: FloatArray, y: Any, sample_weight: Any) -> float:
        assert isinstance(self.objective, str)
        target = read_times(y, len(prediction), "y", self.objective)
        weight = check_weight(sample_weight, len(prediction))
        from hedgerow.metrics import make_metrics

        (metric,) = make_metrics("concordance", make_objective(self.objective))
        return metric.function(target, prediction, weight)

    def staged_predict(self, X: Any, offset: Any = None) -> Iterator[FloatArray]:
        """Yield the result of :meth:`predict` after each round."""
        booster = self._fitted_booster(X)
        return map(booster.link, self._staged_raw(booster, X, offset))
