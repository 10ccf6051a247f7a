"""Text for the parts of a tree, shared by text, plot and frame.

Glossary
--------
condition   ``petal_width <= 0.8`` or ``city in {Oslo, Rome}``: true for the rows that go
            left (except missing and unknown values, whose way is stated separately)
cover       sum of the hessians of the training rows that reached a node
gain        loss reduction of a split
node        position within its tree, the root being 0, as in ``left`` and ``right``
level       value of a category that occurs in training
other       value that is not a level: it counts as missing, or has its own side (CART)
division    the levels of a column and which of them go left

The text of a division lists the side with fewer levels, even if this side goes right::

    city in {Oslo, Rome}            city not in {Bonn, Kiev}
    city is missing                 no level goes left, but missing values do
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, TypeAlias

import numpy as np

from hedgerow.arrays import BoolArray, IntArray
from hedgerow.data.reading.temporal import text_of_ticks
from hedgerow.data.schema import Column, Schema, Temporal
from hedgerow.errors import DataError, DataTypeError, ParameterError, brief, shown_name
from hedgerow.inspection.background import inspected
from hedgerow.kernels.tables.keys import float_of_key
from hedgerow.model.forest import HIGHEST_KEY, UNKNOWN_BIN, Forest, node_arrays
from hedgerow.model.model import Model
from hedgerow.params import Interval

if TYPE_CHECKING:
    from hedgerow.inspection.methods import Inspections


Mask: TypeAlias = BoolArray
Way: TypeAlias = Literal["left", "right", "missing"]
"""Way of values that are not a level: a side, or the side of missing values."""

LETTERS_OF_TEXT, LETTERS_OF_PICTURE = 60, 32
"""Limit on the letters of a shortened set of levels."""

_AMBIGUOUS = frozenset(",{}()\"'")
_RESERVED = frozenset({"missing", "other", "always", "true", "false", "none", "null"})
_EXACT = 2.0**53


@dataclass(frozen=True, slots=True, eq=False)
class Division:
    """The categories of a split.

    Attributes
    ----------
    levels : sequence of str, int or float
        All levels of the column, ascending.
    goes_left : bool, one per level
    other : {"left", "right", "missing"}, default="missing"
        Way of values that are not a level.
    """

    levels: Sequence[Any]
    goes_left: Mask
    other: Way = "missing"

    def left_levels(self) -> list[Any]:
        """Return the levels that go left, ascending."""
        return list(compress(self.levels, self.goes_left.tolist()))

    def other_way(self, missing_left: bool) -> str:
        """Return ``"left"`` or ``"right"``; empty if as for missing values."""
        if self.other == "missing" or self.other == ("left" if missing_left else "right"):
            return ""
        return self.other

    def phrase(self, missing_left: bool, letters: int | None = None) -> tuple[str, str]:
        """Return the left side's condition: ``("in", "{Oslo, Rome}")`` or ``("is", "missing")``."""
        other_left = missing_left if self.other == "missing" else self.other == "left"
        if not self.goes_left.any() and (missing_left or other_left):
            return "is", "missing" if missing_left else "other"
        if self.goes_left.all() and not (missing_left and other_left):
            return "is not", "other" if missing_left else "missing"
        return membership(self.levels, self.goes_left, letters)


def membership(levels: Sequence[Any], chosen: Mask, letters: int | None) -> tuple[str, str]:
    """Return ``("in", "{...}")`` with the chosen levels, or ``("not in", ...)`` with the others."""
    most = 2 * np.count_nonzero(chosen) > len(chosen)
    listed = compress(levels, (~chosen if most else chosen).tolist())
    return "not in" if most else "in", set_text(list(listed), letters)


def division_of(forest: Forest, schema: Schema, node: int) -> Division | None:
    """Return the division of a node; None for a leaf and a numeric split."""
    feature, tables = int(forest.feature[node]), forest.categories
    if feature < 0 or tables is None or len(tables.bins_of(feature)) == 0:
        return None
    column, bins = schema.columns[feature], tables.bins_of(feature)
    if len(column.levels) != len(bins):
        raise DataError(
            f"column {column.name!r} has {len(column.levels)} levels in the schema, but the "
            f"forest divides {len(bins)}: use the schema of the training."
        )
    in_set = tables.bins_left(int(forest.threshold[node]))
    other: Way = "missing"
    if tables.unknown_in_sets:
        other = "left" if in_set[UNKNOWN_BIN] else "right"
    return Division(column.levels, in_set[bins], other)


