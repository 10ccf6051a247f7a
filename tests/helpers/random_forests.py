"""Random valid models, for tests of the use of models."""

from __future__ import annotations

import numpy as np

from hedgerow.data.schema import Column, Schema
from hedgerow.kernels.tables.keys import keys_of_floats
from hedgerow.model.forest import NODE_FIELDS, Forest
from hedgerow.model.model import Model

_FLOATS = np.array([0.0, 1.5, -2.25, 0.1, 5e-324, -5e-324, 1e308, -1e308, np.inf, -np.inf, 1 / 3])
_INTS = np.array([0, -1, 1, 7, 2**53 + 1, 2**63 - 1, -(2**63) + 1])
_DTYPES = {"feature": np.int32, "left": np.int32, "right": np.int32, "missing_left": np.uint8}


def random_tree(rng: np.random.Generator, kinds: list[str], n_leaves: int) -> dict[str, list]:
    """Grow one tree by splitting random leaves."""
    tree: dict[str, list] = {name: [] for name in NODE_FIELDS}

    def add_leaf(count: int) -> int:
        leaf = {"feature": -1, "threshold": 0, "missing_left": 0, "left": 0, "right": 0, "gain": 0}
        leaf |= {"value": rng.normal(), "cover": count * 0.25, "count": count}
        for name, value in leaf.items():
            tree[name].append(value)
        return len(tree["feature"]) - 1

    leaves = [add_leaf(int(rng.integers(n_leaves, 100 * n_leaves + 1)))]
    while len(leaves) < n_leaves:
        node = leaves.pop(int(rng.integers(len(leaves))))
        feature = int(rng.integers(len(kinds)))
        to_left = int(rng.integers(0, tree["count"][node] + 1))
        split = {
            "feature": feature,
            "missing_left": int(rng.integers(2)),
            "gain": rng.exponential(),
        }
        split["left"] = add_leaf(to_left)
        split["right"] = add_leaf(tree["count"][node] - to_left)
        if kinds[feature] == "int":
            split["threshold"] = int(rng.choice(_INTS))
        else:
            split["threshold"] = int(keys_of_floats(rng.choice(_FLOATS, 1))[0])
        for name, value in split.items():
            tree[name][node] = value
        leaves += [split["left"], split["right"]]
    return tree


def random_model(
    seed: int = 0,
    *,
    n_rounds: int = 2,
    n_outputs: int = 1,
    n_features: int = 4,
    max_leaves: int = 5,
    named: bool = True,
) -> Model:
    """Draw a model with columns of both kinds; equal arguments give equal models."""
    rng = np.random.default_rng(seed)
    kinds = [str(kind) for kind in rng.choice(["float", "int"], n_features, p=[0.7, 0.3])]
    n_trees = n_rounds * n_outputs
    trees = [random_tree(rng, kinds, int(rng.integers(1, max_leaves + 1))) for _ in range(n_trees)]
    nodes = {name: [value for tree in trees for value in tree[name]] for name in NODE_FIELDS}
    arrays = {
        name: np.array(values, dtype=_DTYPES.get(name, np.float64 if name in _REAL else np.int64))
        for name, values in nodes.items()
    }
    starts = np.cumsum([0, *(len(tree["feature"]) for tree in trees)], dtype=np.int64)
    forest = Forest(
        **arrays, tree_start=starts, base_score=rng.normal(size=n_outputs), n_features=n_features
    )
    prefix = "größe_" if named else "x"
    columns = tuple(Column(f"{prefix}{j}", kind) for j, kind in enumerate(kinds))
    objective = "softmax" if n_outputs > 1 else "logistic"
    training = {
        "params": {"seed": seed, "learning_rate": 0.1},
        "history": {"train": {"loss": [0.5, 0.25]}},
    }
    return Model(forest, Schema(columns, named), objective, training)


_REAL = ("value", "gain", "cover")
