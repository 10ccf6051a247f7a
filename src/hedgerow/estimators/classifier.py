"""The scikit-learn estimator for classification."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Never, Self, TypeAlias

import numpy as np
from sklearn.base import ClassifierMixin

from hedgerow.arrays import AnyArray, FloatArray
from hedgerow.boosting.loop.sample import Sample, check_weight
from hedgerow.boosting.resume.continuing import targets_as_continued
from hedgerow.boosting.row_data.class_weights import corrected, rescaled, weights_by_class
from hedgerow.boosting.row_data.classes import classes_of_record, indices_of, labels_to_record
from hedgerow.boosting.row_data.groups import read_groups
from hedgerow.boosting.row_data.offsets import Offsets
from hedgerow.boosting.row_data.targets import Targets, has_columns
from hedgerow.boosting.validation.row_sets import ValidationRows, stacked, validation_sets
from hedgerow.data import AnyTable
from hedgerow.errors import ModelFormatError, ParameterError
from hedgerow.estimators import labels
from hedgerow.estimators.base import HedgerowEstimator
from hedgerow.estimators.docs import shared_texts
from hedgerow.estimators.hooks import with_hooks
from hedgerow.estimators.multilabel import (
    Indicators,
    classes_of_labels,
    label_classes,
    label_objective,
    read_indicators,
)
from hedgerow.estimators.scores import accuracy
from hedgerow.estimators.snapshots import of_one_fit
from hedgerow.model.model import Model
from hedgerow.objectives import Objective, Task, objective_for
from hedgerow.params import CHECKPOINT_SECONDS
from hedgerow.peer_arguments import OF_ESTIMATORS_PREDICT, refuse_arguments

if TYPE_CHECKING:
    from hedgerow.booster import Booster

ClassWeight: TypeAlias = "Mapping[Any, float] | Literal['balanced'] | None"


@shared_texts
@dataclass(kw_only=True, eq=False, repr=False)
class HedgerowClassifier(ClassifierMixin, HedgerowEstimator):
    """Gradient-boosted decision trees for classification.

    Parameters
    ----------
    <trees>
    objective : str, callable or object, default="auto"
        The loss to minimise; docs/objectives.md has a table.

        - ``"auto"``: ``"logistic"`` for two classes, ``"softmax"`` for more.
        - Two classes: ``"logistic"``, ``"exponential"`` (the loss of AdaBoost),
          ``"focal"``, ``"hinge"`` (predicts classes, no probabilities).
        - Any number of classes: ``"softmax"``, ``"one_vs_all"``.
        - A custom loss for two classes (``y`` is 0 or 1): a function ``loss(y, raw)`` of
          one row, or a function of all rows that returns gradient and hessian; see
          :mod:`hedgerow.objectives.custom.losses`.
        - A custom loss for more classes: a function of all rows, with one column for
          each class; see :mod:`hedgerow.objectives.custom.losses`.
    focal_gamma : float >= 0, or None, default=None
        Strength with which ``objective="focal"`` reduces the weight of well-classified
        rows; 0 is the logistic loss, None means 2.
    focal_alpha : float in (0, 1), or None, default=None
        Weight of the second class with ``objective="focal"``; the first class has
        ``1 - focal_alpha``.  With None both weights are 1.
    eval_metric : str, callable, GroupedMetric, sequence of these, or None, default=None
        Metrics to record after each round: ``"loss"``, ``"logloss"``, ``"accuracy"``,
        ``"error"``, ``"auc"``, ``"average_precision"``, ``"f1_macro"`` and others
        (docs/metrics.md).  The names of LightGBM, XGBoost and scikit-learn are accepted.
        None means ``"loss"``.  A callable is a scikit-learn scorer, or a function of
        ``(y_true, prediction, weight)`` (class indices and probabilities) that returns
        a number; lower is better unless the function has a true attribute
        ``higher_is_better``.  Early stopping uses the first metric.
    class_weight : dict, "balanced" or None, default=None
        Factor on the row weights of each class; a class that a dict leaves out has 1.
        ``"balanced"`` gives all classes the same total weight.  Trees are grown with
        these weights, and ``predict`` uses them to decide.  Probabilities are corrected
        to the observed class frequencies (docs/imbalanced.md).
    <training>

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted class labels, of the type of y.  For several labels per row, the names or
        numbers of the columns of y.
    <attributes>

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
        y : array-like of shape (n_rows,) or (n_rows, n_labels)
            Class labels: text, integers, booleans, or floats that are integers.  Two or
            more columns of 0 and 1 are several labels of each row
            (docs/several-targets.md).
        <weights>
        <continuing>
        """
        params, stopping = self._params(), self._stopping()
        from hedgerow.io.checkpoint_folder import checkpoint_at

        kept = checkpoint_at(checkpoint, checkpoint_every)
        self._check_objective()
        reader = type(self).__name__
        start, source = self._start(init_model)
        sets = validation_sets(X_val, y_val, sample_weight_val, offset_val)
        offsets = Offsets.of(X, offset)
        table = self._read(offsets.X, params, start)
        weight = check_weight(sample_weight, table.n_rows)
        before = labels.known_classes(source, start)
        order = partial(targets_as_continued, start=start, has_offset=offset is not None)
        known = self._read_y(y, table.n_rows, weight, before, order)
        n_outputs, by_class = known.objective.n_outputs, known.by_class

        def validation_sample(rows: ValidationRows) -> Sample:
            own = offsets.of_rows(rows.X, rows.offset)
            own_table = rows.read(own.X, table.schema, reader)
            values = known.read(rows.y, own_table.n_rows, rows.called("y"))
            mass = check_weight(rows.weight, own_table.n_rows, rows.called("sample_weight"))
            sample = _sample(own_table, values, mass, by_class)
            return own.on(sample, n_outputs, rows.called("offset"))

        validation = stacked({rows.name: validation_sample(rows) for rows in sets})
        train = offsets.on(_sample(table, known.values, weight, by_class), n_outputs)
        train = replace(train, group=read_groups(groups, train.n_rows))
        if start is not None:
            start = replace(start, model=rescaled(start.model, by_class))
        model = self._train(
            train, validation, known.objective, params, stopping, kept, start,
            lambda found: offsets.noted(corrected(found, by_class)), classes_=known.classes,
        )  # fmt: skip
        classes = known.classes
        if isinstance(known, Indicators):
            classes = classes_of_labels(model)  # named by the model to continue, or by y
        return self._adopt(model, classes_=classes)

    def _read_y(
        self,
        y: Any,
        n_rows: int,
        weight: FloatArray | None,
        before: AnyArray | None,
        order: Callable[[Targets], Targets],
    ) -> Classes | Indicators:
        """Read the labels; ``before`` holds the classes of the model to continue, if known.

        ``order`` brings several labels into the order of that model.
        """
        if has_columns(y):
            targets = order(read_indicators(y, n_rows, "y"))
            loss = label_objective(self.objective, self.class_weight)
            objective = objective_for(
                loss, targets.values, 1, self._loss_values(), "two classes", targets.names
            )
            return Indicators(targets, objective)
        reader = type(self).__name__
        y = labels.read_labels(y, n_rows, "y", reader)
        classes, codes = labels.encode_as(y, weight, before)
        by_class = labels.class_weights(self.class_weight, classes, codes, weight)
        return Classes(codes, classes, self._make_objective(classes, codes), by_class, reader)

    def _make_objective(self, classes: AnyArray, codes: FloatArray) -> Objective:
        name, n_outputs = self._chosen_loss(classes)
        task: Task = "classes" if callable(name) and n_outputs > 1 else "two classes"
        return objective_for(name, codes, n_outputs, self._loss_values(), task)

    def _chosen_loss(self, classes: AnyArray) -> tuple[Any, int]:
        """Return the objective for these classes and its number of outputs."""
        name = self.objective
        if name == "auto":
            name = "logistic" if len(classes) == 2 else "softmax"
        several = isinstance(name, str) and name in ("softmax", "one_vs_all")
        several = several or (callable(name) and len(classes) > 2)
        if not several and len(classes) != 2:
            raise ParameterError(
                f"objective {name!r} is for two classes, but y has {len(classes)}: "
                "use 'softmax' or 'auto'."
            )
        return name, len(classes) if several else 1

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
        return _classes_of(booster, self._raw(booster, X, offset))

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
        return _decision(booster, self._raw(booster, X, offset))

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
        booster, predicted = self._fitted_booster(X), self.predict(X)
        if booster.target_names is not None:
            y = self._known_targets(booster, y, len(predicted))
        return accuracy(type(self).__name__, y, predicted, sample_weight)

    def staged_predict(self, X: Any, offset: Any = None) -> Iterator[AnyArray]:
        """Yield the result of :meth:`predict` after each round."""
        booster = self._fitted_booster(X)
        return (_classes_of(booster, raw) for raw in self._staged_raw(booster, X, offset))

    def staged_predict_proba(self, X: Any, offset: Any = None) -> Iterator[FloatArray]:
        """Yield the result of :meth:`predict_proba` after each round."""
        booster = self._fitted_booster(X)
        return map(booster.link, self._staged_raw(booster, X, offset))

    def staged_decision_function(self, X: Any, offset: Any = None) -> Iterator[FloatArray]:
        """Yield the result of :meth:`decision_function` after each round."""
        booster = self._fitted_booster(X)
        return (_decision(booster, raw) for raw in self._staged_raw(booster, X, offset))

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


class Classes(NamedTuple):
    """One label of each row.

    values     float64 (n_rows,): the class of each training row, by number
    classes    sorted class labels
    objective  the loss
    by_class   weight of each class, or None
    reader     name of the estimator, for messages
    """

    values: FloatArray
    classes: AnyArray
    objective: Objective
    by_class: FloatArray | None
    reader: str

    def read(self, y: Any, n_rows: int, name: str) -> FloatArray:
        """Return the classes of other rows, by number."""
        return indices_of(labels.read_labels(y, n_rows, name, self.reader), self.classes, name)


def _sample(
    table: AnyTable, codes: FloatArray, weight: FloatArray | None, by_class: FloatArray | None
) -> Sample:
    """Build a sample whose row weights include the class weights."""
    return Sample(table, codes, weights_by_class(weight, codes, by_class))


def _classes_of(booster: Booster, raw: FloatArray) -> AnyArray:
    """Return the predicted class of each row, or the indicators of several labels."""
    found, classes = booster.from_raw(raw, "value"), booster.classes
    return found if classes is None else classes[found]


def _decision(booster: Booster, raw: FloatArray) -> FloatArray:
    if booster.target_names is not None or len(raw) > 2:
        return np.ascontiguousarray(raw.T)
    if len(raw) == 1:
        return raw[0]
    if booster.objective == "one_vs_all":
        # Log-odds of the two probabilities divided by their sum.
        return np.logaddexp(0.0, -raw[0]) - np.logaddexp(0.0, -raw[1])
    return raw[1] - raw[0]
