"""Rows of a fit in memory: :class:`hedgerow.boosting.loop.rounds.FitRows` for arrays.

The grower adds a tree to the raw scores of the rows it was grown on, leaf by leaf.
Rows outside the sample of a tree (row sampling) and validation rows get their scores by
tree traversal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol, cast

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import FloatArray, IntArray, RowArray
from hedgerow.boosting.loop.leaf_steps import with_searched, with_steps
from hedgerow.boosting.loop.rounds import FitRows, adds_scores, resolved, threads_for
from hedgerow.boosting.loop.rounds_ahead import NOT_KNOWN, RestOfBatch, RoundsAhead
from hedgerow.boosting.loop.scores import (
    AddedScores,
    MeanScores,
    Scores,
    TrainingData,
    rows_left_out,
)
from hedgerow.boosting.loop.setup.devices import on_gpu
from hedgerow.boosting.loop.setup.strategy import holds_vectors, is_symmetric
from hedgerow.data import BinnedMatrix
from hedgerow.data.binning.bins import BinSpec
from hedgerow.data.external.blocks import ColumnBlocks
from hedgerow.data.schema import Schema
from hedgerow.growing.core.grower import TreeGrower, rows_without_copies
from hedgerow.growing.core.setup import Fit
from hedgerow.growing.core.tree import NO_ROWS, GrownTree, TreeOfTable
from hedgerow.growing.exact.grower import ExactGrower
from hedgerow.growing.vectors.grower import VectorGrower
from hedgerow.kernels.primitives.exact_sum import exact_sum
from hedgerow.metrics import Metric, evaluate, evaluate_rounds
from hedgerow.model.forest import Forest
from hedgerow.objectives import Objective
from hedgerow.objectives.base import limited_for
from hedgerow.objectives.beside import start_of
from hedgerow.objectives.global_sums import AllRows
from hedgerow.objectives.line_search import LeafRows, unit_of
from hedgerow.objectives.precomputed import LossRows, PrecomputedLoss, bound_to_rows
from hedgerow.once import once
from hedgerow.params import BoostParams


class Grower(Protocol):
    """Protocol of growers, which grow the trees of a fit."""

    def set_rate(self, rate: float) -> None:
        """Set the learning rate of the next trees."""

    def grow(self, tree: int, output: int) -> GrownTree:
        """Grow a tree on the gradients at the raw scores."""

    def rows_outside(self) -> npt.NDArray[np.uint32]:
        """Return the rows on which the last tree was not grown."""

    def row_weights(self, rows: RowArray) -> FloatArray | None:
        """Return the sampling weight of each of these rows in the last tree; None: all equal."""

    def leaf_segments(self) -> tuple[npt.NDArray[np.uint32], IntArray, IntArray]:
        """Return the rows of the last tree by leaf: rows, leaves, starts."""

    def close(self) -> None:
        """End the worker threads."""


@dataclass(frozen=True, slots=True, eq=False)
class ScoredRows:
    """Rows that are scored after each round.

    Attributes
    ----------
    name : str
        Name of the rows in the history.
    metrics : tuple of Metric
        Metrics bound to these rows.
    target, weight
        Targets and weights of the rows.
    columns : slice
        Their range in the raw scores.
    of_training : bool
        Whether the raw scores are those of the training rows.
    """

    name: str
    metrics: tuple[Metric, ...]
    target: FloatArray
    weight: FloatArray | None = None
    columns: slice = field(default_factory=lambda: slice(None))
    of_training: bool = False

    def score(self, objective: Objective, raw: FloatArray) -> dict[str, float]:
        """Return the score of each metric, from raw scores that include these rows."""
        own = np.ascontiguousarray(raw[:, self.columns])
        return evaluate(self.metrics, objective, self.target, own, self.weight)

    def score_rounds(self, raw: FloatArray, targets: FloatArray) -> dict[str, list[float]] | None:
        """Return the scores of several rounds; see :func:`hedgerow.metrics.evaluate_rounds`."""
        own = np.ascontiguousarray(raw[:, :, self.columns])
        return evaluate_rounds(self.metrics, targets, own, self.weight)


class MemoryRows(FitRows):
    """Rows in memory; for the methods see :class:`hedgerow.boosting.loop.rounds.FitRows`.

    Parameters
    ----------
    data : TrainingData
    objective : Objective
    params : BoostParams
    validation : TrainingData, optional
        Its raw scores are updated, too.
    n_threads : int, default=1
        Upper limit; small data use fewer.  The trees do not depend on it.
    first : Forest, optional
        Trees of the model to continue; their scores are in ``start`` of the data.
    scored : sequence of ScoredRows
        Rows that are scored after each round.
    may_run_ahead : bool, default=False
        Whether trees may grow some rounds before :meth:`grow` is called for them: nobody reads the
        training scores, or replays earlier rounds.

    Attributes
    ----------
    data : TrainingData
    scored : sequence of ScoredRows
    train : Scores or MeanScores
    unseen : Scores or MeanScores, or None
        Scores of the validation rows.
    next_end : int
        The next round that may end the fit: trees of later rounds do not grow ahead.
    """

    def __init__(
        self,
        data: TrainingData,
        objective: Objective,
        params: BoostParams,
        validation: TrainingData | None = None,
        n_threads: int = 1,
        first: Forest | None = None,
        scored: Sequence[ScoredRows] = (),
        may_run_ahead: bool = False,
    ) -> None:
        self.params = resolved(params, objective, _schema_of(data))
        self.data, self.objective, self.first, self.scored = data, objective, first, scored
        matrix = data.matrix
        self.n_rows, self.n_features = matrix.n_rows // data.n_copies, matrix.n_features
        self.spec: BinSpec | None = None
        self.n_columns = 0
        if isinstance(matrix, BinnedMatrix):
            self.spec, self.n_columns = matrix.spec, matrix.n_columns
        outputs_of_leaf = objective.n_outputs if holds_vectors(self.params) else 1
        self._n_threads = threads_for(n_threads, matrix.n_rows, matrix.n_features, outputs_of_leaf)
        if first is not None:
            self.base = first.base_score
        else:
            self.base = start_of(objective, data.target, data.weight, data.offset)
        self._scores = Scores(data, self.base, self._n_threads)
        self._grown_at = self._scores.raw
        self.train: Scores | MeanScores = self._scores
        self.unseen: Scores | MeanScores | None = None
        if validation is not None:
            self.unseen = Scores(validation, self.base, self._n_threads, self.spec)
        if self.params.boosting == "rf":
            self.train = MeanScores(self._scores)
            self.unseen = None if self.unseen is None else MeanScores(self.unseen)
        self.validation: Sequence[AddedScores] = () if self.unseen is None else (self.unseen,)
        self.all_rows = AllRows.of(data.target, data.weight)
        self.objective = limited_for(objective, self.all_rows)
        self._grower: Grower | None = None
        self._may_run_ahead = may_run_ahead
        self.next_end = NOT_KNOWN
        self._ahead: RoundsAhead | None = None
        self._outside: RowArray = NO_ROWS
        self._searched_at, self._loss_before = self._grown_at, 0.0

    def begin(self) -> None:
        self._grower = _make_grower(
            self.data, self._grown_at, self.objective, self.params, self._n_threads
        )
        if self._may_run_ahead and adds_scores(self.params, self.objective):
            self._ahead = self._rounds_ahead()
        if self._ahead is not None:
            self.validation = ()  # batches add their trees to all scores

    @property
    def n_ready(self) -> int:
        """Number of rounds whose trees have grown ahead."""
        return 0 if self._ahead is None else self._ahead.n_ready

    def take_ready(self) -> RestOfBatch | None:
        """Take all rounds that are ready; None if they have to be taken one after the other."""
        return None if self._ahead is None else self._ahead.rest()

    def set_params(self, params: BoostParams) -> None:
        """Use other (resolved) parameters for the next rounds."""
        self.params = params
        if self._grower is not None:
            self._grower.close()
            self.begin()

    def close(self) -> None:
        if self._grower is not None:
            self._grower.close()
            self._grower = self._ahead = None

    def set_rate(self, rate: float) -> None:
        assert self._grower is not None
        self._grower.set_rate(rate)

    def grow(self, tree: int, output: int, params: BoostParams) -> GrownTree:
        assert self._grower is not None
        if self._ahead is not None:
            return self._ahead.tree(tree, len(self.base), self.next_end)
        found = self._grower.grow(tree, output)
        if self.data.n_copies > 1 and not isinstance(found, TreeOfTable):  # others know of copies
            found = found.with_counts(rows_without_copies(found.count, self.data.n_copies))
        self._outside = self._grower.rows_outside()
        if params.oob_score:
            self._note_outside(output)
        if params.leaf_estimation == "line_search":
            found = self._searched(found, output, params)
        return found

    def rows_without_tree(self) -> RowArray | None:
        # All scores include the trees of batches.
        return self._outside if adds_scores(self.params, self.objective) else None

    def replay(self, number: int) -> None:
        self._relearn(self._grown_at, number)
        if self.params.oob_score and isinstance(self.train, MeanScores):
            seed, share = self.params.seed, self.params.subsample
            self.train.outside = rows_left_out(seed, number, share, self.data.matrix.n_rows)

    def end_round(self) -> float | None:
        if self._ahead is not None:
            self._ahead.end_round()
        if not self.params.oob_score or self.params.boosting != "gbdt":
            return None
        return self._loss_before - self._loss_outside()

    def scores(self) -> Mapping[str, Mapping[str, float]]:
        if self._ahead is not None:
            return self._ahead.scores()
        found = {}
        for part in self.scored:
            known = self.train if part.of_training else self.unseen
            assert known is not None
            found[part.name] = part.score(self.objective, known.raw)
        return found

    def out_of_bag(self, metrics: Sequence[Metric]) -> Mapping[str, float]:
        assert isinstance(self.train, MeanScores)
        rows, raw = self.train.out_of_bag()
        if len(rows) == 0:
            return {}
        weight = None if self.data.weight is None else self.data.weight[rows]
        return evaluate(metrics, self.objective, self.data.target[rows], raw, weight)

    def _rounds_ahead(self) -> RoundsAhead | None:
        assert isinstance(self.train, Scores)
        assert not isinstance(self.unseen, MeanScores)
        first = 0 if self.first is None else self.first.n_rounds
        return RoundsAhead.of(
            self._grower, self.train, self.unseen, self.scored, self.objective, self.params,
            range(first, first + self.params.n_estimators),
        )  # fmt: skip

    def _note_outside(self, output: int) -> None:
        """Record the rows outside the tree's sample, for scores of the round."""
        if isinstance(self.train, MeanScores):
            self.train.outside = self._outside
        elif output == 0:
            self._loss_before = self._loss_outside()

    def _loss_outside(self) -> float:
        """Return the loss of the rows outside the sample; 0 if there are none."""
        if len(self._outside) == 0:
            return 0.0
        return self.objective.loss(*self.data.take(self._outside, self._grown_at))

    def _searched(self, tree: GrownTree, output: int, params: BoostParams) -> GrownTree:
        """Return the tree with leaf values from a line search.

        The trees of a round search their leaves in turn, each at scores that include the
        previous ones; if these trees do not join at once, scores are updated in a copy.
        """
        n_parallel = params.num_parallel_tree
        joins = params.boosting == "gbdt" and n_parallel == 1
        if output == 0:
            self._searched_at = self._grown_at if joins else self._grown_at.copy()
        search = partial(self._search_leaves, params)
        if tree.vectors is not None:
            return with_searched(tree, search)
        found = search(tree, output)
        if not joins:
            # Parallel trees share one step, but each search takes the full step.
            self._scores.add_to(self._searched_at, found, output, factor=float(n_parallel))
        return found

    def _search_leaves(self, params: BoostParams, tree: GrownTree, output: int) -> GrownTree:
        """Return the tree with leaf values that minimise the loss of their rows."""
        grower, data = self._grower, self.data
        assert grower is not None
        rows, leaves, starts = grower.leaf_segments()
        if len(rows) == 0:  # a small sample may be empty
            return tree
        target, at, weight = data.take(rows, self._searched_at)
        mass = np.ones(len(rows)) if weight is None else weight
        sampled = grower.row_weights(rows)
        if sampled is not None:
            mass = mass * sampled
        unit = unit_of(exact_sum(data.weight) if data.weight is not None else len(data.target))
        steps = self.objective.leaf_steps(LeafRows(target, at, mass, starts, unit), output)
        return with_steps(tree, leaves, steps, params, _schema_of(data))

    @once
    def _relearn(self) -> Callable[[FloatArray, int], None]:
        return _relearning(self.objective, self.data)


