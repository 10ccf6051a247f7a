"""Naive twins of the engine: one row, one cut, one node at a time.

The engine sums integers in packed fields in any order; this file uses plain sums.  It shares no
code with the package.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from fractions import Fraction

import numpy as np

# -- histograms -----------------------------------------------------------------


def histogram(bins, rows, g, h, stride):
    """Return sums of g, h and rows of every feature and bin, as Python integers.

    ``bins[feature][row]`` is a bin; ``g``, ``h`` are integers by row.
    """
    sums = [[[0] * stride for _ in bins] for _ in range(3)]
    for feature, column in enumerate(bins):
        for row in rows:
            b = int(column[row])
            sums[0][feature][b] += int(g[row])
            sums[1][feature][b] += int(h[row])
            sums[2][feature][b] += 1
    return sums


def unpack(value, count_bits, hessian_bits):
    """Unpack g, h and the count of one number; Python integers shift like two's complement."""
    value = int(value)
    count = value % 2**count_bits
    rest = value >> count_bits
    return rest >> hessian_bits, rest % 2**hessian_bits, count


# -- partition ------------------------------------------------------------------


def goes_left(bin_, threshold, missing_bin, missing_left):
    return bool(missing_left) if bin_ == missing_bin else bin_ <= threshold


def partition(column, threshold, missing_bin, missing_left, rows):
    """Return the left rows, then the right rows, each in the original order."""
    left = [r for r in rows if goes_left(column[r], threshold, missing_bin, missing_left)]
    right = [r for r in rows if not goes_left(column[r], threshold, missing_bin, missing_left)]
    return left + right, len(left)


# -- leaves and splits ------------------------------------------------------------


@dataclass(frozen=True)
class Rules:
    """Parameters with the names and meanings of :class:`hedgerow.params.BoostParams`."""

    min_samples_leaf: int = 1
    min_child_weight: float = 0.0
    reg_lambda: float = 0.0
    reg_alpha: float = 0.0
    gamma: float = 0.0
    max_delta_step: float = 0.0  # 0: no limit


def leaf_weight(g, h, rules):
    """Return the w that minimises ``g w + (h + lambda) w^2 / 2 + alpha |w|`` within the limit."""
    if h + rules.reg_lambda <= 0:
        return 0 * g
    size = max(abs(g) - rules.reg_alpha, 0) / (h + rules.reg_lambda)
    if rules.max_delta_step > 0:
        size = min(size, rules.max_delta_step)
    return -size if g > 0 else size


def loss_reduction(g, h, rules):
    """Return the reduction of the penalised loss by a leaf with these sums."""
    w = leaf_weight(g, h, rules)
    return -(g * w + (h + rules.reg_lambda) * w * w / 2 + rules.reg_alpha * abs(w))


@dataclass(frozen=True)
class Cut:
    """A cut of a node, with the sums of its left side."""

    value: float  # loss reductions of the two sides together
    feature: int
    bin: int
    missing_left: int
    g: float
    h: float
    n: int


def cuts_of_feature(feature, g, h, n, n_bins, node, rules):
    """Yield every cut that the rules allow, in the order that breaks ties.

    ``g``, ``h``, ``n`` are sums by bin, the last bin that of missing values;
    ``node`` are the three sums of the node.  Of two cuts that part the rows in
    the same way only the first is listed.
    """
    has_missing = n[-1] > 0
    for missing_left in (0, 1) if has_missing else (0,):
        g_left = g[-1] if missing_left else 0
        h_left = h[-1] if missing_left else 0
        n_left = n[-1] if missing_left else 0
        present, n_present = 0, node[2] - n[-1]
        for b in range(n_bins):
            g_left, h_left, n_left = g_left + g[b], h_left + h[b], n_left + n[b]
            present += n[b]
            if n[b] == 0 or present == 0:
                continue  # parts the rows as the cut before
            last = present == n_present
            if last and (missing_left or not has_missing):
                break  # nothing is left on the right
            sides = (
                (g_left, h_left, n_left),
                (node[0] - g_left, node[1] - h_left, node[2] - n_left),
            )
            if all(
                side[2] >= rules.min_samples_leaf
                and side[1] >= rules.min_child_weight
                and side[1] + rules.reg_lambda > 0
                for side in sides
            ):
                value = sum(loss_reduction(side[0], side[1], rules) for side in sides)
                bin_ = n_bins - 1 if last else b
                # Where no row is missing, a later one goes with the larger part.
                direction = missing_left if has_missing else int(2 * n_left >= node[2])
                yield Cut(value, feature, bin_, direction, g_left, h_left, n_left)
            if last:
                break


