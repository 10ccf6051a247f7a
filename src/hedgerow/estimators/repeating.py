"""Parameters that repeat a fit, without what has chosen them.

::

    fit                                 repeated fit
    ---                                 ------------
    learning_rate="auto"                learning_rate=0.08, as was chosen
    n_estimators="auto", five folds     n_estimators=285, early_stopping=False
    time_budget=10                      learning_rate=[0.031, 0.030, ...], one rate a round
    random_state=RandomState(...)       random_state=1608637542, as it was drawn
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

_OF_THE_RUN = ("callbacks", "progress", "time_budget", "warm_start", "train_scores")
"""What has a part in how long a fit takes, what it shows or where it begins, not in its trees."""


def repeat_params(
    given: Mapping[str, Any],
    usual: Mapping[str, Any],
    automatic: frozenset[str],
    training: Mapping[str, Any],
    n_rounds: int,
) -> dict[str, Any]:
    """Parameters of an estimator that grows the same trees.

    Parameters
    ----------
    given : mapping
        Parameters of the estimator.
    usual : mapping
        Defaults of its class, which are left out where they are the same.
    automatic : frozenset of str
        Parameters that were to be chosen.
    training : mapping
        The record of the training.
    n_rounds : int
        In the model.
    """
    values, found = dict(given), training["parameters"]
    values |= {name: usual[name] for name in _OF_THE_RUN}
    values |= {name: found[name] for name in automatic if name in found}
    if found.get("grow_policy") == "symmetric" and "grow_policy" in automatic:
        values["max_depth"] = found["max_depth"]
    rate = found["learning_rate"]
    values["n_estimators"] = max(n_rounds, 1)
    values["learning_rate"] = rate[:n_rounds] if isinstance(rate, list) and n_rounds else rate
    values["random_state"] = found["seed"]
    values |= _stopping(given["early_stopping"], training, max(n_rounds, 1))
    return {name: value for name, value in values.items() if not _same(value, usual[name])}


def _stopping(given: Any, training: Mapping[str, Any], n_rounds: int) -> dict[str, Any]:
    """No early stopping; where it has set rows aside, so many rounds that it does not end."""
    if "folds" in training or given in (False, "oob") or training["best_round"] is None:
        return {"early_stopping": False, "patience": "auto", "min_delta": 0.0}
    return {"early_stopping": given, "patience": n_rounds, "min_delta": 0.0}


def _same(value: Any, other: Any) -> bool:
    if isinstance(value, np.ndarray) or isinstance(other, np.ndarray):
        return value is other
    return type(value) is type(other) and bool(value == other)
