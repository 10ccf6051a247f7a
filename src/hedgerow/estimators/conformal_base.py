"""What conformal regressors and classifiers share: inner models, rows, groups, calibration."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.model_selection import KFold, check_cv
from sklearn.utils import _safe_indexing, get_tags, indexable
from sklearn.utils.validation import (
    _num_samples,
    check_is_fitted,
    column_or_1d,
    has_fit_parameter,
    validate_data,
)

from hedgerow.arrays import AnyArray, FloatArray
from hedgerow.boosting.loop.sample import check_length, check_weight
from hedgerow.boosting.row_data.targets import has_columns, one_column
from hedgerow.errors import DataError, ParameterError, did_you_mean
from hedgerow.estimators.common import seed_of
from hedgerow.estimators.conformal_scores import Calibration, check_enough, read_groups
from hedgerow.objectives.distributions import check_level

Rows = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class GivenRows:
    """Rows that are given to a fit or a calibration."""

    X: Any
    target: AnyArray
    weight: FloatArray | None
    groups: AnyArray | None

    def part(self, rows: Rows) -> GivenRows:
        """Some of the rows."""
        return GivenRows(
            _safe_indexing(self.X, rows),
            self.target[rows],
            None if self.weight is None else self.weight[rows],
            None if self.groups is None else self.groups[rows],
        )


@dataclass(frozen=True, slots=True)
class Asked:
    """Level, groups, number and weights of the rows to predict."""

    level: float
    groups: AnyArray | None
    n_rows: int
    weight: FloatArray | None


class ConformalEstimator(MetaEstimatorMixin, BaseEstimator, ABC):
    """Base of :class:`hedgerow.ConformalRegressor` and :class:`hedgerow.ConformalClassifier`."""

    estimator: Any
    method: str
    level: float
    cv: Any
    group: Any
    random_state: Any

    estimator_: Any
    calibration_: Calibration
    _seed: int
    _unit: float = 1.0
    """The weight that all rows share, by which weights are divided."""
    _folds: ClassVar[Any] = KFold
    """The splitter of a number of folds."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self._inner()).input_tags
        for name in ("allow_nan", "sparse", "categorical", "string", "dict"):
            setattr(tags.input_tags, name, getattr(inner, name, False))
        return tags

    @abstractmethod
    def _inner(self) -> Any:
        """The estimator that makes predictions, not fitted."""

    @abstractmethod
    def _scores(self, X: Any, y: AnyArray) -> FloatArray:
        """How badly the fitted model predicts each row."""

    @abstractmethod
    def _check(self) -> None:
        """Raise for parameters that are wrong."""

    # -- what is given --------------------------------------------------------

    def _check_method(self, known: tuple[str, ...]) -> None:
        if self.method not in known:
            raise ParameterError(
                f"method must be one of {', '.join(map(repr, known))}; got {self.method!r}."
                f"{did_you_mean(str(self.method), known)}"
            )
        check_level(self.level)
        self._seed = seed_of(self.random_state)

    def _target(self, y: Any, n_rows: int) -> AnyArray:
        """Targets as an array of one dimension."""
        if y is None:
            raise DataError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y "
                "is None."
            )
        if has_columns(y):
            raise DataError(
                f"{type(self).__name__} takes one target, but y has several columns: fit one for "
                "each column, y[:, k]."
            )
        found: AnyArray = column_or_1d(one_column(y), warn=True)
        check_length(len(found), n_rows, "y")
        return found

    def _read(self, X: Any, y: Any, sample_weight: Any, group: Any) -> GivenRows:
        """A table whose rows can be picked, targets, weights and groups."""
        (X,) = indexable(X)
        n_rows = int(_num_samples(X))
        target, weight = self._target(y, n_rows), check_weight(sample_weight, n_rows)
        return GivenRows(X, target, weight, self._groups(group, X, n_rows))

    def _splits(self, given: GivenRows) -> list[tuple[Rows, Rows]]:
        """Rows to train and to calibrate on, by fold."""
        cv: Any = self.cv
        if isinstance(cv, int | np.integer):
            n_rows = len(given.target)
            if isinstance(cv, bool) or cv < 2:
                raise ParameterError(
                    "cv must be an integer at least 2, a splitter, or pairs of row numbers; "
                    f"got {cv!r}."
                )
            if cv > n_rows:
                raise DataError(f"cv={cv} needs as many rows; n_samples={n_rows}: give more rows.")
            cv = self._folds(int(cv), shuffle=True, random_state=self._seed % 2**32)
        try:
            return list(check_cv(cv).split(given.X, given.target))
        except ValueError as error:  # of the splitter, as of classes with too few rows
            raise DataError(
                f"cv={self.cv!r} cannot divide these {len(given.target)} rows: {error} "
                "Give more rows, or a smaller cv."
            ) from error

    def _groups(self, given: Any, X: Any, n_rows: int) -> AnyArray | None:
        """Groups given in a call; by default the column that ``group`` names."""
        return read_groups(self.group if given is None else given, X, n_rows)

    def _asked(self, X: Any, level: float | None, group: Any, weight: Any) -> Asked:
        """What is asked of the rows to predict."""
        n_rows = self._ready(X)
        asked = self.level if level is None else level
        check_level(asked)
        groups = self._groups_to_predict(group, X, n_rows)
        own = check_weight(weight, n_rows)
        if own is not None and any(known is None for known in self.calibration_.weights.values()):
            raise ParameterError(
                "sample_weight of the rows to predict is relative to that of the calibration rows, "
                "which had none: leave it out, or give fit or calibrate a sample_weight, too."
            )
        return Asked(asked, groups, n_rows, None if own is None else own / self._unit)

    def _groups_to_predict(self, given: Any, X: Any, n_rows: int) -> AnyArray | None:
        grouped = None not in self.calibration_.scores
        groups = self._groups(given, X, n_rows)
        if grouped and groups is None:
            raise DataError("the model was calibrated by groups: give group= of the rows, too.")
        if not grouped and groups is not None:
            raise DataError("the model was calibrated without groups: leave group= out.")
        return groups

    # -- inner models -----------------------------------------------------------

    def _fitted(self, estimator: Any, given: GivenRows) -> Any:
        """The estimator itself, fitted."""
        if given.weight is None:
            return estimator.fit(given.X, given.target)
        if not has_fit_parameter(estimator, "sample_weight"):
            raise ParameterError(
                f"sample_weight is given, but fit of {type(estimator).__name__} takes none: leave "
                "it out, or use another estimator."
            )
        return estimator.fit(given.X, given.target, sample_weight=given.weight)

    def _noted(self, X: Any) -> None:
        """Keep number and names of the columns, where X is a table with them."""
        inner = self.estimator_
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(inner, name):
                setattr(self, name, getattr(inner, name))
            elif hasattr(self, name):
                delattr(self, name)
        if not hasattr(inner, "n_features_in_") and hasattr(X, "shape"):
            validate_data(self, X, skip_check_array=True)

    def _ready(self, X: Any) -> int:
        """Number of rows of a table to predict, after scikit-learn's checks."""
        check_is_fitted(self, "calibration_")
        if hasattr(X, "shape") and hasattr(self, "n_features_in_") and len(X.shape) == 2:
            validate_data(self, X, skip_check_array=True, reset=False)
        return int(_num_samples(X))

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, group: Any = None) -> Self:
        """Train the model and calibrate it.

        Parameters
        ----------
        X : table, shape (n_rows, n_features)
            Whatever the estimator takes, if rows can be picked from it.
        y : array-like of shape (n_rows,)
            Targets; labels for a classifier.
        sample_weight : array-like of shape (n_rows,), optional
            For training and for calibration: rows of weight 2 come up twice as often
            among those to predict; rows of weight 0 count as absent.  Weights that are all
            equal count as 1, each.
        group : array-like of shape (n_rows,), str or int, optional
            Groups of the rows, or the column of X that holds them.

        Returns
        -------
        self

        Raises
        ------
        DataError
            If data cannot be used, or if the calibration rows (of a group) are too few
            for ``level``: it says how many are needed.
        ParameterError
        """
        self._check()
        given = self._read(X, y, sample_weight, group)
        self._unit = common_weight(given.weight)
        if given.weight is not None:
            given = replace(given, weight=given.weight / self._unit)
        self._fit_splits(given, self._splits(given))
        self._noted(given.X)
        return self

    def _fit_splits(self, given: GivenRows, splits: list[tuple[Rows, Rows]]) -> None:
        """Train on the first training part, calibrate on its test part."""
        train, held = splits[0]
        self._check_held(given, held)
        self._fit_model(given.part(train))
        self._calibrate(given.part(held))

    def _fit_model(self, given: GivenRows) -> None:
        self.estimator_ = self._fitted(own(self._inner()), given)

    def calibrate(self, X: Any, y: Any, sample_weight: Any = None, *, group: Any = None) -> Self:
        """Calibrate a fitted model on rows that it has not been trained on.

        The model is that of an earlier :meth:`fit`, or ``estimator`` itself, which then
        must be fitted.  Earlier calibration rows are forgotten.

        Parameters
        ----------
        X : table, shape (n_rows, n_features)
        y : array-like of shape (n_rows,)
        sample_weight : array-like of shape (n_rows,), optional
        group : array-like of shape (n_rows,), str or int, optional
            Groups of the rows, or the column of X that holds them.

        Returns
        -------
        self

        Raises
        ------
        NotFittedError
            If there is no fitted model.
        DataError
            If there are too few rows for ``level``.
        """
        self._check()
        self._check_calibrated_apart()
        given = self._read(X, y, sample_weight, group)
        if not hasattr(self, "estimator_"):
            check_is_fitted(self._inner())
            self._adopt_fitted()
        self._unit = 1.0
        self._calibrate(given)
        self._noted(given.X)
        return self

    def _check_calibrated_apart(self) -> None:
        """Raise if the method has no calibration rows of its own."""

    def _adopt_fitted(self) -> None:
        """Take the fitted ``estimator`` as the model."""
        self.estimator_ = self._inner()

    def _calibrate(self, given: GivenRows) -> None:
        self._keep(self._scores(given.X, given.target), given)

    def _keep(self, scores: FloatArray, given: GivenRows) -> None:
        """Keep the scores of the calibration rows."""
        found = Calibration.of(scores, given.weight, given.groups)
        found.check(self.level)
        self.calibration_ = found

    def _check_held(self, given: GivenRows, held: Rows) -> None:
        """Raise, before a model is trained, if the rows to calibrate on are too few."""
        if given.weight is not None:
            held = held[given.weight[held] > 0.0]
        if given.groups is None:
            check_enough(len(held), self.level, None)
            return
        counts = Counter(given.groups[held].tolist())
        for name in dict.fromkeys(given.groups.tolist()):
            check_enough(counts[name], self.level, name)


def common_weight(weight: FloatArray | None) -> float:
    """The weight of all rows whose weight is not 0, or 1 if their weights differ.

    Equal weights say nothing about which rows come up more often, so the models are trained
    as without weights.  Weights that differ are left as they are: a row of weight 3 trains
    the models as three rows do.
    """
    if weight is None:
        return 1.0
    present = weight[weight > 0.0]
    return float(present[0]) if (present == present[0]).all() else 1.0


def own(estimator: Any) -> Any:
    """A copy without what was learned."""
    return clone(estimator)


__all__ = ["Asked", "ConformalEstimator", "GivenRows", "Rows", "own"]
