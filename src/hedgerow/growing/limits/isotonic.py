r"""Leaf values in the order that constraints ask for, as near as can be to those given.

Leaf values that are found leaf by leaf (a line search, the median of residuals)
know nothing of order.  A split on a column that must rise asks that every leaf
below its left child is at most every leaf below its right one; the nearest such
values, weighted by the cover of the leaves, are found from the bottom up::

            split that orders                 lower     upper
             /             \                 2   5     3   9     as found below
        lower part      upper part            2   c     c   9     c = mean of 5 and 3

The parts are in order within themselves already.  One common bound ``c`` puts them
in order with each other, and cutting off at a bound is what the nearest values
*with* that bound are (isotonic regression commutes with cutting off); ``c`` is
where the weighted amounts that are cut off on both sides are equal.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray, IntArray
from hedgerow.data.schema import Schema
from hedgerow.growing.core.tree import GrownTree
from hedgerow.kernels.tables.keys import highest_key


def split_signs(tree: GrownTree, monotone: Sequence[int], schema: Schema) -> IntArray:
    """Return the sign of each node's column, or 0 for splits that separate only missing values."""
    inner = tree.feature >= 0
    column = np.where(inner, tree.feature, 0)
    highest = np.array([highest_key(kind) for kind in schema.kinds], dtype=np.int64)
    orders = inner & (tree.threshold < highest[column])
    return np.where(orders, np.array(monotone, dtype=np.int64)[column], 0)


def order_leaves(tree: GrownTree, value: FloatArray, sign: IntArray) -> FloatArray:
    """Return values of all nodes in the order of ``sign``."""
    value = value.copy()
    inner = np.flatnonzero(tree.left != 0)
    places, starts, stops = _leaves_below(tree.left, tree.right)
    leaf_value, weight = value[places], tree.cover[places]
    for node in inner[::-1]:  # children before parents
        start, stop = starts[node], stops[node]
        if sign[node] != 0:
            middle = stops[tree.left[node]]
            lower, upper = slice(start, middle), slice(middle, stop)
            if sign[node] < 0:
                lower, upper = upper, lower
            low, high = leaf_value[lower], leaf_value[upper]  # views
            if low.max() > high.min():
                bound = common_bound(low, weight[lower], high, weight[upper])
                np.minimum(low, bound, out=low)
                np.maximum(high, bound, out=high)
    value[places] = leaf_value
    for node in inner:
        below = leaf_value[starts[node] : stops[node]]
        value[node] = min(max(value[node], below.min()), below.max())
    return value


def _leaves_below(left: AnyArray, right: AnyArray) -> tuple[IntArray, IntArray, IntArray]:
    """Return leaves from left to right, and the range of them that lies below each node."""
    starts, stops = np.zeros(len(left), np.int64), np.zeros(len(left), np.int64)
    places: list[int] = []
    stack = [0]
    while stack:
        node = stack.pop()
        if node < 0:  # both children are done
            stops[~node] = len(places)
            continue
        starts[node] = len(places)
        if left[node] == 0:
            places.append(node)
            stops[node] = len(places)
        else:
            stack += [~node, int(right[node]), int(left[node])]
    return np.array(places, dtype=np.int64), starts, stops


def common_bound(
    lower: FloatArray, lower_weight: FloatArray, upper: FloatArray, upper_weight: FloatArray
) -> float:
    """Return the c with ``sum w (lower - c)+ == sum w (c - upper)+``; some must overlap."""
    values = np.concatenate([lower, upper])
    is_lower = np.arange(len(values)) < len(lower)
    weights = np.concatenate([lower_weight, upper_weight])
    weights = np.where(weights > 0.0, weights, np.finfo(np.float64).tiny)
    order = np.argsort(values, kind="stable")
    values, is_lower, weights = values[order], is_lower[order], weights[order]
    # Between two neighbours, those of ``upper`` below and of ``lower`` above are cut off.
    up, down = np.where(is_lower, 0.0, weights), np.where(is_lower, weights, 0.0)
    mass = np.cumsum(up) + (down.sum() - np.cumsum(down))
    moment = np.cumsum(up * values) + ((down * values).sum() - np.cumsum(down * values))
    proposed = np.divide(moment, mass, out=values.copy(), where=mass > 0.0)
    excess = moment - mass * values  # falls from neighbour to neighbour
    place = max(int(np.searchsorted(-excess, 0.0, side="right")) - 1, 0)
    inside = values[min(place + 1, len(values) - 1)]
    return float(min(max(proposed[place], values[place]), inside))
