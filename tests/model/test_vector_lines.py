"""Linear vector leaves: each output has the line that its own tree would have."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow import Booster, Dataset, train
from hedgerow.errors import ParameterError
from hedgerow.growing.core.grower import TreeGrower
from hedgerow.growing.core.setup import Fit
from hedgerow.io import model_to_bytes
from hedgerow.model.forest import Forest, joined_forests, without_vectors
from hedgerow.model.predict import Predictor
from hedgerow.objectives import make_objective
from hedgerow.objectives.targets import several_targets
from hedgerow.params import BoostParams
from tests.helpers import engine
from tests.helpers.examples import examples
from tests.reference import naive_slopes

LINES: dict[str, Any] = {"linear_leaves": True, "multi_strategy": "multi_output_tree"}
FEW: dict[str, Any] = {**LINES, "early_stopping": False, "n_estimators": 8, "max_leaves": 8}
SHAPES: dict[str, dict[str, Any]] = {
    "leafwise": {},
    "depthwise": {"grow_policy": "depthwise", "max_depth": 4},
    "symmetric": {"grow_policy": "symmetric", "max_leaves": None, "max_depth": 4},
}


def table(n_rows: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return columns with missing values, and three targets of different columns."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 4)) * 10.0 ** np.arange(4)
    y = np.column_stack([X[:, 0], X[:, 1] / 10.0 - X[:, 0], np.sin(X[:, 2] / 100.0) * X[:, 0]])
    y += 0.1 * rng.normal(size=y.shape)
    X[rng.random(X.shape) < 0.1] = np.nan
    return X, y


X, Y = table()
CLASSES = np.digitize(Y[:, 0], [-0.5, 0.5])


def bytes_of(booster: Booster) -> bytes:
    return bytes(model_to_bytes(booster.model))


@pytest.fixture(scope="module", params=SHAPES)
def booster(request: pytest.FixtureRequest) -> Booster:
    return train({**FEW, **SHAPES[request.param]}, Dataset(X, Y))


# -- the naive twin -----------------------------------------------------------------


def line_of(forest: Any, node: int, output: int) -> slice:
    """Return where the terms of a line are."""
    line = forest.vectors.shape[1] * node + output
    return slice(forest.slopes.start[line], forest.slopes.start[line + 1])


def gradients(loss: str, y: np.ndarray, raw: np.ndarray, k: int, mass: np.ndarray) -> Any:
    """Return the g and h of an output."""
    if loss == "softmax":
        p = np.exp(raw - raw.max(axis=0))
        p = p[k] / p.sum(axis=0)
        # Twice the diagonal of the hessian for more than two classes, as in other libraries.
        return mass * (p - (y == k)), mass * p * (1.0 - p) * 3.0 / 2.0
    if loss == "poisson":
        return mass * (np.exp(raw[k]) - y[:, k]), mass * np.exp(raw[k])
    return mass * (raw[k] - y[:, k]), mass


@contextlib.contextmanager
def grower(loss: str, y: np.ndarray, weight: Any, **settings: Any) -> Iterator[Any]:
    params = BoostParams(**{**LINES, "max_leaves": 8, **settings})
    if loss == "softmax":
        objective: Any = make_objective("softmax", 3)
    else:
        objective = several_targets(make_objective(loss, 1), y.shape[1])
    base = objective.initial_score(y, weight)
    raw = np.repeat(base[:, None], len(X), axis=1)
    matrix = engine.binned(X, weight=weight)
    fit = Fit(y, weight, raw, objective, params, 1)
    made = TreeGrower(matrix, fit, numbers=np.asfortranarray(X))
    try:
        yield made, raw
    finally:
        made.close()


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", ["squared_error", "softmax", "poisson"])
def test_lines_equal_the_naive_ones(symmetric: bool, weighted: bool, loss: str) -> None:
    y = {"squared_error": Y, "softmax": CLASSES.astype(float), "poisson": np.abs(Y)}[loss]
    mass = np.random.default_rng(1).uniform(0.5, 2.0, len(X)) if weighted else np.ones(len(X))
    params: dict[str, Any] = {"subsample": 0.7, "linear_lambda": 0.1}
    if symmetric:
        params |= {"grow_policy": "symmetric", "max_leaves": None, "max_depth": 3}
    with grower(loss, y, mass if weighted else None, **params) as (made, raw):
        before = raw.copy()
        tree = made.grow(0)
        inside, leaves, start = made.leaf_segments()
        outside = np.setdiff1d(np.arange(len(X)), inside)
    assert len(tree.slopes.slope) > 0
    above, longest = naive_slopes.paths(tree.feature, tree.left, tree.right), np.inf
    if loss == "poisson":  # a step of 1, times the learning rate
        longest = 0.1
    for k in range(3):
        g, h = gradients(loss, y, before, k, mass)
        for number, leaf in enumerate(leaves):
            here, line = inside[start[number] : start[number + 1]], 3 * leaf + k
            chosen, center, slope = naive_slopes.fit_leaf(
                X[here], g[here], h[here], above[leaf], 0.1
            )
            there = np.flatnonzero(slope)
            own = line_of(tree, leaf, k)
            assert tree.slopes.column[own].tolist() == [chosen[t] for t in there]
            np.testing.assert_allclose(tree.slopes.center[own], center[there], rtol=1e-6)
            scale = np.nanstd(X[here][:, tree.slopes.column[own]], axis=0)
            found, naive = scale * tree.slopes.slope[own], 0.1 * scale * slope[there]
            np.testing.assert_allclose(found, naive, rtol=1e-3, atol=1e-8)
            terms = naive_slopes.terms_of(
                X[here], tree.slopes.column[own], tree.slopes.slope[own], tree.slopes.center[own]
            )
            terms = np.clip(terms, -longest, longest)
            bounds = tree.slopes.low[line], tree.slopes.high[line]
            np.testing.assert_allclose(bounds, (terms.min(), terms.max()), rtol=1e-9, atol=1e-15)
            # Rows of the sample have their scores already.
            expected = before[k, here] + tree.vectors[leaf, k] + np.clip(terms, *bounds)
            np.testing.assert_allclose(raw[k, here], expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(raw[:, outside], before[:, outside])


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("n_outputs", [2, 5])
def test_equal_targets_have_the_lines_of_one(shape: dict[str, Any], n_outputs: int) -> None:
    params = {**FEW, **shape, "objective": "squared_error"}
    alone = train({**params, "multi_strategy": "auto"}, Dataset(X, Y[:, 0])).model.forest
    several = train(params, Dataset(X, np.repeat(Y[:, :1], n_outputs, axis=1))).model.forest
    np.testing.assert_array_equal(several.feature, alone.feature)
    np.testing.assert_array_equal(several.threshold, alone.threshold)
    assert len(alone.slopes.slope) > 0
    for k in range(n_outputs):
        np.testing.assert_array_equal(several.vectors[:, k], alone.value)
        lines = np.arange(len(alone.feature)) * n_outputs + k
        counts = np.diff(several.slopes.start)[lines]
        np.testing.assert_array_equal(counts, np.diff(alone.slopes.start))
        np.testing.assert_array_equal(several.slopes.low[lines], alone.slopes.low)
        np.testing.assert_array_equal(several.slopes.high[lines], alone.slopes.high)
        terms = np.concatenate([several.slopes.start[n] + np.arange(c) for n, c in
                                zip(lines, counts, strict=True)]).astype(int)  # fmt: skip
        for name in ("column", "slope", "center"):
            found = getattr(several.slopes, name)[terms]
            np.testing.assert_array_equal(found, getattr(alone.slopes, name))


# -- predictions --------------------------------------------------------------------


def expected_scores(booster: Booster, rows: np.ndarray) -> np.ndarray:
    """Return the sum of the leaves' lines, tree after tree."""
    forest, leaves = booster.model.forest, booster.predict(rows, kind="leaf")
    raw = np.repeat(forest.base_score[:, None], len(rows), axis=1)
    for t in range(forest.n_trees):
        tree = forest.tree(t)
        for row, node in enumerate(leaves[:, t]):
            for k in range(forest.n_outputs):
                own, line, total = line_of(tree, node, k), forest.n_outputs * node + k, 0.0
                for term in range(own.start, own.stop):
                    x = rows[row, tree.slopes.column[term]]
                    if np.isfinite(x):
                        total += tree.slopes.slope[term] * (x - tree.slopes.center[term])
                total = 0.0 if np.isnan(total) else total
                total = min(max(total, tree.slopes.low[line]), tree.slopes.high[line])
                raw[k, row] += tree.vectors[node, k] + total
    return raw


