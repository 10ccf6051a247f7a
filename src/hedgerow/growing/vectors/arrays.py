"""The arrays of trees with vectors in their leaves.

Memory: for each row and output 16 bytes of gradients, and for each kept node, output
and bin 8 bytes of sums (with a constant hessian 12 and 4), outputs rounded up to a
multiple of 8 (16); nodes whose sums would take more than a gibibyte in all are built
from their rows.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import FloatArray, aligned_empty, aligned_zeros
from hedgerow.growing.core import state as s
from hedgerow.growing.core.setup import Allocate, Fit
from hedgerow.growing.sampling.goss import follows_gradients, unit_scale
from hedgerow.kernels.histograms.histogram import HistogramSums
from hedgerow.kernels.histograms.vector_histogram import Sums
from hedgerow.kernels.simd.lanes import N_LANES
from hedgerow.kernels.splits.category_search import Groups
from hedgerow.kernels.splits.category_split import SCRATCH_SIZE
from hedgerow.kernels.splits.vector_split import FILLED_SIZE, LANE_ROWS
from hedgerow.objectives.base import Objective
from hedgerow.objectives.derivatives import PRECOMPUTED
from hedgerow.objectives.precomputed import first_column


def with_vectors(
    state: s.State,
    fit: Fit,
    words: npt.NDArray[np.int32],
    sums: Sums,
    allocate: Allocate = aligned_empty,
) -> s.State:
    """Return the state of a single output, extended for several outputs."""
    n_outputs, n_rows = fit.raw.shape
    options, loss_data, params = state.options, state.loss_data, fit.params
    if follows_gradients(params):  # all outputs share the weights of the rows
        weights = allocate(n_rows, np.float64)
        weights[:] = 1.0
        sampler = options.sampler._replace(packs=np.int64(0), weights=weights)
        options = options._replace(sampler=sampler)
        scale = unit_scale(params) * (n_outputs if params.sampling == "mvs" else 1)
        state.scalars[s.IS_UNIT_SCALE] = np.float64(scale).view(np.int64)
    if fit.objective.kernel_id == PRECOMPUTED:  # for all outputs before each tree
        derivatives = allocate((2 * n_outputs, n_rows), np.float64)
        loss_data = loss_data._replace(probability=derivatives)
    scalars = np.repeat(state.scalars[None], n_outputs, axis=0)
    scalars[:, s.IS_OUTPUT] = np.arange(n_outputs)
    n_nodes, n_threads = len(state.tree.table), state.team.n_threads
    groups = make_groups(options.categories, n_outputs, n_threads)
    outputs = s.Outputs(
        target=_targets_of(fit.target, fit.objective),
        quantized=allocate((n_outputs, 2 * n_rows), np.int32),
        words=words,
        sums=sums,
        measured=aligned_zeros((n_threads, n_outputs, 2), np.int64),
        dropped=np.zeros((n_outputs, 2), dtype=np.int64),
        scalars=scalars,
        vectors=np.zeros((n_nodes, n_outputs)),
        cover=np.zeros(n_nodes),
    )
    return state._replace(
        settings=state.settings._replace(packs_all=0),
        loss_data=loss_data,
        scalars=scalars[0],
        options=options,
        vectors=s.Vectors(1, outputs, make_trial(groups, n_outputs, n_threads)),
    )


def make_sums(n_cells: int, width: int, constant: bool) -> Sums:
    """Return histograms of several outputs, whose cells have ``width`` words."""
    return Sums(
        cells=aligned_empty(n_cells * width, np.int32),
        n=aligned_empty(n_cells if width > 0 else 0, np.int32),
        width=np.int64(width),
        constant=np.int64(constant),
    )


def counts_alone(counts: npt.NDArray[np.integer]) -> HistogramSums:
    """Return sums whose row counts are those of vectors; g and h are 0, which takes no memory."""
    nothing = np.zeros(len(counts), dtype=np.int64)
    return HistogramSums(nothing, nothing, counts)


def make_trial(groups: Groups, n_outputs: int, n_threads: int) -> s.Trial:
    """Return space for the search."""
    n_lanes = -(-n_outputs // N_LANES) * N_LANES
    return s.Trial(
        totals=aligned_zeros((n_threads, n_outputs, 2), np.int64),
        units=aligned_zeros((n_threads, n_outputs, 2), np.float64),
        lanes=aligned_zeros((n_threads, LANE_ROWS * n_lanes), np.float64),
        filled=aligned_zeros((n_threads, FILLED_SIZE), np.int64),
        cuts=aligned_zeros((n_threads, 2, FILLED_SIZE * N_LANES), np.float64),
        groups=groups,
    )


def make_groups(categories: s.Categories, n_outputs: int, n_threads: int) -> Groups:
    """Return space for the search of category columns; almost none if there are no such columns."""
    shape = (n_threads, n_outputs, SCRATCH_SIZE if categories.chosen.any() else 1)
    return Groups(
        g=aligned_zeros(shape, np.int64),
        h=aligned_zeros(shape, np.int64),
        weight=aligned_zeros(shape, np.float64),
        direction=aligned_zeros((n_threads, 3, n_outputs), np.float64),
        side=aligned_zeros((n_threads, n_outputs, 2), np.int64),
    )


def _targets_of(target: FloatArray, objective: Objective) -> FloatArray:
    """Return one row of targets per output, or one for all; custom losses read none of them."""
    if target.ndim == 1 or objective.kernel_id == PRECOMPUTED:
        target = first_column(target)[:, None]
    return np.ascontiguousarray(target.T, dtype=np.float64)
