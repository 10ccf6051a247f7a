"""Losses whose derivatives are computed before the gradient pass, which reads them.

::

    before each tree      objective.derivatives(rows, output, g, h)     all threads
    in the tree           g, h of a block  -> times weight -> integers  compiled

So a loss needs no place in the code that every fit compiles: it brings a function
that fills two arrays, by compiled kernels of its own or by NumPy.

A loss is *rowwise* if g and h of a row depend on this row alone.  It then sees blocks
of rows, wherever they are: in memory, or in chunks.  Others (partial likelihoods,
rankings) see all rows at once.  It is *coupled* if g and h of an output depend on
the scores of others: those of all outputs are then computed before the first tree
of a round changes a score.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol, cast

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.errors import LossError
from hedgerow.objectives.base import Objective
from hedgerow.objectives.derivatives import (
    GIVEN,
    SMALLEST_HESSIAN,
    SOFTMAX,
    LossData,
    gradients_of,
)
from hedgerow.threads import run_blocks

BLOCK_ROWS = 16_384
"""Fewest rows that a thread is given: it takes some microseconds to wake one."""


class LossRows(NamedTuple):
    """Some rows, or all of them.

    target   float64 (n_rows,), or (n_rows, n_columns) for losses of several columns
    raw      float64 (n_outputs, n_rows)
    weight   float64 (n_rows,), or None: every weight is 1
    round    number of the round, from 0: losses that draw at random draw anew in each
    """

    target: FloatArray
    raw: FloatArray
    weight: FloatArray | None
    round: int = 0


class GivenLoss(Objective, Protocol):
    """An objective with ``kernel_id`` ``GIVEN``.

    Attributes
    ----------
    rowwise : bool
        Whether :meth:`derivatives` may be called with a part of the rows.
    coupled : bool
        Whether g and h of an output depend on the raw scores of others.
    """

    @property
    def rowwise(self) -> bool:
        """Whether a part of the rows will do."""

    @property
    def coupled(self) -> bool:
        """Whether outputs depend on each other."""

    def derivatives(self, rows: LossRows, output: int, g: FloatArray, h: FloatArray) -> None:
        """Write first and second derivatives of each row, not multiplied by its weight.

        ``g`` and ``h`` are float64 (n_rows,), contiguous.  Must not depend on the
        number of rows in a call of a rowwise loss, and is called by several threads.
        """


def bound_to_rows(objective: Objective, target: FloatArray, weight: FloatArray | None) -> Objective:
    """The objective with what it computes once for rows with these targets.

    That is the objective itself, unless it has a method ``bound_to(target, weight)``.
    """
    bind = getattr(objective, "bound_to", None)
    return objective if bind is None else cast(Objective, bind(target, weight))


def prepared_shape(objective: Objective, n_rows: int) -> tuple[int, int]:
    """Shape of ``LossData.probability``."""
    if objective.kernel_id == SOFTMAX:
        return objective.n_outputs, n_rows
    if objective.kernel_id == GIVEN:
        coupled = cast(GivenLoss, objective).coupled
        return (2 * objective.n_outputs if coupled else 2), n_rows
    return 0, 0


def first_column(target: FloatArray) -> FloatArray:
    """The targets as the compiled pass wants them; of several columns a copy of the first."""
    if target.ndim == 1:
        return np.ascontiguousarray(target, dtype=np.float64)
    return np.array(target[:, 0], dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Given:
    """The rows of a fit, for an objective whose derivatives are given; else does nothing.

    Attributes
    ----------
    objective : Objective
    target, weight : as in ``LossRows``
    n_threads : int
    newton : bool
        Whether trees are grown on h, too.
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
    ) -> Given:
        """For the rows of a fit."""
        return Given(bound_to_rows(objective, target, weight), target, weight, n_threads, newton)

    def prepare(self, data: LossData, output: int, round_: int = 0) -> None:
        """Write g and h at the scores ``data.raw`` into ``data.probability``.

        For ``output``, whose tree is grown next in round ``round_``; of a coupled loss
        for all outputs, before the first.
        """
        if self.objective.kernel_id != GIVEN:
            if self.target.ndim == 2:  # of each output another; data hold a copy of one
                data.target[:] = self.target[:, output]
            return
        loss = cast(GivenLoss, self.objective)
        if not loss.coupled:
            self._fill(loss, data.raw, output, data.probability[:2], round_)
        elif output == 0:
            self.prepare_all(data, round_)

    def prepare_all(self, data: LossData, round_: int = 0) -> None:
        """The same for all outputs, two rows of ``data.probability`` each."""
        if self.objective.kernel_id != GIVEN:
            return
        loss = cast(GivenLoss, self.objective)
        for number in range(loss.n_outputs):
            self._fill(loss, data.raw, number, data.probability[2 * number :], round_)

    def _fill(
        self, loss: GivenLoss, raw: FloatArray, output: int, out: FloatArray, round_: int
    ) -> None:
        g, h = out[0], out[1]

        def block(start: int, stop: int) -> None:
            weight = None if self.weight is None else self.weight[start:stop]
            rows = LossRows(self.target[start:stop], raw[:, start:stop], weight, round_)
            loss.derivatives(rows, output, g[start:stop], h[start:stop])

        run_blocks(block, len(g), self.n_threads if loss.rowwise else 1, BLOCK_ROWS)
        if self.newton:
            check_curvature(loss, float(h.max()))


def check_curvature(loss: GivenLoss, largest: float) -> None:
    """Raise ``LossError`` if a user's loss has no h above the least; ``largest`` is that of all."""
    label = getattr(loss, "label", None)
    if label is not None and not largest > SMALLEST_HESSIAN:
        raise LossError(
            f"objective {label!r} has no positive second "
            "derivative in any row, so that there is no Newton step: use "
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
    """G and h of every row, weights included, as the gradient pass of a tree has them."""
    if objective.kernel_id != GIVEN:
        target = target if target.ndim == 1 else target[:, output]
        return gradients_of(objective.kernel_id, target, weight, raw, output, objective.level)
    g, h = np.empty((2, len(target)))
    rows = LossRows(target, raw, weight, round_)
    cast(GivenLoss, objective).derivatives(rows, output, g, h)
    if weight is not None:
        g, h = g * weight, h * weight
    return g, h
