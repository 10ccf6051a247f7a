"""The boosting loop as a generator: one state after each round.

A round grows ``num_parallel_tree`` trees per output on the gradients at the scores before
the round, one by default.  Rows that a tree was not grown on (row sampling) and validation rows
get their scores from a walk down the tree.

A state is live: it shows the fit as it is now, until the next round.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from functools import partial
from typing import Protocol, cast

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import FloatArray, IntArray, RowArray
from hedgerow.boosting.assembly import make_forest
from hedgerow.boosting.checkpoint import Rounds
from hedgerow.boosting.continuing import joined
from hedgerow.boosting.ensemble import Additive, Average, Dropout, Mode, make_mode, settled
from hedgerow.boosting.scores import Scores, TrainingData
from hedgerow.boosting.stopping import hash_rows
from hedgerow.boosting.strategy import holds_vectors, resolve_strategy
from hedgerow.boosting.symmetric import is_symmetric
from hedgerow.boosting.vector_leaves import with_searched
from hedgerow.data import BinnedMatrix
from hedgerow.data.blocks import ColumnBlocks
from hedgerow.data.mapped_table import MappedTable
from hedgerow.data.schema import Schema
from hedgerow.errors import LossError, ParameterError
from hedgerow.growing.constraints import resolve_constraints
from hedgerow.growing.exact import ExactGrower
from hedgerow.growing.grower import TreeGrower
from hedgerow.growing.isotonic import order_leaves, split_signs
from hedgerow.growing.sampling import ROW_STREAM
from hedgerow.growing.tree import GrownTree
from hedgerow.growing.vector_grower import VectorGrower
from hedgerow.kernels.exact_sum import exact_sum
from hedgerow.model.forest import Forest
from hedgerow.objectives import Objective
from hedgerow.objectives.beside import start_of
from hedgerow.objectives.given import GivenLoss, LossRows, bound_to_rows
from hedgerow.objectives.line_search import LeafRows, unit_of
from hedgerow.params import BoostParams
from hedgerow.schedules import is_number

_CELLS_PER_THREAD = 8_000
"""Bins (rows x features) that pay for a helper which searches columns of its own."""

_COLUMNS_PER_THREAD = 12
_CELLS_TO_SHARE = 40
"""A thread needs so many columns, or so many times as many bins.

