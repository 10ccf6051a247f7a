"""The setup of growth in chunks: ranks, memory and sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hedgerow.arrays import IntArray, aligned_zeros
from hedgerow.data.binning.bins import BinSpec
from hedgerow.data.binning.matrix import tile_shape
from hedgerow.data.external.row_store import ChunkStore
from hedgerow.errors import CommunicationError, DataError
from hedgerow.growing.chunks.exchange import Exchange
from hedgerow.growing.chunks.space import Sizes, builds_for, slots_for
from hedgerow.growing.chunks.stages.nodes import Own
from hedgerow.growing.chunks.vectors import check_rows as check_vector_rows
from hedgerow.growing.core import state as layout
from hedgerow.growing.core.stages.gradients import QUANTIZED_BITS
from hedgerow.kernels.histograms.histogram import Columns
from hedgerow.kernels.histograms.pairs import no_pairs
from hedgerow.kernels.histograms.vector_histogram import width_of
from hedgerow.kernels.simd.lanes import WIDTH
from hedgerow.params import BoostParams


@dataclass(slots=True)
class Traffic:
    """The cost of growing a tree.

    Attributes
    ----------
    passes : int
        Passes over the bins.
    redone : int
        Passes that were repeated with other units of the gradients.
    splits : int
        Nodes that were split, including splits that the tree does not use.
    wasted_rows : int
        Rows of those that were split in vain.
    sent : int
        Bytes that this rank has sent to others.
    """

    passes: int = 0
    redone: int = 0
    splits: int = 0
    wasted_rows: int = 0
    sent: int = 0


MOST_ROWS = (1 << (63 - QUANTIZED_BITS)) - 1
"""Largest number of rows of all ranks: sums of their 31-bit gradients cannot overflow."""


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
    everyone = exchange.greet(np.array(facts, dtype=np.int64))
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
    check_rows(total)
    if n_vectors > 1:
        check_vector_rows(total)
    return RankFacts(total, bool(everyone[:, 4].any()), int(everyone[:, 5].min()))


def check_rows(n_rows: int) -> None:
    """Raise ``DataError`` if sums over this many rows could overflow."""
    if n_rows > MOST_ROWS:
        raise DataError(
            f"{n_rows:,} rows are too many: whole-number sums of gradients hold at most "
            f"{MOST_ROWS:,}; train on a sample of the rows."
        )


def sizes_for(
    facts: RankFacts, exchange: Exchange, spec: BinSpec, params: BoostParams, n_threads: int,
    max_leaves: int, n_vectors: int, constant: bool,
) -> Sizes:  # fmt: skip
    """Return the room for histograms."""
    n_columns, kept = spec.n_features, spec.n_features
    if exchange.size > 1 and params.colsample_bytree >= 1.0:
        kept = -(-n_columns // exchange.size)
    width = width_of(n_vectors, constant) if n_vectors > 1 else 0
    n_groups = min(n_threads, tile_shape(n_columns)[0])
    return Sizes(
        n_columns=n_columns,
        stride=spec.stride,
        kept_columns=kept,
        n_slots=slots_for(kept, spec.stride, max_leaves, width),
        n_builds=facts.n_builds,
        n_groups=n_groups,
        n_parts=n_threads // n_groups,
        apart=exchange.adds,
        width=width,
        constant=constant,
    )


def own_of(options: layout.Options, scalars: IntArray, n_threads: int, n_columns: int) -> list[Own]:
    """Return the arrays that each thread writes while it searches."""
    found = aligned_zeros((n_threads, 2, layout.FOUND_FIELDS), np.int64)
    lanes = aligned_zeros((n_threads, 2, WIDTH), np.int64)
    own = []
    for _ in range(n_threads):
        constraints = options.constraints
        constraints = constraints._replace(
            met=constraints.met.copy(),
            used=constraints.used.copy(),
            permitted=constraints.permitted.copy(),
            growth=constraints.growth._replace(keys=constraints.growth.keys.copy()),
        )
        span = options._replace(constraints=constraints)
        allowed = np.ones((3, n_columns), dtype=np.int32)
        own.append(Own(layout.Search(lanes, found, allowed), scalars.copy(), span))
    return own


def columns_of(chosen: np.ndarray, n_columns: int) -> Columns:
    """Return the numbers of the columns; chunks have a byte for each."""
    return Columns(chosen, chosen % np.int32(tile_shape(n_columns)[1]), no_pairs())
