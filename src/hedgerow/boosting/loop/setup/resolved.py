"""Parameters as growers take them, and the number of threads that pays."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hedgerow.boosting.loop.setup.strategy import resolve_strategy
from hedgerow.data.schema import Schema
from hedgerow.errors import ParameterError
from hedgerow.growing.core.setup import limit_in_grower, newton_limit
from hedgerow.growing.limits.constraints import resolve_constraints
from hedgerow.objectives import Objective
from hedgerow.params import BoostParams

if TYPE_CHECKING:
    from hedgerow.boosting.resume.continuing import Start

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


def threads_for(n_threads: int, n_rows: int, n_features: int, n_outputs: int = 1) -> int:
    """Return the useful number of threads for trees with this many outputs in each leaf."""
    n_columns = n_features * n_outputs
    for_helper = n_rows * n_columns // _CELLS_PER_THREAD
    by_columns = min(for_helper, n_columns // _COLUMNS_PER_THREAD)
    return max(1, min(n_threads, max(by_columns, for_helper // _CELLS_TO_SHARE)))


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
    if estimation == params.leaf_estimation and rate is params.learning_rate:
        return params  # each fold resolves them again, and to check new ones takes a few rounds
    return replace(params, leaf_estimation=estimation, learning_rate=rate)


def resolved(
    params: BoostParams, objective: Objective, schema: Schema, start: Start | None = None
) -> BoostParams:
    """Resolve all parameters for the grower: no column names, no ``"auto"``."""
    params = resolve_constraints(resolve(params, objective), schema, objective)
    if start is not None:
        params = start.with_strategy(params, objective)
    return resolve_strategy(params, objective)


def adds_scores(params: BoostParams, objective: Objective) -> bool:
    """Return whether the grower may add a tree unchanged to the scores of its rows."""
    limit = newton_limit(params, objective, params.highest_rate)
    if limit < limit_in_grower(params, objective):
        return False
    alone = params.num_parallel_tree == 1
    return alone and params.boosting == "gbdt" and params.leaf_estimation != "line_search"
