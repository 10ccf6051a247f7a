"""Losses of counts and amounts, with the logarithm as link.

=================  =========================================  ============  =============
name               loss of a row, m the prediction            targets       predicts
=================  =========================================  ============  =============
poisson            y log(y / m) - y + m                       0 and above   the mean
gamma              y / m - log(y / m) - 1                     above 0       the mean
tweedie            (y**(2-p) / (1-p) - y m**(1-p)) / (1-p)    0 and above   the mean
                   - ... (see :class:`Tweedie`), 1 < p < 2
squared_log_error  (log(1 + m) - log(1 + y))**2 / 2           above -1      about the
                                                                            median
=================  =========================================  ============  =============

The first three are half the deviance of an exponential dispersion model: 0 for a
perfect prediction.  Raw score is log m (log(1 + m) for the last).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.special import xlogy

from hedgerow.arrays import FloatArray
from hedgerow.objectives import line_search as ls
from hedgerow.objectives import row_kernels
from hedgerow.objectives.base import RowLoss
from hedgerow.objectives.distributions.predicted import Poisson as PoissonDistribution
from hedgerow.objectives.domain import LARGEST, LOWEST_MEAN, POSITIVE, Domain
from hedgerow.objectives.global_sums import AllRows
from hedgerow.params import Interval

_MOST_STEP = 0.999
"""Limit for a leaf without events and without a penalty, whose loss has no minimum."""


class LogLinkLoss(RowLoss):
    """Base class of losses whose raw score is the logarithm of the mean."""

    domain: ClassVar[Domain] = Interval(0.0, LARGEST)
    # Newton steps in a logarithm are too long if the expected value is small, and linear leaves
    # make them longer: at a learning rate of 0.3, linear leaves had 3 to 10 times the Poisson
    # loss of constant leaves after 30 rounds.
    longest_line: ClassVar[float] = 1.0

    def step_limit(self, reg_lambda: float, rate: float) -> float:
        # Low rates and ``reg_lambda`` bound the steps together.
        bounded = reg_lambda >= 1.0 and rate <= ls.SAFE_RATE
        limit = math.inf if bounded else ls.descending_step(rate)
        return min(limit, ls.LONGEST_STEP) if self.has_far_targets else limit

    def start_of(self, rows: AllRows) -> FloatArray:
        """Return the logarithm of the mean target, the best constant for all of these losses."""
        return np.array([np.log(max(rows.mean(), LOWEST_MEAN))])

    def start_beside(self, rows: AllRows) -> FloatArray:
        """Return the best constant with an offset: the log of the ratio of two sums."""
        assert rows.offset is not None
        middle = 0.5 * sum(replace(rows, target=rows.offset[0]).extent())  # against overflow
        up, down = rows.means(self.parts(rows.target, rows.offset[0] - middle))
        up, down = max(up, LOWEST_MEAN), max(down, LOWEST_MEAN)
        # A constant c multiplies the ratio of rising to falling part by ``exp(c)``.
        return np.array([math.log(down) - math.log(up) - middle])

    def predict(self, raw: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            return np.asarray(np.exp(raw[0]))

    @abstractmethod
    def parts(self, target: FloatArray, raw: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the rising and the falling part of g: g = up - down."""

    def leaf_rule(self, output: int) -> ls.LeafRule:
        """Return the rule: the logarithm of the ratio of the sums of both parts."""
        return ls.log_ratio_rule(lambda target, raw: self.parts(target, raw[output])[::-1])


@dataclass(frozen=True, slots=True)
class Poisson(LogLinkLoss):
    """Half the Poisson deviance."""

    name: ClassVar[str] = "poisson"
    row_kernel = row_kernels.POISSON
    n_outputs: int = 1

    def needs_limit(self, rows: AllRows) -> bool:
        """Return whether a target is far above the mean."""
        # A Newton step is the ratio of targets and means, minus 1, the best step its logarithm:
        # with one target of 1e9 among 20,000 counts, raw scores rose to 800 in one round.
        return rows.extent()[1] > ls.FAR_RATIO * (1.0 + rows.mean())

    def distribution(self, raw: FloatArray) -> PoissonDistribution:
        """Return the distribution of each row, which has only the mean as parameter."""
        return PoissonDistribution(self.predict(raw))

    def losses(self, target: FloatArray, raw: FloatArray) -> FloatArray:
        mean = np.exp(np.minimum(raw[0], row_kernels.FARTHEST_LOG))
        return np.asarray(xlogy(target, target) - target * raw[0] - target + mean)

    def parts(self, target: FloatArray, raw: FloatArray) -> tuple[FloatArray, FloatArray]:
        return np.exp(np.minimum(raw, row_kernels.FARTHEST_LOG)), target

    def slopes(self, target: FloatArray, raw: FloatArray) -> ls.Slopes:
        up, down = self.parts(target, raw)
        return up - down, up

    def least_by_step(self, step: FloatArray) -> FloatArray:
        """Return the minimum of the loss, from the Newton step ``S = (Y - M) / (M + lambda)``."""
        # ``log(1 + S) = log((Y + lambda) / (M + lambda))``, with sums Y of targets and M of
        # predictions: a prior of ``lambda`` events and ``lambda`` expected events in each leaf.
        return np.log1p(np.maximum(step, -_MOST_STEP))


