"""Ordered values of target statistics, and the statistics over all rows.

:mod:`hedgerow.boosting.row_data.statistics` has the glossary, and chooses the columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.data import Schema
from hedgerow.data.inputs import (
    ROWS,
    TARGET,
    UNKNOWN_KEY,
    Statistic,
    joint_keys,
    target_class,
)
from hedgerow.kernels.tables.statistics import (
    ORDER_STREAM,
    means_of_sums,
    number_keys,
    ordered_means,
    shuffle,
)
from hedgerow.objectives import Objective, SeveralTargets
from hedgerow.threads import run_blocks

MANY_LEVELS = 254
"""``target_statistics="auto"`` encodes columns with more levels than a column has bins."""

_OF_CLASSES = ("softmax", "one_vs_all")
"""Losses whose outputs are classes, each with a share of its own."""

STRENGTH = 1.0
"""Weight, in rows, of the overall mean in the mean of a category."""


@dataclass(frozen=True, slots=True, eq=False)
class StatisticsRows:
    """The input of target statistics.

    Attributes
    ----------
    codes : dict from column to int64 or int32 (n_rows,)
        Level codes of each column that a statistic uses.
    target : float64 (n_rows,), or (n_rows, n_targets)
    weight : float64 (n_rows,), or None
    """

    codes: dict[int, IntArray]
    target: FloatArray
    weight: FloatArray | None
    schema: Schema


def n_values(schema: Schema, groups: Sequence[tuple[int, ...]], objective: Objective) -> int:
    """Return the number of inputs that the statistics of these groups make."""
    return sum(n_means_of(objective) + is_counted(schema, group) for group in groups)


def is_counted(schema: Schema, group: tuple[int, ...]) -> bool:
    """Return whether the number of rows of a category is an input, too."""
    return len(group) == 1 and schema.n_levels(group[0]) > MANY_LEVELS


def compute(
    rows: StatisticsRows,
    groups: Sequence[tuple[int, ...]],
    objective: Objective,
    seed: int,
    n_copies: int,
    block: FloatArray,
    n_threads: int,
) -> tuple[Statistic, ...]:
    """Write the ordered values of all copies into ``block``; return the statistics.

    ``block`` is float64 (:func:`n_values`, n_copies * n_rows); it may be a mapped file.
    """
    trainer = _Trainer(rows, groups, objective, seed, n_copies, block)
    run_blocks(trainer.fill, len(groups), n_threads, 1)
    return trainer.statistics()


class _Trainer:
    """Computes the ordered values of all copies, and the means over all rows.

    Statistics are independent, so each is computed by one thread.
    """

    def __init__(
        self,
        rows: StatisticsRows,
        groups: Sequence[tuple[int, ...]],
        objective: Objective,
        seed: int,
        n_copies: int,
        block: FloatArray,
    ) -> None:
        schema, n_rows = rows.schema, len(rows.target)
        self._classes, self._targets = _averaged(rows.target, objective)
        # A copy of weights that are read-only: kernels are compiled for writable ones.
        weight = np.ones(n_rows) if rows.weight is None else rows.weight
        self._weight: FloatArray = np.require(weight, requirements="W")
        total = self._weight.sum()
        self._unit = float(total) / n_rows
        self._strength = STRENGTH * self._unit
        self._prior = np.array([(self._weight * y).sum() / total for y in self._targets])
        self._codes, self._schema, self._groups = rows.codes, schema, groups
        self._counted = [is_counted(schema, group) for group in groups]
        sizes = [len(self._classes) + counted for counted in self._counted]
        self._first = np.cumsum([0, *sizes])
        self._orders = [_order(n_rows, seed, copy) for copy in range(n_copies)]
        self._found: list[Statistic | None] = [None] * len(groups)
        self._block = block

    def statistics(self) -> tuple[Statistic, ...]:
        """Return the statistics in the order of the groups, after :meth:`fill`."""
        return tuple(statistic for statistic in self._found if statistic is not None)

    def fill(self, start: int, stop: int) -> None:
        """Compute groups ``start`` to ``stop``."""
        n_rows = len(self._weight)
        n_slots = 1 << n_rows.bit_length()
        for group in range(start, stop):
            joint = joint_keys(self._codes, self._schema, self._groups[group])
            codes, found = np.empty_like(joint), np.empty_like(joint)
            n_codes = number_keys(joint, np.full(n_slots, -1), codes, found)
            self._fill_group(group, codes, found[:n_codes])

    def _fill_group(self, group: int, codes: IntArray, keys: IntArray) -> None:
        n_rows, n_codes = len(codes), len(keys)
        classes, priors = self._classes, self._prior
        values = np.empty((len(classes), n_codes))
        rows = self._block[self._first[group] : self._first[group + 1]]
        if self._counted[group]:
            count, rows[0] = self._count(codes, n_codes)
            rows = rows[1:]
        for k, (target, prior) in enumerate(zip(self._targets, self._prior, strict=True)):
            row = rows[k]
            for copy, order in enumerate(self._orders):
                sums = np.zeros(2 * n_codes)
                means = row[copy * n_rows : (copy + 1) * n_rows]
                ordered_means(
                    codes, order, target, self._weight, self._strength, prior, sums, means
                )
                if copy == 0:
                    means_of_sums(sums, self._strength, prior, values[k])
        if self._counted[group]:
            classes, priors = (ROWS, *classes), np.append(0.0, priors)
            values = np.vstack([count, values])
        places = np.argsort(keys)[np.count_nonzero(keys == UNKNOWN_KEY) :]
        self._found[group] = Statistic(
            self._groups[group],
            classes,
            keys[places],
            np.ascontiguousarray(values[:, places]),
            priors,
        )

    def _count(self, codes: IntArray, n_codes: int) -> tuple[FloatArray, FloatArray]:
        """Return the rows of each code, and of each training row's code without that row."""
        mass = np.bincount(codes, weights=self._weight, minlength=n_codes)
        beside = (mass[codes] - self._weight) / self._unit
        n_copies = len(self._orders)
        return _shortened(mass / self._unit), np.tile(_shortened(beside), n_copies)


def _shortened(counts: FloatArray) -> FloatArray:
    """Round counts to float32, so that a common factor on all weights changes nothing."""
    return counts.astype(np.float32).astype(np.float64)


def _order(n_rows: int, seed: int, copy: int) -> IntArray:
    order: IntArray = np.arange(n_rows)
    shuffle(seed, ORDER_STREAM + copy, order)
    return order


def n_means_of(objective: Objective) -> int:
    """Return the number of means in each statistic: one for each class or target."""
    several = objective.name in _OF_CLASSES or isinstance(objective, SeveralTargets)
    return objective.n_outputs if several else 1


def _averaged(target: FloatArray, objective: Objective) -> tuple[tuple[int, ...], list[FloatArray]]:
    """Return the (pseudo-)classes of each statistic, and the values of which it has the means."""
    outputs = range(n_means_of(objective))
    if isinstance(objective, SeveralTargets):
        columns = [np.ascontiguousarray(target[:, k]) for k in outputs]
        return tuple(target_class(k) for k in outputs), columns
    if objective.name in _OF_CLASSES:
        return tuple(outputs), [(target == k).astype(np.float64) for k in outputs]
    return (TARGET,), [target]
