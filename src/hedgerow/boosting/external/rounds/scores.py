"""Raw scores of rows in chunks, and metrics computed from them.

Trees are queued until the rows are visited: one pass over the chunks updates all scores
and evaluates them::

    add(tree, ...)  add(tree, ...)       queued
    visit()                              chunk 0: both trees, then the caller's work
                                         chunk 1: ...

Sums over rows are exact, so they do not depend on chunks or ranks.  A metric that
is not a sum (the area under the ROC curve, a user's function) gets all rows on every rank.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from hedgerow.arrays import FloatArray, RowArray
from hedgerow.boosting.external.external_sample import ExternalSample
from hedgerow.boosting.validation.row_sets import TRAINING
from hedgerow.comm.base import Communicator, gather_numbers
from hedgerow.data.external.row_store import TARGETS_ONLY, Chunk, Uses
from hedgerow.errors import ParameterError
from hedgerow.growing.core.tree import NO_ROWS, GrownTree, add_tree, columns_of_lines
from hedgerow.kernels.primitives.exact_sum import ExactSum
from hedgerow.metrics import METRICS, Metric, evaluate, not_nan
from hedgerow.metrics.scores import Center
from hedgerow.objectives import Objective, SeveralTargets
from hedgerow.objectives.beside import OffsetBatch, OffsetRows
from hedgerow.objectives.global_sums import AllRows, Batch, merged

MOST_GATHERED = 20_000_000
"""Largest count of numbers (targets, weights and raw scores) on each rank for metrics that need
all rows at once: 160 MB."""


class ExternalScores:
    """Raw scores of rows on which no trees are grown meanwhile, in the arrays of their chunks.

    The store has begun a fit of as many outputs.

    Parameters
    ----------
    sample : ExternalSample
    base : float64 (n_outputs,)
    n_threads : int
    averages : bool, default=False
        Whether the score is the start score plus the *mean* of the trees of all rounds.
    of_training : bool, default=False
        Whether trees are grown on these rows, at scores of their own: the sums of trees then
        have arrays for themselves.
    """

    def __init__(
        self,
        sample: ExternalSample,
        base: FloatArray,
        n_threads: int,
        *,
        averages: bool = False,
        of_training: bool = False,
    ) -> None:
        self._store, self._base = sample.store, base
        self._n_threads, self._averages = n_threads, averages
        self._waiting: list[tuple[GrownTree, int]] = []
        self._n_added = 0
        self._field = "sums" if of_training else "raw"
        self._is_started = False

    def add(
        self, tree: GrownTree, output: int, rows: RowArray = NO_ROWS, factor: float = 1.0
    ) -> None:
        """Add ``factor`` times the tree to the score of each row; ``rows`` must be empty."""
        assert len(rows) == 0
        self._waiting.append((tree.scaled(factor), output))
        self._n_added += 1 if tree.vectors is None else len(self._base)

    def visit(self) -> Iterator[tuple[Chunk, FloatArray]]:
        """Yield each chunk with its current raw scores; all chunks must be visited."""
        n_rounds = max(1, self._n_added // len(self._base))
        field = (self._field,)
        columns = columns_of_lines(tree for tree, _ in self._waiting)
        reads = field if self._is_started else ()
        uses = Uses(True, (), reads=reads, writes=field, numbers=columns)
        for chunk in self._store.chunks(uses=uses):
            raw: FloatArray = getattr(chunk.work, self._field)
            if not self._is_started:
                raw[:] = 0.0 if self._averages else self._start_of(chunk)
            for tree, output in self._waiting:
                rows = chunk.matrix, chunk.numbers
                add_tree(tree, rows, NO_ROWS, raw, output, self._n_threads)
            yield chunk, (self._start_of(chunk) + raw / n_rounds if self._averages else raw)
        self._waiting.clear()
        self._is_started = True

    def _start_of(self, chunk: Chunk) -> FloatArray:
        start = np.empty((len(self._base), chunk.n_rows))
        start[:] = self._base[:, None]
        if chunk.offset is not None:
            start += chunk.offset
        return start


class Tally:
    """Metrics of all rows, which arrive in parts.

    Parameters
    ----------
    metrics : sequence of Metric
    objective : Objective
    rows : AllRows
        The scored rows.
    n_rows : int
        Number of rows of all ranks.

    Raises
    ------
    ParameterError
        If a metric needs all rows at once and there are too many.
    """

    def __init__(
        self, metrics: Sequence[Metric], objective: Objective, rows: AllRows, n_rows: int
    ) -> None:
        self._summed = [metric for metric in metrics if metric.sums is not None]
        self._gathered = [metric for metric in metrics if metric.sums is None]
        self._order = [metric.name for metric in metrics]
        self._objective, self._rows = objective, rows
        self._predicts = not all(metric.from_raw for metric in self._summed)
        self._check(n_rows)
        centered = any(metric.sums is not None and metric.sums.uses_center for metric in metrics)
        self._center = center_of(rows, objective) if centered else 0.0
        self._known: tuple[FloatArray, FloatArray | None] | None = None
        self._sums: list[ExactSum] = []
        self._begin()

    def add(self, target: FloatArray, raw: FloatArray, weight: FloatArray | None) -> None:
        """Add the next rows; ``raw`` has shape (n_outputs, n_rows)."""
        prediction = self._objective.predict(raw) if self._predicts else raw
        more: list[ExactSum] = []
        for metric in self._summed:
            assert metric.sums is not None
            given = raw if metric.from_raw else prediction
            more += metric.sums.sums(target, given, weight, self._center)
        self._sums = [total + part for total, part in zip(self._sums, more, strict=True)]
        if self._gathered:
            self._parts.append(raw.copy())

    def finish(self) -> dict[str, float]:
        """Return the scores of all rows added since the last call, by name."""
        found = {}
        if self._summed:
            sums = iter(merged(self._sums, self._rows.communicator))
            for metric in self._summed:
                assert metric.sums is not None
                score = metric.sums.finish(*islice(sums, metric.sums.n_sums))
                found[metric.name] = not_nan(metric.name, score)
        if self._gathered:
            if self._known is None:  # targets and weights do not change
                self._known = self._rows.gathered()
            target, weight = self._known
            own = np.concatenate([np.zeros((self._objective.n_outputs, 0)), *self._parts], axis=1)
            raw = gather_scores(own, self._rows.communicator)
            found |= evaluate(self._gathered, self._objective, target, raw, weight)
        self._begin()
        return {name: found[name] for name in self._order}

    def _begin(self) -> None:
        n_sums = sum(metric.sums.n_sums for metric in self._summed if metric.sums is not None)
        self._sums = [ExactSum()] * n_sums
        self._parts: list[FloatArray] = []

    def _check(self, n_rows: int) -> None:
        needed = n_rows * (self._objective.n_outputs + 2)
        if not self._gathered or needed <= MOST_GATHERED:
            return
        known = [name for name, metric in METRICS.items() if metric.sums is not None]
        raise ParameterError(
            f"eval_metric {self._gathered[0].name!r} needs the scores of all {n_rows:,} rows at "
            f"once, which are {needed:,} numbers (at most {MOST_GATHERED:,}): give fewer "
            "validation rows (validation_fraction), or a metric that is a sum over rows: 'loss', "
            f"{', '.join(map(repr, known))}."
        )


@dataclass(frozen=True, slots=True, eq=False)
class ScoredSample:
    """Rows of this rank that are scored after each round; ``n_rows`` is that of all ranks."""

    sample: ExternalSample
    metrics: tuple[Metric, ...]
    n_rows: int


class WatchedRows:
    """The rows that are scored after each round.

    Parameters
    ----------
    watched : mapping from str to ScoredSample
        By name; training rows have the name ``TRAINING``.
    objective : Objective
    others : Communicator
        Those that have other rows.
    base : float64 (n_outputs,)
        Raw score before the first tree.
    n_threads : int
    averages : bool
        As for :class:`ExternalScores`.
    sums_training : bool
        Whether the trees are added to the training rows here, because their growth does not.

    Attributes
    ----------
    training : Tally or None
        Of the training rows, whose raw scores whoever grows trees on them adds to it.
    validation : tuple of StoredScores
        Of each set of rows to which trees are added here.
    """

    def __init__(
        self,
        watched: Mapping[str, ScoredSample],
        objective: Objective,
        others: Communicator,
        base: FloatArray,
        n_threads: int,
        averages: bool,
        sums_training: bool = False,
    ) -> None:
        self._tallies = {
            name: Tally(rows.metrics, objective, scored_rows_of(rows.sample, others), rows.n_rows)
            for name, rows in watched.items()
        }
        self.training = None if sums_training else self._tallies.get(TRAINING)
        self._sets = {
            name: ExternalScores(
                rows.sample, base, n_threads, averages=averages, of_training=name == TRAINING
            )
            for name, rows in watched.items()
            if name != TRAINING or sums_training
        }
        self.validation = tuple(self._sets.values())

    def scores(self) -> dict[str, dict[str, float]]:
        """Return scores after the last round, by name of the rows and metric."""
        for name, scores in self._sets.items():
            for chunk, raw in scores.visit():
                self._tallies[name].add(chunk.target, raw, chunk.weight)
        return {name: tally.finish() for name, tally in self._tallies.items()}


def center_of(rows: AllRows, objective: Objective) -> Center:
    """Return the mean of all targets, or of each of several targets."""
    if not isinstance(objective, SeveralTargets):
        return rows.center()
    return np.array([rows.of_target(k).center() for k in range(objective.n_outputs)])


def base_beside(sample: ExternalSample, base: FloatArray) -> FloatArray:
    """Return the raw score of rows beside their offsets: those of a model include ``base``."""
    return base if sample.first is None else np.zeros(len(base))


def rows_of(sample: ExternalSample, communicator: Communicator) -> AllRows:
    """Return the rows of a sample on all ranks, for means and quantiles."""

    def batches() -> Iterator[Batch]:
        for chunk in sample.store.chunks(uses=TARGETS_ONLY):
            yield chunk.target, chunk.weight

    return AllRows(batches, communicator)


def scored_rows_of(sample: ExternalSample, communicator: Communicator) -> AllRows:
    """Return the rows of a sample on all ranks without copies, for metrics."""

    def batches() -> Iterator[Batch]:
        for chunk in sample.store.chunks(uses=TARGETS_ONLY):
            target, weight, _ = sample.scored(chunk)
            yield target, weight

    return AllRows(batches, communicator)


def add_scored(tally: Tally, sample: ExternalSample, chunk: Chunk, raw: FloatArray) -> None:
    """Add the rows of a chunk that are no copies to a tally, with their raw scores."""
    target, weight, n_rows = sample.scored(chunk)
    tally.add(target, np.ascontiguousarray(raw[:, :n_rows]), weight)


def offset_rows_of(sample: ExternalSample, communicator: Communicator) -> OffsetRows:
    """Return the rows of a sample on all ranks with their offsets, which must exist."""

    def batches() -> Iterator[OffsetBatch]:
        for chunk in sample.store.chunks(uses=TARGETS_ONLY):
            assert chunk.offset is not None
            yield chunk.target, chunk.weight, chunk.offset

    return OffsetRows(batches, communicator)


def gather_scores(own: FloatArray, others: Communicator) -> FloatArray:
    """Concatenate the raw scores of all ranks, float64 (n_outputs, n_rows)."""
    if others.size == 1:
        return own
    # The scores of a row are adjacent, so parts of ranks can be concatenated.
    flat = gather_numbers(np.ascontiguousarray(own.T).reshape(-1), others)
    return np.ascontiguousarray(flat.reshape(-1, len(own)).T)
