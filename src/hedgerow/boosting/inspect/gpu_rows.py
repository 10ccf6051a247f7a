"""Base class of boosters: raw scores of tables that lie on a GPU, without a copy on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hedgerow.arrays import FloatArray
from hedgerow.cuda.arrays import gpu_array
from hedgerow.model.booster_part import BoosterPart
from hedgerow.once import once

if TYPE_CHECKING:
    from hedgerow.model.gpu_scores import GpuScorer


class GpuPredictions(BoosterPart):
    """Mixin of boosters for tables on a GPU."""

    @once
    def _gpu_scorer(self) -> GpuScorer:
        from hedgerow.model.gpu_scores import GpuScorer

        return GpuScorer(self.model, self._predictor.tables)

    def _raw_on_gpu(self, X: Any, first_tree: int, stop_tree: int) -> FloatArray | None:
        """Return raw scores of a table on a GPU, computed there; None where that is not possible.

        The scores have the bits of those that the processor computes from a copy of the table.
        """
        table = gpu_array(X)
        if table is None or not self._gpu_scorer.covers(table):
            return None
        found = self._gpu_scorer.scores(table, first_tree, stop_tree)
        if found is None:
            return None
        self._unseen.add(found.unseen)
        return found.raw
