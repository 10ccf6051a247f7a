"""What symmetric trees do not go with, and their size where it is not given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hedgerow.errors import ParameterError
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
    return replace(params, max_depth=depth, max_leaves=None)


_OF_LEVELS: Mapping[str, Any] = {"tree_method": "hist"}


def obstacle_to_levels(params: BoostParams) -> str | None:
    """The first setting that symmetric trees do not know, or None."""
    return params.first_unlike(_OF_LEVELS)
