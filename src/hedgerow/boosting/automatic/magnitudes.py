"""Checks for numbers that are too large or too small to grow trees on them.

A gain is the square of a sum of gradients.  For losses of squares (``squares`` of a loss) a
gradient is a weight times a difference of targets, so float64 must be able to represent the
square of this product.  A node is split only if its hessians add up to twice
``min_child_weight`` or more.  With weights or rates of 1e-9 this may hold for no node.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.errors import DataError, HedgerowWarning
from hedgerow.model.forest import Forest
from hedgerow.model.model import Model
from hedgerow.objectives import Objective, SeveralTargets
from hedgerow.objectives.catalogue import scored_as
from hedgerow.objectives.domain import LARGEST_SPREAD
from hedgerow.objectives.global_sums import AllRows, largest_of_ranks
from hedgerow.params import BoostParams
from hedgerow.schedules import is_number

_SMALLEST = 1.0 / LARGEST_SPREAD
_FEW_VALUES = 16


def check_differences(objective: Objective, rows: AllRows) -> None:
    """Raise ``DataError`` if float64 cannot represent the squares of weights times differences."""
    if not objective.squares:
        return
    several = isinstance(objective, SeveralTargets)
    single: Any = objective.single if isinstance(objective, SeveralTargets) else objective
    heaviest = np.array([1.0 if rows.weight is None else rows.weight.max(initial=-np.inf)])
    weight = float(largest_of_ranks(heaviest, rows.communicator)[0])
    for k in range(objective.n_outputs if several else 1):
        own = rows.of_target(k)
        target = single.compared(own.target) if hasattr(single, "compared") else own.target
        if own.offset is not None:
            target = target - own.offset[0]
        low, high = replace(own, target=target).extent()
        spread = high - low
        with np.errstate(over="ignore", under="ignore"):
            product = float(np.float64(spread) * weight)
        if spread == 0.0 or _SMALLEST <= product <= LARGEST_SPREAD:
            continue
        weighted = "" if weight == 1.0 else f" (times weights of up to {weight:g})"
        raise DataError(
            f"objective {objective.name!r} squares differences of targets, but float64 cannot "
            f"represent these squares: y differs by at most {spread:g}{weighted}, which must lie "
            f"between {_SMALLEST:g} and {LARGEST_SPREAD:g}. Multiply y by a factor, and divide "
            "predictions by it."
        )


def warn_of_no_split(
    forest: Forest, objective: Objective, params: BoostParams, rows: AllRows
) -> None:
    """Warn, on rank 0, if no tree has a split because ``min_child_weight`` forbids all splits."""
    n_first = min(forest.n_trees, forest.n_outputs)
    if n_first == 0 or len(forest.feature) > forest.n_trees:
        return
    mass = float(forest.cover[forest.tree_start[:n_first]].max())
    if mass >= 2.0 * params.min_child_weight:
        return
    low, high = rows.extent()
    if low == high or rows.communicator.rank > 0:
        return
    advice = "Multiply weights or targets by a factor, or lower min_child_weight (and reg_lambda)."
    if scored_as(objective) == "ranking":
        advice = (
            "Only rows of one query whose targets differ can be ranked: check qid and the targets."
        )
    warnings.warn(
        "no tree has a split, so the model is a constant: the hessians of objective "
        f"{objective.name!r} add up to {mass:g} over all rows, but each side of a split needs "
        f"min_child_weight={params.min_child_weight:g}. {advice}",
        HedgerowWarning,
        stacklevel=2,
    )


def warn_of_short_steps(
    forest: Forest, objective: Objective, params: BoostParams, rows: AllRows
) -> None:
    """Warn, on rank 0, if trees of Huber's loss cannot reach the targets."""
    from hedgerow.objectives.robust import Huber

    if not isinstance(objective, Huber):
        return
    searched = params.leaf_estimation == "line_search"
    if searched or params.boosting != "gbdt" or not is_number(params.learning_rate):
        return
    reach = float(objective.delta) * forest.n_rounds * float(params.learning_rate)
    middle = rows.quantile(0.75) - rows.quantile(0.25)
    if not 0.0 < reach < 0.05 * middle or rows.communicator.rank > 0:
        return
    warnings.warn(
        f"delta={objective.delta:g} of objective 'huber' is far below the differences of the "
        f"targets: {forest.n_rounds} rounds move a prediction by {reach:g} at most, but the "
        f"quartiles of y differ by {middle:g}, so the model is nearly a constant. delta is a "
        "distance in units of y: pass a larger delta, or use objective='absolute_error'.",
        HedgerowWarning,
        stacklevel=2,
    )


def warn_of_infinite(model: Model, raw: FloatArray, values: FloatArray) -> None:
    """Warn if predictions are not finite; ``raw`` are the raw scores of the predictions."""
    if values.size <= _FEW_VALUES:  # faster than a call of NumPy
        if all(map(math.isfinite, values.ravel().tolist())):
            return
    elif np.isfinite(values).all():
        return
    rows = np.flatnonzero(~np.isfinite(values.reshape(len(values), -1)).all(axis=1))
    shown = raw[:, rows]
    rate = model.training.get("parameters", {}).get("learning_rate")
    warnings.warn(
        f"{len(rows)} of {len(values)} predictions are not finite: objective "
        f"{model.objective!r} computes them from raw scores from {shown.min():g} to "
        f"{shown.max():g}, which exceeds the range of float64. Likely causes: a learning_rate that "
        f"is too large (the model has {rate!r}), or an offset far from those of the training rows.",
        HedgerowWarning,
        stacklevel=3,
    )
