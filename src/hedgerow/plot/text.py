"""Trees as text: an indented drawing, rules, and the columns of a table.

::

    petal_width <= 0.8 (missing left)  gain=52.3 cover=37.5 n=150
    ├─ yes: value=-0.4312  cover=12.5 n=50
    └─ no:  petal_length <= 4.75 (missing right)  gain=…
       ├─ …

All walks use a list of open nodes, not recursion, so that a tree of any depth
can be shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, SupportsIndex, TypeAlias

import numpy as np

from hedgerow.arrays import IntArray
from hedgerow.data.schema import Schema
from hedgerow.kernels.keys import floats_of_keys
from hedgerow.model.forest import Forest
from hedgerow.plot.labels import (
    ModelLike,
    Tree,
    as_forest,
    checked_depth,
    condition,
    pick_tree,
    short_number,
    shown_name,
    threshold_value,
)

Frame: TypeAlias = dict[str, np.ndarray | list[Any]]

_EXACT_INTEGERS = 2**53
"""Up to here float64 holds every integer."""


def tree_text(
    model: ModelLike,
    tree: SupportsIndex = 0,
    max_depth: SupportsIndex | None = None,
    *,
    schema: Schema | None = None,
) -> str:
    """Draw a tree with characters.

    Parameters
    ----------
    model : Model or Forest
    tree : int, default=0
        Number of the tree; negative numbers count from the end.
    max_depth : int, optional
        Splits deeper than this are summed up in one line.
    schema : Schema, optional
        Columns; needed beside a forest only.

    Returns
    -------
    str
        One line per node. Thresholds are exact; ``value`` is what a leaf adds
        to the raw score, learning rate included; ``cover`` is the sum of the
        hessians and ``n`` the number of the training rows that got there.

    Raises
    ------
    IndexError
        If there is no such tree.
    ParameterError
        If ``max_depth`` is not a whole number from 0 on.

    Examples
    --------
    >>> from hedgerow import Dataset, train
    >>> from hedgerow.plot import tree_text
    >>> params = {"n_estimators": 1, "learning_rate": 1.0, "min_samples_leaf": 1}
    >>> params |= {"reg_lambda": 0.0, "early_stopping": False}
    >>> booster = train(params, Dataset([[1.0], [2.0], [4.0]], [0.0, 0.0, 3.0]))
    >>> print(tree_text(booster.model))
    tree 0 of 1: 2 leaves, 3 nodes, depth 1
    x0 <= 3.0 (missing left)  gain=3 cover=3 n=3
    ├─ yes: value=-1  cover=2 n=2
    └─ no:  value=2  cover=1 n=1
    """
    chosen, max_depth = pick_tree(model, schema, tree), checked_depth(max_depth)
    n_nodes, depths = len(chosen.nodes.feature), chosen.depths()
    n_leaves = chosen.leaves_below()
    lines = [f"{chosen.title()}: {n_leaves[0]} leaves, {n_nodes} nodes, depth {max(depths)}"]
    todo = [(0, "", "")]
    while todo:
        node, first, rest = todo.pop()
        if chosen.is_leaf(node):
            lines.append(f"{first}{_leaf_text(chosen, node)}")
        elif max_depth is not None and depths[node] >= max_depth:
            lines.append(f"{first}… {n_leaves[node]} leaves: {_leaf_text(chosen, node)}")
        else:
            gain = short_number(chosen.nodes.gain[node])
            side = "left" if chosen.nodes.missing_left[node] else "right"
            what = f"{condition(chosen, node)} (missing {side})"
            lines.append(f"{first}{what}  gain={gain} {_size_text(chosen, node)}")
            left, right = chosen.children(node)
            todo.append((right, f"{rest}└─ no:  ", f"{rest}   "))
            todo.append((left, f"{rest}├─ yes: ", f"{rest}│  "))
    return "\n".join(lines)


def tree_rules(
    model: ModelLike, tree: SupportsIndex = 0, *, schema: Schema | None = None
) -> list[str]:
    """Write a tree as rules, one for each leaf, from left to right.

    Parameters
    ----------
    model, tree, schema
        As for :func:`tree_text`.

    Returns
    -------
    list of str
        For example
        ``"petal_width > 0.8 and petal_length <= 4.75 -> 0.31  (cover=12, n=48)"``.
        Exactly one rule of a tree holds for any row.  Conditions on one column
        are drawn together (``0.8 < petal_width <= 1.75``).  ``or missing``
        stands where a missing value of the column takes this way, too;
        without it a missing value does not meet the condition.  Thresholds
        and values are exact; ``cover`` is rounded to four digits.

    Raises
    ------
    IndexError
        If there is no such tree.

    Examples
    --------
    >>> from hedgerow import Dataset, train
    >>> from hedgerow.plot import tree_rules
    >>> params = {"n_estimators": 1, "learning_rate": 1.0, "min_samples_leaf": 1}
    >>> params |= {"reg_lambda": 0.0, "early_stopping": False}
    >>> booster = train(params, Dataset([[1.0], [2.0], [4.0]], [0.0, 0.0, 3.0]))
    >>> for rule in tree_rules(booster.model):
    ...     print(rule)
    (x0 <= 3.0 or missing) -> -1.0  (cover=2, n=2)
    x0 > 3.0 -> 2.0  (cover=1, n=1)
    """
    chosen = pick_tree(model, schema, tree)
    rules: list[str] = []
    # By column, and by node where a node splits by categories.
    start: tuple[int, dict[tuple[str, int], _Range | _Choice]] = (0, {})
    todo = [start]
    while todo:
        node, parts_of = todo.pop()
        if chosen.is_leaf(node):
            parts = [part.text(shown_name(name)) for (name, _), part in parts_of.items()]
            cover, count = short_number(chosen.nodes.cover[node]), int(chosen.nodes.count[node])
            what = f"{chosen.value_text(node, exact=True)}  (cover={cover}, n={count})"
            rules.append(f"{' and '.join(parts) or 'always'} -> {what}")
            continue
        name, left_missing = chosen.column(node).name, bool(chosen.nodes.missing_left[node])
        left, right = chosen.children(node)
        choice = chosen.choice(node)
        ways: tuple[_Range | _Choice, _Range | _Choice]
        if choice is not None:
            key = (name, node)
            ways = (
                _Choice(choice[0], left_missing, choice[2]),
                _Choice(choice[1], not left_missing, not choice[2]),
            )
        else:
            key = (name, -1)
            at = threshold_value(chosen.column(node), int(chosen.nodes.threshold[node]))
            now = parts_of.get(key, _Range())
            assert isinstance(now, _Range)
            ways = (now.up_to(at, missing=left_missing), now.above(at, missing=not left_missing))
        # Dictionaries keep the order in which columns came up first.
        todo.append((right, parts_of | {key: ways[1]}))
        todo.append((left, parts_of | {key: ways[0]}))
    return rules


def forest_frame(model: ModelLike, schema: Schema | None = None) -> Frame:
    """Lay out all nodes of all trees as the columns of a table.

    Parameters
    ----------
    model, schema
        As for :func:`tree_text`.

    Returns
    -------
    dict
        ``tree``, ``node``, ``depth``, ``output``; ``feature`` (name) and
        ``missing`` ("left" or "right"), None in a leaf; ``threshold``,
        float64, NaN in a leaf, or exact Python numbers in an object array if
        some integer threshold is beyond 2**53; ``left`` and ``right``,
        nodes of the same tree, -1 in a leaf; ``value``, ``gain``, ``cover``,
        ``count``.

    Examples
    --------
    >>> from hedgerow import Dataset, train
    >>> from hedgerow.plot import forest_frame
    >>> params = {"n_estimators": 1, "min_samples_leaf": 1, "early_stopping": False}
    >>> booster = train(params, Dataset([[1.0], [2.0], [4.0]], [0.0, 0.0, 3.0]))
    >>> frame = forest_frame(booster.model)
    >>> frame["feature"], frame["count"].tolist()
    (['x0', None, None], [3, 2, 1])
    """
    forest, schema = as_forest(model, schema)
    sizes = np.diff(forest.tree_start)
    tree = np.repeat(np.arange(forest.n_trees), sizes)
    leaf = forest.feature < 0
    names = (*schema.names, None)  # a leaf's feature, -1, picks the last
    side = np.where(leaf, 2, 1 - forest.missing_left.astype(np.int64))
    return {
        "tree": tree,
        "node": np.arange(len(leaf)) - forest.tree_start[tree],
        "depth": _all_depths(forest, tree),
        "output": tree % forest.n_outputs,
        "feature": [names[j] for j in forest.feature.tolist()],
        "threshold": _thresholds(forest, schema),
        "missing": [("left", "right", None)[s] for s in side.tolist()],
        "left": np.where(leaf, -1, forest.left.astype(np.int64)),
        "right": np.where(leaf, -1, forest.right.astype(np.int64)),
        "value": forest.value.copy(),
        "gain": forest.gain.copy(),
        "cover": forest.cover.copy(),
        "count": forest.count.copy(),
    }


@dataclass(frozen=True, slots=True)
class _Choice:
    """Categories that take one way, and whether missing and unseen ones do."""

    categories: str
    missing: bool
    others: bool

    def text(self, name: str) -> str:
        words = [f"in {self.categories}"] if self.categories != "{}" else []
        words += ["missing"] * self.missing + ["other"] * self.others
        if words[:1] in (["missing"], ["other"]):
            words[0] = f"is {words[0]}"
        text = f"{name} {' or '.join(words)}"
        return f"({text})" if len(words) > 1 else text


class _Range:
    """Values of one column that lead to a node: ``low < value <= high``, and missing or not."""

    def __init__(
        self,
        low: float | int | None = None,
        high: float | int | None = None,
        missing: bool = True,
    ) -> None:
        self.low, self.high, self.missing = low, high, missing

    def up_to(self, at: float | int, *, missing: bool) -> _Range:
        high = at if self.high is None else min(at, self.high)
        return _Range(self.low, high, self.missing and missing)

    def above(self, at: float | int, *, missing: bool) -> _Range:
        low = at if self.low is None else max(at, self.low)
        return _Range(low, self.high, self.missing and missing)

    def text(self, name: str) -> str:
        low, high = self.low, self.high
        nothing = low is not None and (low >= high if high is not None else low == np.inf)
        if nothing:
            return f"{name} is missing" if self.missing else f"no value of {name}"
        if high is None:
            text = f"{name} > {low!r}"
        else:
            text = f"{name} <= {high!r}" if low is None else f"{low!r} < {name} <= {high!r}"
        return f"({text} or missing)" if self.missing else text


def _leaf_text(tree: Tree, node: int) -> str:
    return f"value={tree.value_text(node)}  {_size_text(tree, node)}"


def _size_text(tree: Tree, node: int) -> str:
    return f"cover={short_number(tree.nodes.cover[node])} n={int(tree.nodes.count[node])}"


def _all_depths(forest: Forest, tree: IntArray) -> IntArray:
    """Depth of every node of all trees, one level at a time."""
    depth = np.zeros(len(forest.feature), dtype=np.int64)
    level = forest.tree_start[:-1]
    while len(level):
        inner = level[forest.feature[level] >= 0]
        root = forest.tree_start[tree[inner]]
        below = [root + forest.left[inner], root + forest.right[inner]]
        for children in below:
            depth[children] = depth[inner] + 1
        level = np.concatenate(below)
    return depth


def _thresholds(forest: Forest, schema: Schema) -> np.ndarray:
    """Decoded thresholds; an object array only where float64 would not be exact."""
    leaf = forest.feature < 0
    is_int = np.array([*(kind == "int" for kind in schema.kinds), False])[forest.feature]
    key = forest.threshold
    with np.errstate(invalid="ignore"):  # keys of integers may look like NaN with payload
        values = np.where(is_int, key.astype(np.float64), floats_of_keys(key))
    values[leaf] = np.nan
    # No int64 threshold is -2**63, so its magnitude can be taken.
    if not (np.abs(key[is_int]) > _EXACT_INTEGERS).any():
        return values
    exact = values.astype(object)
    exact[is_int] = [int(number) for number in key[is_int].tolist()]
    return exact
