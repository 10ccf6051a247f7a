r"""Shapley values of the columns of rows, one tree after the other.

Glossary
--------
player     a column that takes part in the prediction of a row, or does not
share      fraction of the training rows of a node that go to one of its children: the
           weight of the child where the player of the split does not take part
condition  the test of a split, ``key <= threshold``; nodes of a tree with the same test
           share a condition
edge       link from a node to one of its children; edges are in the order of a walk
           through the tree, left before right
before     the nearest edge of the same player above an edge; 0: none
point      a probability p with which every player takes part
factor     of a player in a leaf: ``p o + (1 - p) w``, where o is 1 if the row agrees with
           all edges of the player above the leaf, and w is the product of their shares
part       ``(o - w) / (p o + (1 - p) w)``: what the player adds to a leaf if it takes
           part, divided by its factor
local      number of a player or condition within its tree

The Shapley value of a player is the integral over p of what it adds to the expected
prediction if every other player takes part with probability p (the multilinear
extension; Owen 1972).  For a leaf that depends on u players, this is a polynomial of
degree u - 1, so Gauss-Legendre quadrature with ``u / 2`` points, rounded up, is exact
(Quadrature-TreeSHAP, arXiv 2605.04497)::

    value of a leaf at p    v * factor * factor * ...
    a player adds           v * factor * factor * ... * part of the player

One walk through the tree computes all values.  On the way down ``h`` is multiplied by the factors;
on the way up ``g`` sums the leaves below an edge.  When the walk leaves an edge, its player gets
``g`` times the change of its part along the edge.  The cost is edges times points, whatever the
depth.

::

           h = 1                    g of a = leaf 0 + leaf 1
        a /     \                   player of b gets leaf 1 * change of part at b, ...
         .       leaf 2             player of a gets g of a * change of part at a
      b / \
  leaf 0   leaf 1

Rows are lanes (:mod:`hedgerow.kernels.simd.lanes`): twice ``WIDTH`` rows walk together.  A
player has three cases at an edge: the row agrees above and here, only above, or not above.
The factors and parts of the three cases are numbers of the edge (:func:`fill_factors`).
Sums of a row depend on this row alone and are added tree by tree, so neither threads
nor batches change a bit.

Values of pairs
---------------
The interaction of two players is the integral over p of what both add together beyond what
each adds alone: in a leaf, its value times all factors times the parts of the two players.
Half of it goes to each order of the pair; the remainder of a player's value stays its own
(Lundberg et al. 2020).  When the walk leaves an edge, the part of its player has changed, and
the parts of the players above have not.  Each pair gets the change of one part times the
other part; these products add up to the product of both parts, as in the product rule.  The cost
is edges times points times players above.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hedgerow import kernel_types as kt
from hedgerow.arrays import FloatArray, IntArray
from hedgerow.compile import kernel
from hedgerow.kernels.prediction.slopes import Slopes, sum_within, term_at
from hedgerow.kernels.simd.lanes import (
    WIDTH,
    choose,
    load_floats,
    load_lanes,
    spread,
    store_floats,
    truths_of,
    word_of,
)

BLOCK = 256
"""Rows whose keys are in memory at a time."""

WORD = 64
"""Rows whose answers to a condition share one word."""

GROUP = 2 * WIDTH
"""Rows that take the walk together."""

CONDITION, TURNED, DEPTH, BEFORE, PLAYER, LEAF, CLOSES, EDGE_FIELDS = range(8)
"""Numbers of an edge: its condition; -1 if it leads to the right child, else 0; its depth, from 1;
depth of the edge before; its player; its leaf, or -1; number of edges that end with it, for a
leaf."""

SHARE, OLD_SHARE, NEW_SHARE = range(3)
"""Shares of an edge: its own, and the products for its player without it and with it."""

AGREES, DIFFERS, PART_AGREES, PART_DIFFERS, FACTORS = range(5)
"""Numbers of an edge at a point: multiplier of the factor if the row agrees here and above, and
if it agrees above only; change of the part, times the weight of the point, in the same two cases.
If the row does not agree above, the multiplier is the share, and the part does not change."""

_WIDTH = np.uint64(WIDTH)
_GROUP = np.uint64(GROUP)
_WORD = np.uint64(WORD)
_FACTORS = np.uint64(FACTORS)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_ONE = np.uint64(1)
_TWO = np.uint64(2)


class Walks(NamedTuple):
    """The walks through all trees.

    edge  int32, shape (n_edges, EDGE_FIELDS)
    share  float64, shape (n_edges, 3)
    first_edge, first_condition, first_player  int64, one per tree and one more
    slot, threshold  int64, one per condition
    player  int64, one per player of each tree: its number among all players
    n_points, output  int64, one per tree: number of points, and first output that the tree adds to
    point, weight  float64: points and weights of all rules: the rule of n points begins at
            ``n (n - 1) / 2``
    leaf  float64, shape (n_leaves, n_sums): what each leaf adds to one output, or to several
    line_node, line_terms  int64, one per leaf, or none: node of ``slopes`` where the leaf is a
            line, or -1; bits of the terms that count
    """

    edge: kt.Int32_2D
    share: kt.Float64_2D
    first_edge: kt.Int64_1D
    first_condition: kt.Int64_1D
    first_player: kt.Int64_1D
    slot: kt.Int64_1D
    threshold: kt.Int64_1D
    player: kt.Int64_1D
    n_points: kt.Int64_1D
    output: kt.Int64_1D
    point: kt.Float64_1D
    weight: kt.Float64_1D
    leaf: kt.Float64_2D
    line_node: kt.Int64_1D
    line_terms: kt.Int64_1D


class WalkSpace(NamedTuple):
    """Scratch space of one thread; its sizes are computed in :mod:`hedgerow.explain.game`."""

    words: kt.UInt64_1D
    taken: kt.UInt64_1D
    opened: kt.UInt64_1D
    h: kt.Float64_1D
    g: kt.Float64_1D
    phi: kt.Float64_1D
    line: kt.Float64_1D


class PairSpace(NamedTuple):
    """What a walk for values of pairs needs besides.

    ``part`` holds the parts of the player of each depth, ``change`` the sums of an edge times its
    change of part, ``pair`` the values of the pairs of a tree, and ``covered`` the depth at which
    the player of a depth occurs again (0: none).
    """

    part: kt.Float64_1D
    change: kt.Float64_1D
    pair: kt.Float64_1D
    covered: kt.Int64_1D


@kernel
def fill_factors(walks: Walks, first_tree: int, stop_tree: int, factors: kt.Float64_1D) -> None:
    """Write ``FACTORS`` numbers for each edge and point of some trees, one after the other."""
    at = np.uint64(0)
    for tree in range(np.uint64(first_tree), np.uint64(stop_tree)):
        n_points = np.uint64(walks.n_points[tree])
        rule = n_points * (n_points - _ONE) // _TWO
        first, stop = walks.first_edge[tree], walks.first_edge[tree + _ONE]
        for edge in range(np.uint64(first), np.uint64(stop)):
            old, new = walks.share[edge, OLD_SHARE], walks.share[edge, NEW_SHARE]
            for q in range(n_points):
                p, weight = walks.point[rule + q], walks.weight[rule + q]
                rest = 1.0 - p
                before = p + rest * old
                agrees = p + rest * new
                part = (1.0 - old) / before
                factors[at] = agrees / before
                factors[at + np.uint64(DIFFERS)] = rest * new / before
                factors[at + np.uint64(PART_AGREES)] = weight * ((1.0 - new) / agrees - part)
                factors[at + np.uint64(PART_DIFFERS)] = weight * (-1.0 / rest - part)
                at += _FACTORS


@kernel(inner=True)
def answer_conditions(
    walks: Walks, tree: int, keys: IntArray, n_rows: int, words: npt.NDArray[np.uint64]
) -> None:
    """Write a bit for each row and condition: word w of c to ``words[c * (BLOCK / WORD) + w]``."""
    first = np.uint64(walks.first_condition[tree])
    stop = np.uint64(walks.first_condition[tree + _ONE])
    at = np.uint64(0)
    for condition in range(first, stop):
        row = np.uint64(walks.slot[condition]) * np.uint64(BLOCK)
        threshold = spread(walks.threshold[condition])
        for w in range(np.uint64(BLOCK // WORD)):
            word = np.uint64(0)
            for j in range(np.uint64(0), min(max(n_rows, w * _WORD) - w * _WORD, _WORD), _WIDTH):
                word |= word_of(threshold >= load_lanes(keys, row + j)) << j
            words[at] = word
            at += _ONE
            row += _WORD


@kernel(inline=True, inner=True)
def go_down(
    space: WalkSpace, factors: FloatArray, at: int, n_points: int, n_groups: int, here: int,
    share: float, new: int, old: int, sums: int, n_sums: int,
) -> None:  # fmt: skip
    """Multiply ``h`` by the factors of an edge, and set the ``sums`` of the depth below to 0."""
    kept, none = spread(share), spread(0.0)
    step = n_points * _WORD
    for group in range(n_groups):
        new_a, new_b = truths_of(new), truths_of(new >> _WIDTH)
        old_a, old_b = truths_of(old), truths_of(old >> _WIDTH)
        new, old = new >> _GROUP, old >> _GROUP
        for q in range(n_points):
            f, i = at + q * _FACTORS, here + (group * n_points + q) * _GROUP
            agrees, differs = spread(factors[f]), spread(factors[f + _ONE])
            a = choose(new_a, agrees, choose(old_a, differs, kept))
            b = choose(new_b, agrees, choose(old_b, differs, kept))
            store_floats(space.h, i + step, load_floats(space.h, i) * a)
            store_floats(space.h, i + step + _WIDTH, load_floats(space.h, i + _WIDTH) * b)
    for k in range(n_sums):
        for i in range(np.uint64(0), n_groups * n_points * _GROUP, _WIDTH):
            store_floats(space.g, sums + k * step + i, none)


@kernel(inline=True, inner=True)
def give(
    space: WalkSpace, start: int, above: int, phi: int, factors: FloatArray, at: int,
    n_points: int, n_groups: int, new: int, old: int,
) -> None:  # fmt: skip
    """Add sums to those above; the player gets them times the change of its part."""
    none = spread(0.0)
    for group in range(n_groups):
        new_a, new_b = truths_of(new), truths_of(new >> _WIDTH)
        old_a, old_b = truths_of(old), truths_of(old >> _WIDTH)
        new, old = new >> _GROUP, old >> _GROUP
        total_a, total_b = none, none
        for q in range(n_points):
            f, i = at + q * _FACTORS + _TWO, (group * n_points + q) * _GROUP
            j, i = above + i, start + i
            agrees, differs = spread(factors[f]), spread(factors[f + _ONE])
            a, b = load_floats(space.g, i), load_floats(space.g, i + _WIDTH)
            store_floats(space.g, j, load_floats(space.g, j) + a)
            store_floats(space.g, j + _WIDTH, load_floats(space.g, j + _WIDTH) + b)
            total_a = total_a + a * choose(new_a, agrees, choose(old_a, differs, none))
            total_b = total_b + b * choose(new_b, agrees, choose(old_b, differs, none))
        store_floats(space.phi, phi, load_floats(space.phi, phi) + total_a)
        phi += _WIDTH
        store_floats(space.phi, phi, load_floats(space.phi, phi) + total_b)
        phi += _WIDTH


@kernel(inner=True)
def fill_line(
    walks: Walks, slopes: Slopes, numbers: FloatArray, leaf: int, row: int, n_rows: int,
    line: FloatArray,
) -> None:  # fmt: skip
    """Write the value of a linear leaf, with some of its terms, for each of ``n_rows`` rows."""
    node, terms = np.uint64(walks.line_node[leaf]), np.uint64(walks.line_terms[leaf])
    first, stop = np.uint64(slopes.start[node]), np.uint64(slopes.start[node + _ONE])
    for i in range(n_rows):
        total = 0.0
        for k in range(first, stop):
            if (terms >> (k - first)) & _ONE:
                total += term_at(slopes, node, k, numbers[row + i, np.uint64(slopes.column[k])])
        line[i] = walks.leaf[leaf, 0] + sum_within(slopes, node, total)


@kernel(inline=True, inner=True)
def fill_value(
    walks: Walks, slopes: Slopes, numbers: FloatArray, leaf: int, row: int, n_rows: int,
    line: FloatArray,
) -> None:  # fmt: skip
    """Write the value of a leaf for each row of a word."""
    if len(walks.line_node) > 0 and walks.line_node[leaf] >= 0:
        fill_line(walks, slopes, numbers, leaf, row, n_rows, line)
        return
    value = spread(walks.leaf[leaf, 0])
    for i in range(np.uint64(0), n_rows, _WIDTH):
        store_floats(line, i, value)


@kernel(inline=True, inner=True)
def fill_parts(
    walks: Walks, edge: int, n_points: int, n_groups: int, new: int, start: int, part: FloatArray
) -> None:
    """Write the parts of the player of an edge, below it, for the rows of a word."""
    rule = n_points * (n_points - _ONE) // _TWO
    share = walks.share[edge, NEW_SHARE]
    for q in range(n_points):
        p = walks.point[rule + q]
        agrees = spread((1.0 - share) / (p + (1.0 - p) * share))
        differs = spread(-1.0 / (1.0 - p))
        bits = new
        for group in range(n_groups):
            at = start + (group * n_points + q) * _GROUP
            store_floats(part, at, choose(truths_of(bits), agrees, differs))
            store_floats(part, at + _WIDTH, choose(truths_of(bits >> _WIDTH), agrees, differs))
            bits = bits >> _GROUP


@kernel(inline=True, inner=True)
def fill_change(
    space: WalkSpace, pairs: PairSpace, start: int, factors: FloatArray, at: int, n_points: int,
    n_groups: int, new: int, old: int,
) -> None:  # fmt: skip
    """Write half of the sums of an edge, which begin at ``start``, times its change of part."""
    none, g = spread(0.0), space.g
    for group in range(n_groups):
        new_a, new_b = truths_of(new), truths_of(new >> _WIDTH)
        old_a, old_b = truths_of(old), truths_of(old >> _WIDTH)
        new, old = new >> _GROUP, old >> _GROUP
        for q in range(n_points):
            f, i = at + q * _FACTORS + _TWO, (group * n_points + q) * _GROUP
            agrees, differs = spread(0.5 * factors[f]), spread(0.5 * factors[f + _ONE])
            part_a = choose(new_a, agrees, choose(old_a, differs, none))
            part_b = choose(new_b, agrees, choose(old_b, differs, none))
            store_floats(pairs.change, i, load_floats(g, start + i) * part_a)
            i += _WIDTH
            store_floats(pairs.change, i, load_floats(g, start + i) * part_b)


@kernel(inner=True)
def give_pairs(
    walks: Walks, space: WalkSpace, pairs: PairSpace, edge: int, n_locals: int, output: int,
    n_points: int, n_groups: int,
) -> None:  # fmt: skip
    """Add the change of an edge to the pairs of its player with each player above it."""
    depth, own = np.uint64(walks.edge[edge, DEPTH]), np.uint64(walks.edge[edge, PLAYER])
    n_sums = np.uint64(walks.leaf.shape[1])
    step = n_points * _WORD
    for above in range(_ONE, depth):
        other = np.uint64(walks.edge[np.uint64(space.opened[above]), PLAYER])
        if pairs.covered[above] > 0 or other == own:
            continue
        low, high = min(own, other), max(own, other)
        to = ((low * n_locals + high) * n_sums + output) * _WORD
        for group in range(n_groups):
            a, b = load_floats(pairs.pair, to), load_floats(pairs.pair, to + _WIDTH)
            for q in range(n_points):
                i = (group * n_points + q) * _GROUP
                j = above * step + i
                a = a + load_floats(pairs.change, i) * load_floats(pairs.part, j)
                b = b + load_floats(pairs.change, i + _WIDTH) * load_floats(pairs.part, j + _WIDTH)
            store_floats(pairs.pair, to, a)
            store_floats(pairs.pair, to + _WIDTH, b)
            to += _GROUP


@kernel(inner=True)
def fill_sums(
    walks: Walks, lines: tuple[Slopes, FloatArray], walk: WalkSpace, edge: int, row: int,
    n_rows: int, n_points: int, n_groups: int,
) -> None:  # fmt: skip
    """Write the sums of an edge to a leaf: ``h`` times what the leaf adds."""
    slopes, numbers = lines
    leaf, depth = np.uint64(walks.edge[edge, LEAF]), np.uint64(walks.edge[edge, DEPTH])
    n_sums, step = np.uint64(walks.leaf.shape[1]), n_points * _WORD
    fill_value(walks, slopes, numbers, leaf, row, n_rows, walk.line)
    for k in range(n_sums):
        own = spread(walks.leaf[leaf, k])
        for group in range(n_groups):
            for q in range(n_points):
                for half in range(_TWO):
                    in_word = group * _GROUP + half * _WIDTH
                    i = (group * n_points + q) * _GROUP + half * _WIDTH
                    value = load_floats(walk.line, in_word) if n_sums == _ONE else own
                    h = load_floats(walk.h, depth * step + i)
                    store_floats(walk.g, (depth * n_sums + k) * step + i, h * value)


@kernel(inline=True, inner=True)
def leave_edge(
    walks: Walks, space: WalkSpace, pairs: PairSpace | None, edge: int, n_locals: int,
    factors: FloatArray, at: int, n_points: int, n_groups: int,
) -> None:  # fmt: skip
    """Add the sums of an edge to the edge above, to its player, and to the player's pairs."""
    depth, before = np.uint64(walks.edge[edge, DEPTH]), np.uint64(walks.edge[edge, BEFORE])
    new, old = space.taken[depth], space.taken[before]
    n_sums, step = np.uint64(walks.leaf.shape[1]), n_points * _WORD
    phi = np.uint64(walks.edge[edge, PLAYER]) * n_sums * _WORD
    for k in range(n_sums):
        here, above = (depth * n_sums + k) * step, ((depth - _ONE) * n_sums + k) * step
        give(space, here, above, phi + k * _WORD, factors, at, n_points, n_groups, new, old)
        if pairs is not None:
            fill_change(space, pairs, here, factors, at, n_points, n_groups, new, old)
            give_pairs(walks, space, pairs, edge, n_locals, k, n_points, n_groups)
    if pairs is not None and before > np.uint64(0):
        pairs.covered[before] = 0


