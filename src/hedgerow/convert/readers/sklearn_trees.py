"""Readers of scikit-learn's trees, forests and GradientBoosting.

These models round values to float32 and test ``x <= threshold`` with a float64 threshold; missing
values follow the node's side.  Forests average their trees, so raw scores differ from
scikit-learn's by the rounding of one division.  GradientBoosting adds float64 numbers in the
order of the trees, as Hedgerow does, so raw scores are equal to the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hedgerow.arrays import AnyArray, FloatArray
from hedgerow.convert.meaning import Imported, Meaning, finished, linked, numeric_schema, several
from hedgerow.convert.thresholds import keys_up_to_float32
from hedgerow.convert.trees import TreeTable
from hedgerow.data.schema import Schema, default_names
from hedgerow.errors import ParameterError

_TREES = ("DecisionTreeRegressor", "DecisionTreeClassifier", "ExtraTreeRegressor")
TREES = frozenset({*_TREES, "ExtraTreeClassifier"})
FORESTS = frozenset(
    {
        *("RandomForestRegressor", "RandomForestClassifier"),
        *("ExtraTreesRegressor", "ExtraTreesClassifier"),
    }
)
BOOSTED = frozenset({"GradientBoostingRegressor", "GradientBoostingClassifier"})


def schema_of(model: Any) -> Schema:
    """Return numeric columns, with the names of the training table if it had names."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        return numeric_schema(default_names(int(model.n_features_in_)), False)
    return numeric_schema([str(name) for name in names], True)


def source_of(model: Any) -> dict[str, Any]:
    """Return the entry of the training record for the model's origin."""
    return {"format": "scikit-learn", "class": type(model).__name__}


def read_tree_model(model: Any) -> Imported:
    """Read a fitted tree, or a forest, which is the mean of its trees."""
    trees = [model] if type(model).__name__ in TREES else list(model.estimators_)
    table = table_of([tree.tree_ for tree in trees])
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
            meaning = several(Meaning("squared_error"), n_outputs)
    width = table.value.shape[1:]
    value = table.value.reshape(len(table.feature), -1)[:, :n_outputs] / len(trees)
    table.value = value if n_outputs > 1 else value[:, 0]
    assert width
    source = source_of(model) | ({"boosting": "rf"} if len(trees) > 1 else {})
    classes = getattr(model, "classes_", None)
    return finished(table, schema_of(model), [0.0] * n_outputs, meaning, source, classes)


def read_boosted(model: Any) -> Imported:
    """Read a fitted GradientBoosting model."""
    table = table_of([tree.tree_ for row in model.estimators_ for tree in row])
    table.value = float(model.learning_rate) * table.value[:, 0, 0]
    n_outputs = model.estimators_.shape[1]
    start = _start(model, n_outputs)
    loss = str(model.loss)
    classes = getattr(model, "classes_", None)
    if classes is not None:
        names = {"exponential": "exponential"}
        meaning = Meaning(names.get(loss, "logistic" if n_outputs == 1 else "softmax"))
    elif loss in ("squared_error", "absolute_error"):
        meaning = Meaning(loss)
    else:
        meaning = linked(loss)
    return finished(table, schema_of(model), start.tolist(), meaning, source_of(model), classes)


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


def table_of(trees: Sequence[Any]) -> TreeTable:
    """Return all trees; values have the shape (n_nodes, n_targets, n_classes)."""

    def all_of(name: str) -> AnyArray:
        return np.concatenate([np.asarray(getattr(tree, name)) for tree in trees])

    sizes = [int(tree.node_count) for tree in trees]
    left = all_of("children_left").astype(np.int64)
    inner = left >= 0
    missing = [
        np.asarray(getattr(tree, "missing_go_to_left", np.zeros(tree.node_count))) for tree in trees
    ]
    cut = np.where(inner, all_of("threshold"), 0.0)
    return TreeTable(
        start=np.concatenate(([0], np.cumsum(sizes))).astype(np.int64),
        feature=np.where(inner, all_of("feature"), -1).astype(np.int64),
        key=keys_up_to_float32(cut),
        missing_left=np.concatenate(missing) != 0,
        left=left,
        right=all_of("children_right").astype(np.int64),
        value=all_of("value").astype(np.float64),
        gain=_gains(trees, inner),
        cover=all_of("weighted_n_node_samples").astype(np.float64),
        count=all_of("n_node_samples").astype(np.int64),
    )


def _gains(trees: Sequence[Any], inner: Any) -> FloatArray:
    """Return the impurity decrease of each split, times the weight of its rows."""
    parts = []
    for tree in trees:
        mass = tree.weighted_n_node_samples * tree.impurity
        left, right = tree.children_left, tree.children_right
        parts.append(np.where(left >= 0, mass - mass[left] - mass[right], 0.0))
    return np.where(inner, np.concatenate(parts), 0.0)
