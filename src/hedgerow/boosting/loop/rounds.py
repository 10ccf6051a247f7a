"""Boosting rounds as a generator: one state after each round.

A round grows ``num_parallel_tree`` trees (default 1) per output on the gradients at the scores
before the round (outputs of a distribution: one after the other).  The ensemble mode combines them.
This module does not depend on where the rows are::

    FitRows       memory_rows   all rows in memory
                  chunk_rows    chunks of files, and the rows of one of several ranks

    round         start         the mode subtracts dropped trees from the scores
                  grow          a tree on the gradients, with the leaf values of its loss
                  add           the mode adds it to the scores of training and validation rows
                  end           record the change of the out-of-bag loss

A state is live: it shows the fit as it is until the next round begins.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from hedgerow.arrays import FloatArray, RowArray
from hedgerow.boosting.loop.assembly import make_forest
from hedgerow.boosting.loop.ensemble import Additive, Mode, finished_tree, make_mode
from hedgerow.boosting.loop.sample import RowNames
from hedgerow.boosting.loop.scores import AddedScores
from hedgerow.boosting.loop.setup.strategy import resolve_strategy, trees_of_round
from hedgerow.boosting.resume.checkpoint import Rounds
from hedgerow.data.binning.bins import BinSpec
from hedgerow.data.schema import Schema
from hedgerow.errors import LossError, ParameterError
from hedgerow.growing.core.setup import limit_in_grower, newton_limit
from hedgerow.growing.core.tree import GrownTree
from hedgerow.growing.limits.constraints import resolve_constraints
from hedgerow.metrics import Metric
from hedgerow.model.forest import Forest
from hedgerow.model.other_forests import joined_forests
from hedgerow.objectives import Objective
from hedgerow.objectives.global_sums import AllRows
from hedgerow.params import BoostParams
from hedgerow.schedules import is_number

_CELLS_PER_THREAD = 8_000
"""Bins (rows x features) that justify one more thread if threads divide the columns."""

_COLUMNS_PER_THREAD = 12
_CELLS_TO_SHARE = 40
"""A thread needs this many columns, or this many times as many bins.

With few columns, each thread fetches the rows of small nodes for little work.  Two threads
(``benchmarks/threads.py``) are 1.3 and 1.7 times as fast with 500 rows of 30 columns and with 1,000
of 100, but 1.0 and 1.2 times with 32,000 and 100,000 rows of 10, for almost twice the processor
time.
"""


class FitRows(Protocol):
    """Protocol of the rows of a fit: where they are, how trees are grown, how rows are scored.

    Attributes
    ----------
    objective : Objective
        Bound to the rows.
    params : BoostParams
        Resolved parameters of the next rounds.
    n_rows : int
        Training rows of all ranks, without copies.
    n_features, n_columns : int
        Columns that trees may split, and columns of bins; 0 if trees are not grown on bins.
    spec : BinSpec or None
        The bins on which trees are grown, if any.
    base : float64 (n_outputs,)
        Raw score before the first tree.
    first : Forest or None
        Trees of the model to continue.
    train : AddedScores
        Raw scores of the training rows.
    validation : sequence of AddedScores
        Raw scores of each set of validation rows.
    all_rows : AllRows
        Targets and weights of the training rows.
    names : RowNames
        The user's names of the training rows.
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
    names: RowNames = RowNames()

    def begin(self) -> None:
        """Create the grower, before the first round."""

    def set_rate(self, rate: float) -> None:
        """Set the learning rate of the next trees."""

    def grow(self, tree: int, output: int, params: BoostParams) -> GrownTree:
        """Grow tree number ``tree`` for ``output``, leaf values included.

        ``params`` are the parameters of the round.
        """

    def rows_without_tree(self) -> RowArray | None:
        """Return training rows whose scores the grower has not updated; None: all."""

    def replay(self, number: int) -> None:
        """Restore the state that goes with trees of round ``number`` from an earlier run."""

    def end_round(self) -> float | None:
        """Return the decrease of the out-of-bag loss in the round, if it is computed."""

    def scores(self) -> Mapping[str, Mapping[str, float]]:
        """Return scores after the last round, by name of the rows and metric."""

    def out_of_bag(self, metrics: Sequence[Metric]) -> Mapping[str, float]:
        """Return scores of rows by the trees not grown on them; empty if there are no such rows.

        For a random forest with ``oob_score``.
        """

    def close(self) -> None:
        """End the worker threads."""


