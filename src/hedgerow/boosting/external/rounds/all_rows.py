"""Losses that need all rows at once, on rows in chunks and on ranks.

The derivatives of such a loss at a row depend on other rows (Cox's partial likelihood), or a user's
function computes them for all rows together.  Each rank holds the targets, weights and raw
scores of the rows of all ranks, and computes the derivatives of all of them::

    before each tree    raw scores of the chunks  ->  those of all ranks  ->  g, h of all rows
    in the passes       g, h of a chunk are a part of them

So these numbers must fit into memory (:func:`bytes_of_a_row`), while bins may stay on disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.boosting.external.external_sample import ExternalSample
from hedgerow.boosting.external.rounds.scores import gather_scores, offset_rows_of, rows_of
from hedgerow.boosting.loop.setup.loss_spec import needs_all_rows
from hedgerow.comm.base import Communicator
from hedgerow.data.external.memory import shown_bytes
from hedgerow.data.external.row_store import Chunk
from hedgerow.data.sparse import numbers_of
from hedgerow.errors import ParameterError
from hedgerow.growing.core.setup import loss_data_of
from hedgerow.metrics import Metric
from hedgerow.model.forest import Forest
from hedgerow.model.predict import Predictor
from hedgerow.objectives import RANKING, Objective, SeveralTargets
from hedgerow.objectives.precomputed import RowDerivatives, prepared_shape

RANKING_BYTES = 64
_ROW_SHARE = 0.4
"""Share of the memory limit that numbers of all rows may take; the store has less then."""


@dataclass(frozen=True, slots=True, eq=False)
class GatheredRows:
    """Target, weight (None: all 1) and offset (None: no offset) of the rows of all ranks."""

    target: FloatArray
    weight: FloatArray | None
    offset: FloatArray | None

    @staticmethod
    def of(sample: ExternalSample, others: Communicator) -> GatheredRows:
        """Gather the rows of a sample; all ranks call this."""
        target, weight = rows_of(sample, others).gathered()
        if not sample.has_offset:
            return GatheredRows(target, weight, None)
        # The next chunk takes over the arrays.
        offsets = [offset.copy() for *_, offset in offset_rows_of(sample, others).batches()]
        # Ranks without rows do not know the number of outputs.
        n_outputs = max((len(part) for part in offsets), default=0)
        n_outputs = int(others.allreduce(np.array([n_outputs], dtype=np.int64), "max")[0])
        own = np.concatenate([np.zeros((n_outputs, 0)), *offsets], axis=1)
        return GatheredRows(target, weight, gather_scores(own, others))


class AllRowsGradients:
    """Derivatives of all rows: :class:`hedgerow.growing.chunks.gradients.CrossRowGradients`.

    Parameters
    ----------
    train : ExternalSample
        Training rows of this rank.
    rows : GatheredRows
        Training rows of all ranks.
    objective : Objective
    others : Communicator
        The ranks with the other rows.
    newton : bool
        Whether trees use second derivatives.
    n_threads : int
    at_once : bool, default=False
        Whether a tree is for all outputs.
    """

    def __init__(
        self,
        train: ExternalSample,
        rows: GatheredRows,
        objective: Objective,
        others: Communicator,
        newton: bool,
        n_threads: int,
        at_once: bool = False,
    ) -> None:
        self._others, self._first_row = others, train.store.first_row
        self._own = np.zeros((objective.n_outputs, train.n_rows))
        everyone = np.zeros((objective.n_outputs, len(rows.target)))
        self._at_once = at_once
        self._holds_all = at_once or bool(getattr(objective, "coupled", False))
        self._derivatives = RowDerivatives.of(
            objective, rows.target, rows.weight, n_threads, newton
        )
        data = loss_data_of(rows.target, rows.weight, everyone, objective)
        if at_once:
            data = data._replace(probability=np.empty((2 * len(everyone), everyone.shape[1])))
        self._data = data

    def collect(self, chunk: Chunk) -> None:
        """Record the raw scores of a chunk."""
        start = chunk.first_row - self._first_row
        self._own[:, start : start + chunk.n_rows] = chunk.work.raw

    def fill(self, output: int, round_: int) -> None:
        """Compute g and h of all rows at the recorded scores, for the next tree of ``output``."""
        self._data.raw[:] = gather_scores(self._own, self._others)
        if self._at_once:
            self._derivatives.fill_all(self._data, round_)
        else:
            self._derivatives.fill(self._data, output, round_)

    def of_chunk(self, chunk: Chunk, output: int) -> FloatArray:
        """Return g and h of the rows of a chunk, float64 (2, n_rows)."""
        first = 2 * output if self._holds_all else 0
        rows = slice(chunk.first_row, chunk.first_row + chunk.n_rows)
        return np.ascontiguousarray(self._data.probability[first : first + 2, rows])


def bytes_of_a_row(objective: Objective, n_vectors: int = 1) -> int:
    """Return the memory in bytes that the loss needs for each row; 0 for most losses.

    It covers target, weight, scores and derivatives, and for rankings the order of the rows.
    A tree is for ``n_vectors`` outputs.
    """
    if objective.name in RANKING:
        return RANKING_BYTES
    if not needs_all_rows(objective):
        return 0
    n_targets = objective.n_outputs if isinstance(objective, SeveralTargets) else 1
    n_derivatives = max(2 * n_vectors, prepared_shape(objective, 1)[0])
    return 8 * (3 + n_targets + 2 * objective.n_outputs + n_derivatives)


def bytes_for_loss(
    objective: Objective | None,
    n_own: int,
    n_all: int,
    memory_limit: int,
    n_vectors: int = 1,
    has_positions: bool = False,
) -> int:
    """Return the memory in bytes that the loss keeps of rows beside their bins.

    Rankings without positions keep the ``n_own`` rows of a rank, other losses that compare rows
    those of all ranks.
    """
    if objective is None:
        return 0
    each, n_rows = bytes_of_a_row(objective, n_vectors), n_all
    if objective.name in RANKING and not has_positions:
        n_rows = n_own
    least = int(each * n_rows / _ROW_SHARE)
    if least > memory_limit:
        shown = getattr(objective, "label", objective.name)
        raise ParameterError(
            f"memory_limit of {shown_bytes(memory_limit)} is too small: objective {shown!r} keeps "
            f"{each} bytes of each of {n_rows:,} rows in memory, and needs at least "
            f"{shown_bytes(least)}; give as much, or use a loss of single rows."
        )
    return each * n_rows


def metrics_of_loss(metrics: Sequence[Metric], objective: Objective) -> tuple[Metric, ...]:
    """Return the metrics for rows in parts: a loss that must see all rows has no sums over rows."""
    if not needs_all_rows(objective):
        return tuple(metrics)
    return tuple(replace(each, sums=None) if each.name == "loss" else each for each in metrics)


def record_of_loss(
    forest: Forest,
    objective: Objective,
    train: ExternalSample,
    others: Communicator,
    n_threads: int,
) -> dict[str, Any]:
    """Return what a loss adds to the record after training, such as a baseline hazard.

    See :func:`hedgerow.boosting.loop.watch.found_by_loss`.  All ranks call this.
    """
    describe: Any = getattr(objective, "fit_record", None)
    if describe is None:
        return {}
    target, weight = rows_of(train, others).gathered()
    raw = gather_scores(scores_of(forest, train, n_threads), others)
    found: dict[str, Any] = describe(target, raw, weight)
    return found


def scores_of(forest: Forest, train: ExternalSample, n_threads: int) -> FloatArray:
    """Return the raw scores of the training rows of this rank, which are read again.

    Bins would not do: the trees of a model to continue split between them, and conflicts in bundles
    hide values.
    """
    assert train.read_again is not None
    schema = train.schema if train.inputs is None else train.inputs.schema(train.schema)
    predictor = Predictor(forest, schema.kinds)
    parts = [np.zeros((forest.n_outputs, 0))]
    for table, offset in train.read_again():
        raw = predictor.raw_scores(numbers_of(table), n_threads)
        parts.append(raw if offset is None else raw + offset)
    return np.concatenate(parts, axis=1)
