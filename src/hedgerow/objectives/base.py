"""The interface of an objective, and base classes of losses.

Glossary
--------
raw score   sum of the trees, any real number, shape (n_outputs, n_rows)
link        inverse map from raw score to prediction (identity, sigmoid, softmax)
g, h        first and second derivative of the loss in the raw score, times the
            row's weight
slopes  first and second derivative of the loss of a row, in NumPy: line searches use them, for
        the initial score and for leaf values; trees use kernels
        (:mod:`hedgerow.objectives.row_kernels`), whose second derivative may be larger
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from hedgerow.arrays import FloatArray
from hedgerow.errors import ParameterError, brief
from hedgerow.kernels.primitives.exact_sum import weighted_mean
from hedgerow.objectives.derivatives import PRECOMPUTED, SMALLEST_HESSIAN
from hedgerow.objectives.domain import TWO_CLASSES, Domain, check_spread, refuse_first
from hedgerow.objectives.global_sums import AllRows, root_of, root_of_mean
from hedgerow.objectives.line_search import (
    PENALIZED_WEIGHT,
    SAFE_RATE,
    LeafRows,
    LeafRule,
    Slopes,
    limit_without_penalty,
    root_rule,
)
from hedgerow.objectives.row_kernels import NO_NUMBERS, row_derivatives
from hedgerow.params import Interval

_MOST_CYCLES = 100
_CLOSE = 1e-9


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


@dataclass(frozen=True, kw_only=True)
class _OfRows:
    """What a loss knows about the rows of a fit.

    Attributes
    ----------
    weight_factor : float
        The total weight divided by ``PENALIZED_WEIGHT``, at least 1.  Penalties bound the steps of
        leaves less by this factor.
    has_far_targets : bool
        Whether targets are so far from their mean that Newton steps need a limit.
    """

    weight_factor: float = field(default=1.0, repr=False, compare=False)
    has_far_targets: bool = field(default=False, repr=False, compare=False)


class Objective(_OfRows, ABC):
    """A loss with its link, its initial score and its derivatives.

    Attributes
    ----------
    name : str
        Name in the public API and in the model file.
    kernel_id : int
        Number of the compiled derivatives in the gradient pass
        (:mod:`hedgerow.objectives.derivatives`); ``PRECOMPUTED`` if :meth:`derivatives` writes
        them (:mod:`hedgerow.objectives.precomputed`).
    n_outputs : int
        Raw scores per row.
    constant_hessian : bool
        True if h is the row's weight for any raw score.
    second_order : bool
        True if h is the second derivative or an upper bound of it.  Otherwise the second
        derivative is zero almost everywhere, and leaf values come from a line search.
    vanishing_hessian : bool
        Whether h may be nearly 0 where g is not.
    rowwise : bool
        Whether g and h of a row depend only on this row.
    coupled : bool
        Whether g and h of an output depend on the raw scores of other outputs.
    of_residuals : bool
        Whether the loss depends only on ``target - raw``.
    squares : bool
        Whether the loss squares differences of targets.
    longest_line : float
        Limit on the linear terms of a leaf.
    level : float
        The quantile level; other objectives ignore it.
    """

    name: ClassVar[str]
    kernel_id: ClassVar[int] = PRECOMPUTED
    constant_hessian: ClassVar[bool] = False
    second_order: ClassVar[bool] = True
    vanishing_hessian: ClassVar[bool] = False
    rowwise: ClassVar[bool] = True
    coupled: ClassVar[bool] = False
    of_residuals: ClassVar[bool] = False
    squares: ClassVar[bool] = False
    longest_line: ClassVar[float] = math.inf
    level: float = 0.5
    n_outputs: int = 1

    @abstractmethod
    def check_target(
        self, target: FloatArray, first_row: int = 0, origin: FloatArray | None = None
    ) -> None:
        """Raise ``DataError`` with the first row whose target is outside the domain.

        For a part of a table, ``target`` starts at row ``first_row``, and ``origin`` holds the
        targets of row 0.
        """

    @abstractmethod
    def predict(self, raw: FloatArray) -> FloatArray:
        """Return predictions, (n_rows,) or (n_rows, classes), of raw scores (n_outputs, n_rows)."""

    @abstractmethod
    def loss(self, target: FloatArray, raw: FloatArray, weight: FloatArray | None) -> float:
        """Return the weighted mean loss, from exact sums."""

    @abstractmethod
    def losses(self, target: FloatArray, raw: FloatArray) -> FloatArray:
        """Return the unweighted loss of each row; no row depends on another."""

    @abstractmethod
    def leaf_steps(self, leaves: LeafRows, output: int) -> FloatArray:
        """Return the step c of each leaf that minimises the loss of its rows at ``raw + c``.

        An objective with a method ``leaf_rule(output)``, which returns a
        :data:`hedgerow.objectives.line_search.LeafRule`, is ``leaves.steps_by(leaf_rule)``.
        """

    def derivatives(self, rows: LossRows, output: int, g: FloatArray, h: FloatArray) -> None:
        """Write the first and second derivative of each row, without its weight.

        ``g`` and ``h`` are float64 (n_rows,), contiguous.  For a rowwise loss the result must not
        depend on the number of rows in a call.  Several threads call the method.
        """
        raise NotImplementedError

    def bound_to(self, target: FloatArray, weight: FloatArray | None) -> Self:
        """Return the objective with the arrays that it computes once for these targets."""
        return self

    def start(self, rows: AllRows) -> FloatArray:
        """Return the initial score of rows that may have offsets."""
        if rows.offset is not None:
            return self.start_beside(rows)
        if rows.communicator.size > 1:
            return self.start_of(rows)
        return self.initial_score(rows.target, rows.weight)

    def initial_score(self, target: FloatArray, weight: FloatArray | None) -> FloatArray:
        """Return the raw score per output that minimises the weighted loss of a constant."""
        return self.start_of(AllRows(target, weight))

    @abstractmethod
    def start_of(self, rows: AllRows) -> FloatArray:
        """Return the initial score of rows on ranks; their division does not affect bits."""

    def start_beside(self, rows: AllRows) -> FloatArray:
        """Return the constants that minimise the weighted loss when added to the offsets."""
        offsets = rows.offset
        assert offsets is not None
        if self.of_residuals:
            residuals = [replace(rows, target=rows.target - offset) for offset in offsets]
            return np.array([self.start_of(own)[k] for k, own in enumerate(residuals)])
        # The constant of one output lies from ``base - largest offset`` to ``base - smallest
        # offset``; those of several are searched by turns, until none changes.
        base = self.start_of(replace(rows, offset=None)).copy()

        def root(output: int, start: float, within: tuple[float, float] | None = None) -> float:
            def mean(part: int, at: float) -> float:
                moved = base.copy()
                moved[output] = at
                given = LossRows(rows.target, offsets + moved[:, None], rows.weight)
                return rows.means([self._slopes_of_rows(given, output)[part]])[0]

            return root_of(mean, start, within)

        if self.n_outputs == 1:
            smallest, largest = replace(rows, target=offsets[0]).extent()
            low, high = float(base[0]) - largest, float(base[0]) - smallest
            return np.array([root(0, 0.5 * low + 0.5 * high, (low, high))])
        for _ in range(_MOST_CYCLES):
            before = base.copy()
            for output in range(len(base)):
                base[output] = root(output, float(base[output]))
            if (np.abs(base - before) <= _CLOSE * (1.0 + np.abs(base))).all():
                break
        return base

    def _slopes_of_rows(self, rows: LossRows, output: int) -> Slopes:
        """Return the first and second derivative of each row in the raw score of an output."""
        loss: Any = self
        found: Slopes
        if hasattr(loss, "slopes_of"):
            found = loss.slopes_of(rows.target, rows.raw, output)
        elif hasattr(loss, "slopes") and self.n_outputs == 1:
            found = loss.slopes(rows.target, rows.raw[0])
        else:
            found = np.empty(len(rows.target)), np.empty(len(rows.target))
            self.derivatives(rows, output, *found)
        return found

    def step_limit(self, reg_lambda: float, rate: float) -> float:
        """Return the limit on Newton steps of leaves for a weight factor of 1."""
        return limit_without_penalty(reg_lambda, rate) if self.vanishing_hessian else math.inf

    def longest_step(self, reg_lambda: float, rate: float) -> float:
        """Return the limit on the Newton step of a leaf, before the learning rate."""
        # The rate is that of a round, or 0 if steps do not add up.
        return float(self.step_limit(reg_lambda / self.weight_factor, rate))

    def line_limit(self, reg_lambda: float, rate: float) -> float:
        """Return the limit on the linear terms of a leaf, before the highest learning rate."""
        # At a high rate penalties are not enough: a row that the tree was not grown on may lie far
        # out on the line.
        penalty = reg_lambda if rate <= SAFE_RATE else 0.0
        return min(self.longest_line, self.longest_step(penalty, rate))

    def needs_limit(self, rows: AllRows) -> bool:
        """Return whether targets are so far from their mean that Newton steps need a limit."""
        return False

    def limited_for(self, rows: AllRows) -> Self:
        """Return the objective with the limit on steps that these rows need."""
        loss = replace(self, has_far_targets=True) if self.needs_limit(rows) else self
        if math.isinf(loss.longest_step(0.0, 1.0)):
            return loss
        factor = rows.total(np.ones(len(rows.target))) / PENALIZED_WEIGHT
        return replace(loss, weight_factor=factor) if factor > 1.0 else loss


class MeanLoss(Objective):
    """Base class of losses whose mean over the rows is the loss of a fit; the link is the identity.

    A subclass defines what is abstract here, and overrides what differs.
    """

    domain: ClassVar[Domain] = None
    parameter: ClassVar[tuple[str, Interval] | None] = None
    """The attribute that is the only parameter of the loss, and its range."""

    def __post_init__(self) -> None:
        if self.parameter is not None:
            name, allowed = self.parameter
            check_number(getattr(self, name), name, allowed)

    @abstractmethod
    def leaf_rule(self, output: int) -> LeafRule:
        """Return the rule by which a line search finds the leaf values of an output's trees."""

    def leaf_steps(self, leaves: LeafRows, output: int) -> FloatArray:
        return leaves.steps_by(self.leaf_rule(output), output)

    def check_target(
        self, target: FloatArray, first_row: int = 0, origin: FloatArray | None = None
    ) -> None:
        """Raise ``DataError`` for the first target outside the ``domain`` of the loss."""
        allowed = self.domain
        if allowed is None:  # so that squares of residuals do not overflow
            check_spread(target, self.name, first_row, origin)
            return
        needs, end = f"objective {self.name!r} needs targets", "row {row} holds {value}"
        if isinstance(allowed, Interval):
            inside = target > allowed.low if allowed.low_open else target >= allowed.low
            inside &= target < allowed.high if allowed.high_open else target <= allowed.high
            left, right = "(" if allowed.low_open else "[", ")" if allowed.high_open else "]"
            text = f"{needs} in {left}{allowed.low:g}, {allowed.high:g}{right}; {end}: "
            text += "leave the row out, or use another objective."
            refuse_first(~inside, target, first_row, text)
        else:
            n_classes = 2 if allowed == TWO_CLASSES else self.n_outputs
            known = "0 or 1" if n_classes == 2 else f"0, 1, ... {n_classes - 1}"
            outside = (target < 0) | (target >= n_classes) | (target != np.floor(target))
            refuse_first(outside, target, first_row, f"{needs} {known}; {end}.")

    def predict(self, raw: FloatArray) -> FloatArray:
        return raw[0]

    def loss(self, target: FloatArray, raw: FloatArray, weight: FloatArray | None) -> float:
        return weighted_mean(self.losses(target, raw), weight)


