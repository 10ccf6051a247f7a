"""Splits of a CatBoost model: their inputs, and the values that go left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hedgerow.arrays import IntArray
from hedgerow.convert.readers import records
from hedgerow.convert.readers.catboost_columns import Columns, signed
from hedgerow.convert.readers.catboost_ctr import Ctr, ctrs_of, hashes_of, statistic_of
from hedgerow.convert.thresholds import keys_up_to, keys_up_to_float32
from hedgerow.data.categories.statistics import Statistic
from hedgerow.errors import ModelFormatError


@dataclass(frozen=True, slots=True)
class Split:
    """One split.

    Attributes
    ----------
    feature : int
        Column, or a statistic (numbered after the columns).
    key : int
        Largest key that goes left; for a category, the position of the level that goes right,
        or -1 if it is unknown.
    missing_left : bool
    is_set : bool
    """

    feature: int
    key: int
    missing_left: bool
    is_set: bool = False


@dataclass(frozen=True, eq=False)
class Splits:
    """The inputs of splits."""

    columns: Columns
    ctrs: list[Ctr]
    statistics: tuple[Statistic, ...]

    def read(self, record: Any) -> Split:
        """Read one split of a tree."""
        kind = record.get("split_type") if isinstance(record, dict) else None
        columns = self.columns
        if kind == "FloatFeature":
            index = records.whole(record, "float_feature_index", 0, 2**24)
            if index not in columns.floats:
                raise ModelFormatError("a split uses a feature that does not exist.")
            border = np.array([records.number(record, "border")])
            key = int(keys_up_to_float32(border)[0])
            return Split(columns.floats[index], key, columns.nan_left[index])
        if kind == "OneHotFeature":
            index = records.whole(record, "cat_feature_index", 0, 2**24)
            if index not in columns.categories:
                raise ModelFormatError("a split uses a feature that does not exist.")
            place = columns.categories[index]
            value = signed(records.whole(record, "value", -(2**31), 2**32 - 1))
            found = np.flatnonzero(columns.level_hash[place] == value)
            return Split(place, int(found[0]) if len(found) else -1, True, True)
        if kind == "OnlineCtr":
            return self._of_ctr(record)
        raise ModelFormatError(
            f"a split of the type {str(kind)[:40]!r} of CatBoost cannot be read: Hedgerow does not "
            "have it."
        )

    def _of_ctr(self, record: dict[str, Any]) -> Split:
        """Return the CTR of a split, which is named by the number of the split in the model."""
        before = len(self.columns.borders) + len(self.columns.one_hot)
        number = records.whole(record, "split_index", 0, 2**40) - before
        border = records.number(record, "border")
        for place, ctr in enumerate(self.ctrs):
            if 0 <= number < len(ctr.borders):
                if ctr.borders[number] != border:
                    raise ModelFormatError("the splits are not in the order of the features.")
                key = int(keys_up_to(np.array([border]))[0])
                return Split(self.columns.n_columns + place, key, True)
            number -= len(ctr.borders)
        raise ModelFormatError("a split uses a CTR that does not exist.")


def splits_of(record: dict[str, Any], about: dict[str, Any], columns: Columns) -> Splits:
    """Read CTRs, and set the levels that the splits of each category column use."""
    ctrs = ctrs_of(about, columns)
    if columns.hashes is None and (columns.one_hot or ctrs):
        raise ModelFormatError(
            "the model splits categories, but the file has only their hashes: write it with "
            "save_model(path, format='json', pool=training_pool), or use "
            "hedgerow.from_catboost(model, pool=training_pool)."
        )
    wanted: dict[int, set[int]] = {}
    for index, value in columns.one_hot:
        wanted.setdefault(columns.categories[index], set()).add(value)
    known = np.array(sorted(columns.hashes or ()), dtype=np.int64)
    for ctr in ctrs:
        if len(ctr.columns) == 1:
            table = ctr.table(record)
            seen = known[np.isin(hashes_of([known]), table.keys)]
            wanted.setdefault(ctr.columns[0], set()).update(seen.tolist())
        else:
            for column in ctr.columns:
                wanted.setdefault(column, set()).update(known.tolist())
    columns.give_levels(wanted)
    statistics = tuple(statistic_of(ctr, ctr.table(record), columns) for ctr in ctrs)
    return Splits(columns, ctrs, statistics)


def set_members(split: Split, columns: Columns) -> IntArray:
    """Return the positions of the levels that go left."""
    every = np.arange(len(columns.levels[split.feature]), dtype=np.int64)
    return every[every != split.key]
