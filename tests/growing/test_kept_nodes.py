"""Nodes of grown trees in shared arrays, and predictions that read them there."""

from __future__ import annotations

import contextlib
from dataclasses import fields

import numpy as np
import pytest

from hedgerow.growing.core import joining, tree
from hedgerow.growing.core.grower import TreeGrower
from hedgerow.growing.core.joining import WalkedRows
from hedgerow.growing.core.setup import Fit
from hedgerow.growing.core.tree import NO_ROWS, GrownTree, TreeOfTable, add_tree, joined
from hedgerow.objectives import make_objective
from hedgerow.params import BoostParams
from tests.helpers import engine

N_ROWS = 300


def grown(n_trees: int, linear: bool = False, block_nodes: int = 40) -> tuple[list, object, object]:
    """Return trees of a few to some dozen nodes, in blocks that hold several trees."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, 4))
    X[rng.random(X.shape) < 0.1] = np.nan
    y = np.nan_to_num(X[:, 0] * X[:, 1] + X[:, 2]) + rng.normal(size=N_ROWS)
    matrix, raw = engine.binned(X), np.zeros((1, N_ROWS))
    numbers = np.asfortranarray(X) if linear else None
    params = BoostParams(max_leaves=9, min_samples_leaf=5, gamma=8.0, linear_leaves=linear)
    squares = make_objective("squared_error")
    grower = TreeGrower(matrix, Fit(y, None, raw, squares, params, 1), numbers=numbers)
    with contextlib.closing(grower), pytest.MonkeyPatch.context() as patch:
        patch.setattr(tree, "_BLOCK_NODES", block_nodes)
        trees = [grower.grow(number, 0) for number in range(n_trees)]
    assert len({len(one.value) for one in trees}) > 1
    return trees, matrix, numbers


def names() -> list[str]:
    return [field.name for field in fields(GrownTree) if field.name not in ("vectors", "slopes")]


@pytest.mark.parametrize("block_nodes", [1, 40, 1024])
@pytest.mark.parametrize("chosen", [slice(None), slice(0, 7), slice(3, None), slice(None, None, 3)])
def test_pieces_are_the_trees_one_behind_the_other(
    block_nodes: int, chosen: slice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree, "_NODES_AT_ONCE", 50)
    trees = grown(20, block_nodes=block_nodes)[0][chosen]
    pieces = joined(trees)
    assert len(pieces) < len(trees)
    for name in names():
        alone = np.concatenate([getattr(one.finished(), name) for one in trees])
        together = np.concatenate([getattr(piece, name) for piece in pieces])
        assert together.dtype == alone.dtype
        assert together.tobytes() == alone.tobytes()


def test_no_trees_have_no_pieces() -> None:
    assert list(joined([])) == []


def test_later_trees_leave_earlier_ones_as_they_are() -> None:
    few, many = grown(8)[0], grown(20)[0]
    for one, same in zip(few, many, strict=False):
        for name in names():
            assert getattr(one, name).tobytes() == getattr(same, name).tobytes()


def test_neighbours_share_a_block() -> None:
    trees = grown(20)[0]
    blocks = {id(one.block) for one in trees}
    assert 1 < len(blocks) < 20


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_walks_of_kept_nodes_add_what_walks_of_any_tree_add(
    linear: bool, n_threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joining, "ROWS_PER_WALK", 10)
    trees, matrix, numbers = grown(12, linear)
    start = np.random.default_rng(1).normal(size=(2, N_ROWS))
    found, expected = start.copy(), start.copy()
    walked = WalkedRows(matrix, found, numbers, n_threads)
    some = np.sort(np.random.default_rng(2).permutation(N_ROWS)[:101]).astype(np.uint32)
    for number, one in enumerate(trees):
        assert isinstance(one, TreeOfTable)
        rows, output = (NO_ROWS, some, some[:1])[number % 3], number % 2
        walked.add(one, output, rows)
        add_tree(one.finished(), (matrix, numbers), rows, expected, output, 1)
    assert found.tobytes() == expected.tobytes()
    assert (found != start).any(axis=1).all()
