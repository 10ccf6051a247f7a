r"""Trees as games: every node is a split of one player with shares, every leaf a number.

The plan of a game is its form for the kernels: the walks through its trees, and their space.

A linear leaf adds the term of each player that takes part.  The term of any other player is at
its center, where it is 0.  The bounds of the leaf limit the sum, so each set of terms becomes a
separate leaf, and linear leaves are expressed as such splits.  ``o | w`` are the branch of a row
and the share of each side (:mod:`hedgerow.kernels.shapley.tree_walk`)::

              takes part?
           1 | 0      \ 0 | 1
     leaf with the term   leaf without it
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hedgerow.arrays import CACHE_LINE, AnyArray, BoolArray, FloatArray, IntArray
from hedgerow.errors import ParameterError
from hedgerow.kernels.shapley.tree_walk import (
    BLOCK,
    EDGE_FIELDS,
    WORD,
    GameNodes,
    PathSpace,
    Walks,
    WalkSpace,
    plan_walks,
)
from hedgerow.model.forest import Forest
from hedgerow.model.layout import Splits, find_splits

MOST_TERMS = 10
"""Limit on the columns of a linear leaf, because each set of them is a leaf of the game."""

_ALWAYS = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True, eq=False)
class Game:
    """The nodes of a forest as nodes of a game, with additional nodes where needed.

    Attributes
    ----------
    nodes : GameNodes
    roots : int64, one per tree
    slots : int64
        The tests of rows (:class:`hedgerow.model.layout.Splits`).
    slot, threshold : int64, one per condition, tree by tree
    player : int64, one per player of each tree
    first_condition, first_player : int64, one per tree and one more
    leaf_node, leaf_terms, leaf_tree : int64, one per leaf
        Node of the forest, bits of the terms in use (-1 for a leaf that is not linear or is
        not expanded), and tree.
    """

    nodes: GameNodes
    roots: IntArray
    slots: IntArray
    slot: IntArray
    threshold: IntArray
    player: IntArray
    first_condition: IntArray
    first_player: IntArray
    leaf_node: IntArray
    leaf_terms: IntArray
    leaf_tree: IntArray


@dataclass(slots=True, eq=False)
class _Nodes:
    """Nodes during construction; arrays have one entry per node.

    ``origin`` is the node of the forest; ``terms`` are bits of the terms in use in a leaf.
    """

    tree: IntArray
    left: IntArray
    right: IntArray
    slot: IntArray
    threshold: IntArray
    player: IntArray
    share: FloatArray
    origin: IntArray
    terms: IntArray

    def copy(self, nodes: IntArray) -> IntArray:
        """Append copies of some nodes and return their positions; a leaf is its own child."""
        first, n = len(self.tree), len(nodes)
        place = np.arange(first, first + n)
        is_leaf = self.left[nodes] == nodes
        for name in self.__dataclass_fields__:
            array = getattr(self, name)
            setattr(self, name, np.concatenate([array, array[nodes]]))
        self.left[place] = np.where(is_leaf, place, self.left[place])
        self.right[place] = np.where(is_leaf, place, self.right[place])
        return place


def make_game(
    forest: Forest, players: Players, reached: FloatArray | None, *, lines: bool = True
) -> Game:
    """Return the game of a forest."""
    if forest.slopes is not None:
        n_terms = int(np.diff(forest.slopes.start).max(initial=0))
        if n_terms > MOST_TERMS:
            raise ParameterError(
                f"a linear leaf has {n_terms} columns, and every subset is evaluated: at most "
                f"{MOST_TERMS} are possible, so this model cannot be explained."
            )
    splits = find_splits(forest)
    slots = np.append(splits.slots, 0)  # the last one tests nothing: which terms take part
    nodes = _Nodes(
        splits.tree,
        splits.left.copy(),
        splits.right.copy(),
        splits.slot,
        splits.threshold,
        players.of_input[forest.feature],
        shares_of(forest, splits, reached),
        np.arange(len(splits.tree)),
        np.full(len(splits.tree), -1),
    )
    if forest.slopes is not None and lines:
        _add_lines(nodes, forest, players, len(slots) - 1)
    terms = np.zeros((0, 2), dtype=np.int64)  # tree and player of each term of a leaf
    if forest.slopes is not None:
        tree = np.repeat(splits.tree, np.diff(forest.slopes.start))
        terms = np.column_stack([tree, players.of_input[forest.slopes.column]])
    return _numbered(nodes, forest.tree_start[:-1], slots, terms)


def shares_of(forest: Forest, splits: Splits, reached: FloatArray | None) -> FloatArray:
    """Return the share of the rows of each node in its left child; 0 for a leaf."""
    # The divisor is the sum over both children: target statistics round numbers of rows.
    inner = np.flatnonzero(forest.feature >= 0)
    known = [forest.cover, forest.count.astype(np.float64)] if reached is None else [reached]
    share, found = np.zeros(len(forest.feature)), np.zeros(len(inner), dtype=np.bool_)
    share[inner] = 0.5
    for rows in known:
        left, right = rows[splits.left[inner]], rows[splits.right[inner]]
        some = left + right > 0.0
        share[inner[some]] = left[some] / (left[some] + right[some])
        found |= some
    if len(inner) > 0 and not found.any():
        raise ParameterError(
            "the model does not store how many training rows reached its nodes, so the expected "
            "prediction for an unknown column is not defined: give rows as background."
        )
    return share


def _add_lines(nodes: _Nodes, forest: Forest, players: Players, slot: int) -> None:
    """Replace each linear leaf with leaves for each set of its terms."""
    slopes = forest.slopes
    assert slopes is not None
    is_line = (nodes.left == np.arange(len(nodes.left))) & (np.diff(slopes.start)[nodes.origin] > 0)
    leaves = np.flatnonzero(is_line)
    nodes.terms[leaves] = 0
    n_terms = int(np.diff(slopes.start).max(initial=0))
    for term in range(n_terms):
        leaves = leaves[np.diff(slopes.start)[nodes.origin[leaves]] > term]
        start, stop = slopes.start[nodes.origin[leaves]], slopes.start[nodes.origin[leaves] + 1]
        player = players.of_input[slopes.column[start + term]]
        seen = np.zeros(len(leaves), dtype=np.bool_)
        for earlier in range(term):
            seen |= players.of_input[slopes.column[start + earlier]] == player
        bits = np.zeros(len(leaves), dtype=np.int64)  # of the terms of the player
        for other in range(n_terms):
            there = start + other < stop
            column = slopes.column[np.where(there, start + other, 0)]
            own = there & (players.of_input[column] == player)
            bits |= np.where(own, 1 << other, 0)
        split, new = leaves[~seen], ~seen
        inside, outside = nodes.copy(split), nodes.copy(split)
        nodes.terms[inside] |= bits[new]
        nodes.left[split], nodes.right[split] = inside, outside
        nodes.slot[split], nodes.threshold[split] = slot, _ALWAYS
        nodes.player[split], nodes.share[split] = player[new], 0.0
        leaves = np.concatenate([leaves[seen], inside, outside])


def _numbered(nodes: _Nodes, roots: IntArray, slots: IntArray, more: IntArray) -> Game:
    """Number conditions, leaves and players (``more`` players besides the players of splits)."""
    inner = nodes.left != np.arange(len(nodes.left))
    n_trees, at = len(roots), np.flatnonzero(inner)
    requested = np.column_stack([nodes.tree[at], nodes.slot[at], nodes.threshold[at]])
    conditions, condition = np.unique(requested, axis=0, return_inverse=True)
    taking = np.column_stack([nodes.tree[at], nodes.player[at]])
    locals_, local = np.unique(np.concatenate([taking, more]), axis=0, return_inverse=True)
    local = local.reshape(-1)[: len(taking)]
    first_condition = np.searchsorted(conditions[:, 0], np.arange(n_trees + 1))
    first_player = np.searchsorted(locals_[:, 0], np.arange(n_trees + 1))
    tree = nodes.tree[at]
    leaves = np.flatnonzero(~inner)
    return Game(
        GameNodes(
            nodes.left,
            nodes.right,
            _spread(condition.reshape(-1) - first_condition[tree], inner),
            _spread(local - first_player[tree], inner),
            nodes.share,
            _spread(np.arange(len(leaves)), ~inner, -1),
        ),
        roots.astype(np.int64),
        slots,
        np.ascontiguousarray(conditions[:, 1]),
        np.ascontiguousarray(conditions[:, 2]),
        np.ascontiguousarray(locals_[:, 1]),
        first_condition,
        first_player,
        nodes.origin[leaves],
        nodes.terms[leaves],
        nodes.tree[leaves],
    )


def _spread(values: AnyArray, where: BoolArray, other: int = 0) -> IntArray:
    """Return ``values`` at the positions ``where``, and ``other`` elsewhere."""
    result = np.full(len(where), other, dtype=np.int64)
    result[where] = values
    return result


@dataclass(frozen=True, slots=True, eq=False)
class Players:
    """The players of a forest: all inputs of one column are one player.

    Statistics and crosses of two columns are separate players, whose value is divided equally
    between the two columns::

        inputs      age   mean of city   rows of city   mean of city x job
        players      0         1              1                 2
        columns     age       city           city          city and job, half each

    Attributes
    ----------
    of_input : int64, one per input
        Player of each input; -1 if no split or term uses the input.
    columns : int64, shape (n_players, 2)
        Columns of each player; the second is -1 if there is only one.
    n_columns : int
        Number of columns of the user's table.
    """

    of_input: IntArray
    columns: IntArray
    n_columns: int

    @property
    def number(self) -> int:
        """Number of players."""
        return len(self.columns)


def find_players(
    requested: IntArray, sources: Sequence[tuple[int, ...]] | None, n_columns: int
) -> Players:
    """Return the players behind the inputs that a forest uses, ascending by their columns."""
    n_inputs = n_columns if sources is None else len(sources)
    origin = np.full((n_inputs, 2), -1, dtype=np.int64)
    if sources is None:
        origin[:, 0] = np.arange(n_columns)
    else:
        for number, source in enumerate(sources):
            origin[number, : len(source)] = source
    columns, player = np.unique(origin[requested], axis=0, return_inverse=True)
    of_input = np.full(n_inputs, -1, dtype=np.int64)
    of_input[requested] = player.reshape(-1)
    return Players(of_input, columns.reshape(-1, 2), n_columns)


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """The walks through a forest.

    Attributes
    ----------
    game : Game
    walks : Walks
    leaf_weight : float64, one per leaf
        Product of the shares on the path to the leaf.
    depth : int
        Depth of the deepest leaf.
    sizes : tuple of int
        Largest number of conditions and of players of a tree; float64 of ``h`` for the rows of a
        word; values of a leaf.
    """

    game: Game
    walks: Walks
    leaf_weight: FloatArray
    depth: int
    sizes: tuple[int, int, int, int]

    def space(self, pairs: bool = False) -> WalkSpace:
        """Make the scratch space of one thread; ``pairs``: for values of pairs."""
        conditions, players, level, n_sums = self.sizes
        of_pairs = (level, level, players * players * n_sums * WORD) if pairs else (0, 0, 0)
        h, g, phi, line, part, change, pair = scratch(
            level, level * n_sums, players * n_sums * WORD, WORD, *of_pairs
        )
        taken, opened = np.empty((2, self.depth + 1), dtype=np.uint64)
        return WalkSpace(
            words=np.empty(conditions * (BLOCK // WORD), dtype=np.uint64),
            taken=taken,
            opened=opened,
            h=h,
            g=g,
            phi=phi,
            line=line,
            pairs=int(pairs),
            part=part,
            change=change,
            pair=pair,
            covered=np.zeros(self.depth + 1 if pairs else 0, dtype=np.int64),
        )


def scratch(*lengths: int) -> list[FloatArray]:
    """Return float64 arrays aligned to cache lines."""
    block = np.empty(sum(lengths) + (len(lengths) + 1) * _LINE, dtype=np.float64)
    at, parts = -block.ctypes.data % CACHE_LINE // 8, []
    for length in lengths:
        parts.append(block[at : at + length])
        at += -(-length // _LINE) * _LINE
    return parts


def make_plan(forest: Forest, game: Game) -> Plan:
    """Lay out the walks through a game."""
    n_trees, n_nodes = len(game.roots), len(game.nodes.left)
    edge = np.zeros((n_nodes - n_trees, EDGE_FIELDS), dtype=np.int32)
    share = np.zeros((n_nodes - n_trees, 3))
    first_edge = np.zeros(n_trees + 1, dtype=np.int64)
    most = np.zeros((n_trees, 2), dtype=np.int64)
    leaf_weight = np.zeros(len(game.leaf_node))
    space = PathSpace(
        np.zeros((n_nodes + 2, 4), dtype=np.int64),
        np.zeros(n_nodes + 2, dtype=np.int64),
        np.zeros(n_nodes + 2),
        np.zeros(n_nodes + 2, dtype=np.int64),
        np.zeros(n_nodes + 2),
    )
    plan_walks(game.nodes, game.roots, edge, share, first_edge, most, leaf_weight, space)
    n_points = np.maximum(1, (most[:, 1] + 1) // 2)
    # Points and weights of Gauss-Legendre quadrature on (0, 1), with 1, 2, ... points.
    most_points = int(n_points.max(initial=1))
    rules = [np.polynomial.legendre.leggauss(n) for n in range(1, most_points + 1)]
    vectors = forest.vectors
    values = forest.value[:, None] if vectors is None else vectors
    several = vectors is None and forest.n_outputs > 1
    is_line = game.leaf_terms >= 0
    lines = bool(is_line.any())
    walks = Walks(
        edge=edge,
        share=share,
        first_edge=first_edge,
        first_condition=game.first_condition,
        first_player=game.first_player,
        slot=game.slot,
        threshold=game.threshold,
        player=game.player,
        n_points=n_points,
        output=np.arange(n_trees) % (forest.n_outputs if several else 1),
        point=np.concatenate([0.5 + 0.5 * points for points, _ in rules]),
        weight=np.concatenate([0.5 * weights for _, weights in rules]),
        leaf=np.ascontiguousarray(values[game.leaf_node]),
        line_node=np.where(is_line, game.leaf_node, -1) if lines else _NONE,
        line_terms=game.leaf_terms if lines else _NONE,
    )
    depth = int(most[:, 0].max(initial=1))
    sizes = (
        int(np.diff(game.first_condition).max(initial=1)),
        int(np.diff(game.first_player).max(initial=1)),
        (depth + 1) * most_points * WORD,
        walks.leaf.shape[1],
    )
    return Plan(game, walks, leaf_weight, depth, sizes)


_NONE = np.zeros(0, dtype=np.int64)
_LINE = CACHE_LINE // 8
