"""The scikit-learn estimator for classification."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Never, TypeAlias

import numpy as np
from sklearn.base import ClassifierMixin

from hedgerow.arrays import AnyArray, FloatArray
from hedgerow.boosting.row_data.classes import classes_of_record, indices_of, labels_to_record
from hedgerow.boosting.row_data.targets import Targets, has_columns
from hedgerow.errors import ModelFormatError, ParameterError
from hedgerow.estimators import labels
from hedgerow.estimators.base import HedgerowEstimator
from hedgerow.estimators.common import of_one_fit, with_texts_of
from hedgerow.estimators.labels import label_classes, label_objective, read_indicators
from hedgerow.estimators.scores import accuracy
from hedgerow.peers import OF_ESTIMATORS_PREDICT, refuse_arguments

if TYPE_CHECKING:
    from hedgerow.booster import Booster
    from hedgerow.boosting.loop.setup.job import Job, KnownTargets, LossSpec
    from hedgerow.boosting.row_data.dataset import Dataset
    from hedgerow.model.model import Model
    from hedgerow.objectives.catalogue import Task

ClassWeight: TypeAlias = "Mapping[Any, float] | Literal['balanced'] | None"


@with_texts_of(HedgerowEstimator)
@dataclass(kw_only=True, eq=False, repr=False)
class HedgerowClassifier(ClassifierMixin, HedgerowEstimator):
    """Gradient-boosted decision trees for classification.

    Parameters
    ----------
    Loss:
    objective : str, callable or object, default="auto"
        The loss to minimise; docs/objectives.md has a table.

        - ``"auto"``: ``"logistic"`` for two classes, ``"softmax"`` for more.
        - Two classes: ``"logistic"``, ``"exponential"``, ``"focal"``; ``"hinge"`` (labels only).
        - Any number of classes: ``"softmax"``, ``"one_vs_all"``.
        - A function of all rows, which returns gradient and hessian:
          :mod:`hedgerow.objectives.own`.
    focal_gamma : float >= 0, or None, default=None
        How much ``"focal"`` reduces the weight of well-classified rows; None means 2.
    focal_alpha : float in (0, 1), or None, default=None
        Weight of the second class with ``"focal"``, the first has the rest of 1; None: both have 1.
    eval_metric : str, callable, sequence of these, or None, default=None
        Metrics to record after each round, such as ``"logloss"``, ``"accuracy"`` and ``"auc"``;
        None means ``"loss"``.  A callable is a scorer of scikit-learn, or a function of ``(y_true,
        prediction, weight)``.  Early stopping uses the first (docs/metrics.md).
    class_weight : dict, "balanced" or None, default=None
        Factor on the row weights of each class; a class that a dict leaves out has 1, and
        ``"balanced"`` gives all the same total weight.  Probabilities are corrected to the observed
        class frequencies, decisions are not (docs/imbalanced.md).

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted class labels, of the type of y.  For several labels per row, the names or
        numbers of the columns of y.

    Examples
    --------
    >>> from hedgerow import HedgerowClassifier
    >>> from hedgerow.datasets import load_pima
    >>> X, y, *_ = load_pima()
    >>> model = HedgerowClassifier(n_estimators=30).fit(X, y)
    >>> model.predict_proba(X[:3]).shape
    (3, 2)
    """

    classes_: AnyArray = field(init=False)

    _objectives: ClassVar[tuple[str, ...]] = (
        *("logistic", "exponential", "softmax"),
        *("focal", "hinge", "one_vs_all"),
    )
    _loss_parameters: ClassVar[tuple[str, ...]] = ("focal_gamma", "focal_alpha")

    focal_gamma: float | None = None
    focal_alpha: float | None = None
    class_weight: ClassWeight = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # These two losses need mutually exclusive classes.
        tags.classifier_tags.multi_label = self.objective not in ("softmax", "one_vs_all")
        return tags

    def _read_targets(
        self, job: Job, n_rows: int, weight: FloatArray | None, source: Any = None
    ) -> KnownTargets:
        if has_columns(job.rows.y):
            found = super()._read_targets(job, n_rows, weight)
            return replace(found, classes=label_classes(found.objective))
        y = labels.read_labels(job.rows.y, n_rows, "y", type(self).__name__)
        classes, codes = labels.encode(y, weight, known=labels.known_classes(source, job.start))

        def codes_of(rows: Dataset, n_rows: int, name: str, like: Targets | None) -> Targets:
            if like is None:
                return Targets(codes, None)
            own = labels.read_labels(rows.y, n_rows, name, type(self).__name__)
            return Targets(indices_of(own, classes, name), None)

        found = self._loss_spec(classes).read(job, n_rows, weight, codes_of)
        by_class = labels.class_weights(self.class_weight, classes, codes, weight)
        return replace(found, by_class=by_class, classes=classes)

    def _targets_of(
        self, rows: Dataset, n_rows: int, name: str, like: Targets | None = None
    ) -> Targets:
        return read_indicators(rows.y, n_rows, name)

    def _loss_spec(self, classes: AnyArray | None = None) -> LossSpec:
        from hedgerow.boosting.loop.setup.job import LossSpec

        self._check_objective()
        values = self._loss_values()
        if classes is None:
            loss = label_objective(self.objective, self.class_weight)
            return LossSpec(loss, values, "two classes", has_queries=False)
        name: Any = self.objective
        if name == "auto":
            name = "logistic" if len(classes) == 2 else "softmax"
        several = isinstance(name, str) and name in ("softmax", "one_vs_all")
        several = several or (callable(name) and len(classes) > 2)
        if not several and len(classes) != 2:
            raise ParameterError(
                f"objective {name!r} is for two classes, but y has {len(classes)}: "
                "use 'softmax' or 'auto'."
            )
        task: Task = "classes" if several and callable(name) else "two classes"
        return LossSpec(name, values, task, len(classes) if several else 1, False)

    def predict(self, X: Any, offset: Any = None, **others: Never) -> AnyArray:
        """Predict the class of each row.

        The prediction is the class with the largest probability, or with
        ``class_weight`` the one with the largest probability times weight.

        Parameters
        ----------
        X : array, data frame, sparse matrix or list of rows, shape (n_rows, n_features)
        offset : array-like, optional
            Required if :meth:`fit` was called with an array of offsets.

        Returns
        -------
        ndarray of shape (n_rows,)
            Labels, of the type of ``classes_``.  For several labels per row an int64
            array of shape (n_rows, n_labels), 1 where the label is more probable than not.
        """
        if others:
            refuse_arguments(HedgerowClassifier.predict, others, OF_ESTIMATORS_PREDICT)
        booster = self._fitted_booster(X)
        return classes_of_raw(booster, self._raw(booster, X, offset))

    def predict_proba(self, X: Any, offset: Any = None, **others: Never) -> FloatArray:
        """Predict the probability of each class, corrected for class weights.

        Parameters
        ----------
        X : array, data frame, sparse matrix or list of rows, shape (n_rows, n_features)
        offset : array-like, optional
            Required if :meth:`fit` was called with an array of offsets.

        Returns
        -------
        ndarray of float64, shape (n_rows, n_classes)
            Columns are in the order of ``classes_``.  For several labels per row the
            shape is (n_rows, n_labels), and rows do not sum to 1.
        """
        if others:
            refuse_arguments(HedgerowClassifier.predict_proba, others, OF_ESTIMATORS_PREDICT)
        booster = self._fitted_booster(X)
        return booster.link(self._raw(booster, X, offset))

    def predict_log_proba(self, X: Any, offset: Any = None) -> FloatArray:
        """Return the logarithm of :meth:`predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X, offset))

    def decision_function(self, X: Any, offset: Any = None) -> FloatArray:
        """Return raw scores: log-odds of the second class, or one score for each class.

        The score of the exponential loss is half the log-odds.  Like probabilities, scores
        are corrected for class weights; only :meth:`predict` uses the weights.

        Parameters
        ----------
        X : array, data frame, sparse matrix or list of rows, shape (n_rows, n_features)
        offset : array-like, optional
            Required if :meth:`fit` was called with an array of offsets.

        Returns
        -------
        ndarray of float64, shape (n_rows,) or (n_rows, n_classes)
            One-dimensional for two classes.  For several labels per row one column with
            the log-odds of each label.
        """
        booster = self._fitted_booster(X)
        return decision_of_raw(booster, self._raw(booster, X, offset))

    @of_one_fit
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy; for several labels per row, of rows with all labels right.

        Parameters
        ----------
        X, y, sample_weight : as for :meth:`fit`

        Returns
        -------
        float
            1 is perfect.
        """
        return self._score_of(self.predict(X), y, sample_weight)

    def _score_of(self, predicted: AnyArray, y: Any, sample_weight: Any) -> float:
        """Return the accuracy of rows with these predictions."""
        if self.booster_.target_names is not None:
            y = self._known_targets(self.booster_, y, len(predicted))
        return accuracy(type(self).__name__, y, predicted, sample_weight)

    def staged_predict(self, X: Any, offset: Any = None) -> Iterator[AnyArray]:
        """Yield the result of :meth:`predict` after each round."""
        booster = self._fitted_booster(X)
        return (classes_of_raw(booster, raw) for raw in self._staged_raw(booster, X, offset))

    def staged_predict_proba(self, X: Any, offset: Any = None) -> Iterator[FloatArray]:
        """Yield the result of :meth:`predict_proba` after each round."""
        booster = self._fitted_booster(X)
        return map(booster.link, self._staged_raw(booster, X, offset))

    def staged_decision_function(self, X: Any, offset: Any = None) -> Iterator[FloatArray]:
        """Yield the result of :meth:`decision_function` after each round."""
        booster = self._fitted_booster(X)
        return (decision_of_raw(booster, raw) for raw in self._staged_raw(booster, X, offset))

    def _to_record(self) -> dict[str, Any]:
        if self.booster_.target_names is not None:  # the model's record has the names of the labels
            return super()._to_record()
        return super()._to_record() | {"classes": labels_to_record(self.classes_)}

    @classmethod
    def _more_from_record(cls, model: Model, record: Mapping[str, Any]) -> dict[str, Any]:
        from hedgerow.booster import objective_of

        names = label_classes(objective_of(model))
        if names is not None:
            return {"classes_": names}
        classes = classes_of_record(objective_of(model), record)
        if classes is None:
            raise ModelFormatError("the classes are missing.")
        return {"classes_": classes}


def classes_of_raw(booster: Booster, raw: FloatArray) -> AnyArray:
    """Return the predicted class of each row, or the indicators of several labels."""
    found, classes = booster.from_raw(raw, "value"), booster.classes
    return found if classes is None else classes[found]


def decision_of_raw(booster: Booster, raw: FloatArray) -> FloatArray:
    """Return raw scores in the shape of ``decision_function``."""
    if booster.target_names is not None or len(raw) > 2:
        return np.ascontiguousarray(raw.T)
    if len(raw) == 1:
        return raw[0]
    if booster.objective == "one_vs_all":
        # Log-odds of the two probabilities divided by their sum.
        return np.logaddexp(0.0, -raw[0]) - np.logaddexp(0.0, -raw[1])
    return raw[1] - raw[0]
