"""Trees with vectors in their leaves on sorted columns on disk: those of ``ExactVectorGrower``.

The passes over the columns are those of one output, with sums of each output beside those of the
mean hessian, on which the candidates of approximate trees depend.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import IntArray
from hedgerow.data.external.column_files import ColumnFiles
from hedgerow.growing.chunks.vectors import OF_TREE, finish_vectors, make_vectors
from hedgerow.growing.core import state as layout
from hedgerow.growing.core.setup import Fit
from hedgerow.growing.core.tree import GrownTree
from hedgerow.growing.exact import external_vector_stages as stages
from hedgerow.growing.exact.external import ExternalExactGrower, searched_nodes
from hedgerow.growing.sampling.goss import follows_gradients
from hedgerow.growing.vectors.grower import targets_of, with_all_derivatives
from hedgerow.kernels.histograms.vector_histogram import Sums
from hedgerow.kernels.presorted import stream_cuts as fields
from hedgerow.kernels.presorted.stream_cuts import ConstrainedNodes, SearchedOutputs
from hedgerow.kernels.splits.split import Limits, Units
from hedgerow.kernels.splits.vector_split import LANE_ROWS, VectorNode

_ROWS_AT_ONCE = 1 << 18


class ExternalVectorGrower(ExternalExactGrower):
    """Grows one tree a round for all outputs, on sorted columns on disk.

    Parameters
    ----------
    columns, fit, adds_scores, memory_limit
        As for :class:`hedgerow.growing.exact.external.ExternalExactGrower`.
    """

    def __init__(
        self,
        columns: ColumnFiles,
        fit: Fit,
        adds_scores: bool = True,
        memory_limit: int | None = None,
    ) -> None:
        super().__init__(columns, fit, adds_scores, memory_limit)
        nodes, n_outputs, nothing = self._nodes, len(fit.raw), np.zeros(0, dtype=np.int32)
        sums = Sums(nothing, nothing, np.int64(0), np.int64(nodes.settings.constant_hessian))
        found = make_vectors(nodes, fit.params, sums, n_outputs, 1)
        outputs = found.outputs._replace(
            target=targets_of(fit.target, fit.objective), quantized=self._quantized[1:]
        )
        self._vectors = found._replace(outputs=outputs)
        if follows_gradients(fit.params):
            weights = np.ones(columns.n_rows)
            sampler = nodes.options.sampler._replace(weights=weights)
            nodes.options = nodes.options._replace(sampler=sampler)
        self._loss_data = with_all_derivatives(self._loss_data, fit.objective)
        max_nodes = len(nodes.table)
        self._sums = np.zeros((max_nodes, n_outputs, 2), dtype=np.int64)
        self._cuts = np.zeros((max_nodes, fields.CUT_FIELDS + 2 * n_outputs), dtype=np.int64)

    def close(self) -> None:
        """Give back the arrays of rows; the columns stay open."""
        outputs = self._vectors.outputs
        outputs = outputs._replace(quantized=np.zeros((len(self._raw), 0), dtype=np.int32))
        self._vectors = self._vectors._replace(outputs=outputs)
        super().close()

    # ---- the parts of a tree -----------------------------------------------------

    def _n_gradients(self, fit: Fit) -> int:
        return 1 + len(fit.raw)

    def _begin(self, tree: int, output: int) -> None:
        scalars = self._vectors.outputs.scalars
        self._nodes.begin(tree, 0, 1)
        scalars[1:, OF_TREE] = scalars[0, OF_TREE]
        self._derivatives.fill_all(self._loss_data, tree // self._params.num_parallel_tree)

    def _compute_gradients(self) -> None:
        stages.compute_outputs(
            self._team, self._nodes.settings, self._loss_data, self._rows_outside_nodes(),
            self._threads, self._vectors.outputs, self._nodes.options.sampler,
        )  # fmt: skip

    def _open_root(self) -> bool:
        is_searched = super()._open_root()
        self._sums[0] = 0
        for start in range(0, len(self._rows.node), _ROWS_AT_ONCE):
            inside = self._rows.node[start : start + _ROWS_AT_ONCE] == 1
            for output, quantized in enumerate(self._vectors.outputs.quantized):
                some = quantized[2 * start : 2 * (start + _ROWS_AT_ONCE)].reshape(-1, 2)
                self._sums[0, output] += some[inside].sum(axis=0, dtype=np.int64)
        return is_searched

    def _divide_sums(self, parents: IntArray) -> None:
        table = self._nodes.table
        left = self._cuts[parents][:, fields.CUT_FIELDS :].reshape(len(parents), -1, 2)
        self._sums[table[parents, layout.NODE_LEFT]] = left
        self._sums[table[parents, layout.NODE_RIGHT]] = self._sums[parents] - left

    def _sums_of(self, searched: IntArray) -> IntArray:
        of_outputs = self._sums[searched].reshape(len(searched), -1)
        return np.concatenate((super()._sums_of(searched), of_outputs), axis=1)

    def _best_cuts(
        self,
        columns: Sequence[int],
        searched: IntArray,
        slot_of: npt.NDArray[np.int32],
        allowed: npt.NDArray[np.uint8],
    ) -> IntArray:
        nodes, sums, vectors = self._nodes, self._sums_of(searched), self._vectors
        constraints, space = nodes.options.constraints, self._space_of(searched)
        limits, largest = stages.prepare_nodes(
            nodes.settings, nodes.rules, searched, nodes.table, vectors, constraints, space
        )
        outputs = self._searched_outputs(space, Units(*largest))
        constrained = ConstrainedNodes(constraints.sign, constraints.factor, space.bounds)
        of_nodes = searched_nodes(slot_of, sums, Limits(*limits))
        cuts = self._passes.search(columns, of_nodes, sums, allowed, constrained, outputs)
        found = np.zeros((1, 1, layout.FOUND_FIELDS), dtype=np.int64)
        stages.commit_outputs(
            nodes.settings, nodes.rules, nodes.arrays, searched, cuts, found, nodes.options,
            vectors, space,
        )  # fmt: skip
        return cuts

    def _searched_outputs(self, space: stages.SlotOutputs, largest: Units) -> SearchedOutputs:
        trial, constraints = self._vectors.trial, self._nodes.options.constraints
        n_outputs, zero = len(self._raw), np.int64(0)
        node = VectorNode(
            zero, zero, space.totals[0], trial.units[0], largest, space.lanes[0],
            np.int64(trial.lanes.shape[1] // LANE_ROWS), trial.filled[0], trial.cuts[0], zero,
            constraints.growth.smooth, np.int64(space.own.shape[1] > n_outputs),
        )  # fmt: skip
        return SearchedOutputs(
            self._vectors.outputs.quantized, node, space.totals, space.lanes, space.weight,
            constraints.scored,
        )  # fmt: skip

    def _space_of(self, searched: IntArray) -> stages.SlotOutputs:
        n_slots, trial = len(searched), self._vectors.trial
        return stages.SlotOutputs(
            totals=self._sums[searched],
            lanes=np.zeros((n_slots, trial.lanes.shape[1])),
            parent=np.zeros(n_slots),
            own=np.zeros((n_slots, trial.own.shape[2])),
            weight=np.zeros(n_slots),
            bounds=np.zeros((n_slots, fields.BOUND_FIELDS)),
        )

    def _finish(self, output: int) -> GrownTree:
        leaf_sums = self._sums[self._nodes.found_leaves].transpose(1, 0, 2)
        final, values = finish_vectors(self._nodes, self._vectors.outputs, leaf_sums)
        tree = self._finished(final).with_vectors(values)
        if self._adds_scores:
            for k in range(values.shape[1]):
                self._add_values(np.ascontiguousarray(values[:, k]), k)
        return tree
