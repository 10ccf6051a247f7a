"""The boosting loop as a generator: one state after each round.

A round grows ``num_parallel_tree`` trees per output on the gradients at the scores before
the round, one by default.  What becomes of them is a :mod:`~hedgerow.boosting.loop.ensemble` mode;
where the rows are is not known here::

    FitRows       memory_rows   all of them are in memory
                  chunk_rows    chunks of files, and the rows of one of several ranks

    round         start         the mode takes dropped trees out of the scores
                  grow          a tree on the gradients, with the leaf values of its loss
                  add           the mode adds it to the scores of training and validation rows
                  end           how the loss of the rows that were left out has changed

A state is live: it shows the fit as it is now, until the next round.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from hedgerow.arrays import FloatArray, RowArray
from hedgerow.boosting.loop.assembly import make_forest
from hedgerow.boosting.loop.ensemble import Additive, Mode, finished_tree, make_mode
from hedgerow.boosting.loop.scores import AddedScores
from hedgerow.boosting.loop.strategy import resolve_strategy, trees_of_round
from hedgerow.boosting.resume.checkpoint import Rounds
from hedgerow.boosting.resume.continuing import joined
from hedgerow.data.binning.bins import BinSpec
from hedgerow.data.schema import Schema
from hedgerow.errors import LossError, ParameterError
from hedgerow.growing.core.tree import GrownTree
from hedgerow.growing.limits.constraints import resolve_constraints
from hedgerow.model.forest import Forest
from hedgerow.objectives import Objective
from hedgerow.objectives.global_sums import AllRows
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


class FitRows(Protocol):
    """The rows of a fit, wherever they are, with what grows trees on them and scores them.

    Attributes
    ----------
    objective : Objective
        Bound to the rows.
    params : BoostParams
        Settings of the rounds to come, resolved.
    n_rows : int
        Training rows of all ranks, as the user has given them.
    n_features, n_columns : int
        Columns that trees may split, and of the bins; 0 where trees are not grown on bins.
    spec : BinSpec or None
        The bins that trees are grown on, if they are.
    base : float64 (n_outputs,)
        Raw score before the first tree.
    first : Forest or None
        Trees of a model that the fit begins with.
    train : AddedScores
        Raw scores of the training rows.
    validation : sequence of AddedScores
        Those of each set of validation rows.
    all_rows : AllRows
        Targets and weights of the training rows.
    """

    objective: Objective
    params: BoostParams
    n_rows: int
    n_features: int
    n_columns: int
    spec: BinSpec | None
    base: FloatArray
    first: Forest | None
    train: AddedScores
    validation: Sequence[AddedScores]
    all_rows: AllRows

    def begin(self) -> None:
        """Make what grows trees, before the first round."""

    def set_rate(self, rate: float) -> None:
        """Set the factor on the values of the trees to come."""

    def grow(self, tree: int, output: int, params: BoostParams) -> GrownTree:
        """Grow tree number ``tree`` for ``output``, leaf values included.

        ``params`` are those of the round.
        """

    def rows_without_tree(self) -> RowArray | None:
        """Training rows to whose scores the grower has not added the tree; None: all."""

    def replay(self, number: int) -> None:
        """Note what comes with the trees of round ``number`` that an earlier run has grown."""

    def end_round(self) -> float | None:
        """By how much the loss of the rows that were left out has fallen, if it is asked for."""

    def scores(self) -> Mapping[str, Mapping[str, float]]:
        """Scores after the last round, by name of the rows and metric."""

    def out_of_bag(self) -> tuple[FloatArray, FloatArray, FloatArray | None] | None:
        """Target, raw scores and weight of rows by the trees that did not see them.

        Of a random forest with ``oob_score``; None of any other model.
        """

    def close(self) -> None:
        """End the helpers."""


class BoostState:
    """The fit after a round.

    Attributes
    ----------
    rows : FitRows
        Their raw scores are changed in place by the next round.
    n_first : int
        Rounds of the model that the fit has begun with.
    n_rounds : int
        Rounds done, those of that model among them.
    oob_improvement : list of float
        For each round the loss before less the loss after it, over the rows
        that the round was not grown on; empty without ``oob_score``.
    """

    def __init__(self, rows: FitRows) -> None:
        self.rows = rows
        self._n_parallel = rows.params.num_parallel_tree
        self.mode: Mode = make_mode(rows.train, rows.validation, rows.params, len(rows.base))
        self.n_first = 0 if rows.first is None else rows.first.n_rounds
        self.n_rounds = self.n_first
        self.oob_improvement: list[float] = []

    @property
    def base_score(self) -> FloatArray:
        """Raw score before the first tree."""
        return self.rows.base

    def freeze(self, n_rounds: int | None = None) -> Forest:
        """The forest of the first ``n_rounds`` rounds (default: of all)."""
        kept = self.n_rounds if n_rounds is None else min(n_rounds, self.n_rounds)
        rows, first = self.rows, self.rows.first
        if first is not None and kept < self.n_first:
            return first.first_rounds(kept)
        trees = self.trees(kept)
        forest = make_forest(trees, rows.base, rows.n_features, rows.spec, self._n_parallel)
        return forest if first is None else joined(first, forest)

    @property
    def adds_up(self) -> bool:
        """Whether a round adds its trees to the scores, and does nothing else to them."""
        return type(self.mode) is Additive

    def trees(self, n_rounds: int) -> list[GrownTree]:
        """The new trees as they stand in the model of ``n_rounds`` rounds."""
        return self.mode.trees(n_rounds - self.n_first)

    def newest(self) -> list[GrownTree]:
        """The trees of the last round, the outputs in turn, as they were grown."""
        return self.mode.newest()

    def scores(self) -> Mapping[str, Mapping[str, float]]:
        """Scores after the last round, by name of the rows and metric."""
        return self.rows.scores()


def rounds(
    rows: FitRows, earlier: Rounds | None = None, ready: Callable[[], None] = lambda: None
) -> Generator[BoostState, None, None]:
    """Yield the state after each of ``n_estimators`` rounds.

    The rows may hold threads: close the generator (``contextlib.closing``) if it is not
    exhausted.

    Parameters
    ----------
    rows : FitRows
        Before the first round.
    earlier : Rounds, optional
        The first rounds, done before, the same on all ranks: the state after the last of
        them is yielded first, and the fit goes on from there.
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
    state = BoostState(rows)
    try:
        rows.begin()
        if earlier is not None:
            earlier.check(rows.base, rows.n_features, rows.n_columns)
            _replay(earlier, state)
            yield state
        ready()
        for number in range(state.n_rounds, state.n_first + rows.params.n_estimators):
            try:
                _grow_round(number, state)
            except LossError as error:
                raise LossError(f"round {number + 1}: {error}") from error.__cause__
            state.n_rounds += 1
            yield state
    finally:
        rows.close()


