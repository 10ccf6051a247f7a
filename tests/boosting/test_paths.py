"""Each feature trains on files and on a cluster to the model of a table in memory.

Training on files and partitions works part by part if the trees support it, and on one table
otherwise (:mod:`hedgerow.boosting.external.dataset.resident`,
:mod:`hedgerow.distributed.one_worker`): both give the same bytes.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

import hedgerow
from hedgerow import Dataset, HedgerowClassifier, HedgerowRanker, HedgerowRegressor, train
from hedgerow.boosting.external.dataset import bundling, resident
from hedgerow.boosting.row_data.survival import SURVIVAL
from hedgerow.errors import AllRowsNeededError, DataError
from tests.helpers.chunked import never_join_chunks
from tests.helpers.clusters import client_of_workers

N_ROWS = 600
RNG = np.random.default_rng(0)
NUMBERS = ["a", "b", "d"]
COLUMNS = [*NUMBERS, "town"]
SPARSE = [f"s{k}" for k in range(9)]


def table() -> pd.DataFrame:
    """Return numbers, missing values and categories, targets, and columns of other roles."""
    rows = pd.DataFrame(
        {
            "a": RNG.normal(size=N_ROWS),
            "b": RNG.integers(0, 9, N_ROWS).astype(float),
            "d": np.where(RNG.random(N_ROWS) < 0.1, np.nan, RNG.random(N_ROWS)),
            "town": RNG.choice(list("uvwxyz"), N_ROWS),
            "street": RNG.integers(0, 300, N_ROWS).astype(str),
            "w": RNG.integers(0, 3, N_ROWS).astype(float),
            "o": RNG.normal(size=N_ROWS),
            "q": np.arange(N_ROWS) // 12,
            "place": np.arange(N_ROWS) % 12,
        }
    )
    rows["y"] = rows.a * rows.b + (rows.town == "u") + RNG.normal(size=N_ROWS) / 5
    rows["y2"] = rows.b - rows.a
    rows["class"] = np.clip(rows.y // 3, 0, 2).astype(int)
    rows["time"] = np.exp(rows.a)
    rows["lower"], rows["upper"] = rows.time, rows.time + 1.0 + rows.b
    rows["died"], rows["flag"] = (rows.b < 7.0).astype(int), rows.b < 7.0
    rows["left"], rows["right"] = rows.time, rows.time.where(rows.flag, np.inf)
    rows["z1"], rows["z2"] = rows.time, rows.upper
    days = pd.to_timedelta((rows.y * 9 + 200).round(), unit="D")
    rows["when"] = (pd.Timestamp("2024-01-01", tz="Asia/Tokyo") + days).mask(rows.b == 3.0)
    rows["span"] = (days * rows.d).dt.round("s")
    rows["month"] = (pd.Timestamp("2024-01-01") + days.dt.floor("28D")).astype("category")
    chosen = RNG.integers(0, len(SPARSE) + 3, (N_ROWS, 3))  # columns that are not 0 in a row
    for k, name in enumerate(SPARSE):
        values = np.where(RNG.random(N_ROWS) < 0.1, np.nan if k < 2 else -1.0, rows.b + 1.0)
        rows[name] = np.where((chosen[:, : 1 + k // 4] == k).any(axis=1), values, 0.0)
    rows["v"], rows["q2"] = 0.5 + rows.q % 3, RNG.integers(0, 40, N_ROWS)
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


FEATURES: dict[str, dict[str, Any]] = {
    "plain": {},
    "dates and durations": {"columns": [*COLUMNS, "when", "span"]},
    "dates that are categories": {"columns": ["a", "month"]},
    "depth-wise": {"params": {"grow_policy": "depthwise", "max_depth": 4}},
    "symmetric trees": {"params": {"grow_policy": "symmetric"}},
    "symmetric trees of classes": {
        "params": {"grow_policy": "symmetric", "objective": "softmax"},
        "target": "class",
    },
    "symmetric trees with constraints": {
        "params": {
            "grow_policy": "symmetric",
            "monotone_constraints": {"a": 1},
            "interaction_constraints": [["a", "b"], ["d", "town"]],
            "feature_penalties": {"b": 0.5},
        }
    },
    "symmetric trees with random cuts": {
        "params": {"grow_policy": "symmetric", "extra_trees": True, "colsample_bynode": 0.7}
    },
    "symmetric trees with forced splits": {
        "params": {
            "grow_policy": "symmetric",
            "forced_splits": {
                "feature": "b",
                "threshold": 3,
                "right": {"feature": "a", "threshold": 0.5},
            },
        }
    },
    "symmetric trees with bundles": {
        "params": {"grow_policy": "symmetric", "bundle_features": True},
        "columns": NUMBERS,
    },
    "symmetric trees with conflicts in bundles": {
        "params": {"grow_policy": "symmetric", "max_conflict_rate": 0.05},
        "columns": NUMBERS,
    },
    "symmetric trees of vectors": {
        "params": {
            "grow_policy": "symmetric",
            "multi_strategy": "multi_output_tree",
            "objective": "softmax",
        },
        "target": "class",
        "columns": NUMBERS,
    },
    "symmetric trees of vectors with categories": {
        "params": {
            "grow_policy": "symmetric",
            "multi_strategy": "multi_output_tree",
            "objective": "softmax",
            "max_cat_to_onehot": 1,
            "min_data_per_group": 20,
        },
        "target": "class",
    },
    "symmetric trees of vectors with constraints": {
        "params": {
            "grow_policy": "symmetric",
            "multi_strategy": "multi_output_tree",
            "monotone_constraints": {"a": 1, "d": -1},
            "interaction_constraints": [["a", "b"], ["d", "town"]],
            "path_smooth": 1.0,
        },
        "target": ["y", "y2"],
        "weight": "w",
    },
    "vector leaves of classes": {
        "params": {"multi_strategy": "multi_output_tree", "objective": "softmax"},
        "target": "class",
    },
    "vector leaves of classes by GOSS": {
        "params": {
            "multi_strategy": "multi_output_tree",
            "objective": "softmax",
            "sampling": "goss",
            "path_smooth": 2.0,
        },
        "target": "class",
    },
    "vector leaves of random cuts": {
        "params": {
            "multi_strategy": "multi_output_tree",
            "objective": "softmax",
            "extra_trees": True,
            "feature_penalties": {"a": 0.5},
            "forced_splits": {"feature": "a", "threshold": 0.5},
        },
        "target": "class",
    },
    "several targets of vectors": {"target": ["y", "y2"]},
    "several targets of vectors with constraints": {
        "params": {
            "multi_strategy": "multi_output_tree",
            "monotone_constraints": {"a": 1, "b": 1},
            "monotone_penalty": 0.5,
        },
        "target": ["y", "y2"],
    },
    "several targets of smoothed vectors with constraints": {
        "params": {
            "multi_strategy": "multi_output_tree",
            "monotone_constraints": {"d": 1, "b": 1},
            "path_smooth": 2.0,
            "sampling": "goss",
        },
        "target": ["y", "y2"],
        "weight": "w",
    },
    "several targets": {
        "params": {"multi_strategy": "one_output_per_tree"},
        "target": ["y", "y2"],
    },
    "several targets with weights, rows left out and scores": {
        "params": {
            "multi_strategy": "one_output_per_tree",
            "subsample": 0.6,
            "oob_score": True,
            "train_scores": True,
            "eval_metric": ["loss", "r2", "median_error"],
        },
        "target": ["y", "y2"],
        "weight": "w",
    },
    "several targets of medians": {
        "params": {
            "multi_strategy": "one_output_per_tree",
            "objective": "mape",
            "early_stopping": True,
            "patience": 2,
        },
        "target": ["y", "y2"],
        "weight": "w",
    },
    "several targets in a random forest": {
        "params": {
            "multi_strategy": "one_output_per_tree",
            "boosting": "rf",
            "subsample": 0.6,
            "oob_score": True,
        },
        "target": ["y", "y2"],
    },
    "several targets of a loss of all rows": {
        "params": {"multi_strategy": "one_output_per_tree", "objective": of_all},
        "target": ["y", "y2"],
    },
    "several targets, symmetric trees by GOSS": {
        "params": {"grow_policy": "symmetric", "sampling": "goss", "objective": "fair"},
        "target": ["y", "y2"],
    },
    "several targets, exact": {
        "params": {"tree_method": "exact"},
        "target": ["y", "y2"],
        "columns": NUMBERS,
        "weight": "w",
    },
    "labels": {
        "params": {
            "multi_strategy": "one_output_per_tree",
            "objective": "logistic",
            "early_stopping": True,
            "patience": 2,
            "eval_metric": ["accuracy", "auc"],
        },
        "target": ["high", "low"],
    },
    "labels in groups": {
        "params": {
            "multi_strategy": "one_output_per_tree",
            "objective": "logistic",
            "early_stopping": True,
            "patience": 2,
        },
        "target": ["high", "low"],
        "groups": "q",
    },
    "intervals of times": {
        "params": {"objective": "aft"},
        "target": ["lower", "upper"],
    },
    "intervals of times with infinite ends, by rows left out": {
        "params": {
            "objective": "aft",
            "early_stopping": "oob",
            "subsample": 0.6,
            "eval_metric": ["loss", "concordance"],
        },
        "target": ["right", "left"],
        "weight": "w",
    },
    "intervals of times in any order, with a line search": {
        "params": {
            "objective": "aft",
            "leaf_estimation": "line_search",
            "early_stopping": True,
            "patience": 2,
            "n_estimators": 2,
        },
        "target": ["upper", "lower"],
    },
    "intervals of times by folds": {
        "params": {"objective": "aft", "early_stopping": "cv"},
        "target": ["lower", "upper"],
        "groups": "q",
    },
    "intervals of times without telling names": {
        "params": {"objective": "aft"},
        "target": ["z1", "z2"],
    },
    "AFT of events and times": {
        "params": {"objective": "aft", "early_stopping": True, "patience": 2},
        "target": ["died", "time"],
        "weight": "w",
    },
    "Cox of events and times": {
        "params": {"objective": "cox", "early_stopping": "oob", "subsample": 0.6},
        "target": ["time", "died"],
    },
    "Cox of times and truth values": {
        "params": {"objective": "cox"},
        "target": ["z1", "flag"],
    },
    "exact by Cox of events and times": {
        "params": {"objective": "cox", "tree_method": "exact"},
        "target": ["time", "died"],
        "columns": NUMBERS,
    },
    "exact of intervals of times": {
        "params": {"objective": "aft", "tree_method": "exact"},
        "target": ["lower", "upper"],
        "columns": NUMBERS,
    },
    "exact": {"params": {"tree_method": "exact"}, "columns": NUMBERS},
    "exact with constraints": {
        "params": {"tree_method": "exact", "monotone_constraints": {"a": 1}},
        "columns": NUMBERS,
    },
    "exact by GOSS": {"params": {"tree_method": "exact", "sampling": "goss"}, "columns": NUMBERS},
    "exact by Cox": {
        "params": {"objective": "cox", "tree_method": "exact"},
        "target": "time",
        "columns": NUMBERS,
    },
    "exact with target statistics": {
        "params": {"tree_method": "exact", "target_statistics": True},
        "columns": ["a", "street"],
    },
    "exact with target statistics of few rows that stop early": {
        "params": {
            "tree_method": "exact",
            "target_statistics": True,
            "objective": "softmax",
            "early_stopping": True,
            "patience": 2,
            "feature_penalties": {"a": 0.5},
        },
        "columns": ["a", "street", "town"],
        "target": "class",
        "weight": "w",
    },
    "approx with target statistics and crosses by rows left out": {
        "params": {
            "tree_method": "approx",
            "target_statistics": True,
            "feature_crosses": [("a", "b", "ratio")],
            "early_stopping": "oob",
            "subsample": 0.6,
            "feature_penalties": {"b": 0.5},
        },
        "columns": ["street", "a", "b"],
        "target": ["y", "y2"],
    },
    "exact by Cox with crosses": {
        "params": {
            "tree_method": "exact",
            "objective": "cox",
            "feature_crosses": [("a", "b", "product"), ("d", "b", "difference")],
        },
        "columns": NUMBERS,
        "target": "time",
    },
    "exact rankings with target statistics": {
        "params": {
            "objective": "lambdarank",
            "tree_method": "exact",
            "target_statistics": True,
            "early_stopping": True,
            "patience": 2,
        },
        "columns": ["street", "a"],
        "target": "class",
        "qid": "q",
    },
    "exact rankings": {
        "params": {"objective": "lambdarank", "tree_method": "exact"},
        "target": "class",
        "qid": "q",
        "columns": NUMBERS,
    },
    "approx with constraints and MVS": {
        "params": {
            "tree_method": "approx",
            "sketch": "local",
            "monotone_constraints": {"a": 1},
            "sampling": "mvs",
            "subsample": 0.6,
        },
        "columns": NUMBERS,
    },
    "approx": {"params": {"tree_method": "approx"}, "columns": NUMBERS},
    "GOSS": {"params": {"sampling": "goss"}},
    "MVS": {"params": {"sampling": "mvs", "subsample": 0.5}},
    "monotone": {"params": {"monotone_constraints": {"a": 1}}},
    "interactions": {"params": {"interaction_constraints": [["a", "b"], ["d"]]}},
    "penalties": {"params": {"feature_penalties": {"a": 0.5}}},
    "categories": {"params": {"max_cat_to_onehot": 1}},
    "target statistics": {
        "params": {"target_statistics": True},
        "columns": ["a", "street"],
    },
    "target statistics of several targets": {
        "params": {"target_statistics": True},
        "columns": ["a", "street", "town"],
        "target": ["y", "y2"],
    },
    "target statistics of several targets in a random forest": {
        "params": {"target_statistics": True, "boosting": "rf", "subsample": 0.6},
        "columns": ["a", "street", "town"],
        "target": ["y", "y2"],
        "weight": "w",
    },
    "target statistics in a random forest": {
        "params": {"target_statistics": True, "boosting": "rf", "subsample": 0.6},
        "columns": ["a", "street", "town"],
        "weight": "w",
    },
    "target statistics by rows left out": {
        "params": {
            "target_statistics": True,
            "objective": "softmax",
            "early_stopping": "oob",
            "subsample": 0.6,
            "feature_crosses": [("a", "b", "ratio")],
        },
        "target": "class",
        "columns": ["a", "b", "street"],
    },
    "bundles": {"params": {"bundle_features": True}, "columns": NUMBERS},
    "bundles with conflicts": {"params": {"max_conflict_rate": 0.05}, "columns": NUMBERS},
    "bundles of sparse columns": {
        "params": {"bundle_features": True, "colsample_bytree": 0.7},
        "columns": ["a", *SPARSE],
    },
    "bundles of sparse columns with conflicts": {
        "params": {"max_conflict_rate": 0.05, "train_scores": True, "eval_metric": "mae"},
        "columns": ["a", *SPARSE],
        "weight": "w",
    },
    "bundles with conflicts in order of degrees that stop early": {
        "params": {
            "bundle_features": True,
            "max_conflict_rate": 0.1,
            "bundle_order": "degree",
            "bundle_conflicts": "max",
            "zero_as_missing": True,
            "early_stopping": True,
            "patience": 2,
            "sampling": "goss",
        },
        "columns": [*SPARSE, "b", "a"],
    },
    "bundles with conflicts by rows left out": {
        "params": {
            "max_conflict_rate": 0.1,
            "objective": "softmax",
            "early_stopping": "oob",
            "subsample": 0.6,
            "linear_leaves": True,
        },
        "target": "class",
        "columns": ["a", *SPARSE],
    },
    "bundles with conflicts in a random forest": {
        "params": {
            "max_conflict_rate": 0.1,
            "boosting": "rf",
            "subsample": 0.6,
            "oob_score": True,
            "grow_policy": "symmetric",
        },
        "columns": ["a", *SPARSE],
    },
    "bundles with conflicts of target statistics": {
        "params": {
            "max_conflict_rate": 0.1,
            "target_statistics": True,
            "feature_crosses": [("a", "b", "product")],
        },
        "columns": ["a", "b", *SPARSE, "street"],
    },
    "bundles with conflicts by folds": {
        "params": {"max_conflict_rate": 0.1, "early_stopping": "cv"},
        "columns": ["a", *SPARSE],
    },
    "bundles with conflicts by Cox": {
        "params": {"max_conflict_rate": 0.1, "objective": "cox"},
        "columns": ["a", *SPARSE],
        "target": "time",
    },
    "bundles with conflicts by Cox with crosses and lines": {
        "params": {
            "max_conflict_rate": 0.1,
            "objective": "cox",
            "feature_crosses": [("a", "b", "product")],
            "linear_leaves": True,
        },
        "columns": ["b", *SPARSE, "a"],
        "target": ["died", "time"],
        "weight": "w",
    },
    "linear leaves": {"params": {"linear_leaves": True}},
    "crosses": {"params": {"feature_crosses": [(0, 1, "ratio"), (1, 0, "difference")]}},
    "crosses with options of columns": {
        "params": {
            "feature_crosses": [("a", "b", "product"), ("d", "b", "ratio")],
            "early_stopping": True,
            "patience": 2,
            "feature_penalties": {"b": 0.5},
            "colsample_bytree": 0.8,
            "feature_weights": {"a": 0.5},
            "forced_splits": {"feature": "d", "threshold": 0.5},
            "max_bins_by_feature": {"a": 40},
        },
        "weight": "w",
    },
    "crosses, symmetric trees of Cox": {
        "params": {
            "feature_crosses": [("a", "b", "ratio"), ("d", "b", "difference")],
            "grow_policy": "symmetric",
            "objective": "cox",
        },
        "target": "time",
        "columns": ["a", "b", "d"],
    },
    "crosses, exact": {
        "params": {"feature_crosses": [("a", "b", "ratio")], "tree_method": "exact"},
        "columns": NUMBERS,
    },
    "DART": {"params": {"boosting": "dart"}},
    "boosted forests": {"params": {"num_parallel_tree": 3, "subsample": 0.6}},
    "boosted forests of vectors": {
        "params": {
            "num_parallel_tree": 3,
            "colsample_bynode": 0.5,
            "multi_strategy": "multi_output_tree",
            "objective": "softmax",
        },
        "target": "class",
    },
    "forced splits": {
        "params": {
            "forced_splits": {
                "feature": "b",
                "threshold": 3,
                "right": {"feature": "a", "threshold": 0.5},
            }
        },
    },
    "forced splits of few leaves": {
        "params": {
            "forced_splits": {
                "feature": "b",
                "threshold": 3,
                "left": {"feature": "b", "threshold": 1},
                "right": {
                    "feature": "d",
                    "threshold": 0.01,
                    "left": {"feature": 0, "threshold": 0},
                },
            },
            "max_leaves": 6,
            "sampling": "goss",
            "monotone_constraints": {"a": 1},
        },
    },
    "forced splits, depth-wise": {
        "params": {
            "grow_policy": "depthwise",
            "max_depth": 4,
            "min_samples_leaf": 5,
            "colsample_bynode": 0.6,
            "objective": "softmax",
            "forced_splits": {
                "feature": "d",
                "threshold": 0.2,
                "left": {"feature": "a", "threshold": 0.0},
                "right": {
                    "feature": "a",
                    "threshold": 0.5,
                    "right": {"feature": "b", "threshold": 7},
                },
            },
        },
        "target": "class",
    },
    "random forest": {"params": {"boosting": "rf", "subsample": 0.6}},
    "random forest with rows left out": {
        "params": {"boosting": "rf", "subsample": 0.6, "oob_score": True}
    },
    "random forest with scores of training rows": {
        "params": {
            "boosting": "rf",
            "objective": "softmax",
            "subsample": 0.6,
            "oob_score": True,
            "train_scores": True,
            "early_stopping": True,
            "patience": 2,
            "eval_metric": ["logloss", "accuracy", "auc"],
        },
        "target": "class",
        "weight": "w",
    },
    "random forest of several targets with scores": {
        "params": {
            "boosting": "rf",
            "multi_strategy": "one_output_per_tree",
            "subsample": 0.6,
            "eval_metric": "r2",
        },
        "target": ["y", "y2"],
    },
    "line search of quantiles": {
        "params": {"objective": "quantile", "leaf_estimation": "line_search"}
    },
    "line search": {"params": {"objective": "huber", "leaf_estimation": "line_search"}},
    "line search by GOSS with weights": {
        "params": {"objective": "logistic", "leaf_estimation": "line_search", "sampling": "goss"},
        "target": "high",
        "weight": "w",
    },
    "line search of classes": {
        "params": {
            "objective": "softmax",
            "leaf_estimation": "line_search",
            "max_leaves": 4,
            "n_estimators": 2,
        },
        "target": "class",
    },
    "line search of vector leaves": {
        "params": {
            "objective": "softmax",
            "leaf_estimation": "line_search",
            "multi_strategy": "multi_output_tree",
            "subsample": 0.7,
            "max_leaves": 4,
            "n_estimators": 2,
        },
        "target": "class",
    },
    "line search of classes by DART": {
        "params": {
            "objective": "softmax",
            "leaf_estimation": "line_search",
            "boosting": "dart",
            "drop_rate": 0.5,
            "max_leaves": 4,
        },
        "target": "class",
    },
    "line search of distributions in boosted forests": {
        "params": {
            "objective": "normal",
            "leaf_estimation": "line_search",
            "num_parallel_tree": 3,
            "subsample": 0.6,
        },
        "weight": "w",
    },
    "line search of several targets": {
        "params": {
            "objective": "poisson",
            "leaf_estimation": "line_search",
            "multi_strategy": "one_output_per_tree",
            "grow_policy": "symmetric",
            "monotone_constraints": {"a": 1},
        },
        "target": ["time", "upper"],
    },
    "line search in a random forest": {
        "params": {
            "objective": "logistic",
            "leaf_estimation": "line_search",
            "boosting": "rf",
            "subsample": 0.6,
            "oob_score": True,
        },
        "target": "high",
    },
    "Cox": {"params": {"objective": "cox"}, "target": "time"},
    "Cox with weights": {"params": {"objective": "cox"}, "target": "time", "weight": "w"},
    "Cox by rows left out": {
        "params": {"objective": "cox", "early_stopping": "oob", "subsample": 0.6, "patience": 2},
        "target": "time",
        "weight": "w",
    },
    "Cox of a random forest with rows left out": {
        "params": {
            "objective": "cox",
            "boosting": "rf",
            "subsample": 0.6,
            "oob_score": True,
            "eval_metric": ["loss", "concordance"],
        },
        "target": "time",
        "weight": "w",
    },
    "a loss of all rows by rows left out": {
        "params": {"objective": absolute_of_all, "oob_score": True, "subsample": 0.6},
        "weight": "w",
    },
    "several targets of a loss of all rows by rows left out": {
        "params": {
            "multi_strategy": "one_output_per_tree",
            "objective": absolute_of_all,
            "early_stopping": "oob",
            "subsample": 0.6,
        },
        "target": ["y", "y2"],
    },
    "a loss of all rows": {"params": {"objective": of_all}},
    "AFT": {"params": {"objective": "aft"}, "target": "time"},
    "distributions": {"params": {"objective": "normal"}},
    "early stopping": {"params": {"early_stopping": True, "patience": 2}},
    "early stopping by folds": {"params": {"early_stopping": "cv"}},
    "early stopping by folds with weights of a random forest": {
        "params": {"early_stopping": "cv", "boosting": "rf", "subsample": 0.6},
        "weight": "w",
    },
    "Cox by folds": {
        "params": {"objective": "cox", "early_stopping": "cv", "eval_metric": ["concordance"]},
        "target": ["died", "time"],
        "weight": "w",
    },
    "a loss of all rows by folds": {
        "params": {"objective": absolute_of_all, "early_stopping": "cv"},
        "groups": "q",
    },
    "several targets of a loss of all rows by folds": {
        "params": {
            "multi_strategy": "one_output_per_tree",
            "objective": absolute_of_all,
            "early_stopping": "cv",
        },
        "target": ["y", "y2"],
    },
    "rankings by folds": {
        "params": {"objective": "lambdarank", "early_stopping": "cv"},
        "target": "class",
        "qid": "q",
        "weight": "v",
    },
    "rankings of few columns by folds": {
        "params": {
            "objective": "rank_xendcg",
            "early_stopping": "cv",
            "eval_metric": ["map", "loss", "ndcg@3"],
        },
        "target": "class",
        "qid": "q2",
        "columns": ["b"],
    },
    "rankings with positions by folds": {
        "params": {"objective": "lambdarank", "early_stopping": "cv"},
        "target": "class",
        "qid": "q",
        "position": "place",
    },
    "target statistics by folds": {
        "params": {
            "target_statistics": True,
            "early_stopping": "cv",
            "monotone_constraints": {"a": 1},
        },
        "columns": ["a", "street", "d", "town"],
    },
    "target statistics by folds of classes": {
        "params": {
            "target_statistics": True,
            "early_stopping": "cv",
            "objective": "softmax",
            "max_bins_by_feature": {"d": 9},
            "forced_bins": {"a": [0.0, 0.5]},
        },
        "columns": ["street", "a", "town", "d"],
        "target": "class",
        "weight": "w",
    },
    "target statistics alone by folds": {
        "params": {
            "target_statistics": True,
            "early_stopping": "cv",
            "objective": "logistic",
            "linear_leaves": True,
        },
        "columns": ["street"],
        "target": "high",
        "groups": "q",
    },
    "target statistics of rankings by folds": {
        "params": {
            "target_statistics": True,
            "early_stopping": "cv",
            "objective": "lambdarank",
        },
        "columns": ["a", "street"],
        "target": "class",
        "qid": "q",
        "weight": "v",
    },
    "target statistics of several targets by folds, with rows left out": {
        "params": {
            "target_statistics": True,
            "early_stopping": "cv",
            "boosting": "dart",
            "subsample": 0.7,
        },
        "columns": ["a", "street"],
        "target": ["y", "y2"],
    },
    "target statistics and crosses by folds": {
        "params": {
            "target_statistics": True,
            "early_stopping": "cv",
            "feature_crosses": [("a", "b", "ratio")],
        },
        "columns": ["a", "b", "street"],
    },
    "target statistics and crosses of classes by folds": {
        "params": {
            "target_statistics": True,
            "early_stopping": "cv",
            "objective": "softmax",
            "feature_crosses": [("a", "b", "ratio"), ("b", "d", "product")],
            "max_bins_by_feature": {"d": 9},
            "linear_leaves": True,
        },
        "columns": ["street", "b", "town", "a", "d"],
        "target": "class",
        "weight": "w",
    },
    "bundles with conflicts of target statistics and crosses by folds": {
        "params": {
            "max_conflict_rate": 0.1,
            "target_statistics": True,
            "early_stopping": "cv",
            "feature_crosses": [("a", "b", "product")],
        },
        "columns": ["a", "b", *SPARSE, "street"],
    },
    "bundles with conflicts and crosses by folds of groups": {
        "params": {
            "max_conflict_rate": 0.1,
            "early_stopping": "cv",
            "linear_leaves": True,
            "feature_crosses": [("a", "b", "product")],
        },
        "columns": [*SPARSE, "b", "a"],
        "weight": "w",
        "groups": "q",
    },
    "bundles with conflicts of rankings by folds": {
        "params": {"max_conflict_rate": 0.1, "early_stopping": "cv", "objective": "lambdarank"},
        "columns": ["a", *SPARSE],
        "target": "class",
        "qid": "q",
        "position": "place",
    },
    "early stopping by rows left out": {"params": {"early_stopping": "oob", "subsample": 0.6}},
    "scores of the training rows": {"params": {"train_scores": True, "eval_metric": "mae"}},
    "weights": {"weight": "w"},
    "GOSS with weights": {"params": {"sampling": "goss"}, "weight": "w"},
    "exact by folds": {
        "params": {"tree_method": "exact", "early_stopping": "cv"},
        "columns": NUMBERS,
        "weight": "w",
    },
    "exact with target statistics and crosses by folds": {
        "params": {
            "tree_method": "exact",
            "early_stopping": "cv",
            "target_statistics": True,
            "feature_crosses": [("a", "b", "ratio")],
            "objective": "softmax",
        },
        "columns": ["street", "a", "town", "b"],
        "target": "class",
    },
    "exact rankings by folds": {
        "params": {"tree_method": "exact", "early_stopping": "cv", "objective": "lambdarank"},
        "columns": NUMBERS,
        "target": "class",
        "qid": "q",
        "position": "place",
    },
    "approx of vectors by folds of groups": {
        "params": {"tree_method": "approx", "early_stopping": "cv", "subsample": 0.7},
        "columns": NUMBERS,
        "target": ["y", "y2"],
        "groups": "q",
    },
    "approx by Cox by folds": {
        "params": {"tree_method": "approx", "early_stopping": "cv", "objective": "cox"},
        "columns": ["b", "d"],
        "target": ["died", "time"],
    },
    "groups": {"params": {"early_stopping": "cv"}, "groups": "q"},
    "groups held out": {"params": {"early_stopping": True, "patience": 2}, "groups": "q"},
    "linear leaves with constraints": {
        "params": {"linear_leaves": True, "monotone_constraints": {"a": 1}}
    },
    "linear leaves by GOSS with weights": {
        "params": {"linear_leaves": True, "sampling": "goss", "max_delta_step": 0.4},
        "weight": "w",
    },
    "linear leaves of symmetric trees of classes": {
        "params": {"linear_leaves": True, "grow_policy": "symmetric", "objective": "softmax"},
        "target": "class",
    },
    "linear leaves by DART": {
        "params": {"linear_leaves": True, "boosting": "dart", "n_estimators": 8, "drop_rate": 0.5}
    },
    "linear leaves of boosted forests": {
        "params": {"linear_leaves": True, "num_parallel_tree": 3, "subsample": 0.6}
    },
    "linear leaves of a random forest with rows left out": {
        "params": {
            "linear_leaves": True,
            "boosting": "rf",
            "objective": "poisson",
            "subsample": 0.6,
            "oob_score": True,
            "train_scores": True,
            "eval_metric": "mae",
        },
        "target": "time",
        "weight": "w",
    },
    "linear leaves of crosses": {
        "params": {
            "linear_leaves": True,
            "feature_crosses": [("a", "b", "product"), ("d", "b", "ratio")],
            "early_stopping": True,
            "patience": 2,
        },
    },
    "linear leaves by rows left out": {
        "params": {
            "linear_leaves": True,
            "early_stopping": "oob",
            "subsample": 0.6,
            "train_scores": True,
            "eval_metric": "mae",
        },
    },
    "linear leaves of several targets": {
        "params": {
            "linear_leaves": True,
            "multi_strategy": "one_output_per_tree",
            "early_stopping": True,
            "patience": 2,
        },
        "target": ["y", "y2"],
    },
    "linear leaves of vectors": {
        "params": {
            "linear_leaves": True,
            "multi_strategy": "multi_output_tree",
            "early_stopping": True,
            "patience": 2,
        },
        "target": ["y", "y2"],
        "weight": "w",
    },
    "linear leaves of vectors with constraints": {
        "params": {
            "linear_leaves": True,
            "multi_strategy": "multi_output_tree",
            "grow_policy": "depthwise",
            "monotone_constraints": {"a": 1},
            "interaction_constraints": [["a", "b"], ["b", "d", "town"]],
            "max_delta_step": 0.5,
            "sampling": "goss",
        },
        "target": ["y", "y2"],
    },
    "linear leaves of vectors by DART": {
        "params": {
            "linear_leaves": True,
            "multi_strategy": "multi_output_tree",
            "objective": "poisson",
            "boosting": "dart",
            "drop_rate": 0.5,
            "n_estimators": 8,
        },
        "target": ["time", "upper"],
    },
    "linear leaves of vectors in a random forest with rows left out": {
        "params": {
            "linear_leaves": True,
            "multi_strategy": "multi_output_tree",
            "objective": "softmax",
            "boosting": "rf",
            "subsample": 0.6,
            "oob_score": True,
        },
        "target": "class",
    },
    "linear leaves of symmetric trees of vectors": {
        "params": {
            "linear_leaves": True,
            "multi_strategy": "multi_output_tree",
            "grow_policy": "symmetric",
            "objective": "softmax",
            "train_scores": True,
            "subsample": 0.7,
        },
        "target": "class",
    },
    "linear leaves by Cox with random cuts": {
        "params": {
            "linear_leaves": True,
            "objective": "cox",
            "extra_trees": True,
            "colsample_bynode": 0.7,
        },
        "target": "time",
    },
    "rankings": {"params": {"objective": "lambdarank"}, "target": "class", "qid": "q"},
    "rankings that stop early": {
        "params": {"objective": "lambdarank", "early_stopping": True, "patience": 2},
        "target": "class",
        "qid": "q",
    },
    "rankings by GOSS": {
        "params": {"objective": "lambdarank", "sampling": "goss"},
        "target": "class",
        "qid": "q",
    },
    "rankings with positions": {
        "params": {"objective": "lambdarank"},
        "target": "class",
        "qid": "q",
        "position": "place",
    },
}
ON_ONE_WORKER = {
    *(name for name in FEATURES if "loss of all rows" in name),
    *(name for name in FEATURES if FEATURES[name].get("params", {}).get("objective") == "cox"),
    *(name for name in FEATURES if FEATURES[name].get("params", {}).get("early_stopping") == "cv"),
    "target statistics",
    "target statistics of several targets",
    "bundles with conflicts of target statistics",
    *(name for name in FEATURES if "exact" in name or "approx" in name),
}
"""Features that need all rows on one worker of a cluster (reasons: docs/distributed.md)."""

SMALL = {"n_estimators": 4, "max_leaves": 8, "n_jobs": 2}
"""Each leaf is a pass over all chunks: eight take every path of a grower."""

OTHER_ROLES = ("weight", "qid", "position", "groups")


def parts_of(feature: dict[str, Any]) -> tuple[dict[str, Any], list[str], Any, dict[str, str]]:
    """Return parameters, columns, target, and columns of other roles."""
    params = {**SMALL, **feature.get("params", {})}
    if params.get("grow_policy") == "symmetric":
        params.pop("max_leaves", None)
    roles = {role: feature[role] for role in OTHER_ROLES if role in feature}
    return params, feature.get("columns", COLUMNS), feature.get("target", "y"), roles


def in_memory(feature: dict[str, Any]) -> Dataset:
    _, columns, target, roles = parts_of(feature)
    known = {role: ROWS[name].to_numpy() for role, name in roles.items()}
    has_names = isinstance(target, list)
    return Dataset(ROWS[columns], ROWS[target] if has_names else ROWS[target].to_numpy(), **known)


@functools.cache
def bytes_in_memory(name: str) -> bytes:
    """Train a feature on the table in memory, and return the bytes of the model."""
    feature = FEATURES[name]
    return train(parts_of(feature)[0], in_memory(feature)).to_bytes()


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    pytest.importorskip("pyarrow", reason="files need pyarrow")
    folder = tmp_path_factory.mktemp("rows")
    found = [folder / "0.parquet", folder / "1.parquet"]
    ROWS[:250].to_parquet(found[0])
    ROWS[250:].to_parquet(found[1])
    return found


def from_files(paths: list[Path], feature: dict[str, Any], **more: Any) -> Dataset:
    _, columns, target, roles = parts_of(feature)
    return Dataset.from_files(paths, target, features=columns, **roles, **more)


# What is read at once is a table in memory, and the test of chunks reads files of every feature.  A
# third of the trees are enough in a fast run, and all that is read, or brought together, otherwise.
READ_AT_ONCE = [
    name
    if k % 3 == 0 or name in ON_ONE_WORKER or {"columns", *OTHER_ROLES} & FEATURES[name].keys()
    else pytest.param(name, marks=pytest.mark.slow)
    for k, name in enumerate(FEATURES)
]


@pytest.mark.parametrize("name", READ_AT_ONCE)
def test_files_give_the_bytes_of_memory(name: str, paths: list[Path]) -> None:
    feature = FEATURES[name]
    params = parts_of(feature)[0]
    assert train(params, from_files(paths, feature)).to_bytes() == bytes_in_memory(name)


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make chunks of 128 rows that are never joined, and tables of them an error."""

    def refused(rows: Any, params: Any, reason: AllRowsNeededError, *more: Any) -> Dataset:
        raise reason

    never_join_chunks(monkeypatch)
    monkeypatch.setattr(resident, "in_memory", refused)


