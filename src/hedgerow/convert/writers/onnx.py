"""Writer of ONNX: ``TreeEnsemble`` of ai.onnx.ml 5 in double, with sets of categories.

If no column holds text, the input is ``X``, double (rows, columns).  Otherwise each column is an
input of shape (rows, 1) with the column's name, and holds text if the levels are text.  Outputs
are ``raw`` (rows, outputs), and ``prediction``, or ``label`` and ``probability``.

A set lists the codes that go left.  All other values, including unknown ones, go right, so the
sides are exchanged if unknown values go left.  ``LabelEncoder`` converts text to codes.  Text
that is not a level becomes a missing value.  If splits have a side for unknown values, such text
becomes -1, and the empty text is the missing value.  If the empty text is a level, the text
"missing" takes its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from hedgerow.arrays import AnyArray, BoolArray, FloatArray, IntArray
from hedgerow.convert.writers import onnx_parts
from hedgerow.convert.writers.plain import PlainModel, PlainTree, check_names, refuse

_TARGET = "ONNX"
_AT_MOST, _MEMBER = 0, 6
_SUM = 1
_OPSETS = (("", 18), ("ai.onnx.ml", 5))


def write(plain: PlainModel, approximate: bool, notes: list[str]) -> bytes:
    """Return the content of a file."""
    import onnx
    from onnx import helper

    notes += [
        f"column {column.name!r}: the empty text is a category, so the text "
        f"{onnx_parts.missing_text(column)!r} is a missing value."
        for column in plain.columns
        if onnx_parts.is_text(column) and "" in column.levels
    ]
    if plain.schema.zero_missing:
        raise refuse("zero_as_missing", _TARGET)
    check_names(plain, _TARGET, "\0")
    graph = _Graph(plain)
    graph.add_trees(graph.features())
    graph.add_link()
    taken = {"", *graph.known, *(constant.name for constant in graph.constants)}
    for name in (given.name for given in graph.inputs if given.name in taken):
        held = f"a column named {name!r}, a name that the graph needs,"
        raise refuse(held if name else "a column without a name", _TARGET, ": rename the column")
    model = helper.make_model(
        helper.make_graph(graph.nodes, "hedgerow", graph.inputs, graph.outputs, graph.constants),
        producer_name="hedgerow",
        opset_imports=[helper.make_opsetid(domain, version) for domain, version in _OPSETS],
        ir_version=10,
    )
    onnx.checker.check_model(model)
    data: bytes = model.SerializeToString()
    return data


class _Graph(onnx_parts.Graph):
    """The graph of a model."""

    def __init__(self, plain: PlainModel) -> None:
        super().__init__(plain)
        self.codes: dict[int, int] = {}  # places of the codes of columns of number categories

    def features(self) -> str:
        """Return the name of a table of doubles with all columns."""
        columns = self.plain.columns
        if not any(onnx_parts.is_text(column) for column in columns):
            return self.input("X", onnx_parts.DOUBLE, len(columns))
        parts = []
        for j, column in enumerate(columns):
            self.input(
                column.name,
                onnx_parts.STRING if onnx_parts.is_text(column) else onnx_parts.DOUBLE,
                1,
            )
            parts.append(self._codes(column, j) if onnx_parts.is_text(column) else column.name)
        return self.node("Concat", parts, "hedgerow_features", axis=1)

    def _codes(self, column: Any, j: int) -> str:
        """Return the name of the codes of a text column."""
        keys, codes = list(column.levels), np.arange(float(len(column.levels)))
        unknown = np.nan
        if self.plain.schema.unknown == "split":
            unknown = -1.0
            keys, codes = [*keys, onnx_parts.missing_text(column)], np.append(codes, np.nan)
        if not keys:  # the operator does not accept an empty list
            keys, codes = [""], np.array([np.nan])
        texts = np.array(keys, dtype=object)
        return self.encode(column.name, f"hedgerow_codes_{j}", texts, codes, unknown)

    def add_trees(self, features: str) -> None:
        """Add the raw scores: the sum of the trees and the base score."""
        k, trees = self.plain.n_outputs, self.plain.trees()
        inputs = onnx_parts.add_computed(self, features)
        inputs, self.codes = onnx_parts.add_codes_for_sets(self, features, inputs, trees)
        if any(tree.lines for tree in trees):
            reached = self._ensemble(inputs, "hedgerow_reached", _numbered(trees), len(trees))
            summed = onnx_parts.add_leaves(self, inputs, reached, trees)
        else:
            summed = self._ensemble(inputs, "hedgerow_sum", trees, k)
        base = self.constant("hedgerow_base", self.plain.forest.base_score.reshape(1, k))
        self.node("Add", [summed, base], "raw")
        self.output("raw", onnx_parts.DOUBLE, ["rows", k])

    def _ensemble(self, inputs: str, out: str, trees: Sequence[PlainTree], n_targets: int) -> str:
        """Add trees, each to the target of its number, in turn."""
        attributes = _attributes(self.plain, trees, n_targets, self.codes)
        return self.node("TreeEnsemble", [inputs], out, "ai.onnx.ml", **attributes)

    def add_link(self) -> None:
        """Add the predictions."""
        link, k = self.plain.link, self.plain.n_outputs
        operators = {"identity": "Identity", "log": "Exp"}
        if self.plain.model.objective == "cross_entropy":
            operators["logit"] = "Sigmoid"
        if link is None:
            return
        if link in operators:
            self.node(operators[link], ["raw"], "prediction")
            self.output("prediction", onnx_parts.DOUBLE, ["rows", k])
            return
        if link == "logit":
            second = self.node("Sigmoid", ["raw"], "hedgerow_second")
            one = self.constant("hedgerow_one", np.ones((1, 1)))
            first = self.node("Sub", [one, second], "hedgerow_first")
            self.node("Concat", [first, second], "probability", axis=1)
            zero = self.constant("hedgerow_zero", np.zeros((1, 1)))
            above = self.node("Greater", ["raw", zero], "hedgerow_above")
            flat = self.constant("hedgerow_flat", np.array([-1], dtype=np.int64))
            one_axis = self.node("Reshape", [above, flat], "hedgerow_above_flat")
            index = self.node("Cast", [one_axis], "hedgerow_index", to=onnx_parts.INT64)
        else:
            if link == "softmax":
                self.node("Softmax", ["raw"], "probability", axis=1)
            else:
                self.node("Sigmoid", ["raw"], "probability")
            index = self.node("ArgMax", ["raw"], "hedgerow_index", axis=1, keepdims=0)
        classes = self.plain.classes
        labels = np.arange(max(2, k)) if classes is None else classes
        if labels.dtype.kind in "OU":
            labels, kind = labels.astype(object), onnx_parts.STRING
        elif labels.dtype.kind == "f":
            labels, kind = labels.astype(np.float64), onnx_parts.DOUBLE
        else:
            labels, kind = labels.astype(np.int64), onnx_parts.INT64
        known = self.constant("hedgerow_labels", labels)
        self.node("Gather", [known, index], "label", axis=0)
        self.output("label", kind, ["rows"])
        self.output("probability", onnx_parts.DOUBLE, ["rows", max(2, k)])


def _numbered(trees: Sequence[PlainTree]) -> list[PlainTree]:
    """Return the trees with the number of each leaf among all leaves as its value."""
    found, first = [], 0
    for tree in trees:
        leaf = tree.is_leaf()
        found.append(replace(tree, value=np.where(leaf, np.cumsum(leaf) - 1.0 + first, 0.0)))
        first += int(leaf.sum())
    return found


class _Questions(NamedTuple):
    """The inner nodes of a tree, with their children by number, and the members of their sets."""

    column: IntArray
    mode: IntArray
    split: FloatArray
    missing_true: BoolArray
    child: IntArray
    child_is_leaf: BoolArray
    members: list[float]


_NOTHING = np.zeros((2, 1), dtype=np.int64)
_ASK_NOTHING = _Questions(
    _NOTHING[0], _NOTHING[0], np.zeros(1), _NOTHING[0] == 0, _NOTHING, _NOTHING == 0, []
)
"""A split whose two sides are the same leaf, for a tree of one leaf."""


def _questions(plain: PlainModel, tree: PlainTree, codes: dict[int, int]) -> _Questions:
    """Return the inner nodes of a tree; inner nodes and leaves are numbered separately."""
    leaf = tree.is_leaf()
    if leaf[0]:
        return _ASK_NOTHING
    inner, members = np.flatnonzero(~leaf), []
    number = np.where(leaf, np.cumsum(leaf), np.cumsum(~leaf)) - 1
    sides = np.stack([tree.left[inner], tree.right[inner]])
    column, mode = tree.column[inner], np.full(len(inner), _AT_MOST)
    split, missing = tree.threshold[inner], tree.missing_left[inner]
    for place, node in enumerate(inner.tolist()):
        if node not in tree.members:
            continue
        column[place] = codes.get(int(column[place]), int(column[place]))
        listed = plain.known_side(tree, node, tree.unknown_left[node])
        if tree.unknown_left[node]:
            sides[:, place], missing[place] = sides[::-1, place].copy(), not missing[place]
        if len(listed):
            mode[place], split[place] = _MEMBER, 0.0
            members += [*map(float, listed), np.nan]
        else:  # the set is empty: all present values go to the second side
            split[place] = -np.inf
    return _Questions(column, mode, split, missing, number[sides], leaf[sides], members)


def _attributes(
    plain: PlainModel, trees: Sequence[PlainTree], n_targets: int, codes: dict[int, int]
) -> dict[str, Any]:
    """Return the attributes of ``TreeEnsemble``, whose trees add to the targets in turn."""
    questions = [_questions(plain, tree, codes) for tree in trees] or [_ASK_NOTHING]
    values = [tree.value[tree.is_leaf()] for tree in trees] or [np.zeros(1)]
    first = np.cumsum([0, *(len(each.column) for each in questions)])
    first_leaf = np.cumsum([0, *map(len, values)])
    shifted = [
        each.child + np.where(each.child_is_leaf, leaf, node)
        for each, node, leaf in zip(questions, first.tolist(), first_leaf.tolist(), strict=False)
    ]
    column, mode, split, missing, _, is_leaf, members = zip(*questions, strict=True)
    child, child_is_leaf = np.concatenate(shifted, axis=1), np.concatenate(is_leaf, axis=1)
    outputs = [k % n_targets for k, own in enumerate(values) for _ in own]
    found = {
        "aggregate_function": _SUM,
        "leaf_targetids": outputs,
        "leaf_weights": onnx_parts.tensor(np.concatenate(values), "leaf_weights"),
        "n_targets": n_targets,
        "nodes_falseleafs": child_is_leaf[1].astype(int).tolist(),
        "nodes_falsenodeids": child[1].tolist(),
        "nodes_featureids": np.concatenate(column).tolist(),
        "nodes_missing_value_tracks_true": np.concatenate(missing).astype(int).tolist(),
        "nodes_modes": onnx_parts.tensor(np.concatenate(mode).astype(np.uint8), "nodes_modes"),
        "nodes_splits": onnx_parts.tensor(np.concatenate(split), "nodes_splits"),
        "nodes_trueleafs": child_is_leaf[0].astype(int).tolist(),
        "nodes_truenodeids": child[0].tolist(),
        "post_transform": 0,
        "tree_roots": first[:-1].tolist(),
    }
    if any(members):
        every = np.array([code for own in members for code in own])
        found["membership_values"] = onnx_parts.tensor(every, "membership_values")
    return found


def predict(data: bytes, plain: PlainModel, matrix: FloatArray) -> Any:
    """Predict raw scores with ONNX Runtime."""
    import onnxruntime

    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    return session.run(["raw"], inputs_of(plain, matrix))[0]


def inputs_of(plain: PlainModel, matrix: FloatArray) -> dict[str, AnyArray]:
    """Return the inputs of a session for a table of codes."""
    columns = plain.columns
    coded = [j for j, c in enumerate(columns) if c.kind == "category" and not onnx_parts.is_text(c)]
    values = plain.with_levels(matrix, coded, np.inf)
    if not any(onnx_parts.is_text(column) for column in columns):
        return {"X": values}
    found: dict[str, AnyArray] = {}
    for j, column in enumerate(columns):
        part = values[:, j]
        if onnx_parts.is_text(column):
            levels = [*column.levels, "\ufffd unknown", onnx_parts.missing_text(column)]
            codes = np.where(np.isnan(part), len(levels) - 1, part).astype(np.int64)
            part = np.array(levels, dtype=object)[codes]
        found[column.name] = part.reshape(-1, 1)
    return found
