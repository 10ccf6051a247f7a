"""Raw scores of the rows of a fit, updated with each tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from hedgerow.arrays import FloatArray, RowArray
from hedgerow.boosting.loop.ensemble import make_forest
from hedgerow.data import AnyTable, BinnedMatrix, numbers_of
from hedgerow.data.binning.bins import BinSpec
from hedgerow.data.external.blocks import ColumnBlocks
from hedgerow.data.external.disk_store import ChunkStore, Uses
from hedgerow.data.reading.mapped_table import BLOCK_ROWS, MappedTable
from hedgerow.growing.core.joining import WalkedRows
from hedgerow.growing.core.setup import SumsPool
from hedgerow.growing.core.tree import NO_ROWS, GrownTree, TreeOfTable, add_tree, columns_of_lines
from hedgerow.model.predict import Predictor


@dataclass(frozen=True, slots=True, eq=False)
class TrainingData:
    """Rows in the form for the grower, with the inputs of the loss as in a Sample.

    matrix    bins for histograms (with both layouts for training rows; validation rows need only
              rows), bins in chunks, sorted columns for exact and approximate search, or the table
              itself for rows that are only scored
    n_copies  number of copies of each input row (:mod:`hedgerow.boosting.row_data.statistics`);
              limits and counts of rows refer to input rows
    start     float64 (n_outputs, n_rows): initial raw scores, in place of base score and offset
    numbers   float64 (n_rows, n_features), column by column: values of binned rows, for linear
              leaves
    sums      memory for histograms, shared with other fits on the same bins that grow trees in turn
    """

    matrix: BinnedMatrix | ChunkStore | ColumnBlocks | AnyTable
    target: FloatArray
    weight: FloatArray | None = None
    offset: FloatArray | None = None
    n_copies: int = 1
    start: FloatArray | None = None
    numbers: FloatArray | None = None
    sums: SumsPool | None = None


class Scores:
    """Raw scores of one set of rows, updated with each tree.

    Trees of rows in chunks wait for the next use, so that one pass adds them all.

    spec    the bins on which trees are grown; None if trees are grown on values
    raw     float64 (n_outputs, n_rows): changed in place; :meth:`update` comes before each use
    walked  for trees on bins, if no byte holds two columns
    """

    def __init__(
        self, data: TrainingData, base: FloatArray, n_threads: int, spec: BinSpec | None = None
    ) -> None:
        self.data = data
        self._spec = spec
        shape = len(base), data.matrix.n_rows
        if isinstance(data.matrix, ChunkStore):
            self.raw = data.matrix.row_array(shape, np.float64)
        else:
            self.raw = np.empty(shape)
        self.raw[:] = base[:, None]
        if data.start is not None:
            self.raw[:] = data.start
        elif data.offset is not None:
            self.raw += data.offset
        self._n_threads = n_threads
        self._waiting: list[tuple[FloatArray, GrownTree, int, RowArray]] = []
        self.walked: WalkedRows | None = None
        if isinstance(data.matrix, BinnedMatrix) and not data.matrix.paired:
            self.walked = WalkedRows(data.matrix, self.raw, data.numbers, n_threads)

    def restarted(self, base: FloatArray) -> Scores:
        """Return the scores of the same rows before the first tree."""
        return Scores(self.data, base, self._n_threads, self._spec)

    def update(self) -> None:
        """Add the trees that wait."""
        if not self._waiting:
            return
        store = self.data.matrix
        assert isinstance(store, ChunkStore)
        columns = columns_of_lines(tree for _, tree, _, _ in self._waiting)
        for chunk in store.chunks(uses=Uses(columns=(), numbers=columns)):
            place, binned = chunk.rows, (chunk.matrix, chunk.numbers)
            for raw, tree, output, rows in self._waiting:
                first, last = np.searchsorted(rows, (place.start, place.stop))
                if len(rows) > 0 and first == last:
                    continue
                some = rows[first:last] - np.uint32(place.start)
                outputs = slice(output, output + 1) if tree.vectors is None else slice(None)
                own = np.ascontiguousarray(raw[outputs, place])
                add_tree(tree, binned, some, own, 0, self._n_threads)
                raw[outputs, place] = own
        self._waiting.clear()

    def add(
        self, tree: GrownTree, output: int, rows: RowArray = NO_ROWS, factor: float = 1.0
    ) -> None:
        """Add ``factor`` times the tree to the scores of ``rows``; of all if ``rows`` is empty."""
        if (
            self.walked is not None
            and isinstance(tree, TreeOfTable)
            and tree.vectors is None
            and factor == 1.0
        ):
            self.walked.add(tree, output, rows)
        else:
            self.add_to(self.raw, tree, output, rows, factor)

    def add_to(
        self, raw: FloatArray, tree: GrownTree, output: int, rows: RowArray = NO_ROWS,
        factor: float = 1.0,
    ) -> None:  # fmt: skip
        """Add the tree to other scores (n_outputs, n_rows) of ascending ``rows``."""
        tree, matrix, n_threads = tree.scaled(factor), self.data.matrix, self._n_threads
        if isinstance(matrix, ChunkStore):
            self._waiting.append((raw, tree, output, rows))
        elif isinstance(matrix, BinnedMatrix):
            add_tree(tree, (matrix, self.data.numbers), rows, raw, output, n_threads)
        else:
            self._walk(tree, rows, raw[output][None] if tree.vectors is None else raw)

    def _walk(self, tree: GrownTree, rows: RowArray, scores: FloatArray) -> None:
        """Add to (n_outputs, n_rows) scores of these rows by traversal of the table's values."""
        matrix = self.data.matrix
        assert not isinstance(matrix, BinnedMatrix | ChunkStore)
        table = matrix.table if isinstance(matrix, ColumnBlocks) else matrix
        forest = make_forest([tree], np.zeros(len(scores)), table.n_features, self._spec)
        predictor = Predictor(forest, table.schema.kinds)
        if len(rows) == 0:
            scores += predictor.raw_scores(numbers_of(table), self._n_threads)
        # One block of the rows of a file is copied at a time.
        step = BLOCK_ROWS if isinstance(table, MappedTable) else max(1, len(rows))
        for start in range(0, len(rows), step):
            some = rows[start : start + step]
            scores[:, some] += predictor.raw_scores(numbers_of(table.take(some)), self._n_threads)


