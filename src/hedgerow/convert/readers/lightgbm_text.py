"""The parts of a LightGBM text file: header, trees, parameters, pandas categories.

::

    tree                        no value: the type of the file
    version=v4                  header: name=value, or only a name
    ...
    Tree=0                      one block for each tree
    num_leaves=31
    ...
    end of trees
    parameters:                 [name: value]
    end of parameters
    pandas_categorical:[...]    JSON
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import AnyArray, FloatArray, IntArray
from hedgerow.errors import ModelFormatError
from hedgerow.io import strict_json

_VERSIONS = ("v2", "v3", "v4")
_PARAMETER = re.compile(r"\[([a-z_0-9]+): (.*)\]")
_END = "end of trees"

TREE_KEYS = frozenset(
    {
        *("num_leaves", "num_cat", "split_feature", "split_gain", "threshold", "decision_type"),
        *("left_child", "right_child", "leaf_value", "leaf_weight", "leaf_count"),
        *("internal_value", "internal_weight", "internal_count", "shrinkage"),
        *("cat_boundaries", "cat_threshold", "is_linear", "leaf_const", "num_features"),
        *("leaf_features", "leaf_coeff"),
    }
)


@dataclass(frozen=True, slots=True)
class LightGBMText:
    """The parts of a file; only their names are checked."""

    header: dict[str, str]  # a name without a value has an empty text
    trees: list[dict[str, str]]
    parameters: dict[str, str]
    pandas_categorical: list[Any] | None  # categories of each pandas category column


def parse(data: bytes) -> LightGBMText:
    """Split a file into its parts."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ModelFormatError(f"the LightGBM model is not UTF-8: {error.reason}.") from None
    lines = iter(text.replace("\r\n", "\n").split("\n"))
    if next(lines) != "tree":
        raise ModelFormatError("this is not a LightGBM model: its first line is not 'tree'.")
    header, first = _block(lines, "header")
    if header.get("version") not in _VERSIONS:
        raise ModelFormatError(
            f"the LightGBM model has version {header.get('version', '(none)')[:20]!r}; supported "
            f"are {', '.join(_VERSIONS)}."
        )
    trees: list[dict[str, str]] = []
    while first != _END:
        if first != f"Tree={len(trees)}":
            raise ModelFormatError(
                f"the LightGBM model is truncated: after {len(trees)} trees, neither another tree "
                f"nor {_END!r} follows."
            )
        tree, first = _block(lines, first)
        if odd := sorted(tree.keys() - TREE_KEYS):
            raise ModelFormatError(f"tree {len(trees)} has an unknown entry {odd[0][:50]!r}.")
        trees.append(tree)
    parameters: dict[str, str] = {}
    categories: list[Any] | None = None
    for line in lines:
        if found := _PARAMETER.fullmatch(line):
            parameters[found[1]] = found[2]
        elif line.startswith("pandas_categorical:"):
            text = line.partition(":")[2]
            listed = strict_json.decode(text.encode("utf-8"), "pandas_categorical")
            if listed is not None and not isinstance(listed, list):
                raise ModelFormatError("pandas_categorical must be a list.")
            categories = listed or None
    return LightGBMText(header, trees, parameters, categories)


def _block(lines: Iterator[str], name: str) -> tuple[dict[str, str], str]:
    """Return the entries up to the next tree or the end of all trees, and the next line."""
    found: dict[str, str] = {}
    for line in lines:
        if line == _END or line.startswith("Tree=") or line == "feature_importances:":
            return found, line
        key, _, value = line.partition("=")
        if not line.strip():
            continue
        if key in found:
            raise ModelFormatError(f"{name[:30]} has {key[:50]!r} twice.")
        found[key] = value.rstrip(" ") if key not in ("leaf_features", "leaf_coeff") else value
    return found, ""


_FLOAT = r"[+-]?(?:[0-9]{1,400}(?:\.[0-9]{0,400})?(?:[eE][+-]?[0-9]{1,4})?|inf|nan)"
_FLOATS = re.compile(rf"(?:{_FLOAT}(?: {_FLOAT})*)?", re.ASCII)
_INT = r"-?[0-9]{1,18}"
_INTS = re.compile(rf"(?:{_INT}(?: {_INT})*)?", re.ASCII)


