"""Inputs of the splits of a CatBoost model: columns, and CTRs as target statistics.

A CTR of one or two columns has a table from hashes of categories to counts.  Its value,

    (n_in_class + prior_numerator) / (n + prior_denominator)        shifted, then scaled

is a number for each combination of categories, which is what a target statistic stores.
The reader computes it in float32, as CatBoost does.  Combinations that the table lacks have
the value of no rows.  (catboost/libs/model/static_ctr_provider.cpp, online_ctr.h,
ctr_value_table.h.)
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.convert.categories import Coded
from hedgerow.convert.readers import records
from hedgerow.data.inputs import TARGET, Statistic
from hedgerow.errors import ModelFormatError

_MOST_COLUMNS = 2**24
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}", re.ASCII)
_LEFT = {"AsIs": True, "AsFalse": True, "AsTrue": False}
_MULTIPLIER = np.uint64(0x4906BA494954CB65)
_EMPTY = 2**64 - 1
_MOST_PAIRS = 2**24
_COUNTS = ("Borders", "Buckets")
_FREQUENCIES = ("Counter", "FeatureFreq")
_MEANS = ("BinarizedTargetMeanValue", "FloatTargetMeanValue")

Hashes = npt.NDArray[np.uint64]


@dataclass(eq=False)
class Columns:
    """The columns of the file."""

    names: list[str]  # of all columns, by position
    # by number of a float feature: its column and whether NaN goes left
    floats: dict[int, tuple[int, bool]] = field(default_factory=dict)
    n_borders: int = 0  # number of splits of float features, which come first among the splits
    # by number of a categorical feature: its column
    categories: dict[int, int] = field(default_factory=dict)
    # list of (categorical feature, value)
    one_hot: list[tuple[int, int]] = field(default_factory=list)
    hashes: dict[int, str] | None = None  # texts by hash
    # by column; the codes are hashes, as signed 32-bit numbers
    coded: dict[int, Coded] = field(default_factory=dict)


def as_numbers(texts: list[str]) -> list[Any]:
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


@dataclass(frozen=True, eq=False)
class CtrTable:
    """Counts of each combination."""

    keys: Hashes  # uint64, ascending; hashes
    counts: npt.NDArray[np.float32]  # float32, shape (n_keys, n_counts)
    denominator: float


@dataclass(frozen=True, eq=False)
class Ctr:
    """One CTR with its prior."""

    columns: tuple[int, ...]  # one or two columns of the table, in CatBoost's order
    kind: str
    identifier: str
    target_border: int
    prior: float
    denominator: float
    shift: float
    scale: float
    borders: list[float]

    def table(self, record: dict[str, Any]) -> CtrTable:
        """Return the counts of this CTR in the file."""
        data = records.member(records.member(record, "ctr_data"), self.identifier)
        stride = records.whole(data, "hash_stride", 2, 2**16)
        flat = records.listed(data, "hash_map")
        if len(flat) % stride:
            raise ModelFormatError("'hash_map' does not fit 'hash_stride'.")
        keys, counts = [], []
        for at in range(0, len(flat), stride):
            key = flat[at]
            digits = isinstance(key, str) and key.isascii() and key.isdigit() and len(key) <= 20
            if not digits or int(key) > _EMPTY:
                raise ModelFormatError("'hash_map' has a hash that is not a 64-bit number.")
            if int(key) != _EMPTY:
                keys.append(int(key))
                counts.append(flat[at + 1 : at + stride])
        width = stride - 1
        numbers = records.floats({"hash_map": [c for row in counts for c in row]}, "hash_map")
        order = np.argsort(np.array(keys, dtype=np.uint64), kind="stable")
        with np.errstate(over="ignore"):
            table = numbers.astype(np.float32).reshape(-1, width)[order]
        total = records.number(data, "counter_denominator", 0.0)
        return CtrTable(np.array(keys, dtype=np.uint64)[order], table, total)

    def values(self, table: CtrTable) -> tuple[FloatArray, float]:
        """Return the value of each key, and the value of all other keys."""
        counts, zero = table.counts, np.zeros(1, dtype=np.float32)
        if self.kind in _FREQUENCIES:
            total = np.full(len(counts), table.denominator, dtype=np.float32)
            none = np.full(1, table.denominator, dtype=np.float32)
            return self._of(counts[:, 0], total), float(self._of(zero, none)[0])
        if self.kind in _MEANS:
            if counts.shape[1] != 2:
                raise ModelFormatError("'hash_map' does not fit the type of the CTR.")
            return self._of(counts[:, 0], counts[:, 1]), float(self._of(zero, zero)[0])
        if self.target_border >= counts.shape[1]:
            raise ModelFormatError("'target_border_idx' is outside its range.")
        chosen = slice(self.target_border, self.target_border + 1)
        if self.kind == "Borders":
            chosen = slice(self.target_border + 1, None)
        good = counts[:, chosen].sum(axis=1, dtype=np.float32)
        total = counts.sum(axis=1, dtype=np.float32)
        return self._of(good, total), float(self._of(zero, zero)[0])

    def _of(self, good: Any, total: Any) -> FloatArray:
        one = np.float32
        with np.errstate(all="ignore"):
            share = (good + one(self.prior)) / (total + one(self.denominator))
            value: FloatArray = ((share + one(self.shift)) * one(self.scale)).astype(np.float64)
        if not np.isfinite(value).all():
            raise ModelFormatError("a CTR has a value that is not finite.")
        return value


def ctrs_of(about: dict[str, Any], columns: Columns) -> list[Ctr]:
    """Read the list of CTRs."""
    found = []
    for item in records.objects(about, "ctrs", missing=True):
        kind, identifier = item.get("ctr_type"), item.get("identifier")
        if kind not in (*_COUNTS, *_FREQUENCIES, *_MEANS) or not isinstance(identifier, str):
            raise ModelFormatError(f"a CTR of the type {str(kind)[:40]!r} cannot be read.")
        elements = records.objects(item, "elements")
        for element in elements:
            what = element.get("combination_element")
            if what != "cat_feature_value":
                raise ModelFormatError(
                    f"a CTR combines categories with {str(what)[:40]!r}, which Hedgerow does not "
                    "support: train with max_ctr_complexity=1."
                )
        if not 1 <= len(elements) <= 2:
            raise ModelFormatError(
                f"a CTR combines {len(elements)} columns; Hedgerow has statistics of one or "
                "two columns: train with max_ctr_complexity=2 or 1."
            )
        indices = [records.whole(e, "cat_feature_index", 0, 2**24) for e in elements]
        if any(index not in columns.categories for index in indices) or len(set(indices)) < len(
            indices
        ):
            raise ModelFormatError("a CTR uses a feature that does not exist.")
        found.append(
            Ctr(
                columns=tuple(columns.categories[index] for index in indices),
                kind=str(kind),
                identifier=identifier,
                target_border=records.whole({"t": item.get("target_border_idx", 0)}, "t", 0, 2**16),
                prior=records.number(item, "prior_numerator"),
                denominator=records.number(item, "prior_denomerator"),
                shift=records.number(item, "shift"),
                scale=records.number(item, "scale"),
                borders=records.floats(item, "borders").tolist(),
            )
        )
    return found


def hashes_of(parts: Sequence[IntArray]) -> Hashes:
    """Return hashes of combinations: one category hash of each part; parts have equal lengths."""
    combined = np.zeros(len(parts[0]), dtype=np.uint64)
    for part in parts:
        with np.errstate(over="ignore"):
            combined = _MULTIPLIER * (
                combined + _MULTIPLIER * part.astype(np.int64).view(np.uint64)
            )
    return combined


def statistic_of(ctr: Ctr, table: CtrTable, columns: Columns) -> Statistic:
    """Return the CTR as a statistic: a value for each combination of levels in the table."""
    codes = [columns.coded[j].codes for j in ctr.columns]
    sizes = [len(part) for part in codes]
    if len(codes) == 2 and sizes[0] * sizes[1] > _MOST_PAIRS:
        raise ModelFormatError(
            f"a CTR combines columns of {sizes[0]} and {sizes[1]} categories: too many pairs."
        )
    positions = [grid.reshape(-1) for grid in np.indices(sizes)]
    hashes = hashes_of([part[at] for part, at in zip(codes, positions, strict=True)])
    values, prior = ctr.values(table)
    place = np.searchsorted(table.keys, hashes)
    place[place == len(table.keys)] = 0
    known = table.keys[place] == hashes if len(table.keys) else np.zeros(len(hashes), np.bool_)
    order = np.argsort(ctr.columns).tolist()
    shape = tuple(sizes[k] + 2 for k in order)
    keys = np.ravel_multi_index(tuple(positions[k] for k in order), shape).astype(np.int64)
    keys, found = keys[known], values[place[known]]
    ascending = np.argsort(keys)
    return Statistic(
        columns=tuple(sorted(ctr.columns)),
        classes=(TARGET,),
        keys=keys[ascending],
        values=np.ascontiguousarray(found[ascending][None, :]),
        prior=np.array([prior]),
    )
