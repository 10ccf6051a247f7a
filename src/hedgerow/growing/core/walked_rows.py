"""Binned rows whose scores every tree of a fit is added to by a walk.

These are validation rows, and rows outside the sample of a tree.  :mod:`hedgerow.growing.core.tree`
adds any tree to any rows.  Here the same walk reads the nodes where the grower keeps them, and what
does not change from tree to tree is looked up once: for the few rows of a small table, preparing
the walk took longer than walking.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from hedgerow.arrays import AnyArray, BinArray, FloatArray, RowArray
from hedgerow.compile import entry_of, kernel
from hedgerow.data import BinnedMatrix
from hedgerow.growing.core.state import NUMBER_VALUE
from hedgerow.growing.core.tree import ROWS_PER_WALK, Nodes, TreeOfTable
from hedgerow.kernels.prediction.slopes import Slopes, add_chosen_lines
from hedgerow.kernels.prediction.traverse import add_tree_scores, walk_space
from hedgerow.threads import run_blocks

_FEW_NODES = 32
"""Room at first; it grows with the trees."""

# Rows of ``Nodes.splits``.
_COLUMN, _LEFT, _RIGHT = 3, 4, 5


class Walked(NamedTuple):
    """The rows.

    by_row     uint8 (n_tiles, at least n_rows, tile_width)
    width      columns in each tile
    raw        float64 (n_outputs, n_rows): their scores
    """

    by_row: BinArray
    width: int
    raw: FloatArray


class Lines(NamedTuple):
    """The additional data of rows for linear leaves.

    numbers    float64 (n_rows, n_features), column by column
    ends       float64 (n_rows,): scratch, the leaf of each row
    places     float64 (at least n_nodes,): 0, 1, ...
    """

    numbers: FloatArray
    ends: FloatArray
    places: FloatArray


@kernel(inline=True, inner=True)
def steps_of(block: Nodes, first: int, stop: int, value: FloatArray) -> tuple[Any, ...]:
    """Return the arrays of a walk through the nodes ``first .. stop`` of the block."""
    splits = block.splits
    return (
        splits[_COLUMN, first:stop],
        block.sets[first:stop],
        splits[_LEFT, first:stop],
        splits[_RIGHT, first:stop],
        value,
    )


@kernel
def add_values(
    block: Nodes,
    first: int,
    n_nodes: int,
    walked: Walked,
    output: int,
    rows: RowArray,
    start: int,
    stop: int,
    space: AnyArray,
) -> None:
    """Add the tree at place ``first`` of the block to the scores of rows ``start .. stop``."""
    value = block.numbers[NUMBER_VALUE, first : first + n_nodes]
    tree = steps_of(block, first, first + n_nodes, value)
    scores = walked.raw[output]
    add_tree_scores(walked.by_row, walked.width, tree, rows, start, stop, space, scores)


@kernel
def add_lines(
    block: Nodes,
    first: int,
    n_nodes: int,
    slopes: Slopes,
    lines: Lines,
    walked: Walked,
    output: int,
    rows: RowArray,
    start: int,
    stop: int,
    space: AnyArray,
) -> None:
    """Add a tree with linear leaves."""
    ends, scores = lines.ends, walked.raw[output]
    for i in range(np.uint64(start), np.uint64(stop)):
        ends[np.uint64(rows[i]) if len(rows) > 0 else i] = 0.0
    tree = steps_of(block, first, first + n_nodes, lines.places[:n_nodes])
    add_tree_scores(walked.by_row, walked.width, tree, rows, start, stop, space, ends)
    value = block.numbers[NUMBER_VALUE, first : first + n_nodes]
    add_chosen_lines(value, slopes, lines.numbers, ends, rows, start, stop, scores)


class WalkedRows:
    """Rows in memory; their scores are changed in place.

    matrix     BinnedMatrix: no byte of it holds two columns
    raw        float64 (n_outputs, n_rows)
    numbers    float64 (n_rows, n_features), column by column, optional: where leaves may have
               slopes
    n_threads  int

    Attributes
    ----------
    walked  Walked
    """

    def __init__(
        self, matrix: BinnedMatrix, raw: FloatArray, numbers: FloatArray | None, n_threads: int
    ) -> None:
        self.walked = Walked(matrix.by_row, matrix.bytes_per_tile, raw)
        self._numbers, self._n_rows, self._n_threads = numbers, matrix.n_rows, n_threads
        self._make_room(_FEW_NODES)
        self._add_values: Callable[..., Any] | None = None
        self._add_lines: Callable[..., Any] | None = None

    def add(self, tree: TreeOfTable, output: int, rows: RowArray) -> None:
        """Add the tree to the scores of ``rows``; of all if ``rows`` is empty."""
        n_rows = len(rows) or self._n_rows
        if tree.stop - tree.first > self._most_nodes:
            self._make_room(max(tree.stop - tree.first, 2 * self._most_nodes))
        if self._n_threads == 1 or n_rows < 2 * ROWS_PER_WALK:
            self._walk(tree, output, rows, 0, n_rows, self._space)
            return

        def walk(start: int, stop: int) -> None:
            self._walk(tree, output, rows, start, stop, walk_space(self._most_nodes))

        run_blocks(walk, n_rows, self._n_threads, ROWS_PER_WALK)

    def _make_room(self, n_nodes: int) -> None:
        """Allocate what a walk down a tree of up to ``n_nodes`` nodes needs."""
        self._most_nodes, self._space = n_nodes, walk_space(n_nodes)
        if self._numbers is not None:
            self._lines = self.lines(n_nodes)

    def lines(self, n_nodes: int) -> Lines:
        """Return what the rows need besides for trees of up to ``n_nodes`` nodes with slopes."""
        assert self._numbers is not None
        places = np.arange(n_nodes, dtype=np.float64)
        return Lines(self._numbers, np.empty(self._n_rows), places)

    def _walk(
        self, tree: TreeOfTable, output: int, rows: RowArray, start: int, stop: int, space: AnyArray
    ) -> None:
        block, first, n_nodes = tree.block, tree.first, tree.stop - tree.first
        part = (self.walked, output, rows, start, stop, space)
        if tree.slopes is None:
            if self._add_values is None:
                self._add_values = entry_of(add_values, block, first, n_nodes, *part)
            self._add_values(block, first, n_nodes, *part)
        else:
            lines = self._lines
            if self._add_lines is None:
                self._add_lines = entry_of(
                    add_lines, block, first, n_nodes, tree.slopes, lines, *part
                )
            self._add_lines(block, first, n_nodes, tree.slopes, lines, *part)
