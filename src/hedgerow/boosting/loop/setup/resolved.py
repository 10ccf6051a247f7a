"""Parameters as growers take them: no ``"auto"``, and nothing that does not go together.

Symmetric trees have one cut for all nodes of a level.  A tree for all outputs has vector leaves.
``multi_strategy`` is XGBoost's parameter, with the same values.  ``"auto"`` is
``"multi_output_tree"`` for several targets, if the other settings allow it, and
``"one_output_per_tree"`` for classes, for symmetric trees, for linear leaves and for sorted columns
(``tree_method="exact"``, ``"approx"``).

Trees of the processor and of a GPU (:mod:`hedgerow.growing.cuda`) are the same, bit for bit, so
folds may also try trees that only the processor grows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.boosting.external.file_table import FileTable
from hedgerow.data import AnyTable, Schema, SparseTable
from hedgerow.data.reading.columns import floats_of
from hedgerow.errors import DeviceError, ParameterError
from hedgerow.growing.core.setup import holds_vectors, limit_in_grower, newton_limit
from hedgerow.growing.limits.constraints import resolve_constraints
from hedgerow.objectives import Objective, SeveralTargets
from hedgerow.params import BoostParams, MultiStrategy

if TYPE_CHECKING:
    from hedgerow.boosting.resume.continuing import Start

ONE_OUTPUT: MultiStrategy = "one_output_per_tree"
ALL_OUTPUTS: MultiStrategy = "multi_output_tree"
USUAL_DEPTH = 6
"""Default depth of symmetric trees, if ``max_depth`` is not set, as in CatBoost."""

LEAST_ROWS = 200_000
"""Below this many rows, ``device="auto"`` is the processor, and for sparse tables, which a GPU
keeps as dense bins."""

_CELLS_PER_THREAD = 8_000
"""Bins (rows x features) that justify one more thread if threads divide the columns."""

_COLUMNS_PER_THREAD = 12
_CELLS_TO_SHARE = 40
"""A thread needs this many columns, or this many times as many bins.

