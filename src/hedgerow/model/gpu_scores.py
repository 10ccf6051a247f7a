"""Raw scores of a table that lies on a GPU, computed there.

::

    forest  --- once for each GPU --->  nodes, values, sets, levels in its memory
    rows    --- where they lie ------>  scores  --- copied ---> host

The scores have the bits of those that the processor computes
(:mod:`hedgerow.kernels.cuda.predict`).  What the kernels do not know is computed from a copy of
the table on the host: linear leaves, columns of 64-bit integers or text, statistics and crosses of
columns, and rules of imported models.
"""

from __future__ import annotations

import contextlib
import weakref
from typing import Any, NamedTuple

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray, distinct
from hedgerow.cuda.arrays import GpuArray
from hedgerow.cuda.device import DeviceArray, GpuMemoryError, Stream, gpu_number
from hedgerow.data.schema import Schema
from hedgerow.errors import CompilationError, DeviceError
from hedgerow.kernels.cuda import predict as kernels
from hedgerow.model.engine_tables import EngineTables
from hedgerow.model.layout import set_tables
from hedgerow.model.model import Model, has_foreign_rules

LEAST_ROWS = 1000
"""Fewer rows are copied and scored by the processor: to ask the GPU takes as long."""

CHUNK_BYTES = 1 << 28
"""Most memory of the GPU for the results of a launch."""

_CHUNK_ROWS, _MOST_CHUNKS = 1 << 17, 8
"""Least rows of a launch, and most launches for a table, unless memory is short."""

_KEPT_BYTES = 1 << 15
"""Most memory that the threads of a block share, so that a multiprocessor holds several."""

_BLOCK_SIZES = (256, 128, 64)
_BITS: dict[int, np.dtype[Any]] = {4: np.dtype(np.int32), 8: np.dtype(np.int64)}


class GpuScores(NamedTuple):
    """Scores of rows, float64 (n_outputs, n_rows), and rows with unknown categories by column."""

    raw: FloatArray
    unseen: dict[str, int]


class Lane(NamedTuple):
    """A stream, and space on the GPU for what it computes."""

    stream: Any
    scores: DeviceArray
    bins: Any
    unknown: Any


class FlatForest(NamedTuple):
    """Arrays of a forest as the kernels read them, on the host or a GPU.

    See :mod:`hedgerow.kernels.cuda.predict`.
    """

    nodes: Any
    roots: Any
    values: Any
    sets: Any
    columns: Any
    base: Any


class FlatLevels(NamedTuple):
    """Levels of the category columns, in the order of the columns, on the host or a GPU."""

    values: Any
    starts: Any
    bins: Any
    columns: Any


class GpuScorer:
    """Scorer of a model for tables on GPUs; threads may share it."""

    def __init__(self, model: Model, tables: EngineTables) -> None:
        self._model, self._tables = model, tables
        schema, forest = model.schema, model.forest
        # Only the processor can compute the scores of such models.
        has_host_rules = (
            model.inputs is not None
            or forest.slopes is not None
            or schema.has_int
            or schema.zero_missing
            or has_foreign_rules(model)
            or schema.has_categories != (forest.categories is not None)
        )
        self._levels = None if has_host_rules else flat_levels(model)
        self._held: dict[tuple[int, int], HeldForest] = {}

    def covers(self, X: GpuArray) -> bool:
        """Return whether the kernels can score this table, by its type, shape and the model."""
        if X.ndim != 2 or self._levels is None or X.shape[0] < LEAST_ROWS:
            return False
        steps = (*X.strides, X.address)
        return (
            X.shape[1] == self._model.schema.n_features
            and X.dtype in (np.float32, np.float64)
            and X.dtype.isnative
            and all(step % X.dtype.itemsize == 0 for step in steps)
        )

    def scores(self, X: GpuArray, first_tree: int, stop_tree: int) -> GpuScores | None:
        """Add trees to the base score of each row of a table that :meth:`covers` approves."""
        device, itemsize = X.device(), X.dtype.itemsize
        try:
            held = self._held.get((device, itemsize))
            if held is None:
                assert self._levels is not None
                flat = flat_forest(self._model, self._tables, itemsize)
                made = HeldForest(gpu_number(device), self._model.schema, flat, self._levels)
                # Two threads may both make it; the one that is not used is freed.
                held = self._held.setdefault((device, itemsize), made)
        except (DeviceError, CompilationError):  # it is too old, or lacks memory or code
            return None
        X.wait()
        try:
            return held.scores(X, first_tree, stop_tree)
        except GpuMemoryError:
            return None