@pytest.mark.parametrize("name", FEATURES)
def test_chunks_give_the_bytes_of_memory(name: str, paths: list[Path], small_chunks: None) -> None:
    feature = FEATURES[name]
    params, rows = parts_of(feature)[0], from_files(paths, feature)
    assert train(params, rows).to_bytes() == bytes_in_memory(name)


@pytest.mark.parametrize("name", FEATURES)
def test_read_only_arrays(name: str) -> None:
    """Arrays of pandas are read-only: no kernel needs another variant, or writes to them."""
    params, columns, target, roles = parts_of(FEATURES[name])
    params = {**params, "early_stopping": False} if "groups" in roles else params
    roles.pop("groups", None)
    y: Any = ROWS[target].to_numpy().astype(float)
    if isinstance(target, list) and params.get("objective") in SURVIVAL:
        y = {column: ROWS[column].to_numpy().copy() for column in target}  # with their names
    X = ROWS[[column for column in columns if column in NUMBERS]].to_numpy().astype(float)
    if "street" in columns:  # numbers that are categories
        X = np.column_stack([X, ROWS.street.astype(float)])
        params["n_jobs"] = 1
    names = [*(column for column in columns if column in NUMBERS)]
    names += ["street"] if "street" in columns else []
    more = {"categorical_features": ["street"]} if "street" in columns else {}
    known = {role: ROWS[column].to_numpy().copy() for role, column in roles.items()}
    if params.get("interaction_constraints") is not None:
        params["interaction_constraints"] = [["a", "b"], ["d"]]
    rows = Dataset(X, y, feature_names=names, **more, **known)
    expected = train(params, rows).to_bytes()
    for array in (X, *(y.values() if isinstance(y, dict) else [y]), *known.values()):
        array.flags.writeable = False
    assert train(params, Dataset(X, y, feature_names=names, **more, **known)).to_bytes() == expected


