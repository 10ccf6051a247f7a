"""Rows divided into chunks, between threads and ranks: the bytes of memory, and at what cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, reject, settings
from hypothesis import strategies as st

from hedgerow import Dataset, train
from hedgerow.boosting.loop.setup import resolved
from hedgerow.comm.base import Alone
from hedgerow.errors import AllRowsNeededError, DataError, HedgerowError
from hedgerow.growing.chunks import exchange as chunk_exchange
from hedgerow.growing.chunks import grower as chunk_grower
from hedgerow.growing.chunks import space as chunk_space
from hedgerow.growing.chunks.exchange import Exchange
from hedgerow.growing.chunks.grower import ChunkGrower
from hedgerow.growing.chunks.space import Traffic, check_vector_rows, greet
from hedgerow.params import BoostParams
from tests.helpers.chunked import Rows, divided_into, same_bytes
from tests.helpers.examples import examples
from tests.helpers.faults import Fault, with_each_fault
from tests.helpers.features import ROWS, parts_of
from tests.helpers.rank_trainings import cut, rank_of, train_ranks

TREES = [
    *("depth-wise", "symmetric", "random cuts", "columns of trees", "columns of nodes"),
    *("categories", "smooth", "small steps", "L1", "few bins", "one leaf", "monotone"),
    *("interactions", "penalties", "sample", "GOSS", "MVS", "lines"),
    *("vectors", "trees apart", "line search"),
]
"""Pieces of :mod:`tests.helpers.features` that change the growth of a tree."""
LOSSES = ["plain", "high", "classes", "quantile", "fair", "two targets", "two amounts"]


@settings(max_examples=examples(150), deadline=None)
@given(
    trees=st.lists(st.sampled_from(TREES), max_size=3, unique=True),
    loss=st.sampled_from(LOSSES),
    roles=st.sampled_from([[], ["weights"], ["offsets"], ["weights", "offsets"]]),
    n_columns=st.sampled_from([1, 2, 9]),
    limits=st.sampled_from([
        {}, {"min_samples_leaf": 1, "max_leaves": 40}, {"max_leaves": 2}, {"gamma": 0.4},
        {"reg_lambda": 0.0, "min_child_weight": 2.0}, {"leaf_estimation": "gradient"},
    ]),
    n_rows=st.integers(20, 150),
    chunk_rows=st.sampled_from([3, 7, 33, 1000]),
    cuts=st.lists(st.integers(0, 150), max_size=3),
    mode=st.sampled_from(["data", "features"]),
    n_jobs=st.integers(1, 2),
    batch=st.integers(5, 90),
)  # fmt: skip
@example(
    trees=["GOSS"], loss="high", roles=[], n_columns=2, limits={}, n_rows=120, chunk_rows=33,
    cuts=[40, 90], mode="data", n_jobs=1, batch=50,
)  # fmt: skip
def test_any_division_of_the_rows_gives_the_bytes_of_memory(
    trees, loss, roles, n_columns, limits, n_rows, chunk_rows, cuts, mode, n_jobs, batch,
    tmp_path_factory,
) -> None:  # fmt: skip
    """A rank, or a chunk, may have no row."""
    if loss.startswith("two") and "offsets" in roles:
        roles = [role for role in roles if role != "offsets"]
    params, rows = parts_of(" + ".join([loss, *trees, *roles]), ROWS[:n_rows])
    kept = rows.features[:n_columns]
    rows, params = replace(rows, features=kept), {**params, **limits, "n_jobs": n_jobs}
    if params.get("grow_policy") == "symmetric":
        params.pop("max_leaves", None)
    try:
        expected = train({**params, "n_jobs": 1}, rows.in_memory()).to_bytes()
    except HedgerowError:
        reject()
    table, known = rows.table, {role: rows.table[name] for role, name in rows.roles.items()}
    arrays = {role: values.to_numpy() for role, values in known.items()}
    # On ranks an offset is an array; in tables it is a column, which the model names.
    of_arrays = train(params, Dataset(table[kept], table[rows.target], **arrays)).to_bytes()
    borders = sorted(min(border, n_rows) for border in cuts)
    with pytest.MonkeyPatch.context() as patch, divided_into(chunk_rows):
        patch.setattr(resolved, "_CELLS_PER_THREAD", 1)
        assert train(params, rows.in_batches(batch)).to_bytes() == expected
        parts = cut(
            [b for b in borders if 0 < b < n_rows], table[kept], table[rows.target], **known
        )
        folder = tmp_path_factory.mktemp("ranks")
        searched = params.get("leaf_estimation") == "line_search" and loss != "quantile"
        if searched and borders and mode == "data":  # a mode in which ranks have other rows
            with pytest.raises(AllRowsNeededError, match="are not quantiles"):
                train_ranks(len(borders) + 1, parts, folder, mode=mode, **params)
            return
        assert train_ranks(len(borders) + 1, parts, folder, mode=mode, **params) == of_arrays


def signals(n_rows: int, n_columns: int = 5) -> Rows:
    """Return rows of normal numbers, some missing, and a target of two classes."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_columns))
    score = X[:, 0] + np.sin(2 * X[:, -1]) * X[:, n_columns // 2] + 0.5 * rng.normal(size=n_rows)
    X[rng.random(X.shape) < 0.1] = np.nan
    names = [f"x{k}" for k in range(n_columns)]
    table = pd.DataFrame(X, columns=names).assign(y=(score > 0) * 1.0, score=score, w=1.0)
    return Rows(table.assign(third=np.digitize(score, [-0.8, 0.7]) * 1.0), names)


FEW: dict[str, Any] = {"objective": "logistic", "n_estimators": 2, "max_leaves": 8, "n_jobs": 2}
LEVELS: dict[str, Any] = {**FEW, "grow_policy": "symmetric", "max_depth": 6}
del LEVELS["max_leaves"]
VECTORS: dict[str, Any] = {"objective": "softmax", "multi_strategy": "multi_output_tree"}


def on_ranks(rows: Rows, borders: list[int], folder: Any, **params: Any) -> None:
    """Check that ranks train the model of memory."""
    parts = cut(borders, rows.table[rows.features], rows.table[rows.target])
    found = train_ranks(len(borders) + 1, parts, folder, **params)
    mode = params.pop("mode", None)
    assert mode in (None, "data", "features")
    assert found == train(params, rows.in_memory()).to_bytes()


@pytest.fixture
def traffic(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Traffic]]:
    """Yield the costs of each tree that is grown on chunks; each rank has its own."""
    found: list[Traffic] = []
    grow = ChunkGrower.grow

    def noted(self: ChunkGrower, *given: Any) -> Any:
        tree = grow(self, *given)
        found.append(self.traffic[-1])
        return tree

    monkeypatch.setattr(ChunkGrower, "grow", noted)
    return found


