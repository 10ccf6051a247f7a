"""The trees of a model as flat arrays.

Glossary
--------
node       index into the flat arrays; the nodes of tree t are
           ``tree_start[t] : tree_start[t + 1]``, the root first, and children
           always come after their parent
leaf       node with ``feature == -1``
threshold  64-bit key (:mod:`hedgerow.kernels.tables.keys`): a row goes left if the
           key of its value is ``<= threshold``, and a missing value goes left if
           ``missing_left`` is 1; for a category column the index of a set of bins
bin        bin of a category level; levels other than the most frequent share one
slope      coefficient of a column in a linear leaf (:mod:`hedgerow.kernels.prediction.slopes`)
output     raw score that a tree adds to: tree t adds to output
           ``t % n_outputs``, or to all outputs if leaves hold vectors
vector     leaf values of all outputs
round      ``n_parallel`` times one tree for each output; with vector leaves
           ``n_parallel`` trees

::

    tree_start  0                 5           8
    feature     2  0 -1 -1 -1     7 -1 -1
    left        1  3  0  0  0     1  0  0      relative to the tree's root
    right       2  4  0  0  0     2  0  0

If averaged forests split target statistics, the inputs of the new forest are the common columns,
the statistics of each forest, and the common crosses::

    forest 0   age | mean of city            inputs   age | mean of city | mean of city
    forest 1   age | mean of city                           (forest 0)     (forest 1)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import BoolArray, FloatArray, IntArray, distinct
from hedgerow.data.inputs import Inputs
from hedgerow.kernels.prediction.slopes import Slopes, joined_slopes, part_of_slopes, scaled_slopes

HIGHEST_KEY = int(np.iinfo(np.int64).max)
"""Threshold of a split of whole numbers that separates the missing values from all others."""

UNKNOWN_BIN = 254
MISSING_BIN = 255
"""Bins of unknown categories and of missing values in prediction."""


@dataclass(frozen=True, slots=True, eq=False)
class CategoryTables:
    """Category sets of the splits, and the bins of the category levels."""

    # uint64, shape (n_sets, 4); bit b of a set is 1 if bin b goes left.  ``missing_left`` of the
    # node decides for missing values
    sets: npt.NDArray[np.uint64]
    level_bin: npt.NDArray[np.uint8]  # uint8; bin of each level, column after column
    # int64, shape (n_features + 1,); levels of feature j are ``level_start[j] : level_start[j +
    # 1]``; a numeric column has none
    level_start: IntArray
    # whether bit ``UNKNOWN_BIN`` of a set decides for unknown categories
    unknown_in_sets: bool = False

    def bins_of(self, feature: int) -> npt.NDArray[np.uint8]:
        """Return the bin of each level of ``feature``."""
        return self.level_bin[self.level_start[feature] : self.level_start[feature + 1]]

    def bins_left(self, number: int) -> BoolArray:
        """Return which of all 256 bins go left by a set."""
        words = self.sets[number].astype("<u8")
        return np.unpackbits(words.view(np.uint8), bitorder="little").astype(np.bool_)


@dataclass(frozen=True, slots=True, eq=False)
class Forest:
    """The trees and base scores of a model; immutable."""

    feature: npt.NDArray[np.int32]  # int32, one per node; column of the split; -1 in a leaf
    # int64; largest key that goes left, or row of ``categories.sets``; 0 in a leaf
    threshold: IntArray
    missing_left: npt.NDArray[np.uint8]  # uint8; 1 if a missing value goes left; 0 in a leaf
    # left, right: int32; children, as indices relative to the root of the tree; 0 in a leaf
    left: npt.NDArray[np.int32]
    right: npt.NDArray[np.int32]
    # float64; value added to the raw score if a row ends in the node, learning rate included.  An
    # inner node keeps the value that it had as a leaf.  0 if leaves hold vectors
    value: FloatArray
    gain: FloatArray  # float64; loss reduction of the split; 0 in a leaf
    cover: FloatArray  # float64; sum of hessians of the training rows that reached the node
    count: IntArray  # int64; number of training rows that reached the node
    tree_start: IntArray  # int64, one per tree and one more; first node of each tree
    base_score: FloatArray  # float64, one per output; raw score before the first tree
    n_features: int
    # None if no column is a category
    categories: CategoryTables | None = None
    # float64, shape (n_nodes, n_outputs), optional; values of vector leaves, used instead of
    # ``value``
    vectors: FloatArray | None = None
    # linear terms added to the value of each node, or to each number of its vector, for linear
    # leaves
    slopes: Slopes | None = None
    n_parallel: int = 1  # trees for each output in a round (``num_parallel_tree``)

    @property
    def has_sets(self) -> BoolArray:
        """Mask of the nodes that split a category column."""
        if self.categories is None:
            return np.zeros(len(self.feature), dtype=np.bool_)
        has_levels = np.diff(self.categories.level_start) > 0
        return np.append(has_levels, False)[self.feature]  # feature -1 of leaves: the last entry

    @property
    def sets(self) -> npt.NDArray[np.uint64]:
        """Sets of the category splits, shape (n_sets, 4)."""
        return np.zeros((0, 4), np.uint64) if self.categories is None else self.categories.sets

    @property
    def n_trees(self) -> int:
        return len(self.tree_start) - 1

    @property
    def n_outputs(self) -> int:
        return len(self.base_score)

    @property
    def outputs_in_turn(self) -> int:
        """Outputs with trees of their own: all, or 1 if leaves hold vectors."""
        return self.n_outputs if self.vectors is None else 1

    @property
    def trees_per_round(self) -> int:
        """Trees per round: ``n_parallel`` for each output, or in all if leaves hold vectors."""
        return self.outputs_in_turn * self.n_parallel

    @property
    def n_rounds(self) -> int:
        """Number of boosting rounds."""
        return self.n_trees // self.trees_per_round

    def first_rounds(self, n_rounds: int) -> Forest:
        """Return the forest of the first ``n_rounds`` rounds."""
        return self._trees(0, min(n_rounds * self.trees_per_round, self.n_trees))

    def tree(self, index: int) -> Forest:
        """Return one tree as a forest with base score 0 and only the outputs it adds to."""
        base_score = np.zeros(1 if self.vectors is None else self.n_outputs)
        return replace(self._trees(index, index + 1), base_score=base_score, n_parallel=1)

    def _trees(self, first: int, stop: int) -> Forest:
        """Return the forest of trees ``first .. stop``."""
        start, end = int(self.tree_start[first]), int(self.tree_start[stop])
        return replace(
            self,
            **node_arrays(self, slice(start, end)),
            tree_start=self.tree_start[first : stop + 1] - start,
            vectors=None if self.vectors is None else self.vectors[start:end],
            slopes=part_of_slopes(self.slopes, start, end),
        )

    def some_trees(self, trees: IntArray, base_score: FloatArray) -> Forest:
        """Return the forest of some trees, in this order."""
        first, sizes = self.tree_start[trees], np.diff(self.tree_start)[trees]
        start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        nodes = np.arange(start[-1]) + np.repeat(first - start[:-1], sizes)
        slopes = [part_of_slopes(self.slopes, a, a + n) for a, n in zip(first, sizes, strict=True)]
        return replace(
            self,
            **node_arrays(self, nodes),
            tree_start=start,
            base_score=base_score,
            vectors=None if self.vectors is None else self.vectors[nodes],
            slopes=joined_slopes(slopes, sizes.tolist()),
        )


NODE_FIELDS: tuple[str, ...] = tuple(
    field.name
    for field in fields(Forest)
    if field.name
    not in (
        *("tree_start", "base_score", "n_features"),
        *("categories", "vectors", "slopes", "n_parallel"),
    )
)
"""Names of the arrays with one entry per node."""


def node_arrays(source: Any, part: slice | IntArray = slice(None)) -> dict[str, Any]:
    """Return a part of the per-node arrays of a forest or a tree."""
    return {name: getattr(source, name)[part] for name in NODE_FIELDS}


def joined_forests(forests: Sequence[Forest], base_score: FloatArray) -> Forest:
    """Concatenate the trees of forests whose category levels have the bins of the last forest."""
    # Trees with vectors do not go with trees without; a forest without trees goes with both.
    of_nodes: dict[str, Any] = {
        name: np.concatenate([getattr(forest, name) for forest in forests]) for name in NODE_FIELDS
    }
    before = np.cumsum([0, *(forest.tree_start[-1] for forest in forests)])
    starts = [forest.tree_start[1:] + n for forest, n in zip(forests, before, strict=False)]
    sets = [forest.sets for forest in forests]
    first_set = np.cumsum([0, *map(len, sets)])
    moved = [n * forest.has_sets for forest, n in zip(forests, first_set, strict=False)]
    of_nodes["threshold"] += np.concatenate(moved)
    lines = [forest.slopes for forest in forests]
    sizes = [len(forest.feature) for forest in forests]
    vectors = [forest.vectors for forest in forests if forest.n_trees > 0]
    found = [each for each in vectors if each is not None]
    assert len(found) in (0, len(vectors)), "trees with vectors and trees without"
    last, tables = forests[-1], forests[-1].categories
    return replace(
        last,
        **of_nodes,
        tree_start=np.concatenate([[0], *starts]).astype(np.int64),
        base_score=base_score,
        categories=None if tables is None else replace(tables, sets=np.concatenate(sets)),
        vectors=np.concatenate(found) if found else None,
        slopes=joined_slopes(lines, sizes),
    )


def without_vectors(forest: Forest) -> Forest:
    """Replace vector leaves by one tree for each output; scores stay equal to the last bit."""
    if forest.vectors is None:
        return forest
    n_outputs = forest.n_outputs
    trees = np.repeat(np.arange(forest.n_trees), n_outputs)
    repeated = forest.some_trees(trees, forest.base_score)
    assert repeated.vectors is not None
    sizes = np.diff(repeated.tree_start)
    output = np.repeat(np.tile(np.arange(n_outputs), forest.n_trees), sizes)
    value = repeated.vectors[np.arange(len(output)), output]
    return replace(repeated, value=value, vectors=None)


def used_columns(forest: Forest) -> IntArray:
    """Return the columns used by splits or linear leaves, ascending."""
    splits = forest.feature[forest.feature >= 0]
    terms = splits[:0] if forest.slopes is None else forest.slopes.column
    return distinct(np.concatenate([splits, terms])).astype(np.int64)


def renumbered(forest: Forest, column_map: npt.NDArray[np.int32], n_features: int) -> Forest:
    """Replace column ``j`` of the forest by column ``column_map[j]`` of ``n_features``."""
    # ``column_map`` has an entry for each column of ``forest``; entries of unused columns do not
    # matter. The caller changes the category tables.
    feature = np.where(forest.feature >= 0, column_map[forest.feature], np.int32(-1))
    slopes = forest.slopes
    if slopes is not None:
        slopes = slopes._replace(column=column_map[slopes.column])
    return replace(forest, feature=feature, slopes=slopes, n_features=n_features)


def average_forests(forests: Sequence[Forest]) -> Forest:
    """Return a forest whose raw score is the mean of the raw scores of ``forests``."""
    n, base_score = len(forests), np.mean([forest.base_score for forest in forests], axis=0)
    joined = joined_forests(forests, base_score)
    vectors, slopes = joined.vectors, joined.slopes
    if slopes is not None:
        slopes = slopes._replace(slope=slopes.slope / n, low=slopes.low / n, high=slopes.high / n)
    return replace(
        joined,
        value=joined.value / n,
        vectors=None if vectors is None else vectors / n,
        slopes=slopes,
    )


def blended_forests(forests: Sequence[Forest], weights: Sequence[float]) -> Forest:
    """Return a forest whose raw score is the weighted sum of the raw scores of ``forests``."""
    # Its first rounds are about the same share of the rounds of each forest, so they are a model,
    # too.
    base = np.sum([w * f.base_score for f, w in zip(forests, weights, strict=True)], axis=0)
    if any(forest.vectors is None for forest in forests):
        forests = [without_vectors(forest) for forest in forests]
    joined = joined_forests(
        [
            replace(
                one,
                value=weight * one.value,
                gain=weight * one.gain,
                vectors=None if one.vectors is None else weight * one.vectors,
                slopes=None if one.slopes is None else scaled_slopes(one.slopes, weight),
            )
            for one, weight in zip(forests, weights, strict=True)
        ],
        base,
    )
    share = [np.arange(1, forest.n_rounds + 1) / forest.n_rounds for forest in forests]
    rounds = np.argsort(np.concatenate(share), kind="stable")
    per_round = joined.trees_per_round
    return joined.some_trees((per_round * rounds[:, None] + np.arange(per_round)).reshape(-1), base)


def with_inputs_of_all(
    forests: Sequence[Forest], inputs: Sequence[Inputs]
) -> tuple[list[Forest], Inputs]:
    """Join the inputs of several forests, and renumber the columns of each forest."""
    n_kept, crosses = len(inputs[0].kept), inputs[0].crosses
    joined = Inputs(inputs[0].kept, tuple(s for one in inputs for s in one.statistics), crosses)
    moved, first = [], 0
    for forest, one in zip(forests, inputs, strict=True):
        column_map = np.arange(one.n_inputs, dtype=np.int32)
        n_own = one.n_inputs - n_kept - len(crosses)
        column_map[n_kept : n_kept + n_own] += np.int32(first)
        column_map[n_kept + n_own :] += np.int32(joined.n_inputs - one.n_inputs)
        tables = forest.categories
        if tables is not None:  # statistics and crosses have no levels
            end = np.full(joined.n_inputs - n_kept, tables.level_start[n_kept])
            tables = replace(
                tables, level_start=np.concatenate([tables.level_start[: n_kept + 1], end])
            )
        moved.append(replace(renumbered(forest, column_map, joined.n_inputs), categories=tables))
        first += n_own
    return moved, joined