@given(st.integers(0, 10_000), st.sampled_from([np.float32, np.float64]))
@settings(max_examples=examples(15), deadline=None)
def test_every_engine_predicts_the_same_bits(booster: Booster, seed: int, dtype: Any) -> None:
    rng = np.random.default_rng(seed)
    rows = (rng.normal(size=(30, 4)) * 10.0 ** rng.integers(-3, 7, (30, 4))).astype(dtype)
    odd = rng.random(rows.shape)
    rows[odd < 0.1], rows[odd > 0.95] = np.nan, np.inf
    rows[(odd > 0.9) & (odd < 0.95)] = -np.inf
    expected = expected_scores(booster, rows.astype(float))
    np.testing.assert_array_equal(booster.raw_scores(rows), expected)
    np.testing.assert_array_equal([booster.predict(row[None])[0] for row in rows], expected.T)
    np.testing.assert_array_equal(list(booster.staged_raw_scores(rows))[-1], expected)
    forest, kinds = booster.model.forest, ["float"] * 4
    no_records = Predictor(forest, kinds)
    no_records._leaves = (*no_records._leaves[:3], (np.zeros(0, np.uint64), np.zeros(0)))
    np.testing.assert_array_equal(no_records.raw_scores(rows), expected)
    apart = Predictor(without_vectors(forest), kinds)
    np.testing.assert_array_equal(apart.raw_scores(rows), expected)


