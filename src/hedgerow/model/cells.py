"""What splits can tell apart: each column as a few cells, each leaf as a box of cells.

Glossary
--------
cell     values of a column that no split tells from each other; missing values are
         one, and so are categories that training did not see, if they are not read
         as missing
key      of a value that stands for its cell (:mod:`hedgerow.kernels.keys`)
box      the cells of each column from which rows reach a node
stop     a value that is no known category ends the walk at the split that asks for
         it: such a node is the end of a box like a leaf

::

    cuts of a column      2.5      7.0
    cells              0   |   1   |   2    and 3: missing
    keys of           2.5     7.0     14.0
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import MISSING_KEY, AnyArray, IntArray
from hedgerow.data.levels import Level
from hedgerow.data.schema import Schema
from hedgerow.kernels.keys import floats_of_keys, highest_key, keys_of_floats, lowest_key
from hedgerow.model.forest import UNKNOWN_BIN, Forest

BoolArray = npt.NDArray[np.bool_]


class Cells:
    """The cells of all columns in some trees.

    The key -1 is that of -0.0, which no value has: a threshold there means the
    number before it.

    Parameters
    ----------
    forest : Forest
    schema : Schema
    """

    def __init__(self, forest: Forest, schema: Schema) -> None:
        self.forest, self.schema = forest, schema
        is_float = np.array([kind == "float" for kind in schema.kinds])
        inner = forest.feature >= 0
        at_zero = inner & (forest.threshold == -1) & is_float[forest.feature]
        self.threshold = np.where(at_zero, -2, forest.threshold)
        self.used = np.unique(forest.feature[inner])
        self.has_set = forest.has_sets
        self.stays = schema.unknown in ("backoff", "split")  # a value that is no level is a cell
        self.may_stop = self.has_set & (schema.unknown == "backoff")
        self._ordered: dict[int, IntArray] = {}

    def ordered(self, column: int) -> IntArray:
        """Keys of the cells of present values, ascending; of a category any that it knows.

        The last of a category is that of a value that is no level, if it is not read as missing.
        """
        if column not in self._ordered:
            kind = self.schema.kinds[column]
            if kind == "category":
                self._ordered[column] = self._levels(column)
                return self._ordered[column]
            cuts = np.unique(self.threshold[self.forest.feature == column])
            cuts = cuts[(cuts >= lowest_key(kind)) & (cuts < highest_key(kind))]
            last = _beyond(int(cuts[-1]), kind) if len(cuts) else 0
            self._ordered[column] = np.append(cuts, last)
        return self._ordered[column]

    def _levels(self, column: int) -> IntArray:
        """Keys of the positions of one level of each bin, and of no level if that is a cell."""
        n_levels = len(self.schema.columns[column].levels)
        first = np.zeros(0, dtype=np.int64)
        if self.forest.categories is not None:
            first = np.unique(self.forest.categories.bins_of(column), return_index=True)[1]
        unknown = [n_levels] if self.stays else []
        return keys_of_floats(np.append(first, unknown).astype(np.float64))

    def all(self, column: int) -> IntArray:
        """Keys of all cells, that of missing values last."""
        return np.append(self.ordered(column), MISSING_KEY)

    def goes_left(self, node: int) -> BoolArray:
        """For each cell of the column that ``node`` splits."""
        column = int(self.forest.feature[node])
        missing_left = self.forest.missing_left[node] == 1
        if self.has_set[node]:
            tables = self.forest.categories
            assert tables is not None
            words = tables.sets[self.threshold[node]]
            bins = np.unique(tables.bins_of(column))
            bits = (words[bins >> 6] >> (bins & 63).astype(np.uint64)) & np.uint64(1)
            unknown = words[3] >> np.uint64(UNKNOWN_BIN & 63) & np.uint64(1) == 1
            more = [unknown, missing_left] if self.stays else [missing_left]
            return np.append(bits == 1, more)
        return np.append(self.ordered(column) <= self.threshold[node], missing_left)

    def stops(self, node: int) -> BoolArray:
        """For each cell of the column that ``node`` splits whether a walk ends there."""
        stops = np.zeros(len(self.all(int(self.forest.feature[node]))), dtype=bool)
        if self.may_stop[node]:
            stops[-2] = True
        return stops

    def parts_values(self, column: int) -> BoolArray:
        """For each node whether it is a split of ``column`` with present values on both sides."""
        highest = highest_key(self.schema.kinds[column])
        return (self.forest.feature == column) & (self.threshold < highest)

    def rows_of(self, keys: IntArray) -> AnyArray:
        """Rows of keys as values: float64, or objects where that cannot hold them."""
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


def _level(levels: Sequence[Level], position: int) -> Level:
    """A level of a category, or a value that is none; levels ascend."""
    if position < len(levels):
        return levels[position]
    last = levels[-1] if len(levels) > 0 else ""
    return f"{last}?" if isinstance(last, str) else 2 * abs(last) + 1


def _beyond(cut: int, kind: str) -> int:
    """Key of a plain number above a cut."""
    if kind == "int":
        return min(cut + 1, highest_key(kind))
    number = float(floats_of_keys(np.array(cut)))
    if math.isinf(number):  # only -inf: cuts at inf part no values
        return int(keys_of_floats(np.array(0.0)))
    above = number + max(1.0, abs(number))
    return int(keys_of_floats(np.array(above if math.isfinite(above) else math.inf)))


class Boxes:
    """The boxes of all ends of one tree.

    Attributes
    ----------
    cells : Cells
        Of this tree alone.
    columns : int array
        That the tree uses.
    starts : int64
        First entry of each of these in the second axis of ``inside``.
    inside : bool, shape (n_nodes, number of cells)
        Whether walks that end at the node come from a cell.
    """

    def __init__(self, cells: Cells) -> None:
        self.cells = cells
        forest = cells.forest
        self.columns = cells.used
        sizes = [len(cells.all(int(column))) for column in self.columns]
        self.starts = np.concatenate(([0], np.cumsum(sizes)))[:-1]
        self.inside = np.ones((len(forest.feature), sum(sizes)), dtype=bool)
        place = np.searchsorted(self.columns, forest.feature)
        for node in np.flatnonzero(forest.feature >= 0):  # parents before children
            part = slice(self.starts[place[node]], self.starts[place[node]] + sizes[place[node]])
            left, right = forest.left[node], forest.right[node]
            goes_left, stops = cells.goes_left(int(node)), cells.stops(int(node))
            self.inside[left] = self.inside[right] = self.inside[node]
            self.inside[left, part] &= goes_left
            self.inside[right, part] &= ~goes_left & ~stops
            self.inside[node, part] &= stops  # of an inner node: the box of its own end

    @staticmethod
    def size(cells: Cells) -> int:
        """How many truths the boxes of a tree would hold."""
        return len(cells.forest.feature) * sum(len(cells.all(int(j))) for j in cells.used)

    def part_of(self, column: int) -> slice:
        """Where the cells of present values of a column are."""
        start = self.starts[np.searchsorted(self.columns, column)]
        return slice(int(start), int(start) + len(self.cells.ordered(column)))

    def ends_below(self, node: int) -> IntArray:
        """Where walks through ``node`` may end: leaves and stops that some row reaches."""
        forest = self.cells.forest
        stack, found = [node], []
        while stack:
            at = stack.pop()
            if forest.feature[at] < 0 or self.cells.may_stop[at]:
                found.append(at)
            if forest.feature[at] >= 0:
                stack += [int(forest.left[at]), int(forest.right[at])]
        ends = np.array(sorted(found), dtype=np.int64)
        return ends[self.meet(self.inside[ends])]

    def meet(self, inside: BoolArray) -> BoolArray:
        """For each row of ``inside`` whether every column has a cell."""
        return np.asarray(np.logical_or.reduceat(inside, self.starts, axis=1).all(axis=1))

    def keys_in(self, inside: BoolArray) -> IntArray:
        """Key of the first cell of each column that is true."""
        keys = []
        for column, start in zip(self.columns.tolist(), self.starts, strict=True):
            known = self.cells.all(column)
            keys.append(known[np.argmax(inside[start : start + len(known)])])
        return np.array(keys, dtype=np.int64)
