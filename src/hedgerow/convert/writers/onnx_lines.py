"""Linear leaves in ONNX, made of ordinary operators.

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

import numpy as np

from hedgerow.arrays import AnyArray
from hedgerow.convert.writers.onnx_inputs import INT64, Graph
from hedgerow.convert.writers.plain import Line, PlainTree


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
    """Tables with an entry for each leaf, and the operators that look them up.

    Parameters
    ----------
    graph : Graph
    index : str
        Leaf of each row in each tree, (rows, trees).
    trees : sequence of PlainTree

    Attributes
    ----------
    values : float64, one per leaf
    n_terms : int
        Largest number of terms of a leaf.
    """

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
