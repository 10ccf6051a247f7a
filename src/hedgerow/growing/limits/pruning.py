"""Cost-complexity pruning (Breiman and others, 1984, section 3.3): the weakest link first.

Glossary
--------
risk    share of a node's rows times its impurity
branch  a node and all below it; its risk is that of its leaves
alpha   ``(risk(node) - risk(branch)) / (leaves - 1)``: the price of a leaf at
        which the branch is worth no more than the node alone

Step after step the branch with the smallest alpha becomes a leaf (the first of
equal ones).  The smallest is found in a tournament over all nodes: a step takes
O(depth log nodes), not O(nodes).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hedgerow import kernel_types as kt
from hedgerow.arrays import BoolArray, FloatArray, IntArray
from hedgerow.compile import kernel


class Branches(NamedTuple):
    """State of pruning, one entry per node.

    left, right, parent  int64: -1 where there is none
    risk, branch_risk  float64
    leaves  int64: of the branch
    alive  uint8: 1 for inner nodes of the current tree; 2 for leaves; 0 for removed nodes
    winner  int64, shape (2 * width,): the tournament: ``winner[width + node]`` is the node,
            ``winner[i]`` the better one of ``winner[2 * i]`` and ``winner[2 * i + 1]``
    """

    left: kt.Int64_1D
    right: kt.Int64_1D
    parent: kt.Int64_1D
    risk: kt.Float64_1D
    branch_risk: kt.Float64_1D
    leaves: kt.Int64_1D
    alive: kt.UInt8_1D
    winner: kt.Int64_1D


@kernel(inner=True)
def alpha_of(branches: Branches, node: int) -> float:
    """Return the alpha of a node; infinity if it cannot be pruned."""
    if node >= len(branches.risk) or branches.alive[node] != 1:
        return np.inf
    gain = branches.risk[node] - branches.branch_risk[node]
    return gain / (branches.leaves[node] - 1)


@kernel(inner=True)
def replay(branches: Branches, node: int) -> None:
    """Play the matches again in which a node takes part."""
    winner = branches.winner
    at = (len(winner) // 2 + node) >> 1
    while at > 0:
        one, other = winner[2 * at], winner[2 * at + 1]
        better = alpha_of(branches, other) < alpha_of(branches, one)
        winner[at] = other if better else one
        at >>= 1


@kernel
def prune_steps(
    branches: Branches, most: float, alphas: kt.Float64_1D, risks: kt.Float64_1D, todo: kt.Int64_1D
) -> int:
    """Prune while alpha is at most ``most``; return the number of states, the first included."""
    # ``alphas`` and ``risks`` have room for one more than inner nodes, ``todo`` for all nodes.
    left, parent, winner = branches.left, branches.parent, branches.winner
    # Risk and leaves of all branches, leaf by leaf, and the first tournament.
    for node in range(len(left)):
        branches.leaves[node] = 0
        branches.branch_risk[node] = 0.0
        branches.alive[node] = 1 if left[node] >= 0 else 2
    for leaf in range(len(left)):
        if left[leaf] >= 0:
            continue
        branches.branch_risk[leaf] = branches.risk[leaf]
        above = parent[leaf]
        while above >= 0:
            branches.branch_risk[above] += branches.risk[leaf]
            branches.leaves[above] += 1
            above = parent[above]
    width = len(winner) // 2
    for i in range(width):
        winner[width + i] = i
    for at in range(width - 1, 0, -1):
        one, other = winner[2 * at], winner[2 * at + 1]
        winner[at] = other if alpha_of(branches, other) < alpha_of(branches, one) else one
    alphas[0], risks[0] = 0.0, branches.branch_risk[0]
    n_states = np.int64(1)
    while branches.alive[0] == 1:
        node = branches.winner[1] if len(branches.winner) > 1 else 0
        alpha = alpha_of(branches, node)
        if alpha > most:
            break
        size = 1
        todo[0] = node
        while size > 0:
            size -= 1
            gone = todo[size]
            if branches.alive[gone] == 0:
                continue
            was_inner = branches.alive[gone] == 1
            branches.alive[gone] = 0
            if was_inner:
                replay(branches, gone)
                todo[size] = branches.left[gone]
                todo[size + 1] = branches.right[gone]
                size += 2
        branches.alive[node] = 2
        lost = branches.leaves[node] - 1
        more = branches.risk[node] - branches.branch_risk[node]
        branches.leaves[node] = 0
        branches.branch_risk[node] = branches.risk[node]
        above = branches.parent[node]
        while above >= 0:
            branches.leaves[above] -= lost
            branches.branch_risk[above] += more
            replay(branches, above)
            above = branches.parent[above]
        alphas[n_states], risks[n_states] = alpha, branches.branch_risk[0]
        n_states += 1
    return n_states


def prune(
    left: IntArray, right: IntArray, weight: FloatArray, impurity: FloatArray, most: float
) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Prune all links that are weaker than ``most``, or as weak."""
    n_nodes = len(left)
    inner = np.flatnonzero(left >= 0)
    parent = np.full(n_nodes, -1, dtype=np.int64)
    parent[left[inner]] = inner
    parent[right[inner]] = inner
    width = 1 << max(n_nodes - 1, 1).bit_length()
    branches = Branches(
        left.astype(np.int64),
        right.astype(np.int64),
        parent,
        weight * impurity / weight[0],
        np.empty(n_nodes),
        np.empty(n_nodes, dtype=np.int64),
        np.empty(n_nodes, dtype=np.uint8),
        np.empty(2 * width, dtype=np.int64),
    )
    alphas, risks = np.empty(len(inner) + 1), np.empty(len(inner) + 1)
    n_states = prune_steps(branches, most, alphas, risks, np.empty(n_nodes + 1, dtype=np.int64))
    return alphas[:n_states], risks[:n_states], branches.alive == 2
