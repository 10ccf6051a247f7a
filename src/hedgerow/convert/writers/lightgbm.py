"""Writer of LightGBM's text format (version 4).

Every number has enough digits to restore it.  Missing values have type NaN, with a side at each
split.  LightGBM sends unknown and missing values right at a category set.  If they go left in
Hedgerow, the writer lists the other categories and exchanges the sides.  The base score is a
first tree of one leaf.  LightGBM's raw scores are equal to the last bit.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import chain
from typing import Any

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.convert.readers.lightgbm import OBJECTIVES, ZERO
from hedgerow.convert.readers.lightgbm_text import CATEGORICAL, DEFAULT_LEFT
from hedgerow.convert.writers.plain import PlainModel, PlainTree, check_names, refuse
from hedgerow.errors import ParameterError

_TARGET = "LightGBM's text"
_ZERO, _NAN = 1 << 2, 2 << 2
_WORD = 32

_OBJECTIVES = {objective: name for name, objective in OBJECTIVES.items()}
_OBJECTIVES |= {name: name for name in ("huber", "quantile", "tweedie")}
_BY_LINK = {"identity": "regression", "log": "poisson", "logit": "binary sigmoid:1"}


def write(plain: PlainModel, approximate: bool, notes: list[str]) -> bytes:
    """Return the text of a model."""
    schema = plain.schema
    check_names(plain, _TARGET, "\0")
    if schema.zero_missing and schema.zero_band != ZERO:
        if not approximate:
            raise refuse(
                "zero_as_missing, where LightGBM treats all numbers up to 1e-35 as zeros,",
                _TARGET,
                ": approximate=True writes it",
            )
        notes.append("numbers up to 1e-35 in magnitude are missing values in LightGBM, as 0 is.")
    trees = plain.trees()
    if any(((tree.threshold >= -ZERO) & (tree.threshold < ZERO)).any() for tree in trees):
        notes.append("LightGBM treats numbers up to 1e-35 in magnitude as 0.")
    for name, column in zip(plain.names, plain.columns, strict=True):
        if column.kind == "category" and column.temporal is not None:
            # LightGBM would take dates for unknown categories.
            notes.append(
                f"column {name!r}: its categories are {column.temporal}; give LightGBM whole "
                "microseconds (of dates, since 1970), because its models hold no dates."
            )
    if plain.forest.n_parallel > 1:
        notes.append(
            "a round with several trees per output becomes several iterations in LightGBM."
        )
    bases = plain.forest.base_score
    blocks = [_one_leaf(base) for base in bases.tolist() if bases.any()]
    blocks += [_tree(plain, tree) for tree in trees]
    k = plain.n_outputs
    names = _names(plain, notes)
    header = {
        "version": "v4",
        "num_class": str(k),
        "num_tree_per_iteration": str(k),
        "label_index": "0",
        "max_feature_idx": str(schema.n_features - 1),
        "objective": _objective(plain, notes),
        "feature_names": " ".join(names),
        # Without a range, LightGBM treats a column as categories.
        "feature_infos": " ".join(
            ":".join(map(str, range(max(1, len(column.levels)))))
            if column.kind == "category"
            else "[-inf:inf]"
            for column in plain.columns
        ),
    }
    texts = [
        "".join(f"{line}\n" for line in (f"Tree={number}", *block, "", ""))
        for number, block in enumerate(blocks)
    ]
    header["tree_sizes"] = " ".join(str(len(text)) for text in texts)  # they are ASCII
    lines = ["tree", *(f"{name}={value}" for name, value in header.items() if value), "", ""]
    levels = [list(column.levels) for column in plain.columns if column.kind == "category"]
    listed = f"pandas_categorical:{json.dumps(levels) if levels else 'null'}"
    end = ["end of trees", "", listed, ""]
    return ("\n".join(lines) + "".join(texts) + "\n".join(end)).encode()


def _objective(plain: PlainModel, notes: list[str]) -> str:
    if plain.link is None:
        return ""
    if plain.link == "softmax":
        return f"multiclass num_class:{plain.n_outputs}"
    if plain.link == "logit_each":
        return f"multiclassova num_class:{plain.n_outputs} sigmoid:1"
    if plain.n_outputs > 1:
        return ""
    found = _OBJECTIVES.get(plain.model.objective, _BY_LINK[plain.link])
    if plain.model.objective not in (*_OBJECTIVES, "logistic"):
        notes.append(f"the objective is written as {found!r}, which has the same link.")
    return found


def _names(plain: PlainModel, notes: list[str]) -> list[str]:
    """Return names without spaces, which separate names in LightGBM."""
    if not plain.schema.named:
        return [f"Column_{j}" for j in range(plain.schema.n_features)]
    names = ["_".join(name.split()) or "_" for name in plain.names]
    if len(set(names)) < len(names):
        raise ParameterError(
            "two column names are equal without spaces, which LightGBM does not allow in names: "
            "rename one column."
        )
    if names != list(plain.names):
        notes.append("spaces in column names became underscores.")
    return names


def _one_leaf(value: float) -> list[str]:
    empty = ("split_feature", "split_gain", "threshold", "decision_type", "left_child")
    return [
        "num_leaves=1",
        "num_cat=0",
        *(f"{name}=" for name in (*empty, "right_child")),
        f"leaf_value={value!r}",
        *(f"{name}=" for name in ("leaf_weight", "leaf_count", "internal_value")),
        *(f"{name}=" for name in ("internal_weight", "internal_count")),
        "is_linear=0",
        "shrinkage=1",
    ]


def _tree(plain: PlainModel, tree: PlainTree) -> list[str]:
    leaf = tree.is_leaf()
    inner, leaves = np.flatnonzero(~leaf), np.flatnonzero(leaf)
    if len(inner) == 0:
        return _one_leaf(float(tree.value[0]))
    number = np.zeros(len(leaf), dtype=np.int64)
    number[inner], number[leaves] = np.arange(len(inner)), ~np.arange(len(leaves))
    left, right = number[tree.left[inner]], number[tree.right[inner]]
    decision = np.where(tree.missing_left[inner], DEFAULT_LEFT, 0) | (
        _ZERO if plain.schema.zero_missing else _NAN
    )
    threshold = tree.threshold[inner].copy()
    words: list[list[int]] = []
    for place, node in enumerate(inner.tolist()):
        if node not in tree.members:
            continue
        if tree.unknown_left[node] != tree.missing_left[node]:
            raise refuse(
                f"a split of column {plain.names[int(tree.column[node])]!r} that sends missing "
                "categories and unknown ones to different sides",
                _TARGET,
            )
        chosen = plain.known_side(tree, node, tree.unknown_left[node])
        if tree.unknown_left[node]:
            left[place], right[place] = right[place], left[place]
        decision[place], threshold[place] = CATEGORICAL | _NAN, len(words)
        bits = np.zeros((int(chosen.max(initial=0)) // _WORD + 1) * _WORD, dtype=np.uint8)
        bits[chosen] = 1
        words.append(np.packbits(bits, bitorder="little").view("<u4").tolist())
    ends = np.cumsum([0, *map(len, words)])
    lines = [
        f"num_leaves={len(leaves)}",
        f"num_cat={len(words)}",
        f"split_feature={_ints(tree.column[inner])}",
        f"split_gain={_floats(tree.gain[inner])}",
        f"threshold={_floats(threshold)}",
        f"decision_type={_ints(decision)}",
        f"left_child={_ints(left)}",
        f"right_child={_ints(right)}",
        f"leaf_value={_floats(tree.value[leaves])}",
        f"leaf_weight={_floats(tree.cover[leaves])}",
        f"leaf_count={_ints(tree.count[leaves])}",
        f"internal_value={_floats(tree.value[inner])}",
        f"internal_weight={_floats(tree.cover[inner])}",
        f"internal_count={_ints(tree.count[inner])}",
    ]
    if words:
        lines += [
            f"cat_boundaries={_ints(ends)}",
            f"cat_threshold={_ints(chain.from_iterable(words))}",
        ]
    return [*lines, "is_linear=0", "shrinkage=1"]


def _ints(values: Iterable[int]) -> str:
    return " ".join(str(int(value)) for value in values)


def _floats(values: FloatArray) -> str:
    """Return the shortest decimals that restore the numbers; whole numbers without a point."""
    return " ".join(repr(value) for value in values.tolist())


def predict(data: bytes, plain: PlainModel, matrix: FloatArray) -> Any:
    """Predict raw scores with LightGBM."""
    import lightgbm

    return lightgbm.Booster(model_str=data.decode()).predict(matrix, raw_score=True)
