"""A grown tree, and the walk of rows down it.

Every way of growing ends in a :class:`GrownTree`; what comes after (scores of
rows that it was not grown on, leaf values by line search, the model) does not
know how it was grown.

The grower's table is that of its next tree, so what a tree is made of is copied out of it, one
tree behind the other in a few large arrays.  Trees of the folds of a small table have a dozen nodes
each, and there are tens of thousands of them: arrays of their own took longer to make than half of
the trees to grow.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from hedgerow import kernel_types as kt
from hedgerow.arrays import FloatArray, IntArray, RowArray
from hedgerow.compile import kernel
from hedgerow.data import BinnedMatrix
from hedgerow.data.binning.matrix import left_bytes
from hedgerow.growing.core import state as s
from hedgerow.growing.core.state import NUMBER_VALUE
from hedgerow.kernels.prediction.predict import add_chosen_vectors
from hedgerow.kernels.prediction.slopes import Slopes, add_chosen_lines, empty_slopes, scaled_slopes
from hedgerow.kernels.prediction.traverse import add_tree_scores, walk_space
from hedgerow.threads import run_blocks

Steps: TypeAlias = (
    "tuple[npt.NDArray[np.int32], npt.NDArray[np.uint64], npt.NDArray[np.int32], "
    "npt.NDArray[np.int32]]"
)
"""The fields of each node for a walk: column, bins that go left, children (0 in a leaf)."""

_put = object.__setattr__
ROWS_PER_WALK = 20_000  # a walk of 0.2 ms; to wake a thread takes 0.06 ms


@dataclass(frozen=True, slots=True, eq=False)
class GrownTree:
    """One tree; nodes as in :class:`hedgerow.model.forest.Forest`.

    A row goes left if the key of its value is ``<= threshold``, or if it is
    missing and ``missing_left``; in a category column, if its category is in a set.
    In terms of bins, that of ``column`` is in the set ``left_bins`` of the node
    (four words, bit b for bin b).  ``bin`` is the last bin that goes left where
    there is a threshold.  The three are empty where the tree was not grown on bins.
    ``vectors``, (n_nodes, n_outputs), hold what the tree adds to all outputs; ``value``
    is then 0.  ``slopes`` are the terms of leaves that are lines.
    """

    feature: npt.NDArray[np.int32]
    threshold: IntArray
    bin: npt.NDArray[np.uint8]
    missing_left: npt.NDArray[np.uint8]
    left: npt.NDArray[np.int32]
    right: npt.NDArray[np.int32]
    value: FloatArray
    gain: FloatArray
    cover: FloatArray
    count: IntArray
    column: npt.NDArray[np.int32]
    left_bins: npt.NDArray[np.uint64]
    vectors: FloatArray | None = None
    slopes: Slopes | None = None

    def with_values(self, value: FloatArray) -> GrownTree:
        """Return the tree with other node values."""
        return replace(self.finished(), value=value)

    def scaled(self, factor: float) -> GrownTree:
        """Return a tree that adds ``factor`` times as much."""
        if factor == 1.0:
            return self
        tree = self.with_values(factor * self.value)
        vectors = None if self.vectors is None else factor * self.vectors
        slopes = None if self.slopes is None else scaled_slopes(self.slopes, factor)
        return replace(tree, vectors=vectors, slopes=slopes)

    def with_slopes(self, slopes: Slopes) -> GrownTree:
        """Return the tree with linear leaves."""
        return replace(self.finished(), slopes=slopes)

    def with_counts(self, count: IntArray) -> GrownTree:
        """Return the tree with other numbers of rows."""
        return replace(self.finished(), count=count)

    def with_vectors(self, vectors: FloatArray) -> GrownTree:
        """Return the tree with a value per output instead of one value."""
        return replace(self.finished(), value=np.zeros(len(vectors)), vectors=vectors)

    def steps(self) -> Steps:
        """Return the arrays of a walk, with the types of the compiled kernels."""
        return self.column, self.left_bins, self.left, self.right

    def finished(self) -> GrownTree:
        """Return the tree with all of its fields."""
        return self


class TreeOfTable(GrownTree):
    """A tree as its nodes stand in the grower's table.

    A walk needs a few arrays, and most trees of a fit, those of the folds, are only walked.
    The fields are built when the first of them is read, and for a model those of many trees
    at once (:func:`joined`): building the ten arrays of a tree can cost as much as growing it.

    block        Nodes: of this tree and others; they do not change
    first, stop  int: the nodes of this tree
    finish       callable: makes a finished tree of nodes; of several trees one behind the other,
                 too
    vectors      float64 (n_nodes, n_outputs), optional
    slopes       Slopes, optional
    """

    __slots__ = ("block", "finish", "first", "stop")
    block: Nodes
    first: int
    stop: int
    finish: Callable[[Nodes], GrownTree]

    def __init__(
        self,
        block: Nodes,
        first: int,
        stop: int,
        finish: Callable[[Nodes], GrownTree],
        vectors: FloatArray | None = None,
        slopes: Slopes | None = None,
    ) -> None:
        _put(self, "block", block)  # trees do not change
        _put(self, "first", first)
        _put(self, "stop", stop)
        _put(self, "finish", finish)
        _put(self, "vectors", vectors)
        _put(self, "slopes", slopes)

    def __getattr__(self, name: str) -> Any:
        if name == "value":  # all that is read of a tree that is only walked
            _put(self, name, self.block.numbers[NUMBER_VALUE, self.first : self.stop])
            return self.value
        if name not in _FIELDS:  # what copying and pickling look for
            raise AttributeError(name)
        finished = self.finished()
        for field in _FIELDS:
            _put(self, field, getattr(finished, field))
        return getattr(finished, name)

    @property
    def nodes(self) -> Nodes:
        """The nodes of this tree alone."""
        return self.block.part(self.first, self.stop)

    def with_vectors(self, vectors: FloatArray) -> GrownTree:
        numbers = self.nodes.numbers.copy()
        numbers[NUMBER_VALUE] = 0.0
        nodes = self.nodes._replace(numbers=numbers)
        return TreeOfTable(nodes, 0, len(vectors), self.finish, vectors)

    def with_slopes(self, slopes: Slopes) -> GrownTree:
        return TreeOfTable(self.block, self.first, self.stop, self.finish, slopes=slopes)

    def steps(self) -> Steps:
        splits, sets, _, _ = self.nodes
        return splits[3], sets, splits[4], splits[5]

    def finished(self) -> GrownTree:
        finished = self.finish(self.nodes)
        if self.vectors is None and self.slopes is None:
            return finished
        return replace(finished, vectors=self.vectors, slopes=self.slopes)


_FIELDS = frozenset(field.name for field in fields(GrownTree))
_NODES_AT_ONCE = 4096


def joined(trees: Sequence[GrownTree]) -> Sequence[GrownTree]:
    """Return the nodes of the trees in the same order, in as few pieces as possible."""
    # Vectors and slopes are those of the trees: pieces have none.
    some = [tree for tree in trees if isinstance(tree, TreeOfTable)]
    if (
        not some
        or len(some) < len(trees)
        or any(tree.finish is not some[0].finish for tree in some)
    ):
        return trees
    pieces, waiting, n_waiting = [], list[Nodes](), 0
    for nodes in _runs(some):
        waiting.append(nodes)
        n_waiting += len(nodes.count)
        if n_waiting >= _NODES_AT_ONCE:
            pieces.append(some[0].finish(_concatenated(waiting)))
            waiting, n_waiting = [], 0
    if waiting:
        pieces.append(some[0].finish(_concatenated(waiting)))
    return pieces


def _runs(trees: Sequence[TreeOfTable]) -> Iterator[Nodes]:
    """Yield the nodes of the trees in order; join trees that are adjacent in a block."""
    block, first, stop = trees[0].block, trees[0].first, trees[0].first
    for tree in trees:
        if tree.block is not block or tree.first != stop:
            yield block.part(first, stop)
            block, first = tree.block, tree.first
        stop = tree.stop
    yield block.part(first, stop)


def _concatenated(parts: Sequence[Nodes]) -> Nodes:
    splits, sets, count, numbers = zip(*parts, strict=True)
    return Nodes(
        np.concatenate(splits, axis=1),
        np.concatenate(sets),
        np.concatenate(count),
        np.concatenate(numbers, axis=1),
    )


def columns_of_lines(trees: Iterable[GrownTree]) -> list[int]:
    """Return the columns whose numbers the leaves of some trees read, ascending."""
    read = (tree.slopes.column.tolist() for tree in trees if tree.slopes is not None)
    return sorted(set(itertools.chain.from_iterable(read)))


NO_ROWS: RowArray = np.zeros(0, dtype=np.uint32)


_SPLIT_FIELDS = s.NODE_RIGHT + 1 - s.NODE_FEATURE
_BLOCK_NODES = 1024
"""Nodes of a block, unless a tree has more: 90 kilobytes."""


class Nodes(NamedTuple):
    """Nodes of a tree, or of several one behind the other, as the grower's table has them.

    splits   int32 (6, n_nodes): feature, bin, missing_left, column, left, right
    sets     uint64 (n_nodes, 4): bins that go left
    count    int64 (n_nodes,)
    numbers  float64 (NUMBERS, n_nodes)

    Leaves (left is 0) may hold the split that was found for them.
    """

    splits: kt.Int32_2D
    sets: kt.UInt64_2D
    count: kt.Int64_1D
    numbers: kt.Float64_2D

    def part(self, first: int, stop: int) -> Nodes:
        """Return views of the nodes ``first .. stop``."""
        return Nodes(
            self.splits[:, first:stop],
            self.sets[first:stop],
            self.count[first:stop],
            self.numbers[:, first:stop],
        )


@kernel
def copy_nodes(
    table: kt.Int64_2D, numbers: kt.Float64_2D, n_nodes: int, kept: Nodes, first: int
) -> None:
    """Copy the nodes of a tree from the grower's table to places ``first`` on of ``kept``."""
    for node in range(np.uint64(n_nodes)):
        at = np.uint64(first) + node
        for k in range(np.uint64(_SPLIT_FIELDS)):
            kept.splits[k, at] = table[node, np.uint64(s.NODE_FEATURE) + k]
        for k in range(np.uint64(s.SET_WORDS)):
            kept.sets[at, k] = np.uint64(table[node, np.uint64(s.NODE_SET) + k])
        kept.count[at] = table[node, s.NODE_COUNT]
        for k in range(np.uint64(s.NUMBERS)):
            kept.numbers[k, at] = numbers[node, k]


