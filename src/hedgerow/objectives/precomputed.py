"""Losses whose derivatives are precomputed: the gradient pass reads them.

::

    before each tree      objective.derivatives(rows, output, g, h)     all threads
    in the tree           g, h of a block  -> times weight -> integers  compiled

So such a loss needs no code in the kernels that every fit uses.  The loss has a function
that fills two arrays, with its own compiled kernels or with NumPy.

A loss is *rowwise* if g and h of a row depend only on this row.  Its function then receives
blocks of rows, from memory or from chunks.  Other losses (partial likelihoods,
rankings) receive all rows at once.  A loss is *coupled* if g and h of an output depend on
the scores of other outputs.  Then the derivatives of all outputs are computed before the
first tree of a round changes a score.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.errors import LossError
from hedgerow.objectives import derivatives
from hedgerow.objectives.base import LossRows, Objective
from hedgerow.threads import run_blocks

BLOCK_ROWS = 16_384
"""Fewest rows per thread: waking a thread takes some microseconds."""


def prepared_shape(objective: Objective, n_rows: int) -> tuple[int, int]:
    """Return the shape of ``LossData.probability``."""
    if objective.kernel_id == derivatives.SOFTMAX:
        return objective.n_outputs, n_rows
    if objective.kernel_id == derivatives.PRECOMPUTED:
        return (2 * objective.n_outputs if objective.coupled else 2), n_rows
    return 0, 0


def first_column(target: FloatArray) -> FloatArray:
    """Return the targets for the compiled pass; for several columns, a copy of the first."""
    if target.ndim == 1:
        return np.ascontiguousarray(target, dtype=np.float64)
    return np.array(target[:, 0], dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class RowDerivatives:
    """The rows of a fit, for precomputed derivatives; other objectives do nothing here."""

    objective: Objective
    target: FloatArray  # target, weight: as in ``LossRows``
    weight: FloatArray | None
    n_threads: int
    newton: bool  # whether trees use h

    def fill(self, data: derivatives.LossData, output: int, round_: int = 0) -> None:
        """Write g and h at the scores ``data.raw`` into ``data.probability``."""
        # A coupled loss fills all outputs before the first tree of a round.
        if self.objective.kernel_id != derivatives.PRECOMPUTED:
            if self.target.ndim == 2:  # each output has its own target; data holds a copy of one
                data.target[:] = self.target[:, output]
            return
        if not self.objective.coupled:
            self._fill(data.raw, output, data.probability[:2], round_)
        elif output == 0:
            self.fill_all(data, round_)

    def fill_all(self, data: derivatives.LossData, round_: int = 0) -> None:
        """Write g and h of all outputs, two rows of ``data.probability`` each."""
        if self.objective.kernel_id == derivatives.PRECOMPUTED:
            for number in range(self.objective.n_outputs):
                self._fill(data.raw, number, data.probability[2 * number :], round_)

    def _fill(self, raw: FloatArray, output: int, out: FloatArray, round_: int) -> None:
        loss, g, h = self.objective, out[0], out[1]

        def block(start: int, stop: int) -> None:
            weight = None if self.weight is None else self.weight[start:stop]
            rows = LossRows(self.target[start:stop], raw[:, start:stop], weight, round_)
            loss.derivatives(rows, output, g[start:stop], h[start:stop])

        run_blocks(block, len(g), self.n_threads if loss.rowwise else 1, BLOCK_ROWS)
        if self.newton:
            check_curvature(loss, float(h.max()))


def check_curvature(loss: Objective, largest: float) -> None:
    """Raise ``LossError`` if a custom loss has no positive h; ``largest`` is over all rows."""
    label = getattr(loss, "label", None)
    if label is not None and not largest > derivatives.SMALLEST_HESSIAN:
        raise LossError(
            f"objective {label!r} has no positive second "
            "derivative in any row, so there is no Newton step: use "
            "leaf_estimation='gradient' or 'line_search'."
        )


def gradients_at(
    objective: Objective,
    target: FloatArray,
    weight: FloatArray | None,
    raw: FloatArray,
    output: int,
    round_: int = 0,
) -> tuple[FloatArray, FloatArray]:
    """Return g and h of every row with weights, as the gradient pass of a tree computes them."""
    g, h = block = np.empty((2, len(target)))
    if objective.kernel_id == derivatives.PRECOMPUTED:
        objective.derivatives(LossRows(target, raw, weight, round_), output, g, h)
        return (g, h) if weight is None else (g * weight, h * weight)
    target = target if target.ndim == 1 else target[:, output]
    data = derivatives.LossData(
        target=np.ascontiguousarray(target, dtype=np.float64),
        weight=np.zeros(0) if weight is None else np.ascontiguousarray(weight, np.float64),
        raw=np.ascontiguousarray(raw, dtype=np.float64),
        probability=np.empty(prepared_shape(objective, len(target))),
        level=np.float64(objective.level),
    )
    derivatives.fill_derivatives(objective.kernel_id, data, output, block)
    return g, h
