"""Readers of scikit-learn's trees, forests, GradientBoosting and HistGradientBoosting.

Trees, forests and GradientBoosting round values to float32 and test ``x <= threshold`` with a
float64 threshold; missing values follow the node's side.  Forests average their trees, so raw
scores differ from scikit-learn's by the rounding of one division.  GradientBoosting adds float64
numbers in the order of the trees, as Hedgerow does, so raw scores are equal to the last bit.

HistGradientBoosting compares float64 values by ``x <= threshold``, and adds in the same order.
Unknown categories are missing values.  Its trees and the encoder of categories are private
attributes, which scikit-learn may rename; an error names a missing attribute.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from hedgerow.arrays import MISSING_KEY, AnyArray, FloatArray, IntArray
from hedgerow.convert.categories import Coded, schema_of
from hedgerow.convert.meaning import Imported, Meaning, finished, linked, several
from hedgerow.convert.thresholds import keys_up_to, keys_up_to_float32
from hedgerow.convert.trees import TreeTable, joined
from hedgerow.data.reading.objects import read_column
from hedgerow.data.schema import Temporal, default_names
from hedgerow.errors import DataTypeError, ModelFormatError, ParameterError

_TREES = ("DecisionTreeRegressor", "DecisionTreeClassifier", "ExtraTreeRegressor")
TREES = frozenset({*_TREES, "ExtraTreeClassifier"})
FORESTS = frozenset(
    {
        *("RandomForestRegressor", "RandomForestClassifier"),
        *("ExtraTreesRegressor", "ExtraTreesClassifier"),
    }
)
BOOSTED = frozenset({"GradientBoostingRegressor", "GradientBoostingClassifier"})
HIST = frozenset({"HistGradientBoostingRegressor", "HistGradientBoostingClassifier"})

_OURS = ("squared_error", "absolute_error")
_OURS_OF_HIST = (*_OURS, "gamma", "poisson")


def read_tree_model(model: Any) -> Imported:
    """Read a fitted tree, or a forest, which is the mean of its trees."""
    trees = [model] if type(model).__name__ in TREES else list(model.estimators_)
    table = _table_of([tree.tree_ for tree in trees])
    if hasattr(model, "classes_"):
        if int(model.n_outputs_) != 1:
            raise ParameterError(
                f"this {type(model).__name__} has {model.n_outputs_} targets: classifiers of "
                "several targets cannot be imported; train one model for each target."
            )
        n_outputs = len(model.classes_)
        meaning = linked(type(model).__name__, "identity", "classes")
        if n_outputs < 2:
            raise ParameterError("a classifier trained on one class cannot be imported.")
    else:
        n_outputs = int(model.n_outputs_)
        meaning = Meaning("squared_error")
        if n_outputs > 1:
            meaning = several(meaning, n_outputs)
    value = table.value.reshape(len(table.feature), -1)[:, :n_outputs] / len(trees)
    table.value = value if n_outputs > 1 else value[:, 0]
    source = {"boosting": "rf"} if len(trees) > 1 else {}
    return _finished(model, table, np.zeros(n_outputs), meaning, source=source)


def read_boosted(model: Any) -> Imported:
    """Read a fitted GradientBoosting model."""
    table = _table_of([tree.tree_ for row in model.estimators_ for tree in row])
    table.value = float(model.learning_rate) * table.value[:, 0, 0]
    start = _start(model, model.estimators_.shape[1])
    if model.loss == "exponential":
        return _finished(model, table, start, Meaning("exponential"))
    return _finished(model, table, start, _meaning(model, start, _OURS))


def read_hist(model: Any) -> Imported:
    """Read a fitted HistGradientBoosting model."""
    predictors = [tree for row in _private(model, "_predictors") for tree in row]
    baseline = np.asarray(_private(model, "_baseline_prediction"), dtype=np.float64).reshape(-1)
    coded, order = _coded_columns(model)
    table = joined([_hist_tree(predictor, order, coded) for predictor in predictors])
    return _finished(model, table, baseline, _meaning(model, baseline, _OURS_OF_HIST), coded)


def _meaning(model: Any, start: FloatArray, ours: tuple[str, ...]) -> Meaning:
    if hasattr(model, "classes_"):
        return Meaning("logistic" if len(start) == 1 else "softmax")
    return Meaning(model.loss) if model.loss in ours else linked(str(model.loss))


def _finished(
    model: Any,
    table: TreeTable,
    start: FloatArray,
    meaning: Meaning,
    coded: Mapping[int, Coded] = MappingProxyType({}),
    source: Mapping[str, str] = MappingProxyType({}),
) -> Imported:
    """Build the model."""
    schema = schema_of(*_names(model), coded)
    known = {"format": "scikit-learn", "class": type(model).__name__, **source}
    classes = getattr(model, "classes_", None)
    return finished(table, schema, start.tolist(), meaning, known, classes)


def _names(model: Any) -> tuple[Sequence[str], bool]:
    """Return the names of the columns, and whether the training table had names."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        return default_names(int(model.n_features_in_)), False
    return [str(name) for name in names], True


