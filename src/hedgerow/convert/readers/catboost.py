"""Reader of CatBoost's JSON models.

The semantics of its trees (catboost/libs/model), and their form in Hedgerow:

=================================  ============================================================
CatBoost                           Hedgerow
=================================  ============================================================
number: ``float32(x) > border``    right; the cut is the largest float64 that rounds to no more
NaN with AsIs, AsFalse             left
NaN with AsTrue                    right
one-hot: the hash is the value     right; unknown and missing categories go left
CTR ``> border``                   right: a statistic of one column or two (:mod:`.catboost_inputs`)
symmetric tree                     a full binary tree whose root has the last split
``scale_and_bias``                 scaled leaf values, and the base score
=================================  ============================================================

CatBoost adds the bias last, Hedgerow first, so raw scores differ by the rounding of float64.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray, IntArray
from hedgerow.convert.categories import Coded, schema_of
from hedgerow.convert.meaning import Imported, Meaning, column_names, finished, linked, several
from hedgerow.convert.readers import catboost_inputs as inputs
from hedgerow.convert.readers import records
from hedgerow.convert.readers.catboost_inputs import columns_of
from hedgerow.convert.thresholds import keys_up_to_float32
from hedgerow.convert.trees import TreeTable, joined
from hedgerow.data.inputs import Statistic
from hedgerow.errors import ModelFormatError
from hedgerow.kernels.tables.keys import keys_of_floats

_MOST_DEPTH = 16


class Split(NamedTuple):
    """One split."""

    feature: int  # column, or a statistic (numbered after the columns); -1 for a leaf
    # largest key that goes left; for a category, the position of the level that goes right, or -1
    # if it is unknown
    key: int
    missing_left: bool
    n_levels: int | None = None  # number of levels of a category column


_LEAF = Split(-1, 0, False)


@dataclass(frozen=True, eq=False)
class Splits:
    """The inputs of splits."""

    columns: inputs.Columns
    ctrs: list[inputs.Ctr]
    statistics: tuple[Statistic, ...]
    _members: dict[Split, IntArray] = field(default_factory=dict)

    def members(self, split: Split) -> IntArray:
        """Return the positions of the levels that go left, the same array for equal splits."""
        if split not in self._members:
            every = np.arange(split.n_levels or 0, dtype=np.int64)
            self._members[split] = every[every != split.key]
        return self._members[split]

    def read(self, record: Any) -> Split:
        """Read one split of a tree."""
        kind = record.get("split_type") if isinstance(record, dict) else None
        columns = self.columns
        if kind == "FloatFeature":
            index = records.whole(record, "float_feature_index", 0, 2**24)
            if index not in columns.floats:
                raise ModelFormatError("a split uses a feature that does not exist.")
            place, nan_left = columns.floats[index]
            border = np.array([records.number(record, "border")])
            return Split(place, int(keys_up_to_float32(border)[0]), nan_left)
        if kind == "OneHotFeature":
            index = records.whole(record, "cat_feature_index", 0, 2**24)
            if index not in columns.categories:
                raise ModelFormatError("a split uses a feature that does not exist.")
            place = columns.categories[index]
            value = inputs.signed(records.whole(record, "value", -(2**31), 2**32 - 1))
            codes = columns.coded[place].codes
            found = np.flatnonzero(codes == value)
            return Split(place, int(found[0]) if len(found) else -1, True, len(codes))
        if kind == "OnlineCtr":  # the number of the split in the model names the CTR
            before = columns.n_borders + len(columns.one_hot)
            number = records.whole(record, "split_index", 0, 2**40) - before
            cut = records.number(record, "border")
            for place, ctr in enumerate(self.ctrs):
                if 0 <= number < len(ctr.borders):
                    if ctr.borders[number] != cut:
                        raise ModelFormatError("the splits are not in the order of the features.")
                    key = int(keys_of_floats(np.array(cut)))
                    return Split(len(columns.names) + place, key, True)
                number -= len(ctr.borders)
            raise ModelFormatError("a split uses a CTR that does not exist.")
        raise ModelFormatError(
            f"a split of the type {str(kind)[:40]!r} of CatBoost cannot be read: Hedgerow does not "
            "have it."
        )


def splits_of(record: dict[str, Any], about: dict[str, Any], columns: inputs.Columns) -> Splits:
    """Read CTRs, and set the levels that the splits of each category column use."""
    ctrs = inputs.ctrs_of(about, columns)
    if columns.hashes is None and (columns.one_hot or ctrs):
        raise ModelFormatError(
            "the model splits categories, but the file has only their hashes: write it with "
            "save_model(path, format='json', pool=training_pool), or use "
            "hedgerow.from_catboost(model, pool=training_pool)."
        )
    wanted: dict[int, set[int]] = {}
    for index, value in columns.one_hot:
        wanted.setdefault(columns.categories[index], set()).add(value)
    known = np.array(sorted(columns.hashes or ()), dtype=np.int64)
    for ctr in ctrs:
        seen = known
        if len(ctr.columns) == 1:
            seen = known[np.isin(inputs.hashes_of([known]), ctr.table(record).keys)]
        for column in ctr.columns:
            wanted.setdefault(column, set()).update(seen.tolist())
    texts = columns.hashes or {}
    for j in columns.categories.values():
        chosen = {code: texts[code] for code in wanted.get(j, ()) if code in texts}
        columns.coded[j] = Coded.of(inputs.as_numbers([*chosen.values()]), chosen, f"column {j}")
    statistics = tuple(inputs.statistic_of(ctr, ctr.table(record), columns) for ctr in ctrs)
    return Splits(columns, ctrs, statistics)


def symmetric_tree(record: dict[str, Any], splits: Splits, n_outputs: int) -> TreeTable:
    """Return a tree with one split per level; bit k of a leaf's number is its side at split k."""
    levels = [splits.read(item) for item in records.listed(record, "splits", missing=True)]
    depth = len(levels)
    if depth > _MOST_DEPTH:
        raise ModelFormatError(f"a tree is deeper than {_MOST_DEPTH} splits.")
    n_leaves = 1 << depth
    requested = [split for k, split in enumerate(reversed(levels)) for _ in range(1 << k)]
    value = np.full((2 * n_leaves - 1, n_outputs), np.nan)
    leaves = records.floats(record, "leaf_values", n_leaves * n_outputs)
    value[n_leaves - 1 :] = leaves.reshape(-1, n_outputs)
    weights = records.floats({"leaf_weights": record.get("leaf_weights") or []}, "leaf_weights")
    cover = np.zeros(len(value))
    if len(weights) == n_leaves:
        cover[n_leaves - 1 :] = np.maximum(np.nan_to_num(weights), 0.0)
    left = [2 * node + 1 for node in range(n_leaves - 1)] + [0] * n_leaves
    return _table(splits, [*requested, *[_LEAF] * n_leaves], left, value, cover)


