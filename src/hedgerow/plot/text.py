"""Trees as text: an indented drawing, rules, and the columns of a table.

::

    petal_width <= 0.8 (missing left)  gain=52.3 cover=37.5 n=150
    ├─ yes: value=-0.4312  cover=12.5 n=50
    └─ no:  city in {Oslo, Rome} (missing right)  gain=…
       ├─ …

All walks use a list of open nodes instead of recursion, so a tree may have any depth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, SupportsIndex, TypeAlias

import numpy as np

from hedgerow.data.schema import Schema, Temporal
from hedgerow.errors import shown_name
from hedgerow.kernels.prediction.slopes import Slopes
from hedgerow.kernels.tables.keys import floats_of_keys
from hedgerow.model.forest import HIGHEST_KEY, Forest
from hedgerow.plot import labels
from hedgerow.plot.labels import LETTERS_OF_TEXT, Division, Mask, membership

Frame: TypeAlias = dict[str, np.ndarray | list[Any]]

_EXACT_INTEGERS = 2**53
"""Limit up to which float64 holds every integer."""

_DEEPEST_INDENT = 100
"""Depth of the largest indent; without a limit, the text of a chain has quadratic length."""


def tree_text(
    model: labels.ModelLike,
    tree: SupportsIndex = 0,
    max_depth: SupportsIndex | None = None,
    *,
    schema: Schema | None = None,
) -> str:
    """Draw a tree with characters.

    Parameters
    ----------
    model : Booster, fitted estimator, Model or Forest
        As a method: the booster.
    tree : int, default=0
        Number of the tree; negative numbers count from the end.
    max_depth : int, optional
        Deeper splits are summarised in one line.
    schema : Schema, optional
        Columns; needed only with a forest.

    Returns
    -------
    str
        One line per node.  Below depth 100, lines have the same indent, and show their depth
        in brackets.  Thresholds are exact; long sets of categories are shortened
        (``{Bonn, Kiev, … 14 more}``).  ``value`` is the contribution of a leaf to the raw
        score, including the learning rate.  ``cover`` is the sum of the hessians, and ``n`` the
        number, of the training rows in the node.  Categories without training rows count as
        missing, unless ``other`` names their side.  A model without trees is shown as its base
        score.

    Raises
    ------
    IndexError
        If there is no such tree.
    ParameterError
        If ``max_depth`` is not a whole number >= 0.

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
    chosen, max_depth = labels.pick_tree(model, schema, tree), labels.checked_depth(max_depth)
    n_nodes, depths = len(chosen.nodes.feature), chosen.depths()
    n_leaves = chosen.leaves_below()
    sizes = f": {n_leaves[0]} leaves, {n_nodes} nodes, depth {max(depths)}"
    lines = [f"{chosen.title()}{sizes if chosen.n_trees else ''}"]
    todo = [(0, "", "")]
    while todo:
        node, first, indent = todo.pop()
        if chosen.is_leaf(node):
            lines.append(f"{first}{_leaf_text(chosen, node)}")
        elif max_depth is not None and depths[node] >= max_depth:
            lines.append(f"{first}… {n_leaves[node]} leaves: {_leaf_text(chosen, node)}")
        else:
            what = " ".join(labels.condition(chosen, node, letters=LETTERS_OF_TEXT))
            missing_left = bool(chosen.nodes.missing_left[node])
            ways = f"missing {'left' if missing_left else 'right'}"
            division = chosen.division(node)
            if division is not None and (other := division.other_way(missing_left)):
                ways += f", other {other}"
            gain = labels.short_number(chosen.nodes.gain[node])
            lines.append(f"{first}{what} ({ways})  gain={gain} {chosen.size_text(node)}")
            left, right = chosen.children(node)
            deep = depths[node] >= _DEEPEST_INDENT
            at = f"[{depths[node] + 1}] " if deep else ""
            todo.append((right, f"{indent}└─ {at}no:  ", indent if deep else f"{indent}   "))
            todo.append((left, f"{indent}├─ {at}yes: ", indent if deep else f"{indent}│  "))
    return "\n".join(lines)