class NodeStore:
    """Takes up the nodes of one tree after the other."""

    def __init__(self) -> None:
        self._block, self._n_used = empty_block(0), 0

    def keep(self, table: IntArray, numbers: FloatArray, n_nodes: int) -> tuple[Nodes, int]:
        """Copy the nodes of a tree; return the block that holds them, and the first place."""
        first = self._n_used
        if first + n_nodes > len(self._block.count):
            self._block, first = empty_block(max(n_nodes, _BLOCK_NODES)), 0
        copy_nodes(table, numbers, n_nodes, self._block, first)
        self._n_used = first + n_nodes
        return self._block, first


def empty_block(n_nodes: int) -> Nodes:
    """Return space for nodes."""
    return Nodes(
        np.empty((_SPLIT_FIELDS, n_nodes), dtype=np.int32),
        np.empty((n_nodes, s.SET_WORDS), dtype=np.uint64),
        np.empty(n_nodes, dtype=np.int64),
        np.empty((s.NUMBERS, n_nodes)),
    )


# Rows of ``Nodes.splits``.
_COLUMN, _LEFT, _RIGHT = 3, 4, 5


class Walked(NamedTuple):
    """The rows.

    by_row     uint8 (n_tiles, at least n_rows, tile_width)
    width      columns in each tile
    raw        float64 (n_outputs, n_rows): their scores
    """

    by_row: kt.UInt8_3D
    width: int
    raw: kt.Float64_2D