def _grow_round(number: int, state: BoostState) -> None:
    """The trees of a round, added to the scores as the mode adds them."""
    rows, mode, n_outputs = state.rows, state.mode, len(state.base_score)
    params = _at_round(number, state)
    mode.start_round(number, rows.params)
    n_trees = trees_of_round(params, n_outputs)
    for turn in range(n_trees):
        # A tree with vectors is of all outputs, and grown as if it were of the first.
        output = turn % (n_trees // params.num_parallel_tree)
        tree = rows.grow(number * n_trees + turn, output, params)
        tree = finished_tree(tree, rows.objective, params)
        mode.add(tree, output, rows.rows_without_tree())
    mode.end_round()
    improvement = rows.end_round()
    if improvement is not None:
        state.oob_improvement.append(improvement)


def _at_round(number: int, state: BoostState) -> BoostParams:
    """Set the rate of a round; the parameters with it, where the grower is not all that asks."""
    rows, params = state.rows, state.rows.params
    if is_number(params.learning_rate) and params.num_parallel_tree == 1:
        return params
    if params.leaf_estimation == "line_search":
        now = params.of_trees_at(number, state.n_first)
        rows.set_rate(now.learning_rate)
        return now
    # New parameters are checked, which would take a tenth of a quick round.
    rows.set_rate(params.rate_of_trees(number, state.n_first))
    return params


def _replay(earlier: Rounds, state: BoostState) -> None:
    """Add trees that were grown before as if they had just been grown.

    Each row gets the same additions in the same order as then, if not from the same
    place: of a sampled round the grower adds to the rows inside, a walk to the others.
    """
    rows, mode = state.rows, state.mode
    for place in range(earlier.n_rounds):
        number = state.n_first + place
        mode.start_round(number, rows.params)
        rows.replay(number)
        for turn, tree in enumerate(earlier.of_round(place)):
            mode.add(tree, turn % earlier.n_outputs, None)
        mode.end_round()
    if rows.params.oob_score and rows.params.boosting == "gbdt":
        state.oob_improvement += earlier.improvement.tolist()
    state.n_rounds += earlier.n_rounds


def threads_for(n_threads: int, n_rows: int, n_features: int, n_outputs: int = 1) -> int:
    """How many of the threads pay, for trees with so many outputs in each leaf."""
    n_columns = n_features * n_outputs
    for_helper = n_rows * n_columns // _CELLS_PER_THREAD
    by_columns = min(for_helper, n_columns // _COLUMNS_PER_THREAD)
    return max(1, min(n_threads, max(by_columns, for_helper // _CELLS_TO_SHARE)))


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


def resolved(params: BoostParams, objective: Objective, schema: Schema) -> BoostParams:
    """Settings as trees are grown by them: without names of columns, and without ``"auto"``.

    To do it again changes nothing.
    """
    params = resolve_constraints(resolve(params, objective), schema, objective)
    return resolve_strategy(params, objective)


def adds_scores(params: BoostParams) -> bool:
    """Whether the grower may add a tree to the scores of its rows as it stands."""
    alone = params.num_parallel_tree == 1
    return alone and params.boosting == "gbdt" and params.leaf_estimation != "line_search"


__all__ = ["BoostState", "FitRows", "adds_scores", "resolve", "resolved", "rounds", "threads_for"]
