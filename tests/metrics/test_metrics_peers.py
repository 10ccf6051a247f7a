"""Metrics of LightGBM and XGBoost give the same numbers for the same raw scores."""

from __future__ import annotations

import numpy as np
import pytest

from hedgerow.metrics import evaluate, make_metrics, metrics_of_queries
from hedgerow.metrics.queries import query_rows
from hedgerow.objectives import make_objective

RNG = np.random.default_rng(3)
N = 500
WEIGHT = RNG.integers(1, 5, N).astype(float)
TABLE = RNG.normal(size=(N, 2))
RAW = np.round(8 * RNG.normal(size=(1, N))) / 8  # ties, also of differences
RAW3 = np.round(8 * RNG.normal(size=(3, N))) / 8
UNTIED3 = RNG.normal(size=(3, N))  # probabilities in float32 and float64 tie alike
LABELS = (RNG.random(N) < 1 / (1 + np.exp(-RAW[0]))).astype(float)
THREE = np.where(RNG.random(N) < 0.4, RAW3.argmax(axis=0), RNG.integers(0, 3, N)).astype(float)
NUMBERS = RAW[0] + RNG.normal(size=N)
COUNTS = RNG.poisson(np.exp(RAW[0])).astype(float)
AMOUNTS = RNG.gamma(2.0, np.exp(RAW[0])) + 0.01
SHARES = RNG.uniform(0.01, 0.99, N)

# ours, theirs, our objective, their objective, target, raw scores, more parameters of theirs
LIGHTGBM = [
    ("l1", "l1", "squared_error", "regression", NUMBERS, RAW, {}),
    ("l2", "l2", "squared_error", "regression", NUMBERS, RAW, {}),
    ("rmse", "rmse", "squared_error", "regression", NUMBERS, RAW, {}),
    ("r2", "r2", "squared_error", "regression", NUMBERS, RAW, {}),
    ("quantile@0.3", "quantile", "quantile", "quantile", NUMBERS, RAW, {"alpha": 0.3}),
    ("huber@0.9", "huber", "huber", "huber", NUMBERS, RAW, {"alpha": 0.9}),
    ("fair@2", "fair", "squared_error", "fair", NUMBERS, RAW, {"fair_c": 2.0}),
    ("poisson", "poisson", "poisson", "poisson", COUNTS, RAW, {}),
    ("gamma", "gamma", "gamma", "gamma", AMOUNTS, RAW, {}),
    ("tweedie@1.3", "tweedie", "tweedie", "tweedie", COUNTS, RAW,
     {"tweedie_variance_power": 1.3}),
    ("cross_entropy", "cross_entropy", "cross_entropy", "cross_entropy", SHARES, RAW, {}),
    ("kullback_leibler", "kullback_leibler", "cross_entropy", "cross_entropy", SHARES, RAW, {}),
    ("auc", "auc", "logistic", "binary", LABELS, RAW, {}),
    ("average_precision", "average_precision", "logistic", "binary", LABELS, RAW, {}),
    ("binary_logloss", "binary_logloss", "logistic", "binary", LABELS, RAW, {}),
    ("binary_error", "binary_error", "logistic", "binary", LABELS, RAW, {}),
    ("multi_logloss", "multi_logloss", "softmax", "multiclass", THREE, RAW3, {"num_class": 3}),
    ("top_k_error@1", "multi_error", "softmax", "multiclass", THREE, RAW3, {"num_class": 3}),
    ("top_k_error@2", "multi_error", "softmax", "multiclass", THREE, RAW3,
     {"num_class": 3, "multi_error_top_k": 2}),
    ("auc_mu", "auc_mu", "softmax", "multiclass", THREE, RAW3, {"num_class": 3}),
]  # fmt: skip
XGBOOST = [
    ("rmse", "rmse", "squared_error", "reg:squarederror", NUMBERS, RAW, {}),
    ("mae", "mae", "squared_error", "reg:squarederror", NUMBERS, RAW, {}),
    ("mphe@2", "mphe", "pseudo_huber", "reg:pseudohubererror", NUMBERS, RAW, {"huber_slope": 2.0}),
    ("quantile@0.3", "quantile", "quantile", "reg:quantileerror", NUMBERS, RAW,
     {"quantile_alpha": 0.3}),
    ("mape", "mape", "gamma", "reg:gamma", AMOUNTS, RAW, {}),
    ("rmsle", "rmsle", "gamma", "reg:gamma", AMOUNTS, RAW, {}),
    ("poisson-nloglik", "poisson-nloglik", "poisson", "count:poisson", COUNTS, RAW, {}),
    ("gamma-nloglik", "gamma-nloglik", "gamma", "reg:gamma", AMOUNTS, RAW, {}),
    ("gamma-deviance", "gamma-deviance", "gamma", "reg:gamma", AMOUNTS, RAW, {}),
    ("tweedie-nloglik@1.3", "tweedie-nloglik@1.3", "tweedie", "reg:tweedie", COUNTS, RAW, {}),
    ("logloss", "logloss", "logistic", "binary:logistic", LABELS, RAW, {}),
    ("error", "error", "logistic", "binary:logistic", LABELS, RAW, {}),
    ("error@0.3", "error@0.3", "logistic", "binary:logistic", LABELS, RAW, {}),
    ("auc", "auc", "logistic", "binary:logistic", LABELS, RAW, {}),
    ("aucpr", "aucpr", "logistic", "binary:logistic", LABELS, RAW, {}),
    ("mlogloss", "mlogloss", "softmax", "multi:softprob", THREE, RAW3, {"num_class": 3}),
    ("merror", "merror", "softmax", "multi:softprob", THREE, RAW3, {"num_class": 3}),
    ("auc", "auc", "softmax", "multi:softprob", THREE, UNTIED3, {"num_class": 3}),
    ("aucpr", "aucpr", "softmax", "multi:softprob", THREE, UNTIED3, {"num_class": 3}),
]  # fmt: skip


