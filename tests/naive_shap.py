"""Shapley values from their definition: all coalitions of columns, node by node."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np

from hedgerow import Booster
from hedgerow.data.numbers import floats_of
from hedgerow.kernels.keys import keys_of_floats
from hedgerow.model.categories import CategoryReader
from hedgerow.model.forest import UNKNOWN_BIN
from hedgerow.model.layout import set_tables


def coalitions(n_players: int) -> list[frozenset[int]]:
    """All sets of players."""
    sizes = range(n_players + 1)
    return [frozenset(s) for k in sizes for s in itertools.combinations(range(n_players), k)]


def shapley(worth: Callable[[frozenset[int]], np.ndarray], n_players: int) -> np.ndarray:
    """Shapley values, shape (n_players, n_outputs)."""
    known = {s: worth(s) for s in coalitions(n_players)}
    values = []
    for p in range(n_players):
        total = np.zeros_like(known[frozenset()])
        for s in known:
            if p not in s:
                share = math.factorial(len(s)) * math.factorial(n_players - len(s) - 1)
                total += share / math.factorial(n_players) * (known[s | {p}] - known[s])
        values.append(total)
    return np.array(values)


def interactions(worth: Callable[[frozenset[int]], np.ndarray], n: int) -> np.ndarray:
    """Shapley interaction values, shape (n_players, n_players, n_outputs)."""
    known = {s: worth(s) for s in coalitions(n)}
    single = shapley(worth, n)
    both = np.zeros((n, n, single.shape[1]))
    for i, j in itertools.permutations(range(n), 2):
        for s in known:
            if i not in s and j not in s:
                share = math.factorial(len(s)) * math.factorial(n - len(s) - 2)
                share /= 2.0 * math.factorial(n - 1)
                both[i, j] += share * (
                    known[s | {i, j}] - known[s | {i}] - known[s | {j}] + known[s]
                )
    for i in range(n):
        both[i, i] = single[i] - both[i].sum(axis=0)
    return both


class Game:
    """Raw scores of one row where only some players are known; of all trees of a booster."""

    def __init__(self, booster: Booster, X: object, row: int) -> None:
        values, _ = booster._inputs(X, 1, "Booster")
        self.model, self.forest = booster.model, booster.model.forest
        forest, kinds = self.forest, booster.model.split_schema.kinds
        values = np.asarray(values)
        self.numbers = floats_of(values, kinds)[row]
        one = values[row : row + 1]
        keys = one if one.dtype == np.int64 else keys_of_floats(one.astype(np.float64))
        self.keys = keys[0]
        self.bins = {}
        if forest.categories is not None:
            reader = CategoryReader(forest)
            found = reader.read(one).bins[:, 0]
            self.bins = dict(zip(reader._used.tolist(), found.tolist(), strict=True))
            self.sets = set_tables(forest)[1]
        self.players = self.players_of_inputs()

    def players_of_inputs(self) -> list[int]:
        """Player of each input: its column, or a number of its own for a pair of columns."""
        inputs, n_columns = self.model.inputs, self.model.schema.n_features
        if inputs is None:
            return list(range(n_columns))
        pairs = sorted({tuple(sorted(s)) for s in inputs.sources if len(s) > 1})
        return [
            s[0] if len(s) == 1 else n_columns + pairs.index(tuple(sorted(s)))
            for s in inputs.sources
        ]

    @property
    def n_players(self) -> int:
        return max([self.model.schema.n_features - 1, *self.players]) + 1

    def worth(self, known: frozenset[int]) -> np.ndarray:
        """Raw scores where the players ``known`` are."""
        forest, scores = self.forest, self.forest.base_score.astype(float).copy()
        for tree in range(forest.n_trees):
            found = self.at(int(forest.tree_start[tree]), int(forest.tree_start[tree]), known)
            if forest.vectors is None:
                scores[tree % forest.n_outputs] += found[0]
            else:
                scores += found
        return scores

    def at(self, node: int, root: int, known: frozenset[int]) -> np.ndarray:
        forest, feature = self.forest, int(self.forest.feature[node])
        if feature < 0:
            return self.leaf(node, known)
        left, right = root + int(forest.left[node]), root + int(forest.right[node])
        if self.players[feature] in known:
            way = self.way(node, feature)
            if way is None:
                return self.leaf(node, known)
            return self.at(left if way else right, root, known)
        n_left, n_right = int(forest.count[left]), int(forest.count[right])
        share = n_left / (n_left + n_right)
        below = self.at(left, root, known), self.at(right, root, known)
        return share * below[0] + (1.0 - share) * below[1]

    def way(self, node: int, feature: int) -> bool | None:
        """Whether the row goes left; None where it stops."""
        forest = self.forest
        if forest.has_sets[node]:
            bin_ = self.bins[feature]
            if bin_ == UNKNOWN_BIN:
                return None
            word = int(self.sets[4 * int(forest.threshold[node]) + (bin_ >> 6)])
            return bool(word >> (bin_ & 63) & 1)
        if np.isnan(self.numbers[feature]):
            return bool(forest.missing_left[node])
        return bool(self.keys[feature] <= forest.threshold[node])

    def leaf(self, node: int, known: frozenset[int]) -> np.ndarray:
        forest, slopes = self.forest, self.forest.slopes
        if forest.vectors is not None:
            return forest.vectors[node]
        total = 0.0
        if slopes is not None:
            for k in range(slopes.start[node], slopes.start[node + 1]):
                column = int(slopes.column[k])
                x = self.numbers[column]
                if self.players[column] in known and np.isfinite(x):
                    total += slopes.slope[k] * (x - slopes.center[k])
            total = min(max(total, slopes.low[node]), slopes.high[node])
        return np.array([forest.value[node] + total])


def by_column(game: Game, values: np.ndarray) -> np.ndarray:
    """Values of players as those of columns: pairs are halved."""
    n_columns = game.model.schema.n_features
    found = values[:n_columns].copy()
    inputs = game.model.inputs
    if inputs is not None:
        for pair in sorted({tuple(sorted(s)) for s in inputs.sources if len(s) > 1}):
            player = game.players[[tuple(sorted(s)) for s in inputs.sources].index(pair)]
            for column in pair:
                found[column] += values[player] / 2.0
    return found


def values_of_rows(booster: Booster, X: object, rows: Sequence[int]) -> np.ndarray:
    """Shapley values of some rows, shape (n_rows, n_columns, n_outputs)."""
    found = []
    for row in rows:
        game = Game(booster, X, row)
        found.append(by_column(game, shapley(game.worth, game.n_players)))
    return np.array(found)
