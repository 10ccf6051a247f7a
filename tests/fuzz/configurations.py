"""Random configurations: a table, an estimator with its parameters, and targets for them.

A seed and a number determine a configuration.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .tables import DrawnTable, draw_table

SETTLED = {
    "learning_rate": 0.3,
    "max_leaves": 8,
    "min_samples_leaf": 2,
    "reg_lambda": 1.0,
    "subsample": 1.0,
    "colsample_bynode": 1.0,
    "min_data_per_group": 10,
    "max_cat_to_onehot": 4,
    "max_bins": 255,
    "grow_policy": "leafwise",
    "linear_leaves": False,
    "early_stopping": False,
}
"""Fixed values of automatic parameters, so that fits do not depend on the container."""

REGRESSION = {
    "squared_error": ({}, "real"),
    "absolute_error": ({}, "real"),
    "quantile": ({"quantile": (0.1, 0.5, [0.1, 0.5, 0.9])}, "real"),
    "huber": ({"delta": (0.5, 2.0)}, "real"),
    "pseudo_huber": ({"delta": (0.5, 2.0)}, "real"),
    "fair": ({"delta": (0.5, 2.0)}, "real"),
    "log_cosh": ({}, "real"),
    "expectile": ({"expectile": (0.1, 0.7)}, "real"),
    "mape": ({}, "real"),
    "poisson": ({}, "counts"),
    "gamma": ({}, "positive"),
    "tweedie": ({"tweedie_power": (1.1, 1.9)}, "counts"),
    "squared_log_error": ({}, "counts"),
    "cross_entropy": ({}, "share"),
    "normal": ({}, "real"),
    "log_normal": ({}, "positive"),
    "cox": ({}, "survival"),
    "aft": (
        {"aft_distribution": ("normal", "logistic", "extreme"), "aft_scale": (0.5,)},
        "survival",
    ),
}
CLASSES = {
    "auto": {},
    "logistic": {},
    "exponential": {},
    "softmax": {},
    "focal": {"focal_gamma": (0.5, 3.0), "focal_alpha": (0.3,)},
    "hinge": {},
    "one_vs_all": {},
}
RANKING = ("lambdarank", "rank_map", "rank_pairwise", "rank_xendcg")

TASKS = {"fit": 0.77, "cross_fit": 0.06, "continue": 0.06, "train": 0.08, "refit": 0.03}
NUMBER_METRICS = ("rmse", "mae", "r2", "mape", "median_error", "max_error", "pinball", "smape")
CLASS_METRICS = (
    "logloss",
    "accuracy",
    "auc",
    "average_precision",
    "brier",
    "f1",
    "mcc",
    "kappa",
    "ks",
)

OPTIONS: dict[str, tuple[Any, ...]] = {
    "learning_rate": (0.01, 1.0, 3.0),
    "max_leaves": (2, 3, 31, 300),
    "max_depth": (1, 2, 5, 40),
    "min_samples_leaf": (1, 5, 50),
    "min_child_weight": (0.0, 1.0, 100.0),
    "reg_lambda": (0.0, 100.0),
    "reg_alpha": (0.1, 10.0),
    "gamma": (0.01, 1.0),
    "max_delta_step": (0.1,),
    "subsample": (0.1, 0.5, 0.9),
    "sampling": ("goss", "mvs"),
    "goss_top_rate": (0.0, 0.5),
    "goss_other_rate": (0.05, 0.4),
    "colsample_bytree": (0.1, 0.5),
    "colsample_bylevel": (0.1, 0.5),
    "colsample_bynode": (0.1, 0.5),
    "max_bins": (2, 3, 15, 16, 64, 254),
    "grow_policy": ("depthwise", "symmetric", "symmetric"),
    "tree_method": ("exact", "approx"),
    "sketch": ("local",),
    "sketch_eps": (0.3,),
    "boosting": ("dart", "rf"),
    "leaf_estimation": ("newton", "gradient", "line_search"),
    "multi_strategy": ("one_output_per_tree", "multi_output_tree"),
    "drop_rate": (0.0, 0.9),
    "skip_drop": (0.0,),
    "max_drop": (1,),
    "num_parallel_tree": (2, 3),
    "oob_score": (True,),
    "zero_as_missing": (True, True),
    "bundle_features": (True, False),
    "bundle_order": ("degree",),
    "bundle_conflicts": ("max",),
    "max_conflict_rate": (0.01, 0.3),
    "unknown_category": ("error",),
    "max_cat_to_onehot": (1, 254),
    "max_cat_threshold": (1, 3),
    "cat_smooth": (0.0,),
    "cat_l2": (0.0,),
    "min_data_per_group": (1, 1000),
    "target_statistics": (True, False),
    "statistics_order": (1,),
    "linear_leaves": (True,),
    "linear_lambda": (0.0,),
    "feature_crosses": ("draw",),
    "monotone_constraints": ("draw",),
    "interaction_constraints": ("draw", "pairwise", "no_interactions"),
    "feature_penalties": ("draw",),
    "feature_weights": ("draw",),
    "extra_trees": (True,),
    "path_smooth": (0.5, 100.0),
    "monotone_penalty": (0.5, 3.0),
    "max_bins_by_feature": ("draw",),
    "categorical_features": ("draw", None),
    "early_stopping": (True, "cv"),
    "patience": (1, 3),
    "validation_fraction": (0.3,),
    "random_state": (1, 2**31 - 1),
}
NEEDED = {
    "goss_top_rate": {"sampling": "goss"},
    "goss_other_rate": {"sampling": "goss"},
    "sketch": {"tree_method": "approx"},
    "sketch_eps": {"tree_method": "approx"},
    "drop_rate": {"boosting": "dart"},
    "skip_drop": {"boosting": "dart"},
    "max_drop": {"boosting": "dart"},
    "oob_score": {"subsample": 0.5},
    "bundle_conflicts": {"max_conflict_rate": 0.1},
    "linear_lambda": {"linear_leaves": True},
    "feature_weights": {"colsample_bynode": 0.5},
    "monotone_penalty": {"monotone_constraints": {0: 1}},
}
CORE = (
    *("learning_rate", "max_leaves", "max_depth", "min_samples_leaf", "reg_lambda", "reg_alpha"),
    *("subsample", "colsample_bytree", "colsample_bylevel", "colsample_bynode", "max_bins"),
    *("grow_policy", "bundle_features", "max_conflict_rate", "bundle_order", "zero_as_missing"),
    *("multi_strategy", "linear_leaves", "min_child_weight", "boosting"),
    "num_parallel_tree",
)
"""Options that need few compiled kernels."""


@dataclass
class Configuration:
    """An estimator, a table, and the arguments of a fit."""

    index: int
    seed: int
    estimator: str
    table: DrawnTable
    params: dict[str, Any]
    target: Any
    fit: dict[str, Any] = field(default_factory=dict)
    unseen: DrawnTable | None = None
    is_settled: bool = False
    is_split_up: bool = False
    keeps_slots: bool = True
    task: str = "fit"

    @property
    def n_threads(self) -> int:
        """The number of threads of the fit that is compared with a single-threaded one.

        Threads share the trees of a fold only if there are more threads than folds.
        """
        return (2, 3, 2, 12)[self.index % 4]

    def __str__(self) -> str:
        table = self.table
        kinds = ",".join(sorted(set(table.kinds)))
        given = {name: value for name, value in self.params.items() if SETTLED.get(name) != value}
        return (
            f"{self.task} {self.estimator}({given}) settled={self.is_settled} {table.form} "
            f"{table.n_rows}x{table.n_features} [{kinds}] y{np.shape(self.target)} "
            f"fit={sorted(self.fit)}"
        )


def draw_configuration(
    seed: int, index: int, core: bool = False, form: str | None = None
) -> Configuration:
    """Draw configuration number ``index``, with a table in a given container.

    ``core`` configurations need few kernels.
    """
    rng = np.random.default_rng([seed, index])
    estimators = ["Regressor", "Classifier", "Ranker", "CARTClassifier", "CARTRegressor"]
    chances = [0.5, 0.5, 0, 0, 0] if core else [0.5, 0.35, 0.07, 0.04, 0.04]
    estimator = str(rng.choice(estimators, p=chances))
    table = draw_table(rng, core, form)
    if estimator.startswith("CART"):
        return _cart(rng, seed, index, estimator, table)
    params, settled = _draw_params(rng, table, core)
    loss, target, fit = _draw_target(rng, estimator, table, core)
    params.update(loss)
    if rng.random() < 0.9:
        _spare_refusals(params, estimator, table, target)
    found = Configuration(
        index, seed, estimator, table, params, target, fit,
        is_settled=settled,
        is_split_up=bool(rng.random() < 0.5),
        keeps_slots=bool(rng.random() < 0.8),
        task="fit",
    )  # fmt: skip
    _draw_rest(rng, found, core)
    return found


def _draw_rest(rng: np.random.Generator, found: Configuration, core: bool) -> None:
    table, fit = found.table, found.fit
    n = table.n_rows
    if rng.random() < 0.3:
        fit["sample_weight"] = _weight(rng, n)
    if rng.random() < 0.08:
        y = np.asarray(found.target)
        several = found.estimator == "Classifier" or y.ndim == 2
        classes = (y.shape[1] if y.ndim == 2 else len(np.unique(y))) if several else 1
        wide = classes > 2 or y.ndim == 2
        fit["offset"] = rng.normal(size=(n, classes) if wide else n)
    n_unseen = int(rng.choice([1, 2, 7, 60]))
    rows = rng.integers(0, n, n_unseen)
    found.unseen = _shaken(rng, table.take(rows))
    if found.estimator != "Ranker" and rng.random() < 0.15 and "offset" not in fit:
        fit["X_val"], fit["y_val"] = found.unseen, np.asarray(found.target)[rows]
    if core:
        if found.estimator == "Regressor" and rng.random() < 0.4:
            found.params["eval_metric"] = "rmse"
        return
    found.task = str(rng.choice(list(TASKS), p=list(TASKS.values())))
    _draw_metrics(rng, found)


def _draw_metrics(rng: np.random.Generator, found: Configuration) -> None:
    """Draw metrics, class weights, and groups of rows."""
    metrics = {"Regressor": NUMBER_METRICS, "Classifier": CLASS_METRICS}.get(found.estimator, ())
    if metrics and rng.random() < 0.15:
        found.params["eval_metric"] = rng.choice(metrics, int(rng.integers(1, 4))).tolist()
    if found.estimator == "Regressor" and rng.random() < 0.4:
        found.params["eval_metric"] = "rmse"
    if found.estimator == "Classifier" and rng.random() < 0.08:
        found.params["class_weight"] = "balanced"
    if found.estimator != "Ranker" and rng.random() < 0.05:
        found.fit["groups"] = rng.integers(0, 6, found.table.n_rows)


def _shaken(rng: np.random.Generator, table: DrawnTable) -> DrawnTable:
    """Return rows with values that the table does not have."""
    columns = []
    for column in table.columns:
        column = column.copy()
        if column.dtype == float:
            column[rng.random(len(column)) < 0.1] = rng.choice([0.0, np.nan, 1e9, -1.0, np.inf])
        elif column.dtype == object:
            column[rng.random(len(column)) < 0.1] = "never seen"
        columns.append(column)
    return DrawnTable(columns, table.kinds, table.form)


def _weight(rng: np.random.Generator, n: int) -> np.ndarray:
    kind = rng.integers(5)
    weight = [np.full(n, 7.0), rng.random(n) + 0.1, rng.integers(0, 3, n).astype(float)]
    weight += [np.exp(6 * rng.normal(size=n)), (np.arange(n) == rng.integers(n)).astype(float)]
    return weight[kind]


def _draw_params(
    rng: np.random.Generator, table: DrawnTable, core: bool
) -> tuple[dict[str, Any], bool]:
    params: dict[str, Any] = {"n_estimators": int(rng.integers(1, 7))}
    settled = core or bool(rng.random() < 0.6)
    if settled:
        params |= SETTLED
    elif table.n_rows <= 100 and rng.random() < 0.05:
        params = {"n_estimators": 30} if rng.random() < 0.7 else {}
    names = list(CORE if core else OPTIONS)
    for name in rng.choice(names, size=int(rng.choice([0, 1, 2, 3, 4, 6])), replace=False):
        choices = OPTIONS[str(name)]
        value = choices[rng.integers(len(choices))]
        params |= NEEDED.get(str(name), {})
        params[str(name)] = _draw_value(rng, str(name), table) if value == "draw" else value
    make_fit_together(params)
    return params, settled and params.get("early_stopping", False) is False


_NOT_BESIDE = {
    ("grow_policy", "symmetric"): ("tree_method", "extra_trees"),
    ("multi_strategy", "multi_output_tree"): (
        *("max_conflict_rate", "bundle_order", "bundle_conflicts", "bundle_features"),
        *("tree_method", "path_smooth"),
        *("monotone_constraints", "monotone_penalty", "feature_penalties"),
        *("sampling", "goss_top_rate", "goss_other_rate"),
    ),
    ("linear_leaves", True): (*("tree_method", "leaf_estimation", "path_smooth"),),
    ("tree_method", "exact"): (
        *("max_bins_by_feature", "max_conflict_rate", "bundle_order"),
        *("bundle_conflicts", "bundle_features", "sampling", "categorical_features", "extra_trees"),
    ),
}
_NOT_SPARSE = ("tree_method", "sketch", "sketch_eps", "categorical_features")


def _spare_refusals(params: dict[str, Any], estimator: str, table: DrawnTable, target: Any) -> None:
    """Drop options that conflict with others, so that few configurations are refused."""
    several = np.ndim(target) == 2 or params.get("objective") in ("normal", "log_normal")
    if estimator == "Classifier" and np.ndim(target) == 1:
        several = len(np.unique(target)) > 2
    if not several or estimator == "Ranker":
        params.pop("multi_strategy", None)
    if params.get("boosting") == "rf" or params.get("oob_score"):
        params.pop("num_parallel_tree", None)
    known = {**params, "tree_method": "exact"} if "tree_method" in params else params
    for (name, value), others in _NOT_BESIDE.items():
        if known.get(name) == value:
            for other in others:
                params.pop(other, None)
    if params.get("max_conflict_rate") and params.get("bundle_features") is False:
        del params["bundle_features"]
    for name in _NOT_SPARSE if table.is_sparse else ():
        params.pop(name, None)


def make_fit_together(params: dict[str, Any]) -> None:
    """Adjust settings that need others."""
    if params.get("grow_policy") == "symmetric":
        params.update(max_leaves=None)
        if params.get("max_depth", 1) > 10:
            params["max_depth"] = 4
    if params.get("boosting") == "rf":
        params.update(learning_rate=1.0, subsample=0.5)
    if params.get("sampling") == "goss":
        params["subsample"] = 1.0
    if params.get("sampling") == "mvs":
        params["subsample"] = 0.3
    if params.get("tree_method", "hist") != "hist" and "max_bins" in params:
        params["max_bins"] = 255


def _draw_value(rng: np.random.Generator, name: str, table: DrawnTable) -> Any:
    """Draw the options of single columns."""
    n = table.n_features
    names = [f"c{j}" for j in range(n)] if table.form in ("pandas", "polars") else list(range(n))
    plain = [j for j in range(n) if table.kinds[j] != "text"] or [0]
    some = rng.choice(plain, size=min(len(plain), int(rng.integers(1, 4))), replace=False)
    if name == "monotone_constraints":
        return {names[j]: int(rng.choice([-1, 1])) for j in some}
    if name == "interaction_constraints":
        return [[names[j] for j in some], [names[j] for j in rng.choice(n, size=min(n, 2))]]
    if name == "feature_weights":
        return {names[j]: float(rng.choice([0.0, 0.1, 5.0])) for j in some}
    if name == "feature_crosses":
        first, second = rng.choice(plain, 2, replace=len(plain) < 2)
        operation = str(rng.choice(["product", "difference", "ratio"]))
        return [(names[first], names[second], operation)]
    if name == "feature_penalties":
        return {names[j]: float(rng.choice([0.1, 5.0])) for j in some}
    if name == "max_bins_by_feature":
        return {names[j]: int(rng.choice([2, 5, 255])) for j in some}
    return [names[j] for j in some]


# -- targets ---------------------------------------------------------------------------


def _signal(rng: np.random.Generator, table: DrawnTable) -> np.ndarray:
    values = np.clip(np.nan_to_num(table.numbers(), posinf=3.0, neginf=-3.0), -5.0, 5.0)
    slopes = rng.normal(size=values.shape[1]) * (rng.random(values.shape[1]) < 0.5)
    return values @ slopes + 0.1 * rng.normal(size=len(values))


def _draw_target(
    rng: np.random.Generator, estimator: str, table: DrawnTable, core: bool
) -> tuple[dict[str, Any], Any, dict[str, Any]]:
    """Draw parameters of the loss, the target, and arguments of ``fit``."""
    signal = _signal(rng, table)
    if estimator == "Regressor":
        return _regression(rng, signal, core)
    if estimator == "Ranker":
        loss = {"objective": str(rng.choice(RANKING))}
        labels = np.clip(np.round(signal), 0, 4)
        n_queries = int(rng.choice([1, 2, 5, 40]))
        qid = rng.integers(0, n_queries, len(signal))
        return loss, labels, {"qid": qid}
    name = "auto" if core else str(rng.choice(list(CLASSES)))
    n_classes = int(rng.choice([2, 2, 3] if core else [2, 2, 2, 3, 4, 9]))
    if name in ("logistic", "exponential", "focal", "hinge"):
        n_classes = 2
    loss = {"objective": name, **_some_of(rng, CLASSES[name])}
    ranks = np.argsort(np.argsort(signal, kind="stable"), kind="stable")
    target = ranks * n_classes // len(ranks)
    if not core and rng.random() < 0.1:
        several = np.column_stack([target > 0, rng.random(len(ranks)) < 0.5]).astype(int)
        return {}, several, {}
    labels = [target, np.array([f"k{v}" for v in target]), target.astype(float) * 2 - 1]
    return loss, labels[rng.integers(3)], {}


def _some_of(rng: np.random.Generator, parameters: dict[str, tuple[Any, ...]]) -> dict[str, Any]:
    return {
        name: values[rng.integers(len(values))]
        for name, values in parameters.items()
        if rng.random() < 0.6
    }


def _regression(
    rng: np.random.Generator, signal: np.ndarray, core: bool
) -> tuple[dict[str, Any], Any, dict[str, Any]]:
    names = ["squared_error", "normal"] if core else list(REGRESSION)
    name = "squared_error" if rng.random() < 0.4 else str(rng.choice(names))
    parameters, kind = REGRESSION[name]
    target = _target_of(rng, signal, kind)
    if kind == "real" and "quantile" not in name and rng.random() < (0.3 if core else 0.12):
        width = int(rng.choice([2, 3, 9]))
        target = np.column_stack([signal * k + rng.normal(size=len(signal)) for k in range(width)])
    return {"objective": name, **_some_of(rng, parameters)}, target, {}


def _target_of(rng: np.random.Generator, signal: np.ndarray, kind: str) -> np.ndarray:
    n = len(signal)
    tame = np.clip(signal, -4.0, 4.0)
    if kind == "real":
        special = rng.random()
        if special < 0.1:
            return np.full(n, rng.choice([0.0, 1.0, -3.5]))
        scale = 10.0 ** rng.integers(-12, 13) if special < 0.25 else 1.0
        return signal * scale + (1e6 if special > 0.95 else 0.0)
    if kind == "counts":
        return np.zeros(n) if rng.random() < 0.05 else rng.poisson(np.exp(tame / 2)).astype(float)
    if kind == "positive":
        return np.exp(tame) + 1e-6
    if kind == "share":
        return 1 / (1 + np.exp(-tame))
    event = rng.random(n) < rng.choice([0.0, 0.5, 1.0])
    time = np.exp(tame) + 0.01
    return np.where(event, time, -time) if rng.random() < 0.5 else _records(event, time)


def _records(event: np.ndarray, time: np.ndarray) -> np.ndarray:
    found = np.empty(len(time), dtype=[("event", bool), ("time", float)])
    found["event"], found["time"] = event, time
    return found


# -- single trees ----------------------------------------------------------------------


def _cart(
    rng: np.random.Generator, seed: int, index: int, estimator: str, table: DrawnTable
) -> Configuration:
    signal = _signal(rng, table)
    target: Any = signal
    criteria = ["squared_error", "friedman_mse"]
    if estimator == "CARTClassifier":
        target, criteria = np.digitize(signal, [-1.0, 1.0]), ["gini", "entropy"]
    options = {
        "criterion": (*criteria,),
        "max_depth": (1, 3, 30),
        "min_samples_split": (2, 5, 0.3),
        "min_samples_leaf": (1, 4, 0.2),
        "min_weight_fraction_leaf": (0.1, 0.5),
        "max_features": (1, "sqrt", 0.5),
        "max_leaf_nodes": (2, 7),
        "min_impurity_decrease": (0.01,),
        "ccp_alpha": (0.001, 1.0),
    }
    params = {
        str(name): options[str(name)][rng.integers(len(options[str(name)]))]
        for name in rng.choice(list(options), size=int(rng.integers(4)), replace=False)
    }
    fit = {"sample_weight": _weight(rng, table.n_rows)} if rng.random() < 0.3 else {}
    found = Configuration(index, seed, estimator, table, params, target, fit, task="cart")
    found.unseen = _shaken(rng, table.take(rng.integers(0, table.n_rows, 5)))
    return found