@pytest.mark.parametrize(
    "params",
    [{}, {"grow_policy": "symmetric"}, {"sampling": "goss"}, {"linear_leaves": True}],
)
def test_validation_rows_of_files(params: dict[str, Any], paths: list[Path]) -> None:
    params = {"n_estimators": 9, "early_stopping": True, "patience": 2, **params}
    files = [Dataset.from_files(path, "y", features=COLUMNS) for path in paths]
    memory = [Dataset(part[COLUMNS], part.y.to_numpy()) for part in (ROWS[:250], ROWS[250:])]
    expected = train(params, *memory).to_bytes()
    assert train(params, *files).to_bytes() == expected
    assert train(params, files[0], memory[1]).to_bytes() == expected
    assert train(params, memory[0], memory[1]).to_bytes() == expected
    several = {"first": files[1], "second": memory[1]}
    plain = {"first": memory[1], "second": memory[1]}
    assert train(params, files[0], several).to_bytes() == train(params, memory[0], plain).to_bytes()


@pytest.mark.parametrize("method", ["hist", "exact"])
def test_several_targets_of_files_are_matched_by_name(method: str, paths: list[Path]) -> None:
    params = {"n_estimators": 5, "early_stopping": True, "patience": 2, "tree_method": method}
    numbers = [column for column in COLUMNS if column in NUMBERS]

    def rows(path: Path, *targets: str) -> Dataset:
        return Dataset.from_files(path, [*targets], features=numbers)

    first, last = ROWS[:250], ROWS[250:]
    memory = [Dataset(part[numbers], part[["y", "y2"]]) for part in (first, last)]
    expected = train(params, *memory)
    assert expected.target_names == ("y", "y2")
    for valid in (rows(paths[1], "y", "y2"), rows(paths[1], "y2", "y"), memory[1]):
        found = train(params, rows(paths[0], "y", "y2"), valid)
        assert found.to_bytes() == expected.to_bytes()
    score = expected.eval(memory[1])
    assert expected.eval(rows(paths[1], "y2", "y")) == pytest.approx(score)
    assert expected.eval(rows(paths[1], "y", "y2")) == pytest.approx(score)
    for other in (("y", "d"), ("y",), ("y", "y2", "d")):
        without = [column for column in numbers if column not in other]
        wrong = Dataset.from_files(paths[1], [*other], features=without)
        with pytest.raises(DataError, match=r"lacks the column 'y2'|columns?, but"):
            train({**params}, Dataset.from_files(paths[0], ["y", "y2"], features=without), wrong)