@kernel(inner=True)
def walk_word(
    walks: Walks, lines: tuple[Slopes, FloatArray], space: WalkSpace, pairs: PairSpace | None,
    tree: int, row: int, word: int, n_rows: int, factors: FloatArray, start: int,
) -> None:  # fmt: skip
    """Walk a tree with the rows of a word; add values of players to ``phi``, of pairs to theirs."""
    n_points, n_sums = np.uint64(walks.n_points[tree]), np.uint64(walks.leaf.shape[1])
    n_locals = np.uint64(walks.first_player[tree + _ONE] - walks.first_player[tree])
    first = np.uint64(walks.first_edge[tree])
    step, stride = n_points * _WORD, n_points * _FACTORS
    n_groups = (n_rows + (_GROUP - _ONE)) // _GROUP
    space.taken[0] = _ALL
    for i in range(np.uint64(0), n_groups * n_points * _GROUP, _WIDTH):
        store_floats(space.h, i, spread(1.0))
    for edge in range(first, np.uint64(walks.first_edge[tree + _ONE])):
        depth, before = np.uint64(walks.edge[edge, DEPTH]), np.uint64(walks.edge[edge, BEFORE])
        condition = np.uint64(walks.edge[edge, CONDITION])
        answer = space.words[condition * np.uint64(BLOCK // WORD) + word]
        old = space.taken[before]
        new = old & (answer ^ np.uint64(np.int64(walks.edge[edge, TURNED])))
        space.taken[depth] = new
        space.opened[depth] = edge
        at, is_leaf = start + (edge - first) * stride, walks.edge[edge, LEAF] >= 0
        go_down(space, factors, at, n_points, n_groups, (depth - _ONE) * step,
                walks.share[edge, SHARE], new, old, depth * n_sums * step,
                np.uint64(0) if is_leaf else n_sums)  # fmt: skip
        if pairs is not None:
            pairs.covered[depth] = 0
            if before > np.uint64(0):
                pairs.covered[before] = depth
            fill_parts(walks, edge, n_points, n_groups, new, depth * step, pairs.part)
        if not is_leaf:
            continue
        fill_sums(walks, lines, space, edge, row, n_rows, n_points, n_groups)
        for closed in range(np.uint64(walks.edge[edge, CLOSES]) + _ONE):
            inner = np.uint64(space.opened[depth - closed])
            leave_edge(walks, space, pairs, inner, n_locals, factors,
                       start + (inner - first) * stride, n_points, n_groups)  # fmt: skip


# -- plans of the walks, made once per model ----------------------------------------------------


class GameNodes(NamedTuple):
    """Nodes of all trees as the nodes of a game of players.

    left, right        int64: children, counted over all trees; the node itself in a leaf
    condition, player  int64: condition and player of the split, counted within the tree
    share              float64: share of the left child
    leaf               int64: number of the leaf; -1 for other nodes
    """

    left: kt.Int64_1D
    right: kt.Int64_1D
    condition: kt.Int64_1D
    player: kt.Int64_1D
    share: kt.Float64_1D
    leaf: kt.Int64_1D


class PathSpace(NamedTuple):
    """Scratch space: nodes to visit, and the state of the path to the current node.

    ``waiting`` is int64 (n, 4): node, depth, number of right edges that end the path, parent.
    """

    waiting: kt.Int64_2D
    player: kt.Int64_1D
    product: kt.Float64_1D
    n_players: kt.Int64_1D
    weight: kt.Float64_1D


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
    roots: kt.Int64_1D,
    edge: kt.Int32_2D,
    share: kt.Float64_2D,
    first_edge: kt.Int64_1D,
    most: kt.Int64_2D,
    leaf_weight: kt.Float64_1D,
    space: PathSpace,
) -> None:
    """Write the edges of all trees (:class:`hedgerow.kernels.shapley.Walks`)."""
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
    edge[n, CONDITION] = nodes.condition[parent]
    edge[n, TURNED] = -1 if to_right else 0
    edge[n, DEPTH], edge[n, BEFORE] = depth, before
    edge[n, PLAYER], edge[n, LEAF] = player, nodes.leaf[node]
    edge[n, CLOSES] = min(turns, np.int64(depth) - 1) if nodes.leaf[node] >= 0 else 0
    share[n, SHARE], share[n, OLD_SHARE], share[n, NEW_SHARE] = (
        own,
        old,
        old * own,
    )
