"""Passes of all threads over arrays of all rows of a rank; no bins are read.

Each stage is one of a tree in memory (:mod:`hedgerow.growing.core.grow`), up to the point where
the sums of all ranks are needed.

Glossary
--------
piece    the rows of a chunk that one thread divides between children
segment  where a node's rows stand in a piece: first place and number

::

             chunk 0, thread 0    chunk 0, thread 1    chunk 1, ...
    rows     [ n3 n3 | n4 | n5 ]  [ n3 | n4 n4 | n5 ]  [ ...        numbers of rows, ascending
"""

from __future__ import annotations

import numpy as np

from hedgerow import kernel_types as kt
from hedgerow.compile import kernel
from hedgerow.growing.core import state as s
from hedgerow.growing.core.stages.gradients import fix_rows
from hedgerow.growing.core.stages.leaves import add_to_rows, set_values, sum_rows
from hedgerow.growing.sampling.draws import sample_rows
from hedgerow.growing.sampling.goss import choose_rows
from hedgerow.kernels.primitives.barrier import barrier, share
from hedgerow.kernels.primitives.intrinsics import by_reference

# Columns of ``sums``: over the rows of the sample.
SUM_G, SUM_H, SUMS = range(3)


@kernel
def measure_gradients(thread: int, state: s.State, counts: kt.Int64_3D) -> None:
    """Compute the gradients of each output with the units of the tree before, and measure them."""
    # ``counts`` are int64 (outputs of the tree, threads, COUNTS).
    shared = by_reference(state)
    for output in range(len(counts)):
        fix_rows(thread, shared, output, counts[output, thread])
    barrier(state.team)


@kernel
def draw_sample(thread: int, state: s.State, sums: kt.Int64_2D) -> None:
    """Put the rows of the tree to the front, ascending; add up what histograms hold of them."""
    # ``sums`` are int64 (threads, SUMS); of several outputs histograms alone have sums.
    shared, rows, scalars = by_reference(state), state.rows, state.scalars
    if state.options.sampler.method == s.UNIFORM:
        sample_rows(thread, shared)
    else:
        choose_rows(thread, shared)
    if state.vectors.used == 0:
        first, last = share(scalars[s.IS_N_ROWS], thread, state.team.n_threads)
        g, h, count_bits = np.int64(0), np.int64(0), scalars[s.IS_COUNT_BITS]
        if scalars[s.IS_DROPPED_BITS] == 0:
            g, h = sum_rows(rows.quantized, rows.rows, first, last)
        else:  # packed in one word
            shift = count_bits + scalars[s.IS_HESSIAN_BITS]
            below = (np.int64(1) << shift) - 1
            for i in range(np.uint64(first), np.uint64(last)):
                value = rows.packed[np.uint64(rows.rows[i])]
                g += value >> shift
                h += (value & below) >> count_bits
        sums[thread, SUM_G] += g
        sums[thread, SUM_H] += h
    barrier(state.team)


@kernel
def sum_leaves(
    thread: int, state: s.State, segments: kt.Int32_3D, leaves: kt.Int64_1D, sums: kt.Int64_4D
) -> None:
    """Add up the fixed g and h of each leaf: int64 (outputs of the tree, threads, leaves, 2)."""
    # From chunk to chunk, so that arrays in mapped files are read from front to back.
    rows, n_threads = state.rows, state.team.n_threads
    for piece in range(thread, segments.shape[1], n_threads):
        for output in range(sums.shape[0]):
            quantized = rows.quantized
            if state.vectors.used == 1:
                quantized = state.vectors.outputs.quantized[output]
            for k in range(len(leaves)):
                start = np.int64(segments[leaves[k], piece, 0])
                stop = start + np.int64(segments[leaves[k], piece, 1])
                g, h = sum_rows(quantized, rows.rows, start, stop)
                sums[output, thread, k, SUM_G] += g
                sums[output, thread, k, SUM_H] += h
    barrier(state.team)


@kernel
def add_values(
    thread: int,
    state: s.State,
    segments: kt.Int32_3D,
    leaves: kt.Int64_1D,
    nodes: kt.Int64_1D,
    sums: kt.Int64_4D,
) -> None:
    """Compute values and covers of all nodes; add the values of the leaves to the raw scores."""
    # ``nodes`` are the leaves in the tree; ``sums`` int64 (outputs of the tree, 1, 2, n_nodes).
    shared = by_reference(state)
    if thread == 0:
        for output in range(len(sums)):
            set_values(shared, output, sums[output])
    barrier(state.team)
    if state.settings.adds_scores == 0:
        return
    ids, raw, first = state.rows.rows, state.loss_data.raw, state.scalars[s.IS_OUTPUT]
    numbers, vectors = state.tree.numbers, state.vectors.outputs.vectors
    for piece in range(thread, segments.shape[1], state.team.n_threads):
        for output in range(len(sums)):
            scores = raw[first + output]
            for k in range(len(leaves)):
                start = np.int64(segments[leaves[k], piece, 0])
                stop = start + np.int64(segments[leaves[k], piece, 1])
                value = numbers[nodes[k], s.NUMBER_VALUE]
                if state.vectors.used == 1:
                    value = vectors[nodes[k], output]
                add_to_rows(value, ids, start, stop, scores)
    barrier(state.team)