def test_files_stay_as_the_user_gave_them(paths: list[Path]) -> None:
    def rows(*targets: str) -> Dataset:
        return Dataset.from_files(paths, [*targets], features=NUMBERS)

    params = {"n_estimators": 3}
    expected, first = train(params, rows("y2", "y")), train(params, rows("y", "y2"))
    used = rows("y2", "y")
    for use in (
        lambda: first.eval(used),
        lambda: train(params, rows("y", "y2"), used),
        lambda: train(params, used, init_model=first),
    ):
        use()
        found = train(params, used)
        assert found.target_names == ("y2", "y")
        assert found.to_bytes() == expected.to_bytes()


def test_files_keep_their_labels_after_a_model_of_classes_was_scored(paths: list[Path]) -> None:
    labels = np.where(ROWS.b > 3.0, 8.0, 5.0)
    model = HedgerowClassifier(n_estimators=2).fit(ROWS[["a"]], labels).booster_
    rows = ROWS[["a"]].assign(label=labels)
    path = paths[0].with_name("labels.parquet")
    rows.to_parquet(path)
    files = Dataset.from_files(path, "label")
    params = {"n_estimators": 2, "objective": "squared_error"}
    assert model.eval(files) == pytest.approx(model.eval(Dataset(rows[["a"]], labels)))
    expected = train(params, Dataset(rows[["a"]], labels))
    assert train(params, files).to_bytes() == expected.to_bytes()


