"""Raw scores of the rows of a fit, and the trees that are added to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from hedgerow.arrays import FloatArray, RowArray
from hedgerow.boosting.loop.assembly import make_forest
from hedgerow.data import AnyTable, BinnedMatrix, numbers_of
from hedgerow.data.binning.bins import BinSpec
from hedgerow.data.external.blocks import ColumnBlocks
from hedgerow.data.reading.mapped_table import BLOCK_ROWS, MappedTable
from hedgerow.growing.core.sums_pool import SumsPool
from hedgerow.growing.core.tree import NO_ROWS, GrownTree, add_lines, add_scores, add_vectors
from hedgerow.model.predict import Predictor


@dataclass(frozen=True, slots=True, eq=False)
class TrainingData:
    """Rows with what the loss needs to know of them.

    Attributes
    ----------
    matrix : BinnedMatrix, ColumnBlocks, Table or SparseTable
        Bins for histograms (with both layouts for training rows; validation
        rows need only rows), sorted columns for exact and approximate search,
        or the table itself for rows of which only scores are wanted.
    target : float64 (n_rows,)
        A class index for classification.
    weight : float64 (n_rows,), optional
        Positive.
    offset : float64 (n_outputs, n_rows), optional
        Added to the base score of each row.
    n_copies : int, default=1
        How often each row of the user's is there (:mod:`hedgerow.boosting.row_data.statistics`);
        limits and counts of rows mean the user's.
    start : float64 (n_outputs, n_rows), optional
        Raw scores to begin from, in the place of base score and offset.
    numbers : float64 (n_rows, n_features), column by column, optional
        Values of binned rows, where leaves have slopes.
    sums : SumsPool, optional
        Memory of histograms, if other fits of the same bins grow their trees in turn.
    """

    matrix: BinnedMatrix | ColumnBlocks | AnyTable
    target: FloatArray
    weight: FloatArray | None = None
    offset: FloatArray | None = None
    n_copies: int = 1
    start: FloatArray | None = None
    numbers: FloatArray | None = None
    sums: SumsPool | None = None

    def take(self, rows: RowArray, raw: FloatArray) -> tuple[FloatArray, ...]:
        """Target, raw scores and weight (or None) of some rows."""
        weight = None if self.weight is None else self.weight[rows]
        return self.target[rows], raw[:, rows], weight  # type: ignore[return-value]


class AddedScores(Protocol):
    """Raw scores of rows, wherever they are, to which trees are added."""

    def add(
        self, tree: GrownTree, output: int, rows: RowArray = NO_ROWS, factor: float = 1.0
    ) -> None:
        """Add ``factor`` times the tree's value to each of ``rows``; without any, to all."""


class Scores:
    """Raw scores of one set of rows, kept up with the trees.

    Attributes
    ----------
    data : TrainingData
    raw : float64 (n_outputs, n_rows)
        Changed in place.

    ``spec`` are the bins that trees are grown on; None if they are grown on values.
    """

    def __init__(
        self, data: TrainingData, base: FloatArray, n_threads: int, spec: BinSpec | None = None
    ) -> None:
        self.data = data
        self._spec = spec
        self.raw = np.empty((len(base), data.matrix.n_rows))
        self.raw[:] = base[:, None]
        if data.start is not None:
            self.raw[:] = data.start
        elif data.offset is not None:
            self.raw += data.offset
        self._n_threads = n_threads

    def restarted(self, base: FloatArray) -> Scores:
        """The scores of the same rows before the first tree."""
        return Scores(self.data, base, self._n_threads, self._spec)

    def add(
        self, tree: GrownTree, output: int, rows: RowArray = NO_ROWS, factor: float = 1.0
    ) -> None:
        """Add ``factor`` times the tree's value to each of ``rows``; without any, to all.

        A tree with vectors is added to all outputs.
        """
        self.add_to(self.raw, tree, output, rows, factor)

    def add_to(
        self, raw: FloatArray, tree: GrownTree, output: int, rows: RowArray = NO_ROWS,
        factor: float = 1.0,
    ) -> None:  # fmt: skip
        """The same for other scores (n_outputs, n_rows) of these rows."""
        tree, matrix, n_threads = tree.scaled(factor), self.data.matrix, self._n_threads
        if not isinstance(matrix, BinnedMatrix):
            self._walk(tree, rows, raw[output][None] if tree.vectors is None else raw)
        elif tree.vectors is not None:
            add_vectors(tree, matrix, rows, raw, n_threads)
        elif tree.slopes is not None:
            assert self.data.numbers is not None
            add_lines(tree, matrix, self.data.numbers, rows, raw[output], n_threads)
        else:
            add_scores(tree, matrix, rows, raw[output], n_threads)

    def _walk(self, tree: GrownTree, rows: RowArray, scores: FloatArray) -> None:
        """Add to (n_outputs, n_rows) scores of these rows, by the values in the table."""
        matrix = self.data.matrix
        assert not isinstance(matrix, BinnedMatrix)
        table = matrix.table if isinstance(matrix, ColumnBlocks) else matrix
        forest = make_forest([tree], np.zeros(len(scores)), table.n_features, self._spec)
        predictor = Predictor(forest, table.schema.kinds)
        if len(rows) == 0:
            scores += predictor.raw_scores(numbers_of(table), self._n_threads)
        elif isinstance(table, MappedTable):
            for start in range(0, len(rows), BLOCK_ROWS):  # copies of some rows at a time
                some = rows[start : start + BLOCK_ROWS]
                scores[:, some] += predictor.raw_scores(table.values[some], self._n_threads)
        else:
            scores[:, rows] += predictor.raw_scores(numbers_of(table.take(rows)), self._n_threads)


class MeanScores:
    """Raw scores by the mean of the trees: those of a random forest.

    Attributes
    ----------
    start : float64 (n_outputs, n_rows)
        Raw scores before the first tree, at which all trees are grown.
    outside : uint32 array
        Rows that the trees which are added next were not grown on.

    Parameters
    ----------
    scores : Scores
        Before the first tree; they stay as they are.
    """

    def __init__(self, scores: Scores) -> None:
        self.start, self._scores = scores.raw, scores
        self._sum, self._n_trees = np.zeros_like(scores.raw), 0
        self.outside: RowArray = NO_ROWS
        self._unseen = np.zeros_like(scores.raw)
        self._n_unseen = np.zeros(scores.raw.shape[1], dtype=np.int64)

    @property
    def raw(self) -> FloatArray:
        """Raw scores after the rounds so far."""
        n_rounds = max(1, self._n_trees // len(self._sum))
        return self.start + self._sum / n_rounds

    def restarted(self, base: FloatArray) -> Scores:
        """Scores of the same rows before the first tree, to which trees are added as they are."""
        return self._scores.restarted(base)

    def add(
        self, tree: GrownTree, output: int, rows: RowArray = NO_ROWS, factor: float = 1.0
    ) -> None:
        """Let ``factor`` times the tree join the mean of each of ``rows``; without any, of all."""
        self._scores.add_to(self._sum, tree, output, rows, factor)
        self._n_trees += 1 if tree.vectors is None else len(self._sum)
        if len(self.outside) > 0:
            self._scores.add_to(self._unseen, tree, output, self.outside, factor)
            if output == 0:
                self._n_unseen[self.outside] += 1

    def out_of_bag(self) -> tuple[RowArray, FloatArray]:
        """Rows that some tree was not grown on, and their raw scores by these trees."""
        rows = np.flatnonzero(self._n_unseen).astype(np.uint32)
        mean = self._unseen[:, rows] / self._n_unseen[rows]
        return rows, self.start[:, rows] + mean
