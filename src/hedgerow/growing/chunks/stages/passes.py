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
plan   the plan of a pass, the same for all chunks
where  int64 (WHERE_FIELDS,): addresses and lengths of the arrays of a chunk
order  which stage is to be done with it
part   what a tree has of one output: a tree has one part, or with vectors one of each output
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hedgerow.arrays import FloatArray, IntArray, RowArray
from hedgerow.compile import kernel
from hedgerow.growing.chunks.stages.nodes import end_builds
from hedgerow.growing.chunks.stages.rows import (
    SUM_G,
    SUM_H,
    Building,
    add_values,
    open_chunk,
    sample_chunk,
    start_chunk,
    sum_leaves,
    tally_chunk,
    visit_chunk,
)
from hedgerow.growing.chunks.stages.vectors import join_chunk, vectors_at, weigh_chunk
from hedgerow.growing.core.state import (
    COUNT_G_SUM,
    COUNT_H_SUM,
    Rows,
    Sampler,
    Settings,
    Vectors,
)
from hedgerow.growing.sampling.draws import sample_rows
from hedgerow.growing.vectors.gradients import write_words
from hedgerow.kernels.histograms.histogram import Bins, Columns
from hedgerow.kernels.primitives.barrier import ThreadTeam, await_order, barrier, give_order, share
from hedgerow.kernels.primitives.intrinsics import array_at, with_field
from hedgerow.objectives.derivatives import LossData

# Fields of ``where``: an address, and how many elements there are.
(
    BY_ROW, BY_ROW_CELLS, TILE_SIZE, TILE_WIDTH, BY_COLUMN, N_COLUMNS, COLUMN_CELLS,
    ROWS, N_ROW_IDS, QUANTIZED, PACKED, N_ROWS, FIRST_PIECE,
    TARGET, WEIGHT, N_WEIGHTS, RAW, N_OUTPUTS, PROBABILITY, N_PRECOMPUTED, N_PRECOMPUTED_ROWS,
    OUTPUT, PART, SAMPLE_WEIGHTS, N_SAMPLE_WEIGHTS, WHERE_FIELDS,
) = range(26)  # fmt: skip

# Orders within a pass.
(
    BEGIN, END, START, DRAW, WRITE_WORDS, VISIT, END_BUILDS, SUM_LEAVES, ADD_VALUES, JOIN, TALLY,
    SAMPLE,
) = range(2, 14)  # fmt: skip

# Behind the counts of the outputs of trees with vectors.
OF_SIZES, OF_JOINED = -2, -1


class Plan(NamedTuple):
    """The plan of a pass.

    settings      of the fit; ``n_rows`` is that of the chunk in the stages
    sampler       how rows are sampled; its weights are those of the chunk in the stages
    known         of a tally: level of the digit, and the digits before it
    level         the quantile that is asked for
    scratch       uint32 (rows of the largest chunk,)
    n_bins        int32 (n_features,)
    shape         cells of a column, features of a tile
    blocks        float64 (threads, 2, block)
    counts        int64 (parts, threads, COUNTS); with vectors two more, for samples by gradients:
                  of the sizes of all outputs, and of those that were made last
    scalars       int64 (parts, N_SCALARS): those of the first part hold the tree's, too
    segments      int32 (nodes, pieces, 2)
    sums          int64 (threads, SUMS)
    columns       those of the tree
    table         int64 (nodes, NODE_FIELDS)
    parents       int64: nodes that are split
    building      histograms that are built
    leaves        int64: leaves whose sums are asked for, or whose values are added
    values        float64 (parts, leaves)
    leaf_sums     int64 (parts, threads, leaves, 2)
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
    """Return the bins of a chunk."""
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
def rows_at(plan: Plan, where: IntArray, part: int) -> Rows:
    """Return the arrays that a fit keeps for the rows of a chunk."""
    n_numbers = 2 * where[N_ROWS]
    return Rows(
        array_at(where[ROWS], (where[N_ROW_IDS],), np.uint32),
        plan.scratch,
        array_at(where[QUANTIZED] + 4 * n_numbers * part, (n_numbers,), np.int32),
        array_at(where[PACKED], (n_numbers,), np.int64),
    )


@kernel(inner=True)
def loss_data_at(plan: Plan, where: IntArray) -> LossData:
    """Return the inputs of the loss of a chunk's rows."""
    return LossData(
        array_at(where[TARGET], (where[N_ROWS],), np.float64),
        array_at(where[WEIGHT], (where[N_WEIGHTS],), np.float64),
        array_at(where[RAW], (where[N_OUTPUTS], where[N_ROWS]), np.float64),
        array_at(where[PROBABILITY], (where[N_PRECOMPUTED], where[N_PRECOMPUTED_ROWS]), np.float64),
        plan.level,
    )


@kernel(inner=True)
def sampler_at(plan: Plan, where: IntArray) -> Sampler:
    """Return the sampler of a chunk's rows, and the place of their weights."""
    sampler = plan.sampler
    weights = array_at(where[SAMPLE_WEIGHTS], (where[N_SAMPLE_WEIGHTS],), np.float64)
    return Sampler(
        sampler.method, sampler.top_rate, sampler.rate, sampler.packs, sampler.tallies, weights
    )


@kernel(inline=True, inner=True)
def here(where: IntArray, vectors: Vectors | None) -> Vectors | None:
    """Return the arrays of all outputs, with those of the chunk."""
    if vectors is None:
        return None
    return vectors_at(where[QUANTIZED], where[PACKED], where[N_ROWS], vectors)


