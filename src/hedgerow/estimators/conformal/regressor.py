"""Conformal prediction intervals for any regressor.

Let m(x) be the prediction, s(x) a predicted spread, and t a threshold from calibration rows:

==============  ====================================  ======================================
method          score of a row                        interval
==============  ====================================  ======================================
``split``       ``|y - m|``                           ``m - t`` to ``m + t``
``normalized``  ``|y - m| / s``                       ``m - t s`` to ``m + t s``
``cqr``         ``max(low - y, y - high)`` of         ``low - t`` to ``high + t``
                predicted quantiles low, high
``cv_plus``     ``|y - m_k|`` of the model m_k of     quantiles of ``m_k(x) - score`` and
                the fold that leaves the row out      ``m_k(x) + score`` over all rows
==============  ====================================  ======================================

Sources: Lei et al. 2018 (split, normalized), Romano, Patterson and Candes 2019 (cqr),
Barber et al. 2021 (CV+).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.utils import _safe_indexing

from hedgerow.arrays import AnyArray, FloatArray
from hedgerow.boosting.loop.sample import check_vector
from hedgerow.errors import DataError, ParameterError
from hedgerow.estimators.conformal.base import ConformalEstimator, LabelledRows, Request, Rows, own
from hedgerow.estimators.conformal.scores import (
    check_enough,
    check_known,
    rows_by_group,
    thresholds_by_column,
)
from hedgerow.estimators.cross import cross_fit
from hedgerow.estimators.regressor import HedgerowRegressor
from hedgerow.estimators.scores import CheckedScores
from hedgerow.estimators.snapshots import of_one_fit
from hedgerow.objectives.catalogue import DISTRIBUTIONAL

RegressionMethod = Literal["split", "normalized", "cqr", "cv_plus"]
_METHODS = ("split", "normalized", "cqr", "cv_plus")

_LEAST_SPREAD = 0.01
"""Lower bound of predicted spreads, as a fraction of their mean: they must be positive."""
_BLOCK_CELLS = 4_000_000
"""Most pairs of calibration rows and predicted rows in a block."""


@dataclass(kw_only=True, eq=False, repr=False)
class ConformalRegressor(CheckedScores, RegressorMixin, ConformalEstimator):
    """Prediction intervals for any regressor, with guaranteed coverage.

    An interval contains the target with probability at least ``level`` if the rows to
    predict have the same distribution as the calibration rows, however good the model is.
    For ``"cv_plus"`` the guarantee is ``2 level - 1``; in practice it reaches ``level``.  The
    guarantee is an average over all rows; with ``group`` it holds in each group.

    Parameters
    ----------
    estimator : regressor or None, default=None
        Any scikit-learn regressor; None means :class:`HedgerowRegressor`.  It must be
        fitted to use :meth:`calibrate` without :meth:`fit`.
    method : {"split", "normalized", "cqr", "cv_plus"}, default="split"
        ``"split"``: all intervals have the same width.  ``"normalized"``: the width is
        proportional to a predicted spread.  The spread is the standard deviation if the
        estimator predicts distributions (``objective="normal"``, ...), otherwise the
        absolute residual predicted by ``scale_estimator``.  ``"cqr"``: predicted quantiles
        are shifted.  ``"normalized"`` and ``"cqr"`` give wide intervals for uncertain rows.
        ``"cv_plus"``: all rows are used for training and calibration, with one model for
        each fold; for small data.
    level : float in (0, 1), default=0.9
        Probability that an interval contains the target.
    cv : int >= 2, splitter or iterable of (train, test), default=5
        Folds of ``"cv_plus"``.  The other methods train on the training part of the first
        split and calibrate on its test part, by default a random fifth of the rows.
    scale_estimator : regressor or None, default=None
        Estimator of absolute residuals for ``method="normalized"``, fitted to out-of-fold
        residuals of the training part.  None means a copy of ``estimator``, unless that
        predicts distributions.
    group : str, int or None, default=None
        Column of X whose values are groups, in each of which coverage holds.  Groups that
        are not a column can be passed to :meth:`fit` and :meth:`predict_interval`.
    random_state : int, RandomState or None, default=None
        Seed of the folds; None means 0.

    Attributes
    ----------
    estimator_ : regressor
        Model of the predictions.  For ``"cv_plus"`` it is fitted to all rows.
    estimators_ : list of regressors
        For ``"cv_plus"`` the models of the folds.  For ``"cqr"``, if the estimator predicts
        one quantile at a time, the models of the lower, middle and upper quantile.
    scale_estimator_ : regressor
        Model of the spread for ``"normalized"``, unless ``estimator_`` predicts it.
    calibration_ : Calibration
        Scores of the calibration rows.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        As in ``estimator_``, if it has them.

    Examples
    --------
    >>> import numpy as np
    >>> from hedgerow import ConformalRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2.0, 2.0, size=(600, 1))
    >>> y = np.sin(X[:, 0]) + 0.2 * rng.normal(size=600)
    >>> model = ConformalRegressor(level=0.8).fit(X[:400], y[:400])
    >>> low, high = model.predict_interval(X[400:]).T
    >>> bool(0.7 < np.mean((low <= y[400:]) & (y[400:] <= high)) < 0.9)
    True
    """

    method: RegressionMethod = "split"
    scale_estimator: Any = None

    def _inner(self) -> Any:
        return HedgerowRegressor() if self.estimator is None else self.estimator

    def _check(self) -> None:
        self._check_method(_METHODS)
        if self.scale_estimator is not None and self.method != "normalized":
            raise ParameterError(
                f"scale_estimator has no effect with method={self.method!r}: use "
                "method='normalized', or leave it at None."
            )

    def _target(self, y: Any, n_rows: int) -> FloatArray:
        return check_vector(super()._target(y, n_rows), n_rows, "y")

    # -- training ----------------------------------------------------------------

    def _fit_splits(self, data: LabelledRows, splits: list[tuple[Rows, Rows]]) -> None:
        if self.method == "cv_plus":
            self._fit_folds(data, splits)
        else:
            super()._fit_splits(data, splits)

    def _fit_model(self, data: LabelledRows) -> None:
        for name in ("estimators_", "scale_estimator_"):
            self.__dict__.pop(name, None)
        if self.method == "cqr":
            self._fit_quantiles(data)
            return
        super()._fit_model(data)
        if self.method == "normalized" and not self._predicts_spread():
            self._fit_scale(data)

    def _predicts_spread(self) -> bool:
        """Return whether the estimator itself predicts the spread of targets."""
        if self.scale_estimator is not None:
            return False
        return getattr(self._inner(), "objective", None) in DISTRIBUTIONAL and hasattr(
            self.estimator_, "predict_distribution"
        )

    def _fit_scale(self, data: LabelledRows) -> None:
        """Fit a model of the absolute out-of-fold residuals."""
        params = None if data.weight is None else {"sample_weight": data.weight}
        folds = KFold(min(5, len(data.target)), shuffle=True, random_state=0)
        out_of_fold = cross_val_predict(
            own(self._inner()), data.X, data.target, cv=folds, params=params
        )
        far = np.abs(data.target - out_of_fold)
        inner = self._inner() if self.scale_estimator is None else self.scale_estimator
        self.scale_estimator_ = self._fitted(own(inner), replace(data, target=far))
        self._least_spread = max(_LEAST_SPREAD * float(far.mean()), 1e-300)

    def _fit_quantiles(self, data: LabelledRows) -> None:
        low = 0.5 * (1.0 - self.level)
        levels = [low, 0.5, 1.0 - low]
        inner = self._inner()
        if isinstance(inner, HedgerowRegressor):
            model = own(inner).set_params(objective="quantile", quantile=levels)
            self.estimator_ = self._fitted(model, data)
            return
        name = _quantile_name(inner)
        self.estimators_ = [
            self._fitted(own(inner).set_params(**{name: level}), data) for level in levels
        ]
        self.estimator_ = self.estimators_[1]

    def _fit_folds(self, data: LabelledRows, splits: list[tuple[Rows, Rows]]) -> None:
        tested = np.concatenate([test for _, test in splits])
        self._check_held_out(data, tested)
        models = self._fold_models(data, splits)
        scores = [
            np.abs(data.target[test] - self._predicted(model, _safe_indexing(data.X, test)))
            for model, (_, test) in zip(models, splits, strict=True)
        ]
        self.__dict__.pop("scale_estimator_", None)
        super()._fit_model(data)
        self.estimators_ = models
        held_out = data.part(tested)
        self._fold = np.repeat(np.arange(len(splits)), [len(test) for _, test in splits])
        self._row_scores = np.concatenate(scores)
        self._row_weight, self._row_groups = held_out.weight, held_out.groups
        self._keep(self._row_scores, held_out)

    def _fold_models(self, data: LabelledRows, splits: list[tuple[Rows, Rows]]) -> list[Any]:
        """Train a model for each fold; boosted trees of all folds share a binned table."""
        inner = self._inner()
        if type(inner) is not HedgerowRegressor or inner.early_stopping is not False:
            # Early stopping of all folds together would use the calibration rows.
            return [self._fitted(own(inner), data.part(train)) for train, _ in splits]
        found = cross_fit(
            own(inner), data.X, data.target, splits, sample_weight=data.weight, model=None
        )
        return [own(inner)._adopt(booster.model) for booster in found.boosters]  # noqa: SLF001

    def _check_calibrated_apart(self) -> None:
        if self.method == "cv_plus":
            raise ParameterError(
                "method='cv_plus' calibrates on the rows that it trains on: use fit, or "
                "method='split' for a fitted model."
            )

    def _adopt_fitted(self) -> None:
        super()._adopt_fitted()
        if self.method == "normalized" and not self._predicts_spread():
            raise ParameterError(
                "method='normalized' needs a fitted model that predicts distributions "
                f"(HedgerowRegressor with objective {', '.join(map(repr, DISTRIBUTIONAL))}). For "
                "other models use fit, which also trains a model of the residuals."
            )

    # -- prediction --------------------------------------------------------------

    @staticmethod
    def _predicted(model: Any, X: Any) -> FloatArray:
        found = np.asarray(model.predict(X), dtype=np.float64)
        if found.ndim != 1:
            raise DataError(
                f"{type(model).__name__} predicts {found.shape[1]} numbers for a row: only "
                "method='cqr' supports several, which must be quantiles."
            )
        return found

    def _band(self, X: Any) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the ends of each interval before calibration, and the unit of the scores."""
        if self.method == "cqr":
            low, high = self._quantiles(X)[:, [0, -1]].T
            return low, high, np.ones(len(low))
        if self.method == "normalized" and self._predicts_spread():
            found = self.estimator_.predict_distribution(X)
            return found.mean, found.mean, np.maximum(found.std, 1e-300)
        middle = self._predicted(self.estimator_, X)
        if self.method == "split":
            return middle, middle, np.ones(len(middle))
        spread = self._predicted(self.scale_estimator_, X)
        return middle, middle, np.maximum(spread, self._least_spread)

    def _quantiles(self, X: Any) -> FloatArray:
        models = getattr(self, "estimators_", None)
        if models is not None:
            return np.sort(np.column_stack([model.predict(X) for model in models]), axis=1)
        found = np.asarray(self.estimator_.predict(X), dtype=np.float64)
        if found.ndim != 2 or found.shape[1] < 2:
            raise DataError(
                f"method='cqr' needs quantiles, two columns or more in ascending order; "
                f"{type(self.estimator_).__name__} predicts one number for a row: train it with "
                "objective='quantile' and several levels."
            )
        return found

    def _scores(self, X: Any, y: AnyArray) -> FloatArray:
        low, high, unit = self._band(X)
        return np.maximum(low - y, y - high) / unit

    @of_one_fit
    def predict(self, X: Any) -> FloatArray:
        """Return the predictions of ``estimator_``; for ``"cqr"`` the median.

        Parameters
        ----------
        X : table, shape (n_rows, n_features)

        Returns
        -------
        ndarray of float64, shape (n_rows,)
        """
        self._ready(X)
        if self.method == "cqr" and not hasattr(self, "estimators_"):
            found = self._quantiles(X)
            middle = found.shape[1] // 2
            return found[:, middle] if found.shape[1] % 2 else 0.5 * found[:, [0, -1]].sum(axis=1)
        return self._predicted(self.estimator_, X)

    @of_one_fit
    def predict_interval(
        self,
        X: Any,
        level: float | None = None,
        *,
        group: Any = None,
        sample_weight: Any = None,
    ) -> FloatArray:
        """Return the interval of each row.

        Parameters
        ----------
        X : table, shape (n_rows, n_features)
        level : float in (0, 1), optional
            Level to use instead of the constructor's.  ``"cqr"`` still shifts the
            quantiles that it was trained for.
        group : array-like of shape (n_rows,), str or int, optional
            Groups of the rows, if the model was calibrated by groups.
        sample_weight : array-like of shape (n_rows,), optional
            Weights of the rows, on the scale of the calibration weights.  Coverage then holds
            for rows distributed according to the weights.  Without them, a model calibrated
            with weights uses the expected weight for each row, and has no guarantee.

        Returns
        -------
        ndarray of float64, shape (n_rows, 2)
            Lower and upper ends.  They are infinite for a row whose own weight is a fraction
            of ``1 - level`` or more of the weight of all calibration rows and the row.

        Raises
        ------
        DataError
            If a group is new, or there are too few calibration rows for the level.
        """
        request = self._request(X, level, group, sample_weight)
        if self.method == "cv_plus":
            return self._fold_intervals(X, request)
        low, high, unit = self._band(X)
        threshold = unit * self.calibration_.thresholds(
            request.level, request.groups, request.n_rows, request.weight
        )
        low, high = low - threshold, high + threshold
        # A negative threshold can make the ends cross: the interval is then a point.
        with np.errstate(invalid="ignore"):
            crossed = low > high
            middle = np.where(crossed, 0.5 * low + 0.5 * high, low)
        return np.column_stack([middle, np.where(crossed, middle, high)])

    def _fold_intervals(self, X: Any, request: Request) -> FloatArray:
        by_fold = np.stack([self._predicted(model, X) for model in self.estimators_])
        known = rows_by_group(self._row_groups, len(self._fold))
        found, level = np.empty((request.n_rows, 2)), request.level
        for name, rows in rows_by_group(request.groups, request.n_rows).items():
            check_known(name, known)
            members = known[name]
            if self._row_weight is not None:
                members = members[self._row_weight[members] > 0.0]
            check_enough(len(members), level, name)
            block = max(1, _BLOCK_CELLS // len(members))
            for start in range(0, len(rows), block):
                some = rows[start : start + block]
                own = None if request.weight is None else request.weight[some]
                found[some] = self._ends_of(by_fold[:, some], members, level, own)
        return found

    def _ends_of(
        self, by_fold: FloatArray, members: Rows, level: float, own: FloatArray | None
    ) -> FloatArray:
        centre = by_fold[self._fold[members]]
        score = self._row_scores[members][:, None]
        weight = None if self._row_weight is None else self._row_weight[members]
        low = -thresholds_by_column(score - centre, level, weight, own)
        return np.column_stack([low, thresholds_by_column(centre + score, level, weight, own)])


def _quantile_name(estimator: Any) -> str:
    """Return the parameter of an estimator, or of a step of it, for the quantile to predict."""
    params = estimator.get_params(deep=True)
    for name in params:
        step, _, last = name.rpartition("__")
        before = f"{step}__" if step else ""
        loss = params.get(f"{before}loss", params.get(f"{before}objective"))
        if last == "quantile" and loss in (None, "quantile"):
            return str(name)
        if last == "alpha" and loss == "quantile":
            return str(name)
    raise ParameterError(
        f"method='cqr' needs an estimator of quantiles; {type(estimator).__name__} does not "
        "predict them with its current parameters: use HedgerowRegressor, or set its loss to "
        "'quantile' (its parameter 'quantile' or 'alpha' is then set automatically)."
    )
