"""Tree strategy: symmetric trees, and one tree for each output or for all of them.

Symmetric trees have one cut for all nodes of a level.  A tree for all outputs has vector leaves.
``multi_strategy`` is XGBoost's parameter, with the same values.  ``"auto"`` is
``"multi_output_tree"`` for several targets, if the other settings allow it, and
``"one_output_per_tree"`` for classes, for symmetric trees, for linear leaves and for sorted columns
(``tree_method="exact"``, ``"approx"``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hedgerow.boosting.loop.setup.slopes import check_slopes
from hedgerow.errors import ParameterError
from hedgerow.objectives import Objective, SeveralTargets
from hedgerow.params import BoostParams, MultiStrategy

ONE_OUTPUT: MultiStrategy = "one_output_per_tree"
ALL_OUTPUTS: MultiStrategy = "multi_output_tree"
USUAL_DEPTH = 6
"""Default depth of symmetric trees, if ``max_depth`` is not set, as in CatBoost."""


def is_symmetric(params: BoostParams) -> bool:
    """Return whether all nodes of a level share one cut."""
    return params.grow_policy == "symmetric"


def resolve_symmetric(params: BoostParams) -> BoostParams:
    """Resolve depth and leaf limit of symmetric trees; leave other trees unchanged."""
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


def holds_vectors(params: BoostParams) -> bool:
    """Return whether leaves hold vectors; ``params`` are resolved."""
    return params.multi_strategy == ALL_OUTPUTS


def asks_for_vectors(params: BoostParams, several_targets: bool) -> bool:
    """Return whether leaves of several outputs are to hold vectors, by choice or by default."""
    if params.multi_strategy != "auto":
        return holds_vectors(params)
    # A split that keeps the order of all outputs is rare: a tree for each output learns more.
    suits = not is_symmetric(params) and params.monotone_constraints is None
    return several_targets and suits and may_share_trees(params)


def outputs_of_tree(params: BoostParams, n_outputs: int) -> int:
    """Return the number of outputs that a tree is for; ``params`` are resolved."""
    return n_outputs if holds_vectors(params) else 1


def resolve_strategy(params: BoostParams, objective: Objective) -> BoostParams:
    """Resolve ``multi_strategy="auto"``; resolving again changes nothing."""
    params = resolve_symmetric(params)
    check_slopes(params)
    requested = params.multi_strategy
    if objective.n_outputs == 1:
        if requested != "auto":
            raise ParameterError(
                f"multi_strategy={requested!r} has no effect here: objective {objective.name!r} "
                "has one output. It is for several targets and for more than two classes; leave it "
                "at 'auto'."
            )
        return params
    if requested == ONE_OUTPUT:
        return params
    if not asks_for_vectors(params, isinstance(objective, SeveralTargets)):
        return replace(params, multi_strategy=ONE_OUTPUT)
    obstacle = obstacle_to_vectors(params)
    if obstacle is None:
        # Histograms of vectors do not support bundles.
        return replace(params, multi_strategy=ALL_OUTPUTS, bundle_features=False)
    other = "change that" if params.tree_method == "hist" else "tree_method='hist'"
    raise ParameterError(
        f"multi_strategy='multi_output_tree' does not go with {obstacle}: use "
        f"multi_strategy='one_output_per_tree', or {other}."
    )


_OF_BINS: Mapping[str, Any] = {"tree_method": "hist"}
_WITHOUT_BUNDLES: Mapping[str, Any] = {"max_conflict_rate": 0.0, "bundle_order": "count"}


def obstacle_to_levels(params: BoostParams) -> str | None:
    """Return the first setting that symmetric trees do not support, or None."""
    return params.first_unlike(_OF_BINS)


def obstacle_to_vectors(params: BoostParams) -> str | None:
    """Return the first setting that vector leaves do not support, or None."""
    return params.first_unlike(_OF_BINS) or asks_for_bundles(params)


def may_share_trees(params: BoostParams) -> bool:
    """Return whether outputs may share trees by default.

    Linear leaves have a tree for each output: the columns of its splits are then those of its
    slopes, too.
    """
    return not params.linear_leaves and obstacle_to_vectors(params) is None


def asks_for_bundles(params: BoostParams) -> str | None:
    """Return the first setting that requests bundles of columns, or None."""
    if params.bundle_features is True:
        return "bundle_features=True"
    return params.first_unlike(_WITHOUT_BUNDLES)


def trees_of_round(params: BoostParams, n_outputs: int) -> int:
    """Return the number of trees in a round."""
    return params.num_parallel_tree * (n_outputs // outputs_of_tree(params, n_outputs))
