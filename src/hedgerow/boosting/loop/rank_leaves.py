"""Leaf values from the rows of all ranks, for losses whose leaves are searched.

Each rank has some rows of each leaf (:class:`hedgerow.objectives.line_search.LeafRows`, in which
leaves may be empty).  The values equal those of ``LeafRows.steps_by`` for the rows of all ranks:

sums        of derivatives are summed in the order of the rows of all ranks
            (:mod:`hedgerow.objectives.ordered_sum`), so that a search takes the same steps
quantiles   are found for all leaves at once, digit by digit of the keys of the steps
            (:mod:`hedgerow.kernels.tables.keys`), as in :mod:`hedgerow.objectives.global_sums`;
            weights are counted in integer units
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray, IntArray
from hedgerow.comm.base import Communicator, gather_numbers
from hedgerow.errors import AllRowsNeededError
from hedgerow.kernels.primitives.exact_sum import exact_sum
from hedgerow.kernels.tables.keys import floats_of_keys, keys_of_floats
from hedgerow.objectives import Objective
from hedgerow.objectives.global_sums import merged
from hedgerow.objectives.line_search import (
    LONGEST_STEP,
    LeafRows,
    LeafRule,
    QuantileRule,
    RootRule,
    Slopes,
    SumsRule,
    around,
    masses_of,
    roots_of_sums,
    share_of,
    unit_of,
)
from hedgerow.objectives.ordered_sum import FIELDS, part_of_sum, sum_of_parts
from hedgerow.objectives.targets import SeveralTargets, leaf_rule_of

_SIGN = np.uint64(1 << 63)
_MOST_BITS = 16
_LEAST_BITS = 4
_MOST_CELLS = 1 << 22
"""Largest number of cells of a digit histogram (32 MB), for all leaves together."""

_HALF = 23
"""Number of low bits: weights are added in two parts that float64 holds exactly."""


def check_rule(objective: Objective, output: int) -> LeafRule:
    """Return the rule by which the leaves of an output are searched; raise if there is none."""
    rule = leaf_rule_of(objective, output)
    if rule is None:
        raise AllRowsNeededError(
            f"leaf_estimation='line_search' with objective {objective.name!r} needs the rows of a "
            "leaf at once, because its leaf_steps follow no leaf_rule: on several ranks use "
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
    if isinstance(rule, QuantileRule):
        return _Quantiles(rule, output, rows, others).steps()
    counts = gather_numbers(np.diff(rows.starts), others).reshape(others.size, -1)
    sums = _LeafSums(rows, others, counts.sum(axis=0), counts[: others.rank].sum(axis=0))
    if isinstance(rule, SumsRule):
        values = rule.values
        return rule.step(*sums.of(lambda target, raw, step: values(target, raw)))
    slopes, n_leaves = rule.slopes, len(rows.starts) - 1
    low, high = np.full(n_leaves, -LONGEST_STEP), np.full(n_leaves, LONGEST_STEP)
    if rule.reach is not None:
        low, high = sums.extent(rule)

    def at(step: FloatArray) -> Slopes:
        first, second = sums.of(lambda target, raw, own: slopes(target, raw)(own), step)
        return first, second

    return roots_of_sums(at, low, high)


Values = Callable[[FloatArray, FloatArray, FloatArray], Sequence[FloatArray]]
"""A function of targets, raw scores and steps of some rows; returns the unweighted summands."""


@dataclass(frozen=True, slots=True, eq=False)
class _LeafSums:
    """Sums over the rows of leaves; ``counts`` are those of all ranks, ``before`` of lower ones."""

    rows: LeafRows
    others: Communicator
    counts: IntArray
    before: IntArray

    def of(self, values: Values, step: FloatArray | None = None) -> list[FloatArray]:
        """Return the weighted sums of ``values`` of the rows of each leaf at its ``step``."""
        rows, n_leaves = self.rows, len(self.counts)
        own = np.repeat(np.zeros(n_leaves) if step is None else step, np.diff(rows.starts))
        given = rows.target, rows.raw, own
        if len(own) == 1:  # NumPy adds up the scores of a single row in another order
            given = np.repeat(rows.target, 2, axis=0), np.repeat(rows.raw, 2, axis=1), own.repeat(2)
        found = [of_value[: len(own)] for of_value in values(*given)]
        before, counts = self.before.tolist(), self.counts.tolist()
        leaves = list(zip(pairwise(rows.starts.tolist()), before, counts, strict=True))
        parts = []
        for of_value in found:
            weighted = of_value * rows.weight
            parts += [part_of_sum(weighted[a:b], place, n) for (a, b), place, n in leaves]
        numbers = np.repeat(np.arange(len(parts)), list(map(len, parts)))
        empty = np.zeros((0, FIELDS), dtype=np.int64)
        message = np.column_stack([numbers, np.concatenate([empty, *parts])])
        gathered = gather_numbers(message.astype(np.int64).reshape(-1), self.others)
        entries = gathered.reshape(-1, 1 + FIELDS)
        n_sums = int(entries[:, 0].max()) + 1
        order = np.argsort(entries[:, 0], kind="stable")
        ends = np.cumsum(np.bincount(entries[:, 0], minlength=n_sums))
        split = np.split(entries[order, 1:], ends[:-1])
        sums = map(sum_of_parts, split, counts * (n_sums // n_leaves))
        return list(np.array(list(sums)).reshape(-1, n_leaves))

    def extent(self, rule: RootRule) -> tuple[FloatArray, FloatArray]:
        """Return the smallest and the largest ``reach`` of the rows of each leaf."""
        assert rule.reach is not None
        rows = self.rows
        most = np.full((2, len(self.counts)), keys_of_floats(np.array([-np.inf]))[0])
        present = np.flatnonzero(np.diff(rows.starts))
        if len(present) > 0:
            keys = keys_of_floats(rule.reach(rows.target, rows.raw))
            # The complement of a key has the reverse order.
            for row, values in zip(most, (~keys, keys), strict=True):
                row[present] = np.maximum.reduceat(values, rows.starts[:-1][present])
        most = self.others.allreduce(most.reshape(-1), "max").reshape(most.shape)
        return floats_of_keys(~most[0]), floats_of_keys(most[1])


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
