"""Category columns of a LightGBM model: their levels and sets.

LightGBM's sets are bit sets of whole numbers.  A model trained on a pandas
frame has the categories of its columns in ``pandas_categorical``, and the numbers are
positions in these lists; otherwise the numbers are the categories.

``pandas_categorical`` does not name the columns of its entries; the entries are in
column order.  A column that no tree can split (``feature_infos`` is ``none``) may have an entry
or not, so several assignments are possible.  If they differ, the reader raises an error.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hedgerow.arrays import IntArray
from hedgerow.convert.categories import Coded
from hedgerow.convert.readers.lightgbm_text import LightGBMText, Nodes, read_ints
from hedgerow.convert.trees import TreeTable
from hedgerow.errors import ModelFormatError

_WORD = 32
_MOST_SET_BITS = 2**26


def coded_columns(text: LightGBMText, table: TreeTable, n_features: int) -> dict[int, Coded]:
    """Return the category columns; the sets of the table hold the numbers of categories."""
    codes = _listed_numbers(text, n_features)
    for node, found in table.sets.items():
        j = int(table.feature[node])
        if j >= n_features:
            raise ModelFormatError(f"a split uses column {j}; there are {n_features} columns.")
        codes.setdefault(j, set()).update(found.tolist())
    places = _places(text, codes, n_features) if text.pandas_categorical is not None else {}
    coded = {}
    for j, known in codes.items():
        where = f"column {j}"
        if text.pandas_categorical is None or j not in places:
            coded[j] = Coded.of_numbers(known, "to_zero", where)
            continue
        levels = _levels_of_pandas(text.pandas_categorical[places[j]])
        if known and max(known) >= len(levels):
            raise ModelFormatError(f"{where} has fewer categories than its splits use.")
        coded[j] = Coded.of(levels, range(len(levels)), where)
    return coded


def members_of(nodes: Nodes) -> list[IntArray]:
    """Return the whole numbers in the set of each category split."""
    has = nodes.n_cat > 0
    counts = np.where(has, nodes.n_cat + 1, 0)
    starts, first = nodes.ints("cat_boundaries", counts), np.concatenate(([0], np.cumsum(counts)))
    ends = np.zeros(len(has), dtype=np.int64)
    ends[has] = starts[first[1:][has] - 1]
    if (ends < 0).any():
        raise ModelFormatError("cat_boundaries are outside their range.")
    words = nodes.ints("cat_threshold", ends)
    if ((words < 0) | (words >= 2**_WORD)).any():
        raise ModelFormatError("cat_threshold has a number that is not a 32-bit word.")
    before = np.concatenate(([0], np.cumsum(ends)))
    found, total = [], 0
    which = nodes.threshold[nodes.is_set]
    for tree, number in zip(
        nodes.tree_of_inner[nodes.is_set].tolist(), which.tolist(), strict=True
    ):
        if not (0 <= number < nodes.n_cat[tree]) or number != int(number):
            raise ModelFormatError(f"tree {tree}: a category split has no set.")
        at = int(first[tree]) + int(number)
        begin, end = int(starts[at]), int(starts[at + 1])
        if not 0 <= begin <= end <= ends[tree]:
            raise ModelFormatError(f"tree {tree}: cat_boundaries do not increase.")
        total += (end - begin) * _WORD
        if total > _MOST_SET_BITS:
            raise ModelFormatError("the sets of categories are too large.")
        part = words[before[tree] + begin : before[tree] + end].astype("<u4")
        bits = np.unpackbits(part.view(np.uint8), bitorder="little")
        found.append(np.flatnonzero(bits).astype(np.int64))
    return found


def _listed_numbers(text: LightGBMText, n_features: int) -> dict[int, set[int]]:
    """Return the columns for which ``feature_infos`` lists category numbers."""
    infos = text.header.get("feature_infos", "")
    listed = infos.split(" ") if infos else []
    if listed and len(listed) != n_features:
        raise ModelFormatError(f"feature_infos has {len(listed)} entries for {n_features} columns.")
    found: dict[int, set[int]] = {}
    for j, info in enumerate(listed):
        if info != "none" and not info.startswith("["):
            numbers = read_ints(info.replace(":", " "), f"feature_infos of column {j}")
            found[j] = {number for number in numbers.tolist() if number >= 0}
    return found


def _places(text: LightGBMText, numbers: dict[int, set[int]], n_features: int) -> dict[int, int]:
    """Return the entry of ``pandas_categorical`` for each category column."""
    known = text.pandas_categorical or []
    infos = text.header.get("feature_infos", "").split(" ")
    idle = [infos[j] == "none" if len(infos) == n_features else False for j in range(n_features)]
    spare = len(known) - len(numbers)
    unused = sum(idle[j] for j in range(n_features) if j not in numbers)
    if spare == 0 or unused == 0:
        if spare != 0:
            raise ModelFormatError(
                f"the model has {len(known)} columns of pandas categories, but {len(numbers)} "
                "columns "
                "are split as categories: ordered categories, and categorical_feature in addition "
                "to pandas categories, are not supported."
            )
        return {j: k for k, j in enumerate(sorted(numbers))}
    if not 0 <= spare <= unused:
        raise ModelFormatError("pandas_categorical does not fit the category columns.")
    places: dict[int, int] = {}
    for k, j in enumerate(sorted(numbers)):
        before = sum(idle[i] for i in range(j) if i not in numbers)
        low, high = k + max(0, spare - (unused - before)), k + min(spare, before)
        fits = [
            place
            for place in range(low, high + 1)
            if not numbers[j] or max(numbers[j]) < len(_levels_of_pandas(known[place]))
        ]
        if len({repr(known[place]) for place in fits}) != 1:
            raise ModelFormatError(
                f"the pandas categories of column {j} are ambiguous: some columns of the "
                "training table had only one value. Train without these columns."
            )
        places[j] = fits[0]
    return places


def _levels_of_pandas(levels: Any) -> list[Any]:
    """Return the categories of one column, in pandas' order."""
    if not isinstance(levels, list):
        raise ModelFormatError("pandas_categorical must be a list of lists.")
    return [int(level) if isinstance(level, bool) else level for level in levels]
