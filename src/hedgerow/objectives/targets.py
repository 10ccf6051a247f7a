"""Several targets in one model: a single-target loss for each.

Outputs do not depend on each other.  The loss of a row is the mean of the losses of its
targets.  Output k learns target k with the loss, link and initial score of a model for this
target alone.  If leaves hold vectors, the outputs share the trees
(:mod:`hedgerow.growing.vectors.search`).

Several numbers are several targets; several labels, each 0 or 1, with a loss of two classes
are a multi-label problem.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.errors import DataError, ParameterError
from hedgerow.objectives.base import LossRows, Objective
from hedgerow.objectives.global_sums import AllRows
from hedgerow.objectives.line_search import LeafRows

_OF_SINGLE = (
    *("name", "kernel_id", "constant_hessian", "second_order", "level", "rowwise", "squares"),
    "longest_line",
)
"""What all targets have in common."""
FOR_SEVERAL = (
    *("squared_error", "absolute_error", "quantile", "huber", "pseudo_huber", "fair", "log_cosh"),
    *("expectile", "mape", "poisson", "gamma", "tweedie", "squared_log_error", "cross_entropy"),
    *("custom", "logistic", "exponential", "focal", "hinge"),
)
"""Losses that support several targets."""


@dataclass(frozen=True)
class SeveralTargets(Objective):
    """The mean of the losses of several targets."""

    singles: tuple[Objective, ...]  # of the targets: all of the same class, with one output each
    names: tuple[str, ...]  # of the targets
    named: bool = False  # whether the user gave the names

    def __post_init__(self) -> None:
        known = {name: getattr(self.single, name) for name in _OF_SINGLE}
        for name, value in {**known, "n_outputs": len(self.singles)}.items():
            object.__setattr__(self, name, value)

    @property
    def single(self) -> Objective:
        """The loss of the first target, which represents all."""
        return self.singles[0]

    @property
    def label(self) -> str | None:
        """Name of a custom loss."""
        return getattr(self.single, "label", None)

    @property
    def task(self) -> Literal["regression", "labels"]:
        return "labels" if getattr(self.single, "task", "") == "two classes" else "regression"

    def bound_to(self, target: FloatArray, weight: FloatArray | None) -> SeveralTargets:
        """Return the objective with the arrays that each loss computes once for its targets."""
        bound = [
            loss.bound_to(np.ascontiguousarray(target[:, k]), weight)
            for k, loss in enumerate(self.singles)
        ]
        return replace(self, singles=tuple(bound))

    def limited_for(self, rows: AllRows) -> SeveralTargets:
        """Return the objective with a limit on the steps of each loss whose targets need one."""
        singles = [loss.limited_for(rows.of_target(k)) for k, loss in enumerate(self.singles)]
        return replace(self, singles=tuple(singles))

    def step_limit(self, reg_lambda: float, rate: float) -> float:
        """Return the limit on steps: the smallest of all targets, whose trees may be shared."""
        return min(loss.longest_step(reg_lambda, rate) for loss in self.singles)

    def derivatives(self, rows: LossRows, output: int, g: FloatArray, h: FloatArray) -> None:
        own = rows._replace(
            target=np.ascontiguousarray(rows.target[:, output]), raw=rows.raw[output : output + 1]
        )
        self.singles[output].derivatives(own, 0, g, h)

    def check_target(
        self, target: FloatArray, first_row: int = 0, origin: FloatArray | None = None
    ) -> None:
        for k, loss in enumerate(self.singles):
            first = None if origin is None else origin[k : k + 1]
            try:
                loss.check_target(np.ascontiguousarray(target[:, k]), first_row, first)
            except DataError as error:
                raise DataError(f"target {self.names[k]!r}: {error}") from None

    def start(self, rows: AllRows) -> FloatArray:
        starts = [loss.start(rows.of_target(k)) for k, loss in enumerate(self.singles)]
        return np.concatenate(starts)

    start_of = start

    def predict(self, raw: FloatArray) -> FloatArray:
        """Return a column per target, in order; for labels, the probabilities of 1."""
        parts = [loss.predict(raw[k : k + 1]) for k, loss in enumerate(self.singles)]
        if self.task == "labels":
            parts = [part[:, 1] for part in parts]
        return np.column_stack(parts)

    def loss(self, target: FloatArray, raw: FloatArray, weight: FloatArray | None) -> float:
        return mean_of(
            loss.loss(np.ascontiguousarray(target[:, k]), raw[k : k + 1], weight)
            for k, loss in enumerate(self.singles)
        )

    def losses(self, target: FloatArray, raw: FloatArray) -> FloatArray:
        total = np.zeros(len(target))
        for k, loss in enumerate(self.singles):
            total += loss.losses(np.ascontiguousarray(target[:, k]), raw[k : k + 1])
        return total / self.n_outputs

    def leaf_steps(self, leaves: LeafRows, output: int) -> FloatArray:
        return self.singles[output].leaf_steps(self.rows_of_target(leaves, output), 0)

    def rows_of_target(self, leaves: LeafRows, output: int) -> LeafRows:
        """Return the rows of leaves with one target and its raw scores."""
        target = np.ascontiguousarray(leaves.target[:, output])
        return replace(leaves, target=target, raw=leaves.raw[output : output + 1])

    def of_output(self, output: int, prediction: FloatArray) -> FloatArray:
        """Return the column of one target of :meth:`predict`, in the form of its own loss."""
        column = np.ascontiguousarray(prediction[:, output])
        return np.column_stack([1.0 - column, column]) if self.task == "labels" else column


def mean_of(values: Iterator[float]) -> float:
    """Return the mean of the scores of all targets, in any order."""
    known = list(values)
    return math.fsum(known) / len(known)


def several_targets(
    single: Objective, n_targets: int, names: tuple[str, ...] | None = None
) -> Objective:
    """Return the loss of several targets, of which each has the loss ``single``."""
    _check_single(single)
    chosen = names if names is not None else tuple(f"y{k}" for k in range(n_targets))
    return SeveralTargets((single,) * n_targets, chosen, names is not None)


def _check_single(single: Objective) -> None:
    if single.n_outputs != 1 or single.name not in FOR_SEVERAL:
        raise ParameterError(
            f"objective {single.name!r} with {single.n_outputs} outputs is not for several "
            f"columns of y: use one of {', '.join(map(repr, FOR_SEVERAL))} with one output each, "
            "or train a model for each column."
        )


def targets_record(objective: SeveralTargets) -> dict[str, Any]:
    """Return the targets' part of the training record of a model."""
    return {"targets": {"named": objective.named, "names": list(objective.names)}}


def targets_of_record(single: Objective, record: object, n_outputs: int) -> Objective:
    """Read the result of :func:`targets_record`; the record is not trusted."""
    names = record.get("names") if isinstance(record, Mapping) else None
    named = record.get("named") if isinstance(record, Mapping) else None
    right = isinstance(names, list) and all(isinstance(name, str) for name in names)
    if not right or not isinstance(named, bool) or len(cast(list[str], names)) != n_outputs:
        raise ParameterError(f"the names of {n_outputs} targets are malformed.")
    _check_single(single)
    chosen = tuple(cast(list[str], names))
    if len(set(chosen)) != n_outputs or n_outputs < 2:
        raise ParameterError("two targets have one name, or there is only one.")
    return SeveralTargets((single,) * n_outputs, chosen, named)