def ours(name, objective, y, raw, weight) -> float:
    loss = make_objective(objective, len(raw))
    return evaluate(make_metrics(name, loss), loss, y, raw, weight)[name]


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["unweighted", "weighted"])
@pytest.mark.parametrize(("name", "theirs", "objective", "other", "y", "raw", "more"), LIGHTGBM)
def test_as_lightgbm(name, theirs, objective, other, y, raw, more, weight) -> None:
    lightgbm = pytest.importorskip("lightgbm")
    start = np.ascontiguousarray(raw.T) if len(raw) > 1 else raw[0]
    params = {"objective": other, "metric": theirs, "verbosity": -1, "num_threads": 1, **more}
    data = lightgbm.Dataset(TABLE, y, weight=weight, init_score=start)
    found = lightgbm.Booster(params, data).eval_train()
    assert [entry[1].partition("@")[0] for entry in found] == [theirs]
    # float32 targets and weights; of probabilities some digits more are gone
    assert ours(name, objective, y, raw, weight) == pytest.approx(found[0][2], rel=2e-6)
    higher = make_metrics(name, make_objective(objective, len(raw)))[0].higher_is_better
    assert higher == found[0][3] or name == "r2"  # which LightGBM says is better if lower


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["unweighted", "weighted"])
@pytest.mark.parametrize(("name", "theirs", "objective", "other", "y", "raw", "more"), XGBOOST)
def test_as_xgboost(name, theirs, objective, other, y, raw, more, weight) -> None:
    xgboost = pytest.importorskip("xgboost")
    params = {"objective": other, "eval_metric": theirs, "nthread": 1, **more}
    data = xgboost.DMatrix(TABLE, y, weight=weight, base_margin=np.ascontiguousarray(raw.T))
    text = xgboost.train(params, data, num_boost_round=0).eval(data)
    assert ours(name, objective, y, raw, weight) == pytest.approx(
        float(text.rpartition(":")[2]), rel=2e-5
    )


QUERY = np.sort(RNG.integers(0, 60, N))
GRADES = np.where(QUERY % 7 == 0, 0.0, RNG.integers(0, 4, N))
RELEVANT = (GRADES > 1).astype(float)
UNTIED = RNG.normal(size=(1, N))  # libraries differ in the order of ties


@pytest.mark.parametrize(
    ("name", "theirs", "y"),
    [
        ("ndcg@5", "ndcg@5", GRADES),
        ("ndcg", "ndcg", GRADES),
        ("ndcg@5-", "ndcg@5-", GRADES),
        ("map@5", "map@5", RELEVANT),
        ("map-", "map-", RELEVANT),
        ("pre@3", "pre@3", RELEVANT),
    ],
)
def test_rankings_as_xgboost(name, theirs, y) -> None:
    xgboost = pytest.importorskip("xgboost")
    kind = theirs.partition("@")[0].rstrip("-")
    loss = {"ndcg": "rank:ndcg", "map": "rank:map", "pre": "rank:map"}[kind]
    data = xgboost.DMatrix(TABLE, y, qid=QUERY, base_margin=UNTIED[0])
    params = {"objective": loss, "eval_metric": theirs, "nthread": 1}
    text = xgboost.train(params, data, num_boost_round=0).eval(data)
    objective = make_objective("lambdarank")
    metrics = metrics_of_queries(make_metrics(name, objective), objective, query_rows(QUERY, N))
    found = evaluate(metrics, objective, y, UNTIED, None)[name]
    assert found == pytest.approx(float(text.rpartition(":")[2]), rel=2e-6)


SHORT = np.repeat(np.arange(40), np.tile([1, 2, 3, 7], 10))  # queries shorter than k, of one row
SHORT_LABELS = np.where(SHORT % 5 == 0, 0.0, RNG.integers(0, 2, len(SHORT)))
SHORT_WEIGHTS = RNG.integers(1, 4, 40).astype(float)
TIED = np.round(RNG.normal(size=len(SHORT)))


