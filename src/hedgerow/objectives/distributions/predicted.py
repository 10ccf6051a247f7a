"""Predicted distributions: one distribution for each row.

==================  =====================  =========================  ==================
class               parameters of a row    mean                       variance
==================  =====================  =========================  ==================
Normal              location, scale        location                   scale**2
LogNormal           location, scale        exp(location + scale**2/2) (see class)
                    of the logarithm
Poisson             rate                   rate                       rate
==================  =====================  =========================  ==================

Glossary
--------
CRPS      continuous ranked probability score: the integral over t of
          ``(P(Y <= t) - [y <= t])**2``, in the unit of the target; the absolute error
          of a distribution that is one point (Gneiting and Raftery 2007)
interval  from the ``(1 - level) / 2`` quantile to the ``(1 + level) / 2`` quantile

Closed forms of the CRPS: Gneiting et al. 2005 (normal), Baran and Lerch 2015 (log-normal),
Wei and Held 2014 (Poisson).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np
import scipy
from scipy import special

from hedgerow.arrays import FloatArray, real_numbers
from hedgerow.errors import DataError, DataTypeError, ParameterError, brief
from hedgerow.params import Interval

_SEED = Interval(0, math.inf, integer=True)
_LEVEL = Interval(0.0, 1.0, low_open=True, high_open=True)
_FARTHEST = 700.0
"""exp of this number is finite."""
HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


@dataclass(frozen=True, slots=True, eq=False)
class Distribution(ABC):
    """Base class of predicted distributions, one for each row.

    Methods with an argument ``y`` accept a number, or one number for each row.
    """

    discrete: ClassVar[bool] = False

    def __len__(self) -> int:
        return len(self._columns()[0])

    def __getitem__(self, rows: Any) -> Self:
        """Return the distributions of some rows: a slice, mask or positions."""
        return type(self)(*(np.atleast_1d(column[rows]) for column in self._columns()))

    def _columns(self) -> tuple[FloatArray, ...]:
        return tuple(getattr(self, field.name) for field in fields(self))

    @abstractmethod
    def _law(self) -> Any:
        """Return the frozen distribution of scipy.stats, which SciPy imports on first use."""

    @property
    @abstractmethod
    def mean(self) -> FloatArray:
        """Expected target of each row, float64 (n_rows,)."""

    @property
    @abstractmethod
    def variance(self) -> FloatArray:
        """Variance of each row, float64 (n_rows,)."""

    @property
    def std(self) -> FloatArray:
        """Standard deviation of each row, float64 (n_rows,)."""
        return np.sqrt(self.variance)

    @property
    def median(self) -> FloatArray:
        """Median of each row, float64 (n_rows,)."""
        return self.quantile(0.5)

    def quantile(self, p: Any) -> FloatArray:
        """Return the smallest value with a cumulative probability of at least ``p``.

        Raise ``ParameterError`` if p is outside (0, 1).
        """
        levels = real_numbers(p)
        if levels is None or levels.ndim > 1 or not ((levels > 0.0) & (levels < 1.0)).all():
            raise ParameterError(
                f"p must be a number in (0, 1), or a list of such numbers; got {brief(p)}."
            )
        found = np.asarray(self._law().ppf(levels[..., None]))
        return found.T.reshape(len(self), *levels.shape)

    def interval(self, level: float = 0.9) -> FloatArray:
        """Return lower and upper end of the central interval, float64 (n_rows, 2).

        It contains the target with probability ``level``, or slightly more for counts.
        """
        check_level(level)
        return self.quantile([0.5 * (1.0 - level), 0.5 * (1.0 + level)])

    def cdf(self, y: Any) -> FloatArray:
        """Return the probability of a target up to ``y``, float64 (n_rows,)."""
        at = self._targets(y)
        with np.errstate(all="ignore"):
            return np.asarray(self._law().cdf(at))

    def log_pdf(self, y: Any) -> FloatArray:
        """Return the log density at ``y``, or the log probability of a count; (n_rows,)."""
        at = self._targets(y)
        with np.errstate(all="ignore"):
            return np.where(np.isinf(at), -np.inf, self._log_pdf(at))

    def _log_pdf(self, at: FloatArray) -> FloatArray:
        law = self._law()
        return np.asarray(law.logpmf(at) if self.discrete else law.logpdf(at))

    def sample(self, n: int = 1, random_state: int | np.random.Generator | None = None) -> Any:
        """Draw ``n`` targets for each row."""
        if n not in Interval(1, math.inf, integer=True):
            raise ParameterError(f"n must be an integer at least 1; got {brief(n)}.")
        seed = 0 if random_state is None else random_state
        if not isinstance(seed, np.random.Generator) and seed not in _SEED:
            raise ParameterError(
                f"random_state must be {_SEED}, a numpy.random.Generator, or None; got "
                f"{brief(seed)}."
            )
        drawn = self._law().rvs(size=(n, len(self)), random_state=np.random.default_rng(seed))
        return np.ascontiguousarray(drawn.T, dtype=np.float64)

    def crps(self, y: Any) -> FloatArray:
        """Return the CRPS of each row, float64 (n_rows,); 0 is best, infinite at infinity."""
        at = self._targets(y)
        with np.errstate(all="ignore"):
            return np.where(np.isinf(at), np.inf, self._crps(at))

    @abstractmethod
    def _crps(self, at: FloatArray) -> FloatArray:
        """Return the CRPS at finite targets."""

    def _targets(self, y: Any) -> FloatArray:
        given = real_numbers(y)
        if given is None:
            raise DataTypeError(f"y must hold numbers; got {brief(y)}.")
        if given.ndim > 1 or (given.ndim == 1 and len(given) != len(self)):
            raise DataError(
                f"y must be a number, or one for each of the {len(self)} rows; it has shape "
                f"{given.shape}."
            )
        return np.broadcast_to(given, len(self))


@dataclass(frozen=True, slots=True, eq=False)
class Normal(Distribution):
    """Normal distributions: ``location`` and ``scale``, float64 (n_rows,)."""

    location: FloatArray
    scale: FloatArray

    def _law(self) -> Any:
        return scipy.stats.norm(self.location, self.scale)

    @property
    def mean(self) -> FloatArray:
        return self.location

    @property
    def variance(self) -> FloatArray:
        return self.scale**2

    def _crps(self, at: FloatArray) -> FloatArray:
        z = (at - self.location) / self.scale
        density = np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
        spread = z * (2.0 * special.ndtr(z) - 1.0) + 2.0 * density - 1.0 / math.sqrt(math.pi)
        return np.asarray(self.scale * spread)


@dataclass(frozen=True, slots=True, eq=False)
class LogNormal(Distribution):
    """Distributions whose logarithm is normal, with ``location`` and ``scale`` (n_rows,).

    The variance is ``mean**2 (exp(scale**2) - 1)``, the median ``exp(location)``.
    """

    location: FloatArray
    scale: FloatArray

    def _law(self) -> Any:
        return scipy.stats.lognorm(self.scale, scale=np.exp(np.minimum(self.location, _FARTHEST)))

    @property
    def mean(self) -> FloatArray:
        return np.asarray(np.exp(np.minimum(self.location + 0.5 * self.scale**2, _FARTHEST)))

    @property
    def variance(self) -> FloatArray:
        with np.errstate(over="ignore"):
            return np.asarray(self.mean**2 * np.expm1(np.minimum(self.scale**2, _FARTHEST)))

    def _crps(self, at: FloatArray) -> FloatArray:
        z = np.where(at > 0.0, (np.log(at) - self.location) / self.scale, -np.inf)
        tail = special.ndtr(z - self.scale) - special.ndtr(-self.scale * math.sqrt(0.5))
        return np.asarray(at * (2.0 * special.ndtr(z) - 1.0) - 2.0 * self.mean * tail)


@dataclass(frozen=True, slots=True, eq=False)
class Poisson(Distribution):
    """Poisson distributions: mean ``rate``, float64 (n_rows,)."""

    discrete: ClassVar[bool] = True
    rate: FloatArray

    def _law(self) -> Any:
        return scipy.stats.poisson(self.rate)

    @property
    def mean(self) -> FloatArray:
        return self.rate

    @property
    def variance(self) -> FloatArray:
        return self.rate

    def _crps(self, at: FloatArray) -> FloatArray:
        rate, here = self.rate, np.exp(self._log_pdf(np.floor(at)))
        own = (at - rate) * (2.0 * self.cdf(at) - 1.0) + 2.0 * rate * here
        # Half the mean difference of two draws.
        return np.asarray(own - rate * (special.i0e(2.0 * rate) + special.i1e(2.0 * rate)))


def check_level(level: Any) -> None:
    """Raise ``ParameterError`` unless ``level`` is a number in (0, 1)."""
    if level not in _LEVEL:
        raise ParameterError(f"level must be {_LEVEL}; got {brief(level)}.")
