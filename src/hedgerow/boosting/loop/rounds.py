"""Boosting rounds as a generator: one state after each round.

A round grows ``num_parallel_tree`` trees (default 1) per output on the gradients at the scores
before the round (outputs of a distribution: one after the other).  The ensemble mode combines them.
This module does not depend on where the rows are (:mod:`hedgerow.boosting.loop.fit_rows`)::

    round         start         the mode subtracts dropped trees from the scores
                  grow          a tree on the gradients, with the leaf values of its loss
                  add           the mode adds it to the scores of training and validation rows
                  end           record the change of the out-of-bag loss

A state is live: it shows the fit as it is until the next round begins.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping

from hedgerow.arrays import FloatArray
from hedgerow.boosting.loop.assembly import make_forest
from hedgerow.boosting.loop.ensemble import Additive, Mode, finished_tree, make_mode
from hedgerow.boosting.loop.fit_rows import FitRows
from hedgerow.boosting.loop.setup.strategy import trees_of_round
from hedgerow.boosting.resume.checkpoint import Rounds
from hedgerow.errors import LossError
from hedgerow.growing.core.tree import GrownTree
from hedgerow.model.forest import Forest
from hedgerow.model.other_forests import joined_forests
from hedgerow.params import BoostParams
from hedgerow.schedules import is_number


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
