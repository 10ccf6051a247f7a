"""Fast raw scores of single rows, with the same bits as those of tables.

Everything that does not depend on the row is prepared once: the arguments of the kernel are
in a tuple, and calls reuse scratch memory.  Each call takes scratch memory from a stack and
returns it, so the code is safe with threads, signal handlers and forked children.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import MISSING_KEY, AnyArray, FloatArray
from hedgerow.data.schema import ColumnKind
from hedgerow.kernels.prediction.one_row import add_one_row
from hedgerow.model.forest import Forest
from hedgerow.model.layout import CODINGS, CategoryReader, LeafContents

NO_SETS = (np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.uint64))


class Space(NamedTuple):
    """Scratch memory of one call."""

    words: memoryview  # bytes of the row, eight for each column
    floats: FloatArray  # float64, shape (1, n_features); the same memory as floats
    # bytes of the row as float64; separate memory only if there are integer columns
    numbers: memoryview
    bins: npt.NDArray[np.uint8]  # uint8; bins of the category columns that the forest splits
    arguments: tuple[Any, ...]  # arguments of the kernel, without the scores


class RowScorer:
    """Scorer of single rows."""

    def __init__(
        self,
        forest: Forest,
        kinds: Sequence[ColumnKind],
        walk: tuple[AnyArray, ...],  # hedgerow.model.layout.WalkTables of 64-bit keys
        contents: LeafContents,
        reader: CategoryReader | None,  # if the forest splits categories
    ) -> None:
        self._n_outputs, padding = forest.n_outputs, contents.vectors.shape[1] - forest.n_outputs
        self._base = np.pad(forest.base_score, (0, max(0, padding))).reshape(-1, 1)
        self._walk, self._leaves, self._reader = walk, tuple(contents[1:]), reader
        self._lookups: list[tuple[int, bytes]] = []
        if reader is not None:
            found = zip(reader.columns, reader.lookups, strict=True)
            self._lookups = [(j, lookup.tobytes()) for j, lookup in found]
        n_features = len(kinds)
        self.shape = (1, n_features)
        self._int_places = [j for j, kind in enumerate(kinds) if kind == "int"]
        self._needs_numbers = bool(contents.is_linear.any() and self._int_places)
        self._words = struct.Struct("".join("q" if kind == "int" else "d" for kind in kinds))
        self._numbers = struct.Struct("d" * n_features)
        coding_of = np.array([kind == "int" for kind in kinds], dtype=np.uint8)
        codings = np.array([CODINGS[np.dtype(name)] for name in ("f8", "i8")])
        order = np.argsort(walk[-1], kind="stable").astype(np.uint64)
        self._columns = (coding_of, codings, order)
        self._free: list[Space] = []

    def space(self) -> Space:
        """Return scratch memory of an earlier call, or new memory."""
        try:
            return self._free.pop()
        except IndexError:
            pass
        words = np.zeros(self.shape[1], dtype=np.int64)
        floats = words.view(np.float64).reshape(self.shape)
        numbers = np.zeros(self.shape) if self._needs_numbers else floats
        bins = np.zeros(len(self._lookups), dtype=np.uint8)
        sets = (self._reader.row_of_set, self._reader.sets) if self._reader else NO_SETS
        scratch = np.zeros(len(self._walk[-1]) + len(self._walk[0]) + 1, dtype=np.uint64)
        leaves = (*self._leaves, numbers, 0)
        arguments = (words, self._columns, self._walk, (bins, *sets), scratch, leaves)
        views = words.data.cast("B"), numbers.reshape(-1).data.cast("B")
        return Space(views[0], floats, views[1], bins, arguments)

    def of_floats(self, row: AnyArray) -> FloatArray:
        """Return raw scores, shape (n_outputs, 1), of a row of floats, shape (1, n_features)."""
        space = self.space()
        space.floats[:] = row
        raw = self._base.copy()
        add_one_row(*space.arguments, raw)
        self._free.append(space)
        return raw if len(raw) == self._n_outputs else raw[: self._n_outputs]

    def of_values(self, values: Sequence[Any]) -> FloatArray:
        """Return the raw scores of a row."""
        space = self.space()
        self._words.pack_into(space.words, 0, *values)
        if self._needs_numbers:
            numbers = list(values)
            for j in self._int_places:
                if numbers[j] == MISSING_KEY:
                    numbers[j] = np.nan
            self._numbers.pack_into(space.numbers, 0, *numbers)
        bins = space.bins
        for k, (j, lookup) in enumerate(self._lookups):
            code = values[j]
            bins[k] = lookup[code if type(code) is int else -1]  # the last entry: missing values
        raw = self._base.copy()
        add_one_row(*space.arguments, raw)
        self._free.append(space)
        return raw if len(raw) == self._n_outputs else raw[: self._n_outputs]
