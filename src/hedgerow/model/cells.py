"""Partition of the input space by the splits of trees: columns into cells, leaves into boxes.

Glossary
--------
cell     set of values of a column that no split separates; missing values are a cell,
         and so are unknown categories if splits send them to a side of their own
key      key of a value that represents its cell (:mod:`hedgerow.kernels.tables.keys`)
box      the cells of each column from which rows reach a node

::

    cuts of a column      2.5      7.0
    cells              0   |   1   |   2    and 3: missing
    keys of           2.5     7.0     14.0
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hedgerow.arrays import MISSING_KEY, AnyArray, BoolArray, IntArray, distinct
from hedgerow.data.categories.levels import Level
from hedgerow.data.schema import Schema
from hedgerow.kernels.tables.keys import (
    float_of_key,
    floats_of_keys,
    highest_key,
    keys_of_floats,
    lowest_key,
)
from hedgerow.model.forest import UNKNOWN_BIN, Forest


class Cells:
    """The cells of all columns for some trees.

    The key -1 belongs to -0.0, and no value has it.  A threshold of -1 therefore means the
    preceding key.
    """

    def __init__(self, forest: Forest, schema: Schema) -> None:
        self.forest, self.schema = forest, schema
        is_float = np.array([kind == "float" for kind in schema.kinds])
        inner = forest.feature >= 0
        at_zero = inner & (forest.threshold == -1) & is_float[forest.feature]
        self.threshold = np.where(at_zero, -2, forest.threshold)
        self.used = distinct(forest.feature[inner])
        self.has_set = forest.has_sets
        self.unknown_in_sets = schema.unknown == "split"  # unknown categories are a cell
        self._ordered: dict[int, IntArray] = {}

    def ordered(self, column: int) -> IntArray:
        """Return the keys of the cells of present values, ascending for numbers."""
        # The last cell of a category column is that of unknown categories, unless they count as
        # missing.
        if column not in self._ordered:
            kind = self.schema.kinds[column]
            if kind == "category":
                self._ordered[column] = self._levels(column)
                return self._ordered[column]
            cuts = distinct(self.threshold[self.forest.feature == column])
            cuts = cuts[(cuts >= lowest_key(kind)) & (cuts < highest_key(kind))]
            # The last cell is that of an ordinary number above all cuts.
            last = 0
            if len(cuts) and kind == "int":
                last = min(int(cuts[-1]) + 1, highest_key(kind))
            elif len(cuts):
                number = float_of_key(int(cuts[-1]))
                # Only -inf is infinite: a cut at inf separates no values.
                above = number + max(1.0, abs(number)) if math.isfinite(number) else 0.0
                last = _key_of(above)
            self._ordered[column] = np.append(cuts, last)
        return self._ordered[column]

    def _levels(self, column: int) -> IntArray:
        """Return the key of one level of each bin, and of unknown categories if they are a cell."""
        n_levels = len(self.schema.columns[column].levels)
        first = np.zeros(0, dtype=np.int64)
        if self.forest.categories is not None:
            first = np.unique(self.forest.categories.bins_of(column), return_index=True)[1]
        unknown = [n_levels] if self.unknown_in_sets else []
        return keys_of_floats(np.append(first, unknown).astype(np.float64))

    def all(self, column: int) -> IntArray:
        """Return the keys of all cells; the last is that of missing values."""
        return np.append(self.ordered(column), MISSING_KEY)

    def goes_left(self, node: int) -> BoolArray:
        """Return which cells of the split column go left at ``node``."""
        column = int(self.forest.feature[node])
        missing_left = self.forest.missing_left[node] == 1
        if self.has_set[node]:
            tables = self.forest.categories
            assert tables is not None
            left = tables.bins_left(int(self.threshold[node]))
            more = [left[UNKNOWN_BIN], missing_left] if self.unknown_in_sets else [missing_left]
            return np.append(left[distinct(tables.bins_of(column))], more)
        return np.append(self.ordered(column) <= self.threshold[node], missing_left)

    def without_zeros(self, keys: IntArray) -> IntArray:
        """Replace numbers that count as missing by other numbers of their cells, if any exist."""
        limit = self.schema.zero_missing_up_to
        if limit is None:
            return keys
        found = keys.copy()
        for j in self.used.tolist():
            kind = self.schema.kinds[j]
            if kind == "category":
                continue
            of_number, to_key = (int, int) if kind == "int" else (float_of_key, _key_of)
            cuts = self.ordered(j)[:-1]
            for key in distinct(keys[:, j]).tolist():
                if key == MISSING_KEY or abs(of_number(key)) > limit:
                    continue
                place = int(np.searchsorted(cuts, key, side="left"))
                low = of_number(int(cuts[place - 1])) if place > 0 else -math.inf
                high = of_number(int(cuts[place])) if place < len(cuts) else math.inf
                below, above = (-1, 1) if kind == "int" else (max(-1.0, low / 2), min(1.0, high))
                if low < below < -limit:
                    found[keys[:, j] == key, j] = to_key(below)
                elif limit < above <= high:
                    found[keys[:, j] == key, j] = to_key(above)
        return found

    def rows_of(self, keys: IntArray) -> AnyArray:
        """Convert rows of keys to values: float64, or objects if float64 cannot hold them."""
        kinds = self.schema.kinds
        floats = floats_of_keys(keys)
        if all(kind == "float" for kind in kinds):
            return floats
        rows = np.empty(keys.shape, dtype=object)
        for j, kind in enumerate(kinds):
            for i in range(len(keys)):
                value = int(keys[i, j]) if kind == "int" else float(floats[i, j])
                if kind == "category" and keys[i, j] != MISSING_KEY:
                    rows[i, j] = _level(self.schema.columns[j].levels, int(floats[i, j]))
                else:
                    rows[i, j] = None if keys[i, j] == MISSING_KEY else value
        return rows


def _key_of(number: float) -> int:
    return int(keys_of_floats(np.array(number)))


def _level(levels: Sequence[Level], position: int) -> Level:
    """Return the level at a position, or an unknown value beyond the last level."""
    if position < len(levels):
        return levels[position]
    last = levels[-1] if len(levels) > 0 else ""
    return f"{last}?" if isinstance(last, str) else 2 * abs(last) + 1


class Boxes:
    """The boxes of the leaves of one tree, whose cells are those of this tree only."""

    def __init__(self, cells: Cells) -> None:
        self.cells = cells
        forest = cells.forest
        self.columns = cells.used  # that the tree splits
        sizes = [len(cells.all(int(column))) for column in self.columns]
        # of each column in the second axis of `inside`: whether rows that end at the node (first
        # axis) may have a value in the cell
        self.starts = np.concatenate(([0], np.cumsum(sizes)))[:-1]
        self.inside = np.ones((len(forest.feature), sum(sizes)), dtype=bool)
        place = np.searchsorted(self.columns, forest.feature)
        for node in np.flatnonzero(forest.feature >= 0):  # parents before children
            part = slice(self.starts[place[node]], self.starts[place[node]] + sizes[place[node]])
            left, right = forest.left[node], forest.right[node]
            goes_left = cells.goes_left(int(node))
            self.inside[left] = self.inside[right] = self.inside[node]
            self.inside[left, part] &= goes_left
            self.inside[right, part] &= ~goes_left

    def leaves_below(self, node: int) -> IntArray:
        """Return the leaves below ``node`` that a row can reach."""
        forest = self.cells.forest
        stack, found = [node], []
        while stack:
            at = stack.pop()
            if forest.feature[at] < 0:
                found.append(at)
            else:
                stack += [int(forest.left[at]), int(forest.right[at])]
        leaves = np.array(sorted(found), dtype=np.int64)
        return leaves[self.meet(self.inside[leaves])]

    def meet(self, inside: BoolArray) -> BoolArray:
        """Return which rows of ``inside`` have a cell in every column."""
        return np.asarray(np.logical_or.reduceat(inside, self.starts, axis=1).all(axis=1))
