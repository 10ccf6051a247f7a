"""Writer of XGBoost's JSON (the schema of version 3).

XGBoost stores thresholds and leaves in float32 and rounds values to float32.  A threshold without
an equivalent float32 cut, and a leaf that float32 cannot represent, are errors.  With
``approximate=True`` they are rounded; thresholds are then exact for float32 values.
XGBoost accepts no infinite values, so a cut above all finite values is infinite.
Listed categories go right; all others, including unknown ones, go left.  The base score
is a first tree of one leaf for each output, and XGBoost's own base score is neutral.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from hedgerow.arrays import FloatArray, IntArray
from hedgerow.convert.readers.xgboost import MEANINGS
from hedgerow.convert.thresholds import float32_after, keys_below_float32, rounded_down
from hedgerow.convert.writers.plain import PlainModel, PlainTree, check_names, refuse
from hedgerow.kernels.tables.keys import floats_of_keys
from hedgerow.objectives import CUSTOM

_TARGET = "XGBoost's JSON"
_NOT_IN_NAMES = "[]<" + "".join(set(map(chr, range(32))) - set("\n\r\t"))
"""XGBoost's tables refuse the marks in names, and its reader of JSON the escapes of the others."""
_NO_PARENT = 2147483647
_I64 = 15
"""Types of category arrays in XGBoost."""

_OBJECTIVES = {meaning.objective: name for name, (meaning, _) in reversed(MEANINGS.items())}
_OBJECTIVES["tweedie"] = "reg:tweedie"
del _OBJECTIVES[CUSTOM]  # objectives without a loss of their own here
_BY_LINK = {"identity": "reg:squarederror", "log": "reg:gamma", "logit": "binary:logistic"}
_NO_BASE = {"logit": 0.5, "log": 1.0}
_PARAMETERS: dict[str, dict[str, Any]] = {
    "reg:squarederror": {"reg_loss_param": {"scale_pos_weight": "1"}},
    "reg:logistic": {"reg_loss_param": {"scale_pos_weight": "1"}},
    "binary:logistic": {"reg_loss_param": {"scale_pos_weight": "1"}},
    "count:poisson": {"poisson_regression_param": {"max_delta_step": "0.7"}},
    "reg:tweedie": {"tweedie_regression_param": {"tweedie_variance_power": "1.5"}},
    **{name: {"lambdarank_param": {}} for name in ("rank:ndcg", "rank:map", "rank:pairwise")},
}


class _Rounding:
    """Numbers of rounded values, and the largest difference."""

    def __init__(self, approximate: bool) -> None:
        self.approximate = approximate
        self.cuts, self.leaves, self.most = 0, 0, 0.0

    def leaf(self, values: FloatArray) -> FloatArray:
        """Return leaf values in float32."""
        with np.errstate(over="ignore"):
            rounded = values.astype(np.float32).astype(np.float64)
        if not np.isfinite(rounded).all():
            raise refuse("a leaf beyond the range of float32", _TARGET)
        difference = np.abs(rounded - values)
        self.leaves += int(np.count_nonzero(difference))
        self.most = max(self.most, float(difference.max(initial=0.0)))
        if self.leaves and not self.approximate:
            raise refuse(
                "leaves of float64", _TARGET, " exactly: approximate=True rounds them to float32"
            )
        return rounded

    def cut(self, threshold: FloatArray, whole: Any) -> FloatArray:
        """Return the float32 ``c`` with ``float32(x) < c`` if ``x <= threshold``."""
        cut = float32_after(rounded_down(threshold))
        exact = floats_of_keys(keys_below_float32(cut)) == threshold
        # float32 represents whole numbers up to 2**24 exactly.
        exact |= whole & (np.abs(threshold) < 2.0**24)
        exact |= np.isposinf(threshold)
        self.cuts += int(np.count_nonzero(~exact))
        if self.cuts and not self.approximate:
            raise refuse(
                "cuts of float64 columns",
                _TARGET,
                " exactly, because it rounds values to float32: approximate=True writes cuts that "
                "are exact for float32 values",
            )
        return cut.astype(np.float64)

    def report(self, notes: list[str]) -> None:
        """Add notes on the rounded numbers."""
        if self.cuts:
            notes.append(
                f"{self.cuts} cuts are exact for values in float32, to which XGBoost rounds."
            )
        if self.leaves:
            notes.append(
                f"{self.leaves} leaves were rounded to float32, by {self.most:.3g} at most."
            )
        notes.append("XGBoost adds leaves in float32.")