class HeldForest:
    """A forest in the memory of a GPU, until it is garbage."""

    def __init__(self, gpu: Any, schema: Schema, forest: FlatForest, levels: FlatLevels) -> None:
        self._gpu, self._schema = gpu, schema
        self._width = len(forest.values) // max(1, len(forest.nodes) // 2)
        self._n_categories = len(levels.columns)
        stream: Stream = gpu.stream()
        # Not at the end of the process: the driver may be gone by then.
        weakref.finalize(self, stream.close).atexit = False
        with stream.current():
            self._forest = FlatForest(*(_uploaded(stream, array) for array in forest))
            self._levels = FlatLevels(*(_uploaded(stream, array) for array in levels))
            stream.wait()

    def scores(self, X: GpuArray, first_tree: int, stop_tree: int) -> GpuScores | None:
        """See :meth:`GpuScorer.scores`."""
        # The scores of some rows are copied while those of the next are computed.
        n_rows, raw = X.shape[0], np.empty((self._forest.base.length, X.shape[0]))
        step = min(n_rows, max(_CHUNK_ROWS, -(-n_rows // _MOST_CHUNKS)))
        step = min(step, max(LEAST_ROWS, CHUNK_BYTES // (8 * len(raw) + self._n_categories)))
        unknown = np.zeros(self._n_categories, dtype=np.int64)
        with contextlib.ExitStack() as open_streams:
            lanes = [self._lane(open_streams, step) for _ in range(2 if step < n_rows else 1)]
            computed: list[tuple[Lane, int, int]] = []
            for number, first in enumerate(range(0, n_rows, step)):
                lane, count = lanes[number % len(lanes)], min(step, n_rows - first)
                self._compute(lane, X, first, count, (first_tree, stop_tree))
                computed.append((lane, first, count))
                if number > 0:
                    _download(*computed[number - 1], raw)
            _download(*computed[-1], raw)
            for lane in lanes:
                counts = np.zeros_like(unknown)  # rows with unknown categories, by column
                if len(counts) > 0:
                    lane.stream.download(lane.unknown, counts)
                lane.stream.wait()
                unknown += counts
        names = [c.name for c in self._schema.columns if c.kind == "category"]
        unseen = {name: n for name, n in zip(names, unknown.tolist(), strict=True) if n > 0}
        return None if unseen and self._schema.unknown == "error" else GpuScores(raw, unseen)

    def _lane(self, open_streams: contextlib.ExitStack, n_rows: int) -> Lane:
        """Return a new stream with space for the results of some rows."""
        stream: Stream = self._gpu.stream()
        open_streams.callback(stream.close)
        open_streams.enter_context(stream.current())
        n_categories = self._n_categories
        unknown = stream.allocate(n_categories, np.int64, "counts of categories")
        if n_categories > 0:
            stream.clear(unknown)
        scores = stream.allocate(n_rows * self._forest.base.length, np.float64, "scores")
        bins = stream.allocate(n_rows * n_categories, np.uint8, "bins of categories")
        return Lane(stream, scores, bins, unknown)

    def _compute(
        self, lane: Lane, X: GpuArray, first: int, count: int, trees: tuple[int, int]
    ) -> None:
        """Begin to score ``count`` rows from ``first`` on, by a range of the trees."""
        forest, itemsize, (start, stop) = self._forest, X.dtype.itemsize, X.span
        length = (stop - start) // itemsize
        # Threads of a block, and words that they share; none if rows do not fit.
        row_bytes = forest.columns.length * itemsize
        fitting = [size for size in _BLOCK_SIZES if size * row_bytes <= _KEPT_BYTES]
        threads = (fitting or _BLOCK_SIZES)[0]
        n_words = threads * row_bytes // 4 if fitting else 0
        # Where the values of the rows lie, and how to make keys of them.
        rows = kernels.GpuRows(
            origin=np.int64((X.address - start) // itemsize),
            row_step=np.int64(X.strides[0] // itemsize),
            column_step=np.int64(X.strides[1] // itemsize),
            first=np.int64(first),
            count=np.int64(count),
            flip=np.int64(np.iinfo(_BITS[itemsize]).max),
            top=np.int64(np.array(np.inf, dtype=X.dtype).view(_BITS[itemsize])),
            is_kept=np.int64(n_words > 0),
            columns=forest.columns,
        )
        blocks = (-(-count // threads), 1)
        if self._n_categories > 0:
            given = (rows, kernels.GpuLevels(*self._levels), lane.bins, lane.unknown)
            values = DeviceArray(start, length, X.dtype)
            kernel = kernels.bin_narrow if itemsize == 4 else kernels.bin_wide
            lane.stream.launch(kernel, blocks, threads, values, *given)
        numbers = map(np.int64, (self._width, *trees))
        added = kernels.GpuTrees(forest.nodes, forest.roots, forest.values, *numbers)
        sets = kernels.GpuCategories(lane.bins, forest.sets)
        bits = DeviceArray(start, length, _BITS[itemsize])
        kernel = kernels.score_narrow if itemsize == 4 else kernels.score_wide
        arguments = (bits, rows, added, sets, forest.base, lane.scores)
        lane.stream.launch(kernel, blocks, threads, *arguments, n_words=n_words)


def _download(lane: Lane, first: int, count: int, raw: FloatArray) -> None:
    """Copy the scores of some rows, output after output."""
    for output in range(len(raw)):
        own = DeviceArray(lane.scores.address + 8 * output * count, count, np.float64)
        lane.stream.download(own, raw[output, first : first + count])


def _uploaded(stream: Stream, array: AnyArray) -> DeviceArray:
    held = stream.allocate(len(array), array.dtype, "trees")
    if len(array) > 0:
        stream.upload(array, held)
    return held


def flat_levels(model: Model) -> FlatLevels | None:
    """Return the levels of category columns; None if a level is text, or no float64."""
    columns = [j for j, kind in enumerate(model.schema.kinds) if kind == "category"]
    values: list[FloatArray] = []
    for j in columns:
        levels = model.schema.columns[j].levels
        numbers = [level for level in levels if not isinstance(level, str)]
        own = np.array(numbers, dtype=np.float64)
        if len(numbers) < len(levels) or own.tolist() != numbers:
            return None
        values.append(own)
    starts = np.cumsum([0, *map(len, values)], dtype=np.int64)
    empty = [np.zeros(0, dtype=np.uint8)]
    tables = model.forest.categories
    bins = empty if tables is None else [tables.bins_of(j) for j in columns]
    return FlatLevels(
        np.concatenate([np.zeros(0), *values]),
        starts,
        np.ascontiguousarray(np.concatenate([*empty, *bins])),
        np.array(columns, dtype=np.int64),
    )


def flat_forest(model: Model, tables: EngineTables, itemsize: int) -> FlatForest:
    """Return the arrays of a forest for values of 4 or 8 bytes."""
    # The nodes are those of the walk (:class:`hedgerow.model.layout.WalkTables`), with the column
    # in place of the slot.
    forest = model.forest
    slots, nodes, node, roots, _ = tables.walk32 if itemsize == 4 else tables.walk64
    threshold, step = nodes.reshape(-1, 2).T.copy()
    is_leaf = step >> 32 == np.arange(len(step))
    slot = np.append(slots, 0)[step & 0xFFFFFFFF]
    is_set = ~is_leaf & (slot < 0)
    is_number = ~is_leaf & (slot >= 0)
    columns = distinct(slot[is_number] >> 1)
    place, sets = np.searchsorted(columns, slot >> 1), np.zeros(0, dtype=np.int64)
    if is_set.any():
        feature, words = set_tables(forest)
        sets = words.view(np.int64)
        number = -1 - slot[is_set]
        categories = [j for j, kind in enumerate(model.schema.kinds) if kind == "category"]
        place[is_set] = np.searchsorted(categories, feature[number])
        threshold[is_set] = 4 * number
    flags = np.where(is_set, kernels.IS_CATEGORY, slot & kernels.MISSING_GOES_RIGHT)
    child = step >> 32 << kernels.CHILD_SHIFT
    words_of_step = np.where(is_leaf, -1, child | place << kernels.PLACE_SHIFT | flags)
    values = forest.value[node] if forest.vectors is None else forest.vectors[node].reshape(-1)
    return FlatForest(
        np.column_stack((threshold, words_of_step)).reshape(-1),
        roots.astype(np.int64),
        np.ascontiguousarray(values),
        np.ascontiguousarray(sets),
        columns.astype(np.int64),
        np.array(forest.base_score, dtype=np.float64),
    )
