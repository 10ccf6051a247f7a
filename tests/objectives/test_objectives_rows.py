"""Losses of single rows: derivatives, base scores, leaves, domains, weights and fits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from hedgerow import Dataset, HedgerowClassifier, HedgerowRanker, HedgerowRegressor, train
from hedgerow.errors import DataError, ParameterError
from hedgerow.objectives import OBJECTIVES, PARAMETERS, RANKING, make_objective
from hedgerow.objectives.catalogue import DISTRIBUTIONAL, objective_class
from hedgerow.objectives.derivatives import PRECOMPUTED
from hedgerow.objectives.line_search import LeafRows
from hedgerow.objectives.precomputed import gradients_at
from hedgerow.objectives.ranking.losses import RankingLoss
from tests.helpers import engine
from tests.helpers.losses import CASES, IDS, mean_loss
from tests.reference import naive

LOSSES = {name: objective_class(name) for name in OBJECTIVES}
SMOOTH = [case for case in CASES if case.name not in ("hinge", "mape", "huber")]


def derivatives(objective, y, raw, weight=None, output=0):
    return gradients_at(objective, y, weight, np.atleast_2d(raw), output)


def slope_at(case, y, raw, step=1e-4):
    """Return the first derivative by fourth-order differences."""
    at = [case.loss(y, raw + k * step) for k in (-2, -1, 1, 2)]
    return (at[0] - 8 * at[1] + 8 * at[2] - at[3]) / (12 * step)


def near_kink(case, y, raw, step=3e-4):
    """Return which rows are near a kink of the gradient; losses with kinks are linear elsewhere."""
    if case in SMOOTH and case.name != "expectile":
        return np.zeros(len(y), dtype=bool)
    below, here, above = (derivatives(case.objective, y, raw + s)[0] for s in (-step, 0.0, step))
    return np.abs(below + above - 2.0 * here) > 1e-9 * (1.0 + np.abs(here))


# -- the catalogue ---------------------------------------------------------------------


def test_the_catalogue_names_each_loss_as_its_class_does() -> None:
    assert [name for name, loss in LOSSES.items() if loss.name != name] == []
    assert {name for name, loss in LOSSES.items() if hasattr(loss, "distribution")} == {
        *DISTRIBUTIONAL
    }
    assert {name for name, loss in LOSSES.items() if issubclass(loss, RankingLoss)} == {*RANKING}
    assert "custom" not in OBJECTIVES


# -- derivatives -----------------------------------------------------------------------


def test_every_loss_has_a_case() -> None:
    given_ones = {name for name, loss in LOSSES.items() if loss.kernel_id == PRECOMPUTED}
    given_ones -= {"normal", "log_normal"}  # two scores
    given_ones -= {"lambdarank", "rank_map", "rank_pairwise", "rank_xendcg"}  # test_ranking_*.py
    given_ones -= {"one_vs_all", "cox", "aft"}
    assert given_ones | {"cross_entropy"} == {case.name for case in CASES}


@pytest.mark.parametrize("case", CASES, ids=IDS)
@given(seed=st.integers(0, 2**32 - 1), spread=st.sampled_from([0.1, 1.0, 4.0]))
def test_gradient_is_the_slope_of_the_loss(case, seed, spread) -> None:
    rng = np.random.default_rng(seed)
    y = case.draw(rng, 20)
    raw = rng.normal(size=20) * spread
    g, h = derivatives(case.objective, y, raw)
    kink = near_kink(case, y, raw)
    assert kink.sum() <= 5
    np.testing.assert_allclose(g[~kink], slope_at(case, y, raw)[~kink], rtol=1e-6, atol=1e-7)
    assert (h > 0.0).all()


@pytest.mark.parametrize("case", SMOOTH, ids=[case.id for case in SMOOTH])
@given(seed=st.integers(0, 2**32 - 1))
def test_hessian_is_the_slope_of_the_gradient_or_above(case, seed) -> None:
    rng = np.random.default_rng(seed)
    y, raw, step = case.draw(rng, 20), rng.normal(size=20) * 2.0, 1e-4
    _, h = derivatives(case.objective, y, raw)
    above, below = (derivatives(case.objective, y, raw + s)[0] for s in (step, -step))
    slope = (above - below) / (2 * step)
    kink = near_kink(case, y, raw)
    assert kink.sum() <= 5
    slope[kink] = h[kink]
    if case.exact:
        np.testing.assert_allclose(h, slope, rtol=1e-5, atol=1e-6)
    else:
        assert (h >= slope - 1e-6).all()
    slopes = case.objective.slopes(y, raw)
    np.testing.assert_allclose(slopes[0], derivatives(case.objective, y, raw)[0], atol=1e-12)
    np.testing.assert_allclose(slopes[1], slope, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_far_scores_and_large_targets_stay_finite(case) -> None:
    y = np.repeat(case.draw(np.random.default_rng(0), 3), 6)
    raw = np.tile([-1e6, -700.0, -50.0, 50.0, 700.0, 1e6], 3)
    g, h = derivatives(case.objective, y, raw)
    assert np.isfinite(g).all()
    assert np.isfinite(h).all()
    assert (h > 0.0).all()
    assert max(np.abs(g).max(), h.max()) <= 1e140
    assert np.isfinite(case.objective.losses(y, raw[None])).all()


def test_steps_of_majorants_never_raise_the_loss() -> None:
    rng = np.random.default_rng(1)
    for case in CASES:
        if case.name not in ("huber", "pseudo_huber", "fair", "log_cosh", "expectile"):
            continue
        for _ in range(50):
            y, raw = rng.normal(size=9) * 20.0, rng.normal() * 20.0
            g, h = derivatives(case.objective, y, np.full(9, raw))
            assert mean_loss(case, y, raw - g.sum() / h.sum()) <= mean_loss(case, y, raw) + 1e-12


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_derivatives_of_a_part_are_those_of_the_whole(case) -> None:
    rng = np.random.default_rng(2)
    y, raw, weight = case.draw(rng, 101), rng.normal(size=101), rng.uniform(1, 2, 101)
    whole = derivatives(case.objective, y, raw, weight)
    for start, stop in ((0, 1), (1, 50), (50, 101)):
        part = derivatives(case.objective, y[start:stop], raw[start:stop], weight[start:stop])
        assert all(np.array_equal(a, b[start:stop]) for a, b in zip(part, whole, strict=True))


# -- losses, starts, leaves ------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_loss_is_the_formula_but_for_a_constant(case) -> None:
    rng = np.random.default_rng(3)
    y, weight = case.draw(rng, 50), rng.uniform(0.5, 2.0, 50)
    a, b = rng.normal(size=(2, 1, 50))
    found = case.objective.loss(y, a, weight) - case.objective.loss(y, b, weight)
    expected = mean_loss(case, y, a[0], weight) - mean_loss(case, y, b[0], weight)
    assert found == pytest.approx(expected, rel=1e-10, abs=1e-12)
    assert (case.objective.losses(y, a) >= -1e-12).all()


@pytest.mark.parametrize("case", CASES, ids=IDS)
@pytest.mark.parametrize("weighted", [False, True])
def test_start_minimises_the_loss_of_a_constant(case, weighted) -> None:
    rng = np.random.default_rng(4)
    for n in (3, 40):
        y = case.draw(rng, n)
        weight = rng.uniform(0.1, 3.0, n) if weighted else None
        (start,) = case.objective.initial_score(y, weight)
        best = minimize_scalar(lambda c: mean_loss(case, y, c, weight), bounds=(-30, 30),  # noqa: B023
                               method="bounded", options={"xatol": 1e-12})  # fmt: skip
        assert mean_loss(case, y, start, weight) <= best.fun + 1e-9 * (1 + abs(best.fun))


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_leaf_step_minimises_the_loss_of_the_leaf(case) -> None:
    rng = np.random.default_rng(5)
    y, raw, weight = case.draw(rng, 60), rng.normal(size=(1, 60)), rng.uniform(0.1, 3.0, 60)
    starts = np.array([0, 1, 20, 60])
    if case.name in ("focal", "cross_entropy", "poisson", "tweedie"):
        starts, y[20:22] = np.array([0, 20, 60]), (0.0, 1.0)
    steps = case.objective.leaf_steps(LeafRows(y, raw, weight, starts), 0)
    for step, first, stop in zip(steps, starts, starts[1:], strict=False):
        rows = slice(first, stop)
        best = minimize_scalar(
            lambda c: mean_loss(case, y[rows], raw[0, rows] + c, weight[rows]),  # noqa: B023
            bounds=(-16, 16), method="bounded", options={"xatol": 1e-12},
        )  # fmt: skip
        found = mean_loss(case, y[rows], raw[0, rows] + step, weight[rows])
        assert found <= best.fun + 1e-7 * (1 + abs(best.fun))


def test_all_targets_are_zero() -> None:
    X = np.arange(60.0).reshape(-1, 1)
    for name in ("poisson", "tweedie"):
        model = HedgerowRegressor(objective=name, n_estimators=3).fit(X, np.zeros(60))
        assert (model.predict(X) < 1e-200).all()


# -- domains and parameters ------------------------------------------------------------


@pytest.mark.parametrize("case", [case for case in CASES if case.outside],
                         ids=[case.id for case in CASES if case.outside])  # fmt: skip
def test_targets_outside_are_refused_with_row_and_interval(case) -> None:
    y = case.draw(np.random.default_rng(0), 30)
    for value in case.outside:
        y[[17, 23]] = value
        with pytest.raises(DataError, match=rf"{case.interval}.*row 17 holds {value!r}"):
            case.objective.check_target(y)
        with pytest.raises(DataError, match=rf"row {17 + 100} holds"):
            case.objective.check_target(y, first_row=100, origin=y[0])
    if case.name in ("hinge", "focal"):
        return
    with pytest.raises(DataError, match="row 17 holds"):
        HedgerowRegressor(objective=case.name).fit(np.zeros((30, 1)), y)


@pytest.mark.parametrize(
    ("objective", "parameters", "message"),
    [
        ("huber", {"delta": 0.0}, "delta must be a number greater than 0"),
        ("huber", {"delta": "wide"}, "delta must be a number.*'wide'"),
        ("expectile", {"expectile": 1.0}, "expectile must be a number greater than 0 and less"),
        ("tweedie", {"tweedie_power": 2.0}, "tweedie_power.*greater than 1 and less"),
        ("focal", {"focal_gamma": -1.0}, "focal_gamma must be a number at least 0"),
        ("focal", {"focal_alpha": 1.0}, "focal_alpha must be a number"),
        ("quantile", {"quantile": [0.5, 0.5]}, "ascending order, none twice"),
        ("quantile", {"quantile": []}, "at most 1000 numbers"),
        ("quantile", {"quantile": [0.5, 1.5]}, "quantile must be a number"),
        ("poisson", {"delta": 2.0}, "delta=2.0 has no effect.*'huber' or .*'pseudo_huber'"),
        ("squared_error", {"quantile": 0.5}, "quantile=0.5 has no effect"),
    ],
)
def test_parameters_are_checked(objective, parameters, message) -> None:
    with pytest.raises(ParameterError, match=message):
        make_objective(objective, parameters=parameters)
    data = Dataset(np.arange(40.0).reshape(-1, 1), np.arange(40.0) % 2)
    with pytest.raises(ParameterError, match=message):
        train({"objective": objective, **parameters}, data)


def test_parameters_of_estimators_are_those_of_losses() -> None:
    kinds = (HedgerowRegressor, HedgerowClassifier, HedgerowRanker)
    assert {name for kind in kinds for name in kind._loss_parameters} == set(PARAMETERS)
    with pytest.raises(ParameterError, match=r"delta=3\.0 has no effect with objective 'poisson'"):
        HedgerowRegressor(objective="poisson", delta=3.0).fit([[1.0], [2.0]], [1.0, 2.0])


# -- whole fits ------------------------------------------------------------------------

RNG = np.random.default_rng(7)
X = np.round(RNG.normal(size=(400, 4)), 1)
SIGNAL = X[:, 0] + 0.5 * X[:, 1] * X[:, 2]


def target_for(case):
    rng = np.random.default_rng(8)
    if case.name in ("poisson", "tweedie"):
        return rng.poisson(np.exp(0.5 * SIGNAL)).astype(float)
    if case.name in ("gamma", "mape", "squared_log_error"):
        return rng.gamma(3.0, np.exp(0.5 * SIGNAL)) + 1e-2
    if case.name == "cross_entropy":
        return np.clip(1 / (1 + np.exp(-SIGNAL)) + rng.normal(0, 0.1, 400), 0, 1)
    if case.name in ("focal", "hinge"):
        return (SIGNAL + rng.normal(0, 0.5, 400) > 0).astype(float)
    return SIGNAL + rng.standard_t(2, 400)


def fitted(case, n_jobs=1, **more):
    given_ones = {"objective": case.name, **case.parameters, "n_estimators": 8, "n_jobs": n_jobs,
                  "early_stopping": False, **more}  # fmt: skip
    return train(given_ones, Dataset(X, target_for(case)))


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.objective.second_order],
    ids=[case.id for case in CASES if case.objective.second_order],
)  # fmt: skip
def test_fit_is_that_of_the_naive_twin(case) -> None:
    y, matrix = target_for(case), engine.binned(X)
    objective = case.objective

    def slopes(target, raw):
        g, h = derivatives(objective, target, raw[0])
        return g[None], h[None]

    rules = naive.Rules(20, 1e-3, 1.0, 0.0, 0.0, 0.0)
    raw, *_ = naive.boost(
        engine.columns_of(matrix), matrix.spec.bin_counts, matrix.stride, y,
        objective.initial_score(y, None), rules, 8, slopes, grid=True,
        max_leaves=31,
    )  # fmt: skip
    np.testing.assert_allclose(fitted(case).predict(X, "raw"), raw[0], rtol=1e-6, atol=1e-6)
