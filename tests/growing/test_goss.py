"""Gradient-based row samples: the rows, their weights, and the trees."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow import Dataset, train
from hedgerow.boosting.loop.scores import TrainingData
from hedgerow.boosting.loop.setup import resolved as resolved_module
from hedgerow.errors import ParameterError
from hedgerow.growing.core import state as layout
from hedgerow.growing.core.grower import TreeGrower
from hedgerow.growing.core.setup import Fit, make_options, row_arrays, start_state
from hedgerow.growing.sampling.draws import ROW_STREAM
from hedgerow.growing.sampling.goss import draw_rows, make_sampler, unit_scale
from hedgerow.io import model_to_bytes
from hedgerow.kernels.primitives.hashing import hash_range
from hedgerow.objectives import make_objective
from hedgerow.params import BoostParams
from tests.helpers import engine

MOST = 2**30
NO_PENALTY = {"reg_lambda": 0.0, "min_child_weight": 0.0, "min_samples_leaf": 3}
GOSS = {"sampling": "goss"}
MVS = {"sampling": "mvs", "subsample": 0.3}


# -- the kernel and its twins -------------------------------------------------------


@dataclass(frozen=True)
class Drawn:
    """The output of the kernel: row ids, the size of the sample, scaled numbers, weights."""

    rows: np.ndarray
    n_inside: int
    quantized: np.ndarray
    weights: np.ndarray
    packed: np.ndarray

    @property
    def inside(self):
        return self.rows[: self.n_inside]


def draw(quantized, params, n_threads=1, number=0, narrow=False):
    """Sample rows with these fixed-point numbers, with ``n_threads`` threads."""
    n_rows = len(quantized)
    rows = row_arrays(n_rows, engine.PAD)
    rows.quantized[:] = np.asarray(quantized, dtype=np.int32).reshape(-1)
    rows.packed[:] = 0
    raw, params = np.zeros((1, n_rows)), replace(params, max_leaves=2)
    fit = Fit(np.zeros(n_rows), None, raw, make_objective("logistic"), params, n_threads)
    sampler = make_sampler(params, n_rows, n_threads, packs=False)._replace(
        packs=1, weights=np.zeros(n_rows)
    )
    options = make_options(params, np.zeros(1, np.bool_), n_threads, 2, sampler)
    state = start_state(fit, options, 1, 1, 0, rows)
    scalars, counts = state.scalars, state.threads.counts
    scalars[layout.IS_ROUND] = scalars[layout.IS_TREE] = number
    packing, dropped = engine.packing_for(5000 if narrow else 1)
    scalars[layout.IS_COUNT_BITS] = packing.count_bits
    scalars[layout.IS_HESSIAN_BITS] = packing.hessian_bits
    scalars[layout.IS_G_APART] = packing.g_apart
    scalars[layout.IS_DROPPED_BITS] = dropped
    parts = np.array_split(np.abs(np.asarray(quantized, dtype=np.int64)), n_threads)
    counts[:, layout.COUNT_G_SUM] = [part[:, 0].sum() for part in parts]
    counts[:, layout.COUNT_H_SUM] = [part[:, 1].sum() for part in parts]
    with ThreadPoolExecutor(n_threads) as team:
        ends = [team.submit(draw_rows, t, state) for t in range(n_threads)]
        for end in ends:
            end.result()
    return Drawn(
        rows.rows[:n_rows].copy(),
        int(scalars[layout.IS_N_ROWS]),
        rows.quantized.reshape(-1, 2).copy(),
        sampler.weights,
        rows.packed.copy(),
    )


def drawn(chance, seed, number, n_rows):
    """Return the rows whose hash puts them into a sample with this probability."""
    if chance >= 1.0:
        return np.ones(n_rows, dtype=bool)
    hashes = hash_range(seed, ROW_STREAM + number, 0, n_rows)
    return hashes < np.uint64(2 * int(chance * 2.0**63))


def naive_goss(quantized, params, number=0):
    """Return kept rows, drawn rows, and the weights of all, as the paper defines them."""
    a, b, n = params.goss_top_rate, params.goss_other_rate, len(quantized)
    size = np.abs(np.asarray(quantized, dtype=np.int64)[:, 0])
    order = np.argsort(-size, kind="stable")  # of equals the first
    top = np.zeros(n, dtype=bool)
    top[order[: round(a * n)]] = True
    chance = 1.0 if a + b >= 1.0 else b / (1.0 - a)
    inside = top | drawn(chance, params.seed, number, n)
    return inside, np.where(top, 1.0, 1.0 / chance)


def naive_mvs(quantized, params, number=0):
    """Return rows and weights: the largest keys are kept, the others drawn in proportion."""
    g, h = np.asarray(quantized, dtype=np.float64).T
    share, n = params.subsample, len(quantized)
    scale = 0.5 * share * MOST * n
    g_part = np.abs(g) * (scale / np.abs(g).sum() if g.any() else 0.0)
    h_part = h * (scale / h.sum() if h.any() else 0.0)
    key = np.clip(np.rint(np.sqrt(g_part * g_part + h_part * h_part)), 1, MOST)
    descending = sorted(map(int, key), reverse=True)
    goal = share * n
    rest = sum(descending)
    for taken in range(n):
        mu = rest / (goal - taken)
        if descending[taken] <= mu:
            break
        rest -= descending[taken]
    chance = np.minimum(1.0, key / mu)
    assert chance.sum() == pytest.approx(goal, rel=1e-9)
    inside = np.array([drawn(p, params.seed, number, i + 1)[i] for i, p in enumerate(chance)])
    return inside, np.maximum(1.0, mu / key)


def check_sample(found, quantized, inside, weights, params):
    """Check that sampled rows come first, in order, and that numbers are weighted and rescaled."""
    np.testing.assert_array_equal(found.inside, np.flatnonzero(inside))
    np.testing.assert_array_equal(found.rows[found.n_inside :], np.flatnonzero(~inside))
    np.testing.assert_allclose(found.weights[inside], weights[inside], rtol=1e-14)
    scaled = np.asarray(quantized)[inside] * (weights[inside] / unit_scale(params))[:, None]
    assert np.abs(found.quantized[inside]).max(initial=0) <= MOST
    np.testing.assert_allclose(found.quantized[inside], scaled, rtol=0, atol=0.500001)


@st.composite
def numbers(draw_, most_rows=60):
    """Return fixed g and h of a few rows: any, tied, equal, zero, far apart."""
    n = draw_(st.integers(1, most_rows))
    sizes = draw_(
        st.sampled_from(
            [
                st.integers(-MOST, MOST),
                st.sampled_from([-MOST, -3, 0, 3, 1024, 1 << 20, MOST]),
                st.just(MOST // 2),
                st.integers(-2, 2),
            ]
        )
    )
    g = draw_(st.lists(sizes, min_size=n, max_size=n))
    h = draw_(st.lists(st.integers(1, MOST), min_size=n, max_size=n))
    return np.column_stack([g, h])


shares = st.floats(0.01, 0.99)
seeds = st.integers(0, 2**32 - 1)


@given(quantized=numbers(), a=shares, b=shares, seed=seeds, n_threads=st.integers(1, 3))
def test_goss_is_its_twin(quantized, a, b, seed, n_threads) -> None:
    params = BoostParams(**GOSS, goss_top_rate=a, goss_other_rate=b * (1.0 - a), seed=seed)
    found = draw(quantized, params, n_threads, number=seed % 5)
    check_sample(found, quantized, *naive_goss(quantized, params, seed % 5), params)


@given(quantized=numbers(), share=shares, seed=seeds, n_threads=st.integers(1, 3))
def test_mvs_is_its_twin(quantized, share, seed, n_threads) -> None:
    params = BoostParams(sampling="mvs", subsample=share, seed=seed)
    found = draw(quantized, params, n_threads, number=seed % 5)
    check_sample(found, quantized, *naive_mvs(quantized, params, seed % 5), params)


def many(n_rows=20_000, seed=0):
    """Return numbers with many ties and a few large values."""
    rng = np.random.default_rng(seed)
    size = np.minimum(rng.lognormal(16.0, 2.0, n_rows), MOST)
    tied = rng.random(n_rows) < 0.5
    g = np.where(tied, 2.0**24, size) * rng.choice([-1, 1], n_rows)
    return np.column_stack([np.rint(g), rng.integers(1, MOST, n_rows)]).astype(np.int64)


# -- trees ----------------------------------------------------------------------------


def table(n_rows=2000, seed=0, n_classes=2):
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(n_rows, 5)), 1)
    score = X[:, 0] + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=n_rows)
    edges = np.quantile(score, np.arange(1, n_classes) / n_classes)
    return X, score if n_classes == 0 else np.digitize(score, edges).astype(float)


@pytest.mark.parametrize("method", ["hist", "exact", "approx"])
@pytest.mark.parametrize("objective", ["squared_error", "logistic", "softmax"])
@pytest.mark.parametrize("n_rows", [600, 6000])
def test_goss_without_kept_rows_is_uniform_sampling(method, objective, n_rows) -> None:
    X, y = table(n_rows, n_classes={"squared_error": 0, "logistic": 2, "softmax": 3}[objective])
    shared = {
        "objective": objective, "tree_method": method, "n_estimators": 4, "seed": 5,
        "early_stopping": False, **NO_PENALTY,
    }  # fmt: skip
    goss = {"sampling": "goss", "goss_top_rate": 0.0, "goss_other_rate": 0.3}
    a, b = (
        train({**shared, **rows}, Dataset(X, y)).model.forest for rows in (goss, {"subsample": 0.3})
    )
    for name in ("feature", "threshold", "missing_left", "left", "right", "count"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    np.testing.assert_allclose(a.value, b.value, rtol=1e-9)
    np.testing.assert_allclose(a.cover, b.cover / 0.3, rtol=1e-9)
    np.testing.assert_allclose(a.gain, b.gain / 0.3, rtol=1e-9)


@pytest.mark.parametrize("settings", [GOSS, MVS], ids=["goss", "mvs"])
@pytest.mark.parametrize("loss", ["logistic", "squared_error"])
def test_values_and_covers_come_from_weighted_sums(settings, loss) -> None:
    X, y = table(7000, n_classes=2 if loss == "logistic" else 0)
    weight = np.random.default_rng(1).gamma(2.0, size=len(y))
    objective, matrix = make_objective(loss), engine.binned(X)
    params = BoostParams(**settings, max_leaves=8)
    raw = np.full((1, len(y)), 0.1)
    exact = engine.gradients(matrix, y, raw, objective, weight)
    grower = TreeGrower(matrix, Fit(y, weight, raw.copy(), objective, params, 1))
    with contextlib.closing(grower):
        # Weights are kept for the line search only; the sample is the same.
        options = grower._state.options
        options = options._replace(sampler=options.sampler._replace(weights=np.zeros(len(y))))
        grower._state = grower._state._replace(options=options)
        tree = grower.grow(0, 0)
        rows, leaves, starts = grower.leaf_segments()
        weights, outside = grower.row_weights(rows), grower.rows_outside().copy()
    assert len(tree.feature) == 15
    assert sorted([*rows, *outside]) == list(range(len(y)))
    assert tree.count[0] == len(rows)
    for leaf, start, stop in zip(leaves, starts, starts[1:], strict=False):
        part = rows[start:stop]
        g, h = ((values[part] * weights[start:stop]).sum() for values in (exact.g, exact.h))
        assert tree.count[leaf] == stop - start
        assert tree.cover[leaf] == pytest.approx(h, rel=1e-6)
        assert tree.value[leaf] == pytest.approx(-0.1 * g / (h + 1.0), rel=1e-5, abs=1e-8)
    assert tree.cover[0] == pytest.approx(exact.h.sum(), rel=0.1)


# -- modes -------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["absolute_error", "logistic", "quantile"])
@pytest.mark.parametrize("settings", [GOSS, MVS], ids=["goss", "mvs"])
def test_line_search_minimises_the_weighted_loss_of_the_sample(loss, settings) -> None:
    X, y = table(1000, n_classes=2 if loss == "logistic" else 0)
    objective = make_objective(loss, level=0.8 if loss == "quantile" else None)
    params = BoostParams(
        **settings, n_estimators=1, learning_rate=1.0, leaf_estimation="line_search", max_leaves=4
    )
    matrix = engine.binned(X)
    own = np.random.default_rng(3).gamma(1.0, size=len(y)) + 0.01
    with contextlib.closing(
        engine.rounds(TrainingData(matrix, y, own), objective, params)
    ) as states:
        *_, state = states
        forest = state.freeze()
    base = objective.initial_score(y, own)
    raw = np.full((1, len(y)), base[0])
    grower = TreeGrower(matrix, Fit(y, own, raw, objective, params, 1), adds_scores=False)
    with contextlib.closing(grower):
        grower.grow(0, 0)
        rows, leaves, starts = grower.leaf_segments()
        weights = grower.row_weights(rows)
    assert weights.max() > 1.5 * weights.min()
    for leaf, start, stop in zip(leaves, starts, starts[1:], strict=False):
        part = rows[start:stop]
        mass = own[part] * weights[start:stop]

        def total(step, part=part, mass=mass):
            return objective.loss(y[part], raw[:, part] + step, mass)

        best = total(forest.value[leaf])
        for step in (*(y[part] - base[0]), *np.linspace(-3, 3, 61)):
            assert best <= total(step) + 1e-9


# -- parameters -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"sampling": "gos"}, "sampling must be one of 'uniform', 'goss', 'mvs'; got 'gos'"),
        ({**GOSS, "subsample": 0.5}, "subsample=0.5 has no effect here"),
        ({"goss_top_rate": 0.3}, "goss_top_rate=0.3 has no effect here"),
        ({**MVS, "goss_other_rate": 0.3}, "goss_other_rate=0.3 has no effect here"),
        ({**GOSS, "goss_top_rate": 0.6, "goss_other_rate": 0.5}, "sum must be at most 1"),
        ({**GOSS, "goss_top_rate": 1.0}, "goss_top_rate must be"),
        ({**GOSS, "goss_other_rate": 0.0}, "goss_other_rate must be"),
        ({"sampling": "mvs"}, "set subsample below 1"),
        ({**GOSS, "oob_score": True}, "sampling='uniform'"),
        ({**MVS, "oob_score": True}, "sampling='uniform'"),
        (
            {**GOSS, "boosting": "rf", "goss_top_rate": 0.5, "goss_other_rate": 0.5,
             "learning_rate": 1.0},
            "trees that differ by sampling",
        ),
    ],
)  # fmt: skip
def test_settings_that_do_not_go_together(params, message) -> None:
    with pytest.raises(ParameterError, match=message):
        BoostParams(**params)


# -- quality ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["plain", "exact", "categories"])
def test_threads_break_ties_alike_for_rows_of_any_weight(monkeypatch, kind) -> None:
    # A row stands for 10: times that, scores that differ may round to one.
    monkeypatch.setattr(resolved_module, "_CELLS_PER_THREAD", 1)
    params = {
        "objective": "hinge", "n_estimators": 12, "learning_rate": 1.0, "max_leaves": 8,
        "min_samples_leaf": 2, "max_delta_step": 0.1, "min_data_per_group": 2,
        "early_stopping": False, "sampling": "goss", "goss_top_rate": 0.0,
        "tree_method": "exact" if kind == "exact" else "hist",
    }  # fmt: skip
    for seed in (1, 5, 6, 7):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(428, 40)), (rng.random(428) < 0.5).astype(float)
        categories = None
        if kind == "categories":
            X[:, :4], categories = rng.integers(0, 30, (428, 4)), [0, 1, 2, 3]
        data = Dataset(X, y, weight=np.full(428, 7.0), categorical_features=categories)
        found = {
            model_to_bytes(train({**params, "seed": seed, "n_jobs": n}, data).model)
            for n in (1, 2, 3)
        }
        assert len(found) == 1
