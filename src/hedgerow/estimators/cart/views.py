"""Views of a single tree: text, rules and pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils.validation import check_is_fitted

from hedgerow.arrays import distinct
from hedgerow.estimators.snapshots import of_one_fit
from hedgerow.model.cart_tree import CartTree

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from hedgerow.plot import Division, Labelled


class CartViews:
    """Mixin of the single trees that shows the fitted tree."""

    tree_: CartTree
    n_outputs_: int

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
