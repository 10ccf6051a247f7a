"""Reader of LightGBM's text format.

The semantics of its trees (src/io/tree.cpp, include/LightGBM/tree.h), and their form in Hedgerow:

================================  =============================================================
LightGBM                          Hedgerow
================================  =============================================================
number: ``x <= threshold``        the key of the threshold
``|x| <= 1e-35`` (as float32)     counts as 0: a cut among such numbers moves to their end
missing type None                 NaN is 0.0: it goes left if ``0 <= threshold``
missing type NaN                  NaN goes to the default side
missing type Zero                 NaN and zeros go to the default side: in the schema, zeros
                                  are missing values
category: in the set              left; unknown, negative and missing ones go right
value with a fraction             truncated: the column rounds to zero
``average_output``                values divided by the number of rounds
``sigmoid``                       values multiplied
linear leaf                       a line that applies with all terms or, if a value is NaN,
                                  not at all
================================  =============================================================

Without ``average_output``, ``sigmoid`` and linear leaves, raw scores are equal to the last bit:
both libraries add float64 numbers in the order of the trees.

LightGBM's sets are bit sets of whole numbers.  A model trained on a pandas
frame has the categories of its columns in ``pandas_categorical``, and the numbers are
positions in these lists; otherwise the numbers are the categories.

``pandas_categorical`` does not name the columns of its entries; the entries are in
column order.  A column that no tree can split (``feature_infos`` is ``none``) may have an entry
or not, so several assignments are possible.  If they differ, the reader raises an error.

A linear leaf (``linear_tree=True``) predicts ``leaf_const`` plus its terms, without bounds; if
the value of one of its columns is NaN, it predicts ``leaf_value``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hedgerow.arrays import BoolArray, FloatArray, IntArray
from hedgerow.convert.categories import Coded, schema_of
from hedgerow.convert.meaning import Imported, Meaning, column_names, finished, linked
from hedgerow.convert.readers import lightgbm_text as lt
from hedgerow.convert.readers.lightgbm_text import LightGBMText, Nodes, parse, read_floats, read_int
from hedgerow.convert.trees import TreeTable
from hedgerow.errors import ModelFormatError
from hedgerow.kernels.prediction.slopes import Slopes
from hedgerow.kernels.tables.keys import keys_of_floats

ZERO = float(np.float32(1e-35))
"""Largest magnitude that LightGBM treats as 0."""

_WORD = 32
_MOST_SET_BITS = 2**26
_NO_MISSING, _ZERO_MISSING, _NAN_MISSING = 0, 1, 2


def table_of(nodes: lt.Nodes, n_features: int) -> tuple[TreeTable, bool]:
    """Return all trees, whose sets hold category numbers, and whether zeros are missing values."""
    inner = nodes.n_leaves - 1
    key, missing_left, zero = _splits(nodes)
    table = TreeTable(
        start=nodes.start,
        feature=nodes.of_all(nodes.feature, -1),
        key=nodes.of_all(key, 0),
        missing_left=nodes.of_all(missing_left, False),
        left=_children(nodes, "left_child"),
        right=_children(nodes, "right_child"),
        value=nodes.of_all(nodes.floats("internal_value", inner, np.nan), nodes.value),
        gain=nodes.of_all(nodes.floats("split_gain", inner, 0.0), 0.0),
        cover=_of_rows(nodes, "weight"),
        count=_of_rows(nodes, "count").astype(np.int64),
    )
    at = nodes.inner[nodes.is_set].tolist()
    table.sets = dict(zip(at, members_of(nodes), strict=True))
    table.slopes = _read_lines(nodes, table, n_features)
    return table, zero


def _of_rows(nodes: lt.Nodes, what: str) -> FloatArray:
    """Return ``"weight"`` or ``"count"`` of every node; trees of one leaf may lack it."""
    name = f"leaf_{what}"
    alone = [len(tree.get(name, "").split()) for tree in nodes.trees]
    known = np.where(nodes.n_leaves > 1, nodes.n_leaves, np.minimum(alone, 1))
    leaves = np.zeros(len(nodes.leaf))
    leaves[np.repeat(known > 0, nodes.n_leaves)] = nodes.floats(name, known, 0.0)
    found = nodes.of_all(nodes.floats(f"internal_{what}", nodes.n_leaves - 1, 0.0), leaves)
    return np.clip(np.nan_to_num(found), 0.0, 2.0**62)


def _children(nodes: lt.Nodes, name: str) -> IntArray:
    """Return children; a leaf is written as ``~leaf``."""
    inner = nodes.n_leaves - 1
    child, n_inner = nodes.ints(name, inner), inner[nodes.tree_of_inner]
    if ((child >= n_inner) | (~child > n_inner)).any():
        raise ModelFormatError(f"{name} refers to a node that does not exist.")
    return nodes.of_all(np.where(child >= 0, child, n_inner + ~child), 0)


def _splits(nodes: lt.Nodes) -> tuple[IntArray, BoolArray, bool]:
    """Return keys and missing sides of numeric splits, and whether zeros are missing."""
    # Before the trees, LightGBM sets all values up to ``ZERO`` to 0
    # (``RowPairFunctionFromDenseMatric`` in src/c_api.cpp), so a cut among them moves to the end.
    number, kind = ~nodes.is_set, nodes.decision >> 2
    default_left = (nodes.decision & lt.DEFAULT_LEFT) > 0
    cut = np.where(number, nodes.threshold, 0.0)
    beside = np.where(cut < 0.0, np.nextafter(-ZERO, -np.inf), ZERO)
    cut = np.where(np.abs(cut) <= ZERO, beside, cut)
    if np.isnan(cut).any():
        raise ModelFormatError("a threshold is NaN.")
    if (kind[number] > _NAN_MISSING).any():
        raise ModelFormatError("decision_type has an unknown type of missing values.")
    missing_left = np.where(kind == _NO_MISSING, cut >= 0.0, default_left) & number
    by_zero = number & (kind == _ZERO_MISSING)
    if not by_zero.any() or (by_zero == number).all():
        return keys_of_floats(cut), missing_left, bool(by_zero.any())
    # Only some columns treat zeros as missing: their cuts separate zeros from other values.
    left, right = by_zero & default_left, by_zero & ~default_left
    apart = (left & (cut < -ZERO)) | (right & (cut > ZERO))
    if apart.any():
        column = int(nodes.feature[np.argmax(apart)])
        raise ModelFormatError(
            f"column {column} treats zeros as missing values (zero_as_missing) and others do "
            "not, which Hedgerow does not support."
        )
    cut = np.where(left, np.maximum(cut, ZERO), cut)
    cut = np.where(right, np.minimum(cut, np.nextafter(-ZERO, -np.inf)), cut)
    return keys_of_floats(cut), missing_left, False


def _read_lines(nodes: lt.Nodes, table: TreeTable, n_features: int) -> Slopes | None:
    """Return the terms of all leaves; the leaf values become the constants of the lines."""
    linear = np.array([tree.get("is_linear", "0") == "1" for tree in nodes.trees], dtype=np.bool_)
    if not linear.any():
        return None
    leaves = np.where(linear, nodes.n_leaves, 0)
    at = nodes.leaf[np.repeat(linear, nodes.n_leaves)]
    const, known = nodes.floats("leaf_const", leaves), nodes.ints("num_features", leaves)
    if (known < 0).any() or (known > n_features).any():
        raise ModelFormatError("num_features of a leaf is outside its range.")
    if not np.isfinite(const).all():
        raise ModelFormatError("leaf_const must be finite.")
    column = lt.read_ints(_flat(nodes.trees, "leaf_features"), "leaf_features")
    slope = lt.read_floats(_flat(nodes.trees, "leaf_coeff"), "leaf_coeff")
    if len(column) != known.sum() or len(slope) != known.sum():
        raise ModelFormatError("leaf_features and leaf_coeff do not fit num_features.")
    counts, fallback = np.zeros(len(table.feature), dtype=np.int64), np.zeros(len(table.feature))
    counts[at], fallback[at] = known, table.value[at] - const
    table.value[at] = const
    bound = np.where(counts > 0, np.inf, 0.0)
    return Slopes(
        start=np.cumsum([0, *counts], dtype=np.int64),
        column=column.astype(np.int32),
        slope=slope,
        center=np.repeat(fallback, counts),
        low=-bound,
        high=bound,
    )


def _flat(trees: list[dict[str, str]], name: str) -> str:
    """Return the numbers of all leaves; leaves without numbers leave extra spaces."""
    return " ".join(number for tree in trees for number in tree.get(name, "").split())


def coded_columns(text: lt.LightGBMText, table: TreeTable, n_features: int) -> dict[int, Coded]:
    """Return the category columns; the sets of the table hold the numbers of categories."""
    infos = text.header.get("feature_infos", "")  # lists the numbers of some columns
    entries = infos.split(" ") if infos else []
    if entries and len(entries) != n_features:
        raise ModelFormatError(
            f"feature_infos has {len(entries)} entries for {n_features} columns."
        )
    codes: dict[int, set[int]] = {}
    for j, info in enumerate(entries):
        if info != "none" and not info.startswith("["):
            numbers = lt.read_ints(info.replace(":", " "), f"feature_infos of column {j}")
            codes[j] = {number for number in numbers.tolist() if number >= 0}
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


def members_of(nodes: lt.Nodes) -> list[IntArray]:
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


def _places(text: lt.LightGBMText, numbers: dict[int, set[int]], n_features: int) -> dict[int, int]:
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


def read_lightgbm(data: bytes) -> Imported:
    """Read the content of a LightGBM text file."""
    text = parse(data)
    header = text.header
    n_features = read_int(header.get("max_feature_idx", ""), "max_feature_idx", 0, 2**24) + 1
    per_round = "num_tree_per_iteration"
    n_outputs = read_int(header.get(per_round, ""), per_round, 1, 2**20)
    names = header.get("feature_names", "")
    columns = column_names(names.split(" ") if names else None, n_features, "Column_{}")
    table, zero = table_of(Nodes(text.trees), n_features)
    coded = coded_columns(text, table, n_features)
    for node, listed in table.sets.items():
        table.sets[node] = np.flatnonzero(np.isin(coded[int(table.feature[node])].codes, listed))
    schema = schema_of(*columns, coded, zero_missing=zero, zero_band=ZERO if zero else 0.0)
    factor, meaning = _meaning(text, n_outputs)
    source = {"format": "lightgbm", "version": header["version"]}
    boosting = text.parameters.get("boosting")
    if boosting in ("dart", "rf"):
        source["boosting"] = boosting
    if "average_output" in header:
        source["boosting"] = "rf"
        n_rounds = len(text.trees) // n_outputs
        if n_rounds > 0:
            table.value /= n_rounds
            table.slopes = _scaled(table.slopes, 1.0 / n_rounds)
    if factor != 1.0:
        table.value *= factor
        table.slopes = _scaled(table.slopes, factor)
    return finished(table, schema, [0.0] * n_outputs, meaning, source)


def _scaled(slopes: Slopes | None, factor: float) -> Slopes | None:
    if slopes is None:
        return None
    return slopes._replace(slope=slopes.slope * factor, center=slopes.center * factor)


def _meaning(text: LightGBMText, n_outputs: int) -> tuple[float, Meaning]:
    """Return the factor of the raw scores, and their meaning."""
    words = text.header.get("objective", "custom").split()
    name = words[0] if words else "custom"
    given = dict(word.split(":", 1) for word in words[1:] if ":" in word)
    sigmoid = read_floats(given.get("sigmoid", "1"), "sigmoid")
    if len(sigmoid) != 1 or not np.isfinite(sigmoid[0]) or sigmoid[0] == 0.0:
        raise ModelFormatError("sigmoid of the objective must be a number other than 0.")
    factor = float(sigmoid[0])
    if name == "multiclass":
        return 1.0, Meaning("softmax")
    if name == "multiclassova":
        return factor, linked(name, "logit", "classes")
    if n_outputs > 1:
        return 1.0, linked(name)
    if name == "binary":
        return factor, Meaning("logistic")
    if name == "regression" and "sqrt" in words:
        return 1.0, linked("regression sqrt", "signed_square")
    if name in OBJECTIVES:
        return 1.0, Meaning(OBJECTIVES[name])
    return 1.0, linked(name[:100], _LINKS.get(name, "identity"))


OBJECTIVES = {
    "regression": "squared_error",
    "regression_l1": "absolute_error",
    "mape": "mape",
    "poisson": "poisson",
    "gamma": "gamma",
    "cross_entropy": "cross_entropy",
    "lambdarank": "lambdarank",
    "rank_xendcg": "rank_xendcg",
}
"""Objectives of LightGBM without parameters, and their names in Hedgerow."""

_LINKS = {"tweedie": "log", "cross_entropy_lambda": "softplus"}
