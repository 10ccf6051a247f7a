"""The estimated cost of a fit bounds its folds and its model, on every machine alike."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from hedgerow import HedgerowClassifier, HedgerowRegressor
from hedgerow.boosting.automatic import cost
from hedgerow.boosting.automatic.cost import allowance_of, seconds_of_round
from hedgerow.boosting.automatic.recipe import HIGHEST_RATE, DataSize
from hedgerow.params import BoostParams
from tests.helpers.examples import examples

RNG = np.random.default_rng(7)


def wide(n_rows: int = 110, n_columns: int = 120) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of zeros and numbers, and a target of three columns."""
    X = np.where(RNG.random((n_rows, n_columns)) < 0.5, 0.0, RNG.normal(size=(n_rows, n_columns)))
    return X, (X[:, 0] + X[:, 1] > X[:, 2]).astype(np.int64)


ONE_KIND = {
    "random_state": 1, "max_leaves": 8, "max_depth": 8, "feature_crosses": None,
    "linear_leaves": False,
}  # fmt: skip
"""No candidates, so that fits are fast."""


def endless(n_rows: int = 900) -> tuple[np.ndarray, np.ndarray]:
    """Return rows without noise, whose loss falls for hundreds of rounds."""
    X = RNG.uniform(-1.0, 1.0, size=(n_rows, 4))
    return X, np.sin(4.0 * X[:, 0] * X[:, 1]) + X[:, 2] ** 2 - X[:, 3] + X[:, 0]


def bounded(monkeypatch: pytest.MonkeyPatch, short_fit: float) -> None:
    """Bound fits of all sizes by a plain fit of ``short_fit`` estimated seconds."""
    monkeypatch.setattr(cost, "_FREE_ROWS", 0)
    monkeypatch.setattr(cost, "_SMALL", 0)
    monkeypatch.setattr(cost, "_SHORT_FIT", short_fit)


@given(
    st.integers(200, 10_000_000), st.integers(1, 3_000), st.integers(1, 30), st.booleans(),
    st.sampled_from(["n_rows", "n_features", "n_outputs", "max_leaves"]),
)  # fmt: skip
@settings(max_examples=examples(25))
def test_more_of_anything_costs_no_less(
    n_rows: int, n_columns: int, n_outputs: int, shared: bool, more: str
) -> None:
    size, params = DataSize(n_rows, n_columns, n_outputs), BoostParams()
    if shared:
        params = replace(params, multi_strategy="multi_output_tree")
    larger, others = size, params
    if more == "max_leaves":
        others = replace(params, max_leaves=62)
    else:
        larger = replace(size, **{more: 2 * getattr(size, more)})
    assert seconds_of_round(larger, others) >= seconds_of_round(size, params) > 0.0
    allowance = allowance_of(size, params, 1)
    if n_rows < 10_000 and n_columns <= 100:
        assert allowance is None
    else:
        assert allowance is not None
        assert allowance.n_slow >= 1
        assert allowance.most_rounds(params) >= 1


@pytest.fixture(scope="module")
def usual() -> tuple[np.ndarray, np.ndarray, HedgerowClassifier]:
    """Return the rows of a wide table, labels, and their fit by one thread."""
    X, y = wide()
    return X, y, HedgerowClassifier(random_state=1, n_jobs=1).fit(X, y)


def test_a_wide_table_tries_fewer_candidates(usual, monkeypatch) -> None:
    X, y, free = usual
    monkeypatch.setattr(cost, "_SHORT_CANDIDATES", 0.0)
    monkeypatch.setattr(cost, "_CANDIDATES_OF_SMALL", 0.0)
    tried = HedgerowClassifier(random_state=1).fit(X, y).chosen_params_["tried"]
    all_tried = free.chosen_params_["tried"]
    assert len(tried) == 1 < len(all_tried)
    for name in ("score", "rounds"):
        assert tried[0][name] == all_tried[0][name]


@pytest.mark.parametrize("change", ["sparse", "weights of 0"])
def test_bounds_depend_on_the_size_alone(change: str, usual) -> None:
    """Neither threads, nor zeros, nor rows of weight 0 count."""
    X, y, one = usual
    given: tuple[Any, ...] = (sparse.csr_array(X), y)
    if change == "weights of 0":
        rows = np.vstack([X, RNG.normal(size=X.shape)])
        given = (rows, np.concatenate([y, 1 - y]), np.repeat([1.0, 0.0], len(y)))
    other = HedgerowClassifier(random_state=1, n_jobs=2).fit(*given)
    assert other.chosen_params_ == one.chosen_params_
    np.testing.assert_array_equal(other.predict_proba(X), one.predict_proba(X))


def test_long_folds_take_fast_rounds_at_the_end(monkeypatch) -> None:
    X, y = endless()
    free = HedgerowRegressor(**ONE_KIND).fit(X, y)
    bounded(monkeypatch, short_fit=0.02)
    model = HedgerowRegressor(**ONE_KIND).fit(X, y)
    size = DataSize(len(y), 4, squares=True)
    names = BoostParams.__dataclass_fields__
    first = BoostParams(**{k: v for k, v in model.repeat_params_.items() if k in names})
    allowance = allowance_of(size, first, 5)
    assert allowance is not None
    n_folds = len(model.evals_result_["cv"]["loss"])
    assert n_folds == allowance.n_slow + allowance.n_fast < len(free.evals_result_["cv"]["loss"])
    assert 0.08 < model.repeat_params_["learning_rate"] <= HIGHEST_RATE
    assert model.n_iter_ <= allowance.most_rounds(first)
    assert model.n_iter_ < free.n_iter_
    again = HedgerowRegressor(**model.repeat_params_).fit(X, y)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    new, truth = endless()
    errors = [np.mean((one.predict(new) - truth) ** 2) for one in (free, model)]
    assert errors[1] < 1.3 * errors[0] < 0.3 * np.var(truth)


def test_folds_that_end_by_themselves_are_those_without_bounds(monkeypatch) -> None:
    X, y = endless()
    noisy = y + 2.0 * RNG.normal(size=len(y))
    free = HedgerowRegressor(**ONE_KIND).fit(X, noisy)
    bounded(monkeypatch, short_fit=100.0)
    assert HedgerowRegressor(**ONE_KIND).fit(X, noisy).booster_.to_bytes() == (
        free.booster_.to_bytes()
    )


def test_an_explicit_rate_is_kept(monkeypatch) -> None:
    bounded(monkeypatch, short_fit=0.001)
    X, y = endless()
    model = HedgerowRegressor(**ONE_KIND, learning_rate=0.2).fit(X, y)
    assert model.repeat_params_["learning_rate"] == 0.2
