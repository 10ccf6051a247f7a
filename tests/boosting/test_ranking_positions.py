"""Positions of shown rows: training learns the position bias, and predictions are free of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hedgerow import Dataset, HedgerowRanker, HedgerowRegressor, cross_fit, load, train
from hedgerow.boosting.row_data.queries import read_position
from hedgerow.errors import DataError, DataTypeError, ModelFormatError, ParameterError
from hedgerow.io import model_from_bytes, model_to_bytes
from hedgerow.metrics.queries import query_rows
from hedgerow.metrics.ranking import ranking_metric
from hedgerow.objectives import make_objective
from hedgerow.objectives.base import LossRows
from hedgerow.objectives.catalogue import RANKING
from hedgerow.objectives.ranking.positions import PositionBias

ROWS = 12
LOOKED = 1.0 / np.arange(1, ROWS + 1)
SHORT = {"n_estimators": 8, "early_stopping": False, "n_jobs": 1}


def shown_rows(n_queries: int, seed: int):
    """Return rows as shown, their relevance, and clicks with known examination probabilities."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_queries, ROWS, 4))
    worth = X[..., 0] + X[..., 1]
    relevance = (worth.argsort(axis=1).argsort(axis=1) >= ROWS - 3).astype(float)
    order = np.argsort(-X[..., 2] - rng.normal(size=worth.shape), axis=1)
    X = np.take_along_axis(X, order[..., None], axis=1).reshape(-1, 4)
    relevance = np.take_along_axis(relevance, order, axis=1)
    chance = LOOKED * (0.05 + 0.45 * relevance)
    clicked = (rng.random(chance.shape) < chance).astype(float).ravel()
    qid, position = np.repeat(np.arange(n_queries), ROWS), np.tile(np.arange(ROWS), n_queries)
    return X, relevance.ravel(), clicked, qid, position


X, _, CLICKED, QID, POSITION = shown_rows(2_500, 0)
FEW = slice(0, 60 * ROWS)


@pytest.fixture(scope="module")
def fitted() -> HedgerowRanker:
    model = HedgerowRanker(n_estimators=40, early_stopping=False, n_jobs=1)
    return model.fit(X, CLICKED, qid=QID, position=POSITION)


def fit_few(position=POSITION[FEW], **settings) -> HedgerowRanker:
    model = HedgerowRanker(**(SHORT | settings))
    return model.fit(X[FEW], CLICKED[FEW], qid=QID[FEW], position=position)


def model_bytes(model: HedgerowRanker) -> bytes:
    return model_to_bytes(model.booster_.model)


def test_the_bias_is_found_and_predictions_are_free_of_it(fitted) -> None:
    new_x, new_relevance, *_, new_qid, _ = shown_rows(300, 1)
    metric = ranking_metric("ndcg@5").of_queries(query_rows(new_qid, len(new_qid)))
    naive = HedgerowRanker(n_estimators=40, early_stopping=False, n_jobs=1)
    naive.fit(X, CLICKED, qid=QID)
    with_bias, without = (metric(new_relevance, m.predict(new_x)) for m in (naive, fitted))
    assert without > with_bias + 0.04
    learned = np.array(list(fitted.position_bias_.values()))
    assert list(fitted.position_bias_) == list(range(ROWS))
    assert learned.max() == 0.0
    distance = np.abs(learned - learned[0] - np.log(LOOKED / LOOKED[0]))
    assert distance.mean() < 0.35  # without correction all are log 1: 1.67
    assert distance.max() < 0.75


@pytest.mark.parametrize("objective", RANKING)
def test_a_round_is_a_newton_step_of_each_position(objective) -> None:
    rng = np.random.default_rng(2)
    rows, n = query_rows(QID[FEW], len(QID[FEW])), len(QID[FEW])
    code, weight = rng.integers(0, 4, n), rng.uniform(0.5, 2.0, n)
    raw = rng.normal(size=(1, n))
    plain = make_objective(objective).of_queries(rows, seed=3)
    positions = PositionBias(code, range(4), regularization=0.01, rate_at=lambda n: 0.3 + 0.1 * n)
    loss = plain.with_positions(positions)
    g, h, wanted_g, wanted_h = np.empty((4, n))
    bias = np.zeros(4)
    for number in range(3):
        plain.derivatives(
            LossRows(CLICKED[FEW], raw + bias[code], weight, number), 0, wanted_g, wanted_h
        )
        loss.derivatives(LossRows(CLICKED[FEW], raw, weight, number), 0, g, h)
        assert g == pytest.approx(wanted_g, rel=1e-9, abs=1e-12)
        assert h == pytest.approx(wanted_h, rel=1e-9, abs=1e-12)
        for k in range(4):
            here = code == k
            slope = (g * weight)[here].sum() + 0.01 * here.sum() * bias[k]
            curve = (h * weight)[here].sum() + 0.01 * here.sum() + 0.001
            bias[k] -= (0.3 + 0.1 * number) * slope / curve
        assert positions.bias == pytest.approx(bias, rel=1e-9)
    assert loss.loss(CLICKED[FEW], raw, weight) == plain.loss(CLICKED[FEW], raw, weight)


