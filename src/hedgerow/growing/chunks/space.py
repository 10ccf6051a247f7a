"""What ranks must know of each other, and space for the histograms of a fit in chunks.

::

    one process     kept and built in the same sums
    rows divided    built from own rows for all columns, then sent; kept for a block of
                    columns only
    features divided    built and kept for a block of columns
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hedgerow.arrays import IntArray
from hedgerow.data.binning.bins import BinSpec
from hedgerow.data.binning.matrix import tile_shape
from hedgerow.data.external.disk_store import ChunkStore
from hedgerow.errors import CommunicationError, DataError
from hedgerow.growing.chunks.exchange import Exchange
from hedgerow.growing.chunks.stages.passes import Building
from hedgerow.growing.core.grower import CELL_BYTES
from hedgerow.growing.core.setup import counts_alone, make_histogram_sums, make_sums
from hedgerow.kernels.histograms.histogram import HistogramSums
from hedgerow.kernels.histograms.pairs import SPACING
from hedgerow.kernels.histograms.vector_histogram import Sums, width_of
from hedgerow.params import BoostParams

_SLOT_BYTES = 1 << 30
"""Histograms are kept for subtraction in at most this much memory."""

_BUILD_BYTES = 1 << 28
"""Histograms are built in at most this much memory in one pass."""


def cell_bytes(width: int) -> int:
    """Return the bytes of a cell of ``width`` words; 0 means one output."""
    return 4 * (width + 1) if width > 0 else CELL_BYTES


def slots_for(kept_columns: int, stride: int, max_leaves: int, width: int) -> int:
    """Return the number of stored histograms with cells of ``width`` words."""
    fit = _SLOT_BYTES // (cell_bytes(width) * kept_columns * stride)
    return int(min(2 * max_leaves + 2, max(4, fit)))


def builds_for(n_columns: int, stride: int, n_threads: int, max_leaves: int, width: int) -> int:
    """Return the number of histograms that a pass builds, with cells of ``width`` words."""
    packed = 0 if width > 0 else 16 * SPACING
    fit = _BUILD_BYTES // (n_threads * n_columns * (packed + cell_bytes(width) * stride))
    return int(min(2 * max_leaves, max(4, fit)))


class Space:
    """The sums of the histograms of a fit.

    width         int: words of a cell of several outputs; 0: of one output
    n_slots       int: number of stored histograms, the same on all ranks
    n_builds      int: histograms that are built in a pass; the least of all ranks
    slot_size     int: cells of a kept histogram
    kept          HistogramSums: sums of the slots; of vectors the row counts
    kept_vectors  Sums: sums of several outputs in the slots; without cells for one
    """

    def __init__(
        self, exchange: Exchange, spec: BinSpec, params: BoostParams, n_threads: int,
        n_builds: int, max_leaves: int, n_vectors: int, constant: bool,
    ) -> None:  # fmt: skip
        n_columns, kept = spec.n_features, spec.n_features
        self.width = width_of(n_vectors, constant) if n_vectors > 1 else 0
        exchange.divide_columns(n_columns * spec.stride * cell_bytes(self.width))
        if params.colsample_bytree >= 1.0:
            kept = -(-n_columns // exchange.share[1])
        self.n_builds, self._constant = n_builds, constant
        self.n_slots = slots_for(kept, spec.stride, max_leaves, self.width)
        self.slot_size = kept * spec.stride
        # Threads that divide columns, and those that divide rows, between them.
        self._n_groups = min(n_threads, tile_shape(n_columns)[0])
        self._n_parts = n_threads // self._n_groups
        # Ranks that add up their sums build them for all columns, apart from those that are kept.
        self._apart, self._build_size = exchange.adds, n_columns * spec.stride
        private = 0 if self._apart else (self._n_parts - 1) * n_builds
        self.kept, self.kept_vectors = self._sums((self.n_slots + private) * self.slot_size)
        self._built = self.kept, self.kept_vectors
        if self._apart:
            self._built = self._sums(self._n_parts * n_builds * self._build_size)
        n_packed = 0 if self.width > 0 else n_columns * SPACING
        # Pages that are not written to take no memory.
        self._packed = np.zeros((n_threads, n_builds, 2, n_packed), dtype=np.int64)
        each = np.arange(n_threads * n_builds * 2, dtype=np.int64).reshape(n_threads, n_builds, 2)
        self._cells = self._packed.__array_interface__["data"][0] + 8 * n_packed * each
        self._held, self._filled = np.zeros((2, n_threads, n_builds), dtype=np.int64)

    def _sums(self, n_cells: int) -> tuple[HistogramSums, Sums]:
        """Return sums of one output, or of several, which need only the row counts in addition."""
        vectors = make_sums(n_cells, self.width, self._constant)
        if self.width > 0:
            return counts_alone(vectors.n), vectors
        return make_histogram_sums(n_cells), vectors

    def plan(
        self, nodes: IntArray, slots: IntArray, columns: tuple[int, int], before: int
    ) -> Building:
        """Builds of ``nodes`` for ``slots``, in some of the tree's columns."""
        # ``before`` is the first cell of slot 0, less those of columns before the ones kept.
        part, number = np.arange(self._n_parts)[:, None], np.arange(len(nodes))
        if self._apart:
            at = (part * self.n_builds + number) * self._build_size
        else:
            private = self.n_slots + (part - 1) * self.n_builds + number
            at = before + np.where(part == 0, slots, private) * self.slot_size
        return Building(
            nodes, at, self._cells, self._held, self._filled, *self._built, self._n_groups, *columns
        )