def read_floats(text: str, name: str) -> FloatArray:
    """Parse numbers separated by single spaces."""
    if not _FLOATS.fullmatch(text):
        raise ModelFormatError(f"{name} must be numbers separated by spaces.")
    return np.fromstring(text, dtype=np.float64, sep=" ") if text else np.zeros(0)


def read_ints(text: str, name: str) -> IntArray:
    """Parse whole numbers of at most 18 digits, separated by single spaces."""
    if not _INTS.fullmatch(text):
        raise ModelFormatError(f"{name} must be whole numbers separated by spaces.")
    return np.fromstring(text, dtype=np.int64, sep=" ") if text else np.zeros(0, np.int64)


def read_int(text: str, name: str, low: int, high: int) -> int:
    """Parse one whole number within bounds."""
    if not re.fullmatch(_INT, text, re.ASCII) or not low <= int(text) <= high:
        raise ModelFormatError(f"{name} must be a whole number from {low} to {high}.")
    return int(text)


CATEGORICAL, DEFAULT_LEFT = 1, 2
"""Bits of ``decision_type``."""

_MOST_LEAVES = 2**24


class Nodes:
    """The node numbers of all trees: inner nodes, then leaves, tree after tree."""

    def __init__(self, trees: list[dict[str, str]]) -> None:
        self.trees = trees
        counts = [
            [
                read_int(tree.get(name, default), f"tree {t}: {name}", least, _MOST_LEAVES)
                for name, default, least in (("num_leaves", "", 1), ("num_cat", "0", 0))
            ]
            for t, tree in enumerate(trees)
        ]
        self.n_leaves, self.n_cat = np.array(counts, dtype=np.int64).reshape(-1, 2).T
        inner, n_nodes = self.n_leaves - 1, 2 * self.n_leaves - 1
        self.start = np.concatenate(([0], np.cumsum(n_nodes))).astype(np.int64)
        self.value = self.floats("leaf_value", self.n_leaves)
        tree = np.repeat(np.arange(len(trees)), n_nodes)
        rank = np.arange(len(tree)) - self.start[tree]
        self.inner = np.flatnonzero(rank < inner[tree])
        self.leaf = np.flatnonzero(rank >= inner[tree])
        self.tree_of_inner = tree[self.inner]
        self.feature = self.ints("split_feature", inner)
        self.decision = self.ints("decision_type", inner)
        self.threshold = self.floats("threshold", inner)
        if ((self.feature < 0) | (self.decision < 0) | (self.decision > 15)).any():
            raise ModelFormatError("split_feature or decision_type is outside its range.")
        self.is_set = (self.decision & CATEGORICAL) > 0

    def floats(self, name: str, counts: IntArray, default: float | None = None) -> FloatArray:
        """Return an entry of all trees; the default if all trees lack it."""
        if default is not None and not any(name in tree for tree in self.trees):
            return np.full(int(counts.sum()), default)
        return read_floats(self._joined(name, counts), name)

    def ints(self, name: str, counts: IntArray) -> IntArray:
        """Return an entry of all trees as whole numbers."""
        return read_ints(self._joined(name, counts), name)

    def _joined(self, name: str, counts: IntArray) -> str:
        """Concatenate the numbers of all trees, after a check of their lengths."""
        texts = [tree.get(name, "") for tree in self.trees]
        for number, (text, count) in enumerate(zip(texts, counts.tolist(), strict=True)):
            found = text.count(" ") + 1 if text else 0
            if found != count:
                raise ModelFormatError(
                    f"tree {number}: {name} must have {count} numbers, but has {found}."
                )
        return " ".join(text for text in texts if text)

    def of_all(self, inner: AnyArray, leaves: npt.ArrayLike) -> AnyArray:
        """Return the values of all nodes, from those of inner nodes and of leaves."""
        found = np.zeros(int(self.start[-1]), np.result_type(inner, leaves))
        found[self.inner], found[self.leaf] = inner, leaves
        return found
