"""Metrics: equal to scikit-learn's, weights as repeated rows, helpful errors."""

from __future__ import annotations

import numpy as np
import pytest
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
WEIGHT = RNG.integers(1, 5, N).astype(float)

REFERENCE = {
    "rmse": lambda y, p, w: reference.root_mean_squared_error(y, p, sample_weight=w),
    "mae": lambda y, p, w: reference.mean_absolute_error(y, p, sample_weight=w),
    "r2": lambda y, p, w: reference.r2_score(y, p, sample_weight=w),
    "logloss": lambda y, p, w: reference.log_loss(y, p, sample_weight=w),
    "accuracy": lambda y, p, w: reference.accuracy_score(y, p.argmax(1), sample_weight=w),
    "error": lambda y, p, w: 1 - reference.accuracy_score(y, p.argmax(1), sample_weight=w),
    "auc": lambda y, p, w: reference.roc_auc_score(y, p[:, 1], sample_weight=w),
}


def data_for(name: str) -> tuple[np.ndarray, np.ndarray]:
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
    metric = METRICS[name]
    assert metric.improves(metric.function(y, perfect, None), metric.function(y, prediction, None))


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
