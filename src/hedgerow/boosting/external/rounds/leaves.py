"""Leaf values that are quantiles of residuals, for rows in chunks and on ranks.

The values equal those of :meth:`hedgerow.objectives.line_search.LeafRows.steps_by`, but are
found without sorting rows: for all leaves at once, digit by digit of the keys of the steps
(:mod:`hedgerow.kernels.tables.keys`), as in :mod:`hedgerow.objectives.global_sums`::

    pass 1    weight of the rows of each leaf by the first digit; for each leaf, the
              digit that reaches the level is chosen
    pass 2    the same for the second digit, of rows with the chosen first digit ...

Weights are counted in integer units, so their sums do not depend on the order.

Glossary
--------
rule    optimal step and weight of a row (:class:`hedgerow.objectives.line_search.QuantileRule`)
place   index of a leaf among the leaves of a tree
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray, IntArray, RowArray
from hedgerow.boosting.loop.leaf_steps import with_steps
from hedgerow.data.external.row_store import Chunk, RowStore, Uses
from hedgerow.data.schema import Schema
from hedgerow.growing.chunks.grower import ChunkGrower
from hedgerow.growing.core.tree import GrownTree
from hedgerow.kernels.primitives.exact_sum import ExactSum, exact_sum, weighted_sums
from hedgerow.kernels.tables.keys import floats_of_keys, keys_of_floats
from hedgerow.objectives import Objective
from hedgerow.objectives.global_sums import AllRows, merged
from hedgerow.objectives.line_search import (
    QuantileRule,
    around,
    masses_of,
    share_of,
    unit_of,
)
from hedgerow.objectives.targets import leaf_rule_of
from hedgerow.params import BoostParams

_SIGN = np.uint64(1 << 63)
_MOST_BITS = 16
_LEAST_BITS = 4
_MOST_CELLS = 1 << 22
"""Largest number of cells of a digit histogram (32 MB), for all leaves together."""

_RESIDUALS = Uses(by_row=False, columns=(), reads=("raw", "rows", "weights"), writes=())
_TREE_ROWS = Uses(by_row=False, columns=(), reads=("rows", "weights"), writes=())

_HALF = 23
"""Number of low bits: weights are added in two parts that float64 holds exactly."""


@dataclass(frozen=True, slots=True, eq=False)
class _Request:
    """A search in the leaves of a tree; ``place`` is the leaf index of each node, or -1."""

    rule: QuantileRule
    output: int
    place: IntArray
    n_leaves: int
    unit: float


class LeafQuantiles:
    """Finds the leaf values of the trees of one fit.

    Parameters
    ----------
    store : RowStore
        Store of the training rows.
    grower : ChunkGrower
        The grower of the last tree, which has added no tree since.
    objective : Objective
        Its leaf values are quantiles, see :func:`hedgerow.objectives.targets.leaf_rule_of`.
    schema : Schema
    rows : AllRows
        Training rows.
    """

    def __init__(
        self,
        store: RowStore,
        grower: ChunkGrower,
        objective: Objective,
        schema: Schema,
        rows: AllRows,
    ) -> None:
        self._store, self._grower, self._objective = store, grower, objective
        self._schema = schema
        self._communicator = rows.communicator
        total, self._n_rows = ExactSum(), 0
        for target, weight in rows.batches():
            total = total + weighted_sums(np.zeros(len(target)), weight)[1]
            self._n_rows += len(target)
        (total,) = merged([total], self._communicator)
        counts = self._communicator.allreduce(np.array([self._n_rows], dtype=np.int64))
        self._n_rows = int(counts[0])
        self._unit = unit_of(total)

    def search(self, tree: GrownTree, output: int, params: BoostParams) -> GrownTree:
        """Return the last tree, grown for ``output``, with the quantiles as leaf values.

        ``params`` are the resolved parameters of the round.
        """
        leaves = np.flatnonzero(tree.feature < 0)
        place = np.full(len(tree.left), -1, dtype=np.int64)
        place[leaves] = np.arange(len(leaves))
        rule = leaf_rule_of(self._objective, output)
        assert isinstance(rule, QuantileRule)
        requested = _Request(rule, output, place, len(leaves), self._unit_for(rule, output))
        steps = self._quantiles(requested)
        if steps is None:  # a small sample may be empty
            return tree
        return with_steps(tree, leaves, steps, params, self._schema)

    def _unit_for(self, rule: QuantileRule, output: int) -> float:
        """Return the unit of weights; for the tree's rows only if the rule changes weights."""
        if rule.divisor is None:
            return self._unit
        total = ExactSum()
        for chunk in self._store.chunks(uses=_TREE_ROWS):
            rows = self._grower.leaf_segments(chunk)[0]
            target = chunk.target_of(output)[rows]
            mass = weights_in_tree(self._grower, chunk, rows)
            total = total + exact_sum(rule.weights(target, mass))
        (total,) = merged([total], self._communicator)
        return unit_of(total)

    def _levels(self, requested: _Request) -> FloatArray:
        """Return the level of each leaf: fixed, or the counted share of class 1."""
        if requested.rule.level is not None:
            return np.full(requested.n_leaves, requested.rule.level)
        sums = np.zeros((2, requested.n_leaves), dtype=np.int64)
        for leaf, _, masses, of_one in self._rows(requested):
            np.add.at(sums[0], leaf[of_one], masses[of_one])
            np.add.at(sums[1], leaf, masses)
        together = self._communicator.allreduce(sums.reshape(-1)).reshape(sums.shape)
        return share_of(together[0], together[1])

    def _quantiles(self, requested: _Request) -> FloatArray | None:
        """Return the quantile of each leaf; None if the tree has no rows."""
        n_leaves = requested.n_leaves
        levels = self._levels(requested)
        bits = _bits_of(n_leaves, self._n_rows)
        prefix = np.zeros(n_leaves, dtype=np.uint64)
        below = np.zeros(n_leaves, dtype=np.int64)
        least: FloatArray = np.zeros(0)
        most: FloatArray = np.zeros(0)
        each = np.arange(n_leaves)
        left = 64
        while left > 0:
            step = min(bits, left)
            so_far = self._digits(requested, prefix, left, step) + below[:, None]
            if left == 64:
                if not so_far[:, -1].any():
                    return None
                least, most = around(so_far[:, -1].astype(np.float64), levels)
            chosen = (so_far.astype(np.float64) >= least[:, None]).argmax(axis=1)
            reached = so_far[each, chosen]
            below = np.where(chosen > 0, so_far[each, np.maximum(chosen, 1) - 1], below)
            prefix = (prefix << np.uint64(step)) | chosen.astype(np.uint64)
            left -= step
        keys: IntArray = (prefix ^ _SIGN).view(np.int64)
        found = floats_of_keys(keys)
        midway = reached.astype(np.float64) <= most
        if midway.any():
            following, exists = self._keys_above(requested, keys)
            middle = 0.5 * (found + floats_of_keys(np.where(exists, following, keys)))
            found = np.where(midway & exists, middle, found)
        return found + 0.0

    def _digits(self, requested: _Request, prefix: AnyArray, left: int, step: int) -> IntArray:
        """Return, for each leaf's rows with its prefix, the weight up to each next digit.

        ``left`` bits of the keys are still unknown; ``step`` of these form the digit.
        """
        n_cells = len(prefix) << step
        high, low = np.zeros(n_cells), np.zeros(n_cells)
        shift, mask = np.uint64(left - step), np.uint64((1 << step) - 1)

        for leaf, keys, masses, _ in self._rows(requested):
            ordered = keys.view(np.uint64) ^ _SIGN
            if left < 64:
                same = ordered >> np.uint64(left) == prefix[leaf]
                leaf, ordered, masses = leaf[same], ordered[same], masses[same]
            cell = (leaf << step) + ((ordered >> shift) & mask).astype(np.int64)
            high += np.bincount(cell, masses >> _HALF, n_cells)
            low += np.bincount(cell, masses & ((1 << _HALF) - 1), n_cells)
        sums = (high.astype(np.int64) << _HALF) + low.astype(np.int64)
        sums = self._communicator.allreduce(sums).reshape(len(prefix), -1)
        return np.cumsum(sums, axis=1)

    def _keys_above(self, requested: _Request, keys: IntArray) -> tuple[IntArray, AnyArray]:
        """Return the smallest key of each leaf above ``keys``, and whether there is one."""
        lowest = np.iinfo(np.int64).min
        found = np.full(len(keys), lowest, dtype=np.int64)  # complements reverse the order

        for leaf, own, _, _ in self._rows(requested):
            above = own > keys[leaf]
            np.maximum.at(found, leaf[above], ~own[above])
        together = self._communicator.allreduce(found, "max")
        return ~together, together != lowest

    def _rows(self, requested: _Request) -> Iterator[tuple[IntArray, IntArray, IntArray, AnyArray]]:
        """Yield, for the rows of each chunk: leaf, key of the step, weight in units, is class 1.

        ``raw`` includes all trees except the last one.
        """
        rule = requested.rule
        for chunk in self._store.chunks(uses=_RESIDUALS):
            rows, leaves, starts = self._grower.leaf_segments(chunk)
            if len(rows) == 0:
                continue
            leaf = np.repeat(requested.place[leaves], np.diff(starts))
            target = chunk.target_of(requested.output)[rows]
            wanted = rule.wanted(target, chunk.work.raw[requested.output][rows])
            mass = weights_in_tree(self._grower, chunk, rows)
            masses = masses_of(rule.weights(target, mass), requested.unit)
            yield leaf, keys_of_floats(wanted), masses, target > 0.0


def weights_in_tree(grower: ChunkGrower, chunk: Chunk, rows: RowArray) -> FloatArray:
    """Return weights of rows of a chunk, times what they stand for in the last tree's sample."""
    mass = np.ones(len(rows)) if chunk.weight is None else chunk.weight[rows]
    sampled = grower.row_weights(chunk, rows)
    return mass if sampled is None else mass * sampled


def _bits_of(n_leaves: int, n_rows: int) -> int:
    """Return the bits of a digit: more bits save passes; a histogram is at most as long as rows."""
    most = min(_MOST_CELLS, max(1 << 10, n_rows)) // max(1, n_leaves)
    return min(_MOST_BITS, max(_LEAST_BITS, most.bit_length() - 1))
