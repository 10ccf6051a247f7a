"""Rows divided into chunks, between threads and ranks: the bytes of memory, and at what cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from hedgerow import Dataset, train
from hedgerow.boosting.loop.scores import Scores, TrainingData, make_scores
from hedgerow.boosting.loop.setup import resolved
from hedgerow.boosting.loop.setup.resolved import obstacle_to_vectors, resolve, trees_of_round
from hedgerow.comm.base import Alone
from hedgerow.errors import AllRowsNeededError, DataError, HedgerowError
from hedgerow.growing.chunks import exchange as chunk_exchange
from hedgerow.growing.chunks import grower as chunk_grower
from hedgerow.growing.chunks import space as chunk_space
from hedgerow.growing.chunks.exchange import Exchange
from hedgerow.growing.chunks.grower import ChunkGrower, SymmetricChunkGrower
from hedgerow.growing.chunks.space import Traffic, check_vector_rows, greet
from hedgerow.growing.core.grower import TreeGrower
from hedgerow.growing.core.setup import Fit
from hedgerow.growing.core.tree import GrownTree
from hedgerow.growing.limits.constraints import resolve_constraints
from hedgerow.objectives import make_objective
from hedgerow.objectives.targets import several_targets
from hedgerow.params import BoostParams
from tests.helpers.chunked import Rows, divided_into, same_bytes
from tests.helpers.examples import examples
from tests.helpers.faults import Fault, with_each_fault
from tests.helpers.features import ROWS, parts_of
from tests.helpers.rank_trainings import cut, rank_of, train_ranks

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
        assert train_ranks(len(borders) + 1, parts, folder, mode=mode, **params) == of_arrays


@given(
    options=st.sampled_from(
        [
            kind
            for kind in [*(OPTIONS | OPTIONS_OF_VECTORS).values(), *LEVEL_KINDS]
            if obstacle_to_vectors(BoostParams(**kind)) is None
        ]
    ),
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
