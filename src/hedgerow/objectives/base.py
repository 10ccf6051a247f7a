"""The interface of an objective, and base classes of losses.

Glossary
--------
raw score   sum of the trees, any real number, shape (n_outputs, n_rows)
link        inverse map from raw score to prediction (identity, sigmoid, softmax)
g, h        first and second derivative of the loss in the raw score, times the
            row's weight
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import ClassVar, NamedTuple, Protocol, cast

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.errors import ParameterError
from hedgerow.kernels.primitives.exact_sum import weighted_mean
from hedgerow.objectives.derivatives import PRECOMPUTED
from hedgerow.objectives.domain import (
    TWO_CLASSES,
    Domain,
    check_classes,
    check_interval,
    check_spread,
)
from hedgerow.objectives.global_sums import AllRows
from hedgerow.objectives.line_search import LeafRows, LeafRule
from hedgerow.objectives.step_limits import PENALIZED_WEIGHT, SAFE_RATE, limit_without_penalty
from hedgerow.params import Interval


class LossRows(NamedTuple):
    """Some rows, or all rows.

    target   float64 (n_rows,), or (n_rows, n_columns) for losses of several columns
    raw      float64 (n_outputs, n_rows)
    weight   float64 (n_rows,), or None: every weight is 1
    round    number of the round, from 0: losses with random draws draw again in each round
    """

    target: FloatArray
    raw: FloatArray
    weight: FloatArray | None
    round: int = 0


class Objective(Protocol):
    """A loss with its link, its initial score and its derivatives.

    Attributes
    ----------
    name : str
        Name in the public API and in the model file.
    kernel_id : int
        Number of the compiled derivatives in the gradient pass
        (:mod:`hedgerow.objectives.derivatives`).
    n_outputs : int
        Raw scores per row.
    constant_hessian : bool
        True if h is the row's weight for any raw score.
    second_order : bool
        True if h is the second derivative.  Otherwise the second derivative is zero almost
        everywhere, and leaf values come from a line search.
    level : float
        The quantile level; other objectives ignore it.
    """

    name: ClassVar[str]
    kernel_id: ClassVar[int]
    constant_hessian: ClassVar[bool]

    @property
    def second_order(self) -> bool:
        """Whether h is the second derivative or an upper bound of it."""

    @property
    def level(self) -> float:
        """The quantile level."""

    @property
    def n_outputs(self) -> int:
        """Raw scores per row."""

    def check_target(
        self, target: FloatArray, first_row: int = 0, origin: float | None = None
    ) -> None:
        """Raise ``DataError`` with the first row whose target is outside the domain.

        For a part of a table, ``target`` starts at row ``first_row``, and ``origin`` is the
        target of row 0.
        """

    def initial_score(self, target: FloatArray, weight: FloatArray | None) -> FloatArray:
        """Return the raw score per output that minimises the weighted loss of a constant."""

    def start_of(self, rows: AllRows) -> FloatArray:
        """Return the initial score of rows on ranks; their division does not affect bits."""

    def predict(self, raw: FloatArray) -> FloatArray:
        """Return predictions, (n_rows,) or (n_rows, classes), of raw scores (n_outputs, n_rows)."""

    def loss(self, target: FloatArray, raw: FloatArray, weight: FloatArray | None) -> float:
        """Return the weighted mean loss, from exact sums."""

    def losses(self, target: FloatArray, raw: FloatArray) -> FloatArray:
        """Return the unweighted loss of each row; no row depends on another."""

    def leaf_steps(self, leaves: LeafRows, output: int) -> FloatArray:
        """Return the step c of each leaf that minimises the loss of its rows at ``raw + c``.

        An objective with a method ``leaf_rule(output)``, which returns a
        :data:`hedgerow.objectives.line_search.LeafRule`, is ``leaves.steps_by(leaf_rule)``.
        """


@dataclass(frozen=True, kw_only=True)
class WeightedLoss:
    """Base class of losses that know whether the rows of a fit have a large total weight.

    Attributes
    ----------
    weight_factor : float
        The total weight divided by ``PENALIZED_WEIGHT``, at least 1.  Penalties bound the steps of
        leaves less by this factor.
    """

    weight_factor: float = field(default=1.0, repr=False, compare=False)


class MeanLoss(WeightedLoss, ABC):
    """Base class of losses whose mean over the rows is the loss of a fit; the link is the identity.

    A subclass has the attributes of :class:`Objective`, defines what is abstract here, and
    overrides what differs.
    """

    name: ClassVar[str]
    constant_hessian: ClassVar[bool] = False
    second_order: ClassVar[bool] = True
    vanishing_hessian: ClassVar[bool] = False
    domain: ClassVar[Domain] = None
    level: float = 0.5
    n_outputs: int = 1

    def step_limit(self, reg_lambda: float, rate: float) -> float:
        """Return the limit on the Newton steps of leaves (:func:`longest_step`)."""
        return limit_without_penalty(reg_lambda, rate) if self.vanishing_hessian else math.inf

    @abstractmethod
    def losses(self, target: FloatArray, raw: FloatArray) -> FloatArray:
        """Return the loss of each row."""

    @abstractmethod
    def start_of(self, rows: AllRows) -> FloatArray:
        """Return the initial score of rows on ranks."""

    @abstractmethod
    def leaf_rule(self, output: int) -> LeafRule:
        """Return the rule by which a line search finds the leaf values of an output's trees."""

    def leaf_steps(self, leaves: LeafRows, output: int) -> FloatArray:
        return leaves.steps_by(self.leaf_rule(output), output)

    def check_target(
        self, target: FloatArray, first_row: int = 0, origin: float | None = None
    ) -> None:
        """Raise ``DataError`` for the first target outside the ``domain`` of the loss."""
        if self.domain is None:  # so that squares of residuals do not overflow
            check_spread(target, self.name, first_row, origin)
        elif isinstance(self.domain, Interval):
            check_interval(target, self.name, self.domain, first_row)
        else:
            n_classes = 2 if self.domain == TWO_CLASSES else self.n_outputs
            check_classes(target, self.name, n_classes, first_row)

    def initial_score(self, target: FloatArray, weight: FloatArray | None) -> FloatArray:
        return self.start_of(AllRows(target, weight))

    def predict(self, raw: FloatArray) -> FloatArray:
        return raw[0]

    def loss(self, target: FloatArray, raw: FloatArray, weight: FloatArray | None) -> float:
        return weighted_mean(self.losses(target, raw), weight)