def depth_of(tree: Any) -> int:
    depth = np.zeros(len(tree.left), dtype=int)
    for node in np.flatnonzero(tree.left):
        depth[[tree.left[node], tree.right[node]]] = depth[node] + 1
    return int(depth.max())


# -- passes over the chunks ------------------------------------------------------------


@pytest.mark.parametrize("policy", ["leafwise", "depthwise", "symmetric"])
def test_passes_are_about_as_many_as_levels(policy: str, traffic: list[Traffic]) -> None:
    rows, params = signals(6000), {**FEW, "n_estimators": 4, "grow_policy": policy}
    params |= {"max_leaves": 31, "min_samples_leaf": 20}
    params = {**LEVELS, "n_estimators": 4, "max_depth": 4} if policy == "symmetric" else params
    with divided_into(2000):
        forest = same_bytes(params, rows).model.forest
    assert len(traffic) == 4
    for number, cost in enumerate(traffic):
        tree = forest.tree(number)
        depth = depth_of(tree)
        if policy == "symmetric":
            assert cost.passes == depth + 1  # one for the root
            assert cost.splits == np.count_nonzero(tree.left)  # none is in vain
        else:
            assert depth <= cost.passes <= depth + (4 if policy == "leafwise" else 1)
            assert cost.splits <= 60
            assert policy == "leafwise" or cost.splits == 30


@pytest.mark.parametrize(
    "params",
    [
        {**FEW, "max_leaves": 25, "min_samples_leaf": 1},
        {**FEW, "max_leaves": 25, "min_samples_leaf": 1, "grow_policy": "depthwise"},
        {**FEW, **VECTORS, "max_leaves": 25, "min_samples_leaf": 1},
        {**LEVELS, "min_samples_leaf": 1},
    ],
)
def test_little_memory_for_histograms(
    params: dict[str, Any], traffic: list[Traffic], monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """Levels are built in several passes then."""
    rows = replace(signals(500), target="third" if params["objective"] == "softmax" else "y")
    if "grow_policy" not in params or params["grow_policy"] != "symmetric":
        monkeypatch.setattr(chunk_space, "_SLOT_BYTES", 1)
    monkeypatch.setattr(chunk_space, "_BUILD_BYTES", 1)
    monkeypatch.setattr(chunk_grower, "_SPARE_NODES", 2)
    with divided_into(128):
        same_bytes(params, rows)
        assert max(cost.passes for cost in traffic) > 8
        for mode in ("data", "features"):
            on_ranks(rows, [200], tmp_path, mode=mode, **params)


def test_levels_whose_histograms_cannot_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_space, "_SLOT_BYTES", 1)
    rows = signals(500)
    with divided_into(128):
        for params, target in ((LEVELS, "y"), ({**LEVELS, **VECTORS}, "third")):
            with pytest.raises(AllRowsNeededError, match=r"max_depth=6 keeps up to .. his"):
                train(params, replace(rows, target=target).in_batches())
        same_bytes({**LEVELS, "max_depth": 3}, rows)


