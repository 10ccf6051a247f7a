"""Targets, weights and offsets over the whole range of float64."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from hedgerow import Dataset, HedgerowRegressor, train
from hedgerow.errors import DataError, HedgerowWarning
from hedgerow.objectives import make_objective
from hedgerow.objectives.domain import LARGEST
from hedgerow.objectives.global_sums import AllRows
from hedgerow.objectives.line_search import LONGEST_STEP
from tests.helpers.chunked import Rows, divided_into, same_bytes

RNG = np.random.default_rng(0)
N = 300
X = RNG.normal(size=(N, 2))
SIGNAL = np.round(X[:, 0] + 0.1 * RNG.normal(size=N), 3)
COUNTS = RNG.poisson(np.exp(SIGNAL)).astype(float)
SHORT = {"n_estimators": 5, "learning_rate": 0.3, "early_stopping": False}
SQUARES = ["squared_error", "huber", "pseudo_huber", "fair", "log_cosh", "expectile", "normal"]
POWERS = [-1074, -1022, -500, -470, -464, -30, 0, 300]


def fit(y, objective="squared_error", **rows):
    model = HedgerowRegressor(objective=objective, **SHORT)
    return model.fit(X, y, **rows).predict(X)


@pytest.mark.parametrize("objective", SQUARES)
@pytest.mark.parametrize("power", POWERS)
def test_targets_are_learned_or_refused(objective, power) -> None:
    y = np.ldexp(SIGNAL, power)
    if np.ptp(y) >= 1e-140:
        found = fit(y, objective)
        if power <= 0 or objective not in SQUARES[1:5]:  # these have a distance in units of y
            assert np.corrcoef(np.ldexp(found, -power), SIGNAL)[0, 1] > 0.7
    else:
        with pytest.raises(DataError, match=r"squares differences .* at most .*1e-140"):
            fit(y, objective)


@pytest.mark.parametrize("objective", ["absolute_error", "quantile"])
@pytest.mark.parametrize("power", [-1060, -1022, -600, 0, 300])
def test_losses_without_squares_take_any(objective, power) -> None:
    found = fit(np.ldexp(SIGNAL, power), objective)
    assert np.corrcoef(np.ldexp(found, -power), SIGNAL)[0, 1] > 0.7


@pytest.mark.parametrize(("power", "exponent"), [(450, 99), (-450, -99), (-480, 0), (466, 0)])
def test_weights_and_targets_are_judged_together(power, exponent) -> None:
    weight = np.full(N, 10.0**exponent)
    with pytest.raises(DataError, match=r"squares differences|within 1e[+]140"):
        fit(np.ldexp(SIGNAL, power), sample_weight=weight)


def test_what_offsets_leave_counts() -> None:
    with pytest.raises(DataError, match="differs by at most"):
        fit(np.zeros(N), offset=1e-200 * SIGNAL)
    for y, offset in ((np.zeros(N), SIGNAL), (SIGNAL, 1e-300 * SIGNAL), (1e-200 * SIGNAL, SIGNAL)):
        fit(y, offset=offset)


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.int8, np.uint16, np.float64])
def test_constant_and_narrow_types(dtype) -> None:
    np.testing.assert_allclose(fit(np.full(N, 3, dtype)), 3.0)
    assert np.ptp(fit((COUNTS > 1).astype(dtype))) > 0.2
    tiny = (SIGNAL * np.float32(1e-40)).astype(np.float32)  # subnormal in float32
    assert np.corrcoef(fit(tiny) * 1e40, SIGNAL)[0, 1] > 0.7


@pytest.mark.parametrize("tree_method", ["hist", "exact"])
def test_rows_in_batches_and_several_targets(tree_method) -> None:
    parts = [slice(i, i + 70) for i in range(0, N, 70)]

    def of(y):
        return Dataset.from_batches(lambda: ((X[part], y[part]) for part in parts))

    params = {**SHORT, "tree_method": tree_method}
    with pytest.raises(DataError, match="differs by at most"):
        train(params, of(1e-200 * SIGNAL))
    nearly = np.where(np.arange(N) < 140, 1e-200 * SIGNAL, SIGNAL)  # a batch is narrow, all are not
    train(params, of(nearly))
    with pytest.raises(DataError, match="differs by at most"):
        fit(np.column_stack([SIGNAL, 1e-200 * SIGNAL]))


@pytest.mark.parametrize(
    ("objective", "y", "weight"),
    [
        ("poisson", 1e-9 * COUNTS, None),
        ("tweedie", 1e-30 * COUNTS, None),
        ("pseudo_huber", 1e9 * SIGNAL, None),
        ("squared_error", SIGNAL, np.full(N, 1e-9)),
    ],
)
def test_a_constant_for_want_of_hessians_warns(objective, y, weight) -> None:
    with pytest.warns(UserWarning, match=r"no tree has a split.*min_child_weight=0\.001"):
        assert np.ptp(fit(y, objective, sample_weight=weight)) == 0.0
    given = X, y, np.ones(N) if weight is None else weight
    data = Dataset.from_batches(lambda: iter([given]))
    with pytest.warns(UserWarning, match="no tree has a split"):
        train({"objective": objective, **SHORT}, data)


def test_other_constants_do_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(np.ones(N))
        fit(np.zeros(N), "poisson")
        data = Dataset.from_batches(lambda: iter([(X, np.zeros(N))]))
        train({"objective": "poisson", **SHORT}, data)
        HedgerowRegressor(**SHORT).fit(X[:5], SIGNAL[:5])
        HedgerowRegressor(**SHORT, gamma=1e9).fit(X, SIGNAL)


def test_a_delta_far_below_the_targets_is_worth_a_warning() -> None:
    rng = np.random.default_rng(8)
    X = rng.normal(size=(300, 2))
    y = 100.0 * X[:, 0]
    few = {"n_estimators": 10, "early_stopping": False}
    with pytest.warns(UserWarning, match="delta=1e-06 of objective 'huber' is far below"):
        HedgerowRegressor(objective="huber", delta=1e-6, **few).fit(X, y)
    for objective, delta in (("huber", 50.0), ("fair", 0.1), ("pseudo_huber", 0.1)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            HedgerowRegressor(objective=objective, delta=delta, **few).fit(X, y)


@pytest.mark.parametrize("power", [-300, 300])
def test_automatic_values_do_not_depend_on_the_unit_of_the_target(power) -> None:
    rng = np.random.default_rng(0)
    table = rng.normal(size=(200, 3))
    y = table[:, 0] + 0.3 * table[:, 1] * table[:, 2] + 0.3 * rng.normal(size=200)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one, other = (
            HedgerowRegressor(n_jobs=1).fit(table, np.ldexp(y, p)).chosen_params_
            for p in (0, power)
        )
    tried, again = one.pop("tried"), other.pop("tried")
    assert other == one
    assert len(again) == len(tried) > 2
    assert [entry["rounds"] for entry in again] == [entry["rounds"] for entry in tried]


@pytest.mark.parametrize("largest", [1e30, LARGEST])
@pytest.mark.parametrize(
    "loss",
    [
        {"objective": "poisson"},
        {"objective": "gamma"},
        {"objective": "tweedie"},
        {"objective": "tweedie", "tweedie_power": 1.01},
        {"objective": "tweedie", "tweedie_power": 1.99},
        {"objective": "squared_log_error"},
    ],
    ids=lambda loss: "-".join(map(str, loss.values())),
)
@pytest.mark.parametrize("leaves", ["newton", "line_search"])
def test_predictions_of_the_largest_targets_are_finite(
    loss: dict[str, Any], largest: float, leaves: str
) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = np.exp(X[:, 0] + rng.normal(size=300))
    y[7] = largest
    settings = {"n_estimators": 60, "learning_rate": 0.3, "early_stopping": False}
    with warnings.catch_warnings():
        warnings.simplefilter("error", HedgerowWarning)
        model = HedgerowRegressor(**loss, **settings, leaf_estimation=leaves).fit(X, y)
        assert np.isfinite(model.predict(X)).all()
        assert model.booster_.predict(X, kind="raw").max() < 1.1 * np.log(largest) + 10.0


@pytest.mark.parametrize("settings", [{}, {"n_estimators": 50, "early_stopping": False}], ids=str)
def test_one_far_count_does_not_raise_scores_beyond_it(settings: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 3))
    y = rng.poisson(np.exp(X[:, 0])).astype(float)
    y[7] = 1e9
    model = HedgerowRegressor(objective="poisson", random_state=0, n_jobs=1, **settings)
    raw = model.fit(X, y).booster_.predict(X, kind="raw")
    assert raw.max() < np.log(1e9) + 2.0
    params = {"objective": "poisson", "n_estimators": 20, "subsample": 0.6, "min_samples_leaf": 1}
    with divided_into(400):
        same_bytes(params, Rows.of_arrays(X[:1500], np.append(y[:1499], 1e9)))


def _far_rows(loss: str, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return counts or amounts with one far target, and others that depend on the first column."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 3))
    y = rng.poisson(np.exp(X[:, 0])).astype(float)
    if loss == "gamma":
        y += 0.5
    y[7] = 1e9
    return X, y


@pytest.mark.parametrize("multi_strategy", ["one_output_per_tree", "multi_output_tree"])
@pytest.mark.parametrize("grow_policy", ["leafwise", "symmetric"])
def test_one_far_count_among_several_targets(multi_strategy: str, grow_policy: str) -> None:
    X, far = _far_rows("poisson", 4000)
    near = np.random.default_rng(1).poisson(np.exp(X[:, 1])).astype(float)
    params = {
        "objective": "poisson",
        "n_estimators": 30,
        "learning_rate": 0.3,
        "multi_strategy": multi_strategy,
        "grow_policy": grow_policy,
    }
    booster = train(params, Dataset(X, np.column_stack([near, far])))
    raw = booster.predict(X, kind="raw")
    assert raw.max() < np.log(1e9) + 2.0
    assert raw[:, 0].max() > 0.5  # the other target is learned


@pytest.mark.parametrize("loss", ["gamma", "poisson"])
@pytest.mark.parametrize("more", [{}, {"linear_leaves": True}], ids=str)
def test_one_far_target_does_not_raise_log_means_beyond_it(loss: str, more: dict[str, Any]) -> None:
    X, y = _far_rows(loss, 3000)
    params = {"objective": loss, "n_estimators": 30, "learning_rate": 1.0, "min_samples_leaf": 1}
    with divided_into(900):
        booster = same_bytes({**params, **more}, Rows.of_arrays(X, y))
    raw = booster.predict(X, kind="raw").reshape(len(X), -1)[:, 0]
    assert np.abs(raw).max() < np.log(1e9) + 2.0


@pytest.mark.parametrize("spread", [2.0, 3.0, 4.0])
def test_amounts_of_many_magnitudes_are_learned_by_gamma(spread: float) -> None:
    """Most targets are far below the mean, which is the start."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 3))
    y = np.exp(spread * X[:, 0]) * rng.gamma(2.0, 0.5, 20_000)
    booster = train({"objective": "gamma", "n_estimators": 100}, Dataset(X, y))
    raw = booster.predict(X, kind="raw")
    assert np.corrcoef(raw, X[:, 0])[0, 1] > 0.99
    assert raw.min() > np.log(y).min()


