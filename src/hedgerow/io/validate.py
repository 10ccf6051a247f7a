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
from hedgerow.io.statistics import check_inputs
from hedgerow.io.training_record import (
    all_of,
    check_training_record,
    is_finite,
    is_number,
    numbers_in,
)
from hedgerow.kernels.prediction.slopes import TERMS, Slopes
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

_OF_SLOPES = ("slope_start", "slope_column", "slope", "slope_center", "slope_low", "slope_high")
"""Names of the arrays in the order of the fields of :class:`Slopes`."""

SLOPE_DTYPES: dict[str, np.dtype[np.generic]] = dict(
    zip(_OF_SLOPES, (_I64, _I32, _F64, _F64, _F64, _F64), strict=True)
)
"""Element type of every array of linear leaves, lines after lines: the start of the terms of each
line and the end of all, column, factor and center of each term, and the bounds of each line."""

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
    schema, n_features, inputs = model.schema, model.forest.n_features, model.inputs
    if inputs is not None:
        n_features = schema.n_features
    if n_features < 1 or schema.n_features != n_features:
        raise ModelFormatError(
            f"n_features is {n_features}, the schema has {schema.n_features} columns; "
            "both must be the same and at least 1."
        )
    if len(set(schema.names)) != n_features:
        raise ModelFormatError("the schema names a column twice.")
    check_levels(schema)
    if inputs is not None:
        check_inputs(inputs, schema, model.forest.n_features)
    check_sets(model.forest, model.split_schema)
    _check_thresholds(model.forest, model.split_schema)
    check_training_record(model.training, n_features)
    _check_objective(model)


def read_vectors(arrays: Mapping[str, AnyArray]) -> AnyArray | None:
    """Return the vectors of leaves among the arrays of a file; None if there are none."""
    if "vector" not in arrays:
        return None
    flat, shape = arrays["vector"], (len(arrays["feature"]), len(arrays["base_score"]))
    if len(flat) != shape[0] * shape[1]:
        raise ModelFormatError("vector must hold a number for each node and output.")
    return flat.reshape(shape)


def slope_arrays(slopes: Slopes | None) -> dict[str, AnyArray]:
    """Return the arrays by name; empty for None."""
    return {} if slopes is None else dict(zip(_OF_SLOPES, slopes, strict=True))


def read_slopes(arrays: Mapping[str, AnyArray]) -> Slopes | None:
    """Build slopes from the arrays without checking them."""
    return Slopes(*(arrays[name] for name in _OF_SLOPES)) if "slope" in arrays else None


def check_forest(forest: Forest) -> None:
    """Do the checks of :func:`check_model` that need no schema."""
    n_nodes, start = len(forest.feature), forest.tree_start
    for name, dtype in FOREST_DTYPES.items():
        array: AnyArray = getattr(forest, name)
        if array.dtype != dtype or array.ndim != 1:
            raise ModelFormatError(f"{name} must be a one-dimensional array of {dtype}.")
        if name not in ("tree_start", "base_score") and len(array) != n_nodes:
            raise ModelFormatError(f"{name} must have one entry per node ({n_nodes}).")
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
    vectors = forest.vectors
    if vectors is not None:
        if vectors.dtype != _F64 or vectors.shape != (n_nodes, forest.n_outputs):
            raise ModelFormatError(
                f"vector must hold {forest.n_outputs} numbers for each of {n_nodes} nodes."
            )
        _require_all(np.isfinite(vectors).reshape(-1), "vector", "finite")
        _require_all(forest.value == 0.0, "value", "0 where leaves hold vectors")
    check_slopes(forest)


