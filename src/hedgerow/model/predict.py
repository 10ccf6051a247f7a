"""Raw scores, leaves and staged scores of a forest.

The raw score of a row is ``base_score`` plus the values of its leaves, added in
tree order in float64.  The bits are the same for any batch, thread count and engine
(:mod:`hedgerow.kernels.prediction.predict` describes the two engines).

A sparse table is predicted in blocks of rows.  In each block only the columns that the
forest uses are made dense, so memory and time do not depend on the number of columns.

A :class:`Predictor` converts the forest to the layout of an engine on first use.
Predictions do not change it, and it holds neither threads nor scratch memory.  Several
threads may therefore use it at once, and so may a forked child.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import AnyArray, BinArray, FloatArray, IntArray, distinct
from hedgerow.data.reading.columns import floats_of
from hedgerow.data.schema import ColumnKind
from hedgerow.data.sparse import SparseTable, rows_at_once
from hedgerow.errors import DataError, DataTypeError
from hedgerow.kernels.prediction import predict as kernels
from hedgerow.model.engine_tables import EngineTables
from hedgerow.model.forest import Forest, renumbered, used_columns
from hedgerow.model.layout import CODINGS, CategoryReader, flat_view
from hedgerow.model.one_row import RowScorer
from hedgerow.once import once
from hedgerow.threads import run_blocks

Rows: TypeAlias = tuple[AnyArray, AnyArray, int, int, int]
"""Arguments that describe a table to :mod:`hedgerow.kernels.prediction.predict`."""

CategoryArguments: TypeAlias = tuple[BinArray, IntArray, npt.NDArray[np.uint64]]
"""See :func:`hedgerow.kernels.prediction.table_keys.fill_set_keys`."""

NO_CATEGORIES: CategoryArguments = (
    np.zeros(0, dtype=np.uint8),
    np.zeros(0, dtype=np.int64),
    np.zeros(0, dtype=np.uint64),
)

NO_NUMBERS: FloatArray = np.zeros((0, 0))


class Batch(NamedTuple):
    """A table prepared for the prediction kernels."""

    rows: Rows
    walks: bool  # whether the trees are walked
    categories: CategoryArguments = NO_CATEGORIES
    # float64 (n_rows, n_features): the values, if leaves are linear; otherwise empty
    numbers: FloatArray = NO_NUMBERS
    are_finite: int = 0  # 1 if all numbers are known to be finite


_NO_NARROW_ROWS, _NO_WIDE_ROWS = (
    (np.zeros(0, dtype), np.zeros(7, dtype), 0, 0, 0) for dtype in (np.int32, np.int64)
)
_NO_SCORES, _NO_LEAVES = np.zeros((1, 0)), np.zeros((0, 0), dtype=np.int32)

FEW_ROWS = 16
"""Smaller batches always walk the trees; larger ones use the cheaper engine."""

BLOCK_COST = 64
"""Fixed cost of a block in the mask engine, in rows."""

FLOAT_ROWS = 1 << 16
"""Rows converted to float64 at a time, for linear leaves and for walks."""

KEY_MEMORY = 1 << 18
"""Most bytes of keys in a block, so that they stay in the second-level cache."""

THREAD_WORK = 250_000.0
"""Nanoseconds of work that justify another thread; waking one costs about 64,000."""


class Predictor:
    """Compute raw scores and leaves of a valid forest: the kernels check nothing."""

    def __init__(self, forest: Forest, kinds: Sequence[ColumnKind]) -> None:
        self.forest = forest
        self._n_features = forest.n_features
        self._n_trees = forest.n_trees
        self._n_outputs = forest.n_outputs
        self._per_round = forest.trees_per_round
        self._base_score = np.array(forest.base_score, dtype=np.float64)
        self.tables = EngineTables(forest)
        self._is_linear = forest.slopes is not None and len(forest.slopes.column) > 0
        self._kinds = kinds
        self._codings = codings_of(kinds)

    def raw_scores(
        self,
        values: AnyArray | SparseTable,
        n_threads: int = 1,
        first_tree: int = 0,
        stop_tree: int | None = None,
    ) -> FloatArray:
        """Add trees ``first_tree .. stop_tree`` (by default all) to the base score."""
        stop_tree = self._n_trees if stop_tree is None else stop_tree
        if not 0 <= first_tree <= stop_tree <= self._n_trees:
            raise ValueError(
                f"first_tree={first_tree} and stop_tree={stop_tree} must be a range within the "
                f"{self._n_trees} trees of the forest."
            )
        n_rows = values.n_rows if isinstance(values, SparseTable) else len(values)
        scores = self._base_score.repeat(n_rows).reshape(self._n_outputs, n_rows)
        self.add_scores(values, scores, n_threads, first_tree, stop_tree)
        return scores

    def add_scores(
        self,
        values: AnyArray | SparseTable,
        scores: FloatArray,
        n_threads: int = 1,
        first_tree: int = 0,
        stop_tree: int | None = None,
    ) -> None:
        """Add trees, by default all, to existing raw scores, without the base score."""
        stop_tree = self._n_trees if stop_tree is None else stop_tree

        def add(
            predictor: Predictor, rows: AnyArray, start: int, threads: int = 1, walks: Any = None
        ) -> None:
            own = scores[:, start : start + len(rows)].copy()  # kernels take C order
            batch = predictor._batch(rows, predictor._walks(rows) if walks is None else walks)
            predictor._add(batch, own, threads, first_tree, stop_tree)
            scores[:, start : start + len(rows)] = own

        if isinstance(values, SparseTable):
            self._each_block(values, n_threads, add)
            return
        walks, narrow = self._walks(values), values.dtype == np.float32
        if len(values) <= FLOAT_ROWS or not (self._is_linear or (narrow and walks)):
            self._add(self._batch(values, walks), scores, n_threads, first_tree, stop_tree)
            return
        for start in range(0, len(values), FLOAT_ROWS):
            add(self, values[start : start + FLOAT_ROWS], start, n_threads, walks)

    def staged(self, values: AnyArray | SparseTable, n_threads: int = 1) -> Iterator[FloatArray]:
        """Yield the raw scores after each round, as a new array each time."""
        n_rows = values.n_rows if isinstance(values, SparseTable) else len(values)
        scores = self._base_score.repeat(n_rows).reshape(self._n_outputs, n_rows)
        if not isinstance(values, SparseTable):
            # Reading the values is most of the work of a round.
            columns = np.asfortranarray(values)
            batch = self._batch(columns, self._walks(columns))
        for first in range(0, self._n_trees, self._per_round):
            stop = first + self._per_round
            if isinstance(values, SparseTable):
                for number in range(first, stop):
                    own = slice(number % self._n_outputs, number % self._n_outputs + 1)
                    found = scores[own] if self.forest.vectors is None else scores
                    tree = Predictor(self.forest.tree(number), self._kinds)
                    tree.add_scores(values, found, n_threads)
            else:
                self._add(batch, scores, n_threads, first, stop)
            yield scores.copy()

    def leaves(self, values: AnyArray | SparseTable, n_threads: int = 1) -> npt.NDArray[np.int32]:
        """Return the leaf that each row reaches in each tree, as an index within the tree."""
        if isinstance(values, SparseTable):
            leaves = np.empty((values.n_rows, self._n_trees), dtype=np.int32)

            def find(compact: Predictor, block: AnyArray, start: int) -> None:
                leaves[start : start + len(block)] = compact.leaves(block)

            self._each_block(values, n_threads, find)
            return leaves
        rows, _, categories, *numbers = self._batch(values, walks=True)
        leaves = np.empty((len(values), self._n_trees), dtype=np.int32)
        contents = (*self.tables.contents[1:], *numbers)
        tables = self.tables.walk64
        block, n_slots = self._block(kernels.WALK_BLOCK, 8), len(self.tables.splits.slots)

        def task(start: int, stop: int) -> None:
            space = kernels.walk_space(n_slots, block, stop - start)
            part = (_NO_SCORES, block, start, stop, 0, self._n_trees, categories)
            kernels.walk_trees(rows, tables, *part, space, contents, leaves)

        run_blocks(task, len(values), n_threads, self._rows_per_thread(self.tables.walk_cost))
        return leaves

    def _each_block(
        self, table: SparseTable, n_threads: int, task: Callable[[Predictor, AnyArray, int], None]
    ) -> None:
        """Call ``task(compact, block, start)`` for each block of rows."""
        # ``block`` is a dense copy of the columns that the forest uses, and ``compact`` a predictor
        # for only these columns.
        if table.n_features != self._n_features:
            raise DataError(f"values must have {self._n_features} columns, got {table.n_features}.")
        columns, compact = self._compact
        step = rows_at_once(len(columns), table.value.itemsize)

        def blocks(start: int, stop: int) -> None:
            for first in range(start, stop, step):
                block = table.dense(columns, first, min(first + step, stop))
                task(compact, block, first)

        run_blocks(blocks, table.n_rows, n_threads, self._rows_per_thread(self.tables.walk_cost))

    def _batch(self, values: AnyArray, walks: bool) -> Batch:
        """Prepare a table for the kernels of one of the engines."""
        if walks and values.dtype == np.float32:
            values = values.astype(np.float64)
        rows, reader = kernel_rows(values, self._codings, self._n_features), self._category_reader
        numbers, are_finite = NO_NUMBERS, 0
        if self._is_linear:
            numbers = floats_of(values, self._kinds)
            # To test a number takes about as long as the test saves in a tree.
            are_finite = int(self._n_features < self._n_trees and np.isfinite(numbers).all())
        categories = NO_CATEGORIES if reader is None else reader.read(values)
        return Batch(rows, walks, categories, numbers, are_finite)

    def _add(
        self, batch: Batch, scores: FloatArray, n_threads: int, first_tree: int, stop_tree: int
    ) -> None:
        """Add trees to ``scores`` with the engine that is faster for this batch."""
        rows, walks, categories, *numbers = batch
        n_rows, tables = scores.shape[1], self.tables
        leaves, held = (*tables.contents[1:], *numbers), scores
        if self.forest.vectors is not None:
            # The scores of a row are neighbours, like the numbers of a vector: 26 take half the
            # time.
            held = np.zeros((n_rows, tables.contents.vectors.shape[1]))
            held[:, : self._n_outputs] = scores.T
        narrow = rows[0].itemsize == 4
        share = (stop_tree - first_tree) / max(1, self._n_trees)
        few = n_rows < FEW_ROWS
        if walks:
            walk = tables.walk64
            block = kernels.WALK_BLOCK if few else self._block(kernels.WALK_BLOCK, 8)
        else:
            masks, ranks = tables.masks(narrow, share)
            block = self._block(min(kernels.BLOCK, n_rows + 15), masks[2].itemsize)

        def task(start: int, stop: int) -> None:
            part = (held, block, start, stop, first_tree, stop_tree, categories)
            if walks:
                space = kernels.walk_space(len(walk[0]), block, stop - start)
                kernels.walk_trees(rows, walk, *part, space, leaves, _NO_LEAVES)
            else:
                space = kernels.mask_space(len(masks[0]), masks[-1], block)
                widths = (rows, _NO_WIDE_ROWS) if narrow else (_NO_NARROW_ROWS, rows)
                kernels.add_masked_trees(widths, masks, *part, space, leaves, ranks)

        cost = (tables.walk_cost if walks else self._mask_cost(n_rows)) * share
        run_blocks(task, n_rows, 1 if few else n_threads, self._rows_per_thread(cost))
        if held is not scores:
            scores[:] = held[:, : self._n_outputs].T

    def _mask_cost(self, n_rows: int) -> float:
        return self.tables.mask_cost * (1 + BLOCK_COST / n_rows)

    def _walks(self, values: AnyArray) -> bool:
        """Return whether the trees are walked, which has keys of 64 bits."""
        if len(values) < FEW_ROWS or not self.tables.pay(len(values)):
            return True
        return self._mask_cost(len(values)) > self.tables.walk_cost

    def _block(self, rows: int, key_bytes: int) -> int:
        """Return the block size: ``rows``, or fewer if their keys would not fit the cache."""
        row_bytes = key_bytes * max(1, len(self.tables.splits.slots))
        return max(16, min(rows, KEY_MEMORY // row_bytes) // 16 * 16)

    def _rows_per_thread(self, cost: float) -> int:
        """Return the fewest rows that justify a thread, at ``cost`` nanoseconds per row."""
        return 1 + int(THREAD_WORK / (1.0 + cost + len(self.tables.splits.slots)))

    @once
    def _compact(self) -> tuple[IntArray, Predictor]:
        """Return the columns that the forest uses, and a predictor for only these."""
        assert self.forest.categories is None, "sparse tables have no category columns"
        columns = distinct(np.append(used_columns(self.forest), 0))
        column_map = np.zeros(self.forest.n_features, dtype=np.int32)
        column_map[columns] = np.arange(len(columns))
        forest = renumbered(self.forest, column_map, len(columns))
        return columns, Predictor(forest, [self._kinds[int(column)] for column in columns])

    @once
    def of_one_row(self) -> RowScorer:
        """Return the scorer of single rows."""
        reader = self._category_reader
        tables = self.tables
        return RowScorer(self.forest, self._kinds, tables.walk64, tables.contents, reader)

    @once
    def _category_reader(self) -> CategoryReader | None:
        return None if self.forest.categories is None else CategoryReader(self.forest)


def codings_of(kinds: Sequence[ColumnKind]) -> Mapping[Any, AnyArray]:
    """Return the codings of the types that a table with columns of these kinds may have."""
    int64 = np.dtype(np.int64)
    return {int64: CODINGS[int64]} if "int" in kinds else dict(CODINGS)


def kernel_rows(values: AnyArray, codings: Mapping[Any, AnyArray], n_features: int) -> Rows:
    """View a table as one flat, read-only array of bits, without copying it."""
    # The view is always read-only because the user's array may be, so the kernels are compiled for
    # only one kind of array.
    coding = codings.get(values.dtype)
    if coding is None:
        allowed = ", ".join(str(dtype) for dtype in codings)
        raise DataTypeError(f"values must be {allowed}, got {values.dtype}.")
    if values.ndim != 2 or values.shape[1] != n_features:
        raise DataError(f"values must have the shape (n_rows, {n_features}), got {values.shape}.")
    n_rows, n_columns = values.shape
    flags = values.flags
    origin, row_step, column_step = 0, n_columns, 1
    if flags.c_contiguous:
        flat = values.reshape(-1)
    elif flags.f_contiguous:
        flat, row_step, column_step = values.T.reshape(-1), 1, n_rows
    else:
        flat, origin, row_step, column_step = flat_view(values)
    bits = flat.view(coding.dtype)
    bits.flags.writeable = False
    return bits, coding, origin, row_step, column_step