@pytest.mark.parametrize(("n_low", "limited"), [(1, False), (15, False), (40, True)])
@pytest.mark.parametrize("weighted", [False, True])
def test_steps_of_gamma_are_limited_only_if_leaves_may_need_it(
    n_low: int, limited: bool, weighted: bool
) -> None:
    y = np.append(np.full(500 - n_low, 100.0), np.full(n_low, 0.1))
    weight = np.append(np.full(500 - n_low, 1.0), np.full(n_low, 2.0)) if weighted else None
    if weighted and limited is False:
        y[-(n_low // 2 + 1) :] = 100.0  # twice the weight, half the rows
    rows = AllRows(y, weight)
    limit = make_objective("gamma").limited_for(rows).longest_step(reg_lambda=1.0, rate=0.1)
    assert (limit == LONGEST_STEP) == limited


@pytest.mark.parametrize("learning_rate", [0.3, 1.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_limited_steps_keep_ordered_leaves_with_lines_in_order(
    seed: int, learning_rate: float
) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(3000, 2))
    y = np.exp(3.0 * X[:, 1] + X[:, 0]) * rng.gamma(2.0, 0.5, 3000)
    params = {
        "objective": "gamma",
        "n_estimators": 10,
        "learning_rate": learning_rate,
        "linear_leaves": True,
        "min_samples_leaf": 1,
        "monotone_constraints": {"x0": 1},
    }
    with divided_into(900):
        booster = same_bytes(params, Rows.of_arrays(X, y))
    assert booster.verify_monotone().verdict == "proved"
