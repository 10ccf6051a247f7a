"""A forest in the form of the kernels of Shapley values, and the rows of a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hedgerow.arrays import CACHE_LINE, FloatArray
from hedgerow.explain.game import Game
from hedgerow.kernels.shapley.player_pairs import PairSpace
from hedgerow.kernels.shapley.tree_walk import BLOCK, EDGE_FIELDS, WORD, Walks, WalkSpace
from hedgerow.kernels.shapley.walk_plans import PathSpace, plan_walks
from hedgerow.model.forest import Forest
from hedgerow.model.predict import CategoryArguments


class Batch(NamedTuple):
    """Rows of a table; see :mod:`hedgerow.kernels.prediction.predict`.

    ``numbers`` holds their values as float64 if leaves are linear.
    """

    rows: tuple[Any, ...]
    categories: CategoryArguments
    numbers: FloatArray


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

    def space(self) -> WalkSpace:
        """Make the scratch space of one thread."""
        conditions, players, level, n_sums = self.sizes
        return self._walk_space(
            conditions * (BLOCK // WORD), level, level * n_sums, players * n_sums * WORD, WORD
        )

    def row_space(self) -> WalkSpace:
        """Make scratch space for :func:`hedgerow.kernels.shapley.row_blocks.walk_row`."""
        conditions, players, level, n_sums = self.sizes
        level //= WORD
        return self._walk_space(conditions, level, level * n_sums, players * n_sums, level + 1)

    def _walk_space(self, n_words: int, *sizes: int) -> WalkSpace:
        """Make scratch space; ``sizes`` are those of its arrays of floats."""
        h, g, phi, line = scratch(*sizes)
        return WalkSpace(
            words=np.empty(n_words, dtype=np.uint64),
            taken=np.empty(self.depth + 1, dtype=np.uint64),
            opened=np.empty(self.depth + 1, dtype=np.uint64),
            h=h,
            g=g,
            phi=phi,
            line=line,
        )

    def pair_space(self) -> PairSpace:
        """Make the scratch space of one thread, for values of pairs."""
        _, players, level, n_sums = self.sizes
        part, change, pair = scratch(level, level, players * players * n_sums * WORD)
        return PairSpace(
            walk=self.space(),
            part=part,
            change=change,
            pair=pair,
            covered=np.zeros(self.depth + 1, dtype=np.int64),
            edge_at=np.zeros(self.depth + 1, dtype=np.int64),
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
    point, weight = quadrature_rules(int(n_points.max(initial=1)))
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
        point=point,
        weight=weight,
        leaf=np.ascontiguousarray(values[game.leaf_node]),
        line_node=np.where(is_line, game.leaf_node, -1) if lines else _NONE,
        line_terms=game.leaf_terms if lines else _NONE,
    )
    depth = int(most[:, 0].max(initial=1))
    sizes = (
        int(np.diff(game.first_condition).max(initial=1)),
        int(np.diff(game.first_player).max(initial=1)),
        (depth + 1) * int(n_points.max(initial=1)) * WORD,
        walks.leaf.shape[1],
    )
    return Plan(game, walks, leaf_weight, depth, sizes)


_NONE = np.zeros(0, dtype=np.int64)
_LINE = CACHE_LINE // 8


def quadrature_rules(most: int) -> tuple[FloatArray, FloatArray]:
    """Return points and weights of Gauss-Legendre quadrature on (0, 1), with 1, 2, ... points."""
    rules = [np.polynomial.legendre.leggauss(n) for n in range(1, most + 1)]
    point = np.concatenate([0.5 + 0.5 * points for points, _ in rules])
    weight = np.concatenate([0.5 * weights for _, weights in rules])
    return point, weight