def nested_tree(record: dict[str, Any], splits: Splits, n_outputs: int) -> TreeTable:
    """Return a tree whose nodes contain their children, level by level."""
    nodes, requested, left, values, cover = [record], [], [], [], []
    for node in nodes:  # the loop extends the list
        children: list[Any] = [node.get("left"), node.get("right")]
        if all(isinstance(child, dict) for child in children):
            requested.append(splits.read(node.get("split")))
            left.append(len(nodes))
            values.append(np.full(n_outputs, np.nan))
            cover.append(0.0)
            nodes += children
        elif children == [None, None]:
            found = node.get("value")
            listed = found if isinstance(found, list) else [found]
            requested.append(_LEAF)
            left.append(0)
            values.append(records.floats({"value": listed}, "value", n_outputs))
            cover.append(max(0.0, records.number(node, "weight", 0.0)))
        else:
            raise ModelFormatError("a node has one child, or a child that is not a node.")
    return _table(splits, requested, left, np.array(values), np.array(cover))


def _table(
    splits: Splits,
    requested: Sequence[Split],
    left: Sequence[int],
    value: FloatArray,
    cover: FloatArray,
) -> TreeTable:
    """Return a tree whose right children follow the left ones, with the covers of all nodes."""
    feature = np.array([split.feature for split in requested])
    first = np.array(left, dtype=np.int64)
    for node in np.flatnonzero(feature >= 0)[::-1].tolist():  # children come after their parents
        cover[node] = cover[left[node]] + cover[left[node] + 1]
    return TreeTable(
        feature=feature,
        key=np.array([split.key for split in requested], dtype=np.int64),
        missing_left=np.array([split.missing_left for split in requested], dtype=np.bool_),
        left=first,
        right=np.where(feature >= 0, first + 1, 0),
        value=value if value.shape[1] > 1 else value[:, 0],
        cover=cover,
        sets={k: splits.members(s) for k, s in enumerate(requested) if s.n_levels is not None},
    )


_MOST_OUTPUTS = 2**16


