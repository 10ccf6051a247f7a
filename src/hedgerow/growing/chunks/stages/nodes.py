"""Stages on the nodes of a pass, and on their histograms, after all chunks.

The sums of the builds of a pass (:mod:`hedgerow.growing.chunks.stages.passes`) come, by way of
messages, from all ranks; then each rank searches its block of columns, and the best splits are
compared.

A message holds for each rank, for each build, for each column of its block: g, h where it is not
the number of rows, and that number, in the lowest ``n_bits`` of g if both fit one word; of vectors
the number of rows, and pairs of words.
"""

from __future__ import annotations

import numpy as np

from hedgerow import kernel_types as kt
from hedgerow.arrays import IntArray
from hedgerow.compile import kernel
from hedgerow.growing.chunks.stages.passes import Building
from hedgerow.growing.core import state as s
from hedgerow.growing.core.batch import best_thread, member
from hedgerow.growing.core.grow import search_child
from hedgerow.growing.core.stages.building import subtract_node
from hedgerow.growing.core.stages.frontier import commit_job, open_children
from hedgerow.growing.core.state import FOUND_FIELDS, JOB_HISTOGRAMS, NODE_SLOT, SUBTRACTED, State
from hedgerow.growing.sampling.draws import allow_children
from hedgerow.growing.symmetric import level as levels
from hedgerow.growing.symmetric.search import find_best, measure_node, search_job, start_of
from hedgerow.kernels.primitives.barrier import barrier, share
from hedgerow.kernels.primitives.intrinsics import by_reference


@kernel
def open_batch(state: State, parents: kt.Int64_1D, is_full: int, jobs: kt.Int64_2D) -> None:
    """Make the children of ``parents``; ``is_full``: 1 if the tree is full with the last ones."""
    shared = by_reference(state)
    for k in range(len(parents)):
        open_children(shared, parents[k], is_full == 1 and k == len(parents) - 1, jobs[k])


# -- messages -----------------------------------------------------------------------------


@kernel
def write_message(
    thread: int, state: State, building: Building, form: tuple[int, int], n_ranks: int,
    message: kt.Int64_1D,
) -> None:  # fmt: skip
    """Lay the sums of all builds out by rank: its columns of each build."""
    n_columns, n_builds, stride = building.last, len(building.nodes), state.bins.stride
    own, sums, half = building.histograms, building.sums, building.sums.width // 2
    (n_fields, n_bits), is_joined = form, np.int64(form[1] > 0)
    n_at, cells = np.uint64((n_fields - 1) * stride), np.uint64(stride * (1 - state.vectors.used))
    has_h, has_n = np.uint64(state.settings.constant_hessian == 0), np.uint64(n_bits == 0)
    for rank in range(n_ranks):
        first, last = share(n_columns, rank, n_ranks)
        start = first * n_builds * n_fields * stride
        span = share(last - first, thread, state.team.n_threads)
        for build in range(n_builds):
            for k in range(first + span[0], first + span[1]):
                to = start + (build * (last - first) + k - first) * n_fields * stride
                at = building.at[0, build] + state.columns.feature[k] * stride
                sent, here = np.uint64(to), np.uint64(at)
                for b in range(cells):
                    n = np.int64(own.n[here + b])
                    message[sent + b] = (own.g[here + b] << n_bits) + n * is_joined
                for b in range(cells * has_h):
                    message[sent + cells + b] = own.h[here + b]
                for b in range(cells * has_n):
                    message[sent + n_at + b] = np.int64(own.n[here + b])
                # Sums over all ranks fit 32 bits, so the sum of pairs is the pair of the sums.
                for b in range(stride if state.vectors.used == 1 else 0):
                    message[to + b] = np.int64(sums.n[at + b])
                    pair, word = to + stride + b * half, (at + b) * sums.width
                    if sums.n[at + b] == 0:
                        message[pair : pair + half] = 0
                        continue
                    for w in range(half):
                        low, high = sums.cells[word + 2 * w], sums.cells[word + 2 * w + 1]
                        message[pair + w] = np.int64(low) + (np.int64(high) << 32)
    barrier(state.team)


@kernel
def read_message(
    thread: int, state: State, block: tuple[int, int], form: tuple[int, int],
    message: kt.Int64_1D, slots: kt.Int64_1D,
) -> None:  # fmt: skip
    """Write the sums of the columns ``block`` of each build to its slot."""
    first, last = block
    stride, span = state.bins.stride, share(last - first, thread, state.team.n_threads)
    own, sums = state.histograms, state.vectors.outputs.sums
    half, (n_fields, n_bits), has_h = sums.width // 2, form, state.settings.constant_hessian == 0
    n_at = (n_fields - 1) * stride if n_bits == 0 else np.int64(0)
    below = (np.int64(1) << (n_bits if n_bits > 0 else 32)) - 1
    for build in range(len(slots)):
        place = start_of(state.level, slots[build])
        for k in range(first + span[0], first + span[1]):
            start = (build * (last - first) + k - first) * n_fields * stride
            at = place + state.columns.feature[k] * stride
            for b in range(stride if state.vectors.used == 0 else 0):
                n = message[start + n_at + b] & below
                own.g[at + b], own.n[at + b] = message[start + b] >> n_bits, np.int32(n)
                own.h[at + b] = message[start + stride + b] if has_h else n
            for b in range(stride if state.vectors.used == 1 else 0):
                sums.n[at + b] = np.int32(message[start + b])
                pair, word = start + stride + b * half, (at + b) * sums.width
                for w in range(half):
                    low = np.int64(np.int32(message[pair + w]))
                    sums.cells[word + 2 * w] = np.int32(low)
                    sums.cells[word + 2 * w + 1] = np.int32((message[pair + w] - low) >> 32)
    barrier(state.team)


