"""Target statistics: mean targets of categories as numeric inputs of the trees.

Glossary
--------
statistic  mean target of the training rows with each combination of categories of one
           or two columns, shrunk towards the mean of all rows; for more than two
           classes the fraction of each class, for several targets the mean of each; for a
           column of very many levels also the number of rows
joint key  a number for the categories of a row in the columns of a statistic

A missing value counts as a category.  A combination that no training row had, for example
with an unknown category, gets the mean of all rows, and 0 as its number of rows.

Training rows do not use these means, because each mean includes the row's own target; see
:mod:`hedgerow.boosting.row_data.statistics`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hedgerow.arrays import AnyArray, BoolArray, FloatArray, IntArray
from hedgerow.data.binning.cut_sample import codes_of
from hedgerow.data.schema import Schema

TARGET = -1
"""Pseudo-class: the mean of the target itself."""

ROWS = -2
"""Pseudo-class: the number of rows, weighted relative to the mean weight."""

FIRST_TARGET = -3
"""Pseudo-class: the mean of the first of several targets; those of the others are below it."""

UNKNOWN_KEY = -1
"""Joint key of a row with an unknown category."""


@dataclass(frozen=True, slots=True, eq=False)
class Statistic:
    """Mean target, or class fractions, by category.

    The constructor makes the arrays read-only.
    """

    columns: tuple[int, ...]  # one or two category columns of the schema, ascending
    # class of each row of ``values``, ascending; or ``TARGET`` for the mean target; or the
    # pseudo-classes of several targets in their order (:func:`target_class`).  ``ROWS``, for the
    # number of rows, may come first.
    classes: tuple[int, ...]
    keys: IntArray  # int64 (n_keys,); joint keys of the training rows, ascending
    # float64 (n_classes, n_keys); fraction of each class, or mean target, for each key
    values: FloatArray
    prior: FloatArray  # float64 (n_classes,); values of all other keys

    def __post_init__(self) -> None:
        # Arrays from files are read-only, and kernels are compiled for only one kind.
        for array in (self.keys, self.values, self.prior):
            array.flags.writeable = False

    def with_classes(self, chosen: BoolArray) -> Statistic:
        """Return the statistic of the classes in a mask."""
        kept = np.flatnonzero(chosen)
        return replace(
            self,
            classes=tuple(self.classes[k] for k in kept),
            values=np.ascontiguousarray(self.values[kept]),
            prior=self.prior[kept],
        )


def target_class(k: int) -> int:
    """Return the pseudo-class for the mean of target ``k`` of several."""
    return FIRST_TARGET - k


def meaning_of(chosen: int) -> str:
    """Return the words for a class of a statistic, before the names of its columns."""
    if chosen <= FIRST_TARGET:
        return f"mean target {FIRST_TARGET - chosen} of"
    names = {ROWS: "rows of", TARGET: "mean target of"}
    return names.get(chosen, f"share of class {chosen} by")


def codes_by_column(
    values: AnyArray, schema: Schema, statistics: Sequence[Statistic]
) -> dict[int, IntArray]:
    """Return the codes of each category column that a statistic uses."""
    used = sorted({position for s in statistics for position in s.columns})
    return {j: codes_of(values[:, j], len(schema.columns[j].levels)) for j in used}


def joint_keys(codes: dict[int, IntArray], schema: Schema, columns: tuple[int, ...]) -> IntArray:
    """Return the joint key of each row, or ``UNKNOWN_KEY`` for an unknown category.

    Columns have at most 2**31 levels.
    """
    joint = np.zeros(len(codes[columns[0]]), dtype=np.int64)
    unknown = np.zeros(len(joint), dtype=np.bool_)
    for position in columns:
        n_levels = len(schema.columns[position].levels)
        joint = joint * (n_levels + 2) + codes[position]
        unknown |= codes[position] == n_levels
    joint[unknown] = UNKNOWN_KEY
    return joint