@dataclass(frozen=True, slots=True)
class Gamma(LogLinkLoss):
    """Half the gamma deviance."""

    name: ClassVar[str] = "gamma"
    row_kernel = row_kernels.GAMMA
    domain: ClassVar[Domain] = POSITIVE
    n_outputs: int = 1

    def needs_limit(self, rows: AllRows) -> bool:
        """Return whether many targets are far below the mean."""
        # A Newton step is 1 minus the ratio of means and targets, the best step minus its
        # logarithm: with targets ``exp(3 z)``, z normal, raw scores of 20,000 rows fell to -141.
        # With ratios r of targets and mean, the first step is ``sum(1 - r) / (1 + sum(r))`` for
        # ``reg_lambda`` 1: above 16 only if ``sum(1 - 17 r)`` is.
        scale = (1.0 + ls.LONGEST_STEP) / rows.mean()
        return rows.total(np.maximum(0.0, 1.0 - scale * rows.target)) > ls.LONGEST_STEP

    def losses(self, target: FloatArray, raw: FloatArray) -> FloatArray:
        far = np.log(target) - raw[0]
        return np.asarray(np.expm1(np.minimum(far, 700.0)) - far)

    def parts(self, target: FloatArray, raw: FloatArray) -> tuple[FloatArray, FloatArray]:
        down = np.exp(np.minimum(np.log(target) - raw, row_kernels.FARTHEST_LOG))
        return np.ones(len(target)), down

    def slopes(self, target: FloatArray, raw: FloatArray) -> ls.Slopes:
        up, down = self.parts(target, raw)
        return up - down, down

    def least_by_step(self, step: FloatArray) -> FloatArray:
        """As :meth:`Poisson.least_by_step`, with the sum of ``y / m`` and the number of rows."""
        return np.asarray(-np.log1p(-np.minimum(step, _MOST_STEP)))


@dataclass(frozen=True, slots=True)
class Tweedie(LogLinkLoss):
    """Half the Tweedie deviance of power p: a Poisson number of gamma amounts.

    ``y**(2-p) / ((1-p) (2-p)) - y m**(1-p) / (1-p) + m**(2-p) / (2-p)``.  As p approaches 1 it
    becomes the Poisson deviance, and as p approaches 2 the gamma deviance.
    """

    name: ClassVar[str] = "tweedie"
    row_kernel = row_kernels.TWEEDIE
    parameter = "tweedie_power", Interval(1.0, 2.0, low_open=True, high_open=True)
    n_outputs: int = 1
    tweedie_power: float = 1.5

    def losses(self, target: FloatArray, raw: FloatArray) -> FloatArray:
        a, b = 1.0 - self.tweedie_power, 2.0 - self.tweedie_power
        up, down = self.parts(target, raw[0])
        return np.asarray(target**b / (a * b) - down / a + up / b)

    def parts(self, target: FloatArray, raw: FloatArray) -> tuple[FloatArray, FloatArray]:
        a, b = 1.0 - self.tweedie_power, 2.0 - self.tweedie_power
        up = np.exp(np.minimum(b * raw, row_kernels.FARTHEST_LOG))
        return up, np.minimum(target * np.exp(np.clip(a * raw, -700.0, 700.0)), row_kernels.MOST)

    def slopes(self, target: FloatArray, raw: FloatArray) -> ls.Slopes:
        up, down = self.parts(target, raw)
        return up - down, (2.0 - self.tweedie_power) * up + (self.tweedie_power - 1.0) * down


@dataclass(frozen=True, slots=True)
class SquaredLogError(RowLoss):
    """Half the squared error of log(1 + y), which is the raw score: h is 1.

    (XGBoost minimises the same loss with the target itself as the raw score.)
    """

    name: ClassVar[str] = "squared_log_error"
    domain: ClassVar[Domain] = Interval(-1.0, LARGEST, low_open=True)
    row_kernel = row_kernels.SQUARED_LOG_ERROR
    squares: ClassVar[bool] = True
    constant_hessian: ClassVar[bool] = True
    n_outputs: int = 1

    def start_of(self, rows: AllRows) -> FloatArray:
        return np.array([rows.mean(np.log1p)])

    def compared(self, target: FloatArray) -> FloatArray:
        """Return log(1 + y), which the raw score predicts."""
        return np.log1p(target)

    def predict(self, raw: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            return np.asarray(np.expm1(raw[0]))

    def losses(self, target: FloatArray, raw: FloatArray) -> FloatArray:
        return np.asarray(0.5 * (raw[0] - np.log1p(target)) ** 2)

    def slopes(self, target: FloatArray, raw: FloatArray) -> ls.Slopes:
        return raw - np.log1p(target), np.ones(len(target))

    def leaf_rule(self, output: int) -> ls.LeafRule:
        return ls.mean_rule(lambda target, raw: np.log1p(target) - raw[output])
