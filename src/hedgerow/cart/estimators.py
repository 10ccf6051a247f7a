"""Single trees: classification and regression (CART)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from hedgerow.argument_types import is_one_of
from hedgerow.arrays import AnyArray, FloatArray
from hedgerow.boosting.row_data.checks import check_vector, check_weight
from hedgerow.boosting.row_data.classes import indices_of, weights_by_class
from hedgerow.boosting.row_data.targets import require_target, target_column
from hedgerow.cart.base import CartEstimator, dense_table
from hedgerow.cart.training import CartSample
from hedgerow.data import read_any
from hedgerow.errors import DataError
from hedgerow.estimators import labels
from hedgerow.estimators.classifier import ClassWeight
from hedgerow.estimators.common import of_one_fit, with_texts_of
from hedgerow.estimators.scores import CheckedScores

LARGEST_SPREAD = 1e100
"""Largest difference of regression targets, because impurities contain their squares."""


@with_texts_of(CartEstimator)
@dataclass(kw_only=True, eq=False, repr=False)
class CARTClassifier(CheckedScores, ClassifierMixin, CartEstimator):
    """A decision tree for classification.

    Each node is split at the threshold of one feature that minimises the impurity of the
    two children.  For continuous data the tree equals a tree of scikit-learn's
    ``DecisionTreeClassifier``.  Ties between equally good splits go to the lower feature
    and the lower threshold, whatever the seed.

    Parameters
    ----------
    criterion : {"gini", "entropy", "log_loss"}, default="gini"
        Impurity: Gini index, or entropy in bits (also called ``"log_loss"``).
    class_weight : dict, "balanced" or None, default=None
        Factor on the row weights of each class; a class that a dict leaves out has 1.
        ``"balanced"`` gives all classes the same total weight.
    categorical_features : list of column indices or names, or None, default=None
        Columns of category codes, which have no order.  For two classes the best set of
        categories goes left.  For more classes the search covers all sets of up to ten
        categories; beyond that, each category against all others, and the orders by the
        fraction of each class.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted class labels, of the type of y.
    n_classes_ : int
    feature_importances_ : ndarray of shape (n_features,)
        Fraction of the total impurity decrease due to splits of each feature.

    Notes
    -----
    The search tries missing values (NaN, null) on both sides of every threshold, and against
    all present values.  If a node had none in training, they go to the larger child, like
    categories that the node has not seen.  The split search follows Breiman, Friedman, Olshen
    and Stone, *Classification and Regression Trees*, 1984.

    Examples
    --------
    >>> from hedgerow.datasets import load_pima
    >>> from hedgerow import CARTClassifier
    >>> X, y, *_ = load_pima()
    >>> model = CARTClassifier(max_depth=3).fit(X, y)
    >>> model.get_n_leaves()
    8
    """

    classes_: AnyArray = field(init=False)
    n_classes_: int = field(init=False)

    _criteria: ClassVar[tuple[str, ...]] = ("gini", "entropy", "log_loss")

    class_weight: ClassWeight = None

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Grow a tree on X and y.

        A fit that fails or is interrupted leaves the estimator unchanged.

        Parameters
        ----------
        X : array, data frame, sparse matrix or list of rows, shape (n_rows, n_features)
            Numbers; NaN, null and ``None`` are missing.  A sparse matrix becomes dense.
        y : array-like of shape (n_rows,)
            Labels: text, integers, booleans, or floats that are integers.
        sample_weight : array-like of shape (n_rows,), optional
            Weights >= 0; a row of weight 0 is ignored.

        Returns
        -------
        self

        Raises
        ------
        DataError, DataTypeError, ParameterError
            For invalid data or parameters; the message names the column, row or parameter.
        """
        reader = type(self).__name__
        table = dense_table(read_any(X, reader=reader, categorical=None))
        weight = check_weight(sample_weight, table.n_rows)
        given = labels.read_labels(y, table.n_rows, "y", reader)
        classes, codes = labels.encode(given, weight)
        by_class = labels.class_weights(self.class_weight, classes, codes, weight)
        sample = CartSample(table, codes, weights_by_class(weight, codes, by_class))
        return self._adopt(sample, len(classes), classes_=classes, n_classes_=len(classes))

    @of_one_fit
    def predict(self, X: Any) -> AnyArray:
        """Predict the most probable class of each row; ties go to the first class.

        Parameters
        ----------
        X : array, data frame or list of rows, shape (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_rows,)
            Labels, of the type of ``classes_``.
        """
        leaf = self._leaves(X)
        return self.classes_[self.tree_.value.argmax(axis=1)[leaf]]

    @of_one_fit
    def predict_proba(self, X: Any) -> FloatArray:
        """Predict the probability of each class: its fraction of the weight of the leaf.

        Parameters
        ----------
        X : array, data frame or list of rows, shape (n_rows, n_features)

        Returns
        -------
        ndarray of float64, shape (n_rows, n_classes)
            Columns are in the order of ``classes_``.
        """
        leaf = self._leaves(X)
        return self.tree_.value[leaf]

    def predict_log_proba(self, X: Any) -> FloatArray:
        """Return the logarithm of :meth:`predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def _target(self, y: Any, n_rows: int) -> tuple[FloatArray, int]:
        check_is_fitted(self, "tree_")
        own_labels = labels.read_labels(y, n_rows, "y", type(self).__name__)
        return indices_of(own_labels, self.classes_, "y", "the tree"), len(self.classes_)

    def _weight(self, weight: Any, target: FloatArray, n_rows: int) -> FloatArray | None:
        checked = check_weight(weight, n_rows)
        by_class = labels.class_weights(self.class_weight, self.classes_, target, checked)
        return weights_by_class(checked, target, by_class)


@with_texts_of(CartEstimator)
@dataclass(kw_only=True, eq=False, repr=False)
class CARTRegressor(CheckedScores, RegressorMixin, CartEstimator):
    """A decision tree for regression.

    Each node is split at the threshold of one feature that minimises the error of the two
    children.  For continuous data the tree equals a tree of scikit-learn's
    ``DecisionTreeRegressor``.  Ties between equally good splits go to the lower feature and
    the lower threshold, whatever the seed.

    Parameters
    ----------
    criterion : str, default="squared_error"
        Error of a node: ``"squared_error"``, ``"friedman_mse"``, which ranks splits in the same
        order, or ``"poisson"``, half the deviance.
    categorical_features : list of column indices or names, or None, default=None
        Columns of category codes, which have no order.  The search sorts categories by
        their mean target, which finds the best set for the squared error.

    Attributes
    ----------
    feature_importances_ : ndarray of shape (n_features,)
        Fraction of the total error decrease due to splits of each feature.

    Notes
    -----
    Missing values are treated as in :class:`CARTClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from hedgerow import CARTRegressor
    >>> X = np.arange(6.0).reshape(-1, 1)
    >>> model = CARTRegressor(max_depth=1).fit(X, [1, 1, 1, 5, 5, 5])
    >>> model.predict([[2.4], [2.6]])
    array([1., 5.])
    """

    _criteria: ClassVar = ("squared_error", "friedman_mse", "poisson")

    criterion: str = "squared_error"

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Grow a tree on X and y.

        A fit that fails or is interrupted leaves the estimator unchanged.

        Parameters
        ----------
        X : array, data frame, sparse matrix or list of rows, shape (n_rows, n_features)
            Numbers; NaN, null and ``None`` are missing.  A sparse matrix becomes dense.
        y : array-like of shape (n_rows,)
            Finite numbers, not negative for ``"poisson"``.
        sample_weight : array-like of shape (n_rows,), optional
            Weights >= 0; a row of weight 0 is ignored.

        Returns
        -------
        self

        Raises
        ------
        DataError, DataTypeError, ParameterError
            For invalid data or parameters; the message names the column, row or parameter.
        """
        table = dense_table(read_any(X, reader=type(self).__name__, categorical=None))
        target, _ = self._target(y, table.n_rows)
        weight = check_weight(sample_weight, table.n_rows)
        return self._adopt(CartSample(table, target, weight), 0)

    @of_one_fit
    def predict(self, X: Any) -> FloatArray:
        """Predict the mean of the leaf of each row.

        Parameters
        ----------
        X : array, data frame or list of rows, shape (n_rows, n_features)

        Returns
        -------
        ndarray of float64, shape (n_rows,)
        """
        leaf = self._leaves(X)
        return self.tree_.value[leaf, 0]

    def _target(self, y: Any, n_rows: int) -> tuple[FloatArray, int]:
        require_target(y, type(self).__name__)
        target = check_vector(target_column(y), n_rows, "y")
        outside = ~(np.abs(target - target[0]) <= LARGEST_SPREAD)
        if outside.any():
            row = int(np.argmax(outside))
            raise DataError(
                f"values of y may differ by at most {LARGEST_SPREAD:g}, but row 0 has "
                f"{target[0]:g} and row {row} has {target[row]:g}: divide y by a factor."
            )
        positive = is_one_of(self.criterion, ("poisson",))
        if positive and (target.min() < 0.0 or not target.any()):
            raise DataError(
                "criterion='poisson' needs values of y that are not negative, with a sum above 0; "
                f"the smallest value is {target.min():g}."
            )
        return target, 0
