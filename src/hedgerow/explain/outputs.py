"""The raw scores of a model: their names, and a model of some of them."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from hedgerow.arrays import AnyArray
from hedgerow.errors import ParameterError, brief, did_you_mean
from hedgerow.model.forest import Forest
from hedgerow.model.model import Model
from hedgerow.objectives import Objective, SeveralTargets

Outputs: TypeAlias = "str | int | Sequence[str | int] | None"
"""Names or numbers of raw scores."""


def names_of_outputs(
    model: Model, objective: Objective, classes: AnyArray | None
) -> tuple[str, ...]:
    """Return the classes, targets, levels or parameters of the raw scores; none for one score."""
    n_outputs = model.forest.n_outputs
    if n_outputs == 1:
        return ()
    known: Sequence[Any] = range(n_outputs)
    levels = model.training.get("quantile")
    if isinstance(objective, SeveralTargets):
        known = objective.names
    elif hasattr(objective, "raw_names"):
        known = objective.raw_names
    elif classes is not None and len(classes) == n_outputs:
        known = classes.tolist()
    elif isinstance(levels, list | tuple) and len(levels) == n_outputs:
        known = levels
    return tuple(map(str, known))


def read_outputs(outputs: Outputs, names: tuple[str, ...]) -> tuple[tuple[int, ...] | None, bool]:
    """Return the numbers of the requested outputs (None: all), and whether it is one output."""
    if outputs is None:
        return None, False
    single = isinstance(outputs, str | numbers.Integral)
    given: list[Any] = [outputs] if single else _listed(outputs)
    if not given:
        raise ParameterError("outputs is empty: name at least one, or leave it out for all.")
    chosen = tuple(_number_of(output, names) for output in given)
    if len(set(chosen)) < len(chosen):
        raise ParameterError(f"outputs contains an output twice: {brief(outputs)}.")
    return (None if not names else chosen), single


def _listed(outputs: Any) -> list[Any]:
    try:
        return list(outputs)
    except TypeError:
        raise ParameterError(
            f"outputs must be a name, a number, a list of these, or None; got {brief(outputs)}."
        ) from None


def _number_of(output: Any, names: tuple[str, ...]) -> int:
    is_whole = isinstance(output, numbers.Integral) and not isinstance(output, bool)
    if is_whole and 0 <= int(output) < max(1, len(names)):
        return int(output)
    if isinstance(output, str) and output in names:
        return names.index(output)
    if not names:
        raise ParameterError(f"the model has one output, number 0; got outputs={brief(output)}.")
    known = ", ".join(map(repr, names[:10])) + (", ..." if len(names) > 10 else "")
    raise ParameterError(
        f"outputs must be among {known}, or numbers from 0 to {len(names) - 1}; "
        f"got {brief(output)}.{did_you_mean(output, names)}"
    )


def forest_of_outputs(forest: Forest, chosen: Sequence[int]) -> Forest:
    """Return the model of some raw scores."""
    some = list(chosen)
    if forest.vectors is not None:
        return replace(
            forest,
            vectors=np.ascontiguousarray(forest.vectors[:, some]),
            base_score=forest.base_score[some],
        )
    turns = np.arange(0, forest.n_trees, forest.n_outputs)[:, None]
    trees = (turns + np.array(some)).reshape(-1)
    return forest.some_trees(trees, forest.base_score[some])
