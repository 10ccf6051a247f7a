"""A grown tree, and the walk of rows down it.

Every way of growing ends in a :class:`GrownTree`; what comes after (scores of
rows that it was not grown on, leaf values by line search, the model) does not
know how it was grown.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import FloatArray, IntArray, RowArray
from hedgerow.data import BinnedMatrix
from hedgerow.data.pairs import left_bytes
from hedgerow.kernels.predict import add_chosen_vectors
from hedgerow.kernels.slopes import Slopes, add_chosen_lines
from hedgerow.kernels.traverse import add_tree_scores
from hedgerow.threads import run_blocks

_ROWS_PER_WALK = 20_000  # a walk of 0.2 ms; to wake a thread takes 0.06 ms


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
        """The same tree with other node values."""
        return replace(self, value=value)

    def with_slopes(self, slopes: Slopes) -> GrownTree:
        """The same tree with leaves that are lines."""
        return replace(self, slopes=slopes)

    def with_counts(self, count: IntArray) -> GrownTree:
        """The same tree with other numbers of rows."""
        return replace(self, count=count)


def add_scores(
    tree: GrownTree,
    matrix: BinnedMatrix,
    rows: RowArray,
    scores: FloatArray,
    n_threads: int,
) -> None:
    """Add the tree's value of each of ``rows`` (of all, if there are none) to its score."""
    column, sets = tree.column, tree.left_bins
    if matrix.paired:
        column, sets = column >> 1, left_bytes(column, sets)  # -1, in leaves, stays
    nodes = (column, sets, tree.left, tree.right, tree.value)
    run_blocks(
        lambda start, stop: add_tree_scores(
            matrix.by_row,
            matrix.bytes_per_tile,
            nodes,
            rows,
            start,
            stop,
            scores,
        ),
        len(rows) or matrix.n_rows,
        n_threads,
        _ROWS_PER_WALK,
    )


def add_vectors(
    tree: GrownTree,
    matrix: BinnedMatrix,
    rows: RowArray,
    scores: FloatArray,
    n_threads: int,
) -> None:
    """The same for a tree with vectors, to scores of all outputs, in one walk.

    ``scores`` have shape (n_outputs, n_rows).
    """
    assert tree.vectors is not None
    ends, numbers = np.zeros(matrix.n_rows), np.arange(len(tree.value), dtype=np.float64)
    add_scores(tree.with_values(numbers), matrix, rows, ends, n_threads)
    vectors = tree.vectors
    run_blocks(
        lambda start, stop: add_chosen_vectors(vectors, ends, rows, start, stop, scores),
        len(rows) or matrix.n_rows,
        n_threads,
        _ROWS_PER_WALK,
    )


def add_lines(
    tree: GrownTree,
    matrix: BinnedMatrix,
    numbers: FloatArray,
    rows: RowArray,
    scores: FloatArray,
    n_threads: int,
) -> None:
    """The same for a tree whose leaves are lines in the ``numbers`` of the rows."""
    assert tree.slopes is not None
    ends, node = np.zeros(matrix.n_rows), np.arange(len(tree.value), dtype=np.float64)
    add_scores(tree.with_values(node), matrix, rows, ends, n_threads)
    value, slopes = tree.value, tree.slopes
    run_blocks(
        lambda start, stop: add_chosen_lines(
            value, slopes, numbers, ends, rows, start, stop, scores
        ),
        len(rows) or matrix.n_rows,
        n_threads,
        _ROWS_PER_WALK,
    )


NO_ROWS: RowArray = np.zeros(0, dtype=np.uint32)
