"""Reader of scikit-learn's HistGradientBoosting models.

These models compare float64 values by ``x <= threshold`` and add float64 numbers in the order of
the trees, so raw scores are equal to the last bit.  Unknown categories are missing values.  The
trees and the encoder of categories are private attributes, which scikit-learn may rename; an
error names a missing attribute.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hedgerow.arrays import MISSING_KEY, AnyArray, IntArray
from hedgerow.convert.meaning import Imported, Meaning, finished, linked
from hedgerow.convert.readers.sklearn_trees import schema_of, source_of
from hedgerow.convert.sets import CategorySets
from hedgerow.convert.thresholds import keys_up_to
from hedgerow.convert.trees import TreeTable
from hedgerow.data.categories.columns import Encoded, untyped
from hedgerow.data.categories.levels import canonical
from hedgerow.data.reading.rows import read_column
from hedgerow.data.reading.temporal import temporal_of
from hedgerow.data.schema import Column, Schema, Temporal
from hedgerow.errors import DataTypeError, ModelFormatError, ParameterError

HIST = frozenset({"HistGradientBoostingRegressor", "HistGradientBoostingClassifier"})

_OURS = {
    "squared_error": "squared_error",
    "absolute_error": "absolute_error",
    "gamma": "gamma",
    "poisson": "poisson",
}


def read_hist(model: Any) -> Imported:
    """Read a fitted HistGradientBoosting model."""
    predictors = [tree for row in _private(model, "_predictors") for tree in row]
    baseline = np.asarray(_private(model, "_baseline_prediction"), dtype=np.float64).reshape(-1)
    columns, order = _columns(model)
    position = {j: p for j, p in columns.items() if p is not None}
    base = schema_of(model)
    kept = tuple(
        columns[j][0] if j in position else column for j, column in enumerate(base.columns)
    )
    schema = Schema(kept, base.named)
    table = _table(predictors, order, {j: code for j, (_, code) in position.items()})
    classes = getattr(model, "classes_", None)
    if classes is not None:
        meaning = Meaning("logistic" if len(baseline) == 1 else "softmax")
    else:
        loss = str(model.loss)
        meaning = Meaning(_OURS[loss]) if loss in _OURS else linked(loss)
    return finished(table, schema, baseline.tolist(), meaning, source_of(model), classes)


def _private(model: Any, name: str) -> Any:
    if not hasattr(model, name):
        import sklearn

        raise ParameterError(
            f"{type(model).__name__} of scikit-learn {sklearn.__version__} has no {name}: this "
            "version cannot be imported."
        )
    return getattr(model, name)


def _columns(model: Any) -> tuple[dict[int, tuple[Column, IntArray]], IntArray]:
    """Return the category columns, the position of each of their codes, and the column order."""
    # The trees see categories first, encoded as whole numbers, then the other columns.
    n_features = int(model.n_features_in_)
    preprocessor = _private(model, "_preprocessor")
    if preprocessor is None:
        return {}, np.arange(n_features, dtype=np.int64)
    is_category = np.asarray(_private(model, "is_categorical_"), dtype=np.bool_)
    encoder = preprocessor.named_transformers_["encoder"]
    places = np.flatnonzero(is_category)
    found = {}
    for j, categories in zip(places.tolist(), encoder.categories_, strict=True):
        found[j] = _column(categories, schema_of(model).columns[j].name)
    return found, np.concatenate((places, np.flatnonzero(~is_category))).astype(np.int64)


def _column(categories: AnyArray, name: str) -> tuple[Column, IntArray]:
    """Return a column with levels in ascending order, and the level of each code (-1: missing)."""
    plain, temporal = _as_read(categories, name)
    known = [k for k, item in enumerate(plain) if item is not None and item == item]
    order = sorted(known, key=plain.__getitem__)
    position = np.full(len(plain), -1, dtype=np.int64)
    position[order] = np.arange(len(order))
    values = [int(plain[k]) if isinstance(plain[k], bool) else plain[k] for k in order]
    return Column(name, "category", tuple(canonical(values)), temporal=temporal), position


def _as_read(categories: AnyArray, name: str) -> tuple[list[Any], Temporal | None]:
    """Return categories as a table is read, and what they are if they are microseconds."""
    plain = [item.item() if isinstance(item, np.generic) else item for item in categories]
    kinds = {type(item) for item in plain if item is not None}
    if categories.dtype.kind not in "mM" and kinds <= {str, bool, int, float}:
        return plain, None
    is_temporal = categories.dtype.kind in "mM"
    try:
        column = read_column(categories if is_temporal else categories.astype(object), name)
    except DataTypeError as error:
        raise ModelFormatError(f"categories of the model: {error}") from None
    found = untyped(column)
    if isinstance(found, Encoded):
        texts = list(found.values)
        return [None if code < 0 else texts[code] for code in found.codes.tolist()], None
    if found.dtype.kind == "i":
        whole = [None if key == MISSING_KEY else key for key in found.tolist()]
        return whole, temporal_of(column)
    return list(found.tolist()), None


def _table(predictors: list[Any], order: IntArray, positions: dict[int, IntArray]) -> TreeTable:
    nodes = np.concatenate([predictor.nodes for predictor in predictors])
    sizes = [len(predictor.nodes) for predictor in predictors]
    start = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
    inner = nodes["is_leaf"] == 0
    feature = np.where(inner, order[np.where(inner, nodes["feature_idx"], 0)], -1)
    is_set = inner & (nodes["is_categorical"] != 0)
    key = keys_up_to(np.where(inner & ~is_set, nodes["num_threshold"], 0.0))
    members: list[IntArray] = []
    tree = np.repeat(np.arange(len(predictors)), sizes)
    for node in np.flatnonzero(is_set).tolist():
        words = predictors[tree[node]].raw_left_cat_bitsets[nodes["bitset_idx"][node]]
        bits = np.unpackbits(np.asarray(words, "<u4").view(np.uint8), bitorder="little")
        position = positions[int(feature[node])]
        codes = np.flatnonzero(bits)
        found = position[codes[codes < len(position)]]
        key[node] = len(members)
        members.append(np.sort(found[found >= 0]))
    sets = CategorySets(is_set, members, np.zeros(len(members), dtype=np.bool_))
    count = nodes["count"].astype(np.int64)
    return TreeTable(
        start=start,
        feature=feature.astype(np.int64),
        key=key,
        missing_left=(nodes["missing_go_to_left"] != 0) & inner,
        left=nodes["left"].astype(np.int64),
        right=nodes["right"].astype(np.int64),
        value=np.where(inner, np.nan, nodes["value"]).astype(np.float64),
        gain=np.where(inner, nodes["gain"], 0.0).astype(np.float64),
        cover=count.astype(np.float64),
        count=count,
        sets=sets,
    )
