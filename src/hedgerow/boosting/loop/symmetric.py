"""Symmetric trees: settings that conflict with them, and their default depth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hedgerow.errors import ParameterError
from hedgerow.params import BoostParams

USUAL_DEPTH = 6
"""Default depth, if ``max_depth`` is not set, as in CatBoost."""


def is_symmetric(params: BoostParams) -> bool:
    """Return whether all nodes of a level share one cut."""
    return params.grow_policy == "symmetric"


def resolve_symmetric(params: BoostParams) -> BoostParams:
    """Resolve depth and leaf limit of symmetric trees; leave other trees unchanged.

    Parameters
    ----------
    params : BoostParams
        With per-column settings resolved.

    Raises
    ------
    ParameterError
        With a setting that symmetric trees do not support.
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
    if params.max_depth == depth and params.max_leaves is None:
        return params
    return replace(params, max_depth=depth, max_leaves=None)


_OF_LEVELS: Mapping[str, Any] = {"tree_method": "hist"}


def obstacle_to_levels(params: BoostParams) -> str | None:
    """Return the first setting that symmetric trees do not support, or None."""
    return params.first_unlike(_OF_LEVELS)
