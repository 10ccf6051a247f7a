"""Reader of XGBoost's JSON and UBJSON models.

The semantics of its trees (src/tree/tree_model.cc, src/predictor), and their form in Hedgerow:

===============================  ==============================================================
XGBoost                          Hedgerow
===============================  ==============================================================
number: ``float32(x) < t``       the largest float64 that rounds below ``t``
missing values                   to the default side
category in the set              right
category not in it, or unknown   left: the policy for unknown categories is ``"split"``
value with a fraction            truncated: the column rounds down
DART's ``weight_drop``           scaled leaf values
``base_score``                   converted to a raw score
``num_parallel_tree``            trees of each output in a round, alternating
===============================  ==============================================================

A model trained on a data frame contains the categories (version 3.1 and later), and
splits refer to them by position.  Otherwise whole numbers are the categories, and the model
knows only those in its splits.

Leaves are the same.  XGBoost adds float32 numbers and Hedgerow float64 numbers, so raw scores
differ by rounding: about 1e-7 of the largest partial sum for each tree.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from hedgerow.arrays import FloatArray, IntArray, distinct
from hedgerow.convert.categories import Coded, schema_of
from hedgerow.convert.meaning import Imported, Meaning, column_names, finished, linked, several
from hedgerow.convert.readers import records
from hedgerow.convert.thresholds import keys_below_float32
from hedgerow.convert.trees import TreeTable, joined
from hedgerow.errors import ModelFormatError
from hedgerow.objectives.targets import FOR_SEVERAL

_MOST_OUTPUTS = 2**20
_MOST_PARALLEL = 2**30
_MOST_LISTED = 2**26


def read_record(record: Any) -> Imported:
    """Read a decoded model."""
    learner = records.member(record, "learner")
    about = records.member(learner, "learner_model_param")
    n_features = records.text_integer(about, "num_feature", 1, 2**24)
    classes = records.text_integer(about, "num_class", 0, _MOST_OUTPUTS, "0")
    targets = records.text_integer(about, "num_target", 0, _MOST_OUTPUTS, "1")
    n_outputs = max(classes, targets, 1)
    booster, weights = _booster(records.member(learner, "gradient_booster"))
    model = records.member(booster, "model")
    trees = [_read_tree(tree, n_features, n_outputs) for tree in records.objects(model, "trees")]
    outputs = records.ints(model, "tree_info", len(trees))
    order = _in_turns(outputs, trees, n_outputs)
    if weights is not None and len(weights) != len(trees):
        raise ModelFormatError("weight_drop must have one number for each tree.")
    for tree, weight in zip(trees, [] if weights is None else weights.tolist(), strict=False):
        tree.value *= weight
    if len({tree.value.ndim for tree in trees}) > 1:
        raise ModelFormatError("some trees have vector leaves and others do not.")
    table = joined([trees[t] for t in order], unknown_left=True)
    names, named = column_names(records.texts(learner, "feature_names") or None, n_features, "f{}")
    coded = _coded_columns(model.get("cats"), learner, table, n_features)
    for node, listed in table.sets.items():
        codes = coded[int(table.feature[node])].codes
        table.sets[node] = np.flatnonzero(~np.isin(codes, listed))
    schema = schema_of(names, named, coded, unknown="split" if coded else "missing")
    objective = records.member(learner, "objective")
    meaning, start = _meaning(objective, _base_scores(about, n_outputs), n_outputs, classes)
    source: dict[str, Any] = {"format": "xgboost", "objective": str(objective.get("name"))[:100]}
    if weights is not None:
        source["boosting"] = "dart"
    shape = model.get("gbtree_model_param")
    n_parallel = records.text_integer(
        shape if isinstance(shape, dict) else {}, "num_parallel_tree", 1, _MOST_PARALLEL, "1"
    )
    return finished(table, schema, start.tolist(), meaning, source, n_parallel=n_parallel)


def _booster(record: dict[str, Any]) -> tuple[dict[str, Any], FloatArray | None]:
    """Return the trees of a booster, and the weights of DART's trees."""
    name = record.get("name")
    if name == "gbtree":
        return record, _weights(record) if "weight_drop" in record else None
    if name == "dart":
        return records.member(record, "gbtree"), _weights(record)
    raise ModelFormatError(
        f"the booster {str(name)[:50]!r} of XGBoost cannot be read: only 'gbtree' and 'dart' "
        "have trees."
    )


def _weights(record: dict[str, Any]) -> FloatArray:
    """Return the weights of DART's trees, which are float32 numbers that JSON rounds."""
    with np.errstate(over="ignore"):
        return records.floats(record, "weight_drop").astype(np.float32).astype(np.float64)


