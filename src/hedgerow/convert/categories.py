"""Category columns of other libraries, and their sets as tables of at most 254 bins.

Glossary
--------
code     number of a category in the splits of the source
members  positions, among the levels of the column, of the categories that go left
bin      group of all levels that no set of the column separates; a column has
         at most 254
copy     an additional input for the same column, with separate bins; a column has several
         copies if its sets separate more than 254 groups
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hedgerow.arrays import IntArray
from hedgerow.data.categories.levels import MOST_LEVELS, Level, canonical
from hedgerow.data.schema import Column, Rounding, Schema, Temporal
from hedgerow.errors import ModelFormatError
from hedgerow.model.forest import UNKNOWN_BIN, CategoryTables


@dataclass(frozen=True, slots=True, eq=False)
class Coded:
    """A category column."""

    levels: tuple[Level, ...]  # ascending
    codes: IntArray  # int64, one per level
    rounding: Rounding = "none"
    temporal: Temporal | None = None

    @staticmethod
    def of(values: Sequence[Any], codes: Iterable[int], where: str) -> Coded:
        """Sort the categories of a column; ``where`` names it in errors."""
        kinds = {type(value) for value in values}
        if not any(kinds <= {kind} for kind in (str, int, float)) or len(set(values)) < len(values):
            raise ModelFormatError(
                f"the categories of {where} must be distinct, and all text or all numbers."
            )
        if len(values) > MOST_LEVELS:
            raise ModelFormatError(f"{where} has more than {MOST_LEVELS:,} categories.")
        if kinds == {int} and any(abs(value) >= 2**63 for value in values):
            raise ModelFormatError(f"{where} has a category beyond 64 bits.")
        order = sorted(range(len(values)), key=values.__getitem__)
        levels = tuple(canonical([values[k] for k in order]))
        return Coded(levels, np.array(list(codes), dtype=np.int64)[order])

    @staticmethod
    def of_numbers(known: Iterable[int], rounding: Rounding, where: str) -> Coded:
        """Return the column of a library whose categories are the codes themselves."""
        levels = sorted(known)
        if len(levels) > MOST_LEVELS:
            raise ModelFormatError(f"{where} has more than {MOST_LEVELS:,} categories.")
        return Coded(tuple(levels), np.array(levels, dtype=np.int64), rounding)


def schema_of(
    names: Sequence[str], named: bool, coded: Mapping[int, Coded], **rules: Any
) -> Schema:
    """Return columns of numbers and, where they are coded, of categories."""
    columns = [Column(name) for name in names]
    for j, found in coded.items():
        columns[j] = Column(names[j], "category", found.levels, found.rounding, found.temporal)
    return Schema(tuple(columns), named, **rules)


class SetTables(NamedTuple):
    """Inputs of splits, with the columns and set numbers of a forest.

    ``copies`` holds the column of each input, if a column occurs more than once.
    """

    feature: IntArray
    threshold: IntArray
    categories: CategoryTables | None
    copies: tuple[int, ...] | None


class _Copy:
    """Bins of one copy of a column, refined by each set."""

    def __init__(self, n_levels: int) -> None:
        self.bins, self.sizes = np.zeros(n_levels, np.int64), [n_levels]

    def refine(self, members: IntArray) -> bool:
        """Separate the members of a set from all others; False, without effect, if bins run out."""
        bins, counts = np.unique(self.bins[members], return_counts=True)
        cut = [(b, n) for b, n in zip(bins.tolist(), counts.tolist(), strict=True)]
        cut = [(b, n) for b, n in cut if n < self.sizes[b]]
        if len(self.sizes) + len(cut) > UNKNOWN_BIN:
            return False
        renamed = np.arange(len(self.sizes) + len(cut))
        for b, n in cut:
            renamed[b] = len(self.sizes)
            self.sizes[b] -= n
            self.sizes.append(n)
        self.bins[members] = renamed[self.bins[members]]
        return True


def set_tables_of(
    feature: IntArray, key: IntArray, members: Mapping[int, IntArray], unknown_left: bool,
    schema: Schema,
) -> SetTables:  # fmt: skip
    """Find bins for the sets of all nodes; ``members`` has those of the nodes that test a set."""
    threshold = key.copy()
    if not schema.has_categories:
        return SetTables(feature, threshold, None, None)
    is_category = np.array([*(kind == "category" for kind in schema.kinds), False])
    nodes = np.array(sorted(members), dtype=np.int64)
    if not np.array_equal(np.flatnonzero(is_category[feature]), nodes):
        raise ModelFormatError("a column is split as a number and as a category.")
    copies = {j: [_Copy(schema.n_levels(j))] for j in np.flatnonzero(is_category).tolist()}
    number = np.zeros(len(nodes), np.int64)
    for k, node in enumerate(nodes.tolist()):
        own = copies[int(feature[node])]
        if not own[-1].refine(members[node]):
            own.append(_Copy(len(own[-1].bins)))
            own[-1].refine(members[node])
        number[k] = len(own) - 1
    inputs = [j for j in range(schema.n_features) for _ in copies.get(j, [None])]
    first = np.append(np.searchsorted(inputs, np.arange(schema.n_features)), -1)
    bits = np.zeros((len(nodes), 256), dtype=np.uint8)
    for k, node in enumerate(nodes.tolist()):
        bits[k, copies[int(feature[node])][number[k]].bins[members[node]]] = 1
    bits[:, UNKNOWN_BIN] = unknown_left
    place = first[feature]
    place[nodes] += number
    threshold[nodes] = np.arange(len(nodes))
    bins = [copy.bins for j in range(schema.n_features) for copy in copies.get(j, [_Copy(0)])]
    tables = CategoryTables(
        np.packbits(bits, axis=1, bitorder="little").view("<u8").astype(np.uint64),
        np.concatenate(bins).astype(np.uint8),
        np.cumsum([0, *map(len, bins)], dtype=np.int64),
        schema.unknown == "split",
    )
    return SetTables(
        place, threshold, tables, None if len(inputs) == schema.n_features else tuple(inputs)
    )
