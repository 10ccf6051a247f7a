"""Conformal prediction sets for any classifier with probabilities.

Let p be the predicted probability of a class, with classes sorted by it:

========  ===========================================================================
method    score of a class
========  ===========================================================================
``lac``   ``1 - p``
``aps``   sum of the larger probabilities, plus a random fraction of p
``raps``  as ``aps``, plus ``raps_penalty`` for each class beyond ``raps_rank``
========  ===========================================================================

The set of a row holds the classes whose score is at most the threshold.  ``lac`` gives the
smallest sets on average, but they may be too small for difficult rows.  ``aps`` adapts the
size to the row.  ``raps`` cuts off the long tails of ``aps``.

The random fraction of a row is a hash of its probabilities, so the set of a row does not
depend on other rows.  Scores are then fixed functions of row and class, which is all that
coverage needs.

Sources: Sadinle, Lei and Wasserman 2019; Romano, Sesia and Candes 2020; Angelopoulos et
al. 2021.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.model_selection import StratifiedKFold

from hedgerow.argument_types import check_bool
from hedgerow.arrays import AnyArray, BoolArray, FloatArray
from hedgerow.errors import DataError, ParameterError, brief
from hedgerow.estimators import labels
from hedgerow.estimators.classifier import HedgerowClassifier
from hedgerow.estimators.conformal.base import ConformalEstimator
from hedgerow.estimators.scores import CheckedScores
from hedgerow.estimators.snapshots import of_one_fit
from hedgerow.params import Interval

ClassMethod = Literal["lac", "aps", "raps"]
_METHODS = ("lac", "aps", "raps")
_PENALTY, _RANK = 0.05, 2


@dataclass(kw_only=True, eq=False, repr=False)
class ConformalClassifier(CheckedScores, ClassifierMixin, ConformalEstimator):
    """Prediction sets for any classifier, with guaranteed coverage.

    A set contains the true class with probability at least ``level`` if the rows to predict
    have the same distribution as the calibration rows, however good the probabilities are.
    The guarantee is an average over all rows; with ``group`` it holds in each group.

    Parameters
    ----------
    estimator : classifier or None, default=None
        Any scikit-learn classifier with ``predict_proba``; None means
        :class:`HedgerowClassifier`.  It must be fitted to use :meth:`calibrate` without
        :meth:`fit`.
    method : {"lac", "aps", "raps"}, default="lac"
        ``"lac"``: the smallest sets on average.  ``"aps"``: larger sets for difficult rows.
        ``"raps"``: as ``"aps"``, without long tails of improbable classes.
    level : float in (0, 1), default=0.9
        Probability that a set contains the true class.
    cv : int >= 2, splitter or iterable of (train, test), default=5
        The first split is used: its training part for training, its test part for
        calibration.  By default a random fifth of the rows of each class calibrates.
    allow_empty : bool, default=True
        Whether a set may be empty if no class is probable enough.  With False every set
        contains the most probable class, and coverage is slightly higher.
    raps_penalty : float >= 0, or None, default=None
        With ``method="raps"``: penalty on the score of each class beyond ``raps_rank``; None
        means 0.05.
    raps_rank : int >= 0, or None, default=None
        With ``method="raps"``: number of classes without penalty; None means 2.
    group : str, int or None, default=None
        Column of X whose values are groups, in each of which coverage holds.  Groups that
        are not a column can be passed to :meth:`fit` and :meth:`predict_set`.
    random_state : int, RandomState or None, default=None
        Seed of the calibration rows and of the random fractions; None means 0.

    Attributes
    ----------
    estimator_ : classifier
    classes_ : ndarray of shape (n_classes,)
    calibration_ : Calibration
        Scores of the calibration rows.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        As in ``estimator_``, if it has them.

    Examples
    --------
    >>> from hedgerow import ConformalClassifier
    >>> from hedgerow.datasets import load_pima
    >>> X, y, _, _ = load_pima()
    >>> model = ConformalClassifier(level=0.8).fit(X[:600], y[:600])
    >>> sets = model.predict_set(X[600:])
    >>> sets.shape, bool(0.7 < sets[range(168), y[600:].astype(int)].mean() < 0.9)
    ((168, 2), True)
    """

    method: ClassMethod = "lac"
    allow_empty: bool = True
    raps_penalty: float | None = None
    raps_rank: int | None = None

    classes_: AnyArray = field(init=False)
    _folds: ClassVar[Any] = StratifiedKFold

    def _inner(self) -> Any:
        return HedgerowClassifier() if self.estimator is None else self.estimator

    def _check(self) -> None:
        self._check_method(_METHODS)
        allowed = {
            "raps_penalty": Interval(0.0, np.inf),
            "raps_rank": Interval(0, np.inf, integer=True),
        }
        for name, interval in allowed.items():
            value = getattr(self, name)
            if value is None:
                continue
            if self.method != "raps":
                raise ParameterError(
                    f"{name}={brief(value)} has no effect with method={self.method!r}: use "
                    f"method='raps', or leave {name} at None."
                )
            if value not in interval:
                raise ParameterError(f"{name} must be {interval}; got {brief(value)}.")
        check_bool(self.allow_empty, "allow_empty")

    def _target(self, y: Any, n_rows: int) -> AnyArray:
        return labels.read_labels(super()._target(y, n_rows), n_rows, "y", type(self).__name__)

    def _scores(self, X: Any, y: AnyArray) -> FloatArray:
        """Return the scores of the true classes; infinite for classes unknown to the model."""
        self.classes_ = self.estimator_.classes_
        place = {label: k for k, label in enumerate(self.classes_.tolist())}
        column = np.array([place.get(label, -1) for label in y.tolist()], dtype=np.intp)
        if (column < 0).all():
            raise DataError(
                f"the labels of the calibration rows, such as {brief(y[0])}, are not classes of "
                f"the model, which has {', '.join(map(repr, list(place)[:10]))}."
            )
        scores = self._class_scores(self.estimator_.predict_proba(X))
        found = scores[np.arange(len(column)), column]
        return np.where(column < 0, np.inf, found)

    def _class_scores(self, probability: Any) -> FloatArray:
        """Return the score of each class of each row, float64 (n_rows, n_classes)."""
        p = np.ascontiguousarray(probability, dtype=np.float64)
        if self.method == "lac":
            return 1.0 - p
        order = np.argsort(-p, axis=1, kind="stable")
        ordered = np.take_along_axis(p, order, axis=1)
        before = np.cumsum(ordered, axis=1) - ordered
        found = before + row_shares(p, self._seed)[:, None] * ordered
        if self.method == "raps":
            penalty = _PENALTY if self.raps_penalty is None else self.raps_penalty
            free = _RANK if self.raps_rank is None else self.raps_rank
            found += penalty * np.maximum(np.arange(1, p.shape[1] + 1) - free, 0.0)
        scores = np.empty_like(p)
        np.put_along_axis(scores, order, found, axis=1)
        return scores

    @of_one_fit
    def predict(self, X: Any) -> AnyArray:
        """Return the most probable class of each row, shape (n_rows,)."""
        self._ready(X)
        found: AnyArray = self.estimator_.predict(X)
        return found

    @of_one_fit
    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probabilities of ``estimator_``, float64 (n_rows, n_classes)."""
        self._ready(X)
        found: FloatArray = self.estimator_.predict_proba(X)
        return found

    @of_one_fit
    def predict_set(
        self,
        X: Any,
        level: float | None = None,
        *,
        group: Any = None,
        sample_weight: Any = None,
    ) -> BoolArray:
        """Return the prediction set of each row.

        Parameters
        ----------
        X : table, shape (n_rows, n_features)
        level : float in (0, 1), optional
            Level to use instead of the constructor's.
        group : array-like of shape (n_rows,), str or int, optional
            Groups of the rows, if the model was calibrated by groups.
        sample_weight : array-like of shape (n_rows,), optional
            Weights of the rows, on the scale of the calibration weights.  Coverage then holds
            for rows distributed according to the weights.  Without them, a model calibrated
            with weights uses the expected weight for each row, and has no guarantee.

        Returns
        -------
        ndarray of bool, shape (n_rows, n_classes)
            Columns are in the order of ``classes_``; the labels of a set are
            ``model.classes_[row]``.

        Raises
        ------
        DataError
            If a group is new, or there are too few calibration rows for the level.
        """
        request = self._request(X, level, group, sample_weight)
        p = np.asarray(self.estimator_.predict_proba(X))
        thresholds = self.calibration_.thresholds(
            request.level, request.groups, request.n_rows, request.weight
        )
        in_set = self._class_scores(p) <= thresholds[:, None]
        if not self.allow_empty:
            in_set[np.arange(request.n_rows), p.argmax(axis=1)] = True
        return in_set


def row_shares(p: FloatArray, seed: int) -> FloatArray:
    """Return a number in [0, 1) for each row, hashed from the bits of the row (splitmix64)."""
    found = np.full(len(p), np.uint64(seed % 2**64))
    with np.errstate(over="ignore"):
        for column in p.T:
            found = (found ^ np.ascontiguousarray(column).view(np.uint64)) + np.uint64(
                0x9E3779B97F4A7C15
            )
            found = (found ^ (found >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            found = (found ^ (found >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            found ^= found >> np.uint64(31)
    return (found >> np.uint64(11)).astype(np.float64) * 2.0**-53
