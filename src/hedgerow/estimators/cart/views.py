"""Views of a single tree: text, rules, pictures and JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from hedgerow.arrays import distinct
from hedgerow.estimators.snapshots import of_one_fit
from hedgerow.io.json_form import FORMAT, VERSION
from hedgerow.model.cart_tree import CartTree

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hedgerow.plot import Division, Labelled


class CartViews:
    """Mixin of the single trees that shows the fitted tree."""

    tree_: CartTree
    n_outputs_: int

    @of_one_fit
    def to_json(self, *, indent: int | None = None) -> str:
        """Return the tree as JSON, with the keys of :mod:`hedgerow.io.json_form`.

        A leaf has ``values``: the mean of each target or the fraction of each class, for one
        column of y after the other.  A category that a node has not seen goes to the child
        with more training rows.
        """
        from hedgerow.io.json_form import document_text

        check_is_fitted(self, "tree_")
        return document_text(tree_document(self.tree_, vars(self).get("classes_")), indent)

    @of_one_fit
    def to_text(self, max_depth: int | None = None) -> str:
        """Draw the tree with characters (:func:`hedgerow.plot.tree_text`).

        A leaf of a classifier shows its most frequent class and the fraction of this class.
        """
        from hedgerow.plot import tree_text

        return tree_text(self._drawing(), max_depth=max_depth, schema=self.tree_.schema)

    @of_one_fit
    def to_rules(self) -> list[str]:
        """Write the tree as rules, one for each leaf (:func:`hedgerow.plot.tree_rules`).

        ``or missing`` marks a condition that missing values meet, ``or other`` one that
        categories without training rows meet.
        """
        from hedgerow.plot import tree_rules

        return tree_rules(self._drawing(), schema=self.tree_.schema)

    @of_one_fit
    def to_dot(self, max_depth: int | None = None) -> str:
        """Write the tree in the language of Graphviz (:func:`hedgerow.plot.tree_dot`)."""
        from hedgerow.plot import tree_dot

        return tree_dot(self._drawing(), max_depth=max_depth, schema=self.tree_.schema)

    @of_one_fit
    def plot_tree(self, ax: Axes | None = None, *, max_depth: int | None = None) -> Axes:
        """Draw the tree with matplotlib (:func:`hedgerow.plot.plot_tree`)."""
        from hedgerow.plot import plot_tree

        return plot_tree(self._drawing(), ax=ax, max_depth=max_depth, schema=self.tree_.schema)

    def _drawing(self) -> Labelled:
        """Return the tree with texts for its leaves and its categorical splits."""
        from hedgerow.plot import Labelled

        check_is_fitted(self, "tree_")
        tree = self.tree_
        forest = tree.copies([tree.value.shape[1] - 1])
        return Labelled(forest, self._leaf_words(), _divisions(tree))

    def _leaf_words(self) -> list[str] | None:
        """Return the prediction of each node as text; None for a single number."""
        if self.n_outputs_ == 1:
            return None
        return [", ".join(f"{value:.5g}" for value in row) for row in self.tree_.value]


def _divisions(tree: CartTree) -> dict[int, Division]:
    """Return the categorical splits; categories without training rows go to the larger child."""
    from hedgerow.plot import Division

    nodes = np.flatnonzero(tree.is_categorical)
    sides = {node: tree.categories(node) for node in nodes.tolist()}
    divisions: dict[int, Division] = {}
    for feature in distinct(tree.feature[nodes]).tolist():
        here = nodes[tree.feature[nodes] == feature].tolist()
        levels = distinct(np.concatenate([side for node in here for side in sides[node]]))
        for node in here:
            left, right = tree.children_left[node], tree.children_right[node]
            larger_left = bool(tree.n_node_samples[left] > tree.n_node_samples[right])
            listed, others = sides[node][0], sides[node][1]
            goes_left = ~np.isin(levels, others) if larger_left else np.isin(levels, listed)
            divisions[node] = Division(
                levels.tolist(), goes_left, "left" if larger_left else "right"
            )
    return divisions


def tree_document(tree: CartTree, classes: Any = None) -> dict[str, Any]:
    """Return the document as Python objects that JSON can represent.

    Parameters
    ----------
    classes : array, or list of arrays, optional
        Class labels of y, or of each column of y.

    Examples
    --------
    >>> from hedgerow import CARTRegressor
    >>> model = CARTRegressor(max_depth=1).fit([[1.0], [2.0], [4.0]], [0.0, 0.0, 3.0])
    >>> root = tree_document(model.tree_)["trees"][0]["root"]
    >>> root["threshold"], root["left"]["values"], root["right"]["values"]
    (3.0, [0.0], [3.0])
    """
    found: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "objective": "cart",
        "n_outputs": int(tree.value.shape[1]),
        "base_score": [0.0] * int(tree.value.shape[1]),
        "features": [{"name": c.name, "kind": c.kind} for c in tree.schema.columns],
    }
    if classes is not None:
        several = isinstance(classes, list)
        found["classes"] = [own.tolist() for own in classes] if several else classes.tolist()
    nodes = [_node(tree, node) for node in range(tree.node_count)]
    for node in reversed(range(tree.node_count)):  # children may have any index
        if tree.feature[node] >= 0:
            nodes[node]["left"] = nodes[int(tree.children_left[node])]
            nodes[node]["right"] = nodes[int(tree.children_right[node])]
    found["trees"] = [{"output": None, "root": nodes[0]}]
    return found


def _node(tree: CartTree, node: int) -> dict[str, Any]:
    found: dict[str, Any] = {
        "count": int(tree.n_node_samples[node]),
        "cover": float(tree.weighted_n_node_samples[node]),
        "impurity": float(tree.impurity[node]),
        "values": tree.value[node].tolist(),
    }
    feature = int(tree.feature[node])
    if feature < 0:
        return found
    found |= {"feature": feature, "missing": "left" if tree.missing_left[node] else "right"}
    if tree.is_categorical[node]:
        left, right = tree.categories(node)
        found |= {"left_levels": left.tolist(), "right_levels": right.tolist()}
        return found
    threshold = float(tree.threshold[node])
    if tree.schema.kinds[feature] == "int" and np.isfinite(threshold):
        found["threshold"] = int(tree.threshold_key[node])
    else:
        found["threshold"] = threshold if np.isfinite(threshold) else repr(threshold)
    return found
