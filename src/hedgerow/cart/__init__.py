"""Single trees for classification and regression (CART).

=================  ==========================================================================
``estimators``     the estimators; ``base``: their parameters, data, and use of the tree
``training``       sorted columns, growth on threads, numbered nodes, values
``state``          arrays and records that the kernels of growth share
``grow``           growth of a tree: its loop, depth first or best first
``measures``       statistics of the rows of a node
``search``         search and division of a node, feature by feature
``categories``     order of the categories of a node
``impurity``       the criteria
``tree``           a fitted tree: prediction, pruning, conversion to a forest
``split_table``    all cuts of a node with their scores
``file``           the file of a tree
=================  ==========================================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hedgerow.once import imported_once

if TYPE_CHECKING:
    from hedgerow.cart.estimators import CARTClassifier, CARTRegressor

__all__ = ["CARTClassifier", "CARTRegressor"]

__getattr__ = imported_once(__name__, {"estimators": ("CARTClassifier", "CARTRegressor")})
