"""Columns of a CatBoost model: numbers and categories, by their positions in the table."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from hedgerow.convert.categories import Coded, schema_of
from hedgerow.convert.meaning import column_names
from hedgerow.convert.readers import records
from hedgerow.data.schema import Schema
from hedgerow.errors import ModelFormatError

_MOST_COLUMNS = 2**24
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}", re.ASCII)
_LEFT = {"AsIs": True, "AsFalse": True, "AsTrue": False}


@dataclass(eq=False)
class Columns:
    """The columns of the file.

    Attributes
    ----------
    names : list of str
        Of all columns, by position.
    floats : dict from number of a float feature to its column and whether NaN goes left
    n_borders : int
        Number of splits of float features, which come first among the splits.
    categories : dict from number of a categorical feature to its column
    one_hot : list of (categorical feature, value)
    hashes : dict from hash to text, or None
    coded : dict from column to Coded
        The codes are hashes, as signed 32-bit numbers.
    """

    names: list[str]
    floats: dict[int, tuple[int, bool]] = field(default_factory=dict)
    n_borders: int = 0
    categories: dict[int, int] = field(default_factory=dict)
    one_hot: list[tuple[int, int]] = field(default_factory=list)
    hashes: dict[int, str] | None = None
    coded: dict[int, Coded] = field(default_factory=dict)

    def schema(self) -> Schema:
        """Return the columns of the user's table."""
        return schema_of(*column_names(self.names, len(self.names), "{}"), self.coded)

    def give_levels(self, wanted: dict[int, set[int]]) -> None:
        """Set the levels of each category column: the texts whose hashes splits use."""
        for j in self.categories.values():
            known = self.hashes or {}
            chosen = {code: known[code] for code in wanted.get(j, ()) if code in known}
            self.coded[j] = Coded.of(_as_numbers([*chosen.values()]), chosen, f"column {j}")


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
    columns = Columns([str(j) for j in range(n_columns)] if default else names)
    for item, place in zip(numbers, places, strict=False):
        index = records.whole(item, "feature_index", 0, _MOST_COLUMNS)
        treatment = item.get("nan_value_treatment", "AsIs")
        if not isinstance(treatment, str) or treatment not in _LEFT:
            raise ModelFormatError(f"unknown nan_value_treatment {str(treatment)[:40]!r}.")
        columns.floats[index] = place, _LEFT[treatment]
        columns.n_borders += len(records.floats({"borders": item.get("borders") or []}, "borders"))
    for item, place in zip(categories, places[len(numbers) :], strict=True):
        index = records.whole(item, "feature_index", 0, _MOST_COLUMNS)
        columns.categories[index] = place
        for value in records.ints({"values": records.listed(item, "values", True)}, "values"):
            columns.one_hot.append((index, signed(int(value))))
    columns.hashes = _hashes(about)
    return columns


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