class OrderLoss(WeightedLoss, ABC):
    """Base class of losses of the order of the rows, which a constant does not change."""

    name: ClassVar[str]
    kernel_id: ClassVar[int] = PRECOMPUTED
    constant_hessian: ClassVar[bool] = False
    second_order: ClassVar[bool] = True
    rowwise: ClassVar[bool] = False
    coupled: ClassVar[bool] = False
    level: ClassVar[float] = 0.5

    def step_limit(self, reg_lambda: float, rate: float) -> float:
        """Return the limit on the Newton steps of leaves (:func:`longest_step`)."""
        return limit_without_penalty(reg_lambda, rate)

    def initial_score(self, target: FloatArray, weight: FloatArray | None) -> FloatArray:
        return np.zeros(1)

    def start_of(self, rows: AllRows) -> FloatArray:
        """Return 0: the loss of a constant does not depend on the constant."""
        return np.zeros(1)

    def start_beside(self, rows: AllRows) -> FloatArray:
        """Return 0, with an offset as well."""
        return np.zeros(1)

    def leaf_steps(self, leaves: LeafRows, output: int) -> FloatArray:
        raise ParameterError(
            f"objective {self.name!r} has no loss per leaf, which a line search needs: use "
            "leaf_estimation='newton' or 'gradient'."
        )


def log_odds(rate: float) -> float:
    """Return the log-odds of a probability, which is limited to 15 digits."""
    rate = min(max(rate, 1e-15), 1.0 - 1e-15)
    return float(np.log(rate) - np.log1p(-rate))


def sum_of_outputs(values: FloatArray) -> FloatArray:
    """Sum over outputs in order (the order of NumPy's sum depends on the number of columns)."""
    total = values[0].copy()
    for row in values[1:]:
        total += row
    return total


def both_classes(positive: FloatArray) -> FloatArray:
    """Return the probabilities of both classes, (n_rows, 2), from the probability of class 1."""
    found = np.empty((len(positive), 2))
    np.subtract(1.0, positive, out=found[:, 0])
    found[:, 1] = positive
    return found


def longest_line(objective: Objective, reg_lambda: float, rate: float) -> float:
    """Return the limit on the linear terms of a leaf, before the learning rate.

    The limit is infinite except for objectives whose steps would be too long.  ``rate`` is the
    highest learning rate of a round.  If it is high, penalties are not enough: a row that the tree
    was not grown on may lie far out on the line.
    """
    single = getattr(objective, "single", objective)
    of_lines = float(getattr(single, "longest_line", math.inf))
    penalty = reg_lambda if rate <= SAFE_RATE else 0.0
    return min(of_lines, longest_step(objective, penalty, rate))


def limited_for(objective: Objective, rows: AllRows) -> Objective:
    """Return the objective with the limit on steps that targets and weights of these rows need."""
    limited = getattr(objective, "limited_for", None)
    if limited is not None:
        objective = cast(Objective, limited(rows))
    if not isinstance(objective, WeightedLoss) or math.isinf(longest_step(objective, 0.0, 1.0)):
        return objective
    factor = rows.total_weight() / PENALIZED_WEIGHT
    return cast(Objective, replace(objective, weight_factor=factor)) if factor > 1.0 else objective


def longest_step(objective: Objective, reg_lambda: float, rate: float) -> float:
    """Return the limit on the Newton step of a leaf, before the learning rate.

    The limit is infinite except for objectives whose hessian may be nearly 0 where g is not.
    ``rate`` is the learning rate of a round, or 0 if steps do not add up.
    """
    limit = getattr(objective, "step_limit", None)
    if limit is None:
        return math.inf
    factor: float = getattr(objective, "weight_factor", 1.0)
    return float(limit(reg_lambda / factor, rate))