def _relearning(objective: Objective, data: TrainingData) -> Callable[[FloatArray, int], None]:
    """Return a function that recomputes what the loss learns beside the trees in a round."""
    if getattr(objective, "positions", None) is None:
        return lambda raw, number: None
    loss = cast(PrecomputedLoss, bound_to_rows(objective, data.target, data.weight))
    g, h = np.empty((2, len(data.target)))

    def relearn(raw: FloatArray, number: int) -> None:
        loss.derivatives(LossRows(data.target, raw, data.weight, number), 0, g, h)

    return relearn


def _make_grower(
    data: TrainingData,
    raw: FloatArray,
    objective: Objective,
    params: BoostParams,
    n_threads: int,
) -> Grower:
    params = for_copies(params, data.n_copies)
    fit = Fit(data.target, data.weight, raw, objective, params, n_threads)
    shared = fit, adds_scores(params, objective)
    if isinstance(data.matrix, BinnedMatrix):
        kind = _kind_of_grower(params)
        sums = data.sums if kind.shares_histograms else None
        return kind(data.matrix, *shared, data.n_copies, data.numbers, sums)
    assert isinstance(data.matrix, ColumnBlocks)
    return ExactGrower(data.matrix, *shared)


def _kind_of_grower(params: BoostParams) -> type[TreeGrower]:
    """Return the grower of trees from bins; few fits need the modules that are imported here."""
    symmetric, vectors = is_symmetric(params), holds_vectors(params)
    if on_gpu(params):
        from hedgerow.growing.cuda.grower import kind_on_gpu

        return kind_on_gpu(symmetric, vectors)
    if symmetric:
        from hedgerow.growing.symmetric.grower import SymmetricGrower, SymmetricVectorGrower

        return SymmetricVectorGrower if vectors else SymmetricGrower
    return VectorGrower if vectors else TreeGrower


def for_copies(params: BoostParams, n_copies: int) -> BoostParams:
    """Scale limits in rows by ``n_copies``, for a grower that counts copies as rows."""
    if n_copies == 1:
        return params
    most = 2**31 - 1
    return replace(
        params,
        min_samples_leaf=min(most, n_copies * params.min_samples_leaf),
        min_data_per_group=min(most, n_copies * params.min_data_per_group),
        path_smooth=n_copies * params.path_smooth,
    )


def _schema_of(data: TrainingData) -> Schema:
    matrix = data.matrix
    if isinstance(matrix, BinnedMatrix):
        return matrix.spec.schema
    return matrix.table.schema if isinstance(matrix, ColumnBlocks) else matrix.schema
