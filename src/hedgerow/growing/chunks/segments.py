"""Positions of the rows of nodes in chunks.

``segments`` are int32 (nodes, pieces, 2): first place and number of the rows of a node in each
piece.  A chunk has as many pieces as there are threads, and the pieces of all chunks stand one
behind the other.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hedgerow.arrays import IntArray, RowArray
from hedgerow.growing.chunks.work import ChunkWork


def rows_of_nodes(
    work: ChunkWork, segments: np.ndarray, nodes: IntArray, n_pieces: int
) -> tuple[RowArray, IntArray]:
    """Return the places of the rows of some nodes in a chunk, and the starts of the nodes."""
    # ``segments`` are those of all chunks.
    first = work.number * n_pieces
    own = segments[nodes, first : first + n_pieces]
    starts = np.concatenate(([0], np.cumsum(own[:, :, 1].sum(axis=1)))).astype(np.int64)
    parts = [work.rows[start : start + count] for start, count in own.reshape(-1, 2)]
    return np.concatenate([work.rows[:0], *parts]), starts


def rows_outside(work: Sequence[ChunkWork], segments: np.ndarray, n_pieces: int) -> RowArray:
    """Return the numbers of the rows that are in no node, ascending."""
    parts = [np.zeros(0, dtype=np.uint32)]
    for chunk in work:
        first = chunk.number * n_pieces
        n_inside = int(segments[0, first : first + n_pieces, 1].sum())
        parts.append(np.sort(chunk.rows[n_inside : chunk.n_rows]) + np.uint32(chunk.place.start))
    return np.concatenate(parts)


def chunks_with(segments: np.ndarray, nodes: IntArray, n_pieces: int) -> list[int]:
    """Return numbers of the chunks that have rows of the nodes."""
    in_piece = segments[nodes, :, 1].any(axis=0)
    in_chunk = in_piece.reshape(-1, n_pieces).any(axis=1)
    numbers: list[int] = np.flatnonzero(in_chunk).tolist()
    return numbers


def with_room(segments: np.ndarray, n_nodes: int, emptied: IntArray) -> np.ndarray:
    """Return segments for at least ``n_nodes`` nodes; skipped chunks leave empty ones."""
    n_kept = len(segments)
    if n_nodes > n_kept:
        larger = np.zeros((max(n_nodes, 2 * n_kept), *segments.shape[1:]), np.int32)
        larger[:n_kept] = segments
        segments = larger
    segments[emptied] = 0
    return segments
