"""Exact greedy and approximate growth: from Python to the compiled stages and back.

``tree_method="exact"`` searches every cut between values that differ in a node,
``"approx"`` those at weighted quantiles of a column, proposed once a tree
(``sketch="global"``) or again at every node (``"local"``); both on columns sorted
once (:mod:`hedgerow.data.external.blocks`).  The stages are in
:mod:`hedgerow.growing.exact.stages`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import AnyArray, BoolArray, IntArray, aligned_empty, aligned_zeros
from hedgerow.data.binning.bins import integer_midpoints, midpoints
from hedgerow.data.external.blocks import PADDING, ColumnBlocks
from hedgerow.data.reading.table import Table
from hedgerow.data.schema import ColumnKind
from hedgerow.growing.core import setup
from hedgerow.growing.core import state as s
from hedgerow.growing.core.compiled_grower import CompiledGrower
from hedgerow.growing.core.grower import finish_nodes
from hedgerow.growing.core.tree import GrownTree
from hedgerow.growing.exact import stages
from hedgerow.growing.sampling.goss import make_sampler
from hedgerow.kernels.presorted.exact import CHUNK, CUTS, CutBuffer
from hedgerow.kernels.tables.keys import floats_of_keys, keys_of_floats

_HIGHEST = {"float": int(keys_of_floats(np.array(np.inf))), "int": np.iinfo(np.int64).max}
_LINE = 64  # of scratch: threads write to lines of their own


def _thresholds(table: Table, edges: AnyArray, feature: AnyArray, bins: AnyArray) -> IntArray:
    """Return keys of the thresholds of all nodes of the last tree; 0 for leaves."""
    keys, inner = np.zeros(len(feature), dtype=np.int64), np.flatnonzero(feature >= 0)
    below, above = edges[inner].T
    column = feature[inner]
    keys[inner] = thresholds_between(
        table.values[below, column], table.values[above, column], column, below == above,
        table.schema.kinds,
    )  # fmt: skip
    return keys


class ExactGrower(CompiledGrower):
    """Grows the trees of one fit on one table of sorted columns.

    Used as :class:`hedgerow.growing.core.grower.TreeGrower` is; trees have no bins.

    blocks            ColumnBlocks
    fit, adds_scores  As for :class:`hedgerow.growing.core.compiled_grower.CompiledGrower`;
                      ``fit.params.tree_method`` is ``"exact"`` or ``"approx"``
    """

    def __init__(self, blocks: ColumnBlocks, fit: setup.Fit, adds_scores: bool = True) -> None:
        self._blocks = blocks
        super().__init__(fit, adds_scores)

    def _make_state(self, fit: setup.Fit) -> s.State:
        params, n_rows, n_features = fit.params, self._blocks.n_rows, self._blocks.n_features
        max_leaves = setup.most_leaves(params, n_rows)
        sampler = make_sampler(params, n_rows, fit.n_threads, packs=False)
        no_categories = np.zeros(n_features, dtype=np.bool_)
        options = setup.make_options(params, no_categories, fit.n_threads, 2 * max_leaves, sampler)
        rows = setup.row_arrays(fit.raw.shape[1], PADDING)
        state = setup.start_state(fit, options, n_features, max_leaves, 1, rows)
        sketch = stages.EVERY_VALUE
        if params.tree_method == "approx":
            sketch = stages.GLOBAL if params.sketch == "global" else stages.LOCAL
        blocks, n_threads = self._blocks, fit.n_threads
        longest = int(np.diff(blocks.starts).max())
        width = -(-(longest + PADDING) // _LINE) * _LINE
        work = blocks.empty(len(blocks.entries))
        work[-PADDING:] = 0  # read ahead of the last list, as rows
        size = (n_threads, CUTS + CHUNK + _LINE)
        lists = s.Lists(
            entries=blocks.entries,
            work=work,
            starts=blocks.starts,
            segments=np.empty((max_leaves, n_features, 2), dtype=np.int64),
            slot_of=np.zeros(2 * max_leaves, dtype=np.int64),
            edges=np.zeros((2 * max_leaves, 2), dtype=np.uint32),
            sides=np.zeros(n_rows, dtype=np.uint8),
            scratch=aligned_zeros((n_threads, width), np.uint32),
            cuts=CutBuffer(*(aligned_empty(size, np.int64) for _ in CutBuffer._fields)),
        )
        thresholds = partial(_thresholds, self._blocks.table, lists.edges)
        self._finish = partial(finish_nodes, thresholds, 1)
        return state._replace(
            # Only histograms read packed gradients.
            settings=state.settings._replace(packs_all=0),
            sorted_columns=s.Sorted(1, lists, np.int64(sketch), float(params.sketch_eps)),
        )

    def _draw_columns(self, tree: int) -> None:
        setup.draw_columns(self._params, tree, self._state.options.features, self._state.scalars)

    def _copy_tree(self) -> GrownTree:
        tree = super()._copy_tree().finished()  # while the rows at its cuts are known
        no_bins: AnyArray = np.zeros(0)
        return replace(
            tree,
            bin=no_bins.astype(np.uint8),
            column=no_bins.astype(np.int32),
            left_bins=no_bins.astype(np.uint64).reshape(0, s.SET_WORDS),
        )


def thresholds_between(
    below: AnyArray,
    above: AnyArray,
    column: npt.NDArray[np.int32],
    apart: BoolArray,
    kinds: Sequence[ColumnKind],
) -> IntArray:
    """Return keys of the thresholds between values of a table; the highest ones where ``apart``."""
    is_int = np.array([kind == "int" for kind in kinds])[column]
    if below.dtype == np.int64:
        halves = midpoints(floats_of_keys(below), floats_of_keys(above))
        middle = np.where(is_int, integer_midpoints(below, above), keys_of_floats(halves))
    else:
        # ``(below + above) / 2`` in the type of the values, as XGBoost has it.  Between neighbours
        # that is rounded to one of them: it has to be the lower one.
        with np.errstate(over="ignore", invalid="ignore"):
            means = (below + above) * below.dtype.type(0.5)
        lower, upper = below.astype(np.float64), above.astype(np.float64)
        halves = np.where(means < above, means, below).astype(np.float64)
        # Infinite ends, or a sum that is too large for the type.
        halves = np.where(np.isfinite(means), halves, midpoints(lower, upper))
        middle = keys_of_floats(halves)
    top = np.where(is_int, _HIGHEST["int"], _HIGHEST["float"])
    return np.where(apart, top, middle)
