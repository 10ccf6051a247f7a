"""Growers whose rows are on a GPU: the trees of :class:`~hedgerow.growing.core.grower.TreeGrower`.

::

    host    gradients, row sample
    GPU     packed gradients
    repeat  GPU: rows of nodes divided, histograms of their smaller children
            host: those of the larger ones by subtraction, best splits of both
    GPU     exact sums of the leaves, leaf of each row
    host    leaf values, raw scores

The compiled loop is that of all trees (:mod:`hedgerow.growing.core.grow`), with other stages where
it works on rows (:mod:`hedgerow.growing.cuda.stages`).  What is done on the GPU is done with whole
numbers only, so its order leaves no trace: trees are, bit for bit, those that the host grows.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import IntArray
from hedgerow.cuda.device import first_gpu
from hedgerow.growing.core import state as s
from hedgerow.growing.core.grower import TreeGrower
from hedgerow.growing.core.joining import TreeJoiner
from hedgerow.growing.core.setup import Fit
from hedgerow.growing.core.walked_rows import WalkedRows
from hedgerow.growing.cuda.memory import RowsOnGpu
from hedgerow.growing.symmetric.grower import SymmetricGrower, SymmetricVectorGrower
from hedgerow.growing.vectors.grower import VectorGrower


class CudaGrower(TreeGrower):
    """Grows the trees of one fit on the first GPU; parameters as for ``TreeGrower``.

    Raises
    ------
    DeviceError
        If there is no GPU, if its memory does not suffice, or if it fails.
    """

    shares_histograms = False

    def _make_state(self, fit: Fit) -> s.State:
        state = super()._make_state(fit)
        sampler = state.options.sampler._replace(packs=np.int64(0))
        # Linear leaves and line searches add up floats in the order of the rows.
        keeps_order = self._slopes is not None or fit.params.leaf_estimation == "line_search"
        self._on_gpu = RowsOnGpu(first_gpu().stream(), self._matrix, state, keeps_order)
        return state._replace(
            settings=state.settings._replace(packs_all=0),
            options=state.options._replace(sampler=sampler),
            rows=self._on_gpu.rows,
            vectors=self._on_gpu.vectors,
            gpu=self._on_gpu.gpu,
        )

    def joiner(
        self, n_rounds: int, train: WalkedRows, unseen: WalkedRows | None
    ) -> TreeJoiner | None:
        return None  # the rows are on the GPU

    def _run(self) -> None:
        with self._on_gpu.current():
            super()._run()
        self._on_gpu.check()
        if self._slopes is not None:
            self._read_rows()

    def _read_rows(self) -> None:
        n_inside = int(self._state.scalars[s.IS_N_ROWS])
        self._on_gpu.read_ids(self._state.rows.rows[:n_inside])

    def leaf_segments(self) -> tuple[npt.NDArray[np.uint32], IntArray, IntArray]:
        """Return the last tree's rows by leaf (:func:`hedgerow.growing.core.setup.segments_of`)."""
        self._read_rows()
        return super().leaf_segments()

    def close(self) -> None:
        """End the helpers, and free the memory of the GPU."""
        super().close()
        self._on_gpu.close()


class SymmetricCudaGrower(CudaGrower, SymmetricGrower):
    """The same for symmetric trees."""


class VectorCudaGrower(CudaGrower, VectorGrower):
    """The same for trees with vectors in their leaves."""


class SymmetricVectorCudaGrower(CudaGrower, SymmetricVectorGrower):
    """The same for symmetric trees with vectors in their leaves."""


def kind_on_gpu(symmetric: bool, vectors: bool) -> type[CudaGrower]:
    """Return the grower of these trees."""
    if symmetric:
        return SymmetricVectorCudaGrower if vectors else SymmetricCudaGrower
    return VectorCudaGrower if vectors else CudaGrower
