"""Exact and approximate growth on sorted columns on disk: the trees of ``ExactGrower``.

::

    gradients of all rows, row sample                       row by row
    until the tree is finished:
        all nodes that may be split next, in one go:        growing.speculative
            rows to the default side, row by row
            those with a value to the other one             the columns split, in part
        best cuts of all their children                     every column, once (twice
                                                            where values are missing)
    values of the leaves -> raw scores                      row by row

Passes are in :mod:`hedgerow.growing.exact.external_passes`.  Rows know their nodes (four
bytes) and their fixed gradients (eight), which lie in memory, or in a scratch file that
is mapped where they take more than their part of the memory limit: entries name rows in
the order of values, so these arrays are read all over.

Sums are integers, and the order of nodes is found afterwards: the trees are the same
bytes as in memory, for any number of threads, pieces and folders.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import (
    AnyArray,
    FloatArray,
    IntArray,
    RowArray,
    aligned_empty,
    aligned_zeros,
    distinct,
)
from hedgerow.data.external.block_files import BlockFile
from hedgerow.data.external.column_files import ColumnFiles
from hedgerow.data.external.scratch import explained
from hedgerow.growing.core import state as layout
from hedgerow.growing.core.batch import JOB_LARGE, JOB_SEARCH_LARGE, JOB_SEARCH_SMALL, JOB_SMALL
from hedgerow.growing.core.setup import (
    Fit,
    features_of,
    loss_data_of,
    most_leaves,
    settings_of,
    thread_arrays,
    tree_arrays,
    tree_without_bins,
)
from hedgerow.growing.core.tree import GrownTree
from hedgerow.growing.exact import external_stages as stages
from hedgerow.growing.exact.external_passes import Move, Passes
from hedgerow.growing.exact.grower import make_options, thresholds_between
from hedgerow.growing.exact.sketches import make_sketch
from hedgerow.growing.sampling.goss import weights_of
from hedgerow.growing.speculative.tree import SpeculativeTree
from hedgerow.kernels.presorted import exact_stream as stream
from hedgerow.kernels.presorted import stream_cuts as fields
from hedgerow.kernels.presorted.exact_stream import StreamRows
from hedgerow.kernels.presorted.stream_cuts import ConstrainedNodes, SearchedNodes
from hedgerow.kernels.primitives.barrier import SIGNAL_SIZE, ThreadTeam
from hedgerow.kernels.splits.split import Limits
from hedgerow.kernels.tables.keys import floats_of_keys
from hedgerow.threads import run_blocks, wait_addresses

_MOST_NODES = 4096
"""Nodes that are split in one go, at most."""

_SPARE = 8
"""Nodes that may be looked at, in nodes that a full tree has."""

_CHILD_SHARE = 0.0
"""Every node that may be taken is split: a pass costs the same for few nodes and many."""

_ROWS_PER_THREAD = 1 << 16
_BYTES_OF_NODE = 4
_BYTES_OF_GRADIENTS = 8


class ExternalExactGrower:
    """Grows the trees of one fit on sorted columns on disk.

    Used as :class:`hedgerow.growing.exact.grower.ExactGrower` is, with the same trees.

    Parameters
    ----------
    columns : ColumnFiles
        Stay open.
    fit, adds_scores
        As for :class:`hedgerow.growing.exact.grower.ExactGrower`; arrays may be mapped files.
    memory_limit : int, optional
        Bytes; where the arrays of rows take more than half of it, they are mapped
        from a file beside the columns.  Default: they are in memory.
    """

    def __init__(
        self,
        columns: ColumnFiles,
        fit: Fit,
        adds_scores: bool = True,
        memory_limit: int | None = None,
    ) -> None:
        params, objective, n_threads = fit.params, fit.objective, fit.n_threads
        self._columns, self._params, self._n_threads = columns, params, n_threads
        self._raw, self._adds_scores = fit.raw, adds_scores
        n_rows, n_features = columns.n_rows, columns.n_features
        max_leaves, constant = most_leaves(params, n_rows), fit.constant_hessian
        settings = settings_of(params, objective, n_rows, n_features, max_leaves, constant, 0)
        settings = settings._replace(packs_all=0)
        self._loss_data = loss_data_of(fit.target, fit.weight, fit.raw, objective)
        self._derivatives = fit.derivatives()
        self._space: BlockFile | None = None
        quantized, node = self._row_arrays(n_rows, self._n_gradients(fit), memory_limit)
        self._quantized, self._rows = quantized, StreamRows(node, quantized[0])
        self._sketch = make_sketch(params)
        self._passes = Passes(columns, self._rows, n_threads, self._sketch)
        self._team = ThreadTeam(1, aligned_zeros(SIGNAL_SIZE, np.int64), *wait_addresses())
        self._threads = thread_arrays(n_threads=1, tile_cells=1, max_nodes=1)
        max_nodes = min(2 * n_rows, 2 * max_leaves * _SPARE) + 2
        features = np.arange(n_features, dtype=np.int32)
        options = make_options(params, n_rows, features, 1, max_nodes)
        self._nodes = SpeculativeTree(params, settings, options, max_nodes, _CHILD_SHARE)
        self._cuts = np.zeros((max_nodes, fields.CUT_FIELDS), dtype=np.int64)
        self._final = tree_arrays(0, 0)
        self._leaf_of = np.zeros(0, dtype=np.int64)

    def set_rate(self, rate: float) -> None:
        """Set the factor on the values of the trees to come."""
        self._nodes.set_rate(rate)

    def grow(self, tree: int, output: int) -> GrownTree:
        """Grow tree number ``tree`` for ``output``.

        The raw scores of its rows are updated if ``adds_scores``.
        """
        nodes = self._nodes
        self._begin(tree, output)
        self._compute_gradients()
        if self._open_root():
            self._search(np.zeros(1, dtype=np.int64))
        for parents, is_full in nodes.batches(_MOST_NODES):
            children = _searched_children(nodes.open_children(parents, is_full))
            self._divide_sums(parents)
            self._divide(parents)
            if len(children) > 0:
                self._search(children)
        return self._finish(output)

    def rows_outside(self) -> RowArray:
        """Return rows that the last tree was not grown on (empty without row sampling)."""
        if self._nodes.settings.subsample >= 1.0:
            return np.zeros(0, dtype=np.uint32)
        return np.flatnonzero(self._rows.node == 0).astype(np.uint32)

    def row_weights(self, rows: RowArray) -> FloatArray | None:
        """Return weights of some rows in the last tree's sample; see :func:`weights_of`."""
        return weights_of(self._nodes.options, rows)

    def leaf_segments(self) -> tuple[npt.NDArray[np.uint32], IntArray, IntArray]:
        """Return the last tree's rows by leaf (:func:`hedgerow.growing.core.setup.segments_of`)."""
        table = self._final.table
        leaves = np.flatnonzero(table[:, layout.NODE_LEFT] == 0)
        leaves = leaves[np.argsort(table[leaves, layout.NODE_START], kind="stable")]
        n_rows = int(self._nodes.scalars[layout.IS_N_ROWS])
        starts = np.append(table[leaves, layout.NODE_START], n_rows)
        # Speculative nodes of one leaf share its place: rows come in their own order.
        leaf = self._leaf_of.astype(np.int32)
        places = np.append(table[:, layout.NODE_START], n_rows)
        rows = np.empty(n_rows, dtype=np.uint32)
        stream.gather_rows(self._rows.node, leaf, places, rows)
        return rows, leaves, starts

    def close(self) -> None:
        """Give back the arrays of rows; the columns stay open."""
        self._rows = StreamRows(np.zeros(0, np.int32), np.zeros(0, np.int32))
        self._passes = Passes(self._columns, self._rows, 1, None)
        if self._space is not None:
            self._space.close()
            self._space.path.unlink(missing_ok=True)
            self._space = None

    # ---- the parts of a tree -----------------------------------------------------

    def _n_gradients(self, fit: Fit) -> int:
        """Return the number of pairs of g and h per row."""
        return 1

    def _row_arrays(
        self, n_rows: int, n_gradients: int, memory_limit: int | None
    ) -> tuple[AnyArray, AnyArray]:
        """Return fixed gradients (n_gradients, 2 * n_rows) and nodes of rows, or memory maps."""
        size = (_BYTES_OF_NODE + _BYTES_OF_GRADIENTS * n_gradients) * n_rows
        if memory_limit is None or 2 * size <= memory_limit:
            gradients = aligned_empty((n_gradients, 2 * n_rows), np.int32)
            return gradients, aligned_zeros(n_rows, np.int32)
        name = f"rows-{secrets.token_hex(8)}"
        self._space = BlockFile(os.path.join(self._columns.scratch_folder, name))
        self._space.reserve(size)
        with explained("map", self._space.path):
            mapped = np.memmap(self._space.path, np.int32, "r+", shape=(size // 4,))
        data = mapped.view(np.ndarray)
        gradients = data[: 2 * n_gradients * n_rows].reshape(n_gradients, 2 * n_rows)
        return gradients, data[2 * n_gradients * n_rows :]

    def _begin(self, tree: int, output: int) -> None:
        """Note which tree is next; draw its columns, and precompute derivatives."""
        number = self._nodes.begin(tree, output, len(self._raw))
        self._derivatives.fill(self._loss_data, output, number // self._params.num_parallel_tree)

    def _compute_gradients(self) -> None:
        """Compute fixed-point gradients of all rows, and marks of a gradient-based sample."""
        rows = self._rows_outside_nodes()
        team, settings, scalars = self._team, self._nodes.settings, self._nodes.scalars
        stages.compute_gradients(team, settings, self._loss_data, rows, self._threads, scalars)
        sampler = self._nodes.options.sampler
        if sampler.method != layout.UNIFORM:
            counts = self._threads.counts
            stages.mark_by_gradient(team, settings, sampler, rows, counts, scalars)

    def _rows_outside_nodes(self) -> layout.Rows:
        """Return the rows before growth: keys and marks take the place of node numbers."""
        node, quantized = self._rows
        ids, packed = np.zeros(0, dtype=np.uint32), np.zeros(0, dtype=np.int64)
        return layout.Rows(ids, node.view(np.uint32), quantized, packed)

    def _open_root(self) -> bool:
        """Put the rows of the sample in the root; return whether it is to be searched."""
        sums = np.zeros(3, dtype=np.int64)
        nodes, (node, quantized) = self._nodes, self._rows
        settings, scalars = nodes.settings, nodes.scalars
        stages.place_rows(settings, nodes.options.sampler, scalars, quantized, node, sums)
        scalars[layout.IS_DROPPED_BITS] = 0
        self._limits = Limits(*stages.common_limits(settings, nodes.rules, scalars))
        return nodes.open_root(sums[2], sums[0], sums[1])

    def _divide_sums(self, parents: IntArray) -> None:
        """Keep the sums of the children of ``parents``, where the table of nodes does not."""

    def _divide(self, parents: IntArray) -> None:
        """Send the rows of ``parents`` to their children."""
        table = self._nodes.table
        default = np.arange(self._nodes.n_nodes + 1, dtype=np.int32)
        moves: dict[int, list[Move]] = {}
        for parent in parents.tolist():
            row, cut = table[parent], self._cuts[parent]
            column, place = int(cut[fields.CUT_FEATURE]), int(cut[fields.CUT_PLACE])
            length = self._columns.length(column)
            to_left = bool(cut[fields.CUT_MISSING_LEFT])
            if cut[fields.CUT_N_LIST] == row[layout.NODE_COUNT]:
                to_left = 2 * place > length  # none is missing: read the smaller part
            left, right = int(row[layout.NODE_LEFT]), int(row[layout.NODE_RIGHT])
            stay, go = (left, right) if to_left else (right, left)
            places = (place, length) if to_left else (0, place)
            default[parent + 1] = stay + 1
            moves.setdefault(column, []).append(Move(stay + 1, go + 1, *places))
        self._passes.send(default, moves)

    def _search(self, searched: IntArray) -> None:
        """Find the best cuts of nodes in one pass over the columns."""
        nodes, table = self._nodes, self._nodes.table
        slot_of = np.full(nodes.n_nodes + 1, -1, dtype=np.int32)
        slot_of[searched + 1] = np.arange(len(searched))
        n_features = self._columns.n_features
        allowed = np.zeros((n_features, len(searched)), dtype=np.uint8)
        space = np.zeros((3, n_features), dtype=np.int32)
        stages.allow_nodes(
            nodes.settings, searched, table, nodes.scalars, space, allowed, nodes.options
        )
        used = np.flatnonzero(allowed.any(axis=1))
        if searched[0] == 0 and self._sketch is not None and self._sketch.of_tree:
            # The root chooses the candidates of nodes that use other columns, too.
            self._sketch.begin_tree()
            used = nodes.features
        self._cuts[searched] = self._best_cuts(used.tolist(), searched, slot_of, allowed)

    def _best_cuts(
        self,
        columns: Sequence[int],
        searched: IntArray,
        slot_of: npt.NDArray[np.int32],
        allowed: npt.NDArray[np.uint8],
    ) -> IntArray:
        """Find the best cuts of nodes in some columns, and write them into the table."""
        nodes = self._nodes
        sums = self._sums_of(searched)
        of_nodes = searched_nodes(slot_of, sums, self._limits)
        constraints = self._constrained(searched)
        cuts = self._passes.search(columns, of_nodes, sums, allowed, constraints)
        space = np.zeros((1, 1, layout.FOUND_FIELDS), dtype=np.int64)
        stages.commit_nodes(
            nodes.settings, nodes.rules, nodes.arrays, nodes.scalars, searched, cuts, space,
            nodes.options,
        )  # fmt: skip
        return cuts

    def _sums_of(self, searched: IntArray) -> IntArray:
        """g, h and number of rows of some nodes: int64 (nodes, SUM_FIELDS)."""
        return self._nodes.table[searched][:, [layout.NODE_G, layout.NODE_H, layout.NODE_COUNT]]

    def _constrained(self, searched: IntArray) -> ConstrainedNodes | None:
        """Return constraints on the cuts of nodes, or None where gains are not constrained."""
        nodes = self._nodes
        constraints = nodes.options.constraints
        if constraints.scored == 0:
            return None
        bounds = np.zeros((len(searched), fields.BOUND_FIELDS))
        stages.bound_nodes(
            nodes.settings, nodes.rules, searched, nodes.table, nodes.scalars, nodes.options, bounds
        )
        return ConstrainedNodes(constraints.sign, constraints.factor, bounds)

    # ---- the end of a tree -------------------------------------------------------

    def _finish(self, output: int) -> GrownTree:
        final = self._nodes.finish()
        tree = self._finished(final)
        if self._adds_scores:
            self._add_values(final.numbers[:, layout.NUMBER_VALUE], output)
        return tree

    def _finished(self, final: layout.Tree) -> GrownTree:
        """Return the tree of these nodes, and keep the rows of its leaves."""
        self._final, n_nodes, found = final, len(final.table), self._nodes.found
        self._leaf_of = self._leaves_of_found(found)
        feature = features_of(final, n_nodes)
        threshold = self._thresholds(feature, self._cuts[found])
        return tree_without_bins(final, n_nodes, threshold)

    def _leaves_of_found(self, found: IntArray) -> IntArray:
        """Return the leaf of the rows of each found number + 1; 0 (rows outside) has none."""
        table, n_found = self._nodes.table, self._nodes.n_nodes
        leaf_of = np.full(n_found + 1, len(found), dtype=np.int64)
        leaf_of[found + 1] = np.arange(len(found))
        inside = np.zeros(n_found, dtype=np.bool_)
        inside[found] = True
        for node in range(n_found):  # children stand behind their parents
            child = int(table[node, layout.NODE_LEFT])
            if child and not inside[child]:
                leaf_of[child + 1] = leaf_of[int(table[node, layout.NODE_RIGHT]) + 1] = leaf_of[
                    node + 1
                ]
        return leaf_of

    def _add_values(self, value: FloatArray, output: int) -> None:
        node, raw = self._rows.node, self._raw[output]
        values = np.append(value, 0.0)[self._leaf_of]
        run_blocks(
            lambda start, stop: stream.add_node_values(node, start, stop, values, raw),
            len(node),
            self._n_threads,
            _ROWS_PER_THREAD,
        )

    def _thresholds(self, feature: npt.NDArray[np.int32], cuts: IntArray) -> IntArray:
        """Return keys of the thresholds of all nodes; 0 for leaves."""
        inner = np.flatnonzero(feature >= 0)
        below = np.zeros(len(inner), dtype=np.int64)
        above = np.zeros(len(inner), dtype=np.int64)
        for column in distinct(feature[inner]).tolist():
            here = feature[inner] == column
            chosen = cuts[inner[here]]
            below[here] = self._columns.keys(column, chosen[:, fields.CUT_BELOW])
            above[here] = self._columns.keys(column, chosen[:, fields.CUT_ABOVE])
        apart = cuts[inner, fields.CUT_BELOW] == cuts[inner, fields.CUT_ABOVE]
        dtype, kinds = self._columns.dtype, self._columns.schema.kinds
        keys = np.zeros(len(feature), dtype=np.int64)
        keys[inner] = thresholds_between(
            _values(below, dtype), _values(above, dtype), feature[inner], apart, kinds
        )
        return keys


def _searched_children(jobs: IntArray) -> IntArray:
    """Return the sorted numbers of the children that need a search."""
    small = jobs[jobs[:, JOB_SEARCH_SMALL] == 1, JOB_SMALL]
    large = jobs[jobs[:, JOB_SEARCH_LARGE] == 1, JOB_LARGE]
    return np.sort(np.concatenate((small, large)))


def searched_nodes(slot_of: npt.NDArray[np.int32], sums: IntArray, limits: Limits) -> SearchedNodes:
    """Return nodes with these sums, int64 (nodes, SUM_FIELDS), and the limits on cuts.

    Parameters
    ----------
    slot_of : int32 (nodes + 1,)
    sums : int64 (slots, SUM_FIELDS)
    limits : Limits
    """
    floats = sums.astype(np.float64)
    g, h = np.ascontiguousarray(floats[:, 0]), np.ascontiguousarray(floats[:, 1])
    return SearchedNodes(slot_of, g, h, np.ascontiguousarray(sums[:, 2]), limits)


def _values(keys: IntArray, dtype: np.dtype[Any]) -> AnyArray:
    """Return values of a table of this type from their keys."""
    return keys if dtype == np.int64 else floats_of_keys(keys).astype(dtype)
