"""How a forest splits category columns, as arrays of a model file, and back.

::

    category_set   four words of 64 bits for each split of a category column, whose
                   threshold is its number: bit b says that bin b goes left
    level_bin      bin of each level, column after column
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hedgerow.arrays import AnyArray, IntArray
from hedgerow.data.schema import Schema
from hedgerow.errors import ModelFormatError
from hedgerow.model.forest import UNKNOWN_BIN, CategoryTables, Forest

CATEGORY_DTYPES: dict[str, np.dtype[np.generic]] = {
    "category_set": np.dtype(np.int64),
    "level_bin": np.dtype(np.uint8),
}
"""Element type of every array; the bits of an int64 are those of a word."""


def category_arrays(forest: Forest) -> dict[str, AnyArray]:
    """The tables of a valid forest, in the order of ``CATEGORY_DTYPES``."""
    assert forest.categories is not None
    sets = np.ascontiguousarray(forest.categories.sets).view(np.int64).reshape(-1)
    return {"category_set": sets, "level_bin": forest.categories.level_bin}


def read_categories(arrays: Mapping[str, AnyArray], schema: Schema) -> CategoryTables:
    """Tables of a forest; their values are not checked yet."""
    words = arrays["category_set"]
    if len(words) % 4:
        raise ModelFormatError("category_set must hold four words for each set.")
    sets = words.view(np.uint64).reshape(-1, 4)
    return CategoryTables(sets, arrays["level_bin"], _level_start(schema))


def _level_start(schema: Schema) -> IntArray:
    return np.cumsum([0, *(len(column.levels) for column in schema.columns)], dtype=np.int64)


def check_categories(forest: Forest, schema: Schema) -> None:
    """Raise ``ModelFormatError`` unless the tables fit the forest and the columns."""
    tables = forest.categories
    if (tables is not None) != schema.has_categories:
        raise ModelFormatError("a forest has sets of categories if some column holds them.")
    if tables is None:
        return
    sets, level_bin, level_start = tables.sets, tables.level_bin, tables.level_start
    if sets.dtype != np.uint64 or sets.ndim != 2 or sets.shape[1] != 4:
        raise ModelFormatError("category_set must be an array of uint64 of shape (n_sets, 4).")
    if not np.array_equal(level_start, _level_start(schema)):
        raise ModelFormatError("level_start must say where the levels of each column begin.")
    if level_bin.dtype != np.uint8 or level_bin.shape != (int(level_start[-1]),):
        raise ModelFormatError("level_bin must have one uint8 for each level.")
    if (level_bin >= UNKNOWN_BIN).any():
        raise ModelFormatError(f"level_bin must be below {UNKNOWN_BIN}.")
    if (sets[:, 3] >> np.uint64(UNKNOWN_BIN & 63)).any():
        raise ModelFormatError(f"category_set must hold bins below {UNKNOWN_BIN}.")
    numbers = np.sort(forest.threshold[forest.has_sets])
    if not np.array_equal(numbers, np.arange(len(sets))):
        raise ModelFormatError("each category_set must belong to one split of a category column.")