def of_short_queries(name: str, raw, weights) -> float:
    objective, queries = make_objective("lambdarank"), query_rows(SHORT, len(SHORT))
    metrics = metrics_of_queries(make_metrics(name, objective), objective, queries)
    return evaluate(metrics, objective, SHORT_LABELS, raw[None], weights[SHORT])[name]


def weights_for(name: str):
    """Return weights of queries; the others ignore those of NDCG without relevant rows."""
    return np.ones(40) if name == "ndcg@4" else SHORT_WEIGHTS


IN_ORDER = TIED - 1e-6 * np.arange(len(SHORT))
"""Scores whose ties are broken by the order of the table, in which libraries take ties."""


@pytest.mark.parametrize("name", ["ndcg@4", "ndcg@4-", "map@4", "map@4-", "pre@4"])
def test_short_queries_and_ties_as_xgboost(name) -> None:
    xgboost = pytest.importorskip("xgboost")
    weights = weights_for(name)
    given = {"qid": SHORT, "base_margin": TIED, "weight": weights}
    data = xgboost.DMatrix(np.zeros((len(SHORT), 1)), SHORT_LABELS, **given)
    loss = "rank:ndcg" if name.startswith("ndcg") else "rank:map"
    params = {"objective": loss, "eval_metric": name, "nthread": 1}
    text = xgboost.train(params, data, num_boost_round=0).eval(data)
    found = of_short_queries(name, IN_ORDER, weights)
    assert found == pytest.approx(float(text.rpartition(":")[2]), rel=2e-6)


@pytest.mark.parametrize("name", ["ndcg@4", "map@4"])
def test_short_queries_and_ties_as_lightgbm(name) -> None:
    lightgbm = pytest.importorskip("lightgbm")
    weights = weights_for(name)
    given = {"group": np.bincount(SHORT), "init_score": TIED, "weight": weights[SHORT]}
    data = lightgbm.Dataset(np.arange(len(SHORT))[:, None] * 1.0, SHORT_LABELS, **given)
    params = {"objective": "lambdarank", "metric": name[:-2], "eval_at": [4], "verbosity": -1}
    found = lightgbm.Booster({**params, "num_threads": 1}, data).eval_train()
    assert of_short_queries(name, IN_ORDER, weights) == pytest.approx(found[0][2], rel=2e-6)


@pytest.mark.parametrize(
    ("name", "theirs"),
    [("ndcg@4", "NDCG:top=4;type=Exp"), ("map@4-", "MAP:top=4"), ("mrr@4", "MRR:top=4"),
     ("precision@4", "PrecisionAt:top=4")],
)  # fmt: skip
def test_short_queries_as_catboost(name, theirs) -> None:
    utils = pytest.importorskip("catboost.utils")
    raw = TIED - 1e-3 * SHORT_LABELS - 1e-6 * np.arange(len(SHORT))  # CatBoost's order of ties
    found = utils.eval_metric(SHORT_LABELS, raw, theirs, group_id=SHORT)[0]
    assert of_short_queries(name, raw, np.ones(40)) == pytest.approx(found, rel=1e-6)


def test_auc_of_rankings_as_xgboost() -> None:
    xgboost = pytest.importorskip("xgboost")
    query = np.repeat(np.arange(N // 10), 10)
    # All labels of a query differ: XGBoost counts pairs of equal ones, too.
    y = np.concatenate([RNG.permutation(10) for _ in range(N // 10)]).astype(float)
    raw = UNTIED[:, : len(y)]
    data = xgboost.DMatrix(TABLE[: len(y)], y, qid=query, base_margin=raw[0])
    params = {"objective": "rank:pairwise", "eval_metric": "auc", "nthread": 1}
    text = xgboost.train(params, data, num_boost_round=0).eval(data)
    objective = make_objective("rank_pairwise")
    metrics = metrics_of_queries(
        make_metrics("auc", objective), objective, query_rows(query, len(y))
    )
    found = evaluate(metrics, objective, y, raw, None)["auc"]
    assert found == pytest.approx(float(text.rpartition(":")[2]), rel=2e-6)


def test_recall_is_the_share_of_relevant_rows_found() -> None:
    objective = make_objective("lambdarank")
    metrics = metrics_of_queries(
        make_metrics("recall@3", objective), objective, query_rows(QUERY, N)
    )
    found = evaluate(metrics, objective, RELEVANT, UNTIED, None)["recall@3"]
    wanted = []
    for query in np.unique(QUERY):
        rows = np.flatnonzero(query == QUERY)
        first = rows[np.argsort(-UNTIED[0, rows])][:3]
        total = RELEVANT[rows].sum()
        wanted.append(RELEVANT[first].sum() / total if total else 0.0)
    assert found == pytest.approx(np.mean(wanted), rel=1e-12)
