"""Category columns of an XGBoost model, and their levels.

A model trained on a data frame contains the categories (version 3.1 and later), and
splits refer to them by position.  Otherwise whole numbers are the categories, and the model
knows only those in its splits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from hedgerow.arrays import IntArray
from hedgerow.convert.readers import records
from hedgerow.convert.readers.xgboost_trees import Tree
from hedgerow.data.categories.levels import MOST_LEVELS, Level, canonical
from hedgerow.data.schema import Rounding
from hedgerow.errors import ModelFormatError


@dataclass(frozen=True, slots=True, eq=False)
class Coded:
    """A category column.

    Attributes
    ----------
    levels : tuple
        Levels, ascending.
    codes : int64, one per level
        Code of each level in splits.
    rounding : str
    """

    levels: tuple[Level, ...]
    codes: IntArray
    rounding: Rounding

    def others(self, listed: IntArray) -> IntArray:
        """Return the positions of the levels that are not listed and go left."""
        return np.flatnonzero(~np.isin(self.codes, listed)).astype(np.int64)


def coded_columns(
    cats: Any, learner: dict[str, Any], trees: Sequence[Tree], n_features: int
) -> dict[int, Coded]:
    """Return all category columns."""
    named: dict[int, set[int]] = {}
    for j, kind in enumerate(records.texts(learner, "feature_types")):
        if kind == "c":
            named[j] = set()
    for tree in trees:
        for node, listed in tree.listed.items():
            named.setdefault(int(tree.feature[node]), set()).update(listed.tolist())
    if any(not 0 <= j < n_features for j in named):
        raise ModelFormatError("a category column does not exist.")
    known = {} if cats is None else _encodings(cats, n_features)
    found = {}
    for j, codes in named.items():
        if j in known:
            found[j] = known[j]
            continue
        if len(codes) > MOST_LEVELS:
            raise ModelFormatError(f"column {j} has more than {MOST_LEVELS:,} categories.")
        levels = tuple(sorted(codes))
        found[j] = Coded(levels, np.array(levels, dtype=np.int64), "down")
    return found


def _encodings(cats: Any, n_features: int) -> dict[int, Coded]:
    """Return the categories that the model contains."""
    if not isinstance(cats, dict):
        raise ModelFormatError("'cats' must be an object.")
    encodings = records.objects(cats, "enc", missing=True)
    if len(encodings) not in (0, n_features):
        raise ModelFormatError(f"'enc' must have {n_features} entries.")
    found = {}
    for j, encoding in enumerate(encodings):
        levels = _levels(encoding, j)
        if not levels:
            continue
        if len(set(levels)) < len(levels) or len(levels) > MOST_LEVELS:
            raise ModelFormatError(f"the categories of column {j} are not distinct, or too many.")
        order = sorted(range(len(levels)), key=levels.__getitem__)
        ascending = tuple(canonical([levels[k] for k in order]))
        found[j] = Coded(ascending, np.array(order, dtype=np.int64), "none")
    return found


def _levels(encoding: dict[str, Any], j: int) -> list[Any]:
    if "offsets" not in encoding:
        values = records.floats(encoding, "values")
        if np.isnan(values).any():
            raise ModelFormatError(f"column {j} has a category that is NaN.")
        whole = encoding["values"]
        is_float = (
            (whole.dtype.kind == "f")
            if isinstance(whole, np.ndarray)
            else any(isinstance(value, float) for value in whole)
        )
        return values.tolist() if is_float else records.ints(encoding, "values").tolist()
    offsets = records.ints(encoding, "offsets")
    letters = records.ints(encoding, "values")
    if len(offsets) == 0 and len(letters) == 0:
        return []
    rises = len(offsets) > 0 and offsets[0] == 0 and offsets[-1] == len(letters)
    if not rises or (np.diff(offsets) < 0).any() or ((letters < -128) | (letters > 255)).any():
        raise ModelFormatError(f"the categories of column {j} are malformed.")
    raw = (letters & 0xFF).astype(np.uint8).tobytes()
    ends = offsets.tolist()
    try:
        return [raw[a:b].decode("utf-8") for a, b in pairwise(ends)]
    except UnicodeDecodeError as error:
        raise ModelFormatError(f"a category of column {j} is not UTF-8: {error.reason}.") from None
