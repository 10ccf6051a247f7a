"""Newton steps without penalties: scores stay bounded, and the training loss falls."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow import Dataset, train
from hedgerow.objectives import OBJECTIVES, RANKING, make_objective
from hedgerow.objectives.global_sums import AllRows
from hedgerow.objectives.line_search import descending_step
from tests.helpers.chunked import Rows, divided_into, same_bytes

FREE = {
    "learning_rate": 1.0,
    "reg_lambda": 0.0,
    "min_child_weight": 0.0,
    "n_estimators": 40,
    "max_leaves": 8,
}
"""Newton's method without any damping."""
FAR = 200.0
"""A raw score beyond which no probability, risk or log mean of these targets lies."""


def _targets(loss: str, signal: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return valid targets of a loss; most depend on ``signal``."""
    n = len(signal)
    if loss in ("logistic", "exponential", "focal"):
        found = (signal > np.quantile(signal, rng.choice([0.3, 0.5, 0.95]))).astype(float)
        found[:2] = 0.0, 1.0
        return found
    if loss in ("softmax", "one_vs_all"):
        found = np.digitize(signal, np.quantile(signal, np.sort(rng.random(2)))).astype(float)
        found[:3] = 0.0, 1.0, 2.0
        return found
    if loss in ("poisson", "tweedie"):
        return np.append(rng.poisson(np.exp(np.clip(signal[1:], -10.0, 6.0))), 1).astype(float)
    if loss == "gamma":
        return np.exp(2.0 * signal) * rng.gamma(0.5, 1.0, n) + 1e-6
    if loss == "cross_entropy":
        return np.round(1.0 / (1.0 + np.exp(-signal)), 1)
    if loss in ("cox", "aft"):
        sign = np.where(rng.random(n) < 0.5, -1.0, 1.0)
        sign[0] = 1.0
        return sign * (np.exp(signal) + 1e-3)
    return np.clip(np.round(signal + 1.0), 0.0, 4.0)


LOSSES: dict[str, dict[str, Any]] = {
    "logistic": {},
    "exponential": {},
    "focal": {},
    "softmax": {},
    "one_vs_all": {},
    "cross_entropy": {},
    "poisson": {},
    "tweedie": {},
    "gamma": {},
    "cox": {},
    "aft": {"aft_distribution": "logistic", "aft_scale": 0.5},
}
RANKINGS = ("lambdarank", "rank_pairwise", "rank_xendcg")


def _draw(loss: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(int(rng.choice([60, 200, 800])), 3))
    signal = 2.0 * X[:, 0] + 0.5 * rng.normal(size=len(X))
    return X, _targets(loss, signal, rng), rng


@pytest.mark.fast(13)
@pytest.mark.parametrize("linear_leaves", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
def test_no_loss_ends_above_that_of_a_constant(loss: str, linear_leaves: bool) -> None:
    for seed in range(3):
        X, y, _ = _draw(loss, seed)
        own = {"linear_leaves": linear_leaves, "min_samples_leaf": (1, 5, 20)[seed]}
        booster = train({"objective": loss, **FREE, **LOSSES[loss], **own}, Dataset(X, y))
        raw = np.atleast_2d(booster.predict(X, kind="raw").T)
        assert np.abs(raw).max() < FAR
        objective = make_objective(loss, len(raw), parameters=LOSSES[loss])
        start = objective.start_of(AllRows(y, None))
        constant = objective.loss(y, np.repeat(start[:, None], len(y), axis=1), None)
        assert objective.loss(y, raw, None) < constant + 1e-3 * abs(constant)


@pytest.mark.parametrize("loss", LOSSES)
def test_penalties_are_not_enough_for_large_weights(loss: str) -> None:
    params = {"objective": loss, **FREE, **LOSSES[loss], "reg_lambda": 1.0}
    for seed in range(2):
        X, y, rng = _draw(loss, seed)
        weight = 10.0 ** rng.uniform(3.0, 7.0, len(y))
        data = Dataset(X, y, weight=weight)
        raw = np.atleast_2d(train(params, data).predict(X, kind="raw").T)
        assert np.abs(raw).max() < FAR
        objective = make_objective(loss, len(raw), parameters=LOSSES[loss])
        start = objective.start_of(AllRows(y, weight))
        constant = objective.loss(y, np.repeat(start[:, None], len(y), axis=1), weight)
        assert objective.loss(y, raw, weight) < constant + 1e-3 * abs(constant)


@pytest.mark.parametrize(("copies", "is_limited"), [(4, False), (400, True)])
def test_copies_of_rows_have_the_limit_of_weights(copies: int, is_limited: bool) -> None:
    _, y, rng = _draw("logistic", 0)
    weight = rng.integers(copies // 2, copies, len(y))
    for rows in (AllRows(y, weight.astype(float)), AllRows(y.repeat(weight), None)):
        found = make_objective("logistic").limited_for(rows)
        assert math.isfinite(found.longest_step(1.0, 0.1)) == is_limited
        assert found == make_objective("logistic")


@pytest.mark.fast(3)
@pytest.mark.parametrize("scale", [1.0, 0.5, 0.2])
@pytest.mark.parametrize("distribution", ["normal", "logistic", "extreme"])
def test_the_loss_of_survival_times_falls_in_every_round(distribution: str, scale: float) -> None:
    own = {"aft_distribution": distribution, "aft_scale": scale, "learning_rate": 0.1}
    for seed in (0, 5):
        X, y, _ = _draw("aft", seed)
        data = Dataset(X, y)
        params = {"objective": "aft", "n_estimators": 20, "early_stopping": False, **own}
        curve = train(params, data, data).evals_result["train"]["loss"]
        assert (np.diff(curve) < 0.0).all()


@pytest.mark.parametrize("loss", ["poisson", "tweedie", "gamma"])
@pytest.mark.parametrize("seed", range(4))
def test_log_means_need_a_limit_at_high_rates_despite_penalties(loss: str, seed: int) -> None:
    X, y, _ = _draw(loss, seed)
    y = 20.0 * y if loss == "gamma" else np.round(20.0 * y)
    params = {**FREE, "objective": loss, "reg_lambda": 1.0, "min_samples_leaf": 5}
    raw = train(params, Dataset(X, y)).predict(X, kind="raw").reshape(len(X), -1)[:, 0]
    assert raw.max() < np.log(y.max()) + 5.0


@pytest.mark.parametrize("loss", RANKINGS)
def test_scores_of_rankings_stay_bounded(loss: str) -> None:
    for seed in range(4):
        X, y, _ = _draw(loss, seed)
        data = Dataset(X, y, qid=np.arange(len(X)) // 10)
        for rows in (1, 5):
            booster = train({"objective": loss, **FREE, "min_samples_leaf": rows}, data)
            assert np.abs(booster.predict(X, kind="raw")).max() < FAR


@pytest.mark.fast(7)
@pytest.mark.parametrize("loss", ["logistic", "softmax", "poisson", "cox", "aft"])
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"subsample": 0.7},
        {"grow_policy": "symmetric", "max_leaves": None, "max_depth": 3},
        {"num_parallel_tree": 3, "subsample": 0.7},
        {"linear_leaves": True},
        {"learning_rate": tuple(np.linspace(1.0, 0.1, 12))},
        {"reg_lambda": 1.0},
    ],
)
def test_limits_are_the_same_for_rows_in_chunks(loss: str, more: dict[str, Any]) -> None:
    """All of these losses have leaves at their limit in several of the first 12 rounds."""
    X, y, rng = _draw(loss, 2)
    params = {"objective": loss, **FREE, "n_estimators": 12, **LOSSES[loss], **more}
    weight = 10.0 ** rng.uniform(0.0, 5.0, len(y)) if "reg_lambda" in more else None
    with divided_into(150):
        same_bytes(params, Rows.of_arrays(X, y, weight))


_KINDS: list[dict[str, Any]] = [
    {},
    {"subsample": 0.7},
    {"grow_policy": "symmetric", "max_leaves": None, "max_depth": 3},
    {"tree_method": "exact"},
]
_MONOTONE = {"monotone_constraints": [1, 0, 0], "path_smooth": 1.0}
_CASES: list[tuple[str, dict[str, Any]]] = [
    *((loss, kind) for loss in ("logistic", "poisson", "cox", "aft") for kind in _KINDS),
    *((loss, _MONOTONE) for loss in ("logistic", "poisson", "cox", "aft")),
    *(("softmax", kind) for kind in (*_KINDS, {"multi_strategy": "multi_output_tree"})),
]


@pytest.mark.fast(8)
@pytest.mark.parametrize(("loss", "more"), _CASES, ids=str)
def test_growers_and_the_training_loop_cut_off_the_same_steps(
    loss: str, more: dict[str, Any]
) -> None:
    X, y, _ = _draw(loss, 2)
    params = {"objective": loss, **FREE, **LOSSES[loss], **more}
    rates = (1.0,) * int(FREE["n_estimators"])  # with a schedule, the loop cuts off steps
    fixed, scheduled = (
        train(params | given, Dataset(X, y)) for given in ({}, {"learning_rate": rates})
    )
    forest, objective = fixed.model.forest, make_objective(loss, parameters=LOSSES[loss])
    values = forest.value if forest.vectors is None else forest.vectors
    assert np.isclose(np.abs(values), objective.longest_step(0.0, 1.0)).any()
    np.testing.assert_array_equal(fixed.predict(X, kind="raw"), scheduled.predict(X, kind="raw"))


@given(
    rate=st.floats(0.01, 1.0),
    raw=st.lists(st.floats(-12.0, 12.0), min_size=1, max_size=12),
    data=st.data(),
)
def test_limited_steps_lower_the_loss_of_a_leaf(rate: float, raw: list[float], data: Any) -> None:
    labels = data.draw(st.lists(st.integers(0, 1), min_size=len(raw), max_size=len(raw)))
    y, score = np.array(labels, dtype=float), np.array(raw)
    for loss in ("logistic", "exponential", "poisson", "cross_entropy"):
        objective = make_objective(loss)
        g, h = objective.slopes(y, score)
        limit = objective.longest_step(0.0, rate)
        step = float(np.clip(-g.sum() / h.sum(), -limit, limit))
        before = float(objective.losses(y, score[None]).sum())
        after = float(objective.losses(y, score[None] + rate * step).sum())
        assert after <= before + 1e-9 * (1.0 + before)


def test_the_limit_rises_as_rates_fall() -> None:
    limits = [descending_step(rate) for rate in (2.0, 1.0, 0.5, 0.3, 0.1, 0.01)]
    assert limits == sorted(limits)
    assert limits[1] == pytest.approx(1.7933, abs=1e-4)
    assert descending_step(0.0) == math.inf


def test_the_page_names_the_losses_with_a_limit() -> None:
    """Limits without a penalty, with one, and with one at a low rate."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "objectives.md").read_text("utf-8")
    table = page.partition("| objective | limited unless |\n|---|---|\n")[2].partition("\n\n")[0]
    rows = [set(re.findall(r"`(\w+)`", row.split("|")[1])) for row in table.splitlines()]
    kinds = [(True, False, False), (True, True, False), (True, True, True)]
    for name in OBJECTIVES:
        given = {"aft_distribution": "logistic"} if name == "aft" else {}
        n_outputs = {"softmax": 3, "one_vs_all": 3, "normal": 2, "log_normal": 2}.get(name, 1)
        objective = make_objective(name, n_outputs, parameters=given)
        found = [objective.longest_step(*at) < np.inf for at in ((0, 1.0), (1, 1.0), (1, 0.3))]
        expected = next(
            (kind for kind, row in zip(kinds, rows, strict=True) if name in row), (False,) * 3
        )
        if name in RANKING:
            expected = kinds[0]
        assert tuple(found) == expected, name
