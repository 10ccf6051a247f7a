"""Losses by name; see :mod:`hedgerow.objectives.base` for what a loss is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.errors import ParameterError
from hedgerow.objectives.base import Objective
from hedgerow.objectives.catalogue import OBJECTIVES, RANKING
from hedgerow.objectives.own import CUSTOM, Linked, Task, make_own_loss
from hedgerow.objectives.quantiles import SeveralQuantiles, is_several
from hedgerow.objectives.rowwise import RowLoss
from hedgerow.objectives.targets import (
    SeveralTargets,
    several_targets,
    targets_of_record,
    targets_record,
)
from hedgerow.peer_words import objective_hint

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
    "position_bias_regularization": RANKING,
}
"""Parameters of losses, and the losses that have them; None is the default of each."""


def make_objective(
    name: str,
    n_outputs: int = 1,
    level: Any = None,
    parameters: Mapping[str, Any] | None = None,
) -> Objective:
    """The objective called ``name``, for ``n_outputs`` raw scores per row.

    Parameters
    ----------
    name : str
        In :data:`OBJECTIVES`.
    n_outputs : int, default=1
        Classes, for losses with a raw score for each.
    level : float or sequence of float, optional
        Another way to give the parameter ``quantile``.
    parameters : mapping, optional
        Values by name (:data:`PARAMETERS`); None for the default.

    Raises
    ------
    ParameterError
        If the name is unknown, a value out of range, or a parameter given that this
        loss does not have.
    """
    if not isinstance(name, str) or name not in OBJECTIVES:
        known = ", ".join(map(repr, OBJECTIVES))
        raise ParameterError(
            f"unknown objective {name!r}; known: {known}.{objective_hint(name, OBJECTIVES)}"
        )
    given = {"quantile": level, **(parameters or {})}
    given = {key: _plain(value) for key, value in given.items() if value is not None}
    for key, value in given.items():
        if name not in PARAMETERS[key]:
            fitting = " or ".join(f"objective={loss!r}" for loss in PARAMETERS[key])
            raise ParameterError(
                f"{key}={value!r} has no effect with objective {name!r}: use {fitting}, "
                f"or leave {key} at None."
            )
    if name == "quantile":
        level = given.get("quantile", 0.5)
        several = is_several(level)
        return SeveralQuantiles(tuple(level)) if several else OBJECTIVES[name](1, level)
    return OBJECTIVES[name](n_outputs=n_outputs, **given)


def objective_for(
    given: Any,
    target: FloatArray,
    n_outputs: int = 1,
    parameters: Mapping[str, Any] | None = None,
    task: Task = "regression",
    names: tuple[str, ...] | None = None,
) -> Objective:
    """The objective that a user has named, or written (:mod:`hedgerow.objectives.own`).

    Parameters
    ----------
    given : str, callable or object
    target : float64 (n_rows,), or (n_rows, n_targets) for several targets
        Of the rows to train on.
    n_outputs, parameters
        As for :func:`make_objective`.
    task : {"regression", "two classes", "classes"}
        Of a written one; with ``"classes"`` there are ``n_outputs`` of them.
    names : tuple of str, optional
        Of several targets.
    """
    if target.ndim == 2 and not (isinstance(given, str) and given in ("aft", "cox")):
        return several_targets(
            lambda column: objective_for(given, column, n_outputs, parameters, task), target, names
        )
    if isinstance(given, str):
        return make_objective(given, n_outputs, parameters=parameters)
    for name, value in (parameters or {}).items():
        if value is not None:
            raise ParameterError(
                f"{name}={value!r} has no effect with an objective of your own: leave {name} at "
                "None."
            )
    if task == "classes" or hasattr(given, "n_classes"):
        from hedgerow.objectives.own_classes import make_own_classes

        return make_own_classes(given, target, getattr(given, "n_classes", n_outputs))
    return make_own_loss(given, target, task)


def parameters_of(objective: Objective) -> dict[str, Any]:
    """The parameters of an objective by name, as plain numbers, lists and text."""
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
    """What the training record of a model says of the parameters of its loss."""
    if isinstance(objective, SeveralTargets):
        return loss_record(objective.single) | targets_record(objective)
    if isinstance(objective, Linked):
        known = {"name": objective.label, "link": objective.link, "task": objective.task}
        return {"loss_parameters": known}
    found = parameters_of(objective)
    return found if "quantile" in found else {"loss_parameters": found} if found else {}


def objective_of_record(name: str, n_outputs: int, training: Mapping[str, Any]) -> Objective:
    """The objective of a model with this training record.

    Raises
    ------
    ParameterError
        If the record does not fit the loss.
    """
    if "targets" in training:
        alone = {key: value for key, value in training.items() if key != "targets"}
        single = objective_of_record(name, 1, alone)
        return targets_of_record(single, training["targets"], n_outputs)
    given = training.get("loss_parameters", {})
    if name == CUSTOM:
        if not isinstance(given, Mapping) or set(given) != {"name", "link", "task"}:
            raise ParameterError("the name and link of a loss of the user's are missing.")
        return Linked(given["name"], given["link"], given["task"], n_outputs)
    if not isinstance(given, Mapping) or not set(given) <= set(PARAMETERS):
        raise ParameterError(f"unknown parameters of a loss: {str(given)[:60]}.")
    level = training.get("quantile") if name == "quantile" else None
    objective = make_objective(name, n_outputs, level, given)
    if objective.n_outputs != n_outputs:
        raise ParameterError(f"objective {name!r} cannot have {n_outputs} outputs.")
    return objective


def _plain(value: Any) -> Any:
    """Numbers of NumPy as those of Python."""
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


__all__ = [
    "CUSTOM",
    "OBJECTIVES",
    "PARAMETERS",
    "RANKING",
    "Objective",
    "RowLoss",
    "SeveralTargets",
    "Task",
    "loss_record",
    "make_objective",
    "objective_for",
    "objective_of_record",
    "parameters_of",
]
