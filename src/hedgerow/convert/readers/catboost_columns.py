"""Columns of a CatBoost model: numbers and categories, by their positions in the table."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hedgerow.arrays import IntArray
from hedgerow.convert.meaning import column_names
from hedgerow.convert.readers import records
from hedgerow.data.categories.levels import MOST_LEVELS, Level
from hedgerow.data.schema import Column, Schema
from hedgerow.errors import ModelFormatError

_MOST_COLUMNS = 2**24
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}", re.ASCII)
_LEFT = {"AsIs": True, "AsFalse": True, "AsTrue": False}


@dataclass(eq=False)
class Columns:
    """The columns of the file.

    Attributes
    ----------
    n_columns : int
    names : list of str
    floats : dict from number of a float feature to its column
    nan_left : dict from number of a float feature to bool
    borders : list of (float feature, border)
        Entries by number of the split.
    categories : dict from number of a categorical feature to its column
    one_hot : list of (categorical feature, value)
    hashes : dict from hash to text, or None
    levels : dict from column to levels, ascending
    level_hash : dict from column to int64
        Hash of each level, as a signed 32-bit number.
    """

    n_columns: int
    names: list[str]
    floats: dict[int, int] = field(default_factory=dict)
    nan_left: dict[int, bool] = field(default_factory=dict)
    borders: list[tuple[int, float]] = field(default_factory=list)
    categories: dict[int, int] = field(default_factory=dict)
    one_hot: list[tuple[int, int]] = field(default_factory=list)
    hashes: dict[int, str] | None = None
    levels: dict[int, tuple[Level, ...]] = field(default_factory=dict)
    level_hash: dict[int, IntArray] = field(default_factory=dict)

    def schema(self) -> Schema:
        """Return the columns of the user's table."""
        names, named = column_names(self.names, self.n_columns, "{}")
        columns = tuple(
            Column(name, "category", self.levels.get(j, ()))
            if j in self.categories.values()
            else Column(name)
            for j, name in enumerate(names)
        )
        return Schema(columns, named)

    def give_levels(self, wanted: dict[int, set[int]]) -> None:
        """Set the levels of each category column: the texts whose hashes splits use."""
        for j in self.categories.values():
            known = self.hashes or {}
            chosen = {code: known[code] for code in wanted.get(j, ()) if code in known}
            if len(chosen) > MOST_LEVELS:
                raise ModelFormatError(f"column {j} has more than {MOST_LEVELS:,} categories.")
            values = _as_numbers(list(chosen.values()))
            pairs = sorted(zip(values, chosen, strict=True))
            if len({value for value, _ in pairs}) < len(pairs):
                raise ModelFormatError(f"column {j} has two hashes of one category.")
            self.levels[j] = tuple(value for value, _ in pairs)
            self.level_hash[j] = np.array([code for _, code in pairs], dtype=np.int64)


def _as_numbers(texts: list[str]) -> list[Any]:
    """Return whole numbers if all texts are numbers, 0 and 1 for booleans, else the texts."""
    if texts and set(texts) <= {"True", "False"}:
        return [int(text == "True") for text in texts]
    if texts and all(_WHOLE.fullmatch(text) for text in texts):
        return [int(text) for text in texts]
    return texts


def signed(value: int) -> int:
    """Return a hash as a signed 32-bit number."""
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def columns_of(about: dict[str, Any]) -> Columns:
    """Read ``features_info``."""
    numbers = records.objects(about, "float_features", missing=True)
    categories = records.objects(about, "categorical_features", missing=True)
    every = [*numbers, *categories]
    places = [records.whole(item, "flat_feature_index", 0, _MOST_COLUMNS) for item in every]
    if not places or len(set(places)) < len(places):
        raise ModelFormatError("two features have the same position, or there are no features.")
    n_columns = max(places) + 1
    if n_columns > 64 * len(places) + 1024:
        raise ModelFormatError("'flat_feature_index' is outside its range.")
    names = [f"x{j}" for j in range(n_columns)]
    for item, place in zip(every, places, strict=True):
        name = item.get("feature_name", item.get("feature_id", ""))
        if isinstance(name, str) and name:
            names[place] = name
    default = all(name in (str(j), f"x{j}") for j, name in enumerate(names))
    columns = Columns(n_columns, [str(j) for j in range(n_columns)] if default else names)
    for item, place in zip(numbers, places, strict=False):
        _add_number(columns, item, place)
    for item, place in zip(categories, places[len(numbers) :], strict=True):
        index = records.whole(item, "feature_index", 0, _MOST_COLUMNS)
        columns.categories[index] = place
        for value in records.ints({"values": records.listed(item, "values", True)}, "values"):
            columns.one_hot.append((index, signed(int(value))))
    columns.hashes = _hashes(about)
    return columns


def _add_number(columns: Columns, item: dict[str, Any], place: int) -> None:
    index = records.whole(item, "feature_index", 0, _MOST_COLUMNS)
    treatment = item.get("nan_value_treatment", "AsIs")
    if not isinstance(treatment, str) or treatment not in _LEFT:
        raise ModelFormatError(f"unknown nan_value_treatment {str(treatment)[:40]!r}.")
    columns.floats[index] = place
    columns.nan_left[index] = _LEFT[treatment]
    borders = records.floats({"borders": item.get("borders") or []}, "borders")
    columns.borders += [(index, border) for border in borders.tolist()]


def _hashes(about: dict[str, Any]) -> dict[int, str] | None:
    """Return the text of each category hash; None if the file has no texts."""
    if about.get("cat_features_hash") is None:
        return None
    found: dict[int, str] = {}
    for item in records.objects(about, "cat_features_hash"):
        code, text = records.whole(item, "hash", 0, 2**32 - 1), item.get("value")
        if not isinstance(text, str):
            raise ModelFormatError("'cat_features_hash' has a value that is not text.")
        found[signed(code)] = text
    return found