def write(plain: PlainModel, approximate: bool, notes: list[str]) -> bytes:
    """Return the text of a model."""
    if plain.schema.zero_missing:
        raise refuse("zero_as_missing", _TARGET)
    for column in plain.columns:
        if column.rounding == "to_zero":
            raise refuse(
                f"column {column.name!r}, whose numbers are truncated towards zero,", _TARGET
            )
    check_names(plain, _TARGET, _NOT_IN_NAMES)
    rounding, k = _Rounding(approximate), plain.n_outputs
    n_parallel = plain.forest.n_parallel
    trees = []
    if plain.forest.base_score.any():  # as a round of leaves
        shares = np.zeros((n_parallel, k))
        shares[0] = plain.forest.base_score
        none, first = np.full(1, -1), np.zeros(1, np.int64)
        trees = [
            _arrays(plain, rounding.leaf(share), none, none, first, {})
            for share in shares.reshape(-1, 1)
        ]
    trees += [_tree(plain, tree, rounding) for tree in plain.trees()]
    # In a round of XGBoost, all trees of an output are consecutive.
    turns = np.arange(len(trees)).reshape(-1, n_parallel, k).swapaxes(1, 2).reshape(-1)
    trees = [trees[turn] for turn in turns]
    for number, tree in enumerate(trees):
        tree["id"] = number
    rounding.report(notes)
    name = _objective(plain, notes)
    base = _NO_BASE.get(plain.link or "", 0.0)
    many = plain.link == "softmax"
    notes += [
        f"column {column.name!r} has categories beyond ASCII: give XGBoost a table of "
        "Arrow or Polars, because XGBoost 3.2 takes the letters of pandas for bytes."
        for column in plain.columns
        if any(isinstance(level, str) and not level.isascii() for level in column.levels)
    ]
    model = {
        "cats": _cats(plain),
        "gbtree_model_param": {
            "num_parallel_tree": str(n_parallel),
            "num_trees": str(len(trees)),
        },
        "iteration_indptr": list(range(0, len(trees) + 1, k * n_parallel)),
        "tree_info": (turns % k).tolist(),
        "trees": trees,
    }
    learner = {
        "attributes": {},
        "feature_names": list(plain.names) if plain.schema.named else [],
        "feature_types": [_TYPES[column.kind] for column in plain.columns],
        "gradient_booster": {"model": model, "name": "gbtree"},
        "learner_model_param": {
            "base_score": "[" + ",".join([repr(base)] * k) + "]",
            "boost_from_average": "1",
            "num_class": str(k if many else 0),
            "num_feature": str(plain.schema.n_features),
            "num_target": str(1 if many else k),
        },
        "objective": {"name": name, **_PARAMETERS.get(name, {})},
    }
    if many:
        learner["objective"]["softmax_multiclass_param"] = {"num_class": str(k)}  # type: ignore[index]
    document = {"learner": learner, "version": [3, 2, 0]}
    # XGBoost keeps the escapes of other letters as they are.
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


_TYPES = {"float": "float", "int": "int", "category": "c"}


def _objective(plain: PlainModel, notes: list[str]) -> str:
    if plain.link is None or (plain.n_outputs > 1 and plain.link == "identity"):
        return "reg:squarederror"
    if plain.link in ("shares", "logit_each"):
        raise refuse("class probabilities other than a softmax", _TARGET, ": use raw=True")
    found = _OBJECTIVES.get(plain.model.objective, _BY_LINK.get(plain.link, "multi:softprob"))
    if plain.model.objective not in _OBJECTIVES:
        notes.append(f"the objective is written as {found!r}, which has the same link.")
    return found


def _tree(plain: PlainModel, tree: PlainTree, rounding: _Rounding) -> dict[str, Any]:
    leaf = tree.is_leaf()
    is_int = np.array([c.kind == "int" for c in plain.columns] + [False])
    number = ~leaf & ~np.isin(np.arange(tree.n_nodes), list(tree.members))
    condition = np.zeros(tree.n_nodes)
    condition[number] = rounding.cut(tree.threshold[number], is_int[tree.column[number]])
    condition[leaf] = rounding.leaf(tree.value[leaf])
    left, right = np.where(leaf, -1, tree.left), np.where(leaf, -1, tree.right)
    listed: dict[int, IntArray] = {}
    missing = tree.missing_left.copy()
    for node in tree.members:
        listed[node] = plain.known_side(tree, node, tree.unknown_left[node])
        if not tree.unknown_left[node]:  # listed categories go right
            left[node], right[node] = right[node], left[node]
            missing[node] = not missing[node]
        column = plain.columns[int(tree.column[node])]
        if column.rounding == "down":  # the numbers are the codes
            codes = [column.levels[k] for k in listed[node].tolist()]
            listed[node] = np.array(codes, dtype=np.int64)
    order = _siblings_together(left, right)
    place = np.full(tree.n_nodes + 1, -1)  # a leaf's child is the last entry
    place[order] = np.arange(tree.n_nodes)
    found = _arrays(
        plain,
        condition[order],
        place[left[order]],
        place[right[order]],
        np.where(leaf, 0, tree.column)[order],
        {int(place[node]): codes for node, codes in listed.items()},
    )
    found["default_left"] = missing[order].astype(int).tolist()
    found["loss_changes"] = _rounded(tree.gain[order])
    found["sum_hessian"] = _rounded(tree.cover[order])
    return found