class Lines(NamedTuple):
    """The additional data of rows for linear leaves.

    numbers    float64 (n_rows, n_features), column by column
    ends       float64 (n_rows,): scratch, the leaf of each row
    places     float64 (at least n_nodes,): 0, 1, ...
    """

    numbers: kt.Strided[kt.Float64_2D]
    ends: kt.Float64_1D
    places: kt.Float64_1D


@kernel
def add_to_scores(
    block: Nodes,
    first: int,
    n_nodes: int,
    slopes: Slopes,
    lines: Lines,
    walked: Walked,
    output: int,
    rows: kt.UInt32_1D,
    start: int,
    stop: int,
    space: kt.UInt64_1D,
) -> None:
    """Add the tree at place ``first`` of the block to the scores of rows ``start .. stop``."""
    ends, scores, last, splits = lines.ends, walked.raw[output], first + n_nodes, block.splits
    has_lines = len(slopes.start) > 0
    values = reached = block.numbers[NUMBER_VALUE, first:last]
    to = scores
    if has_lines:  # the walk ends at the number of a node, which is that of its line
        for i in range(np.uint64(start), np.uint64(stop)):
            ends[np.uint64(rows[i]) if len(rows) > 0 else i] = 0.0
        reached, to = lines.places[:n_nodes], ends
    tree = (
        splits[_COLUMN, first:last], block.sets[first:last], splits[_LEFT, first:last],
        splits[_RIGHT, first:last], reached,
    )  # fmt: skip
    add_tree_scores(walked.by_row, walked.width, tree, rows, start, stop, space, to)
    if has_lines:
        add_chosen_lines(values, slopes, lines.numbers, ends, rows, start, stop, scores)


