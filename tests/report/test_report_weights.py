"""Weights in reports: a row of weight 2 counts as two rows, one of weight 0 as none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hedgerow import HedgerowClassifier, HedgerowRanker, HedgerowRegressor
from hedgerow.plot.classifier import calibration_of
from hedgerow.report import find
from hedgerow.report.findings import _POINTS
from hedgerow.report.predictions import effective_rows, predictions_html, survivors
from tests.report.test_report import Page

PLAIN: dict[str, Any] = {"n_estimators": 20, "early_stopping": False, "min_samples_leaf": 5}


MODELS: dict[str, Any] = {
    "classes": lambda: HedgerowClassifier(**PLAIN),
    "normal": lambda: HedgerowRegressor(objective="normal", **PLAIN),
    "quantiles": lambda: HedgerowRegressor(objective="quantile", quantile=[0.1, 0.9], **PLAIN),
    "ranking": lambda: HedgerowRanker(**PLAIN),
}


@pytest.mark.fast(2)
@pytest.mark.parametrize("kind", MODELS)
def test_findings_are_those_of_repeated_rows(kind: str) -> None:
    rng = np.random.default_rng(3)
    X, query = rng.normal(size=(240, 2)), np.arange(240) // 8
    y = X[:, 0] + rng.normal(size=240)
    weight = rng.integers(0, 4, 240)
    if kind in ("classes", "ranking"):
        y = (y > 0).astype(int)
    if kind == "ranking":  # weights of queries, of which one that is repeated is another one
        weight = query % 2
    model = MODELS[kind]().fit(X, y, **({"qid": query} if kind == "ranking" else {}))

    def found_of(rows: Any, weights: Any = None) -> Any:
        table = {"x0": X[rows, 0], "x1": X[rows, 1]}
        more = {"qid": query[rows]} if kind == "ranking" else {}
        return find(model.booster_, table, y[rows], sample_weight=weights, **more)

    everything = np.arange(240)
    weighted, plain = found_of(everything, weight), found_of(np.repeat(everything, weight))
    scores = [[score.value for score in found.scores] for found in (weighted, plain)]
    assert scores[0] == pytest.approx(scores[1])
    expected = model.partial_dependence(
        X, sample_weight=weight, kind=weighted.effects.kind, n_points=_POINTS
    )
    for ours, theirs in zip(weighted.effects, expected, strict=True):
        np.testing.assert_allclose(ours.values, theirs.values, rtol=1e-12)
    drawn = ["".join(predictions_html(found)) for found in (weighted, found_of(everything))]
    assert drawn[0] != drawn[1]
    if kind in ("normal", "quantiles"):
        shares = [
            [row[1] for row in Page("".join(predictions_html(found))).tables[-1][1:]]
            for found in (weighted, plain)
        ]
        assert shares[0] == shares[1]
    if kind == "classes":
        error = calibration_of(y, model.predict_proba(X)[:, 1], sample_weight=weight).error
        assert f"off by {error:.3f} on average" in " ".join(weighted.warnings)


def test_survivors_are_those_of_repeated_rows() -> None:
    rng = np.random.default_rng(5)
    time, event, weight = rng.integers(1, 9, 60), rng.random(60) < 0.6, rng.integers(0, 3, 60)
    found = survivors(time.astype(float), event, weight.astype(float))
    expected = survivors(np.repeat(time, weight).astype(float), np.repeat(event, weight))
    np.testing.assert_allclose(found, expected)


def test_effective_rows_of_known_weights() -> None:
    assert effective_rows(None, 5) == 5.0
    assert effective_rows(np.array([3.0, 3.0, 0.0]), 3) == pytest.approx(2.0)
    assert effective_rows(np.array([1.0, 0.1]), 2) < 2.0