def _siblings_together(left: IntArray, right: IntArray) -> IntArray:
    """Return nodes level by level: XGBoost's right child follows the left one."""
    order = [0]
    for node in order:  # the loop extends the list
        if left[node] >= 0:
            order += [int(left[node]), int(right[node])]
    return np.array(order, dtype=np.int64)


def _rounded(values: FloatArray) -> list[float]:
    most = float(np.finfo(np.float32).max)
    return np.clip(values, -most, most).astype(np.float32).astype(np.float64).tolist()


def _arrays(
    plain: PlainModel,
    condition: FloatArray,
    left: IntArray,
    right: IntArray,
    column: IntArray,
    listed: dict[int, IntArray],
) -> dict[str, Any]:
    n = len(condition)
    parents = np.full(n, _NO_PARENT)
    for child in (left, right):
        parents[child[child >= 0]] = np.flatnonzero(child >= 0)
    nodes = sorted(listed)
    sizes = [len(listed[node]) for node in nodes]
    return {
        "base_weights": condition.tolist(),
        "categories": [code for node in nodes for code in listed[node].tolist()],
        "categories_nodes": nodes,
        "categories_segments": np.cumsum([0, *sizes])[:-1].tolist(),
        "categories_sizes": sizes,
        "default_left": [0] * n,
        "id": 0,
        "left_children": left.tolist(),
        "loss_changes": [0.0] * n,
        "parents": parents.tolist(),
        "right_children": right.tolist(),
        "split_conditions": condition.tolist(),
        "split_indices": column.tolist(),
        "split_type": [int(node in listed) for node in range(n)],
        "sum_hessian": [0.0] * n,
        "tree_param": {
            "num_deleted": "0",
            "num_feature": str(plain.schema.n_features),
            "num_nodes": str(n),
            "size_leaf_vector": "1",
        },
    }


def _cats(plain: PlainModel) -> dict[str, Any]:
    """Return the categories that XGBoost encodes; none if numbers are the categories."""
    columns = plain.columns
    held = [c.kind == "category" and c.rounding == "none" for c in columns]
    if not any(held):
        return {"enc": [], "feature_segments": [], "sorted_idx": []}
    encodings, order, ends = [], [], [0]
    for column, is_held in zip(columns, held, strict=True):
        levels = list(column.levels) if is_held else []
        if levels and isinstance(levels[0], float):
            raise refuse(
                f"categories that are no whole numbers (column {column.name!r})",
                _TARGET,
                ": make the column text before training",
            )
        encodings.append(_encoding(levels))
        order += _order(levels)
        ends.append(ends[-1] + len(levels))
    return {"enc": encodings, "feature_segments": ends, "sorted_idx": order}


def _order(levels: list[Any]) -> list[int]:
    """Return the ascending order; XGBoost compares the bytes of text as signed numbers."""
    if not levels or not isinstance(levels[0], str):
        return list(range(len(levels)))
    letters = [np.frombuffer(level.encode(), dtype=np.int8).tolist() for level in levels]
    return sorted(range(len(levels)), key=letters.__getitem__)


def _encoding(levels: list[Any]) -> dict[str, Any]:
    if levels and isinstance(levels[0], int):
        return {"type": _I64, "values": levels}
    texts = [level.encode() for level in levels]
    letters = np.frombuffer(b"".join(texts), dtype=np.int8).tolist()
    ends = np.cumsum([0, *map(len, texts)]).tolist() if texts else []
    return {"offsets": ends, "values": letters}


def predict(data: bytes, plain: PlainModel, matrix: FloatArray) -> Any:
    """Predict raw scores with XGBoost."""
    import xgboost

    booster = xgboost.Booster()
    booster.load_model(bytearray(data))
    types = [_TYPES[column.kind] for column in plain.columns]
    names = list(plain.names) if plain.schema.named else None
    own = [j for j, column in enumerate(plain.columns) if column.rounding == "down"]
    values = plain.with_levels(matrix, own, 2.0**24)
    table = xgboost.DMatrix(
        values, feature_names=names, feature_types=types, enable_categorical=True
    )
    return booster.predict(table, output_margin=True)