def best_split(g, h, n, n_bins, node, rules):
    """Return the first of the best cuts, or None; sums indexed by feature and bin."""
    best = None
    for feature in range(len(n_bins)):
        for cut in cuts_of_feature(
            feature, g[feature], h[feature], n[feature], n_bins[feature], node, rules
        ):
            if best is None or cut.value > best.value:
                best = cut
    return best


def gain_of(cut, node, rules):
    """Return the gain of a split, or None if it is not allowed or too small."""
    parent = loss_reduction(node[0], node[1], rules)
    if cut is None or cut.value - parent <= 1e-10 * abs(parent):
        return None
    gain = cut.value - parent - rules.gamma
    return gain if gain > 0 else None


def exact_rules(rules):
    """Return the rules with exact numbers."""
    fields = ("min_child_weight", "reg_lambda", "reg_alpha", "gamma", "max_delta_step")
    return Rules(rules.min_samples_leaf, *(Fraction(getattr(rules, name)) for name in fields))


# -- trees ------------------------------------------------------------------------


@dataclass
class Node:
    rows: np.ndarray
    depth: int
    cut: Cut | None = None
    gain: float | None = None
    left: int = 0
    right: int = 0
    value: float = 0.0
    cover: float = 0.0


def node_sums(bins, stride, g, h, rows):
    """Return histograms of a node in float64."""
    sums = [np.empty((len(bins), stride)) for _ in range(3)]
    for feature, column in enumerate(bins):
        at = column[rows]
        sums[0][feature] = np.bincount(at, weights=g[rows], minlength=stride)
        sums[1][feature] = np.bincount(at, weights=h[rows], minlength=stride)
        sums[2][feature] = np.bincount(at, minlength=stride)
    return sums


def slow_best_split(sums, n_bins, node, rules):
    """Call :func:`best_split` with the signature that :func:`grow_tree` needs."""
    return best_split(*sums, n_bins, node, rules)


def fast_best_split(sums, n_bins, node, rules):
    """Compute :func:`best_split` with arrays, for many rows (a test compares both)."""
    best = None
    for feature in range(len(n_bins)):
        k = n_bins[feature]
        g, h, n = (part[feature] for part in sums)
        for missing_left in (0, 1) if n[-1] > 0 else (0,):
            g_left = np.cumsum(g[:k]) + missing_left * g[-1]
            h_left = np.cumsum(h[:k]) + missing_left * h[-1]
            present = np.cumsum(n[:k])
            n_left = present + missing_left * n[-1]
            g_right, h_right = node[0] - g_left, node[1] - h_left
            n_right = node[2] - n_left
            allowed = (n[:k] > 0) & (n_left >= rules.min_samples_leaf)
            allowed &= (n_right >= max(1, rules.min_samples_leaf)) & (present > 0)
            allowed &= (h_left >= rules.min_child_weight) & (h_right >= rules.min_child_weight)
            allowed &= (h_left + rules.reg_lambda > 0) & (h_right + rules.reg_lambda > 0)
            if not allowed.any():
                continue
            with np.errstate(all="ignore"):
                value = _reductions(g_left, h_left, rules) + _reductions(g_right, h_right, rules)
            value = np.where(allowed, value, -np.inf)
            b = int(np.argmax(value))
            if best is None or value[b] > best.value:
                last = present[b] == node[2] - n[-1]
                best = Cut(
                    value[b],
                    feature,
                    k - 1 if last else b,
                    missing_left if n[-1] > 0 else int(2 * n_left[b] >= node[2]),
                    g_left[b],
                    h_left[b],
                    int(n_left[b]),
                )
    return best


