"""The scikit-learn estimator for classification."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Never, Self, TypeAlias

import numpy as np
from sklearn.base import ClassifierMixin

from hedgerow.arrays import AnyArray, FloatArray
from hedgerow.boosting.row_data.classes import classes_of_record, indices_of, labels_to_record
from hedgerow.boosting.row_data.targets import Targets, has_columns
from hedgerow.errors import ModelFormatError, ParameterError
from hedgerow.estimators import labels
from hedgerow.estimators.base import HedgerowEstimator
from hedgerow.estimators.common import of_one_fit
from hedgerow.estimators.labels import (
    label_classes,
    label_objective,
    read_indicators,
)
from hedgerow.estimators.scores import accuracy
from hedgerow.model.model import Model
from hedgerow.params import CHECKPOINT_SECONDS
from hedgerow.peers import OF_ESTIMATORS_PREDICT, refuse_arguments

if TYPE_CHECKING:
    from hedgerow.booster import Booster
    from hedgerow.boosting.loop.setup.job import Job, KnownTargets
    from hedgerow.boosting.loop.setup.loss_spec import LossSpec
    from hedgerow.boosting.row_data.dataset import Dataset
    from hedgerow.objectives.catalogue import Task

ClassWeight: TypeAlias = "Mapping[Any, float] | Literal['balanced'] | None"


@dataclass(kw_only=True, eq=False, repr=False)
class HedgerowClassifier(ClassifierMixin, HedgerowEstimator):
    """Gradient-boosted decision trees for classification.

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
    classes_ : ndarray of shape (n_classes,)
        Sorted class labels, of the type of y.  For several labels per row, the names or
        numbers of the columns of y.
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
        y : array-like of shape (n_rows,) or (n_rows, n_labels)
            Class labels: text, integers, booleans, or floats that are integers.  Two or more
            columns of 0 and 1 are several labels of each row (docs/several-targets.md).
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
        from hedgerow.boosting.loop.setup.loss_spec import LossSpec

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
        booster, predicted = self._fitted_booster(X), self.predict(X)
        if booster.target_names is not None:
            y = self._known_targets(booster, y, len(predicted))
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
