"""Training of a :class:`hedgerow.model.cart_tree.CartTree` from rows and parameters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray, IntArray, distinct
from hedgerow.data import Table
from hedgerow.growing.cart.columns import SortedTable, node_thresholds, rank_rows, sort_table
from hedgerow.growing.cart.grower import GrownNodes, grow_tree
from hedgerow.growing.cart.state import CartRules, Samples
from hedgerow.growing.limits.pruning import prune
from hedgerow.kernels.cart.impurity import ABSOLUTE_ERROR, ENTROPY, GINI, POISSON, SQUARED_ERROR
from hedgerow.kernels.cart.search import MISSING_RANK, Least
from hedgerow.model.cart_tree import CartTree

CRITERIA = {
    "gini": GINI,
    "entropy": ENTROPY,
    "log_loss": ENTROPY,
    "squared_error": SQUARED_ERROR,
    # Friedman's improvement l r / (l + r) (mean_l - mean_r)^2 equals the decrease of the
    # sum of squared errors.
    "friedman_mse": SQUARED_ERROR,
    "absolute_error": ABSOLUTE_ERROR,
    "poisson": POISSON,
}
"""Criterion of the kernels for each value of the parameter ``criterion``."""

_LARGE_SUM = 2.0**24

UNLIMITED = 2**31
"""Value of ``max_depth`` and ``max_leaf_nodes`` that means no limit."""


@dataclass(frozen=True, slots=True, eq=False)
class CartSample:
    """Rows of a fit.

    target     targets or class indices (n_rows,), or for ``n_columns`` columns of y the targets
               or indicators of classes (n_rows, n_targets)
    """

    table: Table
    target: FloatArray
    weight: FloatArray | None
    n_columns: int = 1

    def without_zero_weights(self) -> CartSample:
        """Leave out rows of weight 0; weights that are all 1 become None."""
        if self.weight is None:
            return self
        kept = self.weight > 0.0
        table, target, weight = self.table, self.target, self.weight
        if not kept.all():
            table = Table(table.values[kept], table.schema)
            target, weight = target[kept], weight[kept]
        return CartSample(table, target, None if (weight == 1.0).all() else weight, self.n_columns)


def train_tree(
    sample: CartSample,
    rules: CartRules,
    sign: IntArray | None,
    categorical: AnyArray,
    ccp_alpha: float,
    n_threads: int,
) -> CartTree:
    """Grow a tree on rows of positive weight, and prune it."""
    mass, scale = masses(sample.weight)
    rules = rules._replace(least=Least(rules.least.rows, np.float64(rules.least.mass * scale)))
    none = np.empty(0)
    is_classes = rules.n_classes > 0
    samples = Samples(
        sample.target.astype(np.uint32) if is_classes else np.empty(0, dtype=np.uint32),
        none if is_classes else np.ascontiguousarray(sample.target.T).reshape(-1),
        none if sample.weight is None else sample.weight,
    )
    data = sort_table(sample.table, categorical, n_threads, sign, draws=rules.is_random == 1)
    ranks = {int(j): rank_rows(data, int(j)) for j in np.flatnonzero(categorical)}
    grown = grow_tree(samples, mass, data, rules, n_threads)
    tree = _make_tree(grown, sample, samples, data, ranks, rules)
    if ccp_alpha > 0.0:
        tree = tree.pruned(pruning_states(tree, ccp_alpha)[2])
    return tree


def pruning_states(tree: CartTree, most: float) -> tuple[FloatArray, FloatArray, AnyArray]:
    """Return alphas, risks and last leaves of :func:`hedgerow.growing.limits.pruning.prune`."""
    return prune(
        tree.children_left.astype(np.int64),
        tree.children_right.astype(np.int64),
        tree.weighted_n_node_samples,
        tree.impurity,
        most,
    )


def masses(weight: FloatArray | None) -> tuple[FloatArray, float]:
    """Round weights to a grid on which every sum is exact; return also their scale factor.

    Integer weights are unchanged, unless their sum is so large that products with targets
    would lose bits.  Other weights are divided by the power of two of the largest weight, and
    rounded to multiples of ``2**-52`` of the sum of all weights.  No weight becomes 0.
    """
    if weight is None:
        return np.empty(0), 1.0
    total = float(weight.sum())
    if total <= max(_LARGE_SUM, 4.0 * len(weight)) and (weight == np.rint(weight)).all():
        return weight, 1.0
    exponent = int(np.frexp(weight.max())[1])
    scale = float(np.ldexp(1.0, -exponent))
    scaled = weight * scale
    grid = float(np.ldexp(1.0, int(np.frexp(scaled.sum())[1]) - 52))
    return np.maximum(np.rint(scaled / grid), 1.0) * grid, scale


def _make_tree(
    grown: GrownNodes,
    sample: CartSample,
    samples: Samples,
    data: SortedTable,
    ranks: dict[int, IntArray],
    rules: CartRules,
) -> CartTree:
    start, category, category_left = _categories(grown, data, ranks)
    if rules.n_classes == 2 and rules.is_monotone == 1:  # keeps monotone values exact
        value = np.stack((1.0 - grown.value, grown.value), axis=1)
    elif rules.n_classes > 0:
        value = _class_shares(grown, samples, int(rules.n_classes))
    elif sample.target.ndim == 2:
        value = _means(grown, sample.target, samples.weight)
    else:
        value = grown.value[:, None]
    return CartTree(
        feature=grown.feature.astype(np.int32),
        threshold_key=node_thresholds(
            data, grown.feature, grown.last_left, grown.first_right, grown.drawn
        ),
        missing_left=grown.missing_left.astype(np.uint8),
        children_left=grown.left.astype(np.int32),
        children_right=grown.right.astype(np.int32),
        value=value,
        impurity=grown.impurity,
        n_node_samples=grown.count,
        weighted_n_node_samples=grown.weight,
        category_start=start,
        category=category,
        category_left=category_left,
        schema=sample.table.schema,
    )


def _means(grown: GrownNodes, target: FloatArray, weight: FloatArray) -> FloatArray:
    """Return the mean of each target in each node; exact if all rows of a node are equal."""
    value = np.empty((len(grown.feature), target.shape[1]))
    for node, (start, count) in enumerate(zip(grown.start, grown.count, strict=True)):
        rows = grown.rows[start : start + count]
        own = target[rows]
        base = own[0]
        value[node] = base + np.average(
            own - base, axis=0, weights=weight[rows] if len(weight) else None
        )
    return value


def _class_shares(grown: GrownNodes, samples: Samples, n_classes: int) -> FloatArray:
    """Return the fraction of each class in the weight of each node.

    The rows of each leaf are contiguous.  The sums of an inner node are added up from its
    children.
    """
    n_nodes = len(grown.feature)
    leaves = np.flatnonzero(grown.feature < 0)
    leaves = leaves[np.argsort(grown.start[leaves])]
    place = np.repeat(leaves, grown.count[leaves])
    code = samples.code[grown.rows].astype(np.int64)
    weight = samples.weight[grown.rows] if len(samples.weight) else None
    flat = np.bincount(place * n_classes + code, weights=weight, minlength=n_nodes * n_classes)
    sums = flat.reshape(n_nodes, n_classes).astype(np.float64)
    levels = [np.zeros(1, dtype=np.int64)]
    while len(inner := levels[-1][grown.feature[levels[-1]] >= 0]):
        levels.append(np.concatenate((grown.left[inner], grown.right[inner])))
    for level in reversed(levels):
        inner = level[grown.feature[level] >= 0]
        sums[inner] = sums[grown.left[inner]] + sums[grown.right[inner]]
    return sums / sums.sum(axis=1, keepdims=True)


def _categories(
    grown: GrownNodes, data: SortedTable, ranks: dict[int, IntArray]
) -> tuple[IntArray, IntArray, AnyArray]:
    """Return the training categories of each categorical node, and whether they go left."""
    sizes = np.zeros(len(grown.feature) + 1, dtype=np.int64)
    parts: list[IntArray] = [np.empty(0, dtype=np.int64)]
    sides: list[AnyArray] = [np.empty(0, dtype=np.uint8)]
    for node in np.flatnonzero(grown.feature >= 0):
        rank = ranks.get(int(grown.feature[node]))
        if rank is None:
            continue
        seen = _ranks_in(grown, rank, int(node))
        left = _ranks_in(grown, rank, int(grown.left[node]))
        sizes[node + 1] = len(seen)
        parts.append(data.different[grown.feature[node]][seen])
        sides.append(np.isin(seen, left).astype(np.uint8))
    return np.cumsum(sizes), np.concatenate(parts), np.concatenate(sides)


def _ranks_in(grown: GrownNodes, rank: IntArray, node: int) -> IntArray:
    rows = grown.rows[grown.start[node] : grown.start[node] + grown.count[node]]
    found = distinct(rank[rows])
    return found[found != MISSING_RANK]
