"""Explicit parameters that repeat a fit with automatic ones.

::

    fit                                 repeated fit
    ---                                 ------------
    learning_rate="auto"                learning_rate=0.08, the chosen value
    n_estimators="auto", five folds     n_estimators=285, early_stopping=False
    time_budget=10                      learning_rate=[0.031, 0.030, ...], one per round
    random_state=RandomState(...)       random_state=1608637542, the drawn seed
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

_OF_THE_RUN = ("callbacks", "progress", "time_budget", "warm_start", "train_scores")
"""Parameters that affect the duration, output or start of a fit, but not its trees."""


def repeat_params(
    params: Mapping[str, Any],
    defaults: Mapping[str, Any],
    automatic: frozenset[str],
    training: Mapping[str, Any],
    n_rounds: int,
    has_statistics: bool,
) -> dict[str, Any]:
    """Return the parameters of an estimator that grows the same trees.

    Parameters
    ----------
    params : mapping
        Parameters of the estimator.
    defaults : mapping
        Defaults of the estimator's class; the result omits parameters at their default.
    automatic : frozenset of str
        Parameters that were ``"auto"``.
    training : mapping
        Training record of the model.
    n_rounds : int
        Number of rounds in the model.
    has_statistics : bool
        Whether the model has target statistics.
    """
    values, resolved = dict(params), training["parameters"]
    values |= {name: defaults[name] for name in _OF_THE_RUN}
    values |= {name: resolved[name] for name in automatic if name in resolved}
    if resolved.get("grow_policy") == "symmetric" and "grow_policy" in automatic:
        values["max_depth"] = resolved["max_depth"]
    rate = resolved["learning_rate"]
    values["n_estimators"] = max(n_rounds, 1)
    values["learning_rate"] = rate[:n_rounds] if isinstance(rate, list) and n_rounds else rate
    values["random_state"] = resolved["seed"]
    values |= _stopping(params["early_stopping"], training, max(n_rounds, 1))
    if has_statistics and params["early_stopping"] == "oob":
        # Statistics depend on whether rows outside of the samples are scored.
        values["oob_score"] = True
    return {name: value for name, value in values.items() if not _same(value, defaults[name])}


def _stopping(early_stopping: Any, training: Mapping[str, Any], n_rounds: int) -> dict[str, Any]:
    """Turn early stopping off; if it held out rows, hold them out again but never stop."""
    if "folds" in training or early_stopping in (False, "oob") or training["best_round"] is None:
        return {"early_stopping": False, "patience": "auto", "min_delta": 0.0}
    return {"early_stopping": early_stopping, "patience": n_rounds, "min_delta": 0.0}


def _same(value: Any, other: Any) -> bool:
    if isinstance(value, np.ndarray) or isinstance(other, np.ndarray):
        return value is other
    return type(value) is type(other) and bool(value == other)
