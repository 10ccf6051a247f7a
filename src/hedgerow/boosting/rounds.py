"""The boosting loop as a generator: one state after each round.

A round grows one tree per output on the gradients at the scores before the
round.  Rows that a tree was not grown on (row sampling) and validation rows
get their scores from a walk over their bins.

A state is live: it shows the fit as it is now, until the next round.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.data import BinnedMatrix
from hedgerow.growing.grower import TreeGrower
from hedgerow.growing.tree import NO_ROWS, GrownTree, add_scores
from hedgerow.model.forest import NODE_FIELDS, Forest
from hedgerow.objectives import Objective
from hedgerow.params import BoostParams

_CELLS_PER_THREAD = 8_000
"""Bins (rows x features) that pay for a helper.  On two free cores two threads
are faster even with 300 rows of 28 features (28 against 37 ms for 100 trees), as
they divide the search for splits; the margin is for cores that are not free."""


@dataclass(frozen=True, slots=True, eq=False)
class TrainingData:
    """Binned rows with what the loss needs to know of them.

    Attributes
    ----------
    matrix : BinnedMatrix
        With both layouts for training rows; validation rows need only rows.
    target : float64 (n_rows,)
        A class index for classification.
    weight : float64 (n_rows,), optional
        Positive.
    offset : float64 (n_outputs, n_rows), optional
        Added to the base score of each row.
    """

    matrix: BinnedMatrix
    target: FloatArray
    weight: FloatArray | None = None
    offset: FloatArray | None = None


class BoostState:
    """The fit after a round.

    Attributes
    ----------
    train_raw : float64 (n_outputs, n_rows)
        Raw scores of the training rows; changed in place by the next round.
    validation_raw : same for the validation rows, or None
    """

    def __init__(
        self,
        n_features: int,
        base: FloatArray,
        train_raw: FloatArray,
        validation_raw: FloatArray | None,
    ) -> None:
        self._n_features = n_features
        self._base = base
        self._trees: list[GrownTree] = []
        self.train_raw = train_raw
        self.validation_raw = validation_raw

    @property
    def n_rounds(self) -> int:
        """Rounds done."""
        return len(self._trees) // len(self._base)

    def freeze(self, n_rounds: int | None = None) -> Forest:
        """The forest of the first ``n_rounds`` rounds (default: of all)."""
        rounds_kept = self.n_rounds if n_rounds is None else min(n_rounds, self.n_rounds)
        kept = self._trees[: rounds_kept * len(self._base)]
        return make_forest(kept, self._base, self._n_features)

    def add(self, tree: GrownTree) -> None:
        """Append a tree."""
        self._trees.append(tree)


def rounds(
    data: TrainingData,
    objective: Objective,
    params: BoostParams,
    validation: TrainingData | None = None,
    n_threads: int = 1,
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

    Yields
    ------
    BoostState
    """
    matrix = data.matrix
    # An offset is itself the start, as in the C++ libraries: a prior would count twice.
    base = np.zeros(objective.n_outputs)
    if data.offset is None:
        base = objective.initial_score(data.target, data.weight)
    train_raw = _first_scores(base, data)
    validation_raw = None if validation is None else _first_scores(base, validation)
    state = BoostState(matrix.n_features, base, train_raw, validation_raw)
    n_threads = max(1, min(n_threads, matrix.n_rows * matrix.n_features // _CELLS_PER_THREAD))
    grower = TreeGrower(matrix, data.target, data.weight, train_raw, objective, params, n_threads)
    try:
        for number in range(params.n_estimators):
            for output in range(objective.n_outputs):
                tree = grower.grow(number * objective.n_outputs + output, output)
                outside = grower.rows_outside()
                if len(outside) > 0:
                    add_scores(tree, matrix, outside, train_raw[output], n_threads)
                if validation is not None and validation_raw is not None:
                    add_scores(tree, validation.matrix, NO_ROWS, validation_raw[output], n_threads)
                state.add(tree)
            yield state
    finally:
        grower.close()


def _first_scores(base: FloatArray, data: TrainingData) -> FloatArray:
    """Base score and offset of every row."""
    raw = np.empty((len(base), data.matrix.n_rows))
    raw[:] = base[:, None]
    if data.offset is not None:
        raw += data.offset
    return raw


def make_forest(trees: list[GrownTree], base: FloatArray, n_features: int) -> Forest:
    """Put trees one behind the other."""
    if not trees:
        return make_forest([_NO_TREE], base, n_features).first_rounds(0)
    fields = {name: np.concatenate([getattr(tree, name) for tree in trees]) for name in NODE_FIELDS}
    sizes = [len(tree.feature) for tree in trees]
    return Forest(
        **fields,
        tree_start=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        base_score=base.copy(),
        n_features=n_features,
    )


_NO_TREE = GrownTree(
    feature=np.full(1, -1, np.int32),
    threshold=np.zeros(1, np.int64),
    bin=np.zeros(1, np.uint8),
    missing_left=np.zeros(1, np.uint8),
    left=np.zeros(1, np.int32),
    right=np.zeros(1, np.int32),
    value=np.zeros(1),
    gain=np.zeros(1),
    cover=np.zeros(1),
    count=np.zeros(1, np.int64),
)