def _reductions(g, h, rules):
    shrunk = np.maximum(np.abs(g) - rules.reg_alpha, 0.0)
    size = shrunk / (h + rules.reg_lambda)
    if rules.max_delta_step > 0:
        size = np.minimum(size, rules.max_delta_step)
    return size * (shrunk - (h + rules.reg_lambda) * size / 2)


def grow_tree(
    bins,
    n_bins,
    stride,
    g,
    h,
    rules,
    max_leaves=math.inf,
    max_depth=math.inf,
    depthwise=False,
    learning_rate=0.1,
    rows=None,
    search=fast_best_split,
):
    """Grow one tree in float64; nodes are numbered in the order in which they are made.

    ``bins`` is (n_features, n_rows).  Leaf-wise: the leaf with the largest gain
    is split next; depth-wise: the shallowest.  Ties go to the older leaf.
    """
    rows = np.arange(len(g)) if rows is None else np.asarray(rows)
    nodes = []

    def add(members, depth):
        node = Node(members, depth)
        total = g[members].sum(), h[members].sum(), len(members)
        node.value = learning_rate * leaf_weight(total[0], total[1], rules)
        node.cover = total[1]
        if depth < max_depth and len(members) >= 2 * rules.min_samples_leaf:
            node.cut = search(node_sums(bins, stride, g, h, members), n_bins, total, rules)
            node.gain = gain_of(node.cut, total, rules)
        nodes.append(node)
        return len(nodes) - 1

    add(rows, 0)
    n_leaves = 1
    while n_leaves < max_leaves:
        frontier = [i for i, node in enumerate(nodes) if node.gain is not None and node.left == 0]
        if not frontier:
            break
        if depthwise:
            chosen = min(frontier, key=lambda i: (nodes[i].depth, -nodes[i].gain, i))
        else:
            chosen = min(frontier, key=lambda i: (-nodes[i].gain, i))
        node = nodes[chosen]
        column = bins[node.cut.feature]
        ordered, n_left = partition(
            column, node.cut.bin, stride - 1, node.cut.missing_left, node.rows
        )
        ordered = np.array(ordered, dtype=node.rows.dtype)
        node.left = add(ordered[:n_left], node.depth + 1)
        node.right = add(ordered[n_left:], node.depth + 1)
        n_leaves += 1
    return nodes


def as_arrays(nodes, bins, stride):
    """Return the tree in the form of ``hedgerow.growing.core.grower.GrownTree``."""
    inner = np.array([node.left != 0 for node in nodes])
    cuts = [node.cut if node.left else None for node in nodes]
    return {
        "feature": np.array([-1 if cut is None else cut.feature for cut in cuts]),
        "bin": np.array([0 if cut is None else cut.bin for cut in cuts]),
        "missing_left": np.array([0 if cut is None else cut.missing_left for cut in cuts]),
        "left": np.array([node.left for node in nodes]),
        "right": np.array([node.right for node in nodes]),
        "value": np.array([node.value for node in nodes]),
        "gain": np.array([node.gain if node.left else 0.0 for node in nodes]),
        "cover": np.array([node.cover for node in nodes]),
        "count": np.array([len(node.rows) for node in nodes]),
        "inner": inner,
    }


def leaf_of_rows(tree, bins, missing_bin):
    """Return the leaf of each row of ``bins`` (n_features, n_rows); ``tree``: :func:`as_arrays`."""
    at = np.zeros(bins.shape[1], dtype=np.int64)
    while (tree["feature"][at] >= 0).any():
        rows = np.flatnonzero(tree["feature"][at] >= 0)
        node = at[rows]
        value = bins[tree["feature"][node], rows]
        left = np.where(
            value == missing_bin, tree["missing_left"][node] == 1, value <= tree["bin"][node]
        )
        at[rows] = np.where(left, tree["left"][node], tree["right"][node])
    return at


# -- losses -----------------------------------------------------------------------