With few columns, each thread fetches the rows of small nodes for little work.  Two threads
(``benchmarks/threads.py``) are 1.3 and 1.7 times as fast with 500 rows of 30 columns and with 1,000
of 100, but 1.0 and 1.2 times with 32,000 and 100,000 rows of 10, for almost twice the processor
time.
"""

_OF_BINS: Mapping[str, Any] = {"tree_method": "hist"}
_OF_SLOPES: Mapping[str, Any] = {**_OF_BINS, "path_smooth": 0.0}
_OF_LEVELS: Mapping[str, Any] = {**_OF_BINS, "extra_trees": False}
_OF_VECTORS: Mapping[str, Any] = {
    **_OF_BINS,
    "monotone_constraints": None,
    "feature_penalties": None,
    "path_smooth": 0.0,
    "sampling": "uniform",
    "linear_leaves": False,
}
_WITHOUT_BUNDLES: Mapping[str, Any] = {"max_conflict_rate": 0.0, "bundle_order": "count"}


def resolved(
    params: BoostParams, objective: Objective, schema: Schema, start: Start | None = None
) -> BoostParams:
    """Resolve all parameters for the grower; twice changes nothing."""
    params = resolve_constraints(resolve(params, objective), schema, objective)
    if start is not None:
        params = start.with_strategy(params, objective)
    return resolve_strategy(params, objective)


def resolve(params: BoostParams, objective: Objective) -> BoostParams:
    """Resolve parameters whose default depends on the loss or the boosting mode."""
    estimation = params.leaf_estimation
    if estimation == "auto":
        estimation = "newton" if objective.second_order else "line_search"
    if estimation == "newton" and not objective.second_order:
        raise ParameterError(
            f"leaf_estimation='newton' needs a second derivative, which objective "
            f"{objective.name!r} does not have: use 'line_search' or 'gradient'."
        )
    rate = 1.0 if params.boosting == "rf" else params.learning_rate
    return replace(params, leaf_estimation=estimation, learning_rate=rate)


def resolve_strategy(params: BoostParams, objective: Objective) -> BoostParams:
    """Resolve ``multi_strategy`` and the size of symmetric trees, and check linear leaves."""
    if is_symmetric(params):
        if (obstacle := obstacle_to_levels(params)) is not None:
            raise ParameterError(
                f"grow_policy='symmetric' does not go with {obstacle}: use "
                "grow_policy='depthwise' or 'leafwise', or change that."
            )
        depth = USUAL_DEPTH if params.max_depth is None else params.max_depth
        if params.max_depth != depth or params.max_leaves is not None:
            params = replace(params, max_depth=depth, max_leaves=None)
    if params.linear_leaves and (obstacle := obstacle_to_slopes(params)) is not None:
        raise ParameterError(
            f"linear_leaves=True does not go with {obstacle}: use linear_leaves=False, or change "
            "that."
        )
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
    obstacle = obstacle_to_vectors(params)
    shares = isinstance(objective, SeveralTargets) and not is_symmetric(params) and obstacle is None
    if requested == "auto" and not shares:
        return replace(params, multi_strategy=ONE_OUTPUT)
    if obstacle is None:
        # Histograms of vectors do not support bundles.
        return replace(params, multi_strategy=ALL_OUTPUTS, bundle_features=False)
    other = "change that" if params.tree_method == "hist" else "tree_method='hist'"
    raise ParameterError(
        f"multi_strategy='multi_output_tree' does not go with {obstacle}: use "
        f"multi_strategy='one_output_per_tree', or {other}."
    )


# -- kinds of trees, of resolved parameters ------------------------------------------------


def is_symmetric(params: BoostParams) -> bool:
    """Return whether all nodes of a level share one cut."""
    return params.grow_policy == "symmetric"


def outputs_of_tree(params: BoostParams, n_outputs: int) -> int:
    """Return the number of outputs that a tree is for."""
    return n_outputs if holds_vectors(params) else 1


def trees_of_round(params: BoostParams, n_outputs: int) -> int:
    """Return the number of trees in a round."""
    return params.num_parallel_tree * (n_outputs // outputs_of_tree(params, n_outputs))


def adds_scores(params: BoostParams, objective: Objective) -> bool:
    """Return whether the grower may add a tree unchanged to the scores of its rows."""
    limit = newton_limit(params, objective, params.highest_rate)
    if limit < limit_in_grower(params, objective):
        return False
    alone = params.num_parallel_tree == 1
    return alone and params.boosting == "gbdt" and params.leaf_estimation != "line_search"


def threads_for(n_threads: int, n_rows: int, n_features: int, n_outputs: int = 1) -> int:
    """Return the useful number of threads for trees with this many outputs in each leaf."""
    n_columns = n_features * n_outputs
    for_helper = n_rows * n_columns // _CELLS_PER_THREAD
    by_columns = min(for_helper, n_columns // _COLUMNS_PER_THREAD)
    return max(1, min(n_threads, max(by_columns, for_helper // _CELLS_TO_SHARE)))


def numbers_for(params: BoostParams, table: AnyTable) -> FloatArray | None:
    """Return the values of all rows as floats if leaves are linear, else None."""
    # Fortran order: the leaves of a tree read few columns, which then stay in the cache.
    if not params.linear_leaves:
        return None
    values = table.dense() if isinstance(table, SparseTable) else table.values
    return np.asfortranarray(floats_of(values, table.schema.kinds))


# -- what goes with what -------------------------------------------------------------------


def obstacle_to_levels(params: BoostParams) -> str | None:
    """Return the first setting that symmetric trees do not support, or None."""
    return params.first_unlike(_OF_LEVELS)


def obstacle_to_vectors(params: BoostParams) -> str | None:
    """Return the first setting that vector leaves do not support, or None."""
    return params.first_unlike(_OF_VECTORS) or asks_for_bundles(params)


def obstacle_to_gpu(params: BoostParams) -> str | None:
    """Return the first setting whose trees a GPU does not grow: it has bins, one column each."""
    return params.first_unlike(_OF_BINS) or asks_for_bundles(params)


def obstacle_to_slopes(params: BoostParams) -> str | None:
    """Return the first setting that linear leaves do not support, or None."""
    other = params.first_unlike(_OF_SLOPES)
    if other is None and params.leaf_estimation == "line_search":
        return "leaf_estimation='line_search'"
    return other


def asks_for_bundles(params: BoostParams) -> str | None:
    """Return the first setting that requests bundles of columns, or None."""
    if params.bundle_features is True:
        return "bundle_features=True"
    return params.first_unlike(_WITHOUT_BUNDLES)


def resolve_device(params: BoostParams, table: AnyTable) -> BoostParams:
    """Resolve ``device="auto"``, and check that a GPU supports the fit."""
    if params.device == "cpu":
        return params
    obstacle, is_auto = obstacle_to_gpu(params), params.device == "auto"
    # Imported here: few fits use a GPU.
    from hedgerow.cuda.device import missing_gpu

    if is_auto:
        suits = table.n_rows >= LEAST_ROWS and not isinstance(table, SparseTable | FileTable)
        is_there = obstacle is None and suits and missing_gpu() is None
        return replace(params, device="cuda" if is_there else "cpu")
    if obstacle is not None:
        raise ParameterError(
            f"device='cuda' does not go with {obstacle}: use device='cpu', which gives the same "
            "model, or change that."
        )
    if (why := missing_gpu()) is not None:
        raise DeviceError(f"device='cuda': {why} Use device='cpu', which gives the same model.")
    return params
