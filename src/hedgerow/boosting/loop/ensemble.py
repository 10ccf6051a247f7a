"""Three ways to combine grown trees into an ensemble, and the forest of its trees.

gbdt   each tree is grown on the gradients at the sum of the earlier trees, and
       joins the sum (Friedman 2001)
dart   some earlier trees, drawn at random, are subtracted from the sum while a tree
       is grown; then the new tree and the dropped trees are scaled, so that together
       they do not overshoot (Rashmi and Gilad-Bachrach 2015)::

           k rounds dropped:  new tree x 1 / (k + nu), dropped ones x k / (k + nu)

       (``nu`` is the learning rate of the round, which the tree's values already include)
If a round grows several trees for each output (``num_parallel_tree``), all of them are
grown at the same scores and join when the round ends; DART drops complete rounds.

rf     every tree is grown at the start scores on its own sample; the model is
       the mean of the trees (Breiman 2001).  No later tree corrects a Newton step that
       overshoots, so leaves get the value of least loss if it follows from the
       step (:func:`finished_tree`)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import FloatArray, RowArray
from hedgerow.boosting.loop.setup.resolved import trees_of_round
from hedgerow.data.binning.bins import BinSpec
from hedgerow.growing.core.setup import newton_limit
from hedgerow.growing.core.tree import GrownTree, joined
from hedgerow.kernels.prediction.slopes import joined_slopes
from hedgerow.kernels.primitives.hashing import hash_range
from hedgerow.model.forest import NODE_FIELDS, CategoryTables, Forest
from hedgerow.objectives.base import Objective
from hedgerow.params import BoostParams
from hedgerow.schedules import rate_at

if TYPE_CHECKING:
    from hedgerow.boosting.loop.scores import AddedScores

_DROP_STREAM = 5 << 40


def finished_tree(
    tree: GrownTree, objective: Objective, params: BoostParams, rate: float
) -> GrownTree:
    """Return the tree as it joins the model; random forests get leaf values of least loss."""
    # A loss with a log link derives these values from Newton steps by ``least_by_step``; leaves of
    # other losses stay unchanged. Steps beyond the limit of the loss are cut off; ``rate`` is the
    # learning rate of the tree.
    least = getattr(getattr(objective, "single", objective), "least_by_step", None)
    if params.boosting != "rf" or params.leaf_estimation != "newton" or least is None:
        longest = rate * newton_limit(params, objective, rate * params.num_parallel_tree)
        held = tree.value if tree.vectors is None else tree.vectors
        if longest == math.inf or not (np.abs(held) > longest).any():
            return tree
        least = partial(np.clip, a_min=-longest, a_max=longest)
    if tree.vectors is not None:
        return tree.with_vectors(least(tree.vectors))
    # The order of leaves: ``least`` keeps that of sums of value and terms, but not their distances.
    found = tree.with_values(least(tree.value))
    slopes = tree.slopes
    if slopes is None or params.monotone_constraints is None:
        return found
    before, value = tree.value, found.value
    rounding = 16 * np.finfo(np.float64).eps * np.abs(value)
    low = np.maximum(slopes.low, least(before + slopes.low) - value + rounding)
    high = np.minimum(slopes.high, least(before + slopes.high) - value - rounding)
    return found.with_slopes(slopes._replace(low=np.minimum(low, 0.0), high=np.maximum(high, 0.0)))


class Additive:
    """Gradient boosting: trees join the sum of the earlier ones."""

    def __init__(self, sets: Sequence[AddedScores], params: BoostParams, n_outputs: int) -> None:
        self._sets, self._params = sets, params  # scores of the training rows are the first
        self._trees: list[GrownTree] = []
        self._n_outputs = n_outputs
        self._per_round = trees_of_round(params, n_outputs)
        self._waits = params.num_parallel_tree > 1

    def start_round(self, number: int, params: BoostParams) -> None:
        """Set the scores at which round ``number`` computes its gradients: the current ones."""

    def add(self, tree: GrownTree, output: int, rows: RowArray | None) -> None:
        """Add a new tree; ``rows`` are training rows whose scores lack it, None for all."""
        if not self._waits:
            self._join(tree, output, rows)
        self._trees.append(tree)

    def end_round(self) -> None:
        """Update the scores with the trees of the round."""
        if self._waits:
            self._join_round(len(self._trees) // self._per_round - 1)

    def _join_round(self, number: int, factor: float = 1.0) -> None:
        """Add ``factor`` times the trees of a round to all scores."""
        first = number * self._per_round
        for place, tree in enumerate(self._trees[first : first + self._per_round]):
            self._join(tree, place % self._n_outputs, None, factor)

    def _join(
        self, tree: GrownTree, output: int, rows: RowArray | None, factor: float = 1.0
    ) -> None:
        train, *others = self._sets
        if rows is None:
            train.add(tree, output, factor=factor)
        elif len(rows) > 0:
            train.add(tree, output, rows)
        for scores in others:
            scores.add(tree, output, factor=factor)

    def trees(self, n_rounds: int) -> list[GrownTree]:
        """Return the trees as scaled in the model of ``n_rounds`` rounds."""
        return self._trees[: n_rounds * self._per_round]

    def newest(self) -> list[GrownTree]:
        """Return the trees of the last round as they were grown, outputs in turn."""
        return self._trees[-self._per_round :]


class Average(Additive):
    """Random forest: predictions are the mean of the trees."""

    def trees(self, n_rounds: int) -> list[GrownTree]:
        return [tree.scaled(1.0 / n_rounds) for tree in super().trees(n_rounds)]


class Dropout(Additive):
    """DART."""

    def __init__(self, sets: Sequence[AddedScores], params: BoostParams, n_outputs: int) -> None:
        super().__init__(sets, params, n_outputs)
        self._waits = True
        self._factor = np.zeros(0)  # one for each round
        # Change of the factors by each round, for the model of an earlier round.
        self._steps: list[tuple[np.ndarray, float]] = []
        self._dropped = np.zeros(0, dtype=np.int64)

    def start_round(self, number: int, params: BoostParams) -> None:
        self._params = params
        self._dropped = self._draw(number)
        for dropped in self._dropped.tolist():
            self._join_round(dropped, -self._factor[dropped])

    def end_round(self) -> None:
        n_dropped, share = len(self._dropped), 1.0  # the divisor of all values of these rounds
        if n_dropped > 0:
            share = n_dropped + rate_at(self._params.learning_rate, len(self._steps))
        self._steps.append((self._dropped, share))
        self._factor[self._dropped] *= n_dropped / share
        self._factor = np.append(self._factor, 1.0 / share)
        for number in (*self._dropped.tolist(), len(self._factor) - 1):
            self._join_round(number, self._factor[number])

    def trees(self, n_rounds: int) -> list[GrownTree]:
        if n_rounds == 0:
            return []
        factor = np.zeros(n_rounds)
        for number, (dropped, share) in enumerate(self._steps[:n_rounds]):
            factor[dropped] *= len(dropped) / share
            factor[number] = 1.0 / share
        factors = np.repeat(factor, self._per_round)
        kept = super().trees(n_rounds)
        return [tree.scaled(factor) for tree, factor in zip(kept, factors.tolist(), strict=True)]

    def _draw(self, number: int) -> np.ndarray:
        """Draw rounds to drop: each with probability ``drop_rate``; none with ``skip_drop``."""
        params = self._params
        draws = hash_range(params.seed, _DROP_STREAM + number, 0, number + 1) * 2.0**-64
        if draws[-1] < params.skip_drop:
            return np.zeros(0, dtype=np.int64)
        chosen = np.flatnonzero(draws[:-1] < params.drop_rate)
        first = np.argsort(draws[chosen], kind="stable")[: params.max_drop]
        return np.sort(chosen[first])


MODES = {"gbdt": Additive, "dart": Dropout, "rf": Average}
"""The ensemble of each value of ``boosting``."""


def make_forest(
    trees: list[GrownTree],
    base: FloatArray,
    n_features: int,
    spec: BinSpec | None = None,
    n_parallel: int = 1,
) -> Forest:
    """Concatenate trees to a forest; ``spec`` is needed if columns are categories."""
    pieces = joined(trees) or [_NO_NODES]
    fields: dict[str, Any] = {
        name: np.concatenate([getattr(piece, name) for piece in pieces]) for name in NODE_FIELDS
    }
    sizes = [len(tree.value) for tree in trees]
    vectors = [tree.vectors for tree in trees if tree.vectors is not None]
    forest = Forest(
        **fields,
        tree_start=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        base_score=base.copy(),
        n_features=n_features,
        vectors=np.concatenate(vectors) if vectors else None,
        slopes=joined_slopes([tree.slopes for tree in trees], sizes),
        n_parallel=n_parallel,
    )
    if spec is None or not spec.is_category.any():
        return forest
    left_bins: npt.NDArray[np.uint64] = np.concatenate([piece.left_bins for piece in pieces])
    # The bin sets of category splits, one row of ``left_bins`` for each node.
    chosen = np.append(spec.is_category, False)[forest.feature]
    sets, n_bins = left_bins[chosen], spec.bin_counts
    for j in np.flatnonzero(spec.is_category).tolist():  # a set keeps only bins of levels
        kept = np.zeros(256, dtype=np.uint8)
        kept[: n_bins[j]] = 1
        mask = np.packbits(kept, bitorder="little").view("<u8").astype(np.uint64)
        sets[forest.feature[chosen] == j] &= mask
    threshold = forest.threshold.copy()
    threshold[chosen] = np.arange(len(sets))
    tables = CategoryTables(sets, spec.level_bin, spec.level_start)
    return replace(forest, threshold=threshold, categories=tables)


_NO_NODES = GrownTree(
    feature=np.zeros(0, np.int32),
    threshold=np.zeros(0, np.int64),
    bin=np.zeros(0, np.uint8),
    missing_left=np.zeros(0, np.uint8),
    left=np.zeros(0, np.int32),
    right=np.zeros(0, np.int32),
    value=np.zeros(0),
    gain=np.zeros(0),
    cover=np.zeros(0),
    count=np.zeros(0, np.int64),
    column=np.zeros(0, np.int32),
    left_bins=np.zeros((0, 4), np.uint64),
)
