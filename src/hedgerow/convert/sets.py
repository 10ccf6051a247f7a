"""Category sets of another library as tables of at most 254 bins.

Glossary
--------
members  positions, among the levels of the column, of the categories that go left
bin      group of all levels that no set of the column separates; a column has
         at most 254
copy     an additional input for the same column, with separate bins; a column has several
         copies if its sets separate more than 254 groups
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import BoolArray, IntArray
from hedgerow.data.schema import Schema
from hedgerow.errors import ModelFormatError
from hedgerow.model.forest import UNKNOWN_BIN, CategoryTables


@dataclass(frozen=True, slots=True, eq=False)
class CategorySets:
    """Category sets, by number.

    Attributes
    ----------
    is_set : bool, one per node
        Whether the node tests a set; then its ``key`` is the number of the set.  Length 0 if there
        are no sets.
    members : sequence of int64 arrays
        Distinct positions of levels.
    unknown_left : bool, one per set
        Whether values that are not a level go left.
    """

    is_set: BoolArray
    members: Sequence[IntArray]
    unknown_left: BoolArray

    @staticmethod
    def none() -> CategorySets:
        """Return an object for a model in which no node tests a set."""
        # Length 1 broadcasts with any number of nodes.
        return CategorySets(np.zeros(1, np.bool_), (), np.zeros(0, np.bool_))


@dataclass(frozen=True, slots=True, eq=False)
class SetTables:
    """Inputs of splits, with the columns and set numbers of a forest.

    Attributes
    ----------
    feature, threshold : int64, one per node
    copies : tuple of int, or None
        Column of each input, if a column occurs more than once.
    """

    feature: IntArray
    threshold: IntArray
    categories: CategoryTables | None
    copies: tuple[int, ...] | None


@dataclass(eq=False)
class _Copy:
    """Bins of one copy of a column, refined by each set."""

    bins: IntArray
    sizes: list[int]
    sets: list[int]


def set_tables_of(
    sets: CategorySets, key: IntArray, feature: IntArray, kept: IntArray, schema: Schema
) -> SetTables:
    """Find bins for all sets."""
    feature, threshold = feature[kept], key[kept].copy()
    if not schema.has_categories:
        return SetTables(feature, threshold, None, None)
    asks = np.zeros(len(kept), np.bool_)
    if len(sets.members):
        asks = sets.is_set[kept] & (feature >= 0)
    of_category = np.array([*(kind == "category" for kind in schema.kinds), False])[feature]
    if (of_category != asks).any():
        raise ModelFormatError("a column is split as a number and as a category.")
    nodes = np.flatnonzero(asks)
    copies = _copies_of(sets, threshold[nodes], feature[nodes], schema)
    order: list[tuple[int, _Copy | None]] = [
        (j, copy) for j in range(schema.n_features) for copy in copies.get(j, [None])
    ]
    inputs = tuple(j for j, _ in order)
    first = {j: place for place, j in reversed(list(enumerate(inputs)))}
    place = np.array([*(first[j] for j in range(schema.n_features)), -1], dtype=np.int64)
    new_feature = place[feature]
    words = np.zeros((len(nodes), 4), dtype=np.uint64)
    for j, found in copies.items():
        for number, copy in enumerate(found):
            for k in copy.sets:
                node = int(nodes[k])
                new_feature[node] = first[j] + number
                requested = int(threshold[node])
                words[k] = _words(
                    copy.bins[sets.members[requested]], bool(sets.unknown_left[requested])
                )
    threshold[nodes] = np.arange(len(nodes))
    return SetTables(
        new_feature,
        threshold,
        _tables(words, order, schema),
        None if len(inputs) == schema.n_features else inputs,
    )


def _copies_of(
    sets: CategorySets, numbers: IntArray, feature: IntArray, schema: Schema
) -> dict[int, list[_Copy]]:
    """Return copies of each category column, with the splits (by position) of each."""
    copies = {
        j: [_Copy(np.zeros(schema.n_levels(j), np.int64), [schema.n_levels(j)], [])]
        for j in range(schema.n_features)
        if schema.kinds[j] == "category"
    }
    for k, (number, j) in enumerate(zip(numbers.tolist(), feature.tolist(), strict=True)):
        members = sets.members[number]
        if not _refine(copies[j][-1], members):
            n_levels = schema.n_levels(j)
            copies[j].append(_Copy(np.zeros(n_levels, np.int64), [n_levels], []))
            _refine(copies[j][-1], members)
        copies[j][-1].sets.append(k)
    return copies


def _refine(copy: _Copy, members: IntArray) -> bool:
    """Separate the members of a set from all others; False, without effect, if bins run out."""
    bins, counts = np.unique(copy.bins[members], return_counts=True)
    cut = [(int(b), int(n)) for b, n in zip(bins, counts, strict=True) if n < copy.sizes[int(b)]]
    if len(copy.sizes) + len(cut) > UNKNOWN_BIN:
        return False
    renamed = np.arange(len(copy.sizes) + len(cut))
    for b, n in cut:
        renamed[b] = len(copy.sizes)
        copy.sizes[b] -= n
        copy.sizes.append(n)
    copy.bins[members] = renamed[copy.bins[members]]
    return True


def _words(bins: IntArray, unknown_left: bool) -> npt.NDArray[np.uint64]:
    bits = np.zeros(256, dtype=np.uint8)
    bits[bins] = 1
    bits[UNKNOWN_BIN] = unknown_left
    return np.packbits(bits, bitorder="little").view("<u8").astype(np.uint64)


def _tables(
    words: npt.NDArray[np.uint64], order: list[tuple[int, _Copy | None]], schema: Schema
) -> CategoryTables:
    bins = [np.zeros(0, np.int64) if copy is None else copy.bins for _, copy in order]
    counts = [len(part) for part in bins]
    level_bin = np.concatenate(bins).astype(np.uint8)
    in_sets = schema.unknown == "split"
    return CategoryTables(
        words, level_bin, np.concatenate(([0], np.cumsum(counts))).astype(np.int64), in_sets
    )