def gradients(loss, target, raw, weight=None):
    """Return float64 g and h of shape (n_outputs, n_rows); ``loss`` may be a function."""
    if callable(loss):
        g, h = loss(target, raw)
    elif loss == "squared_error":
        g, h = raw - target, np.ones_like(raw)
    elif loss == "logistic":
        p = 1.0 / (1.0 + np.exp(-raw))
        g, h = p - target, p * (1.0 - p)
    elif loss == "exponential":
        sign = 2.0 * target - 1.0
        g, h = -sign * np.exp(-sign * raw), np.exp(-sign * raw)
    elif loss in ("absolute_error", "quantile"):
        g, h = (target < raw) - 0.5, np.ones_like(raw)
    else:
        p = np.exp(raw - raw.max(axis=0))
        p /= p.sum(axis=0)
        k = len(raw)
        g = p - (np.arange(k)[:, None] == target)
        h = k / (k - 1) * p * (1.0 - p)
    if loss in ("logistic", "softmax"):
        h = np.maximum(h, 1e-16)
    weight = np.ones(raw.shape[1]) if weight is None else weight
    return g * weight, h * weight


def on_grid(values):
    """Round to 2**-30 of the power of two above the largest value: sums are exact in float64."""
    largest = np.abs(values).max()
    if largest == 0.0:
        return values
    unit = 2.0 ** (math.ceil(math.log2(largest)) - 30)
    return np.rint(values / unit) * unit


def boost(
    bins,
    n_bins,
    stride,
    target,
    base,
    rules,
    n_rounds,
    loss="squared_error",
    weight=None,
    test_bins=None,
    grid=False,
    **tree_options,
):
    """Boost in float64; return raw scores of the training and test rows, and the trees.

    With ``grid`` gradients are rounded first (:func:`on_grid`), so that cuts
    that part the rows alike have equal gains and ties are decided by the rules.
    """
    raw = np.repeat(np.asarray(base, dtype=np.float64)[:, None], len(target), axis=1)
    n_test = 0 if test_bins is None else test_bins.shape[1]
    test_raw = np.repeat(np.asarray(base, dtype=np.float64)[:, None], n_test, axis=1)
    trees = []
    for _ in range(n_rounds):
        g, h = gradients(loss, target, raw, weight)
        for output in range(len(raw)):
            if grid:
                g[output], h[output] = on_grid(g[output]), on_grid(h[output])
            nodes = grow_tree(bins, n_bins, stride, g[output], h[output], rules, **tree_options)
            tree = as_arrays(nodes, bins, stride)
            for node in nodes:
                if not node.left:
                    raw[output, node.rows] += node.value
            if test_bins is not None:
                leaf = leaf_of_rows(tree, test_bins, stride - 1)
                test_raw[output] += tree["value"][leaf]
            trees.append(tree)
    return raw, test_raw, trees


def rules_of(params):
    """Return the rules that a fit's parameters set."""
    return Rules(*(getattr(params, field.name) for field in fields(Rules)))


def boosted_trees(bins, n_bins, stride, y, params, loss, base, weight, n_rounds, **more):
    """Return the trees of a fit with these parameters."""
    _, _, trees = boost(
        bins, n_bins, stride, y, base, rules_of(params), n_rounds, loss, weight,
        max_leaves=params.max_leaves or math.inf, max_depth=params.max_depth or math.inf,
        depthwise=params.grow_policy == "depthwise", learning_rate=params.learning_rate, grid=True,
        **more,
    )  # fmt: skip
    return trees


def ulps_apart(a, b):
    """Return the number of float64 steps between positive numbers."""
    return np.abs(np.asarray(a).view(np.int64) - np.asarray(b).view(np.int64))


# -- rows set aside ----------------------------------------------------------------


def rows_aside(hashes, target, fraction, stratify):
    """Return the rows of each class with the smallest hashes, in ascending order."""
    labels = sorted(set(target.tolist())) if stratify else [None]
    classes = [[i for i, y in enumerate(target.tolist()) if label in (None, y)] for label in labels]
    counts = [min(round(fraction * len(rows)), len(rows) - 1) for rows in classes]
    if sum(counts) == 0:
        if len(max(classes, key=len)) < 2:
            raise ValueError("none can be set aside")
        counts[max(range(len(classes)), key=lambda k: len(classes[k]))] = 1
    found = []
    for rows, count in zip(classes, counts, strict=True):
        found += sorted(rows, key=lambda i: hashes[i])[:count]
    return sorted(found)
