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

Rows are lanes (:mod:`hedgerow.kernels.simd.lanes`): ``WIDTH`` rows walk together.  A
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

from typing import Any, NamedTuple

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
    """Scratch space of one thread; its sizes are computed in :mod:`hedgerow.explain.game`.

    With ``pairs`` 1 the walk is for values of pairs, too: ``part`` holds the parts of the player of
    each depth, ``change`` the sums of an edge times its change of part, ``pair`` the values of the
    pairs of a tree, and ``covered`` the depth where the player of a depth occurs again (0: none).
    """

    words: kt.UInt64_1D
    taken: kt.UInt64_1D
    opened: kt.UInt64_1D
    h: kt.Float64_1D
    g: kt.Float64_1D
    phi: kt.Float64_1D
    line: kt.Float64_1D
    pairs: int
    part: kt.Float64_1D
    change: kt.Float64_1D
    pair: kt.Float64_1D
    covered: kt.Int64_1D


class Walkers(NamedTuple):
    """The rows of a word that walk a tree together.

    row, n_rows  first of them, and how many
    n_groups     groups of ``WIDTH`` rows
    n_points     points of the tree
    width        numbers of all groups at a point
    step         numbers of a depth: of all groups at all points
    """

    row: np.uint64
    n_rows: np.uint64
    n_groups: np.uint64
    n_points: np.uint64
    width: np.uint64
    step: np.uint64


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
        for w in range((n_rows + (_WORD - _ONE)) // _WORD):
            word = np.uint64(0)
            for j in range(np.uint64(0), min(n_rows - w * _WORD, _WORD), _WIDTH):
                word |= word_of(threshold >= load_lanes(keys, row + j)) << j
            words[at + w] = word
            row += _WORD
        at += np.uint64(BLOCK // WORD)


@kernel(inline=True, inner=True)
def go_down(
    space: WalkSpace, own: Walkers, factors: FloatArray, at: int, here: int, share: float, new: int,
    old: int,
) -> None:  # fmt: skip
    """Multiply ``h`` by the factors of an edge."""
    kept = spread(share)
    for group in range(own.n_groups):
        agree, agreed = truths_of(new), truths_of(old)
        new, old = new >> _WIDTH, old >> _WIDTH
        for q in range(own.n_points):
            f, i = at + q * _FACTORS, here + (group * own.n_points + q) * _WIDTH
            agrees, differs = spread(factors[f]), spread(factors[f + _ONE])
            factor = choose(agree, agrees, choose(agreed, differs, kept))
            store_floats(space.h, i + own.step, load_floats(space.h, i) * factor)


class EdgeSums(NamedTuple):
    """The sums of an edge: ``h`` times what its leaf adds, or ``g`` times 1.

    source, start  ``h`` or ``g``, and where the numbers of the depth begin
    value          in lanes
    is_line        whether the values of rows differ, and are in ``line``
    """

    source: FloatArray
    start: np.uint64
    value: Any
    is_line: bool


@kernel(inline=True, inner=True)
def give(
    space: WalkSpace, own: Walkers, sums: EdgeSums, above: int, is_first: bool, phi: int,
    factors: FloatArray, at: int, new: int, old: int,
) -> None:  # fmt: skip
    """Add sums to those above; the player gets them times the change of its part."""
    value, none = sums.value, spread(0.0)
    for group in range(own.n_groups):
        agree, agreed = truths_of(new), truths_of(old)
        new, old = new >> _WIDTH, old >> _WIDTH
        total = none
        if sums.is_line:
            value = load_floats(space.line, group * _WIDTH)
        for q in range(own.n_points):
            f, i = at + q * _FACTORS + _TWO, (group * own.n_points + q) * _WIDTH
            agrees, differs = spread(factors[f]), spread(factors[f + _ONE])
            g = load_floats(sums.source, sums.start + i) * value
            total = total + g * choose(agree, agrees, choose(agreed, differs, none))
            if not is_first:
                g = load_floats(space.g, above + i) + g
            store_floats(space.g, above + i, g)
        store_floats(space.phi, phi, load_floats(space.phi, phi) + total)
        phi += _WIDTH


@kernel(inner=True)
def fill_parts(walks: Walks, space: WalkSpace, own: Walkers, edge: int, new: int) -> None:
    """Write the parts of the player of an edge, below it, for the rows of a word."""
    part, start = space.part, np.uint64(walks.edge[edge, DEPTH]) * own.step
    rule = own.n_points * (own.n_points - _ONE) // _TWO
    share = walks.share[edge, NEW_SHARE]
    for q in range(own.n_points):
        p = walks.point[rule + q]
        agrees = spread((1.0 - share) / (p + (1.0 - p) * share))
        differs = spread(-1.0 / (1.0 - p))
        for group in range(own.n_groups):
            at = start + (group * own.n_points + q) * _WIDTH
            store_floats(part, at, choose(truths_of(new >> (group * _WIDTH)), agrees, differs))


@kernel(inner=True)
def give_pairs(
    walks: Walks, space: WalkSpace, own: Walkers, sums: EdgeSums, edge: int, n_locals: int,
    output: int, factors: FloatArray, at: int, new: int, old: int,
) -> None:  # fmt: skip
    """Add the change of an edge to the pairs of its player with each player above it."""
    depth, player = np.uint64(walks.edge[edge, DEPTH]), np.uint64(walks.edge[edge, PLAYER])
    n_sums, value, none = np.uint64(walks.leaf.shape[1]), sums.value, spread(0.0)
    # Half of the sums of the edge, times its change of part.
    for group in range(own.n_groups):
        agree, agreed = truths_of(new), truths_of(old)
        new, old = new >> _WIDTH, old >> _WIDTH
        if sums.is_line:
            value = load_floats(space.line, group * _WIDTH)
        for q in range(own.n_points):
            f, i = at + q * _FACTORS + _TWO, (group * own.n_points + q) * _WIDTH
            agrees, differs = spread(0.5 * factors[f]), spread(0.5 * factors[f + _ONE])
            part = choose(agree, agrees, choose(agreed, differs, none))
            store_floats(space.change, i, load_floats(sums.source, sums.start + i) * value * part)
    for above in range(_ONE, depth):
        other = np.uint64(walks.edge[np.uint64(space.opened[above]), PLAYER])
        if space.covered[above] > 0 or other == player:
            continue
        low, high = min(player, other), max(player, other)
        to = ((low * n_locals + high) * n_sums + output) * own.width
        for group in range(own.n_groups):
            total = load_floats(space.pair, to)
            for q in range(own.n_points):
                i = (group * own.n_points + q) * _WIDTH
                part = load_floats(space.part, above * own.step + i)
                total = total + load_floats(space.change, i) * part
            store_floats(space.pair, to, total)
            to += _WIDTH


@kernel(inner=True)
def fill_line(
    walks: Walks, lines: tuple[Slopes, FloatArray], space: WalkSpace, own: Walkers, leaf: int
) -> bool:
    """Write the value of a linear leaf, with some of its terms, for each row; else return False."""
    if len(walks.line_node) == 0 or walks.line_node[leaf] < 0:
        return False
    (slopes, numbers), node = lines, np.uint64(walks.line_node[leaf])
    terms, first = np.uint64(walks.line_terms[leaf]), np.uint64(slopes.start[node])
    for i in range(own.n_rows):
        total = 0.0
        for k in range(first, np.uint64(slopes.start[node + _ONE])):
            if (terms >> (k - first)) & _ONE:
                x = numbers[own.row + i, np.uint64(slopes.column[k])]
                total += term_at(slopes, node, k, x)
        space.line[i] = walks.leaf[leaf, 0] + sum_within(slopes, node, total)
    return True


@kernel(inner=True)
def walk_word(
    walks: Walks, lines: tuple[Slopes, FloatArray], space: WalkSpace, own: Walkers, tree: int,
    word: int, factors: FloatArray, start: int,
) -> None:  # fmt: skip
    """Walk a tree with the rows of a word; add values of players to ``phi``, of pairs to theirs."""
    n_sums, first = np.uint64(walks.leaf.shape[1]), np.uint64(walks.first_edge[tree])
    n_locals = np.uint64(walks.first_player[tree + _ONE] - walks.first_player[tree])
    step, stride, none = own.step, own.n_points * _FACTORS, np.uint64(0)
    space.taken[0] = _ALL
    for i in range(none, step, _WIDTH):
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
        go_down(space, own, factors, at, (depth - _ONE) * step, walks.share[edge, SHARE], new, old)
        if space.pairs == 1:
            space.covered[depth] = 0
            if before > none:
                space.covered[before] = depth
            fill_parts(walks, space, own, edge, new)
        if not is_leaf:
            continue
        leaf = np.uint64(walks.edge[edge, LEAF])
        is_line = fill_line(walks, lines, space, own, leaf)
        # Add the sums of all edges that end here to those above, to their players, and to pairs.
        for closed in range(np.uint64(walks.edge[edge, CLOSES]) + _ONE):
            here = depth - closed
            inner = np.uint64(space.opened[here])
            before, is_first = np.uint64(walks.edge[inner, BEFORE]), walks.edge[inner, TURNED] == 0
            new, old, at = space.taken[here], space.taken[before], start + (inner - first) * stride
            phi = np.uint64(walks.edge[inner, PLAYER]) * n_sums * own.width
            for k in range(n_sums):
                sums = EdgeSums(space.h, here * step, spread(walks.leaf[leaf, k]), is_line)
                if closed > none:
                    sums = EdgeSums(space.g, (here * n_sums + k) * step, spread(1.0), False)
                above = ((here - _ONE) * n_sums + k) * step
                to = phi + k * own.width
                give(space, own, sums, above, is_first, to, factors, at, new, old)
                if space.pairs == 1:
                    give_pairs(walks, space, own, sums, inner, n_locals, k, factors, at, new, old)
            if space.pairs == 1 and before > none:
                space.covered[before] = 0


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
                # Write the edge from the parent, and the state of the path below it.
                split, here = np.uint64(parent), np.uint64(depth)
                to_right, player = nodes.left[split] != node, nodes.player[split]
                above = here - _ONE
                before = above  # depth of the last edge of the same player; 0: none
                while before > 0 and space.player[before] != player:
                    before -= _ONE
                own = 1.0 - nodes.share[split] if to_right else nodes.share[split]
                old = space.product[before] if before > 0 else 1.0
                space.player[here], space.product[here] = player, old * own
                space.n_players[here] = space.n_players[above] + np.int64(before == 0)
                space.weight[here] = space.weight[above] * own
                edge[n, CONDITION] = nodes.condition[split]
                edge[n, TURNED] = -1 if to_right else 0
                edge[n, DEPTH], edge[n, BEFORE] = here, before
                edge[n, PLAYER], edge[n, LEAF] = player, nodes.leaf[node]
                edge[n, CLOSES] = min(turns, depth - 1) if nodes.leaf[node] >= 0 else 0
                share[n, SHARE], share[n, OLD_SHARE], share[n, NEW_SHARE] = own, old, old * own
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
