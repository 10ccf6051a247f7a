"""Inputs of the trees in ONNX: columns, target statistics and crosses of columns.

::

    city   -> LabelEncoder -> code \
                                    joint key -> LabelEncoder -> row of the table of values
    colour -> LabelEncoder -> code /
"""

from __future__ import annotations

import numpy as np

from hedgerow.convert.writers.onnx_graph import INT64, Graph, tensor
from hedgerow.data.categories.statistics import Statistic
from hedgerow.data.schema import Column


def add_computed(graph: Graph, features: str) -> str:
    """Add the inputs that are computed from columns behind them; return the name of all inputs."""
    plain = graph.plain
    codes: dict[int, str] = {}
    for j in sorted({j for statistic in plain.statistics for j in statistic.columns}):
        codes[j] = _add_codes(graph, features, j)
    parts = [features]
    for place, statistic in enumerate(plain.statistics):
        parts.append(_add_statistic(graph, codes, statistic, f"hedgerow_statistic_{place}"))
    crossed = sorted({j for cross in plain.crosses for j in cross.columns})
    parts += _add_crosses(graph, {j: _column(graph, features, j) for j in crossed})
    return features if len(parts) == 1 else graph.node("Concat", parts, "hedgerow_inputs", axis=1)


def is_text(column: Column) -> bool:
    """Return whether a column of categories has text as levels."""
    return column.kind == "category" and (not column.levels or isinstance(column.levels[0], str))


def missing_text(column: Column) -> str:
    """Return the text that stands for a missing value: the empty text, unless it is a level."""
    text, number = "", 0
    while text in column.levels:
        text, number = f"missing{number or ''}", number + 1
    return text


def _add_codes(graph: Graph, features: str, j: int) -> str:
    """Return the codes of a column of categories as int64, (rows, 1).

    An unknown category has the number of levels as code, and a missing one the next number.
    """
    column, name = graph.plain.columns[j], f"hedgerow_category_{j}"
    n_levels = len(column.levels)
    if is_text(column):
        keys = [*column.levels, missing_text(column)]
        codes = np.append(np.arange(n_levels), n_levels + 1)
        return graph.node(
            "LabelEncoder",
            [column.name],
            name,
            "ai.onnx.ml",
            keys_tensor=tensor(np.array(keys, dtype=object), "keys"),
            values_tensor=tensor(codes, "values"),
            default_tensor=tensor(np.array([n_levels]), "default"),
        )
    values = _column(graph, features, j)
    known = graph.node(
        "LabelEncoder",
        [values],
        f"{name}_known",
        "ai.onnx.ml",
        keys_tensor=tensor(np.array(column.levels, dtype=np.float64), "keys"),
        values_tensor=tensor(np.arange(float(n_levels)), "values"),
        default_tensor=tensor(np.array([float(n_levels)]), "default"),
    )
    missing = graph.number(f"{name}_missing", n_levels + 1.0)
    is_missing = graph.node("IsNaN", [values], f"{name}_is_missing")
    code = graph.node("Where", [is_missing, missing, known], f"{name}_double")
    return graph.node("Cast", [code], name, to=INT64)


def _add_statistic(graph: Graph, codes: dict[int, str], statistic: Statistic, name: str) -> str:
    """Return the values of a statistic, (rows, classes)."""
    first, *others = statistic.columns
    key = codes[first]
    for j in others:
        n_codes = graph.constant(f"{name}_size_{j}", np.array([[graph.plain.n_levels(j) + 2]]))
        key = graph.node("Mul", [key, n_codes], f"{name}_above_{j}")
        key = graph.node("Add", [key, codes[j]], f"{name}_key_{j}")
    n_keys = len(statistic.keys)
    keys = statistic.keys if n_keys else np.array([-1])  # the operator accepts no empty list
    place = graph.node(
        "LabelEncoder",
        [key],
        f"{name}_place",
        "ai.onnx.ml",
        keys_tensor=tensor(keys, "keys"),
        values_tensor=tensor(np.arange(len(keys)), "values"),
        default_tensor=tensor(np.array([n_keys]), "default"),
    )
    table = np.vstack([statistic.values.T, statistic.prior])
    known = graph.constant(f"{name}_table", table)
    found = graph.node("Gather", [known, place], f"{name}_found", axis=0)
    shape = graph.constant(f"{name}_shape", np.array([-1, table.shape[1]]))
    return graph.node("Reshape", [found, shape], name)


def _add_crosses(graph: Graph, columns: dict[int, str]) -> list[str]:
    """Return the names of the crosses, each (rows, 1)."""
    parts = []
    for place, cross in enumerate(graph.plain.crosses):
        name = f"hedgerow_cross_{place}"
        a, b = (columns[j] for j in (cross.first, cross.second))
        if cross.operation == "product":
            parts.append(graph.node("Mul", [a, b], name))
        elif cross.operation == "difference":
            parts.append(graph.node("Sub", [a, b], name))
        else:
            zero = graph.number(f"{name}_zero", 0.0)
            nan = graph.number(f"{name}_nan", np.nan)
            by_zero = graph.node("Equal", [b, zero], f"{name}_by_zero")
            ratio = graph.node("Div", [a, b], f"{name}_ratio")
            parts.append(graph.node("Where", [by_zero, nan, ratio], name))
    return parts


def _column(graph: Graph, features: str, j: int) -> str:
    """Return a column of the features, (rows, 1)."""
    name = f"hedgerow_column_of_features_{j}"
    if name in graph.known:
        return name
    place = graph.constant(f"{name}_place", np.array([j]))
    return graph.node("Gather", [features, place], name, axis=1)
