"""Validate a model, because kernels walk its arrays without bounds checks.

All checks are vectorised, take O(nodes) time, and use only a few arrays with one entry per
node.

A walk always ends inside its tree for the following reason.  Children come after their
parent and before the end of the tree, and every node except the root has exactly one
parent.  So each step leads to a higher position, there are no cycles or shared subtrees,
and a walk takes fewer steps than the tree has nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from hedgerow.arrays import MISSING_KEY, AnyArray, BoolArray, IntArray
from hedgerow.boosting.row_data.classes import check_record
from hedgerow.boosting.row_data.offsets import RECORD as OFFSET_COLUMNS
from hedgerow.data.schema import Schema
from hedgerow.errors import ModelFormatError, ParameterError
from hedgerow.io.levels import check_levels, check_sets
from hedgerow.io.slopes import check_slope_columns, check_slopes
from hedgerow.io.statistics import check_inputs
from hedgerow.io.training_record import (
    all_of,
    check_training_record,
    is_finite,
    is_number,
    numbers_in,
)
from hedgerow.model.forest import Forest
from hedgerow.model.model import Model
from hedgerow.objectives import CUSTOM, OBJECTIVES, objective_of_record

_I64, _F64, _I32, _U8 = (np.dtype(t) for t in (np.int64, np.float64, np.int32, np.uint8))

FOREST_DTYPES: dict[str, np.dtype[np.generic]] = {
    "threshold": _I64,
    "value": _F64,
    "gain": _F64,
    "cover": _F64,
    "count": _I64,
    "tree_start": _I64,
    "base_score": _F64,
    "feature": _I32,
    "left": _I32,
    "right": _I32,
    "missing_left": _U8,
}
"""Element type of every array of a forest."""

VECTOR_DTYPES: dict[str, np.dtype[np.generic]] = {"vector": _F64}
"""Element type of the array of vector leaves, node after node."""

_PER_NODE = tuple(name for name in FOREST_DTYPES if name not in ("tree_start", "base_score"))

_IN_RANGE = "the position of a column, or -1 in a leaf"

_INF_BITS = 0x7FF0_0000_0000_0000
_HIGHEST_FLOAT_KEY = _INF_BITS
_LOWEST_FLOAT_KEY = -_INF_BITS - 1
_NEGATIVE_ZERO_KEY = -1
"""The key of no value, because -0.0 compares as 0.0."""

_LEAST_OUTPUTS = {"softmax": 2}
"""Fewest outputs of objectives that need several."""


def check_model(model: Model) -> None:
    """Raise ``ModelFormatError`` unless prediction with ``model`` is safe and meaningful."""
    check_forest(model.forest)
    n_features, inputs = model.forest.n_features, model.inputs
    _check_schema(model.schema, n_features if inputs is None else model.schema.n_features)
    if inputs is not None:
        check_inputs(inputs, model.schema, n_features)
    check_sets(model.forest, model.split_schema)
    _check_thresholds(model.forest, model.split_schema)
    check_slope_columns(model.forest, model.split_schema)
    check_training_record(model.training, model.schema.n_features)
    _check_objective(model)


def read_vectors(arrays: Mapping[str, AnyArray]) -> AnyArray | None:
    """Return the vectors of leaves among the arrays of a file; None if there are none."""
    if "vector" not in arrays:
        return None
    flat, shape = arrays["vector"], (len(arrays["feature"]), len(arrays["base_score"]))
    if len(flat) != shape[0] * shape[1]:
        raise ModelFormatError("vector must hold a number for each node and output.")
    return flat.reshape(shape)


def check_forest(forest: Forest) -> None:
    """Do the checks of :func:`check_model` that need no schema."""
    _check_arrays(forest)
    _check_tree_start(forest)
    leaf = forest.feature == -1
    _require_all(
        (forest.feature >= -1) & (forest.feature < forest.n_features), "feature", _IN_RANGE
    )
    _require_all(forest.missing_left <= 1, "missing_left", "0 or 1")
    for name in ("threshold", "missing_left", "left", "right", "gain"):
        _require_all((getattr(forest, name) == 0) | ~leaf, name, "0 in a leaf")
    _check_children(forest, np.flatnonzero(~leaf))
    for name in ("value", "gain", "cover", "base_score"):
        _require_all(np.isfinite(getattr(forest, name)), name, "finite")
    for name in ("cover", "count"):
        _require_all(getattr(forest, name) >= 0, name, "at least 0")
    _check_vectors(forest)
    check_slopes(forest)


def _check_vectors(forest: Forest) -> None:
    """Check that vectors are finite numbers for each node and output, and that values are 0."""
    vectors = forest.vectors
    if vectors is None:
        return
    if vectors.dtype != _F64 or vectors.shape != (len(forest.feature), forest.n_outputs):
        raise ModelFormatError(
            f"vector must hold {forest.n_outputs} numbers for each of {len(forest.feature)} nodes."
        )
    _require_all(np.isfinite(vectors).reshape(-1), "vector", "finite")
    _require_all(forest.value == 0.0, "value", "0 where leaves hold vectors")


def _require_all(holds: BoolArray, name: str, rule: str) -> None:
    """Raise an error with the first position where a rule does not hold."""
    if not holds.all():
        at = int(np.argmin(holds))
        raise ModelFormatError(f"{name} must be {rule}; it is not at position {at}.")


def _check_arrays(forest: Forest) -> None:
    """Check that all arrays have their element type, one axis, and one entry per node."""
    for name, dtype in FOREST_DTYPES.items():
        array: AnyArray = getattr(forest, name)
        if array.dtype != dtype or array.ndim != 1:
            raise ModelFormatError(f"{name} must be a one-dimensional array of {dtype}.")
    n_nodes = len(forest.feature)
    for name in _PER_NODE:
        if len(getattr(forest, name)) != n_nodes:
            raise ModelFormatError(f"{name} must have one entry per node ({n_nodes}).")


def _check_tree_start(forest: Forest) -> None:
    start, n_nodes = forest.tree_start, len(forest.feature)
    if len(start) < 1 or start[0] != 0 or start[-1] != n_nodes:
        raise ModelFormatError("tree_start must run from 0 to the number of nodes.")
    # Compare instead of subtracting, because a difference of hostile numbers could overflow.
    _require_all(start[1:] > start[:-1], "tree_start", "increasing")
    if forest.n_outputs < 1 or forest.n_parallel < 1 or forest.n_trees % forest.trees_per_round:
        several = f" with {forest.n_parallel} trees in a round" if forest.n_parallel != 1 else ""
        raise ModelFormatError(
            f"{forest.n_trees} trees cannot be divided among {forest.n_outputs} outputs"
            f"{several} evenly."
        )


def _check_children(forest: Forest, inner: IntArray) -> None:
    """Check that children come after their parent, in its tree, and have only one parent."""
    start = forest.tree_start
    tree = np.searchsorted(start, inner, side="right") - 1
    root, end = start[tree], start[tree + 1]
    parents = np.zeros(len(forest.feature), dtype=np.uint8)
    for name in ("left", "right"):
        child = root + getattr(forest, name)[inner]
        if not ((child > inner) & (child < end)).all():
            raise ModelFormatError(f"{name} must come after its node, in the same tree.")
        # No child may repeat within one array, so the uint8 counts cannot overflow.
        once = np.zeros(len(parents), dtype=np.uint8)
        once[child] = 1
        if np.count_nonzero(once) != len(child):
            raise ModelFormatError("a node has more than one parent.")
        parents += once
    parents[start[:-1]] += 1
    _require_all(parents == 1, "parents", "exactly one for every node but a root")


def _check_schema(schema: Schema, n_features: int) -> None:
    if n_features < 1 or schema.n_features != n_features:
        raise ModelFormatError(
            f"n_features is {n_features}, the schema has {schema.n_features} columns; "
            "both must be the same and at least 1."
        )
    if len(set(schema.names)) != n_features:
        raise ModelFormatError("the schema names a column twice.")
    check_levels(schema)


def _check_thresholds(forest: Forest, schema: Schema) -> None:
    """Check that a threshold is the key of a present value of its column."""
    is_int = np.array([column.kind == "int" for column in schema.columns], dtype=np.bool_)
    is_set = np.array([column.kind == "category" for column in schema.columns], dtype=np.bool_)
    inner = np.flatnonzero(forest.feature >= 0)
    inner = inner[~is_set[forest.feature[inner]]]
    key = forest.threshold[inner]
    of_float = (key >= _LOWEST_FLOAT_KEY) & (key <= _HIGHEST_FLOAT_KEY)
    of_float &= key != _NEGATIVE_ZERO_KEY
    valid = np.where(is_int[forest.feature[inner]], key != MISSING_KEY, of_float)
    if not valid.all():
        at = int(inner[np.argmin(valid)])
        raise ModelFormatError(f"threshold of node {at} is not the key of a value of its column.")


def _check_objective(model: Model) -> None:
    name, n_outputs = model.objective, model.forest.n_outputs
    if name not in OBJECTIVES and name != CUSTOM:
        raise ModelFormatError(f"unknown objective {name[:50]!r}.")
    if n_outputs < _LEAST_OUTPUTS.get(name, 1):
        raise ModelFormatError(f"objective {name!r} cannot have {n_outputs} outputs.")
    level = model.training.get("quantile", 0.5)
    if not is_number(level) and not all_of(level, is_number):
        raise ModelFormatError("training: quantile must be a number between 0 and 1.")
    try:
        objective_of_record(name, n_outputs, model.training)
    except ParameterError as error:
        raise ModelFormatError(f"training: {error}") from None
    _check_baseline(model)
    _check_positions(model)
    _check_offset_columns(model)
    try:
        check_record(model.training, name, n_outputs)
    except ValueError as error:
        raise ModelFormatError(f"training: class_weight is malformed: {error}.") from None


def _check_positions(model: Model) -> None:
    """Check the position biases of a ranking model."""
    if "position_bias" not in model.training:
        return
    found = model.training["position_bias"]
    bias = numbers_in(found, "bias")
    names: Any = () if bias is None else found.get("positions")
    right = bias is not None and all_of(names, lambda name: isinstance(name, int | str))
    if bias is None or not right or not len({*names}) == len(names) == len(bias):
        raise ModelFormatError("training: the biases of positions are malformed.")


def _check_offset_columns(model: Model) -> None:
    """Check the offset columns: one for each output, and none of them a feature."""
    if OFFSET_COLUMNS not in model.training:
        return
    names = model.training[OFFSET_COLUMNS]
    texts = isinstance(names, list) and all(isinstance(name, str) for name in names)
    if not texts or len(set(names)) != model.forest.n_outputs or len(names) != len(set(names)):
        raise ModelFormatError("training: offset_columns must be one name for each output.")
    if not model.schema.named or not set(names).isdisjoint(model.schema.names):
        raise ModelFormatError("training: offset_columns must not be features.")


def _check_baseline(model: Model) -> None:
    """Check the baseline hazard of a Cox model: times and hazards must not decrease."""
    if "baseline" not in model.training:
        return
    baseline = model.training["baseline"]
    times, hazard = numbers_in(baseline, "times"), numbers_in(baseline, "hazard", is_number)
    if not times or not hazard or len(times) != len(hazard):
        raise ModelFormatError("training: the baseline hazard is malformed.")
    rises = all(a < b for a, b in pairwise(times)) and all(a <= b for a, b in pairwise(hazard))
    reference = baseline.get("reference", 0.0)
    if not (rises and times[0] > 0.0 and hazard[0] >= 0.0 and is_finite(reference)):
        raise ModelFormatError("training: the baseline hazard is malformed.")
