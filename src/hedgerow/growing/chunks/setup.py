"""The setup of growth in chunks: what ranks must know of each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hedgerow.data.external.row_store import ChunkStore
from hedgerow.errors import CommunicationError, DataError
from hedgerow.growing.chunks.exchange import Exchange
from hedgerow.growing.chunks.space import builds_for
from hedgerow.kernels.histograms.vector_histogram import width_of
from hedgerow.params import BoostParams


@dataclass(slots=True)
class Traffic:
    """The cost of growing a tree.

    Attributes
    ----------
    passes : int
        Passes over the bins.
    splits : int
        Nodes that were split, including splits that the tree does not use.
    wasted_rows : int
        Rows of those that were split in vain.
    sent : int
        Bytes that this rank has sent to others.
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
    """Raise ``DataError`` if histograms cannot count this many rows."""
    if n_rows > MOST_ROWS:
        raise DataError(
            f"{n_rows:,} rows are too many: histograms count at most {MOST_ROWS:,}; train on a "
            "sample of the rows."
        )


def check_vector_rows(n_rows: int) -> None:
    """Raise ``DataError`` if sums of vectors over this many rows could overflow."""
    if 2 * n_rows > MOST_ROWS:
        raise DataError(
            f"{n_rows:,} rows are too many for vectors in leaves, whose sums hold at most "
            f"{MOST_ROWS // 2:,}: use multi_strategy='one_output_per_tree', or a sample of the "
            "rows."
        )
