r"""Trees as games: every node is a split of one player with shares, every leaf a number.

Stops at unknown categories and linear leaves are expressed as such splits.  ``o | w`` are the
branch of a row and the share of each side (:mod:`hedgerow.kernels.shapley.tree_walk`):

An unknown category ends the walk at the first split on its column
(``unknown_category="backoff"``).  A player that takes part with an unknown value ends the walk;
a player that does not take part never ends it::

        unknown?
     o | 0    \ 1 - o | 1
    node itself   the split

A linear leaf adds the term of each player that takes part.  The term of any other player is at
its center, where it is 0.  The bounds of the leaf limit the sum, so each set of terms becomes a
separate leaf::

              takes part?
           1 | 0      \ 0 | 1
     leaf with the term   leaf without it
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hedgerow.arrays import AnyArray, BoolArray, FloatArray, IntArray
from hedgerow.errors import ParameterError
from hedgerow.kernels.shapley.walk_plans import GameNodes
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

    def make_leaves(self, nodes: IntArray) -> None:
        """Turn some nodes into leaves."""
        self.left[nodes] = self.right[nodes] = nodes


def make_game(
    forest: Forest,
    players: Players,
    reached: FloatArray | None,
    unknown_slots: dict[int, int] | None = None,
    *,
    lines: bool = True,
) -> Game:
    """Return the game of a forest; ``unknown_slots`` test for unknown values that end walks."""
    if forest.slopes is not None:
        n_terms = int(np.diff(forest.slopes.start).max(initial=0))
        if n_terms > MOST_TERMS:
            raise ParameterError(
                f"a linear leaf has {n_terms} columns, and every subset is evaluated: at most "
                f"{MOST_TERMS} are possible, so this model cannot be explained."
            )
    splits = find_splits(forest)
    extra = np.array([*(unknown_slots or {}).values(), 0], dtype=np.int64)
    slots = np.concatenate([splits.slots, extra])
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
    for place, column in enumerate(unknown_slots or {}):
        asks = forest.has_sets & (forest.feature == column)
        _add_stops(nodes, np.flatnonzero(asks), len(splits.slots) + place)
    if forest.slopes is not None and lines:
        _add_lines(nodes, forest, players, len(slots) - 1)
    return _numbered(nodes, forest.tree_start[:-1], slots, _players_of_terms(forest, players))


def shares_of(forest: Forest, splits: Splits, reached: FloatArray | None) -> FloatArray:
    """Return the share of the rows of each node in its left child; 0 for a leaf.

    The divisor is the sum over both children, because numbers of rows are rounded with target
    statistics; imported models without numbers of rows have hessians.
    """
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


def _add_stops(nodes: _Nodes, asking: IntArray, slot: int) -> None:
    """End walks at some nodes if a row's value is unknown."""
    split, end = nodes.copy(asking), nodes.copy(asking)
    nodes.make_leaves(end)
    nodes.left[asking], nodes.right[asking] = end, split
    nodes.slot[asking], nodes.threshold[asking], nodes.share[asking] = slot, 0, 0.0


def _add_lines(nodes: _Nodes, forest: Forest, players: Players, slot: int) -> None:
    """Replace each linear leaf with leaves for each set of its terms."""
    slopes = forest.slopes
    assert slopes is not None
    is_line = (nodes.left == np.arange(len(nodes.left))) & (np.diff(slopes.start)[nodes.origin] > 0)
    leaves = np.flatnonzero(is_line)
    nodes.terms[leaves] = 0
    for term in range(int(np.diff(slopes.start).max(initial=0))):
        first = slopes.start[nodes.origin[leaves]]
        leaves = leaves[first + term < slopes.start[nodes.origin[leaves] + 1]]
        first = slopes.start[nodes.origin[leaves]]
        player = players.of_input[slopes.column[first + term]]
        seen = np.zeros(len(leaves), dtype=np.bool_)
        for earlier in range(term):
            seen |= players.of_input[slopes.column[first + earlier]] == player
        bits = _bits_of_player(forest, players, nodes.origin[leaves], player)
        split, new = leaves[~seen], ~seen
        inside, outside = nodes.copy(split), nodes.copy(split)
        nodes.terms[inside] |= bits[new]
        nodes.left[split], nodes.right[split] = inside, outside
        nodes.slot[split], nodes.threshold[split] = slot, _ALWAYS
        nodes.player[split], nodes.share[split] = player[new], 0.0
        leaves = np.concatenate([leaves[seen], inside, outside])


def _bits_of_player(
    forest: Forest, players: Players, origin: IntArray, player: IntArray
) -> IntArray:
    """Return the bits of the terms of a player in some leaves."""
    slopes = forest.slopes
    assert slopes is not None
    first, stop = slopes.start[origin], slopes.start[origin + 1]
    bits = np.zeros(len(origin), dtype=np.int64)
    for term in range(int((stop - first).max(initial=0))):
        there = first + term < stop
        column = slopes.column[np.where(there, first + term, 0)]
        bits |= np.where(there & (players.of_input[column] == player), 1 << term, 0)
    return bits


def _players_of_terms(forest: Forest, players: Players) -> IntArray:
    """Return tree and player of each term of a leaf, shape (n_terms, 2)."""
    slopes = forest.slopes
    if slopes is None:
        return np.zeros((0, 2), dtype=np.int64)
    node = np.repeat(np.arange(len(forest.feature)), np.diff(slopes.start))
    tree = np.searchsorted(forest.tree_start, node, side="right") - 1
    return np.column_stack([tree, players.of_input[slopes.column]])


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