def test_names_of_positions_are_only_names() -> None:
    names = np.array([f"place {number:02d}" for number in range(ROWS)])
    named = fit_few(names[POSITION[FEW]])
    plain = fit_few()
    assert list(named.position_bias_) == names.tolist()
    assert list(named.position_bias_.values()) == list(plain.position_bias_.values())
    assert (named.predict(X) == plain.predict(X)).all()


def test_more_regularization_keeps_biases_small() -> None:
    spread = [
        np.ptp(list(fit_few(position_bias_regularization=penalty).position_bias_.values()))
        for penalty in (0.0, 0.1, 10.0)
    ]
    assert spread[0] > 2 * spread[1] > 20 * spread[2] > 0.0


def test_rows_of_weight_zero_and_rows_set_aside_have_no_part() -> None:
    weight = np.ones(60 * ROWS)
    weight[::5] = 0.0
    kept = np.flatnonzero(weight)
    model = HedgerowRanker(**SHORT).fit(
        X[FEW], CLICKED[FEW], weight, qid=QID[FEW], position=POSITION[FEW]
    )
    same = HedgerowRanker(**SHORT).fit(
        X[kept], CLICKED[kept], qid=QID[kept], position=POSITION[kept]
    )
    assert model_bytes(model) == model_bytes(same)
    stopped = fit_few(early_stopping=True, n_estimators=30, patience=3)
    assert stopped.n_iter_ < 30
    shorter = fit_few(early_stopping=True, n_estimators=stopped.n_iter_, patience=30)
    assert stopped.position_bias_ == shorter.position_bias_  # those after the best round


def test_files_and_train_keep_the_biases(tmp_path) -> None:
    model = fit_few(position_bias_regularization=0.01)
    model.save(tmp_path / "model")
    assert HedgerowRanker.load(tmp_path / "model").position_bias_ == model.position_bias_
    data = Dataset(X[FEW], CLICKED[FEW], qid=QID[FEW], position=POSITION[FEW])
    params = {"objective": "lambdarank", "position_bias_regularization": 0.01, **SHORT}
    booster = train(params, data)
    assert model_to_bytes(booster.model) == model_bytes(model)
    spoiled = dict(booster.model.training) | {"position_bias": {"positions": [1], "bias": []}}
    with pytest.raises(ModelFormatError, match="biases of positions are malformed"):
        model_from_bytes(model_to_bytes(replace(booster.model, training=spoiled)))
    booster.save(tmp_path / "plain")
    assert (load(tmp_path / "plain").predict(X) == model.predict(X)).all()


def test_what_positions_cannot_be_is_an_error() -> None:
    for given, kind, words in (
        (POSITION[:5], DataError, "position has 5 values for 720 rows"),
        (np.where(POSITION[FEW] == 3, np.nan, 1.0), DataError, "position is missing in 60 of"),
        (POSITION[FEW] + 0.5, DataTypeError, "whole numbers or text, got float64"),
        (np.array([None] * 720), DataError, "position is missing"),
        (np.array([(1,)] * 719 + ["a"], dtype=object), DataTypeError, "whole numbers or text"),
    ):
        with pytest.raises(kind, match=words):
            fit_few(given)
    with pytest.raises(ParameterError, match="no effect without position"):
        fit_few(None, position_bias_regularization=1.0)
    with pytest.raises(ParameterError, match="position_bias_regularization must be"):
        fit_few(position_bias_regularization=-1.0)
    with pytest.raises(ParameterError, match="boosting='rf'"):
        fit_few(boosting="rf", subsample=0.5)
    with pytest.raises(ParameterError, match="position has no effect with objective"):
        train({"objective": "squared_error"}, Dataset(X, CLICKED, position=POSITION))
    with pytest.raises(AttributeError, match="position_bias_ needs positions"):
        _ = fit_few(None).position_bias_
    with pytest.raises(TypeError):
        HedgerowRegressor().fit(X, CLICKED, position=POSITION)


def test_positions_are_read_from_whatever_holds_them() -> None:
    codes = [2, 0, 2, 1]
    for given in (np.array([9, 1, 9, 4]), [9.0, 1.0, 9.0, 4.0], np.array([[9], [1], [9], [4]]),
                  np.array([9, 1, 9, 4], dtype=object), ["z", "b", "z", "c"]):  # fmt: skip
        assert read_position(given, 4).codes.tolist() == codes


def test_folds_learn_positions_and_a_schedule_sets_their_steps() -> None:
    rates = [0.3, 0.2, 0.1] * 4
    model = fit_few(early_stopping="cv", n_estimators=12, learning_rate=rates)
    n_rounds = model.n_iter_
    same = fit_few(n_estimators=n_rounds, learning_rate=rates[:n_rounds])
    assert model.position_bias_ == same.position_bias_
    constant = fit_few(n_estimators=n_rounds, learning_rate=0.1)
    assert constant.position_bias_ != same.position_bias_
    with pytest.raises(ParameterError, match="no effect without position"):
        cross_fit(
            HedgerowRanker(position_bias_regularization=1.0), X[FEW], CLICKED[FEW], qid=QID[FEW]
        )
