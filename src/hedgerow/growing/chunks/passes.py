"""A pass over chunks, as all threads see it: one compiled call of each helper for all chunks.

Arrays of a chunk are other ones than those of the chunk before, and to hand arrays to
compiled code takes Python, and its lock, some tenths of a millisecond for two threads.  So
what is the same for all chunks of a pass is handed over once (:class:`Plan`), and where the
arrays of a chunk lie is written to a table that all threads read::

    thread 0                        helpers
    BEGIN -------- plan ----------> take_part:  await an order
    chunk 0: write where, START --> gradients, sample        | stages of
    chunk 0: VISIT ---------------> rows divided, histograms | chunk_stages,
    chunk 1: write where, ...       ...                      | each with a barrier
    END ------------------------->  return to Python

Glossary
--------
plan   what a pass works with, whatever the chunk
where  int64 (WHERE_FIELDS,): addresses and lengths of the arrays of a chunk
order  which stage is to be done with it
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hedgerow.arrays import FloatArray, IntArray, RowArray
from hedgerow.compile import kernel
from hedgerow.growing.chunks.nodes import end_builds
from hedgerow.growing.chunks.stages import (
    Building,
    add_values,
    open_chunk,
    sample_chunk,
    start_chunk,
    sum_leaves,
    tally_chunk,
    visit_chunk,
)
from hedgerow.growing.core.state import Rows, Sampler, Settings
from hedgerow.kernels.histograms.histogram import Bins, Columns
from hedgerow.kernels.primitives.barrier import ThreadTeam, await_order, barrier, give_order
from hedgerow.kernels.primitives.intrinsics import array_at, with_field
from hedgerow.objectives.derivatives import LossData

# Fields of ``where``: an address, and how many elements there are.
(
    BY_ROW, BY_ROW_CELLS, TILE_SIZE, TILE_WIDTH, BY_COLUMN, N_COLUMNS, COLUMN_CELLS,
    ROWS, N_ROW_IDS, QUANTIZED, PACKED, N_ROWS, FIRST_PIECE,
    TARGET, WEIGHT, N_WEIGHTS, RAW, N_OUTPUTS, PROBABILITY, N_PRECOMPUTED, N_PRECOMPUTED_ROWS,
    OUTPUT, SAMPLE_WEIGHTS, N_SAMPLE_WEIGHTS, WHERE_FIELDS,
) = range(25)  # fmt: skip

# Orders within a pass.
BEGIN, END, START, VISIT, END_BUILDS, SUM_LEAVES, ADD_VALUES, TALLY, SAMPLE = range(2, 11)


class Plan(NamedTuple):
    """What a pass works with.

    settings      of the fit; ``n_rows`` is that of the chunk in the stages
    sampler       how rows are sampled; its weights are those of the chunk in the stages
    known         of a tally: level of the digit, and the digits before it
    level         the quantile that is asked for
    scratch       uint32 (rows of the largest chunk,)
    n_bins        int32 (n_features,)
    shape         cells of a column, features of a tile
    blocks        float64 (threads, 2, block)
    counts        int64 (threads, COUNTS)
    scalars       int64 (N_SCALARS,)
    segments      int32 (nodes, pieces, 2)
    sums          int64 (threads, SUMS)
    columns       those of the tree
    table         int64 (nodes, NODE_FIELDS)
    parents       int64: nodes that are split
    building      histograms that are built
    leaves        int64: leaves whose sums are asked for, or whose values are added
    values        float64 (leaves,)
    leaf_sums     int64 (threads, leaves, 2)
    """

    settings: Settings
    sampler: Sampler
    known: tuple[int, int]
    level: np.float64
    scratch: RowArray
    n_bins: np.ndarray
    shape: tuple[int, int]
    blocks: FloatArray
    counts: IntArray
    scalars: IntArray
    segments: np.ndarray
    sums: IntArray
    columns: Columns
    table: IntArray
    parents: IntArray
    building: Building
    leaves: IntArray
    values: FloatArray
    leaf_sums: IntArray


@kernel(inner=True)
def bins_at(plan: Plan, where: IntArray) -> Bins:
    """The bins of a chunk."""
    return Bins(
        array_at(where[BY_ROW], (where[BY_ROW_CELLS],), np.uint8),
        array_at(where[BY_COLUMN], (where[N_COLUMNS], where[COLUMN_CELLS]), np.uint8),
        where[TILE_SIZE],
        where[TILE_WIDTH],
        plan.shape[1],
        plan.n_bins,
        plan.shape[0],
    )


@kernel(inner=True)
def rows_at(plan: Plan, where: IntArray) -> Rows:
    """What a fit keeps of the rows of a chunk."""
    n_numbers = 2 * where[N_ROWS]
    return Rows(
        array_at(where[ROWS], (where[N_ROW_IDS],), np.uint32),
        plan.scratch,
        array_at(where[QUANTIZED], (n_numbers,), np.int32),
        array_at(where[PACKED], (n_numbers,), np.int64),
    )


@kernel(inner=True)
def loss_data_at(plan: Plan, where: IntArray) -> LossData:
    """What the loss of the rows of a chunk depends on."""
    return LossData(
        array_at(where[TARGET], (where[N_ROWS],), np.float64),
        array_at(where[WEIGHT], (where[N_WEIGHTS],), np.float64),
        array_at(where[RAW], (where[N_OUTPUTS], where[N_ROWS]), np.float64),
        array_at(where[PROBABILITY], (where[N_PRECOMPUTED], where[N_PRECOMPUTED_ROWS]), np.float64),
        plan.level,
    )


@kernel(inner=True)
def sampler_at(plan: Plan, where: IntArray) -> Sampler:
    """How the rows of a chunk are sampled, and where their weights are written."""
    sampler = plan.sampler
    weights = array_at(where[SAMPLE_WEIGHTS], (where[N_SAMPLE_WEIGHTS],), np.float64)
    return Sampler(
        sampler.method, sampler.top_rate, sampler.rate, sampler.packs, sampler.tallies, weights
    )


@kernel
def take_part(thread: int, team: ThreadTeam, order: int, plan: Plan, where: IntArray) -> int:
    """Thread 0: one stage, for the chunk at ``where``.  Helpers: all stages of a pass.

    ``order`` is the stage, and for helpers the number of the last order; they return that of
    the order that ended the pass.
    """
    number = order
    if thread > 0 or order == BEGIN:
        # Nobody may give an order before the last one was heard.
        barrier(team)
    while order != BEGIN or thread > 0:
        if thread == 0:
            give_order(team, order)
        else:
            order = await_order(team, number)
            number += 1
        if order == END:
            barrier(team)
            break
        piece = where[FIRST_PIECE]
        if order == START:
            settings = with_field(plan.settings, "n_rows", where[N_ROWS])
            start_chunk(
                thread, team, settings, plan.sampler, loss_data_at(plan, where),
                rows_at(plan, where), plan.blocks, plan.counts, plan.scalars, plan.segments,
                piece, plan.sums,
            )  # fmt: skip
        elif order == TALLY:
            tally_chunk(
                thread, team, plan.settings, plan.sampler, rows_at(plan, where), plan.counts,
                where[N_ROWS], plan.known,
            )  # fmt: skip
        elif order == SAMPLE:
            rows = rows_at(plan, where)
            sample_chunk(
                thread, team, plan.settings, sampler_at(plan, where), rows, plan.counts,
                plan.scalars, where[N_ROWS],
            )  # fmt: skip
            open_chunk(thread, team, rows, plan.scalars, plan.segments, piece, plan.sums)
            barrier(team)
        elif order == VISIT:
            visit_chunk(
                thread, team, bins_at(plan, where), plan.columns, rows_at(plan, where),
                plan.table, plan.parents, plan.segments, piece, plan.scalars, plan.building,
            )  # fmt: skip
        elif order == END_BUILDS:
            end_builds(thread, team, plan.columns, plan.shape[0], plan.scalars, plan.building)
        else:
            rows = rows_at(plan, where)
            if order == SUM_LEAVES:
                sum_leaves(
                    thread, team, rows.quantized, rows.rows, plan.segments, piece, plan.leaves,
                    plan.leaf_sums,
                )  # fmt: skip
            else:
                at = where[RAW] + 8 * where[OUTPUT] * where[N_ROWS]
                raw = array_at(at, (where[N_ROWS],), np.float64)
                add_values(
                    thread, team, rows.rows, plan.segments, piece, plan.leaves, plan.values, raw
                )
        if thread == 0:
            break
    return number
