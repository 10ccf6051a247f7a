"""scikit-learn's single trees, on Hedgerow's CART."""

from __future__ import annotations

from typing import Any

import numpy as np
import sklearn.ensemble  # its forests stay as they are: import them before trees are exchanged
import sklearn.tree
from sklearn.utils import compute_sample_weight
from sklearn.utils.validation import check_is_fitted

from hedgerow import CARTClassifier, CARTRegressor
from hedgerow.model.cart_tree import CartTree

from .touched import touch

_FITTED = (
    *("n_features_in_", "feature_names_in_", "classes_", "n_classes_", "n_outputs_"),
    "max_features_",
)


def install() -> None:
    """Let tests import these classes under the names of scikit-learn."""
    for kind in (
        DecisionTreeClassifier,
        DecisionTreeRegressor,
        ExtraTreeClassifier,
        ExtraTreeRegressor,
    ):
        setattr(sklearn.tree, kind.__name__, kind)


class TreeView:
    """``tree_`` of a fitted estimator: values have an axis for the columns of y."""

    def __init__(self, model: CARTClassifier | CARTRegressor) -> None:
        self._model: Any = model
        self._tree: CartTree = model.tree_
        self._n_classes = getattr(model, "n_classes_", None)
        self.n_outputs = model.n_outputs_
        self.n_classes = np.atleast_1d(self._n_classes)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._tree, name)

    @property
    def feature(self) -> Any:
        return np.where(self._tree.feature < 0, -2, self._tree.feature)

    @property
    def value(self) -> Any:
        value = self._tree.value
        if self._n_classes is None:
            return value[:, :, None]
        widths = [int(count) for count in self.n_classes]
        shown = np.zeros((len(value), len(widths), max(widths)))
        for number, part in enumerate(np.split(value, np.cumsum(widths)[:-1], axis=1)):
            shown[:, number, : part.shape[1]] = part
        return shown

    @property
    def capacity(self) -> int:
        return self._tree.node_count

    def apply(self, X: Any) -> Any:
        return self._model.apply(X)

    def decision_path(self, X: Any) -> Any:
        return self._model.decision_path(X)

    def compute_feature_importances(self) -> Any:
        return self._tree.feature_importances()


class SingleTree:
    """What the four estimators share; the constructors are those of scikit-learn's classes."""

    def _settings(self) -> dict[str, Any]:
        return dict(self.get_params())

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Any:
        touch()
        model = self._kind(**self._settings()).fit(X, y, sample_weight)
        self._model = model
        for name in _FITTED:
            if hasattr(model, name):
                setattr(self, name, getattr(model, name))
        self.tree_ = TreeView(model)
        return self

    def _fitted(self) -> Any:
        touch()
        check_is_fitted(self)
        return self._model

    def predict(self, X: Any) -> Any:
        return self._fitted().predict(X)

    def apply(self, X: Any) -> Any:
        return self._fitted().apply(X)

    def decision_path(self, X: Any) -> Any:
        return self._fitted().decision_path(X)

    def get_depth(self) -> int:
        return self._fitted().get_depth()

    def get_n_leaves(self) -> int:
        return self._fitted().get_n_leaves()

    @property
    def feature_importances_(self) -> Any:
        return self._fitted().feature_importances_

    def cost_complexity_pruning_path(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        touch()
        return self._kind(**self._settings()).cost_complexity_pruning_path(X, y, sample_weight)


class TreeOfClasses(SingleTree):
    """What trees of classes add."""

    _kind = CARTClassifier

    def fit(self, X, y, sample_weight=None, check_input=True):
        self._several = np.ndim(y) == 2
        if self.class_weight is not None and self._several:  # ours is for one column
            by_class = compute_sample_weight(self.class_weight, y)
            sample_weight = by_class if sample_weight is None else by_class * sample_weight
        return self._fit(X, y, sample_weight)

    def _settings(self):
        settings = super()._settings()
        if isinstance(self.class_weight, list) or getattr(self, "_several", False):
            settings["class_weight"] = None
        return settings

    def predict_proba(self, X):
        return self._fitted().predict_proba(X)

    def predict_log_proba(self, X):
        return self._fitted().predict_log_proba(X)


class TreeOfNumbers(SingleTree):
    """What trees of numbers add."""

    _kind = CARTRegressor

    def fit(self, X, y, sample_weight=None, check_input=True):
        return self._fit(X, y, sample_weight)


class DecisionTreeClassifier(TreeOfClasses, sklearn.tree.DecisionTreeClassifier):
    pass


class DecisionTreeRegressor(TreeOfNumbers, sklearn.tree.DecisionTreeRegressor):
    pass


class ExtraTreeClassifier(TreeOfClasses, sklearn.tree.ExtraTreeClassifier):
    pass


class ExtraTreeRegressor(TreeOfNumbers, sklearn.tree.ExtraTreeRegressor):
    pass
