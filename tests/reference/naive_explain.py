"""Shapley values by definition: all coalitions of players, one after the other."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hedgerow.booster import Booster
from hedgerow.data import numbers_of, read_any
from hedgerow.data.binning.cut_sample import codes_of
from hedgerow.data.reading.columns import floats_of
from hedgerow.kernels.tables.keys import MISSING_KEY, keys_of_floats
from hedgerow.model.forest import Forest
from hedgerow.model.predict import Predictor

Value = Callable[[frozenset[int]], np.ndarray]


def shapley_values(value: Value, n_players: int) -> np.ndarray:
    """Return the Shapley value of each player: (n_players, n_outputs)."""
    worth = {s: value(s) for s in coalitions(range(n_players))}
    found = np.zeros((n_players, len(worth[frozenset()])))
    for k in range(n_players):
        others = [j for j in range(n_players) if j != k]
        for s in coalitions(others):
            weight = 1.0 / (n_players * math.comb(n_players - 1, len(s)))
            found[k] += weight * (worth[s | {k}] - worth[s])
    return found


def shapley_interactions(value: Value, n_players: int) -> np.ndarray:
    """Return half the interaction of each pair; the diagonal has the rest of each player."""
    worth = {s: value(s) for s in coalitions(range(n_players))}
    single = shapley_values(value, n_players)
    found = np.zeros((n_players, n_players, single.shape[1]))
    for i, j in itertools.permutations(range(n_players), 2):
        others = [k for k in range(n_players) if k not in (i, j)]
        for s in coalitions(others):
            weight = 0.5 / ((n_players - 1) * math.comb(n_players - 2, len(s)))
            both = worth[s | {i, j}] - worth[s | {i}] - worth[s | {j}] + worth[s]
            found[i, j] += weight * both
    for i in range(n_players):
        found[i, i] = single[i] - found[i].sum(axis=0)
    return found


def coalitions(players: Any) -> list[frozenset[int]]:
    players = list(players)
    sets = (itertools.combinations(players, n) for n in range(len(players) + 1))
    return [frozenset(s) for some in sets for s in some]


class NaiveExplainer:
    """Explain rows of a booster by the definition."""

    def __init__(self, booster: Booster) -> None:
        self.model = booster.model
        self.forest: Forest = booster.model.forest
        self.schema = booster.model.split_schema
        inputs = booster.model.inputs
        n_columns = booster.num_features
        sources = [(j,) for j in range(n_columns)] if inputs is None else list(inputs.sources)
        self.players = sorted(set(sources))
        self.player = [self.players.index(source) for source in sources]
        self.n_columns = n_columns

    def inputs(self, X: Any) -> np.ndarray:
        values = numbers_of(read_any(X, self.model.schema))
        values = values if isinstance(values, np.ndarray) else values.dense()
        inputs = self.model.inputs
        return values if inputs is None else inputs.values(values, self.model.schema)

    def values(self, X: Any, background: Any = None) -> np.ndarray:
        """Return values of shape (n_rows, n_columns, n_outputs)."""
        rows = self.inputs(X)
        games = [self._game(rows[i : i + 1], background) for i in range(len(rows))]
        halves = self._halves()
        found = [shapley_values(game, len(self.players)) for game in games]
        return np.stack([np.einsum("cp,po->co", halves, one) for one in found])

    def interactions(self, X: Any) -> np.ndarray:
        """Return interactions of shape (n_rows, n_columns, n_columns, n_outputs)."""
        rows = self.inputs(X)
        games = [self._game(rows[i : i + 1], None) for i in range(len(rows))]
        halves = self._halves()
        found = [shapley_interactions(game, len(self.players)) for game in games]
        return np.stack([np.einsum("cp,pqo,dq->cdo", halves, one, halves) for one in found])

    def _halves(self) -> np.ndarray:
        """Return the share of each player that belongs to each column."""
        halves = np.zeros((self.n_columns, len(self.players)))
        for player, columns in enumerate(self.players):
            halves[list(columns), player] = 1.0 / len(columns)
        return halves

    def _game(self, row: np.ndarray, background: Any) -> Value:
        if background is None:
            return lambda s: self.expected(row, s)
        others = self.inputs(background)
        if others.dtype != row.dtype:
            others, row = others.astype(np.float64), row.astype(np.float64)
        predictor = Predictor(self.forest, self.schema.kinds)

        def value(s: frozenset[int]) -> np.ndarray:
            known = np.array([player in s for player in self.player])
            mixed = np.where(known, row, others)
            return predictor.raw_scores(np.ascontiguousarray(mixed)).mean(axis=1)

        return value

    def expected(self, row: np.ndarray, known: frozenset[int]) -> np.ndarray:
        """Return the expected raw scores if only some players are known, weighted by rows."""
        forest = self.forest
        total = np.array(forest.base_score, dtype=np.float64)
        for tree in range(forest.n_trees):
            added = self._below(row, known, int(forest.tree_start[tree]), 0)
            if forest.vectors is None:
                total[tree % forest.n_outputs] += added[0]
            else:
                total += added
        return total

    def _below(self, row: np.ndarray, known: frozenset[int], root: int, node: int) -> np.ndarray:
        forest, at = self.forest, root + node
        if forest.feature[at] < 0:
            return self._leaf(row, known, at)
        column = int(forest.feature[at])
        left, right = int(forest.left[at]), int(forest.right[at])
        if self.player[column] in known:
            return self._below(row, known, root, left if self._goes_left(row, at) else right)
        n_left, n_right = float(forest.count[root + left]), float(forest.count[root + right])
        share = n_left / (n_left + n_right)
        below = [self._below(row, known, root, child) for child in (left, right)]
        return share * below[0] + (1.0 - share) * below[1]

    def _own(self, at: int) -> np.ndarray:
        vectors = self.forest.vectors
        return self.forest.value[at : at + 1] if vectors is None else vectors[at]

    def _leaf(self, row: np.ndarray, known: frozenset[int], at: int) -> np.ndarray:
        own, slopes = self._own(at), self.forest.slopes
        if slopes is None:
            return own
        numbers, added = floats_of(row, self.schema.kinds)[0], np.zeros(len(own))
        for output in range(len(own)):
            line = len(own) * at + output
            for k in range(slopes.start[line], slopes.start[line + 1]):
                column = int(slopes.column[k])
                if self.player[column] in known and np.isfinite(numbers[column]):
                    added[output] += slopes.slope[k] * (numbers[column] - slopes.center[k])
            added[output] = np.clip(added[output], slopes.low[line], slopes.high[line])
        return own + added

    def _goes_left(self, row: np.ndarray, at: int) -> bool:
        """Return whether the row goes left."""
        forest = self.forest
        column = int(forest.feature[at])
        value = row[:, column]
        missing_left = bool(forest.missing_left[at] == 1)
        if forest.has_sets[at]:
            tables = forest.categories
            assert tables is not None
            bins = tables.bins_of(column)
            code = int(codes_of(value, len(bins))[0])
            if code >= len(bins):
                return missing_left
            word = int(tables.sets[forest.threshold[at], bins[code] >> 6])
            return bool(word >> (int(bins[code]) & 63) & 1)
        key = value if value.dtype == np.int64 else keys_of_floats(value.astype(np.float64))
        if key[0] == MISSING_KEY:
            return missing_left
        return bool(key[0] <= forest.threshold[at])
