"""Plans of the walks of the module ``tree_walk`` through trees, made once per model."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.compile import kernel
from hedgerow.kernels.shapley import tree_walk

_ONE = np.uint64(1)


class GameNodes(NamedTuple):
    """Nodes of all trees as the nodes of a game of players.

    left, right        int64: children, counted over all trees; the node itself in a leaf
    condition, player  int64: condition and player of the split, counted within the tree
    share              float64: share of the left child
    leaf               int64: number of the leaf; -1 for other nodes
    """

    left: IntArray
    right: IntArray
    condition: IntArray
    player: IntArray
    share: FloatArray
    leaf: IntArray


class PathSpace(NamedTuple):
    """Scratch space: nodes to visit, and the state of the path to the current node.

    ``waiting`` is int64 (n, 4): node, depth, number of right edges that end the path, parent.
    """

    waiting: IntArray
    player: IntArray
    product: FloatArray
    n_players: IntArray
    weight: FloatArray


@kernel(inner=True)
def depth_before(space: PathSpace, depth: int, player: int) -> int:
    """Return the depth of the last edge of a player above ``depth``; 0: none."""
    above = depth - _ONE
    while above > 0 and space.player[above] != player:
        above -= _ONE
    return above


@kernel
def plan_walks(
    nodes: GameNodes,
    roots: IntArray,
    edge: npt.NDArray[np.int32],
    share: FloatArray,
    first_edge: IntArray,
    most: IntArray,
    leaf_weight: FloatArray,
    space: PathSpace,
) -> None:
    """Write the edges of all trees (:class:`hedgerow.kernels.shapley.tree_walk.Walks`)."""
    # ``most`` (n_trees, 2) becomes the depth of each tree, and the most players that decide one of
    # its leaves; ``leaf_weight`` the product of the shares above each leaf.
    n = np.uint64(0)
    for tree in range(np.uint64(len(roots))):
        first_edge[tree] = n
        space.waiting[0, 0], space.waiting[0, 1] = roots[tree], 0
        space.waiting[0, 2], space.waiting[0, 3] = 0, -1
        space.product[0], space.n_players[0], space.weight[0] = 1.0, 0, 1.0
        n_waiting = np.uint64(1)
        while n_waiting > 0:
            n_waiting -= _ONE
            node, depth = np.uint64(space.waiting[n_waiting, 0]), space.waiting[n_waiting, 1]
            turns, parent = space.waiting[n_waiting, 2], space.waiting[n_waiting, 3]
            if parent >= 0:
                write_edge(nodes, np.uint64(parent), node, np.uint64(depth), turns, edge, share,
                           n, space)  # fmt: skip
                n += _ONE
            most[tree, 0] = max(most[tree, 0], depth)
            if nodes.leaf[node] >= 0:
                most[tree, 1] = max(most[tree, 1], space.n_players[np.uint64(depth)])
                leaf_weight[np.uint64(nodes.leaf[node])] = space.weight[np.uint64(depth)]
                continue
            right = (nodes.right[node], depth + 1, turns + 1, np.int64(node))
            left = (nodes.left[node], depth + 1, np.int64(0), np.int64(node))
            for child in (right, left):
                for k in range(4):
                    space.waiting[n_waiting, k] = child[k]
                n_waiting += _ONE
    first_edge[np.uint64(len(roots))] = n


@kernel(inner=True)
def write_edge(
    nodes: GameNodes, parent: int, node: int, depth: int, turns: int,
    edge: npt.NDArray[np.int32], share: FloatArray, n: int, space: PathSpace,
) -> None:  # fmt: skip
    """Write edge ``n``, from ``parent`` to ``node``, and the state of the path below it."""
    to_right = nodes.left[parent] != node
    player = nodes.player[parent]
    before = depth_before(space, depth, player)
    own = 1.0 - nodes.share[parent] if to_right else nodes.share[parent]
    old = space.product[before] if before > 0 else 1.0
    space.player[depth], space.product[depth] = player, old * own
    above = depth - _ONE
    space.n_players[depth] = space.n_players[above] + np.int64(before == 0)
    space.weight[depth] = space.weight[above] * own
    edge[n, tree_walk.CONDITION] = nodes.condition[parent]
    edge[n, tree_walk.TURNED] = -1 if to_right else 0
    edge[n, tree_walk.DEPTH], edge[n, tree_walk.BEFORE] = depth, before
    edge[n, tree_walk.PLAYER], edge[n, tree_walk.LEAF] = player, nodes.leaf[node]
    edge[n, tree_walk.CLOSES] = min(turns, np.int64(depth) - 1) if nodes.leaf[node] >= 0 else 0
    share[n, tree_walk.SHARE], share[n, tree_walk.OLD_SHARE], share[n, tree_walk.NEW_SHARE] = (
        own,
        old,
        old * own,
    )
