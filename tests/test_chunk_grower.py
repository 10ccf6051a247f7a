"""Trees grown over chunks, threads and ranks are those of growth in memory, bit for bit."""

from __future__ import annotations

import contextlib
import dataclasses
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.boosting.rounds import resolve
from hedgerow.boosting.scores import Scores, TrainingData
from hedgerow.comm.base import Alone
from hedgerow.comm.threads import run_ranks
from hedgerow.data import bin_table, fit_bins, read_table
from hedgerow.data.memory_store import MemoryStore, rows_of
from hedgerow.errors import DataError
from hedgerow.growing.chunk_exchange import Exchange
from hedgerow.growing.chunk_grower import ChunkGrower
from hedgerow.growing.chunk_setup import greet
from hedgerow.growing.constraints import resolve_constraints
from hedgerow.growing.grower import TreeGrower
from hedgerow.growing.tree import GrownTree
from hedgerow.objectives import make_objective
from hedgerow.params import BoostParams

FIELDS = [field.name for field in dataclasses.fields(GrownTree)]


@dataclass(frozen=True)
class Problem:
    """Rows with all that a grower takes."""

    matrix: object
    target: np.ndarray
    weight: np.ndarray | None
    offset: np.ndarray | None
    objective: object
    params: BoostParams

    @property
    def n_rows(self):
        return self.matrix.n_rows

    def base(self):
        if self.offset is not None:
            return np.zeros(self.objective.n_outputs)
        return self.objective.initial_score(self.target, self.weight)


@dataclass(frozen=True)
class Grown:
    """Trees, and raw scores with them."""

    trees: list
    raw: np.ndarray
    passes: list
    sent: list
    splits: list


LOSSES = ("squared_error", "logistic", "softmax", "exponential", "quantile")


