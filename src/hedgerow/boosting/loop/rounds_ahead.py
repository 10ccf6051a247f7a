"""Several rounds of a fit of few rows at a time.

The trees of such a fit take some 40 microseconds each, and so does the Python code around every
one of them.  Here the trees of a batch of rounds grow with two calls of compiled code for each
(:mod:`hedgerow.growing.core.joining`), and the scores of all rounds of the batch are computed
together.  The loop over the rounds then takes trees and scores from the batch, one round after the
other, and what it sees is what it would see without::

    batch      trees and scores of rounds  1 2 3 ... 16 | 17 18 ...
    loop       round 1 -> scores, early stopping; round 2 -> ...

Rounds of a batch that follow the last round of the fit are discarded, so a batch ends where
patience may end the fit.  Which fits can have batches: :meth:`RoundsAhead.of`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.boosting.loop.scores import MeanScores
from hedgerow.boosting.row_data.dataset import TRAINING
from hedgerow.growing.core.compiled_grower import CompiledGrower
from hedgerow.growing.core.grower import TreeGrower
from hedgerow.growing.core.joining import TreeJoiner
from hedgerow.growing.core.tree import GrownTree
from hedgerow.metrics import not_nan
from hedgerow.objectives.derivatives import PRECOMPUTED
from hedgerow.schedules import is_number

if TYPE_CHECKING:
    from hedgerow.boosting.loop.rounds import BoostState

_MOST_ROUNDS = 16
_FEWEST_ROUNDS, _SHARE = 4, 6
"""A batch has a sixth of the rounds so far: fewer of its rounds are grown for nothing.  Two rounds
do not pay for a batch: symmetric trees of 5,000 rows x 28 took 2% longer."""

NOT_KNOWN = sys.maxsize
"""Next round that may end the fit, if nobody has told."""

_MOST_CELLS = 1_600_000
"""Bins (rows x features x outputs) of the rounds of a batch: some 20 milliseconds, for which an
interrupt or a time budget has to wait.  With a fourth of them, default fits of 6,500 rows x 22 and
x 32 and of 10,400 x 8 x 4 took 9% to 23% longer."""

_MOST_NODES = 4_096
"""Nodes of a batch: 360 kilobytes."""

_MOST_SCORES = 125_000
"""Raw scores of validation rows, of all rounds of a batch: a megabyte."""


def rounds_at_once(n_cells: int, n_scores: int, n_nodes: int) -> int:
    """Return the number of rounds of a batch."""
    return min(
        _MOST_ROUNDS,
        _MOST_CELLS // max(1, n_cells),
        _MOST_SCORES // max(1, n_scores),
        _MOST_NODES // max(1, n_nodes),
    )


class RestOfBatch(NamedTuple):
    """Rounds of a batch that are taken together.

    trees    of all these rounds
    raw      float64 (n_outputs, n_unseen): raw scores of the validation rows after each round
    scores   of each round, by name of the rows and metric
    """

    trees: list[GrownTree]
    raw: list[FloatArray]
    scores: dict[str, dict[str, list[float]]]


class RoundsAhead:
    """The rounds of a batch."""

    def __init__(
        self, state: BoostState, grower: TreeGrower, joiner: TreeJoiner, most: int
    ) -> None:
        self._grower, self._joiner, self._most = grower, joiner, most
        self._rounds = range(state.n_first, state.n_first + state.params.n_estimators)
        self._scored, self._objective = state.scored, state.objective
        unseen = state.held_out[0] if state.held_out else None
        assert not isinstance(unseen, MeanScores)  # forests have no batches
        self._unseen = unseen
        self._targets = [np.tile(part.rows.target, most) for part in state.scored]
        self._trees: list[GrownTree] = []
        self._scores: list[dict[str, list[float]] | None] = []
        self._first, self._stop, self._n_taken = 0, 0, 0

    @classmethod
    def of(cls, state: BoostState, grower: CompiledGrower) -> RoundsAhead | None:
        """Return the batches of a fit; None if its rounds have to be grown one by one."""
        # They have to where the rows are many or on several threads, where something else happens
        # between two trees (a loss in Python, a line search, a learning rate that changes, scores
        # of the training rows or of several sets), and where a tree has a vector in each leaf.
        params, train = state.params, state.train
        between = (
            state.objective.kernel_id == PRECOMPUTED
            or params.oob_score
            or not is_number(params.learning_rate)
            or any(part.name == TRAINING for part in state.scored)
            or len(state.held_out) > 1
        )
        if between or not isinstance(grower, TreeGrower) or train.walked is None:
            return None
        walked = [rows.walked for rows in state.held_out]
        n_unseen = sum(rows.raw.size for rows in state.held_out)
        n_outputs, n_rows = train.raw.shape
        n_cells = n_rows * state.n_features * n_outputs
        most = rounds_at_once(n_cells, n_unseen, n_outputs * grower.most_nodes)
        if most < _FEWEST_ROUNDS or None in walked:
            return None
        joiner = grower.joiner(most, train.walked, walked[0] if walked else None)
        return None if joiner is None else cls(state, grower, joiner, most)

    def tree(self, number: int, n_outputs: int, next_end: int = NOT_KNOWN) -> GrownTree:
        """Return tree ``number`` of the fit; grow the next batch if the last one has ended."""
        first = number // n_outputs
        if not self._first <= first < self._stop:
            # Folds may end soon after they begin.
            wanted = max(_FEWEST_ROUNDS, (first - self._rounds.start) // _SHARE)
            last = min(self._rounds.stop, next_end)
            n_rounds = max(1, min(wanted, self._most, last - first))
            self._trees = self._grower.grow_rounds(first, n_rounds, self._joiner)
            self._first, self._stop, self._n_taken = first, first + n_rounds, 0
            after = self._joiner.after
            self._scores = [
                part.score_rounds(after, targets)
                for part, targets in zip(self._scored, self._targets, strict=True)
            ]
        return self._trees[number - self._first * n_outputs]

    @property
    def n_ready(self) -> int:
        """Number of rounds that have grown and were not taken."""
        return self._stop - self._first - self._n_taken

    def end_round(self) -> None:
        """Let the raw scores of the validation rows be those after the next round of the batch."""
        if self._unseen is not None:
            self._unseen.raw = self._joiner.after[:, self._n_taken]
        self._n_taken += 1

    def rest(self) -> RestOfBatch | None:
        """Take all rounds that are ready; None if they have to be taken one after the other."""
        # They have to if a score is NaN, which is an error of its round, or is computed one by one.
        k, n_trees = self._n_taken, len(self._trees) // (self._stop - self._first)
        scores: dict[str, dict[str, list[float]]] = {}
        for part, found in zip(self._scored, self._scores, strict=True):
            if found is None or any(math.isnan(sum(rounds)) for rounds in found.values()):
                return None
            scores[part.name] = {name: rounds[k:] for name, rounds in found.items()}
        after = self._joiner.after
        raw = [after[:, number] for number in range(k, self._stop - self._first)]
        if self._unseen is not None:
            self._unseen.raw = raw[-1]
        self._n_taken = self._stop - self._first
        return RestOfBatch(self._trees[k * n_trees :], raw, scores)

    def scores(self) -> Mapping[str, Mapping[str, float]]:
        """Return the scores after the last round taken, by name of the rows and metric."""
        found = {}
        for part, scores in zip(self._scored, self._scores, strict=True):
            if scores is None:
                assert self._unseen is not None
                found[part.name] = part.score(self._objective, self._unseen.raw)
            else:
                own = {name: rounds[self._n_taken - 1] for name, rounds in scores.items()}
                found[part.name] = {name: not_nan(name, score) for name, score in own.items()}
        return found