def tree_rules(
    model: labels.ModelLike, tree: SupportsIndex = 0, *, schema: Schema | None = None
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
        Exactly one rule of a tree holds for any row.  Conditions on one column are combined
        (``0.8 < petal_width <= 1.75``).  ``or missing`` means that missing values of the column
        meet the condition; without it they do not.  Thresholds, sets of categories and values
        are complete; ``cover`` is rounded to four digits.  ``city not in {Oslo}`` means all
        other levels of the training rows.  A value that is not a level counts as missing.  If
        the model treats the two differently, the rule has ``other`` besides ``missing``.

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
    chosen = labels.pick_tree(model, schema, tree)
    rules: list[str] = []
    start: tuple[int, _Parts] = (0, {})
    todo = [start]
    while todo:
        node, parts_of = todo.pop()
        if chosen.is_leaf(node):
            words = [part.text(shown_name(name)) for name, part in parts_of.items()]
            size = chosen.size_text(node, "cover={}, n={}")
            what = f"{chosen.value_text(node, exact=True)}  ({size})"
            rules.append(f"{' and '.join(words) or 'always'} -> {what}")
            continue
        column, missing_left = chosen.column(node), bool(chosen.nodes.missing_left[node])
        division, part = chosen.division(node), parts_of.get(column.name)
        ways: tuple[_Part, _Part]
        if division is not None:
            if not isinstance(part, _Levels):
                everything = np.ones(len(division.levels), dtype=np.bool_)
                other = None if division.other == "missing" else True
                part = _Levels(division.levels, everything, True, other)
            ways = part.divide(division, missing_left)
        else:
            at = labels.threshold_value(column, int(chosen.nodes.threshold[node]))
            range_ = part if isinstance(part, _Range) else _Range(temporal=column.temporal)
            ways = range_.divide(at, missing_left)
        # The dictionary keeps the order of the first conditions on columns.
        left, right = chosen.children(node)
        todo.append((right, parts_of | {column.name: ways[1]}))
        todo.append((left, parts_of | {column.name: ways[0]}))
    return rules


def forest_frame(model: labels.ModelLike, schema: Schema | None = None) -> Frame:
    """Return all nodes of all trees as the columns of a table.

    Parameters
    ----------
    model, schema
        As for :func:`tree_text`.

    Returns
    -------
    dict
        ``tree``, ``node``, ``depth``, ``output``; ``feature`` (name) and ``missing`` ("left" or
        "right"), both None in a leaf; ``threshold``, NaN in a leaf; ``left`` and ``right``,
        nodes of the same tree, -1 in a leaf; ``value``, ``gain``, ``cover``, ``count``.
        ``threshold`` is infinite where a split separates the missing values from all others.
        ``threshold`` is float64, or an object array of exact Python numbers if an integer
        threshold is beyond 2**53.  With vector leaves, ``value`` is a list of vectors and
        ``output`` is -1.  With category columns there is also ``left_levels``, the list of the
        levels that go left at a category split, else None; ``threshold`` is then an object
        array, and None at such splits.  With linear leaves there are also ``terms``, a list of
        (feature, slope, center) for each leaf and None for other nodes, and ``terms_low`` and
        ``terms_high``, the bounds of the sum of the terms; with vector leaves each of them is a
        list with an entry for each output.

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
    divisions = model.divisions if isinstance(model, labels.Labelled) else None
    forest, schema = labels.as_forest(model, schema)
    sizes = np.diff(forest.tree_start)
    tree = np.repeat(np.arange(forest.n_trees), sizes)
    leaf = forest.feature < 0
    names = (*schema.names, None)  # the feature of a leaf is -1, which selects the last name
    side = np.where(leaf, 2, 1 - forest.missing_left.astype(np.int64))
    if divisions is None:
        nodes = np.flatnonzero(forest.has_sets).tolist()
        found = ((node, labels.division_of(forest, schema, node)) for node in nodes)
        divisions = {node: division for node, division in found if division is not None}
    threshold = _thresholds(forest, schema, divisions)
    frame: Frame = {
        "tree": tree,
        "node": np.arange(len(leaf)) - forest.tree_start[tree],
        "depth": labels.depths_of(forest),
        "output": tree % forest.n_outputs if forest.vectors is None else np.full(len(tree), -1),
        "feature": [names[j] for j in forest.feature.tolist()],
        "threshold": threshold,
        "missing": [("left", "right", None)[s] for s in side.tolist()],
        "left": np.where(leaf, -1, forest.left.astype(np.int64)),
        "right": np.where(leaf, -1, forest.right.astype(np.int64)),
        "value": forest.value.copy() if forest.vectors is None else forest.vectors.tolist(),
        "gain": forest.gain.copy(),
        "cover": forest.cover.copy(),
        "count": forest.count.copy(),
    }
    if forest.slopes is not None:
        frame |= _terms(forest, forest.slopes, schema)
    if divisions or "category" in schema.kinds:
        chosen = map(divisions.get, range(len(leaf)))
        frame["left_levels"] = [None if d is None else d.left_levels() for d in chosen]
    return frame


def _terms(forest: Forest, slopes: Slopes, schema: Schema) -> Frame:
    """Return the terms of linear leaves, and the bounds of their sums."""
    names = [schema.names[j] for j in slopes.column.tolist()]
    every = list(zip(names, slopes.slope.tolist(), slopes.center.tolist(), strict=True))
    lines: list[Any] = [every[first:stop] for first, stop in pairwise(slopes.start.tolist())]
    low: Any = slopes.low.copy()
    high: Any = slopes.high.copy()
    leaf = (forest.feature < 0).tolist()
    terms = [own if is_leaf else None for own, is_leaf in zip(lines, leaf, strict=True)]
    return {"terms": terms, "terms_low": low, "terms_high": high}


@dataclass(frozen=True, slots=True, eq=False)
class _Levels:
    """Levels of one column that reach a node, and whether missing and other values do.

    ``other`` is None if values that are not a level count as missing.
    """

    levels: Sequence[Any]
    allowed: Mask
    missing: bool
    other: bool | None

    def divide(self, division: Division, missing_left: bool) -> tuple[_Levels, _Levels]:
        """Return the levels that go left and the levels that go right."""
        sides = []
        for side, goes in (("left", division.goes_left), ("right", ~division.goes_left)):
            missing = self.missing and (side == "left") == missing_left
            other = None if self.other is None else self.other and division.other == side
            sides.append(_Levels(self.levels, self.allowed & goes, missing, other))
        return sides[0], sides[1]

    def text(self, name: str) -> str:
        apart = self.other is not None
        other = self.other if self.other is not None else self.missing
        ways = {"missing": self.missing, **({"other": other} if apart else {})}
        taken = [word for word, goes in ways.items() if goes]
        if self.allowed.all():
            rest = [word for word, goes in ways.items() if not goes]
            if len(rest) == 2:
                return f"{name} is neither missing nor other"
            return f"{name} is not {rest[0]}" if rest else f"any value of {name}"
        if not self.allowed.any():
            return f"{name} is {' or '.join(taken)}" if taken else f"no value of {name}"
        known = " ".join((name, *membership(self.levels, self.allowed, None)))
        return f"({' or '.join([known, *taken])})" if taken else known


@dataclass(frozen=True, slots=True)
class _Range:
    """Values of one column that reach a node: ``low < value <= high``, and perhaps missing."""

    low: float | int | None = None
    high: float | int | None = None
    missing: bool = True
    temporal: Temporal | None = None

    def divide(self, at: float | int, missing_left: bool) -> tuple[_Range, _Range]:
        """Return the values up to a number, and the values above it."""
        high = at if self.high is None else min(at, self.high)
        low = at if self.low is None else max(at, self.low)
        return (
            replace(self, high=high, missing=self.missing and missing_left),
            replace(self, low=low, missing=self.missing and not missing_left),
        )

    def text(self, name: str) -> str:
        low, high = self.low, self.high
        nothing = low is not None and (low >= high if high is not None else low == np.inf)
        if nothing:
            return f"{name} is missing" if self.missing else f"no value of {name}"
        above = "" if low is None else labels.threshold_text(low, self.temporal)
        if high is None:
            text = f"{name} > {above}"
        else:
            text = f"{name} <= {labels.threshold_text(high, self.temporal)}"
            text = text if low is None else f"{above} < {text}"
        return f"({text} or missing)" if self.missing else text


_Part: TypeAlias = _Range | _Levels
_Parts: TypeAlias = dict[str, _Part]


def _leaf_text(tree: labels.Tree, node: int) -> str:
    return f"value={tree.value_text(node)}  {tree.size_text(node)}"


def _thresholds(forest: Forest, schema: Schema, divisions: Mapping[int, Division]) -> np.ndarray:
    """Return decoded thresholds; an object array only if float64 would not be exact."""
    leaf = forest.feature < 0
    is_int = np.array([*(kind == "int" for kind in schema.kinds), False])[forest.feature]
    is_int[list(divisions)] = False
    key = forest.threshold
    with np.errstate(invalid="ignore"):  # keys of integers may look like NaN with a payload
        values = np.where(is_int, key.astype(np.float64), floats_of_keys(key))
    values[leaf] = np.nan
    values[is_int & (key == HIGHEST_KEY)] = np.inf
    is_int &= key != HIGHEST_KEY
    # No int64 threshold is -2**63, so its magnitude can be taken.
    if not divisions and not (np.abs(key[is_int]) > _EXACT_INTEGERS).any():
        return values
    exact = values.astype(object)
    if (np.abs(key[is_int]) > _EXACT_INTEGERS).any():
        exact[is_int] = key[is_int].tolist()
    exact[list(divisions)] = None
    return exact
