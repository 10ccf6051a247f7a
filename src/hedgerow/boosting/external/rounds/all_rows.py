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
import numpy.typing as npt

from hedgerow.arrays import MISSING_KEY, AnyArray, FloatArray, IntArray
from hedgerow.boosting.external.external_sample import ExternalSample
from hedgerow.boosting.external.rounds.scores import gather_scores, offset_rows_of, rows_of
from hedgerow.boosting.loop.setup.loss_spec import needs_all_rows
from hedgerow.comm.base import Communicator
from hedgerow.data.binning.bins import BinSpec
from hedgerow.data.external.memory import shown_bytes
from hedgerow.data.external.row_store import Chunk, Uses
from hedgerow.errors import ParameterError
from hedgerow.growing.core.setup import loss_data_of
from hedgerow.kernels.prediction.slopes import lines_at, writable_slopes
from hedgerow.kernels.tables.keys import floats_of_keys, highest_key, keys_of_floats
from hedgerow.metrics import Metric
from hedgerow.model.forest import Forest
from hedgerow.model.predict import Predictor, values_of_lines
from hedgerow.objectives import RANKING, Objective, SeveralTargets
from hedgerow.objectives.precomputed import RowDerivatives, prepared_shape

_BLOCK_ROWS = 1 << 14
_COLUMNS = Uses(by_row=False, reads=(), writes=())
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

    Raises
    ------
    ParameterError
        If this is more than its share of the limit.
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
    rows = GatheredRows.of(train, others)
    raw = gather_scores(scores_of(forest, train, n_threads), others)
    if rows.offset is not None:
        raw = raw + rows.offset
    found: dict[str, Any] = describe(rows.target, raw, rows.weight)
    return found


def scores_of(forest: Forest, sample: ExternalSample, n_threads: int) -> FloatArray:
    """Return the raw scores of the rows of this rank by a forest that was grown on their bins.

    Every row of a bin takes the same path, so one value stands for the bin.  Lines are of the
    numbers of the row.
    """
    predictor = Predictor(forest, sample.store.spec.schema.kinds)
    of_bins = values_of_bins(sample.store.spec)
    parts = [np.zeros((forest.n_outputs, 0))]
    columns = [] if forest.slopes is None else np.unique(forest.slopes.column).tolist()
    for chunk in sample.store.chunks(uses=_COLUMNS._replace(numbers=columns)):
        for start in range(0, chunk.n_rows, _BLOCK_ROWS):
            stop = min(start + _BLOCK_ROWS, chunk.n_rows)
            bins = chunk.matrix.by_column[:, start:stop]
            values = np.take_along_axis(of_bins, bins.astype(np.int64), axis=1).T
            if forest.slopes is None:
                parts.append(predictor.raw_scores(values, n_threads))
            else:
                assert chunk.numbers is not None
                numbers = np.ascontiguousarray(chunk.numbers[start:stop])
                leaves = predictor.leaves(values, n_threads)
                parts.append(_scores_of_lines(forest, leaves, numbers))
    return np.concatenate(parts, axis=1)


def _scores_of_lines(
    forest: Forest, leaves: npt.NDArray[np.int32], numbers: FloatArray
) -> FloatArray:
    """Return the raw scores of rows whose leaves are known, tree by tree as in prediction."""
    raw = np.repeat(np.array(forest.base_score)[:, None], len(leaves), axis=1)
    for number in range(forest.n_trees):
        tree = forest.tree(number)
        assert tree.slopes is not None
        lines = (values_of_lines(tree), writable_slopes(tree.slopes), numbers)
        n_lines, first = tree.lines_of_node, number % forest.outputs_in_turn
        for k in range(n_lines):
            chosen = n_lines * leaves[:, number].astype(np.int64) + k
            raw[first + k] += lines_at(lines, chosen)
    return raw


def values_of_bins(spec: BinSpec) -> AnyArray:
    """Return a value of each bin of each feature, shape (n_features, 256), as tables have them.

    Examples
    --------
    >>> from hedgerow.data import fit_bins, read_table
    >>> spec = fit_bins(read_table(np.array([[1.0], [2.0], [4.0]])), max_bins=255)
    >>> values_of_bins(spec)[0, [0, 1, 2, spec.missing_bin]].tolist()
    [1.5, 3.0, inf, nan]
    """
    keys = np.full((spec.n_features, 256), MISSING_KEY, dtype=np.int64)
    for feature, kind in enumerate(spec.schema.kinds):
        if kind == "category":
            bins, first = np.unique(spec.bins_of(feature), return_index=True)
            keys[feature, bins] = keys_of_floats(first.astype(np.float64))
            continue
        cuts: IntArray = spec.cut_keys[spec.cut_start[feature] : spec.cut_start[feature + 1]]
        keys[feature, : len(cuts)] = cuts
        keys[feature, len(cuts)] = highest_key(kind)
    return keys if "int" in spec.schema.kinds else floats_of_keys(keys)
