"""Random valid models, for tests of the use of models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hedgerow.data.schema import Column, Schema
from hedgerow.io.validate import FOREST_DTYPES
from hedgerow.kernels.tables.keys import keys_of_floats
from hedgerow.model.forest import NODE_FIELDS, CategoryTables, Forest
from hedgerow.model.model import Model


def forest_of(
    n_features: int,
    *,
    base_score: Sequence[float] = (0.0,),
    tree_start: Sequence[int] | None = None,
    categories: CategoryTables | None = None,
    **nodes: Any,
) -> Forest:
    """Return a forest of lists of its nodes; one tree, and 0 for what is not given."""
    n_nodes = len(nodes["feature"])
    start = (0, n_nodes) if tree_start is None else tree_start
    return Forest(
        **{
            name: np.array(nodes.get(name, [0] * n_nodes), dtype=FOREST_DTYPES[name])
            for name in NODE_FIELDS
        },
        tree_start=np.array(start, dtype=np.int64),
        base_score=np.array(base_score, dtype=np.float64),
        n_features=n_features,
        categories=categories,
    )


_FLOATS = np.array([0.0, 1.5, -2.25, 0.1, 5e-324, -5e-324, 1e308, -1e308, np.inf, -np.inf, 1 / 3])
_INTS = np.array([0, -1, 1, 7, 2**53 + 1, 2**63 - 1, -(2**63) + 1])


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
    starts = np.cumsum([0, *(len(tree["feature"]) for tree in trees)])
    base = rng.normal(size=n_outputs)
    forest = forest_of(n_features, base_score=base, tree_start=starts, **nodes)
    prefix = "größe_" if named else "x"
    columns = tuple(Column(f"{prefix}{j}", kind) for j, kind in enumerate(kinds))
    objective = "softmax" if n_outputs > 1 else "logistic"
    training = {
        "params": {"seed": seed, "learning_rate": 0.1},
        "history": {"train": {"loss": [0.5, 0.25]}},
    }
    return Model(forest, Schema(columns, named), objective, training)
