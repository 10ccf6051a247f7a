"""Parameters of LightGBM as ours."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hedgerow import from_lightgbm_params
from hedgerow.convert.settings.lightgbm import LIGHTGBM
from hedgerow.peer_words import LIGHTGBM_OBJECTIVES

from .scores import default_metric, our_metric, their_names

ALIASES: dict[str, list[str]] = {name: [name] for name in LIGHTGBM.rules}
for _alias, _name in LIGHTGBM.aliases.items():
    ALIASES[_name].append(_alias)
_NOT_TRANSLATED = (
    *("metric", "num_iterations", "early_stopping_round", "early_stopping_min_delta"),
    *("first_metric_only", "categorical_feature", "eval_at", "boost_from_average", "num_class"),
    *("multi_error_top_k", "monotone_constraints_method", "fair_c"),
)


def by_name(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters by their main name, which counts more than its aliases; others are left out."""
    found: dict[str, Any] = {}
    for name, aliases in ALIASES.items():
        given = [alias for alias in aliases if alias in params]
        if given:
            found[name] = params[given[0]]
    return found


def metrics_of(given: Mapping[str, Any], objective: str) -> list[str]:
    """Return names of the metrics that are asked for."""
    metric = given.get("metric")
    at = given.get("eval_at", [1, 2, 3, 4, 5])
    at = [at] if isinstance(at, int) else [int(k) for k in at]
    if metric is None or metric == "" or metric == []:
        names = default_metric(objective, at)
        return their_names(names, at, given)
    names = metric.split(",") if isinstance(metric, str) else list(metric)
    return their_names([str(name) for name in names if name], at, given)


def objective_of(given: Mapping[str, Any]) -> str:
    """Main name of the objective; ``custom`` for a function."""
    objective = given.get("objective", "regression")
    if callable(objective):
        return "custom"
    if str(objective) in ("none", "None", "null", "custom", "na"):
        return "custom"
    same = [
        name
        for name, ours in LIGHTGBM_OBJECTIVES.items()
        if ours == LIGHTGBM_OBJECTIVES.get(str(objective))
    ]
    return same[0] if same else str(objective)


def ours(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters of trees and loss for :func:`hedgerow.train`, by names of LightGBM's."""
    kept = {name: value for name, value in given.items() if name not in _NOT_TRANSLATED}
    own = kept.pop("objective", "regression")
    custom = callable(own) or objective_of(given) == "custom"
    if not custom:
        kept["objective"] = own
    kept = {name: value for name, value in kept.items() if value is not None}
    forest = str(kept.get("boosting")) in ("rf", "random_forest")
    if not forest and kept.get("bagging_freq", 0) == 0:
        kept.pop("bagging_fraction", None)  # without a frequency it has no effect there
    cuts = kept.pop("forcedbins_filename", "")
    said = dict(from_lightgbm_params(kept).params)
    if cuts:
        listed = json.loads(Path(cuts).read_text(encoding="utf-8"))
        said["forced_bins"] = {each["feature"]: sorted(each["bin_upper_bound"]) for each in listed}
    for name in ("n_estimators", "early_stopping", "patience", "eval_metric", "min_delta"):
        said.pop(name, None)
    if said.get("monotone_constraints") in ([], None):
        said.pop("monotone_constraints", None)
    return said


def our_metrics(names: list[str]) -> dict[str, Any]:
    """Metric of ours for each name of theirs."""
    return {name: our_metric(name) for name in names}


__all__ = ["ALIASES", "by_name", "metrics_of", "objective_of", "our_metrics", "ours"]
