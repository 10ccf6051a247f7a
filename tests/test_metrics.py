"""Metrics: equal to scikit-learn's, weights as repeated rows, helpful errors."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import huber
from sklearn import metrics as reference

from hedgerow.errors import DataError, LossError, ParameterError
from hedgerow.metrics import METRICS, Metric, evaluate, make_metrics, task_of
from hedgerow.objectives import make_objective

RNG = np.random.default_rng(0)
N = 60
NUMBERS = RNG.normal(size=N)
GUESS = NUMBERS + RNG.normal(size=N)
LABELS = RNG.integers(0, 2, N).astype(float)
P = RNG.uniform(0.05, 0.95, N)
PROBABILITY = np.column_stack([1 - P, P])
THREE = RNG.integers(0, 3, N).astype(float)
RAW3 = RNG.normal(size=(3, N))
COUNTS = RNG.poisson(2.0, N) + 1.0
RATES = COUNTS * np.exp(RNG.normal(size=N))
TIMES = np.where(RNG.random(N) < 0.7, 1.0, -1.0) * np.ceil(RNG.exponential(20.0, N))
RISK = np.round(RNG.normal(size=N), 1)
WEIGHT = RNG.integers(1, 5, N).astype(float)

REFERENCE = {
    "rmse": lambda y, p, w: reference.root_mean_squared_error(y, p, sample_weight=w),
    "mae": lambda y, p, w: reference.mean_absolute_error(y, p, sample_weight=w),
    "r2": lambda y, p, w: reference.r2_score(y, p, sample_weight=w),
    "logloss": lambda y, p, w: reference.log_loss(y, p, sample_weight=w),
    "accuracy": lambda y, p, w: reference.accuracy_score(y, p.argmax(1), sample_weight=w),
    "error": lambda y, p, w: 1 - reference.accuracy_score(y, p.argmax(1), sample_weight=w),
    "mape": lambda y, p, w: reference.mean_absolute_percentage_error(y, p, sample_weight=w),
    "msle": lambda y, p, w: reference.mean_squared_log_error(y, p, sample_weight=w),
    "poisson_deviance": lambda y, p, w: reference.mean_poisson_deviance(y, p, sample_weight=w),
    "gamma_deviance": lambda y, p, w: reference.mean_gamma_deviance(y, p, sample_weight=w),
    "tweedie_deviance": lambda y, p, w: reference.mean_tweedie_deviance(
        y, p, sample_weight=w, power=1.5
    ),
    "pinball": lambda y, p, w: reference.mean_pinball_loss(y, p, sample_weight=w, alpha=0.5),
    "expectile": lambda y, p, w: reference.mean_squared_error(y, p, sample_weight=w) / 2,
    "huber": lambda y, p, w: np.average(huber(1.0, p - y), weights=w),
    "concordance": lambda y, p, w: harrell(y, p, w),
    "auc": lambda y, p, w: reference.roc_auc_score(y, p[:, 1], sample_weight=w),
}


OF_RATES = ("mape", "msle", "poisson_deviance", "gamma_deviance", "tweedie_deviance")


def harrell(y, risk, weight):
    """Concordance, pair by pair."""
    weight = np.ones(len(y)) if weight is None else weight
    right = total = 0.0
    for i in np.flatnonzero(y > 0):
        for j in range(len(y)):
            if y[i] < abs(y[j]) or (y[i] == -y[j]):
                pair = weight[i] * weight[j]
                total += pair
                right += pair * (1.0 if risk[i] > risk[j] else 0.5 if risk[i] == risk[j] else 0.0)
    return right / total


def data_for(name: str) -> tuple[np.ndarray, np.ndarray]:
    if name in OF_RATES:
        return COUNTS, RATES
    if name == "concordance":
        return TIMES, RISK
    return (NUMBERS, GUESS) if "regression" in METRICS[name].tasks else (LABELS, PROBABILITY)


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["unweighted", "weighted"])
def test_metric_equals_scikit_learn(name, weight) -> None:
    y, prediction = data_for(name)
    score = METRICS[name].function(y, prediction, weight)
    assert type(score) is float
    assert score == pytest.approx(REFERENCE[name](y, prediction, weight), rel=1e-12)


@pytest.mark.parametrize("name", METRICS)
def test_weight_k_is_a_row_repeated_k_times(name) -> None:
    y, prediction = data_for(name)
    times = WEIGHT.astype(int)
    repeated = METRICS[name].function(y.repeat(times), prediction.repeat(times, axis=0), None)
    assert METRICS[name].function(y, prediction, WEIGHT) == pytest.approx(repeated, rel=1e-12)


@pytest.mark.parametrize("name", METRICS)
def test_direction_is_that_of_a_perfect_prediction(name) -> None:
    y, prediction = data_for(name)
    perfect = y if "regression" in METRICS[name].tasks else np.column_stack([1 - y, y])
    if name == "concordance":
        perfect = -np.abs(y)
    metric = METRICS[name]
    assert metric.improves(metric.function(y, perfect, None), metric.function(y, prediction, None))


@pytest.mark.parametrize(
    ("objective", "parameters", "name", "same"),
    [
        ("quantile", {"quantile": 0.8}, "pinball", lambda y, p: reference.mean_pinball_loss(
            y, p, alpha=0.8)),
        ("tweedie", {"tweedie_power": 1.2}, "tweedie_deviance",
         lambda y, p: reference.mean_tweedie_deviance(y, p, power=1.2)),
        ("huber", {"delta": 0.3}, "huber", lambda y, p: huber(0.3, p - y).mean()),
        ("expectile", {"expectile": 0.8}, "expectile",
         lambda y, p: np.mean(np.where(p > y, 0.2, 0.8) * (p - y) ** 2)),
    ],
)  # fmt: skip
def test_metrics_take_the_parameter_of_the_loss(objective, parameters, name, same) -> None:
    objective = make_objective(objective, parameters=parameters)
    (metric,) = make_metrics(name, objective)
    assert metric.function(COUNTS, RATES, None) == pytest.approx(same(COUNTS, RATES), rel=1e-12)
    assert metric.function(COUNTS, RATES, None) != METRICS[name].function(COUNTS, RATES, None)
    # A loss is half the deviance, a pinball, a Huber or an expectile loss.
    raw = np.log(RATES)[None] if name == "tweedie_deviance" else RATES[None]
    half = 0.5 if name == "tweedie_deviance" else 1.0
    found = objective.loss(COUNTS, raw, WEIGHT)
    assert found == pytest.approx(half * metric.function(COUNTS, RATES, WEIGHT), rel=1e-12)


@pytest.mark.parametrize("name", ["poisson_deviance", "gamma_deviance", "tweedie_deviance"])
def test_deviances_need_positive_predictions(name) -> None:
    with pytest.raises(DataError, match=r"positive predictions.*row 3 is 0\.0"):
        METRICS[name].function(COUNTS, np.where(np.arange(N) == 3, 0.0, RATES), None)
    with pytest.raises(DataError, match="row 2"):
        METRICS[name].function(np.where(np.arange(N) == 2, -1.0, COUNTS), RATES, None)


def test_concordance_needs_pairs() -> None:
    with pytest.raises(DataError, match="needs an event before"):
        METRICS["concordance"].function(-np.abs(TIMES), RISK, None)


def test_default_is_the_loss_of_the_objective() -> None:
    objective = make_objective("softmax", 3)
    (metric,) = make_metrics(None, objective)
    assert metric.name == "loss"
    found = evaluate([metric], objective, THREE, RAW3, WEIGHT)
    assert found == {"loss": objective.loss(THREE, RAW3, WEIGHT)}
    logloss = evaluate(make_metrics("logloss", objective), objective, THREE, RAW3, WEIGHT)
    assert logloss["logloss"] == pytest.approx(found["loss"], rel=1e-12)


@pytest.mark.parametrize(
    ("objective", "n_outputs", "task"),
    [
        ("squared_error", 1, "regression"),
        ("logistic", 1, "two classes"),
        ("softmax", 2, "two classes"),
        ("softmax", 3, "classes"),
    ],
)
def test_task_of_objective(objective, n_outputs, task) -> None:
    assert task_of(make_objective(objective, n_outputs)) == task


@pytest.mark.parametrize(
    ("eval_metric", "words"),
    [
        ("rsme", ["unknown eval_metric 'rsme'", "Did you mean 'rmse'?"]),
        ("auc", ["'auc' is for two classes", "this model is for regression", "'mae'"]),
        (["mae", "mae"], ["'mae' is given twice"]),
        ([], ["eval_metric must be"]),
        (3, ["eval_metric must be"]),
        ([3], ["unknown eval_metric 3"]),
    ],
)
def test_wrong_metric_is_named_with_a_hint(eval_metric, words) -> None:
    with pytest.raises(ParameterError) as error:
        make_metrics(eval_metric, make_objective("squared_error"))
    for word in words:
        assert word in str(error.value)


def test_auc_of_one_class_is_an_error() -> None:
    with pytest.raises(DataError, match="both classes"):
        METRICS["auc"].function(np.ones(3), np.full((3, 2), 0.5), None)


def largest_error(y, prediction, weight):
    return np.abs(y - prediction).max()


def test_custom_metric_gets_read_only_views() -> None:
    objective = make_objective("squared_error")

    def spoiler(y, prediction, weight):
        y[0] = 7.0

    assert evaluate(
        make_metrics(largest_error, objective), objective, NUMBERS, GUESS[None], None
    ) == {"largest_error": np.abs(NUMBERS - GUESS).max()}
    with pytest.raises(LossError, match="read-only"):
        evaluate(make_metrics(spoiler, objective), objective, NUMBERS, GUESS[None], WEIGHT)


def test_custom_metric_says_whether_higher_is_better() -> None:
    def skill(y, prediction, weight):
        return 1.0

    objective = make_objective("squared_error")
    assert not make_metrics(skill, objective)[0].higher_is_better
    skill.higher_is_better = True
    assert make_metrics([skill, "mae"], objective)[0].higher_is_better


@pytest.mark.parametrize("returned", [None, "good", float("nan"), True, np.ones(2)])
def test_custom_metric_must_return_a_number(returned) -> None:
    metric = Metric("mine", lambda y, p, w: returned)
    with pytest.raises(LossError, match="'mine' returned"):
        evaluate([metric], make_objective("squared_error"), NUMBERS, GUESS[None], None)


def test_custom_metric_that_raises_is_named() -> None:
    metric = Metric("mine", lambda y, p, w: 1 / 0)
    with pytest.raises(LossError, match="'mine' raised ZeroDivisionError") as error:
        evaluate([metric], make_objective("squared_error"), NUMBERS, GUESS[None], None)
    assert isinstance(error.value.__cause__, ZeroDivisionError)
