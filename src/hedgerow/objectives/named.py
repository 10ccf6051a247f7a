"""Objectives by name, by the parameters of a fit, and by the record of a model.

The module of the losses of users is imported on first use: it needs SciPy, which the build of the
kernels imports this module without.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hedgerow.argument_types import listed
from hedgerow.errors import ParameterError, brief
from hedgerow.objectives.base import Objective
from hedgerow.objectives.catalogue import (
    CUSTOM,
    OBJECTIVES,
    RANKING,
    SURVIVAL,
    Task,
    objective_class,
)
from hedgerow.objectives.quantile import Quantile, SeveralQuantiles
from hedgerow.objectives.targets import (
    SeveralTargets,
    several_targets,
    targets_of_record,
    targets_record,
)
from hedgerow.peers import objective_hint

PARAMETERS: dict[str, tuple[str, ...]] = {
    "quantile": ("quantile",),
    "delta": ("huber", "pseudo_huber", "fair"),
    "expectile": ("expectile",),
    "tweedie_power": ("tweedie",),
    "focal_gamma": ("focal",),
    "focal_alpha": ("focal",),
    "aft_distribution": ("aft",),
    "aft_scale": ("aft",),
    **dict.fromkeys(
        ("truncation_level", "pair_method", "pairs_per_row", "sigmoid"),
        ("lambdarank", "rank_map", "rank_pairwise"),
    ),
    "normalize_pairs": ("lambdarank", "rank_map"),
    "label_gain": RANKING,
}
"""Parameters of objectives, and the objectives that use them; the default of each is None."""


def make_objective(
    name: str, n_outputs: int = 1, level: Any = None, parameters: Mapping[str, Any] | None = None
) -> Objective:
    """Return the objective called ``name``, for ``n_outputs`` raw scores per row."""
    if not isinstance(name, str) or name not in OBJECTIVES:
        known = ", ".join(map(repr, OBJECTIVES))
        raise ParameterError(
            f"unknown objective {brief(name)}; known: {known}.{objective_hint(name, OBJECTIVES)}"
        )
    given = {"quantile": level, **(parameters or {})}
    given = {key: _plain(value) for key, value in given.items() if value is not None}
    for key, value in given.items():
        if name not in PARAMETERS[key]:
            fitting = " or ".join(f"objective={loss!r}" for loss in PARAMETERS[key])
            raise ParameterError(
                f"{key}={brief(value)} has no effect with objective {brief(name)}: use {fitting}, "
                f"or leave {key} at None."
            )
    if name == "quantile":
        level = given.get("quantile", 0.5)
        several = listed(level) is not None
        return SeveralQuantiles(tuple(level)) if several else Quantile(1, level)
    return objective_class(name)(n_outputs=n_outputs, **given)


def objective_for(
    given: Any,
    n_outputs: int = 1,
    parameters: Mapping[str, Any] | None = None,
    task: Task = "regression",
    n_targets: int = 1,
    names: tuple[str, ...] | None = None,
) -> Objective:
    """Return the objective for a name or a loss of the user; ``names`` are of several targets."""
    if n_targets > 1 and not (isinstance(given, str) and given in SURVIVAL):
        return several_targets(objective_for(given, n_outputs, parameters, task), n_targets, names)
    if isinstance(given, str):
        return make_objective(given, n_outputs, parameters=parameters)
    for name, value in (parameters or {}).items():
        if value is not None:
            raise ParameterError(
                f"{name}={brief(value)} has no effect with a custom objective: leave {name} at "
                "None."
            )
    from hedgerow.objectives.own import make_own_loss

    return make_own_loss(given, task, n_outputs)


def parameters_of(objective: Objective) -> dict[str, Any]:
    """Return the parameters of an objective by name, as plain numbers, lists and text."""
    if isinstance(objective, SeveralTargets):
        return parameters_of(objective.single)
    if isinstance(objective, SeveralQuantiles):
        return {"quantile": list(objective.levels)}
    if objective.name == "quantile":
        return {"quantile": float(objective.level)}
    return {
        key: getattr(objective, key)
        for key, losses in PARAMETERS.items()
        if objective.name in losses
    }


def loss_record(objective: Objective) -> dict[str, Any]:
    """Return the parameters of the objective for the training record of a model."""
    if isinstance(objective, SeveralTargets):
        return loss_record(objective.single) | targets_record(objective)
    from hedgerow.objectives.own import Linked

    if isinstance(objective, Linked):
        known = {"name": objective.label, "link": objective.link, "task": objective.task}
        return {"loss_parameters": known}
    found = parameters_of(objective)
    return found if "quantile" in found else {"loss_parameters": found} if found else {}


def objective_of_record(name: str, n_outputs: int, training: Mapping[str, Any]) -> Objective:
    """Return the objective of a model with this training record."""
    if "targets" in training:
        alone = {key: value for key, value in training.items() if key != "targets"}
        single = objective_of_record(name, 1, alone)
        return targets_of_record(single, training["targets"], n_outputs)
    given = training.get("loss_parameters", {})
    if name == CUSTOM:
        if not isinstance(given, Mapping) or set(given) != {"name", "link", "task"}:
            raise ParameterError("the name and link of a custom loss are missing.")
        from hedgerow.objectives.own import Linked

        return Linked(given["name"], given["link"], given["task"], n_outputs)
    if not isinstance(given, Mapping) or not set(given) <= set(PARAMETERS):
        raise ParameterError(f"unknown parameters of a custom loss: {str(given)[:60]}.")
    level = training.get("quantile") if name == "quantile" else None
    objective = make_objective(name, n_outputs, level, given)
    if objective.n_outputs != n_outputs:
        raise ParameterError(f"objective {brief(name)} cannot have {n_outputs} outputs.")
    return objective


def _plain(value: Any) -> Any:
    """Convert NumPy numbers, arrays and columns of frames to Python numbers and lists."""
    if isinstance(value, np.number | np.bool_):
        return value.item()
    items = None if isinstance(value, list | tuple) else listed(value)
    return value if items is None else items
