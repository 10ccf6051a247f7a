"""Features of a fit, and rows that have what they need.

A feature is a list of pieces of :data:`PIECES`: parameters, targets, columns and roles.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from tests.helpers.chunked import Rows

N_ROWS = 600
NUMBERS = ["a", "b", "d"]
COLUMNS = [*NUMBERS, "town"]
SPARSE = [f"s{k}" for k in range(9)]


def table(n_rows: int = N_ROWS) -> pd.DataFrame:
    """Return numbers, missing values and categories, targets, and columns of other roles."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(
        {
            "a": rng.normal(size=n_rows),
            "b": rng.integers(0, 9, n_rows).astype(float),
            "d": np.where(rng.random(n_rows) < 0.1, np.nan, rng.random(n_rows)),
            "town": rng.choice(list("uvwxyz"), n_rows),
            "street": rng.integers(0, 300, n_rows).astype(str),
            "wide": rng.integers(2**60, 2**61, n_rows),
            "w": rng.integers(0, 3, n_rows).astype(float),
            "o": rng.normal(size=n_rows),
            "q": np.arange(n_rows) // 12,
            "place": np.arange(n_rows) % 12,
        }
    )
    rows["y"] = rows.a * rows.b + (rows.town == "u") + rng.normal(size=n_rows) / 5
    rows["y2"] = rows.b - rows.a
    rows["class"] = np.clip(rows.y // 3, 0, 2).astype(int)
    rows["time"] = np.exp(rows.a)
    rows["lower"], rows["upper"] = rows.time, rows.time + 1.0 + rows.b
    rows["died"], rows["flag"] = (rows.b < 7.0).astype(int), rows.b < 7.0
    rows["lower end"], rows["upper end"] = rows.time, rows.time.where(rows.flag, np.inf)
    rows["z1"], rows["z2"] = rows.time, rows.upper
    days = pd.to_timedelta((rows.y * 9 + 200).round(), unit="D")
    rows["when"] = (pd.Timestamp("2024-01-01", tz="Asia/Tokyo") + days).mask(rows.b == 3.0)
    rows["span"] = (days * rows.d).dt.round("s")
    rows["month"] = (pd.Timestamp("2024-01-01") + days.dt.floor("28D")).astype("category")
    chosen = rng.integers(0, len(SPARSE) + 3, (n_rows, 3))  # columns that are not 0 in a row
    for k, name in enumerate(SPARSE):
        values = np.where(rng.random(n_rows) < 0.1, np.nan if k < 2 else -1.0, rows.b + 1.0)
        rows[name] = np.where((chosen[:, : 1 + k // 4] == k).any(axis=1), values, 0.0)
    rows["place name"] = "place " + rows.place.astype(str)
    rows["query name"] = "query " + rows.q.astype(str)
    rows["v"], rows["q2"] = 0.5 + rows.q % 3, rng.integers(0, 40, n_rows)
    rows["high"], rows["low"] = (rows.y > 3.0).astype(int), (rows.y2 < 4.0).astype(int)
    return rows


ROWS = table()


def of_all(y: np.ndarray, raw: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the gradient and hessian of all rows at once."""
    difference = raw - y
    return difference - difference.mean() / 2.0, np.ones(len(y))


def absolute_of_all(y: np.ndarray, raw: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the gradient and hessian of all rows at once, with a loss of each row."""
    return np.sign(raw - y), np.full(len(y), 0.5 + np.abs(raw - y).mean())


absolute_of_all.loss = lambda y, raw: np.abs(raw - y)  # type: ignore[attr-defined]


def squares_of_all(
    y: np.ndarray, raw: np.ndarray, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the weighted gradient and hessian of all rows at once."""
    difference = raw - y
    return weight * (difference - difference.mean() / 2.0), weight * np.ones(len(y))


def own_softmax(y: np.ndarray, raw: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the gradient and hessian of the classes of all rows."""
    p = np.exp(raw) / np.exp(raw).sum(axis=1, keepdims=True)
    return p - np.eye(raw.shape[1])[y.astype(int)], p * (1.0 - p)


own_softmax.n_classes = 3  # type: ignore[attr-defined]


def worst(y: np.ndarray, prediction: np.ndarray, weight: Any) -> float:
    """Return the largest error: a metric that is not a mean over rows."""
    return float(np.abs(y - prediction).max())


OPTIONS_OF_COLUMNS = {
    "feature_penalties": {"b": 0.5},
    "colsample_bytree": 0.8,
    "feature_weights": {"a": 0.5},
    "max_bins_by_feature": {"a": 40},
}

PIECES: dict[str, dict[str, Any]] = {
    "plain": {},
    # columns
    "dates": {"columns": ["when", "span", "a"]},
    "dates that are categories": {"columns": ["a", "month"]},
    "wide integers": {"columns": ["wide", "a", "b"]},
    "sparse columns": {"columns": ["a", *SPARSE]},
    "streets": {"columns": ["street"]},
    "towns": {"columns": ["a", "b", "d", "town"]},
    "options of columns": {**OPTIONS_OF_COLUMNS, "columns": ["b", "a", "d"]},
    # trees
    "depth-wise": {"grow_policy": "depthwise", "max_depth": 4},
    "symmetric": {"grow_policy": "symmetric"},
    "exact": {"tree_method": "exact", "columns": NUMBERS},
    "approx": {"tree_method": "approx", "columns": NUMBERS},
    "local": {"sketch": "local"},
    "vectors": {"multi_strategy": "multi_output_tree"},
    "trees apart": {"multi_strategy": "one_output_per_tree"},
    "lines": {"linear_leaves": True},
    "random cuts": {"extra_trees": True, "colsample_bynode": 0.7},
    "columns of trees": {"colsample_bytree": 0.6},
    "columns of nodes": {"colsample_bynode": 0.5},
    "categories": {"max_cat_to_onehot": 1, "min_data_per_group": 20, "cat_smooth": 30.0},
    "smooth": {"path_smooth": 2.0},
    "small steps": {"max_delta_step": 0.4},
    "L1": {"reg_alpha": 0.3},
    "few bins": {"max_bins": 8},
    "one leaf": {"min_samples_leaf": 500},
    "monotone": {"monotone_constraints": {"a": 1}, "monotone_penalty": 0.5},
    "interactions": {"interaction_constraints": [["a", "b"], ["d"]]},
    "penalties": {"feature_penalties": {"a": 0.5}},
    "bundles": {"bundle_features": True, "columns": ["a", *SPARSE]},
    "conflicts": {"max_conflict_rate": 0.1, "columns": ["a", *SPARSE]},
    "bundles by degree": {
        "bundle_features": True,
        "max_conflict_rate": 0.1,
        "bundle_order": "degree",
        "bundle_conflicts": "max",
        "zero_as_missing": True,
        "columns": [*SPARSE, "b", "a"],
    },
    "statistics": {"target_statistics": True, "columns": ["a", "street"]},
    "no statistics": {"target_statistics": False},
    "statistics of single columns": {"statistics_order": 1, "columns": ["town"]},
    "crosses": {
        "feature_crosses": [("a", "b", "ratio"), ("d", "b", "difference")],
        "columns": NUMBERS,
    },
    "one cross": {"feature_crosses": [("a", "b", "product")], "columns": ["b", "a"]},
    # rounds
    "DART": {"boosting": "dart", "drop_rate": 0.5},
    "forest": {"boosting": "rf", "subsample": 0.6},
    "boosted forests": {"num_parallel_tree": 3, "subsample": 0.6},
    "GOSS": {"sampling": "goss"},
    "GOSS without top rows": {"sampling": "goss", "goss_top_rate": 0.0},
    "MVS": {"sampling": "mvs", "subsample": 0.5},
    "sample": {"subsample": 0.7},
    "falling rates": {"learning_rate": [0.5, 0.4, 0.3, 0.2]},
    "stops early": {"early_stopping": True, "patience": 2, "n_estimators": 8, "learning_rate": 0.7},
    "left out": {"oob_score": True, "subsample": 0.6},
    "folds": {"early_stopping": "cv", "patience": 2},
    "score of rows left out": {"oob_score": True, "subsample": 0.6},
    "training scores": {"train_scores": True},
    "errors": {"eval_metric": ["loss", "mae", "median_error"], "train_scores": True},
    "scores of classes": {"train_scores": True, "eval_metric": ["logloss", "accuracy", "auc"]},
    "r2": {"eval_metric": ["loss", "r2"]},
    "own metric": {"eval_metric": [worst, "r2"], "train_scores": True},
    "line search": {"leaf_estimation": "line_search", "n_estimators": 2, "max_leaves": 4},
    # losses and targets
    "classes": {"objective": "softmax", "target": "class"},
    "high": {"objective": "logistic", "target": "high"},
    "labels": {
        "objective": "logistic",
        "multi_strategy": "one_output_per_tree",
        "eval_metric": ["accuracy", "auc"],
        "target": ["high", "low"],
    },
    "two targets": {"target": ["y", "y2"]},
    "two amounts": {"objective": "poisson", "target": ["time", "upper"]},
    "amounts": {"objective": "poisson", "target": "time"},
    "fair": {"objective": "fair"},
    "huber": {"objective": "huber"},
    "quantile": {"objective": "quantile"},
    "median": {"objective": "absolute_error"},
    "mape": {"objective": "mape"},
    "normal": {"objective": "normal"},
    "of all": {"objective": of_all},
    "absolute of all": {"objective": absolute_of_all},
    "weighted squares of all": {"objective": squares_of_all},
    "own classes": {"objective": own_softmax, "target": "class", "eval_metric": "logloss"},
    "Cox": {"objective": "cox", "target": "time"},
    "Cox of events": {"objective": "cox", "target": ["died", "time"]},
    "Cox of truth values": {"objective": "cox", "target": ["z1", "flag"]},
    "concordance": {"eval_metric": ["loss", "concordance"]},
    "AFT": {"objective": "aft", "target": "time"},
    "AFT of events": {"objective": "aft", "target": ["died", "time"]},
    "intervals": {"objective": "aft", "target": ["lower", "upper"]},
    "intervals, upper ends first": {"objective": "aft", "target": ["upper", "lower"]},
    "intervals without names": {"objective": "aft", "target": ["z1", "z2"]},
    "infinite ends": {"objective": "aft", "target": ["upper end", "lower end"]},
    "ranking": {"objective": "lambdarank", "target": "class", "qid": "q"},
    "XE-NDCG": {
        "objective": "rank_xendcg",
        "eval_metric": ["map", "loss", "ndcg@3"],
        "target": "class",
        "qid": "q2",
    },
    "named queries": {"qid": "query name"},
    "pairs": {"objective": "rank_pairwise", "target": "class", "qid": "q"},
    "mean pairs": {"pair_method": "mean", "pairs_per_row": 2},
    # roles
    "weights": {"weight": "w"},
    "weights of queries": {"weight": "v"},
    "offsets": {"offset": "o"},
    "offsets of two": {"offset": ["o", "v"]},
    "offsets of three": {"offset": ["o", "v", "z2"]},
    "groups": {"groups": "q"},
}

FEATURES_BY_TOPIC = """
plain
dates that are categories
wide integers + few bins
categories + weights + small steps
L1 + falling rates
GOSS without top rows + median
MVS + own metric
sample + offsets + L1
DART + own metric
DART + GOSS + weights
boosted forests + MVS
boosted forests + sample + classes
boosted forests + DART + quantile
boosted forests + stops early + one leaf
forest + random cuts + errors
forest + median + score of rows left out + weights + offsets
forest + classes + score of rows left out + scores of classes + stops early + weights
forest + quantile + r2
high + scores of classes + weights + stops early
classes + weights + offsets of three + scores of classes
left out + errors + weights
folds + errors
folds + weights + forest
folds + lines + one cross
folds + DART + GOSS
folds + monotone + sample
folds + huber + line search + boosted forests
folds + one leaf
folds + classes + scores of classes + weights
quantile + symmetric
mape + weights + GOSS
median + MVS + DART + weights
median + weights + small steps
of all + offsets
weighted squares of all + weights
own classes + stops early
own classes + weights + columns of trees
of all + two targets + trees apart
of all + two targets + vectors
absolute of all + folds + groups
absolute of all + folds + two targets + trees apart
absolute of all + score of rows left out + weights
absolute of all + left out + two targets + trees apart
absolute of all + statistics + DART

symmetric
symmetric + monotone + interactions + penalties
symmetric + bundles
symmetric + conflicts
symmetric + GOSS + two targets + fair + trees apart
symmetric + statistics + weights
symmetric + Cox + crosses
vectors + symmetric + classes
vectors + symmetric + classes + categories
vectors + symmetric + two targets + interactions + weights
vectors + classes + columns of trees
vectors + classes + folds
vectors + classes + boosted forests
vectors + classes + line search + sample
vectors + classes + statistics
two targets + offsets of two
two targets + monotone + smooth + weights
two targets + vectors + weights
two targets + forest + score of rows left out + errors
two targets + left out + median
two targets + MVS + falling rates
two targets + stops early + mape + DART
two targets + statistics + forest + weights
two targets + approx + folds + groups + sample
two amounts + L1 + depth-wise + vectors
trees apart + two targets + sample + score of rows left out + errors + weights
trees apart + two targets + mape + stops early + weights
trees apart + two targets + forest + r2
trees apart + two amounts + line search + symmetric + monotone
trees apart + two targets + exact + weights
trees apart + two targets + folds
labels + stops early + groups

exact
exact + wide integers + columns of trees
exact + monotone + interactions
exact + GOSS + weights + stops early
exact + MVS + DART + offsets
exact + forest + score of rows left out
exact + high + left out + weights
exact + classes + stops early + penalties
exact + huber + weights + own metric
exact + median + GOSS
exact + high + MVS + line search + weights
exact + smooth + interactions + offsets
exact + Cox of events
exact + intervals
exact + statistics + towns + classes + stops early + penalties + weights
exact + statistics + ranking + stops early
exact + Cox + crosses
exact + ranking + weights of queries
exact + folds + weights
exact + folds + statistics + one cross + classes
exact + folds + ranking
approx + classes + columns of nodes
approx + high + GOSS + weights
approx + local + monotone + MVS
approx + local + weights + offsets
approx + two targets + statistics + one cross + left out + penalties
approx + folds + Cox of events
approx + ranking + sample

statistics
statistics + towns + weights + training scores
statistics + statistics of single columns + high
statistics + monotone + options of columns + towns
statistics + forest + weights
statistics + left out + classes + one cross
statistics + stops early + crosses + training scores + wide integers
statistics + quantile + line search
statistics + categories + towns + DART
statistics + ranking + training scores
statistics + ranking + stops early
statistics + offsets
statistics + folds + monotone + towns
statistics + folds + classes + options of columns + towns + weights
streets + statistics + folds + high + lines + groups
statistics + folds + ranking + weights of queries
statistics + folds + two targets + DART + sample
statistics + folds + one cross
statistics + folds + one cross + classes + lines + towns + weights
bundles + sample + weights + training scores
bundles by degree + stops early + GOSS
conflicts + weights + training scores
conflicts + left out + classes + lines
conflicts + forest + score of rows left out
conflicts + statistics + one cross
conflicts + statistics + one cross + folds
conflicts + folds + lines + one cross + weights + groups
conflicts + folds + ranking
conflicts + Cox
conflicts + Cox of events + one cross + lines + weights
crosses + options of columns + stops early + weights

lines
lines + monotone
lines + wide integers + dates
lines + GOSS + weights + small steps
lines + classes + symmetric
lines + DART
lines + boosted forests
lines + forest + amounts + score of rows left out + errors + weights
lines + crosses + stops early
lines + left out + training scores
lines + two targets + stops early + trees apart
lines + Cox + random cuts
line search + huber + weights + offsets
line search + high + GOSS + weights + DART
line search + classes + weights
line search + classes + DART
line search + normal + boosted forests + weights
line search + forest + high + score of rows left out

Cox + MVS
Cox + GOSS
Cox + DART
Cox + offsets + stops early
Cox + left out + weights
Cox + forest + score of rows left out + concordance + weights
Cox + folds + concordance + Cox of events + weights
Cox of truth values + training scores
AFT
AFT of events + stops early + weights
intervals + folds + groups
intervals, upper ends first + line search
intervals without names
infinite ends + left out + concordance + weights

ranking
ranking + GOSS
ranking + DART
ranking + boosted forests
ranking + symmetric + stops early + training scores
ranking + folds + weights of queries
ranking + offsets
ranking + mean pairs
pairs + named queries + sample
XE-NDCG + folds
"""

FEATURES = [line for line in FEATURES_BY_TOPIC.splitlines() if line]
"""A feature whose pieces are pairwise in others is left out, but for a few to begin with."""

SMALL = {"n_estimators": 4, "max_leaves": 8, "n_jobs": 2}
"""Each leaf is a pass over all chunks: eight take every path of a grower."""

ROLES = ("weight", "offset", "qid", "groups")


def parts_of(feature: str, table: pd.DataFrame = ROWS) -> tuple[dict[str, Any], Rows]:
    """Return the parameters and rows of a feature; later pieces replace what earlier ones say."""
    params: dict[str, Any] = dict(SMALL)
    columns: list[str] = []
    target: Any = "y"
    roles: dict[str, Any] = {}
    for name in feature.split(" + "):
        piece = dict(PIECES[name])
        columns += piece.pop("columns", [])
        target = piece.pop("target", target)
        roles |= {role: piece.pop(role) for role in ROLES if role in piece}
        params |= piece
    if params.get("grow_policy") == "symmetric":
        del params["max_leaves"]
    if params.get("boosting") == "rf":
        params.pop("learning_rate", None)
    return params, Rows(table, list(dict.fromkeys(columns)) or COLUMNS, target, roles)