def make_problem(
    n_rows=300, loss="logistic", seed=0, weighted=False, offset=False, categories=False,
    n_features=5, missing=0.1, max_bins=255, **values,
):  # fmt: skip
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features))
    score = X[:, 0] + np.sin(2 * X[:, -1]) * X[:, n_features // 2] + 0.5 * rng.normal(size=n_rows)
    X[rng.random(X.shape) < missing] = np.nan
    columns = {f"x{j}": X[:, j] for j in range(n_features)}
    if categories:
        colours = rng.integers(0, 9, n_rows)
        score = score + np.array([2, -1, 0, 1, -2, 0, 3, 0, -3])[colours]
        columns["colour"] = [f"c{k}" for k in colours]
    table = read_table(columns)
    matrix = bin_table(table, fit_bins(table, max_bins))
    n_outputs, target = 1, score
    if loss in ("logistic", "exponential"):
        target = (score > 0).astype(float)
    if loss == "softmax":
        n_outputs, target = 3, np.digitize(score, [-0.8, 0.7]).astype(float)
    objective = make_objective(loss, n_outputs)
    if loss == "softmax":
        values.pop("monotone_constraints", None)
    params = BoostParams(**({"min_samples_leaf": 2, "max_leaves": 8} | values))
    if loss == "quantile" and params.leaf_estimation == "auto":
        params = replace(params, leaf_estimation="gradient")
    params = resolve_constraints(resolve(params, objective), table.schema, objective)
    weight = rng.uniform(0.2, 4.0, n_rows) if weighted else None
    shift = rng.normal(size=(n_outputs, n_rows)) if offset else None
    return Problem(matrix, target, weight, shift, objective, params)


def grow_in_memory(problem, n_rounds=3) -> Grown:
    """The trees of the grower that all others are measured by."""
    data = TrainingData(problem.matrix, problem.target, problem.weight, problem.offset)
    scores = Scores(data, problem.base(), 1)
    grower = TreeGrower(
        problem.matrix, problem.target, problem.weight, scores.raw, problem.objective,
        problem.params, 1,
    )  # fmt: skip
    trees, n_outputs = [], problem.objective.n_outputs
    with contextlib.closing(grower):
        for number in range(n_rounds * n_outputs):
            output = number % n_outputs
            trees.append(grower.grow(number, output))
            outside = grower.rows_outside()
            if len(outside) > 0:
                scores.add(trees[-1], output, outside)
    return Grown(trees, scores.raw, [], [], [])


def part_of(problem, start, stop, chunk_rows) -> MemoryStore:
    return MemoryStore(
        rows_of(problem.matrix, start, stop),
        problem.target[start:stop],
        None if problem.weight is None else problem.weight[start:stop],
        None if problem.offset is None else problem.offset[:, start:stop],
        chunk_rows=chunk_rows,
        first_row=start,
    )


def grow_in_chunks(
    problem, chunk_rows=64, edges=None, n_threads=1, mode="data", n_rounds=3
) -> list[Grown]:
    """What each rank has; rank k has the rows ``edges[k]`` to ``edges[k + 1]``."""

    def run(communicator) -> Grown:
        rank = communicator.rank
        start, stop = (0, problem.n_rows) if mode == "features" else (edges[rank], edges[rank + 1])
        store = part_of(problem, start, stop, chunk_rows)
        n_outputs = problem.objective.n_outputs
        grower = ChunkGrower(
            store, problem.objective, problem.params, n_threads, communicator, mode
        )
        with contextlib.closing(grower):
            grower.start(problem.base())
            numbers = range(n_rounds * n_outputs)
            trees = [grower.grow(number, number % n_outputs) for number in numbers]
            grower.settle()
            parts = [chunk.work.raw.copy() for chunk in store.chunks()]
        raw = np.concatenate([np.zeros((n_outputs, 0)), *parts], axis=1)
        log = grower.traffic
        return Grown(
            trees, raw, [t.passes - t.redone for t in log], [t.sent for t in log],
            [t.splits for t in log],
        )  # fmt: skip

    edges = [0, problem.n_rows] if edges is None else edges
    n_ranks = len(edges) - 1
    return [run(Alone())] if n_ranks == 1 else run_ranks(n_ranks, run)


def assert_same(grown: list[Grown], expected: Grown, mode="data") -> None:
    for rank in grown:
        assert len(rank.trees) == len(expected.trees)
        for number, (tree, other) in enumerate(zip(rank.trees, expected.trees, strict=True)):
            for name in FIELDS:
                a, b = getattr(tree, name), getattr(other, name)
                assert a.dtype == b.dtype, name
                assert a.tobytes() == b.tobytes(), f"{name} of tree {number}"
    raws = [rank.raw for rank in grown]
    whole = [np.concatenate(raws, axis=1)] if mode == "data" else raws
    for raw in whole:
        np.testing.assert_array_equal(raw, expected.raw)


OPTIONS = {
    "plain": {},
    "depthwise": {"grow_policy": "depthwise", "max_leaves": 7},
    "depth alone": {"max_depth": 4, "max_leaves": None},
    "depthwise to the end": {"grow_policy": "depthwise", "max_depth": 3, "max_leaves": None},
    "many leaves": {"max_leaves": 60, "min_samples_leaf": 1},
    "prices": {"reg_lambda": 3.0, "reg_alpha": 0.7, "gamma": 0.4, "max_delta_step": 0.3},
    "no lambda": {"reg_lambda": 0.0, "min_child_weight": 2.0},
    "two leaves": {"max_leaves": 2},
    "no split": {"min_samples_leaf": 10_000},
    "columns": {"colsample_bytree": 0.7, "colsample_bylevel": 0.7, "colsample_bynode": 0.6},
    "subsample": {"subsample": 0.5},
    "small sample": {"subsample": 0.02},
    "monotone": {"monotone_constraints": {"x0": 1, "x2": -1}, "max_leaves": 16},
    "groups": {"interaction_constraints": [["x0", "x1"], ["x2", "x3", "x4"]]},
    "alone": {"interaction_constraints": "pairwise", "colsample_bynode": 0.8},
    "penalties": {"feature_penalties": {"x0": 0.3}, "grow_policy": "depthwise"},
    "first order": {"leaf_estimation": "gradient"},
}


@settings(max_examples=25)
@given(
    options=st.sampled_from(list(OPTIONS.values())),
    loss=st.sampled_from(LOSSES),
    n_rows=st.integers(1, 120),
    chunk_rows=st.sampled_from([1, 2, 7, 33, 1000]),
    cuts=st.lists(st.integers(0, 120), max_size=4),
    n_threads=st.integers(1, 2),
    mode=st.sampled_from(["data", "features"]),
    weighted=st.booleans(),
    offset=st.booleans(),
    categories=st.booleans(),
    seed=st.integers(0, 2**31),
)
def test_trees_are_those_of_growth_in_memory(
    options, loss, n_rows, chunk_rows, cuts, n_threads, mode, weighted, offset, categories, seed
) -> None:
    problem = make_problem(n_rows, loss, seed, weighted, offset, categories, **options)
    edges = [0, *sorted(min(cut, n_rows) for cut in cuts), n_rows]
    grown = grow_in_chunks(problem, chunk_rows, edges, n_threads, mode, n_rounds=2)
    assert_same(grown, grow_in_memory(problem, 2), mode)


@pytest.mark.parametrize(("n_rows", "fits"), [(2**33 - 1, True), (2**33, False)])
def test_more_rows_than_can_be_added_up_are_refused(n_rows, fits) -> None:
    # Hessians of 2**30 each, as those of a log loss are at the start: 2**33 of them are 2**63.
    store = SimpleNamespace(
        chunk_sizes=[n_rows],
        spec=SimpleNamespace(n_features=1, stride=16),
        chunks=lambda numbers, uses: iter(()),
    )
    exchange = Exchange(Alone(), "data")
    if fits:
        assert greet(exchange, store, BoostParams(), 1).n_rows * 2**30 <= np.iinfo(np.int64).max
        return
    with pytest.raises(DataError, match="8,589,934,592 rows are too many"):
        greet(exchange, store, BoostParams(), 1)