def check_slopes(forest: Forest) -> None:
    """Raise ``ModelFormatError`` unless predictions can use the slopes of the forest."""
    slopes, n_lines = forest.slopes, len(forest.feature)
    if slopes is None:
        return
    if forest.vectors is not None:
        raise ModelFormatError("slope: leaves that hold vectors have no slopes.")
    n_terms, arrays = len(slopes.slope), slope_arrays(slopes)
    lengths = (n_lines + 1, n_terms, n_terms, n_terms, n_lines, n_lines)
    for name, length in zip(_OF_SLOPES, lengths, strict=True):
        if arrays[name].dtype != SLOPE_DTYPES[name] or arrays[name].shape != (length,):
            raise ModelFormatError(f"{name} must hold {length} numbers of {SLOPE_DTYPES[name]}.")
    start = slopes.start
    if start[0] != 0 or start[-1] != n_terms or not (start[1:] >= start[:-1]).all():
        raise ModelFormatError("slope_start must rise from 0 to the number of terms.")
    unbounded = np.isneginf(slopes.low)
    if (start[1:] - start[:-1] > np.where(unbounded, forest.n_features, TERMS)).any():
        raise ModelFormatError(f"slope_start gives a leaf more than {TERMS} terms.")
    if ((start[1:] > start[:-1]) & (forest.feature >= 0)).any():
        raise ModelFormatError("slope_start gives terms to a node that is not a leaf.")
    if not ((slopes.column >= 0) & (slopes.column < forest.n_features)).all():
        raise ModelFormatError("slope_column must be positions of columns.")
    for name in ("slope", "slope_center"):
        if not np.isfinite(arrays[name]).all():
            raise ModelFormatError(f"{name} must be finite.")
    bounded = np.isfinite(slopes.low) & np.isfinite(slopes.high)
    if not (bounded | (unbounded & np.isposinf(slopes.high))).all():
        raise ModelFormatError("slope_low and slope_high must be finite, or both infinite.")
    if not (slopes.low <= slopes.high).all():
        raise ModelFormatError("slope_low must not be above slope_high.")


def _require_all(holds: BoolArray, name: str, rule: str) -> None:
    """Raise an error with the first position where a rule does not hold."""
    if not holds.all():
        at = int(np.argmin(holds))
        raise ModelFormatError(f"{name} must be {rule}; it is not at position {at}.")


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


def _check_thresholds(forest: Forest, schema: Schema) -> None:
    """Check that a threshold is the key of a present value of its column, and terms are numbers."""
    is_int = np.array([column.kind == "int" for column in schema.columns], dtype=np.bool_)
    is_set = np.array([column.kind == "category" for column in schema.columns], dtype=np.bool_)
    if forest.slopes is not None and is_set[forest.slopes.column].any():
        raise ModelFormatError("slope_column names a column of categories.")
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
    if "baseline" in model.training:
        _check_baseline(model.training["baseline"])
    if OFFSET_COLUMNS in model.training:
        names = model.training[OFFSET_COLUMNS]
        texts = isinstance(names, list) and all(isinstance(name, str) for name in names)
        if not texts or len(set(names)) != n_outputs or len(names) != n_outputs:
            raise ModelFormatError("training: offset_columns must be one name for each output.")
        if not model.schema.named or not set(names).isdisjoint(model.schema.names):
            raise ModelFormatError("training: offset_columns must not be features.")
    try:
        check_record(model.training, name, n_outputs)
    except ValueError as error:
        raise ModelFormatError(f"training: class_weight is malformed: {error}.") from None


def _check_baseline(baseline: Any) -> None:
    """Check the baseline hazard of a Cox model: times and hazards must not decrease."""
    times, hazard = numbers_in(baseline, "times"), numbers_in(baseline, "hazard", is_number)
    if not times or not hazard or len(times) != len(hazard):
        raise ModelFormatError("training: the baseline hazard is malformed.")
    rises = all(a < b for a, b in pairwise(times)) and all(a <= b for a, b in pairwise(hazard))
    reference = baseline.get("reference", 0.0)
    if not (rises and times[0] > 0.0 and hazard[0] >= 0.0 and is_finite(reference)):
        raise ModelFormatError("training: the baseline hazard is malformed.")