@dataclass(slots=True)
class Traffic:
    """The cost of growing a tree.

    passes       int: passes over the bins
    splits       int: nodes that were split, including splits that the tree does not use
    wasted_rows  int: rows of those that were split in vain
    sent         int: bytes that this rank has sent to others
    """

    passes: int = 0
    splits: int = 0
    wasted_rows: int = 0
    sent: int = 0


MOST_ROWS = (1 << 31) - 1
"""Largest number of rows of all ranks: histograms count them in 32 bits."""


class RankFacts(NamedTuple):
    """The facts that ranks must know of each other.

    n_rows    of all ranks
    weighted  whether rows have weights
    n_builds  histograms that each rank has room to build in a pass
    """

    n_rows: int
    weighted: bool
    n_builds: int


def greet(
    exchange: Exchange,
    store: ChunkStore,
    params: BoostParams,
    n_threads: int,
    n_vectors: int = 1,
    weighted: bool = False,
) -> RankFacts:
    """Tell the others what this rank has; all must mean the same fit."""
    n_rows, spec = sum(store.chunk_sizes), store.spec
    most = params.max_leaves or 1 << 16
    width = width_of(n_vectors, constant=False) if n_vectors > 1 else 0
    n_builds = builds_for(spec.n_features, spec.stride, n_threads, most, width)
    by_features = exchange.mode == "features"
    facts = [n_rows, spec.n_features, spec.stride, int(by_features), int(weighted), n_builds]
    everyone = exchange.gather(np.array(facts, dtype=np.int64), "facts of the fit")
    same = everyone[:, :4] if by_features else everyone[:, 1:4]
    if (same != same[0]).any():
        raise CommunicationError(
            "all ranks must have the same columns and bins and divide the same of them (with "
            "mode='features' the same rows, too); rows, columns, cells of a column and mode (1: "
            f"features) are, rank by rank, {everyone[:, :4].tolist()}."
        )
    total = int(everyone[:, 0].sum()) if exchange.adds else n_rows
    if total == 0:
        raise DataError("there is no row in any chunk of any rank: nothing to grow trees on.")
    if total > MOST_ROWS:
        raise DataError(
            f"{total:,} rows are too many: histograms count at most {MOST_ROWS:,}; train on a "
            "sample of the rows."
        )
    if n_vectors > 1:
        check_vector_rows(total)
    return RankFacts(total, bool(everyone[:, 4].any()), int(everyone[:, 5].min()))


def check_vector_rows(n_rows: int) -> None:
    """Raise ``DataError`` if sums of vectors over this many rows could overflow."""
    if 2 * n_rows > MOST_ROWS:
        raise DataError(
            f"{n_rows:,} rows are too many for vectors in leaves, whose sums hold at most "
            f"{MOST_ROWS // 2:,}: use multi_strategy='one_output_per_tree', or a sample of the "
            "rows."
        )
