"""Automatic parameters of ranking, survival times, counts and quantiles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hedgerow import HedgerowRanker, HedgerowRegressor
from hedgerow.boosting.automatic.recipe import DataSize, recipe
from hedgerow.boosting.validation.folds import draw_folds, lists_in_any_order
from hedgerow.metrics.queries import query_rows
from hedgerow.objectives import RANKING, make_objective

RNG = np.random.default_rng(0)


def _lists(n_queries: int, n_rows: int, seed: int = 0) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    n = n_queries * n_rows
    X = rng.normal(size=(n, 6))
    raw = X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=n)
    grade = np.digitize(raw, np.quantile(raw, [0.6, 0.8, 0.92]))
    return X, grade.astype(float), np.repeat(np.arange(n_queries), n_rows)


def _times(n: int, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 6))
    time = rng.exponential(np.exp(-X[:, 0] - 0.7 * np.abs(X[:, 1]))) + 1e-3
    end = rng.exponential(1.0, n) + 1e-3
    return X, np.where(time < end, time, -end)


@pytest.mark.parametrize("name", RANKING)
@pytest.mark.parametrize("weighted", [False, True])
def test_losses_of_queries_come_to_the_loss(name: str, weighted: bool) -> None:
    query = RNG.permutation(np.repeat(np.arange(20), RNG.integers(2, 9, 20)))
    target = RNG.integers(0, 4, len(query)).astype(float)
    target[query == 3] = 1.0  # nothing to put in order
    raw = RNG.normal(size=(1, len(query)))
    of_query = RNG.random(20) + 0.5
    weight = of_query[query] if weighted else None
    loss = make_objective(name)
    shared = loss.shared_losses(target, raw, query)
    whole = loss.of_queries(query_rows(query, len(query))).loss(target, raw, weight)
    found = np.array([shared[query == q][0] for q in range(20)])
    np.testing.assert_array_equal(shared, found[query])
    mass = of_query if weighted else np.ones(20)
    if name == "rank_pairwise":  # longer lists count for more there, those of one label not
        mass = mass * np.bincount(query)
        mass[[len(np.unique(target[query == q])) == 1 for q in range(20)]] = 0.0
    assert np.average(found, weights=mass) == pytest.approx(whole, rel=1e-9)


@pytest.mark.parametrize("n_times", [1, 7, 200])
def test_losses_of_events_come_to_the_partial_likelihood(n_times: int) -> None:
    time = RNG.integers(1, n_times + 1, 200).astype(float)
    target = np.where(RNG.random(200) < 0.6, time, -time)
    raw = 3.0 * RNG.normal(size=(1, 200)) + 40.0
    loss = make_objective("cox")
    shared = loss.shared_losses(target, raw)
    assert (shared[target < 0] == 0.0).all()
    assert shared.sum() / (target > 0).sum() == pytest.approx(loss.loss(target, raw, None))


def test_rankings_and_times_of_events_have_a_recipe() -> None:
    X, y, qid = _lists(60, 10)
    chosen = HedgerowRanker().fit(X, y, qid=qid).chosen_params_
    expected = recipe(DataSize(600, 6, by_lists=True))
    assert chosen["folds"] == [5, 5] == list(expected["folds"])
    assert chosen["patience"] == expected["patience"] == 100
    assert len(chosen["tried"]) > 1
    X, y = _times(400)
    chosen = HedgerowRegressor(objective="cox").fit(X, y).chosen_params_
    assert chosen["folds"] == [5, 5]
    assert chosen["patience"] == recipe(DataSize(400))["patience"]


@pytest.mark.slow
def test_defaults_put_lists_in_a_better_order_than_plain_trees() -> None:
    better = 0
    for seed in range(4):
        X, y, qid = _lists(80, 10, seed)
        new = _lists(300, 10, seed + 100)
        chosen, plain = (
            HedgerowRanker(**k).fit(X, y, qid=qid) for k in ({}, {"n_estimators": 100})
        )
        scores = [model.score(new[0], new[1], qid=new[2]) for model in (chosen, plain)]
        assert scores[0] > scores[1] - 0.01
        better += scores[0] > scores[1]
    assert better >= 3


def test_defaults_order_events_better_than_plain_trees() -> None:
    for seed in range(3):
        (X, y), new = _times(300, seed), _times(2_000, seed + 100)
        given = ({}, {"n_estimators": 100})
        chosen, plain = (HedgerowRegressor(objective="cox", **k).fit(X, y) for k in given)
        assert chosen.score(*new) > plain.score(*new)


def test_a_table_sorted_by_relevance_is_no_better_known() -> None:
    # Rows with equal scores stay in order, so without trees all lists would be right.
    X, y, qid = _lists(80, 10)
    order = np.lexsort((-y, qid))
    model = HedgerowRanker().fit(X[order], y[order], qid=qid[order])
    assert model.n_iter_ > 20
    new = _lists(300, 10, 1)
    assert model.score(new[0], new[1], qid=new[2]) > 0.6


def test_tested_lists_are_shuffled_and_complete() -> None:
    qid = np.repeat(np.arange(30), 8)
    folds = draw_folds(np.zeros(240), 5, False, 0, qid)
    shuffled = lists_in_any_order(folds, 0)
    for fold, other in zip(folds, shuffled, strict=True):
        assert (np.sort(other.test) == fold.test).all()
        assert (other.test != fold.test).any()
        assert (other.train == fold.train).all()


def test_noise_is_not_put_in_order() -> None:
    rng = np.random.default_rng(5)
    X, qid = rng.normal(size=(400, 4)), np.repeat(np.arange(40), 10)
    y = rng.integers(0, 3, 400)
    assert HedgerowRanker().fit(X, y, qid=qid).n_iter_ < 40
    time = rng.exponential(size=400) * np.where(rng.random(400) < 0.5, 1, -1)
    assert HedgerowRegressor(objective="cox").fit(X, time).n_iter_ < 40


def test_one_query_and_few_events_have_a_model() -> None:
    X, y, _ = _lists(1, 40)
    one = HedgerowRanker().fit(X, y, qid=np.zeros(40, dtype=int))
    assert one.chosen_params_["folds"] == [0, 0]
    time = -np.arange(1.0, 41.0)
    time[3] = 4.0  # one event: most folds have none to train on or to test
    model = HedgerowRegressor(objective="cox").fit(X, time)
    assert np.isfinite(model.predict(X)).all()


@pytest.mark.fast(2)
@pytest.mark.parametrize("level", [0.1, 0.9])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_quantile_that_many_rows_share_does_not_hide_the_others(
    level: float, sign: float
) -> None:
    # All rows are on one side of the first score, or at it: derivatives have to differ.
    rng = np.random.default_rng(0)
    x = rng.random(2_000)
    y = sign * np.where(x < 0.5, 0.0, 5.0 + rng.random(2_000)) * (rng.random(2_000) > 0.02)
    for given in ({}, {"n_estimators": 100}):
        model = HedgerowRegressor(objective="quantile", quantile=level, **given)
        found = model.fit(x[:, None], y).predict([[0.1], [0.9]])
        assert abs(found[0]) < 0.5
        assert sign * found[1] > 4.5
