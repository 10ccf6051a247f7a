"""The trees of a forest as the tour of :mod:`hedgerow.kernels.explain` needs them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import AnyArray, FloatArray, IntArray
from hedgerow.kernels.explain_tour import GROUPS, LineTerms, TreePaths, most_points
from hedgerow.kernels.slopes import no_slopes, writable_slopes
from hedgerow.model.forest import Forest
from hedgerow.model.layout import find_splits
from hedgerow.model.model import Model


@dataclass(frozen=True, slots=True, eq=False)
class Players:
    """Who takes part in the game: the columns of the user, and pairs of them.

    Attributes
    ----------
    of_input : int64
        The player of each column that the trees split.
    share : float64, shape (n_players, n_columns)
        What each column gets of a player: a statistic of two columns is halved between
        them, and all other players are columns.
    """

    of_input: IntArray
    share: FloatArray

    @property
    def n_players(self) -> int:
        """Number of columns and of pairs."""
        return len(self.share)

    @property
    def are_columns(self) -> bool:
        """Whether each player is a column, in their order."""
        return len(self.share) == self.share.shape[1]


def players_of(model: Model) -> Players:
    """The players of a model."""
    n_columns = model.schema.n_features
    if model.inputs is None:
        return Players(np.arange(n_columns, dtype=np.int64), np.eye(n_columns))
    sources = [tuple(sorted(source)) for source in model.inputs.sources]
    pairs = sorted({source for source in sources if len(source) > 1})
    number = {pair: n_columns + k for k, pair in enumerate(pairs)}
    share = np.zeros((n_columns + len(pairs), n_columns))
    share[:n_columns] = np.eye(n_columns)
    for pair, k in number.items():
        share[k, list(pair)] = 1.0 / len(pair)
    of_input = [number[s] if len(s) > 1 else s[0] for s in sources]
    return Players(np.array(of_input, dtype=np.int64), share)


class Tree(NamedTuple):
    """Shape of all trees: children, and for each node its parent, side and depth."""

    left: IntArray
    right: IntArray
    parent: IntArray
    is_right: npt.NDArray[np.bool_]
    depth: IntArray
    levels: list[IntArray]


@dataclass(frozen=True, slots=True, eq=False)
class Paths:
    """What the kernels take, and the expected raw scores.

    Attributes
    ----------
    trees : TreePaths
    lines : LineTerms
        Without the numbers of rows.
    slots : int64
        The keys that splits ask for.
    bits : int64, one per node
        Place of the player of a split among those on the path.
    base : float64, one per output
        Raw scores without knowledge of any column.
    depth, n_points : int
        Of the deepest tree, and most of any.
    """

    trees: TreePaths
    lines: LineTerms
    slots: IntArray
    bits: IntArray
    base: FloatArray
    depth: int
    n_points: int


def find_paths(forest: Forest, players: Players) -> Paths:
    """The paths of a forest."""
    splits = find_splits(forest)
    inner = forest.feature >= 0
    tree = _shape(splits.left, splits.right, splits.levels, forest.tree_start)
    player = np.full(len(inner), -1, dtype=np.int64)
    player[inner] = players.of_input[forest.feature[inner]]
    share = _shares(forest, tree, inner)
    same = _nearest_above(tree, player, player)
    above = np.where(same >= 0, tree.depth[same] + 1, -1)
    weight = np.ones(len(inner))
    reach = np.ones(len(inner))
    passed = np.where(tree.is_right, 1.0 - share[tree.parent], share[tree.parent])
    n_different = np.zeros(len(inner), dtype=np.int64)
    side, bits = _sides_towards(tree, same), np.zeros(len(inner), dtype=np.int64)
    for level in [*tree.levels, _last_leaves(tree, inner)]:
        below = level[tree.depth[level] > 0]
        reach[below] = reach[tree.parent[below]] * passed[below]
        n_different[below] = n_different[tree.parent[below]]
        split = level[inner[level]]
        again = split[same[split] >= 0]
        earlier = same[again]
        kept = np.where(side[again], 1.0 - share[earlier], share[earlier])
        weight[again] = weight[earlier] * kept
        first = split[same[split] < 0]
        bits[first] = n_different[first]
        n_different[first] += 1
        bits[again] = bits[earlier]
    value = forest.value[:, None] if forest.vectors is None else forest.vectors
    lines, n_apart, unknown_value = _lines(forest, tree, players, player, weight, share)
    leaf = ~inner
    expected = np.zeros((forest.n_trees, value.shape[1]))
    number = np.repeat(np.arange(forest.n_trees), np.diff(forest.tree_start))
    np.add.at(expected, number[leaf], reach[leaf, None] * (value + unknown_value[:, None])[leaf])
    base = forest.base_score.astype(np.float64).copy()
    if forest.vectors is None:
        np.add.at(base, np.arange(forest.n_trees) % forest.n_outputs, expected[:, 0])
    else:
        base += expected.sum(axis=0)
    most = np.zeros(forest.n_trees, dtype=np.int64)
    np.maximum.at(most, number, n_different + n_apart)
    points, n_points, point_start = _quadrature(most)
    trees = TreePaths(
        left=tree.left,
        right=tree.right,
        slot=splits.slot.astype(np.int64),
        threshold=splits.threshold.astype(np.int64),
        player=player,
        share=share,
        above=above,
        weight=weight,
        value=np.array(value, dtype=np.float64, order="C"),
        backoff=forest.has_sets.astype(np.uint8),
        root=np.array(forest.tree_start, dtype=np.int64),
        n_points=n_points,
        point_start=point_start,
        points=points,
    )
    depth = int(tree.depth.max(initial=0))
    return Paths(trees, lines, splits.slots, bits, base, depth, int(n_points.max(initial=1)))


def _shape(left: AnyArray, right: AnyArray, levels: list[IntArray], start: IntArray) -> Tree:
    n = len(left)
    parent, is_right = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.bool_)
    depth = np.zeros(n, dtype=np.int64)
    for above, level in enumerate(levels):
        parent[left[level]] = level
        parent[right[level]] = level
        is_right[right[level]] = True
        depth[left[level]] = above + 1
        depth[right[level]] = above + 1
    own = np.arange(n)
    children = [np.where(side == own, 0, side).astype(np.int64) for side in (left, right)]
    by_depth = [np.flatnonzero(depth == d) for d in range(len(levels))]
    return Tree(children[0], children[1], parent, is_right, depth, by_depth)


def _last_leaves(tree: Tree, inner: npt.NDArray[np.bool_]) -> IntArray:
    """Nodes below the last level with a split."""
    return np.flatnonzero(tree.depth == len(tree.levels))


def _shares(forest: Forest, tree: Tree, inner: npt.NDArray[np.bool_]) -> FloatArray:
    """Share of the rows of both children that are in the left one.

    Of a tree of another library whose file has no counts it is the share of the hessians;
    where there is neither, a half.
    """
    share = np.full(len(inner), 0.5)
    for known in (forest.cover, forest.count.astype(np.float64)):
        left = known[tree.left[inner]]
        total = left + known[tree.right[inner]]
        found = total > 0.0
        share[inner] = np.where(found, left / np.where(found, total, 1.0), share[inner])
    return share


def _nearest_above(tree: Tree, player: IntArray, wanted: IntArray) -> IntArray:
    """The nearest node above each that splits by the player ``wanted`` of it; -1: none."""
    found = np.full(len(player), -1, dtype=np.int64)
    left = np.flatnonzero((wanted >= 0) & (tree.depth > 0))
    at = tree.parent[left]
    while len(left) > 0:
        same = player[at] == wanted[left]
        found[left[same]] = at[same]
        go_on = ~same & (tree.depth[at] > 0)
        left, at = left[go_on], tree.parent[at[go_on]]
    return found


def _sides_towards(tree: Tree, above: IntArray) -> npt.NDArray[np.bool_]:
    """Whether the branch to each node leaves the node ``above`` it to the right."""
    side = np.zeros(len(above), dtype=np.bool_)
    left = np.flatnonzero(above >= 0)
    at = left.copy()
    while len(left) > 0:
        arrived = tree.parent[at] == above[left]
        side[left[arrived]] = tree.is_right[at[arrived]]
        left, at = left[~arrived], tree.parent[at[~arrived]]
    return side


def _quadrature(most: IntArray) -> tuple[FloatArray, IntArray, IntArray]:
    """Points and weights for trees with so many players on a path."""
    n_points = np.array([most_points(int(u)) for u in most], dtype=np.int64)
    kinds = np.unique(n_points)
    start = dict(zip(kinds.tolist(), np.cumsum([0, *kinds.tolist()]).tolist(), strict=False))
    rules = [np.polynomial.legendre.leggauss(int(k)) for k in kinds]
    points = np.concatenate([0.5 * (x + 1.0) for x, _ in rules] or [np.zeros(0)])
    parts = np.concatenate([0.5 * w for _, w in rules] or [np.zeros(0)])
    starts = np.array([start[int(k)] for k in n_points], dtype=np.int64)
    return np.ascontiguousarray(np.stack([points, parts])), n_points, starts


def _lines(
    forest: Forest,
    tree: Tree,
    players: Players,
    player: IntArray,
    weight: FloatArray,
    share: FloatArray,
) -> tuple[LineTerms, IntArray, FloatArray]:
    """Lines by player, how many of their players are off the path, and lines without columns."""
    n, slopes = len(player), forest.slopes
    if slopes is None:
        nothing = LineTerms(
            no_slopes(0),
            np.zeros(0, dtype=np.int32),
            np.zeros((0, GROUPS), dtype=np.int32),
            np.zeros((0, GROUPS), dtype=np.int32),
            np.zeros((0, GROUPS)),
            np.zeros((0, 0)),
        )
        return nothing, np.zeros(n, dtype=np.int64), np.zeros(n)
    own = np.full((n, GROUPS), -1, dtype=np.int32)
    group = np.zeros(len(slopes.column), dtype=np.int32)
    for leaf in np.flatnonzero(np.diff(slopes.start)):
        part = slice(slopes.start[leaf], slopes.start[leaf + 1])
        names, group[part] = np.unique(players.of_input[slopes.column[part]], return_inverse=True)
        own[leaf, : len(names)] = names
    depth, at_leaf = np.full((n, GROUPS), -1, dtype=np.int32), np.ones((n, GROUPS))
    for g in range(GROUPS):
        wanted = own[:, g].astype(np.int64)
        same = _nearest_above(tree, player, wanted)
        side, found = _sides_towards(tree, same), same >= 0
        depth[found, g] = tree.depth[same[found]] + 1
        kept = np.where(side[found], 1.0 - share[same[found]], share[same[found]])
        at_leaf[found, g] = weight[same[found]] * kept
    n_apart = ((own >= 0) & (depth < 0)).sum(axis=1)
    unknown = np.clip(np.zeros(n), slopes.low, slopes.high)
    lines = LineTerms(writable_slopes(slopes), group, own, depth, at_leaf, np.zeros((0, 0)))
    return lines, n_apart, unknown