_NO_NUMBERS, NO_SLOPES = np.zeros((0, 0)), empty_slopes(0, 0, 0)


def add_tree(
    tree: GrownTree,
    rows: tuple[BinnedMatrix, FloatArray | None],
    chosen: RowArray,
    raw: FloatArray,
    output: int,
    n_threads: int,
) -> None:
    """Add any tree that ``output`` has grown to raw scores (n_outputs, n_rows)."""
    # The rows are ``chosen``, or all if there are none.
    (matrix, numbers), vectors = rows, tree.vectors
    column, sets, left, right = tree.steps()
    if matrix.paired:
        column, sets = column >> 1, left_bytes(column, sets)
    n_nodes, ends = len(left), np.zeros(matrix.n_rows)
    places = np.arange(n_nodes, dtype=np.float64)
    block = empty_block(n_nodes)._replace(sets=np.ascontiguousarray(sets))
    block.splits[_COLUMN], block.splits[_LEFT], block.splits[_RIGHT] = column, left, right
    # With vectors, too, the walk ends at the number of a node.
    block.numbers[NUMBER_VALUE] = tree.value if vectors is None else places
    walked = Walked(
        matrix.by_row, matrix.bytes_per_tile, raw[output][None] if vectors is None else ends[None]
    )
    slopes = NO_SLOPES if tree.slopes is None else tree.slopes
    lines = Lines(_NO_NUMBERS if numbers is None else numbers, ends, places)

    def add(start: int, stop: int) -> None:
        space = walk_space(n_nodes)
        add_to_scores(block, 0, n_nodes, slopes, lines, walked, 0, chosen, start, stop, space)
        if vectors is not None:
            add_chosen_vectors(vectors, ends, chosen, start, stop, raw)

    run_blocks(add, len(chosen) or matrix.n_rows, n_threads, ROWS_PER_WALK)
