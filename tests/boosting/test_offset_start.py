"""A fit with an offset starts at the best constant score."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from hedgerow import Dataset, HedgerowRegressor, train
from hedgerow.objectives import OBJECTIVES, RANKING, make_objective, objective_for
from hedgerow.objectives.global_sums import AllRows
from tests.helpers.divided_rows import on_ranks

RNG = np.random.default_rng(0)
N = 400
WEIGHT = RNG.exponential(size=N)
COUNTS = RNG.poisson(RNG.gamma(1.0, 2.0, N)).astype(float)
AMOUNTS = RNG.gamma(2.0, size=N) + 0.01
LABELS = (RNG.random(N) < 0.3).astype(float)
CLASSES = RNG.choice(3, N, p=[0.2, 0.5, 0.3]).astype(float)
TARGETS = {
    **dict.fromkeys(("poisson", "tweedie"), COUNTS),
    **dict.fromkeys(("gamma", "log_normal", "squared_log_error"), AMOUNTS),
    **dict.fromkeys(("logistic", "exponential", "focal", "hinge", "cross_entropy"), LABELS),
    **dict.fromkeys(("softmax", "one_vs_all"), CLASSES),
    "aft": np.where(LABELS > 0.0, -AMOUNTS, AMOUNTS),
}
MOVED = [name for name in OBJECTIVES if name not in (*RANKING, "cox")]


def rows_for(name):
    objective = make_objective(name, 3 if name in ("softmax", "one_vs_all") else 1)
    target = TARGETS.get(name, RNG.normal(size=N))
    return objective, target, 0.5 * RNG.normal(size=(objective.n_outputs, N))


@pytest.mark.parametrize("name", MOVED)
def test_no_constant_is_better(name) -> None:
    objective, target, offset = rows_for(name)
    found = objective.start(AllRows(target, WEIGHT, offset))

    def loss(constant):
        return objective.loss(target, offset + np.atleast_1d(constant)[:, None], WEIGHT)

    settings = {"xatol": 1e-9, "fatol": 1e-14, "maxiter": 2000}
    for start in (found, np.zeros(len(found))):
        best = minimize(loss, start, method="Nelder-Mead", options=settings)
        assert loss(found) <= best.fun + 1e-12


@pytest.mark.parametrize("name", MOVED)
def test_a_constant_offset_is_taken_off(name) -> None:
    objective, target, offset = rows_for(name)
    found = objective.start(AllRows(target, WEIGHT, np.full_like(offset, 0.7)))
    plain = objective.initial_score(target, WEIGHT)
    if name == "softmax":  # scores of classes are relative to each other
        plain = plain + 0.7
    np.testing.assert_allclose(found + 0.7, plain, atol=1e-12)


@pytest.mark.parametrize("name", MOVED)
def test_bits_do_not_depend_on_how_rows_are_cut(name) -> None:
    objective, target, offset = rows_for(name)
    whole = objective.start(AllRows(target, WEIGHT, offset))
    divided = on_ranks(4, objective.start, target, WEIGHT, offset)
    assert divided.tobytes() == whole.tobytes()


@pytest.mark.parametrize("name", [*RANKING, "cox"])
def test_losses_of_an_order_begin_at_0(name) -> None:
    rows = AllRows(AMOUNTS, None, RNG.normal(size=(1, N)))
    assert make_objective(name).start(rows).tolist() == [0.0]


def test_no_events_at_all() -> None:
    rows = AllRows(np.zeros(3), None, np.array([[0.0, 1.0, 2.0]]))
    (found,) = make_objective("poisson").start(rows)
    assert -700.0 < found < -600.0
    (found,) = make_objective("logistic").start(rows)
    assert -40.0 < found < -30.0


# -- fits --------------------------------------------------------------------------------

X = {f"x{j}": np.round(RNG.normal(size=2000), 1) for j in range(3)}
EXPOSURE = RNG.uniform(0.01, 1.0, 2000)
CLAIMS = RNG.poisson(EXPOSURE * np.exp(0.5 * X["x0"] - 2.0)).astype(float)
TABLE = {**X, "o": np.log(EXPOSURE)}
SLOW = {"objective": "poisson", "n_estimators": 2, "learning_rate": 1e-9, "early_stopping": False}


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"tree_method": "exact"},
        {"grow_policy": "symmetric"},
        {"boosting": "dart"},
        {"early_stopping": "cv", "patience": 1},
        {"early_stopping": True},
    ],
)
def test_the_first_rounds_predict_all_claims(settings) -> None:
    booster = train({**SLOW, **settings}, Dataset(TABLE, CLAIMS, offset="o"))
    rows = 0.1 if settings.get("early_stopping") is True else 1e-6  # some are set aside
    assert booster.predict(TABLE).sum() == pytest.approx(CLAIMS.sum(), rel=rows)
    assert booster.predict({**TABLE, "o": 0.0 * EXPOSURE}).mean() == pytest.approx(
        CLAIMS.sum() / EXPOSURE.sum(), rel=rows
    )


@pytest.mark.parametrize("multi_strategy", ["one_output_per_tree", "multi_output_tree"])
def test_of_several_targets_each_has_its_own(multi_strategy) -> None:
    y, offset = np.column_stack([CLAIMS, CLAIMS + 1.0]), np.column_stack([TABLE["o"]] * 2)
    model = HedgerowRegressor(**SLOW, multi_strategy=multi_strategy).fit(X, y, offset=offset)
    np.testing.assert_allclose(model.predict(X, offset).sum(0), y.sum(0), rtol=1e-6)


def test_going_on_keeps_the_start_and_refit_moves_it() -> None:
    params = {**SLOW, "learning_rate": 0.3}
    rows = Dataset(TABLE, CLAIMS, offset="o")
    some, whole = (train({**params, "n_estimators": n}, rows) for n in (2, 4))
    more = train(params, rows, init_model=some)
    np.testing.assert_array_equal(more.predict(TABLE), whole.predict(TABLE))
    doubled = whole.refit(TABLE, 2.0 * CLAIMS, decay=0.0).model.forest.base_score
    np.testing.assert_allclose(doubled, whole.model.forest.base_score + np.log(2.0), rtol=1e-12)


def test_beside_the_scores_of_a_model_it_is_about_0() -> None:
    first = train({**SLOW, "n_estimators": 50, "learning_rate": 0.1}, Dataset(X, CLAIMS))
    offset = first.predict(X, kind="raw")
    second = train(SLOW, Dataset(X, CLAIMS, offset=offset))
    assert abs(second.model.forest.base_score[0]) < 0.05


def test_a_loss_of_the_users_own() -> None:
    def pair(y, raw):
        return raw - y, np.ones(len(y))

    offset, y = 3.0 * RNG.normal(size=N), RNG.normal(size=N)
    expected = np.average(y - offset, weights=WEIGHT)
    (found,) = objective_for(pair).start(AllRows(y, WEIGHT, offset[None]))
    assert found == pytest.approx(expected, rel=1e-10)
