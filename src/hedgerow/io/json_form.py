"""A model as a JSON document, with everything that predictions need.

``trees`` has one entry for each tree, in the order of the rounds::

    {"format": "hedgerow-trees", "version": 1,
     "objective": "logistic", "n_outputs": 1, "base_score": [-0.62],
     "features": [{"name": "age", "kind": "float"},
                  {"name": "city", "kind": "category", "levels": ["Bonn", "Ulm"]}],
     "trees": [{"output": 0,
                "root": {"feature": 0, "threshold": 41.5, "missing": "left",
                         "gain": 3.1, "cover": 60.0, "count": 240,
                         "left": {"value": -0.2, "cover": 22.5, "count": 90}, "right": ...}}]}

A row goes left if its value is ``<= threshold``, or its category is in ``left_levels``.
``missing`` is the side of missing values.  The raw score of an output is its base score plus
the values of the leaves that the row reaches in its trees.  A leaf with ``values`` adds one to
each output.  If features have a ``rounding`` (in models of other libraries), a number with a
fraction is the level that it is rounded to, down or to zero.  If ``unknown_category`` is
``"split"``, nodes with ``left_levels`` have the side of other categories as ``unknown``.  With
``zero_as_missing`` numbers of a magnitude up to ``zero_missing_up_to`` are missing.  A leaf with
``terms`` also adds a linear function: the sum of
``slope * (x - center)``, limited to ``low`` and ``high``.  A leaf with ``values`` has such a
function for each output in ``lines``, if any of them has terms.  Values of DART and random forest
trees include their factors in the model.  64-bit integers are exact.  (``export`` writes
another form, ``"hedgerow-json"``: its nodes are a list, for programs that predict.)

If trees split crosses of columns, ``crosses`` lists their ``first`` and ``second`` column and the
``operation``.  The crosses follow the columns: ``feature`` of the first is the number of columns.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from hedgerow.data.schema import Column, Schema
from hedgerow.errors import ParameterError, brief
from hedgerow.kernels.prediction.slopes import Slopes
from hedgerow.kernels.tables.keys import floats_of_keys
from hedgerow.model.forest import UNKNOWN_BIN, Forest
from hedgerow.model.model import Model
from hedgerow.params import Interval

FORMAT, VERSION = "hedgerow-trees", 1


def model_document(model: Model, classes: list[Any] | None = None) -> dict[str, Any]:
    """Return the document as Python objects that JSON can express.

    Raise ``ParameterError`` for a model with target statistics, whose inputs are means over
    the training rows.

    Parameters
    ----------
    classes : list, optional
        Labels of the classes, by index.

    Examples
    --------
    >>> from hedgerow import Dataset, train
    >>> params = {"n_estimators": 1, "min_samples_leaf": 1, "early_stopping": False}
    >>> booster = train(params, Dataset([[1.0], [2.0], [4.0]], [0.0, 0.0, 3.0]))
    >>> root = model_document(booster.model)["trees"][0]["root"]
    >>> root["feature"], root["threshold"], root["left"]["count"]
    (0, 3.0, 2)
    """
    inputs, schema = model.inputs, model.schema
    if inputs is not None and inputs.statistics:
        raise ParameterError(
            "the trees of this model split statistics of categories, which the JSON form does not "
            "hold: train with target_statistics=False, or use save."
        )
    forest, training = model.forest, model.training
    found: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "objective": model.objective,
        "n_outputs": forest.n_outputs,
        "n_rounds": forest.n_rounds,
        **({"num_parallel_tree": forest.n_parallel} if forest.n_parallel > 1 else {}),
        "base_score": [_number(value) for value in forest.base_score.tolist()],
        "features": [_column(column) for column in schema.columns],
        **({} if inputs is None else {"crosses": [cross._asdict() for cross in inputs.crosses]}),
        "unknown_category": model.schema.unknown,
        "zero_as_missing": bool(model.schema.zero_missing),
    }
    if model.schema.zero_missing:
        found["zero_missing_up_to"] = model.schema.zero_band
    if classes is not None:
        found["classes"] = classes
    for name in ("loss_parameters", "parameters", "best_round", "attributes", "offset_columns"):
        if training.get(name) is not None:
            found[name] = _plain(training[name])
    nodes = _nodes(forest, schema if inputs is None else inputs.schema(schema))
    found["trees"] = [_tree(forest, nodes, tree) for tree in range(forest.n_trees)]
    return found


_INDENT = Interval(0, 100, integer=True)


def document_text(document: dict[str, Any], indent: int | None = None) -> str:
    """Encode the document; numbers that JSON cannot express are text such as ``"inf"``."""
    if indent is not None and indent not in _INDENT:
        raise ParameterError(f"indent must be {_INDENT}, or None; got {brief(indent)}.")
    return json.dumps(document, indent=indent, ensure_ascii=False, allow_nan=False)


def _column(column: Column) -> dict[str, Any]:
    found: dict[str, Any] = {"name": column.name, "kind": column.kind}
    if column.kind == "category":
        found["levels"] = [_plain(level) for level in column.levels]
    if column.rounding != "none":
        found["rounding"] = column.rounding
    return found


def _tree(forest: Forest, nodes: list[dict[str, Any]], tree: int) -> dict[str, Any]:
    start, end = int(forest.tree_start[tree]), int(forest.tree_start[tree + 1])
    # Children come after their parents, so a loop in reverse can assemble deep trees.
    for node in reversed(range(start, end)):
        if forest.feature[node] >= 0:
            nodes[node]["left"] = nodes[start + int(forest.left[node])]
            nodes[node]["right"] = nodes[start + int(forest.right[node])]
    output = None if forest.vectors is not None else tree % forest.n_outputs
    return {"output": output, "root": nodes[start]}


def _nodes(forest: Forest, schema: Schema) -> list[dict[str, Any]]:
    """Return the entry of each node, without its children."""
    shared = zip(forest.cover.tolist(), forest.count.tolist(), strict=True)
    found: list[dict[str, Any]] = [
        {"cover": _number(cover), "count": count} for cover, count in shared
    ]
    numbers = floats_of_keys(forest.threshold).tolist()
    has_sets = forest.has_sets
    for node, known in enumerate(found):
        feature = int(forest.feature[node])
        if feature < 0:
            known |= _leaf(forest, node)
            continue
        known |= {
            "feature": feature,
            "missing": "left" if forest.missing_left[node] else "right",
            "gain": _number(float(forest.gain[node])),
        }
        if has_sets[node]:
            known |= _sides(forest, node, schema.columns[feature])
        elif schema.columns[feature].kind == "int":
            known["threshold"] = int(forest.threshold[node])
        else:
            known["threshold"] = _number(numbers[node])
        if forest.vectors is None:
            known["value"] = _number(float(forest.value[node]))  # "backoff" may stop here
        else:
            known["values"] = [_number(value) for value in forest.vectors[node].tolist()]
    return found


def _leaf(forest: Forest, node: int) -> dict[str, Any]:
    slopes, n_lines = forest.slopes, forest.lines_of_node
    lines = [] if slopes is None else [_line(slopes, n_lines * node + k) for k in range(n_lines)]
    has_terms = any(line["terms"] for line in lines)
    if forest.vectors is None:
        found = {"value": _number(float(forest.value[node]))}
        return found | lines[0] if has_terms else found
    found = {"values": [_number(value) for value in forest.vectors[node].tolist()]}
    return found | {"lines": lines} if has_terms else found


def _line(slopes: Slopes, line: int) -> dict[str, Any]:
    """Return the terms of a line, and the bounds of their sum."""
    return {
        "terms": [
            {
                "feature": int(slopes.column[place]),
                "slope": _number(float(slopes.slope[place])),
                "center": _number(float(slopes.center[place])),
            }
            for place in range(int(slopes.start[line]), int(slopes.start[line + 1]))
        ],
        "low": _number(float(slopes.low[line])),
        "high": _number(float(slopes.high[line])),
    }


def _sides(forest: Forest, node: int, column: Column) -> dict[str, Any]:
    """Return the levels that go left, and the side of unknown categories if it is not another's."""
    tables = forest.categories
    assert tables is not None
    bins = tables.bins_of(int(forest.feature[node]))
    bins_left = tables.bins_left(int(forest.threshold[node]))
    goes_left = zip(column.levels, bins_left[bins].tolist(), strict=True)
    found: dict[str, Any] = {"left_levels": [_plain(level) for level, left in goes_left if left]}
    if tables.unknown_in_sets:
        found["unknown"] = "left" if bins_left[UNKNOWN_BIN] else "right"
    return found


def _number(value: float) -> Any:
    """Return a number, or its text if JSON cannot express it."""
    return value if math.isfinite(value) else repr(value)


def _plain(value: Any) -> Any:
    """Convert a value of a record to an object that JSON can express."""
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(item) for item in value]
    item = value.item() if hasattr(value, "item") else value
    return _number(item) if isinstance(item, float) else item
