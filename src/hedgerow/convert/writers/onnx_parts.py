"""The parts of a graph of ONNX beside its trees: their inputs, and linear leaves.

Inputs are columns, target statistics and crosses::

    city   -> LabelEncoder -> code \
                                    joint key -> LabelEncoder -> row of the table of values
    colour -> LabelEncoder -> code /

Sets of categories hold codes.  Numbers that are categories keep their column, because the codes of
statistics start from it, and their codes for sets follow all other inputs.

``TreeEnsemble`` has one number for each leaf.  So the ensemble of a model with linear leaves
returns the number of the leaf that a row reaches in each tree, and tables with one entry for each
leaf hold the value, the terms and the bounds::

    features -> TreeEnsemble -> leaf of each tree (rows, trees)
                                  |
              value, low, high  <-+->  column, slope, center of term 0, 1, 2
                                             |
    features ------------------------> x - center -> times slope -> sum -> clip -> + value
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hedgerow.arrays import AnyArray
from hedgerow.convert.writers.plain import Line, PlainModel, PlainTree
from hedgerow.data.inputs import Statistic
from hedgerow.data.schema import Column

INT64, STRING, DOUBLE = 7, 8, 11
"""Numbers of types in ONNX."""


class Graph:
    """Parts of a ``GraphProto`` during construction; ``known`` are the outputs of the nodes."""

    def __init__(self, plain: PlainModel) -> None:
        from onnx import helper

        self.plain, self.helper = plain, helper
        self.nodes: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.constants: list[Any] = []
        self.known: set[str] = set()

    def node(self, kind: str, given: list[str], out: str, domain: str = "", **options: Any) -> str:
        """Add an operator with one output, and return the output's name."""
        self.nodes.append(self.helper.make_node(kind, given, [out], domain=domain, **options))
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

    def input(self, name: str, kind: int, width: int) -> str:
        """Declare an input of shape (rows, width)."""
        self.inputs.append(self.helper.make_tensor_value_info(name, kind, ["rows", width]))
        return name

    def output(self, name: str, kind: int, shape: list[Any]) -> None:
        """Declare an output."""
        self.outputs.append(self.helper.make_tensor_value_info(name, kind, shape))


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
    name = graph.node("Concat", [inputs, *codes], "hedgerow_inputs_and_codes", axis=1)
    return name, {j: graph.plain.n_inputs + place for place, j in enumerate(numbers)}


def _codes_of_numbers(
    graph: Graph, features: str, j: int, name: str, unknown: float, missing: float
) -> str:
    """Return the codes of a column whose categories are numbers, as double, (rows, 1)."""
    column = graph.plain.columns[j]
    levels, values = column.levels, _column(graph, features, j)
    whole = values  # rounded as the model rounds categories of the column
    if column.rounding == "down":
        whole = graph.node("Floor", [values], f"{name}_whole")
    elif column.rounding == "to_zero":
        size = graph.node("Abs", [values], f"{name}_size")
        size = graph.node("Floor", [size], f"{name}_whole_size")
        sign = graph.node("Sign", [values], f"{name}_sign")
        whole = graph.node("Mul", [size, sign], f"{name}_whole")
    keys, numbers = np.array(levels, dtype=np.float64), np.arange(float(len(levels)))
    known = graph.encode(whole, f"{name}_known", keys, numbers, unknown)
    of_missing = graph.number(f"{name}_missing", missing)
    is_missing = graph.node("IsNaN", [values], f"{name}_is_missing")
    return graph.node("Where", [is_missing, of_missing, known], f"{name}_double")


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


