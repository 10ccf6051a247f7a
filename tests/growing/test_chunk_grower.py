"""Trees grown on chunks, threads and ranks equal those grown in memory, bit for bit."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.boosting.loop.scores import Scores, TrainingData, make_scores
from hedgerow.boosting.loop.setup.resolved import resolve, trees_of_round
from hedgerow.comm.base import Alone
from hedgerow.data import bin_table, fit_bins, read_table
from hedgerow.data.external.row_store import EVERYTHING, MemoryStore, rows_of
from hedgerow.data.reading.columns import floats_of
from hedgerow.errors import AllRowsNeededError, CommunicationError, DataError
from hedgerow.growing.chunks import exchange as chunk_exchange
from hedgerow.growing.chunks import grower as chunk_grower
from hedgerow.growing.chunks import space as chunk_space
from hedgerow.growing.chunks.exchange import Exchange
from hedgerow.growing.chunks.grower import ChunkGrower
from hedgerow.growing.chunks.levels import SymmetricChunkGrower
from hedgerow.growing.chunks.space import check_vector_rows, greet
from hedgerow.growing.core.grower import TreeGrower
from hedgerow.growing.core.setup import Fit
from hedgerow.growing.core.tree import GrownTree
from hedgerow.growing.limits.constraints import resolve_constraints
from hedgerow.objectives import make_objective
from hedgerow.objectives.targets import several_targets
from hedgerow.params import BoostParams
from tests.helpers.faults import Fault, with_each_fault
from tests.helpers.ranks import rank_outcomes, run_ranks

FIELDS = [field.name for field in dataclasses.fields(GrownTree)]


@dataclass(frozen=True)
class Problem:
    """Rows and the other inputs of a grower."""

    matrix: object
    target: np.ndarray
    weight: np.ndarray | None
    offset: np.ndarray | None
    objective: object
    params: BoostParams
    numbers: np.ndarray | None = None

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
    squared = make_objective("squared_error", 1)
    forced = resolve_constraints(BoostParams(**values), table.schema, squared).forced_bins
    matrix = bin_table(table, fit_bins(table, max_bins, forced=forced))
    n_outputs, target = 1, score
    if loss in ("logistic", "exponential"):
        target = (score > 0).astype(float)
    if loss == "softmax":
        n_outputs, target = 3, np.digitize(score, [-0.8, 0.7]).astype(float)
    objective = make_objective(loss, n_outputs)
    if loss == "softmax":
        values.pop("monotone_constraints", None)
    params = BoostParams(**({"min_samples_leaf": 2, "max_leaves": 8} | values))
    if params.grow_policy == "symmetric":
        params = replace(params, max_leaves=None)
    if loss == "quantile" and params.leaf_estimation == "auto":
        params = replace(params, leaf_estimation="gradient")
    params = resolve_constraints(resolve(params, objective), table.schema, objective)
    weight = rng.uniform(0.2, 4.0, n_rows) if weighted else None
    shift = rng.normal(size=(n_outputs, n_rows)) if offset else None
    numbers = np.asfortranarray(floats_of(table.values, table.schema.kinds))
    return Problem(matrix, target, weight, shift, objective, params, numbers)


def grow_in_memory(problem, n_rounds=3) -> Grown:
    """Return the trees of growth in memory, the reference for all others."""
    numbers = problem.numbers if problem.params.linear_leaves else None
    data = TrainingData(
        problem.matrix, problem.target, problem.weight, problem.offset, numbers=numbers
    )
    scores = Scores(data, problem.base(), 1)
    fit = Fit(
        problem.target, problem.weight, scores.raw, problem.objective, problem.params, n_threads=1
    )
    grower = TreeGrower(problem.matrix, fit, numbers=numbers)
    trees, n_trees = [], trees_of_round(problem.params, problem.objective.n_outputs)
    with contextlib.closing(grower):
        for number in range(n_rounds * n_trees):
            output = number % n_trees
            trees.append(grower.grow(number, output))
            outside = grower.rows_outside()
            if len(outside) > 0:
                scores.add(trees[-1], output, outside)
    return Grown(trees, scores.raw, [], [], [])


def part_of(problem, start, stop, chunk_rows, kind=MemoryStore) -> MemoryStore:
    numbers = None if problem.numbers is None else problem.numbers[start:stop]
    return kind(rows_of(problem.matrix, start, stop), numbers, chunk_rows=chunk_rows)


def scores_of(problem, start, stop) -> np.ndarray:
    """Return the raw scores of some rows before the first tree."""
    raw = np.repeat(problem.base()[:, None], stop - start, axis=1)
    return raw if problem.offset is None else raw + problem.offset[:, start:stop]


def grower_of(problem, store, start, stop, n_threads=1, communicator=None, **given) -> ChunkGrower:
    """Return a grower of the rows ``start`` to ``stop``, which are in the store."""
    weight = None if problem.weight is None else problem.weight[start:stop]
    raw = scores_of(problem, start, stop)
    target = problem.target[start:stop]
    fit = Fit(target, weight, raw, problem.objective, problem.params, n_threads)
    first_row = 0 if given.get("mode") == "features" else start
    kind = SymmetricChunkGrower if problem.params.grow_policy == "symmetric" else ChunkGrower
    return kind(store, fit, communicator=communicator, first_row=first_row, **given)


class StrictStore(MemoryStore):
    """A store that loads only what it must, like a store on disk."""

    def chunks(self, numbers=None, uses=EVERYTHING):
        for kept in super().chunks(numbers, uses):
            used = range(len(kept.matrix.by_column)) if uses.columns is None else uses.columns
            by_column = np.full_like(kept.matrix.by_column, 0xA5)
            by_column[list(used)] = kept.matrix.by_column[list(used)]
            by_row = kept.matrix.by_row if uses.by_row else np.full_like(kept.matrix.by_row, 0xA5)
            matrix = replace(kept.matrix, by_row=by_row, by_column=by_column)
            numbers = None
            if kept.numbers is not None:
                numbers = np.full_like(kept.numbers, np.nan)
                numbers[:, list(uses.numbers)] = kept.numbers[:, list(uses.numbers)]
            yield replace(kept, matrix=matrix, numbers=numbers)


def grow_in_chunks(
    problem, chunk_rows=64, edges=None, n_threads=1, mode="data", n_rounds=3, kind=MemoryStore
) -> list[Grown]:
    """Grow on chunks; return the result of each rank k (rows ``edges[k]`` to ``edges[k + 1]``)."""

    def run(communicator) -> Grown:
        rank = communicator.rank
        start, stop = (0, problem.n_rows) if mode == "features" else (edges[rank], edges[rank + 1])
        store = part_of(problem, start, stop, chunk_rows, kind)
        n_outputs = problem.objective.n_outputs
        n_trees = trees_of_round(problem.params, n_outputs)
        lines = problem.params.linear_leaves
        given = {"mode": mode, "adds_scores": not lines}
        grower = grower_of(problem, store, start, stop, n_threads, communicator, **given)
        weight = None if problem.weight is None else problem.weight[start:stop]
        rows = TrainingData(store, problem.target[start:stop], weight)
        scores = make_scores(rows, problem.base(), n_threads)
        scores.raw = grower.raw
        trees = []
        with contextlib.closing(grower):
            for number in range(n_rounds * n_trees):
                trees.append(grower.grow(number, number % n_trees))
                outside = grower.rows_outside()
                if lines or len(outside) > 0:
                    rows = outside[:0] if lines else outside
                    scores.add(trees[-1], number % n_trees, rows)
                    scores.update()
        log = grower.traffic
        return Grown(
            trees, scores.raw, [t.passes for t in log], [t.sent for t in log],
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
                if a is None and b is None:  # vectors, of trees that have none
                    continue
                parts = zip(a, b, strict=True) if name == "slopes" else [(a, b)]
                for of_a, of_b in parts:
                    assert of_a.dtype == of_b.dtype, name
                    assert of_a.tobytes() == of_b.tobytes(), f"{name} of tree {number}"
    raws = [rank.raw for rank in grown]
    whole = [np.concatenate(raws, axis=1)] if mode == "data" else raws
    for raw in whole:
        np.testing.assert_array_equal(raw, expected.raw)


GIVEN_CUTS = {
    "feature": "x1",
    "threshold": 0.2,
    "left": {
        "feature": "x3",
        "threshold": -0.3,
        "right": {"feature": "x4", "threshold": 1.5, "left": {"feature": "x1", "threshold": -0.5}},
    },
    "right": {"feature": "x2", "threshold": 0.0, "right": {"feature": "x2", "threshold": 0.5}},
}
OPTIONS = {
    "plain": {},
    "given cuts": {"forced_splits": GIVEN_CUTS, "max_leaves": 9},
    "given cuts, depthwise": {"forced_splits": GIVEN_CUTS, "grow_policy": "depthwise"},
    "given cuts alone": {"forced_splits": GIVEN_CUTS, "max_leaves": 4, "colsample_bytree": 0.7},
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
    "GOSS": {"sampling": "goss"},
    "GOSS of few": {"sampling": "goss", "goss_top_rate": 0.05, "goss_other_rate": 0.1},
    "GOSS of all": {"sampling": "goss", "goss_top_rate": 0.6, "goss_other_rate": 0.4},
    "MVS": {"sampling": "mvs", "subsample": 0.4},
    "MVS first order": {"sampling": "mvs", "subsample": 0.3, "leaf_estimation": "gradient"},
    "lines": {"linear_leaves": True, "linear_lambda": 0.1, "max_leaves": 5},
    "lines of many leaves": {"linear_leaves": True, "max_leaves": 60, "min_samples_leaf": 1},
    "lines, depthwise": {"linear_leaves": True, "grow_policy": "depthwise", "subsample": 0.6},
    "lines of few columns": {
        "linear_leaves": True,
        "monotone_constraints": {"x0": 1, "x2": -1},
        "max_delta_step": 0.5,
    },
    "lines by GOSS": {"linear_leaves": True, "sampling": "goss"},
}
LEVELS = {"grow_policy": "symmetric", "max_leaves": None, "max_depth": 4}
OPTIONS_OF_LEVELS = {
    "plain": {},
    "deep": {"max_depth": 8, "min_samples_leaf": 1},
    "one level": {"max_depth": 1},
    "nodes that stay whole": {"min_samples_leaf": 15},
    "no split": {"min_samples_leaf": 10_000},
    "prices": {"reg_lambda": 3.0, "reg_alpha": 0.7, "gamma": 0.4, "max_delta_step": 0.3},
    "columns": {"colsample_bytree": 0.7, "colsample_bylevel": 0.7, "colsample_bynode": 0.6},
    "subsample": {"subsample": 0.5},
    "monotone": {"monotone_constraints": {"x0": 1, "x2": -1}},
    "groups": {"interaction_constraints": [["x0", "x1"], ["x2", "x3", "x4"]]},
    "penalties": {"feature_penalties": {"x0": 0.3}},
    "smooth": {"path_smooth": 2.0},
    "first order": {"leaf_estimation": "gradient"},
    "lines": {"linear_leaves": True, "linear_lambda": 0.1},
}


def assert_same_everywhere(problem, n_rounds=2, mode="data", **ways) -> list[Grown]:
    """Check that all ways give the same trees and scores, and return these."""
    grown = grow_in_chunks(problem, mode=mode, n_rounds=n_rounds, **ways)
    assert_same(grown, grow_in_memory(problem, n_rounds), mode)
    return grown


VECTORS = {"multi_strategy": "multi_output_tree"}
OPTIONS_OF_VECTORS = {
    "lines by MVS": {"linear_leaves": True, "sampling": "mvs", "subsample": 0.4},
    "lines of levels": LEVELS | {"linear_leaves": True, "max_delta_step": 0.5},
}


def make_vectors(n_rows=300, n_outputs=3, seed=0, loss="softmax", **values):
    """Return rows of classes, or of several targets with a loss of one target."""
    plain = {name: value for name, value in values.items() if not name.startswith("monotone")}
    of_classes = make_problem(n_rows, "softmax", seed, **plain, **VECTORS)
    if loss == "softmax":
        return of_classes
    # Constraints are for one target: classes have none.
    problem = make_problem(n_rows, "squared_error", seed, **values)
    params = replace(problem.params, multi_strategy="multi_output_tree")
    problem = replace(of_classes, params=params)
    rng = np.random.default_rng(seed)
    target = problem.target[:, None] + rng.normal(size=(n_rows, n_outputs)) * 10.0 ** np.arange(
        n_outputs
    )
    target = np.asfortranarray(target)
    objective = several_targets(lambda first: make_objective(loss, 1), target, None)
    offset = problem.offset
    if offset is not None:
        offset = rng.normal(size=(n_outputs, n_rows))
    return replace(problem, target=target, objective=objective, offset=offset)


SHARED = {
    "n_rows": st.integers(1, 120),
    "chunk_rows": st.sampled_from([1, 2, 7, 33, 1000]),
    "cuts": st.lists(st.integers(0, 120), max_size=4),
    "n_threads": st.integers(1, 2),
    "mode": st.sampled_from(["data", "features"]),
    "more": st.fixed_dictionaries(
        {name: st.booleans() for name in ("weighted", "offset", "categories")}
    ),
    "kind": st.sampled_from([MemoryStore, StrictStore]),
    "seed": st.integers(0, 2**31),
}
LEVEL_KINDS = [LEVELS | more for more in OPTIONS_OF_LEVELS.values()]


@given(
    options=st.sampled_from(list(OPTIONS.values())) | st.sampled_from(LEVEL_KINDS),
    loss=st.sampled_from(LOSSES),
    **SHARED,
)
def test_trees_are_those_of_growth_in_memory(
    options, loss, n_rows, cuts, more, seed, **ways
) -> None:
    problem = make_problem(n_rows, loss, seed, **more, **options)
    edges = [0, *sorted(min(cut, n_rows) for cut in cuts), n_rows]
    assert_same_everywhere(problem, edges=edges, **ways)


@given(
    options=st.sampled_from([*(OPTIONS | OPTIONS_OF_VECTORS).values(), *LEVEL_KINDS]),
    loss=st.sampled_from(["softmax", "squared_error", "fair"]),
    n_outputs=st.sampled_from([2, 9]),
    **SHARED,
)
def test_vector_leaves_are_those_of_growth_in_memory(
    options, loss, n_outputs, n_rows, cuts, more, seed, **ways
) -> None:
    problem = make_vectors(n_rows, n_outputs, seed, loss, **more, **options)
    edges = [0, *sorted(min(cut, n_rows) for cut in cuts), n_rows]
    assert_same_everywhere(problem, edges=edges, **ways)


def test_a_hessian_that_is_tiny_beside_the_largest() -> None:
    problem = make_problem(9000, "logistic", weighted=True, max_leaves=31)
    weight = problem.weight.copy()
    weight[17] = 1e7  # all bits are kept: two words a row
    assert_same_everywhere(replace(problem, weight=weight), chunk_rows=2000, kind=StrictStore)


@pytest.mark.parametrize("edges", [[0, 900], [0, 500, 900], [0, 0, 300, 310, 900]])
@pytest.mark.parametrize("share", [0.0, 1.0, 2.0])
def test_lines_of_leaves_whose_split_was_dropped(monkeypatch, share, edges) -> None:
    monkeypatch.setattr(chunk_grower, "_CHILD_SHARE", share)
    problem = make_problem(900, linear_leaves=True, max_leaves=12)
    ways = {"edges": edges, "chunk_rows": 130, "n_threads": 2, "kind": StrictStore}
    grown = assert_same_everywhere(problem, **ways)[0]
    assert (max(grown.splits) > 11) == (share < 1.0)
    assert min(len(tree.slopes.slope) for tree in grown.trees) > 0


# -- passes ---------------------------------------------------------------------------


def depth_of(tree) -> int:
    depth = np.zeros(len(tree.left), dtype=int)
    for node in np.flatnonzero(tree.left):
        depth[[tree.left[node], tree.right[node]]] = depth[node] + 1
    return int(depth.max())


@pytest.mark.parametrize("policy", ["leafwise", "depthwise"])
def test_passes_are_about_as_many_as_levels(policy) -> None:
    problem = make_problem(6000, max_leaves=31, min_samples_leaf=20, grow_policy=policy)
    grown = assert_same_everywhere(problem, n_rounds=4, chunk_rows=2000)[0]
    for tree, passes, splits in zip(grown.trees, grown.passes, grown.splits, strict=True):
        depth = depth_of(tree)
        assert passes >= depth
        assert passes <= depth + (4 if policy == "leafwise" else 1)
        assert splits <= 60
        if policy == "depthwise":
            assert splits == 30


@pytest.mark.parametrize("policy", ["leafwise", "depthwise"])
@pytest.mark.parametrize("edges", [[0, 500], [0, 200, 500]])
def test_little_memory_for_histograms(monkeypatch, edges, policy) -> None:
    monkeypatch.setattr(chunk_space, "_SLOT_BYTES", 1)
    monkeypatch.setattr(chunk_space, "_BUILD_BYTES", 1)
    monkeypatch.setattr(chunk_grower, "_SPARE_NODES", 2)
    shared = {"max_leaves": 25, "min_samples_leaf": 1, "grow_policy": policy}
    given = make_problem(500, **shared, forced_splits=GIVEN_CUTS)
    for problem in (make_problem(500, **shared), given, make_vectors(500, **shared)):
        for mode in ("data", "features"):
            assert_same_everywhere(problem, edges=edges, mode=mode)


def test_symmetric_trees_take_a_pass_for_each_level() -> None:
    problem = make_problem(6000, **LEVELS)
    grown = assert_same_everywhere(problem, n_rounds=3, chunk_rows=2000)[0]
    for tree, passes, splits in zip(grown.trees, grown.passes, grown.splits, strict=True):
        assert passes == depth_of(tree) + 1  # one for the root
        assert splits == np.count_nonzero(tree.left)  # none is in vain


def test_levels_that_are_built_in_several_passes(monkeypatch) -> None:
    monkeypatch.setattr(chunk_space, "_BUILD_BYTES", 1)
    problem = make_problem(500, min_samples_leaf=1, **LEVELS | {"max_depth": 6})
    for edges in ([0, 500], [0, 200, 500]):
        for mode in ("data", "features"):
            grown = assert_same_everywhere(problem, edges=edges, mode=mode)[0]
            assert max(grown.passes) > 8


def test_levels_whose_histograms_cannot_be_kept(monkeypatch) -> None:
    monkeypatch.setattr(chunk_space, "_SLOT_BYTES", 1)
    for make in (make_problem, make_vectors):
        problem = make(500, min_samples_leaf=1, **LEVELS | {"max_depth": 6})
        with pytest.raises(AllRowsNeededError, match="max_depth=6 keeps up to 32 histograms"):
            grow_in_chunks(problem)
    assert_same_everywhere(make_problem(500, **LEVELS | {"max_depth": 3}))


# -- ranks ----------------------------------------------------------------------------


def test_bytes_that_ranks_send() -> None:
    problem = make_problem(6000, n_features=40, max_leaves=16, categories=False)
    n_columns, stride, n_ranks = 40, problem.matrix.stride, 4
    edges = [0, 1000, 3000, 4500, 6000]
    for mode in ("data", "features"):
        grown = assert_same_everywhere(problem, chunk_rows=1000, edges=edges, mode=mode)
        for rank in grown:
            for sent, splits in zip(rank.sent, rank.splits, strict=True):
                # g, h and number of rows of all cells but those of the own block.
                histogram = 24 * n_columns * stride * (n_ranks - 1) / n_ranks
                built = histogram * (splits + 2) if mode == "data" else 0.0
                records = 2000 * (splits + 2) * (n_ranks - 1)
                assert 0 < sent <= built + records
                assert sent >= 0.5 * built


@pytest.mark.parametrize("trees", [{"max_leaves": 8}, {**LEVELS, "max_depth": 4}])
def test_two_ranks_exchange_narrow_histograms_whole(monkeypatch, trees) -> None:
    problem = make_problem(3000, n_features=6, **trees)
    ways = {"edges": [0, 1000, 3000], "chunk_rows": 500, "n_threads": 2}
    whole = assert_same_everywhere(problem, **ways)[0]
    monkeypatch.setattr(chunk_exchange, "_WHOLE_BYTES", 0)
    blocks = assert_same_everywhere(problem, **ways)[0]
    assert sum(whole.sent) > 1.3 * sum(blocks.sent)  # instead of half of the columns, all


def test_constant_hessians_are_not_sent() -> None:
    edges = [0, 2000, 4500]
    sent = {}
    for loss in ("squared_error", "logistic"):
        problem = make_problem(4500, loss, max_leaves=4, min_samples_leaf=500)
        grown = assert_same_everywhere(problem, chunk_rows=1000, edges=edges)
        sent[loss] = grown[0].sent[-1] / (1 + grown[0].splits[-1])
    assert sent["squared_error"] < 0.8 * sent["logistic"]


def test_a_lost_rank_ends_growth_on_all_ranks() -> None:
    problem = make_problem(200, max_leaves=5)

    def grow(communicator) -> list:
        half = 100 * communicator.rank
        store = part_of(problem, half, half + 100, 30)
        grower = grower_of(problem, store, half, half + 100, 1, communicator)
        with contextlib.closing(grower):
            return [grower.grow(0, 0), grower.grow(1, 0)]

    expected = grow_in_memory(problem, 2).trees
    n_faults = 0
    for _, outcomes in with_each_fault(2, grow, Fault.DIES, timeout=60.0):
        for outcome in outcomes:
            if outcome.error is None:
                assert [t.value.tobytes() for t in outcome.result] == [
                    t.value.tobytes() for t in expected
                ]
        n_faults += any(outcome.error is not None for outcome in outcomes)
    assert n_faults > 10


def test_ranks_that_do_not_mean_the_same_fit() -> None:
    few, many = make_problem(50, n_features=3), make_problem(50, n_features=4)

    def columns(communicator) -> None:
        problem = (few, many)[communicator.rank]
        grower_of(problem, part_of(problem, 0, 50, 10), 0, 50, 1, communicator)

    def rows(communicator) -> None:
        stop = 50 - communicator.rank
        grower_of(few, part_of(few, 0, stop, 10), 0, stop, 1, communicator, mode="features")

    for start, text in ((columns, "same columns"), (rows, "the same rows")):
        for outcome in rank_outcomes(2, start):
            assert isinstance(outcome.error, CommunicationError)
            assert text in str(outcome.error)


def test_weights_of_one_rank_alone() -> None:
    problem = make_problem(100, weighted=True)
    weight = np.where(np.arange(100) < 60, problem.weight, 1.0)
    problem = replace(problem, weight=weight)
    unweighted = replace(problem, weight=None, offset=np.full((1, 100), problem.base()[0]))

    def run(communicator) -> list:
        own, edges = (problem, (0, 60)) if communicator.rank == 0 else (unweighted, (60, 100))
        grower = grower_of(own, part_of(own, *edges, 25), *edges, 1, communicator)
        with contextlib.closing(grower):
            return [grower.grow(k, 0) for k in range(2)]

    for trees in run_ranks(2, run):
        for tree, other in zip(trees, grow_in_memory(problem, 2).trees, strict=True):
            assert tree.value.tobytes() == other.value.tobytes()


# -- scores, and what callers ask for ---------------------------------------------------


def test_rows_by_leaf_and_rows_outside() -> None:
    problem = make_problem(300, subsample=0.6, max_leaves=6)
    store = part_of(problem, 0, 300, 70)
    grower = grower_of(problem, store, 0, 300, 2, adds_scores=False)
    with contextlib.closing(grower):
        tree = grower.grow(0, 0)
        np.testing.assert_array_equal(grower.raw, scores_of(problem, 0, 300))
        rows, leaves, starts = grower.leaf_segments()
        assert leaves.tolist() == np.flatnonzero(tree.left == 0).tolist()
        np.testing.assert_array_equal(np.diff(starts), tree.count[leaves])
        assert 0 < len(rows) < 300
        for start, stop in itertools.pairwise(starts):
            assert (np.diff(rows[start:stop].astype(int)) > 0).all()
        outside = grower.rows_outside()
        assert (np.diff(outside.astype(int)) > 0).all()
        assert sorted([*rows, *outside]) == list(range(300))
        added = np.zeros((1, 300))
        scores = make_scores(TrainingData(store, problem.target), np.zeros(1), 1)
        scores.add_to(added, tree, 0)
        scores.update()
        np.testing.assert_array_equal(
            added[0, rows], np.repeat(tree.value[leaves], np.diff(starts))
        )


def test_no_rows_are_an_error() -> None:
    problem = make_problem(100)
    empty = MemoryStore(rows_of(problem.matrix, 0, 0))
    with pytest.raises(DataError, match="no row in any chunk"):
        grower_of(problem, empty, 0, 0)


@pytest.mark.parametrize(("n_rows", "fits"), [(2**31 - 1, True), (2**31, False)])
def test_more_rows_than_can_be_added_up_are_refused(n_rows, fits) -> None:
    # Histograms count rows in int32.
    store = SimpleNamespace(
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


def test_more_columns_than_ranks() -> None:
    problem = make_vectors(200, n_features=2)
    assert_same_everywhere(problem, chunk_rows=60, edges=[0, 50, 100, 150, 200])
    levels = make_vectors(200, n_features=2, **LEVELS)
    assert_same_everywhere(levels, chunk_rows=60, edges=[0, 50, 100, 150, 200])


def test_sums_of_too_many_rows() -> None:
    check_vector_rows((1 << 30) - 1)
    with pytest.raises(DataError, match=r"1,073,741,824 rows are too many for vectors"):
        check_vector_rows(1 << 30)
