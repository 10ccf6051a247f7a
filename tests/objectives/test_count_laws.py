"""Distributions of counts, and metrics that are NaN."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from hedgerow import HedgerowRegressor
from hedgerow.errors import LossError
from hedgerow.metrics import evaluate
from hedgerow.metrics.base import Metric
from hedgerow.objectives import make_objective
from hedgerow.objectives.distributions.predicted import Poisson


@pytest.mark.parametrize("rate", [1e6, 1e8])
def test_large_rates_are_normal(rate) -> None:
    """The CRPS is that of a normal distribution up to a share of 1 / sqrt(rate)."""
    found = Poisson(np.array([rate]))
    for z in (0.0, 1.0, -2.0):
        y = np.round(rate + z * np.sqrt(rate))
        far = (y - rate) / np.sqrt(rate)
        normal = far * (2.0 * stats.norm.cdf(far) - 1.0) + 2.0 * stats.norm.pdf(far)
        normal -= 1.0 / np.sqrt(np.pi)
        assert found.crps(y)[0] / np.sqrt(rate) == pytest.approx(normal, abs=3.0 / np.sqrt(rate))


@pytest.mark.parametrize("rate", [1e3, 1e6, 1e9])
def test_quantiles_are_the_smallest_counts(rate) -> None:
    levels = np.array([1e-6, 0.05, 0.5, 0.9, 0.999])
    law = Poisson(np.full(5, rate))
    for found, level in zip(law.quantile(levels).T, levels, strict=True):
        assert (law.cdf(found) >= level).all()
        assert (law.cdf(found - 1.0) < level).all()


def test_what_is_no_count_has_no_probability() -> None:
    law = Poisson(np.array([2.0]))
    assert law.log_pdf(-1.0)[0] == law.log_pdf(1.5)[0] == -np.inf
    assert law.cdf(-0.5)[0] == 0.0
    assert law.cdf(1.5)[0] == law.cdf(1.0)[0]


# -- NaN -----------------------------------------------------------------------------------


def test_a_built_in_metric_that_is_nan_is_an_error() -> None:
    objective = make_objective("squared_error")
    metric = Metric("odd", lambda y, prediction, weight: float("nan"), built_in=True)
    with pytest.raises(LossError, match="the metric 'odd' is NaN"):
        evaluate([metric], objective, np.zeros(2), np.zeros((1, 2)), None)


def test_early_stopping_by_a_score_that_is_nan_is_an_error(monkeypatch) -> None:
    from hedgerow import Dataset, train

    X = np.random.default_rng(0).normal(size=(200, 2))
    y = np.random.default_rng(1).poisson(2.0, 200).astype(float)
    monkeypatch.setattr(Poisson, "crps", lambda self, y: np.full(len(self), np.nan))
    params = {"objective": "poisson", "eval_metric": "crps", "n_estimators": 3}
    with pytest.raises(LossError, match="the metric 'crps' is NaN"):
        HedgerowRegressor(**params, early_stopping=True).fit(X, y)
    batches = Dataset.from_batches(lambda: iter([(X, y)]))
    with pytest.raises(LossError, match="the metric 'crps' is NaN"):
        train(params, batches, valid=Dataset(X, y))