def add_leaves(graph: Graph, features: str, reached: str, trees: Sequence[PlainTree]) -> str:
    """Add the sums of the leaves with their terms; return the name, (rows, outputs)."""
    leaves = _Leaves(graph, graph.node("Cast", [reached], "hedgerow_leaf", to=INT64), trees)
    terms = [leaves.add_term(features, k) for k in range(leaves.n_terms)]
    total = leaves.add_bounds(graph.node("Sum", terms, "hedgerow_sum_of_terms"))
    total = graph.node("Add", [leaves.look_up("value", leaves.values), total], "hedgerow_leaves")
    k = graph.plain.n_outputs
    shape = graph.constant("hedgerow_rounds", np.array([-1, len(trees) // k, k], dtype=np.int64))
    rounds = graph.node("Reshape", [total, shape], "hedgerow_leaves_of_rounds")
    axis = graph.constant("hedgerow_axis_of_rounds", np.array([1], dtype=np.int64))
    return graph.node("ReduceSum", [rounds, axis], "hedgerow_sum", keepdims=0)


class _Leaves:
    """Tables with an entry for each leaf, looked up by ``index``: the leaf in each tree."""

    def __init__(self, graph: Graph, index: str, trees: Sequence[PlainTree]) -> None:
        self._graph, self._index = graph, index
        self.values = np.concatenate([tree.value[tree.is_leaf()] for tree in trees])
        self._lines = [
            tree.lines.get(node, _NO_TERMS)
            for tree in trees
            for node in np.flatnonzero(tree.is_leaf()).tolist()
        ]
        self.n_terms = max(len(line.columns) for line in self._lines)
        bounded = np.array([line.is_bounded for line in self._lines])
        self._bounded = "" if bounded.all() else self.look_up("is_bounded", bounded)
        self._missing: list[str] = []

    def look_up(self, name: str, table: AnyArray) -> str:
        """Return the name of the entries of a table, (rows, trees)."""
        known = self._graph.constant(f"hedgerow_{name}_table", table)
        return self._graph.node("Gather", [known, self._index], f"hedgerow_{name}")

    def add_term(self, features: str, k: int) -> str:
        """Add term ``k`` of all leaves, which is 0 in leaves with fewer terms."""
        graph, name = self._graph, f"hedgerow_term_{k}"
        known = [line for line in self._lines if k < len(line.columns)]
        has = np.array([k < len(line.columns) for line in self._lines])
        column = np.zeros(len(has), dtype=np.int64)
        slope, center = np.zeros(len(has)), np.zeros(len(has))
        column[has] = [line.columns[k] for line in known]
        slope[has] = [line.slopes[k] for line in known]
        # Lines without bounds have no center: theirs is the value for missing numbers.
        center[has] = [line.centers[k] if line.is_bounded else 0.0 for line in known]
        place = self.look_up(f"column_{k}", column)
        x = graph.node("GatherElements", [features, place], f"hedgerow_x_{k}", axis=1)
        is_nan = graph.node("IsNaN", [x], f"{name}_nan")
        odd = graph.node("Or", [is_nan, graph.node("IsInf", [x], f"{name}_inf")], f"{name}_odd")
        exists = self.look_up(f"exists_{k}", has)
        if self._bounded:
            self._missing.append(graph.node("And", [exists, is_nan], f"{name}_missing"))
            odd = graph.node("And", [odd, self._bounded], f"{name}_ignored")
        used = graph.node("And", [exists, graph.node("Not", [odd], f"{name}_even")], f"{name}_used")
        distance = graph.node("Sub", [x, self.look_up(f"center_{k}", center)], f"{name}_distance")
        product = [self.look_up(f"slope_{k}", slope), distance]
        term = graph.node("Mul", product, f"{name}_product")
        return graph.node("Where", [used, term, graph.number(f"hedgerow_none_{k}", 0.0)], name)

    def add_bounds(self, total: str) -> str:
        """Add the limits of a sum of terms, and what replaces it if a number is missing."""
        graph = self._graph
        is_nan = graph.node("IsNaN", [total], "hedgerow_undefined")
        if self._bounded:
            is_nan = graph.node("And", [is_nan, self._bounded], "hedgerow_undefined_in_bounds")
        sure = [is_nan, graph.number("hedgerow_no_sum", 0.0), total]
        total = graph.node("Where", sure, "hedgerow_defined")
        low = self.look_up("low", np.array([line.low for line in self._lines]))
        high = self.look_up("high", np.array([line.high for line in self._lines]))
        total = graph.node("Max", [total, low], "hedgerow_above_low")
        total = graph.node("Min", [total, high], "hedgerow_below_high")
        if not self._bounded:
            return total
        fill = [0.0 if line.is_bounded else line.centers[0] for line in self._lines]
        missing = self._missing[0]
        for k, other in enumerate(self._missing[1:]):
            missing = graph.node("Or", [missing, other], f"hedgerow_any_missing_{k}")
        unbounded = graph.node("Not", [self._bounded], "hedgerow_is_unbounded")
        missing = graph.node("And", [missing, unbounded], "hedgerow_any_missing")
        instead = self.look_up("if_missing", np.array(fill))
        return graph.node("Where", [missing, instead, total], "hedgerow_sum_or_missing")


_NO_TERMS = Line((), (), (), 0.0, 0.0)