def _start(model: Any, n_outputs: int) -> FloatArray:
    """Return raw scores before the first tree."""
    init = model.init_
    if isinstance(init, str) and init == "zero":
        return np.zeros(n_outputs)
    if type(init).__name__ not in ("DummyClassifier", "DummyRegressor"):
        raise ParameterError(
            f"this {type(model).__name__} starts from the predictions of a "
            f"{type(init).__name__}, which is not part of its trees: it cannot be imported."
        )
    start = getattr(model, "_raw_predict_init")  # noqa: B009  (there is no public way to it)
    row = np.zeros((1, int(model.n_features_in_)), dtype=np.float32)
    return np.asarray(start(row), dtype=np.float64).reshape(-1)


def _table_of(trees: list[Any]) -> TreeTable:
    """Return all trees; values have the shape (n_nodes, n_targets, n_classes)."""
    tables = []
    for tree in trees:
        left, right = tree.children_left, tree.children_right
        inner = left >= 0
        mass = tree.weighted_n_node_samples * tree.impurity
        table = TreeTable(
            feature=np.where(inner, tree.feature, -1),
            key=keys_up_to_float32(np.where(inner, tree.threshold, 0.0)),
            missing_left=np.asarray(getattr(tree, "missing_go_to_left", 0 * left)) != 0,
            left=left,
            right=right,
            value=tree.value,
            # The impurity decrease of each split, times the weight of its rows.
            gain=np.where(inner, mass - mass[left] - mass[right], 0.0),
            cover=tree.weighted_n_node_samples,
            count=tree.n_node_samples,
        )
        tables.append(table)
    return joined(tables)


def _private(model: Any, name: str) -> Any:
    if not hasattr(model, name):
        import sklearn

        raise ParameterError(
            f"{type(model).__name__} of scikit-learn {sklearn.__version__} has no {name}: this "
            "version cannot be imported."
        )
    return getattr(model, name)


def _coded_columns(model: Any) -> tuple[dict[int, Coded], IntArray]:
    """Return the category columns, and the columns in the order in which the trees see them."""
    # Categories come first, encoded as whole numbers.
    preprocessor = _private(model, "_preprocessor")
    if preprocessor is None:
        return {}, np.arange(int(model.n_features_in_), dtype=np.int64)
    is_category = np.asarray(_private(model, "is_categorical_"), dtype=np.bool_)
    encoder = preprocessor.named_transformers_["encoder"]
    places = np.flatnonzero(is_category)
    found, (names, _) = {}, _names(model)
    for j, categories in zip(places.tolist(), encoder.categories_, strict=True):
        plain, temporal = _as_read(categories, names[j])
        known = [k for k, item in enumerate(plain) if item is not None and item == item]
        values = [int(plain[k]) if isinstance(plain[k], bool) else plain[k] for k in known]
        found[j] = replace(Coded.of(values, known, f"column {j}"), temporal=temporal)
    return found, np.concatenate((places, np.flatnonzero(~is_category))).astype(np.int64)


def _as_read(categories: AnyArray, name: str) -> tuple[list[Any], Temporal | None]:
    """Return categories as a table is read, and what they are if they are microseconds."""
    plain = [item.item() if isinstance(item, np.generic) else item for item in categories]
    kinds = {type(item) for item in plain if item is not None}
    is_temporal = categories.dtype.kind in "mM"
    if not is_temporal and kinds <= {str, bool, int, float}:
        return plain, None
    try:
        column = read_column(categories if is_temporal else categories.astype(object), name)
    except DataTypeError as error:
        raise ModelFormatError(f"categories of the model: {error}") from None
    found = column.as_array()
    if found.dtype.kind == "i":
        whole = [None if key == MISSING_KEY else key for key in found.tolist()]
        return whole, column.temporal
    return list(found.tolist()), None


def _hist_tree(predictor: Any, order: IntArray, coded: dict[int, Coded]) -> TreeTable:
    nodes = predictor.nodes
    inner = nodes["is_leaf"] == 0
    feature = np.where(inner, order[np.where(inner, nodes["feature_idx"], 0)], -1)
    is_set = inner & (nodes["is_categorical"] != 0)
    sets = {}
    for node in np.flatnonzero(is_set).tolist():
        words = np.asarray(predictor.raw_left_cat_bitsets[nodes["bitset_idx"][node]], "<u4")
        listed = np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little"))
        sets[node] = np.flatnonzero(coded[int(feature[node])].has(listed))
    return TreeTable(
        feature=feature,
        key=keys_up_to(np.where(inner & ~is_set, nodes["num_threshold"], 0.0)),
        missing_left=(nodes["missing_go_to_left"] != 0) & inner,
        left=nodes["left"],
        right=nodes["right"],
        value=np.where(inner, np.nan, nodes["value"]),
        gain=np.where(inner, nodes["gain"], 0.0),
        cover=nodes["count"],
        count=nodes["count"],
        sets=sets,
    )
