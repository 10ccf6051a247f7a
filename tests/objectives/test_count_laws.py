"""Poisson and negative binomial distributions equal exact sums."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from hedgerow import HedgerowRegressor
from hedgerow.errors import LossError
from hedgerow.metrics import evaluate
from hedgerow.metrics.base import Metric
from hedgerow.objectives import make_objective
from hedgerow.objectives.distributions.predicted import NegativeBinomial, Poisson
from tests.helpers.marking import crossed


def exact_probabilities(rate, size, stop):
    """Return the probabilities of 0 to ``stop - 1``, computed with 200-bit fractions."""
    chance = Fraction(rate) / (Fraction(size) + Fraction(rate))
    found, weight = [], Fraction(1)
    for k in range(stop):
        found.append(weight)
        weight *= (Fraction(size) + k) / (k + 1) * chance
        weight = Fraction(round(weight * 2**200), 2**200)
    total = sum(found)
    return [part / total for part in found]


def exact_crps(chances, y):
    below, total = Fraction(0), Fraction(0)
    for k, chance in enumerate(chances):
        below += chance
        total += (below - (k >= y)) ** 2
    return float(total)


@pytest.mark.parametrize("rate", [0.01, 1.0, 6.0, 15.0])
@pytest.mark.parametrize("size", [11.0, 1e3, 1e5, 3e6])
def test_negative_binomial_is_the_exact_sum(rate, size) -> None:
    chances = exact_probabilities(rate, size, 150)
    law = NegativeBinomial(np.array([rate]), np.array([size]))
    for y in (0, 1, 4, 30):
        (found,) = law.crps(float(y))
        assert found == pytest.approx(exact_crps(chances, y), rel=1e-6)
        assert law.cdf(y)[0] == pytest.approx(float(sum(chances[: y + 1])), rel=1e-6)
        assert np.exp(law.log_pdf(y))[0] == pytest.approx(float(chances[y]), rel=1e-6)


@crossed(
    rate={str(rate): rate for rate in (1e-3, 0.7, 20.0, 4e3, 1e6)},
    size={str(size): size for size in (0.01, 0.5, 9.9, 10.1, 300.0)},
)
def test_half_the_mean_difference_does_not_jump(rate, size) -> None:
    """The test compares with the sum of ``F (1 - F)`` of SciPy's distribution."""
    law = stats.nbinom(size, size / (size + rate))
    end = law.ppf(1.0 - 1e-15) + 50
    if end > 3e7:
        return
    below = law.cdf(np.arange(end))
    own = NegativeBinomial(np.array([rate]), np.array([size]))
    at = float(round(rate))
    expected = np.sum((below - (np.arange(end) >= at)) ** 2)
    assert own.crps(at)[0] == pytest.approx(expected, rel=1e-9)


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
    for law in (Poisson(np.full(5, rate)), NegativeBinomial(np.full(5, rate), np.full(5, 2.5))):
        for found, level in zip(law.quantile(levels).T, levels, strict=True):
            assert (law.cdf(found) >= level).all()
            assert (law.cdf(found - 1.0) < level).all()


def test_what_is_no_count_has_no_probability() -> None:
    for law in (Poisson(np.array([2.0])), NegativeBinomial(np.array([2.0]), np.array([3.0]))):
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
    monkeypatch.setattr(NegativeBinomial, "crps", lambda self, y: np.full(len(self), np.nan))
    params = {"objective": "negative_binomial", "eval_metric": "crps", "n_estimators": 3}
    with pytest.raises(LossError, match="the metric 'crps' is NaN"):
        HedgerowRegressor(**params, early_stopping=True).fit(X, y)
    batches = Dataset.from_batches(lambda: iter([(X, y)]))
    with pytest.raises(LossError, match="the metric 'crps' is NaN"):
        train(params, batches, valid=Dataset(X, y))
