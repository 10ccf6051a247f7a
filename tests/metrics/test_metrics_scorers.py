"""Scorers of scikit-learn, and metrics of groups, as ``eval_metric``."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from sklearn.metrics import fbeta_score, get_scorer, make_scorer, max_error

from hedgerow import Dataset, HedgerowClassifier, HedgerowRegressor, train
from hedgerow.errors import DataTypeError, LossError, ParameterError
from hedgerow.io import model_to_bytes
from hedgerow.metrics import make_metrics
from hedgerow.objectives import make_objective

RNG = np.random.default_rng(5)
N = 400
X = RNG.normal(size=(N, 3))
Y = X[:, 0] + RNG.normal(size=N)
THREE = np.digitize(Y, [-0.5, 0.8])
WEIGHT = RNG.uniform(0.5, 2.0, N)
SETTINGS = {"n_estimators": 4, "early_stopping": False, "n_jobs": 1}
F2 = make_scorer(fbeta_score, beta=2)
COST = make_scorer(lambda y, p, sample_weight=None: np.abs(y - p).sum(), greater_is_better=False)


def last_scores(model, y, eval_metric, weight=None) -> dict[str, float]:
    """Return the scores of the last round on rows that are not trained on, and the model."""
    model.set_params(eval_metric=eval_metric, **SETTINGS)
    half = N // 2
    val = {"sample_weight_val": None if weight is None else weight[half:]}
    model.fit(X[:half], y[:half], None if weight is None else weight[:half],
              X_val=X[half:], y_val=y[half:], **val)  # fmt: skip
    return {name: curve[-1] for name, curve in model.evals_result_["validation"].items()}


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["unweighted", "weighted"])
@pytest.mark.parametrize(
    ("make", "y", "names"),
    [
        (HedgerowRegressor, Y, ["neg_mean_absolute_error", "neg_root_mean_squared_error",
                                "neg_median_absolute_error", "explained_variance"]),
        (HedgerowClassifier, THREE, ["neg_log_loss", "f1_macro", "roc_auc_ovr",
                                     "roc_auc_ovr_weighted", "balanced_accuracy"]),
        (HedgerowClassifier, (Y > 0.0).astype(int), [
            "roc_auc", "average_precision", "f1", "jaccard", "neg_brier_score",
            "matthews_corrcoef", "d2_log_loss_score", "precision", "recall"]),
    ],
)  # fmt: skip
def test_scorers_by_name_are_those_of_the_model(make, y, names, weight) -> None:
    model = make()
    found = last_scores(model, y, names, weight)
    half = N // 2
    for name in names:
        more = {} if weight is None else {"sample_weight": weight[half:]}
        wanted = get_scorer(name)(model, X[half:], y[half:], **more)
        assert found[name] == pytest.approx(wanted, rel=1e-9), name


def test_roc_auc_ovo_without_weights() -> None:
    model = HedgerowClassifier()
    found = last_scores(model, THREE, ["roc_auc_ovo", "roc_auc_ovo_weighted"])
    for name, score in found.items():
        assert score == pytest.approx(get_scorer(name)(model, X[N // 2 :], THREE[N // 2 :]))


def test_scorer_objects_and_functions_of_an_estimator() -> None:
    def sharpness(estimator, X, y):
        return float(np.abs(estimator.predict_proba(X)[:, 1] - 0.5).mean())

    model, y = HedgerowClassifier(), (Y > 0.0).astype(int)
    found = last_scores(model, y, [F2, sharpness])
    assert list(found) == [str(F2), "sharpness"]
    assert found[str(F2)] == pytest.approx(F2(model, X[N // 2 :], y[N // 2 :]))
    assert found["sharpness"] == pytest.approx(sharpness(model, X[N // 2 :], None))
    lower = make_metrics(COST, make_objective("squared_error"))[0]
    assert lower.higher_is_better  # the sign is the scorer's


def test_scorers_of_two_softmax_outputs_and_of_several_raw_scores() -> None:
    for objective, y in (("softmax", (Y > 0).astype(int)), ("one_vs_all", THREE)):
        model = HedgerowClassifier(objective=objective)
        names = ["neg_log_loss", "accuracy"] + (["roc_auc"] if objective == "softmax" else [])
        found = last_scores(model, y, names)
        for name in names:
            wanted = get_scorer(name)(model, X[N // 2 :], y[N // 2 :])
            assert found[name] == pytest.approx(wanted, rel=1e-9)


def test_weights_for_a_scorer_without_weights_are_an_error() -> None:
    scorer = make_scorer(max_error, greater_is_better=False)
    last_scores(HedgerowRegressor(), Y, scorer)
    with pytest.raises(ParameterError, match="takes no weights"):
        last_scores(HedgerowRegressor(), Y, scorer, WEIGHT)


def test_what_scikit_learn_refuses_is_named() -> None:
    with pytest.raises(
        LossError, match=r"round 1: eval_metric 'neg_mean_squared_log_error' raised"
    ):
        last_scores(HedgerowRegressor(), Y, "neg_mean_squared_log_error")
    with pytest.raises(
        ParameterError, match=r"'neg_mean_absolute_eror'.*'neg_mean_absolute_error'"
    ):
        last_scores(HedgerowRegressor(), Y, "neg_mean_absolute_eror")
    with pytest.raises(ParameterError, match=r"'accuracy' is a scorer|'accuracy' is for"):
        make_metrics("accuracy", make_objective("lambdarank"))
    with pytest.raises(ParameterError, match="is a scorer of scikit-learn"):
        make_metrics(F2, make_objective("lambdarank"))


@pytest.mark.parametrize(
    ("name", "objective", "words"),
    [
        ("pinball@1.5", "quantile", "less than 1; got '1.5'"),
        ("top_k_error@two", "softmax", "an integer"),
        ("rmse@3", "squared_error", "'rmse' has no parameter"),
        ("binary_loglos", "logistic", "Did you mean 'binary_logloss'"),
        ("recall", "lambdarank", "recall@10"),
        ("mrr-", "lambdarank", "minus sign"),
        ("auc_mu", "logistic", "for classes, but this model is for two classes"),
    ],
)
def test_wrong_names_say_what_is_right(name, objective, words) -> None:
    n_outputs = 3 if objective == "softmax" else 1
    with pytest.raises(ParameterError, match=words):
        make_metrics(name, make_objective(objective, n_outputs))


def test_a_value_in_the_name_goes_before_that_of_the_loss() -> None:
    objective = make_objective("quantile", parameters={"quantile": 0.8})
    own, given = make_metrics(["pinball", "pinball@0.1"], objective)
    y, p = np.array([1.0]), np.array([0.0])
    assert (own.function(y, p, None), given.function(y, p, None)) == (0.8, 0.1)


# ---- groups


GROUP = RNG.choice(["a", "b", "c"], N)


def rows_of(rows, groups, g):
    return X[rows][groups[rows] == g]


# -- names -----------------------------------------------------------------------------


class Distance:
    def __call__(self, y_true, prediction, weight):
        return float(np.abs(y_true - prediction).mean())


class Squares:
    def __call__(self, y, raw):
        return raw - y, np.ones(len(y))


class Rate:
    def __call__(self, number):
        return 0.1


def distance(y_true, prediction, weight, power=1.0):
    return float((np.abs(y_true - prediction) ** power).mean())


def scored(y, p, more=None):
    return float(np.abs(y - p).sum())


@pytest.mark.parametrize(
    ("parameter", "make"),
    [
        ("eval_metric", lambda: partial(distance, power=2.0)),
        ("eval_metric", Distance),
        ("eval_metric", lambda: make_scorer(partial(scored), greater_is_better=False)),
        ("eval_metric", lambda: make_scorer(scored, more=Rate())),
        ("objective", Squares),
        ("objective", lambda: partial(lambda more, y, raw: (raw - y, np.ones(len(y))), 1.0)),
        ("learning_rate", Rate),
    ],
)
def test_models_hold_no_address(parameter, make) -> None:
    """An address differs in each process, so the bytes of two fits would differ."""
    kept = [make(), make()]
    found = [
        model_to_bytes(train({"n_estimators": 2, parameter: given}, Dataset(X, Y)).model)
        for given in kept
    ]
    assert found[0] == found[1]
    assert b"0x" not in found[0]


def test_two_functions_of_one_name_are_refused() -> None:
    two = [lambda y, p, w: 0.0, lambda y, p, w: 1.0]
    with pytest.raises(ParameterError, match=r"'<lambda>' is given twice.*different names"):
        HedgerowRegressor(eval_metric=two, **SETTINGS).fit(X, Y)
    two[1].__name__ = "one"
    found = HedgerowRegressor(eval_metric=two, **SETTINGS).fit(X, Y).evals_result_["train"]
    assert list(found) == ["<lambda>", "one"]


def test_groups_are_values_and_not_objects() -> None:
    groups = np.array([Rate(), Rate()], dtype=object)[np.arange(N) % 2]
    with pytest.raises(DataTypeError, match="groups must hold numbers, text or dates"):
        HedgerowRegressor(early_stopping=True, n_estimators=2).fit(X, Y, groups=groups)
