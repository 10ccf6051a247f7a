"""Category splits in model files: convert them to arrays, and read and check them.

::

    category_set   the bins that go left, four 64-bit words per set; with the policy "split",
                   bin 254 is for unknown categories
    level_bin      bin of each level, column after column
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hedgerow.arrays import AnyArray, IntArray
from hedgerow.data.schema import Schema
from hedgerow.errors import ModelFormatError
from hedgerow.model.forest import MISSING_BIN, UNKNOWN_BIN, CategoryTables, Forest

SET_DTYPES: dict[str, np.dtype[np.generic]] = {
    "category_set": np.dtype(np.int64),
    "level_bin": np.dtype(np.uint8),
}
"""Element type of every array of sets."""

_WORDS = 4


def set_arrays(tables: CategoryTables | None) -> dict[str, AnyArray]:
    """Return the arrays of valid tables in the order of ``SET_DTYPES``; empty for None."""
    if tables is None:
        return {name: np.zeros(0, dtype) for name, dtype in SET_DTYPES.items()}
    return {
        "category_set": tables.sets.reshape(-1).view(np.int64),
        "level_bin": tables.level_bin,
    }


def read_sets(arrays: Mapping[str, AnyArray], schema: Schema) -> CategoryTables | None:
    """Build tables from arrays of any length; None if no input of the trees is a category."""
    words = arrays["category_set"]
    if not schema.has_categories and len(words) == 0 and len(arrays["level_bin"]) == 0:
        return None
    if len(words) % _WORDS:
        raise ModelFormatError("category_set must hold four words per set.")
    sets = words.view(np.uint64).reshape(-1, _WORDS)
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
    if tables.sets.dtype != np.uint64 or tables.sets.ndim != 2 or tables.sets.shape[1] != _WORDS:
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