class BoostState:
    """The fit after a round.

    Attributes
    ----------
    rows : FitRows
        The next round changes their raw scores in place.
    n_first : int
        Number of rounds of the model being continued.
    n_rounds : int
        Number of rounds done, including ``n_first``.
    oob_improvement : list of float
        Decrease of the out-of-bag loss in each round, over the rows on which
        the round was not grown; empty without ``oob_score``.
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
        """Return the forest of the first ``n_rounds`` rounds (default: all)."""
        kept = self.n_rounds if n_rounds is None else min(n_rounds, self.n_rounds)
        rows, first = self.rows, self.rows.first
        if first is not None and kept < self.n_first:
            return first.first_rounds(kept)
        trees = self.trees(kept)
        forest = make_forest(trees, rows.base, rows.n_features, rows.spec, self._n_parallel)
        return forest if first is None else joined_forests([first, forest], first.base_score)

    @property
    def adds_up(self) -> bool:
        """Whether a round changes the scores only by adding its trees."""
        return type(self.mode) is Additive

    def trees(self, n_rounds: int) -> list[GrownTree]:
        """Return the new trees as scaled in the model of ``n_rounds`` rounds."""
        return self.mode.trees(n_rounds - self.n_first)

    def newest(self) -> list[GrownTree]:
        """Return the trees of the last round, outputs in turn, as they were grown."""
        return self.mode.newest()

    def scores(self) -> Mapping[str, Mapping[str, float]]:
        """Return scores after the last round, by name of the rows and metric."""
        return self.rows.scores()


def rounds(
    rows: FitRows, earlier: Rounds | None = None, ready: Callable[[], None] = lambda: None
) -> Generator[BoostState, None, None]:
    """Yield the state after each of ``n_estimators`` rounds.

    The rows may hold threads: close the generator (``contextlib.closing``) unless it is
    exhausted.

    Raise ``StorageError`` if ``earlier`` belongs to other data.
    """
    try:
        with rows.names.reported():
            rows.begin()
        state = BoostState(rows)
        if earlier is not None:
            earlier.check(rows.base, rows.n_features, rows.n_columns)
            _replay(earlier, state)
            yield state
        ready()
        last = state.n_first + rows.params.n_estimators
        while state.n_rounds < last:
            try:
                with rows.names.reported():
                    _grow_round(state.n_rounds, state)
            except LossError as error:
                raise LossError(f"round {state.n_rounds + 1}: {error}") from error.__cause__
            state.n_rounds += 1
            yield state
    finally:
        rows.close()


def _grow_round(number: int, state: BoostState) -> None:
    """Grow the trees of a round, and add them to the scores as the mode requires."""
    rows, mode, n_outputs = state.rows, state.mode, len(state.base_score)
    params, rate = _at_round(number, state)
    mode.start_round(number, rows.params)
    n_trees = trees_of_round(params, n_outputs)
    for turn in range(n_trees):
        # A tree with vectors is for all outputs, and is grown with output 0.
        output = turn % (n_trees // params.num_parallel_tree)
        tree = rows.grow(number * n_trees + turn, output, params)
        tree = finished_tree(tree, rows.objective, params, rate)
        mode.add(tree, output, rows.rows_without_tree())
    mode.end_round()
    improvement = rows.end_round()
    if improvement is not None:
        state.oob_improvement.append(improvement)


def _at_round(number: int, state: BoostState) -> tuple[BoostParams, float]:
    """Set and return the rate of a round's trees; return parameters with it for line search."""
    rows, params = state.rows, state.rows.params
    if is_number(params.learning_rate) and params.num_parallel_tree == 1:
        return params, float(params.learning_rate)
    if params.leaf_estimation == "line_search":
        now = params.of_trees_at(number, state.n_first)
        rows.set_rate(now.learning_rate)
        return now, now.learning_rate
    # Checking new parameters would take a tenth of a short round.
    rate = params.rate_of_trees(number, state.n_first)
    rows.set_rate(rate)
    return params, rate


def _replay(earlier: Rounds, state: BoostState) -> None:
    """Add trees of an earlier run as if they had just been grown.

    Each row gets the same additions in the same order as then.  With sampling, the grower
    added to the rows of the sample; here all rows get them by tree traversal.
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
    """Return the useful number of threads for trees with this many outputs in each leaf."""
    n_columns = n_features * n_outputs
    for_helper = n_rows * n_columns // _CELLS_PER_THREAD
    by_columns = min(for_helper, n_columns // _COLUMNS_PER_THREAD)
    return max(1, min(n_threads, max(by_columns, for_helper // _CELLS_TO_SHARE)))


def resolve(params: BoostParams, objective: Objective) -> BoostParams:
    """Resolve parameters whose default depends on the loss or the boosting mode.

    Raise ``ParameterError`` for Newton steps of a loss without second derivative.
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
    if estimation == params.leaf_estimation and rate is params.learning_rate:
        return params  # each fold resolves them again, and to check new ones takes a few rounds
    return replace(params, leaf_estimation=estimation, learning_rate=rate)


def resolved(params: BoostParams, objective: Objective, schema: Schema) -> BoostParams:
    """Resolve all parameters for the grower: no column names, no ``"auto"``.

    Resolving twice changes nothing.
    """
    params = resolve_constraints(resolve(params, objective), schema, objective)
    return resolve_strategy(params, objective)


def adds_scores(params: BoostParams, objective: Objective) -> bool:
    """Return whether the grower may add a tree unchanged to the scores of its rows."""
    limit = newton_limit(params, objective, params.highest_rate)
    if limit < limit_in_grower(params, objective):
        return False
    alone = params.num_parallel_tree == 1
    return alone and params.boosting == "gbdt" and params.leaf_estimation != "line_search"