class MeanScores:
    """Raw scores of a random forest: the mean of its trees.

    start    float64 (n_outputs, n_rows): raw scores before the first tree, at which all trees are
             grown
    outside  rows on which the next added trees were not grown
    """

    walked: WalkedRows | None = None

    def __init__(self, scores: Scores) -> None:
        self.start, self._scores = scores.raw, scores
        self._sum, self._n_trees = np.zeros_like(scores.raw), 0
        self.outside: RowArray = NO_ROWS
        self._unseen = np.zeros_like(scores.raw)
        self._n_unseen = np.zeros(scores.raw.shape[1], dtype=np.int64)

    def update(self) -> None:
        """Add the trees that wait."""
        self._scores.update()

    @property
    def raw(self) -> FloatArray:
        """Raw scores after the rounds so far."""
        self.update()
        n_rounds = max(1, self._n_trees // len(self._sum))
        return self.start + self._sum / n_rounds

    def restarted(self, base: FloatArray) -> Scores:
        """Return scores of the same rows before the first tree, to which trees are summed."""
        return self._scores.restarted(base)

    def add(
        self, tree: GrownTree, output: int, rows: RowArray = NO_ROWS, factor: float = 1.0
    ) -> None:
        """Add ``factor`` times the tree to the mean of ``rows``; of all if ``rows`` is empty."""
        self._scores.add_to(self._sum, tree, output, rows, factor)
        self._n_trees += 1 if tree.vectors is None else len(self._sum)
        if len(self.outside) > 0:
            self._scores.add_to(self._unseen, tree, output, self.outside, factor)
            if output == 0:
                self._n_unseen[self.outside] += 1

    def out_of_bag(self) -> tuple[RowArray, FloatArray]:
        """Return rows outside some tree's sample, and their raw scores from these trees."""
        self.update()
        rows = np.flatnonzero(self._n_unseen).astype(np.uint32)
        mean = self._unseen[:, rows] / self._n_unseen[rows]
        return rows, self.start[:, rows] + mean


AddedScores: TypeAlias = Scores | MeanScores
"""Raw scores to which trees are added."""
