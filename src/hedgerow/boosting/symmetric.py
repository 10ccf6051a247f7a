"""What symmetric trees do not go with, and their size where it is not given."""

from __future__ import annotations

from dataclasses import replace

from hedgerow.errors import AllRowsNeededError, ParameterError
from hedgerow.params import BoostParams

USUAL_DEPTH = 6
"""Levels of a tree where ``max_depth`` is not set, as in CatBoost."""


def is_symmetric(params: BoostParams) -> bool:
    """Whether all nodes of a level are divided by the same cut."""
    return params.grow_policy == "symmetric"


def resolve_symmetric(params: BoostParams) -> BoostParams:
    """The depth and what else symmetric trees settle; other trees are left as they are.

    Parameters
    ----------
    params : BoostParams
        With what is asked of single columns resolved.

    Raises
    ------
    ParameterError
        Beside a setting that symmetric trees do not know.
    """
    if not is_symmetric(params):
        return params
    obstacle = obstacle_to_levels(params)
    if obstacle is not None:
        raise ParameterError(
            f"grow_policy='symmetric' does not go with {obstacle}: use "
            "grow_policy='depthwise' or 'leafwise', or change that."
        )
    depth = USUAL_DEPTH if params.max_depth is None else params.max_depth
    # A common cut is looked for in whole columns.
    return replace(params, max_depth=depth, max_leaves=None, bundle_features=False)


def refuse_stored(params: BoostParams) -> None:
    """Raise for symmetric trees of rows in parts: all rows must be in memory."""
    if is_symmetric(params):
        raise AllRowsNeededError(
            "grow_policy='symmetric' needs all rows in memory: give the rows as a table, or "
            "use grow_policy='depthwise' or 'leafwise'."
        )
    if params.forced_splits is not None:
        raise AllRowsNeededError(
            "forced_splits need all rows in memory: give the rows as a table, or leave them out."
        )


def obstacle_to_levels(params: BoostParams) -> str | None:
    """The first setting that symmetric trees do not know, or None."""
    for name, known in (
        ("tree_method", "hist"),
        ("extra_trees", False),
        ("forced_splits", None),
        ("max_conflict_rate", 0.0),
        ("bundle_order", "count"),
    ):
        value = getattr(params, name)
        if value is not known and value != known:
            shown = "" if known is None else f"={value!r}"
            return f"{name}{shown}"
    if params.bundle_features is True:
        return "bundle_features=True"
    return None
