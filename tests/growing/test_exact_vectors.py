"""Vector leaves of exact growth equal brute force and histograms, in memory and on disk."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow import HedgerowRegressor
from hedgerow.data import read_table
from hedgerow.data.external.blocks import sort_columns
from hedgerow.growing.core import state as layout
from hedgerow.growing.core.setup import Fit
from hedgerow.growing.exact.external_vectors import ExternalVectorGrower
from hedgerow.growing.exact.grower import ExactVectorGrower
from hedgerow.growing.vectors.sampling import join_hessians
from hedgerow.io import model_to_bytes
from hedgerow.kernels.histograms.vector_histogram import Sums
from hedgerow.objectives import SeveralTargets, make_objective
from hedgerow.params import BoostParams
from tests.growing.test_external_exact import (
    CONSTRAINTS,
    FEW,
    FIELDS,
    METHODS,
    ORDERED,
    ROWS,
    SETTINGS,
    WEIGHTED,
    Rows,
    make_table,
    small_pieces,
    stored,
)
from tests.growing.test_vector_options import RULES, first_tree, naive_tree, options_of, problem
from tests.helpers.examples import examples

__all__ = ["small_pieces"]  # used in every test

EXACT = {"tree_method": "exact"}
FINE = [
    EXACT,
    {"tree_method": "approx", "advanced": {"sketch": "global", "sketch_eps": 1e-9}},
    {"tree_method": "approx", "advanced": {"sketch": "local", "sketch_eps": 1e-9}},
]
"""Methods that try every cut."""


@pytest.mark.parametrize(
    ("names", "rules"),
    [
        ((), RULES),
        ((), RULES | {"gamma": 0.05, "min_samples_leaf": 2}),
        ((), RULES | {"reg_alpha": 0.3, "max_delta_step": 0.4}),
        ((), RULES | {"reg_lambda": 0.0, "min_child_weight": 20.0}),
        (("smooth",), RULES),
        (("penalties",), RULES),
        (("smooth", "penalties"), RULES | {"reg_alpha": 0.2}),
    ],
)
def test_a_tree_is_that_of_trying_every_cut(names, rules) -> None:
    X, Y = problem()
    options, tree_options = options_of(names, "leafwise")
    expected = None
    for method in FINE:
        found, g = first_tree(X, Y, rules=rules, **options, **method)
        if expected is None:
            expected = naive_tree(X, g, "leafwise", tree_options, rules)
        np.testing.assert_allclose(found, expected, atol=1e-5, err_msg=str(method))


@settings(max_examples=examples(20), deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n_rows=st.integers(20, 300),
    missing=st.sampled_from([0.0, 0.1, 0.5]),
    options=st.fixed_dictionaries(
        {
            "max_leaves": st.sampled_from([2, 8, 25]),
            "min_samples_leaf": st.sampled_from([1, 6]),
            "objective": st.sampled_from(["squared_error", "huber"]),
        },
        optional={
            "path_smooth": st.just(3.0),
            "monotone_constraints": st.tuples(*[st.sampled_from([-1, 0, 1])] * 4),
            "feature_penalties": st.just((0.5, 1.0, 0.9, 0.0)),
            "interaction_constraints": st.just([[0, 1], [1, 2, 3]]),
            "colsample_bytree": st.just(0.6),
            "colsample_bynode": st.just(0.6),
            "gamma": st.just(0.02),
            "min_child_weight": st.just(8.0),
            "grow_policy": st.just("depthwise"),
        },
    ),
    weighted=st.booleans(),
)
def test_trees_are_those_of_bins_for_every_value(
    seed: int, n_rows: int, missing: float, options: dict[str, Any], weighted: bool
) -> None:
    X, Y = problem(n_rows, seed, missing)
    weight = np.random.default_rng(seed).integers(1, 4, n_rows) if weighted else None
    shared = {"learning_rate": 0.3, "reg_lambda": 1.0, "n_estimators": 2, **options}
    shared |= {"multi_strategy": "multi_output_tree", "early_stopping": False}
    exact = HedgerowRegressor(**shared, **EXACT).fit(X, Y, weight)
    binned = HedgerowRegressor(**shared).fit(X, Y, weight)
    trees, others = exact.booster_.to_frame(), binned.booster_.to_frame()
    difference = abs(exact.predict(X) - binned.predict(X)).max(axis=0)
    if not (difference <= 1e-6 * abs(Y).max(axis=0)).all():
        # Sums of bins are rounded: they may part cuts that gain the same but for that.
        first = _first_difference(trees, others)
        np.testing.assert_allclose(trees.gain[first], others.gain[first], rtol=1e-6)


def _first_difference(trees: Any, others: Any) -> int:
    """Return the first node at which two models have different splits."""
    n = min(len(trees), len(others))
    same = [
        (trees[name][:n].fillna(-1) == others[name][:n].fillna(-1)).to_numpy()
        for name in ("tree", "feature", "count")
    ]
    return int(np.argmin(np.all(same, axis=0)))


@pytest.mark.parametrize("method", [EXACT, {"tree_method": "approx"}])
@pytest.mark.parametrize("n_outputs", [2, 8, 11])
def test_equal_targets_have_the_tree_of_one(method: dict[str, Any], n_outputs: int) -> None:
    X, Y = problem(400)
    shape: dict[str, Any] = {"n_estimators": 4, "max_leaves": 9, "learning_rate": 0.3}
    shape |= {"min_child_weight": 3.0, "reg_lambda": 1.0, **method}
    one = HedgerowRegressor(**shape).fit(X, Y[:, 0])
    several = HedgerowRegressor(multi_strategy="multi_output_tree", **shape).fit(
        X, np.repeat(Y[:, :1], n_outputs, axis=1)
    )
    assert several.booster_.num_trees == one.booster_.num_trees
    for output in range(n_outputs):
        np.testing.assert_array_equal(several.predict(X)[:, output], one.predict(X))


@pytest.mark.parametrize("method", [EXACT, {"tree_method": "approx"}])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"sampling": "goss", "path_smooth": 2.0},
        {"sampling": "mvs", "subsample": 0.5, "monotone_constraints": (1, 0, -1, 0)},
        {"boosting": "rf", "subsample": 0.6, "colsample_bynode": 0.5},
        {"boosting": "dart", "leaf_estimation": "line_search"},
    ],
)
def test_threads_leave_no_trace(method: dict[str, Any], options: dict[str, Any]) -> None:
    X, Y = problem(9000)
    models = [
        HedgerowRegressor(
            n_estimators=3, multi_strategy="multi_output_tree", n_jobs=n, **method, **options
        ).fit(X, Y)
        for n in (1, 2, 3)
    ]
    first, *others = [model_to_bytes(model.booster_.model) for model in models]
    assert all(other == first for other in others)


def test_ranks_of_candidates_follow_the_mean_of_the_hessians() -> None:
    n_rows, rng = 50, np.random.default_rng(0)
    nothing, none = np.zeros((0, 0)), np.zeros(0, dtype=np.int32)
    scalars = np.zeros((3, layout.N_SCALARS), dtype=np.int64)
    scalars[:, layout.IS_H_EXPONENT] = exponents = [0, -1, 3]
    outputs = layout.Outputs(
        target=nothing,
        quantized=rng.integers(0, 2**30, (3, 2 * n_rows)).astype(np.int32),
        words=none,
        sums=Sums(none, none, np.int64(0), np.int64(0)),
        measured=np.zeros((1, 3, 2), dtype=np.int64),
        dropped=np.zeros((3, 2), dtype=np.int64),
        scalars=scalars,
        vectors=nothing,
        cover=np.zeros(0),
    )
    found = np.full(2 * n_rows, 7, dtype=np.int32)
    join_hessians(outputs, (0, n_rows), found)
    share = 2.0 ** (np.array(exponents) - 3.0)
    expected = np.rint((outputs.quantized[:, 1::2] * share[:, None]).sum(axis=0) / 3)
    np.testing.assert_array_equal(found[1::2], expected)
    assert (found[0::2] == 0).all()


# ---- columns on disk -----------------------------------------------------------


def grow(grower_of: Any, y: np.ndarray, loss: Any, weight: Any, n_rounds: int) -> Any:
    raw = np.repeat(loss.initial_score(y, weight)[:, None], len(y), axis=1)
    trees = []
    with contextlib.closing(grower_of(raw)) as grower:
        for number in range(n_rounds):
            tree = grower.grow(number, 0)
            trees.append([getattr(tree, name) for name in (*FIELDS, "vectors")])
            trees[-1] += [part.copy() for part in grower.leaf_segments()]
            trees[-1].append(grower.rows_outside().copy())
            trees[-1].append(np.array(grower.row_weights(trees[-1][len(FIELDS) + 1]), float))
    return trees, raw


def check_same(
    rows: Rows, params: BoostParams, folders: list[Path], memory_limit: int | None = None
) -> np.ndarray:
    """Compare trees on columns in memory and on disk, and raw scores; return the scores."""
    X = make_table(rows.seed, rows.n_rows, rows.kind, rows.missing)
    rng = np.random.default_rng(rows.seed)
    y = np.nan_to_num(X[:, 0] / (1.0 + np.abs(X[:, 0]))) + 0.3 * rng.normal(size=rows.n_rows)
    several = np.column_stack([y, 100.0 * rng.normal(size=rows.n_rows) - y])
    loss: Any
    if rows.objective == "softmax":
        loss, target = make_objective("softmax", 3), np.digitize(y, (-0.2, 0.3)).astype(float)
    else:
        loss = SeveralTargets((make_objective(rows.objective),) * 2, ("a", "b"))
        target = several if rows.objective == "squared_error" else (several > 0).astype(float)
        target[:2] = [[0.0, 1.0], [1.0, 0.0]]
    weight = rng.uniform(0.2, 3.0, rows.n_rows) if rows.weighted else None
    blocks = sort_columns(read_table(X))
    expected, raw = grow(
        lambda raw: ExactVectorGrower(blocks, Fit(target, weight, raw, loss, params, 1)),
        target, loss, weight, 2,
    )  # fmt: skip
    with stored(X, folders, 3000) as columns:
        for n_threads in (1, 2):
            found, raw_found = grow(
                lambda raw, n=n_threads: ExternalVectorGrower(
                    columns, Fit(target, weight, raw, loss, params, n), memory_limit=memory_limit
                ),
                target, loss, weight, 2,
            )  # fmt: skip
            for tree, other in zip(expected, found, strict=True):
                for a, b in zip(tree, other, strict=True):
                    assert (a.dtype, a.shape) == (b.dtype, b.shape)
                    assert a.tobytes() == b.tobytes()
            assert raw.tobytes() == raw_found.tobytes()
    return raw


SAMPLES = st.sampled_from(
    [{}, {"sampling": "goss"}, {"sampling": "mvs", "subsample": 0.4}, {"subsample": 0.5}]
)


@settings(FEW, max_examples=examples(80))
@given(
    params=SETTINGS,
    method=METHODS,
    constraints=CONSTRAINTS,
    ordered=st.just({}) | ORDERED,
    weighted=WEIGHTED,
    sample=SAMPLES,
    rows=ROWS,
)
def test_trees_on_disk_are_those_of_growth_in_memory(
    params: dict[str, Any],
    method: dict[str, Any],
    constraints: dict[str, Any],
    ordered: dict[str, Any],
    weighted: dict[str, Any],
    sample: dict[str, Any],
    rows: Rows,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    params = {name: params[name] for name in params if name != "subsample"}
    chosen = {**params, **method, **constraints, **ordered, **weighted, **sample}
    made = [tmp_path_factory.mktemp("columns") for _ in range(1 + rows.seed % 2)]
    check_same(rows, BoostParams(**chosen), made)


@pytest.mark.parametrize("objective", ["squared_error", "softmax"])
def test_rows_in_a_mapped_file(objective: str, tmp_path: Path) -> None:
    rows = Rows(3, 240, "float64", 0.2, objective, True)
    check_same(rows, BoostParams(tree_method="exact"), [tmp_path], memory_limit=1000)