class OrderLoss(Objective):
    """Base class of losses of the order of the rows, which a constant does not change."""

    rowwise: ClassVar[bool] = False
    vanishing_hessian: ClassVar[bool] = True

    def start_of(self, rows: AllRows) -> FloatArray:
        """Return 0: the loss of a constant does not depend on the constant."""
        return np.zeros(1)

    start_beside = start_of

    def losses(self, target: FloatArray, raw: FloatArray) -> FloatArray:
        raise ParameterError(
            f"objective {self.name!r} compares each row with others: it has no loss per row."
        )

    def leaf_steps(self, leaves: LeafRows, output: int) -> FloatArray:
        raise ParameterError(
            f"objective {self.name!r} has no loss per leaf, which a line search needs: use "
            "leaf_estimation='newton' or 'gradient'."
        )


class RowLoss(MeanLoss):
    """Base class of losses of one row and one output, with the identity as link.

    A subclass defines :meth:`losses` and :meth:`slopes`, may have a :attr:`row_kernel`, and
    overrides what differs.

    Examples
    --------
    >>> import numpy as np
    >>> from hedgerow import HedgerowRegressor
    >>> from hedgerow.objectives import RowLoss
    >>> class Fourth(RowLoss):
    ...     def losses(self, target, raw):
    ...         return (raw[0] - target) ** 4
    ...     def slopes(self, target, raw):
    ...         return 4.0 * (raw - target) ** 3, 12.0 * (raw - target) ** 2
    >>> X = np.arange(100.0).reshape(-1, 1)
    >>> model = HedgerowRegressor(objective=Fourth(), n_estimators=20).fit(X, X[:, 0] / 100.0)
    >>> model.predict(X).shape
    (100,)
    """

    name: ClassVar[str] = "custom"
    row_kernel: ClassVar[int | None] = None
    """Number of its kernel in row_kernels; None to use the slopes."""

    def numbers(self, output: int) -> FloatArray:
        """Return the parameters of the loss for the kernel."""
        known = self.parameter
        return NO_NUMBERS if known is None else np.array([float(getattr(self, known[0]))])

    def slopes(self, target: FloatArray, raw: FloatArray) -> Slopes:
        """Return the first and second derivative of each row, of shape (n_rows,).

        A subclass that defines :meth:`derivatives`, :meth:`start_of` and :meth:`leaf_steps` does
        not need this method.
        """
        raise ParameterError(
            f"objective {type(self).__name__} has no slopes(target, raw), which returns the first "
            "and second derivative of each row: add it, or derivatives, start_of and leaf_steps."
        )

    def derivatives(self, rows: LossRows, output: int, g: FloatArray, h: FloatArray) -> None:
        if self.row_kernel is None:
            g[:], second = self.slopes(rows.target, rows.raw[output])
            np.maximum(second, SMALLEST_HESSIAN, out=h)
        else:
            numbers = self.numbers(output)
            row_derivatives(self.row_kernel, rows.target, rows.raw[output], numbers, g, h)

    def start_of(self, rows: AllRows) -> FloatArray:
        """Return the root of the mean first derivative, between smallest and largest target."""
        return np.array([root_of_mean(rows, self.slopes, rows.center(), rows.extent())])

    def leaf_rule(self, output: int) -> LeafRule:
        """Return the rule: roots of sums of first derivatives, within the range of residuals."""
        return root_rule(self.slopes, output, lambda target, raw: target - raw[output])


def check_number(value: Any, name: str, allowed: Interval) -> None:
    """Raise ``ParameterError`` unless ``value`` is an allowed number."""
    if value not in allowed:
        raise ParameterError(f"{name} must be {allowed}; got {brief(value)}.")