def read_catboost(record: dict[str, Any]) -> Imported:
    """Read a decoded model."""
    about = records.member(record, "features_info")
    for name, what in _REFUSED.items():
        if about.get(name):
            raise ModelFormatError(
                f"{what} of CatBoost cannot be read: Hedgerow does not have them."
            )
    found = records.listed(record, "scale_and_bias")
    if len(found) != 2:
        raise ModelFormatError("'scale_and_bias' must have two entries.")
    scale = records.number({"scale": found[0]}, "scale")
    biases = found[1] if isinstance(found[1], list) else [found[1]]
    bias = records.floats({"bias": biases}, "bias")
    if not 1 <= len(bias) <= _MOST_OUTPUTS or not np.isfinite(bias).all():
        raise ModelFormatError("'scale_and_bias' must have a finite bias for each output.")
    splits = splits_of(record, about, columns_of(about))
    n_outputs = len(bias)
    where, read = "trees", nested_tree
    if "oblivious_trees" in record:
        where, read = "oblivious_trees", symmetric_tree
    table = joined([read(tree, splits, n_outputs) for tree in records.objects(record, where)])
    table.value *= scale
    known = _info(record, "params").get("loss_function")
    kind = known.get("type") if isinstance(known, dict) else None
    loss = kind[:100] if isinstance(kind, str) else "unknown"
    meaning = _meaning(loss, n_outputs)
    if "targets" in meaning.record and splits.ctrs:
        raise ModelFormatError(
            "the model has CTRs for several targets, whose tables CatBoost writes under one name, "
            "so only the last one is in the file: train with one_hot_max_size=255, or one model "
            "per target."
        )
    classes = _classes(record, meaning, n_outputs)
    source = {"format": "catboost", "objective": loss}
    columns = splits.columns
    named = column_names(columns.names, len(columns.names), "{}")
    schema = schema_of(*named, columns.coded)
    return finished(table, schema, bias.tolist(), meaning, source, classes, splits.statistics)


_REFUSED = {
    "text_features": "columns of text",
    "embedding_features": "embeddings",
    "estimated_features": "estimated features",
}


def _info(record: dict[str, Any], name: str) -> dict[str, Any]:
    """Return an entry of ``model_info``, an object or its text; empty if the file has none."""
    info = record.get("model_info")
    found = info.get(name) if isinstance(info, dict) else None
    if isinstance(found, str) and len(found) <= 1 << 20:
        with suppress(ValueError, RecursionError):
            found = json.loads(found)
    return found if isinstance(found, dict) else {}


_OURS = {
    "RMSE": "squared_error",
    "MAE": "absolute_error",
    "MAPE": "mape",
    "Logloss": "logistic",
    "CrossEntropy": "cross_entropy",
    "Poisson": "poisson",
}
_LINKS = {"Tweedie": "log", "LogLinQuantile": "log"}
_SINGLE = {
    "MultiRMSE": "squared_error",
    "MultiLogloss": "logistic",
    "MultiCrossEntropy": "cross_entropy",
}


def _meaning(loss: str, n_outputs: int) -> Meaning:
    if loss == "MultiClass" and n_outputs > 1:
        return Meaning("softmax")
    if loss == "MultiClassOneVsAll" and n_outputs > 1:
        return linked(loss, "logit", "classes")
    if loss == "RMSEWithUncertainty" and n_outputs == 2:
        return Meaning("normal")  # the second score is the logarithm of the standard deviation
    if n_outputs > 1:
        single = _SINGLE.get(loss)
        return linked(loss) if single is None else several(Meaning(single), n_outputs)
    if loss in _OURS:
        return Meaning(_OURS[loss])
    if loss == "Focal":  # whose weight of the classes is not that of Hedgerow
        return linked(loss, "logit", "two classes")
    return linked(loss, _LINKS.get(loss, "identity"))


def _classes(record: dict[str, Any], meaning: Meaning, n_outputs: int) -> AnyArray | None:
    """Return the labels of the classes, which must be ascending, as in Hedgerow."""
    names = _info(record, "class_params").get("class_names")
    expected = {"logistic": 2, "softmax": n_outputs}.get(meaning.objective)
    task = meaning.record.get("loss_parameters", {}).get("task")
    expected = {"two classes": 2, "classes": n_outputs}.get(task, expected)
    if not isinstance(names, list) or len(names) != expected:
        return None
    kinds = {type(name) for name in names}
    if not (kinds <= {str} or kinds <= {int} or kinds <= {float}):
        return None
    if sorted(set(names)) != names:
        raise ModelFormatError(
            f"the classes {str(names)[:80]} are not in ascending order: such models of CatBoost "
            "cannot be read."
        )
    return np.array(names)
