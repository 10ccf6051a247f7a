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
from typing import Protocol, cast

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.errors import LossError
from hedgerow.objectives.base import LossRows, Objective
from hedgerow.objectives.derivatives import (
    PRECOMPUTED,
    SMALLEST_HESSIAN,
    SOFTMAX,
    LossData,
    gradients_of,
)
from hedgerow.threads import run_blocks

BLOCK_ROWS = 16_384
"""Fewest rows per thread: waking a thread takes some microseconds."""


class PrecomputedLoss(Objective, Protocol):
    """An objective with ``kernel_id`` ``PRECOMPUTED``.

    Attributes
    ----------
    rowwise : bool
        Whether :meth:`derivatives` accepts a part of the rows.
    coupled : bool
        Whether g and h of an output depend on the raw scores of other outputs.
    """

    @property
    def rowwise(self) -> bool:
        """Whether derivatives of a part of the rows can be computed alone."""

    @property
    def coupled(self) -> bool:
        """Whether outputs depend on each other."""

    def derivatives(self, rows: LossRows, output: int, g: FloatArray, h: FloatArray) -> None:
        """Write the first and second derivative of each row, without its weight.

        ``g`` and ``h`` are float64 (n_rows,), contiguous.  For a rowwise loss the result must not
        depend on the number of rows in a call.  Several threads call the method.
        """


def bound_to_rows(objective: Objective, target: FloatArray, weight: FloatArray | None) -> Objective:
    """Return the objective with the arrays that it computes once for these targets."""
    bind = getattr(objective, "bound_to", None)
    return objective if bind is None else cast(Objective, bind(target, weight))


def prepared_shape(objective: Objective, n_rows: int) -> tuple[int, int]:
    """Return the shape of ``LossData.probability``."""
    if objective.kernel_id == SOFTMAX:
        return objective.n_outputs, n_rows
    if objective.kernel_id == PRECOMPUTED:
        coupled = cast(PrecomputedLoss, objective).coupled
        return (2 * objective.n_outputs if coupled else 2), n_rows
    return 0, 0


def starts_with_round(objective: Objective) -> bool:
    """Return whether gradients of all outputs are those at the scores before the round."""
    if objective.kernel_id == PRECOMPUTED:
        return cast(PrecomputedLoss, objective).coupled
    return objective.kernel_id == SOFTMAX


def first_column(target: FloatArray) -> FloatArray:
    """Return the targets for the compiled pass; for several columns, a copy of the first."""
    if target.ndim == 1:
        return np.ascontiguousarray(target, dtype=np.float64)
    return np.array(target[:, 0], dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class RowDerivatives:
    """The rows of a fit, for precomputed derivatives; other objectives do nothing here.

    Attributes
    ----------
    target, weight : as in ``LossRows``
    newton : bool
        Whether trees use h.
    """

    objective: Objective
    target: FloatArray
    weight: FloatArray | None
    n_threads: int
    newton: bool

    @staticmethod
    def of(
        objective: Objective,
        target: FloatArray,
        weight: FloatArray | None,
        n_threads: int,
        newton: bool = True,
    ) -> RowDerivatives:
        """Make the object for the rows of a fit."""
        return RowDerivatives(
            bound_to_rows(objective, target, weight), target, weight, n_threads, newton
        )

    def fill(self, data: LossData, output: int, round_: int = 0) -> None:
        """Write g and h at the scores ``data.raw`` into ``data.probability``."""
        # A coupled loss fills all outputs before the first tree of a round.
        if self.objective.kernel_id != PRECOMPUTED:
            if self.target.ndim == 2:  # each output has its own target; data holds a copy of one
                data.target[:] = self.target[:, output]
            return
        loss = cast(PrecomputedLoss, self.objective)
        if not loss.coupled:
            self._fill(loss, data.raw, output, data.probability[:2], round_)
        elif output == 0:
            self.fill_all(data, round_)

    def fill_all(self, data: LossData, round_: int = 0) -> None:
        """Write g and h of all outputs, two rows of ``data.probability`` each."""
        if self.objective.kernel_id != PRECOMPUTED:
            return
        loss = cast(PrecomputedLoss, self.objective)
        for number in range(loss.n_outputs):
            self._fill(loss, data.raw, number, data.probability[2 * number :], round_)

    def _fill(
        self, loss: PrecomputedLoss, raw: FloatArray, output: int, out: FloatArray, round_: int
    ) -> None:
        g, h = out[0], out[1]

        def block(start: int, stop: int) -> None:
            weight = None if self.weight is None else self.weight[start:stop]
            rows = LossRows(self.target[start:stop], raw[:, start:stop], weight, round_)
            loss.derivatives(rows, output, g[start:stop], h[start:stop])

        run_blocks(block, len(g), self.n_threads if loss.rowwise else 1, BLOCK_ROWS)
        if self.newton:
            check_curvature(loss, float(h.max()))


def check_curvature(loss: PrecomputedLoss, largest: float) -> None:
    """Raise ``LossError`` if a custom loss has no positive h; ``largest`` is over all rows."""
    label = getattr(loss, "label", None)
    if label is not None and not largest > SMALLEST_HESSIAN:
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
    if objective.kernel_id != PRECOMPUTED:
        target = target if target.ndim == 1 else target[:, output]
        return gradients_of(objective.kernel_id, target, weight, raw, output, objective.level)
    g, h = np.empty((2, len(target)))
    rows = LossRows(target, raw, weight, round_)
    cast(PrecomputedLoss, objective).derivatives(rows, output, g, h)
    if weight is not None:
        g, h = g * weight, h * weight
    return g, h