Of few columns each thread fetches the rows of small nodes for little work.  Two threads
(``benchmarks/threads.py``) are 1.3 and 1.7 times as fast with 500 rows of 30 columns and with 1,000
of 100, but 1.0 and 1.2 times with 32,000 and 100,000 rows of 10, for almost twice the processor
time.
"""


class Grower(Protocol):
    """What grows the trees of a fit."""

    def set_rate(self, rate: float) -> None:
        """Set the factor on the values of the trees to come."""

    def grow(self, tree: int, output: int) -> GrownTree:
        """Grow a tree on the gradients at the raw scores."""

    def rows_outside(self) -> npt.NDArray[np.uint32]:
        """Rows that the last tree was not grown on."""

    def row_weights(self, rows: RowArray) -> FloatArray | None:
        """What each of some sampled rows stands for in the last tree; None: the same."""

    def leaf_segments(self) -> tuple[npt.NDArray[np.uint32], IntArray, IntArray]:
        """Rows of the last tree by leaf: rows, leaves, starts."""

    def close(self) -> None:
        """End the helpers."""


class BoostState:
    """The fit after a round.

    Attributes
    ----------
    train_raw : float64 (n_outputs, n_rows)
        Raw scores of the training rows; changed in place by the next round.
    validation_raw : same for the validation rows, or None
    oob_improvement : list of float
        For each round the loss before less the loss after it, over the rows
        that the round was not grown on; empty without ``oob_score``.
    n_rounds : int
        Rounds done, those of a model that the fit has begun with among them.
    base_score : float64 (n_outputs,)
        Raw score before the first tree.
    asked : BoostParams or None
        Settings of the trees of the rounds to come, if they are to be others from now on.
    """

    def __init__(
        self,
        base: FloatArray,
        train: Scores,
        validation: Scores | None,
        mode: Mode,
        first: Forest | None = None,
        n_parallel: int = 1,
    ) -> None:
        matrix = train.data.matrix
        self._n_features = matrix.n_features
        self._spec = matrix.spec if isinstance(matrix, BinnedMatrix) else None
        self.base_score = base
        self._n_parallel = n_parallel
        self._mode = mode
        self._first = first
        self.n_first = 0 if first is None else first.n_rounds
        self.n_rounds = self.n_first
        self.oob_improvement: list[float] = []
        self.train_raw = train.raw
        self.validation_raw = None if validation is None else validation.raw
        self._validation = validation
        self.asked: BoostParams | None = None

    def freeze(self, n_rounds: int | None = None) -> Forest:
        """The forest of the first ``n_rounds`` rounds (default: of all)."""
        kept = self.n_rounds if n_rounds is None else min(n_rounds, self.n_rounds)
        if self._first is not None and kept < self.n_first:
            return self._first.first_rounds(kept)
        trees = self._mode.trees(kept - self.n_first)
        spec, n_parallel = self._spec, self._n_parallel
        forest = make_forest(trees, self.base_score, self._n_features, spec, n_parallel)
        return forest if self._first is None else joined(self._first, forest)

    @property
    def adds_up(self) -> bool:
        """Whether a round adds its trees to the scores, and does nothing else to them."""
        return isinstance(self._mode, Additive)

    def validation_scores(self, n_rounds: int, interrupted: bool = False) -> FloatArray:
        """Raw scores of the validation rows by the first ``n_rounds`` rounds alone.

        If a round was ``interrupted``, a part of it may be in the scores that are kept up.
        """
        assert self._validation is not None
        if n_rounds == self.n_rounds and self.adds_up and not interrupted:
            return self._validation.raw
        scores = self._validation.restarted(self.base_score)
        for number, tree in enumerate(self._mode.trees(n_rounds - self.n_first)):
            scores.add(tree, number % len(self.base_score))
        return scores.raw

    def newest(self) -> list[GrownTree]:
        """The trees of the last round, the outputs in turn, as they were grown."""
        return self._mode.newest()

    def out_of_bag(self) -> tuple[RowArray, FloatArray] | None:
        """Rows and raw scores by the trees that did not see them.

        Of a random forest with ``oob_score``; None of any other model.
        """
        return self._mode.out_of_bag() if isinstance(self._mode, Average) else None


def rounds(
    data: TrainingData,
    objective: Objective,
    params: BoostParams,
    validation: TrainingData | None = None,
    n_threads: int = 1,
    earlier: Rounds | None = None,
    first: Forest | None = None,
    ready: Callable[[], None] = lambda: None,
) -> Generator[BoostState, None, None]:
    """Yield the state after each of ``params.n_estimators`` rounds.

    The generator holds threads: close it (``contextlib.closing``) if it is not
    exhausted.

    Parameters
    ----------
    data : TrainingData
    objective : Objective
    params : BoostParams
    validation : TrainingData, optional
        Scored after each round.
    n_threads : int, default=1
        At most; small data use fewer.  The trees do not depend on it.
    earlier : Rounds, optional
        The first rounds, done before: the state after the last of them is yielded
        first, and the fit goes on from there.
    first : Forest, optional
        Trees of a model that the fit begins with; they are in ``start`` of the data.
    ready : callable, optional
        Called when all is there that rounds take, before the first of them.

    Yields
    ------
    BoostState

    Raises
    ------
    StorageError
        If ``earlier`` is of other data.
    """
    params = resolve_constraints(resolve(params, objective), _schema_of(data), objective)
    params = resolve_strategy(params, objective)
    matrix = data.matrix
    outputs_of_leaf = objective.n_outputs if holds_vectors(params) else 1
    n_threads = threads_for(n_threads, matrix.n_rows, matrix.n_features, outputs_of_leaf)
    if first is not None:
        base = first.base_score
    else:
        base = start_of(objective, data.target, data.weight, data.offset)
    train = Scores(data, base, n_threads)
    spec = matrix.spec if isinstance(matrix, BinnedMatrix) else None
    unseen = None if validation is None else Scores(validation, base, n_threads, spec)
    mode = make_mode(params, train, unseen)
    state = BoostState(base, train, unseen, mode, first, params.num_parallel_tree)
    grower = _make_grower(data, mode.grown_at, objective, params, n_threads)
    try:
        if earlier is not None:
            n_columns = matrix.n_columns if isinstance(matrix, BinnedMatrix) else 0
            earlier.check(base, matrix.n_features, n_columns)
            _replay(earlier, mode, train, objective, params, state)
            yield state
        ready()
        for number in range(state.n_rounds, state.n_first + params.n_estimators):
            if state.asked is not None:
                params, state.asked = state.asked, None
                if isinstance(mode, Dropout):
                    mode.set_params(params)
                grower.close()
                grower = _make_grower(data, mode.grown_at, objective, params, n_threads)
            mode.start_round(number)
            now = _at_round(number, params, state.n_first, grower)
            try:
                _grow_round(number, grower, mode, train, objective, now, state)
            except LossError as error:
                raise LossError(f"round {number + 1}: {error}") from error.__cause__
            mode.end_round()
            state.n_rounds += 1
            yield state
    finally:
        grower.close()


def _at_round(number: int, params: BoostParams, n_first: int, grower: Grower) -> BoostParams:
    """Set the rate of a round; the parameters with it, where the grower is not all that asks."""
    if is_number(params.learning_rate) and params.num_parallel_tree == 1:
        return params
    if params.leaf_estimation == "line_search":
        now = params.of_trees_at(number, n_first)
        grower.set_rate(now.learning_rate)
        return now
    # New parameters are checked, which would take a tenth of a quick round.
    grower.set_rate(params.rate_of_trees(number, n_first))
    return params


def threads_for(n_threads: int, n_rows: int, n_features: int, n_outputs: int = 1) -> int:
    """How many of the threads pay, for trees with so many outputs in each leaf."""
    n_columns = n_features * n_outputs
    for_helper = n_rows * n_columns // _CELLS_PER_THREAD
    by_columns = min(for_helper, n_columns // _COLUMNS_PER_THREAD)
    return max(1, min(n_threads, max(by_columns, for_helper // _CELLS_TO_SHARE)))


def _replay(
    earlier: Rounds,
    mode: Mode,
    train: Scores,
    objective: Objective,
    params: BoostParams,
    state: BoostState,
) -> None:
    """Add trees that were grown before as if they had just been grown.

    Each row gets the same additions in the same order as then, if not from the same
    place: of a sampled round the grower adds to the rows inside, a walk to the others.
    """
    leaves_out = params.oob_score and isinstance(mode, Average)
    relearn = _relearning(objective, train.data)
    for place in range(earlier.n_rounds):
        number = state.n_first + place
        mode.start_round(number)
        relearn(mode.grown_at, number)
        outside = _rows_outside(number, train.data.matrix.n_rows, params) if leaves_out else None
        for turn, tree in enumerate(earlier.of_round(place)):
            output = turn % earlier.n_outputs
            mode.add(tree, output, None)
            if outside is not None and isinstance(mode, Average):
                mode.leave_out(tree, output, outside)
        mode.end_round()
    if params.oob_score and params.boosting == "gbdt":
        state.oob_improvement += earlier.improvement.tolist()
    state.n_rounds += earlier.n_rounds


def _relearning(objective: Objective, data: TrainingData) -> Callable[[FloatArray, int], None]:
    """What learns again, from scores and round, what a loss learns beside the trees."""
    if getattr(objective, "positions", None) is None:
        return lambda raw, number: None
    loss = cast(GivenLoss, bound_to_rows(objective, data.target, data.weight))
    g, h = np.empty((2, len(data.target)))

    def relearn(raw: FloatArray, number: int) -> None:
        loss.derivatives(LossRows(data.target, raw, data.weight, number), 0, g, h)

    return relearn


def _rows_outside(number: int, n_rows: int, params: BoostParams) -> RowArray:
    """Rows that uniform sampling leaves out of a round: what the grower draws."""
    limit = np.uint64(int(params.subsample * 2.0**63) << 1)
    draws = hash_rows(params.seed, ROW_STREAM + number, n_rows)
    return np.flatnonzero(draws >= limit).astype(np.uint32)


def resolve(params: BoostParams, objective: Objective) -> BoostParams:
    """Replace what depends on the loss or the mode by what is meant.

    Raises
    ------
    ParameterError
        For Newton steps of a loss without second derivative.
    """
    estimation = params.leaf_estimation
    if estimation == "auto":
        estimation = "newton" if objective.second_order else "line_search"
    if estimation == "newton" and not objective.second_order:
        raise ParameterError(
            f"leaf_estimation='newton' needs a second derivative, which objective "
            f"{objective.name!r} does not have: use 'line_search' or 'gradient'."
        )
    rate = 1.0 if params.boosting == "rf" else params.learning_rate
    return replace(params, leaf_estimation=estimation, learning_rate=rate)


def adds_scores(params: BoostParams) -> bool:
    """Whether the grower may add a tree to the scores of its rows as it stands."""
    alone = params.num_parallel_tree == 1
    return alone and params.boosting == "gbdt" and params.leaf_estimation != "line_search"


def _make_grower(
    data: TrainingData,
    raw: FloatArray,
    objective: Objective,
    params: BoostParams,
    n_threads: int,
) -> Grower:
    params = _for_copies(params, data.n_copies)
    shared = (data.target, data.weight, raw, objective, params, n_threads, adds_scores(params))
    if holds_vectors(params):
        assert isinstance(data.matrix, BinnedMatrix)
        return VectorGrower(data.matrix, *shared, n_copies=data.n_copies)
    if is_symmetric(params):
        # Its kernels need not be loaded for other trees.
        from hedgerow.growing.symmetric_grower import SymmetricGrower

        assert isinstance(data.matrix, BinnedMatrix)
        return SymmetricGrower(data.matrix, *shared, data.n_copies, data.numbers, data.sums)
    if isinstance(data.matrix, BinnedMatrix):
        return TreeGrower(data.matrix, *shared, data.n_copies, data.numbers, data.sums)
    if isinstance(data.matrix, MappedTable):
        # Few trainings are of columns on disk.
        from hedgerow.growing.stored_exact import StoredExactGrower

        columns, limit = data.matrix.columns, data.matrix.memory_limit
        assert columns is not None
        return StoredExactGrower(columns, *shared, memory_limit=limit)
    assert isinstance(data.matrix, ColumnBlocks)
    return ExactGrower(data.matrix, *shared)


def _for_copies(params: BoostParams, n_copies: int) -> BoostParams:
    """Limits in rows of ``n_copies`` copies, for a grower that does not know of them."""
    if n_copies == 1:
        return params
    most = 2**31 - 1
    return replace(
        params,
        min_samples_leaf=min(most, n_copies * params.min_samples_leaf),
        min_data_per_group=min(most, n_copies * params.min_data_per_group),
        path_smooth=n_copies * params.path_smooth,
    )


def _grow_round(
    number: int,
    grower: Grower,
    mode: Mode,
    train: Scores,
    objective: Objective,
    params: BoostParams,
    state: BoostState,
) -> None:
    """The trees of a round, leaf values included, handed to the mode."""
    data = train.data
    grown_at, loss_before = mode.grown_at, 0.0
    # The trees of a round search their leaves one after the other, each at the
    # scores with those before it; where these do not join at once, in a copy.
    n_parallel, searches = params.num_parallel_tree, params.leaf_estimation == "line_search"
    joins = not searches or (params.boosting == "gbdt" and n_parallel == 1)
    searched_at = grown_at
    watched = params.oob_score and params.boosting == "gbdt"
    outside: RowArray = np.zeros(0, dtype=np.uint32)
    n_trees = 1 if holds_vectors(params) else objective.n_outputs
    for turn in range(n_parallel * n_trees):
        output = turn % n_trees
        if output == 0 and not joins:
            searched_at = grown_at.copy()
        tree = grower.grow(number * n_parallel * n_trees + turn, output)
        outside = grower.rows_outside()
        if watched and output == 0 and len(outside) > 0:
            loss_before = objective.loss(*data.take(outside, grown_at))
        if searches:
            search = partial(_search_leaves, grower, data, searched_at, objective, params)
            tree = search(tree, output) if tree.vectors is None else with_searched(tree, search)
            if not joins and tree.vectors is None:
                # Parallel trees share a step, which each of them makes whole.
                train.add_to(searched_at[output], tree, factor=float(n_parallel))
        if data.n_copies > 1:
            tree = tree.with_counts(np.rint(tree.count / data.n_copies).astype(np.int64))
        tree = settled(tree, objective, params)
        mode.add(tree, output, outside if adds_scores(params) else None)
        if params.oob_score and isinstance(mode, Average):
            mode.leave_out(tree, output, outside)
    if watched:
        # A round that happened to leave no row out tells nothing.
        some = len(outside) > 0
        loss_after = objective.loss(*data.take(outside, grown_at)) if some else loss_before
        state.oob_improvement.append(loss_before - loss_after)


def _search_leaves(
    grower: Grower,
    data: TrainingData,
    raw: FloatArray,
    objective: Objective,
    params: BoostParams,
    tree: GrownTree,
    output: int,
) -> GrownTree:
    """The tree with the leaf values that minimise the loss of their rows."""
    rows, leaves, starts = grower.leaf_segments()
    if len(rows) == 0:  # a small sample may be empty
        return tree
    target, at, weight = data.take(rows, raw)
    mass = np.ones(len(rows)) if weight is None else weight
    sampled = grower.row_weights(rows)
    if sampled is not None:
        mass = mass * sampled
    unit = unit_of(exact_sum(data.weight) if data.weight is not None else len(data.target))
    steps = objective.leaf_steps(LeafRows(target, at, mass, starts, unit), output)
    return with_steps(tree, leaves, steps, params, _schema_of(data))


def with_steps(
    tree: GrownTree, leaves: IntArray, steps: FloatArray, params: BoostParams, schema: Schema
) -> GrownTree:
    """The tree whose ``leaves`` take the given steps, as far as the settings allow."""
    longest = params.max_delta_step or np.inf
    value = tree.value.copy()
    value[leaves] = params.learning_rate * np.clip(steps, -longest, longest)
    if params.monotone_constraints is not None:
        signs = split_signs(tree, params.monotone_constraints, schema)
        value = order_leaves(tree, value, signs)
    return tree.with_values(_with_means(tree, value))


def _with_means(tree: GrownTree, value: FloatArray) -> FloatArray:
    """Give inner nodes the mean of their leaves: what a row gets that stops there."""
    means, cover = value.tolist(), tree.cover.tolist()
    left, right = tree.left.tolist(), tree.right.tolist()
    for node in reversed(range(len(means))):  # children stand behind their parents
        a, b = left[node], right[node]
        if a > 0:
            total = cover[a] + cover[b]
            share = cover[a] / total if total > 0.0 else 0.5
            means[node] = share * means[a] + (1.0 - share) * means[b]
    return np.array(means)


def _schema_of(data: TrainingData) -> Schema:
    matrix = data.matrix
    if isinstance(matrix, BinnedMatrix):
        return matrix.spec.schema
    return matrix.table.schema if isinstance(matrix, ColumnBlocks) else matrix.schema


__all__ = ["BoostState", "Grower", "TrainingData", "make_forest", "rounds"]
