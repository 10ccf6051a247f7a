"""Single trees: classification and regression (CART)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted, column_or_1d

from hedgerow.arrays import AnyArray, FloatArray
from hedgerow.boosting.classes import indices_of
from hedgerow.boosting.sample import check_vector, check_weight
from hedgerow.data import read_table
from hedgerow.errors import DataError, shown_name
from hedgerow.estimators import labels
from hedgerow.estimators.cart_base import CartEstimator, MaxFeatures
from hedgerow.estimators.cart_training import CartSample
from hedgerow.estimators.classifier import ClassWeight

LARGEST_SPREAD = 1e100
"""Targets of regression may not differ by more: impurities hold their squares."""


class CARTClassifier(ClassifierMixin, CartEstimator):
    """A decision tree for classification.

    At each node the cut of one feature is made that leaves the least impurity
    in the two parts.  With continuous data the tree is that of scikit-learn's
    ``DecisionTreeClassifier``; where two cuts are equally good the lower
    feature and the lower threshold win, whatever the seed.

    Parameters
    ----------
    criterion : {"gini", "entropy", "log_loss"}, default="gini"
        Impurity: Gini index, or entropy in bits (``"log_loss"`` is another name
        for it).
    max_depth : int >= 1 or None, default=None
        Most splits on the way to a leaf.
    min_samples_split : int >= 2 or float in (0, 1], default=2
        Least rows of a node that is split; a float is a share of all rows.
    min_samples_leaf : int >= 1 or float in (0, 1), default=1
        Least rows of a leaf; a float is a share of all rows.
    min_weight_fraction_leaf : float from 0 to 0.5, default=0.0
        Least share of a leaf in the weight of all rows.
    max_features : int, float in (0, 1], "sqrt", "log2" or None, default=None
        Features that are drawn at each node (more if all of these are
        constant); None is all.
    class_weight : dict, "balanced" or None, default=None
        Factor on the weights of each class (1 where a dict is silent);
        ``"balanced"`` gives every class the same total.
    random_state : int, RandomState or None, default=None
        Seed of the draw of features.  None is 0.
    max_leaf_nodes : int >= 2 or None, default=None
        Most leaves; the node whose split takes away most impurity is then
        split first.
    min_impurity_decrease : float >= 0, default=0.0
        A node is split if that takes away this much of the weighted impurity:
        ``share * (impurity - share_left * left - share_right * right)``, with
        the shares of the node in all rows and of the sides in the node.
    ccp_alpha : float >= 0, default=0.0
        Cost-complexity pruning: branches that are worth this much a leaf, or
        less, are cut off.
    categorical_features : list of column indices or names, or None, default=None
        Columns whose values are codes: they are compared by value, not by
        order.  With two classes the best set of categories goes left; with more
        the best of all sets up to ten categories, beyond that the best of each
        one against the rest and of the orders by the share of each class.
    n_jobs : int or None, default=None
        Threads of fit and predict: None for all available processors (or
        ``OMP_NUM_THREADS``), -1 for all.  The tree is the same for any number.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels in order, of the type of y.
    n_classes_ : int
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str, shape (n_features_in_,)
        Names of the columns; only if X was a frame with names.
    max_features_ : int
        Features that are drawn at each node.
    feature_importances_ : ndarray of shape (n_features_in_,)
        Shares in the impurity decrease of all splits.
    tree_ : hedgerow.model.cart_tree.CartTree
        The tree itself.

    Notes
    -----
    Missing values (NaN, null) are tried on both sides of every cut, and cut off
    by themselves; where a node had none in training they go with the larger
    part, as categories do that a node has not seen.  Split search follows
    Breiman, Friedman, Olshen and Stone, *Classification and Regression Trees*,
    1984.

    Examples
    --------
    >>> from hedgerow.datasets import load_pima
    >>> from hedgerow import CARTClassifier
    >>> X, y, *_ = load_pima()
    >>> model = CARTClassifier(max_depth=3).fit(X, y)
    >>> model.get_n_leaves()
    8
    """

    classes_: AnyArray
    n_classes_: int

    _criteria: ClassVar[tuple[str, ...]] = ("gini", "entropy", "log_loss")

    def __init__(
        self,
        *,
        criterion: str = "gini",
        max_depth: int | None = None,
        min_samples_split: int | float = 2,
        min_samples_leaf: int | float = 1,
        min_weight_fraction_leaf: float = 0.0,
        max_features: MaxFeatures = None,
        class_weight: ClassWeight = None,
        random_state: int | np.random.RandomState | None = None,
        max_leaf_nodes: int | None = None,
        min_impurity_decrease: float = 0.0,
        ccp_alpha: float = 0.0,
        categorical_features: Sequence[int | str] | None = None,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(
            criterion=criterion,
            max_depth=max_depth,
            min_samples_split=min_samples_split,
            min_samples_leaf=min_samples_leaf,
            min_weight_fraction_leaf=min_weight_fraction_leaf,
            max_features=max_features,
            random_state=random_state,
            max_leaf_nodes=max_leaf_nodes,
            min_impurity_decrease=min_impurity_decrease,
            ccp_alpha=ccp_alpha,
            categorical_features=categorical_features,
            n_jobs=n_jobs,
        )
        self.class_weight = class_weight

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Grow a tree on X and y.

        A fit that fails or is interrupted leaves the estimator as it was.

        Parameters
        ----------
        X : array, data frame or list of rows, shape (n_rows, n_features)
            Numbers; NaN, null and ``None`` are missing values, infinities are
            values.
        y : array-like of shape (n_rows,)
            Labels: text, integers, booleans, or whole floats.
        sample_weight : array-like of shape (n_rows,), optional
            Not negative; a row of weight 0 counts as absent.

        Returns
        -------
        self

        Raises
        ------
        DataError, ParameterError
            (``ValueError``) if data or a parameter cannot be used; the message
            names the column, row or parameter.
        DataTypeError
            (``TypeError``) for text, sparse matrices, objects.
        """
        reader = type(self).__name__
        table = read_table(X, reader=reader, categorical=None)
        given = labels.read_labels(y, table.n_rows, "y", reader)
        weight = check_weight(sample_weight, table.n_rows)
        classes, codes = labels.encode(given, weight)
        by_class = labels.class_weights(self.class_weight, classes, codes, weight)
        sample = CartSample(table, codes, labels.weights_by_class(weight, codes, by_class))
        return self._adopt(sample, len(classes), classes_=classes, n_classes_=len(classes))

    def predict(self, X: Any) -> AnyArray:
        """Most probable class of each row; of equal ones the first.

        Parameters
        ----------
        X : array, data frame or list of rows, shape (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_rows,)
            Of the type of ``classes_``.
        """
        leaf = self._leaves(X)
        return self.classes_[self.tree_.value.argmax(axis=1)[leaf]]

    def predict_proba(self, X: Any) -> FloatArray:
        """Probability of each class: its share in the weight of the leaf.

        Parameters
        ----------
        X : array, data frame or list of rows, shape (n_rows, n_features)

        Returns
        -------
        ndarray of float64, shape (n_rows, n_classes)
            In the order of ``classes_``.
        """
        leaf = self._leaves(X)
        return self.tree_.value[leaf]

    def _leaf_words(self) -> list[str]:
        """Commonest class of each node and its share."""
        best = self.tree_.value.argmax(axis=1)
        return [
            f"{shown_name(str(self.classes_[k]))} {share:.3g}"
            for k, share in zip(best, self.tree_.value.max(axis=1), strict=True)
        ]

    def predict_log_proba(self, X: Any) -> FloatArray:
        """Logarithm of :meth:`predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def _target(self, y: Any, n_rows: int) -> tuple[FloatArray, int]:
        check_is_fitted(self, "tree_")
        given = labels.read_labels(y, n_rows, "y", type(self).__name__)
        return indices_of(given, self.classes_, "y"), len(self.classes_)

    def _weight(self, weight: Any, target: FloatArray, n_rows: int) -> FloatArray | None:
        checked = check_weight(weight, n_rows)
        by_class = labels.class_weights(self.class_weight, self.classes_, target, checked)
        return labels.weights_by_class(checked, target, by_class)


class CARTRegressor(RegressorMixin, CartEstimator):
    """A decision tree for regression.

    At each node the cut of one feature is made that leaves the least error in
    the two parts.  With continuous data the tree is that of scikit-learn's
    ``DecisionTreeRegressor``; where two cuts are equally good the lower feature
    and the lower threshold win, whatever the seed.

    Parameters
    ----------
    criterion : {"squared_error", "absolute_error"}, default="squared_error"
        Error of a node: mean squared deviation from its mean, or mean absolute
        deviation from its median.
    max_depth : int >= 1 or None, default=None
        Most splits on the way to a leaf.
    min_samples_split : int >= 2 or float in (0, 1], default=2
        Least rows of a node that is split; a float is a share of all rows.
    min_samples_leaf : int >= 1 or float in (0, 1), default=1
        Least rows of a leaf; a float is a share of all rows.
    min_weight_fraction_leaf : float from 0 to 0.5, default=0.0
        Least share of a leaf in the weight of all rows.
    max_features : int, float in (0, 1], "sqrt", "log2" or None, default=None
        Features that are drawn at each node (more if all of these are
        constant); None is all.
    random_state : int, RandomState or None, default=None
        Seed of the draw of features.  None is 0.
    max_leaf_nodes : int >= 2 or None, default=None
        Most leaves; the node whose split takes away most error is then split
        first.
    min_impurity_decrease : float >= 0, default=0.0
        A node is split if that takes away this much of the weighted error:
        ``share * (error - share_left * left - share_right * right)``, with the
        shares of the node in all rows and of the sides in the node.
    ccp_alpha : float >= 0, default=0.0
        Cost-complexity pruning: branches that are worth this much a leaf, or
        less, are cut off.
    categorical_features : list of column indices or names, or None, default=None
        Columns whose values are codes: they are compared by value, not by
        order.  Categories are put in the order of their mean target, which
        holds the best set for the squared error.
    n_jobs : int or None, default=None
        Threads of fit and predict: None for all available processors (or
        ``OMP_NUM_THREADS``), -1 for all.  The tree is the same for any number.

    Attributes
    ----------
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str, shape (n_features_in_,)
        Names of the columns; only if X was a frame with names.
    max_features_ : int
        Features that are drawn at each node.
    feature_importances_ : ndarray of shape (n_features_in_,)
        Shares in the error decrease of all splits.
    tree_ : hedgerow.model.cart_tree.CartTree
        The tree itself.

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

    _criteria: ClassVar[tuple[str, ...]] = ("squared_error", "absolute_error")

    def __init__(
        self,
        *,
        criterion: str = "squared_error",
        max_depth: int | None = None,
        min_samples_split: int | float = 2,
        min_samples_leaf: int | float = 1,
        min_weight_fraction_leaf: float = 0.0,
        max_features: MaxFeatures = None,
        random_state: int | np.random.RandomState | None = None,
        max_leaf_nodes: int | None = None,
        min_impurity_decrease: float = 0.0,
        ccp_alpha: float = 0.0,
        categorical_features: Sequence[int | str] | None = None,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(
            criterion=criterion,
            max_depth=max_depth,
            min_samples_split=min_samples_split,
            min_samples_leaf=min_samples_leaf,
            min_weight_fraction_leaf=min_weight_fraction_leaf,
            max_features=max_features,
            random_state=random_state,
            max_leaf_nodes=max_leaf_nodes,
            min_impurity_decrease=min_impurity_decrease,
            ccp_alpha=ccp_alpha,
            categorical_features=categorical_features,
            n_jobs=n_jobs,
        )

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Grow a tree on X and y.

        A fit that fails or is interrupted leaves the estimator as it was.

        Parameters
        ----------
        X : array, data frame or list of rows, shape (n_rows, n_features)
            Numbers; NaN, null and ``None`` are missing values, infinities are
            values.
        y : array-like of shape (n_rows,)
            Finite numbers.
        sample_weight : array-like of shape (n_rows,), optional
            Not negative; a row of weight 0 counts as absent.

        Returns
        -------
        self

        Raises
        ------
        DataError, ParameterError
            (``ValueError``) if data or a parameter cannot be used; the message
            names the column, row or parameter.
        DataTypeError
            (``TypeError``) for text, sparse matrices, objects.
        """
        table = read_table(X, reader=type(self).__name__, categorical=None)
        target, _ = self._target(y, table.n_rows)
        weight = check_weight(sample_weight, table.n_rows)
        return self._adopt(CartSample(table, target, weight), 0)

    def predict(self, X: Any) -> FloatArray:
        """Mean (median, with the absolute error) of the leaf of each row.

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
        if y is None:
            raise DataError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target "
                "y is None."
            )
        target = check_vector(column_or_1d(y, warn=True), n_rows, "y")
        outside = ~(np.abs(target - target[0]) <= LARGEST_SPREAD)
        if outside.any():
            row = int(np.argmax(outside))
            raise DataError(
                f"y must lie within {LARGEST_SPREAD:g} of each other, but row 0 has "
                f"{target[0]:g} and row {row} has {target[row]:g}: divide the target by a factor."
            )
        return target, 0
