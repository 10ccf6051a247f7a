"""Category levels and splits in model files: convert them to arrays, and read and check them.

The levels of all columns are concatenated by type::

    level_int     integers                 level_float   floats
    level_text    UTF-8 of all texts       level_offset  start of each text, and the end

The record of the schema has the type and the number of the levels of each category column,
so the header stays short whatever the number of levels.

Splits of category columns::

    category_set   the bins that go left, four 64-bit words per set; with the policy "split",
                   bin 254 is for unknown categories
    level_bin      bin of each level, column after column
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeAlias, get_args

import numpy as np

from hedgerow.arrays import MISSING_KEY, AnyArray, IntArray
from hedgerow.data.categories.levels import MOST_LEVELS, Level
from hedgerow.data.schema import Column, Schema, UnknownPolicy
from hedgerow.errors import ModelFormatError
from hedgerow.model.forest import MISSING_BIN, UNKNOWN_BIN, CategoryTables, Forest

LEVEL_DTYPES: dict[str, np.dtype[np.generic]] = {
    "level_offset": np.dtype(np.int64),
    "level_int": np.dtype(np.int64),
    "level_float": np.dtype(np.float64),
    "level_text": np.dtype(np.uint8),
}
"""Element type of every array of levels."""

LevelRecord: TypeAlias = "list[list[int | str]]"
"""``[position, type, number of levels]`` of each category column, by position."""

_TYPES: dict[str, type] = {"text": str, "int": int, "float": float}


def _type_of(levels: Sequence[Level]) -> str:
    """Return the name of the type of levels; "text" if there are none."""
    kind = type(levels[0]) if len(levels) else str
    return next((name for name, known in _TYPES.items() if kind is known), "text")


def level_record(schema: Schema) -> LevelRecord:
    """Return the part of the schema's record that describes the levels."""
    return [
        [position, _type_of(column.levels), len(column.levels)]
        for position, column in enumerate(schema.columns)
        if column.kind == "category"
    ]


def level_arrays(schema: Schema) -> dict[str, AnyArray]:
    """Return the level arrays of a valid schema, in the order of ``LEVEL_DTYPES``."""
    found: dict[str, list[Any]] = {"text": [], "int": [], "float": []}
    for column in schema.columns:
        if column.kind == "category":
            found[_type_of(column.levels)] += column.levels
    texts = [text.encode() for text in found["text"]]
    return {
        "level_offset": np.cumsum([0, *map(len, texts)], dtype=np.int64),
        "level_int": np.array(found["int"], dtype=np.int64),
        "level_float": np.array(found["float"], dtype=np.float64),
        "level_text": np.frombuffer(b"".join(texts), dtype=np.uint8),
    }


def read_levels(record: Any, arrays: Mapping[str, AnyArray]) -> dict[int, tuple[Level, ...]]:
    """Return the levels by position of the column, without checking that they ascend."""
    if not isinstance(record, list):
        raise ModelFormatError("schema has a malformed record of categories.")
    sources: dict[str, Sequence[Level]] = {
        "text": _texts(arrays["level_offset"], arrays["level_text"]),
        "int": arrays["level_int"].tolist(),
        "float": arrays["level_float"].tolist(),
    }
    begins = dict.fromkeys(sources, 0)
    levels: dict[int, tuple[Level, ...]] = {}
    for item in record:
        if not isinstance(item, list) or len(item) != 3:
            raise ModelFormatError("schema has a malformed record of categories.")
        position, kind, count = item
        if type(position) is not int or position in levels:
            raise ModelFormatError("schema has a malformed record of categories.")
        if not isinstance(kind, str) or kind not in _TYPES:
            raise ModelFormatError(f"column {position} has levels of an unknown type.")
        begin = begins[kind]
        if type(count) is not int or not 0 <= count <= len(sources[kind]) - begin:
            raise ModelFormatError(f"column {position} has levels beyond the end of their array.")
        levels[position] = tuple(sources[kind][begin : begin + count])
        begins[kind] += count
    for kind, begin in begins.items():
        if begin != len(sources[kind]):
            raise ModelFormatError(f"there are levels of type {kind} that belong to no column.")
    return levels


def _texts(offset: AnyArray, data: AnyArray) -> list[str]:
    if len(offset) < 1 or offset[0] != 0 or offset[-1] != len(data):
        raise ModelFormatError("level_offset must run from 0 to the length of level_text.")
    if (offset[1:] < offset[:-1]).any():
        raise ModelFormatError("level_offset must not decrease.")
    raw = data.tobytes()
    try:
        return [raw[begin:end].decode() for begin, end in pairwise(offset.tolist())]
    except UnicodeDecodeError as error:
        raise ModelFormatError(f"level_text is not UTF-8: {error.reason}.") from None


