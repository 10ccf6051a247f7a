"""Weights in reports: a row of weight 2 counts as two rows, one of weight 0 as none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hedgerow import HedgerowClassifier, HedgerowRanker, HedgerowRegressor
from hedgerow.plot.classifier import calibration_of
from hedgerow.report import find
from hedgerow.report.predictions import effective_rows, predictions_html, survivors
from tests.report.test_report import Page

PLAIN: dict[str, Any] = {"n_estimators": 20, "early_stopping": False, "min_samples_leaf": 5}


def pictures(found: Any) -> str:
    return "".join(predictions_html(found))


def test_effects_scores_and_calibration_of_classes() -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(250, 2))
    y = (X[:, 0] + rng.normal(size=250) > 0).astype(int)
    weight = np.where(y == 1, rng.integers(0, 2, 250), 3)
    model = HedgerowClassifier(**PLAIN).fit(X, y)

    def of(rows: Any, weights: Any = None) -> Any:
        table = {"x0": X[rows, 0], "x1": X[rows, 1]}
        return find(model.booster_, table, y[rows], sample_weight=weights)

    everything = np.arange(250)
    weighted, plain = of(everything, weight), of(np.repeat(everything, weight))
    for name in ("x0", "x1"):
        values = weighted.effects[name].values
        expected = model.partial_dependence(
            X, name, kind="probability", sample_weight=weight, n_points=len(values)
        )
        np.testing.assert_allclose(values, expected[name].values)
    scores = [[score.value for score in found.scores] for found in (weighted, plain)]
    assert scores[0] == pytest.approx(scores[1])
    error = calibration_of(y, model.predict_proba(X)[:, 1], sample_weight=weight).error
    assert f"off by {error:.3f} on average" in " ".join(weighted.warnings)
    assert pictures(weighted) != pictures(of(everything))


@pytest.mark.parametrize("objective", ["normal", "quantile"])
def test_shares_are_those_of_repeated_rows(objective: str) -> None:
    rng = np.random.default_rng(4)
    X, weight = rng.normal(size=(200, 1)), rng.integers(0, 4, 200)
    y = X[:, 0] + rng.normal(size=200)
    level: Any = {"quantile": [0.1, 0.9]} if objective == "quantile" else {}
    model = HedgerowRegressor(objective=objective, **level, **PLAIN).fit(X, y)
    rows = np.repeat(np.arange(200), weight)
    weighted = find(model.booster_, {"x0": X[:, 0]}, y, sample_weight=weight)
    plain = find(model.booster_, {"x0": X[rows, 0]}, y[rows])
    shares = [[row[1] for row in Page(pictures(f)).tables[-1][1:]] for f in (weighted, plain)]
    assert shares[0] == shares[1]


def test_survivors_are_those_of_repeated_rows() -> None:
    rng = np.random.default_rng(5)
    time, event, weight = rng.integers(1, 9, 60), rng.random(60) < 0.6, rng.integers(0, 3, 60)
    found = survivors(time.astype(float), event, weight.astype(float))
    expected = survivors(np.repeat(time, weight).astype(float), np.repeat(event, weight))
    np.testing.assert_allclose(found, expected)


def test_queries_count_by_their_weights() -> None:
    rng = np.random.default_rng(6)
    X, query = rng.normal(size=(200, 2)), np.repeat(np.arange(40), 5)
    y = rng.integers(0, 3, 200)
    model = HedgerowRanker(**PLAIN).fit(X, y, qid=query)
    table = {"x0": X[:, 0], "x1": X[:, 1]}
    weight = np.where(query < 20, 1.0, 0.0)
    half = find(model.booster_, {k: v[:100] for k, v in table.items()}, y[:100], qid=query[:100])
    found = find(model.booster_, table, y, qid=query, sample_weight=weight)
    assert [s.value for s in found.scores] == pytest.approx([s.value for s in half.scores])
    everything = find(model.booster_, table, y, qid=query)
    assert pictures(found) != pictures(everything)


def test_effective_rows_of_known_weights() -> None:
    assert effective_rows(None, 5) == 5.0
    assert effective_rows(np.array([3.0, 3.0, 0.0]), 3) == pytest.approx(2.0)
    assert effective_rows(np.array([1.0, 0.1]), 2) < 2.0
