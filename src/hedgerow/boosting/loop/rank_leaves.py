"""Leaf values that are quantiles of the rows of all ranks (absolute error, quantiles, mape, hinge).

Each rank has some rows of each leaf (:class:`hedgerow.objectives.line_search.LeafRows`, in which
leaves may be empty).  The values equal those of ``LeafRows.steps_by`` for the rows of all ranks:
quantiles are found for all leaves at once, digit by digit of the keys of the steps
(:mod:`hedgerow.kernels.tables.keys`), as in :mod:`hedgerow.objectives.global_sums`; weights are
counted in integer units.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray, IntArray
from hedgerow.comm.base import Communicator
from hedgerow.errors import AllRowsNeededError
from hedgerow.kernels.primitives.exact_sum import exact_sum
from hedgerow.kernels.tables.keys import floats_of_keys, keys_of_floats
from hedgerow.objectives import Objective
from hedgerow.objectives.base import MeanLoss
from hedgerow.objectives.global_sums import merged
from hedgerow.objectives.line_search import (
    LeafRows,
    QuantileRule,
    around,
    masses_of,
    share_of,
    unit_of,
)
from hedgerow.objectives.targets import SeveralTargets

_SIGN = np.uint64(1 << 63)
_MOST_BITS = 16
_LEAST_BITS = 4
_MOST_CELLS = 1 << 22
"""Largest number of cells of a digit histogram (32 MB), for all leaves together."""

_HALF = 23
"""Number of low bits: weights are added in two parts that float64 holds exactly."""


def check_rule(objective: Objective, output: int) -> QuantileRule:
    """Return the rule of the leaves of an output; raise unless their values are quantiles."""
    loss: Any = objective
    if isinstance(objective, SeveralTargets):
        loss, output = objective.singles[output], 0
    loss = getattr(loss, "inner", loss)  # an object of the user
    rule = loss.leaf_rule(output) if isinstance(loss, MeanLoss) and loss.rowwise else None
    if not isinstance(rule, QuantileRule):
        raise AllRowsNeededError(
            f"leaf_estimation='line_search' with objective {objective.name!r} needs the rows of a "
            "leaf at once, because its leaf values are not quantiles: on several ranks use "
            "'auto', 'newton' or 'gradient'."
        )
    return rule


def unit_on_ranks(weight: FloatArray | None, n_rows: int, others: Communicator) -> float:
    """Return the unit of the weights of all rows of all ranks."""
    own = exact_sum(np.ones(n_rows) if weight is None else weight)
    return unit_of(merged([own], others)[0])


def steps_on_ranks(
    objective: Objective, output: int, rows: LeafRows, others: Communicator
) -> FloatArray:
    """Return the step of each leaf; some rank has rows of each."""
    rule = check_rule(objective, output)
    if isinstance(objective, SeveralTargets):
        rows, output = objective.rows_of_target(rows, output), 0
    return _Quantiles(rule, output, rows, others).steps()


class _Quantiles:
    """Rows of leaves with the keys of their steps and their weights in units, for quantiles."""

    def __init__(
        self, rule: QuantileRule, output: int, rows: LeafRows, others: Communicator
    ) -> None:
        self.rule, self.others, self.n_leaves = rule, others, len(rows.starts) - 1
        weight, unit = rule.weights(rows.target, rows.weight), rows.unit
        if rule.divisor is not None:  # the unit follows the divided weights
            unit = unit_on_ranks(weight, len(weight), others)
        self.leaf = np.repeat(np.arange(self.n_leaves), np.diff(rows.starts))
        self.keys = keys_of_floats(rule.wanted(rows.target, rows.raw[output]))
        self.masses, self.is_one = masses_of(weight, unit), rows.target > 0.0

    def steps(self) -> FloatArray:
        """Return the quantile of each leaf."""
        n_leaves, each = self.n_leaves, np.arange(self.n_leaves)
        levels = self._levels()
        n_rows = int(self.others.allreduce(np.array([len(self.leaf)], dtype=np.int64))[0])
        most_cells = min(_MOST_CELLS, max(1 << 10, n_rows)) // max(1, n_leaves)
        bits = min(_MOST_BITS, max(_LEAST_BITS, most_cells.bit_length() - 1))
        prefix, below = np.zeros(n_leaves, dtype=np.uint64), np.zeros(n_leaves, dtype=np.int64)
        least: FloatArray = np.zeros(0)
        most: FloatArray = np.zeros(0)
        left = 64
        while left > 0:
            step = min(bits, left)
            so_far = self._digits(prefix, left, step) + below[:, None]
            if left == 64:
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
            following, exists = self._keys_above(keys)
            middle = 0.5 * (found + floats_of_keys(np.where(exists, following, keys)))
            found = np.where(midway & exists, middle, found)
        return found + 0.0

    def _levels(self) -> FloatArray:
        """Return the level of each leaf: fixed, or the counted share of class 1."""
        if self.rule.level is not None:
            return np.full(self.n_leaves, self.rule.level)
        sums = np.zeros((2, self.n_leaves), dtype=np.int64)
        np.add.at(sums[0], self.leaf[self.is_one], self.masses[self.is_one])
        np.add.at(sums[1], self.leaf, self.masses)
        together = self.others.allreduce(sums.reshape(-1)).reshape(sums.shape)
        return share_of(together[0], together[1])

    def _digits(self, prefix: AnyArray, left: int, step: int) -> IntArray:
        """Return, for each leaf's rows with its prefix, the weight up to each next digit."""
        n_cells = len(prefix) << step
        leaf, masses, ordered = self.leaf, self.masses, self.keys.view(np.uint64) ^ _SIGN
        if left < 64:
            same = ordered >> np.uint64(left) == prefix[leaf]
            leaf, ordered, masses = leaf[same], ordered[same], masses[same]
        digit = (ordered >> np.uint64(left - step)) & np.uint64((1 << step) - 1)
        cell = (leaf << step) + digit.astype(np.int64)
        high = np.bincount(cell, masses >> _HALF, n_cells)
        low = np.bincount(cell, masses & ((1 << _HALF) - 1), n_cells)
        sums = (high.astype(np.int64) << _HALF) + low.astype(np.int64)
        return np.cumsum(self.others.allreduce(sums).reshape(len(prefix), -1), axis=1)

    def _keys_above(self, keys: IntArray) -> tuple[IntArray, AnyArray]:
        """Return the smallest key of each leaf above ``keys``, and whether there is one."""
        lowest = np.iinfo(np.int64).min
        found = np.full(len(keys), lowest, dtype=np.int64)  # complements reverse the order
        above = self.keys > keys[self.leaf]
        np.maximum.at(found, self.leaf[above], ~self.keys[above])
        together = self.others.allreduce(found, "max")
        return ~together, together != lowest