def test_intervals_of_files_are_scored_as_one_target(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="files need pyarrow")
    times = np.exp(ROWS.y.to_numpy() / 4)
    rows = ROWS[["a", "b"]].assign(lower=times, upper=times + 1.0)
    rows.to_parquet(tmp_path / "times.parquet")
    memory = Dataset(rows[["a", "b"]], rows[["lower", "upper"]])
    model = train({"objective": "aft", "n_estimators": 4}, memory)
    files = Dataset.from_files(tmp_path / "times.parquet", ["lower", "upper"])
    assert model.eval(files) == pytest.approx(model.eval(memory))


def test_unknown_categories_that_end_at_inner_nodes_are_read_into_memory(
    paths: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    never_join_chunks(monkeypatch)
    params = {"n_estimators": 4, "early_stopping": True, "target_statistics": False}
    columns, unknown = ["a", "street"], {"unknown_category": "backoff"}
    files = Dataset.from_files(paths, "y", features=columns, **unknown)
    memory = Dataset(ROWS[columns], ROWS.y.to_numpy(), **unknown)
    assert train(params, files).to_bytes() == train(params, memory).to_bytes()
    valid = Dataset(ROWS[columns].assign(street="elsewhere"), ROWS.y.to_numpy(), **unknown)
    expected = train(params, memory, valid).to_bytes()
    assert train(params, files, valid).to_bytes() == expected


def test_going_on_from_files_with_new_categories(paths: list[Path], tmp_path: Path) -> None:
    first = train({"n_estimators": 3}, Dataset(ROWS[COLUMNS], ROWS.y.to_numpy()))
    more = ROWS[COLUMNS].copy()
    more.loc[:9, "town"] = "new"
    more.assign(y=ROWS.y).to_parquet(tmp_path / "more.parquet")
    files = Dataset.from_files(tmp_path / "more.parquet", "y")
    found = train({"n_estimators": 3}, files, init_model=first)
    memory = Dataset(more, ROWS.y.to_numpy())
    assert found.to_bytes() == train({"n_estimators": 3}, memory, init_model=first).to_bytes()


def test_offsets_of_files(paths: list[Path]) -> None:
    params = {"n_estimators": 4, "grow_policy": "symmetric"}
    columns = [*COLUMNS, "o"]
    files = Dataset.from_files(paths, "y", features=COLUMNS, offset="o")
    memory = Dataset(ROWS[columns], ROWS.y.to_numpy(), offset="o")
    assert train(params, files).to_bytes() == train(params, memory).to_bytes()


@pytest.mark.parametrize(
    "params",
    [
        {"grow_policy": "symmetric"},
        {"sampling": "goss"},
        {"early_stopping": "cv"},
        {"max_conflict_rate": 0.1, "early_stopping": True},
    ],
)
def test_sparse_batches(params: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    if "max_conflict_rate" in params:
        never_join_chunks(monkeypatch)
    dense = RNG.normal(size=(300, 12)) * (RNG.random((300, 12)) < 0.2)
    X, y = csr_array(dense), dense.sum(axis=1)

    def batches() -> Iterator[Any]:
        for start in range(0, 300, 100):
            yield X[start : start + 100], y[start : start + 100]

    params = {"n_estimators": 4, **params}
    found = train(params, Dataset.from_batches(batches)).to_bytes()
    assert found == train(params, Dataset(X, y)).to_bytes()


def test_rows_that_do_not_fit_say_what_needs_them() -> None:
    def batches() -> Iterator[Any]:
        for seed in range(7):
            X = np.random.default_rng(seed).normal(size=(50_000, 8))
            yield X, X[:, 0]

    rows = Dataset.from_batches(batches, memory_limit="32 MB")
    integers = np.arange(80).reshape(10, 8)
    first = train({"n_estimators": 1}, Dataset(integers, integers[:, 0]))
    with pytest.raises(
        hedgerow.ParameterError, match=r"of other kinds.* 33.6 MB, and memory_limit is 32"
    ):
        train({"n_estimators": 2}, rows, init_model=first)
    assert train({"n_estimators": 2}, rows).num_rounds == 2


@pytest.mark.parametrize("objective", ["squared_error", "softmax"])
def test_symmetric_trees_of_rows_that_do_not_fit(objective: str) -> None:
    def target(X: Any) -> Any:
        y = X[:, 0] * X[:, 1] + X[:, 2]
        return y if objective == "squared_error" else np.digitize(y, [-0.5, 0.5])

    parts = [np.random.default_rng(seed).normal(size=(50_000, 8)) for seed in range(7)]
    params = {
        "n_estimators": 2,
        "grow_policy": "symmetric",
        "objective": objective,
        "monotone_constraints": {"x2": 1} if objective == "squared_error" else None,
    }
    rows = Dataset.from_batches(lambda: ((X, target(X)) for X in parts), memory_limit="32 MB")
    table = np.concatenate(parts)
    found, memory = train(params, rows), train(params, Dataset(table, target(table)))
    assert found.to_bytes() == memory.to_bytes()


@pytest.mark.parametrize(
    "params",
    [
        {"sampling": "goss"},
        {"sampling": "goss", "objective": "softmax"},
        {"sampling": "mvs", "subsample": 0.4},
    ],
)
def test_rows_that_do_not_fit_are_sampled_by_gradients(params: dict[str, Any]) -> None:
    def batch(seed: int) -> tuple[Any, Any]:
        X = np.random.default_rng(seed).normal(size=(50_000, 8)).astype(np.float32)
        y = X[:, 0] + X[:, 1] ** 2
        return X, np.digitize(y, [0.0, 1.5]) if "objective" in params else y

    def batches() -> Iterator[Any]:
        yield from map(batch, range(7))

    params = {"n_estimators": 3, "n_jobs": 2, **params}
    rows = Dataset.from_batches(batches, memory_limit="32 MB")  # 33.6 MB as a table
    X, y = (np.concatenate(parts) for parts in zip(*batches(), strict=True))
    assert train(params, rows).to_bytes() == train(params, Dataset(X, y)).to_bytes()


def test_bundles_with_conflicts_say_what_memory_they_need(
    paths: list[Path], monkeypatch: pytest.MonkeyPatch, small_chunks: None
) -> None:
    monkeypatch.setattr(bundling, "_SHARE", 1e-4)  # of 32 MB
    rows = Dataset.from_files(paths, "y", features=SPARSE, memory_limit="32 MB")
    with pytest.raises(AllRowsNeededError, match=r"max_conflict_rate=0.1 .* memory_limit of 1"):
        train({"n_estimators": 2, "max_conflict_rate": 0.1}, rows)
    assert train({"n_estimators": 2, "bundle_features": True}, rows).num_rounds == 2


def test_bundles_of_categories_in_files_are_refused_as_in_memory(paths: list[Path]) -> None:
    for rows in (Dataset.from_files(paths, "y", features=COLUMNS), in_memory({})):
        with pytest.raises(hedgerow.ParameterError, match="column 'town' is a category"):
            train({"n_estimators": 2, "bundle_features": True}, rows)


def test_reasons_are_parameter_errors() -> None:
    assert issubclass(AllRowsNeededError, hedgerow.ParameterError)


# -- a cluster ---------------------------------------------------------------------------

# The code of a rank is that of chunks, above: a fifth of the features are enough in a fast run.
ON_CLUSTERS = [
    name if k % 5 == 0 else pytest.param(name, marks=pytest.mark.slow)
    for k, name in enumerate(sorted(FEATURES))
]


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    pytest.importorskip("dask.dataframe")
    with client_of_workers(2, processes=False) as found:
        yield found


def divided(values: Any, n_parts: int = 3) -> Any:
    import dask.dataframe as dd

    return dd.from_pandas(values, npartitions=n_parts, sort=False)


def on_all_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all workers train."""
    from hedgerow.distributed import training

    monkeypatch.setattr(training, "run_alone", None)


@pytest.mark.parametrize("name", ON_CLUSTERS)
def test_clusters_give_the_bytes_of_memory(
    name: str, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hedgerow.distributed import train as train_on_cluster

    if name not in ON_ONE_WORKER:
        on_all_workers(monkeypatch)
    feature = FEATURES[name]
    params, columns, target, roles = parts_of(feature)
    known = {role: divided(ROWS[column]) for role, column in roles.items()}
    found = train_on_cluster(client, params, divided(ROWS[columns]), divided(ROWS[target]), **known)
    assert found.to_bytes() == bytes_in_memory(name)


@pytest.mark.parametrize("trees", [{}, {"linear_leaves": True}])
def test_going_on_on_a_cluster(trees: dict[str, Any], client: Any) -> None:
    from hedgerow.distributed import train as train_on_cluster

    memory, params = Dataset(ROWS[COLUMNS], ROWS.y.to_numpy()), {"n_estimators": 3, **trees}
    first = train(params, memory)
    found = train_on_cluster(
        client, params, divided(ROWS[COLUMNS]), divided(ROWS.y), init_model=first
    )
    assert found.to_bytes() == train(params, memory, init_model=first).to_bytes()


def test_going_on_with_new_categories_on_workers(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hedgerow.distributed import training

    monkeypatch.setattr(training, "run_alone", None)  # all workers, not one
    more = ROWS[COLUMNS].copy()
    more.loc[:9, "town"] = "new"
    first = train({"n_estimators": 3}, Dataset(ROWS[COLUMNS], ROWS.y.to_numpy()))
    params = {"n_estimators": 5, "early_stopping": True, "patience": 1}
    found = training.train(client, params, divided(more), divided(ROWS.y), init_model=first)
    expected = train(params, Dataset(more, ROWS.y.to_numpy()), init_model=first)
    assert found.to_bytes() == expected.to_bytes()


@pytest.mark.parametrize(
    ("kind", "target", "params"),
    [
        ("Regressor", "y", {}),
        ("Regressor", "y", {"n_estimators": 4, "sampling": "goss"}),
        ("Classifier", "class", {"n_estimators": 4, "grow_policy": "symmetric"}),
        ("Classifier", "class", {"n_estimators": 4, "class_weight": "balanced"}),
    ],
)
def test_estimators_on_a_cluster(
    kind: str, target: str, params: dict[str, Any], client: Any, tmp_path: Path
) -> None:
    local = {"Regressor": HedgerowRegressor, "Classifier": HedgerowClassifier}[kind](**params)
    cluster = getattr(hedgerow, f"DaskHedgerow{kind}")(**params)
    cluster.fit(divided(ROWS[COLUMNS]), divided(ROWS[target]), client=client)
    local.fit(ROWS[COLUMNS], ROWS[target])
    cluster.save(tmp_path / "cluster")
    local.save(tmp_path / "local")
    assert (tmp_path / "cluster").read_bytes() == (tmp_path / "local").read_bytes()


def test_warm_start_and_rankings_on_a_cluster(client: Any) -> None:
    X, y, q = divided(ROWS[COLUMNS]), divided(ROWS["class"]), divided(ROWS.q)
    cluster = hedgerow.DaskHedgerowRanker(n_estimators=3, warm_start=True)
    local = HedgerowRanker(n_estimators=3, warm_start=True)
    for n_rounds in (3, 6):
        cluster.set_params(n_estimators=n_rounds).fit(X, y, qid=q, client=client)
        local.set_params(n_estimators=n_rounds).fit(ROWS[COLUMNS], ROWS["class"], qid=ROWS.q)
    assert cluster.booster_.to_bytes() == local.booster_.to_bytes()
    assert cluster.booster_.num_rounds == 6