@kernel(inline=True, inner=True)
def rows_to_sample(plan: Plan, where: IntArray, vectors: Vectors | None) -> Rows:
    """Return the rows of a chunk, with space for the numbers of the sampling."""
    rows = rows_at(plan, where, 0)
    if vectors is None:
        return rows
    # The words of several outputs, written once the sample is known, give their place.
    sizes = array_at(where[PACKED], (2 * where[N_ROWS],), np.int32)
    return Rows(rows.rows, rows.scratch, sizes, rows.packed)


@kernel(inline=True, inner=True)
def begin_rows(
    thread: int,
    team: ThreadTeam,
    order: int,
    plan: Plan,
    where: IntArray,
    vectors: Vectors | None,
) -> None:
    """Compute gradients of a chunk's rows, their sample, and the words of several outputs."""
    settings = with_field(plan.settings, "n_rows", where[N_ROWS])
    if order == START:
        part = where[PART]
        start_chunk(
            thread, team, settings, loss_data_at(plan, where), rows_at(plan, where, part),
            plan.blocks, plan.counts[part], plan.scalars[part],
        )  # fmt: skip
    elif order == DRAW:
        rows, scalars = rows_at(plan, where, 0), plan.scalars[0]
        sample_rows(thread, team, settings, rows.rows, plan.counts[0], scalars)
        piece = where[FIRST_PIECE]
        open_chunk(thread, team, rows, scalars, plan.segments, piece, plan.sums, vectors)
    elif vectors is not None:
        place, noise = share(where[N_ROWS], thread, team.n_threads), plan.blocks[thread, 0]
        write_words(settings, here(where, vectors).outputs, place, noise)
        barrier(team)


@kernel(inline=True, inner=True)
def sample_here(
    thread: int,
    team: ThreadTeam,
    order: int,
    plan: Plan,
    where: IntArray,
    vectors: Vectors | None,
) -> None:
    """Run a step of gradient-based sampling on a chunk: sums, tallies, and finally the rows."""
    rows, counts, scalars = rows_to_sample(plan, where, vectors), plan.counts[0], plan.scalars[0]
    if vectors is not None:
        counts, joined = plan.counts[OF_SIZES], plan.counts[OF_JOINED]
        outputs, n_rows = here(where, vectors).outputs, plan.settings.n_rows
        join_chunk(thread, team, plan.sampler, n_rows, rows, plan.blocks, outputs, joined)
    if order == JOIN:
        plan.sums[thread, SUM_G] += plan.counts[OF_JOINED, thread, COUNT_G_SUM]
        plan.sums[thread, SUM_H] += plan.counts[OF_JOINED, thread, COUNT_H_SUM]
        barrier(team)
    elif order == TALLY:
        tally_chunk(
            thread, team, plan.settings, plan.sampler, rows, counts, where[N_ROWS], plan.known
        )
    else:
        sampler = sampler_at(plan, where)
        sample_chunk(thread, team, plan.settings, sampler, rows, counts, scalars, where[N_ROWS])
        if vectors is not None:
            outputs = here(where, vectors).outputs
            weigh_chunk(thread, team, sampler, rows, outputs, plan.counts)
        piece = where[FIRST_PIECE]
        open_chunk(thread, team, rows, scalars, plan.segments, piece, plan.sums, vectors)


@kernel(inline=True, inner=True)
def end_rows(thread: int, team: ThreadTeam, order: int, plan: Plan, where: IntArray) -> None:
    """Sum the rows of each leaf, or add the leaf values to the scores of the rows."""
    piece = where[FIRST_PIECE]
    if order == SUM_LEAVES:
        for part in range(len(plan.leaf_sums)):
            rows = rows_at(plan, where, part)
            sum_leaves(
                thread, team, rows.quantized, rows.rows, plan.segments, piece, plan.leaves,
                plan.leaf_sums[part],
            )  # fmt: skip
        return
    ids = rows_at(plan, where, 0).rows
    for part in range(len(plan.values)):
        at = where[RAW] + 8 * (where[OUTPUT] + part) * where[N_ROWS]
        raw = array_at(at, (where[N_ROWS],), np.float64)
        add_values(thread, team, ids, plan.segments, piece, plan.leaves, plan.values[part], raw)


@kernel(inline=True, inner=True)
def do_stage(
    thread: int,
    team: ThreadTeam,
    order: int,
    plan: Plan,
    where: IntArray,
    vectors: Vectors | None,
) -> None:
    """Run one stage for the chunk at ``where``."""
    if order == VISIT:
        visit_chunk(
            thread, team, bins_at(plan, where), plan.columns, rows_at(plan, where, 0), plan.table,
            plan.parents, plan.segments, where[FIRST_PIECE], plan.scalars[0], plan.building,
            here(where, vectors),
        )  # fmt: skip
    elif order == END_BUILDS:
        end_builds(
            thread, team, bins_at(plan, where), plan.columns, plan.scalars[0], plan.building,
            vectors,
        )  # fmt: skip
    elif order in (START, DRAW, WRITE_WORDS):
        begin_rows(thread, team, order, plan, where, vectors)
    elif order in (JOIN, TALLY, SAMPLE):
        sample_here(thread, team, order, plan, where, vectors)
    else:
        end_rows(thread, team, order, plan, where)


@kernel
def take_part(
    thread: int,
    team: ThreadTeam,
    order: int,
    plan: Plan,
    where: IntArray,
    vectors: Vectors | None,
) -> int:
    """Thread 0: one stage, for the chunk at ``where``.  Helpers: all stages of a pass."""
    # ``order`` is the stage, and for helpers the number of the last order; they return that of
    # the order that ended the pass.
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
        do_stage(thread, team, order, plan, where, vectors)
        if thread == 0:
            break
    return number