def _in_turns(outputs: IntArray, trees: Sequence[TreeTable], n_outputs: int) -> list[int]:
    """Return the trees with outputs alternating, each output's trees in their order."""
    if n_outputs == 1 or (trees and trees[0].value.ndim == 2):
        return list(range(len(outputs)))
    if not ((outputs >= 0) & (outputs < n_outputs)).all():
        raise ModelFormatError("tree_info refers to an output that does not exist.")
    if len(distinct(np.bincount(outputs, minlength=n_outputs))) != 1:
        raise ModelFormatError("the outputs do not have the same number of trees.")
    order = np.argsort(outputs, kind="stable")
    return order.reshape(n_outputs, -1).T.reshape(-1).tolist()


def _base_scores(about: dict[str, Any], n_outputs: int) -> FloatArray:
    """Return the base score of each output, as a prediction."""
    found = about.get("base_score", "0.5")
    if not isinstance(found, str) or len(found) > 64 * n_outputs + 64:
        raise ModelFormatError("'base_score' must be a number, written as text.")
    parts = found.strip().removeprefix("[").removesuffix("]").split(",")
    try:
        numbers = [float(part) if len(part) <= 64 else math.nan for part in parts]
    except ValueError:
        numbers = [math.nan]
    if not np.isfinite(numbers).all():
        raise ModelFormatError("'base_score' must be a number, written as text.")
    if len(numbers) not in (1, n_outputs):
        raise ModelFormatError(f"'base_score' must have {n_outputs} numbers.")
    return np.array(numbers * (n_outputs // len(numbers)), dtype=np.float32)


MEANINGS: dict[str, tuple[Meaning, str]] = {
    "reg:squarederror": (Meaning("squared_error"), "identity"),
    "reg:linear": (Meaning("squared_error"), "identity"),
    "reg:absoluteerror": (Meaning("absolute_error"), "identity"),
    "reg:squaredlogerror": (linked("reg:squaredlogerror"), "identity"),
    "reg:pseudohubererror": (linked("reg:pseudohubererror"), "identity"),
    "reg:quantileerror": (linked("reg:quantileerror"), "identity"),
    "reg:expectileerror": (linked("reg:expectileerror"), "identity"),
    "reg:logistic": (Meaning("cross_entropy"), "logit"),
    "binary:logistic": (Meaning("logistic"), "logit"),
    "binary:logitraw": (linked("binary:logitraw"), "identity"),
    "binary:hinge": (Meaning("hinge"), "identity"),
    "multi:softprob": (Meaning("softmax"), "identity"),
    "multi:softmax": (Meaning("softmax"), "identity"),
    "count:poisson": (Meaning("poisson"), "log"),
    "reg:gamma": (Meaning("gamma"), "log"),
    "reg:tweedie": (linked("reg:tweedie", "log"), "log"),
    "survival:cox": (linked("survival:cox", "log"), "log"),
    "survival:aft": (linked("survival:aft", "log"), "log"),
    "rank:ndcg": (Meaning("lambdarank"), "identity"),
    "rank:map": (Meaning("rank_map"), "identity"),
    "rank:pairwise": (Meaning("rank_pairwise"), "identity"),
}
"""Meaning of the predictions, and link of the base score, for each objective of XGBoost."""
_SEVERAL_LEVELS = ("reg:quantileerror", "reg:expectileerror")
"""Objectives whose outputs may be those of one target."""


def _meaning(
    objective: dict[str, Any], base: FloatArray, n_outputs: int, classes: int
) -> tuple[Meaning, FloatArray]:
    """Return the objective in Hedgerow, and raw scores before the first tree."""
    name = objective.get("name")
    if not isinstance(name, str) or name not in MEANINGS:
        raise ModelFormatError(f"the objective {str(name)[:60]!r} of XGBoost is not supported.")
    meaning, link = MEANINGS[name]
    one = np.float32(1.0)  # XGBoost converts in float32
    with np.errstate(divide="ignore", invalid="ignore"):
        raw = {"identity": base, "log": np.log(base), "logit": -np.log(one / base - one)}[link]
    if not np.isfinite(raw).all():
        raise ModelFormatError("'base_score' is outside the range of predictions.")
    if n_outputs > 1 and not classes and name not in _SEVERAL_LEVELS:
        if meaning.objective not in FOR_SEVERAL:
            raise ModelFormatError(f"{name!r} with {n_outputs} outputs is not supported.")
        meaning = several(meaning, n_outputs)
    elif meaning.objective == "softmax" and n_outputs < 2:
        raise ModelFormatError(f"{name!r} needs at least two classes.")
    return meaning, raw.astype(np.float64)


def _read_tree(record: dict[str, Any], n_features: int, n_outputs: int) -> TreeTable:
    """Read one tree; its sets hold the categories that go right, instead of levels."""
    about = records.member(record, "tree_param")
    size = records.text_integer(about, "size_leaf_vector", 0, 2**20, "1")
    left = records.ints(record, "left_children")
    n = len(left)
    if n == 0:
        raise ModelFormatError("a tree has no nodes.")
    right = records.ints(record, "right_children", n)
    inner = left >= 0
    condition = records.floats(record, "split_conditions", n)
    feature = records.ints(record, "split_indices", n)
    feature = np.where(inner, feature & 0x7FFFFFFF, -1)
    if (feature >= n_features).any():
        raise ModelFormatError("a split uses a column that does not exist.")
    with np.errstate(over="ignore"):
        cut = condition.astype(np.float32)
    if np.isnan(cut[inner]).any():
        raise ModelFormatError("a split condition is NaN.")
    if size > 1:
        value = _vectors(record, inner, right, size, n_outputs)
    else:
        value = np.where(inner, np.nan, cut.astype(np.float64))
    return TreeTable(
        feature=feature,
        key=keys_below_float32(np.where(np.isnan(cut), np.float32(0.0), cut)),
        missing_left=records.ints(record, "default_left", n) != 0,
        left=left,
        right=np.where(inner, right, -1),
        value=value,
        gain=records.floats(record, "loss_changes", n),
        cover=np.clip(np.nan_to_num(records.floats(record, "sum_hessian", n)), 0.0, None),
        sets=_listed(record, inner),
    )


def _vectors(
    record: dict[str, Any], inner: Any, right: IntArray, size: int, n_outputs: int
) -> FloatArray:
    """Return the leaf vectors, indexed by the right child, or listed for all nodes."""
    if size != n_outputs:
        raise ModelFormatError(f"a tree has leaves with {size} numbers for {n_outputs} outputs.")
    n = len(inner)
    value = np.full((n, size), np.nan)
    if "leaf_weights" in record:
        weights = records.floats(record, "leaf_weights").astype(np.float32).astype(np.float64)
        place = right[~inner]
        if len(weights) % size or ((place < 0) | (place >= len(weights) // size)).any():
            raise ModelFormatError("'leaf_weights' does not fit the leaves.")
        value[~inner] = weights.reshape(-1, size)[place]
        return value
    every = records.floats(record, "base_weights", n * size).astype(np.float32)
    value[~inner] = every.astype(np.float64).reshape(n, size)[~inner]
    return value


def _listed(record: dict[str, Any], inner: Any) -> dict[int, IntArray]:
    """Return the categories of each category split."""
    kinds = record.get("split_type")
    split_type = np.zeros(len(inner), np.int64)
    if kinds is not None:
        split_type = records.ints(record, "split_type", len(inner))
    chosen = set(np.flatnonzero((split_type == 1) & inner).tolist())
    if not chosen:
        return {}
    nodes = records.ints(record, "categories_nodes").tolist()
    begin = records.ints(record, "categories_segments", len(nodes)).tolist()
    size = records.ints(record, "categories_sizes", len(nodes)).tolist()
    every = records.ints(record, "categories")
    if len(set(nodes)) < len(nodes) or not chosen <= set(nodes):
        raise ModelFormatError("'categories_nodes' does not fit the splits.")
    found, total = {}, 0
    for node, first, count in zip(nodes, begin, size, strict=True):
        if not (0 <= first <= len(every) and 0 <= count <= len(every) - first):
            raise ModelFormatError("'categories_segments' goes beyond the categories.")
        total += count
        if total > _MOST_LISTED:
            raise ModelFormatError("the sets of categories are too large.")
        if node in chosen:
            found[node] = distinct(every[first : first + count])
            if len(found[node]) and not 0 <= found[node][0] <= found[node][-1] < 2**31:
                raise ModelFormatError("a category is outside its range.")
    return found


def _coded_columns(
    cats: Any, learner: dict[str, Any], table: TreeTable, n_features: int
) -> dict[int, Coded]:
    """Return all category columns; the sets of the table hold codes."""
    named: dict[int, set[int]] = {}
    for j, kind in enumerate(records.texts(learner, "feature_types")):
        if kind == "c":
            named[j] = set()
    for node, listed in table.sets.items():
        named.setdefault(int(table.feature[node]), set()).update(listed.tolist())
    if any(not 0 <= j < n_features for j in named):
        raise ModelFormatError("a category column does not exist.")
    known = {} if cats is None else cats  # the categories that the model contains
    if not isinstance(known, dict):
        raise ModelFormatError("'cats' must be an object.")
    encodings = records.objects(known, "enc", missing=True)
    if len(encodings) not in (0, n_features):
        raise ModelFormatError(f"'enc' must have {n_features} entries.")
    levels = {j: _levels(encoding, j) for j, encoding in enumerate(encodings)}
    coded = {j: Coded.of(own, range(len(own)), f"column {j}") for j, own in levels.items() if own}
    return {
        j: coded[j] if j in coded else Coded.of_numbers(codes, "down", f"column {j}")
        for j, codes in named.items()
    }


def _levels(encoding: dict[str, Any], j: int) -> list[Any]:
    if "offsets" not in encoding:
        values = records.floats(encoding, "values")
        if np.isnan(values).any():
            raise ModelFormatError(f"column {j} has a category that is NaN.")
        is_float = np.asarray(encoding["values"]).dtype.kind == "f"
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