def test_a_hessian_that_is_tiny_beside_the_largest() -> None:
    rows = replace(signals(9000), roles={"weight": "w"})
    rows.table.loc[17, "w"] = 1e7  # all bits are kept: two words a row
    with divided_into(2000):
        same_bytes({**FEW, "max_leaves": 31}, rows)


@pytest.mark.parametrize("share", [0.0, 1.0, 2.0])
def test_lines_of_leaves_whose_split_was_dropped(
    share: float, traffic: list[Traffic], monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.setattr(chunk_grower, "_CHILD_SHARE", share)
    rows, params = signals(900), {**FEW, "linear_leaves": True, "max_leaves": 12}
    with divided_into(130):
        slopes = same_bytes(params, rows).model.forest.slopes
        on_ranks(rows, [500], tmp_path, **params)
        on_ranks(rows, [300, 310], tmp_path, **params)
    assert (max(cost.splits for cost in traffic) > 11) == (share < 1.0)
    assert slopes is not None
    assert len(slopes.slope) > 0


# -- ranks ----------------------------------------------------------------------------


def test_bytes_that_ranks_send(traffic: list[Traffic], tmp_path: Any) -> None:
    rows, n_columns, stride, n_ranks = signals(6000, 40), 40, 256, 4
    for mode in ("data", "features"):
        traffic.clear()
        with divided_into(1000):
            on_ranks(rows, [1000, 3000, 4500], tmp_path, mode=mode, **{**FEW, "max_leaves": 16})
        assert len(traffic) == 2 * n_ranks
        for cost in traffic:
            # g, h and number of rows of all cells but those of the own block.
            histogram = 24 * n_columns * stride * (n_ranks - 1) / n_ranks
            built = histogram * (cost.splits + 2) if mode == "data" else 0.0
            records = 2000 * (cost.splits + 2) * (n_ranks - 1)
            assert 0 < cost.sent <= built + records
            assert cost.sent >= 0.5 * built


@pytest.mark.parametrize("params", [FEW, {**LEVELS, "max_depth": 4}])
def test_two_ranks_exchange_narrow_histograms_whole(
    params: dict[str, Any], traffic: list[Traffic], monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    rows, sent = signals(3000, 6), []
    for whole_bytes in (chunk_exchange._WHOLE_BYTES, 0):
        monkeypatch.setattr(chunk_exchange, "_WHOLE_BYTES", whole_bytes)
        traffic.clear()
        on_ranks(rows, [1000], tmp_path, **params)
        sent.append(sum(cost.sent for cost in traffic))
    assert sent[0] > 1.3 * sent[1]  # instead of half of the columns, all


def test_constant_hessians_are_not_sent(traffic: list[Traffic], tmp_path: Any) -> None:
    rows, sent = signals(4500), {}
    for loss, target in (("squared_error", "score"), ("logistic", "y")):
        traffic.clear()
        params = {**FEW, "objective": loss, "max_leaves": 4, "min_samples_leaf": 500}
        on_ranks(replace(rows, target=target), [2000], tmp_path, **params)
        sent[loss] = traffic[-1].sent / (1 + traffic[-1].splits)
    assert sent["squared_error"] < 0.8 * sent["logistic"]


def test_a_lost_rank_ends_the_training_on_all_ranks(tmp_path: Any) -> None:
    rows, params = signals(200), {**FEW, "max_leaves": 5, "n_jobs": 1}
    parts = cut([100], rows.table[rows.features], rows.table["y"])
    expected, n_faults = train(params, rows.in_memory()).to_bytes(), 0
    run = rank_of(2, parts, tmp_path, **params)
    for _, outcomes in with_each_fault(2, run, Fault.DIES, timeout=60.0):
        assert all(outcome.error or outcome.result == expected for outcome in outcomes)
        n_faults += any(outcome.error is not None for outcome in outcomes)
    assert n_faults > 10


# -- too many rows ----------------------------------------------------------------------


@pytest.mark.parametrize(("n_rows", "fits"), [(2**31 - 1, True), (2**31, False)])
def test_more_rows_than_can_be_added_up_are_refused(n_rows: int, fits: bool) -> None:
    # Histograms count rows in int32.
    store: Any = SimpleNamespace(
        chunk_sizes=[n_rows],
        spec=SimpleNamespace(n_features=1, stride=16),
        chunks=lambda numbers, uses: iter(()),
    )
    exchange = Exchange(Alone(), "data")
    if fits:
        assert greet(exchange, store, BoostParams(), 1).n_rows == np.iinfo(np.int32).max
        return
    with pytest.raises(DataError, match="2,147,483,648 rows are too many"):
        greet(exchange, store, BoostParams(), 1)


def test_sums_of_too_many_rows() -> None:
    check_vector_rows((1 << 30) - 1)
    with pytest.raises(DataError, match=r"1,073,741,824 rows are too many for vectors"):
        check_vector_rows(1 << 30)