def check_levels(schema: Schema) -> None:
    """Raise ``ModelFormatError`` unless predictions can use the levels of each column."""
    if str(schema.unknown) == "backoff":
        raise ModelFormatError(
            "the model has unknown_category='backoff', which no longer exists: train it again with "
            "'missing'."
        )
    if schema.unknown not in get_args(UnknownPolicy):
        raise ModelFormatError(f"unknown policy for categories, {str(schema.unknown)[:50]!r}.")
    if not schema.has_categories and schema.unknown != "missing":
        raise ModelFormatError("there is a policy for categories, but no column of them.")
    for place, column in enumerate(schema.columns):
        if column.kind == "category":
            _check_column(column, place)
        elif len(column.levels):
            raise ModelFormatError(f"column {place} has levels, but no categories.")
        if column.rounding != "none" and (column.kind != "category" or _is_text(column.levels)):
            raise ModelFormatError(f"column {place} rounds numbers, but has no integer levels.")


def _is_text(levels: Sequence[Level]) -> bool:
    return len(levels) > 0 and isinstance(levels[0], str)


def _check_column(column: Column, place: int) -> None:
    levels = column.levels
    if not isinstance(levels, tuple) or len(levels) > MOST_LEVELS:
        raise ModelFormatError(
            f"column {place} must have a tuple of at most {MOST_LEVELS:,} levels, "
            f"it has {len(levels):,}."
        )
    kind = _TYPES[_type_of(levels)]
    if any(type(level) is not kind for level in levels):
        raise ModelFormatError(f"column {place} has levels of several types.")
    if kind is float and any(math.isnan(level) for level in levels):
        raise ModelFormatError(f"column {place} has a level that is NaN.")
    if kind is int and not all(MISSING_KEY < level < 2**63 for level in levels):
        raise ModelFormatError(f"column {place} has a level beyond 64 bits.")
    if kind is str:
        try:
            "".join(levels).encode()
        except UnicodeEncodeError as error:
            raise ModelFormatError(f"column {place} has a bad level: {error.reason}.") from None
    if not all(before < after for before, after in pairwise(levels)):
        raise ModelFormatError(f"the levels of column {place} do not ascend.")


SET_DTYPES: dict[str, np.dtype[np.generic]] = {
    "category_set": np.dtype(np.int64),
    "level_bin": np.dtype(np.uint8),
}
"""Element type of every array of sets."""

_SET_WORDS = 4


def set_arrays(tables: CategoryTables | None) -> dict[str, AnyArray]:
    """Return the arrays of valid tables in the order of ``SET_DTYPES``; empty for None."""
    if tables is None:
        return {name: np.zeros(0, dtype) for name, dtype in SET_DTYPES.items()}
    return {"category_set": tables.sets.reshape(-1).view(np.int64), "level_bin": tables.level_bin}


def read_sets(arrays: Mapping[str, AnyArray], schema: Schema) -> CategoryTables | None:
    """Build tables from arrays of any length; None if no input of the trees is a category."""
    words = arrays["category_set"]
    if not schema.has_categories and len(words) == 0 and len(arrays["level_bin"]) == 0:
        return None
    if len(words) % _SET_WORDS:
        raise ModelFormatError("category_set must hold four words per set.")
    sets = words.view(np.uint64).reshape(-1, _SET_WORDS)
    in_sets = schema.unknown == "split"
    return CategoryTables(sets, arrays["level_bin"], level_start_of(schema), in_sets)


def level_start_of(schema: Schema) -> IntArray:
    """Return the first level of each column among all levels, and the number of levels."""
    counts = [schema.n_levels(j) for j in range(schema.n_features)]
    return np.concatenate(([0], np.cumsum(counts))).astype(np.int64)


def check_sets(forest: Forest, schema: Schema) -> None:
    """Raise ``ModelFormatError`` unless every split of a category column has its set."""
    tables = forest.categories
    if (tables is not None) != schema.has_categories:
        raise ModelFormatError("there must be sets of categories where columns are categories.")
    if tables is None:
        return
    if (
        tables.sets.dtype != np.uint64
        or tables.sets.ndim != 2
        or tables.sets.shape[1] != _SET_WORDS
    ):
        raise ModelFormatError("sets of categories must be rows of four 64-bit words.")
    if not np.array_equal(tables.level_start, level_start_of(schema)):
        raise ModelFormatError("the bins of levels do not fit the columns.")
    bins = tables.level_bin
    if bins.dtype != np.uint8 or bins.shape != (tables.level_start[-1],):
        raise ModelFormatError("level_bin must have one entry per level.")
    if tables.unknown_in_sets != (schema.unknown == "split"):
        raise ModelFormatError("sets and schema disagree on unknown categories.")
    free = MISSING_BIN if tables.unknown_in_sets else UNKNOWN_BIN
    if (bins >= UNKNOWN_BIN).any() or (tables.sets[:, -1] >> np.uint64(free % 64)).any():
        raise ModelFormatError(f"bins of levels must lie below {UNKNOWN_BIN}.")
    chosen = np.array([kind == "category" for kind in schema.kinds], dtype=np.bool_)
    inner = np.flatnonzero(forest.feature >= 0)
    numbers = forest.threshold[inner[chosen[forest.feature[inner]]]]
    if ((numbers < 0) | (numbers >= len(tables.sets))).any():
        raise ModelFormatError("a split of a category column has no set.")