def test_parts_of_forests_keep_their_lines(booster: Booster) -> None:
    forest, kinds = booster.model.forest, ["float"] * 4

    def scores(part: Forest) -> np.ndarray:
        return Predictor(part, kinds).raw_scores(X)

    whole = scores(forest)
    np.testing.assert_array_equal(scores(joined_forests([forest], forest.base_score)), whole)
    everything = forest.some_trees(np.arange(forest.n_trees), forest.base_score)
    np.testing.assert_array_equal(scores(everything), whole)
    np.testing.assert_array_equal(
        scores(forest.first_rounds(3)), list(booster.staged_raw_scores(X))[2]
    )
    turned = forest.some_trees(np.arange(forest.n_trees)[::-1], forest.base_score)
    np.testing.assert_allclose(scores(turned), whole, rtol=1e-12)
    parts = [scores(forest.tree(t)) for t in range(forest.n_trees)]
    np.testing.assert_allclose(sum(parts) + forest.base_score[:, None], whole, rtol=1e-12)


def test_rows_that_stop_at_unknown_categories() -> None:
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame["town"] = pd.Categorical(np.resize(list("uvwxyz"), len(X)))
    y = Y + (frame["town"].cat.codes.to_numpy() % 3)[:, None]
    params = {**FEW, "max_cat_to_onehot": 1, "min_data_per_group": 5}
    booster = train(params, Dataset(frame, y, unknown_category="backoff"))
    rows = frame.head(40).assign(town="nowhere")
    stopped = booster.raw_scores(rows)
    assert (stopped != booster.raw_scores(frame.head(40))).any()
    apart = Predictor(without_vectors(booster.model.forest), booster.model.split_schema.kinds)
    encoded = booster.model.schema.n_features  # every column is an input
    assert encoded == 5
    single = np.stack([booster.raw_scores(rows.iloc[[k]])[:, 0] for k in range(40)], axis=1)
    np.testing.assert_array_equal(single, stopped)
    assert apart.forest.n_trees == 3 * booster.model.forest.n_trees


# -- fits ---------------------------------------------------------------------------


def test_paths_of_lines_are_not_smoothed() -> None:
    with pytest.raises(ParameterError, match="path_smooth"):
        train({**FEW, "path_smooth": 1.0}, Dataset(X, Y))


# -- what else reads the lines -------------------------------------------------------


def test_an_explanation_of_pairs_adds_up(booster: Booster) -> None:
    rows = X[:12]
    found = booster.explain(rows, interactions=True)
    total = found.values.sum(axis=(1, 2)) + found.base_values
    np.testing.assert_allclose(total, booster.raw_scores(rows).T, atol=1e-11)
