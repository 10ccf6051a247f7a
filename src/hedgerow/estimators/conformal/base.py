"""Base class of the conformal estimators: inner models, rows, groups, calibration."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.model_selection import KFold, check_cv
from sklearn.utils import _safe_indexing, get_tags, indexable
from sklearn.utils.validation import _num_samples, check_is_fitted, has_fit_parameter, validate_data

from hedgerow.argument_types import is_one_of
from hedgerow.arrays import AnyArray, FloatArray
from hedgerow.boosting.loop.sample import check_length, check_weight
from hedgerow.boosting.row_data.targets import has_columns, require_target, target_column
from hedgerow.cuda.arrays import on_host
from hedgerow.errors import DataError, DataTypeError, ParameterError, brief, did_you_mean
from hedgerow.estimators.common import seed_of
from hedgerow.estimators.conformal.scores import Calibration, check_enough, read_groups
from hedgerow.estimators.snapshots import in_one_assignment
from hedgerow.objectives.distributions.predicted import check_level

Rows = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class LabelledRows:
    """Rows for training or calibration."""

    X: Any
    target: AnyArray
    weight: FloatArray | None
    groups: AnyArray | None

    def part(self, rows: Rows) -> LabelledRows:
        """Select rows by position."""
        return LabelledRows(
            _safe_indexing(self.X, rows),
            self.target[rows],
            None if self.weight is None else self.weight[rows],
            None if self.groups is None else self.groups[rows],
        )


@dataclass(frozen=True, slots=True)
class Request:
    """Level, groups, number and weights of the rows to predict."""

    level: float
    groups: AnyArray | None
    n_rows: int
    weight: FloatArray | None


@dataclass(kw_only=True, eq=False, repr=False)
class ConformalEstimator(MetaEstimatorMixin, BaseEstimator, ABC):
    """Base of :class:`hedgerow.ConformalRegressor` and :class:`hedgerow.ConformalClassifier`."""

    estimator: Any = field(default=None, kw_only=False)
    method: str
    level: float = 0.9
    cv: Any = 5
    group: str | int | None = None
    random_state: int | np.random.RandomState | None = None

    estimator_: Any = field(init=False)
    calibration_: Calibration = field(init=False)
    _seed: int = field(init=False)
    _unit: float = field(init=False, default=1.0)
    """Common weight of all rows, by which weights are divided."""
    _folds: ClassVar[Any] = KFold
    """Splitter for a number of folds."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self._inner()).input_tags
        for name in ("allow_nan", "sparse", "categorical", "string", "dict"):
            setattr(tags.input_tags, name, getattr(inner, name, False))
        return tags

    @abstractmethod
    def _inner(self) -> Any:
        """Return the unfitted estimator of the predictions."""

    @abstractmethod
    def _scores(self, X: Any, y: AnyArray) -> FloatArray:
        """Return the nonconformity score of each row under the fitted model."""

    @abstractmethod
    def _check(self) -> None:
        """Raise for invalid parameters."""

    # -- input ------------------------------------------------------------------

    def _check_method(self, known: tuple[str, ...]) -> None:
        if not is_one_of(self.method, known):
            raise ParameterError(
                f"method must be one of {', '.join(map(repr, known))}; got {brief(self.method)}."
                f"{did_you_mean(self.method, known)}"
            )
        check_level(self.level)
        self._seed = seed_of(self.random_state)

    def _target(self, y: Any, n_rows: int) -> AnyArray:
        """Read the targets as a one-dimensional array."""
        require_target(y, type(self).__name__)
        if has_columns(y):
            raise DataError(
                f"{type(self).__name__} takes one target, but y has several columns: fit one for "
                "each column, y[:, k]."
            )
        found: AnyArray = target_column(y)
        check_length(len(found), n_rows, "y")
        return found

    def _read(self, X: Any, y: Any, sample_weight: Any, group: Any) -> LabelledRows:
        """Read a table whose rows can be selected, with targets, weights and groups."""
        X, y, sample_weight, group = map(on_host, (X, y, sample_weight, group))
        (X,) = indexable(X)
        n_rows = _rows_in(X)
        target, weight = self._target(y, n_rows), check_weight(sample_weight, n_rows)
        return LabelledRows(X, target, weight, self._groups(group, X, n_rows))

    def _splits(self, data: LabelledRows) -> list[tuple[Rows, Rows]]:
        """Return the training rows and the calibration rows of each fold."""
        cv: Any = self.cv
        if isinstance(cv, int | np.integer):
            n_rows = len(data.target)
            if isinstance(cv, bool) or cv < 2:
                raise ParameterError(
                    "cv must be an integer at least 2, a splitter, or pairs of row numbers; "
                    f"got {brief(cv)}."
                )
            if cv > n_rows:
                raise DataError(
                    f"cv={cv} needs at least {cv} rows; n_samples={n_rows}: use more rows."
                )
            cv = self._folds(int(cv), shuffle=True, random_state=self._seed % 2**32)
        try:
            return list(check_cv(cv).split(data.X, data.target))
        except ValueError as error:  # from the splitter, e.g. for a class with too few rows
            raise DataError(
                f"cv={brief(self.cv)} cannot divide these {len(data.target)} rows: {error} "
                "Give more rows, or a smaller cv."
            ) from error

    def _groups(self, group: Any, X: Any, n_rows: int) -> AnyArray | None:
        """Read the groups passed to a method, or the column named by the parameter."""
        return read_groups(self.group if group is None else group, X, n_rows)

    def _request(self, X: Any, level: float | None, group: Any, weight: Any) -> Request:
        """Read the arguments of a prediction."""
        n_rows = self._ready(X)
        used_level = self.level if level is None else level
        check_level(used_level)
        groups = self._groups_to_predict(group, X, n_rows)
        own = check_weight(weight, n_rows)
        if own is not None and any(known is None for known in self.calibration_.weights.values()):
            raise ParameterError(
                "sample_weight of the rows to predict is relative to the calibration weights, but "
                "the calibration rows had none: leave it out, or also pass sample_weight to fit "
                "or calibrate."
            )
        return Request(used_level, groups, n_rows, None if own is None else own / self._unit)

    def _groups_to_predict(self, group: Any, X: Any, n_rows: int) -> AnyArray | None:
        grouped = None not in self.calibration_.scores
        groups = self._groups(group, X, n_rows)
        if grouped and groups is None:
            raise DataError("the model was calibrated by groups: pass group= for these rows.")
        if not grouped and groups is not None:
            raise DataError("the model was calibrated without groups: leave group= out.")
        return groups

    # -- inner models -----------------------------------------------------------

    def _fitted(self, estimator: Any, data: LabelledRows) -> Any:
        """Fit an estimator and return it."""
        if data.weight is None:
            return estimator.fit(data.X, data.target)
        if not has_fit_parameter(estimator, "sample_weight"):
            raise ParameterError(
                f"fit of {type(estimator).__name__} does not support sample_weight: leave "
                "sample_weight out, or use another estimator."
            )
        return estimator.fit(data.X, data.target, sample_weight=data.weight)

    def _noted(self, X: Any) -> None:
        """Store the number and names of the columns, if X has them."""
        inner = self.estimator_
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(inner, name):
                setattr(self, name, getattr(inner, name))
            elif hasattr(self, name):
                delattr(self, name)
        if not hasattr(inner, "n_features_in_") and hasattr(X, "shape"):
            validate_data(self, X, skip_check_array=True)

    def _ready(self, X: Any) -> int:
        """Check a table to predict like scikit-learn, and return its number of rows."""
        check_is_fitted(self, "calibration_")
        if hasattr(X, "shape") and hasattr(self, "n_features_in_") and len(X.shape) == 2:
            try:
                validate_data(self, X, skip_check_array=True, reset=False)
            except ValueError as error:  # worded as scikit-learn requires
                raise DataError(*error.args) from None
        return _rows_in(X)

    @in_one_assignment
    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, group: Any = None) -> Self:
        """Train the model and calibrate it.

        Parameters
        ----------
        X : table, shape (n_rows, n_features)
            Any table that the estimator accepts and whose rows can be selected.
        y : array-like of shape (n_rows,)
            Targets; labels for a classifier.
        sample_weight : array-like of shape (n_rows,), optional
            Weights for training and calibration.  A row of weight 2 is twice as frequent
            among the rows to predict; a row of weight 0 is ignored.  Equal weights count
            as 1.
        group : array-like of shape (n_rows,), str or int, optional
            Groups of the rows, or the column of X that holds them.

        Returns
        -------
        self

        Raises
        ------
        DataError
            For invalid data, or too few calibration rows (of a group) for ``level``; the
            message says how many are needed.
        ParameterError
            For invalid parameters.
        """
        self._check()
        data = self._read(X, y, sample_weight, group)
        self._unit = common_weight(data.weight)
        if data.weight is not None:
            data = replace(data, weight=data.weight / self._unit)
        self._fit_splits(data, self._splits(data))
        self._noted(data.X)
        return self

    def _fit_splits(self, data: LabelledRows, splits: list[tuple[Rows, Rows]]) -> None:
        """Train on the training part of the first split, and calibrate on its test part."""
        train, held_out = splits[0]
        self._check_held_out(data, held_out)
        self._fit_model(data.part(train))
        self._calibrate(data.part(held_out))

    def _fit_model(self, data: LabelledRows) -> None:
        self.estimator_ = self._fitted(own(self._inner()), data)

    @in_one_assignment
    def calibrate(self, X: Any, y: Any, sample_weight: Any = None, *, group: Any = None) -> Self:
        """Calibrate a fitted model on rows that it was not trained on.

        The model comes from an earlier :meth:`fit`; otherwise it is the fitted ``estimator``.  New
        calibration rows replace earlier ones.

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
        data = self._read(X, y, sample_weight, group)
        if not hasattr(self, "estimator_"):
            check_is_fitted(self._inner())
            self._adopt_fitted()
        self._unit = 1.0
        self._calibrate(data)
        self._noted(data.X)
        return self

    def _check_calibrated_apart(self) -> None:
        """Raise if the method has no separate calibration rows."""

    def _adopt_fitted(self) -> None:
        """Use the fitted ``estimator`` as the model."""
        self.estimator_ = self._inner()

    def _calibrate(self, data: LabelledRows) -> None:
        self._keep(self._scores(data.X, data.target), data)

    def _keep(self, scores: FloatArray, data: LabelledRows) -> None:
        """Store the scores of the calibration rows."""
        calibration = Calibration.of(scores, data.weight, data.groups)
        calibration.check(self.level)
        self.calibration_ = calibration

    def _check_held_out(self, data: LabelledRows, held_out: Rows) -> None:
        """Raise, before a model is trained, if there are too few calibration rows."""
        if data.weight is not None:
            held_out = held_out[data.weight[held_out] > 0.0]
        if data.groups is None:
            check_enough(len(held_out), self.level, None)
            return
        counts = Counter(data.groups[held_out].tolist())
        for name in dict.fromkeys(data.groups.tolist()):
            check_enough(counts[name], self.level, name)


def common_weight(weight: FloatArray | None) -> float:
    """Return the common weight of all rows with positive weight, or 1 if weights differ.

    Equal weights carry no information, so models are then trained without weights.
    Different weights are used as they are: a row of weight 3 counts as three rows.
    """
    if weight is None:
        return 1.0
    present = weight[weight > 0.0]
    return float(present[0]) if (present == present[0]).all() else 1.0


def own(estimator: Any) -> Any:
    """Return an unfitted copy of an estimator."""
    return clone(estimator)


def _rows_in(X: Any) -> int:
    """Return the number of rows of a table; raise ``DataTypeError`` if X is none."""
    try:
        return int(_num_samples(X))
    except TypeError:
        raise DataTypeError(f"X must be a table of rows and columns; got {brief(X)}.") from None
