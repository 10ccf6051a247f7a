"""Explanations of a single CART tree: each category split becomes a column of 0 and 1."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hedgerow.arrays import MISSING_KEY, AnyArray
from hedgerow.data.schema import ColumnKind
from hedgerow.explain.explainer import Explainer
from hedgerow.kernels.tables.keys import keys_of_floats
from hedgerow.model.cart_tree import CartTree
from hedgerow.model.forest import Forest


@dataclass(frozen=True, slots=True, eq=False)
class CartGame:
    """A tree for an :class:`Explainer`, and the tables for it.

    Attributes
    ----------
    tree : CartTree
    explainer : Explainer
        For the columns, and one more column for each category split.
    """

    tree: CartTree
    explainer: Explainer

    @staticmethod
    def of(tree: CartTree, outputs: list[int]) -> CartGame:
        """Return the game of some columns of ``tree.value``."""
        by_categories = np.flatnonzero(tree.is_categorical)
        n_columns, n_nodes = tree.n_features, tree.node_count
        feature, threshold = tree.feature.copy(), tree.threshold_key.copy()
        own = tree.feature[by_categories]
        feature[by_categories] = n_columns + np.arange(len(by_categories))
        threshold[by_categories] = 0
        several = len(outputs) > 1
        forest = Forest(
            feature=feature,
            threshold=threshold,
            missing_left=tree.missing_left,
            left=np.maximum(tree.children_left, 0),
            right=np.maximum(tree.children_right, 0),
            value=np.zeros(n_nodes) if several else tree.value[:, outputs[0]],
            gain=np.zeros(n_nodes),
            cover=tree.weighted_n_node_samples,
            count=tree.n_node_samples,
            tree_start=np.array([0, n_nodes], dtype=np.int64),
            base_score=np.zeros(len(outputs)),
            n_features=n_columns + len(by_categories),
            vectors=np.ascontiguousarray(tree.value[:, outputs]) if several else None,
        )
        kinds: list[ColumnKind] = [
            "int" if kind == "int" else "float" for kind in tree.schema.kinds
        ]
        kinds += ["int" if "int" in kinds else "float"] * len(by_categories)
        sources = [(column,) for column in (*range(n_columns), *own.tolist())]
        explainer = Explainer(
            forest, kinds, sources, n_columns, reached=tree.weighted_n_node_samples
        )
        return CartGame(tree, explainer)

    def values(self, values: AnyArray) -> AnyArray:
        """Return the columns of a table, and for each category split 1 where a row goes right."""
        nodes = np.flatnonzero(self.tree.is_categorical)
        if len(nodes) == 0:
            return values
        answers = [~self._goes_left(values, int(node)) for node in nodes]
        return np.column_stack([values, *(answer.astype(values.dtype) for answer in answers)])

    def _goes_left(self, values: AnyArray, node: int) -> AnyArray:
        """Return for each row whether a category split sends it left."""
        tree = self.tree
        column = values[:, tree.feature[node]]
        keys = column if column.dtype == np.int64 else keys_of_floats(column.astype(np.float64))
        part = slice(tree.category_start[node], tree.category_start[node + 1])
        known, left = tree.category[part], tree.category_left[part] == 1
        place = np.minimum(np.searchsorted(known, keys), len(known) - 1)
        rows = tree.n_node_samples
        larger = rows[tree.children_left[node]] > rows[tree.children_right[node]]
        goes = np.where(known[place] == keys, left[place], larger)
        return np.where(keys == MISSING_KEY, tree.missing_left[node] == 1, goes)