def set_text(levels: Sequence[Any], letters: int | None = None) -> str:
    """Return ``{Oslo, Rome, … 14 more}``, at most ``letters`` long, or complete if None."""
    if letters is None or len(levels) <= letters:  # the commas of more levels would not fit
        text = "{" + ", ".join(map(level_text, levels)) + "}"
        if letters is None or len(text) <= letters:
            return text
    words = [_shortened(level_text(level), 2 * letters // 3) for level in levels[:letters]]
    while len(words) > 1 and len(_cut_set(words, len(levels))) > letters:
        words.pop()
    room = letters - len(_cut_set([""], len(levels)))
    return _cut_set([_shortened(words[0], room), *words[1:]], len(levels))


def _shortened(word: str, letters: int) -> str:
    return word if len(word) <= letters else f"{word[: letters - 4]}…{word[-3:]}"


def _cut_set(words: Sequence[str], n_levels: int) -> str:
    more = [f"… {n_levels - len(words):,} more"] if n_levels > len(words) else []
    return "{" + ", ".join([*words, *more]) + "}"


def level_text(level: Any) -> str:
    """Return a level in full, in quotes if the text could be misread."""
    if isinstance(level, str):
        return level if _is_plain(level) else repr(level)
    if isinstance(level, float) and level.is_integer() and abs(level) <= _EXACT:
        return str(int(level))
    return str(level)


def _is_plain(text: str) -> bool:
    """Return whether a level needs no quotes: it has no special mark, keyword or number."""
    if text != text.strip() or not text or not text.isprintable() or _AMBIGUOUS & set(text):
        return False
    if text.lower() in _RESERVED or "…" in text or "->" in text:
        return False
    if {"and", "or"} & set(text.split()):
        return False
    try:
        float(text)
    except ValueError:
        return True
    return False


@dataclass(frozen=True, slots=True, eq=False)
class Labelled:
    """A single tree with its own texts.

    Attributes
    ----------
    forest : Forest
        A single tree; its values determine only the colours of the leaves.
    values : sequence of str, or None
        Prediction of each node, such as ``"setosa 0.98"``; None for numbers.
    divisions : mapping of int to Division
        The categories that go left, for nodes that split by categories.  All divisions of one
        column have the same levels.
    """

    forest: Forest
    values: Sequence[str] | None
    divisions: Mapping[int, Division]


ModelLike: TypeAlias = "Model | Forest | Labelled | Inspections"
"""A booster, an estimator, or its trees."""


_DEPTHS = Interval(0, math.inf, integer=True)
_FEW_VALUES = 4
"""Number of values of a vector that are shown for information."""

_LONGEST_CUT, _FEWEST_DIGITS = 12, 6
"""Letters of a number that a picture shows in full, and digits that it shows of a longer one."""


@dataclass(frozen=True, slots=True)
class Tree:
    """One tree as a forest of its own, with the names of its columns."""

    nodes: Forest
    schema: Schema
    index: int
    n_trees: int  # 0: a leaf with the base score stands for a model without trees
    output: int  # the raw score that the tree adds to; 0 of 1 for vector leaves
    n_outputs: int
    labelled: Labelled | None = None

    def value_text(self, node: int, *, exact: bool = False) -> str:
        """Return the prediction of the node."""
        if self.labelled is not None and self.labelled.values is not None:
            return self.labelled.values[node]
        vectors = self.nodes.vectors
        values = self.nodes.value[node : node + 1] if vectors is None else vectors[node]
        shown = (values if exact else values[:_FEW_VALUES]).tolist()
        number = repr if exact else short_number
        texts = [number(value) for value in shown]
        if vectors is None:
            return texts[0] + self._terms_text(node, exact)
        more = len(values) - len(shown)
        return f"[{', '.join(texts)}{f', … {more} more' if more > 0 else ''}]"

    def _terms_text(self, node: int, exact: bool) -> str:
        """Return ``+ 0.3 (age - 41)`` for each term; exact, with the bounds of their sum."""
        slopes = self.nodes.slopes
        if slopes is None or slopes.start[node] == slopes.start[node + 1]:
            return ""
        number = repr if exact else short_number
        text = ""
        for term in range(int(slopes.start[node]), int(slopes.start[node + 1])):
            slope, center = float(slopes.slope[term]), float(slopes.center[term])
            name = shown_name(self.schema.names[slopes.column[term]])
            text += f" {'+' if slope >= 0.0 else '-'} {number(abs(slope))} "
            text += f"({name} {'-' if center >= 0.0 else '+'} {number(abs(center))})"
        if not exact:
            return text
        return f"{text} within [{float(slopes.low[node])!r}, {float(slopes.high[node])!r}]"

    def size_text(self, node: int, form: str = "cover={} n={}") -> str:
        """Return cover and number of rows; of a base score, which has neither, its name."""
        if self.n_trees == 0:
            return "base score"
        return form.format(short_number(self.nodes.cover[node]), int(self.nodes.count[node]))

    def division(self, node: int) -> Division | None:
        """Return which categories go left, if the node splits by categories."""
        if self.labelled is not None:
            return self.labelled.divisions.get(node)
        return division_of(self.nodes, self.schema, node)

    def is_leaf(self, node: int) -> bool:
        return bool(self.nodes.feature[node] < 0)

    def children(self, node: int) -> tuple[int, int]:
        """Return left and right child."""
        return int(self.nodes.left[node]), int(self.nodes.right[node])

    def column(self, node: int) -> Column:
        return self.schema.columns[self.nodes.feature[node]]

    def depths(self) -> list[int]:
        """Return the depth of each node."""
        return depths_of(self.nodes).tolist()

    def leaves_below(self) -> list[int]:
        """Return the number of leaves below each node, from the last node to the root."""
        counts = (self.nodes.feature < 0).astype(int).tolist()
        for node in np.flatnonzero(self.nodes.feature >= 0)[::-1].tolist():
            left, right = self.children(node)
            counts[node] = counts[left] + counts[right]
        return counts

    def title(self) -> str:
        """Return ``tree 3 of 100``, with the output if there are several."""
        if self.n_trees == 0:
            return "no trees"
        text = f"tree {self.index} of {self.n_trees}"
        return f"{text}, output {self.output}" if self.n_outputs > 1 else text


def depths_of(forest: Forest) -> IntArray:
    """Return the depth of every node of all trees, computed level by level."""
    depth = np.zeros(len(forest.feature), dtype=np.int64)
    first = np.repeat(forest.tree_start[:-1], np.diff(forest.tree_start))
    level = forest.tree_start[:-1]
    while len(level):
        inner = level[forest.feature[level] >= 0]
        below = [first[inner] + forest.left[inner], first[inner] + forest.right[inner]]
        for children in below:
            depth[children] = depth[inner] + 1
        level = np.concatenate(below)
    return depth


def as_forest(model: ModelLike, schema: Schema | None) -> tuple[Forest, Schema]:
    """Return forest and schema of a model, or of a forest with a separate schema."""
    if schema is not None and not isinstance(schema, Schema):
        raise DataTypeError(f"schema must be the Schema of a Forest, or None; got {brief(schema)}.")
    if isinstance(model, Forest | Labelled):
        if schema is None:
            raise TypeError("a Forest has no column names: pass schema=, or a Model instead.")
        return model.forest if isinstance(model, Labelled) else model, schema
    found = inspected(model).model
    return found.forest, found.split_schema if schema is None else schema


def pick_tree(model: ModelLike, schema: Schema | None, tree: SupportsIndex) -> Tree:
    """Return tree number ``tree``; negative numbers count from the end."""
    forest, schema = as_forest(model, schema)
    try:
        index = operator.index(tree)
    except TypeError:
        raise DataTypeError(f"tree must be a whole number; got {brief(tree)}.") from None
    if not -forest.n_trees <= index < forest.n_trees:
        if forest.n_trees > 0 or index not in (0, -1):
            raise IndexError(
                f"tree {brief(index)} is out of range: the model has {forest.n_trees} trees."
            )
        base, of_one = forest.base_score, node_arrays(forest).items()
        node: dict[str, Any] = {name: np.zeros(1, each.dtype) for name, each in of_one}
        node |= {"feature": np.full(1, -1, np.int32), "value": base[:1], "base_score": base}
        node["vectors"] = base[np.newaxis] if len(base) > 1 else None
        leaf = Forest(**node, tree_start=np.array([0, 1]), n_features=forest.n_features)
        return Tree(leaf, schema, 0, 0, 0, 1)
    index %= forest.n_trees
    n_outputs, labelled = forest.outputs_in_turn, model if isinstance(model, Labelled) else None
    nodes, output = forest.tree(index), index % n_outputs
    return Tree(nodes, schema, index, forest.n_trees, output, n_outputs, labelled)


def checked_depth(max_depth: SupportsIndex | None) -> int | None:
    """Return ``max_depth`` as an int; ParameterError unless it is None or a number >= 0."""
    if max_depth is not None and max_depth not in _DEPTHS:
        raise ParameterError(
            f"max_depth must be {_DEPTHS}, or None for no limit; got {brief(max_depth)}."
        )
    return None if max_depth is None else int(max_depth)


def threshold_value(column: Column, key: int) -> float | int:
    """Decode the largest value that goes left."""
    if column.kind == "int":
        # Above the last value: the split separates missing values.
        return int(key) if key != HIGHEST_KEY else math.inf
    return float_of_key(key)


def threshold_text(value: float | int, temporal: Temporal | None) -> str:
    """Return an exact threshold as text; ``temporal``: its column held dates, for example."""
    if temporal is None or not isinstance(value, int):
        return repr(value)
    return text_of_ticks(value, temporal)


def short_number(value: float) -> str:
    """Return four significant digits, or a whole number below ten million."""
    return f"{value:.0f}" if 9999.5 <= abs(value) < 1e7 else f"{value:.4g}"


def condition(tree: Tree, node: int, *, letters: int | None = None) -> tuple[str, str, str]:
    """Return name, operator and value: ``name <= threshold``, or ``name in {categories}``."""
    column, division = tree.column(node), tree.division(node)
    name = shown_name(column.name)
    if division is not None:
        return name, *division.phrase(bool(tree.nodes.missing_left[node]), letters)
    # The shortest digits that restore it; dates are shown as such.
    value = threshold_value(column, int(tree.nodes.threshold[node]))
    return name, "<=", threshold_text(value, column.temporal)


def short_cuts(tree: Tree) -> dict[int, str]:
    """Return the threshold of each split of numbers as pictures show it."""
    exact: dict[int, dict[int, str]] = {}
    shown: dict[int, str] = {}
    for node in np.flatnonzero(tree.nodes.feature >= 0).tolist():
        if tree.division(node) is not None:
            continue
        shown[node] = condition(tree, node)[2]
        if tree.column(node).kind == "float":
            exact.setdefault(int(tree.nodes.feature[node]), {})[node] = shown[node]
    for texts in exact.values():
        # Of texts in alphabetic order, neighbours have the most letters in common.
        order = sorted(set(texts.values()))
        short = {
            text: _short_cut(text, (*order[max(k - 1, 0) : k], *order[k + 1 : k + 2]))
            for k, text in enumerate(order)
        }
        shown |= {node: short[text] for node, text in texts.items()}
    return shown


def _short_cut(number: str, others: Sequence[str]) -> str:
    """Return the first digits of a long number: its whole part, and what the others lack."""
    if len(number) <= _LONGEST_CUT or "." not in number:
        return number
    mantissa, mark, exponent = number.partition("e")
    for end in range(mantissa.index(".") + 2, len(mantissa)):
        start = mantissa[:end]
        n_digits = len(start.replace(".", "").lstrip("-0"))
        if n_digits >= _FEWEST_DIGITS and not any(other.startswith(start) for other in others):
            return f"{start}…{mark}{exponent}"
    return number
