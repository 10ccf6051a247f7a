"""A graph of ONNX, and the inputs of its trees: columns, target statistics and crosses.

::

    city   -> LabelEncoder -> code \
                                    joint key -> LabelEncoder -> row of the table of values
    colour -> LabelEncoder -> code /

Sets of categories hold codes.  Numbers that are categories keep their column, because the codes of
statistics start from it, and their codes for sets follow all other inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hedgerow.arrays import AnyArray
from hedgerow.convert.writers.plain import PlainModel, PlainTree
from hedgerow.data.categories.statistics import Statistic
from hedgerow.data.schema import Column, Rounding

INT64 = 7
"""Number of the type in ONNX."""


class Graph:
    """Parts of a graph during construction.

    Attributes
    ----------
    plain : PlainModel
    nodes, inputs, outputs, constants : list
        As in ``GraphProto`` of ONNX.
    known : set of str
        Outputs of the nodes.
    """

    def __init__(self, plain: PlainModel) -> None:
        self.plain = plain
        self.nodes: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.constants: list[Any] = []
        self.known: set[str] = set()

    def node(self, kind: str, given: list[str], out: str, domain: str = "", **options: Any) -> str:
        """Add an operator with one output, and return the output's name."""
        from onnx import helper

        self.nodes.append(helper.make_node(kind, given, [out], domain=domain, **options))
        self.known.add(out)
        return out

    def constant(self, name: str, values: AnyArray) -> str:
        """Add a constant."""
        self.constants.append(tensor(values, name))
        return name

    def number(self, name: str, value: float) -> str:
        """Add a constant number of shape (1, 1)."""
        return self.constant(name, np.array([[value]]))

    def encode(self, given: str, out: str, keys: AnyArray, codes: AnyArray, other: Any) -> str:
        """Add an operator that gives each key its code, and all others ``other``."""
        return self.node(
            "LabelEncoder",
            [given],
            out,
            "ai.onnx.ml",
            keys_tensor=tensor(keys, "keys"),
            values_tensor=tensor(codes, "values"),
            default_tensor=tensor(np.array([other]), "default"),
        )

    def output(self, name: str, kind: int, shape: list[Any]) -> None:
        """Declare an output."""
        from onnx import helper

        self.outputs.append(helper.make_tensor_value_info(name, kind, shape))


def tensor(values: AnyArray, name: str) -> Any:
    """Return an array as a tensor; texts have the dtype object."""
    from onnx import numpy_helper

    return numpy_helper.from_array(values, name)


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
    """Return the codes of a column of categories as int64, (rows, 1)."""
    # An unknown category has the number of levels as code, and a missing one the next number.
    column, name = graph.plain.columns[j], f"hedgerow_category_{j}"
    n_levels = len(column.levels)
    if is_text(column):
        keys = [*column.levels, missing_text(column)]
        codes = np.append(np.arange(n_levels), n_levels + 1)
        return graph.encode(column.name, name, np.array(keys, dtype=object), codes, n_levels)
    missing = float(n_levels + 1)
    code = _codes_of_numbers(graph, features, j, name, unknown=float(n_levels), missing=missing)
    return graph.node("Cast", [code], name, to=INT64)


def add_codes_for_sets(
    graph: Graph, features: str, inputs: str, trees: Sequence[PlainTree]
) -> tuple[str, dict[int, int]]:
    """Append the codes of numbers that are categories to the inputs of the trees."""
    # ONNX Runtime converts the values that it looks up in sets to int32: it would take 1.5 for 1.
    # Codes are small whole numbers, and an unknown number has the code -1.
    tested = {int(tree.column[node]) for tree in trees for node in tree.members}
    numbers = sorted(j for j in tested if not is_text(graph.plain.columns[j]))
    if not numbers:
        return inputs, {}
    codes = [
        _codes_of_numbers(graph, features, j, f"hedgerow_member_{j}", unknown=-1.0, missing=np.nan)
        for j in numbers
    ]
    first = len(graph.plain.names_in_trees)
    name = graph.node("Concat", [inputs, *codes], "hedgerow_inputs_and_codes", axis=1)
    return name, {j: first + place for place, j in enumerate(numbers)}


def _codes_of_numbers(
    graph: Graph, features: str, j: int, name: str, unknown: float, missing: float
) -> str:
    """Return the codes of a column whose categories are numbers, as double, (rows, 1)."""
    column = graph.plain.columns[j]
    levels, values = column.levels, _column(graph, features, j)
    whole = _rounded(graph, values, column.rounding, name)
    keys, numbers = np.array(levels, dtype=np.float64), np.arange(float(len(levels)))
    known = graph.encode(whole, f"{name}_known", keys, numbers, unknown)
    of_missing = graph.number(f"{name}_missing", missing)
    is_missing = graph.node("IsNaN", [values], f"{name}_is_missing")
    return graph.node("Where", [is_missing, of_missing, known], f"{name}_double")


def _rounded(graph: Graph, values: str, rounding: Rounding, name: str) -> str:
    """Return numbers rounded as the model rounds categories of the column."""
    if rounding == "none":
        return values
    if rounding == "down":
        return graph.node("Floor", [values], f"{name}_whole")
    size = graph.node("Abs", [values], f"{name}_size")
    whole = graph.node("Floor", [size], f"{name}_whole_size")
    sign = graph.node("Sign", [values], f"{name}_sign")
    return graph.node("Mul", [whole, sign], f"{name}_whole")


def _add_statistic(graph: Graph, codes: dict[int, str], statistic: Statistic, name: str) -> str:
    """Return the values of a statistic, (rows, classes)."""
    first, *others = statistic.columns
    key = codes[first]
    for j in others:
        n_codes = graph.constant(
            f"{name}_size_{j}", np.array([[graph.plain.schema.n_levels(j) + 2]])
        )
        key = graph.node("Mul", [key, n_codes], f"{name}_above_{j}")
        key = graph.node("Add", [key, codes[j]], f"{name}_key_{j}")
    n_keys = len(statistic.keys)
    keys = statistic.keys if n_keys else np.array([-1])  # the operator accepts no empty list
    place = graph.encode(key, f"{name}_place", keys, np.arange(len(keys)), n_keys)
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