# -- splits -------------------------------------------------------------------------------


@kernel(inner=True)
def subtract_job(thread: int, span: tuple[int, int], state: State, job: IntArray) -> None:
    """Compute the larger child's histogram by subtraction, if the job asks for it, in ``span``."""
    if job[JOB_HISTOGRAMS] == SUBTRACTED:
        small, large = member(job, 0).slot, member(job, 1).slot
        small, large = start_of(state.level, small), start_of(state.level, large)
        subtract_node(thread, span, state, large, small)


@kernel(inner=True)
def take_best(state: State, child: int, found: IntArray) -> None:
    """Thread 0: copy the best split that a thread has found."""
    thread = best_thread(state.search.found, child)
    for k in range(FOUND_FIELDS):
        found[k] = state.search.found[thread, child, k]


@kernel
def search_jobs(
    thread: int, state: State, block: tuple[int, int], jobs: kt.Int64_2D, found: kt.Int64_3D
) -> None:
    """Compute the larger children's histograms and all best splits in columns ``block``."""
    # ``found`` is written: int64 (jobs, 2, FOUND_FIELDS).
    shared = by_reference(state)
    first, last = share(block[1] - block[0], thread, state.team.n_threads)
    span = (block[0] + first, block[0] + last)
    for j in range(len(jobs)):
        if thread == 0:
            allow_children(shared, jobs[j])
        barrier(state.team)
        subtract_job(thread, span, shared, jobs[j])
        for child in range(2):
            node, slot, searched = member(jobs[j], child)
            if searched == 1:
                search_child(thread, span, shared, child, node, start_of(state.level, slot))
        barrier(state.team)
        if thread == 0:
            for child in range(2):
                if member(jobs[j], child).searched == 1:
                    take_best(shared, child, found[j, child])
    barrier(state.team)


@kernel
def commit_splits(state: State, jobs: kt.Int64_2D, found: kt.Int64_4D) -> None:
    """Write the best splits into the table of nodes: int64 (jobs, ranks, 2, fields)."""
    shared = by_reference(state)
    for j in range(len(jobs)):
        commit_job(shared, jobs[j], found[j])


# -- levels of symmetric trees ------------------------------------------------------------

# All histograms of a level are kept.  Each rank has those of its block of columns; the rank with
# the best cut measures the nodes and sends the result to the other ranks.


@kernel
def search_chunk_level(
    thread: int, state: State, block: tuple[int, int], found: kt.Int64_1D
) -> None:
    """Compute the larger children's histograms, and the level's best cut in columns ``block``."""
    # The best cut is written to ``found``: int64 (FOUND_FIELDS,).
    shared = by_reference(state)
    first, last = share(block[1] - block[0], thread, state.team.n_threads)
    span = (block[0] + first, block[0] + last)
    n_groups = np.int64(-1)
    for j in range(state.scalars[s.IS_N_JOBS]):
        job = state.tree.batch[j]
        subtract_job(thread, span, shared, job)
        n_groups = search_job(thread, span, shared, job, n_groups)
    find_best(thread, span, shared, n_groups)
    barrier(state.team)
    if thread == 0:
        take_best(shared, 0, found)


@kernel
def next_level(state: State, is_first: int) -> None:
    """Start the levels of a tree, or else divide the nodes of the level; list those of the next."""
    shared = by_reference(state)
    if is_first == 1:
        shared.level.counts[s.LEVEL] = 0
    else:
        levels.divide_level(shared)
    levels.open_level(shared)


@kernel
def choose_level(state: State, block: tuple[int, int], found: kt.Int64_3D) -> None:
    """Take the best cut; if it is in columns ``block``, compute what goes left in every node."""
    shared, level = by_reference(state), state.level
    levels.choose_cut(shared, found)
    none = np.int64(0)
    totals = (none, none, none, none)
    for k in range(block[0], block[1]):
        if np.int64(state.columns.feature[k]) != level.choice[s.FOUND_FEATURE]:
            continue
        for node in level.nodes[: level.counts[s.N_NODES]]:
            totals = measure_node(shared, node, state.tree.table[node, NODE_SLOT], totals)
        levels.write_choice(shared, totals)
        level.penalty[0] = levels.split_penalty(shared)
