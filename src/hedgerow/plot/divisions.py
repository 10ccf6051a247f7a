"""The division of categories by a split, and its text.

::

    city in {Oslo, Rome}            the text lists the side with fewer levels
    city not in {Bonn, Kiev}        even if this side goes right
    city is missing                 no level goes left, but missing values do

Glossary
--------
level     value of a category that occurs in training
other     value that is not a level: it counts as missing, stops at the node
          (``unknown_category="backoff"``), or has its own side (CART)
division  the levels of a column and which of them go left
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any, Literal, TypeAlias

import numpy as np

from hedgerow.arrays import BoolArray
from hedgerow.data.schema import Schema
from hedgerow.errors import DataError
from hedgerow.model.forest import UNKNOWN_BIN, Forest

Mask: TypeAlias = BoolArray
Way: TypeAlias = Literal["left", "right", "missing", "stop"]
"""Way of values that are not a level: a side, the side of missing values, or a stop."""

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
    other : {"left", "right", "missing", "stop"}, default="missing"
        Way of values that are not a level.
    """

    levels: Sequence[Any]
    goes_left: Mask
    other: Way = "missing"

    def left_levels(self) -> list[Any]:
        """Return the levels that go left, ascending."""
        return list(compress(self.levels, self.goes_left.tolist()))

    def other_way(self, missing_left: bool) -> str:
        """Return ``"left"``, ``"right"`` or ``"stop"``; empty if as for missing values."""
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
    other: Way = "stop" if schema.unknown == "backoff" else "missing"
    if tables.unknown_in_sets:
        other = "left" if in_set[UNKNOWN_BIN] else "right"
    return Division(column.levels, in_set[bins], other)


def divisions_of(forest: Forest, schema: Schema) -> dict[int, Division]:
    """Return the divisions of all nodes of all trees that have one."""
    found = {}
    for node in np.flatnonzero(forest.has_sets).tolist():
        division = division_of(forest, schema, node)
        assert division is not None
        found[node] = division
    return found


def set_text(levels: Sequence[Any], letters: int | None = None) -> str:
    """Return ``{Oslo, Rome, … 14 more}``, at most ``letters`` long, or complete if None.

    At least one level is shown; long levels are shortened in the middle.
    """
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
    """Return a level in full, in quotes if the text could be misread.

    Whole numbers have no decimal point.
    """
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
